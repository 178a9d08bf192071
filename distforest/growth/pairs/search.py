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
from distforest.growth.cuts.two_classes import TwoClasses, TwoClassRows, cut_candidate
from distforest.growth.grower import Windows
from distforest.growth.pairs.bins import SEARCHED, PairBins, cell_of, code_of, search
from distforest.growth.pairs.category_cuts import CategoryRoom, cut_if_sets, holds_pairs, rank_chosen
from distforest.growth.pairs.histograms import WalkRoom, cut_held, empty_bins, fill_missing, held_bins
from distforest.growth.pairs.level import PairLevel
from distforest.jit import borrowing, kernel
from distforest.sources.kernels import WORD
from distforest.sources.point_pairs import MAX_MIN, PairReading, PointPairs, pair_value, read_column
from distforest.sources.source import Floats, Int32s, Ints, Projections

if TYPE_CHECKING:
    from distforest.forest.frontier import Frontier
    from distforest.growth.grower import Limits

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


class CodedNode(NamedTuple):
    """Room for the values, codes and cells of a block of pairs, for the histograms, and for a walk over their bins.

    Histograms are empty between two nodes.
    """

    values: Floats
    coded: Codes
    cells: NDArray[np.uint32]
    filled: NDArray[np.int32]
    walked: WalkRoom

    @classmethod
    def of(cls, width: int, bins: PairBins) -> CodedNode:
        """Allocate room for ``width`` candidates and some bins."""
        n_columns, n_bins = bins.edges.shape
        coded, filled = np.empty((width, CODED_PAIRS), np.uint8), np.zeros((width, n_bins, 2), np.int32)
        cells = np.empty(n_columns, np.uint32)
        return cls(np.empty(CODED_PAIRS), coded, cells, filled, WalkRoom.of(n_bins))


class NodePairs(NamedTuple):
    """Pairs of a node: their two points, classes and weights, shape (n,) or longer."""

    left: Int32s
    right: Int32s
    kinds: Codes
    weights: Int32s

    @classmethod
    def of(cls, longest: int) -> NodePairs:
        """Allocate room for nodes of up to ``longest`` pairs."""
        left, right, weights = np.empty((3, longest), np.int32)
        return cls(left, right, np.empty(longest, np.uint8), weights)


class ObservedPairs(NamedTuple):
    """Which pairs of a node, or of a block of it, do not lack a column.

    Attributes
    ----------
    words
        A word of `Present` for each pair: the features that both points have, shape (n,).
    places
        Numbers of the pairs that do not lack the column, shape (n,) or longer.
    weights, kinds
        Their weights and classes, where values are ordered.
    """

    words: NDArray[np.uint64]
    places: Int32s
    weights: Int32s
    kinds: Codes

    @classmethod
    def of(cls, longest: int) -> ObservedPairs:
        """Allocate room for nodes of up to ``longest`` pairs."""
        places, weights = np.empty((2, longest), np.int32)
        return cls(np.empty(longest, np.uint64), places, weights, np.empty(longest, np.uint8))


class SearchRoom(NamedTuple):
    """Room for a search.

    Attributes
    ----------
    every, observed
        All pairs of a node, and those that do not lack a column.
    numbers
        0, 1, ..., as long as a node.
    ordered, coded, categories
        Where values are ordered, where they are coded, and where they are categories.
    """

    every: NodePairs
    observed: ObservedPairs
    numbers: Int32s
    ordered: OrderedNode
    coded: CodedNode
    categories: CategoryRoom | None

    @classmethod
    def of(cls, longest: int, width: int, bins: PairBins, categories: CategoryRoom | None) -> SearchRoom:
        """Allocate room for nodes of up to ``longest`` pairs and windows of ``width`` candidates."""
        numbers, pairs = np.arange(longest, dtype=np.int32), (NodePairs.of(longest), ObservedPairs.of(longest))
        return cls(*pairs, numbers, OrderedNode.of(longest), CodedNode.of(width, bins), categories)


@kernel
def cut_pairs(
    level: PairLevel,
    few: Bools,
    width: int,
    bins: PairBins,
    room: SearchRoom,
    cuts: Cuts,
) -> None:
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
def find_observed(column: int, own: NodePairs, level: PairLevel, observed: ObservedPairs) -> int:
    """Find the pairs that do not lack a column, without reading a value; returns how many they are.

    If features have one word, the words are those of the pairs already.
    """
    feature, words, places = column % level.pairs.columns.n_features, observed.words, observed.places
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
def cut_at_values(
    node: int,
    first: int,
    last: int,
    level: PairLevel,
    room: SearchRoom,
    cuts: Cuts,
) -> None:
    """As `cut_two_classes`, for candidates ``first`` to ``last - 1`` of a node, one after another."""
    (values, orders, _, sides), observed = room.ordered, room.observed
    size = level.nodes.starts[node + 1] - level.nodes.starts[node]
    every = room.every
    own = NodePairs(every.left[:size], every.right[:size], every.kinds[:size], every.weights[:size])
    if not level.pairs.is_complete:
        share_words(0, own, level, observed.words)
    for k in range(first, last):
        c = level.columns[node, k]
        if cut_if_sets(node, k, level, room.categories, cuts):
            continue
        n, of_node = size, TwoClassRows(own.weights, own.kinds)
        if is_never_missing(c, level.pairs):
            read_places(c, room.numbers[:n], own, level, values)
        else:
            n, of_node = find_observed(c, own, level, observed), TwoClassRows(observed.weights, observed.kinds)
            if n == 0:
                continue
            read_places(c, observed.places[:n], own, level, values)
            for r in range(n):
                place = np.uint32(observed.places[r])
                observed.weights[r], observed.kinds[r] = own.weights[place], own.kinds[place]
        cut_candidate(node, k, values[:n], orders, of_node, level.judged, sides, cuts)


@borrowing
def cut_at_edges(
    node: int,
    first: int,
    last: int,
    level: PairLevel,
    bins: PairBins,
    room: SearchRoom,
    cuts: Cuts,
) -> None:
    """filled[k, b, s] = weight of the pairs of class s with code b on a candidate; then cut the node.

    A block of pairs is coded and counted on one candidate after another. Where all columns are candidates, they are
    coded side by side, in the order of the columns. Unordered pairs of categories have no bins: they are counted by
    category.
    """
    columns, pairs, filled, every = level.columns, level.pairs, room.coded.filled, room.every
    is_all = last - first == bins.edges.shape[0] and pairs.columns.family != MAX_MIN
    begins, walked = STAY if pairs.is_complete else LEFT, room.coded.walked
    n_bins = filled.shape[1] - (not pairs.is_complete)  # the last one holds the missing pairs
    size = level.nodes.starts[node + 1] - level.nodes.starts[node]
    for begin in range(0, size, CODED_PAIRS):
        end = min(begin + CODED_PAIRS, size)
        own = NodePairs(every.left[begin:end], every.right[begin:end], every.kinds[begin:end], every.weights[begin:end])
        if is_all:
            of_node = level.nodes.rows[level.nodes.starts[node] :]
            count_all(of_node[begin:end], own, level.pairs, bins, room)
        else:
            count_some(node, (first, last), own, level, bins, room)
    for k in range(first, last):
        c = columns[node, k]
        if cut_if_sets(node, k, level, room.categories, cuts):
            continue
        histogram = filled[c if is_all else k - first]
        held = walked.held[: held_bins(histogram[:n_bins], walked.held)]
        if not is_all and not is_never_missing(c, pairs):
            fill_missing(histogram, held, level.judged.counts[node])
        cut_held(node, k, histogram, held, bins.edges[c], level.judged, begins, walked.sides, cuts)
        empty_bins(histogram, held)


@borrowing
def count_all(block: Int32s, own: NodePairs, pairs: PairReading, bins: PairBins, room: SearchRoom) -> None:
    """Code and count a block of a node's pairs in all columns; ``block`` has their numbers, ``own`` what is counted."""
    _, coded, cells, filled, _ = room.coded
    code_all(block, pairs, bins, cells, coded)
    if not pairs.is_complete:
        code_missing(block, pairs, bins.edges.shape[1] - 1, coded)
    for k in range(filled.shape[0]):
        if holds_pairs(k, pairs.columns):
            continue
        count_block(room.numbers[: block.shape[0]], own, coded[k], filled[k])


@borrowing
def count_some(
    node: int,
    candidates: tuple[int, int],
    own: NodePairs,
    level: PairLevel,
    bins: PairBins,
    room: SearchRoom,
) -> None:
    """Code and count those of a block of pairs that do not lack the column, on one candidate after another."""
    values, coded, _, filled, _ = room.coded
    if not level.pairs.is_complete:
        share_words(0, own, level, room.observed.words)
    for k in range(candidates[0], candidates[1]):
        c, places = level.columns[node, k], room.numbers[: own.left.shape[0]]
        if holds_pairs(c, level.pairs.columns):
            continue
        if not is_never_missing(c, level.pairs):
            places = room.observed.places[: find_observed(c, own, level, room.observed)]
        read_places(c, places, own, level, values)
        low, scale, code, edges = bins.low[c], bins.scale[c], bins.code[c], bins.edges[c]
        for r in range(places.shape[0]):
            coded[0, r] = code_of(values[r], low, scale, code, edges)
        count_block(places, own, coded[0], filled[k - candidates[0]])


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
def count_block(places: Int32s, own: NodePairs, coded: Codes, filled: NDArray[np.int32]) -> None:
    """Add the weight of pair places[r] to filled[coded[r], its class]."""
    where, kinds, weights = places.view(np.uint32), own.kinds, own.weights  # see `distforest.jit`
    for r in range(where.shape[0]):
        filled[coded[r], kinds[where[r]]] += weights[where[r]]
