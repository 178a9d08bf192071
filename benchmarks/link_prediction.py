"""Links of new nodes (the SMERF paper, section 5.2 and figure 2): SMERF beside other ways to score a pair of nodes.

``python benchmarks/link_prediction.py [FILE.npz ...] [--shares S ...] [--repeats R] [--trees B] [--pairs M]
[--picture FILE]`` takes the network of each file, with the arrays ``A``, the adjacency matrix, and ``X``, the features
of the nodes, or ``y``, their kinds; without a file the network of the Lazega law firm that is packaged. A share of the
nodes and the links among them are known. Scored are the pairs of two new nodes, and the pairs of a new and a known
node. Printed are the area under the ROC curve and the average precision, mean and standard deviation over the repeats;
splits without a link to be found are left out. RFD, TreeRank and the random forest learn from at most M known pairs.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import scipy.sparse
from measurement import machine, print_table
from sklearn.ensemble import RandomForestClassifier
from sklearn.metrics import average_precision_score, roc_auc_score
from sklearn.metrics.pairwise import cosine_similarity

from distforest import RFD, SMERF, Graph, TreeRank, tune

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]


class Split(NamedTuple):
    """What is known: the features of the known nodes, the links among them, and the features of the new nodes.

    ``seed`` and ``trees`` are those of a forest; ``pairs`` are the numbers of two known nodes each, drawn at random,
    shape (2, n_pairs).
    """

    X: Floats
    linked: Ints
    new: Floats
    seed: int
    trees: int
    pairs: Ints

    @property
    def graph(self) -> Graph:
        """The links among the known nodes."""
        return Graph(scipy.sparse.csr_array(self.linked))

    @property
    def of_pairs(self) -> Ints:
        """Which of the pairs are linked."""
        return self.linked[self.pairs[0], self.pairs[1]]


Scores = tuple["Floats", "Floats"]
"""Scores of each new node beside each new node, shape (n_new, n_new), and beside each known one, (n_new, n_known)."""

NEAREST_TO_ITSELF = (None, 0.5, 0.0)
"""Distances of a node to itself of which `tuned` chooses; None is that of a node without a loop, 1."""


def smerf(split: Split) -> Scores:
    """1 - the distance of a forest that was taught the graph."""
    forest = SMERF(split.trees, min_samples_split=4, random_state=split.seed).fit(split.X, split.graph)
    return 1 - forest.distance(split.new), 1 - forest.transform(split.new)


def own_links(split: Split) -> Scores:
    """As `smerf`; beside known nodes the one-sided distance."""
    forest = SMERF(split.trees, min_samples_split=4, random_state=split.seed).fit(split.X, split.graph)
    return 1 - forest.distance(split.new), 1 - forest.training_distance(split.new, split.graph, sides="one")


def tuned(split: Split) -> Scores:
    """As `smerf`, with the diagonal and `min_samples_split` chosen by the area under the ROC curve out of bag.

    Beside known nodes it is the distance that is better out of bag.
    """
    grid = {"diagonal": NEAREST_TO_ITSELF, "min_samples_split": [2, 4, 8]}
    found = tune(SMERF(split.trees, random_state=split.seed), grid, split.X, split.graph, scoring="roc_auc")
    forest = found.best_estimator_
    graph = Graph(split.graph.adjacency, diagonal=found.best_params_["diagonal"])
    return 1 - forest.distance(split.new), 1 - forest.training_distance(split.new, graph)


def rfd(split: Split) -> Scores:
    """1 - the distance of an RFD that was taught known pairs."""
    forest = RFD(split.trees, random_state=split.seed).fit_pairs(split.X, split.pairs.T, split.of_pairs)
    return 1 - forest.distance(split.new), 1 - forest.distance(split.new, split.X)


def tree_rank(split: Split) -> Scores:
    """The rank by a ranking forest of a tenth of the trees, as it has costly ones."""
    forest = TreeRank(max(1, split.trees // 10), random_state=split.seed)
    forest.fit_pairs(split.X, split.pairs.T, split.of_pairs)
    return -forest.distance(split.new), -forest.distance(split.new, split.X)


def random_forest(split: Split) -> Scores:
    """The probability by scikit-learn's forest on |x - x'| and (x + x') / 2."""

    def columns(one: Floats, other: Floats) -> Floats:
        return np.hstack([abs(one - other), (one + other) / 2])

    left, right = split.pairs
    forest = RandomForestClassifier(split.trees, random_state=split.seed)
    forest.fit(columns(split.X[left], split.X[right]), split.of_pairs)

    def scores(others: Floats) -> Floats:
        n, m = len(split.new), len(others)
        one, other = np.repeat(np.arange(n), m), np.tile(np.arange(m), n)
        shares = forest.predict_proba(columns(split.new[one], others[other]))
        return (shares[:, 1] if shares.shape[1] == 2 else np.zeros(len(one))).reshape(n, m)

    return scores(split.new), scores(split.X)


def cosine(split: Split) -> Scores:
    """The cosine of the features of two nodes."""
    return cosine_similarity(split.new), cosine_similarity(split.new, split.X)


METHODS: dict[str, Callable[[Split], Scores]] = {
    "SMERF": smerf,
    "SMERF, own links": own_links,
    "SMERF, chosen out of bag": tuned,
    "RFD": rfd,
    "TreeRank": tree_rank,
    "random forest on pairs": random_forest,
    "cosine": cosine,
}
PAIRS = ("two new nodes", "a new and a known node")
SCORES = ("AUC-ROC", "AUC-PR")


def split_of(linked: Ints, X: Floats, known: Ints, new: Ints, seed: int, options: argparse.Namespace) -> Split:
    """The nodes of these numbers as known and new ones."""
    left, right = np.triu_indices(len(known), 1)
    some = np.random.default_rng(seed).permutation(len(left))[: options.pairs]
    pairs = np.stack([left[some], right[some]])
    return Split(X[known], linked[np.ix_(known, known)], X[new], seed, options.trees, pairs)


def measured(linked: Ints, X: Floats, options: argparse.Namespace) -> dict[str, Floats]:
    """Both scores of each method, shape (n_kinds of pairs, 2, n_shares, n_repeats); NaN where nothing can be judged."""
    found = {name: np.full((2, 2, len(options.shares), options.repeats), np.nan) for name in METHODS}
    for place, share in enumerate(options.shares):
        for repeat in range(options.repeats):
            order = np.random.default_rng(repeat).permutation(len(X))
            known, new = np.split(order, [round(share * len(X))])
            split = split_of(linked, X, known, new, repeat, options)
            above = np.triu_indices(len(new), 1)
            truths = linked[np.ix_(new, new)][above], linked[np.ix_(new, known)].ravel()
            if not split.of_pairs.any():
                continue
            for name, method in METHODS.items():
                of_new, of_known = method(split)
                for kind, (truth, score) in enumerate(zip(truths, (of_new[above], of_known.ravel()), strict=True)):
                    if 0 < truth.sum() < len(truth):
                        found[name][kind, :, place, repeat] = (
                            roc_auc_score(truth, score),
                            average_precision_score(truth, score),
                        )
    return found


def picture(found: dict[str, dict[str, Floats]], shares: list[float], path: str) -> None:
    """Draw both scores of pairs of new nodes over the shares, a column for each network, as the paper's figure 2."""
    import matplotlib.pyplot as plt  # noqa: PLC0415  (only a picture needs it)

    figure, panels = plt.subplots(2, len(found), figsize=(1 + 4 * len(found), 6), squeeze=False, layout="constrained")
    for column, (network, of_methods) in enumerate(found.items()):
        for row, score in enumerate(SCORES):
            for name, values in of_methods.items():
                mean, spread = np.nanmean(values[0, row], axis=1), np.nanstd(values[0, row], axis=1)
                panels[row, column].errorbar(shares, mean, spread, marker="o", capsize=2, label=name)
            panels[row, column].set(title=network, xlabel="share of nodes to learn from", ylabel=score)
    panels[0, 0].legend(frameon=False, fontsize=7)
    figure.savefig(path)


def networks(files: list[str]) -> dict[str, tuple[Ints, Floats]]:
    """The symmetric links, without loops, and the features of each network: of kinds, one column for each."""
    found = {}
    packaged = resources.files("distforest") / "data" / "lazega.npz"
    with resources.as_file(packaged) as lawyers:
        for path in [Path(file) for file in files] or [lawyers]:
            with np.load(path) as file:
                linked = file["A"] > 0
                X = file["X"].astype(np.float64) if "X" in file else np.eye(file["y"].max() + 1)[file["y"]]
            linked = (linked | linked.T) & ~np.eye(len(linked), dtype=bool)
            found[path.stem] = (linked.astype(np.int64), X)
    return found


def main() -> None:
    """Measure each network, and print a table for each score."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="*")
    parser.add_argument("--shares", type=float, nargs="+", default=[place / 10 for place in range(1, 10)])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--trees", type=int, default=200)
    parser.add_argument("--pairs", type=int, default=20_000)
    parser.add_argument("--picture")
    options = parser.parse_args()
    warnings.filterwarnings("ignore")  # a handful of nodes may have no link, or trees no split
    print(f"{machine()}, {options.trees} trees, {options.repeats} repeats, at most {options.pairs:,} pairs")
    found = {}
    for network, (linked, X) in networks(options.files).items():
        start = time.process_time()
        found[network] = measured(linked, X, options)
        seconds = time.process_time() - start
        print(f"\n{network}: {len(X)} nodes, {linked.sum() // 2:,} links, {seconds:.0f} s of the processor")
        for kind, of_pairs in enumerate(PAIRS):
            for row, score in enumerate(SCORES):
                print(f"\n{of_pairs}, {score}\n")
                cells = [
                    [name, *(f"{np.nanmean(one):.3f} ± {np.nanstd(one):.3f}" for one in values[kind, row])]
                    for name, values in found[network].items()
                ]
                print_table(["share of nodes", *(f"{share:g}" for share in options.shares)], cells)
    if options.picture:
        picture(found, options.shares, options.picture)


if __name__ == "__main__":
    main()
