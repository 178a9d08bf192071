"""Cuts of binned columns: a fused search that reads codes in place of projecting, ordering and scanning values.

A node of many rows is searched through a histogram of each candidate's codes, a small one in the order of its codes.
Both move the rows in ascending order and with the gains of `distforest.growth.cuts.criteria`, so the cuts are the same.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from distforest.forest.frontier import Frontier, Nodes
from distforest.growth.cuts.criteria import (
    Cuts,
    Gini,
    LabelledRows,
    Variance,
    VectorRows,
    gini_gain,
    keep_best,
    scan_gini,
    scan_variance,
    variance_gain,
)
from distforest.growth.cuts.ordering import order_values
from distforest.growth.grower import Limits, values_on
from distforest.jit import borrowing, kernel
from distforest.sources.binned import BinnedSource
from distforest.sources.source import Floats, Int32s, Ints, Projections

Codes = NDArray[np.uint8]

_BINS = 256
_FEW = 32
"""Most rows of a node that is searched in the order of its codes."""


def cut_codes_by_labels(
    source: BinnedSource, criterion: Gini, frontier: Frontier, projections: Projections, limits: Limits
) -> tuple[Cuts, Floats]:
    """`project_and_cut` for labels and single columns of a binned source, whose codes are read in place."""
    cuts, columns = Cuts.none(frontier.n_nodes), projections.columns.reshape(frontier.n_nodes, projections.width)
    labels, n_classes = criterion.codes, criterion.n_classes
    cut_codes_gini(frontier.nodes, source.codes, columns, labels, n_classes, limits.min_samples_leaf, cuts)
    return cuts, values_on(source, frontier, projections, cuts)


def cut_codes_by_targets(
    source: BinnedSource, criterion: Variance, frontier: Frontier, projections: Projections, limits: Limits
) -> tuple[Cuts, Floats]:
    """`project_and_cut` for targets or vectors and single columns of a binned source."""
    cuts, columns = Cuts.none(frontier.n_nodes), projections.columns.reshape(frontier.n_nodes, projections.width)
    cut_codes_variance(frontier.nodes, source.codes, columns, criterion.fixed, limits.min_samples_leaf, cuts)
    return cuts, values_on(source, frontier, projections, cuts)


@kernel
def cut_codes_gini(
    nodes: Nodes,
    codes: Codes,
    columns: Int32s,
    labels: Int32s,
    n_classes: int,
    min_leaf: int,
    cuts: Cuts,
) -> None:
    """As `cut_gini`, over the codes of column columns[f, k] for candidate k of node f."""
    starts, rows, weights = nodes
    order, coded, label = np.empty(_FEW, np.int64), np.empty(_FEW), np.empty(_FEW, np.int32)
    keys = np.empty(_FEW, np.uint64)
    counts = np.empty((2, n_classes), np.int64)
    filled, sums = np.empty(_BINS, np.int64), np.empty((_BINS, n_classes), np.int64)
    for node in range(starts.shape[0] - 1):
        first, last = starts[node], starts[node + 1]
        size, of_rows = last - first, weights[first:last]
        of_node = LabelledRows(of_rows, of_rows, label)
        for k in range(columns.shape[1]):
            column = columns[node, k]
            counts[1] = 0
            for r in range(first, last):
                counts[1, labels[rows[r]]] += weights[r]
            if size <= _FEW:
                for r in range(first, last):
                    coded[r - first] = codes[rows[r], column]
                    label[r - first] = labels[rows[r]]
                order_values(coded[:size], order, keys, keys)
                scan_gini(node, k, coded[:size], order[:size], of_node, min_leaf, counts, cuts)
                continue
            filled[:] = 0
            sums[:] = 0
            for r in range(first, last):
                b = codes[rows[r], column]
                filled[b] += weights[r]
                sums[b, labels[rows[r]]] += weights[r]
            walk_gini(node, k, filled, sums, min_leaf, counts, cuts)


@borrowing
def walk_gini(
    node: int,
    candidate: int,
    filled: Ints,
    sums: Ints,
    min_leaf: int,
    sides: Ints,
    cuts: Cuts,
) -> None:
    """`scan_gini` over bins of total weight filled[b] and class weights sums[b]."""
    left, right = sides[0], sides[1]
    left[:] = 0
    m, squares_left, squares_right = np.int64(0), np.int64(0), np.int64(0)
    for c in range(right.shape[0]):
        m += right[c]
        squares_right += right[c] * right[c]
    whole = (m * m - squares_right) / m
    m_left, m_right, before = np.int64(0), m, -1
    for b in range(_BINS):
        if filled[b] == 0:
            continue
        if before >= 0 and m_left >= min_leaf and m_right >= min_leaf:
            gain = gini_gain(whole, m_left, squares_left, m_right, squares_right)
            if gain > cuts.gain[node]:
                keep_best(node, candidate, before, b, gain, cuts)
        before = b
        for c in range(right.shape[0]):
            moved = sums[b, c]
            squares_left += moved * (2 * left[c] + moved)
            squares_right -= moved * (2 * right[c] - moved)
            left[c] += moved
            right[c] -= moved
        m_left += filled[b]
        m_right -= filled[b]


@kernel
def cut_codes_variance(
    nodes: Nodes,
    codes: Codes,
    columns: Int32s,
    fixed: Ints,
    min_leaf: int,
    cuts: Cuts,
) -> None:
    """As `cut_variance`, over the codes of column columns[f, k] for candidate k of node f."""
    starts, rows, weights = nodes
    n_dimensions = fixed.shape[1]
    order, coded, keys = np.empty(_FEW, np.int64), np.empty(_FEW), np.empty(_FEW, np.uint64)
    sides = np.empty((2, n_dimensions), np.int64)
    filled, sums = np.empty(_BINS, np.int64), np.empty((_BINS, n_dimensions), np.int64)
    for node in range(starts.shape[0] - 1):
        first, last = starts[node], starts[node + 1]
        size, of_node = last - first, VectorRows(rows[first:last], weights[first:last], fixed)
        for k in range(columns.shape[1]):
            column = columns[node, k]
            if size <= _FEW:
                for r in range(first, last):
                    coded[r - first] = codes[rows[r], column]
                order_values(coded[:size], order, keys, keys)
                scan_variance(node, k, coded[:size], order[:size], of_node, min_leaf, sides, cuts)
                continue
            filled[:] = 0
            sums[:] = 0
            for r in range(first, last):
                b = codes[rows[r], column]
                filled[b] += weights[r]
                for q in range(n_dimensions):
                    sums[b, q] += weights[r] * fixed[rows[r], q]
            walk_variance(node, k, filled, sums, min_leaf, sides, cuts)


@borrowing
def walk_variance(
    node: int,
    candidate: int,
    filled: Ints,
    sums: Ints,
    min_leaf: int,
    sides: Ints,
    cuts: Cuts,
) -> None:
    """`scan_variance` over bins of total weight filled[b] and sums of vectors sums[b]."""
    left, right = sides[0], sides[1]
    left[:] = 0
    right[:] = 0
    m_left, m_right, before = np.int64(0), np.int64(0), -1
    for b in range(_BINS):
        m_right += filled[b]
        right += sums[b]
    for b in range(_BINS):
        if filled[b] == 0:
            continue
        if before >= 0 and m_left >= min_leaf and m_right >= min_leaf:
            gain = variance_gain(m_left, left, m_right, right)
            if gain > cuts.gain[node]:
                keep_best(node, candidate, before, b, gain, cuts)
        before = b
        left += sums[b]
        right -= sums[b]
        m_left += filled[b]
        m_right -= filled[b]
