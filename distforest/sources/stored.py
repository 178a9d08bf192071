"""Whether an array on disk is all there: a chunk that is not stored is read as the fill value, without a word.

That is how Zarr keeps arrays of few values, so others may leave chunks out by right, and it is told. What distforest
writes is written whole, chunks of zeros too, with the SHA-256 of its values: there a missing chunk is damage, and so is
one that holds other values.
"""

from __future__ import annotations

import hashlib
import itertools
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from distforest.errors import InputError, warn_caller
from distforest.sources.arrays import is_stored, open_array, open_node
from distforest.sources.stores import reaching, store_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

OF_ANY_LENGTH = "TO"
"""Kinds of dtypes whose values lie elsewhere in memory, so that no memory map holds them, and no digest is taken."""


@dataclass(frozen=True)
class Absent:
    """How many of an array's chunks are not stored, of how many; the key of the first, and what is read there."""

    count: int
    n_chunks: int
    first: str
    fill: Any

    def __str__(self) -> str:
        return f"{self.count:,} of {self.n_chunks:,} chunks are not stored and read as {self.fill!r}"


def absent_chunks(address: str, array: Any) -> Absent | None:
    """Compare the chunks of a Zarr array with the files at its address; None where all are stored."""
    fs, root = store_of(address)
    root = root.rstrip("/")
    with reaching(address):
        there = {file[len(root) + 1 :] for file in fs.find(root)}
    keys = list(_keys(array))
    missing = [key for key in keys if key not in there]
    if not missing:
        return None
    fill = array.fill_value
    return Absent(len(missing), len(keys), missing[0], fill.item() if isinstance(fill, np.generic) else fill)


def _keys(array: Any) -> Iterator[str]:
    """The key of each file of an array: of each shard, where it has some, else of each chunk."""
    sizes = array.shards or array.chunks
    counts = (range(-(-size // step)) for size, step in zip(array.shape, sizes, strict=True))
    return map(array.metadata.encode_chunk_key, itertools.product(*counts))


def hold_stored(addresses: Iterable[str], strict: bool = False) -> tuple[str, ...]:
    """Say of which inputs chunks are not stored, and how they are read.

    Parameters
    ----------
    addresses
        Of Zarr arrays, or of groups of these.
    strict
        Whether such an array is refused.

    Returns
    -------
    tuple of str
        A sentence for each array of others of which some are not.

    Raises
    ------
    InputError
        A chunk is missing that distforest has written, or any with ``strict``.
    """
    told: list[str] = []
    for address in dict.fromkeys(addresses):
        for own, array in _arrays(address):
            found = absent_chunks(own, array)
            if found is None:
                continue
            if sha256_of(array):
                what = f"chunk {found.first} is missing ({found.count:,} of {found.n_chunks:,}), and all were written"
                raise InputError(f"{own}: {what}; restore it, or write the array anew")
            if strict:
                raise InputError(f"{own}: all chunks were asked for (`strict`), found that {found}; write them all")
            told.append(f"{own}: {found}; if they are lost, restore them (`strict` refuses what is not whole)")
    return tuple(told)


def warn_of_absent(addresses: Iterable[str], strict: bool = False) -> None:
    """Warn of what `hold_stored` has to say."""
    for told in hold_stored(addresses, strict):
        warn_caller(told)


def opened(values: Any) -> Any:
    """Open the Zarr array at an address, a path or URL; anything else stays as it is. Tells of chunks not stored."""
    is_address = isinstance(values, (str, os.PathLike))
    place = os.fspath(values) if is_address else str(getattr(values, "store_path", ""))
    if is_address or place.startswith("file://"):
        warn_of_absent([place.removeprefix("file://")])
    return open_array(place) if is_address else values


def _arrays(address: str) -> Iterator[tuple[str, Any]]:
    """The array at an address, or those of the group there, with their addresses."""
    node: Any = open_node(address)
    if is_stored(node):
        yield address, node
        return
    for name, array in sorted(node.arrays()):
        yield f"{address.rstrip('/')}/{name}", array


def sha256_of(array: Any) -> str | None:
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

    array: Any
    _sum: Any = field(default_factory=hashlib.sha256)
    _next: int = 0

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the array."""
        return tuple(self.array.shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of the array."""
        return np.dtype(self.array.dtype)

    @property
    def chunks(self) -> tuple[int, ...]:
        """Of the array."""
        return tuple(self.array.chunks)

    def __getitem__(self, rows: Any) -> np.ndarray:
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
