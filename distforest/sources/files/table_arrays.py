"""The arrays that a table becomes: features as float32, labels, targets, weights and names of rows."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as arrow

from distforest.amounts import are, counted
from distforest.errors import InputError
from distforest.sources.arrays import OF_TARGETS
from distforest.sources.files.bounds import brief, quoted
from distforest.sources.files.cells import cell_numbers, is_numeric, is_text, plain, texts_of
from distforest.sources.files.damage import readable
from distforest.sources.files.faults import FoundFaults
from distforest.sources.files.ids import (
    IDS,
    MAX_ID_BYTES,
    MAX_OBJECT_BYTES,
    OBJECTS,
    TEXT_ENCODING,
    WHOLE,
    ids_beside,
    packed_names,
    rows_of_ids,
)
from distforest.sources.files.named_order import order_of_names
from distforest.sources.files.pair_columns import PAIRS_READ, numbers_of_rows, pairs_of_rows_in
from distforest.sources.files.survey import ColumnSummary, column_blocks, found_columns
from distforest.sources.opening import open_matrix
from distforest.sources.schema import ColumnKind, FeatureColumn, Schema

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray
    from zarr.core.common import JSON

    from distforest.sources.files.cells import CellFormat
    from distforest.sources.files.roles import Roles
    from distforest.sources.files.tables import Table
    from distforest.sources.source import Float32s, Floats

    ArrayBlocks = Callable[[], Iterable[np.ndarray]]
    LabelBlocks = Callable[[], Iterable[np.ndarray | list[str]]]

MAX_CLASSES = 1 << 16
"""The most classes; more different strings in a label column are no classes."""


@dataclass(frozen=True)
class PlannedArray:
    """A checked array, to be written block by block; ``warning`` says what may be misread in it, if anything."""

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[np.generic]
    blocks: ArrayBlocks
    attributes: Mapping[str, JSON] = field(default_factory=dict)
    warning: str = ""
    columns: tuple[ColumnSummary, ...] = ()


def arrays_of_table(
    table: Table, roles: Roles, cells: CellFormat, block_bytes: int, rows: str | None = None
) -> list[PlannedArray]:
    """Read a table once and more often, and plan the arrays that it becomes.

    Parameters
    ----------
    table
        The table.
    roles
        What its columns are for.
    cells
        How its texts are written.
    block_bytes
        Bytes of a block of rows as float64, about.
    rows
        Address of the rows of which pairs are; None: pairs are of numbers.

    Raises
    ------
    InputError
        A column is of two kinds, a pair of no rows, a value is infinite, a label, target, weight or name is missing, or
        a weight negative. The first faults of all columns are told at once, as a FaultsError.
    """
    arrays, faults = [], FoundFaults()
    for planned in _each_array(table, roles, cells, block_bytes, rows):
        with faults.noted():
            arrays.append(planned())
    faults.check()
    if not arrays[0].shape[0]:
        raise InputError(f"{table.path}: rows were expected, found none")
    check_alike(table.path, arrays)
    return arrays


def _each_array(
    table: Table, roles: Roles, cells: CellFormat, block_bytes: int, rows: str | None
) -> Iterator[Callable[[], PlannedArray]]:
    """What plans each of the arrays: all columns that are read for one of them have their own faults."""
    if roles.features:
        yield lambda: _features_of(table, roles, cells, block_bytes)
    if roles.pairs:
        yield lambda: _pairs_of(table, roles, rows)
    if (label := roles.label) is not None:
        yield lambda: labels_array(table.path, lambda: _labels_of(table, label, cells))
    for name, role, what in (("y", roles.target, "target"), ("weights", roles.weight, "weight")):
        if role is not None:
            yield partial(_numbers_array, table, role, cells, name, what)
    if (objects := roles.object) is not None:
        yield lambda: objects_array(table, objects)
    if (names := roles.id) is not None:
        yield lambda: ids_array(table, names)


def _features_of(table: Table, roles: Roles, cells: CellFormat, block_bytes: int) -> PlannedArray:
    """``X`` of a table, and what its columns hold."""
    found = found_columns(table, roles, cells)
    schema = Schema(found.columns)
    n_rows = max(1, block_bytes // (8 * len(table.columns)))

    def features() -> Iterator[Floats]:
        for block, _ in feature_blocks(table, roles.features, schema, cells, n_rows):
            yield block

    def place_in(row: int, column: int) -> str:
        return table.place(row, roles.features[column]).removeprefix(f"{table.path}: ")

    is_named = table.headed or bool(schema.encodings)
    X = features_array(table.path, len(schema.columns), features, schema if is_named else None, place_in)
    return replace(X, columns=found.summaries)


def _pairs_of(table: Table, roles: Roles, rows: str | None) -> PlannedArray:
    """``pairs``: row numbers, int64 of shape (n, 2), of rows that are named or numbered in two columns."""
    positions, order = roles.pairs, dict[str, dict[str, str]]()
    left, right = (table.columns[position] for position in positions)
    if rows is None:
        told, cure = "by number, from 0", "; if these are names, give `rows`, the address of the rows that have them"
        pairs = pairs_of_rows_in(table, positions, None, None, cure)
    else:
        address = rows_of_ids(rows)
        pairs, n_rows, order = pairs_of_rows_at(table, positions, rows)
        told = f"of {address}, {'by number, from 0' if ids_beside(address, n_rows) is None else 'by name'}"
    if roles.label is not None:
        _refuse_own_links(table, positions)
    attributes: dict[str, JSON] = {"columns": [left, right], "rows": told, **order}
    return PlannedArray("pairs", pairs.shape, pairs.dtype, lambda: [pairs], attributes, roles.told)


def _refuse_own_links(table: Table, positions: Sequence[int]) -> None:
    """Refuse a link of a row to itself, from which nothing can be learned; raises InputError with its line."""
    first = 0
    for arrays in column_blocks(table, positions, PAIRS_READ):
        left, right = (texts_of(array) for array in arrays)
        own = pc.index(pc.fill_null(pc.equal(left, right), False), True).as_py()
        if own >= 0:
            where = table.place(first + own, positions[1])
            found = quoted(str(right[own].as_py()))
            raise InputError(f"{where}: links of two rows were expected, found {found} twice; leave this row out")
        first += len(left)


def pairs_of_rows_at(
    table: Table, positions: Sequence[int], rows: str
) -> tuple[NDArray[np.int64], int, dict[str, dict[str, str]]]:
    """Pairs of the rows at an address, by their names if they have any; how many rows there are; `order_of_names`."""
    address = rows_of_ids(rows)
    n_rows = int(open_matrix(address).shape[0])
    numbers = numbers_of_rows(address, n_rows, address)
    cure = "" if numbers is None else "; write it as `ids` beside them does, such as 007 and not 7, or leave it out"
    pairs = pairs_of_rows_in(table, positions, numbers, n_rows, f", of {address}{cure}")
    return pairs, n_rows, {} if numbers is None else order_of_names([*numbers])


def feature_blocks(
    table: Table, positions: Sequence[int], schema: Schema, cells: CellFormat, n_rows: int
) -> Iterator[tuple[Floats, Counter[int]]]:
    """Blocks of features as a schema says, shape (n, n_columns), and how many categories each column does not list.

    Raises
    ------
    InputError
        A value is of another kind than its column.
    """
    first = 0
    for arrays in column_blocks(table, positions, n_rows):
        block, unseen = np.empty((len(arrays[0]), len(arrays))), Counter[int]()
        for place, (column, array) in enumerate(zip(schema.columns, arrays, strict=True)):
            block[:, place], faults = cell_numbers(column, array, cells)
            unseen[place] += faults.unseen
            if faults.first >= 0:
                text = texts_of(array.slice(faults.first, 1))[0].as_py()
                wanted = {"number": "a number", "boolean": "true or false", "date": "a date", "category": "a category"}
                expected = f"{wanted[str(column.kind)]} was expected, found {quoted(str(text))}"
                where = table.place(first + faults.first, positions[place])
                cure = "write it as in training"
                if column.kind == ColumnKind.DATE:
                    cure = f"{cure}, or say how dates are written, such as by `date_format='{column.name}=%d/%m/%Y'`"
                raise InputError(f"{where}, column {quoted(column.name)}: {expected}; {cure}")
        yield block, +unseen
        first += len(block)


def _values_of(table: Table, position: int) -> Iterator[tuple[int, pa.Array]]:
    """A column in blocks, each with the number of its first row."""
    first = 0
    for [array] in table.batches([position]):
        yield first, array
        first += len(array)


def _refuse_first(
    table: Table, position: int, mask: pa.Array, values: pa.Array, first: int, expected: str, cure: str = ""
) -> None:
    """Raise InputError for the first value that the mask marks."""
    if pc.any(mask).as_py():
        place = pc.index(mask, True).as_py()
        found = values[place].as_py()
        shown = "null" if found is None else quoted(str(found)) if isinstance(found, str) else repr(found)
        where = f"{table.place(first + place, position)}, column {quoted(table.columns[position])}"
        raise InputError(f"{where}: {expected} was expected, found {shown}; fill it in, or leave its row out{cure}")


def _labels_of(table: Table, position: int, cells: CellFormat) -> Iterator[np.ndarray | list[str]]:
    """Blocks of labels: int64 or float64 of shape (n,), or strings."""
    with readable(table.path, pa.ArrowException):  # an integer may be too large for int64
        for first, array in _values_of(table, position):
            if is_text(array.type):
                each = array if arrow.is_dictionary(array.type) else array.dictionary_encode()
                words = texts_of(each.dictionary)
                missing = pc.fill_null(cells.is_missing(words).take(each.indices), True)
                cure = "" if table.typed else "; if it is a class, say with `missing` which words mean a missing value"
                _refuse_first(table, position, missing, array, first, "a label", cure)
                held = words.to_pylist()  # a string that runs repeat is held once
                yield [held[code] for code in each.indices.to_pylist()]
                continue
            _refuse_first(table, position, array.is_null(), array, first, "a label")
            if not is_numeric(array.type):
                expected = f"{table.path}: label column {table.columns[position]!r}: numbers or strings were expected"
                raise InputError(f"{expected}, found {brief(str(array.type))}")
            values = plain(array)
            whole = arrow.is_integer(values.type) or arrow.is_boolean(values.type)
            yield values.cast(pa.int64() if whole else pa.float64()).to_numpy(zero_copy_only=False)


def _numbers_array(table: Table, position: int, cells: CellFormat, name: str, what: str) -> PlannedArray:
    """Targets or weights, float64; all are finite, and no weight is negative."""
    column, n_rows = FeatureColumn(table.columns[position]), 0

    def blocks() -> Iterator[Floats]:
        for _, array in _values_of(table, position):
            yield cell_numbers(column, array, cells)[0]

    for first, array in _values_of(table, position):
        values, faults = cell_numbers(column, array, cells)
        bad = ~np.isfinite(values) | (values < 0 if what == "weight" else False)
        if faults.first >= 0:
            bad[: faults.first + 1] = np.arange(faults.first + 1) == faults.first
        expected = f"a finite number{' >= 0' if what == 'weight' else ''} as {what}"
        cure = "; if the column holds classes, give `label`" if what == "target" and faults.first >= 0 else ""
        _refuse_first(table, position, pa.array(bad), plain(array), first, expected, cure)
        n_rows += len(values)
    attributes = {"column": column.name, **(OF_TARGETS if what == "target" else {})}
    return PlannedArray(name, (n_rows,), np.dtype(np.float64), blocks, attributes)


def ids_array(table: Table, position: int) -> PlannedArray:
    """Names of rows: int64 if all are whole numbers, else bytes of UTF-8; told if one names several rows."""
    are_whole, width, n_rows = True, 1, 0
    hashes = []
    for first, array in _values_of(table, position):
        texts = texts_of(array)
        empty = pc.or_(pc.is_null(texts), pc.equal(pc.fill_null(texts, ""), ""))
        _refuse_first(table, position, empty, texts, first, "a name of the row")
        words = texts.to_pylist()
        are_whole = are_whole and all(map(WHOLE.fullmatch, words))
        width = max([width, *(len(word.encode()) for word in words)])
        hashes.append(np.fromiter(map(hash, words), np.int64, len(words)))
        n_rows += len(words)
    name = table.columns[position]
    if width > MAX_ID_BYTES:
        expected = f"names of rows of at most {MAX_ID_BYTES:,} bytes were expected in column {quoted(name)}"
        raise InputError(f"{table.path}: {expected}, found {width:,}")
    n_twice = n_rows - len(np.unique(np.concatenate(hashes))) if hashes else 0
    have = "has" if n_twice == 1 else "have"
    doubt = f"{counted(n_twice, 'row')} {have} the name of an earlier one, in column {quoted(name)}"

    def blocks() -> Iterator[np.ndarray]:
        for _, array in _values_of(table, position):
            words = texts_of(array).to_pylist()
            yield np.array([int(word) for word in words], np.int64) if are_whole else packed_names(words, width)

    shape, dtype = ((n_rows,), np.dtype(np.int64)) if are_whole else ((n_rows, width), np.dtype(np.uint8))
    attributes = {"column": name, **({} if are_whole else {TEXT_ENCODING: "utf-8"})}
    return PlannedArray(IDS, shape, dtype, blocks, attributes, doubt if n_twice else "")


def objects_array(table: Table, position: int) -> PlannedArray:
    """Texts of which a function tells the similarity, as bytes of UTF-8."""
    width, n_rows, name = 1, 0, table.columns[position]
    for first, array in _values_of(table, position):
        texts = texts_of(array)
        empty = pc.equal(pc.fill_null(texts, ""), "")
        _refuse_first(table, position, empty, texts, first, "an object")
        width = max(width, pc.max(pc.binary_length(texts)).as_py() or 0)
        n_rows += len(texts)
    if width > MAX_OBJECT_BYTES:
        expected = f"objects of at most {MAX_OBJECT_BYTES:,} bytes were expected in column {quoted(name)}"
        raise InputError(f"{table.path}: {expected}, found {width:,}; let a function read them by their row numbers")

    def blocks() -> Iterator[np.ndarray]:
        for _, array in _values_of(table, position):
            yield packed_names(texts_of(array).to_pylist(), width)

    attributes = {"column": name, TEXT_ENCODING: "utf-8"}
    return PlannedArray(OBJECTS, (n_rows, width), np.dtype(np.uint8), blocks, attributes)


def check_alike(source: str, arrays: Sequence[PlannedArray]) -> None:
    """Raise InputError if features and labels differ in their number of rows."""
    n_rows = {array.name: array.shape[0] for array in arrays if array.name in ("X", "y")}
    if len(set(n_rows.values())) > 1:
        raise InputError(
            f"{source}: a label for each row was expected, "
            f"found {counted(n_rows['X'], 'row')}, {counted(n_rows['y'], 'label')}"
        )


def features_array(
    source: str,
    n_columns: int,
    blocks: ArrayBlocks,
    schema: Schema | None,
    place_in: Callable[[int, int], str] | None = None,
    takes_missing: bool = True,
) -> PlannedArray:
    """``X``, after all values are found finite as float32, or NaN where values may be missing.

    ``place_in`` says where a value of a table is.
    """
    n_rows, n_bad, place = 0, 0, ""
    lacks = np.zeros(n_columns, np.int64)
    for block in blocks():
        narrow = as_float32(block)
        bad = np.argwhere(np.isinf(narrow) if takes_missing else ~np.isfinite(narrow))
        if len(bad) and not n_bad:
            row, column = map(int, bad[0])
            where = place_in(n_rows + row, column) if place_in else f"row {n_rows + row}"
            place = f"{float(block[row, column])!r} in {where}, {_column(column, schema)}"
        lacks += np.isnan(narrow).sum(axis=0)
        n_bad += len(bad)
        n_rows += len(block)
    if n_bad:
        raise InputError(
            f"{source}: finite float32 numbers were expected as features, found {n_bad:,} that {are(n_bad)} not, "
            f"the first {place}; fill them in or leave their rows out"
        )
    if n_rows == 0:
        raise InputError(f"{source}: rows were expected, found none")
    warning = ""
    if place_in is None and lacks.any():  # a table tells it by column
        most = _column(int(lacks.argmax()), schema)
        found = f"NaN in {int(lacks.sum()):,} of {n_rows * n_columns:,} features is read as missing"
        warning = f"{found}, most often of {most}, in {counted(int(lacks.max()), 'row')}"
    attributes = schema.attributes() if schema else {}
    return PlannedArray(
        "X", (n_rows, n_columns), np.dtype(np.float32), lambda: map(as_float32, blocks()), attributes, warning
    )


def _column(column: int, schema: Schema | None) -> str:
    return f"column {column}" + (f" ({brief(schema.names[column])})" if schema else "")


def as_float32(block: np.ndarray) -> Float32s:
    """Features as they are held; what is too large becomes infinite."""
    with np.errstate(over="ignore"):  # a value that is too large becomes infinite, and is found as such
        return block.astype(np.float32)


def labels_array(source: str, labels: LabelBlocks) -> PlannedArray:
    """``y``: numbers as they are, texts as classes, unless each is a whole number in its usual form, 7 and not 007."""
    n_rows, dtype, strings, are_whole = 0, np.dtype(np.int64), set[str](), True
    for block in labels():
        n_rows += len(block)
        if isinstance(block, np.ndarray):
            dtype = np.result_type(dtype, block.dtype)
            continue
        are_whole = are_whole and all(map(WHOLE.fullmatch, block))
        if len(strings) <= MAX_CLASSES:
            strings.update(block)
    if not are_whole and len(strings) > MAX_CLASSES:
        raise InputError(f"{source}: labels of at most {MAX_CLASSES} classes were expected, found more strings")
    classes = [] if are_whole else sorted(strings)
    codes = {label: code for code, label in enumerate(classes)}

    def blocks() -> Iterator[np.ndarray]:
        for block in labels():
            if isinstance(block, np.ndarray):
                yield block.astype(dtype)
            else:
                yield np.array([int(label) if are_whole else codes[label] for label in block], dtype)

    check_labels(source, blocks() if dtype.kind == "f" else ())
    return PlannedArray("y", (n_rows,), dtype, blocks, {"classes": classes} if classes else {})


def check_labels(source: str, blocks: Iterable[np.ndarray]) -> None:
    """Raise InputError if a label is not finite."""
    n_rows = 0
    for block in blocks:
        bad = np.argwhere(~np.isfinite(block))
        if len(bad):
            value, row = block[tuple(bad[0])], n_rows + int(bad[0][0])
            raise InputError(f"{source}: finite labels were expected, found {float(value)!r} in row {row}")
        n_rows += len(block)
