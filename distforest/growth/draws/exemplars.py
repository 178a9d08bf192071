"""Exemplars: a candidate of SimForest is one object of each class of a node, and a row goes to the nearest of them.

ProximityForest parts nodes so (Lucas et al., Proximity Forest: an effective and scalable distance-based classifier for
time series, Data Mining and Knowledge Discovery, 2019). Each candidate has a random order of all objects; its exemplar
of a class is the first object of the class in the node in that order, so all of them are equally likely. *Fresh* orders
are those of a node, *kept* ones those of a tree: as with pairs (`distforest.growth.draws.object_pairs`), an exemplar is
drawn again in the child that holds it, and the similarities to it are known already.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from distforest.growth.draws.columns import Terms
from distforest.growth.draws.landmarks import ANY_OBJECT, Landmarks, landmarks_near
from distforest.growth.draws.measures import ONE_MEASURE, Measures
from distforest.growth.draws.objects import DRAW_ATTEMPTS
from distforest.growth.rng import Keys, random_bits, unit
from distforest.jit import borrowing, kernel
from distforest.sources.source import Floats, Int32s, Ints, Projections

if TYPE_CHECKING:
    from distforest.forest.frontier import Frontier, Nodes

MOST_EXEMPLARS = 32
"""Most classes of a candidate; a chain of k exemplars has k (k - 1) / 2 nodes."""

NONE_YET = 2.0
"""More than any number of an order."""


class Orders(NamedTuple):
    """The orders of some nodes: ``width`` from number ``first`` on of each of their streams, shape (n_nodes,)."""

    keys: Keys
    first: int
    width: int


@dataclass(frozen=True)
class Exemplars:
    """``width`` candidates of one object a class, as projections whose columns are the exemplars in their order.

    Attributes
    ----------
    targets
        Class of each object, a whole number from 0 on, shape (n_objects,).
    n_classes, width
        Number of classes, and of candidates of a node in one attempt.
    landmarks
        The objects that may be exemplars.
    kept
        Whether a tree draws its orders, and the measure of each, once for all its nodes.
    trees
        The streams of the trees that grow, shape (n_trees,), if orders are kept.
    measures
        The similarities by which objects are compared, side by side: each candidate draws one of them.
    """

    targets: Floats
    n_classes: int
    width: int
    attempts: int = DRAW_ATTEMPTS
    landmarks: Landmarks = ANY_OBJECT
    kept: bool = False
    trees: Keys | None = None
    measures: Measures = ONE_MEASURE

    @property
    def most(self) -> int:
        """Most exemplars of a candidate."""
        return min(self.n_classes, MOST_EXEMPLARS)

    def of_trees(self, keys: Keys) -> Exemplars:
        """The draw for the trees of these streams."""
        return replace(self, trees=keys)

    def __call__(self, frontier: Frontier, keys: Keys, attempt: int) -> Projections:
        """The candidates of each node."""
        if self.kept:
            assert self.trees is not None  # noqa: S101  (the grower calls `of_trees` first)
            keys = self.trees[frontier.tree]
        compared = self.measures.drawn(keys, attempt, self.width)
        n = frontier.n_nodes * self.width
        terms = Terms.room(n, self.width * int(np.minimum(frontier.sizes, self.most).sum()))
        draws = Orders(keys, attempt * self.width, self.width)
        filled = draw_exemplars(draws, frontier.nodes, self.targets, self.n_classes, self.most, self.landmarks, terms)
        drawn = terms.projections(self.width, filled)
        return drawn._replace(columns=compared.columns(np.repeat(np.arange(n), terms.size), drawn.columns))


@kernel
def draw_exemplars(
    draws: Orders, nodes: Nodes, targets: Floats, n_classes: int, most: int, landmarks: Landmarks, terms: Terms
) -> int:
    """Fill ``terms`` with argmin u_row over the rows of each class in a node, by ascending u, ``most`` at most.

    u are the numbers of order first + k of the node's stream. With landmarks the argmin is over `landmarks_near` of the
    class. Returns how many exemplars there are in all.
    """
    (keys, first, width), (starts, rows, _), (size, columns, weights) = draws, nodes, terms
    least, exemplar = np.full(n_classes, NONE_YET), np.empty(n_classes, np.int32)
    present = np.empty(n_classes, np.int64)
    filled = 0
    for node in range(keys.shape[0]):
        group = rows[starts[node] : starts[node + 1]]
        for k in range(width):
            order, n = random_bits(keys[node], first + k), 0
            for row in group:
                c = int(targets[row])
                if least[c] == NONE_YET:
                    present[n] = c
                    n += 1
                take_first(order, row, c, least, exemplar)
            if landmarks.rows.shape[0] > 0:
                for c in present[:n]:
                    least[c] = NONE_YET
                    for row in landmarks_near(float(c), group, landmarks, targets, True):
                        take_first(order, row, c, least, exemplar)
            size[node * width + k] = min(n, most)
            sort_first(least, present[:n], min(n, most))
            for c in present[: min(n, most)]:
                columns[filled], weights[filled] = exemplar[c], 1.0
                filled += 1
            for c in present[:n]:
                least[c] = NONE_YET
    return filled


@borrowing
def take_first(order: np.uint64, row: int, c: int, least: Floats, exemplar: Int32s) -> None:
    """Let a row be the exemplar of its class if it comes before the one that is."""
    u = unit(order, row)
    if u < least[c]:
        least[c], exemplar[c] = u, row


@borrowing
def sort_first(values: Floats, places: Ints, n: int) -> None:
    """Bring the ``n`` places with the least ``values[place]`` to the front, in ascending order."""
    for t in range(n):
        least = t
        for other in range(t + 1, places.shape[0]):
            if values[places[other]] < values[places[least]]:
                least = other
        places[t], places[least] = places[least], places[t]
