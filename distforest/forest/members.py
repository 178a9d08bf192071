"""Leaf tables of training distances: their means over the members of leaves, computed when needed, or kept.

A mean over the members of two leaves costs as many reads as it has terms. For small trees, the forest keeps the
distances of all pairs of leaves (`LeafDistances`). For others, a caller that computes one row after another keeps the
distances (`KeptDistances`), as the next row ends in some of the same leaves. They are stored side by side, by the
numbers of the leaves of a tree::

    tree 0, leaf 0   0.1 0.7 0.9       training rows' leaves   2 0 0 1
    tree 0, leaf 1   .   .   .         not yet computed
    tree 0, leaf 2   0.9 0.4 0.2

so that a row's distances to the training rows are looked up at once. Only computed leaves touch memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np

from distforest.errors import ArtifactError
from distforest.forest.leaves import LeafTable, check_members, drawn_weights, expect
from distforest.jit import kernel
from distforest.sources.mapped_rows import spans
from distforest.sources.source import Float32s, Floats, Int32s, Ints, offsets

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from distforest.forest.held_nodes import HeldNodes, OfOneRow
    from distforest.forest.leaves import InBag
    from distforest.forest.node_table import NodeTable

N = TypeVar("N", int, "Ints")

KEPT_NUMBERS = 1 << 25
"""Largest number of values that are kept, 256 MiB; otherwise nothing is kept."""


class Groups(NamedTuple):
    """The in-bag rows of a tree, grouped by node: ``start`` is the start of each node's rows, shape (n_nodes + 1,)."""

    start: Ints
    rows: Int32s
    weights: Int32s


def group(leaves: Int32s, in_bag: InBag | Int32s, n_nodes: int) -> Groups:
    """Group the in-bag rows of one tree by node; ``leaves`` and ``in_bag``, their weights, have shape (n_rows,)."""
    rows = np.flatnonzero(in_bag)
    order = np.argsort(leaves[rows], kind="stable")
    rows = rows[order]
    start = np.searchsorted(leaves[rows], np.arange(n_nodes + 1)).astype(np.int64)
    return Groups(start, rows.astype(np.int32), in_bag[rows].astype(np.int32))


@dataclass(frozen=True)
class Members(LeafTable):
    """The training distances; the rows of a leaf follow from the forest's ``leaves`` and ``in_bag``.

    Attributes
    ----------
    offset
        A constant that was subtracted from all distances.
    scale
        Scale of an older forest, which reads z_ij as rint(z_ij scale) / scale; 0: distances are read unchanged.
    sample_weight
        The weight of each training row, shape (n_rows,), by which its multiplicity is multiplied; None: 1.
    """

    table: NodeTable
    leaves: Int32s
    in_bag: InBag | Int32s
    distances: Float32s
    offset: float = 0.0
    scale: float = 0.0
    sample_weight: Int32s | None = None
    kind: str = "members"

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the training distances."""
        return {"distances": self.distances}

    @cached_property
    def read(self) -> Float32s:
        """The distances as they are read; in fixed point they are float32, too, as the scale is a power of two."""
        if not self.scale:
            return self.distances
        read = np.empty_like(self.distances)
        with np.errstate(over="ignore", invalid="ignore"):  # a file of unknown origin may have any scale
            for rounded, row in zip(read, self.distances, strict=True):
                rounded[:] = np.rint(row * np.float64(self.scale)) / self.scale
        return read

    def groups(self, tree: int) -> Groups:
        """Return the in-bag rows of a tree by their leaves."""
        weights = drawn_weights(self.in_bag, self.sample_weight, tree)
        return group(self.leaves[tree], weights, int(self.table.tree_size[tree]))

    def between(self, tree: int, left: Ints, right: Ints) -> Floats:
        """Mean of z_ij over the members of all of ``left`` and ``right``."""
        means = np.empty((len(left), len(right)))
        mean_between(*self.groups(tree), self.read, left, right, means)
        return means + self.offset

    def pairs(self, tree: int, left: Ints, right: Ints) -> Floats:
        """Mean of z_ij over the members, pair by pair."""
        means = np.empty(len(left))
        mean_pairs(*self.groups(tree), self.read, left, right, means)
        return means + self.offset

    @cached_property
    def all_groups(self) -> list[Groups]:
        """The in-bag rows of all trees by their leaves."""
        return [self.groups(tree) for tree in range(self.table.n_trees)]

    def from_row(self, row: OfOneRow, held: HeldNodes, apart: Floats) -> None:
        """Mean of z_ij over the members, for one row's nodes."""
        for tree in row.trees.tolist():
            nodes = held.nodes[held.start[tree] : held.start[tree + 1]].astype(np.int64)
            means = np.empty((1, len(nodes)))
            mean_between(*self.all_groups[tree], self.read, row.ends[tree : tree + 1].astype(np.int64), nodes, means)
            apart[row.root[tree] + nodes] = means[0] + self.offset

    @property
    def is_quick(self) -> bool:
        """Whether one row's distances to all nodes take little time."""
        return True

    def _hold(self, distances: Float32s) -> NDArray[np.bool_]:
        """Return which rows of distances have only valid values, shape (n_rows,)."""
        return np.asarray(np.isfinite(distances).all(axis=1))

    def check(self) -> None:
        """Refuse distances that are not finite or not square, and leaves without members; raise ArtifactError."""
        n = self.leaves.shape[1]
        expect("distances", self.distances, (n, n), np.float32)
        for first in range(0, n, 4096):
            holds = self._hold(self.distances[first : first + 4096])
            if not holds.all():
                raise ArtifactError(f"distances[{first + int(np.argmin(holds))}]: values are finite")
        check_members(self.table, self.leaves, self.in_bag)


@dataclass(frozen=True)
class LeafDistances(LeafTable):
    """Distances of all pairs of leaves of each tree, as packed upper triangles, tree after tree, shape (P,)."""

    table: NodeTable
    leaf_distances: Floats
    kind: str = "leaf_distances"

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the triangles."""
        return {"leaf_distances": self.leaf_distances}

    @cached_property
    def numbers(self) -> Int32s:
        """The number of each leaf among the leaves of its tree, shape (N,)."""
        total = offsets(self.table.is_leaf)
        root = np.repeat(self.table.tree_start[:-1], self.table.tree_size)
        return (total[1:] - total[root] - 1).astype(np.int32)

    @cached_property
    def _ends(self) -> Ints:
        """Start of each tree's triangle, shape (n_trees + 1,)."""
        return offsets(triangle_size(leaves_per_tree(self.table)))

    def pairs(self, tree: int, left: Ints, right: Ints) -> Floats:
        """Return distances pair by pair."""
        start, triangle = self.table.tree_start[tree], self.leaf_distances[self._ends[tree] : self._ends[tree + 1]]
        one, other = self.numbers[start + left].astype(np.int64), self.numbers[start + right].astype(np.int64)
        high = np.maximum(one, other)
        return np.take(triangle, high * (high + 1) // 2 + np.minimum(one, other))

    def from_row(self, row: OfOneRow, held: HeldNodes, apart: Floats) -> None:
        """Compute the distances of one row's nodes."""
        triangles_of_row(self.table.tree_start, self.numbers, self._ends, self.leaf_distances, row, held, apart)

    @property
    def is_quick(self) -> bool:
        """Whether one row's distances to all nodes take little time."""
        return True

    def check(self) -> None:
        """Refuse triangles of the wrong size, and values that are not finite; raise ArtifactError."""
        size = int(triangle_size(leaves_per_tree(self.table)).sum())
        expect("leaf_distances", self.leaf_distances, (size,), np.float64)
        holds = np.isfinite(self.leaf_distances)
        if not holds.all():
            raise ArtifactError(f"leaf_distances[{int(np.argmin(holds))}]: values are finite")


def leaves_per_tree(table: NodeTable) -> Ints:
    """Return the number of leaves of each tree, shape (n_trees,)."""
    total = offsets(table.is_leaf)
    return np.subtract(total[table.tree_start[1:]], total[table.tree_start[:-1]])


def triangle_size(n_leaves: N) -> N:
    """L (L + 1) / 2: number of entries of a packed triangle with its diagonal."""
    return n_leaves * (n_leaves + 1) // 2


@kernel
def mean_between(
    start: Ints, rows: Int32s, weights: Int32s, distances: Float32s, left: Ints, right: Ints, means: Floats
) -> None:
    """means[a, b] = sum w_i w_j z_ij / (m_a m_b) over i in left[a], j in right[b], in the order of `mean_pairs`.

    Each row of the matrix is read once. If its node has the lower number of the two, the row adds one inner sum; if
    not, it adds one term to each inner sum of the other node.
    """
    places, begin = rows.view(np.uint32), np.zeros(right.shape[0] + 1, np.int64)  # see `distforest.jit`
    mass = np.zeros(right.shape[0], np.int64)
    for b in range(right.shape[0]):
        begin[b + 1] = begin[b] + start[right[b] + 1] - start[right[b]]
        for f in range(start[right[b]], start[right[b] + 1]):
            mass[b] += weights[f]
    inner = np.empty(begin[-1])
    for a in range(left.shape[0]):
        mass_left = 0
        inner[:] = 0.0
        means[a] = 0.0
        for e in range(start[left[a]], start[left[a] + 1]):
            mass_left += weights[e]
            row, weight = distances[places[e]], np.float64(weights[e])
            for b in range(right.shape[0]):
                first, last = start[right[b]], start[right[b] + 1]
                if left[a] <= right[b]:
                    total = 0.0
                    for f in range(first, last):
                        total += weights[f] * np.float64(row[places[f]])
                    means[a, b] += weight * total
                else:
                    for f in range(first, last):
                        inner[begin[b] + f - first] += weight * np.float64(row[places[f]])
        for b in range(right.shape[0]):
            if left[a] > right[b]:
                first = start[right[b]]
                for k in range(begin[b], begin[b + 1]):
                    means[a, b] += weights[first + k - begin[b]] * inner[k]
            means[a, b] /= mass_left * mass[b]


@kernel
def mean_pairs(
    start: Ints, rows: Int32s, weights: Int32s, distances: Float32s, left: Ints, right: Ints, means: Floats
) -> None:
    """means[e]: as in `mean_between`, for the pair left[e], right[e].

    The outer sum runs over the rows of the node with the lower number, the inner sums over those of the other node. So
    a pair and its mirror image have the same bits.
    """
    places = rows.view(np.uint32)
    for pair in range(left.shape[0]):
        low, high = min(left[pair], right[pair]), max(left[pair], right[pair])
        total, mass_low, mass_high = 0.0, 0, 0
        for f in range(start[high], start[high + 1]):
            mass_high += weights[f]
        for e in range(start[low], start[low + 1]):
            mass_low += weights[e]
            row, inner = distances[places[e]], 0.0
            for f in range(start[high], start[high + 1]):
                inner += weights[f] * np.float64(row[places[f]])
            total += weights[e] * inner
        means[pair] = total / (mass_low * mass_high)


@kernel
def triangles_of_row(
    tree_start: Ints, numbers: Int32s, ends: Ints, triangles: Floats, row: OfOneRow, held: HeldNodes, apart: Floats
) -> None:
    """apart[root[t] + l] = the entry of the tree's triangle for both leaves."""
    for tree in row.trees:
        start, own = tree_start[tree], row.root[tree]
        triangle, one = triangles[ends[tree] : ends[tree + 1]], np.int64(numbers[start + row.ends[tree]])
        for node in held.nodes[held.start[tree] : held.start[tree + 1]]:
            other = np.int64(numbers[start + node])
            low, high = min(one, other), max(one, other)
            apart[own + node] = triangle[high * (high + 1) // 2 + low]


class RowsOfLeaves(NamedTuple):
    """The in-bag rows of one tree by its leaves, which are numbered from 0.

    Attributes
    ----------
    start, rows, weights
        Start of each leaf's rows, shape (n_leaves + 1,); their numbers, ascending in each leaf; their weights.
    mass
        The weight of each leaf, shape (n_leaves,).
    """

    start: Ints
    rows: Int32s
    weights: Int32s
    mass: Ints

    @classmethod
    def from_members(cls, members: Members, tree: int) -> RowsOfLeaves:
        """Return the rows of a tree of ``members``."""
        table, groups = members.table, members.groups(tree)
        nodes = np.flatnonzero(table.is_leaf[table.tree_start[tree] : table.tree_start[tree + 1]])
        start = offsets(np.diff(groups.start)[nodes])  # inner nodes have no rows
        return cls(start, groups.rows, groups.weights, np.add.reduceat(groups.weights, start[:-1], dtype=np.int64))


def leaf_triangles(members: Members, block_rows: int) -> Floats:
    """Return the packed distances of all pairs of leaves of each tree, tree after tree: see `LeafDistances`.

    The matrix of ``members`` is read once for all trees, ``block_rows`` rows at a time, in order, whatever leaf they
    are in. A row adds one inner sum to each leaf with a number not below its own::

        row 8, leaf 2   z_8.  in the order of the leaves  [ leaf 1 | leaf 2 | leaf 5 | leaf 6 ]
                                                                      sum      sum      sum       times w_8

    The rows of a leaf come in ascending order, so every sum is added in the order of `mean_between`.
    """
    ends = offsets(triangle_size(leaves_per_tree(members.table)))
    triangles = np.zeros(ends[-1])
    trees = [RowsOfLeaves.from_members(members, tree) for tree in range(members.table.n_trees)]
    leaf, weight = np.zeros((2, len(trees), members.leaves.shape[1]), np.int32)  # by training row, 0 out of bag
    for number, tree in enumerate(trees):
        leaf[number, tree.rows] = np.repeat(np.arange(len(tree.mass)), np.diff(tree.start))
        weight[number, tree.rows] = tree.weights
    of_trees = [triangles[first:last] for first, last in pairwise(ends.tolist())]
    for first_row, last_row in spans(members.distances, np.flatnonzero(weight.any(axis=0)), block_rows):
        for tree, leaf_of, weight_of, triangle in zip(trees, leaf, weight, of_trees, strict=True):
            add_rows(tree, leaf_of, weight_of, first_row, last_row, members.distances, triangle)
    for tree, triangle in zip(trees, of_trees, strict=True):
        for a, mass in enumerate(tree.mass.tolist()):
            of_row = triangle[triangle_size(a) : triangle_size(a + 1)]
            np.divide(of_row, mass * tree.mass[: a + 1], out=of_row)
    triangles += members.offset
    return triangles


@kernel
def add_rows(
    tree: RowsOfLeaves,
    leaf: Int32s,
    weight: Int32s,
    first_row: int,
    last_row: int,
    distances: Float32s,
    triangle: Floats,
) -> None:
    """triangle[a, b] += w_i sum_j w_j z_ij over rows i of leaf b from first_row to last_row - 1, j in leaf a >= b."""
    places = tree.rows.view(np.uint32)  # see `distforest.jit`
    for i in range(first_row, last_row):
        own, row, of_row = leaf[i], distances[i], np.float64(weight[i])
        if of_row == 0.0:
            continue
        for other in range(own, tree.start.shape[0] - 1):
            total = 0.0
            for f in range(tree.start[other], tree.start[other + 1]):
                total += tree.weights[f] * np.float64(row[places[f]])
            triangle[other * (other + 1) // 2 + own] += of_row * total


@dataclass(frozen=True, eq=False)
class KeptDistances:
    """The distances of leaves that were computed so far.

    Attributes
    ----------
    members
        The leaf table.
    of_leaves
        The rows of each tree by its leaves.
    first_leaf
        Number of leaves of the trees before each, shape (n_trees + 1,).
    number
        The number of each node among the leaves of its tree, shape (N,); -1 for inner nodes.
    places
        The numbers of the leaves of the training rows, shape (n_trees, n_rows).
    first
        Start of the distances of each tree, shape (n_trees + 1,).
    kept
        The distances, leaf after leaf, shape (first[-1],).
    is_known
        Whether the distances of each leaf are computed, shape (L,).
    """

    members: Members
    of_leaves: list[RowsOfLeaves]
    first_leaf: Ints
    number: Int32s
    places: NDArray[np.uint16]
    first: Ints
    kept: Floats
    is_known: NDArray[np.bool_]

    @classmethod
    def allocate(cls, members: Members, nodes: Int32s) -> KeptDistances | None:
        """Allocate the distances to training rows in ``nodes``, shape (n_trees, n_rows), which are all leaves.

        Return None if they are more than `KEPT_NUMBERS`.
        """
        table, n_leaves = members.table, leaves_per_tree(members.table)
        first = offsets(n_leaves * n_leaves)
        if first[-1] + nodes.size // 4 > KEPT_NUMBERS:
            return None
        number = np.where(table.is_leaf, LeafDistances(table, np.empty(0)).numbers, -1).astype(np.int32)
        rows = [RowsOfLeaves.from_members(members, tree) for tree in range(table.n_trees)]
        places = number[table.tree_start[:-1, None] + nodes].astype(np.uint16)
        is_known = np.zeros(int(n_leaves.sum()), np.bool_)
        return cls(members, rows, offsets(n_leaves), number, places, first, np.empty(first[-1]), is_known)

    def add(self, nodes: Int32s, total: Floats) -> bool:
        """Add the distances of all trees from rows in ``nodes``, shape (n_trees, n), to ``total``, shape (n, n_rows).

        If a node is not a leaf, add nothing and return False.
        """
        leaves = self.number[self.members.table.tree_start[:-1, None] + nodes]
        if (leaves < 0).any():
            return False
        n_leaves = np.diff(self.first_leaf)
        for own, sums in zip(np.ascontiguousarray(leaves.T), total, strict=True):
            leaf = self.first_leaf[:-1] + own
            for tree in np.flatnonzero(~self.is_known[leaf]).tolist():
                self.keep(tree, int(own[tree]))
            add_kept(own, n_leaves, self.places, self.first, self.kept, sums)
        return True

    def keep(self, tree: int, own: int) -> None:
        """Compute and keep the distances of a leaf of a tree."""
        rows = self.of_leaves[tree]
        begin = self.first[tree] + own * len(rows.mass)
        means = self.kept[begin : begin + len(rows.mass)]
        means_of_leaf(rows, self.members.read, own, np.empty(rows.start[own]), means)
        means += self.members.offset
        self.is_known[self.first_leaf[tree] + own] = True  # only now, as another thread may need the same


@kernel
def means_of_leaf(of: RowsOfLeaves, distances: Float32s, own: int, inner: Floats, means: Floats) -> None:
    """means[b] = mean of z_ij over i in leaf ``own``, j in leaf b, in the order of `mean_between`.

    Four rows of the leaf are read at once; instead of rows after the last, that one is read with weight 0. A row adds
    to the inner sums, ``inner``, of all rows in leaves before its own, and to the means of all other leaves.
    """
    start, rows, weights, mass = of
    places, last = rows.view(np.uint32), start[own + 1] - 1  # see `distforest.jit`
    inner[:] = 0.0
    means[:] = 0.0
    for e in range(start[own], last + 1, 4):
        f, g, h = min(e + 1, last), min(e + 2, last), min(e + 3, last)
        a, b, c, d = distances[places[e]], distances[places[f]], distances[places[g]], distances[places[h]]
        of_a, of_b = np.float64(weights[e]), np.float64(weights[f] if e + 1 <= last else 0)
        of_c, of_d = np.float64(weights[g] if e + 2 <= last else 0), np.float64(weights[h] if e + 3 <= last else 0)
        for k in range(inner.shape[0]):
            at = places[k]
            first_two = inner[k] + of_a * np.float64(a[at]) + of_b * np.float64(b[at])
            inner[k] = first_two + of_c * np.float64(c[at]) + of_d * np.float64(d[at])
        for leaf in range(own, means.shape[0]):
            to_a, to_b, to_c, to_d = 0.0, 0.0, 0.0, 0.0
            for k in range(start[leaf], start[leaf + 1]):
                at, weight = places[k], np.float64(weights[k])
                to_a += weight * np.float64(a[at])
                to_b += weight * np.float64(b[at])
                to_c += weight * np.float64(c[at])
                to_d += weight * np.float64(d[at])
            means[leaf] = means[leaf] + of_a * to_a + of_b * to_b + of_c * to_c + of_d * to_d
    for leaf in range(means.shape[0]):
        if leaf < own:
            for k in range(start[leaf], start[leaf + 1]):
                means[leaf] += weights[k] * inner[k]
        means[leaf] /= mass[own] * mass[leaf]


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
