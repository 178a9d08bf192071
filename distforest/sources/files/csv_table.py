"""Tables of text: a line is a row, a character separates its cells, and the first row may name the columns."""

from __future__ import annotations

import csv
import re
from dataclasses import KW_ONLY, dataclass
from itertools import islice, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Protocol

import numpy as np

from distforest.errors import InputError, warn_caller
from distforest.sources.files.bounds import RowFile, brief, quoted
from distforest.sources.files.tables import (
    MISSING_WORDS,
    batches,
    column_names,
    cure_of_words,
    is_number,
    label_position,
    number_in,
    readable,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import TextIO

    from distforest.sources.files.tables import Record
    from distforest.sources.source import Floats


class _Reader(Protocol):
    """A reader of the module csv, which has no type by a public name."""

    @property
    def line_num(self) -> int: ...

    def __iter__(self) -> Iterator[list[str]]: ...


SEPARATORS = {";": "semicolons", "\t": "tabs", "|": "bars", ",": "commas", " ": "blanks"}
"""Usual separators of cells, and their names in messages."""

MISSING_CELLS = MISSING_WORDS | {"-", "--", ".", "na", "None"}
"""Cells that mean a missing number."""

FILL_IN = "; fill it in, or leave its row out"
"""What to do about a missing cell."""


def separator_of(option: str) -> str:
    r"""The character that the option ``separator`` means; raises InputError.

    Examples
    --------
    >>> separator_of(";"), separator_of("tab")
    (';', '\t')
    """
    character = "\t" if option in {"tab", "\\t"} else option
    if isinstance(character, str) and len(character) == 1 and _separates(character):
        return character
    raise InputError(f"separator must be one character such as ';' or '|', or 'tab', found {option!r}")


def _separates(character: str) -> bool:
    """Whether a character can separate cells: numbers and quotes do not contain it."""
    return not character.isalnum() and character not in "\"'+-._#\r\n"


def _hint_at_separator(separator: str, cell: str, alone: bool) -> str:
    """Which separator to give if another one splits a cell: one that is alone in its row, or any one into numbers."""
    usual = [other for other in SEPARATORS if other != separator and other in cell.strip()]
    other = next((one for one in usual if alone or (one not in ", " and all(map(is_number, cell.split(one))))), None)
    if other is None:
        return ""
    word = "tab" if other == "\t" else other
    taken = SEPARATORS.get(separator, repr(separator))
    return f"; cells are read as separated by {taken}; if they are by {SEPARATORS[other]}, give `separator={word!r}`"


def _is_headed(path: str, label: str | None, cells: list[str], below: list[str]) -> bool:
    """Guess whether the first row of a csv file names its columns; warn if both readings are likely."""
    numbers = [cell for cell in cells if is_number(cell)]
    if not numbers or (label in cells and not is_number(str(label))):
        return True
    counts = numbers == [str(place) for place in range(len(numbers))]
    if counts and "" in cells:
        return True  # with a column of an index, which is refused next
    if counts and below and len(numbers) > 1 and (label is None or label in cells):
        text = f"the first row, {in_short(cells)}, counts the columns, as pandas names them, and is taken as a header"
        warn_caller(f"{path}: {text}; give header=False if it is data, else header=True")
        return True
    if counts or (below and _look_like_names(numbers, below)):
        text = f"the first row, {in_short(cells)}, is taken as data, though it looks like a header"
        warn_caller(f"{path}: {text}; give header=True if it is one, else header=False")
    return False


def _look_like_names(numbers: list[str], below: list[str]) -> bool:
    """Whether the numbers of a first row are whole while those below are not, or rise by one while those do not."""
    if len(numbers) < 2 or not all(map(_is_whole, numbers)):
        return False
    return not any(map(_is_whole, below)) or (len(numbers) > 2 and _rise_by_one(numbers) and not _rise_by_one(below))


def _rise_by_one(cells: list[str]) -> bool:
    return all(map(_is_whole, cells)) and all(int(b) == int(a) + 1 for a, b in pairwise(cells))


def _is_whole(cell: str) -> bool:
    return bool(re.fullmatch(r"\s*[+-]?\d{1,18}\s*", cell))


def in_short(cells: Sequence[str], most: int = 5) -> str:
    """A row as it is written, or its first cells."""
    return ",".join(map(brief, cells[:most])) + (",..." if len(cells) > most else "")


def _is_empty(cells: list[str]) -> bool:
    """Whether a line is empty or blank; a line with an empty cell in quotes is not."""
    return not cells or (len(cells) == 1 and cells[0].isspace())


@dataclass(frozen=True)
class CsvTable:
    """A file of separated values in UTF-8, with a header row or without one.

    Unless ``header`` says so, the first row is a header if none of its cells is a number, if it holds the name of the
    label, or if its numbers are 0, 1, 2 and so on, at least two of them, with rows below. Without a header the columns
    are called ``"0"``, ``"1"`` and so on.
    """

    path: str
    columns: tuple[str, ...]
    headed: bool
    label: int | None
    block_bytes: int
    _: KW_ONLY
    separator: str = ","
    typed: ClassVar[bool] = False
    dtypes: ClassVar[list[str]] = []

    @classmethod
    def open(
        cls, path: str, label: str | None, block_bytes: int, header: bool | None = None, separator: str = ","
    ) -> CsvTable:
        """Open a file by its first two rows."""
        separator = separator_of(separator)
        with readable(path), RowFile(path) as file, file.text(newline="") as stream:
            rows = [*islice(_filled(file, _reader(stream, separator)), 2)]
        if not rows:
            raise InputError(f"{path}: a csv file with rows was expected, found an empty file")
        cells = [cell.strip() for cell in rows[0]]
        cells[0] = cells[0].removeprefix("# ")  # with which numpy.savetxt begins a header
        headed = _is_headed(path, label, cells, rows[-1] if rows[1:] else []) if header is None else header
        another = _hint_at_separator(separator, cells[0], alone=True) if len(cells) == 1 else ""
        if headed and not rows[1:]:
            expected = f"rows were expected, found none below the first, {in_short(cells)}, which is taken as a header"
            raise InputError(f"{path}: {expected}{another or '; give header=False if it is data'}")
        columns = column_names(path, cells if headed else [str(position) for position in range(len(cells))])
        as_data = f"; the first row, {in_short(cells)}, is taken as data; give header=True if it names the columns"
        place = label_position(path, columns, label, another or ("" if headed else as_data))
        return cls(path, columns, headed, place, block_bytes, separator=separator)

    @property
    def n_columns(self) -> int:
        """Number of features."""
        return len(self.columns) - self.labelled

    @property
    def names(self) -> list[str] | None:
        """Names of the features; None without a header."""
        return self._features_of(self.columns) if self.headed else None

    @property
    def n_bytes(self) -> int:
        """Size of the file: its numbers take about as much."""
        return Path(self.path).stat().st_size

    @property
    def labelled(self) -> bool:
        """Whether there is a label column."""
        return self.label is not None

    def features(self) -> Iterator[Floats]:
        """Blocks of features, shape (n_rows, n_columns)."""
        for batch in self._batches():
            yield np.array([self._numbers(*record) for record in batch], np.float64)

    def labels(self) -> Iterator[np.ndarray | list[str]]:
        """Blocks of labels, as text."""
        for batch in self._batches():
            yield [self._label(*record) for record in batch]

    def _batches(self) -> Iterator[list[Record]]:
        return batches(self._records(), max(1, self.block_bytes // (8 * len(self.columns))))

    def _records(self) -> Iterator[Record]:
        """The rows after the header."""
        with readable(self.path), RowFile(self.path) as file, file.text(newline="") as stream:
            reader = _reader(stream, self.separator)
            rows = self._rows(file, reader)
            if self.headed:
                next(rows, None)
            for row, cells in enumerate(rows):
                if len(cells) != len(self.columns):
                    raise InputError(f"{self._place(row, reader.line_num)}: {self._wrong_length(cells)}")
                yield row, reader.line_num, cells

    def _rows(self, file: RowFile, reader: _Reader) -> Iterator[list[str]]:
        """Skip empty lines; within a single column, where one may stand for a missing number, it is refused."""
        begun, empty = False, 0
        for cells in reader:
            file.held = 0
            if _is_empty(cells):
                empty = empty or reader.line_num
                continue
            if begun and empty and len(self.columns) == 1:
                raise InputError(f"{self.path}: line {empty}: a number was expected, found an empty line{FILL_IN}")
            begun, empty = True, 0
            yield cells

    def _wrong_length(self, cells: list[str]) -> str:
        """The message about a row with more or fewer cells than the first one, with what may help."""
        fault = f"as many cells as the first row has, {len(self.columns)}, were expected, found {len(cells)}"
        if len(self.columns) > 1 and self.headed and len(cells) == len(self.columns) + 1:
            return f"{fault}; if the first one names the row, as R writes it, write the file without (row.names=FALSE)"
        if len(self.columns) > 1:
            return fault
        whole = self.separator.join(cells)
        parted = any(one in self.columns[0] and one in whole for one in SEPARATORS if one != self.separator)
        another = _hint_at_separator(self.separator, self.columns[0], alone=True) if parted else ""
        return fault + (another or "; if the first line is above the table, leave it out")

    def _numbers(self, row: int, line: int, cells: list[str]) -> list[float]:
        features = self._features_of(cells)
        try:
            return [*map(float, features)] if "_" not in "".join(features) else [*map(number_in, features)]
        except ValueError:
            column, cell = next(
                (column, cell)
                for column, cell in zip(self._features_of(self.columns), self._features_of(cells), strict=True)
                if not is_number(cell)
            )
            raise InputError(
                f"{self._place(row, line)}, column {quoted(column)}: a number was expected, found {quoted(cell)}"
                + self._cure(row, cell)
            ) from None

    def _cure(self, row: int, cell: str) -> str:
        """What may help if a cell is no number."""
        another = _hint_at_separator(self.separator, cell, alone=len(self.columns) == 1)
        if another:
            return another
        if cell.strip() in MISSING_CELLS:
            return FILL_IN
        if "," in cell and is_number(re.sub(r"[.,]", "", cell)):
            return "; write a decimal point, and nothing between thousands"
        header = "" if row or self.headed else "; if this row names the columns, give header=True"
        return header + cure_of_words(self.labelled)

    def _label(self, row: int, line: int, cells: list[str]) -> str:
        position = self.label or 0
        label = cells[position].strip()
        if not label:
            raise InputError(
                f"{self._place(row, line)}, column {quoted(self.columns[position])}: a label was expected, "
                f"found {quoted(cells[position])}{FILL_IN}"
            )
        return label

    def _features_of(self, cells: Sequence[str]) -> list[str]:
        return [*cells] if self.label is None else [*cells[: self.label], *cells[self.label + 1 :]]

    def _place(self, row: int, line: int) -> str:
        return f"{self.path}: row {row} (line {line})"


def _filled(file: RowFile, reader: _Reader) -> Iterator[list[str]]:
    """Skip empty lines."""
    for cells in reader:
        file.held = 0
        if not _is_empty(cells):
            yield cells


def _reader(stream: TextIO, separator: str) -> _Reader:
    return csv.reader(stream, delimiter=separator, strict=True)
