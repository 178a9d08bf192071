"""The schema of a table, inferred once: one reading finds the kind of each column, which may have no second one."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as arrow

from distforest.amounts import counted
from distforest.errors import InputError
from distforest.sources.files.bounds import brief, quoted
from distforest.sources.files.cells import CellFormat, is_dated, is_numeric, is_text, moments_of, texts_of
from distforest.sources.schema import MAX_CATEGORIES, ColumnKind, FeatureColumn, Schema

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from distforest.sources.files.roles import Roles
    from distforest.sources.files.tables import Table

FIRST_VALUES = 3
"""The first values of a column that a summary shows."""

WANTED_KINDS = {"number": "a number", "word": "a word", "date": "a date", "zoned date": "a date with a time zone"}
"""What messages call a value of each kind."""


@dataclass(frozen=True)
class ColumnSummary:
    """What a column holds: its kind, how many values are missing, its range or its categories, its first values."""

    name: str
    role: str
    kind: str
    n_missing: int
    contents: str
    first: tuple[str, ...]


@dataclass
class _ColumnSurvey:
    """What one column holds: how many values of each kind, the first of each with its row, and their range."""

    n_rows: int = 0
    n_missing: int = 0
    low: float = np.inf
    high: float = -np.inf
    n_of: dict[str, int] = field(default_factory=dict)
    first_of: dict[str, tuple[int, str]] = field(default_factory=dict)
    words: dict[str, None] = field(default_factory=dict)
    dates: tuple[np.datetime64, np.datetime64] | None = None
    has_times: bool = False
    first: list[str] = field(default_factory=list)

    def see(self, array: pa.Array, cells: CellFormat, date_format: str, as_category: bool) -> None:
        """Take further values into account."""
        if as_category or arrow.is_dictionary(array.type):
            self._see_categories(array, cells)
        elif is_text(array.type):
            self._see_texts(texts_of(array), cells, date_format)
        elif is_dated(array.type):
            self.n_missing += array.null_count
            self._note("date", array.is_valid(), array.cast(pa.string()))
            self._span_dates(moments_of(array))
        elif is_numeric(array.type):
            numbers = array.cast(pa.float64(), safe=False)
            missing = pc.or_(numbers.is_null(), pc.fill_null(pc.is_nan(numbers), True))
            self.n_missing += pc.sum(missing).as_py() or 0
            self._note("boolean" if arrow.is_boolean(array.type) else "number", pc.invert(missing), numbers)
            self._span(pc.if_else(missing, None, numbers))

    def count(self, array: pa.Array) -> None:
        """Count the rows of values that were seen, and keep the first ones."""
        if len(self.first) < FIRST_VALUES:
            values = array[: FIRST_VALUES - len(self.first)].to_pylist()
            self.first += ["" if value is None else brief(str(value), 20) for value in values]
        self.n_rows += len(array)

    def _see_categories(self, array: pa.Array, cells: CellFormat) -> None:
        """Take categories into account; of a dictionary, each word is looked at once."""
        each = array if arrow.is_dictionary(array.type) else array.dictionary_encode()
        words = texts_of(each.dictionary)
        if array.type == each.type and array.type.ordered:  # also categories that nothing has, in their order
            self._add_words(words)
        missing = pc.fill_null(cells.is_missing(words).take(each.indices), True)
        self.n_missing += pc.sum(missing).as_py() or 0
        if self._note("word", pc.invert(missing), each):
            self._add_words(words.take(pc.unique(pc.filter(each.indices, pc.invert(missing)))))

    def _see_texts(self, texts: pa.Array, cells: CellFormat, date_format: str) -> None:
        """Take texts into account: numbers, dates and words, each of which may be the only kind of a column."""
        missing = cells.is_missing(texts)
        self.n_missing += pc.sum(missing).as_py() or 0
        rest = pc.if_else(missing, None, texts)
        if not date_format:
            is_number = cells.is_number(rest)
            if self._note("number", is_number, texts):
                self._span(cells.numbers(pc.filter(texts, is_number)))
                rest = pc.if_else(is_number, None, rest)
        if rest.null_count == len(rest):
            return
        dates, zoned = cells.dates(rest, date_format), cells.is_zoned(rest, date_format)
        is_date = pa.array(~np.isnat(dates))
        self._note("zoned date", pc.and_(is_date, zoned), texts)
        self._note("date", pc.and_not(is_date, zoned), texts)
        self._span_dates(dates)
        is_word = pc.and_not(rest.is_valid(), is_date)
        if self._note("word", is_word, texts):
            self._add_words(pc.filter(texts, is_word))

    def _note(self, kind: str, mask: pa.Array, texts: pa.Array) -> bool:
        """Count the values of a kind, and keep the first; whether there are any."""
        n_found = pc.sum(mask).as_py() or 0
        if n_found and kind not in self.first_of:
            place = pc.index(mask, True).as_py()
            self.first_of[kind] = (self.n_rows + place, str(texts[place].as_py()))
        if n_found:
            self.n_of[kind] = self.n_of.get(kind, 0) + n_found
        return bool(n_found)

    def _span(self, numbers: pa.Array) -> None:
        limits = pc.min_max(numbers).as_py()
        if limits["min"] is not None:
            self.low, self.high = min(self.low, limits["min"]), max(self.high, limits["max"])

    def _span_dates(self, dates: np.ndarray) -> None:
        dates = dates[~np.isnat(dates)]
        if len(dates):
            low, high = dates.min(), dates.max()
            self.dates = (min(self.dates[0], low), max(self.dates[1], high)) if self.dates else (low, high)
            self.has_times |= bool((dates != dates.astype("datetime64[D]")).any())

    def _add_words(self, words: pa.Array) -> None:
        if len(self.words) <= MAX_CATEGORIES:
            self.words.update(dict.fromkeys(pc.unique(words).to_pylist()))


def _see_numbers(columns: Sequence[tuple[_ColumnSurvey, pa.Array]], cells: CellFormat) -> set[int]:
    """Take columns of text that hold only numbers into account, all at once; the identities of those that do.

    A wide table has few rows in a block, so that looking at each column by itself would take long.
    """
    if not columns:
        return set()
    texts = texts_of(pa.concat_arrays([array for _, array in columns]))
    missing = cells.is_missing(texts)
    is_number = pc.and_not(cells.is_number(texts), missing)
    numbers = cells.numbers(pc.if_else(is_number, texts, None)).to_numpy(zero_copy_only=False)
    in_columns = (len(columns), -1)
    values, lacks = numbers.reshape(in_columns), np.asarray(missing).reshape(in_columns)
    are_numbers = (np.asarray(is_number).reshape(in_columns) | lacks).all(axis=1)
    low, high, n_missing = np.fmin.reduce(values, axis=1), np.fmax.reduce(values, axis=1), lacks.sum(axis=1)
    for place in np.flatnonzero(are_numbers).tolist():
        own, array = columns[place]
        own.n_missing += int(n_missing[place])
        if n_missing[place] < len(array):
            row = int(lacks[place].argmin())
            own.first_of.setdefault("number", (own.n_rows + row, str(array[row].as_py()).strip()))
            own.n_of["number"] = own.n_of.get("number", 0) + len(array) - int(n_missing[place])
            own.low, own.high = min(own.low, float(low[place])), max(own.high, float(high[place]))
    return {id(columns[place][0]) for place in np.flatnonzero(are_numbers).tolist()}


def found_columns(table: Table, roles: Roles, cells: CellFormat) -> tuple[Schema, tuple[ColumnSummary, ...]]:
    """Find the kind of each feature, and sum up what it holds; raises InputError for a column of two kinds or none."""
    seen = [_ColumnSurvey() for _ in roles.features]
    names = [table.columns[position] for position in roles.features]
    wanted = [roles.kinds.get(position) for position in roles.features]
    categories = [
        kind == ColumnKind.CATEGORY or (table.typed and is_text(table.types[position]))
        for position, kind in zip(roles.features, wanted, strict=True)
    ]
    for arrays in table.batches(roles.features):
        as_numbers = _see_numbers(
            [
                (own, array)
                for own, array, name, as_category in zip(seen, arrays, names, categories, strict=True)
                if is_text(array.type) and not as_category and name not in cells.date_formats
            ],
            cells,
        )
        for own, array, name, as_category in zip(seen, arrays, names, categories, strict=True):
            if id(own) not in as_numbers:
                own.see(array, cells, cells.date_formats.get(name, ""), as_category)
            own.count(array)
    if not seen[0].n_rows:
        raise InputError(f"{table.path}: rows were expected, found none")
    both = zip(roles.features, seen, wanted, strict=True)
    columns = tuple(_column(table, position, own, cells, kind) for position, own, kind in both)
    summaries = tuple(_summary(column, own) for column, own in zip(columns, seen, strict=True))
    return Schema(columns), summaries


def _column(
    table: Table, position: int, own: _ColumnSurvey, cells: CellFormat, wanted: ColumnKind | None
) -> FeatureColumn:
    """The column of the schema, by all that it holds, and the kind that an option wants; raises InputError."""
    name, kind = table.columns[position], table.types[position]
    as_category, dtype = wanted == ColumnKind.CATEGORY, str(kind) if table.typed else ""
    if not (as_category or is_text(kind) or is_numeric(kind) or is_dated(kind)):
        expected = f"{table.path}: column {quoted(name)}: numbers, words or dates were expected"
        raise InputError(f"{expected}, found {brief(str(kind))}; leave it out with `drop={quoted(name)}`")
    found, date_format = own.n_of, "" if as_category else cells.date_formats.get(name, "")
    if len(found) > 1 or (date_format and "word" in found):
        most = "date" if date_format else max(found, key=lambda of: (of == wanted, found[of], of != "word"))
        row, text = own.first_of[min((of for of in found if of != most), key=found.__getitem__)]
        expected = f"a date like {quoted(date_format)}" if date_format else WANTED_KINDS[most]
        cure = f"correct it, give `missing={quoted(text)}` if it means that a value is missing"
        cure = f"{cure}, or `categorical={quoted(name)}` if the column holds categories"
        raise InputError(f"{table.place(row, position)}: {expected} was expected, found {quoted(text)}; {cure}")
    are_booleans = not (as_category or table.typed) and {word.lower() for word in own.words} <= {"true", "false"}
    if own.dates is not None:
        zoned = "zoned date" in found or bool(arrow.is_timestamp(kind) and kind.tz)
        column = FeatureColumn.of_dates(name, dtype, own.dates[0], own.has_times, zoned)
    elif "boolean" in found or ("word" in found and are_booleans):
        column = FeatureColumn(name, ColumnKind.BOOLEAN, dtype)
    elif "word" not in found:
        column = FeatureColumn(name, ColumnKind.NUMBER, dtype)
    elif len(own.words) > MAX_CATEGORIES:
        expected = f"{table.path}: column {quoted(name)}: at most {MAX_CATEGORIES:,} categories were expected"
        cure = f"give `id={quoted(name)}` if it names the rows, else `drop={quoted(name)}`"
        raise InputError(f"{expected}, found more; {cure}")
    else:
        in_order = arrow.is_dictionary(kind) and kind.ordered
        categories = tuple(own.words) if in_order else _sorted(own.words)
        column = FeatureColumn(name, ColumnKind.CATEGORY, dtype, categories)
    if wanted not in (None, column.kind) and own.first_of:
        row, text = next(iter(own.first_of.values()))
        cure = "correct it or the schema, or say with `decimal` or `date_format` how it is written"
        raise InputError(f"{table.place(row, position)}: a {wanted} was expected, found {quoted(text)}; {cure}")
    return column


def _sorted(words: Iterable[str]) -> tuple[str, ...]:
    """Categories in the order of their numbers if all are whole numbers, else in that of the alphabet."""
    if all(re.fullmatch(r"[+-]?\d{1,18}", word) for word in words):
        return tuple(sorted(words, key=lambda word: (int(word), word)))
    return tuple(sorted(words))


def _summary(column: FeatureColumn, own: _ColumnSurvey) -> ColumnSummary:
    contents = ""
    if column.kind == ColumnKind.CATEGORY:
        contents = counted(len(column.categories), "category", "categories")
    elif column.kind == ColumnKind.DATE and own.dates:
        first, last = (np.datetime_as_string(date, "s" if own.has_times else "D") for date in own.dates)
        contents = f"{first} to {last}"
    elif column.kind == ColumnKind.BOOLEAN:
        contents = "false, true"
    elif np.isfinite(own.low):  # + 0.0 makes 0 of -0
        contents = f"{own.low + 0.0:.10g} to {own.high + 0.0:.10g}"
    return ColumnSummary(column.name, "feature", str(column.kind), own.n_missing, contents, tuple(own.first))
