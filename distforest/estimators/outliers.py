"""The estimator of outliers: it needs similarities and nothing to learn."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.base import OutlierMixin

from distforest.estimators.simforest import SIMILARITY, OnSimilarities
from distforest.forest import scoring
from distforest.growth.methods import METHODS
from distforest.sources.kernels import KERNELS

if TYPE_CHECKING:
    from distforest.forest.forest import Forest
    from distforest.sources.source import Floats, Int32s, Ints

_SIMILARITY = (replace(SIMILARITY[0], words=("precomputed", *KERNELS)), *SIMILARITY[1:])
EVEN = -0.5
"""The score of a row that is alone as soon as rows usually are."""


@dataclass(eq=False, repr=False)
class SimForestOutlier(OutlierMixin, OnSimilarities):  # type: ignore[misc]
    """Isolation forest of objects of which only similarities are known (after Liu, Ting, Zhou, 2008).

    A node draws two objects at random and cuts its objects at a random place by how much more similar they are to
    the one than to the other. An outlier is alone after few cuts. The distance of two rows is the share of trees
    in which they end in different nodes.

    The similarity must not fade: where it is 0 for all that is far (``"rbf"`` with its usual ``gamma``), an outlier
    is as similar to the one as to the other, as half of the usual objects are. Distances do not fade.

    Parameters
    ----------
    {parameters}

    Attributes
    ----------
    forest_, digest_, n_features_in_, feature_names_in_
        As of `SMERF`; for a `Lazy` similarity ``n_features_in_`` is the number of training objects.
    objects_, n_evaluations_, n_closed_
        As of `SimForestClassifier`.
    offset_ : float
        Rows that score below it are outliers: -1/2, or what leaves the share ``contamination`` of the training
        rows below it.

    Examples
    --------
    >>> X = np.array([[0.0], [0.1], [0.2], [0.3], [0.4], [9.0]])
    >>> SimForestOutlier("linear", random_state=0).fit(X).predict([[0.15], [8.0]])
    array([ 1, -1])
    """

    _method = METHODS["isolation"]
    _random_cuts = True
    _parameters = (*_SIMILARITY, *_method.parameters)

    similarity: Any = "precomputed"
    _: KW_ONLY
    kind: str = "similarity"
    gamma: float | None = None
    n_estimators: int = 100
    max_samples: float | None = 256
    contamination: float | str = "auto"
    random_state: Any = None
    n_jobs: int | None = None
    client: Any = None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = False
        return tags

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: ARG002  (scikit-learn passes it)
        """Grow the forest.

        Parameters
        ----------
        X
            For ``similarity="precomputed"`` the similarity (or distance) of each object to each, NaN where it
            was not observed, shape (n, n); else features, shape (n, n_features). Array-like, Zarr array, or
            the address of one. A sparse matrix, SciPy's or the address of one in Zarr, holds similarities (or
            distances) that were observed, its diagonal too: what is not stored was not. For a `Lazy` similarity
            the objects, a sequence of length n, or places in its ``objects``, integers of shape (n,).
        y
            Not looked at.

        Raises
        ------
        InputError
            A parameter or ``X`` cannot be used.
        """
        params = self._checked(())
        self._grow_of(self._taken(X), None, params)
        self._set_offset()
        return self

    def score_samples(self, X: Any) -> Floats:
        """Take how usual each row of ``X`` is, shape (n,): near -1 for outliers, above -1/2 for the usual."""
        return self._scores(self._nodes(X))

    def decision_function(self, X: Any) -> Floats:
        """Take by how much each row of ``X`` scores above ``offset_``, shape (n,): negative for outliers."""
        return self.score_samples(X) - self.offset_

    def predict(self, X: Any) -> Ints:
        """Find the outliers among the rows of ``X``: -1, and 1 for the others, shape (n,)."""
        return np.where(self.decision_function(X) < 0, -1, 1)

    def _scores(self, nodes: Int32s) -> Floats:
        return -scoring.isolation(self.forest_, nodes)

    def _set_offset(self) -> None:
        self.offset_ = EVEN
        if self.contamination != "auto":
            training = self._scores(self.forest_.training_nodes)
            self.offset_ = float(np.percentile(training, 100.0 * float(self.contamination)))

    def _adopt(self, forest: Forest) -> None:
        super()._adopt(forest)
        self._set_offset()
