"""A forest at several budgets beside the nearest neighbour: what every example prints and draws."""

from __future__ import annotations

import argparse
import dataclasses
import math
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.figure import Figure
from sklearn.model_selection import train_test_split

from distforest import Lazy, SimForestClassifier

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]

DATA = Path(__file__).parent / "data"
SHARES = (1 / 32, 1 / 16, 1 / 8, 1 / 4, 1 / 2)
"""Budgets of the forests, as shares of all pairs of training objects; a last forest has no budget."""


@dataclass(frozen=True)
class Task:
    """Objects that a lazy similarity knows by position: those to learn from, those to classify, their labels."""

    title: str
    similarity: Lazy
    train: Ints
    y_train: NDArray[Any]
    test: Ints
    y_test: NDArray[Any]

    @classmethod
    def of(cls, title: str, similarity: Lazy, y: NDArray[Any], test_size: float) -> Task:
        """Hold out a share of the objects, the same of each class."""
        train, test = train_test_split(np.arange(len(y)), test_size=test_size, stratify=y, random_state=0)
        return cls(title, similarity, train, y[train], test, y[test])

    @property
    def n_pairs(self) -> int:
        """All pairs of objects to learn from."""
        return math.comb(len(self.train), 2)


class Counted:
    """A function of two sequences that counts the pairs it was asked for."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function, self.n = function, 0

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.function,)  # the count decides no value

    def __call__(self, left: Sequence[Any], right: Sequence[Any]) -> Any:
        """Values of the pairs, shape (n,)."""
        self.n += len(left)
        return self.function(left, right)


@dataclass(frozen=True)
class Outcome:
    """A forest: its trees, the pairs that it paid for to learn and to classify, nodes closed, its accuracy."""

    trees: int
    fit: int
    predict: int
    closed: int
    accuracy: float


def forest_outcome(task: Task, budget: int | None, trees: int, **params: Any) -> Outcome:
    """Grow at most ``trees`` trees that may pay for ``budget`` pairs, and classify the held-out objects."""
    counted = Counted(task.similarity.function)
    similarity = dataclasses.replace(task.similarity, function=counted, budget=budget)
    forest = SimForestClassifier(similarity, n_estimators=trees, n_pairs=1, random_state=0, **params)
    with warnings.catch_warnings():  # that a small budget pays for few trees is what is shown here
        warnings.filterwarnings("ignore", "DF012 the budget of .* pairs was spent on")
        forest.fit(task.train, task.y_train)
    accuracy = float(forest.score(task.test, task.y_test))
    trees, paid = forest.forest_.n_trees, forest.n_evaluations_
    return Outcome(trees, paid, counted.n - paid, forest.n_closed_, accuracy)


def nearest_accuracy(task: Task) -> float:
    """Accuracy of the label of the nearest training object; pairs without an answer are passed over."""
    objects = task.similarity.objects
    left, right = np.repeat(task.test, len(task.train)), np.tile(task.train, len(task.test))
    values = task.similarity.function([objects[place] for place in left], [objects[place] for place in right])
    sign = 1.0 if task.similarity.kind == "distance" else -1.0
    nearness = np.nan_to_num(sign * np.asarray(values, float), nan=math.inf).reshape(len(task.test), -1)
    return float(np.mean(task.y_train[nearness.argmin(axis=1)] == task.y_test))


def run(task: Task, picture: str | None, trees: int, **params: Any) -> None:
    """Print what forests of growing budgets are worth beside the nearest neighbour, and draw it."""
    n_train, n_test = len(task.train), len(task.test)
    budgets = [*(round(share * task.n_pairs) for share in SHARES), None]
    outcomes = [forest_outcome(task, budget, trees, **params) for budget in budgets]
    nearest = nearest_accuracy(task)
    print(f"{task.title}: {n_train} objects to learn from, {task.n_pairs:,} pairs of them; {n_test} held out\n")
    print("    budget  trees  paid to fit  of all pairs  closed  paid to predict  accuracy")
    for budget, own in zip(budgets, outcomes, strict=True):
        limit, share = "none" if budget is None else f"{budget:,}", own.fit / task.n_pairs
        cells = f"{limit:>10}{own.trees:>7}{own.fit:>13,}{share:>14.1%}{own.closed:>8,}{own.predict:>17,}"
        print(f"{cells}{own.accuracy:>10.1%}")
    print(f"{'1-NN':>10}{0:>20}{n_train * n_test:>39,}{nearest:>10.1%}")
    if picture:
        fits, accuracies = (np.array([getattr(own, name) for own in outcomes]) for name in ("fit", "accuracy"))
        figure = Figure(figsize=(7, 4), layout="constrained")
        axes = figure.subplots()
        axes.plot(fits, accuracies, "o-", label="forest")
        axes.axhline(nearest, color="#D55E00", linestyle="--", label="1-NN")
        axes.axvline(task.n_pairs, color="#8A8A8A", linestyle=":", label=f"all {task.n_pairs:,} pairs")
        axes.set(title=task.title, xlabel="pairs that the forest has paid for", ylabel="accuracy on held-out objects")
        axes.legend()
        figure.savefig(picture, dpi=150)


def parser(description: str | None) -> argparse.ArgumentParser:
    """The options that all examples have."""
    found = argparse.ArgumentParser(description=(description or "").splitlines()[0])
    found.add_argument("--quick", action="store_true", help="fewer objects and trees: a few seconds")
    found.add_argument("--picture", metavar="PNG", help="draw accuracy against budget into this file")
    return found
