"""SimForest on damaged similarities, beside an SVM on the same ones: the paper's tables of noise and missing values.

::

    python benchmarks/simforest_damage.py                        both tables, ten repeats (about an hour)
    python benchmarks/simforest_damage.py --quick                one repeat, 30 trees
    python benchmarks/simforest_damage.py --only missing --sets heart splice_libsvm

stdout is markdown, stderr is progress. Each repeat damages the matrix of a set once and parts its rows into five
stratified folds; features are standardised on the training part, and all methods read the same damaged similarities.

Noise: S + 2.5 std(S) G, where G is symmetric, its entries standard normal; the paper speaks of a coefficient and leaves
the rest open. Missing: 15 % of the pairs, drawn at random; the similarity of an object to itself stays. An SVM cannot
read missing values: it is given the mean of the observed training pairs instead. "SVC, C tuned" takes the best of
0.003, 0.03, 0.3, 1, 10 and 100 by three-fold cross-validation inside the training part.

The paper does not say how it parts the sets, so its cells stand beside ours for orientation. Of its sets diabetes, a1a
and madelon are not here, and heart is not among those of its second table.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from accuracy_simforest import Effort, cell, data_set, folds, print_above, with_mean
from measurement import machine, print_table
from sklearn.metrics.pairwise import cosine_similarity, rbf_kernel
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.svm import SVC

from distforest import SimForestClassifier

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]

COEFFICIENT = 2.5
SHARE_MISSING = 0.15
KERNELS = ("rbf", "cosine")
C_GRID = (0.003, 0.03, 0.3, 1.0, 10.0, 100.0)
REFERENCE = "SVC, C tuned"


@dataclass(frozen=True)
class Table:
    """A table of the paper: how similarities are damaged, and its accuracies of (SimForest, SVM) by set and kernel."""

    title: str
    cells: dict[str, dict[str, tuple[float, float]]]
    rules: dict[str, dict[str, Any]]


PAPER_RULE = {"pairing": "fresh", "n_pairs": 2, "n_columns": 1, "min_samples_leaf": 1, "on_missing": "stop"}
NOISE = Table(
    f"Noise, coefficient {COEFFICIENT}",
    {
        "heart": {"rbf": (68.14, 67.22), "cosine": (72.96, 68.70)},
        "ionosphere": {"rbf": (71.69, 68.59), "cosine": (74.22, 65.91)},
        "australian": {"rbf": (61.88, 61.23), "cosine": (85.79, 79.49)},
        "german_numer": {"rbf": (72.00, 62.80), "cosine": (71.85, 65.40)},
    },
    {
        "SimForest, the paper's rule": PAPER_RULE,
        "SimForest, default": {},
        "SimForest, `n_columns=1`": {"n_columns": 1},
        "SimForest, `n_columns=16`": {"n_columns": 16},
    },
)
MISSING = Table(
    f"{SHARE_MISSING:.0%} missing".replace("%", " %"),
    {
        "german_numer": {"rbf": (72.25, 67.60), "cosine": (72.05, 64.25)},
        "australian": {"rbf": (90.14, 83.47), "cosine": (89.63, 86.23)},
        "ionosphere": {"rbf": (95.49, 77.46), "cosine": (92.11, 76.47)},
        "breast_cancer_libsvm": {"rbf": (97.00, 90.94), "cosine": (96.42, 92.07)},
        "splice_libsvm": {"rbf": (79.81, 74.94), "cosine": (79.02, 71.53)},
    },
    {
        "SimForest, the paper's rule": PAPER_RULE,
        "SimForest, default": {},
        'SimForest, `on_missing="stop"`': {"on_missing": "stop"},
        'SimForest, `on_missing="larger"`': {"on_missing": "larger"},
        'SimForest, `on_missing="surrogate"`': {"on_missing": "surrogate"},
    },
)
TABLES = {"noise": NOISE, "missing": MISSING}


@dataclass(frozen=True)
class Damage:
    """What one repeat does to the n x n similarities of a set: the noise added to them, or which pairs are lost."""

    noise: Floats | None = None
    lost: NDArray[np.bool_] | None = None

    @classmethod
    def drawn(cls, name: str, n: int, seed: int) -> Damage:
        """The damage of a table, drawn from a seed; symmetric."""
        rng = np.random.default_rng(seed)
        if name == "noise":
            upper = np.triu(rng.standard_normal((n, n)))
            return cls(noise=upper + np.triu(upper, 1).T)
        lost = np.triu(rng.random((n, n)) < SHARE_MISSING, 1)
        return cls(lost=lost | lost.T)

    def of(self, similarity: Floats) -> Floats:
        """The damaged similarities; NaN is missing."""
        if self.noise is not None:
            return similarity + COEFFICIENT * similarity.std() * self.noise
        return np.where(self.lost, np.nan, similarity)


@dataclass(frozen=True)
class Part:
    """Similarities of the training objects, and of the test objects to them, with their classes; NaN is missing."""

    S: Floats
    y: Ints
    S_test: Floats
    y_test: Ints
    seed: int = 0
    filled: tuple[Floats, Floats] = field(init=False)

    def __post_init__(self) -> None:
        mean = np.nanmean(self.S)
        filled = tuple(np.where(np.isnan(values), mean, values) for values in (self.S, self.S_test))
        object.__setattr__(self, "filled", filled)

    def forest(self, rule: dict[str, Any], effort: Effort) -> float:
        """Accuracy of a similarity forest."""
        forest = SimForestClassifier(
            "precomputed", n_estimators=effort.trees, n_jobs=effort.threads, random_state=self.seed, **rule
        )
        return float(forest.fit(self.S, self.y).score(self.S_test, self.y_test))

    def svm(self) -> float:
        """Accuracy of an SVM with C = 1."""
        return float(SVC(kernel="precomputed").fit(self.filled[0], self.y).score(self.filled[1], self.y_test))

    def tuned_svm(self) -> float:
        """Accuracy of an SVM whose C is chosen inside the training part."""
        inner = StratifiedKFold(3, shuffle=True, random_state=self.seed)
        search = GridSearchCV(SVC(kernel="precomputed"), {"C": C_GRID}, cv=inner)
        return float(search.fit(self.filled[0], self.y).score(self.filled[1], self.y_test))


def similarity(kernel: str, X: Floats) -> Floats:
    """Similarities of all rows; the width of the rbf is scikit-learn's ``gamma="scale"``."""
    return rbf_kernel(X, gamma=1.0 / (X.shape[1] * X.var())) if kernel == "rbf" else cosine_similarity(X)


def parts(name: str, kernel: str, table: str, repeat: int) -> list[Part]:
    """The five folds of a repeat, damaged."""
    X, y = data_set(name)
    damage = Damage.drawn(table, len(X), repeat)
    found = []
    for fold, rows in zip(folds(X, y, repeat), places(y, repeat), strict=True):
        damaged = np.empty((len(X), len(X)))
        order = np.concatenate(rows)
        damaged[np.ix_(order, order)] = similarity(kernel, np.concatenate([fold.X, fold.X_test]))
        damaged = damage.of(damaged)
        train, test = rows
        found.append(Part(damaged[np.ix_(train, train)], y[train], damaged[np.ix_(test, train)], y[test], repeat))
    return found


def places(y: Ints, repeat: int) -> list[tuple[Ints, Ints]]:
    """Which rows the folds of a repeat train on and test, as `folds` parts them."""
    return list(StratifiedKFold(5, shuffle=True, random_state=repeat).split(y, y))


def accuracies(name: str, kernel: str, table: str, repeats: int, effort: Effort) -> dict[str, Floats]:
    """The accuracy of each method in each repeat, shape (repeats,), by its name: the mean of the five folds."""
    rules = TABLES[table].rules
    found: dict[str, list[float]] = {method: [] for method in (*rules, "SVC, C = 1", REFERENCE)}
    for repeat in range(repeats):
        print(f"{table}, {kernel}, {name}, repeat {repeat + 1} of {repeats}", file=sys.stderr, flush=True)
        own = [
            [*(part.forest(rule, effort) for rule in rules.values()), part.svm(), part.tuned_svm()]
            for part in parts(name, kernel, table, repeat)
        ]
        for values, mean in zip(found.values(), np.mean(own, axis=0), strict=True):
            values.append(float(mean))
    return {method: np.array(values) for method, values in found.items()}


def print_accuracies(table: Table, kernel: str, of_sets: dict[str, dict[str, Floats]]) -> None:
    """Print a damaged kernel's accuracies beside the paper's, and what they are above the tuned SVM's."""
    methods = list(next(iter(of_sets.values())))
    columns = with_mean(of_sets)
    rows = [[method, *(cell(values[method]) for values in columns.values())] for method in methods]
    for place, method in enumerate(("the paper: SimForest", "the paper: SVM")):
        values = [table.cells[name][kernel][place] if name in table.cells else np.nan for name in of_sets]
        rows.append([method, *("-" if np.isnan(v) else f"{v:.2f}" for v in (*values, np.mean(values)))])
    print(f"### {table.title}, {kernel}: accuracy, %\n")
    print_table(["method", *columns], rows)
    print(f"Above {REFERENCE!r} on the same matrices:\n")
    print_above(columns, methods, REFERENCE)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the comparison and print its tables."""
    parser = argparse.ArgumentParser(description="SimForest and SVMs on noisy and on incomplete similarities.")
    parser.add_argument("--quick", action="store_true", help="one repeat, 30 trees")
    parser.add_argument("--repeats", type=int, default=10, help="damages and partitions into five folds (10)")
    parser.add_argument("--trees", type=int, default=200, help="trees of each forest (200)")
    parser.add_argument("--threads", type=int, default=1, help="threads that grow trees (1)")
    parser.add_argument("--only", choices=[*TABLES], nargs="+", default=[*TABLES], help="tables (both)")
    parser.add_argument("--sets", nargs="+", help="sets (those of the paper's table that are here)")
    options = parser.parse_args(arguments)
    if min(options.repeats, options.trees, options.threads) < 1:
        parser.error("--repeats, --trees and --threads must be at least 1")
    repeats, trees = (1, 30) if options.quick else (options.repeats, options.trees)
    print(f"# SimForest on damaged similarities: {trees} trees, {repeats} x five folds\n\n{machine()}\n")
    for name in options.only:
        sets = options.sets or [*TABLES[name].cells]
        for kernel in KERNELS:
            effort = Effort(trees, options.threads)
            found = {own: accuracies(own, kernel, name, repeats, effort) for own in sets}
            print_accuracies(TABLES[name], kernel, found)


if __name__ == "__main__":
    main()
