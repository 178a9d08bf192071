"""The dialect of a file of separated values: what separates its cells, and whether its first row names the columns."""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from distforest.arguments import whole
from distforest.errors import InputError, warn_caller
from distforest.sources.files.bounds import brief, text_bytes
from distforest.sources.files.tables import is_number

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

SEPARATORS = {";": "semicolons", "\t": "tabs", "|": "bars", ",": "commas", " ": "blanks"}
"""Usual separators of cells, and their names in messages."""

QUOTES = {"none": None, '"': '"', "'": "'"}
"""What may enclose cells, by the option ``quote``."""

VALUE = r"[$€£+-]*[.,]?\d[\d\s.,:/%€TZeE+-]*|[+-]?(?:nan|NaN|inf)"
"""What the values of a table look like, rather than names: numbers, dates, times, amounts; not x1, but 5.1 and 1,5."""

MARKS = {codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
"""Encodings by the mark with which a file of text may begin."""


OTHER_FILES = {
    b"PK\x03\x04": "a zip archive, as of a spreadsheet .xlsx; save its table as csv, or unpack it",
    b"\xd0\xcf\x11\xe0": "a spreadsheet .xls; save it as csv",
    b"\x1f\x8b": "what gzip has packed; call it .csv.gz",
    b"PAR1": "Parquet; give `format='parquet'`",
}
"""What is no text, by its first bytes, and what to do."""

OF_EXCEL = re.compile(r"sep=(.)[\r\n]")
"""A first line by which Excel is told the separator."""


@dataclass(frozen=True)
class Dialect:
    """What separates and encloses cells, how characters are encoded, and how many lines stand above the table."""

    separator: str = ","
    quote: str | None = '"'
    encoding: str = "utf-8-sig"
    skip_rows: int = 0

    @classmethod
    def of(
        cls, path: str, separator: str | None, quote: str | None, encoding: str | None, skip_rows: int | None = None
    ) -> Dialect:
        """The dialect of a file, by options, its suffix and its mark; raises InputError for an unknown option."""
        stem = re.sub(r"\.(gz|bz2|xz)$", "", path.lower())
        usual = "\t" if stem.endswith((".tsv", ".tab")) else ","
        if quote is not None and quote not in QUOTES:
            raise InputError(f"quote must be one of {', '.join(map(repr, QUOTES))}, found {quote!r}")
        given = usual if separator is None else separator_of(separator)
        above = 0 if skip_rows is None else whole("skip_rows", skip_rows, 0)
        with text_bytes(path) as file:
            start = file.read(16)
        spelled = _encoding_of(path, start, encoding)
        if not above:
            _check_first_line(path, start.decode(spelled, "ignore"))
        return cls(given, QUOTES['"' if quote is None else quote], spelled, above)


def _encoding_of(path: str, start: bytes, option: str | None) -> str:
    """The encoding by the mark at the ``start`` of a file, or else as asked, or UTF-8."""
    if found := next((found for mark, found in OTHER_FILES.items() if start.startswith(mark)), None):
        raise InputError(f"{path}: a csv file was expected, found {found}")
    marked = next((encoding for mark, encoding in MARKS.items() if start.startswith(mark)), None)
    try:
        asked = codecs.lookup(option).name if option is not None else "utf-8"
    except LookupError:
        raise InputError(f"encoding must be one that Python knows, such as 'cp1252', found {option!r}") from None
    if marked is None:
        return "utf-8-sig" if asked == "utf-8" else asked
    if option is not None and not asked.startswith(marked[:5]):
        raise InputError(f"{path}: text in {option} was expected, found the mark of {marked}; leave `encoding` out")
    return marked


def _check_first_line(path: str, start: str) -> None:
    """Refuse a first line that tells Excel the separator, and is no row; raises InputError."""
    if found := OF_EXCEL.match(start):
        word = "tab" if found[1] == "\t" else found[1]
        line = f"found {start[:5]!r}, which tells Excel what separates cells"
        raise InputError(f"{path}: line 1: a row was expected, {line}; give `separator={word!r}` and `skip_rows=1`")


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
    return character.isascii() and not character.isalnum() and character not in "\"'+-._#\r\n"


def hint_at_separator(separator: str, cell: str, alone: bool) -> str:
    """Which separator to give if another one splits a cell: one that is alone in its row, or any one into numbers."""
    usual = [other for other in SEPARATORS if other != separator and other in cell.strip()]
    other = next((one for one in usual if alone or (one != "," and all(map(is_number, cell.split(one))))), None)
    if other is None:
        return ""
    word = "tab" if other == "\t" else other
    taken = SEPARATORS.get(separator, repr(separator))
    return f"; cells are read as separated by {taken}; if they are by {SEPARATORS[other]}, give `separator={word!r}`"


def told_of_separator(separator: str, texts: Collection[str]) -> str:
    """A warning of texts, alone in their rows, in each of which the same other separator stands equally often; else "".

    Commas and blanks are not looked at, as sentences have them.

    Examples
    --------
    >>> told_of_separator(",", ["shop;size", "x;1"])
    "each value has 1 of the semicolons that may separate columns; if they do, give `separator=';'`"
    >>> told_of_separator(",", ["red; blue", "green"])
    ''
    """
    counts = {one: {text.count(one) for text in texts} for one in (";", "\t", "|") if one != separator}
    found = next(
        ((one, min(own)) for one, own in counts.items() if len(own) == 1 and len(texts) > 1 and min(own)), None
    )
    if found is None:
        return ""
    one, n_found = found
    word = "tab" if one == "\t" else one
    says = f"each value has {n_found:,} of the {SEPARATORS[one]} that may separate columns"
    return f"{says}; if they do, give `separator={word!r}`"


def is_headed(path: str, label: str | None, cells: list[str], below: list[str]) -> bool:
    """Guess whether the first row of a csv file names its columns; warn if both readings are likely."""
    numbers = [cell for cell in cells if is_number(cell)]
    if not any(re.fullmatch(VALUE, cell) for cell in cells) or (label in cells and not is_number(str(label))):
        return True
    if len(cells) > 1 and not cells[0] and below and below[0].strip():
        return True  # with a first column without a name, which is told
    counts = bool(numbers) and numbers == [str(place) for place in range(len(numbers))]
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
    if not numbers or not all(map(_is_whole, numbers)):
        return False
    if len(numbers) == 1:
        return len(below) == 1 and not _is_whole(below[0])
    return not any(map(_is_whole, below)) or (len(numbers) > 2 and _rise_by_one(numbers) and not _rise_by_one(below))


def _rise_by_one(cells: list[str]) -> bool:
    return all(map(_is_whole, cells)) and all(int(b) == int(a) + 1 for a, b in pairwise(cells))


def _is_whole(cell: str) -> bool:
    return bool(re.fullmatch(r"\s*[+-]?\d{1,18}\s*", cell))


def in_short(cells: Sequence[str], most: int = 5) -> str:
    """A row as it is written, or its first cells."""
    return ",".join(map(brief, cells[:most])) + (",..." if len(cells) > most else "")
