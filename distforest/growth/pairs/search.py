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
from distforest.growth.cuts.ordering import OrderRoom
from distforest.growth.cuts.scan import Cuts
from distforest.growth.cuts.two_classes import TwoClasses, TwoClassRows, cut_candidate
from distforest.growth.grower import Windows
from distforest.growth.pairs.bins import PairBins, code_of
from distforest.growth.pairs.histograms import (
    CategoryRoom,
    PairLevel,
    WalkRoom,
    cut_held,
    cut_if_sets,
    empty_bins,
    fill_missing,
    held_bins,
    holds_pairs,
    rank_chosen,
)
from distforest.jit import borrowing, kernel
from distforest.sources.kernels import WORD
from distforest.sources.point_pairs import PairReading, PointPairs, read_column
from distforest.sources.source import Floats, Int32s, Ints, Projections

if TYPE_CHECKING:
    from distforest.forest.frontier import Frontier
    from distforest.growth.cuts.search import Limits

    Codes = NDArray[np.uint8]
    Bools = NDArray[np.bool_]

CODED_PAIRS = 128
"""Number of pairs that are coded together: their codes stay in the processor's cache."""

CUT_AT_ANY_VALUE = 32
"""Largest number of pairs of a node that is cut at any value instead of at the edges of bins."""

NO_BINS = PairBins(np.empty(0), np.empty(0), np.empty((0, 0), np.uint16), np.empty((0, 0)))
"""Stands for the bins where every node is cut at any value."""


def few_pairs(sizes: Ints, bins: PairBins | None) -> Bools:
    """Which nodes are cut at any value from the start: the small ones, or all if there are no bins."""
    return sizes <= CUT_AT_ANY_VALUE if bins else np.ones(len(sizes), np.bool_)


@dataclass(frozen=True)
class PairSearch:
    """The best cut of each node over single columns of pairs."""

    bins: PairBins | None  # bins of the columns; None: every node is cut at any value

    def __call__(
        self, source: PointPairs, criterion: TwoClasses, frontier: Frontier, projections: Projections, limits: Limits
    ) -> tuple[Cuts, Floats]:
        """The cuts, and the value of each pair on the chosen column, 0 if there is none; of categories, their rank."""
        return self.in_turn(source, criterion, Windows(frontier, projections, projections.width), limits)

    def in_turn(
        self, source: PointPairs, criterion: TwoClasses, windows: Windows, limits: Limits
    ) -> tuple[Cuts, Floats]:
        """The same of the first window of a node's candidates, or of the next one where these have no cut."""
        frontier, projections, width = windows
        level, cuts = PairLevel.of(source, criterion, frontier, projections, limits), Cuts.none(frontier.n_nodes)
        categories, bins = CategoryRoom.of(source.columns, frontier.sizes), self.bins or NO_BINS
        room = SearchRoom.of(int(frontier.sizes.max(initial=0)), width, bins, categories)
        cut_pairs(level, few_pairs(frontier.sizes, self.bins), width, bins, room, cuts)
        values = np.zeros(len(frontier.rows))
        read_chosen(level, cuts.candidate, categories, values)
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
    def of(cls, longest: int) -> OrderedNode:
        """Allocate room for nodes of up to ``longest`` values."""
        orders, kinds = OrderRoom.of(longest), np.empty(longest, np.uint8)
        return cls(np.empty(longest), orders, kinds, np.empty(2, np.int64))


class NodePairs(NamedTuple):
    """Pairs of a node, or of a block of it: their two points, classes and weights, shape (n,) or longer."""

    left: Int32s
    right: Int32s
    kinds: Codes
    weights: Int32s


class SearchRoom(NamedTuple):
    """Room for a search, as long as the longest node."""

    every: NodePairs  # all pairs of a node
    words: NDArray[np.uint64]  # a word of `Present` for each pair: the features that both points have
    # places, weights: numbers of the pairs that do not lack a column, and their weights where values are ordered
    places: Int32s
    weights: Int32s
    numbers: Int32s  # 0, 1, ..., the numbers of all pairs
    ordered: OrderedNode  # the values of a column, their order, and the classes of the pairs that do not lack it
    coded: Codes  # the codes of a block of pairs, shape (`CODED_PAIRS`,)
    # filled, walked: a histogram for each candidate, empty between two nodes, and room for a walk over its bins
    filled: NDArray[np.int32]
    walked: WalkRoom
    categories: CategoryRoom | None  # room for categories, if there are any

    @classmethod
    def of(cls, longest: int, width: int, bins: PairBins, categories: CategoryRoom | None) -> SearchRoom:
        """Allocate room for nodes of up to ``longest`` pairs and windows of ``width`` candidates."""
        left, right, weights, places, of_observed = np.empty((5, longest), np.int32)
        every, n_bins = NodePairs(left, right, np.empty(longest, np.uint8), weights), bins.edges.shape[1]
        observed = np.empty(longest, np.uint64), places, of_observed
        ordered, coded = OrderedNode.of(longest), np.empty(CODED_PAIRS, np.uint8)
        histograms = np.zeros((width, n_bins, 2), np.int32), WalkRoom.of(n_bins)
        return cls(every, *observed, np.arange(longest, dtype=np.int32), ordered, coded, *histograms, categories)


@kernel
def cut_pairs(level: PairLevel, few: Bools, width: int, bins: PairBins, room: SearchRoom, cuts: Cuts) -> None:
    """Cut each node by its first ``width`` candidates, or by the next ones if these have no cut.

    A node of ``few`` pairs is cut at any value. Another one is cut at the edges of bins, or at any value if no edge
    gains: the bins are those of all pairs, and pairs of a node may differ and still be in one bin.
    """
    n_candidates = level.columns.shape[1]
    for node in range(few.shape[0]):
        gather_pairs(node, level, room.every)
        for first in range(0, n_candidates, width):
            last = min(first + width, n_candidates)
            if not few[node]:
                cut_at_edges(node, first, last, level, bins, room, cuts)
            if few[node] or cuts.gain[node] <= 0.0:
                cut_at_values(node, first, last, level, room, cuts)
            if cuts.candidate[node] >= 0:
                break


@kernel
def read_chosen(level: PairLevel, chosen: Int32s, categories: CategoryRoom | None, values: Floats) -> None:
    """values[r] = the column of pair r that its node has chosen, of categories their rank, where there is a cut."""
    starts, rows, _ = level.nodes
    for node in range(chosen.shape[0]):
        first, last = starts[node], starts[node + 1]
        if chosen[node] >= 0:
            read_column(level.columns[node, chosen[node]], rows[first:last], level.pairs, values[first:last])
    rank_chosen(level, chosen, categories, values)


@borrowing
def gather_pairs(node: int, level: PairLevel, every: NodePairs) -> None:
    """Read the points, classes and weights of a node's pairs once for all of its candidates."""
    (starts, rows, weights), first = level.nodes, level.nodes.starts[node]
    own, left, right = rows.view(np.uint32), level.pairs.left, level.pairs.right  # see `distforest.jit`
    for r in range(starts[node + 1] - first):
        every.left[r], every.right[r] = left[own[first + r]], right[own[first + r]]
        every.kinds[r], every.weights[r] = level.codes[own[first + r]], weights[first + r]


@borrowing
def share_words(word: int, own: NodePairs, level: PairLevel, words: NDArray[np.uint64]) -> None:
    """words[r] = the features of a word that both points of pair r have."""
    (points, others), left, right = level.observed, own.left.view(np.uint32), own.right.view(np.uint32)
    for r in range(left.shape[0]):
        words[r] = points[left[r], word] & others[right[r], word]


@borrowing
def find_observed(column: int, own: NodePairs, level: PairLevel, room: SearchRoom) -> int:
    """Find the pairs that do not lack a column, without reading a value; returns how many they are.

    If features have one word, the words are those of the pairs already.
    """
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
    return pairs.is_complete or column >= pairs.columns.n_of_family


@borrowing
def cut_at_values(node: int, first: int, last: int, level: PairLevel, room: SearchRoom, cuts: Cuts) -> None:
    """As `cut_two_classes`, for candidates ``first`` to ``last - 1`` of a node, one after another."""
    (values, orders, kinds, sides), every = room.ordered, room.every
    size = level.nodes.starts[node + 1] - level.nodes.starts[node]
    own = NodePairs(every.left[:size], every.right[:size], every.kinds[:size], every.weights[:size])
    if not level.pairs.is_complete:
        share_words(0, own, level, room.words)
    for k in range(first, last):
        c = level.columns[node, k]
        if cut_if_sets(node, k, level, room.categories, cuts):
            continue
        n, of_node = size, TwoClassRows(own.weights, own.kinds)
        if is_never_missing(c, level.pairs):
            read_places(c, room.numbers[:n], own, level, values)
        else:
            n, of_node = find_observed(c, own, level, room), TwoClassRows(room.weights, kinds)
            if n == 0:
                continue
            read_places(c, room.places[:n], own, level, values)
            for r in range(n):
                place = np.uint32(room.places[r])
                room.weights[r], kinds[r] = own.weights[place], own.kinds[place]
        cut_candidate(node, k, values[:n], orders, of_node, level.judged, sides, cuts)


@borrowing
def cut_at_edges(
    node: int, first: int, last: int, level: PairLevel, bins: PairBins, room: SearchRoom, cuts: Cuts
) -> None:
    """filled[k, b, s] = weight of the pairs of class s with code b on a candidate; then cut the node.

    A block of pairs is coded and counted on one candidate after another. Unordered pairs of categories have no bins:
    they are counted by category.
    """
    columns, pairs, filled, walked, every = level.columns, level.pairs, room.filled, room.walked, room.every
    begins = STAY if pairs.is_complete else LEFT
    n_bins = filled.shape[1] - (not pairs.is_complete)  # the last one holds the missing pairs
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
        c, histogram = columns[node, k], filled[k - first]
        if cut_if_sets(node, k, level, room.categories, cuts):
            continue
        held = walked.held[: held_bins(histogram[:n_bins], walked.held)]
        if not is_never_missing(c, pairs):
            fill_missing(histogram, held, level.judged.counts[node])
        cut_held(node, k, histogram, held, bins.edges[c], level.judged, begins, walked.sides, cuts)
        empty_bins(histogram, held)


@borrowing
def count_block(
    column: int, own: NodePairs, level: PairLevel, bins: PairBins, room: SearchRoom, filled: NDArray[np.int32]
) -> None:
    """Add the weight of each pair of a block that does not lack a column to filled[its code, its class]."""
    places, values, coded = room.numbers[: own.left.shape[0]], room.ordered.values, room.coded
    if not is_never_missing(column, level.pairs):
        places = room.places[: find_observed(column, own, level, room)]
    read_places(column, places, own, level, values)
    low, scale, code, edges = bins.low[column], bins.scale[column], bins.code[column], bins.edges[column]
    for r in range(places.shape[0]):
        coded[r] = code_of(values[r], low, scale, code, edges)
    where, kinds, weights = places.view(np.uint32), own.kinds, own.weights  # see `distforest.jit`
    for r in range(where.shape[0]):
        filled[coded[r], kinds[where[r]]] += weights[where[r]]
