"""What a spec wants: which arrays, at which addresses, and how each is read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from distforest.errors import InputError
from distforest.growth.methods import METHODS
from distforest.jobs.spec import LAZY_KIND
from distforest.sources.factors import ABSOLUTE, COSINE, Graph
from distforest.sources.kernels import KERNELS
from distforest.sources.readings import (
    AS_IT_IS,
    DISSIMILARITIES,
    DISTANCES,
    FEATURES,
    SIMILARITIES,
    Reading,
)
from distforest.sources.truth import TruthKind
from distforest.sources.wanted import Role, Wanted, WantedKernel

if TYPE_CHECKING:
    from collections.abc import Iterator

    from distforest.jobs.spec import Relation, Spec

OF_METRICS = {COSINE: TruthKind.DIRECTIONS, ABSOLUTE: TruthKind.DIFFERENCES}
"""The kinds of truth that a metric makes of vectors and of targets."""

_ROLES = {role.value: role for role in (Role.PAIRS, Role.FEATURE_WEIGHTS, Role.SAMPLE_WEIGHT, Role.PAIR_WEIGHT)}


def wanted_inputs(spec: Spec) -> list[Wanted]:
    """The inputs that a spec names, in its order."""
    wanted = [_by_address(spec, name, address) for name, address in spec.input.addresses.items()]
    for name, relation in spec.input.relations.items():
        wanted += wanted_of_relation(name, relation)
    return wanted


def input_addresses(spec: Spec) -> list[str]:
    """The addresses of all arrays that a job reads."""
    return [wanted.address for wanted in wanted_inputs(spec)]


def _by_address(spec: Spec, name: str, address: str) -> Wanted:
    reads = METHODS[spec.method].reads
    if name == "features":
        return Wanted("input.features", address, Role.MATRIX, FEATURES, may_be_sparse=reads in {"features", "points"})
    role = _ROLES.get(name, Role.TRUTH)
    is_vector = name in {"labels", "similar", "sample_weight", "pair_weight"}
    return Wanted(f"input.{name}", address, role, AS_IT_IS, is_vector)


def wanted_of_relation(name: str, relation: Relation) -> Iterator[Wanted]:
    """The inputs that a distance or similarity names."""
    for place, part in relation.functions:
        if objects := part.options["objects"]:
            role = Role.MATRIX if name == "similarity" and not relation.parts else Role.OBJECTS
            where = f"{name}.{place}" if relation.parts else name
            yield Wanted(f"input.{where}.objects", str(objects), role, AS_IT_IS)
    role = Role.MATRIX if name == "similarity" else Role.TRUTH
    kernels = tuple(_kernel(part) for part in relation.each if part.kind in KERNELS)
    numbers = [part for part in relation.each if part.input_address is not None]
    for part in numbers[:1] if kernels else numbers:  # built-in similarities read the same features
        reading = _reading_of(name, part)
        yield Wanted(
            *(f"input.{name}", part.address, role, reading, part.kind == "labels"),
            may_be_sparse=(reading.precise and not relation.parts) or part.kind in {"graph", "observed"},
            kernels=kernels,
            numbers_for=f"similarity {part.kind!r}" if kernels else "",
        )
    if costs := relation.options.get("costs"):
        yield Wanted(f"input.{name}.costs", str(costs), Role.COSTS, AS_IT_IS)


def _kernel(similarity: Relation) -> WantedKernel:
    gamma = similarity.options.get("gamma")
    return WantedKernel(similarity.kind, float(gamma) if isinstance(gamma, (int, float)) else None)


def _reading_of(name: str, relation: Relation) -> Reading:
    if name == "similarity" and relation.kind == "dense":
        return DISSIMILARITIES if relation.measure == "distance" else SIMILARITIES
    if relation.kind == "graph":
        try:
            options: dict[str, Any] = dict(relation.options)  # of the types that `tables` allows
            return Graph(relation.address, **options).reading
        except InputError as error:
            raise InputError(f"input.{name}: {error}") from error
    readings = {"dense": DISTANCES, "observed": DISTANCES, **dict.fromkeys((*KERNELS, "feature_subsets"), FEATURES)}
    return readings.get(relation.kind, AS_IT_IS)


def truth_of(spec: Spec) -> tuple[TruthKind, str]:
    """The kind of a job's truth, and its address; without truth, that of its features."""
    relation = spec.input.relations.get("distances")
    if relation is not None:
        return kind_of_distances(relation), relation.address
    for kind, key in ((TruthKind.LINKS, "similar"), (TruthKind.LABELS, "labels"), (TruthKind.TARGETS, "targets")):
        if key in spec.input.addresses:
            return kind, spec.input.addresses[key]
    return TruthKind.NOTHING, spec.input.addresses["features"]


def kind_of_distances(relation: Relation) -> TruthKind:
    """The kind of truth that distances are."""
    if kind := OF_METRICS.get(str(relation.options.get("metric"))):
        return kind
    is_matrix = relation.kind in {"dense", "graph", "observed", LAZY_KIND}
    return TruthKind.DISTANCES if is_matrix else TruthKind(relation.kind)
