"""Bins of the columns of pairs: the code of a value is read from a table, and the columns are never stored.

::

    value    low   low + 1/scale   ...               beyond the grid: the first or the last cell
    cell      0  |  1  |  2  |  3  | ... | 1023      floor((value - low) scale)
    code      0     0     1     1    ...    255      about as many pairs in each code

A cell may hold too many values, because of a far row, a sentinel or a long tail. It then has several codes: it is
marked, and a binary search among the edges gives the code. Where many values are in such cells, all cells are marked.

A code is at most b exactly where the value, a float32, is at most ``edges[column, b]``. If points lack values, no value
has the last code, which then is that of missing pairs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from distforest.jit import no_refcount
from distforest.sources.point_pairs import OF_NUMBERS, PointPairs
from distforest.sources.source import Floats, Ints

CELLS = 1024
SAMPLED = 4096
"""Largest number of pairs, evenly spaced, from which the bins are computed."""

TAILS = (0.002, 0.0, 0.02, 0.1)
"""Shares of the sampled values on either side that a grid may leave out; the first of equally good ones is used."""

CROWD = 8 / CELLS
"""Largest share of the sampled values in a cell of several values that has one code: eight times an equal share."""

SEARCHED = 256
"""The mark of a cell that has several codes."""

MOST_SEARCHED = 0.3
"""Share of the sampled values in marked cells beyond which all are marked: the table then costs more than it saves."""

HALVES = (128, 64, 32, 16, 8, 4, 2, 1)
"""Steps of a binary search among the edges of up to 256 bins."""


class PairBins(NamedTuple):
    """How values become codes, as kernels take it: a grid of `CELLS` cells for each column."""

    # low, scale: start of the grid of each column, and number of its cells per unit, shape (n_columns,)
    low: Floats
    scale: Floats
    code: NDArray[np.uint16]  # the code of each cell, or `SEARCHED`, shape (n_columns, `CELLS`)
    # Largest value of each code; infinite from the last code on. Shape (n_columns, max_bins rounded up to a power of
    # two).
    edges: Floats

    @classmethod
    def from_pairs(cls, pairs: PointPairs, max_bins: int) -> PairBins:
        """Compute bins from at most `SAMPLED` of the pairs; those of maxima and minima from the points themselves.

        Of a feature of categories, the codes of [x != x'] are 0 and 1, and unordered pairs have none.
        """
        n, n_codes = pairs.shape[1], max_bins
        if not pairs.is_complete:  # codes are of 8 bits, also that of missing pairs
            max_bins = min(max_bins, SEARCHED - 1)
            n_codes = max_bins + 1
        low, scale = np.zeros(n), np.zeros(n)
        code, edges = np.zeros((n, CELLS), np.uint16), np.full((n, 1 << (n_codes - 1).bit_length()), np.inf)
        n_extremes = pairs.columns.n_of_family if pairs.columns.family == "max_min" else 0
        some, points = _sampled(pairs)
        categories = np.flatnonzero(pairs.columns.kinds != OF_NUMBERS)
        scale[categories], code[categories, 1:], edges[categories, 0] = CELLS, 1, 0.0
        for column in range(n):
            if column < pairs.columns.n_of_family and column % pairs.columns.n_features in categories:
                continue
            sample = BinSample.from_pairs(points if column < n_extremes else some, column)
            grid = min((sample.grid(tails, max_bins) for tails in TAILS), key=lambda grid: grid.share)
            ends, code[column] = grid.coded(sample, max_bins)
            low[column], scale[column], edges[column, : len(ends)] = grid.low, grid.scale, ends
        return cls(low, scale, code, edges)


def _sampled(pairs: PointPairs) -> tuple[PointPairs, PointPairs]:
    """At most `SAMPLED` of the pairs; and of their points, the left ones first, each paired with itself."""
    n = len(pairs.left)
    rows, ends = (np.arange(0, total, 1 + (total - 1) // SAMPLED) for total in (n, 2 * n))
    points = np.where(ends < n, pairs.left[ends % n], pairs.right[ends % n])
    return pairs.of_pairs(pairs.left[rows], pairs.right[rows]), pairs.of_pairs(points, points)


@dataclass(frozen=True)
class BinSample:
    """The distinct values of a column of some pairs, ascending, and how often each of them occurs."""

    values: Floats
    counts: Ints

    @classmethod
    def from_pairs(cls, pairs: PointPairs, column: int) -> BinSample:
        """Read all values of the column; if all are missing, a zero stands for them."""
        n = len(pairs.left)
        values = pairs.entries(np.arange(n, dtype=np.int32), np.full(n, column, np.int32))
        observed = values if pairs.is_complete else values[~np.isnan(values)]
        return cls(*np.unique(observed if len(observed) else np.zeros(1), return_counts=True))

    def grid(self, tails: float, max_bins: int) -> Grid:
        """Lay a grid that leaves out a share of the values on either side.

        A cell has one code if it holds a single value. Where there are more values than bins, it also has one code if
        it holds no more than `CROWD` of the values.
        """
        total, ranks = int(self.counts.sum()), np.cumsum(self.counts)
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
    """Cells of equal width: their start, number per unit, which are searched, and the share of values in those."""

    low: float
    scale: float
    searched: NDArray[np.bool_]
    share: float

    def coded(self, sample: BinSample, max_bins: int) -> tuple[Floats, NDArray[np.int64]]:
        """Compute the upper ends of all codes but the last, and the code of each cell.

        A code ends halfway between two values. If that place is in a cell of one code, the code ends where a cell ends.
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
    """The last value (or cell) of each code but the last, from how often each of the ascending values occurs.

    The code of a value is that of its middle pair. Where there are no more values than bins, each has its own code.
    """
    if len(counts) <= max_bins:
        return np.arange(len(counts) - 1)
    middle = 2 * np.cumsum(counts) - counts
    return np.flatnonzero(np.diff(middle * max_bins // (2 * counts.sum())))


def _cells(values: Floats, low: float, scale: float) -> NDArray[np.int64]:
    cells: NDArray[np.int64] = np.floor(((values - low) * scale).clip(0.0, CELLS - 1.0)).astype(np.int64)
    return cells


def _upper_ends(cells: NDArray[np.int64], low: float, scale: float) -> Floats:
    """The largest float32 in each cell or below it, by a binary search around an estimate.

    The estimate is off by a few roundings of float64; around 0 these span some 10^9 numbers of float32.
    """
    estimate, error = low + (cells + 1) / scale, 8 * np.finfo(np.float64).eps * (abs(low) + CELLS / scale)
    inside, above = _place(estimate - error) - 1, _place(estimate + error) + 1
    while (above - inside > 1).any():
        middle = (inside + above) // 2
        is_inside = _cells(_at(middle), low, scale) <= cells
        inside, above = np.where(is_inside, middle, inside), np.where(is_inside, above, middle)
    return _at(inside)


def _place(values: Floats) -> NDArray[np.int64]:
    """Ranks of values, rounded to float32, among all numbers of float32: 0 for 0.0."""
    size = np.abs(values).astype(np.float32).view(np.int32).astype(np.int64)
    return np.where(values < 0, -size, size)


def _at(places: NDArray[np.int64]) -> Floats:
    """The numbers of float32 with these ranks: the inverse of `_place`."""
    return np.copysign(np.abs(places).astype(np.int32).view(np.float32), places).astype(np.float64)


@no_refcount
def cell_of(value: float, low: float, scale: float) -> np.uint32:
    """floor((value - low) scale), the first or the last cell for values beyond the grid; unsigned, as an index.

    The first cell for NaN: ``max`` is its first argument unless the second is greater.
    """
    return np.uint32(min(max(0.0, (value - low) * scale), CELLS - 1.0))


@no_refcount
def code_of(value: float, low: float, scale: float, code: NDArray[np.uint16], edges: Floats) -> np.uint32:
    """The code of the value's cell, or the number of edges below the value."""
    of_cell = np.uint32(code[cell_of(value, low, scale)])
    return of_cell if of_cell < SEARCHED else search(value, edges)


@no_refcount
def search(value: float, edges: Floats) -> np.uint32:
    """The number of edges below the value; the number of edges is a power of two, and the last is infinite."""
    below = np.uint32(0)
    for half in HALVES:
        if half < edges.shape[0]:
            below += np.uint32(half) * np.uint32(value > edges[below + np.uint32(half - 1)])
    return below
