"""Arrays as sources, in memory or as memory maps; and how Zarr arrays are read and written."""

from __future__ import annotations

import hashlib
import math
import mmap
import threading
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
from distforest.jit import no_refcount
from distforest.sources.anndata_columns import (
    CATEGORY_ARRAY,
    CODE_ARRAY,
    VALUE_ARRAY,
    is_categorical,
    without_missing,
)
from distforest.sources.given import is_stored
from distforest.sources.guarded import RegularStore, guarded
from distforest.sources.packed import array_of_values
from distforest.sources.source import Floats, Int32s, Ints, Projections, Similarities, frozen
from distforest.stores.addresses import is_remote, may_pass, reaching, store_options
from distforest.stores.room import explaining_full_disk

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from numpy.typing import DTypeLike
    from zarr.abc.store import ByteRequest
    from zarr.core.buffer import Buffer, BufferPrototype
    from zarr.core.common import JSON
    from zarr.storage import StoreLike

    from distforest.sources.given import ChunkedArray
    from distforest.sources.guarded import ZarrArray
    from distforest.sources.source import Float32s

    Matrix = np.ndarray | ChunkedArray

CHUNK_BYTES = 4 << 20
"""Decoded size of the chunks that `write_array` writes, roughly."""
PROJECTED_ROWS = 128
"""Rows that are projected at once."""
SPARSE = "sparse"
"""The attribute of a group whose arrays are a sparse matrix: see `distforest.sources.sparse_store`."""
OF_TARGETS = {"kind": "targets"}
"""The attribute of a vector that holds amounts, even if all are whole numbers, as `ingest` writes it."""

_ZARR_IS_SET = threading.Lock()
"""Held while Zarr's configuration is changed for a moment: it is that of all threads, and what two change in turn
stays."""

ENCODING = "encoding-type"
"""The attribute by which AnnData says what a group or an array is."""


def is_complete(values: Similarities) -> bool:
    """Whether none of some values, shape (n_rows, n_columns), is NaN; without an array of their size.

    Examples
    --------
    >>> is_complete(np.zeros((2, 2), np.float32)), is_complete(np.array([[0.0, np.nan]]))
    (True, False)
    """
    return not values.size or not np.isnan(np.min(values))


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
    >>> source = ArraySource.from_values(np.eye(3))
    >>> source.entries(np.array([0, 1], np.int32), np.array([0, 2], np.int32))
    array([1., 0.])
    """

    values: np.ndarray
    is_complete: bool = False

    @classmethod
    def from_values(cls, values: np.ndarray, is_complete: bool = False) -> ArraySource:
        """Make a read-only source of ``values``, shape (n_rows, n_columns).

        Complete values become float32; others stay float64 where float32 could not hold their dtype.
        """
        return cls(frozen(values, np.float32 if is_complete else held_in(values.dtype)), is_complete)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.values.shape[0], self.values.shape[1]

    def of_rows(self) -> tuple[np.ndarray, None]:
        """The values."""
        return self.values, None

    def over(self, values: np.ndarray, categories: Float32s | None = None) -> ArraySource:  # noqa: ARG002  (no bins)
        """The source of other rows."""
        return ArraySource.from_values(values, self.is_complete)

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


def are_targets(vector: object) -> bool:
    """Whether an array on disk says that it holds amounts."""
    return OF_TARGETS.items() <= dict(getattr(vector, "attrs", {})).items()


def held_in(dtype: DTypeLike) -> np.dtype[np.float32 | np.float64]:
    """The dtype that holds similarities of a dtype: float32 if it has all values of that dtype, else float64."""
    found: np.dtype[np.float32 | np.float64] = np.dtype("f4" if np.can_cast(dtype, np.float32) else "f8")
    return found


@no_refcount
def project_array(
    array: Similarities, rows: Int32s, starts: Ints, offset: Ints, columns: Int32s, weights: Floats, values: Floats
) -> None:
    """values[k, r] = sum over e of weights[e] * array[rows[r], columns[e]], e in candidate k of the row's node.

    Rows are taken a few at a time, so that their entries stay in the processor's cache from candidate to candidate.
    """
    width, places, columns = values.shape[0], rows.view(np.uint32), columns.view(np.uint32)  # see `distforest.jit`
    for node in range(starts.shape[0] - 1):
        for first in range(starts[node], starts[node + 1], PROJECTED_ROWS):
            chosen = places[first : min(first + PROJECTED_ROWS, starts[node + 1])]
            for k in range(width):
                sums = values[k, first : first + chosen.shape[0]]
                begin, end = offset[node * width + k], offset[node * width + k + 1]
                if begin == end:
                    sums[:] = 0.0
                for e in range(begin, end):
                    column, weight = columns[e], weights[e]
                    if e == begin:  # assigned without reading the sum; 0.0 + x is never -0.0
                        for r in range(chosen.shape[0]):
                            sums[r] = 0.0 + weight * array[chosen[r], column]
                    else:
                        for r in range(chosen.shape[0]):
                            sums[r] += weight * array[chosen[r], column]


class RemoteStore(FsspecStore):
    """A store that is reached through a client; raises the client's errors as OSError, see `reaching`."""

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
    """The store of a path or URL, in the form that Zarr takes; changes by other processes are seen at once."""
    return RemoteStore.from_url(address, storage_options=store_options(address)) if is_remote(address) else address


def store_to_read(address: str) -> StoreLike:
    """The store of a path or URL, in the form that Zarr takes; on this host it reads regular files only."""
    path = address.removeprefix("file://")
    return zarr_store(address) if "://" in path else RegularStore(path)


def open_array(address: str) -> ZarrArray:
    """Open the Zarr array at ``address``: a path or an fsspec URL, such as ``"data.zarr/X"``.

    Raises
    ------
    InputError
        There is no array at the address (the message says what is there), or reading it would unpickle objects.
    OSError
        A remote store does not answer.
    """
    return array_at(address, open_node(address))


def open_node(address: str) -> ZarrArray | zarr.Group:
    """Open the Zarr array or group at an address; raises as `open_array`."""
    try:
        return zarr.open(store_to_read(address), mode="r")
    except InputError as error:
        raise InputError(f"{address}: {error}") from error
    except (FileNotFoundError, KeyError, ValueError, OSError, ImportError, zarr.errors.BaseZarrError) as error:
        if may_pass(error, address):
            raise
        found = "a file" if Path(address).is_file() else f"none ({error})"
        cure = "`distforest ingest` turns files and folders of tables into groups of arrays"
        raise InputError(f"{address}: a Zarr array was expected, found {found}; {cure}") from error


def open_arrays(address: str) -> Iterator[tuple[str, ZarrArray]]:
    """Open the Zarr array at an address, or all arrays of the group there, each with its address."""
    node = open_node(address)
    if isinstance(node, zarr.Array):
        yield address, node
        return
    for name, array in sorted(node.arrays()):
        yield f"{address.rstrip('/')}/{name}", array


def is_sparse_group(node: object) -> bool:
    """Whether an opened array or group is a group whose attributes or arrays are those of a sparse matrix."""
    if not isinstance(node, zarr.Group):
        return False
    try:
        return isinstance(node.attrs.get(SPARSE), dict) or "indptr" in node
    except ValueError:  # there is such an array, and its metadata are damaged
        return True


def array_at(address: str, node: ZarrArray | zarr.Group) -> ZarrArray:
    """Check that the node opened at an address is an array without pickled objects; raises InputError if not.

    Returns the same array with guarded codecs, its values where its numbers are packed, and an error where a column of
    AnnData lacks one: see `distforest.sources.guarded`, `distforest.sources.packed` and
    `distforest.sources.anndata_columns`.
    """
    if is_sparse_group(node):
        where = "which only a given similarity matrix, a graph, observed distances, features, and queries may be"
        raise InputError(f"{address}: a dense Zarr array was expected, found a sparse matrix, {where}")
    if isinstance(node, zarr.Group) and is_categorical(node):
        address, node = f"{address.rstrip('/')}/{CODE_ARRAY}", node[CODE_ARRAY]
    if isinstance(node, zarr.Group):
        inside = ", ".join(sorted(node.array_keys())) or "no array"
        raise InputError(f"{address}: a Zarr array was expected, found a group with {inside}; name one of them")
    if "pickle" in {getattr(codec, "codec_id", "") for codec in (*node.filters, *node.compressors)}:
        raise InputError(f"{address}: numbers or text were expected, found pickled objects, which could run any code")
    array = array_of_values(address, guarded(node))
    group, _, name = address.rstrip("/").rpartition("/")
    if name not in {CODE_ARRAY, VALUE_ARRAY} or not group:
        return array
    try:
        beside = open_node(group)
    except InputError:
        return array
    if not isinstance(beside, zarr.Group):
        return array
    names, categories = beside.get(CATEGORY_ARRAY) if is_categorical(beside) else None, list[object]()
    if isinstance(names, zarr.Group):  # of nullable strings
        names = names.get(VALUE_ARRAY)
    if isinstance(names, zarr.Array):
        categories = np.asarray(array_at(f"{group}/{CATEGORY_ARRAY}", names)[...]).tolist()
    return without_missing(address, array, beside, categories)


def release_pages(array: np.ndarray) -> None:
    """Drop the resident pages of an array that is a memory map or a part of one; of any other array, nothing.

    The values stay what they are: they are read from the file again where they are used again. A map in mode ``"c"``,
    whose changes are in no file, keeps its pages.

    Examples
    --------
    >>> numbers = np.arange(3)
    >>> release_pages(numbers)
    >>> numbers.tolist()
    [0, 1, 2]
    """
    held = map_of(array)
    if held is not None and hasattr(mmap, "MADV_DONTNEED"):
        held.madvise(mmap.MADV_DONTNEED)


def map_of(array: np.ndarray) -> mmap.mmap | None:
    """The memory map to which an array belongs; None without one, or if it holds what its file does not (mode c)."""
    held: object = array
    is_of_file = False
    while isinstance(held, np.ndarray):
        if isinstance(held, np.memmap):
            is_of_file = held.mode != "c"
        held = held.base
    return held if is_of_file and isinstance(held, mmap.mmap) else None


def row_blocks(array: Matrix, block_bytes: int | None = None) -> Iterator[tuple[int, np.ndarray]]:
    """Read the array in blocks of whole rows, in order, each with the number of its first row.

    Each chunk is decoded once. By default, blocks of an array in memory fit into the processor's cache, and blocks of a
    Zarr array hold many chunks, which are decoded together. Pages of a memory map are given back after each block.
    """
    n_rows = array.shape[0]
    chunk, most = (array.chunks[0], 1 << 25) if is_stored(array) else (1, 1 << 21)
    step = max(1, rows_of(block_bytes or most, array.shape, array.dtype) // chunk) * chunk
    for first in range(0, n_rows, step):
        yield first, np.asarray(array[first : first + step])
        if isinstance(array, np.ndarray):
            release_pages(array)


def create_array(
    group: str, name: str, shape: tuple[int, ...], dtype: np.dtype[np.generic], chunk_rows: int
) -> ZarrArray:
    """Create the Zarr array ``group/name`` with checksums, chunked by rows only; chunks of zeros are written too."""
    address = f"{group.rstrip('/')}/{name}"
    with explaining_full_disk(address, math.prod(shape) * dtype.itemsize):
        return array_in(zarr_store(address), shape, dtype, chunk_rows)


def array_in(store: StoreLike, shape: tuple[int, ...], dtype: np.dtype[np.generic], chunk_rows: int) -> ZarrArray:
    """Create a Zarr array in a store of its own, as `create_array` does."""
    return zarr.create_array(
        store,
        shape=shape,
        dtype=dtype,
        chunks=(max(1, min(chunk_rows, shape[0] or 1)), *(max(1, size) for size in shape[1:])),
        compressors=[BloscCodec(cname="lz4", clevel=1, shuffle="bitshuffle"), Crc32cCodec()],
        fill_value=0,
        config={"write_empty_chunks": True},
    )


def writable_array(group: str, name: str) -> ZarrArray:
    """Open ``group/name`` for writing; chunks of zeros are written too, since a missing chunk would look damaged."""
    with _ZARR_IS_SET, zarr.config.set({"array.write_empty_chunks": True}):
        return zarr.open_array(zarr_store(f"{group.rstrip('/')}/{name}"), mode="r+", zarr_format=3)


def bytes_of(shape: tuple[int, ...], dtype: np.dtype[np.generic]) -> int:
    """Size of an array in bytes."""
    return math.prod(shape) * dtype.itemsize


def rows_of(n_bytes: int, shape: tuple[int, ...], dtype: np.dtype[np.generic]) -> int:
    """How many rows of an array fit into ``n_bytes``, at least one."""
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
    """Write blocks of rows as the Zarr array ``group/name``.

    Parameters
    ----------
    group
        Path or URL of the group; it is made if it is missing.
    name
        Name of the array.
    shape, dtype
        Shape and dtype of the whole array.
    blocks
        Blocks of consecutive rows, of any sizes, with ``shape[0]`` rows in total.
    attributes
        Further attributes of the array, JSON.
    chunk_bytes
        Decoded size of a chunk, roughly.

    Returns
    -------
    str
        SHA-256 of the values in row order, also kept as ``attributes["distforest"]["sha256"]``.

    Raises
    ------
    InputError
        The blocks together do not have this shape.
    """
    zarr.open_group(zarr_store(group), mode="a")
    array = create_array(group, name, shape, np.dtype(dtype), rows_of(chunk_bytes, shape, np.dtype(dtype)))
    digest, first = hashlib.sha256(), 0
    for block in _whole_chunks(blocks, array.chunks[0]):
        values = np.ascontiguousarray(block, dtype)
        if first + len(values) > shape[0] or values.shape[1:] != tuple(shape[1:]):
            raise InputError(f"{name}: blocks of shape {shape} were announced, found more in {block.shape}")
        with explaining_full_disk(f"{group}/{name}", values.nbytes):
            array[first : first + len(values)] = values
        digest.update(values.data)
        first += len(values)
    if first != shape[0]:
        raise InputError(f"{name}: blocks of {counted(shape[0], 'row')} in all were announced, found {first:,}")
    array.attrs.update({**(attributes or {}), "distforest": {"sha256": digest.hexdigest()}})
    return digest.hexdigest()


def write_growing(
    group: str,
    name: str,
    tail: tuple[int, ...],
    dtype: np.dtype[np.generic],
    blocks: Iterable[np.ndarray],
    attributes: Mapping[str, JSON] | None = None,
) -> int:
    """Write blocks of rows, each of shape (n, *tail), as the Zarr array ``group/name``; returns their number.

    Unlike `write_array` it need not know the number of rows before it has written them.
    """
    zarr.open_group(zarr_store(group), mode="a")
    step = rows_of(CHUNK_BYTES, (0, *tail), np.dtype(dtype))
    array, n_rows = create_array(group, name, (step, *tail), np.dtype(dtype), step), 0
    for block in _whole_chunks(blocks, step):
        array.resize((n_rows + len(block), *tail))
        with explaining_full_disk(f"{group}/{name}", block.nbytes):
            array[n_rows:] = np.ascontiguousarray(block, dtype)
        n_rows += len(block)
    array.resize((n_rows, *tail))
    array.attrs.update(attributes or {})
    return n_rows


def _whole_chunks(blocks: Iterable[np.ndarray], rows: int) -> Iterator[np.ndarray]:
    """Regroup rows into blocks of a multiple of ``rows``, except the last, so that each chunk is written once."""
    pending: list[np.ndarray] = []
    for block in blocks:
        pending.append(block)
        count = sum(map(len, pending))
        if count >= rows:
            joined = np.concatenate(pending)
            whole = count // rows * rows
            yield joined[:whole]
            pending = [joined[whole:]]
    if pending and sum(map(len, pending)):
        yield np.concatenate(pending)
