"""Doubts about distances: they may be similarities, or similarities distances, and numbers may mark unknown ones."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from distforest.amounts import are
from distforest.sources.arrays import row_blocks

if TYPE_CHECKING:
    import scipy.sparse
    from numpy.typing import NDArray

    from distforest.sources.readings import Reading
    from distforest.sources.source import Float32s, Floats, Ints

ROUNDED = 1e-5
"""Share of the largest distance: a distance below 0 by no more than this is rounding."""

ROUNDED_UNITS = 16
"""A distance below 0 by no more than this many steps of floating point at the largest distance is rounding, as of sums
and differences of squares."""

DOUBTED_ROWS = 1000
"""At most this many evenly spaced rows have their distances compared with the distances of rows to themselves."""

ROUNDED_DIAGONAL = 1e-2
"""Share of a row's largest distance: a distance to itself up to this is rounding, as under a square root."""


def told_of_distances(matrix: np.ndarray) -> str:
    """Say that given similarities look like distances; else "".

    They do if S_ii <= S_ij for all observed entries, and S_ii < S_ij for all other j of most objects i.

    Examples
    --------
    >>> told_of_distances(np.array([[0, 1, 2], [1, 0, 2], [2, 2, 0]]))
    'most objects are less similar to themselves than to any other, as distances are'
    >>> told_of_distances(np.eye(3)[::-1])
    ''
    """
    n_less = 0
    for first, block in row_blocks(matrix):
        rows = np.arange(len(block))
        diagonal, others = block[rows, first + rows], block.astype(np.float64)
        others[rows, first + rows] = np.nan
        least = np.fmin.reduce(others, axis=1)
        if (np.isnan(diagonal) | (diagonal > least)).any():
            return ""
        n_less += int((diagonal < least).sum())
    is_most = 2 * n_less > len(matrix)
    return "most objects are less similar to themselves than to any other, as distances are" if is_most else ""


class Entry(NamedTuple):
    """An entry of a matrix."""

    row: int
    column: int
    value: float

    def __str__(self) -> str:
        return f"{self.value:g} at row {self.row}, column {self.column}"


class SeenDistances:
    """Doubts about a matrix of distances between objects, from its blocks of rows; NaN is unobserved.

    These distances are squared, so that signs are lost, and the distance of an object to itself is expected to be 0.

    Examples
    --------
    >>> seen = SeenDistances()
    >>> seen.see(np.array([[0, -1], [-1, 0]]), 0)
    >>> seen.told("kind='similarity'")
    '2 distances are below 0, the first -1 at row 0, column 1; a distance is squared, so that its sign is lost: mark
    unknown distances by NaN'
    >>> seen = SeenDistances()
    >>> seen.see(np.eye(2), 0)
    >>> seen.told("kind='similarity'")
    "2 of 2 rows are not at distance 0 from themselves, the first 1 at row 0, column 0; put 0 there, or give
    kind='similarity' if these are similarities"
    """

    def __init__(self) -> None:
        self._n_below, self._n_off, self._n_rows = 0, 0, 0
        self._least, self._largest, self._unit = 0.0, 0.0, 0.0
        self._first_below: Entry | None = None
        self._first_off: Entry | None = None

    def see(self, values: np.ndarray, first_row: int) -> None:
        """Take a block of rows, shape (n, n_columns)."""
        values = values.view(np.uint8) if values.dtype.kind == "b" else values
        self._n_rows += len(values)
        least, largest = _range_of(values)
        self._least, self._largest = min(self._least, least), max(self._largest, largest)
        self._unit = _unit_at(self._largest, values.dtype)
        if least < 0.0:
            below = values < 0
            row, column = divmod(int(below.argmax()), below.shape[1])
            self._first_below = self._first_below or Entry(first_row + row, column, float(values[row, column]))
            self._n_below += int(below.sum())
        rows = np.arange(len(values))
        rows = rows[first_row + rows < values.shape[1]]  # a matrix that is not square is refused elsewhere
        diagonal = values[rows, first_row + rows].astype(np.float64)
        rows = rows[np.abs(diagonal) > 0.0]
        largest_of_row = np.fmax.reduce(np.abs(values[rows]), axis=1, initial=0.0)
        self._see_diagonal(first_row + rows, diagonal[rows], largest_of_row)

    def see_sparse(self, matrix: scipy.sparse.csr_array) -> None:
        """Take a whole sparse matrix of SciPy, in CSR format."""
        data, n_rows = matrix.data, matrix.shape[0]
        self._n_rows += n_rows
        below = np.flatnonzero(data < 0)
        self._least, self._largest = _range_of(data)
        self._unit = _unit_at(self._largest, data.dtype)
        if len(below):
            row = int(np.searchsorted(matrix.indptr, below[0], side="right")) - 1
            self._first_below = Entry(row, int(matrix.indices[below[0]]), float(data[below[0]]))
            self._n_below = len(below)
        diagonal = np.asarray(matrix.diagonal(), np.float64)
        rows = np.flatnonzero(np.abs(diagonal) > 0.0)
        largest_of_row = [
            np.fmax.reduce(np.abs(data[matrix.indptr[row] : matrix.indptr[row + 1]]), initial=0) for row in rows
        ]
        self._see_diagonal(rows, diagonal[rows], np.array(largest_of_row, np.float64))

    def _see_diagonal(self, rows: Ints, diagonal: Floats, largest_of_row: Floats) -> None:
        """Count the rows that are not at distance 0 from themselves, except for rounding."""
        off = np.flatnonzero(np.abs(diagonal) > ROUNDED_DIAGONAL * largest_of_row)
        if len(off) and self._first_off is None:
            row = int(rows[off[0]])
            self._first_off = Entry(row, row, float(diagonal[off[0]]))
        self._n_off += len(off)

    def told(self, similarity: str) -> str:
        """The doubts and their remedies; else "". ``similarity`` is the option that declares similarities.

        A distance below 0 that is small compared with the largest is taken for rounding, except a whole number such as
        -1.
        """
        doubts = []
        if self._first_off is not None:
            off = f"{_not_at_0(self._n_off, self._n_rows)}, the first {self._first_off}"
            doubts.append(f"{off}; put 0 there, or give {similarity} if these are similarities")
        if self._first_below is not None and _is_below(self._least, self._largest, self._unit):
            below = f"{self._n_below:,} {'distance is' if self._n_below == 1 else 'distances are'} below 0"
            cure = "a distance is squared, so that its sign is lost: mark unknown distances by NaN"
            doubts.append(f"{below}, the first {self._first_below}; {cure}")
        return ". Also, ".join(doubts)


def _range_of(values: np.ndarray) -> tuple[float, float]:
    """The least and the largest of the values and 0, without NaN."""
    least, largest = (float(f(values, initial=0.0)) for f in (np.min, np.max))
    if math.isnan(least + largest):  # without NaN, min and max are several times as fast as fmin and fmax
        least, largest = (float(f.reduce(values, axis=None, initial=0.0)) for f in (np.fmin, np.fmax))
    return least, largest


def _extremes(block: Float32s, axis: int | None) -> list[np.ndarray]:
    """The least and the largest values along an axis, of which NaN is none; each line has others."""
    found = [np.asarray(f(block, axis=axis)) for f in (np.min, np.max)]
    lacks = np.isnan(found[0]).any()  # without NaN, min and max are several times as fast as fmin and fmax
    return [np.asarray(f.reduce(block, axis=axis)) for f in (np.fmin, np.fmax)] if lacks else found


def _not_at_0(n_off: int, n_rows: int) -> str:
    return f"{n_off:,} of {n_rows:,} rows {are(n_off)} not at distance 0 from themselves"


def _is_below(least: float, largest: float, unit: float = 0.0) -> bool:
    """Whether a distance below 0 is not rounding: it is not small compared with the largest, or it is a whole number.

    A whole number is a mark, unless it is only a few ``unit``, the step of floating point at the largest distance:
    float32 steps by 1 at 1e7.
    """
    is_mark = least <= -1.0 and least % 1.0 == 0.0 and least < -ROUNDED_UNITS * unit
    return least < -ROUNDED * max(-least, largest) or is_mark


def _unit_at(largest: float, dtype: np.dtype) -> float:
    """The step from one number to the next at the largest distance; 0 for integers."""
    return float(np.spacing(dtype.type(largest))) if dtype.kind == "f" else 0.0


def told_of_given(matrix: Float32s, reading: Reading, n_unobserved: int) -> list[str]:
    """The doubts about distances that SMERF is to learn, as they were read, of which so many pairs are unobserved."""
    unobserved = told_of_unobserved(matrix) if n_unobserved else ""
    given = "" if reading.convert == "edges" else told_of_truth(matrix, reading.offset)
    return [told for told in (given, unobserved) if told]


def told_of_unobserved(matrix: Float32s) -> str:
    """A doubt about rows of which no distance to another row was observed; else "".

    Examples
    --------
    >>> told_of_unobserved(np.array([[0, 1, np.nan], [1, 0, np.nan], [np.nan, np.nan, 0]], np.float32))
    'no distance of row 2 to any other row was observed, so it teaches nothing; observe some, or leave it out'
    """
    n_observed = np.concatenate([np.count_nonzero(~np.isnan(block), axis=1) for _, block in row_blocks(matrix)])
    alone = np.flatnonzero(n_observed == 1)  # its distance to itself
    if not len(alone):
        return ""
    if len(alone) == 1:
        found, follows = f"no distance of row {alone[0]} to any other row was observed", "it teaches nothing"
        return f"{found}, so {follows}; observe some, or leave it out"
    found = f"no distance of {len(alone):,} rows to any other row was observed, the first row {alone[0]}"
    return f"{found}, so they teach nothing; observe some, or leave them out"


def told_of_truth(matrix: Float32s, offset: float = 0.0) -> str:
    """A doubt about distances that SMERF is to learn, and its remedy; else "".

    SMERF uses signs and the diagonal as they are: a cut lowers the mean distance of the rows of a node, including
    distances of rows to themselves. So doubts concern distances that no cut can follow: most pairs are nearer to each
    other than to themselves, one mark below 0 is in many places, or only a few rows are not at distance 0 from
    themselves.

    Parameters
    ----------
    matrix
        Symmetric, shape (n, n); NaN is unobserved, and never on the diagonal.
    offset
        The number that was subtracted from all distances.

    Examples
    --------
    >>> told_of_truth(np.array([[0, 2, 2], [2, 0, 1], [2, 1, 0]], np.float32))
    ''
    >>> told_of_truth(np.array([[0, 2, -1], [2, 0, 1], [-1, 1, 0]], np.float32))
    'all 2 distances below 0 are -1, the first at row 0, column 2; if it marks what is unknown, put NaN in
    their place'
    >>> told_of_truth(np.array([[1, 0.5, 0], [0.5, 1, 0], [0, 0, 1]], np.float32))
    'most rows are nearer to each other than to themselves: row 0 is at 1 from itself, at 0.5 from row 1; if these are
    similarities, give distances in their place, 1 - S, say'
    """
    diagonal: Floats = np.diagonal(matrix).astype(np.float64) + offset
    ranges = [[float(end) for end in _extremes(block, None)] for _, block in row_blocks(matrix)]
    least, largest = min(low for low, _ in ranges) + offset, max(high for _, high in ranges) + offset
    if not diagonal.any() and not _is_below(least, largest):
        return ""
    pairs = _Pairs(diagonal, offset, ROUNDED * (largest - least))
    for first, block in row_blocks(matrix):
        pairs.see(block, first)
    return pairs.told_of_similarities() or pairs.told_of_marks() or pairs.told_of_diagonal()


class _Pairs:
    """Comparison of the distances between rows with the distances of rows to themselves."""

    def __init__(self, diagonal: Floats, offset: float, rounding: float) -> None:
        self._diagonal, self._offset, self._rounding = diagonal, offset, rounding
        self._step = -(-len(diagonal) // DOUBTED_ROWS)
        self._n_nearer = self._n_farther = self._n_marked = 0
        self._reach = np.zeros(len(diagonal))
        self._first_nearer: Entry | None = None
        self._first_mark: Entry | None = None
        self._has_one_mark = True

    def see(self, block: Float32s, first_row: int) -> None:
        """Take a block of rows, shape (n, n_columns)."""
        rows = np.arange(first_row, first_row + len(block))
        low, high = (extreme.astype(np.float64) + self._offset for extreme in _extremes(block, 1))
        self._reach[rows] = np.maximum(high, -low)
        self._compare(block, rows, rows % self._step == 0)
        self._find_marks(block, rows, low < np.minimum(self._diagonal[rows], 0.0))

    def _compare(self, block: Float32s, rows: Ints, chosen: NDArray[np.bool_]) -> None:
        values, rows = block[chosen].astype(np.float64) + self._offset, rows[chosen]
        gap = self._diagonal[rows, None] + self._diagonal - 2.0 * values
        nearer = gap > self._rounding
        self._n_nearer += int(nearer.sum())
        self._n_farther += int((gap < -self._rounding).sum())
        self._first_nearer = self._first_nearer or _first(nearer, values, rows)

    def _find_marks(self, block: Float32s, rows: Ints, chosen: NDArray[np.bool_]) -> None:
        values, rows = block[chosen].astype(np.float64) + self._offset, rows[chosen]
        below = (values < 0.0) & (values < np.minimum(self._diagonal[rows, None], self._diagonal))
        self._first_mark = self._first_mark or _first(below, values, rows)
        if self._first_mark:
            self._n_marked += int(below.sum())
            self._has_one_mark &= bool((values[below] == self._first_mark.value).all())

    def told_of_similarities(self) -> str:
        """The doubt that these are similarities, if most rows are nearer to each other than to themselves; else ""."""
        if self._first_nearer is None or self._n_nearer <= 3 * self._n_farther:
            return ""
        row, column, value = self._first_nearer
        found = f"row {row} is at {self._diagonal[row]:g} from itself, at {value:g} from row {column}"
        cure = "if these are similarities, give distances in their place, 1 - S, say"
        return f"most rows are nearer to each other than to themselves: {found}; {cure}"

    def told_of_marks(self) -> str:
        """The doubt that one number is a mark, if it is the only distance below 0 and below the diagonal; else ""."""
        if self._first_mark is None or not self._has_one_mark:
            return ""
        row, column, value = self._first_mark
        if not _is_below(value, float(self._reach.max())):
            return ""
        cure = "if it marks what is unknown, put NaN in their place"
        found = f"all {self._n_marked:,} distances below 0 are {value:g}, the first at row {row}, column {column}"
        return f"{found}; {cure}"

    def told_of_diagonal(self) -> str:
        """The doubt about rows that are not at distance 0 from themselves, if most rows are; else ""."""
        rows = np.flatnonzero(np.abs(self._diagonal) > ROUNDED_DIAGONAL * self._reach)
        if not 0 < 2 * len(rows) <= len(self._diagonal):
            return ""
        first = Entry(int(rows[0]), int(rows[0]), float(self._diagonal[rows[0]]))
        return f"{_not_at_0(len(rows), len(self._diagonal))}, the first {first}; put 0 there, unless it is meant"


def _first(chosen: NDArray[np.bool_], values: Floats, rows: Ints) -> Entry | None:
    """The first chosen entry of some rows."""
    if not chosen.any():
        return None
    row, column = divmod(int(chosen.argmax()), chosen.shape[1])
    return Entry(int(rows[row]), column, float(values[row, column]))
