"""Estimator of outliers, which learns from similarities without a ground truth."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, replace
from typing import TYPE_CHECKING, Self

import numpy as np
from sklearn.base import OutlierMixin

from distforest.estimators.by_blocks import by_blocks
from distforest.estimators.input_types import RowsLike, SeedLike, SimilarityLike, VectorLike
from distforest.estimators.simforest import SIMILARITY, OnSimilarities
from distforest.forest import scoring
from distforest.growth.methods import METHODS
from distforest.sources.collections import computed
from distforest.sources.kernels import KERNELS

if TYPE_CHECKING:
    from distributed import Client
    from sklearn.utils import Tags

    from distforest.forest.forest import Forest
    from distforest.sources.source import Floats, Int32s, Ints

_SIMILARITY = (replace(SIMILARITY[0], words=("precomputed", *KERNELS)), *SIMILARITY[1:])
USUAL_SCORE = -0.5
"""The score of a row whose path to a leaf is as long as that of most rows."""


@dataclass(eq=False, repr=False)
class SimForestOutlier(OutlierMixin, OnSimilarities):  # type: ignore[misc]
    """Isolation forest on similarities (after Liu, Ting, Zhou, 2008).

    A node draws two objects at random. It splits its objects by the difference of their similarities to these two, at a
    random threshold. An outlier is isolated after few splits. The distance of two rows is the share of trees in
    which they end in different nodes.

    The similarity must not vanish for distant objects, as ``"rbf"`` does with its default ``gamma``: an outlier is then
    equally similar to both objects, as are half of the usual objects. Distances do not have this problem.

    Parameters
    ----------
    {parameters}

    Attributes
    ----------
    forest_, digest_, n_features_in_, feature_names_in_
        As in `SMERF`; for a `Lazy` similarity ``n_features_in_`` is the number of training objects.
    objects_, n_evaluations_, n_closed_
        As in `SimForestClassifier`.
    offset_ : float
        Rows with a lower score are outliers: -1/2, or the score below which the share ``contamination`` of the
        training rows lies.

    Examples
    --------
    >>> X = np.array([[0.0], [0.1], [0.2], [0.3], [0.4], [9.0]])
    >>> SimForestOutlier("linear", random_state=0).fit(X).predict([[0.15], [8.0]])
    array([ 1, -1])
    """

    _method = METHODS["isolation"]
    _random_cuts = True
    _parameters = (*_SIMILARITY, *_method.parameters)

    similarity: SimilarityLike = "precomputed"
    _: KW_ONLY
    similarity_weights: VectorLike | None = None
    kind: str = "similarity"
    gamma: float | None = None
    n_estimators: int = 100
    max_samples: float | None = 256
    contamination: float | str = "auto"
    random_state: SeedLike = None
    n_jobs: int | None = None
    verbose: int = 0
    warm_start: bool = False
    client: Client | None = None

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = False
        return tags

    def fit(
        self,
        X: RowsLike,
        y: object = None,  # noqa: ARG002  (scikit-learn passes it)
        sample_weight: VectorLike | None = None,
    ) -> Self:
        """Grow the forest.

        Parameters
        ----------
        X
            As for `SimForestClassifier.fit`. In a sparse matrix, entries on the diagonal that are not stored are also
            unobserved.
        y
            Not used.
        sample_weight
            A weight for each object, shape (n,), as for `SMERF.fit`. They affect the pairs that a node draws, path
            lengths, and ``contamination``. A tree draws ``max_samples`` objects as if there were no weights.

        Raises
        ------
        InputError
            A parameter, ``X`` or ``sample_weight`` cannot be used.

        Warns
        -----
        DistforestWarning
            A check has a finding, or the forest has learned little: see the page on checks.
        """
        params = self._checked_params(())
        X, sample_weight = computed(X, sample_weight)
        self._warn_of_order(X, sample_weight=sample_weight)
        training = self._read_training(X)
        n_objects = self.n_features_in_ if training is None else training.values.shape[0]
        weights = self._read_weights(sample_weight, n_objects)
        self._grow_from_similarities(training, None, params, weights)
        self._set_offset()
        return self

    @by_blocks
    def score_samples(self, X: RowsLike) -> Floats:
        """Compute the anomaly score of each row of ``X``, shape (n,): near -1 for outliers, above -1/2 for inliers."""
        return self._scores(self._nodes(X))

    @by_blocks
    def decision_function(self, X: RowsLike) -> Floats:
        """Compute `score_samples` minus ``offset_`` for each row of ``X``, shape (n,); outliers are negative."""
        return self.score_samples(X) - self.offset_

    @by_blocks
    def predict(self, X: RowsLike) -> Ints:
        """Predict -1 for each outlier and 1 for each inlier among the rows of ``X``, shape (n,)."""
        return np.where(self.decision_function(X) < 0, -1, 1)

    def _scores(self, nodes: Int32s) -> Floats:
        return -scoring.isolation(self.forest_, nodes)

    def _set_offset(self) -> None:
        self.offset_ = USUAL_SCORE
        if self.contamination != "auto":
            training = self._scores(self.forest_.training_nodes)
            self.offset_ = quantile(training, self.forest_.sample_weight, float(self.contamination))

    def _restore(self, forest: Forest) -> None:
        super()._restore(forest)
        self._set_offset()


def quantile(values: Floats, weights: Int32s | None, share: float) -> float:
    """Compute a quantile as `numpy.quantile` does, with each value repeated as often as its weight says.

    Examples
    --------
    >>> round(quantile(np.array([4.0, 1.0, 2.0]), np.array([0, 3, 1], np.int32), 0.9), 6)
    1.7
    """
    if weights is None:
        return float(np.percentile(values, 100.0 * share))
    order = np.argsort(values, kind="stable")
    end = np.cumsum(weights[order], dtype=np.int64)
    place = share * float(end[-1] - 1)
    lower, upper = values[order[np.searchsorted(end, [np.floor(place), np.ceil(place)], side="right")]]
    return float(lower + (upper - lower) * (place - np.floor(place)))
