"""The spec of a fit: read from TOML, JSON or a dict, checked for all faults at once, written as canonical JSON.

The grammar is data. A method is a row of `distforest.growth.methods`, a kind of distance or similarity a row of
`distforest.jobs.input_keys`, a parameter a row of `distforest.growth.parameters`, a key of ``[run]`` a field of `Run`.
"""

from __future__ import annotations

import dataclasses
import difflib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from numbers import Integral, Real
from typing import TYPE_CHECKING

from distforest.growth.methods import METHODS
from distforest.growth.parameters import Parameter, Value, complete, faults
from distforest.jobs.input_keys import ADDRESS, FURTHER_ADDRESSES, INPUTS, LISTED, WEIGHT, Kind
from distforest.jobs.reader import (
    FLAG,
    LARGEST_INTEGER,
    MAX_KEYS,
    NOT_GIVEN,
    NUMBER_OR_AUTO,
    SIZE,
    Key,
    Place,
    Reader,
    Rule,
    exactly,
    integer,
    listed,
    read_json,
    read_toml,
    shown,
    text,
    word,
)
from distforest.sources.scratch import ScratchFolder
from distforest.stores.outputs import in_the_way

if TYPE_CHECKING:
    import os

    from distforest.forest.forest import Params

SPEC_FORMAT = 1
"""Version of the grammar. It rises when an older spec would be read as another job."""

NONE = "none"

SEVERAL = "several"
"""The kind of relation that a list of similarities is."""

LAZY_KIND = "lazy"
"""The kind of relation that a function computes."""


# --- the grammar ------------------------------------------------------------------------------------------


FIT_HEAD = (
    Key("format", exactly(SPEC_FORMAT)),
    Key("method", word(INPUTS)),
    Key("seed", integer(0), 0),
    Key("output", text("an address (path or URL) that ends in .zarr", end=".zarr")),
)
SPEC_TABLES = ("input", "params", "run")
OF_ESTIMATORS = {
    "random_state": "give seed = INTEGER before the tables",
    "n_jobs": "give workers and threads_per_worker in [run]",
}
"""What to write for the parameters of estimators that are none of a method."""

OF_TUNING = dict.fromkeys(("grid", "scoring"), 'it goes with job = "tune"')
"""What to write for the keys of tuning jobs."""


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

    def to_table(self, kinds: tuple[Kind, ...]) -> object:
        """The relation as a spec has it: a table, or a list of them."""
        if self.parts:
            return [part.to_table(kinds) for part in self.parts]
        address = next(kind.address for kind in kinds if kind.name == self.kind)
        return {"kind": self.kind, address: self.address, **self.options}


@dataclass(frozen=True)
class Input:
    """The inputs of a job by the keys of the spec: ``addresses`` of arrays, and ``relations`` of the rows."""

    addresses: Mapping[str, str]
    relations: Mapping[str, Relation]


def _key(rule: Rule) -> dict[str, Rule]:
    return {"rule": rule}


@dataclass(frozen=True)
class Run:
    """How a job runs; nothing here changes the forest. None: not given, the plan decides.

    Attributes
    ----------
    workers, threads_per_worker : int
        Size of the embedded cluster.
    memory_limit : int
        Memory of a worker in bytes; a spec may contain "4GiB".
    scheduler : str
        Address of a Dask scheduler to run on. All its workers must see the folder of the output as this host does.
    batch : int
        Trees in one task.
    parts : int or "auto"
        Number of parts in which rows lie, so that no worker holds all of them; "auto": one for each worker.
    scratch : str
        Directory for staged arrays.
    scratch_limit : int
        Most bytes of staged arrays there, on each host; a spec may contain "200GiB".
    retries : int
        How often a task that failed is tried again.
    overwrite, keep_shards : bool
        Whether the output may replace a forest, and whether the shards stay when it is sealed.
    grow_on : bool
        Whether a forest of this job with fewer trees, at the output, gets those that it lacks.
    strict : bool
        Whether inputs are refused if some of their chunks are not stored.
    max_bytes : int
        Most bytes that an input may announce, however few of them are stored.
    priority : int
        Which job a service starts first, of those that wait for their turn: one of a higher number.
    """

    workers: int | None = field(default=None, metadata=_key(integer(1)))
    threads_per_worker: int = field(default=1, metadata=_key(integer(1)))
    memory_limit: int | None = field(default=None, metadata=_key(SIZE))
    scheduler: str | None = field(
        default=None, metadata=_key(text("the address of a Dask scheduler such as 'tcp://127.0.0.1:8786'"))
    )
    batch: int | None = field(default=None, metadata=_key(integer(1)))
    parts: int | str | None = field(default=None, metadata=_key(NUMBER_OR_AUTO))
    scratch: str | None = field(default=None, metadata=_key(text("the path of a directory")))
    scratch_limit: int | None = field(default=None, metadata=_key(SIZE))
    retries: int = field(default=3, metadata=_key(integer(0)))
    overwrite: bool = field(default=False, metadata=_key(FLAG))
    keep_shards: bool = field(default=False, metadata=_key(FLAG))
    grow_on: bool = field(default=False, metadata=_key(FLAG))
    strict: bool = field(default=False, metadata=_key(FLAG))
    max_bytes: int | None = field(default=None, metadata=_key(SIZE))
    priority: int = field(default=0, metadata=_key(integer(-1000)))

    @property
    def scratch_folder(self) -> ScratchFolder:
        """The folder for staged arrays, with its limit."""
        return ScratchFolder(self.scratch, self.scratch_limit)


RUN_KEYS = tuple(Key(f.name, f.metadata["rule"], f.default) for f in dataclasses.fields(Run))


def elsewhere(own: str, method: str | None) -> dict[str, str]:
    """What to write for a key that stands in the table ``own``, "" for the top, but belongs in another one.

    Examples
    --------
    >>> told = elsewhere("run", "smerf")
    >>> told["seed"], told["max_depth"], "workers" in told
    ('it stands before the tables', 'it belongs in [params]', False)
    """
    methods = INPUTS if method is None else [method]
    names = {
        "": [key.name for key in FIT_HEAD],
        "input": [name for each in methods for name in INPUTS[each].names],
        "params": [row.name for each in methods for row in METHODS[each].parameters],
        "run": [key.name for key in RUN_KEYS],
    }
    place = {table: f"it belongs in [{table}]" if table else "it stands before the tables" for table in names}
    return {name: place[table] for table in names if table != own for name in names[table]}


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

    @classmethod
    def from_toml(cls, source: str | os.PathLike[str]) -> Spec:
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
        distforest.errors.SpecError: output (line 3): must be an address (path or URL) that ends in .zarr...
        params.max_dept (line 5): unknown parameter 'max_dept'; did you mean 'max_depth'?
        """
        return cls.from_table(*read_toml(source))

    @classmethod
    def from_json(cls, source: str) -> Spec:
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
        return cls.from_table(read_json(source))

    @classmethod
    def from_dict(cls, table: Mapping[str, object]) -> Spec:
        """Read a spec from a dict of the same shape as the TOML.

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
        return cls.from_table(table)

    @classmethod
    def from_table(cls, table: object, lines: Mapping[Place, int] | None = None) -> Spec:
        """Read a spec from a parsed table, with the line of each key; raises SpecError as `from_toml` does."""
        return _spec(table, lines or {})

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
        kinds = INPUTS[self.method].relations
        relations = {name: relation.to_table(kinds[name]) for name, relation in self.input.relations.items()}
        head = {"format": SPEC_FORMAT, "method": self.method, "seed": self.seed, "output": self.output}
        tables = {"input": {**self.input.addresses, **relations}, "params": dict(self.params)}
        return {**head, **tables, "run": dataclasses.asdict(self.run)}

    def to_json(self) -> str:
        """Write the whole spec as canonical JSON: ASCII, sorted keys, no spaces; equal specs, equal texts."""
        return json.dumps(self.to_dict(), sort_keys=True, separators=(",", ":"), allow_nan=False)

    def identity(self) -> dict[str, object]:
        """Write the part that decides the forest: method, seed, input and params, but not output and run.

        Examples
        --------
        >>> spec = Spec.from_dict({
        ...     "format": 1, "method": "smerf", "output": "wine.forest.zarr",
        ...     "input": {"features": "wine.zarr/X", "distances": "wine.zarr/Z"},
        ... })
        >>> list(spec.identity())
        ['method', 'seed', 'input', 'params']
        """
        whole = self.to_dict()
        return {name: whole[name] for name in ("method", "seed", "input", "params")}


# --- reading ----------------------------------------------------------------------------------------------


def _spec(table: object, lines: Mapping[Place, int]) -> Spec:
    """Make a spec of a parsed table; raises SpecError with all its faults."""
    _check_format(table, lines)
    reader = Reader(lines)
    meant = _meant(table.get("method")) if isinstance(table, Mapping) else None
    top = reader.table(
        (), table, [*(key.name for key in FIT_HEAD), *SPEC_TABLES], {**elsewhere("", meant), **OF_TUNING}
    )
    if top is None:
        raise reader.error()
    head = reader.values((), top, FIT_HEAD)
    found, params = Input({}, {}), dict[str, Value]()
    if (method := head["method"] or meant) is not None:
        found, given = _input(reader, method, top.get("input", NOT_GIVEN)), top.get("params", {})
        params = _with_feature_weights(reader, _params(reader, method, given), found, given)
        _check_pairs(reader, found)
    else:
        _check_keys_of_any(reader, top)
    given = reader.table(("run",), top.get("run", {}), [key.name for key in RUN_KEYS], elsewhere("run", method))
    run = reader.values(("run",), given, RUN_KEYS)
    _check_apart(reader, head["output"], found)
    if reader.found_faults:
        raise reader.error()
    return Spec(head["method"], head["seed"], head["output"], found, params, Run(**run))


def _meant(word: object) -> str | None:
    """The method of which a word may be another spelling: what is wrong elsewhere is told by its keys."""
    near = difflib.get_close_matches(word.lower(), INPUTS, n=1) if isinstance(word, str) else []
    return near[0] if near else None


def _check_keys_of_any(reader: Reader, top: Mapping[str, object]) -> None:
    """Note the keys of inputs and parameters that no method has, where the method is not known."""
    keys = [name for own in INPUTS.values() for name in own.names]
    reader.table(("input",), top.get("input", NOT_GIVEN), list(dict.fromkeys(keys)), elsewhere("input", None))
    rows = [row.name for method in INPUTS for row in METHODS[method].parameters]
    reader.table(("params",), top.get("params", {}), list(dict.fromkeys(rows)), elsewhere("params", None))


def _check_format(table: object, lines: Mapping[Place, int]) -> None:
    """Refuse an unknown format number with this fault only: the rest may be right in the grammar of that format."""
    number = table.get("format") if isinstance(table, Mapping) else None
    if isinstance(number, int) and not isinstance(number, bool) and number != SPEC_FORMAT:
        reader = Reader(lines)
        what = f"format {shown(number)} is not known to this version, which reads format {SPEC_FORMAT}"
        reader.fault(("format",), what)
        raise reader.error()


def _input(reader: Reader, method: str, value: object) -> Input:
    """Read ``[input]`` by the keys of a method."""
    asked = INPUTS[method]
    given = reader.table(("input",), value, asked.names, {**elsewhere("input", method), **asked.cures})
    if given is None:
        return Input({}, {})
    keys = []
    for group in asked.addresses:
        found = [name for name in group if name in given]
        if len(found) != 1 < len(group):
            what = f"found {' and '.join(map(repr, found)) or 'none'}"
            reader.fault(("input",), f"must have exactly one of {listed(group)}, {what}")
        keys += [Key(name, ADDRESS) for name in (group if len(group) == 1 else found)]
    keys += [Key(name, ADDRESS) for name in asked.optional if name in given]
    addresses = reader.values(("input",), given, keys)
    relations = {}
    for name, kinds in asked.relations.items():
        place, held = ("input", name), given.get(name, NOT_GIVEN)
        is_list = name == "similarity" and isinstance(held, list)
        relations[name] = (_several if is_list else read_relation)(reader, place, held, kinds)
    return Input(addresses, relations)


def _several(reader: Reader, place: Place, value: object, kinds: tuple[Kind, ...]) -> Relation:
    """Read a list of similarities, each of which may have a weight."""
    allowed = tuple(replace(kind, options=(*kind.options, WEIGHT)) for kind in kinds if kind.name in LISTED)
    items = list(value) if isinstance(value, list) else []
    parts = tuple(read_relation(reader, (*place, str(number)), item, allowed) for number, item in enumerate(items))
    if not 1 < len(parts) <= MAX_KEYS:
        reader.fault(place, f"must be a similarity, or a list of 2 to {MAX_KEYS} of them, found {len(parts)}")
    listed_are = {LISTED[part.kind] for part in parts if part.kind}
    if len(listed_are) > 1:
        what = "must be a list of matrices and functions, or of similarities of the same features, found both"
        reader.fault(place, what)
    elif listed_are == {LISTED["rbf"]} and len({part.address for part in parts if part.address}) > 1:
        reader.fault(place, "must be a list of similarities of the same features, found several arrays of features")
    ledgers = [ledger for part in parts if (ledger := part.options.get("ledger")) is not None]
    for ledger in {ledger for ledger in ledgers if ledgers.count(ledger) > 1}:
        reader.fault(place, f"must name a ledger for each function, found {shown(ledger)} twice")
    if len({part.options["share"] for part in parts if part.kind == LAZY_KIND}) > 1:
        reader.fault(place, "must have functions of one 'share', found 'all' and 'worker'")
    return Relation(SEVERAL, "", {}, parts)


def read_relation(reader: Reader, place: Place, value: object, kinds: tuple[Kind, ...]) -> Relation:
    """Read a distance or similarity: an address, which stands for the first kind, or a table with a kind."""
    ready = {kind.name: kind for kind in kinds}
    if isinstance(value, str):
        value = {"kind": kinds[0].name, kinds[0].address: value}
    given = reader.mapping(place, value, f"an address, or a table with a kind of {listed(ready)}")
    name = given.get("kind") if given is not None else None
    keys = [Key("kind", word(ready))]
    if not isinstance(name, str) or name not in ready:
        reader.values(place, given, keys)
        return Relation("", "")
    kind = ready[name]
    keys += [Key(kind.address, kind.rule), *kind.options]
    options = reader.values(place, reader.table(place, given, [key.name for key in keys]), keys)
    return Relation(options.pop("kind"), options.pop(kind.address), options)


def _params(reader: Reader, method: str, value: object) -> dict[str, Value]:
    """Read ``[params]``, complete with their defaults."""
    place = ("params",)
    given = reader.mapping(place, value, "a table of parameters")
    if given is None:
        return {}
    rows = {row.name: row for row in METHODS[method].parameters}
    known: dict[str, Value] = {}
    for name, held in given.items():
        try:
            known[name if isinstance(name, str) else shown(name)] = (
                parameter_value(rows[name], held) if name in rows else None
            )
        except (ValueError, OverflowError):
            reader.fault((*place, name), in_words_of_toml(f"must be {rows[name].allowed()}, found {shown(held)}"))
    found, cures = faults(rows.values(), known), {**elsewhere("params", method), **OF_ESTIMATORS}
    for name, what in found.items():
        cure = f"; {cures[name]}" if name in cures and name not in rows else ""
        reader.fault((*place, name), in_words_of_toml(what.removeprefix(f"{name} ")) + cure)
    return {} if found else complete(rows.values(), known)


def in_words_of_toml(fault: str) -> str:
    """Write None, True and False of what is allowed as TOML has them; what was found stays as it is.

    Examples
    --------
    >>> in_words_of_toml("must be an integer >= 1 or None, found 'None'")
    "must be an integer >= 1 or 'none', found 'None'"
    """
    allowed, found, given = fault.partition(", found ")
    return allowed.replace("None", repr(NONE)).replace("True or False", "true or false") + found + given


def _with_feature_weights(reader: Reader, params: dict[str, Value], found: Input, given: object) -> dict[str, Value]:
    """Set ``feature_weights`` to ``given`` if the input names them, and note contradictions."""
    named = "feature_weights" in found.addresses
    value = given.get("feature_weights", NOT_GIVEN) if isinstance(given, Mapping) else NOT_GIVEN
    if value in (("dependence", NONE, None) if named else ("given",)):
        what = "names some" if named else "names none"
        reader.fault(("params", "feature_weights"), f"is {shown(value)}, but input.feature_weights {what}")
    return {**params, "feature_weights": "given"} if named else params


def _check_pairs(reader: Reader, found: Input) -> None:
    """Refuse pairs without their classes, classes without pairs, and weights of pairs that are not given."""
    named = [name for name in ("pairs", "similar") if name in found.addresses]
    if len(named) == 1:
        reader.fault(("input",), f"must have 'pairs' and 'similar' together, found only {named[0]!r}")
    if "pair_weight" in found.addresses and not named:
        what = "goes with 'pairs' and 'similar', found neither; pairs that are drawn by labels have no weights"
        reader.fault(("input", "pair_weight"), f"{what}, so weigh the points: 'sample_weight'")


def parameter_value(parameter: Parameter, held: object) -> Value:
    """Read a parameter; "none" means None if that is allowed, because TOML has no null."""
    return None if held == NONE and None in parameter.words else _plain(held)


def _plain(value: object) -> Value:
    """Convert numbers to Python's types; raises ValueError for one that is too deep or large to print."""
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, Mapping):
        return {_name(name): _number(number) for name, number in value.items()}
    return _number(value)


def _name(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError  # noqa: TRY004  (a fault of the spec)
    return value


def _number(value: object) -> float:
    if isinstance(value, bool):
        raise ValueError  # noqa: TRY004  (a fault of the spec)
    if isinstance(value, Integral) and -LARGEST_INTEGER <= int(value) <= LARGEST_INTEGER:
        return int(value)
    if isinstance(value, Real) and not isinstance(value, Integral):
        return float(value)
    raise ValueError


def _check_apart(reader: Reader, output: str | None, found: Input) -> None:
    """Refuse an output that is, contains or is inside an input, because it would overwrite it."""
    inputs = [*found.addresses.values()]
    for relation in found.relations.values():
        for part in relation.each:
            files = (part.options.get(name) for name in FURTHER_ADDRESSES)
            inputs += map(str, filter(None, (part.input_address, *files)))
    spoiled = in_the_way(output, {address: address for address in inputs if address}) if output is not None else {}
    if spoiled:
        what = f"must not be, hold or lie in an input, found {shown(output)} and {listed(spoiled)}"
        reader.fault(("output",), what)
