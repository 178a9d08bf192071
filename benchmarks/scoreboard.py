"""Every method with its defaults beside the simple ways to answer the same question, in one run.

::

    python benchmarks/scoreboard.py                                   all questions, five splits
    python benchmarks/scoreboard.py --only clusters labels --splits 2
    python benchmarks/scoreboard.py --data FOLDER                     each .npz file with X and y there, too

stdout is markdown: for each question a table of sets and methods, the mean of the splits, the best of each set in bold,
and the median seconds of fitting and answering (without what several rivals share, such as distances to landmarks).
stderr is progress. A set has at most 1,000 rows, drawn and shuffled by the split, of which half are asked about; where
classes are new, there are up to 1,000 rows of each kind. A method that cannot answer for a set, or whose package is not
installed, has an empty cell. Greater is better in all tables.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy
from measurement import machine, print_table
from sklearn import datasets
from sklearn.cluster import HDBSCAN, AgglomerativeClustering, KMeans
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import (
    ExtraTreesClassifier,
    HistGradientBoostingClassifier,
    IsolationForest,
    RandomForestClassifier,
    RandomForestRegressor,
    RandomTreesEmbedding,
)
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import adjusted_rand_score, roc_auc_score, roc_curve
from sklearn.neighbors import KNeighborsClassifier, NeighborhoodComponentsAnalysis
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from distforest import (
    RFD,
    SMERF,
    Distances,
    Graph,
    SimForestClassifier,
    SimForestOutlier,
    TreeRank,
    URerF,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

MOST_ROWS = 1000
N_NEAREST = 10
N_PAIRS = 40_000
HERE = Path(__file__).parent


@dataclass(frozen=True)
class Split:
    """Rows to learn from, and rows that are asked about, of one set; ``X`` is scaled by the first ones."""

    X: Array
    y: Array
    X_new: Array
    y_new: Array
    seed: int

    @property
    def rng(self) -> np.random.Generator:
        """The same random numbers for each method."""
        return np.random.default_rng(self.seed)


Answer = Callable[[], "float | tuple[float, ...]"]
Methods = Iterator[tuple[str, Answer]]


# --- sets -----------------------------------------------------------------------------------------------------


def tables(folder: Path | None) -> Iterator[tuple[str, Array, Array]]:
    """Sets of numbers with labels: scikit-learn's, those of the project, and those of a folder."""
    for name in ("iris", "wine", "breast_cancer", "digits"):
        yield name, *getattr(datasets, f"load_{name}")(return_X_y=True)
    packaged = Path(str(resources.files("distforest") / "data"))
    for path in sorted([*packaged.glob("*.npz"), *HERE.glob("data/*.npz"), *(folder.glob("*.npz") if folder else ())]):
        with np.load(path) as file:
            if {"X", "y"} <= set(file) and file["X"].ndim == 2:
                yield path.stem, file["X"].astype(float), file["y"].astype(int)


def halves(X: Array, y: Array, seed: int) -> Split:
    """Half of the rows to learn from, the others new."""
    order = np.random.default_rng(seed).permutation(len(X))[:MOST_ROWS]
    return _scaled(X, y, order[: len(order) // 2], order[len(order) // 2 :], seed)


def new_classes(X: Array, y: Array, seed: int) -> Split | None:
    """Half of the classes to learn from, rows of the others new; None if there are fewer than four."""
    rng = np.random.default_rng(seed)
    classes = rng.permutation(np.unique(y))
    if len(classes) < 4:
        return None
    order, taught = rng.permutation(len(X)), np.isin(y, classes[: len(classes) // 2])
    return _scaled(X, y, order[taught[order]][:MOST_ROWS], order[~taught[order]][:MOST_ROWS], seed)


def _scaled(X: Array, y: Array, train: Array, new: Array, seed: int) -> Split:
    scaled = StandardScaler().fit(X[train]).transform(X)
    return Split(scaled[train], y[train], scaled[new], y[new], seed)


# --- what is asked ----------------------------------------------------------------------------------------------


def shared_labels(distance: Array, y: Array) -> float:
    """The share of the nearest rows that have the label of their row."""
    distance = np.array(distance)
    np.fill_diagonal(distance, np.inf)
    nearest = np.argsort(distance, axis=1, kind="stable")[:, :N_NEAREST]
    return float((y[nearest] == y[:, None]).mean())


def voted(distance: Array, split: Split) -> float:
    """The accuracy of the vote of the nearest training rows."""
    vote = KNeighborsClassifier(N_NEAREST, metric="precomputed").fit(np.zeros((len(split.y),) * 2), split.y)
    return float(vote.score(distance, split.y_new))


def pair_areas(score: Array, same: Array) -> tuple[float, float, float]:
    """The area under the ROC curve, and the true positive rate at a false positive rate of .01 and .001."""
    false, true, _ = roc_curve(same, score)
    return float(roc_auc_score(same, score)), float(np.interp(0.01, false, true)), float(np.interp(0.001, false, true))


def pairs_of(n: int, rng: np.random.Generator) -> Array:
    """Pairs of different rows, shape (n_pairs, 2)."""
    pairs = rng.integers(n, size=(N_PAIRS, 2))
    return pairs[pairs[:, 0] != pairs[:, 1]]


def pair_columns(X: Array, pairs: Array) -> Array:
    """What RFD reads of a pair."""
    left, right = X[pairs[:, 0]], X[pairs[:, 1]]
    return np.hstack([np.abs(left - right), (left + right) / 2.0])


def euclid(X: Array, Y: Array | None = None) -> Array:
    """Euclidean distances."""
    return scipy.spatial.distance.cdist(X, X if Y is None else Y)


def whitened(split: Split) -> Callable[[Array], Array]:
    """RCA: points scaled by their covariance within classes."""
    classes = np.unique(split.y)
    within = (
        split.X - np.stack([split.X[split.y == c].mean(axis=0) for c in classes])[np.searchsorted(classes, split.y)]
    )
    covariance = np.cov(within.T).reshape(split.X.shape[1], -1)
    ridge = 0.01 * np.trace(covariance) / len(covariance) * np.eye(len(covariance))
    root = np.linalg.cholesky(np.linalg.inv(covariance + ridge))
    return lambda X: X @ root


def isolation_kernel(X: Array, rng: np.random.Generator, n_trees: int = 200, n_sampled: int = 16) -> Array:
    """Distances 1 - the share of samples in which two rows have the same nearest sampled row (Qin et al., 2019)."""
    shared = np.zeros((len(X), len(X)))
    for _ in range(n_trees):
        cell = euclid(X, X[rng.choice(len(X), min(n_sampled, len(X)), replace=False)]).argmin(axis=1)
        shared += cell[:, None] == cell
    return 1.0 - shared / n_trees


# --- questions -----------------------------------------------------------------------------------------------


def neighbours(s: Split) -> Methods:
    """Nearest neighbours, nothing taught: share of the 10 nearest rows with the same label."""
    X, y = np.vstack([s.X, s.X_new]), np.concatenate([s.y, s.y_new])
    yield "**URerF**", lambda: shared_labels(URerF(random_state=s.seed).fit(X).distance(X), y)
    yield "Euclid", lambda: shared_labels(euclid(X), y)
    yield "PCA", lambda: shared_labels(euclid(PCA(0.9, random_state=s.seed).fit_transform(X)), y)

    def embedded() -> float:
        leaves = RandomTreesEmbedding(100, max_depth=None, min_samples_leaf=5, random_state=s.seed).fit_transform(X)
        return shared_labels(1.0 - (leaves @ leaves.T).toarray() / 100, y)

    yield "random trees", embedded
    yield "isolation kernel", lambda: shared_labels(isolation_kernel(X, s.rng), y)


def clusters(s: Split) -> Methods:
    """Clusters, nothing taught, their number known: adjusted Rand index."""
    X, y = np.vstack([s.X, s.X_new]), np.concatenate([s.y, s.y_new])
    k = len(np.unique(y))
    average = AgglomerativeClustering(k, metric="precomputed", linkage="average")

    def forest(**params: Any) -> float:
        distance = URerF(random_state=s.seed, **params).fit(X).distance(X)
        return float(adjusted_rand_score(y, average.fit_predict(distance)))

    yield "**URerF**, average linkage", forest
    yield "the same, finer leaves", lambda: forest(min_samples_split=20, n_estimators=300)
    yield (
        "**URerF**, HDBSCAN",
        lambda: float(
            adjusted_rand_score(
                y, HDBSCAN(metric="precomputed", copy=True).fit_predict(URerF(random_state=s.seed).fit(X).distance(X))
            )
        ),
    )
    if importlib.util.find_spec("umap"):
        import umap  # noqa: PLC0415  (not everybody has it, and it compiles for a minute)

        yield (
            "UMAP, HDBSCAN",
            lambda: float(
                adjusted_rand_score(y, HDBSCAN(copy=True).fit_predict(umap.UMAP(random_state=s.seed).fit_transform(X)))
            ),
        )
    yield "k-means", lambda: float(adjusted_rand_score(y, KMeans(k, n_init=10, random_state=s.seed).fit_predict(X)))
    yield "average linkage", lambda: float(adjusted_rand_score(y, average.fit_predict(euclid(X))))


def labels(s: Split) -> Methods:
    """Labels by neighbours: accuracy of the vote of the 10 nearest."""
    yield "**RFD**", lambda: voted(RFD(random_state=s.seed).fit(s.X, s.y).distance(s.X_new, s.X), s)
    yield "**SMERF**", lambda: voted(SMERF(random_state=s.seed).fit(s.X, s.y).distance(s.X_new, s.X), s)
    yield "Euclid", lambda: voted(euclid(s.X_new, s.X), s)
    yield "RCA", lambda: voted(euclid(whitened(s)(s.X_new), whitened(s)(s.X)), s)

    def learned() -> float:
        metric = NeighborhoodComponentsAnalysis(max_iter=50, random_state=s.seed).fit(s.X, s.y)
        return voted(euclid(metric.transform(s.X_new), metric.transform(s.X)), s)

    yield "NCA", learned
    yield (
        "random forest",
        lambda: float(RandomForestClassifier(random_state=s.seed).fit(s.X, s.y).score(s.X_new, s.y_new)),
    )


def taught_pairs(s: Split) -> Methods:
    """Pairs of taught classes: area under the ROC curve, true positive rate at .01 and .001."""
    pairs, known = pairs_of(len(s.y_new), s.rng), pairs_of(len(s.y), s.rng)
    same, taught = s.y_new[pairs[:, 0]] == s.y_new[pairs[:, 1]], s.y[known[:, 0]] == s.y[known[:, 1]]
    left, right = s.X_new[pairs[:, 0]], s.X_new[pairs[:, 1]]
    yield "**RFD**", lambda: pair_areas(-RFD(random_state=s.seed).fit(s.X, s.y).pair_distance(left, right), same)
    yield "**TreeRank**", lambda: pair_areas(TreeRank(random_state=s.seed).fit(s.X, s.y).pair_score(left, right), same)

    def boosted() -> tuple[float, ...]:
        booster = HistGradientBoostingClassifier(random_state=s.seed).fit(pair_columns(s.X, known), taught)
        return pair_areas(booster.predict_proba(pair_columns(s.X_new, pairs))[:, 1], same)

    yield "boosting on pairs", boosted

    def posteriors() -> tuple[float, ...]:
        shares = ExtraTreesClassifier(500, random_state=s.seed).fit(s.X, s.y).predict_proba(s.X_new)
        return pair_areas((shares[pairs[:, 0]] * shares[pairs[:, 1]]).sum(axis=1), same)

    yield "product of posteriors", posteriors
    white = whitened(s)
    yield "RCA", lambda: pair_areas(-np.linalg.norm(white(left) - white(right), axis=1), same)
    yield "Euclid", lambda: pair_areas(-np.linalg.norm(left - right, axis=1), same)


def untaught_pairs(s: Split) -> Methods:
    """Pairs of classes that were never taught: area under the ROC curve, true positive rate at .01 and .001."""
    pairs = pairs_of(len(s.y_new), s.rng)
    same = s.y_new[pairs[:, 0]] == s.y_new[pairs[:, 1]]
    left, right = s.X_new[pairs[:, 0]], s.X_new[pairs[:, 1]]
    yield "**RFD**", lambda: pair_areas(-RFD(random_state=s.seed).fit(s.X, s.y).pair_distance(left, right), same)
    whole = ["euclidean", "whitened", "inner", "cosine"]
    yield (
        "**RFD**, whole rows",
        lambda: pair_areas(
            -RFD(pair_columns=whole, random_state=s.seed).fit(s.X, s.y).pair_distance(left, right), same
        ),
    )
    yield "**TreeRank**", lambda: pair_areas(TreeRank(random_state=s.seed).fit(s.X, s.y).pair_score(left, right), same)
    yield (
        "**TreeRank**, whole rows",
        lambda: pair_areas(
            TreeRank(pair_columns=whole, random_state=s.seed).fit(s.X, s.y).pair_score(left, right), same
        ),
    )
    white = whitened(s)
    lengths = np.linalg.norm(left, axis=1) * np.linalg.norm(right, axis=1)
    yield "Euclid", lambda: pair_areas(-np.linalg.norm(left - right, axis=1), same)
    yield "cosine", lambda: pair_areas((left * right).sum(axis=1) / np.maximum(lengths, 1e-12), same)
    yield "RCA", lambda: pair_areas(-np.linalg.norm(white(left) - white(right), axis=1), same)

    def projected() -> tuple[float, ...]:
        lda = LinearDiscriminantAnalysis(solver="eigen", shrinkage="auto").fit(s.X, s.y)
        return pair_areas(-np.linalg.norm(lda.transform(left) - lda.transform(right), axis=1), same)

    yield "LDA", projected


def fitted_score(model: Any, known: tuple[Array, Array], new: tuple[Array, Array]) -> float:
    """Fit a classifier; its accuracy on new rows."""
    return float(model.fit(*known).score(*new))


def costly(s: Split) -> Methods:
    """Labels by a function that costs, 20 landmarks for each method: accuracy."""
    marks = s.rng.choice(len(s.X), min(20, len(s.X) // 4), replace=False)

    def forest(**params: Any) -> float:
        fitted = SimForestClassifier("manhattan", random_state=s.seed, **params).fit(s.X, s.y)
        return float(fitted.score(s.X_new, s.y_new))

    yield "**SimForest**, landmarks", lambda: forest(n_landmarks=len(marks))
    columns, of_new = (scipy.spatial.distance.cdist(X, s.X[marks], "cityblock") for X in (s.X, s.X_new))
    for name, model in (
        ("SVC", make_pipeline(StandardScaler(), SVC(C=10.0))),
        ("logistic regression", make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000))),
        ("random forest", RandomForestClassifier(random_state=s.seed)),
    ):
        yield f"{name} on landmarks", partial(fitted_score, model, (columns, s.y), (of_new, s.y_new))
    yield "10 nearest, all pairs", lambda: voted(scipy.spatial.distance.cdist(s.X_new, s.X, "cityblock"), s)


def noisy(s: Split) -> Methods:
    """Noisy similarities, 15 % of them missing: accuracy."""
    X = np.vstack([s.X, s.X_new])
    S = np.exp(-(euclid(X) ** 2) / X.shape[1])
    rng, n = s.rng, len(s.X)
    S += S.std() * rng.normal(size=S.shape)
    S = (S + S.T) / 2.0
    S[rng.random(S.shape) < 0.15] = np.nan
    S = np.where(np.isnan(S.T), np.nan, S)
    np.fill_diagonal(S, 1.0)
    train, new = S[:n, :n], S[n:, :n]
    filled, filled_new = (np.where(np.isnan(own), np.nanmean(train), own) for own in (train, new))
    yield "**SimForest**", lambda: float(SimForestClassifier(random_state=s.seed).fit(train, s.y).score(new, s.y_new))

    def most_similar_class() -> float:
        classes = np.unique(s.y)
        means = np.stack([np.nanmean(new[:, s.y == c], axis=1) for c in classes], axis=1)
        return float((classes[means.argmax(axis=1)] == s.y_new).mean())

    yield "class of highest mean", most_similar_class
    yield "10 nearest", lambda: voted(1.0 - np.clip(filled_new, None, 1.0), s)
    yield "SVC", lambda: float(SVC(C=10.0).fit(filled, s.y).score(filled_new, s.y_new))
    yield (
        "random forest",
        lambda: float(RandomForestClassifier(random_state=s.seed).fit(filled, s.y).score(filled_new, s.y_new)),
    )


def distances(s: Split) -> Methods:
    """Distances from features, which are Euclid's of two features that are not named: rank correlation of new pairs."""
    rng = s.rng
    hidden = rng.choice(s.X.shape[1], 2, replace=False)
    Z, Z_new = (euclid(X[:, hidden]) for X in (s.X, s.X_new))
    upper = np.triu_indices(len(s.X_new), 1)

    def rank(found: Array) -> float:
        return float(scipy.stats.spearmanr(found[upper], Z_new[upper]).statistic)

    yield "**SMERF**", lambda: rank(SMERF(random_state=s.seed).fit(s.X, Distances(Z)).distance(s.X_new))
    yield (
        "**SMERF**, all columns",
        lambda: rank(SMERF(random_state=s.seed, max_features=None).fit(s.X, Distances(Z)).distance(s.X_new)),
    )
    yield "Euclid", lambda: rank(euclid(s.X_new))

    def scaled() -> float:
        centred = -0.5 * (Z**2 - (Z**2).mean(axis=0) - (Z**2).mean(axis=1)[:, None] + (Z**2).mean())
        values, vectors = np.linalg.eigh(centred)
        places = vectors[:, -2:] * np.sqrt(np.maximum(values[-2:], 0.0))
        return rank(euclid(RandomForestRegressor(random_state=s.seed).fit(s.X, places).predict(s.X_new)))

    yield "forest on MDS", scaled


def outliers(s: Split) -> Methods:
    """Outliers from similarities, a tenth of the second class among the first: area under the ROC curve."""
    X, y = np.vstack([s.X, s.X_new]), np.concatenate([s.y, s.y_new])
    usual, other = np.unique(y)[:2]
    rows = np.concatenate([np.flatnonzero(y == usual), np.flatnonzero(y == other)[: max(2, (y == usual).sum() // 10)]])
    X, is_other = X[rows], y[rows] == other
    Z = scipy.spatial.distance.cdist(X, X, "cityblock")
    yield (
        "**SimForestOutlier**",
        lambda: float(
            roc_auc_score(is_other, -SimForestOutlier("manhattan", random_state=s.seed).fit(X).score_samples(X))
        ),
    )
    yield "fifth nearest", lambda: float(roc_auc_score(is_other, np.sort(Z, axis=1)[:, min(5, len(Z) - 1)]))
    yield (
        "isolation forest",
        lambda: float(roc_auc_score(is_other, -IsolationForest(random_state=s.seed).fit(X).score_samples(X))),
    )


# --- links ------------------------------------------------------------------------------------------------------


def networks(folder: Path | None) -> Iterator[tuple[str, Array, Array]]:
    """Networks with features of their nodes: that of the package, and those of a folder."""
    packaged = Path(str(resources.files("distforest") / "data"))
    for path in sorted([*packaged.glob("*.npz"), *(folder.glob("*.npz") if folder else ())]):
        with np.load(path) as file:
            if {"X", "A"} <= set(file):
                yield path.stem, file["X"].astype(float), file["A"].astype(float)


def nodes(X: Array, A: Array, seed: int) -> Split:
    """Half of the nodes with the links among them, the others new; ``y`` are links."""
    order = np.random.default_rng(seed).permutation(len(X))
    known, new = order[: len(order) // 2], order[len(order) // 2 :]
    return Split(X[known], A[np.ix_(known, known)], X[new], A[np.ix_(new, new)], seed)


def links(s: Split) -> Methods:
    """Links among new nodes of a network, half of which is known: area under the ROC curve."""
    upper = np.triu_indices(len(s.X_new), 1)
    linked = s.y_new[upper] > 0

    def area(score: Array) -> float:
        return float(roc_auc_score(linked, score[upper]))

    yield "**SMERF**", lambda: area(-SMERF(500, random_state=s.seed).fit(s.X, Graph(s.y)).distance(s.X_new))
    yield "cosine", lambda: area(-scipy.spatial.distance.cdist(s.X_new, s.X_new, "cosine"))

    def forest() -> float:
        known = np.transpose(np.triu_indices(len(s.X), 1))
        fitted = RandomForestClassifier(500, min_samples_leaf=3, random_state=s.seed)
        fitted.fit(pair_columns(s.X, known), s.y[tuple(known.T)] > 0)
        score = np.zeros(s.y_new.shape)
        score[upper] = fitted.predict_proba(pair_columns(s.X_new, np.transpose(upper)))[:, 1]
        return area(score)

    yield "forest on pairs", forest


# --- the run ------------------------------------------------------------------------------------------------------


def scored(name: str, folder: Path | None, n_splits: int, only: list[str]) -> None:
    """Print the table of a question."""
    methods, part = QUESTIONS[name]
    scores: dict[str, dict[str, list[Any]]] = {}
    seconds = defaultdict(list)
    for of_set, *data in (networks if part is nodes else tables)(folder):
        if only and of_set not in only:
            continue
        for seed in range(n_splits):
            split = part(*data, seed)
            if split is None:
                continue
            for method, answer in methods(split):
                print(f"{name}: {of_set}, split {seed}, {method}", file=sys.stderr, flush=True)
                start = time.perf_counter()
                with warnings.catch_warnings(), np.errstate(all="ignore"):
                    warnings.simplefilter("ignore")
                    try:
                        found = answer()
                    except (ValueError, np.linalg.LinAlgError) as error:
                        print(f"no answer: {error}", file=sys.stderr)
                        continue
                seconds[method].append(time.perf_counter() - start)
                scores.setdefault(of_set, {}).setdefault(method, []).append(found)
    print(f"\n{methods.__doc__}\n")
    head = list(seconds)
    rows = [[of_set, *cells(of_methods, head)] for of_set, of_methods in scores.items()]
    print_table(["set", *head], [*rows, ["seconds", *(f"{np.median(seconds[method]):.2f}" for method in head)]])


def cells(of_methods: dict[str, list[Any]], head: list[str]) -> list[str]:
    """The mean of each method, the best of each figure in bold."""
    means = {method: np.atleast_1d(np.mean(found, axis=0)) for method, found in of_methods.items()}
    best = np.max(list(means.values()), axis=0) - 5e-4

    def cell(own: Array) -> str:
        return " / ".join(
            f"**{one:.3f}**" if one >= most else f"{one:.3f}" for one, most in zip(own, best, strict=True)
        )

    return [cell(means[method]) if method in means else "" for method in head]


QUESTIONS: dict[str, tuple[Callable[[Split], Methods], Callable[[Array, Array, int], Split | None]]] = {
    "neighbours": (neighbours, halves),
    "clusters": (clusters, halves),
    "labels": (labels, halves),
    "taught": (taught_pairs, halves),
    "untaught": (untaught_pairs, new_classes),
    "costly": (costly, halves),
    "noisy": (noisy, halves),
    "distances": (distances, halves),
    "links": (links, nodes),
    "outliers": (outliers, halves),
}


def main() -> None:
    """Ask the questions."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=QUESTIONS, default=list(QUESTIONS))
    parser.add_argument("--sets", nargs="+", default=[], help="names of sets; all by default")
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--data", type=Path, help="a folder of .npz files with X, and y or A")
    given = parser.parse_args()
    print(machine())
    for name in given.only:
        scored(name, given.data, given.splits, given.sets)


if __name__ == "__main__":
    main()
