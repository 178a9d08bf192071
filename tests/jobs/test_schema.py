"""The JSON Schema of a spec takes what the parser takes, and refuses the names and types that the parser refuses."""

from __future__ import annotations

import copy
import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from jsonschema import Draft202012Validator

from distforest.errors import SpecError
from distforest.growth.methods import METHODS
from distforest.jobs.any_spec import spec_from_dict
from distforest.jobs.json_schema import job_schema
from distforest.jobs.score_spec import ScoreInput, ScoreParams, Scoring
from distforest.jobs.spec_models import (
    ADDRESS_KEYS,
    INPUTS,
    OF_DISTANCES_KINDS,
    SIMILARITY_KINDS,
    Run,
    fit_table,
    kinds_of,
)
from tests.jobs.test_spec_properties import valid_tables

SCHEMA = job_schema()
JUDGE = Draft202012Validator(SCHEMA)
ROOT = Path(__file__).parents[2]
SPECS = {
    f"{path.relative_to(ROOT)}:{number}": block
    for path in sorted([*ROOT.glob("docs/**/*.md"), *ROOT.glob("*.md"), *ROOT.glob("deploy/**/*.md")])
    for number, block in enumerate(re.findall(r"```toml\n(.*?)```", path.read_text(), re.DOTALL))
    if "format = 1" in block
}
SPECS |= {str(path.relative_to(ROOT)): path.read_text() for path in sorted(ROOT.glob("deploy/**/*.toml"))}

VALUES = (
    True,
    0,
    -1,
    1,
    7,
    0.5,
    -0.5,
    2.5,
    1e300,
    2**63,
    "",
    " ",
    "none",
    "given",
    "wine.zarr",
    "x",
    [],
    ["x"],
    [2, 0.5],
    ["none"],
    {},
    {"a": 1},
)
"""Values of every type of TOML; no whole number with a decimal point, see `same_in_json`."""


def parsed(table: dict[str, Any]) -> str:
    """What the parser finds wrong with a spec; nothing if it is right."""
    try:
        spec_from_dict(copy.deepcopy(table))
    except SpecError as error:
        return str(error)
    return ""


def smallest(method: str) -> dict[str, Any]:
    """A fit with the keys that must be given."""
    keys = {name: field.is_required() for name, field in INPUTS[method].model_fields.items()}
    given = {name: f"in/{name}" for name, required in keys.items() if required or name == "labels"}
    return {"format": 1, "method": method, "output": "out.zarr", "input": given, "params": {}, "run": {}}


def jobs() -> dict[str, dict[str, Any]]:
    """A job of each kind, one for each kind of relation, and one with given pairs."""
    found = {method: smallest(method) for method in INPUTS}
    for method, name, tables in (
        ("smerf", "distances", OF_DISTANCES_KINDS),
        ("simforest", "similarity", SIMILARITY_KINDS),
    ):
        for kind in (kind for table in tables for kind in kinds_of(table)):
            job = smallest(method)
            job["input"][name] = {"kind": kind, ADDRESS_KEYS[kind]: "in/values"}
            found[f"{method} {kind}"] = job
    given = smallest("rfd")
    given["input"] = {"features": "in/X", "pairs": "in/pairs", "similar": "in/similar"}
    asked = {"forest": "in/forest.zarr", "queries": "in/X"}
    score = {"format": 1, "job": "score", "output": "out.zarr", "input": asked, "params": {}, "run": {}}
    tuning = smallest("smerf") | {"job": "tune", "grid": {"max_depth": ["none", 3], "max_features": ["sqrt"]}}
    return {**found, "rfd pairs": given, "score": score, "tune": tuning}


def places(job: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    """Where a key of any table of a job may be, known or not."""
    if job.get("job") == "score":
        heads, inputs, params = Scoring.model_fields, ScoreInput.model_fields, ScoreParams.model_fields
    else:
        fit = fit_table(job["method"])
        heads, inputs = fit.model_fields, INPUTS[job["method"]].model_fields
        params = {row.name: row for row in METHODS[job["method"]].parameters}
    yield from ((name,) for name in (*heads, "unknown"))
    yield from (("input", name) for name in (*inputs, "unknown"))
    yield from (("params", name) for name in (*params, "unknown"))
    yield from (("run", name) for name in (*Run.model_fields, "unknown"))
    if job.get("job") == "tune":
        yield from ((name,) for name in ("scoring", "grid"))
        yield from (("grid", name) for name in (*params, "unknown"))
    for name, held in job["input"].items():
        if isinstance(held, dict):
            keys = {key for table in (*OF_DISTANCES_KINDS, *SIMILARITY_KINDS) for key in table.model_fields}
            yield from (("input", name, key) for key in sorted({*keys, "unknown"}))


def changed(job: dict[str, Any], place: tuple[str, ...], value: object) -> dict[str, Any]:
    """A job with another value in one place."""
    table = own = copy.deepcopy(job)
    for name in place[:-1]:
        own = own[name]
    own[place[-1]] = value
    return table


def same_in_json(value: object) -> list[object]:
    """A value, and what JSON Schema cannot tell from it: 1 and 1.0 are one number there."""
    return [value, float(value)] if isinstance(value, int) and not isinstance(value, bool) else [value]


CONTRADICTION = re.compile(
    r"params.feature_weights|input.pairs|input.pair_weight: .*'similar'|(n_neighbors|without_self): .*'neighbors'|"
    r"share: .*'probability'|"
    r"input.(training|ledger): .*similarity|input.distances: .*params.sides|run.(parts|grow_on): .*a fit"
)
"""What the parser says of keys that contradict each other, which is not the business of a schema."""


def test_it_is_a_schema() -> None:
    Draft202012Validator.check_schema(SCHEMA)
    assert json.loads(json.dumps(SCHEMA, allow_nan=False)) == SCHEMA


@pytest.mark.parametrize("name", SPECS)
def test_the_examples_of_the_docs_are_right(name: str) -> None:
    table = tomllib.loads(SPECS[name])
    assert not parsed(table)
    assert not [error.message for error in JUDGE.iter_errors(table)]


def test_there_are_examples() -> None:
    assert len(SPECS) >= 8
    assert any(name.startswith("deploy") for name in SPECS)


@pytest.mark.slow
@pytest.mark.parametrize("kind", jobs())
def test_a_changed_value_is_judged_as_by_the_parser(kind: str) -> None:
    job = jobs()[kind]
    assert not parsed(job)
    assert JUDGE.is_valid(job)
    for place in places(job):
        for value in VALUES:
            found = [parsed(changed(job, place, same)) for same in same_in_json(value)]
            if CONTRADICTION.search(found[0]):
                continue
            assert JUDGE.is_valid(changed(job, place, value)) == (not all(found)), (place, value, found)


@pytest.mark.parametrize("kind", jobs())
def test_a_key_that_is_left_out_is_missed_as_by_the_parser(kind: str) -> None:
    job = jobs()[kind]
    places_given = [(name,) for name in job] + [("input", name) for name in job["input"]]
    for place in places_given:
        table = copy.deepcopy(job)
        own = table if len(place) == 1 else table[place[0]]
        del own[place[-1]]
        assert JUDGE.is_valid(table) == (not parsed(table)), place


@pytest.mark.slow
@settings(deadline=None)
@given(valid_tables(nulls=False))
def test_every_valid_spec_is_taken(table: dict[str, Any]) -> None:
    assert not [error.message for error in JUDGE.iter_errors(table)]


def test_a_fault_is_reported_at_its_key() -> None:
    job = smallest("smerf")
    job["params"], job["run"] = {"max_depth": "deep"}, {"workers": "two"}
    job["input"]["distances"] = {"kind": "network", "adjacency": "in/A"}
    found = {".".join(map(str, error.absolute_path)) for error in JUDGE.iter_errors(job)}
    assert found == {"params.max_depth", "run.workers", "input.distances.kind"}


def test_every_key_has_a_sentence() -> None:
    for name, table in SCHEMA["$defs"].items():
        for key, own in table["properties"].items():
            if key == "kind":
                continue
            text = own.get("description") or SCHEMA["$defs"][own["$ref"].rpartition("/")[2]]["description"]
            assert text.endswith("."), (name, key)


def test_a_default_is_allowed() -> None:
    for method in INPUTS:
        for name, own in SCHEMA["$defs"][f"{method}-params"]["properties"].items():
            assert Draft202012Validator(own).is_valid(own["default"]), (method, name)
