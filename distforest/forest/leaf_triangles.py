"""The distances of all pairs of leaves of a tree, from one pass over the rows of a matrix of training distances.

The rows come in their order, whatever leaf they are in. A row adds one inner sum to each leaf with a number not below
its own::

    row 8, leaf 2   z_8.  in the order of the leaves  [ leaf 1 | leaf 2 | leaf 5 | leaf 6 ]
                                                                  sum      sum      sum       w_8 times each is added

The rows of a leaf come in ascending order, so every sum is added in the order of
`distforest.forest.leaves.mean_between`, and is the same bits.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from distforest.forest.leaves import Members, leaves_per_tree, triangle_size
from distforest.jit import kernel
from distforest.sources.mapped_rows import spans
from distforest.sources.source import Float32s, Floats, Int32s, Ints, offsets


class TriangleRows(NamedTuple):
    """The in-bag rows of one tree by its leaves, which are numbered from 0.

    Attributes
    ----------
    start, rows, weights
        Where each leaf's rows begin, shape (n_leaves + 1,); their numbers, ascending in each leaf; their weights.
    leaf, weight
        The leaf and the weight of each training row, shape (n_rows,); the weight is 0 out of bag.
    mass
        The weight of each leaf, shape (n_leaves,).
    """

    start: Ints
    rows: Int32s
    weights: Int32s
    leaf: Int32s
    weight: Int32s
    mass: Ints

    @classmethod
    def of(cls, members: Members, tree: int) -> TriangleRows:
        """The rows of a tree of ``members``."""
        table, groups = members.table, members.groups(tree)
        nodes = np.flatnonzero(table.is_leaf[table.tree_start[tree] : table.tree_start[tree + 1]])
        start = offsets(np.diff(groups.start)[nodes])  # inner nodes have no rows
        leaf, weight = np.zeros((2, members.leaves.shape[1]), np.int32)
        leaf[groups.rows] = np.repeat(np.arange(len(nodes)), np.diff(start))
        weight[groups.rows] = groups.weights
        mass = np.add.reduceat(groups.weights, start[:-1], dtype=np.int64)
        return cls(start, groups.rows, groups.weights, leaf, weight, mass)


def leaf_triangles(members: Members, block_rows: int) -> Floats:
    """The packed distances of all pairs of leaves of each tree, tree after tree: see `LeafDistances`.

    The matrix of ``members`` is read once for all trees, ``block_rows`` rows at a time.
    """
    ends = offsets(triangle_size(leaves_per_tree(members.table)))
    triangles = np.zeros(ends[-1])
    trees = [TriangleRows.of(members, tree) for tree in range(members.table.n_trees)]
    of_trees = [triangles[first:last] for first, last in pairwise(ends.tolist())]
    in_bag = np.flatnonzero(np.any([tree.weight for tree in trees], axis=0))
    for first_row, last_row in spans(members.distances, in_bag, block_rows):
        for tree, triangle in zip(trees, of_trees, strict=True):
            add_rows(tree, first_row, last_row, members.distances, triangle)
    for tree, triangle in zip(trees, of_trees, strict=True):
        divide(tree.mass, triangle)
    triangles += members.offset
    return triangles


@kernel
def add_rows(tree: TriangleRows, first_row: int, last_row: int, distances: Float32s, triangle: Floats) -> None:
    """triangle[a, b] += w_i sum_j w_j z_ij over rows i of leaf b from first_row to last_row - 1, j in leaf a >= b."""
    places = tree.rows.view(np.uint32)  # see `distforest.jit`
    for i in range(first_row, last_row):
        own, row, weight = tree.leaf[i], distances[i], np.float64(tree.weight[i])
        if weight == 0.0:
            continue
        for leaf in range(own, tree.start.shape[0] - 1):
            total = 0.0
            for f in range(tree.start[leaf], tree.start[leaf + 1]):
                total += tree.weights[f] * np.float64(row[places[f]])
            triangle[leaf * (leaf + 1) // 2 + own] += weight * total


@kernel
def divide(mass: Ints, triangle: Floats) -> None:
    """triangle[a, b] /= m_a m_b."""
    entry = 0
    for a in range(mass.shape[0]):
        for b in range(a + 1):
            triangle[entry] /= mass[a] * mass[b]
            entry += 1
