"""What a grid costs: the processor time of `tune` beside that of fits of its cells.

``python benchmarks/tuning.py [--trees B] [--rounds R]`` tunes a grid of five values of ``max_features`` and three of
``min_samples_split`` on 1,000 DNA sequences (splice): taught the distances of their triplets of letters, as a matrix,
and their labels. Beside it every cell is grown once, in the same process; both are processor seconds, the least of the
rounds. A grid "costs k fits" if it takes k times the mean of its cells.
"""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from measurement import machine, print_table
from sklearn.model_selection import ParameterGrid

from distforest import SMERF, tune

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

DATA = Path(__file__).parent / "data" / "splice_libsvm.npz"
SPLITS = [2, 4, 8]
LETTERS = 4


def triplet_distances(letters: NDArray[np.int64]) -> NDArray[np.float64]:
    """Euclidean distances of how often each of 64 triplets occurs in sequences of letters 0 to 3, shape (n, n)."""
    triplets = letters[:, :-2] * LETTERS**2 + letters[:, 1:-1] * LETTERS + letters[:, 2:]
    counts = np.stack([np.bincount(row, minlength=LETTERS**3) for row in triplets]).astype(np.float64)
    squares, products = (counts**2).sum(axis=1), counts @ counts.T
    distances: NDArray[np.float64] = np.sqrt(np.maximum(squares[:, None] + squares - 2.0 * products, 0.0))
    np.fill_diagonal(distances, 0.0)
    return distances


def processor_seconds(function: Callable[[], Any]) -> tuple[float, Any]:
    """Processor seconds of one call, and its answer."""
    start = time.process_time()
    answer = function()
    return time.process_time() - start, answer


def measured(X: NDArray[np.float64], truth: Any, trees: int, rounds: int) -> list[str]:
    """The cells of the table: seconds of the grid, mean seconds of a cell, their ratio, the best cell."""
    p = X.shape[1]
    grid = {"max_features": [round(p**power) for power in (0.25, 0.5, 0.75)] + [round(0.6 * p), p]}
    grid["min_samples_split"] = SPLITS
    tune(SMERF(3, random_state=0), grid, X, truth)  # compiles
    of_grid, of_cells = [], []
    for _ in range(rounds):
        cells = [processor_seconds(fit_of(cell, trees, X, truth))[0] for cell in ParameterGrid(grid)]
        seconds, found = processor_seconds(lambda: tune(SMERF(trees, random_state=0), grid, X, truth))
        of_grid.append(seconds)
        of_cells.append(cells)
    fits = np.min(of_cells, axis=0)
    best = ", ".join(f"{name}={value}" for name, value in found.best_params_.items())
    ratio = min(of_grid) / fits.mean()
    return [
        f"{min(of_grid):.1f}",
        f"{fits.mean():.2f} ({fits.min():.2f} to {fits.max():.2f})",
        f"**{ratio:.1f}**",
        best,
    ]


def fit_of(cell: dict[str, Any], trees: int, X: NDArray[np.float64], truth: Any) -> Callable[[], Any]:
    """A fit of one cell."""
    return lambda: SMERF(trees, random_state=0, **cell).fit(X, truth)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trees", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=1)
    options = parser.parse_args()
    warnings.simplefilter("ignore", UserWarning)
    print(machine(), flush=True)
    data = np.load(DATA)
    X = data["X"]
    letters = np.rint((X + 1.0) * (LETTERS - 1) / 2.0).astype(np.int64)
    truths = {"distances, 1,000 x 1,000": triplet_distances(letters), "labels": data["y"]}
    head = ("taught", "grid, s", "a fit of a cell, s (least to most)", "grid / fit", "best cell")
    print_table(head, ([name, *measured(X, truth, options.trees, options.rounds)] for name, truth in truths.items()))


if __name__ == "__main__":
    main()
