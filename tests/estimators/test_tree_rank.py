"""TreeRank as an estimator: what it says of pairs, its curves, what it refuses, and scikit-learn's rules."""

from __future__ import annotations

import inspect
import pickle
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import NotFittedError
from sklearn.metrics import roc_curve
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from distforest import TreeRank, load
from distforest.errors import DistforestWarning, InputError
from distforest.forest.pairs.pair_leaves import Ranks
from distforest.forest.pairs.pair_scores import training_pairs, walked
from distforest.forest.pairs.pair_walks import Walks
from distforest.growth.methods import METHODS

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

from tests.estimators.rows import NAMES, SMALL, SMALL_Y, X, Y
from tests.messages import naming

QUICK: dict[str, Any] = {"n_pairs": 300, "max_depth": 4, "leafrank_depth": 2, "random_state": 0}
ALL = np.stack(np.triu_indices(len(SMALL), 1), axis=1)
ALIKE = SMALL_Y[ALL[:, 0]] == SMALL_Y[ALL[:, 1]]

KINDS: list[dict[str, Any]] = [
    {},
    {"region": "square", "aggregation": "median"},
    {"leafrank": "linear", "max_samples": 0.7},
    {"n_estimators": 2, "aggregation": "median", "max_bins": None},
]


@pytest.mark.slow
@parametrize_with_checks(
    [
        TreeRank(3, n_pairs=200, max_depth=3, leafrank_depth=2),
        TreeRank(3, n_pairs=100, max_depth=2, region="square", sampling="balanced", max_bins=None),
        TreeRank(2, n_pairs=60, max_depth=2, leafrank="linear"),
    ],
    expected_failed_checks=lambda _: dict.fromkeys(
        ("check_sample_weight_equivalence_on_dense_data", "check_sample_weight_equivalence_on_sparse_data"),
        "pairs are drawn by the numbers of points, of which repeated ones have others; and there is a column for each "
        "training point",
    ),
)
def test_scikit_learn(estimator: BaseEstimator, check: Callable[[BaseEstimator], None]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its checks provoke warnings
        assert check(estimator) is None  # a check raises AssertionError where it fails


def test_constructor_agrees_with_the_one_list_of_parameters() -> None:
    found = {name: p.default for name, p in inspect.signature(TreeRank).parameters.items()}
    expected: dict[str, Any] = {p.name: p.default for p in METHODS["treerank"].parameters}
    expected |= {
        "random_state": None,
        "n_jobs": None,
        "verbose": 0,
        "warm_start": False,
        "client": None,
        "categorical_features": "from_dtype",
        "pair_columns": None,
        "pruning_folds": None,
    }
    assert found == expected
    for name in expected:
        assert f"    {name} : " in str(TreeRank.__doc__)
    assert "{parameters}" not in str(TreeRank.__doc__)


def ranks_of_trees(forest: TreeRank, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """The rank that each tree gives each pair of training points, by their place among its leaves."""
    table, ranks = forest.forest_.table, forest.forest_.leaf_table
    assert isinstance(ranks, Ranks)
    pairs = training_pairs(forest.forest_, np.stack([left, right], axis=1).astype(np.int32))
    found = []
    for tree in range(forest.forest_.n_trees):
        leaves = np.flatnonzero(table.is_leaf)
        leaves = leaves[(leaves >= table.tree_start[tree]) & (leaves < table.tree_start[tree + 1])]
        falling = sorted(leaves.tolist(), key=lambda leaf: -ranks.scores[leaf])
        own = {leaf: (len(falling) - place) / len(falling) for place, leaf in enumerate(falling)}
        found.append([own[end] for end in walked(Walks(table), tree, pairs).tolist()])
    return np.array(found)


@pytest.mark.parametrize("kind", KINDS)
def test_the_similarity_is_the_mean_or_median_rank(kind: dict[str, Any]) -> None:
    forest = TreeRank(**{"n_estimators": 5, "min_samples_leaf": 2, **QUICK, **kind}).fit(SMALL, SMALL_Y % 2)
    left, right = ALL[::7].T
    ranks = ranks_of_trees(forest, left, right)
    expected = np.median(ranks, axis=0) if forest.aggregation == "median" else ranks.mean(axis=0)
    found = forest.pair_score(SMALL[left], SMALL[right])
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-14)
    assert len(np.unique(ranks)) > 3
    assert 0 < found.min() < found.max() <= 1


@pytest.mark.parametrize("kind", KINDS)
def test_distance_similarity_and_score_agree_and_know_no_order(kind: dict[str, Any]) -> None:
    forest = TreeRank(**{"n_estimators": 5, **QUICK, **kind}).fit(SMALL, SMALL_Y)
    new, some = X[1:12], SMALL[:9]
    distance, similarity = forest.distance(new, some), forest.similarity(new, some)
    assert similarity.tobytes() == (1.0 - distance).tobytes()
    assert forest.distance(some, new).T.tobytes() == np.ascontiguousarray(distance).T.copy().T.tobytes()
    i, j = (grid.ravel() for grid in np.indices(distance.shape))
    assert forest.pair_distance(new[i], some[j]).tobytes() == distance.tobytes()
    assert forest.pair_distance(some[j], new[i]).tobytes() == distance.tobytes()
    assert forest.pair_score(some[j], new[i]).tobytes() == similarity.tobytes()
    square = forest.distance()
    assert square.tobytes() == forest.distance(SMALL).tobytes() == forest.distance(SMALL, SMALL).tobytes()
    np.testing.assert_array_equal(square, square.T)
    assert square.shape == (38, 38)
    assert square.min() >= 0.0
    with pytest.raises(InputError, match=naming("pairs", 11, 9)):
        forest.pair_score(new, some)


def test_zeros_of_both_signs_are_one_point() -> None:
    rng = np.random.default_rng(0)
    points = rng.integers(-1, 2, (40, 3)).astype(np.float32)
    minus = np.where(points == 0, np.float32(-0.0), points)
    for region in ("diagonal", "square"):
        forest = TreeRank(3, region=region, min_samples_leaf=1, **QUICK)
        plus = clone(forest).fit(points, np.arange(40) % 3)
        twin = clone(forest).fit(minus, np.arange(40) % 3)
        assert plus.forest_.table.threshold.tobytes() == twin.forest_.table.threshold.tobytes()
        assert plus.distance(points, minus).tobytes() == plus.distance(minus, points).tobytes()
        assert plus.distance(points, minus).tobytes() == plus.distance(points, points).tobytes()


@pytest.mark.parametrize("kind", KINDS)
def test_neighbours_are_those_of_the_distances(kind: dict[str, Any]) -> None:
    forest = TreeRank(**{"n_estimators": 5, **QUICK, **kind}).fit(SMALL, SMALL_Y)
    new = forest.distance(X[1:20], SMALL)
    distances, indices = forest.kneighbors(X[1:20], 7)
    np.testing.assert_array_equal(indices, np.argsort(new, axis=1, kind="stable")[:, :7])
    np.testing.assert_array_equal(distances, np.take_along_axis(new, indices, axis=1))
    own = forest.distance()
    np.fill_diagonal(own, np.inf)
    np.testing.assert_array_equal(
        forest.kneighbors(n_neighbors=4, return_distance=False), np.argsort(own, axis=1, kind="stable")[:, :4]
    )
    with pytest.raises(InputError, match=naming("n_neighbors", "1..37", 38)):
        forest.kneighbors(n_neighbors=38)


def test_the_curve_of_one_tree_is_that_of_its_pairs() -> None:
    forest = TreeRank(1, sampling="all", max_features=None, min_samples_leaf=2, **QUICK).fit(SMALL, SMALL_Y)
    fpr, tpr, _ = roc_curve(ALIKE, forest.pair_score(*SMALL[ALL.T]), drop_intermediate=False)
    assert forest.roc_.fpr.tolist() == fpr.tolist() == forest.tree_rocs_[0].fpr.tolist()
    assert forest.roc_.tpr.tolist() == tpr.tolist()
    assert forest.auc_ == pytest.approx(np.trapezoid(tpr, fpr), abs=1e-12)
    assert 0.8 < forest.auc_ <= 1


def test_the_curve_of_a_forest_is_the_mean_of_its_trees() -> None:
    forest = TreeRank(4, **QUICK).fit(SMALL, SMALL_Y)
    rates = np.linspace(0, 1, 101)
    np.testing.assert_allclose(
        forest.roc_.at(rates), np.mean([curve.at(rates) for curve in forest.tree_rocs_], axis=0), atol=1e-14
    )
    assert forest.auc_ == pytest.approx(forest.roc_.auc, abs=1e-12)


def test_a_rate_that_matters_bends_the_curve_there() -> None:
    whole = TreeRank(3, max_bins=None, max_features=None, **QUICK).fit(X, Y % 2)
    bent = clone(whole).set_params(optimise_fpr=0.1).fit(X, Y % 2)
    for full, some in zip(whole.tree_rocs_, bent.tree_rocs_, strict=True):
        early = full.fpr < 0.1
        assert some.tpr[: early.sum()].tolist() == full.tpr[early].tolist()
        assert len(some.fpr) < len(full.fpr)
    with pytest.warns(DistforestWarning, match=naming("optimise_fpr=0.0")):
        flat = clone(whole).set_params(optimise_fpr=0.0).fit(X, Y % 2)
    assert flat.auc_ == 0.5
    assert (flat.distance(X[:5]) == 0.0).all()


@pytest.mark.parametrize("region", ["diagonal", "square"])
def test_given_pairs_lead_to_the_trees_of_their_labels(region: str) -> None:
    """Cuts at any value do not depend on the order of pairs, nor on that of two points."""
    forest = TreeRank(1, region=region, sampling="all", max_bins=None, min_samples_leaf=2, **QUICK)
    by_labels = clone(forest).fit(SMALL, SMALL_Y)
    order = np.random.default_rng(0).permutation(len(ALL))
    by_pairs = forest.set_params(n_pairs=len(ALL)).fit_pairs(SMALL, ALL[order, ::-1], ALIKE[order])
    for name, array in by_labels.forest_.table.arrays().items():
        np.testing.assert_array_equal(by_pairs.forest_.table.arrays()[name], array)
    assert not hasattr(by_pairs, "classes_")
    assert by_labels.classes_.tolist() == [0, 1, 2]
    assert by_labels.auc_ == by_pairs.auc_


@pytest.mark.parametrize("codes", [(1, 0), (1, -1), (True, False), (1.0, 0.0)])
def test_similar_pairs_are_said_in_any_of_the_usual_ways(codes: tuple[Any, Any]) -> None:
    forest = TreeRank(2, **QUICK).fit_pairs(SMALL, ALL, ALIKE)
    twin = clone(forest).fit_pairs(SMALL, ALL.tolist(), np.where(ALIKE, *codes).tolist())
    assert twin.digest_ == forest.digest_


@pytest.mark.parametrize("kind", KINDS)
def test_a_sealed_forest_answers_as_the_fitted_one(kind: dict[str, Any], tmp_path: Path) -> None:
    forest = TreeRank(**{"n_estimators": 4, **QUICK, **kind}).fit(SMALL, NAMES[::4])
    path = tmp_path / "ranks.zarr"
    assert forest.save(path) == forest.digest_
    opened = load(path)
    assert isinstance(opened, TreeRank)
    assert opened.digest_ == forest.digest_
    assert opened.distance(X[:9]).tobytes() == forest.distance(X[:9]).tobytes()
    assert opened.auc_ == forest.auc_
    assert opened.kneighbors(n_neighbors=3)[1].tolist() == forest.kneighbors(n_neighbors=3)[1].tolist()
    assert {k: v for k, v in opened.get_params().items() if k != "n_jobs"} == {
        k: v for k, v in forest.get_params().items() if k != "n_jobs"
    }
    assert opened.n_features_in_ == 4
    for twin in (pickle.loads(pickle.dumps(forest)), clone(opened).fit(SMALL, NAMES[::4])):
        assert twin.digest_ == forest.digest_
        assert twin.similarity(X[:5]).tobytes() == forest.similarity(X[:5]).tobytes()


@pytest.mark.parametrize("kind", KINDS)
def test_the_digest_does_not_depend_on_threads_or_names_of_labels(kind: dict[str, Any]) -> None:
    forest = TreeRank(**{"n_estimators": 5, **QUICK, **kind}).fit(SMALL, SMALL_Y)
    threads = clone(forest).set_params(n_jobs=3).fit(SMALL, SMALL_Y)
    assert threads.digest_ == forest.digest_
    assert threads.distance(X).tobytes() == forest.distance(X).tobytes()
    names = clone(forest).fit(SMALL, NAMES[::4])
    assert names.forest_.table.threshold.tobytes() == forest.forest_.table.threshold.tobytes()
    other = clone(forest).set_params(random_state=1).fit(SMALL, SMALL_Y)
    assert other.digest_ != forest.digest_


def test_works_with_nearest_neighbours_and_grid_search() -> None:
    model = make_pipeline(TreeRank(6, **QUICK), KNeighborsClassifier(metric="precomputed"))
    assert model.fit(X[::2], Y[::2]).score(X[1::2], Y[1::2]) > 0.9
    forest = TreeRank(6, **QUICK).fit(X[::2], Y[::2])
    neighbours = KNeighborsClassifier(metric="precomputed").fit(forest.distance(), Y[::2])
    assert neighbours.score(forest.distance(X[1::2], X[::2]), Y[1::2]) > 0.9
    assert "max_depth" in GridSearchCV(forest, {"max_depth": [1, 4]}).estimator.get_params()


@pytest.mark.parametrize(
    ("params", "named"),
    [
        ({"leafrank": "forest"}, ("leafrank", "'tree'", "'linear'", "'forest'")),
        ({"region": "round"}, ("region", "'diagonal'", "'square'", "'round'")),
        ({"sampling": "some"}, ("sampling", "'uniform'", "'some'")),
        ({"max_depth": 51}, ("max_depth", [1, 50], 51)),
        ({"max_depth": 0}, ("max_depth", [1, 50], " 0")),
        ({"optimise_fpr": 1.5}, ("optimise_fpr", [0.0, 1.0], 1.5)),
        ({"n_pairs": 1}, ("n_pairs", "[2, ", " 1")),
        ({"aggregation": "kendall"}, ("aggregation", "'mean'", "'median'", "'kendall'")),
        ({"max_samples": 39}, ("max_samples=39", 38)),
        ({"leafrank": "linear", "region": "square"}, ("leafrank='linear'", "region='diagonal'", "'square'")),
        ({"n_jobs": 0}, ("n_jobs", 0)),
        ({"random_state": -1}, ("random_state", -1)),
    ],
)
def test_bad_parameters_are_refused(params: dict[str, Any], named: tuple[object, ...]) -> None:
    with pytest.raises(InputError, match=naming(*named)):
        TreeRank(**{"n_estimators": 2, **QUICK, **params}).fit(SMALL, SMALL_Y)


@pytest.mark.filterwarnings("ignore:DF007")
@pytest.mark.parametrize(("labels", "named"), [(np.zeros(38), "38 points"), (np.arange(38), "38 of one")])
def test_labels_of_one_kind_of_pair_are_refused(labels: np.ndarray, named: str) -> None:
    with pytest.raises(InputError, match=naming("labels:", named)):
        TreeRank(2).fit(SMALL, labels)


@pytest.mark.parametrize(
    ("pairs", "similar", "named"),
    [
        ([[0, 1], [2, 3]], [True, True], ("only similar",)),
        ([[0, 1], [2, 3]], [0, 0], ("only dissimilar",)),
        ([[0, 1], [2, 3]], [1], ("2 pairs", 1, "similar")),
        ([[0, 1], [2, 2]], [1, 0], ("pairs:", "point 2", "pair 1")),
        ([[0, 1], [2, 38]], [1, 0], ("pairs:", "0..37", 38, "pair 1")),
        ([[0, 1], [2, 3]], [1, 2], ("similar:", [1, 2])),
        ([0, 1], [1, 0], ("pairs:", "int64 (2,)")),
    ],
)
def test_pairs_that_cannot_be_used_are_refused(pairs: Any, similar: Any, named: tuple[object, ...]) -> None:
    with pytest.raises(InputError, match=naming(*named)):
        TreeRank(2).fit_pairs(SMALL, pairs, similar)


def test_points_that_cannot_be_used_are_refused() -> None:
    with pytest.raises(InputError, match="n_samples=2"):
        TreeRank(2).fit(SMALL[:2], [0, 1])
    with pytest.raises(InputError, match=naming("features", "1.70141e+38", "2.76e+38")):
        TreeRank(2).fit(SMALL * 4e37, SMALL_Y)
    with pytest.raises(NotFittedError):
        _ = TreeRank(2).roc_
    forest = TreeRank(2, **QUICK).fit(SMALL, SMALL_Y)
    with pytest.raises(ValueError, match=naming(3, "TreeRank", 4)):
        forest.distance(SMALL[:, :3])
    with pytest.raises(InputError, match=naming("features", "row 0", "column 0")):
        forest.pair_score(SMALL[:1] * np.inf, SMALL[:1])


@pytest.mark.slow
@settings(max_examples=40)
@given(
    seed=st.integers(0, 2**32),
    n=st.integers(3, 9),
    grid=st.sampled_from([0, 1, 2]),  # any points; all alike; of two values
    max_bins=st.sampled_from([None, 2, 256]),
    small=st.sampled_from([("diagonal", "tree"), ("diagonal", "linear"), ("square", "tree")]),
    sampling=st.sampled_from(["uniform", "balanced", "all"]),
    n_pairs=st.sampled_from([2, 7, 1000]),
    min_samples_leaf=st.sampled_from([1, 3, 100]),
)
def test_the_smallest_data(
    seed: int,
    n: int,
    grid: int,
    max_bins: int | None,
    small: tuple[str, str],
    sampling: str,
    n_pairs: int,
    min_samples_leaf: int,
) -> None:
    rng = np.random.default_rng(seed)
    points = rng.integers(0, grid, (n, 2)) if grid else rng.normal(size=(n, 2))
    labels = rng.integers(0, 3, n)
    sizes = np.bincount(labels)
    forest = TreeRank(
        2,
        max_bins=max_bins,
        region=small[0],
        leafrank=small[1],
        sampling=sampling,
        n_pairs=n_pairs,
        min_samples_leaf=min_samples_leaf,
        random_state=seed % 97,
    )
    if (sizes > 0).sum() < 2 or sizes.max() < 2:
        with pytest.raises(InputError, match=naming("labels:", "two points")):
            forest.fit(points, labels)
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DistforestWarning)
        found = forest.fit(points, labels).similarity()
    forest.forest_.check()
    assert ((found > 0) & (found <= 1)).all()
    np.testing.assert_array_equal(found, found.T)
    if grid == 1 or min_samples_leaf == 100:
        assert (found == 1).all()
