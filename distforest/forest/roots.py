"""Forests that have learned little: trees that are a single root, rows that stay at roots, and the consequences."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from distforest.forest.leaf_kinds import NEAREST, UNOBSERVED, KeepsOfPairs
from distforest.forest.node_table import n_roots_of
from distforest.forest.observed_leaves import share_of_pairs
from distforest.forest.sealed.artifact import meaning_of, read_array

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
"""Consequence if no tree has a cut, by the kind of leaf table, or for votes of training objects."""

MOST_STAY = 0.7
"""Share of training rows staying at roots above which a fit warns. On wine, iris and simulated judges it is reached
when about half of the pairs are observed; beyond it, surrogate splits raise the accuracy by 5 to 40 points."""


def unobserved_of_manifest(address: str, manifest: Manifest) -> float | None:
    """Return the share of pairs of leaves of a sealed forest without an observed distance; None if all are observed.

    Raises
    ------
    ArtifactError
        The arrays from which the share follows are damaged.
    """
    if UNOBSERVED not in manifest["arrays"]:
        return None
    sizes, unobserved = (read_array(address, manifest, name) for name in ("tree_size", UNOBSERVED))
    return share_of_pairs(unobserved, (sizes + 1) // 2)


@dataclass(frozen=True)
class Roots:
    """Trees that are a single root, because no cut was made.

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
    def from_forest(cls, forest: Forest) -> Self:
        """Count the roots of a forest in memory."""
        return cls(n_roots_of(forest.table.tree_size), forest.n_trees, forest.n_training, forest.meaning.leaf)

    @classmethod
    def from_manifest(cls, address: str, manifest: Manifest) -> Self:
        """Count the roots of a sealed forest from its tree sizes; raise ArtifactError if they are damaged."""
        sizes = read_array(address, manifest, "tree_size")
        n_rows = int(manifest["arrays"]["in_bag"]["shape"][-1])
        return cls(n_roots_of(sizes), len(sizes), n_rows, meaning_of(manifest).leaf)

    @property
    def are_too_many(self) -> bool:
        """Whether all trees are roots, or more than half of them.

        Fewer can be due to chance: a tree has no cut if no two rows that it draws differ. If one of n rows differs from
        the others, a bootstrap misses it with probability (1 - 1/n)^n, at most 1/e. Of two rows it draws only one half
        of the time, so all trees must be roots then. A single row differs from no other.
        """
        if self.n_rows <= 2:
            return self.n_rows == 2 and self.n_roots == self.n_trees
        return 2 * self.n_roots > self.n_trees

    def warning(self) -> str:
        """Return a warning of the trees without a split (DF012), with the consequence; "" if they are not too many.

        Examples
        --------
        >>> from distforest.forest.leaf_kinds import KeepsNothing, KeepsVotes
        >>> Roots(20, 20, 150, KeepsNothing("same_leaf")).warning(), Roots(9, 20, 150, KeepsVotes("mean")).warning()
        ('DF012 no tree has a split, so every distance is 0', '')
        >>> Roots(11, 20, 150, KeepsVotes("mean")).warning()
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

    At the root, a tree gives the same answer for all of them.

    Attributes
    ----------
    n_stayed, n_routed
        Number of pairs of a row and a tree with a cut that end at its root, and of all that were routed.
    """

    n_stayed: int
    n_routed: int

    @classmethod
    def from_leaves(cls, tree_size: Ints, leaves: Int32s | None) -> Self:
        """Count from the node of each training row, shape (n_trees, n_rows), or negative; None over pairs of points.

        Examples
        --------
        >>> import numpy as np
        >>> Stayed.from_leaves(np.array([3, 1]), np.array([[0, 0, 2, -2], [0, 0, 0, 0]], np.int32))
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

    def warning(self, leaf: LeafKind) -> str:
        """Return a warning of the rows that stay (DF012), with consequence and advice; "" if they are not too many.

        Examples
        --------
        >>> from distforest.forest.leaf_kinds import KeepsNothing
        >>> Stayed(940, 1000).warning(KeepsNothing("path_lengths"))
        'DF012 objects lack similarities: 94 % of their ways end at the root of a tree, where all have the same score
        (observe more pairs, and set contamination rather than trust its "auto")'
        >>> Stayed(700, 1000).warning(KeepsNothing("path_lengths"))
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
