"""Files that are scored as they are: their columns by the names that a forest knows, their rows in blocks."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from distforest.amounts import counted
from distforest.errors import InputError
from distforest.sources.files.bounds import check_unfolded, quoted
from distforest.sources.files.cells import categories_in
from distforest.sources.files.formats import TABLES, format_of
from distforest.sources.files.libsvm import LibsvmTable
from distforest.sources.files.pair_tables import pairs_of_rows_in, row_of, wanted_rows
from distforest.sources.files.planned import PlannedArray, as_float32
from distforest.sources.files.table_arrays import feature_blocks, ids_array, objects_array
from distforest.sources.files.tables import open_table
from distforest.sources.files.text_options import TextOptions
from distforest.sources.schema import COLUMNS_TOLD, ColumnKind, Schema

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    from distforest.sources.files.cells import CellFormat
    from distforest.sources.files.tables import Table
    from distforest.sources.source import Float32s

QUERY_BYTES = 1 << 23
"""Bytes of a block of rows as float64, about."""

ROWS_KEPT = 1 << 16
"""Rows of kept columns that are read together."""


class ReadColumns(NamedTuple):
    """What a forest reads: its columns, None if they have no names, and their number."""

    schema: Schema | None
    n_features: int


@dataclass(frozen=True)
class QueryOptions:
    """How a file of queries is read, and what of it answers keep; None: as is usual.

    Attributes
    ----------
    id
        Name of the column that names the rows.
    keep
        Names of columns that stand beside the answers.
    object
        Name of the column of objects, for a forest that asks a function.
    drop
        Names of columns that are no features, for a forest that knows no names.
    text, zero_based, format, max_bytes
        As for `distforest.sources.files.ingest.ingest`.
    """

    id: str | None = None
    keep: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    text: TextOptions = field(default_factory=TextOptions)
    zero_based: bool | None = None
    format: str | None = None
    max_bytes: int | None = None
    object: str | None = None


class Queries(Protocol):
    """The rows of a file, as a forest reads them."""

    def features(self) -> Iterator[Float32s]:
        """Blocks of features, shape (n, n_features)."""
        ...

    def ids(self) -> PlannedArray | None:
        """The names of the rows; None if nobody has said what they are."""
        ...

    def kept(self) -> Iterator[dict[str, pa.Array]]:
        """Blocks of the columns that stand beside the answers."""
        ...

    def told_of_unseen(self) -> str:
        """A warning of categories that the forest has not seen, after all blocks were read; empty without any."""
        ...


def open_queries(source: str, wanted: ReadColumns, options: QueryOptions) -> Queries:
    """Open a file of queries, and find the columns that a forest reads.

    Raises
    ------
    InputError
        The file cannot be read, lacks a feature, or its features have no names by which they could be found.
    """
    kind = format_of(source, options.format)
    if kind == "libsvm":
        return _LibsvmQueries.open(source, wanted, options)
    if kind not in TABLES:
        raise InputError(f"{source}: a table or a libsvm file was expected, found the {kind} file; ingest it first")
    table = open_table(source, kind, options.text, options.max_bytes)
    id_at, kept = _beside(table, options)
    others = {*kept, *table.positions("drop", options.drop), *table.positions("index", table.index), id_at}
    if wanted.schema is not None:
        positions, schema = wanted.schema.positions(table.columns, table.path), _with_booleans(wanted.schema)
    else:
        positions = tuple(place for place in range(len(table.columns)) if place not in others)
        names = [table.columns[place] for place in positions]
        if len(names) != wanted.n_features:
            shown = ", ".join(map(quoted, names[:COLUMNS_TOLD])) + (", ..." if names[COLUMNS_TOLD:] else "")
            cure = "name the other columns with `drop`, `keep` or `id`"
            expected = f"{counted(wanted.n_features, 'feature')} were expected, by the order of the columns"
            raise InputError(f"{table.path}: {expected}, found {len(names):,} ({shown}); {cure}")
        schema = Schema.of_names(names)
    return TableQueries(table, positions, schema, table.cells, id_at, kept)


def open_objects(source: str, options: QueryOptions) -> TableQueries:
    """Open a table of objects, for a forest that asks a function; raises InputError without the column of objects."""
    kind = format_of(source, options.format)
    if kind not in TABLES or options.object is None:
        expected = "an array of objects, or a table and the name of its column of them as `object`, was expected"
        raise InputError(f"{source}: {expected}, for a function, found a file")
    table = open_table(source, kind, options.text, options.max_bytes)
    position = table.position("object", options.object)
    return TableQueries(table, (position,), Schema(()), table.cells, *_beside(table, options))


def _beside(table: Table, options: QueryOptions) -> tuple[int | None, tuple[int, ...]]:
    """The positions of the column that names the rows, and of others that stand beside the answers."""
    id_at = None if options.id is None else table.position("id", options.id)
    kept = dict.fromkeys(table.positions("keep", options.keep))
    return id_at, tuple(place for place in kept if place != id_at)


def _with_booleans(schema: Schema) -> Schema:
    """The same columns; those that were booleans of a data frame, 0 and 1, are written as true and false in a file."""
    columns = (replace(own, kind=ColumnKind.BOOLEAN) if own.is_boolean else own for own in schema.columns)
    return Schema(tuple(columns))


def pairs_in_table(source: str, numbers: Mapping[str, int] | None, n_rows: int, queries: str) -> NDArray[np.int64]:
    """Read the pairs in the first two columns of a table, by names of rows or else by numbers, shape (n_pairs, 2).

    Parameters
    ----------
    source
        Path of the table; its first row names the columns.
    numbers
        The number of each row by its name; None: the table has numbers of rows, from 0.
    n_rows, queries
        The number of rows, and where they are, for messages.

    Raises
    ------
    InputError
        There is one column, or an entry is no row.
    """
    table = open_table(source, format_of(source, None), TextOptions())
    wanted = wanted_rows(numbers, n_rows)
    columns = [name for name in table.columns if name not in table.index]
    if len(columns) < 2:
        raise InputError(f"{source}: two columns with {wanted} were expected, found {len(columns):,}")
    if not table.typed and all(row_of(name, numbers, n_rows) is not None for name in columns[:2]):
        found = ", ".join(columns[:2])
        raise InputError(f"{source}: a first row that names the two columns was expected, found the pair {found}")
    cure = f", of {queries}; pairs are of rows that are scored" + ("" if numbers else "; if they have names, give `id`")
    return pairs_of_rows_in(table, [table.columns.index(name) for name in columns[:2]], numbers, n_rows, cure)


@dataclass(frozen=True)
class TableQueries:
    """The rows of a table, by the names of its columns."""

    table: Table
    positions: tuple[int, ...]
    schema: Schema
    cells: CellFormat
    id_at: int | None
    kept_at: tuple[int, ...]
    unseen: Counter[int] = field(default_factory=Counter)

    def features(self) -> Iterator[Float32s]:
        """Blocks of features, shape (n, n_features).

        Raises
        ------
        InputError
            A value is of another kind than its column, or infinite.
        """
        first, n_rows = 0, max(1, QUERY_BYTES // (8 * len(self.positions)))
        for block, unseen in feature_blocks(self.table, self.positions, self.schema, self.cells, n_rows):
            self.unseen.update(unseen)
            narrow = as_float32(block)
            bad = np.isinf(narrow)
            if bad.any():
                row, column = map(int, np.argwhere(bad)[0])
                where = self.table.place(first + row, self.positions[column])
                found = f"found {float(block[row, column])!r}; correct it"
                raise InputError(f"{where}: a finite float32 number was expected, {found}")
            yield narrow
            first += len(narrow)

    def with_unseen(self) -> TableQueries:
        """The same rows by a schema that also lists categories that the forest has not seen; reads the table once."""
        places = [place for place, own in enumerate(self.schema.columns) if own.kind == ColumnKind.CATEGORY]
        found: dict[str, set[str]] = {self.schema.names[place]: set() for place in places}
        for _, arrays in self.table.blocks([self.positions[place] for place in places], ROWS_KEPT) if places else ():
            for name, array in zip(found, arrays, strict=True):
                found[name] |= categories_in(array, self.cells)
        return replace(self, schema=self.schema.with_categories(found))

    def objects(self) -> PlannedArray:
        """The objects, of a table that `open_objects` has opened."""
        [position] = self.positions
        return objects_array(self.table, position)

    def ids(self) -> PlannedArray | None:
        """The names of the rows; None if nobody has said what they are."""
        return None if self.id_at is None else ids_array(self.table, self.id_at)

    def kept(self) -> Iterator[dict[str, pa.Array]]:
        """Blocks of the columns that stand beside the answers, as the file holds them."""
        if not self.kept_at:
            return
        names = [self.table.columns[place] for place in self.kept_at]
        for _, arrays in self.table.blocks(self.kept_at, ROWS_KEPT):
            yield dict(zip(names, arrays, strict=True))

    def told_of_unseen(self) -> str:
        """A warning of categories that the forest has not seen, after all blocks were read; empty without any."""
        if not self.unseen:
            return ""
        place, n_rows = next(iter(sorted(self.unseen.items())))
        has = "has a category" if n_rows == 1 else "have a category"
        found = (
            f"{counted(n_rows, 'row')} {has} that the forest has not seen, in column {quoted(self.schema.names[place])}"
        )
        more = f", and {counted(len(self.unseen) - 1, 'other column')} too" if len(self.unseen) > 1 else ""
        return f"{found}{more}; it counts as missing"


@dataclass(frozen=True)
class _LibsvmQueries:
    """The rows of a libsvm file, whose labels are not read."""

    table: LibsvmTable

    @classmethod
    def open(cls, source: str, wanted: ReadColumns, options: QueryOptions) -> _LibsvmQueries:
        """Open the file with as many features as the forest reads; raises InputError."""
        if options.id is not None or options.keep or options.drop:
            raise InputError(
                f"{source}: `id`, `keep` and `drop` are for columns, which a libsvm file has not; leave them out"
            )
        if wanted.schema is not None and wanted.schema.encodings:
            raise InputError(f"{source}: a table with categories or dates was expected, found numbers of libsvm")
        n_features, limit = wanted.n_features, options.max_bytes
        table = LibsvmTable.open(source, QUERY_BYTES, n_features, options.zero_based, limit)
        check_unfolded(source, table.n_bytes, limit)
        return cls(table)

    def features(self) -> Iterator[Float32s]:
        """Blocks of features, shape (n, n_features)."""
        first = 0
        for block in self.table.features():
            narrow = as_float32(block)
            if not np.isfinite(narrow).all():
                row, column = map(int, np.argwhere(~np.isfinite(narrow))[0])
                found = f"found {float(block[row, column])!r} in row {first + row}, feature {column}"
                raise InputError(f"{self.table.path}: finite float32 numbers were expected, {found}; correct it")
            yield narrow
            first += len(block)

    def ids(self) -> PlannedArray | None:
        """None: a libsvm file has no names of rows."""
        return None

    def kept(self) -> Iterator[dict[str, pa.Array]]:
        """Nothing: a libsvm file has no columns."""
        yield from ()

    def told_of_unseen(self) -> str:
        """Nothing: a libsvm file has no categories."""
        return ""
