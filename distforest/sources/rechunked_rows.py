"""Arrays whose chunks are parts of rows, laid out row by row on disk before they are read block by block.

::

    chunks in the store   [ 0 ][ 1 ][ 2 ]       a block of whole rows is a row of chunks, which may be the whole array
                          [ 3 ][ 4 ][ 5 ]
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from distforest.sources.array_files import npy_header
from distforest.sources.arrays import bytes_of, release_pages
from distforest.sources.stored import OF_ANY_LENGTH

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from types import EllipsisType

    from distforest.sources.given import ChunkedArray
    from distforest.sources.guarded import ZarrArray
    from distforest.sources.scratch import ScratchFolder

MOST_OF_CHUNKS = 1 << 28
"""Bytes of a row of chunks up to which it is read at once."""


@dataclass(frozen=True)
class RechunkedRows:
    """An array on disk, row by row; ``attrs`` are those of the array in the store."""

    values: np.ndarray
    attrs: Mapping[str, object]

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the array."""
        return self.values.shape

    @property
    def dtype(self) -> np.dtype[np.generic]:
        """Dtype of the array."""
        return self.values.dtype

    @property
    def chunks(self) -> tuple[int, ...]:
        """A row is a chunk."""
        return (1, *self.values.shape[1:])

    def __getitem__(self, rows: slice | EllipsisType) -> np.ndarray:
        block = np.array(self.values[rows])
        release_pages(self.values)
        return block


def rechunked_bytes(array: ZarrArray) -> int:
    """Bytes of the copy of an array that is made where a row of its chunks is large; 0 where none is made."""
    shape, dtype = tuple(array.shape), np.dtype(array.dtype)
    if len(shape) != 2 or dtype.kind in OF_ANY_LENGTH:
        return 0
    row_of_chunks = bytes_of((min(array.chunks[0], shape[0]), shape[1]), dtype)
    return bytes_of(shape, dtype) if row_of_chunks > MOST_OF_CHUNKS else 0


@contextmanager
def rechunked_rows(array: ZarrArray, scratch: ScratchFolder, why: str) -> Iterator[ChunkedArray]:
    """The array itself, or, where a row of its chunks is large, a copy of it in a file that is removed after the block.

    Parameters
    ----------
    array
        An array of a store.
    scratch
        The folder for staged files.
    why
        For what room is needed.

    Raises
    ------
    JobError
        There is no room for the copy.
    """
    if not rechunked_bytes(array):
        yield array
        return
    shape, dtype, (rows, columns) = tuple(array.shape), np.dtype(array.dtype), array.chunks
    with scratch.new_file(npy_header(shape, dtype), bytes_of(shape, dtype), why) as path:
        laid = np.lib.format.open_memmap(path, mode="r+")
        width = max(1, MOST_OF_CHUNKS // bytes_of((rows, columns), dtype)) * columns
        for first in range(0, shape[0], rows):
            for begin in range(0, shape[1], width):
                here = slice(first, first + rows), slice(begin, begin + width)
                laid[here] = array[here]
                release_pages(laid)
        yield RechunkedRows(laid, dict(array.attrs))
