"""One owner of an output: fits and scorings that meet at one, that were killed, and what they leave."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from distforest.errors import CancelledJobError, ConflictError, InputError, JobError
from distforest.forest.forest import Forest
from distforest.forest.sealed.artifact import open_forest, save
from distforest.growth.problem import Problem
from distforest.jobs import merge, train
from distforest.jobs.cluster import Threads
from distforest.jobs.input_staging import stage_inputs
from distforest.jobs.inputs import Inputs
from distforest.jobs.question import Question
from distforest.jobs.score import score
from distforest.jobs.spec import Spec
from distforest.jobs.train import Fitted, Options, fit, kept
from distforest.sources.arrays import open_array, write_array
from distforest.stores.claims import CLAIM, Claim
from distforest.stores.folder import Folder
from tests import samples
from tests.jobs.iris_jobs import write_arrays
from tests.messages import naming
from tests.service.command_line import run

SPEC = """\
format = 1
method = "smerf"
seed = {seed}
output = "{output}"
[input]
features = "{folder}/d.zarr/X"
distances = {{ kind = "labels", values = "{folder}/d.zarr/y" }}
[params]
n_estimators = {n_trees}
[run]
batch = 1
scratch = "{folder}/scratch"
"""


@dataclass(frozen=True)
class Home:
    """A folder with data, for jobs whose outputs are in a folder of the test's own."""

    data: Path
    own: Path

    def spec(self, name: str = "f.zarr", seed: int = 1, n_trees: int = 6) -> Path:
        """The file of a fit."""
        output = name if "://" in name else f"{self.own}/{name}"
        path = self.own / f"{seed}.toml"
        path.write_text(SPEC.format(seed=seed, output=output, folder=self.data, n_trees=n_trees))
        return path

    def inputs(self, seed: int = 1, n_trees: int = 6) -> Inputs:
        """The staged inputs of a fit."""
        spec = Spec.from_toml(self.spec(seed=seed, n_trees=n_trees))
        found = stage_inputs(spec, f"{self.data}/staged-{seed}")
        (self.own / f"{seed}.toml").unlink()
        return found

    def left(self) -> set[str]:
        """What lies in the test's own folder beside the specs."""
        return {path.name for path in self.own.iterdir() if path.suffix != ".toml"}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder, rng = tmp_path_factory.mktemp("data"), np.random.default_rng(0)
    X = rng.normal(size=(40, 3)).astype(np.float32)
    write_arrays(f"{folder}/d.zarr", X=X, y=(X[:, 0] > 0).astype(np.int64))
    return folder


@pytest.fixture
def home(data: Path, tmp_path: Path) -> Home:
    return Home(data, tmp_path)


@pytest.fixture(params=["path", "memory"])
def output(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The address of a forest, in the file system or on a store that cannot rename."""
    place = str(tmp_path) if request.param == "path" else f"memory://{uuid.uuid4().hex}"
    yield f"{place}/f.zarr"
    if request.param == "memory":
        assert set(Folder(place).names()) <= {"f.zarr"}
        Folder(place).remove()


def fitted(inputs: Inputs, output: str, **options: Any) -> Fitted:
    """Train in this thread; the shards lie apart from the output."""
    return fit(inputs, output, Folder(f"memory://work-{uuid.uuid4().hex}"), Threads(1), Options(**options))


# --- at the door, and at the seal -------------------------------------------------------------------------


@pytest.mark.slow
def test_a_second_fit_of_an_output_is_refused_while_the_first_one_grows(
    home: Home, output: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    grow, inputs, other = Problem.grow, home.inputs(), home.inputs(seed=2)
    refused: list[str] = []

    def meanwhile(self: Problem, trees: np.ndarray) -> dict[str, np.ndarray]:
        for overwrite in (False, True):
            with pytest.raises(ConflictError) as found:
                fitted(other, output, overwrite=overwrite)
            refused.append(str(found.value))
        with pytest.raises(ConflictError, match=naming(output, "another fit", "another scoring")):
            score(Question(f"{home.own}/g.zarr", f"{home.data}/d.zarr/X", "apply"), output, Threads(1))
        return grow(self, trees)

    monkeypatch.setattr(Problem, "grow", meanwhile)
    done = fitted(inputs, output)
    assert len(refused) >= 2
    assert all(said.startswith(output) and "another fit" in said for said in refused)
    monkeypatch.undo()
    assert open_forest(output).digest == done.digest
    assert fitted(other, output, overwrite=True).digest == open_forest(output).digest != done.digest
    assert home.left() <= {"f.zarr"}


@pytest.mark.slow
@pytest.mark.parametrize("how", ["it owns the output", "it has sealed it"])
def test_a_fit_that_was_taken_for_dead_is_refused_at_the_seal(
    home: Home, output: str, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """Its process was frozen, another one has come, and it wakes."""
    inputs, other, check = home.inputs(), home.inputs(seed=2), merge.check_written
    usurper = Claim(output, "the usurper")

    def frozen(*given: Any) -> None:
        monkeypatch.setattr(merge, "check_written", check)
        check(*given)
        Folder(f"{output}.job").discard(CLAIM)
        if how == "it owns the output":
            usurper.take()
        else:
            Folder(output).remove()  # on a store without renaming, what was begun there
            fitted(other, output)

    monkeypatch.setattr(merge, "check_written", frozen)
    whose = "the usurper" if how == "it owns the output" else "another job"
    with pytest.raises(InputError, match=naming(output, whose)):
        fitted(inputs, output)
    if how == "it owns the output":
        usurper.release()
        assert not Folder(output).exists("manifest.json")
        Folder(output).remove()
    else:
        assert open_forest(output).digest == fitted(other, output).digest


@pytest.mark.slow
def test_an_older_forest_is_there_until_the_new_one_is_whole(
    home: Home, output: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    inputs, other, seal = home.inputs(), home.inputs(seed=2), merge.seal
    before = fitted(inputs, output).digest

    def fails(*_: Any) -> None:
        assert open_forest(output).digest == before
        raise JobError("the end")

    monkeypatch.setattr(merge, "seal", fails)
    with pytest.raises(JobError, match="the end"):
        fitted(other, output, overwrite=True)
    monkeypatch.setattr(merge, "seal", seal)
    assert open_forest(output).digest == before
    assert fitted(other, output, overwrite=True).digest == open_forest(output).digest != before


@pytest.mark.slow
def test_a_cut_off_replacement_is_finished_by_whoever_comes_next(
    home: Home, output: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    inputs, other = home.inputs(), home.inputs(seed=2)
    before = fitted(inputs, output).digest

    class KilledError(BaseException):
        pass

    def killed(*_: Any) -> None:
        if "://" not in output:
            Path(output).rename(Path(output).with_name(".f.zarr.older"))
        raise KilledError

    claim = Claim(output, "the one that dies")
    claim.take()
    with monkeypatch.context() as patch:
        patch.setattr("distforest.stores.building._exchange", killed)
        patch.setattr("fsspec.implementations.memory.MemoryFileSystem.cp_file", killed)
        with pytest.raises(KilledError):
            fitted(other, output, overwrite=True, claim=claim)
    assert not Folder(output).exists("manifest.json")
    Folder(f"{output}.job").discard(CLAIM)  # it is dead, which another process would see
    with pytest.raises(InputError, match=naming(output, "another job")):
        fitted(home.inputs(seed=3), output)
    found = open_forest(output).digest
    assert (found == before) == ("://" not in output)
    assert fitted(other, output, overwrite=True).digest == open_forest(output).digest != before


@pytest.mark.slow
def test_a_forest_beside_which_somebody_keeps_notes_is_not_replaced(home: Home, output: str) -> None:
    inputs, other = home.inputs(), home.inputs(seed=2)
    before = fitted(inputs, output).digest
    Folder(output).write("notes.txt", b"mine")
    assert fitted(inputs, output).n_grown == 0  # the same job finds its forest
    with pytest.raises(InputError, match=naming(output, "notes.txt")):
        fitted(other, output, overwrite=True)
    assert (open_forest(output).digest, Folder(output).read("notes.txt")) == (before, b"mine")


# --- processes --------------------------------------------------------------------------------------------


def process(*arguments: Any) -> dict[str, Any]:
    """The arguments of a command in a process of its own."""
    command = [sys.executable, "-m", "distforest", *map(str, arguments)]
    return {"args": command, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}


@pytest.mark.slow
@pytest.mark.cluster
def test_two_fits_at_once_make_one_forest_and_one_refusal(home: Home) -> None:
    specs = [home.spec(seed=1, n_trees=300), home.spec(seed=2, n_trees=300)]
    both = [subprocess.Popen(**process("fit", spec, "--workers", 1, "--json")) for spec in specs]
    said = [(*one.communicate(timeout=120), one.returncode) for one in both]
    [(made, _, _)] = [one for one in said if one[2] == 0]
    [(_, refused, code)] = [one for one in said if one[2] != 0]
    assert code == 2
    [line] = refused.splitlines()
    assert re.match(rf"error: {home.own}/f\.zarr .*`distforest fit {home.own}/.*`distforest fit ", line)
    assert open_forest(f"{home.own}/f.zarr").digest == json.loads(made)["digest"]
    assert home.left() == {"f.zarr"}


@pytest.mark.slow
@pytest.mark.cluster
def test_a_fit_that_was_killed_blocks_nobody_and_goes_on(home: Home) -> None:
    spec = home.spec(n_trees=300)
    with subprocess.Popen(**process("fit", spec, "--workers", 1), start_new_session=True) as first:
        assert first.stderr is not None
        next(line for line in first.stderr if line.startswith("grow ") and not line.startswith("grow 0/"))
        code, _, err = run("fit", spec, "--workers", 1)
        assert (code, f"process {first.pid} on " in err) == (2, True)
        os.killpg(first.pid, signal.SIGKILL)
    assert home.left() == {"f.zarr.job"}
    assert (home.own / "f.zarr.job" / CLAIM).exists()
    code, out, _ = run("fit", spec, "--workers", 1, "--json")
    assert (code, json.loads(out)["n_grown"] < 300) == (0, True)
    assert home.left() == {"f.zarr"}


KILLED = """
import os, signal, sys
from distforest.stores import building
from distforest.command_line import cli

def kill(*_):
    os.kill(os.getpid(), signal.SIGKILL)

building.publish = kill
cli.main()
"""


@pytest.mark.slow
def test_what_a_killed_writing_leaves_goes_with_the_next_one(home: Home, sealed_of: Callable[[str], Path]) -> None:
    np.savez(home.own / "a.npz", X=np.eye(3))
    write_array(f"{home.data}/q.zarr", "X", samples.features().shape, np.dtype(np.float32), [samples.features()])
    commands = (
        ("ingest", home.own / "a.npz", home.own / "a.zarr"),
        ("score", sealed_of("labels"), f"{home.data}/q.zarr/X", home.own / "a.zarr", "--threads-here", 1),
    )
    for command in commands:
        done = subprocess.run([sys.executable, "-c", KILLED, *map(str, command)], check=False, timeout=120)
        assert done.returncode == -signal.SIGKILL
        assert home.left() == {"a.npz", "a.zarr.job"}
        assert len(list((home.own / "a.zarr.job").iterdir())) == 2
        assert run(*command)[0] == 0
        assert home.left() == {"a.npz", "a.zarr"}
        shutil.rmtree(home.own / "a.zarr")


# --- what is left -----------------------------------------------------------------------------------------


def test_a_refused_fit_leaves_no_folder(home: Home) -> None:
    (home.own / "f.zarr").mkdir()
    (home.own / "f.zarr" / "precious").write_text("mine")
    for output in ("f.zarr", "no/f.zarr"):
        assert run("fit", home.spec(output), "--overwrite")[0] == 2
    shutil.rmtree(home.own / "f.zarr")
    assert run("fit", home.spec(), "--set", "input.features=nowhere.zarr/X")[0] == 2
    assert run("fit", home.spec(), "--set", "input.features=nowhere.zarr/X", "--overwrite")[0] == 2
    assert run("fit", home.spec(), "--scheduler", "bad://nobody")[0] == 3
    assert home.left() == set()


def test_trees_are_kept_at_a_bad_end_and_nothing_else_is(tmp_path: Path) -> None:
    folder = Folder(f"{tmp_path}/f.zarr.job")
    for names in (["shards-1/trees-0-0.npz", "inputs.zarr/truth/zarr.json"], ["inputs.zarr/truth/zarr.json"]):
        folder.remove()
        for name in (*names, CLAIM):
            folder.write(name, b"1")
        with pytest.raises(JobError, match="no"), kept(folder):
            raise JobError("no")
        assert folder.names() == sorted([CLAIM, *({"inputs.zarr", "shards-1"} if len(names) == 2 else ())])


def test_a_fit_with_another_seed_goes_on_where_one_was_interrupted(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who stops a fit to change something need not clean up."""
    commit = train.commit

    def interrupted(*given: Any) -> Any:
        commit(*given)
        raise KeyboardInterrupt

    folder, claim = Folder(f"{home.own}/f.zarr.job"), Claim(f"{home.own}/f.zarr", "the first")
    with monkeypatch.context() as patch:
        patch.setattr(train, "commit", interrupted)
        with pytest.raises(KeyboardInterrupt), claim.held(), kept(folder):
            fit(home.inputs(), claim.output, folder, Threads(1), Options(batch=1, claim=claim))
    assert folder.names() == [train.shard_name(0, 0)] or len(folder.names()) == 1
    fit(home.inputs(seed=2), claim.output, folder, Threads(1), Options())
    assert home.left() == {"f.zarr"}


# --- scoring ----------------------------------------------------------------------------------------------


@pytest.fixture
def asked(home: Home, forest_of: Callable[[str], Forest]) -> Question:
    """A question to a forest in the test's own folder."""
    save(forest_of("labels"), f"{home.own}/g.zarr")
    rows = samples.features()
    write_array(f"{home.own}/q.zarr", "X", rows.shape, rows.dtype, [rows])
    return Question(f"{home.own}/g.zarr", f"{home.own}/q.zarr/X", "distance")


def test_answers_never_take_the_place_of_what_they_are_about(home: Home, asked: Question) -> None:
    (home.own / "link.zarr").symlink_to("q.zarr")
    before = {path: path.read_bytes() for path in home.own.rglob("*") if path.is_file()}
    reference = replace(asked, reference=f"{home.own}/q.zarr/X")
    for question in (asked, reference):
        for name in ("g.zarr", "q.zarr", "q.zarr/X", "link.zarr", "./q.zarr", "link.zarr/X", "g.zarr/a.zarr"):
            with pytest.raises(InputError, match=naming("output", f"'{home.own}/{name}'")):
                score(question, f"{home.own}/{name}", Threads(1), overwrite=True)
    assert {path: path.read_bytes() for path in home.own.rglob("*") if path.is_file()} == before


def test_answers_replace_answers_alone(home: Home, asked: Question) -> None:
    for name, content in (("file.zarr", None), ("folder.zarr", "thesis.tex")):
        place = home.own / name
        if content:
            place.mkdir()
        (place / content if content else place).write_text("mine")
        with pytest.raises(InputError, match=naming(place, content or "a file")):
            score(asked, str(place), Threads(1), overwrite=True)
        assert (place / content if content else place).read_text() == "mine"
    save(open_forest(asked.forest), f"{home.own}/other.zarr")
    with pytest.raises(InputError, match=naming(f"{home.own}/other.zarr", "a sealed forest")):
        score(asked, f"{home.own}/other.zarr", Threads(1), overwrite=True)
    assert open_forest(f"{home.own}/other.zarr").digest == open_forest(asked.forest).digest


def test_older_answers_are_there_until_the_new_ones_are_whole(
    home: Home, asked: Question, output: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    score(asked, output, Threads(1))
    before = np.asarray(open_array(f"{output}/distance")[...])
    other = replace(asked, answer="apply")

    def fails(*_: Any) -> None:
        raise JobError("the end")

    with monkeypatch.context() as patch:
        patch.setattr("distforest.jobs.score.answer_rows", fails)
        with pytest.raises(JobError, match="the end"):
            score(other, output, Threads(1), overwrite=True)
    assert (np.asarray(open_array(f"{output}/distance")[...]) == before).all()
    with pytest.raises(InputError, match=naming(output, "`run.overwrite`")):
        score(other, output, Threads(1))
    score(other, output, Threads(1), overwrite=True)
    assert not Folder(output).exists("distance")
    assert open_array(f"{output}/nodes").shape[0] == len(before)


@pytest.mark.slow
def test_a_scoring_whose_begun_answers_are_gone_begins_anew(
    home: Home, asked: Question, output: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As those are that are to replace others on a store, once the job has failed and given its output back."""
    folder = Folder(f"memory://work-{uuid.uuid4().hex}")
    score(replace(asked, answer="apply"), output, Threads(1))

    def fails(*_: Any) -> None:
        raise JobError("the end")

    with monkeypatch.context() as patch:
        patch.setattr("distforest.stores.building.publish", fails)
        with pytest.raises(JobError, match="the end"):
            score(asked, output, Threads(1), overwrite=True, folder=folder)
    for name in folder.names():
        if name.startswith("answers-"):
            folder.within(name).remove()
    assert [name for name in folder.names() if name.startswith("done-")]
    score(asked, output, Threads(1), overwrite=True, folder=folder)
    assert np.isfinite(np.asarray(open_array(f"{output}/distance")[...])).all()


def test_a_scoring_that_was_taken_for_dead_is_refused_at_the_seal(
    home: Home, asked: Question, output: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from distforest.jobs import score as module

    answer, usurper = module.answer_rows, Claim(output, "the usurper")

    def frozen(task: Any) -> int:
        Folder(f"{output}.job").discard(CLAIM)
        usurper.take()
        return answer(task)

    monkeypatch.setattr(module, "answer_rows", frozen)
    with pytest.raises(ConflictError, match=naming(output, "the usurper", "another scoring")):
        score(asked, output, Threads(1))
    usurper.release()
    Folder(output).remove()


# --- tasks that outlive their job -------------------------------------------------------------------------


@pytest.mark.slow
def test_a_task_that_outlives_its_scoring_writes_nothing_into_the_next_one(
    home: Home, asked: Question, output: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Dask does not stop a running task: its client was interrupted, and asks something else at the same output."""
    from distforest.jobs import score as module

    answer, late = module.answer_rows, list[Any]()

    def interrupted(task: Any) -> None:
        late.append(task)
        raise KeyboardInterrupt

    def answered_before(task: Any) -> Any:
        seen = answer(task)
        with pytest.raises(ConflictError, match=naming(output, "another scoring")):
            answer(late[0])
        return seen

    monkeypatch.setattr(module, "answer_rows", interrupted)
    with pytest.raises(KeyboardInterrupt):
        score(asked, output, Threads(1))
    with pytest.raises(CancelledJobError, match=naming("another scoring", f"{output}.job/{CLAIM}")):
        answer(late[0])
    assert not Folder(f"{output}.job").exists()
    monkeypatch.setattr(module, "answer_rows", answered_before)
    rows = samples.features()[::-1]
    write_array(f"{home.own}/q.zarr", "R", rows.shape, rows.dtype, [rows])
    other = replace(asked, queries=f"{home.own}/q.zarr/R")
    score(other, output, Threads(1), overwrite=True)
    monkeypatch.setattr(module, "answer_rows", answer)
    score(other, f"{home.own}/apart.zarr", Threads(1))
    found, expected = (np.asarray(open_array(f"{at}/distance")[...]) for at in (output, f"{home.own}/apart.zarr"))
    assert found.tobytes() == expected.tobytes()
    Folder(output).remove()


@pytest.mark.slow
def test_a_task_that_outlives_its_fit_writes_nothing_into_the_next_one(
    home: Home, output: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    merge_rows, late = merge.merge_rows, list[Any]()

    def interrupted(task: Any) -> None:
        late.append(task)
        raise KeyboardInterrupt

    def merged_before(task: Any) -> Any:
        digests = merge_rows(task)
        with pytest.raises(ConflictError, match=naming(output, "another fit")):
            merge_rows(late[0])
        return digests

    folder = Folder(f"memory://work-{uuid.uuid4().hex}")
    monkeypatch.setattr(merge, "merge_rows", interrupted)
    with pytest.raises(KeyboardInterrupt):
        fit(home.inputs(), output, folder, Threads(1), Options())
    monkeypatch.setattr(merge, "merge_rows", merged_before)
    done = fit(home.inputs(seed=2), output, folder, Threads(1), Options(overwrite=True))
    assert open_forest(output).digest == done.digest
    Folder(output).remove()
