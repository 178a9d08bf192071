"""Jobs of forests over pairs: the forest of the estimator however it is run, answers in batches, faults told."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

from distforest import RFD, TreeRank, load
from distforest.errors import DistforestWarning, InputError, SpecError
from distforest.forest.sealed.artifact import open_forest
from distforest.growth.pairs.pair_problem import PairProblem
from distforest.jobs.cluster import Cluster, Threads
from distforest.jobs.input_staging import stage_inputs
from distforest.jobs.on_dask import OnDask
from distforest.jobs.plan import plan
from distforest.jobs.preview import preview
from distforest.jobs.question import Question
from distforest.jobs.score import score
from distforest.jobs.spec import Spec
from distforest.jobs.train import size_of
from distforest.sources.arrays import open_array, write_array
from tests import samples
from tests.jobs.faults import Faults, faulty, growths
from tests.jobs.iris_jobs import run, write_arrays
from tests.messages import naming

N, P, N_TREES = 45, 4, 12
X = np.random.default_rng(0).normal(size=(N, P))
LABELS = np.digitize(X[:, 0] + X[:, 1] ** 2, [0.3, 1.2])
PAIRS = np.stack(np.triu_indices(N, 1), axis=1)[np.random.default_rng(1).permutation(990)[:300]]
SIMILAR = LABELS[PAIRS[:, 0]] == LABELS[PAIRS[:, 1]]
TAUGHT = ("labels", "links")
OWN = {
    "rfd": ("n_estimators", "n_constraints", "min_samples_leaf"),
    "treerank": ("n_estimators", "n_pairs", "max_depth", "leafrank_depth"),
}
"""Parameters that are not the defaults."""

METHODS: dict[str, Any] = {
    "rfd": RFD(N_TREES, n_constraints=60, min_samples_leaf=2, random_state=5),
    "treerank": TreeRank(N_TREES, n_pairs=200, max_depth=4, leafrank_depth=2, random_state=5),
}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Points in two chunkings, labels, pairs, and what does not go with them."""
    store = tmp_path_factory.mktemp("store") / "points.zarr"
    last = np.arange(N)[:, None] == N - 1
    arrays = {
        "X": X,
        "by_seven": X,
        "wide": X[:, :3],
        "new": X[:9] + 0.5,
        "large": np.where(last, 3e38, X),
        "codes": LABELS,
        "few": LABELS[:-1],
        "pairs": PAIRS,
        "floats": PAIRS.astype(float),
        "triples": np.hstack([PAIRS, PAIRS[:, :1]]),
        "twice": PAIRS * 0,
        "beyond": PAIRS + 1,
        "similar": SIMILAR,
        "both": np.concatenate([PAIRS, PAIRS[:3, ::-1]]),
        "or_not": np.concatenate([SIMILAR, ~SIMILAR[:3]]),
        "signs": np.where(SIMILAR, 1, -1),
        "short": SIMILAR[:-1],
        "maybe": np.arange(len(PAIRS)) % 3,
        "ones": np.ones(len(PAIRS), bool),
    }
    for name, values in arrays.items():
        chunk = 7 * X[:1].nbytes if name == "by_seven" else 1 << 20
        write_array(str(store), name, values.shape, values.dtype, [values], chunk_bytes=chunk)
    return store


def spec_of(store: Path, folder: Path, taught: str = "labels", method: str = "rfd", **changed: Any) -> Spec:
    """A job; ``input``, ``params`` and ``run`` may be changed."""
    truth = {"labels": "codes"} if taught == "labels" else {"pairs": "pairs", "similar": "similar"}
    named = {"features": "X", **truth, **changed.get("input", {})}
    own = METHODS[method].get_params()
    params = {name: own[name] for name in OWN[method]}
    return Spec.from_dict(
        {
            "format": 1,
            "method": method,
            "seed": 5,
            "output": f"{folder}/forest.zarr",
            "input": {key: f"{store}/{name}" for key, name in named.items() if name},
            "params": {**params, **changed.get("params", {})},
            "run": {"scratch": f"{folder}/scratch", **changed.get("run", {})},
        }
    )


def own_fit(method: str, taught: str) -> Any:
    """The forest grown in one thread, in memory."""
    estimator = clone(METHODS[method])
    return estimator.fit(X, LABELS) if taught == "labels" else estimator.fit_pairs(X, PAIRS, SIMILAR)


@pytest.fixture(scope="module")
def reference() -> dict[tuple[str, str], Any]:
    return {(method, taught): own_fit(method, taught) for method in METHODS for taught in TAUGHT}


# --- one digest -------------------------------------------------------------------------------------------

WAYS = [("X", 1, 12), ("X", 3, 5), ("by_seven", 2, 1)]


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("taught", TAUGHT)
@pytest.mark.parametrize(("features", "threads", "batch"), WAYS)
def test_a_job_grows_the_forest_of_the_estimator(
    store: Path,
    tmp_path: Path,
    reference: dict[tuple[str, str], Any],
    features: str,
    threads: int,
    batch: int,
    taught: str,
    method: str,
) -> None:
    spec = spec_of(store, tmp_path, taught, method, input={"features": features})
    done, expected = run(spec, Threads(threads), batch=batch), reference[method, taught]
    assert (done.digest, done.n_grown) == (expected.digest_, N_TREES)
    loaded = load(done.address)
    assert type(loaded) is type(expected)
    assert loaded.distance().tobytes() == expected.distance().tobytes()
    assert not Path(f"{done.address}.job").exists()


@pytest.mark.slow
@pytest.mark.cluster
def test_workers_and_clients_grow_the_same_forest(
    cluster: OnDask,
    store: Path,
    tmp_path: Path,
    reference: dict[tuple[str, str], Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    monkeypatch.setenv("DISTFOREST_SCRATCH", str(tmp_path / "scratch"))
    for method, taught in (("rfd", "labels"), ("treerank", "links")):
        done = run(spec_of(store, tmp_path / method, taught, method), cluster, batch=5)
        assert done.digest == reference[method, taught].digest_
    there = clone(METHODS["rfd"]).set_params(client=cluster.client).fit_pairs(X, PAIRS, SIMILAR)
    assert there.digest_ == reference["rfd", "links"].digest_
    assert list((tmp_path / "tmp").glob("distforest-*")) == []


@pytest.mark.slow
@pytest.mark.cluster
def test_a_killed_worker_costs_its_own_task_and_changes_nothing(
    cluster: OnDask, store: Path, tmp_path: Path, reference: dict[tuple[str, str], Any]
) -> None:
    (tmp_path / "record").mkdir()
    with faulty(cluster, Faults(tmp_path / "record", tree=7, point="after_growth")):
        done = run(spec_of(store, tmp_path, "links"), cluster, batch=4)
    assert (tmp_path / "record" / "died").exists()
    assert done.digest == reference["rfd", "links"].digest_
    assert growths(tmp_path / "record") == {tree: 2 if 4 <= tree < 8 else 1 for tree in range(N_TREES)}


@pytest.mark.slow
@pytest.mark.parametrize("taught", TAUGHT)
def test_an_interrupted_job_goes_on_to_the_same_forest(
    store: Path, tmp_path: Path, reference: dict[tuple[str, str], Any], taught: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec, grow, grown = spec_of(store, tmp_path, taught), PairProblem.grow, 0

    def interrupted(self: PairProblem, trees: np.ndarray) -> dict[str, np.ndarray]:
        nonlocal grown
        if grown == 2:
            raise KeyboardInterrupt
        grown += 1
        return grow(self, trees)

    monkeypatch.setattr(PairProblem, "grow", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run(spec, Threads(1), batch=4)
    assert not Path(spec.output).exists()
    monkeypatch.setattr(PairProblem, "grow", grow)
    done = run(spec, Threads(2), batch=3)
    assert (done.digest, done.n_grown) == (reference["rfd", taught].digest_, N_TREES - 8)
    assert run(spec, Threads(1)).n_grown == 0  # sealed


@pytest.mark.parametrize("method", METHODS)
def test_pairs_that_are_alike_and_unlike_are_reported(store: Path, tmp_path: Path, method: str) -> None:
    spec = spec_of(store, tmp_path, "links", method, input={"pairs": "both", "similar": "or_not"})
    told = naming("DF009 pairs: 3 ", f" {PAIRS[0].min()} and {PAIRS[0].max()};")
    with pytest.warns(DistforestWarning, match=told):
        stage_inputs(spec, str(tmp_path / "job"))


def test_other_pairs_are_another_job(store: Path, tmp_path: Path) -> None:
    first, second, same = (
        stage_inputs(spec_of(store, tmp_path, "links", input=changed), str(tmp_path / "job")).fingerprint
        for changed in ({}, {"similar": "signs"}, {"features": "by_seven"})
    )
    assert first == second == same  # 1 and -1 say what True and False do, and chunks say nothing
    write_array(f"{tmp_path}/o.zarr", "pairs", PAIRS.shape, PAIRS.dtype, [PAIRS[:, ::-1]])
    table = spec_of(store, tmp_path, "links").to_dict()
    table["input"] = {**table["input"], "pairs": f"{tmp_path}/o.zarr/pairs"}  # type: ignore[dict-item]
    assert stage_inputs(Spec.from_dict(table), str(tmp_path / "other")).fingerprint != first


def test_points_are_kept_once_in_the_artifact(store: Path, tmp_path: Path) -> None:
    forest = open_forest(run(spec_of(store, tmp_path), Threads(1), batch=5).address)
    assert forest.points.tobytes() == X.astype(np.float32).tobytes()
    assert "leaves" not in forest.arrays()
    assert forest.in_bag.shape == (N_TREES, N)


# --- answers in batches -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def sealed(tmp_path_factory: pytest.TempPathFactory, reference: dict[tuple[str, str], Any]) -> Path:
    """A folder with a sealed forest of either method."""
    folder = tmp_path_factory.mktemp("sealed")
    for method in METHODS:
        reference[method, "labels"].save(folder / f"{method}.zarr")
    return folder


def answers_of(question: Question, folder: Path, cluster: Cluster) -> dict[str, np.ndarray]:
    found = score(question, f"{folder}/answers.zarr", cluster, True)
    return {name: np.asarray(open_array(f"{found.address}/{name}")[...]) for name in found.shapes}


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("cells", [60, 1 << 22])
def test_answers_are_those_of_the_forest_in_any_blocks(
    store: Path, sealed: Path, tmp_path: Path, method: str, cells: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("distforest.jobs.score.ANSWERS_PER_TASK", cells)
    forest, at = load(sealed / f"{method}.zarr"), f"{sealed}/{method}.zarr"
    new = X[:9] + 0.5
    found = answers_of(Question(at, f"{store}/new", "distance"), tmp_path, Threads(2))["distance"]
    assert found.tobytes() == forest.distance(new, X).astype(np.float32).tobytes()
    asked = Question(at, f"{store}/new", "distance", reference=f"{store}/by_seven")
    assert answers_of(asked, tmp_path, Threads(1))["distance"].tobytes() == found.tobytes()
    asked = Question(at, f"{store}/X", "pairs", pairs=f"{store}/pairs")
    found = answers_of(asked, tmp_path, Threads(2))["distance"]
    assert found.tobytes() == forest.distance()[tuple(PAIRS.T)].astype(np.float32).tobytes()
    for without_self in (False, True):
        asked = Question(at, f"{store}/X", "neighbors", n_neighbors=7, without_self=without_self)
        found_both = answers_of(asked, tmp_path, Threads(2))
        distances, indices = forest.kneighbors(None if without_self else X, 7)
        assert found_both["indices"].tolist() == indices.tolist()
        assert found_both["distance"].tobytes() == distances.astype(np.float32).tobytes()


@pytest.mark.slow
@pytest.mark.cluster
def test_workers_answer_what_threads_do(cluster: OnDask, store: Path, sealed: Path, tmp_path: Path) -> None:
    for method in METHODS:
        question = Question(f"{sealed}/{method}.zarr", f"{store}/new", "neighbors", n_neighbors=3)
        here, there = (samples.bits(answers_of(question, tmp_path, own)) for own in (Threads(1), cluster))
        assert here == there


@pytest.mark.parametrize(
    ("asked", "named"),
    [
        ({"answer": "predict"}, ("distance, pairs, decision, probability, neighbors or graph", "'predict'")),
        ({"answer": "proximity"}, ("distance, pairs, decision, probability, neighbors or graph", "'proximity'")),
        ({"answer": "apply"}, ("distance, pairs, decision, probability, neighbors or graph", "'apply'")),
        ({"queries": "wide"}, ("X ", "3 features", "4 features")),
        ({"answer": "neighbors", "n_neighbors": 46}, ("n_neighbors", "1..45", 46)),
        ({"answer": "neighbors", "without_self": True}, ("points.zarr/new", 45, "9 rows", "`without_self`")),
        ({"queries": "large"}, ("features", "1.70141e+38", "3e+38")),
        ({"reference": "wide"}, ("X ", "3 features", "4 features")),
        ({"answer": "pairs", "pairs": "beyond", "queries": "X"}, ("points.zarr/beyond", "0..44")),
    ],
)
def test_questions_that_cannot_be_answered_leave_nothing(
    store: Path, sealed: Path, tmp_path: Path, asked: dict[str, Any], named: tuple[object, ...]
) -> None:
    given = {"queries": "new", "answer": "distance", **asked}
    given |= {name: f"{store}/{given[name]}" for name in ("queries", "reference", "pairs") if name in given}
    with pytest.raises(InputError, match=naming(*named)):
        score(Question(f"{sealed}/rfd.zarr", **given), f"{tmp_path}/answers.zarr", Threads(1))
    assert list(tmp_path.iterdir()) == []


# --- faults -----------------------------------------------------------------------------------------------

MISFITS: dict[str, tuple[str, dict[str, str], tuple[object, ...]]] = {
    "labels": ("labels", {"labels": "few"}, ("input: ", 45, 44, "points.zarr/few")),
    "similar": ("links", {"similar": "short"}, ("input.pairs: ", "points.zarr/pairs", (299, 2), (300, 2))),
    "floats": ("links", {"pairs": "floats"}, ("input.pairs: ", "points.zarr/floats", "float64")),
    "triples": ("links", {"pairs": "triples"}, ("input.pairs: ", "points.zarr/triples", (300, 3))),
}


@pytest.mark.parametrize("misfit", MISFITS)
def test_inputs_that_do_not_go_together_are_reported_by_the_preview_and_by_the_job(
    store: Path, tmp_path: Path, misfit: str
) -> None:
    taught, changed, named = MISFITS[misfit]
    spec = spec_of(store, tmp_path, taught, input=changed)
    with pytest.raises(SpecError, match=naming(*named)):
        preview(spec)
    with pytest.raises(InputError):
        run(spec, Threads(1))
    assert not Path(spec.output).exists()


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"pairs": "beyond"}, ("pairs: ", "0..44", 45, "pair 14")),
        ({"pairs": "twice"}, ("pairs: ", "point 0", "pair 0")),
        ({"similar": "maybe"}, ("similar: ", "True", "False", [0, 1, 2])),
        ({"similar": "ones"}, ("pairs", "only similar")),
        ({"features": "large"}, ("features", "1.70141e+38", "3e+38")),
    ],
)
def test_values_that_cannot_be_used_are_reported_by_the_job(
    store: Path, tmp_path: Path, changed: dict[str, str], named: tuple[object, ...]
) -> None:
    spec = spec_of(store, tmp_path, "links", input=changed)
    with pytest.raises(InputError, match=naming(*named)):
        run(spec, Threads(1))
    assert not Path(spec.output).exists()


@pytest.mark.parametrize(
    ("taught", "changed", "named"),
    [
        ("links", {"similar": ""}, ("input: ", "'pairs' and 'similar'", "only 'pairs'")),
        ("links", {"pairs": ""}, ("input: ", "'pairs' and 'similar'", "only 'similar'")),
        ("labels", {"pairs": "pairs"}, ("input: ", "'pairs' and 'similar'", "only 'pairs'")),
        ("links", {"labels": "codes"}, ("input: ", "'labels' and 'similar'")),
        ("labels", {"labels": ""}, ("input: ", "'labels', 'similar'")),
        ("labels", {"features": ""}, ("input.features: ",)),
        ("labels", {"distances": "X"}, ("input.distances: ", "'features', 'labels', 'similar'")),
    ],
)
def test_inputs_that_no_method_takes_are_refused(
    store: Path, tmp_path: Path, taught: str, changed: dict[str, str], named: tuple[str, ...]
) -> None:
    with pytest.raises(SpecError) as caught:
        spec_of(store, tmp_path, taught, input=changed)
    assert any(found.startswith(named[0]) and re.search(naming(*named), found) for found in caught.value.faults)


@pytest.mark.parametrize(
    ("params", "named"),
    [
        ({"oob_score": True, "resample": "pairs"}, ("params: ", "oob_score", "resample='points'")),
        ({"resample": "rows"}, ("params.resample: ", "'pairs'", "'points'", "'rows'")),
        ({"max_samples": 46}, ("params.max_samples: ", "46 of 45")),
        ({"max_samples": 301, "resample": "pairs"}, ("params.max_samples: ", "301 of 300")),
    ],
)
def test_parameters_that_do_not_go_together_are_reported_before_anything_is_read(
    store: Path, tmp_path: Path, params: dict[str, Any], named: tuple[str, ...]
) -> None:
    with pytest.raises(SpecError, match=naming(*named)):
        preview(spec_of(store, tmp_path, "links", params=params))


@pytest.mark.parametrize("method", METHODS)
def test_the_preview_plans_as_the_staged_job(store: Path, tmp_path: Path, method: str) -> None:
    spec = spec_of(store, tmp_path, "links", method, run={"workers": 2, "threads_per_worker": 2})
    staged, seen = size_of(stage_inputs(spec, f"{tmp_path}/job").problem()), preview(spec)
    assert seen.plan.tasks == plan(staged, (), 4, None, 2).tasks
    assert seen.size.n_trees == N_TREES


@pytest.mark.parametrize("method", ["rfd", "treerank"])
def test_a_job_of_one_or_two_points_is_refused(method: str, tmp_path: Path) -> None:
    for n in (1, 2):
        group = str(tmp_path / f"{n}.zarr")
        write_arrays(group, X=np.eye(n, 3), y=np.arange(n))
        given = {"features": f"{group}/X", "labels": f"{group}/y"}
        spec = Spec.from_dict(
            {"format": 1, "method": method, "seed": 0, "output": f"{tmp_path}/f.zarr", "input": given}
        )
        with pytest.raises(SpecError, match=naming("input.features", f"n_samples={n}", f"{group}/X")):
            preview(spec)
