"""The base of the estimators that take tables: some of their columns may hold categories."""

from __future__ import annotations

from typing import TYPE_CHECKING

from distforest.errors import InputError
from distforest.estimators.forest_estimator import ForestEstimator
from distforest.estimators.input_types import CategoricalLike
from distforest.sources.columns import is_from_dtype

if TYPE_CHECKING:
    from distforest.sources.arrays import Matrix


class OnTables(ForestEstimator):
    """The base of the estimators that take tables."""

    categorical_features: CategoricalLike

    def _categorical(self, reset: bool) -> CategoricalLike:
        """Which columns hold categories: in `fit` as the parameter says, later those that did; None: none."""
        if reset:
            return self.categorical_features
        schema = self._schema()
        sizes = () if schema is None else schema.n_categories
        return [place for place, size in enumerate(sizes) if size] or None

    def _stored_rows(self, X: Matrix, where: str, reset: bool) -> Matrix:
        """Check an array on disk, whose attributes say which columns hold categories."""
        which = self.categorical_features
        if reset and which is not None and not is_from_dtype(which):
            cure = "ingest the table, which writes them, or pass the values: X[:]"
            found = f"found {str(which)[:80]}"
            raise InputError(f"categorical_features: an array on disk says so in its attributes, {found}; {cure}")
        return super()._stored_rows(X, where, reset)

    def _n_categories(self) -> tuple[int, ...]:
        """The number of categories of each column of the training rows; empty if all are read as numbers."""
        schema = self._schema()
        return () if schema is None or self.categorical_features is None else schema.n_categories

    def _name_categories(self) -> None:
        """Give the forest the names of its categories, which pictures show."""
        schema = self._schema()
        if schema is not None and self._n_categories():
            self.forest_ = self.forest_.with_schema(schema)
