"""The base of the estimators that take tables: some of their columns may hold categories."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from distforest.errors import InputError, warn_caller
from distforest.estimators.forest_estimator import ForestEstimator
from distforest.estimators.input_types import CategoricalLike
from distforest.sources.category_columns import FROM_DTYPE, CategoryTable, is_from_dtype, told_of_unseen

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from distforest.sources.arrays import Matrix


class OnTables(ForestEstimator):
    """The base of the estimators that take tables."""

    categorical_features: CategoricalLike

    def _encoded(self, rows: object, reset: bool) -> NDArray[np.float64] | None:
        """Encode rows of which some columns hold categories; warns of categories that the forest has not seen."""
        which = self.categorical_features if reset else self._fitted_categories()
        if _is_of_numbers(rows, which) or (table := CategoryTable.of(rows, which)) is None:
            return None
        schema = table.schema(which) if reset else self._schema()
        if schema is None:
            return None
        self._validated(rows, reset, skip_check_array=True)
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

    def _n_categories(self) -> tuple[int, ...]:
        """The number of categories of each column of the training rows; empty if all are read as numbers."""
        schema = self._schema()
        return () if schema is None or self.categorical_features is None else schema.n_categories

    def _name_categories(self) -> None:
        """Give the forest the names of its categories, which pictures show."""
        schema = self._schema()
        if schema is not None and self._n_categories():
            self.forest_ = self.forest_.with_schema(schema)


def _is_of_numbers(rows: object, which: CategoricalLike) -> bool:
    """Whether an array holds no categories, since its dtype decides and is one of numbers."""
    return isinstance(rows, np.ndarray) and rows.dtype.kind in "fiu" and isinstance(which, str) and which == FROM_DTYPE
