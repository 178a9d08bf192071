"""Base of the estimators that split features: how features are read, drawn and weighted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse
from sklearn.utils.validation import check_is_fitted

from distforest.checks.suspicions import Given
from distforest.checks.table import warn_of
from distforest.errors import InputError, warn_caller
from distforest.estimators.input_types import FeaturesLike, FeatureWeightsLike, SparseLike
from distforest.estimators.on_rows import OnRows
from distforest.forest import explanations, importances, scoring
from distforest.forest.forest import shares_of
from distforest.growth.methods import check_sparse, for_sparse
from distforest.jobs.plan import exceeds
from distforest.sources.given import is_stored, unmasked
from distforest.sources.mapped_rows import features_on_disk
from distforest.sources.row_kinds import Features
from distforest.sources.row_order import warning_about_named_weights
from distforest.sources.schema import Schema
from distforest.sources.scratch import OF_HOST
from distforest.sources.sparse_features import read_sparse_features

if TYPE_CHECKING:
    from sklearn.utils import Tags

    from distforest.estimators.input_types import RowsLike
    from distforest.forest.explanations import Explanation
    from distforest.forest.importances import FeatureImportances
    from distforest.growth.parameters import Value
    from distforest.sources.source import Float32s, Floats
    from distforest.sources.sparse_features import SparseFeatures
    from distforest.sources.truth import Truth


class OnFeatures(OnRows):
    """Base class of the estimators that split features.

    ``feature_weights`` may be an array, or a string that the parameter allows.
    """

    feature_weights: FeatureWeightsLike
    _zero_is_absent = True

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = not for_sparse({row.name: getattr(self, row.name) for row in self._parameters})
        return tags

    def _training_features(self, X: FeaturesLike | SparseLike) -> Float32s | SparseFeatures:
        """Read the features of the training rows, shape (n, n_features)."""
        rows = self._rows(X, reset=True)
        if warning := warning_about_named_weights(self._feature_names(), self.feature_weights):
            warn_caller(f"DF005 {warning}")
        if scipy.sparse.issparse(rows):
            check_sparse(self._params())
            return read_sparse_features(rows)
        if is_stored(rows) and len(rows.shape) == 2:
            params = {row.name: getattr(self, row.name, row.default) for row in self._method.parameters}
            if exceeds(self._method.name, params, rows.shape, self._room()):  # not even one tree fits into memory
                warn_of(Given(raw=rows, names=self._names()))
                return features_on_disk(rows, OF_HOST.path / "passes")
        return self._read_features(rows)

    def _grow_on(
        self,
        features: Float32s | SparseFeatures,
        truth: Truth | None,
        params: dict[str, Value],
        sample_weight: Floats | None,
    ) -> None:
        """Grow the forest on features and a ground truth, or only on features."""
        rows = Features(features.shape[1], self._n_categories())
        self._grow(rows, features, truth, params, self._weights(), sample_weight)

    def _params(self) -> dict[str, Value]:
        """Return the parameters as the user has set them, with ``"given"`` for an array of weights."""
        params = super()._params()
        return params if self._weights() is None else {**params, "feature_weights": "given"}

    def _weights(self) -> Floats | None:
        """Return the array of weights, None if there is none; raises InputError if it is not a vector of numbers."""
        if self.feature_weights is None or isinstance(self.feature_weights, str):
            return None
        weights = np.asarray(unmasked(self.feature_weights), np.float64)
        if weights.ndim != 1:
            raise InputError(f"feature_weights: shape (n_features,) was expected, found {weights.shape}")
        return weights

    @property
    def feature_importances_(self) -> Floats:
        """Share of each feature in the gain of all splits, or in the sizes of split nodes, shape (n_features_in_,)."""
        check_is_fitted(self)
        return scoring.feature_importances(self.forest_)

    def gain_importances(self) -> FeatureImportances:
        """Compute `feature_importances_` with their standard errors over the trees.

        A split on a sum of several features counts fully for each of them. So a feature that often occurs in sums with
        an important one seems important, too. `SMERF.permutation_importances` distinguishes them.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from distforest import SMERF
        >>> X, y = load_iris(return_X_y=True)
        >>> found = SMERF(50, random_state=0).fit(X, y).gain_importances()
        >>> sorted(name for name, _, _ in found.largest(2))
        ['x2', 'x3']
        """
        check_is_fitted(self)
        return importances.gain_importances(self.forest_, self._feature_names())

    def explain(self, left: RowsLike, right: RowsLike) -> Explanation:
        """Explain the distance of each pair of rows as a sum over the features.

        Parameters
        ----------
        left, right
            Rows, shapes (n_pairs, n_features) both; row k of ``left`` is compared with row k of ``right``.

        Returns
        -------
        Explanation
            The distance of each pair is the mean distance of the training rows, plus a positive or negative
            contribution of each feature.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from distforest import SMERF
        >>> iris = load_iris()
        >>> forest = SMERF(50, random_state=0).fit(iris.data, iris.target)
        >>> found = forest.explain(iris.data[:1], iris.data[100:101])
        >>> round(float(found.baselines[0]), 2), round(float(found.distances[0]), 2)
        (0.66, 1.0)
        >>> [name for name, _ in found.strongest(0, 2)]
        ['x2', 'x3']
        """
        return explanations.explain_rows(self.forest_, self._nodes(left), self._nodes(right), self._feature_names())

    def _feature_names(self) -> tuple[str, ...]:
        """Return the names of the features, or "0", "1" and so on if they have none."""
        return self._names() or Schema.unnamed(self.n_features_in_).names

    @property
    def feature_weights_(self) -> Floats:
        """Probability with which each feature was drawn, shape (n_features_in_,)."""
        check_is_fitted(self)
        weights = self.forest_.feature_weights
        return shares_of(np.ones(self.forest_.n_columns) if weights is None else weights)

    @property
    def dependence_(self) -> Floats | None:
        """Dependence of each feature on another one, 0 to 1, shape (n_features_in_,); None without a screen."""
        check_is_fitted(self)
        return self.forest_.dependence
