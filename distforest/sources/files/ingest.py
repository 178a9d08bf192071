"""Files into Zarr: an .npy, .npz, csv, Parquet or libsvm file becomes one group of arrays, as a whole or not at all."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, TypeGuard

import numpy as np

from distforest.amounts import are, counted
from distforest.arguments import whole
from distforest.errors import InputError, warn_caller
from distforest.sources.arrays import CHUNK_BYTES, write_array
from distforest.sources.doubts import Sample, told_of_rounding
from distforest.sources.files.bounds import brief, check_unfolded, out_of_memory, quoted
from distforest.sources.files.csv_table import CsvTable
from distforest.sources.files.npz import StoredArray, check_archive, is_of_sparse_matrix, stored_arrays, stored_sparse
from distforest.sources.files.tables import MISSING_WORDS, LibsvmTable, ParquetTable, is_number
from distforest.sources.schema import Schema
from distforest.sources.sparse_store import csr_arrays
from distforest.stores.groups import check_target, destination, seal_group

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from zarr.core.common import JSON

    from distforest.sources.files.tables import Table
    from distforest.sources.source import Float32s

    ArrayBlocks = Callable[[], Iterable[np.ndarray]]
    Strings = str | list["Strings"]

FORMATS = {
    ".npy": "npy",
    ".npz": "npz",
    ".csv": "csv",
    ".tsv": "csv",
    ".parquet": "parquet",
    ".libsvm": "libsvm",
    ".svm": "libsvm",
    ".svmlight": "libsvm",
}
"""The format of a file by its suffix."""

INGEST_OPTIONS = {
    "name": ("the one array of an .npy file", ("npy",)),
    "label": ("a column of a csv or Parquet file", ("csv", "parquet")),
    "header": ("the first row of a csv file", ("csv",)),
    "separator": ("the cells of a csv file", ("csv",)),
    "n_features": ("the rows of a libsvm file", ("libsvm",)),
    "zero_based": ("the indices of a libsvm file", ("libsvm",)),
}
"""The purpose of each option, and the formats that have it."""

PACKED = (".gz", ".bz2", ".xz", ".zst", ".zip")
"""Suffixes of compressed files."""

MISSING_LABELS = MISSING_WORDS | {"NaN", "nan"}
"""Labels that may mean a missing label."""

FEWEST_TO_COUNT = 10
"""The fewest rows that a column seems to number on purpose; fewer may rise by one by chance."""

MAX_CLASSES = 1 << 16
"""The most classes; more different strings in a label column are no classes."""

MAX_TEXT = 1 << 20
"""The most characters of strings in attributes, which are read at every opening."""


@dataclass(frozen=True)
class Ingested:
    """A written array: its name, shape, dtype, the sha256 of its values in row order, and its attributes."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    sha256: str
    attributes: Mapping[str, JSON] = field(default_factory=dict, compare=False)


@dataclass(frozen=True)
class _Array:
    """A checked array, to be written block by block; ``warning`` says what may be misread in it, if anything."""

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[np.generic]
    blocks: ArrayBlocks
    attributes: Mapping[str, JSON] = field(default_factory=dict)
    warning: str = ""


@dataclass(frozen=True)
class _Options:
    """Options of `ingest` that some formats have; None: not given."""

    name: str | None
    label: str | None
    header: bool | None
    separator: str | None
    n_features: int | None
    zero_based: bool | None

    def check(self, source: str, kind: str) -> None:
        """Refuse an option that a file's format does not have; raises InputError."""
        for option, value in vars(self).items():
            thing, kinds = INGEST_OPTIONS[option]
            if value is not None and kind not in kinds:
                raise InputError(f"`{option}` is for {thing}, found {value!r} for the {kind} file {source}")


def ingest(
    source: str,
    target: str,
    *,
    name: str | None = None,
    label: str | None = None,
    header: bool | None = None,
    separator: str | None = None,
    n_features: int | None = None,
    zero_based: bool | None = None,
    format: str | None = None,  # noqa: A002 - the usual word
    max_bytes: int | None = None,
    overwrite: bool = False,
    chunk_bytes: int = CHUNK_BYTES,
) -> dict[str, Ingested]:
    r"""Turn a file into a Zarr group with one array for each of its arrays.

    Features become ``X``, float32. Labels become ``y``: integers stay integers, numbers become float64,
    strings become their positions in the attribute ``classes`` of ``y``. The other arrays of an .npz file keep
    their names and dtypes and may hold NaN; a vector of strings, one for each row, becomes labels as those of ``y``
    do. Its other strings become attributes, ``feature_names`` of ``X``, ``classes`` of ``y``, the others of the group.
    Nothing is ever unpickled.

    The names of the columns of a csv or Parquet file become the attribute ``feature_names`` of ``X`` too, and
    their dtypes, if the file states them, ``feature_dtypes``: a forest that learns from ``X`` keeps both.

    An .npz file of `scipy.sparse.save_npz` becomes ``data``, ``indices`` and ``indptr``. The group's attribute
    ``sparse`` says that they are a sparse matrix, and the group's address stands for it.

    The file is read in blocks of rows, more than once: all faults are found before anything is written. Of an .npz
    file only arrays in Fortran order, strings and sparse matrices are read as a whole. The sizes that a file announces
    are compared with its content, and with ``max_bytes``, before a value is read.

    The keyword arguments are the options of the command ``distforest ingest``, which is why there are so many.

    Parameters
    ----------
    source
        Path of the file.
    target
        Path or fsspec URL of the Zarr group. A path appears when everything is written, and not at all after
        an error; until then the group is in the folder ``<target>.job``, which stays only if the process is killed.
        At a URL, where nothing can be renamed, a new group is written in place, and its attribute ``distforest`` says
        until the end that it is unfinished.
    name
        Name of the array of an .npy file; without it, the name of the file. ``"X"`` means features, ``"y"``
        labels.
    label
        Column of a csv or Parquet file that holds the labels; all other columns are features. The columns of
        a csv file without a header row are called ``"0"``, ``"1"`` and so on.
    header
        Whether the first row of a csv file names its columns. None: it does if none of its cells is a number, if one
        is the label's name, or if its numbers are 0, 1, 2 and so on, at least two, as pandas writes them for a frame
        without names; the last gives a warning.
    separator
        The character that separates the cells of a csv file, ``"tab"`` for the tab; None: a comma, in a file ``.tsv``
        the tab.
    n_features
        Number of features of a libsvm file; None: as its highest index says. A file of queries may lack the last
        features of the training file.
    zero_based
        Whether the indices of a libsvm file count from 0. None: they do if one of them is 0, which gives a warning.
    format
        ``"npy"``, ``"npz"``, ``"csv"``, ``"parquet"`` or ``"libsvm"``; None: by the file's suffix.
    max_bytes
        The most bytes that the file may unfold to: the arrays of an .npy or .npz file, the rows of a Parquet file as
        float64 and those of a libsvm file as float32, which are stored densely; a csv file is as large as its text.
        None: 1 GiB, or 200 times the file's size if that is more.
    overwrite
        Whether to replace a Zarr group at ``target``; nothing else is ever replaced.
    chunk_bytes
        Size of a chunk of the arrays in bytes, and about that of a block that is read.

    Returns
    -------
    dict of str to Ingested
        The arrays that were written, by name; equal where name, shape, dtype and values are.

    Raises
    ------
    InputError
        The file cannot be read, or does not hold the requested columns (messages count rows and columns from 0, lines
        from 1); it announces more than it holds or may unfold to; it has a row of text of more than 32 MiB, or more
        than 1000 members; a feature, as float32, or a label is NaN or infinite; or the target exists.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "plants.csv").write_text("height,width,kind\n1,2,fern\n3,4,moss\n5,6,fern\n")
    ...     arrays = ingest(f"{folder}/plants.csv", f"{folder}/plants.zarr", label="kind")
    >>> arrays["X"].shape, arrays["X"].dtype, arrays["y"].shape, arrays["y"].dtype
    ((3, 2), 'float32', (3,), 'int64')
    """
    if chunk_bytes < 1:
        raise InputError(f"chunk_bytes must be at least 1, found {chunk_bytes!r}")
    most = None if max_bytes is None else whole("max_bytes", max_bytes, 1)
    kind = _format_of(source, format)
    options = _Options(name, label, header, separator, n_features, zero_based)
    options.check(source, kind)
    check_target(target, overwrite)
    try:
        arrays, attributes = _read(source, kind, options, chunk_bytes, most)
    except MemoryError as error:
        raise out_of_memory(source, error) from error
    for array in arrays:
        if array.warning:
            warn_caller(f"{source}: {array.warning}")
    with destination(target, overwrite, f"the ingest of {source}") as group:
        records = {array.name: _write(group, array, chunk_bytes) for array in arrays}
        seal_group(group, {**attributes, "distforest": {"type": "arrays", "version": 1, "arrays": list(records)}})
    return records


def _format_of(source: str, option: str | None) -> str:
    """The format of a local file, by the option ``format`` or its suffix; raises InputError."""
    if "://" in source:
        raise InputError(f"a local file was expected, found the URL {source!r}; fetch it first")
    if not Path(source).is_file():
        other = "a pipe or a device" if Path(source).exists() else "none"
        raise InputError(f"{source}: a file was expected, found {'a folder' if Path(source).is_dir() else other}")
    known = sorted(set(FORMATS.values()))
    kind = FORMATS.get(PurePath(source).suffix.lower()) if option is None else option
    if kind not in known:
        suffix = PurePath(source).suffix
        found = f"the suffix {suffix!r}" if option is None else repr(option)
        cure = "unpack it" if suffix.lower() in PACKED else "give `format`"
        raise InputError(f"{source}: format must be one of {', '.join(known)}, found {found}; {cure}")
    return kind


def _write(group: str, array: _Array, chunk_bytes: int) -> Ingested:
    digest = write_array(
        group, array.name, array.shape, array.dtype, array.blocks(), array.attributes, chunk_bytes=chunk_bytes
    )
    return Ingested(array.name, array.shape, array.dtype.name, digest, array.attributes)


def _read(
    source: str, kind: str, options: _Options, block_bytes: int, max_bytes: int | None
) -> tuple[list[_Array], dict[str, object]]:
    """The arrays to write, and the group's attributes."""
    if kind == "npy":
        array = StoredArray.open(source, PurePath(source).stem if options.name is None else options.name)
        check_unfolded(source, array.n_bytes, max_bytes)
        return _read_arrays(source, [array], block_bytes)
    if kind == "npz":
        check_archive(source, max_bytes)
        if is_of_sparse_matrix(source):
            return _read_sparse(source, max_bytes)
        return _read_arrays(source, stored_arrays(source), block_bytes)
    table = _table(source, kind, options, block_bytes)
    check_unfolded(source, table.n_bytes, max_bytes)
    return _read_table(source, table), {}


def _table(source: str, kind: str, options: _Options, block_bytes: int) -> Table:
    """Open a table."""
    if kind == "parquet":
        return ParquetTable.open(source, options.label, block_bytes)
    if kind == "libsvm":
        return LibsvmTable.open(source, block_bytes, options.n_features, options.zero_based)
    usual = "\t" if source.lower().endswith(".tsv") else ","
    separator = usual if options.separator is None else options.separator
    return CsvTable.open(source, options.label, block_bytes, options.header, separator)


def _read_table(source: str, table: Table) -> list[_Array]:
    """``X``, and ``y`` if there are labels."""
    names = Schema.of_names(table.names, table.dtypes) if table.names else None
    arrays = [_features(source, table.n_columns, table.features, names)]
    if table.labelled:
        arrays.append(_labels(source, table))
    _check_alike(source, arrays)
    return arrays


def _check_alike(source: str, arrays: list[_Array]) -> None:
    """Raise InputError if features and labels differ in their number of rows."""
    n_rows = {array.name: array.shape[0] for array in arrays if array.name in ("X", "y")}
    if len(set(n_rows.values())) > 1:
        raise InputError(
            f"{source}: a label for each row was expected, "
            f"found {counted(n_rows['X'], 'row')}, {counted(n_rows['y'], 'label')}"
        )


def _features(source: str, n_columns: int, blocks: ArrayBlocks, names: Schema | None) -> _Array:
    """``X``, after all values are found finite as float32."""
    n_rows, n_bad, place, numbering, sample = 0, 0, "", _Numbering(), Sample()
    for block in blocks():
        bad = np.argwhere(~np.isfinite(_as_float32(block)))
        if len(bad) and not n_bad:
            row, column = map(int, bad[0])
            place = f"{float(block[row, column])!r} in row {n_rows + row}, {_column(column, names)}"
        sample.see(block, n_rows)
        n_bad += len(bad)
        n_rows += len(block)
        numbering.follow(block[:, 0])
    if n_bad:
        raise InputError(
            f"{source}: finite float32 numbers were expected as features, found {n_bad:,} that {are(n_bad)} not, "
            f"the first {place}; fill them in or leave their rows out"
        )
    if n_rows == 0:
        raise InputError(f"{source}: rows were expected, found none")
    if rounding := told_of_rounding(sample, names):
        warn_caller(f"{source}: {rounding}")
    doubt = numbering.doubt()
    warning = f"{_column(0, names)} {doubt}" if n_columns > 1 and doubt else ""
    attributes = names.attributes() if names else {}
    return _Array(
        "X", (n_rows, n_columns), np.dtype(np.float32), lambda: map(_as_float32, blocks()), attributes, warning
    )


def _column(column: int, names: Schema | None) -> str:
    return f"column {column}" + (f" ({brief(names.names[column])})" if names else "")


@dataclass
class _Numbering:
    """Whether a column, read block by block, numbers the rows from 0 or 1 like the index of a data frame."""

    first: float = math.nan
    n_rows: int = 0
    goes_on: bool = True

    def follow(self, values: np.ndarray) -> None:
        """Take the values of the next rows into account."""
        if self.n_rows == 0 and len(values):
            self.first = float(values[0])
            self.goes_on = self.first in {0.0, 1.0}
        if self.goes_on:
            self.goes_on = bool((values == self.first + np.arange(self.n_rows, self.n_rows + len(values))).all())
        self.n_rows += len(values)

    def doubt(self) -> str:
        """The warning about such a column; empty if it is none, or may be one by chance."""
        if not self.goes_on or self.n_rows < FEWEST_TO_COUNT:
            return ""
        return f"numbers the rows from {self.first:.0f}, and is read as a feature; leave it out if it is an index"


def _as_float32(block: np.ndarray) -> Float32s:
    with np.errstate(over="ignore"):  # a value that is too large becomes infinite, and is found as such
        return block.astype(np.float32)


def _labels(source: str, table: Table) -> _Array:
    """``y``: integers if all labels are integers, else numbers if all are numbers, else classes."""
    n_rows, kind = 0, "i"
    strings: set[str] = set()
    for block in table.labels():
        n_rows += len(block)
        kind = max(kind, _label_kind(block, table.typed), key="ifU".index)
        if isinstance(block, list) and len(strings) <= MAX_CLASSES:
            strings.update(block)
    if kind == "U" and len(strings) > MAX_CLASSES:
        raise InputError(f"{source}: labels of at most {MAX_CLASSES} classes were expected, found more strings")
    classes = sorted(strings) if kind == "U" else []
    codes = {label: code for code, label in enumerate(classes)}
    convert: Callable[[str], float] = {"i": int, "f": float}.get(kind, codes.__getitem__)
    dtype = np.dtype(np.float64 if kind == "f" else np.int64)

    def blocks() -> Iterator[np.ndarray]:
        return (np.array([convert(label) for label in block], dtype) for block in table.labels())

    if kind == "f":
        _check_labels(source, blocks())
    warning = _doubt_of_classes(classes, table.typed)
    return _Array("y", (n_rows,), dtype, blocks, {"classes": classes} if classes else {}, warning)


def _doubt_of_classes(classes: Sequence[str], typed: bool) -> str:
    """A warning about strings that may be no classes: missing labels, or targets; empty if there is no doubt."""
    missing = [label for label in classes if label in MISSING_LABELS]
    if missing:
        found = ", ".join(map(repr, missing))
        return f"{found} among the labels is read as a class; if it says that a label is missing, leave its rows out"
    targets = [label for label in classes if is_number(label) and not re.fullmatch(r"[+-]?\d+", label)]
    if typed or not targets or len(targets) == len(classes):
        return ""
    word = next(label for label in classes if not is_number(label))
    return f"the labels are read as classes, {quoted(targets[0])} among them, as {quoted(word)} is no number"


def _label_kind(block: np.ndarray | list[str], typed: bool) -> str:
    """The kind of the labels of a block: ``"i"`` integers, ``"f"`` numbers, ``"U"`` strings."""
    if not isinstance(block, list):
        return "i" if block.dtype.kind == "i" else "f"
    if typed or not all(map(is_number, block)):
        return "U"
    are_whole = all(re.fullmatch(r"[+-]?\d{1,18}", label) for label in block)  # 18 digits fit int64
    return "i" if are_whole else "f"


def _check_labels(source: str, blocks: Iterable[np.ndarray]) -> None:
    """Raise InputError if a label is not finite."""
    n_rows = 0
    for block in blocks:
        bad = np.argwhere(~np.isfinite(block))
        if len(bad):
            value, row = block[tuple(bad[0])], n_rows + int(bad[0][0])
            raise InputError(f"{source}: finite labels were expected, found {float(value)!r} in row {row}")
        n_rows += len(block)


def _read_sparse(source: str, max_bytes: int | None) -> tuple[list[_Array], dict[str, object]]:
    """The three arrays of a sparse matrix, and the attribute by which they are recognised."""
    matrix = stored_sparse(source, max_bytes)
    try:
        arrays, attributes = csr_arrays(matrix)
    except InputError as error:
        raise InputError(f"{source}: {error}") from error
    return [_held(name, part) for name, part in arrays.items()], attributes


def _held(name: str, values: np.ndarray) -> _Array:
    """An array in memory."""
    return _Array(name, values.shape, values.dtype, lambda: [values])


# Arrays of numpy


def _read_arrays(source: str, arrays: list[StoredArray], block_bytes: int) -> tuple[list[_Array], dict[str, object]]:
    """The arrays to write, and the group's attributes: strings that are not the labels of rows."""
    labels = _labels_beside(arrays)
    texts: dict[str, Strings] = {a.name: _strings(a) for a in arrays if a.is_text and a.name not in {"X", "y", *labels}}
    found = []
    for array in arrays:
        if array.name == "X":
            found.append(_stored_features(array, texts.pop("feature_names", None), block_bytes))
        elif array.name == "y":
            found.append(_stored_labels(array, texts.pop("classes", None) if _is_code(array) else None, block_bytes))
        elif array.name in labels:
            found.append(_coded_labels(array, None))
        elif not array.is_text:
            dtype = array.dtype.newbyteorder("=")
            found.append(_Array(array.name, array.shape, dtype, partial(array.blocks, block_bytes)))
    if not found:
        cure = "; if these are labels, give `name='y'`" if source.endswith(".npy") else ""
        raise InputError(f"{source}: an array of numbers was expected, found none{cure}")
    _check_alike(source, found)
    return found, {**texts}


def _is_code(array: StoredArray) -> bool:
    """Whether labels may be positions in ``classes``."""
    return array.is_text or array.dtype.kind in "iu"


def _labels_beside(arrays: list[StoredArray]) -> set[str]:
    """Names of the vectors of strings, one for each row, except ``y``, its ``classes`` and ``feature_names``."""
    n_rows = {array.shape[0] for array in arrays if not array.is_text or (array.name == "y" and array.shape)}
    known = {"y"}
    known |= {"feature_names" for array in arrays if array.name == "X"}
    known |= {"classes" for array in arrays if array.name == "y" and _is_code(array)}
    return {a.name for a in arrays if a.is_text and len(a.shape) == 1 and a.shape[0] in n_rows} - known


def _strings(array: StoredArray) -> Strings:
    """The content of an array of strings as JSON: nested lists, or one string."""
    _check_text(array, array.dtype.itemsize // 4 * math.prod(array.shape))
    strings: Strings = array.whole().tolist()
    return strings


def _check_text(array: StoredArray, size: int) -> None:
    """Raise InputError if an attribute would have too many characters."""
    if size > MAX_TEXT:
        raise InputError(
            f"{array.path}: array {array.name!r}: at most {MAX_TEXT} characters were expected, "
            f"as strings become attributes, found {size}; leave it out or code it as numbers"
        )


def _are_names(strings: Strings | None) -> TypeGuard[list[str]]:
    """Whether strings come from an array of one dimension."""
    return isinstance(strings, list) and all(isinstance(string, str) for string in strings)


def _stored_features(array: StoredArray, names: Strings | None, block_bytes: int) -> _Array:
    if array.is_text or len(array.shape) != 2:
        raise InputError(
            f"{array.path}: X of numbers and of shape (n_rows, n_columns) was expected, "
            f"found dtype {array.dtype} and shape {array.shape}"
        )
    if names is not None and not (_are_names(names) and len(names) == array.shape[1]):
        raise InputError(f"{array.path}: {array.shape[1]} feature_names were expected, found {brief(str(names))}")
    named = Schema.of_names(names, (str(array.dtype),) * len(names)) if names else None
    return _features(array.path, array.shape[1], partial(array.blocks, block_bytes), named)


def _stored_labels(array: StoredArray, classes: Strings | None, block_bytes: int) -> _Array:
    """``y``: strings become positions in ``classes``, integers must be such positions; numbers become float64."""
    if len(array.shape) != 1 and (array.is_text or len(array.shape) != 2):
        raise InputError(f"{array.path}: y with a label for each row was expected, found shape {array.shape}")
    if classes is not None and not (_are_names(classes) and len(set(classes)) == len(classes)):
        raise InputError(f"{array.path}: classes of different names were expected, found {brief(str(classes))}")
    if array.is_text:
        return _coded_labels(array, classes)
    native = array.dtype.newbyteorder("=")
    dtype = np.dtype({"f": np.float64, "b": np.uint8}.get(native.kind, native))

    def blocks() -> Iterator[np.ndarray]:
        return (block.astype(dtype) for block in array.blocks(block_bytes))

    if native.kind == "f":
        _check_labels(array.path, blocks())
    if classes is None:
        return _Array("y", array.shape, dtype, blocks)
    low, high = min(int(block.min()) for block in blocks()), max(int(block.max()) for block in blocks())
    if low < 0 or high >= len(classes):
        raise InputError(
            f"{array.path}: labels from 0 to {len(classes) - 1} were expected, "
            f"as there {are(len(classes))} {counted(len(classes), 'class', 'classes')}, "
            f"found labels from {low} to {high}"
        )
    return _Array("y", array.shape, dtype, blocks, {"classes": classes})


def _coded_labels(array: StoredArray, classes: list[str] | None) -> _Array:
    """Labels of strings, coded by their positions in ``classes``, or else in the sorted strings."""
    labels = array.whole().tolist()
    names = sorted(set(labels)) if classes is None else classes
    _check_text(array, sum(map(len, names)))
    codes = {name: code for code, name in enumerate(names)}
    unknown = sorted(set(labels) - codes.keys())
    if unknown:
        wanted = f"labels among the classes {brief(str(names))} were expected"
        raise InputError(f"{array.path}: {wanted}, found {quoted(unknown[0])}")
    values = np.array([codes[label] for label in labels], np.int64)
    warning = "" if classes else _doubt_of_classes(names, typed=True)
    return _Array(array.name, array.shape, values.dtype, lambda: [values], {"classes": names}, warning)
