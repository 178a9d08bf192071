"""How long one ranking tree takes to grow: depth 15, LeafRank of depth 5, all columns tried, one core.

::

    python benchmarks/treerank_speed.py                      both regions, 10,000 to 100,000 pairs of 153 features
    python benchmarks/treerank_speed.py --pairs 20000

Points are those of scikit-learn's `make_classification`: 7,000 of them, 10 classes, 153 features of which 40 tell. The
seconds are of the processor, the least of the runs. stdout is markdown.
"""

from __future__ import annotations

import argparse
import math
import time

import numpy as np
from measurement import machine, print_table
from sklearn.datasets import make_classification

from distforest import TreeRank

N_POINTS, N_FEATURES = 7_000, 153


def seconds(X: np.ndarray, y: np.ndarray, n_pairs: int, region: str, runs: int) -> tuple[float, int]:
    """Least processor time to grow a tree, and its number of leaves."""
    best, n_leaves = math.inf, 0
    for seed in range(runs):
        start = time.process_time()
        forest = TreeRank(1, n_pairs=n_pairs, region=region, random_state=seed).fit(X, y)
        best = min(best, time.process_time() - start)
        n_leaves = len(forest.tree_rocs_[0].fpr) - 1
    return best, n_leaves


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, nargs="+", default=[10_000, 30_000, 100_000], help="pairs of a tree")
    parser.add_argument("--runs", type=int, default=2, help="trees grown for each figure (2)")
    given = parser.parse_args()
    X, y = make_classification(
        N_POINTS, N_FEATURES, n_informative=40, n_redundant=0, n_classes=10, class_sep=3.0, random_state=0
    )
    print(machine(), end="\n\n")
    rows = []
    for region in ("diagonal", "square"):
        seconds(X, y, 300, region, 1)  # compiles
        found = [seconds(X, y, n_pairs, region, given.runs) for n_pairs in given.pairs]
        for n_pairs, (own, n_leaves) in zip(given.pairs, found, strict=True):
            rows.append([region, f"{n_pairs:,}", f"{own:.2f} s", str(n_leaves)])
        if len(found) > 1:
            exponent = math.log(found[-1][0] / found[0][0]) / math.log(given.pairs[-1] / given.pairs[0])
            rows.append([region, "exponent", f"{exponent:.2f}", ""])
    print_table(["region", "pairs", "one tree", "leaves"], rows)


if __name__ == "__main__":
    main()
