"""How fast: forests against reading their data once, plain loops and scikit-learn, in ratios measured in one run.

::

    python benchmarks/speed.py                       everything (about twenty minutes on two cores)
    python benchmarks/speed.py --quick               fewer pairs, trees and sizes (about four minutes)
    python benchmarks/speed.py --only dense labels   some of: dense, labels, routing, simforest, memory, warm_start

stdout is markdown. Ours and the peer are warmed up (compiled), then timed in pairs, one right after the other; a
ratio is taken within a pair, and its median over the pairs is shown with the least and the most. Ratios hold on other
machines better than seconds do; nothing is asserted.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from importlib import resources
from typing import TYPE_CHECKING, Any

import measurement
import memory
import numpy as np
import warm_start
from measurement import PAIR_CELLS, Paired, interleaved, median_seconds, print_table, seconds_cell, timed
from rfd_speed import Pairs
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier
from walked_tree import walked_tree

from distforest.forest import scoring
from distforest.growth.methods import METHODS, problem
from distforest.growth.pairs.pair_methods import pair_columns
from distforest.growth.parameters import complete
from distforest.growth.problem import Data, Problem
from distforest.jit import kernel
from distforest.jobs.train import fit_here
from distforest.sources.point_pairs import check_pairs, codes_of_links
from distforest.sources.row_kinds import Features, Kernel
from distforest.sources.truth import Truth, TruthKind

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from distforest.forest.forest import Forest

    Float32s = NDArray[np.float32]

SEED = 3
N_COLUMNS = 20
GRID = 2.0**24
MAIN_ROWS = 10_000
HELD_OUT = 20_000


@dataclass(frozen=True)
class Effort:
    """How much is measured."""

    pairs: int
    trees: int
    dense_sizes: tuple[int, ...]
    dense_pairs: int
    starts: int


FULL = Effort(5, 4, (1000, 2000, 5000, 10_000, 20_000), 9, 5)
QUICK = Effort(2, 2, (1000, 2000, 5000, 10_000), 3, 3)


def bound(method: str, data: Data, **params: Any) -> Problem:
    """A method with its defaults but for ``params``, bound to data."""
    return problem(METHODS[method], data, complete(METHODS[method].parameters, params), SEED)


# --- dense ------------------------------------------------------------------------------------------------


def dense_data(n_rows: int) -> Data:
    """Uniform features; the distance is the squared difference of the sum of two of them, made in blocks of rows.

    Distances are whole multiples of 2^-24, which the fixed point of the product and float64 sums both hold exactly.
    """
    X = np.random.default_rng(0).random((n_rows, N_COLUMNS), dtype=np.float32)
    y = X[:, 0] + X[:, 1]
    Z = np.empty((n_rows, n_rows), np.float32)
    for first in range(0, n_rows, 1000):
        block = (y[first : first + 1000, None].astype(np.float64) - y) ** 2
        Z[first : first + 1000] = np.rint(block.astype(np.float32) * GRID) / GRID
    return Data(Features(N_COLUMNS), X, Truth(TruthKind.DISTANCES, Z, None, float(Z.max())))


@kernel
def compiled_sum(words: NDArray[np.uint64]) -> np.uint64:
    """The sum of 64-bit words, two float32 in each: additions of integers run on vectors."""
    total = np.uint64(0)
    for row in range(words.shape[0]):
        for word in words[row]:
            total += word
    return total


def reads(Z: Float32s) -> dict[str, Callable[[], object]]:
    """Ways to read all of a matrix once."""
    words = Z.view(np.uint64)
    return {
        "np.max": lambda: np.max(Z),
        "np.sum": lambda: np.sum(Z),
        "a Numba loop that sums 64-bit words": lambda: compiled_sum(words),
    }


def fastest_read(Z: Float32s) -> Callable[[], object]:
    """The fastest of `reads`, by the median of five, after a warm-up."""
    ways = reads(Z)
    for way in ways.values():
        way()
    taken = {name: median_seconds(way, 5) for name, way in ways.items()}
    best = min(taken, key=lambda name: taken[name])
    others = ", ".join(f"{name} {seconds_cell(seconds)}" for name, seconds in taken.items())
    rate = Z.nbytes / taken[best] / 1e9
    print(f"Reading {len(Z):,} x {len(Z):,} float32 once: {others}; the unit is {best}, {rate:.1f} GB/s.\n", flush=True)
    return ways[best]


def against_reading(
    data: Data, read: Callable[[], object], effort: Effort, bootstrap: bool
) -> tuple[Paired, list[str]]:
    """One tree, with all that its shard holds, against one read of the matrix."""
    ours = bound("smerf", data, n_estimators=20, max_features=5, bootstrap=bootstrap)
    found = interleaved(lambda: ours.grow(np.arange(1)), read, effort.dense_pairs)
    nodes = f"{int(found.answers[0]['tree_size'][0]):,}"
    return found, [f"{data.n_rows:,}", "yes" if bootstrap else "no", nodes, *found.cells()]


def dense(effort: Effort) -> None:
    """One dense tree against one read of its matrix, its growth with n, and against walking permuted rows."""
    print("## Dense distances: one SMERF tree, p = 20, 5 candidates, fully grown\n")
    bound("smerf", dense_data(500), n_estimators=1, max_features=5).grow(np.arange(1))  # compile
    medians, rows = [], []
    for n_rows in effort.dense_sizes:
        data = dense_data(n_rows)
        read = fastest_read(data.truth.values)
        found, row = against_reading(data, read, effort, bootstrap=True)
        medians.append(float(np.median(found.ours)))
        rows.append(row)
        if n_rows == MAIN_ROWS:
            rows.append(against_reading(data, read, effort, bootstrap=False)[1])
        del data, read
    print_table(["n", "bootstrap", "nodes", "tree", "one read", "tree / read (least to most)"], rows)
    exponent = np.polyfit(np.log(effort.dense_sizes), np.log(medians), 1)[0]
    steps = np.diff(np.log(medians)) / np.diff(np.log(effort.dense_sizes))
    between = ", ".join(f"{step:.2f}" for step in steps)
    print(f"With bootstrap a tree takes time in proportion to n^{exponent:.2f} (from size to size: {between}).\n")
    against_walking(effort)


def against_walking(effort: Effort) -> None:
    """The same tree by plain compiled loops that walk permuted rows."""
    data = dense_data(4000)
    rows = []
    for bootstrap in (True, False):
        ours = bound("smerf", data, n_estimators=20, max_features=5, bootstrap=bootstrap)
        weights = ours.sampling.weights(SEED, np.arange(1))

        def peer(weights: NDArray[np.int32] = weights) -> object:
            return walked_tree(data.truth.values, data.matrix, weights[0], SEED, 5)

        peer()
        found = interleaved(lambda ours=ours: ours.grow(np.arange(1)), peer, min(effort.dense_pairs, 5))  # type: ignore[misc]
        rows.append(["yes" if bootstrap else "no", *found.cells(), same_cuts(*found.answers)])
    print("Against plain Numba loops over permuted rows (`walked_tree.py`), n = 4,000:\n")
    print_table(["bootstrap", *PAIR_CELLS, "same cuts"], rows)


def same_cuts(ours: dict[str, np.ndarray], peer: tuple[np.ndarray, ...]) -> str:
    """Whether both trees have the same nodes, columns and thresholds, in words."""
    left, right, column, threshold = peer
    if len(left) != len(ours["left"]):
        return f"no: {len(ours['left'])} and {len(left)} nodes"
    own_column = np.full(len(left), -1)
    own_column[ours["left"] >= 0] = ours["columns"]
    unlike = (ours["left"] != left) | (ours["right"] != right)
    unlike |= (own_column != column) | (ours["threshold"] != threshold)
    if unlike.any():
        return f"no: {unlike.sum():,} of {len(left):,} nodes differ"
    return f"yes, all {len(left):,} nodes"


# --- labels and similarities ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Task:
    """A classification task: rows to train on, and rows held out."""

    X: Float32s
    y: NDArray[np.int64]
    X_test: Float32s
    y_test: NDArray[np.int64]

    @classmethod
    def made(cls, n_rows: int, n_columns: int, n_informative: int, n_classes: int) -> Task:
        """From `sklearn.datasets.make_classification`, three clusters a class, 5 % of the labels drawn at random."""
        X, y = make_classification(
            n_rows + HELD_OUT,
            n_columns,
            n_informative=n_informative,
            n_classes=n_classes,
            n_clusters_per_class=3,
            flip_y=0.05,
            random_state=0,
        )
        X = X.astype(np.float32)
        return cls(X[:n_rows], y[:n_rows], X[n_rows:], y[n_rows:])

    def data(self, kind: str = "features") -> Data:
        """For SMERF on labels (``"features"``) or for a SimForest on a built-in similarity."""
        n, p = self.X.shape
        rows = Features(p) if kind == Features.kind else Kernel(kind, n, p, 1.0)
        return Data(rows, self.X, Truth(TruthKind.LABELS, self.y.astype(np.int32), list(range(int(self.y.max()) + 1))))

    def accuracy(self, forest: Forest) -> float:
        """Share of the held-out rows that ``forest`` predicts."""
        predicted = scoring.predict(forest, scoring.apply(forest, forest.source(self.X_test))).argmax(axis=1)
        return float(np.mean(predicted == self.y_test))


def against_forest(task: Task, effort: Effort, ours: Callable[[], Problem], threads: int) -> tuple[Paired, list[str]]:
    """Ours and scikit-learn's forest of as many trees: times, accuracies and nodes a tree."""

    def peer() -> RandomForestClassifier:
        return RandomForestClassifier(effort.trees, n_jobs=threads, random_state=0).fit(task.X, task.y)

    found = interleaved(lambda: fit_here(ours(), threads), peer, effort.pairs)
    forest, other = found.answers
    nodes = np.mean([tree.tree_.node_count for tree in other.estimators_])
    accuracies = f"{task.accuracy(forest):.3f} / {other.score(task.X_test, task.y_test):.3f}"
    return found, [*found.cells(), accuracies, f"{forest.table.tree_size.mean():,.0f} / {nodes:,.0f}"]


FOREST_CELLS = ("n_jobs", "ours", "RandomForest", "ours / RandomForest (least to most)", "accuracy", "nodes a tree")


def labels(effort: Effort) -> None:
    """SMERF on labels against scikit-learn's RandomForestClassifier."""
    task = Task.made(100_000, N_COLUMNS, n_informative=8, n_classes=3)
    head = f"n = 100,000, p = 20, 3 classes, {effort.trees} trees, sqrt(p) candidates"
    print(f"## Labels: SMERF, {head}, fully grown, fit and out-of-bag routing\n")
    rows = []
    for name, max_bins in (("every value", None), ("max_bins=256", 256)):

        def ours(max_bins: int | None = max_bins) -> Problem:
            return bound("smerf", task.data(), n_estimators=effort.trees, max_bins=max_bins)

        ours().grow(np.arange(1))  # compile
        for threads in (1, 2):
            _, cells = against_forest(task, effort, ours, threads)
            rows.append([name, str(threads), *cells])
    print_table(["cuts", *FOREST_CELLS], rows)


def routing(effort: Effort) -> None:
    """Rows down the trees of a forest on labels, and what it says of them, against RandomForestClassifier."""
    task, n_trees = Task.made(100_000, N_COLUMNS, n_informative=8, n_classes=3), 20
    forest = fit_here(bound("smerf", task.data(), n_estimators=n_trees), 2)
    peer = RandomForestClassifier(n_trees, n_jobs=2, random_state=0).fit(task.X, task.y).set_params(n_jobs=1)
    print(f"## Routing: {len(task.X):,} rows, p = {N_COLUMNS}, {n_trees} trees grown on them, one thread\n")

    def ends() -> NDArray[np.int32]:
        return scoring.apply(forest, forest.source(task.X))

    asked = {
        "leaves": (ends, lambda: peer.apply(task.X)),
        "shares of classes": (lambda: scoring.predict(forest, ends()), lambda: peer.predict_proba(task.X)),
    }
    rows = []
    for name, (ours, theirs) in asked.items():
        ours()  # compile
        rows.append([name, *interleaved(ours, theirs, effort.pairs).cells()])
    print_table(["", *PAIR_CELLS], rows)


def simforest(effort: Effort) -> None:
    """SimForest on a similarity that is computed from features, against RandomForestClassifier on the features."""
    task = Task.made(100_000, 50, n_informative=10, n_classes=2)
    head = f"n = 100,000, p = 50, 2 classes, {effort.trees} trees"
    print(f"## SimForest: linear similarity, {head}, min_samples_leaf = 3 (its default; the peer's is 1)\n")
    rows = []
    for n_pairs in (2, 4):

        def ours(n_pairs: int = n_pairs) -> Problem:
            return bound("simforest", task.data("linear"), n_estimators=effort.trees, n_pairs=n_pairs)

        ours().grow(np.arange(1))  # compile
        for threads in (1, 2):
            _, cells = against_forest(task, effort, ours, threads)
            rows.append([str(n_pairs), str(threads), *cells])
    print_table(["n_pairs", *FOREST_CELLS], rows)


def lazega() -> Data:
    """The co-work network of 71 lawyers: attributes, and distance 0 between the linked."""
    with resources.as_file(resources.files("distforest") / "data" / "lazega.npz") as path, np.load(path) as file:
        X, A = file["X"].astype(np.float32), file["A"].astype(np.float32)
    return Data(Features(X.shape[1]), X, Truth(TruthKind.DISTANCES, 1.0 - A, None, 1.0))


def pairs_data(n_pairs: int) -> Data:
    """Given pairs of points, as RFD's own benchmark draws them."""
    drawn = Pairs.drawn(n_pairs, 0)
    rows = pair_columns(complete(METHODS["rfd"].parameters, {}), drawn.points.shape[1])
    pairs = check_pairs(drawn.pairs, len(drawn.points))
    return Data(rows, drawn.points, Truth(TruthKind.LINKS, codes_of_links(drawn.similar)), pairs=pairs)


# --- memory and warm starts -------------------------------------------------------------------------------


def peak_memory(effort: Effort) -> None:
    """The peak of a fresh process that runs a job, against the plan's projection."""
    n_rows = 10_000
    print("## Memory: the peak of a fresh process that runs a job, against what the plan projects\n")
    wide = Task.made(100_000, 50, n_informative=10, n_classes=2).data("linear")
    flat = Task.made(100_000, N_COLUMNS, n_informative=8, n_classes=3).data()
    drawn = np.random.default_rng(0)
    X, targets = drawn.normal(size=(1_000_000, N_COLUMNS)).astype(np.float32), drawn.normal(size=(1_000_000, 1))
    noise = Data(Features(N_COLUMNS), X, Truth(TruthKind.TARGETS, targets))
    codes = drawn.integers(0, 1_000, 100_000).astype(np.int32)
    named = Data(Features(N_COLUMNS), X[:100_000], Truth(TruthKind.LABELS, codes, list(range(1_000))))
    memory.section(
        {
            "Lazega, dense, n = 71": ("smerf", lazega(), {"n_estimators": 100}),
            f"dense, n = {n_rows:,}, 5 candidates": ("smerf", dense_data(n_rows), {"max_features": 5}),
            "labels, n = 100,000": ("smerf", flat, {}),
            "labels, n = 100,000, max_bins = 256": ("smerf", flat, {"max_bins": 256}),
            "1,000 classes drawn at random, n = 100,000": ("smerf", named, {"n_estimators": 2}),
            "targets drawn at random, n = 1,000,000": ("smerf", noise, {"n_estimators": 2}),
            "the same, min_samples_leaf = 20": ("smerf", noise, {"n_estimators": 2, "min_samples_leaf": 20}),
            "SimForest, linear, n = 100,000": ("simforest", wide, {}),
            "RFD, 1,000,000 pairs": ("rfd", pairs_data(1_000_000), {"voting": "mean", "resample": "pairs"}),
        },
        threads=(1, 2) if effort is FULL else (1,),
    )


def first_trees(effort: Effort) -> None:
    """Fresh processes with a filled compile cache, up to the first tree."""
    warm_start.section(effort.starts)


SECTIONS: dict[str, Callable[[Effort], None]] = {
    "dense": dense,
    "labels": labels,
    "routing": routing,
    "simforest": simforest,
    "memory": peak_memory,
    "warm_start": first_trees,
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure what was asked for and print the tables."""
    parser = argparse.ArgumentParser(description="Speed and memory, as ratios measured in one run.")
    parser.add_argument("--only", nargs="+", choices=SECTIONS, metavar="NAME", help=f"some of {', '.join(SECTIONS)}")
    parser.add_argument("--quick", action="store_true", help="fewer pairs, trees and sizes")
    options = parser.parse_args(arguments)
    print(f"# Speed{' (quick)' if options.quick else ''}\n\n{measurement.machine()}\n", flush=True)
    for name in options.only or SECTIONS:
        taken, _ = timed(lambda name=name: SECTIONS[name](QUICK if options.quick else FULL))  # type: ignore[misc]
        print(f"({name}: {taken:.0f} s)\n", flush=True)


if __name__ == "__main__":
    main()
