"""Further columns of a pair: what they say, that they give no labels away, and how a forest reads them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from sklearn.base import clone
from sklearn.metrics import roc_auc_score

from distforest import RFD, SMERF, TreeRank, URerF, load
from distforest.errors import InputError
from distforest.estimators.pair_columns import Cosine, Euclidean, Links, PlugIn, SharedLeaves, Whitened
from distforest.sources.factors import Labels
from tests.estimators.rows import NAMES, SMALL, SMALL_Y, X, Y
from tests.messages import naming

QUICK: dict[str, Any] = {"n_pairs": 400, "max_depth": 4, "leafrank_depth": 2, "random_state": 0}
FEW = {"n_estimators": 40, "random_state": 5}


class Width:
    """Vectors of whatever shape or values; no estimator."""

    def __init__(self, vectors: Any) -> None:
        self.vectors = vectors

    def fit_transform(self, X: Any, y: Any) -> Any:
        return self.vectors

    def transform(self, X: Any) -> Any:
        return self.vectors


def test_the_cosine_is_that_of_two_points() -> None:
    points = np.array([[3.0, 4.0], [-6.0, -8.0], [4.0, -3.0], [0.0, 0.0]])
    vectors = Cosine().fit_transform(points, None)
    np.testing.assert_allclose(
        vectors @ vectors.T, [[1, -1, 0, 0], [-1, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 0]], atol=1e-15
    )
    np.testing.assert_array_equal(Cosine().transform(points), vectors)


def test_whitened_points_that_belong_together_have_the_unit_matrix_as_covariance() -> None:
    rng = np.random.default_rng(0)
    y = np.arange(4000) % 3
    points = rng.normal(size=(4000, 3)) @ np.array([[1.0, 2, 0], [0, 1, 0], [0, 0, 9]]) + 50.0 * y[:, None]
    vectors = Whitened().fit_transform(points, y)
    within = np.concatenate([vectors[y == k] - vectors[y == k].mean(axis=0) for k in range(3)])
    np.testing.assert_allclose(within.T @ within / 3997, np.eye(3), atol=0.15)  # but for shrinkage


def test_must_links_connect_the_points_that_belong_together() -> None:
    pairs, similar = np.array([[0, 1], [1, 2], [3, 4], [2, 3]], np.int32), np.array([True, True, True, False])
    assert Links(pairs, similar).groups(6).tolist() == [0, 0, 0, 1, 1, 2]
    by_links = Whitened().fit_transform(X[:6], Links(pairs, similar))
    np.testing.assert_array_equal(by_links, Whitened().fit_transform(X[:6], [0, 0, 0, 1, 1, 2]))
    with pytest.raises(InputError, match="Whitened"):
        Whitened().fit_transform(X[:3], Links(pairs[3:], similar[3:]))
    with pytest.raises(InputError, match="Whitened"):
        Whitened().fit_transform(np.ones((4, 2)), [0, 0, 1, 1])
    twins = X[:, [0, 0, 1]] * [1.0, 1e6, 1.0]  # one column twice, in two units
    np.testing.assert_allclose(
        cdist(*2 * [Whitened().fit_transform(twins, Y)]), cdist(*2 * [Whitened().fit_transform(twins * 7.0, Y)])
    )


WHOLE = ["euclidean", "whitened", "inner", "cosine"]


@pytest.mark.parametrize("method", [RFD, TreeRank])
def test_words_name_columns_of_whole_rows(method: type[RFD | TreeRank], tmp_path: Path) -> None:
    params = QUICK if method is TreeRank else {"n_estimators": 5, "random_state": 0}
    forest = method(pair_columns=WHOLE, **params).fit(X, Y)
    named = [column() for column in (Euclidean, Whitened)]
    assert method(pair_columns=[*named, "inner", Cosine()], **params).fit(X, Y).digest_ == forest.digest_
    assert forest.forest_.meaning.rows.blocks == (("distance", 4), ("distance", 4), ("dot", 4), ("dot", 4))
    new = forest.extended(X[::9])
    np.testing.assert_allclose(new[:, 4:8], X[::9], rtol=1e-6)
    np.testing.assert_allclose(new[:, 8:12], forest.columns_.fitted[1].transform(X[::9]), atol=1e-4)
    forest.save(tmp_path / "f.zarr")
    assert load(tmp_path / "f.zarr").distance(new).tobytes() == forest.distance(X[::9]).tobytes()


def test_importances_of_features_and_of_pair_columns_add_up() -> None:
    forest = RFD(20, pair_columns=WHOLE, random_state=0).fit(X, Y)
    assert forest.feature_importances_.shape == forest.pair_column_importances_.shape == (4,)
    assert forest.feature_importances_.sum() + forest.pair_column_importances_.sum() == pytest.approx(1.0)
    assert forest.pair_column_importances_.min() > 0.0
    assert RFD(2, position=False, random_state=0).fit(X, Y).pair_column_importances_.shape == (0,)


def test_whole_rows_tell_classes_apart_that_were_never_taught() -> None:
    """Eight classes are directions: no single feature knows how far apart two points are."""
    rng = np.random.default_rng(2)
    axes = np.linalg.qr(rng.normal(size=(8, 8)))[0]
    y = np.arange(400) % 8
    points = 2.0 * axes[y] + 0.4 * rng.normal(size=(400, 8))
    taught = y < 4
    areas = [
        RFD(30, pair_columns=columns, random_state=0).fit(points[taught], y[taught]).score(points[~taught], y[~taught])
        for columns in (None, ["cosine"])
    ]
    assert areas[1] > areas[0] + 0.1


def test_shares_of_training_points_come_from_trees_that_have_not_drawn_them() -> None:
    own = PlugIn(calibrated=False, **FEW)
    found = own.fit_transform(X, NAMES)
    forest = SMERF(**FEW).fit(X, Labels(NAMES))
    bag = forest.forest_.in_bag
    expected = np.zeros((len(X), 3))
    votes = forest.apply(X).T
    counts = forest.forest_.leaf_table.arrays()["class_counts"]
    for i in range(len(X)):
        out = np.flatnonzero(bag[:, i] == 0)
        at = forest.forest_.table.tree_start[out] + votes[out, i]
        expected[i] = (counts[at] / counts[at].sum(axis=1, keepdims=True)).mean(axis=0)
    np.testing.assert_allclose(found, expected, atol=1e-12)
    new = own.transform(X)
    assert np.abs(new - found).max() > 0.2  # as new points they would give their labels away
    np.testing.assert_allclose(new.sum(axis=1), 1, atol=1e-12)


def test_calibrated_shares_are_shares_and_tell_more() -> None:
    plain, calibrated = (PlugIn(calibrated=on, **FEW).fit_transform(X, Y) for on in (False, True))
    for shares in (plain, calibrated):
        assert shares.shape == (150, 3)
        np.testing.assert_allclose(shares.sum(axis=1), 1, atol=1e-12)
        assert (shares.argmax(axis=1) == Y).mean() > 0.9
    assert not np.allclose(plain, calibrated)


def test_random_labels_are_not_given_away() -> None:
    rng = np.random.default_rng(0)
    points, labels = rng.normal(size=(150, 3)), rng.integers(0, 2, 150)
    shares = PlugIn(**FEW).fit_transform(points, labels)
    assert (shares.argmax(axis=1) == labels).mean() < 0.65


def area_of_nearest_pairs(seed: int, **forest: Any) -> float:
    """How well shares tell pairs of nearest points with one label from others, where labels are drawn at random."""
    rng = np.random.default_rng(seed)
    points, labels = rng.normal(size=(240, 2)), rng.integers(0, 2, 240)
    shares = PlugIn(100, forest=forest, random_state=seed).fit_transform(points, labels)
    distances = np.linalg.norm(points[:, None] - points, axis=2)
    nearest = np.where(np.eye(len(points)) > 0, np.inf, distances).argmin(axis=1)
    return float(roc_auc_score(labels == labels[nearest], (shares * shares[nearest]).sum(axis=1)))


def test_pairs_of_shares_know_less_where_a_tree_draws_few_points() -> None:
    """A point's shares may come from trees that have drawn its partner, and know that one's label."""
    many = np.mean([area_of_nearest_pairs(seed) for seed in range(4)])
    few = np.mean([area_of_nearest_pairs(seed, bootstrap=False, max_samples=0.1) for seed in range(4)])
    assert many > 0.57
    assert abs(few - 0.5) < 0.04


def test_a_forest_reads_a_column_for_each() -> None:
    columns = [Cosine(), PlugIn(**FEW)]
    forest = TreeRank(3, pair_columns=columns, **QUICK).fit(X, Y)
    rows = forest.forest_.meaning.rows
    assert (rows.n_columns, rows.n_features) == (8 + 2, 4)
    assert rows.blocks == (("dot", 4), ("dot", 3))
    assert forest.n_features_in_ == 4
    used = forest.forest_.table.columns
    assert (used >= 8).any()
    assert not hasattr(columns[1], "smerf_")  # a clone has learned
    extended = forest.extended(X[:5])
    assert extended.shape == (5, 4 + 4 + 3)
    np.testing.assert_array_equal(extended[:, :4], X[:5].astype(np.float32))
    np.testing.assert_allclose(extended[:, 4:8], Cosine().transform(X[:5]), atol=1e-6)
    np.testing.assert_array_equal(forest.extended(None), forest.forest_.points)
    new, some = X[1::9], X[::11]
    assert forest.distance(new, some).tobytes() == np.ascontiguousarray(forest.distance(some, new).T).tobytes()
    assert forest.similarity(X[:1], X[1:2]) > forest.similarity(X[:1], X[120:121])


def test_columns_help_where_the_region_cannot() -> None:
    """Points on the sphere whose direction is their class, at any length: the cosine says all."""
    rng = np.random.default_rng(1)
    y = np.arange(80) % 4
    axes = np.linalg.qr(rng.normal(size=(6, 6)))[0][:4]
    points = axes[y] * rng.lognormal(sigma=2, size=(80, 1))
    plain = TreeRank(1, **QUICK).fit(points, y)
    cosine = TreeRank(1, pair_columns=[Cosine()], max_features=None, **QUICK).fit(points, y)
    assert cosine.auc_ == 1.0
    assert plain.auc_ < 0.95
    assert cosine.forest_.table.columns.tolist() == [12]


@pytest.mark.parametrize("region", ["diagonal", "square"])
def test_a_loaded_forest_reads_points_as_they_are_extended(region: str, tmp_path: Path) -> None:
    forest = TreeRank(3, region=region, pair_columns=[Cosine(), PlugIn(**FEW)], **QUICK).fit(SMALL, SMALL_Y)
    forest.save(tmp_path / "f.zarr")
    opened = load(tmp_path / "f.zarr")
    assert isinstance(opened, TreeRank)
    assert opened.n_features_in_ == 11
    assert opened.distance(forest.extended(X[:7])).tobytes() == forest.distance(X[:7]).tobytes()
    assert opened.distance().tobytes() == forest.distance().tobytes()
    with pytest.raises(ValueError, match=naming(4, "TreeRank", 11)):
        opened.distance(X[:7])


def test_clones_and_threads_lead_to_the_same_forest() -> None:
    forest = TreeRank(3, pair_columns=[PlugIn(**FEW)], leafrank="linear", **QUICK).fit(SMALL, SMALL_Y)
    for twin in (clone(forest), clone(forest).set_params(n_jobs=2)):
        assert twin.fit(SMALL, SMALL_Y).digest_ == forest.digest_
        assert twin.distance(X[:9]).tobytes() == forest.distance(X[:9]).tobytes()


@pytest.mark.slow
def test_columns_without_a_seed_have_it_from_the_forest() -> None:
    columns = [PlugIn(20), SharedLeaves(URerF(5, min_samples_split=8)), PlugIn(20), PlugIn(20, random_state=7)]

    def fitted(random_state: Any) -> TreeRank:
        return TreeRank(3, pair_columns=columns, **{**QUICK, "random_state": random_state}).fit(SMALL, SMALL_Y)

    forest = fitted(3)
    assert fitted(3).digest_ == forest.digest_ != fitted(4).digest_
    seeds = [own.random_state for own in forest.columns_.fitted if isinstance(own, PlugIn)]
    assert len(set(seeds)) == 3
    assert seeds[2] == 7
    assert all(own.get_params().get("random_state") is None for own in columns[:3])  # clones were told
    twins = [fitted(np.random.RandomState(0)) for _ in range(2)]
    assert twins[0].digest_ == twins[1].digest_
    assert fitted(twins[0].forest_.meaning.seed).digest_ == twins[0].digest_  # one draw decides all


@pytest.mark.parametrize(
    ("columns", "named"),
    [
        ([3], ("pair_columns:", "fit_transform", 3)),
        ([Width(np.ones(38))], ("pair_columns:", "38 points", (38,), "Width")),
        ([Width(np.ones((37, 2)))], ("pair_columns:", "38 points", (37, 2), "Width")),
        ([Width(np.ones((38, 0)))], ("pair_columns:", "38 points", (38, 0), "Width")),
        ([Width(np.full((38, 2), np.nan))], ("pair_columns:", "NaN", "row 0", "Width")),
        ([Width(np.full((38, 2), 1e30))], ("pair columns", "4.25353e+37", "2e+60")),
        ("cosine", ("pair_columns:", "cosine")),
        (["mahalanobis"], ("pair_columns:", "whitened", "mahalanobis")),
    ],
)
def test_columns_that_cannot_be_used_are_refused(columns: Any, named: tuple[object, ...]) -> None:
    with pytest.raises(InputError, match=naming(*named)):
        TreeRank(2, pair_columns=columns, **QUICK).fit(SMALL, SMALL_Y)


def test_what_learns_from_labels_is_refused_for_pairs() -> None:
    pairs = np.array([[0, 1], [2, 30], [3, 4]])
    with pytest.raises(InputError, match=naming("PlugIn", "fit(X, y)")):
        TreeRank(2, pair_columns=[PlugIn(**FEW)], **QUICK).fit_pairs(SMALL, pairs, [1, 0, 1])
    pairs = np.concatenate([pairs, pairs + 5])
    forest = TreeRank(2, pair_columns=[Cosine()], min_samples_leaf=1, **QUICK).fit_pairs(SMALL, pairs, [1, 0, 1] * 2)
    assert forest.distance().shape == (38, 38)
