"""Columns of data frames and of arrays of objects: their schema is learned once, and later rows are encoded by it.

Dates are counted from their first day. A category is a string: the digits of a whole number, ``"True"`` or ``"False"``
of a boolean. So 1, 1.0 and "1" are one category, whatever the library and the dtype of a later table. None, NaN and the
like are missing.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass
from decimal import Decimal
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, TypeVar

import narwhals as nw
import numpy as np

from distforest.amounts import counted
from distforest.errors import InputError
from distforest.sources.given import is_data_frame, is_sparse
from distforest.sources.schema import MAX_CATEGORIES, ColumnKind, FeatureColumn, Schema

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray

    Which = str | ArrayLike | None
    """Which columns hold categories, as the parameter ``categorical_features`` has it."""

T = TypeVar("T")

FROM_DTYPE = "from_dtype"
"""The word for the columns whose dtype says that they hold categories, or whose values are strings."""

MISSING_TYPES = frozenset({"NoneType", "NAType", "NaTType"})
"""Types of values that are missing, beside NaN."""


@dataclass(frozen=True)
class TableColumns:
    """The columns of a table, before they are read as numbers.

    Attributes
    ----------
    names
        The name of each column.
    dtypes
        The dtype of each column, as its library names it; empty for an array.
    columns
        The columns: series of narwhals, or vectors of objects.
    """

    names: tuple[str, ...]
    dtypes: tuple[str, ...]
    columns: Sequence[Any]

    @classmethod
    def from_frame(cls, frame: object) -> TableColumns | None:
        """Split a data frame of any library that narwhals supports into its columns; return None for another object.

        Raises
        ------
        InputError
            Two columns have one name.
        """
        if not is_data_frame(frame):
            return None
        given: Any = getattr(frame, "column_names", frame.columns)
        names = tuple(map(str, given))
        if len(set(given)) < len(names):
            twice, times = Counter(names).most_common(1)[0]
            expected = "X: a name of its own was expected for each column"
            cure = "rename them, or give X.to_numpy() to have no names"
            raise InputError(f"{expected}, found {twice!r} for {times} of them; {cure}")
        known = nw.from_native(frame, eager_only=True, pass_through=True)
        if not isinstance(known, nw.DataFrame):
            return None
        columns = [*known.iter_columns()]
        natives = [column.to_native() for column in columns]
        dtypes = (getattr(native, "dtype", None) or getattr(native, "type", "unknown") for native in natives)
        return cls(names, tuple(map(str, dtypes)), columns)

    @classmethod
    def from_rows(cls, rows: object, which: Which) -> TableColumns | None:
        """Take a table apart; None if NumPy or SciPy reads its numbers as they are."""
        if is_sparse(rows):
            return None
        if (table := cls.from_frame(rows)) is not None:
            dtypes = [getattr(column.to_native(), "dtype", None) for column in table.columns]
            are_numbers = all(isinstance(dtype, np.dtype) and dtype.kind in "biuf" for dtype in dtypes)
            are_sparse = all(getattr(dtype, "fill_value", None) == 0 for dtype in dtypes)  # columns of pandas
            is_plain = (are_numbers or are_sparse) and (which is None or is_from_dtype(which))
            return None if is_plain or not dtypes else table
        if which is None or is_data_frame(rows):
            return None
        array = np.asarray(rows)
        if array.ndim != 2 or not array.size or (array.dtype.kind not in "OU" and is_from_dtype(which)):
            return None
        return cls(Schema.unnamed(array.shape[1]).names, (), [*array.T])

    def learned(self, which: Which) -> Schema | None:
        """Learn the schema: dates, and categories of the columns that hold them; None for an array without any.

        Raises
        ------
        InputError
            A column that is named does not exist, holds no categories, or holds too many; a column of dates holds none.
        """
        if which is None:
            chosen = []
        elif is_from_dtype(which):
            chosen = [place for place, values in enumerate(self.columns) if _is_of_categories(values)]
        else:
            chosen = positions_of(which, self.names)
        if not (chosen or self.dtypes):
            return None
        columns = []
        for place, column in enumerate(Schema.from_names(self.names, self.dtypes).columns):
            if place in chosen:
                columns.append(self._with_categories(place, column))
            elif (moments := dates_in(self.columns[place])) is not None:
                known = moments[~np.isnat(moments)]
                if not len(known):
                    raise InputError(f"X: dates were expected in column {column.name!r}, found none; leave it out")
                has_times = bool((known != known.astype("datetime64[D]")).any())
                zoned = _is_zoned(self.columns[place])
                columns.append(FeatureColumn.of_dates(column.name, column.dtype, known.min(), has_times, zoned))
            else:
                columns.append(column)
        return Schema(tuple(columns))

    def encoded(self, schema: Schema, cure: str) -> tuple[NDArray[np.floating], dict[str, Counter[str]]]:
        """Encode the rows by a schema with as many columns; ``cure`` is what to do about one that holds no numbers.

        Returns
        -------
        matrix : ndarray
            The numbers of the rows, shape (n, n_columns); NaN for a missing value and an unseen category.
        unseen : dict
            How many rows have each unseen category, by the name of the column.

        Raises
        ------
        InputError
            A column holds something else than the schema says.
        """
        are_narrow = all(dtype.lower() in ("float", "float32") for dtype in self.dtypes or ("",))
        matrix = np.empty((len(self.columns[0]), len(self.columns)), np.float32 if are_narrow else np.float64)
        unseen: dict[str, Counter[str]] = {}
        for place, (column, values) in enumerate(zip(schema.columns, self.columns, strict=True)):
            if column.kind != ColumnKind.CATEGORY:
                matrix[:, place] = self._numbers(place, column, cure)
                continue
            codes, names = named_values(values, column.name)
            matrix[:, place] = np.append(column.codes(names), np.nan)[codes]
            known = set(column.categories)
            counts = np.bincount(codes[codes >= 0], minlength=len(names)).tolist()
            both = zip(names, counts, strict=True)
            found = Counter({name: count for name, count in both if name is not None and name not in known})
            if found:
                are_codes = all(map(_is_whole, found)) and not any(map(_is_whole, column.categories))
                are_codes = are_codes and not any(isinstance(value, str) for value in _listed(values))
                if found.total() == (codes >= 0).sum() and are_codes:  # codes of words say nothing without the words
                    expected = f"X: words such as {column.categories[0]!r} were expected in column {column.name!r}"
                    cure = "give a data frame, or the address of an array that says which words they are"
                    raise InputError(f"{expected}, found numbers; {cure}")
                unseen[column.name] = found
        return matrix, unseen

    def _with_categories(self, place: int, column: FeatureColumn) -> FeatureColumn:
        """The column with the categories that occur in it: in the order of its dtype, or sorted."""
        codes, names = named_values(self.columns[place], column.name)
        occur = {names[code] for code in np.unique(codes[codes >= 0]).tolist()} - {None}
        if len(occur) > MAX_CATEGORIES:
            cure = "leave out a column of names or text, or replace rare categories by one"
            found = f"found {counted(len(occur), 'category', 'categories')}"
            raise InputError(f"X: at most {MAX_CATEGORIES:,} were expected in column {column.name!r}, {found}; {cure}")
        dtype: Any = getattr(_native(self.columns[place]), "dtype", None)
        is_listed = str(dtype).startswith(("category", "Enum"))  # of pandas and Polars
        in_order = [name for name in map(_name, dtype.categories if is_listed else ()) if name in occur]
        categories = tuple(name for name in in_order or sorted(occur, key=_by_number) if name is not None)
        return FeatureColumn(column.name, ColumnKind.CATEGORY, column.dtype, categories)

    def _numbers(self, place: int, column: FeatureColumn, cure: str) -> NDArray[np.float64]:
        """The numbers of a column of numbers or dates; dates may be counted already."""
        values, name = self.columns[place], column.name
        if column.kind == ColumnKind.DATE:
            if (moments := dates_in(values)) is not None:
                if _is_zoned(values) != column.in_utc:
                    wanted, found = ("with a time zone", "without one")[:: 1 if column.in_utc else -1]
                    expected = f"X: dates {wanted} were expected in column {name!r}, as in training"
                    raise InputError(f"{expected}, found dates {found}")
                return column.counts(moments)
            listed = np.asarray(_native(values))
            word = next((one for one in listed.tolist() if isinstance(one, str)), None)
            if word is not None:
                expected = f"X: dates were expected in column {name!r}, as in training"
                raise InputError(f"{expected}, found words such as {word!r}; give datetime64")
        if (numbers := numbers_in_column(values)) is not None:
            return numbers
        others = (type(value).__name__ for value in values if not isinstance(value, Real))
        found = self.dtypes[place] if self.dtypes else next(others, "others")
        raise InputError(f"X: numbers were expected in column {name!r}, found {found}; {cure}")


def numbers_in_column(column: object) -> NDArray[np.float64] | None:
    """The numbers of a column, NaN where missing; None if it holds anything that NumPy does not convert to numbers.

    Examples
    --------
    >>> import pandas as pd
    >>> numbers_in_column(pd.Series(["3", pd.NA])), numbers_in_column(pd.Series(["three"]))
    (array([ 3., nan]), None)
    """
    native = _native(column)
    kind = getattr(getattr(native, "dtype", None), "kind", None)
    if kind is not None and kind in "biuf" and hasattr(native, "isna"):  # pandas' missing values are no floats
        own: NDArray[np.float64] = native.to_numpy(dtype=np.float64, na_value=np.nan)
        return own
    values = with_none(np.asarray(native))
    if values.dtype.kind in "mMc":  # NumPy would convert dates to counts since 1970, and drop what is imaginary
        return None
    try:
        return values.astype(np.float64)
    except (TypeError, ValueError):
        return None


def dates_in(column: object) -> NDArray[np.datetime64] | None:
    """The dates of a series of narwhals, in UTC if they have a time zone; None if it holds anything else."""
    if not isinstance(column, nw.Series) or not column.dtype.is_temporal():
        return None
    if column.dtype == nw.Date:
        column = column.cast(nw.Datetime("us"))
    if column.dtype != nw.Datetime:
        return None
    if _is_zoned(column):
        column = column.dt.convert_time_zone("UTC").dt.replace_time_zone(None)
    return np.asarray(column.to_numpy(), "datetime64[us]")


def _is_zoned(column: nw.Series[Any]) -> bool:
    return getattr(column.dtype, "time_zone", None) is not None


def _native(column: object) -> Any:
    return column.to_native() if isinstance(column, nw.Series) else column


def with_none(values: T) -> T:
    """An array of objects with None instead of NA and NaT of pandas; any other object stays as it is.

    Examples
    --------
    >>> import pandas as pd
    >>> with_none(np.array([[3, pd.NA]], object)).tolist()
    [[3, None]]
    """
    pandas = sys.modules.get("pandas")
    if not isinstance(values, np.ndarray) or values.dtype.kind != "O" or pandas is None:  # who has NA has imported it
        return values
    lacks = np.asarray(pandas.isna(values))
    lacks[lacks] = [value is pandas.NA or value is pandas.NaT for value in values[lacks]]
    return np.where(lacks, np.array(None), values) if lacks.any() else values  # type: ignore[return-value]


def with_plain_numbers(values: np.ndarray) -> np.ndarray:
    """An array of objects as float64 if each is a number or missing; any other array stays as it is.

    Words stay, whatever their digits say. A missing value is None, NaN, or NA of pandas.

    Examples
    --------
    >>> with_plain_numbers(np.array([[0, 2.5], [None, 0]], object)).tolist()
    [[0.0, 2.5], [nan, 0.0]]
    >>> with_plain_numbers(np.array(["3", 4], object)).tolist()
    ['3', 4]
    """
    if values.dtype.kind != "O":
        return values
    plain = with_none(values)
    if not all(value is None or isinstance(value, (Real, np.bool_)) for value in plain.flat):
        return values
    try:
        return plain.astype(np.float64)
    except OverflowError:
        return values


def is_from_dtype(which: Which) -> bool:
    """Whether the dtypes of columns decide which of them hold categories."""
    return isinstance(which, str) and which == FROM_DTYPE


def positions_of(which: Which, names: Sequence[str]) -> list[int]:
    """The positions of columns by a mask, by positions, or by names, as scikit-learn has it.

    Raises
    ------
    InputError
        It is none of these, or a column does not exist.

    Examples
    --------
    >>> positions_of([True, False, True], "abc"), positions_of([-1], "abc"), positions_of(["b"], "abc")
    ([0, 2], [2], [1])
    """
    chosen = np.atleast_1d(np.asarray(which)) if not isinstance(which, str) else np.array([which])
    expected = f"a mask, positions or names of {counted(len(names), 'column')}, None or 'from_dtype' were expected"
    if chosen.ndim == 1 and not chosen.size:
        return []
    if chosen.ndim == 1 and chosen.dtype.kind == "b" and len(chosen) == len(names):
        return np.flatnonzero(chosen).tolist()
    if chosen.ndim == 1 and chosen.dtype.kind in "iu" and (chosen >= -len(names)).all() and (chosen < len(names)).all():
        return sorted({int(place) % len(names) for place in chosen})
    if chosen.ndim == 1 and chosen.dtype.kind in "UO" and set(chosen.tolist()) <= set(names):
        return [place for place, name in enumerate(names) if name in set(chosen.tolist())]
    raise InputError(f"categorical_features: {expected}, found {str(which)[:200]}")


def named_values(values: Any, column: str) -> tuple[NDArray[np.intp], list[str | None]]:
    """The categories of a column: their numbers for its rows, -1 for a missing value, and the name of each number.

    Several numbers may have one name, and a name None is that of a missing value.

    Raises
    ------
    InputError
        A value is neither a string, a boolean nor a whole number.
    """
    native = _native(values)
    if hasattr(native, "factorize"):  # pandas
        codes, distinct = native.factorize()
    else:
        place: dict[object, int] = {}
        numbers = (place.setdefault(value, len(place)) for value in _listed(values))
        codes, distinct = np.fromiter(numbers, np.intp), list(place)
    names: list[str | None] = []
    for value in distinct:
        name = _name(value)
        if name is None and not _is_missing(value):
            cure = "make its values strings, or, if it holds amounts, numbers wherever the forest is fitted"
            found = f"found {type(value).__name__} {str(value)[:80]!r}"
            raise InputError(f"X: strings or whole numbers were expected in column {column!r}, {found}; {cure}")
        names.append(name)
    return np.asarray(codes, np.intp), names


def warning_about_unseen(unseen: dict[str, Counter[str]]) -> str:
    """A warning of categories that the forest has not seen; empty if there are none.

    Examples
    --------
    >>> warning_about_unseen({"colour": Counter(green=3)})
    "column 'colour': 3 rows have a category that the forest has not seen ('green'), which counts as missing"
    """
    parts = []
    for column, counts in unseen.items():
        first, more = counts.most_common(1)[0][0], len(counts) - 1
        which = f"{first[:80]!r}" + (f" and {counted(more, 'other')}" if more else "")
        rows = counted(counts.total(), "row")
        has = "has" if counts.total() == 1 else "have"
        parts.append(f"column {column!r}: {rows} {has} a category that the forest has not seen ({which})")
    return f"{'; '.join(parts[:5])}{' and so on' if parts[5:] else ''}, which counts as missing" if parts else ""


def _is_of_categories(values: Any) -> bool:
    """Whether the dtype of a column is one of categories, or its values are strings, booleans, or whole numbers."""
    if isinstance(values, nw.Series):
        if values.dtype in (nw.Categorical, nw.Enum):
            return True
        if values.dtype.is_temporal():
            return False
    if numbers_in_column(values) is not None:
        return False
    listed = _listed(values)
    if not all(issubclass(kind, Hashable) for kind in set(map(type, listed))):
        return False
    return all(_is_missing(value) or _name(value) is not None for value in set(listed))


def _listed(values: Any) -> list[object]:
    """The values of a column as objects of Python's."""
    listed: list[object] = values.to_list() if isinstance(values, nw.Series) else np.asarray(values).tolist()
    return listed


def _is_whole(name: str) -> bool:
    return name.lstrip("-").isdigit()


def _name(value: object) -> str | None:
    """The category of a value; None if it is missing or can be none."""
    if isinstance(value, str):
        return str(value)
    if isinstance(value, (bool, np.bool_)):
        return str(bool(value))
    if isinstance(value, Integral):
        return str(int(value))
    if isinstance(value, (Real, Decimal)) and float(value).is_integer():
        return str(int(float(value)))
    return None


def _is_missing(value: object) -> bool:
    return type(value).__name__ in MISSING_TYPES or (isinstance(value, Real) and value != value)


def _by_number(name: str | None) -> tuple[bool, float, str]:
    """Sorts whole numbers by their size, before all other names."""
    text = name or ""
    is_number = text.removeprefix("-").isdecimal() and text.isascii()
    return not is_number, float(text) if is_number else 0.0, text
