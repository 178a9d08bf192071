"""Arrangements of rows: ordered by clusters of their proximities, or in the plane by their distances."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.cluster.hierarchy import fcluster, leaves_list, linkage, optimal_leaf_ordering
from scipy.spatial.distance import squareform

from distforest.arguments import check_finite, numbers, whole
from distforest.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from distforest.arguments import Floats
    from distforest.sources.source import Ints

MOST_CLUSTERS = 10
"""Maximum number of clusters that is chosen automatically."""

MOST_SERIATED = 1000
"""Maximum number of rows for which the optimal order within the clusters is computed; it takes seconds for more."""


@dataclass(frozen=True)
class Clusters:
    """Proximities of rows, and their clusters.

    Attributes
    ----------
    proximity
        Proximities in the order of the rows, shape (n, n).
    order
        The rows in the order of the picture, shape (n,); those of a cluster are next to each other.
    codes
        The cluster of each row, shape (n,); clusters are numbered as they occur in ``order``.
    """

    proximity: Floats
    order: Ints
    codes: Ints

    @property
    def ordered(self) -> Floats:
        """Proximities in the order of the picture, shape (n, n)."""
        ordered: Floats = self.proximity[np.ix_(self.order, self.order)]
        return ordered

    @property
    def sizes(self) -> Ints:
        """Number of rows in each cluster, shape (n_clusters,)."""
        return np.bincount(self.codes)


def clustered(proximity: ArrayLike, n_clusters: int | None = None) -> Clusters:
    """Order rows by clusters of average linkage of 1 - proximity, with near rows next to each other.

    Parameters
    ----------
    proximity
        Proximities, shape (n, n); larger means nearer. The mean of (i, j) and (j, i) is used.
    n_clusters
        Number of clusters, at most n. None: up to `MOST_CLUSTERS`, cut where the heights of two successive joins lie
        farthest apart.

    Returns
    -------
    Clusters

    Raises
    ------
    InputError
        The proximities are not a square matrix of finite numbers, or ``n_clusters`` is out of range.

    Examples
    --------
    >>> near = np.array([[1, 0, 0.9, 0], [0, 1, 0, 0.8], [0.9, 0, 1, 0], [0, 0.8, 0, 1]])
    >>> found = clustered(near)
    >>> found.codes.tolist(), found.sizes.tolist()
    ([0, 1, 0, 1], [2, 2])
    """
    proximity = numbers(proximity, "proximity", 2)
    n = len(proximity)
    if proximity.shape != (n, n) or not n:
        raise InputError(f"proximity must be a square matrix with rows, found shape {proximity.shape}")
    check_finite(proximity, "proximity")
    if n_clusters is not None and whole("n_clusters", n_clusters, 1) > n:
        raise InputError(f"n_clusters: at most {n:,}, one for each row, were expected, found {n_clusters:,}")
    if n == 1:
        return Clusters(proximity, np.zeros(1, np.int64), np.zeros(1, np.int64))
    apart = proximity.max() - (proximity + proximity.T) / 2.0
    np.fill_diagonal(apart, 0.0)
    condensed = squareform(apart, checks=False)
    joins = linkage(condensed, "average")
    if n <= MOST_SERIATED:
        joins = optimal_leaf_ordering(joins, condensed)
    order = leaves_list(joins)
    codes = fcluster(joins, n_clusters or _widest_gap(joins[:, 2]), "maxclust")
    first = np.append(True, np.diff(codes[order]) != 0)  # a cluster is a run of the order
    numbered = np.empty(n, np.int64)
    numbered[order] = np.cumsum(first) - 1
    return Clusters(proximity, order, numbered)


def _widest_gap(heights: Floats) -> int:
    """Return the number of clusters below the widest gap between two successive joins; 1 if there is no gap."""
    last = np.append(0.0, heights)[-MOST_CLUSTERS:]
    gaps = np.diff(last)[::-1]  # of 2 clusters first
    return int(np.argmax(gaps)) + 2 if gaps.max(initial=0.0) > 0.0 else 1


class PrincipalCoordinates(NamedTuple):
    """Points in a space, and the share of variance of each dimension.

    Attributes
    ----------
    places
        Coordinates, shape (n, n_dimensions), the widest dimension first.
    shares
        Share of the variance along each dimension, shape (n_dimensions,): its eigenvalue, divided by the sum of the
        absolute values of all eigenvalues. Some are negative if the distances are not Euclidean.
    """

    places: Floats
    shares: Floats


def principal_coordinates(distance: np.ndarray, n_dimensions: int) -> Floats:
    """Compute points whose Euclidean distances approximate given ones by classical scaling (Torgerson).

    Parameters
    ----------
    distance
        Distances, shape (n, n), symmetric.
    n_dimensions
        Number of dimensions of the map.

    Returns
    -------
    ndarray
        Coordinates, shape (n, n_dimensions), the widest dimension first. The sign of each dimension makes its entry of
        the largest absolute value positive.

    Raises
    ------
    InputError
        The distances are not a square matrix of finite numbers, or ``n_dimensions`` is not an integer >= 1.

    Examples
    --------
    >>> from distforest import principal_coordinates
    >>> points = np.array([0.0, 1.0, 5.0])
    >>> places = principal_coordinates(np.abs(points[:, None] - points), 1)
    >>> np.allclose(places[:, 0], points - 2.0)
    True
    """
    return places_with_shares(distance, n_dimensions).places


def places_with_shares(distance: np.ndarray, n_dimensions: int) -> PrincipalCoordinates:
    """Compute points as `principal_coordinates` does, with the share of variance of each dimension.

    Examples
    --------
    >>> points = np.array([[0, 0], [0, 1], [4, 0], [4, 1]])
    >>> found = places_with_shares(np.linalg.norm(points[:, None] - points, axis=2), 2)
    >>> np.round(found.shares, 3)
    array([0.941, 0.059])
    """
    distance = numbers(distance, "distance", 2)
    if distance.shape[0] != distance.shape[1] or not len(distance):
        raise InputError(f"distance must be a square matrix with rows, found shape {distance.shape}")
    check_finite(distance, "distance")
    squares = distance**2
    centred = squares - squares.mean(axis=0) - squares.mean(axis=1, keepdims=True) + squares.mean()
    values, vectors = np.linalg.eigh(-centred / 2.0)
    widest = np.argsort(values)[::-1][: whole("n_dimensions", n_dimensions, 1)]
    places = vectors[:, widest] * np.sqrt(np.maximum(values[widest], 0.0))
    largest = places[np.argmax(np.abs(places), axis=0), np.arange(places.shape[1])]
    shares = np.maximum(values[widest], 0.0) / (np.abs(values).sum() or 1.0)
    return PrincipalCoordinates(places * np.where(largest < 0, -1.0, 1.0), shares)
