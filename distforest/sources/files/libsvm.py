"""Files of libsvm (svmlight): rows of ``label index:value``, read in blocks and held densely."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from distforest.amounts import counted
from distforest.arguments import whole
from distforest.errors import InputError, warn_caller
from distforest.sources.files.bounds import RowFile, brief, quoted, readable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from distforest.sources.source import Floats

    Record = tuple[int, int, list[str]]
    """Row, counted from 0; line of the file, counted from 1; the row's cells."""

LIBSVM_COLUMNS = 1 << 20
"""The highest libsvm index: rows are stored densely, and a typo must not ask for gigabytes."""

DIGITS = 18
"""Digits of the longest libsvm index, with leading zeros: as many fit int64."""


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


@dataclass(frozen=True)
class LibsvmTable:
    """A libsvm (svmlight) file: ``label index:value ... # comment``; indices rise from ``first``, the rest is 0."""

    path: str
    n_rows: int
    n_columns: int
    first: int
    block_bytes: int
    max_bytes: int | None
    whole_labels: bool

    @classmethod
    def open(
        cls,
        path: str,
        block_bytes: int,
        n_features: int | None = None,
        zero_based: bool | None = None,
        max_bytes: int | None = None,
    ) -> LibsvmTable:
        """Read the file once, to count rows and features and to find the first index."""
        extent = _Extent.from_file(path, max_bytes)
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
        return cls(path, extent.n_rows, n_columns, first, block_bytes, max_bytes, extent.whole_labels)

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

    def labels(self) -> Iterator[np.ndarray]:
        """Blocks of labels: int64 if all are whole numbers, else float64."""
        for batch in self._batches():
            for row, line, cells in batch:
                if not is_number(cells[0]):
                    expected = "a number as label was expected"
                    raise InputError(f"{self._place(row, line)}: {expected}, found {quoted(cells[0])}")
            numbers = [cells[0] for _, _, cells in batch]
            yield np.array([int(n) for n in numbers]) if self.whole_labels else np.array([float(n) for n in numbers])

    def _batches(self) -> Iterator[list[Record]]:
        records, size = _libsvm_records(self.path, self.max_bytes), max(1, self.block_bytes // (8 * self.n_columns))
        while batch := list(islice(records, size)):
            yield batch

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
    whole_labels: bool = True

    @classmethod
    def from_file(cls, path: str, max_bytes: int | None) -> _Extent:
        """Read the rows once; raises InputError for an index that is too high."""
        extent = cls(path)
        for row, line, cells in _libsvm_records(path, max_bytes):
            extent.n_rows = row + 1
            extent.whole_labels &= bool(re.fullmatch(r"[+-]?\d{1,18}", cells[0]))  # 18 digits fit int64
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


def _libsvm_records(path: str, max_bytes: int | None) -> Iterator[Record]:
    """The rows, split at white space, without comments and empty lines."""
    with readable(path), RowFile(path, max_bytes) as file, file.text() as stream:
        row = 0
        for line, text in enumerate(stream, 1):
            file.held = 0
            if cells := text.partition("#")[0].split():
                yield row, line, cells
                row += 1
