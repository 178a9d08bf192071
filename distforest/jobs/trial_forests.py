"""Trial forests, one for each cut of candidates, if the parameters leave the choice of the cut."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from distforest.forest.chosen_cut import ChosenCut
from distforest.growth.cuts.trial_cuts import cuts_to_try, error_out_of_bag, is_to_choose, trial_params
from distforest.growth.methods import over_rows, problem
from distforest.growth.problem import Problem
from distforest.jobs.shards import committed_answer, committed_parts
from distforest.jobs.versions import check_own_growth
from distforest.sources.array_files import untouched

if TYPE_CHECKING:
    from collections.abc import Callable

    from distforest.forest.forest import Forest, Params
    from distforest.growth.methods import Method
    from distforest.growth.problem import Data
    from distforest.jobs.inputs import Inputs
    from distforest.stores.folder import Folder


@dataclass(frozen=True)
class TrialTask:
    """The inputs of a trial forest, and the folder of its shards."""

    inputs: Inputs
    shards: Folder

    def __str__(self) -> str:
        return f"the trial of cut={self.inputs.params['cut']!r}"


def try_forest(task: TrialTask) -> float:
    """Return the out-of-bag error of a trial forest from its shards, and commit it, or read it if it is committed."""
    check_own_growth(task.inputs.growth)

    def error() -> float:
        opened = task.inputs.opened()
        bound = over_rows(opened.problem)
        parts = committed_parts(task.shards, bound.n_trees, "a trial forest")
        with untouched(opened.files):
            return error_out_of_bag(bound, bound.forest(parts))

    return float(committed_answer(task.shards, "error.json", error))


def chosen_cut(
    method: Method, data: Data, params: Params, seed: int, grown: Callable[[Problem], Forest]
) -> ChosenCut | None:
    """Return the cut of the smaller out-of-bag error; None if the parameters name it. ``grown`` grows a trial here."""
    if not is_to_choose(params):
        return None
    errors = []
    for cut in cuts_to_try(params, data.rows, data.truth.classes):
        bound = over_rows(problem(method, data, trial_params(params, cut), seed))
        errors.append(error_out_of_bag(bound, grown(bound)))
    return ChosenCut(tuple(errors))
