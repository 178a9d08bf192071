"""Cuts at random places: where they fall, what they gain, and that nothing else is random about them."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import kstest

from distforest.growth.cuts.criteria import Gini, Variance
from distforest.growth.cuts.mean_distance import MeanDistance
from distforest.growth.cuts.random_cuts import FIRST_SHARE, SCORED_ROWS, AtRandom, Places
from distforest.sources.row_kinds import Features
from tests import samples
from tests.reference import naive
from tests.reference import naive_clusters as ref
from tests.tries import tries

if TYPE_CHECKING:
    from distforest.growth.cuts.criteria import Criterion

pytestmark = pytest.mark.kernels

FREE = settings(max_examples=tries(80))
MANY = 300 if numba.config.DISABLE_JIT else 3000
SEEDS = st.integers(0, 2**40)
VALUES = st.one_of(st.integers(-3, 3).map(float), st.floats(-9, 9), st.just(math.nan), st.just(1e6))


def uneven(values: np.ndarray) -> bool:
    return len(set(values[~np.isnan(values)].tolist())) > 1


def nodes_alike(values: list[float], n_nodes: int) -> tuple[samples.Frontier, np.ndarray]:
    """Nodes that all hold the same values of one candidate."""
    m = len(values)
    return samples.level([list(range(m))] * n_nodes, [[1] * m] * n_nodes), np.tile(values, n_nodes)[None]


def places_of(seed: int, n_nodes: int, attempt: int, margin: float) -> Places:
    return Places(samples.keys_of(seed, [1] * n_nodes, list(range(n_nodes))), attempt, margin)


@st.composite
def nodes(draw: st.DrawFn) -> tuple[list[list[int]], list[list[int]], np.ndarray]:
    """Rows, their weights and the values of some candidates."""
    rows = draw(st.lists(st.lists(st.integers(0, 8), min_size=1, unique=True), min_size=1, max_size=3))
    weights = [draw(st.lists(st.integers(1, 5), min_size=len(own), max_size=len(own))) for own in rows]
    width, m = draw(st.integers(1, 3)), sum(map(len, rows))
    values = draw(st.lists(st.lists(VALUES, min_size=m, max_size=m), min_size=width, max_size=width))
    return rows, weights, np.array(values)


# --- where they fall --------------------------------------------------------------------------------------


@FREE
@given(nodes(), SEEDS, st.integers(0, 2), st.sampled_from([0.0, 0.1, 0.3, 0.49]))
def test_a_threshold_lies_between_the_quantiles_at_the_share_that_is_drawn(
    level: tuple[list[list[int]], list[list[int]], np.ndarray], seed: int, attempt: int, margin: float
) -> None:
    rows, weights, values = level
    frontier, width = samples.level(rows, weights), len(values)
    found = places_of(seed, len(rows), attempt, margin).thresholds(frontier, values)
    assert found.shape == (width, len(rows))
    for node in range(len(rows)):
        state = naive.stream(seed, 1, node)
        for k in range(width):
            own = values[k, frontier.starts[node] : frontier.starts[node + 1]]
            if not uneven(own):
                assert math.isnan(found[k, node])
                continue
            low, high = ref.fences(own[~np.isnan(own)], margin)[:2]
            share = naive.unit(state, FIRST_SHARE + attempt * width + k)
            assert found[k, node] == pytest.approx(low + share * (high - low), rel=1e-12, abs=1e-12)
            assert low <= found[k, node] < np.nanmax(own)
            assert (own <= found[k, node]).any()
            assert (own > found[k, node]).any()


@pytest.mark.parametrize(("margin", "ends"), [(0.0, (-40.0, 100.0)), (0.3, (0.5, 3.0))])
def test_thresholds_are_anywhere_between_the_quantiles_with_equal_chance(
    margin: float, ends: tuple[float, float]
) -> None:
    values = [-40.0, math.nan, -1.0, 0.0, 0.5, 2.0, 2.5, 3.0, 3.5, 30.0, 100.0, math.nan]
    frontier, own = nodes_alike(values, MANY)
    places = places_of(3, MANY, 0, margin).thresholds(frontier, own)[0]
    low, high = ends
    counts = np.histogram(places, np.linspace(low, high, 11))[0]
    assert counts.sum() == MANY
    assert samples.chi_square(counts, np.full(10, MANY / 10)) < 5
    assert kstest((places - low) / (high - low), "uniform").pvalue > 1e-3


def test_candidates_attempts_and_nodes_are_cut_at_places_of_their_own() -> None:
    values = np.tile(np.arange(8.0), (3, 2))
    frontier = samples.level([list(range(8))] * 2, [[1] * 8] * 2)
    found = [places_of(0, 2, attempt, 0.1).thresholds(frontier, values) for attempt in range(3)]
    assert len({float(place) for places in found for place in places.reshape(-1)}) == 18


@pytest.mark.parametrize("stray", [[], [1e6], [-9999.0, 1e6]])
def test_where_most_rows_are_equal_the_cut_is_between_the_extremes_but_for_stray_ones(stray: list[float]) -> None:
    values = [5.0] * 30 + [6.0, 7.0, 7.5, 8.0, 9.0, 9.5, 9.7, 9.8, 9.9, 10.0] + stray
    frontier, own = nodes_alike(values, 50)
    found = places_of(1, 50, 0, 0.3).thresholds(frontier, own)
    assert ((found >= 5.0) & (found < 10.0)).all()
    assert found.max() > 9.0


@pytest.mark.parametrize(("low", "high"), [(1.0, np.nextafter(1.0, 2.0)), (-5e-324, 0.0), (0.0, 5e-324)])
def test_rounding_sends_no_right_side_left(low: float, high: float) -> None:
    frontier, own = nodes_alike([low, high], 40)
    for margin in (0.0, 0.3):
        assert (places_of(0, 40, 0, margin).thresholds(frontier, own) == low).all()


# --- on which rows they are judged ------------------------------------------------------------------------


@FREE
@given(st.lists(st.integers(1, 3 * SCORED_ROWS), min_size=1, max_size=3), SEEDS, st.integers(0, 2))
def test_a_large_node_is_judged_on_so_many_of_its_rows_in_their_order(
    sizes: list[int], seed: int, attempt: int
) -> None:
    rng = np.random.default_rng(seed)
    rows = [rng.permutation(1000)[:size].tolist() for size in sizes]
    frontier = samples.level(rows, [[1 + row % 4 for row in own] for own in rows])
    found = places_of(seed, len(sizes), attempt, 0.3).some_rows(frontier)
    assert found.tree.tolist() == frontier.tree.tolist()
    assert found.node.tolist() == frontier.node.tolist()
    most = max(sizes) if attempt else SCORED_ROWS  # a node that asks again has found nothing on some of its rows
    assert found.sizes.tolist() == [min(size, most) for size in sizes]
    assert found.weights.tolist() == [1 + row % 4 for row in found.rows.tolist()]
    for node, own in enumerate(rows):
        kept = found.rows[found.starts[node] : found.starts[node + 1]].tolist()
        remaining = iter(own)
        assert all(row in remaining for row in kept)  # each after the one before it


def test_every_row_of_a_large_node_is_as_likely_to_be_judged_on() -> None:
    m, n_nodes = 2 * SCORED_ROWS, 20 if numba.config.DISABLE_JIT else 200
    frontier, _ = nodes_alike([0.0] * m, n_nodes)
    counts = np.bincount(places_of(2, n_nodes, 0, 0.3).some_rows(frontier).rows, minlength=m)
    assert counts.sum() == n_nodes * SCORED_ROWS
    # of a share of 1/2 the variance is half of the mean: chi-square is half as large
    assert abs(samples.chi_square(counts, np.full(m, n_nodes / 2)) + math.sqrt(m / 8)) < 5
    halves = counts.reshape(2, -1).sum(axis=1) / (n_nodes * SCORED_ROWS)
    assert np.abs(halves - 0.5).max() < 5 * 0.5 / math.sqrt(2 * n_nodes * SCORED_ROWS)


def test_a_rare_value_in_a_large_node_is_found_by_asking_again() -> None:
    X = np.zeros((4000, 1), np.float32)
    X[::1000] = 1.0
    forest = samples.forest_from(
        samples.problem_of(
            "urerf",
            replace(samples.data_of("urerf", len(X)), rows=Features(1), matrix=X, feature_weights=np.ones(1)),
            n_estimators=10,
            n_witnesses=0,
        )
    )
    has_both = [len(np.unique(X[forest.in_bag[tree] > 0])) == 2 for tree in range(10)]
    assert (forest.table.tree_size > 1).tolist() == has_both


# --- what they gain ---------------------------------------------------------------------------------------


def criteria_of(data: st.DataObject) -> list[tuple[Criterion, naive.Pairs]]:
    """Criteria with the pairs that the reference judges them by."""
    codes = np.array(data.draw(st.lists(st.integers(0, 2), min_size=9, max_size=9)), np.int32)
    Y = np.array(data.draw(st.lists(st.integers(-8, 8), min_size=9, max_size=9)))[:, None] / 8
    z = np.abs(Y - Y.T).astype(np.float32) + np.float32(0.5)
    distances = MeanDistance.from_distances(z, float(z.max()))
    return [
        (Gini(codes, 3), naive.label_pairs(codes)),
        (Variance.from_vectors(Y, 0.5), naive.embedding_pairs(Y, 0.5)),
        (distances, naive.dense_pairs(z, 20)),
    ]


def gain_of(pairs: naive.Pairs, rows: list[int], weights: list[int], left: np.ndarray, seen: np.ndarray) -> float:
    """The reference's gain of a partition of the rows that are observed."""
    sides = [np.flatnonzero(seen).tolist(), np.flatnonzero(left).tolist(), np.flatnonzero(seen & ~left).tolist()]
    z = [[pairs.z[i][j] for j in rows] for i in rows]
    sums = [(naive.pair_sum(z, side, weights), sum(weights[r] for r in side)) for side in sides]
    return float(naive.gain_of(*sums[0], *sums[1], *sums[2]) / pairs.scale)


@FREE
@given(nodes(), SEEDS, st.integers(1, 3), st.data())
def test_a_random_cut_gains_what_its_partition_gains(
    level: tuple[list[list[int]], list[list[int]], np.ndarray], seed: int, min_leaf: int, data: st.DataObject
) -> None:
    rows, weights, values = level
    frontier = samples.level(rows, weights)
    keys = samples.keys_of(seed, [1] * len(rows), list(range(len(rows))))
    places = Places(keys, 1, 0.0).thresholds(frontier, values)
    for criterion, pairs in criteria_of(data):
        cuts = AtRandom(criterion).at(frontier).attempted(keys, 1).cut(frontier, values, min_leaf)
        for node, (own, w) in enumerate(zip(rows, weights, strict=True)):
            gains = []
            for k in range(len(values)):
                x = values[k, frontier.starts[node] : frontier.starts[node + 1]]
                left, seen = x <= places[k, node], ~np.isnan(x)
                light = min(np.dot(left, w), np.dot(seen & ~left, w)) < min_leaf
                gains.append(-np.inf if light else gain_of(pairs, own, w, left, seen))
            chosen = int(cuts.candidate[node])
            assert (chosen >= 0) == (max(gains) >= -1e-12)  # where nothing is better, 0 will do
            if chosen >= 0:
                assert cuts.threshold[node] == places[chosen, node]
                assert cuts.gain[node] * criterion.unit == pytest.approx(gains[chosen], rel=1e-9, abs=1e-12)
                assert gains[chosen] >= max(gains) * (1 - 1e-9) - 1e-12
                assert all(gain < gains[chosen] * (1 + 1e-9) + 1e-12 for gain in gains[:chosen])


def test_purity_and_unit_are_those_of_the_criterion() -> None:
    z = samples.distances(6)
    own = MeanDistance.from_distances(z, float(z.max()))
    criterion = AtRandom(own)
    assert criterion.unit == own.unit
    frontier = samples.level([[0, 1, 2], [3]], [[1, 1, 1], [1]])
    assert criterion.impure(frontier).tolist() == own.impure(frontier).tolist()
