"""Rows of some nodes on disk: a file for each field of `RowBlock`, written once in order and read block by block."""

from __future__ import annotations

import mmap
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from distforest.growth.cuts.sums import RowBlock

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from distforest.sources.source import Float32s, Int32s, Ints


MAPPED_AT_ONCE: int = getattr(mmap, "MAP_POPULATE", 0)
"""By this flag Linux reads all pages of a map when it is made; elsewhere each is read when it is touched."""

_NO_NUMBERS = _NO_WEIGHTS = np.empty(0, np.int32)


@dataclass
class StoredRows:
    """Rows in a few files beside each other. What is read is a map, which takes memory as long as it is referred to.

    Attributes
    ----------
    path
        Beginning of the names of the files.
    no_values
        The values of no row, shape (0, n_columns): it has the dtype of the others' values, codes or floats.
    no_truth
        The truth of no row: it has the dtype of the others' truth, and their shape but for its length of 0.
    no_categories
        The categories of no row, shape (0, n); None where rows have none beside their values.
    n_rows, weight
        Number of rows, and the sum of their weights.
    least, greatest
        The least and the greatest truth, in each dimension; equal if no cut could gain anything.
    """

    path: Path
    no_values: np.ndarray
    no_truth: Int32s | Ints
    no_categories: Float32s | None = None
    n_rows: int = 0
    weight: int = 0
    least: np.ndarray = field(init=False)
    greatest: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        bounds = np.iinfo(self.no_truth.dtype)
        self.least = np.full(self.no_truth.shape[1:], bounds.max, self.no_truth.dtype)
        self.greatest = np.full(self.no_truth.shape[1:], bounds.min, self.no_truth.dtype)

    @property
    def bytes_of_row(self) -> int:
        """Bytes of a row on disk."""
        held = self.no_values, self.no_truth, self.no_categories
        of_all = _NO_WEIGHTS.itemsize + _NO_NUMBERS.itemsize
        return sum(none.dtype.itemsize * int(np.prod(none.shape[1:])) for none in held if none is not None) + of_all

    def append(self, block: RowBlock) -> None:
        """Write rows after those that are there."""
        if not len(block.weights):
            return
        for name, values in block._asdict().items():
            if values is not None:
                with self._file(name).open("ab") as file:
                    file.write(np.ascontiguousarray(values).data)
        self.n_rows += len(block.weights)
        self.weight += int(block.weights.sum(dtype=np.int64))
        self.least = np.minimum(self.least, block.truth.min(axis=0))
        self.greatest = np.maximum(self.greatest, block.truth.max(axis=0))

    def blocks(self, n_rows: int) -> Iterator[RowBlock]:
        """Read the rows in their order, ``n_rows`` at a time."""
        for first in range(0, self.n_rows, n_rows):
            yield self.read(first, min(n_rows, self.n_rows - first))

    def read(self, first: int, n_rows: int) -> RowBlock:
        """Read ``n_rows`` rows from number ``first`` on."""
        return RowBlock(
            self._read("values", self.no_values, first, n_rows),
            self._read("truth", self.no_truth, first, n_rows),
            self._read("weights", _NO_WEIGHTS, first, n_rows),
            None if self.no_categories is None else self._read("categories", self.no_categories, first, n_rows),
            self._read("numbers", _NO_NUMBERS, first, n_rows),
        )

    def truth(self) -> np.ndarray:
        """The truth of all rows."""
        return self._read("truth", self.no_truth, 0, self.n_rows)

    def weights(self) -> np.ndarray:
        """The weights of all rows."""
        return self._read("weights", _NO_WEIGHTS, 0, self.n_rows)

    def mapped(self) -> np.ndarray:
        """The values of all rows in a map whose pages are not read yet."""
        shape = (self.n_rows, *self.no_values.shape[1:])
        return np.memmap(self._file("values"), self.no_values.dtype, "r", shape=shape)

    def remove(self) -> None:
        """Remove the files."""
        for name in RowBlock._fields:
            self._file(name).unlink(missing_ok=True)

    def _file(self, name: str) -> Path:
        return self.path.with_name(f"{self.path.name}.{name}")

    def _read(self, name: str, none: np.ndarray, first: int, n_rows: int) -> np.ndarray:
        """Some rows of a file, which are mapped at once rather than copied."""
        shape = (n_rows, *none.shape[1:])
        of_row = none.dtype.itemsize * int(np.prod(none.shape[1:], dtype=np.int64))
        if not n_rows * of_row:
            return np.empty(shape, none.dtype)
        before = first * of_row % mmap.ALLOCATIONGRANULARITY
        with self._file(name).open("r+b") as file:
            pages = mmap.mmap(
                file.fileno(),
                before + n_rows * of_row,
                flags=mmap.MAP_SHARED | MAPPED_AT_ONCE,
                prot=mmap.PROT_READ | mmap.PROT_WRITE,  # kernels are compiled once, for arrays that may be written
                offset=first * of_row - before,
            )
        return np.ndarray(shape, none.dtype, pages, before)
