"""Whether an array on disk is all there: a chunk that is not stored is read as the fill value, without a word.

That is how Zarr keeps arrays of few values, so others may leave chunks out by right, and it is told. What distforest
writes is written whole, chunks of zeros too, with the SHA-256 of its values: there a missing chunk is damage, and so is
one that holds other values.
"""

from __future__ import annotations

import hashlib
import math
import operator
import re
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from distforest.errors import InputError, warn_caller
from distforest.sources.arrays import bytes_of, open_arrays
from distforest.sources.files.bounds import allowed_bytes
from distforest.stores.addresses import reaching, store_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from types import EllipsisType

    from distforest.sources.given import ChunkedArray
    from distforest.sources.guarded import ZarrArray

OF_ANY_LENGTH = "TO"
"""Kinds of dtypes whose values lie elsewhere in memory, so that no memory map holds them, and no digest is taken."""


MAX_UNFOLDING = 1000
"""An array announces at most so many times what is stored of it; nothing real is packed more tightly."""


@dataclass(frozen=True)
class Chunks:
    """The chunks of an array: how many there are, how many are stored, in how many bytes; the key of one that is not.

    Of an array of shards these are its shards.
    """

    count: int
    n_stored: int
    n_bytes: int
    missing: str | None

    @property
    def told(self) -> str:
        """How many are not stored."""
        return f"{self.count - self.n_stored:,} of {self.count:,} chunks are not stored"


def chunks_of(address: str, array: ZarrArray) -> Chunks:
    """Compare the chunks of a Zarr array with the files at its address.

    What an array announces may be anything: time and memory are those of the files that there are. An empty file is
    none: a shard that was cut off is read like one that is not stored.
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
    n_bytes = sys.maxsize if None in sizes_of else sum(sizes_of)  # not every store tells sizes
    return Chunks(count, len(stored), n_bytes, missing)


def _place(number: int, counts: Sequence[int]) -> tuple[int, ...]:
    """Where a chunk is in the grid of chunks, by its number in row order."""
    place = []
    for count in reversed(counts):
        number, rest = divmod(number, count)
        place.append(rest)
    return tuple(reversed(place))


def _is_key(key: str, counts: Sequence[int], encode: Callable[[tuple[int, ...]], str]) -> bool:
    """Whether a file is that of a chunk."""
    place = tuple(map(int, re.findall(r"\d{1,18}", key)))
    if not counts:
        return key == encode(())
    return len(place) == len(counts) and all(map(operator.lt, place, counts)) and key == encode(place)


def check_stored(addresses: Iterable[str], strict: bool = False, max_bytes: int | None = None) -> tuple[str, ...]:
    """Say of which inputs chunks are not stored, and how they are read.

    Parameters
    ----------
    addresses
        Of Zarr arrays, or of groups of these.
    strict
        Whether such an array is refused.
    max_bytes
        The most that an array may announce; None: 1 GiB, or `MAX_UNFOLDING` times what is stored if that is more.

    Returns
    -------
    tuple of str
        A sentence for each array of others of which some are not.

    Raises
    ------
    InputError
        A chunk is missing that distforest has written, or any with ``strict``; or an array announces more than it may.
    """
    told: list[str] = []
    for address in dict.fromkeys(addresses):
        for own, array in open_arrays(address):
            chunks = chunks_of(own, array)
            if chunks.missing is not None:
                told.append(_told_of_missing(own, array, chunks, strict))
            _check_announced(own, bytes_of(array.shape, array.dtype), chunks, max_bytes)
    return tuple(told)


def _told_of_missing(address: str, array: ZarrArray, chunks: Chunks, strict: bool) -> str:
    """How chunks are read that are not stored; raises InputError where that may not be."""
    if sha256_of(array):
        missing = f"{chunks.count - chunks.n_stored:,} of {chunks.count:,}"
        what = f"chunk {chunks.missing} is missing ({missing}), and all were written"
        raise InputError(f"{address}: {what}; restore it, or write the array anew")
    fill = array.fill_value.item() if isinstance(array.fill_value, np.generic) else array.fill_value
    found = f"{chunks.told} and read as {fill!r}"
    if strict:
        raise InputError(f"{address}: all chunks were expected (`strict`), found that {found}; write them all")
    return f"{address}: {found}; if they are lost, restore them (`strict` refuses what is not whole)"


def _check_announced(address: str, n_bytes: int, chunks: Chunks, max_bytes: int | None) -> None:
    """Refuse an array that announces more than it may; raises InputError."""
    most = allowed_bytes(chunks.n_bytes, MAX_UNFOLDING, max_bytes)
    if n_bytes > most:
        stored = f"of which {chunks.n_bytes:,} are stored, as {chunks.told}"
        cure = f"if that is right, allow it: `run.max_bytes={n_bytes}`"
        raise InputError(f"{address}: at most {most:,} bytes were expected, found {n_bytes:,}, {stored}; {cure}")


def warn_of_absent(addresses: Iterable[str], strict: bool = False, max_bytes: int | None = None) -> None:
    """Warn of what `check_stored` has to say."""
    for told in check_stored(addresses, strict, max_bytes):
        warn_caller(told)


def sha256_of(array: ChunkedArray) -> str | None:
    """The digest of its values that an array says it was written with; None where it says none."""
    said = getattr(array, "attrs", {}).get("distforest")
    found = said.get("sha256") if isinstance(said, dict) else None
    return found if isinstance(found, str) and array.dtype.kind not in OF_ANY_LENGTH else None


@dataclass
class Digested:
    """An array on disk whose values are added up while they are read, from the first row to the last.

    Examples
    --------
    >>> import zarr
    >>> array = Digested(zarr.array(np.arange(4.0)))
    >>> values = array[0:3], array[3:4]
    >>> array.sha256() == hashlib.sha256(np.arange(4.0).tobytes()).hexdigest()
    True
    """

    array: ChunkedArray
    _sum: hashlib._Hash = field(default_factory=hashlib.sha256)
    _next: int = 0

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the array."""
        return tuple(self.array.shape)

    @property
    def dtype(self) -> np.dtype[np.generic]:
        """Of the array."""
        return np.dtype(self.array.dtype)

    @property
    def chunks(self) -> tuple[int, ...]:
        """Of the array."""
        return tuple(self.array.chunks)

    def __getitem__(self, rows: slice | EllipsisType) -> np.ndarray:
        block = np.asarray(self.array[rows])
        if isinstance(rows, slice) and rows.start == self._next:
            self._sum.update(np.ascontiguousarray(block).data)
            self._next += len(block)
        return block

    def sha256(self) -> str | None:
        """The digest of all values; None if some were not read."""
        return self._sum.hexdigest() if self._next == self.shape[0] else None

    def hold(self) -> None:
        """Refuse values that are not those that the array says it was written with; raises InputError."""
        said = sha256_of(self.array)
        if said and self.sha256() != said:
            raise InputError("its values are not those that were written (their SHA-256 differs); write the array anew")
