"""The estimators of similarity forests: where similarities come from, labels, targets, what is refused."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import zarr
from scipy.spatial.distance import pdist
from sklearn.base import clone
from sklearn.datasets import load_diabetes, load_wine
from sklearn.metrics import r2_score
from sklearn.model_selection import cross_val_score, train_test_split
from sklearn.preprocessing import StandardScaler

from distforest import Distances, Lazy, SimForestClassifier, SimForestOutlier, SimForestRegressor, load, pairwise
from distforest.errors import DistforestWarning, InputError
from distforest.forest.leaf_kinds import KeepsCounts
from distforest.growth.methods import METHODS
from distforest.growth.parameters import complete
from distforest.growth.problem import Data
from distforest.jobs.cluster import Threads
from distforest.jobs.input_staging import from_data
from distforest.jobs.train import Options, fit
from distforest.sources.readings import SIMILARITIES
from distforest.sources.row_kinds import Dense
from distforest.sources.sparse import read_sparse
from distforest.sources.truth import Truth, TruthKind
from distforest.stores.folder import Folder

if TYPE_CHECKING:
    from pathlib import Path

from tests.estimators.caught_warnings import warnings_of
from tests.estimators.rows import DISTANCES, NAMES, POINTS, TARGETS, X, Y, observed
from tests.messages import naming
from tests.reference import naive_missing
from tests.reference.naive_simforest import with_means


@pytest.mark.parametrize("estimator", [SimForestClassifier, SimForestRegressor, SimForestOutlier])
def test_condensed_distances_are_refused_with_their_cure(estimator: Any, tmp_path: Path) -> None:
    stored = zarr.create_array(str(tmp_path / "d"), data=pdist(POINTS))
    for condensed in (pdist(POINTS), pd.Series(pdist(POINTS)), stored, str(tmp_path / "d")):
        with pytest.raises(InputError, match=naming("squareform(d)", (len(pdist(POINTS)),))):
            estimator(kind="distance").fit(condensed, TARGETS > 0)


@pytest.mark.parametrize("similarity", ["linear", "cosine", "rbf", "manhattan"])
def test_similarities_of_features_classify_wine(similarity: str) -> None:
    rows, codes = load_wine(return_X_y=True)
    labels = load_wine().target_names[codes]
    rows = StandardScaler().fit_transform(rows)
    train, test, y_train, y_test = train_test_split(rows, labels, stratify=labels, random_state=0)
    forest = SimForestClassifier(similarity, n_estimators=30, oob_score=True, random_state=0).fit(train, y_train)
    assert forest.classes_.tolist() == ["class_0", "class_1", "class_2"]
    assert forest.score(test, y_test) > 0.9
    assert forest.oob_score_ > 0.9
    shares = forest.predict_proba(test)
    np.testing.assert_allclose(shares.sum(axis=1), 1.0)
    np.testing.assert_array_equal(forest.predict(test), forest.classes_[shares.argmax(axis=1)])


@pytest.mark.parametrize("labels", [Y == 1, Y - 1, NAMES, NAMES.astype(object), Y * 1.0])
def test_labels_of_any_type(labels: np.ndarray) -> None:
    forest = SimForestClassifier("linear", n_estimators=10, random_state=0).fit(X, labels)
    np.testing.assert_array_equal(forest.classes_, np.unique(labels))
    assert forest.predict(X).dtype == labels.dtype
    assert np.mean(forest.predict(X) == labels) > 0.9


def test_a_computed_similarity_is_the_precomputed_one() -> None:
    rows = np.round(X * 10)  # whole numbers: both products are exact in float32
    linear = SimForestClassifier("linear", n_estimators=10, random_state=0).fit(rows, Y)
    matrix = SimForestClassifier(n_estimators=10, n_columns=1, random_state=0).fit(rows @ rows.T, Y)
    np.testing.assert_array_equal(linear.predict_proba(rows), matrix.predict_proba(rows @ rows.T))
    np.testing.assert_array_equal(linear.distance(rows[:9]), matrix.distance(rows[:9] @ rows.T))


def test_distances_are_similarities_of_half_their_negative_square() -> None:
    rows = np.round(POINTS * 4)
    D = np.abs(rows[:, None] - rows).sum(axis=2)
    labels = TARGETS > 0
    far = SimForestClassifier(kind="distance", n_estimators=10, random_state=0).fit(D, labels)
    near = SimForestClassifier(n_estimators=10, random_state=0).fit(-(D**2) / 2, labels)
    np.testing.assert_array_equal(far.predict_proba(D), near.predict_proba(-(D**2) / 2))


def test_similarities_may_be_unobserved() -> None:
    S = X @ X.T
    S[np.random.default_rng(0).random(S.shape) < 0.15] = np.nan
    forest = SimForestClassifier(n_estimators=30, oob_score=True, random_state=0).fit(S, Y)
    assert forest.score(S, Y) > 0.9
    assert forest.oob_score_ > 0.85
    np.testing.assert_allclose(forest.predict_proba(np.full((1, 150), np.nan)).sum(), 1.0)


def test_cross_validation_takes_rows_and_columns_of_a_similarity() -> None:
    scores = cross_val_score(SimForestClassifier(n_estimators=20, random_state=0), X @ X.T, NAMES, cv=3)
    assert scores.mean() > 0.9


HOLES = POINTS @ POINTS.T
HOLES[::3, 1] = HOLES[1, ::3] = 0.0
HOLES[np.triu(np.random.default_rng(5).random(HOLES.shape) < 0.3, 1)] = np.nan


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"cut": "zero", "n_columns": 7},
        {"pairing": "kept"},
        {"n_landmarks": 12, "n_columns": 3},
        {"cut": "exemplars"},
        {"cut": "auto"},
    ],
)
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("weights", [None, np.arange(40) % 4])
def test_a_missing_similarity_is_the_mean_of_the_others(
    params: dict[str, Any], sparse: bool, weights: np.ndarray | None, tmp_path: Path
) -> None:
    labels, filled = np.digitize(TARGETS, [-0.5, 0.5]), with_means(HOLES, 40, weights)
    given = observed(HOLES) if sparse else HOLES
    forest = SimForestClassifier(n_estimators=10, oob_score=True, random_state=0, **params)
    lacking, whole = clone(forest).fit(given, labels, weights), clone(forest).fit(filled, labels, weights)
    assert lacking.digest_ == whole.digest_
    assert lacking.oob_score_ == whole.oob_score_
    assert lacking.forest_.meaning.params["on_missing"] == "mean"
    rows = np.where(np.random.default_rng(6).random((9, 40)) < 0.5, np.nan, HOLES[:9])
    expected = whole.predict_proba(with_means(rows, 40, weights))
    lacking.save(tmp_path / "f.zarr")
    for own in (lacking, load(tmp_path / "f.zarr")):
        np.testing.assert_array_equal(own.predict_proba(rows), expected)
        np.testing.assert_array_equal(own.predict_proba(observed(rows)), expected)
        np.testing.assert_array_equal(own.predict_proba(rows[3:4]), expected[3:4])


def test_a_missing_similarity_of_several_is_the_mean_of_its_measure() -> None:
    both = [HOLES, np.where(np.isnan(HOLES.T), np.nan, POINTS @ POINTS.T * 9.0)]
    forest = SimForestRegressor(["precomputed"] * 2, n_estimators=10, oob_score=True, random_state=0)
    lacking = clone(forest).fit(both, TARGETS)
    whole = clone(forest).fit([with_means(matrix, 40) for matrix in both], TARGETS)
    assert lacking.digest_ == whole.digest_
    expected = whole.predict([with_means(matrix[:9], 40) for matrix in both])
    np.testing.assert_array_equal(lacking.predict([matrix[:9] for matrix in both]), expected)


@pytest.mark.parametrize(
    ("similarity", "rows"),
    [("rbf", X), ("feature_subsets", X), (Lazy(pairwise(lambda a, b: float(a @ b))), X), (["rbf", "cosine"], X)],
)
def test_means_need_the_rows_of_a_matrix(similarity: Any, rows: np.ndarray) -> None:
    forest = SimForestClassifier(similarity, n_estimators=3, random_state=0)
    with pytest.raises(InputError, match=naming("on_missing='mean'", "matrix")):
        clone(forest).set_params(on_missing="mean").fit(rows, Y)
    params = forest.fit(rows, Y).forest_.meaning.params
    assert (params["n_columns"], params["on_missing"]) == (1, "stop")


@pytest.mark.parametrize(
    ("params", "n_columns"),
    [
        ({}, 4),
        ({"on_missing": "mean"}, 4),
        ({"on_missing": "stop"}, 1),
        ({"on_missing": "surrogate"}, 1),
        ({"pairing": "fresh"}, 4),
        ({"pairing": "kept"}, 1),
        ({"n_landmarks": 9}, 1),
        ({"cut": "exemplars"}, 1),
        ({"on_missing": "larger", "n_columns": 3}, 3),
    ],
)
def test_columns_of_a_given_matrix_are_averaged_where_gaps_are_means(params: dict[str, Any], n_columns: int) -> None:
    forest = SimForestClassifier(n_estimators=3, random_state=0, **params).fit(X @ X.T, Y)
    assert forest.forest_.meaning.params["n_columns"] == n_columns


@pytest.mark.parametrize("rule", ["mean", "stop", "larger", "surrogate"])
@pytest.mark.parametrize(
    ("kind", "matrix"), [("similarity", HOLES), ("distance", np.where(np.isnan(HOLES), np.nan, DISTANCES))]
)
@pytest.mark.parametrize(("estimator", "truth"), [(SimForestClassifier, TARGETS > 0), (SimForestRegressor, TARGETS)])
def test_a_sparse_matrix_is_a_dense_one_that_is_unobserved_elsewhere(
    estimator: type, truth: np.ndarray, kind: str, matrix: np.ndarray, rule: str
) -> None:
    forest = estimator(kind=kind, n_estimators=20, n_pairs=3, on_missing=rule, oob_score=True, random_state=0)
    dense, sparse = clone(forest).fit(matrix, truth), clone(forest).fit(observed(matrix), truth)
    assert sparse.digest_ == dense.digest_
    assert sparse.digest_ != clone(forest).fit(np.nan_to_num(matrix), truth).digest_  # an absent zero is no zero
    assert sparse.oob_score_ == dense.oob_score_
    assert sparse.n_features_in_ == 40
    queries = matrix[::4]
    expected = dense.predict(queries)
    assert len(np.unique(expected)) > 1
    for answering, rows in ((sparse, observed(queries)), (sparse, queries), (dense, observed(queries).tocsc())):
        np.testing.assert_array_equal(answering.predict(rows), expected)
        np.testing.assert_array_equal(answering.distance(rows), dense.distance(queries))


@pytest.mark.slow
def test_a_job_reads_a_sparse_matrix(scratch: Path) -> None:
    matrix, job = read_sparse(observed(HOLES), SIMILARITIES), Folder(str(scratch / "job"))
    data = Data(Dense(matrix.shape[0]), matrix, Truth(TruthKind.TARGETS, TARGETS[:, None]))
    params = complete(METHODS["simforest"].parameters, {"n_estimators": 8})
    inputs = from_data(data, "simforest", params, 3, job.address)
    done = fit(inputs, str(scratch / "out.zarr"), job, Threads(), Options(batch=3))
    own = SimForestRegressor(n_estimators=8, random_state=3).fit(HOLES, TARGETS)
    assert done.digest == own.digest_ == load(str(scratch / "out.zarr")).digest_
    other = replace(data, matrix=read_sparse(observed(HOLES[::-1]), SIMILARITIES))
    assert from_data(other, "simforest", params, 3, job.address).fingerprint != inputs.fingerprint


def test_cross_validation_takes_rows_and_columns_of_a_sparse_matrix() -> None:
    forest = SimForestClassifier(n_estimators=20, random_state=0)
    sparse, dense = (cross_val_score(forest, matrix, TARGETS > 0, cv=3) for matrix in (observed(HOLES).tocsr(), HOLES))
    np.testing.assert_array_equal(sparse, dense)


@pytest.mark.parametrize(
    ("estimator", "rows", "error", "named"),
    [
        (SimForestClassifier("rbf"), HOLES, TypeError, ("X", ".toarray()")),
        (SimForestClassifier("linear"), HOLES, TypeError, ("X", ".toarray()")),
        (SimForestClassifier("feature_subsets"), HOLES, TypeError, ("X", ".toarray()")),
        (SimForestClassifier(), HOLES[:, :9], InputError, ("similarity", (40, 9))),
        (SimForestClassifier(), np.where(HOLES > 5, np.inf, HOLES), InputError, ("similarities", "row 4, column 4 ")),
    ],
)
def test_sparse_matrices_that_are_refused(
    estimator: Any, rows: np.ndarray, error: type, named: tuple[object, ...]
) -> None:
    with pytest.raises(error, match=naming(*named)):
        estimator.fit(observed(rows), TARGETS > 0)


def test_sparse_queries_that_are_refused() -> None:
    forest = SimForestClassifier(n_estimators=3, random_state=0).fit(observed(HOLES), TARGETS > 0)
    with pytest.raises(ValueError, match=naming(9, "SimForestClassifier", 40)):
        forest.predict(observed(HOLES[:, :9]))
    with pytest.raises(InputError, match=naming(9, "forest", 40)):
        forest.forest_.source(observed(HOLES[:, :9]))
    linear = SimForestClassifier("linear", n_estimators=3, random_state=0).fit(POINTS, TARGETS > 0)
    with pytest.raises(TypeError, match=naming("X", ".toarray()")):
        linear.predict(scipy.sparse.csr_array(POINTS))
    with pytest.raises(InputError, match=naming("features:", (40, 3), ".toarray()")):
        linear.forest_.source(scipy.sparse.csr_array(POINTS))


@pytest.mark.filterwarnings("ignore:DF002")
@pytest.mark.parametrize(
    ("rows", "truth", "named"),
    [
        (POINTS, TARGETS > 0, ("similarity", (40, 3), "'manhattan'")),
        (DISTANCES[:39, :39], TARGETS > 0, (39, "similarity", 40, "labels")),
        (np.where(DISTANCES > 1, np.inf, DISTANCES), TARGETS > 0, ("similarities", "NaN", "row 0", "inf")),
        (DISTANCES, TARGETS, ("label", "continuous")),
        (DISTANCES, None, ("SimForestClassifier", "y")),
        (Distances(DISTANCES), TARGETS > 0, ("X:", "`Distances`", "SMERF", "kind='distance'")),
    ],
)
def test_simforest_refuses(rows: Any, truth: Any, named: tuple[object, ...]) -> None:
    with pytest.raises(ValueError, match=naming(*named)):
        SimForestClassifier(n_estimators=3).fit(rows, truth)


@pytest.mark.parametrize("similarity", ["linear", "cosine", "rbf", "manhattan", "feature_subsets"])
@pytest.mark.parametrize("on_missing", ["stop", "larger", "surrogate"])
def test_features_of_a_similarity_may_be_missing(similarity: str, on_missing: str, tmp_path: Path) -> None:
    rows = np.where(np.random.default_rng(0).random(X.shape) < 0.1, np.nan, X)
    assert not np.isnan(rows).all(axis=1).any()
    seen, asked = np.flatnonzero(np.arange(len(X)) % 3 > 0), np.flatnonzero(np.arange(len(X)) % 3 == 0)
    forest = SimForestClassifier(similarity, n_estimators=20, on_missing=on_missing, random_state=0)
    forest.fit(rows[seen], Y[seen])
    assert (forest.predict(rows[asked]) == Y[asked]).mean() > 0.85
    forest.save(tmp_path / "f.zarr")
    np.testing.assert_array_equal(
        load(tmp_path / "f.zarr").predict_proba(rows[asked]), forest.predict_proba(rows[asked])
    )
    alone = np.flatnonzero(~np.isnan(rows[asked]).any(axis=1))  # a row that lacks nothing does not depend on the others
    together = forest.predict_proba(rows[asked])[alone]
    np.testing.assert_array_equal(forest.predict_proba(rows[asked][alone]), together)


@pytest.mark.parametrize("similarity", ["linear", "manhattan"])
def test_similarities_of_shared_features_are_those_that_a_user_would_give(similarity: str) -> None:
    rows = np.where(np.random.default_rng(0).random(X.shape) < 0.3, np.nan, X).astype(np.float32)
    given = [[naive_missing.similarity_of_shared(similarity, x, y, 0.0) for y in rows] for x in rows]
    built_in, precomputed = (
        SimForestClassifier(name, n_estimators=5, random_state=0, on_missing="surrogate").fit(matrix, Y)
        for name, matrix in ((similarity, rows), ("precomputed", np.array(given)))
    )
    assert (built_in.forest_.leaves == precomputed.forest_.leaves).mean() > 0.95  # sums are rounded in another order


def test_regression() -> None:
    rows, targets = load_diabetes(return_X_y=True)
    train, test, y_train, y_test = train_test_split(rows, targets, random_state=0)
    forest = SimForestRegressor("linear", n_estimators=50, oob_score=True, random_state=0).fit(train, y_train)
    assert forest.score(test, y_test) > 0.25
    assert forest.oob_score_ > 0.25
    assert forest.oob_prediction_.shape == y_train.shape
    assert forest.oob_score_ == pytest.approx(r2_score(y_train, forest.oob_prediction_))


def test_out_of_bag_decisions() -> None:
    with pytest.warns(DistforestWarning, match=naming(150, "out-of-bag")):
        forest = SimForestClassifier("linear", n_estimators=4, oob_score=True, random_state=0).fit(X, NAMES)
    grown = forest.forest_
    for row in range(len(X)):
        trees = np.flatnonzero(grown.in_bag[:, row] == 0)
        nodes = grown.leaves[:, row].astype(np.int64)
        says = [grown.leaf_table.outputs(tree, nodes[[tree]])[0] for tree in trees]  # type: ignore[union-attr]
        expected = np.mean(says, axis=0) if says else np.full(3, np.nan)
        np.testing.assert_allclose(forest.oob_decision_function_[row], expected)
    known = ~np.isnan(forest.oob_decision_function_[:, 0])
    guesses = forest.classes_[forest.oob_decision_function_[known].argmax(axis=1)]
    assert forest.oob_score_ == np.mean(guesses == NAMES[known])


def test_a_forest_of_roots_warns() -> None:
    with pytest.warns(DistforestWarning, match=naming("split", "similarities")):
        SimForestClassifier(n_estimators=3, random_state=0).fit(np.ones(DISTANCES.shape), TARGETS > 0)


@pytest.mark.parametrize("estimator", [SimForestClassifier(n_estimators=3), SimForestOutlier(n_estimators=3)])
def test_distances_that_are_not_called_so_are_reported(estimator: Any) -> None:
    with pytest.warns(DistforestWarning, match="kind='distance'"):
        clone(estimator).fit(DISTANCES, TARGETS > 0)
    for others in (DISTANCES * (DISTANCES < 1), -DISTANCES, np.where(np.eye(len(DISTANCES)), np.nan, DISTANCES)):
        clone(estimator).fit(others, TARGETS > 0)  # a graph without loops; the greatest of its row; unobserved


@pytest.mark.parametrize("offset", [1e3, 3e3, 1e4])
@pytest.mark.parametrize("sides", [(1.0, 1.0), (1.0, -1.0)])
def test_what_is_small_beside_large_similarities_is_not_rounded_away(offset: float, sides: tuple[float, float]) -> None:
    """Inner products far from the origin, of one group of points and of two."""
    rng = np.random.default_rng(0)
    rows, groups = rng.random((200, 2)), np.arange(200) % 2
    labels, far = (rows[:, 0] > 0.5).astype(int), rows + offset * np.array(sides)[groups][:, None]
    train, test = np.arange(100), np.arange(100, 200)
    given, linear = (SimForestClassifier(word, n_estimators=30, random_state=0) for word in ("precomputed", "linear"))
    inner = far @ far.T
    given.fit(inner[np.ix_(train, train)], labels[train])
    linear.fit(far[train], labels[train])
    assert given.score(inner[np.ix_(test, train)], labels[test]) > linear.score(far[test], labels[test]) - 0.02


@pytest.mark.parametrize("scale", [1e-140, 1e-23, 1e-20, 1e20, 1e140])
def test_distances_grow_the_same_trees_on_any_scale(scale: float) -> None:
    plain = SimForestClassifier(kind="distance", n_estimators=10, random_state=0).fit(DISTANCES, TARGETS > 0)
    scaled = SimForestClassifier(kind="distance", n_estimators=10, random_state=0).fit(DISTANCES * scale, TARGETS > 0)
    for name in ("tree_size", "left", "right", "columns", "n_rows"):
        np.testing.assert_array_equal(getattr(scaled.forest_.table, name), getattr(plain.forest_.table, name))
    np.testing.assert_array_equal(scaled.predict_proba(DISTANCES * scale), plain.predict_proba(DISTANCES))


@pytest.mark.parametrize("diagonal", [0.0, np.nan])
@pytest.mark.parametrize("options", [{}, {"pairing": "fresh"}, {"n_columns": 4}, {"n_landmarks": 40}])
def test_similarities_whose_diagonal_says_nothing_grow(diagonal: float, options: dict[str, Any]) -> None:
    """A graph of two communities, without loops."""
    rng = np.random.default_rng(0)
    labels = np.arange(200) % 2
    links = np.triu(rng.random((200, 200)) < np.where(labels[:, None] == labels, 0.2, 0.05), 1)
    graph = (links | links.T).astype(float)
    np.fill_diagonal(graph, diagonal)
    train, test = slice(0, 100), slice(100, 200)
    forest = SimForestClassifier(n_estimators=50, random_state=0, **options).fit(graph[train, train], labels[train])
    assert forest.score(graph[test, train], labels[test]) > 0.85


@pytest.mark.filterwarnings("ignore::distforest.errors.DistforestWarning")
@pytest.mark.parametrize("kind", ["laplacian", "modularity", "distance"])
def test_matrices_that_are_no_inner_products_grow(kind: str) -> None:
    """S_ii + S_jj < 2 S_ij: a graph less its degrees, less what chance would link; distances 9 to oneself."""
    rng = np.random.default_rng(0)
    labels = np.arange(200) % 2
    links = np.triu(rng.random((200, 200)) < np.where(labels[:, None] == labels, 0.3, 0.02), 1)
    graph = (links | links.T).astype(float)
    degrees = graph.sum(axis=0)
    less = {"laplacian": np.diag(degrees), "modularity": np.outer(degrees, degrees) / degrees.sum()}
    given = 2.0 - graph + np.diag(np.full(200, 7.0)) if kind == "distance" else graph - less[kind]
    train, test = slice(0, 100), slice(100, 200)
    forest = SimForestClassifier(
        kind="distance" if kind == "distance" else "similarity", n_estimators=50, random_state=0
    )
    forest.fit(given[train, train], labels[train])
    assert forest.score(given[test, train], labels[test]) > 0.85


def test_the_distance_of_an_object_to_itself_need_not_be_stored() -> None:
    whole = SimForestClassifier(n_estimators=3, kind="distance", random_state=0).fit(DISTANCES, TARGETS > 0)
    stored = SimForestClassifier(n_estimators=3, kind="distance", random_state=0)
    assert stored.fit(scipy.sparse.csr_array(DISTANCES), TARGETS > 0).digest_ == whole.digest_


@pytest.mark.slow
@pytest.mark.parametrize("estimator", [SimForestClassifier, SimForestRegressor])
def test_the_nearest_object_of_a_leaf_votes(estimator: type) -> None:
    # Two groups, in each of which two kinds alternate: leaves of eight hold both kinds, the nearest object has its own.
    places, kinds = np.arange(48.0) + 100.0 * (np.arange(48) >= 24), np.arange(48) % 2
    apart = np.abs(places[:, None] - places)
    rows = np.abs((places + 0.1)[:, None] - places)
    params = {"kind": "distance", "n_estimators": 20, "min_samples_leaf": 8, "random_state": 0}
    nearest = estimator(voting="nearest", **params).fit(apart, kinds)
    kept = estimator(**params).fit(apart, kinds)
    errors = [np.abs(forest.predict(rows) - kinds) for forest in (nearest, kept)]
    assert errors[0].max() < 0.15  # a cut may pass between an object and what is 0.1 beside it
    assert errors[1].mean() > 0.1
    np.testing.assert_array_equal(nearest.distance(rows), kept.distance(rows))  # of leaves, whoever votes
    if estimator is SimForestClassifier:
        votes = 20 * nearest.predict_proba(rows)
        np.testing.assert_allclose(votes, votes.round())


@pytest.mark.slow
@pytest.mark.parametrize("similarity", ["linear", "cosine", "rbf", "manhattan"])
def test_landmarks_and_votes_of_a_similarity_of_features(similarity: str, tmp_path: Path) -> None:
    params = {"n_estimators": 30, "n_landmarks": 0.2, "voting": "nearest", "min_samples_leaf": 8, "random_state": 0}
    forest = SimForestClassifier(similarity, **params).fit(X[::2], NAMES[::2])
    assert forest.score(X[1::2], NAMES[1::2]) > 0.9
    assert len(set(forest.forest_.table.columns.tolist())) <= 15
    forest.save(tmp_path / "forest.zarr")
    found = load(tmp_path / "forest.zarr")
    assert (found.n_landmarks, found.voting) == (0.2, "nearest")
    np.testing.assert_array_equal(found.predict_proba(X[1::2]), forest.predict_proba(X[1::2]))


def test_votes_of_a_sparse_matrix_are_those_of_the_dense_one() -> None:
    params = {"n_estimators": 20, "n_landmarks": 12, "voting": "nearest", "on_missing": "larger", "random_state": 0}
    dense = SimForestClassifier(**params).fit(HOLES, TARGETS > 0)
    sparse = SimForestClassifier(**params).fit(observed(HOLES), TARGETS > 0)
    assert sparse.digest_ == dense.digest_
    np.testing.assert_array_equal(sparse.predict_proba(observed(HOLES[::4])), dense.predict_proba(HOLES[::4]))


@pytest.mark.parametrize(
    ("estimator", "rows", "named"),
    [
        (SimForestClassifier(n_landmarks=41), HOLES, ("n_landmarks=41", 40)),
        (SimForestClassifier(n_landmarks=0.01), HOLES, ("n_landmarks=0.01", 40, 1, 2)),
        (SimForestClassifier(n_landmarks=1), HOLES, ("n_landmarks", ">= 2", 1)),
        (SimForestClassifier(voting="mean"), HOLES, ("voting", "'share'", "'nearest'", "'mean'")),
        (SimForestClassifier(voting="nearest", oob_score=True), HOLES, ("voting='nearest'", "oob_score=True")),
        (SimForestClassifier("feature_subsets", n_landmarks=9), POINTS, ("n_landmarks=9", "feature_subsets")),
        (SimForestClassifier("feature_subsets", voting="nearest"), POINTS, ("voting='nearest'", "feature_subsets")),
        (SimForestClassifier(pairing="kept", n_landmarks=9), HOLES, ("pairing='kept'", "n_landmarks")),
        (SimForestClassifier("feature_subsets", pairing="kept"), POINTS, ("pairing='kept'", "feature_subsets")),
        (SimForestClassifier(pairing="new"), HOLES, ("pairing", "'kept'", "'fresh'", "'new'")),
    ],
)
def test_landmarks_votes_and_pairs_that_are_refused(
    estimator: Any, rows: np.ndarray, named: tuple[object, ...]
) -> None:
    with pytest.raises(InputError, match=naming(*named)):
        estimator.fit(rows, TARGETS > 0)


def test_what_came_later_is_reported_where_it_is_asked_for() -> None:
    plain = SimForestClassifier("linear", n_estimators=3, random_state=0).fit(X, Y)
    assert {"n_landmarks", "voting"}.isdisjoint(plain.forest_.meaning.params)
    assert plain.forest_.meaning.leaf == KeepsCounts()
    asked = SimForestClassifier("linear", n_estimators=3, n_landmarks=9, random_state=0).fit(X, Y)
    assert asked.forest_.meaning.params == {**plain.forest_.meaning.params, "n_landmarks": 9}


@pytest.mark.parametrize("kind", [SimForestClassifier, SimForestRegressor])
def test_a_bare_function_is_refused_with_the_way_to_give_it(kind: type[SimForestClassifier]) -> None:
    with pytest.raises(InputError, match=naming("similarity", "Lazy(pairwise(f))")):
        kind(min).fit(X, Y)  # type: ignore[arg-type]  # what is asked here


@pytest.mark.parametrize("kind", ["similarity", "distance"])
def test_a_matrix_that_is_stored_in_one_direction_is_reported(kind: str) -> None:
    apart = np.linalg.norm(X[:, None] - X, axis=2)
    whole = scipy.sparse.csr_array(apart if kind == "distance" else 1 / (1 + apart))
    forest = SimForestClassifier(kind=kind, n_estimators=3, random_state=0)
    assert len(warnings_of(lambda: forest.fit(scipy.sparse.triu(whole), Y), "DF003", "S + S.T")) == 1
    assert warnings_of(lambda: forest.fit(whole, Y), "S.T") == []
