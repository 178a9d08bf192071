"""Features of which most are 0, such as words in texts: only the others are kept. An absent value is 0, not unobserved.

`distforest.sources.sparse` has the opposite: similarities, of which an absent one is unobserved.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import scipy.sparse

from distforest.amounts import counted
from distforest.errors import InputError
from distforest.jit import fetch, kernel, no_refcount
from distforest.sources.readings import FEATURES, check_shape
from distforest.sources.source import (
    Float32s,
    Floats,
    Int32s,
    Ints,
    Projections,
    frozen,
    offsets,
    runs,
)
from distforest.sources.sparse import Lines, SparseLines, checked_csr, find

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from distforest.sources.sparse import SparseMatrix

BY_ROW, BY_COLUMN, BY_VALUE, ONE_BY_ONE = range(4)
"""The ways of `cheapest_way`."""


class BothWays(NamedTuple):
    """The values other than 0, row by row and once more column by column."""

    rows: Lines
    columns: Lines


class Gathered(NamedTuple):
    """The values other than 0 of a node's rows in some columns, column after column.

    Attributes
    ----------
    start
        Where each column's values begin, shape (n_columns + 2,); the last entry is of no meaning.
    place
        The place of each value's row in the node, ascending within a column.
    value
        The values.
    """

    start: Ints
    place: Int32s
    value: Float32s


class Room(NamedTuple):
    """Room of `gather_nonzero`, which stays as it is between nodes.

    Attributes
    ----------
    head
        Of each column the first of the gathered columns that is this one, -1 for none, shape (n_columns,).
    where
        A place in some node for each row, shape (n_rows,); whatever is there is checked before it is used.
    """

    head: Int32s
    where: NDArray[np.uint32]


@dataclass(frozen=True, eq=False)
class SparseFeatures(SparseLines):
    """A feature matrix by its values other than 0, float32.

    Examples
    --------
    >>> source = read_sparse_features(scipy.sparse.csr_array([[0.0, 5.0], [7.0, 0.0]]))
    >>> source.block(np.array([0, 1], np.int32), np.array([0, 1], np.int32))
    array([[0., 5.],
           [7., 0.]])
    """

    @cached_property
    def both_ways(self) -> BothWays:
        """The values row by row and column by column, as kernels take them; the second are sorted at the first use."""
        start = offsets(np.bincount(self.indices, minlength=self.shape[1]))
        rows, values = np.empty(len(self.data), np.int32), np.empty(len(self.data), np.float32)
        turn(self.by_row, start[:-1].copy(), rows, values)
        return BothWays(self.by_row, Lines(frozen(start, np.int64), frozen(rows, np.int32), frozen(values, np.float32)))

    @property
    def nbytes(self) -> int:
        """Size of the values and their places, both ways."""
        return bytes_of_sparse(self.shape, len(self.data))

    @property
    def ranges(self) -> tuple[Floats, Floats]:
        """The least and the greatest value of each column, shape (n_columns,) each."""
        columns, n_rows = self.both_ways.columns, self.shape[0]
        low, high = np.zeros(self.shape[1]), np.zeros(self.shape[1])
        sizes = np.diff(columns.start)
        has = sizes > 0
        if has.any():
            begin = columns.start[:-1][has]
            low[has], high[has] = np.minimum.reduceat(columns.value, begin), np.maximum.reduceat(columns.value, begin)
        lacks = sizes < n_rows
        low[lacks], high[lacks] = np.minimum(low[lacks], 0.0), np.maximum(high[lacks], 0.0)
        return low, high

    def take(self, rows: Ints) -> SparseFeatures:
        """Some rows, in this order."""
        size, place = runs(self.indptr, rows)
        return SparseFeatures.from_arrays(size, self.indices[place], self.data[place], (len(rows), self.shape[1]))

    def on(self, columns: Ints) -> SparseFeatures:
        """Some columns, whose numbers ascend."""
        number = np.full(self.shape[1], -1, np.int32)
        number[columns] = np.arange(len(columns), dtype=np.int32)
        found = number[self.indices]
        kept = found >= 0
        shape = (self.shape[0], len(columns))
        return SparseFeatures.from_arrays(offsets(kept)[self.indptr], found[kept], self.data[kept], shape)

    def dense(self, rows: Int32s) -> Float32s:
        """Some rows with all their zeros, shape (n, n_columns)."""
        values = np.zeros((len(rows), self.shape[1]), np.float32)
        write_lines(self.by_row, rows, values)
        return values

    def entries(self, rows: Int32s, columns: Int32s) -> Floats:
        """The values at ``(rows[e], columns[e])``, shape (n_entries,)."""
        values = np.empty(len(rows))
        look_up(self.by_row, rows, columns, values)
        return values

    def project(self, rows: Int32s, starts: Ints, projections: Projections) -> Floats:
        """The candidates' values, shape (width, n_rows)."""
        values = np.zeros((projections.width, len(rows)))
        add_features(self.both_ways, rows, starts, projections, values)
        return values


def bytes_of_sparse(shape: tuple[int, ...], n_values: int) -> int:
    """Size of the values and their places, row by row and column by column, in bytes."""
    return 8 * (shape[0] + shape[1] + 2) + 16 * n_values


# --- reading ----------------------------------------------------------------------------------------------


def read_sparse_features(values: SparseMatrix) -> SparseFeatures:
    """Read a sparse matrix of features; duplicates are summed, as SciPy does, and stored zeros are dropped.

    Parameters
    ----------
    values
        SciPy's sparse matrix or array of any format, shape (n_rows, n_columns); it is not changed.

    Raises
    ------
    InputError
        The matrix is not two-dimensional, is empty, does not hold numbers or contradicts itself; it has more than
        2^31 - 1 rows or columns; or a value is NaN or infinite.

    Examples
    --------
    >>> words = scipy.sparse.coo_array(([1, 2, 3, 0], ([0, 0, 1, 1], [2, 2, 0, 1])), (2, 3))
    >>> source = read_sparse_features(words)
    >>> source.indptr.tolist(), source.indices.tolist(), source.data.tolist()
    ([0, 1, 2], [2, 0], [3.0, 3.0])
    """
    check_shape(values, FEATURES)
    matrix = checked_csr(values, FEATURES.name)
    data, kept = _checked(matrix), slice(None)
    indptr = matrix.indptr
    if not data.all():
        kept = data != 0.0
        indptr = offsets(kept)[indptr]
    return SparseFeatures.from_arrays(indptr, matrix.indices[kept], data[kept], (matrix.shape[0], matrix.shape[1]))


def _checked(matrix: scipy.sparse.csr_array) -> Float32s:
    """The stored values as float32; raises InputError as for a dense matrix, with the first bad row and column."""
    if matrix.dtype.kind not in "fiub":
        raise InputError(f"{FEATURES.name} must be numbers, found dtype {matrix.dtype}")
    with np.errstate(over="ignore", invalid="ignore"):
        data = matrix.data.astype(np.float32)
    bad = np.flatnonzero(~np.isfinite(data))
    if len(bad):
        place = int(bad[0])
        row = int(np.searchsorted(matrix.indptr, place, side="right")) - 1
        found = f"found {counted(len(bad), 'stored value')} NaN or infinite (or beyond float32)"
        at = f"the first at row {row}, column {matrix.indices[place]} ({float(matrix.data[place])!r})"
        raise InputError(f"{FEATURES.name} must be finite: {found}, {at}; remove or impute them")
    return data


# --- kernels ----------------------------------------------------------------------------------------------


@kernel
def turn(lines: Lines, filled: Ints, numbers: Int32s, values: Float32s) -> None:
    """The same values line by line of the other kind; ``filled`` is where each of its lines begins, and is changed."""
    for line in range(lines.start.shape[0] - 1):
        for e in range(lines.start[line], lines.start[line + 1]):
            other = lines.number[e]
            numbers[filled[other]], values[filled[other]] = line, lines.value[e]
            filled[other] += 1


@kernel
def write_lines(lines: Lines, chosen: Int32s, values: Float32s) -> None:
    """values[r, c] = the value of line chosen[r] at c, wherever it is not 0."""
    for r in range(chosen.shape[0]):
        for v in range(lines.start[chosen[r]], lines.start[chosen[r] + 1]):
            values[r, lines.number[v]] = lines.value[v]


@no_refcount
def value_at(lines: Lines, line: int, number: int) -> float:
    """The value of a line at a number; 0 where there is none."""
    place = find(lines, line, number)
    return np.float64(lines.value[place]) if place >= 0 else 0.0


@kernel
def look_up(lines: Lines, rows: Int32s, columns: Int32s, values: Floats) -> None:
    """values[e] = X[rows[e], columns[e]], 0 where nothing is stored."""
    for e in range(rows.shape[0]):
        values[e] = value_at(lines, rows[e], columns[e])


@kernel
def room_to_gather(stored: BothWays) -> Room:
    """Room for `gather_nonzero`; a search makes one a level, so places that no node needs are not written."""
    n_rows, n_columns = stored.rows.start.shape[0] - 1, stored.columns.start.shape[0] - 1
    return Room(np.full(n_columns, -1, np.int32), np.empty(n_rows, np.uint32))


@kernel
def no_room() -> Gathered:
    """Room for no values, which `gather_values` replaces."""
    return Gathered(np.empty(2, np.int64), np.empty(1, np.int32), np.empty(1, np.float32))


@kernel
def gather_values(stored: BothWays, rows: Int32s, columns: Int32s, room: Room, found: Gathered) -> Gathered:
    """``found``, or more room in its place, with X[rows, columns] wherever it is not 0: see `gather_nonzero`."""
    way, bound = cheapest_way(stored, rows, columns)
    if columns.shape[0] + 2 > found.start.shape[0] or bound > found.place.shape[0]:
        found = more_room(found, columns.shape[0], bound)
    gather_nonzero(stored, rows, columns, way, room, found)
    return found


@no_refcount
def cheapest_way(stored: BothWays, rows: Int32s, columns: Int32s) -> tuple[int, int]:
    """How the values of a node's rows in some columns are read with the fewest steps, and a bound on their number.

    By row, all values of the rows are read, twice. By column, all values of the columns are; the rows must ascend, so
    that each has one place, which is noted for all rows. By value, each value of the columns is searched among the
    rows, which must ascend. One by one, each column is searched in each row.
    """
    n_rows, of_columns, n_disordered = np.int64(rows.shape[0]), np.int64(0), 0
    for i in range(1, rows.shape[0]):
        n_disordered += 1 if rows[i] <= rows[i - 1] else 0
    for column in columns:
        begin = stored.columns.start[column]
        of_columns += stored.columns.start[column + 1] - begin
        fetch(stored.columns.number, begin)
    cells = n_rows * columns.shape[0]
    bound = cells if n_disordered else min(cells, of_columns)
    way, least = BY_ROW, np.int64(-1)
    if n_disordered == 0:
        by_column, by_value = n_rows + of_columns, of_columns * halvings_of(rows.shape[0])
        way, least = (BY_VALUE, by_value) if by_value < by_column else (BY_COLUMN, by_column)
        if least <= 2 * (n_rows + columns.shape[0]):  # the other ways read each row at least twice
            return way, bound
    of_rows = np.int64(0)
    for row in rows:
        begin = stored.rows.start[row]
        of_rows += 1 + stored.rows.start[row + 1] - begin
        fetch(stored.rows.number, begin)
    by_row, one_by_one = 2 * (of_rows + columns.shape[0]), cells * halvings_of(of_rows // (n_rows + 1))
    if least < 0 or by_row < least:
        way, least = BY_ROW, by_row
    return (ONE_BY_ONE if one_by_one < least else way), bound


@no_refcount
def halvings_of(length: int) -> int:
    """How often a list of this length is halved until a number in it is found."""
    halvings = 1
    while length > 0:
        halvings, length = halvings + 1, length // 2
    return halvings


@no_refcount
def gather_nonzero(stored: BothWays, rows: Int32s, columns: Int32s, way: int, room: Room, found: Gathered) -> None:
    """Fill ``found`` with X[rows[i], columns[e]] wherever it is not 0, for e = 0, 1, ... and ascending i."""
    if way == BY_ROW:
        _gather_by_row(stored.rows, rows, columns, room.head, found)
    elif way == BY_COLUMN:
        _gather_by_column(stored.columns, rows, columns, room.where, found)
    elif way == BY_VALUE:
        _gather_by_value(stored.columns, rows, columns, found)
    else:
        _gather_one_by_one(stored.rows, rows, columns, found)


@no_refcount
def _gather_by_row(lines: Lines, rows: Int32s, columns: Int32s, head: Int32s, found: Gathered) -> None:
    """Read all values of the rows, to count them and to place them; a column that comes again is copied.

    start[e + 2] counts the values of column e; then start[e + 1] is the place that is filled next.
    """
    n_gathered = columns.shape[0]
    for e in range(n_gathered):
        if head[columns[e]] < 0:
            head[columns[e]] = e
    _count_by_row(lines, rows, columns, head, found.start)
    for i in range(rows.shape[0]):
        for v in range(lines.start[rows[i]], lines.start[rows[i] + 1]):
            e = head[lines.number[v]]
            if e >= 0:
                at = found.start[e + 1]
                found.place[at], found.value[at] = i, lines.value[v]
                found.start[e + 1] = at + 1
    for e in range(n_gathered):
        first = head[columns[e]]
        if first < e:
            for at in range(found.start[first], found.start[first + 1]):
                to = found.start[e + 1]
                found.place[to], found.value[to] = found.place[at], found.value[at]
                found.start[e + 1] = to + 1
    for e in range(n_gathered):
        head[columns[e]] = -1


@no_refcount
def _count_by_row(lines: Lines, rows: Int32s, columns: Int32s, head: Int32s, start: Ints) -> None:
    """start[e + 1] = how many values the columns before e have; a column that comes again has as many as at first."""
    n_gathered = columns.shape[0]
    for e in range(n_gathered + 2):
        start[e] = 0
    for row in rows:
        for v in range(lines.start[row], lines.start[row + 1]):
            e = head[lines.number[v]]
            if e >= 0:
                start[e + 2] += 1
    for e in range(n_gathered):
        start[e + 2] = start[head[columns[e]] + 2]
    for e in range(n_gathered):
        start[e + 2] += start[e + 1]


@no_refcount
def _gather_by_column(lines: Lines, rows: Int32s, columns: Int32s, where: NDArray[np.uint32], found: Gathered) -> None:
    """Read all values of the columns; a row is in the node if the node has it at the place that is noted for it."""
    for i in range(rows.shape[0]):
        where[rows[i]] = i
    filled = np.int64(0)
    for e in range(columns.shape[0]):
        found.start[e] = filled
        for v in range(lines.start[columns[e]], lines.start[columns[e] + 1]):
            i = where[lines.number[v]]
            if i < rows.shape[0] and rows[i] == lines.number[v]:
                found.place[filled], found.value[filled] = i, lines.value[v]
                filled += 1
    found.start[columns.shape[0]] = filled


@no_refcount
def _gather_by_value(lines: Lines, rows: Int32s, columns: Int32s, found: Gathered) -> None:
    """Search the row of each value of the columns among the rows, from the one that was found before."""
    filled = np.int64(0)
    for e in range(columns.shape[0]):
        found.start[e], low = filled, 0
        for v in range(lines.start[columns[e]], lines.start[columns[e] + 1]):
            row, high = lines.number[v], rows.shape[0]
            while low < high:
                middle = (low + high) // 2
                if rows[middle] < row:
                    low = middle + 1
                else:
                    high = middle
            if low == rows.shape[0]:
                break
            if rows[low] == row:
                found.place[filled], found.value[filled] = low, lines.value[v]
                filled += 1
    found.start[columns.shape[0]] = filled


@no_refcount
def _gather_one_by_one(lines: Lines, rows: Int32s, columns: Int32s, found: Gathered) -> None:
    """Search each column in each row."""
    filled = np.int64(0)
    for e in range(columns.shape[0]):
        found.start[e] = filled
        for i in range(rows.shape[0]):
            value = value_at(lines, rows[i], columns[e])
            if value != 0.0:
                found.place[filled], found.value[filled] = i, value
                filled += 1
    found.start[columns.shape[0]] = filled


@kernel
def add_features(stored: BothWays, rows: Int32s, starts: Ints, projections: Projections, values: Floats) -> None:
    """values[k, r] += sum over e of weights[e] * X[rows[r], columns[e]], e in candidate k of the row's node.

    Absent values are left out of a sum: to add 0 changes no bit of it.
    """
    width, offset, columns, weights = projections
    room, found = room_to_gather(stored), no_room()
    for node in range(starts.shape[0] - 1):
        first, begin, end = starts[node], offset[node * width], offset[(node + 1) * width]
        found = gather_values(stored, rows[first : starts[node + 1]], columns[begin:end], room, found)
        for k in range(width):
            for e in range(offset[node * width + k], offset[node * width + k + 1]):
                for at in range(found.start[e - begin], found.start[e - begin + 1]):
                    values[k, first + found.place[at]] += weights[e] * found.value[at]


@kernel
def more_room(found: Gathered, n_columns: int, bound: int) -> Gathered:
    """Room for ``bound`` values of ``n_columns`` columns and some more, and for no fewer than ``found`` has."""
    m = max(found.start.shape[0], n_columns + n_columns // 2 + 2)
    n = max(found.place.shape[0], bound + bound // 2 + 64)
    return Gathered(np.empty(m, np.int64), np.empty(n, np.int32), np.empty(n, np.float32))
