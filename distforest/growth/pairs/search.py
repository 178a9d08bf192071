"""Cuts of pairs of points: the fused twin of projecting all candidates, ordering and scanning them.

A node of many pairs is cut at the edges of bins: histograms of its candidates' codes are filled block by block. A small
node is cut at any value, in the order of its values; so is a large one if no edge gains anything. Only the codes of a
block, the histograms of a node, or the values of one candidate are in memory.

A pair is missing in a column of which either point lacks the value. The last bin is then that of missing pairs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import NDArray

from distforest.growth.cuts.ordering import order_values
from distforest.growth.cuts.scan import Cuts, scan_keys
from distforest.growth.cuts.two_classes import OpenNode, TwoClasses, TwoSums, fill_missing, most_of_node, tally_node
from distforest.growth.grower import Windows
from distforest.growth.pairs.bins import PairBins, code_of
from distforest.growth.pairs.histograms import (
    CODED_PAIRS,
    CategoryRoom,
    NodePairs,
    PairLevel,
    SearchRoom,
    cut_bins,
    cut_if_sets,
    holds_pairs,
    rank_chosen,
)
from distforest.growth.pairs.square_search import code_points, counted_ends, cut_if_square, took_sides
from distforest.jit import borrowing, kernel
from distforest.sources.kernels import WORD
from distforest.sources.point_pairs import COMPARISON, PairReading, PointPairs, read_column
from distforest.sources.source import Floats, Int32s, Ints, Projections

if TYPE_CHECKING:
    from distforest.forest.frontier import Frontier
    from distforest.growth.cuts.search import Limits

    Codes = NDArray[np.uint8]
    Bools = NDArray[np.bool_]

CUT_AT_ANY_VALUE = 32
"""Largest number of pairs of a node that is cut at any value instead of at the edges of bins."""

NO_BINS = PairBins(np.empty(0), np.empty(0), np.empty((0, 0), np.uint16), np.empty((0, 0)))
"""Stands for the bins where every node is cut at any value."""


def few_pairs(sizes: Ints, bins: PairBins | None) -> Bools:
    """Which nodes are cut at any value from the start: the small ones, or all if there are no bins."""
    return sizes <= CUT_AT_ANY_VALUE if bins else np.ones(len(sizes), np.bool_)


@dataclass(frozen=True)
class PairSearch:
    """The best cut of each node over single columns of pairs, or square cuts of coordinates."""

    bins: PairBins | None  # bins of the columns; None: every node is cut at any value
    squares: Codes | None = None  # as of `PairLevel`

    @classmethod
    def of_squares(cls, bins: PairBins | None, pairs: PointPairs) -> Self:
        """The search of square cuts of pairs of some points, whose coordinates are coded once."""
        squares = np.zeros((len(pairs.points) if bins else 0, pairs.columns.n_features), np.uint8)
        if bins is not None:
            code_points(pairs.points, bins, squares)
        return cls(bins, squares)

    def __call__(
        self, source: PointPairs, criterion: TwoClasses, frontier: Frontier, projections: Projections, limits: Limits
    ) -> tuple[Cuts, Floats]:
        """The cuts, and for each pair a value that is at most the threshold where it goes left; NaN: missing.

        The value is that on the chosen column, 0 if there is none; of categories, their rank; of a square cut,
        infinity where it separates the pair, minus infinity where not.
        """
        return self.in_turn(source, criterion, Windows(frontier, projections, projections.width), limits)

    def in_turn(
        self, source: PointPairs, criterion: TwoClasses, windows: Windows, limits: Limits
    ) -> tuple[Cuts, Floats]:
        """The same of the first window of a node's candidates, or of the next one where these have no cut."""
        level, (frontier, _, width) = PairLevel.of(source, criterion, windows, limits, self.squares), windows
        cuts, values = Cuts.none(frontier.n_nodes), np.zeros(len(frontier.rows))
        categories, bins = CategoryRoom.of(source.columns, frontier.sizes), self.bins or NO_BINS
        room = SearchRoom.of(int(frontier.sizes.max(initial=0)), width, bins, self.squares is not None, categories)
        cut_pairs(level, few_pairs(frontier.sizes, self.bins), width, bins, room, cuts)
        read_chosen(level, cuts, values)
        rank_chosen(level, cuts.candidate, categories, values)
        return cuts, values


@kernel
def cut_pairs(level: PairLevel, few: Bools, width: int, bins: PairBins, room: SearchRoom, cuts: Cuts) -> None:
    """Cut each node by its first ``width`` candidates, or by the next ones if these have no cut.

    A node of ``few`` pairs is cut at any value. Another one is cut at the edges of bins, or at any value if no edge
    gains: the bins are those of all pairs, and pairs of a node may differ and still be in one bin.
    """
    n_candidates = level.columns.shape[1]
    for node in range(few.shape[0]):
        gather_pairs(node, level, room)
        impurity = tally_node(level.impurity, level.counts[node], level.costs[node], room.tallies)
        of_node = OpenNode(impurity, room.tallies, (level.min_leaf, True))
        for first in range(0, n_candidates, width):
            last = min(first + width, n_candidates)
            if not few[node]:
                cut_at_edges(node, first, last, level, of_node, bins, room, cuts)
            if few[node] or cuts.gain[node] <= 0.0:
                cut_at_values(node, first, last, level, of_node, room, cuts)
            if cuts.candidate[node] >= 0:
                break


@kernel
def read_chosen(level: PairLevel, cuts: Cuts, values: Floats) -> None:
    """values[r] = the column of pair r that its node has chosen, or the side of a square cut, where there is a cut."""
    starts, rows, _ = level.nodes
    for node in range(starts.shape[0] - 1):
        if cuts.candidate[node] < 0:
            continue
        column, own = level.columns[node, cuts.candidate[node]], rows[starts[node] : starts[node + 1]]
        of_node = values[starts[node] : starts[node + 1]]
        if not took_sides(column, cuts.threshold[node], own, level, level.squares, of_node):
            read_column(column, own, level.pairs, of_node)


@borrowing
def gather_pairs(node: int, level: PairLevel, room: SearchRoom) -> None:
    """Read the points, classes and weights of a node's pairs once for all of its candidates."""
    (starts, rows, weights), first, every = level.nodes, level.nodes.starts[node], room.every
    own, left, right = rows.view(np.uint32), level.pairs.left, level.pairs.right  # see `distforest.jit`
    for r in range(starts[node + 1] - first):
        kind, weight = level.codes[own[first + r]], weights[first + r]
        every.left[r], every.right[r] = left[own[first + r]], right[own[first + r]]
        every.kinds[r], every.weights[r] = kind, weight
        room.sums[r, 0], room.sums[r, 1] = 0, 0
        room.sums[r, kind] = weight


@borrowing
def share_words(word: int, own: NodePairs, level: PairLevel, words: NDArray[np.uint64]) -> None:
    """words[r] = the features of a word that both points of pair r have."""
    (points, others), left, right = level.observed, own.left.view(np.uint32), own.right.view(np.uint32)
    for r in range(left.shape[0]):
        words[r] = points[left[r], word] & others[right[r], word]


@borrowing
def find_observed(column: int, own: NodePairs, level: PairLevel, room: SearchRoom) -> int:
    """Find the pairs that do not lack a column, without reading a value of a feature; returns how many they are.

    If features have one word, the words are those of the pairs already.
    """
    n_of_family, begin = level.pairs.columns.n_of_family, level.pairs.columns.begin
    if column >= n_of_family:
        n_known = 0
        for r in range(own.left.shape[0]):
            room.places[n_known] = r
            n_known += not np.isnan(level.pairs.others[own.right[r], begin[column - n_of_family]])
        return n_known
    feature, words, places = column % level.pairs.columns.n_features, room.words, room.places
    bit, n = np.uint64(feature % WORD), np.int64(0)
    if level.observed.one.shape[1] > 1:
        share_words(feature // WORD, own, level, words)
    for r in range(own.left.shape[0]):  # without a branch, which would be mispredicted
        places[n] = r
        n += np.int64((words[r] >> bit) & np.uint64(1))
    return int(n)


@borrowing
def read_places(column: int, places: Int32s, own: NodePairs, level: PairLevel, values: Floats) -> None:
    """values[r] = a column of pair places[r]."""
    points, others, _, _, how, is_complete = level.pairs
    read_column(column, places, PairReading(points, others, own.left, own.right, how, is_complete), values)


@borrowing
def is_never_missing(column: int, pairs: PairReading) -> bool:
    """Whether no pair can lack a column."""
    how, block = pairs.columns, column - pairs.columns.n_of_family
    return pairs.is_complete or (block >= 0 and how.reduction[block] != COMPARISON)


@borrowing
def cut_at_values(
    node: int, first: int, last: int, level: PairLevel, of_node: OpenNode, room: SearchRoom, cuts: Cuts
) -> None:
    """As `cut_rows`, for candidates ``first`` to ``last - 1`` of a node, one after another."""
    (impurity, tallies, rules), most, every = of_node, most_of_node(of_node), room.every
    (order, keys, spare), values = room.orders, room.values
    size = level.nodes.starts[node + 1] - level.nodes.starts[node]
    own = NodePairs(every.left[:size], every.right[:size], every.kinds[:size], every.weights[:size])
    if not level.pairs.is_complete:
        share_words(0, own, level, room.words)
    for k in range(first, last):
        c = level.columns[node, k]
        if cuts.gain[node] >= most:
            break
        if cut_if_sets(node, k, level, of_node, room.categories, cuts):
            continue
        if cut_if_square(node, k, own, level, level.squares, of_node, room, cuts):
            continue
        n, sums, places = size, room.sums, room.numbers[:size]
        if not is_never_missing(c, level.pairs):
            n, sums = find_observed(c, own, level, room), room.some
            places = room.places[:n]
            for r in range(n):
                place = np.uint32(places[r])
                sums[r, 0], sums[r, 1] = room.sums[place, 0], room.sums[place, 1]
        read_places(c, places, own, level, values)
        m = order_values(values[:n], order, keys, spare)
        order[m], lacks = n, m < size
        if lacks:
            fill_missing(sums, order[:m], n, tallies)
        scan_keys(node, k, values, order[: m + lacks], m, TwoSums(sums), impurity, tallies, rules, cuts)


@borrowing
def cut_at_edges(
    node: int, first: int, last: int, level: PairLevel, of_node: OpenNode, bins: PairBins, room: SearchRoom, cuts: Cuts
) -> None:
    """filled[k, b, s] = weight of the pairs of class s with code b on a candidate; then cut the node.

    A block of pairs is coded and counted on one candidate after another. Unordered pairs of categories have no bins:
    they are counted by category.
    """
    columns, pairs, filled, every = level.columns, level.pairs, room.filled, room.every
    size = level.nodes.starts[node + 1] - level.nodes.starts[node]
    for begin in range(0, size, CODED_PAIRS):
        end = min(begin + CODED_PAIRS, size)
        own = NodePairs(every.left[begin:end], every.right[begin:end], every.kinds[begin:end], every.weights[begin:end])
        if not pairs.is_complete:
            share_words(0, own, level, room.words)
        for k in range(first, last):
            if not holds_pairs(columns[node, k], pairs.columns):
                count_block(columns[node, k], own, level, bins, room, filled[k - first])
    for k in range(first, last):
        c, edges = columns[node, k], bins.edges[columns[node, k]]
        if not cut_if_sets(node, k, level, of_node, room.categories, cuts):
            cut_bins(node, k, filled[k - first], edges, not is_never_missing(c, pairs), of_node, room.bins, cuts)


@borrowing
def count_block(
    column: int, own: NodePairs, level: PairLevel, bins: PairBins, room: SearchRoom, filled: Int32s
) -> None:
    """Add the weight of each pair of a block that does not lack a column to filled[its code, its class]."""
    places, values, coded = room.numbers[: own.left.shape[0]], room.values, room.coded
    if not is_never_missing(column, level.pairs):
        places = room.places[: find_observed(column, own, level, room)]
    if counted_ends(column, places, own, level.pairs.columns, level.squares, filled):
        return
    read_places(column, places, own, level, values)
    low, scale, code, edges = bins.low[column], bins.scale[column], bins.code[column], bins.edges[column]
    for r in range(places.shape[0]):
        coded[r] = code_of(values[r], low, scale, code, edges)
    where, kinds, weights = places.view(np.uint32), own.kinds, own.weights  # see `distforest.jit`
    for r in range(where.shape[0]):
        filled[coded[r], kinds[where[r]]] += weights[where[r]]
