"""Masked arrays at every door: NaN where what is unobserved may stand, else refused as NaN is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

from distforest import (
    RFD,
    SMERF,
    Lazy,
    SimForestClassifier,
    SimForestOutlier,
    SimForestRegressor,
    TreeRank,
    URerF,
    pairwise,
)
from distforest.errors import InputError
from distforest.sources.factors import Labels
from tests import samples
from tests.estimators.rows import DISTANCES, SMALL, SMALL_Y, TARGETS
from tests.messages import naming

LOST = (np.random.default_rng(1).random(DISTANCES.shape) < 0.1) & ~np.eye(len(DISTANCES), dtype=bool)
FAR = np.ma.array(np.where(LOST, -999.0, DISTANCES), mask=LOST)
GAPS = np.where(LOST, np.nan, DISTANCES)
ROWS = np.ma.array(SMALL, mask=np.zeros(SMALL.shape, bool))
ROWS[3, 1] = np.ma.masked
BEARING = [
    SMERF(2, random_state=0),
    URerF(n_estimators=2, min_samples_split=2, random_state=0),
    SimForestClassifier("linear", n_estimators=2, random_state=0),
    SimForestClassifier("feature_subsets", n_estimators=2, random_state=0),
    SimForestOutlier("linear", n_estimators=2, random_state=0),
    RFD(n_estimators=2, random_state=0),
    TreeRank(n_estimators=2, random_state=0),
]
"""Estimators whose features may lack values."""

ON_SIMILARITIES = [
    SimForestClassifier(kind="distance", n_estimators=5, random_state=0),
    SimForestRegressor(kind="distance", n_estimators=5, random_state=0),
    SimForestOutlier(kind="distance", n_estimators=5, random_state=0),
]


def fit_clone(estimator: Any, X: Any, y: Any) -> Any:
    return clone(estimator).fit(X, Labels(y) if isinstance(estimator, SMERF) else y)


@pytest.mark.parametrize("estimator", BEARING, ids=str)
def test_masked_features_are_missing(estimator: Any) -> None:
    holes = ROWS.filled(np.nan)
    masked, gaps = fit_clone(estimator, ROWS, SMALL_Y), fit_clone(estimator, holes, SMALL_Y)
    assert masked.digest_ == gaps.digest_
    is_of_features = not isinstance(estimator, (SimForestClassifier, SimForestOutlier))
    assert (masked.forest_.table.missing_right is not None) == is_of_features
    np.testing.assert_array_equal(masked.distance(ROWS), gaps.distance(holes))


@pytest.mark.parametrize("estimator", ON_SIMILARITIES, ids=str)
def test_masked_similarities_are_unobserved(estimator: Any) -> None:
    y = TARGETS if isinstance(estimator, SimForestRegressor) else TARGETS > 0
    masked, gaps = clone(estimator).fit(FAR, y), clone(estimator).fit(GAPS, y)
    assert masked.digest_ == gaps.digest_
    np.testing.assert_array_equal(masked.predict(FAR), gaps.predict(GAPS))
    np.testing.assert_array_equal(masked.apply(FAR), gaps.apply(GAPS))


@pytest.mark.parametrize("estimator", [*BEARING, *ON_SIMILARITIES[:2]], ids=str)
def test_a_masked_truth_is_refused(estimator: Any) -> None:
    if isinstance(estimator, (URerF, SimForestOutlier)):  # it is not taught
        return
    X = DISTANCES if estimator in ON_SIMILARITIES else SMALL
    y = np.ma.array(np.arange(len(X)) % 3, mask=np.arange(len(X)) == 5)
    with pytest.raises(InputError, match=naming("NaN", "row 5")):
        fit_clone(estimator, X, y)


def test_masked_links_of_pairs_are_refused() -> None:
    pairs, similar = np.array([[0, 1], [0, 2], [3, 4]]), np.ma.array([1, 0, 1], mask=[0, 0, 1])
    with pytest.raises(InputError, match=naming("similar:", "pair 2")):
        RFD(n_estimators=2).fit_pairs(SMALL, pairs, similar)
    with pytest.raises(InputError, match=naming("pairs:", "pair 2")):
        RFD(n_estimators=2).fit_pairs(SMALL, np.ma.masked_equal(pairs, 4), [1, 0, 1])


def test_masked_feature_weights_are_refused() -> None:
    weights = np.ma.array(np.ones(SMALL.shape[1]), mask=[1, 0, 0, 0])
    with pytest.raises(InputError, match="feature_weights"):
        SMERF(2, feature_weights=weights).fit(SMALL, Labels(SMALL_Y))


def test_a_function_that_answers_with_masks_grows_the_forest_of_the_gaps() -> None:
    def far(left: Any, right: Any) -> Any:
        return FAR[left, right]

    places = np.arange(len(FAR))
    options = {"n_estimators": 5, "bootstrap": False, "random_state": 0}
    whole = SimForestClassifier(kind="distance", **options, **samples.PAPER).fit(GAPS, TARGETS > 0)
    for function in (far, pairwise(lambda a, b: FAR[a, b])):
        similarity = Lazy(function, kind="distance", symmetric=False)
        assert SimForestClassifier(similarity, **options).fit(places, TARGETS > 0).digest_ == whole.digest_
