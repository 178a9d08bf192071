"""ROC curves against all pairs of scores, exact fractions, dense grids and scikit-learn."""

from __future__ import annotations

import dataclasses
from fractions import Fraction

import numpy as np
import pytest
import sklearn.metrics
from hypothesis import given, settings
from hypothesis import strategies as st

from distforest.errors import InputError
from distforest.evaluation.roc import ROC, d1, d_infinity, roc_curve
from tests.messages import naming

CHANCE = ROC([0, 1], [0, 1])
PERFECT = ROC([0, 0, 1], [0, 1, 1])
WORST = ROC([0, 1, 1], [0, 0, 1])

scored = st.lists(st.tuples(st.integers(-4, 4), st.booleans()), min_size=2, max_size=30).filter(
    lambda items: len({similar for _, similar in items}) == 2
)
cells = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=12).filter(
    lambda counts: sum(p for p, _ in counts) > 0 and sum(n for _, n in counts) > 0
)


def curve_of(items):
    return roc_curve(*zip(*items, strict=True))


def of_cells(counts):
    return ROC.of_counts(*zip(*counts, strict=True))


def share_in_order(items):
    """P(s(-) < s(+)) + P(s(-) = s(+)) / 2 by all pairs, as a fraction."""
    similar = [score for score, mark in items if mark]
    unlike = [score for score, mark in items if not mark]
    won = sum(Fraction((a > b) * 2 + (a == b), 2) for a in similar for b in unlike)
    return won / (len(similar) * len(unlike))


def exact_area(counts):
    """The area of the curve of some cells in fractions."""
    n_positive, n_negative = sum(p for p, _ in counts), sum(n for _, n in counts)
    area, above = Fraction(0), 0
    for p, n in counts:
        area += Fraction(n * (2 * above + p), 2)
        above += p
    return area / (n_positive * n_negative)


def just_inside(curves, n=4001):
    """Rates between 0 and 1: a grid, and the two sides of every knot."""
    knots = np.concatenate([curve.fpr for curve in curves])
    rates = np.concatenate([np.linspace(0, 1, n), knots - 1e-9, knots + 1e-9])
    return rates[(rates > 0) & (rates < 1)]


@settings(deadline=None, max_examples=50)
@given(scored)
def test_the_area_is_the_share_of_pairs_in_order(items):
    curve = curve_of(items)
    assert curve.auc == pytest.approx(float(share_in_order(items)), abs=1e-15)
    assert len(curve.fpr) == 1 + len({score for score, _ in items})


@settings(deadline=None, max_examples=50)
@given(scored)
def test_knots_are_those_of_scikit_learn(items):
    scores, similar = zip(*items, strict=True)
    fpr, tpr, _ = sklearn.metrics.roc_curve(similar, scores, drop_intermediate=False)
    curve = roc_curve(scores, similar)
    assert np.array_equal(curve.fpr, fpr)
    assert np.array_equal(curve.tpr, tpr)


@settings(deadline=None, max_examples=50)
@given(scored, st.floats(0.01, 1.0))
def test_the_partial_area_is_that_of_scikit_learn_before_it_is_standardised(items, max_fpr):
    scores, similar = zip(*items, strict=True)
    standardised = sklearn.metrics.roc_auc_score(similar, scores, max_fpr=max_fpr)
    least = max_fpr**2 / 2
    expected = least + (2 * standardised - 1) * (max_fpr - least) if max_fpr < 1 else standardised
    assert roc_curve(scores, similar).partial_auc(max_fpr) == pytest.approx(expected, abs=1e-12)


@settings(deadline=None, max_examples=50)
@given(scored)
def test_a_score_and_its_negative_make_the_whole_square(items):
    turned = [(-score, mark) for score, mark in items]
    assert curve_of(items).auc + curve_of(turned).auc == pytest.approx(1.0, abs=1e-15)


@settings(deadline=None, max_examples=50)
@given(scored)
def test_only_the_order_of_scores_counts(items):
    rng = np.random.default_rng(0)
    moved = [(np.exp(score) - 7, mark) for score, mark in items]
    curve, other = curve_of(items), curve_of([moved[i] for i in rng.permutation(len(moved))])
    assert np.array_equal(curve.fpr, other.fpr)
    assert np.array_equal(curve.tpr, other.tpr)


@settings(deadline=None, max_examples=50)
@given(cells)
def test_counts_of_cells_are_the_curve_of_their_ranks(counts):
    items = [(-rank, mark) for rank, (p, n) in enumerate(counts) for mark in [True] * p + [False] * n]
    curve, other = of_cells(counts), curve_of(items)
    assert np.array_equal(curve.fpr, other.fpr)
    assert np.array_equal(curve.tpr, other.tpr)
    assert curve.auc == pytest.approx(float(exact_area(counts)), abs=1e-15)


@pytest.mark.slow
def test_the_area_of_many_large_counts_is_exact():
    rng = np.random.default_rng(1)
    counts = rng.integers(0, 2**31, (20_000, 2)).tolist()
    assert of_cells(counts).auc == pytest.approx(float(exact_area(counts)), abs=2e-15)


def test_shares_make_a_curve_as_counts_do():
    assert ROC.of_counts([0.9, 0.1], [0.1, 0.9]).auc == pytest.approx(0.9, abs=1e-15)
    assert np.array_equal(ROC.of_counts([3, 0, 1], [1, 0, 7]).tpr, [0, 0.75, 1])


def test_corners():
    assert (PERFECT.auc, WORST.auc, CHANCE.auc) == (1.0, 0.0, 0.5)
    assert np.array_equal(PERFECT.at([0, 0.5, 1]), [1, 1, 1])
    assert np.array_equal(WORST.at([0, 0.5, 1]), [0, 0, 1])
    assert WORST.tpr_at(np.nextafter(1, 0)) == 0
    assert (PERFECT.partial_auc(0), WORST.partial_auc(1), CHANCE.partial_auc(0.5)) == (0, 0, 0.125)


def test_values_lie_on_lines_and_at_the_upper_end_of_jumps():
    curve = ROC([0, 0, 0.5, 0.5, 0.5, 1], [0, 0.2, 0.4, 0.5, 0.9, 1])
    assert np.allclose(curve.at([0.75, 0.5, 0.25, 0]), [0.95, 0.9, 0.3, 0.2], atol=1e-15)
    assert curve.tpr_at(np.nextafter(0.5, 0)) == pytest.approx(0.4)
    assert isinstance(curve.tpr_at(0.5), float)


@settings(deadline=None, max_examples=50)
@given(cells)
def test_a_curve_goes_through_its_knots_and_falls_nowhere(counts):
    curve = of_cells(counts)
    highest = {x: max(curve.tpr[curve.fpr == x]) for x in curve.fpr}
    assert np.array_equal(curve.at(list(highest)), list(highest.values()))
    assert (np.diff(curve.at(np.linspace(0, 1, 501))) >= 0).all()


@settings(deadline=None, max_examples=50)
@given(cells, cells)
def test_distances_of_curves_equal_those_on_a_dense_grid(some, others):
    one, other = of_cells(some), of_cells(others)
    gap = np.abs(one.at(grid := just_inside([one, other])) - other.at(grid))
    assert d_infinity(one, other) == pytest.approx(gap.max(), abs=1e-6)  # a grid misses 1e-9 of a slope up to 81
    middle = (np.arange(20_000) + 0.5) / 20_000
    assert d1(one, other) == pytest.approx(np.abs(one.at(middle) - other.at(middle)).mean(), abs=3e-4)


@settings(deadline=None, max_examples=50)
@given(cells, cells, cells)
def test_distances_of_curves_are_distances(a, b, c):
    a, b, c = of_cells(a), of_cells(b), of_cells(c)
    for distance in (d1, d_infinity):
        assert distance(a, a) == 0
        assert distance(a, b) == distance(b, a)
        assert distance(a, c) <= distance(a, b) + distance(b, c) + 1e-12
    assert abs(a.auc - b.auc) - 1e-12 <= d1(a, b) <= d_infinity(a, b) + 1e-12


@settings(deadline=None, max_examples=50)
@given(cells)
def test_below_the_best_order_of_cells_d1_is_the_difference_of_areas(counts):
    best = sorted(counts, key=lambda cell: -cell[0] / cell[1] if cell[1] else -np.inf)
    one, optimal = of_cells(counts), of_cells(best)
    assert d1(one, optimal) == pytest.approx(optimal.auc - one.auc, abs=1e-14)


def test_a_crossing_between_knots_leaves_two_triangles():
    steep = ROC([0, 0.5, 1], [0, 0, 1])
    flat = ROC([0, 0, 1, 1], [0, 0.5, 0.5, 1])
    # From 0 to 1/2 the gap is 1/2; then it falls to 0 at 3/4 and rises to 1/2 at 1.
    assert d1(steep, flat) == pytest.approx(0.25 + 2 * 0.25 * 0.5 / 2, abs=1e-15)
    assert d_infinity(steep, flat) == 0.5


def test_jumps_count_from_either_side():
    early, late = ROC([0, 0.5, 0.5, 1], [0, 0, 1, 1]), ROC([0, 0.6, 0.6, 1], [0, 0, 1, 1])
    assert d_infinity(early, late) == 1.0
    assert d1(early, late) == pytest.approx(0.1, abs=1e-15)
    assert d_infinity(CHANCE, PERFECT) == d_infinity(CHANCE, WORST) == 1.0
    assert d_infinity(ROC([0, 0, 1], [0, 0.3, 1]), CHANCE) == 0.3


@pytest.mark.slow
@settings(deadline=None, max_examples=50)
@given(st.lists(cells, min_size=1, max_size=4))
def test_the_mean_of_curves_is_vertical(tables):
    curves = [of_cells(counts) for counts in tables]
    mean = ROC.mean(curves)
    grid = just_inside(curves, n=101)
    assert np.allclose(mean.at(grid), np.mean([curve.at(grid) for curve in curves], axis=0), atol=1e-12)
    assert mean.at([0, 1]) == pytest.approx(np.mean([curve.at([0, 1]) for curve in curves], axis=0), abs=1e-15)
    assert mean.auc == pytest.approx(np.mean([curve.auc for curve in curves]), abs=1e-14)


def test_the_mean_of_many_equal_curves_is_that_curve():
    curve = ROC.of_counts([5, 3, 0, 1], [0, 1, 1, 1])
    mean = ROC.mean([curve] * 7)
    assert np.array_equal(mean.fpr, curve.fpr)
    assert np.allclose(mean.tpr, curve.tpr, atol=1e-15)


def test_booleans_ones_and_float32_are_alike():
    scores, similar = np.array([0.1, 0.7, 0.7, 0.3], dtype=np.float32), np.array([False, True, False, True])
    assert roc_curve(scores, similar).auc == roc_curve(scores.astype(float), similar.astype(int)).auc == 0.625


def test_a_curve_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        CHANCE.fpr = CHANCE.tpr


@pytest.mark.parametrize(
    ("fpr", "tpr", "named"),
    [
        ([0, 1], [0, 0.5, 1], ("fpr", "tpr", 2, 3)),
        ([0], [0], ("fpr", "tpr", 2, 1)),
        ([0.1, 1], [0, 1], ("fpr", 0.1)),
        ([0, 1], [0, 0.9], ("tpr", 0.9)),
        ([0, 0.6, 0.5, 1], [0, 0.1, 0.2, 1], ("fpr", -0.09)),
        ([0, np.nan, 1], [0, 0, 1], ("fpr", "NaN")),
        ([[0, 1]], [[0, 1]], ("fpr", (1, 2))),
    ],
)
def test_what_is_no_curve_is_refused(fpr, tpr, named):
    with pytest.raises(InputError, match=naming(*named)):
        ROC(fpr, tpr)


@pytest.mark.parametrize(
    ("scores", "similar", "named"),
    [
        ([1, 2], [True], ("scores", "similar", 2, 1)),
        ([1, np.inf], [True, False], ("scores", "infinite")),
        ([1, 2], [True, True], ("similar", [1.0])),
        ([1, 2], [1, -1], ("similar", [-1.0, 1.0])),
        ([1, 2], [0, np.nan], ("similar", [0.0, np.nan])),
        ([], [], ("similar", [])),
        ([[1, 2]], [[0, 1]], ("scores", (1, 2))),
        (["a", "b"], [0, 1], ("scores", "<U1")),
    ],
)
def test_scores_are_refused_by_name(scores, similar, named):
    with pytest.raises(InputError, match=naming(*named)):
        roc_curve(scores, similar)


@pytest.mark.parametrize(
    ("n_positive", "n_negative", "named"),
    [
        ([1, 2], [1], ("n_positive", "n_negative", 2, 1)),
        ([0, 0], [1, 1], ("n_positive", [0.0, 0.0])),
        ([1, 1], [0, 0], ("n_negative", [0.0, 0.0])),
        ([1, 1], [2, -1], ("n_negative", [2.0, -1.0])),
        ([], [], ([],)),
        ([1, np.nan], [1, 1], ("n_positive", "NaN")),
    ],
)
def test_counts_are_refused_by_name(n_positive, n_negative, named):
    with pytest.raises(InputError, match=naming(*named)):
        ROC.of_counts(n_positive, n_negative)


@pytest.mark.parametrize("rate", [-0.1, 1.1, np.nan])
def test_rates_lie_between_0_and_1(rate):
    for ask, name in ((CHANCE.tpr_at, "fpr"), (CHANCE.partial_auc, "max_fpr"), (lambda x: CHANCE.at([x]), "fprs")):
        with pytest.raises(InputError, match=rf"^{name}\b.*\[0, 1\].*{rate}"):
            ask(rate)


def test_the_mean_of_no_curve_is_refused():
    with pytest.raises(InputError, match="curves"):
        ROC.mean([])


@pytest.mark.parametrize(
    ("weights", "named"),
    [
        ([1.0], ("pair_weight", 2, 1)),
        ([1.0, -1.0], ("pair_weight", -1.0)),
        ([1.0, np.nan], ("pair_weight", "NaN")),
        ([1.0, 0.0], ("similar", [1.0])),
        ([0.0, 0.0], ("similar", [])),
    ],
)
def test_weights_of_pairs_that_cannot_be_used_are_refused(weights: list[float], named: tuple[object, ...]) -> None:
    with pytest.raises(InputError, match=naming(*named)):
        roc_curve([0.9, 0.1], [True, False], weights)
