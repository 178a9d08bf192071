"""Who owns an output: one job at a time, however it is written, and nobody who is dead."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import fsspec
import pytest

from distforest.errors import ConflictError, InputError
from distforest.stores import claims
from distforest.stores.claims import CLAIM, CLAIM_STALE, Claim, owned
from tests.messages import naming

HOLDER = """
import sys
from distforest.stores.claims import Claim
with Claim(sys.argv[1], "the fit of a.toml").held():
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def output(output: str) -> Iterator[str]:
    """An output that nobody owns, beside which a test leaves nothing on a store."""
    yield output
    if "://" in output:
        files, root = fsspec.core.url_to_fs(output.removesuffix("/a.zarr"))
        assert not files.find(root)


@contextmanager
def another_process(output: str) -> Iterator[subprocess.Popen[str]]:
    """Another process owns the output, until it is killed at the latest at the end of the block."""
    command = [sys.executable, "-c", HOLDER, output]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "held\n"
            yield process
        finally:
            process.kill()


def changed(claim: Claim, **told: Any) -> None:
    """Let a claim on disk say something else."""
    path = Path(claim.address)
    path.write_text(json.dumps({**json.loads(path.read_text()), **told}))


def test_one_job_owns_an_output_until_it_gives_it_back(output: str) -> None:
    first, second = Claim(output, "the first"), Claim(output, "the second")
    with first.held():
        first.take()
        with pytest.raises(ConflictError, match=r"a\.zarr .*the first.*the second"):
            second.take()
        second.release()
        first.take()
    with second.held():
        pass
    second.release()


def test_the_message_names_both_jobs_and_the_process(tmp_path: Path) -> None:
    with another_process(f"{tmp_path}/a.zarr") as process:
        told = rf"^{tmp_path}/a\.zarr .*the fit of a\.toml.* 20.*process {process.pid}.*the fit of b\.toml"
        with pytest.raises(ConflictError, match=told):
            Claim(f"{tmp_path}/a.zarr", "the fit of b.toml").take()


def test_a_claim_of_which_nothing_is_written_names_no_process(tmp_path: Path) -> None:
    """Who made it was killed before it wrote who it is."""
    (tmp_path / "a.zarr.job").mkdir()
    (tmp_path / "a.zarr.job" / CLAIM).touch()
    with pytest.raises(ConflictError, match=naming(tmp_path / "a.zarr", "begun")) as refused:
        Claim(f"{tmp_path}/a.zarr", "job b").take()
    assert "None" not in str(refused.value)


def test_the_claim_of_a_process_that_was_killed_is_taken_over(tmp_path: Path) -> None:
    output = f"{tmp_path}/a.zarr"
    with another_process(output) as process:
        (tmp_path / "a.zarr.job" / "arrays.zarr").mkdir()  # what it has built so far
        process.kill()
        process.wait()
        with Claim(output, "the next").held():
            assert [path.name for path in (tmp_path / "a.zarr.job").iterdir()] == [CLAIM]
    assert list(tmp_path.iterdir()) == []


def test_a_job_of_a_service_takes_over_from_a_process_that_was_killed(tmp_path: Path) -> None:
    output, root = f"{tmp_path}/a.zarr", f"{tmp_path}/jobs/smerf-1"
    with another_process(output) as process:
        process.kill()
        process.wait()
        Claim(output, "job smerf-1 of the root", root, root, ("FAILED",)).take()
    assert json.loads((tmp_path / "a.zarr.job" / CLAIM).read_text())["id"] == root


def test_a_number_that_another_process_has_by_now_is_not_the_owner(tmp_path: Path) -> None:
    claim = Claim(f"{tmp_path}/a.zarr", "the first")
    claim.take()
    changed(claim, born=1.0)
    Claim(f"{tmp_path}/a.zarr", "the second").take()


@pytest.mark.parametrize(("silent", "is_free"), [(CLAIM_STALE + 5, True), (CLAIM_STALE - 5, False)])
def test_a_process_of_another_machine_is_alive_as_long_as_it_is_heard(
    tmp_path: Path, silent: float, is_free: bool
) -> None:
    claim, other = Claim(f"{tmp_path}/a.zarr", "the first"), Claim(f"{tmp_path}/a.zarr", "the second")
    claim.take()
    changed(claim, machine="elsewhere")
    then = os.stat(claim.address).st_mtime - silent
    os.utime(claim.address, (then, then))
    if is_free:
        other.take()
        with pytest.raises(ConflictError, match=r"the second.*the first"):
            claim.take()  # it was frozen: it learns here that it was taken for dead
    else:
        with pytest.raises(ConflictError, match=naming("the first", "30 s")):
            other.take()
    assert [path.name for path in (tmp_path / "a.zarr.job").iterdir()] == [CLAIM]


def test_who_owns_an_output_beats(output: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claims, "CLAIM_BEAT", 0.0)
    beats, beaten = [], threading.Event()

    def note(*_: Any) -> None:
        beats.append(1)
        beaten.set()

    with Claim(output, "the first").held():
        monkeypatch.setattr(claims, "put_file", note)
        monkeypatch.setattr(claims.os, "utime", note)
        assert beaten.wait(60)
    assert not fsspec.core.url_to_fs(f"{output}.job/{CLAIM}")[0].exists(f"{output}.job/{CLAIM}")


def at_once(what: list[Callable[[], None]]) -> list[BaseException | None]:
    """Call all of them in threads that begin together; what each has raised."""
    barrier, answers = threading.Barrier(len(what)), [None] * len(what)  # type: list[BaseException | None]

    def call(place: int) -> None:
        barrier.wait()
        try:
            what[place]()
        except (ConflictError, OSError) as error:
            answers[place] = error

    answers = [None] * len(what)
    threads = [threading.Thread(target=call, args=(place,)) for place in range(len(what))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return answers


@pytest.mark.slow
@pytest.mark.parametrize("before", ["nothing", "a dead claim", "a torn claim"])
def test_of_many_that_come_at_once_one_owns_the_output(tmp_path: Path, before: str) -> None:
    for number in range(20):
        output = f"{tmp_path}/{number}.zarr"
        dead = Claim(output, "the dead")
        if before != "nothing":
            dead.take()
            changed(dead, born=1.0)
        if before == "a torn claim":
            Path(dead.address).write_bytes(b"")
            os.utime(dead.address, (1.0, 1.0))
        asked = [Claim(output, f"job {place}") for place in range(6)]
        answers = at_once([claim.take for claim in asked])
        [winner] = [claim for claim, error in zip(asked, answers, strict=True) if error is None]
        assert json.loads(Path(winner.address).read_text())["id"] == winner.id
        assert {type(error) for error in answers if error is not None} == {ConflictError}
        winner.release()
    assert list(tmp_path.iterdir()) == []


def test_an_output_by_any_other_name_is_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "link").symlink_to("in")
    (tmp_path / "f.zarr").symlink_to("in/a.zarr")
    monkeypatch.chdir(tmp_path)
    names = [f"{tmp_path}/in/../in/./a.zarr", "in/a.zarr/", "link/a.zarr", "f.zarr", f"file://{tmp_path}/in/a.zarr"]
    with Claim(f"{tmp_path}/in/a.zarr", "the first").held():
        for name in names:
            with pytest.raises(ConflictError, match=r"the first.*the second"):
                Claim(name, "the second").take()
    for name in names:
        with Claim(name, "the first").held():
            assert (tmp_path / "in" / "a.zarr.job" / CLAIM).exists()
    assert {path.name for path in tmp_path.iterdir()} == {"in", "link", "f.zarr"}


@pytest.mark.parametrize("place", ["memory://{}/jobs", "{}/jobs"])
def test_a_job_of_a_service_owns_its_output_until_it_has_ended(tmp_path: Path, place: str) -> None:
    root, output = f"{place.format(tmp_path)}/smerf-1", f"{tmp_path}/a.zarr"
    files, path = fsspec.core.url_to_fs(root)
    claim = Claim(output, "job smerf-1 of the root", root, root, ("FAILED",))
    for state, is_owned in (("RUNNING", True), ("FAILED", False), (None, True), ("INTERRUPTED", True)):
        files.makedirs(path, exist_ok=True)
        files.pipe_file(f"{path}/spec.json", b"{}")
        files.pipe_file(f"{path}/state.json", json.dumps({"state": state}).encode() if state else b"{")
        claim.take()
        other = Claim(output, "another fit")
        if is_owned:
            with pytest.raises(ConflictError, match="`distforest cancel smerf-1`"):
                other.take()
        else:
            other.take()
            with pytest.raises(ConflictError, match=r"another fit.*job smerf-1"):
                claim.take()  # the same job, resumed
            other.release()
    claim.take()
    files.rm(path, recursive=True)  # `distforest rm`, or the whole root is gone
    with Claim(output, "another fit").held():
        pass


def test_the_job_root_of_another_machine_cannot_be_judged(tmp_path: Path) -> None:
    claim = Claim(f"{tmp_path}/a.zarr", "job a of there", "a", "/elsewhere/jobs/a", ("FAILED",))
    claim.take()
    changed(claim, machine="elsewhere")
    with pytest.raises(ConflictError, match=naming("job a of there", claim.address)):
        Claim(f"{tmp_path}/a.zarr", "another fit").take()
    changed(claim, root="http://127.0.0.1:1/jobs/a")  # nobody is asked whom a job root cannot be at
    with pytest.raises(ConflictError, match=r"job a of there.*another fit"):
        Claim(f"{tmp_path}/a.zarr", "another fit").take()


def test_a_claim_that_somebody_has_removed_is_made_again(tmp_path: Path) -> None:
    claim = Claim(f"{tmp_path}/a.zarr", "the first")
    claim.take()
    Path(claim.address).unlink()
    claim.take()
    assert json.loads(Path(claim.address).read_text())["job"] == "the first"


def test_an_output_inside_another_one_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.zarr").mkdir()
    inside = Claim(f"{tmp_path}/a.zarr/deep.zarr", "the second")
    with (
        Claim(f"{tmp_path}/a.zarr", "the first").held(),
        pytest.raises(ConflictError, match=naming(f"{tmp_path}/a.zarr/deep.zarr ", f"{tmp_path}/a.zarr ", "the first")),
    ):
        inside.take()
    place = f"memory://{uuid.uuid4().hex}/a.zarr"
    with Claim(place, "the first").held(), pytest.raises(ConflictError, match=naming(f"{place}/deep.zarr ", "inside")):
        Claim(f"{place}/deep.zarr", "the second").take()
    (tmp_path / "a.zarr" / "zarr.json").write_text('{"zarr_format": 3, "node_type": "array"}')
    with pytest.raises(InputError, match=naming("output: ", "a.zarr/deep.zarr", f"{tmp_path}/a.zarr;", "array")):
        inside.take()
    (tmp_path / "a.zarr" / "zarr.json").write_text('{"zarr_format": 3, "node_type": "group"}')
    with inside.held():  # data and forests may lie in one group
        pass


def test_an_output_where_another_job_works_is_refused(tmp_path: Path) -> None:
    with Claim(f"{tmp_path}/a.zarr", "the first").held():
        with pytest.raises(InputError, match=naming("a.zarr.job/b.zarr", "another output")):
            Claim(f"{tmp_path}/a.zarr.job/b.zarr", "the second").take()
        assert [path.name for path in (tmp_path / "a.zarr.job").iterdir()] == [CLAIM]


# --- where there is no place for it -----------------------------------------------------------------------


def test_the_folder_of_an_output_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=naming("none", f"{tmp_path}/no/no")):
        Claim(f"{tmp_path}/no/no/a.zarr", "a fit").take()
    assert list(tmp_path.iterdir()) == []


def test_what_somebody_has_where_the_job_works_stays(tmp_path: Path) -> None:
    folder = tmp_path / "a.zarr.job"
    folder.write_text("mine")
    with pytest.raises(InputError, match=naming("a.zarr.job", "file")):
        Claim(f"{tmp_path}/a.zarr", "a fit").take()
    folder.unlink()
    folder.mkdir()
    (folder / "thesis.tex").write_text("mine")
    with pytest.raises(InputError, match=naming("thesis.tex")):
        Claim(f"{tmp_path}/a.zarr", "a fit").take()
    assert [path.name for path in folder.iterdir()] == ["thesis.tex"]


def test_a_pipe_in_the_place_of_a_claim_is_not_waited_for(tmp_path: Path) -> None:
    (tmp_path / "a.zarr.job").mkdir()
    os.mkfifo(tmp_path / "a.zarr.job" / CLAIM)
    with pytest.raises(InputError, match=naming(CLAIM, "regular file")):
        Claim(f"{tmp_path}/a.zarr", "a fit").take()


def test_a_place_that_nothing_can_be_written_to_is_reported() -> None:
    with pytest.raises(InputError, match=naming("output: /proc/a.zarr: ", os.strerror(errno.ENOENT))):
        Claim("/proc/a.zarr", "a fit").take()


def test_a_disk_that_is_full_is_no_fault_of_the_output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "it is full")

    monkeypatch.setattr(claims.os, "fsync", full)
    with pytest.raises(OSError, match="it is full"), owned(f"{tmp_path}/a.zarr", "a fit"):
        pytest.fail("it was owned")
    assert list(tmp_path.iterdir()) == []


def test_a_store_without_conditions_is_asked_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """As some that speak S3's protocol are."""
    output, files = f"memory://{uuid.uuid4().hex}/a.zarr", fsspec.filesystem("memory")
    pipe = type(files).pipe_file

    def refusing(self: Any, path: str, value: bytes, **more: Any) -> None:
        if more:
            raise NotImplementedError("A header you provided implies functionality that is not implemented")
        pipe(self, path, value)

    monkeypatch.setattr(type(files), "pipe_file", refusing)
    with Claim(output, "the first").held(), pytest.raises(ConflictError, match=r"the first.*the second"):
        Claim(output, "the second").take()


@pytest.mark.parametrize(
    "told",
    [
        {"since": "yesterday"},
        {"since": 1e300},
        {"since": None, "job": None},
        {"pid": "x"},
        {"pid": -5},
        {"pid": 2**80, "born": None},
        {"root": 5},
        {"root": "http://127.0.0.1:1/x", "ends": 5},
        {"machine": [], "job": {"a": 1}},
    ],
)
def test_what_a_claim_says_may_be_anything(tmp_path: Path, told: dict[str, Any]) -> None:
    output = f"{tmp_path}/a.zarr"
    Claim(output, "the first").take()
    changed(Claim(output, "the first"), **told)
    other = Claim(output, "the second")
    try:
        other.take()
    except ConflictError as error:
        assert str(error).startswith(f"{output} ")
    Path(other.address).write_bytes(b"[" * 50_000)
    os.utime(other.address, (1.0, 1.0))
    Claim(output, "the third").take()


def test_a_claim_of_another_user_that_cannot_be_read_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(*_: Any) -> bytes:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(claims, "read_file", denied)
    with pytest.raises(InputError, match=naming(CLAIM, "user", "output")):
        Claim(f"{tmp_path}/a.zarr", "a fit").take()
