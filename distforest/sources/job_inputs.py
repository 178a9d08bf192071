"""The inputs of a job: what each is for, where it lies, how it is read, and what its metadata say."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from distforest.sources.readings import FEATURES

if TYPE_CHECKING:
    from distforest.sources.readings import Reading


class Role(StrEnum):
    """What an input is for."""

    MATRIX = "matrix"
    OBJECTS = "objects"
    TRUTH = "truth"
    COSTS = "costs"
    PAIRS = "pairs"
    FEATURE_WEIGHTS = "feature_weights"
    SAMPLE_WEIGHT = "sample_weight"
    PAIR_WEIGHT = "pair_weight"
    IDENTITIES = "identities"


class GivenKernel(NamedTuple):
    """A built-in similarity of features; without ``gamma``, their scale decides it."""

    kind: str
    gamma: float | None


@dataclass(frozen=True)
class JobInput:
    """An input of a job.

    Attributes
    ----------
    place, address
        Its place in the spec, and the array or the sparse matrix there.
    role, reading
        What it is for, and how it is read.
    is_vector, may_be_sparse
        Whether it has one value per row; whether the address may hold a sparse matrix.
    kernels
        The built-in similarities through which features are read; none if splits read features.
    numbers_for
        What reads all features as numbers, and so takes no categories; "" if nothing does.
    shape, dtype
        As its metadata say, once they have been read.
    n_stored
        Number of entries of a sparse matrix; None of an array.
    item
        Bytes of an entry of the matrix in a tree.
    staged_bytes, rechunked_bytes
        Bytes of its staged file, and of a copy that is made of it before.
    """

    place: str
    address: str
    role: Role
    reading: Reading
    is_vector: bool = False
    may_be_sparse: bool = False
    kernels: tuple[GivenKernel, ...] = ()
    numbers_for: str = ""
    shape: tuple[int, ...] = ()
    dtype: str = ""
    n_stored: int | None = None
    item: int = 4
    staged_bytes: int = 0
    rechunked_bytes: int = 0

    @property
    def is_of_sparse_features(self) -> bool:
        """Whether it is features of which most are 0."""
        return self.role == Role.MATRIX and self.reading is FEATURES and self.n_stored is not None
