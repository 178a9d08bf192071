"""Distances of leaves to all leaves of their tree, kept for whoever asks for one row after another.

A mean over the members of two leaves costs as many reads as it has terms. The next row ends in some of the same leaves,
and then the distances are there. Those of a leaf lie side by side, by the numbers of the leaves of its tree::

    tree 0, leaf 0   0.1 0.7 0.9       training rows' leaves   2 0 0 1
    tree 0, leaf 1   .   .   .         not yet asked for
    tree 0, leaf 2   0.9 0.4 0.2

so that a row's distances to the training rows are looked up at once. Memory is touched where leaves were asked for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from distforest.forest.leaves import LeafDistances, Members, leaves_per_tree
from distforest.jit import borrowing, kernel
from distforest.sources.source import Float32s, Floats, Int32s, Ints, offsets

if TYPE_CHECKING:
    from numpy.typing import NDArray

KEPT_NUMBERS = 1 << 25
"""Most numbers that are kept, 256 MiB; of more or larger trees nothing is."""


class LeafMembers(NamedTuple):
    """The in-bag rows of each tree by its leaves, which are numbered from 0; L leaves in all.

    Attributes
    ----------
    first_leaf
        The number of leaves of the trees before each, shape (n_trees + 1,).
    start
        Where the rows of each leaf begin within its tree, and where the last end, shape (L + n_trees,).
    first
        Where the rows of each tree begin, shape (n_trees + 1,).
    rows, weights
        The rows, tree after tree and leaf after leaf, and their weights.
    """

    first_leaf: Ints
    start: Ints
    first: Ints
    rows: Int32s
    weights: Int32s


@dataclass(frozen=True, eq=False)
class KeptDistances:
    """The distances of leaves that were asked for.

    Attributes
    ----------
    members
        The leaf table.
    of_leaves
        Its rows by leaves.
    number
        The number of each node among the leaves of its tree, shape (N,); -1 of other nodes.
    places
        The numbers of the leaves of the training rows, shape (n_trees, n_rows).
    first
        Where the distances of each tree begin, shape (n_trees + 1,).
    kept
        The distances, leaf after leaf, shape (first[-1],).
    is_known
        Whether those of each leaf are there, shape (L,).
    """

    members: Members
    of_leaves: LeafMembers
    number: Int32s
    places: NDArray[np.uint16]
    first: Ints
    kept: Floats
    is_known: NDArray[np.bool_]

    @classmethod
    def of(cls, members: Members, nodes: Int32s) -> KeptDistances | None:
        """Room for the distances to training rows in ``nodes``, shape (n_trees, n_rows), leaves all of them.

        None if that is more than `KEPT_NUMBERS`.
        """
        table, n_leaves = members.table, leaves_per_tree(members.table)
        first = offsets(n_leaves * n_leaves)
        if first[-1] + nodes.size // 4 > KEPT_NUMBERS:
            return None
        number = np.where(table.is_leaf, LeafDistances(table, np.empty(0)).numbers, -1).astype(np.int32)
        groups = members.all_groups
        is_start = np.insert(table.is_leaf, table.tree_start[1:], True)  # after the last node of each tree
        rows = LeafMembers(offsets(n_leaves), groups.start[is_start], groups.first, groups.rows, groups.weights)
        places = number[table.tree_start[:-1, None] + nodes].astype(np.uint16)
        return cls(members, rows, number, places, first, np.empty(first[-1]), np.zeros(int(n_leaves.sum()), np.bool_))

    def add(self, nodes: Int32s, total: Floats) -> bool:
        """Add the distances of all trees from rows in ``nodes``, shape (n_trees, n), to ``total``, shape (n, n_rows).

        Adds nothing, and says so, if a node is no leaf.
        """
        leaves = self.number[self.members.table.tree_start[:-1, None] + nodes]
        if (leaves < 0).any():
            return False
        n_leaves = np.diff(self.of_leaves.first_leaf)
        for own, sums in zip(np.ascontiguousarray(leaves.T), total, strict=True):
            leaf = self.of_leaves.first_leaf[:-1] + own
            trees = np.flatnonzero(~self.is_known[leaf])
            if len(trees):
                keep_rows(trees, own, self.of_leaves, self.members.read, self.members.offset, self.first, self.kept)
                self.is_known[leaf[trees]] = True  # after they are: another thread may ask for the same
            add_kept(own, n_leaves, self.places, self.first, self.kept, sums)
        return True


@kernel
def keep_rows(
    trees: Ints, own: Int32s, of: LeafMembers, distances: Float32s, offset: float, first: Ints, kept: Floats
) -> None:
    """Write the distances of leaf own[t] of each of some trees: offset + mean of z_ij, as `mean_between`."""
    inner = np.empty(np.diff(of.first).max())
    for tree in trees:
        start = of.start[of.first_leaf[tree] + tree : of.first_leaf[tree + 1] + tree + 1]
        rows, weights = of.rows[of.first[tree] : of.first[tree + 1]], of.weights[of.first[tree] : of.first[tree + 1]]
        n_leaves = start.shape[0] - 1
        begin = first[tree] + own[tree] * n_leaves
        means = kept[begin : begin + n_leaves]
        means_of_leaf(start, rows, weights, distances, own[tree], inner, means)
        for leaf in range(n_leaves):
            means[leaf] += offset


@borrowing
def means_of_leaf(
    start: Ints, rows: Int32s, weights: Int32s, distances: Float32s, own: int, inner: Floats, means: Floats
) -> None:
    """means[b] = mean of z_ij over i in leaf ``own``, j in leaf b, in the order of `mean_between`.

    Four rows of the leaf are read at once.
    """
    begin, end = start[own], start[own + 1]
    for f in range(begin):
        inner[f] = 0.0
    for leaf in range(means.shape[0]):
        means[leaf] = 0.0
    whole = begin + (end - begin) // 4 * 4
    for e in range(begin, whole, 4):
        add_four_rows(start, rows, weights, distances, own, e, inner, means)
    for e in range(whole, end):
        add_one_row(start, rows, weights, distances, own, e, inner, means)
    mass = weight_of(weights, begin, end)
    for leaf in range(means.shape[0]):
        if leaf < own:
            for f in range(start[leaf], start[leaf + 1]):
                means[leaf] += weights[f] * inner[f]
        means[leaf] /= mass * weight_of(weights, start[leaf], start[leaf + 1])


@borrowing
def weight_of(weights: Int32s, begin: int, end: int) -> int:
    """The sum of some weights."""
    mass = 0
    for f in range(begin, end):
        mass += weights[f]
    return mass


@borrowing
def add_one_row(
    start: Ints, rows: Int32s, weights: Int32s, distances: Float32s, own: int, e: int, inner: Floats, means: Floats
) -> None:
    """Add row ``e`` of leaf ``own``: to the inner sums of rows in leaves before it, and to the means of all others."""
    places = rows.view(np.uint32)  # see `distforest.jit`
    row, weight = distances[places[e]], np.float64(weights[e])
    for f in range(start[own]):
        inner[f] += weight * np.float64(row[places[f]])
    for leaf in range(own, means.shape[0]):
        total = 0.0
        for f in range(start[leaf], start[leaf + 1]):
            total += weights[f] * np.float64(row[places[f]])
        means[leaf] += weight * total


@borrowing
def add_four_rows(
    start: Ints, rows: Int32s, weights: Int32s, distances: Float32s, own: int, e: int, inner: Floats, means: Floats
) -> None:
    """`add_one_row` for the rows ``e`` to ``e`` + 3, one after the other in each sum."""
    places = rows.view(np.uint32)
    a, b, c, d = distances[places[e]], distances[places[e + 1]], distances[places[e + 2]], distances[places[e + 3]]
    of_a, of_b = np.float64(weights[e]), np.float64(weights[e + 1])
    of_c, of_d = np.float64(weights[e + 2]), np.float64(weights[e + 3])
    for f in range(start[own]):
        at = places[f]
        inner[f] = (
            inner[f]
            + of_a * np.float64(a[at])
            + of_b * np.float64(b[at])
            + of_c * np.float64(c[at])
            + of_d * np.float64(d[at])
        )
    for leaf in range(own, means.shape[0]):
        to_a, to_b, to_c, to_d = 0.0, 0.0, 0.0, 0.0
        for f in range(start[leaf], start[leaf + 1]):
            at, weight = places[f], np.float64(weights[f])
            to_a += weight * np.float64(a[at])
            to_b += weight * np.float64(b[at])
            to_c += weight * np.float64(c[at])
            to_d += weight * np.float64(d[at])
        means[leaf] = means[leaf] + of_a * to_a + of_b * to_b + of_c * to_c + of_d * to_d


@kernel
def add_kept(own: Int32s, n_leaves: Ints, places: NDArray[np.uint16], first: Ints, kept: Floats, total: Floats) -> None:
    """total[j] += distance of leaf own[t] to leaf places[t, j], tree after tree; four trees are read at once."""
    whole = own.shape[0] - own.shape[0] % 4
    for t in range(0, whole, 4):
        u, v, w = t + 1, t + 2, t + 3
        of_t, of_u = kept[first[t] + own[t] * n_leaves[t] :], kept[first[u] + own[u] * n_leaves[u] :]
        of_v, of_w = kept[first[v] + own[v] * n_leaves[v] :], kept[first[w] + own[w] * n_leaves[w] :]
        for j in range(total.shape[0]):
            total[j] = total[j] + of_t[places[t, j]] + of_u[places[u, j]] + of_v[places[v, j]] + of_w[places[w, j]]
    for t in range(whole, own.shape[0]):
        of_tree = kept[first[t] + own[t] * n_leaves[t] :]
        for j in range(total.shape[0]):
            total[j] += of_tree[places[t, j]]
