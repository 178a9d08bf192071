"""Guarded reading of Zarr arrays of unknown origin, with three checks that Zarr lacks.

A store reads regular files only: a pipe would block its reader, and a device never ends. A chunk is decoded only after
the sizes in its frame are checked: Blosc's decoder trusts the length in a frame and reads beyond the end, and a small
frame may announce more bytes than there is memory. A chunk that cannot be decoded raises an `InputError` that names its
file, whatever its codec raises.
"""

from __future__ import annotations

import asyncio
import bz2
import lzma
import math
import os
import stat
import zlib
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

import numcodecs
import numpy as np
import zarr
from numcodecs.blosc import Blosc
from numcodecs.zstd import Zstd
from zarr.codecs import BloscCodec, GzipCodec, ShardingCodec, ZstdCodec
from zarr.core.codec_pipeline import BatchedCodecPipeline
from zarr.storage import LocalStore

from distforest.errors import InputError
from distforest.sources.frames import BLOSC_HEAD, blosc_size, zstd_size
from distforest.sources.sharded import SideBySideShards

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numcodecs.abc import Codec as Codec2
    from typing_extensions import Buffer as Bytes
    from zarr.abc.codec import Codec
    from zarr.abc.store import ByteGetter, ByteRequest
    from zarr.core.array_spec import ArraySpec
    from zarr.core.buffer import Buffer, BufferPrototype, NDBuffer
    from zarr.core.indexing import SelectorTuple
    from zarr.core.metadata import ArrayMetadata

    ZarrArray = zarr.Array[Any]

METADATA = ("zarr.json", ".zarray", ".zgroup", ".zattrs", ".zmetadata")
MAX_METADATA_BYTES = 64 << 20
"""The most bytes of a file of Zarr's metadata; a larger file is not read."""


class Decoder(Protocol):
    """A decoder of one stream, such as `zlib.decompressobj` makes."""

    @property
    def eof(self) -> bool:
        """Whether the end of the stream has been reached."""

    @property
    def unused_data(self) -> bytes:
        """The bytes after the end of the stream."""

    def decompress(self, data: bytes, max_length: int = ..., /) -> bytes:
        """Decode a part of the stream, to at most ``max_length`` bytes."""


NewDecoder = Callable[[], Decoder]
"""Makes the decoder of one stream."""

DECODERS: dict[str, NewDecoder] = {
    "gzip": partial(zlib.decompressobj, 31),
    "zlib": zlib.decompressobj,
    "bz2": bz2.BZ2Decompressor,
    "lzma": lzma.LZMADecompressor,
}
"""Decoders of the codecs whose streams do not announce their decoded size, by name."""


MAX_STREAMS = 1000
"""Streams that a chunk may have: each is decoded from a copy of all bytes that are left."""


class DamagedChunkError(InputError):
    """A chunk that cannot be decoded; the message names its file."""


class RegularStore(LocalStore):
    """A folder of this host of which only regular files are read."""

    async def get(
        self, key: str, prototype: BufferPrototype | None = None, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        """Read a file; None where there is none."""
        self._check(key)
        return await super().get(key, prototype, byte_range)

    def get_sync(self, key: str, **options: Any) -> Buffer | None:
        """Read a file without an event loop, as Zarr may since 3.2; None where there is none."""
        self._check(key)
        store: Any = super()
        found: Buffer | None = store.get_sync(key, **options)
        return found

    def _check(self, key: str) -> None:
        check_regular(self.root / key, MAX_METADATA_BYTES if key.endswith(METADATA) else None)


def check_regular(path: Path, max_bytes: int | None = None) -> None:
    """Refuse a path that is neither a regular file nor a folder, or a file that is too large; raises InputError."""
    try:
        status = os.stat(path)
    except OSError:  # reading it raises the same error
        return
    if stat.S_ISDIR(status.st_mode):  # a reader treats it as a missing file
        return
    if not stat.S_ISREG(status.st_mode):
        raise InputError(f"{path}: a regular file was expected, found a device, pipe or socket; remove it")
    if max_bytes is not None and status.st_size > max_bytes:
        raise InputError(f"{path}: at most {max_bytes:,} bytes were expected, found {status.st_size:,}")


# Zarr decodes by two methods: `_decode_single`, and since 3.2 also `_decode_sync`, which some of its pipelines call.


def _most_bytes(chunk_spec: ArraySpec) -> int | None:
    return max_chunk_bytes(chunk_spec.shape, chunk_spec.dtype.to_native_dtype())


class Checked:
    """A codec of Zarr that checks a frame before it is decoded."""

    check: Callable[[Bytes, int | None], None]

    async def _decode_single(self, chunk_bytes: Buffer, chunk_spec: ArraySpec) -> Buffer:
        self.check(chunk_bytes.as_numpy_array().data, _most_bytes(chunk_spec))
        decoded: Buffer = await cast("Any", super())._decode_single(chunk_bytes, chunk_spec)
        return decoded

    def _decode_sync(self, chunk_bytes: Buffer, chunk_spec: ArraySpec) -> Buffer:
        self.check(chunk_bytes.as_numpy_array().data, _most_bytes(chunk_spec))
        decoded: Buffer = cast("Any", super())._decode_sync(chunk_bytes, chunk_spec)
        return decoded


class Checked2:
    """A codec for Zarr format 2 that checks a frame first; a chunk decodes to at most ``max_bytes``, if any are."""

    check: Callable[[Bytes, int | None], None]

    def __init__(self, max_bytes: int | None) -> None:
        super().__init__()
        self.max_bytes = max_bytes

    def decode(self, buf: Bytes, out: Bytes | None = None) -> Bytes:
        """Decode frames."""
        self.check(buf, self.max_bytes)
        decoded: Bytes = cast("Any", super()).decode(buf, out)
        return decoded


def check_blosc(frame: Bytes, max_bytes: int | None) -> None:
    """Refuse a frame of Blosc with a wrong length or too large a decoded size; raises ValueError."""
    view = memoryview(frame).cast("B")
    size = blosc_size(bytes(view[:BLOSC_HEAD]), len(view))
    if size is None:
        raise ValueError(f"its frame announces another length than its {len(view):,} bytes")
    _check_size(size, max_bytes)


def check_zstd(frames: Bytes, max_bytes: int | None) -> None:
    """Refuse frames of Zstandard that announce too large a decoded size; raises ValueError.

    Their decoder checks everything else.
    """
    size = zstd_size(memoryview(frames).cast("B"))
    if size is not None:
        _check_size(size, max_bytes)


def _check_size(size: int, max_bytes: int | None) -> None:
    if max_bytes is not None and size > max_bytes:
        raise ValueError(f"it announces {size:,} bytes, and may have at most {max_bytes:,}")


class GuardedBlosc(Checked, BloscCodec):
    """Blosc that refuses a frame with a wrong length, or one that announces more bytes than a chunk holds."""

    check = staticmethod(check_blosc)


class GuardedZstd(Checked, ZstdCodec):
    """Zstandard that refuses frames that announce more bytes than a chunk holds."""

    check = staticmethod(check_zstd)


class GuardedBlosc2(Checked2, Blosc):  # type: ignore[misc]  # of a package without types
    """Guarded Blosc for Zarr format 2."""

    check = staticmethod(check_blosc)


class GuardedZstd2(Checked2, Zstd):  # type: ignore[misc]
    """Guarded Zstandard for Zarr format 2."""

    check = staticmethod(check_zstd)


@dataclass(frozen=True)
class GuardedStreams(GzipCodec):
    """A codec, one of `DECODERS`, that stops at the size of a chunk: its streams do not announce their decoded size."""

    name: str = "gzip"

    async def _decode_single(self, chunk_bytes: Buffer, chunk_spec: ArraySpec) -> Buffer:
        return await asyncio.to_thread(self._decode_sync, chunk_bytes, chunk_spec)

    def _decode_sync(self, chunk_bytes: Buffer, chunk_spec: ArraySpec) -> Buffer:
        decoded = unfolded(chunk_bytes.to_bytes(), _most_bytes(chunk_spec), DECODERS[self.name])
        return chunk_spec.prototype.buffer.from_bytes(decoded)


class GuardedStreams2(numcodecs.abc.Codec):  # type: ignore[misc]
    """A codec for Zarr format 2 that stops at the size of a chunk; it only decodes."""

    codec_id = "guarded"

    def __init__(self, new: NewDecoder, max_bytes: int | None) -> None:
        self.new = new
        self.max_bytes = max_bytes

    def encode(self, buf: Bytes) -> Bytes:
        """Refuse to encode: guarded arrays are only read."""
        raise NotImplementedError

    def decode(self, buf: Bytes, out: Bytes | None = None) -> Bytes:
        """Decode one stream after another."""
        decoded = unfolded(bytes(memoryview(buf).cast("B")), self.max_bytes, self.new)
        return numcodecs.compat.ndarray_copy(decoded, out)


def unfolded(streams: bytes, max_bytes: int | None, new: NewDecoder) -> bytes:
    """Decode consecutive streams to at most ``max_bytes``; raises ValueError if there is more, or a stream is cut off.

    Examples
    --------
    >>> unfolded(zlib.compress(b"a" * 9) + zlib.compress(b"b"), 10, zlib.decompressobj)
    b'aaaaaaaaab'
    """
    parts: list[bytes] = []
    room = -1 if max_bytes is None else max_bytes + 1
    while streams:
        if len(parts) == MAX_STREAMS:
            raise ValueError(f"it has more than {MAX_STREAMS} streams")
        decoder = new()
        parts.append(decoder.decompress(streams, room) if room > 0 else decoder.decompress(streams))
        room = room if max_bytes is None else room - len(parts[-1])
        if room == 0:
            raise ValueError(f"it unfolds to more than the {max_bytes:,} bytes that it may have")
        if not decoder.eof:
            raise ValueError("it ends too early")
        streams = decoder.unused_data
    return b"".join(parts)


GUARDED_CODECS: dict[str, Callable[[], Codec]] = {
    "blosc": GuardedBlosc,
    "zstd": GuardedZstd,
    **{name: partial(GuardedStreams, name=name) for name in DECODERS},
}
GUARDED_CODECS_2: dict[str, Callable[[int | None], Codec2]] = {
    "blosc": GuardedBlosc2,
    "zstd": GuardedZstd2,
    **{name: partial(GuardedStreams2, new) for name, new in DECODERS.items()},
}
"""Guarded codecs for Zarr formats 3 and 2, by name. Their options matter only for encoding and are left out."""


class GuardedPipeline(BatchedCodecPipeline):
    """A pipeline that raises an InputError with the file's name for a chunk that its codecs cannot decode."""

    async def read_batch(
        self,
        batch_info: Iterable[tuple[ByteGetter, ArraySpec, SelectorTuple, SelectorTuple, bool]],
        out: NDBuffer,
        drop_axes: tuple[int, ...] = (),
    ) -> Any:
        """Read some chunks; errors of the store are passed on, so that callers can try again.

        Since Zarr 3.2 its caller wants an answer, which says of each chunk whether it is there.
        """
        batch, read = list(batch_info), cast("Any", super().read_batch)
        try:
            return await read(batch, out, drop_axes)
        except _UndecodableError as error:
            files = ", ".join(_file_of(getter) for getter, *_ in batch)
            raise DamagedChunkError(f"{files}: the chunk is damaged: {error}; restore it, or write it anew") from error

    async def decode_batch(
        self, chunk_bytes_and_specs: Iterable[tuple[Buffer | None, ArraySpec]]
    ) -> Iterable[NDBuffer | None]:
        """Decode chunks that were fetched; at this point, an OSError comes from a codec."""
        with _decoding(OSError, *CODEC_ERRORS):
            return await super().decode_batch(chunk_bytes_and_specs)

    async def decode_partial_batch(
        self, batch_info: Iterable[tuple[ByteGetter, SelectorTuple, ArraySpec]]
    ) -> Iterable[NDBuffer | None]:
        """Fetch and decode parts of shards; errors of the store are passed on."""
        with _decoding(*CODEC_ERRORS):
            return await super().decode_partial_batch(batch_info)


CODEC_ERRORS = (ValueError, RuntimeError, EOFError, LookupError, TypeError, AssertionError, zlib.error, lzma.LZMAError)
"""Errors that codecs raise. A MemoryError is not among them, since it does not mean that the chunk is damaged."""


class _UndecodableError(ValueError):
    """Why a chunk cannot be decoded."""


@contextmanager
def _decoding(*kinds: type[Exception]) -> Iterator[None]:
    """Raise errors of these kinds, which codecs raise in the block, as `_UndecodableError`."""
    try:
        yield
    except InputError:
        raise
    except kinds as error:
        raise _UndecodableError(str(error) or type(error).__name__) from error


def _file_of(getter: ByteGetter) -> str:
    """The file of a chunk."""
    store, path = getattr(getter, "store", None), getattr(getter, "path", "")
    root = getattr(store, "root", None) or getattr(store, "path", "")
    return f"{root}/{path}" if root else str(path)


def guarded(array: ZarrArray) -> ZarrArray:
    """The same array with guarded codecs."""
    metadata, max_bytes = array.metadata, max_chunk_bytes(array.chunks, array.dtype)
    with_guards: ArrayMetadata
    if metadata.zarr_format == 2:
        with_guards = replace(
            metadata,
            compressor=_guard_2(metadata.compressor, max_bytes),
            filters=tuple(_guard_2(codec, max_bytes) for codec in metadata.filters) if metadata.filters else None,
        )
    else:
        with_guards = replace(metadata, codecs=_guard_3(metadata.codecs))
    copy = replace(array.async_array, metadata=with_guards)
    codecs: Any = copy.codec_pipeline
    object.__setattr__(copy, "codec_pipeline", GuardedPipeline.from_codecs(codecs))
    return zarr.Array(copy)


def _guard_2(codec: Codec2, max_bytes: int | None) -> Codec2:
    new = GUARDED_CODECS_2.get(getattr(codec, "codec_id", ""))
    return new(max_bytes) if new else codec


def _guard_3(codecs: Iterable[Codec]) -> tuple[Codec, ...]:
    """Guarded codecs in place of these, also inside shards."""
    guards: list[Codec] = []
    for codec in codecs:
        if isinstance(codec, ShardingCodec):
            shards = SideBySideShards(
                chunk_shape=codec.chunk_shape,
                codecs=_guard_3(codec.codecs),
                index_codecs=_guard_3(codec.index_codecs),
                index_location=codec.index_location,
            )
            guards.append(shards)
        else:
            new = GUARDED_CODECS.get(str(codec.to_dict().get("name", "")).removeprefix("numcodecs."))
            guards.append(new() if new else codec)
    return tuple(guards)


def max_chunk_bytes(shape: tuple[int, ...], dtype: np.dtype[np.generic]) -> int | None:
    """The most bytes that a chunk, or another codec's encoding of it, may decode to; None for text of any length."""
    if dtype.kind in "TO":
        return None
    n_bytes = math.prod(shape) * dtype.itemsize
    return n_bytes + n_bytes // 128 + 1024
