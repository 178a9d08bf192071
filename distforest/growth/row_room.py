"""The memory of a row if rows are read by passes, and its consequences for a budget."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self

import numpy as np

from distforest.growth.cuts.category_orders import REFERENCES
from distforest.growth.cuts.class_costs import ClassCosts
from distforest.growth.cuts.criteria import Tallied
from distforest.growth.cuts.random_cuts import AtRandom, side_criterion
from distforest.growth.cuts.two_clusters import TwoClusters
from distforest.sources.arrays import ArraySource

if TYPE_CHECKING:
    from distforest.growth.grower import Growth
    from distforest.sources.source import Int32s

FINISHING_BYTES = 56
"""Bytes of a row whose node is in memory, beside its features and truth: frontier, children, sides, chosen values."""

SORTING_BYTES = 48
"""Bytes of a row while the values of a candidate are put in order and scanned."""

COST_BYTES, SORTING_COSTS_BYTES = 28, 68
"""Bytes of a row beside the values of each candidate, and for all of them together, if costs of classes score."""

RANKED_BY_COSTS = 3 * REFERENCES // 2
"""Number of dimensions for the three mean distances of a category to each reference row."""

FRONTIER_BYTES = 16
"""Bytes of a row of a node that is searched: its number and weight, in two levels."""

PICKED_BYTES = 16
"""Bytes of a row for the values of the chosen candidates, of numbers and of categories, in bins beside categories."""

KEPT_BYTES = 96
"""Bytes of a category beside the sums of its column, for its rank in two columns and while the node is written."""

RANKED_BYTES, RANKED_DIMENSION_BYTES = 84, 16
"""Bytes of a category while a node's categories are put in order; and for each dimension of their order."""

FLOAT32_BYTES = 4
"""Bytes of a staged value."""

WEIGHT_BYTES = NUMBER_BYTES = 4
"""Bytes on disk of a row's multiplicity in a tree, and of its number among all rows."""

FLOAT_BYTES, RANDOM_BYTES = 8, 28
"""Bytes of a row for each candidate whose values are held; if cuts are at random, also the sides of all rows."""

WITNESS_BYTES = 4
"""Bytes of a row per witness of its node."""

BLOCK_SHARE = 8
"""Inverse of the largest share of the budget for a block of rows, since a pass holds copies of it."""


NO_LIMIT = 1 << 62
"""A number above any number of rows."""


@dataclass(frozen=True)
class CategorySizes:
    """The numbers of categories, and the memory of the sums over them.

    Attributes
    ----------
    n_columns
        Number of columns of categories.
    most
        Largest number of categories of a column.
    n_classes
        Number of classes that score cuts; None: vectors score them.
    n_dimensions
        Number of dimensions of these vectors.

    Examples
    --------
    >>> sizes = CategorySizes(n_columns=3, most=999, n_classes=2)
    >>> sizes.ranked_bytes, sizes.sums_bytes, sizes.kept_bytes
    (99900, 24000, 120000)
    """

    n_columns: int
    most: int
    n_classes: int | None = None
    n_dimensions: int = 1

    @classmethod
    def from_growth(cls, growth: Growth) -> Self | None:
        """Return the sizes for a growth; None if all columns are numerical."""
        if growth.n_categories is None:
            return None
        criterion, n_classes, n_dimensions = side_criterion(growth.criterion), None, 1
        if isinstance(criterion, Tallied):
            n_classes = criterion.impurity.n_sums if criterion.truth.ndim == 1 else None
            n_dimensions = criterion.n_dimensions
        elif isinstance(criterion, ClassCosts):
            n_dimensions = RANKED_BY_COSTS
        return cls(*sizes_of(growth.n_categories), n_classes, n_dimensions)

    @property
    def ranked_bytes(self) -> int:
        """Bytes while the categories of a column are put in order."""
        ordered_by = self.n_dimensions if self.n_classes is None else self.n_classes
        return self.most * (RANKED_BYTES + RANKED_DIMENSION_BYTES * (1 if ordered_by == 2 else ordered_by))

    @property
    def sums_bytes(self) -> int:
        """Bytes of the sums over a column."""
        of_category = 16 + (4 * self.n_classes if self.n_classes is not None else 8 * self.n_dimensions)
        return (self.most + 1) * of_category

    @property
    def kept_bytes(self) -> int:
        """Bytes of the best column so far while others are scored, and until its node is written."""
        return self.sums_bytes + (self.most + 1) * KEPT_BYTES


def sizes_of(n_categories: Int32s | tuple[int, ...]) -> tuple[int, int]:
    """Return the number of columns of categories, and the largest number of categories of a column.

    Examples
    --------
    >>> sizes_of((0, 4, 3))
    (2, 4)
    """
    sizes = np.asarray(n_categories)
    return int((sizes > 0).sum()), int(sizes.max(initial=0))


def room_of(growth: Growth, truth: np.ndarray) -> RowRoom:
    """Return the memory of a growth's rows; ``truth`` has an entry for each of them."""
    criterion, sizes = growth.criterion, CategorySizes.from_growth(growth)
    truth_bytes = truth.dtype.itemsize * int(np.prod(truth.shape[1:]))
    room = RowRoom(growth.source.shape[1], truth_bytes, growth.draw.width, sizes)
    if not isinstance(growth.source, ArraySource):
        return replace(room, in_bins=True)
    if isinstance(criterion, TwoClusters):
        n_witnesses = 0 if criterion.witnesses is None else criterion.witnesses.n_witnesses
        by_some = criterion.at_random and growth.limits.min_samples_leaf == 1
        return replace(room, n_witnesses=n_witnesses, by_some=by_some)
    is_of_costs = isinstance(side_criterion(criterion), ClassCosts)
    return replace(room, at_random=isinstance(criterion, AtRandom), of_costs=is_of_costs)


@dataclass(frozen=True)
class RowRoom:
    """The memory of a row whose features are read directly, as float32, or whose numbers are in bins.

    Attributes
    ----------
    n_columns
        Number of features.
    truth_bytes
        Bytes of the row's truth.
    width
        Number of candidates of a node.
    categories
        The categories; None if all features are numbers.
    in_bins
        Whether numbers are in bins, beside unbinned categories, and cuts follow from sums. The following attributes are
        then undefined.
    at_random, of_costs
        Whether thresholds are drawn, and whether costs of classes score cuts.
    n_witnesses
        Number of witnesses of a node.
    by_some
        Whether some rows of a node score its cuts.

    Examples
    --------
    >>> room = RowRoom(n_columns=50, truth_bytes=4, width=7)
    >>> room.bytes_on_disk, room.bytes_in_memory, room.most_rows(100 << 20)
    (212, 374, 1207242)
    >>> room.n_readings(1 << 30, 10**6), room.n_readings(100 << 20, 10**6)
    (2, 6)
    >>> room = RowRoom(50, 4, 7, in_bins=True)
    >>> room.bytes_on_disk, room.rows_in_memory(10**6)
    (62, 8474)
    >>> room = RowRoom(50, 4, 7, CategorySizes(n_columns=10, most=1000, n_classes=2), in_bins=True)
    >>> room.bytes_on_disk, room.bytes_in_memory, room.held(1 << 20, 10**6), room.n_readings(1 << 20, 10**6)
    (102, 209, 7, 2)
    """

    n_columns: int
    truth_bytes: int
    width: int
    categories: CategorySizes | None = None
    in_bins: bool = False
    at_random: bool = False
    of_costs: bool = False
    n_witnesses: int = 0
    by_some: bool = False

    @property
    def value_bytes(self) -> int:
        """Bytes of the row's features, or of its codes and categories."""
        if not self.in_bins:
            return FLOAT32_BYTES * self.n_columns
        return self.n_columns + FLOAT32_BYTES * (0 if self.categories is None else self.categories.n_columns)

    @property
    def stored_bytes(self) -> int:
        """Bytes of the row in files of all rows that are made once: 0 for features themselves, which are staged."""
        return self.value_bytes if self.in_bins else 0

    @property
    def bytes_on_disk(self) -> int:
        """Bytes of the row's features, truth, weight and number."""
        return self.value_bytes + self.truth_bytes + WEIGHT_BYTES + NUMBER_BYTES

    @property
    def candidate_bytes(self) -> int:
        """Bytes of the row per candidate whose values are held."""
        return (RANDOM_BYTES if self.at_random else FLOAT_BYTES) + (COST_BYTES if self.of_costs else 0)

    @property
    def searched_bytes(self) -> int:
        """Bytes of the row beside its features and the values of candidates, while its node is searched."""
        return FRONTIER_BYTES + (SORTING_COSTS_BYTES if self.of_costs else SORTING_BYTES)

    @property
    def bytes_in_memory(self) -> int:
        """Bytes of the row while its node is searched in memory, or while a copy omits rows of leaves.

        Searches over bins take less: they add rows up by category, and hold one value of each.
        """
        if self.in_bins and self.categories is None:
            return self.bytes_on_disk + FINISHING_BYTES
        copied = self.bytes_on_disk * 3 // 2 + FINISHING_BYTES
        if self.in_bins:
            return copied
        held = min(self.width, 2) if self.by_some else self.width  # all rows score if a few have found no cut
        return max(self.bytes_on_disk + self.searched_bytes + held * self.candidate_bytes, copied)

    @property
    def ranked_bytes(self) -> int:
        """Bytes while the categories of a column are put in order."""
        return 0 if self.categories is None else self.categories.ranked_bytes

    def rows_in_memory(self, budget: int) -> int:
        """Return how many rows fit into a budget while their nodes are finished."""
        return max(0, budget - self.ranked_bytes) // self.bytes_in_memory

    @property
    def most_held(self) -> int:
        """Largest number of candidates of a large node whose values, or sums over categories, are held."""
        if not self.in_bins:
            return self.width
        return 0 if self.categories is None else min(self.width, self.categories.n_columns)

    def _of_large(self, n_rows: int) -> tuple[int, int]:
        """Return the bytes of a large node beside its candidates, and per candidate whose values or sums are held."""
        if not self.in_bins:
            scored = self.searched_bytes + self.truth_bytes + WITNESS_BYTES * self.n_witnesses
            return n_rows * scored, n_rows * self.candidate_bytes
        return (0, 1) if self.categories is None else (self.categories.kept_bytes, self.categories.sums_bytes)

    def _spare(self, budget: int) -> int:
        """Return the rest of a budget beside a block of rows and the order of categories."""
        return budget - budget // BLOCK_SHARE - self.ranked_bytes

    def held(self, budget: int, n_rows: int) -> int:
        """Return the number of candidates whose values or sums a node of ``n_rows`` may hold at once, at least one."""
        beside, of_candidate = self._of_large(n_rows)
        return max(1, min(self.most_held, (self._spare(budget) - beside) // of_candidate))

    def n_readings(self, budget: int, n_rows: int) -> int:
        """Return the number of times that the rows of a node of ``n_rows`` are read until its children have them.

        Rows are read once for as many candidates as are held, and once to write them. Features themselves are read once
        more for the values of the chosen candidate if not all were held, and to list categories; if some rows score,
        only these are read for the candidates.
        """
        turns = max(1, -(-self.most_held // self.held(budget, n_rows)))
        if self.in_bins:
            return turns + 1
        return (0 if self.by_some or turns == 1 else turns) + (2 if self.categories is None else 3)

    def used(self, budget: int, n_rows: int) -> int:
        """Return the bytes that a tree of ``n_rows`` uses: its budget, unless one candidate takes more."""
        beside, of_candidate = self._of_large(n_rows)
        large = budget - self._spare(budget) + beside + self.held(budget, n_rows) * of_candidate
        return budget if n_rows <= self.rows_in_memory(budget) else max(budget, large)

    def most_rows(self, budget: int) -> int:
        """Return the most rows of a node that fit into a budget with the values, or the sums, of one candidate."""
        if not self.in_bins:
            return self._spare(budget) // sum(self._of_large(1))
        return NO_LIMIT if self._spare(budget) >= sum(self._of_large(NO_LIMIT)) else 0
