"""The cells of ranking trees: which cell is parted into which two, what that gains, and trees with fewer of them.

A cell is a node with a score; the nodes of the small tree that parts it have none: see
`distforest.forest.pairs.pair_leaves.Ranks`.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from distforest.forest.pairs.pair_leaves import Ranks
from distforest.forest.pairs.pair_scores import ranks_of
from distforest.forest.table import LEAF, NodeTable
from distforest.sources.source import offsets

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from distforest.forest.forest import Forest
    from distforest.sources.source import Floats, Ints


@dataclass(frozen=True)
class Cells:
    """The cells of one tree.

    Attributes
    ----------
    start
        Number of the root in the whole table.
    counts
        In-bag pairs of the two classes in each node, shape (tree_size, 2), int64.
    better, worse
        The two cells into which each node is parted, numbers within the tree, shape (tree_size,); -1 for a leaf and for
        what is no cell.
    """

    start: int
    counts: Ints
    better: Ints
    worse: Ints

    @classmethod
    def of(cls, ranks: Ranks, tree: int) -> Cells:
        """The cells of a tree: from a cell down its small tree, to the first nodes with a score."""
        table, start = ranks.table, int(ranks.table.tree_start[tree])
        n = int(table.tree_size[tree])
        scores = ranks.scores[start : start + n].tolist()
        cell_of = list(range(n))  # of a node of a small tree: the cell that it parts
        better, worse = np.full(n, LEAF, np.int64), np.full(n, LEAF, np.int64)
        children = np.stack([table.left[start : start + n], table.right[start : start + n]], axis=1).tolist()
        for node, own in enumerate(children):
            for child in own if own[0] != LEAF else ():
                cell = cell_of[node]
                if scores[child] < 0.0:
                    cell_of[child] = cell
                elif scores[child] == scores[cell]:
                    better[cell] = child
                else:
                    worse[cell] = child
        return cls(start, ranks.class_counts[start : start + n].astype(np.int64), better, worse)

    def gains(self, counts: Ints) -> Floats:
        """Area under the curve that parting each cell gains, from the counts of the two classes, shape (tree_size, 2).

        Half of Lambda = (n_-(cell) n_+(better) - n_+(cell) n_-(better)) / (N_+ N_-); 0 for a leaf and what is no cell.
        """
        own, better = counts.astype(np.float64), counts[self.better].astype(np.float64)
        found = (own[:, 1] * better[:, 0] - own[:, 0] * better[:, 1]) / (2.0 * max(1.0, own[0].prod()))
        return np.where(self.better == LEAF, 0.0, found)


def order_of_pruning(cells: Cells) -> list[tuple[int, float]]:
    """Parted cells in the order in which they are made leaves: the least gain first, of those whose parts are leaves.

    Equal gains: the cell with the lower number. With each cell comes the largest gain of those that have gone so far.
    """
    gains = cells.gains(cells.counts).tolist()
    parted = np.flatnonzero(cells.better != LEAF)
    two_of = np.stack([cells.better[parted], cells.worse[parted]], axis=1).tolist()
    parts = dict(zip(parted.tolist(), two_of, strict=True))
    parent = {part: cell for cell, two in parts.items() for part in two}
    waiting = {cell: sum(part in parts for part in two) for cell, two in parts.items()}
    weakest = [(gains[cell], cell) for cell, parted_parts in waiting.items() if not parted_parts]
    heapq.heapify(weakest)
    found: list[tuple[int, float]] = []
    largest = -np.inf
    while weakest:
        gain, cell = heapq.heappop(weakest)
        largest = max(largest, gain)
        found.append((cell, largest))
        above = parent.get(cell)
        if above is not None:
            waiting[above] -= 1
            if not waiting[above]:
                heapq.heappush(weakest, (gains[above], above))
    return found


def pruned(forest: Forest, gain: float) -> Forest:
    """The forest without the partings that gain at most ``gain``, the weakest of each tree first.

    Parameters
    ----------
    forest
        A ranking forest.
    gain
        Area under the curve on the training pairs of a tree.
    """
    ranks = ranks_of(forest)
    made_leaves = []
    for tree in range(forest.n_trees):
        cells = Cells.of(ranks, tree)
        made_leaves += [cells.start + cell for cell, own in order_of_pruning(cells) if own <= gain]
    kept = _reached(ranks.table, made_leaves)
    table = _without(ranks.table, kept, made_leaves)
    own = Ranks(table, ranks.class_counts[kept], ranks.scores[kept], ranks.aggregation)
    return replace(forest, table=table, leaf_table=own)


def _reached(table: NodeTable, leaves: Sequence[int]) -> NDArray[np.bool_]:
    """Which nodes are reached from their root where these nodes are leaves."""
    reached = np.zeros(len(table.left), np.bool_)
    reached[table.tree_start[:-1]] = True
    ends = np.zeros(len(table.left), np.bool_)
    ends[list(leaves)] = True
    root = np.repeat(table.tree_start[:-1], table.tree_size)
    for node in np.flatnonzero(~table.is_leaf & ~ends):  # children come after their parents
        if reached[node]:
            reached[root[node] + table.left[node]] = reached[root[node] + table.right[node]] = True
    return reached


def _without(table: NodeTable, kept: NDArray[np.bool_], leaves: Sequence[int]) -> NodeTable:
    """The table of the kept nodes, numbered anew in their order, some of them leaves."""
    is_leaf = table.is_leaf.copy()
    is_leaf[list(leaves)] = True
    total = offsets(kept)
    root = np.repeat(table.tree_start[:-1], table.tree_size)
    number = total[:-1] - total[root]
    left, right = (np.where(is_leaf, LEAF, number[root + own.clip(0)])[kept] for own in (table.left, table.right))
    entry = np.repeat(kept & ~is_leaf, table.width)
    return NodeTable(
        tree_size=np.diff(total[table.tree_start]),
        left=left.astype(np.int32),
        right=right.astype(np.int32),
        threshold=np.where(is_leaf, 0.0, table.threshold)[kept],
        width=np.where(is_leaf, 0, table.width).astype(np.int32)[kept],
        columns=table.columns[entry],
        weights=table.weights[entry],
        gain=np.where(is_leaf, 0.0, table.gain)[kept],
        n_rows=table.n_rows[kept],
    )
