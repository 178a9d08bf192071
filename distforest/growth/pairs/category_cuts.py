"""Cuts of the column whose categories are unordered pairs: the best set of pairs {k, l} of a feature's categories.

The pairs of points are counted by category and class. In the order of the shares of dissimilar pairs, one of the cuts
is the best of all sets for two classes, whatever their costs and on whichever side the missing pairs are (Breiman,
Friedman, Olshen, Stone, Classification and regression trees, 1984, theorem 4.5): see
`distforest.growth.cuts.category_orders`, whose ranks these are. This does not hold where a side may be too light.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Self

import numpy as np

from distforest.forest.frontier import LEFT, STAY
from distforest.growth.cuts.category_orders import Tally, number_categories, rank_by_means, tally_for, write_ranks
from distforest.growth.cuts.two_classes import read_codes
from distforest.growth.pairs.histograms import WalkRoom, cut_bins
from distforest.jit import borrowing, kernel
from distforest.sources.point_pairs import PAIRED, ColumnReading, read_column
from distforest.sources.source import Floats, Int32s, Ints

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from distforest.growth.cuts.scan import Cuts
    from distforest.growth.pairs.level import PairLevel
    from distforest.sources.point_pairs import PairColumns

    Codes = NDArray[np.uint8]


class CategoryRoom(NamedTuple):
    """Room for the categories of a node's pairs; c of them are seen.

    Attributes
    ----------
    tally
        As in `category_orders`: its vectors are the shares of the dissimilar pairs.
    values, kinds
        The category and the class of each pair, shape (n,).
    held
        Weight of the two classes in each category, shape (c, 2).
    filled
        The same by rank; at last the weight of missing pairs, shape (c + 1, 2).
    edges
        Between each rank and the next, shape (c,).
    bins
        Room for a walk over the ranks.
    """

    tally: Tally
    values: Floats
    kinds: Codes
    held: Int32s
    filled: Int32s
    edges: Floats
    bins: WalkRoom

    @classmethod
    def of(cls, columns: PairColumns, sizes: Ints) -> Self | None:
        """Allocate room for nodes of some sizes; None if no column has categories.

        A kernel that is given None is compiled without what cuts categories, which is more than a third of it.
        """
        if not columns.n_categories:
            return None
        n_codes, longest = max(columns.categories_of_columns), int(sizes.max(initial=0))
        most = min(n_codes, longest)
        held, filled = np.empty((most, 2), np.int32), np.empty((most + 1, 2), np.int32)
        values, kinds = np.empty(longest), np.empty(longest, np.uint8)
        edges = np.arange(most, dtype=np.float64) + 0.5
        return cls(tally_for(n_codes, longest, 1), values, kinds, held, filled, edges, WalkRoom.of(most + 1))


@borrowing
def holds_pairs(column: int, how: ColumnReading) -> bool:
    """Whether the categories of a column are unordered pairs."""
    if how.kinds.shape[0] == 0 or column < how.n_features or column >= how.n_of_family:
        return False
    return how.kinds[column - how.n_features] == PAIRED


@borrowing
def rank_pairs(node: int, column: int, level: PairLevel, room: CategoryRoom) -> int:
    """Rank the categories of a node's pairs by their share of dissimilar ones; returns their number c.

    Afterwards ``held`` and the ranks in ``tally`` are those of the c categories.
    """
    (starts, rows, weights), tally, held = level.nodes, room.tally, room.held
    first, last = starts[node], starts[node + 1]
    read_column(column, rows[first:last], level.pairs, room.values)
    read_codes(rows[first:last], level.codes, room.kinds)
    n = number_categories(room.values[: last - first], tally)
    for c in range(n):
        held[c, 0], held[c, 1] = 0, 0
    for r in range(last - first):
        if tally.local[r] >= 0:
            held[tally.local[r], room.kinds[r]] += weights[first + r]
    for c in range(n):
        tally.mass[c] = np.float64(held[c, 0]) + np.float64(held[c, 1])
        tally.vectors[c, 0] = np.float64(held[c, 1])
    rank_by_means(n, tally)
    return n


@borrowing
def cut_if_sets(node: int, candidate: int, level: PairLevel, room: CategoryRoom | None, cuts: Cuts) -> bool:
    """`cut_sets_of_pairs` if the candidate holds unordered pairs; returns whether it does."""
    if room is None or not holds_pairs(level.columns[node, candidate], level.pairs.columns):
        return False
    cut_sets_of_pairs(node, candidate, level, room, cuts)
    return True


@borrowing
def cut_sets_of_pairs(node: int, candidate: int, level: PairLevel, room: CategoryRoom, cuts: Cuts) -> None:
    """`cut_bins` whose bins are the ranks of the categories of a node's pairs."""
    n, tally, filled = rank_pairs(node, level.columns[node, candidate], level, room), room.tally, room.filled
    first, last = level.nodes.starts[node], level.nodes.starts[node + 1]
    for c in range(n + 1):
        filled[c, 0], filled[c, 1] = 0, 0
    for c in range(n):
        for s in range(2):
            filled[np.int64(tally.rank[c]), s] += room.held[c, s]
    for r in range(last - first):
        if tally.local[r] < 0:
            filled[n, room.kinds[r]] += level.nodes.weights[first + r]
    begins = STAY if level.pairs.is_complete else LEFT
    cut_bins(node, candidate, filled[: n + 1], room.edges, level.judged, begins, room.bins, cuts)


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
