"""Measures of the papers that scikit-learn and SciPy lack: of rows of distances, of neighbours, of ROC curves."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import rankdata
from sklearn.neighbors import KNeighborsClassifier

from distforest.evaluation.roc import ROC

Floats = NDArray[np.float64]

# --- rows of distances (SMERF, section 5.1) ---------------------------------------------------------------


def off_diagonal(matrix: ArrayLike) -> Floats:
    """A square matrix without the pairs of a row with itself, shape (n, n - 1)."""
    values = np.asarray(matrix, np.float64)
    return values[~np.eye(len(values), dtype=np.bool_)].reshape(len(values), -1)


def mean_spearman(true: ArrayLike, predicted: ArrayLike) -> float:
    """The mean over rows of the Spearman correlation of two square matrices; 0 for a constant row."""
    a, b = (rankdata(off_diagonal(matrix), axis=1) for matrix in (true, predicted))
    a, b = a - (a.shape[1] + 1) / 2, b - (b.shape[1] + 1) / 2
    size = np.sqrt((a**2).sum(axis=1) * (b**2).sum(axis=1))
    return float(np.mean((a * b).sum(axis=1) / np.where(size > 0, size, 1.0)))


def rmse(true: ArrayLike, predicted: ArrayLike) -> float:
    """The root of the mean squared difference of two square matrices."""
    return float(np.sqrt(np.mean((off_diagonal(true) - off_diagonal(predicted)) ** 2)))


def mean_average_precision(true: ArrayLike, predicted: ArrayLike, k: int = 10) -> float:
    """The mean over rows of the average precision of the k truly closest points (mAP-k).

    It is the exact expectation over all orders of points of equal predicted distance, and over all choices among points
    of equal true distance at the k-th place.
    """
    rows = zip(off_diagonal(true), off_diagonal(predicted), strict=True)
    return float(np.mean([_expected_average_precision(*row, k) for row in rows]))


def _expected_average_precision(true: Floats, predicted: Floats, k: int) -> float:
    """Average precision of one query, expected over all ways to break ties.

    A point is surely relevant (closer than the k-th) or on the edge (as close as the k-th); of the ``n_edge`` points on
    the edge ``free`` are relevant. By linearity the expectation needs only the probabilities that one point on the edge
    is relevant and that two are, and the numbers of sure and of edge points in each group of equal predictions.
    """
    kth = np.partition(true, k - 1)[k - 1]
    sure, edge = true < kth, true == kth
    n_edge = int(np.count_nonzero(edge))
    free = k - int(np.count_nonzero(sure))
    one = free / n_edge
    two = one * (free - 1) / (n_edge - 1) if n_edge > 1 else 0.0

    _, group, size = np.unique(predicted, return_inverse=True, return_counts=True)
    s, e = np.bincount(group, weights=sure), np.bincount(group, weights=edge)
    s_before, e_before = np.cumsum(s) - s, np.cumsum(e) - e
    relevant = s + e * one
    with_before = s * s_before + (s * e_before + e * s_before) * one + e * e_before * two
    with_own = s * (s - 1) + 2 * s * e * one + e * (e - 1) * two  # ordered pairs inside the group

    # A place inside a group of m is taken by each of its points with probability 1/m, and an earlier place of the same
    # group by each other point with probability 1/(m - 1).
    place = np.arange(1, len(true) + 1)
    earlier = place - 1 - np.repeat(np.cumsum(size) - size, size)
    fixed = np.repeat((relevant + with_before) / size, size)
    rising = np.repeat(with_own / (size * np.maximum(size - 1, 1)), size)
    return float(np.sum((fixed + earlier * rising) / place) / k)


# --- neighbours (RFD, section 3) --------------------------------------------------------------------------


def knn_accuracy(distances: Floats, y_train: ArrayLike, y_test: ArrayLike, ks: ArrayLike) -> Floats:
    """The accuracy of k nearest neighbours by given distances, shape (n_test, n_train), for each of several k."""
    square = np.zeros((distances.shape[1], distances.shape[1]))
    models = (KNeighborsClassifier(int(k), metric="precomputed").fit(square, y_train) for k in np.asarray(ks))
    return np.array([model.score(distances, y_test) for model in models])


def retrieval_precision(distances: Floats, y_train: ArrayLike, y_test: ArrayLike, k: int = 20) -> float:
    """The mean over the queries of the share of their k nearest points that have their label."""
    near = np.argsort(distances, axis=1, kind="stable")[:, :k]
    return float(np.mean(np.asarray(y_train)[near] == np.asarray(y_test)[:, None]))


def mean_ranks(accuracies: ArrayLike) -> Floats:
    """The mean over data sets (columns) of the rank of each method (rows); the most accurate has rank 1."""
    return np.asarray(rankdata(-np.asarray(accuracies), axis=0).mean(axis=1))


# --- neighbours on a manifold (URerF) ---------------------------------------------------------------------


class Hits(NamedTuple):
    """How many of the points that each query retrieves are relevant, in expectation over all orders of ties."""

    hits: Floats
    n_retrieved: int
    n_relevant: Floats

    @property
    def precision(self) -> float:
        """The mean share of retrieved points that are relevant."""
        return float(np.mean(self.hits / self.n_retrieved))

    @property
    def recall(self) -> float:
        """The mean share of relevant points that are retrieved, over queries that have any."""
        known = self.n_relevant > 0
        return float(np.mean(self.hits[known] / self.n_relevant[known]))


def relevant_by_distance(geodesic: Floats, k: int) -> Floats:
    """The probability that a point is one of the k nearest of another, shape (n, n); ties share the last places."""
    others = off_diagonal(geodesic)
    chances = np.zeros(geodesic.shape)
    chances[~np.eye(len(geodesic), dtype=np.bool_)] = np.where(
        np.isfinite(others), _chance_of_least(others, k), 0.0
    ).ravel()
    return chances


def relevant_by_component(labels: NDArray[np.int64]) -> Floats:
    """Whether a point is another one of a component, shape (n, n)."""
    return ((labels[:, None] == labels) & ~np.eye(len(labels), dtype=np.bool_)).astype(np.float64)


def proximity_hits(proximity: Floats, relevant: Floats, k: int) -> Hits:
    """The hits of points that retrieve the k most proximate others; NaN is the farthest."""
    others = np.nan_to_num(-off_diagonal(proximity), nan=np.inf, posinf=np.inf, neginf=-np.inf)
    hits = np.einsum("ij,ij->i", _chance_of_least(others, k), off_diagonal(relevant))
    return Hits(hits, k, relevant.sum(axis=1))


def geodesic_precision(proximity: Floats, geodesic: Floats, k: int) -> float:
    """The mean share of the k most proximate points that are among the k nearest on the manifold."""
    return proximity_hits(proximity, relevant_by_distance(geodesic, k), k).precision


def component_precision_recall(proximity: Floats, labels: NDArray[np.int64], k: int = 50) -> tuple[float, float]:
    """Precision and recall at k where all others of a point's component are relevant."""
    hits = proximity_hits(proximity, relevant_by_component(labels), k)
    return hits.precision, hits.recall


def _chance_of_least(values: Floats, k: int) -> Floats:
    """The probability of each value to be among the k least of its row, with equal values in random order."""
    kth = np.partition(values, k - 1, axis=1)[:, k - 1, None]
    sure, edge = values < kth, values == kth
    free = k - np.count_nonzero(sure, axis=1, keepdims=True)
    return sure + edge * (free / np.count_nonzero(edge, axis=1, keepdims=True))


# --- distances of ROC curves (TreeRank, equation 1) -------------------------------------------------------


def d1(roc: ROC, optimal: ROC) -> float:
    """The area between two curves, the integral of |ROC - ROC*|, exact also where they cross between two knots."""
    knots, start, end = _differences(roc, optimal)
    a, b = np.abs(start), np.abs(end)
    size = a + b
    crossed = np.divide(a * a + b * b, size, out=np.zeros_like(size), where=size > 0)  # two triangles
    return math.fsum(np.diff(knots) * np.where(start * end < 0, crossed, size) / 2)


def d_infinity(roc: ROC, optimal: ROC) -> float:
    """The greatest vertical gap between two curves; it lies beside a knot of one of them."""
    _, start, end = _differences(roc, optimal)
    return float(max(np.abs(start).max(), np.abs(end).max()))


def _differences(one: ROC, other: ROC) -> tuple[Floats, Floats, Floats]:
    """The knots of both curves, and their difference at the two ends of each interval between knots."""
    knots = np.union1d(one.fpr, other.fpr)
    before = [np.interp(-knots, -curve.fpr[::-1], curve.tpr[::-1]) for curve in (one, other)]  # lower ends of jumps
    return knots, (one.at(knots) - other.at(knots))[:-1], (before[0] - before[1])[1:]
