"""Staged inputs: one file for one content, nothing for what is refused, one process at a time."""

from __future__ import annotations

import errno
import fcntl
import gc
import multiprocessing
import os
import re
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import zarr

from distforest.errors import DistforestWarning, InputError, JobError
from distforest.sources import array_files, arrays, readings, staging
from distforest.sources.array_files import array_digest
from distforest.sources.readings import AS_IT_IS, DISTANCES, FEATURES, SIMILARITIES, Reading, read
from distforest.sources.scratch import KEPT_SECONDS, PARTIAL_SECONDS, ScratchFolder, lock_of
from distforest.sources.staging import Staged, stage
from tests import samples
from tests.messages import naming


@pytest.fixture
def scratch(tmp_path: Path) -> ScratchFolder:
    return ScratchFolder(tmp_path / "scratch" / "deep")


def stored(path: Path, values: np.ndarray, chunks: tuple[int, ...] | None = None) -> str:
    """A Zarr array with these values, written over another one if there is one."""
    array = zarr.create_array(
        str(path), shape=values.shape, dtype=values.dtype, chunks=chunks or values.shape, overwrite=True
    )
    array[...] = values
    return str(path)


def left_in(scratch: ScratchFolder) -> list[str]:
    return sorted(path.name for path in scratch.path.iterdir()) if scratch.path.exists() else []


def test_a_staged_array_is_the_array_as_it_is_read(tmp_path: Path, scratch: ScratchFolder) -> None:
    z = samples.distances(7)
    address = stored(tmp_path / "z.zarr", z.astype(np.float64), (2, 3))
    staged = stage(address, DISTANCES, scratch)
    assert left_in(scratch) == [f"{staged.sha256}.npy"]
    found = staged.open(scratch)
    assert found.tobytes() == read(z, DISTANCES).tobytes()
    assert (staged.shape, staged.dtype, staged.address, staged.reading) == ((7, 7), "float32", address, DISTANCES)
    assert staged.n_bytes == found.nbytes == 7 * 7 * 4
    assert not found.flags.writeable


def test_one_content_in_any_chunks_and_dtype_is_one_file(tmp_path: Path, scratch: ScratchFolder) -> None:
    X = samples.features(9)
    found = {
        stage(stored(tmp_path / f"x{n}.zarr", X.astype(dtype), chunks), FEATURES, scratch).sha256
        for n, (chunks, dtype) in enumerate([((9, 5), "f4"), ((1, 1), "f4"), ((4, 2), "f8")])
    }
    assert len(found) == 1
    assert left_in(scratch) == [f"{found.pop()}.npy"]


@pytest.mark.parametrize("chunks", [(9, 2), (3, 4), (2, 9)])
def test_chunks_that_are_parts_of_rows_are_laid_out_first(
    chunks: tuple[int, int], tmp_path: Path, scratch: ScratchFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = np.random.default_rng(0).random((9, 9))
    values = values + values.T
    zarr.create_array(tmp_path / "Z", data=values, chunks=chunks)
    expected = stage(f"{tmp_path}/Z", DISTANCES, scratch)
    monkeypatch.setattr("distforest.sources.rechunked_rows.MOST_OF_CHUNKS", 100)
    assert stage(f"{tmp_path}/Z", DISTANCES, ScratchFolder(tmp_path / "other")) == expected
    assert [path.name for path in (tmp_path / "other").glob("*.npy")] == [f"{expected.sha256}.npy"]
    assert not list((tmp_path / "other").glob("*.partial"))


def test_another_content_shape_or_dtype_is_another_file(tmp_path: Path, scratch: ScratchFolder) -> None:
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
def test_arrays_are_staged_as_they_are(shape: tuple[int, ...], tmp_path: Path, scratch: ScratchFolder) -> None:
    values = np.arange(int(np.prod(shape)), dtype=np.int16).reshape(shape)
    chunks = tuple(max(1, size) for size in shape)
    staged = stage(stored(tmp_path / "v.zarr", values, chunks), AS_IT_IS, scratch)
    found = staged.open(scratch)
    assert (found.shape, found.dtype, found.tolist()) == (shape, np.int16, values.tolist())


@pytest.mark.parametrize(
    ("reading", "values", "named"),
    [
        (FEATURES, np.array([[1.0, np.inf]]), ["features", "row 0, column 1"]),
        (SIMILARITIES, np.array([[1.0, np.inf]]), ["similarities", "row 0, column 1"]),
        (DISTANCES, np.zeros((2, 3)), ["square", "(2, 3)"]),
        (FEATURES, np.zeros(4), ["(4,)"]),
    ],
)
def test_what_is_refused_is_named_by_its_address_and_leaves_nothing_behind(
    reading: Reading, values: np.ndarray, named: list[str], tmp_path: Path, scratch: ScratchFolder
) -> None:
    address = stored(tmp_path / "x.zarr", values)
    with pytest.raises(InputError, match=naming(f"{address}: ", *named)):
        stage(address, reading, scratch)
    with pytest.raises(InputError, match=naming(tmp_path / "absent.zarr", "none")):
        stage(str(tmp_path / "absent.zarr"), reading, scratch)
    assert left_in(scratch) == []


def test_asymmetric_distances_warn_where_they_are_staged(tmp_path: Path, scratch: ScratchFolder) -> None:
    values = np.array([[0.0, 1.0], [3.0, 0.0]])
    with pytest.warns(DistforestWarning, match=naming("z_ij", "to 2")):
        staged = stage(stored(tmp_path / "z.zarr", values), DISTANCES, scratch)
    assert staged.open(scratch).tolist() == [[0.0, 2.0], [2.0, 0.0]]


@pytest.mark.parametrize("reading", [FEATURES, DISTANCES])
def test_an_error_in_the_middle_leaves_nothing_behind(
    reading: Reading, tmp_path: Path, scratch: ScratchFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = stored(tmp_path / "x.zarr", samples.distances(4))

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Reading, "block", interrupted)
    with pytest.raises(KeyboardInterrupt):
        stage(address, reading, scratch)
    assert left_in(scratch) == []


@pytest.mark.parametrize("dtype", ["f4", "f8", ">f4", "i2"])
def test_blocks_that_are_written_while_others_are_read_are_the_whole_array(
    dtype: str, tmp_path: Path, scratch: ScratchFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = np.arange(600.0).reshape(200, 3).astype(dtype)
    address = stored(tmp_path / "x.zarr", values, (7, 3))
    monkeypatch.setattr(readings, "row_blocks", lambda array: arrays.row_blocks(array, 300))
    staged = stage(address, FEATURES, scratch)
    assert staged.sha256 == array_digest(values.astype(np.float32))
    assert staged.open(scratch).tolist() == values.tolist()


def test_a_block_that_is_refused_late_leaves_nothing_behind(
    tmp_path: Path, scratch: ScratchFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = samples.features(200)
    values[150, 0] = np.inf
    address = stored(tmp_path / "x.zarr", values, (7, 5))
    monkeypatch.setattr(readings, "row_blocks", lambda array: arrays.row_blocks(array, 300))
    with pytest.raises(InputError, match=naming(address, "row 150, column 0")):
        stage(address, FEATURES, scratch)
    assert left_in(scratch) == []


def test_a_disk_that_refuses_what_was_written_is_reported(
    tmp_path: Path, scratch: ScratchFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = stored(tmp_path / "x.zarr", samples.features(200), (7, 5))
    told = iter([OSError(errno.EIO, "broken disk")])

    def once(_: int) -> None:
        for error in told:
            raise error

    monkeypatch.setattr(readings, "row_blocks", lambda array: arrays.row_blocks(array, 300))
    monkeypatch.setattr(array_files.os, "fsync", once)
    with pytest.raises(OSError, match="broken disk"):
        stage(address, FEATURES, scratch)
    assert left_in(scratch) == []


def test_values_that_distforest_wrote_are_compared_with_their_digest(
    tmp_path: Path, scratch: ScratchFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = samples.features(200)
    arrays.write_array(str(tmp_path), "x", values.shape, values.dtype, [values], chunk_bytes=300)
    monkeypatch.setattr(readings, "row_blocks", lambda array: arrays.row_blocks(array, 300))
    assert stage(f"{tmp_path}/x", FEATURES, scratch).sha256 == array_digest(values)
    zarr.open_array(tmp_path / "x", mode="r+")[199, 0] += 1.0
    with pytest.raises(InputError, match=naming(tmp_path / "x", "values")):
        stage(f"{tmp_path}/x", FEATURES, scratch)


# --- opening on another host ------------------------------------------------------------------------------


def test_a_host_without_the_file_stages_it_for_itself(tmp_path: Path, scratch: ScratchFolder) -> None:
    staged = stage(stored(tmp_path / "x.zarr", samples.features(6)), FEATURES, scratch)
    elsewhere = ScratchFolder(tmp_path / "other")
    assert staged.open(elsewhere).tobytes() == samples.features(6).tobytes()
    assert f"{staged.sha256}.npy" in left_in(elsewhere)
    assert [name for name in left_in(elsewhere) if name.endswith(".partial")] == []


def test_a_source_that_has_changed_is_refused(tmp_path: Path, scratch: ScratchFolder) -> None:
    X = samples.features(6)
    staged = stage(stored(tmp_path / "x.zarr", X), FEATURES, scratch)
    stored(tmp_path / "x.zarr", X + np.float32(1))
    assert staged.open(scratch).tobytes() == X.tobytes()  # what was planned is still here
    with pytest.raises(InputError, match=naming(tmp_path / "x.zarr", "changed")):
        staged.open(ScratchFolder(tmp_path / "other"))
    assert staged.open(scratch).tobytes() == X.tobytes()


def test_a_source_that_is_gone_is_refused(tmp_path: Path, scratch: ScratchFolder) -> None:
    staged = stage(stored(tmp_path / "x.zarr", samples.features(6)), FEATURES, scratch)
    (tmp_path / "x.zarr").rename(tmp_path / "y.zarr")
    with pytest.raises(InputError, match=naming(tmp_path / "x.zarr", "none")):
        staged.open(ScratchFolder(tmp_path / "other"))


def open_and_tell(staged: Staged, scratch: ScratchFolder, barrier: object, answers: object) -> None:
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


@pytest.mark.slow
def test_two_processes_stage_once(tmp_path: Path, scratch: ScratchFolder) -> None:
    X = samples.features(50)
    staged = stage(stored(tmp_path / "x.zarr", X, (3, 1)), FEATURES, scratch)
    context = multiprocessing.get_context("spawn")
    barrier, answers = context.Barrier(2), context.Queue()
    elsewhere = ScratchFolder(tmp_path / "other")
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
    tmp_path: Path, scratch: ScratchFolder, caplog: pytest.LogCaptureFixture
) -> None:
    X = samples.features(6)
    staged = stage(stored(tmp_path / "x.zarr", X), FEATURES, scratch)
    path = scratch.staged(staged.sha256)
    for damage in (b"", path.read_bytes()[:-1], path.read_bytes()[:-1] + b"?"):
        path.write_bytes(damage)
        assert staged.open(scratch).tobytes() == X.tobytes()
        [told] = caplog.messages
        assert re.match(naming(path, tmp_path / "x.zarr"), told)
        caplog.clear()
    path.write_bytes(b"")
    (tmp_path / "x.zarr").rename(tmp_path / "y.zarr")
    with pytest.raises(InputError, match=naming(tmp_path / "x.zarr", "none")):
        staged.open(scratch)


def test_what_is_staged_and_sound_is_left_to_those_who_read_it(tmp_path: Path, scratch: ScratchFolder) -> None:
    address = stored(tmp_path / "x.zarr", samples.features(6))
    staged = stage(address, FEATURES, scratch)
    path = scratch.staged(staged.sha256)
    with staged.watched(scratch) as found:
        before = path.stat()
        assert stage(address, FEATURES, scratch) == staged
        assert staged.open(scratch).tobytes() == found.tobytes()
        assert (path.stat().st_ino, path.stat().st_ctime_ns) == (before.st_ino, before.st_ctime_ns)
    path.write_bytes(b"damaged")
    assert stage(address, FEATURES, scratch) == staged
    assert staged.open(scratch).tobytes() == samples.features(6).tobytes()


# --- the folder -------------------------------------------------------------------------------------------


def test_files_that_nobody_opened_for_long_are_forgotten(tmp_path: Path, scratch: ScratchFolder) -> None:
    old, used, new = (
        stage(stored(tmp_path / f"x{n}.zarr", np.full((2, 2), float(n))), FEATURES, scratch) for n in range(3)
    )
    (scratch.path / "notes.txt").write_text("not ours")
    (scratch.path / "staged-dead.partial").write_text("of a process that was killed")
    now = scratch.staged(old.sha256).stat().st_mtime
    for path in scratch.path.iterdir():
        if path.name != f"{new.sha256}.npy":
            os.utime(path, (now - KEPT_SECONDS - 9,) * 2)
    used.open(scratch)
    stage(stored(tmp_path / "y.zarr", np.full((2, 2), 9.0)), FEATURES, scratch)
    left = left_in(scratch)
    assert f"{old.sha256}.npy" not in left
    assert "staged-dead.partial" not in left
    assert {f"{used.sha256}.npy", f"{new.sha256}.npy", "notes.txt"} <= set(left)


def test_what_a_dead_process_has_left_half_written_is_soon_removed(tmp_path: Path, scratch: ScratchFolder) -> None:
    """One that is at work holds the lock of its file, however long that takes."""
    address = stored(tmp_path / "x.zarr", samples.features(3))
    stage(address, FEATURES, scratch)
    dead, living = scratch.path / "staged-dead.partial", scratch.path / "staged-living.partial"
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


def test_a_full_disk_is_reported_and_nothing_is_left_on_it(tmp_path: Path, small_disk: Path) -> None:
    """Of what is staged there already nothing is lost."""
    small, large, scratch = np.ones((300, 300)), np.zeros((1200, 1000)), ScratchFolder(small_disk / "s")
    first = stage(stored(tmp_path / "small.zarr", small), FEATURES, scratch)
    address, before = stored(tmp_path / "large.zarr", large), left_in(scratch)
    told = naming(os.strerror(errno.ENOSPC), "4,800,000 bytes", f"{small_disk}/s", address, "run.scratch")
    with pytest.raises(JobError, match=told):
        stage(address, FEATURES, scratch)
    assert left_in(scratch) == before
    with (small_disk / "filler").open("wb", buffering=0) as filler, suppress(OSError):
        while filler.write(bytes(4096)):
            pass
    assert first.open(scratch).shape == (300, 300)
    with pytest.raises(JobError, match=os.strerror(errno.ENOSPC)):
        stage(stored(tmp_path / "other.zarr", small + 1), FEATURES, scratch)


def test_the_default_folder_can_be_chosen(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DISTFOREST_SCRATCH", str(tmp_path / "own"))
    assert ScratchFolder().path == tmp_path / "own"
    monkeypatch.delenv("DISTFOREST_SCRATCH")
    assert ScratchFolder().path.name == f"distforest-{os.getuid()}"


def test_staged_files_are_for_their_user_alone(tmp_path: Path) -> None:
    scratch = ScratchFolder(tmp_path / "own")
    staged = stage(stored(tmp_path / "x.zarr", samples.features(3)), FEATURES, scratch)
    assert scratch.path.stat().st_mode & 0o077 == 0
    assert (scratch.staged(staged.sha256)).stat().st_mode & 0o077 == 0


def test_a_scratch_folder_of_somebody_else_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DISTFOREST_SCRATCH", raising=False)
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))
    own = ScratchFolder().path
    own.mkdir()
    assert ScratchFolder().path == own
    stranger = os.getuid() + 1
    own.rename(tmp_path / f"distforest-{stranger}")
    monkeypatch.setattr("os.getuid", lambda: stranger)
    with pytest.raises(InputError, match=naming(tmp_path, "user")):
        ScratchFolder().check()


# --- a limit ----------------------------------------------------------------------------------------------


def numbered(tmp_path: Path, number: int) -> str:
    """An array whose staged file has 928 bytes, a header of 128 and 10 x 20 float32."""
    return stored(tmp_path / f"n{number}.zarr", np.full((10, 20), float(number)))


STAGED_BYTES = 928


@pytest.fixture
def mapped(monkeypatch: pytest.MonkeyPatch) -> None:
    """All staged files are mapped, as large ones are."""
    monkeypatch.setattr(array_files, "COPIED_BYTES", 0)


def limited(scratch: ScratchFolder, n_files: float) -> ScratchFolder:
    return replace(scratch, limit=int(n_files * STAGED_BYTES))


def used_before(scratch: ScratchFolder, staged: Staged, seconds: float) -> None:
    """Let a staged file have been used so many seconds ago."""
    then = time.time() - seconds
    for path in (scratch.staged(staged.sha256), lock_of(scratch.staged(staged.sha256))):
        if path.exists():
            os.utime(path, (then, then))


def kept(scratch: ScratchFolder, files: list[Staged]) -> list[bool]:
    return [scratch.staged(staged.sha256).exists() for staged in files]


def test_the_oldest_files_go_until_a_new_one_is_within_the_limit(tmp_path: Path, scratch: ScratchFolder) -> None:
    files = [stage(numbered(tmp_path, number), FEATURES, scratch) for number in range(4)]
    for number, staged in enumerate(files):
        used_before(scratch, staged, 1000.0 - number)
    files[0].open(scratch)  # used just now
    files.append(stage(numbered(tmp_path, 4), FEATURES, limited(scratch, 3.5)))
    assert kept(scratch, files) == [True, False, False, True, True]
    files.append(stage(numbered(tmp_path, 5), FEATURES, limited(scratch, 4)))
    assert kept(scratch, files) == [True, False, False, True, True, True]


def test_files_of_users_are_never_removed(tmp_path: Path, scratch: ScratchFolder) -> None:
    scratch.check()
    own = ["download.partial", "mine.npy", "uv.lock"]
    for name in own:
        (scratch.path / name).write_bytes(bytes(8000))
        os.utime(scratch.path / name, (1.0, 1.0))  # long ago, too
    staged = stage(numbered(tmp_path, 0), FEATURES, limited(scratch, 1))
    assert left_in(scratch) == sorted([".limit", f"{staged.sha256}.npy", *own])


@pytest.mark.slow
@pytest.mark.usefixtures("mapped")
def test_a_file_in_use_stays_and_what_does_not_fit_beside_it_is_refused(tmp_path: Path, scratch: ScratchFolder) -> None:
    oldest, other = (stage(numbered(tmp_path, number), FEATURES, scratch) for number in range(2))
    values = oldest.open(scratch)
    used_before(scratch, oldest, 1000.0)
    third = stage(numbered(tmp_path, 2), FEATURES, limited(scratch, 2))
    assert kept(scratch, [oldest, other, third]) == [True, False, True]
    with pytest.raises(JobError, match=naming("928 bytes", scratch.path, "928 of the 1,392", "run.scratch_limit")):
        stage(numbered(tmp_path, 3), FEATURES, limited(scratch, 1.5))
    assert not list(scratch.path.glob("*.partial"))
    assert values[0, 0] == 0.0
    del values
    gc.collect()
    stage(numbered(tmp_path, 3), FEATURES, limited(scratch, 1.5))
    assert kept(scratch, [oldest]) == [False]


def test_a_file_that_is_removed_while_it_is_opened_is_staged_again(tmp_path: Path, scratch: ScratchFolder) -> None:
    staged, hold = stage(numbered(tmp_path, 7), FEATURES, scratch), array_files._hold
    strike = [scratch.staged(staged.sha256).unlink]

    def holding(handle: int) -> None:
        if strike:
            strike.pop()()
        hold(handle)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(array_files, "_hold", holding)
        assert staged.open(scratch)[0, 0] == 7.0
    assert kept(scratch, [staged]) == [True]


def hold_open(staged: Staged, scratch: ScratchFolder, ready: object, done: object) -> None:
    """In a process: map a staged file until told to end."""
    array_files.COPIED_BYTES = 0
    values = staged.open(scratch)
    ready.set()  # type: ignore[attr-defined]
    done.wait()  # type: ignore[attr-defined]
    assert values[0, 0] == 0.0


@pytest.mark.slow
@pytest.mark.parametrize("is_killed", [False, True])
def test_files_that_another_process_uses_stay_until_it_has_ended_or_is_killed(
    is_killed: bool, tmp_path: Path, scratch: ScratchFolder
) -> None:
    used, idle = (stage(numbered(tmp_path, number), FEATURES, scratch) for number in range(2))
    context = multiprocessing.get_context("spawn")
    ready, done = context.Event(), context.Event()
    process = context.Process(target=hold_open, args=(used, scratch, ready, done))
    process.start()
    try:
        assert ready.wait(100)
        used_before(scratch, used, 1000.0)
        new = stage(numbered(tmp_path, 2), FEATURES, limited(scratch, 2))
        assert kept(scratch, [used, idle, new]) == [True, False, True]
        with pytest.raises(JobError, match=naming("928 of the 928", "run.scratch_limit")):
            stage(numbered(tmp_path, 3), FEATURES, limited(scratch, 1))
    finally:
        process.kill() if is_killed else done.set()
        process.join(100)
    stage(numbered(tmp_path, 3), FEATURES, limited(scratch, 1))
    assert kept(scratch, [used, new]) == [False, False]


def stage_some(addresses: list[str], scratch: ScratchFolder, barrier: object, seen: object) -> None:
    """In a process: stage arrays beside another process, and tell the most bytes that were there at any time."""
    barrier.wait()  # type: ignore[attr-defined]
    most = 0
    for address in addresses:
        stage(address, FEATURES, scratch)
        most = max(most, sum(file.n_bytes for file in scratch._files()))
    seen.put(most)  # type: ignore[attr-defined]


@pytest.mark.slow
def test_two_processes_keep_one_limit(tmp_path: Path, scratch: ScratchFolder) -> None:
    context, own = multiprocessing.get_context("spawn"), limited(scratch, 3)
    barrier, seen = context.Barrier(2), context.Queue()
    addresses = [numbered(tmp_path, number) for number in range(12)]
    workers = [context.Process(target=stage_some, args=(addresses[half::2], own, barrier, seen)) for half in range(2)]
    for worker in workers:
        worker.start()
    most = [seen.get(timeout=100) for _ in workers]
    for worker in workers:
        worker.join(100)
    assert [worker.exitcode for worker in workers] == [0, 0]
    assert max(most) <= 3 * STAGED_BYTES
