"""The spec of a job as JSON Schema, for editors that complete and check TOML.

It is made from the rows that the parser reads by: `distforest.jobs.input_keys`, `distforest.growth.parameters`, `Run`
and the keys of `distforest.jobs.score_spec`. What no schema states is left to the parser: keys that contradict each
other, and whole numbers with a decimal point, which JSON Schema takes for integers.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from distforest.evaluation.grids import DIAGONAL
from distforest.growth.methods import METHODS
from distforest.growth.parameters import LEAST
from distforest.jobs.any_spec import JOBS
from distforest.jobs.input_keys import ADDRESS, INPUTS, LISTED, TAUGHT_KINDS, WEIGHT
from distforest.jobs.reader import LARGEST_INTEGER, MAX_KEYS, NOT_GIVEN, NOT_NEGATIVE
from distforest.jobs.score_spec import INPUT, PARAMS, SCORE_HEAD, TAUGHT_KEY
from distforest.jobs.spec import FIT_HEAD, NONE, RUN_KEYS
from distforest.jobs.tune_spec import TUNE_KEYS, TUNED

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from distforest.growth.parameters import Parameter
    from distforest.jobs.input_keys import InputKeys, Kind
    from distforest.jobs.reader import Key

JSONSchema = dict[str, Any]

DIALECT = "https://json-schema.org/draft/2020-12/schema"

KEY_TEXTS = {
    "": {
        "format": "Version of the grammar.",
        "job": "What the job does: train a forest, choose its parameters from a grid, or score with a sealed one.",
        "method": "Method by which the forest is trained.",
        "seed": "Seed of all random numbers.",
        "output": "Address of the new Zarr group.",
        "input": "What the job reads.",
        "params": "What decides the result, beside the input and the seed.",
        "run": "How the job runs; nothing here changes the result.",
        "scoring": "By which out-of-bag score of pairs the best cell is chosen.",
        "grid": "Values to try, a list by the name of a parameter; every combination is a cell.",
    },
    "input": {
        "features": "Address of the features, shape (n, p).",
        "distances": "Distances that are learned: an address, shape (n, n), or a table with a kind.",
        "similarity": "Similarities of the objects: an address, shape (n, n), a table with a kind, or a list of them.",
        "labels": "Address of the labels, shape (n,).",
        "targets": "Address of the targets, shape (n,).",
        "similar": "Address of whether each pair is similar, shape (m,).",
        "pairs": "Address of the row numbers of each pair, shape (m, 2).",
        "feature_weights": "Address of how likely each feature is drawn, shape (p,).",
        "sample_weight": "Address of how much each row counts, shape (n,).",
        "pair_weight": "Address of how much each pair counts, shape (m,).",
    },
    "relation": {
        "kind": "Where the numbers come from.",
        "matrix": "Address of the matrix, shape (n, n).",
        "values": "Address of the values, a row for each object.",
        "costs": "Address of the distances of classes, shape (n_classes, n_classes); 1 for any two unless given.",
        "metric": "Distance of two targets, half of the squared difference or the absolute one; or of two vectors, the "
        "square of the Euclidean one, or 1 less the cosine of their angle.",
        "adjacency": "Address of the adjacency matrix, shape (n, n), entries from 0 to `absent`; it may be sparse.",
        "absent": "Distance of two nodes without a link.",
        "diagonal": "Distance of a node to itself; as the matrix has it unless given.",
        "directed": "How links in one direction count: their mean, either of the two, or both.",
        "features": "Address of the features, shape (n, p).",
        "function": "The function, 'module:function' or the name of an entry point.",
        "gamma": "Width of the kernel; 1 / (p Var X) unless given.",
        "weight": "How often a candidate draws this one of several similarities.",
        "measure": "Whether the numbers are similarities or distances.",
        "objects": "Address of the objects, a row for each; the row numbers unless given.",
        "symmetric": "Whether (a, b) and (b, a) are one pair.",
        "batch_size": "Most pairs in a call.",
        "concurrency": "Most concurrent calls in a worker's thread.",
        "retries": "How often a pair that failed is evaluated again.",
        "timeout": "Seconds that a call may take.",
        "budget": "Most pairs that the fit may pay for.",
        "ledger": "Local file that records every value.",
        "share": "Who evaluates: all workers together, or each worker for itself.",
    },
    "run": {
        "workers": "Processes of the embedded cluster.",
        "threads_per_worker": "Threads of each process.",
        "memory_limit": "Memory of each process, such as '4GiB'.",
        "scheduler": "Address of a Dask scheduler to use instead of the embedded cluster.",
        "batch": "Trees in one task.",
        "parts": "Number of parts in which the rows of features lie, each on one worker; 'auto': one for each worker.",
        "scratch": "Folder in which inputs are staged, on each host.",
        "scratch_limit": "Most bytes of staged files in the scratch folder of a host, such as '200GiB'; the oldest go.",
        "retries": "How often a task is retried after a system error.",
        "overwrite": "Whether another output of the same kind may be replaced.",
        "priority": "Which waiting job a service starts first: one of a higher number.",
        "keep_shards": "Whether the shards are kept when the forest is sealed.",
        "grow_on": "Whether a forest of this job with fewer trees, at the output, gets those that it lacks.",
        "strict": "Whether inputs with chunks that are not stored are refused.",
        "max_bytes": "Most bytes that an input may announce.",
    },
    "score input": {
        "forest": "Address of the sealed forest.",
        "queries": "Address of the rows to score.",
        "reference": "Address of the rows to which distances are computed; the training rows unless given.",
        "pairs": "Address of the row numbers of each pair, shape (m, 2), for the answer 'pairs'.",
        "similarity": "Function to call if the forest reads similarities, 'module:function' or an entry point.",
        "training": "With a similarity, address of the training objects; 0, 1, 2, ... unless given.",
        "ledger": "With a similarity, local file that records every value.",
        "distances": "With `sides`, what the training rows were taught, as in the spec of the fit.",
    },
    "score params": {
        "answer": "What to ask the forest.",
        "n_neighbors": "Number of neighbours, for the answers 'neighbors' and 'graph'.",
        "without_self": "Whether the queries are the training rows and none is its own neighbour.",
        "sides": "With `distances`, which distance to a training row: of the leaves of both, of the new row's leaf to "
        "the training row, or the one that is better out of bag.",
    },
}
"""A sentence for each key that an editor shows, by table; a parameter brings its own."""


def job_schema() -> JSONSchema:
    """The schema of a job's spec, as TOML has it: draft 2020-12, without null.

    ``allOf`` judges a spec by its method or as a scoring job, so that faults are reported at their keys. ``anyOf``
    judges nothing: editors that do not evaluate ``if`` find the keys of all methods there. A relation does the same
    for its kinds.

    Examples
    --------
    >>> schema = job_schema()
    >>> sorted(schema["$defs"])
    ['rfd', 'run', 'score', 'simforest', 'smerf', 'treerank', 'tune-smerf', 'urerf']
    >>> schema["$defs"]["smerf"]["properties"]["params"]["properties"]["max_depth"]["anyOf"]
    [{'type': 'integer', 'minimum': 1, 'maximum': 9223372036854775807}, {'enum': ['none']}]
    """
    fits = {name: _fit(name) for name in INPUTS}
    tunings = {f"tune-{name}": _tuning(name, fits[name]) for name in TUNED}
    jobs = {**fits, **tunings, "score": _scoring()}
    texts = KEY_TEXTS[""]
    top = {
        "format": _described(FIT_HEAD[0].rule.schema, texts["format"]),
        "job": {"enum": list(JOBS), "default": "fit", "description": texts["job"]},
        "method": {"enum": list(INPUTS), "description": texts["method"]},
    }
    return {
        "$schema": DIALECT,
        "title": "distforest job",
        "description": "A job of distforest: a fit, or scoring with a sealed forest.",
        "type": "object",
        "properties": top,
        "required": ["format", "output", "input"],
        "allOf": [
            {"if": _is_scoring(), "then": _ref("score"), "else": {"required": ["method"]}},
            *({"if": _is("fit", name), "then": _ref(name)} for name in INPUTS),
            {"if": _is("tune"), "then": {"properties": {"method": {"enum": list(TUNED)}}}},
            *({"if": _is("tune", name), "then": _ref(f"tune-{name}")} for name in TUNED),
        ],
        "anyOf": [*map(_ref, jobs), True],
        "$defs": {**jobs, "run": _closed(_keys(RUN_KEYS, "run"), texts["run"])},
    }


def _ref(name: str) -> JSONSchema:
    return {"$ref": f"#/$defs/{name}"}


def _is_scoring() -> JSONSchema:
    return {"properties": {"job": {"const": "score"}}, "required": ["job"]}


def _is(job: str, method: str | None = None) -> JSONSchema:
    """A job of this kind, by this method; without the key it is a fit."""
    of_method = {"method": {"const": method}} if method else {}
    required = ["method"] if method else []
    return {"properties": {"job": {"const": job}, **of_method}, "required": required + ["job"] * (job != "fit")}


# --- tables -----------------------------------------------------------------------------------------------


def _closed(properties: JSONSchema, text: str, **more: object) -> JSONSchema:
    """A table of these keys and no others."""
    return {"type": "object", "description": text, "properties": properties, "additionalProperties": False, **more}


def _described(rule: Mapping[str, object], text: str) -> JSONSchema:
    return {**rule, "description": text}


def _keys(keys: Iterable[Key], table: str) -> JSONSchema:
    """Keys by their rules, with their defaults."""
    found = {}
    for key in keys:
        default = {} if key.default in (None, NOT_GIVEN) else {"default": key.default}
        found[key.name] = {**key.rule.schema, **default, "description": KEY_TEXTS[table][key.name]}
    return found


def _required(keys: Iterable[Key]) -> list[str]:
    return [key.name for key in keys if key.default is NOT_GIVEN]


def _fit(name: str) -> JSONSchema:
    """A fit by one method."""
    texts = KEY_TEXTS[""]
    params = {row.name: _parameter(row) for row in METHODS[name].parameters}
    properties = {
        **_keys(FIT_HEAD, ""),
        "job": {"const": "fit", "description": texts["job"]},
        "method": {"const": name, "description": texts["method"]},
        "input": _input(INPUTS[name]),
        "params": _closed(params, texts["params"]),
        "run": _ref("run"),
    }
    return _closed(properties, f"A fit by {name}.", required=[*_required(FIT_HEAD), "input"])


def _tuning(name: str, fit: JSONSchema) -> JSONSchema:
    """A tuning job by one method: a fit with a grid."""
    texts = KEY_TEXTS[""]
    lists = {
        row.name: {"type": "array", "minItems": 1, "items": _parameter(row), "description": f"{row.text}."}
        for row in METHODS[name].parameters
    }
    diagonal = {"anyOf": [NOT_NEGATIVE.schema, {"const": NONE}, {"type": "null"}]}
    text = KEY_TEXTS["relation"][DIAGONAL]
    lists[DIAGONAL] = {"type": "array", "minItems": 1, "items": diagonal, "description": text}
    own = {
        **_keys(TUNE_KEYS, ""),
        "grid": _closed(lists, texts["grid"], minProperties=1),
    }
    return {
        **fit,
        "description": f"A choice of parameters of {name}.",
        "properties": {**fit["properties"], **own},
        "required": [*fit["required"], "job", "grid"],
    }


def _scoring() -> JSONSchema:
    texts = KEY_TEXTS[""]
    taught = {TAUGHT_KEY: {**_relation(TAUGHT_KEY, TAUGHT_KINDS), "description": KEY_TEXTS["score input"][TAUGHT_KEY]}}
    properties = {
        **_keys(SCORE_HEAD, ""),
        "input": _closed({**_keys(INPUT, "score input"), **taught}, texts["input"], required=_required(INPUT)),
        "params": _closed(_keys(PARAMS, "score params"), texts["params"]),
        "run": _ref("run"),
    }
    return _closed(properties, "Scoring with a sealed forest.", required=[*_required(SCORE_HEAD), "input"])


# --- values -----------------------------------------------------------------------------------------------


def _input(keys: InputKeys) -> JSONSchema:
    """``[input]`` of a method."""
    addresses = [name for group in keys.addresses for name in group]
    properties = {name: _described(ADDRESS.schema, KEY_TEXTS["input"][name]) for name in (*addresses, *keys.optional)}
    properties |= {
        name: (_one_or_several if name == "similarity" else _relation)(name, kinds)
        for name, kinds in keys.relations.items()
    }
    choices = [{"oneOf": [{"required": [name]} for name in group]} for group in keys.addresses if len(group) > 1]
    more: JSONSchema = {"allOf": choices} if choices else {}
    if "pairs" in properties:
        more["dependentRequired"] = {"pairs": ["similar"], "similar": ["pairs"], "pair_weight": ["pairs"]}
    required = [*(group[0] for group in keys.addresses if len(group) == 1), *keys.relations]
    return _closed(properties, KEY_TEXTS[""]["input"], required=required, **more)


def _one_or_several(name: str, kinds: tuple[Kind, ...]) -> JSONSchema:
    """A similarity, or a list of similarities with weights."""
    one = _relation(name, kinds)
    several = tuple(replace(kind, options=(*kind.options, WEIGHT)) for kind in kinds if kind.name in LISTED)
    more = {
        "if": {"type": "array"},
        "then": {"minItems": 2, "maxItems": MAX_KEYS, "items": _relation(name, several)},
        "else": one,
    }
    return {"description": one["description"], "type": [*one["type"], "array"], **more}


def _relation(name: str, kinds: tuple[Kind, ...]) -> JSONSchema:
    """A distance or similarity: an address, or a table with a kind, which is judged by that kind."""
    tables = {kind.name: _kind(kind) for kind in kinds}
    known = {"required": ["kind"], "properties": {"kind": {"enum": list(tables)}}}
    return {
        "description": KEY_TEXTS["input"][name],
        "type": ["string", "object"],
        "allOf": [
            {"if": {"type": "string"}, "then": dict(ADDRESS.schema), "else": known},
            *({"if": _is_of(kind), "then": table} for kind, table in tables.items()),
        ],
        "anyOf": [*tables.values(), True],
    }


def _is_of(kind: str) -> JSONSchema:
    return {"type": "object", "properties": {"kind": {"const": kind}}, "required": ["kind"]}


def _kind(kind: Kind) -> JSONSchema:
    """The table of one kind."""
    texts = KEY_TEXTS["relation"]
    properties = {
        "kind": {"const": kind.name, "description": texts["kind"]},
        kind.address: _described(kind.rule.schema, texts[kind.address]),
        **_keys(kind.options, "relation"),
    }
    return _closed(properties, f"Of kind {kind.name!r}.", required=["kind", kind.address])


def _parameter(row: Parameter) -> JSONSchema:
    """A parameter of a method."""
    choices: list[JSONSchema] = []
    if row.integer is not None:
        low, high = row.integer
        choices.append({"type": "integer", "minimum": int(low), "maximum": int(min(high, LARGEST_INTEGER))})
    if row.real is not None:
        low, high = row.real
        lowest = {"exclusiveMinimum": 0} if low == LEAST else {"minimum": low}
        highest = {} if math.isinf(high) else {"maximum": high}
        choices.append({"type": "number", **lowest, **highest})
    if words := [NONE if word is None else word for word in row.words]:
        choices.append({"enum": words})
    if row.table:
        weight = {"type": "number", "exclusiveMinimum": 0}
        choices.append({"type": "object", "additionalProperties": weight})
    allowed = choices[0] if len(choices) == 1 else {"anyOf": choices}
    return {**allowed, "default": NONE if row.default is None else row.default, "description": f"{row.text}."}
