"""Shards whose chunks are fetched side by side, neighbours in one request; Zarr itself asks for one after another.

A block of rows seldom is a whole shard, since shards may be larger than memory. So it is a run of chunks in the middle
of a file, which a store that is far away sends as fast as it is asked::

    a shard     [ 0 | 1 | 2 | 3 | 4 | 5 | ... | index ]
    a block             `-------------'
    requests            `-----' `-----'                     at once, each of about `EXTENT_BYTES`
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import zarr
from zarr.abc.store import RangeByteRequest
from zarr.codecs import ShardingCodec
from zarr.core.buffer import default_buffer_prototype
from zarr.core.common import concurrent_map

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from zarr.abc.store import ByteGetter, ByteRequest
    from zarr.core.array_spec import ArraySpec
    from zarr.core.buffer import Buffer, BufferPrototype, NDBuffer
    from zarr.core.indexing import SelectorTuple

EXTENT_BYTES = 8 << 20
"""Neighbouring chunks are fetched together up to this size."""

Extent = tuple[int, int]
"""Where bytes of a file begin and end."""


class SideBySideShards(ShardingCodec):
    """The codec of shards, which fetches the chunks of a block before Zarr asks for them."""

    async def _decode_partial_single(
        self, byte_getter: ByteGetter, selection: SelectorTuple, shard_spec: ArraySpec
    ) -> NDBuffer | None:
        fetched = _Fetched(byte_getter)
        chunks_per_shard = self._get_chunks_per_shard(shard_spec)
        wanted = list(_chunks_in(selection, self.chunk_shape))
        if 1 < len(wanted) < math.prod(chunks_per_shard):  # Zarr fetches a whole shard at once
            index = await self._load_shard_index_maybe(fetched, chunks_per_shard)
            if index is not None:
                places = [index.get_chunk_slice(chunk) for chunk in wanted]
                await fetched.fetch(place for place in places if place is not None)
        return await super()._decode_partial_single(fetched, selection, shard_spec)


@dataclass(frozen=True)
class _Fetched:
    """A file of a store, of which some bytes are here already."""

    getter: ByteGetter
    held: dict[ByteRequest, Buffer] = field(default_factory=dict)

    async def get(self, prototype: BufferPrototype, byte_range: ByteRequest | None = None) -> Buffer | None:
        """Bytes of the file."""
        if byte_range is not None and byte_range in self.held:
            return self.held[byte_range]
        found = await self.getter.get(prototype, byte_range)
        if byte_range is not None and found is not None:
            self.held[byte_range] = found
        return found

    async def fetch(self, places: Iterable[Extent]) -> None:
        """Fetch the bytes of some chunks, neighbours together and all at once."""

        async def fetched(together: list[Extent]) -> None:
            begin, end = together[0][0], together[-1][1]
            found = await self.getter.get(default_buffer_prototype(), RangeByteRequest(begin, end))
            if found is not None:
                for first, last in together:
                    self.held[RangeByteRequest(first, last)] = found[first - begin : last - begin]

        runs = [(run,) for run in _neighbours(sorted(set(places)))]
        await concurrent_map(runs, fetched, zarr.config.get("async.concurrency"))


def _chunks_in(selection: Any, chunk_shape: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """The places of the chunks within a shard that a block of it touches; none if it is not a plain block."""
    if not all(isinstance(part, slice) and part.step in (None, 1) for part in selection):
        return iter(())
    each = (range(part.start // size, -(-part.stop // size)) for part, size in zip(selection, chunk_shape, strict=True))
    return itertools.product(*each)


def _neighbours(places: list[Extent]) -> Iterator[list[Extent]]:
    """Runs of chunks that lie one after another in their file."""
    run: list[Extent] = []
    for place in places:
        if run and (place[0] != run[-1][1] or place[1] - run[0][0] > EXTENT_BYTES):
            yield run
            run = []
        run.append(place)
    if run:
        yield run
