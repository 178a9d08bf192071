"""Cuts of binned columns: a fused search that reads codes in place of projecting, ordering and scanning values.

A node of many rows is searched through a histogram of each candidate's codes, a small one in the order of its codes.
Both move the rows in ascending order and with the gains of `distforest.growth.cuts.criteria`, so the cuts are the same.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from distforest.forest.frontier import LEFT, RIGHT, STAY, Frontier, Nodes
from distforest.growth.cuts.criteria import (
    Cuts,
    Gini,
    LabelledRows,
    Variance,
    VectorRows,
    gini_gain,
    keep_best,
    note_missing,
    scan_gini,
    scan_variance,
    variance_gain,
)
from distforest.growth.cuts.ordering import lay_missing, order_values
from distforest.growth.grower import Limits, values_on
from distforest.jit import borrowing, kernel
from distforest.sources.binned import MISSING_CODE, BinnedSource
from distforest.sources.source import Floats, Int32s, Ints, Projections

Codes = NDArray[np.uint8]

_BINS = 256
_NO_CODE = 256
_FEW = 32
"""Most rows of a node that is searched in the order of its codes."""


def cut_codes_by_labels(
    source: BinnedSource, criterion: Gini, frontier: Frontier, projections: Projections, limits: Limits
) -> tuple[Cuts, Floats]:
    """`project_and_cut` for labels and single columns of a binned source, whose codes are read in place."""
    cuts, columns = Cuts.none(frontier.n_nodes), projections.columns.reshape(frontier.n_nodes, projections.width)
    labels, n_classes, missing = criterion.codes, criterion.n_classes, _code_of_missing(source)
    cut_codes_gini(frontier.nodes, source.codes, columns, labels, n_classes, limits.min_samples_leaf, missing, cuts)
    return cuts, values_on(source, frontier, projections, cuts)


def cut_codes_by_targets(
    source: BinnedSource, criterion: Variance, frontier: Frontier, projections: Projections, limits: Limits
) -> tuple[Cuts, Floats]:
    """`project_and_cut` for targets or vectors and single columns of a binned source."""
    cuts, columns = Cuts.none(frontier.n_nodes), projections.columns.reshape(frontier.n_nodes, projections.width)
    missing, fixed = _code_of_missing(source), criterion.fixed
    cut_codes_variance(frontier.nodes, source.codes, columns, fixed, limits.min_samples_leaf, missing, cuts)
    return cuts, values_on(source, frontier, projections, cuts)


def _code_of_missing(source: BinnedSource) -> int:
    """The code of missing values; one that no value has if there are none."""
    return _NO_CODE if source.is_complete else MISSING_CODE


@kernel
def cut_codes_gini(
    nodes: Nodes,
    codes: Codes,
    columns: Int32s,
    labels: Int32s,
    n_classes: int,
    min_leaf: int,
    missing: int,
    cuts: Cuts,
) -> None:
    """As `cut_gini`, over the codes of column columns[f, k] for candidate k of node f; ``missing`` is no value."""
    starts, rows, weights = nodes
    room = np.empty(2 * _FEW + 1, np.int64)
    order, coded, label = room[_FEW:], np.empty(_FEW), np.empty(_FEW, np.int32)
    keys, seen = np.empty(_FEW, np.uint64), np.empty(_FEW)
    counts = np.empty((2, n_classes), np.int64)
    filled, sums = np.empty(_BINS, np.int64), np.empty((_BINS, n_classes), np.int64)
    for node in range(starts.shape[0] - 1):
        first, last = starts[node], starts[node + 1]
        size, of_rows = last - first, weights[first:last]
        of_node = LabelledRows(of_rows, of_rows, label)
        for k in range(columns.shape[1]):
            column, before = columns[node, k], cuts.gain[node]
            counts[1] = 0
            for r in range(first, last):
                counts[1, labels[rows[r]]] += weights[r]
            if size <= _FEW:
                for r in range(first, last):
                    code = codes[rows[r], column]
                    coded[r - first] = np.nan if code == missing else np.float64(code)
                    label[r - first] = labels[rows[r]]
                n = order_values(coded[:size], order, keys, keys)
                if n == size:
                    scan_gini(node, k, coded[:size], order[:size], of_node, min_leaf, counts, cuts)
                    note_missing(node, before, STAY, cuts)
                    continue
                for side in (RIGHT, LEFT):
                    begin = lay_missing(coded[:size], n, side, room, seen)
                    if side == LEFT:  # the first scan has moved all rows to the left
                        counts[1] += counts[0]
                    before = cuts.gain[node]
                    scan_gini(node, k, seen[:size], room[begin : begin + size], of_node, min_leaf, counts, cuts)
                    note_missing(node, before, side, cuts)
                continue
            filled[:] = 0
            sums[:] = 0
            for r in range(first, last):
                b = codes[rows[r], column]
                filled[b] += weights[r]
                sums[b, labels[rows[r]]] += weights[r]
            if missing == _NO_CODE or filled[missing] == 0:
                walk_gini(node, k, filled, sums, STAY, min_leaf, counts, cuts)
                continue
            walk_gini(node, k, filled, sums, RIGHT, min_leaf, counts, cuts)
            for c in range(n_classes):  # the walk has moved all rows to the left
                counts[1, c] += counts[0, c]
            walk_gini(node, k, filled, sums, LEFT, min_leaf, counts, cuts)


@borrowing
def walk_gini(
    node: int,
    candidate: int,
    filled: Ints,
    sums: Ints,
    missing: int,
    min_leaf: int,
    sides: Ints,
    cuts: Cuts,
) -> None:
    """`scan_gini` over bins of total weight filled[b] and class weights sums[b].

    ``missing`` is the side of the bin `MISSING_CODE`, which is the last one, or comes first if its rows are on the
    left; or ``STAY`` if it is a bin as any other.
    """
    left, right, least = sides[0], sides[1], cuts.gain[node]
    left[:] = 0
    m, squares_left, squares_right = np.int64(0), np.int64(0), np.int64(0)
    for c in range(right.shape[0]):
        m += right[c]
        squares_right += right[c] * right[c]
    whole = (m * m - squares_right) / m
    m_left, m_right, before = np.int64(0), m, np.nan
    for step in range(_BINS):
        b = (step + MISSING_CODE) % _BINS if missing == LEFT else step
        if filled[b] == 0:
            continue
        value = place_of(b, missing)
        if value > before and m_left >= min_leaf and m_right >= min_leaf:
            gain = gini_gain(whole, m_left, squares_left, m_right, squares_right)
            if gain > cuts.gain[node]:
                keep_best(node, candidate, before, value, gain, cuts)
        before = value
        for c in range(right.shape[0]):
            moved = sums[b, c]
            squares_left += moved * (2 * left[c] + moved)
            squares_right -= moved * (2 * right[c] - moved)
            left[c] += moved
            right[c] -= moved
        m_left += filled[b]
        m_right -= filled[b]
    note_missing(node, least, missing, cuts)


@borrowing
def place_of(b: int, missing: int) -> float:
    """The value of bin b: its number, or if it holds the missing ones, inf if they are on the right, -inf if left."""
    if b == MISSING_CODE and missing != STAY:
        return np.inf if missing == RIGHT else -np.inf
    return np.float64(b)


@kernel
def cut_codes_variance(
    nodes: Nodes,
    codes: Codes,
    columns: Int32s,
    fixed: Ints,
    min_leaf: int,
    missing: int,
    cuts: Cuts,
) -> None:
    """As `cut_variance`, over the codes of column columns[f, k] for candidate k of node f; ``missing`` is no value."""
    starts, rows, weights = nodes
    n_dimensions, seen = fixed.shape[1], np.empty(_FEW)
    room = np.empty(2 * _FEW + 1, np.int64)
    order, coded, keys = room[_FEW:], np.empty(_FEW), np.empty(_FEW, np.uint64)
    sides = np.empty((2, n_dimensions), np.int64)
    filled, sums = np.empty(_BINS, np.int64), np.empty((_BINS, n_dimensions), np.int64)
    for node in range(starts.shape[0] - 1):
        first, last = starts[node], starts[node + 1]
        size, of_node = last - first, VectorRows(rows[first:last], weights[first:last], fixed)
        for k in range(columns.shape[1]):
            column, before = columns[node, k], cuts.gain[node]
            if size <= _FEW:
                for r in range(first, last):
                    code = codes[rows[r], column]
                    coded[r - first] = np.nan if code == missing else np.float64(code)
                n = order_values(coded[:size], order, keys, keys)
                if n == size:
                    scan_variance(node, k, coded[:size], order[:size], of_node, min_leaf, sides, cuts)
                    note_missing(node, before, STAY, cuts)
                    continue
                for side in (RIGHT, LEFT):
                    begin = lay_missing(coded[:size], n, side, room, seen)
                    before = cuts.gain[node]
                    scan_variance(node, k, seen[:size], room[begin : begin + size], of_node, min_leaf, sides, cuts)
                    note_missing(node, before, side, cuts)
                continue
            filled[:] = 0
            sums[:] = 0
            for r in range(first, last):
                b = codes[rows[r], column]
                filled[b] += weights[r]
                for q in range(n_dimensions):
                    sums[b, q] += weights[r] * fixed[rows[r], q]
            if missing == _NO_CODE or filled[missing] == 0:
                walk_variance(node, k, filled, sums, STAY, min_leaf, sides, cuts)
                continue
            for side in (RIGHT, LEFT):
                walk_variance(node, k, filled, sums, side, min_leaf, sides, cuts)


@borrowing
def walk_variance(
    node: int,
    candidate: int,
    filled: Ints,
    sums: Ints,
    missing: int,
    min_leaf: int,
    sides: Ints,
    cuts: Cuts,
) -> None:
    """`scan_variance` over bins of weight filled[b] and sums of vectors sums[b]; ``missing`` as in `walk_gini`."""
    left, right, least = sides[0], sides[1], cuts.gain[node]
    left[:] = 0
    right[:] = 0
    m_left, m_right, before = np.int64(0), np.int64(0), np.nan
    for b in range(_BINS):
        m_right += filled[b]
        right += sums[b]
    for step in range(_BINS):
        b = (step + MISSING_CODE) % _BINS if missing == LEFT else step
        if filled[b] == 0:
            continue
        value = place_of(b, missing)
        if value > before and m_left >= min_leaf and m_right >= min_leaf:
            gain = variance_gain(m_left, left, m_right, right)
            if gain > cuts.gain[node]:
                keep_best(node, candidate, before, value, gain, cuts)
        before = value
        left += sums[b]
        right -= sums[b]
        m_left += filled[b]
        m_right -= filled[b]
    note_missing(node, least, missing, cuts)
