"""The spec of a scoring job: the question of `distforest score` in TOML, JSON or a dict."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from distforest.distance_sides import SIDED
from distforest.forest.sealed.artifact import meaning_of, read_manifest
from distforest.jobs.answers import ANSWERS
from distforest.jobs.callback import Callback
from distforest.jobs.outline import unused
from distforest.jobs.question import Question
from distforest.jobs.reader import Place, refusal
from distforest.jobs.spec import Relation, addresses_in
from distforest.jobs.spec_models import SPEC_FORMAT, Count, Format, Output, Run, Share, Table, Taught, Text, key, read
from distforest.sources.row_kinds import Dense
from distforest.stores.outputs import overlapping_addresses


class ScoreInput(Table):
    """What the job reads."""

    forest: Text = key("Address of the sealed forest.")
    queries: Text = key("Address of the rows to score.")
    reference: Text | None = key(
        "Address of the rows to which distances are computed; the training rows unless given.", None
    )
    pairs: Text | None = key("Address of the row numbers of each pair, shape (m, 2), for the answer 'pairs'.", None)
    similarity: Text | None = key(
        "Function to call if the forest reads similarities, 'module:function' or an entry point.", None
    )
    training: Text | None = key("With a similarity, address of the training objects; 0, 1, 2, ... unless given.", None)
    ledger: Text | None = key("With a similarity, local file that records every value.", None)
    distances: Taught | None = key("With `sides`, what the training rows were taught, as in the spec of the fit.", None)


class ScoreParams(Table):
    """What is asked of the forest."""

    answer: Literal[tuple(ANSWERS)] = key("What to ask the forest.", "distance")  # type: ignore[valid-type]
    n_neighbors: Count = key("Number of neighbours, for the answers 'neighbors' and 'graph'.", 10)
    without_self: bool = key("Whether the queries are the training rows and none is its own neighbour.", False)
    share: Share | None = key(
        "Share of similar pairs where the answers are used, for the answer 'probability'; as calibrated unless given.",
        None,
    )
    sides: Literal[SIDED] | None = key(  # type: ignore[valid-type]
        "With `distances`, which distance to a training row: of the leaves of both, of the new row's leaf to the "
        "training row, or the one that is better out of bag.",
        None,
    )


class Scoring(Table):
    """Scoring with a sealed forest."""

    format: Format = key("Version of the grammar.")
    job: Literal["score"] = key(
        "What the job does: train a forest, choose its parameters from a grid, or score with a sealed one."
    )
    output: Output = key("Address (path or URL) of the new Zarr group, which ends in .zarr.")
    input: ScoreInput
    params: ScoreParams = ScoreParams()
    run: Run = Run()


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
        lines = lines or {}
        job: Scoring = read(Scoring, table, lines)
        given, params = dict(job.input), dict(job.params)
        taught = given.pop("distances")
        distances = None if taught is None else Relation.from_table(taught)
        if faults := list(_contradictions(job.output, given, params, distances)):
            raise refusal(faults, lines)
        return cls(job.output, given, params, job.run, distances)

    def to_dict(self) -> dict[str, object]:
        """Write the whole spec, defaults included, as plain dicts, numbers, strings, booleans and None."""
        distances = None if self.distances is None else self.distances.to_table()
        tables = {
            "input": {**self.input, "distances": distances},
            "params": dict(self.params),
            "run": dict(self.run),
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
    return Callback.from_function(function, options)


def _contradictions(
    output: str, given: Mapping[str, str | None], params: Mapping[str, Any], distances: Relation | None
) -> Iterator[tuple[Place, str]]:
    """Yield the faults of keys that contradict each other."""
    if (distances is None) != (params["sides"] is None):
        both = [("params", "sides"), ("input", "distances")]
        place, other = both if distances is None else both[::-1]
        yield place, f"goes with {'.'.join(other)}, and there is none"
    if params["sides"] is not None and given["reference"] is not None:
        yield ("input", "reference"), "does not go with params.sides, which is for distances to the training rows"
    answer = params["answer"]
    if ANSWERS[answer].of_pairs and given["pairs"] is None:
        yield ("input", "pairs"), f"is missing; it must be the address of row numbers, for answer {answer!r}"
    for name, answers in unused(answer, {**given, "distances": distances, **params}).items():
        place = ("params" if name in params else "input", name)
        yield place, f"goes with the answer {answers}, found it with {answer!r}; leave it out"
    for name in ("training", "ledger"):
        if given["similarity"] is None and given[name] is not None:
            yield ("input", name), "goes with similarity, and there is none"
    taught = distances and distances.to_table()
    addresses = addresses_in({**given, "distances": taught})
    for name, address in overlapping_addresses(output, addresses).items():
        yield ("output",), f"must not be, hold or lie in an input, found {output!r} and input.{name} {address!r}"
