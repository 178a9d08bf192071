"""Forests whose files are no files, or not the ones that were checked: each is refused, at once and by name."""

from __future__ import annotations

import json
import os
import re
import shutil
import struct
from collections.abc import Callable
from pathlib import Path

import google_crc32c
import numpy as np
import pytest
from numcodecs import Zstd

from distforest.forest.sealed.artifact import MAX_MANIFEST_BYTES, MAX_ZARR_JSON_BYTES
from tests.forest.sealed.damage import SealedOf, refusal, rewrite
from tests.forest.sealed.test_artifact import checked, peak_of, rewritten

PLACES = ("manifest.json", "left/zarr.json", "left/c/0")


def a_pipe(path: Path) -> None:
    os.mkfifo(path)


def a_device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def a_folder(path: Path) -> None:
    path.mkdir()


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("make", [a_pipe, a_device, a_folder])
def test_what_is_no_regular_file_is_refused_unread(make: Callable[[Path], None], place: str, damaged: SealedOf) -> None:
    path = damaged("labels")
    (path / place).unlink()
    make(path / place)
    told = refusal(path)
    assert Path(place).parts[0] in told
    assert "regular file" in told


@pytest.mark.parametrize(("place", "most"), [(PLACES[0], MAX_MANIFEST_BYTES), (PLACES[1], MAX_ZARR_JSON_BYTES)])
def test_a_file_that_is_too_large_is_refused_unread(place: str, most: int, damaged: SealedOf) -> None:
    path = damaged("labels")
    with (path / place).open("r+b") as file:
        file.truncate(3 << 30)  # of holes: it takes no room
    assert f"{most:,} bytes" in refusal(path)


def test_a_chunk_that_is_larger_than_its_values_is_refused_unread(damaged: SealedOf) -> None:
    path = rewritten(damaged("labels"), "zstd")
    with (path / "left/c/0").open("r+b") as file:
        file.truncate(3 << 30)
    assert re.match(r"left: chunk 0 .*[\d,]+ bytes", refusal(path))


def test_no_other_file_is_read_than_the_one_that_was_checked(damaged: SealedOf) -> None:
    path = damaged("labels")
    metadata = json.loads((path / "left/zarr.json").read_bytes())
    shutil.copy(path / "left/c/0", path / "left/0")  # where the other way to name chunks looks
    encoding = {"name": "v2", "configuration": {"separator": "."}}
    (path / "left/zarr.json").write_text(json.dumps({**metadata, "chunk_key_encoding": encoding}))
    assert re.match("left: zarr.json .*manifest.json", refusal(path))


def test_what_zarr_may_leave_out_or_write_empty_is_no_damage(damaged: SealedOf) -> None:
    path = damaged("labels")
    metadata = json.loads((path / "left/zarr.json").read_bytes())
    del metadata["attributes"], metadata["storage_transformers"]
    metadata["codecs"][2]["configuration"] = {}
    (path / "left/zarr.json").write_text(json.dumps({**metadata, "dimension_names": None}))
    (path / "right/zarr.json").unlink()
    assert refusal(path).startswith("right: ")


def test_an_honest_frame_of_zstandard_is_not_followed_by_another(damaged: SealedOf) -> None:
    path = rewritten(damaged("labels"), "zstd")
    chunk = path / "left/c/0"
    chunk.write_bytes(checked(chunk.read_bytes()[:-4] + bytes(Zstd(1).encode(bytes(1 << 24)))))
    assert re.match(r"left: chunk 0 .* 16777\d+ bytes", refusal(path))
    assert peak_of(path) < 1 << 24


@pytest.mark.parametrize("n_bytes", [0, 1, 3, 9])
def test_a_frame_of_zstandard_that_is_cut_off_is_refused(n_bytes: int, damaged: SealedOf) -> None:
    path = rewritten(damaged("labels"), "zstd")
    chunk = path / "left/c/0"
    frame = chunk.read_bytes()[: -4 - n_bytes] if n_bytes else chunk.read_bytes()[:-4] + b"x"
    chunk.write_bytes(frame + struct.pack("<I", google_crc32c.value(frame)))
    assert re.match("left: chunk 0 .* None bytes", refusal(path))


def test_a_forest_without_trees_is_none(damaged: SealedOf) -> None:
    path = damaged("labels")
    empty = {name: np.empty(0, np.int32) for name in ("left", "right", "width", "columns")}
    empty |= {name: np.empty(0) for name in ("threshold", "gain", "weights")}
    bags = {"in_bag": np.empty((0, 60), np.uint8), "leaves": np.empty((0, 60), np.int32)}
    sizes = {"tree_size": np.empty(0, np.int64), "n_rows": np.empty(0, np.int64)}
    rewrite(path, {**empty, **bags, **sizes, "class_counts": np.empty((0, 3), np.int32)})
    assert refusal(path).startswith("tree_size: ")
