"""The base of the estimators that split features: how features are read, drawn and weighted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse
from sklearn.utils.validation import check_is_fitted, validate_data

from distforest.errors import InputError, warn_caller
from distforest.estimators.input_types import CategoricalLike, FeaturesLike, FeatureWeightsLike, SparseLike
from distforest.estimators.on_rows import OnRows
from distforest.forest import explanations, scoring
from distforest.forest.forest import shares_of
from distforest.growth.methods import check_sparse, for_sparse
from distforest.sources.category_columns import CategoryTable, is_from_dtype, told_of_unseen
from distforest.sources.doubts import Sample
from distforest.sources.given import is_data_frame, unmasked
from distforest.sources.row_kinds import Features
from distforest.sources.schema import Schema
from distforest.sources.sparse_features import read_sparse_features

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from sklearn.utils import Tags

    from distforest.estimators.input_types import RowsLike
    from distforest.forest.explanations import Explanation
    from distforest.growth.parameters import Value
    from distforest.sources.arrays import Matrix
    from distforest.sources.source import Float32s, Floats
    from distforest.sources.sparse_features import SparseFeatures
    from distforest.sources.truth import Truth


class OnFeatures(OnRows):
    """The base of the estimators that split features.

    ``feature_weights`` may be an array, or one of the words that the parameter allows.
    """

    feature_weights: FeatureWeightsLike
    categorical_features: CategoricalLike
    _zero_is_absent = True

    def _encoded(self, rows: object, reset: bool) -> NDArray[np.float64] | None:
        """Encode rows of which some columns hold categories; warns of categories that the forest has not seen."""
        which = self.categorical_features if reset else self._fitted_categories()
        table = CategoryTable.of(rows, which)
        if table is None:
            return None
        schema = table.schema(which) if reset else self._schema()
        if schema is None:
            return None
        if is_data_frame(rows):
            self._check_numbered_columns(rows, reset)
        validate_data(self, rows, reset=reset, skip_check_array=True)
        if reset:
            for told in table.doubts(schema):
                warn_caller(f"X: {told}")
            self._set_schema(schema if hasattr(self, "feature_names_in_") else schema.without_names())
        matrix, unseen = table.encoded(schema)
        if told := told_of_unseen(unseen):
            warn_caller(f"X: {told}")
        return matrix

    def _stored_rows(self, X: Matrix, where: str, reset: bool) -> Matrix:
        """Check an array on disk, whose attributes say which columns hold categories."""
        which = self.categorical_features
        if reset and which is not None and not is_from_dtype(which):
            cure = "ingest the table, which writes them, or pass the values: X[:]"
            found = f"found {str(which)[:80]}"
            raise InputError(f"categorical_features: an array on disk says so in its attributes, {found}; {cure}")
        return super()._stored_rows(X, where, reset)

    def _fitted_categories(self) -> list[int] | None:
        """The positions of the columns that held categories in `fit`; None if none did."""
        schema = self._schema()
        sizes = () if schema is None else schema.n_categories
        return [place for place, size in enumerate(sizes) if size] or None

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = not for_sparse({row.name: getattr(self, row.name) for row in self._parameters})
        return tags

    def _training_features(self, X: FeaturesLike | SparseLike) -> Float32s | SparseFeatures:
        """Read the features of the training rows, shape (n, n_features)."""
        rows = self._rows(X, reset=True)
        if not scipy.sparse.issparse(rows):
            return self._read_features(rows)
        check_sparse(self._params())
        sample = Sample()
        features = read_sparse_features(rows, sample)
        self._warn_of_rounding(sample)
        return features

    def _grow_on(
        self,
        features: Float32s | SparseFeatures,
        truth: Truth | None,
        params: dict[str, Value],
        sample_weight: Floats | None,
    ) -> None:
        """Grow the forest on features and their truth, or without a truth on the features alone."""
        schema = self._schema()
        is_taken = schema is not None and self.categorical_features is not None
        rows = Features(features.shape[1], schema.n_categories if schema is not None and is_taken else ())
        self._grow(rows, features, truth, params, self._weights(), sample_weight)
        if schema is not None and rows.n_categories:  # pictures name the categories
            self.forest_ = self.forest_.with_schema(schema)

    def _params(self) -> dict[str, Value]:
        """The parameters as the user has set them; ``"given"`` stands for an array of weights."""
        params = super()._params()
        return params if self._weights() is None else {**params, "feature_weights": "given"}

    def _weights(self) -> Floats | None:
        """The array of weights, None if there is none; raises InputError if it is not a vector of numbers."""
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
        """Share of each feature in the gain of all splits, or in the sizes of split nodes, shape (n_features_in_,)."""
        check_is_fitted(self)
        return scoring.feature_importances(self.forest_)

    def explain(self, left: RowsLike, right: RowsLike) -> Explanation:
        """Explain why two rows are near or far: the distance as a sum over the features.

        Parameters
        ----------
        left, right
            Rows, shapes (n_pairs, n_features) both; row k of ``left`` is compared with row k of ``right``.

        Returns
        -------
        Explanation
            The distance of each pair is the mean distance of the training rows and what each feature adds to it, or
            takes from it.

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
        """The names of the features, or "0", "1" and so on without names."""
        schema = self._schema()
        return Schema.unnamed(self.n_features_in_).names if schema is None else schema.names

    @property
    def feature_weights_(self) -> Floats:
        """Probability with which each feature was drawn, shape (n_features_in_,)."""
        check_is_fitted(self)
        weights = self.forest_.feature_weights
        return shares_of(np.ones(self.forest_.n_columns) if weights is None else weights)

    @property
    def dependence_(self) -> Floats | None:
        """How strongly each feature depends on another, 0 to 1, shape (n_features_in_,); None without a screen."""
        check_is_fitted(self)
        return self.forest_.dependence
