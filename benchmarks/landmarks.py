"""A budget of pairs spent on trees one after another, or on landmarks that all trees share.

::

    python benchmarks/landmarks.py                ten partitions into three folds (about fifteen minutes)
    python benchmarks/landmarks.py --repeats 6    six (about eight minutes)

stdout is markdown, stderr is progress; nothing is asserted. Objects are strings under Levenshtein's distance, series
under dynamic time warping in a window of 5 %, and standardised rows under Euclid's distance. Each forest has 100 trees
and the other defaults, and may evaluate so many pairs as the share of all pairs of its training objects says:
"budget" spends them as its trees ask, "landmarks" on as many objects as the same pairs pay for. ± is the standard error
of the mean difference over the partitions, each of which has a seed of its own.
"""

from __future__ import annotations

import argparse
import math
import sys
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from measurement import machine, print_table
from scipy.spatial.distance import cdist
from sklearn.datasets import load_breast_cancer, load_diabetes, load_wine, make_friedman1
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.preprocessing import StandardScaler
from strings_series import SETS, Counted, Objects

from distforest import Lazy, SimForestClassifier, SimForestRegressor
from distforest.growth.draws.landmarks import most_pairs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Parts = tuple[NDArray[np.int64], NDArray[np.int64]]

SHARES = (0.05, 0.1, 0.2, 0.4)
N_FOLDS = 3
FEWEST_LANDMARKS = 3
HEAD = ("set", "share of all pairs", "trees by budget", "budget", "landmarks", "landmarks - budget")


@dataclass(frozen=True)
class Known:
    """Objects whose distances are all known, and their classes or targets."""

    distance: NDArray[np.float64]
    y: NDArray[np.generic]
    method: type[SimForestClassifier | SimForestRegressor]

    @classmethod
    def of(cls, name: str) -> Known:
        """A set by its name."""
        if name in SETS:
            objects = Objects.of(name, 500)
            return cls(objects.distance, objects.y, SimForestClassifier)
        X, y = ROWS[name]()
        X = StandardScaler().fit_transform(X)
        return cls(cdist(X, X), y, SimForestRegressor if y.dtype == float else SimForestClassifier)

    @property
    def n_classes(self) -> int:
        """The number of classes; 0 for targets."""
        return 0 if issubclass(self.method, SimForestRegressor) else len(np.unique(self.y))

    def folds(self, repeat: int) -> list[Parts]:
        """Training and test rows of the folds of a repeat."""
        kind = KFold if issubclass(self.method, SimForestRegressor) else StratifiedKFold
        return list(kind(N_FOLDS, shuffle=True, random_state=repeat).split(self.y, self.y))


ROWS = {
    "wine": lambda: load_wine(return_X_y=True),
    "breast_cancer": lambda: load_breast_cancer(return_X_y=True),
    "diabetes": lambda: load_diabetes(return_X_y=True),
    "friedman1": lambda: make_friedman1(500, noise=1.0, random_state=0),
}


def scored(known: Known, parts: Parts, budget: int, **params: int) -> list[float]:
    """Accuracy or R2, and the number of trees."""
    train, test = parts
    lazy = Lazy(Counted(known.distance), np.arange(len(known.y)), kind="distance", budget=budget)
    forest = known.method(lazy, **params).fit(train, known.y[train])
    if forest.n_evaluations_ > budget:
        raise SystemExit(f"{forest.n_evaluations_} pairs were paid for, {budget} allowed")
    return [forest.score(test, known.y[test]), forest.forest_.n_trees]


def both(known: Known, parts: Parts, share: float, seed: int) -> list[float]:
    """Trees and score by the budget alone, and the score by landmarks within it, NaN if it pays for too few."""
    n = len(parts[0])
    budget = int(share * math.comb(n, 2))
    n_landmarks = max(m for m in range(1, n) if most_pairs(m, n) <= budget)
    alone, n_trees = scored(known, parts, budget, random_state=seed)
    if n_landmarks < max(FEWEST_LANDMARKS, known.n_classes):
        return [n_trees, alone, math.nan]
    return [n_trees, alone, scored(known, parts, budget, random_state=seed, n_landmarks=n_landmarks)[0]]


def compared(known: Known, share: float, repeats: int) -> list[str]:
    """The cells of a row of the table, after the set and the share."""
    means = np.array([np.mean([both(known, p, share, k) for p in known.folds(k)], axis=0) for k in range(repeats)])
    trees, alone, landmarks = means.mean(axis=0)
    if math.isnan(landmarks):
        return [f"{trees:.0f}", f"{alone:.3f}", "too few", ""]
    gain = means[:, 2] - means[:, 1]
    error = gain.std(ddof=1) / math.sqrt(repeats) if repeats > 1 else math.nan
    return [f"{trees:.0f}", f"{alone:.3f}", f"{landmarks:.3f}", f"{gain.mean():+.3f} ± {error:.3f}"]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the comparison and print its table."""
    parser = argparse.ArgumentParser(description="A budget spent tree by tree, and on landmarks.")
    parser.add_argument("--repeats", type=int, default=10, help="partitions into three folds (10)")
    parser.add_argument("--sets", choices=(*SETS, *ROWS), nargs="+", default=(*SETS, *ROWS), help="sets (all)")
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore", UserWarning)  # few trees are told, which is what is measured
    rows = []
    for name in options.sets:
        known = Known.of(name)
        for share in SHARES:
            print(f"{name}, {share}", file=sys.stderr, flush=True)
            rows.append([name, f"{share:.0%}", *compared(known, share, options.repeats)])
    print(f"# A budget spent tree by tree, and on landmarks: {options.repeats} x three folds\n\n{machine()}\n")
    print_table(HEAD, rows)
    gains = [float(row[-1].split()[0]) for row in rows if row[-1]]
    print(f"\nLandmarks are ahead in {sum(gain > 0 for gain in gains)} of {len(gains)} means.")


if __name__ == "__main__":
    main()
