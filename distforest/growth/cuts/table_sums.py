"""Sums of a node over candidates, some of which are binned numbers and some categories.

Numbers have the sums of `distforest.growth.cuts.sums`, categories those of `distforest.growth.cuts.categories`. Which
of the two cuts is better is decided as in memory, by `distforest.growth.cuts.category_search`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np

from distforest.growth.cuts.categories import CategorySums
from distforest.growth.cuts.scan import Cuts
from distforest.growth.cuts.sums import NodeSums, RowBlock
from distforest.sources.binned_table import places_of

if TYPE_CHECKING:
    from distforest.growth.cuts.criteria import Tallied
    from distforest.sources.source import Int32s, Ints


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
        Position of each column of categories among these, shape (n_columns,); undefined for numbers.
    """

    numbers: NodeSums
    of_numbers: Ints
    categories: tuple[CategorySums, ...]
    of_categories: Ints
    place: Int32s

    @classmethod
    def zeros(cls, criterion: Tallied, columns: Int32s, n_categories: Int32s) -> Self:
        """Return the sums of no rows; candidate k reads column columns[k]; ``n_categories`` is that of all columns."""
        sizes = n_categories[columns]
        of_numbers = np.flatnonzero(sizes == 0)
        categories = tuple(CategorySums.zeros(criterion, n) for n in sizes[sizes > 0].tolist())
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
        """Return the sums of these rows and of those of ``after``, which come after them."""
        categories = tuple(own.joined(other) for own, other in zip(self.categories, after.categories, strict=True))
        return type(self)(
            self.numbers.joined(after.numbers), self.of_numbers, categories, self.of_categories, self.place
        )

    def cut_numbers(self, min_leaf: int, missing: int) -> Cuts:
        """Return the best cut of a number; ``missing`` is the code of missing values."""
        if not len(self.of_numbers):
            return Cuts.none(1)
        cuts = self.numbers.cut(min_leaf, missing)
        if cuts.candidate[0] >= 0:
            cuts.candidate[0] = self.of_numbers[cuts.candidate[0]]
        return cuts

    def filled(self, candidate: int) -> Ints:
        """Return the weight of the rows of each code of a candidate; for categories, missing values come last."""
        place = int(np.searchsorted(self.of_categories, candidate))
        if place < len(self.of_categories) and self.of_categories[place] == candidate:
            return self.categories[place].bins.weights
        return self.numbers.filled(int(np.searchsorted(self.of_numbers, candidate)))
