"""Forests that are taught a sparse graph: those of the matrix, trees, answers and, up to a size, digest."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse

from distforest import SMERF, Graph, load
from distforest.errors import DistforestWarning, InputError
from distforest.forest import explanations
from distforest.forest.leaf_kinds import KeepsGraph, KeepsLeafDistances
from distforest.forest.scoring import out_of_bag_distance
from distforest.sources import graph_distances
from tests.messages import naming

N = 60
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, 4)).round(1)
WEIGHTS = RNG.integers(0, 4, N)


def adjacency(seed: int = 0) -> np.ndarray:
    """Links between nodes that are near in the first feature, with weights."""
    rng = np.random.default_rng(seed)
    linked = (abs(X[:, None, 0] - X[:, 0]) < 0.4) & (rng.random((N, N)) < 0.5)
    matrix = np.triu(linked * rng.uniform(0.2, 1.0, (N, N)), 1)
    return np.asarray(matrix + matrix.T)


A = adjacency()


@pytest.mark.parametrize(
    ("params", "options", "weighted"),
    [
        ({}, {}, False),
        ({"min_samples_split": 6}, {"absent": 2.5, "diagonal": 0.5}, True),
        ({"splitter": "random", "max_features": 4}, {"diagonal": 0.0}, False),
        ({"feature_combinations": 2.0, "bootstrap": False}, {}, True),
        ({"max_bins": 8, "max_depth": 3}, {"absent": 1e4}, False),
    ],
)
@pytest.mark.filterwarnings("ignore::distforest.errors.DistforestWarning")
def test_the_digest_is_that_of_the_matrix(params: dict[str, Any], options: dict[str, Any], weighted: bool) -> None:
    weight = WEIGHTS if weighted else None
    forests = [
        SMERF(4, random_state=1, **params).fit(X, Graph(given, **options), weight)
        for given in (A, scipy.sparse.csr_array(A), scipy.sparse.coo_array(A))
    ]
    assert len({forest.digest_ for forest in forests}) == 1


def test_missing_features_are_placed_as_by_the_matrix() -> None:
    lacking = np.where(np.random.default_rng(1).random(X.shape) < 0.2, np.nan, X)
    dense, sparse = (SMERF(4, random_state=1).fit(lacking, Graph(one)) for one in (A, scipy.sparse.csr_array(A)))
    assert dense.digest_ == sparse.digest_


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::distforest.errors.DistforestWarning")
def test_a_large_graph_keeps_its_links_and_answers_as_the_matrix(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    dense = SMERF(4, random_state=1, oob_score=True).fit(X, Graph(A), WEIGHTS)
    monkeypatch.setattr(graph_distances, "MOST_KEPT_DENSE", N - 1)
    graph = Graph(scipy.sparse.csr_array(A))
    sparse = SMERF(4, random_state=1, oob_score=True).fit(X, graph, WEIGHTS)
    assert isinstance(sparse.forest_.meaning.leaf, KeepsGraph)
    assert sparse.forest_.table.gain.tolist() == dense.forest_.table.gain.tolist()
    assert sparse.forest_.table.threshold.tolist() == dense.forest_.table.threshold.tolist()
    distances = dense.distance(X)
    np.testing.assert_allclose(sparse.distance(X), distances, rtol=1e-12)
    assert sparse.oob_score_ == pytest.approx(dense.oob_score_, rel=1e-9)
    assert sparse.score(X, graph) == pytest.approx(dense.score(X, Graph(A)), rel=1e-9)
    explained = sparse.explain(X[:3], X[3:6])
    np.testing.assert_allclose(explained.distances, distances[[0, 1, 2], [3, 4, 5]])
    sparse.save(tmp_path / "forest.zarr")
    opened = load(tmp_path / "forest.zarr")
    assert opened.digest_ == sparse.digest_
    np.testing.assert_array_equal(opened.distance(X), sparse.distance(X))
    grown = SMERF(2, random_state=1, oob_score=True).fit(X, graph, WEIGHTS).set_params(n_estimators=4, warm_start=True)
    assert grown.fit(X, graph, WEIGHTS).digest_ == sparse.digest_


def test_shallow_trees_keep_the_distances_of_their_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graph_distances, "MOST_KEPT_DENSE", 0)
    forest = SMERF(4, max_depth=1, random_state=1).fit(X, Graph(scipy.sparse.csr_array(A)))
    assert isinstance(forest.forest_.meaning.leaf, KeepsLeafDistances)
    np.testing.assert_allclose(forest.distance(X), SMERF(4, max_depth=1, random_state=1).fit(X, Graph(A)).distance(X))


def test_pairs_out_of_bag_are_judged_by_the_trees_that_drew_neither() -> None:
    forest = SMERF(30, random_state=1).fit(X, Graph(scipy.sparse.csr_array(A)))
    left, right = np.array([0, 5, 7]), np.array([1, 5, 3])
    found = forest.oob_distance(left, right)
    expected = out_of_bag_distance(forest.forest_, left, right)[0]
    np.testing.assert_array_equal(found, expected)
    assert np.isnan(found).tolist() == [False, True, False]
    assert np.isnan(SMERF(2, bootstrap=False).fit(X, Graph(A)).oob_distance([0], [1])).all()
    for pairs, named in (
        (([0], [N]), (N - 1, N)),
        (([-1], [0]), (N - 1, "found -1")),
        (([-1, 1], [0, 0]), (N - 1, "found -1")),
        (([0], [1, 2]), ("int64", (1,), (2,))),
        (([0.5], [1.0]), ("float64",)),
    ):
        with pytest.raises(InputError, match=naming("pairs:", *named)):
            forest.oob_distance(*pairs)


def test_too_many_leaves_are_not_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    forest = SMERF(2, random_state=1).fit(X, Graph(A))
    monkeypatch.setattr(explanations, "MOST_LEAVES", 5)
    with pytest.raises(InputError, match=naming(5, "min_samples_split")):
        forest.explain(X[:1], X[1:2])


def test_categories_need_a_dense_graph() -> None:
    words = X.astype(object)
    words[:, 1] = np.where(X[:, 1] > 0, "a", "b")
    SMERF(2).fit(words, Graph(A))
    with pytest.raises(InputError, match=naming("sparse graph", "categories")):
        SMERF(2).fit(words, Graph(scipy.sparse.csr_array(A)))


def test_a_graph_without_links_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    empty = Graph(scipy.sparse.csr_array((N, N)))
    for most in (N, 0):
        monkeypatch.setattr(graph_distances, "MOST_KEPT_DENSE", most)
        with pytest.warns(DistforestWarning, match=naming("distances", 1, "nodes")):
            SMERF(2).fit(X, empty)
