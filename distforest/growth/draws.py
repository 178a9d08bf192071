"""Draws: which projections an open node tries. Each is a function of the node's random stream alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from distforest.forest.frontier import Frontier
from distforest.growth.rng import below, mix, unit
from distforest.jit import kernel
from distforest.sources.source import Floats, Ints, Projections, Rows, Source, offsets

Keys = NDArray[np.uint64]


class Draw(Protocol):
    """Candidate projections of open nodes; a node without a cut asks again, ``attempts`` times in all."""

    @property
    def width(self) -> int:
        """Candidates of a node in one attempt."""

    @property
    def attempts(self) -> int:
        """How often a node may ask."""

    def __call__(self, frontier: Frontier, keys: Keys, attempt: int) -> Projections:
        """The candidates of each node of ``frontier``, from ``keys``, the nodes' streams, shape (n_nodes,)."""


@dataclass(frozen=True)
class Axis:
    """Single columns, ``width`` at a time along a random order of all ``n_columns``, until they are used up."""

    n_columns: int
    width: int

    @property
    def attempts(self) -> int:
        """As many as it takes to try every column."""
        return -(-self.n_columns // self.width)

    def __call__(self, frontier: Frontier, keys: Keys, attempt: int) -> Projections:
        """Entries attempt * width, ... of each node's order of the columns."""
        first = attempt * self.width
        width = min(self.width, self.n_columns - first)
        columns = np.empty((frontier.n_nodes, width), np.int32)
        axis_columns(keys, self.n_columns, first, columns)
        n = frontier.n_nodes * width
        return Projections(width, np.arange(n + 1, dtype=np.int64), columns.reshape(-1), np.ones(n))


@kernel
def axis_columns(keys: Keys, n_columns: int, first: int, columns: Rows) -> None:
    """Entries first, first + 1, ... of a Fisher-Yates shuffle of 0..n_columns-1, one shuffle for each key."""
    order = np.arange(n_columns)
    swapped = np.empty(n_columns, np.int64)
    last = first + columns.shape[1]
    for f in range(keys.shape[0]):
        for t in range(last):
            swapped[t] = t + below(keys[f], t, n_columns - t)
            order[t], order[swapped[t]] = order[swapped[t]], order[t]
        for t in range(first, last):
            columns[f, t - first] = order[t]
        for t in range(last - 1, -1, -1):  # undone, so that a node costs last steps and not n_columns
            order[t], order[swapped[t]] = order[swapped[t]], order[t]


@dataclass(frozen=True)
class Oblique:
    """Sparse sums of columns with weights +1 or -1 (SMERF, section 2; Tomita et al., SPORF).

    Each of the ``width`` candidates reads one column, and ``width * (combinations - 1)`` further columns (rounded)
    are dealt out among them at random; the columns of one candidate differ.
    """

    n_columns: int
    width: int
    combinations: float
    attempts: int = 3

    def __call__(self, frontier: Frontier, keys: Keys, attempt: int) -> Projections:
        """``width`` candidates for each node."""
        total = self.width + round(self.width * (self.combinations - 1.0))
        size = np.empty(frontier.n_nodes * self.width, np.int64)
        columns = np.empty(frontier.n_nodes * total, np.int32)
        weights = np.empty(frontier.n_nodes * total)
        n = oblique_terms(keys, attempt, self.n_columns, self.width, size, columns, weights)
        offset = offsets(size)
        return Projections(self.width, offset, columns[:n], weights[:n])


@kernel
def oblique_terms(
    keys: Keys, attempt: int, n_columns: int, width: int, size: Ints, columns: Rows, weights: Floats
) -> int:
    """Deal the columns out: ``size`` of each candidate, then its distinct columns, each with a random sign."""
    extra = columns.shape[0] // keys.shape[0] - width if keys.shape[0] else 0
    filled = 0
    for f in range(keys.shape[0]):
        key = mix(keys[f] + np.uint64(attempt))
        drawn = 0
        own = size[f * width : (f + 1) * width]
        own[:] = 1
        for _ in range(extra):
            own[below(key, drawn, width)] += 1
            drawn += 1
        for k in range(width):
            own[k] = min(own[k], n_columns)
            begin = filled
            while filled < begin + own[k]:
                column = below(key, drawn, n_columns)
                sign = unit(key, drawn + 1)
                drawn += 2
                if column not in columns[begin:filled]:
                    columns[filled] = column
                    weights[filled] = 1.0 if sign < 0.5 else -1.0
                    filled += 1
    return filled


@dataclass(frozen=True)
class TwoObjects:
    """Column j minus column i of the similarity matrix, for two unlike objects of the node (SimForest).

    i is uniform over the node's objects, j has a probability in proportion to its unlikeness to i: 1 for another
    class and 0 for the same, or the difference of the targets. S_ij must be observed and the squared scale
    S_ii + S_jj - 2 S_ij positive; a pair that fails is drawn again, ``tries`` times in all.
    """

    source: Source
    targets: Floats
    by_class: bool
    width: int
    attempts: int = 4
    tries: int = 4

    def __call__(self, frontier: Frontier, keys: Keys, attempt: int) -> Projections:
        """``width`` pairs for each node; a pair that could not be found is an empty candidate."""
        n = frontier.n_nodes * self.width
        pairs = np.full((n, 2), -1, np.int32)
        missing = np.arange(n)
        for trial in range(self.tries):
            drawn = np.full((len(missing), 2), -1, np.int32)
            first = (attempt * self.tries + trial) * 2 * self.width
            draw_pairs(
                *(missing, self.width, first, keys, frontier.starts, frontier.rows),
                *(self.targets, self.by_class, drawn),
            )
            pairs[missing] = np.where(self._usable(drawn)[:, None], drawn, -1)
            missing = missing[pairs[missing, 0] < 0]
            if not len(missing):
                break
        found = pairs[:, 0] >= 0
        offset = offsets(2 * found)
        n_found = int(found.sum())
        return Projections(self.width, offset, pairs[found].reshape(-1), np.tile([1.0, -1.0], n_found))

    def _usable(self, pairs: Rows) -> NDArray[np.bool_]:
        """Whether each (j, i) is a direction: observed, and of positive length."""
        usable = pairs[:, 0] >= 0
        j, i = pairs[usable, 0], pairs[usable, 1]
        asked = self.source.entries(np.concatenate([i, j, i]), np.concatenate([i, j, j]))
        s_ii, s_jj, s_ij = asked.reshape(3, -1)
        usable[usable] = s_ii + s_jj - 2.0 * s_ij > 0.0  # False where one of them is unobserved
        return usable


@kernel
def draw_pairs(
    wanted: Ints,
    width: int,
    first: int,
    keys: Keys,
    starts: Ints,
    rows: Rows,
    targets: Floats,
    by_class: bool,
    pairs: Rows,
) -> None:
    """pairs[e] = (j, i): i uniform, P(j | i) in proportion to 1[y_j != y_i] or |y_j - y_i|; left as it is if all 0."""
    for e in range(wanted.shape[0]):
        node, k = wanted[e] // width, wanted[e] % width
        group = rows[starts[node] : starts[node + 1]]
        draw = first + 2 * k
        i = group[below(keys[node], draw, group.shape[0])]
        total = 0.0
        for row in group:
            total += _unlikeness(targets[row], targets[i], by_class)
        goal = unit(keys[node], draw + 1) * total
        reached = 0.0
        for row in group:
            part = _unlikeness(targets[row], targets[i], by_class)
            reached += part
            if part > 0.0:
                pairs[e, 0] = row
                pairs[e, 1] = i
                if reached > goal:
                    break


@kernel
def _unlikeness(y: float, other: float, by_class: bool) -> float:
    """1[y != y'] of two classes, |y - y'| of two targets."""
    if by_class:
        return 1.0 if y != other else 0.0
    return abs(y - other)
