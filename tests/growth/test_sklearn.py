"""SMERF of labels and of targets is CART: split by split against scikit-learn's trees and a search from scratch."""

from __future__ import annotations

import hashlib
import itertools
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris, load_wine
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from distforest.growth.problem import Data
from distforest.sources.factors import encoded
from distforest.sources.row_kinds import Features
from distforest.sources.truth import Truth, TruthKind
from tests import samples

if TYPE_CHECKING:
    from collections.abc import Iterator

    from distforest.growth.problem import Problem

LABELLED = ["iris", "wine", "breast_cancer", "sonar", "heart", "australian"]
CLOSE = 1e-9
SKLEARN_APART = 1e-7
"""scikit-learn does not cut between values that are nearer than this (FEATURE_THRESHOLD)."""


def load(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Features as float32, and labels or targets."""
    loaders = {"iris": load_iris, "wine": load_wine, "breast_cancer": load_breast_cancer, "diabetes": load_diabetes}
    if name in loaders:
        found: Any = loaders[name]()
        return found.data.astype(np.float32), found.target
    path = Path(__file__).parents[2] / "benchmarks" / "data" / f"{name}.npz"
    with np.load(path, allow_pickle=False) as file:
        return file["X"].astype(np.float32), file["y"]


def without(X: np.ndarray, share: float, by_value: bool) -> np.ndarray:
    """The features without a share of their cells: at random, or the likelier the larger a value is in its column."""
    draws = np.random.default_rng(0).random(X.shape)
    ranks = np.argsort(np.argsort(X, axis=0, kind="stable"), axis=0) / len(X)
    return np.where(draws < share * (2.0 * ranks if by_value else 1.0), np.float32(np.nan), X)


def data_of(name: str, share: float = 0.0, by_value: bool = False) -> Data:
    X, y = load(name)
    X = without(X, share, by_value)
    rows = Features(X.shape[1])
    if name == "diabetes":
        return Data(rows, X, Truth(TruthKind.TARGETS, y[:, None].astype(np.float64)))
    codes, classes = encoded(y)
    return Data(rows, X, Truth(TruthKind.LABELS, codes, classes))


@dataclass(frozen=True)
class CutGains:
    """Gains of cuts of some rows, from scratch in float64."""

    X: np.ndarray
    says: np.ndarray  # one-hot labels, or centred targets: (n, K)

    @classmethod
    def of(cls, data: Data) -> CutGains:
        if data.truth.kind == TruthKind.LABELS:
            return cls(data.matrix, np.eye(len(data.truth.classes or ()))[data.truth.values])
        return cls(data.matrix, data.truth.values - data.truth.values.mean(axis=0))

    def gain(self, rows: np.ndarray, left: np.ndarray) -> float:
        """sum_L^2 / n_L + sum_R^2 / n_R - sum^2 / n, which is Eq. 1 for Gini and for variance alike."""
        a, b = self.says[rows[left]], self.says[rows[~left]]
        whole = a.sum(axis=0) + b.sum(axis=0)
        parts = (a.sum(axis=0) ** 2).sum() / len(a) + (b.sum(axis=0) ** 2).sum() / len(b)
        return float(parts - (whole**2).sum() / len(rows))

    def best(self, rows: np.ndarray, apart: float = 0.0) -> float:
        """The largest gain over all columns and cuts, missing values on either side; 0 where there is none."""
        if len(rows) < 2:
            return 0.0
        own = self.X[rows].astype(np.float64)
        if np.isnan(own).any():
            return max(self._best(rows, np.where(np.isnan(own), side, own), apart) for side in (np.inf, -np.inf))
        return self._best(rows, own, apart)

    def _best(self, rows: np.ndarray, own: np.ndarray, apart: float) -> float:
        order = np.argsort(own, axis=0, kind="stable")
        values = np.take_along_axis(own, order, axis=0)
        sums = np.cumsum(self.says[rows][order], axis=0)  # (n, p, K)
        n_left = np.arange(1, len(rows))[:, None]
        left, whole = sums[:-1], sums[-1]
        parts = (left**2).sum(axis=2) / n_left + ((whole - left) ** 2).sum(axis=2) / (len(rows) - n_left)
        gains = parts - (whole**2).sum(axis=1) / len(rows)
        with np.errstate(invalid="ignore"):  # two missing values are not apart
            cut = np.diff(values, axis=0) > apart
        return float(gains[cut].max(initial=0.0))

    def is_pure(self, rows: np.ndarray) -> bool:
        """Whether all rows say the same."""
        return bool((self.says[rows] == self.says[rows[0]]).all())

    def weight(self, rows: np.ndarray) -> float:
        """The size of the terms of a gain."""
        return float((self.says[rows] ** 2).sum()) + 1e-300


@dataclass(frozen=True)
class Tree:
    """A tree as cuts: children, column and threshold of each node, and whether missing values go left."""

    left: np.ndarray
    right: np.ndarray
    column: np.ndarray
    threshold: np.ndarray
    missing_left: np.ndarray

    @classmethod
    def of(cls, arrays: dict[str, np.ndarray]) -> Tree:
        column = np.full(len(arrays["left"]), -1)
        column[arrays["width"] == 1] = arrays["columns"]
        assert (arrays["weights"] == 1).all()
        none = np.ones(len(column), np.bool_)
        return cls(arrays["left"], arrays["right"], column, arrays["threshold"], ~arrays.get("missing_right", none))

    @classmethod
    def of_sklearn(cls, fitted: Any) -> Tree:
        tree = fitted.tree_
        sides = tree.missing_go_to_left.astype(np.bool_)
        return cls(tree.children_left, tree.children_right, tree.feature, tree.threshold, sides)

    def goes_left(self, node: int, X: np.ndarray) -> np.ndarray:
        values = X[:, self.column[node]]
        return np.where(np.isnan(values), self.missing_left[node], values <= self.threshold[node])

    def nodes(self, X: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
        """Every node with its rows."""
        waiting = [(0, np.arange(len(X)))]
        while waiting:
            node, rows = waiting.pop()
            yield node, rows
            if self.left[node] >= 0:
                left = self.goes_left(node, X[rows])
                waiting += [(self.left[node], rows[left]), (self.right[node], rows[~left])]


def grown(problem: Problem) -> dict[str, np.ndarray]:
    return problem.grow(np.arange(1))


def fitted(data: Data, seed: int) -> Tree:
    if data.truth.kind == TruthKind.LABELS:
        return Tree.of_sklearn(DecisionTreeClassifier(random_state=seed).fit(data.matrix, data.truth.values))
    return Tree.of_sklearn(DecisionTreeRegressor(random_state=seed).fit(data.matrix, data.truth.values[:, 0]))


MISSING = [(0.0, False), *itertools.product([0.05, 0.2, 0.5], [False, True])]
"""The share of missing cells, and whether large values are missing more often."""


@pytest.mark.slow
@pytest.mark.parametrize("name", [*LABELLED, "diabetes"])
@pytest.mark.parametrize(("share", "by_value"), MISSING)
def test_every_cut_is_the_best_and_every_leaf_is_pure_or_all_alike(name: str, share: float, by_value: bool) -> None:
    data = data_of(name, share, by_value)
    arrays = grown(samples.without_bootstrap(data))
    tree, gains = Tree.of(arrays), CutGains.of(data)
    n_leaves = 0
    for node, rows in tree.nodes(data.matrix):
        own, best, weight = data.matrix[rows], gains.best(rows), gains.weight(rows)
        assert arrays["n_rows"][node] == len(rows)
        if tree.left[node] >= 0:
            left = tree.goes_left(node, data.matrix[rows])
            assert 0 < left.sum() < len(rows)
            assert gains.gain(rows, left) >= best - CLOSE * best - 1e-12 * weight
            assert arrays["gain"][node] == pytest.approx(best, rel=CLOSE, abs=1e-11 * weight)
        else:
            assert gains.is_pure(rows) or np.array_equal(*np.broadcast_arrays(own, own[0]), equal_nan=True)
            assert set(arrays["leaves"][0][rows].tolist()) == {node}
            n_leaves += 1
    assert n_leaves == (arrays["left"] < 0).sum() > 4


@pytest.mark.slow
@pytest.mark.parametrize("name", [*LABELLED, "diabetes"])
@pytest.mark.parametrize(("share", "by_value"), MISSING)
def test_the_tree_is_that_of_sklearn_up_to_ties(name: str, share: float, by_value: bool) -> None:
    """A cut that is not the same gains the same, or parts values that scikit-learn takes for equal.

    What is below a tie is not compared, so one of several orders in which scikit-learn tries features has few of them.
    """
    data = data_of(name, share, by_value)
    ours = Tree.of(grown(samples.without_bootstrap(data)))
    found = [same_and_tied(data, ours, fitted(data, seed)) for seed in range(8)]
    assert max(same - ties for same, ties in found) > 0
    assert max(same for same, _ in found) > 4


def same_and_tied(data: Data, ours: Tree, theirs: Tree) -> tuple[int, int]:
    """How many cuts are the same, and how many are ties; no other cut differs."""
    gains = CutGains.of(data)
    waiting, same, ties = [(0, 0, np.arange(data.n_rows))], 0, 0
    while waiting:
        own, other, rows = waiting.pop()
        X, best, weight = data.matrix[rows], gains.best(rows), gains.weight(rows)
        if theirs.left[other] < 0:
            assert ours.left[own] < 0
        else:
            assert ours.left[own] >= 0
            left, right = ours.goes_left(own, X), theirs.goes_left(other, X)
            if (left == right).all():
                same += 1
                waiting.append((ours.left[own], theirs.left[other], rows[left]))
                waiting.append((ours.right[own], theirs.right[other], rows[~left]))
                continue
            ties += 1
            tied = gains.gain(rows, left) - gains.gain(rows, right)
            unseen = gains.best(rows, SKLEARN_APART) < best
            assert abs(tied) <= CLOSE * best + 1e-12 * weight or (unseen and tied > 0)
    return same, ties


def balanced(n_columns: int) -> tuple[np.ndarray, np.ndarray]:
    """All rows of zeros and ones three times, and whether their ones are odd: no cut gains before the last column."""
    X = np.repeat(np.array(list(itertools.product([0.0, 1.0], repeat=n_columns)), np.float32), 3, axis=0)
    return X, X.sum(axis=1).astype(np.int64) % 2


@pytest.mark.parametrize("n_columns", [2, 3])
@pytest.mark.parametrize("truth_kind", [TruthKind.LABELS, TruthKind.TARGETS, TruthKind.DISTANCES])
@pytest.mark.parametrize("max_bins", [None, 4])
def test_cuts_that_gain_nothing_are_made_where_nothing_is_better(
    n_columns: int, truth_kind: TruthKind, max_bins: int | None
) -> None:
    X, y = balanced(n_columns)
    truth: dict[str, Any] = {
        "labels": y.astype(np.int32),
        "targets": y[:, None].astype(np.float64),
        "distances": (y[:, None] != y).astype(np.float32),
    }
    rows = Features(n_columns)
    data = Data(rows, X, Truth(truth_kind, truth[truth_kind], [0, 1] if truth_kind == TruthKind.LABELS else None))
    tree = Tree.of(grown(samples.without_bootstrap(data, max_bins=max_bins)))
    theirs = Tree.of_sklearn(DecisionTreeClassifier(random_state=0).fit(X, y))
    assert len(tree.left) == len(theirs.left) == 2 ** (n_columns + 1) - 1
    assert all(tree.left[node] >= 0 or len(set(y[own].tolist())) == 1 for node, own in tree.nodes(X))


@pytest.mark.parametrize("name", LABELLED)
@pytest.mark.parametrize("share", [0.0, 0.2])
def test_the_tree_of_the_distances_of_the_labels_is_the_tree_of_the_labels(name: str, share: float) -> None:
    data = data_of(name, share)
    z = (data.truth.values[:, None] != data.truth.values).astype(np.float32)
    dense = Data(data.rows, data.matrix, Truth(TruthKind.DISTANCES, z, None, 1.0))
    by_labels, by_distances = (grown(samples.without_bootstrap(own)) for own in (data, dense))
    of_leaves = {"class_counts", "leaf_distances"}
    digests = [
        {key: hashlib.sha256(array).hexdigest() for key, array in found.items() if key not in of_leaves}
        for found in (by_labels, by_distances)
    ]
    assert digests[0] == digests[1]
    assert len(digests[0]) == 11 + (share > 0.0)


def test_the_tree_of_the_distances_of_whole_targets_is_the_tree_of_the_targets() -> None:
    rng = np.random.default_rng(0)
    X, y = samples.features(60), rng.integers(-8, 9, 60).astype(np.float64)
    rows = Features(samples.N_COLUMNS)
    z = ((y[:, None] - y) ** 2 / 2).astype(np.float32)
    by_targets = grown(samples.without_bootstrap(Data(rows, X, Truth(TruthKind.TARGETS, y[:, None]))))
    by_distances = grown(samples.without_bootstrap(Data(rows, X, Truth(TruthKind.DISTANCES, z, None, float(z.max())))))
    for name in ("left", "right", "threshold", "columns", "leaves"):
        assert by_targets[name].tolist() == by_distances[name].tolist()
    np.testing.assert_allclose(by_targets["gain"], by_distances["gain"], rtol=1e-12)
