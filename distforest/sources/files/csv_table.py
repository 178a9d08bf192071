"""Tables of text, read by Arrow: a character separates the cells of a row, and the first row names the columns."""

from __future__ import annotations

import lzma
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as arrow_csv

from distforest.errors import InputError
from distforest.sources.files.bounds import (
    MOST_TIMES,
    UNPACKERS,
    allowed_bytes,
    brief,
    check_unfolded,
)
from distforest.sources.files.damage import readable
from distforest.sources.files.tables import column_names

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from distforest.sources.files.text_options import TextOptions

PACKED_BY = {".gz": "gzip", ".bz2": "bz2"}
"""Arrow's names of what packs a file, by its suffix."""

BLOCK_BYTES, BYTES_OF_A_CELL = 1 << 22, 128
"""Bytes of text that Arrow parses at once, or for each column if that is more; no row may be longer."""


@dataclass(frozen=True)
class CsvTable:
    """A file of separated values, with a header row or without one; without one the columns are called "0", "1", ..."""

    path: str
    names: tuple[str, ...]
    columns: tuple[str, ...]
    headed: bool
    separator: str
    quote: str | bool
    encoding: str
    skip_rows: int
    max_bytes: int | None
    typed: ClassVar[bool] = False

    @classmethod
    def open(cls, path: str, text: TextOptions, max_bytes: int | None = None) -> CsvTable:
        """Read the names of the columns; raises InputError for a file or an option that cannot be."""
        packed = Path(path).suffix.lower() in UNPACKERS
        if not packed:
            check_unfolded(path, Path(path).stat().st_size, max_bytes)
        tabs = (Path(path).stem if packed else path).lower().endswith((".tsv", ".tab"))
        form = (text.separated_by("\t" if tabs else ","), text.quoted_by, text.codec, text.n_above)
        table = cls(path, (), (), text.header is not False, *form, max_bytes)
        with table._reader(()) as reader:
            names = tuple(reader.schema.names)
        own = [name.strip() for name in names] if table.headed else [str(place) for place in range(len(names))]
        return cls(path, names, column_names(path, own), table.headed, *form, max_bytes)

    @property
    def index(self) -> tuple[str, ...]:
        """The names of columns that name the rows: one without a name, as pandas and R write it."""
        return tuple(name for name in self.columns if not name)

    @property
    def n_bytes(self) -> int:
        """Size of the file: the numbers of a text take about as much."""
        return Path(self.path).stat().st_size

    @property
    def types(self) -> tuple[pa.DataType, ...]:
        """The types of the columns: all are text."""
        return (pa.string(),) * len(self.columns)

    def batches(self, positions: Sequence[int]) -> Iterator[list[pa.Array]]:
        """Blocks of rows: the texts of these columns."""
        most, n_read = allowed_bytes(self.n_bytes, MOST_TIMES, self.max_bytes), 0
        with self._reader([self.names[position] for position in positions]) as reader:
            for batch in reader:
                n_read += sum(len(texts) + (pc.sum(pc.binary_length(texts)).as_py() or 0) for texts in batch.columns)
                if n_read > most:
                    found = f"found a file of {self.n_bytes:,} bytes that unfolds to more"
                    expected = f"{self.path}: at most {most:,} bytes of text were expected"
                    raise InputError(f"{expected}, {found}; give `max_bytes` if so many are meant")
                yield batch.columns

    @contextmanager
    def _reader(self, names: Sequence[str]) -> Iterator[arrow_csv.CSVStreamingReader]:
        """Arrow's reader of some columns, or of all if none is named; its errors become InputError."""
        read = arrow_csv.ReadOptions(
            use_threads=False,
            block_size=max(BLOCK_BYTES, BYTES_OF_A_CELL * len(self.names)) if self.names else 4 * BLOCK_BYTES,
            skip_rows=min(self.skip_rows, 2**31 - 1),  # Arrow counts in 32 bits
            autogenerate_column_names=not self.headed,
            encoding=self.encoding,
        )
        parse = arrow_csv.ParseOptions(
            delimiter=self.separator,
            quote_char=self.quote,
            newlines_in_values=bool(self.quote),
            ignore_empty_lines=len(self.names) != 1,  # of a single column, an empty line is an empty cell
        )
        convert = arrow_csv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.string()), include_columns=[*names], strings_can_be_null=False
        )
        with readable(self.path), _opened(self.path) as file:
            try:
                with arrow_csv.open_csv(file, read, parse, convert) as reader:
                    yield reader
            except pa.ArrowException as error:
                cure = "`separator`, `quote`, `encoding` and `skip_rows` say how it is written"
                raise InputError(f"{self.path}: cannot be read ({brief(str(error), 300)}); {cure}") from error

    def place(self, row: int, _column: int = 0) -> str:
        """Where a row is: its number, from 0."""
        return f"{self.path}: row {row}"


def _opened(path: str) -> pa.NativeFile | lzma.LZMAFile:
    """Open a file, which is unpacked by its suffix; by Arrow where it can, as its threads then need no Python."""
    suffix = Path(path).suffix.lower()
    return lzma.LZMAFile(path) if suffix == ".xz" else pa.input_stream(path, PACKED_BY.get(suffix))
