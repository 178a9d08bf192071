"""Absolute differences of targets: trees of `Targets(y, metric="absolute")` beside squared ones and beside the matrix.

``python benchmarks/absolute_differences.py [--rows N ...] [--features P] [--trees B] [--rounds R]`` grows forests on
all P features of N rows, in turn, in one thread. Printed are processor seconds a tree, the ratio to squared differences
(the median of the rounds, with the least and the most), and scikit-learn's trees by ``absolute_error`` where asked for.
"""

from __future__ import annotations

import argparse
import time
from typing import TYPE_CHECKING

import numpy as np
from measurement import machine, print_table
from sklearn.tree import DecisionTreeRegressor

from distforest import SMERF, Targets

if TYPE_CHECKING:
    from collections.abc import Callable


def seconds_of(work: Callable[[], object]) -> float:
    """Processor seconds of some work."""
    start = time.process_time()
    work()
    return time.process_time() - start


def main() -> None:
    """Measure each number of rows, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[1_000, 10_000, 100_000])
    parser.add_argument("--features", type=int, default=10)
    parser.add_argument("--trees", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--sklearn", type=int, default=2_000, help="most rows of which scikit-learn grows a tree")
    options = parser.parse_args()
    print(f"{machine()}, {options.features} features, {options.trees} trees, processor seconds\n")
    rows = []
    for n in options.rows:
        rng = np.random.default_rng(0)
        X = rng.normal(size=(n, options.features)).astype(np.float32)
        y = np.rint(100 * (X[:, 0] + np.abs(X[:, 1])) + rng.normal(size=n) * 30)

        def grow(truth: object, X: np.ndarray = X) -> None:
            SMERF(options.trees, max_features=None, bootstrap=False, random_state=0, n_jobs=1).fit(X, truth)  # type: ignore[arg-type]

        ways = {
            "absolute": lambda y=y: grow(Targets(y, metric="absolute")),
            "squared": lambda y=y: grow(Targets(y)),
        }
        if n <= options.sklearn:
            ways["matrix"] = lambda y=y: grow(np.abs(y[:, None] - y))
            ways["scikit-learn"] = lambda X=X, y=y: [
                DecisionTreeRegressor(criterion="absolute_error").fit(X, y) for _ in range(options.trees)
            ]
        for way in ways.values():
            way()  # compiles
        spent = {name: np.empty(options.rounds) for name in ways}
        for place in range(options.rounds):
            for name, way in ways.items():
                spent[name][place] = seconds_of(way) / options.trees
        ratio = spent["absolute"] / spent["squared"]
        cells = [f"{np.median(spent[name]):.3f}" if name in spent else "" for name in ("absolute", "squared")]
        others = [f"{np.median(spent[name]):.3f}" if name in spent else "" for name in ("matrix", "scikit-learn")]
        rows.append([f"{n:,}", *cells, f"{np.median(ratio):.2f} ({ratio.min():.2f} to {ratio.max():.2f})", *others])
    print_table(["rows", "absolute", "squared", "absolute / squared", "matrix", "scikit-learn"], rows)


if __name__ == "__main__":
    main()
