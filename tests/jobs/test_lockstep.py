"""Forests of lazy similarities: the forest of the whole matrix, for few pairs, within a budget, and after any fault."""

from __future__ import annotations

import json
import os
import signal
from collections import Counter
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.model_selection import cross_val_score

from distforest import Lazy, SimForestClassifier, SimForestRegressor, load, pairwise
from distforest.errors import DistforestWarning, InputError, JobError
from distforest.jobs.on_dask import OnDask, local_cluster
from distforest.jobs.worker_start import DASK_SETTINGS
from distforest.sources.lazy.lazy_source import opened_ledger
from tests import samples
from tests.forked_workers import run_forked
from tests.messages import naming
from tests.sources.lazy.asked_apart import kills_its_worker
from tests.sources.lazy.test_source import Counted

X, Y = load_iris(return_X_y=True)
ORDER = np.random.default_rng(0).permutation(len(X))
X, Y = X[ORDER].astype(np.float32), Y[ORDER]
N = len(X)
IDS = np.arange(N)
DISTANCES = np.sqrt(((X[:, None] - X) ** 2).sum(axis=2, dtype=np.float64))
SIMILARITIES = np.exp(-(DISTANCES**2))
MISSING = np.where(np.random.default_rng(1).random((N, N)) < 0.2, np.nan, SIMILARITIES)
MISSING = np.where(IDS[:, None] <= IDS, MISSING, MISSING.T)
GRAPH = ((DISTANCES < 0.6) & (IDS[:, None] != IDS)).astype(np.float64)

CASES: dict[str, tuple[np.ndarray, dict[str, Any], dict[str, Any]]] = {
    "distance": (DISTANCES, {"kind": "distance"}, {"kind": "distance"}),
    "similarity": (SIMILARITIES, {}, {}),
    "incomplete": (MISSING, {}, {}),
    "asymmetric": (SIMILARITIES + np.linspace(0, 0.1, N), {"symmetric": False}, {}),
    "no loops": (GRAPH, {}, {}),
    "no loops told": (GRAPH + np.diag(np.full(N, np.nan)), {}, {}),
}
FEW_TREES = pytest.mark.filterwarnings("ignore:.*budget.* trees:distforest.errors.DistforestWarning")
SAMPLES: list[dict[str, Any]] = [
    {"oob_score": True},
    {"bootstrap": False},
    {"bootstrap": False, "max_samples": 0.5, "oob_score": True},
]


@pytest.mark.slow
@pytest.mark.parametrize("estimator", [SimForestClassifier, SimForestRegressor])
@pytest.mark.parametrize("sample", SAMPLES)
@pytest.mark.parametrize("case", CASES)
def test_the_forest_is_that_of_the_whole_matrix(case: str, sample: dict[str, Any], estimator: Any) -> None:
    matrix, lazily, whole = CASES[case]
    function = Counted(matrix)
    params = {"n_estimators": 20, "random_state": 0, **sample}
    expected = estimator(**whole, **params, **samples.PAPER).fit(matrix, Y)
    forest = estimator(Lazy(function, batch_size=50, **lazily), **params).fit(IDS, Y)
    assert forest.digest_ == expected.digest_
    assert set(function.asked.values()) == {1}
    assert forest.n_evaluations_ == function.asked.total()
    assert forest.n_closed_ == 0
    np.testing.assert_array_equal(forest.predict(IDS[:40]), expected.predict(matrix[:40]))
    np.testing.assert_array_equal(forest.distance(IDS[:9], IDS[9:12]), expected.distance(matrix[:9], matrix[9:12]))
    if "oob_score" in sample:
        assert forest.oob_score_ == expected.oob_score_


def test_rows_out_of_bag_cost_nothing_unless_they_are_asked_about() -> None:
    lazy = Lazy(Counted(DISTANCES), kind="distance")
    whole = (
        SimForestClassifier(kind="distance", n_estimators=20, random_state=0, **samples.PAPER).fit(DISTANCES, Y).forest_
    )
    cheap = SimForestClassifier(lazy, n_estimators=20, random_state=0).fit(IDS, Y)
    dear = SimForestClassifier(lazy, n_estimators=20, random_state=0, oob_score=True).fit(IDS, Y)
    assert cheap.n_evaluations_ < dear.n_evaluations_
    for name, array in whole.arrays().items():
        expected = np.where(whole.in_bag > 0, array, -1) if name == "leaves" else array
        np.testing.assert_array_equal(cheap.forest_.arrays()[name], expected)
    assert dear.kneighbors(n_neighbors=2)[1].shape == (N, 2)
    with pytest.raises(InputError, match=naming("oob_score=True", "bootstrap=False", "max_samples=None")):
        cheap.kneighbors(n_neighbors=2)


VOTES: list[dict[str, Any]] = [{"n_landmarks": 0.18}, {"voting": "nearest"}, {"n_landmarks": 9, "voting": "nearest"}]


@pytest.mark.slow
@pytest.mark.parametrize("estimator", [SimForestClassifier, SimForestRegressor])
@pytest.mark.parametrize("votes", VOTES)
@pytest.mark.parametrize("case", CASES)
def test_landmarks_and_votes_are_those_of_the_whole_matrix(case: str, votes: dict[str, Any], estimator: Any) -> None:
    matrix, lazily, whole = CASES[case]
    function, params = Counted(matrix), {"n_estimators": 20, "random_state": 0, **votes}
    training, others = IDS[:100], IDS[100:]
    expected = estimator(**whole, **params, **samples.PAPER).fit(matrix[:100, :100], Y[:100])
    forest = estimator(Lazy(function, batch_size=50, **lazily), **params).fit(training, Y[:100])
    assert forest.digest_ == expected.digest_
    function.asked.clear()
    np.testing.assert_array_equal(forest.predict(others), expected.predict(matrix[100:, :100]))
    assert set(function.asked.values()) == {1}  # one for the path and for the vote


@pytest.mark.slow
@pytest.mark.parametrize("pairing", ["kept", "fresh"])
@pytest.mark.parametrize("kind", ["similarity", "distance"])
def test_objects_that_are_the_same_are_not_compared_again_and_again(kind: str, pairing: str) -> None:
    same = np.ones((N, N)) if kind == "similarity" else np.zeros((N, N))
    lazy = Lazy(Counted(same), kind=kind)
    with pytest.warns(DistforestWarning, match="no tree"):
        forest = SimForestClassifier(lazy, n_estimators=5, pairing=pairing, random_state=0).fit(IDS, Y)
    # A root tries four pairs for each of four candidates, four times; a similarity to oneself is asked for, too.
    assert forest.n_evaluations_ <= 5 * 4**3 + (N if kind == "similarity" else 0)


def test_the_pairs_of_landmarks_are_all_that_is_asked_for() -> None:
    function = Counted(DISTANCES)
    for n_landmarks, m in ((0.18, 27), (9, 9)):
        function.asked.clear()
        lazy = Lazy(function, kind="distance")
        forest = SimForestClassifier(lazy, n_estimators=60, n_landmarks=n_landmarks, random_state=0).fit(IDS, Y)
        columns = set(forest.forest_.table.columns.tolist())
        assert len(columns) == m
        most = m * (2 * N - m - 1) // 2
        assert forest.n_evaluations_ == function.asked.total() <= most
        assert forest.n_evaluations_ > 0.95 * most
        assert all(columns & set(pair) for pair in function.asked)
        assert (forest.forest_.leaves >= 0).all()
        assert forest.kneighbors(n_neighbors=2)[1].shape == (N, 2)


@pytest.mark.slow
@FEW_TREES
def test_a_budget_for_all_pairs_of_landmarks_closes_nothing() -> None:
    lazy = Lazy(Counted(DISTANCES), kind="distance", budget=9 * (2 * N - 10) // 2)
    forest = SimForestClassifier(lazy, n_estimators=60, n_landmarks=9, random_state=0).fit(IDS, Y)
    assert (forest.forest_.n_trees, forest.n_closed_) == (60, 0)
    poor = SimForestClassifier(
        Lazy(Counted(DISTANCES), kind="distance", budget=600), n_estimators=60, n_landmarks=9, random_state=0
    ).fit(IDS, Y)
    assert poor.n_evaluations_ <= 600
    assert poor.n_closed_ > 0


@FEW_TREES
def test_a_budget_closes_what_it_cannot_pay_for() -> None:
    function, seen = Counted(DISTANCES), []
    for budget in (0, 7, 200, 1500, 20_000):
        function.asked.clear()
        lazy = Lazy(function, kind="distance", budget=budget)
        forest = SimForestClassifier(lazy, n_estimators=8, random_state=0)
        with pytest.warns(DistforestWarning, match=naming("budget", 8)) if budget < 8 else nullcontext():
            forest.fit(IDS, Y)
        assert forest.n_evaluations_ == function.asked.total() <= budget
        seen.append((forest.n_evaluations_, forest.n_closed_, forest.score(IDS, Y)))
    free = SimForestClassifier(Lazy(function, kind="distance"), n_estimators=8, random_state=0).fit(IDS, Y)
    assert forest.digest_ == free.digest_
    evaluations, closed, scores = map(list, zip(*seen, strict=True))
    assert closed[:2] == [8, 8]  # the roots
    assert closed[-1] == 0
    assert scores[0] == np.mean(Y == 0) < scores[2] < scores[-1]
    assert evaluations == sorted(evaluations)


@FEW_TREES
def test_a_budget_pays_for_whole_trees_and_leaves_the_others_out() -> None:
    lazy = Lazy(Counted(DISTANCES), kind="distance", budget=4000)
    whole = SimForestClassifier(kind="distance", n_estimators=60, random_state=0, bootstrap=False, **samples.PAPER)
    free = whole.fit(DISTANCES, Y)
    poor = SimForestClassifier(lazy, n_estimators=60, random_state=0, bootstrap=False, pairing="kept").fit(IDS, Y)
    n_trees = poor.forest_.n_trees
    assert 1 < n_trees < 60
    assert poor.n_closed_ >= 60 - n_trees
    sizes = free.forest_.table.tree_size[:n_trees]
    assert (poor.forest_.table.tree_size == sizes)[: (n_trees + 1) // 2].all()
    first = slice(0, sizes[0])
    np.testing.assert_array_equal(poor.forest_.table.threshold[first], free.forest_.table.threshold[first])


def test_kept_pairs_cost_less_than_fresh_ones_and_are_the_default() -> None:
    lazy = Lazy(Counted(DISTANCES), kind="distance")
    cost = {
        pairing: SimForestClassifier(lazy, n_estimators=1, pairing=pairing, random_state=0).fit(IDS, Y).n_evaluations_
        for pairing in ("fresh", "kept", None)
    }
    assert cost[None] == cost["kept"] < 0.8 * cost["fresh"]


@FEW_TREES
def test_a_budget_knows_that_averaged_columns_cost_more() -> None:
    params: dict[str, Any] = {"n_columns": 8, "n_landmarks": 1.0, "random_state": 0}
    whole = SimForestClassifier(Lazy(Counted(DISTANCES), kind="distance"), n_estimators=1, **params)
    cost = whole.fit(IDS, Y).n_evaluations_
    lazy = Lazy(Counted(DISTANCES), kind="distance", budget=cost + cost // 10)
    poor = SimForestClassifier(lazy, n_estimators=30, **params).fit(IDS, Y)
    assert poor.forest_.table.tree_size[0] == whole.forest_.table.tree_size[0]


@pytest.mark.parametrize(
    ("lazy", "training", "named"),
    [
        (Lazy(Counted(DISTANCES), kind="distance"), IDS[:10], (60, 10)),
        (Lazy(Counted(DISTANCES), kind="distance"), np.tile(IDS[:60], 2), (60, 120)),
        (Lazy(Counted(DISTANCES)), IDS[:60], ("distance", "Lazy(kind='similarity')")),
    ],
)
def test_a_forest_of_a_matrix_is_asked_about_as_many_objects(
    lazy: Lazy, training: np.ndarray, named: tuple[object, ...], tmp_path: Path
) -> None:
    whole = SimForestClassifier(kind="distance", n_estimators=3, random_state=0).fit(DISTANCES[:60, :60], Y[:60])
    whole.save(tmp_path / "whole.zarr")
    with pytest.raises(InputError, match=naming(*named)):
        load(tmp_path / "whole.zarr", lazy, training)
    found = load(tmp_path / "whole.zarr", Lazy(Counted(DISTANCES), kind="distance"), IDS[:60])
    np.testing.assert_array_equal(found.predict(IDS[60:]), whole.predict(DISTANCES[60:, :60]))


def test_another_symmetry_is_refused(tmp_path: Path) -> None:
    one_way = SimForestClassifier(Lazy(Counted(SIMILARITIES), symmetric=False), n_estimators=3, random_state=0)
    one_way.fit(IDS[:40], Y[:40]).save(tmp_path / "one_way.zarr")
    with pytest.raises(InputError, match=naming("symmetric=False", True)):
        load(tmp_path / "one_way.zarr", Lazy(Counted(SIMILARITIES)), IDS[:40])


def test_scoring_asks_for_the_pairs_on_the_paths_once(tmp_path: Path) -> None:
    function = Counted(DISTANCES)
    lazy = Lazy(function, kind="distance", ledger=tmp_path / "ledger")
    forest = SimForestClassifier(lazy, n_estimators=10, random_state=0).fit(IDS[:100], Y[:100])
    forest.predict(IDS[100:])
    forest.predict_proba(IDS[100:])
    forest.predict(IDS[:100])
    assert set(function.asked.values()) == {1}
    used = {column for columns in forest.forest_.table.columns for column in [int(columns)]}
    assert {a for a, b in function.asked if b >= 100} <= used


@FEW_TREES
def test_a_later_fit_with_the_same_ledger_pays_again_without_asking(tmp_path: Path) -> None:
    function = Counted(DISTANCES)
    lazy = Lazy(function, kind="distance", ledger=tmp_path / "ledger", budget=2000)
    first = SimForestClassifier(lazy, n_estimators=10, random_state=0).fit(IDS, Y)
    asked = function.asked.total()
    second = clone(first).fit(IDS, Y)
    assert (second.n_evaluations_, second.n_closed_) == (first.n_evaluations_, first.n_closed_)
    assert second.digest_ == first.digest_
    assert function.asked.total() == asked == first.n_evaluations_ <= 2000
    another = clone(first).set_params(random_state=1).fit(IDS, Y)  # what others have paid for is free
    assert function.asked.total() == asked + another.n_evaluations_
    assert set(function.asked.values()) == {1}


def test_cross_validation_over_places_in_the_objects() -> None:
    @pairwise
    def apart(a: np.ndarray, b: np.ndarray) -> float:
        return float(np.abs(a - b).sum())

    forest = SimForestClassifier(Lazy(apart, objects=list(X), kind="distance"), n_estimators=10, random_state=0)
    assert cross_val_score(forest, IDS, Y, cv=3).mean() > 0.9


class Logged:
    """The distances as a function that logs what it is asked for, and kills its process at a call."""

    def __init__(self, log: Path, fatal: int) -> None:
        self.log, self.fatal, self.calls = log, fatal, 0

    def __call__(self, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        self.calls += 1
        with self.log.open("a") as file:
            for pair in zip(left.tolist(), right.tolist(), strict=True):
                print(json.dumps(pair), file=file)
        if self.calls == self.fatal:
            os.kill(os.getpid(), signal.SIGKILL)
        return np.asarray(DISTANCES[left, right])

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (Path(), -1)  # neither the log nor the death decides the values


def fit_and_tell(folder: Path, fatal: int) -> None:
    """Fit with a ledger and a log of asked pairs in a folder, and tell there the digest and the price."""
    lazy = Lazy(Logged(folder / "log", fatal), kind="distance", ledger=folder / "ledger", batch_size=60, budget=3000)
    forest = SimForestClassifier(lazy, n_estimators=6, random_state=0).fit(IDS, Y)
    (folder / "told").write_text(f"{forest.digest_} {forest.n_evaluations_} {forest.n_closed_}")


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What a fit tells that is left alone: its digest and its price."""
    folder = tmp_path_factory.mktemp("plain")
    assert run_forked(fit_and_tell, folder, -1) == 0
    return (folder / "told").read_text()


@pytest.mark.slow
@pytest.mark.parametrize("fatal", [1, 12])
def test_a_process_that_is_killed_between_a_return_and_the_commit_loses_one_batch(
    fatal: int, plain: str, tmp_path: Path
) -> None:
    assert run_forked(fit_and_tell, tmp_path, fatal) == -signal.SIGKILL
    assert not (tmp_path / "told").exists()
    assert run_forked(fit_and_tell, tmp_path, -1) == 0
    again = (tmp_path / "told").read_text()
    assert again == plain  # the same forest, at the same price
    asked = Counter(tuple(json.loads(line)) for line in (tmp_path / "log").read_text().splitlines())
    twice = [pair for pair, times in asked.items() if times > 1]
    assert 0 < len(twice) <= 60
    assert max(asked.values()) == 2
    assert len(asked) == int(again.split()[1])


def test_a_failure_that_stays_ends_the_fit_and_keeps_what_was_paid(tmp_path: Path) -> None:
    class Broken(Counted):
        def __call__(self, left: np.ndarray, right: np.ndarray) -> np.ndarray:
            if self.calls == 4:
                raise ConnectionError("no credit")
            return super().__call__(left, right)

    broken = Broken(DISTANCES)
    lazy = Lazy(broken, kind="distance", batch_size=20, retries=0, ledger=tmp_path / "ledger")
    forest = SimForestClassifier(lazy, n_estimators=6, random_state=0)
    with pytest.raises(JobError, match=r"Broken .*pairs \(\d+, \d+\) to .*: ConnectionError: no credit"):
        forest.fit(IDS, Y)
    assert not hasattr(forest, "forest_")
    with opened_ledger(lazy) as ledger:
        assert ledger is not None
        assert ledger.count() == broken.asked.total() > 60


def workers_of(cluster: OnDask) -> dict[str, int]:
    """The process of each worker, by its address."""
    return cluster.client.run(os.getpid)


@pytest.mark.slow
@pytest.mark.cluster
def test_batches_run_on_workers_and_a_killed_process_costs_its_batch(tmp_path: Path) -> None:
    log, dead = tmp_path / "log", tmp_path / "dead"

    def distance(left: np.ndarray, right: np.ndarray) -> np.ndarray:
        with log.open("a") as file:
            file.write("".join(f"{pair}\n" for pair in zip(left.tolist(), right.tolist(), strict=True)))
        if len(log.read_text().splitlines()) > 400 and not dead.exists():
            with suppress(FileExistsError):  # the other worker was first
                dead.touch(exist_ok=False)
                os.kill(os.getpid(), 9)
        return DISTANCES[left, right]

    matrix = DISTANCES
    params = {"n_estimators": 20, "random_state": 0, "oob_score": True}
    expected = SimForestClassifier(kind="distance", **params, **samples.PAPER).fit(matrix, Y)
    lazy = Lazy(distance, kind="distance", batch_size=40, ledger=tmp_path / "ledger")
    with local_cluster(workers=2, folder=tmp_path / "dask") as cluster:
        before = workers_of(cluster)
        forest = SimForestClassifier(lazy, client=cluster.client, **params).fit(IDS, Y)
        broken = Lazy(lambda left, _right: np.full(len(left), np.inf), kind="distance", retries=0)
        with pytest.raises(JobError, match=r"<lambda> .*pair \(\d+, \d+\).*\binf\b"):
            SimForestClassifier(broken, client=cluster.client, **params).fit(IDS, Y)
        assert workers_of(cluster) == before
    assert dead.exists()
    assert forest.digest_ == expected.digest_
    asked = Counter(log.read_text().splitlines())
    assert 0 < sum(times > 1 for times in asked.values()) <= 2 * 40  # under way: one batch in each of two workers
    assert len(asked) == forest.n_evaluations_


@pytest.mark.slow
@pytest.mark.cluster
def test_a_fit_whose_last_worker_died_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("distforest.jobs.on_dask.WORKER_PATIENCE", 1.0)
    monkeypatch.setitem(DASK_SETTINGS, "distributed.scheduler.allowed-failures", 1)  # each death costs seconds
    with (
        local_cluster(workers=1, folder=tmp_path / "dask") as cluster,
        pytest.raises(JobError, match=r"no workers|worker .*tcp:"),
    ):
        SimForestClassifier(Lazy(kills_its_worker, kind="distance"), client=cluster.client).fit(IDS[:20], Y[:20])


def test_an_opened_forest_without_its_function_says_how_words_are_compared(tmp_path: Path) -> None:
    apart = pairwise(lambda a, b: float(abs(len(a) - len(b)) + sum(x != y for x, y in zip(a, b, strict=False))))
    words, lazy = ["ballad", "ballet", "wallet", "sum", "sun", "run"] * 4, Lazy(apart, kind="distance")
    forest = SimForestClassifier(lazy, n_estimators=5, random_state=0).fit(words, [len(word) > 3 for word in words])
    forest.save(str(tmp_path / "f.zarr"))
    with pytest.raises(InputError, match=naming("X: ", "load(address, similarity=Lazy")):
        load(tmp_path / "f.zarr").predict(["pallet", "fun"])
    opened = load(tmp_path / "f.zarr", similarity=lazy, X=words)
    assert opened.predict(["pallet", "fun"]).tolist() == forest.predict(["pallet", "fun"]).tolist()
