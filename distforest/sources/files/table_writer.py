"""Tables that are written: csv, Parquet or Arrow, by their suffix, block by block."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import PurePath
from typing import TYPE_CHECKING, Protocol, TypeAlias

import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.parquet as pq

from distforest.errors import InputError
from distforest.sources.files.bounds import brief
from distforest.sources.files.cells import plain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import numpy as np

    Column: TypeAlias = "pa.Array | np.ndarray | Sequence[str]"
    Write = Callable[[Mapping[str, Column]], None]

    class _Writer(Protocol):
        """A writer of Arrow's."""

        def write_batch(self, batch: pa.RecordBatch) -> None: ...

        def close(self) -> None: ...


WRITTEN_SUFFIXES = {
    ".csv": "csv",
    ".tsv": "csv",
    ".csv.gz": "csv",
    ".tsv.gz": "csv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
}
"""The format of a table that is written, by the suffix of its name."""


def written_suffix(path: str) -> str:
    """The suffix of a table's name; empty if it is none of a table that is written.

    Examples
    --------
    >>> written_suffix("new/out.csv.gz"), written_suffix("out.PARQUET"), written_suffix("out.zarr")
    ('.csv.gz', '.parquet', '')
    """
    suffixes = [] if path.endswith("/") else [suffix.lower() for suffix in PurePath(path).suffixes]
    return next((own for own in ("".join(suffixes[-2:]), *suffixes[-1:]) if own in WRITTEN_SUFFIXES), "")


@contextmanager
def table_writer(path: str, separator: str = ",") -> Iterator[Write]:
    """Yield a function that writes blocks of columns, by name; the first block decides the types.

    ``separator`` is that of a csv file; in a ``.tsv`` file it is the tab.

    Raises
    ------
    InputError
        A column has a type that the format does not hold.
    """
    suffix = written_suffix(path)
    writers: list[_Writer] = []
    with pa.OSFile(path, "wb") as plain_sink:
        sink = pa.CompressedOutputStream(plain_sink, "gzip") if suffix.endswith(".gz") else plain_sink

        def write(columns: Mapping[str, Column]) -> None:
            arrays = [plain(own) if isinstance(own, pa.Array) else pa.array(own) for own in columns.values()]
            batch = pa.record_batch(arrays, names=list(columns))
            try:
                if not writers:
                    writers.append(_writer(sink, suffix, batch.schema, separator))
                writers[0].write_batch(batch)
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
                expected = f"{PurePath(path).name}: columns that a {WRITTEN_SUFFIXES[suffix]} file holds were expected"
                raise InputError(f"{expected} ({brief(str(error), 200)}); keep others") from error

        yield write
        for writer in writers:
            writer.close()
        sink.close()


def _writer(sink: pa.NativeFile, suffix: str, schema: pa.Schema, separator: str) -> _Writer:
    if WRITTEN_SUFFIXES[suffix] == "csv":
        options = arrow_csv.WriteOptions(delimiter="\t" if suffix.startswith(".tsv") else separator)
        writer: _Writer = arrow_csv.CSVWriter(sink, schema, write_options=options)
    elif WRITTEN_SUFFIXES[suffix] == "parquet":
        writer = pq.ParquetWriter(sink, schema)
    else:
        writer = pa.ipc.new_file(sink, schema)
    return writer
