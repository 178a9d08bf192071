"""The fused search of columns of categories: each category is a group, whose rank is its key.

::

    rows of a node     category, class, weight      groups            ranks
    [ b 0 1 ] [ a 1 2 ] [ b 0 3 ] [ a 1 1 ]   ->    b: 4, a: 3   ->   b 0, a 1

The search reads categories in place. It numbers those of a node in the order of their first rows, adds up their sums,
orders them by `distforest.growth.cuts.category_orders`, and scans them in this order. So no row is copied or sorted,
and nothing of the size of rows times candidates is held. Sums are exact, so the cuts are those of all rows by the ranks
of their categories. `CategorySums` does the same for one column whose rows arrive block after block.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Self

import numpy as np

from distforest.forest.frontier import Frontier, Nodes, longest_of
from distforest.growth.cuts.category_orders import rank_groups, tally_for
from distforest.growth.cuts.histograms import ColumnsRead
from distforest.growth.cuts.scan import (
    ALL_ROWS,
    Cuts,
    add_row,
    bins_for,
    clear_group,
    groups_for,
    rows_as_groups,
    scan_keys,
    tallies_for,
    tally_up,
    weigh_node,
)
from distforest.growth.cuts.sums import joined_groups
from distforest.jit import fetch, kernel, no_refcount
from distforest.sources.source import Float32s, Floats, Int32s, Ints

if TYPE_CHECKING:
    from distforest.growth.cuts.class_histograms import UInt32s
    from distforest.growth.cuts.criteria import Tallied
    from distforest.growth.cuts.scan import Impurity, RowGroups, SummedGroups
    from distforest.growth.cuts.search import Limits

_AHEAD = 32
"""Distance in rows by which values are prefetched."""

_SIDE_BY_SIDE = 128
"""Number of rows that are read candidate by candidate, while their lines are in the processor's cache."""

ABSENT = -1
"""Position of the first row of a category that no row has."""

_ROOM = 1 << 18
"""Bytes of sums over categories that are held at once, unless one candidate takes more."""


class CategoriesRead(NamedTuple):
    """The columns of categories that the candidates of each node read.

    Attributes
    ----------
    values
        Categories, NaN for missing ones, shape (n_rows, n).
    columns
        The positions of the columns among these.
    n_codes
        A number above any code of a category.
    """

    values: Float32s
    columns: ColumnsRead
    n_codes: int


def best_categories(
    categories: CategoriesRead, criterion: Tallied, frontier: Frontier, limits: Limits
) -> tuple[Cuts, Floats]:
    """Return the best cut of each node over columns of categories, and the rank of each row's category on it.

    Rows of nodes without a cut have the rank 0.
    """
    cuts, ranks = Cuts.none(frontier.n_nodes), np.zeros(len(frontier.rows))
    rules, truth = (limits.min_samples_leaf, criterion.places_missing), criterion.truth
    cut_ranks(frontier.nodes, categories, truth, criterion.impurity, criterion.n_dimensions, rules, cuts, ranks)
    return cuts, ranks


@dataclass(frozen=True)
class CategorySums:
    """The sums of a node over one column of categories: a group for each category and a last one for missing values.

    Attributes
    ----------
    criterion
        The criterion that scores cuts; its own rows are not read.
    bins
        The groups, shape (n_categories + 1,).
    first
        Position of the first row of each category in the node, `ABSENT` if none has it, shape (n_categories + 1,).
    n_rows
        Number of rows that were added, shape (1,).
    """

    criterion: Tallied
    bins: SummedGroups
    first: Ints
    n_rows: Ints

    @classmethod
    def zeros(cls, criterion: Tallied, n_categories: int) -> Self:
        """Return the sums of no rows."""
        bins = bins_for(criterion.impurity, n_categories + 1)
        return cls(criterion, bins, np.full(n_categories + 1, ABSENT, np.int64), np.zeros(1, np.int64))

    def add(self, categories: Float32s, truth: Int32s | Ints, rows: Int32s, weights: Int32s) -> None:
        """Add the rows numbered ``rows``, with these weights, after all earlier rows."""
        add_block_of_categories(
            categories, truth, rows, weights, self.criterion.impurity, self.n_rows, self.first, self.bins
        )

    def joined(self, after: Self) -> Self:
        """Return the sums of these rows and of those of ``after``, which come after them."""
        later = np.where(after.first == ABSENT, ABSENT, after.first + self.n_rows)
        first = np.where(self.first == ABSENT, later, self.first)
        return type(self)(self.criterion, joined_groups(self.bins, after.bins), first, self.n_rows + after.n_rows)

    @property
    def seen(self) -> Ints:
        """The categories that rows have, in the order of their first rows; the last number is for missing values."""
        there = np.flatnonzero(self.first != ABSENT)
        return np.asarray(there[np.argsort(self.first[there])])

    def improve(self, candidate: int, min_leaf: int, cuts: Cuts) -> Floats | None:
        """Make the best cut of this column the node's if it gains more than ``cuts``, of one node.

        Return the rank of each category, NaN if it is missing or no row has it, shape (n_categories + 1,); None if
        another cut remains.
        """
        ranks, seen = np.full(len(self.first), np.nan), self.seen
        seen, rules = seen[seen < len(ranks) - 1], (min_leaf, self.criterion.places_missing)
        impurity, n_dimensions = self.criterion.impurity, self.criterion.n_dimensions
        cut_category_sums(self.bins, seen, impurity, n_dimensions, candidate, rules, cuts, ranks)
        return ranks if cuts.candidate[0] == candidate else None


class Numbered(NamedTuple):
    """The categories of a node over some candidates, numbered in the order of their first rows.

    Attributes
    ----------
    slot
        The number of each code, -1 if it does not occur, shape (n_candidates, n_codes + 1). The last entry stands for
        missing values, and always has the last number.
    seen
        The code of each number, shape (n_candidates, most).
    n
        The number of categories, shape (n_candidates,).
    """

    slot: Int32s
    seen: Int32s
    n: Ints


@kernel
def numbered_for(n_candidates: int, n_codes: int, most: int) -> Numbered:
    """Allocate the numbers of up to ``most`` categories, without any."""
    slot = np.full((n_candidates, n_codes + 1), -1, np.int32)
    slot[:, n_codes] = most
    return Numbered(slot, np.empty((n_candidates, most), np.int32), np.zeros(n_candidates, np.int64))


@no_refcount
def number_next(code: int, candidate: int, numbered: Numbered) -> np.int64:
    """Number another category; return its number."""
    c = numbered.n[candidate]
    numbered.slot[candidate, code], numbered.seen[candidate, c] = c, code
    numbered.n[candidate] = c + 1
    return c


@no_refcount
def clear_numbers(n_candidates: int, numbered: Numbered) -> None:
    """Clear the categories of the first candidates."""
    for j in range(n_candidates):
        for c in range(numbered.n[j]):
            numbered.slot[j, numbered.seen[j, c]] = -1
        numbered.n[j] = 0


@no_refcount
def code_at(r: int, column: int, places: UInt32s, categories: CategoriesRead) -> np.uint32:
    """Return the code of the category of row places[r], ``n_codes`` if missing, and prefetch a later row."""
    values = categories.values
    fetch(values, np.int64(places[min(r + _AHEAD, places.shape[0] - 1)]) * values.shape[1] + column)
    value = values[places[r], column]
    return np.uint32(value) if value == value else np.uint32(categories.n_codes)


@no_refcount
def note_ranks(candidate: int, numbered: Numbered, rank: Floats, rank_of: Floats) -> None:
    """rank_of[code] = rank[its number]."""
    for c in range(numbered.n[candidate]):
        rank_of[numbered.seen[candidate, c]] = rank[c]


@no_refcount
def write_ranks_on(categories: CategoriesRead, rows: Int32s, column: int, rank_of: Floats, ranks: Floats) -> None:
    """ranks[r] = rank_of[the code of row r]."""
    places = rows.view(np.uint32)  # see `distforest.jit`
    for r in range(places.shape[0]):
        ranks[r] = rank_of[code_at(r, column, places, categories)]


@kernel
def cut_ranks(
    nodes: Nodes,
    categories: CategoriesRead,
    truth: Int32s | Ints,
    impurity: Impurity,
    n_dimensions: int,
    rules: tuple[int, bool],
    cuts: Cuts,
    ranks: Floats,
) -> None:
    """Find the best cut over ranks of categories, which are groups; ranks[r] is that of row r on the chosen candidate.

    Categories are ordered in ``n_dimensions``.
    """
    starts, rows, weights = nodes
    column, begin = categories.columns
    longest, n_codes = longest_of(starts), categories.n_codes
    most = min(n_codes, longest)
    at_once = max(1, min(longest_of(begin), _ROOM // (4 * n_codes + 8 * (most + 1) * (impurity.n_sums + 1))))
    numbered, rank_of = numbered_for(at_once, n_codes, most), np.empty(n_codes + 1)
    tally = tally_for(most + 1, most + 1, n_dimensions)
    groups, tallies = groups_for(impurity, longest), tallies_for(impurity.n_sums)
    bins, keys = bins_for(impurity, at_once * (most + 1)), np.empty(at_once * (most + 1))
    order = np.empty(longest + 1, np.int64)
    rank_of[n_codes] = np.nan
    for node in range(starts.shape[0] - 1):
        own, of_rows = column[begin[node] : begin[node + 1]], rows[starts[node] : starts[node + 1]]
        if own.shape[0] == 0:
            continue
        best = weigh_node(impurity, of_rows, weights[starts[node] : starts[node + 1]], truth, groups, order, tallies)
        for k in range(0, own.shape[0], at_once):
            of_group = own[k : min(k + at_once, own.shape[0])]
            add_categories(categories, of_rows, of_group, groups, numbered, bins)
            for j in range(of_group.shape[0]):
                first, n = j * (most + 1), numbered.n[j]
                n_missing = 1 if bins.weights[first + most] > 0 else 0
                if n == 0 or n + n_missing == 1 or cuts.gain[node] == best:
                    continue
                for c in range(n):
                    order[c] = first + c
                rank_groups(impurity, bins, order[:n], tally)
                for e in range(n):
                    order[e], keys[first + e] = first + tally.order[e], tally.rank[e]
                order[n] = first + most
                scan_keys(node, k + j, keys, order[: n + n_missing], n, bins, impurity, tallies, rules, cuts)
                if cuts.candidate[node] == k + j:
                    note_ranks(j, numbered, tally.rank, rank_of)
            clear_numbers(of_group.shape[0], numbered)
            if cuts.gain[node] == best:
                break
        if cuts.candidate[node] >= 0:
            chosen = own[cuts.candidate[node]]
            write_ranks_on(categories, of_rows, chosen, rank_of, ranks[starts[node] : starts[node + 1]])


@no_refcount
def add_categories(
    categories: CategoriesRead, rows: Int32s, columns: Int32s, groups: RowGroups, numbered: Numbered, bins: RowGroups
) -> None:
    """Add each row to the groups of its categories: of column j, category number c is group j (most + 1) + c.

    The last group of a column is that of missing values.
    """
    places, most = rows.view(np.uint32), np.int64(numbered.seen.shape[1])
    for j in range(columns.shape[0]):
        clear_group(bins, j * (most + 1) + most)
    for first in range(0, places.shape[0], _SIDE_BY_SIDE):
        last = min(first + _SIDE_BY_SIDE, places.shape[0])
        for j in range(columns.shape[0]):
            column, slot, begin = columns[j], numbered.slot[j], j * (most + 1)
            for r in range(first, last):
                code = code_at(r, column, places, categories)
                c = np.int64(slot[code])
                if c < 0:
                    c = number_next(code, j, numbered)
                    clear_group(bins, begin + c)
                add_row(bins, begin + c, groups, r)


@kernel
def add_block_of_categories(
    categories: Float32s,
    truth: Int32s | Ints,
    rows: Int32s,
    weights: Int32s,
    impurity: Impurity,
    n_before: Ints,
    first: Ints,
    bins: SummedGroups,
) -> None:
    """Add some rows to the groups of their categories; ``n_before``, the number of earlier rows, increases."""
    groups, missing = groups_for(impurity, _SIDE_BY_SIDE), np.int64(first.shape[0] - 1)
    for begin in range(0, rows.shape[0], _SIDE_BY_SIDE):
        some = rows[begin : begin + _SIDE_BY_SIDE]
        rows_as_groups(impurity, some, weights[begin : begin + _SIDE_BY_SIDE], truth, groups)
        places = some.view(np.uint32)  # see `distforest.jit`
        for r in range(places.shape[0]):
            value = categories[places[r]]
            c = np.int64(value) if value == value else missing
            add_row(bins, c, groups, r)
            if first[c] < 0:
                first[c] = n_before[0] + begin + r
    n_before[0] += rows.shape[0]


@kernel
def cut_category_sums(
    bins: SummedGroups,
    seen: Ints,
    impurity: Impurity,
    n_dimensions: int,
    candidate: int,
    rules: tuple[int, bool],
    cuts: Cuts,
    ranks: Floats,
) -> None:
    """As `cut_ranks` for one node and candidate, from its groups; ranks[c] is the rank of category c in ``seen``."""
    n, missing = seen.shape[0], bins.weights.shape[0] - 1
    n_missing = 1 if bins.weights[missing] > 0 else 0
    if n == 0:
        return
    tally, order, tallies = tally_for(n, n, n_dimensions), np.empty(n + 1, np.int64), tallies_for(impurity.n_sums)
    rank_groups(impurity, bins, seen, tally)
    for e in range(n):
        order[e], ranks[seen[e]] = seen[tally.order[e]], tally.rank[e]
    order[n] = missing
    tally_up(bins, order[: n + n_missing], ALL_ROWS, tallies)
    scan_keys(0, candidate, ranks, order[: n + n_missing], n, bins, impurity, tallies, rules, cuts)
