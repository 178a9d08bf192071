"""Path lengths: how far from the root a row ends, in a forest of random cuts."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from distforest.forest.same_leaf import SameLeaf
from distforest.jit import kernel
from distforest.sources.source import Floats, Int32s, Ints

EULER = 0.5772156649
"""Euler's constant to as many places as Liu, Ting and Zhou give."""


def usual_length(n_rows: Ints) -> Floats:
    """c(m) = 2 (ln(m - 1) + 0.5772156649 - (m - 1) / m): the usual depth at which one of m rows is alone.

    It is 1 for two rows and 0 for fewer (Liu, Ting, Zhou: Isolation Forest, 2008, Eq. 1).

    Examples
    --------
    >>> usual_length(np.array([0, 1, 2, 3, 256])).round(3)
    array([ 0.   ,  0.   ,  1.   ,  1.207, 10.245])
    """
    m = np.maximum(n_rows, 3).astype(np.float64)
    usual: Floats = 2.0 * (np.log(m - 1.0) + EULER - (m - 1.0) / m)
    return np.where(n_rows > 2, usual, n_rows == 2)


@dataclass(frozen=True)
class PathLengths(SameLeaf):
    """The path length of a node: its depth, plus the usual depth below it of as many rows as it holds.

    The distance of two nodes is 0 if they are the same, else 1.
    """

    kind: str = "path_lengths"

    @cached_property
    def lengths(self) -> Floats:
        """Depth + c(n_rows) of each node, shape (N,)."""
        depth = np.zeros(len(self.table.left), np.int64)
        add_depths(self.table.tree_start, self.table.left, self.table.right, depth)
        lengths: Floats = depth + usual_length(self.table.n_rows)
        return lengths

    def shares(self, tree: int, nodes: Ints) -> Floats:
        """Length of each node over the usual one of all rows of the tree, shape (n_nodes,); 1 for a single row."""
        start = self.table.tree_start[tree]
        usual = float(usual_length(self.table.n_rows[start : start + 1])[0])
        return self.lengths[start + nodes] / usual if usual else np.ones(len(nodes))


@kernel
def add_depths(tree_start: Ints, left: Int32s, right: Int32s, depth: Ints) -> None:
    """depth[child] = depth[parent] + 1, parents first."""
    for tree in range(tree_start.shape[0] - 1):
        root = tree_start[tree]
        for node in range(root, tree_start[tree + 1]):
            if left[node] >= 0:
                depth[root + left[node]] = depth[node] + 1
                depth[root + right[node]] = depth[node] + 1
