"""Cuts of a node whose features are on disk: the grower cuts it, from a few candidates' values at a time.

::

    candidates   [ 0 1 2 | 3 4 5 | 6 ]     values of three are held at once, and judged
                     |       |     |
    known        best of 0 to 2, of 0 to 5, of all     what is known goes on, the values do not
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from distforest.forest.frontier import Frontier
from distforest.growth.cuts.criteria import JudgesInTurn, Turn
from distforest.growth.cuts.search import judge_and_cut
from distforest.growth.grower import PartingByCuts, descend_level, unseen
from distforest.growth.judged_rows import criterion_over
from distforest.sources.arrays import ArraySource
from distforest.sources.mapped_rows import MappedRows
from distforest.sources.source import Projections, runs, taken

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from distforest.growth.cuts.category_search import CategorySearch
    from distforest.growth.cuts.criteria import Criterion, Cuts
    from distforest.growth.cuts.search import Limits
    from distforest.growth.cuts.sums import RowBlock
    from distforest.growth.grower import Growth, Levels
    from distforest.growth.stored_rows import StoredRows
    from distforest.sources.source import Floats, Ints, Source


@dataclass(frozen=True)
class InTurn:
    """The search that is `judge_and_cut` with the values of at most ``held`` candidates at once.

    Attributes
    ----------
    held
        Number of candidates.
    categories
        The search that it is instead where columns hold categories, which are read as their ranks.
    """

    held: int
    categories: CategorySearch | None = None

    def __call__(
        self, source: Source, criterion: Criterion, frontier: Frontier, projections: Projections, limits: Limits
    ) -> tuple[Cuts, Floats]:
        """The best cut of each node, and the value of each row on the chosen candidate."""
        is_judged_by_some = limits.min_samples_leaf == 1 and criterion.judged_on(frontier) is not frontier
        if is_judged_by_some or projections.width <= self.held:
            search = self.categories or judge_and_cut
            return search(source, criterion, frontier, projections, limits)
        assert isinstance(criterion, JudgesInTurn)  # noqa: S101  (who searches in turn has asked)
        found: Any = None
        for first in range(0, projections.width, self.held):
            own = some_of(projections, first, min(first + self.held, projections.width))
            values = self._values(source, criterion, frontier, own)
            turn = Turn(first, projections.width)
            found = criterion.judge(frontier, values, limits.min_samples_leaf, turn, found)
            del values  # before the next ones are there
        cuts = criterion.chosen(frontier, found)
        chosen = taken(projections, np.arange(frontier.n_nodes), cuts.candidate.clip(0))
        values_of_chosen: Floats = self._values(source, criterion, frontier, chosen)[0]
        return cuts, values_of_chosen

    def _values(self, source: Source, criterion: Criterion, frontier: Frontier, projections: Projections) -> Floats:
        """The candidates' values, shape (width, n_rows)."""
        if self.categories is None:
            return source.project(frontier.rows, frontier.starts, projections)
        return self.categories.values(source, criterion, frontier, projections)


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


@dataclass(frozen=True)
class ValueCut:
    """The cut of a node by the values of a projection.

    Attributes
    ----------
    right
        Whether each row goes right, shape (n_rows,).
    left
        Number of the left child; that of the right one follows.
    """

    right: NDArray[np.bool_]
    left: int

    def sides_of(self, block: RowBlock, first: int) -> NDArray[np.bool_]:
        """Whether each row of a block goes right, of which the first is number ``first`` of the node."""
        return self.right[first : first + len(block.weights)]


def cut_by_values(
    growth: Growth, trees: Ints, node: int, rows: StoredRows, search: InTurn, step: int, depth: int, written: Levels
) -> ValueCut | None:
    """Cut a node whose rows are on disk by ``search``, and write it down; None if it is a leaf.

    Rows keep their order, in which sums of floats are added; ``step`` of them are read at once.
    """
    assert isinstance(growth.source, ArraySource)  # noqa: S101  (`check_by_passes`)
    n = rows.n_rows
    source = MappedRows(rows.mapped(), growth.source.is_complete, step)
    weights = rows.weights()
    frontier = Frontier(
        *(np.zeros(1, np.int64), np.array([node], np.int32), np.array([0, n]), np.arange(n, dtype=np.int32), weights)
    )
    criterion = criterion_over(growth.criterion, rows.truth(), source.values, source)
    growth = replace(growth, source=source, criterion=criterion, search=search)
    below = descend_level(frontier, depth, PartingByCuts(growth, trees, unseen, criterion, written), growth.watch)
    if not below.n_nodes:
        return None
    right = np.zeros(n, np.bool_)
    right[below.rows[below.starts[1] :]] = True
    return ValueCut(right, int(below.node[0]))
