"""Weights of several similarities by a first forest: each similarity's share in the gain of all its cuts.

::

    python benchmarks/similarity_weights.py                five seeds, about a minute
    python benchmarks/similarity_weights.py --seeds 1

stdout is markdown. A first forest draws all similarities equally often; a second one draws each as often as its share
in the gain of the first (`feature_importances_`). Series are those of examples/series_measures.py, on the archive's
partitions, by ten elastic distances. Of the digits, 600, half of which teach, one distance is that of the pixels, and
nine are of noise.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from measurement import machine, print_table
from scipy.spatial.distance import cdist
from sklearn.datasets import load_digits

from distforest import SimForestClassifier

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

CUTS = ("best", "zero", "exemplars")


class Case(NamedTuple):
    """Objects that teach and objects that are asked about, by several distances, shape (n, n_teach, n_distances)."""

    known: Floats
    y_known: NDArray[np.int64]
    new: Floats
    y_new: NDArray[np.int64]


def series(name: str) -> Case:
    """One of the sets of the example."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))
    from series_measures import MEASURES, Task  # noqa: PLC0415  (found by the line above)

    task = Task.of(name)
    distances, known = np.stack([task.matrix(measure) for measure in MEASURES], axis=-1), task.is_known
    return Case(distances[known], task.y[known], distances[~known], task.y[~known])


def digits() -> Case:
    """Digits by their pixels and nine times by noise."""
    X, y = (array[:600] for array in load_digits(return_X_y=True))
    rng = np.random.default_rng(0)
    noise = (rng.normal(size=(len(y), 3)) for _ in range(9))
    distances = np.stack([cdist(read, read) for read in (X, *noise)], axis=-1)
    known = rng.random(len(y)) < 0.5
    return Case(distances[np.ix_(known, known)], y[known], distances[np.ix_(~known, known)], y[~known])


def accuracies(case: Case, cut: str, seed: int) -> tuple[float, float]:
    """The accuracy of the first forest and of the one with its weights."""
    n = case.known.shape[2]
    forest = SimForestClassifier(
        ["precomputed"] * n, kind="distance", cut=cut, bootstrap=False, min_samples_leaf=1, random_state=seed
    )
    equally = forest.fit(case.known, case.y_known).score(case.new, case.y_new)
    forest.set_params(similarity_weights=forest.feature_importances_)
    return equally, forest.fit(case.known, case.y_known).score(case.new, case.y_new)


def cell(values: Floats) -> str:
    """Mean ± standard error."""
    return f"{values.mean():.3f} ± {values.std() / len(values) ** 0.5:.3f}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description="Weights of several similarities by a first forest.")
    parser.add_argument("--seeds", type=int, default=5, help="seeds of the forests (5)")
    options = parser.parse_args(arguments)
    print(f"# Weights of similarities\n\n{machine()}\n")
    cases = {"GunPoint": series("GunPoint"), "ArrowHead": series("ArrowHead"), "digits among noise": digits()}
    rows = []
    for name, case in cases.items():
        for cut in CUTS:
            found = np.array([accuracies(case, cut, seed) for seed in range(options.seeds)])
            rows.append([name, f'`cut="{cut}"`', cell(found[:, 0]), cell(found[:, 1])])
    print_table(["set", "cut", "drawn equally", "by the first forest's gain"], rows)


if __name__ == "__main__":
    main()
