"""Which pairs of digits are alike? Similarity TreeRank's experiment on MNIST (figure 4), all methods on the same pairs.

::

    python benchmarks/mnist_ranking.py mnist_train10k.npz --results mnist.jsonl --peer-python PATH
    python benchmarks/mnist_ranking.py mnist_train10k.npz --results mnist.jsonl --only network smerf --seeds 0 1 2
    python benchmarks/mnist_ranking.py mnist_train10k.npz --results mnist.jsonl --only treerank_calibrated \\
        --ranking-pairs 400000 --leafrank-depth 1
    python benchmarks/mnist_ranking.py mnist_train10k.npz --results quick.jsonl --quick

The file holds ``X`` (10000, 784), bytes, and ``y`` (10000,): the first 10,000 rows of MNIST's training set (LeCun,
Cortes and Burges; for instance the files of github.com/rasbt/mnist-pngs in their order). A seed parts them into 7,000
rows to learn from and 3,000 whose 4,498,500 pairs are scored, so that no test pair has a point that was learned from.
Stated are the area under the ROC curve and the true positive rates at false positive rates 1e-2, 1e-3 and 1e-4 (about
400 pairs).

Each score is a line of the file ``--results`` as soon as its method is done, and is not worked out again; the tables
are made of that file. ``--peer-python`` names a Python with metric-learn 0.7.0 (see `peers.py`); without one LMNN is
left out.
stdout is markdown, stderr is progress.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from measurement import machine, print_table, timed
from peers import Environments, Peer
from sklearn.base import BaseEstimator
from sklearn.decomposition import PCA
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_curve
from sklearn.model_selection import cross_val_predict
from sklearn.neural_network import MLPClassifier

from distforest import SMERF, Labels, TreeRank
from distforest.estimators.pair_columns import Cosine
from distforest.evaluation.roc import ROC
from distforest.forest.pairs import pair_scores
from distforest.sources.point_pairs import PointPairs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Facts = dict[str, Any]
    Scored = Iterator[tuple[str, Floats, Facts]]

FPRS = (1e-2, 1e-3, 1e-4)
CURVE = np.round(np.logspace(-4.5, 0, 91), 9)
"""False positive rates at which a curve is kept, to be drawn."""
VARIANCE_KEPT = 0.95
LAYERS = (146, 140, 134, 128)
"""The paper's: interpolated between 153 components and an encoding of 128 numbers."""
WEIGHT_DECAYS = (1e-4, 1e-2, 1.0)
LEAST_SHARE = 1e-3
"""Added to shares of classes before their logarithm is taken."""
LMNN_ROWS = 3000
LMNN = {"regularization": 0.01, "learn_rate": 1e-4, "max_iter": 300}
"""The paper's regularisation; its rate of learning, 1e-7, leaves the map where it began."""


@dataclass(frozen=True)
class Effort:
    """How much is learned from, scored and grown."""

    train: int = 7000
    test: int = 3000
    trees: int = 500


QUICK = Effort(1500, 600, 50)


@dataclass(frozen=True)
class RankingForest:
    """Trees, pairs of a tree, and depth of the trees that part cells; by default the paper's."""

    trees: int = 44
    pairs: int = 100_000
    leafrank_depth: int = 5

    def __str__(self) -> str:
        parts = [f"{self.trees} trees"]
        if self.pairs != RankingForest.pairs:
            parts.append(f"{self.pairs:,} pairs each")
        if self.leafrank_depth != RankingForest.leafrank_depth:
            parts.append(f"LeafRank of depth {self.leafrank_depth}")
        return ", ".join(parts)


@dataclass(frozen=True)
class Place:
    """The data, where results are kept, and with what a run may be made."""

    data: Path
    results: Path
    effort: Effort
    peers: Environments
    threads: int
    ranking: RankingForest


@dataclass(frozen=True)
class Posteriors:
    """Shares of the classes that a forest gives, and the leaves of the rows to be scored."""

    out_of_bag: Floats
    posterior: Floats
    leaves: NDArray[np.int64]

    def accuracy(self, y_test: NDArray[np.int64]) -> float:
        """Share of the rows to be scored whose class is the largest."""
        return float((self.posterior.argmax(axis=1) == y_test).mean())

    def calibrated(self, y: NDArray[np.int64]) -> Posteriors:
        """Posteriors of a logistic regression on their logarithms, fitted out of bag.

        Those of the training rows are predicted ten-fold, so that none has seen its own label.
        """
        model = LogisticRegression(C=0.1, max_iter=2000)
        training, new = np.log(self.out_of_bag + LEAST_SHARE), np.log(self.posterior + LEAST_SHARE)
        folds = cross_val_predict(model, training, y, cv=10, method="predict_proba")
        return Posteriors(folds, model.fit(training, y).predict_proba(new), self.leaves)


@dataclass(eq=False)
class Known(BaseEstimator):  # type: ignore[misc]
    """A column of pairs whose vectors are known: of the rows to learn from, and of those to be scored."""

    training: Floats
    new: Floats

    def fit_transform(self, X: Floats, y: object) -> Floats:  # noqa: ARG002
        """The vectors of the rows to learn from."""
        return self.training

    def transform(self, X: Floats) -> Floats:  # noqa: ARG002
        """The vectors of the rows to be scored, all of them in their order."""
        return self.new


@dataclass(frozen=True)
class Split:
    """Rows to learn from and rows whose pairs are scored; pixels in [0, 1]."""

    X: Floats
    y: NDArray[np.int64]
    X_test: Floats
    y_test: NDArray[np.int64]
    seed: int
    place: Place

    @classmethod
    def of(cls, place: Place, seed: int) -> Split:
        """The split that a seed makes."""
        with np.load(place.data) as file:
            X, y = file["X"] / 255.0, file["y"].astype(np.int64)
        effort = place.effort
        order = np.random.default_rng(seed).permutation(len(X))[: effort.train + effort.test]
        train, test = order[: effort.train], order[effort.train :]
        return cls(X[train], y[train], X[test], y[test], seed, place)

    @cached_property
    def components(self) -> tuple[Floats, Floats]:
        """Both parts after PCA, fitted on the first, to the components that hold 95 % of the variance."""
        pca = PCA(VARIANCE_KEPT, svd_solver="full").fit(self.X)
        return pca.transform(self.X), pca.transform(self.X_test)

    @cached_property
    def trees(self) -> Posteriors:
        """What extra-trees on the pixels say."""
        place = self.place
        forest = ExtraTreesClassifier(
            place.effort.trees, bootstrap=True, oob_score=True, random_state=self.seed, n_jobs=place.threads
        ).fit(self.X, self.y)
        return Posteriors(forest.oob_decision_function_, forest.predict_proba(self.X_test), forest.apply(self.X_test))

    @cached_property
    def pairs(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """All pairs i < j of the rows to be scored."""
        first, second = np.triu_indices(len(self.y_test), 1)
        return first, second

    @cached_property
    def similar(self) -> NDArray[np.bool_]:
        """Whether the two of a pair are the same digit."""
        first, second = self.pairs
        return self.y_test[first] == self.y_test[second]

    def of_matrix(self, matrix: Floats) -> Floats:
        """The scores of `pairs` from a matrix of all rows by all rows."""
        return matrix[self.pairs]


# --- scores of pairs ------------------------------------------------------------------------------------------


def cosine(rows: Floats) -> Floats:
    """Cosine of the angle between each two rows; a row of zeros is at right angles to all."""
    unit = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
    return unit @ unit.T


def nearness(rows: Floats) -> Floats:
    """Minus the squared Euclidean distance of each two rows."""
    squares = (rows**2).sum(axis=1)
    return 2 * rows @ rows.T - squares[:, None] - squares


def plain(split: Split) -> Scored:
    """Nothing is learned but PCA."""
    components = split.components[1]
    facts = {"components": components.shape[1]}
    yield "Euclidean, PCA", split.of_matrix(nearness(components)), facts
    yield "cosine, PCA", split.of_matrix(cosine(components)), facts
    yield "cosine, pixels", split.of_matrix(cosine(split.X_test)), {}


def lmnn(split: Split) -> Scored:
    """metric-learn's LMNN on PCA, with the paper's regularisation."""
    python = split.place.peers.python_with("metric-learn")
    if python is None:
        print("LMNN is left out: no Python with metric-learn was named (--peer-python)", file=sys.stderr)
        return
    rows, test = split.components
    n_rows = min(LMNN_ROWS, len(rows))
    with tempfile.TemporaryDirectory() as folder, Peer(python) as peer:
        paths = {name: f"{folder}/{name}.npy" for name in ("rows", "labels")}
        np.save(paths["rows"], rows[:n_rows])
        np.save(paths["labels"], split.y[:n_rows])
        found = peer.ask("linear_map", metric="LMNN", **paths, seed=split.seed, **LMNN)
    mapped = test @ np.array(found["components"]).T
    facts = {"rows": n_rows, "seconds to fit": found["seconds"]}
    yield "LMNN, distance", split.of_matrix(nearness(mapped)), facts
    yield "LMNN, cosine", split.of_matrix(cosine(mapped)), facts


def decayed_network(split: Split) -> Scored:
    """The paper's encoder with the weight decay that predicts a seventh of the training rows best."""
    rows = split.components[0]
    n_held = len(rows) // 7
    accuracy = {
        decay: trained(rows[n_held:], split.y[n_held:], decay, split.seed).score(rows[:n_held], split.y[:n_held])
        for decay in WEIGHT_DECAYS
    }
    best = max(accuracy, key=lambda decay: accuracy[decay])
    yield from network_scores(split, best, "network with weight decay")


def trained(rows: Floats, labels: NDArray[np.int64], decay: float, seed: int) -> MLPClassifier:
    """The network, trained until its loss has not fallen by 1e-6 for twenty rounds."""
    network = MLPClassifier(LAYERS, alpha=decay, max_iter=1000, tol=1e-6, n_iter_no_change=20, random_state=seed)
    return network.fit(rows, labels)


def network_scores(split: Split, decay: float, name: str) -> Scored:
    """Cosine of the 128 numbers before and after their ReLU (the paper's last layer has none), and of the classes."""
    rows, test = split.components
    network = trained(rows, split.y, decay, split.seed)
    posterior = network.predict_proba(test)
    facts = {
        "weight decay": decay,
        "rounds": network.n_iter_,
        "loss": float(network.loss_),
        "accuracy": float((posterior.argmax(axis=1) == split.y_test).mean()),
    }
    values = test
    for weights, shift in zip(network.coefs_[:-1], network.intercepts_[:-1], strict=True):
        linear = values @ weights + shift
        values = np.maximum(linear, 0)
    yield f"{name}, cosine of the encoding", split.of_matrix(cosine(linear)), facts
    yield f"{name}, cosine of the encoding after ReLU", split.of_matrix(cosine(values)), facts
    yield f"{name}, product of posteriors", split.of_matrix(posterior @ posterior.T), facts


def extra_trees(split: Split) -> Scored:
    """Extra-trees on pixels: product of posteriors, and share of common leaves."""
    trees = split.trees
    facts = {"accuracy": trees.accuracy(split.y_test)}
    yield "extra-trees, product of posteriors", split.of_matrix(trees.posterior @ trees.posterior.T), facts
    yield "extra-trees, share of common leaves", split.of_matrix(common(trees.leaves)), facts


def calibrated_trees(split: Split) -> Scored:
    """The same posteriors, made sharper by what they were worth out of bag."""
    trees = split.trees.calibrated(split.y)
    facts = {"accuracy": trees.accuracy(split.y_test)}
    yield "extra-trees, product of calibrated posteriors", split.of_matrix(trees.posterior @ trees.posterior.T), facts


def common(leaves: NDArray[np.int64]) -> Floats:
    """Share of the trees in which two rows share a leaf."""
    found = np.zeros((len(leaves), len(leaves)))
    for of_tree in leaves.T:
        found += of_tree[:, None] == of_tree
    return found / leaves.shape[1]


def smerf(split: Split, splitter: str) -> Scored:
    """1 - distance is, a tree, the product of two leaves' class shares; its mean over the trees is the score."""
    effort = split.place.effort
    forest = SMERF(effort.trees, splitter=splitter, random_state=split.seed, n_jobs=split.place.threads)
    grown, _ = timed(lambda: forest.fit(split.X, Labels(split.y)))
    scored, distance = timed(lambda: forest.distance(split.X_test))
    facts = {"seconds to fit": grown, "seconds to score": scored}
    yield f"SMERF, {splitter} cuts, 1 - distance", split.of_matrix(1 - distance), facts
    yield f"SMERF, {splitter} cuts, proximity", split.of_matrix(forest.proximity(split.X_test)), facts


def treerank_plug_in(split: Split) -> Scored:
    """The paper's ranking forest that also reads the product of the posteriors and the cosine."""
    trees = split.trees
    columns = {"product of posteriors": Known(trees.out_of_bag, trees.posterior), "cosine": Cosine()}
    yield from ranked(split, "diagonal", columns)


def treerank_calibrated(split: Split) -> Scored:
    """The paper's ranking forest that also reads products of calibrated and of plain posteriors, and the cosine."""
    trees, sharp = split.trees, split.trees.calibrated(split.y)
    columns = {
        "products of calibrated": Known(sharp.out_of_bag, sharp.posterior),
        "and plain posteriors": Known(trees.out_of_bag, trees.posterior),
        "cosine": Cosine(),
    }
    yield from ranked(split, "diagonal", columns)


def ranked(split: Split, region: str, columns: dict[str, Any]) -> Scored:
    """Trees of depth 15 on PCA."""
    rows, test = split.components
    asked, threads = split.place.ranking, split.place.threads
    forest = TreeRank(
        asked.trees,
        region=region,
        n_pairs=asked.pairs,
        leafrank_depth=asked.leafrank_depth,
        pair_columns=list(columns.values()),
        random_state=split.seed,
        n_jobs=threads,
    )
    grown, _ = timed(lambda: forest.fit(rows, split.y))
    scored, scores = timed(lambda: similarity_of_pairs(forest, test, split.pairs))
    facts = {
        "ranking forest": asdict(asked),
        "AUC of training pairs": forest.auc_,
        "seconds to fit": grown,
        "seconds to score": scored,
    }
    yield ", ".join([f"TreeRank, {asked}, {region}", *columns]), scores, facts


def similarity_of_pairs(forest: TreeRank, rows: Floats, pairs: tuple[NDArray[np.intp], NDArray[np.intp]]) -> Floats:
    """The similarities of pairs of rows, each pair once; the further columns are worked out once a row."""
    points = forest.extended(rows)
    left, right = (side.astype(np.int32) for side in pairs)
    numbered = PointPairs(pair_scores.columns_of(forest.forest_), points, points, left, right)
    return 1.0 - pair_scores.pair_distance(forest.forest_, numbered, forest.n_jobs or 1)


METHODS: dict[str, Callable[[Split], Scored]] = {
    "plain": plain,
    "lmnn": lmnn,
    "treerank_diagonal": partial(ranked, region="diagonal", columns={}),
    "treerank_square": partial(ranked, region="square", columns={}),
    "network": partial(network_scores, decay=WEIGHT_DECAYS[0], name="network"),
    "decayed_network": decayed_network,
    "extra_trees": extra_trees,
    "smerf_random": partial(smerf, splitter="random"),
    "smerf_best": partial(smerf, splitter="best"),
    "calibrated_trees": calibrated_trees,
    "treerank_plug_in": treerank_plug_in,
    "treerank_calibrated": treerank_calibrated,
}


# --- results --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Result:
    """What one score has reached on one split."""

    method: str
    score: str
    seed: int
    effort: Effort
    auc: float
    tpr: tuple[float, ...]
    curve: tuple[float, ...] = field(repr=False)
    seconds: float
    facts: Facts

    @classmethod
    def of_line(cls, line: str) -> Result:
        """From a line of the file of results."""
        found = json.loads(line)
        effort = Effort(**found.pop("effort"))
        return cls(**{**found, "effort": effort, "tpr": tuple(found["tpr"]), "curve": tuple(found["curve"])})


def results_in(place: Place) -> list[Result]:
    """What has been worked out with the same effort; of a score that stands there twice, the later."""
    if not place.results.exists():
        return []
    found = [Result.of_line(line) for line in place.results.read_text().splitlines()]
    return list({(own.method, own.score, own.seed): own for own in found if own.effort == place.effort}.values())


def work_out(name: str, split: Split) -> None:
    """Add the scores of a method on a split to the file of results."""
    start, lines = time.perf_counter(), []
    for score, values, facts in METHODS[name](split):
        curve = ROC(*roc_curve(split.similar, values)[:2])
        result = Result(
            method=name,
            score=score,
            seed=split.seed,
            effort=split.place.effort,
            auc=curve.auc,
            tpr=tuple(curve.tpr_at(fpr) for fpr in FPRS),
            curve=tuple(curve.at(CURVE).tolist()),
            seconds=time.perf_counter() - start,
            facts=facts,
        )
        lines.append(json.dumps(asdict(result)) + "\n")
        print(f"seed {split.seed}, {score}: {result.auc:.3f}, {result.tpr}, {result.seconds:.0f} s", file=sys.stderr)
    with split.place.results.open("a") as file:
        file.writelines(lines)


def is_done(name: str, split: Split) -> bool:
    """Whether the file of results has a method on a split, if it is a ranking forest the same one."""
    asked = asdict(split.place.ranking)
    found = [own for own in results_in(split.place) if (own.method, own.seed) == (name, split.seed)]
    return any(own.facts.get("ranking forest", asked) == asked for own in found)


def spread(values: Sequence[float]) -> str:
    """Mean, and with several splits its standard error."""
    array = np.array(values)
    mean = f"{array.mean():.3f}"
    if len(array) == 1:
        return mean
    return f"{mean} ± {array.std(ddof=1) / math.sqrt(len(array)):.3f}"


def print_results(results: Sequence[Result]) -> None:
    """The table of all scores, in the order of the methods, and the facts of each on its first split."""
    scores = {own.score: [other for other in results if other.score == own.score] for own in results}
    rows = [
        [
            score,
            spread([own.auc for own in runs]),
            *(spread([own.tpr[column] for own in runs]) for column in range(len(FPRS))),
            str(len(runs)),
        ]
        for score, runs in scores.items()
    ]
    print_table(["score of a pair", "AUC", *(f"TPR at FPR {fpr:g}" for fpr in FPRS), "splits"], rows)
    for score, runs in scores.items():
        facts = ", ".join(f"{name} {value:.4g}" for name, value in runs[0].facts.items() if not isinstance(value, dict))
        print(f"- {score}: {facts + '; ' if facts else ''}done after {runs[0].seconds:.0f} s")
    print(flush=True)


def draw(results: Sequence[Result], path: Path) -> None:
    """The curves of the first split, as in figure 4 but with false positives on a logarithmic axis."""
    from matplotlib.figure import Figure  # noqa: PLC0415  (only for a picture)

    seed = min(own.seed for own in results)
    figure = Figure(figsize=(9, 6), layout="constrained")
    axes = figure.add_subplot(xscale="log", xlabel="false positive rate", ylabel="true positive rate")
    for number, own in enumerate(own for own in results if own.seed == seed):
        axes.plot(CURVE, own.curve, label=own.score, linestyle=("-", "--", ":")[number // 10 % 3])
    axes.legend(fontsize="x-small", loc="center left", bbox_to_anchor=(1, 0.5))
    figure.savefig(path)


def main(arguments: Sequence[str] | None = None) -> None:
    """Work out what is not there yet, and print the tables."""
    parser = argparse.ArgumentParser(description="Similarities of digits, judged by their ROC curves.")
    parser.add_argument("data", type=Path, help="the file of digits: X (n, 784) and y (n,) in .npz")
    parser.add_argument("--results", type=Path, required=True, metavar="FILE", help="JSON lines; added to")
    parser.add_argument("--only", nargs="*", choices=tuple(METHODS), metavar="METHOD", help=f"of {', '.join(METHODS)}")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0], metavar="SEED", help="a split for each (0)")
    parser.add_argument("--peer-python", nargs="+", default=[], metavar="PATH", help="a Python with metric-learn")
    parser.add_argument("--threads", type=int, default=1, help="threads that grow trees (1)")
    parser.add_argument("--ranking-trees", type=int, default=44, help="trees of a ranking forest (44, the paper's)")
    parser.add_argument("--ranking-pairs", type=int, default=100_000, help="pairs of each (100,000, the paper's)")
    parser.add_argument("--leafrank-depth", type=int, default=5, help="of the trees that part cells (5, the paper's)")
    parser.add_argument("--quick", action="store_true", help="1,500 and 600 rows, 50 trees")
    parser.add_argument("--picture", type=Path, metavar="FILE", help="draw the curves of the first split")
    options = parser.parse_args(arguments)
    effort = QUICK if options.quick else Effort()
    peers = Environments(tuple(options.peer_python))
    ranking = RankingForest(options.ranking_trees, options.ranking_pairs, options.leafrank_depth)
    place = Place(options.data, options.results, effort, peers, options.threads, ranking)
    names = METHODS if options.only is None else options.only
    for seed in options.seeds:
        split = Split.of(place, seed)
        for name in (name for name in names if not is_done(name, split)):
            work_out(name, split)
    print(f"# Similar digits\n\n{machine()}\n\n{place.peers.facts()}\n")
    print(f"{effort.train:,} rows to learn from, all pairs of {effort.test:,} others.\n")
    results = sorted(results_in(place), key=lambda own: list(METHODS).index(own.method))
    print_results(results)
    if options.picture is not None and results:
        draw(results, options.picture)


if __name__ == "__main__":
    main()
