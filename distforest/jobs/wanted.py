"""The inputs that a spec names: which arrays it wants, at which addresses, and how each is read."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from distforest.amounts import counted
from distforest.errors import InputError
from distforest.growth.methods import METHODS
from distforest.sources.kernels import KERNELS
from distforest.sources.readings import (
    AS_IT_IS,
    DISSIMILARITIES,
    DISTANCES,
    FEATURES,
    GRAPH,
    SIMILARITIES,
    Reading,
)
from distforest.sources.truth import TruthKind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from distforest.jobs.spec import Relation, Spec


class Role(StrEnum):
    """What an input is for."""

    MATRIX = "matrix"
    TRUTH = "truth"
    PAIRS = "pairs"
    FEATURE_WEIGHTS = "feature_weights"
    SAMPLE_WEIGHT = "sample_weight"


_ROLES = {role.value: role for role in (Role.PAIRS, Role.FEATURE_WEIGHTS, Role.SAMPLE_WEIGHT)}


class Wanted(NamedTuple):
    """An input by its place in a spec: its role, its reading, whether it has one value per row, or may be sparse."""

    place: str
    address: str
    role: Role
    reading: Reading
    is_vector: bool = False
    may_be_sparse: bool = False


def wanted_inputs(spec: Spec) -> list[Wanted]:
    """The inputs that a spec names, in its order."""
    wanted = [_by_address(spec, name, address) for name, address in spec.input.addresses.items()]
    for name, relation in spec.input.relations.items():
        wanted += _by_relation(name, relation)
    return wanted


def input_addresses(spec: Spec) -> list[str]:
    """The addresses of all arrays that a job reads."""
    return [wanted.address for wanted in wanted_inputs(spec)]


def _by_address(spec: Spec, name: str, address: str) -> Wanted:
    if name == "features":
        may_be_sparse = METHODS[spec.method].reads == "features"
        return Wanted("input.features", address, Role.MATRIX, FEATURES, may_be_sparse=may_be_sparse)
    role = _ROLES.get(name, Role.TRUTH)
    return Wanted(f"input.{name}", address, role, AS_IT_IS, is_vector=name in {"labels", "similar", "sample_weight"})


def _by_relation(name: str, relation: Relation) -> Iterator[Wanted]:
    if relation.kind == "lazy":
        if objects := relation.options["objects"]:
            yield Wanted(f"input.{name}.objects", str(objects), Role.MATRIX, AS_IT_IS)
        return
    role = Role.MATRIX if name == "similarity" else Role.TRUTH
    reads_alike = relation.each[0].kind in KERNELS  # several built-in similarities read the same features
    for part in relation.each[:1] if reads_alike else relation.each:
        reading, is_vector = _reading_of(name, part), part.kind == "labels"
        may_be_sparse = reading.precise and not relation.parts
        yield Wanted(f"input.{name}", part.address, role, reading, is_vector, may_be_sparse)


def _reading_of(name: str, relation: Relation) -> Reading:
    if name == "similarity" and relation.kind == "dense":
        return DISSIMILARITIES if relation.options["measure"] == "distance" else SIMILARITIES
    readings = {"dense": DISTANCES, "graph": GRAPH, **dict.fromkeys((*KERNELS, "feature_subsets"), FEATURES)}
    return readings.get(relation.kind, AS_IT_IS)


def truth_of(spec: Spec) -> tuple[TruthKind, str]:
    """The kind of a job's truth, and its address; without truth, that of its features."""
    relation = spec.input.relations.get("distances")
    if relation is not None:
        is_matrix = relation.kind in {"dense", "graph"}
        return TruthKind.DISTANCES if is_matrix else TruthKind(relation.kind), relation.address
    for kind, key in ((TruthKind.LINKS, "similar"), (TruthKind.LABELS, "labels"), (TruthKind.TARGETS, "targets")):
        if key in spec.input.addresses:
            return kind, spec.input.addresses[key]
    return TruthKind.NOTHING, spec.input.addresses["features"]


def check_weights(address: str, shape: tuple[int, ...], dtype: str, n_features: int) -> None:
    """Refuse feature weights that are not a vector with a number for each feature; raises InputError."""
    if shape != (n_features,) or not dtype.startswith(("float", "int", "uint", "bool")):
        expected = f"{address}: a number for each of {counted(n_features, 'feature')} was expected"
        raise InputError(f"{expected}, found {dtype} of shape {shape}")
