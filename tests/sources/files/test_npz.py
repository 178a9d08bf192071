"""Faults of .npy and .npz files: each is refused with what was found, and nothing is written."""

from __future__ import annotations

import ast
import io
import struct
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
import zarr
from hypothesis import given
from hypothesis import strategies as st

from distforest.errors import DistforestWarning
from distforest.sources.arrays import open_array
from distforest.sources.files import bounds
from distforest.sources.files.ingest import ingest
from distforest.sources.files.npz import header_of
from tests.messages import naming

if TYPE_CHECKING:
    from tests.sources.helpers import Refused


@pytest.mark.parametrize(
    ("arrays", "named"),
    [
        ({"Z": np.array([{}, 1], object)}, ["Object arrays"]),
        ({"Z": np.array([b"a"])}, ["|S1", ".astype(str)"]),
        ({"Z": np.array([1j])}, ["complex128"]),
        ({"Z": np.array(["2020-01-02"], "M8[D]")}, ["datetime64[D]"]),
        ({"Z": np.zeros((0, 3))}, ["(0, 3)"]),
        ({"Z": np.array(1.0)}, ["shape ()"]),
        ({"names": np.array(["a"])}, ["numbers", "none"]),
        ({"../Z": np.ones(1)}, ["'../Z'"]),
        ({"zarr.json": np.ones(1)}, ["'zarr.json'"]),
        ({"X": np.ones(3)}, ["float64", "(3,)"]),
        ({"X": np.array([["a"]])}, ["<U1", "(1, 1)"]),
        ({"X": np.array([[1, np.nan], [np.inf, 1]])}, ["inf in row 1, column 0"]),
        ({"X": np.ones((3, 2)), "y": np.ones(2)}, ["3 rows, 2 labels"]),
        ({"X": np.ones((3, 2)), "feature_names": np.array(["a"])}, ["2 feature_names", "['a']"]),
        ({"y": np.array([0, 2]), "classes": np.array(["a", "b"])}, ["labels", "0 to 2"]),
        ({"y": np.array([0, 1]), "classes": np.array(["a", "a"])}, ["['a', 'a']"]),
        ({"y": np.array(["c"]), "classes": np.array(["a", "b"])}, ["'c'"]),
        ({"y": np.array([1.0, np.nan])}, ["nan in row 1"]),
        ({"y": np.ones((1, 1, 1))}, ["(1, 1, 1)"]),
        ({"Z": np.ones(1), "text": np.array(["a" * 1100000])}, [1100000]),
        ({"Z": np.ones(2), "text": np.array(["a" * 1100000])}, [1100000]),
    ],
)
def test_npz_faults(refused: Refused, tmp_path: Path, arrays: dict[str, np.ndarray], named: list[object]) -> None:
    np.savez(tmp_path / "a.npz", **arrays)
    refused(str(tmp_path / "a.npz"), *named)


def test_pickles_are_refused_unread(refused: Refused, tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.array([{}], object), allow_pickle=True)
    refused(str(tmp_path / "a.npy"), "Python objects")


@pytest.mark.parametrize("keep", [0, 4, 40, 200, -1])
def test_cut_off_files(refused: Refused, tmp_path: Path, keep: int) -> None:
    np.save(tmp_path / "Z.npy", np.arange(100.0))
    np.savez(tmp_path / "a.npz", Z=np.arange(100.0))
    for name in ("Z.npy", "a.npz"):
        path = tmp_path / name
        path.write_bytes(path.read_bytes()[:keep])
        refused(str(path), f"{path}: ", "read")


def npy(shape: str, values: bytes = b"", in_columns: bool = False, dtype: str = "<f4") -> bytes:
    """An .npy file whose header may say anything."""
    header = f"{{'descr': {dtype!r}, 'fortran_order': {in_columns}, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + values


def write_npz(path: Path, packing: int = zipfile.ZIP_STORED, **members: bytes) -> str:
    """An .npz file of these bytes."""
    with zipfile.ZipFile(path, "w", packing) as archive:
        for name, member in members.items():
            archive.writestr(f"{name}.npy", member)
    return str(path)


ANNOUNCED = [
    npy("(-3, 4)", b"0" * 48),
    npy("(True, 4)", b"0" * 16),
    npy("(4, 99999999999999999999999999)", b"0" * 48),
    npy("(1099511627776, 4)", b"0" * 48),
    npy("(1099511627776, 4)", b"0" * 48, in_columns=True),
    npy("(3, 4)", b"0" * 47),
    npy("(3, 4)", b"0" * 48).replace(b"\x01\x00", b"\x09\x00", 1),
    npy("(3," + "(" * 9000),
    npy("(3, 4), []: 1"),
    npy('"""'),
    b"\x93NUMPY\x02\x00" + struct.pack("<I", 1 << 31),
    npy(str((1,) * 200), b"0" * 4),
]


@pytest.mark.parametrize("content", ANNOUNCED)
def test_an_array_that_is_not_what_it_announces_is_refused(refused: Refused, tmp_path: Path, content: bytes) -> None:
    (tmp_path / "Z.npy").write_bytes(content)
    refused(str(tmp_path / "Z.npy"), "Z.npy: ")
    refused(write_npz(tmp_path / "a.npz", Z=content), "a.npz: ")


def numpy_header(content: bytes) -> tuple[tuple[int, ...], bool, np.dtype[np.generic]]:
    """The header as numpy reads it."""
    stream = io.BytesIO(content)
    read = {1: np.lib.format.read_array_header_1_0, 2: np.lib.format.read_array_header_2_0}
    return read[np.lib.format.read_magic(stream)[0]](stream)


@given(
    shape=st.lists(st.integers(0, 3), max_size=4).map(tuple),
    dtype=st.sampled_from(
        ["<f8", ">f4", "|b1", "|i1", "<U0", "<U12", "|S3", "<c16", "<M8[ns]", "<f8,<i4", "|V0", "|V7"]
    ),
    order=st.sampled_from("CF"),
    version=st.sampled_from([(1, 0), (2, 0)]),
)
def test_a_header_is_read_as_numpy_reads_it(
    shape: tuple[int, ...], dtype: str, order: str, version: tuple[int, int]
) -> None:
    stream = io.BytesIO()
    np.lib.format.write_array(stream, np.empty(shape, dtype, order), version)
    assert header_of(io.BytesIO(stream.getvalue())) == numpy_header(stream.getvalue())


@pytest.mark.parametrize("shape", ["3", "(3)", "()", "(03,)", "(3, )", "(3,4)", "(3, 4,)", "(-1,)"])
def test_a_shape_that_numpy_would_not_write_is_left_to_numpy(shape: str) -> None:
    content = npy(shape)
    try:
        expected = numpy_header(content)
    except ValueError:
        with pytest.raises(ValueError, match="header"):
            header_of(io.BytesIO(content))
    else:
        assert header_of(io.BytesIO(content)) == expected


def test_a_plain_header_is_read_without_pythons_parser(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ast, "literal_eval", pytest.fail)
    stream = io.BytesIO()
    np.save(stream, np.zeros((3, 0)))
    assert header_of(io.BytesIO(stream.getvalue())) == ((3, 0), False, np.dtype(float))


@pytest.mark.parametrize("dtype", ["<f8", ">f8", "<i2"])
def test_fortran_order_is_read_in_blocks(tmp_path: Path, dtype: str) -> None:
    values = np.asfortranarray(np.arange(300).reshape(100, 3).astype(dtype))
    np.save(tmp_path / "Z.npy", values)
    np.savez(tmp_path / "a.npz", Z=values)
    np.save(tmp_path / "C.npy", np.ascontiguousarray(values))
    in_rows = ingest(str(tmp_path / "C.npy"), str(tmp_path / "c.zarr"), name="Z", chunk_bytes=100)
    for name in ("Z.npy", "a.npz"):
        assert ingest(str(tmp_path / name), str(tmp_path / f"{name}.zarr"), chunk_bytes=100) == in_rows
        assert zarr.open_array(str(tmp_path / f"{name}.zarr" / "Z"), mode="r")[:].tolist() == values.tolist()


@pytest.mark.parametrize("in_columns", [True, False])
def test_an_npz_that_unfolds_to_too_much(
    refused: Refused, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_columns: bool
) -> None:
    content = npy("(500000, 1)", bytes(2_000_000), in_columns)
    source = write_npz(tmp_path / "a.npz", zipfile.ZIP_DEFLATED, Z=content)
    monkeypatch.setattr(bounds, "MOST_UNFOLDED", 1 << 20)
    size, n_bytes = (tmp_path / "a.npz").stat().st_size, len(content)
    refused(source, "1,048,576 bytes", f"{size:,} bytes", f"{n_bytes:,}", f"`max_bytes={n_bytes}`")
    assert ingest(source, str(tmp_path / "a.zarr"), max_bytes=n_bytes)["Z"].shape == (500_000, 1)
    monkeypatch.setattr(bounds, "MOST_TIMES", 1 + n_bytes // size)
    assert ingest(source, str(tmp_path / "a.zarr"), overwrite=True)["Z"].shape == (500_000, 1)


def test_what_the_members_unfold_to_is_added_up(refused: Refused, tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", Y=np.ones(100), Z=np.ones(100))
    refused(str(tmp_path / "a.npz"), "1,856", max_bytes=1855)
    assert sorted(ingest(str(tmp_path / "a.npz"), str(tmp_path / "a.zarr"), max_bytes=1856)) == ["Y", "Z"]


def test_members_that_numpy_does_not_write_are_refused(refused: Refused, tmp_path: Path) -> None:
    for packing in (zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA):
        refused(write_npz(tmp_path / "a.npz", packing, X=npy("(3, 4)", b"0" * 48)), "savez_compressed")


# Sparse matrices


def sparse(form: bytes, shape: list[int], **parts: object) -> dict[str, object]:
    """The members of a file of `scipy.sparse.save_npz` with one value, or some of them."""
    return {"format": np.array(form), "shape": shape, "data": [1.0], **parts}


IN_ROWS = {"indices": [0], "indptr": [0, 1]}


@pytest.mark.parametrize(
    ("members", "named"),
    [
        (sparse(b"csr", [2**62, 2**62], **IN_ROWS), "index pointer"),
        (sparse(b"coo", [2**62, 2**62], row=[0], col=[0]), "36,893,488,147,419,103,232"),
        (sparse(b"coo", [2**34, 1], row=[0], col=[0]), "137,438,953,472; give `max_bytes="),
        (sparse(b"csc", [2**34, 1], **IN_ROWS), "137,438,953,472; give `max_bytes="),
        (sparse(b"dia", [2**34, 1], data=[[1.0]], offsets=[0]), "137,438,953,472"),
        (sparse(b"csr", [-1, 1], **IN_ROWS), "read"),
        (sparse(b"block", [1, 1], _is_array=True, **IN_ROWS), "format b"),
        (sparse(b"csr", [1, 1], **{**IN_ROWS, "indices": np.array([{}], object)}), "Object arrays"),
    ],
)
def test_a_sparse_matrix_that_announces_too_much(
    refused: Refused, tmp_path: Path, members: dict[str, object], named: str
) -> None:
    np.savez(tmp_path / "S.npz", **members)  # type: ignore[arg-type]
    refused(str(tmp_path / "S.npz"), *named.split("; give "))


def test_a_flipped_bit_in_an_npz(refused: Refused, tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", Z=np.arange(100.0))
    whole = bytearray((tmp_path / "a.npz").read_bytes())
    whole[500] ^= 1
    (tmp_path / "a.npz").write_bytes(whole)
    refused(str(tmp_path / "a.npz"), "CRC-32", chunk_bytes=80)


def test_arrays_beside_a_sparse_matrix_are_not_lost(refused: Refused, tmp_path: Path) -> None:
    own = {"format": np.array(b"csr"), "shape": [2, 2], "data": [1.0], "indices": [0], "indptr": [0, 1, 1]}
    np.savez(tmp_path / "S.npz", labels=np.array(["a", "b"]), **own)
    refused(str(tmp_path / "S.npz"), "sparse", "'labels'")


def test_strings_of_an_npy_need_a_name(refused: Refused, tmp_path: Path) -> None:
    np.save(tmp_path / "kinds.npy", np.array(["a", "b"]))
    refused(str(tmp_path / "kinds.npy"), "`name='y'`")


@pytest.mark.parametrize("form", ["npz", "npy"])
def test_features_that_lack_values_are_reported(form: str, tmp_path: Path) -> None:
    X = np.array([[1.0, np.nan, 3.0], [4.0, np.nan, np.nan]])
    source = str(tmp_path / f"X.{form}")
    if form == "npz":
        np.savez(source, X=X, feature_names=np.array(["a", "b", "c"]))
    else:
        np.save(source, X)
    which = "column 1 (b), " if form == "npz" else "column 1, "
    with pytest.warns(DistforestWarning, match=naming("NaN", "3 of 6", which, "2 rows")):
        ingest(source, str(tmp_path / "a.zarr"))
    np.testing.assert_array_equal(open_array(f"{tmp_path}/a.zarr/X")[...], X.astype(np.float32))
