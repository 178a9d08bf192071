"""How estimators read ``X``: arrays, data frames with categories and dates, sparse matrices, and arrays on disk."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import validate_data

from distforest.checks.suspicions import Given
from distforest.checks.table import warn_of
from distforest.errors import InputError, warn_caller
from distforest.sources.boolean_columns import check_booleans
from distforest.sources.columns import TableColumns, is_from_dtype, told_of_unseen, with_none
from distforest.sources.files.ids import refuse_text_as_bytes
from distforest.sources.given import is_sparse, is_stored, unmasked
from distforest.sources.opening import open_matrix, opened_rows
from distforest.sources.readings import FEATURES, read
from distforest.sources.schema import Schema, refuse_categories

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    import scipy.sparse
    from numpy.typing import NDArray

    from distforest.estimators.input_types import CategoricalLike, RowsLike
    from distforest.sources.arrays import Matrix
    from distforest.sources.source import Float32s


_OF_AMOUNTS = "turn dates into datetime64 and durations into numbers, such as by column.dt.total_seconds()"
_OF_CATEGORIES = f"{_OF_AMOUNTS}, or name the column in categorical_features"
_OF_WORDS = f"{_OF_AMOUNTS}, and words into numbers, such as by scikit-learn's OneHotEncoder, or leave the column out"
"""What to do about a column without numbers, by whether an estimator takes columns of categories."""


class ReadsRows(BaseEstimator):  # type: ignore[misc]
    """The base of what reads rows: it remembers the columns of `fit`, and expects the same ones later.

    An estimator with the parameter ``categorical_features`` takes columns of categories; no other does.
    """

    categorical_features: CategoricalLike
    _is_of_booleans: bool = False
    _zero_is_absent: ClassVar[bool] = False  # sparse rows hold what is not 0; otherwise they hold what was observed

    @property
    def _reads_features(self) -> bool:
        """Whether rows are features, and not given similarities."""
        return True

    def _set_schema(self, schema: Schema | None) -> None:
        """Set the columns of ``X``; None removes those of an earlier fit."""
        for attribute in ("feature_names_in_", "feature_dtypes_in_", "_encodings"):
            self.__dict__.pop(attribute, None)
        if schema is not None:
            if schema.is_named:
                self.feature_names_in_ = np.array(schema.names, object)
            if schema.dtypes:
                self.feature_dtypes_in_ = np.array(schema.dtypes, object)
            self._encodings = schema.encodings

    def _schema(self) -> Schema | None:
        """The columns of ``X`` in `fit`; None if they had no names, and none of them held categories."""
        if not hasattr(self, "_encodings"):
            return None
        names = getattr(self, "feature_names_in_", Schema.unnamed(self.n_features_in_).names)
        plain = Schema.of_names([*names], [*getattr(self, "feature_dtypes_in_", ())])
        return plain.encoded(getattr(self, "_encodings", {}))

    def _names(self) -> tuple[str, ...]:
        """The names of the columns of ``X`` in `fit`; empty if they have none."""
        schema = self._schema()
        return () if schema is None else schema.names

    def _n_categories(self) -> tuple[int, ...]:
        """The number of categories of each column of the training rows; empty if all are read as numbers."""
        schema = self._schema()
        taken = getattr(self, "categorical_features", None)
        return () if schema is None or taken is None else schema.n_categories

    def _rows(self, X: RowsLike, reset: bool, schema: Schema | None = None) -> Matrix | scipy.sparse.spmatrix:
        """Check ``X`` for `read`: an array on disk by its metadata, anything else as scikit-learn checks it.

        ``schema`` is that of the training rows, with more categories; None: as it was.
        """
        rows = unmasked(opened_rows(X))
        address = os.fspath(X) if isinstance(X, (str, os.PathLike)) else None
        if is_stored(rows) or (address is not None and is_sparse(rows) and self._zero_is_absent):
            checked = self._rows_at(rows, address or "X", reset, schema)
        else:
            encoded = self._encoded(rows, reset, schema)
            checked = self._numeric_rows(with_none(rows), reset) if encoded is None else encoded
        if reset:
            self._is_of_booleans = checked.dtype.kind == "b"
        elif self._reads_features and not is_stored(checked):
            check_booleans(checked, self._schema(), self._is_of_booleans)
        return checked

    def _with_unseen(self, X: RowsLike) -> Schema | None:
        """The columns of ``X`` in `fit`, with the categories of ``X`` that were not there; None if it has no such."""
        schema, rows = self._schema(), unmasked(opened_rows(X))
        if schema is None or not self._n_categories():
            return None
        which = [place for place, size in enumerate(schema.n_categories) if size]
        found: Mapping[str, Collection[str]] = {}
        if is_stored(rows):
            stored = Schema.of_array("X", rows)
            found = {} if stored is None else {column.name: column.categories for column in stored.columns}
        elif (table := TableColumns.of(rows, which)) is not None and len(table.columns) == len(schema.columns):
            found = table.encoded(schema, "give what it was in training")[1]
        extended = schema.with_categories(found)
        return None if extended == schema else extended

    def _rows_at(self, rows: Any, where: str, reset: bool, fitted: Schema | None) -> Any:
        """Check an array on disk by its metadata, or a sparse matrix that was read from there.

        The names in the attributes of the array count like those of a data frame, as do its categories.
        """
        is_dense = is_stored(rows)
        if is_dense:
            refuse_text_as_bytes(where, rows)
        schema, fitted = Schema.of_array(where, rows if is_dense else open_matrix(where)), fitted or self._schema()
        which = getattr(self, "categorical_features", None)
        if reset and which is not None and not is_from_dtype(which):
            cure = "ingest the table, which writes them, or pass the values: X[:]"
            found = f"found {str(which)[:80]}"
            raise InputError(f"categorical_features: an array on disk names them in its attributes, {found}; {cure}")
        if schema is not None and schema.n_categories and not hasattr(self, "categorical_features"):
            refuse_categories(schema, where, type(self).__name__)
        if schema is not None and fitted is not None and not reset:
            recoding = fitted.reordering(schema, where)
            if told := fitted.told_of_unseen(schema, recoding):
                warn_caller(f"{where}: {told}")
            if recoding.changes_nothing:
                return rows
            return recoding.rows(np.asarray(rows[:]) if is_dense else rows)[0]
        if is_dense:
            validate_data(self, rows, reset=reset, skip_check_array=True)
        else:
            rows = validate_data(self, rows, reset=reset, accept_sparse="csr", ensure_all_finite=False)
        if reset:
            self._set_schema(schema)
        return rows

    def _encoded(self, rows: object, reset: bool, fitted: Schema | None) -> NDArray[np.floating] | None:
        """Encode rows of which some columns hold dates or categories, or numbers that NumPy does not read by itself.

        None if NumPy reads all of them. Warns of categories that the forest has not seen.
        """
        which: CategoricalLike = getattr(self, "categorical_features", None)
        if not reset:
            fitted = fitted or self._schema()
            which = [place for place, size in enumerate(fitted.n_categories if fitted else ()) if size] or None
        if (table := TableColumns.of(rows, which)) is None:
            return None
        schema = table.learned(which) if reset else fitted or Schema.of_names(table.names, table.dtypes)
        if schema is None:
            return None
        validate_data(self, rows, reset=reset, skip_check_array=True)
        if reset:
            self._set_schema(schema if hasattr(self, "feature_names_in_") else schema.without_names())
        takes_categories = hasattr(self, "categorical_features")
        cure = (_OF_CATEGORIES if takes_categories else _OF_WORDS) if reset else "give what it was in training"
        matrix, unseen = table.encoded(schema, cure)
        if told := told_of_unseen(unseen):
            warn_caller(f"X: {told}")
        return matrix

    def _numeric_rows(self, rows: RowsLike, reset: bool) -> Matrix | scipy.sparse.spmatrix:
        """Check rows in memory that hold only numbers, as scikit-learn checks them."""
        is_accepted = self._zero_is_absent or self.__sklearn_tags__().input_tags.sparse
        accept_sparse = "csr" if is_accepted else False
        checked = validate_data(self, rows, reset=reset, accept_sparse=accept_sparse, ensure_all_finite=False)
        if reset:
            names = getattr(self, "feature_names_in_", None)  # which validate_data has set
            table = TableColumns.of_frame(rows)
            self._set_schema(None if names is None else Schema.of_names(names, table.dtypes if table else ()))
        return checked

    def _read_features(self, rows: Matrix) -> Float32s:
        """Read the dense training features that `_rows` has checked, shape (n, n_features)."""
        warn_of(Given(raw=rows, names=self._names()))
        features: Float32s = read(rows, FEATURES)
        return features


def names_kept(forest: Any) -> list[str]:
    """Names of the features of a fitted estimator, or of what it was loaded from; empty if they have none."""
    own = forest.forest_
    kept = getattr(forest, "feature_names_in_", own.schema.names if own.schema else ())
    return [*map(str, kept)]
