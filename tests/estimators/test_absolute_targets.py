"""Forests that are taught |y - y'|: trees and distances of the matrix of all differences."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from distforest import SMERF, Targets, load
from distforest.errors import DistforestWarning, InputError
from distforest.forest.scoring import out_of_bag_distance
from tests.estimators.closed_forms import every_way, same_trees
from tests.messages import naming

RNG = np.random.default_rng(0)
N = 48
X = RNG.normal(size=(N, 4)).round(1)
Y = np.rint(10 * X[:, 0] + RNG.normal(size=N) * 3)
TARGETS = Targets(Y, metric="absolute")
Z = np.abs(Y[:, None] - Y)
WEIGHTS = RNG.integers(0, 4, N)


@every_way
def test_trees_and_distances_are_those_of_the_matrix(params: dict[str, Any], weighted: bool) -> None:
    weight = WEIGHTS if weighted else None
    one, other = (SMERF(4, random_state=1, **params).fit(X, truth, weight) for truth in (TARGETS, Z))
    assert same_trees(one, other)
    np.testing.assert_allclose(one.distance(X), other.distance(X), rtol=1e-12)
    np.testing.assert_allclose(one.transform(X[:5]), other.transform(X[:5]), rtol=1e-12)
    assert one.score(X, TARGETS, weight) == pytest.approx(other.score(X, Z, weight))


@pytest.mark.slow
def test_missing_features_go_where_the_matrix_sends_them() -> None:
    holes = np.where(np.random.default_rng(1).random(X.shape) < 0.2, np.nan, X)
    one, other = (SMERF(4, random_state=1).fit(holes, truth) for truth in (TARGETS, Z))
    assert one.forest_.table.missing_right is not None
    assert same_trees(one, other)


@pytest.mark.slow
def test_categories_are_cut_as_by_the_matrix() -> None:
    frame = pd.DataFrame({"number": X[:, 1], "kind": pd.Categorical(np.digitize(X[:, 0], [-1, 0, 0.5]).astype(str))})
    one, other = (SMERF(4, random_state=1).fit(frame, truth) for truth in (TARGETS, Z))
    assert one.forest_.table.category_size is not None
    assert same_trees(one, other)


def test_a_saved_forest_answers_as_it_did(tmp_path: Path) -> None:
    forest = SMERF(6, random_state=0).fit(X, TARGETS)
    assert forest.save(f"{tmp_path}/a.zarr") == forest.digest_
    again = load(f"{tmp_path}/a.zarr")
    assert again.distance(X).tobytes() == forest.distance(X).tobytes()
    assert again.predict(X).tolist() == forest.predict(X).tolist()
    assert again.score(X, Y) == forest.score(X, TARGETS) != SMERF(6, random_state=0).fit(X, Targets(Y)).score(X, Y)


def test_a_leaf_predicts_its_median() -> None:
    forest = SMERF(1, min_samples_leaf=5, bootstrap=False, random_state=0).fit(X, TARGETS)
    nodes = forest.apply(X)[:, 0]
    assert forest.predict(X).tolist() == [np.median(Y[nodes == node]) for node in nodes]
    with pytest.raises(InputError, match=naming("targets", "`predict`")):
        forest.predict_proba(X)


def test_a_prediction_is_near_in_spite_of_errors_in_the_targets() -> None:
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(300, 2))
    true = np.round(20 * X[:, 0])
    dirty = np.where(rng.random(300) < 0.05, true + 500.0, true)
    errors = [
        np.abs(SMERF(30, min_samples_leaf=10, random_state=0).fit(X, truth).predict(X) - true).mean()
        for truth in (Targets(dirty, metric="absolute"), Targets(dirty))
    ]
    assert errors[0] < errors[1] / 3


def test_distances_are_symmetric_and_explained() -> None:
    forest = SMERF(3, random_state=0, min_samples_leaf=5).fit(X, TARGETS)
    distances = forest.distance(X)
    assert distances.tobytes() == distances.T.copy().tobytes()
    assert forest.pair_distance(X[:-1], X[1:]).tolist() == np.diag(distances, 1).tolist()
    explained = forest.explain(X[:5], X[5:10])
    np.testing.assert_allclose(explained.baselines + explained.contributions.sum(axis=1), np.diag(distances, 5)[:5])
    of_matrix = SMERF(3, random_state=0, min_samples_leaf=5).fit(X, Z).explain(X[:5], X[5:10])
    np.testing.assert_allclose(explained.contributions, of_matrix.contributions, atol=1e-12)


def test_more_trees_are_those_grown_at_once() -> None:
    forest = SMERF(3, random_state=0, warm_start=True).fit(X, TARGETS)
    assert forest.set_params(n_estimators=5).fit(X, TARGETS).digest_ == SMERF(5, random_state=0).fit(X, TARGETS).digest_
    with pytest.raises(InputError, match="warm_start=True"):
        forest.set_params(n_estimators=7).fit(X, Targets(Y + np.arange(N), metric="absolute"))


def test_out_of_bag_errors_are_of_these_distances() -> None:
    forest = SMERF(80, random_state=0, oob_score=True).fit(X, TARGETS)
    left, right = np.triu_indices(N, 1)
    estimate, _ = out_of_bag_distance(forest.forest_, left, right)
    assert forest.oob_rmse_ == pytest.approx(np.sqrt(np.mean((estimate - Z[left, right]) ** 2)))


def test_selected_rows_keep_the_metric() -> None:
    assert TARGETS[3:6].matrix().tolist() == Z[3:6, 3:6].tolist()


def test_other_metrics_and_sums_are_refused() -> None:
    with pytest.raises(InputError, match=naming("metric", "'squared'", "'absolute'", "'l1'")):
        Targets(Y, metric="l1")
    with pytest.raises(InputError, match="sum"):
        0.5 * TARGETS
    with pytest.raises(InputError, match=naming("targets", 1, "row 3")):
        SMERF(2).fit(X, Targets(np.where(np.arange(N) == 3, np.nan, Y), metric="absolute"))


def test_equal_targets_are_reported() -> None:
    with pytest.warns(DistforestWarning, match=naming("targets", 7)):
        SMERF(2, random_state=0).fit(X, Targets(np.full(N, 7.0), metric="absolute"))
