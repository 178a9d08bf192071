"""Files and folders that are tables: which format they have, and how they are opened."""

from __future__ import annotations

from pathlib import Path, PurePath
from typing import TYPE_CHECKING

from distforest.errors import InputError
from distforest.sources.files.arrow_table import ARROW_SUFFIXES, ArrowTable, kind_of_folder
from distforest.sources.files.bounds import UNPACKERS
from distforest.sources.files.csv_table import CsvTable
from distforest.stores.outputs import OF_ZARR

if TYPE_CHECKING:
    from distforest.sources.files.tables import Table
    from distforest.sources.files.text_options import TextOptions

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


def open_table(source: str, kind: str, text: TextOptions, max_bytes: int | None = None) -> Table:
    """Open a file or folder as a table; raises InputError."""
    return CsvTable.open(source, text, max_bytes) if kind == "csv" else ArrowTable.open(source, kind, max_bytes)
