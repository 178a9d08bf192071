"""RFD and TreeRank on sparse features: the same trees and answers as of the dense matrix."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse

from distforest import RFD, TreeRank, load
from distforest.errors import ArtifactError, InputError
from distforest.growth.pairs import sparse_search
from distforest.sources.sparse_store import write_sparse
from tests.messages import naming

EXACT = {"max_bins": None, "random_state": 0}
SMALL = {**EXACT, "n_pairs": 300, "leafrank_depth": 2}
FORESTS = (
    RFD(3, **EXACT, n_constraints=100),
    RFD(3, **EXACT, n_constraints=100, position=False, min_samples_leaf=1, max_features=2),
    RFD(3, **EXACT, n_constraints=100, max_features=None, n_jobs=2),
    TreeRank(2, **SMALL, max_features="sqrt"),
    TreeRank(2, **SMALL, region="square", max_features=3),
    TreeRank(2, **SMALL, pruning_folds=2),
)


def counts(n: int = 50, p: int = 25) -> tuple[np.ndarray, np.ndarray]:
    """Counts of which one in five is not 0, some of them negative, and labels that follow four columns."""
    rng = np.random.default_rng(7)
    X = (rng.random((n, p)) < 0.2) * rng.integers(-2, 4, (n, p)).astype(float)
    return X, (X[:, :4].sum(axis=1) > 0).astype(int)


def assert_same_trees(dense: Any, sparse: Any) -> None:
    arrays, others = dense.forest_.arrays(), sparse.forest_.arrays()
    assert set(others) - set(arrays) == {"object_starts", "object_columns"}
    for name in set(arrays) - {"objects"}:
        np.testing.assert_array_equal(arrays[name], others[name], name)


@pytest.mark.parametrize("forest", FORESTS, ids=range(len(FORESTS)))
@pytest.mark.parametrize("is_weighted", [False, True])
def test_trees_and_answers_are_those_of_the_dense_matrix(forest: Any, is_weighted: bool) -> None:
    X, y = counts()
    weights = np.arange(len(X)) % 3 if is_weighted else None
    dense = type(forest)(**forest.get_params()).fit(X, y, weights)
    sparse = type(forest)(**forest.get_params()).fit(scipy.sparse.csc_array(X), y, weights)
    assert_same_trees(dense, sparse)
    assert len(sparse.forest_.table.left) > 2 * sparse.forest_.n_trees
    some = scipy.sparse.csr_matrix(X[:6])
    np.testing.assert_array_equal(dense.distance(), sparse.distance())
    for query in (some, X[:6]):
        np.testing.assert_array_equal(dense.distance(query, X[:3]), sparse.distance(query, X[:3]))
        np.testing.assert_array_equal(dense.transform(query), sparse.transform(query))
        np.testing.assert_array_equal(dense.kneighbors(query), sparse.kneighbors(query))
        np.testing.assert_array_equal(dense.pair_distance(query, X[6:12]), sparse.pair_distance(query, X[6:12]))
    np.testing.assert_array_equal(dense.kneighbors(), sparse.kneighbors())
    assert dense.score(X, y) == sparse.score(scipy.sparse.coo_array(X), y)


def test_given_pairs_and_estimates_out_of_bag_are_those_of_the_dense_matrix() -> None:
    X, y = counts()
    pairs = np.random.default_rng(1).permutation(50)[: 2 * 20].reshape(-1, 2)
    similar = y[pairs[:, 0]] == y[pairs[:, 1]]
    grown = [RFD(5, **EXACT).fit_pairs(of, pairs, similar) for of in (X, scipy.sparse.csr_array(X))]
    assert_same_trees(*grown)
    judged = [RFD(60, **EXACT, oob_score=True, n_constraints=60).fit(of, y) for of in (X, scipy.sparse.csr_array(X))]
    assert judged[0].oob_score_ == judged[1].oob_score_


def test_how_many_values_are_written_at_once_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = counts()
    digests = set()
    for cells in (1, 700, 1 << 22):
        monkeypatch.setattr(sparse_search.SparseSearch.__init__, "__defaults__", (cells,))
        digests.add(RFD(2, **EXACT, n_constraints=80).fit(scipy.sparse.csr_array(X), y).digest_)
    assert len(digests) == 1


def test_stored_zeros_and_duplicates_change_nothing_not_even_the_digest() -> None:
    X, y = counts()
    row, column = np.nonzero(np.ones_like(X))
    halves = scipy.sparse.coo_array(
        (np.append(X.ravel(), X.ravel()) / 2, (np.append(row, row), np.append(column, column))), X.shape
    )
    one, other = (RFD(2, **EXACT, n_constraints=80).fit(of, y) for of in (scipy.sparse.csr_array(X), halves))
    assert one.digest_ == other.digest_


def test_a_saved_forest_of_sparse_points_answers_the_same(tmp_path: Path) -> None:
    X, y = counts()
    write_sparse(str(tmp_path / "X.zarr"), scipy.sparse.csr_array(X))
    forest = RFD(3, **EXACT, n_constraints=80).fit(str(tmp_path / "X.zarr"), y)
    forest.save(str(tmp_path / "forest.zarr"))
    opened = load(str(tmp_path / "forest.zarr"))
    assert opened.digest_ == forest.digest_
    np.testing.assert_array_equal(opened.distance(), forest.distance())


def test_trees_are_added_to_a_forest_of_sparse_points() -> None:
    X, y = counts()
    forest = RFD(2, **EXACT, n_constraints=80, warm_start=True).fit(scipy.sparse.csr_array(X), y)
    forest.set_params(n_estimators=4).fit(scipy.sparse.csr_array(X), y)
    assert forest.digest_ == RFD(4, **EXACT, n_constraints=80).fit(scipy.sparse.csr_array(X), y).digest_


@pytest.mark.parametrize(
    ("forest", "found"),
    [
        (RFD(2), "max_bins=256"),
        (TreeRank(2, max_bins=None, leafrank="linear"), "leafrank='linear'"),
    ],
)
def test_what_needs_dense_points_is_refused_with_its_cure(forest: Any, found: str) -> None:
    X, y = counts()
    with pytest.raises(InputError, match=naming("sparse", found)):
        forest.fit(scipy.sparse.csr_array(X), y)


def test_a_stored_nan_and_an_explanation_are_refused() -> None:
    X, y = counts()
    lacks = scipy.sparse.csr_array(X)
    lacks.data[3] = np.nan
    with pytest.raises(InputError, match=naming("features", "NaN", f"column {lacks.indices[3]} ")):
        RFD(2, **EXACT).fit(lacks, y)
    forest = RFD(2, **EXACT, n_constraints=80).fit(scipy.sparse.csr_array(X), y)
    with pytest.raises(InputError, match=naming("explain", "pair_distance")):
        forest.explain(X[:2], X[2:4])


@pytest.mark.parametrize(
    ("name", "place", "value"),
    [("object_starts", 1, 10_000), ("object_columns", 0, 25), ("object_columns", 0, -1), ("objects", 0, np.nan)],
)
def test_damaged_sparse_points_are_refused(name: str, place: int, value: float) -> None:
    X, y = counts()
    forest = RFD(2, **EXACT, n_constraints=80).fit(scipy.sparse.csr_array(X), y).forest_
    array = getattr(forest, name).copy()
    array[place] = value
    object.__setattr__(forest, name, array)
    with pytest.raises(ArtifactError, match=name):
        forest.check()
