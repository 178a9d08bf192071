"""Arrays in memory, as memory maps and in Zarr: what goes in comes out, and the digest is of the values alone."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st

from distforest.errors import InputError
from distforest.jobs.cluster import error_in_words
from distforest.sources.arrays import (
    CHUNK_BYTES,
    ArraySource,
    bytes_of,
    create_array,
    open_array,
    row_blocks,
    rows_of,
    writable_array,
    write_array,
    write_growing,
)
from tests import samples
from tests.messages import naming


@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "bool"])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("is_complete", [True, False])
def test_a_source_holds_features_as_float32_and_cannot_be_written(dtype: str, order: str, is_complete: bool) -> None:
    values = np.array([[0.0, 1.0, 1.0], [1.0, 0.0, 1.0]]).astype(dtype, order=order)  # type: ignore[call-overload]
    source = ArraySource.from_values(values, is_complete)
    wide = dtype == "float64" and not is_complete
    assert (source.shape, source.values.dtype) == ((2, 3), np.float64 if wide else np.float32)
    assert source.values.flags.c_contiguous
    assert not source.values.flags.writeable
    assert source.values.tolist() == values.tolist()
    values[0, 0] = 1  # the user's own array stays theirs


def test_a_memory_map_is_not_copied(tmp_path: Path) -> None:
    X = samples.features(5)
    np.save(tmp_path / "x.npy", X)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    assert np.shares_memory(ArraySource.from_values(mapped).values, mapped)
    assert ArraySource.from_values(mapped).values.tolist() == X.tolist()


@pytest.mark.slow
@settings(max_examples=30)
@given(
    n_rows=st.integers(0, 40),
    tail=st.sampled_from([(), (1,), (3,), (0,)]),
    chunk_bytes=st.sampled_from([1, 16, 100, 4 << 20]),
    cuts=st.lists(st.integers(0, 40), max_size=4),
    dtype=st.sampled_from(["float32", "int64", "uint8", "bool"]),
)
def test_any_blocks_in_any_chunks_are_the_same_array(
    tmp_path_factory: pytest.TempPathFactory,
    n_rows: int,
    tail: tuple[int, ...],
    chunk_bytes: int,
    cuts: list[int],
    dtype: str,
) -> None:
    values = np.random.default_rng(n_rows).integers(0, 2, (n_rows, *tail)).astype(dtype)
    ends = [0, *sorted(min(cut, n_rows) for cut in cuts), n_rows]
    blocks = [values[first:last] for first, last in itertools.pairwise(ends)]
    group = tmp_path_factory.mktemp("arrays") / "g.zarr"
    digest = write_array(str(group), "x", values.shape, values.dtype, blocks, {"own": [1]}, chunk_bytes)
    assert digest == hashlib.sha256(values.tobytes()).hexdigest()
    found = open_array(f"{group}/x")
    assert (found.shape, found.dtype) == (values.shape, values.dtype)
    assert np.asarray(found[...]).tobytes() == values.tobytes()
    assert dict(found.attrs) == {"own": [1], "distforest": {"sha256": digest}}
    back = [block for first, block in row_blocks(found, 64)]
    assert b"".join(block.tobytes() for block in back) == values.tobytes()


def test_blocks_of_rows_are_whole_chunks_in_order(tmp_path: Path) -> None:
    values = np.arange(44, dtype=np.float32).reshape(22, 2)
    write_array(str(tmp_path / "g.zarr"), "x", values.shape, values.dtype, [values], None, 24)
    array = open_array(str(tmp_path / "g.zarr" / "x"))
    assert array.chunks == (3, 2)
    blocks = list(row_blocks(array, 8 * 7))
    assert [(first, len(block)) for first, block in blocks] == [(0, 6), (6, 6), (12, 6), (18, 4)]
    assert [first for first, _ in row_blocks(array, 1)] == list(range(0, 22, 3))
    assert [first for first, _ in row_blocks(values, 16)] == list(range(0, 22, 2))


def test_zarr_is_configured_as_before_after_threads_have_opened_arrays(tmp_path: Path) -> None:
    group, zeros = str(tmp_path / "g.zarr"), np.zeros((4, 2))
    write_array(group, "x", zeros.shape, np.dtype("float32"), [zeros], None, 8)
    before = zarr.config.get("array.write_empty_chunks")
    with ThreadPoolExecutor(8) as pool:
        opened = list(pool.map(lambda _: writable_array(group, "x"), range(64)))
    assert zarr.config.get("array.write_empty_chunks") == before
    assert len(opened) == 64


def test_a_chunk_of_zeros_is_written_too(tmp_path: Path) -> None:
    write_array(str(tmp_path / "g.zarr"), "x", (4, 2), np.dtype("float32"), [np.zeros((4, 2))], None, 8)
    assert len(list((tmp_path / "g.zarr" / "x" / "c").rglob("0"))) >= 4  # or a lost chunk could not be told


@pytest.mark.parametrize(
    ("blocks", "named"),
    [
        ([np.zeros((2, 2))], (4, 2)),
        ([np.zeros((3, 2)), np.zeros((2, 2))], ("shape",)),
        ([np.zeros((4, 3))], ("shape", 3)),
        ([], (4, 0)),
    ],
)
def test_blocks_must_add_up(blocks: list[np.ndarray], named: tuple[object, ...], tmp_path: Path) -> None:
    with pytest.raises(InputError, match=naming("x: ", *named)):
        write_array(str(tmp_path / "g.zarr"), "x", (4, 2), np.dtype("float32"), blocks)


def test_sizes_of_chunks() -> None:
    assert [bytes_of(shape, np.dtype("float32")) for shape in ((), (0, 3), (50, 3))] == [4, 0, 600]
    assert rows_of(100, (50, 3), np.dtype("float32")) == 8
    assert rows_of(1, (50, 3), np.dtype("float64")) == 1
    assert rows_of(100, (50, 0), np.dtype("float64")) == 100
    assert rows_of(100, (50,), np.dtype("uint8")) == 100


def test_an_array_has_checksums(tmp_path: Path) -> None:
    array = create_array(str(tmp_path / "g.zarr"), "x", (2, 2), np.dtype("int32"), 1)
    array[...] = 3
    chunk = tmp_path / "g.zarr" / "x" / "c" / "1" / "0"
    raw = bytearray(chunk.read_bytes())
    raw[-6] ^= 4
    chunk.write_bytes(raw)
    with pytest.raises(ValueError, match=r"(?i)checksum"):
        np.asarray(open_array(str(tmp_path / "g.zarr" / "x"))[...])


def test_an_address_without_an_array_says_what_is_there(tmp_path: Path) -> None:
    group = zarr.open_group(str(tmp_path / "g.zarr"), mode="w")
    with pytest.raises(InputError, match=naming(tmp_path / "g.zarr", "no array")):
        open_array(str(tmp_path / "g.zarr"))
    for name in ("b", "a"):
        group.create_array(name, shape=(1,), dtype="int32")
    with pytest.raises(InputError, match=naming(tmp_path / "g.zarr", "a, b")):
        open_array(str(tmp_path / "g.zarr"))
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged" / "zarr.json").write_text("{")
    (tmp_path / "rows.csv").write_text("1,2\n")
    with pytest.raises(InputError, match=naming("rows.csv", "distforest ingest")):
        open_array(f"{tmp_path}/rows.csv")
    for address in (f"{tmp_path}/none.zarr/X", f"{tmp_path}/damaged", "unknown://x/y"):
        with pytest.raises(InputError, match=naming(address, "none")):
            open_array(address)


@pytest.mark.parametrize(
    "coded",
    [
        {"filters": [{"id": "vlen-utf8"}, {"id": "pickle", "protocol": 5}], "compressor": None},
        {"filters": [{"id": "vlen-utf8"}], "compressor": {"id": "pickle", "protocol": 5}},
    ],
    ids=["filter", "compressor"],
)
def test_pickled_objects_are_refused_unread(tmp_path: Path, coded: dict[str, object]) -> None:
    stored = {"zarr_format": 2, "shape": [2], "chunks": [2], "dtype": "|O", "fill_value": "", "order": "C", **coded}
    (tmp_path / "y").mkdir()
    (tmp_path / "y" / ".zarray").write_text(json.dumps(stored))
    with pytest.raises(InputError, match=naming(tmp_path / "y", "pickle")):
        open_array(str(tmp_path / "y"))


@pytest.mark.parametrize("sizes", [(), (3,), (1, 2, 0, 4), (CHUNK_BYTES // 16, 5)])
def test_an_array_grows_with_its_blocks(sizes: tuple[int, ...], tmp_path: Path) -> None:
    values = np.arange(sum(sizes) * 4.0).reshape(-1, 4)
    blocks = np.split(values, np.cumsum(sizes)[:-1]) if sizes else []
    n_rows = write_growing(
        str(tmp_path / "g.zarr"), "X", (4,), np.dtype(np.float32), blocks, {"feature_names": [*"abcd"]}
    )
    array = open_array(str(tmp_path / "g.zarr/X"))
    assert n_rows == sum(sizes)
    assert array.dtype == np.float32
    assert array.attrs["feature_names"] == [*"abcd"]
    np.testing.assert_array_equal(array[:], values.astype(np.float32))


def test_a_full_disk_is_named_where_an_array_is_made(small_disk: Path) -> None:
    with (small_disk / "filler").open("wb") as filler:
        os.posix_fallocate(filler.fileno(), 0, 4 << 20)
    with pytest.raises(OSError, match=naming(small_disk, "80 bytes", " 0 ")) as caught:
        create_array(f"{small_disk}/a.zarr", "X", (5, 2), np.dtype("f8"), 5)
    assert re.search(naming(small_disk, "run the job again"), error_in_words(caught.value))
