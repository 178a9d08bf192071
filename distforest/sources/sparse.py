"""Sparse similarities as a source: stored entries are observed, also zeros; entries that are not stored are not."""

from __future__ import annotations

from bisect import bisect_left
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Self, TypeAlias

import numpy as np
import scipy

from distforest.errors import InputError
from distforest.jit import kernel, no_refcount
from distforest.sources.arrays import held_in
from distforest.sources.readings import Reading, check_shape
from distforest.sources.source import (
    Floats,
    Int32s,
    Ints,
    Projections,
    ReadByEntries,
    Similarities,
    frozen,
    offsets,
)

if TYPE_CHECKING:
    SparseMatrix: TypeAlias = scipy.sparse.sparray | scipy.sparse.spmatrix

MOST_NUMBERED = 2**31 - 1
"""Rows and columns are numbered by int32."""


class Lines(NamedTuple):
    """The stored values of each line of a matrix, of each row or of each column, as kernels take them.

    Attributes
    ----------
    start
        Place of each line's first value, and in the end the number of values, shape (n_lines + 1,).
    number
        The column of each value of a row, or the row of each value of a column, ascending within the line.
    value
        The values.
    """

    start: Ints
    number: Int32s
    value: Similarities


@dataclass(frozen=True, eq=False)
class SparseLines(ReadByEntries):
    """The stored values of a matrix, row by row.

    Attributes
    ----------
    by_row
        The values of each row; their columns ascend.
    shape
        Rows and columns.
    """

    by_row: Lines
    shape: tuple[int, int]

    @classmethod
    def from_arrays(cls, indptr: np.ndarray, indices: np.ndarray, data: np.ndarray, shape: tuple[int, int]) -> Self:
        """Make a source of read-only arrays, so that kernels are compiled once for arrays and memory maps."""
        is_single = held_in(data.dtype) == np.float32
        values: Similarities = frozen(data, np.float32) if is_single else frozen(data, np.float64)
        return cls(Lines(frozen(indptr, np.int64), frozen(indices, np.int32), values), shape)

    @property
    def indptr(self) -> Ints:
        """Place of each row's first value, and in the end the number of values, shape (n_rows + 1,)."""
        return self.by_row.start

    @property
    def indices(self) -> Int32s:
        """The column of each value, shape (n_values,)."""
        return self.by_row.number

    @property
    def data(self) -> Similarities:
        """The values, row by row, shape (n_values,)."""
        return self.by_row.value


@dataclass(frozen=True, eq=False)
class SparseSource(SparseLines):
    """The observed entries of a matrix, float32 or float64; all others are unobserved, also on the diagonal.

    Examples
    --------
    >>> indptr, indices, data = np.array([0, 1, 3]), np.array([1, 0, 1], np.int32), np.array([5, 0, 7], np.float32)
    >>> source = SparseSource.from_arrays(indptr, indices, data, (2, 2))
    >>> source.block(np.array([0, 1], np.int32), np.array([0, 1], np.int32))
    array([[nan,  5.],
           [ 0.,  7.]])
    """

    @property
    def nbytes(self) -> int:
        """Size of the three arrays."""
        return sum(array.nbytes for array in self.by_row)

    def entries(self, rows: Int32s, columns: Int32s) -> Floats:
        """The values at ``(rows[e], columns[e])``, shape (n_entries,)."""
        values = np.empty(len(rows))
        sparse_entries(self.by_row, rows, columns, values)
        return values

    def project(self, rows: Int32s, starts: Ints, projections: Projections) -> Floats:
        """The candidates' values, shape (width, n_rows)."""
        values = np.empty((projections.width, len(rows)))
        project_sparse(self.by_row, rows, starts, projections, values)
        return values


@no_refcount
def find(lines: Lines, line: int, number: int) -> int:
    """The place of the value of a line at a number; -1 where there is none."""
    low, last = lines.start[line], lines.start[line + 1]
    high = last
    while low < high:
        middle = (low + high) // 2
        if lines.number[middle] < number:
            low = middle + 1
        else:
            high = middle
    return low if low < last and lines.number[low] == number else -1


@no_refcount
def observed(stored: Lines, row: int, column: int) -> float:
    """The value of a row at a column; NaN where there is none."""
    place = find(stored, row, column)
    return np.float64(stored.value[place]) if place >= 0 else np.nan


@kernel
def sparse_entries(stored: Lines, rows: Int32s, columns: Int32s, values: Floats) -> None:
    """values[e] = S[rows[e], columns[e]], NaN where it is not stored."""
    for e in range(rows.shape[0]):
        values[e] = observed(stored, rows[e], columns[e])


@kernel
def project_sparse(stored: Lines, rows: Int32s, starts: Ints, projections: Projections, values: Floats) -> None:
    """values[k, r] = sum over e of weights[e] * S[rows[r], columns[e]], e in candidate k of the row's node."""
    width, offset, columns, weights = projections
    for node in range(starts.shape[0] - 1):
        for r in range(starts[node], starts[node + 1]):
            for k in range(width):
                total = 0.0
                for e in range(offset[node * width + k], offset[node * width + k + 1]):
                    total += weights[e] * observed(stored, rows[r], columns[e])
                values[k, r] = total


def read_sparse(values: SparseMatrix, reading: Reading) -> SparseSource:
    """Read a sparse matrix: stored entries are observed, zeros too, unless they are NaN.

    SciPy converts the matrix to CSR. This sums duplicates, stores all entries of a block (BSR), and stores the entries
    of a diagonal (DIA) that are not zero. An entry that is not stored is never a zero (but see `with_own_distances`).

    Parameters
    ----------
    values
        SciPy's sparse matrix or array of any format, shape (n_rows, n_columns); it is not changed.
    reading
        The kind of matrix, which must allow unobserved values.

    Raises
    ------
    InputError
        The matrix is not two-dimensional, is empty, or does not hold numbers; a value is refused; or the kind of matrix
        must not lack values.

    Examples
    --------
    >>> from distforest.sources.readings import DISSIMILARITIES
    >>> stored = scipy.sparse.coo_array(([2.0, 0.0], ([0, 1], [1, 1])), (2, 2))
    >>> read_sparse(stored, DISSIMILARITIES).entries(np.array([0, 0, 1], np.int32), np.array([0, 1, 1], np.int32))
    array([nan, -2., -0.])
    """
    if not reading.precise:
        found = f"found a sparse one ({values.format}, shape {tuple(values.shape)})"
        raise InputError(f"{reading.name}: a dense matrix was expected, {found}; use its .toarray()")
    check_shape(values, reading)
    matrix = canonical_csr(values)
    data, shape = _read_data(matrix, reading), (matrix.shape[0], matrix.shape[1])
    kept = ~np.isnan(data)
    if kept.all():
        return SparseSource.from_arrays(matrix.indptr, matrix.indices.astype(np.int32), data, shape)
    return SparseSource.from_arrays(offsets(kept)[matrix.indptr], matrix.indices[kept], data[kept], shape)


def canonical_csr(values: SparseMatrix) -> scipy.sparse.csr_array:
    """Convert a matrix to CSR with ascending columns, and sum duplicates; a CSR matrix of this form is not copied."""
    matrix = scipy.sparse.csr_array(values)
    if not matrix.has_canonical_format:
        matrix = matrix.copy()  # the user's matrix must not change
        matrix.sum_duplicates()
    return matrix


def checked_csr(values: SparseMatrix, name: str) -> scipy.sparse.csr_array:
    """Convert a matrix of the user's as `canonical_csr` does; raises InputError if it contradicts itself."""
    if max(values.shape) > MOST_NUMBERED:
        expected = f"at most {MOST_NUMBERED:,} rows and as many columns were expected"
        raise InputError(f"{name}: {expected}, found shape {tuple(values.shape)}")
    if hasattr(values, "check_format"):
        try:
            values.check_format(full_check=True)
        except ValueError as error:
            raise InputError(f"{name}: a sparse matrix ({values.format}) contradicts itself: {error}") from error
    given = scipy.sparse.csr_array(values)
    without_flags = scipy.sparse.csr_array((given.data, given.indices, given.indptr), given.shape)
    return canonical_csr(without_flags)


def with_own_distances(values: SparseMatrix) -> scipy.sparse.csr_array:
    """Store a distance of 0 of each object to itself, where none is stored; rows and columns are the same objects.

    Examples
    --------
    >>> distances = with_own_distances(scipy.sparse.coo_array(([2.0], ([0], [1])), (2, 2)))
    >>> distances.indptr.tolist(), distances.indices.tolist(), distances.data.tolist()
    ([0, 2, 3], [0, 1, 1], [0.0, 2.0, 0.0])
    """
    matrix = canonical_csr(values)
    starts, ends, columns = matrix.indptr[:-1].tolist(), matrix.indptr[1:].tolist(), matrix.indices
    diagonal = {row: bisect_left(columns, row, starts[row], ends[row]) for row in range(min(matrix.shape))}
    absent = [row for row, place in diagonal.items() if place == ends[row] or columns[place] != row]
    if not absent:
        return matrix
    places, added = [diagonal[row] for row in absent], np.zeros(len(starts) + 1, np.int64)
    added[np.array(absent) + 1] = 1
    parts = (np.insert(matrix.data, places, 0), np.insert(columns, places, absent), matrix.indptr + np.cumsum(added))
    return scipy.sparse.csr_array(parts, matrix.shape)


def _read_data(matrix: scipy.sparse.csr_array, reading: Reading) -> np.ndarray:
    """Convert and check the stored values; a value is refused as in a dense matrix, with its row and column."""
    with suppress(InputError):
        return np.array(reading.block(matrix.data[None, :], 0)[0])  # a copy: the user may change the matrix
    ends = matrix.indptr[1:].tolist()
    row = bisect_left(ends, True, key=lambda end: _refuses(reading, matrix.data[:end]))  # the first with such a value
    entries = slice(matrix.indptr[row], matrix.indptr[row + 1])
    dense = np.full((1, matrix.shape[1]), np.nan, np.result_type(matrix.dtype, np.float64))
    dense[0, matrix.indices[entries]] = matrix.data[entries]
    return reading.block(dense, row)[0]  # raises an error that names the place


def _refuses(reading: Reading, values: np.ndarray) -> bool:
    try:
        reading.block(values[None, :], 0)
    except InputError:
        return True
    return False
