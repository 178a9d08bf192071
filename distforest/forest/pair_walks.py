"""How pairs walk down trees: a block of pairs is read once, all its columns, and then walks down every tree.

A node is a row of 16 bytes, so that a step costs one access to memory; some pairs walk side by side, so that they wait
for it together. From a node a pair goes to ``child[value > threshold]``, which is an address and no branch: a processor
would guess half of them wrong. A leaf leads to itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from distforest.jit import borrowing, kernel
from distforest.sources.point_pairs import MAX_MIN, PointPairs, pair_value
from distforest.sources.source import Float32s, Floats, Ints, Rows

if TYPE_CHECKING:
    from distforest.forest.table import NodeTable

Nodes = NDArray[np.uint32]
THRESHOLD, COLUMN, CHILD = range(3)
"""What a node's row of four holds: a float32's bits, a column, and the left child before the right one."""

BLOCK_CELLS = 1 << 16
"""Values of a block of pairs: they stay in the processor's cache."""

LANES = 16
"""Pairs that walk side by side."""


@dataclass(frozen=True)
class Walks:
    """The trees of a table, for pairs to walk down.

    Attributes
    ----------
    table
        The trees.
    nodes
        Their nodes, shape (N, 4); None where a projection reads several columns.
    """

    table: NodeTable
    nodes: Nodes | None

    @classmethod
    def of(cls, table: NodeTable) -> Walks:
        """The trees of a table."""
        if (table.width > 1).any() or (table.weights != 1.0).any():
            return cls(table, None)
        root, inner = np.repeat(table.tree_start[:-1], table.tree_size), ~table.is_leaf
        nodes = np.zeros((len(table.left), 4), np.uint32)
        nodes[:, THRESHOLD] = np.where(inner, _rounded_down(table.threshold), np.float32(np.inf)).view(np.uint32)
        nodes[inner, COLUMN] = table.columns
        itself = np.arange(len(table.left))
        nodes[:, CHILD] = np.where(inner, root + table.left, itself)
        nodes[:, CHILD + 1] = np.where(inner, root + table.right, itself)
        return cls(table, nodes)

    def ends(self, tree: int, values: Float32s) -> Ints:
        """The node in which each pair of a block ends, numbers in the whole table, shape (n,)."""
        ends, root = np.empty(len(values), np.int64), int(self.table.tree_start[tree])
        if self.nodes is not None:
            walk_lanes(self.nodes, root, values, ends)
        else:
            walk_sums(
                *(root, self.table.left, self.table.right, self.table.threshold),
                *(self.table.offset, self.table.columns, self.table.weights, values, ends),
            )
        return ends

    def sums(self, parts: Floats, values: Float32s) -> Floats:
        """Sum over the trees of ``parts``, shape (N,), of the nodes in which each pair of a block ends, shape (n,)."""
        sums = np.zeros(len(values))
        if self.nodes is not None:
            add_walks(self.nodes, self.table.tree_start, values, parts, sums)
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
def walk_lanes(nodes: Nodes, root: int, values: Float32s, ends: Ints) -> None:
    """ends[r] = the leaf at which pair r arrives; a lane whose pair has arrived takes the next one.

    Unsigned numbers need no test for places counted from the end.
    """
    thresholds = nodes.view(np.float32)
    at, row = np.empty(LANES, np.uint32), np.empty(LANES, np.int64)
    n = values.shape[0]
    n_begun = min(LANES, n)
    n_live = n_begun
    for lane in range(n_live):
        at[lane], row[lane] = root, lane
    while n_live > 0:
        lane = 0
        while lane < n_live:
            here, r = at[np.uint64(lane)], row[np.uint64(lane)]
            column, threshold = nodes[np.uint64(here), COLUMN], thresholds[np.uint64(here), THRESHOLD]
            goes_right = values[np.uint64(r), np.uint64(column)] > threshold
            there = nodes[np.uint64(here), np.uint64(CHILD) + np.uint64(goes_right)]
            if there != here:
                at[np.uint64(lane)] = there
                lane += 1
                continue
            ends[np.uint64(r)] = here
            if n_begun < n:
                at[np.uint64(lane)], row[np.uint64(lane)] = root, n_begun
                n_begun += 1
                lane += 1
            else:  # the last lane goes on in this one's place
                n_live -= 1
                at[np.uint64(lane)], row[np.uint64(lane)] = at[np.uint64(n_live)], row[np.uint64(n_live)]


@kernel
def add_walks(nodes: Nodes, tree_start: Ints, values: Float32s, parts: Floats, sums: Floats) -> None:
    """sums[r] = sum over the trees, in their order, of parts[the leaf at which pair r arrives]."""
    ends = np.empty(values.shape[0], np.int64)
    sums[:] = 0.0
    for tree in range(tree_start.shape[0] - 1):
        walk_lanes(nodes, tree_start[tree], values, ends)
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
