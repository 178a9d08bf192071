"""How rows walk down trees that read single columns, some of them side by side.

A node with children is 16 bytes, so that a step costs one access to memory; some rows walk side by side, so that they
wait for it together. From a node a row goes to ``child[value > threshold]``, which is an address and no branch: a
processor would guess half of them wrong. Nodes are in preorder, a left child right behind its parent, so that every
other step stays within a line of the cache. A leaf is not among them: its parent's child is `IS_LEAF` and its number.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from distforest.jit import borrowing, kernel
from distforest.sources.source import Float32s, Floats, Int32s, Ints

WalkNodes = NDArray[np.uint32]
Children = NDArray[np.uint32]
THRESHOLD, COLUMN, CHILD = np.arange(3, dtype=np.uint32)
"""The four numbers of a node: a float32's bits, a column, and where its left and its right child begin."""

IS_LEAF = np.uint32(1 << 31)
"""The bit that makes a child the number of a leaf in the table."""

WALKED_VALUES = 1 << 17
"""Values of a block of rows: they stay in the processor's cache."""

LANES = 12
"""Rows that walk side by side."""


def block_rows(n_columns: int) -> int:
    """How many rows walk down all trees before the next ones do."""
    return max(4 * LANES, WALKED_VALUES // n_columns)


class WalkSteps(NamedTuple):
    """Trees whose projections are single columns, as what a step reads.

    Attributes
    ----------
    nodes
        The nodes that have children, in preorder, four numbers each, shape (4 K,).
    starts
        The root of each tree, as a child, shape (n_trees,).
    """

    nodes: WalkNodes
    starts: Children


def rounded_down(thresholds: Floats) -> Float32s:
    """The largest float32 up to each threshold: a float32 value is at most the one exactly where at most the other."""
    with np.errstate(over="ignore"):
        found = thresholds.astype(np.float32)
    return np.where(found > thresholds, np.nextafter(found, np.float32(-np.inf)), found)


@kernel
def preorder(tree_start: Ints, left: Int32s, right: Int32s) -> Children:
    """child[node] = 4 times the nodes with children that come before it: each before its left subtree before its right.

    Of a leaf it is `IS_LEAF` and the node's number. A table may have a node with two parents, or with none, which is no
    tree but harms no walk: the one is met once, the other never.
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


@borrowing
def next_of(nodes: WalkNodes, thresholds: Float32s, values: Float32s, node: int, first: int) -> int:
    """The child of a node to which the row goes whose values begin at ``first``.

    Unsigned numbers need no test for places counted from the end.
    """
    value = values[np.uint64(first) + np.uint64(nodes[node + COLUMN])]
    return nodes[np.uint64(node + CHILD) + np.uint64(value > thresholds[node + THRESHOLD])]


@kernel
def walk_lanes(nodes: WalkNodes, start: int, values: Float32s, rows: Int32s, ends: Ints) -> None:
    """ends[e] = the leaf at which row rows[e] arrives; a lane whose row has arrived takes the next one.

    While all lanes are taken this is done without a branch too: a lane writes where its row is as if it had arrived,
    and the last to be written is the leaf.
    """
    if start >= IS_LEAF:
        ends[:] = start ^ IS_LEAF
        return
    thresholds, cells, width = nodes.view(np.float32), values.reshape(-1), np.uint64(values.shape[1])
    rows, n = rows.view(np.uint32), rows.shape[0]
    at, own = np.empty(LANES, np.uint32), np.arange(LANES).astype(np.uint32)
    at[:] = start
    n_live = min(LANES, n)
    n_begun = np.uint32(n_live)
    while n_begun + LANES <= n:
        for lane in range(LANES):
            e = own[lane]
            there = next_of(nodes, thresholds, cells, at[lane], np.uint64(rows[np.uint64(e)]) * width)
            arrived = there >= IS_LEAF
            ends[np.uint64(e)] = there ^ IS_LEAF
            at[lane], own[lane] = start if arrived else there, n_begun if arrived else e
            n_begun += np.uint32(arrived)
    while n_live > 0:
        lane = 0
        while lane < n_live:
            e = own[lane]
            there = next_of(nodes, thresholds, cells, at[lane], np.uint64(rows[np.uint64(e)]) * width)
            if there < IS_LEAF:
                at[lane] = there
                lane += 1
                continue
            ends[np.uint64(e)] = there ^ IS_LEAF
            if n_begun < n:
                at[lane], own[lane] = start, n_begun
                n_begun += np.uint32(1)
            else:  # the last lane goes on in this one's place
                n_live -= 1
                at[lane], own[lane] = at[n_live], own[n_live]


@kernel
def walk_wanted(
    nodes: WalkNodes,
    starts: Children,
    roots: Ints,
    step: int,
    values: Float32s,
    rows: Int32s,
    wanted: NDArray[np.bool_],
    ends: Int32s,
) -> None:
    """ends[tree, r] = the leaf of row rows[r], a number within its tree, where wanted[tree, r]; blocks of ``step``."""
    place, some = np.empty((2, min(step, rows.shape[0])), np.int32)
    found = np.empty(place.shape[0], np.int64)
    for first in range(0, rows.shape[0], step):
        for tree in range(starts.shape[0]):
            n = 0
            for r in range(first, min(first + step, rows.shape[0])):
                if wanted[tree, r]:
                    place[n], some[n] = r, rows[r]
                    n += 1
            walk_lanes(nodes, starts[tree], values, some[:n], found)
            for e in range(n):
                ends[tree, place[e]] = found[e] - roots[tree]
