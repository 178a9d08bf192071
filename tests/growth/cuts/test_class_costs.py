"""Cuts judged by costs of classes, against sums over all pairs in exact numbers and those of the matrix."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from distforest.growth.cuts.class_costs import ClassCosts
from distforest.growth.cuts.criteria import Gini
from distforest.growth.cuts.mean_distance import MeanDistance
from distforest.growth.cuts.random_cuts import AtRandom
from tests.growth.cuts.test_criteria import FREE, Search, assert_cuts, codes_of, cut, line, searches
from tests.reference import naive

if TYPE_CHECKING:
    from typing import Any

pytestmark = pytest.mark.kernels

N_CLASSES = 4
COSTS = st.sampled_from([0.0, 0.125, 0.5, 1.0, 2.0, 7.0, 2.0**-30, 1.0 / 3.0, 1e6])


def costs_from(data: st.DataObject) -> np.ndarray:
    """Symmetric costs of classes, 0 on the diagonal."""
    costs = np.zeros((N_CLASSES, N_CLASSES), np.float32)
    for k in range(1, N_CLASSES):
        costs[k, :k] = costs[:k, k] = data.draw(st.lists(COSTS, min_size=k, max_size=k))
    return costs


def assert_same(one: Any, other: Any, search: Search) -> None:
    frontier = search.frontier
    assert one.impure(frontier).tolist() == other.impure(frontier).tolist()
    found, expected = cut(one, search), cut(other, search)
    assert [part.tobytes() for part in found] == [part.tobytes() for part in expected]


def of_matrix(codes: np.ndarray, costs: np.ndarray) -> MeanDistance:
    """The criterion of the matrix of all distances."""
    z = costs[np.ix_(codes, codes)]
    return MeanDistance.from_distances(z, float(z.max()))


@FREE
@given(searches(), st.data())
def test_cuts_are_those_of_the_formula(search: Search, data: st.DataObject) -> None:
    codes, costs = codes_of(search, data, N_CLASSES), costs_from(data)
    z = costs[np.ix_(codes, codes)]

    def expected(values: np.ndarray, rows: list[int], weights: list[int]) -> naive.Found:
        block = z[np.ix_(rows, rows)]
        bits = naive.node_bits(block, float(z.max()), naive.node_digits(weights))
        return naive.best_cut_dense(values, block, weights, search.min_leaf, bits)

    assert_cuts(ClassCosts.from_codes(codes, costs), search, search.expected(expected))


@FREE
@given(searches(), st.data(), st.booleans())
def test_cuts_are_those_of_the_matrix_bit_for_bit(search: Search, data: st.DataObject, places: bool) -> None:
    codes, costs = codes_of(search, data, N_CLASSES), costs_from(data)
    search = replace(search, rows=[sorted(rows) for rows in search.rows])
    one = replace(ClassCosts.from_codes(codes, costs), places_missing=places)
    other = replace(of_matrix(codes, costs), places_missing=places)
    assert_same(one, other, search)
    keys = np.arange(len(search.rows), dtype=np.uint64)
    assert_same(AtRandom(one).attempted(keys, 0), AtRandom(other).attempted(keys, 0), search)


@FREE
@given(searches(), st.data())
def test_equal_costs_are_the_gini_impurity(search: Search, data: st.DataObject) -> None:
    codes = codes_of(search, data, N_CLASSES)
    found = cut(ClassCosts.from_codes(codes, 1.0 - np.eye(N_CLASSES, dtype=np.float32)), search)
    expected = cut(Gini(codes, N_CLASSES), search)
    assert found.candidate.tolist() == expected.candidate.tolist()
    np.testing.assert_allclose(found.gain, expected.gain, rtol=1e-10, atol=1e-12)


def test_the_dear_classes_are_parted_first() -> None:
    search = line([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
    codes, costs = np.array([0, 0, 1, 1, 2, 2], np.int32), np.array([[0, 9, 9], [9, 0, 1], [9, 1, 0]], np.float32)
    assert cut(ClassCosts.from_codes(codes, costs), search).threshold.tolist() == [2.5]
    assert cut(ClassCosts.from_codes(codes, costs[::-1, ::-1].copy()), search).threshold.tolist() == [4.5]


def test_classes_without_a_cost_are_one() -> None:
    costs = np.zeros((2, 2), np.float32)
    assert not ClassCosts.from_codes(np.array([0, 1], np.int32), costs).impure(line([1.0, 2.0]).frontier).any()


@FREE
@given(searches(), st.data())
def test_categories_are_ranked_as_by_the_matrix(search: Search, data: st.DataObject) -> None:
    codes, costs = codes_of(search, data, N_CLASSES), costs_from(data)
    search = replace(search, rows=[sorted(rows) for rows in search.rows])
    values = np.where(np.isnan(search.values), np.nan, np.abs(search.values).clip(0, 3).round())
    which = np.ones((len(values), len(search.rows)), np.bool_)
    ranks = [values.copy(), values.copy()]
    for criterion, own in zip((ClassCosts.from_codes(codes, costs), of_matrix(codes, costs)), ranks, strict=True):
        criterion.rank_categories(search.frontier, which, 4, own)
    np.testing.assert_array_equal(*ranks)
