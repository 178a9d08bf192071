"""Which two wines are from one grower? Two forests over pairs, side by side on wines that they have not seen.

::

    pip install 'distforest[plot]'
    python examples/wine_pairs.py --picture wine.png             all trees
    python examples/wine_pairs.py --quick --picture wine.png     fewer trees: a few seconds

Half of 178 wines, with thirteen measurements each and three growers, are for training; all pairs of the other half
are scored. RFD predicts the distance of two wines, TreeRank their similarity. It prints, for them and for
Euclidean distance of standardised measurements, the area under the ROC curve of these pairs (how often a pair from one
grower comes before a pair from two), how many of the pairs from one grower are found before one in a thousand of the
others, and the accuracy of the five nearest neighbours in the training half. The picture shows the curves, on a
linear and on a logarithmic scale.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure
from scipy.spatial.distance import cdist
from scipy.stats import mode
from sklearn.datasets import load_wine
from sklearn.metrics import roc_curve
from sklearn.model_selection import train_test_split

from distforest import RFD, TreeRank
from distforest.evaluation.roc import ROC
from distforest.pictures.trees import drawn_tree

RATE = 1e-3
K = 5
COLOURS = {"RFD": "#D55E00", "TreeRank": "#0072B2", "Euclidean": "#8A8A8A"}


@dataclass(frozen=True)
class Halves:
    """Wines that teach and wines that are asked about: their measurements, and who grew them."""

    X: np.ndarray
    new: np.ndarray
    y: np.ndarray
    y_new: np.ndarray

    @property
    def pairs(self) -> tuple[np.ndarray, np.ndarray]:
        """All pairs of new wines, as two columns of numbers."""
        left, right = np.triu_indices(len(self.new), 1)
        return left, right

    @property
    def similar(self) -> np.ndarray:
        """Whether the two wines of each pair are from one grower."""
        left, right = self.pairs
        return self.y_new[left] == self.y_new[right]


def main(arguments: list[str] | None = None) -> None:
    """Grow both forests, print how well they rank the pairs of new wines, and draw that."""
    options = _parser().parse_args(arguments)
    wine = load_wine()
    halves = Halves(*train_test_split(wine.data, wine.target, test_size=0.5, stratify=wine.target, random_state=0))
    n_rfd, n_ranking = (100, 11) if options.quick else (400, 44)
    rfd = RFD(n_rfd, random_state=0).fit(halves.X, halves.y)
    # with all 3,916 pairs and all columns at each node its trees would be almost the same
    ranking = TreeRank(n_ranking, n_pairs=2000, leafrank_depth=3, max_features="sqrt", random_state=0)
    ranking.fit(halves.X, halves.y)
    mean, deviation = halves.X.mean(axis=0), halves.X.std(axis=0)
    X, new = (halves.X - mean) / deviation, (halves.new - mean) / deviation
    left, right = halves.pairs
    curves = {
        "RFD": ROC(*roc_curve(halves.similar, -rfd.pair_distance(halves.new[left], halves.new[right]))[:2]),
        "TreeRank": ROC(*roc_curve(halves.similar, ranking.pair_score(halves.new[left], halves.new[right]))[:2]),
        "Euclidean": ROC(*roc_curve(halves.similar, -np.linalg.norm(new[left] - new[right], axis=1))[:2]),
    }
    distances = {"RFD": rfd.distance(halves.new, halves.X), "TreeRank": ranking.distance(halves.new, halves.X)}
    distances["Euclidean"] = cdist(new, X)
    print(f"{len(left):,} pairs of {len(new)} new wines, {halves.similar.mean():.0%} of them from one grower\n")
    print(f"{'':10}{'area':>8}{'found at 1e-3':>15}{f'{K}-NN accuracy':>16}")
    for name, curve in curves.items():
        votes = halves.y[np.argsort(distances[name], axis=1)[:, :K]]
        accuracy = np.mean(mode(votes, axis=1).mode == halves.y_new)
        print(f"{name:10}{curve.auc:>8.3f}{curve.tpr_at(RATE):>15.3f}{accuracy:>16.3f}")
    root, *_ = drawn_tree(ranking, depth=1, names=wine.feature_names).boxes
    print(f"\nThe first tree parts {sum(root.counts):,} pairs by {root.cut.replace(chr(10), ' ')}")
    if options.picture:
        draw(curves).savefig(options.picture, dpi=120)


def draw(curves: dict[str, ROC]) -> Figure:
    """Draw the ROC curves on a linear scale, and on a logarithmic one, which shows the pairs that rank highest."""
    figure = Figure(figsize=(10, 4.4), layout="constrained")
    whole, first = figure.subplots(1, 2)
    rates = np.geomspace(1e-3, 1.0, 400)
    for name, curve in curves.items():
        whole.plot(curve.fpr, curve.tpr, color=COLOURS[name], linewidth=2, label=f"{name}: area {curve.auc:.3f}")
        first.semilogx(rates, curve.at(rates), color=COLOURS[name], linewidth=2)
    whole.set(title="Pairs of new wines", xlabel="false positive rate", ylabel="true positive rate", aspect="equal")
    whole.legend(loc="lower right", frameon=False)
    first.set(title="The same, left end", xlabel="false positive rate", ylabel="true positive rate", ylim=(0, 1.02))
    return figure


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer trees: a few seconds")
    parser.add_argument("--picture", metavar="PNG", help="draw into this file")
    return parser


if __name__ == "__main__":
    main()
