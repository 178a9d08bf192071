"""Kinds of rows: features, given similarities, features read through built-in similarities, or pairs of points.

Each kind defines the number of columns, the precision in which they are read, and the source that they become. A
forest's manifest holds the kind as a dict; all other code uses these types.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, TypeGuard

import numpy as np

from distforest.errors import InputError
from distforest.sources.arrays import ArraySource, is_complete
from distforest.sources.category_codes import check_codes
from distforest.sources.kernels import KERNELS, KernelSource, scale_gamma
from distforest.sources.point_pairs import PairColumns
from distforest.sources.readings import DISSIMILARITIES, FEATURES, SIMILARITIES, Reading, read
from distforest.sources.side_by_side import SideBySide

if TYPE_CHECKING:
    from collections.abc import Mapping

    from distforest.sources.arrays import Matrix
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

    @property
    def n_features(self) -> int:
        """Number of columns of a query."""
        return self.n_columns

    def source(self, matrix: np.ndarray, _objects: Float32s | None) -> ArraySource:
        """Make the source of a matrix of these rows; NaN is a missing value. Raises as `check_codes`."""
        if self.n_categories:
            check_codes(matrix, self.n_categories)
        return ArraySource.from_values(matrix, is_complete(matrix))

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

    @classmethod
    def from_shape(cls, shape: tuple[int, ...], measure: str) -> Dense:
        """Make the kind of a training matrix's rows from its shape; raises InputError if it is not square."""
        if shape[0] != shape[1]:
            cure = "if these are features, choose a similarity that reads them, such as 'manhattan'"
            found = f"must be square, a precomputed metric; found shape {shape}"
            raise InputError(f"a training matrix ({measure}) {found}; {cure}")
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
        return ArraySource.from_values(matrix)

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

    @classmethod
    def from_features(cls, kind: str, features: np.ndarray, gamma: float | None) -> Kernel:
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


@dataclass(frozen=True)
class Several:
    """Rows of similarities to each training object by several measures, side by side: see `SideBySide`.

    Attributes
    ----------
    measures
        How each measure is read; all of them are given matrices or functions, or all of them are built in.
    weights
        How often a split reads each measure, in relation to the others.

    Examples
    --------
    >>> rows = Several((Dense(5), Dense(5, "distance")), (1.0, 3.0))
    >>> rows.n_objects, rows.n_columns, row_kind(rows.to_dict()) == rows
    (5, 10, True)
    """

    measures: tuple[Dense | Kernel, ...]
    weights: tuple[float, ...]
    kind: ClassVar[str] = "several"

    @property
    def n_objects(self) -> int:
        """Number of training objects."""
        return self.measures[0].n_columns

    @property
    def n_columns(self) -> int:
        """Number of columns that a split may read: each object by each measure."""
        return len(self.measures) * self.n_objects

    @property
    def n_features(self) -> int:
        """Number of columns of a query."""
        return self.measures[0].n_features if self.is_built_in else self.n_columns

    @property
    def is_built_in(self) -> bool:
        """Whether the measures are computed from features."""
        return isinstance(self.measures[0], Kernel)

    @property
    def reading(self) -> Reading:
        """The reading of the first measure's rows."""
        return self.measures[0].reading

    @property
    def column(self) -> str:
        """What a column of a query stands for."""
        return "feature" if self.is_built_in else "training object and measure"

    def weighted(self, features: np.ndarray, weights: Floats) -> Several:
        """The same kind, each built-in measure as `Kernel.weighted` makes it."""
        measures = (one.weighted(features, weights) if isinstance(one, Kernel) else one for one in self.measures)
        return replace(self, measures=tuple(measures))

    def read(self, queries: Matrix) -> np.ndarray:
        """Read queries of shape (n, n_features), each measure as it is read; raises InputError for refused values.

        Queries of another shape are read by the first measure, so that whoever compares the shapes can tell.
        """
        if self.is_built_in or queries.shape[1:] != (self.n_features,):
            return read(queries, self.reading)
        n, values, parts = self.n_objects, np.asarray(queries[:]), []
        for place, measure in enumerate(self.measures):
            parts.append(read(values[:, n * place : n * (place + 1)], measure.reading))
        return np.concatenate(parts, axis=1)

    def source(self, matrix: np.ndarray, objects: Float32s | None) -> ArraySource | SideBySide:
        """Make the source of a matrix of these rows."""
        if not self.is_built_in:
            return ArraySource.from_values(matrix)
        return SideBySide(tuple(measure.source(matrix, objects) for measure in self.measures))

    def to_dict(self) -> dict[str, object]:
        """The kind as a forest's manifest holds it."""
        measures = [measure.to_dict() for measure in self.measures]
        return {"kind": self.kind, "n_columns": self.n_columns, "measures": measures, "weights": [*self.weights]}

    @classmethod
    def from_dict(cls, entry: Mapping[str, Any]) -> Several:
        """Read the kind from a forest's manifest."""
        measures = tuple(MEASURE_KINDS[measure["kind"]].from_dict(measure) for measure in entry["measures"])
        return cls(measures, tuple(entry["weights"]))


MEASURE_KINDS: dict[str, type[Dense | Kernel]] = {Dense.kind: Dense, **dict.fromkeys(KERNELS, Kernel)}
"""The kinds of rows that may be one of `Several` measures, by their names in manifests."""

RowKind = Features | Dense | Kernel | Several | PairColumns
KINDS: dict[str, type[RowKind]] = {
    **{kind.kind: kind for kind in (Features, Dense, Several, PairColumns)},
    **dict.fromkeys(KERNELS, Kernel),
}
"""The kinds of rows, by their names in manifests."""


def is_built_in(rows: RowKind) -> TypeGuard[Kernel | Several]:
    """Whether splits read similarities that are computed from features."""
    return isinstance(rows, Kernel) or (isinstance(rows, Several) and rows.is_built_in)


def is_given(rows: RowKind) -> TypeGuard[Dense | Several]:
    """Whether splits read similarities from a matrix or a function, of which some may be unobserved."""
    return isinstance(rows, (Dense, Several)) and not is_built_in(rows)


def row_kind(entry: Mapping[str, Any]) -> RowKind:
    """Read the kind of rows that `to_dict` has written; raises KeyError if the kind is unknown or a key is missing."""
    return KINDS[entry["kind"]].from_dict(entry)


def input_in_words(name: str, rows: Mapping[str, Any], *, is_asked: bool = False) -> str:
    """What an input in a forest's provenance is called in the spec of a job.

    What splits read is kept as ``matrix``, whatever it is.

    Parameters
    ----------
    name
        The input.
    rows
        The kind of rows, as the forest's manifest holds it.
    is_asked
        Whether a function was asked for similarities.

    Examples
    --------
    >>> [input_in_words("matrix", {"kind": kind}) for kind in ("features", "rbf", "dense")]
    ['features', 'features', 'similarity']
    >>> input_in_words("matrix", {"kind": "dense"}, is_asked=True), input_in_words("labels", {"kind": "features"})
    ('objects', 'labels')
    """
    if name != "matrix":
        return name
    measures = rows.get("measures")
    kinds = measures if isinstance(measures, list) else [rows]
    if any(isinstance(one, dict) and one.get("kind") == Dense.kind for one in kinds):
        return "objects" if is_asked else "similarity"
    return "features"
