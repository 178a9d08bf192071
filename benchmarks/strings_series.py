"""Strings and series: SimForest on an edit distance and on dynamic time warping, against 1-NN under the same distance.

::

    pip install 'distforest[examples]'
    python benchmarks/strings_series.py                    four sets, ten repeats of five folds (about half an hour)
    python benchmarks/strings_series.py --quick            one repeat, 50 trees, 800 strings of splice
    python benchmarks/strings_series.py --peer             aeon's ProximityForest on the series, where aeon is installed

stdout is markdown, stderr is progress. Strings: Levenshtein's distance. Series: dynamic time warping in a window of 5 %
of the length. A repeat is a partition into five stratified folds; the series also have the archive's own partition.

What is counted is pairs: those that a fit has paid for, beside all pairs n (n - 1) / 2 of its n training objects; and
those that a test object costs, beside the n that it costs 1-NN. ± is the standard error of the mean over the repeats.
ProximityForest chooses among many distances itself, so its pairs are not counted; it is grown once, in as many trees,
on the archive's partition only.
"""

from __future__ import annotations

import argparse
import math
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from accuracy_simforest import cell
from dtaidistance import dtw
from measurement import machine, print_table
from rapidfuzz.distance import Levenshtein
from rapidfuzz.process import cdist
from sklearn.model_selection import StratifiedKFold

from distforest import Lazy, SimForestClassifier

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]

SETS = ("promoters", "splice_dna", "gun_point", "arrow_head")
PLACES = (Path(__file__).parents[1] / "examples" / "data", Path(__file__).parent / "data")
WINDOW = 0.05
N_FOLDS = 5
HEAD = ("method", "accuracy, %", "pairs to fit / all", "pairs to predict / 1-NN's")
SMALL: dict[str, Any] = {"max_samples": 0.3}
CLEAN: dict[str, Any] = {"bootstrap": False, "min_samples_leaf": 1}
NEAREST: dict[str, Any] = {"n_landmarks": 0.18, "voting": "nearest", "min_samples_leaf": 20}
NEAREST |= {"n_columns": 3, "n_pairs": 4, "n_estimators": 100}


@dataclass(frozen=True)
class Rule:
    """A forest, of one pair a node unless it says otherwise, and its budget as a share of all pairs of its objects."""

    text: str
    params: dict[str, Any]
    share: float | None = None


RULES = tuple(
    Rule(f"{name}{f', budget {text}' if share else ''}", params, share)
    for name, params in (("default", {}), ("max_samples=0.3", SMALL), ("bootstrap=False, min_samples_leaf=1", CLEAN))
    for text, share in (("", None), ("1/3", 1 / 3), ("1/6", 1 / 6))
)
RULES += (Rule(", ".join(f"{name}={value!r}" for name, value in NEAREST.items()), NEAREST),)


@dataclass(frozen=True)
class Objects:
    """Strings or series with the distances of all of them, classes, and the archive's training part, if any."""

    distance: Floats
    items: Any
    y: Ints
    train: NDArray[np.bool_] | None

    @classmethod
    def of(cls, name: str, n: int) -> Objects:
        """A set, or n of its objects drawn at random where it has more."""
        path = next(place / f"{name}.npz" for place in PLACES if (place / f"{name}.npz").exists())
        with np.load(path) as file:
            own = {key: file[key] for key in file.files}
        is_series = "X" in own
        kept = np.sort(np.random.default_rng(0).permutation(len(own["y"]))[:n])
        items = own["X"].astype(np.float64) if is_series else own["seq"][kept].tolist()
        distance = warped(items) if is_series else cdist(items, items, scorer=Levenshtein.distance, dtype=np.float64)
        return cls(distance, items, own["y"] if is_series else own["y"][kept], own.get("train"))

    def folds(self, repeat: int) -> list[tuple[Ints, Ints]]:
        """The five folds of a repeat, as (rows to train on, rows to predict)."""
        return list(StratifiedKFold(N_FOLDS, shuffle=True, random_state=repeat).split(self.y, self.y))


def warped(series: Floats) -> Floats:
    """Distances of all series of shape (n, length), shape (n, n)."""
    return np.asarray(dtw.distance_matrix_fast(series, window=max(1, int(WINDOW * series.shape[1])), parallel=False))


class Counted:
    """Distances of numbered objects, looked up in a matrix; counts the pairs that it is asked for."""

    def __init__(self, distance: Floats) -> None:
        self.distance, self.n = distance, 0

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.distance,)  # the count decides no value

    def __call__(self, left: Ints, right: Ints) -> Floats:
        """Distances of the pairs, shape (n,)."""
        self.n += len(left)
        return self.distance[left, right]


@dataclass(frozen=True)
class Effort:
    """How many trees, in how many threads."""

    trees: int
    threads: int


def forest(objects: Objects, parts: tuple[Ints, Ints], rule: Rule, effort: Effort, seed: int) -> list[float]:
    """Accuracy, pairs paid to fit as a share of all, pairs of a test object as a share of 1-NN's."""
    train, test = parts
    n_pairs = math.comb(len(train), 2)
    budget = None if rule.share is None else int(rule.share * n_pairs)

    counted = Counted(objects.distance)
    lazy = Lazy(counted, np.arange(len(objects.y)), kind="distance", budget=budget)
    params = {"n_estimators": effort.trees, "n_pairs": 1, **rule.params}
    own = SimForestClassifier(lazy, random_state=seed, **params)
    own.fit(train, objects.y[train])
    if counted.n != own.n_evaluations_:
        raise SystemExit(f"the function was asked for {counted.n} pairs, the forest says {own.n_evaluations_}")
    accuracy = own.score(test, objects.y[test])
    asked = counted.n - own.n_evaluations_
    return [accuracy, own.n_evaluations_ / n_pairs, asked / (len(train) * len(test))]


def nearest(objects: Objects, parts: tuple[Ints, Ints]) -> list[float]:
    """What `forest` answers, for 1-NN."""
    train, test = parts
    found = objects.y[train][objects.distance[np.ix_(test, train)].argmin(axis=1)]
    return [float(np.mean(found == objects.y[test])), 0.0, 1.0]


def methods(objects: Objects, effort: Effort) -> dict[str, Any]:
    """What is compared, by name: functions of a partition and a seed."""
    found: dict[str, Any] = {"1-NN": lambda parts, _seed: nearest(objects, parts)}
    for rule in RULES:
        found[f"SimForest, {rule.text}"] = lambda parts, seed, rule=rule: forest(objects, parts, rule, effort, seed)
    return found


def print_set(name: str, objects: Objects, effort: Effort, repeats: int) -> None:
    """Print accuracies and pairs of all methods on a set, in five folds."""
    rows = []
    for method, measured in methods(objects, effort).items():
        print(f"{name}, {method}", file=sys.stderr, flush=True)
        own = np.array(
            [np.mean([measured(p, repeat) for p in objects.folds(repeat)], axis=0) for repeat in range(repeats)]
        )
        rows.append([method, cell(own[:, 0]), *(f"{share:.3f}" for share in own[:, 1:].mean(axis=0))])
    print(f"## {name}, {len(objects.y)} objects\n")
    print_table(HEAD, rows)


def print_archive(name: str, objects: Objects, effort: Effort, repeats: int, with_peer: bool) -> None:
    """Print accuracies and pairs of all methods on the archive's partition; ± is over the seeds of the forests."""
    parts = np.flatnonzero(objects.train), np.flatnonzero(~objects.train)
    rows = []
    for method, measured in methods(objects, effort).items():
        print(f"{name}, archive's partition, {method}", file=sys.stderr, flush=True)
        own = np.array([measured(parts, seed) for seed in range(repeats)])
        rows.append([method, cell(own[:, 0]), *(f"{share:.3f}" for share in own[:, 1:].mean(axis=0))])
    if with_peer:
        rows.append(["ProximityForest (aeon)", f"{100 * proximity_forest(objects, parts, effort):.2f}", "-", "-"])
    print(f"## {name}, the archive's partition: {len(parts[0])} to learn from, {len(parts[1])} to predict\n")
    print_table(HEAD, rows)


def proximity_forest(objects: Objects, parts: tuple[Ints, Ints], effort: Effort) -> float:
    """Accuracy of aeon's ProximityForest."""
    from aeon.classification.distance_based import ProximityForest  # noqa: PLC0415  (only --peer needs it)

    train, test = parts
    series = objects.items[:, None, :]
    peer = ProximityForest(n_trees=effort.trees, random_state=0, n_jobs=effort.threads)
    return float(peer.fit(series[train], objects.y[train]).score(series[test], objects.y[test]))


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the comparison and print a table for each set."""
    parser = argparse.ArgumentParser(description="SimForest and 1-NN on strings and series: accuracy and pairs.")
    parser.add_argument("--quick", action="store_true", help="one repeat, 50 trees, 800 strings of splice")
    parser.add_argument("--repeats", type=int, default=10, help="partitions into five folds (10)")
    parser.add_argument("--trees", type=int, default=100, help="trees of each forest (100)")
    parser.add_argument("--threads", type=int, default=1, help="threads of the peer (1)")
    parser.add_argument("--sets", choices=SETS, nargs="+", default=SETS, help="sets (all)")
    parser.add_argument("--peer", action="store_true", help="aeon's ProximityForest too")
    options = parser.parse_args(arguments)
    if min(options.repeats, options.trees, options.threads) < 1:
        parser.error("--repeats, --trees and --threads must be at least 1")
    repeats, trees, n = (1, 50, 800) if options.quick else (options.repeats, options.trees, sys.maxsize)
    print(f"# Strings and series: {trees} trees, {repeats} x five folds\n\n{machine()}\n")
    for name in options.sets:
        objects, effort = Objects.of(name, n), Effort(trees, options.threads)
        print_set(name, objects, effort, repeats)
        if objects.train is not None:
            print_archive(name, objects, effort, repeats, options.peer)


if __name__ == "__main__":
    main()
