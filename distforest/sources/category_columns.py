"""Columns of categories in tables that callers hand in: their categories are learned once, and then encoded by name.

A category is a string: the digits of a whole number, ``"True"`` or ``"False"`` of a boolean. So 1, 1.0 and "1" are one
category, whatever the library and the dtype of a later table. None, NaN and the like are missing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

import numpy as np

from distforest.amounts import counted
from distforest.errors import InputError
from distforest.sources.data_frames import dtypes_of, frame_columns, holds_numbers
from distforest.sources.given import is_data_frame, is_sparse
from distforest.sources.schema import MAX_CATEGORIES, ColumnKind, FeatureColumn, Schema

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray

    Which = str | ArrayLike | None
    """Which columns hold categories, as the parameter ``categorical_features`` has it."""

FROM_DTYPE = "from_dtype"
"""The word for the columns whose dtype says that they hold categories, or whose values are strings."""

MISSING_TYPES = frozenset({"NoneType", "NAType", "NaTType"})
"""Types of values that are missing, beside NaN."""


_OF_OTHERS = "give what the forest was trained on, or name the column in categorical_features"


@dataclass(frozen=True)
class CategoryTable:
    """The columns of a table, before they are read as numbers.

    Attributes
    ----------
    names
        The name of each column.
    dtypes
        The dtype of each column, as its library names it; empty if all have that of one array.
    columns
        The columns, as their library has them.
    """

    names: tuple[str, ...]
    dtypes: tuple[str, ...]
    columns: Sequence[Any]

    @classmethod
    def of(cls, rows: object, which: Which) -> CategoryTable | None:
        """Take a table apart; None if it may hold no categories, or if it is no table of a known kind."""
        if which is None or is_sparse(rows):
            return None
        if is_data_frame(rows):
            columns = dict(enumerate(frame_columns(rows)))
            names, own = tuple(name for name, _ in columns.values()), [column for _, column in columns.values()]
            return cls(names, dtypes_of(rows), own) if own else None
        array = np.asarray(rows)
        if array.ndim != 2 or not array.size or (array.dtype.kind not in "OU" and is_from_dtype(which)):
            return None
        return cls(Schema.unnamed(array.shape[1]).names, (), [*array.T])

    def schema(self, which: Which) -> Schema | None:
        """Learn the categories of the columns that hold them; None if there are none.

        Raises
        ------
        InputError
            A column that is named does not exist, holds no categories, or holds too many.
        """
        chosen = self._from_dtypes() if is_from_dtype(which) else positions_of(which, self.names)
        if not chosen:
            return None
        plain = Schema.of_names(self.names, self.dtypes).columns
        learned = {place: self._learned(place, plain[place]) for place in chosen}
        return Schema(tuple(learned.get(place, column) for place, column in enumerate(plain)))

    def encoded(self, schema: Schema) -> tuple[NDArray[np.float64], dict[str, Counter[str]]]:
        """Encode the rows by a schema with as many columns.

        Returns
        -------
        matrix : ndarray of float64
            The numbers of the rows, shape (n, n_columns); NaN for a missing value and an unseen category.
        unseen : dict
            How many rows have each unseen category, by the name of the column.

        Raises
        ------
        InputError
            A column that held numbers holds something else.
        """
        matrix = np.empty((len(self.columns[0]), len(self.columns)))
        unseen: dict[str, Counter[str]] = {}
        for place, (column, values) in enumerate(zip(schema.columns, self.columns, strict=True)):
            if column.kind != ColumnKind.CATEGORY:
                matrix[:, place] = self._numbers(place, column.name)
                continue
            codes, names = named_values(values, column.name)
            matrix[:, place] = np.append(column.codes(names), np.nan)[codes]
            known = set(column.categories)
            counts = np.bincount(codes[codes >= 0], minlength=len(names)).tolist()
            both = zip(names, counts, strict=True)
            found = Counter({name: count for name, count in both if name is not None and name not in known})
            if found:
                _check_words(column, found, int((codes >= 0).sum()))
                unseen[column.name] = found
        return matrix, unseen

    def _from_dtypes(self) -> list[int]:
        """The positions of the columns that hold categories by their dtype or, if it says nothing, by their values."""
        return [place for place, values in enumerate(self.columns) if _is_of_categories(values)]

    def _learned(self, place: int, column: FeatureColumn) -> FeatureColumn:
        """The column with the categories that occur in it: in the order of its dtype, or sorted."""
        codes, names = named_values(self.columns[place], column.name)
        occur = {names[code] for code in np.unique(codes[codes >= 0]).tolist()} - {None}
        if len(occur) > MAX_CATEGORIES:
            cure = "leave out a column of names or text, or replace rare categories by one"
            found = f"found {counted(len(occur), 'category', 'categories')}"
            raise InputError(f"X: at most {MAX_CATEGORIES:,} were expected in column {column.name!r}, {found}; {cure}")
        in_order = [name for name in map(_name, _ordered_by_dtype(self.columns[place])) if name in occur]
        categories = tuple(name for name in in_order or sorted(occur, key=_by_number) if name is not None)
        return FeatureColumn(column.name, ColumnKind.CATEGORY, column.dtype, categories)

    def _numbers(self, place: int, name: str) -> NDArray[np.float64]:
        """The numbers of a column, which a message calls as the schema does."""
        values = self.columns[place]
        if not holds_numbers(values):
            found = self.dtypes[place] if self.dtypes else _type_of_first(values)
            is_time = found.lower().startswith(("date", "time", "duration", "period"))
            cure = f"turn times and durations into numbers, or {_OF_OTHERS}" if is_time else _OF_OTHERS
            if found.lower() in ("object", "str", "string", "large_string"):
                cure = f"turn dates into datetime64, such as by pandas.to_datetime, or {_OF_OTHERS}"
            raise InputError(f"X: numbers were expected in column {name!r}, found {found}; {cure}")
        if hasattr(values, "isna") and hasattr(values, "to_numpy"):  # pandas' missing values are no floats
            own: NDArray[np.float64] = values.to_numpy(dtype=np.float64, na_value=np.nan)
            return own
        return np.asarray(values).astype(np.float64)


def _type_of_first(values: NDArray[np.object_]) -> str:
    """The type of the first value that is no number."""
    return next((type(value).__name__ for value in values if not isinstance(value, Real)), "others")


def _check_words(column: FeatureColumn, unseen: Counter[str], n_observed: int) -> None:
    """Refuse numbers where words are categories: codes of words, which say nothing without the words."""
    if (
        sum(unseen.values()) == n_observed
        and all(map(_is_whole, unseen))
        and not any(map(_is_whole, column.categories))
    ):
        expected = f"X: words such as {column.categories[0]!r} were expected in column {column.name!r}, found numbers"
        raise InputError(f"{expected}; give a data frame, or the address of an array that says which words they are")


def _is_whole(name: str) -> bool:
    return name.lstrip("-").isdigit()


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
    if hasattr(values, "factorize"):  # pandas
        codes, distinct = values.factorize()
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


def told_of_unseen(unseen: dict[str, Counter[str]]) -> str:
    """A warning of categories that the forest has not seen; empty if there are none.

    Examples
    --------
    >>> told_of_unseen({"colour": Counter(green=3)})
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
    dtype = str(getattr(values, "dtype", None) or getattr(values, "type", "")).lower()
    if dtype.startswith(("category", "categorical", "enum", "dictionary")):
        return True
    if holds_numbers(values) or dtype.startswith("timedelta"):  # which NumPy lists as integers, in nanoseconds
        return False
    listed = _listed(values)
    if not all(issubclass(kind, Hashable) for kind in set(map(type, listed))):
        return False
    return all(_is_missing(value) or _name(value) is not None for value in set(listed))


def _listed(values: Any) -> list[object]:
    """The values of a column as objects of Python's."""
    listed: list[object] = values.to_pylist() if hasattr(values, "to_pylist") else np.asarray(values).tolist()
    return listed


def _name(value: object) -> str | None:
    """The category of a value; None if it is missing or can be none."""
    if isinstance(value, str):
        return str(value)
    if isinstance(value, (bool, np.bool_)):
        return str(bool(value))
    if isinstance(value, Integral):
        return str(int(value))
    if isinstance(value, Real) and float(value).is_integer():
        return str(int(float(value)))
    return None


def _is_missing(value: object) -> bool:
    return type(value).__name__ in MISSING_TYPES or (isinstance(value, Real) and value != value)


def _ordered_by_dtype(values: Any) -> Sequence[object]:
    """The categories that a dtype lists in an order of its own: pandas' categories and Polars' enumerations."""
    dtype = getattr(values, "dtype", None)
    is_ordered = str(dtype).startswith(("category", "Enum"))
    return [*dtype.categories] if is_ordered and dtype is not None else []


def _by_number(name: str | None) -> tuple[bool, float, str]:
    """Sorts whole numbers by their size, before all other names."""
    text = name or ""
    is_number = text.removeprefix("-").isdecimal() and text.isascii()
    return not is_number, float(text) if is_number else 0.0, text
