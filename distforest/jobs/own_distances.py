"""The choice of distances to training rows in a scoring job, of their leaves or their own; made once for all tasks.

A sealed forest does not contain its ground truth. So a question names it, as the spec of the fit did. One task stages
it, compares it with the forest and chooses, before other tasks answer.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from distforest.distance_sides import CHOSEN, SIDED
from distforest.errors import InputError, warn_caller
from distforest.evaluation.sides import score_sides
from distforest.forest.taught_truth import check_own_distances
from distforest.growth.methods import METHODS
from distforest.jobs.cluster import Work
from distforest.jobs.spec import inputs_of_relation
from distforest.jobs.task_data import OwnDistances, forget_truths, opened_forest
from distforest.jobs.warning_capture import captured_warnings
from distforest.sources.staged_arrays import StagingPlace, stage_truth
from distforest.sources.truth import TruthKind
from distforest.stores.folder import Folder
from distforest.stores.outputs import job_folder

if TYPE_CHECKING:
    from collections.abc import Iterator

    from distforest.forest.forest import Forest
    from distforest.jobs.cluster import Cluster
    from distforest.jobs.question import Question

STAGED = "truth"
"""Folder, in that of a job, with the staged ground truth."""


@dataclass(frozen=True)
class ChooseTask:
    """A question, the digest of its forest, and the folder where its ground truth is staged."""

    question: Question
    digest: str
    folder: str

    def __str__(self) -> str:
        return "the ground truth"


def choose_sides(task: ChooseTask) -> tuple[OwnDistances, list[str]]:
    """Stage and check the ground truth of a question, and choose which distance is taken; return warnings, too.

    Doubtful values are not warned of again, as the fit has done so.

    Raises
    ------
    InputError
        The ground truth cannot be read, is not that of the forest, or cannot be scored out of bag.
    """
    question, forest = task.question, opened_forest(task.question.forest, task.digest)
    relation = question.distances
    assert relation is not None  # noqa: S101  (checked by outline)
    place = StagingPlace(task.folder, question.scratch)
    question.scratch.check()
    with captured_warnings():
        staged = stage_truth(relation.truth_kind, list(inputs_of_relation("distances", relation)), place)
    own = OwnDistances(staged, question.scratch, str(question.sides))
    with own.watched(forest) as truth:
        check_own_distances(forest, truth, "distances")
        if own.sides != CHOSEN:
            return own, []
        scored = score_sides(forest, truth)
    return OwnDistances(staged, question.scratch, scored.chosen, scored), [scored.told] if scored.told else []


@contextmanager
def own_distances(
    question: Question, digest: str, output: str, folder: Folder | None, cluster: Cluster
) -> Iterator[OwnDistances | None]:
    """Yield the ground truth for a question's tasks, staged while they read it; None if the question names none."""
    if question.sides is None:
        yield None
        return
    staged = (folder or Folder(job_folder(output))).within(STAGED)
    try:
        [(own, warnings)] = cluster.each(choose_sides, [ChooseTask(question, digest, staged.address)], Work("choose"))
        for warning in warnings:
            warn_caller(warning)
        yield own
    finally:
        cluster.everywhere(forget_truths, staged.address)
        staged.remove()


def check_sides(question: Question, forest: Forest) -> None:
    """Refuse a question that names sides without a ground truth, or for a forest or rows that have none: InputError."""
    if question.sides is None and question.distances is None:
        return
    if question.sides is None or question.distances is None:
        found, missing = ("sides", "distances") if question.distances is None else ("distances", "sides")
        expected = "sides needs distances, the ground truth of the training rows as in the fit's spec"
        raise InputError(f"{expected}; found {found} without {missing}")
    if question.sides not in SIDED:
        raise InputError(f"sides: one of {', '.join(map(repr, SIDED))} was expected, found {question.sides!r}")
    if question.reference is not None:
        raise InputError("sides is for distances to the training rows, found a reference; omit one of them")
    if TruthKind.DISTANCES not in METHODS[forest.meaning.method].truth_kinds:
        expected = "sides is for forests that learn distances"
        raise InputError(f"{expected}, found one of {forest.meaning.method}; omit it")
