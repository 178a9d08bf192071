"""Merged rows: rows of one category that count as one; and the fused search of columns of categories by them.

::

    rows of a node     category, class, weight      merged rows
    [ b 0 1 ] [ a 1 2 ] [ b 0 3 ] [ a 1 1 ]   ->    [ b 0 4 ] [ a 1 3 ]

A weight is so many equal rows, so rows of one category and one class are one row of their whole weight. Rows with
vectors are two: one of weight 1 with the sum of all vectors, and one of all other weight with zeros. What orders and
cuts categories reads merged rows as it reads any others, and the cuts are the same bits, since every sum is.

The search reads categories where they lie. It numbers those of a node as their first rows come, adds up what they hold,
orders them by `distforest.growth.cuts.category_orders`, and scans merged rows that are laid in this order. So no row is
copied or sorted, and nothing of the size of rows times candidates is held.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from distforest.forest.frontier import Frontier, Nodes, longest_of
from distforest.growth.cuts.category_orders import Tally, rank_by_means, tally_for
from distforest.growth.cuts.histograms import ColumnsRead
from distforest.growth.cuts.scan import (
    ClassSums,
    Cuts,
    VectorSums,
    add_row,
    bins_for,
    clear_group,
    groups_for,
    scan_keys,
    tallies_for,
    weigh_node,
)
from distforest.jit import borrowing, dispatched, fetch, kernel
from distforest.sources.source import Float32s, Floats, Int32s, Ints

if TYPE_CHECKING:
    from distforest.growth.cuts.class_histograms import UInt32s
    from distforest.growth.cuts.criteria import Tallied
    from distforest.growth.cuts.scan import Impurity, RowGroups
    from distforest.growth.cuts.search import Limits

_AHEAD = 32
"""Rows ahead of the one that is read whose values are prefetched."""

_SIDE_BY_SIDE = 128
"""Rows that are read candidate by candidate, while their lines are in the processor's cache."""

_ROOM = 1 << 18
"""Bytes of sums over categories that are held at once, unless one candidate takes more."""


class MergedRows(NamedTuple):
    """Rows that stand for all rows of a node where one column of categories is judged.

    Attributes
    ----------
    values
        The category of each row, NaN if it is missing, shape (n,). Categories come as their first rows in the node do.
    truth
        Class of each row, shape (n,), int32; or its vector in fixed point, shape (n, n_dimensions), int64.
    weights
        Weight of each row, shape (n,), int32.
    """

    values: Floats
    truth: Int32s | Ints
    weights: Int32s


class MergedRoom(NamedTuple):
    """Room for merged rows, each of shape (n,).

    Attributes
    ----------
    values
        The value of each row's category: its code or its rank; NaN if it is missing.
    numbers
        Class of each row, or the number of its vector among some.
    weights
        Weight of each row.
    """

    values: Floats
    numbers: Int32s
    weights: Int32s


@kernel
def merged_room(n: int) -> MergedRoom:
    """Room for n merged rows."""
    return MergedRoom(np.empty(n), np.empty(n, np.int32), np.empty(n, np.int32))


@kernel
def lay_classes(categories: Ints, values: Floats, sums: Int32s, first: int, laid: MergedRoom) -> int:
    """Rows (values[c], l, sums[c, l]) of each category c in turn and each class l that it has, from row ``first`` on.

    Returns the number of the row after them.
    """
    end = first
    for c in categories:
        for of_class in range(sums.shape[1]):
            if sums[c, of_class] > 0:
                laid.values[end], laid.numbers[end], laid.weights[end] = values[c], of_class, sums[c, of_class]
                end += 1
    return end


@kernel
def lay_vectors(categories: Ints, values: Floats, filled: Ints, zero: int, laid: MergedRoom) -> None:
    """Rows (values[c], c, 1) and (values[c], zero, filled[c] - 1) of each category c in turn.

    Category c has the weight filled[c], and the vector number c as its sum; vector number ``zero`` is 0.
    """
    end = 0
    for c in categories:
        laid.values[end], laid.numbers[end], laid.weights[end] = values[c], c, 1
        laid.values[end + 1], laid.numbers[end + 1], laid.weights[end + 1] = values[c], zero, filled[c] - 1
        end += 2


class CategoriesRead(NamedTuple):
    """The columns of categories that the candidates of each node read.

    Attributes
    ----------
    values
        Categories, NaN for missing ones, shape (n_rows, n).
    columns
        The places of the columns among these.
    n_codes
        More than any code of a category.
    """

    values: Float32s
    columns: ColumnsRead
    n_codes: int


def best_categories(
    categories: CategoriesRead, criterion: Tallied, frontier: Frontier, limits: Limits
) -> tuple[Cuts, Floats]:
    """The best cut of each node over columns of categories, and the rank of each row's category on the chosen one.

    Rows of nodes without a cut have the rank 0.
    """
    cuts, ranks = Cuts.none(frontier.n_nodes), np.zeros(len(frontier.rows))
    rules, truth = (limits.min_samples_leaf, criterion.places_missing), criterion.truth
    cut_ranks(frontier.nodes, categories, truth, criterion.impurity, criterion.n_dimensions, rules, cuts, ranks)
    return cuts, ranks


class Numbered(NamedTuple):
    """The categories of a node over some candidates, numbered as their first rows come.

    Attributes
    ----------
    slot
        The number of each code, -1 if it is not there, shape (n_candidates, n_codes + 1). The last one stands for
        missing values, and has the last number in any case.
    seen
        The code of each number, shape (n_candidates, most).
    n
        How many categories there are, shape (n_candidates,).
    """

    slot: Int32s
    seen: Int32s
    n: Ints


@kernel
def numbered_for(n_candidates: int, n_codes: int, most: int) -> Numbered:
    """No categories, and room for ``most``."""
    slot = np.full((n_candidates, n_codes + 1), -1, np.int32)
    slot[:, n_codes] = most
    return Numbered(slot, np.empty((n_candidates, most), np.int32), np.zeros(n_candidates, np.int64))


@borrowing
def number_next(code: int, candidate: int, numbered: Numbered) -> np.int64:
    """Number one more category; returns its number."""
    c = numbered.n[candidate]
    numbered.slot[candidate, code], numbered.seen[candidate, c] = c, code
    numbered.n[candidate] = c + 1
    return c


@borrowing
def clear_numbers(n_candidates: int, numbered: Numbered) -> None:
    """Have no categories of the first candidates."""
    for j in range(n_candidates):
        for c in range(numbered.n[j]):
            numbered.slot[j, numbered.seen[j, c]] = -1
        numbered.n[j] = 0


@borrowing
def code_at(r: int, column: int, places: UInt32s, categories: CategoriesRead) -> np.uint32:
    """The code of the category of row places[r], ``n_codes`` for a missing one; a row further on is prefetched."""
    values = categories.values
    fetch(values, np.int64(places[min(r + _AHEAD, places.shape[0] - 1)]) * values.shape[1] + column)
    value = values[places[r], column]
    return np.uint32(value) if value == value else np.uint32(categories.n_codes)


@borrowing
def note_ranks(candidate: int, numbered: Numbered, rank: Floats, rank_of: Floats) -> None:
    """rank_of[code] = rank[its number]."""
    for c in range(numbered.n[candidate]):
        rank_of[numbered.seen[candidate, c]] = rank[c]


@borrowing
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
    """The best cut over the ranks of categories, which are groups; ranks[r] is that of row r on the chosen candidate.

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
                rank_groups(bins, first, n, tally)
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


@borrowing
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


@dispatched
def rank_groups(bins: RowGroups, first: int, n: int, tally: Tally) -> None:
    """Rank n groups from ``first`` on by the means of their sums: see `rank_by_means`."""


@rank_groups.of(ClassSums)
def _(bins: ClassSums, first: int, n: int, tally: Tally) -> None:
    for c in range(n):
        tally.mass[c] = np.float64(bins.weights[first + c])
        if tally.vectors.shape[1] == 1:
            tally.vectors[c, 0] = np.float64(bins.sums[first + c, 1])
        else:
            for of_class in range(bins.sums.shape[1]):
                tally.vectors[c, of_class] = np.float64(bins.sums[first + c, of_class])
    rank_by_means(n, tally)


@rank_groups.of(VectorSums)
def _(bins: VectorSums, first: int, n: int, tally: Tally) -> None:
    for c in range(n):
        tally.mass[c] = np.float64(bins.weights[first + c])
        for q in range(bins.sums.shape[1]):
            tally.vectors[c, q] = np.float64(bins.sums[first + c, q])
    rank_by_means(n, tally)
