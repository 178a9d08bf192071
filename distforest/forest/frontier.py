"""The frontier: rows grouped by the nodes of a level, over all trees that grow or route in lockstep.

::

    node      0        1     2
    rows    [ 3 5 9 |  0 2 | 1 4 7 8 ]        the rows of a node keep their order
    starts  [ 0        3     5        9 ]
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from distforest.jit import kernel, no_refcount
from distforest.sources.source import Floats, Int32s, Ints, offsets

LEFT, RIGHT, STAY = 0, 1, 2
"""Sides of a row at a node; it stays if a value that the cut needs is unobserved."""


class Nodes(NamedTuple):
    """The rows of each node of a level, as kernels read them.

    Attributes
    ----------
    starts
        Start of each node's rows, shape (n_nodes + 1,).
    rows, weights
        Row numbers and their multiplicities, shape (m,).
    """

    starts: Ints
    rows: Int32s
    weights: Int32s


@dataclass(frozen=True)
class Frontier:
    """The nodes of one level, ordered by tree and node, and the rows in each.

    Attributes
    ----------
    tree, node
        Number of the tree in the batch, and of the node in its tree, shape (n_nodes,).
    starts
        Start of each node's rows, shape (n_nodes + 1,).
    rows, weights
        Row numbers and their multiplicities, shape (m,).
    """

    tree: Ints
    node: Int32s
    starts: Ints
    rows: Int32s
    weights: Int32s

    @classmethod
    def roots(cls, weights: NDArray[np.int32]) -> Frontier:
        """Return the root of each tree with its rows of positive weight; ``weights`` has shape (n_trees, n_rows)."""
        n_trees = len(weights)
        starts = offsets(np.count_nonzero(weights, axis=1))
        rows, positive = np.empty((2, starts[-1] + 1), np.int32)
        gather_positive(weights, rows, positive)
        places = np.arange(n_trees, dtype=np.int64), np.zeros(n_trees, np.int32)
        return cls(*places, starts, rows[:-1], positive[:-1])

    @property
    def nodes(self) -> Nodes:
        """The rows of each node, as kernels read them."""
        return Nodes(self.starts, self.rows, self.weights)

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""
        return len(self.node)

    @cached_property
    def sizes(self) -> Ints:
        """Number of rows in each node, shape (n_nodes,)."""
        return self.starts[1:] - self.starts[:-1]

    @cached_property
    def place(self) -> Ints:
        """Number of each row's node in the frontier, shape (m,)."""
        return np.repeat(np.arange(self.n_nodes), self.sizes)

    @cached_property
    def weight(self) -> Ints:
        """Sum of the rows' weights in each node, shape (n_nodes,)."""
        total = np.empty(self.n_nodes, np.int64)
        add_up(self.starts, self.weights, total)
        return total

    def take(self, which: NDArray[np.bool_]) -> tuple[Frontier, NDArray[np.bool_] | slice]:
        """Return the frontier of the nodes that are True in ``which``, and an index that selects their rows."""
        if which.all():
            return self, slice(None)
        taken = self.of_nodes(which)
        return taken, np.repeat(which, self.sizes)

    def of_nodes(self, which: NDArray[np.bool_]) -> Frontier:
        """Return the frontier of the nodes that are True in ``which``."""
        if which.all():
            return self
        starts = offsets(self.sizes[which])
        rows, weights = np.empty((2, starts[-1]), np.int32)
        gather_nodes(which, self.nodes, rows, weights)
        return Frontier(self.tree[which], self.node[which], starts, rows, weights)

    def slice(self, first: int, last: int) -> Frontier:
        """Return the frontier of the nodes ``first`` to ``last - 1``."""
        rows = slice(self.starts[first], self.starts[last])
        return Frontier(
            self.tree[first:last],
            self.node[first:last],
            self.starts[first : last + 1] - self.starts[first],
            self.rows[rows],
            self.weights[rows],
        )

    def sides(self, values: Floats, threshold: Floats) -> NDArray[np.int8]:
        """Return the side of each row, from its value and the threshold of its node: see `decide`."""
        side = np.empty(len(values), np.int8)
        decide(self.starts, values, threshold, side)
        return side

    def descend(self, side: NDArray[np.int8], left: Int32s, right: Int32s) -> Frontier:
        """Return the frontier of the children: rows go left or right, and rows that stay are dropped.

        ``left`` and ``right`` are the numbers of the children, shape (n_nodes,); ``side`` has one entry per row.
        """
        starts = np.empty(2 * self.n_nodes + 1, np.int64)
        rows, weights = np.empty((2, len(self.rows) + 1), np.int32)
        part(self.starts, self.rows, self.weights, side, starts, rows, weights)
        numbers = np.stack([left, right], axis=1).reshape(-1)
        return Frontier(np.repeat(self.tree, 2), numbers, starts, rows[: starts[-1]], weights[: starts[-1]])

    def spread(self, child: NDArray[np.int8], n_children: Ints, first: Int32s) -> Frontier:
        """Return the frontier of any number of children: row r goes to child ``child[r]`` of its node, and -1 drops it.

        ``n_children`` is the number of children of each node, and ``first`` the number of the first child, both of
        shape (n_nodes,); the other children have the next numbers.
        """
        begin = offsets(n_children)
        starts = np.zeros(begin[-1] + 1, np.int64)
        rows, weights = np.empty((2, len(self.rows)), np.int32)
        spread_rows(self.nodes, child, begin, starts, rows, weights)
        numbers = np.repeat(first - begin[:-1], n_children) + np.arange(begin[-1])
        kept = slice(0, starts[-1])
        return Frontier(np.repeat(self.tree, n_children), numbers.astype(np.int32), starts, rows[kept], weights[kept])


@no_refcount
def longest_of(starts: Ints) -> int:
    """Return the number of rows of the largest node, of nodes that start at ``starts``, shape (n_nodes + 1,)."""
    longest = np.int64(0)
    for node in range(starts.shape[0] - 1):
        longest = max(longest, starts[node + 1] - starts[node])
    return longest  # type: ignore[return-value]  # a Python number without JIT


@kernel
def gather_positive(weights: NDArray[np.int32], rows: Int32s, positive: Int32s) -> None:
    """Gather the positive weights and their columns, tree after tree; the arrays have one extra entry, as in `part`."""
    filled = 0
    for tree in range(weights.shape[0]):
        for r in range(weights.shape[1]):
            rows[filled], positive[filled] = r, weights[tree, r]
            filled += weights[tree, r] > 0


@kernel
def gather_nodes(which: NDArray[np.bool_], nodes: Nodes, rows: Int32s, weights: Int32s) -> None:
    """Copy the rows of some nodes and their weights, node after node."""
    filled = 0
    for node in range(which.shape[0]):
        if not which[node]:
            continue
        first, last = nodes.starts[node], nodes.starts[node + 1]
        own, own_weights = nodes.rows[first:last], nodes.weights[first:last]
        to_rows, to_weights = rows[filled:], weights[filled:]
        for r in range(own.shape[0]):
            to_rows[r], to_weights[r] = own[r], own_weights[r]
        filled += last - first


@kernel
def add_up(starts: Ints, weights: Int32s, total: Ints) -> None:
    """total[node] = sum of the weights of the node's rows."""
    for node in range(starts.shape[0] - 1):
        total[node] = 0
        for w in weights[starts[node] : starts[node + 1]]:
            total[node] += w


@kernel
def part(
    starts: Ints,
    rows: Int32s,
    weights: Int32s,
    side: NDArray[np.int8],
    child_starts: Ints,
    child_rows: Int32s,
    child_weights: Int32s,
) -> None:
    """Partition the rows of every node and their weights stably, left before right; rows that stay are dropped.

    ::

        rows    a b c d e | f g         child_rows    a d e  b |  g  f
        side    L R S L L | R L         child_starts  0      3    4  5  6

    The position of a row is chosen without a branch that could be mispredicted. The arrays have one entry more than
    there are rows, to which rows that stay are written.
    """
    spare = child_rows.shape[0] - 1
    right = 0
    child_starts[0] = 0
    for node in range(starts.shape[0] - 1):
        left = right
        for r in range(starts[node], starts[node + 1]):
            right += side[r] == LEFT
        child_starts[2 * node + 1] = right
        for r in range(starts[node], starts[node + 1]):
            place = left if side[r] == LEFT else (right if side[r] == RIGHT else spare)
            child_rows[place], child_weights[place] = rows[r], weights[r]
            left += side[r] == LEFT
            right += side[r] == RIGHT
        child_starts[2 * node + 2] = right


@kernel
def spread_rows(
    nodes: Nodes, child: NDArray[np.int8], begin: Ints, child_starts: Ints, child_rows: Int32s, child_weights: Int32s
) -> None:
    """Group the rows of every node and their weights by child, in order; -1 drops a row.

    Node f has the children from number ``begin[f]`` on; ``child_starts`` begins as zeros.
    """
    starts, rows, weights = nodes
    for node in range(starts.shape[0] - 1):
        for r in range(starts[node], starts[node + 1]):
            if child[r] >= 0:
                child_starts[begin[node] + child[r] + 1] += 1
    for c in range(1, child_starts.shape[0]):
        child_starts[c] += child_starts[c - 1]
    place = child_starts[:-1].copy()
    for node in range(starts.shape[0] - 1):
        for r in range(starts[node], starts[node + 1]):
            if child[r] >= 0:
                c = begin[node] + child[r]
                child_rows[place[c]], child_weights[place[c]] = rows[r], weights[r]
                place[c] += 1


@kernel
def decide(starts: Ints, values: Floats, threshold: Floats, side: NDArray[np.int8]) -> None:
    """side[r] = left if values[r] <= threshold of the row's node, right if it is greater, stay if it is NaN."""
    for node in range(starts.shape[0] - 1):
        for r in range(starts[node], starts[node + 1]):
            below, above = values[r] <= threshold[node], values[r] > threshold[node]
            side[r] = LEFT if below else (RIGHT if above else STAY)


@kernel
def pick(starts: Ints, values: Floats, which: Int32s, picked: Floats) -> None:
    """picked[r] = values[which of the row's node, r], shape (m,); of the first candidate where ``which`` is -1."""
    for node in range(starts.shape[0] - 1):
        chosen = max(which[node], 0)
        for r in range(starts[node], starts[node + 1]):
            picked[r] = values[chosen, r]


@kernel
def settle(starts: Ints, rows: Int32s, tree: Ints, node: Int32s, nodes: NDArray[np.int32]) -> None:
    """nodes[tree, row] = the node of each row of the frontier; ``nodes`` has shape (n_trees, n_rows)."""
    for f in range(starts.shape[0] - 1):
        of_tree = nodes[tree[f]]
        for r in range(starts[f], starts[f + 1]):
            of_tree[rows[r]] = node[f]
