"""What is compared with which peer: data, splits, methods and measures, as a table of facts.

All data ship with the project or with scikit-learn. A split is stratified, drawn by the seed, and the same for all
methods: 70 % of the rows to learn from, of series as many as the archive has (seed 0: the archive's own partition).
Features are standardised on the rows to learn from, digits by one factor for all pixels.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from contenders import N_NEAREST
from measures import knn_accuracy, retrieval_precision
from sklearn import datasets
from sklearn.metrics import adjusted_rand_score
from sklearn.model_selection import train_test_split

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]
    Found = Mapping[str, NDArray[Any]]

N_VOTERS = 5
TEST_SHARE = 0.3
N_NOISE = 100
N_QUERIES = 1000
PATCH = 5
ROUNDING = 1e-5
"""Distances of float32 that differ by less, in proportion, are the same."""


# --- data -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Trial:
    """Rows to learn from, rows that are asked about, and the labels of both; without a split, twice the same rows."""

    X: Floats
    y: Ints
    X_test: Floats
    y_test: Ints


@functools.cache
def table(name: str) -> tuple[Floats, Ints]:
    """Features and classes of a set by name."""
    from rfd import data_set  # noqa: PLC0415  (it finds the project's own)

    if name == "digits":
        X, y = datasets.load_digits(return_X_y=True)
        return X / X.std(), y
    if name == "breast_cancer":
        return datasets.load_breast_cancer(return_X_y=True)
    return patches() if name == "patches" else data_set(name)


def patches() -> tuple[Floats, Ints]:
    """All 5 x 5 patches of scikit-learn's two photographs, cut side by side; the class is the photograph."""
    cut = []
    for image in datasets.load_sample_images().images:
        high, wide = (n // PATCH for n in image.shape[:2])
        own = image[: high * PATCH, : wide * PATCH].reshape(high, PATCH, wide, PATCH, 3)
        cut.append(own.transpose(0, 2, 1, 3, 4).reshape(high * wide, -1).astype(np.float64))
    return np.concatenate(cut), np.repeat(np.arange(2), [len(own) for own in cut])


def split(name: str, seed: int) -> Trial:
    """A stratified split of a table, standardised."""
    X, y = table(name)
    train, test = train_test_split(np.arange(len(y)), test_size=TEST_SHARE, stratify=y, random_state=seed)
    scaled = X if name == "digits" else standardised(X, train)
    return Trial(scaled[train], y[train], scaled[test], y[test])


def search(name: str, seed: int) -> Trial:
    """A split of which at most a thousand rows are asked about: recall needs their distances to all others."""
    own = split(name, seed)
    return Trial(own.X, own.y, own.X_test[:N_QUERIES], own.y_test[:N_QUERIES])


def standardised(X: Floats, train: Ints) -> Floats:
    """Features less their mean over their standard deviation on some rows; a constant feature is 0."""
    mean, spread = X[train].mean(axis=0), X[train].std(axis=0)
    return (X - mean) / np.where(spread > 0, spread, 1.0)


def all_rows(name: str, seed: int) -> Trial:
    """All rows of a table; ``+ noise`` after its name stands for a hundred columns of standard normal noise."""
    own, _, noisy = name.partition(" + ")
    X, y = table(own)
    scaled = X if own == "digits" else standardised(X, np.arange(len(y)))
    if noisy:
        scaled = np.hstack([scaled, np.random.default_rng(seed).normal(size=(len(y), N_NOISE))])
    return Trial(scaled, y, scaled, y)


def series(name: str, seed: int) -> Trial:
    """Series of the archive: its own partition, and one drawn with as many to learn from."""
    from strings_series import PLACES  # noqa: PLC0415  (it needs packages that only series need)

    path = next(place / f"{name}.npz" for place in PLACES if (place / f"{name}.npz").exists())
    with np.load(path) as file:
        X, y, own = file["X"].astype(np.float64), file["y"].astype(np.int64), file["train"]
    train, test = np.flatnonzero(own), np.flatnonzero(~own)
    if seed:
        train, test = train_test_split(np.arange(len(y)), train_size=len(train), stratify=y, random_state=seed)
    return Trial(X[train], y[train], X[test], y[test])


# --- measures ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Measure:
    """A share in [0, 1], or an index up to 1: the larger the better."""

    name: str
    of: Callable[[Trial, Found], float]


def accuracy(trial: Trial, found: Found) -> float:
    """Share of the rows that are asked about whose label is predicted."""
    return float(np.mean(found["labels"] == trial.y_test))


def voters(trial: Trial, found: Found) -> float:
    """Share of the rows that are asked about for whose label their five nearest rows vote."""
    return float(knn_accuracy(found["distance"], trial.y, trial.y_test, [N_VOTERS])[0])


def rand_index(trial: Trial, found: Found) -> float:
    """Adjusted Rand index of the clusters and the classes; rows that are left out are a cluster of their own."""
    return float(adjusted_rand_score(trial.y, found["clusters"]))


def precision(trial: Trial, found: Found) -> float:
    """Share of the ten nearest other rows that have a row's label, in the mean."""
    apart = np.array(found["apart"], dtype=np.float64)
    np.fill_diagonal(apart, np.inf)
    return retrieval_precision(apart, trial.y, trial.y, N_NEAREST)


def label_precision(trial: Trial, found: Found) -> float:
    """Share of the ten rows that are answered which have the label of the row that is asked about."""
    return float(np.mean(trial.y[found["nearest"]] == trial.y_test[:, None]))


def recall(_trial: Trial, found: Found) -> float:
    """Share of the ten answered that are no farther than the tenth nearest by the method's own exact distance."""
    distance = found["distance"]
    farthest = np.partition(distance, N_NEAREST - 1, axis=1)[:, [N_NEAREST - 1]]
    answered = np.take_along_axis(distance, found["nearest"].astype(np.int64), axis=1)
    return float(np.mean(answered <= farthest * (1 + ROUNDING)))


# --- who is compared with whom ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Method:
    """A row of a table: a contender with parameters, in an environment (None: ours).

    ``side`` is "ours", "peer", or "plain" for what neither has learned. ``warm_up`` makes the run cheaper that only
    compiles.
    """

    name: str
    side: str
    contender: str
    environment: str | None = None
    params: dict[str, Any] = field(default_factory=dict)
    warm_up: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Comparison:
    """Methods on sets. The first method is ours by default, which all others are held against."""

    title: str
    text: str
    methods: tuple[Method, ...]
    sets: tuple[str, ...]
    quick_sets: tuple[str, ...]
    trial: Callable[[str, int], Trial]
    measures: tuple[Measure, ...]
    asked: tuple[str, ...]
    checked: tuple[str, ...] = ()


ACCURACY = Measure("accuracy", accuracy)
VOTERS = Measure(f"accuracy of {N_VOTERS} nearest", voters)
UNSUPERVISED = (Measure("adjusted Rand index", rand_index), Measure(f"precision of {N_NEAREST} nearest", precision))
SEARCH = (Measure("recall", recall), Measure("share with the same label", label_precision))
SMERF = Method("SMERF on labels", "ours", "smerf")
SMERF_100 = Method("SMERF on labels, 100 trees", "ours", "smerf", params={"n_estimators": 100})
URERF = Method("URerF", "ours", "urerf")
PAPER = Method("URerF.paper()", "ours", "urerf", params={"paper": True})
EUCLIDEAN = Method("Euclidean, nothing learned", "plain", "euclidean")


def peer(name: str, contender: str, environment: str | None, **params: Any) -> Method:
    """A method of a peer's."""
    return Method(name, "peer", contender, environment, params)


COMPARISONS: dict[str, Comparison] = {
    "metric-learn": Comparison(
        "metric-learn",
        "A distance is learned from labels; a row gets the label for which the five nearest training rows vote.",
        (
            Method("RFD", "ours", "rfd"),
            SMERF,
            peer("ITML", "metric_learn", "metric-learn", metric="ITML_Supervised"),
            peer("LMNN", "metric_learn", "metric-learn", metric="LMNN"),
            peer("NCA", "metric_learn", "metric-learn", metric="NCA"),
            EUCLIDEAN,
        ),
        ("iris", "wine", "sonar", "heart", "balance"),
        ("iris", "sonar"),
        split,
        (VOTERS,),
        ("distance",),
    ),
    "sklearn": Comparison(
        "scikit-learn's forests",
        "Labels are predicted. scikit-learn's forest has 100 trees by default and SMERF 500, so SMERF is also given "
        "100. SimForest is on the rbf similarity of the features.",
        (
            SMERF,
            SMERF_100,
            Method("SimForest, rbf", "ours", "simforest", params={"similarity": "rbf"}),
            peer("RandomForestClassifier", "scikit_learn", None, kind="RandomForestClassifier"),
            peer("HistGradientBoostingClassifier", "scikit_learn", None, kind="HistGradientBoostingClassifier"),
        ),
        ("breast_cancer", "german_numer", "splice_libsvm", "digits"),
        ("breast_cancer", "digits"),
        split,
        (ACCURACY,),
        ("labels",),
    ),
    "umap": Comparison(
        "UMAP and HDBSCAN",
        "Rows without labels are clustered by scikit-learn's HDBSCAN with its defaults: on URerF's distance, on UMAP's "
        f"map, and on the features. Then with {N_NOISE} columns of standard normal noise beside them. Labels are only "
        "used to judge. The second setting of UMAP is what its documentation advises for clustering.",
        (
            URERF,
            PAPER,
            peer("UMAP", "umap", "umap"),
            peer("UMAP, n_neighbors=30, min_dist=0", "umap", "umap", n_neighbors=30, min_dist=0.0),
            EUCLIDEAN,
        ),
        ("wine", "wine + noise", "breast_cancer", "breast_cancer + noise", "digits", "digits + noise"),
        ("wine", "wine + noise"),
        all_rows,
        UNSUPERVISED,
        ("apart", "clusters"),
    ),
    "pynndescent": Comparison(
        "PyNNDescent",
        "The ten nearest training rows of new rows. Euclidean distance, which PyNNDescent searches, is not what a "
        "forest learns: each recall is under the method's own distance, and the share with the same label tells what "
        "that distance is good for. SMERF has seen the labels, the others have not.",
        (URERF, SMERF_100, peer("PyNNDescent, Euclidean", "pynndescent", "pynndescent"), EUCLIDEAN),
        ("digits", "patches"),
        ("digits",),
        search,
        SEARCH,
        ("nearest",),
        ("distance",),
    ),
    "aeon": Comparison(
        "aeon",
        "Series are classified. SimForest has dynamic time warping alone, as 1-NN has; ProximityForest chooses among "
        "many distances. The window of 5 % is given to both sides.",
        (
            Method("SimForest, DTW", "ours", "simforest_dtw"),
            Method("SimForest, DTW in a window of 5 %", "ours", "simforest_dtw", params={"window": 0.05}),
            Method("ProximityForest", "peer", "aeon", "aeon", {"kind": "ProximityForest"}, warm_up={"n_trees": 5}),
            peer("1-NN, DTW", "aeon", "aeon", kind="KNeighborsTimeSeriesClassifier"),
            peer(
                "1-NN, DTW in a window of 5 %",
                "aeon",
                "aeon",
                kind="KNeighborsTimeSeriesClassifier",
                distance_params={"window": 0.05},
            ),
        ),
        ("arrow_head", "gun_point"),
        ("arrow_head",),
        series,
        (ACCURACY,),
        ("labels",),
    ),
    "treeple": Comparison(
        "treeple",
        "Unsupervised forests: HDBSCAN with its defaults on the distance of each. treeple's fit also makes the matrix "
        "of all proximities and clusters it once.",
        (
            URERF,
            PAPER,
            peer("UnsupervisedObliqueRandomForest", "treeple", "treeple", kind="UnsupervisedObliqueRandomForest"),
            peer("UnsupervisedRandomForest", "treeple", "treeple", kind="UnsupervisedRandomForest"),
        ),
        ("wine", "wine + noise", "digits", "digits + noise"),
        ("wine", "wine + noise"),
        all_rows,
        UNSUPERVISED,
        ("apart", "clusters"),
    ),
    "ydf": Comparison(
        "YDF",
        "Labels are predicted from columns of numbers. YDF also takes categorical features and missing values, "
        "which is not measured here.",
        (
            SMERF,
            peer("YDF random forest", "ydf", "ydf", learner="RandomForestLearner"),
            peer("YDF gradient boosted trees", "ydf", "ydf", learner="GradientBoostedTreesLearner"),
        ),
        ("heart", "australian", "german_numer", "splice_libsvm", "digits"),
        ("heart", "german_numer"),
        split,
        (ACCURACY,),
        ("labels",),
    ),
    "ydf-distance": Comparison(
        "YDF's distance",
        "A random forest's own distance, from the leaves that two rows share; the five nearest training rows vote.",
        (SMERF, peer("YDF random forest", "ydf", "ydf", learner="RandomForestLearner")),
        ("heart", "australian", "german_numer", "splice_libsvm"),
        ("heart", "german_numer"),
        split,
        (VOTERS,),
        ("distance",),
    ),
}
