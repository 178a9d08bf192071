"""Leaf tables of forests over pairs: what a node says of a pair that ends in it.

=============  ======================  ====================================================
kind           arrays                  a tree says of a pair in node l
=============  ======================  ====================================================
``votes``      class_counts (N, 2)     its vote for unlike: see `VOTINGS`
``ranks``      class_counts, scores    how alike: the rank of the leaf, 1 best, 0 worst
=============  ======================  ====================================================

A forest's answer is the sum of ``parts`` over its trees, divided by the sum of ``wholes``: a mean of votes or ranks, or
with evidence a share of pairs.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from distforest.errors import ArtifactError
from distforest.forest.leaves import expect
from distforest.forest.pairs.pair_walks import Walks

if TYPE_CHECKING:
    from distforest.forest.table import NodeTable
    from distforest.sources.source import Floats, Ints

VOTINGS = ("majority", "mean", "evidence")
"""What a node with n_0 pairs alike and n_1 unlike says: 1[n_1 > n_0], 1/2 for equal numbers (RFD, Eq. 4); n_1 / n;
or n_1 of n pairs, which are added up over the trees (RFD, section 2.4)."""

DEEPEST_CELL = 50
"""Deepest cells: their scores, multiples of 2^-50, have a float64 each."""

AGGREGATIONS = ("mean", "median")
"""How the ranks of the trees become one."""


class PairLeafTable(Protocol):
    """What the nodes of a forest say of pairs."""

    @property
    def kind(self) -> str:
        """The name of the table's kind."""

    @property
    def parts(self) -> Floats:
        """What each node adds to the answer, shape (N,)."""

    @property
    def wholes(self) -> Floats | None:
        """Of how much that is a part, shape (N,); None: of one."""

    @property
    def median(self) -> bool:
        """Whether the answer is the median over the trees."""

    @property
    def unlike(self) -> bool:
        """Whether the answer says how unlike a pair is, or how alike."""

    def arrays(self) -> dict[str, np.ndarray]:
        """The table's own arrays by name."""

    def check(self) -> None:
        """Refuse arrays that do not fit the node table; raises ArtifactError."""


def _check_counts(table: NodeTable, counts: np.ndarray) -> None:
    expect("class_counts", counts, (len(table.left), 2), np.int32)
    bad = (counts < 0).any(axis=1) | (counts.sum(axis=1, dtype=np.int64) != table.n_rows) | (table.n_rows < 1)
    if bad.any():
        raise ArtifactError(f"class_counts[{int(np.argmax(bad))}]: counts are >= 0 and add up to n_rows > 0")


@dataclass(frozen=True)
class Votes:
    """In-bag weight of the pairs alike and unlike in each node, inner nodes too, shape (N, 2)."""

    table: NodeTable
    class_counts: NDArray[np.int32]
    voting: str
    kind: str = "votes"
    median: bool = False
    unlike: bool = True

    def arrays(self) -> dict[str, np.ndarray]:
        """The counts."""
        return {"class_counts": self.class_counts}

    @cached_property
    def walks(self) -> Walks:
        """The trees, for pairs to walk down."""
        return Walks(self.table)

    @cached_property
    def parts(self) -> Floats:
        """The vote for unlike, or the pairs unlike."""
        alike, unlike = self.class_counts.T.astype(np.float64)
        if self.voting == "majority":
            return np.where(unlike == alike, 0.5, (unlike > alike).astype(np.float64))
        return unlike if self.voting == "evidence" else unlike / (alike + unlike)

    @cached_property
    def wholes(self) -> Floats | None:
        """One vote, or all pairs."""
        return self.class_counts.sum(axis=1).astype(np.float64) if self.voting == "evidence" else None

    def check(self) -> None:
        """Every node has counts, none of them negative, as many as n_rows says."""
        _check_counts(self.table, self.class_counts)


@dataclass(frozen=True)
class Ranks:
    """Counts as of `Votes`, and the score of each cell, shape (N,): 1 - k / 2^j of the k-th cell in depth j.

    The score of a leaf is s_D / 2^D (Clemencon, Vogel, section 3.1). A node of the small tree that parts a cell is no
    cell; its score is -1.
    """

    table: NodeTable
    class_counts: NDArray[np.int32]
    scores: Floats
    aggregation: str
    kind: str = "ranks"
    unlike: bool = False

    def arrays(self) -> dict[str, np.ndarray]:
        """Counts and scores."""
        return {"class_counts": self.class_counts, "scores": self.scores}

    @property
    def median(self) -> bool:
        """Whether the answer is the median over the trees."""
        return self.aggregation == "median"

    @cached_property
    def walks(self) -> Walks:
        """The trees, for pairs to walk down."""
        return Walks(self.table)

    @cached_property
    def parts(self) -> Floats:
        """Rank of each leaf among those of its tree, from 1 for the best in steps of 1 / their number; 0 elsewhere."""
        ranks = np.zeros(len(self.scores))
        for tree in range(self.table.n_trees):
            ordered = self.leaves_in_order(tree)
            ranks[ordered] = np.arange(len(ordered), 0, -1) / len(ordered)
        return ranks

    @property
    def wholes(self) -> Floats | None:
        """One rank."""
        return None

    def leaves_in_order(self, tree: int) -> Ints:
        """The leaves of a tree from the best to the worst, numbers in the whole table."""
        start = self.table.tree_start[tree]
        leaves = start + np.flatnonzero(self.table.is_leaf[start : self.table.tree_start[tree + 1]])
        ordered: Ints = leaves[np.argsort(-self.scores[leaves], kind="stable")]
        return ordered

    def check(self) -> None:
        """Every leaf has a score in (0, 1] that no other leaf of its tree has; counts as of `Votes`."""
        _check_counts(self.table, self.class_counts)
        expect("scores", self.scores, (len(self.table.left),), np.float64)
        holds = ((self.scores > 0.0) & (self.scores <= 1.0)) | ((self.scores == -1.0) & ~self.table.is_leaf)
        if not holds.all():
            raise ArtifactError(f"scores[{int(np.argmin(holds))}]: the score of a leaf is in (0, 1]")
        for tree in range(self.table.n_trees):
            found = self.scores[self.leaves_in_order(tree)]
            if (found[1:] == found[:-1]).any():
                raise ArtifactError(f"scores: two leaves of tree {tree} have one score")
