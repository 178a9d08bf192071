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
from distforest.growth.cuts.criteria import (
    Cuts,
    Gini,
    LabelledRows,
    Variance,
    VectorRows,
    add_all_vectors,
    cut_labels,
    cut_vectors,
    most_gain_of,
)
from distforest.growth.cuts.histograms import ColumnsRead
from distforest.jit import borrowing, fetch, kernel
from distforest.sources.source import Float32s, Floats, Int32s, Ints

if TYPE_CHECKING:
    from distforest.growth.cuts.class_histograms import UInt32s
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


def best_categories_by_labels(
    categories: CategoriesRead, criterion: Gini, frontier: Frontier, limits: Limits
) -> tuple[Cuts, Floats]:
    """The best cut of each node over columns of categories, and the rank of each row's category on the chosen one.

    Rows of nodes without a cut have the rank 0.
    """
    cuts, ranks, rules = Cuts.none(frontier.n_nodes), np.zeros(len(frontier.rows)), _rules(criterion, limits)
    cut_categories_gini(frontier.nodes, categories, criterion.codes, criterion.n_classes, rules, cuts, ranks)
    return cuts, ranks


def best_categories_by_targets(
    categories: CategoriesRead, criterion: Variance, frontier: Frontier, limits: Limits
) -> tuple[Cuts, Floats]:
    """`best_categories_by_labels` for targets or vectors."""
    cuts, ranks, rules = Cuts.none(frontier.n_nodes), np.zeros(len(frontier.rows)), _rules(criterion, limits)
    cut_categories_variance(frontier.nodes, categories, criterion.fixed, rules, cuts, ranks)
    return cuts, ranks


def _rules(criterion: Gini | Variance, limits: Limits) -> tuple[int, bool]:
    """The rules of `distforest.growth.cuts.criteria.cut_labels`."""
    return limits.min_samples_leaf, criterion.places_missing


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
def cut_categories_gini(
    nodes: Nodes,
    categories: CategoriesRead,
    labels: Int32s,
    n_classes: int,
    rules: tuple[int, bool],
    cuts: Cuts,
    ranks: Floats,
) -> None:
    """As `rank_by_classes` and then `cut_gini`, over merged rows; ranks[r] is that of row r on the chosen candidate."""
    starts, rows, weights = nodes
    column, begin = categories.columns
    longest, n_codes = longest_of(starts), categories.n_codes
    most = min(n_codes, longest)
    group = max(1, min(longest_of(begin), _ROOM // (4 * (n_codes + (most + 1) * n_classes))))
    numbered, rank_of = numbered_for(group, n_codes, most), np.empty(n_codes + 1)
    tally = tally_for(most + 1, most + 1, 1 if n_classes == 2 else n_classes)
    sums, label = np.empty((group, most + 1, n_classes), np.int32), np.empty(longest, np.int32)
    n_merged = min(longest, (most + 1) * n_classes)
    laid, order = merged_room(n_merged), np.arange(n_merged)
    total, of_sides = np.empty(2, np.int64), np.empty((4, n_classes), np.int64)
    of_merged = LabelledRows(laid.weights, laid.weights, laid.numbers, total, of_sides)
    rank_of[n_codes] = np.nan
    for node in range(starts.shape[0] - 1):
        own, of_rows = column[begin[node] : begin[node + 1]], rows[starts[node] : starts[node + 1]]
        if own.shape[0] == 0:
            continue
        of_weights = weights[starts[node] : starts[node + 1]]
        weigh_labels(of_rows, of_weights, labels, label, of_merged)
        best = most_gain_of(of_sides[0])
        for k in range(0, own.shape[0], group):
            of_group = own[k : min(k + group, own.shape[0])]
            add_up_classes(categories, of_rows, of_group, of_weights, label, numbered, sums)
            for j in range(of_group.shape[0]):
                if cuts.gain[node] == best:
                    break
                judge_classes(node, k + j, numbered.n[j], sums[j], rules, tally, laid, order, of_merged, cuts)
                if cuts.candidate[node] == k + j:
                    note_ranks(j, numbered, tally.rank, rank_of)
            clear_numbers(of_group.shape[0], numbered)
            if cuts.gain[node] == best:
                break
        if cuts.candidate[node] >= 0:
            chosen = own[cuts.candidate[node]]
            write_ranks_on(categories, of_rows, chosen, rank_of, ranks[starts[node] : starts[node + 1]])


@borrowing
def weigh_labels(rows: Int32s, weights: Int32s, labels: Int32s, label: Int32s, of_node: LabelledRows) -> None:
    """label[r] = the class of row r; total[0], sums[0, c] = weight of all rows, and of those of class c."""
    places, total, sums = rows.view(np.uint32), np.int64(0), of_node.sums[0]
    for c in range(sums.shape[0]):
        sums[c] = 0
    for r in range(places.shape[0]):
        label[r] = labels[places[r]]
        sums[label[r]] += weights[r]
        total += weights[r]
    of_node.total[0] = total


@borrowing
def add_up_classes(
    categories: CategoriesRead,
    rows: Int32s,
    columns: Int32s,
    weights: Int32s,
    label: Int32s,
    numbered: Numbered,
    sums: Int32s,
) -> None:
    """sums[j, c, l] = weight of the rows of class l with category number c in columns[j]; the last c is missing."""
    places, classes, missing, n_classes = rows.view(np.uint32), label.view(np.uint32), sums.shape[1] - 1, sums.shape[2]
    for j in range(columns.shape[0]):
        for of_class in range(n_classes):
            sums[j, missing, of_class] = 0
    for first in range(0, places.shape[0], _SIDE_BY_SIDE):
        last = min(first + _SIDE_BY_SIDE, places.shape[0])
        for j in range(columns.shape[0]):
            column, slot, of_candidate = columns[j], numbered.slot[j], sums[j]
            for r in range(first, last):
                code = code_at(r, column, places, categories)
                if slot[code] < 0:
                    c = number_next(code, j, numbered)
                    for of_class in range(n_classes):
                        of_candidate[c, of_class] = 0
                of_candidate[np.uint32(slot[code]), classes[r]] += weights[r]


@borrowing
def judge_classes(
    node: int,
    candidate: int,
    n: int,
    sums: Int32s,
    rules: tuple[int, bool],
    tally: Tally,
    laid: MergedRoom,
    order: Ints,
    of_merged: LabelledRows,
    cuts: Cuts,
) -> None:
    """Order the n categories of one candidate, and scan their merged rows and then those of the missing ones."""
    missing, n_missing = sums.shape[0] - 1, 0
    for of_class in range(sums.shape[1]):
        n_missing += sums[missing, of_class] > 0
    if n == 0 or (n == 1 and n_missing == 0):
        return
    rank_classes(n, sums, tally)
    tally.order[n], tally.rank[missing] = missing, np.nan
    n_observed = lay_classes(tally.order[:n], tally.rank, sums, 0, laid)
    size = lay_classes(tally.order[n : n + 1], tally.rank, sums, n_observed, laid)
    cut_labels(node, candidate, laid.values[:size], order[:size], n_observed, of_merged, rules, cuts)


@borrowing
def rank_classes(n: int, sums: Int32s, tally: Tally) -> None:
    """Rank n categories of the weights sums[c, l], as `rank_by_classes` does."""
    for c in range(n):
        weight = np.int64(0)
        for of_class in range(sums.shape[1]):
            weight += sums[c, of_class]
            if sums.shape[1] != 2:
                tally.vectors[c, of_class] = np.float64(sums[c, of_class])
        if sums.shape[1] == 2:
            tally.vectors[c, 0] = np.float64(sums[c, 1])
        tally.mass[c] = np.float64(weight)
    rank_by_means(n, tally)


@kernel
def cut_categories_variance(
    nodes: Nodes,
    categories: CategoriesRead,
    fixed: Ints,
    rules: tuple[int, bool],
    cuts: Cuts,
    ranks: Floats,
) -> None:
    """As `rank_by_vectors` and then `cut_variance`, over merged rows; ``ranks`` as in `cut_categories_gini`."""
    starts, rows, weights = nodes
    column, begin = categories.columns
    longest, n_codes, n_dimensions = longest_of(starts), categories.n_codes, fixed.shape[1]
    most = min(n_codes, longest)
    group = max(1, min(longest_of(begin), _ROOM // (4 * n_codes + 8 * (most + 2) * (n_dimensions + 1))))
    numbered, rank_of = numbered_for(group, n_codes, most), np.empty(n_codes + 1)
    tally = tally_for(most + 1, most + 1, n_dimensions)
    filled, sums = np.empty((group, most + 1), np.int64), np.zeros((group, most + 2, n_dimensions), np.int64)
    laid, order = merged_room(2 * (most + 1)), np.arange(2 * (most + 1))
    total, of_sides = np.empty(2, np.int64), np.empty((4, n_dimensions), np.int64)
    rank_of[n_codes] = np.nan
    for node in range(starts.shape[0] - 1):
        own, of_rows = column[begin[node] : begin[node + 1]], rows[starts[node] : starts[node + 1]]
        if own.shape[0] == 0:
            continue
        of_node = VectorRows(of_rows, weights[starts[node] : starts[node + 1]], fixed, total, of_sides)
        add_all_vectors(of_node)
        for k in range(0, own.shape[0], group):
            of_group = own[k : min(k + group, own.shape[0])]
            add_up_vectors(categories, of_group, of_node, numbered, filled, sums)
            for j in range(of_group.shape[0]):
                of_merged = VectorRows(laid.numbers, laid.weights, sums[j], total, of_sides)
                judge_vectors(node, k + j, numbered.n[j], filled[j], rules, tally, laid, order, of_merged, cuts)
                if cuts.candidate[node] == k + j:
                    note_ranks(j, numbered, tally.rank, rank_of)
            clear_numbers(of_group.shape[0], numbered)
        if cuts.candidate[node] >= 0:
            chosen = own[cuts.candidate[node]]
            write_ranks_on(categories, of_rows, chosen, rank_of, ranks[starts[node] : starts[node + 1]])


@borrowing
def add_up_vectors(
    categories: CategoriesRead, columns: Int32s, of_node: VectorRows, numbered: Numbered, filled: Ints, sums: Ints
) -> None:
    """filled[j, c] and sums[j, c] = weight and sum of the rows with category number c in columns[j].

    The last c of ``filled`` is that of missing values; one more row of ``sums`` stays 0.
    """
    places, fixed, missing = of_node.rows.view(np.uint32), of_node.fixed, filled.shape[1] - 1
    n_dimensions = fixed.shape[1]
    for j in range(columns.shape[0]):
        filled[j, missing] = 0
        for q in range(n_dimensions):
            sums[j, missing, q] = 0
    for first in range(0, places.shape[0], _SIDE_BY_SIDE):
        last = min(first + _SIDE_BY_SIDE, places.shape[0])
        for j in range(columns.shape[0]):
            column, slot, weight_of, of_candidate = columns[j], numbered.slot[j], filled[j], sums[j]
            for r in range(first, last):
                w, code = of_node.weights[r], code_at(r, column, places, categories)
                c = np.int64(slot[code])
                if c < 0:
                    c = number_next(code, j, numbered)
                    weight_of[c] = 0
                    for q in range(n_dimensions):
                        of_candidate[c, q] = 0
                weight_of[c] += w
                for q in range(n_dimensions):
                    of_candidate[c, q] += w * fixed[places[r], q]


@borrowing
def judge_vectors(
    node: int,
    candidate: int,
    n: int,
    filled: Ints,
    rules: tuple[int, bool],
    tally: Tally,
    laid: MergedRoom,
    order: Ints,
    of_merged: VectorRows,
    cuts: Cuts,
) -> None:
    """`judge_classes` for vectors, whose sums are those of ``of_merged``."""
    missing, sums = filled.shape[0] - 1, of_merged.fixed
    n_missing = 1 if filled[missing] > 0 else 0
    if n == 0 or n + n_missing == 1:
        return
    for c in range(n):
        tally.mass[c] = np.float64(filled[c])
        for q in range(sums.shape[1]):
            tally.vectors[c, q] = np.float64(sums[c, q])
    rank_by_means(n, tally)
    tally.order[n], tally.rank[missing] = missing, np.nan
    lay_vectors(tally.order[: n + n_missing], tally.rank, filled, missing + 1, laid)
    size = 2 * (n + n_missing)
    cut_vectors(node, candidate, laid.values[:size], order[:size], 2 * n, of_merged, rules, cuts)
