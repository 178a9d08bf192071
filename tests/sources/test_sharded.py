"""Chunks of shards that are fetched side by side: the values of Zarr, in few requests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from zarr.abc.store import RangeByteRequest

from distforest.sources import sharded
from distforest.sources.arrays import open_array
from distforest.sources.guarded import RegularStore

VALUES = np.random.default_rng(0).normal(size=(48, 6)).astype(np.float32)


@pytest.fixture(params=["start", "end"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Two shards of 24 rows, of which the second lacks a chunk; chunks of 2 rows and 3 columns."""
    codec = zarr.codecs.ShardingCodec(chunk_shape=(2, 3), index_location=request.param)
    array = zarr.create_array(
        tmp_path / "X", shape=VALUES.shape, dtype="f4", chunks=(24, 6), serializer=codec, compressors=None
    )
    array[:30] = VALUES[:30]
    array[32:] = VALUES[32:]
    return str(tmp_path / "X")


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """The ranges of bytes that are asked of files."""
    ranges, get = list[tuple[int, int]](), RegularStore.get

    async def asking(store: RegularStore, key: str, prototype: Any = None, byte_range: Any = None) -> Any:
        if isinstance(byte_range, RangeByteRequest):
            ranges.append((byte_range.start, byte_range.end))
        return await get(store, key, prototype, byte_range)

    monkeypatch.setattr(RegularStore, "get", asking)
    return ranges


@pytest.mark.slow
@pytest.mark.parametrize("extent", [1, 60, 1 << 20])
def test_any_block_has_the_values_that_zarr_reads(address: str, extent: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sharded, "EXTENT_BYTES", extent)
    ours, plain = open_array(address), zarr.open_array(address, mode="r")
    rng = np.random.default_rng(1)
    for _ in range(20):
        (top, bottom), (left, right) = (np.sort(rng.choice(n + 1, 2, replace=False)) for n in VALUES.shape)
        np.testing.assert_array_equal(ours[top:bottom, left:right], plain[top:bottom, left:right])
    np.testing.assert_array_equal(ours[3:40:3], plain[3:40:3])
    np.testing.assert_array_equal(ours[5], plain[5])
    np.testing.assert_array_equal(ours.oindex[[1, 7, 30], :], plain.oindex[[1, 7, 30], :])
    np.testing.assert_array_equal(ours[...], plain[...])
    assert not plain[30:32].any()


@pytest.mark.parametrize(("most", "together"), [(12, [6]), (4, [2, 4]), (1, [1] * 6)])
def test_neighbours_are_one_request_up_to_a_size(
    most: int, together: list[int], tmp_path: Path, asked: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    chunk = 2 * 6 * 4
    monkeypatch.setattr(sharded, "EXTENT_BYTES", most * chunk)
    zarr.create_array(tmp_path / "X", data=VALUES, chunks=(2, 6), shards=(24, 6), compressors=None)
    array = open_array(str(tmp_path / "X"))
    asked.clear()
    np.testing.assert_array_equal(array[2:14], VALUES[2:14])
    assert sorted((end - begin) // chunk for begin, end in asked) == together
    asked.clear()
    np.testing.assert_array_equal(array[2:4], VALUES[2:4])
    assert len(asked) == 1
    asked.clear()
    np.testing.assert_array_equal(array[:24], VALUES[:24])
    assert not asked  # the whole file
