"""The arrays that a table becomes: features as float32, labels, targets, weights and names of rows."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as arrow

from distforest.amounts import counted
from distforest.errors import InputError
from distforest.sources.arrays import OF_TARGETS
from distforest.sources.files.bounds import brief, quoted, readable
from distforest.sources.files.cells import CellFormat, cell_numbers, is_numeric, is_text, plain, texts_of
from distforest.sources.files.ids import (
    IDS,
    MAX_ID_BYTES,
    MAX_OBJECT_BYTES,
    OBJECTS,
    TEXT_ENCODING,
    WHOLE,
    packed_names,
    rows_of_ids,
)
from distforest.sources.files.pair_tables import PAIRS_READ, pairs_of_rows_at, pairs_of_rows_in
from distforest.sources.files.planned import PlannedArray, check_alike, features_array, held_array, labels_array
from distforest.sources.files.survey import found_columns
from distforest.sources.schema import ColumnKind, FeatureColumn

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from zarr.core.common import JSON

    from distforest.sources.files.roles import Roles
    from distforest.sources.files.tables import Table
    from distforest.sources.schema import Schema
    from distforest.sources.source import Floats

OF_KINDS = {"number": "a number", "boolean": "true or false", "date": "a date", "category": "a category"}
"""What messages call a value of each kind of column."""


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
        a weight negative.
    """
    arrays = []
    if roles.features:
        arrays.append(_features_of(table, roles, cells, block_bytes))
    if roles.pairs:
        arrays.append(_pairs_of(table, roles, rows))
    if (label := roles.label) is not None:
        arrays.append(labels_array(table.path, lambda: _labels_of(table, label, cells)))
    if roles.target is not None:
        name = table.columns[roles.target]
        targets = numbers_in(table, "target", name, cells)
        arrays.append(held_array("y", targets, {"column": name, **OF_TARGETS}))
    if roles.weight is not None:
        name = table.columns[roles.weight]
        arrays.append(held_array("weights", numbers_in(table, "weight", name, cells, is_weight=True), {"column": name}))
    if roles.object is not None:
        arrays.append(objects_array(table, roles.object))
    if roles.id is not None:
        arrays.append(ids_array(table, roles.id))
    if not arrays[0].shape[0]:
        raise InputError(f"{table.path}: rows were expected, found none")
    check_alike(table.path, arrays)
    return arrays


def _features_of(table: Table, roles: Roles, cells: CellFormat, block_bytes: int) -> PlannedArray:
    """``X`` of a table, and what its columns hold."""
    schema, summaries = found_columns(table, roles, cells)
    n_rows = max(1, block_bytes // (8 * len(table.columns)))

    def features() -> Iterator[Floats]:
        for block, _ in feature_blocks(table, roles.features, schema, cells, n_rows):
            yield block

    is_named = table.headed or bool(schema.encodings)
    X = features_array(
        table.path,
        len(schema.columns),
        features,
        schema if is_named else None,
        lambda row: table.place(row).removeprefix(f"{table.path}: "),
    )
    return replace(X, columns=summaries)


def _pairs_of(table: Table, roles: Roles, rows: str | None) -> PlannedArray:
    """``pairs``: row numbers, int64 of shape (n, 2), of rows that are named or numbered in two columns."""
    order = dict[str, dict[str, str]]()
    if rows is None:
        numbering, cure = (
            "by number, from 0",
            "; if these are names, give `rows`, the address of the rows that have them",
        )
        pairs = pairs_of_rows_in(table, roles.pairs, None, None, cure)
    else:
        pairs, _, order = pairs_of_rows_at(table, roles.pairs, rows)
        numbering = f"of {rows_of_ids(rows)}, {'by name' if order else 'by number, from 0'}"
    if roles.label is not None:
        for first, [left, right] in table.blocks(roles.pairs, PAIRS_READ):
            names = texts_of(right)
            if pc.any(own := pc.equal(texts_of(left), names)).as_py():  # nothing can be learned of a row and itself
                place = pc.index(own, True).as_py()
                found = f"found {quoted(str(names[place]))} twice; leave this row out"
                raise InputError(f"{table.place(first + place)}: links of two rows were expected, {found}")
    columns: list[JSON] = [table.columns[position] for position in roles.pairs]
    attributes: dict[str, JSON] = {"columns": columns, "rows": numbering, **order}
    return PlannedArray("pairs", pairs.shape, pairs.dtype, lambda: [pairs], attributes, roles.warning)


def feature_blocks(
    table: Table, positions: Sequence[int], schema: Schema, cells: CellFormat, n_rows: int
) -> Iterator[tuple[Floats, Counter[int]]]:
    """Blocks of features as a schema says, shape (n, n_columns), and how many categories each column does not list.

    Raises
    ------
    InputError
        A value is of another kind than its column.
    """
    for first, arrays in table.blocks(positions, n_rows):
        block, unseen = np.empty((len(arrays[0]), len(arrays))), Counter[int]()
        both = enumerate(zip(schema.columns, arrays, strict=True))
        rest = {place: (column, array) for place, (column, array) in both}
        texts = [at for at, (own, array) in rest.items() if own.kind == ColumnKind.NUMBER and is_text(array.type)]
        if texts:  # all columns of numbers at once, as a wide table has few rows in a block
            numbers, faults = cell_numbers(
                FeatureColumn(""), pa.concat_arrays([texts_of(arrays[at]) for at in texts]), cells
            )
            if faults.first < 0:
                block[:, texts] = numbers.reshape(len(texts), -1).T
                for at in texts:
                    del rest[at]
        for place, (column, array) in rest.items():
            block[:, place], faults = cell_numbers(column, array, cells)
            unseen[place] += faults.unseen
            if faults.first >= 0:
                text = texts_of(array.slice(faults.first, 1))[0].as_py()
                expected = f"{OF_KINDS[str(column.kind)]} was expected, found {quoted(str(text))}"
                cure = "write it as in training"
                if column.kind == ColumnKind.DATE:
                    cure = f"{cure}, or say how dates are written, such as by `date_format='{column.name}=%d/%m/%Y'`"
                raise InputError(f"{table.place(first + faults.first, positions[place])}: {expected}; {cure}")
        yield block, +unseen


def _refuse_first(
    table: Table, position: int, mask: pa.Array, values: pa.Array, first: int, expected: str, cure: str = ""
) -> None:
    """Raise InputError for the first value that the mask marks."""
    if pc.any(mask).as_py():
        place = pc.index(mask, True).as_py()
        found = values[place].as_py()
        shown = "null" if found is None else quoted(str(found)) if isinstance(found, str) else repr(found)
        where = table.place(first + place, position)
        raise InputError(f"{where}: {expected} was expected, found {shown}; fill it in, or leave its row out{cure}")


def _labels_of(table: Table, position: int, cells: CellFormat) -> Iterator[np.ndarray | list[str]]:
    """Blocks of labels: int64 or float64 of shape (n,), or strings."""
    with readable(table.path, pa.ArrowException):  # an integer may be too large for int64
        for first, array in table.values(position):
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


def numbers_in(
    table: Table,
    role: str,
    name: str,
    cells: CellFormat | None = None,
    with_missing: bool = False,
    is_weight: bool = False,
) -> Floats:
    """The numbers of a column, all of them in memory; raises InputError for what is no finite number.

    NaN stands for missing ones, which are refused, too, unless they may be there; weights are not negative.
    """
    position = table.position(role, name)
    blocks, column = [np.empty(0)], FeatureColumn(name)
    for first, array in table.values(position):
        values, faults = cell_numbers(column, array, cells or CellFormat())
        bad = (np.isinf(values) if with_missing else ~np.isfinite(values)) | (is_weight & (values < 0.0))
        if faults.first >= 0:
            bad = np.arange(len(values)) == faults.first
        expected = f"a finite number{' >= 0' if is_weight else ''} as {role}"
        cure = "; if the column holds classes, give `label`" if role == "target" and faults.first >= 0 else ""
        _refuse_first(table, position, pa.array(bad), plain(array), first, expected, cure)
        blocks.append(values)
    return np.concatenate(blocks)


def ids_array(table: Table, position: int) -> PlannedArray:
    """Names of rows: int64 if all are whole numbers, else bytes of UTF-8; told if one names several rows."""
    are_whole, width, hashes = True, 1, [np.empty(0, np.int64)]
    for first, array in table.values(position):
        texts = texts_of(array)
        _refuse_first(table, position, pc.equal(pc.fill_null(texts, ""), ""), texts, first, "a name of the row")
        words = texts.to_pylist()
        are_whole = are_whole and all(map(WHOLE.fullmatch, words))
        width = max(width, pc.max(pc.binary_length(texts)).as_py() or 0)
        hashes.append(np.fromiter(map(hash, words), np.int64, len(words)))
    name, of_all = table.columns[position], np.concatenate(hashes)
    if width > MAX_ID_BYTES:
        expected = f"names of rows of at most {MAX_ID_BYTES:,} bytes were expected in column {quoted(name)}"
        raise InputError(f"{table.path}: {expected}, found {width:,}")
    n_twice = len(of_all) - len(np.unique(of_all))
    have = "has" if n_twice == 1 else "have"
    doubt = f"{counted(n_twice, 'row')} {have} the name of an earlier one, in column {quoted(name)}"

    def blocks() -> Iterator[np.ndarray]:
        for _, array in table.values(position):
            words = texts_of(array).to_pylist()
            yield np.array([int(word) for word in words], np.int64) if are_whole else packed_names(words, width)

    shape, dtype = ((len(of_all),), np.int64) if are_whole else ((len(of_all), width), np.uint8)
    attributes = {"column": name, **({} if are_whole else {TEXT_ENCODING: "utf-8"})}
    return PlannedArray(IDS, shape, np.dtype(dtype), blocks, attributes, doubt if n_twice else "")


def objects_array(table: Table, position: int) -> PlannedArray:
    """Texts of which a function tells the similarity, as bytes of UTF-8."""
    width, n_rows, name = 1, 0, table.columns[position]
    for first, array in table.values(position):
        texts = texts_of(array)
        _refuse_first(table, position, pc.equal(pc.fill_null(texts, ""), ""), texts, first, "an object")
        width = max(width, pc.max(pc.binary_length(texts)).as_py() or 0)
        n_rows += len(texts)
    if width > MAX_OBJECT_BYTES:
        expected = f"objects of at most {MAX_OBJECT_BYTES:,} bytes were expected in column {quoted(name)}"
        raise InputError(f"{table.path}: {expected}, found {width:,}; let a function read them by their row numbers")

    def blocks() -> Iterator[np.ndarray]:
        for _, array in table.values(position):
            yield packed_names(texts_of(array).to_pylist(), width)

    attributes = {"column": name, TEXT_ENCODING: "utf-8"}
    return PlannedArray(OBJECTS, (n_rows, width), np.dtype(np.uint8), blocks, attributes)
