"""URerF as an estimator: what it answers, what it refuses, and that its law knows no order of rows or columns."""

from __future__ import annotations

import warnings
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.metrics import roc_auc_score

from distforest import SMERF, URerF, load
from distforest.errors import DistforestWarning, InputError
from distforest.estimators import forest_estimator
from distforest.jobs import screening
from distforest.sources.arrays import ArraySource, write_array
from tests.messages import naming
from tests.simulated import helix, shared_neighbors

if TYPE_CHECKING:
    from pathlib import Path

    from distributed import Client

N_ROWS = 120
CODES = np.repeat([0, 1], [70, 50])
GIVEN = np.array([3.0, 1.0, 0.0, 0.5, 2.0])
PAPER: dict[str, Any] = {
    "criterion": "fast_bic",
    "relative": False,
    "n_witnesses": 0,
    "max_features": 3,
    "feature_combinations": 1.5,
    "coefficients": "sign",
    "feature_weights": None,
    "splitter": "best",
    "bootstrap": True,
    "max_samples": None,
}
"""Parameters of the paper's rule, for few features."""

RECIPES = [{}, PAPER, {"feature_weights": GIVEN}, {"criterion": "mclust_bic", "splitter": "best", "n_witnesses": 1}]


def points(seed: int = 0) -> np.ndarray:
    """Rows sorted by class: two clusters in two columns, a column with ties, a duplicated row; two of noise."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N_ROWS, 5)) * [1.0, 1.0, 1.0, 9.0, 0.01]
    X[:, :2] += 2.0 * CODES[:, None]
    X[:, 2] = np.round(X[:, 2] + CODES)
    X[7] = X[3]
    return X


X = points()


def fitted(**params: Any) -> URerF:
    return URerF(20, min_samples_split=12, random_state=1, **params).fit(X)


@pytest.fixture(scope="module", params=range(len(RECIPES)))
def forest(request: pytest.FixtureRequest) -> URerF:
    """A forest by each recipe."""
    return fitted(**RECIPES[request.param])


# --- what it answers --------------------------------------------------------------------------------------


@pytest.mark.slow
def test_proximity_is_the_share_of_common_leaves(forest: URerF) -> None:
    nodes = forest.apply(X)
    by_hand = np.array([[np.mean(one == other) for other in nodes] for one in nodes])
    proximity = forest.proximity()
    assert np.array_equal(proximity, by_hand)
    assert np.array_equal(proximity, proximity.T)
    assert (np.diagonal(proximity) == 1.0).all()
    assert 0.0 < proximity.mean() < 0.9  # trees that are no stumps, and no single rows


def test_training_rows_lie_where_the_same_rows_are_sent(forest: URerF) -> None:
    assert np.array_equal(forest.apply(None), forest.apply(X))
    assert np.array_equal(forest.proximity(), forest.proximity(X))
    assert np.array_equal(forest.proximity(), forest.proximity(X, X))
    assert np.array_equal(forest.proximity(X[:9], X), forest.proximity()[:9])
    assert np.array_equal(forest.proximity(X[:9]), forest.proximity()[:9, :9])


def test_distance_is_one_minus_proximity(forest: URerF) -> None:
    distance = forest.distance()
    np.testing.assert_allclose(distance, 1.0 - forest.proximity(), rtol=0, atol=1e-15)
    assert (np.diagonal(distance) == 0.0).all()
    assert np.array_equal(distance, distance.T)
    assert np.array_equal(distance[3], distance[7])  # equal rows
    new = points(9)[:6]
    np.testing.assert_allclose(forest.distance(new, X), 1.0 - forest.proximity(new, X), rtol=0, atol=1e-15)
    np.testing.assert_allclose(forest.pair_distance(new, X[:6]), np.diagonal(forest.distance(new, X[:6])), atol=1e-15)


def test_leaf_vectors_multiply_to_the_proximity(forest: URerF) -> None:
    embedded = forest.transform(X)
    assert scipy.sparse.issparse(embedded)
    assert embedded.shape == (N_ROWS, len(forest.forest_.table.left))
    assert np.array_equal((embedded @ embedded.T).toarray() / forest.n_estimators, forest.proximity())
    again = clone(forest).fit_transform(X)
    assert (again != embedded).nnz == 0


def test_neighbours_are_the_nearest_by_distance(forest: URerF) -> None:
    apart = forest.distance()
    distances, indices = forest.kneighbors(n_neighbors=8)
    np.fill_diagonal(apart, np.inf)
    order = np.argsort(apart, axis=1, kind="stable")[:, :8]
    assert np.array_equal(indices, order)
    np.testing.assert_allclose(distances, np.take_along_axis(apart, order, axis=1), rtol=0, atol=1e-15)
    itself = forest.kneighbors(X[:4], n_neighbors=1, return_distance=False)[:, 0]
    assert itself.tolist() == [0, 1, 2, 3]


def test_out_of_bag_proximity_counts_the_trees_that_drew_neither(forest: URerF) -> None:
    estimate, count = forest.out_of_bag_proximity()
    out, leaves = forest.forest_.in_bag == 0, forest.forest_.leaves
    for i, j in ((0, 1), (3, 7), (5, 110), (60, 61), (11, 11)):
        trees = out[:, i] & out[:, j]
        assert count[i, j] == trees.sum()
        assert (
            np.isnan(estimate[i, j])
            if not trees.any()
            else estimate[i, j] == (leaves[trees, i] == leaves[trees, j]).mean()
        )
    assert np.array_equal(np.isnan(estimate), count == 0)


def test_it_tells_clusters_apart(forest: URerF) -> None:
    proximity = forest.proximity()
    same = CODES[:, None] == CODES
    assert proximity[same].mean() > 1.5 * proximity[~same].mean()


def test_questions_before_fit_are_refused() -> None:
    for ask in ("proximity", "distance", "kneighbors", "out_of_bag_proximity"):
        with pytest.raises(NotFittedError):
            getattr(URerF(), ask)()
    for name in ("feature_weights_", "dependence_", "feature_importances_"):
        with pytest.raises(NotFittedError):
            getattr(URerF(), name)


# --- feature weights --------------------------------------------------------------------------------------


def test_weights_that_a_screen_finds() -> None:
    forest = fitted()
    assert forest.dependence_ is not None
    assert forest.dependence_.shape == forest.feature_weights_.shape == (5,)
    assert forest.feature_weights_.sum() == pytest.approx(1.0)
    assert set(np.argsort(forest.dependence_)[-2:]) == {0, 1}  # the columns of the clusters
    assert ((forest.dependence_ >= 0.0) & (forest.dependence_ <= 0.999)).all()


@pytest.mark.slow
def test_a_lone_bimodal_column_among_noise_is_not_left_out() -> None:
    """Nothing depends on anything here: the one column that knows two clusters is drawn like the others."""
    for seed in range(2):
        rng = np.random.default_rng(seed)
        c, X = rng.integers(0, 2, 500), rng.normal(size=(500, 50))
        X[:, 7] = 6 * c + 0.5 * rng.normal(size=500)
        forest = URerF(random_state=seed).fit(X.astype(np.float32))
        assert forest.feature_weights_[7] == pytest.approx(0.02)
        upper = np.triu_indices(500, 1)
        assert roc_auc_score((c[:, None] == c)[upper], forest.proximity()[upper]) > 0.85


@pytest.mark.parametrize("sentinel", [1e2, -9999.0, 1e6])
def test_sentinels_in_one_entry_of_a_hundred_cost_little(sentinel: float) -> None:
    points, along = helix(400, 5)
    dirty = np.where(np.random.default_rng(1).random(points.shape) < 0.01, np.float32(sentinel), points)
    clean, found = (shared_neighbors(URerF(60, random_state=0).fit(X).proximity(), along, 40) for X in (points, dirty))
    assert found > clean - 0.06


def test_given_weights_decide_what_is_drawn() -> None:
    forest = fitted(feature_weights=GIVEN, n_witnesses=0)
    np.testing.assert_allclose(forest.feature_weights_, GIVEN / GIVEN.sum())
    assert forest.dependence_ is None
    assert forest.forest_.meaning.params["feature_weights"] == "given"
    assert 2 not in forest.forest_.table.columns
    assert forest.feature_importances_[2] == 0.0
    only = fitted(feature_weights=[0, 0, 0, 0, 1], n_witnesses=0)
    assert set(only.forest_.table.columns.tolist()) == {4}


def test_without_weights_all_features_are_alike() -> None:
    forest = fitted(feature_weights=None)
    np.testing.assert_allclose(forest.feature_weights_, 0.2)
    assert forest.dependence_ is None
    assert set(forest.forest_.table.columns.tolist()) == set(range(5))


def test_weights_found_can_be_given() -> None:
    screened = fitted()
    given_ = fitted(feature_weights=screened.forest_.feature_weights)
    assert given_.digest_ != screened.digest_  # they are forests of other parameters
    assert np.array_equal(given_.proximity(), screened.proximity())


@hypothesis_settings(max_examples=15)
@given(st.integers(1, 2**20))
def test_weights_in_proportion_lead_to_the_same_trees(factor: int) -> None:
    one, other = (
        URerF(2, min_samples_split=12, random_state=1, feature_weights=weights).fit(X)
        for weights in (np.array([4.0, 2.0, 1.0, 1.0, 0.0]), factor * np.array([4.0, 2.0, 1.0, 1.0, 0.0]))
    )
    assert np.array_equal(one.apply(X), other.apply(X))


@pytest.mark.parametrize("kind", [URerF, SMERF])
@pytest.mark.parametrize(
    ("weights", "named"),
    [
        ([1.0, 2.0], (5, 2)),
        ([1.0, np.nan, 1, 1, 1], ("finite", 1)),
        ([1.0, np.inf, 1, 1, 1], ("finite", 1)),
        ([1.0, -1.0, 1, 1, -1], ("negative", 2)),
        (np.zeros(5), ("none",)),
        (np.ones((5, 1)), ("(n_features,)", (5, 1))),
        (2.0, ("(n_features,)", ())),
        ("independence", ("'dependence'", "'given'", "'independence'")),
        ("given", ("='given'",)),
    ],
)
def test_bad_weights_are_refused(kind: type, weights: Any, named: tuple[object, ...]) -> None:
    with pytest.raises(InputError, match=naming("feature_weights", *named)):
        kind(5, feature_weights=weights, random_state=0).fit(X, CODES)


def test_cuts_of_a_mixture_are_its_own() -> None:
    with pytest.raises(InputError, match=naming("criterion='mclust_bic'", "splitter='best'")):
        fitted(criterion="mclust_bic", splitter="random")


@pytest.mark.parametrize(
    ("params", "named"),
    [
        ({"criterion": "gini"}, ("criterion", "'equal_bic'", "'gini'")),
        ({"n_witnesses": -1}, ("n_witnesses", -1)),
        ({"coefficients": "unit"}, ("coefficients", "'sign'", "'normal'", "'unit'")),
        ({"splitter": "axis"}, ("splitter", "'best'", "'random'", "'axis'")),
        ({"relative": 1}, ("relative", True, False, 1)),
        ({"max_samples": 1000}, ("max_samples=1000", N_ROWS)),
    ],
)
def test_bad_parameters_are_refused(params: dict[str, Any], named: tuple[object, ...]) -> None:
    with pytest.raises(InputError, match=naming(*named)):
        fitted(**params)


@pytest.mark.parametrize("value", [np.inf, -np.inf])
def test_infinite_features_are_refused(value: float) -> None:
    damaged = X.copy()
    damaged[4, 2] = value
    with pytest.raises(InputError, match=naming("features", "row 4", "column 2")):
        URerF(3).fit(damaged)


def test_what_cannot_be_split_is_one_leaf() -> None:
    for rows in (np.ones((60, 3)), X[:1], X[:3]):
        forest = URerF(4, min_samples_split=2, max_samples=None, random_state=0)
        with pytest.warns(DistforestWarning, match="features") if len(rows) == 60 else nullcontext():
            forest.fit(rows)
        assert forest.proximity().shape == (len(rows),) * 2
        assert forest.feature_weights_.sum() == pytest.approx(1.0)
    with pytest.warns(DistforestWarning, match=naming("split", 0, "features")):
        assert (URerF(4, random_state=0).fit(np.ones((70, 3))).proximity() == 1.0).all()


# --- one forest -------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("recipe", RECIPES)
def test_a_saved_forest_answers_as_before(recipe: dict[str, Any], tmp_path: Path) -> None:
    forest = fitted(**recipe)
    assert forest.save(tmp_path / "a.forest.zarr") == forest.digest_
    loaded = load(tmp_path / "a.forest.zarr")
    assert isinstance(loaded, URerF)
    params, own = (found.get_params() for found in (loaded, forest))
    weights = params.pop("feature_weights"), own.pop("feature_weights")
    assert params == own
    assert np.array_equal(*weights) if isinstance(weights[1], np.ndarray) else weights[0] == weights[1]
    assert np.array_equal(loaded.proximity(), forest.proximity())
    assert np.array_equal(loaded.kneighbors(X[:5])[1], forest.kneighbors(X[:5])[1])
    assert np.array_equal(loaded.feature_weights_, forest.feature_weights_)
    assert (loaded.dependence_ is None) == (forest.dependence_ is None)
    if forest.dependence_ is not None:
        assert np.array_equal(loaded.dependence_, forest.dependence_)
    assert clone(loaded).fit(X).digest_ == forest.digest_


def test_weights_of_a_taught_forest_are_loaded_too(tmp_path: Path) -> None:
    forest = SMERF(5, feature_weights=GIVEN, random_state=1).fit(X, CODES)
    forest.save(tmp_path / "a.forest.zarr")
    loaded = load(tmp_path / "a.forest.zarr")
    assert isinstance(loaded, SMERF)
    assert np.array_equal(loaded.feature_weights, GIVEN)
    assert clone(loaded).fit(X, CODES).digest_ == forest.digest_


@pytest.mark.slow
@pytest.mark.parametrize("recipe", RECIPES)
def test_threads_do_not_change_the_forest(recipe: dict[str, Any]) -> None:
    assert len({fitted(**recipe, n_jobs=n).digest_ for n in (None, 1, 2, -1)}) == 1


def test_blocks_of_the_screen_do_not_change_the_forest(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = fitted()
    monkeypatch.setattr(screening, "SCREENED_ROWS", 2)
    assert fitted(n_jobs=2).digest_ == whole.digest_


def test_an_address_leads_to_the_forest_of_its_rows(tmp_path: Path) -> None:
    write_array(str(tmp_path / "in.zarr"), "X", X.shape, X.dtype, [X], chunk_bytes=400)
    stored = URerF(5, min_samples_split=12, random_state=1).fit(str(tmp_path / "in.zarr" / "X"))
    assert stored.digest_ == URerF(5, min_samples_split=12, random_state=1).fit(X).digest_


@pytest.mark.slow
@pytest.mark.cluster
def test_a_client_grows_the_same_forest(client: Client) -> None:
    labelled = SMERF(6, splitter="random", feature_weights="dependence", coefficients="normal", random_state=2)
    estimators = [URerF(6, min_samples_split=12, random_state=1, **recipe) for recipe in RECIPES]
    for estimator in (*estimators, labelled):
        there = clone(estimator).set_params(client=client).fit(X, CODES)
        here = clone(estimator).fit(X, CODES)
        assert there.digest_ == here.digest_
        assert np.array_equal(there.proximity(), here.proximity())
        assert np.array_equal(there.feature_weights_, here.feature_weights_)
    with pytest.raises(InputError, match=naming("feature_weights:", 5, 2)):
        URerF(6, feature_weights=[1, 2], client=client).fit(X)


# --- SMERF by the same draws ------------------------------------------------------------------------------


@pytest.mark.parametrize("feature_combinations", [1.0, 2.0])
@pytest.mark.parametrize("feature_weights", ["dependence", "array", None])
@pytest.mark.parametrize("truth", ["labels", "distances"])
def test_smerf_draws_as_urerf_does(feature_combinations: float, feature_weights: str | None, truth: str) -> None:
    learnt = CODES if truth == "labels" else np.abs(X[:, None, 0] - X[:, 0])
    forest = SMERF(
        30,
        splitter="random",
        coefficients="normal",
        feature_combinations=feature_combinations,
        feature_weights=GIVEN if feature_weights == "array" else feature_weights,
        random_state=0,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        forest.fit(X, learnt)
    assert (forest.dependence_ is not None) == (feature_weights == "dependence")
    assert forest.feature_importances_[:2].sum() > 0.5
    new, codes = points(5), CODES
    apart = forest.distance(new, new)
    assert apart[codes[:, None] != codes].mean() > apart[codes[:, None] == codes].mean() + 0.1
    if feature_weights == "array":
        assert 2 not in forest.forest_.table.columns


# --- the law of the result --------------------------------------------------------------------------------

SEEDS = range(30)
LAWS: list[tuple[type, dict[str, Any]]] = [
    (URerF, {"min_samples_split": 12}),
    (URerF, {"min_samples_split": 12, **PAPER}),
    (SMERF, {"splitter": "random", "feature_weights": "dependence", "coefficients": "normal", "max_depth": 3}),
]


@pytest.fixture(scope="module", params=LAWS, ids=["URerF", "URerF of the paper", "SMERF"])
def forests(request: pytest.FixtureRequest) -> list[Any]:
    """Forests of the rows and columns in their own order, a seed each; new orders are compared with them."""
    kind, params = request.param
    return [kind(8, random_state=seed, **params).fit(X, CODES) for seed in SEEDS]


def said_of_classes(forest: Any, rows: np.ndarray) -> np.ndarray:
    """What a forest of these rows says of the classes: proximity within each and between them, precision at 10."""
    own = np.argsort(rows)  # place of each point among the rows
    proximity = forest.proximity()[np.ix_(own, own)]
    first, second = (code == CODES for code in (0, 1))
    near = np.argsort(-proximity - np.eye(N_ROWS), axis=1, kind="stable")[:, 1:11]
    precision = (CODES[near] == CODES[:, None]).mean()
    blocks = (first, first), (second, second), (first, second)
    return np.array([*(proximity[np.ix_(*block)].mean() for block in blocks), precision])


def differing(one: np.ndarray, other: np.ndarray) -> float:
    """How many standard errors the means of two samples are apart, the largest of their columns."""
    error = np.sqrt(one.var(axis=0, ddof=1) / len(one) + other.var(axis=0, ddof=1) / len(other))
    return float((np.abs(one.mean(axis=0) - other.mean(axis=0)) / error).max())


def in_order(forests: list[Any]) -> np.ndarray:
    return np.array([said_of_classes(forest, np.arange(N_ROWS)) for forest in forests])


def shuffled(forests: list[Any]) -> np.ndarray:
    """What forests with the same parameters say that are given the rows in another order, each in its own."""
    found = []
    for seed, forest in enumerate(forests):
        rows = np.random.default_rng(seed).permutation(N_ROWS)
        other = clone(forest).set_params(random_state=seed + 1000).fit(X[rows], CODES[rows])
        found.append(said_of_classes(other, rows))
    return np.array(found)


@pytest.mark.slow
def test_the_order_of_rows_does_not_change_the_law(forests: list[Any]) -> None:
    assert differing(in_order(forests), shuffled(forests)) < 4.0


@pytest.mark.slow
def test_reading_values_in_stored_order_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fault of other implementations: the values of a node's rows are looked up by place, not by row."""
    project = ArraySource.project

    def by_place(self: ArraySource, rows: np.ndarray, *rest: Any) -> np.ndarray:
        return project(self, np.sort(rows), *rest)

    monkeypatch.setattr(ArraySource, "project", by_place)
    kind, params = LAWS[0]
    forests = [kind(8, random_state=seed, **params).fit(X) for seed in SEEDS]
    assert differing(in_order(forests), shuffled(forests)) > 8.0


@pytest.mark.slow
def test_the_order_of_columns_does_not_change_the_law(forests: list[Any]) -> None:
    def of_columns(forest: Any, order: np.ndarray) -> list[float]:
        shares = np.empty(5)
        shares[order] = forest.feature_importances_
        return [*shares, forest.proximity()[:70, :70].mean()]

    plain, moved = [of_columns(forest, np.arange(5)) for forest in forests], []
    for seed, forest in enumerate(forests):
        order = np.random.default_rng(seed).permutation(5)
        other = clone(forest).set_params(random_state=seed + 1000).fit(X[:, order], CODES)
        moved.append(of_columns(other, order))
    assert differing(np.array(plain), np.array(moved)) < 4.0


def test_the_screen_follows_its_columns() -> None:
    order = np.array([3, 0, 4, 1, 2])
    continuous = X + np.random.default_rng(0).normal(scale=1e-3, size=X.shape)  # ties are broken by the column's number
    plain, moved = (URerF(1, random_state=0).fit(rows) for rows in (continuous, continuous[:, order]))
    assert plain.dependence_ is not None
    assert np.array_equal(plain.dependence_[order], moved.dependence_)
    upside_down = URerF(1, random_state=0).fit(continuous[::-1])
    assert np.array_equal(plain.dependence_, upside_down.dependence_)


def test_scales_and_origins_do_not_change_the_default_recipe() -> None:
    moved = X * 2.0 ** np.array([3, -4, 10, 0, 6])
    assert np.array_equal(fitted().apply(X), URerF(20, min_samples_split=12, random_state=1).fit(moved).apply(moved))


def test_rows_too_few_for_a_cut_are_reported() -> None:
    X = np.random.default_rng(0).normal(size=(40, 3))
    with pytest.warns(DistforestWarning, match=naming(32, "min_samples_split=50")):
        assert (URerF(2, random_state=0).fit(X).proximity() == 1.0).all()
    assert (URerF(2, random_state=0, min_samples_split=32).fit(X).proximity() < 1.0).any()


def test_a_sample_larger_than_the_rows_is_refused_before_the_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []
    monkeypatch.setattr(forest_estimator, "screened_data", lambda data, *_: asked.append(data) or data)
    with pytest.raises(InputError, match=naming("max_samples=99", 60)):
        URerF(2, max_samples=99).fit(np.eye(60))
    assert asked == []


def test_sparse_proximities_of_rows_are_the_proximities() -> None:
    """Of rows, not of trees: nodes of `apply` have another order than those of the function of this name."""
    X = np.random.default_rng(0).normal(size=(40, 3))
    forest = URerF(7, min_samples_split=8, random_state=0).fit(X)
    np.testing.assert_array_equal(forest.sparse_proximity().toarray(), forest.proximity())
    np.testing.assert_array_equal(forest.sparse_proximity(X[:5], X[5:]).toarray(), forest.proximity(X[:5], X[5:]))
    ten = forest.sparse_proximity(n_neighbors=10)
    assert ten.nnz <= 400
    np.testing.assert_array_equal(ten.max(axis=1).toarray()[:, 0], np.ones(40))
