"""A matrix larger than memory, block by block: each is read while the one before is worked on, then given back."""

from __future__ import annotations

import mmap
from typing import TYPE_CHECKING

import numpy as np

from distforest.sources.arrays import map_of, release_pages

if TYPE_CHECKING:
    from collections.abc import Iterator

    from distforest.sources.source import Int32s, Ints


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
