"""Tables whose columns have types: Parquet and Arrow (Feather) files, or a folder of them, read in blocks of rows."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa
import pyarrow.parquet as pq

from distforest.errors import InputError
from distforest.sources.files.bounds import brief, check_unfolded
from distforest.sources.files.cells import is_text
from distforest.sources.files.damage import readable
from distforest.sources.files.ipc import MAGIC, announced_bytes
from distforest.sources.files.tables import column_names

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ARROW_SUFFIXES = {".parquet": "parquet", ".pq": "parquet", ".arrow": "arrow", ".feather": "arrow", ".ipc": "arrow"}
"""The formats of files whose columns have types, by their suffixes."""

ROWS_AT_ONCE = 1 << 16
"""Rows of an Arrow file that are worked on together; a file may be a single batch."""


@dataclass(frozen=True)
class ArrowTable:
    """Files of one schema, their rows one after another."""

    path: str
    files: tuple[str, ...]
    kind: str
    schema: pa.Schema
    columns: tuple[str, ...]
    n_bytes: int
    max_bytes: int | None
    headed: ClassVar[bool] = True
    typed: ClassVar[bool] = True

    @classmethod
    def open(cls, path: str, kind: str, max_bytes: int | None = None) -> ArrowTable:
        """Open a file, or all files of the kind in a folder in the order of their names, by their schemas.

        Raises
        ------
        InputError
            A file cannot be read, has another schema than the first, or announces more than is allowed.
        """
        files = files_in(path, kind) if Path(path).is_dir() else (path,)
        schemas, n_bytes = [], 0
        for file in files:
            schema, size = _look(file, kind)
            check_unfolded(file, size, max_bytes)
            schemas.append(schema)
            n_bytes += size
            if not schema.remove_metadata().equals(schemas[0].remove_metadata()):
                expected = f"the columns of {PurePath(files[0]).name} were expected"
                raise InputError(f"{file}: {expected}, found {_difference(schemas[0], schema)}; ingest it by itself")
        if max_bytes is not None and n_bytes > max_bytes:
            expected = f"at most {max_bytes:,} bytes of values were expected"
            raise InputError(f"{path}: {expected}, found files that unfold to {n_bytes:,}; give `max_bytes={n_bytes}`")
        if not schemas[0].names:
            raise InputError(f"{path}: columns were expected, found none")
        return cls(path, files, kind, schemas[0], column_names(path, schemas[0].names), n_bytes, max_bytes)

    @property
    def types(self) -> tuple[pa.DataType, ...]:
        """The types of the columns."""
        return tuple(self.schema.types)

    @property
    def index(self) -> tuple[str, ...]:
        """Columns that were the index of a data frame, according to the metadata of pandas."""
        metadata = self.schema.pandas_metadata
        index = metadata.get("index_columns") if isinstance(metadata, dict) else None
        named = [column for column in index if isinstance(column, str)] if isinstance(index, list) else []
        return tuple(column for column in self.columns if column in named)

    def batches(self, positions: Sequence[int]) -> Iterator[list[pa.Array]]:
        """Blocks of rows: these columns."""
        for file in self.files:
            with readable(file, pa.ArrowException):
                read = _parquet_batches if self.kind == "parquet" else _arrow_batches
                yield from read(file, self.schema, positions)

    def place(self, row: int, column: int = 0) -> str:
        """Where a row is: its number, from 0, in its file if there are several."""
        for file in self.files[:-1]:
            n_rows = sum(len(batch[0]) for batch in ArrowTable.batches(self._only(file), [column]))
            if row < n_rows:
                return f"{file}: row {row}"
            row -= n_rows
        return f"{self.files[-1]}: row {row}"

    def _only(self, file: str) -> ArrowTable:
        return ArrowTable(file, (file,), self.kind, self.schema, self.columns, self.n_bytes, self.max_bytes)


def files_in(folder: str, kind: str) -> tuple[str, ...]:
    """The files of a folder, also of folders in it, in the order of their names; none may be of another kind."""
    found = sorted(str(path) for path in Path(folder).rglob("*") if path.is_file() and path.name[0] not in "._")
    for path in found:
        if ARROW_SUFFIXES.get(PurePath(path).suffix.lower()) != kind:
            raise InputError(
                f"{folder}: only {kind} files were expected, found {PurePath(path).name}; move it elsewhere"
            )
    return tuple(found)


def kind_of_folder(folder: str) -> str | None:
    """The kind of the first table in a folder, by its suffix; None if there is none."""
    suffixes = (path.suffix.lower() for path in sorted(Path(folder).rglob("*")) if path.name[0] not in "._")
    return next((ARROW_SUFFIXES[suffix] for suffix in suffixes if suffix in ARROW_SUFFIXES), None)


def _difference(first: pa.Schema, other: pa.Schema) -> str:
    for one, two in zip(first, other, strict=False):
        if not one.equals(two):
            return f"column {brief(two.name)!r} of {two.type} for {brief(one.name)!r} of {one.type}"
    return f"{len(other)} columns for {len(first)}"


def _look(file: str, kind: str) -> tuple[pa.Schema, int]:
    """The schema of a file, and the bytes to which it unfolds, as it announces."""
    with readable(file, pa.ArrowException):
        if kind == "parquet":
            with pq.ParquetFile(file) as parquet:
                return parquet.schema_arrow, _unfolded(parquet.metadata)
        with _ipc(file) as reader:
            return reader.schema, max(announced_bytes(file), 0)


def _unfolded(metadata: pq.FileMetaData) -> int:
    """Bytes to which a Parquet file unfolds: its pages or, if they take more, its rows as float64."""
    pages = sum(metadata.row_group(group).total_byte_size for group in range(metadata.num_row_groups))
    return max(int(pages), 8 * metadata.num_rows * metadata.num_columns)


def _parquet_batches(file: str, schema: pa.Schema, positions: Sequence[int]) -> Iterator[list[pa.Array]]:
    names = [schema.names[position] for position in positions]
    kinds = {name: schema.field(name).type for name in names}
    texts = [name for name, kind in kinds.items() if is_text(kind) and not pa.types.is_dictionary(kind)]
    with pq.ParquetFile(file, read_dictionary=texts) as parquet:  # a string that runs repeat is held once
        for batch in parquet.iter_batches(columns=names):
            yield [batch.column(name) for name in names]


@contextmanager
def _ipc(file: str) -> Iterator[pa.RecordBatchFileReader | pa.RecordBatchStreamReader]:
    with pa.memory_map(file) as source:
        magic = source.read(6)
        source.seek(0)
        if magic[:4] == b"FEA1":
            raise InputError(f"{file}: Arrow's file format was expected, found Feather's first version; write it anew")
        yield pa.ipc.open_file(source) if magic == MAGIC else pa.ipc.open_stream(source)


def _arrow_batches(file: str, _schema: pa.Schema, positions: Sequence[int]) -> Iterator[list[pa.Array]]:
    with _ipc(file) as reader:
        if isinstance(reader, pa.RecordBatchFileReader):
            batches = (reader.get_batch(number) for number in range(reader.num_record_batches))
        else:
            batches = iter(reader)
        for batch in batches:
            batch.validate(full=True)
            for first in range(0, len(batch), ROWS_AT_ONCE):
                rows = batch.slice(first, ROWS_AT_ONCE)
                yield [rows.column(position) for position in positions]
