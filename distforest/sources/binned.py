"""Binned features: each column as codes of at most 256 bins, so that large nodes are searched by histograms.

A cut of the codes is a cut of the features at an edge: ``code <= a`` means ``value <= edge[a]``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from distforest.jit import kernel
from distforest.sources.source import Float32s, Floats, Int32s, Ints, Projections, is_complete, offsets

MISSING_CODE = 255
"""The code of a missing value, if there are any; there are then at most 255 bins."""

QUANTILE_ROWS = 200_000
"""A longer column takes its edges from this many evenly spaced rows."""


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
    >>> source = BinnedSource.of(np.array([[1.0], [2.0], [4.0]], np.float32), max_bins=256)
    >>> source.codes.ravel().tolist(), source.edges.tolist()
    ([0, 1, 2], [1.5, 3.0])
    """

    codes: NDArray[np.uint8]
    edges: Floats
    first_edge: Ints
    is_complete: bool = True

    @classmethod
    def of(cls, features: Float32s, max_bins: int, weights: Int32s | None = None) -> BinnedSource:
        """Bin ``features``, shape (n_rows, n_columns), NaN for missing values; a row counts as ``weights`` rows.

        See `column_edges`.
        """
        complete = is_complete(features)
        most = max_bins if complete else min(max_bins, MISSING_CODE)
        rows: slice | Ints = slice(None, None, 1 + (len(features) - 1) // QUANTILE_ROWS)
        if weights is not None:
            present = np.flatnonzero(weights)
            rows = present[:: 1 + (len(present) - 1) // QUANTILE_ROWS]
        of_sample = None if weights is None else weights[rows]
        columns = [_edges_of_observed(column, most, of_sample) for column in features[rows].T]
        edges, first = np.concatenate(columns), offsets(np.array([len(column) for column in columns]))
        codes = np.empty(features.shape, np.uint8)
        fill_codes(features, edges, first, codes)
        return cls(codes, edges, first, complete)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.codes.shape[0], self.codes.shape[1]

    def entries(self, rows: Int32s, columns: Int32s) -> Floats:
        """The codes at ``(rows[e], columns[e])``, shape (n_entries,)."""
        return self._values(self.codes[rows, columns])

    def block(self, rows: Int32s, columns: Int32s) -> Floats:
        """The codes at ``rows`` x ``columns``, shape (n_rows, n_columns)."""
        return self._values(self.codes[np.ix_(rows, columns)])

    def project(self, rows: Int32s, starts: Ints, projections: Projections) -> Floats:
        """The candidates' codes, shape (width, n_rows)."""
        node = np.repeat(np.arange(projections.n_nodes), np.diff(starts))
        columns = projections.columns.reshape(projections.n_nodes, projections.width)
        values = np.empty((projections.width, len(rows)))
        for k in range(projections.width):
            values[k] = self._values(self.codes[rows, columns[node, k]])
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


def _edges_of_observed(values: Float32s, max_bins: int, weights: Int32s | None) -> Floats:
    """The edges of a column without its missing values."""
    observed = ~np.isnan(values)
    if observed.all():
        return column_edges(values, max_bins, weights)
    return column_edges(values[observed], max_bins, None if weights is None else weights[observed])


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


@kernel
def fill_codes(features: Float32s, edges: Floats, first_edge: Ints, codes: NDArray[np.uint8]) -> None:
    """codes[i, c] = number of edges of column c that are below x_ic; `MISSING_CODE` if it is NaN.

    The binary searches of a column's values run in parallel, one step of all searches at a time: no step waits for the
    one before it, and there is no branch to mispredict.
    """
    low = np.empty(features.shape[0], np.int64)
    for c in range(features.shape[1]):
        column_edge = edges[first_edge[c] : first_edge[c + 1]]
        low[:] = 0
        n = column_edge.shape[0]
        while n > 0:
            half = (n + 1) >> 1
            for i in range(features.shape[0]):
                low[i] += half * np.int64(column_edge[low[i] + half - 1] < features[i, c])
            n -= half
        for i in range(features.shape[0]):
            codes[i, c] = MISSING_CODE if np.isnan(features[i, c]) else low[i]
