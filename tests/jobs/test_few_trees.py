"""A budget that pays for few of the trees that were asked for is told, with the landmarks that it would pay for."""

from __future__ import annotations

import re
import warnings
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


def test_a_budget_for_one_tree_is_told_with_the_landmarks_that_it_pays_for() -> None:
    budget = 700  # a tenth of all pairs
    forest, told = few(SimForestClassifier, budget)
    assert forest.forest_.n_trees == 1
    m = int(re.search(r"700 pairs .*1 of 100 trees.* n_landmarks=(\d+)", told)[1])
    lazy = Lazy(apart, kind="distance", budget=budget)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        all_trees = SimForestClassifier(lazy, n_landmarks=m, random_state=0).fit(LEARNED, GROWERS[LEARNED])
    assert (all_trees.forest_.n_trees, all_trees.n_closed_) == (100, 0)
    assert all_trees.n_evaluations_ <= budget < m * len(LEARNED) + len(LEARNED)  # as many as it pays for


def test_fewer_landmarks_are_recommended_where_those_that_were_given_are_too_many() -> None:
    assert "n_landmarks=6," in few(SimForestClassifier, 700, n_landmarks=60)[1]


@pytest.mark.parametrize(
    ("estimator", "budget", "options"),
    [
        (SimForestClassifier, 700, {"pairing": "kept"}),  # landmarks do not go with it
        (SimForestClassifier, 340, {}),  # too few for a landmark of each class
        (SimForestOutlier, 700, {}),  # has no landmarks
    ],
)
def test_landmarks_are_not_recommended_where_they_do_not_go(
    estimator: Any, budget: int, options: dict[str, Any]
) -> None:
    assert "n_landmarks" not in few(estimator, budget, **options)[1]


def test_a_landmarks_similarity_to_itself_is_paid_for_too() -> None:
    @pairwise
    def alike(a: int, b: int) -> float:
        return -float(((WINES[a] - WINES[b]) ** 2).sum())

    lazy = Lazy(alike, budget=700)
    with pytest.warns(DistforestWarning, match="n_landmarks=(5|6)") as told:
        SimForestRegressor(lazy, random_state=0).fit(LEARNED, WINES[LEARNED, 0])
    m = int(re.search(r"n_landmarks=(\d+)", str(told[0].message))[1])
    fewer = SimForestRegressor(lazy, n_landmarks=m, random_state=0).fit(LEARNED, WINES[LEARNED, 0])
    assert (fewer.forest_.n_trees, fewer.n_closed_) == (100, 0)


def test_a_budget_that_pays_for_ten_trees_is_not_told_nor_is_one_where_few_were_asked_for() -> None:
    X, y = load_iris(return_X_y=True)
    far = pairwise(lambda a, b: float(np.linalg.norm(X[a] - X[b])))
    some = SimForestClassifier(Lazy(far, kind="distance", budget=7000), random_state=0).fit(np.arange(150), y)
    assert 10 <= some.forest_.n_trees < 100
    small = SimForestClassifier(Lazy(far, kind="distance", budget=1500), n_estimators=19, random_state=0)
    assert small.fit(np.arange(150), y).forest_.n_trees < 10
