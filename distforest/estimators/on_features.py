"""What the estimators share that split features: how features are read, drawn and weighed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from distforest.errors import InputError
from distforest.estimators.on_rows import OnRows
from distforest.forest import scoring
from distforest.forest.forest import shares_of
from distforest.sources.given import unmasked
from distforest.sources.row_kinds import Features

if TYPE_CHECKING:
    from distforest.sources.source import Float32s, Floats
    from distforest.sources.truth import Truth


class OnFeatures(OnRows):
    """What the estimators share that split features.

    ``feature_weights`` may be an array beside the words of the parameter.
    """

    feature_weights: Any

    def _features(self, X: Any) -> Float32s:
        """Read the features that the forest is to learn from, shape (n, n_features)."""
        return self._read_features(self._rows(X, reset=True))

    def _grow_on(self, features: Float32s, truth: Truth | None, params: dict[str, Any]) -> None:
        """Grow the forest on features; without a truth it learns from nothing else."""
        self._grow(Features(features.shape[1]), features, truth, params, self._weights())

    def _given(self) -> dict[str, Any]:
        """Collect the parameters as they were given; weights in an array go by a word."""
        given = super()._given()
        return given if self._weights() is None else {**given, "feature_weights": "given"}

    def _weights(self) -> Floats | None:
        """Take the weights in an array; None where none were given; raises InputError for what is no vector."""
        if self.feature_weights is None or isinstance(self.feature_weights, str):
            return None
        try:
            weights = np.asarray(unmasked(self.feature_weights), np.float64)
        except (TypeError, ValueError) as error:
            raise InputError(f"feature_weights must be numbers, found {self.feature_weights!r}") from error
        if weights.ndim != 1:
            raise InputError(f"feature_weights: shape (n_features,) was expected, found {weights.shape}")
        return weights

    @property
    def feature_importances_(self) -> Floats:
        """Share of each feature in the gain of all cuts, or in the sizes of the nodes cut, shape (n_features_in_,)."""
        check_is_fitted(self)
        return scoring.feature_importances(self.forest_)

    @property
    def feature_weights_(self) -> Floats:
        """How likely each feature was to be drawn, shape (n_features_in_,); their sum is 1."""
        check_is_fitted(self)
        weights = self.forest_.feature_weights
        return shares_of(np.ones(self.forest_.n_columns) if weights is None else weights)

    @property
    def dependence_(self) -> Floats | None:
        """By how much each feature depends on another, 0 to 1, shape (n_features_in_,); None if not screened."""
        check_is_fitted(self)
        return self.forest_.dependence
