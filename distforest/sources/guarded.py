"""Zarr arrays that anybody may have written, read with three guards that Zarr lacks.

A store gives nothing but regular files: a pipe would hang its reader, a device never ends. A chunk is decoded only
once its frame has been compared with what it must be: Blosc's decoder takes a frame's word for its length and reads
beyond it, and a small frame may announce more than there is memory. And a chunk that cannot be decoded is an
`InputError` that names its file, whatever its codec raises.
"""

from __future__ import annotations

import asyncio
import bz2
import lzma
import math
import os
import stat
import zlib
from collections.abc import Callable, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

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
"""Bytes of a file of Zarr's metadata, beyond which it is not read."""


class Decoder(Protocol):
    """What decodes one stream, as what `zlib.decompressobj` makes."""

    @property
    def eof(self) -> bool:
        """Whether the end of the stream was reached."""

    @property
    def unused_data(self) -> bytes:
        """The bytes behind the stream."""

    def decompress(self, data: bytes, max_length: int = ..., /) -> bytes:
        """Decode a part of the stream, up to so many bytes."""


NewDecoder = Callable[[], Decoder]
"""Makes the decoder of one stream."""

DECODERS: dict[str, NewDecoder] = {
    "gzip": partial(zlib.decompressobj, 31),
    "zlib": zlib.decompressobj,
    "bz2": bz2.BZ2Decompressor,
    "lzma": lzma.LZMADecompressor,
}
"""Of codecs whose streams do not announce what they unfold to."""


MOST_STREAMS = 1000
"""Of a chunk: each is looked for in a copy of all that is left."""


class DamagedChunkError(InputError):
    """A chunk that cannot be decoded; the message names its file."""


class RegularStore(LocalStore):
    """A folder of this host of which only regular files are read."""

    async def get(
        self, key: str, prototype: BufferPrototype | None = None, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        """Read a file; None where there is none."""
        check_regular(self.root / key, MAX_METADATA_BYTES if key.endswith(METADATA) else None)
        return await super().get(key, prototype, byte_range)


def check_regular(path: Path, most: int | None = None) -> None:
    """Refuse what is there and is no regular file, or one of more than so many bytes; raises InputError."""
    try:
        found = os.stat(path)
    except OSError:  # whoever reads it says so
        return
    if stat.S_ISDIR(found.st_mode):  # which cannot be read, and is no file to its readers
        return
    if not stat.S_ISREG(found.st_mode):
        raise InputError(f"{path}: a regular file was expected, found a device, pipe or socket; remove it")
    if most is not None and found.st_size > most:
        raise InputError(f"{path}: at most {most:,} bytes were expected, found {found.st_size:,}")


class GuardedBlosc(BloscCodec):
    """Blosc that decodes no frame that lies about its length, or announces more than a chunk holds."""

    async def _decode_single(self, chunk_bytes: Buffer, chunk_spec: ArraySpec) -> Buffer:
        check_blosc(chunk_bytes.as_numpy_array().data, most_of(chunk_spec.shape, chunk_spec.dtype.to_native_dtype()))
        return await super()._decode_single(chunk_bytes, chunk_spec)


class GuardedZstd(ZstdCodec):
    """Zstandard that decodes no frames that announce more than a chunk holds."""

    async def _decode_single(self, chunk_bytes: Buffer, chunk_spec: ArraySpec) -> Buffer:
        check_zstd(chunk_bytes.as_numpy_array().data, most_of(chunk_spec.shape, chunk_spec.dtype.to_native_dtype()))
        return await super()._decode_single(chunk_bytes, chunk_spec)


class GuardedBlosc2(Blosc):  # type: ignore[misc]  # of a package without types
    """The same, as Zarr format 2 calls it: chunks hold at most so many bytes, None if that is not known."""

    def __init__(self, most: int | None) -> None:
        super().__init__()
        self.most = most

    def decode(self, buf: Bytes, out: Bytes | None = None) -> Bytes:
        """Decode a frame."""
        check_blosc(buf, self.most)
        return super().decode(buf, out)


class GuardedZstd2(Zstd):  # type: ignore[misc]
    """The same, as Zarr format 2 calls it."""

    def __init__(self, most: int | None) -> None:
        super().__init__()
        self.most = most

    def decode(self, buf: Bytes, out: Bytes | None = None) -> Bytes:
        """Decode frames."""
        check_zstd(buf, self.most)
        return super().decode(buf, out)


class GuardedGzip(GzipCodec):
    """Gzip that stops at what a chunk holds: its frames do not announce that."""

    name: ClassVar[str] = "gzip"

    async def _decode_single(self, chunk_bytes: Buffer, chunk_spec: ArraySpec) -> Buffer:
        most = most_of(chunk_spec.shape, chunk_spec.dtype.to_native_dtype())
        found = await asyncio.to_thread(unfolded, chunk_bytes.to_bytes(), most, DECODERS[self.name])
        return chunk_spec.prototype.buffer.from_bytes(found)


class GuardedZlib(GuardedGzip):
    """The same of zlib."""

    name = "zlib"


class GuardedBz2(GuardedGzip):
    """The same of bzip2."""

    name = "bz2"


class GuardedLzma(GuardedGzip):
    """The same of LZMA."""

    name = "lzma"


class Guarded2(numcodecs.abc.Codec):  # type: ignore[misc]
    """A codec of Zarr format 2 that stops at what a chunk holds; it only decodes."""

    codec_id = "guarded"

    def __init__(self, new: NewDecoder, most: int | None) -> None:
        self.new = new
        self.most = most

    def encode(self, buf: Bytes) -> Bytes:
        """Refuse: what is under guard is read."""
        raise NotImplementedError

    def decode(self, buf: Bytes, out: Bytes | None = None) -> Bytes:
        """Decode one stream after another."""
        found = unfolded(bytes(memoryview(buf).cast("B")), self.most, self.new)
        return numcodecs.compat.ndarray_copy(found, out)


OF_FORMAT_3: dict[str, Callable[[], Codec]] = {
    "blosc": GuardedBlosc,
    "zstd": GuardedZstd,
    "gzip": GuardedGzip,
    "zlib": GuardedZlib,
    "bz2": GuardedBz2,
    "lzma": GuardedLzma,
}
OF_FORMAT_2: dict[str, Callable[[int | None], Codec2]] = {
    "blosc": GuardedBlosc2,
    "zstd": GuardedZstd2,
    **{name: partial(Guarded2, new) for name, new in DECODERS.items()},
}
"""Decoders by their names; what else a codec is told matters only to who encodes, but for raw LZMA, which is left."""


class GuardedPipeline(BatchedCodecPipeline):
    """Reads chunks; one that its codecs cannot decode is an InputError that names its file."""

    async def read_batch(
        self,
        batch_info: Iterable[tuple[ByteGetter, ArraySpec, SelectorTuple, SelectorTuple, bool]],
        out: NDBuffer,
        drop_axes: tuple[int, ...] = (),
    ) -> None:
        """Read some chunks; what a store raises is left to who retries."""
        batch = list(batch_info)
        try:
            await super().read_batch(batch, out, drop_axes)
        except _UndecodableError as error:
            files = ", ".join(_file_of(getter) for getter, *_ in batch)
            raise DamagedChunkError(f"{files}: the chunk is damaged: {error}; restore it, or write it anew") from error

    async def decode_batch(
        self, chunk_bytes_and_specs: Iterable[tuple[Buffer | None, ArraySpec]]
    ) -> Iterable[NDBuffer | None]:
        """Decode what was fetched; an OSError is of a codec then."""
        with _decoding(OSError, *OF_CODECS):
            return await super().decode_batch(chunk_bytes_and_specs)

    async def decode_partial_batch(
        self, batch_info: Iterable[tuple[ByteGetter, SelectorTuple, ArraySpec]]
    ) -> Iterable[NDBuffer | None]:
        """Fetch and decode parts of shards; the errors of a store stay what they are."""
        with _decoding(*OF_CODECS):
            return await super().decode_partial_batch(batch_info)


OF_CODECS = (ValueError, RuntimeError, EOFError, LookupError, TypeError, AssertionError, zlib.error, lzma.LZMAError)
"""What codecs raise. The clients of stores have errors of their own, and a lack of memory says nothing of a chunk."""


class _UndecodableError(ValueError):
    """Why a chunk cannot be decoded."""


@contextmanager
def _decoding(*kinds: type[Exception]) -> Iterator[None]:
    """Tell errors of codecs from all others."""
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
    """The same array, its codecs under guard."""
    metadata, most = array.metadata, most_of(array.chunks, array.dtype)
    own: ArrayMetadata
    if metadata.zarr_format == 2:
        own = replace(
            metadata,
            compressor=_guard_2(metadata.compressor, most),
            filters=tuple(_guard_2(codec, most) for codec in metadata.filters) if metadata.filters else None,
        )
    else:
        own = replace(metadata, codecs=_guard_3(metadata.codecs))
    found = replace(array.async_array, metadata=own)
    codecs: Any = found.codec_pipeline
    object.__setattr__(found, "codec_pipeline", GuardedPipeline.from_codecs(codecs))
    return zarr.Array(found)


def _guard_2(codec: Codec2, most: int | None) -> Codec2:
    known = OF_FORMAT_2.get(getattr(codec, "codec_id", ""))
    return known(most) if known and getattr(codec, "format", None) != lzma.FORMAT_RAW else codec


def _guard_3(codecs: Iterable[Codec]) -> tuple[Codec, ...]:
    """Codecs under guard, those inside of shards too."""
    found: list[Codec] = []
    for codec in codecs:
        if isinstance(codec, ShardingCodec):
            own, index = _guard_3(codec.codecs), _guard_3(codec.index_codecs)
            found.append(replace(codec, codecs=own, index_codecs=index))
        else:
            described = codec.to_dict()
            options = described.get("configuration")
            known = OF_FORMAT_3.get(str(described.get("name", "")).removeprefix("numcodecs."))
            is_raw = isinstance(options, Mapping) and options.get("format") == lzma.FORMAT_RAW
            found.append(known() if known and not is_raw else codec)
    return tuple(found)


def most_of(shape: tuple[int, ...], dtype: np.dtype[np.generic]) -> int | None:
    """Bytes that a chunk may decode to, or what was encoded of it by another codec; None for text of any length."""
    if dtype.kind in "TO":
        return None
    n_bytes = math.prod(shape) * dtype.itemsize
    return n_bytes + n_bytes // 128 + 1024


def check_blosc(frame: Bytes, most: int | None) -> None:
    """Refuse a frame of Blosc that cannot be one of a chunk; raises ValueError."""
    view = memoryview(frame).cast("B")
    size = blosc_size(bytes(view[:BLOSC_HEAD]), len(view))
    if size is None:
        raise ValueError(f"its frame says that it has other bytes than the {len(view):,} there are")
    _check_size(size, most)


def check_zstd(frames: Bytes, most: int | None) -> None:
    """Refuse frames of Zstandard that announce more than a chunk; raises ValueError. Their decoder sees to the rest."""
    size = zstd_size(bytes(memoryview(frames).cast("B")))
    if size is not None:
        _check_size(size, most)


def unfolded(streams: bytes, most: int | None, new: NewDecoder) -> bytes:
    """Decode streams that follow each other, up to what a chunk holds; raises ValueError for more, or for less.

    Examples
    --------
    >>> unfolded(zlib.compress(b"a" * 9) + zlib.compress(b"b"), 10, zlib.decompressobj)
    b'aaaaaaaaab'
    """
    parts: list[bytes] = []
    n_streams = 0
    room = -1 if most is None else most + 1
    while streams:
        n_streams += 1
        if n_streams > MOST_STREAMS:
            raise ValueError(f"it has more than {MOST_STREAMS} streams")
        decoder = new()
        parts.append(decoder.decompress(streams, room) if room > 0 else decoder.decompress(streams))
        room = room if most is None else room - len(parts[-1])
        if room == 0:
            raise ValueError(f"it unfolds to more than the {most:,} bytes that it may have")
        if not decoder.eof:
            raise ValueError("it ends too early")
        streams = decoder.unused_data
    return b"".join(parts)


def _check_size(size: int, most: int | None) -> None:
    if most is not None and size > most:
        raise ValueError(f"it announces {size:,} bytes, and may have {most:,} at most")
