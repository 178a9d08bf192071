"""Out-of-bag distances of trees that had stopped earlier are those of the definition."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from distforest import SMERF, Embedding, Targets
from distforest.forest import scoring
from distforest.forest.stopped_trees import EarlyStop, stopped_distances
from distforest.sources.truth import Truth
from tests.reference.naive_stopped import out_of_bag_distances
from tests.simulated import radial

DATA = radial(30, p=3, random_state=0)
KINDS: dict[str, tuple[Any, dict[str, Any]]] = {
    "class_counts": ((DATA.y > np.median(DATA.y)).astype(int), {}),
    "means": (Targets(DATA.y), {"feature_combinations": 2.0}),
    "embedding": (Embedding(np.float64(DATA.X)), {}),
    "members": (DATA.Z, {"n_estimators": 30}),
    "leaf_distances": (DATA.Z, {"n_estimators": 3, "min_samples_split": 4}),
}


@pytest.mark.parametrize("kind", KINDS)
def test_distances_are_those_of_the_definition(kind: str) -> None:
    truth, params = KINDS[kind]
    forest = SMERF(**{"n_estimators": 6, "random_state": 0, **params}).fit(DATA.X, truth).forest_
    left, right = (side.ravel() for side in np.indices((30, 30)))
    true = Truth.from_given(truth).distances(left, right).reshape(30, 30)
    own = EarlyStop(int(params.get("min_samples_split", 2)))
    stops = [own, EarlyStop(5), EarlyStop(9), EarlyStop(2, 1), EarlyStop(6, 3), EarlyStop(99)]
    estimates, counts = stopped_distances(forest, np.arange(30), stops)
    for stop, estimate in zip(stops, estimates, strict=True):
        expected = out_of_bag_distances(forest, DATA.X, true, stop.min_samples_split, stop.max_depth)
        assert np.array_equal(np.isnan(estimate), np.isnan(expected))
        assert np.nanmax(np.abs(estimate - expected)) < 1e-6  # distances are held in float32
    pairs = np.triu_indices(30, 1)
    known, count = scoring.out_of_bag_distance(forest, *pairs)
    assert np.array_equal(counts[pairs], count)
    assert estimates[0][pairs] == pytest.approx(known, nan_ok=True)


def test_the_leaf_tables_are_all_there() -> None:
    kinds = {
        SMERF(**{"n_estimators": 6, "random_state": 0, **params}).fit(DATA.X, truth).forest_.leaf_table.kind
        for truth, params in KINDS.values()
    }
    assert kinds == {"class_counts", "means", "members", "leaf_distances"}


def test_some_rows_are_judged_as_among_all() -> None:
    forest = SMERF(6, random_state=0).fit(DATA.X, DATA.Z).forest_
    rows, stops = np.array([3, 4, 11, 29]), [EarlyStop(4)]
    some, every = (stopped_distances(forest, which, stops)[0][0] for which in (rows, np.arange(30)))
    assert some == pytest.approx(every[np.ix_(rows, rows)], nan_ok=True)
