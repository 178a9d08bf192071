"""The nearest training points by forests over pairs, from which points leave, beside all distances.

``python benchmarks/pair_neighbors.py [--queries Q] [--rows N] [--repeats R]`` grows RFD and TreeRank on the digits and
on N made points of five classes, and finds the 10 nearest training points of Q others: by `kneighbors`, and by
sorting all distances, in turn. Both must give the same bits.
"""

from __future__ import annotations

import argparse
import time
from statistics import median
from typing import TYPE_CHECKING

import numpy as np
from measurement import machine, print_table
from sklearn.datasets import load_digits, make_classification

from distforest import RFD, TreeRank
from distforest.forest.pairs import pair_neighbors, pair_scores

if TYPE_CHECKING:
    from collections.abc import Callable

    from distforest.forest.forest import Forest

K = 10


def by_all(forest: Forest, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The nearest by sorting all distances."""
    apart = pair_scores.distance(forest, points, forest.points)
    order = np.argsort(apart, axis=1, kind="stable")[:, :K]
    return np.take_along_axis(apart, order, axis=1), order


def milliseconds(ask: Callable[[], tuple[np.ndarray, np.ndarray]]) -> tuple[tuple[np.ndarray, np.ndarray], float]:
    """An answer, and the processor time that it takes."""
    start = time.process_time()
    answer = ask()
    return answer, 1e3 * (time.process_time() - start)


def main() -> None:
    """Print a row for each data set and method."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--queries", type=int, default=100)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    made = make_classification(options.rows, 20, n_informative=10, n_classes=5, class_sep=2.0, random_state=0)
    rows = []
    for name, (X, y) in {"digits": load_digits(return_X_y=True), "five made classes": made}.items():
        X, m = X.astype(np.float32), len(X) - options.queries  # noqa: PLW2901  (as the forests read it)
        for method, estimator in {"RFD": RFD(100, random_state=0), "TreeRank": TreeRank(20, random_state=0)}.items():
            forest = estimator.fit(X[:m], y[:m]).forest_
            ways = [
                lambda f=forest, q=X[m:]: by_all(f, q),
                lambda f=forest, q=X[m:]: pair_neighbors.kneighbors(f, q, K, None),
            ]
            runs = [[milliseconds(way) for way in ways] for _ in range(options.repeats + 1)][1:]
            same = all(a.tobytes() == b.tobytes() for a, b in zip(*(answer for answer, _ in runs[0]), strict=True))
            times = [median(run[way][1] for run in runs) / options.queries for way in (0, 1)]
            ratio = median(run[1][1] / run[0][1] for run in runs)
            cells = [f"{times[0]:.2f} ms", f"{times[1]:.2f} ms", f"{ratio:.2f}", "yes" if same else "NO"]
            rows.append([name, method, str(forest.n_trees), f"{m:,}", *cells])
    print(f"{machine()}, {options.queries} queries, {K} neighbours, one thread, processor time a query\n")
    print_table(
        ["data", "method", "trees", "training points", "all distances", "points leave", "ratio", "same bits"], rows
    )


if __name__ == "__main__":
    main()
