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

Where some z_ij are unobserved, ``members`` and ``leaf_distances`` are those of observed_leaves.py. The third kind is in
target_leaves.py.

The class weights c are 1 unless given. Every distance is symmetric bit for bit, and does not depend on the other nodes
of the same call.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from distforest.amounts import counted
from distforest.errors import ArtifactError
from distforest.forest.held_nodes import HeldNodes, OfOneRow
from distforest.forest.table import PickledWithoutCaches
from distforest.jit import borrowing, kernel
from distforest.sources.source import Float32s, Floats, Int32s, Ints, offsets

if TYPE_CHECKING:
    from distforest.forest.table import NodeTable

Counts = NDArray[np.int32]
InBag = NDArray[np.uint8]

COSTS = "costs"
"""The array of the distances of classes, in forests for which not all classes are equally far apart."""

LAID_NUMBERS = 1 << 22
"""Most numbers of `LaidMeans`, 32 MiB; of more rows or trees each leaf is read once, and looked up for each row."""

MAX_CLASS_WEIGHT = 1 << 24
"""Largest weight of a class."""

NODES_OF_A_BLOCK = 1 << 16
"""Nodes whose counts are added up at once."""


class LeafTable(Protocol):
    """The distances of a forest's nodes; nodes are numbers within their tree."""

    @property
    def kind(self) -> str:
        """Name of the table's kind."""

    def arrays(self) -> dict[str, np.ndarray]:
        """The table's arrays by name, without those of the node table."""

    def between(self, tree: int, left: Ints, right: Ints) -> Floats:
        """Distance of each node in ``left`` to each in ``right``, shape (n_left, n_right)."""

    def pairs(self, tree: int, left: Ints, right: Ints) -> Floats:
        """Distance of left[e] and right[e], shape (n_pairs,)."""

    def from_row(self, row: OfOneRow, held: HeldNodes, apart: Floats) -> None:
        """Distances of one row's nodes: apart[root[t] + l] for each held node l of each of its trees t."""

    def check(self) -> None:
        """Refuse arrays that do not match the node table; raises ArtifactError."""


def drawn_weights(in_bag: InBag | Int32s, sample_weight: Int32s | None, tree: int) -> Int32s:
    """The in-bag weight of each row in a tree, shape (n_rows,): how often it was drawn, times its weight."""
    weights: Int32s = in_bag[tree].astype(np.int32)
    return weights if sample_weight is None else weights * sample_weight


def check_members(table: NodeTable, leaves: Int32s, in_bag: InBag | Int32s) -> None:
    """Refuse a leaf in which no in-bag row lies; raises ArtifactError."""
    for tree in range(table.n_trees):
        span = slice(table.tree_start[tree], table.tree_start[tree + 1])
        drawn = leaves[tree, in_bag[tree] > 0]
        empty = table.is_leaf[span] & (np.bincount(drawn, minlength=span.stop - span.start) == 0)
        if empty.any():
            raise ArtifactError(f"leaves[{tree}]: leaf {int(np.argmax(empty))} has no in-bag row")


def expect(name: str, found: np.ndarray, shape: tuple[int, ...], dtype: type) -> None:
    """Refuse an array of another shape or dtype; raises ArtifactError."""
    if found.shape != shape or found.dtype != dtype:
        raise ArtifactError(
            f"{name}: expected {np.dtype(dtype).name} of shape {shape}, found {found.dtype} of shape {found.shape}"
        )


class ShareTable(NamedTuple):
    """What the shares of classes in nodes follow from: counts[l, k] factors[k] / sizes[l], see `ClassCounts`.

    ``pure`` is the only class of a node, -1 if there are several, shape (N,).
    """

    tree_start: Ints
    counts: Counts
    factors: Floats
    sizes: Floats
    pure: Int32s


@dataclass(frozen=True)
class ClassCounts(PickledWithoutCaches):
    """In-bag weight of each class in each node, also in inner nodes, shape (N, K); and the class weights.

    ``costs`` are the distances C of classes, shape (K, K); None: 1 for any two.
    """

    table: NodeTable
    class_counts: Counts
    class_weights: tuple[int, ...] | None = None
    costs: Float32s | None = None
    kind: str = "class_counts"

    def arrays(self) -> dict[str, np.ndarray]:
        """The counts, and the costs if there are any."""
        return {"class_counts": self.class_counts, **({} if self.costs is None else {COSTS: self.costs})}

    @property
    def n_outputs(self) -> int:
        """Number of classes."""
        return int(self.class_counts.shape[1])

    def outputs(self, tree: int, nodes: Ints) -> Floats:
        """Share of each class in each node: counts times class weights over their sum, shape (n_nodes, K)."""
        counts = self.class_counts[self.table.tree_start[tree] + nodes].astype(np.float64)
        if self.class_weights is not None:
            counts *= self.class_weights
        return np.divide(counts, counts.sum(axis=1, keepdims=True))

    def between(self, tree: int, left: Ints, right: Ints) -> Floats:
        """1 - sum_k p_k p'_k, or sum_kl C_kl p_k p'_l, for all of ``left`` and ``right``."""
        distances = np.empty((len(left), len(right)))
        if self.costs is not None:
            cost_distances(self.outputs(tree, left), self.outputs(tree, right), self.costs, distances)
            return distances
        class_distances(self.outputs(tree, left), self.outputs(tree, right), distances)
        return distances

    def pairs(self, tree: int, left: Ints, right: Ints) -> Floats:
        """1 - sum_k p_k p'_k, or sum_kl C_kl p_k p'_l, pair by pair."""
        distances = np.empty(len(left))
        if self.costs is not None:
            cost_distances_of_pairs(self.outputs(tree, left), self.outputs(tree, right), self.costs, distances)
            return distances
        class_distances_of_pairs(self.outputs(tree, left), self.outputs(tree, right), distances)
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
            cost_distances_of_row(self._shares, self.costs, row, held, apart)

    def add_outputs(self, nodes: Int32s, voters: Int32s, votes: Floats, total: Floats) -> None:
        """Add `outputs` of all trees, or the votes of those that vote instead: see `add_class_shares`."""
        add_class_shares(self._shares, nodes, voters, votes, total)

    def check(self) -> None:
        """Refuse counts that are negative or do not add up to ``n_rows`` > 0; raises ArtifactError."""
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
class Means(PickledWithoutCaches):
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
        start = self.table.tree_start[tree]
        distances = np.empty((len(left), len(right)))
        spread_distances(
            *(self.means[start + left], self.means[start + right]),
            *(self.spreads[start + left], self.spreads[start + right], self.factor, distances),
        )
        return distances

    def pairs(self, tree: int, left: Ints, right: Ints) -> Floats:
        """Factor times mean ||Y - Y'||^2, pair by pair."""
        left, right = self.table.tree_start[tree] + left, self.table.tree_start[tree] + right
        distances = np.empty(len(left))
        spread_distances_of_pairs(
            *(self.means[left], self.means[right], self.spreads[left], self.spreads[right]),
            *(self.factor, distances),
        )
        return distances

    def from_row(self, row: OfOneRow, held: HeldNodes, apart: Floats) -> None:
        """Factor times mean ||Y - Y'||^2 for one row's nodes."""
        spread_distances_of_row(self.table.tree_start, self.means, self.spreads, self.factor, row, held, apart)

    def laid(self, nodes: Int32s) -> LaidMeans | None:
        """What this table has of the nodes of rows, shape (n_trees, n_rows); None above `LAID_NUMBERS`."""
        if nodes.size * (self.n_outputs + 1) > LAID_NUMBERS:
            return None
        places = self.table.tree_start[:-1, None] + nodes
        return LaidMeans(np.ascontiguousarray(np.moveaxis(self.means[places], 2, 1)), self.spreads[places])

    def add_from_laid(self, ends: Int32s, laid: LaidMeans, total: Floats) -> None:
        """Add the distances of all trees from one row's nodes to ``total``, shape (n_rows,)."""
        add_laid_distances(self.table.tree_start, self.means, self.spreads, self.factor, ends, laid, total)

    def add_outputs(self, nodes: Int32s, voters: Int32s, votes: Floats, total: Floats) -> None:
        """Add `outputs` of all trees, or the votes of those that vote instead: see `add_means`."""
        add_means(self.table.tree_start, self.means, nodes, voters, votes, total)

    def check(self) -> None:
        """Refuse means and spreads that are not finite, and negative spreads; raises ArtifactError."""
        n = len(self.table.left)
        expect("means", self.means, (n, self.means.shape[-1] if self.means.ndim == 2 else 1), np.float64)
        expect("spreads", self.spreads, (n,), np.float64)
        for name, holds in (
            ("means", np.isfinite(self.means).all(axis=1)),
            ("spreads", np.isfinite(self.spreads) & (self.spreads >= 0)),
        ):
            if not holds.all():
                raise ArtifactError(f"{name}[{int(np.argmin(holds))}]: values are finite, spreads not negative")


class Groups(NamedTuple):
    """The in-bag rows of one tree, grouped by node: ``start`` is where each node's rows begin, shape (n_nodes + 1,)."""

    start: Ints
    rows: Int32s
    weights: Int32s


class AllGroups(NamedTuple):
    """The same for all trees, one after the other; ``first`` is where each tree's rows begin, shape (n_trees + 1,).

    The starts of a tree count within the tree, and there is one more of them than it has nodes.
    """

    start: Ints
    rows: Int32s
    weights: Int32s
    first: Ints


def group(leaves: Int32s, in_bag: InBag | Int32s, n_nodes: int) -> Groups:
    """Group the in-bag rows of one tree by node; ``leaves`` and ``in_bag``, their weights, have shape (n_rows,)."""
    rows = np.flatnonzero(in_bag)
    order = np.argsort(leaves[rows], kind="stable")
    rows = rows[order]
    start = np.searchsorted(leaves[rows], np.arange(n_nodes + 1)).astype(np.int64)
    return Groups(start, rows.astype(np.int32), in_bag[rows].astype(np.int32))


@dataclass(frozen=True)
class Members(PickledWithoutCaches):
    """The training distances; the rows of a leaf follow from the forest's ``leaves`` and ``in_bag``.

    Attributes
    ----------
    offset
        A constant that was subtracted from all distances.
    scale
        Of an older forest, which reads z_ij as rint(z_ij scale) / scale; 0: distances are read unchanged.
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
        """The training distances."""
        return {"distances": self.distances}

    @cached_property
    def read(self) -> Float32s:
        """The distances as they are read; in fixed point they are float32 too, because the scale is a power of two."""
        if not self.scale:
            return self.distances
        read = np.empty_like(self.distances)
        with np.errstate(over="ignore", invalid="ignore"):  # a file of unknown origin may hold any scale
            for rounded, row in zip(read, self.distances, strict=True):
                rounded[:] = np.rint(row * np.float64(self.scale)) / self.scale
        return read

    def groups(self, tree: int) -> Groups:
        """The in-bag rows of a tree by their leaves."""
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
    def all_groups(self) -> AllGroups:
        """The groups of all trees."""
        groups = [self.groups(tree) for tree in range(self.table.n_trees)]
        rows, weights = (np.concatenate([getattr(of, name) for of in groups]) for name in ("rows", "weights"))
        first = offsets(np.array([len(of.rows) for of in groups]))
        return AllGroups(np.concatenate([of.start for of in groups]), rows, weights, first)

    def from_row(self, row: OfOneRow, held: HeldNodes, apart: Floats) -> None:
        """Mean of z_ij over the members, for one row's nodes."""
        mean_of_row(self.table.tree_start, self.all_groups, self.read, self.offset, row, held, apart)

    def _hold(self, distances: Float32s) -> NDArray[np.bool_]:
        """Which rows of distances have no value that is refused, shape (n_rows,)."""
        return np.asarray(np.isfinite(distances).all(axis=1))

    def check(self) -> None:
        """Refuse distances that are not finite or not square, and leaves without members; raises ArtifactError."""
        n = self.leaves.shape[1]
        expect("distances", self.distances, (n, n), np.float32)
        for first in range(0, n, 4096):
            holds = self._hold(self.distances[first : first + 4096])
            if not holds.all():
                raise ArtifactError(f"distances[{first + int(np.argmin(holds))}]: values are finite")
        check_members(self.table, self.leaves, self.in_bag)


@dataclass(frozen=True)
class LeafDistances(PickledWithoutCaches):
    """Distances of all pairs of leaves of each tree, as packed upper triangles, tree after tree, shape (P,)."""

    table: NodeTable
    leaf_distances: Floats
    kind: str = "leaf_distances"

    def arrays(self) -> dict[str, np.ndarray]:
        """The triangles."""
        return {"leaf_distances": self.leaf_distances}

    def _triangle(self, tree: int) -> tuple[Ints, Floats]:
        """The number of each leaf among the leaves of its tree, shape (tree_size,), and the tree's triangle."""
        begin, end = self._ends[tree], self._ends[tree + 1]
        span = slice(self.table.tree_start[tree], self.table.tree_start[tree + 1])
        return np.cumsum(self.table.is_leaf[span]) - 1, self.leaf_distances[begin:end]

    @cached_property
    def numbers(self) -> Int32s:
        """The number of each leaf among the leaves of its tree, shape (N,)."""
        total = offsets(self.table.is_leaf)
        root = np.repeat(self.table.tree_start[:-1], self.table.tree_size)
        return (total[1:] - total[root] - 1).astype(np.int32)

    @cached_property
    def _ends(self) -> Ints:
        """Where each tree's triangle begins, shape (n_trees + 1,)."""
        return offsets(triangle_size(leaves_per_tree(self.table)))

    def between(self, tree: int, left: Ints, right: Ints) -> Floats:
        """Distances of all of ``left`` and ``right``."""
        return self.pairs(tree, np.repeat(left, len(right)), np.tile(right, len(left))).reshape(len(left), len(right))

    def pairs(self, tree: int, left: Ints, right: Ints) -> Floats:
        """Distances pair by pair."""
        number, triangle = self._triangle(tree)
        low, high = np.minimum(number[left], number[right]), np.maximum(number[left], number[right])
        return np.take(triangle, high * (high + 1) // 2 + low)

    def from_row(self, row: OfOneRow, held: HeldNodes, apart: Floats) -> None:
        """Distances of one row's nodes."""
        triangles_of_row(self.table.tree_start, self.numbers, self._ends, self.leaf_distances, row, held, apart)

    def check(self) -> None:
        """Refuse triangles of the wrong size, and values that are not finite; raises ArtifactError."""
        size = int(triangle_size(leaves_per_tree(self.table)).sum())
        expect("leaf_distances", self.leaf_distances, (size,), np.float64)
        holds = np.isfinite(self.leaf_distances)
        if not holds.all():
            raise ArtifactError(f"leaf_distances[{int(np.argmin(holds))}]: values are finite")


def leaves_per_tree(table: NodeTable) -> Ints:
    """Number of leaves of each tree, shape (n_trees,)."""
    total = offsets(table.is_leaf)
    return np.subtract(total[table.tree_start[1:]], total[table.tree_start[:-1]])


def triangle_size(n_leaves: Ints) -> Ints:
    """L (L + 1) / 2: number of entries of a packed triangle with its diagonal."""
    return n_leaves * (n_leaves + 1) // 2


@kernel
def class_distances(left: Floats, right: Floats, distances: Floats) -> None:
    """distances[a, b] = 1 - sum_k left[a, k] right[b, k]."""
    for a in range(left.shape[0]):
        for b in range(right.shape[0]):
            same = 0.0
            for k in range(left.shape[1]):
                same += left[a, k] * right[b, k]
            distances[a, b] = 1.0 - same


@kernel
def class_distances_of_pairs(left: Floats, right: Floats, distances: Floats) -> None:
    """distances[e] = 1 - sum_k left[e, k] right[e, k]."""
    for e in range(left.shape[0]):
        same = 0.0
        for k in range(left.shape[1]):
            same += left[e, k] * right[e, k]
        distances[e] = 1.0 - same


@kernel
def cost_distances(left: Floats, right: Floats, costs: Float32s, distances: Floats) -> None:
    """distances[a, b] = sum_kl C_kl left[a, k] right[b, l]: see `cost_of`."""
    for a in range(left.shape[0]):
        for b in range(right.shape[0]):
            distances[a, b] = cost_of(left[a], right[b], costs)


@kernel
def cost_distances_of_pairs(left: Floats, right: Floats, costs: Float32s, distances: Floats) -> None:
    """distances[e] = sum_kl C_kl left[e, k] right[e, l]: see `cost_of`."""
    for e in range(left.shape[0]):
        distances[e] = cost_of(left[e], right[e], costs)


@borrowing
def cost_of(one: Floats, other: Floats, costs: Float32s) -> float:
    """Sum over k > l of C_kl (p_k p'_l + p_l p'_k), which a pair and its mirror image add in the same way."""
    total = 0.0
    for k in range(costs.shape[0]):
        for c in range(k):
            total += np.float64(costs[k, c]) * (one[k] * other[c] + one[c] * other[k])
    return total


@kernel
def spread_distances(
    left: Floats, right: Floats, spread_left: Floats, spread_right: Floats, factor: float, distances: Floats
) -> None:
    """distances[a, b] = factor (||left[a] - right[b]||^2 + (spread_left[a] + spread_right[b]))."""
    for a in range(left.shape[0]):
        for b in range(right.shape[0]):
            square = 0.0
            for q in range(left.shape[1]):
                square += (left[a, q] - right[b, q]) ** 2
            distances[a, b] = factor * (square + (spread_left[a] + spread_right[b]))


@kernel
def spread_distances_of_pairs(
    left: Floats, right: Floats, spread_left: Floats, spread_right: Floats, factor: float, distances: Floats
) -> None:
    """distances[e] = factor (||left[e] - right[e]||^2 + (spread_left[e] + spread_right[e]))."""
    for e in range(left.shape[0]):
        square = 0.0
        for q in range(left.shape[1]):
            square += (left[e, q] - right[e, q]) ** 2
        distances[e] = factor * (square + (spread_left[e] + spread_right[e]))


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


# --- one row's nodes, and all trees at once ---------------------------------------------------------------


@borrowing
def share_of(table: ShareTable, node: int, k: int) -> float:
    """The share of class k in a node, a number in the whole table."""
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
def cost_distances_of_row(table: ShareTable, costs: Float32s, row: OfOneRow, held: HeldNodes, apart: Floats) -> None:
    """apart[root[t] + l] = sum_kl C_kl p_k p'_l: see `cost_of`."""
    one, other = np.empty(costs.shape[0]), np.empty(costs.shape[0])
    for tree in row.trees:
        start, own = table.tree_start[tree], row.root[tree]
        for k in range(costs.shape[0]):
            one[k] = share_of(table, start + row.ends[tree], k)
        for node in held.nodes[held.start[tree] : held.start[tree + 1]]:
            for k in range(costs.shape[0]):
                other[k] = share_of(table, start + node, k)
            apart[own + node] = cost_of(one, other, costs)


@kernel
def spread_distances_of_row(
    tree_start: Ints, means: Floats, spreads: Floats, factor: float, row: OfOneRow, held: HeldNodes, apart: Floats
) -> None:
    """apart[root[t] + l] = factor (||m - m'||^2 + (s + s')), as in `spread_distances`."""
    for tree in row.trees:
        start, own = tree_start[tree], row.root[tree]
        end = start + row.ends[tree]
        for node in held.nodes[held.start[tree] : held.start[tree + 1]]:
            square = 0.0
            for q in range(means.shape[1]):
                square += (means[end, q] - means[start + node, q]) ** 2
            apart[own + node] = factor * (square + (spreads[end] + spreads[start + node]))


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
def mean_of_row(
    tree_start: Ints,
    groups: AllGroups,
    distances: Float32s,
    offset: float,
    row: OfOneRow,
    held: HeldNodes,
    apart: Floats,
) -> None:
    """apart[root[t] + l] = offset + mean of z_ij: see `mean_between`."""
    one = np.empty(1, np.int64)
    for tree in row.trees:
        own, one[0] = row.root[tree], row.ends[tree]
        start = groups.start[tree_start[tree] + tree : tree_start[tree + 1] + tree + 1]
        of_tree = slice(groups.first[tree], groups.first[tree + 1])
        nodes = held.nodes[held.start[tree] : held.start[tree + 1]].astype(np.int64)
        means = np.empty((1, nodes.shape[0]))
        mean_between(start, groups.rows[of_tree], groups.weights[of_tree], distances, one, nodes, means)
        for e in range(nodes.shape[0]):
            apart[own + nodes[e]] = means[0, e] + offset


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
