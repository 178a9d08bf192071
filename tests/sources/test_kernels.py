"""The built-in similarities against naive.py."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics.pairwise import cosine_similarity, manhattan_distances, nan_euclidean_distances, rbf_kernel

from distforest.sources.kernels import KERNELS, KernelSource, scale_gamma
from tests import samples
from tests.reference import naive, naive_missing
from tests.tries import tries

pytestmark = pytest.mark.kernels

FREE = settings(max_examples=tries(100))


@FREE
@given(st.integers(1, 11), st.integers(0, 999), st.floats(1e-3, 3.0))
def test_similarities_are_the_reference(n_features: int, seed: int, gamma: float) -> None:
    X, Y = samples.features(4, n_features, seed), samples.features(3, n_features, seed + 1)
    rows, columns = np.arange(4, dtype=np.int32), np.arange(3, dtype=np.int32)
    references = {
        "linear": naive.linear,
        "cosine": naive.cosine,
        "rbf": lambda x, y: naive.rbf(x, y, gamma),
        "manhattan": naive.manhattan,
    }
    assert set(references) == set(KERNELS)
    for name, reference in references.items():
        found = KernelSource(X, Y, name, gamma).block(rows, columns)
        expected = [[reference(x, y) if name != "cosine" or (x.any() and y.any()) else 0.0 for y in Y] for x in X]
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)
        assert found.shape == (4, 3)


@FREE
@given(st.integers(1, 11), st.integers(0, 999), st.sampled_from(KERNELS))
def test_similarities_are_symmetric_to_the_bit(n_features: int, seed: int, name: str) -> None:
    X, numbers = samples.features(6, n_features, seed), np.arange(6, dtype=np.int32)
    block = KernelSource(X, X, name, 0.4).block(numbers, numbers)
    assert block.tobytes() == block.T.copy().tobytes()
    if name == "rbf":
        assert np.diag(block).tolist() == [1.0] * 6


@FREE
@given(st.integers(1, 11), st.integers(0, 999), st.floats(1e-3, 3.0), st.sampled_from([0.1, 0.4, 0.9]))
def test_missing_features_are_the_reference(n_features: int, seed: int, gamma: float, share: float) -> None:
    X, Y = samples.features(5, n_features, seed), samples.features(4, n_features, seed + 1)
    lost = np.random.default_rng(seed)
    X[lost.random(X.shape) < share], Y[lost.random(Y.shape) < share] = np.nan, np.nan
    Y[0, 0] = np.nan
    rows, columns = np.arange(5, dtype=np.int32), np.arange(4, dtype=np.int32)
    for name in KERNELS:
        found = KernelSource(X, Y, name, gamma).block(rows, columns)
        expected = [[naive_missing.similarity_of_shared(name, x, y, gamma) for y in Y] for x in X]
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


@FREE
@given(st.integers(1, 11), st.integers(0, 999), st.sampled_from(KERNELS))
def test_an_object_that_lacks_a_feature_changes_no_similarity_of_others(n: int, seed: int, name: str) -> None:
    X, numbers = samples.features(6, n, seed), np.arange(6, dtype=np.int32)
    holes = np.vstack([X, np.full((1, n), np.nan, np.float32)])
    found, expected = (KernelSource(rows, X, name, 0.4).block(numbers, numbers) for rows in (holes, X))
    assert found.tobytes() == expected.tobytes()


@pytest.mark.parametrize("n", [2, 5, 9])
def test_squares_are_those_of_scikit_learn_if_features_are_missing(n: int) -> None:
    X, numbers = samples.features(6, n, 3), np.arange(6, dtype=np.int32)
    Y = np.where(np.arange(n) > 0, X, np.float32(np.nan))
    distances = nan_euclidean_distances(X.astype(float), Y.astype(float), squared=True)
    found = KernelSource(X, Y, "rbf", 0.4).block(numbers, numbers)
    np.testing.assert_allclose(found, np.exp(-0.4 * distances), rtol=1e-9)


def test_a_scale_is_that_of_what_is_observed() -> None:
    X = np.array([[1.0, np.nan], [3.0, 5.0], [np.nan, 2.0]], np.float32)
    assert scale_gamma(X) == pytest.approx(1 / (2 * np.var([1.0, 3.0, 5.0, 2.0])))
    assert scale_gamma(X, np.array([1.0, 0.0, 2.0])) == pytest.approx(1 / (2 * np.var([1.0, 2.0, 2.0])))
    assert scale_gamma(np.full((3, 2), np.nan, np.float32)) == 1.0


def test_a_vector_of_zeros_has_no_direction() -> None:
    X = np.array([[0.0, 0.0], [3.0, 4.0]], np.float32)
    numbers = np.arange(2, dtype=np.int32)
    assert KernelSource(X, X, "cosine").block(numbers, numbers).tolist() == [[0.0, 0.0], [0.0, 1.0]]


def test_large_features_do_not_overflow() -> None:
    X = np.array([[3e38, -3e38], [3e38, 3e38]], np.float32)
    numbers = np.arange(2, dtype=np.int32)
    for name, expected in (("linear", 1.8e77), ("cosine", 1.0), ("rbf", 1.0), ("manhattan", 0.0)):
        block = KernelSource(X, X, name, 1e-3).block(numbers, numbers)
        assert np.isfinite(block).all()
        assert block[0, 0] == pytest.approx(expected, rel=1e-6)


def test_nothing_asked_is_nothing_answered() -> None:
    X = samples.features(3)
    none, some = np.empty(0, np.int32), np.arange(2, dtype=np.int32)
    source = KernelSource(X, X[:2], "linear")
    assert source.shape == (3, 2)
    assert source.entries(none, none).shape == (0,)
    assert source.block(some, none).shape == (2, 0)


def test_a_block_of_no_rows_has_its_columns() -> None:
    X = samples.features(3)
    assert KernelSource(X, X, "linear").block(np.empty(0, np.int32), np.arange(2, dtype=np.int32)).shape == (0, 2)


@FREE
@given(st.integers(0, 99), st.integers(1, 6))
def test_similarities_are_those_of_sklearn(seed: int, n_features: int) -> None:
    X, numbers = samples.features(7, n_features, seed), np.arange(7, dtype=np.int32)
    wide = X.astype(np.float64)
    rbf = KernelSource(X, X, "rbf", 0.6).block(numbers, numbers)
    np.testing.assert_allclose(rbf, rbf_kernel(wide, gamma=0.6), rtol=1e-9)
    cosine = KernelSource(X, X, "cosine").block(numbers, numbers)
    np.testing.assert_allclose(cosine, cosine_similarity(wide), atol=1e-12)
    manhattan = KernelSource(X, X, "manhattan").block(numbers, numbers)
    np.testing.assert_allclose(manhattan, -manhattan_distances(wide), atol=1e-12)


def test_gamma_follows_the_scale_of_the_features() -> None:
    X = samples.features(50)
    assert scale_gamma(X) == pytest.approx(1 / (X.shape[1] * X.astype(np.float64).var()))
    assert scale_gamma(np.full((3, 2), 7, np.float32)) == 1.0
    assert math.isfinite(scale_gamma(np.array([[3e38], [-3e38]], np.float32)))
