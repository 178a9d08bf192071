"""Kinds of rows: features, given similarities, features read through a built-in similarity, or pairs of points.

Each kind defines the number of columns, the precision in which they are read, and the source that they become. A
forest's manifest holds the kind as a dict; all other code uses these types.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from distforest.errors import InputError
from distforest.sources.arrays import ArraySource
from distforest.sources.kernels import KERNELS, KernelSource, scale_gamma
from distforest.sources.point_pairs import PairColumns
from distforest.sources.readings import DISSIMILARITIES, FEATURES, SIMILARITIES, Reading
from distforest.sources.source import is_complete

if TYPE_CHECKING:
    from collections.abc import Mapping

    from distforest.sources.source import Float32s, Floats


@dataclass(frozen=True)
class Features:
    """Rows of features; each column is a feature.

    Attributes
    ----------
    n_columns
        Number of features.
    n_categories
        Number of categories of each feature, 0 for a number; empty if all are numbers. A category is its code, from 0.
    """

    n_columns: int
    n_categories: tuple[int, ...] = ()
    kind: ClassVar[str] = "features"
    reading: ClassVar[Reading] = FEATURES
    column: ClassVar[str] = "feature"
    value: ClassVar[str] = "value"

    @property
    def n_features(self) -> int:
        """Number of columns of a query."""
        return self.n_columns

    def source(self, matrix: np.ndarray, _objects: Float32s | None) -> ArraySource:
        """Make the source of a matrix of these rows; NaN is a missing value. Raises as `check_codes`."""
        self.check_codes(matrix)
        return ArraySource.of(matrix, is_complete(matrix))

    def check_codes(self, matrix: np.ndarray) -> None:
        """Refuse codes that are no categories of their feature; NaN is a missing value.

        Raises
        ------
        InputError
            The message names the feature and the first wrong row.
        """
        for column in (column for column, n in enumerate(self.n_categories) if n):
            codes = matrix[:, column]
            fits = np.isnan(codes) | ((codes >= 0) & (codes < self.n_categories[column]) & (codes == np.floor(codes)))
            if not fits.all():
                row = int(np.argmin(fits))
                expected = f"feature {column} holds codes of categories, 0 to {self.n_categories[column] - 1}"
                raise InputError(f"{expected}; found {codes[row]:g} in row {row}")

    def to_dict(self) -> dict[str, object]:
        """The kind as a forest's manifest holds it."""
        categories = {"n_categories": list(self.n_categories)} if self.n_categories else {}
        return {"kind": self.kind, "n_columns": self.n_columns, **categories}

    @classmethod
    def from_dict(cls, entry: Mapping[str, Any]) -> Features:
        """Read the kind from a forest's manifest."""
        return cls(entry["n_columns"], tuple(entry.get("n_categories", ())))


@dataclass(frozen=True)
class Dense:
    """Rows of similarities or distances to each training object, from a matrix or a function.

    Attributes
    ----------
    n_columns
        Number of training objects.
    measure
        ``"similarity"`` or ``"distance"``.
    """

    n_columns: int
    measure: str = "similarity"
    kind: ClassVar[str] = "dense"
    column: ClassVar[str] = "training object"
    value: ClassVar[str] = "observed similarity"

    @classmethod
    def of(cls, shape: tuple[int, ...], measure: str) -> Dense:
        """Make the kind of a training matrix's rows from its shape; raises InputError if it is not square."""
        if shape[0] != shape[1]:
            raise InputError(f"a training matrix ({measure}) must be square, a precomputed metric; found shape {shape}")
        return cls(shape[1], measure)

    @property
    def n_features(self) -> int:
        """Number of columns of a query."""
        return self.n_columns

    @property
    def of_distances(self) -> bool:
        """Whether the matrix holds distances d, which become similarities -d^2/2."""
        return self.measure == "distance"

    @property
    def reading(self) -> Reading:
        """The reading of a matrix of these rows."""
        return DISSIMILARITIES if self.of_distances else SIMILARITIES

    def source(self, matrix: np.ndarray, _objects: Float32s | None) -> ArraySource:
        """Make the source of a matrix of these rows."""
        return ArraySource.of(matrix)

    def to_dict(self) -> dict[str, object]:
        """The kind as a forest's manifest holds it."""
        return {"kind": self.kind, **asdict(self)}

    @classmethod
    def from_dict(cls, entry: Mapping[str, Any]) -> Dense:
        """Read the kind from a forest's manifest."""
        return cls(entry["n_columns"], entry["measure"])


@dataclass(frozen=True)
class Kernel:
    """Rows of features, read as their built-in similarity to each training object.

    Attributes
    ----------
    kind
        One of `distforest.sources.kernels.KERNELS`.
    n_columns
        Number of training objects.
    n_features
        Number of columns of a query.
    gamma
        The coefficient of ``"rbf"``.

    Examples
    --------
    >>> rows = Kernel("rbf", 100, 4, 0.5)
    >>> row_kind(rows.to_dict()) == rows
    True
    """

    kind: str
    n_columns: int
    n_features: int
    gamma: float
    reading: ClassVar[Reading] = FEATURES
    column: ClassVar[str] = "feature"
    value: ClassVar[str] = "value"

    @classmethod
    def of(cls, kind: str, features: np.ndarray, gamma: float | None) -> Kernel:
        """Make the kind from the features of the training objects; ``gamma`` is 1 / (p Var(X)) if it is None."""
        scale = scale_gamma(features) if gamma is None else float(gamma)
        return cls(kind, len(features), features.shape[1], scale)

    def weighted(self, features: np.ndarray, weights: Floats) -> Kernel:
        """The same kind with ``gamma`` from training objects that count by their weights, shape (n_columns,)."""
        return replace(self, gamma=scale_gamma(features, weights))

    def source(self, matrix: np.ndarray, objects: Float32s | None) -> KernelSource:
        """Make the source of these rows' similarities to the training objects."""
        assert objects is not None  # noqa: S101  (a forest's check ensures it)
        return KernelSource(matrix, objects, self.kind, float(self.gamma))

    def to_dict(self) -> dict[str, object]:
        """The kind as a forest's manifest holds it."""
        return asdict(self)

    @classmethod
    def from_dict(cls, entry: Mapping[str, Any]) -> Kernel:
        """Read the kind from a forest's manifest."""
        return cls(entry["kind"], entry["n_columns"], entry["n_features"], entry["gamma"])


RowKind = Features | Dense | Kernel | PairColumns
KINDS: dict[str, type[RowKind]] = {
    **{kind.kind: kind for kind in (Features, Dense, PairColumns)},
    **dict.fromkeys(KERNELS, Kernel),
}
"""The kinds of rows, by their names in manifests."""


def row_kind(entry: Mapping[str, Any]) -> RowKind:
    """Read the kind of rows that `to_dict` has written; raises KeyError if the kind is unknown or a key is missing."""
    return KINDS[entry["kind"]].from_dict(entry)
