"""Whether rows that are scored are those from which a forest has learned: answers about these say little of new rows.

A forest does not keep its training rows, but the leaf of each in every tree. A training row ends in its own leaves
again, in all trees. A new row may do so, too, where rows are near each other or trees are small; then training rows
share all leaves with each other just as often. So what tells is how many more rows end as training rows do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from distforest.amounts import counted
from distforest.sources.source import offsets

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from distforest.sources.source import Int32s

    Keys = NDArray[np.uint64]

LEARNED_ROWS = "learned_rows"
"""The attribute of answers about rows from which the forest seems to have learned: what was told of them."""

FEWEST_KNOWN = 10
"""Fewer rows that end as training rows do are not told of."""

MOST_KEYS, KEYS_AT_ONCE = 1 << 20, 1 << 18
"""Training rows of which about so many are compared, and how many are numbered at a time."""

STARTS_PER_KEY = 2
"""Of the first bits of keys so many are compared that there are this many starts for each key, or more."""

LEAST_EXCESS, LEAST_DEVIATIONS = 0.2, 5.0
"""How many more rows must end as training rows do than these share leaves: as a share of all, in standard deviations.

Of seven data sets, with 10, 50 and 200 trees, deep and shallow, the share of test rows that end as a training row does
lies at most 0.09 above that of training rows that share all leaves with another one."""


class LearnedLeaves(NamedTuple):
    """The leaves of training rows in all trees.

    Of more than `MOST_KEYS` rows, those are compared whose leaves have a key of every ``every``-th kind, and so are
    later rows: whether a row is among them depends on its leaves alone.

    Attributes
    ----------
    keys
        A number for each set of leaves in which a compared training row ends, sorted.
    first
        Number of keys before those that start with these bits, for all first bits, and of all keys. So a row is
        compared with few keys, where a search among all takes longer than walks down some trees.
    n_rows, n_alike
        The number of compared training rows, and of those that end as another one does.
    every
        Which rows are compared: 1 for all.

    Examples
    --------
    >>> learned = LearnedLeaves.of(np.array([[1, 1, 2, 4], [1, 1, 3, 4]], np.int32))
    >>> learned.n_rows, learned.n_alike
    (4, 2)
    >>> learned.seen(np.array([[2, 2], [3, 4]], np.int32)).n_known
    1
    """

    keys: Keys
    first: Int32s
    n_rows: int
    n_alike: int
    every: int = 1

    @classmethod
    def of(cls, nodes: Int32s) -> LearnedLeaves:
        """Those of training rows by their nodes, shape (n_trees, n_rows)."""
        every = max(1, nodes.shape[1] // MOST_KEYS)
        own = np.concatenate(
            [
                _compared(leaf_keys(nodes[:, first : first + KEYS_AT_ONCE]), every)
                for first in range(0, nodes.shape[1], KEYS_AT_ONCE)
            ]
        )
        keys, counts = np.unique(own, return_counts=True)
        n_starts = 1 << (STARTS_PER_KEY * len(keys) + 1).bit_length()
        first = offsets(np.bincount(_start_of(keys, n_starts), minlength=n_starts)).astype(np.int32)
        return cls(keys, first, len(own), int(counts[counts > 1].sum()), every)

    def seen(self, nodes: Int32s) -> SeenLeaves:
        """Count which rows end as a training row does, by their nodes, shape (n_trees, n)."""
        own = _compared(leaf_keys(nodes), self.every)
        start, n_known, left = _start_of(own, len(self.first) - 1), 0, own
        place, end = self.first[start], self.first[start + 1]
        while len(left):
            goes_on = np.flatnonzero(place < end)
            left, place, end = left[goes_on], place[goes_on], end[goes_on]
            is_unlike = self.keys[place] != left
            n_known += len(left) - int(is_unlike.sum())
            left, place, end = left[is_unlike], place[is_unlike] + 1, end[is_unlike]
        return SeenLeaves(len(own), n_known, self.n_rows, self.n_alike)


class SeenLeaves(NamedTuple):
    """How many of some rows end as a training row does; and how many of the training rows as another one."""

    n: int
    n_known: int
    n_training: int
    n_alike: int

    def joined(self, other: SeenLeaves) -> SeenLeaves:
        """What is seen of both."""
        return self._replace(n=self.n + other.n, n_known=self.n_known + other.n_known)

    def told(self) -> str:
        """A warning if rows are those that the forest has learned from; else an empty string.

        Examples
        --------
        >>> SeenLeaves(40, 40, 100, 3).told()
        'of 40 compared rows 40 end in the leaves of training rows, in all trees: the forest seems to have learned from
        them, and its answers about them say little of new rows; judge it by rows that were kept apart, as `distforest
        split` does, or out of bag'
        >>> SeenLeaves(40, 3, 100, 3).told(), SeenLeaves(40, 40, 100, 97).told()
        ('', '')
        """
        if self.n_known < FEWEST_KNOWN:
            return ""
        known, alike = self.n_known / self.n, (self.n_alike + 1) / (self.n_training + 2)
        deviation = np.sqrt(alike * (1 - alike) * (1 / self.n + 1 / self.n_training))
        if known - alike < max(LEAST_EXCESS, LEAST_DEVIATIONS * deviation):
            return ""
        of_all = f"of {counted(self.n, 'compared row')} {self.n_known:,}"
        found = f"{of_all} end in the leaves of training rows, in all trees"
        why = "the forest seems to have learned from them, and its answers about them say little of new rows"
        return f"{found}: {why}; judge it by rows that were kept apart, as `distforest split` does, or out of bag"


def _compared(keys: Keys, every: int) -> Keys:
    """The keys of rows that are compared."""
    return keys if every == 1 else keys[(keys >> np.uint64(32)) % np.uint64(every) == 0]


def _start_of(keys: Keys, n_starts: int) -> NDArray[np.intp]:
    """The first bits of keys; ``n_starts`` is the power of 2 that tells how many."""
    return (keys >> np.uint64(65 - n_starts.bit_length())).astype(np.intp)


def leaf_keys(nodes: Int32s) -> Keys:
    """A number for the nodes of each row in all trees, shape (n_rows,): the same for the same nodes.

    Examples
    --------
    >>> one, other, third = leaf_keys(np.array([[0, 0, 1], [5, 5, 5]], np.int32))
    >>> bool(one == other), bool(one == third)
    (True, False)
    """
    factors = np.random.default_rng(0).integers(1 << 63, size=len(nodes), dtype=np.uint64) * np.uint64(2) + np.uint64(1)
    keys, term = np.full(nodes.shape[1], factors.sum(), np.uint64), np.empty(nodes.shape[1], np.uint64)
    for factor, of_tree in zip(factors, nodes, strict=True):
        np.copyto(term, of_tree, casting="unsafe")
        keys += np.multiply(term, factor, out=term)
    return keys
