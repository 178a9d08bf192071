"""Leaf tables: the distance of two nodes of a tree, and the prediction of a node.

=================  =====================================  =============================================
kind               arrays                                 distance of two nodes l, l'
=================  =====================================  =============================================
``class_counts``   class_counts (N, K)                    1 - sum_k p_k p'_k, p = c counts / their sum
                   and costs (K, K)                       sum_kl C_kl p_k p'_l
``means``          means (N, q), spreads (N,)             factor (|m - m'|^2 + s + s')
``taught_targets``  taught_targets (n, 1)                  mean of abs(y_i - y_j), i in l, j in l'
``members``        distances (n, n)                       offset + mean of z_ij, i in l, j in l' (SMERF, Eq. 2)
``leaf_distances``  leaf_distances, packed triangles      the same, computed when the tree was grown
``path_lengths``   none (see path_lengths.py)             1[l != l']
=================  =====================================  =============================================

If some z_ij are unobserved, ``members`` and ``leaf_distances`` are those of observed_leaves.py. The third kind is in
target_leaves.py, the next two are in members.py.

The class weights c are 1 unless given. Every distance is symmetric bit for bit, and does not depend on the other nodes
of the same call.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from distforest.amounts import counted
from distforest.errors import ArtifactError
from distforest.forest.held_nodes import HeldNodes, OfOneRow
from distforest.forest.node_table import PickledWithoutCaches
from distforest.jit import kernel, no_refcount
from distforest.sources.source import Float32s, Floats, Int32s, Ints

if TYPE_CHECKING:
    from distforest.forest.node_table import NodeTable

Counts = NDArray[np.int32]
InBag = NDArray[np.uint8]

COSTS = "costs"
"""Array of the distances of classes, in forests whose classes are not all equally far apart."""

LAID_NUMBERS = 1 << 22
"""Largest number of values of `LaidMeans`, 32 MiB; for more, each leaf is read once and looked up for each row."""

MAX_CLASS_WEIGHT = 1 << 24
"""Largest weight of a class."""

NODES_OF_A_BLOCK = 1 << 16
"""Number of nodes whose counts are added up at once."""


class LeafTable(PickledWithoutCaches, ABC):
    """The distances of a forest's nodes; nodes are numbers within their tree.

    Attributes
    ----------
    table
        The node table.
    kind
        Name of the table's kind.
    """

    table: NodeTable
    kind: str

    @property
    def is_quick(self) -> bool:
        """Whether one row's distances to all nodes take little time, so that few rows are compared one by one."""
        return False

    @abstractmethod
    def arrays(self) -> dict[str, np.ndarray]:
        """Return the table's arrays by name, without those of the node table."""

    @abstractmethod
    def pairs(self, tree: int, left: Ints, right: Ints) -> Floats:
        """Distance of left[e] and right[e], shape (n_pairs,)."""

    def between(self, tree: int, left: Ints, right: Ints) -> Floats:
        """Distance of each node in ``left`` to each in ``right``, shape (n_left, n_right)."""
        return self.pairs(tree, np.repeat(left, len(right)), np.tile(right, len(left))).reshape(len(left), len(right))

    def from_row(self, row: OfOneRow, held: HeldNodes, apart: Floats) -> None:
        """Compute the distances of one row's nodes: apart[root[t] + l] for each held node l of each of its trees t."""
        for tree in row.trees.tolist():
            nodes = held.nodes[held.start[tree] : held.start[tree + 1]].astype(np.int64)
            apart[row.root[tree] + nodes] = self.between(tree, row.ends[tree : tree + 1].astype(np.int64), nodes)[0]

    @abstractmethod
    def check(self) -> None:
        """Refuse arrays that do not match the node table; raise ArtifactError."""


def drawn_weights(in_bag: InBag | Int32s, sample_weight: Int32s | None, tree: int) -> Int32s:
    """Return the in-bag weight of each row in a tree, shape (n_rows,): how often it was drawn, times its weight."""
    weights: Int32s = in_bag[tree].astype(np.int32)
    return weights if sample_weight is None else weights * sample_weight


def check_members(table: NodeTable, leaves: Int32s, in_bag: InBag | Int32s) -> None:
    """Refuse a leaf without an in-bag row; raise ArtifactError."""
    for tree in range(table.n_trees):
        span = slice(table.tree_start[tree], table.tree_start[tree + 1])
        drawn = leaves[tree, in_bag[tree] > 0]
        empty = table.is_leaf[span] & (np.bincount(drawn, minlength=span.stop - span.start) == 0)
        if empty.any():
            raise ArtifactError(f"leaves[{tree}]: leaf {int(np.argmax(empty))} has no in-bag row")


def expect(name: str, found: np.ndarray, shape: tuple[int, ...], dtype: type) -> None:
    """Refuse an array of another shape or dtype; raise ArtifactError."""
    if found.shape != shape or found.dtype != dtype:
        raise ArtifactError(
            f"{name}: expected {np.dtype(dtype).name} of shape {shape}, found {found.dtype} of shape {found.shape}"
        )


class ShareTable(NamedTuple):
    """The parts of the class shares in nodes, counts[l, k] factors[k] / sizes[l]: see `ClassCounts`.

    ``pure`` is the only class of a node, -1 if there are several, shape (N,).
    """

    tree_start: Ints
    counts: Counts
    factors: Floats
    sizes: Floats
    pure: Int32s


@dataclass(frozen=True)
class ClassCounts(LeafTable):
    """In-bag weight of each class in each node, inner nodes included, shape (N, K), and the class weights.

    ``costs`` are the distances C of classes, shape (K, K); None: 1 for any two classes.
    """

    table: NodeTable
    class_counts: Counts
    class_weights: tuple[int, ...] | None = None
    costs: Float32s | None = None
    kind: str = "class_counts"

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the counts, and the costs if there are any."""
        return {"class_counts": self.class_counts, **({} if self.costs is None else {COSTS: self.costs})}

    @property
    def n_outputs(self) -> int:
        """Number of classes."""
        return int(self.class_counts.shape[1])

    def outputs(self, tree: int, nodes: Ints) -> Floats:
        """Return the share of each class in each node, by counts times class weights, shape (n_nodes, K)."""
        counts = self.class_counts[self.table.tree_start[tree] + nodes].astype(np.float64)
        if self.class_weights is not None:
            counts *= self.class_weights
        return np.divide(counts, counts.sum(axis=1, keepdims=True))

    def between(self, tree: int, left: Ints, right: Ints) -> Floats:
        """1 - sum_k p_k p'_k, or sum_kl C_kl p_k p'_l, for all of ``left`` and ``right``."""
        distances = np.empty((len(left), len(right)))
        class_distances(self.outputs(tree, left), self.outputs(tree, right), self.costs, distances)
        return distances

    def pairs(self, tree: int, left: Ints, right: Ints) -> Floats:
        """1 - sum_k p_k p'_k, or sum_kl C_kl p_k p'_l, pair by pair."""
        distances = np.empty(len(left))
        class_distances_of_pairs(self.outputs(tree, left), self.outputs(tree, right), self.costs, distances)
        return distances

    @cached_property
    def sizes(self) -> Floats:
        """The sum of each node's counts times class weights, by which `outputs` divides, shape (N,)."""
        sizes = np.empty(len(self.class_counts))
        for first in range(0, len(sizes), NODES_OF_A_BLOCK):
            counts = self.class_counts[first : first + NODES_OF_A_BLOCK].astype(np.float64)
            sizes[first : first + NODES_OF_A_BLOCK] = (counts * self.factors).sum(axis=1)
        return sizes

    @cached_property
    def factors(self) -> Floats:
        """The class weights, 1 if there are none, shape (K,)."""
        return np.array(self.class_weights or (1,) * self.n_outputs, np.float64)

    @cached_property
    def _shares(self) -> ShareTable:
        pure = np.empty(len(self.class_counts), np.int32)
        find_pure(self.class_counts, pure)
        return ShareTable(self.table.tree_start, self.class_counts, self.factors, self.sizes, pure)

    def from_row(self, row: OfOneRow, held: HeldNodes, apart: Floats) -> None:
        """1 - sum_k p_k p'_k, or sum_kl C_kl p_k p'_l, for one row's nodes."""
        if self.costs is None:
            class_distances_of_row(self._shares, row, held, apart)
        else:
            super().from_row(row, held, apart)

    @property
    def is_quick(self) -> bool:
        """Whether one row's distances to all nodes take little time: all except those by costs."""
        return self.costs is None

    def add_outputs(self, nodes: Int32s, voters: Int32s, votes: Floats, total: Floats) -> None:
        """Add `outputs` of all trees, or the votes of training objects: see `add_class_shares`."""
        add_class_shares(self._shares, nodes, voters, votes, total)

    def check(self) -> None:
        """Refuse counts that are negative or do not add up to ``n_rows`` > 0; raise ArtifactError."""
        shape = (len(self.table.left), self.class_counts.shape[-1] if self.class_counts.ndim == 2 else 1)
        expect("class_counts", self.class_counts, shape, np.int32)
        if self.class_weights is not None and len(self.class_weights) != self.n_outputs:
            raise ArtifactError(
                f"class_counts: expected {counted(len(self.class_weights), 'class', 'classes')}, one for each weight"
            )
        bad = (self.class_counts < 0).any(axis=1) | (self.class_counts.sum(axis=1, dtype=np.int64) < 1)
        bad |= self.class_counts.sum(axis=1, dtype=np.int64) != self.table.n_rows
        if bad.any():
            raise ArtifactError(f"class_counts[{int(np.argmax(bad))}]: counts are >= 0 and add up to n_rows > 0")
        if self.costs is not None:
            expect(COSTS, self.costs, (self.n_outputs,) * 2, np.float32)
            bad = ~(np.isfinite(self.costs) & (self.costs >= 0.0)) | (self.costs != self.costs.T)
            bad |= np.eye(self.n_outputs, dtype=np.bool_) & (self.costs != 0.0)
            if bad.any():
                place = int(np.argmax(bad.any(axis=1)))
                raise ArtifactError(f"{COSTS}[{place}]: values are finite, symmetric, >= 0, and 0 on the diagonal")


class LaidMeans(NamedTuple):
    """Means and spreads of the nodes of rows, side by side: shapes (n_trees, q, n_rows) and (n_trees, n_rows)."""

    means: Floats
    spreads: Floats


@dataclass(frozen=True)
class Means(LeafTable):
    """Mean target or embedding of each node, shape (N, q), and the mean squared deviation from it, shape (N,)."""

    table: NodeTable
    means: Floats
    spreads: Floats
    factor: float
    kind: str = "means"

    def arrays(self) -> dict[str, np.ndarray]:
        """Means and spreads."""
        return {"means": self.means, "spreads": self.spreads}

    @property
    def n_outputs(self) -> int:
        """Number of targets, or dimensions of the embedding."""
        return int(self.means.shape[1])

    def outputs(self, tree: int, nodes: Ints) -> Floats:
        """Mean target or embedding of each node, shape (n_nodes, q)."""
        means: Floats = self.means[self.table.tree_start[tree] + nodes]
        return means

    def between(self, tree: int, left: Ints, right: Ints) -> Floats:
        """Factor times mean ||Y - Y'||^2 for all of ``left`` and ``right``."""
        start, distances = self.table.tree_start[tree], np.empty((len(left), len(right)))
        spread_distances(self.means, self.spreads, self.factor, start + left, start + right, distances)
        return distances

    def pairs(self, tree: int, left: Ints, right: Ints) -> Floats:
        """Factor times mean ||Y - Y'||^2, pair by pair."""
        start, distances = self.table.tree_start[tree], np.empty(len(left))
        spread_distances_of_pairs(self.means, self.spreads, self.factor, start + left, start + right, distances)
        return distances

    def from_row(self, row: OfOneRow, held: HeldNodes, apart: Floats) -> None:
        """Factor times mean ||Y - Y'||^2 for one row's nodes."""
        spread_distances_of_row(self.table.tree_start, self.means, self.spreads, self.factor, row, held, apart)

    @property
    def is_quick(self) -> bool:
        """Whether one row's distances to all nodes take little time."""
        return True

    def laid(self, nodes: Int32s) -> LaidMeans | None:
        """Lay out the means and spreads of the nodes of rows, shape (n_trees, n_rows); None above `LAID_NUMBERS`."""
        if nodes.size * (self.n_outputs + 1) > LAID_NUMBERS:
            return None
        places = self.table.tree_start[:-1, None] + nodes
        return LaidMeans(np.ascontiguousarray(np.moveaxis(self.means[places], 2, 1)), self.spreads[places])

    def add_from_laid(self, ends: Int32s, laid: LaidMeans, total: Floats) -> None:
        """Add the distances of all trees from one row's nodes to ``total``, shape (n_rows,)."""
        add_laid_distances(self.table.tree_start, self.means, self.spreads, self.factor, ends, laid, total)

    def add_outputs(self, nodes: Int32s, voters: Int32s, votes: Floats, total: Floats) -> None:
        """Add `outputs` of all trees, or the votes of training objects: see `add_means`."""
        add_means(self.table.tree_start, self.means, nodes, voters, votes, total)

    def check(self) -> None:
        """Refuse means and spreads that are not finite, and negative spreads; raise ArtifactError."""
        n = len(self.table.left)
        expect("means", self.means, (n, self.means.shape[-1] if self.means.ndim == 2 else 1), np.float64)
        expect("spreads", self.spreads, (n,), np.float64)
        for name, holds in (
            ("means", np.isfinite(self.means).all(axis=1)),
            ("spreads", np.isfinite(self.spreads) & (self.spreads >= 0)),
        ):
            if not holds.all():
                raise ArtifactError(f"{name}[{int(np.argmin(holds))}]: values are finite, spreads not negative")


@no_refcount
def class_distance(one: Floats, other: Floats, costs: Float32s | None) -> float:
    """1 - sum_k p_k p'_k; or with costs the sum over k > l of C_kl (p_k p'_l + p_l p'_k).

    A pair and its mirror image add the same terms in the same order. If ``costs`` is None, Numba compiles nothing for
    them.
    """
    if costs is None:
        same = 0.0
        for k in range(one.shape[0]):
            same += one[k] * other[k]
        return 1.0 - same
    total = 0.0
    for k in range(costs.shape[0]):
        for c in range(k):
            total += np.float64(costs[k, c]) * (one[k] * other[c] + one[c] * other[k])
    return total


@kernel
def class_distances(left: Floats, right: Floats, costs: Float32s | None, distances: Floats) -> None:
    """distances[a, b] = `class_distance` of left[a] and right[b]."""
    for a in range(left.shape[0]):
        for b in range(right.shape[0]):
            distances[a, b] = class_distance(left[a], right[b], costs)


@kernel
def class_distances_of_pairs(left: Floats, right: Floats, costs: Float32s | None, distances: Floats) -> None:
    """distances[e] = `class_distance` of left[e] and right[e]."""
    for e in range(left.shape[0]):
        distances[e] = class_distance(left[e], right[e], costs)


@no_refcount
def spread_distance(means: Floats, spreads: Floats, factor: float, one: int, other: int) -> float:
    """Factor (||m - m'||^2 + (s + s')) of two nodes, numbers in the whole table."""
    square = 0.0
    for q in range(means.shape[1]):
        square += (means[one, q] - means[other, q]) ** 2
    return factor * (square + (spreads[one] + spreads[other]))


@kernel
def spread_distances(means: Floats, spreads: Floats, factor: float, left: Ints, right: Ints, distances: Floats) -> None:
    """distances[a, b] = `spread_distance` of the nodes left[a] and right[b]."""
    for a in range(left.shape[0]):
        for b in range(right.shape[0]):
            distances[a, b] = spread_distance(means, spreads, factor, left[a], right[b])


@kernel
def spread_distances_of_pairs(
    means: Floats, spreads: Floats, factor: float, left: Ints, right: Ints, distances: Floats
) -> None:
    """distances[e] = `spread_distance` of the nodes left[e] and right[e]."""
    for e in range(left.shape[0]):
        distances[e] = spread_distance(means, spreads, factor, left[e], right[e])


# --- one row's nodes, and all trees at once ---------------------------------------------------------------


@no_refcount
def share_of(table: ShareTable, node: int, k: int) -> float:
    """Return the share of class k in a node, a number in the whole table."""
    return table.counts[node, k] * table.factors[k] / table.sizes[node]


@kernel
def find_pure(counts: Counts, pure: Int32s) -> None:
    """pure[l] = the only k with counts[l, k] > 0; -1 if there are several."""
    for node in range(counts.shape[0]):
        pure[node] = -1
        n = 0
        for k in range(counts.shape[1]):
            if counts[node, k] > 0:
                n += 1
                pure[node] = k
        if n > 1:
            pure[node] = -1


@kernel
def class_distances_of_row(table: ShareTable, row: OfOneRow, held: HeldNodes, apart: Floats) -> None:
    """apart[root[t] + l] = 1 - sum_k p_k p'_k, the bits of `class_distances`: a term of 0 changes no sum."""
    shares, classes = np.empty(table.factors.shape[0]), np.empty(table.factors.shape[0], np.int64)
    complement = np.empty(table.factors.shape[0])  # the distance to a node of one class, whose share there is 1
    for tree in row.trees:
        start, own, n = table.tree_start[tree], row.root[tree], 0
        for k in range(table.factors.shape[0]):
            shares[n], classes[n] = share_of(table, start + row.ends[tree], k), k
            complement[k] = 1.0 - shares[n]
            n += shares[n] != 0.0
        for node in held.nodes[held.start[tree] : held.start[tree + 1]]:
            if table.pure[start + node] >= 0:
                apart[own + node] = complement[table.pure[start + node]]
                continue
            same = 0.0
            for e in range(n):
                same += shares[e] * share_of(table, start + node, classes[e])
            apart[own + node] = 1.0 - same


@kernel
def spread_distances_of_row(
    tree_start: Ints, means: Floats, spreads: Floats, factor: float, row: OfOneRow, held: HeldNodes, apart: Floats
) -> None:
    """apart[root[t] + l] = `spread_distance` of the row's node and the held one."""
    for tree in row.trees:
        start, own = tree_start[tree], row.root[tree]
        for node in held.nodes[held.start[tree] : held.start[tree + 1]]:
            apart[own + node] = spread_distance(means, spreads, factor, start + row.ends[tree], start + node)


@kernel
def add_laid_distances(
    tree_start: Ints, means: Floats, spreads: Floats, factor: float, ends: Int32s, laid: LaidMeans, total: Floats
) -> None:
    """total[j] += factor (||m - m'||^2 + (s + s')), the bits of `spread_distances`, tree after tree.

    Nothing is looked up, so that the processor works on several rows at once.
    """
    square = np.empty(total.shape[0])
    for tree in range(ends.shape[0]):
        end = tree_start[tree] + ends[tree]
        spread, of_rows = spreads[end], laid.spreads[tree]
        for q in range(means.shape[1]):
            mean, others = means[end, q], laid.means[tree, q]
            if q == 0:
                for j in range(total.shape[0]):
                    square[j] = (mean - others[j]) ** 2
            else:
                for j in range(total.shape[0]):
                    square[j] += (mean - others[j]) ** 2
        for j in range(total.shape[0]):
            total[j] += factor * (square[j] + (spread + of_rows[j]))


@kernel
def add_class_shares(table: ShareTable, nodes: Int32s, voters: Int32s, votes: Floats, total: Floats) -> None:
    """total[i, k] += share of class k in nodes[t, i], or votes[voters[t, i], k] if that is not -1, for all trees t.

    Without votes ``voters`` has no rows.
    """
    for tree in range(nodes.shape[0]):
        start = table.tree_start[tree]
        for i in range(nodes.shape[1]):
            voter = np.int64(voters[tree, i]) if voters.shape[0] else -1
            node = start + nodes[tree, i]
            if voter < 0 and table.pure[node] >= 0:  # the only share is 1
                total[i, table.pure[node]] += 1.0
                continue
            for k in range(total.shape[1]):
                total[i, k] += votes[voter, k] if voter >= 0 else share_of(table, node, k)


@kernel
def add_means(tree_start: Ints, means: Floats, nodes: Int32s, voters: Int32s, votes: Floats, total: Floats) -> None:
    """total[i] += mean of nodes[t, i], or votes[voters[t, i]], as in `add_class_shares`."""
    for tree in range(nodes.shape[0]):
        start = tree_start[tree]
        for i in range(nodes.shape[1]):
            voter = np.int64(voters[tree, i]) if voters.shape[0] else -1
            for q in range(total.shape[1]):
                total[i, q] += votes[voter, q] if voter >= 0 else means[start + nodes[tree, i], q]
