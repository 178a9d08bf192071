"""Matrices larger than memory, read block by block: a map is given back after each, and the next is announced."""

from __future__ import annotations

import mmap
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from distforest.sources.arrays import ArraySource, is_complete, map_of, release_pages
from distforest.sources.readings import FEATURES, read
from distforest.sources.source import Projections
from distforest.stores.room import partial_file

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from distforest.sources.arrays import Matrix
    from distforest.sources.source import Float32s, Floats, Int32s, Ints


SAMPLED_AT_ONCE = 256
"""Rows of a sample from all over a map that are read before pages are given back: the system reads 64 KiB for each."""


def spans(matrix: np.ndarray, rows: Ints | Int32s, n_rows: int) -> Iterator[tuple[int, int]]:
    """Pass over some ``rows`` of a matrix, ``n_rows`` of them at a time; they ascend.

    Each block is yielded as the numbers of its first row and of the row after its last. Where the matrix is a memory
    map, the pages of a block are given back after it, and the next block is announced before it, so that it is read
    meanwhile.

    Examples
    --------
    >>> list(spans(np.eye(9), np.array([0, 1, 4, 7, 8]), 2))
    [(0, 2), (4, 8), (8, 9)]
    """
    bounds = [(int(rows[k]), int(rows[min(k + n_rows, len(rows)) - 1]) + 1) for k in range(0, len(rows), n_rows)]
    for (first, last), (begin, end) in zip(bounds, [*bounds[1:], (0, 0)], strict=True):
        if end - begin <= 2 * n_rows:  # of rows that are far apart most is not wanted
            _announce(matrix[begin:end])
        try:
            yield first, last
        finally:
            release_pages(matrix)


def _announce(rows: np.ndarray) -> None:
    """Ask the system to read rows of a memory map from the disk; returns at once."""
    held = map_of(rows)
    if held is None or not rows.size or not hasattr(mmap, "MADV_WILLNEED"):
        return
    begin = rows.ctypes.data - np.frombuffer(held, np.uint8).ctypes.data
    skipped = begin % mmap.PAGESIZE
    held.madvise(mmap.MADV_WILLNEED, begin - skipped, rows.nbytes + skipped)


@dataclass(frozen=True)
class MappedRows:
    """A matrix in a memory map, which is read ``block_rows`` rows at a time; pages are given back after each block.

    Rows that are asked for ascend within a node.

    Attributes
    ----------
    values
        The matrix, shape (n_rows, n_columns), float32.
    is_complete
        Whether it is known that none of them is NaN.
    block_rows
        Rows of a block.

    Examples
    --------
    >>> source = MappedRows(np.eye(3, dtype=np.float32), True, block_rows=2)
    >>> source.block(np.arange(3, dtype=np.int32), np.array([0, 2], np.int32)).tolist()
    [[1.0, 0.0], [0.0, 0.0], [0.0, 1.0]]
    """

    values: np.ndarray
    is_complete: bool
    block_rows: int

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.values.shape[0], self.values.shape[1]

    def entries(self, rows: Int32s, columns: Int32s) -> Floats:
        """The values at ``(rows[e], columns[e])``, shape (n_entries,)."""
        found = self.values[rows, columns].astype(np.float64)
        release_pages(self.values)
        return found

    def block(self, rows: Int32s, columns: Int32s) -> Floats:
        """The values at ``rows`` x ``columns``, shape (n_rows, n_columns)."""
        return self.columns_of(rows, columns).astype(np.float64)

    def columns_of(self, rows: Int32s, columns: Int32s) -> Float32s:
        """Some columns of some rows, which ascend, shape (n_rows, n_columns)."""
        found = np.empty((len(rows), len(columns)), np.float32)
        for begin, _ in enumerate(spans(self.values, rows, self.block_rows)):
            here = slice(begin * self.block_rows, (begin + 1) * self.block_rows)
            found[here] = self.values[np.ix_(rows[here], columns)]
        return found

    def project(self, rows: Int32s, starts: Ints, projections: Projections) -> Floats:
        """The candidates' values, shape (width, n_rows)."""
        values, width = np.empty((projections.width, len(rows))), projections.width
        for node in range(len(starts) - 1):
            own, of_node = rows[starts[node] : starts[node + 1]], values[:, starts[node] : starts[node + 1]]
            terms = slice(projections.offset[node * width], projections.offset[(node + 1) * width])
            offset = projections.offset[node * width : (node + 1) * width + 1] - terms.start
            candidates = Projections(width, offset, projections.columns[terms], projections.weights[terms])
            for number, (first, last) in enumerate(spans(self.values, own, self.block_rows)):
                here = slice(number * self.block_rows, (number + 1) * self.block_rows)
                source = ArraySource.from_values(self.values[first:last], is_complete=True)  # float32, NaN or not
                places = own[here] - np.int32(first)
                of_node[:, here] = source.project(places, np.array([0, len(places)]), candidates)
        return values


def features_on_disk(rows: Matrix, folder: Path) -> Float32s:
    """Read features into a file without a name in a folder, which is mapped; it goes with the array.

    Raises
    ------
    InputError
        As `distforest.sources.readings.read`.
    JobError
        The disk is full.
    """
    n_rows, n_columns = map(int, rows.shape)
    n_bytes = 4 * n_rows * n_columns
    with partial_file(folder, b"", n_bytes, "name another folder by $DISTFOREST_SCRATCH, or make room") as path:
        found = np.memmap(path, np.float32, "r+", shape=(n_rows, n_columns))
        read(rows, FEATURES, found)
    release_pages(found)
    found.flags.writeable = False
    return found


def has_no_missing(features: Float32s, block_rows: int) -> bool:
    """Whether no value of a memory map is NaN; no more than a block of its pages is resident."""
    complete = True
    for first in range(0, len(features), block_rows):
        complete = complete and is_complete(features[first : first + block_rows])
        release_pages(features)
    return complete
