"""The tables of job specs as pydantic models: every key with its type, what it means and its default.

A spec is read by these models, `distforest schema` writes them as JSON Schema, and the sentence of a key is what an
editor shows and what a refusal of its value ends with. The keys of ``[params]`` are the rows of
`distforest.growth.parameters`.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Mapping
from functools import cache, partial
from numbers import Integral, Real
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, TypeAlias, TypeVar, Union, get_args

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

from distforest.errors import InputError
from distforest.evaluation.grids import DIAGONAL, SCORINGS
from distforest.growth.methods import METHODS
from distforest.growth.parameters import LEAST, Value
from distforest.jobs.reader import LARGEST_INTEGER, MAX_KEYS, Place, bytes_in, listed, refusal, shown
from distforest.sources.comparisons import COMPARATORS, Comparison
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


def _check_size(value: object) -> object:
    """Refuse a crowd of keys: it takes time to suggest the right key for each wrong one."""
    if isinstance(value, dict) and len(value) > MAX_KEYS:
        raise ValueError(f"must have at most {MAX_KEYS} keys, found {len(value)} keys")
    return value


class Table(BaseModel):
    """A table of a spec."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False, defer_build=True)

    @model_validator(mode="before")
    @classmethod
    def _check_size(cls, value: object) -> object:
        return _check_size(value)


def key(text: str, default: Any = ...) -> Any:
    """A key with the sentence that says what it means; without a default it is required."""
    return Field(default, description=text)


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
Share = Annotated[float, Field(gt=0, lt=1)]
NotNegative = Annotated[float, Field(ge=0), AfterValidator(lambda value: value + 0.0)]  # -0.0 is 0.0
WHOLE_NUMBER = {"type": "integer", "minimum": 1, "maximum": LARGEST_INTEGER}
Size = Annotated[
    int, BeforeValidator(bytes_in), WithJsonSchema({"anyOf": [{"type": "string", "pattern": "^[0-9]"}, WHOLE_NUMBER]})
]


def _workers(value: object) -> object:
    if isinstance(value, list) and value and all(isinstance(name, str) for name in value):
        return value
    if type(value) is int and 1 <= value <= LARGEST_INTEGER:
        return value
    raise ValueError("must be an integer from 1, or a list of strings")


Workers = Annotated[
    int | list[str],
    BeforeValidator(_workers),
    WithJsonSchema({"anyOf": [WHOLE_NUMBER, {"type": "array", "items": {"type": "string"}, "minItems": 1}]}),
]


# --- [input] ----------------------------------------------------------------------------------------------


class Matrix(Table):
    """Distances as given."""

    kind: Literal["dense"]
    matrix: Text = key("Address of the matrix, shape (n, n).")


class SimilarityMatrix(Matrix):
    """Similarities as given."""

    measure: Literal["similarity", "distance"] = key("Whether the numbers are similarities or distances.", "similarity")


class OfLabels(Table):
    """Distances of labels."""

    kind: Literal["labels"]
    values: Text = key("Address of the labels, one for each object.")
    costs: Text | None = key(
        "Address of the distances of classes, shape (n_classes, n_classes); 1 for any two unless given.", None
    )


class OfTargets(Table):
    """Distances of targets."""

    kind: Literal["targets"]
    values: Text = key("Address of the targets, one for each object.")
    metric: Literal[TARGET_METRICS] = key(  # type: ignore[valid-type]
        "Distance of two targets: half of the squared difference, or the absolute one.", TARGET_METRICS[0]
    )


class OfEmbedding(Table):
    """Distances of vectors."""

    kind: Literal["embedding"]
    values: Text = key("Address of the vectors, a row for each object.")
    metric: Literal[METRICS] = key(  # type: ignore[valid-type]
        "Distance of two vectors: the square of the Euclidean one, or 1 less the cosine of their angle.", METRICS[0]
    )


class Graph(Table):
    """Distances in a graph."""

    kind: Literal["graph"]
    adjacency: Text = key(
        "Address of the adjacency matrix, shape (n, n), entries from 0 to `absent`; it may be sparse."
    )
    absent: Positive = key("Distance of two nodes without a link.", 1.0)
    diagonal: NotNegative | None = key("Distance of a node to itself; as the matrix has it unless given.", None)
    directed: Literal[DIRECTIONS] | None = key(  # type: ignore[valid-type]
        "How links in one direction count: their mean, either of the two, or both.", None
    )


class Observed(Table):
    """Distances of some pairs."""

    kind: Literal["observed"]
    matrix: Text = key("Address of the matrix, shape (n, n), of which each entry that is stored is a distance.")


class DistanceFunction(Table):
    """Distances that a function computes."""

    kind: Literal["lazy"]
    function: Text = key("The function, 'module:function' or the name of an entry point.")
    objects: Text | None = key("Address of the objects, a row for each; the row numbers unless given.", None)
    batch_size: Count = key("Most pairs in a call.", 1000)
    concurrency: Count = key("Most concurrent calls in a worker's thread.", 1)
    retries: Natural = key("How often a pair that failed is evaluated again.", 2)
    timeout: Positive | None = key("Seconds that a call may take.", None)
    budget: Natural | None = key("Most pairs that the fit may pay for.", None)
    ledger: Text | None = key("Local file that records every value.", None)


class SimilarityFunction(DistanceFunction):
    """Similarities that a function computes."""

    measure: Literal["similarity", "distance"] = key("Whether the numbers are similarities or distances.", "similarity")
    symmetric: bool = key("Whether (a, b) and (b, a) are one pair.", True)
    share: Literal["all", "worker"] = key("Who evaluates: all workers together, or each worker for itself.", "all")


class OfFeatures(Table):
    """A similarity of features."""

    kind: Literal["linear", "cosine", "manhattan"]
    features: Text = key("Address of the features, shape (n, p).")


class Gaussian(OfFeatures):
    """The Gaussian kernel of features."""

    kind: Literal["rbf"]  # type: ignore[assignment]
    gamma: Positive | None = key("Width of the kernel; 1 / (p Var X) unless given.", None)


class FeatureSubsets(OfFeatures):
    """Products of random features."""

    kind: Literal["feature_subsets"]  # type: ignore[assignment]


def kinds_of(table: type[Table]) -> tuple[str, ...]:
    """The kinds of a distance or similarity that a table describes; () for any other table."""
    return get_args(table.model_fields["kind"].annotation) if "kind" in table.model_fields else ()


OF_TRUTH: tuple[type[Table], ...] = (Matrix, OfLabels, OfTargets, OfEmbedding, Graph, Observed)
"""The kinds of ground truth that are there already, of which a scoring job may name one."""
OF_DISTANCES_KINDS: tuple[type[Table], ...] = (*OF_TRUTH, DistanceFunction)
LISTED: dict[type[Table], str] = {
    **dict.fromkeys((SimilarityMatrix, SimilarityFunction), "matrices and functions"),
    **dict.fromkeys((OfFeatures, Gaussian), "similarities of features"),
}
"""The similarities that a list of several may hold, with what the others of the list then are."""
SIMILARITY_KINDS: tuple[type[Table], ...] = (*LISTED, FeatureSubsets)
ADDRESS_KEYS = {
    kind: list(table.model_fields)[1] for table in (*OF_DISTANCES_KINDS, *SIMILARITY_KINDS) for kind in kinds_of(table)
}
"""The key of each kind that holds the address of its numbers, or names its function."""
WEIGHTED: tuple[type[Table], ...] = tuple(
    create_model(
        f"Weighted{table.__name__}",
        __base__=table,
        weight=(Positive, key("How often a candidate draws this one of several similarities.", 1.0)),
    )
    for table in LISTED
)


def _with_kind(value: object) -> object:
    return {"kind": "dense", "matrix": value} if isinstance(value, str) else _check_size(value)


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
    Taught, Distances = _one_of(OF_TRUTH), _one_of(OF_DISTANCES_KINDS)
    Several = Annotated[
        list[_one_of(WEIGHTED)],
        Field(json_schema_extra={"minItems": 2, "maxItems": MAX_KEYS}),
        AfterValidator(_check_several),
        BeforeValidator(_count_parts),
    ]
    Similarity = Annotated[
        Annotated[_one_of(SIMILARITY_KINDS), Tag("one")] | Annotated[Several, Tag("several")],
        Discriminator(lambda value: "several" if isinstance(value, list) else "one"),
    ]


class RowInput(Table):
    """What a job reads."""

    features: Text = key("Address of the features, shape (n, p).")
    feature_weights: Text | None = key("Address of how likely each feature is drawn, shape (p,).", None)
    sample_weight: Text | None = key("Address of how much each row counts, shape (n,).", None)


class DistanceInput(RowInput):
    """What a job reads."""

    distances: Distances = key("Distances that are learned: an address, shape (n, n), or a table with a kind.")


class SimilarityInput(Table):
    """What a job reads."""

    model_config = {"json_schema_extra": {"oneOf": [{"required": ["labels"]}, {"required": ["targets"]}]}}
    labels: Text | None = key("Address of the labels, shape (n,).", None)
    targets: Text | None = key("Address of the targets, shape (n,).", None)
    sample_weight: Text | None = key("Address of how much each row counts, shape (n,).", None)
    similarity: Similarity = key(
        "Similarities of the objects: an address, shape (n, n), a table with a kind, or a list of them."
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        return _exactly_one(self, "labels", "targets")


class ComparisonOfFields(Table):
    """A column of a pair that says how two records agree in some of their fields."""

    comparator: Text = key(f"One of {', '.join(COMPARATORS)}; or a function, 'module:function'.")
    fields: list[Text | Natural] = key("Names or positions of the features that are compared.")
    each: bool = key("Whether a function takes one pair at a time.", False)

    @model_validator(mode="after")
    def _check(self) -> Self:
        try:
            self.comparison()
        except InputError as error:
            raise ValueError(str(error)) from error
        return self

    def comparison(self) -> Comparison:
        """The comparison that the table describes."""
        return Comparison(self.comparator, *self.fields, each=self.each)


class PairInput(Table):
    """What a job reads."""

    model_config = {
        "json_schema_extra": {
            "oneOf": [{"required": ["labels"]}, {"required": ["similar"]}],
            "dependentRequired": {"pairs": ["similar"], "similar": ["pairs"], "pair_weight": ["pairs"]},
        }
    }
    features: Text = key("Address of the features, shape (n, p).")
    labels: Text | None = key("Address of the labels, shape (n,).", None)
    similar: Text | None = key("Address of whether each pair is similar, shape (m,).", None)
    sample_weight: Text | None = key("Address of how much each row counts, shape (n,).", None)
    pairs: Text | None = key("Address of the row numbers of each pair, shape (m, 2).", None)
    pair_weight: Text | None = key("Address of how much each pair counts, shape (m,).", None)
    comparisons: list[ComparisonOfFields] | None = key("Columns of a pair that compare fields of its records.", None)

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


class AskedDecision(Table):
    """What decides whether two points are the same, once the forest is grown."""

    false_positive_rate: Share = key("Share of dissimilar pairs of new identities that may be taken for similar.")
    confidence: Annotated[float, Field(ge=0.5, lt=1)] = key("Probability with which the rate holds.", 0.95)
    identities: Text | None = key(
        "Address of the identity of each point, shape (n,); the labels, or what similar pairs connect, unless given.",
        None,
    )


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
            key(str(Graph.model_fields[DIAGONAL].description), []),
        )
    }
    for row in METHODS[method].parameters:
        values: Any = list[_parameter(row)]  # type: ignore[misc]
        lists[row.name] = Annotated[values, Field(min_length=1)], key(f"{row.text}.", [])
    return create_model(f"{method}-grid", __base__=Grid, __doc__=Grid.__doc__, **lists)


# --- [run] ------------------------------------------------------------------------------------------------


class Run(Table):
    """How the job runs; nothing here changes the result. None: not given, the plan decides."""

    workers: Workers | None = key(
        "Processes of the embedded cluster, or a list of the addresses or names of the workers that grow trees.", None
    )
    threads_per_worker: Count = key("Threads of each process.", 1)
    memory_limit: Size | None = key("Memory of each process in bytes, or with a unit such as '4GiB'.", None)
    scheduler: Text | None = key(
        "Address of a Dask scheduler such as 'tcp://127.0.0.1:8786', to use instead of the embedded cluster.", None
    )
    batch: Count | None = key("Trees in one task.", None)
    parts: Literal["auto"] | Count | None = key(
        "Number of parts in which the rows of features lie, each on one worker; 'auto': one for each worker.", None
    )
    scratch: Text | None = key("Folder in which inputs are staged, on each host.", None)
    scratch_limit: Size | None = key(
        "Most bytes of staged files in the scratch folder of a host, such as '200GiB'; the oldest go.", None
    )
    retries: Natural = key("How often a task is retried after a system error.", 3)
    overwrite: bool = key("Whether another output of the same kind may be replaced.", False)
    keep_shards: bool = key("Whether the shards are kept when the forest is sealed.", False)
    grow_on: bool = key(
        "Whether a forest of this job with fewer trees, at the output, gets those that it lacks.", False
    )
    strict: bool = key("Whether inputs with chunks that are not stored are refused.", False)
    max_bytes: Size | None = key("Most bytes that an input may announce, such as '20GiB'.", None)
    priority: Annotated[int, Field(ge=-1000, le=LARGEST_INTEGER)] = key(
        "Which waiting job a service starts first: one of a higher number.", 0
    )
    resources: dict[Text, Positive] | None = key(
        "What a task that grows trees takes of the resources of its Dask worker, such as {GPU = 1}.", None
    )
    queue: Text | None = key("Queue of a service, which limits how many of its jobs run at once.", None)

    @property
    def placement(self) -> dict[str, Any]:
        """Dask's annotations that say which workers grow trees."""
        workers = {"workers": self.workers} if isinstance(self.workers, list) else {}
        return workers | ({"resources": self.resources} if self.resources else {})

    @property
    def scratch_folder(self) -> ScratchFolder:
        """The folder for staged arrays, with its limit."""
        return ScratchFolder(self.scratch, self.scratch_limit)


# --- whole specs ------------------------------------------------------------------------------------------


class Fit(Table):
    """A fit."""

    format: Format = key("Version of the grammar.")
    method: str = key("Method by which the forest is trained.")
    seed: Natural = key("Seed of all random numbers.", 0)
    output: Output = key("Address (path or URL) of the new Zarr group, which ends in .zarr.")
    input: Any
    params: Any
    run: Run = Run()
    job: Literal["fit"] = key(
        "What the job does: train a forest, choose its parameters from a grid, or score with a sealed one.", "fit"
    )


TUNED = tuple(method.name for method in METHODS.values() if TruthKind.DISTANCES in method.truth_kinds)
"""Methods whose parameters may be tuned: out of bag they know distances of pairs."""


@cache
def fit_table(method: str | None) -> type[Fit]:
    """The spec of a fit by a method; of an unknown one it has the keys that any method has."""
    if method is not None:
        fields: dict[str, Any] = {
            "method": (Literal[method], Field(description=Fit.model_fields["method"].description)),
            "input": (INPUTS[method], ...),
            "params": (params_of(method), Field(default_factory=params_of(method))),
        }
        if INPUTS[method] is PairInput:
            fields["decision"] = AskedDecision | None, None
        return create_model(method, __base__=Fit, __doc__=f"A fit by {method}.", **fields)
    inputs: dict[str, Any] = {name: (Any, None) for table in INPUTS.values() for name in table.model_fields}
    params: dict[str, Any] = {name: (Any, None) for known in INPUTS for name in params_of(known).model_fields}
    any_params = create_model("Params", __base__=Params, **params)
    fields = {"method": (Literal[tuple(INPUTS)], ...), "params": (any_params, any_params())}
    fields["decision"] = AskedDecision | None, None
    return create_model("Fit", __base__=Fit, input=(create_model("Input", __base__=Table, **inputs), ...), **fields)


@cache
def tune_table(method: str | None) -> type[Fit]:
    """The spec of a tuning job by a method: that of a fit with a grid."""
    fields: dict[str, Any] = {
        "job": (Literal["tune"], key(str(Fit.model_fields["job"].description))),
        "scoring": (
            Literal[tuple(SCORINGS)],
            key("By which out-of-bag score of pairs the best cell is chosen.", SCORINGS[0]),
        ),
        "grid": (_grid_of(method if method in TUNED else TUNED[0]), ...),
    }
    if method not in TUNED:
        fields["method"] = Literal[TUNED], ...
    doc = f"A choice of parameters of {method}."
    return create_model(f"tune-{method}", __base__=fit_table(method), __doc__=doc, **fields)


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
        messages = faults.setdefault((*place, *at), [])
        messages += [what] if what not in messages else []
    raise refusal([(at, " or ".join(messages)) for at, messages in faults.items()], lines)


def _tables_in(annotation: Any) -> list[type[Table]]:
    """The tables that the type of a key allows."""
    if isinstance(annotation, type) and issubclass(annotation, Table):
        return [annotation]
    return [table for inner in get_args(annotation) for table in _tables_in(inner)]


def _fault(model: Any, error: Any) -> tuple[Place, str]:
    """The place of an error of pydantic, without the kinds of tables that pydantic counts as places, and its words."""
    place, tables, meaning, which, what = [], _tables_in(model), "", 0, error["type"]
    unknown = error["loc"][-1] if what in ("extra_forbidden", "invalid_key") else None
    for part in error["loc"] if unknown is None else error["loc"][:-1]:
        if fields := [table.model_fields[part] for table in tables if part in table.model_fields]:
            place.append(part)
            tables = [table for field in fields for table in _tables_in(field.annotation)]
            text = fields[0].description or ""
            meaning = f"; {text[:1].lower()}{text[1:].rstrip('.')}" if text else ""
        elif isinstance(part, int) and tables:
            place.append(str(part))
            which = -1  # those of a list come after those that stand alone
        elif chosen := [table for table in tables if part in kinds_of(table)]:
            tables = [chosen[which]]
    keys = list(dict.fromkeys(name for table in tables for name in table.model_fields))
    kinds = list(dict.fromkeys(kind for table in tables for kind in kinds_of(table)))
    wanted = f"an address, or a table with a kind of {listed(kinds)}" if kinds else f"a table of {listed(keys)}"
    message, found = error["msg"].removeprefix("Value error, "), f", found {shown(error['input'])}"
    match what:
        case "extra_forbidden" | "invalid_key":
            near = difflib.get_close_matches(str(unknown), keys, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"known here are {listed(keys)}"
            return (*place, unknown), f"unknown key {shown(unknown)}; {hint}"
        case "missing":
            return tuple(place), f"is missing; it must be {wanted}" if tables else f"is missing{meaning}"
        case "union_tag_not_found":
            return (*place, "kind"), f"is missing; it must be one of {listed(kinds)}"
        case "union_tag_invalid":
            return (*place, "kind"), f"must be one of {listed(kinds)}, found {shown(error['input']['kind'])}"
        case "model_type" | "model_attributes_type":
            return tuple(place), f"must be {wanted}{found}"
        case "value_error" if tables:
            return tuple(place), message
    return tuple(place), f"{message.replace('Input should', 'must', 1)}{found}{meaning}"
