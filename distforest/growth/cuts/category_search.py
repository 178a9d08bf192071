"""The search of nodes with columns of categories among candidates, whose ranks in the node are cut like numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

from distforest.forest.frontier import Frontier, pick
from distforest.growth.cuts.categories import CategoriesRead, best_categories
from distforest.growth.cuts.criteria import Tallied
from distforest.growth.cuts.histograms import columns_read, count_among_all
from distforest.growth.cuts.scan import GAIN_ROUNDING
from distforest.growth.cuts.search import values_on
from distforest.sources.binned_table import BinnedTable
from distforest.sources.source import Projections, offsets, taken

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from distforest.growth.cuts.criteria import Criterion
    from distforest.growth.cuts.scan import Cuts
    from distforest.growth.cuts.search import Limits
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
        Number of categories of each column, 0 for a numerical column, shape (n_columns,). A candidate that reads a
        column of categories reads no other column, and has the weight 1.
    """

    n_categories: Int32s

    def __call__(
        self, source: Source, criterion: Criterion, frontier: Frontier, projections: Projections, limits: Limits
    ) -> tuple[Cuts, Floats]:
        """Return the best cut of each node, and each row's value on the chosen candidate: its rank, or a number."""
        values = self.values(source, criterion, frontier, projections)
        cuts = criterion.cut(frontier, values, limits.min_samples_leaf)
        picked = np.empty(len(frontier.rows))
        pick(frontier.starts, values, cuts.candidate, picked)
        return cuts, picked

    def values(self, source: Source, criterion: Criterion, frontier: Frontier, projections: Projections) -> Floats:
        """Return the candidates' values, shape (width, n_rows): for categories, their ranks in the node of a row."""
        values = source.project(frontier.rows, frontier.starts, projections)
        which = self.of_categories(projections)
        if which.any():
            assert isinstance(criterion, RanksCategories)  # noqa: S101  (a method without such a criterion refuses)
            criterion.rank_categories(frontier, which, int(self.n_categories.max()), values)
        return values

    def of_categories(self, projections: Projections) -> NDArray[np.bool_]:
        """Return whether each candidate of each node is a column of categories, shape (width, n_nodes)."""
        size = np.diff(projections.offset)
        which = np.zeros(len(size), np.bool_)
        which[size > 0] = self.n_categories[projections.columns[projections.offset[:-1][size > 0]]] > 0
        # For a single node the transposed array is in C order anyway; kernels are compiled once for any number.
        return np.ascontiguousarray(which.reshape(projections.n_nodes, projections.width).T)


@dataclass(frozen=True)
class BesideBins(CategorySearch):
    """`CategorySearch` with binned numbers: two fused searches, one for numbers and one for categories.

    Attributes
    ----------
    cut_numbers
        Search for the best cuts by histograms of bins, over candidates that read a numerical column, or none.
    """

    cut_numbers: Callable[[Any, Any, Frontier, Projections, Limits], Cuts]

    def __call__(
        self, source: Source, criterion: Criterion, frontier: Frontier, projections: Projections, limits: Limits
    ) -> tuple[Cuts, Floats]:
        """Return the best cut of each node, and the value of each row on the chosen candidate: its rank, or a code."""
        assert isinstance(source, BinnedTable) and isinstance(criterion, Tallied)  # noqa: S101, PT018  (`_with_categories`)
        which = self.n_categories[projections.columns] > 0
        if not which.any():
            cuts = self.cut_numbers(source.numbers, criterion, frontier, projections, limits)
            return cuts, values_on(source.numbers, frontier, projections, cuts)
        cuts = self.cut_numbers(source.numbers, criterion, frontier, _reading(projections, ~which), limits)
        of_categories = _reading(projections, which)
        own, values = best_categories(self._read(source, of_categories), criterion, frontier, limits)
        count_among_all(of_categories, own)
        is_better = put_better(cuts, np.arange(frontier.n_nodes), own.candidate.astype(np.int64), own)
        by_numbers = ~is_better & (cuts.candidate >= 0)
        if by_numbers.any():
            nodes, rows = frontier.take(by_numbers)
            chosen = taken(projections, np.flatnonzero(by_numbers), cuts.candidate[by_numbers])
            values[rows] = source.numbers.project(nodes.rows, nodes.starts, chosen)[0]
        return cuts, values

    def _read(self, source: BinnedTable, projections: Projections) -> CategoriesRead:
        """Return the categories that candidates read."""
        values, place, columns = source.features.own.values, source.features.place, columns_read(projections)
        own = columns._replace(column=place[columns.column])
        return CategoriesRead(values, own, int(self.n_categories.max()))


def _reading(projections: Projections, which: NDArray[np.bool_]) -> Projections:
    """Return the candidates with only those that are True in ``which``; the others read no column, and have no cut."""
    return Projections(projections.width, offsets(which), projections.columns[which], projections.weights[which])


def put_better(cuts: Cuts, places: Ints, candidate: Ints, others: Cuts) -> NDArray[np.bool_]:
    """Replace the cuts of some nodes by better ones.

    Parameters
    ----------
    cuts
        Cuts of all nodes; they are changed.
    places
        The nodes that have other cuts, too, shape (n,).
    candidate, others
        The other cuts, and the number of their candidates among all, -1 without a cut, shape (n,).

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
    """Return which cuts are better than others: of a larger gain or, if gains differ by rounding, drawn earlier.

    A candidate is -1 without a cut.
    """
    is_larger = gain > gain_of_other * (1.0 + GAIN_ROUNDING)
    is_equal = ~is_larger & (gain * (1.0 + GAIN_ROUNDING) >= gain_of_other)
    better: NDArray[np.bool_] = (candidate >= 0) & ((other < 0) | is_larger | (is_equal & (candidate < other)))
    return better
