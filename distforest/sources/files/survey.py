"""What the columns of a table hold: one reading finds the kind of each, and refuses a column of two kinds."""

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
from distforest.sources.files.cells import (
    CellFormat,
    cell_numbers,
    is_dated,
    is_numeric,
    is_text,
    moments_of,
    plain,
    texts_of,
)
from distforest.sources.files.faults import FoundFaults
from distforest.sources.files.roles import position_of
from distforest.sources.schema import MAX_CATEGORIES, ColumnKind, FeatureColumn

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from distforest.sources.files.roles import Roles
    from distforest.sources.files.tables import Table
    from distforest.sources.source import Floats

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
class _Seen:
    """What one column holds."""

    n_rows: int = 0
    n_missing: int = 0
    low: float = np.inf
    high: float = -np.inf
    first_of: dict[str, tuple[int, str]] = field(default_factory=dict)
    n_of: dict[str, int] = field(default_factory=dict)
    words: dict[str, None] = field(default_factory=dict)
    dates: tuple[np.datetime64, np.datetime64] | None = None
    has_times: bool = False
    first: list[str] = field(default_factory=list)

    def note(self, kind: str, mask: pa.Array, texts: pa.Array) -> bool:
        """Count the values of a kind, and keep the first; whether there are any."""
        n_found = pc.sum(mask).as_py() or 0
        if n_found and kind not in self.first_of:
            place = pc.index(mask, True).as_py()
            self.first_of[kind] = (self.n_rows + place, str(texts[place].as_py()))
        self.n_of[kind] = self.n_of.get(kind, 0) + n_found
        return bool(n_found)

    def span(self, numbers: pa.Array) -> None:
        """Widen the range."""
        limits = pc.min_max(numbers).as_py()
        if limits["min"] is not None:
            self.low, self.high = min(self.low, limits["min"]), max(self.high, limits["max"])

    def span_dates(self, dates: np.ndarray) -> None:
        """Widen the range of dates."""
        dates = dates[~np.isnat(dates)]
        if len(dates):
            low, high = dates.min(), dates.max()
            self.dates = (min(self.dates[0], low), max(self.dates[1], high)) if self.dates else (low, high)
            self.has_times |= bool((dates != dates.astype("datetime64[D]")).any())

    def add_words(self, words: pa.Array) -> None:
        """Add words; too many are no categories."""
        if len(self.words) <= MAX_CATEGORIES:
            self.words.update(dict.fromkeys(pc.unique(words).to_pylist()))


@dataclass(frozen=True)
class FoundColumns:
    """The features of a table as a schema, and a summary of them."""

    columns: tuple[FeatureColumn, ...]
    summaries: tuple[ColumnSummary, ...]
    n_rows: int


def found_columns(table: Table, roles: Roles, cells: CellFormat) -> FoundColumns:
    """Find the kind of each feature; raises InputError for columns of two kinds, with the row, or of none."""
    seen = {position: _Seen() for position in roles.features}
    for arrays in table.batches(roles.features):
        for (position, own), array in zip(seen.items(), arrays, strict=True):
            as_category = roles.kinds.get(position) == ColumnKind.CATEGORY or (table.typed and is_text(array.type))
            if as_category or arrow.is_dictionary(array.type):
                _see_categories(own, array, cells)
            elif is_text(array.type):
                _see_texts(own, texts_of(array), cells, cells.date_formats.get(table.columns[position], ""))
            else:
                _see_values(own, array)
            if len(own.first) < FIRST_VALUES:
                own.first += [_shown(value) for value in array[: FIRST_VALUES - len(own.first)].to_pylist()]
            own.n_rows += len(array)
    n_rows = next(iter(seen.values())).n_rows
    if n_rows == 0:
        raise InputError(f"{table.path}: rows were expected, found none")
    columns, faults = [], FoundFaults()
    for position, own in seen.items():
        with faults.noted():
            wanted = roles.kinds.get(position)
            columns.append(_column(table, position, own, cells, wanted))
            if wanted not in (None, columns[-1].kind) and own.first_of:
                row, text = next(iter(own.first_of.values()))
                where = f"{table.place(row, position)}, column {quoted(table.columns[position])}"
                cure = "correct it or the schema, or say with `decimal` or `date_format` how it is written"
                raise InputError(f"{where}: a {wanted} was expected, found {quoted(text)}; {cure}")
    faults.check()
    return FoundColumns(tuple(columns), tuple(map(_summary, columns, seen.values())), n_rows)


def _see_categories(own: _Seen, array: pa.Array, cells: CellFormat) -> None:
    """Take categories into account; of a dictionary, each word is looked at once."""
    each = array if arrow.is_dictionary(array.type) else array.dictionary_encode()
    words = texts_of(each.dictionary)
    if array.type == each.type and array.type.ordered:  # also categories that nothing has, in their order
        own.add_words(words)
    missing = pc.fill_null(cells.is_missing(words).take(each.indices), True)
    own.n_missing += pc.sum(missing).as_py() or 0
    if own.note("word", pc.invert(missing), each):
        own.add_words(words.take(pc.unique(pc.filter(each.indices, pc.invert(missing)))))


def _see_texts(own: _Seen, texts: pa.Array, cells: CellFormat, date_format: str) -> None:
    """Take texts into account: numbers, dates and words, each of which may be the only kind of a column."""
    missing = cells.is_missing(texts)
    own.n_missing += pc.sum(missing).as_py() or 0
    rest = pc.if_else(missing, None, texts)
    if not date_format:
        is_number = cells.is_number(rest)
        if own.note("number", is_number, texts):
            own.span(cells.numbers(pc.filter(texts, is_number)))
            rest = pc.if_else(is_number, None, rest)
    dates = cells.dates(rest, date_format)
    is_date, zoned = pa.array(~np.isnat(dates)), cells.is_zoned(rest, date_format)
    own.note("zoned date", pc.and_(is_date, zoned), texts)
    own.note("date", pc.and_not(is_date, zoned), texts)
    own.span_dates(dates)
    is_word = pc.and_not(rest.is_valid(), is_date)
    if own.note("word", is_word, texts):
        own.add_words(pc.filter(texts, is_word))


def _see_values(own: _Seen, array: pa.Array) -> None:
    """Take numbers, booleans or dates into account, as the type of the column says."""
    if is_dated(array.type):
        own.n_missing += array.null_count
        own.note("date", array.is_valid(), array.cast(pa.string()))
        own.span_dates(moments_of(array))
    elif is_numeric(array.type):
        numbers = array.cast(pa.float64(), safe=False)
        missing = pc.or_(numbers.is_null(), pc.fill_null(pc.is_nan(numbers), True))
        own.n_missing += pc.sum(missing).as_py() or 0
        own.note("boolean" if arrow.is_boolean(array.type) else "number", pc.invert(missing), numbers)
        own.span(pc.if_else(missing, None, numbers))


def _shown(value: object) -> str:
    return "" if value is None else brief(str(value), 20)


def _column(table: Table, position: int, own: _Seen, cells: CellFormat, wanted: ColumnKind | None) -> FeatureColumn:
    """The column of the schema, by all that it holds, and the kind that an option wants; raises InputError."""
    as_category = wanted == ColumnKind.CATEGORY
    name, kind = table.columns[position], table.types[position]
    dtype = str(kind) if table.typed else ""
    if not (as_category or is_text(kind) or is_numeric(kind) or is_dated(kind)):
        expected = f"{table.path}: column {quoted(name)}: numbers, words or dates were expected"
        raise InputError(
            f"{expected}, found {brief(str(kind))}; turn it into numbers, or leave it out with `drop={quoted(name)}`"
        )
    found = {of: n for of, n in own.n_of.items() if n}
    date_format = "" if as_category else cells.date_formats.get(name, "")
    if len(found) > 1 or (date_format and "word" in found):
        most = "date" if date_format else max(found, key=lambda of: (of == wanted, found[of], of != "word"))
        row, text = own.first_of[min((of for of in found if of != most), key=found.__getitem__)]
        expected = f"a date like {quoted(date_format)}" if date_format else WANTED_KINDS[most]
        cure = f"correct it, give `missing={quoted(text)}` if it means that a value is missing"
        cure = f"{cure}, or `categorical={quoted(name)}` if the column holds categories"
        where = f"{table.place(row, position)}, column {quoted(name)}"
        raise InputError(f"{where}: {expected} was expected, found {quoted(text)}; {cure}")
    if own.dates is not None:
        zoned = "zoned date" in found or bool(arrow.is_timestamp(kind) and kind.tz)
        return FeatureColumn.of_dates(name, dtype, own.dates[0], own.has_times, zoned)
    are_booleans = not (as_category or table.typed) and {word.lower() for word in own.words} <= {"true", "false"}
    if "boolean" in found or ("word" in found and are_booleans):
        return FeatureColumn(name, ColumnKind.BOOLEAN, dtype)
    if "word" not in found:
        return FeatureColumn(name, ColumnKind.NUMBER, dtype)
    if len(own.words) > MAX_CATEGORIES:
        expected = f"{table.path}: column {quoted(name)}: at most {MAX_CATEGORIES:,} categories were expected"
        raise InputError(
            f"{expected}, found more; give `id={quoted(name)}` if it names the rows, else `drop={quoted(name)}`"
        )
    is_ordered = arrow.is_dictionary(kind) and kind.ordered
    return FeatureColumn(name, ColumnKind.CATEGORY, dtype, tuple(own.words) if is_ordered else _in_order(own.words))


def _in_order(words: Iterable[str]) -> tuple[str, ...]:
    """Categories in the order of their numbers if all are whole numbers, else in that of the alphabet."""
    if all(re.fullmatch(r"[+-]?\d{1,18}", word) for word in words):
        return tuple(sorted(words, key=lambda word: (int(word), word)))
    return tuple(sorted(words))


def _summary(column: FeatureColumn, own: _Seen) -> ColumnSummary:
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


def column_blocks(table: Table, positions: Sequence[int], rows_at_once: int) -> Iterator[list[pa.Array]]:
    """The columns at these positions, in blocks of at most so many rows."""
    for arrays in table.batches(positions):
        for first in range(0, len(arrays[0]), rows_at_once):
            yield [array.slice(first, rows_at_once) for array in arrays]


def table_blocks(table: Table) -> Iterator[pa.RecordBatch]:
    """The rows of a table in blocks, all columns as the file holds them."""
    positions = range(len(table.columns))
    for arrays in table.batches(positions):
        plainly = [plain(array) for array in arrays]
        yield pa.record_batch(plainly, names=list(table.columns))


def texts_in(table: Table, role: str, name: str) -> list[str]:
    """The texts of a column, all of them in memory; raises InputError for a missing one, or if there is no column."""
    position = position_of(table, role, name)
    texts: list[str] = []
    for [array] in table.batches([position]):
        words = texts_of(array).to_pylist()
        if row := next((place for place, word in enumerate(words) if not word), -1) + 1:
            where = f"{table.place(len(texts) + row - 1, position)}, column {quoted(name)}"
            raise InputError(f"{where}: a value was expected, found none; fill it in, or leave its row out")
        texts += words
    return texts


def numbers_in(
    table: Table, role: str, name: str, cells: CellFormat | None = None, with_missing: bool = False
) -> Floats:
    """The numbers of a column, all of them in memory; raises InputError for what is no finite number.

    NaN stands for missing ones, which are refused, too, unless they may be there.
    """
    position, n_rows = position_of(table, role, name), 0
    blocks, column, form = [np.empty(0)], FeatureColumn(name), cells or CellFormat()
    for [array] in table.batches([position]):
        values, faults = cell_numbers(column, array, form)
        bad = np.isinf(values) if with_missing else ~np.isfinite(values)
        first = faults.first if faults.first >= 0 else int(bad.argmax()) if bad.any() else -1
        if first >= 0:
            found = quoted(str(texts_of(array)[first].as_py()))
            where = f"{table.place(n_rows + first, position)}, column {quoted(name)}"
            expected = f"{where}: a finite number was expected"
            raise InputError(f"{expected}, found {found}; correct it, or leave its row out")
        blocks.append(values)
        n_rows += len(values)
    return np.concatenate(blocks)
