"""Forests that have learned little: trees that are a root alone, rows that stay at roots, and the consequences."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from distforest.forest.leaf_kinds import NEAREST, UNOBSERVED, KeepsOfPairs
from distforest.forest.observed_leaves import share_of_pairs
from distforest.forest.sealed.artifact import meaning_of, read_array
from distforest.forest.table import n_roots_of

if TYPE_CHECKING:
    from distforest.forest.forest import Forest
    from distforest.forest.leaf_kinds import LeafKind
    from distforest.forest.sealed.artifact import Manifest
    from distforest.sources.source import Int32s, Ints

FOLLOWS = {
    **dict.fromkeys(("class_counts", "means", "taught_targets"), "every distance is the same, and every prediction"),
    **dict.fromkeys(("leaf_distances", "members", "graph", "votes"), "every distance is the same"),
    NEAREST: "every distance is the same, and the most similar of all objects votes",
    "same_leaf": "every distance is 0",
    "path_lengths": "every score is the same, and every distance is 0",
    "ranks": "every similarity is the same",
}
"""The consequence of no tree having a cut, by the kind of leaf table, or for votes of training objects."""

MOST_STAY = 0.7
"""The share of training rows staying at roots above which a fit warns. On wine, iris and simulated judges it is
reached where about half of the pairs are observed; beyond it, surrogate splits classify 5 to 40 points more rightly."""


def unobserved_of_manifest(address: str, manifest: Manifest) -> float | None:
    """Share of the pairs of leaves of a sealed forest of which no distance was observed; None if all distances were.

    Raises
    ------
    ArtifactError
        The two arrays from which it follows are damaged.
    """
    if UNOBSERVED not in manifest["arrays"]:
        return None
    sizes, unobserved = (read_array(address, manifest, name) for name in ("tree_size", UNOBSERVED))
    return share_of_pairs(unobserved, (sizes + 1) // 2)


@dataclass(frozen=True)
class Roots:
    """Trees that are a root alone, because no cut was made.

    Attributes
    ----------
    n_roots, n_trees
        Number of such trees, and of all trees.
    n_rows
        Number of training rows, or of points of the training pairs.
    leaf
        The kind of leaf table.
    """

    n_roots: int
    n_trees: int
    n_rows: int
    leaf: LeafKind

    @classmethod
    def of_forest(cls, forest: Forest) -> Self:
        """Count the roots of a forest in memory."""
        return cls(n_roots_of(forest.table.tree_size), forest.n_trees, forest.n_training, forest.meaning.leaf)

    @classmethod
    def of_manifest(cls, address: str, manifest: Manifest) -> Self:
        """Count the roots of a sealed forest from its tree sizes; raises ArtifactError if they are damaged."""
        sizes = read_array(address, manifest, "tree_size")
        n_rows = int(manifest["arrays"]["in_bag"]["shape"][-1])
        return cls(n_roots_of(sizes), len(sizes), n_rows, meaning_of(manifest).leaf)

    @property
    def are_too_many(self) -> bool:
        """Whether all trees are roots, or more than half of them.

        Fewer can be due to chance: a tree has no cut if no two rows that it draws differ. If one of n rows differs from
        the others, a bootstrap misses it with probability (1 - 1/n)^n, at most 1/e. Of two rows it draws only one half
        of the time, so then all trees must be roots. A single row differs from no other.
        """
        if self.n_rows <= 2:
            return self.n_rows == 2 and self.n_roots == self.n_trees
        return 2 * self.n_roots > self.n_trees

    def told(self) -> str:
        """Say how many trees have no split (DF012), and the consequence; "" if they are not too many.

        Examples
        --------
        >>> from distforest.forest.leaf_kinds import KeepsNothing, KeepsVotes
        >>> Roots(20, 20, 150, KeepsNothing("same_leaf")).told(), Roots(9, 20, 150, KeepsVotes("mean")).told()
        ('DF012 no tree has a split, so every distance is 0', '')
        >>> Roots(11, 20, 150, KeepsVotes("mean")).told()
        'DF012 11 of 20 trees have no split, so they tell no pairs apart, and answers rest on the other 9'
        """
        if not self.are_too_many:
            return ""
        if self.n_roots == self.n_trees:
            return f"DF012 no tree has a split, so {FOLLOWS[NEAREST if self.leaf.nearest else self.leaf.kind]}"
        things = "pairs" if isinstance(self.leaf, KeepsOfPairs) else "rows"
        rest = f"so they tell no {things} apart, and answers rest on the other {self.n_trees - self.n_roots:,}"
        return f"DF012 {self.n_roots:,} of {self.n_trees:,} trees have no split, {rest}"


@dataclass(frozen=True)
class Stayed:
    """Training rows that stay at the root of a tree with a cut, as they lack a value that the cut needs.

    There a tree says the same of all of them.

    Attributes
    ----------
    n_stayed, n_routed
        Number of pairs of a row and a tree with a cut that end at its root, and of all that were routed.
    """

    n_stayed: int
    n_routed: int

    @classmethod
    def of(cls, tree_size: Ints, leaves: Int32s | None) -> Self:
        """Count from the node of each training row, shape (n_trees, n_rows), or negative; None over pairs of points.

        Examples
        --------
        >>> import numpy as np
        >>> Stayed.of(np.array([3, 1]), np.array([[0, 0, 2, -2], [0, 0, 0, 0]], np.int32))
        Stayed(n_stayed=2, n_routed=3)
        """
        if leaves is None:
            return cls(0, 0)
        of_cut = leaves[tree_size > 1]
        return cls(int((of_cut == 0).sum()), int((of_cut >= 0).sum()))

    @property
    def are_too_many(self) -> bool:
        """Whether more than the share `MOST_STAY` stays."""
        return self.n_stayed > MOST_STAY * self.n_routed

    def told(self, leaf: LeafKind) -> str:
        """Say how many rows stay (DF012), the consequence and what to do; "" if they are not too many.

        Examples
        --------
        >>> from distforest.forest.leaf_kinds import KeepsNothing
        >>> Stayed(940, 1000).told(KeepsNothing("path_lengths"))
        'DF012 objects lack similarities: 94 % of their ways end at the root of a tree, where all have the same score
        (observe more pairs, and set contamination rather than trust its "auto")'
        >>> Stayed(700, 1000).told(KeepsNothing("path_lengths"))
        ''
        """
        if not self.are_too_many:
            return ""
        share = f"{100.0 * self.n_stayed / self.n_routed:.2g} %"
        found = f"DF012 objects lack similarities: {share} of their ways end at the root"
        if leaf.kind == "path_lengths":
            cure = 'observe more pairs, and set contamination rather than trust its "auto"'
            return f"{found} of a tree, where all have the same score ({cure})"
        cure = "observe more pairs, or set an on_missing other than 'stop'"
        return f"{found} of a tree, where it predicts the same for all ({cure})"
