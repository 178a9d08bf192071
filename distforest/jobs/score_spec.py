"""The spec of a scoring job: the question of `distforest score` in TOML, JSON or a dict."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from distforest.forest.sealed.artifact import meaning_of, read_manifest
from distforest.jobs.answers import ANSWERS
from distforest.jobs.callback import Callback
from distforest.jobs.input_keys import ADDRESS, TAUGHT_KINDS
from distforest.jobs.outline import unused
from distforest.jobs.question import Question
from distforest.jobs.reader import FLAG, NOT_GIVEN, Key, Place, Reader, exactly, integer, text, word
from distforest.jobs.spec import RUN_KEYS, SPEC_FORMAT, Relation, Run, read_relation
from distforest.sides import SIDED
from distforest.sources.row_kinds import Dense
from distforest.stores.outputs import in_the_way

SCORE_HEAD = (
    Key("format", exactly(SPEC_FORMAT)),
    Key("job", word(("score",))),
    Key("output", text("an address (path or URL) that ends in .zarr", end=".zarr")),
)
INPUT = (
    Key("forest", text("the address (path or URL) of a sealed forest")),
    Key("queries", ADDRESS),
    Key("reference", ADDRESS, None),
    Key("pairs", ADDRESS, None),
    Key("similarity", text("'module:function', or the name of an entry point"), None),
    Key("training", ADDRESS, None),
    Key("ledger", text("the path of a file"), None),
)
PARAMS = (
    Key("answer", word(ANSWERS), "distance"),
    Key("n_neighbors", integer(1), 10),
    Key("without_self", FLAG, False),
    Key("sides", word(SIDED), None),
)
TAUGHT_KEY = "distances"
"""The key of ``[input]`` that names the ground truth, as in the spec of the fit."""


@dataclass(frozen=True)
class ScoreSpec:
    """A scoring job, complete with its defaults; its fields are the arguments of its `Question`.

    ``input`` holds addresses and ``distances`` the ground truth, if ``[input]`` names it.

    Examples
    --------
    >>> spec = ScoreSpec.from_dict({
    ...     "format": 1, "job": "score", "output": "near.zarr",
    ...     "input": {"forest": "wine.forest.zarr", "queries": "wine.zarr/X"},
    ...     "params": {"answer": "neighbors", "n_neighbors": 3},
    ... })
    >>> spec.input["queries"], spec.params["answer"], spec.run.retries
    ('wine.zarr/X', 'neighbors', 3)
    >>> ScoreSpec.from_dict(spec.to_dict()) == spec
    True
    """

    output: str
    input: Mapping[str, str | None]
    params: Mapping[str, Any]
    run: Run = field(default_factory=Run)
    distances: Relation | None = None

    @classmethod
    def from_dict(cls, table: Mapping[str, object], lines: Mapping[Place, int] | None = None) -> ScoreSpec:
        """Read a spec from a dict of the same shape as the TOML; raises SpecError with all faults."""
        reader = Reader(lines or {})
        top = reader.table((), table, [*(key.name for key in SCORE_HEAD), "input", "params", "run"])
        if top is None:
            raise reader.error()
        head = reader.values((), top, SCORE_HEAD)
        tables = [("input", INPUT, NOT_GIVEN), ("params", PARAMS, {}), ("run", RUN_KEYS, {})]
        found = {
            name: reader.values((name,), reader.table((name,), top.get(name, absent), _names(name, keys)), keys)
            for name, keys, absent in tables
        }
        given = top.get("input")
        taught = given.get(TAUGHT_KEY) if isinstance(given, Mapping) else None
        distances = None if taught is None else read_relation(reader, ("input", TAUGHT_KEY), taught, TAUGHT_KINDS)
        _check_together(reader, head["output"], found, distances)
        if reader.found_faults:
            raise reader.error()
        return cls(head["output"], found["input"], found["params"], Run(**found["run"]), distances)

    def to_dict(self) -> dict[str, object]:
        """Write the whole spec, defaults included, as plain dicts, numbers, strings, booleans and None."""
        distances = None if self.distances is None else self.distances.to_table(TAUGHT_KINDS)
        tables = {
            "input": {**self.input, TAUGHT_KEY: distances},
            "params": dict(self.params),
            "run": dataclasses.asdict(self.run),
        }
        return {"format": SPEC_FORMAT, "job": "score", "output": self.output, **tables}

    def to_json(self) -> str:
        """Write the whole spec as canonical JSON."""
        return json.dumps(self.to_dict(), sort_keys=True, separators=(",", ":"), allow_nan=False)

    @property
    def input_addresses(self) -> list[str]:
        """The addresses of all that the job reads, but for the ground truth."""
        return [address for name, address in self.input.items() if address and name not in {"similarity", "ledger"}]

    def question(self) -> Question:
        """The question of the job.

        Raises
        ------
        ArtifactError, InputError
            With a similarity: the forest cannot be read, or the function cannot be imported.
        """
        forest, function = str(self.input["forest"]), self.input["similarity"]
        return Question(
            forest,
            str(self.input["queries"]),
            reference=self.input["reference"],
            pairs=self.input["pairs"],
            callback=callback_for(forest, function, self.input["ledger"]) if function else None,
            training=self.input["training"],
            strict=self.run.strict,
            max_bytes=self.run.max_bytes,
            distances=self.distances,
            scratch=self.run.scratch_folder,
            **self.params,
        )


def callback_for(forest: str, function: str, ledger: str | None) -> Callback:
    """The function that computes a forest's similarities, of the same kind as in its training."""
    manifest = read_manifest(forest)
    origin, rows = manifest["provenance"].get("similarity", {}), meaning_of(manifest).rows
    measure = rows.measure if isinstance(rows, Dense) else "similarity"
    options = {"kind": measure, "symmetric": origin.get("symmetric", True), "ledger": ledger}
    return Callback.of(function, options)


def _names(table: str, keys: Sequence[Key]) -> list[str]:
    """The keys of a table of the spec."""
    return [*(key.name for key in keys), *((TAUGHT_KEY,) if table == "input" else ())]


def _check_together(
    reader: Reader, output: str | None, found: Mapping[str, Mapping[str, Any]], distances: Relation | None
) -> None:
    """Note the faults of keys that contradict each other."""
    given, params = {**found["input"], TAUGHT_KEY: distances}, found["params"]
    if (distances is None) != (params["sides"] is None) and not reader.found_faults:
        both = [("params", "sides"), ("input", TAUGHT_KEY)]
        place, other = both if distances is None else both[::-1]
        reader.fault(place, f"goes with {'.'.join(other)}, and there is none")
    if params["sides"] is not None and given["reference"] is not None:
        reader.fault(
            ("input", "reference"), "does not go with params.sides, which is for distances to the training rows"
        )
    if (row := ANSWERS.get(params["answer"])) and row.of_pairs and given["pairs"] is None:
        missing = f"is missing; it must be the address of row numbers, for answer {row.name!r}"
        reader.fault(("input", "pairs"), missing)
    for name, answers in unused(params["answer"], {**given, **params}).items() if params["answer"] else ():
        place = ("input" if name in given else "params", name)
        reader.fault(place, f"goes with the answer {answers}, found it with {params['answer']!r}; leave it out")
    if given["similarity"] is None:
        for name in ("training", "ledger"):
            if given[name] is not None:
                reader.fault(("input", name), "goes with similarity, and there is none")
    addresses = {name: address for name, address in found["input"].items() if address and name != "similarity"}
    if distances is not None and distances.address is not None:  # None where the address is refused
        addresses |= distances.addresses_as(TAUGHT_KEY)
    for name, address in in_the_way(output, addresses).items() if output else ():
        what = f"must not be, hold or lie in an input, found {output!r} and input.{name} {address!r}"
        reader.fault(("output",), what)
