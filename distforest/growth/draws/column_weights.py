"""Column weights: how likely a node is to try each column."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from distforest.amounts import are
from distforest.errors import InputError
from distforest.growth.cuts.fences import fence_columns
from distforest.growth.rng import Keys, unit
from distforest.jit import kernel
from distforest.sources.arrays import ArraySource, map_of, row_blocks
from distforest.sources.mapped_rows import SAMPLED_AT_ONCE, MappedRows
from distforest.sources.source import Float32s, Floats, Int32s

if TYPE_CHECKING:
    from distforest.sources.source import Ints


@dataclass(frozen=True)
class ColumnWeights:
    """Weights of columns, as shares of one.

    Attributes
    ----------
    cumulative
        Sum of the shares of each column and all before it, shape (n_columns,).

    Examples
    --------
    >>> weights = ColumnWeights.of(np.array([3.0, 0.0, 1.0]))
    >>> weights.cumulative.tolist(), round(weights.effective, 3)
    ([0.75, 0.75, 1.0], 1.6)
    """

    cumulative: Floats

    @classmethod
    def of(cls, weights: Floats) -> ColumnWeights:
        """Normalise weights, shape (n_columns,).

        Raises InputError unless all are finite, none is negative and some are positive.
        """
        good = np.isfinite(weights) & (weights >= 0.0)
        if weights.ndim != 1 or not good.all() or not (weights > 0.0).any():
            n_bad = int((~good).sum())
            found = f"{n_bad} that {are(n_bad)} not" if n_bad else "none that is positive"
            raise InputError(f"feature_weights must be finite, not negative and not all 0, found {found}")
        scaled = np.ldexp(weights, -np.frexp(weights.max())[1])  # no bit is lost, and their sum has a float
        total = np.cumsum(scaled, dtype=np.float64)
        return cls(total / total[-1])

    @classmethod
    def uniform(cls, n_columns: int) -> ColumnWeights:
        """The same weight for every column."""
        return cls.of(np.ones(n_columns))

    @property
    def shares(self) -> Floats:
        """The share of each column, shape (n_columns,)."""
        return np.diff(self.cumulative, prepend=0.0)

    @property
    def effective(self) -> float:
        """The effective number of columns, 1 / sum of squared shares: it is n for n columns of equal weight."""
        return float(1.0 / (self.shares**2).sum())

    @property
    def n_candidates(self) -> int:
        """The effective number of columns to the power 3/4, rounded up: ``max_features="effective"``."""
        return max(1, math.ceil(round(self.effective, 9) ** 0.75))


@kernel
def column_at(cumulative: Floats, share: float) -> int:
    """The first column whose cumulative weight is above ``share``; it is never a column of weight 0."""
    low, high = 0, cumulative.shape[0] - 1
    while low < high:
        middle = (low + high) >> 1
        if cumulative[middle] > share:
            high = middle
        else:
            low = middle + 1
    return low


@kernel
def draw_columns(keys: Keys, first: int, cumulative: Floats, columns: Int32s) -> None:
    """columns[f, e] = the column at the share that node f draws at place first + e of its stream."""
    for f in range(keys.shape[0]):
        for e in range(columns.shape[1]):
            columns[f, e] = column_at(cumulative, unit(keys[f], first + e))


def inverse_deviations(matrix: Float32s, rows: Int32s, present: Ints | None = None) -> Floats:
    """1 / the standard deviation of each column's values within its fences; 0 for a constant column. NaN is left out.

    Parameters
    ----------
    matrix
        Shape (n_rows, n_columns).
    rows
        Rows from which the fences are computed, see `distforest.growth.cuts.fences`; they ascend.
    present
        The rows that count, ascending; None: all.

    Returns
    -------
    ndarray
        Shape (n_columns,).

    Examples
    --------
    >>> inverse_deviations(np.array([[1, 5], [3, 5]], np.float32), np.arange(2))
    array([1., 0.])
    """
    n_columns = matrix.shape[1]
    fences, inverse = np.empty((2, n_columns)), np.empty(n_columns)
    if map_of(matrix) is None:
        fence_columns(matrix, rows, fences)
    else:
        sample = MappedRows(matrix, False, SAMPLED_AT_ONCE).columns_of(rows, np.arange(n_columns, dtype=np.int32))
        fence_columns(ArraySource.of(sample).values, np.arange(len(rows), dtype=np.int32), fences)
    middle, bounded = np.full(n_columns, np.nan), fences[1] < np.inf
    middle[bounded] = fences[0, bounded] + (fences[1, bounded] - fences[0, bounded]) / 2.0
    moments = np.zeros((3, n_columns))
    for first, block in row_blocks(matrix):
        own = block
        if present is not None:
            begin, end = np.searchsorted(present, (first, first + len(block)))
            own = block[present[begin:end] - first]
        add_deviations(ArraySource.of(own).values, fences, middle, moments)
    invert_deviations(moments, inverse)
    return inverse


@kernel
def add_deviations(matrix: Float32s, fences: Floats, middle: Floats, moments: Floats) -> None:
    """moments[:, c] += number, sum and sum of squares of the values within the fences, in row order.

    The values are taken about the ``middle`` of their fences, or about the first one where these are infinite; its
    place is NaN until a block has it.
    """
    for c in range(matrix.shape[1]):
        first = 0
        while np.isnan(middle[c]) and first < matrix.shape[0]:
            middle[c] = np.float64(matrix[first, c])
            first += 1
    for r in range(matrix.shape[0]):
        for c in range(matrix.shape[1]):
            x = np.float64(matrix[r, c])
            if fences[0, c] <= x <= fences[1, c]:
                moments[0, c] += 1.0
                moments[1, c] += x - middle[c]
                moments[2, c] += (x - middle[c]) ** 2


@kernel
def invert_deviations(moments: Floats, inverse: Floats) -> None:
    """inverse[c] = 1 / sqrt(mean of squares - square of mean), from `add_deviations`."""
    for c in range(moments.shape[1]):
        n, total, square = moments[0, c], moments[1, c], moments[2, c]
        if n == 0.0:  # all values are missing
            inverse[c] = 0.0
            continue
        variance = square / n - (total / n) ** 2
        inverse[c] = 1.0 / math.sqrt(variance) if variance > 1e-14 * square / n else 0.0
