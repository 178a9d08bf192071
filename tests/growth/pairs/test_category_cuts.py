"""Cuts of columns of unordered pairs of categories, against all sets of them."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distforest.forest.frontier import LEFT, RIGHT, Frontier
from distforest.growth.cuts.scan import Cuts
from distforest.growth.cuts.search import Limits
from distforest.growth.cuts.two_classes import TwoClasses
from distforest.growth.pairs.bins import PairBins
from distforest.growth.pairs.pair_search import CUT_AT_ANY_VALUE, PairSearch
from distforest.growth.pairs.square_search import square_candidates
from distforest.sources.point_pairs import FAMILIES, MOST_PAIRED, PairColumns, PointPairs, two_of
from distforest.sources.source import Floats
from tests import samples
from tests.reference import naive_category_pairs as ref
from tests.tries import tries

pytestmark = pytest.mark.kernels

N_CATEGORIES = 4


@dataclass(frozen=True)
class Level:
    """Nodes of pairs of points with a feature of categories and one of numbers, each a tree with its costs."""

    pairs: PointPairs
    codes: np.ndarray
    rows: list[list[int]]
    weights: list[list[int]]
    costs: np.ndarray
    min_leaf: int = 1

    @property
    def frontier(self) -> Frontier:
        return samples.level(self.rows, self.weights)

    def search(self, columns: list[int], max_bins: int | None = None) -> tuple[Cuts, list[Floats]]:
        """The cuts of each node on some columns, and the value of each of its pairs."""
        bins = None if max_bins is None else PairBins.from_pairs(self.pairs, max_bins)
        is_square = self.pairs.columns.family == "max_min"
        search = PairSearch.for_squares(bins, self.pairs) if is_square else PairSearch(bins)
        candidates = samples.projections([[[(c, 1.0)] for c in columns]] * len(self.rows))
        asked = (TwoClasses(self.codes, self.costs), self.frontier, candidates, Limits(2, self.min_leaf))
        cuts, values = search(self.pairs, *asked)
        return cuts, np.split(values, self.frontier.starts[1:-1])

    def categories(self, f: int, column: int) -> Floats:
        """The values of a column of the pairs of a node."""
        own = np.array(self.rows[f], np.int32)
        return self.pairs.entries(own, np.full(len(own), column, np.int32))

    def best_gain(self, f: int, column: int) -> float | None:
        """The largest gain of any set of categories."""
        costs = (self.costs[f, 0], self.costs[f, 1])
        gain = ref.best_gain(
            self.categories(f, column), self.codes[self.rows[f]], self.weights[f], costs, self.min_leaf
        )
        return None if gain is None else float(gain)


@st.composite
def levels(draw: st.DrawFn, n_pairs: st.SearchStrategy[int], families: tuple[str, ...] = FAMILIES[1:]) -> Level:
    n, m = draw(st.integers(2, 8)), draw(n_pairs)
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    X = np.column_stack([rng.integers(0, draw(st.integers(1, N_CATEGORIES)), n), rng.normal(size=n)])
    X[rng.random((n, 2)) < draw(st.sampled_from([0.0, 0.3]))] = np.nan
    columns = PairColumns(draw(st.sampled_from(families)), 2, n_categories=(N_CATEGORIES, 0))
    pairs = PointPairs.from_points(columns, X, rng.integers(0, n, (m, 2)))
    codes = (rng.random(m) < draw(st.sampled_from([0.0, 0.2, 0.5]))).astype(np.uint8)
    rows = [rng.permutation(m)[: rng.integers(1, m + 1)].tolist() for _ in range(draw(st.integers(1, 3)))]
    weights = [rng.integers(1, draw(st.integers(2, 4)), len(own)).tolist() for own in rows]
    return Level(pairs, codes, rows, weights, rng.integers(1, 4, (len(rows), 2)) / 2)


def sides(cuts: Cuts, f: int, values: Floats) -> np.ndarray:
    """The side of each pair of a node; that of the missing ones as the cut says."""
    return np.where(np.isnan(values), cuts.missing[f], np.where(values <= cuts.threshold[f], LEFT, RIGHT))


def gain_of_sides(level: Level, f: int, side: np.ndarray) -> float:
    """The gain of a cut by the sides of a node's pairs."""
    both = []
    for own in (LEFT, RIGHT):
        codes, weights = level.codes[level.rows[f]][side == own], np.array(level.weights[f])[side == own]
        both.append((int(weights[codes == 0].sum()), int(weights[codes == 1].sum())))
    return float(ref.ref.gain_of(*both, (level.costs[f, 0], level.costs[f, 1])))


@settings(max_examples=tries(60))
@given(levels(st.integers(1, 20)) | levels(st.integers(CUT_AT_ANY_VALUE - 2, 60)), st.sampled_from([None, 2, 16]))
def test_the_best_set_of_unordered_pairs_is_found(level: Level, max_bins: int | None) -> None:
    cuts, values = level.search([2], max_bins)
    for f in range(len(level.rows)):
        expected = level.best_gain(f, 2)
        if expected is None:
            assert cuts.candidate[f] == -1
            continue
        assert cuts.gain[f].clip(0) == pytest.approx(expected, rel=1e-9, abs=1e-12)
        side = sides(cuts, f, values[f])
        assert gain_of_sides(level, f, side) == pytest.approx(expected, rel=1e-9, abs=1e-12)
        categories = level.categories(f, 2)
        for category in np.unique(categories[~np.isnan(categories)]):
            assert len(set(side[categories == category])) == 1


@settings(max_examples=tries(40))
@given(levels(st.integers(1, 70), FAMILIES), st.sampled_from([None, 2, 16]))
def test_whether_two_differ_is_cut_as_a_number(level: Level, max_bins: int | None) -> None:
    cuts, values = level.search([0], max_bins)
    for f in range(len(level.rows)):
        if level.pairs.columns.family == "max_min":
            continue  # there, column 0 is no candidate unless its categories are too many
        expected = level.best_gain(f, 0)
        assert (cuts.candidate[f] == 0) == (expected is not None)
        if expected is not None:
            assert cuts.gain[f].clip(0) == pytest.approx(expected, rel=1e-9, abs=1e-12)
            assert gain_of_sides(level, f, sides(cuts, f, values[f])) == pytest.approx(expected, rel=1e-9, abs=1e-12)


@settings(max_examples=tries(40))
@given(levels(st.integers(1, 70)), st.permutations(range(N_CATEGORIES)), st.sampled_from([None, 16]))
def test_neither_codes_nor_the_order_of_two_points_change_a_cut(
    level: Level, codes: list[int], max_bins: int | None
) -> None:
    columns = (
        square_candidates(level.pairs.columns).tolist() if level.pairs.columns.family == "max_min" else [0, 1, 2, 3]
    )
    cuts, values = level.search(columns, max_bins)
    points = level.pairs.points.copy()
    seen = ~np.isnan(points[:, 0])
    points[seen, 0] = np.array(codes)[points[seen, 0].astype(int)]
    numbers = np.stack([level.pairs.right, level.pairs.left], axis=1)
    other = dataclasses.replace(level, pairs=PointPairs.from_points(level.pairs.columns, points, numbers))
    found, theirs = other.search(columns, max_bins)
    for own, same in zip(found, cuts, strict=True):
        np.testing.assert_array_equal(own, same)
    for f in np.flatnonzero(cuts.candidate >= 0):
        np.testing.assert_array_equal(theirs[f], values[f])


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("n_categories", [1, 3, 7])
def test_columns_are_those_of_the_formulas_and_symmetric(family: str, n_categories: int) -> None:
    own = [*range(n_categories), np.nan]
    X = np.array([[k, 0.5 * place] for place, k in enumerate(own)])
    numbers = np.array([(i, j) for i in range(len(own)) for j in range(len(own))])
    columns = PairColumns(family, 2, n_categories=(n_categories, 0))
    pairs, reversed_ = (PointPairs.from_points(columns, X, order) for order in (numbers, numbers[:, ::-1]))
    every = np.arange(len(numbers), dtype=np.int32), np.arange(columns.n_columns, dtype=np.int32)
    table = pairs.block(*every)
    np.testing.assert_array_equal(table, reversed_.block(*every))
    assert table[:, 0] == pytest.approx([ref.differ(own[i], own[j]) for i, j in numbers], nan_ok=True)
    if family != "difference":
        expected = [ref.number_of_pair(own[i], own[j], n_categories) for i, j in numbers]
        assert table[:, 2] == pytest.approx(expected, nan_ok=True)
        assert columns.categories_of_columns == (0, 0, n_categories * (n_categories + 1) // 2, 0)
        for (i, j), number in zip(numbers, table[:, 2], strict=True):
            if not np.isnan(number):
                assert two_of(int(number)) == (min(i, j), max(i, j))


def test_of_too_many_categories_only_whether_they_differ_is_read() -> None:
    for n, largest in ((MOST_PAIRED, MOST_PAIRED * (MOST_PAIRED + 1) // 2), (MOST_PAIRED + 1, 0)):
        columns = PairColumns("difference_mean", 1, n_categories=(n,))
        pairs = PointPairs.from_points(columns, np.array([[n - 1.0], [0.0]]), [[0, 0], [0, 1]])
        assert columns.categories_of_columns == (0, largest)
        assert pairs.block(np.arange(2, dtype=np.int32), np.arange(2, dtype=np.int32)).tolist() == [
            [0.0, largest - 1.0 if largest else 0.0],
            [1.0, largest - n if largest else 0.0],
        ]
    assert largest <= 2**16
