"""Arrays as sources: in memory, as memory maps, and in Zarr; how Zarr arrays are read and written."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import zarr
import zarr.errors
from zarr.codecs import BloscCodec, Crc32cCodec
from zarr.storage import FsspecStore

from distforest.amounts import counted
from distforest.errors import InputError
from distforest.jit import borrowing
from distforest.sources.given import is_stored
from distforest.sources.guarded import RegularStore, guarded
from distforest.sources.source import Floats, Int32s, Ints, Projections, Similarities
from distforest.stores.addresses import is_remote, may_pass, reaching, store_options
from distforest.stores.room import told_if_full

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from numpy.typing import DTypeLike
    from zarr.abc.store import ByteRequest
    from zarr.core.buffer import Buffer, BufferPrototype
    from zarr.core.common import JSON
    from zarr.storage import StoreLike

    from distforest.sources.given import ChunkedArray
    from distforest.sources.guarded import ZarrArray

    Matrix = np.ndarray | ChunkedArray

CHUNK_BYTES = 4 << 20
"""Size of a chunk, decoded, that `write_array` aims at."""
PROJECTED_ROWS = 128
"""Rows that are projected at once."""
SPARSE = "sparse"
"""The attribute of a group that says that its arrays are a sparse matrix: see `distforest.sources.sparse_store`."""


@dataclass(frozen=True)
class ArraySource:
    """A matrix in memory or in a memory map: features are float32, similarities may be float64.

    Attributes
    ----------
    values
        The matrix, shape (n_rows, n_columns).
    is_complete
        Whether it is known that none of them is NaN.

    Examples
    --------
    >>> source = ArraySource.of(np.eye(3))
    >>> source.entries(np.array([0, 1], np.int32), np.array([0, 2], np.int32))
    array([1., 0.])
    """

    values: np.ndarray
    is_complete: bool = False

    @classmethod
    def of(cls, values: np.ndarray, is_complete: bool = False) -> ArraySource:
        """A source of ``values``, shape (n_rows, n_columns), read-only: float32, or float64 if it may lack some."""
        array = np.ascontiguousarray(values, np.float32 if is_complete else held_in(values.dtype)).view()
        array.flags.writeable = False  # one type for memory and memory map: the kernels are compiled once
        return cls(array, is_complete)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.values.shape[0], self.values.shape[1]

    def entries(self, rows: Int32s, columns: Int32s) -> Floats:
        """The values at ``(rows[e], columns[e])``, shape (n_entries,)."""
        return self.values[rows, columns].astype(np.float64)

    def block(self, rows: Int32s, columns: Int32s) -> Floats:
        """The values at ``rows`` x ``columns``, shape (n_rows, n_columns)."""
        return self.values[np.ix_(rows, columns)].astype(np.float64)

    def project(self, rows: Int32s, starts: Ints, projections: Projections) -> Floats:
        """The candidates' values, shape (width, n_rows)."""
        values = np.empty((projections.width, len(rows)))
        project_array(self.values, rows, starts, projections.offset, projections.columns, projections.weights, values)
        return values


def held_in(dtype: DTypeLike) -> np.dtype[np.generic]:
    """What similarities of a dtype are held in: float32 where it has all of that dtype's values, else float64."""
    return np.dtype(np.float32 if np.can_cast(dtype, np.float32) else np.float64)


@borrowing
def project_array(
    array: Similarities, rows: Int32s, starts: Ints, offset: Ints, columns: Int32s, weights: Floats, values: Floats
) -> None:
    """values[k, r] = sum over e of weights[e] * array[rows[r], columns[e]], e in candidate k of the row's node.

    A few rows at a time, whose entries stay in the processor's cache from candidate to candidate.
    """
    width, places, columns = values.shape[0], rows.view(np.uint32), columns.view(np.uint32)  # see `distforest.jit`
    for node in range(starts.shape[0] - 1):
        for first in range(starts[node], starts[node + 1], PROJECTED_ROWS):
            own = places[first : min(first + PROJECTED_ROWS, starts[node + 1])]
            for k in range(width):
                sums = values[k, first : first + own.shape[0]]
                begin, end = offset[node * width + k], offset[node * width + k + 1]
                if begin == end:
                    sums[:] = 0.0
                for e in range(begin, end):
                    column, weight = columns[e], weights[e]
                    if e == begin:  # written without being read; 0.0 + x is never -0.0
                        for r in range(own.shape[0]):
                            sums[r] = 0.0 + weight * array[own[r], column]
                    else:
                        for r in range(own.shape[0]):
                            sums[r] += weight * array[own[r], column]


class RemoteStore(FsspecStore):
    """A store that is reached through a client, whose errors it raises as OSError: see `reaching`."""

    async def get(self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None = None) -> Buffer | None:
        """Read a file; None where there is none."""
        with reaching(self.path):
            return await super().get(key, prototype, byte_range)

    async def get_partial_values(
        self, prototype: BufferPrototype, key_ranges: Iterable[tuple[str, ByteRequest | None]]
    ) -> list[Buffer | None]:
        """Read parts of files."""
        with reaching(self.path):
            return await super().get_partial_values(prototype, key_ranges)

    async def set(self, key: str, value: Buffer, byte_range: tuple[int, int] | None = None) -> None:
        """Write a file."""
        with reaching(self.path):
            await super().set(key, value, byte_range)

    async def exists(self, key: str) -> bool:
        """Whether there is a file."""
        with reaching(self.path):
            return await super().exists(key)


def zarr_store(address: str) -> StoreLike:
    """The store of a path or URL, as Zarr takes it; what others write is seen at once."""
    return RemoteStore.from_url(address, storage_options=store_options(address)) if is_remote(address) else address


def store_to_read(address: str) -> StoreLike:
    """The store of a path or URL, as Zarr takes it, of which only regular files are read."""
    path = address.removeprefix("file://")
    return zarr_store(address) if "://" in path else RegularStore(path)


def open_array(address: str) -> ZarrArray:
    """Open the Zarr array at ``address``: a path or an fsspec URL, such as ``"data.zarr/X"``.

    Raises
    ------
    InputError
        There is no array at the address (the message says what is there), or one that is unpickled when it is read.
    OSError
        A remote store does not answer.
    """
    return array_at(address, open_node(address))


def open_node(address: str) -> ZarrArray | zarr.Group:
    """Open the Zarr array or group at an address; raises as `open_array` does."""
    try:
        return zarr.open(store_to_read(address), mode="r")
    except InputError as error:
        raise InputError(f"{address}: {error}") from error
    except (FileNotFoundError, KeyError, ValueError, OSError, ImportError, zarr.errors.BaseZarrError) as error:
        if may_pass(error, address):
            raise
        if Path(address).is_file():
            cure = "`distforest ingest` turns one into a group of arrays"
            raise InputError(f"{address}: a Zarr array was expected, found a file; {cure}") from error
        raise InputError(f"{address}: a Zarr array was expected, found none ({error})") from error


def open_arrays(address: str) -> Iterator[tuple[str, ZarrArray]]:
    """Open the Zarr array at an address, or all arrays of the group there, each with its address."""
    node = open_node(address)
    if isinstance(node, zarr.Array):
        yield address, node
        return
    for name, array in sorted(node.arrays()):
        yield f"{address.rstrip('/')}/{name}", array


def is_sparse_group(node: object) -> bool:
    """Whether what was opened is a group that says it is a sparse matrix, or has an array as only these have."""
    if not isinstance(node, zarr.Group):
        return False
    try:
        return isinstance(node.attrs.get(SPARSE), dict) or "indptr" in node
    except ValueError:  # there is one, whose metadata are damaged
        return True


def array_at(address: str, found: ZarrArray | zarr.Group) -> ZarrArray:
    """What was opened at an address, if it is an array that is not unpickled; raises InputError as `open_array`."""
    if is_sparse_group(found):
        where = "which only a given similarity matrix, and queries of its forest, may be"
        raise InputError(f"{address}: a dense Zarr array was expected, found a sparse matrix, {where}")
    if isinstance(found, zarr.Group):
        inside = ", ".join(sorted(found.array_keys())) or "no array"
        raise InputError(f"{address}: a Zarr array was expected, found a group with {inside}; name one of them")
    if "pickle" in {getattr(codec, "codec_id", "") for codec in (*found.filters, *found.compressors)}:
        raise InputError(f"{address}: numbers or text were expected, found pickled objects, which could run any code")
    return guarded(found)


def row_blocks(array: Matrix, block_bytes: int | None = None) -> Iterator[tuple[int, np.ndarray]]:
    """The array in blocks of whole rows, in order, each with its first row; a chunk is decoded once.

    By default what is in memory comes in blocks that stay in the processor's cache, and many chunks of a Zarr array are
    decoded together.
    """
    n_rows = array.shape[0]
    chunk, most = (array.chunks[0], 1 << 26) if is_stored(array) else (1, 1 << 21)
    step = max(1, rows_of(block_bytes or most, array.shape, array.dtype) // chunk) * chunk
    for first in range(0, n_rows, step):
        yield first, np.asarray(array[first : first + step])


def create_array(
    group: str, name: str, shape: tuple[int, ...], dtype: np.dtype[np.generic], chunk_rows: int
) -> ZarrArray:
    """A new checksummed Zarr array ``group/name``, chunked by rows only; its chunks are always written."""
    return zarr.create_array(
        zarr_store(f"{group.rstrip('/')}/{name}"),
        shape=shape,
        dtype=dtype,
        chunks=(max(1, min(chunk_rows, shape[0] or 1)), *(max(1, size) for size in shape[1:])),
        compressors=[BloscCodec(cname="lz4", clevel=1, shuffle="bitshuffle"), Crc32cCodec()],
        fill_value=0,
        config={"write_empty_chunks": True},
    )


def writable_array(group: str, name: str) -> ZarrArray:
    """Open ``group/name`` to fill it; a chunk of zeros is written too, or its absence would look like damage."""
    with zarr.config.set({"array.write_empty_chunks": True}):
        return zarr.open_array(zarr_store(f"{group.rstrip('/')}/{name}"), mode="r+", zarr_format=3)


def bytes_of(shape: tuple[int, ...], dtype: np.dtype[np.generic]) -> int:
    """Size of an array."""
    return math.prod(shape) * dtype.itemsize


def rows_of(n_bytes: int, shape: tuple[int, ...], dtype: np.dtype[np.generic]) -> int:
    """How many rows of an array fill ``n_bytes``, at least one."""
    return max(1, n_bytes // max(1, bytes_of(shape[1:], dtype)))


def write_array(
    group: str,
    name: str,
    shape: tuple[int, ...],
    dtype: np.dtype[np.generic],
    blocks: Iterable[np.ndarray],
    attributes: Mapping[str, JSON] | None = None,
    chunk_bytes: int = CHUNK_BYTES,
) -> str:
    """Write blocks of rows into the Zarr array ``group/name``.

    Parameters
    ----------
    group
        Path or URL of the group; made where it is missing.
    name
        Name of the array.
    shape, dtype
        Of the whole array.
    blocks
        Blocks of consecutive rows of any sizes, together ``shape[0]`` rows.
    attributes
        Further attributes of the array, JSON.
    chunk_bytes
        Size of a chunk aimed at, decoded.

    Returns
    -------
    str
        sha256 of the values in row order, also kept as ``attributes["distforest"]["sha256"]``.

    Raises
    ------
    InputError
        The blocks do not add up to ``shape``.
    """
    zarr.open_group(zarr_store(group), mode="a")
    array = create_array(group, name, shape, np.dtype(dtype), rows_of(chunk_bytes, shape, np.dtype(dtype)))
    digest, first = hashlib.sha256(), 0
    for block in _whole_chunks(blocks, array.chunks[0]):
        values = np.ascontiguousarray(block, dtype)
        if first + len(values) > shape[0] or values.shape[1:] != tuple(shape[1:]):
            raise InputError(f"{name}: blocks of shape {shape} were announced, found more in {block.shape}")
        with told_if_full(f"{group}/{name}", values.nbytes):
            array[first : first + len(values)] = values
        digest.update(values.data)
        first += len(values)
    if first != shape[0]:
        raise InputError(f"{name}: blocks of {counted(shape[0], 'row')} in all were announced, found {first:,}")
    array.attrs.update({**(attributes or {}), "distforest": {"sha256": digest.hexdigest()}})
    return digest.hexdigest()


def _whole_chunks(blocks: Iterable[np.ndarray], rows: int) -> Iterator[np.ndarray]:
    """The same rows in blocks of a multiple of ``rows`` (but the last), so that each chunk is written once."""
    held: list[np.ndarray] = []
    for block in blocks:
        held.append(block)
        count = sum(map(len, held))
        if count >= rows:
            joined = np.concatenate(held)
            whole = count // rows * rows
            yield joined[:whole]
            held = [joined[whole:]]
    if held and sum(map(len, held)):
        yield np.concatenate(held)
