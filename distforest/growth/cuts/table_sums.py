"""Sums of a node over candidates of which some are numbers in bins and some categories; the best cut of the latter.

Numbers have the sums of `distforest.growth.cuts.sums`, categories those of `distforest.growth.cuts.category_sums`.
Which of the two cuts is better is decided as in memory, by `distforest.growth.cuts.category_search`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple, Self

import numpy as np

from distforest.forest.frontier import Frontier
from distforest.growth.cuts.category_sums import CategorySums, no_category_sums
from distforest.growth.cuts.criteria import Tallied, Turn
from distforest.growth.cuts.merged_rows import MergedRows
from distforest.growth.cuts.scan import Cuts
from distforest.growth.cuts.sums import NodeSums, RowBlock
from distforest.sources.binned_table import places_of

if TYPE_CHECKING:
    from distforest.sources.source import Floats, Int32s, Ints


@dataclass(frozen=True)
class TableSums:
    """The sums of one node over the rows that were added so far.

    Attributes
    ----------
    numbers, of_numbers
        The sums over numbers, and which candidates these are.
    categories, of_categories
        The sums over each column of categories, and which candidates these are.
    place
        The place of each column of categories among these, shape (n_columns,); of no meaning for numbers.
    """

    numbers: NodeSums
    of_numbers: Ints
    categories: tuple[CategorySums, ...]
    of_categories: Ints
    place: Int32s

    @classmethod
    def zeros(cls, criterion: Tallied, columns: Int32s, n_categories: Int32s) -> Self:
        """The sums of no rows; candidate k reads column columns[k], and ``n_categories`` are those of all columns."""
        sizes = n_categories[columns]
        of_numbers = np.flatnonzero(sizes == 0)
        categories = tuple(no_category_sums(criterion, n) for n in sizes[sizes > 0].tolist())
        numbers = NodeSums.zeros(criterion, len(of_numbers))
        return cls(numbers, of_numbers, categories, np.flatnonzero(sizes > 0), places_of(n_categories > 0))

    def add(self, block: RowBlock, columns: Int32s, rows: Int32s | None = None) -> None:
        """Add rows, as `NodeSums` does."""
        if len(self.of_numbers):
            self.numbers.add(block, columns[self.of_numbers], rows)
        if not self.categories:
            return
        assert block.categories is not None  # noqa: S101  (rows of a table that has categories)
        own = np.arange(len(block.weights), dtype=np.int32) if rows is None else rows
        for place, sums in zip(self.place[columns[self.of_categories]].tolist(), self.categories, strict=True):
            sums.add(block.categories[:, place], block.truth, own, block.weights)

    def joined(self, after: Self) -> Self:
        """The sums of these rows and of those of ``after``, which come after them."""
        categories = tuple(own.joined(other) for own, other in zip(self.categories, after.categories, strict=True))
        return type(self)(
            self.numbers.joined(after.numbers), self.of_numbers, categories, self.of_categories, self.place
        )

    def cut_numbers(self, min_leaf: int, missing: int) -> Cuts:
        """The best cut of a number; ``missing`` is the code of missing values."""
        if not len(self.of_numbers):
            return Cuts.none(1)
        cuts = self.numbers.cut(min_leaf, missing)
        if cuts.candidate[0] >= 0:
            cuts.candidate[0] = self.of_numbers[cuts.candidate[0]]
        return cuts

    def filled(self, candidate: int) -> Ints:
        """Weight of the rows of each code of a candidate; of categories, that of missing values comes last."""
        place = int(np.searchsorted(self.of_categories, candidate))
        if place < len(self.of_categories) and self.of_categories[place] == candidate:
            return self.categories[place].filled
        return self.numbers.filled(int(np.searchsorted(self.of_numbers, candidate)))


class RankedRows(NamedTuple):
    """Merged rows of a node, and the rank of each one's category, NaN if it is missing, shape (n,)."""

    rows: MergedRows
    ranks: Floats


@dataclass
class CategoryTurns:
    """The columns of categories of a node, judged one after another.

    Attributes
    ----------
    criterion
        Judges cuts; its own rows are not read.
    min_leaf
        Least weight of a side.
    cuts
        The best cut so far, whose candidate counts columns of categories alone; None before the first one.
    best
        The rows by which it parts the node.
    candidates
        Which candidates of the node the columns are, of those that were judged.
    """

    criterion: Tallied
    min_leaf: int
    cuts: Cuts | None = None
    best: RankedRows | None = None
    candidates: list[int] = field(default_factory=list)

    @property
    def chosen(self) -> Ints:
        """The candidate of the best cut so far among all of the node, -1 without one, shape (1,)."""
        assert self.cuts is not None  # noqa: S101  (callers have judged one)
        place = int(self.cuts.candidate[0])
        return np.array([self.candidates[place] if place >= 0 else -1])

    def judge(self, rows: MergedRows, candidate: int, n_categories: int) -> None:
        """Order the categories of the column of the next candidate, and keep its best cut if it gains more."""
        criterion, frontier = replace(self.criterion, truth=rows.truth), frontier_of(rows)
        ranks, turn = rows.values[None].copy(), Turn(len(self.candidates), len(self.candidates) + 1)
        criterion.rank_categories(frontier, np.ones((1, 1), np.bool_), n_categories, ranks)
        self.cuts = criterion.judge(frontier, ranks, self.min_leaf, turn, self.cuts)
        if self.cuts.candidate[0] == turn.first:
            self.best = RankedRows(rows, ranks[0])
        self.candidates.append(candidate)


def frontier_of(rows: MergedRows, node: int = 0) -> Frontier:
    """A node that has merged rows."""
    n = len(rows.weights)
    numbers = np.arange(n, dtype=np.int32)
    return Frontier(np.zeros(1, np.int64), np.array([node], np.int32), np.array([0, n]), numbers, rows.weights)
