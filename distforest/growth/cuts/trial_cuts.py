"""Trials of where candidates of two objects are cut: at the best place or at zero, whichever errs less out of bag.

::

    parameters with cut="auto" -> a trial forest for each cut -> errors out of bag -> the parameters of the forest

The trials have the forest's seed and a number of trees of their own. So the choice follows from data, parameters and
seed, does not change when trees are added, and the forest is the one with the chosen cut.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from distforest.errors import InputError
from distforest.forest.leaf_kinds import KeepsCounts
from distforest.forest.scoring import out_of_bag
from distforest.growth.parameters import AUTO
from distforest.sources.truth import TruthKind

if TYPE_CHECKING:
    from distforest.forest.forest import Forest, Params
    from distforest.growth.problem import Problem
    from distforest.sources.source import Floats

TRIAL_TREES = 50
"""Trees of a trial forest."""

TRIAL_SHARE = 0.632
"""Objects of a trial's tree, as a share, where each tree of the forest would draw all of them once."""


def is_to_choose(params: Params) -> bool:
    """Whether the parameters leave the cut to a choice."""
    return params.get("cut") == AUTO


def trial_params(params: Params, cut: str) -> Params:
    """The parameters of the trial forest with a cut: those of the forest, but that each tree leaves objects out.

    Examples
    --------
    >>> tried = trial_params({"cut": "auto", "bootstrap": False, "max_samples": None, "n_pairs": 4}, "zero")
    >>> tried["cut"], tried["n_estimators"], tried["max_samples"], tried["n_pairs"]
    ('zero', 50, 0.632, 4)
    """
    changed: dict[str, object] = {"cut": cut, "n_estimators": TRIAL_TREES, "oob_score": True}
    draws_all = not params["bootstrap"] and params["max_samples"] in (None, 1.0)
    return {**params, **changed, **({"max_samples": TRIAL_SHARE} if draws_all else {})}


def check_unbounded(params: Params, budgets: tuple[int | None, ...]) -> None:
    """Refuse a choice of the cut within a budget, which the trials would spend; raises InputError."""
    if is_to_choose(params) and any(budget is not None for budget in budgets):
        cure = "name the cut ('best' or 'zero'), or leave the budget out"
        raise InputError(f"cut={AUTO!r} grows two forests first, which would spend the budget; {cure}")


def error_out_of_bag(bound: Problem, forest: Forest) -> float:
    """The mean over objects i, weighted by w_i, of the squared length of (estimate of i out of bag - truth of i).

    The truth of a label is 1 in its class and 0 in the others. w_i is the weight of the object times that of its class.

    Raises
    ------
    InputError
        No tree left any object out.
    """
    estimate, count = out_of_bag(forest)
    known = count > 0
    weights = np.ones(len(known)) if bound.data.sample_weight is None else bound.data.sample_weight.astype(np.float64)
    truth, leaf = _truth(bound), bound.meaning.leaf
    if isinstance(leaf, KeepsCounts) and leaf.class_weights is not None:
        weights *= np.array(leaf.class_weights)[bound.data.truth]
    weights = np.where(known, weights, 0.0)
    if not weights.any():
        raise InputError(f"cut={AUTO!r}: no tree of a trial left any of the objects out; name the cut")
    squares = np.square(estimate[known] - truth[known]).sum(axis=1)
    return float(np.average(squares, weights=weights[known]))


def _truth(bound: Problem) -> Floats:
    """The truth as a forest predicts it, shape (n_rows, n_outputs)."""
    if bound.data.truth_kind == TruthKind.LABELS:
        return np.eye(len(bound.data.classes or ()))[bound.data.truth]
    return bound.data.truth.astype(np.float64).reshape(bound.n_rows, -1)
