"""Arrays of strangers: whatever codecs they have, no frame is decoded that is not one of its chunk."""

from __future__ import annotations

import bz2
import gzip
import itertools
import lzma
import os
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numcodecs
import numpy as np
import pytest
import zarr
from zarr.codecs import BloscCodec, BytesCodec, ShardingCodec, ZstdCodec
from zarr.core import codec_pipeline
from zarr.storage import LocalStore

from distforest.errors import InputError
from distforest.sources import guarded
from distforest.sources.arrays import open_array
from distforest.sources.guarded import MAX_METADATA_BYTES, DamagedChunkError, RegularStore
from distforest.sources.readings import FEATURES
from distforest.sources.scratch import ScratchFolder
from distforest.sources.staging import stage
from tests.messages import naming

UNSEEN = {("bytes", "noise"), ("shards", "empty"), ("shards", "twice")}
"""Damage that no codec can see: bytes are not checked, an empty shard holds no chunk, and a shard ends in its index."""

VALUES = np.arange(800.0).reshape(100, 8)
BLOSC: dict[str, dict[str, Any]] = {
    "blosc": {"compressors": [BloscCodec()]},
    "blosc of format 2": {"zarr_format": 2, "compressors": numcodecs.Blosc()},
}
ZSTD: dict[str, dict[str, Any]] = {
    "zstd": {"compressors": [ZstdCodec()]},
    "zstd of format 2": {"zarr_format": 2, "compressors": numcodecs.Zstd()},
}
STREAMS: dict[str, dict[str, Any]] = {
    "gzip": {"compressors": [zarr.codecs.GzipCodec()]},
    "gzip of format 2": {"zarr_format": 2, "compressors": numcodecs.GZip()},
    "zlib of format 2": {"zarr_format": 2, "compressors": numcodecs.Zlib()},
    "bz2 of format 2": {"zarr_format": 2, "compressors": numcodecs.BZ2()},
    "lzma of format 2": {"zarr_format": 2, "compressors": numcodecs.LZMA()},
}
PACK: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "zlib": zlib.compress,
    "bz2": bz2.compress,
    "lzma": lzma.compress,
}
OTHERS: dict[str, dict[str, Any]] = {
    "bytes": {"compressors": None},
    "lz4 of format 2": {"zarr_format": 2, "compressors": numcodecs.LZ4()},
    "two codecs": {"compressors": [ZstdCodec(), BloscCodec()]},
    "shards": {"serializer": ShardingCodec(chunk_shape=(5, 8), codecs=[BytesCodec(), BloscCodec()])},
    "filters": {"zarr_format": 2, "filters": [numcodecs.Delta(dtype="f8")], "compressors": numcodecs.Blosc()},
}


def coded(folder: Path, options: dict[str, Any]) -> str:
    if "serializer" in options:
        options = {**options, "compressors": None}
    zarr.create_array(f"{folder}/X", data=VALUES, chunks=(50, 8), **options)
    return f"{folder}/X"


def chunk_of(address: str) -> Path:
    found = [Path(address, key) for key in ("c/0/0", "0.0")]
    return next(path for path in found if path.exists())


@pytest.mark.parametrize("name", [*BLOSC, *ZSTD, *STREAMS, *OTHERS])
def test_honest_arrays_are_read(name: str, tmp_path: Path) -> None:
    address = coded(tmp_path, {**BLOSC, **ZSTD, **STREAMS, **OTHERS}[name])
    np.testing.assert_array_equal(open_array(address)[:], VALUES)
    np.testing.assert_array_equal(open_array(address)[40:60, 3], VALUES[40:60, 3])


def lies(frame: bytes) -> bytes:
    """Twenty bytes that claim to be a chunk, copied as it is: what lies behind them in memory would be returned."""
    return frame[:2] + bytes([frame[2] | 2]) + frame[3:12] + struct.pack("<I", 16 + 3200) + b"\0\0\0\0"


@pytest.mark.parametrize("name", BLOSC)
def test_a_frame_that_lies_about_its_length_is_refused(name: str, tmp_path: Path) -> None:
    address = coded(tmp_path, BLOSC[name])
    chunk = chunk_of(address)
    chunk.write_bytes(lies(chunk.read_bytes()))
    with pytest.raises(InputError, match="20 bytes"):
        open_array(address)[:]
    with pytest.raises(InputError, match=f"^{chunk}: "):
        stage(address, FEATURES, ScratchFolder(tmp_path / "scratch"))


PIPELINES = [name for name in ("BatchedCodecPipeline", "FusedCodecPipeline") if hasattr(codec_pipeline, name)]
"""Pipelines of Zarr, one of which a user may choose, also for what is inside shards."""


@pytest.mark.slow
@pytest.mark.parametrize("pipeline", PIPELINES)
def test_a_frame_inside_a_shard_that_lies_is_refused(pipeline: str, tmp_path: Path) -> None:
    address = coded(tmp_path, OTHERS["shards"])
    shard = bytearray(chunk_of(address).read_bytes())
    frame = shard.index(b"\x02\x01")  # the first frame begins with Blosc's version
    struct.pack_into("<I", shard, frame + 12, 1 << 20)
    chunk_of(address).write_bytes(shard)
    with zarr.config.set({"codec_pipeline.path": f"{codec_pipeline.__name__}.{pipeline}"}):
        array = open_array(address)
        for rows in (slice(None), slice(2, 9)):
            with pytest.raises(DamagedChunkError, match=naming(chunk_of(address), "frame", "length")):
                array[rows]


@pytest.mark.parametrize("codec", [BloscCodec, ZstdCodec, zarr.codecs.GzipCodec])
def test_no_way_to_decode_goes_round_a_guard(codec: type) -> None:
    """A version of Zarr may bring another one."""
    ways = {name for name in vars(codec) if name.startswith("_decode")}
    assert "_decode_single" in ways
    assert ways <= set(vars(guarded.Checked)) & set(vars(guarded.GuardedStreams))


def test_no_way_to_a_file_goes_round_the_check_of_what_it_is() -> None:
    assert {name for name in vars(LocalStore) if name in {"get", "get_sync"}} <= set(vars(RegularStore))


@pytest.mark.slow
@pytest.mark.parametrize("name", [*BLOSC, *ZSTD])
def test_a_frame_that_unfolds_to_more_than_its_chunk_is_refused_before_it_is_decoded(name: str, tmp_path: Path) -> None:
    address = coded(tmp_path, {**BLOSC, **ZSTD}[name])
    encode: Callable[[bytes], Any] = numcodecs.Blosc().encode if name in BLOSC else numcodecs.Zstd().encode
    chunk_of(address).write_bytes(bytes(encode(bytes(1 << 30))))
    with pytest.raises(InputError, match="1,073,741,824"):
        open_array(address)[:]


@pytest.mark.slow
@pytest.mark.parametrize("name", STREAMS)
def test_a_stream_that_unfolds_to_more_than_its_chunk_is_left_at_once(name: str, tmp_path: Path) -> None:
    address = coded(tmp_path, STREAMS[name])
    chunk_of(address).write_bytes(PACK[name.split(maxsplit=1)[0]](bytes(1 << 26)))
    with pytest.raises(DamagedChunkError, match=naming(f"{chunk_of(address)}: ", "4,249")):
        open_array(address)[:]


@pytest.mark.parametrize("name", STREAMS)
def test_streams_that_follow_each_other_are_one(name: str, tmp_path: Path) -> None:
    address = coded(tmp_path, STREAMS[name])
    pack, values = PACK[name.split(maxsplit=1)[0]], VALUES[:50].tobytes()
    chunk_of(address).write_bytes(pack(values[:40]) + pack(values[40:]))
    np.testing.assert_array_equal(open_array(address)[:], VALUES)


@pytest.mark.parametrize(
    ("name", "damage"),
    sorted({*itertools.product([*BLOSC, *ZSTD, *STREAMS, *OTHERS], ["half", "empty", "noise", "twice"])} - UNSEEN),
)
def test_a_damaged_chunk_is_named(name: str, damage: str, tmp_path: Path) -> None:
    address = coded(tmp_path, {**BLOSC, **ZSTD, **STREAMS, **OTHERS}[name])
    chunk = chunk_of(address)
    frame = chunk.read_bytes()
    noise = np.random.default_rng(0).bytes(len(frame))
    chunk.write_bytes({"half": frame[: len(frame) // 2], "empty": b"", "noise": noise, "twice": 2 * frame}[damage])
    with pytest.raises(DamagedChunkError, match=f"^{chunk}: "):
        open_array(address)[:]


class ClientError(Exception):
    """What a store's client raises, which is no OSError."""


@pytest.mark.parametrize("name", ["zstd", "shards"])
@pytest.mark.parametrize("kind", [ClientError, ConnectionResetError, MemoryError])
def test_what_a_store_raises_is_not_damage(
    name: str, kind: type[Exception], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    array = open_array(coded(tmp_path, {**ZSTD, **OTHERS}[name]))

    async def get(*_asked: Any, **_more: Any) -> None:
        raise kind("the server is gone")

    monkeypatch.setattr(RegularStore, "get", get)
    with pytest.raises(kind, match="the server is gone"):
        array[:]


def test_a_chunk_of_very_many_streams_is_refused(tmp_path: Path) -> None:
    address = coded(tmp_path, STREAMS["gzip"])
    chunk_of(address).write_bytes(gzip.compress(b"") * 1001 + gzip.compress(VALUES[:50].tobytes()))
    with pytest.raises(DamagedChunkError, match="1000"):
        open_array(address)[:]


@pytest.mark.parametrize("place", ["zarr.json", "c/0/0"])
@pytest.mark.parametrize("make", [os.mkfifo, lambda path: path.symlink_to("/dev/zero")])
def test_what_is_no_regular_file_is_refused_unread(place: str, make: Callable[[Path], None], tmp_path: Path) -> None:
    address = coded(tmp_path, BLOSC["blosc"])
    Path(address, place).unlink()
    make(Path(address, place))
    with pytest.raises(InputError, match=naming(place, "regular")):
        open_array(address)[:]


def test_metadata_that_are_too_large_are_refused_unread(tmp_path: Path) -> None:
    address = coded(tmp_path, BLOSC["blosc"])
    with Path(address, "zarr.json").open("r+b") as file:
        file.truncate(MAX_METADATA_BYTES + 1)
    with pytest.raises(InputError, match="67,108,864"):
        open_array(address)
