"""Earlier trees: those of a forest of the same data, parameters and seed with fewer trees, as a part of a larger one.

A tree depends only on its number, the seed and the data. So trees 0 to 499 of a forest of 500 are the first ones of the
forest of 1,000, and the larger forest is the one that would have grown at once.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from distforest.errors import InputError
from distforest.forest.merged_trees import REPEATED
from distforest.growth.problem import Problem
from distforest.growth.taught import TaughtDistances

if TYPE_CHECKING:
    from distforest.forest.forest import Forest
    from distforest.growth.methods import Bound


def as_part(problem: Bound, earlier: Forest) -> dict[str, np.ndarray]:
    """Return the arrays that ``problem.grow`` returns for all trees of an earlier forest, without growing them.

    Raises
    ------
    InputError
        The forest has another meaning, or more trees.
    """
    check_earlier(problem, earlier)
    part = {name: array for name, array in earlier.arrays().items() if name not in REPEATED}
    if isinstance(problem, Problem) and isinstance(problem.taught, TaughtDistances):
        is_kept = "leaf_distances" in part and problem.taught.keeps(earlier.table)  # more trees, a lower limit
        part["leaf_distances"] = part["leaf_distances"] if is_kept else np.empty(0)
    return part


def check_earlier(problem: Bound, earlier: Forest) -> None:
    """Refuse an earlier forest with another method, other parameters, another seed, or more trees.

    Raises
    ------
    InputError
        The message names the difference.
    """
    wanted, found = problem.meaning, earlier.meaning
    names = sorted({*wanted.params, *found.params} - {"n_estimators"})
    differing = [name for name in names if wanted.params.get(name) != found.params.get(name)]
    kept = "trees are added to a forest of the same method, parameters and seed"
    for name in differing[:1]:
        difference = f"{name}={wanted.params.get(name)!r} beside trees with {found.params.get(name)!r}"
        raise InputError(f"{kept}, found {difference}; fit a new forest, or put the parameter back")
    if (wanted.method, wanted.seed) != (found.method, found.seed):
        difference = f"{wanted.method} with seed {wanted.seed} beside {found.method} with seed {found.seed}"
        raise InputError(f"{kept}, found {difference}; fit a new forest, or give the same random_state")
    if earlier.n_trees > problem.n_trees:
        raise InputError(
            f"n_estimators={problem.n_trees} must be larger than or equal to the {earlier.n_trees} trees that are "
            "there already; trees are only added"
        )
    if replace(wanted, params={}, leaf=found.leaf) != replace(found, params={}):
        raise InputError(f"{kept}, found rows or classes of another kind; fit a new forest")
