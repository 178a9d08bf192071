"""Completeness of arrays on disk: Zarr reads a chunk that is not stored as the fill value, without a warning.

This is how Zarr stores arrays with few values, so other programs may leave chunks out on purpose: for their arrays, a
missing chunk is a warning. distforest writes all chunks, also chunks of zeros, with the SHA-256 of the values: in its
arrays, a missing or changed chunk is damage.
"""

from __future__ import annotations

import hashlib
import math
import operator
import re
import sys
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING

import numpy as np

from distforest.errors import InputError, warn_caller
from distforest.sources.arrays import bytes_of, open_arrays
from distforest.sources.files.bounds import allowed_bytes
from distforest.sources.packed import array_of_values
from distforest.stores.addresses import reaching, store_of
from distforest.threads import in_thread

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from concurrent.futures import Future
    from types import EllipsisType

    from distforest.sources.given import ChunkedArray
    from distforest.sources.guarded import ZarrArray

OF_ANY_LENGTH = "TO"
"""Kinds of dtypes whose arrays hold references to their values, so that they have no memory map and no digest."""


MAX_UNFOLDING = 1000
"""An array may announce at most this many times the bytes that are stored of it; no real data compress better."""


@dataclass(frozen=True)
class Chunks:
    """The chunks of an array, or its shards if it has shards.

    Attributes
    ----------
    count
        How many chunks the array has.
    n_stored, n_bytes
        How many of them are stored, and in how many bytes.
    missing
        Key of the first chunk that is not stored; None if all are.
    """

    count: int
    n_stored: int
    n_bytes: int
    missing: str | None

    @property
    def absence(self) -> str:
        """How many chunks are not stored, in words."""
        return f"{self.count - self.n_stored:,} of {self.count:,} chunks are not stored"


def chunks_of(address: str, array: ZarrArray) -> Chunks:
    """Compare the chunks of a Zarr array with the files at its address.

    The shape that an array announces may be wrong, so time and memory depend only on the number of files. An empty file
    does not count: Zarr reads a truncated shard as if it were not stored.
    """
    fs, root = store_of(address)
    root = root.rstrip("/")
    with reaching(address):
        files = {file[len(root) + 1 :]: about["size"] for file, about in fs.find(root, detail=True).items()}
    sizes, encode = array.shards or array.chunks, array.metadata.encode_chunk_key
    counts = [-(-size // step) for size, step in zip(array.shape, sizes, strict=True)]
    stored = {key for key, size in files.items() if size != 0 and _is_key(key, counts, encode)}
    count = math.prod(counts)
    keys = (encode(_place(number, counts)) for number in range(len(stored) + 1))
    missing = next(key for key in keys if key not in stored) if len(stored) < count else None
    sizes_of = [files[key] for key in stored]
    n_bytes = sys.maxsize if None in sizes_of else sum(sizes_of)  # some stores give no sizes
    return Chunks(count, len(stored), n_bytes, missing)


def _place(number: int, counts: Sequence[int]) -> tuple[int, ...]:
    """The coordinates of a chunk in the grid of chunks, from its number in row order."""
    place = []
    for count in reversed(counts):
        number, rest = divmod(number, count)
        place.append(rest)
    return tuple(reversed(place))


def _is_key(key: str, counts: Sequence[int], encode: Callable[[tuple[int, ...]], str]) -> bool:
    """Whether a file, by its name, holds a chunk."""
    place = tuple(map(int, re.findall(r"\d{1,18}", key)))
    if not counts:
        return key == encode(())
    return len(place) == len(counts) and all(map(operator.lt, place, counts)) and key == encode(place)


def check_stored(addresses: Iterable[str], strict: bool = False, max_bytes: int | None = None) -> tuple[str, ...]:
    """List the inputs with chunks that are not stored, and the values that these are read as.

    Parameters
    ----------
    addresses
        Addresses of Zarr arrays, or of groups of Zarr arrays.
    strict
        Whether an array with such a chunk is refused.
    max_bytes
        The most bytes that an array may announce; None: 1 GiB, or `MAX_UNFOLDING` times the stored bytes if that is
        more.

    Returns
    -------
    tuple of str
        A sentence for each array, not written by distforest, with such a chunk.

    Raises
    ------
    InputError
        A chunk that distforest has written is missing, or, with ``strict``, any chunk; or an array announces too much.
    """
    sentences: list[str] = []
    for address in dict.fromkeys(addresses):
        for place, array in open_arrays(address):
            chunks = chunks_of(place, array)
            if chunks.missing is not None:
                sentences.append(_absence_in(place, array, chunks, strict))
            _check_announced(place, bytes_of(array.shape, array.dtype), chunks, max_bytes)
    return tuple(sentences)


def _absence_in(address: str, array: ZarrArray, chunks: Chunks, strict: bool) -> str:
    """A sentence on how the absent chunks of an array are read; raises InputError where none may be absent."""
    if sha256_of(array):
        missing = f"{chunks.count - chunks.n_stored:,} of {chunks.count:,}"
        damage = f"chunk {chunks.missing} is missing ({missing}), and all were written"
        raise InputError(f"{address}: {damage}; restore it, or write the array anew")
    value = array_of_values(address, array).fill_value
    fill = value.item() if isinstance(value, np.generic) else value
    found = f"{chunks.absence} and read as {fill!r}"
    if strict:
        raise InputError(f"{address}: all chunks were expected (`strict`), found that {found}; write them all")
    return f"{address}: {found}; if they are lost, restore them (`strict` refuses incomplete arrays)"


def _check_announced(address: str, n_bytes: int, chunks: Chunks, max_bytes: int | None) -> None:
    """Refuse an array that announces more bytes than it may; raises InputError."""
    most = allowed_bytes(chunks.n_bytes, MAX_UNFOLDING, max_bytes)
    if n_bytes > most:
        stored = f"of which {chunks.n_bytes:,} are stored, as {chunks.absence}"
        cure = f"if that is right, allow it: `run.max_bytes={n_bytes}`"
        raise InputError(f"{address}: at most {most:,} bytes were expected, found {n_bytes:,}, {stored}; {cure}")


def warn_of_absent(addresses: Iterable[str], strict: bool = False, max_bytes: int | None = None) -> None:
    """Warn of each input with chunks that are not stored; raises as `check_stored`."""
    for sentence in check_stored(addresses, strict, max_bytes):
        warn_caller(sentence)


def sha256_of(array: ChunkedArray) -> str | None:
    """The digest of the values that is in an array's attributes; None where there is none."""
    attribute = getattr(array, "attrs", {}).get("distforest")
    digest = attribute.get("sha256") if isinstance(attribute, dict) else None
    return digest if isinstance(digest, str) and array.dtype.kind not in OF_ANY_LENGTH else None


@dataclass
class Digested:
    """An array on disk that is read from the first row to the last, and compared with the digest in its attributes.

    A thread computes the digest while the next block is read or this one is worked on; so no block may be changed.
    Where the attributes hold none, none is computed.

    Examples
    --------
    >>> import zarr
    >>> values = np.arange(4.0)
    >>> array = zarr.array(values, attributes={"distforest": {"sha256": hashlib.sha256(values.tobytes()).hexdigest()}})
    >>> read = Digested(array)
    >>> read[0:3].tolist(), read[3:4].tolist()
    ([0.0, 1.0, 2.0], [3.0])
    >>> read.check_digest()
    """

    array: ChunkedArray
    _sum: hashlib._Hash = field(default_factory=hashlib.sha256)
    _next: int = 0
    _summed: Future[None] | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the array."""
        return tuple(self.array.shape)

    @property
    def dtype(self) -> np.dtype[np.generic]:
        """Dtype of the array."""
        return np.dtype(self.array.dtype)

    @property
    def chunks(self) -> tuple[int, ...]:
        """Shape of the array's chunks."""
        return tuple(self.array.chunks)

    @cached_property
    def _written(self) -> str | None:
        return sha256_of(self.array)

    def __getitem__(self, rows: slice | EllipsisType) -> np.ndarray:
        block = np.asarray(self.array[rows])
        if self._written and isinstance(rows, slice) and rows.start == self._next:
            self._finish()
            self._summed = in_thread(partial(self._sum.update, np.ascontiguousarray(block).data), "distforest-digest")
            self._next += len(block)
        return block

    def check_digest(self) -> None:
        """Refuse values whose digest is not the one in the array's attributes; raises InputError.

        If some rows were not read, all values are refused.
        """
        self._finish()
        if self._written and (self._next < self.shape[0] or self._sum.hexdigest() != self._written):
            raise InputError("its values are not those that were written (their SHA-256 differs); write the array anew")

    def _finish(self) -> None:
        """Wait for the digest of the last block."""
        if self._summed is not None:
            self._summed.result()
