"""Pairs of points as rows: each column is a symmetric function of the two points, computed when it is read.

::

    family             columns c < p        columns p <= c < 2p
    "difference"       |x_c - x'_c|         none
    "difference_mean"  |x_c - x'_c|         (x_c + x'_c) / 2         (RFD, Eq. 3; TreeRank, Lemma 1, but for its scale)
    "max_min"          max(x_c, x'_c)       min(x_c, x'_c)           (TreeRank, appendix 6.3)
    of categories      [x_c != x'_c]        the number of {x_c, x'_c}

Of a feature of categories the first column says, in every family, whether the two points differ, and the second is
itself a column of categories: the unordered pairs {k, l} with k <= l, numbered l (l + 1) / 2 + k. So a cut of it
parts the pairs of categories into two sets. Of a feature of more than `MOST_PAIRED` categories, which has more such
pairs than a column may have categories, the second column is 0.

Each block of further columns of the points gives one column more: ``"dot"``, the inner product of the two points'
parts, ``"same"``, the share of their equal entries, or ``"distance"``, the Euclidean distance of the parts. Each of
`distforest.sources.comparisons` gives one more, and of the features that it reads the columns of the family are 0.
Every value is rounded to float32, and is the same for (x, x') and (x', x).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from distforest.errors import InputError
from distforest.jit import kernel, no_refcount
from distforest.sources.arrays import PROJECTED_ROWS, is_complete
from distforest.sources.category_codes import check_codes
from distforest.sources.columns import with_plain_numbers
from distforest.sources.comparisons import COMPARATORS, RecordComparison
from distforest.sources.given import unmasked
from distforest.sources.kernels import ALL_PRESENT, Present, presence
from distforest.sources.source import Float32s, Floats, Int32s, Ints, Projections, ReadByEntries, frozen

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray

    from distforest.sources.schema import Schema


SIMILAR, DISSIMILAR = 0, 1
"""Classes of pairs."""

FAMILIES = ("difference", "difference_mean", "max_min")
REDUCTIONS = ("dot", "same", "distance")
COMPARISON = len(REDUCTIONS)
"""Stands for a reduction where a column is a comparison, whose value lies with the second point of the pair."""

MAX_MIN = 2
"""Place of ``"max_min"`` in `FAMILIES`."""

OF_NUMBERS, PAIRED, UNPAIRED, ONLY_COMPARED = np.arange(4, dtype=np.uint8)
"""Kinds of features: numbers; categories whose unordered pairs are a column; categories of which there are too many;
what comparisons alone read."""

MOST_PAIRED = 361
"""Most categories of a feature whose unordered pairs are a column: 361 * 362 / 2 codes fit into 16 bits."""

LARGEST_FEATURE = float(np.finfo(np.float32).max) / 2.0
"""Largest absolute value of a feature of a point: differences and sums of two such values are finite in float32."""


class ColumnReading(NamedTuple):
    """How the columns of a pair are read, as kernels take it.

    Attributes
    ----------
    family
        Place of the family in `FAMILIES`.
    n_features, n_of_family
        Number of features of a point that the family reads, and number of its columns.
    begin
        First column of each block among the columns of a point, and the end of the last block, shape (n_blocks + 1,).
        A comparison is a block of one column.
    reduction
        Place of each block's reduction in `REDUCTIONS`, or `COMPARISON`, shape (n_blocks,).
    kinds
        Kind of each feature: `OF_NUMBERS`, `PAIRED`, `UNPAIRED` or `ONLY_COMPARED`, shape (n_features,); (0,) if all
        are numbers.
    sizes
        Number of categories of each feature, 0 for a number, shape (n_features,); (0,) if all are numbers.
    """

    family: int
    n_features: int
    n_of_family: int
    begin: Ints
    reduction: Int32s
    kinds: NDArray[np.uint8]
    sizes: Int32s


class PairReading(NamedTuple):
    """Pairs of points as kernels take them: the arrays of `PointPairs`, how columns are read, whether none is NaN."""

    points: Float32s
    others: Float32s
    left: Int32s
    right: Int32s
    columns: ColumnReading
    is_complete: bool


@dataclass(frozen=True)
class PairColumns:
    """The columns that are read of a pair.

    Attributes
    ----------
    family
        One of `FAMILIES`.
    n_features
        Number p of features of a point that the family reads.
    blocks
        Blocks of further columns of the points, in their order: (one of `REDUCTIONS`, number of columns).
    n_categories
        Number of categories of each feature, 0 for a number, shape (n_features,); empty if all are numbers. A category
        is its code, from 0. Of a feature that is compared it is 0.
    comparisons
        Comparisons of features, each of which is a column.
    schema
        What the numbers of the features stand for, which comparisons need.

    Examples
    --------
    >>> columns = PairColumns("difference_mean", 3, (("dot", 10),))
    >>> columns.n_columns, columns.width
    (7, 13)
    """

    family: str
    n_features: int
    blocks: tuple[tuple[str, int], ...] = ()
    n_categories: tuple[int, ...] = ()
    comparisons: tuple[RecordComparison, ...] = ()
    schema: Schema | None = field(default=None, compare=False, repr=False)
    kind: ClassVar[str] = "pairs"
    value: ClassVar[str] = "value"

    @property
    def n_of_family(self) -> int:
        """Number of columns of the family."""
        return self.n_features * (1 if self.family == "difference" else 2)

    @property
    def n_columns(self) -> int:
        """Number of columns of a pair."""
        return self.n_of_family + len(self.blocks) + len(self.comparisons)

    @property
    def compared(self) -> Ints:
        """The features that comparisons read."""
        return np.unique(np.array([c for one in self.comparisons for c in one.features], np.int64))

    @property
    def to_draw(self) -> Int32s:
        """The columns that may split pairs: all but those of a family for features that are compared."""
        is_constant = np.isin(np.arange(self.n_of_family) % max(1, self.n_features), self.compared)
        return np.flatnonzero(~np.append(is_constant, np.zeros(self.n_columns - self.n_of_family, bool))).astype(
            np.int32
        )

    @property
    def width(self) -> int:
        """Number of columns of a point: its features, then the blocks."""
        return self.n_features + sum(size for _, size in self.blocks)

    @cached_property
    def kinds(self) -> NDArray[np.uint8]:
        """The kind of each feature, shape (n_features,); (0,) if all are numbers."""
        none = (0,) * self.n_features if self.comparisons else ()
        sizes = np.array(self.n_categories or none, np.int64)
        kinds = np.where(sizes == 0, OF_NUMBERS, np.where(sizes <= MOST_PAIRED, PAIRED, UNPAIRED)).astype(np.uint8)
        kinds[self.compared] = ONLY_COMPARED
        return kinds

    @property
    def categories_of_columns(self) -> tuple[int, ...]:
        """The number of categories of each column of a pair, 0 for a column of numbers; empty if no feature has any."""
        if not self.n_categories:
            return ()
        numbers = (0,) * self.n_features
        paired = tuple(n * (n + 1) // 2 if n <= MOST_PAIRED else 0 for n in self.n_categories)
        return (numbers + paired)[: self.n_of_family] + (0,) * (self.n_columns - self.n_of_family)

    @cached_property
    def column_reading(self) -> ColumnReading:
        """The columns as kernels take them."""
        n = len(self.comparisons)
        begin = np.cumsum([self.n_features, *(size for _, size in self.blocks), *(1,) * n])
        reductions = np.array([*(REDUCTIONS.index(kind) for kind, _ in self.blocks), *(COMPARISON,) * n], np.int32)
        family, sizes = FAMILIES.index(self.family), np.array(self.n_categories, np.int32)
        if len(sizes) < len(self.kinds):
            sizes = np.zeros(len(self.kinds), np.int32)
        return ColumnReading(family, self.n_features, self.n_of_family, begin, reductions, self.kinds, sizes)

    def to_dict(self) -> dict[str, object]:
        """The entry in a forest's manifest."""
        blocks = [list(block) for block in self.blocks]
        sizes = {"n_columns": self.n_columns, "n_features": self.n_features}
        categories = {"n_categories": list(self.n_categories)} if self.n_categories else {}
        comparisons = {"comparisons": [one.to_list() for one in self.comparisons]} if self.comparisons else {}
        return {"kind": self.kind, "family": self.family, **sizes, "blocks": blocks, **categories, **comparisons}

    @classmethod
    def from_dict(cls, rows: Mapping[str, Any]) -> PairColumns:
        """Read the entry in a forest's manifest, as `to_dict` writes it."""
        blocks = tuple((kind, size) for kind, size in rows["blocks"])
        comparisons = tuple(RecordComparison(name, tuple(c), each) for name, c, each in rows.get("comparisons", ()))
        return cls(rows["family"], rows["n_features"], blocks, tuple(rows.get("n_categories", ())), comparisons)


@dataclass(frozen=True)
class PointPairs(ReadByEntries):
    """Pairs of points: row r is the pair of ``points[left[r]]`` and ``others[right[r]]``.

    Attributes
    ----------
    columns
        The columns of a pair.
    points, others
        The points, shapes (n, columns.width) and (n', columns.width), float32; NaN is a missing value.
    left, right
        Numbers of the points of each pair, shape (m,), int32.
    is_complete
        Whether no point lacks a value; None: found out here. A column is NaN for a pair of which either point lacks it.
    schema
        What the numbers of features stand for; None: as in training.

    Examples
    --------
    >>> points = np.array([[0.0, 3.0], [1.0, 1.0]], np.float32)
    >>> pair = PointPairs.from_points(PairColumns("difference_mean", 2), points, [[0, 1]])
    >>> pair.block(np.array([0], np.int32), np.arange(4, dtype=np.int32))
    array([[1. , 2. , 0.5, 2. ]])
    """

    columns: PairColumns
    points: Float32s
    others: Float32s
    left: Int32s
    right: Int32s
    is_complete: bool | None = None
    schema: Schema | None = None

    def __post_init__(self) -> None:
        if any(one.comparator not in COMPARATORS for one in self.columns.comparisons):  # which may return NaN
            object.__setattr__(self, "is_complete", False)
        if self.is_complete is None:
            is_never_missing = is_complete(self.points) and (self.others is self.points or is_complete(self.others))
            object.__setattr__(self, "is_complete", is_never_missing)

    @classmethod
    def from_points(
        cls, columns: PairColumns, points: np.ndarray, pairs: object, others: np.ndarray | None = None
    ) -> PointPairs:
        """Make pairs of two rows of ``points``, or of a row of ``points`` and one of ``others``.

        Parameters
        ----------
        columns
            The columns of a pair.
        points, others
            The points, shapes (n, columns.width) and (n', columns.width); None: ``others`` are the points.
        pairs
            Numbers of the two rows of each pair, shape (m, 2).
        """
        numbers = np.asarray(pairs, np.int32).reshape(-1, 2)
        left, right = np.ascontiguousarray(numbers[:, 0]), np.ascontiguousarray(numbers[:, 1])
        points = frozen(points, np.float32)
        return cls(columns, points, points if others is None else frozen(others, np.float32), left, right)

    def of_pairs(self, left: Int32s, right: Int32s) -> PointPairs:
        """Make other pairs of the same points."""
        return replace(self, left=left, right=right)

    @property
    def shape(self) -> tuple[int, int]:
        """Number of pairs, and number of columns of a pair."""
        return len(self.left), self.columns.n_columns

    @cached_property
    def reading(self) -> PairReading:
        """The pairs as kernels take them; points that were pickled can be written to until then.

        Where records are compared, each distinct pair has a second point of its own, which the comparisons follow.
        """
        points, others, right = frozen(self.points, np.float32), frozen(self.others, np.float32), self.right
        if self.columns.comparisons:
            schema = self.schema or self.columns.schema
            assert schema is not None  # noqa: S101  (whoever makes columns with comparisons gives it)
            first, of_pair = self._distinct
            one, other = points[self.left[first]], others[self.second_points]
            values = [comparison.values(one, other, schema.columns) for comparison in self.columns.comparisons]
            others, right = np.column_stack([other, *values]), of_pair.astype(np.int32)
        return PairReading(points, others, self.left, right, self.columns.column_reading, bool(self.is_complete))

    @cached_property
    def _distinct(self) -> tuple[Ints, Ints]:
        """One pair for each of the distinct ones, and the distinct one that each pair is: trees share many pairs."""
        keys = self.left * np.int64(len(self.others)) + self.right
        _, first, of_pair = np.unique(keys, return_index=True, return_inverse=True)
        return first, of_pair

    @property
    def second_points(self) -> Int32s:
        """The number in ``others`` of each second point that `reading` has, where records are compared."""
        return self.right[self._distinct[0]]

    @cached_property
    def observed(self) -> Present:
        """Which features each point of `reading` has; of complete points nothing is written down."""
        points, others = self.reading.points, self.reading.others
        return ALL_PRESENT if self.is_complete else presence(points, others, self.columns.n_features)

    def entries(self, rows: Int32s, columns: Int32s) -> Floats:
        """The values at ``(rows[e], columns[e])``, shape (n_entries,)."""
        values = np.empty(len(rows))
        read_pairs(self.reading, rows, columns, values)
        return values

    def project(self, rows: Int32s, starts: Ints, projections: Projections) -> Floats:
        """The candidates' values, shape (width, n_rows)."""
        values = np.empty((projections.width, len(rows)))
        project_point_pairs(self.reading, rows, starts, projections, values)
        return values


def check_points(points: Float32s, columns: PairColumns | None = None) -> None:
    """Refuse points whose differences, sums or inner products overflow float32, and codes that are no categories.

    Features may be missing, but not the vectors of further columns. Raises InputError.
    """
    if columns is not None and columns.comparisons and columns.schema is not None:
        check_codes(points, columns.schema.n_categories)
    elif columns is not None and columns.n_categories:
        check_codes(points, columns.n_categories)
    values = points.reshape(-1)
    largest = float(max(np.fmax.reduce(values, initial=0.0), -np.fmin.reduce(values, initial=0.0)))
    if largest > LARGEST_FEATURE:
        raise InputError(
            f"features of points in pairs must be at most {LARGEST_FEATURE:g}, found {largest:g}; scale them"
        )
    if columns is None or not columns.blocks:
        return
    begin = columns.n_features
    lacks = np.isnan(points[:, begin:]).any(axis=1)
    if lacks.any():
        found = f"found one in row {int(np.argmax(lacks))}; give every point its vector, as `extended` does"
        raise InputError(f"values of pair columns must not be NaN, {found}")
    most = LARGEST_FEATURE / 4.0  # |a - b|^2 <= 4 max(|a|, |b|)^2
    for kind, size in columns.blocks:
        square = float((points[:, begin : begin + size].astype(np.float64) ** 2).sum(axis=1).max(initial=0.0))
        if kind != "same" and square > most:
            raise InputError(f"squared lengths of pair columns must be at most {most:g}, found {square:g}; scale them")
        begin += size


def check_pairs_and_links(address: str, shape: tuple[int, ...], dtype: str, n_similar: int) -> None:
    """Refuse pairs that are not two row numbers for each entry of similar; raises InputError."""
    if shape != (n_similar, 2) or not dtype.startswith(("int", "uint")):
        expected = f"{address}: row numbers of shape ({n_similar}, 2) were expected, a pair for each entry of similar"
        raise InputError(f"{expected}, found {dtype} of shape {shape}")


def check_pairs(pairs: np.ndarray, n_points: int) -> np.ndarray:
    """Refuse anything but pairs of distinct points; returns them as int32 of shape (m, 2).

    Raises
    ------
    InputError
        The shape or the dtype is another, a number is not that of a point, or a point is paired with itself; names the
        first such pair.
    """
    expected = "pairs: row numbers of shape (n_pairs, 2) were expected"
    pairs = _whole(pairs, expected)
    if pairs.ndim != 2 or pairs.shape[1] != 2 or pairs.dtype.kind not in "iu":
        raise InputError(f"{expected}, found {pairs.dtype} {pairs.shape}")
    outside = (pairs < 0) | (pairs >= n_points)
    if outside.any():
        row, column = np.argwhere(outside)[0].tolist()
        raise InputError(f"pairs: numbers must be in 0..{n_points - 1}, found {pairs[row, column]} in pair {row}")
    same = pairs[:, 0] == pairs[:, 1]
    if same.any():
        found = f"found point {pairs[same][0, 0]} twice in pair {int(same.argmax())}"
        raise InputError(f"pairs: two points were expected, {found}; leave out what pairs a point with itself")
    return np.ascontiguousarray(pairs, np.int32)


def _whole(values: np.ndarray, expected: str) -> np.ndarray:
    """Objects as int64 if all are whole, such as those of nullable dtypes; any other array stays as it is.

    Raises InputError with the first pair that lacks a value.
    """
    numbers = with_plain_numbers(values)
    lacks = np.isnan(numbers) if numbers.dtype.kind == "f" else np.zeros(numbers.shape, bool)
    if lacks.any():
        raise InputError(f"{expected}, found a missing one in pair {np.argwhere(lacks)[0, 0]}; leave out such pairs")
    if values.dtype.kind == "O" and numbers.dtype.kind == "f" and (numbers == np.trunc(numbers)).all():
        return numbers.astype(np.int64)
    return numbers


def codes_of_links(similar: object) -> NDArray[np.uint8]:
    """The class of each pair, shape (n_pairs,): `SIMILAR` for True or 1, `DISSIMILAR` for False, 0 or -1.

    Raises
    ------
    InputError
        The array has another shape or other values.
    """
    links = np.asarray(unmasked(similar))
    expected = "similar: True or False (1 or 0, 1 or -1) for each pair was expected"
    if links.ndim != 1:
        raise InputError(f"{expected}, found shape {links.shape}")
    links = _whole(links, expected)
    values = set(np.unique(links).tolist()) if links.dtype.kind in "biuf" else {str(links.dtype)}
    if not (values <= {0, 1} or values <= {-1, 1}):
        raise InputError(f"{expected}, found {sorted(values, key=str)[:5]}")
    return np.where(links == 1, SIMILAR, DISSIMILAR).astype(np.uint8)


def named(columns: PairColumns, features: Iterable[str], blocks: Iterable[str]) -> list[str]:
    """Names of the columns of a pair, for plots and reports; comparisons name themselves.

    Examples
    --------
    >>> named(PairColumns("max_min", 1, (("dot", 4),)), ["length"], ["cosine"])
    ['max(length)', 'min(length)', 'cosine']
    >>> named(PairColumns("max_min", 1, n_categories=(3,)), ["colour"], [])
    ['differ(colour)', 'pair(colour)']
    """
    names = list(features)
    of_numbers = {"max_min": ("max({})", "min({})")}.get(columns.family, ("|d {}|", "mean({})"))
    words = [("differ({})", "pair({})") if n else of_numbers for n in columns.n_categories or (0,) * len(names)]
    halves = [word[half].format(name) for half in range(2) for word, name in zip(words, names, strict=True)]
    return [*halves[: columns.n_of_family], *blocks, *(one.name(names) for one in columns.comparisons)]


def two_of(number: int) -> tuple[int, int]:
    """The two categories k <= l of which l (l + 1) / 2 + k is the number.

    Examples
    --------
    >>> [two_of(number) for number in range(4)]
    [(0, 0), (0, 1), (1, 1), (0, 2)]
    """
    larger = (math.isqrt(8 * number + 1) - 1) // 2
    return number - larger * (larger + 1) // 2, larger


@no_refcount
def pair_value(a: Float32s, b: Float32s, column: int, how: ColumnReading) -> float:
    """|a_c - b_c|, (a_c + b_c) / 2, max(a_c, b_c) or min(a_c, b_c); of a block, `value_of_block`.

    A column of the family is NaN where a_c or b_c is; of categories, see `value_of_categories`.
    """
    family, n_features, n_of_family, begin, reduction, kinds, sizes = how
    if kinds.shape[0] > 0 and column < n_of_family:
        is_second = column >= n_features
        c = column - n_features if is_second else column
        if kinds[c] != OF_NUMBERS:
            return value_of_categories(a[c], b[c], kinds[c], sizes[c], is_second)
    if column < n_features:
        if family != MAX_MIN:
            return np.float64(abs(a[column] - b[column]))
        if np.isnan(b[column]):  # max is its first argument where either is NaN
            return np.nan
        return np.float64(max(a[column], b[column])) + 0.0  # no -0.0, which would depend on the order
    if column < n_of_family:
        c = column - n_features
        if family != MAX_MIN:
            return np.float64((a[c] + b[c]) * np.float32(0.5))
        return np.nan if np.isnan(b[c]) else np.float64(min(a[c], b[c])) + 0.0
    block = column - n_of_family
    return value_of_block(a, b, begin[block], begin[block + 1], reduction[block])


@no_refcount
def value_of_block(a: Float32s, b: Float32s, first: int, end: int, reduction: int) -> float:
    """sum_k a_k b_k, mean_k 1[a_k = b_k] or sqrt(sum_k (a_k - b_k)^2) over first <= k < end; a comparison: b_first."""
    total = 0.0
    if reduction == COMPARISON:
        return np.float64(b[first])
    if reduction == 0:
        for k in range(first, end):
            total += np.float64(a[k]) * np.float64(b[k])
    elif reduction == 1:
        for k in range(first, end):
            total += a[k] == b[k]
        total /= end - first
    else:
        for k in range(first, end):
            difference = np.float64(a[k]) - np.float64(b[k])
            total += difference * difference
        total = math.sqrt(total)
    return np.float64(np.float32(total))


@no_refcount
def value_of_categories(one: np.float32, other: np.float32, kind: np.uint8, size: int, is_second: bool) -> float:
    """1[a != b]; in the second column l (l + 1) / 2 + k for k = min(a, b) and l = max(a, b), or 0 if unpaired.

    NaN where a or b is, and in the second column where either is a category that the forest has not seen. 0 where the
    feature is compared.
    """
    if kind == ONLY_COMPARED:
        return 0.0
    if np.isnan(one) or np.isnan(other):
        return np.nan
    if not is_second:
        return 1.0 if one != other else 0.0
    if kind == UNPAIRED:
        return 0.0
    larger = np.float64(max(one, other))
    if larger >= size:
        return np.nan
    return larger * (larger + 1.0) * 0.5 + np.float64(min(one, other))


@no_refcount
def read_pairs(pairs: PairReading, rows: Int32s, columns: Int32s, values: Floats) -> None:
    """values[e] = column columns[e] of pair rows[e]."""
    points, others, left, right, how, _ = pairs
    for e in range(rows.shape[0]):
        a, b = points[left[rows[e]]], others[right[rows[e]]]
        values[e] = pair_value(a, b, columns[e], how)


@no_refcount
def read_column(column: int, rows: Int32s, pairs: PairReading, values: Floats) -> None:
    """values[r] = a column of pair rows[r]: `pair_value`, with one test for all pairs of what the column is."""
    points, others, left, right, how, _ = pairs
    n_features, n_of_family, is_plain = how.n_features, how.n_of_family, how.family != MAX_MIN
    if how.kinds.shape[0] > 0 and column < n_of_family:
        is_plain = is_plain and how.kinds[column % n_features] == OF_NUMBERS
    rows, left, right = rows.view(np.uint32), left.view(np.uint32), right.view(np.uint32)  # see `distforest.jit`
    if is_plain and column < n_features:
        for r in range(rows.shape[0]):
            values[r] = np.float64(abs(points[left[rows[r]], column] - others[right[rows[r]], column]))
    elif is_plain and column < n_of_family:
        c = column - n_features
        for r in range(rows.shape[0]):
            values[r] = np.float64((points[left[rows[r]], c] + others[right[rows[r]], c]) * np.float32(0.5))
    else:
        for r in range(rows.shape[0]):
            a, b = points[left[rows[r]]], others[right[rows[r]]]
            values[r] = pair_value(a, b, column, how)


@kernel
def project_point_pairs(
    pairs: PairReading, rows: Int32s, starts: Ints, projections: Projections, values: Floats
) -> None:
    """values[k, r] = sum over e of weights[e] * column columns[e] of pair rows[r], e in candidate k of its node."""
    width, offset, columns, weights = projections
    of_column = np.empty(PROJECTED_ROWS)
    for node in range(starts.shape[0] - 1):
        for first in range(starts[node], starts[node + 1], PROJECTED_ROWS):
            block = rows[first : min(first + PROJECTED_ROWS, starts[node + 1])]
            for k in range(width):
                sums = values[k, first : first + block.shape[0]]
                sums[:] = 0.0
                for e in range(offset[node * width + k], offset[node * width + k + 1]):
                    read_column(columns[e], block, pairs, of_column)
                    for r in range(block.shape[0]):
                        sums[r] += weights[e] * of_column[r]
