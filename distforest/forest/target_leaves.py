"""Leaf tables of forests that were trained on |y - y'|, which keep the targets and compute distances from them.

With F(t) and G(t) the weight of the in-bag rows of two nodes whose target is at most t, and m and m' that of all, the
mean of |y - y'| over one row of each is ::

    the integral over t of (F(t) (m' - G(t)) + G(t) (m - F(t))) / (m m')

It is a sum over the gaps between the targets of both in ascending order, so a pair of nodes costs as many steps as it
has rows, and not their product. No term is negative, and a pair and its mirror image have the same bits. A node
predicts the median of its targets, which minimises the mean absolute difference.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from distforest.errors import ArtifactError
from distforest.forest.leaves import LeafTable, add_means, check_members, drawn_weights, expect
from distforest.forest.observed_leaves import lineage_of
from distforest.jit import kernel, no_refcount
from distforest.sources.source import Floats, Int32s, Ints, offsets

if TYPE_CHECKING:
    from distforest.forest.leaves import InBag
    from distforest.forest.node_table import NodeTable

TAUGHT_TARGETS = "taught_targets"
"""Array of the training targets."""


class NodeTargets(NamedTuple):
    """The targets of the in-bag rows of some nodes, ascending in each node, with the nodes' starts and the weights.

    ``start`` has shape (n_nodes + 1,), the other two (n_targets,).
    """

    start: Ints
    targets: Floats
    weights: Int32s


@dataclass(frozen=True)
class TargetMembers(LeafTable):
    """The training targets; the rows of a node follow from the forest's ``leaves`` and ``in_bag``.

    Attributes
    ----------
    targets
        The target of each training row, shape (n_rows, 1).
    sample_weight
        The weight of each training row, shape (n_rows,), by which its multiplicity is multiplied; None: 1.
    """

    table: NodeTable
    leaves: Int32s
    in_bag: InBag | Int32s
    targets: Floats
    sample_weight: Int32s | None = None
    kind: str = TAUGHT_TARGETS
    n_outputs: int = 1

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the training targets."""
        return {TAUGHT_TARGETS: self.targets}

    def outputs(self, tree: int, nodes: Ints) -> Floats:
        """Median target of each node, the mean of the two in the middle of an even number, shape (n_nodes, 1)."""
        some, place = np.unique(nodes, return_inverse=True)
        medians = np.empty(len(some))
        weighted_medians(self._of_nodes(tree, some), medians)
        return medians[place][:, None]

    def pairs(self, tree: int, left: Ints, right: Ints) -> Floats:
        """Mean of |y - y'| over the members, pair by pair."""
        some, place = np.unique(np.concatenate([left, right]), return_inverse=True)
        means = np.empty(len(left))
        mean_differences(self._of_nodes(tree, some), place[: len(left)], place[len(left) :], means)
        return means

    def add_outputs(self, nodes: Int32s, voters: Int32s, votes: Floats, total: Floats) -> None:
        """Add `outputs` of all trees, in their order: medians of leaves, which are kept, or of inner nodes, if any."""
        start = self.table.tree_start
        if self.table.is_leaf[start[:-1, None] + nodes].all():
            add_means(start, self._leaf_medians, nodes, voters, votes, total)
            return
        for tree in range(len(nodes)):
            total += self.outputs(tree, nodes[tree].astype(np.int64))

    @cached_property
    def _leaf_medians(self) -> Floats:
        """The median of each leaf, shape (N, 1); NaN for inner nodes."""
        medians = np.full((len(self.table.left), 1), np.nan)
        for tree, start in enumerate(self.table.tree_start[:-1].tolist()):
            leaves = np.flatnonzero(self.table.is_leaf[start : self.table.tree_start[tree + 1]])
            medians[start + leaves] = self.outputs(tree, leaves)
        return medians

    def _of_nodes(self, tree: int, nodes: Ints) -> NodeTargets:
        """Return the targets of nodes, inner ones too."""
        span = slice(self.table.tree_start[tree], self.table.tree_start[tree + 1])
        weights = drawn_weights(self.in_bag, self.sample_weight, tree)
        lineage = lineage_of(self.table.left[span], self.table.right[span], self.leaves[tree], weights)
        sizes = lineage.stop[nodes] - lineage.start[nodes]
        start = offsets(sizes)
        own = np.repeat(lineage.start[nodes] - start[:-1], sizes) + np.arange(start[-1])
        targets = self.targets[lineage.rows[own], 0]
        order = np.lexsort((targets, np.repeat(np.arange(len(nodes)), sizes)))
        return NodeTargets(start, targets[order], lineage.weights[own][order])

    def check(self) -> None:
        """Refuse targets that are not finite or not one per row, and leaves without members; raise ArtifactError."""
        expect(TAUGHT_TARGETS, self.targets, (self.leaves.shape[1], 1), np.float64)
        if not np.isfinite(self.targets).all():
            raise ArtifactError(f"{TAUGHT_TARGETS}[{int(np.argmin(np.isfinite(self.targets)))}]: values are finite")
        check_members(self.table, self.leaves, self.in_bag)


@kernel
def mean_differences(of_nodes: NodeTargets, left: Ints, right: Ints, means: Floats) -> None:
    """means[e] = mean of |y - y'| over the targets of left[e] and right[e]: the sum of this module over their gaps."""
    for pair in range(left.shape[0]):
        means[pair] = mean_difference(of_nodes, left[pair], right[pair])


@no_refcount
def mean_difference(of_nodes: NodeTargets, one: int, other: int) -> float:
    """Return one of the `mean_differences`: F and G are taken after each target, times the gap to the next one."""
    start, targets, weights = of_nodes
    a, b, end_a, end_b = start[one], start[other], start[one + 1], start[other + 1]
    m, m_other = np.int64(0), np.int64(0)
    for e in range(a, end_a):
        m += weights[e]
    for e in range(b, end_b):
        m_other += weights[e]
    total, f, g = 0.0, np.int64(0), np.int64(0)
    here = min(targets[a], targets[b])
    while a < end_a or b < end_b:
        from_a = b == end_b or (a < end_a and targets[a] <= targets[b])
        target = targets[a] if from_a else targets[b]
        total += (target - here) * np.float64(f * (m_other - g) + g * (m - f))
        here = target
        if from_a:
            f += weights[a]
            a += 1
        else:
            g += weights[b]
            b += 1
    return total / (np.float64(m) * np.float64(m_other))


@kernel
def weighted_medians(of_nodes: NodeTargets, medians: Floats) -> None:
    """medians[e] = the mean of the targets on both sides of half of the weight of node e, which are mostly the same."""
    start, targets, weights = of_nodes
    for node in range(medians.shape[0]):
        m, below = np.int64(0), np.int64(0)
        for e in range(start[node], start[node + 1]):
            m += weights[e]
        for e in range(start[node], start[node + 1]):
            below += weights[e]
            if 2 * below >= m:
                after = targets[e + 1] if 2 * below == m else targets[e]
                medians[node] = targets[e] + (after - targets[e]) / 2.0
                break
