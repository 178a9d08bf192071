"""Binned features: each column as codes of at most 256 bins, so that large nodes are searched by histograms.

Cutting binned features is cutting the features themselves at the edges: ``code <= a`` is ``value <= edge[a]``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from distforest.jit import kernel
from distforest.sources.source import Float32s, Floats, Int32s, Ints, Projections, offsets

QUANTILE_ROWS = 200_000
"""Rows, evenly spaced, from which the edges of a longer column are taken."""


@dataclass(frozen=True)
class BinnedSource:
    """Codes of a feature matrix.

    Attributes
    ----------
    codes
        Bin of each value, shape (n_rows, n_columns), uint8.
    edges
        Upper edge of each bin but the last, column after column, float64.
    first_edge
        Where each column's edges begin, shape (n_columns + 1,).

    Examples
    --------
    >>> source = BinnedSource.of(np.array([[1.0], [2.0], [4.0]], np.float32), max_bins=256)
    >>> source.codes.ravel().tolist(), source.edges.tolist()
    ([0, 1, 2], [1.5, 3.0])
    """

    codes: NDArray[np.uint8]
    edges: Floats
    first_edge: Ints

    @classmethod
    def of(cls, features: Float32s, max_bins: int) -> BinnedSource:
        """Bin ``features``, shape (n_rows, n_columns): a bin a value where there are few, else equal shares of rows."""
        sample = features[:: 1 + (len(features) - 1) // QUANTILE_ROWS]
        columns = [column_edges(column, max_bins) for column in sample.T]
        edges, first = np.concatenate(columns), offsets(np.array([len(own) for own in columns]))
        codes = np.empty(features.shape, np.uint8)
        fill_codes(features, edges, first, codes)
        return cls(codes, edges, first)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.codes.shape[0], self.codes.shape[1]

    def entries(self, rows: Int32s, columns: Int32s) -> Floats:
        """The codes at ``(rows[e], columns[e])``, shape (n_entries,)."""
        return self.codes[rows, columns].astype(np.float64)

    def block(self, rows: Int32s, columns: Int32s) -> Floats:
        """The codes at ``rows`` x ``columns``, shape (n_rows, n_columns)."""
        return self.codes[np.ix_(rows, columns)].astype(np.float64)

    def project(self, rows: Int32s, starts: Ints, projections: Projections) -> Floats:
        """The candidates' codes, shape (width, n_rows)."""
        node = np.repeat(np.arange(projections.n_nodes), np.diff(starts))
        columns = projections.columns.reshape(projections.n_nodes, projections.width)
        values = np.empty((projections.width, len(rows)))
        for k in range(projections.width):
            values[k] = self.codes[rows, columns[node, k]]
        return values

    def thresholds(self, columns: Int32s, codes: Floats) -> Floats:
        """The feature's threshold for a threshold between two codes: the edge of the bin below the middle."""
        edge = self.first_edge[columns] + np.floor(codes).astype(np.int64)
        thresholds: Floats = self.edges[edge]
        return thresholds


def column_edges(values: Float32s, max_bins: int) -> Floats:
    """Ascending edges that part ``values`` into at most ``max_bins`` bins, none of them empty.

    An edge lies in the middle of two neighbouring values; bins are single values where there are few enough of them,
    else nearly equal shares of the rows.
    """
    ordered = np.sort(values).astype(np.float64)
    place = np.flatnonzero(ordered[1:] > ordered[:-1])
    if len(place) >= max_bins:
        wanted = np.arange(1, max_bins) * len(ordered) // max_bins - 1
        place = np.unique(place[np.searchsorted(place, wanted).clip(max=len(place) - 1)])
    below, above = ordered[place], ordered[place + 1]
    return below + (above - below) / 2.0


@kernel
def fill_codes(features: Float32s, edges: Floats, first_edge: Ints, codes: NDArray[np.uint8]) -> None:
    """codes[i, c] = number of the edges of column c that are below x_ic.

    A column's searches are halved together, step by step: no step waits for another, and none can be mispredicted.
    """
    low = np.empty(features.shape[0], np.int64)
    for c in range(features.shape[1]):
        own = edges[first_edge[c] : first_edge[c + 1]]
        low[:] = 0
        n = own.shape[0]
        while n > 0:
            half = (n + 1) >> 1
            for i in range(features.shape[0]):
                low[i] += half * np.int64(own[low[i] + half - 1] < features[i, c])
            n -= half
        for i in range(features.shape[0]):
            codes[i, c] = low[i]
