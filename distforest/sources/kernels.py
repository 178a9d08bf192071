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
from numpy.typing import NDArray

from distforest.jit import fetch, no_refcount
from distforest.sources.arrays import is_complete
from distforest.sources.lanes import distance_of_shared, dot, dot_of_shared, manhattan_distance, square_of_shared
from distforest.sources.source import Float32s, Floats, Int32s, Ints, Projections, ReadByEntries, frozen

LINEAR = "linear"
KERNELS = (LINEAR, "cosine", "rbf", "manhattan")
"""Names of the built-in similarities."""

N_KERNELS = len(KERNELS)

WORD = 64
"""Features of a word of `Present`."""

OBJECTS_AHEAD = 8
"""Objects between the one that is fetched and the one that is read: the rows of a node lie anywhere in memory."""

FEATURES_OF_A_LINE, LINES_AHEAD = 16, 16
"""Features of a cache line, and lines of an object that are fetched ahead; a processor guesses those that follow."""


class Present(NamedTuple):
    """Which features objects have, 64 to a word: bit q % 64 of word q // 64 is 1 where an object has feature q.

    Attributes
    ----------
    one, other
        The words of the objects of rows and of those of columns, or of the left and of the right points of pairs,
        shapes (n, ceil(p / 64)) and (n', ceil(p / 64)); without rows where no object lacks a feature.
    """

    one: NDArray[np.uint64]
    other: NDArray[np.uint64]


ALL_PRESENT = Present(np.empty((0, 0), np.uint64), np.empty((0, 0), np.uint64))
"""Stands for objects of which none lacks a feature."""


class KernelReading(NamedTuple):
    """A `KernelSource` as compiled functions take it.

    ``kind`` is the place of its name in `KERNELS`, plus their number if features may be missing.
    """

    row_objects: Float32s
    column_objects: Float32s
    present: Present
    kind: int
    gamma: float


@dataclass(frozen=True)
class KernelSource(ReadByEntries):
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

    @cached_property
    def reading(self) -> KernelReading:
        """The source as compiled functions take it."""
        of_rows, of_columns = frozen(self.row_objects, np.float32), frozen(self.column_objects, np.float32)
        if self.row_objects is self.column_objects:
            of_columns = of_rows
        kind = KERNELS.index(self.name)
        if self.is_complete:
            return KernelReading(of_rows, of_columns, ALL_PRESENT, kind, self.gamma)
        present = presence(of_rows, of_columns)
        return KernelReading(of_rows, of_columns, present, kind + N_KERNELS, self.gamma)

    def entries(self, rows: Int32s, columns: Int32s) -> Floats:
        """The similarities of ``rows[e]`` to ``columns[e]``, shape (n_entries,)."""
        values = np.empty(len(rows))
        kernel_entries(self.reading, rows, columns, values)
        return values

    def project(self, rows: Int32s, starts: Ints, projections: Projections) -> Floats:
        """The candidates' values, shape (width, n_rows)."""
        values = np.empty((projections.width, len(rows)))
        if self.name == LINEAR:
            most = int(np.diff(projections.offset[:: projections.width]).max(initial=0))
            room = np.empty((1 + most, self.column_objects.shape[1]))
            project_products(self.reading, rows, starts, projections, room, values)
        else:
            project_kernel(self.reading, rows, starts, projections, values)
        return values


def presence(one: Float32s, other: Float32s, n_features: int | None = None) -> Present:
    """Which of their first features objects have; None: which of all.

    Examples
    --------
    >>> x = np.array([[1, np.nan, 2]], np.float32)
    >>> presence(x, x).one
    array([[5]], dtype=uint64)
    """
    n = one.shape[1] if n_features is None else n_features
    words = [np.zeros((len(objects), -(-n // WORD)), np.uint64) for objects in (one, other)]
    mark_present(one, n, words[0])
    if other is one:
        return Present(words[0], words[0])
    mark_present(other, n, words[1])
    return Present(*words)


@no_refcount
def mark_present(objects: Float32s, n_features: int, present: NDArray[np.uint64]) -> None:
    """Set bit q % 64 of present[r, q // 64] where objects[r, q] is not NaN."""
    for r in range(objects.shape[0]):
        for q in range(n_features):
            is_present = objects[r, q] == objects[r, q]
            present[r, q // WORD] |= np.uint64(is_present) << np.uint64(q % WORD)


@no_refcount
def n_shared(one: NDArray[np.uint64], other: NDArray[np.uint64]) -> int:
    """The number of features that both have: the bits of ``one & other``, shapes (n_words,)."""
    shared = 0
    for word in range(one.shape[0]):
        both = one[word] & other[word]
        while both:  # a processor counts the bits at once, which LLVM knows
            both &= both - np.uint64(1)
            shared += 1
    return shared


@no_refcount
def similarity(reading: KernelReading, row: int, column: int) -> float:
    """x.y, x.y / sqrt(x.x y.y), exp(-gamma sum (x - y)^2) or -sum |x - y| of two objects; sums in a fixed order."""
    row_objects, column_objects, present, kind, gamma = reading
    x, y = row_objects[row], column_objects[column]
    if kind >= N_KERNELS:
        shared = n_shared(present.one[row], present.other[column])
        return similarity_of_shared(x, y, shared, kind - N_KERNELS, gamma)
    if kind == 0:
        return dot(x, y)
    if kind == 1:
        norms = dot(x, x) * dot(y, y)
        return dot(x, y) / math.sqrt(norms) if norms > 0.0 else 0.0
    if kind == 3:
        return -manhattan_distance(x, y)
    return math.exp(-gamma * square_distance_of_shared(x, y))


@no_refcount
def similarity_of_shared(x: Float32s, y: Float32s, shared: int, kind: int, gamma: float) -> float:
    """`similarity` with p/m times the sums over the m = ``shared`` of p features that both have; NaN if m is 0.

    The sums are added in the order of `similarity`, so that the two are equal if no feature is missing.
    """
    if shared == 0:
        return np.nan
    if kind == 1:
        norms = square_of_shared(x, y) * square_of_shared(y, x)
        return dot_of_shared(x, y) / math.sqrt(norms) if norms > 0.0 else 0.0
    scale = np.float64(x.shape[0]) / np.float64(shared)
    if kind == 0:
        return dot_of_shared(x, y) * scale
    if kind == 3:
        return -(distance_of_shared(x, y) * scale)
    return math.exp(-gamma * (square_distance_of_shared(x, y) * scale))


@no_refcount
def square_distance_of_shared(x: Float32s, y: Float32s) -> float:
    """sum_q (x_q - y_q)^2 over the q that both have, one after another."""
    square = 0.0
    for q in range(x.shape[0]):
        difference = np.float64(x[q]) - np.float64(y[q])
        square += difference * difference if difference == difference else 0.0
    return square


@no_refcount
def fetch_object(objects: Float32s, row: int) -> None:
    """Prefetch the first lines of objects[row]."""
    p = objects.shape[1]
    for q in range(0, min(p, LINES_AHEAD * FEATURES_OF_A_LINE), FEATURES_OF_A_LINE):
        fetch(objects, row * p + q)


@no_refcount
def kernel_entries(reading: KernelReading, rows: Int32s, columns: Int32s, values: Floats) -> None:
    """values[e] = similarity of row object rows[e] and column object columns[e]."""
    rows, columns = rows.view(np.uint32), columns.view(np.uint32)  # see `distforest.jit`
    for e in range(rows.shape[0]):
        if e + OBJECTS_AHEAD < rows.shape[0]:
            fetch_object(reading.row_objects, rows[e + OBJECTS_AHEAD])
            fetch_object(reading.column_objects, columns[e + OBJECTS_AHEAD])
        values[e] = similarity(reading, rows[e], columns[e])


@no_refcount
def project_kernel(
    reading: KernelReading, rows: Int32s, starts: Ints, projections: Projections, values: Floats
) -> None:
    """values[k, r] = sum over e of weights[e] * similarity(row, columns[e]), e in candidate k of the row's node."""
    width, offset, columns, weights = projections
    rows, columns = rows.view(np.uint32), columns.view(np.uint32)  # see `distforest.jit`
    for node in range(starts.shape[0] - 1):
        if node + 2 < starts.shape[0]:
            for e in range(offset[(node + 1) * width], offset[(node + 2) * width]):
                fetch_object(reading.column_objects, columns[e])
        for r in range(starts[node], starts[node + 1]):
            if r + OBJECTS_AHEAD < rows.shape[0]:
                fetch_object(reading.row_objects, rows[r + OBJECTS_AHEAD])
            for k in range(width):
                total = 0.0
                for e in range(offset[node * width + k], offset[node * width + k + 1]):
                    total += weights[e] * similarity(reading, rows[r], columns[e])
                values[k, r] = total


@no_refcount
def project_products(
    reading: KernelReading, rows: Int32s, starts: Ints, projections: Projections, room: Floats, values: Floats
) -> None:
    """`project_kernel` for products x.y: each object is converted once for all others that its node multiplies it by.

    A missing value becomes 0, which adds nothing. ``room`` is for a row and for the columns of a node, shape
    (1 + most columns of a node, p).
    """
    row_objects, column_objects, present, _, _ = reading
    width, offset, columns, weights = projections
    rows, columns, x = rows.view(np.uint32), columns.view(np.uint32), room[0]  # see `distforest.jit`
    are_complete = present.one.shape[0] == 0
    for node in range(starts.shape[0] - 1):
        first = offset[node * width]
        if node + 2 < starts.shape[0]:
            for e in range(offset[(node + 1) * width], offset[(node + 2) * width]):
                fetch_object(column_objects, columns[e])
        for e in range(first, offset[(node + 1) * width]):
            convert(column_objects[columns[e]], room[1 + e - first])
        for r in range(starts[node], starts[node + 1]):
            if r + OBJECTS_AHEAD < rows.shape[0]:
                fetch_object(row_objects, rows[r + OBJECTS_AHEAD])
            convert(row_objects[rows[r]], x)
            for k in range(width):
                total = 0.0
                for e in range(offset[node * width + k], offset[node * width + k + 1]):
                    product = dot(x, room[1 + e - first])
                    if not are_complete:
                        shared = n_shared(present.one[rows[r]], present.other[columns[e]])
                        product = product * (np.float64(x.shape[0]) / np.float64(shared)) if shared else np.nan
                    total += weights[e] * product
                values[k, r] = total


@no_refcount
def convert(features: Float32s, converted: Floats) -> None:
    """The features as float64, 0 where they are missing."""
    for q in range(features.shape[0]):
        converted[q] = features[q] if features[q] == features[q] else 0.0


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
