"""Cuts of a node by the sums of its rows, wherever these lie: the grower cuts it, from a row or two that stand for all.

::

    asked    [ least truth, all the weight ] [ greatest truth ]      may the node be cut?
    cut      sums of all rows  ->  the candidate, the threshold      by the functions of the searches in memory
    written  a number: as asked     categories: the merged rows, each on its side
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from distforest.forest.frontier import LEFT, RIGHT, STAY, Frontier
from distforest.growth.cuts.category_search import put_better
from distforest.growth.cuts.criteria import Cuts, Gini, Variance, judging
from distforest.growth.cuts.histograms import N_CODES, code_of_missing
from distforest.growth.cuts.search import Limits
from distforest.growth.cuts.sums import NodeSums, no_sums
from distforest.growth.cuts.table_sums import CategoryTurns, RankedRows, TableSums, frontier_of
from distforest.growth.grower import Growth, Levels, PartingByCuts, descend_level, unseen
from distforest.sources.arrays import ArraySource
from distforest.sources.binned import MISSING_CODE
from distforest.sources.binned_table import BinnedTable, CategoryColumns, places_of
from distforest.sources.source import Projections

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from distforest.growth.cuts.sums import RowBlock
    from distforest.sources.binned import BinnedSource
    from distforest.sources.source import Float32s, Floats, Int32s, Ints


class SummedRows(Protocol):
    """The rows of a node, wherever they lie, as far as a cut by sums asks for them."""

    @property
    def weight(self) -> int:
        """Sum of their weights."""

    @property
    def least(self) -> np.ndarray:
        """Their least truth, in each dimension."""

    @property
    def greatest(self) -> np.ndarray:
        """Their greatest truth, in each dimension."""

    @property
    def held(self) -> int | None:
        """Over how many columns of categories they hold sums at once; None: over all."""

    def sums(self, criterion: Gini | Variance, columns: Int32s) -> NodeSums | TableSums:
        """Their sums, where candidate k reads column columns[k]."""


def sums_of_none(criterion: Gini | Variance, columns: Int32s, n_categories: Int32s | None) -> NodeSums | TableSums:
    """The sums of no rows; ``n_categories`` are those of all columns, None if all hold numbers."""
    if n_categories is None:
        return no_sums(criterion, len(columns))
    return TableSums.zeros(criterion, columns, n_categories)


@dataclass(frozen=True)
class CodeCut:
    """The cut of a node by the codes of one column.

    Attributes
    ----------
    column
        The column.
    goes_right
        Whether rows of each code go right, shape (N_CODES,); or of each category, and at last of missing ones.
    left
        Number of the left child; that of the right one follows.
    place
        The place of the column among those of categories; None if it holds numbers.
    """

    column: int
    goes_right: NDArray[np.bool_]
    left: int
    place: int | None = None

    def sides_of(self, block: RowBlock, first: int) -> NDArray[np.bool_]:  # noqa: ARG002  (as `ValueCut.sides_of`)
        """Whether each row of a block goes right."""
        return self.sides(block.values, block.categories, slice(None))

    def sides(
        self, codes: NDArray[np.uint8], categories: Float32s | None, rows: NDArray[np.int32] | slice
    ) -> NDArray[np.bool_]:
        """Whether some rows go right, from the codes and the categories of all."""
        if self.place is None:
            goes_right: NDArray[np.bool_] = self.goes_right[codes[rows, self.column]]
            return goes_right
        assert categories is not None  # noqa: S101  (the column is one of them)
        of_rows = categories[rows, self.place]
        places = np.where(np.isnan(of_rows), np.float32(len(self.goes_right) - 1), of_rows).astype(np.int64)
        return np.take(self.goes_right, places)


def cut_by_sums(
    growth: Growth, trees: Ints, node: int, rows: SummedRows, depth: int, written: Levels
) -> CodeCut | None:
    """Cut a node by the sums of its rows, and write it down; None if it is a leaf.

    For the grower the node has two rows: the least and the greatest truth, of which the first has all the weight. These
    say whether it may be cut; where it is cut is found by the sums of all its rows.
    """
    two = np.array([0, 1], np.int32), np.array([rows.weight, 0], np.int32)
    frontier = Frontier(np.zeros(1, np.int64), np.array([node], np.int32), np.array([0, 2]), *two)
    criterion = judging(growth.criterion, np.stack([rows.least, rows.greatest]))
    search = _SearchBySums(rows, growth.n_categories)
    parting = _PartingBySums(replace(growth, search=search), trees, unseen, criterion, written, search)
    below = descend_level(frontier, depth, parting, growth.watch)
    if not below.n_nodes:
        return None
    column, left = int(parting.splits.columns[0]), int(below.node[0])
    if search.best is not None and growth.n_categories is not None:
        place = int(places_of(growth.n_categories > 0)[column])
        return CodeCut(column, parting.sides_of_categories(int(growth.n_categories[column])), left, place)
    goes_right = np.arange(N_CODES) > parting.splits.threshold[0]
    if _missing_of(growth.source) == MISSING_CODE:
        goes_right[MISSING_CODE] = parting.splits.missing[0] == RIGHT
    return CodeCut(column, goes_right, left)


def _missing_of(source: Any) -> int:
    """The code of missing numbers."""
    numbers: BinnedSource = source.numbers if isinstance(source, BinnedTable) else source  # `check_by_sums`
    return code_of_missing(numbers)


@dataclass
class _SearchBySums:
    """The search of one node by the sums of its rows; see `distforest.growth.grower.Search`.

    ``best`` has the rows by which it cuts a column of categories; None if it cuts numbers.
    """

    rows: SummedRows
    n_categories: Int32s | None
    best: RankedRows | None = None

    def __call__(
        self, source: Any, criterion: Any, frontier: Frontier, projections: Projections, limits: Limits
    ) -> tuple[Cuts, Floats]:
        """The best cut, with the side of missing numbers decided; the two rows of the frontier have no values."""
        columns, judged = projections.columns, CategoryTurns(criterion, limits.min_samples_leaf)
        cuts, self.best = Cuts.none(1), None
        for number, turn in enumerate(self._turns(columns)):
            sums = self.rows.sums(criterion, columns[turn])
            if number == 0:
                cuts = self._cut_numbers(sums, limits.min_samples_leaf, _missing_of(source))
                cuts.candidate[:] = turn[cuts.candidate] if cuts.candidate[0] >= 0 else -1
            if isinstance(sums, TableSums):
                for candidate, own in zip(turn[sums.of_categories].tolist(), sums.categories, strict=True):
                    judged.judge(own.merged(), candidate, len(own.filled) - 1)
        if judged.cuts is not None and put_better(cuts, np.zeros(1, np.int64), judged.chosen, judged.cuts)[0]:
            self.best = judged.best
        return cuts, np.zeros(len(frontier.rows))

    def _turns(self, columns: Int32s) -> list[Ints]:
        """Candidates whose sums are added up in one pass: all numbers with the first, and as many categories as fit."""
        every = np.arange(len(columns))
        if self.n_categories is None or self.rows.held is None:
            return [every]
        of_categories = np.flatnonzero(self.n_categories[columns] > 0)
        turn = np.zeros(len(columns), np.int64)
        turn[of_categories] = np.arange(len(of_categories)) // self.rows.held
        return [every[turn == number] for number in range(int(turn.max(initial=0)) + 1)]

    def _cut_numbers(self, sums: NodeSums | TableSums, min_leaf: int, missing: int) -> Cuts:
        """The best cut of numbers; those that lack a value go to the side of more weight, where none was learned."""
        cuts = sums.cut_numbers(min_leaf, missing) if isinstance(sums, TableSums) else sums.cut(min_leaf, missing)
        if cuts.candidate[0] >= 0 and cuts.missing[0] == STAY:
            filled = sums.filled(int(cuts.candidate[0]))
            n_left = int(filled[: int(np.floor(min(cuts.threshold[0], MISSING_CODE))) + 1].sum())
            cuts.missing[0] = LEFT if 2 * n_left > self.rows.weight else RIGHT
        return cuts


@dataclass
class _PartingBySums(PartingByCuts):
    """Parting of one node by sums; where it cuts categories, its merged rows are shown as it is written."""

    search: _SearchBySums
    shown: tuple[Frontier, NDArray[np.int8]] | None = None

    def write(self, is_parted: NDArray[np.bool_], frontier: Frontier, side: NDArray[np.int8]) -> Frontier:
        """Write the node, from merged rows if it cuts categories."""
        n_categories, best = self.growth.n_categories, self.search.best
        if n_categories is None or not frontier.n_nodes:
            return super().write(is_parted, frontier, side)
        values = np.zeros(len(frontier.rows))
        if best is not None:
            values, frontier = best.rows.values, frontier_of(best.rows, int(frontier.node[0]))
            side = frontier.sides(best.ranks, self.splits.threshold)
        own = ArraySource.of(values[:, None].astype(np.float32))
        self.growth = replace(self.growth, source=CategoryColumns(own, np.zeros(len(n_categories), np.int32)))
        below = super().write(is_parted, frontier, side)
        self.shown = frontier, side
        return below

    def sides_of_categories(self, n_categories: int) -> NDArray[np.bool_]:
        """Whether the rows of each category go right, and at last those of a missing one."""
        assert self.shown is not None  # noqa: S101  (the node was cut)
        assert self.search.best is not None  # noqa: S101  (by categories)
        values, goes_right = self.search.best.rows.values, np.zeros(n_categories + 1, np.bool_)
        goes_right[np.where(np.isnan(values), n_categories, values).astype(np.int64)] = self.shown[1] == RIGHT
        return goes_right
