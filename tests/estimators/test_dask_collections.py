"""Dask arrays and data frames: a fit gathers them, answers to a Dask array are lazy."""

from __future__ import annotations

import asyncio
import pickle
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any

import cloudpickle
import dask
import dask.array as da
import numpy as np
import pytest
from dask.tokenize import tokenize
from distributed import Client, LocalCluster
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_wine

from distforest import (
    RFD,
    SMERF,
    Distances,
    Graph,
    SimForestClassifier,
    SimForestOutlier,
    SimForestRegressor,
    Targets,
    TreeRank,
    URerF,
)
from distforest.errors import InputError
from distforest.sources.collections import computed
from tests.estimators.caught_warnings import warnings_of
from tests.messages import naming

X, y = load_wine(return_X_y=True)
X = (X - X.mean(axis=0)) / X.std(axis=0)
SMALL = {"n_estimators": 3, "random_state": 0}
FORESTS: dict[str, Callable[[Any, Any], Any]] = {
    "smerf": lambda X, y: SMERF(**SMALL).fit(X, y, sample_weight=1 + y % 2),
    "targets": lambda X, y: SMERF(**SMALL).fit(X, Targets(y)),
    "classifier": lambda X, y: SimForestClassifier("linear", **SMALL).fit(X, y),
    "regressor": lambda X, y: SimForestRegressor("linear", **SMALL).fit(X, y),
    "rfd": lambda X, y: RFD(n_constraints=50, **SMALL).fit(X, y),
    "treerank": lambda X, y: TreeRank(n_pairs=100, max_depth=3, **SMALL).fit(X, y),
}


@pytest.fixture(autouse=True)
def in_this_thread() -> Iterator[None]:
    with dask.config.set(scheduler="synchronous"):
        yield


def in_blocks(values: np.ndarray, *chunks: int) -> da.Array:
    return da.from_array(values, chunks=chunks)


@pytest.mark.parametrize("name", FORESTS)
def test_a_fit_gathers_what_it_is_given(name: str) -> None:
    fit = FORESTS[name]
    assert fit(in_blocks(X, 50, 4), in_blocks(y, 70)).digest_ == fit(X, y).digest_


def counted(values: np.ndarray, rows: int) -> tuple[da.Array, list[int]]:
    """An array in blocks of so many rows, and a list that grows by an entry for each block that is loaded."""
    loads: list[int] = []

    def load(block: np.ndarray) -> np.ndarray:
        loads.append(len(block))
        return block

    return in_blocks(values, rows, values.shape[1]).map_blocks(load, dtype=values.dtype, meta=values[:0]), loads


@pytest.mark.parametrize(
    "name", sorted(set(FORESTS) - {"targets"})
)  # `Targets` compute their values when they are made
def test_a_fit_and_a_score_load_each_block_once(name: str) -> None:
    table, loads = counted(np.column_stack([X, y]), 10)
    scaled, labels = (table - table.mean(0)) / table.std(0), table[:, -1].astype(int)
    rows = scaled[:, :-1]
    forest = FORESTS[name](rows, labels)
    assert len(loads) == 18
    loads.clear()
    score = forest.score(rows, labels)
    assert len(loads) == 18
    assert score == forest.score(rows.compute(), y)


def test_a_score_reads_rows_block_by_block(monkeypatch: pytest.MonkeyPatch) -> None:
    forest, sizes, read = FORESTS["classifier"](X, y), [], SimForestClassifier._nodes
    monkeypatch.setattr(SimForestClassifier, "_nodes", lambda self, rows: sizes.append(len(rows)) or read(self, rows))
    forest.score(in_blocks(X, 50, 13), in_blocks(y, 70))
    assert max(sizes) == 50


@pytest.mark.parametrize("forest", [URerF(**SMALL), SimForestOutlier("rbf", **SMALL)], ids=["urerf", "outliers"])
def test_rows_and_their_weights_are_loaded_once(forest: Any) -> None:
    table, loads = counted(np.column_stack([X, 1 + y % 2]), 50)
    lazy = clone(forest).fit(table[:, :-1], sample_weight=table[:, -1])
    assert len(loads) == 4
    assert lazy.digest_ == forest.fit(X, sample_weight=1 + y % 2).digest_


def test_pairs_and_what_is_known_of_them_are_loaded_once() -> None:
    left, right = np.random.default_rng(0).integers(len(X), size=(2, 100))
    table, loads = counted(np.column_stack([left, right, y[left] == y[right], 1 + left % 2]), 25)
    lazy = table[:, :2], table[:, 2], table[:, 3]
    forest = RFD(**SMALL).fit_pairs(X, lazy[0], lazy[1], pair_weight=lazy[2])
    assert len(loads) == 4
    score = forest.roc_auc_score(X, *lazy)
    assert len(loads) == 8
    known = dask.compute(*lazy)
    assert forest.digest_ == RFD(**SMALL).fit_pairs(X, known[0], known[1], pair_weight=known[2]).digest_
    assert score == forest.roc_auc_score(X, *known)


def test_distances_are_computed_once() -> None:
    lazy, loads = counted(np.abs(X[:, :1] - X[:, 0]), 50)
    assert SMERF(**SMALL).fit(X, Distances(lazy)).digest_ == SMERF(**SMALL).fit(X, lazy.compute()).digest_
    assert len(loads) == 8  # four of them by `compute`
    links = sparse.csr_array((np.abs(X[:, :1] - X[:, 0]) < 0.1).astype(float))
    delayed = SMERF(**SMALL).fit(X, Graph(dask.delayed(links)))
    assert delayed.digest_ == SMERF(**SMALL).fit(X, Graph(links)).digest_


def test_arrays_are_computed_without_a_second_copy() -> None:
    lazy = da.ones((4000, 50), chunks=(100, 50)) + 1.0
    computed(lazy)  # modules are imported
    tracemalloc.start()
    [whole] = computed(lazy)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (whole == 2.0).all()
    assert peak < 1.5 * whole.nbytes


def test_what_is_computed_together_keeps_its_place() -> None:
    rows = in_blocks(X, 50, 5)
    masked = da.ma.masked_greater(rows, 1.0)
    found = computed(rows, "name", rows, masked, rows.sum(), None, dask.delayed(X), da.zeros((0, 3)))
    for one, expected in zip(found, (X, "name", X, np.ma.masked_greater(X, 1.0), rows.sum().compute()), strict=False):
        np.testing.assert_array_equal(one, expected)
    assert np.ma.getmaskarray(found[3]).sum() == (X > 1.0).sum()
    assert found[5] is None
    assert found[6] is X
    assert found[7].shape == (0, 3)


@pytest.mark.parametrize("name", FORESTS)
def test_a_fit_computes_what_is_delayed(name: str) -> None:
    fit = FORESTS[name]
    assert fit(dask.delayed(X), y).digest_ == fit(X, y).digest_


def test_a_fit_gathers_blocks_of_unknown_length() -> None:
    some = X[:, 0] > 0.0
    unknown = in_blocks(X, 50, 13)[in_blocks(X, 50, 13)[:, 0] > 0.0]
    assert np.isnan(unknown.shape[0])
    assert SMERF(**SMALL).fit(unknown, y[some]).digest_ == SMERF(**SMALL).fit(X[some], y[some]).digest_


@pytest.fixture
def in_a_cluster(in_this_thread: None) -> Iterator[None]:
    alone = {"processes": False, "n_workers": 1, "threads_per_worker": 1, "dashboard_address": "127.0.0.1:0"}
    with Client(**alone), dask.config.set(scheduler="distributed"):
        yield


@pytest.mark.usefixtures("in_a_cluster")
def test_a_cluster_computes_blocks_of_known_and_unknown_length_together() -> None:
    rows = in_blocks(X, 50, 5)
    some, whole, total, name = computed(rows[rows[:, 0] > 0.0], rows, rows.sum(), "name")
    np.testing.assert_array_equal(some, X[X[:, 0] > 0.0])
    np.testing.assert_array_equal(whole, X)
    assert (total, name) == (rows.sum().compute(), "name")


@pytest.mark.slow
@pytest.mark.usefixtures("in_a_cluster")
def test_a_graph_on_a_cluster_refers_to_the_forest() -> None:
    forest, rows = SMERF(**{**SMALL, "n_estimators": 500}).fit(X, y), in_blocks(X, 50, 5)
    later = forest.kneighbors(rows)
    assert len(pickle.dumps(forest)) > 10 * len(cloudpickle.dumps(dict(later[0].__dask_graph__())))
    for one, expected in zip(dask.compute(*later), forest.kneighbors(X), strict=True):
        np.testing.assert_array_equal(one, expected)


@pytest.mark.slow
def test_questions_to_a_cluster_that_has_no_worker_yet_wait_for_one() -> None:
    forest, rows = SMERF(**SMALL).fit(X, y), in_blocks(X, 50, 5)
    with (
        LocalCluster(n_workers=0, processes=False, threads_per_worker=1, dashboard_address="127.0.0.1:0") as cluster,
        Client(cluster),
        dask.config.set(scheduler="distributed"),
    ):
        later = forest.predict(rows)
        cluster.scale(1)
        np.testing.assert_array_equal(later.compute(), forest.predict(X))


@pytest.mark.slow
def test_an_asynchronous_client_computes_lazy_answers() -> None:
    async def answered(forest: SMERF) -> np.ndarray:
        async with Client(processes=False, n_workers=1, dashboard_address="127.0.0.1:0", asynchronous=True) as client:
            with dask.config.set(scheduler="distributed"):
                return await client.compute(forest.predict(in_blocks(X, 50, 5)))

    forest = SMERF(**SMALL).fit(X, y)
    np.testing.assert_array_equal(asyncio.run(answered(forest)), forest.predict(X))


@pytest.mark.slow
def test_a_fit_gathers_data_frames() -> None:
    pd, dd = pytest.importorskip("pandas"), pytest.importorskip("dask.dataframe")
    frame = pd.DataFrame({"width": X[:, 0], "kind": pd.Categorical(np.where(X[:, 1] > 0.0, "a", "b"))})
    of_parts = SMERF(**SMALL).fit(dd.from_pandas(frame, npartitions=3), y)
    assert of_parts.digest_ == SMERF(**SMALL).fit(frame, y).digest_
    assert of_parts.feature_names_in_.tolist() == ["width", "kind"]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["smerf", "classifier", "regressor", "rfd"])
def test_names_of_rows_are_compared_as_those_of_pandas(name: str) -> None:
    pd, dd = pytest.importorskip("pandas"), pytest.importorskip("dask.dataframe")
    turned = np.random.default_rng(0).permutation(len(X))
    frame = pd.DataFrame(X, index=turned).rename(columns=str)
    labels = pd.Series(y, index=turned)
    lazy, in_order = dd.from_pandas(frame, npartitions=3, sort=False), dd.from_pandas(labels, npartitions=2)
    forest = FORESTS[name](lazy, dd.from_pandas(labels, npartitions=2, sort=False))  # in this order, without a warning
    assert forest.digest_ == FORESTS[name](frame, labels).digest_
    assert FORESTS[name](lazy, in_blocks(y, 70)).digest_ == forest.digest_
    for rows, others in ((lazy, in_order), (frame, in_order), (dd.from_pandas(frame, npartitions=3), labels)):
        assert warnings_of(
            lambda rows=rows, others=others: FORESTS[name](rows, others), "DF005", "row 0 of X", "y.loc[X.index]"
        )


ANSWERS = {
    "smerf": ("predict", "predict_proba", "transform", "apply", "kneighbors"),
    "targets": ("predict",),
    "classifier": ("predict", "predict_proba"),
    "regressor": ("predict",),
    "rfd": ("transform", "kneighbors"),
    "treerank": ("transform",),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_answers_to_a_dask_array_are_lazy_and_those_to_the_array(name: str) -> None:
    forest, (rows, n_read) = FORESTS[name](X, y), counted(X, 50)
    for method in ANSWERS[name]:
        later, now = getattr(forest, method)(rows), getattr(forest, method)(X)
        if not isinstance(now, tuple):
            later, now = (later,), (now,)
        assert not n_read
        for one, expected in zip(later, now, strict=True):
            assert (one.shape, one.dtype, one.chunks[0]) == (expected.shape, expected.dtype, (50, 50, 50, 28))
            np.testing.assert_array_equal(one.compute(), expected)
        n_read.clear()


@pytest.mark.parametrize("name", FORESTS)
def test_answers_of_two_fits_with_the_same_parameters_are_told_apart(name: str) -> None:
    rows, fit = in_blocks(X, 60, 13), FORESTS[name]
    first, again, other = fit(X, y), fit(X, y), fit(X[::2], y[::2])
    assert tokenize(first) == tokenize(again) != tokenize(other)
    assert first.kneighbors(rows)[1].name == again.kneighbors(rows)[1].name
    assert tokenize(clone(first)) == tokenize(clone(other)) != tokenize(first)
    for found, forest in zip(
        dask.compute(*(f.kneighbors(rows)[1] for f in (first, other))), (first, other), strict=True
    ):
        assert np.array_equal(found, forest.kneighbors(X)[1])


def test_arguments_are_passed_on_and_empty_blocks_are_left_out() -> None:
    forest = SMERF(**SMALL).fit(X, y)
    kept = np.r_[0:5, 10:20]
    rows = in_blocks(X[:20], 5, 13)[in_blocks(np.isin(np.arange(20), kept), 5)].compute_chunk_sizes()
    assert rows.chunks[0] == (5, 0, 5, 5)
    later = forest.kneighbors(X=rows, n_neighbors=2, return_distance=False, added=in_blocks(X[5:10], 2, 13))
    np.testing.assert_array_equal(later.compute(), forest.kneighbors(X[kept], 2, False, X[5:10]))
    assert forest.predict(in_blocks(X[:0], 5, 13)).compute().shape == (0,)


def test_outliers_are_found_block_by_block() -> None:
    forest = SimForestOutlier("rbf", **SMALL).fit(in_blocks(X, 60, 13))
    for method in ("score_samples", "decision_function", "predict"):
        later = getattr(forest, method)(in_blocks(X, 60, 13))
        np.testing.assert_array_equal(later.compute(), getattr(forest, method)(X))


def test_what_cannot_be_answered_is_refused_before_anything_is_computed() -> None:
    forest = SMERF(**SMALL).fit(X, y)
    rows = in_blocks(X, 50, 13)
    with pytest.raises(InputError, match=naming("X:", "X.compute_chunk_sizes()")):
        forest.predict(rows[rows[:, 0] > 0.0])
    with pytest.raises(ValueError, match=naming(4, "SMERF", 13)):
        forest.predict(rows[:, :4])


def test_a_row_that_is_refused_is_found_by_the_block_that_holds_it() -> None:
    forest = FORESTS["smerf"](X, y)
    bad = np.where(np.arange(X.size).reshape(X.shape) == 140 * X.shape[1] + 2, np.inf, X)
    with pytest.raises(InputError, match=naming("X", "row 100", "row 40", "column 2")):
        forest.predict(in_blocks(bad, 50, 13)).compute()
    with pytest.raises(InputError, match=naming("features", "row 140", "column 2")):
        forest.predict(in_blocks(bad, 178, 13)).compute()
