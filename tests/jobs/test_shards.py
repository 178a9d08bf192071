"""Shards: a receipt is what was written, or there is none."""

from __future__ import annotations

import io
import resource
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from distforest.growth.methods import GROWTH
from distforest.jobs.shards import Receipt, committed_shards, opened_shard, packed, peak_bytes, read_receipt, shard_name
from distforest.stores.folder import Folder

RECEIPT = Receipt(3, 5, shard_name(3, 5), 1.5, 4096, {"gain": 3, "leaves": 2}, growth=GROWTH)


@pytest.fixture
def shard() -> bytes:
    return bytes(packed({"gain": np.arange(3.0), "leaves": np.eye(2, dtype=np.int32)}, RECEIPT))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / RECEIPT.shard


def receipt_in(path: Path) -> Receipt | None:
    return read_receipt(Folder(str(path.parent)), path.name)


def test_a_receipt_comes_back(path: Path, shard: bytes) -> None:
    assert receipt_in(path) is None
    path.write_bytes(shard)
    assert receipt_in(path) == RECEIPT
    assert RECEIPT.n_trees == 3


@pytest.mark.parametrize("growth", [1, GROWTH - 1, GROWTH + 1])
def test_trees_of_another_version_of_the_growth_are_not_taken(path: Path, growth: int) -> None:
    path.write_bytes(packed({"gain": np.arange(3.0)}, replace(RECEIPT, growth=growth)))
    assert receipt_in(path) is None
    assert committed_shards(Folder(str(path.parent))) == []


def test_arrays_come_back_as_they_were(path: Path) -> None:
    arrays = {
        "plain": np.arange(5, dtype=np.int32),
        "in_rows": np.arange(6.0).reshape(3, 2),
        "in_columns": np.asfortranarray(np.arange(6.0).reshape(3, 2)),
        "no_rows": np.empty((0, 2), np.uint8),
    }
    path.write_bytes(packed(arrays, RECEIPT))
    with opened_shard(Folder(str(path.parent)), path.name) as found:
        for name, array in arrays.items():
            assert (found[name].dtype, found[name].shape) == (array.dtype, array.shape)
            np.testing.assert_array_equal(found[name], array)


@pytest.mark.slow
@pytest.mark.parametrize("bit", range(8))
def test_a_flipped_bit_never_gives_another_receipt(path: Path, shard: bytes, bit: int) -> None:
    n_found = 0
    for place in range(len(shard)):
        path.write_bytes(shard[:place] + bytes([shard[place] ^ 1 << bit]) + shard[place + 1 :])
        found = receipt_in(path)
        assert found in (None, RECEIPT)
        n_found += found is not None
    assert 0 < n_found < len(shard) / 2  # dates and the like do not matter


@pytest.mark.slow
def test_a_torn_shard_has_no_receipt(path: Path, shard: bytes) -> None:
    for length in range(len(shard)):
        path.write_bytes(shard[:length])
        assert receipt_in(path) is None


def test_a_shard_with_a_hole_has_no_receipt(path: Path, shard: bytes) -> None:
    for place in range(0, len(shard), 64):  # as after a loss of power, which leaves whole blocks unwritten
        path.write_bytes(shard[:place] + bytes(len(shard[place : place + 64])) + shard[place + 64 :])
        assert receipt_in(path) is None


def test_other_files_have_no_receipt(path: Path) -> None:
    for save in (lambda file: np.save(file, np.arange(3)), lambda file: np.savez(file, gain=np.arange(3))):
        buffer = io.BytesIO()
        save(buffer)
        path.write_bytes(buffer.getvalue())
        assert receipt_in(path) is None


def test_each_tree_is_taken_once(tmp_path: Path) -> None:
    for first, last in ((0, 1), (0, 3), (2, 3), (4, 4)):
        receipt = Receipt(first, last, shard_name(first, last), 0.0, 0, {}, growth=GROWTH)
        (tmp_path / receipt.shard).write_bytes(packed({}, receipt))
    (tmp_path / shard_name(5, 6)).write_bytes(b"")
    assert [(own.first, own.last) for own in committed_shards(Folder(str(tmp_path)))] == [(0, 3), (4, 4)]


def test_a_shard_that_begins_with_the_last_tree_of_another_is_left_out(tmp_path: Path) -> None:
    for first, last in ((0, 3), (3, 5), (5, 6)):
        receipt = Receipt(first, last, shard_name(first, last), 0.0, 0, {}, growth=GROWTH)
        (tmp_path / receipt.shard).write_bytes(packed({}, receipt))
    assert [(own.first, own.last) for own in committed_shards(Folder(str(tmp_path)))] == [(0, 3), (5, 6)]


@pytest.mark.parametrize(("platform", "unit"), [("darwin", 1), ("freebsd14", 1024)])
def test_peaks_are_bytes_everywhere(monkeypatch: pytest.MonkeyPatch, platform: str, unit: int) -> None:
    def none(self: Path) -> str:
        raise FileNotFoundError(self)

    monkeypatch.setattr(Path, "read_text", none)
    monkeypatch.setattr(resource, "getrusage", lambda who: SimpleNamespace(ru_maxrss=5000))
    monkeypatch.setattr(sys, "platform", platform)
    found = peak_bytes()
    monkeypatch.undo()
    assert found == 5000 * unit
