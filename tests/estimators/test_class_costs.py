"""Forests that are taught labels with a distance for each pair of classes: trees and distances of the matrix."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from distforest import SMERF, Labels, load
from distforest.errors import ArtifactError, InputError
from distforest.forest.leaves import ClassCounts
from distforest.forest.scoring import out_of_bag_distance
from tests.estimators.closed_forms import every_way, same_trees
from tests.messages import naming

RNG = np.random.default_rng(0)
N = 48
X = RNG.normal(size=(N, 4)).round(1)
NAMES = np.array(["low", "mid", "high", "none"])
Y = NAMES[np.digitize(X[:, 0] + RNG.normal(size=N) * 0.3, [-0.8, 0.2, 1.2])]
ORDER = ["low", "mid", "high", "none"]
COSTS = np.array([[0, 1, 2, 7], [1, 0, 1 / 3, 7], [2, 1 / 3, 0, 7], [7, 7, 7, 0]])
LABELS = Labels(Y, costs=COSTS, order=ORDER)
Z = COSTS[np.ix_(*[[ORDER.index(y) for y in Y]] * 2)]
WEIGHTS = RNG.integers(0, 4, N)


@every_way
def test_trees_and_distances_are_those_of_the_matrix(params: dict[str, Any], weighted: bool) -> None:
    weight = WEIGHTS if weighted else None
    forest = SMERF(4, **{"max_features": "sqrt", **params}, random_state=1)
    one, other = (clone(forest).fit(X, truth, weight) for truth in (LABELS, Z))
    assert same_trees(one, other)
    np.testing.assert_allclose(one.distance(X), other.distance(X), rtol=1e-6)
    assert one.score(X, LABELS, weight) == pytest.approx(other.score(X, Z, weight))


def test_missing_features_go_where_the_matrix_sends_them() -> None:
    holes = np.where(np.random.default_rng(1).random(X.shape) < 0.2, np.nan, X)
    one, other = (SMERF(4, max_features="sqrt", random_state=1).fit(holes, truth) for truth in (LABELS, Z))
    assert one.forest_.table.missing_right is not None
    assert one.forest_.table.missing_right.tolist() == other.forest_.table.missing_right.tolist()  # type: ignore[union-attr]
    assert one.forest_.table.threshold.tolist() == other.forest_.table.threshold.tolist()


def test_a_saved_forest_answers_as_it_did(tmp_path: Path) -> None:
    forest = SMERF(6, random_state=0).fit(X, LABELS)
    assert forest.save(f"{tmp_path}/a.zarr") == forest.digest_
    again = load(f"{tmp_path}/a.zarr")
    assert again.distance(X).tobytes() == forest.distance(X).tobytes()
    assert again.predict(X).tolist() == forest.predict(X).tolist()
    assert again.score(X, Y) == forest.score(X, LABELS) != SMERF(6, random_state=0).fit(X, Labels(Y)).score(X, Y)


def test_distances_are_symmetric_and_those_of_their_pairs() -> None:
    forest = SMERF(3, random_state=0, min_samples_leaf=5).fit(X, LABELS)
    distances = forest.distance(X)
    assert distances.tobytes() == distances.T.copy().tobytes()
    assert forest.pair_distance(X[:-1], X[1:]).tolist() == np.diag(distances, 1).tolist()
    explained = forest.explain(X[:5], X[5:10])
    np.testing.assert_allclose(explained.baselines + explained.contributions.sum(axis=1), np.diag(distances, 5)[:5])


def test_more_trees_are_those_grown_at_once() -> None:
    forest = SMERF(3, random_state=0, warm_start=True).fit(X, LABELS)
    assert forest.set_params(n_estimators=5).fit(X, LABELS).digest_ == SMERF(5, random_state=0).fit(X, LABELS).digest_
    with pytest.raises(InputError, match="warm_start=True"):
        forest.set_params(n_estimators=7).fit(X, Labels(Y, costs=2 * COSTS, order=ORDER))


def test_out_of_bag_errors_are_of_these_distances() -> None:
    forest = SMERF(80, random_state=0, oob_score=True).fit(X, LABELS)
    left, right = np.triu_indices(N, 1)
    estimate, _ = out_of_bag_distance(forest.forest_, left, right)
    assert forest.oob_rmse_ == pytest.approx(np.sqrt(np.mean((estimate - Z[left, right]) ** 2)))


def test_folds_keep_the_costs_of_classes_that_they_lack() -> None:
    some = LABELS[Y != "none"]
    assert some.matrix().tolist() == Z[np.ix_(Y != "none", Y != "none")].astype(np.float32).tolist()
    assert LABELS[np.flatnonzero(Y != "mid")][:3].costs_of(["high", "none"]).tolist() == [[0.0, 7.0], [7.0, 0.0]]  # type: ignore[union-attr]


def test_a_data_frame_names_its_classes() -> None:
    frame = pd.DataFrame(COSTS, ORDER, ORDER)
    assert Labels(Y, costs=frame).matrix().tobytes() == LABELS.matrix().tobytes()
    with pytest.raises(InputError, match=naming("costs", ORDER, ORDER[::-1])):
        Labels(Y, costs=frame[ORDER[::-1]])


def test_without_an_order_the_rows_are_the_sorted_labels() -> None:
    places = [ORDER.index(name) for name in sorted(ORDER)]
    assert Labels(Y, costs=COSTS[np.ix_(places, places)]).matrix().tobytes() == LABELS.matrix().tobytes()


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (((0, 0), 1.0), (1, "'low' and 'low'")),
        (((0, 1), 3.0), (3, "'low' and 'mid'")),
        (((1, 0), -1.0), (-1, "'mid' and 'low'")),
        (((2, 1), np.nan), ("nan", "'high' and 'mid'")),
    ],
)
def test_costs_that_are_no_distances_are_refused(
    change: tuple[tuple[int, int], float], named: tuple[object, ...]
) -> None:
    costs = COSTS.copy()
    costs[change[0]] = change[1]
    with pytest.raises(InputError, match=naming("costs:", *named)):
        Labels(Y, costs=costs, order=ORDER)


def test_costs_of_other_classes_are_refused() -> None:
    with pytest.raises(InputError, match=naming("costs:", 4, (3, 3))):
        Labels(Y, costs=COSTS[:3, :3])
    with pytest.raises(InputError, match=naming("costs:", "label 'none'")):
        Labels(Y, costs=COSTS[:3, :3], order=ORDER[:3])
    with pytest.raises(InputError, match=naming("costs:", "1e-30")):
        Labels(Y, costs=np.zeros((4, 4)))
    with pytest.raises(InputError, match=naming("costs", "dtype")):
        Labels(Y, costs=[["a"] * 4] * 4)
    with pytest.raises(InputError, match=naming("order:", "costs")):
        Labels(Y, order=ORDER)
    forest = SMERF(2, random_state=0).fit(X, LABELS)
    with pytest.raises(InputError, match=naming("costs:", "label 'other'")):
        forest.score(X, np.where(Y == "low", "other", Y))


def test_a_damaged_table_of_costs_is_refused() -> None:
    found = SMERF(2, random_state=0).fit(X, LABELS).forest_.leaf_table
    assert isinstance(found, ClassCounts)
    assert found.costs is not None
    found.check()
    for damage in (found.costs[:3, :3], -found.costs, found.costs + np.float32(1.0)):
        damaged = ClassCounts(found.table, found.class_counts, None, damage)
        with pytest.raises(ArtifactError, match="costs"):
            damaged.check()
