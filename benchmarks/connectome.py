"""The connectome of a larva's mushroom body: whose nearest neurons are of the same type, as in URerF's figure 5.

::

    pip install '.[plot]'
    python benchmarks/connectome.py                              ten seeds, 100 and 500 trees (about two minutes)
    python benchmarks/connectome.py --seeds 2 --trees 20         a first look
    python benchmarks/connectome.py --edges ranks                another embedding: synapses as ranks
    python benchmarks/connectome.py --picture connectome.png     the curves, with the most trees asked for

stdout is markdown, stderr is progress. UMAP has its row where umap-learn is installed.

The 213 neurons become points by the adjacency spectral embedding: three left and three right singular vectors, each
times the root of its singular value, so that three features say to whom a neuron speaks and three to whom it listens.
An edge is the presence of a synapse, as in the paper. No neuron has a synapse with itself; half the sum of its both
degrees over n - 1 stands there, as the embedding has a place for what such an edge would be.

For each neuron the others are ordered by each method's distance. Of the first k, precision is the share of the
neuron's own type, and recall the share that these are of all others of that type; means over the neurons, ties broken
in expectation. The paper goes up to k = 250; there are 212 others, so the last k is 212, where all methods are equal.
± is the standard error of the mean over the seeds; Euclidean and Isomap have no seed. "best cuts" is the default forest
but for the best cut by Fast-BIC instead of a random one; "as the paper has it" is axis-aligned, as a twentieth of six
features is less than one.
"""

from __future__ import annotations

import argparse
import math
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.figure import Figure
from measurement import machine, print_table
from measures import component_precision_recall
from scipy.sparse.linalg import svds
from scipy.spatial.distance import cdist
from scipy.stats import rankdata
from simulations import PAPER_RULE
from sklearn.ensemble import RandomTreesEmbedding
from sklearn.manifold import Isomap

from distforest import URerF

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]

HALF = 3
"""Features of a neuron as a sender, and as many as a receiver."""
STEP = 50
N_NEIGHBORS = 10
FORESTS: dict[str, dict[str, Any]] = {
    "URerF, defaults": {},
    "URerF, best cuts": {"criterion": "fast_bic", "splitter": "best"},
    "URerF, as the paper has it": PAPER_RULE,
}
COLOURS = {
    "URerF, defaults": "#0072B2",
    "URerF, best cuts": "#56B4E9",
    "URerF, as the paper has it": "#009E73",
    "RandomTreesEmbedding": "#E69F00",
    "Isomap": "#D55E00",
    "UMAP": "#CC79A7",
    "Euclidean": "#000000",
}


@dataclass(frozen=True)
class Neurons:
    """Points and their types: features of shape (n, 6), codes of shape (n,), names of the codes."""

    points: Floats
    codes: Ints
    names: Sequence[str]

    @classmethod
    def of_the_right_half(cls, edges: str) -> Neurons:
        """The neurons as they ship with the benchmarks, embedded."""
        with np.load(Path(__file__).parent / "data" / "drosophila_right.npz") as file:
            return cls(spectral_embedding(edge_weights(file["A"], edges), HALF), file["y"], file["classes"].tolist())


@dataclass(frozen=True)
class Method:
    """Something that says how far apart points are, given a seed where it has one."""

    name: str
    distance: Callable[[Floats, int], Floats]
    is_random: bool = True


def edge_weights(synapses: NDArray[np.uint8], edges: str) -> Floats:
    """What an edge weighs: 1, or the rank of its number of synapses over the number of edges."""
    weights = synapses.astype(np.float64)
    present = weights > 0
    weights[present] = rankdata(weights[present]) / present.sum() if edges == "ranks" else 1.0
    return weights


def spectral_embedding(adjacency: Floats, n_dimensions: int) -> Floats:
    """Adjacency spectral embedding of a directed graph (Sussman et al., 2012), shape (n, 2 * n_dimensions).

    With A + diag((in-degree + out-degree) / (2 (n - 1))) = U S V' the rows of [U sqrt(S), V sqrt(S)] for the largest
    singular values. The largest entry of each left vector is positive.
    """
    n = len(adjacency)
    augmented = adjacency + np.diag((adjacency.sum(axis=0) + adjacency.sum(axis=1)) / (2.0 * (n - 1)))
    left, values, right = svds(augmented, k=n_dimensions, v0=np.ones(n))
    order = np.argsort(-values)
    left, right = left[:, order], right[order].T
    signs = np.sign(left[np.argmax(np.abs(left), axis=0), np.arange(n_dimensions)])
    return np.hstack([left, right]) * np.tile(signs * np.sqrt(values[order]), 2)


def forest(trees: int, params: dict[str, Any]) -> Callable[[Floats, int], Floats]:
    """Distances by URerF."""
    return lambda points, seed: URerF(n_estimators=trees, random_state=seed, **params).fit(points).distance()


def random_trees(trees: int) -> Callable[[Floats, int], Floats]:
    """Share of scikit-learn's random trees in which two points are in different leaves."""

    def distance(points: Floats, seed: int) -> Floats:
        leaves = RandomTreesEmbedding(trees, random_state=seed).fit(points).apply(points)
        return (leaves[:, None] != leaves).mean(axis=2)

    return distance


def isomap(points: Floats, _seed: int) -> Floats:
    """Shortest paths along the graph of the nearest neighbours."""
    return Isomap(n_neighbors=N_NEIGHBORS).fit(points).dist_matrix_


def umap(points: Floats, seed: int) -> Floats:
    """Euclidean distances in UMAP's plane, by its defaults."""
    from umap import UMAP  # noqa: PLC0415  (an optional peer)

    plane = UMAP(random_state=seed, n_jobs=1).fit_transform(points)
    return cdist(plane, plane)


def methods(trees: Sequence[int]) -> list[Method]:
    """All that is compared: forests of each size, and their peers."""
    found = [Method(f"{name}, {n} trees", forest(n, own)) for name, own in FORESTS.items() for n in trees]
    found += [Method(f"RandomTreesEmbedding, {n} trees", random_trees(n)) for n in trees]
    found.append(Method("Isomap", isomap, is_random=False))
    if find_spec("umap"):
        found.append(Method("UMAP", umap))
    return [*found, Method("Euclidean", lambda points, _seed: cdist(points, points), is_random=False)]


def precision_recall(distance: Floats, codes: Ints, sizes: Sequence[int]) -> Floats:
    """Precision and recall at each k, shape (2, n_sizes)."""
    return np.transpose([component_precision_recall(-distance, codes, k) for k in sizes])


def compared(neurons: Neurons, trees: Sequence[int], seeds: int) -> dict[str, Floats]:
    """Precision and recall of each method by its name, shape (n_seeds, 2, n_sizes)."""
    found = {}
    for method in methods(trees):
        print(method.name, file=sys.stderr, flush=True)
        runs = range(seeds if method.is_random else 1)
        distances = (method.distance(neurons.points, seed) for seed in runs)
        found[method.name] = np.array([precision_recall(own, neurons.codes, sizes_of(neurons)) for own in distances])
    return found


def sizes_of(neurons: Neurons) -> list[int]:
    """The numbers of neighbours: 50, 100, ..., and all others."""
    others = len(neurons.codes) - 1
    return [*range(STEP, others, STEP), others]


def cell(values: Floats) -> str:
    """Mean ± standard error of the mean; the mean alone of one value."""
    error = f" ± {values.std(ddof=1) / math.sqrt(len(values)):.3f}" if len(values) > 1 else ""
    return f"{values.mean():.3f}{error}"


def print_comparison(found: dict[str, Floats], sizes: Sequence[int]) -> None:
    """Print a table of precisions and one of recalls, the best method at the smallest k first."""
    ranked = sorted(found, key=lambda name: -found[name][:, 0, 0].mean())
    for place, title in enumerate(("Precision", "Recall")):
        print(f"## {title}\n")
        rows = [[name, *map(cell, found[name][:, place].T)] for name in ranked]
        print_table(["method", *(f"k = {k}" for k in sizes)], rows)


def print_bounds(neurons: Neurons) -> None:
    """Print what chance would reach, and what the sizes of the types allow."""
    sizes, alike = sizes_of(neurons), np.bincount(neurons.codes)[neurons.codes] - 1
    most = ", ".join(f"{np.minimum(alike / k, 1.0).mean():.3f}" for k in sizes)
    print(f"Precision by chance: {np.mean(alike / sizes[-1]):.3f}; at most, in the order of k: {most}.\n")


def draw(neurons: Neurons, found: dict[str, Floats], picture: str, trees: int) -> None:
    """Draw the neurons in two of their features, and precision against recall."""
    figure = Figure(figsize=(11, 3.6), layout="constrained")
    places, curves = figure.subplots(1, 2)
    for code, (name, marker) in enumerate(zip(neurons.names, "osD^", strict=True)):
        x, y = neurons.points[neurons.codes == code][:, [0, HALF]].T
        places.scatter(x, y, s=14, marker=marker, alpha=0.7, linewidths=0, label=name)
    places.set(xlabel="first feature as a sender", ylabel="first feature as a receiver", title="Neurons by type")
    places.legend(frameon=False)
    for name, colour in COLOURS.items():
        own = found.get(name, found.get(f"{name}, {trees} trees"))
        if own is not None:
            precision, recall = own.mean(axis=0)
            curves.plot(recall, precision, "o-", color=colour, markersize=4, label=name)
    title = f"k = {', '.join(map(str, sizes_of(neurons)))}; forests of {trees} trees"
    curves.set(xlabel="recall", ylabel="precision", title=title)
    curves.legend(frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
    for axes in (places, curves):
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(picture, dpi=90)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the comparison, print its tables, and draw it."""
    parser = argparse.ArgumentParser(description="Neurons of one type as nearest neighbours, by URerF and its peers.")
    parser.add_argument("--seeds", type=int, default=10, help="seeds of each method that has one (10)")
    parser.add_argument("--trees", type=int, nargs="+", default=[100, 500], help="sizes of the forests (100 500)")
    parser.add_argument("--edges", choices=("presence", "ranks"), default="presence", help="what an edge weighs")
    parser.add_argument("--picture", metavar="PNG", help="draw the curves into this file")
    options = parser.parse_args(arguments)
    if min(options.seeds, *options.trees) < 1:
        parser.error("--seeds and --trees must be at least 1")
    neurons = Neurons.of_the_right_half(options.edges)
    print(f"# The mushroom body, edges by {options.edges}: means of {options.seeds} seeds\n\n{machine()}\n")
    print_bounds(neurons)
    found = compared(neurons, options.trees, options.seeds)
    print_comparison(found, sizes_of(neurons))
    if options.picture:
        draw(neurons, found, options.picture, max(options.trees))


if __name__ == "__main__":
    main()
