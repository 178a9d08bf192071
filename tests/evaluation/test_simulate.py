"""The simulated settings against their definitions in plain loops, and against the paper's own identities."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from scipy.stats import kstest

from distforest.errors import InputError
from distforest.evaluation.simulate import smerf_bilinear, smerf_radial, smerf_regression

SETTINGS = [smerf_regression, smerf_bilinear, smerf_radial]


@pytest.mark.parametrize("setting", SETTINGS)
def test_shapes_types_and_bounds(setting):
    data = setting(40, random_state=1)
    assert data.X.shape == (40, 20)
    assert data.X.dtype == np.float32
    assert data.Z.shape == data.Q.shape == (40, 40)
    assert data.Z.dtype == data.Q.dtype == data.y.dtype == np.float64
    assert np.array_equal(data.Z, data.Z.T)
    assert data.Z.min() >= 0
    assert data.Z.max() <= 1
    assert np.array_equal(data.Q, 1 - data.Z)


@pytest.mark.parametrize("setting", SETTINGS)
def test_one_seed_one_data_set(setting):
    first, again, other = (setting(12, random_state=seed) for seed in (7, 7, 8))
    assert np.array_equal(first.X, again.X)
    assert np.array_equal(first.Z, again.Z)
    assert not np.array_equal(first.X, other.X)
    generator = np.random.default_rng(7)
    assert np.array_equal(setting(12, random_state=generator).Z, first.Z)
    assert not np.array_equal(setting(12, random_state=generator).Z, first.Z)


@pytest.mark.parametrize("setting", [smerf_regression, smerf_radial])
def test_squared_differences_by_loops(setting):
    data = setting(9, p=4, random_state=2)
    for i in range(9):
        for j in range(9):
            assert data.Z[i, j] == pytest.approx((data.y[i] - data.y[j]) ** 2, rel=1e-14, abs=1e-16)


@pytest.mark.slow
def test_regression_columns_and_noise_are_uniform():
    data = smerf_regression(4000, random_state=3)
    assert kstest(data.X.astype(np.float64).ravel(), "uniform", (0.1, 0.8)).pvalue > 1e-3
    x = data.X.astype(np.float64)
    noise = data.y - (x[:, 0] + x[:, 1]) / 2
    assert np.abs(noise).max() <= 0.1
    assert kstest(noise, "uniform", (-0.1, 0.2)).pvalue > 1e-3
    assert abs(np.corrcoef(noise, x[:, 0])[0, 1]) < 5 / math.sqrt(4000)


def test_bilinear_by_loops_and_without_noise():
    data = smerf_bilinear(9, random_state=4)
    for i in range(9):
        for j in range(9):
            y_i = (float(data.X[i, 0]) + float(data.X[i, 1])) / 2
            y_j = (float(data.X[j, 0]) + float(data.X[j, 1])) / 2
            assert data.Z[i, j] == pytest.approx(1 - y_i * y_j, rel=1e-14)
    assert data.Z.diagonal().min() > 0


def test_bilinear_is_a_bilinear_similarity_with_weights_a_quarter():
    data = smerf_bilinear(30, random_state=5)
    W = np.zeros((20, 20))
    W[:2, :2] = 0.25
    X = data.X.astype(np.float64)
    assert np.allclose(data.Q, X @ W @ X.T, atol=1e-14)
    assert kstest(X.ravel(), "uniform").pvalue > 1e-3


def test_radial_by_loops():
    data = smerf_radial(9, random_state=6)
    for i in range(9):
        length = math.sqrt(float(data.X[i, 0]) ** 2 + float(data.X[i, 1]) ** 2)
        assert data.y[i] == pytest.approx(length, rel=1e-14)


@pytest.mark.parametrize("p", [2, 3, 20])
def test_radial_is_uniform_in_the_ball(p):
    X = smerf_radial(4000, p=p, random_state=9).X.astype(np.float64)
    radius = np.linalg.norm(X, axis=1)
    assert radius.max() <= 1 + 1e-6
    assert kstest(radius**p, "uniform").pvalue > 1e-3
    # For a uniform ball the mean is 0 and the covariance the identity over p + 2.
    assert np.abs(X.mean(axis=0)).max() < 5 / math.sqrt(4000 * (p + 2))
    assert np.allclose(np.cov(X.T), np.eye(p) / (p + 2), atol=6 / (p + 2) * math.sqrt(2 / 4000))


@pytest.mark.parametrize("setting", SETTINGS)
def test_smallest_sizes(setting):
    data = setting(1, p=2, random_state=0)
    assert data.X.shape == (1, 2)
    assert data.Z.shape == (1, 1)


def test_a_simulation_cannot_be_changed():
    data = smerf_radial(3, random_state=0)
    with pytest.raises(dataclasses.FrozenInstanceError):
        data.Z = data.Q


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("n", 0),
        ("n", 2.0),
        ("n", True),
        ("p", 1),
        ("random_state", -1),
        ("random_state", True),
        ("random_state", "seed"),
    ],
)
def test_faults_are_refused_at_the_door(setting, argument, value):
    with pytest.raises(InputError, match=rf"^{argument}\b.* {value!r}$"):
        setting(**{"n": 5, argument: value})
