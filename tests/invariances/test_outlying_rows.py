"""A row far from all others, or 1 % of the entries at a sentinel, must not change what is said of other points."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from functools import cache
from typing import Any

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from scipy.stats import spearmanr
from sklearn.metrics import roc_auc_score

from distforest import (
    RFD,
    SMERF,
    Embedding,
    SimForestClassifier,
    SimForestOutlier,
    SimForestRegressor,
    Targets,
    TreeRank,
    URerF,
)
from distforest.errors import DistforestWarning
from tests.invariances.taught import OF_DISTANCES, SIMFORESTS, Data, partitions
from tests.messages import naming
from tests.samples import PAPER_RULE
from tests.simulated import helix, shared_neighbors

pytestmark = pytest.mark.slow

N = 200
POINTS = np.random.default_rng(0).normal(size=(2 * N, 3))
LABELS = (POINTS[:, 0] > 0).astype(int) + (POINTS[:, 1] > 0)
TARGETS = POINTS[:, 0] + 0.3 * POINTS[:, 1]
KNOWN, NEW = slice(N), slice(N, 2 * N)
UPPER = np.triu_indices(N, 1)
APART = cdist(TARGETS[NEW, None], TARGETS[NEW, None])
LOSS = 0.05
"""Of an area under the curve, accuracy, precision or correlation; data drawn anew make half of that."""

SMALL: dict[str, Any] = {"n_estimators": 30, "random_state": 0}


def far(size: float) -> Callable[[np.ndarray], np.ndarray]:
    """The first row at ``size`` in all columns."""

    def changed(X: np.ndarray) -> np.ndarray:
        return np.vstack([np.full((1, X.shape[1]), size), X[1:]])

    return changed


def with_sentinels(X: np.ndarray) -> np.ndarray:
    """A hundredth of the entries at -9999."""
    return np.where(np.random.default_rng(3).random(X.shape) < 0.01, -9999.0, X)


DIRT = {"1e3": far(1e3), "1e4": far(1e4), "1e6": far(1e6), "-1e5": far(-1e5), "sentinels": with_sentinels}


def alike(forest: Any) -> float:
    """The area under the curve by which a distance of new points tells who has the same label."""
    same = LABELS[NEW, None] == LABELS[NEW]
    return roc_auc_score(same[UPPER], -forest.distance(POINTS[NEW])[UPPER])


def order_kept(forest: Any) -> float:
    """How far a distance of new points agrees with that of their targets in its order."""
    return float(spearmanr(forest.distance(POINTS[NEW])[UPPER], APART[UPPER]).statistic)


def of_labels(**how: Any) -> Callable[[np.ndarray], float]:
    return lambda X: alike(SMERF(**SMALL, **how).fit(X, LABELS[KNOWN]))


def of_targets(truth: Callable[[np.ndarray], Any]) -> Callable[[np.ndarray], float]:
    return lambda X: order_kept(SMERF(**SMALL).fit(X, truth(TARGETS[KNOWN])))


def of_similarity(name: str) -> Callable[[np.ndarray], float]:
    return lambda X: SimForestClassifier(name, **SMALL).fit(X, LABELS[KNOWN]).score(POINTS[NEW], LABELS[NEW])


def of_matrix(kind: str, compare: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> Callable[[np.ndarray], float]:
    def score(X: np.ndarray) -> float:
        forest = SimForestClassifier(kind=kind, **SMALL).fit(compare(X, X), LABELS[KNOWN])
        return forest.score(compare(POINTS[NEW], X), LABELS[NEW])

    return score


def of_pairs(**how: Any) -> Callable[[np.ndarray], float]:
    return lambda X: alike(RFD(20, n_constraints=1000, random_state=0, **how).fit(X, LABELS[KNOWN]))


def of_ranks(**how: Any) -> Callable[[np.ndarray], float]:
    return lambda X: alike(TreeRank(5, n_pairs=5000, random_state=0, **how).fit(X, LABELS[KNOWN]))


def squares(values: np.ndarray) -> np.ndarray:
    """Half the squared differences: what `Targets` stands for."""
    return (values[:, None] - values) ** 2 / 2.0


SCORES: dict[str, Callable[[np.ndarray], float]] = {
    "labels": of_labels(),
    "labels, bins": of_labels(max_bins=64),
    "labels, random cuts": of_labels(splitter="random"),
    "labels, sums": of_labels(feature_combinations=2),
    "labels, normal sums": of_labels(feature_combinations=2, coefficients="normal"),
    "targets": of_targets(Targets),
    "embedding": of_targets(lambda values: Embedding(values[:, None])),
    "distances": of_targets(squares),
    "linear": of_similarity("linear"),
    "cosine": of_similarity("cosine"),
    "rbf": of_similarity("rbf"),
    "manhattan": of_similarity("manhattan"),
    "feature subsets": of_similarity("feature_subsets"),
    "similarity matrix": of_matrix("similarity", lambda A, B: A @ B.T),
    "distance matrix": of_matrix("distance", cdist),
    "regression": lambda X: (
        SimForestRegressor("linear", **SMALL).fit(X, TARGETS[KNOWN]).score(POINTS[NEW], TARGETS[NEW])
    ),
    "rfd": of_pairs(),
    "rfd, no bins": of_pairs(max_bins=None),
    "treerank": of_ranks(),
    "treerank, no bins": of_ranks(max_bins=None),
    "treerank, square": of_ranks(region="square"),
}
"""How well a method knows new points after it has learned from some rows, which may be dirty; the truth is clean."""


MARKS_WARNED = ("linear", "cosine", "rbf", "regression")
"""Methods by similarities that one cell decides: with more marks they do lose, so marks are told."""


@cache
def clean(method: str) -> float:
    return SCORES[method](POINTS[KNOWN])


@pytest.mark.parametrize("dirt", DIRT)
@pytest.mark.parametrize("method", SCORES)
def test_new_points_are_known_as_well_as_without(method: str, dirt: str) -> None:
    is_warned = dirt == "sentinels" and method in MARKS_WARNED
    with (
        pytest.warns(DistforestWarning, match=naming("DF006", "column 1", -9999, "2 places"))
        if is_warned
        else nullcontext()
    ):
        assert SCORES[method](DIRT[dirt](POINTS[KNOWN])) > clean(method) - LOSS


@pytest.mark.parametrize("name", ["rfd", "treerank", "treerank, square"])
def test_bins_of_pairs_see_features_of_a_long_tail(name: str) -> None:
    """As the same cuts at any value: X = exp(4 z)."""
    how = {"rfd": of_pairs, "treerank": of_ranks, "treerank, square": lambda **more: of_ranks(region="square", **more)}
    points = np.exp(4.0 * POINTS)

    def known(**bins: Any) -> float:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(f"{__name__}.POINTS", points)
            return how[name](**bins)(points[KNOWN])

    assert known() > known(max_bins=None) - LOSS


# --- what is taught ---------------------------------------------------------------------------------------


def taught(truth: Any) -> float:
    return order_kept(SMERF(max_features=None, **SMALL).fit(POINTS[KNOWN], truth))


@cache
def by_targets(outlier: float) -> float:
    return taught(Targets(with_outlier(outlier)))


def with_outlier(value: float) -> np.ndarray:
    """The targets that are known, the first of them another one."""
    return np.concatenate([[value], TARGETS[KNOWN][1:]])


@pytest.mark.filterwarnings("ignore::distforest.errors.DistforestWarning")
@pytest.mark.parametrize("outlier", [1e2, 1e4, 1e5, 1e7, 1e9])
def test_one_target_far_from_all_others_spoils_nothing(outlier: float) -> None:
    assert by_targets(outlier) > by_targets(TARGETS[0]) - LOSS


@pytest.mark.filterwarnings("ignore::distforest.errors.DistforestWarning")
@pytest.mark.parametrize("outlier", [1e2, 1e4, 1e5, 1e7, 1e9])
def test_distances_of_one_object_far_from_all_others_teach_as_targets_do(outlier: float) -> None:
    assert taught(squares(with_outlier(outlier))) > by_targets(TARGETS[0]) - LOSS


@pytest.mark.parametrize("offset", [-1e3, 1e3, 1e6, 1e7])
def test_an_offset_that_all_distances_have_teaches_nothing(offset: float) -> None:
    assert taught(squares(TARGETS[KNOWN]) + offset) > by_targets(TARGETS[0]) - LOSS


@pytest.mark.parametrize("offset", [1e2, 1e3, 1e4])
def test_features_with_an_offset_are_compared_as_well_as_without(offset: float) -> None:
    """A Gram matrix whose rows are shifted: of what it holds, its differences alone are asked for."""
    far_off = of_matrix("similarity", lambda A, B: (A + offset) @ (B + offset).T)
    assert far_off(POINTS[KNOWN]) > clean("similarity matrix") - LOSS


@pytest.mark.parametrize("shift", [-1e6, 1e4, 1e6])
@pytest.mark.parametrize("method", SIMFORESTS)
def test_a_large_shift_of_similarities_changes_no_leaf(method: str, shift: float) -> None:
    data = Data.drawn()
    assert partitions(SIMFORESTS[method](data.but(S=data.S + shift))) == partitions(SIMFORESTS[method](data))


@pytest.mark.parametrize("factor", [2.0**-80, 2.0**70])
@pytest.mark.parametrize("method", OF_DISTANCES)
def test_distances_whose_squares_no_float32_holds_lead_to_the_same_leaves(method: str, factor: float) -> None:
    data = Data.drawn()
    assert partitions(OF_DISTANCES[method](data.but(Z=data.Z * factor))) == partitions(OF_DISTANCES[method](data))


# --- nothing taught ---------------------------------------------------------------------------------------

HELIX = helix(300, 5)
UNTAUGHT: dict[str, Callable[[], URerF]] = {
    "default": lambda: URerF(40, random_state=0),
    "unscreened": lambda: URerF(40, feature_weights=None, random_state=0),
    "paper": lambda: URerF(40, **{**PAPER_RULE, "feature_combinations": 1.0}, random_state=0),
}


def unwound(forest: URerF, X: np.ndarray, usual: np.ndarray) -> float:
    """The share of 30 neighbours that are so along the helix, among the usual rows."""
    return shared_neighbors(forest.fit(X).proximity()[np.ix_(usual, usual)], HELIX.along[usual], 30)


@pytest.mark.parametrize("dirt", DIRT)
@pytest.mark.parametrize("method", UNTAUGHT)
def test_a_helix_is_unwound_as_well_as_without(method: str, dirt: str) -> None:
    X = DIRT[dirt](HELIX.X)
    usual = np.abs(X).max(axis=1) < 900
    found, without = (unwound(UNTAUGHT[method](), own, usual) for own in (X, HELIX.X))
    assert found > without - LOSS


@pytest.mark.parametrize("size", [1e3, 1e4, 1e6])
@pytest.mark.parametrize("similarity", ["linear", "manhattan"])
def test_outliers_are_found_beside_one_that_is_farther(similarity: str, size: float) -> None:
    rng = np.random.default_rng(1)
    X = np.concatenate([POINTS[KNOWN], rng.uniform(-9, 9, (12, 3))])
    strange = np.arange(len(X)) >= N

    def found(X: np.ndarray) -> float:
        scores = SimForestOutlier(similarity, random_state=0).fit(X).score_samples(X)
        return roc_auc_score(strange[1:], -scores[1:])

    assert found(far(size)(X)) > found(X) - LOSS
