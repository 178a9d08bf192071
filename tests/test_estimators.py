from __future__ import annotations

import copy
import inspect
import json
import pickle
import warnings
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import scipy.sparse
from sklearn.base import BaseEstimator, clone
from sklearn.datasets import load_diabetes, load_iris, load_wine
from sklearn.exceptions import NotFittedError
from sklearn.metrics import r2_score
from sklearn.model_selection import GridSearchCV, cross_val_score, train_test_split
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import distforest
from distforest import SMERF, Embedding, Graph, Labels, SimForestClassifier, SimForestRegressor, Targets, load
from distforest.errors import ArtifactError, InputError
from distforest.growth.methods import METHODS, Data
from distforest.growth.parameters import complete
from distforest.jobs.cluster import Here
from distforest.jobs.folder import Folder
from distforest.jobs.inputs import dense_rows, from_data, stage_inputs
from distforest.jobs.on_dask import local_cluster
from distforest.jobs.spec import Spec
from distforest.jobs.train import Options, fit
from distforest.sources.arrays import open_array, write_array
from distforest.sources.readings import SIMILARITIES
from distforest.sources.sparse import read_sparse
from distforest.sources.truth import pairs_of_rows

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

X, Y = load_iris(return_X_y=True)
NAMES = load_iris().target_names[Y]
SMALL, SMALL_Y = X[::4], Y[::4]
POINTS = np.random.default_rng(0).normal(size=(40, 3))
TARGETS = POINTS[:, 0] + 0.1 * POINTS[:, 1]
DISTANCES = np.abs(TARGETS[:, None] - TARGETS)


# --- scikit-learn's own checks ----------------------------------------------------------------------------

_NAMED_Z = "SMERF learns distances, which its paper and this package call Z; scikit-learn's check asks for y"

_FAR_APART = "weights are integers up to 2^20, which cannot tell a weight from one 10^7 times as large"


def _expected(estimator: BaseEstimator) -> dict[str, str]:
    """The checks that fail."""
    if isinstance(estimator, SMERF):
        return dict.fromkeys(("check_fit_score_takes_y", "check_n_features_in_after_fitting"), _NAMED_Z)
    if isinstance(estimator, SimForestClassifier):
        return {"check_class_weight_classifiers": _FAR_APART}
    return {}


@parametrize_with_checks(
    [
        SMERF(n_estimators=10),
        SimForestClassifier("linear", n_estimators=10),
        SimForestRegressor("linear", n_estimators=10),
        SimForestClassifier(n_estimators=10),
        SimForestRegressor(n_estimators=10),
    ],
    expected_failed_checks=_expected,
)
def test_scikit_learn(estimator: BaseEstimator, check: Callable[[BaseEstimator], None]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its checks provoke warnings
        assert check(estimator) is None  # a check raises AssertionError where it fails


@pytest.mark.parametrize("method", ["transform", "distance", "apply", "kneighbors"])
def test_rows_of_another_width_are_refused(method: str) -> None:
    forest = SMERF(5, random_state=0).fit(SMALL, SMALL_Y)
    with pytest.raises(ValueError, match="X has 3 features, but SMERF is expecting 4 features as input"):
        getattr(forest, method)(SMALL[:, :3])
    with pytest.raises(ValueError, match="X has 3 features, but SMERF is expecting 4 features as input"):
        forest.score(SMALL[:, :3], SMALL_Y)


# --- parameters -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "method"), [(SMERF, "smerf"), (SimForestClassifier, "simforest"), (SimForestRegressor, "simforest")]
)
def test_constructors_agree_with_the_one_list_of_parameters(kind: type, method: str) -> None:
    found = {name: p.default for name, p in inspect.signature(kind).parameters.items()}
    expected: dict[str, Any] = {p.name: p.default for p in METHODS[method].parameters}
    expected |= {"random_state": None, "n_jobs": None, "client": None}
    if kind is SimForestRegressor:
        del expected["class_weight"]
    if method == "simforest":
        expected |= {"similarity": "precomputed", "kind": "similarity", "gamma": None}
    assert found == expected
    for name in expected:
        assert f"    {name} : " in str(kind.__doc__)
    assert "{parameters}" not in str(kind.__doc__)


@pytest.mark.parametrize(
    ("estimator", "message"),
    [
        (SMERF(0, max_depth="deep"), "n_estimators must be .*, found 0\nmax_depth must be .*, found 'deep'"),
        (SMERF(max_samples=1000), "max_samples=1000 asks for more rows than there are"),
        (SMERF(random_state=-1), "random_state must be in"),
        (SMERF(n_jobs=0), "n_jobs must be None or an integer other than 0, found 0"),
        (SimForestClassifier("sigmoid"), "similarity must be 'precomputed' or 'linear' or .* found 'sigmoid'"),
        (SimForestClassifier("rbf", gamma=0.0), "gamma must be positive"),
        (SimForestClassifier("rbf", kind="distance"), "kind='distance' needs similarity='precomputed'"),
        (SimForestRegressor(kind="angle"), "kind must be 'similarity' or 'distance', found 'angle'"),
        (SMERF(5, bootstrap=False, oob_score=True), "oob_score: no tree left any of the pairs out of its sample"),
        (SimForestClassifier("linear", n_estimators=5, bootstrap=False, oob_score=True), "any of the rows out"),
    ],
)
def test_bad_parameters_are_refused_by_fit(estimator: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        estimator.fit(SMALL, SMALL_Y)


def test_numbers_of_numpy_lead_to_the_same_forest() -> None:
    plain = SMERF(5, max_depth=3, max_samples=0.5, random_state=7).fit(SMALL, SMALL_Y)
    numpy = SMERF(np.int64(5), max_depth=np.int32(3), max_samples=np.float64(0.5), random_state=np.int64(7))
    assert numpy.fit(SMALL, SMALL_Y).digest_ == plain.digest_


def test_random_state() -> None:
    def digest(random_state: Any) -> str:
        return str(SMERF(3, random_state=random_state).fit(SMALL, SMALL_Y).digest_)

    assert digest(1) == digest(1) != digest(2)
    assert digest(np.random.RandomState(1)) == digest(np.random.RandomState(1))
    assert digest(None) != digest(None)
    state = np.random.RandomState(1)
    assert digest(state) != digest(state)


# --- one forest, however it is grown ----------------------------------------------------------------------


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for staged files and for temporary ones."""
    monkeypatch.setenv("DISTFOREST_SCRATCH", str(tmp_path / "scratch"))
    return tmp_path


def test_the_digest_does_not_depend_on_threads() -> None:
    digests = {SMERF(9, random_state=0, n_jobs=n).fit(POINTS, DISTANCES).digest_ for n in (None, 1, 2, -1)}
    assert len(digests) == 1


def test_a_job_of_a_spec_grows_the_same_forest(scratch: Path) -> None:
    group, forest = str(scratch / "in.zarr"), str(scratch / "out.zarr")
    write_array(group, "X", POINTS.shape, POINTS.dtype, [POINTS])
    write_array(group, "Z", DISTANCES.shape, DISTANCES.dtype, [DISTANCES])
    spec = Spec.from_dict(
        {
            "format": 1,
            "method": "smerf",
            "seed": 5,
            "output": forest,
            "input": {"features": f"{group}/X", "distances": f"{group}/Z"},
            "params": {"n_estimators": 7},
        }
    )
    job = str(scratch / "job")
    done = fit(stage_inputs(spec, job), forest, Folder(job), Here(), Options())
    own = SMERF(7, random_state=5).fit(POINTS, DISTANCES)
    assert own.digest_ == done.digest == load(forest).digest_
    np.testing.assert_array_equal(load(forest).distance(POINTS), own.distance(POINTS))


@pytest.mark.cluster
def test_a_client_grows_the_same_forest(scratch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (scratch / "tmp").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(scratch / "tmp"))
    S = POINTS @ POINTS.T
    S[3, 5] = np.nan
    with local_cluster(workers=2, folder=scratch) as cluster:
        for estimator, rows, truth in (
            (SMERF(8, random_state=3, oob_score=True, max_samples=0.5), POINTS, DISTANCES),
            (SimForestClassifier("rbf", n_estimators=8, random_state=3), X, NAMES),
            (SimForestRegressor(n_estimators=8, random_state=3), S, TARGETS),
            (SimForestClassifier(n_estimators=8, random_state=3), observed(S), TARGETS > 0),
        ):
            there = clone(estimator).set_params(client=cluster.client)
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "(?s).*out-of-bag estimate")
                here, there = estimator.fit(rows, truth), clone(there).fit(rows, truth)
            assert there.client is cluster.client
            assert there.digest_ == here.digest_
            np.testing.assert_array_equal(there.distance(rows), here.distance(rows))
            assert getattr(there, "oob_score_", 0) == getattr(here, "oob_score_", 0)
    assert list((scratch / "tmp").glob("distforest-*")) == []


class _Connection:
    """Like a client: cannot be copied or pickled."""

    def __reduce__(self) -> str:
        raise TypeError("a connection")


def test_clones_share_the_client_and_copies_go_without_it() -> None:
    connection = _Connection()
    estimator = SimForestClassifier("linear", n_pairs=3, client=connection)
    twin = clone(estimator)
    assert twin is not estimator
    assert twin.client is estimator.client is connection
    assert twin.get_params() == estimator.get_params()
    assert pickle.loads(pickle.dumps(estimator)).client is None
    assert copy.deepcopy(estimator).n_pairs == 3


# --- SMERF ------------------------------------------------------------------------------------------------


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
    for name, values in {"X": POINTS, "Z": DISTANCES, "S": POINTS @ POINTS.T, "y": TARGETS}.items():
        write_array(group, name, values.shape, values.dtype, [values])
    memory = SMERF(5, random_state=0).fit(POINTS, DISTANCES)
    disk = SMERF(5, random_state=0).fit(f"{group}/X", open_array(f"{group}/Z"))
    assert disk.digest_ == memory.digest_
    assert disk.n_features_in_ == 3
    np.testing.assert_array_equal(disk.transform(tmp_path / "data.zarr" / "X"), memory.transform(POINTS))
    regressor = SimForestRegressor(n_estimators=5, random_state=0)
    expected = clone(regressor).fit(POINTS @ POINTS.T, TARGETS)
    assert regressor.fit(f"{group}/S", f"{group}/y").digest_ == expected.digest_
    with pytest.raises(InputError, match="found a group with S, X, Z, y; name one of them"):
        disk.transform(group)


@pytest.mark.parametrize(
    ("rows", "truth", "message"),
    [
        (np.where(np.eye(40, 3) * np.arange(3) == 2, np.nan, POINTS), TARGETS, "the first at row 2, column 2"),
        (np.where(np.eye(40, 3) == 1, np.inf, POINTS), TARGETS, "found 3 values .* the first at row 0, column 0"),
        (POINTS, DISTANCES[:, :39], r"a square matrix was asked for, found shape \(40, 39\)"),
        (POINTS, DISTANCES[:39, :39], "found 40 rows of features and 39 of distances"),
        (POINTS, Y[:39], "found 40 rows of features and 39 of labels"),
        (POINTS, np.where(np.eye(40) == 1, np.nan, DISTANCES), "distances must be finite.* row 0, column 0"),
        (POINTS, TARGETS[:, None], "a square matrix was asked for"),
        (POINTS, np.where(TARGETS > 1, np.nan, TARGETS), "Z contain"),
        (POINTS[:, 0], TARGETS, "Expected 2D array, got 1D array instead"),
        (POINTS, None, "SMERF requires y to be passed"),
    ],
)
def test_smerf_refuses(rows: Any, truth: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SMERF(5).fit(rows, truth)


def test_distances_that_are_not_symmetric_are_averaged_with_a_warning() -> None:
    whole = np.round(4 * DISTANCES)
    skew = whole + np.triu(np.ones_like(whole), 1)
    with pytest.warns(UserWarning, match="z_ij and z_ji differ by up to 1"):
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
    with pytest.raises(InputError, match=r"n_neighbors must be in 1\.\.39"):
        forest.kneighbors(n_neighbors=40)


def test_what_was_learned_is_told() -> None:
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
    with pytest.raises(InputError, match="found 20 rows of X and 40 of distances"):
        forest.score(POINTS[half], DISTANCES)


def test_score_reads_a_vector_as_it_was_learned() -> None:
    whole = np.round(TARGETS * 3)
    forest = SMERF(20, random_state=0).fit(POINTS, Targets(whole))
    assert forest.score(POINTS, whole) == forest.score(POINTS, Targets(whole)) > 0.5
    assert forest.score(POINTS, whole) != forest.score(POINTS, Labels(whole))


def test_score_of_a_sample_of_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    forest = SMERF(20, random_state=0).fit(POINTS, DISTANCES)
    monkeypatch.setattr("distforest.sources.truth.MOST_PAIRS", 300)
    left, right = pairs_of_rows(40)
    expected = r2_score(DISTANCES[left, right], forest.distance(POINTS)[left, right])
    assert len(left) == 300
    assert forest.score(POINTS, DISTANCES) == pytest.approx(expected)
    monkeypatch.setattr("distforest.estimators.smerf.BLOCK_NODES", 20 * 7)  # blocks of 7 pairs
    assert forest.score(POINTS, DISTANCES) == pytest.approx(expected)


# --- with the tools of scikit-learn -----------------------------------------------------------------------


@pytest.mark.parametrize("load_data", [load_iris, load_wine])
def test_a_pipeline_with_nearest_neighbours(load_data: Callable[..., Any]) -> None:
    rows, labels = load_data(return_X_y=True)
    train, test, y_train, y_test = train_test_split(rows, labels, stratify=labels, random_state=0)
    model = make_pipeline(SMERF(30, random_state=0), KNeighborsClassifier(metric="precomputed"))
    assert model.fit(train, y_train).score(test, y_test) > 0.9


@pytest.mark.parametrize("truth", [Y, NAMES, Labels(Y), Targets(Y + 0.5 * X[:, 0]), Embedding(X[:, :2])])
def test_grid_search(truth: Any) -> None:
    search = GridSearchCV(SMERF(10, random_state=0), {"max_depth": [1, 4]}, cv=3, error_score="raise")
    order = np.random.default_rng(0).permutation(len(X))
    search.fit(X[order], truth[order])
    assert search.best_params_ == {"max_depth": 4}
    assert 0.5 < search.best_score_ <= 1.0


# --- SimForest --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("similarity", ["linear", "cosine", "rbf"])
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
    matrix = SimForestClassifier(n_estimators=10, random_state=0).fit(rows @ rows.T, Y)
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


def observed(values: np.ndarray) -> scipy.sparse.coo_array:
    """The observed values alone, zeros too, as a sparse matrix."""
    places = np.nonzero(~np.isnan(values))
    return scipy.sparse.coo_array((values[places], places), values.shape)


@pytest.mark.parametrize("rule", ["stop", "larger", "surrogate"])
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


def test_a_job_reads_a_sparse_matrix(scratch: Path) -> None:
    matrix, job = read_sparse(observed(HOLES), SIMILARITIES), Folder(str(scratch / "job"))
    data = Data(dense_rows(matrix.shape, "similarity"), matrix, "targets", TARGETS[:, None])
    params = complete(METHODS["simforest"].parameters, {"n_estimators": 8})
    inputs = from_data(data, "simforest", params, 3, job.address)
    done = fit(inputs, str(scratch / "out.zarr"), job, Here(), Options(batch=3))
    own = SimForestRegressor(n_estimators=8, random_state=3).fit(HOLES, TARGETS)
    assert done.digest == own.digest_ == load(str(scratch / "out.zarr")).digest_
    other = replace(data, matrix=read_sparse(observed(HOLES[::-1]), SIMILARITIES))
    assert from_data(other, "simforest", params, 3, job.address).fingerprint != inputs.fingerprint


def test_cross_validation_takes_rows_and_columns_of_a_sparse_matrix() -> None:
    forest = SimForestClassifier(n_estimators=20, random_state=0)
    sparse, dense = (cross_val_score(forest, matrix, TARGETS > 0, cv=3) for matrix in (observed(HOLES).tocsr(), HOLES))
    np.testing.assert_array_equal(sparse, dense)


@pytest.mark.parametrize(
    ("estimator", "rows", "error", "message"),
    [
        (SMERF(), HOLES, TypeError, "Sparse data was passed"),
        (SimForestClassifier("linear"), HOLES, TypeError, "Sparse data was passed"),
        (SimForestClassifier("feature_subsets"), HOLES, TypeError, "Sparse data was passed"),
        (SimForestClassifier(), HOLES[:, :9], InputError, r"must be square, .* found shape \(40, 9\)"),
        (SimForestClassifier(), np.where(HOLES > 5, np.inf, HOLES), InputError, "the first at row 4, column 4 "),
    ],
)
def test_sparse_matrices_that_are_refused(estimator: Any, rows: np.ndarray, error: type, message: str) -> None:
    with pytest.raises(error, match=message):
        estimator.fit(observed(rows), TARGETS > 0)


def test_sparse_queries_that_are_refused() -> None:
    forest = SimForestClassifier(n_estimators=3, random_state=0).fit(observed(HOLES), TARGETS > 0)
    with pytest.raises(ValueError, match="X has 9 features, but SimForestClassifier is expecting 40 features"):
        forest.predict(observed(HOLES[:, :9]))
    with pytest.raises(InputError, match="X has 9 features, but the forest is expecting 40 features"):
        forest.forest_.source(observed(HOLES[:, :9]))
    linear = SimForestClassifier("linear", n_estimators=3, random_state=0).fit(POINTS, TARGETS > 0)
    with pytest.raises(TypeError, match="Sparse data was passed"):
        linear.predict(scipy.sparse.csr_array(POINTS))
    with pytest.raises(InputError, match="features: a dense matrix was asked for, found a sparse one"):
        linear.forest_.source(scipy.sparse.csr_array(POINTS))


@pytest.mark.parametrize(
    ("rows", "truth", "message"),
    [
        (POINTS, TARGETS > 0, "must be square"),
        (DISTANCES[:39, :39], TARGETS > 0, "found 39 rows of similarity and 40 of labels"),
        (np.where(DISTANCES > 1, np.inf, DISTANCES), TARGETS > 0, "finite or NaN for unobserved"),
        (DISTANCES, TARGETS, "Unknown label type"),
        (DISTANCES, None, "SimForestClassifier requires y to be passed"),
    ],
)
def test_simforest_refuses(rows: Any, truth: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SimForestClassifier(n_estimators=3).fit(rows, truth)


def test_features_of_a_similarity_may_not_be_missing() -> None:
    rows = X.copy()
    rows[4, 1] = np.nan
    with pytest.raises(InputError, match="the first at row 4, column 1"):
        SimForestClassifier("linear", n_estimators=3).fit(rows, Y)


def test_queries_have_a_column_for_each_training_object() -> None:
    forest = SimForestClassifier(n_estimators=3, random_state=0).fit(X @ X.T, Y)
    with pytest.raises(ValueError, match="X has 4 features, but SimForestClassifier is expecting 150 features"):
        forest.predict(X)


def test_regression() -> None:
    rows, targets = load_diabetes(return_X_y=True)
    train, test, y_train, y_test = train_test_split(rows, targets, random_state=0)
    forest = SimForestRegressor("linear", n_estimators=50, oob_score=True, random_state=0).fit(train, y_train)
    assert forest.score(test, y_test) > 0.25
    assert forest.oob_score_ > 0.25
    assert forest.oob_prediction_.shape == y_train.shape
    assert forest.oob_score_ == pytest.approx(r2_score(y_train, forest.oob_prediction_))


def test_out_of_bag_decisions() -> None:
    with pytest.warns(UserWarning, match="of 150 rows have no out-of-bag estimate; grow more trees"):
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


# --- save and load ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("estimator", "rows", "truth"),
    [
        (SMERF(6, splitter="oblique", random_state=1), POINTS, DISTANCES),
        (SMERF(6, max_samples=0.5, random_state=1), SMALL, NAMES[::4]),
        (SimForestClassifier(n_estimators=6, kind="distance", random_state=1), DISTANCES, TARGETS > 0),
        (SimForestClassifier("cosine", n_estimators=6, gamma=2.0, random_state=1), X, NAMES),
        (SimForestClassifier("rbf", n_estimators=6, gamma=0.5, random_state=1), X, Y),
        (SimForestRegressor(n_estimators=6, max_depth=3, random_state=1), DISTANCES, TARGETS),
    ],
)
def test_a_saved_forest_answers_as_before(estimator: Any, rows: np.ndarray, truth: Any, tmp_path: Path) -> None:
    fitted = clone(estimator).fit(rows, truth)
    place = tmp_path / "a.forest.zarr"
    assert fitted.save(place) == fitted.digest_
    loaded = load(place)
    assert type(loaded) is type(fitted)
    changed = {"gamma": None} if getattr(estimator, "similarity", None) == "cosine" else {}
    assert loaded.get_params() == {**estimator.get_params(), **changed}
    assert loaded.digest_ == fitted.digest_
    assert loaded.n_features_in_ == fitted.n_features_in_
    np.testing.assert_array_equal(loaded.distance(rows), fitted.distance(rows))
    np.testing.assert_array_equal(loaded.kneighbors()[1], fitted.kneighbors()[1])
    if hasattr(fitted, "predict"):
        np.testing.assert_array_equal(loaded.predict(rows), fitted.predict(rows))
    if hasattr(fitted, "classes_"):
        np.testing.assert_array_equal(loaded.classes_, fitted.classes_)
        np.testing.assert_array_equal(loaded.predict_proba(rows), fitted.predict_proba(rows))
    assert clone(loaded).fit(rows, truth).digest_ == fitted.digest_
    with pytest.raises(ArtifactError, match="exists already"):
        fitted.save(place)


def test_load_refuses_what_is_no_forest_of_this_house(tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match="no sealed forest here"):
        load(tmp_path / "nothing.zarr")
    with pytest.raises(NotFittedError):
        SMERF().save(tmp_path / "unfitted.zarr")
    place = tmp_path / "a.forest.zarr"
    fitted = SMERF(3, random_state=0).fit(SMALL, SMALL_Y)
    fitted.forest_.meaning.params["colour"] = 1
    fitted.save(place)
    with pytest.raises(ArtifactError, match="unknown method or parameters: unknown parameter 'colour'"):
        load(place)
    manifest = json.loads((place / "manifest.json").read_text())
    manifest["meaning"]["seed"] = 1
    (place / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(ArtifactError, match="digest does not fit"):
        load(place)


# --- the package ------------------------------------------------------------------------------------------


def test_public_names() -> None:
    for name in distforest.__all__:
        assert name in dir(distforest)
        assert inspect.getdoc(getattr(distforest, name))
    with pytest.raises(AttributeError, match="no attribute 'URF'"):
        _ = distforest.URF  # type: ignore[attr-defined]


def test_names_of_columns() -> None:
    arrow = pytest.importorskip("pyarrow")
    frame = arrow.table({name: X[:, k] for k, name in enumerate("abcd")})
    forest = SMERF(3, random_state=0).fit(frame, Y)
    assert forest.feature_names_in_.tolist() == ["a", "b", "c", "d"]
    assert forest.digest_ == SMERF(3, random_state=0).fit(X, Y).digest_
    with pytest.raises(ValueError, match="feature names should match"):
        forest.transform(frame.select(["b", "a", "c", "d"]))
    with pytest.warns(UserWarning, match="X does not have valid feature names, but SMERF was fitted with"):
        forest.transform(X)
