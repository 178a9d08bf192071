"""A distance is the sum of what the columns of its walk contribute."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_iris

from distforest import RFD, SMERF, TreeRank, URerF
from distforest.errors import InputError
from distforest.forest import scoring
from distforest.forest.explanations import answers_of_ranks
from distforest.forest.pairs.pair_scores import ranks_of
from tests.messages import naming
from tests.reference.naive_explanations import explain, explain_rank, rank_answers

FEATURES, LABELS = load_iris(return_X_y=True)
FEATURES, LABELS = FEATURES[::3].astype(np.float32), LABELS[::3]
DISTANCES = np.abs(FEATURES[:, 2, None] - FEATURES[:, 2])
LEFT, RIGHT = np.array([0, 0, 20, 7, 3]), np.array([0, 30, 49, 45, 20])

OF_ROWS: dict[str, tuple[Any, tuple[object, ...]]] = {
    "class_counts": (SMERF, (FEATURES, LABELS)),
    "means": (partial(SMERF, feature_combinations=2.0), (FEATURES, FEATURES[:, 0])),
    "embedding": (SMERF, (FEATURES, FEATURES[:, :2] @ FEATURES[:, :2].T)),
    "members": (partial(SMERF, n_estimators=40), (FEATURES, DISTANCES)),
    "leaf_distances": (partial(SMERF, n_estimators=4, min_samples_split=20), (FEATURES, DISTANCES)),
    "same_leaf": (URerF, (FEATURES,)),
}


def fitted(name: str) -> Any:
    make, data = OF_ROWS[name]
    return make(**{"random_state": 0, **({} if isinstance(make, partial) else {"n_estimators": 5})}).fit(*data)


@pytest.mark.slow
@pytest.mark.parametrize("name", OF_ROWS)
@pytest.mark.filterwarnings("ignore::distforest.errors.DistforestWarning")
def test_the_parts_are_those_of_the_definition_and_add_up(name: str) -> None:
    estimator = fitted(name)
    forest = estimator.forest_
    found = estimator.explain(FEATURES[LEFT], FEATURES[RIGHT])
    assert np.abs(found.distances - estimator.pair_distance(FEATURES[LEFT], FEATURES[RIGHT])).max() < 1e-12
    assert np.abs(found.baselines + found.contributions.sum(axis=1) - found.distances).max() < 1e-12
    ends = estimator.apply(FEATURES).T
    leaf_table = scoring.between_nodes(forest)
    of_leaves = np.stack(
        [leaf_table.between(tree, *[ends[tree].astype(np.int64)] * 2) for tree in range(forest.n_trees)]
    )
    for pair, (left, right) in enumerate(zip(LEFT, RIGHT, strict=True)):
        expected = explain(forest, FEATURES, of_leaves, FEATURES[left], FEATURES[right])
        assert np.abs(found.contributions[pair] - expected).max() < 1e-9


@pytest.mark.parametrize("name", OF_ROWS)
@pytest.mark.filterwarnings("ignore::distforest.errors.DistforestWarning")
def test_either_row_may_be_the_first(name: str) -> None:
    estimator = fitted(name)
    one, other = (estimator.explain(FEATURES[a], FEATURES[b]) for a, b in ((LEFT, RIGHT), (RIGHT, LEFT)))
    assert np.abs(one.contributions - other.contributions).max() < 1e-12


@pytest.mark.filterwarnings("ignore::distforest.errors.DistforestWarning")
def test_the_kinds_of_leaf_tables_are_all_there() -> None:
    kinds = {fitted(name).forest_.leaf_table.kind for name in OF_ROWS}
    assert kinds == {"class_counts", "means", "members", "leaf_distances", "same_leaf"}


@pytest.mark.parametrize("voting", ["majority", "mean", "evidence"])
def test_the_columns_of_a_pair_add_up(voting: str) -> None:
    forest = RFD(20, voting=voting, random_state=0).fit(FEATURES, LABELS)
    found = forest.explain(FEATURES[LEFT], FEATURES[RIGHT])
    assert np.abs(found.distances - forest.pair_distance(FEATURES[LEFT], FEATURES[RIGHT])).max() < 1e-12
    assert np.abs(found.baselines + found.contributions.sum(axis=1) - found.distances).max() < 1e-12
    assert found.columns[:2] == ("|d x0|", "|d x1|")


def ranking(**params: Any) -> Any:
    return TreeRank(**{"n_estimators": 5, "n_pairs": 800, "leafrank_depth": 3, "random_state": 0, **params})


@pytest.mark.parametrize("params", [{}, {"max_depth": 3}, {"pruning_folds": 2}], ids=str)
def test_the_columns_of_a_ranked_pair_are_those_of_the_definition_and_add_up(params: dict[str, Any]) -> None:
    forest = ranking(**params).fit(FEATURES, LABELS)
    found = forest.explain(FEATURES[LEFT], FEATURES[RIGHT])
    assert np.abs(found.distances - forest.pair_distance(FEATURES[LEFT], FEATURES[RIGHT])).max() < 1e-12
    assert np.abs(found.baselines + found.contributions.sum(axis=1) - found.distances).max() < 1e-12
    for tree in range(5):
        expected = rank_answers(forest.forest_, tree)
        np.testing.assert_allclose(answers_of_ranks(ranks_of(forest.forest_), tree), expected, atol=1e-12)
    for pair, (left, right) in enumerate(zip(LEFT, RIGHT, strict=True)):
        a, b = FEATURES[left], FEATURES[right]
        columns = np.concatenate([np.abs(a - b), (a + b) * np.float32(0.5)])
        assert np.abs(found.contributions[pair] - explain_rank(forest.forest_, columns)).max() < 1e-12


def test_the_baseline_of_ranks_is_the_mean_distance_of_the_training_pairs() -> None:
    forest = ranking().fit(FEATURES, LABELS)
    ranks = ranks_of(forest.forest_)
    found = forest.explain(FEATURES[:1], FEATURES[1:2])
    means = []
    for tree in range(5):
        leaves = ranks.leaves_in_order(tree)
        means.append(np.average(1.0 - ranks.parts[leaves], weights=ranks.table.n_rows[leaves]))
    assert found.baselines[0] == pytest.approx(np.mean(means))


@pytest.mark.parametrize("n_estimators", [4, 5])
def test_a_median_rank_is_explained_by_the_trees_in_the_middle(n_estimators: int) -> None:
    forest = ranking(aggregation="median", n_estimators=n_estimators).fit(FEATURES, LABELS)
    found = forest.explain(FEATURES[LEFT], FEATURES[RIGHT])
    assert np.abs(found.distances - forest.pair_distance(FEATURES[LEFT], FEATURES[RIGHT])).max() < 1e-12
    assert np.abs(found.baselines + found.contributions.sum(axis=1) - found.distances).max() < 1e-12


def test_either_point_of_a_ranked_pair_may_be_the_first() -> None:
    holes = np.where(np.random.default_rng(0).random(FEATURES.shape) < 0.1, np.nan, FEATURES)
    forest = ranking(region="square").fit(holes, LABELS)
    one, other = (forest.explain(holes[a], holes[b]) for a, b in ((LEFT, RIGHT), (RIGHT, LEFT)))
    assert one.contributions.tobytes() == other.contributions.tobytes()
    assert np.abs(one.distances - forest.pair_distance(holes[LEFT], holes[RIGHT])).max() < 1e-12


def test_a_ranked_cause_is_named() -> None:
    rng = np.random.default_rng(0)
    features = rng.random((120, 5)).astype(np.float32)
    forest = ranking(n_estimators=10).fit(features, features[:, 3] > 0.5)
    pair = np.full((2, 5), 0.5, np.float32)
    pair[:, 3] = 0.1, 0.9
    found = forest.explain(pair[:1], pair[1:])
    assert found.strongest(0, 1)[0][0] == "|d x3|"
    assert found.strongest(0, 1)[0][1] > 0.0


@pytest.mark.parametrize("seed", range(10))
def test_a_cause_that_only_some_pairs_have_is_named(seed: int) -> None:
    """Rows of group 0 differ by column 1, rows of group 1 by column 2; column 0 says the group."""
    rng = np.random.default_rng(seed)
    features = rng.random((200, 6)).astype(np.float32)
    group = features[:, 0] > 0.5
    label = np.where(group, 2 + (features[:, 2] > 0.5), features[:, 1] > 0.5)
    forest = SMERF(50, max_features=None, random_state=seed).fit(features, label)
    pairs = np.full((2, 2, 6), 0.5, np.float32)
    pairs[0, :, 0], pairs[0, :, 1] = 0.1, (0.1, 0.9)
    pairs[1, :, 0], pairs[1, :, 2] = 0.9, (0.1, 0.9)
    found = forest.explain(pairs[:, 0], pairs[:, 1])
    for pair, cause in enumerate(("x1", "x2")):
        assert next(column for column, by in found.strongest(pair, 6) if by > 0) == cause


def test_a_shift_of_a_column_changes_nothing() -> None:
    shifted = FEATURES + np.float32(64)
    one, other = (
        SMERF(5, random_state=0).fit(rows, LABELS).explain(rows[LEFT], rows[RIGHT]) for rows in (FEATURES, shifted)
    )
    assert np.abs(one.contributions - other.contributions).max() < 1e-12


def test_what_cannot_be_explained_is_refused() -> None:
    forest = SMERF(3, random_state=0).fit(FEATURES, LABELS)
    with pytest.raises(InputError, match=naming("left", "right", 2, 3)):
        forest.explain(FEATURES[:2], FEATURES[:3])
    linear = ranking(leafrank="linear").fit(FEATURES, LABELS)
    with pytest.raises(InputError, match=naming("explain:", "leafrank='tree'")):
        linear.explain(FEATURES[:1], FEATURES[1:2])
