"""Forests of sparse features are those of the dense matrix, digest for digest, and answer sparse rows alike."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone

import distforest
from distforest import RFD, SMERF, Distances, Embedding, Labels, SimForestClassifier, Targets, TreeRank, URerF
from distforest.errors import DistforestWarning, InputError
from tests.messages import naming
from tests.samples import PAPER_RULE
from tests.sources.test_sparse import CONTAINERS
from tests.sources.test_sparse_features import words

N = 60
RNG = np.random.default_rng(0)
X = words(N, 30, 3, 0.15)
QUERIES = words(17, 30, 4, 0.15)
Y = np.where(X[:, :4].sum(axis=1) > 0, RNG.integers(0, 3, N), 0)
POINTS = np.column_stack([X[:, 0] + RNG.normal(size=N), X[:, 1]]).astype(np.float64)
FAR = POINTS.copy()
FAR[7] = 1e20
TRUTHS = {
    "labels": Labels(Y),
    "targets": Targets(POINTS[:, 0]),
    "embedding": Embedding(POINTS),
    "far": Embedding(FAR),
    "distances": Distances(np.abs(POINTS[:, :1] - POINTS[:, 0])),
}
PARAMS: list[dict[str, Any]] = [
    {},
    {"min_samples_leaf": 4},
    {"max_features": 1},
    {"max_features": None, "bootstrap": False},
    {"feature_combinations": 2.5},
    {"feature_combinations": 0.2, "max_depth": 4},
    {"feature_weights": np.arange(30.0)},
    {"splitter": "random"},
    {"splitter": "random", "feature_combinations": 2.0},
]
DATA = Path(__file__).parents[2] / "benchmarks" / "data"
PAPER: dict[str, Any] = {"feature_combinations": 3.0, "min_samples_split": 6}


@pytest.mark.slow
@pytest.mark.parametrize("params", PARAMS, ids=str)
@pytest.mark.parametrize("truth", TRUTHS)
@pytest.mark.filterwarnings("ignore::distforest.errors.DistforestWarning")  # a far point is far
def test_the_digest_is_that_of_the_dense_matrix(truth: str, params: dict[str, Any]) -> None:
    forest = SMERF(5, random_state=2, **params)
    dense, sparse = clone(forest).fit(X, TRUTHS[truth]), clone(forest).fit(scipy.sparse.csr_array(X), TRUTHS[truth])
    assert sparse.digest_ == dense.digest_
    queries = scipy.sparse.csc_matrix(QUERIES)
    np.testing.assert_array_equal(sparse.apply(queries), dense.apply(QUERIES))
    np.testing.assert_array_equal(sparse.distance(queries), dense.distance(QUERIES))


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 999),
    n_rows=st.integers(4, 40),
    n_columns=st.integers(1, 60),
    share=st.sampled_from([0.0, 0.05, 0.3, 1.0]),
    container=st.sampled_from(CONTAINERS),
    truth=st.sampled_from(["labels", "targets", "embedding", "distances"]),
    params=st.sampled_from([params for params in PARAMS if "feature_weights" not in params]),
    max_features=st.one_of(st.none(), st.integers(1, 9)),  # mostly no divisor of the columns: the last window is short
)
@pytest.mark.filterwarnings("ignore::distforest.errors.DistforestWarning")  # of data made at random
def test_any_matrix_leads_to_the_digest_of_the_dense_one(
    seed: int,
    n_rows: int,
    n_columns: int,
    share: float,
    container: Any,
    truth: str,
    params: dict[str, Any],
    max_features: int | None,
) -> None:
    rng, dense = np.random.default_rng(seed), words(n_rows, n_columns, seed, share)
    y = rng.integers(0, 3, n_rows)
    values = {"labels": Labels(y), "targets": Targets(rng.normal(size=n_rows)), "distances": np.abs(y[:, None] - y)}
    values["embedding"] = Embedding(rng.normal(size=(n_rows, 3)))
    params = {**params, "max_features": min(max_features or n_columns, n_columns)}
    forest = SMERF(2, random_state=seed, **params)
    own = clone(forest).fit(container(dense), values[truth])
    assert own.digest_ == clone(forest).fit(dense, values[truth]).digest_


@pytest.mark.parametrize("criterion", ["fast_bic", "equal_bic", "two_means", "mclust_bic"])
def test_urerf_grows_the_same_over_sparse_features(criterion: str) -> None:
    forest = URerF(4, random_state=1, **{**PAPER_RULE, "criterion": criterion, **PAPER})
    dense, sparse = clone(forest).fit(X), clone(forest).fit(scipy.sparse.coo_array(X))
    assert sparse.digest_ == dense.digest_
    np.testing.assert_array_equal(sparse.proximity(scipy.sparse.csr_array(QUERIES)), dense.proximity(QUERIES))


@pytest.mark.parametrize(
    ("forest", "changes"),
    [
        (URerF(), "coefficients='sign', n_witnesses=0, feature_weights=None"),
        (SMERF(max_bins=16), "max_bins=None"),
        (SMERF(feature_weights="dependence"), "feature_weights=None"),
        (SMERF(feature_combinations=2.0, coefficients="normal"), "coefficients='sign'"),
    ],
)
def test_what_needs_a_dense_matrix_is_refused_with_its_cure(forest: Any, changes: str) -> None:
    assert not forest.__sklearn_tags__().input_tags.sparse
    args = () if isinstance(forest, URerF) else (Labels(Y),)
    with pytest.raises(InputError, match=naming("sparse", changes, "X.toarray()")):
        forest.fit(scipy.sparse.csr_array(X), *args)
    changed = forest.set_params(**eval(f"dict({changes})"))
    assert changed.__sklearn_tags__().input_tags.sparse
    changed.set_params(n_estimators=2, min_samples_split=20).fit(scipy.sparse.csr_array(X), *args)


@pytest.mark.parametrize("forest", [RFD(3), TreeRank(3)])
def test_bins_of_pairs_need_dense_features(forest: Any) -> None:
    with pytest.raises(InputError, match=naming("sparse", "max_bins=256", "max_bins=None")):
        forest.fit(scipy.sparse.csr_array(X), Y)


def test_similarities_of_features_need_dense_features() -> None:
    forest = SimForestClassifier("rbf", n_estimators=3)
    with pytest.raises(TypeError, match=naming("X", ".toarray()")):
        forest.fit(scipy.sparse.csr_array(X), Y)


def test_a_forest_is_the_same_for_any_number_of_threads_and_keeps_no_trace_of_zeros(tmp_path: Path) -> None:
    matrix = scipy.sparse.csr_array(X)
    forests = [SMERF(8, random_state=0, n_jobs=n).fit(matrix, Labels(Y)) for n in (1, 3)]
    stored = matrix.copy()
    stored.data[::3] = 0.0
    explicit, without = (SMERF(8, random_state=0).fit(one, Labels(Y)) for one in (stored, stored.toarray()))
    assert forests[0].digest_ == forests[1].digest_
    assert explicit.digest_ == without.digest_ != forests[0].digest_
    forests[0].save(tmp_path / "forest.zarr")
    opened = distforest.load(tmp_path / "forest.zarr")
    for rows in (QUERIES, scipy.sparse.csr_array(QUERIES)):
        np.testing.assert_array_equal(opened.predict_proba(rows), forests[1].predict_proba(QUERIES))
        np.testing.assert_array_equal(opened.kneighbors(rows, 3)[1], forests[1].kneighbors(QUERIES, 3)[1])
        np.testing.assert_array_equal(opened.transform(rows), forests[1].transform(QUERIES))
    assert opened.score(scipy.sparse.csr_array(X), Labels(Y)) == opened.score(X, Labels(Y))


def test_bad_rows_are_refused() -> None:
    bad = scipy.sparse.csr_array(X)
    bad.data[4] = np.nan
    with pytest.raises(InputError, match=naming("features", "NaN", f"column {bad.indices[4]} ")):
        SMERF(2).fit(bad, Labels(Y))
    forest = SMERF(2, random_state=0).fit(scipy.sparse.csr_array(X), Labels(Y))
    with pytest.raises(ValueError, match=naming(29, "SMERF", 30)):
        forest.predict(scipy.sparse.csr_array(QUERIES[:, 1:]))


def mushrooms() -> tuple[np.ndarray, np.ndarray]:
    """The letters of 22 attributes of 8,124 mushrooms, one-hot: 117 columns of 0 and 1; and which are poisonous."""
    with np.load(DATA / "mushrooms.npz") as file:
        codes, y = file["codes"], file["y"]
    letters = [(codes[:, [k]] == np.unique(codes[:, k])).astype(np.float32) for k in range(codes.shape[1])]
    return np.hstack(letters), y


def documents() -> tuple[np.ndarray, np.ndarray]:
    """Counts of words: 500 documents of about 12 of 2,000 words by Zipf's law, whose order depends on the topic."""
    rng = np.random.default_rng(5)
    topic = rng.integers(0, 3, 500)
    orders = np.stack([np.arange(2000), *(rng.permutation(2000) for _ in range(2))])
    share = np.cumsum(np.arange(1, 2001) ** -1.1)
    counts = np.zeros((500, 2000), np.float32)
    for row, own in enumerate(topic):
        words_of_row = np.searchsorted(share, rng.random(rng.poisson(12)) * share[-1])
        np.add.at(counts[row], orders[own if rng.random() < 0.5 else 0, words_of_row], 1.0)
    return counts, topic


@pytest.mark.slow
@pytest.mark.parametrize("table", [mushrooms, documents])
@pytest.mark.skipif(not DATA.exists(), reason="benchmarks are not part of this distribution")
@pytest.mark.parametrize("params", [{}, {"feature_combinations": 2.0}, {"splitter": "random", "min_samples_leaf": 3}])
def test_real_tables_and_texts_grow_the_digest_of_the_dense_matrix(table: Any, params: dict[str, Any]) -> None:
    """Large nodes and deep trees, so that values are gathered in each of the ways; queries walk in several blocks."""
    dense, y = table()
    matrix = scipy.sparse.csr_array(dense)
    for truth in (Labels(y), Targets(y * 1.5)):
        forest = SMERF(3, random_state=0, **params)
        own, twin = clone(forest).fit(matrix, truth), clone(forest).fit(dense, truth)
        assert own.digest_ == twin.digest_
        np.testing.assert_array_equal(own.apply(matrix[::7]), twin.apply(dense[::7]))
        np.testing.assert_array_equal(own.predict(matrix[::7]), twin.predict(dense[::7]))


def test_texts_of_no_word_that_varies_are_reported() -> None:
    with pytest.warns(DistforestWarning, match="features"):
        SMERF(4, random_state=0).fit(scipy.sparse.csr_array((N, 1000)), Labels(np.arange(N) % 2))


@pytest.mark.slow
def test_a_wide_matrix_costs_what_it_holds() -> None:
    """A hundred thousand columns, twelve rows: the dense matrix takes no more time, but each node as many draws."""
    rows = np.repeat(np.arange(12), 5)
    columns = np.random.default_rng(0).integers(0, 10**5, 60)
    wide = scipy.sparse.csr_array((np.ones(60), (rows, columns)), (12, 10**5))
    y = np.arange(12) % 2
    forest = SMERF(3, random_state=0, bootstrap=False).fit(wide, Labels(y))
    assert forest.predict(wide).tolist() == y.tolist()
    used = np.unique(forest.forest_.table.columns)
    assert set(used.tolist()) <= set(columns.tolist())
    assert forest.digest_ == SMERF(3, random_state=0, bootstrap=False).fit(wide.toarray(), Labels(y)).digest_


def test_scikit_learns_check_of_sparse_containers_passes_but_for_the_tags_of_a_classifier() -> None:
    """What `check_estimator_sparse_array` and its twin do, with 64-bit places too."""
    y = np.arange(N) % 4
    for container in (*CONTAINERS, scipy.sparse.bsr_array, scipy.sparse.dia_array, scipy.sparse.dia_matrix):
        matrix = container(X)
        forest = SMERF(2, random_state=0).fit(matrix, y)
        assert forest.predict(matrix).shape == (N,)
        assert forest.predict_proba(matrix).shape == (N, 4)
    large = scipy.sparse.csr_array(X)
    large.indices, large.indptr = large.indices.astype(np.int64), large.indptr.astype(np.int64)
    assert SMERF(2, random_state=0).fit(large, y).digest_ == forest.digest_
