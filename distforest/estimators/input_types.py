"""Types of the arguments that users pass to estimators, so that a signature shows what is accepted."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Literal, Protocol

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike

from distforest.sources.factors import Distances, Embedding, Graph, Labels, ObservedDistances, Targets
from distforest.sources.lazy.callbacks import Lazy

Address = str | os.PathLike[str]
"""The path (from the current directory) or the URL of an array in Zarr."""


class ZarrLike(Protocol):
    """Array on disk that is read block by block: a Zarr array, or one with the same attributes."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Numbers of rows and columns."""

    @property
    def chunks(self) -> tuple[int, ...]:
        """Shape of the blocks in which it is stored."""

    @property
    def dtype(self) -> np.dtype[np.generic]:
        """Type of its values."""

    def __getitem__(self, rows: slice, /) -> object: ...


class DataFrameLike(Protocol):
    """Data frame of any library: pandas, Polars, Arrow."""

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and columns."""

    @property
    def columns(self) -> object:
        """Names of the columns, or the columns themselves."""


FeaturesLike = ArrayLike | DataFrameLike | ZarrLike | Address
"""Dense features, shape (n, n_features): array-like, a data frame, a Zarr array, or the address of one."""

SparseLike = scipy.sparse.sparray | scipy.sparse.spmatrix
"""A sparse matrix of SciPy, in any format."""

SimilarityLike = str | Lazy | Sequence[str | Lazy]
"""A similarity by its word, or one that is evaluated when needed; or several of them."""

VectorLike = ArrayLike | ZarrLike | Address
"""A label or a number for each row, shape (n,): array-like, a Zarr array, or the address of one."""

PairsLike = ArrayLike | ZarrLike | Address
"""Row numbers of the two points of each pair, shape (n_pairs, 2): array-like, a Zarr array, or the address of one."""

ObjectsLike = Sequence[object] | ArrayLike
"""The objects that a `Lazy` similarity compares, a sequence of length n; or their places in ``Lazy(objects=...)``."""

PointsLike = FeaturesLike | SparseLike
"""Points in the form in which a forest over pairs takes them: features, which may be sparse."""

RowsLike = FeaturesLike | SparseLike | ObjectsLike
"""Rows in the form that `fit` accepts: features or similarities, which may be sparse; or the objects."""

TruthLike = Labels | Targets | Embedding | Distances | ObservedDistances | Graph | VectorLike | DataFrameLike
"""What SMERF learns: a ground truth object, a vector of labels or targets, or a distance matrix, shape (n, n)."""

TaughtLike = TruthLike | Lazy
"""The same, or a function that evaluates distances when needed."""

FeatureWeightsLike = Literal["dependence"] | ArrayLike | None
"""A weight >= 0 for each feature, shape (n_features,); ``"dependence"`` to screen the features; None for equal ones."""

CategoricalLike = Literal["from_dtype"] | ArrayLike | None
"""Which features are categories: a mask, positions or names; ``"from_dtype"``: by their dtypes; None: none are."""

ClassWeightLike = Literal["balanced"] | Mapping[str, float] | Mapping[int, float] | Mapping[object, float] | None
"""A weight > 0 for each label, ``"balanced"``, or None for equal ones."""

SeedLike = int | np.random.RandomState | None
"""A seed, a generator that draws the seed, or None for NumPy's global generator."""
