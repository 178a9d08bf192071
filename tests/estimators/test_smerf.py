"""The estimator of SMERF: forms of truth, distances, neighbours, out-of-bag errors and scores."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.metrics import r2_score

from distforest import SMERF, Embedding, Graph, Labels, SimForestRegressor, Targets
from distforest.errors import DistforestWarning, InputError
from distforest.sources.arrays import open_array
from distforest.sources.truth import pairs_of_rows

if TYPE_CHECKING:
    from pathlib import Path

from tests.estimators.jobs import write_arrays
from tests.estimators.rows import DISTANCES, POINTS, SMALL, SMALL_Y, TARGETS, Y
from tests.messages import naming

NEAR = np.rint(64 * DISTANCES[:38, :38] / DISTANCES.max()) / 64  # so that 1 - (1 - z) is z in float32


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (Y[::4], Labels(SMALL_Y)),
        (SMALL_Y.tolist(), Labels(SMALL_Y)),
        (TARGETS[:38], Targets(TARGETS[:38])),
        (Graph(1.0 - NEAR), NEAR),
    ],
)
def test_forms_of_the_same_truth_lead_to_the_same_forest(one: Any, other: Any) -> None:
    forests = [SMERF(5, random_state=0).fit(SMALL, truth) for truth in (one, other)]
    tables = [forest.forest_.table.arrays() for forest in forests]
    for name, array in tables[0].items():
        np.testing.assert_allclose(array, tables[1][name], rtol=1e-5, atol=1e-5)


def test_arrays_on_disk_lead_to_the_same_forest(tmp_path: Path) -> None:
    group = str(tmp_path / "data.zarr")
    write_arrays(group, {"X": POINTS, "Z": DISTANCES, "S": POINTS @ POINTS.T, "y": TARGETS})
    memory = SMERF(5, random_state=0).fit(POINTS, DISTANCES)
    disk = SMERF(5, random_state=0).fit(f"{group}/X", open_array(f"{group}/Z"))
    assert disk.digest_ == memory.digest_
    assert disk.n_features_in_ == 3
    np.testing.assert_array_equal(disk.transform(tmp_path / "data.zarr" / "X"), memory.transform(POINTS))
    regressor = SimForestRegressor(n_estimators=5, random_state=0)
    expected = clone(regressor).fit(POINTS @ POINTS.T, TARGETS)
    assert regressor.fit(f"{group}/S", f"{group}/y").digest_ == expected.digest_
    with pytest.raises(InputError, match=naming(group, "S, X, Z, y")):
        disk.transform(group)


@pytest.mark.parametrize(
    ("rows", "truth", "named"),
    [
        (np.where(np.eye(40, 3) == 1, np.inf, POINTS), TARGETS, ("features", 3, "row 0, column 0")),
        (POINTS, DISTANCES[:, :39], ("distances:", (40, 39))),
        (POINTS, np.eye(3)[np.arange(40) % 3], ("distances:", (40, 3), "Labels(Y.argmax(axis=1))")),
        (POINTS, np.arange(780.0) + 0.5, (40, 780, "targets", "squareform")),
        (POINTS, DISTANCES[:39, :39], (40, 39, "distances")),
        (POINTS, Y[:39], (40, 39, "labels")),
        (POINTS, np.where(np.eye(40) == 1, np.inf, DISTANCES), ("distances", "row 0, column 0")),
        (POINTS, TARGETS[:, None], ("distances:", (40, 1), "Targets(numpy.ravel(y))")),
        (POINTS, np.where(TARGETS > 1, np.nan, TARGETS), ("y", 7, "NaN", "row 2")),
        (POINTS[:, 0], TARGETS, ("2D array",)),
        (POINTS, None, ("SMERF", "y")),
    ],
)
def test_smerf_refuses(rows: Any, truth: Any, named: tuple[object, ...]) -> None:
    with pytest.raises(ValueError, match=naming(*named)):
        SMERF(5).fit(rows, truth)


def test_distances_that_are_not_symmetric_are_averaged_with_a_warning() -> None:
    whole = np.round(4 * DISTANCES)
    skew = whole + np.triu(np.ones_like(whole), 1)
    with pytest.warns(DistforestWarning, match=naming("distances:", "z_ij", "z_ji", 1)):
        forest = SMERF(5, random_state=0).fit(POINTS, skew)
    assert forest.digest_ == SMERF(5, random_state=0).fit(POINTS, (skew + skew.T) / 2).digest_


@pytest.mark.parametrize("truth", [DISTANCES, TARGETS, Embedding(POINTS[:, :2])])
def test_distances_agree_with_each_other(truth: Any) -> None:
    forest = SMERF(10, random_state=0).fit(POINTS, truth)
    new = np.random.default_rng(1).normal(size=(7, 3))
    distances = forest.distance(new, POINTS)
    assert distances.shape == (7, 40)
    assert distances.dtype == np.float64
    np.testing.assert_array_equal(forest.transform(new), distances)
    np.testing.assert_array_equal(forest.distance(new), forest.distance(new, new))
    np.testing.assert_array_equal(forest.pair_distance(new, POINTS[:7]), np.diagonal(distances))
    assert forest.apply(new).shape == (7, 10)
    together = forest.apply(new)[:, None, :] == forest.apply(POINTS)[None, :, :]
    np.testing.assert_array_equal(forest.proximity(new, POINTS), together.mean(axis=2))
    embedding = forest.leaf_embedding(new)
    np.testing.assert_array_equal((embedding @ embedding.T).toarray() / 10, forest.proximity(new))
    found, indices = forest.kneighbors(new, n_neighbors=3)
    np.testing.assert_array_equal(indices, np.argsort(distances, axis=1, kind="stable")[:, :3])
    np.testing.assert_array_equal(found, np.take_along_axis(distances, indices, axis=1))
    np.testing.assert_array_equal(forest.kneighbors(new, 3, return_distance=False), indices)


def test_a_training_row_is_not_its_own_neighbour() -> None:
    forest = SMERF(10, random_state=0).fit(POINTS, DISTANCES)
    _, indices = forest.kneighbors(n_neighbors=39)
    for row, own in enumerate(indices):
        assert sorted(own) == [other for other in range(40) if other != row]
    with pytest.raises(InputError, match=naming("n_neighbors", "1..39", 40)):
        forest.kneighbors(n_neighbors=40)


def test_what_was_learned_is_reported() -> None:
    noise = np.random.default_rng(2).normal(size=(40, 1))
    forest = SMERF(50, max_features=None, random_state=0).fit(np.hstack([noise, POINTS[:, :1]]), DISTANCES)
    importances = forest.feature_importances_
    assert importances.shape == (2,)
    assert importances.sum() == pytest.approx(1.0)
    assert importances[1] > 0.8
    with pytest.raises(NotFittedError):
        _ = SMERF().feature_importances_


@pytest.mark.parametrize(
    ("truth", "matrix"),
    [
        (DISTANCES, DISTANCES.astype(np.float32)),
        (TARGETS, Targets(TARGETS).matrix()),
        (Labels(TARGETS > 0), Labels(TARGETS > 0).matrix()),
        (Embedding(POINTS), Embedding(POINTS).matrix()),
    ],
)
def test_out_of_bag_errors(truth: Any, matrix: np.ndarray) -> None:
    forest = SMERF(100, oob_score=True, random_state=0).fit(POINTS, truth)
    grown = forest.forest_
    true, found = [], []
    for i, j in zip(*np.triu_indices(40, 1), strict=True):
        trees = np.flatnonzero((grown.in_bag[:, i] == 0) & (grown.in_bag[:, j] == 0))
        nodes = grown.leaves[:, [i, j]].astype(np.int64)
        says = [grown.leaf_table.pairs(tree, nodes[tree, :1], nodes[tree, 1:])[0] for tree in trees]
        true.append(matrix[i, j])
        found.append(np.mean(says))
    assert forest.oob_rmse_ == pytest.approx(np.sqrt(np.mean(np.subtract(true, found) ** 2)))
    assert forest.oob_score_ == pytest.approx(r2_score(true, found))
    assert forest.oob_score_ > 0.3


def test_score_is_the_coefficient_of_determination_over_pairs() -> None:
    forest = SMERF(20, random_state=0).fit(POINTS, DISTANCES)
    half = slice(20, 40)
    upper = np.triu_indices(20, 1)
    expected = r2_score(DISTANCES[half, half][upper], forest.distance(POINTS[half])[upper])
    assert forest.score(POINTS[half], DISTANCES[half, half]) == pytest.approx(expected)
    with pytest.raises(InputError, match=naming(20, 40, "distances")):
        forest.score(POINTS[half], DISTANCES)


def test_score_reads_a_vector_as_it_was_learned() -> None:
    whole = np.round(TARGETS * 3)
    forest = SMERF(20, random_state=0).fit(POINTS, Targets(whole))
    assert forest.score(POINTS, whole) == forest.score(POINTS, Targets(whole)) > 0.5
    assert forest.score(POINTS, whole) != forest.score(POINTS, Labels(whole))


def test_score_of_a_sample_of_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    forest = SMERF(20, random_state=0).fit(POINTS, DISTANCES)
    monkeypatch.setattr("distforest.sources.truth.MOST_SCORED_PAIRS", 300)
    left, right = pairs_of_rows(40)
    expected = r2_score(DISTANCES[left, right], forest.distance(POINTS)[left, right])
    assert len(left) == 300
    assert forest.score(POINTS, DISTANCES) == pytest.approx(expected)
    monkeypatch.setattr("distforest.estimators.smerf.BLOCK_NODES", 20 * 7)  # blocks of 7 pairs
    assert forest.score(POINTS, DISTANCES) == pytest.approx(expected)


def test_a_forest_no_better_than_the_mean_distance_says_so() -> None:
    """Labels drawn by chance: the forest is right about its own rows and wrong about all others."""
    labels = np.random.default_rng(0).integers(0, 2, len(POINTS))
    with pytest.warns(DistforestWarning, match=r"^DF012 oob_score: R2 .* -0\.\d\d "):
        forest = SMERF(90, oob_score=True, random_state=0).fit(POINTS, Labels(labels))
    assert forest.oob_score_ < 0.0
