"""The formats of files and folders, by their suffixes."""

from __future__ import annotations

from pathlib import Path, PurePath

from distforest.errors import InputError
from distforest.sources.files.bounds import UNPACKERS
from distforest.stores.outputs import OF_ZARR

TEXT_SUFFIXES = {
    ".csv": "csv",
    ".tsv": "csv",
    ".tab": "csv",
    ".libsvm": "libsvm",
    ".svm": "libsvm",
    ".svmlight": "libsvm",
}
"""The formats of files of text, by their suffixes; these may be packed."""

ARROW_SUFFIXES = {".parquet": "parquet", ".pq": "parquet", ".arrow": "arrow", ".feather": "arrow", ".ipc": "arrow"}
"""The formats of files whose columns have types, by their suffixes."""

FORMATS = {".npy": "npy", ".npz": "npz", **TEXT_SUFFIXES, **ARROW_SUFFIXES}
"""The format of a file by its suffix."""

TABLES = ("csv", "parquet", "arrow")
"""Formats of tables whose columns have names."""


def is_file_of_rows(address: str) -> bool:
    """Whether an address is that of a table or a libsvm file, by its suffix or, of a folder, by the files in it.

    Examples
    --------
    >>> [is_file_of_rows(address) for address in ("new.csv.gz", "new.npy", "new.zarr/X", "s3://b/new.csv")]
    [True, False, False, False]
    """
    if "://" in address:
        return False
    path = Path(address)
    if path.is_dir():
        return not any((path / name).exists() for name in OF_ZARR) and kind_of_folder(address) is not None
    return kind_by_suffix(path) in (*TABLES, "libsvm")


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
        cure = "give `format`, or write the file as csv, Parquet or .npz"
        raise InputError(f"{source}: format must be one of {', '.join(known)}, found {found}; {cure}")
    return kind


def kind_of_folder(folder: str) -> str | None:
    """The kind of the first table in a folder, by its suffix; None if there is none."""
    suffixes = (path.suffix.lower() for path in sorted(Path(folder).rglob("*")) if path.name[0] not in "._")
    return next((ARROW_SUFFIXES[suffix] for suffix in suffixes if suffix in ARROW_SUFFIXES), None)
