"""Cells of tables as numbers: what is a number, a date or a missing value in a text, and Arrow's columns as float64."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as arrow
from pyarrow.csv import ConvertOptions

from distforest.sources.schema import ColumnKind

if TYPE_CHECKING:
    from collections.abc import Mapping

    from distforest.sources.schema import FeatureColumn
    from distforest.sources.source import Floats

MISSING_WORDS = tuple(ConvertOptions().null_values)
"""Words for a missing value in a csv file, unless others are given: those of Arrow."""

ISO_DATE = (
    r"^\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d{1,9})?)?"
    r"(?: ?(?:Z|UTC|[+-]\d{2}(?::?\d{2})?))?)?$"
)
"""A date in ISO 8601, with a time or without, as programs write it."""

ZONED = r"^.{11}.*(?:Z|UTC|[+-]\d{2}(?::?\d{2})?)$"
"""Such a date with a time zone."""

INFINITE = r"(?i)^[+-]?inf(?:inity)?$"

MINUS_SIGN = "[\u2212\u2013]"
"""A minus sign, or a dash in its place, as word processors write them."""


class Faults(NamedTuple):
    """The position of the first cell that cannot be read, or -1; and how many categories the column does not list."""

    first: int
    unseen: int


@dataclass(frozen=True)
class CellFormat:
    """How the numbers, dates and missing values of a table are written in text.

    Attributes
    ----------
    decimal
        The decimal point.
    missing
        The words for a missing value; an empty cell always is one.
    date_formats
        The form of the dates of a column, as for `datetime.datetime.strptime`, by its name; others are in ISO 8601.
    """

    decimal: str = "."
    missing: tuple[str, ...] = MISSING_WORDS
    date_formats: Mapping[str, str] = field(default_factory=dict)

    def is_missing(self, texts: pa.Array) -> pa.Array:
        """Which cells are missing."""
        return pc.is_in(pc.fill_null(texts, ""), pa.array((*self.missing, ""), texts.type))

    def is_number(self, texts: pa.Array) -> pa.Array:
        """Which cells are numbers; null is none."""
        point = re.escape(self.decimal)
        number = rf"^(?:[+-]|{MINUS_SIGN})?(?:\d+(?:{point}\d*)?|{point}\d+)(?:[eE][+-]?\d+)?$"
        found = pc.or_(pc.match_substring_regex(texts, number), pc.match_substring_regex(texts, INFINITE))
        return pc.fill_null(found, False)

    def numbers(self, texts: pa.Array) -> pa.Array:
        """The numbers of cells that `is_number` has found, as float64."""
        plainly = pc.replace_substring(texts, self.decimal, ".") if self.decimal != "." else texts
        return pc.cast(pc.replace_substring_regex(plainly, f"^{MINUS_SIGN}", "-"), pa.float64())

    def is_zoned(self, texts: pa.Array, date_format: str) -> pa.Array:
        """Which dates have a time zone."""
        found = pc.fill_null(pc.match_substring_regex(texts, ZONED), False)
        return pa.array(np.full(len(texts), "%z" in date_format)) if date_format else found

    def dates(self, texts: pa.Array, date_format: str) -> np.ndarray:
        """The dates of cells as datetime64[us], in UTC if they have a time zone; NaT for what is none."""
        if date_format:
            return np.array([_date(text, date_format) for text in texts.to_pylist()], "datetime64[us]")
        texts = pc.if_else(pc.match_substring_regex(texts, ISO_DATE), texts, None)
        texts = pc.replace_substring_regex(texts, r"(\.\d{6})\d+", r"\1")
        texts = pc.replace_substring_regex(texts, r" ?(?:UTC|Z)$", "Z")
        zoned = self.is_zoned(texts, "")
        try:
            moments = [
                pc.cast(pc.cast(pc.if_else(mask, texts, None), kind), pa.int64())
                for mask, kind in ((zoned, pa.timestamp("us", "UTC")), (pc.invert(zoned), pa.timestamp("us")))
            ]
        except pa.ArrowInvalid:  # a day that does not exist
            return np.array([_iso(text) for text in texts.to_pylist()], "datetime64[us]")
        return pc.coalesce(*moments).cast(pa.timestamp("us")).to_numpy(zero_copy_only=False)


def _date(text: str | None, date_format: str) -> datetime | None:
    """A date in a given form; None for any other text. Arrow's own parser takes 31 February for 2 March."""
    try:
        date = datetime.strptime(text or "", date_format)
        return date.astimezone(UTC).replace(tzinfo=None) if date.tzinfo else date
    except (ValueError, OverflowError):  # the first or the last day of all may be none in UTC
        return None


def _iso(text: str | None) -> np.datetime64:
    """One date in ISO 8601; NaT for a day that does not exist."""
    try:
        kind = pa.timestamp("us", "UTC") if re.match(ZONED, text or "") else pa.timestamp("us")
        return np.datetime64(pa.array([text]).cast(kind).cast(pa.int64())[0].as_py(), "us")
    except (pa.ArrowInvalid, TypeError, ValueError):
        return np.datetime64("NaT", "us")


def is_text(kind: pa.DataType) -> bool:
    """Whether a column of this type holds strings, as they are or in a dictionary."""
    kind = kind.value_type if arrow.is_dictionary(kind) else kind
    return bool(arrow.is_string(kind) or arrow.is_large_string(kind) or arrow.is_string_view(kind))


def is_numeric(kind: pa.DataType) -> bool:
    """Whether a column of this type holds numbers or booleans."""
    kind = kind.value_type if arrow.is_dictionary(kind) else kind
    tests = (arrow.is_integer, arrow.is_floating, arrow.is_boolean, arrow.is_decimal, arrow.is_null)
    return any(test(kind) for test in tests)


def is_dated(kind: pa.DataType) -> bool:
    """Whether a column of this type holds dates."""
    return bool(arrow.is_timestamp(kind) or arrow.is_date(kind))


def plain(array: pa.Array) -> pa.Array:
    """The values of a column without a dictionary; those of a dictionary of strings only where that is needed."""
    return array.dictionary_decode() if arrow.is_dictionary(array.type) else array


def texts_of(array: pa.Array) -> pa.Array:
    """The texts of any column without blanks around them; whole numbers have no point. Null stays."""
    values = plain(array)
    if is_text(values.type):
        return pc.utf8_trim_whitespace(values.cast(pa.string()))
    if arrow.is_floating(values.type):
        numbers = [None if value is None or value != value else value for value in values.to_pylist()]
        return pa.array(
            [f"{v:.0f}" if v is not None and v.is_integer() else v and repr(v) for v in numbers], pa.string()
        )
    if arrow.is_boolean(values.type):
        return values.cast(pa.string())
    return pa.array([None if value is None else str(value) for value in values.to_pylist()], pa.string())


def moments_of(array: pa.Array) -> np.ndarray:
    """The dates of an Arrow column as datetime64, in UTC if it has a zone; NaT for null."""
    values = array.cast(pa.timestamp("s")) if arrow.is_date(array.type) else array
    unit = values.type.unit
    moments: np.ndarray = values.cast(pa.int64()).cast(pa.timestamp(unit)).to_numpy(zero_copy_only=False)
    return moments


def cell_numbers(column: FeatureColumn, array: pa.Array, cells: CellFormat) -> tuple[Floats, Faults]:
    """The numbers of a column as its schema says, float64, NaN where missing, and the first cell that is no such value.

    A category that the column does not list is missing too; it is counted.
    """
    if column.kind == ColumnKind.CATEGORY:
        return _codes(column, array, cells)
    if is_text(array.type):
        texts = texts_of(array)
        missing = cells.is_missing(texts)
        if column.kind == ColumnKind.NUMBER:
            known = cells.is_number(texts)
            values = cells.numbers(pc.if_else(known, texts, None))
        elif column.kind == ColumnKind.BOOLEAN:
            place = pc.index_in(pc.utf8_lower(texts), pa.array(["false", "true", "0", "1"]))
            known, values = pc.is_valid(place), pc.cast(pc.bit_wise_and(place, 1), pa.float64())
        else:
            form = cells.date_formats.get(column.name, "")
            counts = column.counts(cells.dates(texts, form))
            zoned_alike = pc.equal(cells.is_zoned(texts, form), column.in_utc)
            known, values = pc.and_(pa.array(~np.isnan(counts)), zoned_alike), pa.array(counts)
        bad = pc.invert(pc.or_(missing, known)).to_numpy(zero_copy_only=False)
        numbers = pc.if_else(missing, None, values).to_numpy(zero_copy_only=False)
        return np.asarray(numbers, np.float64), Faults(_first(bad), 0)
    if column.kind == ColumnKind.DATE and is_dated(array.type):
        if bool(arrow.is_timestamp(array.type) and array.type.tz) == column.in_utc:
            return column.counts(moments_of(array)), Faults(-1, 0)
    elif column.kind != ColumnKind.DATE and is_numeric(array.type):
        given = plain(array).cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
        bad = (column.kind == ColumnKind.BOOLEAN) & ~np.isin(given, (0.0, 1.0)) & ~np.isnan(given)
        return np.asarray(given, np.float64), Faults(_first(bad), 0)
    return np.full(len(array), np.nan), Faults(_first(np.asarray(array.is_valid())), 0)


def _first(bad: np.ndarray) -> int:
    return int(bad.argmax()) if bad.any() else -1


def _codes(column: FeatureColumn, array: pa.Array, cells: CellFormat) -> tuple[Floats, Faults]:
    """The positions of categories; equal strings are looked up once."""
    if not (is_text(array.type) or is_numeric(array.type)):
        return np.full(len(array), np.nan), Faults(_first(np.asarray(array.is_valid())), 0)
    each, words = _distinct(array)
    known = pc.index_in(words, pa.array(column.categories, pa.string()))
    unseen = pc.and_not(pc.is_null(known), cells.is_missing(words))
    codes = pc.cast(known, pa.float64()).take(each.indices).to_numpy(zero_copy_only=False)
    n_unseen = pc.sum(unseen.take(each.indices)).as_py() or 0
    return np.asarray(codes, np.float64), Faults(-1, int(n_unseen))


def categories_in(array: pa.Array, cells: CellFormat) -> set[str]:
    """The categories that occur in an Arrow column of text or numbers."""
    words = _distinct(array)[1]
    return {*pc.filter(words, pc.invert(cells.is_missing(words))).to_pylist()} - {None}


def _distinct(array: pa.Array) -> tuple[pa.DictionaryArray, pa.Array]:
    """A column as numbers of its distinct values, and these as texts."""
    each = array if arrow.is_dictionary(array.type) else plain(array).dictionary_encode()
    return each, texts_of(each.dictionary)
