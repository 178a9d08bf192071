"""Readings: how each kind of matrix comes in as float32, and what is refused at the door."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from distforest.errors import InputError
from distforest.sources.arrays import row_blocks

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from distforest.sources.arrays import Matrix
    from distforest.sources.source import Float32s

NUMBERS = "fiub"
"""Kinds of dtypes that are numbers."""

_TILE = 1024
ASYMMETRY = 1e-5
"""Share of the largest distance up to which a difference of z_ij and z_ji passes as rounding, without a warning."""


@dataclass(frozen=True)
class Reading:
    """One kind of matrix.

    Attributes
    ----------
    name
        What its entries are called.
    missing
        Whether NaN is allowed, as "unobserved".
    symmetric
        Whether the matrix is square and is made symmetric as (Z + Z') / 2, which has the same SMERF objective.
    convert
        ``None``, ``"edges"`` (1 - a: linked items are near, an absent edge is distance 1) or ``"squares"``
        (-d^2 / 2: differences of its columns order rows as those of an inner product do).
    keep
        Whether the array is taken as it is, of any shape and dtype.
    """

    name: str
    missing: bool = False
    symmetric: bool = False
    convert: str | None = None
    keep: bool = False

    def block(self, values: np.ndarray, first_row: int) -> Float32s:
        """A block of rows as float32, converted and checked; raises InputError."""
        if self.keep:
            return values
        if values.dtype.kind not in NUMBERS:
            raise InputError(f"{self.name} must be numbers, found dtype {values.dtype}")
        with np.errstate(over="ignore", invalid="ignore"):
            block = values.astype(np.float32)
            if self.convert == "edges":
                self._hold_links(block, first_row)
                block = np.float32(1.0) - block
            elif self.convert == "squares":
                block = -(block * block) / np.float32(2.0)
        bad = np.isinf(block) if self.missing else ~np.isfinite(block)
        if bad.any():
            self._refuse(values, bad, first_row)
        return block

    def _hold_links(self, block: Float32s, first_row: int) -> None:
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
        what = "infinite (or beyond float32)" if self.missing else "NaN or infinite (or beyond float32)"
        raise InputError(
            f"{self.name} must be finite{' or NaN for unobserved' if self.missing else ''}: "
            f"found {int(bad.sum())} values {what} in rows {first_row}..{first_row + len(values) - 1}, "
            f"the first at row {row}{f', column {rest[0]}' if rest else ''} ({value!r}); "
            "remove or impute them"
        )


FEATURES = Reading("features")
SIMILARITIES = Reading("similarities", missing=True)
DISSIMILARITIES = Reading("distances", missing=True, convert="squares")
DISTANCES = Reading("distances", symmetric=True)
GRAPH = Reading("an adjacency matrix", symmetric=True, convert="edges")
AS_IT_IS = Reading("values", keep=True)


def read(values: Matrix, reading: Reading, out: Float32s | None = None) -> Float32s:
    """Read a matrix whole, block of rows by block of rows.

    Parameters
    ----------
    values
        Shape (n_rows, n_columns), in memory or Zarr.
    reading
        Its kind.
    out
        Where to put it, for example a memory map; new memory by default.

    Returns
    -------
    ndarray
        float32, shape (n_rows, n_columns), C order.

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
    check_shape(values, reading)
    out = np.empty(values.shape, np.float32) if out is None else out
    for first, block in row_blocks(values):
        out[first : first + len(block)] = reading.block(block, first)
    if reading.symmetric:
        symmetrise(out, reading)
    return out


def check_shape(values: Matrix, reading: Reading) -> None:
    """Refuse a matrix of the wrong shape; raises InputError."""
    if reading.keep:
        return
    if len(values.shape) != 2:
        raise InputError(
            f"{reading.name}: a 2-D matrix was asked for, found shape {tuple(values.shape)}. Reshape your data: "
            "X.reshape(-1, 1) if it has one feature, X.reshape(1, -1) if it has one sample"
        )
    if 0 in values.shape:
        raise InputError(
            f"{reading.name}: found an empty matrix of shape {tuple(values.shape)} "
            f"({values.shape[0]} sample(s), {values.shape[1]} feature(s)), while a minimum of 1 is required"
        )
    if reading.symmetric and values.shape[0] != values.shape[1]:
        raise InputError(f"{reading.name}: a square matrix was asked for, found shape {tuple(values.shape)}")


def symmetrise(matrix: Float32s, reading: Reading) -> None:
    """Put (Z + Z') / 2 in place of Z, tile by tile; warns where the halves differ by more than rounding."""
    n = len(matrix)
    largest = apart = 0.0
    for i in range(0, n, _TILE):
        for j in range(0, i + 1, _TILE):
            lower, upper = matrix[i : i + _TILE, j : j + _TILE], matrix[j : j + _TILE, i : i + _TILE]
            largest = max(largest, float(np.abs(lower).max()), float(np.abs(upper).max()))
            if (lower == upper.T).all():
                continue
            apart = max(apart, float(np.abs(lower.astype(np.float64) - upper.T).max()))
            mean = lower / np.float32(2.0) + upper.T / np.float32(2.0)
            matrix[i : i + _TILE, j : j + _TILE] = mean
            matrix[j : j + _TILE, i : i + _TILE] = mean.T
    if apart > ASYMMETRY * largest:
        warnings.warn(f"{reading.name}: z_ij and z_ji differ by up to {apart:g}; their mean is used", stacklevel=2)


def largest_entry(matrix: Float32s) -> float:
    """The largest absolute entry of a matrix without NaN, block by block."""
    return max(float(np.abs(block).max()) for _, block in row_blocks(matrix))
