"""SMERF where some distances were removed at random: Spearman of new rows, and of the pairs that were held out.

``python benchmarks/unobserved_distances.py [REPEATS]``: the three distances of the paper's section 5.1, n = 320,
p = 20, 200 new rows. The paper's second scheme holds out pairs instead of rows. Time is the processor time of a fit, as
a ratio to the one with all distances.
"""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

import numpy as np
from scipy.stats import spearmanr
from simulations import smerf_bilinear, smerf_radial, smerf_regression

from distforest import SMERF

if TYPE_CHECKING:
    from simulations import Simulation

SETTINGS = {"Regression": smerf_regression, "Bilinear": smerf_bilinear, "Radial": smerf_radial}
SHARES = (0.0, 0.1, 0.3, 0.5, 0.7, 0.9)
N_ROWS, N_NEW, N_TREES = 320, 200, 200


def of_share(share: float, data: Simulation, new: Simulation, repeat: int) -> list[float]:
    """Spearman of new rows and of held-out pairs, NaN without any, and the seconds of the fit."""
    held_out = np.triu(np.random.default_rng(repeat).random(data.Z.shape) < share, 1)
    Z = np.where(held_out | held_out.T, np.nan, data.Z)
    start = time.process_time()
    forest = SMERF(N_TREES, max_features=None, n_jobs=1, random_state=repeat).fit(data.X, Z)
    seconds = time.process_time() - start
    pairs = np.triu_indices(N_NEW, 1)
    of_new = spearmanr(forest.distance(new.X)[pairs], new.Z[pairs])[0]
    of_held_out = spearmanr(forest.distance(data.X)[held_out], data.Z[held_out])[0] if held_out.any() else np.nan
    return [of_new, of_held_out, seconds]


def main() -> None:
    """Print a row for each setting and share: means over the repeats, and the standard error of new rows."""
    n_repeats = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    print("| setting | unobserved | new rows | less than with all | held-out pairs | time of a fit |")
    print("|---|---|---|---|---|---|")
    for name, simulate in SETTINGS.items():
        samples = [(simulate(N_ROWS, random_state=r), simulate(N_NEW, random_state=1000 + r)) for r in range(n_repeats)]
        of_share(0.3, *samples[0], 0), of_share(0.0, *samples[0], 0)  # compiles
        found = np.array([[of_share(share, *one, r) for share in SHARES] for r, one in enumerate(samples)])
        for k, share in enumerate(SHARES):
            less = found[:, 0, 0] - found[:, k, 0]
            error = less.std(ddof=1) / np.sqrt(n_repeats)
            new, held_out, seconds = found[:, k].mean(axis=0)
            ratio = seconds / found[:, 0, 2].mean()
            print(
                f"| {name} | {share:.0%} | {new:.3f} | {less.mean():.3f} ± {error:.3f} | {held_out:.3f} | {ratio:.2f} |"
            )


if __name__ == "__main__":
    main()
