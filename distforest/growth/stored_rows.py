"""The rows of some nodes on disk: their codes, truth and weights, written once in order and read block by block."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from distforest.growth.cuts.sums import RowBlock

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from distforest.sources.source import Int32s, Ints


@dataclass
class StoredRows:
    """Rows in three files beside each other; they are read, and never mapped, so that only a block is resident.

    Attributes
    ----------
    path
        Beginning of the names of the files.
    n_columns
        Number of codes of a row.
    no_truth
        The truth of no row: it has the dtype of the others' truth, and their shape but for its length of 0.
    n_rows, weight
        Number of rows, and the sum of their weights.
    least, greatest
        The least and the greatest truth, in each dimension; equal if no cut could gain anything.
    """

    path: Path
    n_columns: int
    no_truth: Int32s | Ints
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
        return self.n_columns + self.no_truth.dtype.itemsize * int(np.prod(self.no_truth.shape[1:])) + 4

    def append(self, block: RowBlock) -> None:
        """Write rows after those that are there."""
        if not len(block.weights):
            return
        for name, values in block._asdict().items():
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
        tail, dtype = self.no_truth.shape[1:], self.no_truth.dtype
        return RowBlock(
            self._values("codes", np.dtype(np.uint8), (self.n_columns,), first, n_rows),
            self._values("truth", dtype, tail, first, n_rows),
            self._values("weights", np.dtype(np.int32), (), first, n_rows),
        )

    def remove(self) -> None:
        """Remove the files."""
        for name in RowBlock._fields:
            self._file(name).unlink(missing_ok=True)

    def _file(self, name: str) -> Path:
        return self.path.with_name(f"{self.path.name}.{name}")

    def _values(
        self, name: str, dtype: np.dtype[np.generic], tail: tuple[int, ...], first: int, n_rows: int
    ) -> np.ndarray:
        of_row = int(np.prod(tail, dtype=np.int64))
        values = np.fromfile(self._file(name), dtype, n_rows * of_row, offset=first * of_row * dtype.itemsize)
        return values.reshape(n_rows, *tail)
