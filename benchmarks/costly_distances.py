"""SMERF from a function of which a part of all pairs is asked: Spearman of new rows beside that of the whole matrix.

``python benchmarks/costly_distances.py [REPEATS] [N_ROWS]``: the three distances of the paper's section 5.1, n = 1,000,
p = 20, 200 new rows, 50 trees that try all features. Beside the pairs that `Lazy` asks are as many that are drawn
anywhere (and the distances of rows to themselves).
"""

from __future__ import annotations

import math
import sys
import time
from typing import TYPE_CHECKING

import numpy as np
from measures import mean_spearman
from simulations import smerf_bilinear, smerf_radial, smerf_regression

from distforest import SMERF, Lazy

if TYPE_CHECKING:
    from simulations import Simulation

SETTINGS = {"Regression": smerf_regression, "Bilinear": smerf_bilinear, "Radial": smerf_radial}
SHARES = (0.05, 0.1, 0.2)
N_NEW, N_TREES = 200, 50


def judged(data: Simulation, new: Simulation, taught: object, repeat: int) -> list[float]:
    """Spearman of new rows, and the processor seconds of the fit."""
    start = time.process_time()
    forest = SMERF(N_TREES, max_features=None, n_jobs=1, random_state=repeat).fit(data.X, taught)
    seconds = time.process_time() - start
    return [mean_spearman(new.Z, forest.distance(new.X)), seconds]


def anywhere(data: Simulation, count: int, repeat: int) -> np.ndarray:
    """The matrix with so many pairs known, all equally likely."""
    n = len(data.X)
    left, right = (side[np.random.default_rng(repeat).permutation(math.comb(n, 2))] for side in np.triu_indices(n, 1))
    matrix = np.where(np.eye(n, dtype=bool), data.Z, np.nan)
    matrix[left[:count], right[:count]] = matrix[right[:count], left[:count]] = data.Z[left[:count], right[:count]]
    return matrix


def of_repeat(data: Simulation, new: Simulation, repeat: int) -> np.ndarray:
    """Of each share: Spearman and seconds of the whole matrix, of pairs anywhere, and of the pairs that are asked."""
    n, whole = len(data.X), judged(data, new, data.Z, repeat)
    found = []
    for share in SHARES:
        budget = int(share * math.comb(n, 2))
        lazy = Lazy(lambda left, right: data.Z[left, right], np.arange(n), kind="distance", budget=budget)
        drawn = judged(data, new, anywhere(data, budget, repeat), repeat)
        found.append([whole, drawn, judged(data, new, lazy, repeat)])
    return np.array(found)


def main() -> None:
    """Print a row for each setting and share: means over the repeats, and standard errors of the losses."""
    n_repeats, n_rows = (int(given) for given in (*sys.argv[1:], *("5", "1000")[len(sys.argv) - 1 :]))
    print("| setting | pairs | whole matrix | anywhere: less by | asked by `Lazy`: less by | time of a fit |")
    print("|---|---|---|---|---|---|")
    for name, simulate in SETTINGS.items():
        samples = [(simulate(n_rows, random_state=r), simulate(N_NEW, random_state=1000 + r)) for r in range(n_repeats)]
        small = simulate(100, random_state=0)
        of_repeat(small, small, 0)  # compiles
        found = np.array([of_repeat(*one, r) for r, one in enumerate(samples)])
        for k, share in enumerate(SHARES):
            whole = found[:, k, 0]
            losses = [whole[:, 0] - found[:, k, kind, 0] for kind in (1, 2)]
            told = [f"{loss.mean():.3f} ± {loss.std(ddof=1) / math.sqrt(n_repeats):.3f}" for loss in losses]
            ratio = found[:, k, 2, 1].mean() / whole[:, 1].mean()
            print(f"| {name} | {share:.0%} | {whole[:, 0].mean():.3f} | {' | '.join(told)} | {ratio:.2f} |", flush=True)


if __name__ == "__main__":
    main()
