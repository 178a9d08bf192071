"""Sums of nodes, from leaves upwards: the number of rows of each class, and the mean and spread of vectors."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from distforest.jit import kernel, no_refcount
from distforest.sources.source import Floats, Int32s, Ints

if TYPE_CHECKING:
    from distforest.forest.leaves import InBag
    from distforest.forest.node_table import NodeTable


def parents(left: Int32s, right: Int32s) -> Ints:
    """Return the parent of each node of a tree with these children, -1 for the root, shape (n_nodes,)."""
    inner, parent = np.flatnonzero(left >= 0), np.full(len(left), -1, np.int64)
    parent[left[inner]] = parent[right[inner]] = inner
    return parent


@kernel
def add_up_children(left: Int32s, right: Int32s, sums: Floats | Ints) -> None:
    """sums[node] = sums[left[node]] + sums[right[node]] of every inner node; children come after their parents."""
    for node in range(sums.shape[0] - 1, -1, -1):
        if left[node] >= 0:
            sums[node] = sums[left[node]] + sums[right[node]]


def class_counts_of(
    table: NodeTable, leaves: Int32s, in_bag: InBag | Int32s, labels: Int32s | Ints, n_classes: int
) -> Int32s:
    """Return the sum of w_i over the in-bag rows of each class that reached each node, shape (N, n_classes).

    ``leaves`` and ``in_bag`` have shape (n_trees, n_rows), ``labels``, the numbers of classes, (n_rows,).
    """
    counts = np.zeros((len(table.left), n_classes), np.int32)
    count_at_leaves(table.tree_start, leaves, in_bag, labels, counts)
    if table.chain_head is None:
        add_up_trees(table.tree_start, table.left, table.right, counts)
    else:
        add_up_chains(table.tree_start, (table.left, table.right), table.chain_head, counts)
    return counts


@kernel
def count_at_leaves(
    tree_start: Ints, leaves: Int32s, in_bag: InBag | Int32s, labels: Int32s | Ints, counts: Int32s
) -> None:
    """counts[node, c] += sum of w over the rows of class c that end here."""
    for tree in range(leaves.shape[0]):
        of_tree = counts[tree_start[tree] : tree_start[tree + 1]]
        for row in range(leaves.shape[1]):
            if in_bag[tree, row]:
                of_tree[leaves[tree, row], labels[row]] += in_bag[tree, row]


@kernel
def add_up_trees(tree_start: Ints, left: Int32s, right: Int32s, sums: Int32s) -> None:
    """sums[node] += sums[left[node]] + sums[right[node]] of every inner node; children come after their parents."""
    for tree in range(tree_start.shape[0] - 1):
        root = tree_start[tree]
        for node in range(tree_start[tree + 1] - 1, root - 1, -1):
            if left[node] >= 0:
                for q in range(sums.shape[1]):
                    sums[node, q] += sums[root + left[node], q] + sums[root + right[node], q]


@kernel
def add_up_chains(tree_start: Ints, children: tuple[Int32s, Int32s], chain_head: Int32s, sums: Int32s) -> None:
    """`add_up_trees` where nodes form chains: a head adds each child of its chain once, others have its sums."""
    parent = np.empty(sums.shape[0], np.int64)
    for tree in range(tree_start.shape[0] - 1):
        root, end = tree_start[tree], tree_start[tree + 1]
        for node in range(root, end):
            for child in children:
                if child[node] >= 0:
                    parent[root + child[node]] = root + chain_head[node]
        for node in range(end - 1, root, -1):
            if chain_head[node] == node - root:
                sums[parent[node]] += sums[node]
        for node in range(root, end):
            sums[node] = sums[root + chain_head[node]]


class Moments(NamedTuple):
    """Sum of w, shape (N,), mean, shape (N, q), and sum of w ||Y - mean||^2, shape (N,), over the rows of each node."""

    weights: Floats
    means: Floats
    squares: Floats

    @classmethod
    def zeros(cls, n_nodes: int, width: int) -> Moments:
        """Return the moments of nodes that no row has reached yet; vectors have ``width`` dimensions."""
        weights, squares = np.zeros((2, n_nodes))
        return cls(weights, np.zeros((n_nodes, width)), squares)


@kernel
def describe(
    tree_start: Ints,
    left: Int32s,
    right: Int32s,
    leaves: Int32s,
    in_bag: InBag | Int32s,
    vectors: Floats,
    moments: Moments,
) -> None:
    """Fill ``moments``, which are zeros, from the in-bag rows that reached each node, without cancellation.

    Let two children have weights m and m', and means that differ by d. The mean of both is m' / (m + m') of d away from
    the first one, and the squares are the sum of both plus m m' / (m + m') ||d||^2 (Chan, Golub, LeVeque, 1979).
    """
    first_row = np.empty(left.shape[0], np.int64)
    for tree in range(leaves.shape[0]):
        nodes = slice(tree_start[tree], tree_start[tree + 1])
        of_tree = Moments(moments.weights[nodes], moments.means[nodes], moments.squares[nodes])
        describe_ends(leaves[tree], in_bag[tree], vectors, first_row[nodes], of_tree)
        for node in range(left[nodes].shape[0] - 1, -1, -1):
            if left[nodes][node] >= 0:
                join(node, left[nodes][node], of_tree)
                join(node, right[nodes][node], of_tree)


@no_refcount
def describe_ends(leaves: Int32s, in_bag: InBag | Int32s, vectors: Floats, first_row: Ints, moments: Moments) -> None:
    """`describe` each node of a tree by the rows that end there: the mean about the first row, then the squares."""
    weights, means, squares = moments
    for row in range(leaves.shape[0]):
        if in_bag[row]:
            node = leaves[row]
            if weights[node] == 0.0:
                first_row[node] = row
            weights[node] += in_bag[row]
            for q in range(vectors.shape[1]):
                means[node, q] += in_bag[row] * (vectors[row, q] - vectors[first_row[node], q])
    for node in range(weights.shape[0]):
        if weights[node] > 0.0:
            for q in range(vectors.shape[1]):
                means[node, q] = vectors[first_row[node], q] + means[node, q] / weights[node]
    for row in range(leaves.shape[0]):
        if in_bag[row]:
            node = leaves[row]
            for q in range(vectors.shape[1]):
                squares[node] += in_bag[row] * (vectors[row, q] - means[node, q]) ** 2


@no_refcount
def join(node: int, child: int, moments: Moments) -> None:
    """Add the moments of a child to those of a node, by the formulas of `describe`."""
    weights, means, squares = moments
    both = weights[node] + weights[child]
    if both == 0.0:
        return
    squared_distance, share = 0.0, weights[child] / both
    for q in range(means.shape[1]):
        if weights[node] > 0.0:
            d = means[child, q] - means[node, q]
            squared_distance += d * d
            means[node, q] += share * d
        else:
            means[node, q] = means[child, q]
    squares[node] += squares[child] + weights[node] * share * squared_distance
    weights[node] = both
