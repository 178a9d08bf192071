"""How good a predicted distance is: rank and error measures of distance matrices, of links, and of neighbourhoods.

The first three measures are those of SMERF (Tomita and Vogelstein), section 5.1. They compare two matrices row by row:
``true[i, j]`` and ``predicted[i, j]`` are distances from query i to point j. If queries are compared with themselves
(test x test), the matrices are square with self pairs on the diagonal, which have no meaning and are left out; for
queries against other points pass ``exclude_diagonal=False``. Accuracy of nearest neighbours, precision of retrieval and
mean ranks are those of RFD (Xiong et al.), section 3. The module also exports geodesic precision and recall, which
compare proximities with a manifold, from `distforest.evaluation.geodesics`, and ROC curves from
`distforest.evaluation.roc`.
"""

from __future__ import annotations

from numbers import Integral
from typing import TYPE_CHECKING

import numpy as np
from scipy.stats import rankdata
from sklearn.metrics import average_precision_score, roc_auc_score

from distforest.arguments import check_finite, numbers
from distforest.errors import InputError
from distforest.evaluation.geodesics import (
    Hits,
    component_precision_recall,
    geodesic_precision,
    geodesic_recall,
    neighbor_hits,
    proximity_hits,
    relevant_by_component,
    relevant_by_distance,
)
from distforest.evaluation.roc import ROC, d1, d_infinity, roc_curve

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray

    from distforest.arguments import Floats

__all__ = [
    "ROC",
    "Hits",
    "average_precision",
    "component_precision_recall",
    "d1",
    "d_infinity",
    "geodesic_precision",
    "geodesic_recall",
    "knn_accuracy",
    "mean_average_precision",
    "mean_ranks",
    "mean_spearman",
    "neighbor_hits",
    "proximity_hits",
    "relevant_by_component",
    "relevant_by_distance",
    "retrieval_precision",
    "rmse",
    "roc_auc",
    "roc_curve",
]


def mean_average_precision(true: ArrayLike, predicted: ArrayLike, k: int = 10, exclude_diagonal: bool = True) -> float:
    """Mean over the queries of the average precision of the k truly closest points (mAP-k).

    The k points of smallest true distance are the relevant items of a query. All its points are ranked by predicted
    distance, and the average precision is the mean, over the relevant items, of the share of relevant items among those
    ranked no later. Ties are broken in all ways: the result is the exact expectation over all orders of points of equal
    predicted distance and over all choices among points of equal true distance at the k-th place, each equally likely.
    A constant prediction scores the mean of a random order.

    Parameters
    ----------
    true, predicted : array_like of shape (n_queries, n_points)
        Distances; only their order within a row matters.
    k : int
        Number of relevant items of a query, at most the number of its points.
    exclude_diagonal : bool
        Leave out the self pairs (i, i); the matrices must then be square.

    Returns
    -------
    float
        In (0, 1]; 1 when each query's k closest points are ranked first.

    Raises
    ------
    InputError
        The matrices are not of one shape, not square although the diagonal is excluded, empty or not finite; ``k`` is
        not an integer between 1 and the number of points of a query.

    Examples
    --------
    >>> true = [[0, 1, 2, 3], [1, 0, 4, 5], [2, 4, 0, 6], [3, 5, 6, 0]]
    >>> mean_average_precision(true, true, k=1)
    1.0
    >>> mean_average_precision([[1, 2, 3, 4]], [[2, 1, 3, 4]], k=1, exclude_diagonal=False)
    0.5
    >>> mean_average_precision([[1, 2]], [[7, 7]], k=1, exclude_diagonal=False)    # (1 + 1/2) / 2
    0.75
    """
    true_rows, predicted_rows = _rows(true, predicted, exclude_diagonal)
    n_relevant = _checked_k(k, n_points=true_rows.shape[1])
    pairs = zip(true_rows, predicted_rows, strict=True)
    return float(np.mean([_expected_average_precision(*pair, k=n_relevant) for pair in pairs]))


def mean_spearman(true: ArrayLike, predicted: ArrayLike, exclude_diagonal: bool = True) -> float:
    """Mean over the queries of the Spearman correlation of predicted with true distances.

    Equal distances get the average of their ranks. A query whose true or predicted distances are all equal has no
    correlation and counts as 0, so that a constant prediction scores 0.

    Parameters
    ----------
    true, predicted : array_like of shape (n_queries, n_points)
        Distances; only their order within a row matters.
    exclude_diagonal : bool
        Leave out the self pairs (i, i); the matrices must then be square.

    Returns
    -------
    float
        In [-1, 1].

    Raises
    ------
    InputError
        The matrices are not of one shape, not square although the diagonal is excluded, empty or not finite.

    Examples
    --------
    >>> mean_spearman([[1, 2, 3], [1, 2, 3]], [[1, 4, 9], [5, 5, 5]], exclude_diagonal=False)
    0.5
    """
    true_rows, predicted_rows = _rows(true, predicted, exclude_diagonal)
    middle = (true_rows.shape[1] + 1) / 2
    a = rankdata(true_rows, axis=1) - middle
    b = rankdata(predicted_rows, axis=1) - middle
    product = np.einsum("ij,ij->i", a, b)
    size = np.sqrt(np.einsum("ij,ij->i", a, a) * np.einsum("ij,ij->i", b, b))
    # Ranks are multiples of 1/2 and their sums exact, so a constant row has size 0 and product 0 exactly.
    return float(np.mean(product / np.where(size > 0, size, 1.0)))


def rmse(true: ArrayLike, predicted: ArrayLike, exclude_diagonal: bool = True) -> float:
    """Root of the mean squared difference between predicted and true distances, over all ordered pairs.

    Parameters
    ----------
    true, predicted : array_like of shape (n_queries, n_points)
        Distances on the same scale.
    exclude_diagonal : bool
        Leave out the self pairs (i, i); the matrices must then be square.

    Returns
    -------
    float
        At least 0, in the unit of the distances.

    Raises
    ------
    InputError
        The matrices are not of one shape, not square although the diagonal is excluded, empty or not finite.

    Examples
    --------
    >>> rmse([[0, 3], [3, 0]], [[9, 1], [1, 9]])
    2.0
    """
    true_rows, predicted_rows = _rows(true, predicted, exclude_diagonal)
    return float(np.sqrt(np.mean((predicted_rows - true_rows) ** 2)))


def roc_auc(y: ArrayLike, score: ArrayLike) -> float:
    """Area under the ROC curve: the probability that a positive scores above a negative, ties counting one half.

    Parameters
    ----------
    y : array_like of shape (n,)
        1 (or True) for a positive, 0, -1 (or False) for a negative.
    score : array_like of shape (n,)
        Larger means more likely positive; the score of a distance is its negative.

    Returns
    -------
    float
        In [0, 1]; 1/2 for a constant score.

    Raises
    ------
    InputError
        The arrays are not one-dimensional of one length, ``y`` has other values or only one of the two, or a
        score is not finite.

    Examples
    --------
    >>> roc_auc([1, 0, 1, 0], [0.9, 0.8, 0.7, 0.1])
    0.75
    """
    positive, values = _scored(y, score)
    return float(roc_auc_score(positive, values))


def average_precision(y: ArrayLike, score: ArrayLike) -> float:
    """Average precision: sum over distinct scores of precision times gain in recall, as in scikit-learn.

    Items of equal score count together; `mean_average_precision` instead averages over their orders.

    Parameters
    ----------
    y : array_like of shape (n,)
        1 (or True) for a positive, 0, -1 (or False) for a negative.
    score : array_like of shape (n,)
        Larger means more likely positive; the score of a distance is its negative.

    Returns
    -------
    float
        In (0, 1]; the share of positives for a constant score.

    Raises
    ------
    InputError
        The arrays are not one-dimensional of one length, ``y`` has other values or only one of the two, or a
        score is not finite.

    Examples
    --------
    >>> average_precision([1, 0, 0, 1], [0.9, 0.8, 0.7, 0.1])
    0.75
    """
    positive, values = _scored(y, score)
    return float(average_precision_score(positive, values))


def knn_accuracy(distances: ArrayLike, y_train: ArrayLike, y_test: ArrayLike, ks: Sequence[int]) -> Floats:
    """Share of the queries whose k nearest points vote for their label, for each of several k (RFD, table 2).

    Of points at equal distances the first in the training set counts as nearer; of labels with equal votes the smallest
    wins, as in scikit-learn's ``KNeighborsClassifier``.

    Parameters
    ----------
    distances : array_like of shape (n_test, n_train)
        Distances from each query to each training point. Infinite ones are the farthest; an infinite diagonal leaves
        out the queries themselves.
    y_train : array_like of shape (n_train,)
        Labels, numbers or strings.
    y_test : array_like of shape (n_test,)
        Labels of the queries; a label that no training point has is never predicted.
    ks : sequence of int
        Numbers of neighbours, each at most n_train.

    Returns
    -------
    ndarray of shape (len(ks),), float64
        Accuracies in the order of ``ks``.

    Raises
    ------
    InputError
        The arrays do not match or are empty, a distance is NaN, or a k is not an integer in [1, n_train].

    Examples
    --------
    >>> knn_accuracy([[1, 2, 3], [3, 2, 1]], ["a", "b", "b"], ["a", "a"], ks=[1, 3])
    array([0.5, 0. ])
    """
    table, train, test = _labelled_distances(distances, y_train, y_test)
    checked = [_checked_k(k, n_points=table.shape[1]) for k in ks]
    labels, codes = np.unique(train, return_inverse=True)
    near = codes[_nearest(table, max(checked, default=1))]
    row = np.arange(len(near))[:, None] * len(labels)
    accuracies = []
    for k in checked:
        votes = np.bincount((row + near[:, :k]).ravel(), minlength=len(near) * len(labels))
        chosen = labels[votes.reshape(len(near), len(labels)).argmax(axis=1)]
        accuracies.append(np.mean(chosen == test))
    return np.array(accuracies, dtype=np.float64)


def retrieval_precision(distances: ArrayLike, y_train: ArrayLike, y_test: ArrayLike, k: int = 20) -> float:
    """Mean over the queries of the share of their k nearest points that have their label (RFD, section 3.4).

    Of points at equal distances the first in the training set counts as nearer.

    Parameters
    ----------
    distances : array_like of shape (n_test, n_train)
        Distances from each query to each training point; infinite ones are the farthest.
    y_train, y_test : array_like of shape (n_train,), (n_test,)
        Labels, numbers or strings.
    k : int
        Number of points retrieved, at most n_train.

    Returns
    -------
    float
        In [0, 1].

    Raises
    ------
    InputError
        As for `knn_accuracy`.

    Examples
    --------
    >>> retrieval_precision([[1, 2, 3], [3, 2, 1]], ["a", "b", "b"], ["a", "b"], k=2)
    0.75
    """
    table, train, test = _labelled_distances(distances, y_train, y_test)
    near = _nearest(table, _checked_k(k, n_points=table.shape[1]))
    return float(np.mean(train[near] == test[:, None]))


def mean_ranks(accuracies: ArrayLike) -> Floats:
    """Mean over the data sets of the rank of each method; the most accurate has rank 1 (RFD, table 2).

    Parameters
    ----------
    accuracies : array_like of shape (n_methods, n_data_sets)
        Larger is better; negate errors. Equal accuracies share the mean of their ranks.

    Returns
    -------
    ndarray of shape (n_methods,), float64
        In [1, n_methods], with mean (n_methods + 1) / 2.

    Raises
    ------
    InputError
        The table is not two-dimensional, is empty or holds a value that is not finite.

    Examples
    --------
    >>> mean_ranks([[0.9, 0.8], [0.7, 0.8], [0.6, 0.5]])
    array([1.25, 1.75, 3.  ])
    """
    table = numbers(accuracies, "accuracies", 2)
    if table.size == 0:
        raise InputError(f"accuracies must have a row a method and a column a data set, found shape {table.shape}")
    check_finite(table, "accuracies")
    return np.asarray(rankdata(-table, axis=0).mean(axis=1))


def _labelled_distances(
    distances: ArrayLike, y_train: ArrayLike, y_test: ArrayLike
) -> tuple[Floats, NDArray[np.generic], NDArray[np.generic]]:
    """Check distances from queries to points, and the labels of both."""
    table, train, test = numbers(distances, "distances", 2), np.asarray(y_train), np.asarray(y_test)
    if table.size == 0 or (train.shape, test.shape) != ((table.shape[1],), (table.shape[0],)):
        raise InputError(
            "distances must have a row for each label of y_test and a column for each of y_train, at least one, found "
            f"{table.shape} with {test.shape} and {train.shape}"
        )
    n_missing = int(np.count_nonzero(np.isnan(table)))
    if n_missing:
        raise InputError(
            f"distances must not be NaN, found {n_missing} of {table.size}; pass infinity for the farthest"
        )
    return table, train, test


def _nearest(distances: Floats, k: int) -> NDArray[np.intp]:
    """The k nearest points of each query, nearest first, shape (n_queries, k); of ties the first point first."""
    # Row by row, because a table of the ranks of all points would be as large as that of the distances.
    return np.stack([np.argsort(row, kind="stable")[:k] for row in distances])


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


def _checked_k(k: object, n_points: int) -> int:
    """Return ``k``; raises InputError if it is no number of a query's points."""
    if not isinstance(k, bool) and isinstance(k, Integral) and 1 <= int(k) <= n_points:
        return int(k)
    raise InputError(f"k must be an integer in [1, {n_points}], the number of points of a query, found {k!r}")


def _rows(true: ArrayLike, predicted: ArrayLike, exclude_diagonal: bool) -> tuple[Floats, Floats]:
    """Check both matrices; returns them as float64, without the diagonal if it is excluded."""
    a, b = numbers(true, "true", 2), numbers(predicted, "predicted", 2)
    if a.shape != b.shape:
        raise InputError(f"true and predicted must be of one shape, found {a.shape} and {b.shape}")
    if exclude_diagonal:
        if a.shape[0] != a.shape[1]:
            raise InputError(
                f"self pairs can only be left out of square matrices, found shape {a.shape}; pass "
                "exclude_diagonal=False for queries against other points"
            )
        n = len(a)
        other = ~np.eye(n, dtype=np.bool_)
        a, b = (m[other].reshape(n, max(n - 1, 0)) for m in (a, b))
    if a.size == 0:
        raise InputError(f"nothing to compare: no pairs are left (exclude_diagonal={exclude_diagonal!r})")
    check_finite(a, "true")
    check_finite(b, "predicted")
    return a, b


def _scored(y: ArrayLike, score: ArrayLike) -> tuple[NDArray[np.bool_], Floats]:
    """Check labels and scores; returns which items are positive, and their scores."""
    labels, values = numbers(y, "y", 1), numbers(score, "score", 1)
    if labels.shape != values.shape:
        raise InputError(f"y and score must be of one length, found {len(labels)} and {len(values)}")
    distinct = np.unique(labels)
    if distinct.tolist() not in ([0.0, 1.0], [-1.0, 1.0]):
        raise InputError(f"y must hold 1 and one of 0 or -1, and nothing else, found {distinct[:10].tolist()!r}")
    check_finite(values, "score")
    return labels == 1, values
