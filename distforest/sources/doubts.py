"""Doubts about features and labels: what is legal, but may be read otherwise than it was meant.

A function says in a few words what it has found, or nothing. Who asks adds what is to be done where that depends on the
door, and tells the user. Nothing here changes what is read. See also `distforest.sources.distance_doubts`.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from distforest.sources.feature_names import FeatureNames
    from distforest.sources.source import Float32s, Floats, Ints

MOST_ROWS, FEWEST_ROWS, MOST_CELLS = 2000, 32, 1 << 21
"""Rows that columns are judged by, at most, and where columns are so many that they would have more cells in all."""

NOISE = 19
"""Bits of a float64 that are taken for noise: numbers that agree to 10 digits are one, computed in two ways."""

OF_SUMS = {"linear": (4, 1e-3), "rbf": (4, 1e-3)}
"""Of columns' standard deviations to that power, the share of all others below which they hardly count beside one.

Cuts read differences of sums over the columns, to which a column adds products of two of its values: their variance is
that of the column, squared. Measured on wine and breast cancer, scaled, beside a column of noise: at 1e-3 SimForest
loses 2 to 8 points of accuracy, at 1e-5 5 to 25, at 1e-7 20 to 45. With ``"cosine"`` and ``"manhattan"`` it loses less
than 2."""

OF_RANGES = {"manhattan": (2, 1e-3)}
"""The same where nodes are cut at random places between their extremes, as for outliers."""

NEXT = 0.1
"""Standard deviation of another column, or half its range where most rows are equal, as a share of that of the first,
above which it counts in any case."""

OF_PRODUCTS = ("linear", "cosine")
"""Similarities that add up products of values, which are large where the values are far from 0."""

NEAR_PAIRS, N_PAIRS = 0.1, 1000
"""Share of the pairs of rows, the nearest, by which a column's scale is taken; how many pairs are drawn for it."""

OF_A_NORMAL = math.sqrt(2.0) * 0.12566
"""How far the nearest `NEAR_PAIRS` of pairs of standard normal numbers are apart, at most."""

ROUNDED_AWAY = 1e-14
"""Variance of all other columns, as a share of a column's squares, below which inner products hardly hold it."""

ROWS_OF_A_CLASS = ((10, 2), (20, 20), (30, math.inf))
"""Beyond so many different numbers, these are taken for amounts unless each has so many rows on average."""

ORDER, CHANCE = 0.3, 1e-3
"""Rank correlation of labels and a column that says they are amounts; how likely one column may reach it by chance."""

MOST_COLUMNS = 512
"""Columns that the order of labels is compared with."""


def column_name(number: int, names: FeatureNames | None) -> str:
    """What a column is called in a message."""
    return f"column {number}" if names is None else f"column {names.names[number]!r}"


# --- features ---------------------------------------------------------------------------------------------


class Sample:
    """A few rows of a matrix whose blocks pass by, each row as likely as any other; the same for any blocks.

    A matrix that is float32, or fits into it, costs nothing: none of its rows is kept.

    Attributes
    ----------
    n_rows
        How many have passed.

    Examples
    --------
    >>> sample = Sample()
    >>> sample.see(np.arange(6.0).reshape(3, 2), 0)
    >>> sample.n_rows, sample.rows().shape
    (3, (3, 2))
    """

    def __init__(self) -> None:
        self.n_rows = 0
        self._numbers = np.random.default_rng(0)
        self._held: list[tuple[Floats, np.ndarray]] = []  # keys of rows, and these; the least keys are the sample
        self._beyond = np.inf

    def see(self, values: np.ndarray, first_row: int) -> None:  # noqa: ARG002  (as all that sees blocks)
        """Take a block of rows, shape (n, n_columns)."""
        if np.can_cast(values.dtype, np.float32):
            return
        self.n_rows += len(values)
        keys = self._numbers.random(len(values))
        taken = np.flatnonzero(keys < self._beyond)
        self._held.append((keys[taken], values[taken]))
        if sum(len(keys) for keys, _ in self._held) > 2 * _most_rows(values.shape[1]):
            self.rows()

    def rows(self) -> np.ndarray:
        """The sampled rows, as they were given, shape (n, n_columns)."""
        if not self._held:
            return np.empty((0, 0))
        keys, rows = (np.concatenate(parts) for parts in zip(*self._held, strict=True))
        most = _most_rows(rows.shape[1])
        if len(rows) > most:
            kept = np.argpartition(keys, most)[:most]
            keys, rows = keys[kept], rows[kept]
            self._beyond = float(keys.max())
        self._held = [(keys, rows)]
        return rows


def _most_rows(n_columns: int) -> int:
    """How many rows columns are judged by, at most."""
    return min(MOST_ROWS, max(FEWEST_ROWS, MOST_CELLS // max(1, n_columns)))


def told_of_rounding(sample: Sample, names: FeatureNames | None = None) -> str:
    """Which columns of features lose most of their different values as these are rounded to float32; else nothing.

    A column is told of if float32 leaves less than half of its different values, or one of several. Then they lie
    within about as many steps of float32 as the sample has rows, or are too small for it. Values that are spread as
    wide as they are large lose next to none: from 1 to 2 there are 2^23 steps. Numbers that are there twice, in float64
    and in float32, lose half, and nothing is lost.

    Examples
    --------
    >>> sample = Sample()
    >>> sample.see(1.7e9 + np.arange(1000.0)[:, None], 0)
    >>> told_of_rounding(sample)
    'features are held as float32, which leaves 9 of 1,000 different values of column 0 in 1,000 rows; subtract its
    least, 1700000000, first'
    """
    rows = sample.rows()
    columns, left = _rounded(rows)
    if not len(columns):
        return ""
    values = rows[:, columns[0]]
    among = f"{len(rows):,} {'' if len(rows) == sample.n_rows else f'of {sample.n_rows:,} '}rows"
    different = f"{left[0]:,} of {len(np.unique(values)):,} different values"
    found = f"features are held as float32, which leaves {different} of {column_name(columns[0], names)} in {among}"
    is_tiny = float(np.median(np.abs(values))) < np.finfo(np.float32).smallest_normal
    cure = "multiply it, or take its logarithm" if is_tiny else f"subtract its least, {values.min():.10g}"
    others = ", ".join(column_name(column, names) for column in columns[1:4])
    more = f" and {len(columns) - 4:,} more" if len(columns) > 4 else ""
    return f"{found}; {cure}, first{f'. So it is with {others}{more}' if others else ''}"


def _rounded(rows: np.ndarray) -> tuple[Ints, Ints]:
    """The columns that lose most of their different values as float32, and how many float32 leaves of each."""
    narrow = rows.astype(np.float32)
    moved = np.abs(rows.astype(np.float64)) > 2.0**24 if rows.dtype.kind in "iu" else narrow != rows
    columns = np.flatnonzero(moved.any(axis=0))
    left = _n_different(narrow[:, columns])
    few = left <= len(rows) / 2
    columns, left = columns[few], left[few]
    different = _n_different(_without_noise(rows[:, columns]))
    lost = ((left < different / 2) | (left == 1)) & (left < different)
    return columns[lost], left[lost]


def _n_different(values: np.ndarray) -> Ints:
    """How many different values each column has."""
    ordered = np.sort(np.ascontiguousarray(values.T), axis=1)
    return 1 + np.count_nonzero(ordered[:, 1:] != ordered[:, :-1], axis=1)


def _without_noise(values: np.ndarray) -> np.ndarray:
    """Numbers in their place that are equal where the values are, but for the last bits of floating point."""
    if values.dtype.kind != "f":
        return values
    bits = np.ascontiguousarray(values.astype(np.float64) + 0.0).view(np.int64)  # 0.0 in the place of -0.0
    return (bits + (1 << (NOISE - 1))) >> NOISE


def told_of_scales(
    features: Float32s, similarity: str, names: FeatureNames | None = None, random_cuts: bool = False
) -> str:
    """Which column is nearly all that a built-in similarity adds up, so that the others do not count; else nothing.

    A far row, or a mark such as -9999 in any share of the rows, hides no other column: among the rows that have it, and
    among those that have it not, the others count. So a column's scale is that of its near pairs of rows.

    Parameters
    ----------
    features
        Shape (n, p).
    similarity
        One of `distforest.sources.kernels.KERNELS`.
    names
        What the columns are called.
    random_cuts
        Whether nodes are cut at random places, as by `distforest.growth.isolation`.

    Examples
    --------
    >>> features = np.random.default_rng(0).normal(size=(50, 3)) * [1, 2, 500]
    >>> told_of_scales(features, "linear")
    "column 2 is nearly all that 'linear' adds up: it spreads by 492, the next, column 1, by 1.48; scale the columns
    first, say each by its standard deviation"
    """
    n_rows, n_columns = features.shape
    if n_rows < 3 or n_columns < 2:
        return ""
    most = _most_rows(n_columns)
    drawn = np.random.default_rng(0).permutation(n_rows)[:most] if n_rows > most else slice(None)
    rows = np.asarray(features[drawn], np.float64)
    spread = _spreads(rows)
    scales = np.where(spread > 0.0, spread, rows.std(axis=0))  # of a column whose rows are mostly equal
    reach = np.where(spread > 0.0, spread, np.ptp(rows, axis=0) / 2.0)  # where it matters that they are not
    first, second = (int(column) for column in np.argsort(-scales, kind="stable")[:2])
    shares = OF_SUMS if not random_cuts else {**OF_SUMS, **OF_RANGES}
    cure = "scale the columns first, say each by its standard deviation"
    if spread[first] > 0.0 and similarity in shares and _is_alone(scales, reach, first, *shares[similarity]):
        found = f"{column_name(first, names)} is nearly all that {similarity!r} adds up: it spreads by"
        next_one = f"the next, {column_name(second, names)}, by {scales[second]:.3g}"
        return f"{found} {scales[first]:.3g}, {next_one}; {cure}"
    size = np.sqrt(np.median(rows**2, axis=0))
    large = int(np.argmax(size))
    if similarity in OF_PRODUCTS and 0.0 < (np.delete(scales, large) ** 2).sum() < ROUNDED_AWAY * size[large] ** 2:
        found = (
            f"{column_name(large, names)} is so large, about {size[large]:.3g}, that {similarity!r} rounds the others"
        )
        return f"{found} away; {cure}"
    return ""


def _is_alone(scales: Floats, reach: Floats, first: int, power: int, share: float) -> bool:
    """Whether a column has nearly all of the sum of scales to a power, and another varies but none reaches near it."""
    rest = float((np.delete(scales, first) ** power).sum())
    farthest = float(np.delete(reach, first).max())
    return 0.0 < farthest <= NEXT * scales[first] and rest < share * scales[first] ** power


def _spreads(rows: Floats) -> Floats:
    """The standard deviation of each column, by how far the nearest of pairs of rows are apart: see `NEAR_PAIRS`."""
    numbers = np.random.default_rng(0)
    left = numbers.integers(len(rows), size=N_PAIRS)
    right = (left + numbers.integers(1, len(rows), size=N_PAIRS)) % len(rows)
    found: Floats = np.quantile(np.abs(rows[left] - rows[right]), NEAR_PAIRS, axis=0) / OF_A_NORMAL
    return found


# --- labels -----------------------------------------------------------------------------------------------


def told_of_amounts(vector: np.ndarray, columns: np.ndarray | None = None, names: FeatureNames | None = None) -> str:
    """How many different numbers there are in a vector of labels, where they are too many for classes; else nothing.

    Amounts such as ages, counts or prices take many values of few rows each; see `ROWS_OF_A_CLASS`. So do the numbers
    of persons or things. Where ``columns`` are given, whole numbers may be those: they are told of only where there
    are less than two rows of each, or where a column has their order, as it is with amounts and not with names.

    Parameters
    ----------
    vector
        Shape (n,).
    columns
        Features of the rows, or similarities to some, shape (n, p), p may be 0; None where labels cannot be names.
    names
        What the columns are called.

    Examples
    --------
    >>> told_of_amounts(np.arange(392) % 106)
    '106 different whole numbers in 392 rows'
    >>> told_of_amounts(np.arange(1797) % 10), told_of_amounts(np.arange(20000) % 26)
    ('', '')
    >>> ages = np.arange(392) % 106
    >>> told_of_amounts(ages, np.random.default_rng(0).normal(size=(392, 3)))
    ''
    >>> told_of_amounts(ages, np.random.default_rng(0).normal(size=(392, 3)) + ages[:, None] / 50)
    '106 different whole numbers in 392 rows, in the order of column 0 (rank correlation 0.78)'
    """
    if vector.dtype.kind not in "iuf":
        return ""
    values = np.unique(vector)
    enough = (rows for most, rows in ROWS_OF_A_CLASS if len(values) > most)
    if len(vector) >= len(values) * max(enough, default=0.0):
        return ""
    whole = not (values % 1).any()
    told = f"{len(values):,} different {'whole ' if whole else ''}numbers in {len(vector):,} rows"
    if columns is None or not whole or 2 * len(values) > len(vector):
        return told
    found = _in_order_of(vector, columns)
    return f"{told}, in the order of {column_name(found[0], names)} (rank correlation {found[1]:.2f})" if found else ""


def _in_order_of(labels: np.ndarray, columns: np.ndarray) -> tuple[int, float] | None:
    """The column whose means over the rows of each label follow the labels' order most, if that is no chance.

    Under any numbering of names the rank correlation of k labels and k means is near normal, of variance 1 / (k - 1).
    """
    n_columns = columns.shape[1]
    if not n_columns or len(columns) != len(labels):  # too many or too few rows are refused elsewhere
        return None
    chosen = np.arange(0, n_columns, -(-n_columns // MOST_COLUMNS))
    step = -(-len(labels) * len(chosen) // MOST_CELLS)
    order = np.argsort(labels, kind="stable")[::step]
    values, starts = np.unique(labels[order], return_index=True)
    sizes = np.diff([*starts, len(order)])
    rows = np.sort(order)
    own = np.asarray(columns[np.ix_(rows, chosen)], np.float64)[np.searchsorted(rows, order)]
    means = np.add.reduceat(own, starts, axis=0) / sizes[:, None]
    found = np.array([_correlation(np.arange(len(values)), _ranks(mean)) for mean in means.T])
    best = int(np.argmax(np.abs(found)))
    needed = max(ORDER, math.sqrt(2.0 * math.log(2.0 * len(chosen) / CHANCE) / (len(values) - 1)))
    return (int(chosen[best]), float(found[best])) if abs(found[best]) >= needed else None


def _ranks(values: Floats) -> Floats:
    """The ranks of values, those of equal ones their mean; all 0 where one is NaN."""
    if np.isnan(values).any():
        return np.zeros(len(values))
    ordered = np.sort(values)
    return (np.searchsorted(ordered, values) + np.searchsorted(ordered, values, "right")) / 2.0


def _correlation(x: Ints, y: Floats) -> float:
    """The correlation of two vectors; 0 where the second is constant."""
    spread = float(y.std())
    return float(((x - x.mean()) * y).mean() / (x.std() * spread)) if spread > 0.0 else 0.0
