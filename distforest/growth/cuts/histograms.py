"""Cuts of binned columns: a search that reads codes in place, instead of values.

In a node of many rows each bin is a group of the scan (`distforest.growth.cuts.scan`); in a small one each row is, in
the order of its code. Tallies are exact, so the cuts are the same. Gini impurity with plain weights has a separate
search, which is up to three times as fast (`distforest.growth.cuts.class_histograms`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from distforest.forest.frontier import Frontier, Nodes, longest_of
from distforest.growth.cuts.ordering import order_values
from distforest.growth.cuts.scan import (
    Cuts,
    add_row,
    bins_for,
    groups_for,
    scan_keys,
    tallies_for,
    weigh_node,
)
from distforest.growth.cuts.search import Limits, values_on
from distforest.jit import kernel, no_refcount
from distforest.sources.binned import NO_CODE, BinnedSource
from distforest.sources.source import Floats, Int32s, Ints, Projections

if TYPE_CHECKING:
    from distforest.growth.cuts.criteria import Tallied
    from distforest.growth.cuts.scan import Impurity, RowGroups, SummedGroups

Codes = NDArray[np.uint8]

N_CODES = 256
_SIDE_BY_SIDE = 128
"""Number of rows that are added candidate by candidate, while their lines are in the processor's cache."""
_ROOM = 1 << 20
"""Bytes of bins that are held at once, unless one candidate takes more."""
_FEW = 32
"""Largest number of rows of a node that is searched in the order of its codes."""


def cut_binned(
    source: BinnedSource, criterion: Tallied, frontier: Frontier, projections: Projections, limits: Limits
) -> tuple[Cuts, Floats]:
    """`project_and_cut` for single columns of a binned source."""
    cuts = best_codes(source, criterion, frontier, projections, limits)
    return cuts, values_on(source, frontier, projections, cuts)


def best_codes(
    source: BinnedSource, criterion: Tallied, frontier: Frontier, projections: Projections, limits: Limits
) -> Cuts:
    """Return the best cut of each node over its candidates, each of a single column, or of none, which is never cut."""
    cuts, columns, missing = Cuts.none(frontier.n_nodes), columns_read(projections), source.missing_code
    codes, truth, impurity = source.codes, criterion.truth, criterion.impurity
    cut_codes(frontier.nodes, codes, columns, truth, impurity, limits.min_samples_leaf, missing, cuts)
    count_among_all(projections, cuts)
    return cuts


class ColumnsRead(NamedTuple):
    """The columns that the candidates of each node read.

    Attributes
    ----------
    column
        The column of each candidate that reads one, one node after another, shape (n,).
    begin
        Start of the columns of each node, shape (n_nodes + 1,).
    """

    column: Int32s
    begin: Ints


def columns_read(projections: Projections) -> ColumnsRead:
    """Return the columns of candidates that read one each, or none.

    Examples
    --------
    >>> columns_read(Projections(2, np.array([0, 1, 2, 2, 3]), np.array([7, 5, 7], np.int32), np.ones(3))).begin
    array([0, 2, 3])
    """
    return ColumnsRead(projections.columns, np.ascontiguousarray(projections.offset[:: projections.width]))


def count_among_all(projections: Projections, cuts: Cuts) -> None:
    """Renumber candidates, counted among those that read a column, among all candidates of their node."""
    if len(projections.columns) == len(projections.offset) - 1:
        return
    candidate = np.flatnonzero(np.diff(projections.offset)) % projections.width
    has = cuts.candidate >= 0
    cuts.candidate[has] = candidate[columns_read(projections).begin[:-1][has] + cuts.candidate[has]]


@kernel
def cut_codes(
    nodes: Nodes,
    codes: Codes,
    columns: ColumnsRead,
    truth: Int32s | Ints,
    impurity: Impurity,
    min_leaf: int,
    missing: int,
    cuts: Cuts,
) -> None:
    """As `cut_rows`, over the codes of the columns that each node reads; ``missing`` is not a value."""
    starts, rows, weights = nodes
    longest, rules = longest_of(starts), (min_leaf, True)
    at_once = max(1, min(longest_of(columns.begin), _ROOM // (8 * N_CODES * (impurity.n_sums + 1))))
    order, coded, keys = np.empty(max(longest, N_CODES), np.int64), np.empty(_FEW), np.empty(_FEW, np.uint64)
    groups, tallies = groups_for(impurity, longest), tallies_for(impurity.n_sums)
    bins, code_of_bin = bins_for(impurity, at_once * N_CODES), np.empty(at_once * N_CODES)
    for place in range(at_once * N_CODES):
        code_of_bin[place] = np.float64(place % N_CODES)
    for node in range(starts.shape[0] - 1):
        first, last = starts[node], starts[node + 1]
        own, of_rows, n = columns.column[columns.begin[node] : columns.begin[node + 1]], rows[first:last], last - first
        if own.shape[0] == 0:
            continue
        most = weigh_node(impurity, of_rows, weights[first:last], truth, groups, order, tallies)
        for k in range(own.shape[0]):
            if cuts.gain[node] == most:
                break
            if n <= _FEW:
                for r in range(n):
                    code = codes[of_rows[r], own[k]]
                    coded[r] = np.nan if code == missing else np.float64(code)
                m = order_values(coded[:n], order, keys, keys)
                scan_keys(node, k, coded[:n], order[:n], m, groups, impurity, tallies, rules, cuts)
                continue
            if k % at_once == 0:
                clear_bins(min(at_once, own.shape[0] - k), bins)
                add_codes(codes, of_rows, own[k : min(k + at_once, own.shape[0])], groups, bins)
            m, size = order_bins(bins, k % at_once * N_CODES, missing, order)
            scan_keys(node, k, code_of_bin, order[:size], m, bins, impurity, tallies, rules, cuts)


@no_refcount
def clear_bins(n_candidates: int, bins: SummedGroups) -> None:
    """Clear the bins of some candidates."""
    n = n_candidates * N_CODES
    sums = bins.sums.reshape(bins.sums.size)[: n * bins.sums.shape[1]]
    bins.weights[:n] = 0
    sums[:] = 0


@no_refcount
def add_codes(codes: Codes, rows: Int32s, columns: Int32s, groups: RowGroups, bins: RowGroups) -> None:
    """Add each row to the bins of its codes: that of column columns[k] to bin k * N_CODES + code."""
    places = rows.view(np.uint32)  # see `distforest.jit`
    for first in range(0, places.shape[0], _SIDE_BY_SIDE):
        last = min(first + _SIDE_BY_SIDE, places.shape[0])
        for k in range(columns.shape[0]):
            for r in range(first, last):
                add_row(bins, k * N_CODES + np.int64(codes[places[r], columns[k]]), groups, r)


@no_refcount
def order_bins(bins: RowGroups, first: int, missing: int, order: Ints) -> tuple[int, int]:
    """Fill ``order`` with the bins of a candidate that have rows, from bin ``first`` on.

    The bin of missing values comes last. Return the number of bins with values, and of bins with rows.
    """
    n = 0
    for b in range(first, first + N_CODES):
        if bins.weights[b] > 0 and b - first != missing:
            order[n] = b
            n += 1
    if missing == NO_CODE or bins.weights[first + missing] == 0:
        return n, n
    order[n] = first + missing
    return n, n + 1
