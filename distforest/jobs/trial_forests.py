"""Trial forests: where a job leaves the cut of its candidates to a choice, a forest for each cut grows into shards."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from distforest.forest.chosen_cut import ChosenCut
from distforest.growth.cuts.trial_cuts import cuts_to_try, error_out_of_bag, is_to_choose, trial_params
from distforest.growth.methods import over_rows, problem
from distforest.growth.problem import Problem
from distforest.jobs.cluster import Cluster, Work
from distforest.jobs.shards import committed_parts
from distforest.jobs.versions import check_own_growth
from distforest.sources.array_files import untouched

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from distforest.forest.forest import Forest, Params
    from distforest.growth.methods import Method
    from distforest.growth.problem import Data
    from distforest.jobs.inputs import Inputs
    from distforest.jobs.shards import Receipt
    from distforest.stores.folder import Folder

ERROR = "error.json"
"""The file with the error of a trial, beside its shards."""


@dataclass(frozen=True)
class TrialTask:
    """The inputs of a trial forest, and the folder of its shards."""

    inputs: Inputs
    shards: Folder

    def __str__(self) -> str:
        return f"the trial of cut={self.inputs.params['cut']!r}"


def try_forest(task: TrialTask) -> float:
    """The error out of bag of a trial forest, from its shards; committed, or read if it is committed already."""
    check_own_growth(task.inputs.growth)
    if (before := _read_error(task.shards)) is not None:
        return before
    opened = task.inputs.opened()
    bound = over_rows(opened.problem)
    parts = committed_parts(task.shards, bound.n_trees, "a trial forest")
    with untouched(opened.files):
        error = error_out_of_bag(bound, bound.forest(parts))
    task.shards.write(ERROR, json.dumps(error).encode())
    return error


def _read_error(shards: Folder) -> float | None:
    """The error that an earlier run has committed; None if there is none that can be read."""
    try:
        found = json.loads(shards.read(ERROR))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, float) else None


def with_chosen_cut(
    inputs: Inputs, grow: Callable[[Inputs], tuple[Folder, Sequence[Receipt]]], cluster: Cluster, work: Work
) -> Inputs:
    """The inputs with the cut that errs less out of bag, if the parameters leave it to a choice.

    Parameters
    ----------
    inputs
        Of the job.
    grow
        Grows the trees of a trial that no shard holds; returns the folder of its shards, and all their receipts.
    cluster, work
        Where the trials are judged, and how; the choice does not depend on it.
    """
    if not is_to_choose(inputs.params) or inputs.chosen_cut:
        return inputs
    errors, evaluations = [], 0
    for cut in cuts_to_try(inputs.params, inputs.rows, inputs.classes):
        trial = replace(inputs, params=trial_params(inputs.params, cut))
        shards, receipts = grow(trial)
        errors += cluster.each(try_forest, [TrialTask(trial, shards)], work)
        evaluations += sum(receipt.evaluations for receipt in receipts)
    return replace(inputs, chosen_cut=ChosenCut(tuple(errors), evaluations))


def chosen_cut(
    method: Method, data: Data, params: Params, seed: int, grown: Callable[[Problem], Forest]
) -> ChosenCut | None:
    """The cut that errs less out of bag; None if the parameters name it. ``grown`` grows a trial in this process."""
    if not is_to_choose(params):
        return None
    errors = []
    for cut in cuts_to_try(params, data.rows, data.classes):
        bound = over_rows(problem(method, data, trial_params(params, cut), seed))
        errors.append(error_out_of_bag(bound, grown(bound)))
    return ChosenCut(tuple(errors))
