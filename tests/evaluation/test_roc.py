"""ROC curves of cells against exact fractions, dense grids and scikit-learn."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import roc_curve

from distforest.errors import InputError
from distforest.evaluation.roc import ROC
from tests.messages import naming

CHANCE = ROC([0, 1], [0, 1])
PERFECT = ROC([0, 0, 1], [0, 1, 1])
WORST = ROC([0, 1, 1], [0, 0, 1])

cells = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=12).filter(
    lambda counts: sum(p for p, _ in counts) > 0 and sum(n for _, n in counts) > 0
)


def of_cells(counts):
    return ROC.of_counts(*zip(*counts, strict=True))


def exact_area(counts):
    """The area of the curve of some cells in fractions."""
    n_positive, n_negative = sum(p for p, _ in counts), sum(n for _, n in counts)
    area, above = Fraction(0), 0
    for p, n in counts:
        area += Fraction(n * (2 * above + p), 2)
        above += p
    return area / (n_positive * n_negative)


@settings(deadline=None, max_examples=50)
@given(cells)
def test_counts_of_cells_are_the_curve_of_their_ranks(counts):
    ranks, similar = zip(
        *[(-rank, mark) for rank, (p, n) in enumerate(counts) for mark in [1] * p + [0] * n], strict=True
    )
    fpr, tpr, _ = roc_curve(similar, ranks, drop_intermediate=False)
    curve = of_cells(counts)
    assert (curve.fpr.tolist(), curve.tpr.tolist()) == (fpr.tolist(), tpr.tolist())
    assert curve.auc == pytest.approx(float(exact_area(counts)), abs=1e-14)


def test_shares_make_a_curve_as_counts_do():
    assert ROC.of_counts([0.9, 0.1], [0.1, 0.9]).auc == pytest.approx(0.9, abs=1e-15)
    assert np.array_equal(ROC.of_counts([3, 0, 1], [1, 0, 7]).tpr, [0, 0.75, 1])


def test_corners():
    assert (PERFECT.auc, WORST.auc, CHANCE.auc) == (1.0, 0.0, 0.5)
    assert np.array_equal(PERFECT.at([0, 0.5, 1]), [1, 1, 1])
    assert np.array_equal(WORST.at([0, 0.5, 1]), [0, 0, 1])
    assert WORST.tpr_at(np.nextafter(1, 0)) == 0


def test_values_lie_on_lines_and_at_the_upper_end_of_jumps():
    curve = ROC([0, 0, 0.5, 0.5, 0.5, 1], [0, 0.2, 0.4, 0.5, 0.9, 1])
    assert np.allclose(curve.at([0.75, 0.5, 0.25, 0]), [0.95, 0.9, 0.3, 0.2], atol=1e-15)
    assert curve.tpr_at(np.nextafter(0.5, 0)) == pytest.approx(0.4)


@settings(deadline=None, max_examples=50)
@given(st.lists(cells, min_size=1, max_size=4))
def test_the_mean_of_curves_is_vertical(tables):
    curves = [of_cells(counts) for counts in tables]
    mean = ROC.mean(curves)
    knots = np.concatenate([curve.fpr for curve in curves])
    grid = np.concatenate([np.linspace(0, 1, 101), knots - 1e-9, knots + 1e-9]).clip(0, 1)
    assert np.allclose(mean.at(grid), np.mean([curve.at(grid) for curve in curves], axis=0), atol=1e-12)
    assert mean.auc == pytest.approx(np.mean([curve.auc for curve in curves]), abs=1e-14)


def test_the_mean_of_many_equal_curves_is_that_curve():
    curve = ROC.of_counts([5, 3, 0, 1], [0, 1, 1, 1])
    mean = ROC.mean([curve] * 7)
    assert np.array_equal(mean.fpr, curve.fpr)
    assert np.allclose(mean.tpr, curve.tpr, atol=1e-15)


@pytest.mark.parametrize(
    ("fpr", "tpr", "named"),
    [
        ([0, 1], [0, 0.5, 1], ("fpr", "tpr", 2, 3)),
        ([0], [0], ("fpr", [0.0])),
        ([0.1, 1], [0, 1], ("fpr", 0.1)),
        ([0, 1], [0, 0.9], ("tpr", 0.9)),
        ([0, 0.6, 0.5, 1], [0, 0.1, 0.2, 1], ("fpr", 0.6)),
        ([0, np.nan, 1], [0, 0, 1], ("fpr", "NaN")),
    ],
)
def test_what_is_no_curve_is_refused(fpr, tpr, named):
    with pytest.raises(InputError, match=naming(*named)):
        ROC(fpr, tpr)


@pytest.mark.parametrize(("n_positive", "n_negative"), [([1, 2], [1]), ([0, 0], [1, 1]), ([1, 1], [0, 0]), ([], [])])
def test_counts_of_no_curve_are_refused(n_positive, n_negative):
    with pytest.raises(InputError, match=naming("n_positive", "n_negative", n_positive, n_negative)):
        ROC.of_counts(n_positive, n_negative)


@pytest.mark.parametrize("rate", [-0.1, 1.1, np.nan])
def test_rates_lie_between_0_and_1(rate):
    with pytest.raises(InputError, match=naming("fpr", rate)):
        CHANCE.tpr_at(rate)


def test_the_mean_of_no_curve_is_refused():
    with pytest.raises(InputError, match="curves"):
        ROC.mean([])
