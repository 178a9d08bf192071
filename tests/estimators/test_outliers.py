"""Outlier scores of similarities: scikit-learn's rules, the reference trees, and outliers that are found."""

from __future__ import annotations

import inspect
import warnings
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.ensemble import IsolationForest
from sklearn.metrics import roc_auc_score
from sklearn.utils.estimator_checks import parametrize_with_checks

from distforest import SMERF, Lazy, SimForestOutlier, load
from distforest.errors import DistforestWarning, InputError
from distforest.forest import scoring
from distforest.growth.methods import METHODS
from distforest.sources.arrays import write_array
from tests import samples
from tests.estimators.rows import observed
from tests.forest.sealed.damage import manifest_of, refusal, reseal, rewrite, with_value
from tests.messages import naming
from tests.reference import naive_isolation, naive_simforest
from tests.sources.lazy.test_source import Counted

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from sklearn.base import BaseEstimator

RNG = np.random.default_rng(0)
USUAL = RNG.normal(size=(200, 4)) * np.array([1.0, 0.5, 2.0, 0.1])
STRANGE = RNG.uniform(-9, 9, size=(12, 4))
POINTS = np.concatenate([USUAL, STRANGE])
IS_STRANGE = np.arange(len(POINTS)) >= len(USUAL)


def _expected(estimator: BaseEstimator) -> dict[str, str]:
    """The checks that fail."""
    if estimator.similarity != "precomputed":
        return {}
    reason = "the check gives features, and does not ask whether similarities are wanted"
    checks = ("check_outliers_fit_predict", "check_outliers_train", "check_outliers_train(readonly_memmap=True)")
    return dict.fromkeys(checks, reason)


class _ByContent(SimForestOutlier):
    """An estimator that numbers its rows by what they hold: pairs are drawn by number, and the check shuffles rows.

    As the check gives features, it reads these.
    """

    def fit(self, X: Any, y: object = None, sample_weight: Any = None) -> SimForestOutlier:
        order = np.lexsort(X.T)
        return super().fit(X[order], None, None if sample_weight is None else np.asarray(sample_weight)[order])


@pytest.mark.slow
@parametrize_with_checks(
    [SimForestOutlier("rbf", n_estimators=30), SimForestOutlier(n_estimators=30)], expected_failed_checks=_expected
)
def test_scikit_learn(estimator: BaseEstimator, check: Callable[[BaseEstimator], None]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its checks provoke warnings
        if "sample_weight_equivalence" in check.func.__name__:  # type: ignore[attr-defined]
            estimator = _ByContent("linear", n_estimators=30)
        assert check(estimator) is None  # a check raises AssertionError where it fails


def test_the_constructor_agrees_with_the_one_list_of_parameters() -> None:
    found = {name: p.default for name, p in inspect.signature(SimForestOutlier).parameters.items()}
    expected: dict[str, Any] = {p.name: p.default for p in METHODS["isolation"].parameters}
    expected |= {"random_state": None, "n_jobs": None, "verbose": 0, "warm_start": False, "client": None}
    assert found == expected | {
        "similarity": "precomputed",
        "similarity_weights": None,
        "warm_start": False,
        "kind": "similarity",
        "gamma": None,
    }
    assert all(f"    {name} : " in str(SimForestOutlier.__doc__) for name in expected)


@pytest.mark.parametrize(("missing", "max_samples"), [(0.0, 256), (0.2, 30), (0.4, 0.5)])
def test_scores_are_those_of_the_reference(missing: float, max_samples: float) -> None:
    S = samples.similarities(60, 3, missing)
    forest = SimForestOutlier(n_estimators=5, max_samples=max_samples, random_state=8).fit(S)
    w = forest.forest_.in_bag.astype(int)
    assert w.max() == 1
    assert w.sum(axis=1).tolist() == [min(60, int(max_samples * 60) if max_samples < 1 else max_samples)] * 5
    rules = naive_simforest.Rules(truth_kind="isolation")
    trees = [naive_simforest.grow_tree(S, np.zeros(60), w[tree], 8, tree, rules) for tree in range(5)]
    expected = naive_isolation.isolation_scores(trees, S, rules)
    np.testing.assert_allclose(forest.score_samples(S), -expected, rtol=1e-12)
    assert forest.predict(S).tolist() == np.where(expected > 0.5, -1, 1).tolist()


@pytest.mark.parametrize("similarity", ["precomputed", "linear", "rbf", "distance"])
def test_outliers_are_found(similarity: str) -> None:
    D = np.sqrt(((POINTS[:, None] - POINTS) ** 2).sum(axis=2))
    rows = {"precomputed": POINTS @ POINTS.T, "distance": D}.get(similarity, POINTS)
    kernel = (
        {"similarity": "precomputed", "kind": "distance"} if similarity == "distance" else {"similarity": similarity}
    )
    forest = SimForestOutlier(**kernel, gamma=0.002 if similarity == "rbf" else None, random_state=0).fit(rows)
    found = roc_auc_score(IS_STRANGE, -forest.score_samples(rows))
    peer = roc_auc_score(IS_STRANGE, -IsolationForest(random_state=0).fit(POINTS).score_samples(POINTS))
    assert found > 0.97
    assert found > peer - 0.02


def test_contamination_is_the_share_of_training_rows_that_are_outliers() -> None:
    for share in (0.0, 0.05, 0.3):
        forest = SimForestOutlier("linear", contamination=share, random_state=1).fit(POINTS)
        assert abs((forest.predict(POINTS) == -1).sum() - share * len(POINTS)) <= 1
        np.testing.assert_array_equal(forest.decision_function(POINTS), forest.score_samples(POINTS) - forest.offset_)
    assert SimForestOutlier("linear", random_state=1).fit(POINTS).offset_ == -0.5


def test_equal_objects_are_all_usual() -> None:
    with pytest.warns(DistforestWarning, match="split"):
        forest = SimForestOutlier("linear", n_estimators=5, random_state=0).fit(np.ones((9, 2)))
    assert forest.forest_.table.tree_size.tolist() == [1] * 5
    np.testing.assert_array_equal(forest.score_samples(np.ones((3, 2))), [-0.5] * 3)
    with pytest.warns(DistforestWarning, match="split"):
        assert forest.fit_predict(np.ones((9, 2))).tolist() == [1] * 9


def test_a_row_of_which_nothing_is_observed_stays_at_the_root_and_is_usual() -> None:
    S = POINTS @ POINTS.T
    forest = SimForestOutlier(random_state=0).fit(S)
    assert forest.score_samples(np.full((1, len(S)), np.nan)).tolist() == [-0.5]


def test_what_a_sparse_matrix_does_not_store_is_unobserved() -> None:
    S = samples.similarities(60, 3, 0.3)
    stored = observed(S)
    forest = SimForestOutlier(n_estimators=5, contamination=0.1, random_state=8)
    dense, sparse = clone(forest).fit(S), clone(forest).fit(stored)
    assert sparse.digest_ == dense.digest_
    assert sparse.offset_ == dense.offset_
    np.testing.assert_array_equal(sparse.score_samples(stored), dense.score_samples(S))


def test_a_sealed_forest_is_the_same_estimator(tmp_path: Path) -> None:
    forest = SimForestOutlier("rbf", n_estimators=12, contamination=0.1, random_state=3).fit(POINTS)
    address = str(tmp_path / "f.zarr")
    assert forest.save(address) == forest.digest_
    found = load(address)
    assert isinstance(found, SimForestOutlier)
    np.testing.assert_array_equal(found.decision_function(POINTS), forest.decision_function(POINTS))
    assert (found.offset_, found.digest_, found.n_features_in_) == (forest.offset_, forest.digest_, 4)
    assert clone(found).fit(POINTS).digest_ == forest.digest_
    assert forest.forest_.leaf_table.arrays() == {}


DISTANCES = np.sqrt(((POINTS[:, None] - POINTS) ** 2).sum(axis=2))
IDS = np.arange(len(POINTS))


@pytest.mark.parametrize("options", [{"contamination": 0.1, "max_samples": 40}, {"max_samples": None}])
@pytest.mark.parametrize("kind", ["similarity", "distance"])
def test_a_similarity_that_is_asked_for_makes_the_forest_of_the_whole_matrix(
    kind: str, options: dict[str, Any], tmp_path: Path
) -> None:
    matrix = DISTANCES if kind == "distance" else POINTS @ POINTS.T
    function = Counted(matrix)
    lazy = Lazy(function, kind=kind, batch_size=500)
    whole = SimForestOutlier(kind=kind, n_estimators=10, random_state=0, **options).fit(matrix)
    forest = SimForestOutlier(lazy, n_estimators=10, random_state=0, **options).fit(IDS)
    assert forest.digest_ == whole.digest_
    assert forest.offset_ == whole.offset_
    assert set(function.asked.values()) == {1}
    assert forest.n_evaluations_ == function.asked.total()
    assert (forest.n_closed_, forest.n_features_in_) == (0, len(POINTS))
    np.testing.assert_array_equal(forest.score_samples(IDS[::5]), whole.score_samples(matrix[::5]))
    assert forest.predict(IDS[::5]).tolist() == whole.predict(matrix[::5]).tolist()
    forest.save(tmp_path / "f.zarr")
    opened = load(tmp_path / "f.zarr", similarity=lazy, X=IDS)
    assert isinstance(opened, SimForestOutlier)
    assert opened.n_evaluations_ == forest.n_evaluations_
    np.testing.assert_array_equal(opened.decision_function(IDS[::7]), whole.decision_function(matrix[::7]))


def test_few_pairs_are_asked_for_and_rows_that_a_tree_has_not_drawn_cost_nothing() -> None:
    lazy = Lazy(Counted(DISTANCES), kind="distance")
    few: dict[str, Any] = {"n_estimators": 10, "max_samples": 16, "random_state": 0}
    cheap = SimForestOutlier(lazy, **few).fit(IDS)
    assert cheap.n_evaluations_ <= 10 * 2 * 16 * 4  # two columns of 16 rows, to depth 4
    whole = SimForestOutlier(kind="distance", **few).fit(DISTANCES)
    np.testing.assert_array_equal(cheap.score_samples(IDS[::9]), whole.score_samples(DISTANCES[::9]))
    dear = SimForestOutlier(lazy, contamination=0.1, **few).fit(IDS)
    assert dear.n_evaluations_ > 3 * cheap.n_evaluations_
    assert dear.n_evaluations_ < len(IDS) * (len(IDS) - 1) / 2


def test_a_budget_is_kept_and_reported() -> None:
    function = Counted(DISTANCES)
    lazy = Lazy(function, kind="distance", budget=150)
    forest = SimForestOutlier(lazy, n_estimators=10, max_samples=16, random_state=0).fit(IDS)
    assert forest.n_evaluations_ == function.asked.total() <= 150
    assert forest.n_closed_ > 0
    assert 1 <= forest.forest_.n_trees < 10
    assert np.isfinite(forest.score_samples(IDS[:5])).all()
    again = clone(forest).set_params(similarity=Lazy(Counted(DISTANCES), kind="distance", budget=150)).fit(IDS)
    assert again.digest_ == forest.digest_
    assert not hasattr(forest.set_params(similarity="precomputed", kind="distance").fit(DISTANCES), "n_closed_")


def test_a_damaged_forest_is_refused_or_can_be_scored(tmp_path: Path) -> None:
    forest = SimForestOutlier("rbf", n_estimators=3, random_state=3).fit(POINTS)
    path = tmp_path / "f.zarr"
    forest.save(str(path))
    manifest = manifest_of(path)
    lacks = {
        "class_counts": "class_counts",
        "means": "factor",
        "members": "distances",
        "leaf_distances": "leaf_distances",
    }
    for kind, lacking in lacks.items():
        reseal(path, with_value(manifest, ("meaning", "leaf", "kind"), kind))
        assert refusal(path).startswith(f"{lacking}:")
    reseal(path, manifest)
    n_rows = forest.forest_.table.n_rows
    for lie in (np.zeros_like(n_rows), np.full_like(n_rows, 2**62)):
        rewrite(path, {"n_rows": lie})
        found = load(str(path)).score_samples(POINTS)
        assert ((found >= -1.0) & (found <= 0.0)).all()
    SMERF(3, random_state=0).fit(POINTS, IS_STRANGE).save(str(tmp_path / "g.zarr"))
    reseal(
        tmp_path / "g.zarr", with_value(manifest_of(tmp_path / "g.zarr"), ("meaning", "leaf", "kind"), "path_lengths")
    )
    assert "['class_counts']" in refusal(tmp_path / "g.zarr")


def test_input_on_disk_is_the_same_input(tmp_path: Path) -> None:
    S = POINTS @ POINTS.T
    write_array(str(tmp_path / "g.zarr"), "S", S.shape, S.dtype, [S])
    there = SimForestOutlier(n_estimators=4, random_state=3).fit(str(tmp_path / "g.zarr" / "S"))
    assert there.digest_ == SimForestOutlier(n_estimators=4, random_state=3, n_jobs=2).fit(S).digest_


def test_rows_are_as_far_apart_as_trees_tell_them_apart() -> None:
    forest = SimForestOutlier("rbf", n_estimators=20, random_state=0).fit(POINTS)
    some = POINTS[::40]
    np.testing.assert_allclose(forest.distance(some, POINTS), 1.0 - forest.proximity(some, POINTS), atol=1e-12)
    nodes = scoring.apply(forest.forest_, forest.forest_.source(some))
    pairs = scoring.pair_distance(forest.forest_, nodes, nodes[:, ::-1])
    np.testing.assert_allclose(pairs, np.diag(forest.distance(some)[:, ::-1]), atol=1e-12)


def test_what_is_no_outlier_forest_is_refused() -> None:
    smerf = SMERF(3, random_state=0).fit(POINTS, IS_STRANGE)
    with pytest.raises(InputError, match="class_counts"):
        scoring.isolation(smerf.forest_, smerf.forest_.leaves)
    forest = SimForestOutlier("rbf", n_estimators=3, random_state=0).fit(POINTS)
    with pytest.raises(InputError, match=naming("`distance`", "`proximity`")):
        scoring.predict(forest.forest_, forest.forest_.leaves)


@pytest.mark.parametrize(
    ("params", "named"),
    [
        ({"contamination": 0.6}, ("contamination", [0.0, 0.5], "'auto'", 0.6)),
        ({"max_samples": 0}, ("max_samples", ">= 1", 0)),
        ({"similarity": "feature_subsets"}, ("similarity", "'precomputed'", "'manhattan'", "'feature_subsets'")),
        ({"kind": "distance"}, ("kind='distance'", "similarity='precomputed'", "'rbf'")),
    ],
)
def test_bad_parameters_are_refused_by_fit(params: dict[str, Any], named: tuple[object, ...]) -> None:
    with pytest.raises(InputError, match=naming(*named)):
        SimForestOutlier(**{"similarity": "rbf", **params}).fit(POINTS)


WEIGHTS = RNG.integers(0, 4, len(POINTS)).astype(float)


@pytest.mark.parametrize("similarity", ["linear", "rbf", "precomputed", "distance", "lazy", "list"])
def test_a_weight_is_so_many_equal_objects(similarity: str) -> None:
    """If a tree draws all of them: the same cuts, scores and outliers."""
    repeats = np.repeat(IDS, WEIGHTS.astype(int))
    params: dict[str, Any] = {"n_estimators": 8, "max_samples": None, "contamination": 0.1, "random_state": 0}
    S = POINTS @ POINTS.T
    matrices = {"precomputed": S, "distance": DISTANCES, "list": np.stack([S, -(DISTANCES**2)], axis=2)}
    if similarity in matrices:
        params |= {"kind": "distance"} if similarity == "distance" else {}
        params |= {"similarity": ["precomputed", "precomputed"]} if similarity == "list" else {}
        rows, repeated = matrices[similarity], matrices[similarity][repeats][:, repeats]
        queries = matrices[similarity][:, repeats]
    elif similarity == "lazy":
        params["similarity"] = Lazy(Counted(S))
        rows, repeated, queries = IDS, repeats, IDS
    else:
        params["similarity"] = similarity
        rows, repeated, queries = POINTS, POINTS[repeats], POINTS
    weighted = SimForestOutlier(**params).fit(rows, sample_weight=WEIGHTS)
    plain = SimForestOutlier(**params).fit(repeated)
    tables = [forest.forest_.table for forest in (weighted, plain)]
    for name in ("left", "threshold", "n_rows"):
        np.testing.assert_array_equal(getattr(tables[0], name), getattr(tables[1], name))
    np.testing.assert_array_equal(weighted.score_samples(rows), plain.score_samples(queries))
    assert weighted.offset_ == pytest.approx(plain.offset_, rel=1e-12)


def test_trees_of_some_rows_weigh_them_as_much_as_repeated_rows_in_expectation() -> None:
    """A tree draws rows by number, so it holds fewer and heavier ones; scores are nearly equal."""
    repeats = np.repeat(IDS, WEIGHTS.astype(int))
    params: dict[str, Any] = {"similarity": "linear", "n_estimators": 400, "max_samples": 0.3, "random_state": 0}
    weighted = SimForestOutlier(**params).fit(POINTS, sample_weight=WEIGHTS)
    plain = SimForestOutlier(**params).fit(POINTS[repeats])
    mean_weight = (weighted.forest_.in_bag * WEIGHTS).mean(axis=0)
    assert np.abs(mean_weight / np.maximum(WEIGHTS, 1.0) - 0.3 * (WEIGHTS > 0)).max() < 0.1
    found, expected = weighted.score_samples(POINTS), plain.score_samples(POINTS)
    assert np.corrcoef(found, expected)[0, 1] > 0.98
    assert np.abs(found - expected).max() < 0.08


def test_fractional_weights_are_relative(tmp_path: Path) -> None:
    """Equal ones are no weights, in the mean; and a sealed forest knows what counts as a row."""
    params: dict[str, Any] = {"similarity": "linear", "n_estimators": 200, "contamination": 0.1}
    plain = SimForestOutlier(random_state=0, **params).fit(POINTS)
    equal = SimForestOutlier(random_state=0, **params).fit(POINTS, sample_weight=np.full(len(POINTS), 0.3))
    assert equal.forest_.table.n_rows.max() > 1000 * len(POINTS)
    assert np.abs(equal.score_samples(POINTS) - plain.score_samples(POINTS)).max() < 0.06
    forest = SimForestOutlier(random_state=0, **params).fit(POINTS, sample_weight=WEIGHTS / 7.0)
    forest.save(tmp_path / "f.zarr")
    opened = load(tmp_path / "f.zarr")
    assert (opened.digest_, opened.offset_) == (forest.digest_, forest.offset_)
    np.testing.assert_array_equal(opened.score_samples(POINTS), forest.score_samples(POINTS))
    manifest = manifest_of(tmp_path / "f.zarr")
    for unit in (0, -1, 2.0, "1"):
        reseal(tmp_path / "f.zarr", with_value(manifest, ("meaning", "leaf", "unit"), unit))
        assert "leaf.unit" in refusal(tmp_path / "f.zarr")


def test_an_object_of_great_weight_is_usual_and_others_are_told_apart() -> None:
    weights = np.ones(21)
    weights[4] = 5000.0
    points = np.random.default_rng(0).normal(size=(21, 2))
    scores = SimForestOutlier("linear", random_state=0).fit(points, sample_weight=weights).score_samples(points)
    assert scores.argmax() == 4
    assert scores[4] > -0.5 > np.delete(scores, 4).max()
    with pytest.raises(InputError, match=naming("sample_weight:", -1.0, "row 0")):
        SimForestOutlier("linear").fit(points, sample_weight=-weights)
    with pytest.raises(InputError, match=naming("sample_weight:", (21,), (20,))):
        SimForestOutlier("linear").fit(points, sample_weight=weights[1:])


@pytest.mark.parametrize(("share", "most_odd"), [(1.0, 0.3), (0.8, 0.35), (0.5, 0.4)])
def test_of_an_incomplete_matrix_no_more_is_odd_than_of_a_complete_one(share: float, most_odd: float) -> None:
    rng = np.random.default_rng(0)
    points = rng.normal(size=(90, 3))
    points[:4] += 7
    apart = np.linalg.norm(points[:, None] - points, axis=2)
    lost = np.triu(rng.random(apart.shape) > share, 1)
    apart[lost | lost.T] = np.nan
    told = pytest.warns(DistforestWarning, match=naming("73 %", "contamination"))
    with told if share == 0.5 else nullcontext():
        forest = SimForestOutlier(kind="distance", random_state=0).fit(apart)
    scores = forest.score_samples(apart)
    assert scores[:4].max() < scores[4:].min() + (0.08 if share == 1.0 else 0.0)
    assert (forest.predict(apart) == -1).mean() < most_odd
