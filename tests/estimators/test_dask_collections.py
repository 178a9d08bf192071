"""Dask arrays and data frames: a fit gathers them, answers to a Dask array are lazy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import dask
import dask.array as da
import numpy as np
import pytest
from dask.tokenize import tokenize
from distributed import Client
from sklearn.base import clone
from sklearn.datasets import load_wine

from distforest import RFD, SMERF, SimForestClassifier, SimForestOutlier, SimForestRegressor, Targets, TreeRank
from distforest.errors import InputError
from distforest.sources.collections import gathered
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


@pytest.mark.parametrize("name", FORESTS)
def test_a_fit_computes_what_is_delayed(name: str) -> None:
    fit = FORESTS[name]
    assert fit(dask.delayed(X), y).digest_ == fit(X, y).digest_


def test_a_fit_gathers_blocks_of_unknown_length() -> None:
    some = X[:, 0] > 0.0
    unknown = in_blocks(X, 50, 13)[in_blocks(X, 50, 13)[:, 0] > 0.0]
    assert np.isnan(unknown.shape[0])
    assert SMERF(**SMALL).fit(unknown, y[some]).digest_ == SMERF(**SMALL).fit(X[some], y[some]).digest_


def test_blocks_of_unknown_length_that_are_parted_by_columns_are_gathered_on_a_cluster() -> None:
    alone = {"processes": False, "n_workers": 1, "threads_per_worker": 1, "dashboard_address": None}
    with Client(**alone), dask.config.set(scheduler="distributed"):
        unknown = in_blocks(X, 50, 5)[in_blocks(X, 50, 5)[:, 0] > 0.0]
        found = gathered(unknown)
    assert np.array_equal(found, X[X[:, 0] > 0.0])


@pytest.mark.slow
def test_a_fit_gathers_data_frames() -> None:
    pd, dd = pytest.importorskip("pandas"), pytest.importorskip("dask.dataframe")
    frame = pd.DataFrame({"width": X[:, 0], "kind": pd.Categorical(np.where(X[:, 1] > 0.0, "a", "b"))})
    of_parts = SMERF(**SMALL).fit(dd.from_pandas(frame, npartitions=3), y)
    assert of_parts.digest_ == SMERF(**SMALL).fit(frame, y).digest_
    assert of_parts.feature_names_in_.tolist() == ["width", "kind"]


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
    forest, n_read = FORESTS[name](X, y), []

    def read(block: np.ndarray) -> np.ndarray:
        n_read.append(len(block))
        return block

    rows = in_blocks(X, 50, 5).map_blocks(read, dtype=X.dtype, meta=X[:0])
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
    later = forest.kneighbors(X=rows, n_neighbors=2, return_distance=False)
    np.testing.assert_array_equal(later.compute(), forest.kneighbors(X[kept], 2, return_distance=False))
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
