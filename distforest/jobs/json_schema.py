"""The spec of a job as JSON Schema, for editors that complete and check TOML.

The models that read a spec, `distforest.jobs.spec_models`, generate it. The parser checks what a schema cannot express:
keys that contradict each other, and whole numbers with a decimal point, which JSON Schema accepts as integers.
"""

from __future__ import annotations

from typing import Any

from pydantic.json_schema import models_json_schema

from distforest.jobs.any_spec import JOBS
from distforest.jobs.score_spec import Scoring
from distforest.jobs.spec_models import INPUTS, TUNED, Fit, fit_table, tune_table

JSONSchema = dict[str, Any]

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def job_schema() -> JSONSchema:
    """Return the schema of a job's spec, for TOML: draft 2020-12, without null.

    ``allOf`` validates a spec by its method or as a scoring job, so that faults are reported at their keys. ``anyOf``
    validates nothing: it lists the keys of all methods for editors that do not evaluate ``if``. A relation does the
    same for its kinds.

    Examples
    --------
    >>> schema = job_schema()
    >>> schema["$defs"]["smerf-params"]["properties"]["max_depth"]["anyOf"]
    [{'maximum': 9223372036854775807, 'minimum': 1, 'type': 'integer'}, {'enum': ['none']}]
    """
    jobs: dict[tuple[str, str | None], Any] = {("fit", method): fit_table(method) for method in INPUTS}
    jobs |= {("tune", method): tune_table(method) for method in TUNED}
    jobs[("score", None)] = Scoring
    refs, tables = models_json_schema([(table, "validation") for table in jobs.values()])
    own = {job: refs[table, "validation"] for job, table in jobs.items()}
    texts = {name: field.description for name, field in Fit.model_fields.items()}
    top = {
        "format": {"const": 1, "description": texts["format"]},
        "job": {"enum": list(JOBS), "default": "fit", "description": texts["job"]},
        "method": {"enum": list(INPUTS), "description": texts["method"]},
    }
    of_jobs = [{"if": _is(job, method), "then": ref} for (job, method), ref in own.items()]
    tunings = {"if": _is("tune"), "then": {"properties": {"method": {"enum": list(TUNED)}}}}
    return {
        "$schema": DIALECT,
        "title": "distforest job",
        "description": "A job of distforest: a fit, or scoring with a sealed forest.",
        "type": "object",
        "properties": top,
        "required": ["format", "output", "input"],
        "allOf": [*of_jobs, tunings, {"if": _is("score"), "else": {"required": ["method"]}}],
        "anyOf": [*own.values(), True],
        "$defs": {name: for_toml(table) for name, table in tables["$defs"].items()},
    }


def _is(job: str, method: str | None = None) -> JSONSchema:
    """Return the condition for a job of this kind and method; a job without the key is a fit."""
    properties = {"job": {"const": job}, **({"method": {"const": method}} if method else {})}
    return {"properties": properties, "required": [name for name in properties if (name, job) != ("job", "fit")]}


def for_toml(schema: Any) -> Any:
    """Return a schema of pydantic without null and titles, which reports faults at the keys of their kind."""
    if isinstance(schema, list):
        return [for_toml(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    schema = {
        name: {key: for_toml(one) for key, one in inner.items()} if name == "properties" else for_toml(inner)
        for name, inner in schema.items()
        if name != "title" and (name, inner) != ("default", None)
    }
    choices = [one for one in schema.get("anyOf", ()) if one != {"type": "null"}]
    if "discriminator" in schema:
        kinds = schema.pop("discriminator")["mapping"]
        del schema["oneOf"]
        known = {"required": ["kind"], "properties": {"kind": {"enum": list(kinds)}}}
        tables = [{"if": _of_kind(kind), "then": {"$ref": ref}} for kind, ref in kinds.items()]
        address = {"if": {"type": "string"}, "then": {"pattern": r"\S"}, "else": known}
        schema |= {"type": ["string", "object"], "allOf": [address, *tables]}
        schema["anyOf"] = [*({"$ref": ref} for ref in dict.fromkeys(kinds.values())), True]
    elif "oneOf" in schema and all("type" in one for one in schema["oneOf"]):  # one similarity, or a list of several
        one, several = schema.pop("oneOf")
        schema |= {"if": {"type": "array"}, "then": several, "else": one}
    elif len(choices) == 1:
        del schema["anyOf"]
        schema = {**choices[0], **schema}
    return schema


def _of_kind(kind: str) -> JSONSchema:
    return {"type": "object", "properties": {"kind": {"const": kind}}, "required": ["kind"]}
