"""RFD: the paper's tables 2 and 3 on the data that is at hand, and its speed against a forest on materialised features.

::

    python -m venv metric; metric/bin/pip install metric-learn==0.7.0 "scikit-learn<1.8"
    python benchmarks/rfd.py table3                                      error at k = 11, three folds, ten repeats
    python benchmarks/rfd.py table3 --repeats 2 --sets balance iris      a first look
    python benchmarks/rfd.py table_k --peer-python metric/bin/python --peer-cache learned.jsonl
    python benchmarks/rfd.py speed --quick                               growth: time, memory, accuracy
    python benchmarks/rfd.py scoring --quick                             pairs per second

stdout is markdown, stderr is progress. RFD has one and the same setting on all sets, its defaults but for what the
command line says. Folds are stratified partitions, another one in each repeat; features are scaled to [0, 1] on the
training part, which RFD does not need. Neighbours are training rows. ± is the standard error of the mean over the
repeats: it tells how far the partition matters, not how far another sample of the population would.

table3: the first three sets are the paper's, the others show whether the setting likes only those; a paper's figure is
a mean of ten runs too. table_k: accuracy at k = 5, 10, 15, ... up to the size of the smallest class, and at each k the
mean over the sets of a method's rank, in brackets the place that this makes. All methods see the same folds.
breast_cancer_libsvm is taken as LIBSVM has it, with all ten columns; column 0 is the sample number, no measurement. The
paper has 699 rows, of which 16 lack a value. Small sets have fewer pairs than RFD asks for by default: it has them all.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import warnings
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import rfd_speed
from linear_metrics import LEARNED, Fold, LearnedMetrics, euclidean, mahalanobis
from measurement import machine, print_table
from measures import knn_accuracy, mean_ranks
from peers import Environments
from sklearn.datasets import load_iris, load_wine
from sklearn.model_selection import StratifiedKFold
from sklearn.neighbors import KNeighborsClassifier

from distforest import RFD

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]
    Distance = Callable[[Fold], Floats | None]

PAPER_ERROR = {"balance": 0.120, "breast_cancer_libsvm": 0.030, "german_numer": 0.277}
OTHERS = ("iris", "wine", "sonar", "heart", "ionosphere", "australian")
TABLE_K = ("iris", "wine", "sonar", "balance", "breast_cancer_libsvm", "german_numer")
K_OF_TABLE_3 = 11
STEP = 5
SHOWN = (5, 10, 15, 20, 25, 30, 35, 45)
"""The columns of the paper's table 2; the last one is the largest k of each set."""


@dataclass(frozen=True)
class Protocol:
    """How often a set is cut into how many folds, and the forest of all sets."""

    repeats: int
    n_folds: int
    forest: dict[str, Any]

    def folds(self, name: str) -> Iterator[Fold]:
        """All folds of all repeats of a set."""
        X, y = data_set(name)
        for repeat in range(self.repeats):
            print(f"{name}, repeat {repeat + 1} of {self.repeats}", file=sys.stderr, flush=True)
            cut = StratifiedKFold(self.n_folds, shuffle=True, random_state=repeat)
            for number, (train, test) in enumerate(cut.split(X, y)):
                low, high = X[train].min(axis=0), X[train].max(axis=0)
                scaled = (X - low) / np.where(high > low, high - low, 1.0)
                yield Fold(name, repeat, number, self.n_folds, scaled[train], y[train], scaled[test], y[test])

    def rfd(self, fold: Fold, position: bool = True) -> Floats:
        """Distances from test rows to rows by RFD, shape (n_test, n)."""
        forest = RFD(position=position, random_state=fold.repeat, **self.forest)
        return np.asarray(forest.fit(fold.X, fold.y).distance(fold.X_test, fold.X))


def data_set(name: str) -> tuple[Floats, Ints]:
    """Features and classes 0, 1, ... of a set: scikit-learn's, shipped with the package or with the benchmarks."""
    if name in ("iris", "wine"):
        X, y = (load_iris if name == "iris" else load_wine)(return_X_y=True)
        return X, y.astype(np.int64)
    own = Path(__file__).parent / "data" / f"{name}.npz"
    packaged = resources.files("distforest") / "data" / f"{name}.npz"
    with resources.as_file(packaged) as path, np.load(own if own.exists() else path) as file:
        return file["X"].astype(np.float64), file["y"].astype(np.int64)


def of_repeats(values: Sequence[Any], protocol: Protocol) -> Floats:
    """The mean over the folds of each repeat, shape (repeats, ...)."""
    return np.array(values).reshape(protocol.repeats, protocol.n_folds, *np.shape(values[0])).mean(axis=1)


def cell(values: Floats) -> str:
    """Mean ± standard error of the mean over the repeats; the mean alone of one."""
    error = f" ± {values.std(ddof=1) / math.sqrt(len(values)):.4f}" if len(values) > 1 else ""
    return f"{values.mean():.4f}{error}"


# --- table 3 ----------------------------------------------------------------------------------------------


def print_table3(protocol: Protocol, names: Sequence[str]) -> None:
    """Print the error of the eleven nearest neighbours by RFD, beside the paper's and that of Euclidean distance."""
    methods: dict[str, Distance] = {"RFD": protocol.rfd, "Euclidean": euclidean}
    rows = []
    for name in names:
        errors: dict[str, list[float]] = {method: [] for method in methods}
        for fold in protocol.folds(name):
            for method, distance in methods.items():
                errors[method].append(error_of_neighbours(distance(fold), fold))
        own = {method: of_repeats(values, protocol) for method, values in errors.items()}
        y = data_set(name)[1]
        paper = f"{PAPER_ERROR[name]:.3f}" if name in PAPER_ERROR else ""
        rows.append([name, cell(own["RFD"]), paper, cell(own["Euclidean"]), f"{1 - np.bincount(y).max() / len(y):.3f}"])
        print(rows[-1], file=sys.stderr, flush=True)
    print_table(["set", "RFD", "RFD in the paper", "Euclidean", "largest class"], rows)


def error_of_neighbours(distances: Floats | None, fold: Fold) -> float:
    """Share of test rows that scikit-learn's nearest neighbours get wrong."""
    n = len(fold.y)
    voters = KNeighborsClassifier(K_OF_TABLE_3, metric="precomputed").fit(np.zeros((n, n)), fold.y)
    return 1.0 - float(voters.score(distances, fold.y_test))


# --- the table over k -------------------------------------------------------------------------------------


def sizes_of(name: str) -> list[int]:
    """k = 5, 10, 15, ... up to the size of the smallest class."""
    return list(range(STEP, int(np.bincount(data_set(name)[1]).min()) + 1, STEP))


def accuracies(name: str, protocol: Protocol, learned: LearnedMetrics) -> dict[str, Floats]:
    """Accuracy of each method in each repeat at each k, shape (repeats, n_sizes), by the method's name."""
    methods: dict[str, Distance] = {
        "RFD": protocol.rfd,
        "RFD without position": lambda fold: protocol.rfd(fold, position=False),
        "Euclidean": euclidean,
        "Mahalanobis": mahalanobis,
        **{metric: lambda fold, metric=metric: learned.distance(metric, fold) for metric in LEARNED},  # type: ignore[misc]
    }
    found: dict[str, list[Floats]] = {}
    for fold in protocol.folds(name):
        for method, distance in methods.items():
            distances = distance(fold)
            if distances is not None:
                own = knn_accuracy(distances, fold.y, fold.y_test, sizes_of(name))
                found.setdefault(method, []).append(own)
    complete = protocol.repeats * protocol.n_folds
    return {method: of_repeats(values, protocol) for method, values in found.items() if len(values) == complete}


def print_table_k(protocol: Protocol, names: Sequence[str], learned: LearnedMetrics) -> None:
    """Print a table of accuracies for each set, and the mean ranks at each k."""
    of_sets = {}
    for name in names:
        of_sets[name] = accuracies(name, protocol, learned)
        sizes = sizes_of(name)
        places = [place for place, k in enumerate(sizes) if k in (*SHOWN, sizes[-1])]
        print(f"## {name}: accuracy\n")
        rows = [[method, *map(cell, values[:, places].T)] for method, values in of_sets[name].items()]
        print_table(["method", *(f"k = {sizes[place]}" for place in places)], rows)
    methods = [method for method in of_sets[names[0]] if all(method in own for own in of_sets.values())]
    print(f"## Mean rank over {len(names)} sets\n")
    print_mean_ranks(methods, of_sets)


def print_mean_ranks(methods: Sequence[str], of_sets: dict[str, dict[str, Floats]]) -> None:
    """Print the mean over the sets of each method's rank: at each k that all sets have, and at the largest of each."""
    smallest = min(len(own[methods[0]][0]) for own in of_sets.values())
    columns = []
    for place in [*range(smallest), -1]:
        table = [[own[method][:, place].mean() for own in of_sets.values()] for method in methods]
        columns.append(mean_ranks(table))
    places = [mean_ranks(-ranks[:, None]) for ranks in columns]
    rows = [
        [method, *(f"{ranks[i]:.2f} ({place[i]:g})" for ranks, place in zip(columns, places, strict=True))]
        for i, method in enumerate(methods)
    ]
    print_table(["method", *(f"k = {STEP * (place + 1)}" for place in range(smallest)), "largest k"], rows)


# --- the door ---------------------------------------------------------------------------------------------


def parser_of_commands() -> argparse.ArgumentParser:
    """The commands and their options."""
    parser = argparse.ArgumentParser(description="RFD: accuracy of its neighbours, and speed.")
    commands = parser.add_subparsers(dest="command", required=True)
    for command, repeats, names in (("table3", 10, (*PAPER_ERROR, *OTHERS)), ("table_k", 2, TABLE_K)):
        own = commands.add_parser(command)
        own.add_argument("--repeats", type=int, default=repeats, help=f"partitions into folds ({repeats})")
        own.add_argument("--sets", nargs="+", default=names, choices=(*PAPER_ERROR, *OTHERS), metavar="SET")
        own.add_argument("--trees", type=int, help="trees of each forest (RFD's default)")
        own.add_argument("--params", type=json.loads, default={}, metavar="JSON", help="other parameters of RFD")
        own.add_argument("--threads", type=int, default=1, help="threads that grow trees (1)")
        if command == "table_k":
            own.add_argument("--peer-python", metavar="PYTHON", help="Python of an environment with metric-learn")
            own.add_argument("--peer-cache", type=Path, metavar="JSONL", help="keep what metric-learn finds here")
    for command in ("speed", "scoring"):
        own = commands.add_parser(command)
        own.add_argument("--quick", action="store_true", help="a tenth of the pairs")
        own.add_argument("--runs", type=int, default=3, help="pairs of runs, ours and the peer's (3)")
        own.add_argument("--threads", type=int, default=1, help="threads of both (1)")
    return parser


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command and print its tables."""
    warnings.filterwarnings("ignore", message="found .* pairs where")  # small sets have fewer than the default
    parser = parser_of_commands()
    options = parser.parse_args(arguments)
    if options.command in ("speed", "scoring"):
        print(f"# RFD: {options.command}\n\n{machine()}\n")
        effort = rfd_speed.Effort(rfd_speed.QUICK if options.quick else rfd_speed.FULL, options.runs, options.threads)
        {"speed": rfd_speed.print_growth, "scoring": rfd_speed.print_scoring}[options.command](effort)
        return
    trees = {"n_estimators": options.trees} if options.trees else {}
    forest = {"n_jobs": options.threads, **trees, **options.params}
    print(f"RFD with {forest}, all else as by default.\n", file=sys.stderr, flush=True)
    if options.command == "table3":
        print(f"# RFD: error at k = {K_OF_TABLE_3}, {options.repeats} x three folds\n\n{machine()}\n")
        print_table3(Protocol(options.repeats, 3, forest), options.sets)
        return
    print(f"# RFD: accuracy over k, {options.repeats} x five folds\n\n{machine()}\n")
    if options.peer_python:
        print(Environments((options.peer_python,)).facts() + "\n")
    with LearnedMetrics(options.peer_python, options.peer_cache) as learned:
        print_table_k(Protocol(options.repeats, 5, forest), options.sets, learned)


if __name__ == "__main__":
    main()
