"""Bins of the columns of pairs: a value's code is read from a table, without the columns ever being held.

::

    value    low   low + 1/scale   ...               beyond the grid: the first or the last cell
    cell      0  |  1  |  2  |  3  | ... | 1023      floor((value - low) scale)
    code      0     0     1     1    ...    255      about as many pairs in each code

A code is at most b exactly where the value is at most ``edges[column, b]``, a float32.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from distforest.jit import borrowing
from distforest.sources.point_pairs import PointPairs
from distforest.sources.source import Float32s, Floats, offsets

CELLS = 1024
SAMPLED = 4096
"""Pairs, evenly spaced, from which the bins are taken."""

TAILS = 0.002
"""Share of the sampled values on either side that the grid may leave out."""

_INFINITE = 0x7F800000
"""Place of infinity among the float32 in their order, 0 at place 0."""


@dataclass(frozen=True)
class PairBins:
    """How values become codes.

    Attributes
    ----------
    low, scale
        Where each column's grid begins, and cells in a unit, shape (n_columns,).
    code
        The code of each cell, shape (n_columns, `CELLS`).
    edges
        The largest value of each code and those below it, shape (n_columns, max_bins); infinite for the last.
    """

    low: Floats
    scale: Floats
    code: NDArray[np.uint8]
    edges: Floats

    @property
    def table(self) -> tuple[Floats, Floats, NDArray[np.uint8], Floats]:
        """The four arrays, as kernels take them."""
        return self.low, self.scale, self.code, self.edges

    @classmethod
    def of(cls, pairs: PointPairs, max_bins: int) -> PairBins:
        """Bins of the columns, from at most `SAMPLED` of the pairs; of two extremes those of the points themselves."""
        n = pairs.shape[1]
        low, scale = np.zeros(n), np.zeros(n)
        code, edges = np.zeros((n, CELLS), np.uint8), np.full((n, max_bins), np.inf)
        ends = np.concatenate([pairs.left, pairs.right])
        of_points = pairs.of_pairs(ends, ends) if pairs.columns.family == "max_min" else pairs
        for column in range(n):
            own = of_points if column < pairs.columns.n_of_family else pairs
            rows = np.arange(0, own.shape[0], 1 + (own.shape[0] - 1) // SAMPLED, dtype=np.int32)
            values = np.sort(own.entries(rows, np.full(len(rows), column, np.int32)))
            low[column], scale[column] = _grid(values)
            if not scale[column]:  # all are equal: one bin
                continue
            cells = _cells(values, low[column], scale[column])
            below = np.searchsorted(cells, np.arange(CELLS + 1))  # sampled values in the cells below
            filled = below[1:] > below[:-1]
            wanted = ((below[:-1] + below[1:]) * max_bins // (2 * len(values)))[filled]  # by the middle of its values
            rank = np.cumsum(np.append(0, wanted[1:] > wanted[:-1]))
            following = offsets(filled)[:-1].clip(max=len(rank) - 1)  # an empty cell is as the next filled one
            code[column] = rank[following]
            last = np.flatnonzero(np.diff(code[column]))  # the last cell of each code but the last
            edges[column, : len(last)] = _upper_ends(last, low[column], scale[column])
        return cls(low, scale, code, edges)


def _grid(values: Floats) -> tuple[float, float]:
    """Where the grid of some ordered values begins, and its cells in a unit; one cell where they are all equal."""
    out = int(TAILS * len(values))
    low, high = values[out], values[len(values) - 1 - out]
    if not low < high:
        low, high = values[0], values[-1]
    scale = CELLS / (high - low) if low < high else 0.0
    return float(low), float(scale) if np.isfinite(scale) else 0.0


def _cells(values: Floats, low: float, scale: float) -> NDArray[np.int64]:
    cells: NDArray[np.int64] = np.floor(((values - low) * scale).clip(0.0, CELLS - 1.0)).astype(np.int64)
    return cells


def _upper_ends(cells: NDArray[np.int64], low: float, scale: float) -> Floats:
    """The largest float32 in each cell or below it, as a value is coded: doubling steps from an estimate, then halves.

    Around 0 an estimate that is off by rounding has a thousand million float32 between itself and the end.
    """
    guess = _place((low + (cells + 1) / scale).astype(np.float32))
    inside, above, step = guess - 1, guess + 1, 1
    while (moved := _cells(_at(inside), low, scale) > cells).any():
        inside, step = np.where(moved, np.maximum(inside - step, -_INFINITE), inside), 2 * step
    step = 1
    while (moved := _cells(_at(above), low, scale) <= cells).any():
        above, step = np.where(moved, np.minimum(above + step, _INFINITE), above), 2 * step
    while (above - inside > 1).any():
        middle = (inside + above) // 2
        is_inside = _cells(_at(middle), low, scale) <= cells
        inside, above = np.where(is_inside, middle, inside), np.where(is_inside, above, middle)
    return _at(inside)


def _place(values: Float32s) -> NDArray[np.int64]:
    """Places among the float32 in their order."""
    size = np.abs(values).view(np.int32).astype(np.int64)
    return np.where(values < 0, -size, size)


def _at(places: NDArray[np.int64]) -> Floats:
    """The float32 at some places."""
    return np.copysign(np.abs(places).astype(np.int32).view(np.float32), places).astype(np.float64)


@borrowing
def cell_of(value: float, low: float, scale: float) -> np.uint32:
    """floor((value - low) scale), of the first or the last cell for values beyond the grid; unsigned, as an index."""
    return np.uint32(min(max((value - low) * scale, 0.0), CELLS - 1.0))


@borrowing
def code_of(value: float, low: float, scale: float, code: NDArray[np.uint8]) -> int:
    """The code of the value's cell."""
    return code[cell_of(value, low, scale)]
