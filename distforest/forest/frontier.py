"""The frontier: rows grouped by the nodes of one level, over all trees that grow or route in lockstep.

::

    node      0        1     2
    rows    [ 3 5 9 |  0 2 | 1 4 7 8 ]        in each group the rows keep their order
    starts  [ 0        3     5        9 ]
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from distforest.jit import kernel
from distforest.sources.source import Floats, Ints, Rows, offsets

LEFT, RIGHT, STAY = 0, 1, 2
"""Where a row goes from a node; it stays where a value that the cut needs is unobserved."""


@dataclass(frozen=True)
class Frontier:
    """The nodes of one level in the order (tree, node), and the rows in each.

    Attributes
    ----------
    tree, node
        Place of the tree in the batch, and number of the node in its tree, shape (n_nodes,).
    starts
        Where each node's rows begin, shape (n_nodes + 1,).
    rows, weights
        Row numbers and their multiplicities, shape (m,).
    """

    tree: Ints
    node: Rows
    starts: Ints
    rows: Rows
    weights: Rows

    @classmethod
    def roots(cls, weights: NDArray[np.int32]) -> Frontier:
        """The root of each tree with its rows of positive weight; ``weights`` has shape (n_trees, n_rows)."""
        tree, rows = np.nonzero(weights)
        starts = np.searchsorted(tree, np.arange(len(weights) + 1)).astype(np.int64)
        return cls(
            np.arange(len(weights), dtype=np.int64),
            np.zeros(len(weights), np.int32),
            starts,
            rows.astype(np.int32),
            weights[tree, rows].astype(np.int32),
        )

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
        """For each row the place of its node, shape (m,)."""
        return np.repeat(np.arange(self.n_nodes), self.sizes)

    @cached_property
    def weight(self) -> Ints:
        """Sum of the rows' weights in each node, shape (n_nodes,)."""
        total = offsets(self.weights)
        weight: Ints = total[self.starts[1:]] - total[self.starts[:-1]]
        return weight

    def take(self, which: NDArray[np.bool_]) -> tuple[Frontier, NDArray[np.bool_]]:
        """The frontier of the nodes that are True in ``which``, and which rows they hold."""
        if which.all():
            return self, np.ones(len(self.rows), np.bool_)
        inside = np.repeat(which, self.sizes)
        starts = offsets(self.sizes[which])
        taken = Frontier(self.tree[which], self.node[which], starts, self.rows[inside], self.weights[inside])
        return taken, inside

    def slice(self, first: int, last: int) -> Frontier:
        """The frontier of the nodes ``first`` to ``last - 1``."""
        rows = slice(self.starts[first], self.starts[last])
        return Frontier(
            self.tree[first:last],
            self.node[first:last],
            self.starts[first : last + 1] - self.starts[first],
            self.rows[rows],
            self.weights[rows],
        )

    def descend(self, side: NDArray[np.int8], left: Rows, right: Rows) -> Frontier:
        """The children's frontier: rows of each node parted into left and right, those that stay left out.

        ``left`` and ``right`` are the children's numbers, shape (n_nodes,); ``side`` has one entry a row.
        """
        starts = np.empty(2 * self.n_nodes + 1, np.int64)
        order = np.empty(len(self.rows) + 1, np.int64)
        n_moved = part(self.starts, side, starts, order)
        order = order[:n_moved]
        return Frontier(
            np.repeat(self.tree, 2),
            np.stack([left, right], axis=1).reshape(-1),
            starts,
            self.rows[order],
            self.weights[order],
        )


@kernel
def part(starts: Ints, side: NDArray[np.int8], child_starts: Ints, order: Ints) -> int:
    """Stable partition of every node's rows, left before right, those that stay dropped.

    ::

        rows    a b c d e | f g         order         a d e  b |  g  f
        side    L R S L L | R L         child_starts  0      3    4  5  6

    Every row is written and the next one over it where it is not wanted: no branch is mispredicted. ``order`` has room
    for one row more.
    """
    filled = 0
    child_starts[0] = 0
    for node in range(starts.shape[0] - 1):
        for wanted in range(2):
            for r in range(starts[node], starts[node + 1]):
                order[filled] = r
                filled += side[r] == wanted
            child_starts[2 * node + wanted + 1] = filled
    return filled


@kernel
def decide(starts: Ints, values: Floats, threshold: Floats, side: NDArray[np.int8]) -> None:
    """side[r] = left where values[r] <= threshold of the row's node, right where it is greater, stay where NaN."""
    for node in range(starts.shape[0] - 1):
        for r in range(starts[node], starts[node + 1]):
            below, above = values[r] <= threshold[node], values[r] > threshold[node]
            side[r] = LEFT if below else (RIGHT if above else STAY)


@kernel
def pick(starts: Ints, values: Floats, which: Rows, picked: Floats) -> None:
    """picked[r] = values[which of the row's node, r], shape (m,); those of the first where it is none, -1."""
    for node in range(starts.shape[0] - 1):
        first, last = starts[node], starts[node + 1]
        picked[first:last] = values[max(which[node], 0), first:last]


@kernel
def settle(starts: Ints, rows: Rows, tree: Ints, node: Rows, nodes: NDArray[np.int32]) -> None:
    """nodes[tree, row] = the node of every row that the frontier holds; ``nodes`` has shape (n_trees, n_rows)."""
    for f in range(starts.shape[0] - 1):
        own = nodes[tree[f]]
        for r in range(starts[f], starts[f + 1]):
            own[rows[r]] = node[f]
