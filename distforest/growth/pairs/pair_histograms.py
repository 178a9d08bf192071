"""Histograms of pairs: cuts between their bins, which are bins of values or categories in their order.

Missing pairs have a bin of their own, and are tried on either side.

The column whose categories are unordered pairs {k, l} of a feature's categories is cut into the best set of them. The
pairs of points are counted by category and class. In the order of the shares of dissimilar pairs, one of the cuts is
the best of all sets for two classes, whatever their costs and on whichever side the missing pairs are (Breiman,
Friedman, Olshen, Stone, Classification and regression trees, 1984, theorem 4.5): see
`distforest.growth.cuts.category_orders`, whose ranks these are. This does not hold where a side may be too light.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from distforest.forest.missing import ALL_OBSERVED
from distforest.growth.cuts.category_orders import Tally, number_categories, rank_by_means, tally_for, write_ranks
from distforest.growth.cuts.ordering import OrderRoom
from distforest.growth.cuts.scan import Tallies, scan_keys, tallies_for
from distforest.growth.cuts.two_classes import TwoSums, fill_missing
from distforest.jit import inlined, kernel, no_refcount
from distforest.sources.point_pairs import PAIRED, ColumnReading, read_column
from distforest.sources.source import Floats, Int32s, Ints

if TYPE_CHECKING:
    from distforest.forest.frontier import Nodes
    from distforest.growth.cuts.scan import Cuts
    from distforest.growth.cuts.search import Limits
    from distforest.growth.cuts.two_classes import CostedImpurity, OpenNode, TwoClasses
    from distforest.growth.grower import Windows
    from distforest.growth.pairs.bins import PairBins
    from distforest.sources.kernels import Present
    from distforest.sources.point_pairs import PairColumns, PairReading, PointPairs

    Codes = NDArray[np.uint8]


CODED_PAIRS = 128
"""Number of pairs that are coded together: their codes stay in the processor's cache."""


class NodePairs(NamedTuple):
    """Pairs of a node, or of a block of it: their two points, classes and weights, shape (n,) or longer."""

    left: Int32s
    right: Int32s
    kinds: Codes
    weights: Int32s


class PairLevel(NamedTuple):
    """A level as the kernels of a search take it."""

    nodes: Nodes  # the pairs of each node
    columns: Int32s  # the candidate columns of each node, shape (n_nodes, width)
    codes: Codes  # the class of each pair, shape (n_pairs,)
    pairs: PairReading  # how the columns of a pair are read
    observed: Present  # which features each point has
    # Of square cuts the code of each coordinate of each point, shape (n_points, p), without bins (0, p), for the first
    # points of pairs and for the second ones. None: no cuts are square.
    squares: tuple[Codes, Codes] | None
    # counts, costs: weight and cost of each class in each node, shape (n_nodes, 2)
    counts: Ints
    costs: Floats
    min_leaf: int  # least weight of a side, at least 1
    impurity: CostedImpurity  # what scores cuts, without the costs of a node

    @classmethod
    def from_search(
        cls, source: PointPairs, criterion: TwoClasses, windows: Windows, limits: Limits, squares: Codes | None
    ) -> PairLevel:
        """Collect the level of a search of pairs of two classes."""
        frontier, projections, _ = windows
        columns = projections.columns.reshape(frontier.n_nodes, projections.width)
        sides = None
        if squares is not None:  # where records are compared, each pair has a second point of its own
            is_own = bool(source.columns.comparisons and len(squares))
            sides = squares, squares[source.second_points] if is_own else squares
        of_pairs = frontier.nodes, columns, criterion.codes, source.reading, source.observed, sides
        counts, costs = criterion.counts(frontier), criterion.costs[frontier.tree]
        return cls(*of_pairs, counts, costs, max(1, limits.min_samples_leaf), criterion.impurity)


class HistogramRoom(NamedTuple):
    """Room for the scan of a histogram of n bins, one of missing pairs, and one whose pairs all are on the left."""

    keys: Floats  # the numbers of the bins as keys; NaN for that of the pairs on the left, shape (n + 2,)
    order: Ints  # the bins in the order of the scan, shape (n + 2,)

    @classmethod
    def allocate(cls, n: int) -> Self:
        """Allocate room for histograms of n bins."""
        return cls(np.append(np.arange(n + 1.0), np.nan), np.empty(n + 2, np.int64))


@no_refcount
def held_bins(filled: Int32s, held: Ints) -> int:
    """Write the numbers of the bins that hold something, ascending, and return how many these are."""
    n, both = 0, filled.view(np.uint64)
    for b in range(both.shape[0]):  # without a branch, which would be mispredicted where every other bin is empty
        held[n] = b
        n += both[b, 0] != 0
    return n


@inlined
def cut_bins(
    node: int,
    candidate: int,
    filled: Int32s,
    edges: Floats,
    lacks: bool,
    of_node: OpenNode,
    room: HistogramRoom,
    cuts: Cuts,
) -> None:
    """Scan the bins that hold pairs, and empty them; a threshold is the middle one of the edges between two of them.

    Behind the bins of values is that of missing pairs, which is filled here if the candidate may lack some, and then
    one whose pairs are on the left before the first value: those of all square cuts, none of other cuts.
    """
    (impurity, tallies, rules), missing, at_start = of_node, filled.shape[0] - 2, cuts.gain[node]
    room.order[0] = missing + 1
    n = 1 + held_bins(filled[:missing], room.order[1:])
    room.order[n] = missing
    if lacks:
        fill_missing(filled, room.order[:n], missing, tallies)
    order = room.order[: n + lacks]
    scan_keys(node, candidate, room.keys, order, n, TwoSums(filled), impurity, tallies, rules, cuts)
    if cuts.gain[node] > at_start and cuts.threshold[node] != ALL_OBSERVED:
        cuts.threshold[node] = edges[np.int64(np.ceil(cuts.threshold[node])) - 1]
    for place in order:
        filled[place, 0], filled[place, 1] = 0, 0


class CategoryRoom(NamedTuple):
    """Room for the categories of a node's pairs; c of them are seen."""

    tally: Tally  # as in `category_orders`: its vectors are the shares of the dissimilar pairs
    values: Floats  # the category of each pair, shape (n,)
    held: Int32s  # weight of the two classes in each category, and then of the missing pairs, shape (c + 1, 2)
    order: Ints  # the categories by rank, and then the missing pairs, shape (c + 1,)

    @classmethod
    def allocate(cls, columns: PairColumns, sizes: Ints) -> Self | None:
        """Allocate room for nodes of some sizes; None if no column has categories.

        A kernel that is given None is compiled without what cuts categories, which is more than a third of it.
        """
        if not columns.n_categories:
            return None
        n_codes, longest = max(columns.categories_of_columns), int(sizes.max(initial=0))
        most = min(n_codes, longest) + 1
        tally, held = tally_for(n_codes, longest, 1), np.empty((most, 2), np.int32)
        return cls(tally, np.empty(longest), held, np.empty(most, np.int64))


class SearchRoom(NamedTuple):
    """Room for a search, as long as the longest node."""

    every: NodePairs  # all pairs of a node
    sums: Int32s  # the weight of the two classes in each of them, as groups of the scan, and at last of missing pairs
    words: NDArray[np.uint64]  # a word of `Present` for each pair: the features that both points have
    places: Int32s  # numbers of the pairs that do not lack a column
    numbers: Int32s  # 0, 1, ..., the numbers of all pairs
    coded: Codes  # the codes of a block of pairs, shape (`CODED_PAIRS`,)
    filled: Int32s  # a histogram for each candidate, empty between two nodes
    bins: HistogramRoom
    tallies: Tallies
    categories: CategoryRoom | None  # room for categories, if there are any
    # some, values, orders: ``sums`` of the pairs that do not lack a column, its values, and their order; or of both
    # ends of all pairs
    some: Int32s
    values: Floats
    orders: OrderRoom

    @classmethod
    def allocate(
        cls, longest: int, width: int, bins: PairBins, has_ends: bool, categories: CategoryRoom | None
    ) -> SearchRoom:
        """Allocate room for nodes of up to ``longest`` pairs and windows of ``width`` candidates."""
        left, right, weights, places = np.empty((4, longest), np.int32)
        every, n_bins = NodePairs(left, right, np.empty(longest, np.uint8), weights), bins.edges.shape[1]
        sums, words, numbers = np.empty((longest + 1, 2), np.int32), np.empty(longest, np.uint64), np.arange(longest)
        coded, filled = np.empty(CODED_PAIRS, np.uint8), np.zeros((width, n_bins + 2, 2), np.int32)
        scanned, n = (
            (HistogramRoom.allocate(n_bins), tallies_for(2), categories),
            (2 if has_ends else 1) * (longest + 1),
        )
        ordered = np.empty((n, 2), np.int32), np.empty(n), OrderRoom.allocate(n)
        return cls(every, sums, words, places, numbers.astype(np.int32), coded, filled, *scanned, *ordered)


@no_refcount
def holds_pairs(column: int, how: ColumnReading) -> bool:
    """Whether the categories of a column are unordered pairs."""
    if how.kinds.shape[0] == 0 or column < how.n_features or column >= how.n_of_family:
        return False
    return how.kinds[column - how.n_features] == PAIRED


@no_refcount
def rank_pairs(node: int, column: int, level: PairLevel, room: CategoryRoom) -> int:
    """Rank the categories of a node's pairs by their share of dissimilar ones; returns their number c.

    Afterwards ``held`` and the ranks in ``tally`` are those of the c categories.
    """
    (starts, rows, weights), tally, held = level.nodes, room.tally, room.held
    first, last = starts[node], starts[node + 1]
    read_column(column, rows[first:last], level.pairs, room.values)
    n = number_categories(room.values[: last - first], tally)
    for c in range(n):
        held[c, 0], held[c, 1] = 0, 0
    for r in range(last - first):
        if tally.local[r] >= 0:
            held[tally.local[r], level.codes[rows[first + r]]] += weights[first + r]
    for c in range(n):
        tally.mass[c] = np.float64(held[c, 0]) + np.float64(held[c, 1])
        tally.vectors[c, 0] = np.float64(held[c, 1])
    rank_by_means(n, tally)
    return n


@no_refcount
def cut_if_sets(
    node: int, candidate: int, level: PairLevel, of_node: OpenNode, room: CategoryRoom | None, cuts: Cuts
) -> bool:
    """If the candidate holds unordered pairs, scan these by their ranks; returns whether it does."""
    if room is None or not holds_pairs(level.columns[node, candidate], level.pairs.columns):
        return False
    (impurity, tallies, rules), (tally, _, held, order) = of_node, room
    n = rank_pairs(node, level.columns[node, candidate], level, room)
    for e in range(n):
        order[e] = tally.order[e]
    order[n] = n
    fill_missing(held, order[:n], n, tallies)
    scan_keys(node, candidate, tally.rank, order[: n + 1], n, TwoSums(held), impurity, tallies, rules, cuts)
    return True


@kernel
def rank_chosen(level: PairLevel, chosen: Ints, room: CategoryRoom | None, values: Floats) -> None:
    """values[r] = rank of the category of pair r, in the nodes whose ``chosen`` candidate holds unordered pairs."""
    starts = level.nodes.starts
    if room is None:
        return
    for node in range(starts.shape[0] - 1):
        if chosen[node] < 0 or not holds_pairs(level.columns[node, chosen[node]], level.pairs.columns):
            continue
        rank_pairs(node, level.columns[node, chosen[node]], level, room)
        write_ranks(room.tally, values[starts[node] : starts[node + 1]])
