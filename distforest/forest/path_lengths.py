"""Leaf tables of forests without a ground truth: whether two rows share a leaf, and the depth at which a row ends.

Rows with missing values stay where they are, so fewer rows reach the leaves of a forest of random splits than for a
complete matrix, and these are alone sooner. Their number is no sign of outliers. So a node counts as many rows as it
would have if the rows that stayed above it had gone on as the others did (`complete_rows`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from distforest.forest.leaves import LeafTable
from distforest.jit import kernel
from distforest.sources.source import Floats, Int32s, Ints

if TYPE_CHECKING:
    from distforest.forest.node_table import NodeTable

EULER = 0.5772156649
"""Euler's constant, with the digits that Liu, Ting and Zhou give."""


def usual_length(n_rows: Ints | Floats) -> Floats:
    """c(m) = 2 (ln(m - 1) + 0.5772156649 - (m - 1) / m): the usual depth at which one of m rows is alone.

    It is 1 for two rows and 0 for fewer (Liu, Ting, Zhou: Isolation Forest, 2008, Eq. 1). For fractional numbers of
    rows below 3 it is interpolated linearly.

    Examples
    --------
    >>> usual_length(np.array([0, 1, 2, 2.5, 3, 256])).round(3)
    array([ 0.   ,  0.   ,  1.   ,  1.104,  1.207, 10.245])
    """
    m = np.maximum(n_rows, 3).astype(np.float64)
    usual: Floats = 2.0 * (np.log(m - 1.0) + EULER - (m - 1.0) / m)
    of_three = 2.0 * (np.log(2.0) + EULER - 2.0 / 3.0)
    return np.where(np.asarray(n_rows) >= 3, usual, np.interp(n_rows, (1.0, 2.0, 3.0), (0.0, 1.0, of_three)))


@dataclass(frozen=True)
class SameLeaf(LeafTable):
    """The distance of two nodes is 0 if they are the same, else 1, so a forest's distance is 1 - proximity."""

    table: NodeTable
    kind: str = "same_leaf"

    def arrays(self) -> dict[str, np.ndarray]:
        """Return no arrays."""
        return {}

    def pairs(self, tree: int, left: Ints, right: Ints) -> Floats:  # noqa: ARG002  (the same in every tree)
        """1[l != l'], pair by pair."""
        return (left != right).astype(np.float64)

    def check(self) -> None:
        """Do nothing, as there are no arrays."""


@dataclass(frozen=True)
class PathLengths(SameLeaf):
    """The path length of a node: its depth, plus the usual depth below it of as many rows as it stands for.

    The distance of two nodes is 0 if they are the same, else 1. ``unit`` is the weight that counts as one row.
    """

    unit: int = 1
    kind: str = "path_lengths"

    @cached_property
    def lengths(self) -> Floats:
        """Depth + c(completed rows) of each node, shape (N,)."""
        rows = self.table.n_rows / self.unit
        complete_rows(self.table.tree_start, self.table.left, self.table.right, rows)
        lengths: Floats = depths_of(self.table) + usual_length(rows)
        return lengths

    def shares(self, tree: int, nodes: Ints) -> Floats:
        """Length of each node over the usual one of all rows of the tree, shape (n_nodes,); 1 for a single row."""
        start = self.table.tree_start[tree]
        usual = float(usual_length(self.table.n_rows[start : start + 1] / self.unit)[0])
        return self.lengths[start + nodes] / usual if usual else np.ones(len(nodes))


def depths_of(table: NodeTable) -> Ints:
    """Return the number of splits above each node, shape (N,); a chain counts as one."""
    depth = np.zeros(len(table.left), np.int64)
    own = (np.arange(len(depth)) - np.repeat(table.tree_start[:-1], table.tree_size)).astype(np.int32)
    add_depths(table.tree_start, table.left, table.right, own if table.chain_head is None else table.chain_head, depth)
    return depth


@kernel
def add_depths(tree_start: Ints, left: Int32s, right: Int32s, chain_head: Int32s, depth: Ints) -> None:
    """depth[child] = depth[parent] + 1, parents first; all nodes of a chain have the depth of its head."""
    for tree in range(tree_start.shape[0] - 1):
        root = tree_start[tree]
        for node in range(root, tree_start[tree + 1]):
            if left[node] >= 0:
                for child in (left[node], right[node]):
                    depth[root + child] = depth[root + chain_head[node]] + (chain_head[root + child] == child)


@kernel
def complete_rows(tree_start: Ints, left: Int32s, right: Int32s, rows: Floats) -> None:
    """rows[child] *= rows[parent] / (rows[left] + rows[right]), parents first: as if no row had stayed in the parent.

    Without missing values the factor is 1. Children without rows stay unchanged.
    """
    for tree in range(tree_start.shape[0] - 1):
        root = tree_start[tree]
        for node in range(root, tree_start[tree + 1]):
            if left[node] >= 0:
                one, other = root + left[node], root + right[node]
                went_on = rows[one] + rows[other]
                if went_on > 0.0:
                    rows[one] *= rows[node] / went_on
                    rows[other] *= rows[node] / went_on
