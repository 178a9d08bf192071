"""Pairs of objects, of different classes or targets, that a node's candidates compare (SimForest).

A pair is (j, i). *Fresh* pairs are drawn as in the paper: i is uniform over the node's objects, and the probability of
j is proportional to its disagreement with i. *Kept* pairs have this distribution at the root, but a tree draws them
once for all its nodes. Each candidate of a tree has a random order of all objects; i is the first object of the node in
that order, and j the first that disagrees with it. So i is drawn again in the child that contains it, and j in the
other child if they are separated (for targets, almost always), as long as some object there disagrees. The similarities
to it are known already.

::

    an order of the objects     c  f  a  d  b  e      of class 0: c a d, of class 1: f b e
    a node of   a b c d e f     c  f                  i = c, j = f
    below it    a c d e         c  .  a  d  .  e      i = c again, j = e
                b f             .  f  .  .  b  .      one class: a leaf

With landmarks and classes, the pair of classes is drawn in this way, and then a landmark of each class. With targets,
the pair itself is drawn from the landmarks.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from distforest.growth.draws.landmarks import ANY_OBJECT, Landmarks, landmarks_near
from distforest.growth.rng import Keys, below, random_bits, unit
from distforest.jit import kernel, no_refcount
from distforest.sources.source import Floats, Int32s, Ints, Projections, Source, runs

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from distforest.forest.frontier import Frontier, Nodes

    Usable = Callable[[Ints, Int32s, Int32s], NDArray[np.bool_]]
    """Function that decides whether pairs (j, i), drawn for candidates numbered over all nodes, may be used."""

    Pairing = Callable[[Ints, int, int, Frontier, Keys, Int32s], None]
    """Function that fills pairs[e] = (j, i) for candidate wanted[e] of all nodes, each with ``width``, in some trial.

    The arguments are ``(wanted, width, trial, frontier, keys, pairs)``. A pair is drawn from the nodes' streams, the
    keys, or from those of their trees, and left unchanged if a node has none. ``trial`` counts the pairs of a
    candidate over all its attempts.
    """

FIRST_MEASURE = 1 << 37
"""First draw of a stream that chooses measures."""


class Measures(NamedTuple):
    """The measures of a source whose columns are object 0, 1, ... by measure 0, then by measure 1, and so on."""

    n_objects: int  # number of columns of each measure
    reached: Floats  # sums of the measures' shares in the draw, up to each of them, shape (n_measures,); the last is 1
    of_distances: NDArray[np.bool_]  # whether each measure contains -d^2/2, whose diagonal is 0, shape (n_measures,)

    @classmethod
    def from_weights(cls, n_objects: int, weights: Floats, of_distances: NDArray[np.bool_]) -> Measures:
        """Return measures that are drawn in proportion to ``weights``, shape (n_measures,).

        Examples
        --------
        >>> Measures.from_weights(9, np.array([1.0, 3.0]), np.array([False, True])).reached
        array([0.25, 1.  ])
        """
        reached = np.cumsum(weights) / weights.sum()
        reached[np.flatnonzero(weights)[-1] :] = 1.0  # rounding must not draw a measure of weight 0
        return cls(n_objects, reached, of_distances)

    def drawn(self, keys: Keys, attempt: int, width: int) -> Compared:
        """Return the measure of each of ``width`` candidates of some nodes, from the nodes' streams ``keys``."""
        if len(self.reached) == 1:
            return Compared(self, None)
        chosen = np.empty(len(keys) * width, np.int32)
        draw_measures(keys, FIRST_MEASURE + attempt * width, width, self.reached, chosen)
        return Compared(self, chosen)


ONE_MEASURE = Measures(1, np.ones(1), np.array([False]))
"""A single similarity that is not -d^2/2; its number of columns does not matter."""


class Compared(NamedTuple):
    """The measures by which candidates compare objects."""

    measures: Measures  # the measures
    chosen: Int32s | None  # the measure of each candidate, shape (n_candidates,); None if there is only one

    def columns(self, candidates: Ints | NDArray[np.bool_], objects: Int32s) -> Int32s:
        """Return the columns of objects by the measures of their candidates, both of shape (n,)."""
        if self.chosen is None:
            return objects
        columns: Int32s = objects + self.chosen[candidates] * np.int32(self.measures.n_objects)
        return columns

    def are_distances(self, candidates: Ints) -> NDArray[np.bool_]:
        """Return whether the measures of some candidates contain -d^2/2, shape (n,), or (1,) for a single measure."""
        if self.chosen is None:
            return self.measures.of_distances
        of_distances: NDArray[np.bool_] = self.measures.of_distances[self.chosen[candidates]]
        return of_distances


@kernel
def draw_measures(keys: Keys, first: int, width: int, reached: Floats, chosen: Int32s) -> None:
    """chosen[f * width + k] = the first m with reached[m] > u, u of draw first + k of node f."""
    for node in range(keys.shape[0]):
        for k in range(width):
            u, m = unit(keys[node], first + k), 0
            while reached[m] <= u:
                m += 1
            chosen[node * width + k] = m


FIRST_LANDMARK = 1 << 35
"""First draw of a node's stream that chooses landmarks for the classes of a pair."""

PAIR_TRIES = 4
"""Largest number of pairs that are drawn for a candidate in one attempt until one is usable."""

LENGTH_ROUNDING = 1e-9
"""Share of S_ii and S_jj by which rounding may make the square of a length negative."""


class Disagreement(NamedTuple):
    """The difference of the ground truths of two objects: 1[y != y'] for classes, |y - y'| for targets."""

    targets: Floats  # the class or target of each object, shape (n_rows,)
    by_class: bool  # whether they are classes


@dataclass(frozen=True)
class AnyPairs:
    """A pairing that draws i uniformly from the objects of the node, and j from the others.

    If objects have weights, each stands for as many equal objects. So a pair may be an object and itself, which no rule
    accepts, as it accepts no equal objects. The pairs from number ``n_weighted`` on are of different objects, without
    weights, as a heavy object leaves no others to be drawn.
    """

    n_weighted: int = 0

    def __call__(self, wanted: Ints, width: int, trial: int, frontier: Frontier, keys: Keys, pairs: Int32s) -> None:
        """See `draw_any_pairs`."""
        draw_any_pairs(wanted, width, trial * 2 * width, keys, frontier.nodes, trial < self.n_weighted, pairs)


@dataclass(frozen=True)
class FreshPairs:
    """A pairing in which each node draws its own pairs, from the landmarks if there are any."""

    truth: Disagreement
    landmarks: Landmarks = ANY_OBJECT

    def __call__(self, wanted: Ints, width: int, trial: int, frontier: Frontier, keys: Keys, pairs: Int32s) -> None:
        """See `draw_pairs`."""
        draw_pairs(wanted, width, trial * 2 * width, keys, frontier.nodes, self.truth, self.landmarks, pairs)


@dataclass(frozen=True)
class KeptPairs:
    """A pairing by orders of the objects that the nodes of a tree share; ``trees`` are the trees' streams."""

    truth: Disagreement
    trees: Keys

    def __call__(
        self,
        wanted: Ints,
        width: int,
        trial: int,
        frontier: Frontier,
        keys: Keys,  # noqa: ARG002  (the tree's stream decides)
        pairs: Int32s,
    ) -> None:
        """See `draw_kept_pairs`."""
        draw_kept_pairs(wanted, width, trial * width, self.trees[frontier.tree], frontier.nodes, self.truth, pairs)


def usable_pairs(
    pairing: Pairing, width: int, frontier: Frontier, keys: Keys, attempt: int, rules: Sequence[Usable]
) -> Int32s:
    """Draw ``width`` pairs (j, i) for each node, shape (n_nodes * width, 2); -1 for a candidate without a usable pair.

    A candidate takes the first of `PAIR_TRIES` pairs that the first rule accepts. If it accepts none, the second rule
    is applied to the same pairs.
    """
    pairs = np.full((frontier.n_nodes * width, 2), -1, np.int32)
    missing = np.arange(len(pairs))
    for rule, trial in product(rules, range(attempt * PAIR_TRIES, (attempt + 1) * PAIR_TRIES)):
        drawn = np.full((len(missing), 2), -1, np.int32)
        pairing(missing, width, trial, frontier, keys, drawn)
        usable = drawn[:, 0] >= 0
        usable[usable] = rule(missing[usable], drawn[usable, 0], drawn[usable, 1])
        pairs[missing[usable]] = drawn[usable]
        missing = missing[~usable]
        if not len(missing):
            break
    return pairs


def rules_of_similarities(source: Source, frontier: Frontier, width: int, compared: Compared) -> tuple[Usable, Usable]:
    """Return two rules: a pair is a direction; or its diagonal carries no information, and it separates the objects.

    ``compared`` contains the measure of each of the ``width`` candidates of a node.
    """
    return partial(are_directions, source, compared), partial(tell_apart, source, frontier, width, compared)


def similarities_of_pairs(
    source: Source, compared: Compared, candidates: Ints, j: Int32s, i: Int32s
) -> tuple[Floats, Floats, Floats]:
    """Return S_ii, S_jj and S_ij of pairs, each by the measure of its candidate, all of shape (n_pairs,)."""
    column_j, column_i = compared.columns(candidates, j), compared.columns(candidates, i)
    columns = np.concatenate([column_i, column_j, column_j])
    s_ii, s_jj, s_ij = source.entries(np.concatenate([i, j, i]), columns).reshape(3, -1)
    return s_ii, s_jj, s_ij


def are_directions(source: Source, compared: Compared, candidates: Ints, j: Int32s, i: Int32s) -> NDArray[np.bool_]:
    """Return whether S_ii + S_jj - 2 S_ij, the square of the length from i to j, is observed and positive."""
    s_ii, s_jj, s_ij = similarities_of_pairs(source, compared, candidates, j, i)
    positive: NDArray[np.bool_] = s_ii + s_jj - 2.0 * s_ij > 0.0  # False where one of them is unobserved
    return positive


def tell_apart(
    source: Source, frontier: Frontier, width: int, compared: Compared, candidates: Ints, j: Int32s, i: Int32s
) -> NDArray[np.bool_]:
    """Return whether the diagonal is blank, S_ij is observed, and S_kj - S_ki differs over the node's objects k.

    The diagonal is blank, that is, carries no information, if S_ii or S_jj is unobserved; if one of them is 0 and S is
    not -d^2/2; or if they are so small that the square of the length from i to j would be negative. Two equal objects
    have a length of 0, so their columns are not read, and a lazy source need not evaluate them. Unobserved values of
    S_kj - S_ki are omitted.
    """
    s_ii, s_jj, s_ij = similarities_of_pairs(source, compared, candidates, j, i)
    is_blank = np.isnan(s_ii + s_jj) | (s_ii + s_jj - 2.0 * s_ij < -LENGTH_ROUNDING * (np.abs(s_ii) + np.abs(s_jj)))
    is_blank |= ~compared.are_distances(candidates) & ((s_ii == 0.0) | (s_jj == 0.0))
    usable = is_blank & ~np.isnan(s_ij)
    n = int(usable.sum())
    if n:
        starts, places = runs(frontier.starts, candidates[usable] // width)
        sides = (compared.columns(candidates[usable], side[usable]) for side in (j, i))
        columns = np.stack([*sides], axis=1).reshape(-1)
        differences = Projections(1, 2 * np.arange(n + 1), columns, np.tile([1.0, -1.0], n))
        values = source.project(frontier.rows[places], starts, differences)[0]
        usable[usable] = np.fmin.reduceat(values, starts[:-1]) < np.fmax.reduceat(values, starts[:-1])
    return usable


@kernel
def draw_any_pairs(
    wanted: Ints, width: int, first: int, keys: Keys, nodes: Nodes, weighted: bool, pairs: Int32s
) -> None:
    """pairs[e] = (j, i): i uniform over the rows of a node, j over its others; left as it is for one row.

    If ``weighted``, a row of weight w is w rows, one after the other.
    """
    starts, rows, weights = nodes
    for e in range(wanted.shape[0]):
        node, draw = wanted[e] // width, first + 2 * (wanted[e] % width)
        group, own = rows[starts[node] : starts[node + 1]], weights[starts[node] : starts[node + 1]]
        if group.shape[0] > 1:
            n = np.int64(group.shape[0])
            if weighted:
                n = own.sum()
            i = below(keys[node], draw, n)
            j = below(keys[node], draw + 1, n - 1)
            j += j >= i
            pairs[e, 0] = group[row_of_copy(own, j) if weighted else j]
            pairs[e, 1] = group[row_of_copy(own, i) if weighted else i]


@no_refcount
def row_of_copy(weights: Int32s, copy: int) -> int:
    """Return the position of the row of copy number ``copy``, if each row has as many copies as its weight."""
    place, before = 0, np.int64(weights[0])
    while before <= copy:
        place += 1
        before += weights[place]
    return place


@kernel
def draw_pairs(
    wanted: Ints,
    width: int,
    first: int,
    keys: Keys,
    nodes: Nodes,
    truth: Disagreement,
    landmarks: Landmarks,
    pairs: Int32s,
) -> None:
    """pairs[e] = (j, i): i uniform, P(j | i) in proportion to their disagreement; unchanged if all of them agree.

    With landmarks j and i are drawn from `landmarks_near`: for targets in this way, else uniformly, each for its class.
    """
    (starts, rows, _), (targets, by_class) = nodes, truth
    for e in range(wanted.shape[0]):
        node, k = wanted[e] // width, wanted[e] % width
        group = rows[starts[node] : starts[node + 1]]
        draw = first + 2 * k
        if landmarks.rows.shape[0] > 0 and not by_class:
            group = landmarks_near(0.0, group, landmarks, targets, by_class)
        i = group[below(keys[node], draw, group.shape[0])]
        total = 0.0
        for row in group:
            total += disagreement(truth, row, i)
        goal = unit(keys[node], draw + 1) * total
        reached = 0.0
        for row in group:
            part = disagreement(truth, row, i)
            reached += part
            if part > 0.0:
                pairs[e, 0] = row
                pairs[e, 1] = i
                if reached > goal:
                    break
        if landmarks.rows.shape[0] > 0 and by_class and pairs[e, 0] >= 0:
            for side in range(2):
                near = landmarks_near(targets[pairs[e, side]], group, landmarks, targets, by_class)
                pairs[e, side] = near[below(keys[node], FIRST_LANDMARK + draw + side, near.shape[0])]


@kernel
def draw_kept_pairs(
    wanted: Ints, width: int, first: int, tree_keys: Keys, nodes: Nodes, truth: Disagreement, pairs: Int32s
) -> None:
    """pairs[e] = (j, i): i = argmin u_row over the node, j = argmin (E_row - E_i) / disagreement of row and i.

    u are the numbers of order first + k of the node's tree, whose stream is ``tree_keys[node]``. They are uniform in
    [0, 1), and E = -log(1 - u) is exponential: the excess of the others' E over the least one is exponential again, so
    P(j | i) is proportional to the disagreement. For classes j is the argmin of u over the other classes. A pair is
    unchanged if all agree.
    """
    (starts, rows, _), (targets, by_class) = nodes, truth
    for e in range(wanted.shape[0]):
        node, k = wanted[e] // width, wanted[e] % width
        group = rows[starts[node] : starts[node + 1]]
        order = random_bits(tree_keys[node], first + k)
        i, j = -1, -1
        u_i, least = 2.0, math.inf
        for row in group:
            u = unit(order, row)
            if u < u_i:
                if by_class and i >= 0 and targets[row] != targets[i]:
                    j, least = i, u_i
                i, u_i = row, u
            elif by_class and targets[row] != targets[i] and u < least:
                j, least = row, u
        if not by_class:
            for row in group:
                if targets[row] != targets[i]:
                    wait = (math.log(1.0 - u_i) - math.log(1.0 - unit(order, row))) / abs(targets[row] - targets[i])
                    if j < 0 or wait < least:
                        j, least = row, wait
        if j >= 0:
            pairs[e, 0], pairs[e, 1] = j, i


@no_refcount
def disagreement(truth: Disagreement, row: int, other: int) -> float:
    """1[y != y'] of two rows with classes, |y - y'| of two with targets."""
    y, y_other = truth.targets[row], truth.targets[other]
    if truth.by_class:
        return 1.0 if y != y_other else 0.0
    return abs(y - y_other)
