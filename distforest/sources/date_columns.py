"""Columns of dates in data frames that callers hand in: counted from their first day in `fit`, and later alike."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from distforest.errors import InputError
from distforest.sources.data_frames import are_named, frame_columns
from distforest.sources.schema import ColumnKind, FeatureColumn, Schema

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from distforest.sources.given import DataFrame


def learned_dates(frame: DataFrame) -> dict[str, FeatureColumn]:
    """The columns of dates in a data frame by name: each is counted from its own first day, as `ingest` does it.

    Raises
    ------
    InputError
        A column of dates holds none, or has no name that is a string, by which later rows could be counted alike.

    Examples
    --------
    >>> import pandas as pd
    >>> learned_dates(pd.DataFrame({"seen": pd.to_datetime(["2024-01-03", "2024-01-01"]), "n": [1, 2]}))["seen"].origin
    '2024-01-01'
    """
    learned = {}
    for name, column in frame_columns(frame):
        found = _dates_in(column)
        if found is None:
            continue
        moments = found.moments[~np.isnat(found.moments)]
        if not len(moments):
            raise InputError(f"X: dates were expected in column {name!r}, found none; leave the column out")
        has_times = bool((moments != moments.astype("datetime64[D]")).any())
        learned[name] = FeatureColumn.of_dates(name, found.dtype, moments.min(), has_times, found.in_utc)
    if learned and not are_named(frame):
        cure = "name all columns by strings, so that dates of later rows are counted from the same day"
        raise InputError(f"X: numbers were expected in column {next(iter(learned))}, found dates; {cure}")
    return learned


def dates_as_numbers(frame: DataFrame, schema: Schema) -> DataFrame:
    """The same data frame, in which columns of dates hold their numbers by the unit and the origin of a schema.

    Parameters
    ----------
    frame
        A data frame of pandas, Polars or Arrow; columns may be dates in any unit. Those that hold numbers are taken to
        be counted already.
    schema
        The columns of the forest.

    Raises
    ------
    InputError
        Dates have a time zone and those of the forest have none, or the other way round; or words are in their place.

    Examples
    --------
    >>> import pandas as pd
    >>> seen = FeatureColumn("seen", ColumnKind.DATE, unit="days", origin="2024-01-01")
    >>> frame = pd.DataFrame({"seen": pd.to_datetime(["2024-01-03", None])})
    >>> dates_as_numbers(frame, Schema((seen,)))["seen"].tolist()
    [2.0, nan]
    """
    counted = {own.name: own for own in schema.columns if own.kind == ColumnKind.DATE}
    columns = {name: column for name, column in frame_columns(frame) if name in counted} if counted else {}
    numbers = {name: _counts(found, counted[name]) for name, column in columns.items() if (found := _dates_in(column))}
    for name in [name for name in columns if name not in numbers]:
        _refuse_words(columns[name], name)
    return _replaced(frame, numbers) if numbers else frame


def _refuse_words(column: Any, name: str) -> None:
    """Refuse words in a column of dates."""
    values = np.asarray(column)
    if values.dtype.kind in "OUT" and (word := next((one for one in values.tolist() if isinstance(one, str)), None)):
        expected = f"X: dates were expected in column {name!r}, as in training"
        raise InputError(f"{expected}, found words such as {word!r}; give datetime64")


class _Dates(NamedTuple):
    """The dates of a column, in UTC if they have a time zone, and their dtype as its library names it."""

    moments: NDArray[np.datetime64]
    in_utc: bool
    dtype: str


def _dates_in(column: Any) -> _Dates | None:
    """The dates of a column; None if it holds anything else."""
    dtype = getattr(column, "dtype", None) or getattr(column, "type", None)
    values = np.asarray(column)
    if values.dtype.kind != "M" and getattr(dtype, "kind", "") == "M":  # of pandas, with a time zone or of Arrow
        values = column.to_numpy("datetime64[us]")
    if values.dtype.kind != "M":
        return None
    kind = getattr(dtype, "pyarrow_dtype", dtype)
    return _Dates(values, bool(getattr(kind, "tz", None) or getattr(kind, "time_zone", None)), str(dtype))


def _counts(found: _Dates, own: FeatureColumn) -> NDArray[np.float64]:
    if found.in_utc != own.in_utc:
        wanted, given = ("dates with a time zone", "dates without one")[:: 1 if own.in_utc else -1]
        raise InputError(f"X: {wanted} were expected in column {own.name!r}, as in training, found {given}")
    return own.counts(found.moments)


def _replaced(frame: Any, numbers: Mapping[str, np.ndarray]) -> Any:
    """A data frame with other columns of the same names, as its library makes it."""
    if hasattr(frame, "assign"):
        return frame.assign(**numbers)
    if hasattr(frame, "with_columns"):
        return frame.with_columns(type(frame[name])(name, values) for name, values in numbers.items())
    for name, values in numbers.items():
        frame = frame.set_column(frame.column_names.index(name), name, [values])
    return frame
