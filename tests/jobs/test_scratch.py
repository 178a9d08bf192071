"""What befalls the scratch folder while a job runs: damage makes no other forest, want of room ends no process."""

from __future__ import annotations

import fcntl
import os
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from distforest import SMERF, Distances
from distforest.errors import DamageError, JobError
from distforest.forest.sealed.artifact import open_forest
from distforest.growth.problem import Problem
from distforest.jobs import inputs, merge, screening
from distforest.jobs.cluster import Progress, Threads
from distforest.jobs.input_staging import stage_inputs
from distforest.jobs.on_dask import OnDask, local_cluster
from distforest.jobs.preview import check_and_stage, preview
from distforest.jobs.scratch_room import HostWorkers, workers_here
from distforest.jobs.spec import Spec
from distforest.sources import array_files
from distforest.sources.array_files import Mapped
from distforest.sources.arrays import write_array
from distforest.sources.scratch import lock_of
from tests.jobs.iris_jobs import N_TREES, X, Y, Z, run, write_arrays
from tests.messages import naming

SPEC = """
format = 1
method = "smerf"
seed = 3
output = "f.zarr"
[input]
features = "wide.zarr/X"
distances = {{ kind = "labels", values = "wide.zarr/y" }}
[params]
n_estimators = 2
[run]
workers = 1
{more}
"""


@pytest.fixture(autouse=True)
def afresh() -> None:
    """This process has nothing open of another test."""
    inputs.forget_job("")


@pytest.fixture(scope="module")
def reference() -> str:
    """The digest of the same forest, grown in one thread in memory."""
    return SMERF(N_TREES, max_features="sqrt", random_state=3).fit(X, Distances(Z)).digest_


def staged_file(spec: Spec, name: str) -> Path:
    inputs = stage_inputs(spec, f"{spec.output}.job")
    return Path(str(spec.run.scratch)) / f"{getattr(inputs, name).sha256}.npy"


def once(deed: Callable[[], Any]) -> Callable[[object], None]:
    """Do something at the first of many calls."""
    left = [deed]

    def done(_: object) -> None:
        if left:
            left.pop()()

    return done


def with_limit(spec: Spec, limit: int) -> Spec:
    return replace(spec, run=spec.run.model_copy(update={"scratch_limit": limit}))


def overwrite(path: Path) -> None:
    """Other numbers, as many; the header stays."""
    sound = path.read_bytes()
    with path.open("r+b") as file:
        file.seek(256)
        file.write(sound[256:][::-1])


# --- damage -----------------------------------------------------------------------------------------------


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    """All staged files are mapped, as large ones are."""
    monkeypatch.setattr(array_files, "COPIED_BYTES", 0)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["matrix", "truth"])
def test_a_small_file_that_is_overwritten_does_no_harm(spec: Spec, reference: str, name: str) -> None:
    path, sound = staged_file(spec, name), staged_file(spec, name).read_bytes()
    assert run(spec, Threads(1), on_answer=once(lambda: overwrite(path))).digest == reference
    assert staged_file(spec, name).read_bytes() == sound


@pytest.mark.slow
@pytest.mark.usefixtures("large")
@pytest.mark.parametrize("name", ["matrix", "truth"])
def test_a_staged_file_that_is_overwritten_while_trees_grow_never_makes_another_forest(
    spec: Spec, reference: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, grow, grown = staged_file(spec, name), Problem.grow, list[int]()

    def damaged(problem: Problem, trees: np.ndarray) -> dict[str, np.ndarray]:
        arrays = grow(problem, trees)
        grown.extend(trees.tolist())
        if len(grown) == 6:
            overwrite(path)
        return arrays

    monkeypatch.setattr(Problem, "grow", damaged)
    with pytest.raises(JobError, match=naming(path, "written")):
        run(spec, Threads(1))
    assert not Path(spec.output).exists()
    done = run(spec, Threads(1))
    assert done.digest == reference
    assert done.n_grown <= N_TREES - 4  # another task may have begun meanwhile, with a file that was staged again
    assert open_forest(done.address).digest == reference


@pytest.mark.slow
@pytest.mark.usefixtures("large")
@pytest.mark.parametrize("deed", [Path.unlink, os.utime, lambda path: path.chmod(0o400)])
def test_what_leaves_a_staged_file_sound_ends_no_job(
    spec: Spec, reference: str, deed: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("distforest.jobs.cluster.RETRY_SECONDS", 0.0)
    path = staged_file(spec, "truth")
    assert run(spec, Threads(1), on_answer=once(lambda: deed(path))).digest == reference


@pytest.mark.usefixtures("large")
def test_a_job_that_reads_what_another_stages_again_is_not_disturbed(spec: Spec, reference: str) -> None:
    done = run(spec, Threads(1), on_answer=once(lambda: stage_inputs(spec, f"{spec.output}.another_job")))
    assert (done.digest, done.n_grown) == (reference, N_TREES)


@pytest.mark.slow
@pytest.mark.usefixtures("large")
def test_damage_that_no_task_could_see_is_found_before_the_seal_and_no_tree_is_kept(
    spec: Spec, reference: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = staged_file(spec, "truth")
    monkeypatch.setattr(Mapped, "check_untouched", lambda _: None)  # the file system does not know of the damage
    monkeypatch.setattr(Mapped, "is_untouched", True)
    with pytest.raises(DamageError, match=str(path)):
        run(spec, Threads(1), on_answer=once(lambda: overwrite(path)))
    assert not Path(spec.output).exists()
    monkeypatch.undo()
    done = run(spec, Threads(1))
    assert (done.digest, done.n_grown) == (reference, N_TREES)


@pytest.mark.usefixtures("large")
def test_what_a_merge_copies_is_held_too(spec: Spec, reference: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path, opened = staged_file(spec, "truth"), merge.opened_shard
    damage = once(lambda: overwrite(path))

    def opening(*given: Any) -> Any:
        damage(None)
        return opened(*given)

    def told(progress: Progress) -> None:
        if progress.name == "merge":
            monkeypatch.setattr(merge, "opened_shard", opening)

    with pytest.raises(JobError, match=naming(path, "written")):
        run(spec, Threads(1), watch=told)
    monkeypatch.undo()
    assert not (Path(f"{spec.output}.job") / "forest.zarr").exists()
    done = run(spec, Threads(1))
    assert (done.digest, done.n_grown) == (reference, 0)


@pytest.mark.usefixtures("large")
def test_what_a_screen_reads_is_held_too(spec: Spec, monkeypatch: pytest.MonkeyPatch) -> None:
    of_features = {"method": "urerf", "input": {"features": spec.input.addresses["features"]}}
    told = {**spec.to_dict(), **of_features, "params": {"n_estimators": 2}}
    screened = Spec.from_dict(told)
    path, ranks = staged_file(screened, "matrix"), screening.ranks
    damage = once(lambda: overwrite(path))

    def ranking(*given: Any) -> Any:
        damage(None)
        return ranks(*given)

    monkeypatch.setattr(screening, "ranks", ranking)
    with pytest.raises(JobError, match=naming(path, "written")):
        run(screened, Threads(1))


STRUCK: list[Callable[[], None]] = []


def apart(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Distances of numbered objects; something happens at the first call."""
    if STRUCK:
        STRUCK.pop()()
    return np.asarray(Z[left, right])


@pytest.mark.slow
@pytest.mark.usefixtures("large")
def test_what_a_lockstep_reads_is_held_too(spec: Spec, tmp_path: Path) -> None:
    write_array(f"{tmp_path}/iris.zarr", "y", Y.shape, Y.dtype, [Y])
    similarity = {"kind": "lazy", "measure": "distance", "function": f"{__name__}:apart"}
    addresses = {"similarity": similarity, "labels": f"{tmp_path}/iris.zarr/y"}
    asked = Spec.from_dict({**spec.to_dict(), "method": "simforest", "input": addresses, "params": {"n_estimators": 3}})
    path = staged_file(asked, "matrix")
    STRUCK.append(lambda: overwrite(path))
    with pytest.raises(JobError, match=naming(path, "written")):
        run(asked, Threads(1))
    again = run(asked, Threads(1))
    undisturbed = run(replace(asked, output=f"{tmp_path}/undisturbed.zarr"), Threads(1))
    assert again.digest == undisturbed.digest


@pytest.mark.slow
@pytest.mark.cluster
@pytest.mark.parametrize("deed", [overwrite, lambda path: os.truncate(path, 300)])
def test_workers_whose_file_is_damaged_or_cut_off_make_no_other_forest(
    cluster: OnDask, spec: Spec, reference: str, deed: Callable[[Path], None]
) -> None:
    """Who reads behind the end of a file is ended by the system, and is followed by a worker that stages it again."""
    path = staged_file(spec, "truth")
    cluster.client.run(setattr, array_files, "COPIED_BYTES", 0)
    strike, digests = once(lambda: deed(path)), []
    for _ in range(3):
        try:
            digests.append(run(spec, cluster, on_answer=strike).digest)
        except JobError as error:
            assert f"{path} on " in str(error)
    assert digests[-1] == reference
    assert set(digests) == {reference}
    cluster.client.wait_for_workers(2, timeout=60)


# --- room -------------------------------------------------------------------------------------------------


def stage_in(place: str) -> None:
    """In a worker: have its staged files there."""
    os.environ["DISTFOREST_SCRATCH"] = place


@pytest.mark.slow
@pytest.mark.cluster
def test_a_worker_without_room_fails_the_job_with_the_reason_and_lives(
    cluster: OnDask, spec: Spec, small_disk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DISTFOREST_SCRATCH", str(tmp_path / "of_the_driver"))
    wide = np.random.default_rng(0).normal(size=(150, 8000))
    write_array(f"{tmp_path}/iris.zarr", "wide", wide.shape, wide.dtype, [wide])
    addresses = {**spec.to_dict()["input"], "features": f"{tmp_path}/iris.zarr/wide"}
    of_each = Spec.from_dict({**spec.to_dict(), "input": addresses, "run": {}})
    cluster.client.run(stage_in, str(small_disk))
    workers = cluster.client.run(os.getpid)
    with pytest.raises(JobError, match=rf"^4,8\d\d,\d{{3}} .*{small_disk} .*4,194,304 .*`run\.scratch`"):
        run(of_each, cluster)
    assert cluster.client.run(os.getpid) == workers
    assert list(small_disk.iterdir()) == []
    cluster.client.run(stage_in, str(tmp_path / "of_the_driver"))
    assert run(of_each, cluster).n_grown == N_TREES


@pytest.mark.slow
@pytest.mark.parametrize("where", ["run.scratch", "TMPDIR", "DISTFOREST_SCRATCH"])
def test_a_fit_without_room_ends_with_one_line_and_leaves_nothing(small_disk: Path, tmp_path: Path, where: str) -> None:
    wide = np.random.default_rng(0).normal(size=(150, 8000))
    write_arrays(f"{tmp_path}/wide.zarr", X=wide, y=Y)
    more = f'scratch = "{small_disk}"' if where == "run.scratch" else ""
    (tmp_path / "job.toml").write_text(SPEC.format(more=more))
    environment = {name: value for name, value in os.environ.items() if name != "DISTFOREST_SCRATCH"}
    if not more:
        environment[where] = str(small_disk)
    done = subprocess.run(
        [sys.executable, "-m", "distforest", "fit", "job.toml"],
        cwd=tmp_path,
        env=environment | {"PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, "")
    [line] = done.stderr.splitlines()
    assert re.match(rf"error: 4,9\d\d,\d{{3}} .*{small_disk}.* 4,194,304 .*`run\.scratch`", line)
    assert not [path for path in small_disk.rglob("*") if path.is_file()]
    assert not (tmp_path / "f.zarr").exists()


@pytest.mark.usefixtures("large")
def test_a_limit_does_not_change_the_forest(spec: Spec, reference: str) -> None:
    """All that the job stages is just within it, and what lies there of others goes."""
    limited = with_limit(spec, preview(spec).scratch.staged)
    place = limited.run.scratch_folder
    place.check()
    other = place.staged("0" * 64)
    other.write_bytes(bytes(place.limit or 0))
    assert run(limited, Threads(2)).digest == reference
    assert not other.exists()


def test_a_worker_needs_no_room_for_a_file_that_its_neighbour_is_staging(spec: Spec) -> None:
    limited = with_limit(spec, preview(spec).scratch.staged)
    place, known = limited.run.scratch_folder, stage_inputs(limited, f"{spec.output}.job")
    for staged in known.staged:
        place.staged(staged.sha256).unlink()
    n_bytes, lock = known.truth.n_bytes, lock_of(place.staged(known.truth.sha256))
    with lock.open("w") as neighbour, place.new_file(b"", n_bytes, "to stage the truth"):
        with pytest.raises(JobError, match=naming(f"{n_bytes:,} of the ", place.path, "`run.scratch_limit`")):
            known.check_room()
        fcntl.flock(neighbour, fcntl.LOCK_EX)
        known.check_room()


@pytest.mark.slow
@pytest.mark.cluster
def test_what_the_workers_have_mapped_of_jobs_that_have_ended_may_go(
    cluster: OnDask, spec: Spec, reference: str, tmp_path: Path
) -> None:
    """A limit for one job at a time: what a job has staged is in use as long as it runs, and no longer."""
    cluster.client.run(setattr, array_files, "COPIED_BYTES", 0)
    write_arrays(f"{tmp_path}/iris.zarr", X2=X[::-1], Z2=np.ascontiguousarray(Z[::-1, ::-1]))
    addresses = {"features": f"{tmp_path}/iris.zarr/X2", "distances": f"{tmp_path}/iris.zarr/Z2"}
    turned = {**spec.to_dict(), "output": f"{tmp_path}/turned.zarr", "input": addresses}
    first, second = (with_limit(job, preview(spec).scratch.staged) for job in (spec, Spec.from_dict(turned)))
    staged, refused = [staged_file(job, "truth") for job in (first, second)], list[str]()

    def beside(_: object) -> None:
        try:
            check_and_stage(second, f"{second.output}.job")
        except JobError as error:
            refused.append(str(error))

    assert run(first, cluster, on_answer=once(lambda: beside(None))).digest == reference
    [told] = refused
    assert "`run.scratch_limit`" in told
    assert run(second, cluster).n_grown == N_TREES
    assert [path.exists() for path in staged] == [False, True]


@pytest.mark.cluster
def test_a_cluster_tells_which_workers_share_a_host(cluster: OnDask) -> None:
    assert workers_here(cluster.hosts) == HostWorkers(cluster.n_workers, cluster.slots)


@pytest.mark.cluster
def test_who_leads_a_job_lets_go_of_its_inputs_too(cluster: OnDask) -> None:
    jobs = list[str]()
    cluster.everywhere(jobs.append, "a.job")
    assert jobs == ["a.job"]


def test_workers_without_room_for_their_own_files_are_refused_in_words(small_disk: Path) -> None:
    with (small_disk / "filler").open("wb") as filler:
        os.posix_fallocate(filler.fileno(), 0, 4 << 20)
    with pytest.raises(JobError, match=naming("workers", "Errno 28")):
        local_cluster(1, folder=small_disk).__enter__()


def test_inputs_in_words(spec: Spec) -> None:
    folder = Path(spec.output).parent
    assert str(stage_inputs(spec, f"{folder}/job")) == f"the inputs {folder}/iris.zarr/X and {folder}/iris.zarr/Z"
