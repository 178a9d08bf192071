"""Doubts about distances: they may be similarities, or far from all others, and numbers may mark unknown ones.

Far distances are a few rows, or one number in many places, beside which all other distances look equal. A cut lowers
the mean distance within its sides, and a leaf predicts means. So they decide both: one row of 100 whose distances are
30 times too large takes the rank correlation of held-out distances from 0.92 to 0.44, and a number that stands for
"unknown" in 2% of the pairs does the same.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from distforest.amounts import are, counted
from distforest.sources.arrays import diagonal_of, row_blocks
from distforest.sources.source import spaced
from distforest.sources.sparse import told_of_one_direction
from distforest.sources.zero_distances import told_of_zeros

if TYPE_CHECKING:
    from collections.abc import Callable

    import scipy.sparse
    from numpy.typing import NDArray

    from distforest.sources.readings import Reading
    from distforest.sources.source import Float32s, Floats, Ints
    from distforest.sources.sparse import SparseSource

ROUNDED = 1e-5
"""Share of the largest distance: a distance below 0 by no more than this is rounding."""

ROUNDED_UNITS = 16
"""A distance below 0 by no more than this many steps of floating point at the largest distance is rounding, as of sums
and differences of squares."""

DOUBTED_ROWS = 1000
"""At most this many evenly spaced rows have their distances compared with the distances of rows to themselves."""

ROUNDED_DIAGONAL = 1e-2
"""Share of a row's largest distance: a distance to itself up to this is rounding, as under a square root."""

FAR = 16.0
"""Something is far if its deviation is so many times that of whatever comes next, and so many times the scale.

Of 323 matrices, made of 20 real data sets by up to nine distances, two have such rows, both with a reason: a node that
no path reaches, and the exponential of distances that differ by hundreds."""

FEW_FAR, FEW_ENTRIES = 0.02, 0.05
"""Largest share of rows, and of entries with different values, that are few; one row always is."""

MANY_ENTRIES, MOST_MARKED, FEWEST_OTHERS = 1e-3, 0.5, 32
"""Least share of entries that matters; largest share of entries that are one number, if so many others differ."""

FEWEST_IN_TRIANGLE = 8
"""Fewer values on one side of the diagonal, of more pairs, may all lie there by chance."""

AS_DISTANCES = "most objects are less similar to themselves than to any other, as distances are"
"""What is said of such similarities."""

FEWEST_JUDGED, MOST_COMPARED = 8, 512
"""Fewer rows are not judged; a row is judged by at most so many evenly spaced columns, and single entries by as many
rows and columns."""


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
    return AS_DISTANCES if 2 * n_less > len(matrix) else ""


def told_of_own_values(own: Floats, least: Floats) -> str:
    """Say the same of similarities of which some are known; else "".

    Parameters
    ----------
    own
        The similarity of each object to itself, shape (n,).
    least
        The least known similarity of each to another one, shape (n,).

    Examples
    --------
    >>> told_of_own_values(np.zeros(8), np.arange(1.0, 9.0))
    'most objects are less similar to themselves than to any other, as distances are'
    >>> told_of_own_values(np.zeros(8), np.arange(-1.0, 7.0)) + told_of_own_values(np.zeros(7), np.ones(7))
    ''
    """
    if len(own) < FEWEST_JUDGED or (own > least).any():
        return ""
    return AS_DISTANCES if 2 * int((own < least).sum()) > len(own) else ""


def told_of_one_side(matrix: np.ndarray | SparseSource) -> str:
    """Say that a matrix of pairs of objects has each pair in one direction only; else ""."""
    if isinstance(matrix, np.ndarray):
        return told_of_triangle(matrix) if matrix.shape[0] == matrix.shape[1] else ""
    return told_of_one_direction(matrix) or ""


def told_of_triangle(matrix: np.ndarray) -> str:
    """Say that a matrix of pairs of objects has values on one side of its diagonal alone, and 0 or NaN beyond; else "".

    Examples
    --------
    >>> told_of_triangle(np.array([[9.0, 0.5, 0.2], [0.0, 9.0, 0.7], [0.0, 0.0, 9.0]]))
    'all values below the diagonal are 0, while others above it are not; mirror a symmetric matrix: S + S.T (its
    diagonal is added to itself)'
    >>> told_of_triangle(np.array([[np.nan, np.nan], [0.5, np.nan]]))[:45]
    'all values above the diagonal are unobserved,'
    >>> told_of_triangle(np.eye(3)) + told_of_triangle(np.array([[0, 1, 0], [0, 0, 0], [0, 2, 0]]))
    ''
    """
    n_observed, n_others = np.zeros(2, np.int64), np.zeros(2, np.int64)  # below the diagonal, and above it
    for first, block in row_blocks(matrix):
        for row, values in enumerate(block, first):
            for side, part in enumerate((values[:row], values[row + 1 :])):
                observed = part[~np.isnan(part)] if part.dtype.kind == "f" else part
                n_observed[side] += len(observed)
                n_others[side] += np.count_nonzero(observed)
            if n_others.all():
                return ""
    if n_others.max() < min(FEWEST_IN_TRIANGLE, len(matrix) * (len(matrix) - 1) // 2) or len(matrix) < 2:
        return ""
    empty, full = ("below", "above") if n_others[1] else ("above", "below")
    what = "0" if n_observed[int(n_others[0] > 0)] else "unobserved"
    found = f"all values {empty} the diagonal are {what}, while others {full} it are not"
    mirrored = "S + S.T (its diagonal is added to itself)" if what == "0" else "numpy.fmax(S, S.T)"
    return f"{found}; mirror a symmetric matrix: {mirrored}"


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
        self._n_below, self._n_off, self._n_unknown, self._n_rows = 0, 0, 0, 0
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
        lacking = values[rows[np.isnan(diagonal)]]
        self._n_unknown += int((~np.isnan(lacking)).any(axis=1).sum())  # a row without any distance is told elsewhere
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
        if self._n_unknown:
            have = "has" if self._n_unknown == 1 else "have"
            unknown = f"{self._n_unknown:,} of {counted(self._n_rows, 'row')} {have} NaN as the distance to itself"
            doubts.append(f"{unknown}, and so no side at a split between it and another row; put 0 there")
        if self._first_off is not None:
            off = f"{_not_at_0(self._n_off, self._n_rows)}, the first {self._first_off}"
            doubts.append(f"{off}; put 0 there, or give {similarity} if these are similarities")
        if self._first_below is not None and _is_below(self._least, self._largest, self._unit):
            below = f"{self._n_below:,} {'distance is' if self._n_below == 1 else 'distances are'} below 0"
            cure = "a distance is squared, so that its sign is lost: mark unknown distances by NaN"
            doubts.append(f"{below}, the first {self._first_below}; {cure}")
        return ". Also, ".join(doubts)


class ReturnedDistances:
    """A doubt about the distances of pairs that a function has returned: some are below 0; NaN is none.

    Examples
    --------
    >>> returned = ReturnedDistances()
    >>> returned.see(np.array([3.0, -9999.0, np.nan]), np.array([7, 8, 9]))
    >>> returned.told("letters_apart", lambda code: f"pair {code}")
    'letters_apart returned 1 distance below 0, the least -9999 for pair 8; a distance is squared, so that its sign is
    lost: return None where there is none'
    """

    def __init__(self) -> None:
        self._n_below, self._least, self._largest, self._code = 0, 0.0, 0.0, -1

    def see(self, values: Floats, codes: Ints) -> None:
        """Take values and the codes of their pairs, shape (m,) both."""
        self._largest = max(self._largest, _range_of(values)[1])
        below = np.flatnonzero(values < 0.0)
        if not len(below):
            return
        self._n_below += len(below)
        place = below[np.lexsort((codes[below], values[below]))[0]]
        value, code = float(values[place]), int(codes[place])
        if (value, code) < (self._least, self._code):
            self._least, self._code = value, code

    def told(self, function: str, name_of: Callable[[int], str]) -> str:
        """The doubt and its remedy; else "". As `SeenDistances.told`, rounding below 0 is none."""
        if not _is_below(self._least, self._largest):
            return ""
        n = f"{self._n_below:,} {'distance' if self._n_below == 1 else 'distances'} below 0"
        cure = "a distance is squared, so that its sign is lost: return None where there is none"
        return f"{function} returned {n}, the least {self._least:g} for {name_of(self._code)}; {cure}"


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
    if reading.convert == "edges":  # whose distances are 0 to 1
        return [unobserved] if unobserved else []
    given = told_of_truth(matrix, reading.offset) or told_of_far_distances(matrix, reading.offset)
    given = given or ("" if reading.offset else told_of_zeros(matrix) or told_of_equal_distances(matrix))
    return [told for told in (given, unobserved) if told]


def told_of_equal_distances(matrix: Float32s) -> str:
    """A doubt about distances between different rows that are all the same number, but not 0; else "".

    If rows are as far from themselves, or few distances were observed, no tree has a split, which another doubt tells.

    Examples
    --------
    >>> told_of_equal_distances(1 - np.eye(3, dtype=np.float32))
    'all distances between different rows are 1, so that there is nothing to learn from them; check how they were read'
    >>> told_of_equal_distances(np.array([[0, 1, 1], [1, 0, 2], [1, 2, 0]], np.float32))
    ''
    """
    if len(matrix) < 3 or not matrix[0, 1] > 0.0 or matrix[0, 0] == matrix[0, 1]:
        return ""
    distance, n_observed = float(matrix[0, 1]), 0
    for first, block in row_blocks(matrix):
        differs = (block != distance) & ~np.isnan(block)
        differs[np.arange(len(block)), np.arange(first, first + len(block))] = False
        if differs.any():
            return ""
        n_observed += int(np.count_nonzero(~np.isnan(block))) - len(block)
    if 2 * n_observed < len(matrix) * (len(matrix) - 1):
        return ""
    found = f"all distances between different rows are {distance:g}, so that there is nothing to learn from them"
    return f"{found}; check how they were read"


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
    diagonal: Floats = diagonal_of(matrix).astype(np.float64) + offset
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


class _Usual(NamedTuple):
    """The usual distance, and the scale: the median of all deviations from it that are not 0."""

    distance: float
    scale: float


def told_of_far_distances(matrix: Float32s, offset: float = 0.0) -> str:
    """A doubt about a few rows far from all others, or about single distances that are; else "".

    The distance of a row is the median of its distances to others. Rows are far if that deviates from the usual one
    `FAR` times as much as that of any other row, and as the scale; entries likewise.

    Parameters
    ----------
    matrix
        Symmetric, shape (n, n); NaN is unobserved.
    offset
        The number that was subtracted from all distances.

    Examples
    --------
    >>> x = np.arange(20.0)
    >>> Z = abs(x[:, None] - x).astype(np.float32)
    >>> told_of_far_distances(Z)
    ''
    >>> Z[3], Z[:, 3] = 1e6 * Z[3], 1e6 * Z[:, 3]
    >>> told_of_far_distances(Z)
    'row 3 is at about 7e+06 from the others, which are at about 6 from each other, so that it alone decides splits
    and means; correct or leave out what is wrong, put NaN where a distance is unknown, or, if it is meant, give
    logarithms or ranks'
    """
    if len(matrix) < FEWEST_JUDGED:
        return ""
    columns = spaced(len(matrix), MOST_COMPARED)
    sample = _of_others(matrix[np.ix_(columns, columns)], columns, columns)
    middles = np.concatenate([_medians(block, first, columns) for first, block in row_blocks(matrix)])
    if np.isnan(sample).all() or np.isnan(middles).all():
        return ""
    usual = float(np.nanmedian(middles))
    deviations = np.abs(sample - usual)
    deviations = deviations[deviations > 0.0]  # of NaN, neither
    if not len(deviations):
        return ""
    found = _Usual(usual, float(np.median(deviations)))
    return _told_of_rows(middles, found, offset) or _told_of_entries(sample, found, offset)


def _of_others(values: np.ndarray, rows: Ints, columns: Ints) -> Floats:
    """Distances in float64, with NaN for those of rows to themselves."""
    wide: Floats = values.astype(np.float64)
    wide[rows[:, None] == columns] = np.nan
    return wide


def _medians(block: Float32s, first_row: int, columns: Ints) -> Floats:
    """The median distance of each row of a block to the rows ``columns``, shape (n,); NaN where none was observed."""
    values = _of_others(block[:, columns], np.arange(first_row, first_row + len(block)), columns)
    medians: Floats = np.full(len(values), np.nan)
    observed = ~np.isnan(values).all(axis=1)
    medians[observed] = np.nanmedian(values[observed], axis=1)
    return medians


def _beyond_gap(deviations: Floats, most: int, scale: float) -> int:
    """How many of the largest deviations, in ascending order, lie beyond a gap, at most ``most``; else 0."""
    first = max(1, len(deviations) - most)
    before, after = deviations[first - 1 : -1], deviations[first:]
    gaps = np.flatnonzero(after >= FAR * np.maximum(before, scale))
    return len(after) - int(gaps[0]) if len(gaps) else 0


def _told_of_rows(middles: Floats, usual: _Usual, offset: float) -> str:
    """The doubt about rows that are far from all others; else ""."""
    deviations = np.abs(middles - usual.distance)
    order = np.argsort(deviations, kind="stable")
    order = order[: len(order) - int(np.isnan(deviations).sum())]
    n_far = _beyond_gap(deviations[order], max(1, int(FEW_FAR * len(order))), usual.scale)
    if not n_far:
        return ""
    far = np.sort(order[len(order) - n_far :])
    rows = ", ".join(str(row) for row in far[:5].tolist()) + (" ..." if n_far > 5 else "")
    farthest = float(middles[order[-1]]) + offset
    they = f"row {rows} is at about" if n_far == 1 else f"{n_far:,} rows ({rows}) are at up to about"
    others = f"the others, which are at about {usual.distance + offset:.3g} from each other"
    follows = f"{'it alone decides' if n_far == 1 else 'they alone decide'} splits and means"
    return f"{they} {farthest:.3g} from {others}, so that {follows}; {_cure('it is' if n_far == 1 else 'they are')}"


def _told_of_entries(sample: Floats, usual: _Usual, offset: float) -> str:
    """The doubt about distances that are far from all others, though no row is; else ""."""
    values = sample[~np.isnan(sample)]
    deviations = np.abs(values - usual.distance)
    order = np.argsort(deviations, kind="stable")
    n_far = _beyond_gap(deviations[order], int(MOST_MARKED * len(order)), usual.scale)
    if n_far < max(3, MANY_ENTRIES * len(order)):
        return ""
    far, others = values[order[len(order) - n_far :]], values[order[: len(order) - n_far]]
    is_mark = len(np.unique(far)) == 1 and len(np.unique(others)) >= FEWEST_OTHERS
    if not is_mark and n_far > FEW_ENTRIES * len(order):
        return ""
    share = f"{100.0 * n_far / len(order):.2g}% of all distances"
    are = f"{share} are {far[-1] + offset:g}" if is_mark else f"{share} are far from all others, such as"
    found = are if is_mark else f"{are} {far[-1] + offset:g}"
    why = f"the others are {others.min() + offset:.3g} to {others.max() + offset:.3g}"
    return f"{found}, while {why}, so that they alone decide splits and means; {_cure('they are')}"


def _cure(they_are: str) -> str:
    unknown = "correct or leave out what is wrong, put NaN where a distance is unknown"
    return f"{unknown}, or, if {they_are} meant, give logarithms or ranks"
