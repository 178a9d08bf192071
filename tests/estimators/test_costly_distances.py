"""SMERF from a function that costs: which pairs it asks, what they cost, and forests of the distances that it knows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from scipy.stats import spearmanr

from distforest import SMERF, Lazy, load, pairwise
from distforest.errors import InputError, JobError
from tests.messages import naming
from tests.simulated import radial

N = 70
DATA = radial(N, p=4, random_state=0)
X, Z = DATA.X, DATA.Z
PAIRS = math.comb(N, 2)


class Asked:
    """Distances of rows by their numbers, which counts what it is asked for."""

    def __init__(self, distances: np.ndarray = Z) -> None:
        self.distances, self.pairs = distances, list[tuple[int, int]]()

    def __getstate__(self) -> dict[str, Any]:
        return {"distances": self.distances}  # what was asked does not make it another function

    def __call__(self, left: Sequence[int], right: Sequence[int]) -> np.ndarray:
        self.pairs += zip(map(int, left), map(int, right), strict=True)
        return np.asarray(self.distances[np.asarray(left), np.asarray(right)])

    def lazy(self, **options: Any) -> Lazy:
        return Lazy(self, np.arange(N), kind="distance", **options)


def smerf(**params: Any) -> SMERF:
    return SMERF(**{"n_estimators": 5, "max_features": 4, "random_state": 0, **params})


@pytest.mark.slow
def test_without_a_budget_the_forest_is_that_of_the_matrix() -> None:
    asked = Asked()
    found = smerf(oob_score=True, n_estimators=80).fit(X, asked.lazy())
    expected = smerf(oob_score=True, n_estimators=80).fit(X, Z)
    assert found.digest_ == expected.digest_
    assert found.oob_score_ == expected.oob_score_
    assert len(asked.pairs) == len(set(asked.pairs)) == found.n_evaluations_ == PAIRS + 8


@pytest.mark.slow
@pytest.mark.parametrize("budget", [200, 501])
def test_a_budget_is_spent_and_never_exceeded(budget: int) -> None:
    asked = Asked()
    found = smerf().fit(X, asked.lazy(budget=budget))
    assert len(asked.pairs) == len(set(asked.pairs)) == found.n_evaluations_ == budget
    assert all(left <= right for left, right in asked.pairs)


def test_the_forest_is_that_of_the_pairs_that_were_asked() -> None:
    asked = Asked()
    found = smerf().fit(X, asked.lazy(budget=900))
    known = np.eye(N, dtype=np.bool_)
    left, right = np.array(asked.pairs).T
    known[left, right] = known[right, left] = True
    assert found.digest_ == smerf().fit(X, np.where(known, Z, np.nan)).digest_


@pytest.mark.parametrize("seed", range(4))
def test_any_seed_asks_its_own_pairs(seed: int) -> None:
    asked, other = Asked(), Asked()
    smerf(n_estimators=1, random_state=seed).fit(X, asked.lazy(budget=400))
    smerf(n_estimators=1, random_state=seed + 1).fit(X, other.lazy(budget=400))
    assert len(set(asked.pairs) & set(other.pairs)) < 200


def test_half_of_the_pairs_are_near() -> None:
    distances = np.abs(X[:, 0, None] - X[:, 0])
    asked = Asked(distances)
    smerf(n_estimators=1).fit(X, asked.lazy(budget=1008))
    found = distances[tuple(np.array(asked.pairs[8:]).T)]
    anywhere, near = found[:500], found[500:]
    assert near.mean() < 0.6 * anywhere.mean()
    assert anywhere.mean() == pytest.approx(distances[np.triu_indices(N, 1)].mean(), rel=0.1)


def test_distances_of_rows_to_themselves_are_asked_where_they_are_not_0() -> None:
    shifted = Asked(Z + 1.0)
    found = smerf().fit(X, shifted.lazy(budget=800))
    assert sum(left == right for left, right in shifted.pairs) == N
    assert found.n_evaluations_ == 800
    assert smerf().fit(X, Asked(Z + 1.0).lazy()).digest_ == smerf().fit(X, Z + 1.0).digest_


def test_what_a_ledger_knows_is_free_and_changes_nothing(tmp_path: Path) -> None:
    ledger = tmp_path / "ledger"
    first, second, third = Asked(), Asked(), Asked()
    digest = smerf().fit(X, first.lazy(budget=500)).digest_
    assert smerf().fit(X, second.lazy(budget=500, ledger=ledger)).digest_ == digest
    again = smerf(n_estimators=9).fit(X, third.lazy(budget=500, ledger=ledger))
    assert not third.pairs
    assert again.digest_ == smerf(n_estimators=9).fit(X, first.lazy(budget=500)).digest_
    larger = smerf().fit(X, third.lazy(budget=800, ledger=ledger))
    assert larger.digest_ == smerf().fit(X, first.lazy(budget=800)).digest_
    assert len(third.pairs) < 800


def test_more_trees_are_those_grown_at_once() -> None:
    grown = smerf(warm_start=True).fit(X, Asked().lazy(budget=500))
    grown.set_params(n_estimators=8).fit(X, Asked().lazy(budget=500))
    assert grown.digest_ == smerf(n_estimators=8).fit(X, Asked().lazy(budget=500)).digest_


def test_a_failure_keeps_what_was_answered(tmp_path: Path) -> None:
    def fails(left: Sequence[int], right: Sequence[int]) -> np.ndarray:
        if any(int(row) == 66 for row in right):
            raise ValueError("no such pair")
        return np.asarray(Z[np.asarray(left), np.asarray(right)])

    lazy = Lazy(fails, np.arange(N), kind="distance", budget=500, ledger=tmp_path / "ledger", retries=0, batch_size=20)
    with pytest.raises(JobError, match="no such pair"):
        smerf().fit(X, lazy)


def test_what_the_function_does_not_know_is_unobserved() -> None:
    holes = np.where(np.random.default_rng(0).random(Z.shape) < 0.2, np.nan, Z)
    holes = np.triu(holes, 1) + np.triu(holes, 1).T
    found = smerf().fit(X, Asked(holes).lazy())
    assert found.digest_ == smerf().fit(X, holes).digest_
    assert found.unobserved_share_ > 0.0


def test_without_objects_the_function_gets_the_rows() -> None:
    def lengths_apart(one: np.ndarray, other: np.ndarray) -> float:
        return float((np.hypot(*one[:2]) - np.hypot(*other[:2])) ** 2)

    found = smerf(n_estimators=20).fit(X, Lazy(pairwise(lengths_apart), kind="distance", budget=600))
    new = radial(50, p=4, random_state=1)
    assert spearmanr(new.Z.ravel(), found.distance(new.X).ravel()).statistic > 0.6


def test_rows_of_weight_0_are_not_asked_for() -> None:
    weights = np.r_[np.zeros(20), np.ones(N - 20)]
    for budget in (300, None):
        asked = Asked()
        smerf().fit(X, asked.lazy(budget=budget), weights)
        assert min(min(pair) for pair in asked.pairs) == 20


def test_a_saved_forest_names_its_function(tmp_path: Path) -> None:
    found = smerf().fit(X, Asked().lazy(budget=500))
    found.save(tmp_path / "a.zarr")
    origin = load(tmp_path / "a.zarr").forest_.provenance["distances"]
    assert (origin["evaluations"], origin["symmetric"]) == (500, True)
    found.fit(X, Z)
    assert not hasattr(found, "n_evaluations_")


@pytest.mark.parametrize("columns", ["floats", "sparse"])
def test_any_features_may_be_given(columns: str) -> None:
    given = X if columns == "floats" else scipy.sparse.csr_array(np.where(X > 0, X, 0.0))
    found = smerf(feature_weights=[1.0, 1.0, 0.5, 0.0], max_features=2).fit(given, Asked().lazy(budget=400))
    assert found.n_evaluations_ == 400
    with pytest.raises(InputError, match=naming("Lazy", "objects", "X")):
        smerf().fit(scipy.sparse.csr_array(X), Lazy(Asked(), kind="distance"))


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"kind": "similarity"}, ("SMERF", "kind='similarity'", "kind='distance'")),
        ({"symmetric": False}, ("SMERF", "symmetric=False")),
        ({"budget": N - 1}, ("budget", N, N - 1)),
        ({"objects": np.arange(N + 1)}, ("Lazy(objects=...)", N, N + 1)),
    ],
)
def test_functions_that_cannot_be_learned_from_are_refused(options: dict[str, Any], named: tuple[object, ...]) -> None:
    with pytest.raises(InputError, match=naming(*named)):
        smerf().fit(X, Lazy(Asked(), **{"objects": np.arange(N), "kind": "distance", **options}))


def test_only_fit_takes_a_function() -> None:
    found = smerf().fit(X, Z)
    with pytest.raises(InputError, match="function"):
        found.score(X, Asked().lazy())  # type: ignore[arg-type]
