"""Doubts about far distances: rows and marks that are told of, and structure that is not."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import cdist
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris, load_wine

from distforest.sources.distance_doubts import MOST_COMPARED, told_of_far_distances
from tests import simulated
from tests.messages import naming

RNG = np.random.default_rng(0)
POINTS = RNG.random((200, 3))


def distances(points: np.ndarray = POINTS) -> np.ndarray:
    return cdist(points, points).astype(np.float32)


def symmetric(chosen: np.ndarray) -> np.ndarray:
    upper: np.ndarray = np.triu(chosen, 1)
    return upper | upper.T


@pytest.mark.parametrize("load", [load_iris, load_wine, load_breast_cancer, load_diabetes])
@pytest.mark.parametrize("measure", ["euclidean", "sqeuclidean", "cityblock", "cosine", "chebyshev", "canberra"])
def test_real_distances_are_not_told(load: object, measure: str) -> None:
    points = load(return_X_y=True)[0]  # type: ignore[operator]
    for rows in (points, (points - points.mean(axis=0)) / points.std(axis=0)):
        assert told_of_far_distances(cdist(rows, rows, measure).astype(np.float32)) == ""


@pytest.mark.parametrize("made", [simulated.regression, simulated.bilinear, simulated.radial])
@pytest.mark.parametrize("n", [10, 40, 320])
def test_distances_of_the_paper_are_not_told(made: object, n: int) -> None:
    assert told_of_far_distances(made(n, random_state=0).Z.astype(np.float32)) == ""  # type: ignore[operator]


@settings(max_examples=40, deadline=None)
@given(st.integers(8, 700), st.integers(0, 2**31), st.sampled_from([30.0, 1e6, 1e20]), st.floats(0.0, 0.5))
def test_one_far_row_is_named_wherever_it_is(n: int, seed: int, factor: float, missing: float) -> None:
    rng = np.random.default_rng(seed)
    Z, far = distances(rng.random((n, 2))), int(rng.integers(n))
    Z[far] *= np.float32(factor)
    Z[:, far] *= np.float32(factor)
    if n > 40:  # of fewer, a row may be left with a few short distances
        Z[symmetric(rng.random((n, n)) < missing)] = np.nan
    assert told_of_far_distances(Z).startswith(f"row {far} ")


def test_several_far_rows() -> None:
    Z = distances()
    for row in (3, 50, 199):
        Z[row], Z[:, row] = Z[row] * 1e4, Z[:, row] * 1e4
    assert told_of_far_distances(Z).startswith("3 rows (3, 50, 199) ")


@pytest.mark.parametrize("share", [0.005, 0.02, 0.3])
@pytest.mark.parametrize("n", [100, MOST_COMPARED + 90])
def test_a_mark_in_many_places_is_told(share: float, n: int) -> None:
    rng = np.random.default_rng(0)
    Z = distances(rng.random((n, 3)))
    Z[symmetric(rng.random(Z.shape) < share)] = 9999.0
    assert re.match(naming("% ", 9999, "0.0"), told_of_far_distances(Z))


def test_far_distances_of_several_values_are_told() -> None:
    Z = distances()
    wrong = symmetric(RNG.random(Z.shape) < 0.01)
    factors = np.triu(RNG.uniform(1e4, 2e4, Z.shape), 1)
    Z[wrong] *= (factors + factors.T)[wrong].astype(np.float32)
    assert re.match(r"[\d.]+% .*such as \d", told_of_far_distances(Z))


def test_one_far_pair_decides_nothing() -> None:
    Z = distances()
    Z[3, 4] = Z[4, 3] = 1e6
    assert told_of_far_distances(Z) == ""


@pytest.mark.parametrize("separation", [1e2, 1e4, 1e8])
def test_groups_are_no_far_rows(separation: float) -> None:
    sides = (np.arange(200) % 3).astype(np.float64)
    assert told_of_far_distances(distances(POINTS + separation * sides[:, None])) == ""
    levels = np.where(sides[:, None] == sides, 1.0, separation).astype(np.float32)
    np.fill_diagonal(levels, 0.0)
    assert told_of_far_distances(levels) == ""


def test_an_offset_and_a_unit_change_no_verdict() -> None:
    Z = distances()
    Z[7], Z[:, 7] = Z[7] * 1e3, Z[:, 7] * 1e3
    told = told_of_far_distances(Z)
    assert told_of_far_distances(Z * np.float32(2.0**-20)).startswith("row 7 ")
    assert told_of_far_distances(Z - np.float32(4096.0)).startswith("row 7 ")
    assert told_of_far_distances(Z, offset=5e6) != told
    assert "5e+06" in told_of_far_distances(Z, offset=5e6)


@pytest.mark.parametrize("Z", [np.zeros((20, 20)), 1.0 - np.eye(20), np.zeros((2, 2)), np.full((9, 9), np.nan)])
def test_nothing_is_told_of_what_is_all_alike(Z: np.ndarray) -> None:
    assert told_of_far_distances(Z.astype(np.float32)) == ""
