"""Rows from which a forest has learned are known by their leaves; new rows of bundled data are not taken for them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_iris, load_wine

from distforest import SMERF, URerF
from distforest.forest import learned_rows, scoring
from distforest.forest.learned_rows import LearnedLeaves

if TYPE_CHECKING:
    from collections.abc import Callable

    from distforest.forest.forest import Forest


def told_of(forest: Forest, rows: np.ndarray) -> str:
    assert forest.learned_leaves is not None
    return forest.learned_leaves.seen(scoring.apply(forest, forest.source(rows.astype(np.float32)))).told()


@pytest.mark.parametrize("n_trees", [10, 60])
@pytest.mark.parametrize("load", [load_iris, load_wine, load_breast_cancer])
def test_new_rows_of_bundled_data_are_not_taken_for_learned_ones(load: Callable[..., tuple], n_trees: int) -> None:
    X, y = load(return_X_y=True)
    assert told_of(SMERF(n_trees, random_state=0).fit(X[::2], y[::2]).forest_, X[1::2]) == ""


def test_learned_rows_are_known_in_any_order_and_among_others() -> None:
    X, y = load_wine(return_X_y=True)
    forest = SMERF(60, random_state=0).fit(X[::2], y[::2]).forest_
    learned = X[::2][::-1]
    assert re.findall(r"\d+", told_of(forest, learned))[:2] == ["89", "89"]
    n_compared, n_known, *_ = map(int, re.findall(r"\d+", told_of(forest, np.concatenate([learned[:40], X[1::2]]))))
    assert (n_compared, n_known // 10) == (129, 4)


def test_where_training_rows_share_all_leaves_nothing_is_told() -> None:
    X = np.arange(40)[:, None] % 2
    assert told_of(SMERF(10, random_state=0).fit(X, X[:, 0]).forest_, X) == ""


def test_a_forest_that_was_taught_nothing_knows_no_learned_rows() -> None:
    rows = np.random.default_rng(0).normal(size=(30, 2))
    assert URerF(5, min_samples_split=10, random_state=0).fit(rows).forest_.learned_leaves is None


def test_rows_are_counted_by_all_their_leaves() -> None:
    nodes = np.array([[0, 0, 1, 1], [2, 3, 2, 2]], np.int32)
    learned = LearnedLeaves.of(nodes)
    assert (learned.n_rows, learned.n_alike, len(learned.keys)) == (4, 2, 3)
    assert learned.seen(np.array([[0, 1, 2], [2, 3, 2]], np.int32))[:2] == (3, 1)


@pytest.mark.parametrize("n_leaves", [1, 3, 1000])
@pytest.mark.parametrize("n_training", [1, 40, 3000])
def test_rows_are_known_if_a_training_row_has_all_their_leaves(n_leaves: int, n_training: int) -> None:
    rng = np.random.default_rng(0)
    training, asked = (rng.integers(0, n_leaves, (4, n)).astype(np.int32) for n in (n_training, 77))
    asked[:, ::7] = training[:, :1]
    known = {tuple(row) for row in training.T.tolist()}
    expected = sum(tuple(row) in known for row in asked.T.tolist())
    assert LearnedLeaves.of(training).seen(asked)[:2] == (77, expected)


def test_of_many_rows_some_are_compared_wherever_they_lie(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    nodes, others = rng.integers(0, 30, (2, 5, 4000)).astype(np.int32)
    whole = LearnedLeaves.of(nodes)
    monkeypatch.setattr(learned_rows, "MOST_KEYS", 1000)
    monkeypatch.setattr(learned_rows, "KEYS_AT_ONCE", 300)
    some = LearnedLeaves.of(nodes)
    assert (whole.every, some.every) == (1, 4)
    assert 800 < some.n_rows < 1200
    asked = rng.permutation(4000)[:500]
    seen = some.seen(nodes[:, asked])
    assert seen.n == seen.n_known
    assert 80 < seen.n < 170
    assert seen.told()
    assert not some.seen(others).told()


def test_where_all_rows_share_leaves_there_may_be_none_to_compare(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = np.zeros((3, 100), np.int32)
    monkeypatch.setattr(learned_rows, "MOST_KEYS", 1)
    learned = LearnedLeaves.of(nodes)
    assert learned.n_rows in {0, 100}
    assert not learned.seen(nodes).told()
