"""The tables of job specs as pydantic models: every key with its type, its default and what it means.

A spec is read by these models, `distforest schema` writes them as JSON Schema, and the sentence below a key is what an
editor shows and what a refusal of its value ends with. The keys of ``[params]`` are the rows of
`distforest.growth.parameters`.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Mapping
from functools import cache, partial
from numbers import Integral, Real
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self, TypeAlias, TypeVar, Union, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    PlainValidator,
    Tag,
    TypeAdapter,
    ValidationError,
    WithJsonSchema,
    create_model,
    model_validator,
)

from distforest.evaluation.grids import DIAGONAL, SCORINGS
from distforest.growth.methods import METHODS
from distforest.growth.parameters import LEAST, SAID, Value
from distforest.jobs.reader import LARGEST_INTEGER, MAX_KEYS, Place, bytes_in, listed, refusal, shown
from distforest.sources.factors import METRICS, TARGET_METRICS
from distforest.sources.readings import DIRECTIONS
from distforest.sources.scratch import ScratchFolder
from distforest.sources.truth import TruthKind

if TYPE_CHECKING:
    from distforest.growth.parameters import Parameter

SPEC_FORMAT = 1
"""Version of the grammar. It rises when an older spec would be read as another job."""

NONE = "none"
"""The word for None, which TOML lacks."""


class Table(BaseModel):
    """A table of a spec; ``cures`` says what to write for keys that are none of it."""

    model_config = ConfigDict(
        extra="forbid", strict=True, frozen=True, allow_inf_nan=False, use_attribute_docstrings=True
    )
    cures: ClassVar[Mapping[str, str]] = {}

    @model_validator(mode="before")
    @classmethod
    def _check_size(cls, value: object) -> object:
        """Refuse a crowd of keys: it takes time to suggest the right key for each wrong one."""
        if isinstance(value, dict) and len(value) > MAX_KEYS:
            raise ValueError(f"must have at most {MAX_KEYS} keys, found {len(value)} keys")
        return value


# --- values -----------------------------------------------------------------------------------------------


def _named(end: str, value: str) -> str:
    # Control characters and lone surrogates name no file and no bucket, and would spoil every log.
    if value.startswith("~/"):
        raise ValueError("must be a whole path, because only a shell reads ~ as the home folder")
    if not value.strip() or not value.isprintable() or not value.endswith(end):
        raise ValueError("must be a printable string" + (f" that ends in {end}" if end else ""))
    return value


Text = Annotated[str, AfterValidator(partial(_named, "")), WithJsonSchema({"type": "string", "pattern": r"\S"})]
"""A string that can name a file, a bucket or a function."""
Output = Annotated[
    str, AfterValidator(partial(_named, ".zarr")), WithJsonSchema({"type": "string", "pattern": r"\.zarr$"})
]
Format = Annotated[int, Field(ge=SPEC_FORMAT, le=SPEC_FORMAT), WithJsonSchema({"const": SPEC_FORMAT})]
Natural = Annotated[int, Field(ge=0, le=LARGEST_INTEGER)]
Count = Annotated[int, Field(ge=1, le=LARGEST_INTEGER)]
Positive = Annotated[float, Field(gt=0)]
NotNegative = Annotated[float, Field(ge=0), AfterValidator(lambda value: value + 0.0)]  # -0.0 is 0.0
SIZE_SCHEMA = {"anyOf": [{"type": "string", "pattern": "^[0-9]"}, {"type": "integer", "minimum": 1}]}
Size = Annotated[int, BeforeValidator(bytes_in), WithJsonSchema(SIZE_SCHEMA)]


# --- [input] ----------------------------------------------------------------------------------------------


class Matrix(Table):
    """Distances as given."""

    kind: Literal["dense"]
    matrix: Text
    """Address of the matrix, shape (n, n)."""


class SimilarityMatrix(Matrix):
    """Similarities as given."""

    measure: Literal["similarity", "distance"] = "similarity"
    """Whether the numbers are similarities or distances."""


class OfLabels(Table):
    """Distances of labels."""

    kind: Literal["labels"]
    values: Text
    """Address of the labels, one for each object."""
    costs: Text | None = None
    """Address of the distances of classes, shape (n_classes, n_classes); 1 for any two unless given."""


class OfTargets(Table):
    """Distances of targets."""

    kind: Literal["targets"]
    values: Text
    """Address of the targets, one for each object."""
    metric: Literal[TARGET_METRICS] = TARGET_METRICS[0]  # type: ignore[valid-type]
    """Distance of two targets: half of the squared difference, or the absolute one."""


class OfEmbedding(Table):
    """Distances of vectors."""

    kind: Literal["embedding"]
    values: Text
    """Address of the vectors, a row for each object."""
    metric: Literal[METRICS] = METRICS[0]  # type: ignore[valid-type]
    """Distance of two vectors: the square of the Euclidean one, or 1 less the cosine of their angle."""


class Graph(Table):
    """Distances in a graph."""

    kind: Literal["graph"]
    adjacency: Text
    """Address of the adjacency matrix, shape (n, n), entries from 0 to `absent`; it may be sparse."""
    absent: Positive = 1.0
    """Distance of two nodes without a link."""
    diagonal: NotNegative | None = None
    """Distance of a node to itself; as the matrix has it unless given."""
    directed: Literal[DIRECTIONS] | None = None  # type: ignore[valid-type]
    """How links in one direction count: their mean, either of the two, or both."""


class Observed(Table):
    """Distances of some pairs."""

    kind: Literal["observed"]
    matrix: Text
    """Address of the matrix, shape (n, n), of which each entry that is stored is a distance."""


class DistanceFunction(Table):
    """Distances that a function computes."""

    kind: Literal["lazy"]
    function: Text
    """The function, 'module:function' or the name of an entry point."""
    objects: Text | None = None
    """Address of the objects, a row for each; the row numbers unless given."""
    batch_size: Count = 1000
    """Most pairs in a call."""
    concurrency: Count = 1
    """Most concurrent calls in a worker's thread."""
    retries: Natural = 2
    """How often a pair that failed is evaluated again."""
    timeout: Positive | None = None
    """Seconds that a call may take."""
    budget: Natural | None = None
    """Most pairs that the fit may pay for."""
    ledger: Text | None = None
    """Local file that records every value."""


class SimilarityFunction(DistanceFunction):
    """Similarities that a function computes."""

    measure: Literal["similarity", "distance"] = "similarity"
    """Whether the numbers are similarities or distances."""
    symmetric: bool = True
    """Whether (a, b) and (b, a) are one pair."""
    share: Literal["all", "worker"] = "all"
    """Who evaluates: all workers together, or each worker for itself."""


class OfFeatures(Table):
    """A similarity of features."""

    kind: Literal["linear", "cosine", "manhattan"]
    features: Text
    """Address of the features, shape (n, p)."""


class Gaussian(OfFeatures):
    """The Gaussian kernel of features."""

    kind: Literal["rbf"]  # type: ignore[assignment]
    gamma: Positive | None = None
    """Width of the kernel; 1 / (p Var X) unless given."""


class FeatureSubsets(OfFeatures):
    """Products of random features."""

    kind: Literal["feature_subsets"]  # type: ignore[assignment]


def kinds_of(table: type[Table]) -> tuple[str, ...]:
    """The kinds of a distance or similarity that a table describes; () for any other table."""
    return get_args(table.model_fields["kind"].annotation) if "kind" in table.model_fields else ()


TAUGHT: tuple[type[Table], ...] = (Matrix, OfLabels, OfTargets, OfEmbedding, Graph, Observed)
"""The kinds of ground truth that are there already, of which a scoring job may name one."""
DISTANCES: tuple[type[Table], ...] = (*TAUGHT, DistanceFunction)
LISTED: dict[type[Table], str] = {
    **dict.fromkeys((SimilarityMatrix, SimilarityFunction), "matrices and functions"),
    **dict.fromkeys((OfFeatures, Gaussian), "similarities of features"),
}
"""The similarities that a list of several may hold, with what the others of the list then are."""
SIMILARITIES: tuple[type[Table], ...] = (*LISTED, FeatureSubsets)
ADDRESS_KEYS = {kind: list(table.model_fields)[1] for table in (*DISTANCES, *SIMILARITIES) for kind in kinds_of(table)}
"""The key of each kind that holds the address of its numbers, or names its function."""
WEIGHTED: tuple[type[Table], ...] = tuple(
    create_model(
        f"Weighted{table.__name__}",
        __base__=table,
        weight=(Positive, Field(1.0, description="How often a candidate draws this one of several similarities.")),
    )
    for table in LISTED
)


def _with_kind(value: object) -> object:
    return {"kind": "dense", "matrix": value} if isinstance(value, str) else value


def _one_of(tables: Iterable[type[Table]]) -> Any:
    """A table with a kind, or an address, which stands for a dense matrix."""
    return Annotated[Union[tuple(tables)], Field(discriminator="kind"), BeforeValidator(_with_kind)]  # noqa: UP007


def _check_several(parts: list[Any]) -> list[Any]:
    """Refuse similarities that do not go together in a list."""
    bases = [next(table for table in LISTED if part.kind in kinds_of(table)) for part in parts]
    if len({LISTED[base] for base in bases}) > 1:
        raise ValueError("must hold matrices and functions, or similarities of the same features, found both")
    if len({part.features for part in parts if isinstance(part, OfFeatures)}) > 1:
        raise ValueError("must hold similarities of the same features, found several arrays of features")
    functions = [part for part in parts if isinstance(part, SimilarityFunction)]
    ledgers = [part.ledger for part in functions if part.ledger is not None]
    for ledger in {ledger for ledger in ledgers if ledgers.count(ledger) > 1}:
        raise ValueError(f"must name a ledger for each function, found {shown(ledger)} twice")
    if len({part.share for part in functions}) > 1:
        raise ValueError("must have functions of one 'share', found 'all' and 'worker'")
    return parts


def _count_parts(value: list[object]) -> list[object]:
    if not 1 < len(value) <= MAX_KEYS:
        raise ValueError(f"must be a similarity, or a list of 2 to {MAX_KEYS} of them, found {len(value)}")
    return value


if TYPE_CHECKING:
    Taught: TypeAlias = Any
    Distances: TypeAlias = Any
    Similarity: TypeAlias = Any
else:
    Taught, Distances = _one_of(TAUGHT), _one_of(DISTANCES)
    Several = Annotated[
        list[_one_of(WEIGHTED)],
        Field(json_schema_extra={"minItems": 2, "maxItems": MAX_KEYS}),
        AfterValidator(_check_several),
        BeforeValidator(_count_parts),
    ]
    Similarity = Annotated[
        Annotated[_one_of(SIMILARITIES), Tag("one")] | Annotated[Several, Tag("several")],
        Discriminator(lambda value: "several" if isinstance(value, list) else "one"),
    ]


class RowInput(Table):
    """What a job reads."""

    features: Text
    """Address of the features, shape (n, p)."""
    feature_weights: Text | None = None
    """Address of how likely each feature is drawn, shape (p,)."""
    sample_weight: Text | None = None
    """Address of how much each row counts, shape (n,)."""


class DistanceInput(RowInput):
    """What a job reads."""

    cures = {
        kind: f"give distances = {{ kind = {kind!r}, values = ADDRESS }}" for kind in ("labels", "targets", "embedding")
    }
    distances: Distances
    """Distances that are learned: an address, shape (n, n), or a table with a kind."""


class SimilarityInput(Table):
    """What a job reads."""

    model_config = {"json_schema_extra": {"oneOf": [{"required": ["labels"]}, {"required": ["targets"]}]}}
    labels: Text | None = None
    """Address of the labels, shape (n,)."""
    targets: Text | None = None
    """Address of the targets, shape (n,)."""
    sample_weight: Text | None = None
    """Address of how much each row counts, shape (n,)."""
    similarity: Similarity
    """Similarities of the objects: an address, shape (n, n), a table with a kind, or a list of them."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        return _exactly_one(self, "labels", "targets")


class PairInput(Table):
    """What a job reads."""

    model_config = {
        "json_schema_extra": {
            "oneOf": [{"required": ["labels"]}, {"required": ["similar"]}],
            "dependentRequired": {"pairs": ["similar"], "similar": ["pairs"], "pair_weight": ["pairs"]},
        }
    }
    features: Text
    """Address of the features, shape (n, p)."""
    labels: Text | None = None
    """Address of the labels, shape (n,)."""
    similar: Text | None = None
    """Address of whether each pair is similar, shape (m,)."""
    sample_weight: Text | None = None
    """Address of how much each row counts, shape (n,)."""
    pairs: Text | None = None
    """Address of the row numbers of each pair, shape (m, 2)."""
    pair_weight: Text | None = None
    """Address of how much each pair counts, shape (m,)."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if (self.pairs is None) != (self.similar is None):
            only = "similar" if self.pairs is None else "pairs"
            raise ValueError(f"must have 'pairs' and 'similar' together, found only {only!r}")
        return _exactly_one(self, "labels", "similar")


T = TypeVar("T", bound=Table)


def _exactly_one(table: T, *names: str) -> T:
    found = [name for name in names if getattr(table, name) is not None]
    if len(found) != 1:
        raise ValueError(f"must have exactly one of {listed(names)}, found {' and '.join(map(repr, found)) or 'none'}")
    return table


INPUTS: dict[str, type[Table]] = {
    "smerf": DistanceInput,
    "simforest": SimilarityInput,
    "urerf": RowInput,
    "rfd": PairInput,
    "treerank": PairInput,
}
"""``[input]`` of each method that a spec may name."""


# --- [params] and [grid] ----------------------------------------------------------------------------------


class Params(Table):
    """What decides the result, beside the input and the seed."""

    cures = {
        "random_state": "give seed = INTEGER before the tables",
        "n_jobs": "give workers and threads_per_worker in [run]",
        **{name: f"did you mean {ours!r}?" for name, ours in SAID.items()},
    }


def parameter_value(row: Parameter, value: object) -> Value:
    """Return an allowed value of a parameter; "none" is None if that is allowed. Raises ValueError for any other."""
    plain = None if value == NONE and None in row.words else value
    if not row.accepts(plain) or (isinstance(plain, int) and abs(plain) > LARGEST_INTEGER):
        allowed = row.allowed().replace("None", repr(NONE)).replace("True or False", "true or false")
        raise ValueError(f"must be {allowed}")
    return plain  # type: ignore[return-value]


def _parameter_schema(row: Parameter) -> dict[str, Any]:
    choices: list[dict[str, Any]] = []
    if row.integer is not None:
        low, high = row.integer
        choices.append({"type": "integer", "minimum": int(low), "maximum": int(min(high, LARGEST_INTEGER))})
    if row.real is not None:
        low, high = row.real
        lowest = {"exclusiveMinimum": 0} if low == LEAST else {"minimum": low}
        choices.append({"type": "number", **lowest, **({} if math.isinf(high) else {"maximum": high})})
    if words := [NONE if word is None else word for word in row.words]:
        choices.append({"enum": words})
    if row.table:
        choices.append({"type": "object", "additionalProperties": {"type": "number", "exclusiveMinimum": 0}})
    return choices[0] if len(choices) == 1 else {"anyOf": choices}


def _parameter(row: Parameter) -> Any:
    return Annotated[Any, PlainValidator(partial(parameter_value, row)), WithJsonSchema(_parameter_schema(row))]


@cache
def params_of(method: str) -> type[Params]:
    """``[params]`` of a method."""
    fields: dict[str, Any] = {
        row.name: (
            _parameter(row),
            Field(NONE if row.default is None else row.default, validate_default=True, description=f"{row.text}."),
        )
        for row in METHODS[method].parameters
    }
    return create_model(f"{method}-params", __base__=Params, __doc__=Params.__doc__, **fields)


class Grid(Table):
    """Values to try, a list by the name of a parameter; every combination is a cell."""

    model_config = {"json_schema_extra": {"minProperties": 1}}

    @model_validator(mode="after")
    def _check(self) -> Self:
        if not self.model_fields_set:
            raise ValueError("must have a list of values for one parameter or more, such as min_samples_split = [2, 4]")
        return self


def _diagonal(value: object) -> object:
    return None if value == NONE else value


Diagonal = Annotated[
    NotNegative | None,
    BeforeValidator(_diagonal),
    WithJsonSchema({"anyOf": [{"type": "number", "minimum": 0}, {"enum": [NONE]}]}),
]
"""A distance of a node to itself; None leaves it to the graph."""


def _grid_of(method: str) -> type[Grid]:
    lists: dict[str, Any] = {
        DIAGONAL: (
            Annotated[list[Diagonal], Field(min_length=1)],
            Field([], description=Graph.model_fields[DIAGONAL].description),
        )
    }
    for row in METHODS[method].parameters:
        values: Any = list[_parameter(row)]  # type: ignore[misc]
        lists[row.name] = Annotated[values, Field(min_length=1)], Field([], description=f"{row.text}.")
    return create_model(f"{method}-grid", __base__=Grid, __doc__=Grid.__doc__, **lists)


# --- [run] ------------------------------------------------------------------------------------------------


class Run(Table):
    """How the job runs; nothing here changes the result. None: not given, the plan decides."""

    workers: Count | None = None
    """Processes of the embedded cluster."""
    threads_per_worker: Count = 1
    """Threads of each process."""
    memory_limit: Size | None = None
    """Memory of each process in bytes, or with a unit such as '4GiB'."""
    scheduler: Text | None = None
    """Address of a Dask scheduler such as 'tcp://127.0.0.1:8786', to use instead of the embedded cluster."""
    batch: Count | None = None
    """Trees in one task."""
    parts: Literal["auto"] | Count | None = None
    """Number of parts in which the rows of features lie, each on one worker; 'auto': one for each worker."""
    scratch: Text | None = None
    """Folder in which inputs are staged, on each host."""
    scratch_limit: Size | None = None
    """Most bytes of staged files in the scratch folder of a host, such as '200GiB'; the oldest go."""
    retries: Natural = 3
    """How often a task is retried after a system error."""
    overwrite: bool = False
    """Whether another output of the same kind may be replaced."""
    keep_shards: bool = False
    """Whether the shards are kept when the forest is sealed."""
    grow_on: bool = False
    """Whether a forest of this job with fewer trees, at the output, gets those that it lacks."""
    strict: bool = False
    """Whether inputs with chunks that are not stored are refused."""
    max_bytes: Size | None = None
    """Most bytes that an input may announce, such as '20GiB'."""
    priority: Annotated[int, Field(ge=-1000, le=LARGEST_INTEGER)] = 0
    """Which waiting job a service starts first: one of a higher number."""

    @property
    def scratch_folder(self) -> ScratchFolder:
        """The folder for staged arrays, with its limit."""
        return ScratchFolder(self.scratch, self.scratch_limit)


# --- whole specs ------------------------------------------------------------------------------------------


class Fit(Table):
    """A fit."""

    cures = dict.fromkeys(("grid", "scoring"), 'it goes with job = "tune"')
    format: Format
    """Version of the grammar."""
    method: str
    """Method by which the forest is trained."""
    seed: Natural = 0
    """Seed of all random numbers."""
    output: Output
    """Address (path or URL) of the new Zarr group, which ends in .zarr."""
    input: Any
    params: Any
    run: Run = Run()
    job: Literal["fit"] = "fit"
    """What the job does: train a forest, choose its parameters from a grid, or score with a sealed one."""


TUNED = tuple(method.name for method in METHODS.values() if TruthKind.DISTANCES in method.truth_kinds)
"""Methods whose parameters may be tuned: out of bag they know distances of pairs."""


@cache
def fit_table(method: object) -> type[Fit]:
    """The spec of a fit by a method; of an unknown one it has the keys that any method has."""
    if method in INPUTS:
        fields: dict[str, Any] = {
            "method": (Literal[method], Field(description=Fit.model_fields["method"].description)),
            "input": (INPUTS[str(method)], ...),
            "params": (params_of(str(method)), Field(default_factory=params_of(str(method)))),
        }
        return create_model(str(method), __base__=Fit, __doc__=f"A fit by {method}.", **fields)
    inputs: dict[str, Any] = {name: (Any, None) for table in INPUTS.values() for name in table.model_fields}
    params: dict[str, Any] = {name: (Any, None) for known in INPUTS for name in params_of(known).model_fields}
    any_params = create_model("Params", __base__=Params, **params)
    fields = {"method": (Literal[tuple(INPUTS)], ...), "params": (any_params, any_params())}
    return create_model("Fit", __base__=Fit, input=(create_model("Input", __base__=Table, **inputs), ...), **fields)


@cache
def tune_table(method: object) -> type[Fit]:
    """The spec of a tuning job by a method: that of a fit with a grid."""
    base, job = fit_table(method), Fit.model_fields["job"].description
    scoring = "By which out-of-bag score of pairs the best cell is chosen."
    fields: dict[str, Any] = {
        "job": (Literal["tune"], Field(description=job)),
        "scoring": (Literal[tuple(SCORINGS)], Field(SCORINGS[0], description=scoring)),
        "grid": (_grid_of(str(method) if method in TUNED else TUNED[0]), ...),
    }
    if method not in TUNED:
        fields["method"] = Literal[TUNED], ...
    return create_model(f"tune-{method}", __base__=base, __doc__=f"A choice of parameters of {method}.", **fields)


# --- reading ----------------------------------------------------------------------------------------------


def plain(value: object, depth: int = 6) -> object:
    """Convert mappings, tuples and numbers, such as those of NumPy, to Python's own, as deep as a spec goes."""
    if isinstance(value, (bool, str)) or value is None or not depth:
        return value
    if isinstance(value, Mapping):
        return {name: plain(inner, depth - 1) for name, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(inner, depth - 1) for inner in value]
    if isinstance(value, Integral):
        return int(value)
    return float(value) if isinstance(value, Real) else value


def read(model: Any, table: object, lines: Mapping[Place, int], place: Place = ()) -> Any:
    """Return the model that a table describes.

    Raises
    ------
    SpecError
        The table has faults; the error lists all of them, each with the line of its key.
    """
    try:
        return TypeAdapter(model).validate_python(plain(table))
    except ValidationError as error:
        found = error.errors(include_url=False, include_context=False)
    faults: dict[Place, list[str]] = {}
    for one in found:
        at, what = _fault(model, one)
        told = faults.setdefault((*place, *at), [])
        told += [what] if what not in told else []
    raise refusal([(at, " or ".join(told)) for at, told in faults.items()], lines)


def _tables_in(annotation: Any) -> list[type[Table]]:
    """The tables that the type of a key allows."""
    if isinstance(annotation, type) and issubclass(annotation, Table):
        return [annotation]
    return [table for inner in get_args(annotation) for table in _tables_in(inner)]


def _fault(model: Any, error: Any) -> tuple[Place, str]:
    """The place of an error of pydantic, which also counts the kinds of tables there, and what it says."""
    place, tables, text, is_listed = [], _tables_in(model), None, False
    *way, last = error["loc"] or (None,)
    unknown = error["type"] in ("extra_forbidden", "invalid_key")
    for part in (*way, *(() if unknown or last is None else (last,))):
        fields = [table.model_fields[part] for table in tables if part in table.model_fields]
        if fields:
            place.append(part)
            tables, text = [one for field in fields for one in _tables_in(field.annotation)], fields[0].description
        elif isinstance(part, int) and tables:
            place.append(str(part))
            is_listed = True
        elif chosen := [table for table in tables if part in kinds_of(table)]:
            tables = chosen[-1:] if is_listed else chosen[:1]
    keys = list(dict.fromkeys(name for table in tables for name in table.model_fields))
    kinds = list(dict.fromkeys(kind for table in tables for kind in kinds_of(table)))
    wanted = f"an address, or a table with a kind of {listed(kinds)}" if kinds else f"a table of {listed(keys)}"
    told, meaning = (
        error["msg"].removeprefix("Value error, "),
        f"; {text[0].lower()}{text[1:].rstrip('.')}" if text else "",
    )
    if unknown:
        return (*place, last), _unknown(model, tuple(place), last, keys, tables)
    if error["type"] == "missing":
        return tuple(place), f"is missing; it must be {wanted}" if tables else f"is missing{meaning}"
    if error["type"] == "union_tag_not_found":
        return (*place, "kind"), f"is missing; it must be one of {listed(kinds)}"
    if error["type"] == "union_tag_invalid":
        return (*place, "kind"), f"must be one of {listed(kinds)}, found {shown(error['input']['kind'])}"
    if error["type"] in ("model_type", "model_attributes_type"):
        return tuple(place), f"must be {wanted}, found {shown(error['input'])}"
    if error["type"] == "value_error" and tables:
        return tuple(place), told
    return tuple(place), f"{told.replace('Input should', 'must', 1)}, found {shown(error['input'])}{meaning}"


def _unknown(model: Any, place: Place, name: object, keys: list[str], tables: list[type[Table]]) -> str:
    """What to write for a key that is none of a table: the cure, the table where it belongs, or one like it."""
    cures = {name: cure for table in tables for name, cure in table.cures.items()}
    top = getattr(model, "model_fields", {})
    homes = {inner: f"it belongs in [{key}]" for key, field in top.items() for table in _tables_in(field.annotation)
             for inner in table.model_fields}  # fmt: skip
    if len(place) < 2:
        cures = {**homes, **dict.fromkeys(top, "it stands before the tables"), **cures}
    near = difflib.get_close_matches(name, keys, n=1) if isinstance(name, str) else []
    hint = f"did you mean {near[0]!r}?" if near else f"known here are {listed(keys)}"
    return f"unknown key {shown(name)}; {cures.get(name, hint) if isinstance(name, str) else hint}"
