"""The spec of a fit: read from TOML, JSON or a dict, checked for all faults at once, written as canonical JSON.

The keys, their types and their defaults are those of the models in `distforest.jobs.tables`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

from distforest.errors import InputError
from distforest.growth.methods import METHODS
from distforest.jobs.reader import LAZY_KIND, Place, listed, read_json, read_toml, refusal, shown
from distforest.jobs.tables import ADDRESS_KEYS, INPUTS, NONE, SPEC_FORMAT, Fit, Run, Table, fit_table, read
from distforest.sources.factors import ABSOLUTE, COSINE, Graph
from distforest.sources.job_inputs import GivenKernel, JobInput, Role
from distforest.sources.kernels import KERNELS
from distforest.sources.readings import AS_IT_IS, DISSIMILARITIES, DISTANCES, FEATURES, SIMILARITIES, Reading
from distforest.sources.truth import TruthKind
from distforest.stores.outputs import in_the_way

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator

    from distforest.forest.forest import Params
    from distforest.growth.parameters import Value
    from distforest.sources.comparisons import Comparison

SEVERAL = "several"
"""The kind of relation that a list of similarities is."""

NO_ADDRESSES = ("kind", "metric", "measure", "directed", "share", "function", "similarity")
"""Keys of ``[input]`` whose strings are words or functions; those of all others, but ``comparisons``, are addresses."""


@dataclass(frozen=True)
class Relation:
    """A distance or similarity of the rows: its kind, the address of its numbers, and its options.

    Several similarities are one relation of the kind `SEVERAL`, without an address; ``parts`` are its similarities.
    """

    kind: str
    address: str
    options: Mapping[str, Value] = field(default_factory=dict)
    parts: tuple[Relation, ...] = ()

    @property
    def each(self) -> tuple[Relation, ...]:
        """The similarities of several, or the relation itself."""
        return self.parts or (self,)

    @property
    def weights(self) -> tuple[float, ...]:
        """How often a candidate draws each of several similarities."""
        return tuple(float(str(part.options["weight"])) for part in self.parts)

    @property
    def input_address(self) -> str | None:
        """The address of its numbers; None for a function, which is named instead."""
        return None if self.kind == LAZY_KIND else self.address

    @property
    def truth_kind(self) -> TruthKind:
        """The kind of truth that distances are."""
        metrics = {COSINE: TruthKind.DIRECTIONS, ABSOLUTE: TruthKind.DIFFERENCES}
        if kind := metrics.get(str(self.options.get("metric"))):
            return kind
        is_matrix = self.kind in {"dense", "graph", "observed", LAZY_KIND}
        return TruthKind.DISTANCES if is_matrix else TruthKind(self.kind)

    def addresses_as(self, name: str) -> dict[str, str]:
        """The addresses of its numbers and of the costs of its classes, by what the relation is called."""
        costs = self.options.get("costs")
        return {name: self.address, **({f"{name}.costs": str(costs)} if costs else {})}

    @property
    def functions(self) -> tuple[tuple[int, Relation], ...]:
        """The similarities that functions compute, each with its place in a list of several."""
        return tuple((place, part) for place, part in enumerate(self.each) if part.kind == LAZY_KIND)

    @property
    def measure(self) -> str:
        """Whether a matrix or a function gives similarities or distances."""
        return str(self.options["measure"])

    @classmethod
    def of(cls, table: Table | list[Table]) -> Relation:
        """Return the relation that a table describes, or a list of them."""
        if isinstance(table, list):
            return cls(SEVERAL, "", {}, tuple(map(cls.of, table)))
        options = dict(table)
        kind = options.pop("kind")
        return cls(kind, options.pop(ADDRESS_KEYS[kind]), options)

    def to_table(self) -> object:
        """Return the relation as a spec has it: a table, or a list of them."""
        if self.parts:
            return [part.to_table() for part in self.parts]
        return {"kind": self.kind, ADDRESS_KEYS[self.kind]: self.address, **self.options}


@dataclass(frozen=True)
class Input:
    """The inputs of a job by the keys of the spec: ``addresses`` of arrays, ``relations`` of rows, ``comparisons``."""

    addresses: Mapping[str, str]
    relations: Mapping[str, Relation]
    comparisons: tuple[Comparison, ...] = ()

    @classmethod
    def of(cls, table: Table) -> Input:
        """Return the inputs that the table ``[input]`` of a fit names."""
        given = {name: value for name, value in table if value is not None}
        comparisons = tuple(one.comparison() for one in given.pop("comparisons", ()))
        addresses = {name: value for name, value in given.items() if isinstance(value, str)}
        relations = {name: Relation.of(value) for name, value in given.items() if name not in addresses}
        return cls(addresses, relations, comparisons)


@dataclass(frozen=True)
class Spec:
    """A fit job, complete with its defaults. Made by `from_toml`, `from_json` or `from_dict`, which check it.

    Examples
    --------
    >>> spec = Spec.from_toml('''
    ... format = 1
    ... method = "smerf"
    ... seed = 7
    ... output = "lazega.forest.zarr"
    ... [input]
    ... features = "lazega.zarr/X"
    ... distances = { kind = "graph", adjacency = "lazega.zarr/A" }
    ... [params]
    ... min_samples_split = 4
    ... [run]
    ... memory_limit = "4GiB"
    ... ''')
    >>> spec.input.addresses["features"], spec.input.relations["distances"].kind
    ('lazega.zarr/X', 'graph')
    >>> spec.params["n_estimators"], spec.params["min_samples_split"], spec.run.memory_limit
    (500, 4, 4294967296)
    >>> Spec.from_json(spec.to_json()) == spec
    True
    """

    method: str
    seed: int
    output: str
    input: Input
    params: Params
    run: Run = field(default_factory=Run)

    @property
    def input_addresses(self) -> list[str]:
        """The addresses of all arrays that the job reads."""
        return [one.address for one in inputs_of(self)]

    @classmethod
    def from_toml(cls, source: str | os.PathLike[str]) -> Self:
        """Read a spec from TOML.

        Parameters
        ----------
        source : str or path
            The text itself; or a `pathlib.Path` (any path object), the file to read.

        Raises
        ------
        SpecError
            All faults of the spec with their lines; or the one that prevents reading it: a file that cannot
            be opened, a text that is over 1 MiB or not TOML, an unknown format number.

        Examples
        --------
        >>> Spec.from_toml('''format = 1
        ... method = "smerf"
        ... output = "forest"
        ... input = { features = "wine.zarr/X", distances = "wine.zarr/Z" }
        ... params.max_dept = 3
        ... ''')
        Traceback (most recent call last):
        distforest.errors.SpecError: output (line 3): must be a printable string that ends in .zarr...
        params.max_dept (line 5): unknown key 'max_dept'; did you mean 'max_depth'?
        """
        return cls.from_dict(*read_toml(source))

    @classmethod
    def from_json(cls, source: str) -> Self:
        """Read a spec from a JSON text, such as `to_json` writes.

        Raises
        ------
        SpecError
            As `from_toml`, without lines.

        Examples
        --------
        >>> Spec.from_json('{"format": 1,')
        Traceback (most recent call last):
        distforest.errors.SpecError: spec: is not JSON that can be read: Expecting property name ...
        """
        return cls.from_dict(read_json(source))

    @classmethod
    def from_dict(cls, table: object, lines: Mapping[Place, int] | None = None) -> Self:
        """Read a spec from a dict of the same shape as the TOML, which may come with the line of each key.

        Raises
        ------
        SpecError
            All faults of the spec; or an unknown format number.

        Examples
        --------
        >>> spec = Spec.from_dict({
        ...     "format": 1, "method": "simforest", "output": "s3://forests/wine.zarr",
        ...     "input": {"similarity": {"kind": "rbf", "features": "wine.zarr/X"}, "labels": "wine.zarr/y"},
        ... })
        >>> spec.input.relations["similarity"]
        Relation(kind='rbf', address='wine.zarr/X', options={'gamma': None}, parts=())
        """
        lines = lines or {}
        check_format(table, lines)
        fit: Fit = read(fit_table(method_of(table)), table, lines)
        found = Input.of(fit.input)
        if faults := contradictions(fit, found):
            raise refusal(faults, lines)
        params = dict(fit.params) | ({"feature_weights": "given"} if "feature_weights" in found.addresses else {})
        return cls(fit.method, fit.seed, fit.output, found, params, fit.run)

    def to_dict(self) -> dict[str, object]:
        """Write the whole spec, defaults included, as plain dicts, numbers, strings, booleans and None.

        Examples
        --------
        >>> spec = Spec.from_dict({
        ...     "format": 1, "method": "smerf", "output": "wine.forest.zarr",
        ...     "input": {"features": "wine.zarr/X", "distances": "wine.zarr/Z"},
        ... })
        >>> spec.to_dict()["input"]
        {'features': 'wine.zarr/X', 'distances': {'kind': 'dense', 'matrix': 'wine.zarr/Z'}}
        >>> Spec.from_dict(spec.to_dict()) == spec
        True
        """
        relations = {name: relation.to_table() for name, relation in self.input.relations.items()}
        head = {"format": SPEC_FORMAT, "method": self.method, "seed": self.seed, "output": self.output}
        compared = [one.to_table() for one in self.input.comparisons]
        inputs = {**self.input.addresses, **relations, **({"comparisons": compared} if compared else {})}
        tables = {"input": inputs, "params": dict(self.params)}
        return {**head, **tables, "run": dict(self.run)}

    def to_json(self) -> str:
        """Write the whole spec as canonical JSON: ASCII, sorted keys, no spaces; equal specs, equal texts."""
        return json.dumps(self.to_dict(), sort_keys=True, separators=(",", ":"), allow_nan=False)


# --- reading ----------------------------------------------------------------------------------------------


def method_of(table: object) -> str | None:
    """Return the method that a parsed table names; None if there is none of that name."""
    method = table.get("method") if isinstance(table, Mapping) else None
    return method if isinstance(method, str) and method in INPUTS else None


def check_format(table: object, lines: Mapping[Place, int]) -> None:
    """Refuse an unknown format number with this fault only: the rest may be right in the grammar of that format."""
    number = table.get("format") if isinstance(table, Mapping) else None
    if isinstance(number, int) and not isinstance(number, bool) and number != SPEC_FORMAT:
        what = f"format {shown(number)} is not known to this version, which reads format {SPEC_FORMAT}"
        raise refusal([(("format",), what)], lines)


def addresses_in(value: object, place: str = "") -> dict[str, str]:
    """Return the addresses in ``[input]`` of a spec, or in a part of it, by position.

    Examples
    --------
    >>> addresses_in({"features": "X", "distances": {"kind": "labels", "values": "y", "costs": None}})
    {'features': 'X', 'distances.values': 'y'}
    """
    if isinstance(value, str):
        return {} if place.rpartition(".")[2] in NO_ADDRESSES else {place: value}
    items = value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, list) else ()
    places = [(f"{place}.{name}" if place else str(name), held) for name, held in items if name != "comparisons"]
    inner = [addresses_in(held, at) for at, held in places]
    return {at: address for found in inner for at, address in found.items()}


def contradictions(fit: Fit, found: Input) -> list[tuple[Place, str]]:
    """Return the faults of keys of a fit that contradict each other."""
    faults: list[tuple[Place, str]] = []
    named, value = "feature_weights" in found.addresses, getattr(fit.params, "feature_weights", None)
    is_given = "feature_weights" in fit.params.model_fields_set
    if is_given and (value != "given" if named else value == "given"):
        what = "names some" if named else "names none"
        faults += [(("params", "feature_weights"), f"is {shown(value or NONE)}, but input.feature_weights {what}")]
    if "pair_weight" in found.addresses and "pairs" not in found.addresses:
        what = "goes with 'pairs' and 'similar', found neither; pairs that are drawn by labels have no weights"
        faults += [(("input", "pair_weight"), f"{what}, so weigh the points: 'sample_weight'")]
    inputs = [*found.addresses.values(), *addresses_in([part.to_table() for part in found.relations.values()]).values()]
    if spoiled := in_the_way(fit.output, {address: address for address in inputs}):
        what = f"must not be, hold or lie in an input, found {shown(fit.output)} and {listed(spoiled)}"
        faults += [(("output",), what)]
    return faults


# --- what a job reads -------------------------------------------------------------------------------------


def truth_of(spec: Spec) -> tuple[TruthKind, str]:
    """The kind of a job's truth, and its address; without truth, that of its features."""
    relation = spec.input.relations.get("distances")
    if relation is not None:
        return relation.truth_kind, relation.address
    for kind, key in ((TruthKind.LINKS, "similar"), (TruthKind.LABELS, "labels"), (TruthKind.TARGETS, "targets")):
        if key in spec.input.addresses:
            return kind, spec.input.addresses[key]
    return TruthKind.NOTHING, spec.input.addresses["features"]


def inputs_of(spec: Spec) -> list[JobInput]:
    """The inputs that a spec names, in its order."""
    found = []
    for name, address in spec.input.addresses.items():
        if name == "features":
            may_be_sparse = METHODS[spec.method].reads in {"features", "points"}
            found.append(JobInput(f"input.{name}", address, Role.MATRIX, FEATURES, may_be_sparse=may_be_sparse))
        else:
            role = Role(name) if name in set(Role) else Role.TRUTH
            is_vector = name in {"labels", "similar"} or role in {Role.SAMPLE_WEIGHT, Role.PAIR_WEIGHT}
            found.append(JobInput(f"input.{name}", address, role, AS_IT_IS, is_vector))
    return found + [
        one for name, relation in spec.input.relations.items() for one in inputs_of_relation(name, relation)
    ]


def inputs_of_relation(name: str, relation: Relation) -> Iterator[JobInput]:
    """The inputs that a distance or similarity names."""
    role = Role.MATRIX if name == "similarity" else Role.TRUTH
    for place, part in relation.functions:
        if objects := part.options["objects"]:
            where = f"{name}.{place}" if relation.parts else name
            yield JobInput(
                f"input.{where}.objects",
                str(objects),
                Role.MATRIX if role == Role.MATRIX and not relation.parts else Role.OBJECTS,
                AS_IT_IS,
            )
    kernels = []
    for part in relation.each:
        if part.kind in KERNELS:
            gamma = part.options.get("gamma")
            kernels.append(GivenKernel(part.kind, float(gamma) if isinstance(gamma, (int, float)) else None))
    numbers = [part for part in relation.each if part.input_address is not None]
    for part in numbers[:1] if kernels else numbers:  # built-in similarities read the same features
        reading = _reading_of(name, part)
        yield JobInput(
            *(f"input.{name}", part.address, role, reading, part.kind == "labels"),
            may_be_sparse=(reading.precise and not relation.parts) or part.kind in {"graph", "observed"},
            kernels=tuple(kernels),
            numbers_for=f"similarity {part.kind!r}" if kernels else "",
        )
    if costs := relation.options.get("costs"):
        yield JobInput(f"input.{name}.costs", str(costs), Role.COSTS, AS_IT_IS)


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
