"""The nodes of trees that read single columns, as a walk reads them.

A node with children takes 16 bytes, so that a step costs one access to memory. Nodes are in preorder, a left child
directly after its parent, so that every other step stays within a cache line. Leaves are not stored: the child number
of a leaf is `IS_LEAF` plus its number in the table.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from distforest.jit import kernel
from distforest.sources.source import Int32s, Ints

WalkNodes = NDArray[np.uint32]
Children = NDArray[np.uint32]
THRESHOLD, COLUMN, CHILD = np.arange(3, dtype=np.uint32)
"""Places of a node's four numbers: threshold (bits of a float32), column, and where its two children begin."""

IS_LEAF = np.uint32(1 << 31)
"""The bit that marks a child as a leaf; the other bits are its number in the table."""


@kernel
def preorder(tree_start: Ints, left: Int32s, right: Int32s) -> Children:
    """child[node] = 4 times the number of nodes with children before it in preorder; for a leaf `IS_LEAF` + node.

    A node with two parents, or with none, makes the table no tree, but does no harm: one is met once, the other never.
    """
    child, waiting = np.arange(left.shape[0]).astype(np.uint32) | IS_LEAF, np.empty(left.shape[0], np.int64)
    n_met = 0
    for tree in range(tree_start.shape[0] - 1):
        root, n_waiting = tree_start[tree], 1
        waiting[0] = root
        while n_waiting > 0:
            n_waiting -= 1
            node = waiting[n_waiting]
            if left[node] >= 0 and child[node] >= IS_LEAF:
                child[node] = 4 * n_met
                n_met += 1
                waiting[n_waiting], waiting[n_waiting + 1] = root + right[node], root + left[node]
                n_waiting += 2
    return child
