"""Cuts of sparse features: a fused search that orders the values other than 0, and moves all zeros at once.

The rows move in ascending order and with the gains of `distforest.growth.cuts.criteria`, so the cuts are the same.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from distforest.forest.frontier import Frontier, Nodes, longest_of
from distforest.growth.cuts.criteria import Cuts, Gini, Variance, gini_gain, keep_best, variance_gain
from distforest.growth.cuts.ordering import order_values
from distforest.growth.cuts.search import Limits, values_on
from distforest.jit import borrowing, kernel
from distforest.sources.source import Floats, Int32s, Ints, Projections
from distforest.sources.sparse_features import (
    BothWays,
    Gathered,
    SparseFeatures,
    gather_values,
    no_room,
    room_to_gather,
)


def cut_sparse_by_labels(
    source: SparseFeatures, criterion: Gini, frontier: Frontier, projections: Projections, limits: Limits
) -> tuple[Cuts, Floats]:
    """`project_and_cut` for labels and sparse features."""
    cuts, least = Cuts.none(frontier.n_nodes), limits.min_samples_leaf
    codes, n_classes = criterion.codes, criterion.n_classes
    cut_sparse_gini(source.both_ways, frontier.nodes, projections, codes, n_classes, least, cuts)
    return cuts, values_on(source, frontier, projections, cuts)


def cut_sparse_by_targets(
    source: SparseFeatures, criterion: Variance, frontier: Frontier, projections: Projections, limits: Limits
) -> tuple[Cuts, Floats]:
    """`project_and_cut` for targets or vectors and sparse features."""
    cuts, least = Cuts.none(frontier.n_nodes), limits.min_samples_leaf
    cut_sparse_variance(source.both_ways, frontier.nodes, projections, criterion.fixed, least, cuts)
    return cuts, values_on(source, frontier, projections, cuts)


class Sums(NamedTuple):
    """Room for one candidate's values other than 0 in one node, and what orders them.

    Attributes
    ----------
    value, place
        The values, and the places of their rows in the node; behind them comes the 0 of all other rows.
    total, is_met
        The sum of each row of the node so far, 0 between candidates; whether the row is among ``place``.
    order, keys, spare
        What `order_values` needs.
    """

    value: Floats
    place: Int32s
    total: Floats
    is_met: NDArray[np.bool_]
    order: Ints
    keys: NDArray[np.uint64]
    spare: NDArray[np.uint64]


@kernel
def sums_for(longest: int) -> Sums:
    """Room for nodes of at most ``longest`` rows."""
    return Sums(
        np.empty(longest + 1),
        np.empty(longest + 1, np.int32),
        np.zeros(longest),
        np.zeros(longest, np.bool_),
        np.empty(longest + 1, np.int64),
        np.empty(longest + 1, np.uint64),
        np.empty(longest + 1, np.uint64),
    )


@borrowing
def add_terms(found: Gathered, begin: int, end: int, weights: Floats, sums: Sums) -> int:
    """Fill value and place with the sums over e of weights[e] * X[row, columns[e]] that are not 0; return how many."""
    m = 0
    if end - begin == 1:
        for at in range(found.start[begin], found.start[end]):
            value = weights[begin] * np.float64(found.value[at])
            if value != 0.0:
                sums.value[m], sums.place[m] = value, found.place[at]
                m += 1
        return m
    n_met = 0
    for e in range(begin, end):
        for at in range(found.start[e], found.start[e + 1]):
            place = found.place[at]
            sums.total[place] += weights[e] * found.value[at]
            if not sums.is_met[place]:
                sums.is_met[place] = True
                sums.place[n_met] = place
                n_met += 1
    for i in range(n_met):
        place = sums.place[i]
        if sums.total[place] != 0.0:
            sums.value[m], sums.place[m] = sums.total[place], place
            m += 1
        sums.total[place], sums.is_met[place] = 0.0, False
    return m


@borrowing
def order_sums(m: int, n_rows: int, sums: Sums) -> int:
    """Order the m values of a node, and at place m one 0 if it has more rows; returns how many there are."""
    sums.value[m] = 0.0
    return order_values(sums.value[: m + (m < n_rows)], sums.order, sums.keys, sums.spare)


@kernel
def cut_sparse_gini(
    stored: BothWays,
    nodes: Nodes,
    projections: Projections,
    codes: Int32s,
    n_classes: int,
    min_leaf: int,
    cuts: Cuts,
) -> None:
    """As `distforest.growth.cuts.criteria.cut_gini`, over the sums of candidate k of each node."""
    (starts, rows, weights), (width, offset, columns, terms) = nodes, projections
    room, sums, found = room_to_gather(stored), sums_for(longest_of(starts)), no_room()
    row_codes, counts = np.empty(longest_of(starts), np.int32), np.empty((4, n_classes), np.int64)
    for node in range(starts.shape[0] - 1):
        first, last, begin, end = starts[node], starts[node + 1], offset[node * width], offset[(node + 1) * width]
        of_rows, of_weights = rows[first:last], weights[first:last]
        found = gather_values(stored, of_rows, columns[begin:end], room, found)
        counts[3] = 0
        for i in range(last - first):
            row_codes[i] = codes[of_rows[i]]
            counts[3, row_codes[i]] += of_weights[i]
        for k in range(width):
            own = offset[node * width + k] - begin, offset[node * width + k + 1] - begin
            m = add_terms(found, own[0], own[1], terms[begin:end], sums)
            if m == 0:
                continue
            scan_sparse_gini(node, k, m, sums, (of_weights, row_codes), min_leaf, counts, cuts)


@borrowing
def scan_sparse_gini(
    node: int,
    candidate: int,
    m: int,
    sums: Sums,
    of_node: tuple[Int32s, Int32s],
    min_leaf: int,
    counts: Ints,
    cuts: Cuts,
) -> None:
    """`scan_gini` over m single rows and, at place m of the order, all others at once.

    ``counts`` has shape (4, n_classes): left, right, the rows of value 0, and the whole node, which alone is given.
    """
    weights, codes = of_node
    left, right, zeros, whole_node = counts[0], counts[1], counts[2], counts[3]
    whole_weight, squares_right = np.int64(0), np.int64(0)
    for c in range(left.shape[0]):
        left[c], right[c], zeros[c] = 0, whole_node[c], whole_node[c]
        whole_weight += right[c]
        squares_right += right[c] * right[c]
    for i in range(m):
        zeros[codes[sums.place[i]]] -= weights[sums.place[i]]
    m_left, m_right, squares_left = np.int64(0), whole_weight, np.int64(0)
    whole = (whole_weight * whole_weight - squares_right) / whole_weight
    least, before = cuts.gain[node], np.nan
    for entry in range(order_sums(m, weights.shape[0], sums)):
        at = sums.order[entry]
        value = sums.value[at]
        if value > before and m_left >= min_leaf and m_right >= min_leaf:
            gain = gini_gain(whole, m_left, squares_left, m_right, squares_right)
            if gain > least:
                keep_best(node, candidate, before, value, gain, cuts)
                least = cuts.gain[node]
        before = value
        low, high = (codes[sums.place[at]], codes[sums.place[at]] + 1) if at < m else (0, left.shape[0])
        for c in range(low, high):
            w = np.int64(weights[sums.place[at]]) if at < m else zeros[c]
            squares_left += w * (2 * left[c] + w)
            squares_right -= w * (2 * right[c] - w)
            left[c] += w
            right[c] -= w
            m_left += w
            m_right -= w


@kernel
def cut_sparse_variance(
    stored: BothWays,
    nodes: Nodes,
    projections: Projections,
    fixed: Ints,
    min_leaf: int,
    cuts: Cuts,
) -> None:
    """As `distforest.growth.cuts.criteria.cut_variance`, over the sums of candidate k of each node."""
    (starts, rows, weights), (width, offset, columns, terms) = nodes, projections
    room, sums, found = room_to_gather(stored), sums_for(longest_of(starts)), no_room()
    vectors = np.empty((4, fixed.shape[1]), np.int64)
    for node in range(starts.shape[0] - 1):
        first, last, begin, end = starts[node], starts[node + 1], offset[node * width], offset[(node + 1) * width]
        of_rows, of_weights = rows[first:last], weights[first:last]
        found = gather_values(stored, of_rows, columns[begin:end], room, found)
        vectors[3], whole_weight = 0, np.int64(0)
        for i in range(last - first):
            whole_weight += of_weights[i]
            for q in range(fixed.shape[1]):
                vectors[3, q] += of_weights[i] * fixed[of_rows[i], q]
        for k in range(width):
            own = offset[node * width + k] - begin, offset[node * width + k + 1] - begin
            m = add_terms(found, own[0], own[1], terms[begin:end], sums)
            if m == 0:
                continue
            of_node = (of_rows, of_weights, fixed, whole_weight)
            scan_sparse_variance(node, k, m, sums, of_node, min_leaf, vectors, cuts)


@borrowing
def scan_sparse_variance(
    node: int,
    candidate: int,
    m: int,
    sums: Sums,
    of_node: tuple[Int32s, Int32s, Ints, np.int64],
    min_leaf: int,
    vectors: Ints,
    cuts: Cuts,
) -> None:
    """`scan_variance` over m single rows and, at place m of the order, all others at once.

    ``vectors`` has shape (4, n_dimensions): left, right, the rows of value 0, and the whole node, which alone is given.
    """
    rows, weights, fixed, whole_weight = of_node
    left, right, zeros, whole_node = vectors[0], vectors[1], vectors[2], vectors[3]
    zero_weight = np.int64(whole_weight)
    for q in range(left.shape[0]):
        left[q], right[q], zeros[q] = 0, whole_node[q], whole_node[q]
    for i in range(m):
        place = sums.place[i]
        zero_weight -= weights[place]
        for q in range(left.shape[0]):
            zeros[q] -= weights[place] * fixed[rows[place], q]
    m_left, m_right = np.int64(0), whole_weight
    least, before = cuts.gain[node], np.nan
    for entry in range(order_sums(m, weights.shape[0], sums)):
        at = sums.order[entry]
        value = sums.value[at]
        if value > before and m_left >= min_leaf and m_right >= min_leaf:
            gain = variance_gain(m_left, left, m_right, right)
            if gain > least:
                keep_best(node, candidate, before, value, gain, cuts)
                least = cuts.gain[node]
        before = value
        w = weights[sums.place[at]] if at < m else zero_weight
        for q in range(left.shape[0]):
            moved = w * fixed[rows[sums.place[at]], q] if at < m else zeros[q]
            left[q] += moved
            right[q] -= moved
        m_left += w
        m_right -= w
