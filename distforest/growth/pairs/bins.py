"""Bins of the columns of pairs: a value's code is read from a table, without the columns ever being held.

::

    value    low   low + 1/scale   ...               beyond the grid: the first or the last cell
    cell      0  |  1  |  2  |  3  | ... | 1023      floor((value - low) scale)
    code      0     0     1     1    ...    255      about as many pairs in each code

A cell that holds too many values (because of a far row, a sentinel or a long tail) has several codes: it is marked so,
and the code is found by halving among the edges. Where most values would lie in such cells, all cells are marked.

A code is at most b exactly where the value, a float32, is at most ``edges[column, b]``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from distforest.jit import borrowing
from distforest.sources.point_pairs import PointPairs
from distforest.sources.source import Floats, Ints

CELLS = 1024
SAMPLED = 4096
"""Pairs, evenly spaced, from which the bins are taken."""

TAILS = (0.002, 0.0, 0.02, 0.1)
"""Shares of the sampled values on either side that a grid may leave out; of equally good ones the first is taken."""

CROWD = 8 / CELLS
"""Largest share of the sampled values that a cell of several values may hold and have one code: eight times its own."""

SEARCHED = 256
"""Marks a cell that has several codes."""

MOST_SEARCHED = 0.3
"""Share of the sampled values in marked cells beyond which all are marked: looking first costs more than it saves."""

HALVES = (128, 64, 32, 16, 8, 4, 2, 1)
"""Steps of a search among the edges of up to 256 bins."""


class PairBins(NamedTuple):
    """How values become codes, as kernels take it.

    Attributes
    ----------
    low, scale
        Where each column's grid begins, and cells in a unit, shape (n_columns,).
    code
        The code of each cell, or `SEARCHED`, shape (n_columns, `CELLS`).
    edges
        The largest value of each code and those below it; infinite for the last code and beyond it. Shape (n_columns,
        max_bins rounded up to a power of two).
    """

    low: Floats
    scale: Floats
    code: NDArray[np.uint16]
    edges: Floats

    @classmethod
    def of(cls, pairs: PointPairs, max_bins: int) -> PairBins:
        """Bins of the columns, from at most `SAMPLED` of the pairs; of two extremes those of the points themselves."""
        n = pairs.shape[1]
        low, scale = np.zeros(n), np.zeros(n)
        code, edges = np.zeros((n, CELLS), np.uint16), np.full((n, 1 << (max_bins - 1).bit_length()), np.inf)
        n_extremes = pairs.columns.n_of_family if pairs.columns.family == "max_min" else 0
        some, points = _sampled(pairs), _sampled_points(pairs)
        for column in range(n):
            sample = BinSample.of(points if column < n_extremes else some, column)
            grid = min((sample.grid(tails, max_bins) for tails in TAILS), key=lambda grid: grid.share)
            found, code[column] = grid.coded(sample, max_bins)
            low[column], scale[column], edges[column, : len(found)] = grid.low, grid.scale, found
        return cls(low, scale, code, edges)


def _sampled(pairs: PointPairs) -> PointPairs:
    """At most `SAMPLED` of the pairs."""
    rows = _evenly(len(pairs.left))
    return pairs.of_pairs(pairs.left[rows], pairs.right[rows])


def _sampled_points(pairs: PointPairs) -> PointPairs:
    """At most `SAMPLED` of the pairs' points, each with itself; first all that are left in a pair."""
    pair = _evenly(2 * len(pairs.left))
    is_left, row = pair < len(pairs.left), pair % len(pairs.left)
    points = np.where(is_left, pairs.left[row], pairs.right[row])
    return pairs.of_pairs(points, points)


def _evenly(n: int) -> Ints:
    return np.arange(0, n, 1 + (n - 1) // SAMPLED)


@dataclass(frozen=True)
class BinSample:
    """The distinct values of a column of some pairs, ascending, and how often each of them is there."""

    values: Floats
    counts: Ints

    @classmethod
    def of(cls, pairs: PointPairs, column: int) -> BinSample:
        """All values of the column."""
        n = len(pairs.left)
        values = pairs.entries(np.arange(n, dtype=np.int32), np.full(n, column, np.int32))
        return cls(*np.unique(values, return_counts=True))

    def grid(self, tails: float, max_bins: int) -> Grid:
        """The grid that leaves out a share of the values on either side.

        A cell has one code if it holds one value, or no more than `CROWD` of values that need not have bins each.
        """
        total, ranks = self.counts.sum(), np.cumsum(self.counts)
        most = CROWD * total if len(self.values) > max_bins else 0.0
        out = int(tails * total)
        low, high = self.values[np.searchsorted(ranks, [out, total - 1 - out], side="right")].tolist()
        scale = CELLS / (high - low) if low < high else 1.0
        cells = _cells(self.values, low, scale)
        held = np.bincount(cells, self.counts, CELLS)
        searched = (np.bincount(cells, minlength=CELLS) > 1) & (held > most)
        share = held[searched].sum() / total
        return Grid(low, scale, searched | (share > MOST_SEARCHED), float(share))


@dataclass(frozen=True)
class Grid:
    """Cells of equal width: where they begin, how many in a unit, which are searched, and what share of values is."""

    low: float
    scale: float
    searched: NDArray[np.bool_]
    share: float

    def coded(self, sample: BinSample, max_bins: int) -> tuple[Floats, NDArray[np.int64]]:
        """The ends of all codes but the last, and the code of each cell.

        A code ends in the middle between two values or, where that is in a cell of one code, at the end of a cell.
        """
        cells = _cells(sample.values, self.low, self.scale)
        first = np.flatnonzero(np.append(True, self.searched[cells[1:]] | (np.diff(cells) > 0)))
        last = np.append(first[1:], len(cells)) - 1
        ends = _ends(np.add.reduceat(sample.counts, first), max_bins)
        below, above = last[ends], first[ends + 1]
        edges: Floats = sample.values[below] + (sample.values[above] - sample.values[below]) / 2.0
        end = _cells(edges, self.low, self.scale)
        moved = ~self.searched[end]
        end[moved] = np.minimum(end, cells[above] - 1)[moved]
        edges[moved] = _upper_ends(end[moved], self.low, self.scale)
        return edges, np.where(self.searched, SEARCHED, np.searchsorted(end, np.arange(CELLS)))


def _ends(counts: Ints, max_bins: int) -> Ints:
    """The last of each code but the last, of ascending values, or cells, that are there so often.

    A value has the code of its middle pair, or a code of its own where there are no more values than bins.
    """
    if len(counts) <= max_bins:
        return np.arange(len(counts) - 1)
    middle = 2 * np.cumsum(counts) - counts
    return np.flatnonzero(np.diff(middle * max_bins // (2 * counts.sum())))


def _cells(values: Floats, low: float, scale: float) -> NDArray[np.int64]:
    cells: NDArray[np.int64] = np.floor(((values - low) * scale).clip(0.0, CELLS - 1.0)).astype(np.int64)
    return cells


def _upper_ends(cells: NDArray[np.int64], low: float, scale: float) -> Floats:
    """The largest float32 in each cell or below it, as a value is coded: by halves, about where it must be.

    The estimate is off by a few roundings of float64; around 0 there are a thousand million float32 within those.
    """
    guess, off = low + (cells + 1) / scale, 8 * np.finfo(np.float64).eps * (abs(low) + CELLS / scale)
    inside, above = _place(guess - off) - 1, _place(guess + off) + 1
    while (above - inside > 1).any():
        middle = (inside + above) // 2
        is_inside = _cells(_at(middle), low, scale) <= cells
        inside, above = np.where(is_inside, middle, inside), np.where(is_inside, above, middle)
    return _at(inside)


def _place(values: Floats) -> NDArray[np.int64]:
    """Places of values, rounded, among the float32 in their order."""
    size = np.abs(values).astype(np.float32).view(np.int32).astype(np.int64)
    return np.where(values < 0, -size, size)


def _at(places: NDArray[np.int64]) -> Floats:
    """The float32 at some places."""
    return np.copysign(np.abs(places).astype(np.int32).view(np.float32), places).astype(np.float64)


@borrowing
def cell_of(value: float, low: float, scale: float) -> np.uint32:
    """floor((value - low) scale), of the first or the last cell for values beyond the grid; unsigned, as an index."""
    return np.uint32(min(max((value - low) * scale, 0.0), CELLS - 1.0))


@borrowing
def code_of(value: float, low: float, scale: float, code: NDArray[np.uint16], edges: Floats) -> np.uint32:
    """The code of the value's cell, or the number of edges below the value."""
    found = np.uint32(code[cell_of(value, low, scale)])
    return found if found < SEARCHED else search(value, edges)


@borrowing
def search(value: float, edges: Floats) -> np.uint32:
    """The number of edges below the value; there is room for a power of two of them, and the last is infinite."""
    below = np.uint32(0)
    for half in HALVES:
        if half < edges.shape[0]:
            below += np.uint32(half) * np.uint32(value > edges[below + np.uint32(half - 1)])
    return below
