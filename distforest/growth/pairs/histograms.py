"""Histograms of pairs: cuts between their bins, which are bins of values or categories in their order.

The last bin may be that of missing pairs, which are tried on either side.

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

from distforest.forest.frontier import LEFT, RIGHT, STAY
from distforest.growth.cuts.category_orders import Tally, number_categories, rank_by_means, tally_for, write_ranks
from distforest.growth.cuts.scan import keep_best, note_missing
from distforest.growth.cuts.two_classes import gain_of_counts, read_codes, whole_of
from distforest.jit import borrowing, kernel
from distforest.sources.point_pairs import PAIRED, ColumnReading, read_column
from distforest.sources.source import Floats, Int32s, Ints

if TYPE_CHECKING:
    from distforest.forest.frontier import Frontier, Nodes
    from distforest.growth.cuts.scan import Cuts
    from distforest.growth.cuts.search import Limits
    from distforest.growth.cuts.two_classes import Judged, TwoClasses
    from distforest.sources.kernels import Present
    from distforest.sources.point_pairs import PairColumns, PairReading, PointPairs
    from distforest.sources.source import Projections

    Codes = NDArray[np.uint8]


class PairLevel(NamedTuple):
    """A level as the kernels of a search take it."""

    nodes: Nodes  # the pairs of each node
    columns: Int32s  # the candidate columns of each node, shape (n_nodes, width)
    codes: Codes  # the class of each pair, shape (n_pairs,)
    pairs: PairReading  # how the columns of a pair are read
    observed: Present  # which features each point has
    judged: Judged  # counts and costs of the two classes in each node, and the least weight of a side

    @classmethod
    def of(
        cls, source: PointPairs, criterion: TwoClasses, frontier: Frontier, projections: Projections, limits: Limits
    ) -> PairLevel:
        """Collect the level of a search of pairs of two classes."""
        columns = projections.columns.reshape(frontier.n_nodes, projections.width)
        judged = criterion.judged(frontier, limits.min_samples_leaf)
        return cls(frontier.nodes, columns, criterion.codes, source.reading, source.observed, judged)


class WalkRoom(NamedTuple):
    """Room for the sides of a cut, shape (2,), and for the numbers of the bins that hold pairs, shape (n_bins,)."""

    sides: Ints
    held: Int32s

    @classmethod
    def of(cls, n_bins: int) -> WalkRoom:
        """Allocate room for histograms of so many bins."""
        return cls(np.empty(2, np.int64), np.empty(n_bins, np.int32))


@borrowing
def fill_missing(filled: NDArray[np.int32], held: Int32s, counts: Ints) -> None:
    """filled[last bin, s] = what is left of a node's ``counts`` when the pairs of the bins ``held`` are taken away."""
    last = filled.shape[0] - 1
    of_0, of_1 = counts[0], counts[1]
    for b in held:
        of_0 -= filled[b, 0]
        of_1 -= filled[b, 1]
    filled[last, 0], filled[last, 1] = of_0, of_1


@borrowing
def held_bins(filled: NDArray[np.int32], held: Int32s) -> int:
    """Write the numbers of the bins that hold something, ascending, and return how many these are."""
    n, both = 0, filled.view(np.uint64)
    for b in range(both.shape[0]):  # without a branch, which would be mispredicted where every other bin is empty
        held[n] = b
        n += both[b, 0] != 0
    return n


@borrowing
def empty_bins(filled: NDArray[np.int32], held: Int32s) -> None:
    """Empty the bins ``held`` and the last one."""
    last = filled.shape[0] - 1
    filled[last, 0], filled[last, 1] = 0, 0
    for b in held:
        filled[b, 0], filled[b, 1] = 0, 0


@borrowing
def cut_bins(
    node: int,
    candidate: int,
    filled: NDArray[np.int32],
    edges: Floats,
    judged: Judged,
    begins: int,
    room: WalkRoom,
    cuts: Cuts,
) -> None:
    """`cut_held` of all bins that hold pairs."""
    n = held_bins(filled[: filled.shape[0] - (begins != STAY)], room.held)
    cut_held(node, candidate, filled, room.held[:n], edges, judged, begins, room.sides, cuts)


@borrowing
def cut_held(
    node: int,
    candidate: int,
    filled: NDArray[np.int32],
    held: Int32s,
    edges: Floats,
    judged: Judged,
    begins: int,
    left: Ints,
    cuts: Cuts,
) -> None:
    """Walk over the bins ``held`` with the missing pairs, those of the last bin, on the right, and then on the left.

    On the side ``begins`` they are among those that are counted from the start; ``STAY``: no pair is missing.
    """
    last = filled.shape[0] - 1
    left[0], left[1] = 0, 0
    if begins == STAY or (filled[last, 0] == 0 and filled[last, 1] == 0):
        walk_bins(node, candidate, filled, held, edges, judged, STAY, left, cuts)
        return
    for side in (RIGHT, LEFT):
        for s in range(2):
            left[s] = filled[last, s] if side == begins else 0
        walk_bins(node, candidate, filled, held, edges, judged, side, left, cuts)


@borrowing
def walk_bins(
    node: int,
    candidate: int,
    filled: NDArray[np.int32],
    held: Int32s,
    edges: Floats,
    judged: Judged,
    missing: int,
    left: Ints,
    cuts: Cuts,
) -> None:
    """`scan_two_classes` over the bins ``held``; a cut between two is at the middle one of the edges between them.

    ``left`` holds what is counted from the start. If the side of ``missing`` pairs is the right one, a further cut
    parts them from all others.
    """
    counts, costs, min_leaf = judged.counts[node], judged.costs[node], judged.min_leaf
    whole, before, least = whole_of(counts, costs), -1, cuts.gain[node]
    for b in held:
        if before >= 0:
            gain = gain_of_counts(whole, left, counts, costs, min_leaf)
            if gain > cuts.gain[node]:
                edge = edges[(before + b - 1) // 2]
                keep_best(node, candidate, edge, edge, gain, cuts)
        before = b
        left[0] += filled[b, 0]
        left[1] += filled[b, 1]
    if missing == RIGHT:
        gain = gain_of_counts(whole, left, counts, costs, min_leaf)
        if gain > cuts.gain[node]:
            keep_best(node, candidate, 0.0, np.inf, gain, cuts)
    note_missing(node, least, missing, cuts)


class CategoryRoom(NamedTuple):
    """Room for the categories of a node's pairs; c of them are seen."""

    tally: Tally  # as in `category_orders`: its vectors are the shares of the dissimilar pairs
    # values, kinds: the category and the class of each pair, shape (n,)
    values: Floats
    kinds: Codes
    held: Int32s  # weight of the two classes in each category, shape (c, 2)
    filled: Int32s  # the same by rank; at last the weight of missing pairs, shape (c + 1, 2)
    edges: Floats  # between each rank and the next, shape (c,)
    bins: WalkRoom  # room for a walk over the ranks

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
    """If the candidate holds unordered pairs, `cut_bins` whose bins are their ranks; returns whether it does."""
    if room is None or not holds_pairs(level.columns[node, candidate], level.pairs.columns):
        return False
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
