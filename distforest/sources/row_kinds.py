"""How rows are read: as features, as given similarities, through a built-in similarity, or as pairs of points.

Each kind knows how many columns there are, in what precision they are read and what source they make. A forest's
manifest has it as a dict, everything else as one of these types.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from distforest.errors import InputError
from distforest.sources.arrays import ArraySource
from distforest.sources.kernels import KERNELS, KernelSource, scale_gamma
from distforest.sources.point_pairs import PairColumns
from distforest.sources.readings import DISSIMILARITIES, FEATURES, SIMILARITIES, Reading

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np

    from distforest.sources.source import Float32s


@dataclass(frozen=True)
class Features:
    """Rows of features, a column each."""

    n_columns: int
    kind: ClassVar[str] = "features"
    reading: ClassVar[Reading] = FEATURES
    column: ClassVar[str] = "feature"

    @property
    def n_features(self) -> int:
        """Columns of a query."""
        return self.n_columns

    def source(self, matrix: np.ndarray, _objects: Float32s | None) -> ArraySource:
        """The source of a matrix of such rows."""
        return ArraySource.of(matrix, is_complete=True)

    def to_dict(self) -> dict[str, Any]:
        """As a forest's manifest has it."""
        return {"kind": self.kind, **asdict(self)}

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> Features:
        """From a forest's manifest."""
        return cls(found["n_columns"])


@dataclass(frozen=True)
class Dense:
    """Rows of similarities (or distances) to each training object, however they were supplied.

    Attributes
    ----------
    n_columns
        Training objects.
    measure
        ``"similarity"`` or ``"distance"``.
    """

    n_columns: int
    measure: str = "similarity"
    kind: ClassVar[str] = "dense"
    column: ClassVar[str] = "training object"

    @classmethod
    def of(cls, shape: tuple[int, ...], measure: str) -> Dense:
        """Of a training matrix of this shape; raises InputError if it is not square."""
        if shape[0] != shape[1]:
            raise InputError(f"a training matrix ({measure}) must be square, a precomputed metric; found shape {shape}")
        return cls(shape[1], measure)

    @property
    def n_features(self) -> int:
        """Columns of a query."""
        return self.n_columns

    @property
    def of_distances(self) -> bool:
        """Whether the similarities are -d^2/2."""
        return self.measure == "distance"

    @property
    def reading(self) -> Reading:
        """How a matrix of such rows comes in."""
        return DISSIMILARITIES if self.of_distances else SIMILARITIES

    def source(self, matrix: np.ndarray, _objects: Float32s | None) -> ArraySource:
        """The source of a matrix of such rows."""
        return ArraySource.of(matrix)

    def to_dict(self) -> dict[str, Any]:
        """As a forest's manifest has it."""
        return {"kind": self.kind, **asdict(self)}

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> Dense:
        """From a forest's manifest."""
        return cls(found["n_columns"], found["measure"])


@dataclass(frozen=True)
class Kernel:
    """Rows of features that are read through a built-in similarity to each training object.

    Attributes
    ----------
    kind
        One of `distforest.sources.kernels.KERNELS`.
    n_columns
        Training objects.
    n_features
        Columns of a query.
    gamma
        Of ``"rbf"``.

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
    def of(cls, kind: str, features: np.ndarray, gamma: float | None) -> Kernel:
        """Of training objects; without a ``gamma`` it is 1 / (p Var(X))."""
        width = scale_gamma(features) if gamma is None else float(gamma)
        return cls(kind, len(features), features.shape[1], width)

    def source(self, matrix: np.ndarray, objects: Float32s | None) -> KernelSource:
        """The similarities of such rows to the training objects."""
        assert objects is not None  # noqa: S101  (held by a forest's check)
        return KernelSource(matrix, objects, self.kind, float(self.gamma))

    def to_dict(self) -> dict[str, Any]:
        """As a forest's manifest has it."""
        return asdict(self)

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> Kernel:
        """From a forest's manifest."""
        return cls(found["kind"], found["n_columns"], found["n_features"], found["gamma"])


RowKind = Features | Dense | Kernel | PairColumns
KINDS: dict[str, type[RowKind]] = {
    **{kind.kind: kind for kind in (Features, Dense, PairColumns)},
    **dict.fromkeys(KERNELS, Kernel),
}
"""The kinds by the names that manifests give them."""


def row_kind(found: Mapping[str, Any]) -> RowKind:
    """Read what `to_dict` has written; raises KeyError for an unknown kind, and where a key is missing."""
    return KINDS[found["kind"]].from_dict(found)
