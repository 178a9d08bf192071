"""Tables in files: text that a character separates, Parquet, and Arrow, whose columns are read in blocks of rows."""

from __future__ import annotations

import lzma
from abc import ABC, abstractmethod
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Self

import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.parquet as pq

from distforest.errors import InputError
from distforest.sources.files.bounds import (
    MOST_TIMES,
    UNPACKERS,
    allowed_bytes,
    brief,
    check_unfolded,
    quoted,
    readable,
)
from distforest.sources.files.cells import CellFormat, is_numeric, is_text, plain, texts_of
from distforest.sources.files.formats import ARROW_SUFFIXES

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from distforest.sources.files.text_options import TextOptions

PACKED_BY = {".gz": "gzip", ".bz2": "bz2"}
"""Arrow's names of what packs a file, by its suffix."""

BLOCK_BYTES, BYTES_OF_A_CELL = 1 << 22, 128
"""Bytes of text that Arrow parses at once, or for each column if that is more; no row may be longer."""

ROWS_AT_ONCE = 1 << 16
"""Rows of an Arrow file that are worked on together; a file may be a single batch."""


@dataclass(frozen=True)
class Table(ABC):
    """The rows of a file with named columns; they are read any number of times, in blocks of rows.

    Attributes
    ----------
    path
        Path of the file or folder.
    columns
        The names of all columns; "0", "1" and so on without a header.
    types
        The types of all columns.
    index
        Columns that name the rows, as far as the file shows it.
    headed
        Whether the file names its columns.
    typed
        Whether the file states types; if not, all columns are text.
    max_bytes
        The most bytes that the columns may unfold to; see `allowed_bytes`.
    """

    path: str
    columns: tuple[str, ...]
    types: tuple[pa.DataType, ...]
    index: tuple[str, ...]
    headed: bool
    typed: bool
    max_bytes: int | None

    @property
    def files(self) -> tuple[str, ...]:
        """The file, or the files of a folder."""
        return (self.path,)

    @property
    def cells(self) -> CellFormat:
        """How texts are written: in a file that states types, what is missing is null, and any word is a word."""
        return CellFormat(missing=())

    @property
    def separator(self) -> str:
        """The character that separates cells in the file, or in a csv file with the same rows."""
        return ","

    def batches(self, positions: Sequence[int]) -> Iterator[list[pa.Array]]:
        """Read blocks of rows: these columns, each of them once; raises InputError if they unfold to too much."""
        n_stored = sum(Path(file).stat().st_size for file in self.files)
        most, n_read = allowed_bytes(n_stored, MOST_TIMES, self.max_bytes), 0
        for arrays in self._batches(positions):
            n_read += sum(map(_size_of, arrays))
            if n_read > most:
                found = f"found a file of {n_stored:,} bytes that unfolds to more"
                expected = f"{self.path}: at most {most:,} bytes of values were expected"
                raise InputError(f"{expected}, {found}; give `max_bytes` if so many are meant")
            yield arrays

    def blocks(self, positions: Sequence[int], rows_at_once: int) -> Iterator[tuple[int, list[pa.Array]]]:
        """Read these columns in blocks of at most so many rows, each with the number of its first row."""
        n_rows = 0
        for arrays in self.batches(positions):
            for first in range(0, len(arrays[0]), rows_at_once):
                yield n_rows + first, [array.slice(first, rows_at_once) for array in arrays]
            n_rows += len(arrays[0])

    def values(self, position: int) -> Iterator[tuple[int, pa.Array]]:
        """Read a column in blocks, each with the number of its first row."""
        n_rows = 0
        for [array] in self.batches([position]):
            yield n_rows, array
            n_rows += len(array)

    def place(self, row: int, position: int | None = None) -> str:
        """Where a row is, counted from 0, or its cell in a column, for messages."""
        column = "" if position is None else f", column {quoted(self.columns[position])}"
        return f"{self.path}: row {row}{column}"

    def position(self, role: str, name: str) -> int:
        """The position of a column; raises InputError if there is none."""
        if name in self.columns:
            return self.columns.index(name)
        listed = ", ".join(map(quoted, self.columns[:20])) + (", ..." if len(self.columns) > 20 else "")
        raise InputError(f"{self.path}: the column {quoted(name)} was expected, for `{role}`, found {listed}")

    def positions(self, role: str, names: Sequence[str]) -> list[int]:
        """Return the positions of columns; a string may name several, separated by commas. Raises InputError."""
        places = {name: place for place, name in enumerate(self.columns)}
        each = [own for name in names for own in ([name] if name in places else name.split(","))]
        return [places[name] if name in places else self.position(role, name) for name in each]

    @abstractmethod
    def _batches(self, positions: Sequence[int]) -> Iterator[list[pa.Array]]:
        """Read blocks of rows: these columns."""


def _size_of(array: pa.Array) -> int:
    """Bytes of the values: of strings, those of the text and of what separates them; of numbers, those of float64."""
    if is_text(array.type) and not pa.types.is_dictionary(array.type):
        return max(0, int(array.nbytes) - 3 * len(array) - 4)  # each has an offset of four bytes
    return 8 * len(array) if is_numeric(array.type) else int(array.nbytes)


def _distinct(path: str, names: Sequence[str]) -> tuple[str, ...]:
    """The names of all columns, none of which may be repeated; raises InputError."""
    seen = set[str]()
    for name in names:
        if name in seen:
            raise InputError(f"{path}: different column names were expected, found {quoted(name)} twice; rename one")
        seen.add(name)
    return tuple(names)


@dataclass(frozen=True)
class CsvTable(Table):
    """A file of separated values; ``names`` are those of its header before blanks around them are removed."""

    names: tuple[str, ...]
    text: TextOptions

    @classmethod
    def open(cls, path: str, text: TextOptions, max_bytes: int | None = None) -> Self:
        """Read the names of the columns; raises InputError for a file or an option that cannot be."""
        if Path(path).suffix.lower() not in UNPACKERS:
            check_unfolded(path, Path(path).stat().st_size, max_bytes)
        headed = text.header is not False
        table = cls(path, (), (), (), headed, False, max_bytes, (), text)
        with table._reader(()) as reader:
            names = tuple(reader.schema.names)
        columns = _distinct(path, [name.strip() for name in names] if headed else list(map(str, range(len(names)))))
        types = (pa.string(),) * len(columns)
        index = tuple(name for name in columns if not name)  # as pandas and R write the names of rows
        return cls(path, columns, types, index, headed, False, max_bytes, names, text)

    @property
    def cells(self) -> CellFormat:
        """How texts are written, by the options; raises InputError."""
        try:
            return self.text.cells_of(self.columns)
        except InputError as error:
            raise InputError(f"{self.path}: {error}") from None

    @property
    def separator(self) -> str:
        """The character that separates cells: by the option, or by the suffix of the file."""
        path = PurePath(self.path)
        inner = path.stem if path.suffix.lower() in UNPACKERS else path.name
        return self.text.separated_by("\t" if PurePath(inner).suffix.lower() in (".tsv", ".tab") else ",")

    def _batches(self, positions: Sequence[int]) -> Iterator[list[pa.Array]]:
        with self._reader([self.names[position] for position in positions]) as reader:
            for batch in reader:
                yield batch.columns

    @contextmanager
    def _reader(self, names: Sequence[str]) -> Iterator[arrow_csv.CSVStreamingReader]:
        """Arrow's reader of some columns, or of all if none is named; its errors become InputError."""
        packed, quote = PurePath(self.path).suffix.lower(), self.text.quoted_by
        read = arrow_csv.ReadOptions(
            use_threads=False,
            block_size=max(BLOCK_BYTES, BYTES_OF_A_CELL * len(self.names)) if self.names else 4 * BLOCK_BYTES,
            skip_rows=min(self.text.n_above, 2**31 - 1),  # Arrow counts in 32 bits
            autogenerate_column_names=not self.headed,
            encoding=self.text.codec,
        )
        parse = arrow_csv.ParseOptions(
            delimiter=self.separator,
            quote_char=quote,
            newlines_in_values=bool(quote),
            ignore_empty_lines=len(self.names) != 1,  # of a single column, an empty line is an empty cell
        )
        convert = arrow_csv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.string()), include_columns=[*names], strings_can_be_null=False
        )
        with (
            readable(self.path),  # Arrow unpacks where it can, as its threads then need no Python
            lzma.open(self.path) if packed == ".xz" else pa.input_stream(self.path, PACKED_BY.get(packed)) as file,
        ):
            try:
                with arrow_csv.open_csv(file, read, parse, convert) as reader:
                    yield reader
            except pa.ArrowException as error:
                cure = "`separator`, `quote`, `encoding` and `skip_rows` say how it is written"
                raise InputError(f"{self.path}: cannot be read ({brief(str(error), 300)}); {cure}") from error


@dataclass(frozen=True)
class ArrowTable(Table):
    """Parquet or Arrow (Feather) files with the same columns, their rows one after another."""

    paths: tuple[str, ...]
    kind: str

    @classmethod
    def open(cls, path: str, kind: str, max_bytes: int | None = None) -> Self:
        """Open a file, or all files of the kind in a folder in the order of their names, by their schemas.

        Raises
        ------
        InputError
            A file cannot be read, is of another kind, has another schema than the first, or unfolds to too much.
        """
        within = sorted(own for own in Path(path).rglob("*") if own.is_file() and own.name[0] not in "._")
        paths = tuple(map(str, within)) if Path(path).is_dir() else (path,)
        schemas: list[pa.Schema] = []
        for file in paths:
            if file != path and ARROW_SUFFIXES.get(PurePath(file).suffix.lower()) != kind:
                found = f"found {PurePath(file).name}; move it elsewhere"
                raise InputError(f"{path}: only {kind} files were expected, {found}")
            with readable(file, pa.ArrowException):
                if kind == "parquet":
                    with pq.ParquetFile(file) as parquet:
                        schemas.append(parquet.schema_arrow)
                        metadata = parquet.metadata
                        check_unfolded(file, 8 * metadata.num_rows * metadata.num_columns, max_bytes)
                else:
                    with _ipc_reader(file) as reader:
                        schemas.append(reader.schema)
            if not schemas[-1].equals(schemas[0]):
                expected = f"{file}: the columns of {PurePath(paths[0]).name} were expected"
                raise InputError(f"{expected}, found others, or other types; ingest it by itself")
        if not schemas:
            raise InputError(f"{path}: {kind} files were expected in the folder, found none")
        schema = schemas[0]
        if not schema.names:
            raise InputError(f"{path}: columns were expected, found none")
        metadata = schema.pandas_metadata
        index = metadata.get("index_columns") if isinstance(metadata, dict) else None
        named = {column for column in index if isinstance(column, str)} if isinstance(index, list) else set()
        columns = _distinct(path, schema.names)
        of_rows = tuple(column for column in columns if column in named)
        return cls(path, columns, tuple(schema.types), of_rows, True, True, max_bytes, paths, kind)

    @property
    def files(self) -> tuple[str, ...]:
        """The file, or the files of a folder."""
        return self.paths

    def _batches(self, positions: Sequence[int]) -> Iterator[list[pa.Array]]:
        names = [self.columns[position] for position in positions]
        kinds = {self.columns[position]: self.types[position] for position in positions}
        texts = [name for name, kind in kinds.items() if is_text(kind) and not pa.types.is_dictionary(kind)]
        for file in self.paths:
            with readable(file, pa.ArrowException):
                if self.kind == "parquet":
                    with pq.ParquetFile(file, read_dictionary=texts) as parquet:  # a string that repeats is held once
                        for batch in parquet.iter_batches(columns=names):
                            yield [batch.column(name) for name in names]
                    continue
                with _ipc_reader(file) as reader:
                    is_stream = isinstance(reader, pa.RecordBatchStreamReader)
                    batches = reader if is_stream else map(reader.get_batch, range(reader.num_record_batches))
                    for batch in batches:
                        batch.validate(full=True)
                        for first in range(0, len(batch), ROWS_AT_ONCE):
                            rows = batch.slice(first, ROWS_AT_ONCE)
                            yield [rows.column(position) for position in positions]


@contextmanager
def _ipc_reader(file: str) -> Iterator[pa.RecordBatchFileReader | pa.RecordBatchStreamReader]:
    """Arrow's reader of a file of batches, or of a stream of them."""
    with pa.memory_map(file) as source:
        is_file = source.read(6) == b"ARROW1"
        source.seek(0)
        yield pa.ipc.open_file(source) if is_file else pa.ipc.open_stream(source)


def open_table(source: str, kind: str, text: TextOptions, max_bytes: int | None = None) -> Table:
    """Open a file or folder as a table; raises InputError."""
    return CsvTable.open(source, text, max_bytes) if kind == "csv" else ArrowTable.open(source, kind, max_bytes)


def table_blocks(table: Table) -> Iterator[pa.RecordBatch]:
    """Read the rows of a table in blocks, all columns as the file holds them."""
    for arrays in table.batches(range(len(table.columns))):
        yield pa.record_batch([plain(array) for array in arrays], names=list(table.columns))


def texts_in(table: Table, role: str, name: str) -> list[str]:
    """The texts of a column, all of them in memory; raises InputError for a missing one, or if there is no column."""
    position = table.position(role, name)
    texts: list[str] = []
    for first, array in table.values(position):
        words = texts_of(array).to_pylist()
        if not all(words):
            row = first + next(place for place, word in enumerate(words) if not word)
            found = "a value was expected, found none; fill it in, or leave its row out"
            raise InputError(f"{table.place(row, position)}: {found}")
        texts += words
    return texts
