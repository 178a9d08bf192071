"""Rows ordered by clusters of their proximities, so that a matrix of them shows its blocks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.cluster.hierarchy import fcluster, leaves_list, linkage, optimal_leaf_ordering
from scipy.spatial.distance import squareform

from distforest.arguments import check_finite, numbers, whole
from distforest.errors import InputError
from distforest.pictures.pictured import Clusters

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from distforest.arguments import Floats

MOST_CLUSTERS = 10
"""Largest number of clusters that is chosen by itself."""

MOST_SERIATED = 1000
"""Largest number of rows whose order is the best of all that the clusters allow; it takes seconds for more."""


def clustered(proximity: ArrayLike, n_clusters: int | None = None) -> Clusters:
    """Order rows by clusters: average linkage of 1 - proximity, near rows next to each other.

    Parameters
    ----------
    proximity
        Shape (n, n), larger means nearer. Of (i, j) and (j, i) the mean counts.
    n_clusters
        Number of clusters, at most n. None: up to `MOST_CLUSTERS`, cut where the heights of two successive joins lie
        farthest apart.

    Returns
    -------
    Clusters

    Raises
    ------
    InputError
        The proximities are no square matrix of finite numbers, or ``n_clusters`` is out of range.

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
        return Clusters(proximity, np.zeros(1), np.zeros(1))
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
    """The number of clusters, from 2, before the join that lies farthest above the one before it; 1 where none does."""
    last = np.append(0.0, heights)[-MOST_CLUSTERS:]
    gaps = np.diff(last)[::-1]  # of 2 clusters first
    return int(np.argmax(gaps)) + 2 if gaps.max(initial=0.0) > 0.0 else 1
