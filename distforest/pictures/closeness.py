"""How near a forest finds rows to each other, whatever it is over."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from distforest.errors import InputError
from distforest.estimators.on_pairs import OnPairs
from distforest.estimators.on_rows import OnRows
from distforest.forest.pairs import pair_scores
from distforest.forest.proximities import proximity

if TYPE_CHECKING:
    from distforest.arguments import Floats

MOST_CLUSTERED = 500
"""Training rows whose proximities a picture of a sealed forest shows: all, or so many drawn at random."""


def check_forest(forest: Any) -> Any:
    """Return a fitted estimator of this package; raises InputError for anything else."""
    if not isinstance(forest, (OnRows, OnPairs)):
        raise InputError(f"forest: an estimator of distforest was expected, found {type(forest).__name__}")
    check_is_fitted(forest, "forest_")
    return forest


def closeness(forest: Any, X: Any = None) -> Floats:
    """How near a forest finds rows, by default its training rows: shares of common leaves, or of pairs 1 - distance."""
    own = check_forest(forest)
    return own.proximity(X) if isinstance(own, OnRows) else 1.0 - own.distance(X)


def closeness_of_some(forest: Any) -> Floats:
    """The `closeness` of training rows, or of `MOST_CLUSTERED` of them, the same ones every time, in their order.

    Raises
    ------
    InputError
        Rows out of bag were not routed.
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
