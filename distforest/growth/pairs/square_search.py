"""Square cuts: a threshold on a coordinate parts the pairs that it separates from those on one side of it.

::

    coordinate    a   b                 c         d          value
                  |---|   .             |----.----|           a pair (min, max)
                          A                  A
                  both below: LEFT      separated: RIGHT      separated where min <= A < max

Each side of a cut is a square region of TreeRank (Clemencon, Vogel, appendix 6.3). A candidate c < p is a coordinate of
numbers; any other column is cut as a whole: the further ones, and for a feature of categories the one that holds its
unordered pairs, or of too many categories whether they differ (`square_candidates`). Of a coordinate that either point
lacks, the pair is missing: it is tried among the separated pairs, and then among the others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from distforest.forest.frontier import LEFT, RIGHT, STAY
from distforest.growth.cuts.ordering import order_values
from distforest.growth.cuts.scan import Cuts, keep_best, note_missing
from distforest.growth.cuts.two_classes import (
    Judged,
    TwoClassRows,
    cut_candidate,
    gain_of_counts,
    read_codes,
    whole_of,
)
from distforest.growth.pairs.bins import PairBins, code_of
from distforest.growth.pairs.histograms import (
    CategoryRoom,
    PairLevel,
    WalkRoom,
    cut_bins,
    cut_if_sets,
    holds_pairs,
    rank_chosen,
)
from distforest.growth.pairs.search import CODED_PAIRS, OrderedNode, few_pairs
from distforest.jit import borrowing, kernel
from distforest.sources.point_pairs import (
    OF_NUMBERS,
    PAIRED,
    ColumnReading,
    PairColumns,
    PairReading,
    PointPairs,
    read_column,
)
from distforest.sources.source import Float32s, Floats, Int32s, Projections

if TYPE_CHECKING:
    from distforest.forest.frontier import Frontier
    from distforest.growth.cuts.search import Limits
    from distforest.growth.cuts.two_classes import TwoClasses

    Codes = NDArray[np.uint8]
    Bools = NDArray[np.bool_]


def square_candidates(columns: PairColumns) -> Int32s:
    """The columns that stand for the candidates: one for each feature, then the further ones.

    Examples
    --------
    >>> square_candidates(PairColumns("max_min", 3, (("dot", 2),), (0, 5, 0))).tolist()
    [0, 4, 2, 6]
    """
    own = np.arange(columns.n_features)
    own[np.flatnonzero(columns.kinds == PAIRED)] += columns.n_features
    return np.append(own, np.arange(columns.n_of_family, columns.n_columns)).astype(np.int32)


@borrowing
def is_square(column: int, how: ColumnReading) -> bool:
    """Whether a candidate is a coordinate, which is cut into squares."""
    return column < how.n_features and (how.kinds.shape[0] == 0 or how.kinds[column] == OF_NUMBERS)


@dataclass(frozen=True)
class SquareSearch:
    """The best square cut of each node, or cut of a further column of pairs."""

    bins: PairBins | None  # bins of the columns; None: every node is cut at any value
    of_points: Codes  # code of each coordinate of each point, shape (n_points, p); without bins (0, p)

    @classmethod
    def of(cls, bins: PairBins | None, pairs: PointPairs) -> SquareSearch:
        """Make the search of pairs of some points, whose coordinates are coded once."""
        of_points = np.zeros((len(pairs.points) if bins else 0, pairs.columns.n_features), np.uint8)
        if bins is not None:
            code_points(pairs.points, bins, of_points)
        return cls(bins, of_points)

    def __call__(
        self, source: PointPairs, criterion: TwoClasses, frontier: Frontier, projections: Projections, limits: Limits
    ) -> tuple[Cuts, Floats]:
        """The cuts, and for each pair a value that is at most the threshold where it goes left; NaN: missing."""
        level, cuts = PairLevel.of(source, criterion, frontier, projections, limits), Cuts.none(frontier.n_nodes)
        sizes, bins, room = frontier.sizes, self.bins, CategoryRoom.of(source.columns, frontier.sizes)

        def at_values(nodes: Bools) -> None:
            cut_squares_at_values(level, nodes, OrderedNode.of(2 * int(sizes[nodes].max(initial=0))), room, cuts)

        few = few_pairs(sizes, bins)
        at_values(few)
        if bins is not None and not few.all():
            cut_squares_at_edges(level, bins, self.of_points, ~few, room, cuts)
            in_vain = ~few & (cuts.gain <= 0.0)  # pairs of a node may differ and still be in one bin
            if in_vain.any():
                at_values(in_vain)
        chosen = level.columns[np.arange(frontier.n_nodes), cuts.candidate.clip(0)]
        values = np.empty(len(frontier.rows))
        take_sides(level, chosen, cuts.threshold, values)
        rank_chosen(level, cuts.candidate, room, values)
        return cuts, values


@borrowing
def cut_squares_at_values(
    level: PairLevel, wanted: Bools, room: OrderedNode, of_categories: CategoryRoom | None, cuts: Cuts
) -> None:
    """Cut the ``wanted`` nodes at any value: a threshold t separates a pair if lesser end <= t < greater end."""
    (starts, rows, weights), columns, codes, pairs, _, judged = level
    points, others, left, right, how, is_complete = pairs
    ends, orders, kinds, separated = room
    for node in range(starts.shape[0] - 1):
        first, last = starts[node], starts[node + 1]
        size = last - first
        if not wanted[node]:
            continue
        read_codes(rows[first:last], codes, kinds)
        of_node = TwoClassRows(weights[first:last], kinds)
        for k in range(columns.shape[1]):
            c = columns[node, k]
            if cut_if_sets(node, k, level, of_categories, cuts):
                continue
            if not is_square(c, how):
                read_column(c, rows[first:last], pairs, ends)
                cut_candidate(node, k, ends[:size], orders, of_node, judged, separated, cuts)
                continue
            for r in range(size):
                one, other = points[left[rows[first + r]], c], others[right[rows[first + r]], c]
                ends[r], ends[size + r] = min(one, other), max(one, other)
                if not is_complete and (np.isnan(one) or np.isnan(other)):
                    ends[r], ends[size + r] = np.nan, np.nan
            n = order_values(ends[: 2 * size], orders.order, orders.keys, orders.spare)
            if n == 2 * size:
                scan_ends(node, k, n, weights[first:last], room, judged, STAY, cuts)
                continue
            for side in (RIGHT, LEFT):
                scan_ends(node, k, n, weights[first:last], room, judged, side, cuts)


@borrowing
def scan_ends(
    node: int, candidate: int, n: int, weights: Int32s, room: OrderedNode, judged: Judged, missing: int, cuts: Cuts
) -> None:
    """Move the threshold over the ``n`` observed ends of a node's pairs: the lesser ends come first, then the greater.

    ``room`` holds the ends and their order; its sides are the weights of the two classes that the cut separates. If the
    side of ``missing`` pairs is the right one, they are always among these, and a further cut has no others there.
    """
    ends, order, kinds, separated = room.values, room.orders.order, room.kinds, room.sides
    separated[:] = 0
    size = weights.shape[0]
    if missing == RIGHT:
        for r in range(size):
            if np.isnan(ends[r]):
                separated[kinds[r]] += weights[r]
    counts, costs, min_leaf = judged.counts[node], judged.costs[node], judged.min_leaf
    whole, before, least = whole_of(counts, costs), np.nan, cuts.gain[node]
    for place in order[:n]:
        value = ends[place]
        if value > before:
            gain = gain_of_counts(whole, separated, counts, costs, min_leaf)
            if gain > cuts.gain[node]:
                keep_best(node, candidate, before, value, gain, cuts)
        before = value
        if place < size:
            separated[kinds[place]] += weights[place]
        else:
            separated[kinds[place - size]] -= weights[place - size]
    if missing == RIGHT:
        gain = gain_of_counts(whole, separated, counts, costs, min_leaf)
        if gain > cuts.gain[node]:
            keep_best(node, candidate, before, np.inf, gain, cuts)
    note_missing(node, least, missing, cuts)


@kernel
def cut_squares_at_edges(
    level: PairLevel, bins: PairBins, of_points: Codes, wanted: Bools, of_categories: CategoryRoom | None, cuts: Cuts
) -> None:
    """changed[k, b, s] = weight of class s that becomes separated at the edge of bin b, less that which ceases to be.

    Then cut the ``wanted`` nodes. The code of the lesser end of a pair is the lesser code of its two points. The last
    bin holds the weight of missing pairs, if there are any.
    """
    (starts, rows, weights), columns, codes, pairs, _, judged = level
    is_complete = pairs.is_complete
    changed = np.empty((columns.shape[1], bins.edges.shape[1], 2), np.int32)
    room = WalkRoom(np.empty(2, np.int64), np.empty(changed.shape[1], np.int32))
    coded, values = np.empty(CODED_PAIRS, np.uint8), np.empty(CODED_PAIRS)
    for node in range(starts.shape[0] - 1):
        last = starts[node + 1]
        if not wanted[node]:
            continue
        changed[:] = 0
        for first in range(starts[node], last, CODED_PAIRS):
            block = rows[first : min(first + CODED_PAIRS, last)]
            for k in range(columns.shape[1]):
                c, histogram = columns[node, k], changed[k]
                if holds_pairs(c, pairs.columns):
                    continue
                if is_square(c, pairs.columns):
                    count_ends(c, block, level, of_points, weights[first : first + block.shape[0]], histogram)
                    continue
                code_one(c, block, pairs, bins, values, coded)
                for r in range(block.shape[0]):
                    histogram[coded[r], codes[block[r]]] += weights[first + r]
        for k in range(columns.shape[1]):
            c, begins = columns[node, k], STAY if is_complete else RIGHT
            if cut_if_sets(node, k, level, of_categories, cuts):
                continue
            if not is_square(c, pairs.columns):
                begins = STAY if is_complete else LEFT
            cut_bins(node, k, changed[k], bins.edges[c], judged, begins, room, cuts)


@borrowing
def code_one(c: int, rows: Int32s, pairs: PairReading, bins: PairBins, values: Floats, coded: Codes) -> None:
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
def count_ends(
    c: int, block: Int32s, level: PairLevel, of_points: Codes, weights: Int32s, changed: NDArray[np.int32]
) -> None:
    """Add the changes by the pairs of a block on coordinate c."""
    codes, left, right = level.codes, level.pairs.left, level.pairs.right
    for r in range(block.shape[0]):
        one, other = of_points[left[block[r]], c], of_points[right[block[r]], c]
        changed[min(one, other), codes[block[r]]] += weights[r]
        changed[max(one, other), codes[block[r]]] -= weights[r]
    if not level.pairs.is_complete:
        gather_missing(c, block, level, of_points, weights, changed)


@borrowing
def gather_missing(
    c: int, block: Int32s, level: PairLevel, of_points: Codes, weights: Int32s, changed: NDArray[np.int32]
) -> None:
    """changed[last bin, s] = weight of class s that is missing on coordinate c, and no other change by such pairs."""
    codes, missing = level.codes, changed.shape[0] - 1
    for r in range(block.shape[0]):
        one, other = of_points[level.pairs.left[block[r]], c], of_points[level.pairs.right[block[r]], c]
        if max(one, other) == missing:
            changed[min(one, other), codes[block[r]]] -= weights[r]
            changed[max(one, other), codes[block[r]]] += 2 * weights[r]


@kernel
def code_points(points: Float32s, bins: PairBins, of_points: Codes) -> None:
    """of_points[i, c] = code of coordinate c of point i; the last code where missing."""
    low, scale, code, edges = bins
    for i in range(of_points.shape[0]):
        for c in range(of_points.shape[1]):
            of_points[i, c] = code_of(np.float64(points[i, c]), low[c], scale[c], code[c], edges[c])
            if np.isnan(points[i, c]):
                of_points[i, c] = edges.shape[1] - 1


@kernel
def take_sides(level: PairLevel, chosen: Int32s, threshold: Floats, values: Floats) -> None:
    """values[r] = infinity where the cut separates pair r, minus infinity where not; of any other column its value.

    NaN where either point lacks the coordinate.
    """
    (starts, rows, _), pairs = level.nodes, level.pairs
    points, others, left, right, how, is_complete = pairs
    for node in range(starts.shape[0] - 1):
        c, cut = chosen[node], threshold[node]
        first, last = starts[node], starts[node + 1]
        if not is_square(c, how):
            read_column(c, rows[first:last], pairs, values[first:last])
            continue
        for r in range(first, last):
            one, other = points[left[rows[r]], c], others[right[rows[r]], c]
            values[r] = np.inf if min(one, other) <= cut < max(one, other) else -np.inf
            if not is_complete and (np.isnan(one) or np.isnan(other)):
                values[r] = np.nan
