"""Pairs of sparse points: which columns a node draws, and how it is cut by those that are written down.

The drawn columns of some nodes are written down, and searched as dense ones. Nodes are taken together, or the columns
of a large one in parts, so that at most `VALUES_AT_ONCE` values are in memory.

Columns in which too few pairs have a value are not drawn: they are 0 for all other pairs of the node and are never cut,
so the cuts are those of `distforest.growth.draws.column_draws.Axis`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from distforest.forest.frontier import Nodes
from distforest.growth.cuts.scan import Cuts
from distforest.growth.draws.varying_columns import Rules, next_window
from distforest.growth.pairs.pair_search import PairSearch
from distforest.jit import kernel, no_refcount
from distforest.sources.point_pairs import MAX_MIN
from distforest.sources.source import Int32s, Ints, Projections, offsets
from distforest.sources.sparse_pairs import PickedColumns, SparsePairs

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from distforest.forest.frontier import Frontier
    from distforest.growth.cuts.search import Limits
    from distforest.growth.cuts.two_classes import TwoClasses
    from distforest.growth.grower import Growth
    from distforest.growth.rng import Keys
    from distforest.sources.point_pairs import ColumnReading, PointPairs
    from distforest.sources.source import Float32s, Floats
    from distforest.sources.sparse import Lines

VALUES_AT_ONCE = 1 << 22
"""Largest number of values, pairs by columns, that are written down at once, unless a single column has more."""


def growth_over(growth: Growth, pairs: PointPairs | SparsePairs, criterion: TwoClasses) -> Growth:
    """The growth of trees over some pairs; a draw that asks which columns vary asks these."""
    draw = growth.draw
    if isinstance(pairs, SparsePairs) and isinstance(draw, VaryingPairs):
        draw = replace(draw, pairs=pairs, min_leaf=growth.limits.min_samples_leaf)
    return replace(growth, source=pairs, criterion=criterion, draw=draw)


class ColumnsPart(NamedTuple):
    """Some consecutive nodes of a level, and some of the candidates of each: those from ``begin`` to ``end - 1``."""

    first: int
    last: int
    begin: int
    end: int


def parts_of(sizes: Ints, counts: Ints, cells: int) -> Iterator[ColumnsPart]:
    """Parts of nodes of ``sizes`` pairs and ``counts`` candidates, each of at most ``cells`` values if it has many.

    Examples
    --------
    >>> [tuple(part) for part in parts_of(np.array([2, 3, 9]), np.array([4, 2, 5]), 20)]
    [(0, 2, 0, 4), (2, 3, 0, 2), (2, 3, 2, 4), (2, 3, 4, 5)]
    """
    first, n_nodes = 0, len(sizes)
    while first < n_nodes:
        last, n_pairs, width = first, 0, 0
        while last < n_nodes:
            n_more, wider = n_pairs + int(sizes[last]), max(width, int(counts[last]))
            if last > first and n_more * wider > cells:
                break
            last, n_pairs, width = last + 1, n_more, wider
        step = max(1, cells // max(1, n_pairs))
        for begin in range(0, width, step):
            yield ColumnsPart(first, last, begin, min(begin + step, width))
        first = last


@dataclass(frozen=True)
class SparseSearch:
    """A search of sparse pairs by one of dense pairs."""

    dense: PairSearch  # the search of the columns that are written down; without bins
    cells: int = VALUES_AT_ONCE  # largest number of values that are written down at once

    def __call__(
        self, source: SparsePairs, criterion: TwoClasses, frontier: Frontier, projections: Projections, limits: Limits
    ) -> tuple[Cuts, Floats]:
        """The cuts, and the value of each pair on the chosen candidate, as the dense search gives them."""
        cuts, values = Cuts.none(frontier.n_nodes), np.zeros(len(frontier.rows))
        drawn = projections.offset[np.arange(frontier.n_nodes + 1) * projections.width]
        for first, last, begin, end in parts_of(frontier.sizes, np.diff(drawn), self.cells):
            some, lengths = frontier.slice(first, last), np.diff(drawn[first : last + 1]).clip(begin, end) - begin
            start = offsets(lengths)
            entry = np.repeat(drawn[first:last] + begin - start[:-1], lengths) + np.arange(start[-1])
            picked = PickedColumns(start, projections.columns[entry])
            written = source.written(some.rows, some.starts, picked)
            numbers = picked.numbers(source.columns.n_features)
            all_of = Projections(
                numbers.shape[1], np.arange(numbers.size + 1), numbers.reshape(-1), np.ones(numbers.size)
            )
            found, of_pairs = self.dense(written, criterion, some, all_of, limits)
            is_better = found.gain > cuts.gain[first:last]
            nodes = first + np.flatnonzero(is_better)
            entry_of = drawn[nodes] + begin + found.candidate[is_better]
            cuts.candidate[nodes] = (
                np.searchsorted(projections.offset, entry_of, side="right") - 1 - nodes * projections.width
            )
            for name in ("threshold", "gain", "missing"):
                getattr(cuts, name)[nodes] = getattr(found, name)[is_better]
            of_part = slice(frontier.starts[first], frontier.starts[last])
            values[of_part] = np.where(np.repeat(is_better, some.sizes), of_pairs, values[of_part])
        return cuts, values


class HeldByPairs(NamedTuple):
    """What the pairs of a node hold."""

    of_point: Ints  # weight of the pairs of each point, shape (n_points,); all 0 between nodes
    points: Int32s  # the points that have pairs; of no meaning beyond their number, shape (n_points,)
    of_feature: Ints  # sum of these weights over the points with a value, shape (n_features,); all 0 between nodes


LOOKED_THROUGH = 1 << 18
"""Most values of a node, pairs by columns, of which each column is looked through for a cut."""


@dataclass(frozen=True)
class VaryingPairs:
    """As `Axis` over the first columns of a pair, without those in which too few pairs of a node have a value.

    Windows that hold no other column are passed over.
    """

    n_columns: int  # number of columns that are drawn from: those of the family, or one of each feature
    width: int  # columns of a window
    min_leaf: int = 1  # least in-bag weight of either side of a cut
    pairs: SparsePairs | None = None  # the pairs; None: those of the trees are not drawn yet

    @property
    def attempts(self) -> int:
        """The number of attempts in which a node tries every column."""
        return -(-self.n_columns // self.width)

    def __call__(self, frontier: Frontier, keys: Keys, attempt: int) -> Projections:
        """The columns of one window of each node; a width of 0 if no node has any left."""
        assert self.pairs is not None  # noqa: S101  (trees grow over pairs that are drawn)
        pairs, rules = self.pairs, Rules(self.n_columns, attempt, max(1, self.min_leaf), True, 0)
        columns = np.full((frontier.n_nodes, self.width), -1, np.int32)
        left, right = pairs.left[frontier.rows], pairs.right[frontier.rows]
        how = pairs.columns.column_reading
        if not draw_of_pairs(pairs.points.by_row, frontier.nodes, (left, right), how, keys, rules, columns):
            return Projections(0, np.zeros(1, np.int64), np.empty(0, np.int32), np.empty(0))
        drawn = columns.reshape(-1)
        is_drawn = drawn >= 0
        kept = drawn[is_drawn]
        return Projections(self.width, offsets(is_drawn), kept, np.ones(len(kept)))


@kernel
def draw_of_pairs(
    by_row: Lines,
    nodes: Nodes,
    ends: tuple[Int32s, Int32s],
    how: ColumnReading,
    keys: Keys,
    rules: Rules,
    columns: Int32s,
) -> bool:
    """columns[f] = the window of the attempt in the order of `axis_columns`, -1 for columns that are passed over.

    ``ends`` are the two points of each pair, node after node. Returns whether any node has columns in this attempt.
    """
    n, n_points, n_features, has_more = rules.n_columns, by_row.start.shape[0] - 1, how.n_features, False
    order, swapped, varies = np.arange(n).astype(np.int32), np.empty(n, np.int32), np.zeros(n, np.bool_)
    seen = HeldByPairs(np.zeros(n_points, np.int64), np.empty(n_points, np.int32), np.zeros(n_features, np.int64))
    for f in range(keys.shape[0]):
        n_seen = weigh_points(nodes.starts[f], nodes.starts[f + 1], nodes.weights, ends, seen)
        n_varying = mark_varying(by_row, n_seen, rules.min_leaf, seen, varies)
        if how.family != MAX_MIN and n_varying * (nodes.starts[f + 1] - nodes.starts[f]) <= LOOKED_THROUGH:
            some = Nodes(nodes.starts[f : f + 2], nodes.rows, nodes.weights)
            n_varying = keep_cuttable(by_row, some, ends, n_seen, rules.min_leaf, seen, varies)
        n_drawn, left = next_window(keys[f], rules, False, n_varying, varies, order, swapped, columns[f])
        has_more = has_more or left > 0
        forget(by_row, n_seen, seen, varies)
        for t in range(n_drawn - 1, -1, -1):
            order[t], order[swapped[t]] = order[swapped[t]], order[t]
    return has_more


@no_refcount
def weigh_points(first: int, last: int, weights: Int32s, ends: tuple[Int32s, Int32s], seen: HeldByPairs) -> int:
    """List the points of a node's pairs, with the weight of the pairs of each; returns their number."""
    n_seen = 0
    for points in ends:
        for r in range(first, last):
            point = points[r]
            if seen.of_point[point] == 0:
                seen.points[n_seen] = point
                n_seen += 1
            seen.of_point[point] += weights[r]
    return n_seen


@no_refcount
def mark_varying(by_row: Lines, n_seen: int, min_leaf: int, seen: HeldByPairs, varies: NDArray[np.bool_]) -> int:
    """Mark the columns that may be cut, and return how many there are.

    All pairs without a value are on one side of a cut, so on the other are pairs with one that weigh ``min_leaf`` at
    least. A pair of two points with a value counts twice, so some columns are marked that cannot be cut.
    """
    n_varying, n_features = 0, seen.of_feature.shape[0]
    for point in seen.points[:n_seen]:
        for v in range(by_row.start[point], by_row.start[point + 1]):
            feature = by_row.number[v]
            before = seen.of_feature[feature]
            seen.of_feature[feature] += seen.of_point[point]
            if before < min_leaf <= seen.of_feature[feature]:
                for column in range(feature, varies.shape[0], n_features):
                    varies[column] = True
                    n_varying += 1
    return n_varying


@kernel
def keep_cuttable(
    by_row: Lines,
    node: Nodes,
    ends: tuple[Int32s, Int32s],
    n_seen: int,
    min_leaf: int,
    seen: HeldByPairs,
    varies: NDArray[np.bool_],
) -> int:
    """Keep the marks of columns of which a threshold leaves ``min_leaf`` on either side; returns their number."""
    first, last = node.starts[0], node.starts[1]
    size, n_features, n_slots, n_kept = last - first, seen.of_feature.shape[0], 0, 0
    weights = node.weights[first:last]
    whole = weights.sum()
    for point in seen.points[:n_seen]:
        for v in range(by_row.start[point], by_row.start[point + 1]):
            feature = by_row.number[v]
            if seen.of_feature[feature] > 0 and varies[feature]:
                seen.of_feature[feature] = -1 - n_slots  # -1, -2 and so on: its place among the marked ones
                n_slots += 1
    one, other = np.zeros((n_slots, size), np.float32), np.zeros((n_slots, size), np.float32)
    features = np.empty(n_slots, np.int64)
    for r in range(size):
        for side in range(2):
            points, values = ends[side], (one if side == 0 else other)
            for v in range(by_row.start[points[first + r]], by_row.start[points[first + r] + 1]):
                slot = -1 - seen.of_feature[by_row.number[v]]
                if slot >= 0:
                    features[slot], values[slot, r] = by_row.number[v], by_row.value[v]
    of_pairs = np.empty(size, np.float32)
    for slot in range(n_slots):
        for column in range(features[slot], varies.shape[0], n_features):
            for r in range(size):
                a, b = one[slot, r], other[slot, r]
                of_pairs[r] = abs(a - b) if column < n_features else (a + b) * np.float32(0.5)
            varies[column] = has_cut(of_pairs, weights, whole, min_leaf)
            n_kept += 1 if varies[column] else 0
    return n_kept


@kernel
def has_cut(values: Float32s, weights: Int32s, whole: int, min_leaf: int) -> bool:
    """Whether a threshold leaves a weight of at least ``min_leaf`` of some values on either side."""
    order = np.argsort(values)
    left = np.int64(0)
    for t in range(1, values.shape[0]):
        left += weights[order[t - 1]]
        if left >= min_leaf and whole - left >= min_leaf and values[order[t]] > values[order[t - 1]]:
            return True
    return False


@no_refcount
def forget(by_row: Lines, n_seen: int, seen: HeldByPairs, varies: NDArray[np.bool_]) -> None:
    """Undo `weigh_points` and `mark_varying`."""
    n_features = seen.of_feature.shape[0]
    for point in seen.points[:n_seen]:
        seen.of_point[point] = 0
        for v in range(by_row.start[point], by_row.start[point + 1]):
            seen.of_feature[by_row.number[v]] = 0
            for column in range(by_row.number[v], varies.shape[0], n_features):
                varies[column] = False
