"""Forests that have learned nothing: how many of their trees are a root alone, and the consequences."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from distforest.forest.leaf_kinds import NEAREST, KeepsOfPairs
from distforest.forest.sealed.artifact import meaning_of, read_array
from distforest.forest.table import n_roots_of

if TYPE_CHECKING:
    from distforest.forest.forest import Forest
    from distforest.forest.leaf_kinds import LeafKind
    from distforest.forest.sealed.artifact import Manifest

FOLLOWS = {
    "class_counts": "every distance is the same, and every prediction",
    "means": "every distance is the same, and every prediction",
    NEAREST: "every distance is the same, and the most similar of all objects votes",
    "leaf_distances": "every distance is the same",
    "members": "every distance is the same",
    "same_leaf": "every distance is 0",
    "path_lengths": "every score is the same, and every distance is 0",
    "votes": "every distance is the same",
    "ranks": "every similarity is the same",
}
"""The consequence of no tree having a cut, by the kind of leaf table, or for votes of training objects."""


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
        """How many trees have no cut, and the consequence; "" if they are not too many.

        Examples
        --------
        >>> from distforest.forest.leaf_kinds import KeepsNothing, KeepsVotes
        >>> Roots(20, 20, 150, KeepsNothing("same_leaf")).told(), Roots(9, 20, 150, KeepsVotes("mean")).told()
        ('no tree has a cut, so every distance is 0', '')
        >>> Roots(11, 20, 150, KeepsVotes("mean")).told()
        '11 of 20 trees have no cut, so they tell no pairs apart, and answers rest on the other 9'
        """
        if not self.are_too_many:
            return ""
        if self.n_roots == self.n_trees:
            return f"no tree has a cut, so {FOLLOWS[NEAREST if self.leaf.nearest else self.leaf.kind]}"
        things = "pairs" if isinstance(self.leaf, KeepsOfPairs) else "rows"
        rest = f"so they tell no {things} apart, and answers rest on the other {self.n_trees - self.n_roots:,}"
        return f"{self.n_roots:,} of {self.n_trees:,} trees have no cut, {rest}"
