"""How far ranking trees are pruned: the areas of held-out pairs, fold by fold, against pruned trees that rank them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.metrics import roc_auc_score

from distforest import TreeRank
from distforest.errors import InputError
from distforest.evaluation.roc import ROC
from distforest.forest.pairs.pair_scores import columns_of, ranks_of, walked
from distforest.forest.pairs.pair_walks import Walks
from distforest.forest.pairs.ranking_cells import pruned
from distforest.growth.pairs import pruning
from distforest.growth.problem import Data
from distforest.sources.point_pairs import PointPairs
from distforest.sources.truth import Truth, TruthKind
from tests.messages import naming

N_POINTS = 48
QUICK: dict[str, Any] = {"n_pairs": 200, "max_depth": 5, "leafrank_depth": 2, "min_samples_leaf": 2, "random_state": 3}


def data(noise: float = 0.7) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    y = np.arange(N_POINTS) % 3
    return np.column_stack([y + noise * rng.normal(size=N_POINTS), rng.normal(size=(N_POINTS, 2))]), y


def areas_by_hand(forest: TreeRank, X: np.ndarray, y: np.ndarray, pairs: np.ndarray | None) -> np.ndarray:
    """For each gain: trees of the other folds' points, pruned, and the area of the curve of the fold's pairs."""
    folds = pruning._folds(forest.forest_.meaning.seed, N_POINTS, forest.pruning_folds)
    assert np.bincount(folds).max() - np.bincount(folds).min() <= 1
    own = np.zeros(len(forest.pruning_.gains))
    every = np.stack(np.triu_indices(N_POINTS, 1), axis=1) if pairs is None else pairs
    alike = y[every[:, 0]] == y[every[:, 1]]
    for fold in range(forest.pruning_folds):
        train = np.flatnonzero(folds != fold)
        model = clone(forest).set_params(pruning_folds=None)
        if pairs is None:
            model.fit(X[train], y[train])
        else:
            place = np.full(N_POINTS, -1)
            place[train] = np.arange(len(train))
            kept = (place[pairs] >= 0).all(axis=1)
            model.fit_pairs(X[train], place[pairs[kept]], alike[kept])
        judges = (folds[every] == fold).all(axis=1)
        left, right = every[judges].T.astype(np.int32)
        points = X.astype(np.float32)
        asked = PointPairs(columns_of(model.forest_), points, points, left.copy(), right.copy())
        for place_of_gain, gain in enumerate(forest.pruning_.gains):
            some = pruned(model.forest_, gain)
            scores = [ranks_of(some).parts[walked(Walks(some.table), tree, asked)] for tree in range(some.n_trees)]
            own[place_of_gain] += np.mean([roc_auc_score(alike[judges], s) for s in scores])
    return own / forest.pruning_folds


@pytest.mark.parametrize("given", [False, True])
def test_areas_are_those_of_pruned_trees_on_held_out_pairs(given: bool) -> None:
    X, y = data()
    pairs = (
        np.random.default_rng(2).permutation(np.stack(np.triu_indices(N_POINTS, 1), axis=1))[:500] if given else None
    )
    forest = TreeRank(2, pruning_folds=3, **QUICK)
    if pairs is None:
        forest.fit(X, y)
    else:
        forest.fit_pairs(X, pairs, y[pairs[:, 0]] == y[pairs[:, 1]])
    found = forest.pruning_
    np.testing.assert_allclose(found.areas, areas_by_hand(forest, X, y, pairs), rtol=0, atol=1e-12)
    assert found.gains[0] == 0.0
    assert (np.diff(found.gains) > 0).all()
    assert len(found.gains) > 5
    best = np.flatnonzero(found.areas == found.areas.max())
    assert found.gain == found.gains[best[-1]]


def test_a_parting_of_just_the_gain_goes() -> None:
    """The gains at which the trees' own partings go, tried on new points."""
    X, y = data()
    forest, new = TreeRank(2, **QUICK).fit(X, y).forest_, X[::-1] + 0.1
    gains = pruning._gains_of(forest)
    held = Data(forest.meaning.rows, new.astype(np.float32), Truth(TruthKind.LABELS, y.astype(np.int32), [0, 1, 2]))
    left, right = np.stack(np.triu_indices(N_POINTS, 1)).astype(np.int32)
    asked = PointPairs(columns_of(forest), held.matrix, held.matrix, left, right)
    expected = []
    for gain in gains:
        some = pruned(forest, gain)
        scores = [ranks_of(some).parts[walked(Walks(some.table), tree, asked)] for tree in range(2)]
        expected.append(np.mean([roc_auc_score(y[left] == y[right], own) for own in scores]))
    np.testing.assert_allclose(pruning._areas(forest, held, gains), expected, rtol=0, atol=1e-12)
    assert len(set(expected)) > 5


def test_the_forest_is_pruned_at_the_best_gain() -> None:
    X, y = data()
    whole = TreeRank(3, **QUICK).fit(X, y)
    forest = clone(whole).set_params(pruning_folds=4).fit(X, y)
    assert forest.digest_ == forest.forest_.digest == pruned(whole.forest_, forest.pruning_.gain).digest
    assert forest.forest_.table.tree_size.sum() < whole.forest_.table.tree_size.sum()
    forest.forest_.check()
    for before, after in zip(whole.tree_rocs_, forest.tree_rocs_, strict=True):
        assert after.auc <= before.auc + 1e-12
        at = ROC.mean([after]).fpr
        assert set(at.tolist()) <= set(before.fpr.tolist())
    threads = clone(forest).set_params(n_jobs=3).fit(X, y)
    assert threads.digest_ == forest.digest_
    assert threads.pruning_.areas.tobytes() == forest.pruning_.areas.tobytes()


def test_noise_is_pruned_away() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 3)), np.arange(60) % 2
    whole = TreeRank(4, **{**QUICK, "min_samples_leaf": 1}).fit(X, y)
    forest = clone(whole).set_params(pruning_folds=5).fit(X, y)
    assert forest.forest_.table.is_leaf.sum() < whole.forest_.table.is_leaf.sum() / 3


@pytest.mark.parametrize("folds", [0, 1, 25, 2.5, "five", True])
def test_numbers_of_folds_that_there_cannot_be_are_refused(folds: Any) -> None:
    X, y = data()
    with pytest.raises(InputError, match=naming("pruning_folds", "2..24", repr(folds))):
        TreeRank(2, pruning_folds=folds, **QUICK).fit(X, y)


def test_a_fold_without_pairs_of_both_kinds_is_refused() -> None:
    X, y = data()
    with pytest.raises(InputError, match="fewer folds"):
        TreeRank(2, pruning_folds=24, **QUICK).fit(X, y)
