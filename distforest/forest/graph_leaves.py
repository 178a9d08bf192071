"""Leaf tables of forests that were trained on a large graph, which keep its links and compute distances of leaves.

With a the distance of two nodes of the graph without a link, and m the in-bag weight of a leaf, the mean of z_ij over
two leaves l and l' is ::

    a + (sum over the links (i, j) with i in l, j in l' of w_i w_j (z_ij - a)) / (m m')

So two leaves that no link joins are at distance a, and nothing is stored for them. The sum runs over the rows of the
leaf with the lower number, and over the links of each, so that a pair of leaves and its mirror image have the same
bits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from distforest.errors import ArtifactError
from distforest.forest.leaves import InBag, LeafTable, check_members, drawn_weights, expect
from distforest.forest.members import group
from distforest.jit import kernel, no_refcount
from distforest.sources.source import Float32s, Floats, Int32s, Ints

if TYPE_CHECKING:
    from distforest.forest.node_table import NodeTable

INDPTR, INDICES, LINK_DISTANCES = "graph_indptr", "graph_indices", "graph_distances"
GRAPH_ARRAYS = (INDPTR, INDICES, LINK_DISTANCES)
"""Arrays of a graph: the start of each row's links, the other row of each link, and its distance."""


class KeptLinks(NamedTuple):
    """The links of each training row: see `GRAPH_ARRAYS`."""

    indptr: Ints
    indices: Int32s
    distances: Float32s


class TreeRows(NamedTuple):
    """The in-bag rows of a tree: grouped by node, as in `distforest.forest.members.Groups`; leaf and weight of each."""

    start: Ints
    rows: Int32s
    leaf: Int32s
    weight: Int32s


@dataclass(frozen=True)
class GraphMembers(LeafTable):
    """The links of the training rows; the rows of a leaf follow from the forest's ``leaves`` and ``in_bag``.

    Attributes
    ----------
    kept
        The links.
    absent
        The distance of rows without a link.
    offset
        A constant that was subtracted from all distances, including ``absent``.
    sample_weight
        The weight of each training row, shape (n_rows,), by which its multiplicity is multiplied; None: 1.
    """

    table: NodeTable
    leaves: Int32s
    in_bag: InBag | Int32s
    kept: KeptLinks
    absent: float
    offset: float = 0.0
    sample_weight: Int32s | None = None
    kind: str = "graph"

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the links."""
        return dict(zip(GRAPH_ARRAYS, self.kept, strict=True))

    def _rows(self, tree: int) -> TreeRows:
        weight = drawn_weights(self.in_bag, self.sample_weight, tree)
        groups = group(self.leaves[tree], weight, int(self.table.tree_size[tree]))
        return TreeRows(groups.start, groups.rows, self.leaves[tree], weight)

    def between(self, tree: int, left: Ints, right: Ints) -> Floats:
        """Mean of z_ij over the members of all of ``left`` and ``right``."""
        (low, one), (high, other) = (np.unique(nodes, return_inverse=True) for nodes in (left, right))
        means = np.empty((len(low), len(high)))
        place = np.full((2, int(self.table.tree_size[tree])), -1, np.int32)
        place[0, low], place[1, high] = np.arange(len(low)), np.arange(len(high))
        link_means(self._rows(tree), self.kept, self.absent, low, high, place, means)
        return means[one[:, None], other] + self.offset

    def pairs(self, tree: int, left: Ints, right: Ints) -> Floats:
        """Mean of z_ij over the members, pair by pair."""
        means = np.empty(len(left))
        link_means_of_pairs(self._rows(tree), self.kept, self.absent, left, right, means)
        return means + self.offset

    def check(self) -> None:
        """Refuse links that are unsorted, not finite or of no row, and leaves without members; raise ArtifactError."""
        n, (indptr, indices, distances) = self.leaves.shape[1], self.kept
        expect(INDPTR, indptr, (n + 1,), np.int64)
        if indptr[0] != 0 or (np.diff(indptr) < 0).any():
            raise ArtifactError(f"{INDPTR}: numbers that never fall, from 0 on, were expected")
        expect(INDICES, indices, (int(indptr[-1]),), np.int32)
        expect(LINK_DISTANCES, distances, (int(indptr[-1]),), np.float32)
        if ((indices < 0) | (indices >= n)).any():
            raise ArtifactError(f"{INDICES}: numbers of training rows were expected")
        rises = np.diff(indices) > 0
        heads = indptr[1:-1]
        rises[heads[(heads > 0) & (heads < len(indices))] - 1] = True
        if not rises.all():
            raise ArtifactError(f"{INDICES}: the links of a row ascend, and none is stored twice")
        if not np.isfinite(distances).all() or not np.isfinite(self.absent):
            raise ArtifactError(f"{LINK_DISTANCES}: values are finite")
        check_members(self.table, self.leaves, self.in_bag)


@kernel
def link_means(
    of_tree: TreeRows, kept: KeptLinks, absent: float, left: Ints, right: Ints, place: Int32s, means: Floats
) -> None:
    """means[a, b] = absent + sum w_i w_j (z_ij - absent) / (m_a m_b) over the links from left[a] to right[b].

    ``place`` has the place of each node of the tree in ``left``, and in ``right``, -1 for none, shape (2, n_nodes).
    """
    for a in range(left.shape[0]):
        for b in range(right.shape[0]):
            means[a, b] = 0.0
    add_links(of_tree, kept, absent, left, place[1], 0, means)
    add_links(of_tree, kept, absent, right, place[0], 1, means.T)
    mass = np.empty(right.shape[0])
    for b in range(right.shape[0]):
        mass[b] = mass_of(of_tree, right[b])
    for a in range(left.shape[0]):
        mass_left = mass_of(of_tree, left[a])
        for b in range(right.shape[0]):
            means[a, b] = absent + means[a, b] / (mass_left * mass[b])


@no_refcount
def mass_of(of_tree: TreeRows, node: int) -> float:
    """Return the weight of the rows of a node."""
    mass = 0.0
    for f in range(of_tree.start[node], of_tree.start[node + 1]):
        mass += of_tree.weight[of_tree.rows[f]]
    return mass


@no_refcount
def add_links(
    of_tree: TreeRows, kept: KeptLinks, absent: float, nodes: Ints, place: Int32s, least: int, sums: Floats
) -> None:
    """sums[a, b] += w_i w_j (z_ij - absent) over the links from nodes[a] to the node at b, by ``place``.

    Only nodes count whose number is at least ``least`` above that of nodes[a]: the other ones are the lower of the two.
    """
    start, rows, leaf, weight = of_tree
    for a in range(nodes.shape[0]):
        for f in range(start[nodes[a]], start[nodes[a] + 1]):
            i = rows[f]
            for e in range(kept.indptr[i], kept.indptr[i + 1]):
                j = kept.indices[e]
                b = place[leaf[j]] if weight[j] else np.int32(-1)
                if b >= 0 and leaf[j] >= nodes[a] + least:
                    sums[a, b] += np.float64(weight[i]) * weight[j] * (np.float64(kept.distances[e]) - absent)


@kernel
def link_means_of_pairs(
    of_tree: TreeRows, kept: KeptLinks, absent: float, left: Ints, right: Ints, means: Floats
) -> None:
    """means[e]: as in `link_means`, for the pair left[e], right[e]."""
    start, rows, leaf, weight = of_tree
    for pair in range(left.shape[0]):
        low, high, total = min(left[pair], right[pair]), max(left[pair], right[pair]), 0.0
        for f in range(start[low], start[low + 1]):
            i = rows[f]
            for e in range(kept.indptr[i], kept.indptr[i + 1]):
                j = kept.indices[e]
                if weight[j] and leaf[j] == high:
                    total += np.float64(weight[i]) * weight[j] * (np.float64(kept.distances[e]) - absent)
        means[pair] = absent + total / (mass_of(of_tree, low) * mass_of(of_tree, high))
