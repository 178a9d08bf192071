"""Column weights: how likely a node is to try each column."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from distforest.amounts import are
from distforest.errors import InputError
from distforest.growth.cuts.fences import fence_columns
from distforest.growth.rng import Keys, unit
from distforest.jit import kernel
from distforest.sources.source import Float32s, Floats, Int32s


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


def inverse_deviations(matrix: Float32s, rows: Int32s) -> Floats:
    """1 / the standard deviation of each column's values within its fences; 0 for a constant column. NaN is left out.

    Parameters
    ----------
    matrix
        Shape (n_rows, n_columns).
    rows
        Rows from which the fences are computed, see `distforest.growth.cuts.fences`.

    Returns
    -------
    ndarray
        Shape (n_columns,).

    Examples
    --------
    >>> inverse_deviations(np.array([[1, 5], [3, 5]], np.float32), np.arange(2))
    array([1., 0.])
    """
    fences, inverse = np.empty((2, matrix.shape[1])), np.empty(matrix.shape[1])
    fence_columns(matrix, rows, fences)
    invert_deviations(matrix, fences, inverse)
    return inverse


@kernel
def invert_deviations(matrix: Float32s, fences: Floats, inverse: Floats) -> None:
    """inverse[c] = 1 / sqrt(mean of squares - square of mean) of the values within the fences, in row order.

    The values are taken about the middle of their fences, or about the first one where these are infinite.
    """
    p = matrix.shape[1]
    n, total, square, middle = np.zeros(p), np.zeros(p), np.zeros(p), np.empty(p)
    for c in range(p):
        low, high = fences[0, c], fences[1, c]
        first = 0
        while first < matrix.shape[0] - 1 and np.isnan(matrix[first, c]):
            first += 1
        middle[c] = low + (high - low) / 2.0 if high < np.inf else np.float64(matrix[first, c])
    for r in range(matrix.shape[0]):
        for c in range(p):
            x = np.float64(matrix[r, c])
            if fences[0, c] <= x <= fences[1, c]:
                n[c] += 1.0
                total[c] += x - middle[c]
                square[c] += (x - middle[c]) ** 2
    for c in range(p):
        if n[c] == 0.0:  # all values are missing
            inverse[c] = 0.0
            continue
        variance = square[c] / n[c] - (total[c] / n[c]) ** 2
        inverse[c] = 1.0 / math.sqrt(variance) if variance > 1e-14 * square[c] / n[c] else 0.0
