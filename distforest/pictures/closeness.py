"""Closeness of rows by a forest of any kind."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from distforest.errors import InputError
from distforest.estimators.on_pairs import OnPairs
from distforest.estimators.on_rows import OnRows
from distforest.forest import scoring
from distforest.forest.pairs import pair_scores
from distforest.forest.proximities import proximity
from distforest.pictures.clusters import clustered, places_with_shares

if TYPE_CHECKING:
    from distforest.arguments import Floats
    from distforest.forest.forest import Forest
    from distforest.pictures.clusters import Clusters, PrincipalCoordinates

MOST_CLUSTERED = 500
"""Maximum number of training rows in a picture of proximities; of more rows, a random sample is drawn."""

MOST_CLUSTERED_ALL = 5_000
"""Maximum number of training rows for a matrix of distances: 200 MB, about five of which are in memory at once."""


def check_forest(forest: Any) -> Any:
    """Check that an object is a fitted estimator of this package, and return it; raises InputError."""
    if not isinstance(forest, (OnRows, OnPairs)):
        raise InputError(f"forest: an estimator of distforest was expected, found {type(forest).__name__}")
    check_is_fitted(forest, "forest_")
    return forest


def closeness(forest: Any, X: Any = None) -> Floats:
    """Compute the closeness of rows, by default the training rows: shares of common leaves, or 1 - distance."""
    own = check_forest(forest)
    return own.proximity(X) if isinstance(own, OnRows) else 1.0 - own.distance(X)


def clusters_of_training(
    forest: Forest, n_clusters: int, n_dimensions: int | None = None
) -> tuple[Clusters, PrincipalCoordinates | None]:
    """Compute clusters of the training rows by average linkage of distances, and their principal coordinates.

    Parameters
    ----------
    forest
        The forest of a fitted estimator, or one that was opened.
    n_clusters
        Number of clusters; there are fewer if distances are equal.
    n_dimensions
        Number of principal coordinates; None: none are computed.

    Raises
    ------
    InputError
        There are more than `MOST_CLUSTERED_ALL` rows, or fewer rows than clusters, or out-of-bag rows were not routed.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from distforest import URerF
    >>> forest = URerF(20, random_state=0).fit(load_iris().data).forest_
    >>> found, places = clusters_of_training(forest, 3, 2)
    >>> len(found.sizes), places.places.shape
    (3, (150, 2))
    """
    n = forest.n_training
    if n > MOST_CLUSTERED_ALL:
        expected = f"forest: at most {MOST_CLUSTERED_ALL:,} training rows were expected, all against each other"
        raise InputError(f"{expected}, found {n:,}; find clusters in the graph of neighbours, kneighbors_graph()")
    if pair_scores.is_over_pairs(forest):
        points = pair_scores.training_points(forest)
        distance = pair_scores.distance(forest, points, points, os.cpu_count() or 1)
    else:
        distance = scoring.distance(forest, forest.training_nodes, forest.training_nodes)
    places = None if n_dimensions is None else places_with_shares(distance, n_dimensions)
    return clustered(-distance, n_clusters), places


def closeness_of_some(forest: Any) -> Floats:
    """Compute the `closeness` of all training rows, or of a fixed sample of `MOST_CLUSTERED` rows in order.

    Raises
    ------
    InputError
        Out-of-bag rows were not routed.
    """
    own = forest.forest_
    rows = np.arange(own.n_training)
    if len(rows) > MOST_CLUSTERED:
        rows = np.sort(np.random.default_rng(0).choice(rows, MOST_CLUSTERED, replace=False))
    if isinstance(forest, OnRows):
        nodes = np.ascontiguousarray(own.training_nodes[:, rows])
        return proximity(nodes, nodes)
    points = pair_scores.points_at(pair_scores.training_points(own), rows)
    return 1.0 - pair_scores.distance(own, points, points)
