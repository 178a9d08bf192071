"""Arrays to be written: what has been checked of them, before their blocks go to a store."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from distforest.amounts import are, counted
from distforest.errors import InputError
from distforest.sources.files.bounds import brief
from distforest.sources.files.ids import WHOLE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from zarr.core.common import JSON

    from distforest.sources.files.survey import ColumnSummary
    from distforest.sources.schema import Schema
    from distforest.sources.source import Float32s

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


def held_array(name: str, values: np.ndarray, attributes: Mapping[str, JSON] | None = None) -> PlannedArray:
    """Plan an array that is in memory."""
    return PlannedArray(name, values.shape, values.dtype, lambda: [values], attributes or {})


def features_array(
    source: str,
    n_columns: int,
    blocks: ArrayBlocks,
    schema: Schema | None,
    place_of: Callable[[int], str] | None = None,
    takes_missing: bool = True,
) -> PlannedArray:
    """Plan ``X``, after all values are found finite as float32, or NaN where values may be missing.

    ``place_of`` says where a row of a table is; a table says by itself which columns lack values.
    """

    def named(column: int) -> str:
        return f"column {column}" + (f" ({brief(schema.names[column])})" if schema else "")

    n_rows, n_bad, place = 0, 0, ""
    lacks = np.zeros(n_columns, np.int64)
    for block in blocks():
        narrow = as_float32(block)
        bad = np.argwhere(np.isinf(narrow) if takes_missing else ~np.isfinite(narrow))
        if len(bad) and not n_bad:
            row, column = map(int, bad[0])
            where = place_of(n_rows + row) if place_of else f"row {n_rows + row}"
            place = f"{float(block[row, column])!r} in {where}, {named(column)}"
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
    if place_of is None and lacks.any():
        found = f"NaN in {int(lacks.sum()):,} of {n_rows * n_columns:,} features is read as missing"
        warning = f"{found}, most often of {named(int(lacks.argmax()))}, in {counted(int(lacks.max()), 'row')}"
    attributes = schema.attributes() if schema else {}
    return PlannedArray(
        "X", (n_rows, n_columns), np.dtype(np.float32), lambda: map(as_float32, blocks()), attributes, warning
    )


def as_float32(block: np.ndarray) -> Float32s:
    """Features as they are held; what is too large becomes infinite."""
    with np.errstate(over="ignore"):  # a value that is too large becomes infinite, and is found as such
        return block.astype(np.float32)


def labels_array(source: str, labels: LabelBlocks) -> PlannedArray:
    """Plan ``y``: numbers as they are, texts as classes, unless each is a whole number in its usual form, 7 not 007."""
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


def check_alike(source: str, arrays: Sequence[PlannedArray]) -> None:
    """Raise InputError if features and labels differ in their number of rows."""
    n_rows = {array.name: array.shape[0] for array in arrays if array.name in ("X", "y")}
    if len(set(n_rows.values())) > 1:
        raise InputError(
            f"{source}: a label for each row was expected, "
            f"found {counted(n_rows['X'], 'row')}, {counted(n_rows['y'], 'label')}"
        )
