"""Square cuts against the formulas: which pairs a place on a coordinate separates, exactly and through bins."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distforest.forest.frontier import Frontier
from distforest.growth.cuts.scan import NO_CUT, Cuts
from distforest.growth.cuts.search import Limits
from distforest.growth.cuts.two_classes import TwoClasses
from distforest.growth.pairs.bins import PairBins
from distforest.growth.pairs.pair_search import CUT_AT_ANY_VALUE, PairSearch
from distforest.growth.pairs.square_search import square_candidates
from distforest.sources.point_pairs import PairColumns, PointPairs
from distforest.sources.source import Floats
from tests import samples
from tests.reference import naive_trees_of_pairs as ref
from tests.tries import tries

pytestmark = pytest.mark.kernels

EXAMPLES = tries(100)
WIDTH = 3
"""Entries of a point in each block of further columns."""


@dataclass(frozen=True)
class Level:
    """Nodes of pairs, each a tree of its own with its costs; every node tries all candidates in their order."""

    pairs: PointPairs
    codes: np.ndarray
    rows: list[list[int]]
    weights: list[list[int]]
    costs: np.ndarray
    min_leaf: int

    @property
    def frontier(self) -> Frontier:
        return samples.level(self.rows, self.weights)

    @property
    def table(self) -> np.ndarray:
        """All columns of all pairs."""
        n, width = self.pairs.shape
        return self.pairs.block(np.arange(n, dtype=np.int32), np.arange(width, dtype=np.int32))

    def sample(self, f: int) -> ref.Sample:
        """A node for the reference."""
        rows = self.rows[f]
        return ref.Sample(self.table[rows], self.codes[rows], self.weights[f], self.pairs.columns.n_features)

    def search(self, bins: PairBins | None = None, pairs: PointPairs | None = None) -> tuple[Cuts, list[Floats]]:
        """The cuts, and the values that send each node's pairs left or right."""
        candidates = square_candidates(self.pairs.columns).tolist()
        every = samples.projections([[[(c, 1.0)] for c in candidates]] * len(self.rows))
        asked = (self.frontier, every, Limits(2, self.min_leaf))
        cuts, values = PairSearch.for_squares(bins, self.pairs)(
            pairs or self.pairs, TwoClasses(self.codes, self.costs), *asked
        )
        return cuts, np.split(values, self.frontier.starts[1:-1])


@st.composite
def levels(draw: st.DrawFn, n_pairs: st.SearchStrategy[int]) -> Level:
    """Points on a small grid, or anywhere, or all alike; further columns of a pair, or none; one class only, or two."""
    n, p = draw(st.integers(2, 7)), draw(st.integers(1, 3))
    blocks = draw(st.sampled_from([(), (("dot", WIDTH),), (("same", WIDTH), ("dot", WIDTH))]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    grid = draw(st.sampled_from([1, 2, 4, 0]))
    size = (n, p + WIDTH * len(blocks))
    X = rng.integers(-grid, grid, size) / 2 if grid else rng.normal(size=size)
    m = draw(n_pairs)
    pairs = PointPairs.from_points(PairColumns("max_min", p, blocks), X, rng.integers(0, n, (m, 2)))
    codes = (rng.random(m) < draw(st.sampled_from([0.0, 0.1, 0.5]))).astype(np.uint8)
    rows = [rng.permutation(m)[: rng.integers(1, m + 1)].tolist() for _ in range(draw(st.integers(1, 3)))]
    weights = [rng.integers(1, draw(st.integers(2, 4)), len(own)).tolist() for own in rows]
    return Level(pairs, codes, rows, weights, rng.integers(1, 4, (len(rows), 2)) / 2, draw(st.integers(0, 4)))


def costs_of(level: Level, f: int) -> tuple[float, float]:
    return level.costs[f, 0], level.costs[f, 1]


def is_separated(sample: ref.Sample, column: int, threshold: float) -> np.ndarray:
    """Which pairs go right: those that the cut of a coordinate separates, or those above that of a further column."""
    goes = [ref.goes_left(row, column, threshold, sample.squares) for row in sample.values]
    return np.array(goes) == (column < sample.squares)


@settings(max_examples=EXAMPLES)
@given(levels(st.integers(1, 14)))
def test_a_node_is_cut_as_the_formulas_say(level: Level) -> None:
    cuts, values = level.search()
    for f in range(len(level.rows)):
        sample = level.sample(f)
        expected = ref.best_of(sample, range(len(sample.codes)), costs_of(level, f), level.min_leaf)
        if expected.column < 0:
            assert (cuts.candidate[f], cuts.gain[f]) == (-1, NO_CUT)
            continue
        assert sample.candidates()[cuts.candidate[f]] == expected.column
        assert cuts.threshold[f] == expected.threshold
        assert cuts.gain[f] == pytest.approx(float(expected.gain), rel=1e-9)
        assert ((values[f] > cuts.threshold[f]) == is_separated(sample, expected.column, expected.threshold)).all()
        assert np.isfinite(values[f]).all() == (expected.column >= sample.squares)


@settings(max_examples=EXAMPLES // 3)
@given(levels(st.integers(CUT_AT_ANY_VALUE - 2, CUT_AT_ANY_VALUE + 30)), st.sampled_from([2, 3, 17, 256]))
def test_a_large_node_is_cut_at_the_best_edge_of_a_bin(level: Level, max_bins: int) -> None:
    """And a small one of the same level at any value."""
    bins = PairBins.from_pairs(level.pairs, max_bins)
    (cuts, values), (exact, _) = level.search(bins), level.search()
    for f in range(len(level.rows)):
        if len(level.rows[f]) <= CUT_AT_ANY_VALUE:
            assert [part[f] for part in cuts] == [part[f] for part in exact]
            continue
        sample, own = level.sample(f), range(len(level.rows[f]))
        edges = {c: bins.edges[c][np.isfinite(bins.edges[c])].tolist() for c in sample.candidates()}
        allowed = ref.every_cut(sample, own, costs_of(level, f), level.min_leaf, edges)
        expected = ref.first_best(allowed, ref.gini(sample.counts(own), costs_of(level, f)))
        if expected.gain == 0:  # no edge gains anything: its values are searched
            if expected.column < 0 or exact.gain[f] > 0:
                assert [part[f] for part in cuts] == [part[f] for part in exact]
            continue
        column = sample.candidates()[cuts.candidate[f]]
        assert column == expected.column
        assert cuts.gain[f] == pytest.approx(float(expected.gain), rel=1e-9)
        same = [cut for cut in allowed if (cut.column, cut.threshold) == (column, cuts.threshold[f])]
        assert float(same[0].gain) == pytest.approx(float(expected.gain), rel=1e-9)
        assert ((values[f] > cuts.threshold[f]) == is_separated(sample, column, cuts.threshold[f])).all()


@settings(max_examples=EXAMPLES // 3)
@given(levels(st.integers(CUT_AT_ANY_VALUE - 2, CUT_AT_ANY_VALUE + 30)))
def test_where_no_edge_parts_a_node_its_values_are_searched(level: Level) -> None:
    """All points of the level lie in one bin of others; further columns have no bins."""
    X = np.random.default_rng(0).normal(size=(50, level.pairs.points.shape[1])) * 1e9
    far = PointPairs.from_points(level.pairs.columns, X, np.stack(np.triu_indices(50, 1), axis=1))
    bins = PairBins.from_pairs(far, 4)
    (cuts, values), (exact, expected) = level.search(bins), level.search()
    for f in range(len(level.rows)):
        assert [part[f] for part in cuts] == [part[f] for part in exact]
        assert cuts.candidate[f] < 0 or values[f].tolist() == expected[f].tolist()


@settings(max_examples=EXAMPLES // 3)
@given(levels(st.integers(1, CUT_AT_ANY_VALUE + 10)), st.booleans())
def test_the_order_of_a_pair_does_not_matter(level: Level, in_bins: bool) -> None:
    bins = PairBins.from_pairs(level.pairs, 16) if in_bins else None
    swapped = level.pairs.of_pairs(level.pairs.right, level.pairs.left)
    (cuts, values), (other, other_values) = level.search(bins), level.search(bins, swapped)
    assert [part.tobytes() for part in cuts] == [part.tobytes() for part in other]
    for own, twin, is_cut in zip(values, other_values, cuts.candidate >= 0, strict=True):
        assert not is_cut or own.tobytes() == twin.tobytes()


def of_ends(ends: list[tuple[float, float]], codes: list[int], min_leaf: int = 1) -> Level:
    """One node of pairs on a line."""
    X, m = np.array(ends, np.float32).reshape(-1, 1), len(ends)
    pairs = PointPairs.from_points(PairColumns("max_min", 1), X, np.arange(2 * m).reshape(m, 2))
    return Level(pairs, np.array(codes, np.uint8), [list(range(m))], [[1] * m], np.ones((1, 2)), min_leaf)


def test_by_hand() -> None:
    cuts, (values,) = of_ends([(0, 1), (3, 2), (1, 0), (2, 3), (0, 3), (3, 0)], [0, 0, 0, 0, 1, 1]).search()
    assert (cuts.candidate[0], cuts.threshold[0]) == (0, 1.5)
    assert cuts.gain[0] == pytest.approx(8 / 3)  # 2 * 4 * 2 / 6, and both sides pure
    assert values.tolist() == [-np.inf] * 4 + [np.inf] * 2


@pytest.mark.parametrize("min_leaf", [1, 2, 3])
def test_a_side_may_weigh_just_min_leaf(min_leaf: int) -> None:
    cuts, _ = of_ends([(0, 1), (2, 3), (0, 1), (0, 3), (3, 0)], [0, 0, 0, 1, 1], min_leaf).search()
    assert (cuts.candidate[0] == 0) == (min_leaf <= 2)


@pytest.mark.parametrize(
    "ends",
    [
        [(0, 0), (0, 0), (0, 0)],  # one value
        [(-0.0, 0.0), (0.0, -0.0), (0.0, 0.0)],  # and that with both its signs
        [(0, 1), (1, 0), (0, 1)],  # every place separates all pairs
        [(0, 0), (1, 1), (2, 2)],  # or none
    ],
)
def test_places_that_part_no_pairs_are_no_cuts(ends: list[tuple[float, float]]) -> None:
    cuts, _ = of_ends(ends, [0, 1, 1]).search()
    assert (cuts.candidate[0], cuts.gain[0]) == (-1, NO_CUT)


def test_neighbouring_numbers_are_told_apart() -> None:
    one = np.float32(1)
    above = float(np.nextafter(one, np.float32(2)))
    cuts, (values,) = of_ends([(1, 1), (1, above), (above, above)], [0, 1, 0]).search()
    assert 1 <= cuts.threshold[0] < above
    assert values.tolist() == [-np.inf, np.inf, -np.inf]


def test_a_point_on_the_edge_of_a_bin_lies_below_it() -> None:
    line = np.arange(200, dtype=np.float32)[:, None]
    bins = PairBins.from_pairs(
        PointPairs.from_points(PairColumns("max_min", 1), line, np.repeat(np.arange(200), 2).reshape(-1, 2)), 2
    )
    edge = bins.edges[0, 0]
    ends = [(0.0, edge), (edge, 0.0), (edge, 199.0), (199.0, edge)] * 10  # separated below the edge; from it on
    cuts, (values,) = of_ends(ends, [0, 0, 1, 1] * 10).search(bins)
    assert (cuts.candidate[0], cuts.threshold[0], cuts.gain[0]) == (0, edge, 20.0)
    assert values.tolist() == [-np.inf, -np.inf, np.inf, np.inf] * 10
