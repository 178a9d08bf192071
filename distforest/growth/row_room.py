"""What a row takes in memory where rows are read by passes, and what follows for a budget."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np

from distforest.growth.cuts.category_orders import REFERENCES
from distforest.growth.cuts.class_costs import ClassCosts
from distforest.growth.cuts.clusters import TwoClusters
from distforest.growth.cuts.criteria import Gini, Variance
from distforest.growth.cuts.random_cuts import AtRandom, judge_of_sides
from distforest.sources.arrays import ArraySource

if TYPE_CHECKING:
    from distforest.growth.grower import Growth
    from distforest.sources.source import Int32s

FINISHING_BYTES = 56
"""Bytes of a row whose node is in memory, beside its features and truth: frontier, children, sides, chosen values."""

SORTING_BYTES = 48
"""Bytes of a row while the values of a candidate are put in order and scanned."""

COST_BYTES, SORTING_COSTS_BYTES = 28, 68
"""The same beside the values of each candidate, and for all of them together, where costs of classes judge."""

RANKED_BY_COSTS = 3 * REFERENCES // 2
"""The dimensions that stand for the three mean distances of a category to each reference row."""

FRONTIER_BYTES = 16
"""Bytes of a row of a node that is searched: its number and weight, in two levels."""

PICKED_BYTES = 16
"""Bytes of a row for the values of the chosen candidates, of numbers and of categories, in bins beside categories."""

MERGED_BYTES = 120
"""Bytes of a merged row while it is made, put in order and judged, and while the best column so far is kept."""

RANKED_BYTES, RANKED_DIMENSION_BYTES = 84, 16
"""Bytes of a category while a node's categories are put in order; and for each dimension of what orders them."""

FLOAT32_BYTES = 4
"""Bytes of a staged value."""

WEIGHT_BYTES = NUMBER_BYTES = 4
"""Bytes of how often a tree drew a row, and of its number among all rows, on disk."""

FLOAT_BYTES, RANDOM_BYTES = 8, 28
"""Bytes of a row for each candidate whose values are held; if cuts are at random, also the sides of all rows."""

WITNESS_BYTES = 4
"""Bytes of a row for each witness of its node."""

BLOCK_SHARE = 8
"""A block of rows takes at most this part of the budget, since a pass holds copies of it."""


NO_LIMIT = 1 << 62
"""More rows than there are."""


@dataclass(frozen=True)
class CategorySizes:
    """How many categories there are, and what the sums over them take.

    Attributes
    ----------
    n_columns
        Number of columns of categories.
    most
        Categories of the column that has the most.
    n_classes
        Number of classes that judge; None: vectors do.
    n_dimensions
        Number of dimensions of these.

    Examples
    --------
    >>> sizes = CategorySizes(n_columns=3, most=999, n_classes=2)
    >>> sizes.ranked_bytes, sizes.sums_bytes, sizes.merged_bytes(10**6), sizes.merged_bytes(500)
    (99900, 16000, 240000, 60000)
    """

    n_columns: int
    most: int
    n_classes: int | None = None
    n_dimensions: int = 1

    @classmethod
    def of(cls, growth: Growth) -> Self | None:
        """Those of a growth; None if all columns hold numbers."""
        if growth.n_categories is None:
            return None
        criterion = judge_of_sides(growth.criterion)
        of_vectors = {"n_dimensions": criterion.fixed.shape[1]} if isinstance(criterion, Variance) else {}
        if isinstance(criterion, ClassCosts):
            of_vectors = {"n_dimensions": RANKED_BY_COSTS}
        n_classes = criterion.n_classes if isinstance(criterion, Gini) else None
        return cls(*sizes_of(growth.n_categories), n_classes, **of_vectors)

    @property
    def ranked_bytes(self) -> int:
        """Bytes while the categories of a column are put in order."""
        ordered_by = self.n_dimensions if self.n_classes is None else self.n_classes
        return self.most * (RANKED_BYTES + RANKED_DIMENSION_BYTES * (1 if ordered_by == 2 else ordered_by))

    @property
    def sums_bytes(self) -> int:
        """Bytes of the sums over a column."""
        of_category = 8 + 4 * self.n_classes if self.n_classes is not None else 16 + 8 * self.n_dimensions
        return (self.most + 1) * of_category

    def merged_bytes(self, n_rows: int) -> int:
        """Bytes of what a node of ``n_rows`` merges to; by vectors, of two rows for each category."""
        n_merged = (self.most + 1) * (2 if self.n_classes is None else self.n_classes)
        if self.n_classes is None:
            return n_merged * (MERGED_BYTES + 8 * self.n_dimensions)
        return min(n_merged, n_rows) * MERGED_BYTES


def sizes_of(n_categories: Int32s | tuple[int, ...]) -> tuple[int, int]:
    """How many columns hold categories, and how many categories the one has that has the most.

    Examples
    --------
    >>> sizes_of((0, 4, 3))
    (2, 4)
    """
    sizes = np.asarray(n_categories)
    return int((sizes > 0).sum()), int(sizes.max(initial=0))


def room_of(growth: Growth, truth: np.ndarray) -> RowRoom | TableRoom | CodeRoom:
    """The room of the rows of a growth, whose ``truth`` has an entry for each of them."""
    if isinstance(growth.source, ArraySource):
        return RowRoom.of(growth, truth)
    known, sizes = (growth.source.shape[1], bytes_of_truth(truth)), CategorySizes.of(growth)
    return CodeRoom(*known) if sizes is None else TableRoom(*known, growth.draw.width, sizes)


def bytes_of_truth(truth: np.ndarray) -> int:
    """Bytes of the truth of a row."""
    return truth.dtype.itemsize * int(np.prod(truth.shape[1:]))


@dataclass(frozen=True)
class CodeRoom:
    """What a row of codes of bins takes.

    Attributes
    ----------
    n_columns
        Number of features.
    truth_bytes
        Bytes of its truth.

    Examples
    --------
    >>> room = CodeRoom(n_columns=50, truth_bytes=4)
    >>> room.bytes_on_disk, room.rows_in_memory(10**6)
    (62, 8474)
    """

    n_columns: int
    truth_bytes: int

    @property
    def bytes_on_disk(self) -> int:
        """Its codes, its truth, its weight and its number."""
        return self.n_columns + self.truth_bytes + WEIGHT_BYTES + NUMBER_BYTES

    def rows_in_memory(self, budget: int) -> int:
        """How many rows fit into a budget while their nodes are finished."""
        return budget // (self.bytes_on_disk + FINISHING_BYTES)


@dataclass(frozen=True)
class TableRoom:
    """What a row takes of which numbers are in bins, and categories as they are.

    Attributes
    ----------
    n_columns
        Number of features.
    truth_bytes
        Bytes of its truth.
    width
        Number of candidates of a node.
    categories
        The categories.

    Examples
    --------
    >>> room = TableRoom(50, 4, 7, CategorySizes(n_columns=10, most=1000, n_classes=2))
    >>> room.bytes_on_disk, room.bytes_in_memory, room.held(1 << 20, 10**6), room.n_readings(1 << 20, 10**6)
    (102, 209, 7, 2)
    """

    n_columns: int
    truth_bytes: int
    width: int
    categories: CategorySizes

    @property
    def stored_bytes(self) -> int:
        """Bytes of its codes and categories in the files of all rows."""
        return self.n_columns + FLOAT32_BYTES * self.categories.n_columns

    @property
    def bytes_on_disk(self) -> int:
        """Its codes, its categories, its truth, its weight and its number."""
        return self.stored_bytes + self.truth_bytes + WEIGHT_BYTES + NUMBER_BYTES

    @property
    def bytes_in_memory(self) -> int:
        """All of it while rows of leaves are left out in a copy.

        The search takes less: it merges rows, and holds one value of each (`distforest.growth.cuts.merged_rows`).
        """
        return self.bytes_on_disk * 3 // 2 + FINISHING_BYTES

    @property
    def _most_candidates(self) -> int:
        """The most candidates of a node that are categories."""
        return min(self.width, self.categories.n_columns)

    @property
    def ranked_bytes(self) -> int:
        """Bytes while the categories of a column are put in order."""
        return self.categories.ranked_bytes

    def rows_in_memory(self, budget: int) -> int:
        """How many rows fit into a budget while their nodes are finished."""
        return max(0, budget - self.ranked_bytes) // self.bytes_in_memory

    def _spare(self, budget: int) -> int:
        """What is left of a budget for sums and merged rows."""
        return budget - budget // BLOCK_SHARE - self.ranked_bytes

    def held(self, budget: int, n_rows: int) -> int:
        """Over how many columns of categories a node of ``n_rows`` may have sums at once, at least one."""
        spare = self._spare(budget) - self.categories.merged_bytes(n_rows)
        return max(1, min(self._most_candidates, spare // self.categories.sums_bytes))

    def n_readings(self, budget: int, n_rows: int) -> int:
        """How often the rows of a node of ``n_rows`` are read: for sums, and to move them to its children."""
        return -(-self._most_candidates // self.held(budget, n_rows)) + 1

    def used(self, budget: int, n_rows: int) -> int:
        """How many bytes of a budget a tree of ``n_rows`` is likely to use, if cuts halve nodes.

        They are more than the budget if the sums over one column do not fit into it.
        """
        in_memory = min(budget, _in_memory(self, budget, n_rows))
        if n_rows <= self.rows_in_memory(budget):
            return in_memory
        sizes = self.categories
        summed = self.ranked_bytes + sizes.merged_bytes(n_rows) + self.held(budget, n_rows) * sizes.sums_bytes
        return max(in_memory, budget // BLOCK_SHARE + summed)

    def most_rows(self, budget: int) -> int:
        """The most rows of a node that fit into a budget: all, where the sums over a column of categories do."""
        spare = self._spare(budget) - self.categories.sums_bytes
        if spare >= self.categories.merged_bytes(NO_LIMIT):
            return NO_LIMIT
        return max(0, spare // MERGED_BYTES) if self.categories.n_classes is not None else 0


@dataclass(frozen=True)
class RowRoom:
    """What a row of features of float32 takes.

    Attributes
    ----------
    n_columns
        Number of features.
    truth_bytes
        Bytes of its truth.
    width
        Number of candidates of a node.
    candidate_bytes
        Bytes for each candidate whose values are held.
    n_witnesses
        Number of witnesses of a node.
    by_some
        Whether some rows of a node judge its cuts.
    categories
        The categories; None if all features are numbers.
    sorting_bytes
        Bytes while the values of a candidate are put in order and scanned.

    Examples
    --------
    >>> room = RowRoom(n_columns=50, truth_bytes=4, width=7)
    >>> room.bytes_on_disk, room.bytes_in_memory, room.bytes_of_large, room.most_rows(100 << 20)
    (212, 374, 76, 1207242)
    """

    n_columns: int
    truth_bytes: int
    width: int
    candidate_bytes: int = FLOAT_BYTES
    n_witnesses: int = 0
    by_some: bool = False
    categories: CategorySizes | None = None
    sorting_bytes: int = SORTING_BYTES

    @classmethod
    def of(cls, growth: Growth, truth: np.ndarray) -> Self:
        """The room of the rows of a growth, whose ``truth`` has an entry for each of them."""
        criterion, at_random = growth.criterion, isinstance(growth.criterion, AtRandom)
        by_costs = isinstance(judge_of_sides(criterion), ClassCosts)
        witnesses = criterion.witnesses if isinstance(criterion, TwoClusters) else None
        return cls(
            growth.source.shape[1],
            bytes_of_truth(truth),
            growth.draw.width,
            (RANDOM_BYTES if at_random else FLOAT_BYTES) + (COST_BYTES if by_costs else 0),
            0 if witnesses is None else witnesses.n_witnesses,
            isinstance(criterion, TwoClusters) and criterion.at_random and growth.limits.min_samples_leaf == 1,
            CategorySizes.of(growth),
            SORTING_COSTS_BYTES if by_costs else SORTING_BYTES,
        )

    @property
    def stored_bytes(self) -> int:
        """Bytes of it in files of all rows that are made once: none, as features are staged."""
        return 0

    @property
    def bytes_on_disk(self) -> int:
        """Its features, its truth, its weight and its number."""
        return FLOAT32_BYTES * self.n_columns + self.truth_bytes + WEIGHT_BYTES + NUMBER_BYTES

    @property
    def bytes_in_memory(self) -> int:
        """All of it while its node is searched in memory, or while rows of leaves are left out in a copy."""
        held = min(self.width, 2) if self.by_some else self.width  # all rows judge where few have shown no cut
        searched = self.bytes_on_disk + FRONTIER_BYTES + self.sorting_bytes + held * self.candidate_bytes
        return max(searched, self.bytes_on_disk * 3 // 2 + FINISHING_BYTES)

    @property
    def bytes_of_large(self) -> int:
        """All but its features, while these are on disk and the values of one candidate are held."""
        judged = self.truth_bytes + WITNESS_BYTES * self.n_witnesses + self.candidate_bytes
        return FRONTIER_BYTES + self.sorting_bytes + judged

    @property
    def ranked_bytes(self) -> int:
        """Bytes while the categories of a column are put in order."""
        return 0 if self.categories is None else self.categories.ranked_bytes

    def rows_in_memory(self, budget: int) -> int:
        """How many rows fit into a budget while their nodes are finished."""
        return max(0, budget - self.ranked_bytes) // self.bytes_in_memory

    def held(self, budget: int, n_rows: int) -> int:
        """How many candidates of a node of ``n_rows`` may have their values in memory, at least one."""
        spare = budget - budget // BLOCK_SHARE - self.ranked_bytes - n_rows * self.bytes_of_large
        return 1 + max(0, min(self.width - 1, spare // (n_rows * self.candidate_bytes)))

    def n_readings(self, budget: int, n_rows: int) -> int:
        """How often the features of a node of ``n_rows`` are read until its rows have gone to its children.

        Once for as many candidates as are held, once for the values of the chosen one, and once to write rows. If some
        rows judge, only the last two are whole readings. Categories are read once more, to list them.

        Examples
        --------
        >>> room = RowRoom(n_columns=50, truth_bytes=4, width=7)
        >>> room.n_readings(1 << 30, 10**6), room.n_readings(100 << 20, 10**6)
        (2, 6)
        """
        held, listed = self.held(budget, n_rows), 0 if self.categories is None else 1
        if self.by_some or held == self.width:
            return 2 + listed
        return -(-self.width // held) + 2 + listed

    def used(self, budget: int, n_rows: int) -> int:
        """How many bytes of a budget a tree of ``n_rows`` is likely to use, if cuts halve nodes.

        Examples
        --------
        >>> room = RowRoom(n_columns=50, truth_bytes=4, width=7)
        >>> [room.used(budget << 20, 10**6) >> 20 for budget in (80, 200, 400, 4_000)]
        [72, 178, 356, 356]
        """
        large = 0
        if n_rows > self.rows_in_memory(budget):
            of_row = self.bytes_of_large + (self.held(budget, n_rows) - 1) * self.candidate_bytes
            large = self.ranked_bytes + n_rows * of_row
        return min(budget, max(large, _in_memory(self, budget, n_rows)))

    def most_rows(self, budget: int) -> int:
        """The most rows of a node that fit into a budget with the values of one candidate."""
        return (budget - budget // BLOCK_SHARE - self.ranked_bytes) // self.bytes_of_large


def _in_memory(room: RowRoom | TableRoom, budget: int, n_rows: int) -> int:
    """Bytes of the largest nodes of a tree of ``n_rows`` that are finished in memory, if cuts halve nodes."""
    while n_rows > 1 and n_rows > room.rows_in_memory(budget):
        n_rows = -(-n_rows // 2)
    return room.ranked_bytes + n_rows * room.bytes_in_memory
