"""Tables of text: a line is a row, a character separates its cells, and the first row may name the columns.

The module csv reads the file once and finds what is wrong with its form, by line; Arrow then reads its cells, as texts.
Two readers have to agree on every row: what one of them takes for something else is not read wrongly without a word.
"""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa
import pyarrow.csv as arrow_csv

from distforest.amounts import counted
from distforest.errors import InputError, warn_caller
from distforest.sources.files.bounds import UNPACKERS, RowFile, check_unfolded, quoted, text_bytes
from distforest.sources.files.csv_dialect import SEPARATORS, hint_at_separator, in_short, is_headed
from distforest.sources.files.damage import readable
from distforest.sources.files.tables import column_names, is_number

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Literal, Protocol, TextIO

    from distforest.sources.files.csv_dialect import Dialect

    class _Reader(Protocol):
        """A reader of the module csv, which has no type by a public name."""

        @property
        def line_num(self) -> int: ...

        def __iter__(self) -> Iterator[list[str]]: ...


FILL_IN = "; fill it in, or leave its row out"
"""What to do about a missing cell."""

MOST_IN_TITLE = 5
"""The most rows with fewer cells than the next one that may be a title."""

BLOCK_BYTES = 1 << 20
"""Bytes of text that Arrow parses at once, at least."""


def _reader(stream: TextIO, dialect: Dialect) -> _Reader:
    """A reader of what stands below the lines above the table; it counts lines from there."""
    for _ in islice(stream, dialect.skip_rows):
        pass
    quoting: Literal[0, 3] = csv.QUOTE_NONE if dialect.quote is None else csv.QUOTE_MINIMAL
    return csv.reader(stream, delimiter=dialect.separator, quotechar=dialect.quote, quoting=quoting, strict=True)


def _is_empty(cells: list[str]) -> bool:
    """Whether a line is empty or blank; a line with an empty cell in quotes is not."""
    return not cells or (len(cells) == 1 and cells[0].isspace())


def _rows(file: RowFile, reader: _Reader) -> Iterator[list[str]]:
    """The rows that are not empty."""
    for cells in reader:
        file.held = 0
        if not _is_empty(cells):
            yield cells


@dataclass
class _Form:
    """What the first reading finds: numbers of rows and bytes, the first two rows, and what Arrow must know.

    ``n_above_full`` is the number of lines above the first row that may name all columns.
    """

    first: list[str]
    second: list[str]
    n_rows: int = 0
    n_empty_before: int = 0
    n_bytes: int = 0
    longest: int = 0
    on_one_line: bool = True
    last_is_empty: bool = True
    n_above_full: int | None = None

    def add(self, cells: list[str], n_above: int) -> None:
        """Take the next row into account, and how many lines stand above it."""
        if not self.n_rows:
            self.first = cells
        elif self.n_rows == 1:
            self.second = cells
        self.last_is_empty = self.last_is_empty and (not self.n_rows or not cells[-1].strip())
        if self.n_above_full is None and all(cell.strip() for cell in cells[1:]):
            self.n_above_full = n_above
        self.n_rows += 1


@dataclass(frozen=True)
class CsvTable:
    """A file of separated values, with a header row or without one; without one the columns are called "0", "1", ...

    Unless ``header`` says so, the first row is a header if none of its cells looks like a value, if it holds the name
    of the label, or if its numbers are 0, 1, 2 and so on, at least two of them, with rows below.
    """

    path: str
    columns: tuple[str, ...]
    headed: bool
    guessed: bool
    dialect: Dialect
    form: _Form
    max_bytes: int | None
    typed: ClassVar[bool] = False

    @classmethod
    def open(
        cls,
        path: str,
        dialect: Dialect,
        label: str | None = None,
        header: bool | None = None,
        max_bytes: int | None = None,
    ) -> CsvTable:
        """Read the file once, as text, to find what is wrong with its form."""
        if Path(path).suffix.lower() not in UNPACKERS:
            check_unfolded(path, Path(path).stat().st_size, max_bytes)
        form = _form_of(path, dialect, max_bytes, header)
        _check_separator(path, dialect, form)
        cells = [cell.strip() for cell in form.first]
        cells[0] = cells[0].removeprefix("# ")  # with which numpy.savetxt begins a header
        headed = is_headed(path, label, cells, form.second) if header is None else header
        if headed and not form.second:
            another = hint_at_separator(dialect.separator, cells[0], alone=True) if len(cells) == 1 else ""
            expected = f"rows were expected, found none below the first, {in_short(cells)}, which is taken as a header"
            raise InputError(f"{path}: {expected}{another or '; give header=False if it is data'}")
        names = cells if headed else [str(position) for position in range(len(cells))]
        if headed and len(names) > 1 and not names[-1] and form.last_is_empty:
            warn_caller(
                f"{path}: the last column has no name and no value, and is left out: lines end with a separator"
            )
            names = names[:-1]
        title = _cure_of_title(form.n_above_full) if headed and form.n_above_full else ""
        return cls(path, column_names(path, names, title), headed, header is None, dialect, form, max_bytes)

    @property
    def index(self) -> tuple[str, ...]:
        """The names of columns that name the rows: a first one without a name."""
        return self.columns[:1] if self.headed and re.fullmatch(r"|Unnamed: 0", self.columns[0]) else ()

    @property
    def n_bytes(self) -> int:
        """Size of the text: its numbers take about as much."""
        return self.form.n_bytes

    @property
    def types(self) -> tuple[pa.DataType, ...]:
        """The types of the columns: all are text."""
        return (pa.string(),) * len(self.columns)

    def batches(self, positions: Sequence[int]) -> Iterator[list[pa.Array]]:
        """Blocks of rows: the texts of these columns."""
        names, n_found = [str(place) for place in range(len(self.form.first))], 0
        read = arrow_csv.ReadOptions(
            use_threads=False,
            block_size=max(BLOCK_BYTES, 2 * self.form.longest),
            column_names=names,
            skip_rows=self.dialect.skip_rows,
            skip_rows_after_names=self.form.n_empty_before + self.headed,
            encoding={"utf-8-sig": "utf8"}.get(self.dialect.encoding, self.dialect.encoding),
        )
        parse = arrow_csv.ParseOptions(
            delimiter=self.dialect.separator,
            quote_char=self.dialect.quote or False,
            newlines_in_values=not self.form.on_one_line,
            invalid_row_handler=lambda row: "skip" if row.text.isspace() else "error",
        )
        convert = arrow_csv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.string()),
            include_columns=[names[position] for position in positions],
            strings_can_be_null=False,
        )
        with (
            readable(self.path, pa.ArrowException),
            text_bytes(self.path) as file,
            arrow_csv.open_csv(file, read, parse, convert) as batches,
        ):
            for batch in batches:
                n_found += len(batch)
                yield batch.columns
        if n_found != self.form.n_rows - self.headed:
            expected = f"{self.form.n_rows - self.headed:,} rows were expected, found {n_found:,} at another reading"
            raise InputError(f"{self.path}: {expected}; look at its quotes, and whether it has changed")

    def place(self, row: int, _column: int = 0) -> str:
        """Where a row is: its number, from 0, and its line, from 1."""
        with RowFile(self.path, self.max_bytes) as file, file.text("", self.dialect.encoding) as stream:
            reader = _reader(stream, self.dialect)
            next(islice(_rows(file, reader), row + self.headed, None))
            return f"{self.path}: row {row} (line {self.dialect.skip_rows + reader.line_num})"


def _form_of(path: str, dialect: Dialect, max_bytes: int | None, header: bool | None) -> _Form:
    """Read all rows; raises InputError for one with more or fewer cells than the first, and for what is no text."""
    form = _Form([], [])
    try:
        with readable(path), RowFile(path, max_bytes) as file, file.text("", dialect.encoding) as stream:
            reader, empty, line, above = _reader(stream, dialect), 0, dialect.skip_rows, dialect.skip_rows
            try:
                for cells in reader:
                    file.held, n_above, line = 0, line, above + reader.line_num
                    form.on_one_line = form.on_one_line and line == n_above + 1
                    if _is_empty(cells):
                        empty = empty or line
                        form.n_empty_before += not form.first
                        continue
                    if form.n_rows and empty and len(form.first) == len(cells) == 1:
                        raise _at(path, f"line {empty}", f"a number was expected, found an empty line{FILL_IN}")
                    if form.n_rows and len(cells) != len(form.first):
                        fault = _wrong_length(form, dialect, cells, header, n_above)
                        raise _at(path, _place(form, line, header), fault)
                    if file.has_nul:
                        _check_no_nul(path, _place(form, line, header), cells)
                    form.add(cells, n_above)
                    empty = 0
            except csv.Error as error:
                raise _at(
                    path, f"line {above + reader.line_num}", f"cannot be read ({error}); look at its quotes"
                ) from error
            form.n_bytes, form.longest = file.n_bytes, file.longest + (1 << 16)
    except InputError as error:
        if not isinstance(error.__cause__, UnicodeDecodeError):
            raise
        raise _wrong_encoding(path, dialect, error) from error.__cause__
    if not form.first and dialect.skip_rows:
        expected = f"rows were expected below the first {counted(dialect.skip_rows, 'line')}, found none"
        raise InputError(f"{path}: {expected}; give a smaller `skip_rows`")
    if not form.first:
        raise InputError(f"{path}: a csv file with rows was expected, found an empty file")
    return form


def _check_separator(path: str, dialect: Dialect, form: _Form) -> None:
    """Refuse a single column whose first two rows another separator parts alike."""
    if len(form.first) > 1 or not form.second:
        return
    for one in SEPARATORS:
        first, second = form.first[0].strip(), form.second[0].strip()
        alike = one != dialect.separator and 0 < first.count(one) == second.count(one)
        if alike and (one not in " ," or all(map(is_number, second.split(one)))):
            hint = hint_at_separator(dialect.separator, first if one in first else second, alone=True)
            raise InputError(f"{path}: several columns were expected, found {quoted(form.first[0])}{hint}")


def _at(path: str, place: str, fault: str) -> InputError:
    return InputError(f"{path}: {place}: {fault}")


def _place(form: _Form, line: int, header: bool | None) -> str:
    """Where a row is while nobody knows whether the first one is a header: unless it is said, it seems so."""
    return f"row {max(0, form.n_rows - (header is not False))} (line {line})"


def _check_no_nul(path: str, place: str, cells: list[str]) -> None:
    for column, cell in enumerate(cells):
        if "\0" in cell:
            fault = f"text was expected, found {quoted(cell)}; remove the zero bytes"
            raise _at(path, f"{place}, column {column}", fault)


def _wrong_encoding(path: str, dialect: Dialect, error: InputError) -> InputError:
    """The error for bytes that are no characters, with their line."""
    name = dialect.encoding.removesuffix("-sig")
    with text_bytes(path) as file:
        for number, line in enumerate(file, 1):
            try:
                line.decode(name)
            except UnicodeDecodeError as found:
                byte = f"the byte {line[found.start]:#04x}"
                cure = "save it in UTF-8, or give `encoding='cp1252'`, or whichever it has"
                return InputError(f"{path}: line {number}: text in {name.upper()} was expected, found {byte}; {cure}")
    return error


def _cure_of_title(n_above: int) -> str:
    """What may help if the first rows are no part of the table, such as a title."""
    return f"; if what stands above line {n_above + 1} is a title, give `skip_rows={n_above}`"


def _wrong_length(form: _Form, dialect: Dialect, cells: list[str], header: bool | None, n_above: int) -> str:
    """The message about a row with more or fewer cells than the first one, with what may help.

    ``n_above`` is the number of lines above the row.
    """
    n_expected = len(form.first)
    fault = f"as many cells as the first row has, {n_expected}, were expected, found {len(cells)}"
    title = _cure_of_title(n_above) if form.n_rows <= MOST_IN_TITLE and len(cells) > n_expected else ""
    if n_expected > 1 and header is not False and form.n_rows == 1 and len(cells) == n_expected + 1:
        if not cells[-1].strip():
            return f"{fault}; if all lines but the first end with a separator, let the first one do so, too"
        of_r = "; if the first one names the row, as R writes it, write the file with col.names=NA, or without"
        return fault + of_r + title
    if n_expected > 1:
        return fault + title
    whole = dialect.separator.join(cells)
    parted = any(one in form.first[0] and one in whole for one in SEPARATORS if one != dialect.separator)
    another = hint_at_separator(dialect.separator, form.first[0], alone=True) if parted else ""
    return fault + another + title
