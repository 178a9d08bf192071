"""Two clusters on a line against the slow references of naive_clusters.py: best cuts, given cuts, planted clusters."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from distforest.growth.cuts import two_clusters
from distforest.growth.cuts.fences import LOWER, UPPER
from distforest.growth.cuts.gaussians import score_cuts
from distforest.growth.cuts.scan import NO_CUT
from distforest.growth.cuts.search import Limits, project_and_cut
from distforest.growth.cuts.two_clusters import SCORES, TwoClusters, project_and_cut_clusters
from distforest.growth.cuts.two_means import EQUAL_BIC, FAST_BIC, TWO_MEANS, CandidateCuts, ClusterScoring
from distforest.sources.arrays import ArraySource
from tests import samples
from tests.reference import naive_clusters as ref
from tests.tries import tries

if TYPE_CHECKING:
    from collections.abc import Sequence

    from distforest.forest.frontier import Frontier

pytestmark = pytest.mark.kernels

FREE = settings(
    max_examples=tries(40),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],  # few lines have several values
)
KINDS = pytest.mark.parametrize("score", [*SCORES])
BICS = pytest.mark.parametrize("score", ["fast_bic", "equal_bic"])
RELATIVE = pytest.mark.parametrize("relative", [False, True])
NO_FENCES = (-math.inf, math.inf)
SHAPES = [(1.0, 0.0), (2.0**-10, 0.0), (2.0**-10, 1.0), (1.0, 2.0**22), (2.0**15, -(2.0**39)), (2.0**-40, 0.0)]
"""Scales and offsets at which small whole numbers are float32 numbers, and their differences exact."""


@dataclass(frozen=True)
class Line:
    """One candidate's values at one node."""

    values: np.ndarray
    weights: np.ndarray
    min_leaf: int = 1

    @property
    def frontier(self) -> Frontier:
        return samples.level([list(range(len(self.values)))], [self.weights.tolist()])

    @property
    def observed(self) -> Line:
        kept = ~np.isnan(self.values)
        return Line(self.values[kept], self.weights[kept], self.min_leaf)

    @property
    def n(self) -> int:
        return int(self.observed.weights.sum())

    def cut(self, score: str, relative: bool = True) -> tuple[int, float, float]:
        """Candidate, threshold and gain."""
        cuts = TwoClusters(score, relative).cut(self.frontier, self.values[None], self.min_leaf)
        return int(cuts.candidate[0]), float(cuts.threshold[0]), float(cuts.gain[0])

    def expected(self, score: str, relative: bool) -> list[ref.Cut]:
        """The reference's score of each cut that leaves enough on both sides, from the lowest up."""
        own = self.observed
        if score == "fast_bic":
            return ref.fast_bic_cuts(own.values, own.weights, self.min_leaf, relative)
        return [
            ref.Cut(a, b, score_of(score, own, left, relative))
            for a, b, left in ref.partitions(own.values, own.weights, self.min_leaf)
        ]


def score_of(score: str, own: Line, left: np.ndarray, relative: bool) -> float:
    """What the reference says of one partition."""
    x, w = own.values, own.weights
    sides = (x[left], w[left], x[~left], w[~left])
    if score == "two_means":
        within = ref.squares(*sides[:2]) + ref.squares(*sides[2:])
        return (ref.squares(x, w) if relative else 0.0) - within
    if score == "fast_bic":
        return (ref.one_cluster_score(x, w) if relative else 0.0) - ref.fast_bic_score(*sides)
    return ref.random_cut_gain(x, w, left) - (0.0 if relative else ref.one_cluster_score(x, w))


def line(values: Sequence[float], weights: Sequence[int] | None = None, min_leaf: int = 1) -> Line:
    return Line(np.array(values, np.float64), np.array(weights or [1] * len(values), np.int32), min_leaf)


def slack(score: str, own: Line) -> float:
    """What rounding may do to a score of values whose sides are not much narrower than the node."""
    return 1e-9 * (ref.squares(own.values, own.weights) if score == "two_means" else own.n)


@st.composite
def lines(draw: st.DrawFn, whole: bool = False) -> Line:
    """A few values: whole numbers with ties at some scale and offset, or any float32; some are not observed."""
    scale, offset = draw(st.sampled_from(SHAPES))
    number = st.integers(-6, 6).map(lambda x: scale * x + offset)
    if not whole and draw(st.booleans()):
        number = st.floats(-9, 9, width=32).map(lambda x: float(np.float32(round(x, 2))))
    pairs = draw(st.lists(st.tuples(st.one_of(number, number, st.just(math.nan)), st.integers(1, 5)), min_size=1))
    values, weights = zip(*pairs, strict=True)
    return line(values, list(weights), draw(st.integers(1, 6)))


# --- the best cut -----------------------------------------------------------------------------------------


@KINDS
@RELATIVE
@FREE
@given(own=lines())
def test_no_cut_of_the_reference_is_better(score: str, relative: bool, own: Line) -> None:
    candidate, threshold, gain = own.cut(score, relative)
    cuts = own.expected(score, relative)
    assert candidate == (0 if cuts else -1)
    if cuts:
        (chosen,) = [cut for cut in cuts if cut.below <= threshold < cut.above]
        scale = 1.0 if relative else own.weights.sum() / own.n  # a score that is no gain is scaled to all rows
        assert gain == pytest.approx(scale * chosen.score, rel=1e-9, abs=scale * slack(score, own.observed))
        assert chosen.score >= max(cut.score for cut in cuts) - slack(score, own.observed)


@pytest.mark.slow
@KINDS
@RELATIVE
@FREE
@given(own=lines(whole=True))
def test_of_equal_cuts_the_lowest_is_chosen_at_its_middle(score: str, relative: bool, own: Line) -> None:
    cuts = own.expected(score, relative)
    assume(cuts)
    top = max(cut.score for cut in cuts)
    lowest = next(cut for cut in cuts if cut.score >= top - 1e-3 * slack(score, own.observed))
    assert own.cut(score, relative)[:2] == (0, (lowest.below + lowest.above) / 2)


@KINDS
@RELATIVE
@pytest.mark.parametrize("shape", SHAPES)
def test_of_a_cut_and_its_mirror_image_the_lower_one_is_chosen(
    score: str, relative: bool, shape: tuple[float, float]
) -> None:
    """Both score the same but for rounding, which must not decide."""
    rng = np.random.default_rng(0)
    for _ in range(20):
        half, weights = rng.integers(1, 8, 6), rng.integers(1, 5, 6)
        values = shape[0] * np.concatenate([half, -half]) + shape[1]
        own = Line(values, np.concatenate([weights, weights]).astype(np.int32))
        cuts = own.expected(score, relative)
        top = max(cut.score for cut in cuts)
        lowest = next(cut for cut in cuts if cut.score >= top - 1e-3 * slack(score, own))
        assert own.cut(score, relative)[:2] == (0, (lowest.below + lowest.above) / 2)


@KINDS
@FREE
@given(own=lines(whole=True), data=st.data())
def test_rows_in_another_order_are_cut_alike(score: str, own: Line, data: st.DataObject) -> None:
    order = np.array(data.draw(st.permutations(range(len(own.values)))))
    moved = Line(own.values[order], own.weights[order], own.min_leaf)
    found, again = own.cut(score), moved.cut(score)
    assert found[:2] == again[:2]
    assert found[2] == pytest.approx(again[2], rel=1e-9, abs=1e-9)


@KINDS
@FREE
@given(own=lines(whole=True))
def test_weights_are_rows_that_come_so_often(score: str, own: Line) -> None:
    often = line(np.repeat(own.values, own.weights).tolist(), min_leaf=own.min_leaf)
    found, again = own.cut(score), often.cut(score)
    assert found[:2] == again[:2]
    assert found[2] == pytest.approx(again[2], rel=1e-9, abs=1e-9)


@BICS
@pytest.mark.parametrize("scale", [2.0**-20, 2.0**-10, 2.0**10, 2.0**100])
def test_the_relative_score_knows_no_scale_and_the_raw_one_is_shifted(score: str, scale: float) -> None:
    own = line([0.0, 1.0, 1.0, 3.0, 7.0, 8.0, 8.0, 9.5], [1, 2, 1, 1, 4, 1, 2, 1])
    scaled = Line(own.values * scale, own.weights)
    for relative, shift in ((True, 0.0), (False, -2.0 * own.n * math.log(scale))):
        _, threshold, gain = own.cut(score, relative)
        assert scaled.cut(score, relative) == (0, threshold * scale, pytest.approx(gain + shift, rel=1e-12, abs=1e-9))


@KINDS
@RELATIVE
@pytest.mark.parametrize("far", [2.0**20, 2.0**30, 2.0**40])
def test_values_far_from_zero_are_cut_as_those_about_it(score: str, relative: bool, far: float) -> None:
    """Two atoms and two narrow clusters: what is left within them is far below the rounding of values so large."""
    for values in ([0.0, 0.0, 0.0, 1.0, 1.0], [0.0, 2.0**-12, 2.0**-12, 0.0, 0.75, 0.75, 0.75 + 2.0**-11]):
        near, away = line(values), line([far + value for value in values])
        _, threshold, gain = near.cut(score, relative)
        assert away.cut(score, relative) == (0, far + threshold, pytest.approx(gain, rel=1e-9, abs=1e-9))


@BICS
@pytest.mark.parametrize("width", [1e-2, 1e-3, 1e-4, 1e-5])
def test_a_narrow_cluster_far_from_the_middle_keeps_its_variance(score: str, width: float) -> None:
    """The sums are taken about the mean of the node, so that width^2 of its variance is known to 1e-15 / width^2."""
    rng = np.random.default_rng(0)
    values = np.concatenate([width * rng.normal(size=30), 1.0 + 0.1 * rng.normal(size=50)])
    own = line(values.tolist())
    best = ref.first_best(own.expected(score, True))
    _, threshold, gain = own.cut(score)
    assert best.below <= threshold < best.above
    assert gain == pytest.approx(best.score, rel=1e-12, abs=own.n * 1e-14 / width**2)


@st.composite
def far_clusters(draw: st.DrawFn) -> Line:
    """A few tight clusters, each up to 10^10 of its widths away from the next, in any order of rows."""
    values: list[float] = []
    for place in draw(st.lists(st.sampled_from([0.0, 1.0, -1.0, 1e3, -1e3, 1e6, -9999.0]), min_size=1, max_size=4)):
        width = draw(st.sampled_from([1e-4, 1e-2, 1.0]))
        values += [place + width * x for x in draw(st.lists(st.integers(-9, 9), min_size=1, max_size=5))]
    weights = draw(st.lists(st.integers(1, 4), min_size=len(values), max_size=len(values)))
    return line(draw(st.permutations(values)), weights)


@BICS
@FREE
@given(own=far_clusters())
def test_tight_clusters_beside_far_values_keep_their_variances(score: str, own: Line) -> None:
    """To all digits, in a cut that is found and in one that is given: fractions do not cancel."""
    cuts = ref.exact_bic_cuts(own.values, own.weights, score == "equal_bic")
    assume(cuts)
    largest = max(cut.score for cut in cuts)
    assert own.cut(score)[2] == pytest.approx(largest, rel=1e-11, abs=1e-11 * own.n)
    found = judged(own, [cut.below for cut in cuts], SCORES[score], True)
    assert found == pytest.approx([cut.score for cut in cuts], rel=1e-11, abs=1e-11 * own.n)


@pytest.mark.parametrize("n", [50, 1000])
@pytest.mark.parametrize("far", [1e3, -9999.0, 1e7])
def test_one_far_value_costs_the_variances_of_many_no_digits(n: int, far: float) -> None:
    rng = np.random.default_rng(n)
    values = np.concatenate([1e-3 * rng.normal(size=n // 2), 1.0 + 1e-3 * rng.normal(size=n // 2 - 1), [far]])
    own = line(values.tolist())
    for score in ("fast_bic", "equal_bic"):
        candidate, threshold, gain = own.cut(score)
        left = values <= threshold
        exact = ref.exact_bic(values, own.weights, left, score == "equal_bic")
        assert gain == pytest.approx(exact, rel=1e-12)
        assert judged(own, [threshold], SCORES[score], True) == [pytest.approx(exact, rel=1e-12)]
        assert candidate == 0


@KINDS
def test_values_that_are_not_observed_take_no_part(score: str) -> None:
    nan = math.nan
    full, holed = line([0.0, 1.0, 5.0, 6.0]), line([nan, 0.0, 1.0, nan, nan, 5.0, 6.0, nan])
    assert holed.cut(score) == full.cut(score)
    assert holed.cut(score)[:2] == (0, 3.0)
    for values in ([nan, nan], [nan, 1.0, nan], [1.0, 1.0, nan], [0.0, -0.0, nan]):
        assert line(values).cut(score) == (-1, 0.0, NO_CUT)


@KINDS
def test_no_cut_parts_the_two_zeros(score: str) -> None:
    for values in ([0.0, -0.0, 0.0, -0.0, 4.0, 4.0], [-0.0, 0.0, 0.0, -0.0, 4.0, 4.0]):
        assert line(values).cut(score) == line(np.abs(values).tolist()).cut(score)


@KINDS
@RELATIVE
@FREE
@given(values=st.lists(st.floats(-(2.0**60), 2.0**60, width=32), min_size=2, max_size=12), data=st.data())
def test_any_two_distinct_values_are_cut_with_a_finite_gain(
    score: str, relative: bool, values: list[float], data: st.DataObject
) -> None:
    distinct = len(set(values)) > 1
    weights = data.draw(st.lists(st.integers(1, 5), min_size=len(values), max_size=len(values)))
    candidate, threshold, gain = line(values, weights).cut(score, relative)
    if np.ptp(values) > 1e-100:  # or its square has no float
        assert candidate == 0
    assert candidate == -1 or distinct
    if candidate == 0:
        assert min(values) <= threshold < max(values)
        assert math.isfinite(gain)


@KINDS
def test_a_threshold_lies_below_the_right_side_even_where_the_middle_is_rounded(score: str) -> None:
    for low, high in [(1.0, np.nextafter(1.0, 2.0)), (-np.nextafter(1.0, 2.0), -1.0)]:
        candidate, threshold, _ = line([low, high]).cut(score)
        assert candidate == 0
        assert low <= threshold < high


# --- several candidates and nodes -------------------------------------------------------------------------


@st.composite
def levels(draw: st.DrawFn) -> tuple[list[list[int]], np.ndarray, int]:
    """Weights of the rows of some nodes, and the values of some candidates."""
    weights = draw(st.lists(st.lists(st.integers(1, 5), min_size=1, max_size=7), min_size=1, max_size=3))
    width, m = draw(st.integers(1, 3)), sum(map(len, weights))
    one = st.one_of(st.integers(-4, 4).map(float), st.just(math.nan))
    values = draw(st.lists(st.lists(one, min_size=m, max_size=m), min_size=width, max_size=width))
    return weights, np.array(values), draw(st.integers(1, 4))


@KINDS
@FREE
@given(level=levels())
def test_the_best_candidate_of_each_node_is_chosen_of_equal_ones_the_first(
    score: str, level: tuple[list[list[int]], np.ndarray, int]
) -> None:
    weights, values, min_leaf = level
    values = np.vstack([values, values])  # all twice
    frontier = samples.level([list(range(len(own))) for own in weights], weights)
    cuts = TwoClusters(score).cut(frontier, values, min_leaf)
    for node, own in enumerate(weights):
        inside = slice(frontier.starts[node], frontier.starts[node + 1])
        alone = [line(row[inside].tolist(), own, min_leaf).cut(score) for row in values]
        gains = [gain if candidate == 0 else -math.inf for candidate, _, gain in alone]
        largest = max(gains)
        best = [k for k, gain in enumerate(gains) if gain >= largest - 1e-9 * abs(largest)]  # but for rounding
        chosen = int(cuts.candidate[node]) if largest > -math.inf else best[0]
        expected = (chosen, *alone[chosen][1:]) if largest > -math.inf else (-1, 0.0, NO_CUT)
        assert chosen in best
        assert (cuts.candidate[node], cuts.threshold[node], cuts.gain[node]) == expected
        assert cuts.candidate[node] < len(values) // 2


# --- cuts that are given ----------------------------------------------------------------------------------


def judged(
    own: Line,
    thresholds: Sequence[float],
    score: int,
    relative: bool,
    fences: tuple[float, float] = (-math.inf, math.inf),
) -> list[float]:
    """The scores of cuts at some places of one line."""
    cuts = CandidateCuts(np.array(thresholds, np.float64)[:, None], np.full((len(thresholds), 1), -np.inf))
    values = np.repeat(own.values[None], len(thresholds), axis=0)
    bounds = np.full((5, len(thresholds), 1), np.nan)
    bounds[LOWER], bounds[UPPER] = fences
    frontier, scoring = own.frontier, ClusterScoring(score, relative, own.min_leaf)
    score_cuts(frontier.starts, frontier.weights, values, scoring, bounds, cuts)
    return cuts.scores[:, 0].tolist()


@pytest.mark.slow
@KINDS
@FREE
@given(own=lines(), fences=st.tuples(st.integers(-6, 0), st.integers(0, 6)))
def test_what_lies_beyond_the_fences_has_weight_but_no_say(score: str, own: Line, fences: tuple[int, int]) -> None:
    inside = (own.values >= fences[0]) & (own.values <= fences[1])
    heard = Line(own.values[inside], own.weights[inside])
    assume(len(np.unique(heard.values)) > 1)
    for place in np.unique(heard.values)[:-1]:
        found = judged(own, [place], SCORES[score], True, fences)
        light = min(own.weights[own.values <= place].sum(), own.weights[own.values > place].sum()) < own.min_leaf
        expected = [-math.inf] if light else judged(heard, [place], SCORES[score], True)
        assert found == expected


@pytest.mark.parametrize("far", [1e3, -9999.0, 1e30])
def test_a_stray_value_of_a_candidate_does_not_hide_its_clusters(far: float) -> None:
    """Two clusters against noise; the clusters' projection is chosen, also where one of its rows is a sentinel."""
    rng = np.random.default_rng(0)
    values = np.stack([rng.normal(size=100), np.repeat([0.0, 6.0], 50) + rng.normal(size=100)])
    values[1, 3] = far
    frontier = samples.level([list(range(100))], [[1] * 100])
    for node in range(10):
        criterion = TwoClusters("equal_bic", at_random=True).attempted(samples.keys_of(0, [1], [node]), 0)
        assert criterion.cut(frontier, values, 1).candidate.tolist() == [1]


def test_a_candidate_that_is_mostly_one_number_is_cut_only_where_no_other_is() -> None:
    rng = np.random.default_rng(0)
    mostly_zero, noise = np.repeat([0.0, 9.0], [80, 20]), rng.normal(size=100)
    frontier = samples.level([list(range(100))], [[1] * 100])
    criterion = TwoClusters("equal_bic", at_random=True).attempted(samples.keys_of(0, [1], [0]), 0)
    assert criterion.cut(frontier, np.stack([mostly_zero, noise]), 1).candidate.tolist() == [1]
    alone = criterion.cut(frontier, np.stack([mostly_zero, np.zeros(100)]), 1)
    assert alone.candidate.tolist() == [0]
    assert 0.0 <= alone.threshold[0] < 9.0


@pytest.mark.slow
@KINDS
@RELATIVE
@FREE
@given(own=lines())
def test_cuts_at_every_place_are_judged_as_by_the_reference(score: str, relative: bool, own: Line) -> None:
    distinct = np.unique(own.observed.values)
    assume(len(distinct) > 1)
    places = [*distinct.tolist(), distinct[0] - 1.0, math.nan]
    expected = {cut.below: cut.score for cut in own.expected(score, relative)}
    for place, found in zip(places, judged(own, places, SCORES[score], relative), strict=True):
        if place in expected:
            assert found == pytest.approx(expected[place], rel=1e-9, abs=slack(score, own.observed))
        else:  # too light a side, or none
            assert found == -math.inf


@FREE
@given(own=lines())
def test_a_given_cut_gains_what_a_random_cut_of_the_reference_gains(own: Line) -> None:
    seen = own.observed
    cuts = ref.partitions(seen.values, seen.weights, own.min_leaf)
    assume(cuts)
    found = judged(own, [below for below, _, _ in cuts], EQUAL_BIC, True)
    expected = [ref.random_cut_gain(seen.values, seen.weights, left) for _, _, left in cuts]
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9 * own.n)


@pytest.mark.parametrize("score", [TWO_MEANS, FAST_BIC, EQUAL_BIC])
def test_the_best_cut_is_judged_as_it_was_found(score: int) -> None:
    values = np.random.default_rng(3).normal(size=(40, 60)).astype(np.float32).astype(np.float64)
    name = next(name for name, number in SCORES.items() if number == score)
    for row in values:
        own = line(row.tolist(), min_leaf=5)
        _, threshold, gain = own.cut(name)
        assert judged(own, [threshold], score, True) == [pytest.approx(gain, rel=1e-9)]


# --- planted clusters -------------------------------------------------------------------------------------


@settings(max_examples=tries(25))
@given(
    score=st.sampled_from([*SCORES]),
    relative=st.booleans(),
    sizes=st.lists(st.integers(1, 90), min_size=1, max_size=6),
    cells=st.sampled_from([1, 200, 1 << 15]),
    rounded=st.booleans(),
    seed=st.integers(0, 2**32 - 1),
)
def test_cuts_and_values_are_those_of_a_level_that_is_projected_whole(
    score: str, relative: bool, sizes: list[int], cells: int, rounded: bool, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((120, 4)).astype(np.float32)
    source = ArraySource.from_values(np.round(X) if rounded else X)
    rows = [rng.permutation(120)[:size].tolist() for size in sizes]
    frontier = samples.level(rows, [rng.integers(1, 4, size).tolist() for size in sizes])
    drawn = [
        (int(column), float(sign)) for column, sign in zip(rng.integers(0, 4, 9), rng.choice([-1, 1], 9), strict=True)
    ]
    terms = [[drawn[:1], drawn[node : node + 3], [], drawn[5:7]] for node in range(len(sizes))]
    level = TwoClusters(score, relative), frontier, samples.projections(terms), Limits(min_samples_leaf=2)
    expected, values = project_and_cut(source, *level)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(two_clusters, "CACHE_CELLS", cells)
        found, own = project_and_cut_clusters(source, *level)
    for name, array in expected._asdict().items():
        np.testing.assert_array_equal(getattr(found, name), array, name)
    cut = np.repeat(expected.candidate >= 0, frontier.sizes)
    np.testing.assert_array_equal(own[cut], values[cut])
