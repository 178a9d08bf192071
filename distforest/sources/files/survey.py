"""What the columns of a table hold: the kind of each is found in one reading, and what is odd is told or refused."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as arrow

from distforest.amounts import counted
from distforest.errors import InputError, warn_caller
from distforest.sources.files.bounds import brief, quoted
from distforest.sources.files.cells import (
    MISSING_NUMBERS,
    CellFormat,
    cell_numbers,
    is_dated,
    is_numeric,
    is_text,
    moments_of,
    plain,
    texts_of,
)
from distforest.sources.files.csv_dialect import hint_at_separator, told_of_separator
from distforest.sources.files.faults import FoundFaults
from distforest.sources.files.roles import position_of
from distforest.sources.schema import MAX_CATEGORIES, ColumnKind, FeatureColumn

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from distforest.sources.files.roles import Roles
    from distforest.sources.files.tables import Table
    from distforest.sources.source import Floats

FIRST_VALUES = 3
"""The first values of a column that a summary shows."""

EXACT = float(2**53)
"""Whole numbers from here on are not all float64 numbers."""

LIKE_NUMBERS = r"[$€£(+-]*\s*[.,]?\d[\d\s.,:/%$€£()_+-]*"
"""What is written with digits and marks, and is no number: 1,5 and 1,234, 12%, $5, 10:30, 31/12/2024, 1.2.3."""

LIKE_DATE = r"\d{1,4}[./-]\d{1,2}[./-]\d{1,4}.*"
"""What begins as a date does."""

FORMS_WITH_MONTHS = tuple(
    form.replace("%Y", year).replace("%b", month)
    for year in ("%Y", "%y")
    for month in ("%b", "%B")
    for form in ("%d-%b-%Y", "%d %b %Y", "%d/%b/%Y", "%d. %b %Y", "%b %d, %Y", "%b %d %Y", "%Y-%b-%d")
)
"""Formats of dates with the names of months."""

FEW = 20
"""The most categories of a column of whole numbers in a message that suggests that they are categories."""


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
    words: dict[str, int] = field(default_factory=dict)
    missing_words: dict[str, int] = field(default_factory=dict)
    dates: tuple[np.datetime64, np.datetime64] | None = None
    has_times: bool = False
    has_fractions: bool = False
    leading_zero: tuple[int, str] | None = None
    first: list[str] = field(default_factory=list)

    def note(self, kind: str, mask: pa.Array, texts: pa.Array) -> bool:
        """Count the values of a kind, and keep the first; whether there are any."""
        n_found = pc.sum(mask).as_py() or 0
        if n_found and kind not in self.first_of:
            place = pc.index(mask, True).as_py()
            self.first_of[kind] = (self.n_rows + place, str(texts[place].as_py()))
        self.n_of[kind] = self.n_of.get(kind, 0) + n_found
        return bool(n_found)

    def span(self, low: float | None, high: float | None) -> None:
        """Widen the range."""
        if low is not None and high is not None:
            self.low, self.high = min(self.low, low), max(self.high, high)

    def span_dates(self, dates: np.ndarray) -> None:
        """Widen the range of dates."""
        dates = dates[~np.isnat(dates)]
        if len(dates):
            low, high = dates.min(), dates.max()
            self.dates = (min(self.dates[0], low), max(self.dates[1], high)) if self.dates else (low, high)
            self.has_times |= bool((dates != dates.astype("datetime64[D]")).any())

    def add_words(self, words: pa.Array) -> None:
        """Count words, each of them once; too many are no categories."""
        if len(self.words) <= MAX_CATEGORIES:
            for own in pc.value_counts(words).to_pylist():
                self.words[own["values"]] = self.words.get(own["values"], 0) + own["counts"]


@dataclass(frozen=True)
class FoundColumns:
    """The features of a table as a schema, and a summary of them."""

    columns: tuple[FeatureColumn, ...]
    summaries: tuple[ColumnSummary, ...]
    n_rows: int


def found_columns(table: Table, roles: Roles, cells: CellFormat) -> FoundColumns:
    """Find the kind of each feature; raises InputError for columns of two kinds, with the line, or of none."""
    seen = {position: _Seen() for position in roles.features}
    for arrays in table.batches(roles.features):
        for (position, own), array in zip(seen.items(), arrays, strict=True):
            as_category = position in roles.categorical or (table.typed and is_text(array.type))
            as_category |= arrow.is_dictionary(array.type)
            _see(own, array, as_category, cells.of(table.columns[position]))
    n_rows = next(iter(seen.values())).n_rows
    if n_rows == 0:
        raise InputError(f"{table.path}: rows were expected, found none")
    columns, faults = [], FoundFaults()
    for position, own in seen.items():
        with faults.noted():
            columns.append(_Decision(table, position, own, cells).column(position in roles.categorical))
    faults.check()
    if cells.date_format and not any(column.kind == ColumnKind.DATE for column in columns):
        cure = f"give `date_format='COLUMN={cells.date_format}'` if they are written in digits alone"
        warn_caller(f"{table.path}: no column holds dates like {quoted(cells.date_format)}; {cure}")
    if table.guessed:
        _told_of_header(table, columns, seen)
    return FoundColumns(tuple(columns), tuple(map(_summary, columns, seen.values())), n_rows)


def _see(own: _Seen, array: pa.Array, as_category: bool, cells: CellFormat) -> None:
    """Take the next values of a column into account."""
    if as_category:
        _see_categories(own, array, cells)
    elif is_text(array.type):
        _see_texts(own, array, cells)
    elif is_dated(array.type):
        own.n_missing += array.null_count
        own.note("date", array.is_valid(), array.cast(pa.string()))
        own.span_dates(moments_of(array))
    elif is_numeric(array.type):
        values = plain(array)
        numbers = values.cast(pa.float64(), safe=False)
        missing = pc.or_(numbers.is_null(), pc.fill_null(pc.is_nan(numbers), True))
        own.n_missing += pc.sum(missing).as_py() or 0
        own.note("boolean" if arrow.is_boolean(values.type) else "number", pc.invert(missing), numbers)
        limits = pc.min_max(pc.if_else(missing, None, numbers)).as_py()
        own.span(limits["min"], limits["max"])
    if len(own.first) < FIRST_VALUES:
        own.first += [_shown(value) for value in array[: FIRST_VALUES - len(own.first)].to_pylist()]
    own.n_rows += len(array)


def _shown(value: object) -> str:
    return "" if value is None else brief(str(value), 20)


def _see_categories(own: _Seen, array: pa.Array, cells: CellFormat) -> None:
    """Count categories; of a dictionary, each word is looked at once."""
    each = array if arrow.is_dictionary(array.type) else array.dictionary_encode()
    words = texts_of(each.dictionary)
    missing = cells.is_missing(words).to_pylist()
    codes = each.indices.drop_null().to_numpy(zero_copy_only=False)
    own.n_missing += each.indices.null_count
    if array.type == each.type and array.type.ordered:  # also categories that nothing has, in their order
        own.words.update({word: own.words.get(word, 0) for word in words.to_pylist() if word})
    for place, count in enumerate(np.bincount(codes.astype(np.int64), minlength=len(words)).tolist()):
        word = words[place].as_py() or ""
        if missing[place]:
            own.n_missing += count
            own.missing_words[word] = own.missing_words.get(word, 0) + count
        elif count:
            own.first_of.setdefault("word", (own.n_rows, word))
            own.n_of["word"] = own.n_of.get("word", 0) + count
            if len(own.words) <= MAX_CATEGORIES:
                own.words[word] = own.words.get(word, 0) + count


def _see_texts(own: _Seen, array: pa.Array, cells: CellFormat) -> None:
    """Take texts into account: numbers, dates, and words, each of which may be the only kind of a column."""
    texts = texts_of(array)
    missing = cells.is_missing(texts)
    own.n_missing += pc.sum(missing).as_py() or 0
    for entry in pc.value_counts(pc.filter(pc.fill_null(texts, ""), missing)).to_pylist():
        own.missing_words[entry["values"]] = own.missing_words.get(entry["values"], 0) + entry["counts"]
    rest = pc.if_else(missing, None, texts)
    if cells.only_dates:
        _see_only_dates(own, rest, cells)
        return
    is_number = cells.is_number(rest)
    if own.note("number", is_number, texts):
        _see_numbers(own, pc.filter(texts, is_number), cells, pc.indices_nonzero(is_number))
    is_date = cells.is_date(pc.if_else(is_number, None, rest))
    _see_dates(own, texts, is_date, cells)
    is_word = pc.and_not(pc.and_not(rest.is_valid(), is_number), is_date)
    if own.note("word", is_word, texts):
        own.add_words(pc.filter(rest, is_word))


def _see_only_dates(own: _Seen, texts: pa.Array, cells: CellFormat) -> None:
    """Take the texts of a column into account that holds dates and nothing else; null is missing."""
    dashes = pc.and_(texts.is_valid(), cells.is_missing(texts, of_numbers=True))
    own.n_missing += pc.sum(dashes).as_py() or 0
    is_date = cells.is_date(texts)
    _see_dates(own, texts, is_date, cells)
    own.note("another form", pc.and_not(pc.and_not(texts.is_valid(), dashes), is_date), texts)


def _see_dates(own: _Seen, texts: pa.Array, is_date: pa.Array, cells: CellFormat) -> None:
    if not pc.any(is_date).as_py():
        return
    zoned = pc.and_(is_date, cells.is_zoned(texts))
    own.note("zoned date", zoned, texts)
    own.note("date", pc.and_not(is_date, zoned), texts)
    dates = cells.dates(pc.if_else(is_date, texts, None))
    own.note("no date", pc.and_(is_date, pa.array(np.isnat(dates))), texts)
    own.span_dates(dates)


def _see_numbers(own: _Seen, texts: pa.Array, cells: CellFormat, places: pa.Array) -> None:
    limits = pc.min_max(cells.numbers(texts)).as_py()
    own.span(limits["min"], limits["max"])
    zeros = pc.match_substring_regex(texts, r"^0\d")
    if own.leading_zero is None and pc.any(zeros).as_py():
        place = pc.index(zeros, True).as_py()
        own.leading_zero = (own.n_rows + places[place].as_py(), str(texts[place].as_py()))
    own.has_fractions |= not pc.all(pc.match_substring_regex(texts, r"^[+-]?\d+$")).as_py()


@dataclass(frozen=True)
class _Decision:
    """What a column is, by all that it holds."""

    table: Table
    position: int
    seen: _Seen
    cells: CellFormat

    @property
    def name(self) -> str:
        return self.table.columns[self.position]

    @property
    def _cure_of_names(self) -> str:
        """What to do with a column that may name the rows."""
        name = quoted(self.name)
        return f"if it names the rows, give `id={name}`, else leave it out with `drop={name}`"

    @property
    def _n_of(self) -> Mapping[str, int]:
        """Values by kind; among numbers and dates, words that mean a missing value are none."""
        counts, own = {kind: n for kind, n in self.seen.n_of.items() if n}, self.seen
        if set(own.words) <= set(MISSING_NUMBERS) and len(counts) > 1:
            counts.pop("word", None)
        return counts

    def column(self, as_category: bool) -> FeatureColumn:
        """The column of the schema; raises InputError."""
        own, kinds = self.seen, self._n_of
        dtype = str(self.table.types[self.position]) if self.table.typed else ""
        kind = self.table.types[self.position]
        if not (as_category or is_text(kind) or is_numeric(kind) or is_dated(kind)):
            cure = "turn it into numbers, or leave it out with `drop`"
            expected = f"{self.table.path}: column {quoted(self.name)}: numbers, words or dates were expected"
            raise InputError(f"{expected}, found {brief(str(kind))}; {cure}")
        if "no date" in kinds:
            row, text = own.first_of["no date"]
            raise self._refused(row, f"a date was expected, found {quoted(text)}; there is no such day")
        if "another form" in kinds:
            row, text = own.first_of["another form"]
            form = self.cells.of(self.name).date_format
            cure = "correct it, or the form, or give `missing` if it means that a value is missing"
            raise self._refused(row, f"a date like {quoted(form)} was expected, found {quoted(text)}; {cure}")
        if not kinds:
            warn_caller(f"{self.table.path}: column {quoted(self.name)} has no value at all")
            return FeatureColumn(self.name, ColumnKind.NUMBER, dtype)
        if len(kinds) > 1:
            raise self._mixed(kinds)
        [only] = kinds
        if only == "word":
            return self._of_words(dtype, as_category)
        own.n_missing += sum(own.words.values())  # dashes among numbers and dates
        if only in ("date", "zoned date"):
            return self._of_dates(dtype, only == "zoned date" or bool(arrow.is_timestamp(kind) and kind.tz))
        self._told_of_numbers()
        if only == "number" and self.name in getattr(self.table, "categoricals", ()):
            found = "was a categorical of a data frame, and its numbers are read as amounts"
            cure = f"give `categorical={quoted(self.name)}` if they are codes"
            warn_caller(f"{self.table.path}: column {quoted(self.name)} {found}; {cure}")
        kind = ColumnKind.BOOLEAN if only == "boolean" else ColumnKind.NUMBER
        return FeatureColumn(self.name, kind, dtype)

    def _refused(self, row: int, words: str) -> InputError:
        return InputError(f"{self.table.place(row, self.position)}, column {quoted(self.name)}: {words}")

    def _mixed(self, kinds: Mapping[str, int]) -> InputError:
        """The error for a column of two kinds, which names the first value of the rarer one."""
        most = max(kinds, key=lambda kind: (kinds[kind], kind != "word"))
        rare = min((kind for kind in kinds if kind != most), key=kinds.__getitem__)
        if {most, rare} == {"number", "word"} and re.fullmatch(LIKE_NUMBERS, self.seen.first_of["word"][1]):
            most, rare = "number", "word"  # numbers with marks that nobody has named, even if they are the most
        if {most, rare} == {"date", "word"} and re.fullmatch(LIKE_DATE, self.seen.first_of["word"][1]):
            most, rare = "date", "word"  # dates of another form, too
        row, text = self.seen.first_of[rare]
        wanted = {"number": "a number", "word": "a word", "date": "a date", "zoned date": "a date with a time zone"}
        return self._refused(
            row, f"{wanted[most]} was expected, found {quoted(text)}{self._cure(most, rare, row, text)}"
        )

    def _cure(self, most: str, rare: str, row: int, text: str) -> str:
        """What may help against a value of another kind."""
        table = self.table
        if most == "number" and rare == "word":
            dialect = getattr(table, "dialect", None)
            another = hint_at_separator(dialect.separator, text, len(table.columns) == 1) if dialect else ""
            if another:
                return another
            if re.fullmatch(LIKE_NUMBERS, text):
                return self._cure_of_marks(text)
        if most == "date" and rare == "word" and re.fullmatch(LIKE_DATE, text):
            return self._cure_of_dates(text)
        if not row and table.guessed and not table.headed:
            return "; if this row names the columns, give header=True"
        name = f"`categorical={quoted(self.name)}`"
        means = f", or `missing={quoted(text)}` if it means that a value is missing" if rare == "word" else ""
        return f"; correct it, or give {name} if the column holds categories{means}"

    def _cure_of_marks(self, text: str) -> str:
        """What may help against digits with marks that are no number."""
        if re.fullmatch(r"[+-]?\d{1,3}(,\d{3})+(\.\d+)?", text):
            ambiguous = (
                " or, if the comma is a decimal one, `decimal=','`" if re.fullmatch(r"[+-]?\d+,\d+", text) else ""
            )
            return f"; if commas stand between thousands, give `thousands=','`{ambiguous}"
        if re.fullmatch(r"[+-]?\d{1,3}(\.\d{3})+(,\d+)?", text):
            return "; if points stand between thousands, give `thousands='.'` and `decimal=','`"
        if re.fullmatch(r"[+-]?\d*,\d+", text):
            return "; if commas are decimal points, give `decimal=','`"
        if re.fullmatch(LIKE_DATE, text):
            return self._cure_of_dates(text)
        return f"; write plain numbers, or give `categorical={quoted(self.name)}` if they are categories"

    def _cure_of_dates(self, text: str) -> str:
        """The forms of dates that all of the column's words have, as far as they look like dates."""
        forms = forms_of_dates([text, *self.seen.words])
        own = f"{self.name}=" if self.cells.date_format or self.cells.own_formats else ""
        ways = " or ".join(f"`date_format={own + form!r}`" for form in forms)
        return f"; if these are dates, say how they are written, such as {ways}"

    def _of_words(self, dtype: str, as_category: bool) -> FeatureColumn:
        own = self.seen
        if not as_category and not self.table.typed and {word.lower() for word in own.words} <= {"true", "false"}:
            return FeatureColumn(self.name, ColumnKind.BOOLEAN, dtype)
        marked = [word for word in own.words if re.fullmatch(LIKE_NUMBERS, word)]
        dialect = getattr(self.table, "dialect", None)
        if dialect and not as_category:
            row, text = own.first_of["word"]
            if another := hint_at_separator(dialect.separator, text, alone=False):
                raise self._refused(row, f"a number was expected, found {quoted(text)}{another}")
        if not as_category and not self.table.typed and marked:
            n_values = sum(word not in MISSING_NUMBERS for word in own.words)
            if len(marked) == n_values or any(re.fullmatch(r"[+-]?\d[\d.,]*", word) for word in marked):
                raise self._marked(marked[0])
        if len(own.words) > MAX_CATEGORIES:
            found = f"at most {MAX_CATEGORIES:,} categories were expected, found more"
            raise InputError(f"{self.table.path}: column {quoted(self.name)}: {found}; {self._cure_of_names}")
        form = "" if as_category or self.table.typed else form_with_months(own.words)
        if form:
            cure = f"give `date_format={f'{self.name}={form}'!r}` if they are dates"
            found = quoted(next(iter(own.words)))
            warn_caller(f"{self.table.path}: column {quoted(self.name)} holds words like {found}; {cure}")
        self._told_of_words(may_be_names=not form)
        kind = self.table.types[self.position]
        is_ordered = arrow.is_dictionary(kind) and kind.ordered
        return FeatureColumn(
            self.name, ColumnKind.CATEGORY, dtype, tuple(own.words) if is_ordered else _in_order(own.words)
        )

    def _marked(self, text: str) -> InputError:
        """The error for digits with marks; its row is told unless another word stands before it."""
        row, first = self.seen.first_of["word"]
        words = f"a number was expected, found {quoted(text)}{self._cure_of_marks(text)}"
        if first == text:
            return self._refused(row, words)
        return InputError(f"{self.table.path}: column {quoted(self.name)}: {words}")

    def _told_of_words(self, may_be_names: bool) -> None:
        """Tell what may be read otherwise than it was meant."""
        own, where = self.seen, f"{self.table.path}: column {quoted(self.name)}"
        dialect = getattr(self.table, "dialect", None)
        if dialect and len(self.table.columns) == 1 and (told := told_of_separator(dialect.separator, own.words)):
            warn_caller(f"{where}: {told}")
        n_words = sum(own.words.values())
        if may_be_names and len(own.words) == n_words > FEW:
            named = f"`id={quoted(self.name)}` or `drop={quoted(self.name)}`"
            warn_caller(f"{where} has another word in each row; give {named} if it names the rows")
        means = {word: n for word, n in own.missing_words.items() if word and word in self.cells.missing}
        if means:
            listed = ", ".join(f"{word!r} in {counted(n, 'row')}" for word, n in means.items())
            warn_caller(
                f"{where}: {listed} is read as missing; say with `missing` what means that, if it is a category"
            )
        doubtful = [word for word in own.words if word in MISSING_NUMBERS]
        if doubtful:
            said = f"give `missing={quoted(doubtful[0])}` if it means that a value is missing"
            warn_caller(f"{where}: {', '.join(map(repr, doubtful))} is read as a category; {said}")
        marked = next(
            (word for word in own.words if word[:1] in "\"'" and word[-1:] == word[:1] and len(word) > 1), None
        )
        if marked:
            warn_caller(
                f"{where}: quotes are read as part of {marked}; leave no blank before them, or say what `quote` is"
            )

    def _told_of_numbers(self) -> None:
        own, where = self.seen, f"{self.table.path}: column {quoted(self.name)}"
        if own.leading_zero is not None:
            _, text = own.leading_zero
            cure = f"give `categorical={quoted(self.name)}` if these are codes"
            warn_caller(f"{where}: {quoted(text)} is read as a number, without its zeros; {cure}")
        whole = not own.has_fractions if not self.table.typed else arrow.is_integer(self.table.types[self.position])
        if whole and max(-own.low, own.high) >= EXACT and np.isfinite(max(-own.low, own.high)):
            found = "whole numbers of so many digits are not all different as numbers"
            warn_caller(f"{where}: {found}; {self._cure_of_names}")

    def _of_dates(self, dtype: str, zoned: bool) -> FeatureColumn:
        """A column of dates, counted from the first day: in days or, where they have times, in seconds."""
        if self.seen.dates is None:
            return FeatureColumn(self.name, ColumnKind.NUMBER, dtype)
        return FeatureColumn.of_dates(self.name, dtype, self.seen.dates[0], self.seen.has_times, zoned)


def forms_of_dates(texts: Sequence[str]) -> list[str]:
    """Formats of dates that texts may have, as far as they look like dates; none if none does.

    Examples
    --------
    >>> forms_of_dates(["05/03/2024", "05/13/2024"]), forms_of_dates(["5.3.24 10:30"]), forms_of_dates(["red"])
    (['%m/%d/%Y'], ['%d.%m.%y %H:%M', '%m.%d.%y %H:%M'], [])
    """
    parts = [re.split(r"([./-])", text) for text in texts if re.fullmatch(LIKE_DATE, text)]
    if not parts:
        return []
    first, mark, _, _, last = parts[0][:5]
    clock = re.fullmatch(r"\d+([ T])\d{1,2}:\d\d(:\d\d)?", last)
    time = "" if clock is None else f"{clock[1]}%H:%M{'' if clock[2] is None else ':%S'}"
    if len(first) > 2:
        return [mark.join(("%Y", "%m", "%d")) + time]
    year = "%Y" if re.match(r"\d{4}", last) else "%y"
    forms = [mark.join((*order, year)) + time for order in (("%d", "%m"), ("%m", "%d"))]
    fits = [form for form, place in zip(forms, (2, 0), strict=True) if all(int(own[place]) <= 12 for own in parts)]
    return fits or forms[:1]


def form_with_months(words: Iterable[str]) -> str:
    """The format of dates that all words have, with months in English; "" if they have none.

    Examples
    --------
    >>> form_with_months(["19-Sep-03", "2-May-03"]), form_with_months(["June 19, 2003"]), form_with_months(["1 may"])
    ('%d-%b-%y', '%B %d, %Y', '')
    """
    left, forms = list(words), list(FORMS_WITH_MONTHS)
    while left and forms:
        word = left.pop()
        forms = [form for form in forms if _has_form(word, form)]
    return forms[0] if forms and words else ""


def _has_form(word: str, form: str) -> bool:
    try:
        datetime.strptime(word, form)
    except ValueError:
        return False
    return True


def _in_order(words: Sequence[str] | Mapping[str, int]) -> tuple[str, ...]:
    """Categories in the order of their numbers if all are whole numbers, else in that of the alphabet."""
    if all(re.fullmatch(r"[+-]?\d{1,18}", word) for word in words):
        return tuple(sorted(words, key=lambda word: (int(word), word)))
    return tuple(sorted(words))


def _told_of_header(table: Table, columns: Sequence[FeatureColumn], seen: Mapping[int, _Seen]) -> None:
    """Tell where the guess about the first row may be wrong, because of its words."""
    worded = [own for own in columns if own.kind == ColumnKind.CATEGORY]
    if table.headed:
        found = next((own for own in worded if own.name in own.categories), None)
        if found is not None:
            text = f"{quoted(found.name)} of the first row, which is taken as a header, is also a value of its column"
            warn_caller(f"{table.path}: {text}; give header=False if it is data, else header=True")
    elif worded:
        text = f"the first row, with {quoted(next(iter(seen[int(worded[0].name)].first)))}, is taken as data"
        warn_caller(f"{table.path}: {text}; give header=True if it names the columns, else header=False")


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
    blocks, form = [np.empty(0)], cells or CellFormat()
    column = FeatureColumn(name)
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
