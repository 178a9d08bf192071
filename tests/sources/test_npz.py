"""Faults of .npy and .npz files: each is refused with what was found, and nothing is written."""

from __future__ import annotations

import zipfile
from typing import TYPE_CHECKING

import numpy as np
import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Refused = Callable[..., str]


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        (
            {"Z": np.array([{}, 1], object)},
            "found dtype object; pickled objects are never read, write strings by .astype",
        ),
        ({"Z": np.array([b"a"])}, "found dtype |S1; write strings by .astype(str)"),
        ({"Z": np.array([1j])}, "found dtype complex128; write it as real numbers, or leave it out"),
        ({"Z": np.array(["2020-01-02"], "M8[D]")}, "found dtype datetime64[D]; write it as real numbers, or leave it"),
        ({"Z": np.zeros((0, 3))}, "found shape (0, 3)"),
        ({"Z": np.array(1.0)}, "found shape ()"),
        ({"names": np.array(["a"])}, "an array of numbers was asked for, found none"),
        ({"../Z": np.ones(1)}, "found '../Z'"),
        ({"zarr.json": np.ones(1)}, "found 'zarr.json'"),
        ({"X": np.ones(3)}, "found dtype float64 and shape (3,)"),
        ({"X": np.array([["a"]])}, "found dtype <U1 and shape (1, 1)"),
        (
            {"X": np.array([[1, np.nan], [np.inf, 1]])},
            "found 2 that are not, the first nan in row 0, column 1",
        ),
        ({"X": np.ones((3, 2)), "y": np.ones(2)}, "found 3 rows, 2 labels"),
        (
            {"X": np.ones((3, 2)), "feature_names": np.array(["a"])},
            "2 feature_names were asked for, found ['a']",
        ),
        ({"y": np.array([0, 2]), "classes": np.array(["a", "b"])}, "found labels from 0 to 2"),
        ({"y": np.array([0, 1]), "classes": np.array(["a", "a"])}, "found ['a', 'a']"),
        ({"y": np.array(["c"]), "classes": np.array(["a", "b"])}, "found 'c'"),
        ({"y": np.array([1.0, np.nan])}, "found nan in row 1"),
        ({"y": np.ones((1, 1, 1))}, "found shape (1, 1, 1)"),
        ({"Z": np.ones(1), "text": np.array(["a" * 1100000])}, "found 1100000"),
        ({"Z": np.ones(2), "text": np.array(["a" * 1100000])}, "found 1100000"),
    ],
)
def test_npz_faults(refused: Refused, tmp_path: Path, arrays: dict[str, np.ndarray], message: str) -> None:
    np.savez(tmp_path / "a.npz", **arrays)
    assert message in refused(str(tmp_path / "a.npz"))


def test_pickles_are_refused_unread(refused: Refused, tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.array([{}], object), allow_pickle=True)
    assert "pickled objects are never read" in refused(str(tmp_path / "a.npy"))


@pytest.mark.parametrize("keep", [0, 4, 40, 200, -1])
def test_cut_off_files(refused: Refused, tmp_path: Path, keep: int) -> None:
    np.save(tmp_path / "Z.npy", np.arange(100.0))
    np.savez(tmp_path / "a.npz", Z=np.arange(100.0))
    for name in ("Z.npy", "a.npz"):
        path = tmp_path / name
        path.write_bytes(path.read_bytes()[:keep])
        assert "cannot be read" in refused(str(path))


def test_a_flipped_bit_in_an_npz(refused: Refused, tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", Z=np.arange(100.0))
    whole = bytearray((tmp_path / "a.npz").read_bytes())
    whole[500] ^= 1
    (tmp_path / "a.npz").write_bytes(whole)
    assert "Bad CRC-32" in refused(str(tmp_path / "a.npz"), chunk_bytes=80)


def test_arrays_beside_a_sparse_matrix_are_not_lost(refused: Refused, tmp_path: Path) -> None:
    own = {"format": np.array(b"csr"), "shape": [2, 2], "data": [1.0], "indices": [0], "indptr": [0, 1, 1]}
    np.savez(tmp_path / "S.npz", labels=np.array(["a", "b"]), **own)
    assert "a sparse matrix alone was asked for, found 'labels' beside it" in refused(str(tmp_path / "S.npz"))


def test_strings_of_an_npy_need_a_name(refused: Refused, tmp_path: Path) -> None:
    np.save(tmp_path / "kinds.npy", np.array(["a", "b"]))
    assert "if these are labels, give `name='y'`" in refused(str(tmp_path / "kinds.npy"))


def test_an_npz_of_other_things(refused: Refused, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("readme.txt", "hello")
    assert "found ['readme.txt']" in refused(str(tmp_path / "a.npz"))
