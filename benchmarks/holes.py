"""Forests on features with missing values, beside the same fit without: by seconds of the processor.

::

    python benchmarks/holes.py                  labels, targets, pairs and a similarity; 5, 20 and 50 % of the cells
    python benchmarks/holes.py --runs 1 --only labels

stdout is markdown. Cells are removed at random from normal features. The two fits run in turn, in one thread. Trees on
holes may be deeper, so the rows that their nodes split stand beside: the sum over all nodes, with and without.
"""

from __future__ import annotations

import argparse
import time
from typing import TYPE_CHECKING, Any

import numpy as np
from measurement import machine, print_table, seconds_cell

from distforest import RFD, SMERF, Labels, SimForestClassifier, Targets

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

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


def main() -> None:
    """Measure all lines, or those whose names hold a word."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    print(machine(), "\n", flush=True)
    rng, lines = np.random.default_rng(0), []
    for name, (n_rows, fit) in FITS.items():
        if options.only not in name:
            continue
        X = rng.normal(size=(n_rows, 20)).astype(np.float32)
        y = (X[:, :4] @ rng.normal(size=(4, 3)) + rng.normal(size=(n_rows, 3))).argmax(axis=1)
        tables = [X, *(np.where(rng.random(X.shape) < share, np.float32(np.nan), X) for share in SHARES)]
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
