"""A budget pays for landmarks; where it pays for few of the trees that were asked for, a warning says so."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_iris, load_wine

from distforest import Lazy, SimForestClassifier, SimForestOutlier, SimForestRegressor, pairwise
from distforest.errors import DistforestWarning
from tests.messages import naming

WINES, GROWERS = load_wine(return_X_y=True)
WINES = (WINES - WINES.mean(axis=0)) / WINES.std(axis=0)
LEARNED = np.flatnonzero(np.arange(len(WINES)) % 3)


@pairwise
def apart(a: int, b: int) -> float:
    return float(np.linalg.norm(WINES[a] - WINES[b]))


def few(estimator: Any, budget: int, **options: Any) -> tuple[Any, str]:
    """A forest of a spent budget, and what is said of it."""
    forest = estimator(Lazy(apart, kind="distance", budget=budget), random_state=0, **options)
    with pytest.warns(DistforestWarning, match=naming(f"{budget} pairs", "trees")) as told:
        forest.fit(LEARNED, GROWERS[LEARNED])
    [warning] = told
    return forest, str(warning.message)


@pytest.mark.parametrize("kind", ["distance", "similarity"])
def test_a_budget_pays_for_landmarks_of_all_trees(kind: str) -> None:
    @pairwise
    def alike(a: int, b: int) -> float:
        return -float(((WINES[a] - WINES[b]) ** 2).sum())

    budget = 700  # a tenth of all pairs
    lazy = Lazy(apart if kind == "distance" else alike, kind=kind, budget=budget)
    forest = SimForestClassifier(lazy, random_state=0).fit(LEARNED, GROWERS[LEARNED])
    m = forest.forest_.meaning.params["n_landmarks"]
    assert isinstance(m, int)
    assert (forest.forest_.n_trees, forest.n_closed_) == (100, 0)
    assert forest.n_evaluations_ <= budget < (m + 1) * len(LEARNED)  # as many as it pays for
    free = Lazy(lazy.function, kind=kind)
    twin = SimForestClassifier(free, n_landmarks=m, random_state=0).fit(LEARNED, GROWERS[LEARNED])
    assert twin.digest_ == forest.digest_


def test_more_landmarks_than_the_budget_pays_for_are_reported() -> None:
    assert "landmarks" in few(SimForestClassifier, 700, n_landmarks=60)[1]


@pytest.mark.parametrize(
    ("estimator", "budget", "options"),
    [
        (SimForestClassifier, 700, {"pairing": "kept"}),  # landmarks do not go with it
        (SimForestClassifier, 340, {}),  # too few for a landmark of each class
        (SimForestOutlier, 700, {}),  # has no landmarks
    ],
)
def test_a_budget_is_spent_on_trees_where_landmarks_do_not_go(
    estimator: Any, budget: int, options: dict[str, Any]
) -> None:
    forest, told = few(estimator, budget, **options)
    assert forest.forest_.meaning.params.get("n_landmarks") is None
    assert "landmarks" not in told


def test_a_budget_for_all_pairs_needs_no_landmarks() -> None:
    forest = SimForestRegressor(Lazy(apart, kind="distance", budget=7021), n_estimators=5, random_state=0)
    assert forest.fit(LEARNED, WINES[LEARNED, 0]).forest_.meaning.params.get("n_landmarks") is None


def test_a_budget_that_pays_for_ten_trees_is_not_reported_nor_is_one_where_few_were_asked_for() -> None:
    X, y = load_iris(return_X_y=True)
    far = pairwise(lambda a, b: float(np.linalg.norm(X[a] - X[b])))
    every: dict[str, Any] = {"pairing": "kept", "random_state": 0}
    some = SimForestClassifier(Lazy(far, kind="distance", budget=7000), **every).fit(np.arange(150), y)
    assert 10 <= some.forest_.n_trees < 100
    small = SimForestClassifier(Lazy(far, kind="distance", budget=1500), n_estimators=19, **every)
    assert small.fit(np.arange(150), y).forest_.n_trees < 10
