"""Cuts of pairs that lack values, against sums from scratch: at any value and in bins, of columns and of squares."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distforest.forest.frontier import RIGHT, STAY, Frontier
from distforest.growth.cuts.scan import Cuts
from distforest.growth.cuts.search import Limits, project_and_cut
from distforest.growth.cuts.two_classes import TwoClasses
from distforest.growth.grower import Windows
from distforest.growth.pairs.bins import PairBins
from distforest.growth.pairs.pair_search import CUT_AT_ANY_VALUE, PairSearch
from distforest.growth.pairs.square_search import square_candidates
from distforest.sources.point_pairs import FAMILIES, PairColumns, PointPairs
from distforest.sources.source import Floats
from tests import samples
from tests.growth.pairs.test_square_search import costs_of
from tests.reference import naive_missing_pairs as ref
from tests.reference.naive_trees_of_pairs import Sample
from tests.tries import tries

pytestmark = pytest.mark.kernels

EXAMPLES = tries(100)
LARGE = st.integers(CUT_AT_ANY_VALUE - 2, CUT_AT_ANY_VALUE + 30)
GONE = np.nan


@dataclass(frozen=True)
class Level:
    """Nodes of pairs, each a tree of its own with its costs; every node tries all candidates in their order."""

    pairs: PointPairs
    codes: np.ndarray
    rows: list[list[int]]
    weights: list[list[int]]
    costs: np.ndarray
    min_leaf: int
    square: bool

    @property
    def frontier(self) -> Frontier:
        return samples.level(self.rows, self.weights)

    @property
    def table(self) -> np.ndarray:
        """All columns of all pairs by the reference; further columns, which are never missing, as they are read."""
        columns, points = self.pairs.columns, self.pairs.points[:, : self.pairs.columns.n_features]
        of_family = [
            ref.pair_columns(points[a], points[b], columns.family)
            for a, b in zip(self.pairs.left, self.pairs.right, strict=True)
        ]
        numbers = np.arange(len(of_family), dtype=np.int32), np.arange(columns.n_columns, dtype=np.int32)
        return np.hstack([np.array(of_family), self.pairs.block(*numbers)[:, columns.n_of_family :]])

    def sample(self, f: int) -> Sample:
        """A node for the reference."""
        rows = self.rows[f]
        squares = self.pairs.columns.n_features if self.square else 0
        return Sample(self.table[rows], self.codes[rows], self.weights[f], squares)

    def search(self, max_bins: int | None = None, pairs: PointPairs | None = None) -> tuple[Cuts, list[Floats]]:
        """The cuts, and the values that send each node's pairs left or right."""
        bins = None if max_bins is None else PairBins.from_pairs(self.pairs, max_bins)
        columns = self.pairs.columns
        candidates = square_candidates(columns).tolist() if self.square else range(columns.n_columns)
        every = samples.projections([[[(c, 1.0)] for c in candidates]] * len(self.rows))
        search = PairSearch.for_squares(bins, self.pairs) if self.square else PairSearch(bins)
        asked = (TwoClasses(self.codes, self.costs), self.frontier, every, Limits(2, self.min_leaf))
        cuts, values = search(pairs or self.pairs, *asked)
        return cuts, np.split(values, self.frontier.starts[1:-1])


@st.composite
def levels(draw: st.DrawFn, n_pairs: st.SearchStrategy[int], square: bool) -> Level:
    """Points of which few values are missing, or most, or a whole feature; on a grid, or anywhere."""
    n, p = draw(st.integers(2, 7)), draw(st.integers(1, 3))
    blocks = draw(st.sampled_from([(), (("dot", 2),), (("same", 2), ("dot", 2))]))
    family = "max_min" if square else draw(st.sampled_from(FAMILIES))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    grid, size = draw(st.sampled_from([1, 2, 4, 0])), (n, p + 2 * len(blocks))
    X = rng.integers(-grid, grid, size) / 2 if grid else rng.normal(size=size)
    X[:, :p][rng.random((n, p)) < draw(st.sampled_from([0.0, 0.2, 0.6, 1.0]))] = GONE
    m = draw(n_pairs)
    pairs = PointPairs.from_points(PairColumns(family, p, blocks), X, rng.integers(0, n, (m, 2)))
    codes = (rng.random(m) < draw(st.sampled_from([0.0, 0.1, 0.5]))).astype(np.uint8)
    rows = [rng.permutation(m)[: rng.integers(1, m + 1)].tolist() for _ in range(draw(st.integers(1, 3)))]
    weights = [rng.integers(1, draw(st.integers(2, 4)), len(own)).tolist() for own in rows]
    costs = rng.integers(1, 4, (len(rows), 2)) / 2
    return Level(pairs, codes, rows, weights, costs, draw(st.integers(0, 4)), square)


def assert_values(level: Level, f: int, placed: ref.Placed, threshold: float, values: Floats) -> None:
    """The values send observed pairs to their sides, and are NaN where a pair is missing."""
    sample = level.sample(f)
    for row, value in zip(sample.values, values.tolist(), strict=True):
        if np.isnan(row[placed.cut.column]):
            assert np.isnan(value)
        else:
            assert (value > threshold) == (ref.side_of(row, placed, sample.squares) == RIGHT)


def assert_best(level: Level, cuts: Cuts, values: list[Floats], f: int) -> None:
    """The cut is the best one at any value."""
    sample = level.sample(f)
    expected = ref.best_of(sample, costs_of(level, f), level.min_leaf)
    if expected.cut.column < 0:
        assert cuts.candidate[f] == -1
        return
    assert sample.candidates()[cuts.candidate[f]] == expected.cut.column
    assert (cuts.threshold[f], cuts.missing[f]) == (expected.cut.threshold, expected.side)
    assert cuts.gain[f] == pytest.approx(float(expected.cut.gain), rel=1e-9)
    assert_values(level, f, expected, float(cuts.threshold[f]), values[f])


@pytest.mark.slow
@pytest.mark.parametrize("square", [False, True])
@settings(max_examples=EXAMPLES)
@given(st.data())
def test_a_node_is_cut_as_the_formulas_say(square: bool, data: st.DataObject) -> None:
    level = data.draw(levels(st.integers(1, 14), square))
    cuts, values = level.search()
    for f in range(len(level.rows)):
        assert_best(level, cuts, values, f)


@settings(max_examples=EXAMPLES)
@given(levels(st.integers(1, 70), square=False))
def test_the_fused_search_is_that_of_projected_columns(level: Level) -> None:
    every = samples.projections([[[(c, 1.0)] for c in range(level.pairs.shape[1])]] * len(level.rows))
    asked = (level.pairs, TwoClasses(level.codes, level.costs), level.frontier, every, Limits(2, level.min_leaf))
    (found, picked), (expected, values) = PairSearch(None)(*asked), project_and_cut(*asked)
    assert [own.tobytes() for own in found] == [other.tobytes() for other in expected]
    cut = np.repeat(found.candidate >= 0, np.diff(level.frontier.starts))
    np.testing.assert_array_equal(picked[cut], values[cut])


@pytest.mark.slow
@pytest.mark.parametrize("square", [False, True])
@settings(max_examples=EXAMPLES // 2)
@given(st.data(), st.sampled_from([2, 3, 17, 127, 128, 255, 256]))
def test_a_large_node_is_cut_at_the_best_edge_of_a_bin(square: bool, data: st.DataObject, max_bins: int) -> None:
    """And a small one of the same level, or one in which no edge gains, at any value."""
    level = data.draw(levels(LARGE, square))
    edges_of = PairBins.from_pairs(level.pairs, max_bins).edges
    edges = [own[np.isfinite(own)].tolist() for own in edges_of]
    cuts, values = level.search(max_bins)
    for f in range(len(level.rows)):
        sample, costs = level.sample(f), costs_of(level, f)
        allowed = ref.every_cut(sample, costs, level.min_leaf, edges)
        expected = ref.best_of(sample, costs, level.min_leaf, edges)
        if len(level.rows[f]) <= CUT_AT_ANY_VALUE:
            assert_best(level, cuts, values, f)
            continue
        if expected.cut.gain == 0:
            if expected.cut.column < 0 or ref.best_of(sample, costs, level.min_leaf).cut.gain > 0:
                assert_best(level, cuts, values, f)
            continue
        column = sample.candidates()[cuts.candidate[f]]
        assert (column, cuts.missing[f]) == (expected.cut.column, expected.side)
        assert cuts.gain[f] == pytest.approx(float(expected.cut.gain), rel=1e-9)
        place = (column, cuts.threshold[f])  # one of several, where a bin between two holds no pair
        own = next(one for one in allowed if one.cut[:2] == place and one.side == expected.side)
        assert float(own.cut.gain) == pytest.approx(float(expected.cut.gain), rel=1e-9)
        assert_values(level, f, own, float(cuts.threshold[f]), values[f])


@st.composite
def wide_levels(draw: st.DrawFn) -> Level:
    """The same with up to 70 features, so that one word does not say which of them a point has."""
    level, n_more = draw(levels(LARGE, square=False)), draw(st.sampled_from([0, 60, 67]))
    rng, columns = np.random.default_rng(n_more), level.pairs.columns
    more = rng.integers(0, 3, (len(level.pairs.points), n_more)).astype(float)
    more[rng.random(more.shape) < 0.4] = GONE
    points = np.hstack([more, level.pairs.points])
    wide = PairColumns(columns.family, columns.n_features + n_more, columns.blocks)
    pairs = PointPairs.from_points(wide, points, np.stack([level.pairs.left, level.pairs.right], axis=1))
    return replace(level, pairs=pairs)


def searched(search: PairSearch, level: Level, columns: np.ndarray, width: int) -> tuple[Cuts, Floats]:
    """The cuts by so many of the given columns of each node, shape (n_nodes, n), at a time."""
    projections = samples.projections([[[(c, 1.0)] for c in own] for own in columns.tolist()])
    windows = Windows(level.frontier, projections, width)
    return search.in_turn(level.pairs, TwoClasses(level.codes, level.costs), windows, Limits(2, level.min_leaf))


@pytest.mark.slow
@settings(max_examples=EXAMPLES // 2)
@given(wide_levels(), st.sampled_from([None, 2, 16]), st.integers(1, 4), st.integers(0, 2**32))
def test_attempts_in_turn_are_attempts_one_after_another(
    level: Level, max_bins: int | None, width: int, seed: int
) -> None:
    search, rng = (
        PairSearch(None if max_bins is None else PairBins.from_pairs(level.pairs, max_bins)),
        np.random.default_rng(seed),
    )
    columns = np.array([rng.permutation(level.pairs.shape[1]) for _ in level.rows])
    found, values = searched(search, level, columns, width)
    own_values = np.split(values, level.frontier.starts[1:-1])
    for f, own in enumerate(columns):
        node = replace(level, rows=[level.rows[f]], weights=[level.weights[f]], costs=level.costs[f : f + 1])
        for first in range(0, len(own), width):
            expected, picked = searched(search, node, own[None, first : first + width], width)
            if expected.candidate[0] >= 0:
                break
        assert found.candidate[f] == (expected.candidate[0] + first if expected.candidate[0] >= 0 else -1)
        assert [part[f] for part in found[1:]] == [part[0] for part in expected[1:]]
        assert found.candidate[f] < 0 or own_values[f].tobytes() == picked.tobytes()


@pytest.mark.slow
@pytest.mark.parametrize("square", [False, True])
@settings(max_examples=EXAMPLES // 2)
@given(st.data(), st.sampled_from([None, 16]))
def test_the_order_of_a_pair_does_not_matter(square: bool, data: st.DataObject, max_bins: int | None) -> None:
    level = data.draw(levels(st.integers(1, CUT_AT_ANY_VALUE + 10), square))
    swapped = level.pairs.of_pairs(level.pairs.right, level.pairs.left)
    (cuts, values), (other, other_values) = level.search(max_bins), level.search(max_bins, swapped)
    assert [part.tobytes() for part in cuts] == [part.tobytes() for part in other]
    for own, twin, is_cut in zip(values, other_values, cuts.candidate >= 0, strict=True):
        assert not is_cut or own.tobytes() == twin.tobytes()


@pytest.mark.parametrize("square", [False, True])
@pytest.mark.parametrize("max_bins", [None, 2, 256])
def test_a_feature_that_all_points_lack_is_never_cut(square: bool, max_bins: int | None) -> None:
    rng = np.random.default_rng(0)
    X = np.insert(rng.normal(size=(30, 1)), 0, GONE, axis=1)
    columns = PairColumns("max_min" if square else "difference_mean", 2)
    pairs = PointPairs.from_points(columns, X, rng.integers(0, 30, (200, 2)))
    codes = (rng.random(200) < 0.5).astype(np.uint8)
    level = Level(pairs, codes, [list(range(200))], [[1] * 200], np.ones((1, 2)), 1, square)
    cuts, _ = level.search(max_bins)
    assert level.sample(0).candidates()[cuts.candidate[0]] in ({1} if square else {1, 3})
    assert cuts.missing[0] == STAY


@pytest.mark.parametrize("max_bins", [2, 127, 128, 255, 256])
def test_no_value_has_the_code_of_missing_pairs(max_bins: int) -> None:
    line = np.append(np.arange(600.0), GONE)[:, None]
    pairs = PointPairs.from_points(PairColumns("difference", 1), line, [[0, k] for k in range(1, 601)])
    bins = PairBins.from_pairs(pairs, max_bins)
    n_codes = bins.edges.shape[1]
    assert n_codes <= 256
    assert np.isfinite(bins.edges[0]).sum() + 1 == min(max_bins, 255) < n_codes
