"""What a row takes in memory where its features are read by passes, and what follows for a budget."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from distforest.growth.cuts.clusters import TwoClusters
from distforest.growth.cuts.random_cuts import AtRandom

if TYPE_CHECKING:
    import numpy as np

    from distforest.growth.grower import Growth

FINISHING_BYTES = 56
"""Bytes of a row whose node is in memory, beside its features and truth: frontier, children, sides, chosen values."""

SORTING_BYTES = 48
"""Bytes of a row while the values of a candidate are put in order and scanned."""

FRONTIER_BYTES = 16
"""Bytes of a row of a node that is searched: its number and weight, in two levels."""

FLOAT_BYTES, RANDOM_BYTES = 8, 28
"""Bytes of a row for each candidate whose values are held; if cuts are at random, also the sides of all rows."""

WITNESS_BYTES = 4
"""Bytes of a row for each witness of its node."""

BLOCK_SHARE = 8
"""A block of rows takes at most this part of the budget, since a pass holds copies of it."""


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

    Examples
    --------
    >>> room = RowRoom(n_columns=50, truth_bytes=4, width=7)
    >>> room.bytes_on_disk, room.bytes_in_memory, room.bytes_of_large, room.most_rows(100 << 20)
    (208, 368, 76, 1207242)
    """

    n_columns: int
    truth_bytes: int
    width: int
    candidate_bytes: int = FLOAT_BYTES
    n_witnesses: int = 0
    by_some: bool = False

    @classmethod
    def of(cls, growth: Growth, truth: np.ndarray) -> Self:
        """The room of the rows of a growth, whose ``truth`` has an entry for each of them."""
        criterion, at_random = growth.criterion, isinstance(growth.criterion, AtRandom)
        witnesses = criterion.witnesses if isinstance(criterion, TwoClusters) else None
        return cls(
            growth.source.shape[1],
            truth.dtype.itemsize * truth[:1].size,
            growth.draw.width,
            RANDOM_BYTES if at_random else FLOAT_BYTES,
            0 if witnesses is None else witnesses.n_witnesses,
            isinstance(criterion, TwoClusters) and criterion.at_random and growth.limits.min_samples_leaf == 1,
        )

    @property
    def bytes_on_disk(self) -> int:
        """Its features, its truth and its weight."""
        return 4 * self.n_columns + self.truth_bytes + 4

    @property
    def bytes_in_memory(self) -> int:
        """All of it while its node is searched in memory, or while rows of leaves are left out in a copy."""
        held = min(self.width, 2) if self.by_some else self.width  # all rows judge where few have shown no cut
        searched = self.bytes_on_disk + FRONTIER_BYTES + SORTING_BYTES + held * self.candidate_bytes
        return max(searched, self.bytes_on_disk * 3 // 2 + FINISHING_BYTES)

    @property
    def bytes_of_large(self) -> int:
        """All but its features, while these are on disk and the values of one candidate are held."""
        judged = self.truth_bytes + WITNESS_BYTES * self.n_witnesses + self.candidate_bytes
        return FRONTIER_BYTES + SORTING_BYTES + judged

    def held(self, budget: int, n_rows: int) -> int:
        """How many candidates of a node of ``n_rows`` may have their values in memory, at least one."""
        spare = budget - budget // BLOCK_SHARE - n_rows * self.bytes_of_large
        return 1 + max(0, min(self.width - 1, spare // (n_rows * self.candidate_bytes)))

    def n_readings(self, budget: int, n_rows: int) -> int:
        """How often the features of a node of ``n_rows`` are read until its rows have gone to its children.

        Once for as many candidates as are held, once for the values of the chosen one, and once to write rows. If some
        rows judge, only the last two are whole readings.

        Examples
        --------
        >>> room = RowRoom(n_columns=50, truth_bytes=4, width=7)
        >>> room.n_readings(1 << 30, 10**6), room.n_readings(100 << 20, 10**6)
        (2, 6)
        """
        held = self.held(budget, n_rows)
        if self.by_some or held == self.width:
            return 2
        return -(-self.width // held) + 2

    def used(self, budget: int, n_rows: int) -> int:
        """How many bytes of a budget a tree of ``n_rows`` is likely to use, if cuts halve nodes.

        Examples
        --------
        >>> room = RowRoom(n_columns=50, truth_bytes=4, width=7)
        >>> [room.used(budget << 20, 10**6) >> 20 for budget in (80, 200, 400, 4_000)]
        [72, 175, 350, 350]
        """
        large, in_memory = 0, n_rows
        if n_rows * self.bytes_in_memory > budget:
            large = n_rows * (self.bytes_of_large + (self.held(budget, n_rows) - 1) * self.candidate_bytes)
        while in_memory > 1 and in_memory * self.bytes_in_memory > budget:
            in_memory = -(-in_memory // 2)
        return min(budget, max(large, in_memory * self.bytes_in_memory))

    def most_rows(self, budget: int) -> int:
        """The most rows of a node that fit into a budget with the values of one candidate."""
        return (budget - budget // BLOCK_SHARE) // self.bytes_of_large
