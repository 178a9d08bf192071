"""Staged inputs: one file for one content, nothing for what is refused, one process at a time."""

from __future__ import annotations

import fcntl
import multiprocessing
import os
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
import zarr

from distforest.errors import InputError, JobError
from distforest.sources import staging
from distforest.sources.readings import AS_IT_IS, DISTANCES, FEATURES, SIMILARITIES, Reading, read
from distforest.sources.staging import KEPT_SECONDS, PARTIAL_SECONDS, Staged, default_scratch, stage
from tests import samples


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    return tmp_path / "scratch" / "deep"


def stored(path: Path, values: np.ndarray, chunks: tuple[int, ...] | None = None) -> str:
    """A Zarr array with these values, written over another one if there is one."""
    array = zarr.create_array(
        str(path), shape=values.shape, dtype=values.dtype, chunks=chunks or values.shape, overwrite=True
    )
    array[...] = values
    return str(path)


def left_in(scratch: Path) -> list[str]:
    return sorted(path.name for path in scratch.iterdir()) if scratch.exists() else []


def test_a_staged_array_is_the_array_as_it_is_read(tmp_path: Path, scratch: Path) -> None:
    z = samples.distances(7)
    address = stored(tmp_path / "z.zarr", z.astype(np.float64), (2, 3))
    staged = stage(address, DISTANCES, scratch)
    assert left_in(scratch) == [f"{staged.sha256}.npy"]
    found = staged.open(scratch)
    assert found.tobytes() == read(z, DISTANCES).tobytes()
    assert (staged.shape, staged.dtype, staged.address, staged.reading) == ((7, 7), "float32", address, DISTANCES)
    assert staged.n_bytes == found.nbytes == 7 * 7 * 4
    with pytest.raises(ValueError, match="read-only"):
        found[0, 0] = 1


def test_one_content_in_any_chunks_and_dtype_is_one_file(tmp_path: Path, scratch: Path) -> None:
    X = samples.features(9)
    found = {
        stage(stored(tmp_path / f"x{n}.zarr", X.astype(dtype), chunks), FEATURES, scratch).sha256
        for n, (chunks, dtype) in enumerate([((9, 5), "f4"), ((1, 1), "f4"), ((4, 2), "f8")])
    }
    assert len(found) == 1
    assert left_in(scratch) == [f"{found.pop()}.npy"]


@pytest.mark.parametrize("chunks", [(9, 2), (3, 4), (2, 9)])
def test_chunks_that_are_parts_of_rows_are_laid_out_first(
    chunks: tuple[int, int], tmp_path: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = np.random.default_rng(0).random((9, 9))
    values = values + values.T
    zarr.create_array(tmp_path / "Z", data=values, chunks=chunks)
    expected = stage(f"{tmp_path}/Z", DISTANCES, scratch)
    monkeypatch.setattr("distforest.sources.laid_rows.MOST_OF_CHUNKS", 100)
    assert stage(f"{tmp_path}/Z", DISTANCES, tmp_path / "other") == expected
    assert [path.name for path in (tmp_path / "other").glob("*.npy")] == [f"{expected.sha256}.npy"]
    assert not list((tmp_path / "other").glob("*.partial"))


def test_another_content_shape_or_dtype_is_another_file(tmp_path: Path, scratch: Path) -> None:
    values = np.arange(12, dtype=np.int32)
    arrays = [
        values,
        values + 1,
        values.reshape(3, 4),
        values.reshape(4, 3),
        values.view(np.float32),
        values.astype("i8"),
    ]
    found = {stage(stored(tmp_path / f"v{n}.zarr", own), AS_IT_IS, scratch).sha256 for n, own in enumerate(arrays)}
    assert len(found) == len(arrays) == len(left_in(scratch))


@pytest.mark.parametrize("shape", [(0,), (0, 3), (5,), (2, 2, 2)])
def test_arrays_are_staged_as_they_are(shape: tuple[int, ...], tmp_path: Path, scratch: Path) -> None:
    values = np.arange(int(np.prod(shape)), dtype=np.int16).reshape(shape)
    chunks = tuple(max(1, size) for size in shape)
    staged = stage(stored(tmp_path / "v.zarr", values, chunks), AS_IT_IS, scratch)
    found = staged.open(scratch)
    assert (found.shape, found.dtype, found.tolist()) == (shape, np.int16, values.tolist())


@pytest.mark.parametrize(
    ("reading", "values", "message"),
    [
        (FEATURES, np.array([[1.0, np.inf]]), "features must be finite or NaN"),
        (SIMILARITIES, np.array([[1.0, np.inf]]), "similarities must be finite or NaN"),
        (DISTANCES, np.zeros((2, 3)), "a square matrix was expected"),
        (FEATURES, np.zeros(4), "a 2-D matrix was expected"),
    ],
)
def test_what_is_refused_leaves_nothing_behind(
    reading: Reading, values: np.ndarray, message: str, tmp_path: Path, scratch: Path
) -> None:
    address = stored(tmp_path / "x.zarr", values)
    with pytest.raises(InputError, match=message):
        stage(address, reading, scratch)
    assert left_in(scratch) == []


def test_a_refusal_names_the_address(tmp_path: Path, scratch: Path) -> None:
    address = stored(tmp_path / "x.zarr", np.array([[1.0, np.inf]]))
    with pytest.raises(InputError) as caught:
        stage(address, FEATURES, scratch)
    assert str(caught.value).startswith(f"{address}: features must be finite")
    with pytest.raises(InputError, match="found none"):
        stage(str(tmp_path / "none.zarr"), FEATURES, scratch)


def test_a_refusal_of_a_shape_names_the_address_too(tmp_path: Path, scratch: Path) -> None:
    address = stored(tmp_path / "x.zarr", np.zeros(4))
    with pytest.raises(InputError, match=address):
        stage(address, FEATURES, scratch)


def test_asymmetric_distances_warn_where_they_are_staged(tmp_path: Path, scratch: Path) -> None:
    values = np.array([[0.0, 1.0], [3.0, 0.0]])
    with pytest.warns(UserWarning, match="differ by up to 2; their mean is used"):
        staged = stage(stored(tmp_path / "z.zarr", values), DISTANCES, scratch)
    assert staged.open(scratch).tolist() == [[0.0, 2.0], [2.0, 0.0]]


def test_an_error_in_the_middle_leaves_nothing_behind(
    tmp_path: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = stored(tmp_path / "x.zarr", samples.features(4))

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(staging, "read_level", interrupted)
    with pytest.raises(KeyboardInterrupt):
        stage(address, FEATURES, scratch)
    assert left_in(scratch) == []


# --- opening on another host ------------------------------------------------------------------------------


def test_a_host_without_the_file_stages_it_for_itself(tmp_path: Path, scratch: Path) -> None:
    staged = stage(stored(tmp_path / "x.zarr", samples.features(6)), FEATURES, scratch)
    elsewhere = tmp_path / "other"
    assert staged.open(elsewhere).tobytes() == samples.features(6).tobytes()
    assert f"{staged.sha256}.npy" in left_in(elsewhere)
    assert [name for name in left_in(elsewhere) if name.endswith(".partial")] == []


def test_a_source_that_has_changed_is_refused(tmp_path: Path, scratch: Path) -> None:
    X = samples.features(6)
    staged = stage(stored(tmp_path / "x.zarr", X), FEATURES, scratch)
    stored(tmp_path / "x.zarr", X + np.float32(1))
    assert staged.open(scratch).tobytes() == X.tobytes()  # what was planned is still here
    with pytest.raises(InputError, match="has changed since the job was planned; start it again"):
        staged.open(tmp_path / "other")
    assert staged.open(scratch).tobytes() == X.tobytes()


def test_a_source_that_is_gone_is_refused(tmp_path: Path, scratch: Path) -> None:
    staged = stage(stored(tmp_path / "x.zarr", samples.features(6)), FEATURES, scratch)
    (tmp_path / "x.zarr").rename(tmp_path / "y.zarr")
    with pytest.raises(InputError, match="found none"):
        staged.open(tmp_path / "other")


def open_and_tell(staged: Staged, scratch: Path, barrier: object, answers: object) -> None:
    """In a process: open at the same moment as the other, count the stagings, and tell what was found."""
    calls = []
    original = staging.stage

    def counted(*arguments: object) -> Staged:
        calls.append(1)
        return original(*arguments)  # type: ignore[arg-type]

    staging.stage = counted  # type: ignore[assignment]
    barrier.wait()  # type: ignore[attr-defined]
    found = staged.open(scratch)
    answers.put((len(calls), found.tobytes()))  # type: ignore[attr-defined]


def test_two_processes_stage_once(tmp_path: Path, scratch: Path) -> None:
    X = samples.features(50)
    staged = stage(stored(tmp_path / "x.zarr", X, (3, 1)), FEATURES, scratch)
    context = multiprocessing.get_context("spawn")
    barrier, answers = context.Barrier(2), context.Queue()
    elsewhere = tmp_path / "other"
    workers = [context.Process(target=open_and_tell, args=(staged, elsewhere, barrier, answers)) for _ in range(2)]
    for worker in workers:
        worker.start()
    found = [answers.get(timeout=100) for _ in workers]
    for worker in workers:
        worker.join(100)
    assert [worker.exitcode for worker in workers] == [0, 0]
    assert sorted(calls for calls, _ in found) == [0, 1]
    assert [content for _, content in found] == [X.tobytes()] * 2
    assert [name for name in left_in(elsewhere) if not name.endswith(".lock")] == [f"{staged.sha256}.npy"]


def test_a_file_that_was_damaged_is_staged_again(
    tmp_path: Path, scratch: Path, caplog: pytest.LogCaptureFixture
) -> None:
    X = samples.features(6)
    staged = stage(stored(tmp_path / "x.zarr", X), FEATURES, scratch)
    path = scratch / f"{staged.sha256}.npy"
    for damage in (b"", path.read_bytes()[:-1], path.read_bytes()[:-1] + b"?"):
        path.write_bytes(damage)
        assert staged.open(scratch).tobytes() == X.tobytes()
        assert caplog.messages == [f"{path} is damaged, {tmp_path / 'x.zarr'} is staged again"]
        caplog.clear()
    path.write_bytes(b"")
    (tmp_path / "x.zarr").rename(tmp_path / "y.zarr")
    with pytest.raises(InputError, match="found none"):
        staged.open(scratch)


def test_what_is_staged_and_sound_is_left_to_those_who_read_it(tmp_path: Path, scratch: Path) -> None:
    address = stored(tmp_path / "x.zarr", samples.features(6))
    staged = stage(address, FEATURES, scratch)
    path = scratch / f"{staged.sha256}.npy"
    with staged.watched(scratch) as found:
        before = path.stat()
        assert stage(address, FEATURES, scratch) == staged
        assert staged.open(scratch).tobytes() == found.tobytes()
        assert (path.stat().st_ino, path.stat().st_ctime_ns) == (before.st_ino, before.st_ctime_ns)
    path.write_bytes(b"damaged")
    assert stage(address, FEATURES, scratch) == staged
    assert staged.open(scratch).tobytes() == samples.features(6).tobytes()


# --- the folder -------------------------------------------------------------------------------------------


def test_files_that_nobody_opened_for_long_are_forgotten(tmp_path: Path, scratch: Path) -> None:
    old, used, new = (
        stage(stored(tmp_path / f"x{n}.zarr", np.full((2, 2), float(n))), FEATURES, scratch) for n in range(3)
    )
    (scratch / "notes.txt").write_text("not ours")
    (scratch / "dead.partial").write_text("of a process that was killed")
    now = (scratch / f"{old.sha256}.npy").stat().st_mtime
    for path in scratch.iterdir():
        if path.name != f"{new.sha256}.npy":
            os.utime(path, (now - KEPT_SECONDS - 9,) * 2)
    used.open(scratch)
    stage(stored(tmp_path / "y.zarr", np.full((2, 2), 9.0)), FEATURES, scratch)
    left = left_in(scratch)
    assert f"{old.sha256}.npy" not in left
    assert "dead.partial" not in left
    assert {f"{used.sha256}.npy", f"{new.sha256}.npy", "notes.txt"} <= set(left)


def test_what_a_dead_process_has_left_half_written_is_soon_removed(tmp_path: Path, scratch: Path) -> None:
    """One that is at work holds the lock of its file, however long that takes."""
    address = stored(tmp_path / "x.zarr", samples.features(3))
    stage(address, FEATURES, scratch)
    dead, living = scratch / "dead.partial", scratch / "living.partial"
    with living.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        dead.touch()
        stage(address, FEATURES, scratch)
        assert {dead.name, living.name} <= set(left_in(scratch))  # it may not have taken its lock yet
        for path in (dead, living):
            os.utime(path, (path.stat().st_mtime - PARTIAL_SECONDS - 9,) * 2)
        stage(address, FEATURES, scratch)
    assert dead.name not in left_in(scratch)
    assert living.name in left_in(scratch)


def test_a_full_disk_is_told_and_nothing_is_left_on_it(tmp_path: Path, small_disk: Path) -> None:
    """Of what is staged there already nothing is lost."""
    small, large = np.ones((300, 300)), np.zeros((1200, 1000))
    first = stage(stored(tmp_path / "small.zarr", small), FEATURES, small_disk / "s")
    address, before = stored(tmp_path / "large.zarr", large), left_in(small_disk / "s")
    with pytest.raises(JobError) as caught:
        stage(address, FEATURES, small_disk / "s")
    told = str(caught.value)
    assert told.startswith(f"No space left on device: 4,800,000 bytes are needed in {small_disk}/s on ")
    assert f" are free; to stage {address}, make room there, or name another folder (`run.scratch`, or" in told
    assert left_in(small_disk / "s") == before
    with (small_disk / "filler").open("wb", buffering=0) as filler, suppress(OSError):
        while filler.write(bytes(4096)):
            pass
    assert first.open(small_disk / "s").shape == (300, 300)
    with pytest.raises(JobError, match="No space left"):
        stage(stored(tmp_path / "other.zarr", small + 1), FEATURES, small_disk / "s")


def test_the_default_folder_can_be_chosen(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DISTFOREST_SCRATCH", str(tmp_path / "own"))
    assert default_scratch() == tmp_path / "own"
    monkeypatch.delenv("DISTFOREST_SCRATCH")
    assert default_scratch().name == f"distforest-{os.getuid()}"


def test_staged_files_are_for_their_user_alone(tmp_path: Path) -> None:
    scratch = tmp_path / "own"
    staged = stage(stored(tmp_path / "x.zarr", samples.features(3)), FEATURES, scratch)
    assert scratch.stat().st_mode & 0o077 == 0
    assert (scratch / f"{staged.sha256}.npy").stat().st_mode & 0o077 == 0


def test_a_scratch_folder_of_somebody_else_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DISTFOREST_SCRATCH", raising=False)
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))
    own = default_scratch()
    own.mkdir()
    assert default_scratch() == own
    stranger = os.getuid() + 1
    own.rename(tmp_path / f"distforest-{stranger}")
    monkeypatch.setattr("os.getuid", lambda: stranger)
    with pytest.raises(InputError, match="belongs to another user"):
        default_scratch()
