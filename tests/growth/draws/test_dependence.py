"""The dependence screen against the slow reference of naive_clusters.py, which is fed the kernel's own ranks."""

from __future__ import annotations

import math
from bisect import bisect_right
from itertools import pairwise

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distforest.growth.draws import dependence
from distforest.growth.draws.dependence import (
    NEAR_ROWS,
    Screen,
    bin_count,
    bins,
    false_pairs,
    largest_dependence,
    nearest_features,
    polynomial_statistic,
    polynomials,
    ranks,
    screened_rows,
)
from tests import samples
from tests.reference import naive
from tests.reference import naive_clusters as ref
from tests.tries import tries

pytestmark = pytest.mark.kernels

FREE = settings(max_examples=tries(60))
SEEDS = st.integers(0, 2**40)
STEPS = 48.0


def ranks_of(X: np.ndarray, seed: int = 0) -> np.ndarray:
    """The ranks of all rows in all columns, shape (p, n)."""
    n, p = X.shape
    return ranks(X, np.arange(n, dtype=np.int32), np.arange(p, dtype=np.int32), seed)


def screen_of(X: np.ndarray, seed: int = 0) -> tuple[Screen, np.ndarray]:
    """The screen of all rows, and the largest G of each feature."""
    codes = bins(ranks_of(X, seed))
    own, theirs = largest_dependence(codes, codes)
    largest = np.maximum(own, theirs)
    return Screen.from_dependence(largest, len(X)), largest


def reference_of(X: np.ndarray, seed: int = 0) -> ref.Screen:
    """The reference's screen of the same ranks: they have no ties to break."""
    own = ranks_of(X, seed).T
    return ref.dependence_screen(own, np.zeros(own.shape), bin_count(len(own)))


@st.composite
def tables(draw: st.DrawFn) -> np.ndarray:
    n, p = draw(st.integers(1, 40)), draw(st.integers(2, 5))
    rng = np.random.default_rng(draw(st.integers(0, 1000)))
    X = rng.normal(size=(n, p))
    if draw(st.booleans()):
        X = rng.integers(0, 3, (n, p)).astype(np.float64)
    if draw(st.booleans()):
        X[:, 1] = X[:, 0] ** 2
    if draw(st.booleans()):
        X[:, 0] = 1.0
    return X.astype(np.float32)


# --- ranks ------------------------------------------------------------------------------------------------


@pytest.mark.slow
@FREE
@given(tables(), SEEDS, st.data())
def test_ranks_ascend_with_the_values_whatever_rows_and_columns_are_asked(
    X: np.ndarray, seed: int, data: st.DataObject
) -> None:
    n, p = X.shape
    rows = np.array(sorted(data.draw(st.sets(st.integers(0, n - 1), min_size=1))), np.int32)
    columns = np.array(data.draw(st.permutations(range(p))), np.int32)
    found = ranks(X, rows, columns, seed)
    assert found.shape == (p, len(rows))
    for own, column in zip(found, columns, strict=True):
        assert sorted(own.tolist()) == list(range(len(rows)))
        ordered = X[rows, column][np.argsort(own)].tolist()
        assert all(a <= b for a, b in pairwise(ordered))
        assert ranks(X, rows, np.array([column], np.int32), seed)[0].tolist() == own.tolist()


def test_equal_values_are_in_random_order_that_is_new_in_each_column_and_for_each_seed() -> None:
    m, many = 8, 300 if numba.config.DISABLE_JIT else 2000
    X = np.zeros((m, many), np.float32)
    X[::2] = -0.0
    found = ranks_of(X, 1)
    counts = np.zeros((m, m))
    for rank in range(m):
        counts[:, rank] = (found == rank).sum(axis=0)
    for row in counts:
        assert samples.chi_square(row, np.full(m, many / m)) < 5
    assert len({own.tobytes() for own in found}) > many / 2
    assert (ranks_of(X, 2) != found).any()


def test_ties_are_broken_within_their_values_alone() -> None:
    X = np.repeat([3.0, -1.0, 2.0], 4).astype(np.float32)[:, None]
    own = ranks_of(X, 5)[0]
    assert [sorted(part.tolist()) for part in own.reshape(3, 4)] == [[8, 9, 10, 11], [0, 1, 2, 3], [4, 5, 6, 7]]


@pytest.mark.parametrize("n", [1, 2, 7, 8, 9, 1003])
def test_bins_are_those_of_the_reference(n: int) -> None:
    X = np.random.default_rng(n).normal(size=(n, 2)).astype(np.float32)
    own = ranks_of(X)
    expected = [ref.ranks_in_bins(X[:, j], np.zeros(n), bin_count(n)).tolist() for j in range(2)]
    assert bins(own).tolist() == expected
    sizes = np.bincount(bins(own)[0], minlength=bin_count(n))
    assert sizes.max() - sizes.min() <= 1


def test_rows_that_are_looked_at_are_all_or_a_uniform_sample() -> None:
    assert screened_rows(0, 5, 5).tolist() == [0, 1, 2, 3, 4]
    assert screened_rows(0, 5, 9).tolist() == [0, 1, 2, 3, 4]
    counts = np.zeros(20)
    for seed in range(400):
        rows = screened_rows(seed, 20, 6)
        assert rows.tolist() == sorted(set(rows.tolist()))
        assert len(rows) == 6
        counts[rows] += 1
    assert samples.chi_square(counts, np.full(20, 120.0)) < 5
    assert screened_rows(1, 10**5).shape == (dependence.SCREEN_ROWS,)


# --- the largest G ----------------------------------------------------------------------------------------


@pytest.mark.slow
@FREE
@given(tables(), SEEDS)
def test_a_screen_is_that_of_the_reference(X: np.ndarray, seed: int) -> None:
    found, largest = screen_of(X, seed)
    expected = reference_of(X, seed)
    np.testing.assert_allclose(largest, expected.largest, rtol=1e-9, atol=1e-9)
    by_chance = ref.false_pairs(expected.largest, len(X), bin_count(len(X)))
    if np.abs(by_chance / dependence.FALSE_PAIRS - 1).min() > 1e-6:
        np.testing.assert_allclose(found.dependence, np.where(expected.significant, expected.strength, 0), atol=1e-12)
        np.testing.assert_allclose(found.weights, expected.weights, rtol=1e-9)


@FREE
@given(tables(), tables(), SEEDS)
def test_two_sets_of_features_are_compared_both_ways(X: np.ndarray, Y: np.ndarray, seed: int) -> None:
    n = min(len(X), len(Y))
    codes, others = bins(ranks_of(X[:n], seed)), bins(ranks_of(Y[:n], seed + 1))
    own, theirs = largest_dependence(codes, others)
    expected = np.array([[ref.g_statistic(a, b, bin_count(n)) for b in others.astype(int)] for a in codes.astype(int)])
    np.testing.assert_allclose(own, expected.max(axis=1), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(theirs, expected.max(axis=0), rtol=1e-9, atol=1e-9)


# --- weights ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("p", [2, 3, 10, 1000])
def test_false_pairs_are_those_of_the_reference(p: int) -> None:
    largest = np.linspace(0.0, 400.0, p)
    for n in (15, 100, 1000):
        expected = ref.false_pairs(largest, n, bin_count(n))
        np.testing.assert_allclose(false_pairs(largest, n), expected, rtol=1e-9, atol=1e-300)


@FREE
@given(st.lists(st.one_of(st.floats(0, 200), st.floats(0, 5000)), min_size=2, max_size=8), st.integers(1, 3000))
def test_weights_are_those_of_the_reference(largest: list[float], n: int) -> None:
    values = np.array(largest)
    found = Screen.from_dependence(values, n)
    by_chance = ref.false_pairs(values, n, bin_count(n))
    strength = ref.dependence_strength(values, n, bin_count(n))
    np.testing.assert_allclose(found.weights, ref.feature_weights(by_chance), rtol=1e-9, atol=1e-15)
    np.testing.assert_allclose(found.dependence, np.where(by_chance < dependence.FALSE_PAIRS, strength, 0))
    assert found.weights.sum() == pytest.approx(1)
    assert ((found.dependence >= 0) & (found.dependence <= 0.999)).all()


@pytest.mark.parametrize("p", [50, 2000])
@pytest.mark.parametrize("by_chance", [9e-3, 1e-3, 1e-4])
def test_a_flag_costs_the_others_no_more_than_the_evidence_pays_for(p: int, by_chance: float) -> None:
    """A pair that one table of noise in 1 / c would show has FALSE_PAIRS / c times the weight of another feature."""
    n = 500
    pair = bisect_right(range(50, 300), -by_chance, key=lambda g: -false_pairs(np.full(p, float(g)), n)[0]) + 50
    largest = np.full(p, 49.0)
    largest[:2] = pair
    found = Screen.from_dependence(largest, n)
    evidence = dependence.FALSE_PAIRS / false_pairs(largest, n)[0]
    assert np.flatnonzero(found.dependence).tolist() == [0, 1]
    np.testing.assert_allclose(found.weights[:2] / found.weights[2], evidence)
    assert found.weights[:2].sum() < 2 * evidence / p
    largest[:2] = 400.0  # beyond doubt
    q = 2 / p
    assert Screen.from_dependence(largest, n).weights[:2].sum() == pytest.approx(1 - q * (1 - q))


NOISES = {
    "normal": lambda rng, shape: rng.normal(size=shape),
    "binary": lambda rng, shape: rng.random(shape) < 0.3,
    "counts": lambda rng, shape: rng.poisson(1.0, shape),
    "Cauchy": lambda rng, shape: rng.standard_cauchy(shape),
    "half constant": lambda rng, shape: rng.normal(size=shape) * (rng.random(shape) < 0.5),
}


@pytest.mark.parametrize("p", [1, 2, 3])
@pytest.mark.parametrize("n", [1, 2, 3, 7, 8, 50])
def test_few_features_and_few_rows(p: int, n: int) -> None:
    X = np.random.default_rng(10 * p + n).normal(size=(n, p)).astype(np.float32)
    found, largest = screen_of(X)
    assert largest.shape == found.dependence.shape == found.weights.shape == (p,)
    assert found.weights.sum() == pytest.approx(1)
    assert (found.weights > 0).all()
    if p == 1:
        assert (largest.tolist(), found.dependence.tolist(), found.weights.tolist()) == ([0.0], [0.0], [1.0])
    else:
        np.testing.assert_allclose(found.weights, reference_of(X).weights)


def test_a_constant_column_depends_on_nothing() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 5)).astype(np.float32)
    X[:, 1], X[:, 4] = 7.0, X[:, 0] ** 3
    found, largest = screen_of(X)
    assert found.dependence[[0, 4]].min() > 0.9
    assert found.dependence[1] < 0.01
    assert 49 - 30 < largest[1] < 49 + 60  # the largest of four that are about chi-square


@pytest.mark.parametrize("seed", range(3))
def test_planted_features_are_found_among_noise(seed: int) -> None:
    """Of a line, a circle and a wave, each on its own scale, all are found; of 30 noise features hardly one."""
    rng = np.random.default_rng(seed)
    n, p = 1000, 36
    t, angle, x = rng.uniform(size=n), rng.uniform(0, 2 * math.pi, n), rng.uniform(-3, 3, n)
    noise = 0.1 * rng.normal(size=(n, 6))
    planted = np.stack([t, -t, np.cos(angle), np.sin(angle), x, np.cos(2 * x)], axis=1) + noise
    where = np.sort(rng.permutation(p)[:6])
    X = 1e3 * rng.normal(size=(n, p))
    X[:, where] = planted * 10.0 ** rng.integers(-6, 6, 6)
    found, _ = screen_of(X.astype(np.float32), seed)
    noisy = np.delete(found.dependence, where)
    assert found.dependence[where].min() > 0.1
    assert noisy.max() < 0.05
    assert np.count_nonzero(noisy) <= 2  # one pair in a hundred tables is expected
    assert found.weights[where].sum() > 0.75


# --- what the screen does not know ------------------------------------------------------------------------


@FREE
@given(st.integers(0, 1000), SEEDS)
def test_rising_transforms_change_no_bit(which: int, seed: int) -> None:
    rng = np.random.default_rng(which)
    X = rng.integers(-40, 40, (60, 5)).astype(np.float32)  # with ties, which stay ties
    X[:, 3] = X[:, 0] + X[:, 1]
    warped = [X[:, 0] ** 3, np.exp(X[:, 1] / 4), 1e6 + 64 * X[:, 2], np.arctan(X[:, 3]), X[:, 4] * np.float32(1e-30)]
    Y = np.stack(warped, axis=1).astype(np.float32)
    found, again = screen_of(X, seed), screen_of(Y, seed)
    assert ranks_of(X, seed).tobytes() == ranks_of(Y, seed).tobytes()
    assert found[1].tobytes() == again[1].tobytes()
    assert found[0].dependence.tobytes() == again[0].dependence.tobytes()
    assert found[0].weights.tobytes() == again[0].weights.tobytes()


@pytest.mark.slow
@FREE
@given(st.integers(0, 1000), st.permutations(range(6)))
def test_columns_in_another_order_depend_as_before(which: int, order: list[int]) -> None:
    """But for rounding, where nothing is tied; ties are broken column by column."""
    rng = np.random.default_rng(which)
    X = rng.normal(size=(70, 6)).astype(np.float32)
    X[:, 5] = X[:, 0] * X[:, 1] + X[:, 2]
    found, moved = screen_of(X), screen_of(X[:, order])
    np.testing.assert_allclose(moved[1], found[1][order], rtol=1e-12)
    np.testing.assert_allclose(moved[0].dependence, found[0].dependence[order], rtol=1e-9)
    np.testing.assert_allclose(moved[0].weights, found[0].weights[order], rtol=1e-9)


def test_independent_features_are_seldom_significant() -> None:
    """One pair in a hundred tables is expected."""
    pairs = []
    for seed in range(2 if numba.config.DISABLE_JIT else 40):
        X = np.random.default_rng(seed).normal(size=(2000, 12)).astype(np.float32)
        pairs.append(int((screen_of(X, seed)[0].dependence > 0).sum()))
    assert sum(pairs) <= 2  # two features a pair


# --- the prefilter ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("m", [16, 100, NEAR_ROWS])
def test_polynomials_are_nearly_those_of_the_reference_in_whole_steps(m: int) -> None:
    own = ranks_of(np.random.default_rng(m).normal(size=(m, 4)).astype(np.float32))
    found = polynomials(own)
    assert found.shape == (3, 4, m)
    assert (found == np.rint(found)).all()
    assert np.abs(found).max() < 128
    for k in range(4):
        x = (2 * own[k] + 1) / m - 1
        table = np.stack([math.sqrt(3) * x, math.sqrt(5) * (3 * x**2 - 1) / 2, math.sqrt(7) * (5 * x**3 - 3 * x) / 2])
        np.testing.assert_allclose(found[:, k] / STEPS, table - table.mean(axis=1, keepdims=True), atol=0.5 / STEPS)


def test_the_rough_statistic_is_that_of_the_reference_in_other_units() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(NEAR_ROWS, 6)).astype(np.float32)
    X[:, 1], X[:, 3] = X[:, 0] ** 2, X[:, 0] + X[:, 2]
    own = ranks_of(X)
    found = polynomial_statistic(polynomials(own[:4]), polynomials(own[2:]))
    expected = [[ref.legendre_statistic(a, b) for b in own[2:]] for a in own[:4]]
    np.testing.assert_allclose(found / (STEPS**4 * NEAR_ROWS), expected, rtol=0.02, atol=0.3)
    assert (found == np.rint(found)).all()


def test_the_rough_statistic_is_exact_so_that_no_order_of_adding_changes_it() -> None:
    own = polynomials(ranks_of(np.random.default_rng(1).normal(size=(NEAR_ROWS, 40)).astype(np.float32)))
    found = polynomial_statistic(own, own)
    whole = own.astype(np.int64)
    expected = sum((a @ b.T).astype(object) ** 2 for a in whole for b in whole)
    assert (found == expected).all()
    for first, last in ((0, 1), (3, 20)):
        assert polynomial_statistic(own[:, first:last], own).tobytes() == found[first:last].tobytes()
    back = np.ascontiguousarray(own[:, :, ::-1])
    assert polynomial_statistic(back, back).tobytes() == found.tobytes()


@given(st.lists(st.integers(0, 4), min_size=1, max_size=9), st.integers(1, 9))
def test_the_features_kept_are_the_largest_of_equal_ones_the_first(statistic: list[int], n_kept: int) -> None:
    expected = sorted(sorted(range(len(statistic)), key=lambda j: (-statistic[j], j))[:n_kept])
    assert nearest_features(np.array(statistic, np.float64), n_kept).tolist() == expected


def shuffled(state: int, n: int, steps: int) -> list[int]:
    """0..n-1 after some steps of a Fisher-Yates shuffle from the front."""
    places = list(range(n))
    for t in range(steps):
        other = t + naive.below(state, t, n - t)
        places[t], places[other] = places[other], places[t]
    return places


@given(SEEDS)
def test_a_screens_numbers_are_those_of_its_own_streams(seed: int) -> None:
    m, column = 9, 3
    state = naive.stream(seed, dependence.SCREEN_TREE, column + 1)
    own = ranks(np.zeros((m, 5), np.float32), np.arange(m, dtype=np.int32), np.array([column], np.int32), seed)[0]
    assert own[shuffled(state, m, m)].tolist() == list(range(m))
    state = naive.stream(seed, dependence.SCREEN_TREE, 0)
    assert screened_rows(seed, 20, 6).tolist() == sorted(shuffled(state, 20, 6)[:6])
