"""Trials of the cut of candidates: two objects at the best threshold or at zero, or one object per class.

The cut with the smallest out-of-bag error is chosen.

::

    parameters with cut="auto" -> a trial forest for each cut -> errors out of bag -> the parameters of the forest

The trials have the forest's seed and their own number of trees. So the choice depends only on data, parameters and
seed, does not change when trees are added, and the forest is the one with the chosen cut.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from distforest.errors import InputError
from distforest.forest.chosen_cut import CUTS, TRIED
from distforest.forest.leaf_kinds import KeepsCounts
from distforest.forest.margins import most_errors, out_of_bag_margins
from distforest.forest.scoring import out_of_bag
from distforest.growth.parameters import AUTO, WITHOUT_SIDES
from distforest.sources.row_kinds import Features
from distforest.sources.truth import TruthKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from distforest.forest.forest import Forest, Params
    from distforest.growth.problem import Problem
    from distforest.sources.row_kinds import RowKind
    from distforest.sources.source import Floats

TRIAL_TREES = 50
"""Number of trees of a trial forest."""

TRIAL_SHARE = 0.632
"""Share of the objects of a trial's tree if each tree of the forest would draw all of them once."""


def is_to_choose(params: Params) -> bool:
    """Return whether the parameters leave the choice of the cut."""
    return params.get("cut") == AUTO


def cuts_to_try(params: Params, rows: RowKind, classes: Sequence[object] | None) -> tuple[str, ...]:
    """Return the cuts that are tried: both cuts of two objects, and exemplars if there are more than two classes.

    For two classes, exemplars are pairs that are cut at zero, drawn slightly differently. They are also omitted if a
    parameter needs the two sides of a pair, or if features are not objects.
    """
    are_sides = any(params[name] not in values for name, values in WITHOUT_SIDES.items())
    return CUTS if are_sides or isinstance(rows, Features) or len(classes or ()) < 3 else TRIED


def trial_params(params: Params, cut: str) -> Params:
    """Return the parameters of the trial forest with a cut: those of the forest, but each tree leaves objects out.

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
    """Refuse to choose the cut within a budget, which the trials would spend; raise InputError."""
    if is_to_choose(params) and any(budget is not None for budget in budgets):
        cure = "name the cut ('best', 'zero' or 'exemplars'), or omit the budget"
        raise InputError(f"cut={AUTO!r} grows a forest for each cut first, which would spend the budget; {cure}")


def error_out_of_bag(bound: Problem, forest: Forest) -> float:
    """Return the out-of-bag error of a forest, by weights w_i, those of the objects times those of their classes.

    For labels, `most_errors`, the largest share of objects that the vote gets wrong as trees are added: class shares of
    a trial show neither that nor which vote improves more with further trees. For targets, the mean of
    w_i (estimate - target)^2 over the sum of the w_i.

    Raises
    ------
    InputError
        No tree left an object out; or, for labels, no two trees.
    """
    if bound.data.truth.kind == TruthKind.LABELS:
        margins = out_of_bag_margins(forest, bound.data.truth.values)
        weights = _weights(bound, margins.n_trees > 1)
        return most_errors(margins, weights)
    estimate, count = out_of_bag(forest)
    known = count > 0
    weights = _weights(bound, known)[known]
    truth = bound.data.truth.values.astype(np.float64).reshape(bound.n_rows, -1)
    return float(np.average(np.square(estimate[known] - truth[known]).sum(axis=1), weights=weights))


def _weights(bound: Problem, known: NDArray[np.bool_]) -> Floats:
    """Return the weight of each object, 0 if its error is unknown; raise InputError if all are."""
    weights = np.ones(len(known)) if bound.data.sample_weight is None else bound.data.sample_weight.astype(np.float64)
    leaf = bound.meaning.leaf
    if isinstance(leaf, KeepsCounts) and leaf.class_weights is not None:
        weights *= np.array(leaf.class_weights)[bound.data.truth.values]
    weights = np.where(known, weights, 0.0)
    if not weights.any():
        raise InputError(f"cut={AUTO!r}: too few trees of a trial left an object out; name the cut")
    return weights
