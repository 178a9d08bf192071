"""The search of nodes whose candidates may be columns of categories: their ranks in the node are cut like numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np

from distforest.forest.frontier import Frontier, pick
from distforest.growth.cuts.criteria import GAIN_ROUNDING
from distforest.sources.binned_table import BinnedTable
from distforest.sources.source import Projections, offsets

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from distforest.growth.cuts.criteria import Criterion, Cuts
    from distforest.growth.grower import Limits, Search
    from distforest.sources.source import Floats, Int32s, Ints, Source


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
        values = self.values(source, criterion, frontier, projections)
        cuts = criterion.cut(frontier, values, limits.min_samples_leaf)
        picked = np.empty(len(frontier.rows))
        pick(frontier.starts, values, cuts.candidate, picked)
        return cuts, picked

    def values(self, source: Source, criterion: Criterion, frontier: Frontier, projections: Projections) -> Floats:
        """The candidates' values, shape (width, n_rows): of categories, their ranks in the node of a row."""
        values = source.project(frontier.rows, frontier.starts, projections)
        which = self.of_categories(projections)
        if which.any():
            assert isinstance(criterion, RanksCategories)  # noqa: S101  (a method without such a criterion refuses)
            criterion.rank_categories(frontier, which, int(self.n_categories.max()), values)
        return values

    def of_categories(self, projections: Projections) -> NDArray[np.bool_]:
        """Whether each candidate of each node is a column of categories, shape (width, n_nodes)."""
        size = np.diff(projections.offset)
        which = np.zeros(len(size), np.bool_)
        which[size > 0] = self.n_categories[projections.columns[projections.offset[:-1][size > 0]]] > 0
        # Of one node the transposed array lies in C order in any case: kernels are compiled once for any number.
        return np.ascontiguousarray(which.reshape(projections.n_nodes, projections.width).T)


@dataclass(frozen=True)
class BesideBins(CategorySearch):
    """The same beside a fused search, which cuts the columns of numbers by the histograms of their bins.

    Attributes
    ----------
    of_numbers
        The fused search, for which a column of categories has a single bin, and so no cut.
    """

    of_numbers: Search

    def __call__(
        self, source: Source, criterion: Criterion, frontier: Frontier, projections: Projections, limits: Limits
    ) -> tuple[Cuts, Floats]:
        """The best cut of each node, and the value of each row on the chosen candidate: its rank, or a code."""
        assert isinstance(source, BinnedTable)  # noqa: S101  (no other source has both)
        cuts, values = self.of_numbers(source.numbers, criterion, frontier, projections, limits)
        which = self.of_categories(projections)
        has: NDArray[np.bool_] = np.any(which, axis=0)
        if not has.any():
            return cuts, values
        assert isinstance(criterion, RanksCategories)  # noqa: S101  (a method without such a criterion refuses)
        some, rows = frontier.take(has)
        candidate, of_some = alone(projections, which, has)
        ranks = source.features.project(some.rows, some.starts, of_some)
        criterion.rank_categories(some, self.of_categories(of_some), int(self.n_categories.max()), ranks)
        own = criterion.cut(some, ranks, limits.min_samples_leaf)
        chosen = np.where(own.candidate >= 0, candidate[own.candidate.clip(0), np.arange(some.n_nodes)], -1)
        is_better = put_better(cuts, np.flatnonzero(has), chosen, own)
        picked = np.empty(len(some.rows))
        pick(some.starts, ranks, own.candidate, picked)
        values[rows] = np.where(np.repeat(is_better, some.sizes), picked, values[rows])
        return cuts, values


def alone(
    projections: Projections, which: NDArray[np.bool_], has: NDArray[np.bool_]
) -> tuple[NDArray[np.int64], Projections]:
    """The candidates of categories of the nodes that have any.

    Parameters
    ----------
    projections
        Single columns.
    which, has
        Whether a candidate holds categories, shape (width, n_nodes), and whether any of a node does, shape (n_nodes,).

    Returns
    -------
    candidate : ndarray
        Their numbers among all candidates, those of categories first, shape (most, n).
    projections : Projections
        As many for each node; those that hold no categories read no column, and so have no cut.
    """
    most = int(which.sum(axis=0).max())
    candidate = np.argsort(~which[:, has], axis=0, kind="stable")[:most]
    is_own = np.take_along_axis(which[:, has], candidate, axis=0)
    columns = projections.columns.reshape(projections.n_nodes, projections.width).T[:, has]
    kept = np.take_along_axis(columns, candidate, axis=0).T[is_own.T]
    return candidate, Projections(most, offsets(is_own.T.reshape(-1)), kept, np.ones(len(kept)))


def put_better(cuts: Cuts, places: Ints, candidate: Ints, others: Cuts) -> NDArray[np.bool_]:
    """Put the cuts of some nodes in the place of worse ones.

    Parameters
    ----------
    cuts
        Cuts of all nodes; they are changed.
    places
        The nodes that have other cuts, too, shape (n,).
    candidate, others
        The other cuts, and the number of each one's candidate among all, -1 where there is no cut, shape (n,).

    Returns
    -------
    ndarray
        Which of the others are better, shape (n,).
    """
    is_better = goes_before(candidate, others.gain, cuts.candidate[places], cuts.gain[places])
    better = places[is_better]
    cuts.candidate[better], cuts.threshold[better] = candidate[is_better], others.threshold[is_better]
    cuts.gain[better], cuts.missing[better] = others.gain[is_better], others.missing[is_better]
    return is_better


def goes_before(candidate: Ints, gain: Floats, other: Int32s, gain_of_other: Floats) -> NDArray[np.bool_]:
    """Which cuts are better than others: of a larger gain, or of one that differs by rounding, and drawn before.

    A candidate is -1 where there is no cut.
    """
    is_larger = gain > gain_of_other * (1.0 + GAIN_ROUNDING)
    is_equal = ~is_larger & (gain * (1.0 + GAIN_ROUNDING) >= gain_of_other)
    better: NDArray[np.bool_] = (candidate >= 0) & ((other < 0) | is_larger | (is_equal & (candidate < other)))
    return better
