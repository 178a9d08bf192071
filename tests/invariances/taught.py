"""Small data, and what is grown of it: all methods in a form in which nothing but the data decides.

``bootstrap=False``: which rows are drawn depends on their numbers, and a row that was not drawn may lie on either side
of a threshold that has moved between the same two values.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist

from distforest import (
    RFD,
    SMERF,
    Embedding,
    Graph,
    Labels,
    SimForestClassifier,
    SimForestOutlier,
    SimForestRegressor,
    Targets,
    TreeRank,
    URerF,
)

ALL_ROWS: dict[str, Any] = {"n_estimators": 4, "bootstrap": False, "random_state": 0}


@dataclass(frozen=True)
class Data:
    """Points, and what is known of them.

    Attributes
    ----------
    X
        Features, shape (n, p).
    labels, targets
        Of each point, shape (n,).
    vectors
        An embedding, shape (n, 2).
    Z, S
        Distances and similarities, shape (n, n).
    pairs, similar
        Pairs of points, shape (m, 2), and whether they are alike, shape (m,).
    weights
        The weight of each point, shape (n,), where points are rows; None: equal weights.
    """

    X: np.ndarray
    labels: np.ndarray
    targets: np.ndarray
    vectors: np.ndarray
    Z: np.ndarray
    S: np.ndarray
    pairs: np.ndarray
    similar: np.ndarray
    weights: np.ndarray | None = None

    @classmethod
    def drawn(cls, n: int = 60, p: int = 3, seed: int = 0) -> Data:
        """Points whose first two features decide; all numbers are float32, and no two of them are equal."""
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(n, p)).astype(np.float32).astype(float)
        vectors = (X[:, :2] + 0.3 * rng.normal(size=(n, 2))).astype(np.float32).astype(float)
        labels = (vectors[:, 0] > 0).astype(int) + (vectors[:, 1] > 0.5)
        Z, S = (own.astype(np.float32).astype(float) for own in (cdist(vectors, vectors), vectors @ vectors.T))
        pairs = np.array([(i, j) for i in range(n) for j in range(i + 1, n)])
        pairs = pairs[rng.permutation(len(pairs))[:400]]
        return cls(X, labels, vectors[:, 0], vectors, Z, S, pairs, labels[pairs[:, 0]] == labels[pairs[:, 1]])

    def but(self, **changes: Any) -> Data:
        """The same with other parts."""
        return replace(self, **changes)

    def rows(self, order: np.ndarray) -> Data:
        """The points in another order, or some of them twice; pairs and their ends are turned about too."""
        both = np.ix_(order, order)
        place = np.argsort(order[: len(self.X)])
        pairs = place[self.pairs[::-1, ::-1]]
        parts = {"labels": self.labels, "targets": self.targets, "X": self.X, "vectors": self.vectors}
        own: dict[str, Any] = {name: values[order] for name, values in parts.items()}
        own["weights"] = None if self.weights is None else self.weights[order]
        return Data(**own, Z=self.Z[both], S=self.S[both], pairs=pairs, similar=self.similar[::-1])


Grow = Callable[..., Any]


def _smerf(truth: Callable[[Data], Any]) -> Grow:
    return lambda data, **more: SMERF(**{**ALL_ROWS, **more}).fit(data.X, truth(data), data.weights)


SMERFS: dict[str, Grow] = {
    "labels": _smerf(lambda data: Labels(data.labels)),
    "targets": _smerf(lambda data: Targets(data.targets)),
    "embedding": _smerf(lambda data: Embedding(data.vectors)),
    "distances": _smerf(lambda data: data.Z),
    "graph": _smerf(lambda data: Graph(data.Z < 0.7)),
}
"""A SMERF by what it is taught."""


def _simforest(estimator: type, truth: str, rows: str, **own: Any) -> Grow:
    def grow(data: Data, **more: Any) -> Any:
        return estimator(**{**ALL_ROWS, **own, **more}).fit(getattr(data, rows), getattr(data, truth), data.weights)

    return grow


def _outlier(rows: str, **own: Any) -> Grow:
    given = {"n_estimators": 4, "max_samples": None, "random_state": 0}
    return lambda data, **more: SimForestOutlier(**{**given, **own, **more}).fit(getattr(data, rows))


SIMFORESTS: dict[str, Grow] = {
    "classes": _simforest(SimForestClassifier, "labels", "S"),
    "classes, fresh pairs": _simforest(SimForestClassifier, "labels", "S", pairing="fresh"),
    "classes, three columns": _simforest(SimForestClassifier, "labels", "S", n_columns=3),
    "classes, landmarks": _simforest(SimForestClassifier, "labels", "S", n_landmarks=0.3),
    "classes, nearest": _simforest(SimForestClassifier, "labels", "S", voting="nearest"),
    "targets": _simforest(SimForestRegressor, "targets", "S"),
    "outliers": _outlier("S"),
}
"""A SimForest that is given similarities."""

OF_DISTANCES: dict[str, Grow] = {
    "classes": _simforest(SimForestClassifier, "labels", "Z", kind="distance"),
    "targets": _simforest(SimForestRegressor, "targets", "Z", kind="distance"),
    "outliers": _outlier("Z", kind="distance"),
}
"""A SimForest that is given distances."""

OF_FEATURES: dict[str, Grow] = {
    "linear": _simforest(SimForestClassifier, "labels", "X", similarity="linear"),
    "manhattan": _simforest(SimForestClassifier, "labels", "X", similarity="manhattan"),
    "rbf": _simforest(SimForestClassifier, "labels", "X", similarity="rbf", gamma=0.25),
    "targets, linear": _simforest(SimForestRegressor, "targets", "X", similarity="linear"),
    "outliers, linear": _outlier("X", similarity="linear"),
}
"""A SimForest that works similarities out."""

URERFS: dict[str, Grow] = {
    "screened": lambda data, **more: URerF(**{**ALL_ROWS, "max_samples": None, "min_samples_split": 9, **more}).fit(
        data.X, sample_weight=data.weights
    ),
    "unscreened": lambda data, **more: URerF(
        **{**ALL_ROWS, "max_samples": None, "min_samples_split": 9, "feature_weights": None, **more}
    ).fit(data.X, sample_weight=data.weights),
    "best cuts": lambda data, **more: URerF(
        **{**ALL_ROWS, "max_samples": None, "min_samples_split": 9, "feature_weights": None, "criterion": "fast_bic"},
        **{"splitter": "best", "n_witnesses": 0, "max_features": None, "feature_combinations": 1.0, **more},
    ).fit(data.X, sample_weight=data.weights),
}

ONE_TREE: dict[str, Any] = {"n_estimators": 1, "random_state": 0, "max_features": None}
PAIRS: dict[str, Grow] = {
    "rfd": lambda data, **more: RFD(**{**ONE_TREE, "bootstrap": False, **more}).fit_pairs(
        data.X, data.pairs, data.similar
    ),
    "treerank": lambda data, **more: TreeRank(**{**ONE_TREE, "max_depth": 4, **more}).fit_pairs(
        data.X, data.pairs, data.similar
    ),
    "treerank, square": lambda data, **more: TreeRank(
        **{**ONE_TREE, "max_depth": 4, "region": "square", **more}
    ).fit_pairs(data.X, data.pairs, data.similar),
}
"""A forest over given pairs."""


TABLE = ("tree_size", "left", "right", "threshold", "columns", "weights", "gain", "n_rows")


def cuts_of(estimator: Any) -> dict[str, bytes]:
    """The node tables: all that a cut is, and how many rows or pairs are on either side."""
    return {name: getattr(estimator.forest_.table, name).tobytes() for name in TABLE}


def partitions(estimator: Any) -> list[list[int]]:
    """The leaf of each training row in each tree, numbered by the first row of each leaf."""
    return [numbered(own) for own in estimator.forest_.leaves]


def numbered(leaves: np.ndarray) -> list[int]:
    """The number of the first row that has the same."""
    _, first, inverse = np.unique(leaves, return_index=True, return_inverse=True)
    return first[inverse].tolist()


def said_of(estimator: Any, data: Data) -> list[float]:
    """What a forest over pairs says of those that it was taught."""
    left, right = data.X[data.pairs[:, 0]], data.X[data.pairs[:, 1]]
    return estimator.pair_distance(left, right).tolist()
