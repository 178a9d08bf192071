"""Cuts judged by absolute differences of targets, against sums over all pairs, and those of the matrix."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from distforest.errors import InputError
from distforest.growth.cuts.absolute_distance import AbsoluteDistance
from distforest.growth.cuts.mean_distance import MeanDistance
from distforest.growth.cuts.random_cuts import AtRandom
from tests.growth.cuts.test_class_costs import assert_same
from tests.growth.cuts.test_criteria import FREE, Search, assert_cuts, cut, line, searches
from tests.messages import naming
from tests.reference import naive_differences

pytestmark = pytest.mark.kernels

WHOLE = st.sampled_from([-1000, -3, -1, 0, 1, 2, 3, 7, 4096, 1 << 20])


def targets_of(search: Search, data: st.DataObject) -> np.ndarray:
    return np.array(data.draw(st.lists(WHOLE, min_size=search.n, max_size=search.n)), np.float64)


def of_targets(targets: np.ndarray) -> AbsoluteDistance:
    return AbsoluteDistance.from_targets(targets[:, None])


def of_matrix(targets: np.ndarray) -> MeanDistance:
    """The criterion of the matrix of all differences."""
    z = np.abs(targets[:, None] - targets).astype(np.float32)
    return MeanDistance.from_distances(z, float(z.max()))


@FREE
@given(searches(), st.data())
def test_cuts_are_those_of_the_formula(search: Search, data: st.DataObject) -> None:
    targets = targets_of(search, data)

    def expected(values: np.ndarray, rows: list[int], weights: list[int]) -> naive_differences.Found:
        whole = targets[rows].astype(int).tolist()
        return naive_differences.best_cut_of_targets(values, whole, weights, search.min_leaf)

    assert_cuts(of_targets(targets), search, search.expected(expected))


@FREE
@given(searches(), st.data(), st.booleans(), st.sampled_from([1.0, 0.25, 2.0**-40]))
def test_cuts_are_those_of_the_matrix_bit_for_bit(
    search: Search, data: st.DataObject, places: bool, scale: float
) -> None:
    targets = targets_of(search, data) * scale
    one = replace(of_targets(targets), places_missing=places)
    other = replace(of_matrix(targets), places_missing=places)
    assert_same(one, other, search)
    keys = np.arange(len(search.rows), dtype=np.uint64)
    assert_same(AtRandom(one).attempted(keys, 0), AtRandom(other).attempted(keys, 0), search)


@pytest.mark.slow
@FREE
@given(searches(), st.data())
def test_categories_are_ranked_as_by_the_matrix(search: Search, data: st.DataObject) -> None:
    targets = targets_of(search, data)
    values = np.where(np.isnan(search.values), np.nan, np.abs(search.values).clip(0, 3).round())
    which = np.ones((len(values), len(search.rows)), np.bool_)
    which[0, 1:] = False
    ranks = [values.copy(), values.copy()]
    for criterion, own in zip((of_targets(targets), of_matrix(targets)), ranks, strict=True):
        criterion.rank_categories(search.frontier, which, 4, own)
    np.testing.assert_array_equal(*ranks)


def test_nodes_are_ranked_batch_by_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    targets = rng.integers(0, 99, 40).astype(np.float64)
    rows = [list(range(30)), [0, 5, 7], list(range(4, 14))]
    values = rng.integers(0, 4, (2, 43)).astype(np.float64)
    search = Search(40, rows, [[1] * len(own) for own in rows], values, 1)
    ranks = []
    for most in (5, 13, 1000):
        monkeypatch.setattr("distforest.growth.cuts.absolute_distance.BATCH_ROWS", most)
        ranks.append(values.copy())
        of_targets(targets).rank_categories(search.frontier, np.ones((2, 3), np.bool_), 4, ranks[-1])
    np.testing.assert_array_equal(ranks[0], ranks[1])
    np.testing.assert_array_equal(ranks[0], ranks[2])


def test_a_node_has_its_own_scale() -> None:
    """One target is so far away that the others are equal at one scale for all, and are parted in a node without it."""
    targets = np.array([0.0, 1e-3, 1.0, 1.001, 1e30])
    search = Search(5, [[0, 1, 2, 3]], [[1] * 4], np.array([[1.0, 2.0, 3.0, 4.0]]), 1)
    assert cut(of_targets(targets), search).threshold.tolist() == [2.5]


def test_a_far_target_draws_a_cut_less_than_squares_do() -> None:
    targets = np.array([0.0, 0.0, 0.0, 10.0, 10.0, 14.0])
    assert cut(of_targets(targets), line([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])).threshold.tolist() == [3.5]


@pytest.mark.parametrize("targets", [[0.0, 1e200], [0.0, 1e-200]])
def test_a_range_that_has_no_sums_is_refused(targets: list[float]) -> None:
    with pytest.raises(InputError, match=naming("targets", "1e-150", "1e150")):
        of_targets(np.array(targets))
