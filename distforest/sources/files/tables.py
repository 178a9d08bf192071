"""Tables in files, read in blocks of rows: their common protocol, Parquet and libsvm; csv is in `csv_table`."""

from __future__ import annotations

import csv
import difflib
import re
import struct
import zipfile
import zlib
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, ClassVar, Protocol, TypeVar

import numpy as np

from distforest.amounts import counted
from distforest.arguments import whole
from distforest.errors import InputError, warn_caller
from distforest.sources.files.bounds import RowFile, brief, out_of_memory, quoted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from types import ModuleType

    from pyarrow import Array, DataType, Schema
    from pyarrow.parquet import FileMetaData, ParquetFile

    from distforest.sources.source import Floats

    Record = tuple[int, int, list[str]]
    """Row, counted from 0; line of the file, counted from 1; the row's cells."""

T = TypeVar("T")
MISSING_WORDS = frozenset({"", "?", "NA", "N/A", "n/a", "#N/A", "<NA>", "NULL", "null", "NaT"})
"""Words that are often written for a missing value."""

LIBSVM_COLUMNS = 1 << 20
"""The highest libsvm index: rows are stored densely, and a typo must not ask for gigabytes."""

DIGITS = 18
"""Digits of the longest libsvm index, with leading zeros: as many fit int64."""

LIKELY = 1000
"""The most columns that are compared with a label that is missing, to suggest a near name: comparing takes time."""

FILE_ERRORS = (
    *(OSError, ValueError, EOFError, RuntimeError, OverflowError, csv.Error),
    *(struct.error, zipfile.BadZipFile, zlib.error),
)
"""Errors that reading a damaged file raises."""


class Table(Protocol):
    """The rows of a file; features and labels are read separately and any number of times, in blocks of rows."""

    typed: ClassVar[bool]
    """Whether the file states types; if not, labels that look like numbers are numbers."""

    @property
    def n_columns(self) -> int:
        """Number of features."""
        ...

    @property
    def names(self) -> list[str] | None:
        """Names of the features; None if the file has none."""
        ...

    @property
    def dtypes(self) -> list[str]:
        """Dtypes of the features, as the file calls them; empty if it does not state them."""
        ...

    @property
    def labelled(self) -> bool:
        """Whether the rows have labels."""
        ...

    @property
    def n_bytes(self) -> int:
        """Bytes to which the rows unfold, as the file announces."""
        ...

    def features(self) -> Iterator[Floats]:
        """Blocks of features, shape (n_rows, n_columns)."""
        ...

    def labels(self) -> Iterator[np.ndarray | list[str]]:
        """Blocks of labels: numbers of shape (n_rows,), or strings."""
        ...


@contextmanager
def readable(path: str) -> Iterator[None]:
    """Turn the errors of reading a damaged or missing file into an `InputError` that names it."""
    try:
        yield
    except InputError:
        raise
    except UnicodeDecodeError as error:
        found = f"the byte {error.object[error.start]:#04x}"
        raise InputError(f"{path}: text in UTF-8 was expected, found {found}; save it in UTF-8") from error
    except MemoryError as error:
        raise out_of_memory(path, error) from error
    except FILE_ERRORS as error:
        raise InputError(f"{path}: cannot be read ({brief(str(error), 300)})") from error


def number_in(cell: str) -> float:
    """The number in a cell; raises ValueError for any other cell, also for Python's ``1_000``."""
    if "_" in cell:
        raise ValueError(cell)
    return float(cell)


def is_number(cell: str) -> bool:
    """Whether the cell is a number."""
    try:
        number_in(cell)
    except ValueError:
        return False
    return True


def batches(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Group the items into lists of ``size``; the last may be shorter."""
    iterator = iter(items)
    while batch := list(islice(iterator, size)):
        yield batch


def column_names(path: str, names: Sequence[str]) -> tuple[str, ...]:
    """Check the names of all columns: none may be empty, repeated, or that of a data frame's index."""
    seen = set()
    for position, name in enumerate(names):
        if not name or re.fullmatch(r"__index_level_.*|Unnamed: \d+", name):
            is_last = not name and 0 < position == len(names) - 1
            cure = "if it is a data frame's index, write the file without it (`index` of to_csv), otherwise name it"
            cure = "name it, or end lines without a separator" if is_last else cure
            raise InputError(f"{path}: a name was expected in column {position}, found {quoted(name)}; {cure}")
        if name in seen:
            raise InputError(f"{path}: different column names were expected, found {quoted(name)} twice; rename one")
        seen.add(name)
    return tuple(names)


def label_position(path: str, names: Sequence[str], label: str | None, cure: str = "") -> int | None:
    """Position of the label column; None without ``label``. A message about a missing column ends with ``cure``."""
    if label is None:
        return None
    if label not in names:
        likely = [name for name in names[:LIKELY] if len(name) <= 3 * len(label)]
        near = difflib.get_close_matches(label, likely, n=1)
        listed = ", ".join(map(quoted, names[:20])) + (", ..." if len(names) > 20 else "")
        hint = cure or (f"; did you mean {quoted(near[0])}?" if near else "")
        raise InputError(f"{path}: label column {label!r} was expected, found {listed}{hint}")
    if len(names) == 1:
        raise InputError(f"{path}: features beside the label {label!r} were expected, found no other column")
    return names.index(label)


def cure_of_words(labelled: bool) -> str:
    """What may help if a column does not hold numbers."""
    label = "" if labelled else "; if these are the labels, name their column with `label`"
    return f"{label}; {'' if labelled else 'else '}write the column as numbers or leave it out"


@dataclass(frozen=True)
class LibsvmTable:
    """A libsvm (svmlight) file: ``label index:value ... # comment``; indices rise from ``first``, the rest is 0."""

    path: str
    n_rows: int
    n_columns: int
    first: int
    block_bytes: int
    typed: ClassVar[bool] = False
    names: ClassVar[list[str] | None] = None
    dtypes: ClassVar[list[str]] = []
    labelled: ClassVar[bool] = True

    @classmethod
    def open(
        cls, path: str, block_bytes: int, n_features: int | None = None, zero_based: bool | None = None
    ) -> LibsvmTable:
        """Read the file once, to count rows and features and to find the first index."""
        extent = _Extent.of(path)
        if extent.highest < 0 and n_features is None:
            raise InputError(f"{path}: rows of 'label index:value ...' were expected, found none")
        first = _first_index(path, extent.with_zero, zero_based)
        n_found = max(1, extent.highest + 1 - first)
        n_columns = n_found if n_features is None else whole("n_features", n_features, 1)
        if n_columns < n_found:
            expected = (
                f"indices from {first} to {n_columns - 1 + first} were expected, as of {counted(n_columns, 'feature')}"
            )
            raise InputError(f"{extent.place}: {expected}, found {extent.highest}")
        if n_columns > LIBSVM_COLUMNS:
            expected = f"at most {LIBSVM_COLUMNS} features were expected (rows are stored densely)"
            raise InputError(f"{path}: {expected}, found {n_columns}")
        return cls(path, extent.n_rows, n_columns, first, block_bytes)

    @property
    def n_bytes(self) -> int:
        """Bytes to which the rows unfold: they are stored densely, as float32."""
        return 4 * self.n_rows * self.n_columns

    def features(self) -> Iterator[Floats]:
        """Blocks of features, shape (n_rows, n_columns)."""
        for batch in self._batches():
            values = np.zeros((len(batch), self.n_columns))
            for target, (row, line, cells) in zip(values, batch, strict=True):
                positions, numbers = self._pairs(row, line, cells)
                target[positions] = numbers
            yield values

    def labels(self) -> Iterator[np.ndarray | list[str]]:
        """Blocks of labels, as text."""
        for batch in self._batches():
            for row, line, cells in batch:
                if not is_number(cells[0]):
                    expected = "a number as label was expected"
                    raise InputError(f"{self._place(row, line)}: {expected}, found {quoted(cells[0])}")
            yield [cells[0] for _, _, cells in batch]

    def _batches(self) -> Iterator[list[Record]]:
        return batches(_libsvm_records(self.path), max(1, self.block_bytes // (8 * self.n_columns)))

    def _pairs(self, row: int, line: int, cells: list[str]) -> tuple[list[int], list[float]]:
        """Columns and values of a row."""
        positions: list[int] = []
        numbers: list[float] = []
        last = self.first - 1
        for cell in cells[1:]:
            index, _, value = cell.partition(":")
            if not (index.isdecimal() and len(index) <= DIGITS and is_number(value)):
                raise InputError(f"{self._place(row, line)}: index:value was expected, found {quoted(cell)}")
            if int(index) <= last:
                expected = f"rising indices from {self.first} were expected"
                raise InputError(
                    f"{self._place(row, line)}: {expected}, found {quoted(cell)}"
                    + (f" after index {last}" if positions else "; give zero_based=True if indices count from 0")
                )
            last = int(index)
            positions.append(last - self.first)
            numbers.append(number_in(value))
        return positions, numbers

    def _place(self, row: int, line: int) -> str:
        return f"{self.path}: row {row} (line {line})"


@dataclass
class _Extent:
    """Extent of a libsvm file: its rows, its highest index (-1 without any), and the ``place`` of that index."""

    place: str
    n_rows: int = 0
    highest: int = -1
    with_zero: bool = False

    @classmethod
    def of(cls, path: str) -> _Extent:
        """Read the rows once; raises InputError for an index that is too high."""
        extent = cls(path)
        for row, line, cells in _libsvm_records(path):
            extent.n_rows = row + 1
            extent.with_zero |= bool(re.match("0+:", (*cells, "")[1]))
            index = cells[-1].partition(":")[0] if len(cells) > 1 else ""  # the highest of its row, as they rise
            if index.isdecimal():
                extent.see(index, f"{path}: row {row} (line {line})")
        return extent

    def see(self, index: str, place: str) -> None:
        """Take the last index of a row into account."""
        if len(index) > DIGITS or int(index) > LIBSVM_COLUMNS:
            expected = f"indices up to {LIBSVM_COLUMNS} were expected (rows are stored densely)"
            raise InputError(f"{place}: {expected}, found {brief(index, 20)}")
        if int(index) > self.highest:
            self.highest, self.place = int(index), place


def _first_index(path: str, with_zero: bool, zero_based: bool | None) -> int:
    """The first index: 1, unless ``zero_based`` says otherwise, or one index is 0, which gives a warning."""
    if zero_based is None and with_zero:
        text = "an index is 0, so indices are counted from 0"
        warn_caller(f"{path}: {text}; give zero_based=True to this file and to all that go with it")
    return int(not (with_zero if zero_based is None else zero_based))


def _libsvm_records(path: str) -> Iterator[Record]:
    """The rows, split at white space, without comments and empty lines."""
    with readable(path), RowFile(path) as file, file.text() as stream:
        row = 0
        for line, text in enumerate(stream, 1):
            file.held = 0
            if cells := text.partition("#")[0].split():
                yield row, line, cells
                row += 1


@dataclass(frozen=True)
class ParquetTable:
    """A Parquet file of columns of numbers; the label column may be of strings. Null is NaN."""

    path: str
    columns: tuple[str, ...]
    label: str | None
    block_bytes: int
    dtypes: list[str]
    n_bytes: int
    typed: ClassVar[bool] = True

    @classmethod
    def open(cls, path: str, label: str | None, block_bytes: int) -> ParquetTable:
        """Open a file by its schema."""
        with _parquet(path) as file:
            schema, n_bytes = file.schema_arrow, _unfolded(file.metadata)
            index = _index_of(schema)
        columns = column_names(path, schema.names)
        if not columns:
            raise InputError(f"{path}: columns were expected, found none")
        label_position(path, columns, label)
        features = [column for column in columns if column != label]
        for column in features:
            kind = schema.field(column).type
            if not _is_numeric(kind):
                cure = cure_of_words(label is not None)
                found = f"column {quoted(column)}: numbers were expected, found {brief(str(kind))}"
                raise InputError(f"{path}: {found}{cure}")
        _warn_of_index(path, [column for column in features if column in index])
        kind = schema.field(label).type if label is not None else None
        if kind is not None and not (_is_numeric(kind) or _is_text(kind)):
            expected = f"label column {label!r}: numbers or strings were expected"
            raise InputError(f"{path}: {expected}, found {brief(str(kind))}")
        dtypes = [str(schema.field(column).type) for column in features]
        return cls(path, columns, label, block_bytes, dtypes, n_bytes)

    @property
    def n_columns(self) -> int:
        """Number of features."""
        return len(self.names)

    @property
    def names(self) -> list[str]:
        """Names of the features."""
        return [column for column in self.columns if column != self.label]

    @property
    def labelled(self) -> bool:
        """Whether there is a label column."""
        return self.label is not None

    def features(self) -> Iterator[Floats]:
        """Blocks of features, shape (n_rows, n_columns)."""
        names = self.names
        for batch in self._batches(names):
            yield np.stack([_floats_of(batch[name]) for name in names], axis=1)

    def labels(self) -> Iterator[np.ndarray | list[str]]:
        """Blocks of labels: int64 or float64 of shape (n_rows,), or strings."""
        first, label = 0, str(self.label)
        with readable(self.path):  # an integer may be too large for int64
            for batch in self._batches([label]):
                column = batch[label]
                if column.null_count:
                    row = first + int(np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))[0])
                    raise InputError(f"{self.path}: row {row}, column {label!r}: a label was expected, found null")
                yield _labels_of(column)
                first += len(column)

    def _batches(self, columns: list[str]) -> Iterator[Mapping[str, Array]]:
        rows = max(1, self.block_bytes // (8 * len(self.columns)))
        with _parquet(self.path, [self.label] if self.label is not None else None) as file:
            yield from file.iter_batches(batch_size=rows, columns=columns)


@contextmanager
def _parquet(path: str, read_dictionary: list[str] | None = None) -> Iterator[ParquetFile]:
    """Open a Parquet file for a block; all errors of Arrow in it become `InputError`."""
    pyarrow = _pyarrow()
    with readable(path):
        try:
            with pyarrow.parquet.ParquetFile(path, read_dictionary=read_dictionary) as file:
                yield file
        except (MemoryError, *FILE_ERRORS):
            raise
        except pyarrow.ArrowException as error:
            raise ValueError(str(error)) from error


def _unfolded(metadata: FileMetaData) -> int:
    """Bytes to which a Parquet file unfolds: its pages or, if they take more, its rows as float64."""
    pages = sum(metadata.row_group(group).total_byte_size for group in range(metadata.num_row_groups))
    return max(int(pages), 8 * metadata.num_rows * metadata.num_columns)


def _index_of(schema: Schema) -> list[str]:
    """Columns that were the index of a data frame, according to the metadata of pandas."""
    metadata = schema.pandas_metadata
    index = metadata.get("index_columns") if isinstance(metadata, dict) else None
    return [column for column in index if isinstance(column, str)] if isinstance(index, list) else []


def _warn_of_index(path: str, index: list[str]) -> None:
    """Warn of features that were the index of a pandas data frame."""
    if index:
        text = f"{', '.join(map(quoted, index))} was the index of the data frame, and is read as a feature"
        warn_caller(f"{path}: {text}; leave it out if it only names the rows")


def _floats_of(column: Array) -> Floats:
    """Turn a pyarrow array of numbers into float64, null into NaN."""
    values: Floats = column.cast("float64", safe=False).to_numpy(zero_copy_only=False)
    return values


def _labels_of(column: Array) -> np.ndarray | list[str]:
    """Turn a pyarrow array without nulls into int64, float64 or strings."""
    types = _pyarrow().types
    if types.is_dictionary(column.type):  # a string that runs repeat is held once
        words = [str(word) for word in column.dictionary.to_pylist()]
        return [words[code] for code in column.indices.to_pylist()]
    if _is_text(column.type):
        return [str(label) for label in column.to_pylist()]
    if not (types.is_integer(column.type) or types.is_boolean(column.type)):
        return _floats_of(column)
    labels: np.ndarray = column.cast("int64").to_numpy(zero_copy_only=False)
    return labels


def _is_numeric(kind: DataType) -> bool:
    types = _pyarrow().types
    return any(test(kind) for test in (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal))


def _is_text(kind: DataType) -> bool:
    types = _pyarrow().types
    kind = kind.value_type if types.is_dictionary(kind) else kind
    return bool(types.is_string(kind) or types.is_large_string(kind))


def _pyarrow() -> ModuleType:
    """Import pyarrow, an optional dependency, with the modules that are used here."""
    try:
        import pyarrow.parquet  # noqa: PLC0415
        import pyarrow.types  # noqa: PLC0415
    except ImportError as error:
        raise InputError("a Parquet file needs pyarrow: pip install 'distforest[parquet]'") from error
    return pyarrow
