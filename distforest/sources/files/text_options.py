"""Options that say how a table of text is written."""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from distforest.arguments import whole
from distforest.errors import InputError
from distforest.sources.files.bounds import quoted
from distforest.sources.files.cells import MISSING_WORDS, CellFormat

if TYPE_CHECKING:
    from collections.abc import Sequence

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

    def cells_of(self, columns: Sequence[str]) -> CellFormat:
        """How the numbers, dates and missing values of these columns are written; raises InputError."""
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
            if column not in columns:
                found = f"found {', '.join(map(quoted, columns[:20]))}"
                raise InputError(f"the column {quoted(column)} was expected, for `date_format`, {found}")
            forms[column] = form
        return CellFormat(decimal, MISSING_WORDS if self.missing is None else self.missing, forms)
