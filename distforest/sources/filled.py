"""Similarities whose missing entries are read as the mean of the observed entries of their row."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from distforest.jit import kernel
from distforest.sources.arrays import ArraySource
from distforest.sources.source import Floats, Int32s, Ints, Projections, ReadByEntries, Similarities, Source, frozen
from distforest.sources.sparse import Lines, SparseSource, observed

ROW_MEAN = "mean"
"""The rule that reads a missing similarity as the mean of the row's observed ones."""


@dataclass(frozen=True)
class FilledSource(ReadByEntries):
    """A matrix of similarities S, where a missing S_kj is the mean of row k's observed ones.

    The mean depends on the row alone, so that an object has the same similarities in any batch.

    Attributes
    ----------
    observed
        The similarities, shape (n_rows, n_measures * n_objects), those of several measures side by side.
    means
        The mean of each row's observed similarities by each measure, shape (n_rows, n_measures); NaN if there are none.

    Examples
    --------
    >>> source = filled(ArraySource.from_values(np.array([[1.0, np.nan, 4.0], [np.nan, 2.0, np.nan]])), 3)
    >>> source.block(np.array([0, 1], np.int32), np.arange(3, dtype=np.int32))
    array([[1. , 2.5, 4. ],
           [2. , 2. , 2. ]])
    """

    observed: ArraySource | SparseSource
    means: Floats

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.observed.shape

    @property
    def n_objects(self) -> int:
        """Columns of a measure."""
        return self.shape[1] // self.means.shape[1]

    def entries(self, rows: Int32s, columns: Int32s) -> Floats:
        """The values at ``(rows[e], columns[e])``, shape (n_entries,)."""
        values = self.observed.entries(rows, columns)
        missing = np.flatnonzero(np.isnan(values))
        values[missing] = self.means[rows[missing], columns[missing] // self.n_objects]
        return values

    def project(self, rows: Int32s, starts: Ints, projections: Projections) -> Floats:
        """The candidates' values, shape (width, n_rows)."""
        if isinstance(self.observed, ArraySource):
            values = self.observed.project(rows, starts, projections)
            fill_array(self.observed.values, self.means, rows, starts, projections, values)
            return values
        values = np.empty((projections.width, len(rows)))
        project_filled_sparse(self.observed.by_row, self.means, self.n_objects, rows, starts, projections, values)
        return values


def filled(source: Source, n_objects: int, sample_weight: Int32s | None = None) -> Source:
    """Read missing similarities as means; return a dense matrix that lacks none, and any other source, as it is.

    Parameters
    ----------
    source
        Similarities to ``n_objects`` training objects, those of several measures side by side.
    n_objects
        Number of training objects.
    sample_weight
        How often each of them counts in a mean, shape (n_objects,); None: once.
    """
    weights = frozen(np.ones(n_objects) if sample_weight is None else sample_weight, np.int32)
    if isinstance(source, SparseSource):
        means = np.empty((source.shape[0], 1))
        means_of_stored(source.by_row, weights, means)
        return FilledSource(source, means)
    if not isinstance(source, ArraySource) or source.is_complete:
        return source
    means = np.empty((source.shape[0], source.shape[1] // n_objects))
    return FilledSource(source, means) if means_of_rows(source.values, weights, means) else source


@kernel
def means_of_rows(values: Similarities, weights: Int32s, means: Floats) -> bool:
    """Set means[k, m] to the weighted mean of row k's values by measure m but NaN; return whether any value is NaN."""
    n_objects, lacks = weights.shape[0], False
    for k in range(values.shape[0]):
        for m in range(means.shape[1]):
            total, weight = 0.0, 0
            for j in range(n_objects):
                value = np.float64(values[k, m * n_objects + j])
                if np.isnan(value):
                    lacks = True
                else:
                    total += weights[j] * value
                    weight += weights[j]
            means[k, m] = total / weight if weight > 0 else np.nan
    return lacks


@kernel
def means_of_stored(stored: Lines, weights: Int32s, means: Floats) -> None:
    """Set means[k, 0] to the weighted mean of the stored values of row k."""
    for k in range(means.shape[0]):
        total, weight = 0.0, 0
        for e in range(stored.start[k], stored.start[k + 1]):
            total += weights[stored.number[e]] * np.float64(stored.value[e])
            weight += weights[stored.number[e]]
        means[k, 0] = total / weight if weight > 0 else np.nan


@kernel
def fill_array(
    array: Similarities, means: Floats, rows: Int32s, starts: Ints, projections: Projections, values: Floats
) -> None:
    """Compute again what `ArraySource.project` has left NaN, with the row's mean for each entry that is NaN."""
    (width, offset, columns, weights), n_objects = projections, array.shape[1] // means.shape[1]
    for node in range(starts.shape[0] - 1):
        for r in range(starts[node], starts[node + 1]):
            for k in range(width):
                if np.isnan(values[k, r]):
                    total = 0.0
                    for e in range(offset[node * width + k], offset[node * width + k + 1]):
                        value = np.float64(array[rows[r], columns[e]])
                        total += weights[e] * (means[rows[r], columns[e] // n_objects] if np.isnan(value) else value)
                    values[k, r] = total


@kernel
def project_filled_sparse(
    stored: Lines,
    means: Floats,
    n_objects: int,
    rows: Int32s,
    starts: Ints,
    projections: Projections,
    values: Floats,
) -> None:
    """Project rows whose entries are stored sparsely, with the row's mean for each entry that is not."""
    width, offset, columns, weights = projections
    for node in range(starts.shape[0] - 1):
        for r in range(starts[node], starts[node + 1]):
            for k in range(width):
                total = 0.0
                for e in range(offset[node * width + k], offset[node * width + k + 1]):
                    value = observed(stored, rows[r], columns[e])
                    total += weights[e] * (means[rows[r], columns[e] // n_objects] if np.isnan(value) else value)
                values[k, r] = total
