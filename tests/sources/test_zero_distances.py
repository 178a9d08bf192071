"""Distances of 0 between rows that are unlike: told where 0 is a mark, or where links were given as distances."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_iris, load_wine

import distforest
from distforest import SMERF, Graph
from distforest.errors import DistforestWarning
from distforest.jobs.staging import stage_inputs
from distforest.sources.zero_distances import told_of_zeros
from tests.messages import naming
from tests.sources.helpers import job_spec, scaled_distances, with_zeros, write_arrays

with np.load(Path(distforest.__file__).parent / "data" / "lazega.npz") as found:
    LINKS, ATTRIBUTES = found["A"].astype(np.float64), found["X"].astype(np.float64)
WINE, IRIS = (load(return_X_y=True)[0] for load in (load_wine, load_iris))
RNG = np.random.default_rng(0)


def told(Z: np.ndarray) -> str:
    return told_of_zeros(Z.astype(np.float32))


@pytest.mark.parametrize("metric", ["euclidean", "cityblock", "cosine"])
@pytest.mark.parametrize("share", [0.005, 0.02, 0.1, 0.3])
def test_zeros_that_mark_what_is_unknown_are_told(metric: str, share: float) -> None:
    for rows in (WINE, IRIS):
        found = told(with_zeros(scaled_distances(rows, metric), share))
        assert re.match(naming("% ", "NaN"), found)


REASONS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "as they are": lambda Z: Z,
    "rounded": np.round,
    "coarse": lambda Z: np.round(Z / 3),
    "squared": np.square,
    "one is near": lambda Z: np.maximum(0, Z - np.quantile(Z, 0.1)),
    "half are near": lambda Z: np.maximum(0, Z - np.quantile(Z, 0.5)),
    "most are near": lambda Z: np.maximum(0, Z - np.quantile(Z, 0.9)),
    "links": lambda Z: 1.0 - (np.quantile(Z, 0.1) > Z),
    "nearly all links": lambda Z: 1.0 - (np.quantile(Z, 0.6) > Z),
    "groups": lambda Z: (np.arange(len(Z))[:, None] // 60 != np.arange(len(Z)) // 60).astype(float),
    "one large group": lambda Z: ((np.arange(len(Z))[:, None] > 20) != (np.arange(len(Z)) > 20)).astype(float),
    "unobserved": lambda Z: np.where(RNG.random(Z.shape) < 0.3, np.nan, Z),
    "few rows": lambda Z: with_zeros(Z, 0.2)[:19, :19],
    "all the same": np.zeros_like,
}


@pytest.mark.parametrize("name", REASONS)
def test_zeros_with_a_reason_are_not_told(name: str) -> None:
    for rows in (WINE, IRIS):
        Z = REASONS[name](scaled_distances(rows))
        assert told(np.fmin(Z, Z.T)) == ""


def test_equal_rows_are_not_told() -> None:
    rows = np.repeat(WINE[:60], 3, axis=0)
    assert told(scaled_distances(rows)) == ""
    assert told(1.0 - LINKS) == ""


def test_links_that_are_given_as_distances_are_told() -> None:
    Z = scaled_distances(WINE)
    nearest = np.sort(Z, axis=1)[:, [10]] >= Z
    nearest = nearest | nearest.T
    for links in (LINKS, nearest.astype(float), np.where(nearest, Z, 0.0)):
        assert "Graph(A)" in told(links)


def test_a_fit_and_a_job_tell_it(tmp_path: Path) -> None:
    Z = with_zeros(scaled_distances(WINE), 0.05)
    with pytest.warns(DistforestWarning, match=naming("distances: ", "% ")):
        SMERF(2, random_state=0).fit(WINE, Z)
    group = write_arrays(f"{tmp_path}/wine.zarr", X=WINE, Z=Z)
    spec = job_spec(tmp_path, "smerf", features=f"{group}/X", distances=f"{group}/Z")
    with pytest.warns(DistforestWarning, match=naming("wine.zarr/Z: ", "% ")):
        stage_inputs(spec, f"{tmp_path}/job")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        SMERF(2, random_state=0).fit(WINE, scaled_distances(WINE))
        SMERF(2, random_state=0).fit(ATTRIBUTES, Graph(LINKS))
