"""The best cuts of nodes so large that the values of all their candidates do not fit: some candidates at a time.

::

    candidates   [ 0 1 2 | 3 4 5 | 6 ]     values of three are held at once, and judged
                     |       |     |
    known        best of 0 to 2, of 0 to 5, of all     what is known goes on, the values do not
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from distforest.growth.cuts.criteria import Cuts, JudgesInTurn, Turn
from distforest.growth.grower import Limits, judge_and_cut, values_on
from distforest.sources.source import Floats, Projections, Source, runs

if TYPE_CHECKING:
    from distforest.forest.frontier import Frontier
    from distforest.growth.cuts.criteria import Criterion


@dataclass(frozen=True)
class InTurn:
    """The search that is `judge_and_cut` with the values of at most ``held`` candidates at once."""

    held: int

    def __call__(
        self, source: Source, criterion: Criterion, frontier: Frontier, projections: Projections, limits: Limits
    ) -> tuple[Cuts, Floats]:
        """The best cut of each node, and the value of each row on the chosen candidate."""
        is_judged_by_some = limits.min_samples_leaf == 1 and criterion.judged_on(frontier) is not frontier
        if is_judged_by_some or projections.width <= self.held:
            return judge_and_cut(source, criterion, frontier, projections, limits)
        assert isinstance(criterion, JudgesInTurn)  # noqa: S101  (who searches in turn has asked)
        found: Any = None
        for first in range(0, projections.width, self.held):
            own = some_of(projections, first, min(first + self.held, projections.width))
            values = source.project(frontier.rows, frontier.starts, own)
            turn = Turn(first, projections.width)
            found = criterion.judge(frontier, values, limits.min_samples_leaf, turn, found)
            del values  # before the next ones are there
        cuts = criterion.chosen(frontier, found)
        return cuts, values_on(source, frontier, projections, cuts)


def some_of(projections: Projections, first: int, last: int) -> Projections:
    """Candidates ``first`` to ``last - 1`` of each node.

    Examples
    --------
    >>> columns = np.array([3, 0, 7, 5], np.int32)
    >>> some_of(Projections(2, np.array([0, 1, 3, 4, 4]), columns, np.ones(4)), 1, 2).columns
    array([0, 7], dtype=int32)
    """
    numbers = np.arange(projections.n_nodes)[:, None] * projections.width + np.arange(first, last)
    offset, entry = runs(projections.offset, numbers.reshape(-1))
    return Projections(last - first, offset, projections.columns[entry], projections.weights[entry])
