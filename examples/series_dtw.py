"""Movements of a hand told apart by dynamic time warping, computed only where the forest needs it.

::

    pip install 'distforest[examples]'
    python examples/series_dtw.py                      GunPoint, 200 series of 150 steps
    python examples/series_dtw.py --quick --picture budget.png

It prints the pairs that forests of growing budgets have paid for, against all pairs, and their accuracy on held-out
series beside the nearest neighbour's. Nodes that a small budget cannot split become leaves: "closed".
"""

from __future__ import annotations

import budgets
import numpy as np
from dtaidistance import dtw

from distforest import Lazy, pairwise

WINDOW = 7  # steps that two series may be shifted against each other: 5 % of their length


@pairwise
def warped(a: np.ndarray, b: np.ndarray) -> float:
    """Euclidean distance of two series, shifted step by step to fit each other."""
    return dtw.distance_fast(a, b, window=WINDOW)


def main(arguments: list[str] | None = None) -> None:
    """Compare budgets, and draw them."""
    options = budgets.parser(__doc__).parse_args(arguments)
    with np.load(budgets.DATA / "gun_point.npz") as file:
        series, y = file["X"].astype(np.float64), file["classes"][file["y"]]
    task = budgets.Task.of("GunPoint, dynamic time warping", Lazy(warped, series, kind="distance"), y, test_size=0.3)
    # 140 series without errors of measurement: whole samples and leaves of one are better
    trees = 10 if options.quick else 50
    budgets.run(task, options.picture, trees, bootstrap=False, min_samples_leaf=1)


if __name__ == "__main__":
    main()
