"""Binned features: each column as codes of at most 256 bins, so that large nodes are searched by histograms.

Cutting binned features is cutting the features themselves at the edges: ``code <= a`` is ``value <= edge[a]``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from distforest.sources.source import Float32s, Floats, Ints, Projections, Rows

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
        codes = np.empty(features.shape, np.uint8)
        edges = []
        for column in range(features.shape[1]):
            own = column_edges(features[:: 1 + (len(features) - 1) // QUANTILE_ROWS, column], max_bins)
            codes[:, column] = np.searchsorted(own, features[:, column], side="left")
            edges.append(own)
        first = np.concatenate([[0], np.cumsum([len(own) for own in edges])])
        return cls(codes, np.concatenate(edges), first)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.codes.shape[0], self.codes.shape[1]

    def entries(self, rows: Rows, columns: Rows) -> Floats:
        """The codes at ``(rows[e], columns[e])``, shape (n_entries,)."""
        return self.codes[rows, columns].astype(np.float64)

    def block(self, rows: Rows, columns: Rows) -> Floats:
        """The codes at ``rows`` x ``columns``, shape (n_rows, n_columns)."""
        return self.codes[np.ix_(rows, columns)].astype(np.float64)

    def project(self, rows: Rows, starts: Ints, projections: Projections) -> Floats:
        """The candidates' codes, shape (width, n_rows)."""
        node = np.repeat(np.arange(projections.n_nodes), np.diff(starts))
        columns = projections.columns.reshape(projections.n_nodes, projections.width)
        values = np.empty((projections.width, len(rows)))
        for k in range(projections.width):
            values[k] = self.codes[rows, columns[node, k]]
        return values

    def thresholds(self, columns: Rows, codes: Floats) -> Floats:
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
