"""The cut that a trial chooses, out of bag, between the best place and zero."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from click.testing import CliRunner

from distforest import Lazy, SimForestClassifier, SimForestRegressor, load, pairwise
from distforest.command_line.cli import main
from distforest.errors import InputError, SpecError
from distforest.forest.chosen_cut import BEST, EXEMPLARS, TRIED, ZERO, ChosenCut
from distforest.forest.margins import Margins, most_errors
from distforest.growth.cuts.trial_cuts import TRIAL_TREES
from distforest.jobs.cluster import Threads
from tests import samples
from tests.estimators.jobs import run_job, spec_of, write_arrays
from tests.estimators.rows import CITY, EUCLID
from tests.estimators.rows import THIRD as X
from tests.estimators.rows import THIRD_Y as Y
from tests.messages import naming

if TYPE_CHECKING:
    from distforest.jobs.spec import Spec

SIZES = np.random.default_rng(0).integers(1, 4, len(Y))


def classifier(cut: str = "auto", **params: Any) -> SimForestClassifier:
    return SimForestClassifier(**{"kind": "distance", "n_estimators": 6, "random_state": 3, "cut": cut, **params})


def euclid(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Distances of numbered objects, by a name that jobs can import."""
    return EUCLID[left, right]


@pytest.mark.parametrize("weights", [None, SIZES])
@pytest.mark.parametrize("class_weight", [None, {"1": 2.0}])
def test_the_errors_are_those_of_forests_with_each_cut(weights: Any, class_weight: Any) -> None:
    chosen = classifier(class_weight=class_weight).fit(EUCLID, Y, weights)
    expected = {}
    for cut in TRIED:
        own = classifier(cut, n_estimators=TRIAL_TREES, oob_score=True, class_weight=class_weight)
        of_rows = np.ones(len(Y)) if weights is None else SIZES.astype(float)
        of_rows = of_rows * np.where((Y == 1) & (class_weight is not None), 2.0, 1.0)
        expected[cut] = wrong_at_most(own.fit(EUCLID, Y, weights), of_rows)
    assert chosen.cut_errors_ == pytest.approx(expected)
    assert chosen.cut_ == min(expected, key=lambda cut: expected[cut])


def wrong_at_most(forest: SimForestClassifier, weights: np.ndarray) -> float:
    """V / (V + s^2) by the definitions, object by object and tree by tree."""
    found, factors = forest.forest_, np.array(forest.forest_.meaning.leaf.class_weights or (1, 1, 1))  # type: ignore[union-attr]
    margins, noise, kept = [], [], []
    for i, label in enumerate(Y):
        votes = []
        for tree in range(TRIAL_TREES):
            if found.in_bag[tree, i] == 0:
                node = found.table.tree_start[tree] + found.training_nodes[tree, i]
                counts = found.leaf_table.class_counts[node] * factors  # type: ignore[union-attr]
                votes.append(counts / counts.sum())
        if len(votes) > 1:
            mean = np.mean(votes, axis=0)
            other = max((c for c in range(3) if c != label), key=lambda c: (mean[c], -c))
            of_trees = [vote[label] - vote[other] for vote in votes]
            margins.append(np.mean(of_trees))
            noise.append(np.var(of_trees, ddof=1) / len(votes))
            kept.append(weights[i])
    s = np.average(margins, weights=kept)
    spread = np.average((np.array(margins) - s) ** 2 - np.array(noise), weights=kept)
    return float(spread / (spread + s**2))


def test_the_vote_of_a_hopeless_forest_may_always_be_wrong() -> None:
    margins = Margins(np.array([-0.5, 0.25]), np.array([0.1, 0.1]), np.array([9, 9]))
    assert most_errors(margins, np.ones(2)) == 1.0
    assert most_errors(Margins(np.array([0.5, 0.5]), np.array([0.1, 0.1]), np.array([9, 9])), np.ones(2)) == 0.0


def test_what_comes_of_few_trees_is_taken_away() -> None:
    rng = np.random.default_rng(0)
    of_objects = rng.normal(0.3, 0.2, 20_000)
    found = {}
    for n_trees in (10, 1000):
        mean = of_objects + rng.normal(0.0, 0.8, len(of_objects)) / np.sqrt(n_trees)
        variance = 0.64 * rng.chisquare(n_trees - 1, len(of_objects)) / (n_trees - 1)
        margins = Margins(mean, variance, np.full(len(of_objects), n_trees))
        found[n_trees] = most_errors(margins, np.ones(len(of_objects)))
    expected = 0.2**2 / (0.2**2 + 0.3**2)
    assert list(found.values()) == pytest.approx([expected] * 2, rel=0.05)
    assert np.mean(of_objects < 0.0) < expected


def test_errors_of_targets_are_squared_distances() -> None:
    target = X[:, 0]
    own: dict[str, Any] = {"kind": "distance", "random_state": 0, "oob_score": True}
    chosen = SimForestRegressor(cut="auto", n_estimators=20, max_samples=0.5, **own).fit(CITY, target)
    trial = SimForestRegressor(cut="zero", n_estimators=TRIAL_TREES, max_samples=0.5, **own).fit(CITY, target)
    assert chosen.cut_errors_["zero"] == pytest.approx(np.mean((trial.oob_prediction_ - target) ** 2))


@pytest.mark.parametrize("bootstrap", [True, False])
@pytest.mark.parametrize("several", [False, True])
def test_the_forest_is_the_one_with_the_chosen_cut(bootstrap: bool, several: bool) -> None:
    own: dict[str, Any] = {"bootstrap": bootstrap, "similarity": ["precomputed"] * 2 if several else "precomputed"}
    rows: Any = [CITY, EUCLID] if several else EUCLID
    chosen = classifier(**own).fit(rows, Y)
    named = classifier(chosen.cut_, **own).fit(rows, Y)
    assert chosen.digest_ == named.digest_
    assert named.cut_ == chosen.cut_
    assert classifier(**own, n_jobs=3).fit(rows, Y).cut_errors_ == chosen.cut_errors_


def test_the_seed_decides_where_cuts_are_about_as_good() -> None:
    noisy = np.where(np.eye(len(Y)), 0.0, CITY + np.random.default_rng(0).uniform(0, 6, CITY.shape))
    assert len({classifier(random_state=seed).fit(noisy, Y).cut_ for seed in range(6)}) > 1


@pytest.mark.slow
def test_functions_choose_as_matrices_do() -> None:
    params = {"oob_score": True, "n_estimators": 20, **samples.PAPER}
    given = classifier(similarity=["precomputed"] * 2, **params).fit([CITY, EUCLID], Y)
    lazy = [
        Lazy(pairwise(f), kind="distance")
        for f in (lambda a, b: float(np.abs(a - b).sum()), lambda a, b: float(np.sqrt(((a - b) ** 2).sum())))
    ]
    asked = classifier(similarity=lazy, kind="similarity", **params).fit(X, Y)
    assert asked.cut_errors_ == given.cut_errors_
    assert asked.digest_ == given.digest_
    with pytest.raises(InputError, match=naming("cut='auto'", "budget")):
        classifier(similarity=Lazy(lazy[0].function, budget=9), kind="similarity").fit(X, Y)


def test_trees_that_are_added_have_the_same_cut() -> None:
    at_once = classifier(n_estimators=9).fit(EUCLID, Y)
    grown = classifier(n_estimators=4, warm_start=True).fit(EUCLID, Y)
    assert grown.set_params(n_estimators=9).fit(EUCLID, Y).digest_ == at_once.digest_
    assert grown.cut_errors_ == at_once.cut_errors_


def test_what_cannot_choose_is_refused() -> None:
    with pytest.raises(InputError, match=naming("voting='nearest'", "cut='auto'")):
        classifier(voting="nearest").fit(EUCLID, Y)
    with pytest.raises(InputError, match=naming("cut", "'best'", "'zero'", "'exemplars'", "'auto'", "'nearest'")):
        classifier("nearest").fit(EUCLID, Y)
    with pytest.raises(AttributeError, match=naming("cut_errors_", "cut='auto'")):
        _ = classifier("zero").fit(EUCLID, Y).cut_errors_


def test_equal_errors_choose_the_best_place() -> None:
    assert errors(0.3, 0.3).cut == errors(0.3, 0.3 * (1 - 1e-12), 0.3 * (1 - 1e-12)).cut == BEST
    assert errors(0.0, 0.0).cut == BEST
    assert errors(0.3, 0.2, 0.2).cut == ZERO
    assert errors(0.3, 0.2, 0.1).cut == EXEMPLARS
    wrong = ({"best": 1.0}, {"best": 1.0, "zero": 1.0, "half": 1.0}, {"best": 1.0, "zero": None})
    for entry in ({}, {"chosen_cut": 3}, *({"chosen_cut": {"errors": found}} for found in wrong)):
        assert ChosenCut.from_provenance(entry) is None
    for chosen in (errors(0.5, 0.25), errors(0.5, 0.25, 0.125)):
        assert ChosenCut.from_provenance(chosen.entry) == chosen


def errors(*of_cuts: float) -> ChosenCut:
    return ChosenCut(of_cuts)


@pytest.mark.parametrize(
    "params", [{"n_columns": 2}, {"on_missing": "larger"}, {"similarity": "feature_subsets", "kind": "similarity"}]
)
def test_exemplars_are_tried_where_they_may_be_chosen(params: dict[str, Any]) -> None:
    rows = X if "similarity" in params else EUCLID
    assert set(classifier(**params).fit(rows, Y).cut_errors_) == {BEST, ZERO}
    assert set(classifier().fit(EUCLID, Y == 1).cut_errors_) == {BEST, ZERO}
    assert set(classifier().fit(EUCLID, Y).cut_errors_) == set(TRIED)


def test_it_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    chosen = classifier(verbose=1).fit(EUCLID, Y)
    assert f"cut={chosen.cut_!r}" in capsys.readouterr().err


def job(store: str, name: str, similarity: object, **params: Any) -> Spec:
    inputs = {"similarity": similarity, "labels": f"{store}/data.zarr/y"}
    return spec_of(store, "simforest", inputs, name, 3, **{"n_estimators": 6, "cut": "auto", **params})


@pytest.fixture
def store(tmp_path: Path) -> str:
    write_arrays(f"{tmp_path}/data.zarr", {"D": EUCLID, "y": Y})
    return str(tmp_path)


run = partial(run_job, cluster=Threads(2), batch=4)


@pytest.mark.slow
def test_a_job_chooses_as_the_estimator_does(store: str) -> None:
    params = {"bootstrap": False, **samples.PAPER}
    expected = classifier(**params).fit(EUCLID, Y)
    matrix = {"kind": "dense", "matrix": f"{store}/data.zarr/D", "measure": "distance"}
    function = {"kind": "lazy", "function": f"{__name__}:euclid", "measure": "distance"}
    specs = [
        job(store, name, similarity, **params)
        for name, similarity in (
            ("given", matrix),
            ("all", function),
            ("worker", {**function, "share": "worker"}),
        )
    ]
    done = [run(spec) for spec in specs]
    assert [one.digest for one in done] == [expected.digest_] * 3
    for spec in specs:
        opened = load(spec.output)
        assert isinstance(opened, SimForestClassifier)
        assert (opened.cut_, opened.cut, opened.cut_errors_) == (expected.cut_, expected.cut_, expected.cut_errors_)
    assert [one.evaluations > 0 for one in done] == [False, True, True]
    assert [run(spec).digest for spec in specs] == [expected.digest_] * 3  # sealed already
    told = CliRunner().invoke(main, ["inspect", specs[0].output]).output
    assert f"cut={expected.cut_!r}" in told
    with pytest.raises(SpecError, match=naming("input.similarity", "cut='auto'", "budget")):
        run(job(store, "poor", {**function, "budget": 900}))


@pytest.mark.slow
def test_a_job_that_stopped_in_a_trial_goes_on_and_may_grow_on(store: str) -> None:
    matrix = {"kind": "dense", "matrix": f"{store}/data.zarr/D", "measure": "distance"}
    spec, seen = job(store, "given", matrix), []

    def stop_soon(progress: Any) -> None:
        seen.append(progress.name)
        if progress.name == "try" and progress.done > 30:
            raise RuntimeError("power cut")

    with pytest.raises(RuntimeError, match="power cut"):
        run(spec, watch=stop_soon)
    assert set(seen) == {"try"}
    assert run(spec).digest == classifier().fit(EUCLID, Y).digest_
    more = job(store, "given", matrix, n_estimators=10)
    grown = run(more, earlier=more.output)
    assert (grown.n_grown, grown.digest) == (4, classifier(n_estimators=10).fit(EUCLID, Y).digest_)
