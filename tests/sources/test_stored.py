"""Arrays that are not whole: what others leave out is told, what distforest wrote is refused."""

from __future__ import annotations

import hashlib
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse
import zarr

from distforest import SMERF, SimForestClassifier, Targets
from distforest.errors import DistforestWarning, InputError
from distforest.sources.arrays import open_array, write_array
from distforest.sources.files.ingest import ingest
from distforest.sources.readings import AS_IT_IS, FEATURES
from distforest.sources.scratch import ScratchFolder
from distforest.sources.staging import stage
from distforest.sources.stored import Chunks, check_stored, chunks_of
from tests.messages import naming

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
    assert check_stored([str(ours)]) == ()
    (ours / "c" / "1" / "0").unlink()
    with pytest.raises(InputError, match=naming("ours.zarr/X: ", "c/1/0", "1 of 4")):
        check_stored([str(ours)])
    with pytest.raises(InputError, match="c/1/0"):
        SMERF(2).fit(str(ours), Targets(VALUES[:, 0]))
    with pytest.raises(InputError, match=naming("X: ", "values")):
        stage(str(ours), FEATURES, ScratchFolder(tmp_path / "scratch"))
    assert not list((tmp_path / "scratch").glob("*.npy"))


def test_a_chunk_of_ours_that_was_changed_is_refused(ours: Path, tmp_path: Path) -> None:
    shutil.copy(ours / "c" / "0" / "0", ours / "c" / "1" / "0")
    for reading in (FEATURES, AS_IT_IS):
        with pytest.raises(InputError, match=naming("X: ", "values")):
            stage(str(ours), reading, ScratchFolder(tmp_path / "scratch"))
    assert not list((tmp_path / "scratch").glob("*.npy"))


def test_chunks_of_zeros_are_written_too(tmp_path: Path) -> None:
    np.save(tmp_path / "zeros.npy", np.zeros((50, 4)))
    ingest(str(tmp_path / "zeros.npy"), str(tmp_path / "zeros.zarr"), name="X", chunk_bytes=320)
    assert len(list((tmp_path / "zeros.zarr" / "X" / "c").glob("*/0"))) == 3
    assert check_stored([str(tmp_path / "zeros.zarr" / "X")], strict=True) == ()


def test_what_others_leave_out_is_reported_or_refused(others: Path, tmp_path: Path) -> None:
    (told,) = check_stored([str(others), str(others)])
    assert re.match(naming(f"{others}: 1 of 8 chunks", -1.0), told)
    with pytest.raises(InputError, match=naming(others, "all chunks")):
        check_stored([str(others)], strict=True)
    with pytest.warns(DistforestWarning, match=naming(others, "1 of 8 chunks")):
        SMERF(2, random_state=0).fit(str(others), Targets(VALUES[:, 0]))
    with pytest.warns(DistforestWarning, match=naming(others, "1 of 8 chunks")):
        SMERF(2, random_state=0).fit(open_array(str(others)), Targets(VALUES[:, 0]))
    scratch = ScratchFolder(tmp_path / "scratch")
    assert stage(str(others), FEATURES, scratch).open(scratch)[25, 2] == -1.0


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
    assert chunks_of(address, array) == Chunks(n_files, 0, 0, first)
    array[:] = VALUES
    found = chunks_of(address, array)
    assert (found.count, found.n_stored, found.missing) == (n_files, n_files, None)
    assert found.n_bytes >= n_files


def test_a_url_is_looked_at_too(others: Path) -> None:
    array = open_array(f"file://{others}")
    assert chunks_of(f"file://{others}", array) == chunks_of(str(others), array)
    memory = "memory://not-whole.zarr"
    zarr.create_array(memory, shape=(4, 2), dtype="f8", chunks=(2, 2))[:2] = 1.0
    found = chunks_of(memory, open_array(memory))
    assert (found.count, found.n_stored, found.missing) == (2, 1, "c/1/0")


def test_files_that_are_no_chunks_are_not_counted(others: Path) -> None:
    stored = chunks_of(str(others), open_array(str(others)))
    for name in ("c/9/0", "c/00/0", "c/12/0", "c.2.0", "notes.txt", "c/3/0.tmp"):
        (others / name).parent.mkdir(exist_ok=True, parents=True)
        (others / name).write_bytes(b"x")
    assert chunks_of(str(others), open_array(str(others))) == stored


@pytest.mark.parametrize("chunks", [(1, 1), (100_000, 5), (3_400_000_000, 5)])
def test_an_array_that_announces_what_nobody_has_stored_is_refused_at_once(
    chunks: tuple[int, int], tmp_path: Path
) -> None:
    address = str(tmp_path / "huge.zarr")
    zarr.create_array(address, shape=(3_400_000_000, 5), chunks=chunks, dtype="f4")
    with pytest.raises(InputError, match=naming(address, "1,073,741,824", "68,000,000,000")):
        check_stored([address])
    (told,) = check_stored([address], max_bytes=1 << 40)
    assert re.match(naming(f"{address}: ", "chunks", "0.0"), told)


def test_a_shard_that_was_cut_off_is_reported(tmp_path: Path) -> None:
    address = str(tmp_path / "shards.zarr")
    zarr.create_array(address, data=VALUES, chunks=(5, 1), shards=(20, 3))
    (tmp_path / "shards.zarr" / "c" / "1" / "0").write_bytes(b"")
    (told,) = check_stored([address])
    assert told.startswith(f"{address}: 1 of 2 chunks ")


def test_what_is_stored_may_unfold_to_a_thousand_times_as_much(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    address = str(tmp_path / "zeros.zarr")
    zarr.create_array(address, shape=(100, 10), chunks=(10, 10), dtype="f8", compressors=None)[:50] = 1.0
    monkeypatch.setattr("distforest.sources.files.bounds.MOST_UNFOLDED", 100)
    monkeypatch.setattr("distforest.sources.stored.MAX_UNFOLDING", 2)
    assert len(check_stored([address])) == 1  # 8,000 bytes, of which 4,000 are stored
    (tmp_path / "zeros.zarr" / "c" / "0" / "0").unlink()
    with pytest.raises(InputError, match=naming("6,400", "8,000", "3,200")):
        check_stored([address])


def test_an_array_without_dimensions_has_one_chunk(tmp_path: Path) -> None:
    address = str(tmp_path / "one.zarr")
    array = zarr.create_array(address, shape=(), dtype="f8")
    assert chunks_of(address, array).missing == "c"
    array[...] = 2.0
    assert chunks_of(address, array).missing is None


def test_a_sparse_matrix_that_is_not_whole_is_refused(tmp_path: Path) -> None:
    near = scipy.sparse.random_array((30, 30), density=0.3, rng=np.random.default_rng(0))
    scipy.sparse.save_npz(tmp_path / "near.npz", (near + near.T).tocsr())
    ingest(str(tmp_path / "near.npz"), str(tmp_path / "near.zarr"))
    (tmp_path / "near.zarr" / "indices" / "c" / "0").unlink()
    with pytest.raises(InputError, match=naming("near.zarr/indices: ", "c/0")):
        SimForestClassifier(n_estimators=2).fit(str(tmp_path / "near.zarr"), np.arange(30) % 2)


def test_the_digest_is_that_of_all_values(ours: Path) -> None:
    assert open_array(str(ours)).attrs["distforest"] == {"sha256": hashlib.sha256(VALUES.tobytes()).hexdigest()}
