"""SimForest's draws: two columns of similarities, means of more, features, or one object of each class.

A pair (j, i) is drawn as in `distforest.growth.draws.object_pairs`, and again if it is not usable.

*Exemplars* are one object of each class of a node, and a row goes to the nearest of them. ProximityForest splits nodes
in this way (Lucas et al., Proximity Forest: an effective and scalable distance-based classifier for time series, Data
Mining and Knowledge Discovery, 2019). Each candidate has a random order of all objects; its exemplar of a class is the
first object of the class in the node in that order, so all of them are equally likely. *Fresh* orders are those of a
node, *kept* ones those of a tree: as with pairs, an exemplar is drawn again in the child that contains it, and the
similarities to it are known already.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from distforest.growth.draws.column_draws import Terms
from distforest.growth.draws.landmarks import ANY_OBJECT, Landmarks, landmarks_near
from distforest.growth.draws.object_pairs import (
    ONE_MEASURE,
    Disagreement,
    FreshPairs,
    KeptPairs,
    Measures,
    disagreement,
    rules_of_similarities,
    usable_pairs,
)
from distforest.growth.rng import below, random_bits, shuffle, unit
from distforest.jit import kernel, no_refcount
from distforest.sources.source import Float32s, Floats, Int32s, Ints, Projections, Source

if TYPE_CHECKING:
    from distforest.forest.frontier import Frontier, Nodes
    from distforest.growth.draws.object_pairs import Pairing
    from distforest.growth.rng import Keys

EXTRA = 1 << 32
"""First draw of a node's stream that starts the stream of a candidate, for draws beside its pair."""

DRAW_ATTEMPTS = 4
"""Largest number of times that a node draws candidates until it finds a cut."""

SUBSET_SIZES = (1, 2, 4)
"""Numbers of features of a random similarity, equally likely."""


class Attempt(NamedTuple):
    """An attempt of some nodes to draw candidates, for kernels."""

    keys: Keys  # the nodes' streams, shape (n_nodes,)
    number: int  # which attempt it is, from 0 on
    width: int  # candidates of a node


@dataclass(frozen=True)
class TwoObjects:
    """The mean of ``n_columns`` columns on the side of j minus that of as many on the side of i.

    A pair (j, i) is usable if S_ij is observed and the squared length S_ii + S_jj - 2 S_ij is positive. If no pair is
    usable, `tell_apart` decides. The further columns of a side are objects of the node, drawn without replacement, that
    disagree less with the object of their side than with the other one (for classes: objects of its class). With
    landmarks, all columns are landmarks: those of `landmarks_near` replace the node's objects.
    """

    source: Source  # the similarities S
    truth: Disagreement  # classes or targets of the objects
    # width, n_columns, attempts: candidates of a node in one attempt, columns of a side, and largest number of attempts
    width: int
    n_columns: int = 1
    attempts: int = DRAW_ATTEMPTS
    landmarks: Landmarks = ANY_OBJECT  # the objects that may be columns
    # whether a tree draws its pairs, and the measure of each, once for all its nodes, see `KeptPairs`
    kept: bool = False
    trees: Keys | None = None  # the streams of the trees that grow, shape (n_trees,), if pairs are kept
    # the similarities by which objects are compared, side by side in ``source``: each candidate draws one of them
    measures: Measures = ONE_MEASURE

    def of_trees(self, keys: Keys) -> TwoObjects:
        """Return the draw for the trees of these streams."""
        return replace(self, trees=keys)

    @property
    def pairing(self) -> Pairing:
        """The pairing that draws pairs."""
        if not self.kept:
            return FreshPairs(self.truth, self.landmarks)
        assert self.trees is not None  # noqa: S101  (the grower calls `of_trees` first)
        return KeptPairs(self.truth, self.trees)

    def __call__(self, frontier: Frontier, keys: Keys, attempt: int) -> Projections:
        """Return ``width`` candidates for each node, empty if no usable pair was drawn."""
        streams = self.trees[frontier.tree] if self.kept and self.trees is not None else keys
        compared = self.measures.drawn(streams, attempt, self.width)
        rules = rules_of_similarities(self.source, frontier, self.width, compared)
        pairs = usable_pairs(self.pairing, self.width, frontier, keys, attempt, rules)
        terms = Terms.room(len(pairs), 2 * self.n_columns * int((pairs[:, 0] >= 0).sum()))
        drawn_by = Attempt(keys, attempt, self.width)
        filled = fill_sides(pairs, drawn_by, self.n_columns, frontier.nodes, self.truth, self.landmarks, terms)
        projections = terms.projections(self.width, filled)
        if compared.chosen is None:
            return projections
        of_columns = np.repeat(np.arange(len(pairs)), terms.size)
        return projections._replace(columns=compared.columns(of_columns, projections.columns))


@dataclass(frozen=True)
class FeatureSubsets:
    """Linear similarities over random features F: S_kj - S_ki = sum over F of x_kf (x_jf - x_if).

    F is 1, 2 or 4 of the features that j and i both have and in which they differ, or all of them if there are fewer.
    The difference is unobserved for an object that lacks a feature of F.
    """

    features: Float32s
    truth: Disagreement
    width: int
    attempts: int = DRAW_ATTEMPTS

    def __call__(self, frontier: Frontier, keys: Keys, attempt: int) -> Projections:
        """Return ``width`` candidates for each node, empty if no usable pair was drawn."""
        pairs = usable_pairs(FreshPairs(self.truth), self.width, frontier, keys, attempt, [self._differ])
        terms = Terms.room(len(pairs), SUBSET_SIZES[-1] * int((pairs[:, 0] >= 0).sum()))
        filled = fill_subsets(pairs, Attempt(keys, attempt, self.width), self.features, SUBSET_SIZES, terms)
        return terms.projections(self.width, filled)

    def _differ(self, candidates: Ints, j: Int32s, i: Int32s) -> NDArray[np.bool_]:  # noqa: ARG002  (in any node)
        of_j, of_i = self.features[j], self.features[i]
        return np.asarray(((of_j < of_i) | (of_j > of_i)).any(axis=1))  # NaN, which is missing, is neither


@no_refcount
def stream_of(candidate: int, attempt: Attempt) -> np.uint64:
    """Return the stream of a candidate, for its draws beside its pair."""
    node, k = candidate // attempt.width, candidate % attempt.width
    return random_bits(attempt.keys[node], EXTRA + attempt.number * attempt.width + k)


@kernel
def fill_sides(
    pairs: Int32s,
    attempt: Attempt,
    n_columns: int,
    nodes: Nodes,
    truth: Disagreement,
    landmarks: Landmarks,
    terms: Terms,
) -> int:
    """Fill ``terms`` with the columns of j's side, weighted 1 / their number, then those of i's side with -1 / theirs.

    Return the total number of columns.
    """
    (starts, rows, _), (targets, by_class), (size, columns, weights) = nodes, truth, terms
    filled = 0
    for candidate in range(pairs.shape[0]):
        begin = filled
        if pairs[candidate, 0] >= 0:
            node, extra = candidate // attempt.width, stream_of(candidate, attempt)
            group = rows[starts[node] : starts[node + 1]]
            drawn = 0
            for side in range(2):
                row, other = pairs[candidate, side], pairs[candidate, 1 - side]
                n_side = 1
                columns[filled] = row
                if n_columns > 1:
                    pool = group
                    if landmarks.rows.shape[0] > 0:
                        pool = landmarks_near(targets[row], group, landmarks, targets, by_class)
                    near = near_side(row, other, pool, truth)
                    n_side = min(n_columns, 1 + near.shape[0])
                    shuffle(extra, drawn, near, n_side - 1)
                    drawn += n_side - 1
                    for e in range(n_side - 1):
                        columns[filled + 1 + e] = near[e]
                weights[filled : filled + n_side] = (1.0 - 2.0 * side) / n_side
                filled += n_side
        size[candidate] = filled - begin
    return filled


@kernel
def near_side(of: int, other: int, group: Int32s, truth: Disagreement) -> Int32s:
    """Return the rows of a group, without the pair, that disagree less with row ``of`` than with ``other``."""
    near = np.empty(group.shape[0], np.int32)
    n = 0
    for row in group:
        if row not in (of, other) and disagreement(truth, row, of) < disagreement(truth, row, other):
            near[n] = row
            n += 1
    return near[:n]


@kernel
def fill_subsets(pairs: Int32s, attempt: Attempt, features: Float32s, sizes: tuple[int, ...], terms: Terms) -> int:
    """Fill ``terms`` with random features f in which j and i differ, weighted x_jf - x_if; return their total number.

    A feature that is missing in one of them does not differ.
    """
    (size, columns, weights), filled = terms, 0
    differing = np.empty(features.shape[1], np.int32)
    for candidate in range(pairs.shape[0]):
        begin = filled
        if pairs[candidate, 0] >= 0:
            j, i = features[pairs[candidate, 0]], features[pairs[candidate, 1]]
            extra = stream_of(candidate, attempt)
            n = 0
            for f in range(features.shape[1]):
                if j[f] < i[f] or j[f] > i[f]:
                    differing[n] = f
                    n += 1
            n_drawn = min(n, sizes[below(extra, 0, len(sizes))])
            shuffle(extra, 1, differing[:n], n_drawn)
            for f in differing[:n_drawn]:
                columns[filled] = f
                weights[filled] = np.float64(j[f]) - np.float64(i[f])
                filled += 1
        size[candidate] = filled - begin
    return filled


MOST_EXEMPLARS = 32
"""Largest number of classes of a candidate; a chain of k exemplars has k (k - 1) / 2 nodes."""

NONE_YET = 2.0
"""A value above any number of an order."""


class Orders(NamedTuple):
    """The orders of some nodes: ``width`` from number ``first`` on of each of their streams, shape (n_nodes,)."""

    keys: Keys
    first: int
    width: int


@dataclass(frozen=True)
class Exemplars:
    """A draw of ``width`` candidates of one object per class, as projections with the exemplars as columns."""

    targets: Floats  # class of each object, a whole number from 0 on, shape (n_objects,)
    # n_classes, width: number of classes, and of candidates of a node in one attempt
    n_classes: int
    width: int
    attempts: int = DRAW_ATTEMPTS
    landmarks: Landmarks = ANY_OBJECT  # the objects that may be exemplars
    kept: bool = False  # whether a tree draws its orders, and the measure of each, once for all its nodes
    trees: Keys | None = None  # the streams of the trees that grow, shape (n_trees,), if orders are kept
    # the similarities by which objects are compared, side by side: each candidate draws one of them
    measures: Measures = ONE_MEASURE

    @property
    def most(self) -> int:
        """Largest number of exemplars of a candidate."""
        return min(self.n_classes, MOST_EXEMPLARS)

    def of_trees(self, keys: Keys) -> Exemplars:
        """Return the draw for the trees of these streams."""
        return replace(self, trees=keys)

    def __call__(self, frontier: Frontier, keys: Keys, attempt: int) -> Projections:
        """Return the candidates of each node."""
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
    """Fill ``terms`` with argmin u_row over the rows of each class in a node, by ascending u, at most ``most`` of them.

    u are the numbers of order first + k of the node's stream. With landmarks the argmin is over `landmarks_near` of the
    class. Return the total number of exemplars.
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


@no_refcount
def take_first(order: np.uint64, row: int, c: int, least: Floats, exemplar: Int32s) -> None:
    """Make a row the exemplar of its class if it precedes the current one."""
    u = unit(order, row)
    if u < least[c]:
        least[c], exemplar[c] = u, row


@no_refcount
def sort_first(values: Floats, places: Ints, n: int) -> None:
    """Move the ``n`` positions with the least ``values[place]`` to the front, in ascending order."""
    for t in range(n):
        least = t
        for other in range(t + 1, places.shape[0]):
            if values[places[other]] < values[places[least]]:
                least = other
        places[t], places[least] = places[least], places[t]
