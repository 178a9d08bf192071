"""Leaf tables: the distance of two nodes of a tree, and the prediction of a node.

=================  =====================================  =============================================
kind               arrays                                 distance of two nodes l, l'
=================  =====================================  =============================================
``class_counts``   class_counts (N, K)                    1 - sum_k p_k p'_k, p = c counts / their sum
``means``          means (N, q), spreads (N,)             factor (|m - m'|^2 + s + s')
``members``        distances (n, n)                       offset + mean of z_ij, i in l, j in l' (SMERF, Eq. 2)
``leaf_distances``  leaf_distances, packed triangles      the same, computed when the tree was grown
``path_lengths``   none (see path_lengths.py)             1[l != l']
=================  =====================================  =============================================

Where some z_ij are unobserved, the third and the fourth kind are those of observed_leaves.py.

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
from distforest.jit import borrowing, kernel
from distforest.sources.source import Float32s, Floats, Int32s, Ints, offsets

if TYPE_CHECKING:
    from distforest.forest.table import NodeTable

Counts = NDArray[np.int32]
InBag = NDArray[np.uint8]

MAX_CLASS_WEIGHT = 1 << 20
"""Largest weight of a class."""


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

    def check(self) -> None:
        """Refuse arrays that do not match the node table; raises ArtifactError."""


def expect(name: str, found: np.ndarray, shape: tuple[int, ...], dtype: type) -> None:
    """Refuse an array of another shape or dtype; raises ArtifactError."""
    if found.shape != shape or found.dtype != dtype:
        raise ArtifactError(
            f"{name}: expected {np.dtype(dtype).name} of shape {shape}, found {found.dtype} of shape {found.shape}"
        )


@dataclass(frozen=True)
class ClassCounts:
    """In-bag weight of each class in each node, also in inner nodes, shape (N, K); and the class weights."""

    table: NodeTable
    class_counts: Counts
    class_weights: tuple[int, ...] | None = None
    kind: str = "class_counts"

    def arrays(self) -> dict[str, np.ndarray]:
        """The counts."""
        return {"class_counts": self.class_counts}

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
        """1 - sum_k p_k p'_k for all of ``left`` and ``right``."""
        distances = np.empty((len(left), len(right)))
        class_distances(self.outputs(tree, left), self.outputs(tree, right), distances)
        return distances

    def pairs(self, tree: int, left: Ints, right: Ints) -> Floats:
        """1 - sum_k p_k p'_k, pair by pair."""
        distances = np.empty(len(left))
        class_distances_of_pairs(self.outputs(tree, left), self.outputs(tree, right), distances)
        return distances

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


@dataclass(frozen=True)
class Means:
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


def group(leaves: Int32s, in_bag: InBag | Int32s, n_nodes: int) -> Groups:
    """Group the in-bag rows of one tree by node; ``leaves`` and ``in_bag``, their weights, have shape (n_rows,)."""
    rows = np.flatnonzero(in_bag)
    order = np.argsort(leaves[rows], kind="stable")
    rows = rows[order]
    start = np.searchsorted(leaves[rows], np.arange(n_nodes + 1)).astype(np.int64)
    return Groups(start, rows.astype(np.int32), in_bag[rows].astype(np.int32))


@dataclass(frozen=True)
class Members:
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
    def _read(self) -> Float32s:
        """The distances as they are read; in fixed point they are float32 too, because the scale is a power of two."""
        if not self.scale:
            return self.distances
        read = np.empty_like(self.distances)
        with np.errstate(over="ignore", invalid="ignore"):  # a file of unknown origin may hold any scale
            for rounded, row in zip(read, self.distances, strict=True):
                rounded[:] = np.rint(row * np.float64(self.scale)) / self.scale
        return read

    def _groups(self, tree: int) -> Groups:
        weights = self.in_bag[tree] if self.sample_weight is None else self.in_bag[tree] * self.sample_weight
        return group(self.leaves[tree], weights, int(self.table.tree_size[tree]))

    def between(self, tree: int, left: Ints, right: Ints) -> Floats:
        """Mean of z_ij over the members of all of ``left`` and ``right``."""
        means = np.empty((len(left), len(right)))
        mean_between(*self._groups(tree), self._read, left, right, means)
        return means + self.offset

    def pairs(self, tree: int, left: Ints, right: Ints) -> Floats:
        """Mean of z_ij over the members, pair by pair."""
        means = np.empty(len(left))
        mean_pairs(*self._groups(tree), self._read, left, right, means)
        return means + self.offset

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
        for tree in range(self.table.n_trees):
            sizes = np.diff(self._groups(tree).start)
            span = slice(self.table.tree_start[tree], self.table.tree_start[tree + 1])
            empty = self.table.is_leaf[span] & (sizes == 0)
            if empty.any():
                raise ArtifactError(f"leaves[{tree}]: leaf {int(np.argmax(empty))} has no in-bag row")


@dataclass(frozen=True)
class LeafDistances:
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


def parents(left: Int32s, right: Int32s) -> Ints:
    """The parent of each node of a tree with these children, -1 for the root, shape (n_nodes,)."""
    inner, parent = np.flatnonzero(left >= 0), np.full(len(left), -1, np.int64)
    parent[left[inner]] = parent[right[inner]] = inner
    return parent


@kernel
def add_up_children(left: Int32s, right: Int32s, sums: Floats | Ints) -> None:
    """sums[node] = sums[left[node]] + sums[right[node]] of every inner node; children come after their parents."""
    for node in range(sums.shape[0] - 1, -1, -1):
        if left[node] >= 0:
            sums[node] = sums[left[node]] + sums[right[node]]


def accumulate(table: NodeTable, leaves: Int32s, in_bag: InBag | Int32s, values: Floats) -> Floats:
    """Sum of w_i values[i] over the in-bag rows that reached each node, shape (N, q).

    ``leaves`` and ``in_bag`` have shape (n_trees, n_rows), ``values`` (n_rows, q); rows are added in their order.
    """
    sums = np.zeros((len(table.left), values.shape[1]))
    add_up_leaves(table.tree_start, table.left, table.right, leaves, in_bag, values, sums)
    return sums


@kernel
def add_up_leaves(
    tree_start: Ints,
    left: Int32s,
    right: Int32s,
    leaves: Int32s,
    in_bag: InBag | Int32s,
    values: Floats,
    sums: Floats,
) -> None:
    """sums[node] = sum of w values over the rows that end here, plus the sums of the children, which come first."""
    for tree in range(leaves.shape[0]):
        root = tree_start[tree]
        for row in range(leaves.shape[1]):
            if in_bag[tree, row]:
                for q in range(values.shape[1]):
                    sums[root + leaves[tree, row], q] += in_bag[tree, row] * values[row, q]
        for node in range(tree_start[tree + 1] - root - 1, -1, -1):
            if left[root + node] >= 0:
                for q in range(values.shape[1]):
                    sums[root + node, q] += sums[root + left[root + node], q] + sums[root + right[root + node], q]


class Moments(NamedTuple):
    """Sum of w, shape (N,), mean, shape (N, q), and sum of w ||Y - mean||^2, shape (N,), over the rows of each node."""

    weights: Floats
    means: Floats
    squares: Floats

    @classmethod
    def zeros(cls, n_nodes: int, width: int) -> Moments:
        """Moments of nodes that no row has reached yet; vectors have ``width`` dimensions."""
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


@borrowing
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


@borrowing
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
