"""Similarities by the name of their function: jobs that ask it, batch scoring that asks it, loaded forests."""

from __future__ import annotations

import re
import threading
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
import zarr.errors
from click.testing import CliRunner

from distforest import Lazy, SimForestClassifier, SimForestRegressor, load
from distforest.command_line.cli import main
from distforest.errors import DistforestWarning, InputError, JobError, SpecError
from distforest.forest.sealed.artifact import read_manifest
from distforest.jobs.callback import Callback
from distforest.jobs.cluster import Progress, Threads
from distforest.jobs.input_staging import stage_inputs
from distforest.jobs.on_dask import OnDask
from distforest.jobs.preview import preview
from distforest.jobs.question import Question
from distforest.jobs.score import score
from distforest.jobs.spec import Spec
from distforest.jobs.train import Options, fit
from distforest.sources.arrays import open_array, write_array
from distforest.sources.lazy.lazy_source import LazySource, opened_ledger
from distforest.stores.folder import Folder
from tests import samples
from tests.jobs.iris_jobs import run
from tests.jobs.test_lockstep import DISTANCES, IDS, N, X, Y
from tests.messages import naming
from tests.sources.lazy.test_source import Counted


def apart(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Distances of numbered objects, as a job names them: tests.jobs.test_lazy_jobs:apart."""
    return DISTANCES[left, right]


def apart_by_rows(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """The same distances of the objects themselves."""
    return np.sqrt(((left[:, None] - right[:, None]) ** 2).sum(axis=(1, 2), dtype=np.float64))


COUNTED = Counted(DISTANCES)


def counted(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """The same distances, and a count of how often each was asked for."""
    return COUNTED(left, right)


def lettered(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """The same distances of objects that are called "object <number>"."""
    numbers = [np.array([int(text.split()[1]) for text in side.tolist()]) for side in (left, right)]
    return DISTANCES[numbers[0], numbers[1]]


def broken(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """A function that always fails."""
    raise ConnectionError(f"no credit for {len(left)} and {len(right)} objects")


MARKED = np.where((np.arange(len(DISTANCES))[:, None] + np.arange(len(DISTANCES))) % 50 == 1, -9999.0, DISTANCES)


class Locked:
    """The same distances, of an object whose state has no content: no ledger can tell it from another."""

    def __init__(self) -> None:
        self.lock = threading.Lock()

    def __call__(self, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        with self.lock:
            return DISTANCES[left, right]


LOCKED = Locked()


@pytest.fixture
def place(tmp_path: Path) -> str:
    """A folder with the objects and their labels in Zarr."""
    write_array(f"{tmp_path}/iris.zarr", "X", X.shape, X.dtype, [X])
    write_array(f"{tmp_path}/iris.zarr", "y", Y.shape, Y.dtype, [Y])
    return str(tmp_path)


def job(place: str, name: str, **similarity: Any) -> Spec:
    table = {"kind": "lazy", "measure": "distance", "function": f"{__name__}:apart", **similarity}
    return Spec.from_dict(
        {
            "format": 1,
            "method": "simforest",
            "seed": 0,
            "output": f"{place}/{name}.forest.zarr",
            "input": {"similarity": table, "labels": f"{place}/iris.zarr/y"},
            "params": {"n_estimators": 8, "bootstrap": False},
            "run": {"scratch": f"{place}/scratch"},
        }
    )


@pytest.mark.slow
def test_a_job_asks_a_function_by_its_name(place: str) -> None:
    params = {"n_estimators": 8, "random_state": 0, "bootstrap": False, **samples.PAPER}
    expected = SimForestClassifier(kind="distance", **params).fit(DISTANCES, Y)
    named, of_rows = f"{__name__}:apart", f"{__name__}:apart_by_rows"
    jobs = [
        job(place, "all", function=named),
        job(place, "rows", function=of_rows, objects=f"{place}/iris.zarr/X"),
        job(place, "worker", function=named, share="worker"),
    ]
    done = [run(spec) for spec in jobs]
    assert done[0].digest == done[2].digest == expected.digest_
    assert done[1].digest == expected.digest_  # float32 rows: the distances are the same numbers
    assert done[1].evaluations < done[0].evaluations <= done[2].evaluations  # of equal rows one is asked about
    assert [one.closed for one in done] == [0, 0, 0]
    assert Path(f"{jobs[0].output}.ledger").exists()
    assert not Path(f"{jobs[2].output}.ledger").exists()
    assert run(jobs[0]).evaluations == done[0].evaluations  # sealed already
    told = preview(jobs[1])
    assert [(seen.place, seen.shape) for seen in told.inputs][1] == ("input.similarity.objects", X.shape)
    assert preview(jobs[0]).size.n_rows == N


@pytest.mark.slow
def test_a_job_within_a_budget_says_what_it_closed(place: str) -> None:
    spec = job(place, "poor", budget=700)
    done = run(replace(spec, params={**spec.params, "pairing": "kept"}))  # with which landmarks do not go
    assert done.evaluations <= 700
    assert done.closed > 0
    origin = read_manifest(done.address)["provenance"]["similarity"]
    assert (origin["evaluations"], origin["closed"]) == (done.evaluations, done.closed)
    assert origin["function"] == f"{__name__}:apart"


@pytest.mark.slow
def test_a_larger_budget_goes_on_from_a_smaller_one(place: str) -> None:
    ledger = f"{place}/shared.ledger"
    poor = run(job(place, "poor", budget=700, ledger=ledger))
    rich = run(job(place, "rich", budget=2500, ledger=ledger))
    callback = Callback.from_function(f"{__name__}:apart", {"kind": "distance", "ledger": ledger})
    with opened_ledger(callback.lazy()) as known:
        assert known is not None
        assert rich.evaluations <= known.count() < rich.evaluations + poor.evaluations


@pytest.mark.parametrize(
    ("similarity", "named"),
    [
        ({"function": "no_module_of_this_name:f"}, ("'module:function'", "'no_module_of_this_name:f'")),
        ({"function": f"{__name__}:nothing"}, (f"'{__name__}:nothing'", "AttributeError")),
        ({"function": f"{__name__}:DISTANCES"}, (f"'{__name__}:DISTANCES'", "ndarray")),
        ({"share": "worker", "budget": 5}, ("share='worker'", "budget=5")),
    ],
)
def test_a_function_that_cannot_be_asked_is_refused_before_work_starts(
    place: str, similarity: dict[str, Any], named: tuple[str, ...]
) -> None:
    with pytest.raises(InputError, match=naming(*named)):
        run(job(place, "refused", **similarity))


@pytest.mark.slow
def test_scoring_by_name_and_loaded_forests_agree(place: str) -> None:
    address = run(job(place, "all")).address
    params = {"n_estimators": 8, "random_state": 0, "bootstrap": False, **samples.PAPER}
    whole = SimForestClassifier(kind="distance", **params).fit(DISTANCES, Y)
    write_array(f"{place}/iris.zarr", "ids", (40,), IDS.dtype, [IDS[:40]])
    ledger = f"{place}/scoring.ledger"
    callback = Callback.from_function(f"{__name__}:apart", {"kind": "distance", "ledger": ledger})
    question = Question(address, f"{place}/iris.zarr/ids", "proba", callback=callback)
    score(question, f"{place}/answers.zarr", Threads(2))
    np.testing.assert_array_equal(open_array(f"{place}/answers.zarr/proba")[...], whole.predict_proba(DISTANCES[:40]))
    function = Counted(DISTANCES)
    with pytest.warns(DistforestWarning, match=naming(f"'{__name__}:apart'", ":Counted'")):
        loaded = load(address, Lazy(function, kind="distance"), IDS)
    found = loaded.predict(IDS[:40])
    np.testing.assert_array_equal(found, whole.predict(DISTANCES[:40]))
    assert 0 < function.asked.total() < 40 * N
    np.testing.assert_array_equal(load(address).predict(DISTANCES[:40]), whole.predict(DISTANCES[:40]))
    with pytest.raises(InputError, match=naming("other objects", "`training`")):
        load(address, Lazy(apart, kind="distance"), IDS[::-1]).predict(IDS[:3])
    with pytest.raises(InputError, match=naming("similarity=Lazy(...)", "X")):
        load(address, Lazy(apart, kind="distance"))


# --- batch scoring that asks ------------------------------------------------------------------------------


def write(place: str, name: str, values: np.ndarray) -> str:
    write_array(f"{place}/queries.zarr", name, values.shape, values.dtype, [values])
    return f"{place}/queries.zarr/{name}"


def asking(name: str, **options: Any) -> Callback:
    return Callback.from_function(f"{__name__}:{name}", {"kind": "distance", **options})


ANOTHER = naming(f"'{__name__}:apart'", f"'{__name__}:counted'")
"""The function that a forest was trained with, and the one that is asked."""
SOME = np.concatenate([IDS[30:90], IDS[40:50]])
"""Objects to ask about, some of them twice."""
PAIRS = np.random.default_rng(2).integers(20, 40, (60, 2))
"""Numbers of queries, of which the first twenty are in no pair."""
ANSWERS = ["distance", "pairs", "neighbors", "predict", "apply"]


@pytest.fixture
def sealed(place: str) -> str:
    """The address of a forest that asked for its similarities."""
    return run(job(place, "sealed")).address


def answers_of(question: Question, output: str, **options: Any) -> dict[str, np.ndarray]:
    found = score(question, output, **{"cluster": Threads(2), **options})
    return {name: np.asarray(open_array(f"{output}/{name}")[...]) for name in found.shapes}


@pytest.mark.slow
@pytest.mark.parametrize("answer", ANSWERS)
@pytest.mark.parametrize("remembers", [False, True])
def test_no_task_asks_for_what_another_has_asked(
    answer: str, remembers: bool, place: str, sealed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("distforest.jobs.score.ANSWERS_PER_TASK", 1000)
    monkeypatch.setattr("distforest.jobs.score.ROUTED_ROWS", 16)
    pairs = write(place, "pairs", PAIRS) if answer == "pairs" else None
    matrix, near = write(place, "matrix", DISTANCES[SOME]), write(place, "near", DISTANCES[35:130])
    n_neighbors = 3 if answer == "neighbors" else 10
    whole = Question(sealed, matrix, answer, near if answer == "distance" else None, pairs, n_neighbors)
    expected = answers_of(whole, f"{place}/expected.zarr")
    callback = asking("counted", ledger=f"{place}/scoring.ledger" if remembers else None)
    lazily = replace(whole, queries=write(place, "ids", SOME), callback=callback)
    lazily = replace(lazily, reference=write(place, "others", IDS[35:130]) if whole.reference else None)
    COUNTED.asked.clear()
    seen: list[Progress] = []
    with pytest.warns(DistforestWarning, match=ANOTHER):
        found = answers_of(lazily, f"{place}/found.zarr", watch=seen.append)
    for name, values in expected.items():
        np.testing.assert_array_equal(found[name], values)
    asked = Counter(tuple(sorted(pair)) for pair in COUNTED.asked.elements())
    assert set(asked.values()) == {1}
    wanted = set(SOME[PAIRS].ravel().tolist()) if answer == "pairs" else {*SOME.tolist(), *range(35, 130)}
    assert all(wanted & set(pair) for pair in asked)
    routed = [told.total for told in seen if told.name == "route"]
    assert set(routed) == {20 if answer == "pairs" else 70 + 95 * bool(whole.reference)}
    assert [path.name for path in Path(place).iterdir() if "partial" in path.name or "nodes" in path.name] == []
    if remembers:
        with pytest.warns(DistforestWarning, match=ANOTHER):
            answers_of(lazily, f"{place}/again.zarr")
        assert COUNTED.asked.total() == len(asked)


@pytest.mark.slow
@pytest.mark.parametrize("truth", ["labels", "targets"])
def test_objects_that_vote_are_asked_about_once(truth: str, place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("distforest.jobs.score.ANSWERS_PER_TASK", 1000)
    monkeypatch.setattr("distforest.jobs.score.ROUTED_ROWS", 16)
    spec = job(place, "voting")
    params = {"n_estimators": 8, "n_landmarks": 0.1, "voting": "nearest", "min_samples_leaf": 8}
    input_ = replace(spec.input, addresses={truth: spec.input.addresses["labels"]})
    sealed = run(replace(spec, input=input_, params={**spec.params, **params, "bootstrap": True}))
    estimator = SimForestClassifier if truth == "labels" else SimForestRegressor
    whole = estimator(kind="distance", random_state=0, **params, **samples.PAPER).fit(DISTANCES, Y)
    assert sealed.digest == whole.digest_
    matrix, ids = write(place, "matrix", DISTANCES[SOME]), write(place, "ids", SOME)
    COUNTED.asked.clear()
    for answer in ("proba", "predict") if truth == "labels" else ("predict",):
        expected = answers_of(Question(sealed.address, matrix, answer), f"{place}/{answer}.zarr")
        callback = asking("counted", ledger=f"{place}/scoring.ledger")
        with pytest.warns(DistforestWarning, match=ANOTHER):
            found = answers_of(Question(sealed.address, ids, answer, callback=callback), f"{place}/lazy-{answer}.zarr")
        name = "proba" if answer == "proba" else "prediction"
        np.testing.assert_array_equal(found[name], expected[name])
        said = whole.predict_proba(DISTANCES[SOME]) if answer == "proba" else whole.predict(DISTANCES[SOME])
        np.testing.assert_array_equal(found[name].reshape(said.shape), said)
    asked = Counter(tuple(sorted(pair)) for pair in COUNTED.asked.elements())
    assert set(asked.values()) == {1}
    assert len(asked) < len(SOME) * N / 2


def test_the_preview_names_landmarks_and_votes_that_cannot_be(place: str) -> None:
    spec = job(place, "refused")
    more = replace(spec, params={**spec.params, "n_landmarks": N + 1})
    with pytest.raises(SpecError, match=naming("params.n_landmarks", N + 1, N)):
        preview(more)
    out_of_bag = replace(spec, params={**spec.params, "voting": "nearest", "oob_score": True})
    with pytest.raises(SpecError, match=naming("params", "voting='nearest'", "oob_score=True")):
        preview(out_of_bag)


def test_a_question_that_fails_leaves_nothing(place: str, sealed: str) -> None:
    queries = write(place, "ids", SOME)
    before = set(Path(place).iterdir())
    others = write(place, "reversed", IDS[::-1].copy())
    for question, error, named in (
        (Question(sealed, queries, "predict", callback=asking("broken", retries=0)), JobError, "no credit for"),
        (Question(sealed, queries, "predict", callback=asking("apart"), training=others), InputError, "`training`"),
        (Question(sealed, queries, "predict", callback=asking("apart", kind="similarity")), InputError, "distance"),
    ):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DistforestWarning)
            with pytest.raises(error, match=named):
                score(question, f"{place}/answers.zarr", Threads(2))
        assert set(Path(place).iterdir()) == before


@pytest.mark.parametrize("answer", ["neighbors", "distance"])
def test_training_rows_that_were_not_routed_are_refused_before_anything_is_asked(answer: str, place: str) -> None:
    spec = job(place, "drawn")
    address = run(replace(spec, params={**spec.params, "bootstrap": True})).address
    COUNTED.asked.clear()
    question = Question(address, write(place, "ids", SOME), answer, callback=asking("counted"))
    with pytest.raises(InputError, match="oob_score=True"):
        score(question, f"{place}/answers.zarr", Threads(2))
    assert not COUNTED.asked


def test_no_pair_is_nothing_to_ask(place: str, sealed: str) -> None:
    COUNTED.asked.clear()
    pairs = write(place, "none", np.empty((0, 2), np.int64))
    question = Question(sealed, write(place, "ids", SOME), "pairs", pairs=pairs, callback=asking("counted"))
    with pytest.warns(DistforestWarning, match=ANOTHER):
        found = answers_of(question, f"{place}/answers.zarr")
    assert found["distance"].shape == (0,)
    assert not COUNTED.asked


@pytest.mark.slow
@pytest.mark.cluster
def test_workers_ask_while_one_writes_the_ledger(
    place: str, sealed: str, cluster: OnDask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("distforest.jobs.score.ANSWERS_PER_TASK", 30)
    COUNTED.asked.clear()
    callback = asking("counted", ledger=f"{place}/scoring.ledger", batch_size=100)
    question = Question(sealed, write(place, "ids", SOME), "predict", callback=callback)
    expected = answers_of(
        Question(sealed, write(place, "matrix", DISTANCES[SOME]), "predict"), f"{place}/expected.zarr"
    )
    with pytest.warns(DistforestWarning, match=ANOTHER):
        found = answers_of(question, f"{place}/found.zarr", cluster=cluster)
    assert not COUNTED.asked  # in this process
    np.testing.assert_array_equal(found["prediction"], expected["prediction"])
    with opened_ledger(callback.lazy()) as known:
        assert known is not None
        assert known.count() > 100


@pytest.mark.slow
def test_the_command_scores_with_a_ledger_where_it_is_told_to(
    place: str, sealed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[int | None] = []

    @contextmanager
    def recorded(workers: int | None, *_limits: object, **_further: object) -> Iterator[Threads]:
        given.append(workers)
        yield Threads(2)

    monkeypatch.setattr("distforest.jobs.on_dask.local_cluster", recorded)
    command = ["score", sealed, write(place, "ids", SOME), f"{place}/answers.zarr", "--answer", "predict"]
    command += ["--similarity", f"{__name__}:apart", "--ledger", f"{place}/scoring.ledger", "--workers", "2"]
    done = CliRunner().invoke(main, command)
    assert done.exit_code == 0, done.stderr
    assert given == [2]
    assert "route 70/70" in done.stderr
    assert Path(f"{place}/scoring.ledger").exists()


# --- objects that are strings -----------------------------------------------------------------------------


def write_texts(place: str, name: str, texts: list[str]) -> str:
    zarr.create_array(f"{place}/{name}", data=np.array(texts, np.dtypes.StringDType()))
    return f"{place}/{name}"


@pytest.mark.slow
def test_strings_of_any_length_are_objects_of_a_job_and_of_a_question(place: str) -> None:
    texts = [f"object {number}" for number in IDS]
    objects = write_texts(place, "texts", texts)
    named = f"{__name__}:lettered"
    jobs = [
        job(place, "texts-of-all", function=named, objects=objects),
        job(place, "texts-of-each", function=named, objects=objects, share="worker"),
    ]
    done, plain = [run(spec) for spec in jobs], run(job(place, "numbers"))
    assert {one.digest for one in done} == {plain.digest}
    assert read_manifest(done[0].address)["provenance"]["inputs"]["matrix"]["address"] == objects
    queries = write_texts(place, "some texts", [texts[number] for number in SOME])
    question = Question(done[0].address, queries, "apply", callback=asking("lettered"), training=objects)
    expected = Question(plain.address, write(place, "matrix", DISTANCES[SOME]), "apply")
    found = answers_of(question, f"{place}/found.zarr")["nodes"]
    np.testing.assert_array_equal(found, answers_of(expected, f"{place}/expected.zarr")["nodes"])


def test_objects_that_no_memory_map_holds_are_refused(place: str) -> None:
    with pytest.warns(zarr.errors.UnstableSpecificationWarning):
        array = zarr.create_array(f"{place}/bytes", shape=(N,), dtype="variable_length_bytes")
    array[:] = np.array([b"%d" % number for number in IDS], object)
    nul = write_texts(place, "nul", [f"object {number}\0" for number in IDS])
    for address, found in ((f"{place}/bytes", "b'0'"), (nul, r"'object 0\x00'")):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", zarr.errors.UnstableSpecificationWarning)
            with pytest.raises(InputError, match=naming(address, found)):
                run(job(place, "refused", function=f"{__name__}:lettered", objects=address))


# --- one function, everywhere -----------------------------------------------------------------------------


def test_another_version_of_the_function_is_refused_where_it_would_be_asked(place: str) -> None:
    spec = job(place, "each", share="worker")
    folder = Folder(f"{spec.output}.job")
    inputs = stage_inputs(spec, folder.address)
    assert inputs.callback is not None
    changed = replace(inputs, callback=replace(inputs.callback, sha256="0" * 64))
    with pytest.raises(InputError, match=naming(f"{__name__}:apart", "version")):
        fit(changed, spec.output, folder, Threads(1), Options())
    assert inputs.callback.lazy().function is apart


@pytest.mark.slow
def test_a_state_without_content_goes_without_a_ledger(place: str) -> None:
    named = f"{__name__}:LOCKED"
    done = run(job(place, "each", function=named, share="worker"))
    assert done.digest == run(job(place, "plain")).digest
    with pytest.raises(InputError, match=naming("Locked", "found lock")):
        run(job(place, "all", function=named))


def test_the_preview_names_all_faults_of_a_function_with_the_others(place: str) -> None:
    unknown = job(place, "unknown", function="no_module_of_this_name:f", objects=f"{place}/none")
    with pytest.raises(SpecError) as caught:
        preview(unknown)
    first, second = caught.value.faults
    assert first.startswith("input.similarity.objects: ")
    assert second.startswith("input.similarity: ")
    assert "'no_module_of_this_name:f'" in second
    poor = job(place, "poor", share="worker", budget=5, ledger=f"{place}/ledger")
    with pytest.raises(SpecError) as caught:
        preview(poor)
    for fault, other in zip(caught.value.faults, ("budget=", "ledger="), strict=True):
        assert re.match(rf"input\.similarity: .*share='worker'.*\b{other}", fault)
    elsewhere = replace(job(place, "elsewhere"), output="memory://forest.zarr")
    with pytest.raises(SpecError, match=naming("input.similarity", "ledger", "memory://forest.zarr")):
        preview(elsewhere)


def test_jobs_of_one_forest_ask_as_each_was_reported(place: str) -> None:
    spec = job(place, "patient")
    folder = Folder(f"{spec.output}.job").address
    patient = stage_inputs(spec, folder)
    assert patient.callback is not None
    hasty = replace(patient, callback=replace(patient.callback, timeout=5.0, retries=0, ledger=f"{place}/own.ledger"))
    assert hasty.fingerprint == patient.fingerprint
    [slow], [quick] = patient.sources(), hasty.sources()
    assert isinstance(slow, LazySource)
    assert isinstance(quick, LazySource)
    assert (slow.lazy.timeout, quick.lazy.timeout) == (None, 5.0)
    assert quick.lazy.ledger == f"{place}/own.ledger" != slow.lazy.ledger
