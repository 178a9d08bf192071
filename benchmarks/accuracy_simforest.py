"""SimForest against RandomForest and an SVM: five-fold accuracy on the paper's small data sets.

::

    python benchmarks/accuracy_simforest.py                    ten repeats, 200 trees (about ten minutes)
    python benchmarks/accuracy_simforest.py --repeats 2        a first look
    python benchmarks/accuracy_simforest.py --trees 50 --threads 2

stdout is markdown, stderr is progress. Each repeat is a stratified partition of its own into five folds; features are
standardised on the training part. All methods see the same folds; the forests have the same number of trees, all
else is their default. "feature_subsets" takes the similarity over random features for each pair, the other rows over
all features. Accuracy is the mean over the repeats, ± the standard error of that mean over the repeats: it tells how
far the partition matters, not how far another sample of the population would.

breast_cancer_libsvm is taken as LIBSVM has it, with all ten columns; column 0 is the sample number, no measurement.
"""

from __future__ import annotations

import argparse
import itertools
import math
import sys
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from measurement import machine, print_table
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import StratifiedKFold
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from distforest import SimForestClassifier

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]

SETS = ("heart", "ionosphere", "australian", "breast_cancer_libsvm", "german_numer")
N_FOLDS = 5
KERNELS = ("linear", "rbf", "manhattan")
RULES = (("kept", 4, 3), ("fresh", 2, 3), ("fresh", 2, 1))
"""How pairs are drawn, how many, and the least weight of a leaf: the default, the paper's draw, its rule."""

PEERS = ("RandomForest", "SVC, rbf")


@dataclass(frozen=True)
class Fold:
    """Rows to train on and rows to predict, standardised on the former; classes are 0, 1, ..."""

    X: Floats
    y: Ints
    X_test: Floats
    y_test: Ints


@dataclass(frozen=True)
class Effort:
    """How many trees, in how many threads."""

    trees: int
    threads: int


@dataclass(frozen=True)
class Setting:
    """What of SimForest is varied."""

    similarity: str
    pairing: str
    n_pairs: int | None  # None: 2 sqrt(p)
    min_samples_leaf: int

    def __str__(self) -> str:
        n_pairs = "2 sqrt(p)" if self.n_pairs is None else self.n_pairs
        return f"SimForest, {self.similarity}, {n_pairs} {self.pairing} pairs, min_samples_leaf={self.min_samples_leaf}"

    def accuracy(self, fold: Fold, effort: Effort, seed: int) -> float:
        """Share of the fold's test rows that a forest predicts."""
        n_pairs = round(2 * math.sqrt(fold.X.shape[1])) if self.n_pairs is None else self.n_pairs
        forest = SimForestClassifier(
            self.similarity,
            n_estimators=effort.trees,
            n_pairs=n_pairs,
            pairing=self.pairing,
            min_samples_leaf=self.min_samples_leaf,
            random_state=seed,
            n_jobs=effort.threads,
        )
        return float(forest.fit(fold.X, fold.y).score(fold.X_test, fold.y_test))


SETTINGS = (
    *(Setting(kernel, *rule) for kernel, rule in itertools.product(KERNELS, RULES)),
    *(Setting("feature_subsets", "fresh", None, least) for least in (2, 3)),
)


def peers(fold: Fold, effort: Effort, seed: int) -> tuple[float, float]:
    """Accuracy of scikit-learn's random forest and of its support vector machine."""
    forest = RandomForestClassifier(effort.trees, random_state=seed, n_jobs=effort.threads).fit(fold.X, fold.y)
    svm = SVC(kernel="rbf", gamma="scale").fit(fold.X, fold.y)
    return forest.score(fold.X_test, fold.y_test), svm.score(fold.X_test, fold.y_test)


def data_set(name: str) -> tuple[Floats, Ints]:
    """Features and classes of one of `SETS`; ionosphere ships with the package, the others with the benchmarks."""
    own = Path(__file__).parent / "data" / f"{name}.npz"
    packaged = resources.files("distforest") / "data" / f"{name}.npz"
    with resources.as_file(packaged) as path, np.load(own if own.exists() else path) as file:
        return file["X"].astype(np.float64), file["y"].astype(np.int64)


def folds(X: Floats, y: Ints, repeat: int) -> list[Fold]:
    """The five folds of a repeat."""
    found = []
    for train, test in StratifiedKFold(N_FOLDS, shuffle=True, random_state=repeat).split(X, y):
        scaler = StandardScaler().fit(X[train])
        found.append(Fold(scaler.transform(X[train]), y[train], scaler.transform(X[test]), y[test]))
    return found


def accuracies(name: str, repeats: int, effort: Effort) -> dict[str, Floats]:
    """The accuracy of each method in each repeat, shape (repeats,), by its name: the mean of the five folds."""
    X, y = data_set(name)
    found: dict[str, list[float]] = {method: [] for method in (*PEERS, *map(str, SETTINGS))}
    for repeat in range(repeats):
        print(f"{name}, repeat {repeat + 1} of {repeats}", file=sys.stderr, flush=True)
        own: dict[str, list[float]] = {method: [] for method in found}
        for fold in folds(X, y, repeat):
            for method, value in zip(PEERS, peers(fold, effort, repeat), strict=True):
                own[method].append(value)
            for setting in SETTINGS:
                own[str(setting)].append(setting.accuracy(fold, effort, repeat))
        for method, values in own.items():
            found[method].append(float(np.mean(values)))
    return {method: np.array(values) for method, values in found.items()}


def cell(values: Floats, sign: str = "") -> str:
    """Mean ± standard error of the mean, in per cent; the mean alone for one repeat."""
    mean = f"{100 * values.mean():{sign}.2f}"
    if len(values) == 1:
        return mean
    return f"{mean} ± {100 * values.std(ddof=1) / math.sqrt(len(values)):.2f}"


def with_mean(of_sets: dict[str, dict[str, Floats]]) -> dict[str, dict[str, Floats]]:
    """The accuracies of each method on each set, and their mean over the sets."""
    methods = next(iter(of_sets.values()))
    return {**of_sets, "mean": {m: np.mean([own[m] for own in of_sets.values()], axis=0) for m in methods}}


def print_accuracies(of_sets: dict[str, dict[str, Floats]]) -> None:
    """Print the accuracies, and what they are above the random forest's, for each set and for the mean of the sets."""
    methods = list(next(iter(of_sets.values())))
    columns = with_mean(of_sets)
    ranked = sorted(methods, key=lambda method: -columns["mean"][method].mean())
    print("## Accuracy, %\n")
    print_table(
        ["method", *columns],
        [[method, *(cell(values[method]) for values in columns.values())] for method in ranked],
    )
    print("## Above the random forest on the same folds, %\n")
    print_above(columns, ranked, PEERS[0])


def print_above(columns: dict[str, dict[str, Floats]], methods: Sequence[str], reference: str) -> None:
    """Print what each method is above a reference on the same folds."""
    print_table(
        ["method", *columns],
        [
            [method, *(cell(values[method] - values[reference], "+") for values in columns.values())]
            for method in methods
            if method != reference
        ],
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the comparison and print its tables."""
    parser = argparse.ArgumentParser(description="SimForest against RandomForest and an SVM, five-fold accuracy.")
    parser.add_argument("--repeats", type=int, default=10, help="partitions into five folds (10)")
    parser.add_argument("--trees", type=int, default=200, help="trees of each forest (200)")
    parser.add_argument("--threads", type=int, default=1, help="threads that grow trees (1)")
    options = parser.parse_args(arguments)
    if min(options.repeats, options.trees, options.threads) < 1:
        parser.error("--repeats, --trees and --threads must be at least 1")
    effort = Effort(options.trees, options.threads)
    of_sets = {name: accuracies(name, options.repeats, effort) for name in SETS}
    print(f"# SimForest: accuracy of {options.trees} trees, {options.repeats} x five folds\n\n{machine()}\n")
    print("breast_cancer_libsvm has all ten columns of LIBSVM's file, the first of which is the sample number.\n")
    print_accuracies(of_sets)


if __name__ == "__main__":
    main()
