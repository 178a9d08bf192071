"""Data that the tests of the estimators share."""

from __future__ import annotations

import numpy as np
import scipy.sparse
from sklearn.datasets import load_iris

X, Y = load_iris(return_X_y=True)
NAMES = load_iris().target_names[Y]
SMALL, SMALL_Y = X[::4], Y[::4]
THIRD, THIRD_Y = X[::3], Y[::3]
CITY = np.abs(THIRD[:, None] - THIRD).sum(axis=2)
EUCLID = np.sqrt(((THIRD[:, None] - THIRD) ** 2).sum(axis=2))
POINTS = np.random.default_rng(0).normal(size=(40, 3))
TARGETS = POINTS[:, 0] + 0.1 * POINTS[:, 1]
DISTANCES = np.abs(TARGETS[:, None] - TARGETS)
HALVES = (np.median(TARGETS) < TARGETS).astype(np.int32)
"""Labels of the points."""


def observed(values: np.ndarray) -> scipy.sparse.coo_array:
    """The observed values alone, zeros too, as a sparse matrix."""
    places = np.nonzero(~np.isnan(values))
    return scipy.sparse.coo_array((values[places], places), values.shape)
