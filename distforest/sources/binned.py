"""Binned features: each column as codes of at most 256 bins, so that large nodes are searched by histograms.

A cut of the codes is a cut of the features at an edge: ``code <= a`` means ``value <= edge[a]``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from distforest.jit import kernel, no_refcount
from distforest.sources.arrays import is_complete, release_pages
from distforest.sources.source import Float32s, Floats, Int32s, Ints, Projections, offsets

if TYPE_CHECKING:
    from pathlib import Path

MISSING_CODE = 255
"""The code of a missing value, if there are any; there are then at most 255 bins."""

NO_CODE = 256
"""A code that no value has."""

QUANTILE_ROWS = 200_000
"""A longer column takes its edges from this many evenly spaced rows."""

_CELLS = 1024
"""Equal cells of the grid by which a value finds its code."""

_MAPPED_ROWS = 512
"""Distant rows of a memory map that are read before their pages are given back; the kernel maps 64 KiB about each."""

_FILLED_ROWS, _FILLED_COLUMNS = 512, 32
"""Rows and columns whose codes are found side by side."""


@dataclass(frozen=True)
class BinnedSource:
    """A feature matrix as codes of bins.

    Attributes
    ----------
    codes
        Bin of each value, shape (n_rows, n_columns), uint8.
    edges
        Upper edge of each bin except the last, column after column, float64.
    first_edge
        Where each column's edges begin, shape (n_columns + 1,).
    is_complete
        Whether no value is missing; if one is, the code `MISSING_CODE` stands for missing values.

    Examples
    --------
    >>> source = BinnedSource.from_features(np.array([[1.0], [2.0], [4.0]], np.float32), max_bins=256)
    >>> source.codes.ravel().tolist(), source.edges.tolist()
    ([0, 1, 2], [1.5, 3.0])
    """

    codes: NDArray[np.uint8]
    edges: Floats
    first_edge: Ints
    is_complete: bool = True

    @classmethod
    def from_features(cls, features: Float32s, max_bins: int, weights: Int32s | None = None) -> BinnedSource:
        """Bin ``features``, shape (n_rows, n_columns), NaN for missing values; a row counts as ``weights`` rows.

        See `column_edges`.
        """
        complete = is_complete(features)
        edges, first = _edges_of_columns(features, max_bins, complete, weights)
        codes = np.empty(features.shape, np.uint8)
        fill_codes(features, edges, first, codes)
        return cls(codes, edges, first, complete)

    @classmethod
    def stored(
        cls,
        features: Float32s,
        max_bins: int,
        weights: Int32s | None,
        path: Path,
        block_rows: int,
        left_out: NDArray[np.bool_] | None = None,
    ) -> BinnedSource:
        """`of`, with the codes in a new file at ``path`` that is mapped, made ``block_rows`` rows at a time.

        Pages of ``features`` and of the codes are given back, so that no more than a block of them is resident. Columns
        that are ``left_out``, shape (n_columns,), have a single bin.
        """
        blocks, complete = range(0, len(features), block_rows), True
        for begin in blocks:
            complete &= is_complete(without(features[begin : begin + block_rows], left_out))
            release_pages(features)
        edges, first = _edges_of_columns(features, max_bins, complete, weights, left_out)
        release_pages(features)
        with path.open("wb") as file:
            for begin in blocks:
                block = without(features[begin : begin + block_rows], left_out)
                codes = np.empty(block.shape, np.uint8)
                fill_codes(block, edges, first, codes)
                file.write(codes.data)
                release_pages(features)
        return cls(np.memmap(path, np.uint8, "r", shape=features.shape), edges, first, complete)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.codes.shape[0], self.codes.shape[1]

    @property
    def missing_code(self) -> int:
        """The code of missing values; one that no value has if there are none."""
        return NO_CODE if self.is_complete else MISSING_CODE

    def of_rows(self) -> tuple[NDArray[np.uint8], None]:
        """The codes."""
        return self.codes, None

    def over(self, values: NDArray[np.uint8], categories: Float32s | None = None) -> BinnedSource:  # noqa: ARG002
        """The source of other rows with the same bins, from their codes."""
        return replace(self, codes=values)

    def entries(self, rows: Int32s, columns: Int32s) -> Floats:
        """The codes at ``(rows[e], columns[e])``, shape (n_entries,)."""
        return self._values(self.codes[rows, columns])

    def block(self, rows: Int32s, columns: Int32s) -> Floats:
        """The codes at ``rows`` x ``columns``, shape (n_rows, n_columns)."""
        return self._values(self.codes[np.ix_(rows, columns)])

    def project(self, rows: Int32s, starts: Ints, projections: Projections) -> Floats:
        """The candidates' codes, shape (width, n_rows)."""
        values = np.empty((projections.width, len(rows)))
        columns = projections.columns.reshape(projections.n_nodes, projections.width)
        project_codes(self.codes, rows, starts, columns, self.is_complete, values)
        return values

    def _values(self, codes: NDArray[np.uint8]) -> Floats:
        """The codes as values, with NaN for missing ones."""
        values = codes.astype(np.float64)
        if not self.is_complete:
            values[codes == MISSING_CODE] = np.nan
        return values

    def thresholds(self, columns: Int32s, codes: Floats) -> Floats:
        """The thresholds on features for thresholds on codes: the upper edge of bin ``floor(code)``.

        A threshold above all codes, as of a cut between observed and missing values, stays what it is.
        """
        thresholds = codes.copy()
        between = codes < MISSING_CODE + 1
        thresholds[between] = self.edges[self.first_edge[columns[between]] + np.floor(codes[between]).astype(np.int64)]
        return thresholds


def without(features: Float32s, left_out: NDArray[np.bool_] | None) -> Float32s:
    """Features with zeros in the columns that are left out."""
    return features if left_out is None else np.where(left_out, np.float32(0.0), features)


def _edges_of_columns(
    features: Float32s,
    max_bins: int,
    complete: bool,
    weights: Int32s | None,
    left_out: NDArray[np.bool_] | None = None,
) -> tuple[Floats, Ints]:
    """The edges of all columns, and where each column's begin; ``complete`` says whether no value is missing.

    Columns that are left out have none.
    """
    rows = quantile_rows(np.arange(len(features)) if weights is None else np.flatnonzero(weights))
    return edges_of_sample(features, max_bins, complete, None if weights is None else weights[rows], left_out, rows)


def quantile_rows(numbers: Ints) -> Ints:
    """The rows from which long columns take their edges, of those with these numbers."""
    return numbers[:: 1 + (len(numbers) - 1) // QUANTILE_ROWS]


def edges_of_sample(
    features: Float32s,
    max_bins: int,
    complete: bool,
    weights: Int32s | None = None,
    left_out: NDArray[np.bool_] | None = None,
    rows: Ints | None = None,
) -> tuple[Floats, Ints]:
    """The edges of all columns, from some `quantile_rows`, and where each column's begin, as `BinnedSource` has them.

    ``complete`` says whether no value of any row is missing in columns that are not left out; those that are have no
    edges. ``rows`` are the numbers of the rows, None for all, and ``weights`` are their weights. Pages of a memory map
    are given back, as distant rows lie on a page each.
    """
    most, edges = max_bins if complete else min(max_bins, MISSING_CODE), list[Floats]()
    numbers = np.arange(len(features)) if rows is None else rows
    for first in range(0, features.shape[1], _FILLED_COLUMNS):
        block = np.empty((min(_FILLED_COLUMNS, features.shape[1] - first), len(numbers)), np.float32)
        step = _MAPPED_ROWS if isinstance(features, np.memmap) else len(numbers)
        for begin in range(0, len(numbers), step):
            here = slice(begin, begin + step)
            block[:, here] = features[numbers[here], first : first + _FILLED_COLUMNS].T
            release_pages(features)
        for number, column in enumerate(block, first):  # in one piece of memory it sorts thrice as fast
            observed = ~np.isnan(column)
            if left_out is not None and left_out[number]:
                observed[:] = False
            own = None if weights is None else weights[observed]
            edges.append(column_edges(column[observed], most, own))
    return np.concatenate(edges), offsets(np.array([len(column) for column in edges]))


def column_edges(values: Float32s, max_bins: int, weights: Int32s | None = None) -> Floats:
    """Ascending edges that divide ``values`` into at most ``max_bins`` bins, none of them empty.

    An edge is midway between two neighbouring values. With at most ``max_bins`` different values, each has a bin of its
    own; with more, bins have nearly equal numbers of rows. A value counts as often as its weight, a positive integer.
    """
    order = np.argsort(values, kind="stable") if weights is not None else np.empty(0, np.int64)
    ordered = (np.sort(values) if weights is None else values[order]).astype(np.float64)
    place = np.flatnonzero(ordered[1:] > ordered[:-1])
    if len(place) >= max_bins:
        counted = np.arange(1, len(ordered) + 1) if weights is None else np.cumsum(weights[order], dtype=np.int64)
        wanted = np.arange(1, max_bins) * counted[-1] // max_bins - 1
        place = np.unique(place[np.searchsorted(counted[place] - 1, wanted).clip(max=len(place) - 1)])
    below, above = ordered[place], ordered[place + 1]
    return below + (above - below) / 2.0


@no_refcount
def project_codes(
    codes: NDArray[np.uint8], rows: Int32s, starts: Ints, columns: Int32s, is_complete: bool, values: Floats
) -> None:
    """values[k, r] = codes[rows[r], columns[f, k]] for the node f of row r, with NaN for missing values."""
    places = rows.view(np.uint32)  # see `distforest.jit`
    for node in range(starts.shape[0] - 1):
        for k in range(values.shape[0]):
            column = columns[node, k]
            for r in range(starts[node], starts[node + 1]):
                code = codes[places[r], column]
                values[k, r] = np.nan if code == MISSING_CODE and not is_complete else np.float64(code)


@kernel
def fill_codes(features: Float32s, edges: Floats, first_edge: Ints, codes: NDArray[np.uint8]) -> None:
    """codes[i, c] = number of edges of column c that are below x_ic; `MISSING_CODE` if it is NaN.

    A grid says how many edges lie in the cells below that of a value; the edges of its own cell are searched. The
    searches of some rows advance together, as many steps as the fullest cell takes: no step waits for the one before
    it, and there is no branch to mispredict. Rows and columns are taken a few at a time, so that their lines stay in
    the processor's cache.
    """
    n_rows, n_columns = features.shape
    padded, table = np.empty((_FILLED_COLUMNS, 2 * MISSING_CODE + 2)), np.empty((_FILLED_COLUMNS, _CELLS), np.uint8)
    grids = np.empty((_FILLED_COLUMNS, 3))
    value, low = np.empty(_FILLED_ROWS), np.empty(_FILLED_ROWS, np.uint32)
    for first in range(0, n_columns, _FILLED_COLUMNS):
        last = min(first + _FILLED_COLUMNS, n_columns)
        for c in range(first, last):
            write_grid(edges[first_edge[c] : first_edge[c + 1]], padded[c - first], table[c - first], grids[c - first])
        for begin in range(0, n_rows, _FILLED_ROWS):
            n = min(_FILLED_ROWS, n_rows - begin)
            for c in range(first, last):
                own, of_cell, grid = padded[c - first], table[c - first], grids[c - first]
                for i in range(n):
                    value[i] = features[begin + i, c]
                    low[i] = of_cell[grid_cell(value[i], grid)]
                half = np.uint32(grid[2])
                while half > 0:
                    for i in range(n):
                        low[i] += half if own[low[i] + half - np.uint32(1)] < value[i] else np.uint32(0)
                    half >>= np.uint32(1)
                for i in range(n):
                    codes[begin + i, c] = MISSING_CODE if np.isnan(value[i]) else low[i]


@no_refcount
def write_grid(edges: Floats, padded: Floats, table: NDArray[np.uint8], grid: Floats) -> None:
    """Cover ascending ``edges`` by equal cells.

    ``padded`` becomes the edges and then inf; ``table`` the number of edges in the cells below each; ``grid`` the least
    edge, cells per unit, and half the first power of two that is greater than the number of edges of any cell.
    """
    n = edges.shape[0]
    for e in range(padded.shape[0]):
        padded[e] = edges[e] if e < n else np.inf
    grid[0] = edges[0] if n else 0.0
    grid[1] = (_CELLS - 1) / (edges[n - 1] - edges[0]) if n > 1 else 0.0
    most, e = 0, 0
    for cell in range(_CELLS):
        table[cell] = e
        while e < n and grid_cell(edges[e], grid) == cell:
            e += 1
        most = max(most, e - table[cell])
    half = 0.5
    while 2.0 * half <= most:
        half *= 2.0
    grid[2] = half if most else 0.0


@no_refcount
def grid_cell(value: float, grid: Floats) -> np.uint32:
    """The cell of a value, which never falls as the value rises; 0 for NaN."""
    place = (value - grid[0]) * grid[1]
    if not place > 0.0:  # as for NaN
        return np.uint32(0)
    return np.uint32(min(place, _CELLS - 1.0))
