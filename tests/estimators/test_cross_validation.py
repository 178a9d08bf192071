"""Every estimator under scikit-learn's tools, run for real: cross-validation, grids, pipelines, what comes out."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_matrix
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import r2_score
from sklearn.model_selection import GridSearchCV, KFold, cross_val_predict, cross_val_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from distforest import (
    RFD,
    SMERF,
    Distances,
    Embedding,
    Graph,
    Labels,
    Lazy,
    SimForestClassifier,
    SimForestOutlier,
    SimForestRegressor,
    Targets,
    TreeRank,
    URerF,
    load,
    pairwise,
)
from distforest.errors import DistforestWarning, InputError
from distforest.forest import scoring
from distforest.sources.arrays import open_array, write_array
from distforest.sources.truth import Truth
from tests.estimators import rows
from tests.messages import naming

if TYPE_CHECKING:
    from pathlib import Path

ORDER = np.random.default_rng(0).permutation(len(rows.X))[:90]
X, Y, NAMES = rows.X[ORDER], rows.Y[ORDER], rows.NAMES[ORDER]
LENGTH = X[:, 2]
Z = np.abs(LENGTH[:, None] - LENGTH)
DOTS = X @ X.T
USUAL = np.where(Y == 0, -1, 1)
RANKS: dict[str, Any] = {"n_pairs": 400, "leafrank_depth": 2, "random_state": 0}


@pairwise
def letters_apart(a: str, b: str) -> float:
    return abs(len(a) - len(b)) + sum(x != y for x, y in zip(a, b, strict=False))


WORDS = [*("ballad", "ballet", "ballot", "wallet", "pallet", "pellet"), *("sum", "sun", "run", "pun", "gun", "gin")] * 2
LETTERS = [*map(len, WORDS)]
ASKED = Lazy(letters_apart, kind="distance")
TAUGHT: list[tuple[Any, Any, Any, dict[str, Any] | None]] = [
    (SMERF(10, random_state=0), X, Distances(Z), None),
    (SMERF(10, random_state=0), X, Graph(1.0 - Z / Z.max()), None),
    (SMERF(10, random_state=0), X, Y, None),
    (SMERF(10, random_state=0), X, Y, {"scoring": "accuracy"}),
    (SMERF(10, random_state=0), X, Targets(LENGTH), None),
    (SMERF(10, random_state=0), X, Embedding(X[:, 2:]), None),
    (RFD(10, random_state=0), X, NAMES, None),
    (TreeRank(4, **RANKS), X, NAMES, None),
    (SimForestClassifier("rbf", n_estimators=10, random_state=0), X, NAMES, None),
    (SimForestClassifier(n_estimators=10, random_state=0), DOTS, Y, None),
    (SimForestClassifier(n_estimators=10, random_state=0), csr_matrix(DOTS), Y, None),
    (SimForestClassifier(n_estimators=10, kind="distance", random_state=0), Z, Y, None),
    (SimForestClassifier(ASKED, n_estimators=5, random_state=0), WORDS, LETTERS, None),
    (SimForestRegressor("linear", n_estimators=10, random_state=0), X, LENGTH, None),
    (SimForestRegressor(n_estimators=10, random_state=0), DOTS, LENGTH, None),
    (
        SimForestOutlier("rbf", gamma=0.01, n_estimators=10, random_state=0),
        X[Y < 2],
        USUAL[Y < 2],
        {"scoring": "roc_auc"},
    ),
]
"""An estimator, what it reads and is taught, and what cross-validation must be told beside."""


@pytest.mark.slow
@pytest.mark.parametrize(("estimator", "given", "truth", "told"), TAUGHT)
def test_every_estimator_is_cross_validated(
    estimator: Any, given: Any, truth: Any, told: dict[str, Any] | None
) -> None:
    folds = KFold(3, shuffle=True, random_state=0)
    scores = cross_val_score(estimator, given, truth, cv=folds, error_score="raise", **(told or {}))
    assert scores.shape == (3,)
    assert isinstance(estimator, SimForestOutlier) or scores.mean() > 0.4
    search = GridSearchCV(estimator, {"n_estimators": [1, 10]}, cv=folds, error_score="raise", **(told or {}))
    search.fit(given, truth)
    assert search.best_score_ >= scores.mean() - 0.2
    assert clone(search).estimator.get_params() == estimator.get_params()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("estimator", "truth"),
    [
        (SMERF(10, random_state=0), Y),
        (RFD(10, random_state=0), Y),
        (RFD(10, position=False, random_state=0), NAMES),
        (TreeRank(4, **RANKS), Y),
        (TreeRank(4, region="square", **RANKS), Y),
    ],
)
def test_distances_go_to_nearest_neighbours(estimator: Any, truth: np.ndarray) -> None:
    model = make_pipeline(StandardScaler(), estimator, KNeighborsClassifier(metric="precomputed"))
    search = GridSearchCV(model, {"kneighborsclassifier__n_neighbors": [1, 5]}, cv=3, error_score="raise")
    assert search.fit(X, truth).best_score_ > 0.85
    fitted = clone(estimator).fit(X, truth)
    np.testing.assert_array_equal(fitted.transform(X[:7]), fitted.distance(X[:7], X))
    np.testing.assert_array_equal(clone(estimator).fit_transform(X, truth), fitted.distance())


def test_leaves_go_to_a_linear_classifier() -> None:
    model = make_pipeline(URerF(10, min_samples_split=10, random_state=0), LogisticRegression())
    search = GridSearchCV(model, {"urerf__min_samples_split": [10, 40]}, cv=3, error_score="raise")
    assert search.fit(X, Y).best_score_ > 0.85


def test_what_was_taught_nothing_is_scored_by_what_the_user_says() -> None:
    def own(forest: URerF, rows: np.ndarray, labels: np.ndarray) -> float:
        near = forest.proximity(rows)
        return float(near[labels[:, None] == labels].mean() - near[labels[:, None] != labels].mean())

    search = GridSearchCV(URerF(10, random_state=0), {"min_samples_split": [20, 1000]}, scoring=own, cv=3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DistforestWarning)
        assert search.fit(X, Y).best_params_ == {"min_samples_split": 20}
    with pytest.raises(TypeError, match=naming("scoring", "URerF")):
        cross_val_score(URerF(2), X, Y)


# --- distances that are cut on both sides -----------------------------------------------------------------


def test_folds_of_distances_are_scored_as_if_cut_by_hand() -> None:
    forest = SMERF(10, random_state=0)
    found = cross_val_score(forest, X, Distances(Z), cv=3, error_score="raise")
    expected = []
    for train, test in KFold(3).split(X):
        forest.fit(X[train], Z[np.ix_(train, train)])
        upper = np.triu_indices(len(test), 1)
        expected.append(r2_score(Z[np.ix_(test, test)][upper], forest.distance(X[test])[upper]))
    np.testing.assert_allclose(found, expected)
    assert found.mean() > 0.8


def test_a_pair_weighs_the_product_of_the_weights_of_its_rows_in_the_score() -> None:
    train, test = np.arange(90) % 2 == 0, np.arange(90) % 2 == 1
    forest = SMERF(5, random_state=0).fit(X[train], Distances(Z)[train])
    weights = np.random.default_rng(0).integers(0, 4, 45).astype(float)
    left, right = np.triu_indices(45, 1)
    own, found = Z[np.ix_(test, test)][left, right], forest.distance(X[test])[left, right]
    of_pairs = weights[left] * weights[right]
    expected = 1.0 - of_pairs @ (own - found) ** 2 / (of_pairs @ (own - np.average(own, weights=of_pairs)) ** 2)
    for factor in (1.0, 1e300):
        score = forest.score(X[test], Distances(Z)[test], factor * weights)
        assert score == pytest.approx(expected, abs=1e-7)  # distances are read as float32
    assert score != pytest.approx(forest.score(X[test], Distances(Z)[test]), abs=1e-3)
    kept = np.flatnonzero(test)[weights > 0]  # 0 is absent
    absent = np.where(np.isin(np.flatnonzero(test), kept), 1.0, 0.0)
    assert forest.score(X[test], Distances(Z)[test], absent) == forest.score(X[kept], Distances(Z)[kept])
    with pytest.raises(InputError, match=naming("score", "weight", 1)):
        forest.score(X[test], Distances(Z)[test], np.eye(45)[0])
    with pytest.raises(InputError, match=naming("sample_weight:", (45,), (44,))):
        forest.score(X[test], Distances(Z)[test], weights[1:])


def test_distances_are_the_matrix_that_they_hold() -> None:
    plain = SMERF(5, random_state=0).fit(X, Z)
    assert SMERF(5, random_state=0).fit(X, Distances(Z)).digest_ == plain.digest_
    assert SMERF(5, random_state=0).fit(X, Distances(Z.tolist())).digest_ == plain.digest_
    assert plain.score(X, Distances(Z)) == plain.score(X, Z)
    assert len(Distances(Z)) == 90
    assert Distances(Z).shape == Graph(Z).shape == (90, 90)


@pytest.mark.parametrize("taken", [slice(3, 9, 2), [4, 1, 4], np.arange(90) % 7 == 0, np.array([-1, 2])])
@pytest.mark.parametrize("form", ["array", "list", "frame", "address", "zarr"])
def test_rows_taken_are_columns_taken(taken: Any, form: str, tmp_path: Path) -> None:
    write_array(f"{tmp_path}/a.zarr", "Z", Z.shape, Z.dtype, [Z])
    address = f"{tmp_path}/a.zarr/Z"
    forms = {"array": Z, "list": Z.tolist(), "frame": pd.DataFrame(Z), "address": address, "zarr": open_array(address)}
    expected = Z[taken][:, taken]
    np.testing.assert_array_equal(Distances(forms[form])[taken].values, expected)
    np.testing.assert_array_equal(Graph(forms[form])[taken].adjacency, expected)
    np.testing.assert_array_equal(Truth.from_given(Distances(forms[form])).values, Z.astype(np.float32))


def test_matrices_that_cannot_be_cut_are_refused() -> None:
    with pytest.raises(InputError, match=naming((90, 89))):
        Distances(Z[:, 1:])[[0]]
    with pytest.raises(InputError, match=naming("distances:", (90, 89))):
        SMERF(2).fit(X, Distances(Z[:, 1:]))
    with pytest.raises(InputError, match=naming("sparse", ".toarray()")):
        Distances(csr_matrix(Z))[[0]]
    with pytest.raises(InputError, match=naming("distances:", (60, 90), "Distances(Z)")):
        cross_val_score(SMERF(2), X, Z, cv=3, error_score="raise")


class _Path:
    """A graph as other libraries have them: nodes and edges, and no shape."""

    nodes = range(4)
    edges = ((0, 1), (1, 2), (2, 3))


def test_graphs_of_another_library_are_told_how_to_come_in() -> None:
    told = naming("_Path", "Graph.of_networkx(graph, nodes)")
    for given in (Graph(_Path()), _Path()):
        with pytest.raises(InputError, match=told):
            SMERF(2).fit(X[:4], given)
    with pytest.raises(InputError, match=told):
        _ = Graph(_Path())[:2]


# --- scores of pairs --------------------------------------------------------------------------------------


def area(distances: np.ndarray, unlike: np.ndarray) -> float:
    """The chance that a pair alike is nearer than a pair unlike, ties counting one half."""
    near, far = distances[~unlike, None], distances[unlike]
    return float((near < far).mean() + (near == far).mean() / 2)


@pytest.mark.parametrize("estimator", [RFD(7, random_state=0), TreeRank(3, **RANKS)])
def test_the_score_is_the_area_under_the_curve_of_all_pairs(estimator: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    forest = clone(estimator).fit(X[:60], NAMES[:60])
    new, names = X[60:], NAMES[60:]
    left, right = np.triu_indices(30, 1)
    expected = area(forest.distance(new)[left, right], names[left] != names[right])
    assert forest.score(new, names) == pytest.approx(expected, abs=1e-12)
    assert 0.8 < expected < 1.0
    pairs, similar = np.stack([left, right], axis=1), names[left] == names[right]
    for said in (similar, np.where(similar, 1, -1)):
        assert forest.roc_auc_score(new, pairs, said) == pytest.approx(expected, abs=1e-12)
    some = slice(None, None, 7)
    expected = area(forest.pair_distance(new[left[some]], new[right[some]]), ~similar[some])
    assert forest.roc_auc_score(new, pairs[some], similar[some]) == pytest.approx(expected, abs=1e-12)
    monkeypatch.setattr("distforest.sources.truth.MOST_SCORED_PAIRS", 200)
    assert forest.score(new, names) == forest.score(new, names) != expected


@pytest.mark.parametrize("estimator", [RFD(2, random_state=0), TreeRank(2, **RANKS)])
def test_scores_that_mean_nothing_are_refused(estimator: Any) -> None:
    with pytest.raises(NotFittedError):
        clone(estimator).score(X, Y)
    forest = clone(estimator).fit(X, Y)
    with pytest.raises(InputError, match=naming("score:", "435 pairs", 0)):
        forest.score(X[:30], np.zeros(30))
    with pytest.raises(InputError, match=naming("score:", "3 pairs")):
        forest.score(X[:3], [0, 1, 2])
    with pytest.raises(InputError, match=naming("score:", "0 pairs")):
        forest.score(X[:1], [0])
    with pytest.raises(InputError, match=naming(90, 89, "labels")):
        forest.score(X, Y[1:])
    with pytest.raises(InputError, match=naming("2 pairs", 1, "similar")):
        forest.roc_auc_score(X, [[0, 1], [1, 2]], [True])
    with pytest.raises(ValueError, match=naming(3, type(forest).__name__, 4)):
        forest.score(X[:, 1:], Y)


# --- predictions of SMERF ---------------------------------------------------------------------------------


def test_what_was_taught_is_predicted(tmp_path: Path) -> None:
    labelled = SMERF(10, random_state=0).fit(X, NAMES)
    shares = scoring.predict(labelled.forest_, labelled.apply(X).T.copy())
    np.testing.assert_array_equal(labelled.predict(X), np.unique(NAMES)[shares.argmax(axis=1)])
    np.testing.assert_array_equal(labelled.predict_proba(X), shares)
    assert labelled.classes_.tolist() == sorted(set(NAMES))
    aimed = SMERF(10, random_state=0).fit(X, Targets(LENGTH))
    assert aimed.predict(X).shape == (90,)
    assert r2_score(LENGTH, aimed.predict(X)) > 0.9
    placed = SMERF(10, random_state=0).fit(X, Embedding(X[:, 2:]))
    assert placed.predict(X[:5]).shape == (5, 2)
    np.testing.assert_allclose(placed.predict(X), X[:, 2:], atol=1.0)
    with pytest.raises(InputError, match=naming("targets", "`predict`")):
        aimed.predict_proba(X)
    with pytest.raises(InputError, match=naming("embedding", "`predict`")):
        placed.predict_proba(X)
    for forest in (labelled, aimed, placed):
        place = tmp_path / f"{forest.digest_}.zarr"
        forest.save(place)
        np.testing.assert_array_equal(load(place).predict(X), forest.predict(X))
    assert (cross_val_predict(SMERF(10, random_state=0), X, NAMES, cv=3) == NAMES).mean() > 0.9


def test_whoever_was_taught_distances_predicts_distances_alone() -> None:
    forest = SMERF(3, random_state=0).fit(X, Z)
    with pytest.raises(InputError, match=naming("distances", "`distance`")):
        forest.predict(X)
    with pytest.raises(InputError, match=naming("distances", "`distance`")):
        forest.predict_proba(X)
    with pytest.raises(AttributeError, match="classes_"):
        _ = forest.classes_
    with pytest.raises(NotFittedError):
        SMERF().predict(X)


# --- names of what comes out ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("estimator", "truth"),
    [(SMERF(3, random_state=0), Distances(Z)), (RFD(3, random_state=0), Y), (TreeRank(2, **RANKS), Labels(Y).values)],
)
def test_columns_that_come_out_have_names_and_a_frame(estimator: Any, truth: Any) -> None:
    frame = pd.DataFrame(X, columns=[*"abcd"])
    forest = clone(estimator).set_output(transform="pandas").fit(frame, truth)
    names = [f"{type(forest).__name__.lower()}{k}" for k in range(90)]
    found = forest.transform(frame[:5])
    assert found.columns.tolist() == forest.get_feature_names_out().tolist() == names
    np.testing.assert_array_equal(found.to_numpy(), forest.distance(frame[:5], frame))
    with pytest.raises(ValueError, match=naming("input_features", "feature_names_in_")):
        forest.get_feature_names_out([*"bacd"])
    with pytest.raises(NotFittedError):
        clone(estimator).get_feature_names_out()


def test_leaves_have_names_and_stay_sparse() -> None:
    frame = pd.DataFrame(X, columns=[*"abcd"], index=[f"row {k}" for k in range(90)])
    forest = URerF(3, min_samples_split=20, random_state=0).fit(frame)
    found = forest.transform(frame)
    names = [f"urerf{k}" for k in range(found.shape[1])]
    assert forest.get_feature_names_out().tolist() == names
    leaves = forest.set_output(transform="pandas").transform(frame)
    assert leaves.columns.tolist() == names
    assert leaves.index.equals(frame.index)
    assert (leaves.sparse.to_coo() != found).nnz == 0
    assert forest.fit_transform(frame).columns.tolist() == names


def test_scores_of_scikit_learn_compare_predictions_with_targets() -> None:
    forest, folds = SMERF(20, random_state=0), KFold(3)
    scores = cross_val_score(forest, X[:, [0, 1, 3]], Targets(LENGTH), cv=folds, scoring="r2")
    predicted = [
        forest.fit(X[train][:, [0, 1, 3]], Targets(LENGTH[train])).predict(X[test][:, [0, 1, 3]])
        for train, test in folds.split(X)
    ]
    truth = [LENGTH[test] for _, test in folds.split(X)]
    assert scores.tolist() == [r2_score(own, found) for own, found in zip(truth, predicted, strict=True)]
    assert np.asarray(Targets([1.0, 3.0]), np.float32).tolist() == [1.0, 3.0]
