"""Files and folders that are tables: which format they have, the options of each format, and how they are opened."""

from __future__ import annotations

from dataclasses import dataclass, fields
from datetime import UTC, datetime
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

from distforest.errors import InputError
from distforest.sources.files.arrow_table import ARROW_SUFFIXES, ArrowTable, kind_of_folder
from distforest.sources.files.bounds import UNPACKERS, quoted
from distforest.sources.files.cells import MISSING_WORDS, CellFormat
from distforest.sources.files.csv_dialect import Dialect
from distforest.sources.files.csv_table import CsvTable
from distforest.sources.files.roles import position_of
from distforest.stores.outputs import OF_ZARR

if TYPE_CHECKING:
    from collections.abc import Sequence

    from distforest.sources.files.tables import Table

TEXT_SUFFIXES = {
    ".csv": "csv",
    ".tsv": "csv",
    ".tab": "csv",
    ".libsvm": "libsvm",
    ".svm": "libsvm",
    ".svmlight": "libsvm",
}
"""The formats of files of text, by their suffixes; these may be packed."""

FORMATS = {".npy": "npy", ".npz": "npz", **TEXT_SUFFIXES, **ARROW_SUFFIXES}
"""The format of a file by its suffix."""

TABLES = ("csv", "parquet", "arrow")
"""Formats of tables whose columns have names."""

OTHER_PACKED = (".zst", ".zip", ".7z", ".tar")
"""Suffixes of packed files that nobody unpacks here."""


OTHER_FORMATS = {
    **dict.fromkeys((".txt", ".dat", ".data", ".asc"), "if it is a table of text, give `format='csv'`"),
    **dict.fromkeys((".xlsx", ".xls", ".xlsm", ".xlsb", ".ods"), "save it as csv"),
    **dict.fromkeys((".mat", ".h5", ".hdf5", ".nc", ".pt", ".pkl", ".pickle"), "write its arrays as .npz or Zarr"),
    **dict.fromkeys((".json", ".jsonl", ".rds", ".rdata", ".dta", ".sas7bdat", ".db"), "write it as csv or Parquet"),
    **dict.fromkeys(OTHER_PACKED, "unpack it"),
}
"""What to do with other files, by their suffixes."""


@dataclass(frozen=True)
class TextOptions:
    """How a table of text is written; None: as is usual. These are arguments of `ingest`, which says what they mean."""

    header: bool | None = None
    separator: str | None = None
    quote: str | None = None
    encoding: str | None = None
    decimal: str | None = None
    thousands: str | None = None
    date_format: str | Sequence[str] | None = None
    missing: tuple[str, ...] | None = None
    skip_rows: int | None = None

    def given(self) -> dict[str, object]:
        """The options that are given, by name."""
        return {own.name: getattr(self, own.name) for own in fields(self) if getattr(self, own.name) is not None}

    def cells_of(self, table: Table) -> CellFormat:
        """How a table's numbers, dates and missing values are written; raises InputError, also for a lacking column."""
        cells = self.cells()
        for name in cells.own_formats:
            position_of(table, "date", name)
        return cells

    def cells(self) -> CellFormat:
        """How numbers, dates and missing values are written; raises InputError."""
        decimal, thousands = self.decimal or ".", self.thousands or ""
        for option, mark in (("decimal", decimal), ("thousands", thousands)):
            if len(mark) > 1 or mark.isalnum() or mark in tuple("+-"):
                raise InputError(f"{option} must be one character such as ',' or '.', found {mark!r}")
        if decimal == thousands:
            raise InputError(f"thousands must be another character than `decimal`, found {thousands!r} for both")
        given = self.date_format or ()
        forms = _date_formats([given] if isinstance(given, str) else given)
        missing = MISSING_WORDS if self.missing is None else self.missing
        return CellFormat(decimal, thousands, forms.pop("", ""), missing, forms)


def _date_formats(given: Sequence[str]) -> dict[str, str]:
    """The form of dates by column, that of all others under the empty name; raises InputError for two of one.

    Examples
    --------
    >>> _date_formats(["%d/%m/%Y", "last seen=%m/%d/%Y"])
    {'': '%d/%m/%Y', 'last seen': '%m/%d/%Y'}
    """
    forms: dict[str, str] = {}
    for text in given:
        column = text.partition("%")[0].rpartition("=")[0]
        form = text[len(column) + 1 :] if column else text
        _check_date_format(form)
        if column in forms:
            which = f"column {quoted(column)}" if column else "all columns"
            raise InputError(f"date_format: one form was expected for {which}, found {forms[column]!r} and {form!r}")
        forms[column] = form
    return forms


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


def is_file_of_data(address: str) -> bool:
    """Whether an address is that of a local file that becomes arrays, by its suffix, or of a folder of tables.

    Examples
    --------
    >>> [is_file_of_data(address) for address in ("new.csv.gz", "new.npy", "job.toml", "s3://b/new.csv")]
    [True, True, False, False]
    """
    if "://" in address:
        return False
    path = Path(address)
    return (kind_of_folder(address) if path.is_dir() else kind_by_suffix(path)) is not None


def kind_by_suffix(path: Path) -> str | None:
    """The format of a file by its suffix, in front of that of a packed file; None for any other."""
    suffix = path.suffix.lower()
    inner = PurePath(path.stem).suffix.lower() if suffix in UNPACKERS else ""
    return TEXT_SUFFIXES.get(inner) if suffix in UNPACKERS else FORMATS.get(suffix)


def format_of(source: str, option: str | None) -> str:
    """The format of a local file or folder, by the option ``format`` or its suffix; raises InputError."""
    if "://" in source:
        raise InputError(f"a local file was expected, found the URL {source!r}; fetch it first")
    path = Path(source)
    if path.is_dir() and (kind := option or kind_of_folder(source)) in ARROW_SUFFIXES.values():
        return str(kind)
    if not path.is_file():
        if any((path / name).exists() for name in OF_ZARR):
            raise InputError(
                f"{source}: a file was expected, found Zarr, which jobs read as it is; name its arrays in them"
            )
        what = "a folder without a Parquet or Arrow file" if path.is_dir() else "a pipe or a device"
        raise InputError(f"{source}: a file was expected, found {what if path.exists() else 'none'}")
    known = sorted(set(FORMATS.values()))
    kind = kind_by_suffix(path) if option is None else option
    if kind not in known:
        found = f"the suffix {path.suffix!r}" if option is None else repr(option)
        cure = OTHER_FORMATS.get(path.suffix.lower(), "give `format`") if option is None else "give another `format`"
        raise InputError(f"{source}: format must be one of {', '.join(known)}, found {found}; {cure}")
    return kind


def open_table(
    source: str, kind: str, text: TextOptions, label: str | None = None, max_bytes: int | None = None
) -> Table:
    """Open a file or folder as a table; raises InputError."""
    if kind != "csv":
        return ArrowTable.open(source, kind, max_bytes)
    dialect = Dialect.of(source, text.separator, text.quote, text.encoding, text.skip_rows)
    return CsvTable.open(source, dialect, label, text.header, max_bytes)
