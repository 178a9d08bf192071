"""The spec of a job of any kind (fit, tune or score): reading it, and the addresses and functions that it names."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from distforest.errors import InputError
from distforest.jobs.reader import Place, read_json, read_toml, refusal, shown
from distforest.jobs.score_spec import ScoreSpec
from distforest.jobs.spec import NO_ADDRESSES, Spec, addresses_in
from distforest.jobs.tune_spec import TuneSpec

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


AnySpec = Spec | ScoreSpec
"""The spec of a job; `TuneSpec` is a `Spec`."""

JOBS = ("fit", "tune", "score")
"""Values of the key ``job``."""

S = TypeVar("S", bound=AnySpec)


def spec_from_dict(table: object, lines: Mapping[Place, int] | None = None) -> AnySpec:
    """Read the spec of a job, which is a fit unless its key ``job`` names another kind.

    Raises
    ------
    SpecError
        The spec has faults; the error lists all of them.
    """
    if not isinstance(table, Mapping):
        return Spec.from_dict(table, lines)
    job = table.get("job", "fit")
    if job == "score":
        return ScoreSpec.from_dict(table, lines)
    if job == "tune":
        return TuneSpec.from_dict(table, lines)
    if job != "fit":
        raise refusal([(("job",), f"must be {' or '.join(map(repr, JOBS))}, found {shown(job)}")], lines or {})
    return Spec.from_dict(table, lines)


def kind_of_job(spec: AnySpec) -> str:
    """Return the kind of a job, one of `JOBS`."""
    if isinstance(spec, ScoreSpec):
        return "score"
    return "tune" if isinstance(spec, TuneSpec) else "fit"


def n_trees_of(spec: AnySpec) -> int | None:
    """Return the number of trees that a job grows, in all cells of a tuning job; None for a scoring job."""
    if isinstance(spec, ScoreSpec):
        return None
    if isinstance(spec, TuneSpec):
        forests = [shared.params for shared in spec.shared_trees(share=True)]
        return sum(int(spec.fit_of(params).params["n_estimators"] or 1) for params in forests)
    n_trees = spec.params.get("n_estimators")
    return n_trees if isinstance(n_trees, int) else None


def spec_from_json(text: str) -> AnySpec:
    """Read the spec of a job from JSON; see `spec_from_dict`."""
    return spec_from_dict(read_json(text))


def spec_from_toml(path: Path) -> AnySpec:
    """Read the spec of a job from a TOML file; see `spec_from_dict`."""
    return spec_from_dict(*read_toml(path))


def spec_with(table: dict[str, object], changes: Mapping[str, object]) -> AnySpec:
    """Read the spec of a job from a table, with replaced values at dotted keys.

    Raises
    ------
    SpecError
        The spec has faults; the error lists all of them.
    InputError
        A dotted key leads through a value that is not a table.

    Examples
    --------
    >>> table = {"format": 1, "job": "score", "output": "near.zarr", "input": {"forest": "f.zarr", "queries": "q.zarr"}}
    >>> spec_with(table, {"params.answer": "neighbors", "output": "nearest.zarr"}).output
    'nearest.zarr'
    """
    for dotted, value in changes.items():
        *tables, name = dotted.split(".")
        inner = table
        for key in tables:
            found = inner.setdefault(key, {})
            if not isinstance(found, dict):
                raise InputError(f"--set {dotted}: {key} is not a table")
            inner = found
        inner[name] = value
    return spec_from_dict(table)


def addresses_of(spec: AnySpec) -> dict[str, str]:
    """Return the paths and URLs that a spec names, by position in the spec.

    Examples
    --------
    >>> addresses_of(Spec.from_dict({
    ...     "format": 1, "method": "smerf", "output": "/a.zarr", "input": {"features": "/x/X", "distances": "/x/Z"},
    ... }))
    {'input.features': '/x/X', 'input.distances.matrix': '/x/Z', 'output': '/a.zarr'}
    """
    table = spec.to_dict()
    scratch = {"run.scratch": spec.run.scratch} if spec.run.scratch else {}
    decision = addresses_in(table.get("decision"), "decision")
    return {**addresses_in(table["input"], "input"), **decision, "output": spec.output, **scratch}


def functions_of(spec: AnySpec) -> dict[str, str]:
    """Return the functions that a spec names, by position in the spec."""
    if isinstance(spec, ScoreSpec):
        function = spec.input["similarity"]
        return {"input.similarity": function} if function else {}
    comparators = [str(one.comparator) for one in spec.input.comparisons]
    found = {f"input.comparisons.{n}.comparator": name for n, name in enumerate(comparators) if ":" in name}
    for name, relation in spec.input.relations.items():
        for number, part in relation.functions:
            found[f"input.{name}.{number}.function" if relation.parts else f"input.{name}.function"] = part.address
    return found


def moved(spec: S, move: Callable[[str], str]) -> S:
    """Return the spec with a function such as `os.path.abspath` applied to each of its addresses."""
    table: dict[str, Any] = spec.to_dict()
    run = {**table["run"], "scratch": move(spec.run.scratch) if spec.run.scratch else None}
    changed = {"input": moved_addresses(table["input"], move), "output": move(spec.output), "run": run}
    return cast("S", spec_from_dict({**table, **changed}))


def moved_addresses(value: Any, move: Callable[[str], str], key: str = "") -> Any:
    """Return ``[input]`` of a spec, or a part of it, with a function applied to each of its addresses."""
    if key == "comparisons":
        return value
    if isinstance(value, Mapping):
        return {name: moved_addresses(inner, move, name) for name, inner in value.items()}
    if isinstance(value, list):
        return [moved_addresses(inner, move) for inner in value]
    return move(value) if isinstance(value, str) and key not in NO_ADDRESSES else value


def from_the_root(address: str) -> str:
    """Make a local path absolute, for a process that runs in another folder; a URL stays unchanged."""
    return address if "://" in address else os.path.abspath(address)


def with_absolute_paths(spec: S) -> S:
    """Make all local paths of a spec absolute."""
    return moved(spec, from_the_root)
