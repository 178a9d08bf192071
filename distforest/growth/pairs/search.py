"""Cuts of pairs of points: the fused twin of projecting all candidates, ordering and scanning them.

A node of many pairs is cut at the edges of bins: histograms of its candidates' codes are filled block by block. A small
node is cut at any value, in the order of its values; so is a large one if no edge gains anything. Only the codes of a
block, the histograms of a node, or the values of one candidate are in memory.

A pair is missing in a column of which either point lacks the value. The last bin is then that of missing pairs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from distforest.forest.frontier import LEFT, STAY
from distforest.growth.cuts.criteria import Cuts
from distforest.growth.cuts.ordering import OrderRoom
from distforest.growth.cuts.two_classes import TwoClasses, TwoClassRows, cut_candidate, read_codes
from distforest.growth.grower import values_on
from distforest.growth.pairs.bins import SEARCHED, PairBins, cell_of, code_of, search
from distforest.growth.pairs.category_cuts import CategoryRoom, cut_sets_of_pairs, holds_pairs, rank_chosen
from distforest.growth.pairs.histograms import cut_bins
from distforest.growth.pairs.level import PairLevel
from distforest.jit import borrowing
from distforest.sources.point_pairs import MAX_MIN, PairReading, PointPairs, pair_value, read_column
from distforest.sources.source import Floats, Int32s, Ints, Projections

if TYPE_CHECKING:
    from collections.abc import Callable

    from distforest.forest.frontier import Frontier
    from distforest.growth.grower import Limits

    Codes = NDArray[np.uint8]
    Bools = NDArray[np.bool_]

CODED_PAIRS = 128
"""Number of pairs that are coded together: their codes stay in the processor's cache."""

CUT_AT_ANY_VALUE = 32
"""Largest number of pairs of a node that is cut at any value instead of at the edges of bins."""


def few_pairs(sizes: Ints, bins: PairBins | None) -> Bools:
    """Which nodes are cut at any value from the start: the small ones, or all if there are no bins."""
    return sizes <= CUT_AT_ANY_VALUE if bins else np.ones(len(sizes), np.bool_)


def cut_level(few: Bools, cuts: Cuts, at_values: Callable[[Bools], None], at_edges: Callable[[Bools], None]) -> None:
    """Cut nodes of few pairs at any value, and the others at the edges of bins, or at any value if no edge gains.

    The bins are those of all pairs: pairs of a node may differ and still be in one bin.
    """
    at_values(few)
    if few.all():
        return
    at_edges(~few)
    in_vain = ~few & (cuts.gain <= 0.0)
    if in_vain.any():
        at_values(in_vain)


@dataclass(frozen=True)
class PairSearch:
    """The best cut of each node over single columns of pairs.

    Attributes
    ----------
    bins
        Bins of the columns; None: every node is cut at any value.
    """

    bins: PairBins | None

    def __call__(
        self, source: PointPairs, criterion: TwoClasses, frontier: Frontier, projections: Projections, limits: Limits
    ) -> tuple[Cuts, Floats]:
        """The cuts, and the value of each pair on the chosen column; of categories, their rank in the node."""
        level, cuts = PairLevel.of(source, criterion, frontier, projections, limits), Cuts.none(frontier.n_nodes)
        sizes, bins, room = frontier.sizes, self.bins, CategoryRoom.of(source.columns, frontier.sizes)

        def at_values(nodes: Bools) -> None:
            cut_at_values(level, nodes, OrderedNode.of(sizes[nodes]), room, cuts)

        def at_edges(nodes: Bools) -> None:
            assert bins is not None  # noqa: S101  (without bins every node is cut at any value)
            cut_at_edges(level, bins, nodes, CodedNode.of(projections.width, bins), room, cuts)

        cut_level(few_pairs(sizes, bins), cuts, at_values, at_edges)
        values = values_on(source, frontier, projections, cuts)
        rank_chosen(level, cuts.candidate, room, values)
        return cuts, values


class OrderedNode(NamedTuple):
    """Room for the values of the pairs of a node, their order and their classes, and for the sides of a cut.

    A square cut has two values of each pair, and as its sides the pairs that it separates.
    """

    values: Floats
    orders: OrderRoom
    kinds: Codes
    sides: Ints

    @classmethod
    def of(cls, sizes: Ints) -> OrderedNode:
        """Allocate room for nodes of some sizes."""
        longest = int(sizes.max(initial=0))
        orders, kinds = OrderRoom.of(longest), np.empty(longest, np.uint8)
        return cls(np.empty(longest), orders, kinds, np.empty(2, np.int64))


@borrowing
def cut_at_values(
    level: PairLevel,
    wanted: Bools,
    room: OrderedNode,
    of_categories: CategoryRoom,
    cuts: Cuts,
) -> None:
    """As `cut_two_classes`, for the ``wanted`` nodes, one candidate after another."""
    (starts, rows, weights), columns, codes, pairs, judged = level
    values, orders, kinds, sides = room
    for node in range(starts.shape[0] - 1):
        first, last = starts[node], starts[node + 1]
        size = last - first
        if not wanted[node]:
            continue
        read_codes(rows[first:last], codes, kinds)
        of_node = TwoClassRows(weights[first:last], kinds)
        for k in range(columns.shape[1]):
            if holds_pairs(columns[node, k], pairs.columns):
                cut_sets_of_pairs(node, k, level, of_categories, cuts)
                continue
            read_column(columns[node, k], rows[first:last], pairs, values)
            cut_candidate(node, k, values[:size], orders, of_node, judged, sides, cuts)


class CodedNode(NamedTuple):
    """Room for the values, codes, classes and cells of a block of pairs, the histograms, and the sides of a cut."""

    values: Floats
    coded: Codes
    kinds: Codes
    cells: NDArray[np.uint32]
    filled: NDArray[np.int32]
    sides: Ints

    @classmethod
    def of(cls, width: int, bins: PairBins) -> CodedNode:
        """Allocate room for ``width`` candidates and some bins."""
        n_columns, n_bins = bins.edges.shape
        kinds, cells = np.empty(CODED_PAIRS, np.uint8), np.empty(n_columns, np.uint32)
        coded, filled = np.empty((width, CODED_PAIRS), np.uint8), np.empty((width, n_bins, 2), np.int32)
        return cls(np.empty(CODED_PAIRS), coded, kinds, cells, filled, np.empty(2, np.int64))


@borrowing
def cut_at_edges(
    level: PairLevel,
    bins: PairBins,
    wanted: Bools,
    room: CodedNode,
    of_categories: CategoryRoom,
    cuts: Cuts,
) -> None:
    """filled[k, b, s] = weight of the pairs of class s with code b on candidate k; then cut the ``wanted`` nodes.

    A block of pairs is coded on all candidates, then counted candidate by candidate. Where all columns are candidates,
    they are coded side by side, in the order of the columns. Unordered pairs of categories have no bins: they are
    counted by category.
    """
    (starts, rows, weights), columns, codes, pairs, judged = level
    n_columns, width = bins.edges.shape[0], columns.shape[1]
    is_all = width == n_columns and pairs.columns.family != MAX_MIN
    begins = STAY if pairs.is_complete else LEFT
    values, coded, kinds, cells, filled, sides = room
    for node in range(starts.shape[0] - 1):
        if not wanted[node]:
            continue
        filled[:] = 0
        for first in range(starts[node], starts[node + 1], CODED_PAIRS):
            block = rows[first : min(first + CODED_PAIRS, starts[node + 1])]
            if is_all:
                code_all(block, pairs, bins, cells, coded)
                if not pairs.is_complete:
                    code_missing(block, pairs, bins.edges.shape[1] - 1, coded)
            else:
                for k in range(width):
                    if holds_pairs(columns[node, k], pairs.columns):
                        coded[k, : block.shape[0]] = 0
                        continue
                    code_one(columns[node, k], block, pairs, bins, values, coded[k])
            read_codes(block, codes, kinds)
            count_block(weights[first : first + block.shape[0]], kinds, coded, filled)
        for k in range(width):
            c = columns[node, k]
            if holds_pairs(c, pairs.columns):
                cut_sets_of_pairs(node, k, level, of_categories, cuts)
                continue
            histogram = filled[c if is_all else k]
            cut_bins(node, k, histogram, bins.edges[c], judged, begins, sides, cuts)


@borrowing
def code_all(
    rows: Int32s,
    pairs: PairReading,
    bins: PairBins,
    cells: NDArray[np.uint32],
    coded: Codes,
) -> None:
    """coded[c, r] = code of pair rows[r] in column c, for all columns; the cells of a pair are computed together.

    Where the codes of two categories differ, their difference lies in the last cell of [x != x'], which stands for 1.
    """
    points, others, left, right, how, _ = pairs
    low, scale, code, edges = bins
    n_features, n_of_family = how.n_features, how.n_of_family
    rows, left, right = rows.view(np.uint32), left.view(np.uint32), right.view(np.uint32)  # see `distforest.jit`
    for r in range(rows.shape[0]):
        a, b = points[left[rows[r]]], others[right[rows[r]]]
        for c in range(n_features):
            cells[c] = cell_of(np.float64(abs(a[c] - b[c])), low[c], scale[c])
        for c in range(n_features, n_of_family):
            middle = (a[c - n_features] + b[c - n_features]) * np.float32(0.5)
            cells[c] = cell_of(np.float64(middle), low[c], scale[c])
        for c in range(n_of_family, cells.shape[0]):
            value = pair_value(a, b, c, how)
            cells[c] = cell_of(value, low[c], scale[c])
        for c in range(cells.shape[0]):
            of_cell = np.uint32(code[c, cells[c]])
            if of_cell == SEARCHED:
                value = pair_value(a, b, c, how)
                of_cell = search(value, edges[c])
            coded[c, r] = of_cell


@borrowing
def code_missing(rows: Int32s, pairs: PairReading, missing: int, coded: Codes) -> None:
    """coded[c, r] = missing in the columns of each feature that a point of pair rows[r] lacks."""
    points, others, left, right, how, _ = pairs
    for r in range(rows.shape[0]):
        a, b = points[left[rows[r]]], others[right[rows[r]]]
        for c in range(how.n_features):
            if np.isnan(a[c]) or np.isnan(b[c]):
                for column in range(c, how.n_of_family, how.n_features):
                    coded[column, r] = missing


@borrowing
def code_one(
    c: int,
    rows: Int32s,
    pairs: PairReading,
    bins: PairBins,
    values: Floats,
    coded: Codes,
) -> None:
    """coded[r] = code of pair rows[r] in column c; ``values`` is room for those of the column."""
    read_column(c, rows, pairs, values)
    low, scale, code, edges = bins.low[c], bins.scale[c], bins.code[c], bins.edges[c]
    for r in range(rows.shape[0]):
        coded[r] = code_of(values[r], low, scale, code, edges)
    if not pairs.is_complete:
        for r in range(rows.shape[0]):
            if np.isnan(values[r]):
                coded[r] = edges.shape[0] - 1


@borrowing
def count_block(weights: Int32s, kinds: Codes, coded: Codes, filled: NDArray[np.int32]) -> None:
    """filled[k, coded[k, r], kinds[r]] += weights[r]."""
    for k in range(coded.shape[0]):
        histogram, bin_of = filled[k], coded[k]
        for r in range(weights.shape[0]):
            histogram[bin_of[r], kinds[r]] += weights[r]
