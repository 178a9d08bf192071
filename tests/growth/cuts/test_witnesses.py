"""Witnesses against the slow reference of naive_clusters.py: what a cut explains of them, and which are drawn."""

from __future__ import annotations

import math

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distforest.growth.cuts.two_means import CandidateCuts
from distforest.growth.cuts.witnesses import FIRST_WITNESS, Witnesses
from distforest.growth.draws.column_draws import ColumnWeights
from tests import samples
from tests.reference import naive
from tests.reference import naive_clusters as ref
from tests.tries import tries

pytestmark = pytest.mark.kernels

FREE = settings(max_examples=tries(80))
MANY = 400 if numba.config.DISABLE_JIT else 4000
STRAY = st.one_of(st.integers(-2, 2).map(float), st.sampled_from([1024.0, -4096.0]))
SIXTEENTHS = st.integers(-40, 40).map(lambda x: x / 16)


def witnesses_of(matrix: np.ndarray, columns: list[list[int]]) -> Witnesses:
    """Witnesses that have been drawn."""
    weights = ColumnWeights.uniform(matrix.shape[1])
    return Witnesses(matrix, weights, len(columns[0]), np.array(columns, np.int32))


@FREE
@given(st.data())
def test_scores_rise_by_what_the_cut_explains_of_the_witnesses(data: st.DataObject) -> None:
    n, p = data.draw(st.integers(2, 9)), data.draw(st.integers(1, 3))
    number = data.draw(st.sampled_from([st.integers(0, 2).map(float), SIXTEENTHS, STRAY]))
    offset = data.draw(st.sampled_from([0.0, 4096.0]))
    cells = st.lists(st.lists(number, min_size=p, max_size=p), min_size=n, max_size=n)
    matrix = (np.array(data.draw(cells)) + offset).astype(np.float32)
    rows = data.draw(st.lists(st.lists(st.integers(0, n - 1), min_size=2, unique=True), min_size=1, max_size=3))
    weights = [data.draw(st.lists(st.integers(1, 5), min_size=len(own), max_size=len(own))) for own in rows]
    q, width, m = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 3)), sum(map(len, rows))
    columns = [data.draw(st.lists(st.integers(0, p - 1), min_size=q, max_size=q)) for _ in rows]
    one = st.one_of(st.integers(-2, 2).map(float), st.just(math.nan))
    values = np.array(data.draw(st.lists(st.lists(one, min_size=m, max_size=m), min_size=width, max_size=width)))
    thresholds = np.full((width, len(rows)), 0.5)
    frontier = samples.level(rows, weights)
    expected = np.full(thresholds.shape, -np.inf)
    for node, own in enumerate(rows):
        inside = slice(frontier.starts[node], frontier.starts[node + 1])
        witnesses = matrix[own][:, columns[node]].astype(np.float64)
        for e in range(q):
            witnesses[~ref.is_heard(witnesses[:, e]), e] = math.nan
        for k in range(width):
            seen = ~np.isnan(values[k, inside])
            left = values[k, inside][seen] <= 0.5
            if left.any() and not left.all():
                expected[k, node] = 3.0 + ref.witness_gain(witnesses[seen], np.array(weights[node])[seen], left)
    scores = np.where(expected > -np.inf, 3.0, -np.inf)
    witnesses_of(matrix, columns).confirm(frontier, values, CandidateCuts(thresholds, scores))
    np.testing.assert_allclose(scores, expected, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("far", [1e3, -9999.0, 1e30])
def test_a_stray_value_of_a_witness_does_not_drown_the_others(far: float) -> None:
    side = np.repeat([0.0, 1.0], 50)
    clean = (side + np.random.default_rng(0).normal(size=100) / 4).astype(np.float32)[:, None]
    frontier, found = samples.level([list(range(100))], [[1] * 100]), []
    for own in (clean, np.where(np.arange(100)[:, None] == 7, np.float32(far), clean)):
        scores = np.zeros((1, 1))
        witnesses_of(own, [[0]]).confirm(frontier, side[None], CandidateCuts(np.full((1, 1), 0.5), scores))
        found.append(float(scores[0, 0]))
    assert found[0] > 100
    assert found[1] == pytest.approx(found[0], rel=0.05)


def test_a_witness_far_from_zero_says_what_one_about_zero_says() -> None:
    rng = np.random.default_rng(0)
    near = rng.integers(0, 64, (40, 2)).astype(np.float32)
    values, thresholds = rng.normal(size=(1, 40)), np.zeros((1, 1))
    frontier = samples.level([list(range(40))], [[1] * 40])
    found = []
    for matrix in (near, near * np.float32(2**-10), near + np.float32(2**24 - 64) - np.float32(2**23)):
        scores = np.zeros((1, 1))
        witnesses_of(matrix, [[0, 1]]).confirm(frontier, values, CandidateCuts(thresholds, scores))
        found.append(scores[0, 0])
    assert found[0] > 0
    assert found == pytest.approx([found[0]] * 3, rel=1e-9)


def test_a_constant_witness_says_nothing_and_one_that_knows_all_is_held_at_the_floor() -> None:
    matrix = np.array([[5, 0, 0.1], [5, 0, 0.1], [5, 1, 0.1], [5, 1, 0.1]], np.float32)
    frontier = samples.level([[0, 1, 2, 3]], [[1, 1, 1, 2]])
    values = np.array([[0.0, 0.0, 1.0, 1.0]])
    for columns, heard in ((0, 0.0), (2, 0.0), (1, 5 * math.log(1e12))):
        scores = np.full((1, 1), 2.0)
        witnesses_of(matrix, [[columns]]).confirm(frontier, values, CandidateCuts(np.full((1, 1), 0.5), scores))
        assert scores[0, 0] == pytest.approx(2.0 + heard, rel=1e-9)


def test_a_witness_that_differs_only_where_the_candidate_is_not_observed_says_nothing() -> None:
    """The mean of all seven rows is not exact: what is left of the equal ones must not pass for a difference."""
    nan = math.nan
    matrix = np.array([0, 0, 0, 0, 0, 0, 0], np.float32)[:, None]
    for other in (1.0, 2.0, 6.0, 0.1):
        matrix[[0, 2, 5], 0] = other
        scores = np.zeros((1, 1))
        values = np.array([[nan, 0.0, nan, 0.0, 1.0, nan, 0.0]])
        frontier = samples.level([list(range(7))], [[1, 3, 1, 1, 1, 1, 1]])
        witnesses_of(matrix, [[0]]).confirm(frontier, values, CandidateCuts(np.full((1, 1), 0.5), scores))
        assert scores[0, 0] == 0.0


def test_a_candidate_without_a_cut_is_left_as_it_is() -> None:
    matrix = np.arange(4, dtype=np.float32)[:, None]
    frontier = samples.level([[0, 1], [2, 3]], [[1, 1], [1, 1]])
    scores, thresholds = np.array([[-np.inf, 1.0], [1.0, -np.inf]]), np.array([[np.nan, 0.5], [0.5, np.nan]])
    witnesses_of(matrix, [[0], [0]]).confirm(
        frontier, np.array([[0.0, 1.0, 0.0, 1.0]] * 2), CandidateCuts(thresholds, scores)
    )
    assert (scores[[0, 1], [0, 1]] == -np.inf).all()
    assert (scores[[0, 1], [1, 0]] > 20).all()


def test_witnesses_are_drawn_by_their_weights_anew_in_each_attempt() -> None:
    weights = ColumnWeights.from_weights(np.array([1.0, 0.0, 2.0, 5.0]))
    witnesses = Witnesses(np.zeros((1, 4), np.float32), weights, 3)
    keys = samples.keys_of(2, [0] * MANY, list(range(MANY)))
    drawn = [witnesses.attempted(keys, attempt).columns for attempt in range(3)]
    for columns in drawn:
        assert columns is not None
        assert columns.shape == (MANY, 3)
        counts = np.bincount(columns.reshape(-1), minlength=4)
        assert counts[1] == 0
        assert samples.chi_square(counts[[0, 2, 3]], np.array([1, 2, 5]) / 8 * 3 * MANY) < 5
    assert (drawn[0] != drawn[1]).any()
    assert (drawn[1] != drawn[2]).any()
    for attempt, columns in enumerate(drawn):
        places = [naive.unit(naive.stream(2, 0, 7), FIRST_WITNESS + 3 * attempt + e) for e in range(3)]
        assert columns is not None
        assert columns[7].tolist() == np.searchsorted(weights.cumulative, places, side="right").tolist()
    assert witnesses.columns is None
