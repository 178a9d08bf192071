"""Draws of columns of which some hold categories: these are candidates alone, as a sum of codes means nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from distforest.sources.source import Projections, offsets

if TYPE_CHECKING:
    from distforest.forest.frontier import Frontier
    from distforest.growth.draws.columns import Draw
    from distforest.growth.rng import Keys
    from distforest.sources.source import Int32s


@dataclass(frozen=True)
class CategoriesAlone:
    """The candidates of a draw; one that begins with categories reads these alone, any other reads none.

    Attributes
    ----------
    draw
        Draws single columns and sums.
    n_categories
        Number of categories of each column, 0 for a column of numbers, shape (n_columns,).
    """

    draw: Draw
    n_categories: Int32s

    @property
    def width(self) -> int:
        """That of the draw."""
        return self.draw.width

    @property
    def attempts(self) -> int:
        """That of the draw."""
        return self.draw.attempts

    def __call__(self, frontier: Frontier, keys: Keys, attempt: int) -> Projections:
        """The candidates of each node."""
        drawn = self.draw(frontier, keys, attempt)
        begin, size = drawn.offset[:-1], np.diff(drawn.offset)
        candidate = np.repeat(np.arange(len(size)), size)
        is_first = np.zeros(len(drawn.columns), np.bool_)
        is_first[begin[size > 0]] = True
        holds_categories = self.n_categories[drawn.columns] > 0
        begins_with_categories = np.zeros(len(size), np.bool_)
        begins_with_categories[size > 0] = holds_categories[begin[size > 0]]
        kept = np.where(begins_with_categories[candidate], is_first, ~holds_categories)
        weights = np.where(holds_categories, 1.0, drawn.weights)[kept]
        sizes = np.bincount(candidate[kept], minlength=len(size))
        return Projections(drawn.width, offsets(sizes), drawn.columns[kept], weights)
