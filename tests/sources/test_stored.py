"""Arrays that are not whole: what others leave out is told, what distforest wrote is refused."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse
import zarr

from distforest import SMERF, SimForestClassifier, Targets
from distforest.errors import InputError
from distforest.sources.arrays import open_array, write_array
from distforest.sources.ingest import ingest
from distforest.sources.readings import AS_IT_IS, FEATURES
from distforest.sources.staging import stage
from distforest.sources.stored import Absent, absent_chunks, hold_stored

VALUES = np.random.default_rng(0).normal(size=(40, 3)).astype(np.float32)


@pytest.fixture
def ours(tmp_path: Path) -> Path:
    write_array(str(tmp_path / "ours.zarr"), "X", VALUES.shape, VALUES.dtype, [VALUES], chunk_bytes=120)
    return tmp_path / "ours.zarr" / "X"


@pytest.fixture
def others(tmp_path: Path) -> Path:
    zarr.create_array(str(tmp_path / "others.zarr"), data=VALUES, chunks=(10, 2), fill_value=-1)
    (tmp_path / "others.zarr" / "c" / "2" / "1").unlink()
    return tmp_path / "others.zarr"


def test_a_chunk_of_ours_that_is_missing_is_refused_by_name(ours: Path, tmp_path: Path) -> None:
    assert hold_stored([str(ours)]) == ()
    (ours / "c" / "1" / "0").unlink()
    with pytest.raises(InputError, match=r"ours.zarr/X: chunk c/1/0 is missing \(1 of 4\), and all were written"):
        hold_stored([str(ours)])
    with pytest.raises(InputError, match="chunk c/1/0 is missing"):
        SMERF(2).fit(str(ours), Targets(VALUES[:, 0]))
    with pytest.raises(InputError, match="X: its values are not those that were written"):
        stage(str(ours), FEATURES, tmp_path / "scratch")
    assert not list((tmp_path / "scratch").glob("*.npy"))


def test_a_chunk_of_ours_that_was_changed_is_refused(ours: Path, tmp_path: Path) -> None:
    shutil.copy(ours / "c" / "0" / "0", ours / "c" / "1" / "0")
    for reading in (FEATURES, AS_IT_IS):
        with pytest.raises(InputError, match="X: its values are not those that were written"):
            stage(str(ours), reading, tmp_path / "scratch")
    assert not list((tmp_path / "scratch").glob("*.npy"))


def test_chunks_of_zeros_are_written_too(tmp_path: Path) -> None:
    np.save(tmp_path / "zeros.npy", np.zeros((50, 4)))
    ingest(str(tmp_path / "zeros.npy"), str(tmp_path / "zeros.zarr"), name="X", chunk_bytes=320)
    assert len(list((tmp_path / "zeros.zarr" / "X" / "c").glob("*/0"))) == 3
    assert hold_stored([str(tmp_path / "zeros.zarr" / "X")], strict=True) == ()


def test_what_others_leave_out_is_told_or_refused(others: Path, tmp_path: Path) -> None:
    (told,) = hold_stored([str(others), str(others)])
    assert told.startswith(f"{others}: 1 of 8 chunks are not stored and read as -1.0")
    with pytest.raises(InputError, match="all chunks were asked for"):
        hold_stored([str(others)], strict=True)
    with pytest.warns(UserWarning, match="1 of 8 chunks are not stored"):
        SMERF(2, random_state=0).fit(str(others), Targets(VALUES[:, 0]))
    with pytest.warns(UserWarning, match="1 of 8 chunks are not stored"):
        SMERF(2, random_state=0).fit(open_array(str(others)), Targets(VALUES[:, 0]))
    assert stage(str(others), FEATURES, tmp_path / "scratch").open(tmp_path / "scratch")[25, 2] == -1.0


@pytest.mark.parametrize(
    ("options", "n_files"),
    [
        ({"chunks": (7, 2)}, 12),
        ({"chunks": (7, 2), "zarr_format": 2}, 12),
        ({"chunks": (5, 1), "shards": (15, 3)}, 3),
        ({"chunks": (40, 3)}, 1),
    ],
)
def test_files_are_counted_in_any_layout(options: dict[str, object], n_files: int, tmp_path: Path) -> None:
    address = str(tmp_path / "a.zarr")
    array = zarr.create_array(address, shape=VALUES.shape, dtype="f4", **options)  # type: ignore[arg-type]
    first = array.metadata.encode_chunk_key((0, 0))
    assert absent_chunks(address, array) == Absent(n_files, n_files, first, 0.0)
    array[:] = VALUES
    assert absent_chunks(address, array) is None


def test_a_url_is_looked_at_too(others: Path) -> None:
    array = open_array(f"file://{others}")
    assert absent_chunks(f"file://{others}", array) == absent_chunks(str(others), array)
    memory = "memory://not-whole.zarr"
    zarr.create_array(memory, shape=(4, 2), dtype="f8", chunks=(2, 2))[:2] = 1.0
    found = absent_chunks(memory, open_array(memory))
    assert (found.count, found.n_chunks, found.first) == (1, 2, "c/1/0") if found else False


def test_a_sparse_matrix_that_is_not_whole_is_refused(tmp_path: Path) -> None:
    near = scipy.sparse.random_array((30, 30), density=0.3, rng=np.random.default_rng(0))
    scipy.sparse.save_npz(tmp_path / "near.npz", (near + near.T).tocsr())
    ingest(str(tmp_path / "near.npz"), str(tmp_path / "near.zarr"))
    (tmp_path / "near.zarr" / "indices" / "c" / "0").unlink()
    with pytest.raises(InputError, match=r"near\.zarr/indices: chunk c/0 is missing"):
        SimForestClassifier(n_estimators=2).fit(str(tmp_path / "near.zarr"), np.arange(30) % 2)


def test_the_digest_is_that_of_all_values(ours: Path) -> None:
    assert open_array(str(ours)).attrs["distforest"] == {"sha256": hashlib.sha256(VALUES.tobytes()).hexdigest()}
