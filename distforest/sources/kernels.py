"""Similarities that follow from features, computed when they are read.

Of two objects of which one lacks features, m of p features are shared. Sums over all features are p/m times the sums
over the shared ones, as in scikit-learn's ``nan_euclidean_distances``. Without a shared feature the similarity is
unobserved (NaN).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from distforest.jit import borrowing
from distforest.sources.source import Float32s, Floats, Int32s, Ints, Projections, block_entries, is_complete

KERNELS = ("linear", "cosine", "rbf", "manhattan")
"""Names of the built-in similarities."""

N_KERNELS = len(KERNELS)


class KernelReading(NamedTuple):
    """A `KernelSource` as compiled functions take it.

    ``kind`` is the place of its name in `KERNELS`, plus their number if features may be missing.
    """

    row_objects: Float32s
    column_objects: Float32s
    kind: int
    gamma: float


@dataclass(frozen=True)
class KernelSource:
    """The similarity of each row object to each column object, shape (n_rows, n_columns).

    Attributes
    ----------
    row_objects, column_objects
        Features, float32, shapes (n_rows, p) and (n_columns, p); in training the same array. NaN is a missing value.
    name
        ``"linear"`` x.y, ``"cosine"`` x.y / (|x| |y|) (0 where a norm is 0), ``"rbf"`` exp(-gamma |x - y|^2) or
        ``"manhattan"``, minus the sum of |x_q - y_q|.
    gamma
        The parameter of ``"rbf"``.

    Examples
    --------
    >>> x = np.array([[1, 0], [1, 1]], np.float32)
    >>> KernelSource(x, x, "linear").block(np.array([0, 1], np.int32), np.array([0, 1], np.int32))
    array([[1., 1.],
           [1., 2.]])
    """

    row_objects: Float32s
    column_objects: Float32s
    name: str
    gamma: float = 1.0

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return len(self.row_objects), len(self.column_objects)

    @cached_property
    def is_complete(self) -> bool:
        """Whether no object lacks a feature."""
        return is_complete(self.column_objects) and (
            self.row_objects is self.column_objects or is_complete(self.row_objects)
        )

    @property
    def reading(self) -> KernelReading:
        """The source as compiled functions take it."""
        kind = KERNELS.index(self.name) + (0 if self.is_complete else N_KERNELS)
        return KernelReading(self.row_objects, self.column_objects, kind, self.gamma)

    def entries(self, rows: Int32s, columns: Int32s) -> Floats:
        """The similarities of ``rows[e]`` to ``columns[e]``, shape (n_entries,)."""
        values = np.empty(len(rows))
        kernel_entries(self.reading, rows, columns, values)
        return values

    def block(self, rows: Int32s, columns: Int32s) -> Floats:
        """The similarities of ``rows`` to ``columns``, shape (n_rows, n_columns)."""
        return block_entries(self, rows, columns)

    def project(self, rows: Int32s, starts: Ints, projections: Projections) -> Floats:
        """The candidates' values, shape (width, n_rows)."""
        values = np.empty((projections.width, len(rows)))
        project_kernel(self.reading, rows, starts, projections, values)
        return values


@borrowing
def similarity(x: Float32s, y: Float32s, kind: int, gamma: float) -> float:
    """x.y, x.y / sqrt(x.x y.y), exp(-gamma sum (x - y)^2) or -sum |x - y|; sums in a fixed order."""
    if kind >= N_KERNELS:
        return similarity_of_shared(x, y, kind - N_KERNELS, gamma)
    if kind == 0:
        return dot(x, y)
    if kind == 1:
        norms = dot(x, x) * dot(y, y)
        return dot(x, y) / math.sqrt(norms) if norms > 0.0 else 0.0
    if kind == 3:
        return -manhattan_distance(x, y)
    square = 0.0
    for q in range(x.shape[0]):
        difference = np.float64(x[q]) - np.float64(y[q])
        square += difference * difference
    return math.exp(-gamma * square)


@borrowing
def similarity_of_shared(x: Float32s, y: Float32s, kind: int, gamma: float) -> float:
    """`similarity` with p/m times the sums over the m of p features that both have; NaN if m is 0.

    The sums are added in the order of `similarity`, so that the two are equal if no feature is missing.
    """
    shared = 0
    for q in range(x.shape[0]):
        shared += x[q] == x[q] and y[q] == y[q]
    if shared == 0:
        return np.nan
    share = np.float64(x.shape[0]) / np.float64(shared)
    if kind == 1:
        norms = sum_of_shared(x, y, 1) * sum_of_shared(y, x, 1)
        return sum_of_shared(x, y, 0) / math.sqrt(norms) if norms > 0.0 else 0.0
    if kind == 0 or kind == 3:
        total = share * sum_of_shared(x, y, kind)
        return total if kind == 0 else -total
    square = 0.0
    for q in range(x.shape[0]):
        difference = np.float64(x[q]) - np.float64(y[q])
        if difference == difference:
            square += difference * difference
    return math.exp(-gamma * (share * square))


@borrowing
def sum_of_shared(x: Float32s, y: Float32s, term: int) -> float:
    """sum_q x_q y_q (term 0), x_q^2 (1) or |x_q - y_q| (3) over the q that both have, in the lanes of `dot`."""
    a, b, c, d = 0.0, 0.0, 0.0, 0.0
    whole = x.shape[0] // 4 * 4
    for q in range(x.shape[0]):
        if x[q] != x[q] or y[q] != y[q]:
            continue
        one, other = np.float64(x[q]), np.float64(y[q])
        value = one * other if term == 0 else one * one if term == 1 else abs(one - other)
        lane = q % 4 if q < whole else 0
        if lane == 0:
            a += value
        elif lane == 1:
            b += value
        elif lane == 2:
            c += value
        else:
            d += value
    return (a + b) + (c + d)


@borrowing
def dot(x: Float32s, y: Float32s) -> float:
    """sum_q x_q y_q in float64: lanes q = 0, 1, 2, 3 modulo 4, then (a + b) + (c + d)."""
    a, b, c, d = 0.0, 0.0, 0.0, 0.0
    whole = x.shape[0] // 4 * 4
    for q in range(0, whole, 4):
        a += np.float64(x[q]) * np.float64(y[q])
        b += np.float64(x[q + 1]) * np.float64(y[q + 1])
        c += np.float64(x[q + 2]) * np.float64(y[q + 2])
        d += np.float64(x[q + 3]) * np.float64(y[q + 3])
    for q in range(whole, x.shape[0]):
        a += np.float64(x[q]) * np.float64(y[q])
    return (a + b) + (c + d)


@borrowing
def manhattan_distance(x: Float32s, y: Float32s) -> float:
    """sum_q |x_q - y_q| in float64, in the lanes of `dot`."""
    a, b, c, d = 0.0, 0.0, 0.0, 0.0
    whole = x.shape[0] // 4 * 4
    for q in range(0, whole, 4):
        a += abs(np.float64(x[q]) - np.float64(y[q]))
        b += abs(np.float64(x[q + 1]) - np.float64(y[q + 1]))
        c += abs(np.float64(x[q + 2]) - np.float64(y[q + 2]))
        d += abs(np.float64(x[q + 3]) - np.float64(y[q + 3]))
    for q in range(whole, x.shape[0]):
        a += abs(np.float64(x[q]) - np.float64(y[q]))
    return (a + b) + (c + d)


@borrowing
def kernel_entries(reading: KernelReading, rows: Int32s, columns: Int32s, values: Floats) -> None:
    """values[e] = similarity of row object rows[e] and column object columns[e]."""
    row_objects, column_objects, kind, gamma = reading
    for e in range(rows.shape[0]):
        values[e] = similarity(row_objects[rows[e]], column_objects[columns[e]], kind, gamma)


@borrowing
def project_kernel(
    reading: KernelReading, rows: Int32s, starts: Ints, projections: Projections, values: Floats
) -> None:
    """values[k, r] = sum over e of weights[e] * similarity(row, columns[e]), e in candidate k of the row's node."""
    row_objects, column_objects, kind, gamma = reading
    width, offset, columns, weights = projections
    for node in range(starts.shape[0] - 1):
        for r in range(starts[node], starts[node + 1]):
            x = row_objects[rows[r]]
            for k in range(width):
                total = 0.0
                for e in range(offset[node * width + k], offset[node * width + k + 1]):
                    total += weights[e] * similarity(x, column_objects[columns[e]], kind, gamma)
                values[k, r] = total


def scale_gamma(features: Float32s, weights: Floats | None = None) -> float:
    """1 / (p Var(X)), scikit-learn's ``gamma="scale"``, with rows that count by ``weights``; 1 where X is constant.

    Var(X) is the variance of the values that are not missing.
    """
    if not is_complete(features):
        variance = _variance_of_observed(features, np.ones(len(features)) if weights is None else weights)
    elif weights is None:
        variance = float(features.var(dtype=np.float64))
    else:
        present, weights = features[weights > 0.0].astype(np.float64), weights[weights > 0.0]
        deviations = present - np.average(present.mean(axis=1), weights=weights)
        variance = float(np.average((deviations**2).mean(axis=1), weights=weights))
    return 1.0 / (features.shape[1] * variance) if variance > 0.0 else 1.0


def _variance_of_observed(features: Float32s, weights: Floats) -> float:
    """The variance of the values that are not missing, each of which counts by the weight of its row."""
    row, column = np.nonzero(~np.isnan(features) & (weights[:, None] > 0.0))
    if not len(row):
        return 0.0
    values, of_values = features[row, column].astype(np.float64), weights[row]
    return float(np.average((values - np.average(values, weights=of_values)) ** 2, weights=of_values))
