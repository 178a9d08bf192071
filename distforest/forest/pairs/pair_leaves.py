"""Leaf tables of forests over pairs: the vote or rank of a pair, by the node in which it ends.

=============  ======================  ====================================================
kind           arrays                  answer of a tree for a pair in node l
=============  ======================  ====================================================
``votes``      class_counts (N, 2)     its vote for dissimilar: see `VOTINGS`
``ranks``      class_counts, scores    how similar: the rank of the leaf, 1 best, 0 worst
=============  ======================  ====================================================

A forest's answer is the sum of ``parts`` over its trees, divided by the sum of ``wholes``: a mean of votes or ranks, or
with the voting ``evidence`` a share of pairs.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from distforest.errors import ArtifactError
from distforest.forest.leaves import expect
from distforest.forest.node_table import PickledWithoutCaches
from distforest.forest.pairs.pair_walks import Walks

if TYPE_CHECKING:
    from distforest.forest.node_table import NodeTable
    from distforest.sources.source import Floats, Ints

VOTINGS = ("majority", "mean", "evidence")
"""The vote of a node with n_0 similar and n_1 dissimilar pairs: 1[n_1 > n_0], 1/2 for equal numbers (RFD, Eq. 4);
n_1 / n; or n_1 of n pairs, which are added up over the trees (RFD, section 2.4)."""

DEEPEST_CELL = 50
"""Largest depth of a cell: scores, multiples of 2^-50, are exact in float64."""

AGGREGATIONS = ("mean", "median")
"""How the ranks that the trees give are combined."""


def _check_counts(table: NodeTable, counts: np.ndarray) -> None:
    expect("class_counts", counts, (len(table.left), 2), np.int32)
    bad = (counts < 0).any(axis=1) | (counts.sum(axis=1, dtype=np.int64) != table.n_rows) | (table.n_rows < 1)
    if bad.any():
        raise ArtifactError(f"class_counts[{int(np.argmax(bad))}]: counts are >= 0 and add up to n_rows > 0")


@dataclass(frozen=True)
class Votes(PickledWithoutCaches):
    """In-bag weight of the similar and the dissimilar pairs in each node, also in inner nodes, shape (N, 2)."""

    table: NodeTable
    class_counts: NDArray[np.int32]
    voting: str
    kind: str = "votes"
    median: bool = False
    dissimilar: bool = True

    def arrays(self) -> dict[str, np.ndarray]:
        """The counts."""
        return {"class_counts": self.class_counts}

    @cached_property
    def walks(self) -> Walks:
        """The trees, as pairs walk down them."""
        return Walks(self.table)

    @cached_property
    def parts(self) -> Floats:
        """The vote for dissimilar, or with evidence the weight of the dissimilar pairs."""
        similar, dissimilar = self.class_counts.T.astype(np.float64)
        if self.voting == "majority":
            return np.where(dissimilar == similar, 0.5, (dissimilar > similar).astype(np.float64))
        return dissimilar if self.voting == "evidence" else dissimilar / (similar + dissimilar)

    @cached_property
    def wholes(self) -> Floats | None:
        """None for one vote, or with evidence the weight of all pairs."""
        return self.class_counts.sum(axis=1).astype(np.float64) if self.voting == "evidence" else None

    def check(self) -> None:
        """Refuse counts that are negative or do not add up to ``n_rows`` > 0; raises ArtifactError."""
        _check_counts(self.table, self.class_counts)


@dataclass(frozen=True)
class Ranks(PickledWithoutCaches):
    """Counts as of `Votes`, and the score of each cell, shape (N,): 1 - k / 2^j of the k-th cell in depth j.

    The score of a leaf is s_D / 2^D (Clemencon, Vogel, section 3.1). A further node of the small tree that parts a cell
    is no cell; its score is -1.
    """

    table: NodeTable
    class_counts: NDArray[np.int32]
    scores: Floats
    aggregation: str
    kind: str = "ranks"
    dissimilar: bool = False

    def arrays(self) -> dict[str, np.ndarray]:
        """Counts and scores."""
        return {"class_counts": self.class_counts, "scores": self.scores}

    @property
    def median(self) -> bool:
        """Whether the answer is the median over the trees."""
        return self.aggregation == "median"

    @cached_property
    def walks(self) -> Walks:
        """The trees, as pairs walk down them."""
        return Walks(self.table)

    @cached_property
    def parts(self) -> Floats:
        """Rank of each leaf in its tree: 1 for the best, less by 1 / number of leaves for each next; 0 elsewhere."""
        ranks = np.zeros(len(self.scores))
        for tree in range(self.table.n_trees):
            ordered = self.leaves_in_order(tree)
            ranks[ordered] = np.arange(len(ordered), 0, -1) / len(ordered)
        return ranks

    @property
    def wholes(self) -> Floats | None:
        """None: each tree gives one rank."""
        return None

    def leaves_in_order(self, tree: int) -> Ints:
        """The leaves of a tree from the best to the worst, numbers in the whole table."""
        start = self.table.tree_start[tree]
        leaves = start + np.flatnonzero(self.table.is_leaf[start : self.table.tree_start[tree + 1]])
        ordered: Ints = leaves[np.argsort(-self.scores[leaves], kind="stable")]
        return ordered

    def check(self) -> None:
        """Refuse bad counts as `Votes.check`, and scores of leaves outside (0, 1] or equal ones within a tree."""
        _check_counts(self.table, self.class_counts)
        expect("scores", self.scores, (len(self.table.left),), np.float64)
        holds = ((self.scores > 0.0) & (self.scores <= 1.0)) | ((self.scores == -1.0) & ~self.table.is_leaf)
        if not holds.all():
            raise ArtifactError(f"scores[{int(np.argmin(holds))}]: the score of a leaf is in (0, 1]")
        for tree in range(self.table.n_trees):
            scores = self.scores[self.leaves_in_order(tree)]
            if (scores[1:] == scores[:-1]).any():
                raise ArtifactError(f"scores: two leaves of tree {tree} have the same score")
