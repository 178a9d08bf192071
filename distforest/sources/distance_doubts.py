"""Doubts about distances: similarities given in their place, or the other way round, and marks for what is unknown."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from distforest.sources.arrays import row_blocks

if TYPE_CHECKING:
    import scipy.sparse
    from numpy.typing import NDArray

    from distforest.sources.source import Float32s, Floats, Ints

ROUNDED = 1e-5
"""Share of the largest distance up to which one below 0 passes as rounding."""

ROUNDED_UNITS = 16
"""So many units of the largest distance pass as rounding, as where squares are summed and subtracted."""

DOUBTED_ROWS = 1000
"""Rows whose distances to all are compared with those to themselves, evenly spaced."""

OWN_DISTANCE = 1e-2
"""Share of a row's largest distance up to which its distance to itself passes as rounding, as under a square root."""


def told_of_distances(matrix: np.ndarray) -> str:
    """What is strange in given similarities that look like distances; else nothing.

    They do if S_ii is at most S_ij for all i and j that are observed, and of most objects less than all of the others.

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
        own, others = block[rows, first + rows], block.astype(np.float64)
        others[rows, first + rows] = np.nan
        least = np.fmin.reduce(others, axis=1)
        if (np.isnan(own) | (own > least)).any():
            return ""
        n_less += int((own < least).sum())
    seem = 2 * n_less > len(matrix)
    return "most objects are less similar to themselves than to any other, as distances are" if seem else ""


class Entry(NamedTuple):
    """An entry of a matrix."""

    row: int
    column: int
    value: float

    def __str__(self) -> str:
        return f"{self.value:g} at row {self.row}, column {self.column}"


class SeenDistances:
    """What is strange in the distances of objects to objects whose blocks of rows pass by; NaN is unobserved.

    Here a distance is squared, so that its sign is lost, and the distance of an object to itself is 0.

    Examples
    --------
    >>> seen = SeenDistances()
    >>> seen.see(np.array([[0, -1], [-1, 0]]), 0)
    >>> seen.told("kind='similarity'")
    '2 distances are below 0, the first -1 at row 0, column 1; a distance is squared, which takes its sign: mark what is
    unknown by NaN'
    >>> seen = SeenDistances()
    >>> seen.see(np.eye(2), 0)
    >>> seen.told("kind='similarity'")
    "2 of 2 rows are not at distance 0 from themselves, the first 1 at row 0, column 0; put 0 there, or give
    kind='similarity' if these are similarities"
    """

    def __init__(self) -> None:
        self._n_below, self._n_own, self._n_rows = 0, 0, 0
        self._least, self._largest, self._unit = 0.0, 0.0, 0.0
        self._first_below: Entry | None = None
        self._first_own: Entry | None = None

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
        rows = rows[first_row + rows < values.shape[1]]  # what is not square is refused elsewhere
        own = values[rows, first_row + rows].astype(np.float64)
        rows = rows[np.abs(own) > 0.0]
        self._check_own(first_row + rows, own[rows], np.fmax.reduce(np.abs(values[rows]), axis=1, initial=0.0))

    def see_sparse(self, matrix: scipy.sparse.csr_array) -> None:
        """Take a whole matrix of SciPy's, in CSR."""
        data, n_rows = matrix.data, matrix.shape[0]
        self._n_rows += n_rows
        below = np.flatnonzero(data < 0)
        self._least, self._largest = _range_of(data)
        self._unit = _unit_at(self._largest, data.dtype)
        if len(below):
            row = int(np.searchsorted(matrix.indptr, below[0], side="right")) - 1
            self._first_below = Entry(row, int(matrix.indices[below[0]]), float(data[below[0]]))
            self._n_below = len(below)
        own = np.asarray(matrix.diagonal(), np.float64)
        rows = np.flatnonzero(np.abs(own) > 0.0)
        reach = [np.fmax.reduce(np.abs(data[matrix.indptr[row] : matrix.indptr[row + 1]]), initial=0) for row in rows]
        self._check_own(rows, own[rows], np.array(reach, np.float64))

    def _check_own(self, rows: Ints, own: Floats, reach: Floats) -> None:
        found = np.flatnonzero(np.abs(own) > OWN_DISTANCE * reach)
        if len(found) and self._first_own is None:
            row = int(rows[found[0]])
            self._first_own = Entry(row, row, float(own[found[0]]))
        self._n_own += len(found)

    def told(self, similarity: str) -> str:
        """What is strange, and what to do, where ``similarity`` says that these are similarities; else nothing.

        A distance below 0 that is small beside the largest is taken for rounding, but for a whole number such as -1.
        """
        found = []
        if self._first_own is not None:
            own = f"{_not_at_0(self._n_own, self._n_rows)}, the first {self._first_own}"
            found.append(f"{own}; put 0 there, or give {similarity} if these are similarities")
        if self._first_below is not None and _is_below(self._least, self._largest, self._unit):
            below = f"{self._n_below:,} {'distance is' if self._n_below == 1 else 'distances are'} below 0"
            cure = "a distance is squared, which takes its sign: mark what is unknown by NaN"
            found.append(f"{below}, the first {self._first_below}; {cure}")
        return ". Also, ".join(found)


def _range_of(values: np.ndarray) -> tuple[float, float]:
    """The least and the largest value and 0; NaN is not looked at."""
    found = [float(f(values, initial=0.0)) for f in (np.min, np.max)]
    if np.isnan(found).any():  # which these are several times as fast without
        found = [float(f.reduce(values, axis=None, initial=0.0)) for f in (np.fmin, np.fmax)]
    return found[0], found[1]


def _not_at_0(n_own: int, n_rows: int) -> str:
    return f"{n_own:,} of {n_rows:,} rows {'is' if n_own == 1 else 'are'} not at distance 0 from themselves"


def _is_below(least: float, largest: float, unit: float = 0.0) -> bool:
    """Whether a distance below 0 is no rounding: not small beside the largest, or a whole number, as a mark is.

    A few ``unit`` of the largest distance are rounding, although they are whole numbers: float32 steps by 1 at 1e7.
    """
    is_mark = least <= -1.0 and least % 1.0 == 0.0 and least < -ROUNDED_UNITS * unit
    return least < -ROUNDED * max(-least, largest) or is_mark


def _unit_at(largest: float, dtype: np.dtype) -> float:
    """The step from one number to the next at the largest distance; 0 for integers."""
    return float(np.spacing(dtype.type(largest))) if dtype.kind == "f" else 0.0


def told_of_truth(matrix: Float32s, offset: float = 0.0) -> str:
    """What is strange in distances that SMERF is to learn, and what to do; else nothing.

    Signs and the diagonal are taken as they are: a cut lowers the mean distance of the rows of a node, those to
    themselves included. So what is strange is what no cut can follow: most pairs nearer to each other than to
    themselves, one mark below 0 in many places, a few rows that alone are not at distance 0 from themselves.

    Parameters
    ----------
    matrix
        Symmetric, shape (n, n), without NaN.
    offset
        What was taken off all distances.

    Examples
    --------
    >>> told_of_truth(np.array([[0, 2, 2], [2, 0, 1], [2, 1, 0]], np.float32))
    ''
    >>> told_of_truth(np.array([[0, 2, -1], [2, 0, 1], [-1, 1, 0]], np.float32))
    'all 2 distances below 0 are -1, the first at row 0, column 2; if it marks what is unknown, fill these in or leave
    their rows out'
    >>> told_of_truth(np.array([[1, 0.5, 0], [0.5, 1, 0], [0, 0, 1]], np.float32))
    'most rows are nearer to each other than to themselves: row 0 is at 1 from itself, at 0.5 from row 1; if these are
    similarities, give distances in their place, 1 - S, say'
    """
    own: Floats = np.diagonal(matrix).astype(np.float64) + offset
    ranges = [(float(block.min()), float(block.max())) for _, block in row_blocks(matrix)]
    least, largest = min(low for low, _ in ranges) + offset, max(high for _, high in ranges) + offset
    if not own.any() and not _is_below(least, largest):
        return ""
    pairs = _Pairs(own, offset, ROUNDED * (largest - least))
    for first, block in row_blocks(matrix):
        pairs.see(block, first)
    return pairs.told_of_similarities() or pairs.told_of_marks() or pairs.told_of_own()


class _Pairs:
    """How near rows are to each other beside how near they are to themselves."""

    def __init__(self, own: Floats, offset: float, rounding: float) -> None:
        self._own, self._offset, self._rounding = own, offset, rounding
        self._step = -(-len(own) // DOUBTED_ROWS)
        self._n_nearer = self._n_farther = self._n_marked = 0
        self._reach = np.zeros(len(own))
        self._first_nearer: Entry | None = None
        self._first_mark: Entry | None = None
        self._has_one_mark = True

    def see(self, block: Float32s, first_row: int) -> None:
        """Take a block of rows, shape (n, n_columns)."""
        rows = np.arange(first_row, first_row + len(block))
        low, high = (f(block, axis=1).astype(np.float64) + self._offset for f in (np.min, np.max))
        self._reach[rows] = np.maximum(high, -low)
        self._compare(block, rows, rows % self._step == 0)
        self._find_marks(block, rows, low < np.minimum(self._own[rows], 0.0))

    def _compare(self, block: Float32s, rows: Ints, chosen: NDArray[np.bool_]) -> None:
        values, rows = block[chosen].astype(np.float64) + self._offset, rows[chosen]
        by = self._own[rows, None] + self._own - 2.0 * values
        nearer = by > self._rounding
        self._n_nearer += int(nearer.sum())
        self._n_farther += int((by < -self._rounding).sum())
        self._first_nearer = self._first_nearer or _first(nearer, values, rows)

    def _find_marks(self, block: Float32s, rows: Ints, chosen: NDArray[np.bool_]) -> None:
        values, rows = block[chosen].astype(np.float64) + self._offset, rows[chosen]
        below = (values < 0.0) & (values < np.minimum(self._own[rows, None], self._own))
        self._first_mark = self._first_mark or _first(below, values, rows)
        if self._first_mark:
            self._n_marked += int(below.sum())
            self._has_one_mark &= bool((values[below] == self._first_mark.value).all())

    def told_of_similarities(self) -> str:
        """Whether nearly all pairs are nearer to each other than to themselves, as similarities taken for distances."""
        if self._first_nearer is None or self._n_nearer <= 3 * self._n_farther:
            return ""
        row, column, value = self._first_nearer
        found = f"row {row} is at {self._own[row]:g} from itself, at {value:g} from row {column}"
        cure = "if these are similarities, give distances in their place, 1 - S, say"
        return f"most rows are nearer to each other than to themselves: {found}; {cure}"

    def told_of_marks(self) -> str:
        """Whether all that is below 0, and nearer than rows are to themselves, is one number."""
        if self._first_mark is None or not self._has_one_mark:
            return ""
        row, column, value = self._first_mark
        if not _is_below(value, float(self._reach.max())):
            return ""
        cure = "if it marks what is unknown, fill these in or leave their rows out"
        found = f"all {self._n_marked:,} distances below 0 are {value:g}, the first at row {row}, column {column}"
        return f"{found}; {cure}"

    def told_of_own(self) -> str:
        """Whether a few rows are not at distance 0 from themselves, while most are."""
        rows = np.flatnonzero(np.abs(self._own) > OWN_DISTANCE * self._reach)
        if not 0 < 2 * len(rows) <= len(self._own):
            return ""
        found = Entry(int(rows[0]), int(rows[0]), float(self._own[rows[0]]))
        return f"{_not_at_0(len(rows), len(self._own))}, the first {found}; put 0 there, unless it is meant"


def _first(chosen: NDArray[np.bool_], values: Floats, rows: Ints) -> Entry | None:
    """The first entry of some rows that is chosen."""
    if not chosen.any():
        return None
    row, column = divmod(int(chosen.argmax()), chosen.shape[1])
    return Entry(int(rows[row]), column, float(values[row, column]))
