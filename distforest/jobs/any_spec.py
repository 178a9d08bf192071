"""A job's spec of either kind, fit or score: reading it, and the addresses and functions that it names."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar, cast

from distforest.jobs.input_keys import INPUTS
from distforest.jobs.reader import Place, read_json, read_toml
from distforest.jobs.score_spec import ScoreSpec
from distforest.jobs.spec import Spec

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

AnySpec = Spec | ScoreSpec
S = TypeVar("S", bound=AnySpec)


def spec_from_dict(table: object, lines: Mapping[Place, int] | None = None) -> AnySpec:
    """Read the spec of a job; ``job = "score"`` makes it a scoring job, otherwise it is a fit.

    Raises
    ------
    SpecError
        The spec has faults; the error lists all of them.
    """
    if isinstance(table, Mapping):
        if table.get("job", "fit") != "fit":
            return ScoreSpec.from_dict(table, lines)
        table = {name: value for name, value in table.items() if name != "job"}
    return Spec.from_table(table, lines)


def spec_from_json(text: str) -> AnySpec:
    """Read the spec of a job from JSON; see `spec_from_dict`."""
    return spec_from_dict(read_json(text))


def spec_from_toml(path: Path) -> AnySpec:
    """Read the spec of a job from a TOML file; see `spec_from_dict`."""
    return spec_from_dict(*read_toml(path))


def addresses_of(spec: AnySpec) -> dict[str, str]:
    """The paths and URLs that a spec names, by their places in it.

    Examples
    --------
    >>> addresses_of(Spec.from_dict({
    ...     "format": 1, "method": "smerf", "output": "/a.zarr", "input": {"features": "/x/X", "distances": "/x/Z"},
    ... }))
    {'input.features': '/x/X', 'input.distances.matrix': '/x/Z', 'output': '/a.zarr'}
    """
    found: dict[str, str | None] = {}
    if isinstance(spec, ScoreSpec):
        found |= {f"input.{name}": address for name, address in spec.input.items() if name != "similarity"}
    else:
        found |= {f"input.{name}": address for name, address in spec.input.addresses.items()}
        for name, relation in spec.input.relations.items():
            if relation.kind == "lazy":
                found |= {f"input.{name}.{key}": _text(relation.options[key]) for key in ("objects", "ledger")}
                continue
            for number, part in enumerate(relation.each):
                key = next(kind.address for kind in INPUTS[spec.method].relations[name] if kind.name == part.kind)
                place = f"{name}.{number}" if relation.parts else name
                found[f"input.{place}.{key}"] = part.address
    found |= {"output": spec.output, "run.scratch": spec.run.scratch}
    return {place: address for place, address in found.items() if address is not None}


def functions_of(spec: AnySpec) -> dict[str, str]:
    """The functions that a spec names, by their places in it."""
    if isinstance(spec, ScoreSpec):
        function = spec.input["similarity"]
        return {"input.similarity": function} if function else {}
    relations = spec.input.relations.items()
    lazy = {name: relation.address for name, relation in relations if relation.kind == "lazy"}
    return {f"input.{name}.function": function for name, function in lazy.items()}


def moved(spec: AnySpec, move: Callable[[str], str]) -> AnySpec:
    """Return the spec with a function such as `os.path.abspath` applied to each of its addresses."""
    run = replace(spec.run, scratch=move(spec.run.scratch)) if spec.run.scratch else spec.run
    if isinstance(spec, ScoreSpec):
        inputs = {name: move(a) if a and name != "similarity" else a for name, a in spec.input.items()}
        return replace(spec, output=move(spec.output), input=inputs, run=run)
    relations = {}
    for name, relation in spec.input.relations.items():
        if relation.parts:
            parts = tuple(replace(part, address=move(part.address)) for part in relation.parts)
            relations[name] = replace(relation, parts=parts)
            continue
        if relation.kind != "lazy":
            relations[name] = replace(relation, address=move(relation.address))
            continue
        paths = {key: move(str(relation.options[key])) for key in ("objects", "ledger") if relation.options[key]}
        relations[name] = replace(relation, options={**relation.options, **paths})
    addresses = {name: move(address) for name, address in spec.input.addresses.items()}
    found = replace(spec.input, addresses=addresses, relations=relations)
    return replace(spec, output=move(spec.output), input=found, run=run)


def from_the_root(address: str) -> str:
    """Make a local path absolute, for a process that runs in another folder; a URL stays unchanged."""
    return address if "://" in address else os.path.abspath(address)


def with_absolute_paths(spec: S) -> S:
    """Make all local paths of a spec absolute."""
    return cast("S", moved(spec, from_the_root))


def _text(value: object) -> str | None:
    return None if value is None else str(value)
