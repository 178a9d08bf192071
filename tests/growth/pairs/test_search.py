"""Cuts of pairs and of two classes with costs: those of the formulas, one by one and through bins."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distforest.forest.frontier import Frontier
from distforest.growth.cuts.scan import NO_CUT, Cuts, Sides, gain_of, largest_gain
from distforest.growth.cuts.search import Limits, project_and_cut
from distforest.growth.cuts.two_classes import PLAIN, CostedEntropy, CostedGini, CostedImpurity, TwoClasses
from distforest.growth.pairs.bins import PairBins
from distforest.growth.pairs.pair_search import CUT_AT_ANY_VALUE, PairSearch
from distforest.sources.point_pairs import FAMILIES, PairColumns, PointPairs
from distforest.sources.source import Projections
from tests import samples
from tests.reference import naive_trees_of_pairs as ref
from tests.tries import tries

pytestmark = pytest.mark.kernels

COSTS = st.sampled_from([1.0, 2.0, 0.5, 3.0, 100.0])


@dataclass(frozen=True)
class Level:
    """Nodes of pairs, each of a tree of its own, and single columns to try."""

    pairs: PointPairs
    codes: np.ndarray
    rows: list[list[int]]
    weights: list[list[int]]
    columns: np.ndarray
    costs: np.ndarray
    min_leaf: int

    @property
    def frontier(self) -> Frontier:
        return samples.level(self.rows, self.weights)

    @property
    def criterion(self) -> TwoClasses:
        return TwoClasses(self.codes, self.costs)

    @property
    def projections(self) -> Projections:
        return samples.projections([[[(c, 1.0)] for c in own] for own in self.columns.tolist()])

    @property
    def limits(self) -> Limits:
        return Limits(2, self.min_leaf)

    @property
    def table(self) -> np.ndarray:
        """All columns of all pairs."""
        n, width = self.pairs.shape
        return self.pairs.block(np.arange(n, dtype=np.int32), np.arange(width, dtype=np.int32))

    def node(self, f: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, tuple[float, float]]:
        """Values of the candidates, codes, weights and costs of a node, for the reference."""
        values = self.table[self.rows[f]][:, self.columns[f]]
        return values, self.codes[self.rows[f]], np.array(self.weights[f]), tuple(self.costs[f].tolist())


@st.composite
def levels(draw: st.DrawFn, largest: int = 9) -> Level:
    n, p, m = draw(st.integers(2, 6)), draw(st.integers(1, 3)), draw(st.integers(1, largest))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    X = rng.integers(0, 4, (n, p)).astype(float) if draw(st.booleans()) else rng.normal(size=(n, p))
    pairs = PointPairs.from_points(PairColumns(draw(st.sampled_from(FAMILIES)), p), X, rng.integers(0, n, (m, 2)))
    codes = (rng.random(m) < draw(st.sampled_from([0.0, 0.2, 0.5]))).astype(np.uint8)
    rows = [rng.permutation(m)[: rng.integers(1, m + 1)].tolist() for _ in range(draw(st.integers(1, 3)))]
    weights = [rng.integers(1, draw(st.integers(2, 5)), len(own)).tolist() for own in rows]
    columns = rng.integers(0, pairs.shape[1], (len(rows), draw(st.integers(1, 3))))
    costs = np.array([[draw(COSTS), draw(COSTS)] for _ in rows])
    return Level(pairs, codes, rows, weights, columns, costs, draw(st.integers(0, 3)))


def assert_cut(level: Level, cuts: Cuts, f: int, expected: ref.Cut) -> None:
    assert cuts.candidate[f] == expected.column
    np.testing.assert_allclose(cuts.gain[f].clip(0), float(expected.gain), rtol=1e-9)
    if expected.column >= 0:
        assert cuts.threshold[f] == expected.threshold


@settings(max_examples=tries(60))
@given(levels())
def test_a_node_is_cut_as_the_formulas_say(level: Level) -> None:
    cuts, picked = PairSearch(None)(level.pairs, level.criterion, level.frontier, level.projections, level.limits)
    for f in range(len(level.rows)):
        expected = ref.best_cut(*level.node(f), level.min_leaf)
        assert_cut(level, cuts, f, expected)
        own = slice(*level.frontier.starts[f : f + 2])
        if expected.column < 0:
            assert not picked[own].any()
            continue
        assert picked[own].tolist() == level.table[level.rows[f], level.columns[f, expected.column]].tolist()


def entropy(codes: np.ndarray, weights: np.ndarray, costs: tuple[float, float]) -> float:
    """m H = -sum_s m_s log(m_s / m) of the masses m_s = c_s n_s."""
    masses = [cost * float(weights[codes == s].sum()) for s, cost in enumerate(costs)]
    return -sum(m * math.log(m / sum(masses)) for m in masses if m > 0.0)


@settings(max_examples=tries(60))
@given(levels())
def test_the_best_cut_gains_most_entropy(level: Level) -> None:
    criterion = replace(level.criterion, impurity=CostedEntropy(*PLAIN))
    cuts, _ = PairSearch(None)(level.pairs, criterion, level.frontier, level.projections, level.limits)
    for f in range(len(level.rows)):
        values, codes, weights, costs = level.node(f)
        best = 0.0
        for column in values.T:
            for threshold in np.unique(column)[:-1]:
                left = column <= threshold
                if min(weights[left].sum(), weights[~left].sum()) >= max(1, level.min_leaf):
                    sides = sum(entropy(codes[side], weights[side], costs) for side in (left, ~left))
                    best = max(best, entropy(codes, weights, costs) - sides)
        np.testing.assert_allclose(cuts.gain[f].clip(0), best, rtol=1e-9, atol=1e-9)


@settings(max_examples=tries(40))
@given(levels(70), st.sampled_from([PLAIN, CostedEntropy(*PLAIN)]))
def test_the_fused_search_is_that_of_projected_columns(level: Level, impurity: CostedImpurity) -> None:
    """All values are ordered: the same cuts and the same values, bit for bit."""
    asked = (level.pairs, replace(level.criterion, impurity=impurity), level.frontier, level.projections, level.limits)
    (found, picked), (expected, values) = PairSearch(None)(*asked), project_and_cut(*asked)
    for own, other in zip(found, expected, strict=True):
        assert own.tobytes() == other.tobytes()
    cut = np.repeat(found.candidate >= 0, np.diff(level.frontier.starts))
    assert picked[cut].tobytes() == values[cut].tobytes()


@settings(max_examples=tries(30))
@given(levels(3 * CUT_AT_ANY_VALUE), st.sampled_from([2, 5, 256]))
def test_a_large_node_is_cut_at_the_edges_of_bins_and_a_small_one_anywhere(level: Level, max_bins: int) -> None:
    """And so is a large one of which no edge gains anything."""
    search = PairSearch(PairBins.from_pairs(level.pairs, max_bins))
    cuts, _ = search(level.pairs, level.criterion, level.frontier, level.projections, level.limits)
    assert search.bins is not None
    for f in range(len(level.rows)):
        values, codes, weights, costs = level.node(f)
        if len(codes) <= CUT_AT_ANY_VALUE:
            assert_cut(level, cuts, f, ref.best_cut(values, codes, weights, costs, level.min_leaf))
            continue
        edges = [own[np.isfinite(own)].tolist() for own in search.bins.edges[level.columns[f]]]
        expected = ref.best_cut(values, codes, weights, costs, level.min_leaf, edges)
        anywhere = ref.best_cut(values, codes, weights, costs, level.min_leaf)
        if expected.gain == 0 and (expected.column < 0 or anywhere.gain > 0):
            assert_cut(level, cuts, f, anywhere)
            continue
        assert cuts.candidate[f] == expected.column
        np.testing.assert_allclose(cuts.gain[f], float(expected.gain), rtol=1e-9)
        assert cuts.threshold[f] in edges[expected.column]  # one of several, where a bin between two holds no pair
        own = values[:, expected.column]
        assert (own <= cuts.threshold[f]).tolist() == (own <= expected.threshold).tolist()


@pytest.mark.parametrize("blocks", [(), (("dot", 2), ("same", 3))])
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("has_long_tails", [False, True])
def test_a_node_longer_than_a_block_is_cut_at_the_best_edge(
    family: str, has_long_tails: bool, blocks: tuple[tuple[str, int], ...]
) -> None:
    rng = np.random.default_rng(0)
    columns = PairColumns(family, 2, blocks)
    z = rng.normal(size=(40, columns.width - 3 * bool(blocks)))
    points = np.hstack([np.exp(4 * z) if has_long_tails else z, rng.integers(0, 2, (40, 3))])
    pairs = PointPairs.from_points(columns, points[:, : columns.width], rng.integers(0, 40, (700, 2)))
    width = pairs.shape[1]
    codes = (np.abs(points[pairs.left, 0] - points[pairs.right, 0]) > 1).astype(np.uint8)
    rows, order = [*range(0, 700, 2)], rng.permutation(width)
    level = Level(pairs, codes, [rows], [[1] * 350], order[None], np.ones((1, 2)), 1)
    search = PairSearch(PairBins.from_pairs(pairs, 64))
    cuts, picked = search(level.pairs, level.criterion, level.frontier, level.projections, level.limits)
    assert search.bins is not None
    edges = [own[np.isfinite(own)].tolist() for own in search.bins.edges[order]]
    expected = ref.best_cut(*level.node(0), 1, edges)
    assert cuts.candidate[0] == expected.column
    np.testing.assert_allclose(cuts.gain[0], float(expected.gain), rtol=1e-9)
    assert (picked <= cuts.threshold[0]).tolist() == (picked <= expected.threshold).tolist()


def pairs_on_a_line(places: list[float]) -> PointPairs:
    """A pair of 0 and each place: the difference is the place itself."""
    points = np.array([0.0, *places])[:, None]
    return PointPairs.from_points(PairColumns("difference", 1), points, [[0, k + 1] for k in range(len(places))])


def line(places: list[float], codes: list[int], min_leaf: int = 1) -> Level:
    """One node of unit weights and costs."""
    m = len(places)
    column, costs = np.zeros((1, 1), int), np.ones((1, 2))
    return Level(pairs_on_a_line(places), np.array(codes, np.uint8), [[*range(m)]], [[1] * m], column, costs, min_leaf)


@pytest.mark.parametrize("width", [1, 2, 3])
def test_where_no_edge_parts_a_node_its_values_are_searched(width: int) -> None:
    """Bins of pairs that are far apart: those of either node lie in one of the bins."""
    rng = np.random.default_rng(width)
    X = np.concatenate([rng.normal(size=(60, 2)), 3e5 + rng.normal(size=(60, 2)), 1e6 * rng.normal(size=(600, 2))])
    lowest, further = rng.integers(0, 60, (2, 50, 2))
    further[:, 1] += 60
    numbers = np.concatenate([lowest, further, rng.integers(120, 720, (9000, 2))])
    pairs = PointPairs.from_points(PairColumns("difference", 2), X, numbers)
    codes = (rng.random(len(numbers)) < 0.5).astype(np.uint8)
    columns = np.array([[0, 1, 0], [1, 0, 1]])[:, :width]
    rows = [[*range(50)], [*range(50, 100)]]
    level = Level(pairs, codes, rows, [[1] * 50] * 2, columns, np.ones((2, 2)), 3)
    bins = PairBins.from_pairs(pairs.of_pairs(pairs.left[100:], pairs.right[100:]), 64)
    cuts, _ = PairSearch(bins)(level.pairs, level.criterion, level.frontier, level.projections, level.limits)
    for f in range(2):
        values, kinds, weights, costs = level.node(f)
        edges = [own[np.isfinite(own)].tolist() for own in bins.edges[columns[f]]]
        assert ref.best_cut(values, kinds, weights, costs, 3, edges).column < 0
        expected = ref.best_cut(values, kinds, weights, costs, 3)
        assert expected.column >= 0
        assert_cut(level, cuts, f, expected)


@pytest.mark.parametrize("max_bins", [5, 64, 256])
@pytest.mark.parametrize("low", [20, 21, 37])
def test_a_threshold_lies_in_the_middle_of_the_empty_bins(low: int, max_bins: int) -> None:
    """Bins from places 1..200; a node that holds its two ends alone is cut at the middle edge between them."""
    places = [float(k) for k in range(1, 201)]
    level = line(places, [int(k >= 100) for k in range(200)])
    ends = [*range(low), *range(180, 200)]
    node = Level(level.pairs, level.codes, [ends], [[1] * len(ends)], level.columns, level.costs, 1)
    bins = PairBins.from_pairs(level.pairs, max_bins)
    cuts, _ = PairSearch(bins)(node.pairs, node.criterion, node.frontier, node.projections, node.limits)
    edges = bins.edges[0]
    before, after = np.searchsorted(edges, [places[low - 1], places[180]])  # a code is at most b up to edges[b]
    assert cuts.threshold[0] == edges[before:after][(after - before - 1) // 2]


@pytest.mark.parametrize("size", [4, CUT_AT_ANY_VALUE + 8])
@pytest.mark.parametrize("bins", [None, 256])
def test_no_cut_where_nothing_can_be_reported(size: int, bins: int | None) -> None:
    constant = line([1.0] * size, [0, 1] * (size // 2))
    heavy = line([float(k) for k in range(size)], [0, 1] * (size // 2), min_leaf=size // 2 + 1)
    for level in (constant, heavy):
        edges = PairBins.from_pairs(line([float(k) for k in range(size)], [0] * size).pairs, bins) if bins else None
        cuts, _ = PairSearch(edges)(level.pairs, level.criterion, level.frontier, level.projections, level.limits)
        assert (cuts.candidate.tolist(), cuts.gain.tolist()) == ([-1], [NO_CUT])


def test_the_first_of_equal_candidates_is_kept() -> None:
    level = line([float(k) for k in range(40)], [0] * 20 + [1] * 20)
    columns = np.zeros((1, 3), int)
    again = Level(level.pairs, level.codes, level.rows, level.weights, columns, level.costs, 1)
    for search in (PairSearch(None), PairSearch(PairBins.from_pairs(level.pairs, 16))):
        cuts, _ = search(again.pairs, again.criterion, again.frontier, again.projections, again.limits)
        assert cuts.candidate.tolist() == [0]


# --- two classes ------------------------------------------------------------------------------------------


def test_counts_are_sums_of_weights() -> None:
    frontier = samples.level([[0, 1, 2], [3, 0]], [[2, 1, 5], [1, 1]])
    criterion = TwoClasses(np.array([0, 1, 1, 0], np.uint8), np.ones((2, 2)))
    assert criterion.counts(frontier).tolist() == [[2, 6], [2, 0]]
    assert criterion.impure(frontier).tolist() == [True, False]
    assert criterion.at(frontier) is criterion
    assert criterion.attempted(np.zeros(2, np.uint64), 3) is criterion
    assert criterion.unit == 1.0


COUNTS = st.tuples(st.integers(0, 50), st.integers(0, 50))


@settings(max_examples=tries(80))
@given(COUNTS, COUNTS, st.tuples(COSTS, COSTS))
def test_gains_are_those_of_the_formula(
    left: tuple[int, int], right: tuple[int, int], costs: tuple[float, float]
) -> None:
    whole = (left[0] + right[0], left[1] + right[1])
    if not sum(whole):
        return
    impurity, sums = CostedGini(2, costs), (np.array(left), np.array(right))
    sides = [Sides(sum(one), sum(other), one[1], 0, other[1], 0) for one, other in ((left, right), (right, left))]
    most = largest_gain(impurity, sides[0], *sums)
    assert most == pytest.approx(float(ref.gini(whole, costs)), rel=1e-12)
    if not sum(left) or not sum(right):
        return
    exact, found = float(ref.gain_of(left, right, costs)), gain_of(impurity, most, sides[0], *sums)
    assert found == pytest.approx(exact, rel=1e-9, abs=1e-11)
    assert np.sign(found) == np.sign(exact)
    assert found == gain_of(impurity, most, sides[1], *sums[::-1])  # a cut and its mirror image gain the same


def test_a_gain_that_is_rounding_is_none() -> None:
    third = 1.0 / 3.0
    impurity, sides = CostedGini(2, (third, third)), Sides(3, 87, 2, 0, 58, 0)
    left, right = np.array([1, 2]), np.array([29, 58])
    assert gain_of(impurity, largest_gain(impurity, sides, left, right), sides, left, right) == 0.0
