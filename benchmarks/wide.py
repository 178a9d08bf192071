"""SMERF on the labels of wide data, with bins and without, against scikit-learn's forest, by seconds of the processor.

::

    python benchmarks/wide.py              50,000 made images of 28 x 28, ten kinds, 20 trees, three pairs (two minutes)
    python benchmarks/wide.py --pairs 1

stdout is markdown. Ours and the peer run in turn. A machine that others use lends its processors now and then, so
seconds of the processor, of all threads together, say more here than those of the clock.
"""

from __future__ import annotations

import argparse
import statistics
import time
from typing import TYPE_CHECKING

import numpy as np
import speed
from measurement import machine, print_table, ratio_cell, seconds_cell, timed
from sklearn.ensemble import RandomForestClassifier

from distforest.growth.problem import Data
from distforest.jobs.train import fit_here
from distforest.sources.row_kinds import Features
from distforest.sources.truth import Truth, TruthKind

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

SIDE, N_KINDS, N_SPOTS = 28, 10, 6
THREADS, N_TREES = 2, 20


def images(n_rows: int) -> tuple[NDArray[np.float32], NDArray[np.int32]]:
    """Grey values from 0 to 255 of images of soft spots, about half of them 0, and the kind of each image.

    A kind has its own places, widths and brightnesses of the spots; those of an image differ from them at random.
    """
    rng = np.random.default_rng(1)
    kinds, y = rng.random((N_KINDS, N_SPOTS, 4)), rng.integers(0, N_KINDS, n_rows)
    down, across = np.mgrid[:SIDE, :SIDE] / (SIDE - 1.0)
    X = np.empty((n_rows, SIDE, SIDE), np.float32)
    for kind in range(N_KINDS):
        rows = np.flatnonzero(y == kind)
        grey = rng.normal(-0.75, 0.04, (len(rows), SIDE, SIDE)).astype(np.float32)
        for x, z, width, light in kinds[kind]:
            centre = 0.2 + 0.6 * np.array([x, z]) + rng.normal(0, 0.07, (len(rows), 2))
            far = (across - centre[:, 0, None, None]) ** 2 + (down - centre[:, 1, None, None]) ** 2
            own = light + 0.5 + rng.normal(0, 0.2, (len(rows), 1, 1))
            grey += (own * np.exp(-far / (2.0 * (0.1 + 0.1 * width) ** 2))).astype(np.float32)
        X[rows] = np.rint(np.clip(grey * 220.0 + 40.0, 0.0, 255.0))
    return X.reshape(n_rows, -1), y.astype(np.int32)


def both_clocks(function: Callable[[], object]) -> tuple[float, float]:
    """Seconds of the processor, and of the clock."""
    start = time.process_time()
    seconds, _ = timed(function)
    return time.process_time() - start, seconds


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description="SMERF on wide data against scikit-learn's forest.")
    parser.add_argument("--pairs", type=int, default=3, help="pairs of runs (default: %(default)s)")
    parser.add_argument("--rows", type=int, default=50_000, help="images (default: %(default)s)")
    options = parser.parse_args(arguments)
    X, y = images(options.rows)
    data = Data(Features(X.shape[1]), X, Truth(TruthKind.LABELS, y, list(range(N_KINDS))))
    print(f"# {len(X):,} x {X.shape[1]}, {np.mean(X == 0):.0%} of the values 0, {N_TREES} trees\n\n{machine()}\n")

    def ours(max_bins: int | None) -> object:
        return fit_here(speed.bound("smerf", data, n_estimators=N_TREES, max_bins=max_bins), THREADS)

    def peer() -> object:
        return RandomForestClassifier(N_TREES, n_jobs=THREADS, random_state=0).fit(X, y)

    rows = []
    for max_bins in (256, None):
        speed.bound("smerf", data, n_estimators=1, max_bins=max_bins).grow(np.arange(1))  # compile
        pairs = [(both_clocks(lambda: ours(max_bins)), both_clocks(peer)) for _ in range(options.pairs)]  # noqa: B023
        for name, clock in (("processor", 0), ("clock", 1)):
            own, theirs = [a[clock] for a, _ in pairs], [b[clock] for _, b in pairs]
            cells = [seconds_cell(statistics.median(own)), seconds_cell(statistics.median(theirs))]
            ratios = [a / b for a, b in zip(own, theirs, strict=True)]
            rows.append([f"`max_bins={max_bins}`", name, *cells, ratio_cell(ratios)])
    print_table(["cuts", "seconds of", "ours", "RandomForest", "ours / RandomForest (least to most)"], rows)


if __name__ == "__main__":
    main()
