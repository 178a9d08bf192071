"""How pairs walk down trees: a block of pairs is read once, all its columns, and then walks down every tree.

A node with children is a row of 16 bytes, so that a step costs one access to memory; some pairs walk side by side, so
that they wait for it together. From a node a pair goes to ``child[value > threshold]``, which is an address and no
branch: a processor would guess half of them wrong. Rows are in preorder, a node's left child right behind it, so that
every other step stays within a line of the cache. A leaf has no row: its parent's child is `IS_LEAF` and its number.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from distforest.jit import borrowing, kernel
from distforest.sources.point_pairs import MAX_MIN, PointPairs, pair_value
from distforest.sources.source import Float32s, Floats, Ints, Rows

if TYPE_CHECKING:
    from distforest.forest.table import NodeTable

Nodes = NDArray[np.uint32]
THRESHOLD, COLUMN, CHILD = np.arange(3, dtype=np.uint32)
"""The four numbers of a node: a float32's bits, a column, and where its left and its right child begin."""

IS_LEAF = np.uint32(1 << 31)
"""The bit that makes a child the number of a leaf in the table."""

BLOCK_CELLS = 1 << 17
"""Values of a block of pairs: they stay in the processor's cache."""

LANES = 12
"""Pairs that walk side by side."""


class Steps(NamedTuple):
    """Trees whose projections are single columns, as what a step reads.

    Attributes
    ----------
    nodes
        The nodes that have children, in preorder, four numbers each, shape (4 K,).
    starts
        The root of each tree, as a child, shape (n_trees,).
    """

    nodes: Nodes
    starts: NDArray[np.uint32]

    @classmethod
    def of(cls, table: NodeTable) -> Steps | None:
        """The trees of a table; None where a projection reads several columns."""
        if (table.width > 1).any() or (table.weights != 1.0).any() or 4 * len(table.left) >= IS_LEAF:
            return None
        child = preorder(table.tree_start, table.left, table.right)
        met = child < IS_LEAF
        nodes, own = np.empty(4 * int(met.sum()), np.uint32), child[met]
        nodes[own + THRESHOLD] = _rounded_down(table.threshold[met]).view(np.uint32)
        nodes[own + COLUMN] = table.columns[table.offset[:-1][met]]
        root = np.repeat(table.tree_start[:-1], table.tree_size)[met]
        nodes[own + CHILD] = child[root + table.left[met]]
        nodes[own + CHILD + 1] = child[root + table.right[met]]
        return cls(nodes, child[table.tree_start[:-1]])


@dataclass(frozen=True)
class Walks:
    """The trees of a table, for pairs to walk down; ``steps`` where a step reads one column."""

    table: NodeTable
    steps: Steps | None = None

    @classmethod
    def of(cls, table: NodeTable) -> Walks:
        """The trees of a table."""
        return cls(table, Steps.of(table))

    def ends(self, tree: int, values: Float32s) -> Ints:
        """The node in which each pair of a block ends, numbers in the whole table, shape (n,)."""
        ends = np.empty(len(values), np.int64)
        if self.steps is not None:
            walk_lanes(self.steps.nodes, self.steps.starts[tree], values, ends)
        else:
            walk_sums(
                *(int(self.table.tree_start[tree]), self.table.left, self.table.right, self.table.threshold),
                *(self.table.offset, self.table.columns, self.table.weights, values, ends),
            )
        return ends

    def sums(self, parts: Floats, values: Float32s) -> Floats:
        """Sum over the trees of ``parts``, shape (N,), of the nodes in which each pair of a block ends, shape (n,)."""
        sums = np.zeros(len(values))
        if self.steps is not None:
            add_walks(*self.steps, values, parts, sums)
            return sums
        for tree in range(self.table.n_trees):
            sums += parts[self.ends(tree, values)]
        return sums

    def tally(self, tree: int, values: Float32s, codes: NDArray[np.uint8], weights: Rows, counts: Ints) -> None:
        """Add the weight of each class in each node that a block's pairs pass to ``counts``, shape (tree_size, 2)."""
        table, root = self.table, int(self.table.tree_start[tree])
        tally_pairs(
            *(root, table.left, table.right, table.threshold, table.offset, table.columns, table.weights),
            *(values, codes, weights, counts),
        )


def _rounded_down(thresholds: Floats) -> Float32s:
    """The largest float32 up to each threshold: a float32 value is at most the one exactly where at most the other."""
    with np.errstate(over="ignore"):
        found = thresholds.astype(np.float32)
    return np.where(found > thresholds, np.nextafter(found, np.float32(-np.inf)), found)


def blocks_of(pairs: PointPairs) -> Iterator[tuple[slice, Float32s]]:
    """Blocks of pairs, each with the values of all its columns, shape (n, n_columns); the memory is used again."""
    n_columns = pairs.shape[1]
    step = max(LANES, BLOCK_CELLS // n_columns)
    held, what = np.empty((min(step, len(pairs.left)), n_columns), np.float32), pairs.what
    for first in range(0, len(pairs.left), step):
        block = slice(first, min(first + step, len(pairs.left)))
        values = held[: block.stop - block.start]
        read_block(pairs.points, pairs.others, pairs.left[block], pairs.right[block], *what, values)
        yield block, values


@borrowing
def read_block(
    points: Float32s,
    others: Float32s,
    left: Rows,
    right: Rows,
    family: int,
    n_features: int,
    n_of_family: int,
    begin: Ints,
    reduction: Rows,
    values: Float32s,
) -> None:
    """values[r, c] = column c of pair r: as `pair_value`, the columns of a family side by side."""
    for r in range(left.shape[0]):
        a, b, own = points[left[r]], others[right[r]], values[r]
        if family == MAX_MIN:
            for c in range(n_features):
                own[c] = max(a[c], b[c])
                own[n_features + c] = min(a[c], b[c])
        else:
            for c in range(n_features):
                own[c] = abs(a[c] - b[c])
            for c in range(n_of_family - n_features):
                own[n_features + c] = (a[c] + b[c]) * np.float32(0.5)
        for c in range(n_of_family, values.shape[1]):
            own[c] = pair_value(a, b, c, family, n_features, n_of_family, begin, reduction)


@kernel
def preorder(tree_start: Ints, left: Rows, right: Rows) -> NDArray[np.uint32]:
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
def next_of(nodes: Nodes, thresholds: Float32s, values: Float32s, node: int, first: int) -> int:
    """The child of a node to which the pair goes whose values begin at ``first``.

    Unsigned numbers need no test for places counted from the end.
    """
    value = values[np.uint64(first) + np.uint64(nodes[node + COLUMN])]
    return nodes[np.uint64(node + CHILD) + np.uint64(value > thresholds[node + THRESHOLD])]


@kernel
def walk_lanes(nodes: Nodes, start: int, values: Float32s, ends: Ints) -> None:
    """ends[r] = the leaf at which pair r arrives; a lane whose pair has arrived takes the next one.

    While all lanes are taken this is done without a branch too: a lane writes where its pair is as if it had arrived,
    and the last to be written is the leaf.
    """
    if start >= IS_LEAF:
        ends[:] = start ^ IS_LEAF
        return
    thresholds, cells, width = nodes.view(np.float32), values.reshape(-1), np.uint64(values.shape[1])
    at, row = np.empty(LANES, np.uint32), np.arange(LANES).astype(np.uint32)
    at[:] = start
    n = values.shape[0]
    n_begun = np.uint32(min(LANES, n))
    while n_begun + LANES <= n:
        for lane in range(LANES):
            r = row[lane]
            there = next_of(nodes, thresholds, cells, at[lane], np.uint64(r) * width)
            arrived = there >= IS_LEAF
            ends[np.uint64(r)] = there ^ IS_LEAF
            at[lane], row[lane] = start if arrived else there, n_begun if arrived else r
            n_begun += np.uint32(arrived)
    n_live = min(LANES, n)
    while n_live > 0:
        lane = 0
        while lane < n_live:
            r = row[lane]
            there = next_of(nodes, thresholds, cells, at[lane], np.uint64(r) * width)
            if there < IS_LEAF:
                at[lane] = there
                lane += 1
                continue
            ends[np.uint64(r)] = there ^ IS_LEAF
            if n_begun < n:
                at[lane], row[lane] = start, n_begun
                n_begun += np.uint32(1)
            else:  # the last lane goes on in this one's place
                n_live -= 1
                at[lane], row[lane] = at[n_live], row[n_live]


@kernel
def add_walks(nodes: Nodes, starts: NDArray[np.uint32], values: Float32s, parts: Floats, sums: Floats) -> None:
    """sums[r] = sum over the trees, in their order, of parts[the leaf at which pair r arrives]."""
    ends = np.empty(values.shape[0], np.int64)
    sums[:] = 0.0
    for tree in range(starts.shape[0]):
        walk_lanes(nodes, starts[tree], values, ends)
        for r in range(values.shape[0]):
            sums[r] += parts[ends[r]]


@borrowing
def walk_sums(
    root: int,
    left: Rows,
    right: Rows,
    threshold: Floats,
    offset: Ints,
    columns: Rows,
    weights: Floats,
    values: Float32s,
    ends: Ints,
) -> None:
    """ends[r] = the leaf of pair r; left where sum over e of weights[e] values[r, columns[e]] <= threshold."""
    for r in range(values.shape[0]):
        node = root
        while left[node] >= 0:
            total = 0.0
            for e in range(offset[node], offset[node + 1]):
                total += weights[e] * np.float64(values[r, columns[e]])
            node = root + (left[node] if total <= threshold[node] else right[node])
        ends[r] = node


@borrowing
def tally_pairs(
    root: int,
    left: Rows,
    right: Rows,
    threshold: Floats,
    offset: Ints,
    columns: Rows,
    weights: Floats,
    values: Float32s,
    codes: NDArray[np.uint8],
    own: Rows,
    counts: Ints,
) -> None:
    """counts[node, s] += sum of ``own`` over the pairs of class s that pass the node or end there."""
    columns = columns.view(np.uint32)  # see `distforest.jit`
    for r in range(values.shape[0]):
        node, s = root, codes[r]
        counts[0, s] += own[r]
        while left[node] >= 0:
            total = 0.0
            for e in range(offset[node], offset[node + 1]):
                total += weights[e] * np.float64(values[r, columns[e]])
            node = root + (left[node] if total <= threshold[node] else right[node])
            counts[node - root, s] += own[r]
