"""The measures of the papers that the benchmarks use, against all orders of ties and dense grids."""

from __future__ import annotations

import sys
from itertools import permutations
from typing import Any

import numpy as np
import pytest
from scipy.stats import spearmanr
from sklearn.metrics import average_precision_score

from distforest.evaluation.roc import ROC
from tests.pages import ROOT

sys.path.insert(0, str(ROOT / "benchmarks"))
import measures
import simulations

sys.path.remove(str(ROOT / "benchmarks"))  # where a module has the name of a package that Dask looks for


def square(seed: int, n: int = 5) -> Any:
    """A matrix with many ties."""
    return np.random.default_rng(seed).integers(0, 3, (n, n)).astype(float)


@pytest.mark.parametrize("seed", range(3))
def test_ties_count_in_expectation_over_all_orders(seed: int) -> None:
    """The average precision of the two nearest, and the hits of the two most proximate."""
    true, near = square(seed), square(seed + 100)
    orders = [np.array(order) / 100.0 for order in permutations(range(4))]
    precisions, hits = [], []
    for row_of_true, row_of_near in zip(measures.off_diagonal(true), measures.off_diagonal(near), strict=True):
        relevant = [np.isin(np.arange(4), np.argsort(row_of_true + order)[:2]) for order in orders]
        ranked = [row_of_near + order for order in orders]
        precisions.append(np.mean([average_precision_score(own, -rank) for own in relevant for rank in ranked]))
        found = [own[np.argsort(-row_of_near + order)[:2]].mean() for own in relevant for order in orders]
        hits.append(np.mean(found))
    assert measures.mean_average_precision(true, near, k=2) == pytest.approx(np.mean(precisions))
    assert measures.geodesic_precision(near, true, k=2) == pytest.approx(np.mean(hits))


def test_rows_are_correlated_without_their_diagonal() -> None:
    true, predicted = simulations.smerf_radial(9, random_state=0).Z, square(1, 9)
    rows = zip(measures.off_diagonal(true), measures.off_diagonal(predicted), strict=True)
    assert measures.mean_spearman(true, predicted) == pytest.approx(np.mean([spearmanr(*row)[0] for row in rows]))
    assert measures.mean_spearman(true, np.ones((9, 9))) == 0.0


@pytest.mark.parametrize("seed", range(3))
def test_distances_of_curves_are_those_on_a_dense_grid(seed: int) -> None:
    one, other = (ROC.of_counts(*np.random.default_rng([seed, k]).integers(0, 9, (2, 8))) for k in (0, 1))
    knots = np.concatenate([one.fpr, other.fpr])
    grid = np.unique(np.concatenate([np.linspace(0, 1, 20_001), knots - 1e-9, knots + 1e-9]).clip(0, 1))
    gap = np.abs(one.at(grid) - other.at(grid))
    assert measures.d_infinity(one, other) == pytest.approx(gap.max(), abs=1e-6)
    assert measures.d1(one, other) == pytest.approx(np.trapezoid(gap, grid), abs=1e-4)
    assert measures.d1(one, one) == measures.d_infinity(one, one) == 0.0


@pytest.mark.parametrize("name", simulations.MANIFOLDS)
def test_noise_beside_a_manifold_leaves_its_points_as_they_are(name: str) -> None:
    alone, noisy = (simulations.MANIFOLDS[name](60, n, random_state=3) for n in (0, 4))
    assert np.array_equal(alone.X, noisy.X[:, :3])
    assert np.array_equal(alone.geodesic(), noisy.geodesic().T)
    assert noisy.relevant(5).diagonal().max() == 0.0


def test_the_best_curve_of_cells_is_that_of_their_pairs() -> None:
    truth = simulations.treerank_truth(3, shuffled=True, random_state=0)
    pairs = truth.draw(200_000, random_state=1)
    counts = [np.bincount(pairs.cell[own], minlength=8) for own in (pairs.similar, ~pairs.similar)]
    order = np.argsort(truth.negative / truth.positive)
    assert measures.d1(ROC.of_counts(counts[0][order], counts[1][order]), truth.optimal) < 1e-3
