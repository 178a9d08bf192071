"""Entropy and Poisson deviance, against their formulas over every cut, and against scikit-learn's trees."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from distforest import SMERF, Distances, Labels, SimForestClassifier, Targets
from distforest.errors import InputError
from distforest.growth.cuts.entropy import Entropy
from distforest.growth.cuts.poisson import Poisson
from tests import samples
from tests.growth.cuts.test_criteria import FREE, Search, codes_of, cut, searches


def entropy(codes: np.ndarray, weights: np.ndarray) -> float:
    """m H = -sum_k m_k log(m_k / m)."""
    masses = [float(weights[codes == k].sum()) for k in np.unique(codes)]
    return -sum(m * math.log(m / sum(masses)) for m in masses)


def deviance(targets: np.ndarray, weights: np.ndarray) -> float:
    """sum w y log(y / mean), where 0 log 0 = 0."""
    mean = float((weights * targets).sum() / weights.sum())
    return sum(w * y * math.log(y / mean) for y, w in zip(targets.tolist(), weights.tolist(), strict=True) if y > 0)


def best_gains(search: Search, truth: np.ndarray, disorder: object) -> list[float]:
    """The largest gain of each node over all cuts of values that are all observed; 0 if no cut gains anything."""
    gains, frontier = [], search.frontier
    for first, last in zip(frontier.starts[:-1], frontier.starts[1:], strict=True):
        own, weights = truth[frontier.rows[first:last]], frontier.weights[first:last]
        best = 0.0
        for values in search.values[:, first:last]:
            for threshold in np.unique(values)[:-1]:
                left = values <= threshold
                if min(weights[left].sum(), weights[~left].sum()) >= search.min_leaf:
                    parts = disorder(own[left], weights[left]) + disorder(own[~left], weights[~left])  # type: ignore[operator]
                    best = max(best, disorder(own, weights) - parts)  # type: ignore[operator]
        gains.append(best)
    return gains


@pytest.mark.kernels
@FREE
@given(searches().filter(lambda search: not np.isnan(search.values).any()), st.data())
def test_the_best_cut_gains_most_entropy(search: Search, data: st.DataObject) -> None:
    codes = codes_of(search, data)
    expected = best_gains(search, codes, entropy)
    np.testing.assert_allclose(cut(Entropy(codes, 3), search).gain.clip(0), expected, rtol=1e-9, atol=1e-9)


@pytest.mark.kernels
@FREE
@given(searches().filter(lambda search: not np.isnan(search.values).any()), st.data())
def test_the_best_cut_gains_most_poisson_deviance(search: Search, data: st.DataObject) -> None:
    counts = np.array(data.draw(st.lists(st.integers(0, 9), min_size=search.n, max_size=search.n)), np.float64)
    criterion = Poisson.from_counts(counts[:, None])
    expected = best_gains(search, counts, deviance)
    found = cut(criterion, search).gain.clip(0) * criterion.unit
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


def test_entropy_grows_scikit_learns_tree() -> None:
    X, y = samples.features(200, seed=3), samples.labels(200, 3)
    whole = {"n_estimators": 1, "bootstrap": False, "max_features": None, "random_state": 0}
    ours = SMERF(**whole, criterion="entropy", max_depth=3).fit(X, Labels(y))
    theirs = DecisionTreeClassifier(criterion="entropy", max_depth=3, random_state=0).fit(X, y)
    assert ours.forest_.table.tree_size.tolist() == [theirs.tree_.node_count]
    assert ours.digest_ != SMERF(**whole, max_depth=3).fit(X, Labels(y)).digest_


def test_poisson_deviance_grows_scikit_learns_stump() -> None:
    rng = np.random.default_rng(0)
    X = rng.random((300, 4)).astype(np.float32)
    y = rng.poisson(np.exp(2 * X[:, 1])).astype(float)
    ours = SMERF(n_estimators=1, bootstrap=False, max_features=None, criterion="poisson", max_depth=1, random_state=0)
    theirs = DecisionTreeRegressor(criterion="poisson", max_depth=1, random_state=0).fit(X, y)
    table = ours.fit(X, Targets(y)).forest_.table
    assert table.columns.tolist() == [theirs.tree_.feature[0]]
    assert table.threshold[0] == pytest.approx(theirs.tree_.threshold[0], rel=1e-6)


def test_bins_and_sparse_features_give_the_trees_of_dense_values() -> None:
    import scipy.sparse

    rng = np.random.default_rng(1)
    X = (rng.integers(0, 6, (150, 5)) * (rng.random((150, 5)) < 0.5)).astype(np.float32)
    y = rng.poisson(1 + X[:, 0])
    for criterion, truth in (("entropy", Labels(y)), ("poisson", Targets(y.astype(float)))):
        model = SMERF(n_estimators=5, max_features=None, random_state=0, criterion=criterion)
        dense = model.fit(X, truth).predict(X)
        np.testing.assert_array_equal(model.fit(scipy.sparse.csr_matrix(X), truth).predict(X), dense)
        np.testing.assert_array_equal(model.set_params(max_bins=255).fit(X, truth).predict(X), dense)


def test_a_criterion_goes_with_its_ground_truth() -> None:
    X, y = samples.features(20, seed=0), np.arange(20.0)
    for criterion, truth in (("entropy", Targets(y)), ("poisson", Labels(y)), ("poisson", Targets(y - 5.0))):
        with pytest.raises(InputError, match=criterion):
            SMERF(n_estimators=1, criterion=criterion).fit(X, truth)
    with pytest.raises(InputError, match="entropy"):
        SMERF(n_estimators=1, criterion="entropy").fit(X, Distances(np.abs(y[:, None] - y)))


def test_exemplars_take_no_other_impurity() -> None:
    forest = SimForestClassifier(n_estimators=1, cut="exemplars", criterion="entropy")
    with pytest.raises(InputError, match="criterion"):
        forest.fit(np.eye(6), [0, 0, 1, 1, 2, 2])


def test_targets_that_one_far_target_would_hide_are_refused() -> None:
    with pytest.raises(InputError, match="1e\\+30 in row 2"):
        SMERF(n_estimators=1, criterion="poisson").fit(np.arange(3.0)[:, None], Targets([1.0, 2.0, 1e30]))
