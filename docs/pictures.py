"""The pictures of the pages under Learn: ``python docs/pictures.py`` draws them anew, into docs/images."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from scipy.spatial.distance import cdist
from sklearn.datasets import load_wine, make_moons
from sklearn.metrics import roc_curve
from sklearn.model_selection import train_test_split

from distforest import RFD, SMERF, SimForestClassifier, TreeRank, URerF
from distforest.evaluation.roc import ROC

IMAGES = Path(__file__).parent / "images"
BLUE, ORANGE, GREEN, GREY = "#0072B2", "#D55E00", "#009E73", "#8A8A8A"


def smerf() -> Figure:
    """Distances of new rows: true, and as two distances see them."""
    X = np.random.default_rng(0).uniform(-1.0, 1.0, size=(420, 20))
    radius = np.hypot(X[:, 0], X[:, 1])
    Z = np.subtract.outer(radius, radius) ** 2
    forest = SMERF(n_estimators=300, max_features=20, random_state=0).fit(X[:320], Z[:320, :320])
    new, pairs = X[320:], np.triu_indices(100, 1)
    true = Z[320:, 320:][pairs]
    figure = Figure(figsize=(8, 3.8), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    left.plot(cdist(new, new)[pairs], true, ".", color=GREY, markersize=2, alpha=0.5, rasterized=True)
    left.set(title="Euclidean distance", xlabel="of the features", ylabel="true distance of two new rows")
    right.plot(forest.distance(new)[pairs], true, ".", color=BLUE, markersize=2, alpha=0.5, rasterized=True)
    right.set(title="SMERF", xlabel="predicted from the features")
    return figure


def simforest() -> Figure:
    """A split of objects by two of them, and what it costs to lose pairs."""
    rng = np.random.default_rng(3)
    points = np.concatenate([rng.normal((-1, 0), 0.6, (60, 2)), rng.normal((1, 0.5), 0.6, (60, 2))])
    codes = np.repeat([0, 1], 60)
    one, other = points[7], points[80]
    figure = Figure(figsize=(8, 3.8), layout="constrained")
    left, right = figure.subplots(1, 2)
    for code, marker in enumerate("os"):
        left.scatter(*points[codes == code].T, c=(ORANGE, BLUE)[code], marker=marker, s=16, alpha=0.7)
    along = other - one
    order = points @ along
    cut = np.mean([order[codes == code].mean() for code in (0, 1)])
    normal = np.array([-along[1], along[0]])
    middle = along * cut / (along @ along)
    left.plot(*np.transpose([middle - 3 * normal, middle + 3 * normal]), "--", color="black")
    left.annotate("", other, one, arrowprops={"arrowstyle": "->", "lw": 2})
    for name, place, beside in (("i", one, (-0.3, -0.1)), ("j", other, (0.3, 0.1))):
        left.plot(*place, "o", color="black", markersize=5)
        label = left.text(*np.add(place, beside), f"${name}$", fontsize=17, ha="center", va="center")
        label.set_bbox({"facecolor": "white", "edgecolor": "none", "pad": 1.0, "alpha": 0.8})
    left.set(title="One split, by two objects", xlim=(-3, 3), ylim=(-2.2, 2.6), xticks=[], yticks=[], aspect="equal")
    lost, found = _accuracies()
    for rule, colour in (("mean", BLUE), ("stop", GREY), ("larger", ORANGE), ("surrogate", GREEN)):
        right.plot(lost, found[rule], "o-", color=colour, label=f'on_missing="{rule}"')
    right.set(
        title="Wines by their similarities", xlabel="share of unobserved pairs", ylabel="accuracy", ylim=(0.3, 1.02)
    )
    right.legend(frameon=False)
    return figure


def _accuracies() -> tuple[list[float], dict[str, list[float]]]:
    X, y = load_wine(return_X_y=True)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    similar = -cdist(X, X, "cityblock")
    rows, new = train_test_split(np.arange(len(y)), test_size=0.5, stratify=y, random_state=0)
    rng = np.random.default_rng(0)
    lost, draws = [0.0, 0.15, 0.3, 0.45, 0.6], rng.random(similar.shape)
    found: dict[str, list[float]] = {}
    for rule in ("mean", "stop", "larger", "surrogate"):
        found[rule] = []
        for share in lost:
            seen = np.where(np.triu(draws, 1) + np.triu(draws, 1).T < share, np.nan, similar)
            np.fill_diagonal(seen, 0)
            forest = SimForestClassifier(on_missing=rule, random_state=0).fit(seen[np.ix_(rows, rows)], y[rows])
            found[rule].append(forest.score(seen[np.ix_(new, rows)], y[new]))
    return lost, found


def urerf() -> Figure:
    """A helix among noise, and how near its points are."""
    rng = np.random.default_rng(0)
    along = rng.permutation(np.linspace(2 * np.pi, 9 * np.pi, 500))
    signal = np.column_stack([along * np.cos(along), along * np.sin(along), along])
    X = np.hstack([signal, rng.normal(scale=70**0.5, size=(500, 100))])
    proximity = URerF(random_state=0).fit(X).proximity()
    order = np.argsort(along)
    figure = Figure(figsize=(9, 3.6), layout="constrained")
    helix = figure.add_subplot(1, 3, 1, projection="3d")
    helix.scatter(*signal[order].T, c=np.arange(500), cmap="viridis", s=4)
    helix.set(title="3 of 103 features", xticks=[], yticks=[], zticks=[])
    euclid = cdist(X, X)[np.ix_(order, order)]
    for place, title, near in ((2, "Euclidean", -euclid), (3, "URerF", proximity[np.ix_(order, order)])):
        axes = figure.add_subplot(1, 3, place)
        np.fill_diagonal(near, np.sort(near, axis=None)[-600])  # a row and itself would hide all others
        axes.imshow(near.reshape(125, 4, 125, 4).mean(axis=(1, 3)), cmap="cividis")
        axes.set(title=f"{title}: how near", xlabel="along the helix", xticks=[], yticks=[])
    return figure


def rfd() -> Figure:
    """How far all places are from one, by two distances."""
    X, y = make_moons(300, noise=0.12, random_state=0)
    grid = np.stack(np.meshgrid(np.linspace(-1.5, 2.5, 90), np.linspace(-1.1, 1.6, 60)), axis=-1)
    forest = RFD(100, random_state=0).fit(X, y)
    star = np.array([[-0.9, 0.45]])
    figure = Figure(figsize=(8, 3), layout="constrained")
    panels = figure.subplots(1, 2, sharey=True)
    flat = grid.reshape(-1, 2)
    found = {"Euclidean distance": cdist(star, flat), "RFD": forest.distance(star, flat)}
    for axes, (title, far) in zip(panels, found.items(), strict=True):
        axes.contourf(grid[..., 0], grid[..., 1], far.reshape(grid.shape[:2]), levels=12, cmap="cividis")
        for code, marker in enumerate("os"):
            axes.plot(*X[y == code].T, marker, color=("#FFFFFF", ORANGE)[code], markersize=2.5)
        axes.plot(*star.T, "*", color="#E69F00", markersize=16, markeredgecolor="black")
        axes.set(title=f"{title} from the star", xticks=[], yticks=[])
    return figure


def treerank() -> Figure:
    """ROC curves of pairs of new wines."""
    X, y = load_wine(return_X_y=True)
    X, new, y, new_y = train_test_split(X, y, test_size=0.5, stratify=y, random_state=0)
    left, right = np.triu_indices(len(new), 1)
    similar = new_y[left] == new_y[right]
    settings = {"n_pairs": 2000, "leafrank_depth": 3, "max_features": "sqrt", "random_state": 0}
    deviation = X.std(axis=0)
    scores = {
        "44 trees": TreeRank(44, **settings).fit(X, y).pair_score(new[left], new[right]),
        "one tree": TreeRank(1, **settings).fit(X, y).pair_score(new[left], new[right]),
        "Euclidean": -np.linalg.norm((new[left] - new[right]) / deviation, axis=1),
    }
    figure = Figure(figsize=(8, 3.6), layout="constrained")
    whole, first = figure.subplots(1, 2)
    rates = np.geomspace(1e-3, 1, 300)
    for (name, score), colour in zip(scores.items(), (BLUE, GREEN, GREY), strict=True):
        curve = ROC(*roc_curve(similar, score)[:2])
        whole.plot(curve.fpr, curve.tpr, color=colour, linewidth=2, label=f"{name}: area {curve.auc:.3f}")
        first.semilogx(rates, curve.at(rates), color=colour, linewidth=2)
    for axes, title in ((whole, "Pairs of new wines"), (first, "The same, left end")):
        axes.set(title=title, xlabel="false positive rate", ylabel="true positive rate", ylim=(0, 1.02))
    whole.legend(loc="lower right", frameon=False)
    return figure


if __name__ == "__main__":
    for draw in (smerf, simforest, urerf, rfd, treerank):
        draw().savefig(IMAGES / f"learn-{draw.__name__}.png", dpi=110, metadata={"Software": None})
