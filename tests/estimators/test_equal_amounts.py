"""Amounts with more digits than float64 has: those that become equal are told, in Python and in jobs."""

from __future__ import annotations

import warnings
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from distforest import SMERF, Embedding, SimForestRegressor, Targets
from distforest.errors import DistforestWarning
from distforest.jobs.staging import stage_inputs
from distforest.sources.doubts import told_of_equal_amounts
from tests.estimators.jobs import spec_of, write_arrays
from tests.messages import naming

if TYPE_CHECKING:
    from pathlib import Path

X = np.random.default_rng(0).normal(size=(178, 3)).astype(np.float32)
LARGE = 2**60 + np.arange(178)
LOST = ("float64", 2, 178)

TRUTHS: dict[str, Any] = {
    "int64": LARGE,
    "uint64": LARGE.astype(np.uint64),
    "Python's": [2**90 + i * 2**30 for i in range(178)],
    "Decimal": [Decimal(int(i)) for i in LARGE],
    "strings": [str(i) for i in LARGE],
    "times": LARGE.astype("datetime64[ns]"),
    "durations": LARGE.astype("timedelta64[ns]"),
}
"""Amounts of which float64 tells two apart."""

KEPT: dict[str, Any] = {
    "farther apart than the steps": LARGE * 4 - 2**62 + 2**60 + np.arange(178) * 1000,
    "whole": np.arange(178),
    "negative": -np.arange(178),
    "the largest exact": 2**53 - np.arange(178),
    "float64": LARGE.astype(np.float64),
    "bool": np.arange(178) % 2 == 0,
    "objects": np.arange(178).astype(object),
    "fractions": [Fraction(i, 3) for i in range(178)],
    "strings": [f"{i}.50" for i in range(178)],
    "NumPy's numbers": np.array([np.float32(i) for i in range(178)], object),
    "times of a day, a few of which are equal": np.r_[LARGE[:5], LARGE[0] + np.arange(173) * 10**12].astype("M8[ns]"),
    "none": np.empty(0, np.int64),
}
"""Amounts of which float64 tells nearly all apart."""


@pytest.mark.parametrize("name", TRUTHS)
def test_amounts_that_become_equal_are_told(name: str) -> None:
    raw = np.asarray(TRUTHS[name])
    with pytest.warns(DistforestWarning, match=naming("targets", *LOST)) as told:
        SMERF(3, random_state=0).fit(X, Targets(TRUTHS[name]))
    assert [one.filename for one in told] == [__file__]
    assert str(raw[0]) in str(told[0].message)


@pytest.mark.parametrize("name", KEPT)
def test_of_amounts_that_stay_different_nothing_is_told(name: str) -> None:
    raw = np.asarray(KEPT[name])
    vectors = (raw.astype(np.int64) if raw.dtype.kind in "mM" else raw).astype(np.float64)[:, None]
    assert told_of_equal_amounts(raw, vectors, "targets") == ""


def test_the_column_of_an_embedding_is_named() -> None:
    with pytest.warns(DistforestWarning, match=naming("column 1", "embedding", *LOST)):
        SMERF(3, random_state=0).fit(X, Embedding(np.c_[np.arange(178), LARGE]))


@pytest.mark.parametrize("metric", ["squared", "absolute"])
def test_a_shift_heeds_the_warning(metric: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        forest = SMERF(3, random_state=0).fit(X, Targets(LARGE - LARGE.min(), metric=metric))
    assert len(np.unique(forest.predict(X))) > 100  # of 178 different ones, of which 2 were left


@pytest.mark.slow
def test_similarities_and_jobs_tell_it_too(tmp_path: Path) -> None:
    similarity = X @ X.T
    with pytest.warns(DistforestWarning, match=naming("targets", *LOST)):
        SimForestRegressor(n_estimators=3, random_state=0).fit(similarity, LARGE)
    at = write_arrays(f"{tmp_path}/in.zarr", {"S": similarity, "y": LARGE})
    spec = spec_of(tmp_path, "simforest", {"similarity": at["S"], "targets": at["y"]})
    with pytest.warns(DistforestWarning, match=naming("targets", *LOST)):
        stage_inputs(spec, f"{tmp_path}/job")
