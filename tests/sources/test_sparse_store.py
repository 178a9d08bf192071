"""Sparse matrices in Zarr: written whole, read back value for value, and refused where they contradict themselves."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pytest
import scipy.sparse
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st

from distforest.errors import InputError
from distforest.sources.arrays import open_array
from distforest.sources.files.ingest import ingest
from distforest.sources.opening import open_matrix, opened_rows, read_rows
from distforest.sources.readings import DISSIMILARITIES, SIMILARITIES, read
from distforest.sources.sparse_store import SparseStore, write_sparse
from distforest.stores.groups import seal_group
from tests.messages import naming
from tests.sources.helpers import whole, write_arrays
from tests.sources.test_sparse import dense_of, stored_of


def dense_from(matrix: Any) -> np.ndarray:
    """What is stored, NaN elsewhere."""
    dense = np.full(matrix.shape, np.nan)
    coordinates = scipy.sparse.coo_array(matrix)
    dense[coordinates.row, coordinates.col] = coordinates.data
    return dense


# Round trips


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(
    st.integers(1, 7),
    st.integers(1, 7),
    st.integers(0, 1000),
    st.sampled_from([0.0, 0.5, 1.0]),
    st.sampled_from([8, 40, 1 << 20]),
)
def test_rows_come_back_as_they_were_written(
    tmp_path_factory: pytest.TempPathFactory, n_rows: int, n_columns: int, seed: int, missing: float, chunk: int
) -> None:
    place, dense = tmp_path_factory.mktemp("store"), dense_of(n_rows, n_columns, seed, missing)
    write_sparse(f"{place}/S.zarr", stored_of(dense, seed), chunk_bytes=chunk)
    found = open_matrix(f"{place}/S.zarr")
    assert isinstance(found, SparseStore)
    assert (found.shape, found.n_stored) == (dense.shape, np.count_nonzero(~np.isnan(dense)))
    np.testing.assert_array_equal(dense_from(found.whole()), dense)
    rng = np.random.default_rng(seed)
    first, last = np.sort(rng.integers(0, n_rows + 1, 2)).tolist()
    some = np.flatnonzero(rng.random(n_rows) < 0.5)
    for rows in (slice(first, last), slice(None), some):
        np.testing.assert_array_equal(dense_from(read_rows(f"{place}/S.zarr", rows)), dense[rows])


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int8, np.uint64, np.bool_])
def test_values_keep_their_dtype(tmp_path: Path, dtype: Any) -> None:
    write_sparse(str(tmp_path / "S.zarr"), scipy.sparse.csr_array(np.eye(3, dtype=dtype)))
    found = open_matrix(str(tmp_path / "S.zarr"))
    assert found.dtype == dtype
    np.testing.assert_array_equal(found.whole().toarray(), np.eye(3))


def test_the_users_matrix_stays_as_it_is(tmp_path: Path) -> None:
    matrix = scipy.sparse.csr_array((np.array([1.0, 2.0, 3.0]), np.array([2, 0, 2]), np.array([0, 3, 3])), (2, 3))
    write_sparse(str(tmp_path / "S.zarr"), matrix)
    assert matrix.indices.tolist() == [2, 0, 2]
    found = open_matrix(str(tmp_path / "S.zarr")).whole()
    assert (found.indices.tolist(), found.data.tolist()) == ([0, 2], [2.0, 4.0])


@pytest.mark.parametrize(("measure", "reading"), [("similarity", SIMILARITIES), ("distance", DISSIMILARITIES)])
def test_a_source_is_the_dense_one_with_nan_elsewhere(tmp_path: Path, measure: str, reading: Any) -> None:
    dense = np.abs(dense_of(9, 9, 3, 0.6))
    np.fill_diagonal(dense, np.nan)
    stored = stored_of(dense).tocsr()
    row, column = next(zip(*stored.nonzero(), strict=True))
    stored[row, column] = dense[row, column] = np.nan  # stored, and unobserved all the same
    write_sparse(str(tmp_path / "S.zarr"), stored)
    if measure == "distance":
        np.fill_diagonal(dense, 0.0)
    np.testing.assert_array_equal(whole(open_matrix(str(tmp_path / "S.zarr")).read(measure)), read(dense, reading))


def test_a_target_that_is_there_is_kept_unless_it_may_go(tmp_path: Path) -> None:
    target = str(tmp_path / "S.zarr")
    write_sparse(target, scipy.sparse.eye_array(3))
    with pytest.raises(InputError, match=naming(target, "new name")):
        write_sparse(target, scipy.sparse.eye_array(4))
    write_sparse(target, scipy.sparse.eye_array(4), overwrite=True)
    assert open_matrix(target).shape == (4, 4)
    assert [path.name for path in tmp_path.iterdir()] == ["S.zarr"]


def test_a_url_is_written_and_read(tmp_path: Path) -> None:
    target = f"memory://{tmp_path.name}/S.zarr"
    write_sparse(target, scipy.sparse.eye_array(5), chunk_bytes=8)
    write_sparse(target, scipy.sparse.eye_array(4), chunk_bytes=8, overwrite=True)
    np.testing.assert_array_equal(open_matrix(target).whole().toarray(), np.eye(4))
    fsspec.filesystem("memory").rm(f"/{tmp_path.name}", recursive=True)


# Files of SciPy


@pytest.mark.slow
@pytest.mark.parametrize(
    "container",
    [
        *(scipy.sparse.csr_array, scipy.sparse.csc_array, scipy.sparse.coo_array, scipy.sparse.bsr_array),
        *(scipy.sparse.dia_array, scipy.sparse.csr_matrix, scipy.sparse.coo_matrix, scipy.sparse.dia_matrix),
    ],
)
def test_ingest_takes_any_format_of_scipy(tmp_path: Path, container: Any) -> None:
    matrix = container(np.diag([1.0, 2.0, 3.0, 4.0]) + np.diag([5.0, 6.0, 7.0], 1))
    scipy.sparse.save_npz(tmp_path / "S.npz", matrix)
    written = ingest(str(tmp_path / "S.npz"), str(tmp_path / "S.zarr"))
    assert set(written) == {"indptr", "indices", "data"}
    np.testing.assert_array_equal(open_matrix(str(tmp_path / "S.zarr")).whole().toarray(), matrix.toarray())
    write_sparse(str(tmp_path / "own.zarr"), matrix)
    for name, record in written.items():
        assert open_array(f"{tmp_path}/own.zarr/{name}").attrs["distforest"] == {"sha256": record.sha256}
    groups = [dict(zarr.open_group(str(tmp_path / name), mode="r").attrs) for name in ("S.zarr", "own.zarr")]
    assert groups[0] == groups[1]


def save(path: Path, **changed: Any) -> str:
    """A file like one of `save_npz`, with some members changed, or left out where they are None."""
    scipy.sparse.save_npz(path, scipy.sparse.csr_array(np.eye(3)))
    with np.load(path) as stored:
        members = {name: stored[name] for name in stored.files} | changed
    np.savez(path, **{name: values for name, values in members.items() if values is not None})
    return str(path)


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"indices": np.array([0, 1, 3])}, r"contradicts .*(indices|index values)"),
        ({"indptr": np.array([0, 2, 1, 3])}, r"contradicts .*(indptr|index pointer)"),
        ({"indices": None}, "read"),
        ({"data": np.array([None, {}, 1], object)}, "Object arrays"),
        ({"data": np.ones(3, complex)}, "complex128"),
        ({"format": np.array(b"linalg")}, "read"),
        ({"shape": np.array([0, 3]), "indptr": np.array([0])}, "empty|read"),
    ],
)
def test_a_broken_file_is_refused_and_nothing_is_written(tmp_path: Path, changed: dict[str, Any], named: str) -> None:
    source = save(tmp_path / "S.npz", **changed)
    with pytest.raises(InputError, match=f"^{source}: .*({named})"):
        ingest(source, str(tmp_path / "S.zarr"))
    assert [path.name for path in tmp_path.iterdir()] == ["S.npz"]


def test_arrays_that_only_share_some_names_stay_arrays(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", data=np.ones(3), indptr=np.arange(4))
    assert set(ingest(str(tmp_path / "a.npz"), str(tmp_path / "a.zarr"))) == {"data", "indptr"}
    with pytest.raises(InputError, match=naming("a.zarr", "'sparse'", "'encoding-type'")):
        open_matrix(str(tmp_path / "a.zarr"))


# Damage


GOOD: dict[str, Any] = {
    "indptr": np.array([0, 2, 2, 4]),
    "indices": np.array([0, 2, 1, 2], np.int32),
    "data": np.array([1.0, 2.0, 3.0, 4.0]),
}


def store_of(place: Path, sparse: Any = None, **changed: Any) -> str:
    """A store of three rows, with some of its arrays changed, or left out where they are None."""
    arrays = {name: values for name, values in {**GOOD, **changed}.items() if values is not None}
    target = write_arrays(str(place / "bad.zarr"), **arrays)
    seal_group(target, {"sparse": {"format": "csr", "version": 1, "shape": [3, 3]} if sparse is None else sparse})
    return target


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"sparse": {"format": "csc", "version": 1, "shape": [3, 3]}}, ["'csc', version 1"]),
        ({"sparse": {"format": "csr", "version": 1, "shape": [3, True]}}, ["[3, True]"]),
        ({"sparse": {"format": "csr", "version": 1, "shape": [3, 2**31]}}, [2147483647]),
        ({"sparse": {"format": "csr", "version": 1, "shape": [2, 3]}}, ["indptr", 3, 4]),
        ({"sparse": "text"}, ["'sparse'"]),
        ({"indptr": None}, ["indptr: ", "none"]),
        ({"indptr": np.array([0.0, 2, 2, 4])}, ["indptr", "float64"]),
        ({"indices": np.zeros((4, 1), int)}, ["indices", "(4, 1)"]),
        ({"data": np.ones(4, np.complex64)}, ["complex64"]),
        ({"data": np.ones(3)}, ["indices", 3, 4]),
    ],
)
def test_metadata_that_contradict_themselves_are_refused_unread(
    tmp_path: Path, changed: dict[str, Any], named: list[object]
) -> None:
    target = store_of(tmp_path, **changed)
    with pytest.raises(InputError, match=naming(target, *named)):
        open_matrix(target)


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"indptr": np.array([1, 2, 2, 4])}, ["indptr", "0 to 4", "1 to 4"]),
        ({"indptr": np.array([0, 3, 2, 4])}, ["row 1"]),
        ({"indptr": np.array([0, 2**64 - 1, 2, 4], np.uint64)}, ["row 0"]),
        ({"indices": np.array([0, 2, 1, 3])}, ["0 to 2", "3 in row 2"]),
        ({"indices": np.array([0, 2, 1, 2**32 + 2])}, ["4294967298 in row 2"]),
        ({"indices": np.array([0, 0, 1, 2])}, ["once", "0 in row 0"]),
    ],
)
def test_damage_is_refused_by_its_place(tmp_path: Path, changed: dict[str, Any], named: list[str]) -> None:
    target = store_of(tmp_path, **changed)
    for rows in (slice(None), np.array([0, 2])):
        with pytest.raises(InputError, match=naming(target, "damaged", *named)):
            read_rows(target, rows)


def contradicts(indptr: list[int], indices: list[int], n_columns: int) -> bool:
    """Whether no matrix has these arrays, by the definition of the form."""
    if indptr[0] != 0 or indptr[-1] != len(indices) or sorted(indptr) != indptr:
        return True
    rows = [indices[start:end] for start, end in pairwise(indptr)]
    return any(row != sorted(set(row)) or not all(0 <= column < n_columns for column in row) for row in rows)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(0, 4), min_size=3, max_size=4).map(sorted) | st.lists(st.integers(-1, 5), min_size=3),
    st.lists(st.integers(-1, 3), max_size=5),
    st.integers(0, 3),
)
def test_arrays_are_refused_just_where_they_are_no_matrix(
    tmp_path_factory: pytest.TempPathFactory, indptr: list[int], indices: list[int], largest: int
) -> None:
    shape = [len(indptr) - 1, largest + 1]
    arrays = {"indptr": np.array(indptr), "indices": np.array(indices, int), "data": np.ones(len(indices))}
    sparse = {"format": "csr", "version": 1, "shape": shape}
    target = store_of(tmp_path_factory.mktemp("store"), sparse, **arrays)
    if contradicts(indptr, indices, largest + 1):
        with pytest.raises(InputError, match=naming(target, "damaged")):
            open_matrix(target).whole()
        return
    expected = np.full(shape, np.nan)
    for row, (start, end) in enumerate(pairwise(indptr)):
        expected[row, indices[start:end]] = 1.0
    np.testing.assert_array_equal(dense_from(open_matrix(target).whole()), expected)


@pytest.mark.parametrize(("value", "measure"), [(np.inf, "similarity"), (1e151, "distance")])
def test_values_are_refused_as_those_of_a_dense_matrix(tmp_path: Path, value: float, measure: str) -> None:
    target = store_of(tmp_path, data=np.array([1.0, 2.0, np.nan, value]))
    with pytest.raises(InputError, match=naming(target, "row 2, column 2")):
        open_matrix(target).read(measure)


def flip(chunk: Path) -> None:
    content = bytearray(chunk.read_bytes())
    content[-6] ^= 4
    chunk.write_bytes(content)


@pytest.mark.parametrize("name", GOOD)
@pytest.mark.parametrize(("change", "named"), [(Path.unlink, "other values"), (flip, "read")])
def test_chunks_that_are_lost_or_damaged_are_found(
    tmp_path: Path, name: str, change: Callable[[Path], object], named: str
) -> None:
    target = store_of(tmp_path)
    change(Path(target, name, "c", "0"))
    with pytest.raises(InputError, match=naming(target, name, named)):
        open_matrix(target).whole()


def test_a_store_that_is_unfinished_or_lost_its_metadata_is_refused(tmp_path: Path) -> None:
    target = store_of(tmp_path)
    seal_group(target, {})
    with pytest.raises(InputError, match=naming(target, "unfinished")):
        open_matrix(target)
    Path(target, "indptr", "zarr.json").write_text("{")
    with pytest.raises(InputError, match=naming(target, "unfinished")):
        open_matrix(target)
    shutil.rmtree(target)
    with pytest.raises(InputError, match=naming(target, "none")):
        open_matrix(target)


def test_rows_of_an_array_are_opened_and_others_stay(tmp_path: Path) -> None:
    write_arrays(str(tmp_path / "d.zarr"), X=np.eye(2))
    assert opened_rows(tmp_path / "d.zarr" / "X").shape == (2, 2)
    assert scipy.sparse.issparse(opened_rows(store_of(tmp_path)))
    values = np.eye(2)
    assert opened_rows(values) is values
