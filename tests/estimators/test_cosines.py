"""Forests that are taught the cosine distances of an embedding: those of the matrix of these distances."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import cdist

from distforest import SMERF, Embedding, load
from distforest.errors import InputError
from distforest.sources.factors import directions_of
from tests.messages import naming

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3))
VECTORS = np.c_[X[:, 0], np.ones(60), X[:, 1] ** 2] * RNG.uniform(0.1, 10.0, (60, 1))
COSINES = Embedding(VECTORS, metric="cosine")


@pytest.mark.slow
@settings(max_examples=40)
@given(st.lists(st.lists(st.floats(-100, 100), min_size=3, max_size=3).filter(any), min_size=1, max_size=6))
def test_cosine_distances_are_those_of_the_formula(vectors: list[list[float]]) -> None:
    lengths = np.linalg.norm(np.array(vectors) / np.abs(vectors).max(axis=1, keepdims=True), axis=1)
    scaled = np.array(vectors) / np.abs(vectors).max(axis=1, keepdims=True)
    expected = 1.0 - scaled @ scaled.T / np.outer(lengths, lengths)
    np.testing.assert_allclose(Embedding(vectors, metric="cosine").matrix(), expected, atol=1e-14)


def test_no_square_of_a_tiny_or_enormous_vector_is_lost() -> None:
    assert directions_of(np.array([[3e-200, -4e-200], [3e200, 4e200]])).tolist() == [[0.6, -0.8], [0.6, 0.8]]


def test_lengths_do_not_matter() -> None:
    one, other = (SMERF(5, random_state=0).fit(X, Embedding(v, metric="cosine")) for v in (VECTORS, 4.0 * VECTORS))
    assert one.digest_ == other.digest_


def test_distances_are_those_of_a_forest_of_the_matrix(tmp_path: Path) -> None:
    matrix = cdist(VECTORS, VECTORS, "cosine").clip(0)
    np.fill_diagonal(matrix, 0.0)
    forest = SMERF(10, random_state=0).fit(X, COSINES)
    np.testing.assert_allclose(forest.distance(X), SMERF(10, random_state=0).fit(X, matrix).distance(X), atol=1e-6)
    assert forest.score(X, COSINES) == pytest.approx(forest.score(X, matrix), abs=1e-6)
    assert (np.linalg.norm(forest.predict(X), axis=1) <= 1.0 + 1e-12).all()
    assert forest.save(f"{tmp_path}/a.zarr") == forest.digest_
    again = load(f"{tmp_path}/a.zarr")
    assert again.distance(X).tobytes() == forest.distance(X).tobytes()
    assert again.score(X, COSINES) == forest.score(X, COSINES)


def test_selected_rows_keep_the_metric() -> None:
    np.testing.assert_allclose(COSINES[3:6].matrix(), COSINES.matrix()[3:6, 3:6])


def test_a_vector_without_a_direction_is_refused() -> None:
    vectors = VECTORS.copy()
    vectors[[7, 9]] = 0.0
    with pytest.raises(InputError, match=naming("directions:", "row 7")):
        SMERF(2).fit(X, Embedding(vectors, metric="cosine"))


def test_other_metrics_are_refused() -> None:
    with pytest.raises(InputError, match=naming("metric:", "'sqeuclidean'", "'cosine'", "'euclidean'", "matrix")):
        Embedding(VECTORS, metric="euclidean")
    with pytest.raises(InputError, match=naming("metric:", "'sqeuclidean'", "'cosine'", "'l1'")):
        Embedding(VECTORS, metric="l1")
