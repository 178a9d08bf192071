"""Readings: how each kind of matrix comes in, in which precision, and what is refused at the door."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from distforest.amounts import counted
from distforest.errors import InputError, warn_caller
from distforest.sources.arrays import held_in, row_blocks
from distforest.sources.given import unmasked
from distforest.sources.source import NUMBERS

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray

    from distforest.sources.arrays import Matrix
    from distforest.sources.given import Shaped
    from distforest.sources.source import Float32s, Floats

_TILE = 1024
LARGEST_SIMILARITY, LARGEST_DISTANCE = 1e300, 1e150
"""Beyond these a difference, or a square, may have no float64."""
ASYMMETRY = 1e-5
"""Share of the largest distance up to which a difference of z_ij and z_ji passes as rounding, without a warning."""

ALIKE_SHARE = 2.0**-7
"""Range of distances, as a share of the largest, below which float32 tells them apart much worse than their offset."""

SMALLEST = 1e-30
"""A largest distance that float32 still holds with much smaller ones."""


@dataclass(frozen=True)
class Reading:
    """One kind of matrix.

    Attributes
    ----------
    name
        What its entries are called.
    missing
        Whether it holds similarities: NaN is allowed, as "unobserved", and float64 stays what it is, since cuts read
        differences of columns that may be small beside their values.
    symmetric
        Whether the matrix is square and is made symmetric as (Z + Z') / 2, which has the same SMERF objective.
    convert
        ``None``, ``"edges"`` (1 - a: linked items are near, an absent edge is distance 1) or ``"squares"``
        (-d^2 / 2, in float64: differences of its columns order rows as those of an inner product do).
    keep
        Whether the array is taken as it is, of any shape and dtype.
    offset
        What is taken off every entry, in float64, before it is rounded to float32.
    """

    name: str
    missing: bool = False
    symmetric: bool = False
    convert: str | None = None
    keep: bool = False
    offset: float = 0.0

    def dtype(self, given: DTypeLike) -> np.dtype[np.generic]:
        """What values of a dtype are held in.

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
        return held_in(given) if self.missing else np.dtype(np.float32)

    def takes(self, given: DTypeLike) -> bool:
        """Whether values of a dtype are held as they are given, once they are checked."""
        return self.missing and self.convert is None and self.dtype(given) == given

    @property
    def largest(self) -> float:
        """The largest absolute similarity or distance that is allowed."""
        return LARGEST_DISTANCE if self.convert == "squares" else LARGEST_SIMILARITY

    def block(self, values: np.ndarray, first_row: int) -> np.ndarray:
        """A block of rows in its `dtype`, converted and checked; the same array where that changes nothing.

        Raises InputError.
        """
        if self.keep:
            return values
        if values.dtype.kind not in NUMBERS:
            raise InputError(f"{self.name} must be numbers, found dtype {values.dtype}")
        with np.errstate(over="ignore", invalid="ignore"):
            block = values.astype(self.dtype(values.dtype), copy=False)
        if self._has_bad(block):
            bad = np.abs(block) > np.float64(self.largest) if self.missing else ~np.isfinite(block)
            self._refuse(values, bad, first_row)
        if self.convert == "edges":
            self._check_links(block, first_row)
            block = np.float32(1.0) - block
        elif self.convert == "squares":
            block = block * block
            block *= -0.5
        return (self.wide(values) - self.offset).astype(np.float32) if self.offset else block

    def _has_bad(self, block: np.ndarray) -> bool:
        """Whether there is a value to refuse; makes no array of the block's size where similarities are read."""
        if not self.missing:
            return not np.isfinite(block).all()
        values = block.reshape(-1)
        greatest, least = (float(ufunc.reduce(values, initial=0.0)) for ufunc in (np.fmax, np.fmin))
        return max(greatest, -least) > self.largest

    def wide(self, values: np.ndarray) -> Floats:
        """Distances in float64: the entries, or 1 - a for links."""
        entries: Floats = values.astype(np.float64)
        return 1.0 - entries if self.convert == "edges" else entries

    def _check_links(self, block: Float32s, first_row: int) -> None:
        beyond = (block < 0.0) | (block > 1.0)
        if beyond.any():
            row, column = np.argwhere(beyond)[0].tolist()
            raise InputError(
                f"{self.name} must have entries from 0 (no link) to 1, found {block[row, column]:g} "
                f"at row {first_row + row}, column {column}; divide by the largest"
            )

    def _refuse(self, values: np.ndarray, bad: NDArray[np.bool_], first_row: int) -> None:
        place = np.argwhere(bad)[0]
        value = values[tuple(place)]
        row, rest = first_row + int(place[0]), [int(p) for p in place[1:]]
        what = f"infinite (or beyond {self.largest:g})" if self.missing else "NaN or infinite (or beyond float32)"
        raise InputError(
            f"{self.name} must be finite{' or NaN for unobserved' if self.missing else ''}: "
            f"found {counted(int(bad.sum()), 'value')} {what} in rows {first_row}..{first_row + len(values) - 1}, "
            f"the first at row {row}{f', column {rest[0]}' if rest else ''} ({float(value)!r}); "
            "remove or impute them"
        )


FEATURES = Reading("features")
SIMILARITIES = Reading("similarities", missing=True)
DISSIMILARITIES = Reading("distances", missing=True, convert="squares")
DISTANCES = Reading("distances", symmetric=True)
GRAPH = Reading("an adjacency matrix", symmetric=True, convert="edges")
AS_IT_IS = Reading("values", keep=True)


class Onlooker(Protocol):
    """What is shown each block of rows as it was given, once it is found good: see `distforest.sources.doubts`."""

    def see(self, values: np.ndarray, first_row: int) -> None:
        """Look at a block, shape (n_rows, n_columns)."""


def read(
    values: Matrix, reading: Reading, out: np.ndarray | None = None, onlooker: Onlooker | None = None
) -> np.ndarray:
    """Read a matrix whole, block of rows by block of rows.

    Parameters
    ----------
    values
        Shape (n_rows, n_columns), in memory or Zarr. What is masked is NaN.
    reading
        Its kind.
    out
        Where to put it, for example a memory map; new memory by default.
    onlooker
        Shown all blocks as they are read.

    Returns
    -------
    ndarray
        In the `Reading.dtype` of its kind, shape (n_rows, n_columns), C order. What is so already is not copied,
        if it is a matrix of similarities in memory.

    Raises
    ------
    InputError
        Not two-dimensional, empty, not square where it must be, or with values that are refused.

    Examples
    --------
    >>> read(np.array([[0, 2], [1, 0]]), DISTANCES)
    Traceback (most recent call last):
    UserWarning: distances: z_ij and z_ji differ by up to 1; their mean is used
    """
    values = unmasked(values)
    check_shape(values, reading)
    if out is None and isinstance(values, np.ndarray) and reading.takes(values.dtype):
        for first, block in row_blocks(values):
            reading.block(block, first)
            if onlooker:
                onlooker.see(block, first)
        return np.ascontiguousarray(values)
    out = np.empty(values.shape, reading.dtype(values.dtype)) if out is None else out
    _fill(values, reading, out, onlooker)
    if reading.symmetric:
        symmetrise(out, reading)
    return out


def read_level(
    values: Matrix, reading: Reading, out: np.ndarray | None = None, onlooker: Onlooker | None = None
) -> tuple[np.ndarray, Reading]:
    """`read` distances without what they have in common, where that would cost them their differences.

    Where all distances, those of rows to themselves too, lie within `ALIKE_SHARE` of the largest, the one nearest to 0
    is taken off all of them: no cut depends on it (m - m_L - m_R = 0), and float32 holds what is left. Any other matrix
    stays as it is, and so does what is not symmetric.

    Returns
    -------
    matrix : ndarray
        As of `read`.
    reading : Reading
        How it was read: with the ``offset`` that was taken off.

    Raises
    ------
    InputError
        As `read`; or the largest distance is below `SMALLEST`.

    Warns
    -----
    UserWarning
        Distances of different rows are nearly equal, but those of rows to themselves lie far away from them.

    Examples
    --------
    >>> matrix, reading = read_level(np.array([[1e9, 1e9 + 0.5], [1e9 + 0.5, 1e9]]), DISTANCES)
    >>> matrix.tolist(), reading.offset
    ([[0.0, 0.5], [0.5, 0.0]], 1000000000.0)
    """
    if not reading.symmetric or reading.offset:
        return read(values, reading, out, onlooker), reading
    values = unmasked(values)
    check_shape(values, reading)
    out = np.empty(values.shape, np.float32) if out is None else out
    _fill(values, reading, out, onlooker)
    offset = _common_offset(values, reading, out)
    if offset:
        reading = replace(reading, offset=offset)
        _fill(values, reading, out)
    symmetrise(out, reading)
    return out, reading


def _fill(values: Matrix, reading: Reading, out: np.ndarray, onlooker: Onlooker | None = None) -> None:
    for first, block in row_blocks(values):
        out[first : first + len(block)] = reading.block(block, first)
        if onlooker:
            onlooker.see(block, first)


class Range(NamedTuple):
    """The lowest and the highest of some distances."""

    low: float
    high: float

    @property
    def nearest(self) -> float:
        """The one nearest to 0 of two with the same sign."""
        return self.low if abs(self.low) < abs(self.high) else self.high

    @property
    def largest(self) -> float:
        """The largest, without its sign."""
        return max(abs(self.low), abs(self.high))

    def within(self, share: float) -> bool:
        """Whether they lie within a share of the largest."""
        return self.high - self.low < share * self.largest


def _common_offset(values: Matrix, reading: Reading, matrix: Float32s) -> float:
    """What all distances have in common; 0 where that is little, as mostly seen in the first row of ``matrix``."""
    others = matrix[0, 1:] if len(matrix) > 1 else matrix[0]
    first = Range(float(others.min()), float(others.max()))
    if first.largest >= SMALLEST and not first.within(2.0 * ALIKE_SHARE):
        return 0.0
    of_all, of_pairs = range_of(values, reading)
    if 0.0 < of_all.largest < SMALLEST:
        raise InputError(
            f"{reading.name}: the largest must be at least {SMALLEST:g}, found {of_all.largest:g}; scale the distances"
        )
    if of_all.within(ALIKE_SHARE):
        return of_all.nearest if of_all.low < of_all.high else 0.0
    if of_pairs.within(ALIKE_SHARE) and of_pairs.low < of_pairs.high:
        warn_caller(
            f"{reading.name}: those of different rows are {of_pairs.low:.9g} to {of_pairs.high:.9g}, but those of rows "
            "to themselves, which count too, lie far away; beside these they hardly differ, and float32 rounds them. "
            f"Take {of_pairs.nearest:.9g} off them, or add it to the diagonal"
        )
    return 0.0


def range_of(values: Matrix, reading: Reading) -> tuple[Range, Range]:
    """The range of all distances, and that of distances of different rows, in float64, block by block."""
    of_all, of_pairs = Range(np.inf, -np.inf), Range(np.inf, -np.inf)
    for first, block in row_blocks(values):
        wide = reading.wide(block)
        of_all = Range(min(of_all.low, float(wide.min())), max(of_all.high, float(wide.max())))
        own = np.arange(len(wide))
        wide[own, first + own] = wide[own, first + own - 1]  # that of another row
        of_pairs = Range(min(of_pairs.low, float(wide.min())), max(of_pairs.high, float(wide.max())))
    return of_all, of_pairs


def check_shape(values: Shaped, reading: Reading) -> None:
    """Refuse a matrix of the wrong shape; raises InputError."""
    if reading.keep:
        return
    if len(values.shape) != 2:
        raise InputError(
            f"{reading.name}: a 2-D matrix was expected, found shape {tuple(values.shape)}. Reshape your data: "
            "X.reshape(-1, 1) if it has one feature, X.reshape(1, -1) if it has one sample"
        )
    if 0 in values.shape:
        raise InputError(
            f"{reading.name}: found an empty matrix of shape {tuple(values.shape)} "
            f"({values.shape[0]} sample(s), {values.shape[1]} feature(s)), while a minimum of 1 is required"
        )
    if reading.symmetric and values.shape[0] != values.shape[1]:
        raise InputError(f"{reading.name}: a square matrix was expected, found shape {tuple(values.shape)}")


def symmetrise(matrix: Float32s, reading: Reading) -> None:
    """Put (Z + Z') / 2 in place of Z, tile by tile; warns where the halves differ by more than rounding."""
    n = len(matrix)
    largest = asymmetry = 0.0
    for i in range(0, n, _TILE):
        for j in range(0, i + 1, _TILE):
            lower, upper = matrix[i : i + _TILE, j : j + _TILE], matrix[j : j + _TILE, i : i + _TILE]
            largest = max(largest, float(np.abs(lower).max()), float(np.abs(upper).max()))
            if (lower == upper.T).all():
                continue
            asymmetry = max(asymmetry, float(np.abs(lower.astype(np.float64) - upper.T).max()))
            mean = lower / np.float32(2.0) + upper.T / np.float32(2.0)
            matrix[i : i + _TILE, j : j + _TILE] = mean
            matrix[j : j + _TILE, i : i + _TILE] = mean.T
    if asymmetry > ASYMMETRY * largest:
        warn_caller(f"{reading.name}: z_ij and z_ji differ by up to {asymmetry:g}; their mean is used")


def largest_entry(matrix: Float32s) -> float:
    """The largest absolute entry of a matrix without NaN, block by block."""
    return max(float(np.abs(block).max()) for _, block in row_blocks(matrix))
