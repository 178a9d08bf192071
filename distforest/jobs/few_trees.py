"""A budget that was spent on a few trees, whose votes are coarse."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from distforest.growth.methods import Bound
    from distforest.sources.lazy.callbacks import Lazy

FEW_TREES, ENOUGH_TREES = 10, 20
"""A forest of fewer trees is reported if at least so many were asked for."""


def told_of_few_trees(problem: Bound, lazies: list[Lazy], n_grown: int) -> str:
    """Say that the budget was spent on few of the trees that were asked for (DF012); else "".

    Parameters
    ----------
    problem
        What the trees have grown from.
    lazies
        The functions, with their budgets.
    n_grown
        The number of trees that were begun before the budget was spent.
    """
    if n_grown >= FEW_TREES or problem.n_trees < ENOUGH_TREES:
        return ""
    budgets = [lazy.budget for lazy in lazies if lazy.budget is not None]
    spent = f"DF012 the budget of {' and '.join(f'{budget:,}' for budget in budgets)} pairs"
    params = problem.meaning.params
    cure = "give fewer landmarks, or raise it" if params.get("n_landmarks") else "raise it"
    return f"{spent} was spent on {n_grown:,} of {problem.n_trees:,} trees, whose votes are coarse; {cure}"
