"""TreeRank's pairs with a known best ranking: against the paper's formulae, plain loops and the uniform law."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare, kstest

from distforest.errors import InputError
from distforest.evaluation import ranking_truth
from distforest.evaluation.roc import roc_curve
from distforest.evaluation.simulate import treerank_pairs, treerank_truth
from tests.messages import naming


def symmetric(left, right):
    """f of lemma 1, from float32 points."""
    a, b = np.asarray(left, dtype=np.float64), np.asarray(right, dtype=np.float64)
    return np.hstack([a + b, np.abs(a - b)]) / math.sqrt(2)


def naive_cell(truth, f):
    """Walk the tree with one pair."""
    node, n_inner = 0, len(truth.column)
    while node < n_inner:
        is_upper = f[truth.column[node]] >= truth.threshold[node]
        node = 2 * node + (1 if is_upper == truth.upper_is_left[node] else 2)
    return node - n_inner


@pytest.mark.parametrize(("depth", "auc"), [(1, 0.990099), (2, 0.983005), (3, 0.975632), (4, 0.970158)], ids=str)
def test_the_best_area_follows_from_the_papers_formula(depth, auc):
    optimal = treerank_truth(depth, shuffled=True, random_state=0).optimal
    last = 2**depth - 1
    similar = [0.01 ** (cell / last) for cell in range(last + 1)]
    unlike = [0.01 ** (-cell / last) for cell in range(last + 1)]
    area = sum(p * (sum(unlike[cell + 1 :]) + unlike[cell] / 2) for cell, p in enumerate(similar)) / (
        sum(similar) * sum(unlike)
    )
    assert optimal.auc == pytest.approx(area, abs=1e-14)
    assert optimal.auc == pytest.approx(auc, abs=1e-6)
    assert len(optimal.fpr) == 2**depth + 1


def test_the_best_curve_is_concave_and_between_step_and_diagonal():
    for noise, least, most in ((1e-9, 0.999, 1.0), (0.1, 0.85, 0.95), (0.999, 0.5, 0.501)):
        optimal = treerank_truth(3, noise=noise, shuffled=True, random_state=1).optimal
        assert least < optimal.auc < most
        slopes = np.diff(optimal.tpr) / np.diff(optimal.fpr)
        assert (np.diff(slopes) < 0).all()


def test_shares_stand_in_order_or_at_random():
    ordered, shuffled = (treerank_truth(4, shuffled=mixed, random_state=2) for mixed in (False, True))
    assert (np.diff(ordered.positive) < 0).all()
    assert (np.diff(ordered.negative) > 0).all()
    assert np.allclose(ordered.positive * ordered.negative, ordered.positive[0] * ordered.negative[0])
    assert not np.array_equal(shuffled.positive, ordered.positive)
    assert np.array_equal(np.sort(shuffled.positive), np.sort(ordered.positive))
    assert np.array_equal(np.argsort(shuffled.positive), np.argsort(-shuffled.negative))
    assert ordered.positive.sum() == pytest.approx(1, abs=1e-14)
    assert ordered.negative.sum() == pytest.approx(1, abs=1e-14)


@settings(deadline=None, max_examples=30)
@given(st.integers(1, 7), st.integers(1, 4), st.integers(0, 2**32))
def test_cells_have_volume_and_fill_the_box(depth, p, seed):
    truth = treerank_truth(depth, p, random_state=seed)
    sides = truth.upper - truth.lower
    assert truth.lower.shape == (2**depth, 2 * p)
    assert (sides > 0).all()
    assert sides.prod(axis=1).sum() == pytest.approx(2**p, rel=1e-12)
    assert (truth.lower >= np.r_[-np.ones(p), np.zeros(p)]).all()
    assert (truth.upper <= 1).all()
    middle = (truth.lower + truth.upper) / 2
    assert [naive_cell(truth, f) for f in middle] == list(range(2**depth))


def test_cuts_are_uniform_over_columns_sides_and_the_width_of_their_cell():
    truth = treerank_truth(12, random_state=9)
    assert chisquare(np.bincount(truth.column, minlength=6)).pvalue > 1e-3
    assert abs(truth.upper_is_left.mean() - 0.5) < 5 * 0.5 / math.sqrt(4095)
    # The last level parts what two neighbouring cells are together.
    inner = np.arange(2047, 4095)
    left, right, column = 2 * np.arange(2048), 2 * np.arange(2048) + 1, truth.column[inner]
    least = np.minimum(truth.lower[left, column], truth.lower[right, column])
    most = np.maximum(truth.upper[left, column], truth.upper[right, column])
    assert kstest((truth.threshold[inner] - least) / (most - least), "uniform").pvalue > 1e-3


@settings(deadline=None, max_examples=30)
@given(st.integers(1, 6), st.integers(1, 4), st.integers(0, 2**32), st.booleans())
def test_pairs_lie_in_their_cells_in_either_order(depth, p, seed, shuffled):
    pairs = treerank_pairs(50, depth, p, shuffled=shuffled, random_state=seed)
    truth, f = pairs.truth, symmetric(pairs.left, pairs.right)
    assert (f >= truth.lower[pairs.cell] - 1e-6).all()
    assert (f <= truth.upper[pairs.cell] + 1e-6).all()
    found = truth.cells(pairs.left, pairs.right)
    assert np.array_equal(found, truth.cells(pairs.right, pairs.left))
    assert found.tolist() == [naive_cell(truth, row) for row in f]
    near = np.minimum(f - truth.lower[pairs.cell], truth.upper[pairs.cell] - f).min(axis=1) < 1e-6
    assert np.array_equal(found[~near], pairs.cell[~near])


def test_pairs_are_drawn_as_the_paper_says():
    truth = treerank_truth(2, noise=0.1, p_plus=0.3, shuffled=True, random_state=3)
    pairs = truth.draw(40_000, random_state=4)
    assert abs(pairs.similar.mean() - 0.3) < 5 * math.sqrt(0.21 / 40_000)
    for mark, shares in ((True, truth.positive), (False, truth.negative)):
        counts = np.bincount(pairs.cell[pairs.similar == mark], minlength=4)
        assert chisquare(counts, shares * counts.sum()).pvalue > 1e-3
    inside = (symmetric(pairs.left, pairs.right) - truth.lower[pairs.cell]) / (truth.upper - truth.lower)[pairs.cell]
    for column in inside.T:
        assert kstest(column, "uniform").pvalue > 1e-4
    assert np.abs(np.corrcoef(inside.T) - np.eye(6)).max() < 5 / math.sqrt(40_000)
    # Which of the two is the larger is a matter of chance, coordinate by coordinate.
    larger = pairs.left > pairs.right
    assert np.abs(larger.mean(axis=0) - 0.5).max() < 5 * 0.5 / math.sqrt(40_000)
    assert np.abs(np.corrcoef(larger.T) - np.eye(3)).max() < 5 / math.sqrt(40_000)


def test_no_score_of_many_pairs_is_better_than_the_posterior():
    truth = treerank_truth(3, noise=0.1, p_plus=0.2, shuffled=True, random_state=5)
    test = truth.draw(50_000, random_state=6)
    best = truth.posterior(test.left, test.right)
    assert roc_curve(best, test.similar).auc == pytest.approx(truth.optimal.auc, abs=0.01)
    for cell in range(8):
        inside = test.cell == cell
        share = test.similar[inside].mean()
        assert np.median(best[inside]) == pytest.approx(share, abs=5 * 0.5 / math.sqrt(inside.sum()))


@pytest.mark.parametrize("draw", [treerank_pairs, lambda n, depth, random_state: treerank_truth(depth).draw(n)])
def test_shapes_and_types(draw):
    pairs = draw(7, depth=2, random_state=0)
    assert (pairs.left.shape, pairs.right.shape, pairs.similar.shape, pairs.cell.shape) == ((7, 3), (7, 3), (7,), (7,))
    assert (pairs.left.dtype, pairs.right.dtype) == (np.float32, np.float32)
    assert (pairs.similar.dtype, pairs.cell.dtype) == (np.bool_, np.int64)
    assert pairs.optimal is pairs.truth.optimal
    assert pairs.truth.p_plus == 0.5


def test_one_seed_one_truth_and_one_sample():
    first, again, other = (treerank_pairs(30, 3, shuffled=True, random_state=seed) for seed in (7, 7, 8))
    assert np.array_equal(first.left, again.left)
    assert np.array_equal(first.truth.lower, again.truth.lower)
    assert not np.array_equal(first.truth.lower, other.truth.lower)
    some, more = first.truth.draw(30, random_state=1), again.truth.draw(30, random_state=1)
    assert np.array_equal(some.right, more.right)
    assert not np.array_equal(some.right, first.right)


def test_rare_similar_pairs_may_be_missing():
    truth = treerank_truth(3, p_plus=2e-4, random_state=0)
    assert not truth.draw(100, random_state=0).similar.any()
    assert 0 < truth.draw(100_000, random_state=0).similar.sum() < 60


def test_a_cut_on_the_end_of_a_cell_is_drawn_again_and_then_refused():
    class Stuck(np.random.Generator):
        n_asked = 0

        def uniform(self, low, high):
            self.n_asked += 1
            return low if self.n_asked <= self.stuck_for else super().uniform(low, high)

    patient, hopeless = Stuck(np.random.PCG64(0)), Stuck(np.random.PCG64(0))
    patient.stuck_for, hopeless.stuck_for = 3, math.inf
    truth = treerank_truth(1, random_state=patient)
    assert (truth.lower < truth.upper).all()
    assert patient.n_asked == 4
    with pytest.raises(InputError, match=naming("depth", ranking_truth.N_TRIES)):
        treerank_truth(1, random_state=hopeless)
    assert hopeless.n_asked == ranking_truth.N_TRIES


def test_a_truth_cannot_be_changed():
    truth = treerank_truth(1, random_state=0)
    with pytest.raises(dataclasses.FrozenInstanceError):
        truth.p_plus = 0.1


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("n", 0),
        ("depth", 0),
        ("depth", 2.0),
        ("depth", 17),
        ("p", 0),
        ("noise", 0.0),
        ("noise", 1),
        ("noise", math.nan),
        ("p_plus", True),
        ("p_plus", "half"),
        ("random_state", -1),
    ],
)
def test_faults_are_refused_at_the_door(argument, value):
    with pytest.raises(InputError, match=rf"^{argument}\b.* {value!r}$"):
        treerank_pairs(**{"n": 5, "depth": 2, argument: value})


@pytest.mark.parametrize(
    ("left", "right", "named"),
    [
        (np.zeros((2, 3)), np.zeros((3, 3)), ("left", "right", "(m, 3)", (2, 3), (3, 3))),
        (np.zeros((2, 2)), np.zeros((2, 2)), ("left", "right", "(m, 3)", (2, 2))),
        (np.zeros(3), np.zeros(3), ("left", (3,))),
        (np.zeros((1, 3)), np.full((1, 3), np.nan), ("right", "NaN")),
    ],
)
def test_points_are_refused_by_name(left, right, named):
    truth = treerank_truth(1, random_state=0)
    for ask in (truth.cells, truth.posterior):
        with pytest.raises(InputError, match=naming(*named)):
            ask(left, right)
