"""Doubts about features and labels: values that are valid, but may not mean what the user intends.

Each function returns a few words about what it has found, or "". The caller adds a remedy if that depends on the entry
point, and warns the user. Nothing here changes the values. See also `distforest.sources.distance_doubts`.
"""

from __future__ import annotations

import math
import re
from decimal import Decimal
from numbers import Number
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse

from distforest.amounts import counted
from distforest.sources.rank_correlation import rank_correlation
from distforest.sources.source import spaced

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from numpy.typing import NDArray

    from distforest.sources.schema import Schema
    from distforest.sources.source import Float32s, Floats, Ints

MOST_ROWS, FEWEST_ROWS, MOST_CELLS = 2000, 32, 1 << 21
"""Columns are judged by a sample of at most `MOST_ROWS` rows, or of fewer, but at least `FEWEST_ROWS`, so that it has
at most `MOST_CELLS` cells."""

NOISE = 19
"""Last bits of a float64 that count as noise: numbers that agree to 10 digits are one number, computed in two ways."""

SCALE_SHARES = {"linear": (4, 1e-3), "rbf": (4, 1e-3)}
"""By similarity, a power and a share: if the standard deviations of all columns except one, raised to the power, sum to
less than this share of that column's, the other columns hardly count.

Cuts read differences of sums over the columns, to which each column adds products of two of its values; the variance of
such a product is the column's variance squared. Measured on the wine and breast cancer data, scaled, with an added
column of noise: at 1e-3 SimForest loses 2 to 8 points of accuracy, at 1e-5 5 to 25, at 1e-7 20 to 45. With ``"cosine"``
and ``"manhattan"`` it loses less than 2."""

RANDOM_CUT_SHARES = {"manhattan": (2, 1e-3)}
"""The same for cuts at random places between the extremes of a node, as for outliers."""

NEXT_SHARE = 0.1
"""Share of the first column's standard deviation: another column counts if its own, or half its range where most rows
are equal, is larger."""

PRODUCT_SIMILARITIES = ("linear", "cosine")
"""Similarities that sum products of values; these are large if the values are far from 0."""

MARKED_SIMILARITIES, FEWEST_MARKS, BEYOND = ("linear", "cosine", "rbf"), 2, 10.0
"""Similarities that one far cell decides, the rows that must have the same number for it to be a mark, and by how many
times the range of all other values it lies beyond them. Measured on the wine and breast cancer data, scaled, with -9999
in 1 % of the cells: SimForest loses 2 to 9 points of accuracy, with ``"manhattan"`` none."""

NEAR_PAIRS, N_PAIRS = 0.1, 1000
"""A column's scale is measured on the nearest `NEAR_PAIRS` of `N_PAIRS` random pairs of rows."""

NORMAL_QUANTILE = math.sqrt(2.0) * 0.12566
"""The `NEAR_PAIRS` quantile of the distance between two standard normal numbers."""

ROUNDED_AWAY = 1e-14
"""Share of a column's squares: if the variance of all other columns is smaller, inner products lose it to rounding."""

ALL_ALIKE = 1e-10
"""If gamma times the median squared distance of two rows is less, float64 leaves six digits or fewer to tell
similarities ``"rbf"`` apart."""

SEEN_ALIKE = 700.0
"""If gamma times the median squared distance is no more, half of all pairs have a similarity above 0 in float64."""

MOST_ALONE, FEWEST_ALONE, MOST_COMPARED_CELLS = 64, 8, 1 << 26
"""At most so many evenly spaced objects are compared with all others, and at least so many: fewer if so many cells have
to be read."""

EXACT_IN_FLOAT64, FEW_LOST = 2.0**53, 0.1
"""The least number from which float64 skips whole numbers, and the share of different amounts that may become equal
without a word: times in nanoseconds, which float64 holds to 256, do so now and then."""

ROWS_OF_A_CLASS = ((10, 2), (20, 20), (30, math.inf))
"""Pairs of a number of different values and a number of rows: with more different values than that, labels are taken
for amounts unless each value has that many rows on average."""

ORDER, CHANCE = 0.3, 1e-3
"""The least rank correlation with a column that shows that labels are amounts; the probability that one column reaches
the required correlation by chance."""

WITH_UNIT = re.compile(r"(?P<before>[$€£¥<>≤≥~=]*)\s*[-+]?\d[\d.,]*\s*(?P<after>[^\d]*)")
"""A word that is a number with a bound or a currency before it, or a unit after it."""

WITHOUT_PLACES = re.compile(r"(?P<whole>[-+]?\d+)\.0+")
"""A whole number as programs write it that hold floats."""

FEWEST_AMOUNTS = 10
"""Fewer different words with a unit are categories like any others."""

NO_LABELS = frozenset({"", "?", "nan", "<na>", "nat", "n/a", "#n/a", "null"})
"""Words of missing labels, in small letters: those that programs write. ``"None"`` and ``"NA"`` may be classes."""

FEWEST_NAMES = 20
"""So many rows, or fewer, may each have a label of their own."""

MOST_COLUMNS = 512
"""The most columns with which the order of labels is compared."""


def column_name(number: int, schema: Schema | None) -> str:
    """The name of a column in a message."""
    return f"column {number}" if schema is None else f"column {schema.names[number]!r}"


# --- features ---------------------------------------------------------------------------------------------


class Sample:
    """A uniform random sample of a matrix's rows, from its blocks; the sample does not depend on the block sizes.

    A matrix whose dtype fits into float32 costs nothing: none of its rows is kept. Of a sparse matrix as many rows are
    kept as have at most about `MOST_CELLS` stored values.

    Attributes
    ----------
    n_rows
        Number of rows that were seen.

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
        self._held: list[tuple[Floats, np.ndarray]] = []  # keys and rows; the rows with the least keys are the sample
        self._beyond = np.inf
        self._sparse: scipy.sparse.csr_array | None = None

    def see(self, values: np.ndarray, first_row: int) -> None:  # noqa: ARG002  (an `Onlooker`)
        """Take a block of rows, shape (n, n_columns)."""
        if np.can_cast(values.dtype, np.float32):
            return
        self.n_rows += len(values)
        keys = self._numbers.random(len(values))
        taken = np.flatnonzero(keys < self._beyond)
        self._held.append((keys[taken], values[taken]))
        if sum(len(keys) for keys, _ in self._held) > 2 * _most_rows(values.shape[1]):
            self.rows()

    def see_sparse(self, matrix: scipy.sparse.csr_array) -> None:
        """Take a whole sparse matrix without duplicates, of which an entry that is not stored is 0."""
        if np.can_cast(matrix.dtype, np.float32):
            return
        self.n_rows = matrix.shape[0]
        most = max(FEWEST_ROWS, MOST_CELLS * self.n_rows // max(1, matrix.nnz))
        if self.n_rows > most:
            matrix = matrix[np.sort(self._numbers.permutation(self.n_rows)[:most])]
        self._sparse = matrix

    def rows(self) -> np.ndarray | scipy.sparse.csr_array:
        """The sampled rows, unconverted, shape (n, n_columns); sparse if the matrix is."""
        if self._sparse is not None:
            return self._sparse
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
    """The most rows by which columns are judged."""
    return min(MOST_ROWS, max(FEWEST_ROWS, MOST_CELLS // max(1, n_columns)))


def told_of_rounding(sample: Sample, schema: Schema | None = None) -> str:
    """Name the columns of features that lose most of their different values when rounded to float32; else "".

    A column is named if float32 keeps less than half of its different values, or one of several. Then the values lie
    within about as many steps of float32 as the sample has rows, or are too small for float32. Values that spread as
    wide as they are large lose almost none: between 1 and 2, float32 has 2^23 steps. A column that holds each number
    twice, once rounded to float32, keeps exactly half of its different values and is not named.

    Examples
    --------
    >>> sample = Sample()
    >>> sample.see(1.7e9 + np.arange(1000.0)[:, None], 0)
    >>> told_of_rounding(sample)
    'features are held as float32, which leaves 9 of 1,000 different values of column 0 in 1,000 rows; subtract its
    least, 1700000000, first'
    """
    rows = sample.rows()
    if isinstance(rows, np.ndarray):
        rows = _without_missing(rows)
        columns, left = _rounded(rows)
    else:
        columns, left = _rounded_stored(rows)
    if not len(columns):
        return ""
    n_rows, values = rows.shape[0], rows[:, columns[:1]]
    values = values.ravel() if isinstance(values, np.ndarray) else values.toarray().ravel()
    among = f"{n_rows:,} {'' if n_rows == sample.n_rows else f'of {sample.n_rows:,} '}rows"
    different = f"{left[0]:,} of {len(np.unique(values)):,} different values"
    found = f"features are held as float32, which leaves {different} of {column_name(columns[0], schema)} in {among}"
    others = ", ".join(column_name(column, schema) for column in columns[1:4])
    more = f" and {len(columns) - 4:,} more" if len(columns) > 4 else ""
    return f"{found}; {_cure(values)}, first{f'. The same holds for {others}{more}' if others else ''}"


def told_of_equal_amounts(raw: np.ndarray, vectors: Floats, name: str) -> str:
    """Name amounts with more digits than float64 has, many of which become equal in it; else "".

    These are whole numbers, dates and durations beyond 2^53, wider floating numbers, objects and strings.

    Parameters
    ----------
    raw
        The amounts as given, shape (n,) or (n, q).
    vectors
        The same as float64, shape (n, q).
    name
        What they are.

    Examples
    --------
    >>> raw = 2**60 + np.arange(178)
    >>> told_of_equal_amounts(raw, raw.astype(np.float64)[:, None], "targets")
    'targets are held as float64, which leaves 2 of 178 different values; subtract the least, 1152921504606846976,
    first'
    """
    is_whole, is_wide = raw.dtype.kind in "iumM", raw.dtype.kind in "OU" or raw.dtype == np.longdouble
    if not is_wide and not (is_whole and np.abs(vectors).max(initial=0.0) >= EXACT_IN_FLOAT64):
        return ""
    for column, (given, held) in enumerate(zip(raw.reshape(vectors.shape).T, vectors.T, strict=True)):
        numbers = [_number(value) for value in given] if raw.dtype.kind in "OU" else np.unique(given)
        different, left = len(set(numbers)), len(np.unique(held))
        if left < (1.0 - FEW_LOST) * different:
            one = f"{name} are" if vectors.shape[1] == 1 else f"column {column} of the {name} is"
            found = f"{one} held as float64, which leaves {left:,} of {different:,} different values"
            return f"{found}; subtract the least, {given[np.argmin(held)]}, first"
    return ""


def _number(value: object) -> object:
    """A value that float64 can hold, as a number with all its digits."""
    if isinstance(value, str):
        return Decimal(value)
    return value if isinstance(value, Number) else float(value)  # type: ignore[arg-type]


def _cure(values: np.ndarray) -> str:
    """What to do with a column whose values become equal; one of amounts, of which many are 0, keeps its zeros."""
    others = values[values != 0]
    has_zeros = len(others) < len(values)
    ranks = "replace its values other than 0 by their ranks"
    if float(np.median(np.abs(others))) < np.finfo(np.float32).smallest_normal:
        return f"multiply it, or {ranks if has_zeros else 'take its logarithm'}"
    return ranks if has_zeros else f"subtract its least, {values.min():.10g}"


def _without_missing(rows: np.ndarray) -> np.ndarray:
    """The rows with the first value of its column in place of each NaN, or 0 in a column that has no other."""
    lacks = np.isnan(rows) if rows.dtype.kind == "f" else np.zeros(rows.shape, np.bool_)
    if not lacks.any():
        return rows
    first = np.argmin(lacks, axis=0)
    filling = np.nan_to_num(rows[first, np.arange(rows.shape[1])])
    return np.where(lacks, filling, rows)


def _rounded(rows: np.ndarray) -> tuple[Ints, Ints]:
    """The columns that lose most of their different values in float32, and how many values of each float32 keeps."""
    narrow = rows.astype(np.float32)
    columns = np.flatnonzero(_moved(rows, narrow).any(axis=0))
    left = _n_different(narrow[:, columns])
    few = left <= len(rows) / 2
    columns, left = columns[few], left[few]
    lost = _is_lost(left, _n_different(_without_noise(rows[:, columns])))
    return columns[lost], left[lost]


def _rounded_stored(rows: scipy.sparse.csr_array) -> tuple[Ints, Ints]:
    """The same for sparse rows, without their zeros being written out."""
    columns = np.unique(rows.indices[_moved(rows.data, rows.data.astype(np.float32))])
    chosen = scipy.sparse.csc_array(rows)[:, columns]
    bits = (chosen.data.astype(np.float32) + np.float32(0.0)).view(np.uint32)  # turns -0.0 into 0.0
    left = _n_different_stored(chosen, bits, 0)
    few = left <= np.minimum(np.diff(chosen.indptr) + 1, chosen.shape[0]) / 2
    columns, left, chosen = columns[few], left[few], chosen[:, few]
    codes = np.unique(np.append(_without_noise(chosen.data), 0), return_inverse=True)[1]
    lost = _is_lost(left, _n_different_stored(chosen, codes[:-1], codes[-1]))
    return columns[lost], left[lost]


def _moved(values: np.ndarray, narrow: Float32s) -> NDArray[np.bool_]:
    """Whether float32 holds another number, for integers whether it may."""
    if values.dtype.kind in "iu":
        return np.abs(values.astype(np.float64)) > 2.0**24
    return np.asarray(narrow != values)


def _is_lost(left: Ints, different: Ints) -> NDArray[np.bool_]:
    """Whether float32 leaves less than half of a column's different values, or one of several."""
    return ((left < different / 2) | (left == 1)) & (left < different)


def _n_different(values: np.ndarray) -> Ints:
    """The number of different values in each column."""
    ordered = np.sort(np.ascontiguousarray(values.T), axis=1)
    return 1 + np.count_nonzero(ordered[:, 1:] != ordered[:, :-1], axis=1)


def _n_different_stored(columns: scipy.sparse.csc_array, codes: np.ndarray, code_of_zero: int) -> Ints:
    """The number of different values in each column, which 32 bits encode; those not stored have the code of 0."""
    sizes = np.diff(columns.indptr)
    with_zeros = np.flatnonzero(sizes < columns.shape[0])
    lines = np.concatenate([np.repeat(np.arange(columns.shape[1]), sizes), with_zeros])
    codes = np.append(codes, np.full(len(with_zeros), code_of_zero, codes.dtype))
    ordered = np.sort((lines.astype(np.uint64) << np.uint64(32)) | codes.astype(np.uint64))
    is_new = np.append(np.ones(min(1, len(ordered)), np.bool_), ordered[1:] != ordered[:-1])
    return np.bincount((ordered[is_new] >> np.uint64(32)).astype(np.int64), minlength=columns.shape[1])


def _without_noise(values: np.ndarray) -> np.ndarray:
    """Replace values by numbers that are equal if the values agree except in their last bits."""
    if values.dtype.kind != "f":
        return values
    bits = np.ascontiguousarray(values.astype(np.float64) + 0.0).view(np.int64)  # turns -0.0 into 0.0
    return (bits + (1 << (NOISE - 1))) >> NOISE


def told_of_scales(features: Float32s, similarity: str, schema: Schema | None = None, random_cuts: bool = False) -> str:
    """Name the column that dominates a built-in similarity so that the other columns do not count; else "".

    An outlying row, or a mark such as -9999 in some rows, does not hide the other columns: among the rows with the
    mark, and among the rows without it, the other columns count. So a column's scale is measured on near pairs of rows.

    Parameters
    ----------
    features
        Shape (n, p).
    similarity
        One of `distforest.sources.kernels.KERNELS`.
    schema
        The columns, with their names.
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
    rows = _sampled(features)
    rows[:, np.isnan(rows).all(axis=0)] = 0.0  # a column without a value does not hide another
    spread = _spreads(rows)
    scales = np.where(spread > 0.0, spread, np.nanstd(rows, axis=0))  # for a column whose rows are mostly equal
    extent = np.nanmax(rows, axis=0) - np.nanmin(rows, axis=0)
    reach = np.where(spread > 0.0, spread, extent / 2.0)  # for such a column, how far a few rows are off
    first, second = (int(column) for column in np.argsort(-scales, kind="stable")[:2])
    shares = SCALE_SHARES if not random_cuts else {**SCALE_SHARES, **RANDOM_CUT_SHARES}
    cure = "scale the columns first, say each by its standard deviation"
    if spread[first] > 0.0 and similarity in shares and _is_alone(scales, reach, first, *shares[similarity]):
        found = f"{column_name(first, schema)} is nearly all that {similarity!r} adds up: it spreads by"
        next_one = f"the next, {column_name(second, schema)}, by {scales[second]:.3g}"
        return f"{found} {scales[first]:.3g}, {next_one}; {cure}"
    size = np.sqrt(np.nanmedian(rows**2, axis=0))
    large = int(np.argmax(size))
    if (
        similarity in PRODUCT_SIMILARITIES
        and 0.0 < (np.delete(scales, large) ** 2).sum() < ROUNDED_AWAY * size[large] ** 2
    ):
        found = (
            f"{column_name(large, schema)} is so large, about {size[large]:.3g}, that {similarity!r} rounds the others"
        )
        return f"{found} away; {cure}"
    return ""


def told_of_marks(features: Float32s, similarity: str, schema: Schema | None = None) -> str:
    """Name a number far beyond all others of its column that several rows have, as a mark of missing values; else "".

    A product of two rows, or their distance, is then decided by that cell alone.

    Parameters
    ----------
    features
        Shape (n, p).
    similarity
        One of `distforest.sources.kernels.KERNELS`.
    schema
        The columns, with their names.

    Examples
    --------
    >>> features = np.random.default_rng(0).normal(size=(50, 3))
    >>> features[[4, 9, 30], 1] = -9999
    >>> told_of_marks(features, "rbf")
    "column 1 holds -9999 in 3 of 50 rows, far from its other values, -1.26 to 2: 'rbf' compares these rows by it
    alone; if it marks missing values, put NaN in their place"
    """
    if similarity not in MARKED_SIMILARITIES or not features.size:
        return ""
    rows = _sampled(features)
    found = [(column, end) for end in (np.nanmin, np.nanmax) for column in _marked(rows, end)]
    if not found:
        return ""
    (column, end), marked = found[0], {column for column, _ in found}
    mark = end(rows[:, column])
    own, others = rows[:, column] == mark, rows[:, column][(rows[:, column] != mark) & ~np.isnan(rows[:, column])]
    far = f"far from its other values, {others.min():.3g} to {others.max():.3g}"
    told = f"{column_name(column, schema)} holds {mark:g} in {int(own.sum()):,} of {len(rows):,} rows, {far}"
    more = f", and {counted(len(marked) - 1, 'other column')} the like" if len(marked) > 1 else ""
    cure = "if it marks missing values, put NaN in their place"
    return f"{told}{more}: {similarity!r} compares these rows by it alone; {cure}"


def _marked(rows: Floats, end: Callable[..., Floats]) -> list[int]:
    """The columns whose least or largest number several rows have, far beyond all others, of which two differ."""
    with_values = ~np.isnan(rows).all(axis=0)
    marks = np.where(with_values, end(np.where(with_values, rows, 0.0), axis=0), 0.0)
    is_mark = rows == marks
    others = np.where(is_mark, np.nan, rows)
    columns = np.flatnonzero((is_mark.sum(axis=0) >= FEWEST_MARKS) & ~np.isnan(others).all(axis=0))
    least, largest = np.nanmin(others[:, columns], axis=0), np.nanmax(others[:, columns], axis=0)
    beyond = np.maximum(least - marks[columns], marks[columns] - largest)
    return columns[(largest > least) & (beyond > BEYOND * (largest - least))].tolist()


def told_of_columns(
    features: Float32s, similarity: str, schema: Schema | None = None, random_cuts: bool = False
) -> str:
    """Name columns by which a built-in similarity hardly reads the others: see `told_of_scales`, `told_of_marks`."""
    return told_of_scales(features, similarity, schema, random_cuts) or told_of_marks(features, similarity, schema)


def told_of_gamma(features: Float32s, gamma: float) -> str:
    """Say that ``gamma`` is so small that nearly all similarities ``"rbf"`` are 1, or so large that most are 0.

    By default it is 1 / (p times the variance of all features together), which one far value determines, or a column
    that is far from 0.

    Parameters
    ----------
    features
        Shape (n, p).
    gamma
        The coefficient of ``"rbf"``.

    Examples
    --------
    >>> features = np.random.default_rng(0).normal(size=(50, 3))
    >>> told_of_gamma(features, 0.3)
    ''
    >>> told_of_gamma(features, 1e-20)
    "gamma=1e-20 is so small for these features that nearly all similarities 'rbf' are 1, and hardly any digit is left
    to tell objects apart; correct what is far from all other values, center the columns, or give a larger gamma"
    """
    if len(features) < 2:
        return ""
    left, right = _random_pairs(len(features))
    apart = features[left].astype(np.float64) - features[right]
    squares = np.nansum(apart * apart, axis=1)
    squares = squares[squares > 0.0]
    typical = gamma * float(np.median(squares)) if len(squares) else ALL_ALIKE
    if typical >= ALL_ALIKE:
        return _told_of_large_gamma(features, gamma) if typical > SEEN_ALIKE else ""
    found = f"gamma={gamma:.3g} is so small for these features that nearly all similarities 'rbf' are 1"
    follows = "hardly any digit is left to tell objects apart"
    cure = "correct what is far from all other values, center the columns, or give a larger gamma"
    return f"{found}, and {follows}; {cure}"


def _told_of_large_gamma(features: Float32s, gamma: float) -> str:
    """Say that most objects have similarity 0 to all others; else "", also of more cells than are compared."""
    n_judged = min(MOST_ALONE, len(features), MOST_COMPARED_CELLS // max(1, features.size))
    if n_judged < FEWEST_ALONE:
        return ""
    n_alone, wide = 0, features.astype(np.float64)
    for row in np.linspace(0, len(features) - 1, n_judged).astype(np.int64).tolist():
        squares = np.nansum((wide - wide[row]) ** 2, axis=1)
        with np.errstate(over="ignore"):
            n_alone += np.count_nonzero(np.exp(-gamma * squares)) == 1  # with itself
    if 2 * n_alone <= n_judged:
        return ""
    found = f"gamma={gamma:.3g} is so large for these features that most objects have similarity 0 to all others"
    return f"{found}, and nothing to learn from; scale the columns, or give a smaller gamma"


def _random_pairs(n_rows: int) -> tuple[Ints, Ints]:
    """Numbers of the two rows of `N_PAIRS` random pairs of different rows, always the same."""
    numbers = np.random.default_rng(0)
    left = numbers.integers(n_rows, size=N_PAIRS)
    return left, (left + numbers.integers(1, n_rows, size=N_PAIRS)) % n_rows


def _is_alone(scales: Floats, reach: Floats, first: int, power: int, share: float) -> bool:
    """Whether a column has nearly the whole sum of powers of scales, others vary, and none comes near its scale."""
    rest = float((np.delete(scales, first) ** power).sum())
    farthest = float(np.delete(reach, first).max())
    return 0.0 < farthest <= NEXT_SHARE * scales[first] and rest < share * scales[first] ** power


def _sampled(features: Float32s) -> Floats:
    """Random rows as float64, as many as columns are judged by, always the same."""
    n_rows, most = len(features), _most_rows(features.shape[1])
    drawn = np.random.default_rng(0).permutation(n_rows)[:most] if n_rows > most else slice(None)
    return np.array(features[drawn], np.float64)


def _spreads(rows: Floats) -> Floats:
    """The standard deviation of each column, estimated from the nearest pairs of rows: see `NEAR_PAIRS`."""
    left, right = _random_pairs(len(rows))
    apart = np.abs(rows[left] - rows[right])
    apart[:, np.isnan(apart).all(axis=0)] = 0.0
    spreads: Floats = np.nanquantile(apart, NEAR_PAIRS, axis=0) / NORMAL_QUANTILE
    return spreads


# --- words ---------------------------------------------------------------------------------------------------


def told_of_spellings(words: Iterable[object], what: str) -> str:
    """Name two words, of classes or categories, that differ in case or blanks or by ``.0`` only; else "".

    Examples
    --------
    >>> told_of_spellings(["no", "yes", "NO", " Yes"], "labels")
    "labels 'no' and 'NO' differ in case or blanks only, as does 1 other pair; write them alike if they mean the same"
    """
    seen: dict[str, str] = {}
    alike = []
    for word in words:
        if isinstance(word, str):
            first = seen.setdefault(_spelled_alike(word), word)
            alike += [(first, word)] if first != word else []
    if not alike:
        return ""
    (one, other), n_more = alike[0], len(alike) - 1
    more = f", as {'does' if n_more == 1 else 'do'} {counted(n_more, 'other pair')}" if n_more else ""
    by = "in case or blanks" if " ".join(one.casefold().split()) == " ".join(other.casefold().split()) else "by '.0'"
    return f"{what} {one!r} and {other!r} differ {by} only{more}; write them alike if they mean the same"


def _spelled_alike(word: str) -> str:
    """A word in small letters with single blanks, and a whole number without decimal places."""
    plain = " ".join(word.casefold().split())
    whole = WITHOUT_PLACES.fullmatch(plain)
    return whole["whole"] if whole else plain


def told_of_units(words: Collection[str]) -> str:
    """Say that words are amounts of one unit or currency, or beyond bounds, such as 5 kg or <5; else "".

    Words such as Q1 or store 7 are names, and have no order.

    Examples
    --------
    >>> told_of_units([f"{k}.5 kg" for k in range(12)])
    "holds numbers with 'kg', such as '0.5 kg', each a category of its own"
    >>> told_of_units([f"Q{k}" for k in range(12)]) + told_of_units(["1 kg", "2 kg"])
    ''
    """
    if len(words) < FEWEST_AMOUNTS:
        return ""
    marks, first = set(), ""
    for word in words:
        found = WITH_UNIT.fullmatch(word.strip())
        if not found:
            return ""
        marks.add((found["before"] or "").strip() or found["after"].strip())
        first = first or word
        if len(marks) > 1 or not all(marks):
            return ""
    return f"holds numbers with {marks.pop()!r}, such as {first!r}, each a category of its own"


def unit_beside(word: str) -> str:
    """The currency or the unit beside a number; "" without one, or for a bound.

    Examples
    --------
    >>> unit_beside("5,2 %"), unit_beside("€ 6.60"), unit_beside("<5"), unit_beside("10:30")
    ('%', '€', '', '')
    """
    found = WITH_UNIT.fullmatch(word.strip())
    mark = ((found["before"] or "").strip() or found["after"].strip()) if found else ""
    return "" if any(own in "<>≤≥~=:()/" for own in mark) else mark


# --- labels -----------------------------------------------------------------------------------------------


def told_of_classes(classes: Sequence[object], codes: NDArray[np.integer]) -> str:
    """Say that each row has a class of its own, or that one class may be a missing label, or all amounts; else "".

    Numbers are left to `told_of_amounts`, but not a number such as -1 or -999 that no other one is below, and not words
    that are fractions.

    Parameters
    ----------
    classes
        The classes.
    codes
        The number of the class of each row, shape (n,).

    Examples
    --------
    >>> told_of_classes(["a", "nan"], np.array([0, 0, 1]))
    "the label 'nan' of 1 row is a class like any other; leave those rows out if it stands for a missing label"
    >>> told_of_classes([-1, 0, 1, 2], np.arange(40) % 4)
    'the label -1 of 10 rows is a class like any other; leave those rows out if it stands for a missing label'
    >>> told_of_classes([f"plant {k}" for k in range(30)], np.arange(30))
    'each of the 30 rows has a label of its own, so that no two rows are alike; labels that name rows teach nothing, so
    give what rows have in common'
    """
    words = [place for place, word in enumerate(classes) if isinstance(word, str)]
    fractions = _fractions(classes) if len(words) == len(classes) else None
    if fractions is not None and (amounts := told_of_amounts(fractions[codes])):
        return f"labels are words that are {amounts}, each a class of its own; give numbers if they are amounts"
    if len(words) == len(classes) == len(codes) > FEWEST_NAMES:
        found = f"each of the {len(codes):,} rows has a label of its own, so that no two rows are alike"
        return f"{found}; labels that name rows teach nothing, so give what rows have in common"
    unknown = [place for place in words if str(classes[place]).strip().casefold() in NO_LABELS] or _marks(classes)
    if not unknown:
        return ""
    rows = counted(int(np.isin(codes, unknown).sum()), "row")
    named = " and ".join(repr(classes[place]) for place in unknown)
    if len(unknown) > 1:
        found = f"the labels {named} of {rows} are classes like any other"
        return f"{found}; leave those rows out if they stand for missing labels"
    found = f"the label {named} of {rows} is a class like any other"
    return f"{found}; leave those rows out if it stands for a missing label"


def _fractions(words: Sequence[object]) -> Floats | None:
    """Words as numbers, if all are and one has a decimal point; else None."""
    try:
        numbers = np.array([float(str(word)) for word in words])
    except ValueError:
        return None
    return numbers if np.isfinite(numbers).all() and (numbers % 1.0).any() else None


def _marks(classes: Sequence[object]) -> list[int]:
    """The place of a whole number that may mark a missing label: -1 beside three classes from 0 on, or -9, -99, ..."""
    if not classes or not all(isinstance(one, Number) and not isinstance(one, (bool, np.bool_)) for one in classes):
        return []
    numbers = np.array(classes, np.float64)
    least, others = int(numbers.argmin()), np.delete(numbers, numbers.argmin())
    if numbers[least] >= 0.0 or not len(others) or others.min() < 0.0:
        return []
    is_unlabelled = numbers[least] == -1.0 and len(others) > 2
    return [least] if is_unlabelled or set(f"{-numbers[least]:.15g}") == {"9"} else []


def told_of_amounts(vector: np.ndarray, columns: np.ndarray | None = None, schema: Schema | None = None) -> str:
    """Count the different numbers in a vector of labels if they are too many for classes; else "".

    Amounts such as ages, counts or prices take many values, with few rows each; see `ROWS_OF_A_CLASS`. So do numbers
    that identify persons or things. If ``columns`` are given, whole numbers may be such identifiers: they are counted
    only if there are fewer than two rows for each, or if a column follows their order, as it does for amounts only.

    Parameters
    ----------
    vector
        Shape (n,).
    columns
        Features of the rows, or similarities to some objects, shape (n, p), where p may be 0; None if labels cannot
        be identifiers.
    schema
        The columns, with their names.

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
    different = f"{len(values):,} different {'whole ' if whole else ''}numbers in {len(vector):,} rows"
    if columns is None or not whole or 2 * len(values) > len(vector):
        return different
    ordered = _in_order_of(vector, columns)
    if ordered is None:
        return ""
    return f"{different}, in the order of {column_name(ordered[0], schema)} (rank correlation {ordered[1]:.2f})"


def _in_order_of(labels: np.ndarray, columns: np.ndarray) -> tuple[int, float] | None:
    """The column whose means for each label follow the order of the labels best, if not by chance; else None.

    If the numbering of labels is arbitrary, the rank correlation of k labels and k means is nearly normal, with
    variance 1 / (k - 1).
    """
    n_columns = columns.shape[1]
    if not n_columns or len(columns) != len(labels):  # too many or too few rows are refused elsewhere
        return None
    chosen = spaced(n_columns, MOST_COLUMNS)
    step = -(-len(labels) * len(chosen) // MOST_CELLS)
    order = np.argsort(labels, kind="stable")[::step]
    values, starts = np.unique(labels[order], return_index=True)
    sizes = np.diff([*starts, len(order)])
    rows = np.sort(order)
    cells = np.asarray(columns[np.ix_(rows, chosen)], np.float64)[np.searchsorted(rows, order)]
    lacks = np.isnan(cells)
    if lacks.any():
        cells, sizes = np.where(lacks, 0.0, cells), np.add.reduceat(~lacks, starts, axis=0, dtype=np.int64)
    else:
        sizes = sizes[:, None]
    with np.errstate(invalid="ignore"):  # a label may have no value of a column
        means = np.add.reduceat(cells, starts, axis=0) / sizes
    correlations = np.array([rank_correlation(np.arange(len(values)), mean) for mean in means.T])
    best = int(np.argmax(np.abs(correlations)))
    needed = max(ORDER, math.sqrt(2.0 * math.log(2.0 * len(chosen) / CHANCE) / (len(values) - 1)))
    return (int(chosen[best]), float(correlations[best])) if abs(correlations[best]) >= needed else None
