"""Readings: how each kind of matrix is read, in which precision, and which values are refused."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from distforest.amounts import counted
from distforest.errors import InputError, warn_caller
from distforest.sources.arrays import held_in, release_pages, row_blocks
from distforest.sources.given import is_stored, unmasked
from distforest.sources.source import NUMBERS
from distforest.threads import ahead

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import DTypeLike, NDArray

    from distforest.sources.arrays import Matrix
    from distforest.sources.given import Shaped
    from distforest.sources.source import Float32s, Floats

_TILE = 1024
LARGEST_SIMILARITY, LARGEST_DISTANCE = 1e300, 1e150
"""The largest similarity and distance that are read: beyond them a difference, or a square, may overflow float64."""
ASYMMETRY = 1e-5
"""Share of the largest distance: a smaller difference between z_ij and z_ji is rounding, and there is no warning."""

ALIKE_SHARE = 2.0**-7
"""Share of the largest distance: if the range of all distances is smaller, float32 would lose their differences, and a
common offset is subtracted."""

SMALLEST = 1e-30
"""The least value of the largest distance, so that float32 can also hold much smaller distances."""

MEAN, EITHER, BOTH = "mean", "either", "both"
DIRECTIONS = (MEAN, EITHER, BOTH)
"""How two directions of a link count: by the mean of their weights; as the stronger one, so that a link in either
direction is one; or as the weaker one, so that only links in both directions are."""


@dataclass(frozen=True)
class Reading:
    """One kind of matrix.

    Attributes
    ----------
    name
        Name of the values in messages.
    missing
        What NaN stands for, if it is allowed: ``"unobserved"`` or ``"missing"``.
    precise
        Whether it holds similarities: float64 is kept, since cuts read differences of columns, which may be small
        compared with the values.
    symmetric
        Whether the matrix is square and is made symmetric as (Z + Z') / 2, which has the same SMERF objective. Where
        only one of z_ij and z_ji is observed, both are that one; NaN on the diagonal is 0, see `laid_out`.
    convert
        ``None``, ``"edges"`` (absent - a: linked items are near) or ``"squares"`` (-d^2 / 2, in float64: differences
        of its columns order rows like those of inner products).
    keep
        Whether an array of any shape and dtype is kept as it is.
    offset
        The number that is subtracted from every entry, in float64, before rounding to float32.
    absent
        The distance of two nodes of a graph without a link.
    diagonal
        The distance of a node of a graph to itself; None: ``absent`` less its link to itself, a_ii.
    directed
        How a_ij and a_ji of a graph count where they differ: see `DIRECTIONS`. None: their mean, with a warning.
    """

    name: str
    missing: str = ""
    precise: bool = False
    symmetric: bool = False
    convert: str | None = None
    keep: bool = False
    offset: float = 0.0
    absent: float = 1.0
    diagonal: float | None = None
    directed: str | None = None

    def dtype(self, given: DTypeLike) -> np.dtype[np.generic]:
        """The dtype in which values of a dtype are held.

        Examples
        --------
        >>> [str(reading.dtype(np.int64)) for reading in (FEATURES, SIMILARITIES, AS_IT_IS)]
        ['float32', 'float64', 'int64']
        >>> [str(reading.dtype(np.float32)) for reading in (FEATURES, SIMILARITIES, DISSIMILARITIES)]
        ['float32', 'float32', 'float64']
        """
        if self.keep:
            return np.dtype(given)
        if self.convert == "squares":
            return np.dtype(np.float64)
        return held_in(given) if self.precise else np.dtype(np.float32)

    def takes(self, given: DTypeLike) -> bool:
        """Whether values of a dtype are checked but not converted."""
        return self.precise and self.convert is None and self.dtype(given) == given

    def leaves(self, given: DTypeLike) -> bool:
        """Whether values of a dtype stay what they are, apart from checks."""
        return self.convert is None and not (self.symmetric or self.offset) and self.dtype(given) == given

    @property
    def largest(self) -> float:
        """The largest similarity or distance that is allowed, in absolute value."""
        return LARGEST_DISTANCE if self.convert == "squares" else LARGEST_SIMILARITY

    def block(self, values: np.ndarray, first_row: int) -> np.ndarray:
        """Check a block of rows and convert it to its `dtype`; returns the same array if nothing changes.

        Raises InputError.
        """
        if self.keep:
            return values
        if values.dtype.kind not in NUMBERS:
            raise InputError(f"{self.name} must be numbers, found dtype {values.dtype}")
        with np.errstate(over="ignore", invalid="ignore"):
            block = values.astype(self.dtype(values.dtype), copy=False)
        if self._has_bad(block):
            bad = np.abs(block) > np.float64(self.largest) if self.precise else np.isinf(block)
            self._refuse(values, bad if self.missing else bad | np.isnan(block), first_row)
        if self.convert == "edges":
            self._check_links(block, first_row)
            block = np.float32(self.absent) - block
        elif self.convert == "squares":
            block = block * block
            block *= -0.5
        return (self.wide(values) - self.offset).astype(np.float32) if self.offset else block

    def _has_bad(self, block: np.ndarray) -> bool:
        """Whether there is a value to refuse; for similarities, without a temporary array of the block's size."""
        if not self.precise:
            return not (np.isfinite(block).all() or (self.missing and not np.isinf(block).any()))
        values = block.reshape(-1)
        greatest, least = (float(ufunc.reduce(values, initial=0.0)) for ufunc in (np.fmax, np.fmin))
        return max(greatest, -least) > self.largest

    def wide(self, values: np.ndarray) -> Floats:
        """Distances in float64: the entries, or absent - a for links."""
        entries: Floats = values.astype(np.float64)
        return self.absent - entries if self.convert == "edges" else entries

    def joined(self, one: Float32s, other: Float32s) -> Float32s:
        """The distance of two rows from z_ij and z_ji: their mean, or what ``directed`` says."""
        if self.directed == EITHER:
            return np.minimum(one, other)
        return np.maximum(one, other) if self.directed == BOTH else one / np.float32(2.0) + other / np.float32(2.0)

    def _check_links(self, block: Float32s, first_row: int) -> None:
        beyond = (block < 0.0) | (block > np.float32(self.absent))
        if beyond.any():
            row, column = np.argwhere(beyond)[0].tolist()
            raise InputError(self.beyond(block[row, column], first_row + row, column))

    def beyond(self, link: float, row: int, column: int) -> str:
        """The error of a link that is not between 0 and ``absent``."""
        cure = "divide by the largest, or give it as `absent`" if link > 0.0 else "shift or drop what is negative"
        expected = f"{self.name} must have entries from 0 (no link) to {self.absent:g}"
        return f"{expected}, found {link:g} at row {row}, column {column}; {cure}"

    def _refuse(self, values: np.ndarray, bad: NDArray[np.bool_], first_row: int) -> None:
        place = np.argwhere(bad)[0]
        value = values[tuple(place)]
        row, rest = first_row + int(place[0]), [int(p) for p in place[1:]]
        limit = f"{self.largest:g}" if self.precise else "float32"
        kind = f"{'' if self.missing else 'NaN or '}infinite (or beyond {limit})"
        raise InputError(
            f"{self.name} must be finite{f' or NaN for {self.missing}' if self.missing else ''}: "
            f"found {counted(int(bad.sum()), 'value')} {kind} in rows {first_row}..{first_row + len(values) - 1}, "
            f"the first at row {row}{f', column {rest[0]}' if rest else ''} ({float(value)!r}); "
            "remove or impute them"
        )


FEATURES = Reading("features", missing="missing")
SIMILARITIES = Reading("similarities", missing="unobserved", precise=True)
DISSIMILARITIES = Reading("distances", missing="unobserved", precise=True, convert="squares")
DISTANCES = Reading("distances", missing="unobserved", symmetric=True)
GRAPH = Reading("an adjacency matrix", missing="unobserved", symmetric=True, convert="edges")
AS_IT_IS = Reading("values", keep=True)


def read(
    values: Matrix,
    reading: Reading,
    out: np.ndarray | None = None,
    borrows: bool = False,
) -> np.ndarray:
    """Read a whole matrix, one block of rows at a time.

    Parameters
    ----------
    values
        Shape (n_rows, n_columns), in memory or on disk. Masked values become NaN.
    reading
        The kind of matrix.
    out
        Where to write the result, for example a memory map; new memory by default.
    borrows
        Whether values in memory that stay what they are may be used where they lie, by a caller that neither keeps nor
        changes them.

    Returns
    -------
    ndarray
        Shape (n_rows, n_columns), C order, in the `Reading.dtype` of its kind. Similarities in memory that have this
        order and dtype already are not copied.

    Raises
    ------
    InputError
        The matrix is not two-dimensional, is empty, is not square where it must be, or has values that are refused.

    Examples
    --------
    >>> read(np.array([[0, 2], [1, 0]]), DISTANCES)
    Traceback (most recent call last):
    distforest.errors.DistforestWarning: DF004 distances: z_ij and z_ji differ by up to 1; their mean is used
    """
    values = unmasked(values)
    check_shape(values, reading)
    stays = reading.leaves if borrows else reading.takes
    if out is None and isinstance(values, np.ndarray) and stays(values.dtype) and values.flags.aligned:
        for first, block in row_blocks(values):
            reading.block(block, first)
        return np.ascontiguousarray(values)
    out = np.empty(values.shape, reading.dtype(values.dtype)) if out is None else out
    _fill(values, reading, out)
    if reading.symmetric:
        symmetrise(out, reading)
    return out


def read_level(values: Matrix, reading: Reading, out: np.ndarray | None = None) -> tuple[np.ndarray, Reading]:
    """`read` a matrix, and subtract a common offset from distances that float32 could not tell apart with it.

    If the range of all distances, including the distances of rows to themselves, is less than `ALIKE_SHARE` of the
    largest, the distance nearest to 0 is subtracted from all of them: no cut depends on it (m - m_L - m_R = 0), and
    float32 holds the remainders. All other matrices are only read, also those of a kind that is not symmetric.

    Returns
    -------
    matrix : ndarray
        As from `read`.
    reading : Reading
        The reading, with the ``offset`` that was subtracted.

    Raises
    ------
    InputError
        As `read`; or the largest distance is below `SMALLEST`.

    Warns
    -----
    DistforestWarning
        Distances between different rows are nearly equal, but distances of rows to themselves are far from them.

    Examples
    --------
    >>> matrix, reading = read_level(np.array([[1e9, 1e9 + 0.5], [1e9 + 0.5, 1e9]]), DISTANCES)
    >>> matrix.tolist(), reading.offset
    ([[0.0, 0.5], [0.5, 0.0]], 1000000000.0)
    """
    if not reading.symmetric or reading.offset:
        return read(values, reading, out), reading
    values = unmasked(values)
    check_shape(values, reading)
    out = np.empty(values.shape, np.float32) if out is None else out
    _fill(values, reading, out)
    offset = _common_offset(values, reading, out)
    if offset:
        reading = replace(reading, offset=offset)
        _fill(values, reading, out)
    symmetrise(out, reading)
    return out, reading


def _fill(values: Matrix, reading: Reading, out: np.ndarray) -> None:
    for first, block in checked_blocks(values, reading):
        out[first : first + len(block)] = block
        release_pages(out)


def checked_blocks(values: Matrix, reading: Reading) -> Iterator[tuple[int, np.ndarray]]:
    """The first row of each block of rows, and its values, checked and converted by `Reading.block`.

    The next block of an array on disk is read while this one is in use. Raises InputError as `read`.
    """
    blocks = laid_out(values, reading)
    for first, block in ahead(blocks, "distforest-read") if is_stored(values) else blocks:
        yield first, reading.block(block, first)


def laid_out(values: Matrix, reading: Reading) -> Iterator[tuple[int, np.ndarray]]:
    """The first row and the values of each block of rows; where a matrix is symmetric, NaN on its diagonal is 0.

    Nobody measures how far a thing is from itself, so distances to themselves may all be left out: they are 0, and a
    node of a graph has no loop. If a reading says how far nodes are from themselves, their loops follow from it.

    Raises
    ------
    InputError
        Some of the diagonal is NaN, and some of it is not 0, so that what is left out is not known to be 0.
    """
    lacking, given = -1, -1
    for first, block in row_blocks(values):
        rows = np.arange(len(block))
        if reading.diagonal is not None:
            filled = block.astype(np.float64)
            filled[rows, first + rows] = reading.absent - reading.diagonal
            yield first, filled
            continue
        if not reading.symmetric or block.dtype.kind != "f":
            yield first, block
            continue
        diagonal = block[rows, first + rows]
        lacks, gives = np.isnan(diagonal), np.abs(diagonal) > 0.0
        lacking = first + int(np.argmax(lacks)) if lacking < 0 and lacks.any() else lacking
        given = first + int(np.argmax(gives)) if given < 0 and gives.any() else given
        if min(lacking, given) >= 0:
            raise InputError(
                f"{reading.name}: NaN on the diagonal stands for 0, but row {lacking} has NaN there and row {given} "
                "another value than 0; give the whole diagonal"
            )
        if lacks.any():
            filled = block.copy()
            filled[rows[lacks], first + rows[lacks]] = 0.0
            yield first, filled
        else:
            yield first, block


class Range(NamedTuple):
    """The lowest and the highest distance."""

    low: float
    high: float

    @property
    def nearest(self) -> float:
        """The distance nearest to 0, if both have the same sign."""
        return self.low if abs(self.low) < abs(self.high) else self.high

    @property
    def largest(self) -> float:
        """The largest absolute distance."""
        return max(abs(self.low), abs(self.high))

    def with_values(self, values: Floats) -> Range:
        """The range with further values, of which NaN is none."""
        low, high = (float(ufunc.reduce(values, axis=None)) for ufunc in (np.fmin, np.fmax))
        return Range(float(np.fmin(self.low, low)), float(np.fmax(self.high, high)))

    def within(self, share: float) -> bool:
        """Whether the range is less than a share of the largest absolute distance."""
        return self.high - self.low < share * self.largest


def _common_offset(values: Matrix, reading: Reading, matrix: Float32s) -> float:
    """The offset to subtract from all distances; 0 if their range is large, which the first row mostly shows."""
    others = matrix[0, 1:] if len(matrix) > 1 else matrix[0]
    first = Range(float(np.fmin.reduce(others)), float(np.fmax.reduce(others)))
    if first.largest >= SMALLEST and not first.within(2.0 * ALIKE_SHARE):
        return 0.0
    return common_offset(*range_of(values, reading), reading)


def common_offset(of_all: Range, of_pairs: Range, reading: Reading) -> float:
    """The offset to subtract from all distances, by their range and by that of different rows; 0 if it is large.

    Raises InputError if the largest distance is below `SMALLEST`, and warns as `read_level` says.
    """
    if 0.0 < of_all.largest < SMALLEST:
        raise InputError(
            f"{reading.name}: the largest must be at least {SMALLEST:g}, found {of_all.largest:g}; scale the distances"
        )
    if of_all.within(ALIKE_SHARE):
        return of_all.nearest if of_all.low < of_all.high else 0.0
    if of_pairs.within(ALIKE_SHARE) and of_pairs.low < of_pairs.high:
        warn_caller(
            f"{reading.name}: those of different rows are {of_pairs.low:.9g} to {of_pairs.high:.9g}, but those of rows "
            "to themselves, which count too, are far from them; compared with these they hardly differ, and float32 "
            f"rounds them. Subtract {of_pairs.nearest:.9g} from them, or add it to the diagonal"
        )
    return 0.0


def range_of(values: Matrix, reading: Reading) -> tuple[Range, Range]:
    """The range of all distances, and the range of distances between different rows, in float64, block by block.

    Unobserved distances are in neither.
    """
    of_all, of_pairs = Range(np.inf, -np.inf), Range(np.inf, -np.inf)
    for first, block in laid_out(values, reading):
        wide = reading.wide(block)
        of_all = of_all.with_values(wide)
        rows = np.arange(len(wide))
        wide[rows, first + rows] = wide[rows, first + rows - 1]  # the distance to another row
        of_pairs = of_pairs.with_values(wide)
    return of_all, of_pairs


def check_shape(values: Shaped, reading: Reading) -> None:
    """Refuse a matrix of the wrong shape; raises InputError."""
    if reading.keep:
        return
    if len(values.shape) != 2:
        cure = ". Reshape your data: X.reshape(-1, 1) if it has one feature, X.reshape(1, -1) if it has one sample"
        if (reading.symmetric or reading is DISSIMILARITIES) and len(values.shape) == 1:
            cure = "; give scipy.spatial.distance.squareform(d) if it holds each pair once, as pdist gives them"
        raise InputError(f"{reading.name}: a 2-D matrix was expected, found shape {tuple(values.shape)}{cure}")
    if 0 in values.shape:
        raise InputError(
            f"{reading.name}: found an empty matrix of shape {tuple(values.shape)} "
            f"({values.shape[0]} sample(s), {values.shape[1]} feature(s)), while a minimum of 1 is required"
        )
    if reading.symmetric and values.shape[0] != values.shape[1]:
        raise InputError(f"{reading.name}: a square matrix was expected, found shape {tuple(values.shape)}")


def symmetrise(matrix: Float32s, reading: Reading) -> None:
    """Replace Z by (Z + Z') / 2 in place, tile by tile; warns if z_ij and z_ji differ by more than rounding.

    ``reading.directed`` may say that another value than the mean is to be taken; then nothing is warned of.

    Where one of the two is NaN, both become the other one.
    """
    n = len(matrix)
    largest = asymmetry = 0.0
    is_triangle = reading.convert is None and not reading.offset
    for i in range(0, n, _TILE):
        for j in range(0, i + 1, _TILE):
            release_pages(matrix)
            lower, upper = matrix[i : i + _TILE, j : j + _TILE], matrix[j : j + _TILE, i : i + _TILE]
            largest = max(largest, _largest_of(lower), _largest_of(upper))
            if (lower == upper.T).all():
                is_triangle = is_triangle and not _has_both(lower, lower, i == j)
                continue
            one, other = np.where(np.isnan(lower), upper.T, lower), np.where(np.isnan(upper.T), lower, upper.T)
            asymmetry = max(asymmetry, _largest_of(one.astype(np.float64) - other))
            is_triangle = is_triangle and not _has_both(one, other, i == j)
            joined = reading.joined(one, other)
            matrix[i : i + _TILE, j : j + _TILE] = joined
            matrix[j : j + _TILE, i : i + _TILE] = joined.T
    if reading.directed is None:
        warn_of_asymmetry(asymmetry, largest, reading, is_triangle)


def _has_both(one: np.ndarray, other: np.ndarray, are_alike: bool) -> bool:
    """Whether z_ij and z_ji of different rows, which ``are_alike`` in their numbers or lie apart, are both not 0."""
    both = (one != 0.0) & (other != 0.0)
    if are_alike:
        np.fill_diagonal(both, False)
    return bool(both.any())


def warn_of_asymmetry(asymmetry: float, largest: float, reading: Reading, is_triangle: bool = False) -> None:
    """Warn if z_ij and z_ji differ by more than rounding, which is a share of the ``largest`` distance.

    ``is_triangle`` says that of each two one is 0, as where only one triangle is filled.
    """
    if asymmetry > ASYMMETRY * largest:
        cure = ""
        if reading.convert == "edges":
            cure = "; say so by directed='mean', or 'either' if a link in one direction is one, or 'both'"
        if is_triangle:
            cure = ", half of the other, as one of the two is 0 for all pairs; mirror a triangle: Z + Z.T"
        warn_caller(f"DF004 {reading.name}: z_ij and z_ji differ by up to {asymmetry:g}; their mean is used{cure}")


class KnownEntries(NamedTuple):
    """What is known of a symmetric matrix.

    Attributes
    ----------
    largest
        The largest absolute entry.
    n_unobserved
        Number of pairs i < j whose entry is NaN.
    """

    largest: float
    n_unobserved: int


def known_entries(matrix: Float32s, reading: Reading) -> KnownEntries:
    """The largest absolute entry of a symmetric matrix, and how many pairs are unobserved, block by block.

    Raises
    ------
    InputError
        There are several rows, but no pair of them was observed.
    """
    largest, n_unobserved = 0.0, 0
    for _, block in row_blocks(matrix):
        of_block = float(np.abs(block).max())
        if np.isnan(of_block):
            n_unobserved += int(np.isnan(block).sum())
            of_block = _largest_of(block)
        largest = max(largest, of_block)
    n_pairs = len(matrix) * (len(matrix) - 1) // 2
    if 0 < n_pairs == n_unobserved // 2:
        raise InputError(
            f"{reading.name}: all {n_pairs:,} entries between different rows are NaN; observe some of them"
        )
    return KnownEntries(largest, n_unobserved // 2)


def _largest_of(values: np.ndarray) -> float:
    """The largest absolute value, of which NaN is none; 0 if there is no other."""
    largest = float(np.abs(values).max())
    return float(np.fmax.reduce(np.abs(values), axis=None, initial=0.0)) if np.isnan(largest) else largest
