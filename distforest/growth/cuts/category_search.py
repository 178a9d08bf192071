"""The search of nodes whose candidates may be columns of categories: their ranks in the node are cut like numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np

from distforest.forest.frontier import Frontier, pick

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from distforest.growth.cuts.criteria import Criterion, Cuts
    from distforest.growth.grower import Limits
    from distforest.sources.source import Floats, Int32s, Projections, Source


@runtime_checkable
class RanksCategories(Protocol):
    """A criterion that can put categories in an order: see `distforest.growth.cuts.category_orders`."""

    def rank_categories(self, frontier: Frontier, which: NDArray[np.bool_], n_codes: int, values: Floats) -> None:
        """Replace codes below ``n_codes`` by ranks in their node, values[k, r] where which[k, node of r].

        ``values`` has shape (width, n_rows), ``which`` (width, n_nodes).
        """


@dataclass(frozen=True)
class CategorySearch:
    """`project_and_cut` that cuts columns of categories by their ranks.

    Attributes
    ----------
    n_categories
        Number of categories of each column, 0 for a column of numbers, shape (n_columns,). A candidate that reads a
        column of categories reads no other, and with the weight 1.
    """

    n_categories: Int32s

    def __call__(
        self, source: Source, criterion: Criterion, frontier: Frontier, projections: Projections, limits: Limits
    ) -> tuple[Cuts, Floats]:
        """The best cut of each node, and the value of each row on the chosen candidate: its rank, or a number."""
        values = source.project(frontier.rows, frontier.starts, projections)
        which = self.of_categories(projections)
        if which.any():
            assert isinstance(criterion, RanksCategories)  # noqa: S101  (a method without such a criterion refuses)
            criterion.rank_categories(frontier, which, int(self.n_categories.max()), values)
        cuts = criterion.cut(frontier, values, limits.min_samples_leaf)
        picked = np.empty(len(frontier.rows))
        pick(frontier.starts, values, cuts.candidate, picked)
        return cuts, picked

    def of_categories(self, projections: Projections) -> NDArray[np.bool_]:
        """Whether each candidate of each node is a column of categories, shape (width, n_nodes)."""
        size = np.diff(projections.offset)
        which = np.zeros(len(size), np.bool_)
        which[size > 0] = self.n_categories[projections.columns[projections.offset[:-1][size > 0]]] > 0
        return which.reshape(projections.n_nodes, projections.width).T
