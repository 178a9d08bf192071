"""Data frames of any library: their columns, the names of their dtypes, and checks that the columns are numbers."""

from __future__ import annotations

import sys
from numbers import Real
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from distforest.errors import InputError
from distforest.sources.given import is_data_frame, is_of_pandas
from distforest.sources.source import NUMBERS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from distforest.sources.given import DataFrame

T = TypeVar("T")

WAYS = ("itercolumns", "iter_columns", "items")
"""Methods that iterate over columns: of Arrow tables, of Polars, and of pandas, whose method yields names too."""


def frame_columns(frame: DataFrame) -> Iterator[tuple[str, object]]:
    """Iterate over the columns of a data frame, each with its name; over none if the library is not known."""
    names = getattr(frame, "column_names", frame.columns)
    way = next((way for way in WAYS if hasattr(frame, way)), None)
    if way is None:  # scikit-learn decides
        return
    for name, column in zip(names, getattr(frame, way)(), strict=True):
        yield str(name), column[1] if way == "items" else column


def are_named(frame: DataFrame) -> bool:
    """Whether all columns of a data frame are named by strings."""
    return all(isinstance(name, str) for name in getattr(frame, "column_names", frame.columns))


def dtypes_of(frame: DataFrame) -> tuple[str, ...]:
    """The dtype of each column, as its library names it."""
    return tuple(str(_dtype(column)) for _, column in frame_columns(frame))


def check_names(frame: DataFrame) -> None:
    """Refuse a data frame with two columns of one name.

    Raises
    ------
    InputError
        The message tells the first such name.

    Examples
    --------
    >>> import pandas as pd
    >>> check_names(pd.DataFrame(np.eye(3), columns=["a", "b", "a"]))
    Traceback (most recent call last):
    distforest.errors.InputError: X: a name of its own was expected for each column, found 'a' for 2 of them; rename
    them, or give X.to_numpy() to have no names
    """
    names = [str(name) for name in frame.columns]
    twice = next((name for name in names if names.count(name) > 1), None) if len(set(names)) < len(names) else None
    if twice is not None and len(set(frame.columns)) < len(names):
        expected = "X: a name of its own was expected for each column"
        cure = "rename them, or give X.to_numpy() to have no names"
        raise InputError(f"{expected}, found {twice!r} for {names.count(twice)} of them; {cure}")


def with_plain_missing(rows: T, with_digits: bool = False) -> T:
    """Rows in which NA and NaT of pandas among objects are NaN as among numbers, or None in an array.

    Columns of a frame that hold anything but numbers beside them stay as they are, and so do rows of any other kind.
    Digits as words may be meant as categories; they are numbers ``with_digits``.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"n": pd.Series([3, pd.NA], dtype="object"), "word": pd.Series(["a", pd.NA])})
    >>> with_plain_missing(frame)["n"].tolist()
    [3.0, nan]
    >>> with_plain_missing(np.array([[3, pd.NA]], object)).tolist()
    [[3, None]]
    """
    given: Any = rows
    if isinstance(given, np.ndarray):
        return _with_none(given)  # type: ignore[return-value]
    if not is_data_frame(rows) or not is_of_pandas(rows):
        return given
    numbers: dict[object, np.ndarray] = {}
    for name, column in given.items():
        if column.dtype.kind != "O" or hasattr(column, "cat"):
            continue
        values = np.asarray(column, np.object_)
        plain = _with_none(values)
        if plain is not values and holds_numbers(plain) and (with_digits or not _has_words(values)):
            numbers[name] = plain.astype(np.float64)
    changed = given.copy(deep=False) if numbers else given
    for name, found in numbers.items():
        changed[name] = found
    return changed


def with_zero_fills(frame: T) -> T:
    """A data frame whose sparse columns of pandas are dense if one of them leaves out anything but 0, such as NaN.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"a": pd.arrays.SparseArray([1.0, float("nan")]), "b": pd.arrays.SparseArray([0, 1])})
    >>> [str(dtype) for dtype in with_zero_fills(frame).dtypes]
    ['float64', 'int64']
    """
    given: Any = frame
    if not is_of_pandas(frame):
        return frame
    columns = {name: column for name, column in given.items() if hasattr(column.dtype, "fill_value")}
    if all(column.dtype.fill_value == 0 for column in columns.values()):
        return frame
    changed = given.copy(deep=False)
    for name, column in columns.items():
        changed[name] = column.sparse.to_dense()
    return changed


def _has_words(values: np.ndarray) -> bool:
    return any(isinstance(value, str) for value in values)


def _with_none(values: np.ndarray) -> np.ndarray:
    """An array of objects with None in the place of NA and NaT; the same array if there are none."""
    pandas = sys.modules.get("pandas")
    if values.dtype.kind != "O" or pandas is None:  # who has NA has imported it
        return values
    lacks = np.asarray(pandas.isna(values))
    lacks[lacks] = [value is pandas.NA or value is pandas.NaT for value in values[lacks]]
    return np.where(lacks, np.array(None), values) if lacks.any() else values


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
    plain = _with_none(values)
    if not all(value is None or isinstance(value, (Real, np.bool_)) for value in plain.flat):
        return values
    try:
        return plain.astype(np.float64)
    except OverflowError:
        return values


def check_number_columns(frame: DataFrame, is_training: bool) -> None:
    """Refuse a data frame with a column that is not numeric; raises InputError, which names the column."""
    for name, column in frame_columns(frame):
        if not holds_numbers(column):
            found = str(_dtype(column))
            cure = "turn dates into datetime64, durations into numbers, and code classes, such as by OneHotEncoder"
            if found.startswith("timedelta"):
                cure = "turn durations into numbers, such as by column.dt.total_seconds()"
            cure = cure if is_training else "give what the forest was trained on"
            raise InputError(f"X: numbers were expected in column {name!r}, found {found}; {cure}")


def told_of_order(values: object, name: str) -> str:
    """Where the order of row names and column names differs, in a data frame ``name`` of pairs of objects; else "".

    The order differs if rows and columns have the same names in another order, and the rows are not just numbered. A
    whole number and its digits are one name: a csv file that pandas reads names rows by numbers, but columns by words.

    Examples
    --------
    >>> import pandas as pd
    >>> told_of_order(pd.DataFrame(np.eye(3), index=["b", "a", "c"], columns=["a", "b", "c"]), "X")
    "row 0 of X is named 'b' and column 0 'a', but they are taken for the same object; give X.loc[X.columns]"
    >>> told_of_order(pd.DataFrame(np.eye(3), columns=[2, 0, 1]), "X")
    ''
    """
    if not is_data_frame(values) or not hasattr(values, "index") or len(set(values.shape)) > 1:
        return ""
    rows, columns = list(values.index), list(values.columns)
    place = None if rows == list(range(len(rows))) else _first_out_of_order(rows, columns)
    if place is None:
        return ""
    found = f"row {place} of {name} is named {rows[place]!r} and column {place} {columns[place]!r}"
    order = f"{name}.columns{_conversion(columns, rows)}"
    return f"{found}, but they are taken for the same object; give {name}.loc[{order}]"


def told_of_row_order(X: object, values: object, name: str, of: str = "X") -> str:
    """Where the names of rows of ``X`` and of ``values``, both of pandas, are the same in another order; else "".

    Rows are paired by their places, as in scikit-learn, whatever their names are. ``name`` and ``of`` are what a caller
    knows ``values`` and ``X`` by.

    Examples
    --------
    >>> import pandas as pd
    >>> told_of_row_order(pd.DataFrame({"x": [1.0, 2.0, 3.0]}), pd.Series([7, 9, 8], index=[0, 2, 1]), "y")
    'row 1 of X is named 1 and of y 2, but they are taken for the same row; give y.loc[X.index], or y.to_numpy() if they
    are'
    """
    own, other = _index_of(X), _index_of(values if is_of_pandas(values) else getattr(values, "values", None))
    place = _first_out_of_order(own, other)
    if place is None:
        return ""
    found = f"row {place} of {of} is named {own[place]!r} and of {name} {other[place]!r}"
    order = f"{of}.index{_conversion(own, other)}"
    return f"{found}, but they are taken for the same row; give {name}.loc[{order}], or {name}.to_numpy() if they are"


def _first_out_of_order(own: list[object], other: list[object]) -> int | None:
    """The first place with another name where both have the same names in another order; else None."""
    if len(own) != len(other) or own == other:
        return None
    if _are_words(own) != _are_words(other):  # "11" and 11 are one name
        own, other = [str(name) for name in own], [str(name) for name in other]
    if own == other or set(own) != set(other):
        return None
    return next(place for place, (one, another) in enumerate(zip(own, other, strict=True)) if one != another)


def _conversion(names: list[object], wanted: list[object]) -> str:
    """What makes names of an index those that are wanted, if one of both are words and the other whole numbers."""
    if _are_words(names) == _are_words(wanted):
        return ""
    return ".astype(str)" if _are_words(wanted) else ".astype(int)"


def _are_words(names: list[object]) -> bool:
    return isinstance(next(iter(names), None), str)


def told_of_named_weights(names: Sequence[str], weights: object) -> str:
    """Say that weights of features are named as the features are, but in another order; else "".

    Examples
    --------
    >>> import pandas as pd
    >>> told_of_named_weights(["a", "b"], pd.Series([0.2, 0.8], index=["b", "a"]))
    "feature_weights are taken in their order, but the first that differs is named 'b', and the feature 'a'; give
    feature_weights[X.columns]"
    >>> told_of_named_weights(["0", "1"], pd.Series([0.2, 0.8]))
    ''
    """
    own = [str(name) for name in _index_of(weights)]  # pandas numbers weights from 0, and a file has the names "0", "1"
    if own == list(names) or sorted(own) != sorted(names):
        return ""
    one, other = next((one, other) for one, other in zip(own, names, strict=True) if one != other)
    found = f"the first that differs is named {one!r}, and the feature {other!r}"
    return f"feature_weights are taken in their order, but {found}; give feature_weights[X.columns]"


def _index_of(values: object) -> list[object]:
    """The names of the rows of a frame or series of pandas; of anything else, such as a `Categorical`, none."""
    index = getattr(values, "index", None)
    return [] if index is None or not is_of_pandas(values) else list(index)


def _dtype(column: object) -> object:
    return getattr(column, "dtype", None) or getattr(column, "type", "unknown")


def holds_numbers(column: object) -> bool:
    """Whether a column holds numbers, or objects that can all be converted to numbers."""
    kind = getattr(getattr(column, "dtype", None), "kind", None)
    if kind is not None and kind in NUMBERS:  # also if NumPy could not convert its missing values
        return True
    values = _with_none(np.asarray(column))
    if values.dtype.kind in "mMc":  # NumPy would convert dates to counts since 1970, and drop what is imaginary
        return False
    try:
        values.astype(np.float64)
    except (TypeError, ValueError):
        return False
    return True
