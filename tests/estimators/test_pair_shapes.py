"""Pairs in several shapes: each is the same pairs as row numbers, and the forests are the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse

from distforest import RFD, number_pairs, pairs_of_array, pairs_of_triplets, stack_tables
from distforest.errors import InputError
from tests.messages import naming

RNG = np.random.default_rng(3)
LEFT, RIGHT = RNG.normal(size=(12, 3)), RNG.normal(size=(9, 3))
PAIRS = np.array([(i, j) for i in range(12) for j in range(9)])
SIMILAR = RNG.random(len(PAIRS)) < 0.5


@pytest.mark.parametrize("kind", [np.asarray, pd.DataFrame, pl.DataFrame, scipy.sparse.csr_array])
def test_rows_of_two_tables_are_found_in_the_stacked_one(kind: Callable[[np.ndarray], Any]) -> None:
    X, pairs = stack_tables(kind(LEFT), kind(RIGHT), PAIRS)
    dense = X.toarray() if scipy.sparse.issparse(X) else np.asarray(X)
    np.testing.assert_array_equal(dense[pairs[:, 0]], LEFT[PAIRS[:, 0]])
    np.testing.assert_array_equal(dense[pairs[:, 1]], RIGHT[PAIRS[:, 1]])


def test_names_of_two_tables_and_frames_with_an_index() -> None:
    left = pd.DataFrame(LEFT, index=[f"a{k}" for k in range(12)])
    right = pd.DataFrame(RIGHT, index=[f"b{k}" for k in range(9)])
    named = pd.DataFrame({"l": left.index[PAIRS[:, 0]], "r": right.index[PAIRS[:, 1]]})
    numbers = number_pairs(named, left.index, right.index)
    np.testing.assert_array_equal(numbers, PAIRS)
    X, pairs = stack_tables(left, right, numbers)
    np.testing.assert_array_equal(X.to_numpy()[pairs[:, 1]], RIGHT[PAIRS[:, 1]])
    forest = RFD(3, random_state=0).fit_pairs(X, pairs, SIMILAR)
    plain = RFD(3, random_state=0).fit_pairs(np.vstack([LEFT, RIGHT]), PAIRS + np.array([0, 12]), SIMILAR)
    assert forest.digest_ == plain.digest_


def test_vectors_of_pairs_are_points_of_which_equal_ones_are_one() -> None:
    array = np.stack([LEFT[PAIRS[:, 0]], RIGHT[PAIRS[:, 1]]], axis=1)
    X, pairs = pairs_of_array(array)
    assert len(X) == 21
    np.testing.assert_array_equal(X[pairs], array)


def test_the_nearer_one_of_a_triplet_is_similar() -> None:
    triplets = RNG.permuted(np.tile(np.arange(12), (40, 1)), axis=1)[:, :3]
    pairs, similar = pairs_of_triplets(triplets)
    for (a, b, c), near, far in zip(triplets, pairs[similar], pairs[~similar], strict=True):
        assert (near.tolist(), far.tolist()) == ([a, b], [a, c])


@pytest.mark.parametrize(
    ("call", "names"),
    [
        (lambda: number_pairs([["a", "z"]], ["a", "b"]), ["'z'", 2]),
        (lambda: number_pairs([["a", "b"]], ["a", "b", "a"]), ["'a'"]),
        (lambda: number_pairs(["a", "b"], ["a", "b"]), ["pairs", (2,)]),
        (lambda: stack_tables(LEFT, RIGHT, [[0, 9]]), ["right", "0..8", 9]),
        (lambda: stack_tables(LEFT, RIGHT, [[-1, 0]]), ["left", "0..11", -1]),
        (lambda: stack_tables(LEFT, RIGHT, [[0.5, 0]]), ["float64"]),
        (lambda: stack_tables(LEFT, RIGHT[:, :2], [[0, 0]]), [(12, 3), (9, 2)]),
        (lambda: stack_tables(pd.DataFrame({"a": [1]}), pd.DataFrame({"b": [1]}), [[0, 0]]), ["['a']", "['b']"]),
        (lambda: pairs_of_array(LEFT), [(12, 3)]),
        (lambda: pairs_of_triplets(PAIRS), [(108, 2)]),
    ],
)
def test_other_shapes_are_refused(call: Callable[[], object], names: list[object]) -> None:
    with pytest.raises(InputError, match=naming(*names)):
        call()
