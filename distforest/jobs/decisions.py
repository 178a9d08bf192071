"""Decisions of a job: once its trees are sealed, the forest is calibrated out of bag, and a threshold is found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from distforest.errors import InputError
from distforest.forest.pairs.held_out import calibrated_out_of_bag, taught_pairs
from distforest.forest.sealed.artifact import open_forest, seal_decision
from distforest.growth.pairs.pair_problem import pairs_taught_by

if TYPE_CHECKING:
    from distforest.jobs.inputs import Inputs


@dataclass(frozen=True)
class DecisionTask:
    """The inputs of a job that asks for decisions, and the address of its forest, which is sealed without them."""

    inputs: Inputs
    forest: str

    def __str__(self) -> str:
        return "the threshold of the forest"


def decision_entry(inputs: Inputs) -> dict[str, object]:
    """The entry of a forest's provenance on the decisions that its job asks for; empty if it asks for none."""
    if inputs.decision is None:
        return {}
    entry = inputs.decision.model_dump(include={"false_positive_rate", "confidence"})
    return {"decision": entry | {"identities": inputs.identities and inputs.identities.sha256}}


def seal_decisions(task: DecisionTask) -> list[str]:
    """Seal the calibration and the threshold of a forest; returns a warning if there is no such threshold."""
    inputs, forest = task.inputs, open_forest(task.forest)
    asked, data = inputs.decision, inputs.problem().data
    assert asked is not None  # noqa: S101  (the task is for those that ask)
    pairs, similar, identities = taught_pairs(pairs_taught_by(data), forest.n_training)
    if inputs.identities is not None:
        identities = inputs.identities.open(inputs.scratch)
    calibration, warnings = None, []
    try:
        calibration = calibrated_out_of_bag(forest, pairs, similar, identities)
        threshold = calibration.threshold(asked.false_positive_rate, asked.confidence)
    except InputError as error:
        threshold, warnings = None, [f"decision: the forest has no threshold: {error}"]
    seal_decision(task.forest, forest.with_decision(calibration, threshold))
    return warnings
