"""Geodesic precision and recall: how well a learner's neighbours agree with a known manifold (URerF).

A query is one of n points and retrieves some of the other points. The relevant ones are its k nearest on the manifold
or, if the manifold has several components, all others of its component (Madhyastha et al., "Geodesic Precision and
Recall"). The order of rows does not matter: results are exact expectations over all orders of equal proximities and,
independently, over all orders of equal distances. Queries are passed all at once or in blocks: ``rows`` says which
points they are, and `Hits.joined` joins blocks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from distforest.amounts import are, counted
from distforest.arguments import numbers, whole
from distforest.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray

    from distforest.arguments import Floats

    Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Hits:
    """How much of what each query retrieves is relevant.

    Attributes
    ----------
    hits : ndarray of shape (n_queries,), float64
        Expected number of retrieved points that are relevant.
    n_retrieved : int
        Number of points that each query retrieves.
    n_relevant : ndarray of shape (n_queries,), float64
        Number of relevant points.
    """

    hits: Floats
    n_retrieved: int
    n_relevant: Floats

    @property
    def precision(self) -> float:
        """Mean over the queries of the share of retrieved points that are relevant."""
        return float(np.mean(self.hits / self.n_retrieved))

    @property
    def recall(self) -> float:
        """Mean of the share of relevant points that are retrieved, over queries that have any; NaN if none has."""
        any_relevant = self.n_relevant > 0
        if not any_relevant.any():
            return float("nan")
        return float(np.mean(self.hits[any_relevant] / self.n_relevant[any_relevant]))

    @classmethod
    def joined(cls, parts: Sequence[Hits]) -> Hits:
        """Join the hits of blocks of queries; raises InputError if they retrieve different numbers of points."""
        if len({part.n_retrieved for part in parts}) != 1:
            raise InputError(f"blocks of one k were expected, found {sorted({part.n_retrieved for part in parts})}")
        hits, n_relevant = (np.concatenate([getattr(p, name) for p in parts]) for name in ("hits", "n_relevant"))
        return cls(hits, parts[0].n_retrieved, n_relevant)


# --- relevant points ---------------------------------------------------------------------------------------


def relevant_by_distance(geodesic: ArrayLike, k: int, rows: ArrayLike | None = None) -> Floats:
    """The probability that a point is one of the k nearest of a query.

    Parameters
    ----------
    geodesic : array_like of shape (n_queries, n)
        Distances on the manifold; a point at an infinite distance is never relevant.
    k : int
        Number of relevant points, 1 <= k <= n - 1; fewer if fewer are at a finite distance.
    rows : array_like of shape (n_queries,) or None
        Which of the n points the queries are; None: query i is point i.

    Returns
    -------
    ndarray of shape (n_queries, n)
        1 for a point nearer than the k-th; points at the distance of the k-th share the remaining places equally.

    Raises
    ------
    InputError
        The arrays do not match, a distance is NaN or negative, or ``k`` is out of range.

    Examples
    --------
    >>> relevant_by_distance([[0, 1, 1, 2]], k=1, rows=[0])
    array([[0. , 0.5, 0.5, 0. ]])
    """
    distances = numbers(geodesic, "geodesic", 2)
    queries = _queries(rows, distances)
    if np.isnan(distances).any() or (distances < 0).any():
        raise InputError("geodesic must hold distances >= 0, found NaN or negative values")
    others = _others(distances, queries)
    count = _checked_k(k, others.shape[1])
    chances = np.zeros(distances.shape)
    chances[_is_other(distances, queries)] = np.where(np.isfinite(others), _chance_of_least(others, count), 0.0).ravel()
    return chances


def relevant_by_component(labels: ArrayLike, rows: ArrayLike | None = None) -> Floats:
    """Whether a point is in the component of a query, and is not the query itself.

    Parameters
    ----------
    labels : array_like of shape (n,)
        The component of each point: integers, or any other values that can be compared.
    rows : array_like of shape (n_queries,) or None
        Which of the n points the queries are; all, in order, by default.

    Returns
    -------
    ndarray of shape (n_queries, n)
        1 or 0.

    Raises
    ------
    InputError
        ``labels`` are not one-dimensional, or ``rows`` are not row numbers.

    Examples
    --------
    >>> relevant_by_component([3, 4, 3], rows=[0])
    array([[0., 0., 1.]])
    """
    component = np.asarray(labels)
    if component.ndim != 1:
        raise InputError(f"labels must have 1 dimension, found shape {component.shape}")
    queries = np.arange(len(component)) if rows is None else _row_numbers(rows, len(component))
    same = (component[queries, None] == component).astype(np.float64)
    same[np.arange(len(queries)), queries] = 0.0
    return same


# --- retrieved points --------------------------------------------------------------------------------------


def proximity_hits(proximity: ArrayLike, relevant: Floats, k: int, rows: ArrayLike | None = None) -> Hits:
    """The hits of queries that retrieve the k most proximate other points.

    Parameters
    ----------
    proximity : array_like of shape (n_queries, n)
        Larger means nearer, and only the order within a row matters: pass the negative of distances. NaN comes last,
        such as for a pair that is in no tree.
    relevant : ndarray of shape (n_queries, n)
        Relevant points, as `relevant_by_distance` or `relevant_by_component` returns them.
    k : int
        Number of retrieved points, 1 <= k <= n - 1.
    rows : array_like of shape (n_queries,) or None
        Which of the n points the queries are; None: query i is point i.

    Returns
    -------
    Hits

    Raises
    ------
    InputError
        The arrays do not match, or ``k`` is out of range.

    Examples
    --------
    >>> found = proximity_hits([[1, 0.5, 0.5, 0.1]], relevant_by_component([0, 0, 1, 1], rows=[0]), k=1, rows=[0])
    >>> found.precision
    0.5
    """
    near = numbers(proximity, "proximity", 2)
    queries = _queries(rows, near)
    if near.shape != relevant.shape:
        raise InputError(f"proximity and relevant must be of one shape, found {near.shape} and {relevant.shape}")
    others = -_others(near, queries)
    others[np.isnan(others)] = np.inf
    retrieved = _chance_of_least(others, _checked_k(k, others.shape[1]))
    return Hits(np.einsum("ij,ij->i", retrieved, _others(relevant, queries)), int(k), relevant.sum(axis=1))


def neighbor_hits(indices: ArrayLike, relevant: Floats, k: int, rows: ArrayLike | None = None) -> Hits:
    """The hits of queries that retrieve the first k of their listed neighbours, except themselves.

    It needs no matrix of proximities, so it suits many points. A list has broken its ties, so the result is unbiased
    only if the rows are in random order.

    Parameters
    ----------
    indices : array_like of shape (n_queries, n_listed), integers
        Row numbers of points, the nearest first; the query may be among them.
    relevant : ndarray of shape (n_queries, n)
        Relevant points, as `relevant_by_distance` or `relevant_by_component` returns them.
    k : int
        Number of retrieved points, k >= 1; each list must hold at least so many others.
    rows : array_like of shape (n_queries,) or None
        Which of the n points the queries are; None: query i is point i.

    Returns
    -------
    Hits

    Raises
    ------
    InputError
        The arrays do not match, a list is too short or names a point twice, or ``k`` is out of range.

    Examples
    --------
    >>> neighbor_hits([[0, 2, 1]], relevant_by_component([0, 0, 1, 1], rows=[0]), k=2, rows=[0]).precision
    0.5
    """
    listed = np.asarray(indices)
    if listed.ndim != 2 or listed.dtype.kind not in "iu" or len(listed) != len(relevant):
        raise InputError(
            f"indices must be integers of shape ({len(relevant)}, n_listed), found {_dtype_and_shape(listed)}"
        )
    queries, count = _queries(rows, relevant), whole("k", k, 1)
    inside = (listed >= 0) & (listed < relevant.shape[1])
    if not inside.all():
        raise InputError(f"indices must be in 0..{relevant.shape[1] - 1}, found {int(listed[~inside][0])}")
    ordered = np.sort(listed, axis=1)
    if (ordered[:, 1:] == ordered[:, :-1]).any():
        raise InputError("indices must name a point once a query, found one named twice")
    is_other = listed != queries[:, None]
    short = int(is_other.sum(axis=1).min(initial=count))
    if short < count:
        needed = f"k = {counted(count, 'neighbour')} of each query beside itself {are(count)} needed"
        raise InputError(f"{needed}, found {short}; list more of them")
    first = np.argsort(~is_other, axis=1, kind="stable")[:, :count]
    retrieved = np.take_along_axis(listed, first, axis=1)
    return Hits(np.take_along_axis(relevant, retrieved, axis=1).sum(axis=1), count, relevant.sum(axis=1))


# --- summaries --------------------------------------------------------------------------------------------


def geodesic_precision(proximity: ArrayLike, geodesic: ArrayLike, k: int = 50, n_relevant: int | None = None) -> float:
    """Geodesic precision@k: mean share of the k most proximate points that are among the nearest on the manifold.

    Parameters
    ----------
    proximity : array_like of shape (n, n)
        Larger means nearer; pass the negative of distances. NaN comes last, such as for a pair that is in no tree.
    geodesic : array_like of shape (n, n)
        Distances on the manifold.
    k : int
        Number of points that a query retrieves, at most n - 1.
    n_relevant : int or None
        Number of nearest points that are relevant; k by default, as in the paper.

    Returns
    -------
    float
        In [0, 1]; n_relevant / (n - 1) for a constant proximity.

    Raises
    ------
    InputError
        The matrices are not square and of one shape, or a number is out of range.

    Examples
    --------
    >>> line = np.abs(np.subtract.outer(np.arange(5.0), np.arange(5.0)))
    >>> geodesic_precision(np.exp(-line), line, k=2), round(geodesic_precision(np.ones((5, 5)), line, k=2), 3)
    (1.0, 0.5)
    """
    relevant = relevant_by_distance(geodesic, k if n_relevant is None else n_relevant)
    return proximity_hits(proximity, relevant, k).precision


def geodesic_recall(proximity: ArrayLike, geodesic: ArrayLike, k: int = 50, n_relevant: int | None = None) -> float:
    """Geodesic recall@k: mean share of the nearest on the manifold that are among the k most proximate points.

    With ``n_relevant=None`` it is the geodesic precision@k, as equally many are retrieved and relevant.

    Parameters
    ----------
    proximity : array_like of shape (n, n)
        Larger means nearer; pass the negative of distances. NaN comes last, such as for a pair that is in no tree.
    geodesic : array_like of shape (n, n)
        Distances on the manifold.
    k : int
        Number of points that a query retrieves, at most n - 1.
    n_relevant : int or None
        Number of nearest points that are relevant; k by default.

    Returns
    -------
    float
        In [0, 1].

    Raises
    ------
    InputError
        The matrices are not square and of one shape, or a number is out of range.

    Examples
    --------
    >>> line = np.abs(np.subtract.outer(np.arange(5.0), np.arange(5.0)))
    >>> geodesic_recall(np.exp(-line), line, k=4, n_relevant=1)
    1.0
    """
    relevant = relevant_by_distance(geodesic, k if n_relevant is None else n_relevant)
    return proximity_hits(proximity, relevant, k).recall


def component_precision_recall(proximity: ArrayLike, labels: ArrayLike, k: int = 50) -> tuple[float, float]:
    """Precision@k and recall@k on a manifold of several components: all others of a query's component are relevant.

    The two are equal for a query that retrieves as many points as its component has others. A query that is alone in
    its component has precision 0 and no recall.

    Parameters
    ----------
    proximity : array_like of shape (n, n)
        Larger means nearer; pass the negative of distances. NaN comes last, such as for a pair that is in no tree.
    labels : array_like of shape (n,)
        The component of each point.
    k : int
        Number of points that a query retrieves, at most n - 1.

    Returns
    -------
    precision, recall : float
        In [0, 1]; the recall is NaN if every point is alone.

    Raises
    ------
    InputError
        The arrays do not match, or ``k`` is out of range.

    Examples
    --------
    >>> component_precision_recall([[1, 0.9, 0.1], [0.9, 1, 0.2], [0.1, 0.2, 1]], [0, 0, 0], k=1)
    (1.0, 0.5)
    """
    hits = proximity_hits(proximity, relevant_by_component(labels), k)
    return hits.precision, hits.recall


# --- helpers ----------------------------------------------------------------------------------------------


def _chance_of_least(values: Floats, k: int) -> Floats:
    """The probability of each value to be among the k least of its row, with equal values in random order."""
    kth = np.partition(values, k - 1, axis=1)[:, k - 1, None]
    sure, edge = values < kth, values == kth
    free = k - np.count_nonzero(sure, axis=1, keepdims=True)
    return sure + edge * (free / np.count_nonzero(edge, axis=1, keepdims=True))


def _is_other(matrix: Floats, queries: Ints) -> NDArray[np.bool_]:
    """Which columns are not the query itself."""
    return queries[:, None] != np.arange(matrix.shape[1])


def _others(matrix: Floats, queries: Ints) -> Floats:
    """The matrix without each query's own column, shape (n_queries, n - 1)."""
    return matrix[_is_other(matrix, queries)].reshape(len(matrix), matrix.shape[1] - 1)


def _queries(rows: ArrayLike | None, matrix: Floats) -> Ints:
    """The numbers of the points that the rows of a matrix are, checked."""
    n_queries, n = matrix.shape
    if n < 2 or not n_queries:
        raise InputError(f"a query and a point beside it are needed, found a matrix of shape {matrix.shape}")
    if rows is None:
        if n_queries != n:
            raise InputError(f"a square matrix was expected, found shape {matrix.shape}; for a block of it give rows")
        return np.arange(n)
    queries = _row_numbers(rows, n)
    if len(queries) != n_queries:
        raise InputError(
            f"rows must name the point of each of {counted(n_queries, 'query', 'queries')}, found {len(queries)}"
        )
    return queries


def _row_numbers(rows: ArrayLike, n: int) -> Ints:
    queries = np.asarray(rows)
    if queries.ndim != 1 or queries.dtype.kind not in "iu":
        raise InputError(f"rows must be integers of shape (n_queries,), found {_dtype_and_shape(queries)}")
    if queries.size and not (queries.min() >= 0 and queries.max() < n):
        raise InputError(f"rows must be in 0..{n - 1}, found {int(queries.min())}..{int(queries.max())}")
    return queries.astype(np.int64)


def _checked_k(k: object, most: int) -> int:
    """Return ``k``; raises InputError if a query has fewer other points."""
    count = whole("k", k, 1)
    if count > most:
        raise InputError(f"k must be at most {most}, the number of points beside the query, found {count}")
    return count


def _dtype_and_shape(array: np.ndarray) -> str:
    return f"{array.dtype} of shape {array.shape}"
