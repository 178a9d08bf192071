"""How often intervals of SMERF's distances cover: their own expectation, and the true distance.

``python benchmarks/standard_errors.py [REPEATS [N_ROWS [N_TREES]]]``: the three distances of the paper's section 5.1,
p = 20, forests of axis-aligned trees that try all features, one for each of REPEATS training sets; the same 30 pairs of
new rows for all. An interval of 90 % is the distance -+ 1.645 standard errors. The expectation of a distance is its
mean over the training sets. The ratio compares the mean squared standard error with the variance over these sets.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import numpy as np
from simulations import smerf_bilinear, smerf_radial, smerf_regression

from distforest import SMERF

if TYPE_CHECKING:
    from collections.abc import Callable

    from simulations import Simulation

SETTINGS = {"Regression": smerf_regression, "Bilinear": smerf_bilinear, "Radial": smerf_radial}
QUANTILE = 1.645
"""Of the normal distribution: between minus this and this lie 90 %."""


def of_setting(
    simulate: Callable[..., Simulation], n_repeats: int, n_rows: int, n_trees: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Distances and standard errors of the pairs, shape (n_repeats, n_pairs), and their true distances."""
    new = simulate(60, random_state=10**6)
    left, right = np.arange(0, 60, 2), np.arange(1, 60, 2)
    found = []
    for repeat in range(n_repeats):
        data = simulate(n_rows, random_state=repeat)
        forest = SMERF(n_trees, max_features=None, random_state=repeat).fit(data.X, data.Z)
        found.append(forest.pair_distance(new.X[left], new.X[right], return_std=True))
    distances, errors = np.array(found).transpose(1, 0, 2)
    return distances, errors, new.Z[left, right]


def main() -> None:
    """Print a row for each setting."""
    n_repeats, n_rows, n_trees = [*map(int, sys.argv[1:]), *(50, 160, 500)[len(sys.argv) - 1 :]]
    print("| setting | covers the expectation | covers the true distance | variance told / variance found |")
    print("|---|---|---|---|")
    for name, simulate in SETTINGS.items():
        distances, errors, true = of_setting(simulate, n_repeats, n_rows, n_trees)
        expected = distances.mean(axis=0)
        own, of_true = (float((np.abs(distances - to) <= QUANTILE * errors).mean()) for to in (expected, true))
        ratio = float((errors**2).mean() / distances.var(axis=0, ddof=1).mean())
        print(f"| {name} | {own:.3f} | {of_true:.3f} | {ratio:.2f} |")


if __name__ == "__main__":
    main()
