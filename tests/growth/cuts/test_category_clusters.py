"""Columns of categories in forests without a ground truth: scores, places and companions against slow references."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

import numba
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from distforest.growth.cuts.companions import (
    BLUR,
    NO_COLUMN,
    CategoryNumbers,
    Companions,
    CompanionScores,
    cut_categories,
    keep_places,
    number_at,
    place_categories,
    score_categories,
    sign_of,
)
from distforest.growth.cuts.two_clusters import SCORES
from distforest.growth.cuts.two_means import CandidateCuts, ClusterScoring
from distforest.growth.cuts.witnesses import Witnesses
from distforest.growth.draws.column_draws import ColumnWeights, Oblique
from tests import samples
from tests.reference import naive_clusters as ref
from tests.tries import tries

pytestmark = pytest.mark.kernels

FREE = settings(max_examples=tries(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])
KINDS = pytest.mark.parametrize("score", [*SCORES])
RELATIVE = pytest.mark.parametrize("relative", [False, True])
DRAWS = 20 if numba.config.DISABLE_JIT else 200


@dataclass(frozen=True)
class Node:
    """The rows of one node: the category, the weight and the companion's value of each."""

    categories: np.ndarray
    weights: np.ndarray
    s: np.ndarray
    blur: float = BLUR

    @property
    def starts(self) -> np.ndarray:
        return np.array([0, len(self.s)])

    @property
    def places(self) -> np.ndarray:
        return ref.category_places(self.s, self.weights, self.categories)

    def companion_scores(self, fences: tuple[float, float] = (-math.inf, math.inf)) -> CompanionScores:
        n = np.array([[np.unique(self.categories).size]])
        return CompanionScores(self.s[None].copy(), np.array([[self.blur]]), np.array(fences)[:, None, None], n)

    def score(self, threshold: float, score: str, relative: bool) -> float:
        n, left = np.unique(self.categories).size, self.places <= threshold
        return ref.companion_score(self.s, self.weights, left, self.blur, n, score, relative)

    def cut(self, score: str, relative: bool, min_leaf: int = 1) -> tuple[float, float]:
        """Threshold and score of the best cut."""
        cuts = CandidateCuts.none(1, 1)
        level = self.starts, self.weights, self.places[None]
        cut_categories(*level, self.companion_scores(), ClusterScoring(SCORES[score], relative, min_leaf), cuts)
        return float(cuts.thresholds[0, 0]), float(cuts.scores[0, 0])


@st.composite
def nodes(draw: st.DrawFn) -> Node:
    n = draw(st.integers(2, 14))
    categories = draw(st.lists(st.integers(0, 4), min_size=n, max_size=n))
    weights = draw(st.lists(st.integers(1, 3), min_size=n, max_size=n))
    s = draw(st.lists(st.integers(-3, 3), min_size=n, max_size=n))
    blur = draw(st.sampled_from([0.0, BLUR, 2.0]))
    return Node(np.array(categories), np.array(weights, np.int32), np.array(s, np.float64), blur)


# --- scores -----------------------------------------------------------------------------------------------


@KINDS
@RELATIVE
@given(node=nodes(), min_leaf=st.integers(1, 4))
@FREE
def test_the_best_cut_of_places_is_that_of_the_formula(score: str, relative: bool, node: Node, min_leaf: int) -> None:
    threshold, found = node.cut(score, relative, min_leaf)
    expected = -math.inf
    for low, high in pairwise(np.unique(node.places)):
        left = node.places <= low
        if low < high - 1e-9 and min(node.weights[left].sum(), node.weights[~left].sum()) >= min_leaf:
            expected = max(expected, node.score((low + high) / 2, score, relative))
    assert found == pytest.approx(expected, rel=1e-9, abs=1e-9)
    if found > -math.inf:
        assert node.score(threshold, score, relative) == pytest.approx(found, rel=1e-9, abs=1e-9)


@KINDS
@RELATIVE
@given(node=nodes(), threshold=st.floats(-3, 3), min_leaf=st.integers(1, 4))
@FREE
def test_a_given_cut_scores_by_the_formula(
    score: str, relative: bool, node: Node, threshold: float, min_leaf: int
) -> None:
    cuts = CandidateCuts(np.array([[threshold]]), np.array([[-math.inf]]))
    scoring = ClusterScoring(SCORES[score], relative, min_leaf)
    score_categories(node.starts, node.weights, node.places[None], node.companion_scores(), scoring, cuts)
    left, expected = node.places <= threshold, -math.inf
    if min(node.weights[left].sum(), node.weights[~left].sum()) >= min_leaf:
        expected = node.score(threshold, score, relative)
    assert cuts.scores[0, 0] == pytest.approx(expected, rel=1e-9, abs=1e-9)


@KINDS
def test_stray_values_and_missing_ones_do_not_judge(score: str) -> None:
    node = Node(np.array([0, 0, 1, 1, 2, 2]), np.ones(6, np.int32), np.array([0.0, 1, 2, 3, 3, 4]))
    places = np.concatenate([node.places, [0.5, 3.5]])
    s = np.concatenate([node.s, [1e9, np.nan]])
    longer = CompanionScores(s[None], np.array([[BLUR]]), np.array([-9.0, 9.0])[:, None, None], np.array([[3]]))
    cuts = CandidateCuts(np.array([[1.0]]), np.array([[-math.inf]]))
    level = np.array([0, 8]), np.ones(8, np.int32), places[None]
    score_categories(*level, longer, ClusterScoring(SCORES[score], True, 3), cuts)  # the stray row makes a third
    assert cuts.scores[0, 0] == pytest.approx(node.score(1.0, score, True), rel=1e-12)


@RELATIVE
@given(node=nodes())
@FREE
def test_two_means_finds_the_best_of_all_subsets(relative: bool, node: Node) -> None:
    scores = ref.subset_scores(node.s, node.weights, node.categories, node.blur, "two_means", relative)
    best = max(scores, default=-math.inf)
    if best > -math.inf and np.unique(np.round(node.places, 9)).size > 1:
        assert node.cut("two_means", relative)[1] == pytest.approx(best, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("score", ["equal_bic", "fast_bic"])
def test_a_bic_nearly_finds_the_best_of_all_subsets(score: str) -> None:
    """Of up to seven categories: the best subset in most nodes, and little worse in the others."""
    rng = np.random.default_rng(0)
    lost, gaps = [], []
    for _ in range(DRAWS):
        categories = rng.integers(0, rng.integers(2, 8), 40)
        s = rng.normal(size=7)[categories] * rng.choice([0.0, 1.0, 3.0]) + rng.normal(size=40)
        node = Node(np.unique(categories, return_inverse=True)[1].reshape(-1), np.ones(40, np.int32), s, 0.0)
        scores = ref.subset_scores(node.s, node.weights, node.categories, 0.0, score, True)
        lost.append(max(scores) - node.cut(score, True)[1])
        gaps.append(max(scores) - np.median(scores))
    assert min(lost) > -1e-9
    assert np.mean(np.array(lost) < 1e-9) > 0.7
    assert np.mean(lost) < 0.05 * np.mean(gaps)


def test_halves_score_as_uniform_numbers_do() -> None:
    """Two halves that say nothing of s gain nothing but penalties; two that say all of halves gain n log 4 more."""
    n = 4000
    halves, independent = np.repeat([0, 1], n // 2), np.tile([0, 1], n // 2)
    ones = np.ones(n, np.int32)
    agreeing = Node(halves, ones, np.where(halves, 1.0, -1.0))
    nothing = ref.companion_score(np.where(independent, 1.0, -1.0), ones, halves == 0, BLUR, 2, "equal_bic", True)
    penalties = 2 * math.log(n) + 2 * math.log(2)
    assert nothing == pytest.approx(-penalties)
    assert agreeing.cut("equal_bic", True)[1] == pytest.approx(n * math.log(4) - penalties)


# --- places and companions --------------------------------------------------------------------------------


@given(node=nodes(), holes=st.sets(st.integers(0, 13)))
@FREE
def test_a_place_is_the_mean_over_the_rows_of_a_category(node: Node, holes: set[int]) -> None:
    s = np.array([math.nan if r in holes else own for r, own in enumerate(node.s)])
    values = node.categories[None].astype(np.float64)
    companion_scores = CompanionScores(
        s[None], np.array([[0.0]]), np.array([-2.0, 2.0])[:, None, None], np.zeros((1, 1), np.int64)
    )
    place_categories(node.starts, node.weights, 5, companion_scores, values)
    known, expected = ~np.isnan(s), np.full(len(s), math.nan)
    for c in np.unique(node.categories[known]):
        own = known & (node.categories == c)
        expected[node.categories == c] = ref.mean(np.clip(s[own], -2, 2), node.weights[own])
    np.testing.assert_allclose(values[0], expected, rtol=1e-12, atol=1e-12)
    assert companion_scores.n_places[0, 0] == np.unique(node.categories[known]).size


def test_categories_keep_the_places_that_judged() -> None:
    places = np.array([9.0, 8.0, 7.0, 9.0, 5.0, np.nan])
    codes = np.array([2.0, 0.0, 1.0, 2.0, 1.0, np.nan])
    some_codes, some_places = np.array([0.0, np.nan, 2.0]), np.array([0.25, np.nan, 0.5])
    keep_places(np.array([0, 2, 3]), some_codes, some_places, np.array([0, 3, 6]), codes, 3, places)
    np.testing.assert_array_equal(places, [9.0, 0.25, 7.0, 0.5, 5.0, np.nan])


MATRIX = np.array([[0, 1.5, 2, 0], [1, 2.5, 0, 1], [0, -1.0, np.nan, 1], [2, 0.0, 2, 0], [1, 4.0, 1, 1]], np.float32)
SIZES = np.array([3, 0, 3, 2], np.int32)


def companions(combinations: float = 2.0) -> Companions:
    draw = Oblique(ColumnWeights.uniform(4), 6, combinations, np.ones(4))
    keys = np.array([11, 12], np.uint64)
    return Companions(MATRIX, CategoryNumbers.from_matrix(MATRIX, SIZES), draw, fenced=False).attempted(keys, 1)


def test_categories_are_numbered_as_they_come() -> None:
    numbers = CategoryNumbers.from_matrix(MATRIX, SIZES)
    assert numbers.start.tolist() == [0, 3, 3, 6, 8]
    assert numbers.number.tolist() == [0, 1, 2, 1, 2, 0, 0, 1]
    key = np.uint64(5)
    assert number_at(2.5, 1, key, numbers) == 2.5
    assert math.isnan(number_at(math.nan, 2, key, numbers))
    assert number_at(0.0, 2, key, numbers) == sign_of(key, 2, 1)
    signs = [sign_of(np.uint64(k), 0, c) for k in range(300) for c in range(3)]
    assert set(signs) == {-1.0, 1.0}
    assert abs(np.mean(signs)) < 0.1


@pytest.mark.parametrize("combinations", [1.0, 2.0, 4.0])
def test_companions_are_sums_of_other_columns(combinations: float) -> None:
    own = np.array([[0, 2], [NO_COLUMN, 3], [2, NO_COLUMN]], np.int32)
    frontier = samples.level([[0, 1, 2, 3], [1, 3, 4]], [[1, 1, 2, 1], [1, 1, 1]])
    drawn = companions(combinations).drawn(frontier, own)
    companion_scores = companions(combinations).score(frontier, drawn)
    for f in range(2):
        rows = frontier.rows[frontier.starts[f] : frontier.starts[f + 1]]
        for k in range(3):
            s, of_node = np.zeros(len(rows)), companion_scores.scores[k, frontier.starts[f] : frontier.starts[f + 1]]
            if own[k, f] == NO_COLUMN:
                assert np.isnan(of_node).all()
                assert np.isnan(companion_scores.blur[k, f])
                continue
            blur, first, last = 0.0, drawn.sums.offset[f * 3 + k], drawn.sums.offset[f * 3 + k + 1]
            columns = [c for c in drawn.sums.columns[first:last].tolist() if c != NO_COLUMN]
            assert own[k, f] not in columns
            assert len(set(columns)) == len(columns) > 0
            for c, a in zip(drawn.sums.columns[first:last], drawn.sums.weights[first:last], strict=True):
                if c == NO_COLUMN:
                    continue
                blur += a**2 / 3 if SIZES[c] else 0.0
                for r, row in enumerate(rows):
                    numbers = CategoryNumbers.from_matrix(MATRIX, SIZES)
                    s[r] += a * number_at(float(MATRIX[row, c]), int(c), drawn.signs[f, k], numbers)
            s[np.isnan(MATRIX[rows, own[k, f]])] = math.nan
            np.testing.assert_allclose(of_node, s, rtol=1e-12)
            assert companion_scores.blur[k, f] == pytest.approx(blur)


@pytest.mark.slow
def test_a_column_alone_has_no_companion() -> None:
    draw = Oblique(ColumnWeights.from_weights(np.array([1.0, 0.0])), 1, 2.0, np.ones(2))
    alone = Companions(MATRIX[:, :2], CategoryNumbers.from_matrix(MATRIX[:, :2], SIZES[:2]), draw, fenced=True)
    frontier = samples.level([[0, 1, 2]], [[1, 1, 1]])
    alone = alone.attempted(np.array([3], np.uint64), 0)
    companion_scores = alone.score(frontier, alone.drawn(frontier, np.zeros((1, 1), np.int32)))
    assert np.isnan(companion_scores.scores).all()


def test_a_witness_of_categories_is_its_signs() -> None:
    """n log((SS_0 + n b) / (SS_1 + SS_2 + n b)) of the signs, over the rows that have one."""
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 6, 50).astype(np.float32)
    codes[3] = math.nan
    matrix, numbers = codes[:, None], CategoryNumbers.from_matrix(codes[:, None], np.array([6], np.int32))
    frontier = samples.level([list(range(50))], [rng.integers(1, 3, 50).tolist()])
    x = codes + rng.normal(size=50)
    x[3] = 0.0
    cuts = CandidateCuts(np.array([[2.0]]), np.array([[1.0]]))
    witnesses = Witnesses(matrix, ColumnWeights.uniform(1), 2, numbers=numbers).attempted(np.array([7], np.uint64), 1)
    witnesses.confirm(frontier, x[None], cuts)
    assert witnesses.keys is not None
    gains = []
    for e in range(2):
        s = np.array([number_at(float(c), 0, witnesses.keys[0] + np.uint64(e), numbers) for c in codes])
        known, left = ~np.isnan(s), x <= 2.0
        within = sum(ref.squares(s[known & side], frontier.weights[known & side]) for side in (left, ~left))
        n = float(frontier.weights[known].sum())
        gains.append(n * math.log((ref.squares(s[known], frontier.weights[known]) + n / 3) / (within + n / 3)))
    assert cuts.scores[0, 0] == pytest.approx(1.0 + np.mean(gains))
