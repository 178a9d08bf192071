"""Draws of columns: the projections that an open node tries, which depend only on the node's random stream."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from distforest.amounts import are
from distforest.errors import InputError
from distforest.forest.frontier import Frontier
from distforest.growth.cuts.fences import fence_columns
from distforest.growth.rng import Keys, below, mix, unit
from distforest.jit import kernel
from distforest.sources.arrays import ArraySource, map_of, row_blocks
from distforest.sources.mapped_rows import SAMPLED_AT_ONCE, MappedRows
from distforest.sources.source import Float32s, Floats, Int32s, Ints, Projections, offsets

COLUMN_TRIES = 32
"""Number of consecutive draws of a column that a candidate already has, after which it draws no more."""


class Draw(Protocol):
    """Candidate projections of open nodes; a node without a cut draws again, ``attempts`` times in all."""

    @property
    def width(self) -> int:
        """Number of candidates of a node in one attempt."""

    @property
    def attempts(self) -> int:
        """Largest number of attempts of a node."""

    def __call__(self, frontier: Frontier, keys: Keys, attempt: int) -> Projections:
        """Return the candidates of each node of ``frontier``, from ``keys``, the nodes' streams, shape (n_nodes,).

        A width of 0 means that no node can draw any more.
        """


class Terms(NamedTuple):
    """Working arrays for the columns of candidates and their weights, which a draw fills candidate by candidate."""

    size: Ints  # number of columns of each candidate, shape (n_candidates,)
    # columns, weights: columns and their weights, shape (most,), for all candidates
    columns: Int32s
    weights: Floats

    @classmethod
    def room(cls, n_candidates: int, most: int) -> Terms:
        """Allocate the arrays for ``most`` columns of ``n_candidates`` candidates."""
        return cls(np.empty(n_candidates, np.int64), np.empty(most, np.int32), np.empty(most))

    def projections(self, width: int, filled: int) -> Projections:
        """Return the candidates, ``width`` for each node, with ``filled`` columns in all."""
        return Projections(width, offsets(self.size), self.columns[:filled], self.weights[:filled])


@dataclass(frozen=True)
class Axis:
    """Single columns, ``width`` at a time along a random order of all ``n_columns``, until they are used up."""

    n_columns: int
    width: int
    among: Int32s | None = None  # the columns, shape (n_columns,); None: 0, 1, ...

    @property
    def attempts(self) -> int:
        """The number of attempts in which a node tries every column."""
        return -(-self.n_columns // self.width)

    def __call__(self, frontier: Frontier, keys: Keys, attempt: int) -> Projections:
        """Return the entries attempt * width, ... of each node's order of the columns."""
        first = attempt * self.width
        return self._entries(frontier, keys, first, min(self.width, self.n_columns - first))

    def rest(self, frontier: Frontier, keys: Keys, attempt: int) -> Projections:
        """Return the candidates of this attempt and of all later ones, in order."""
        first = attempt * self.width
        return self._entries(frontier, keys, first, self.n_columns - first)

    def _entries(self, frontier: Frontier, keys: Keys, first: int, width: int) -> Projections:
        """Return ``width`` entries of each node's order of the columns, from number ``first`` on."""
        columns = np.empty((frontier.n_nodes, width), np.int32)
        axis_columns(keys, self.n_columns, first, columns)
        n, drawn = frontier.n_nodes * width, columns.reshape(-1)
        drawn = drawn if self.among is None else self.among[drawn]
        return Projections(width, np.arange(n + 1, dtype=np.int64), drawn, np.ones(n))


@kernel
def axis_columns(keys: Keys, n_columns: int, first: int, columns: Int32s) -> None:
    """Fill in entries first, first + 1, ... of a Fisher-Yates shuffle of 0..n_columns-1, one shuffle for each key."""
    order = np.arange(n_columns)
    swapped = np.empty(n_columns, np.int64)
    last = first + columns.shape[1]
    for f in range(keys.shape[0]):
        for t in range(last):
            swapped[t] = t + below(keys[f], t, n_columns - t)
            order[t], order[swapped[t]] = order[swapped[t]], order[t]
        for t in range(first, last):
            columns[f, t - first] = order[t]
        for t in range(last - 1, -1, -1):  # undo the swaps, so that a node takes ``last`` steps, not ``n_columns``
            order[t], order[swapped[t]] = order[swapped[t]], order[t]


@dataclass(frozen=True)
class Oblique:
    """Sparse sums of columns (SMERF, section 2; Tomita et al., SPORF).

    Each of the ``width`` candidates reads one column, and ``width * (combinations - 1)`` further columns (rounded) are
    distributed among them at random; the columns of one candidate differ. A column's coefficient is +1 or -1, or is
    normal with a standard deviation of ``scales`` of the column, shape (n_columns,), since collinear columns would
    cancel exactly with signs.
    """

    columns: ColumnWeights
    width: int
    combinations: float
    scales: Floats | None = None
    attempts: int = 3

    def __call__(self, frontier: Frontier, keys: Keys, attempt: int) -> Projections:
        """Return ``width`` candidates for each node."""
        total = self.width + round(self.width * (self.combinations - 1.0))
        terms = Terms.room(frontier.n_nodes * self.width, frontier.n_nodes * total)
        scales = np.empty(0) if self.scales is None else self.scales
        filled = oblique_terms(keys, attempt, self.columns.cumulative, scales, self.width, terms)
        return terms.projections(self.width, filled)


@kernel
def oblique_terms(keys: Keys, attempt: int, cumulative: Floats, scales: Floats, width: int, terms: Terms) -> int:
    """Fill ``terms`` with the distinct columns of each candidate and their coefficients; return their total number.

    The number of columns of a candidate is drawn first. A candidate that draws only columns it has `COLUMN_TRIES` times
    in a row keeps those it has, as the others may have a weight of 0.
    """
    size, columns, weights = terms
    extra = columns.shape[0] // keys.shape[0] - width if keys.shape[0] else 0
    filled = 0
    for f in range(keys.shape[0]):
        key = mix(keys[f] + np.uint64(attempt))
        drawn = 0
        n_columns = size[f * width : (f + 1) * width]
        n_columns[:] = 1
        for _ in range(extra):
            n_columns[below(key, drawn, width)] += 1
            drawn += 1
        for k in range(width):
            begin, tries = filled, 0
            while filled < begin + n_columns[k] and tries < COLUMN_TRIES:
                column = column_at(cumulative, unit(key, drawn))
                if column in columns[begin:filled]:
                    tries += 1
                else:
                    columns[filled] = column
                    weights[filled] = coefficient(key, drawn + 1, column, scales)
                    filled, tries = filled + 1, 0
                drawn += 3
            n_columns[k] = filled - begin
    return filled


@kernel
def coefficient(key: np.uint64, draw: int, column: int, scales: Floats) -> float:
    """+1 or -1; or, normal, scales[column] sqrt(-2 log(1 - u)) cos(2 pi v) (Box, Muller, 1958), u and v two draws."""
    u = unit(key, draw)
    if scales.shape[0] == 0:
        return 1.0 if u < 0.5 else -1.0
    return scales[column] * math.sqrt(-2.0 * math.log(1.0 - u)) * math.cos(2.0 * math.pi * unit(key, draw + 1))


@dataclass(frozen=True)
class CategoriesAlone:
    """The candidates of a draw; a candidate whose first column is categorical reads no other, and others read none."""

    draw: Draw  # draws single columns and sums
    n_categories: Int32s  # number of categories of each column, 0 for a numerical column, shape (n_columns,)

    @property
    def width(self) -> int:
        """The width of the draw."""
        return self.draw.width

    @property
    def attempts(self) -> int:
        """The attempts of the draw."""
        return self.draw.attempts

    def __call__(self, frontier: Frontier, keys: Keys, attempt: int) -> Projections:
        """Return the candidates of each node."""
        drawn = self.draw(frontier, keys, attempt)
        begin, size = drawn.offset[:-1], np.diff(drawn.offset)
        candidate = np.repeat(np.arange(len(size)), size)
        is_first = np.zeros(len(drawn.columns), np.bool_)
        is_first[begin[size > 0]] = True
        holds_categories = self.n_categories[drawn.columns] > 0
        begins_with_categories = np.zeros(len(size), np.bool_)
        begins_with_categories[size > 0] = holds_categories[begin[size > 0]]
        kept = np.where(begins_with_categories[candidate], is_first, ~holds_categories)
        weights = np.where(holds_categories, 1.0, drawn.weights)[kept]
        sizes = np.bincount(candidate[kept], minlength=len(size))
        return Projections(drawn.width, offsets(sizes), drawn.columns[kept], weights)


@dataclass(frozen=True)
class ColumnWeights:
    """Weights of columns, as shares of one.

    Examples
    --------
    >>> weights = ColumnWeights.from_weights(np.array([3.0, 0.0, 1.0]))
    >>> weights.cumulative.tolist(), round(weights.effective, 3)
    ([0.75, 0.75, 1.0], 1.6)
    """

    cumulative: Floats  # sum of the shares of each column and all before it, shape (n_columns,)

    @classmethod
    def from_weights(cls, weights: Floats) -> ColumnWeights:
        """Normalise weights, shape (n_columns,).

        Raise InputError unless all are finite, none is negative and some are positive.
        """
        good = np.isfinite(weights) & (weights >= 0.0)
        if weights.ndim != 1 or not good.all() or not (weights > 0.0).any():
            n_bad = int((~good).sum())
            found = f"{n_bad} that {are(n_bad)} not" if n_bad else "none that is positive"
            raise InputError(f"feature_weights must be finite, not negative and not all 0, found {found}")
        scaled = np.ldexp(weights, -np.frexp(weights.max())[1])  # no bit is lost, and their sum has a float
        total = np.cumsum(scaled, dtype=np.float64)
        return cls(total / total[-1])

    @classmethod
    def uniform(cls, n_columns: int) -> ColumnWeights:
        """Return the same weight for every column."""
        return cls.from_weights(np.ones(n_columns))

    @property
    def shares(self) -> Floats:
        """The share of each column, shape (n_columns,)."""
        return np.diff(self.cumulative, prepend=0.0)

    @property
    def effective(self) -> float:
        """The effective number of columns, 1 / sum of squared shares: it is n for n columns of equal weight."""
        return float(1.0 / (self.shares**2).sum())

    @property
    def n_candidates(self) -> int:
        """The effective number of columns to the power 3/4, rounded up: ``max_features="effective"``."""
        return max(1, math.ceil(round(self.effective, 9) ** 0.75))


@kernel
def column_at(cumulative: Floats, share: float) -> int:
    """Return the first column whose cumulative weight is above ``share``; it is never a column of weight 0."""
    low, high = 0, cumulative.shape[0] - 1
    while low < high:
        middle = (low + high) >> 1
        if cumulative[middle] > share:
            high = middle
        else:
            low = middle + 1
    return low


@kernel
def draw_columns(keys: Keys, first: int, cumulative: Floats, columns: Int32s) -> None:
    """columns[f, e] = the column at the share that node f draws at place first + e of its stream."""
    for f in range(keys.shape[0]):
        for e in range(columns.shape[1]):
            columns[f, e] = column_at(cumulative, unit(keys[f], first + e))


def inverse_deviations(matrix: Float32s, rows: Int32s, present: Ints | None = None) -> Floats:
    """Return 1 / the standard deviation of each column's values within its fences; 0 for a constant column.

    NaN is omitted. The fences of ``matrix``, shape (n_rows, n_columns), are computed from its ``rows``, which ascend,
    see `distforest.growth.cuts.fences`. ``present`` are the rows that count, ascending; None: all.

    Examples
    --------
    >>> inverse_deviations(np.array([[1, 5], [3, 5]], np.float32), np.arange(2))
    array([1., 0.])
    """
    n_columns = matrix.shape[1]
    fences, inverse = np.empty((2, n_columns)), np.empty(n_columns)
    if map_of(matrix) is None:
        fence_columns(matrix, rows, fences)
    else:
        sample = MappedRows(matrix, False, SAMPLED_AT_ONCE).columns_of(rows, np.arange(n_columns, dtype=np.int32))
        fence_columns(ArraySource.from_values(sample).values, np.arange(len(rows), dtype=np.int32), fences)
    middle, bounded = np.full(n_columns, np.nan), fences[1] < np.inf
    middle[bounded] = fences[0, bounded] + (fences[1, bounded] - fences[0, bounded]) / 2.0
    moments = np.zeros((3, n_columns))
    for first, block in row_blocks(matrix):
        own = block
        if present is not None:
            begin, end = np.searchsorted(present, (first, first + len(block)))
            own = block[present[begin:end] - first]
        add_deviations(ArraySource.from_values(own).values, fences, middle, moments)
    invert_deviations(moments, inverse)
    return inverse


@kernel
def add_deviations(matrix: Float32s, fences: Floats, middle: Floats, moments: Floats) -> None:
    """moments[:, c] += number, sum and sum of squares of the values within the fences, in row order.

    The values are taken about the ``middle`` of their fences, or about the first one if the fences are infinite, which
    is NaN until a block has it.
    """
    for c in range(matrix.shape[1]):
        first = 0
        while np.isnan(middle[c]) and first < matrix.shape[0]:
            middle[c] = np.float64(matrix[first, c])
            first += 1
    for r in range(matrix.shape[0]):
        for c in range(matrix.shape[1]):
            x = np.float64(matrix[r, c])
            if fences[0, c] <= x <= fences[1, c]:
                moments[0, c] += 1.0
                moments[1, c] += x - middle[c]
                moments[2, c] += (x - middle[c]) ** 2


@kernel
def invert_deviations(moments: Floats, inverse: Floats) -> None:
    """inverse[c] = 1 / sqrt(mean of squares - square of mean), from `add_deviations`."""
    for c in range(moments.shape[1]):
        n, total, square = moments[0, c], moments[1, c], moments[2, c]
        if n == 0.0:  # all values are missing
            inverse[c] = 0.0
            continue
        variance = square / n - (total / n) ** 2
        inverse[c] = 1.0 / math.sqrt(variance) if variance > 1e-14 * square / n else 0.0
