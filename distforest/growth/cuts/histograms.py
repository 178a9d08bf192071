"""Cuts of binned columns by targets: a fused search that reads codes in place of ordering and scanning values.

A node of many rows is searched through a histogram of each candidate's codes, a small one in the order of its codes.
Both move the rows in ascending order and with the gains of `distforest.growth.cuts.criteria`, so the cuts are the same.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from distforest.forest.frontier import LEFT, RIGHT, STAY, Frontier, Nodes
from distforest.growth.cuts.criteria import (
    Cuts,
    Variance,
    VectorRows,
    add_all_vectors,
    cut_vectors,
    keep_best,
    note_missing,
    variance_gain,
)
from distforest.growth.cuts.ordering import order_values
from distforest.growth.cuts.search import Limits, values_on
from distforest.jit import borrowing, kernel
from distforest.sources.binned import MISSING_CODE, BinnedSource
from distforest.sources.source import Floats, Int32s, Ints, Projections

Codes = NDArray[np.uint8]

N_CODES = 256
NO_CODE = 256
"""A code that no value has."""
_FEW = 32
"""Most rows of a node that is searched in the order of its codes."""


def cut_codes_by_targets(
    source: BinnedSource, criterion: Variance, frontier: Frontier, projections: Projections, limits: Limits
) -> tuple[Cuts, Floats]:
    """`project_and_cut` for targets or vectors and single columns of a binned source."""
    cuts = best_codes_by_targets(source, criterion, frontier, projections, limits)
    return cuts, values_on(source, frontier, projections, cuts)


def best_codes_by_targets(
    source: BinnedSource, criterion: Variance, frontier: Frontier, projections: Projections, limits: Limits
) -> Cuts:
    """The best cut of each node over its candidates, of which each reads a single column, or none and is never cut."""
    cuts, columns, missing = Cuts.none(frontier.n_nodes), columns_read(projections), code_of_missing(source)
    cut_codes_variance(frontier.nodes, source.codes, columns, criterion.fixed, limits.min_samples_leaf, missing, cuts)
    count_among_all(projections, cuts)
    return cuts


class ColumnsRead(NamedTuple):
    """The columns that the candidates of each node read.

    Attributes
    ----------
    column
        The column of each candidate that reads one, one node after another, shape (n,).
    begin
        Where those of each node begin, shape (n_nodes + 1,).
    """

    column: Int32s
    begin: Ints


def columns_read(projections: Projections) -> ColumnsRead:
    """The columns of candidates that read one each, or none.

    Examples
    --------
    >>> columns_read(Projections(2, np.array([0, 1, 2, 2, 3]), np.array([7, 5, 7], np.int32), np.ones(3))).begin
    array([0, 2, 3])
    """
    return ColumnsRead(projections.columns, np.ascontiguousarray(projections.offset[:: projections.width]))


def count_among_all(projections: Projections, cuts: Cuts) -> None:
    """Let candidates that are counted among those of their node that read a column be counted among all of them."""
    if len(projections.columns) == len(projections.offset) - 1:
        return
    candidate = np.flatnonzero(np.diff(projections.offset)) % projections.width
    has = cuts.candidate >= 0
    cuts.candidate[has] = candidate[columns_read(projections).begin[:-1][has] + cuts.candidate[has]]


def code_of_missing(source: BinnedSource) -> int:
    """The code of missing values; one that no value has if there are none."""
    return NO_CODE if source.is_complete else MISSING_CODE


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
    columns: ColumnsRead,
    fixed: Ints,
    min_leaf: int,
    missing: int,
    cuts: Cuts,
) -> None:
    """As `cut_variance`, over the codes of the columns that each node reads; ``missing`` is no value."""
    starts, rows, weights = nodes
    n_dimensions, total, of_few = fixed.shape[1], np.empty(2, np.int64), np.empty((4, fixed.shape[1]), np.int64)
    order, coded, keys = np.empty(_FEW, np.int64), np.empty(_FEW), np.empty(_FEW, np.uint64)
    sides = np.empty((2, n_dimensions), np.int64)
    filled, sums = np.empty(N_CODES, np.int64), np.empty((N_CODES, n_dimensions), np.int64)
    for node in range(starts.shape[0] - 1):
        first, last = starts[node], starts[node + 1]
        size, of_node = last - first, VectorRows(rows[first:last], weights[first:last], fixed, total, of_few)
        own = columns.column[columns.begin[node] : columns.begin[node + 1]]
        if size <= _FEW and own.shape[0] > 0:
            add_all_vectors(of_node)
        for k in range(own.shape[0]):
            column = own[k]
            if size <= _FEW:
                for r in range(first, last):
                    code = codes[rows[r], column]
                    coded[r - first] = np.nan if code == missing else np.float64(code)
                n = order_values(coded[:size], order, keys, keys)
                cut_vectors(node, k, coded[:size], order[:size], n, of_node, (min_leaf, True), cuts)
                continue
            filled[:] = 0
            sums[:] = 0
            for r in range(first, last):
                b = codes[rows[r], column]
                filled[b] += weights[r]
                for q in range(n_dimensions):
                    sums[b, q] += weights[r] * fixed[rows[r], q]
            if missing == NO_CODE or filled[missing] == 0:
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
    """`scan_variance` over bins of weight filled[b] and sums of vectors sums[b]; ``missing`` as in `place_of`."""
    left, right, least = sides[0], sides[1], cuts.gain[node]
    left[:] = 0
    right[:] = 0
    m_left, m_right, before = np.int64(0), np.int64(0), np.nan
    for b in range(N_CODES):
        m_right += filled[b]
        right += sums[b]
    for step in range(N_CODES):
        b = (step + MISSING_CODE) % N_CODES if missing == LEFT else step
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
