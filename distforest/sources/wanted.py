"""The inputs that a job wants: what each is for, where it lies, and how it is read."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

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


class WantedKernel(NamedTuple):
    """A built-in similarity of the features that are wanted; without ``gamma``, their scale decides it."""

    kind: str
    gamma: float | None


class Wanted(NamedTuple):
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
    """

    place: str
    address: str
    role: Role
    reading: Reading
    is_vector: bool = False
    may_be_sparse: bool = False
    kernels: tuple[WantedKernel, ...] = ()
    numbers_for: str = ""
