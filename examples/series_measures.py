"""Series told apart by several elastic distances at once, of which each split draws one.

::

    pip install 'distforest[examples]'
    python examples/series_measures.py                  GunPoint and ArrowHead, on the archive's partitions
    python examples/series_measures.py --quick --picture shares.png

It prints the accuracy on new series of forests of one distance and of ten, cut at the best place, at zero (a series
goes to the nearer of two others) and by exemplars (it goes to the nearest of one series a class), and as each forest
chooses by itself, out of bag, with the standard error over the seeds; beside them the nearest neighbour. Then it prints
the share of each distance in the gain of all cuts, and how many distances a forest asks for by itself.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from dtaidistance import dtw, ed

from distforest import Lazy, SimForestClassifier, pairwise

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

DATA = Path(__file__).parent / "data"
SETS = {"GunPoint": "gun_point", "ArrowHead": "arrow_head"}


def sloped(series: Floats) -> Floats:
    """The slope of a series at each step, by the two steps beside it (Keogh, Pazzani, 2001)."""
    before, at, after = series[:, :-2], series[:, 1:-1], series[:, 2:]
    return ((at - before) + (after - before) / 2.0) / 2.0


@dataclass(frozen=True)
class Measure:
    """A distance of two series: dynamic time warping within a window, of the series or of their slopes.

    A window is a share of the length; 0 is the Euclidean distance. A penalty makes each step out of time cost more.
    """

    name: str
    window: float
    penalty: float = 0.0
    of_slopes: bool = False

    def read(self, series: Floats) -> Floats:
        """The series in the form that is compared."""
        return sloped(series) if self.of_slopes else series

    def distance(self, length: int) -> Callable[[Floats, Floats], float]:
        """The distance of two series of a length."""
        if not self.window:
            return ed.distance_fast
        window = 1 + round(self.window * length)
        # its bound for pruning is rounded, and may be below the distance itself, which is then infinite
        return partial(dtw.distance_fast, window=window, penalty=self.penalty or None, use_pruning=False)


MEASURES = (
    Measure("Euclid", 0.0),
    *(Measure(f"DTW {share:.0%}", share) for share in (0.03, 0.05, 0.1, 1.0)),
    *(Measure(f"DTW of slopes {share:.0%}", share, of_slopes=True) for share in (0.05, 0.1, 1.0)),
    *(Measure(f"DTW, penalty {penalty:g}", 1.0, penalty) for penalty in (0.3, 1.0)),
)


@dataclass(frozen=True)
class Task:
    """Series, their classes, and which of them are known."""

    name: str
    series: Floats
    y: NDArray[np.int64]
    is_known: NDArray[np.bool_]

    @classmethod
    def of(cls, name: str) -> Task:
        """One of the sets."""
        with np.load(DATA / f"{SETS[name]}.npz") as file:
            return cls(name, file["X"].astype(np.float64), file["y"], file["train"])

    def matrix(self, measure: Measure) -> Floats:
        """The distances of all series to the known ones, shape (n, n_known)."""
        read = measure.read(self.series)
        distance, known = measure.distance(read.shape[1]), read[self.is_known]
        return np.array([[distance(one, other) for other in known] for one in read])


def accuracies(task: Task, distances: Floats, cut: str, n_seeds: int) -> Floats:
    """The accuracy on the new series of a forest for each seed; ``distances`` has shape (n, n_known, n_measures)."""
    known, new = distances[task.is_known], distances[~task.is_known]
    own = {"n_estimators": 100, "pairing": "fresh", "bootstrap": False, "min_samples_leaf": 1, "cut": cut}
    forest = SimForestClassifier(["precomputed"] * distances.shape[2], kind="distance", **own)
    if distances.shape[2] == 1:
        known, new = known[:, :, 0], new[:, :, 0]
    scores = []
    for seed in range(n_seeds):
        forest.set_params(random_state=seed).fit(known, task.y[task.is_known])
        scores.append(forest.score(new, task.y[~task.is_known]))
    return np.array(scores)


def asked_by_itself(task: Task) -> tuple[SimForestClassifier, int]:
    """A forest that calls the distances for the pairs that it needs, and the number of all pairs."""
    lazy = []
    for measure in MEASURES:
        read = measure.read(task.series)
        lazy.append(Lazy(pairwise(measure.distance(read.shape[1])), read, kind="distance"))
    own: dict[str, Any] = {"bootstrap": False, "min_samples_leaf": 1, "cut": "zero"}
    forest = SimForestClassifier(lazy, random_state=0, **own)
    known = np.flatnonzero(task.is_known)
    return forest.fit(known, task.y[known]), len(known) * (len(known) - 1) // 2 * len(lazy)


def main(arguments: list[str] | None = None) -> None:
    """Compare forests of one distance and of several."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one set and two seeds: a few seconds")
    parser.add_argument("--picture", metavar="PNG", help="draw the share of each distance into this file")
    options = parser.parse_args(arguments)
    n_seeds, shares = (2 if options.quick else 10), {}
    for name in ["GunPoint"] if options.quick else SETS:
        task = Task.of(name)
        distances = np.stack([task.matrix(measure) for measure in MEASURES], axis=-1)
        new, y = distances[~task.is_known], task.y[task.is_known]
        print(f"{name}: {len(y)} known series, {len(new)} new ones, accuracy on these\n")
        alone = [measure.name for measure in MEASURES].index("DTW 5%")
        nearest = np.mean(y[new[:, :, alone].argmin(axis=1)] == task.y[~task.is_known])
        print(f"  {'1-NN, DTW 5%':<36}{nearest:>7.3f}")
        for title, own in (("DTW 5%", distances[:, :, [alone]]), (f"{len(MEASURES)} distances", distances)):
            for cut in ("best", "zero", "exemplars", "auto"):
                found = accuracies(task, own, cut, n_seeds)
                print(f"  {f'forest, {title}, cut={cut}':<36}{found.mean():>7.3f} ± {found.std() / n_seeds**0.5:.3f}")
        forest, n_pairs = asked_by_itself(task)
        print(f"\n  asked for {forest.n_evaluations_:,} of {n_pairs:,} distances; their shares in the gain:")
        shares[name] = forest.feature_importances_
        for measure, share in zip(MEASURES, shares[name], strict=True):
            print(f"  {measure.name:<36}{share:>7.1%}")
        print()
    if options.picture:
        draw(shares, options.picture)


def draw(shares: dict[str, Floats], picture: str) -> None:
    """Draw the share of each distance."""
    import matplotlib.pyplot as plt  # noqa: PLC0415  (only with --picture)

    figure, axes = plt.subplots(1, len(shares), figsize=(4.5 * len(shares), 3.5), layout="constrained", squeeze=False)
    for own, (name, values) in zip(axes[0], shares.items(), strict=True):
        own.barh([measure.name for measure in MEASURES][::-1], values[::-1], color="#0072B2")
        own.set(title=name, xlabel="share in the gain of all cuts")
    figure.savefig(picture, dpi=150)


if __name__ == "__main__":
    main()
