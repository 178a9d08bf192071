"""How a table of text is written, as its options say."""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from distforest.arguments import whole
from distforest.errors import InputError
from distforest.sources.files.bounds import quoted
from distforest.sources.files.cells import MISSING_WORDS, CellFormat
from distforest.sources.files.roles import position_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from distforest.sources.files.tables import Table

QUOTES: dict[str, str | bool] = {"none": False, '"': '"', "'": "'"}
"""What may enclose cells, by the option ``quote``."""


@dataclass(frozen=True)
class TextOptions:
    """How a table of text is written; None: as is usual. These are arguments of `ingest`, which says what they mean."""

    header: bool | None = None
    separator: str | None = None
    quote: str | None = None
    encoding: str | None = None
    decimal: str | None = None
    date_format: str | Sequence[str] | None = None
    missing: tuple[str, ...] | None = None
    skip_rows: int | None = None

    def given(self) -> dict[str, object]:
        """The options that are given, by name."""
        return {own.name: getattr(self, own.name) for own in fields(self) if getattr(self, own.name) is not None}

    def separated_by(self, usual: str) -> str:
        """The character that separates cells; raises InputError for one that cannot."""
        character = "\t" if self.separator in {"tab", "\\t"} else usual if self.separator is None else self.separator
        if re.fullmatch(r"[^A-Za-z0-9\"'+\-._#\r\n\x80-\U0010ffff]", character):
            return character
        raise InputError(f"separator must be one character such as ';' or '|', or 'tab', found {self.separator!r}")

    @property
    def quoted_by(self) -> str | bool:
        """The character that may enclose cells, False for none; raises InputError."""
        if self.quote is not None and self.quote not in QUOTES:
            raise InputError(f"quote must be one of {', '.join(map(repr, QUOTES))}, found {self.quote!r}")
        return QUOTES['"' if self.quote is None else self.quote]

    @property
    def codec(self) -> str:
        """The encoding, by its name in Python; raises InputError."""
        try:
            return "utf8" if self.encoding is None else codecs.lookup(self.encoding).name
        except LookupError:
            known = "encoding must be one that Python knows, such as 'cp1252'"
            raise InputError(f"{known}, found {self.encoding!r}") from None

    @property
    def n_above(self) -> int:
        """The number of lines above the table; raises InputError."""
        return 0 if self.skip_rows is None else whole("skip_rows", self.skip_rows, 0)

    def cells_of(self, table: Table) -> CellFormat:
        """How a table's numbers, dates and missing values are written; raises InputError, also for a lacking column."""
        decimal = self.decimal or "."
        if len(decimal) > 1 or decimal.isalnum() or decimal in "+-":
            raise InputError(f"decimal must be one character such as ',' or '.', found {decimal!r}")
        forms: dict[str, str] = {}
        for text in (self.date_format,) if isinstance(self.date_format, str) else self.date_format or ():
            column = text.partition("%")[0].rpartition("=")[0]
            form = text[len(column) + 1 :]
            if not column:
                raise InputError(f"date_format must be like 'COLUMN=%d/%m/%Y', found {text!r}; name the column")
            if column in forms:
                found = f"{forms[column]!r} and {form!r}"
                raise InputError(f"date_format: one form was expected for column {quoted(column)}, found {found}")
            _check_date_format(form)
            position_of(table, "date", column)
            forms[column] = form
        if table.typed:  # what is missing is null there, and a word is a word
            return CellFormat(missing=())
        return CellFormat(decimal, MISSING_WORDS if self.missing is None else self.missing, forms)


def _check_date_format(form: str) -> None:
    """Refuse a form that no date has; raises InputError."""
    day = datetime(2001, 2, 3, tzinfo=UTC)
    lacks_year = "%d" in form and not any(year in form for year in ("%Y", "%y", "%G"))
    whole = f"%Y {form}" if lacks_year else form  # Python 3.13 warns of a day without a year, as there are leap years
    try:
        reads = "%" in form and datetime.strptime(day.strftime(whole), whole) is not None
        why = ""
    except ValueError as error:
        reads, why = False, f" ({error})"
    if not reads:
        raise InputError(f"date_format must be like '%d/%m/%Y', found {form!r}{why}")
