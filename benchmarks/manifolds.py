"""Nearest on a manifold, found in noise: URerF, the paper's own rule and their peers on the paper's four simulations.

::

    pip install '.[plot]'
    python benchmarks/manifolds.py --results manifolds.jsonl --picture manifolds.png    ten seeds (hours on two cores)
    python benchmarks/manifolds.py --quick                                      two seeds, up to 100 dimensions
    python benchmarks/manifolds.py --shapes helix --noise lognormal t correlated        other noise than normal

stdout is markdown, stderr is progress. ``--results`` keeps each number as soon as it is known, and what is there is not
measured again: an interrupted run goes on, and a file that is whole is only printed and drawn. It knows methods by
name; begin another one when their code has changed. UMAP has its row where umap-learn is installed.

n = 1,000 points in three dimensions and features of noise N(0, 70); geodesic precision@50, the mean over the points and
then over the seeds, ± the standard error of the latter mean; ties broken in expectation. Data and method have the same
seed, and no method is told more than X. Raw, and with every feature rescaled to [0, 1]. The other kinds of noise,
lognormal, Student's t with 2 degrees of freedom and normal with autocorrelation 0.7, were chosen before any result on
them was seen: line, helix and sphere, 10, 100 and 1,000 dimensions, raw.

- *URerF* with its defaults, for all cells the same.
- *The paper's rule*: the best raw Fast-BIC cut of sqrt(number of features) candidates, nodes of 100 rows and more; of
  single features, and of sums of one in twenty features. It peels off a few rows at a time, which makes it dear: from
  1,000 dimensions on it has three and two seeds, and sums no 10,000 dimensions.
- *Isomap*: shortest paths along the graph of the ten nearest neighbours; points that it does not join are at infinity.
- *Euclidean, screened* is the distance sum_j w_j (x_j - y_j)^2 / var_j with the weights that URerF finds.
- *RandomTreesEmbedding* is scikit-learn's, depth 5, its default. *Random forest* is Breiman's and Cutler's: it tells
  the points from such with permuted columns; its proximity is the share of common leaves.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import sys
import time
import warnings
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from connectome import random_trees, umap
from matplotlib.figure import Figure
from measurement import machine, print_table
from measures import proximity_hits
from scipy.sparse.csgraph import shortest_path
from simulations import MANIFOLDS as SHAPES
from simulations import PAPER_RULE
from sklearn.ensemble import RandomForestClassifier
from sklearn.metrics import euclidean_distances
from sklearn.neighbors import kneighbors_graph

from distforest import URerF

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from matplotlib.axes import Axes
    from numpy.typing import NDArray
    from simulations import Noise

    Floats = NDArray[np.float64]
    Float32s = NDArray[np.float32]
    Distance = Callable[[Any, int], Floats]
    """Distances of all points, shape (n, n), from the points, float32, and a seed."""

SCALES = ("raw", "rescaled")
DIMENSIONS = (0, 10, 100, 1000, 10_000)
DEAR = 1000
K = 50
N_NEIGHBORS = 10
AIMS = {
    "line": dict.fromkeys(DIMENSIONS, 0.95),
    "helix": {0: 0.94, 10: 0.93, 100: 0.93, 1000: 0.93, 10_000: 0.93},
    "sphere": {0: 0.85, 10: 0.83, 100: 0.84, 1000: 0.84, 10_000: 0.84},
    "mixture": dict.fromkeys(DIMENSIONS, 0.97),
}
"""What the default with 100 trees is to reach, raw and rescaled."""
AIMED = "URerF, 100 trees"
COLOURS = {
    AIMED: "#0072B2",
    "URerF, 500 trees": "#56B4E9",
    "the paper's rule, single features": "#009E73",
    "the paper's rule, sums of p / 20": "#7FC97F",
    "Isomap": "#D55E00",
    "UMAP": "#CC79A7",
    "Euclidean": "#000000",
    "Euclidean, screened": "#8A8A8A",
    "RandomTreesEmbedding": "#E69F00",
    "random forest": "#A6761D",
}


# --- methods ----------------------------------------------------------------------------------------------


def forest(trees: int, **params: Any) -> Distance:
    """URerF's distance."""

    def distance(X: Float32s, seed: int) -> Floats:
        found: Floats = URerF(n_estimators=trees, random_state=seed, n_jobs=-1, **params).fit(X).distance()
        return found

    return distance


def isomap(X: Float32s, _seed: int) -> Floats:
    """Shortest paths along the graph of the nearest neighbours; infinite where there is none."""
    return np.asarray(shortest_path(kneighbors_graph(X, N_NEIGHBORS, mode="distance"), directed=False))


def screened(X: Float32s, seed: int) -> Floats:
    """Euclidean distances of the standardised features, each times the root of its weight."""
    weights = URerF(n_estimators=1, random_state=seed).fit(X).feature_weights_
    deviation = X.std(axis=0, dtype=np.float64)
    scaled = X * np.divide(np.sqrt(weights), deviation, out=np.zeros_like(deviation), where=deviation > 0)
    return np.asarray(euclidean_distances(scaled))


def random_forest(X: Float32s, seed: int) -> Floats:
    """1 - the proximity of a random forest that tells the points from such with permuted columns."""
    permuted = np.random.default_rng(seed).permuted(X, axis=0)
    model = RandomForestClassifier(100, random_state=seed, n_jobs=-1)
    leaves = model.fit(np.vstack([X, permuted]), np.repeat([1, 0], len(X))).apply(X)
    apart = np.zeros((len(X), len(X)))
    for own in leaves.T:
        apart += own[:, None] != own
    apart /= leaves.shape[1]
    return apart


METHODS: dict[str, Distance] = {
    AIMED: forest(100),
    "URerF, 500 trees": forest(500),
    "the paper's rule, single features": forest(100, **{**PAPER_RULE, "feature_combinations": 1.0}),
    "the paper's rule, sums of p / 20": forest(100, **PAPER_RULE),
    "Isomap": isomap,
    "UMAP": umap,
    "Euclidean": lambda X, _seed: euclidean_distances(X.astype(np.float64)),
    "Euclidean, screened": screened,
    "RandomTreesEmbedding": random_trees(100),
    "random forest": random_forest,
}


@dataclass(frozen=True)
class Limit:
    """Where a dear method is measured less: its seeds from `DEAR` dimensions of noise on, and its most dimensions."""

    seeds: int
    dimensions: int

    def allows(self, dimensions: int, seed: int, quick: bool) -> bool:
        """Whether a cell is measured; in a quick run only up to 10 dimensions."""
        most = 10 if quick else self.dimensions
        return dimensions <= most and (dimensions < DEAR or seed < self.seeds)


LIMITS = {
    "the paper's rule, single features": Limit(seeds=3, dimensions=10_000),
    "the paper's rule, sums of p / 20": Limit(seeds=2, dimensions=1000),
}


# --- measuring --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Cell:
    """What is measured: on which data, by which method, with which seed."""

    shape: str
    noise: Noise
    scale: str
    dimensions: int
    method: str
    seed: int

    def measured(self) -> dict[str, float]:
        """Geodesic precision@50, and the seconds that the method took."""
        data = SHAPES[self.shape](
            noise_dimensions=self.dimensions,
            noise=self.noise,
            rescale=self.scale == "rescaled",
            random_state=self.seed,
        )
        start = time.perf_counter()
        with warnings.catch_warnings(action="ignore"):  # UMAP and Numba about threads
            distance = METHODS[self.method](data.X, self.seed)
        seconds = time.perf_counter() - start
        return {"precision": proximity_hits(-distance, data.relevant(K), K).precision, "seconds": seconds}


Found = dict[Cell, dict[str, float]]


def known(path: Path | None) -> Found:
    """What an earlier run has kept."""
    if path is None or not path.exists():
        return {}
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return {Cell(**line["cell"]): line["found"] for line in lines}


def measure(cells: Sequence[Cell], path: Path | None) -> Found:
    """Measure what is not known, and keep it."""
    found = known(path)
    for number, cell in enumerate(cells):
        if cell in found:
            continue
        found[cell] = cell.measured()
        print(f"{number + 1}/{len(cells)} {cell} {found[cell]['precision']:.3f}", file=sys.stderr, flush=True)
        if path is not None:
            with path.open("a") as file:
                file.write(json.dumps({"cell": vars(cell), "found": found[cell]}) + "\n")
    return {cell: found[cell] for cell in cells}


# --- showing ----------------------------------------------------------------------------------------------

Panel = tuple[str, str, str]
"""Noise, scale and shape: one table, one picture."""
Curve = dict[int, "Floats"]
"""Precisions of a method with so many dimensions of noise, one for each seed."""


def panels(found: Found) -> dict[Panel, dict[str, Curve]]:
    """What was found, by panel and method."""
    grouped: dict[Panel, dict[str, dict[int, list[float]]]] = {}
    for cell, own in found.items():
        methods = grouped.setdefault((cell.noise, cell.scale, cell.shape), {})
        methods.setdefault(cell.method, {}).setdefault(cell.dimensions, []).append(own["precision"])
    return {
        panel: {name: {d: np.array(own) for d, own in curve.items()} for name, curve in methods.items()}
        for panel, methods in grouped.items()
    }


def standard_error(values: Floats) -> float:
    """Of the mean; 0 of one value."""
    return float(values.std(ddof=1) / math.sqrt(len(values))) if len(values) > 1 else 0.0


def cell_text(values: Floats | None) -> str:
    """Mean ± standard error of the mean; the mean alone of one value, a dash where nothing was measured."""
    if values is None:
        return "-"
    return f"{values.mean():.3f}" + (f" ± {standard_error(values):.3f}" if len(values) > 1 else "")


def print_aims(found: Mapping[Panel, Mapping[str, Curve]]) -> None:
    """The default with 100 trees beside what it is to reach."""
    rows = []
    for (noise, scale, shape), methods in found.items():
        for dimensions, values in methods.get(AIMED, {}).items() if noise == "normal" else ():
            aim = AIMS[shape].get(dimensions)
            if aim is not None:
                verdict = "met" if values.mean() >= aim else f"**missed by {aim - values.mean():.3f}**"
                rows.append([scale, shape, f"{dimensions:,}", cell_text(values), f"{aim:.2f}", verdict])
    if rows:
        print(f"## {AIMED}, against its aims\n")
        print_table(["scale", "manifold", "noise dimensions", "precision@50", "aim", ""], rows)


def print_panels(found: Mapping[Panel, Mapping[str, Curve]]) -> None:
    """A table for each manifold: methods by dimensions of noise."""
    for (noise, scale, shape), methods in found.items():
        dimensions = sorted({d for curve in methods.values() for d in curve})
        print(f"## {shape.capitalize()}, {noise} noise, {scale}\n")
        rows = [[name, *(cell_text(curve.get(d)) for d in dimensions)] for name, curve in methods.items()]
        print_table(["method", *(f"{d:,}" for d in dimensions)], rows)


def draw(found: Mapping[Panel, Mapping[str, Curve]], picture: Path) -> None:
    """Every method against noise: a picture of normal noise, and one of the other kinds, if any, beside it."""
    beside = picture.with_stem(f"{picture.stem}-other-noise")
    for path, normal in ((picture, True), (beside, False)):
        own = {panel: methods for panel, methods in found.items() if (panel[0] == "normal") == normal}
        if own:
            drawn(own).savefig(path, dpi=100)


def drawn(found: Mapping[Panel, Mapping[str, Curve]]) -> Figure:
    """A column for each manifold, a row for each noise and scale."""
    kinds, shapes = list(dict.fromkeys(p[:2] for p in found)), list(dict.fromkeys(p[2] for p in found))
    ticks = sorted({d for methods in found.values() for curve in methods.values() for d in curve})
    figure = Figure(figsize=(2.5 * len(shapes) + 2.4, 2.3 * len(kinds) + 0.4), layout="constrained")
    grid = figure.subplots(len(kinds), len(shapes), sharex=True, sharey=True, squeeze=False)
    lines: dict[str, Any] = {}
    for (row, kind), (column, shape) in itertools.product(enumerate(kinds), enumerate(shapes)):
        axes = grid[row, column]
        axes.set_title(f"{shape}, {', '.join(kind)}", fontsize=9)
        axes.set_ylim(0, 1.02)
        axes.set_xticks(range(len(ticks)), [f"{d:,}" for d in ticks])
        axes.tick_params(labelsize=8)
        axes.spines[["top", "right"]].set_visible(False)
        lines |= draw_curves(axes, found.get((*kind, shape), {}), ticks)
    figure.supxlabel("features of noise", fontsize=10)
    figure.supylabel(f"geodesic precision@{K}", fontsize=10)
    figure.legend(lines.values(), lines, loc="outside right center", frameon=False, fontsize=8)
    return figure


def draw_curves(axes: Axes, methods: Mapping[str, Curve], ticks: Sequence[int]) -> dict[str, Any]:
    """The curves of one manifold, the first method on top; returns them by name."""
    lines = {}
    for number, (name, curve) in enumerate(methods.items()):
        places = [ticks.index(d) for d in curve]
        means, errors = zip(*((v.mean(), standard_error(v)) for v in curve.values()), strict=True)
        look: dict[str, Any] = {"color": COLOURS[name], "marker": "o", "markersize": 3, "linewidth": 1.2}
        lines[name] = axes.errorbar(places, means, errors, zorder=3 - number / 10, **look)
    return lines


def cells_of(options: argparse.Namespace) -> Iterator[Cell]:
    """All that was asked for, the cheap first: seed after seed, and dimensions rising within one."""
    for seed, dimensions, noise in itertools.product(range(options.seeds), options.dimensions, options.noise):
        shapes, scales = options.shapes, options.scales
        if noise != "normal":
            shapes, scales = [name for name in shapes if name != "mixture"], ["raw"]
        if noise != "normal" and dimensions not in (10, 100, 1000):
            continue
        for shape, scale, method in itertools.product(shapes, scales, options.methods):
            if method not in LIMITS or LIMITS[method].allows(dimensions, seed, options.quick):
                yield Cell(shape, noise, scale, dimensions, method, seed)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure what was asked for, print the tables, draw the picture."""
    methods = [name for name in METHODS if name != "UMAP" or find_spec("umap")]
    parser = argparse.ArgumentParser(description="Geodesic precision of URerF and its peers, in noise.")
    parser.add_argument("--quick", action="store_true", help="two seeds, up to 100 dimensions of noise")
    parser.add_argument("--seeds", type=int, default=10, help="data sets of each cell (10)")
    parser.add_argument("--dimensions", type=int, nargs="+", default=DIMENSIONS, help="features of noise")
    parser.add_argument("--shapes", choices=SHAPES, nargs="+", default=list(SHAPES), help="manifolds (all)")
    parser.add_argument("--scales", choices=SCALES, nargs="+", default=SCALES, help="of the features (both)")
    kinds = ("normal", "lognormal", "t", "correlated")
    parser.add_argument("--noise", choices=kinds, nargs="+", default=kinds, help="kinds of noise (all)")
    parser.add_argument("--methods", choices=methods, nargs="+", default=methods, metavar="NAME", help=f"of {methods}")
    parser.add_argument("--results", type=Path, metavar="JSONL", help="keep results here, and go on from them")
    parser.add_argument("--picture", type=Path, metavar="PNG", help="draw every method against noise")
    options = parser.parse_args(arguments)
    if options.quick:
        options.seeds, options.dimensions = 2, [d for d in options.dimensions if d <= 100]
    if options.seeds < 1:
        parser.error("--seeds must be at least 1")
    print(f"# Nearest on a manifold, in noise: precision@{K}, {options.seeds} seeds\n\n{machine()}\n", flush=True)
    found = panels(measure(list(cells_of(options)), options.results))
    print_aims(found)
    print_panels(found)
    if options.picture:
        draw(found, options.picture)


if __name__ == "__main__":
    main()
