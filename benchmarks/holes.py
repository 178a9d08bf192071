"""Forests on features with missing values, beside the same fit without: by seconds of the processor.

::

    python benchmarks/holes.py                  labels, targets, pairs and a similarity; 5, 20 and 50 % of the cells
    python benchmarks/holes.py --runs 1 --only labels
    python benchmarks/holes.py --depth          are trees of pairs on holes deeper than scikit-learn's?

stdout is markdown. Cells are removed at random from normal features. The two fits run in turn, in one thread. Trees on
holes may be deeper, so the rows that their nodes split stand beside: the sum over all nodes, with and without.
"""

from __future__ import annotations

import argparse
import time
from typing import TYPE_CHECKING, Any

import numpy as np
from measurement import machine, print_table, seconds_cell
from sklearn.tree import DecisionTreeClassifier

from distforest import RFD, SMERF, Labels, SimForestClassifier, Targets

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from distforest.forest.node_table import NodeTable

N_TREES = 4
SHARES = (0.05, 0.2, 0.5)
FITS: dict[str, tuple[int, Callable[[NDArray[np.float32], NDArray[np.int64]], Any]]] = {
    "SMERF, labels": (30_000, lambda X, y: SMERF(N_TREES, random_state=0, n_jobs=1).fit(X, Labels(y))),
    "SMERF, targets": (30_000, lambda X, y: SMERF(N_TREES, random_state=0, n_jobs=1).fit(X, Targets(y))),
    "RFD": (3_000, lambda X, y: RFD(N_TREES, random_state=0, n_jobs=1).fit(X, y)),
    "SimForest, linear": (
        20_000,
        lambda X, y: SimForestClassifier("linear", n_estimators=N_TREES, random_state=0, n_jobs=1).fit(X, y),
    ),
}
"""Number of rows and fit of each line."""


def rows_split(forest: Any) -> int:
    """The rows of all nodes that are split, summed."""
    table = forest.forest_.table
    return int(table.n_rows[~table.is_leaf].astype(np.int64).sum())


def data_of(n_rows: int, rng: np.random.Generator) -> tuple[list[NDArray[np.float32]], NDArray[np.int64]]:
    """Features in three classes: whole, and with each share of the cells removed."""
    X = rng.normal(size=(n_rows, 20)).astype(np.float32)
    y = (X[:, :4] @ rng.normal(size=(4, 3)) + rng.normal(size=(n_rows, 3))).argmax(axis=1)
    return [X, *(np.where(rng.random(X.shape) < share, np.float32(np.nan), X) for share in SHARES)], y


def tree_of_pairs(X: NDArray[np.float32], y: NDArray[np.int64]) -> tuple[int, int]:
    """Rows split and depth of scikit-learn's tree on a table of the columns of 60,000 pairs, half of them similar."""
    rng = np.random.default_rng(0)
    left, right = rng.integers(0, len(y), (2, 300_000))
    is_similar = y[left] == y[right]
    kept = np.concatenate([np.flatnonzero(is_similar == kind)[:30_000] for kind in (True, False)])
    kept = kept[rng.integers(0, len(kept), len(kept))]
    one, other = X[left[kept]], X[right[kept]]
    columns = np.hstack([np.abs(one - other), (one + other) / 2])
    tree = DecisionTreeClassifier(max_features="sqrt", min_samples_leaf=5, random_state=0)
    grown = tree.fit(columns, is_similar[kept]).tree_
    return int(grown.n_node_samples[grown.children_left >= 0].sum()), int(grown.max_depth)


def depths() -> None:
    """Print how many rows trees of pairs split on holes, beside those without, and how deep they are."""
    n_rows, fit = FITS["RFD"]
    tables, y = data_of(n_rows, np.random.default_rng(0))
    found: list[list[tuple[int, int]]] = [[], []]
    for table in tables:
        forest = fit(table, y)
        found[0].append((rows_split(forest), deepest(forest.forest_.table)))
        found[1].append(tree_of_pairs(table, y))
    lines = []
    for name, pairs in zip(("RFD", "DecisionTreeClassifier"), found, strict=True):
        lines.append([name, *(f"{rows / pairs[0][0]:.2f} ({depth})" for rows, depth in pairs)])
    print_table(["trees", *(f"{share:.0%} missing, rows split (depth)" for share in (0.0, *SHARES))], lines)


def deepest(table: NodeTable) -> int:
    """The depth of the deepest node."""
    depth = np.zeros(len(table.left), np.int64)
    root = np.repeat(table.tree_start[:-1], table.tree_size)
    for node in np.flatnonzero(~table.is_leaf):  # parents come first
        for child in (table.left[node], table.right[node]):
            depth[root[node] + child] = depth[node] + 1
    return int(depth.max())


def main() -> None:
    """Measure all lines, or those whose names hold a word."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--only", default="")
    parser.add_argument("--depth", action="store_true")
    options = parser.parse_args()
    if options.depth:
        depths()
        return
    print(machine(), "\n", flush=True)
    rng, lines = np.random.default_rng(0), []
    for name, (n_rows, fit) in FITS.items():
        if options.only not in name:
            continue
        tables, y = data_of(n_rows, rng)
        for table in tables[:2]:
            fit(table[:400], y[:400])  # compiles
        seconds, split = [np.inf] * len(tables), [0] * len(tables)
        for _ in range(options.runs):
            for which, table in enumerate(tables):
                start = time.process_time()
                split[which] = rows_split(fit(table, y))
                seconds[which] = min(seconds[which], time.process_time() - start)
        cells = [f"{s / seconds[0]:.2f} ({r / split[0]:.2f})" for s, r in zip(seconds[1:], split[1:], strict=True)]
        lines.append([name, seconds_cell(seconds[0]), *cells])
    print_table(["fit", "without", *(f"{share:.0%} missing, time (rows split)" for share in SHARES)], lines)


if __name__ == "__main__":
    main()
