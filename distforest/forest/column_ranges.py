"""Ranges of features: between which numbers each column of the training rows lies, and queries far from all of them.

Trees cut within the range of the training rows. All queries beyond it end on the same side of every cut, so a column in
another unit, or not scaled as in training, tells none of them apart, and nothing in the answers shows it. A built-in
similarity to all training rows is then that of one column, or nearly 0.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from distforest.sources.arrays import ArraySource, release_pages, row_blocks
from distforest.sources.kernels import KernelSource
from distforest.sources.side_by_side import SideBySide
from distforest.sources.source import Floats, Source

COLUMN_RANGES = "ranges"
"""The key in a forest's provenance of the least and the greatest value of each column of the training rows."""

MOST_RANGES = 4096
"""The most columns of which a forest keeps the ranges."""

FEWEST_QUERIES = 8
"""Fewer queries are not judged: they may be alike for a reason of their own."""

RANGED_BYTES = 1 << 20
"""Bytes of rows that stay in the processor's cache between the least and the greatest."""

VALUES_SIDE_BY_SIDE = 2048
"""Number of values that are compared with as many others at a time."""


FAR_MARK = 10.0
"""A number of nines, such as -9999, is a mark if it lies so many times the range of a column beyond it."""


class ColumnRanges(NamedTuple):
    """The least and the greatest value of each column, shape (n_columns,) both; NaN in a column without any.

    Attributes
    ----------
    least, greatest
        The ends of the ranges.
    lacks
        Whether a row lacks the value, shape (n_columns,).
    """

    least: Floats
    greatest: Floats
    lacks: NDArray[np.bool_]

    @classmethod
    def of(cls, matrix: np.ndarray) -> ColumnRanges:
        """The ranges of the columns of a matrix, shape (n, n_columns), of which NaN is a missing value.

        Examples
        --------
        >>> ColumnRanges.of(np.array([[1.0, np.nan], [3.0, 5.0]]))
        ColumnRanges(least=array([1., 5.]), greatest=array([3., 5.]), lacks=array([False,  True]))
        """
        least, greatest = np.full((2, matrix.shape[1]), np.nan)
        lacks = np.zeros(matrix.shape[1], np.bool_)
        for _, block in row_blocks(matrix, RANGED_BYTES):
            lowest, highest = (along_columns(f, block) for f in (np.minimum, np.maximum))
            if (holes := np.isnan(lowest)).any():  # without NaN, min and max are several times as fast as fmin and fmax
                lacks |= holes
                lowest[holes], highest[holes] = (f.reduce(block[:, holes], axis=0) for f in (np.fmin, np.fmax))
            least, greatest = np.fmin(least, lowest), np.fmax(greatest, highest)
            release_pages(matrix)  # a job by passes has no room for all of a map
        return cls(least, greatest, lacks)

    @classmethod
    def of_source(cls, source: Source) -> ColumnRanges | None:
        """The ranges of the features of rows; None of sparse ones, and of similarities that are no features' own."""
        if isinstance(source, SideBySide):  # of built-in similarities, which read the same features
            return cls.of_source(source.sources[0])
        if isinstance(source, KernelSource):
            return cls.of(source.row_objects)
        return cls.of(source.values) if isinstance(source, ArraySource) else None

    @classmethod
    def of_entry(cls, entry: object, but: Collection[int] = ()) -> ColumnRanges | None:
        """The ranges that an entry of a provenance holds, without those of the columns ``but``; None if it holds none.

        Examples
        --------
        >>> ColumnRanges.of_entry({"least": [1.0, 2.0], "greatest": [3.0, 2.0]}, [1]).greatest
        array([ 3., nan])
        >>> ColumnRanges.of_entry({"least": "1"})
        """
        ends = [entry.get(name) for name in ("least", "greatest")] if isinstance(entry, Mapping) else []
        if not ends or not all(isinstance(end, list) for end in ends):
            return None
        try:
            least, greatest = (np.array(end, np.float64) for end in ends)  # of None NaN
        except (TypeError, ValueError):
            return None
        if least.ndim != 1 or least.shape != greatest.shape:
            return None
        for end in (least, greatest):
            end[[column for column in but if column < len(end)]] = np.nan
        return cls(least, greatest, np.zeros(len(least), np.bool_))

    def joined(self, other: ColumnRanges) -> ColumnRanges:
        """The ranges of the rows of both."""
        ends = np.fmin(self.least, other.least), np.fmax(self.greatest, other.greatest)
        return ColumnRanges(*ends, self.lacks | other.lacks)

    def entry(self) -> dict[str, Any]:
        """The entry of a provenance; empty for too many columns."""
        if len(self.least) > MOST_RANGES:
            return {}
        ends = [[None if value != value else value for value in end.tolist()] for end in (self.least, self.greatest)]
        return {COLUMN_RANGES: dict(zip(("least", "greatest"), ends, strict=True))}

    def far(self, queries: ColumnRanges) -> list[int]:
        """The columns of which all queries lie beyond these ranges, further than the range is wide.

        A constant column is never cut, so it does not matter where queries are.

        Examples
        --------
        >>> training = ColumnRanges.of(np.array([[1.0, 0.0, 2.0], [3.0, 1.0, 2.0]]))
        >>> training.far(ColumnRanges.of(np.array([[100.0, 2.1, 9.0], [300.0, -5.0, 9.0]])))
        [0]
        """
        if len(queries.least) != len(self.least):
            return []
        width = self.greatest - self.least
        with np.errstate(invalid="ignore"):
            beyond = (queries.least - self.greatest > width) | (self.least - queries.greatest > width)
            return [int(column) for column in np.flatnonzero(beyond & (width > 0.0))]

    def told_of_far(self, queries: ColumnRanges, names: Sequence[str] | None = None) -> str:
        """A warning of the columns that `far` finds; "" without any.

        Examples
        --------
        >>> training = ColumnRanges.of(np.array([[11.0], [15.0]]))
        >>> queries = ColumnRanges.of(np.array([[11000.0], [14500.0]]))
        >>> training.told_of_far(queries, ["alcohol"])
        "all rows lie far beyond those of training in 'alcohol' (11000 to 14500 here, 11 to 15 in training), where the
        forest has learned nothing; give it in the unit and on the scale of training"
        """
        columns = self.far(queries)
        if not columns:
            return ""
        ends = [(own.least[column], own.greatest[column]) for column in columns[:3] for own in (queries, self)]
        spans = [f"{low:.6g} to {high:.6g}" for low, high in ends]
        called = [repr(names[column]) if names else f"column {column}" for column in columns[:3]]
        first = f"{called[0]} ({spans[0]} here, {spans[1]} in training)"
        others = [f"{name} ({spans[2 * k]}, {spans[2 * k + 1]})" for k, name in enumerate(called) if k]
        more = f" and {len(columns) - 3:,} more" if len(columns) > 3 else ""
        it = "it" if len(columns) == 1 else "them"
        found = f"all rows lie far beyond those of training in {', '.join([first, *others])}{more}"
        return f"{found}, where the forest has learned nothing; give {it} in the unit and on the scale of training"

    def told(self, queries: ColumnRanges, n_queries: int, names: Sequence[str] | None = None) -> str:
        """What is told of ``n_queries``: if they are not few that all are far or coded otherwise, or else a mark."""
        told = ""
        if n_queries >= FEWEST_QUERIES:
            told = self.told_of_far(queries, names) or self.told_of_codes(queries, names)
        return told or self.told_of_marks(queries, names)

    def told_of_codes(self, queries: ColumnRanges, names: Sequence[str] | None = None) -> str:
        """A warning of a column from 0 to 1 in training that is from 1 to 2 in queries, or the reverse; else "".

        Yes and no are coded in either way; by the other codes all queries end on one side of a cut.

        Examples
        --------
        >>> training = ColumnRanges.of(np.array([[0.0], [1.0]]))
        >>> training.told_of_codes(ColumnRanges.of(np.array([[1.0], [2.0]])), ["is red"])
        "'is red' is from 1 to 2 here, but from 0 to 1 in training; if these are codes of two words, code them as in
        training"
        """
        if len(queries.least) != len(self.least):
            return ""
        for column in range(len(self.least)):
            own, here = ((ends.least[column], ends.greatest[column]) for ends in (self, queries))
            if {own, here} == {(0.0, 1.0), (1.0, 2.0)}:
                called = repr(names[column]) if names else f"column {column}"
                here_and_own = f"from {here[0]:g} to {here[1]:g} here, but from {own[0]:g} to {own[1]:g} in training"
                return f"{called} is {here_and_own}; if these are codes of two words, code them as in training"
        return ""

    def told_of_marks(self, queries: ColumnRanges, names: Sequence[str] | None = None) -> str:
        """A warning of numbers that mark what is missing in queries, such as -9999, and that training lacked; else "".

        They are whole numbers of nines, far beyond the range of a column.

        Examples
        --------
        >>> training = ColumnRanges.of(np.array([[11.0, 0.0], [15.0, 1.0]]))
        >>> queries = ColumnRanges.of(np.array([[-9999.0, 0.0], [14.5, 1.0]]))
        >>> training.told_of_marks(queries, ["alcohol", "red"])
        "'alcohol' holds -9999, far beyond training rows (11 to 15), and is read as that number; if it marks what is
        missing, put NaN in its place"
        """
        if len(queries.least) != len(self.least):
            return ""
        width = self.greatest - self.least
        for column in np.flatnonzero(width > 0.0).tolist():
            for value in (float(queries.least[column]), float(queries.greatest[column])):
                beyond = max(self.least[column] - value, value - self.greatest[column])
                if beyond > FAR_MARK * width[column] and _is_of_nines(value):
                    called = repr(names[column]) if names else f"column {column}"
                    own = f"{self.least[column]:.6g} to {self.greatest[column]:.6g}"
                    found = f"{called} holds {value:.0f}, far beyond training rows ({own}), and is read as that number"
                    return f"{found}; if it marks what is missing, put NaN in its place"
        return ""


def _is_of_nines(value: float) -> bool:
    """Whether a number is whole and written with nines alone, at least two of them.

    Examples
    --------
    >>> [_is_of_nines(value) for value in (-99.0, 9999.0, 9.0, 99.5, 990.0, float("nan"))]
    [True, True, False, False, False, False]
    """
    digits = f"{abs(value):.0f}"
    return len(digits) > 1 and value % 1.0 == 0.0 and set(digits) == {"9"}


def along_columns(ufunc: np.ufunc, block: np.ndarray) -> np.ndarray:
    """Reduce the columns of a matrix, shape (n, n_columns), n > 0, by ``np.minimum`` or ``np.maximum``.

    Rows of few columns are taken many at a time, side by side as one, so that one instruction compares several values.

    Examples
    --------
    >>> along_columns(np.maximum, np.arange(6.0).reshape(3, 2))
    array([4., 5.])
    """
    n, n_columns = block.shape
    at_once = max(1, VALUES_SIDE_BY_SIDE // max(1, n_columns))
    folds = n // at_once if block.flags.c_contiguous else 0
    if at_once == 1 or folds < 2:
        found: np.ndarray = ufunc.reduce(block, axis=0)
        return found
    n_folded = folds * at_once
    wide = ufunc.reduce(block[:n_folded].reshape(folds, at_once * n_columns), axis=0)
    return along_columns(ufunc, np.concatenate([wide.reshape(at_once, n_columns), block[n_folded:]]))
