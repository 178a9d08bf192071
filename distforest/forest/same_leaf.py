"""The leaf table of a forest without a ground truth: whether two rows share a leaf."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from distforest.forest.held_nodes import HeldNodes, OfOneRow, apart_by_tree
from distforest.sources.source import Floats, Ints

if TYPE_CHECKING:
    from distforest.forest.table import NodeTable


@dataclass(frozen=True)
class SameLeaf:
    """The distance of two nodes is 0 if they are the same, else 1, so a forest's distance is 1 - proximity."""

    table: NodeTable
    kind: str = "same_leaf"

    def arrays(self) -> dict[str, np.ndarray]:
        """No arrays."""
        return {}

    def between(self, tree: int, left: Ints, right: Ints) -> Floats:  # noqa: ARG002  (the same in every tree)
        """1[l != l'] for all of ``left`` and ``right``."""
        return (left[:, None] != right).astype(np.float64)

    def pairs(self, tree: int, left: Ints, right: Ints) -> Floats:  # noqa: ARG002  (the same in every tree)
        """1[l != l'], pair by pair."""
        return (left != right).astype(np.float64)

    def from_row(self, row: OfOneRow, held: HeldNodes, apart: Floats) -> None:
        """The distances of one row's nodes."""
        apart_by_tree(self, row, held, apart)

    def check(self) -> None:
        """Nothing to check: there are no arrays."""
