"""Exemplars against pairs: SimForest's cuts where there are more than two classes.

::

    python benchmarks/exemplars.py                 five folds of 1,797 digits, 178 wines, 1,000 DNA sequences
    python benchmarks/exemplars.py --sets digits --trees 50

stdout is markdown. Forests without bootstrap, leaves of one. Digits and wines are
compared by rbf (wines standardised), the sequences of splice (60 letters, three classes) by the letters in which they
differ. The last column is how many pairs of training objects one tree asks a function for.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from measurement import machine, print_table
from scipy.spatial.distance import cdist
from sklearn.datasets import load_digits, load_wine
from sklearn.ensemble import RandomForestClassifier
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import StratifiedKFold

from distforest import Lazy, SimForestClassifier

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]

WAYS = (("best", 4), ("zero", 4), ("zero", 2), ("exemplars", 4), ("exemplars", 2), ("exemplars", 1), ("auto", 4))
"""A cut, and the candidates of a node."""

SPLICE = Path(__file__).parents[1] / "examples" / "data" / "splice_dna.npz"


@dataclass(frozen=True)
class Compared:
    """Objects of some classes: their similarities, and features for a random forest."""

    S: Floats
    X: Floats
    y: NDArray[np.int64]


def digits() -> Compared:
    """1,797 digits, 10 classes."""
    X, y = load_digits(return_X_y=True)
    return Compared(rbf_kernel(X, gamma=1.0 / (X.shape[1] * X.var())), X, y)


def wine() -> Compared:
    """178 wines, 3 classes."""
    X, y = load_wine(return_X_y=True)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    return Compared(rbf_kernel(X, gamma=1.0 / X.shape[1]), X, y)


def splice() -> Compared:
    """1,000 DNA sequences, 3 classes."""
    with np.load(SPLICE) as file:
        letters, y = np.array([[ord(letter) for letter in one] for one in file["seq"]]), file["y"]
    some = np.random.default_rng(0).permutation(len(y))[:1000]
    letters = letters[some]
    return Compared(-cdist(letters, letters, "hamming"), letters.astype(np.float64), y[some])


SETS: dict[str, Callable[[], Compared]] = {"digits": digits, "wine": wine, "splice": splice}


def forest_of(way: tuple[str, int], **params: Any) -> SimForestClassifier:
    """A forest that is not fitted."""
    cut, n_pairs = way
    return SimForestClassifier(random_state=0, cut=cut, n_pairs=n_pairs, bootstrap=False, min_samples_leaf=1, **params)


def accuracy(own: Compared, forest: SimForestClassifier, parts: tuple[Ints, Ints]) -> float:
    """The accuracy of a forest on the objects that do not teach it."""
    teach, ask = parts
    forest.fit(own.S[np.ix_(teach, teach)], own.y[teach])
    return float(forest.score(own.S[np.ix_(ask, teach)], own.y[ask]))


def asked_by_a_tree(own: Compared, way: tuple[str, int], teach: Ints) -> int:
    """The number of pairs of the objects that teach that a tree asks a function for."""
    S = own.S
    lazy = Lazy(lambda left, right: S[left, right], np.arange(len(S)))
    return forest_of(way, similarity=lazy, n_estimators=1).fit(teach, own.y[teach]).n_evaluations_ or 0


def rows_of(name: str, trees: int) -> list[list[str]]:
    """The rows of a set: the accuracy of each way in five folds, and what a tree asks for in the first."""
    own = SETS[name]()
    folds = list(StratifiedKFold(5, shuffle=True, random_state=0).split(own.X, own.y))
    peer = RandomForestClassifier(trees, random_state=0)
    of_peer = [peer.fit(own.X[a], own.y[a]).score(own.X[b], own.y[b]) for a, b in folds]
    rows = [[name, "scikit-learn's random forest, on features", "", f"{np.mean(of_peer):.3f}", "", ""]]
    for way in WAYS:
        found = (
            [accuracy(own, forest_of(way, pairing=pairing, n_estimators=trees), parts) for parts in folds]
            for pairing in ("kept", "fresh")
        )
        asked = "" if way[0] == "auto" else f"{asked_by_a_tree(own, way, folds[0][0]):,}"
        rows.append([name, f'`cut="{way[0]}"`', str(way[1]), *(f"{np.mean(one):.3f}" for one in found), asked])
    return rows


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the comparison and print its table."""
    parser = argparse.ArgumentParser(description="Exemplars against pairs where there are more than two classes.")
    parser.add_argument("--sets", nargs="+", choices=list(SETS), default=list(SETS))
    parser.add_argument("--trees", type=int, default=100, help="trees of each forest (100)")
    options = parser.parse_args(arguments)
    print(f"# Exemplars\n\n{machine()}\n")
    print_table(
        ["set", "forest", "candidates", "accuracy", "fresh", "asked by a tree"],
        [row for name in options.sets for row in rows_of(name, options.trees)],
    )


if __name__ == "__main__":
    main()
