"""Leaf tables of training distances with unobserved ones: means over observed pairs, and their substitutes.

The distance of two leaves is the mean of z_ij over the observed pairs of i in the one and j in the other. If no pair
was observed, the node with the higher number, which is at least as deep, is replaced by its parent, and so on, until
there is an observed pair; two siblings are replaced together. The distance of a leaf to itself is ``(d + (m^2 - q) g) /
m^2`` in the notation of `distforest.growth.cuts.observed_distance`: the pairs of a row with itself, which are always
known, and those of different rows at the mean g of the observed ones. If there are none, the leaf is replaced by its
parent in g.

A tree that drew no observed pair at all is silent: it is a root, whose distance is NaN. The other trees answer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from distforest.errors import ArtifactError
from distforest.forest.leaves import LeafTable, drawn_weights, expect
from distforest.forest.members import LeafDistances, Members, leaves_per_tree, triangle_size
from distforest.forest.node_sums import add_up_children, parents
from distforest.jit import kernel, no_refcount
from distforest.sources.source import Float32s, Floats, Int32s, Ints

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from distforest.forest.held_nodes import HeldNodes, OfOneRow
    from distforest.forest.node_table import NodeTable


class Lineage(NamedTuple):
    """The in-bag rows of one tree, side by side in every node, inner nodes too, and the parent of each node.

    Attributes
    ----------
    start, stop
        Start and end of the rows of each node, shape (n_nodes,).
    rows, weights
        Numbers and in-bag weights of the rows, shape (n_in_bag,).
    parent
        The parent of each node, -1 for the root, shape (n_nodes,).
    """

    start: Ints
    stop: Ints
    rows: Int32s
    weights: Int32s
    parent: Ints


def lineage_of(left: Int32s, right: Int32s, leaves: Int32s, weights: Int32s) -> Lineage:
    """Return the lineage of a tree, from the children of its nodes, and the leaf and weight of each training row."""
    rows = np.flatnonzero(weights)
    size = np.bincount(leaves[rows], minlength=len(left)).astype(np.int64)
    add_up_children(left, right, size)
    start = np.zeros(len(left), np.int64)
    place_nodes(left, right, size, start)
    order = np.argsort(start[leaves[rows]], kind="stable")
    rows = rows[order]
    return Lineage(start, start + size, rows.astype(np.int32), weights[rows].astype(np.int32), parents(left, right))


@kernel
def place_nodes(left: Int32s, right: Int32s, size: Ints, start: Ints) -> None:
    """Place the rows of a left child at the start of its parent's, and those of a right child behind its sibling's."""
    for node in range(left.shape[0]):
        if left[node] >= 0:
            start[left[node]], start[right[node]] = start[node], start[node] + size[left[node]]


@kernel
def sum_observed(tree: Lineage, distances: Float32s, one: Ints, other: Ints, sums: Floats, counts: Ints) -> None:
    """sums[e] = sum of w_i w_j z_ij over the observed i != j, i in one[e], j in other[e]; counts[e] = sum of w_i w_j.

    The outer sum runs over the rows of the node with the lower number, so a pair and its mirror image have the same
    bits.
    """
    for pair in range(one.shape[0]):
        low, high = min(one[pair], other[pair]), max(one[pair], other[pair])
        total, count = 0.0, 0
        for e in range(tree.start[low], tree.stop[low]):
            row, inner, known = distances[tree.rows[e]], 0.0, 0
            for f in range(tree.start[high], tree.stop[high]):
                z = row[tree.rows[f]]
                if not np.isnan(z) and tree.rows[f] != tree.rows[e]:
                    inner += tree.weights[f] * np.float64(z)
                    known += tree.weights[f]
            total += tree.weights[e] * inner
            count += tree.weights[e] * known
        sums[pair], counts[pair] = total, count


@kernel
def sum_selves(tree: Lineage, distances: Float32s, nodes: Ints, sums: Floats, masses: Ints) -> None:
    """sums[e] = sum of w_i^2 z_ii, masses[0, e] = sum of w_i, masses[1, e] = sum of w_i^2, over the rows of a node."""
    for e in range(nodes.shape[0]):
        total, m, q = 0.0, np.int64(0), np.int64(0)
        for f in range(tree.start[nodes[e]], tree.stop[nodes[e]]):
            w = np.int64(tree.weights[f])
            total += w * w * np.float64(distances[tree.rows[f], tree.rows[f]])
            m += w
            q += w * w
        sums[e], masses[0, e], masses[1, e] = total, m, q


@kernel
def count_unobserved(tree: Lineage, distances: Float32s, leaves: Ints) -> int:
    """Count the pairs of leaves, a leaf of several rows with itself among them, without an observed distance."""
    unobserved = 0
    for a in range(leaves.shape[0]):
        for b in range(a + 1):
            one, other = leaves[a], leaves[b]
            is_alone = a == b and tree.stop[one] - tree.start[one] == 1
            if not is_alone and not has_observed(tree, distances, one, other):
                unobserved += 1
    return unobserved


@no_refcount
def has_observed(tree: Lineage, distances: Float32s, one: int, other: int) -> bool:
    """Return whether a pair of different rows of two nodes was observed."""
    for e in range(tree.start[one], tree.stop[one]):
        for f in range(tree.start[other], tree.stop[other]):
            if tree.rows[e] != tree.rows[f] and not np.isnan(distances[tree.rows[e], tree.rows[f]]):
                return True
    return False


def observed_means(tree: Lineage, distances: Float32s, one: Ints, other: Ints) -> Floats:
    """Return the mean z_ij of different rows of two nodes or, if none was observed, of the next ancestors with one.

    Parameters
    ----------
    tree
        The lineage of the tree.
    distances
        The training distances, NaN where unobserved, shape (n, n).
    one, other
        Numbers of nodes, shape (n_pairs,).

    Returns
    -------
    ndarray
        Shape (n_pairs,), float64; NaN if the tree has no observed pair.
    """
    low, high = np.minimum(one, other), np.maximum(one, other)
    means = means_of_nodes(tree, distances, low, high)
    pending = np.flatnonzero(np.isnan(means))
    low, high = low[pending], high[pending]
    while len(pending):
        low, high = parents_of(tree.parent, low, high)
        pending, low, high = pending[high >= 0], low[high >= 0], high[high >= 0]  # there is nothing above two roots
        numbers, place = np.unique(low * len(tree.parent) + high, return_inverse=True)
        means[pending] = means_of_nodes(tree, distances, *np.divmod(numbers, len(tree.parent)))[place]
        unknown = np.isnan(means[pending])
        pending, low, high = pending[unknown], low[unknown], high[unknown]
    return means


def means_of_nodes(tree: Lineage, distances: Float32s, one: Ints, other: Ints) -> Floats:
    """Return the mean z_ij over observed pairs of different rows of two nodes, shape (n_pairs,); NaN without any."""
    sums, counts = np.empty(len(one)), np.empty(len(one), np.int64)
    sum_observed(tree, distances, one, other, sums, counts)
    return np.divide(sums, counts, out=np.full(len(one), np.nan), where=counts > 0)


def parents_of(parent: Ints, low: Ints, high: Ints) -> tuple[Ints, Ints]:
    """Replace the node of each pair with the higher number by its parent; return both, the lower number first.

    Two siblings, and a node with itself, are replaced together, so that no node meets its own ancestor. The parent of a
    root is -1.

    Examples
    --------
    >>> parents_of(np.array([-1, 0, 0, 1, 1]), np.array([2, 3, 1]), np.array([4, 3, 2]))
    (array([1, 1, 0]), array([2, 1, 0]))
    """
    above = parent[high]
    low = np.where(parent[low] == above, above, low)
    return np.minimum(low, above), np.maximum(low, above)


@dataclass(frozen=True)
class ObservedMembers(Members):
    """`Members` with NaN for unobserved distances.

    Attributes
    ----------
    unobserved
        Number of pairs of leaves of each tree without an observed pair of rows, shape (n_trees,).
    """

    unobserved: Ints | None = None

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the training distances, and how many pairs of leaves are unobserved."""
        assert self.unobserved is not None  # noqa: S101  (missing only during growth, when no arrays are read)
        return {"distances": self.distances, "unobserved": self.unobserved}

    @property
    def silent(self) -> NDArray[np.bool_]:
        """Which trees drew no observed pair, shape (n_trees,)."""
        return silent_trees(self.table, self.unobserved)

    def between(self, tree: int, left: Ints, right: Ints) -> Floats:
        """Return the distances of all of ``left`` and ``right``."""
        return LeafTable.between(self, tree, left, right)

    def pairs(self, tree: int, left: Ints, right: Ints) -> Floats:
        """Return the distances pair by pair."""
        lineage = self.lineage(tree)
        means = observed_means(lineage, self.distances, left, right)
        same = np.flatnonzero(left == right)
        selves, masses = np.empty(len(same)), np.empty((2, len(same)), np.int64)
        sum_selves(lineage, self.distances, left[same], selves, masses)
        m, q = masses.astype(np.float64)
        others = np.where(m * m > q, (m * m - q) * means[same], 0.0)
        means[same] = (selves + others) / (m * m)
        return means + self.offset

    def from_row(self, row: OfOneRow, held: HeldNodes, apart: Floats) -> None:
        """Compute the distances of one row's nodes."""
        LeafTable.from_row(self, row, held, apart)

    @property
    def is_quick(self) -> bool:
        """Whether one row's distances take little time: no, as the rows of each node are found again."""
        return False

    def lineage(self, tree: int) -> Lineage:
        """Return the in-bag rows of each node of a tree."""
        weights = drawn_weights(self.in_bag, self.sample_weight, tree)
        span = slice(self.table.tree_start[tree], self.table.tree_start[tree + 1])
        return lineage_of(self.table.left[span], self.table.right[span], self.leaves[tree], weights)

    def count(self, tree: int) -> int:
        """Count the pairs of leaves of a tree without an observed pair of rows."""
        span = slice(self.table.tree_start[tree], self.table.tree_start[tree + 1])
        return count_unobserved(self.lineage(tree), self.distances, np.flatnonzero(self.table.is_leaf[span]))

    def _hold(self, distances: Float32s) -> NDArray[np.bool_]:
        """Return which rows have only valid values: none infinite, and no NaN on the diagonal."""
        return np.asarray(~np.isinf(distances).any(axis=1))

    def check(self) -> None:
        """Refuse what `Members` refuses except NaN off the diagonal, and impossible counts; raise ArtifactError."""
        super().check()
        if np.isnan(self.distances.diagonal()).any():
            raise ArtifactError("distances: values on the diagonal are finite")
        check_unobserved(self.table, self.unobserved)


@dataclass(frozen=True)
class ObservedLeafDistances(LeafDistances):
    """`LeafDistances`, some of them those of ancestors; ``unobserved`` as in `ObservedMembers`."""

    unobserved: Ints | None = None

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the triangles, and how many pairs of leaves are unobserved."""
        assert self.unobserved is not None  # noqa: S101  (guaranteed by the kind of leaf table)
        return {"leaf_distances": self.leaf_distances, "unobserved": self.unobserved}

    @property
    def silent(self) -> NDArray[np.bool_]:
        """Which trees drew no observed pair, shape (n_trees,)."""
        return silent_trees(self.table, self.unobserved)

    def check(self) -> None:
        """Refuse what `LeafDistances` refuses except NaN in silent trees, and impossible counts."""
        check_unobserved(self.table, self.unobserved)
        silent = np.repeat(self.silent, triangle_size(leaves_per_tree(self.table)))
        values = self.leaf_distances
        if values.shape == silent.shape:
            values = np.where(silent & np.isnan(values), 0.0, values)
        LeafDistances(self.table, values).check()


def silent_trees(table: NodeTable, unobserved: Ints | None) -> NDArray[np.bool_]:
    """Return which trees are a single root without an observed pair of rows, shape (n_trees,)."""
    silent: NDArray[np.bool_] = np.zeros(table.n_trees, np.bool_)
    return silent if unobserved is None else (leaves_per_tree(table) == 1) & (unobserved == 1)


def share_of_pairs(unobserved: Ints, n_leaves: Ints) -> float:
    """Return the share of unobserved pairs of leaves among those of all trees, from their numbers per tree."""
    return float(unobserved.sum() / triangle_size(n_leaves).sum())


def check_unobserved(table: NodeTable, unobserved: Ints | None) -> None:
    """Refuse counts that are not from 0 to the number of pairs of leaves; raise ArtifactError."""
    if unobserved is None:
        raise ArtifactError("unobserved: missing")
    expect("unobserved", unobserved, (table.n_trees,), np.int64)
    bad = (unobserved < 0) | (unobserved > triangle_size(leaves_per_tree(table)))
    if bad.any():
        raise ArtifactError(f"unobserved[{int(np.argmax(bad))}]: a number of pairs of leaves was expected")
