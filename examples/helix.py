"""A helix among a hundred columns of noise: unwound without labels.

::

    pip install 'distforest[plot]'
    python examples/helix.py --picture helix.png             1,000 points, 103 columns
    python examples/helix.py --quick --picture helix.png     500 points, fewer trees

Three columns form a helix, and a hundred are noise of the same width; nothing marks which are which. It prints, for the
forest and for Euclidean distance in all columns, how many of the 50 nearest points are among the 50 nearest along the
helix, and how well scikit-learn's Isomap on these distances orders the points: the rank correlation of its one
coordinate with the position along the helix. The picture shows the helix, the proximity of all pairs, and both orders.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure
from scipy.spatial.distance import cdist
from scipy.stats import rankdata, spearmanr
from sklearn.manifold import Isomap

from distforest import URerF

NOISE_DIMENSIONS = 100
K = 50
N_NEIGHBORS = 5  # of Isomap: fewer than would lead from one turn of the helix to the next
COLOURS = {"URerF": "#0072B2", "Euclidean": "#8A8A8A"}


@dataclass(frozen=True)
class Unwound:
    """Points put in a row: their distances, shape (n, n), and their ranks in the row, shape (n,)."""

    distance: np.ndarray
    rank: np.ndarray

    @classmethod
    def by(cls, distance: np.ndarray, along: np.ndarray) -> Unwound:
        """Isomap's coordinate of these distances, in the direction of the helix."""
        isomap = Isomap(n_neighbors=N_NEIGHBORS, n_components=1, metric="precomputed")
        rank = rankdata(isomap.fit_transform(distance)[:, 0])
        return cls(distance, rank if spearmanr(rank, along).statistic > 0 else len(rank) + 1 - rank)


def main(arguments: list[str] | None = None) -> None:
    """Fit a forest to the points, print how well it orders them, and draw it."""
    options = _parser().parse_args(arguments)
    n, trees = (500, 100) if options.quick else (1000, 200)
    rng = np.random.default_rng(0)
    along = rng.permutation(np.linspace(2 * np.pi, 9 * np.pi, n))  # the angle
    helix = np.column_stack([along * np.cos(along), along * np.sin(along), along])
    X = np.hstack([helix, rng.normal(scale=70**0.5, size=(n, NOISE_DIMENSIONS))])
    forest = URerF(n_estimators=trees, random_state=0).fit(X)
    distances = {"URerF": forest.distance(), "Euclidean": cdist(X, X)}
    unwound = {name: Unwound.by(distance, along) for name, distance in distances.items()}
    print(f"A helix of {n:,} points in {X.shape[1]} columns, {trees} trees\n")
    print(f"{'':10}{f'precision@{K}':>14}{'order':>8}")
    for name, own in unwound.items():
        order = spearmanr(own.rank, along).statistic
        print(f"{name:10}{precision(own.distance, along):>14.3f}{order:>8.3f}")
    print(f"{'chance':10}{K / (n - 1):>14.3f}{0:>8.3f}")
    heaviest = np.sort(np.argsort(-forest.feature_weights_, kind="stable")[:3])
    print(f"\nThe columns of most weight: {', '.join(map(str, heaviest))}; the helix is in 0, 1, 2")
    if options.picture:
        draw(X, along, unwound).savefig(options.picture, dpi=120)


def precision(distance: np.ndarray, along: np.ndarray) -> float:
    """The mean share of the K nearest points that are among the K nearest along the helix."""
    others = np.diag(np.full(len(along), np.inf))
    near = np.argsort(distance + others, axis=1)[:, :K]
    known = np.argsort(cdist(along[:, None], along[:, None]) + others, axis=1)[:, :K]
    return float(np.mean([len(np.intersect1d(*own)) for own in zip(near, known, strict=True)]) / K)


def draw(X: np.ndarray, along: np.ndarray, unwound: dict[str, Unwound]) -> Figure:
    """Draw the helix, the proximity of all pairs in the order along it, and the points as Isomap puts them in a row."""
    order = np.argsort(along)
    figure = Figure(figsize=(13, 4), layout="constrained")
    helix, pairs, rows = figure.add_subplot(131, projection="3d"), figure.add_subplot(132), figure.add_subplot(133)
    points = helix.scatter(*X[:, :3].T, c=along, s=8, cmap="viridis")
    helix.set(title=f"Three of {X.shape[1]} columns", xticklabels=[], yticklabels=[], zticklabels=[])
    figure.colorbar(points, ax=helix, label="place along the helix", shrink=0.8)
    image = pairs.imshow(1.0 - unwound["URerF"].distance[np.ix_(order, order)], cmap="cividis", vmin=0)
    pairs.set(title="URerF's proximity, rows along the helix", xticks=[], yticks=[])
    figure.colorbar(image, ax=pairs, label="share of trees with a common leaf", shrink=0.8)
    for name in ("Euclidean", "URerF"):
        rows.scatter(rankdata(along), unwound[name].rank, s=6, color=COLOURS[name], linewidths=0, label=name)
    rows.set(title="The points in a row, by Isomap", xlabel="rank along the helix", ylabel="rank in the row")
    rows.legend(loc="lower right", framealpha=1.0, edgecolor="none", markerscale=2)
    return figure


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer points and trees: a few seconds")
    parser.add_argument("--picture", metavar="PNG", help="draw into this file")
    return parser


if __name__ == "__main__":
    main()
