"""Copies of a column are told where features are screened by their dependence; series, bits and categories are not."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_iris, load_wine

from distforest import SMERF, URerF
from distforest.errors import DistforestWarning
from distforest.jobs.staging import stage_inputs
from distforest.sources.copied_columns import told_of_copies
from tests.messages import naming
from tests.sources.helpers import job_spec, write_arrays

RNG = np.random.default_rng(0)
X = RNG.normal(size=(80, 4)).astype(np.float32)
COPIES = ("column 1, column 4 and column 5", "feature_weights")


def with_copies() -> np.ndarray:
    """Features of which the second stands there thrice, once in degrees Fahrenheit, and lacks values."""
    features = X.copy()
    features[::9, 1] = np.nan
    return np.column_stack([features, features[:, 1], 32 - 1.8 * features[:, 1]])


def test_copies_are_told_where_features_are_screened() -> None:
    for estimator in (URerF(2, random_state=0), SMERF(2, feature_weights="dependence", random_state=0)):
        with pytest.warns(DistforestWarning, match=naming("X: ", *COPIES)):
            estimator.fit(with_copies(), X[:, 0])
    named = pd.DataFrame(with_copies(), columns=list("abcdef"))
    with pytest.warns(DistforestWarning, match=naming("X: ", "column 'b', column 'e' and column 'f'")):
        URerF(2, random_state=0).fit(named)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        URerF(2, feature_weights=None, random_state=0).fit(with_copies())


def test_a_job_tells_of_them(tmp_path: Path) -> None:
    group = write_arrays(f"{tmp_path}/t.zarr", one=X, copies=with_copies())
    with pytest.warns(DistforestWarning, match=naming(*COPIES)):
        stage_inputs(job_spec(tmp_path, "urerf", features=f"{group}/copies"), f"{tmp_path}/job")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        stage_inputs(job_spec(tmp_path, "urerf", features=f"{group}/one"), f"{tmp_path}/job")


def test_what_is_no_copy_is_not_told() -> None:
    answers = RNG.random(80) < 0.5
    series = np.cumsum(np.arange(1.0, 81.0)[:, None] ** np.array([1.0, 1.5]), axis=0)  # in the same order, on no line
    for features in (X, np.column_stack([answers, ~answers, X]), series, np.ones((80, 3)), np.full((80, 2), np.nan)):
        assert not told_of_copies(features.astype(np.float32))
    for to_read in (load_digits, load_wine, load_breast_cancer, load_iris, load_diabetes):
        assert not told_of_copies(to_read().data.astype(np.float32))
    assert told_of_copies(with_copies())
    assert not told_of_copies(np.empty((0, 3), np.float32))


def test_rounding_of_another_unit_hides_no_copy() -> None:
    for seed in range(10):
        celsius = np.random.default_rng(seed).normal(15, 8, (2000, 3)).astype(np.float32)
        for other in (celsius[:, 0] + 273.15, 32 + 1.8 * celsius[:, 0], 2.54 * celsius[:, 0]):
            told = told_of_copies(np.column_stack([celsius, other]).astype(np.float32))
            assert told.startswith("column 0 and column 3 ")


def test_marks_in_the_same_rows_make_no_copies() -> None:
    for mark in (-9999, -1e6, 1e9):
        marked = X.copy()
        marked[::7] = mark
        assert not told_of_copies(marked)


def test_the_first_of_many_copies_is_named_first() -> None:
    many = np.column_stack([X[:, ::-1], RNG.normal(size=(80, 300)), X, X]).astype(np.float32)
    assert told_of_copies(many).startswith("column 0, column 307 and column 311 ")
