"""The dependence screen: which features depend on others, by their ranks only, whatever their scales and distributions.

Features of a manifold depend on each other, features of noise on none. Each feature is cut into B bins of equal
numbers of rows, ties at random. For a pair of features

    G = 2 m MI = 2 (sum o_ab log o_ab - sum o_a log o_a - sum o_b log o_b + m log m)

over the counts of m rows is, if they are independent, about chi-square with df = (B - 1)^2, times a correction of
1 + (B + 1)^2 / (6 m) (Williams, 1976: the tail of G is heavier where cells hold few rows). B is 8, or less where a cell
would hold fewer than `ROWS_IN_CELL` rows on average. Of the p (p - 1) / 2 pairs of p independent features

    c = p (p - 1) / 2 P(chi-square > G / (1 + (B + 1)^2 / (6 m)))

are expected to have a G as large. A feature is significant if c of its largest G is below `FALSE_PAIRS`; its dependence
is u = (largest G - df) / (2 m log B), from 0 to 0.999.

For two features with missing values, the n rows in which neither is missing count. Their G has the correction of n rows
instead of m. As G grows with the rows, such a pair seems less dependent than one without missing values.

A column of categories is read as numbers, with 0 for the most frequent category, 1 for the next, and so on. As ties are
random, G has the same distribution if a pair is independent. Categories that are divided between bins, or share one,
make G smaller than that of the categories themselves.

The screen does not see a feature that is independent of every other feature, such as the height of a swiss roll or a
single bimodal feature.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import scipy

from distforest.growth.cuts.ordering import order_values
from distforest.growth.rng import shuffle, stream
from distforest.jit import kernel, no_refcount
from distforest.sources.arrays import ArraySource, map_of
from distforest.sources.mapped_rows import SAMPLED_AT_ONCE, MappedRows
from distforest.sources.source import Float32s, Floats, Int32s, Ints

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Codes = NDArray[np.uint8]

SCREENED_BINS = 8
NO_BIN = 255
"""The bin of a missing value."""

NO_RANK = -1
"""The rank of a missing value."""

ROWS_IN_CELL = 5
"""Number of rows that a cell of a pair's table should have on average; with fewer, G is too large."""

FALSE_PAIRS = 0.01
"""Expected number of significant pairs in a table of independent features."""

SCREEN_ROWS = 10_000
"""Largest number of rows that a screen reads; if there are more, this number is drawn at random."""

NEAR = 1000
"""Largest number of features whose pairs all get a G; of more, those of the largest `polynomial_statistic`."""

NEAR_ROWS = 256
"""Number of rows from which `polynomial_statistic` is computed."""

SCREEN_TREE = 1 << 40
"""Tree number under which a screen draws."""

_STEPS = 48.0  # the largest of the three polynomials is sqrt(7), and 48 sqrt(7) < 128


@dataclass(frozen=True)
class Screen:
    """The result of a screen."""

    dependence: Floats  # u of each feature, 0 for one that is not significant, shape (n_features,)
    weights: Floats  # how likely each feature should be drawn, shape (n_features,); their sum is 1

    @classmethod
    def from_dependence(cls, largest: Floats, n_rows: int) -> Screen:
        """Return the screen for the largest G of each feature, shape (n_features,), from ``n_rows`` rows.

        Let q be the share of significant features. A feature that is not significant has the weight 1. One that is
        significant has (1 - q (1 - q)) / q^2, but no more than `FALSE_PAIRS` / c, so that weak evidence takes little
        from the others. The weights are then divided by their sum. With enough evidence the significant features get
        1 - q (1 - q) of it, each the same: a stronger dependence may only mean that a feature has a near copy.

        Examples
        --------
        >>> Screen.from_dependence(np.array([3000.0, 3000.0, 40.0, 40.0]), n_rows=1000).weights
        array([0.375, 0.375, 0.125, 0.125])
        >>> Screen.from_dependence(np.array([88.0, 88.0, 40.0, 40.0]), n_rows=1000).weights.round(3)
        array([0.352, 0.352, 0.148, 0.148])
        """
        by_chance = false_pairs(largest, n_rows)
        significant = by_chance < FALSE_PAIRS
        n_bins = bin_count(n_rows)
        u = np.clip((largest - (n_bins - 1) ** 2) / (2.0 * n_rows * math.log(n_bins)), 0.0, 0.999)
        u = np.where(significant, u, 0.0)
        weights = np.ones(len(u))
        if significant.any():
            share = float(significant.mean())
            with np.errstate(divide="ignore", over="ignore"):  # c may be 0
                most = FALSE_PAIRS / by_chance[significant]
            weights[significant] = np.minimum((1.0 - share * (1.0 - share)) / share**2, most)
        return cls(u, weights / weights.sum())


def bin_count(n_rows: int) -> int:
    """Return the number of bins B for ``n_rows`` rows, from 2 to 8.

    Examples
    --------
    >>> [bin_count(m) for m in (10, 60, 100, 200, 320, 10_000)]
    [2, 3, 4, 6, 8, 8]
    """
    return max(2, min(SCREENED_BINS, math.isqrt(n_rows // ROWS_IN_CELL)))


def false_pairs(largest: Floats, n_rows: int) -> Floats:
    """Return the c of each feature: the expected number of pairs of independent features with a G as large.

    Examples
    --------
    >>> false_pairs(np.array([49.0, 110.0, 150.0]), 1000).round(6)
    array([1.498496e+00, 6.000000e-06, 0.000000e+00])
    """
    n_pairs, n_bins = len(largest) * (len(largest) - 1) / 2.0, bin_count(n_rows)
    correction = 1.0 + (n_bins + 1) ** 2 / (6.0 * n_rows)
    return np.asarray(max(n_pairs, 1.0) * scipy.special.chdtrc((n_bins - 1) ** 2, largest / correction))


def screened_rows(seed: int, n_rows: int, most: int = SCREEN_ROWS) -> Int32s:
    """Return the rows that a screen reads, ascending: all, or ``most`` drawn at random, shape (m,)."""
    rows = np.arange(n_rows, dtype=np.int32)
    if n_rows <= most:
        return rows
    shuffle(np.uint64(stream(seed, SCREEN_TREE, 0)), 0, rows, most)  # a kernel returns a signed integer
    return np.sort(rows[:most])


def ranks(
    matrix: Float32s, rows: Int32s, columns: Int32s, seed: int, n_categories: tuple[int, ...] | None = None
) -> Int32s:
    """Return the rank, from 0, of each of ``rows`` in each of ``columns``, equal values in random order; -1 for NaN.

    ``n_categories`` has the number of categories of each column, 0 for a numerical one; None or empty: all are
    numerical. The shape is (n_columns, m).
    """
    rank = np.empty((len(columns), len(rows)), np.int32)
    if n_categories:
        matrix, rows = np.asarray(matrix[rows], np.float32), np.arange(len(rows), dtype=np.int32)
        for column in (column for column in columns if n_categories[column]):
            matrix[:, column] = by_frequency(matrix[:, column])
    places = columns
    if map_of(matrix) is not None:
        matrix = ArraySource.from_values(MappedRows(matrix, False, SAMPLED_AT_ONCE).columns_of(rows, columns)).values
        rows, places = np.arange(len(rows), dtype=np.int32), np.arange(len(columns), dtype=np.int32)
    rank_columns(matrix, rows, places, columns, seed, rank)
    return rank


def by_frequency(codes: Float32s) -> Float32s:
    """Number categories by frequency, the most frequent first, ties by first occurrence; NaN stays.

    Examples
    --------
    >>> by_frequency(np.array([7, 2, np.nan, 5, 2], np.float32)).tolist()
    [1.0, 0.0, nan, 2.0, 0.0]
    """
    seen = ~np.isnan(codes)
    _, first, place, count = np.unique(codes[seen], return_index=True, return_inverse=True, return_counts=True)
    number = np.empty(len(count), np.float32)
    number[np.lexsort((first, -count))] = np.arange(len(count))
    numbered = codes.copy()
    numbered[seen] = number[place.reshape(-1)]
    return numbered


@kernel
def rank_columns(matrix: Float32s, rows: Int32s, columns: Int32s, numbers: Int32s, seed: int, filled: Int32s) -> None:
    """filled[c, r] = rank of matrix[rows[r], columns[c]], -1 for NaN; the rows are shuffled, and then sorted stably.

    A column is shuffled by its own one of the ``numbers``.
    """
    m = rows.shape[0]
    order, keys, spare = np.empty(m, np.int64), np.empty(m, np.uint64), np.empty(m, np.uint64)
    values = np.empty(m)
    for c in range(columns.shape[0]):
        places = np.arange(m)
        shuffle(stream(seed, SCREEN_TREE, numbers[c] + 1), 0, places, m)
        for r in range(m):
            values[r] = matrix[rows[places[r]], columns[c]]
        n = order_values(values, order, keys, spare)
        filled[c] = NO_RANK
        for rank in range(n):
            filled[c, places[order[rank]]] = rank


def bins(ranks_of_columns: Int32s) -> Codes:
    """Return the bin of each rank, floor(B rank / n) over n values, shape (n_columns, m); `NO_BIN` for NaN."""
    m = ranks_of_columns.shape[1]
    n_values = np.maximum(ranks_of_columns.max(axis=1, initial=NO_RANK, keepdims=True).astype(np.int64) + 1, 1)
    codes = (ranks_of_columns.astype(np.int64) * bin_count(m) // n_values).astype(np.uint8)
    codes[ranks_of_columns == NO_RANK] = NO_BIN
    return codes


def largest_dependence(codes: Codes, others: Codes) -> tuple[Floats, Floats]:
    """Return the largest G of each column over the ``others``, shape (k,), and of each of these over the columns.

    Both are bins as `bins` returns them, shapes (k, m) and (l, m); the same array stands for the pairs within it.
    """
    m = codes.shape[1]
    counts = np.arange(m + 1, dtype=np.float64)
    terms = counts * np.log(np.maximum(counts, 1.0))
    of_columns, of_others = np.zeros(len(codes)), np.zeros(len(others))
    compare(codes, others, codes is others, bin_count(m), terms, of_columns, of_others)
    return of_columns, of_others


@kernel
def compare(
    codes: Codes, others: Codes, within: bool, n_bins: int, terms: Floats, of_columns: Floats, of_others: Floats
) -> None:
    """of_columns[a] = max over b of G(a, b) and of_others[b] = max over a; ``within`` one set of columns, over a < b.

    ``terms[o]`` is o log o. A bin `NO_BIN` does not count.
    """
    m = codes.shape[1]
    of_pair = np.empty((2, n_bins), np.int64)
    together = np.zeros(n_bins * n_bins, np.int64)
    alone = np.zeros(n_bins, np.int64)
    for r in range(m):
        alone[r * n_bins // m] += 1  # the same in every complete column: bins of ranks
    margin = 0.0
    for b in range(n_bins):
        margin += terms[alone[b]]
    for a in range(codes.shape[0]):
        for b in range(a + 1 if within else 0, others.shape[0]):
            together[:] = 0
            n = 0
            for r in range(m):
                if codes[a, r] != NO_BIN and others[b, r] != NO_BIN:
                    together[codes[a, r] * n_bins + others[b, r]] += 1
                    n += 1
            total = 0.0
            for cell in range(n_bins * n_bins):
                total += terms[together[cell]]
            g = 0.0
            if n == m:
                g = 2.0 * float(total - 2.0 * margin + terms[m])
            elif n > 0:
                g = 2.0 * float(total - margins_of(together, of_pair, terms) + terms[n])
                g *= (1.0 + (n_bins + 1) ** 2 / (6.0 * m)) / (1.0 + (n_bins + 1) ** 2 / (6.0 * n))
            of_columns[a] = max(of_columns[a], g)
            of_others[b] = max(of_others[b], g)


@no_refcount
def margins_of(together: Ints, of_pair: Ints, terms: Floats) -> float:
    """Sum ``terms`` over the rows and the columns of a table of counts, shape (B^2,); ``of_pair`` is (2, B)."""
    n_bins, total = of_pair.shape[1], 0.0
    of_pair[:] = 0
    for cell in range(together.shape[0]):
        of_pair[0, cell // n_bins] += together[cell]
        of_pair[1, cell % n_bins] += together[cell]
    for b in range(n_bins):
        total += terms[of_pair[0, b]] + terms[of_pair[1, b]]
    return total


def polynomials(ranks_of_columns: Int32s) -> Float32s:
    """Return Legendre polynomials of degree 1 to 3 of the ranks, in steps of 1/48, shape (3, n_columns, m).

    They are orthonormal over ranks spread from -1 to 1. In whole steps a float32 sum over 256 rows is exact, so it does
    not depend on the order in which a library adds. They are 0 for a missing value, and the ranks of an incomplete
    column are spread over those of all rows.
    """
    m = ranks_of_columns.shape[1]
    x = (2.0 * np.arange(m) + 1.0) / m - 1.0
    table = np.stack(
        [math.sqrt(3.0) * x, math.sqrt(5.0) * (3.0 * x**2 - 1.0) / 2.0, math.sqrt(7.0) * (5.0 * x**3 - 3.0 * x) / 2.0]
    )
    table -= table.mean(axis=1, keepdims=True)
    steps = np.rint(_STEPS * table).astype(np.float32)
    lacks = ranks_of_columns == NO_RANK
    if not lacks.any():
        return steps[:, ranks_of_columns]
    n_values = np.maximum(m - lacks.sum(axis=1, keepdims=True), 1)
    found = steps[:, np.where(lacks, 0, ranks_of_columns.astype(np.int64) * m // n_values)]
    found[:, lacks] = 0.0
    return found


def polynomial_statistic(columns: Float32s, others: Float32s) -> Floats:
    """Return the sum of the squared products of the polynomials of two columns: their dependence if it is smooth.

    Both are as `polynomials` returns them, shapes (3, k, m) and (3, l, m). Over m rows the sum, a whole number, is m
    times that of nine squared correlations, in other units; shape (k, l).
    """
    total = np.zeros((columns.shape[1], others.shape[1]))
    for left in columns:
        for right in others:
            total += np.square((left @ right.T).astype(np.float64))
    return total


def nearest_features(statistic: Floats, n_kept: int = NEAR) -> Ints:
    """Return the ``n_kept`` features of the largest statistic, in ascending order; of ties the first."""
    order = np.lexsort((np.arange(len(statistic)), -statistic))
    return np.sort(order[:n_kept])
