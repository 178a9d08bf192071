"""The cells of ranking trees: into which two a cell is parted, what that gains, and pruned trees.

A cell is a node with a score. The nodes of the small tree that parts it have none: see
`distforest.forest.pairs.pair_leaves.Ranks`.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from distforest.forest.node_table import LEAF, NodeTable
from distforest.forest.pairs.pair_leaves import Ranks
from distforest.forest.pairs.pair_scores import ranks_of
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
        a node that is no cell.
    cell
        The cell that each node helps to part, itself for a cell, shape (tree_size,).
    """

    start: int
    counts: Ints
    better: Ints
    worse: Ints
    cell: Ints

    @classmethod
    def from_ranks(cls, ranks: Ranks, tree: int) -> Cells:
        """Find the cells of a tree: from each cell down its small tree, to the first nodes with a score."""
        table, start = ranks.table, int(ranks.table.tree_start[tree])
        n = int(table.tree_size[tree])
        scores = ranks.scores[start : start + n].tolist()
        cell_of = list(range(n))  # the cell that each node of a small tree parts
        better, worse = np.full(n, LEAF, np.int64), np.full(n, LEAF, np.int64)
        children = np.stack([table.left[start : start + n], table.right[start : start + n]], axis=1).tolist()
        for node, both in enumerate(children):
            for child in both if both[0] != LEAF else ():
                cell = cell_of[node]
                if scores[child] < 0.0:
                    cell_of[child] = cell
                elif scores[child] == scores[cell]:
                    better[cell] = child
                else:
                    worse[cell] = child
        return cls(start, ranks.class_counts[start : start + n].astype(np.int64), better, worse, np.array(cell_of))

    def gains(self, counts: Ints) -> Floats:
        """Area under the curve that parting each cell gains, shape (tree_size,).

        Half of Lambda = (n_-(cell) n_+(better) - n_+(cell) n_-(better)) / (N_+ N_-), from the ``counts`` of the two
        classes, shape (tree_size, 2); 0 for a leaf and for a node that is no cell.
        """
        cell, better = counts.astype(np.float64), counts[self.better].astype(np.float64)
        gains = (cell[:, 1] * better[:, 0] - cell[:, 0] * better[:, 1]) / (2.0 * max(1.0, cell[0].prod()))
        return np.where(self.better == LEAF, 0.0, gains)


def order_of_pruning(cells: Cells) -> list[tuple[int, float]]:
    """Parted cells in the order in which pruning makes them leaves, each with the largest gain so far.

    The next cell is that of the least gain among those whose two parts are leaves; of equal gains the lower number.
    """
    gains = cells.gains(cells.counts).tolist()
    parted = np.flatnonzero(cells.better != LEAF)
    two_of = np.stack([cells.better[parted], cells.worse[parted]], axis=1).tolist()
    parts = dict(zip(parted.tolist(), two_of, strict=True))
    parent = {part: cell for cell, two in parts.items() for part in two}
    waiting = {cell: sum(part in parts for part in two) for cell, two in parts.items()}
    weakest = [(gains[cell], cell) for cell, parted_parts in waiting.items() if not parted_parts]
    heapq.heapify(weakest)
    order: list[tuple[int, float]] = []
    largest = -np.inf
    while weakest:
        gain, cell = heapq.heappop(weakest)
        largest = max(largest, gain)
        order.append((cell, largest))
        above = parent.get(cell)
        if above is not None:
            waiting[above] -= 1
            if not waiting[above]:
                heapq.heappush(weakest, (gains[above], above))
    return order


def pruned(forest: Forest, gain: float) -> Forest:
    """Prune a forest: cells whose parting gains at most ``gain`` become leaves, in the `order_of_pruning`.

    Parameters
    ----------
    forest
        A ranking forest.
    gain
        Area under the curve on the training pairs of a tree.

    Raises
    ------
    InputError
        The forest is no ranking forest.
    """
    ranks = ranks_of(forest)
    made_leaves = []
    for tree in range(forest.n_trees):
        cells = Cells.from_ranks(ranks, tree)
        made_leaves += [cells.start + cell for cell, largest in order_of_pruning(cells) if largest <= gain]
    kept = _reached(ranks.table, made_leaves)
    table = _without(ranks.table, kept, made_leaves)
    leaf_table = Ranks(table, ranks.class_counts[kept], ranks.scores[kept], ranks.aggregation)
    return replace(forest, table=table, leaf_table=leaf_table)


def _reached(table: NodeTable, leaves: Sequence[int]) -> NDArray[np.bool_]:
    """Which nodes are reached from their root if these nodes become leaves."""
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
    """The table of the kept nodes with new numbers in the same order, in which ``leaves`` have no children."""
    is_leaf = table.is_leaf.copy()
    is_leaf[list(leaves)] = True
    total = offsets(kept)
    root = np.repeat(table.tree_start[:-1], table.tree_size)
    number = total[:-1] - total[root]
    left, right = (np.where(is_leaf, LEAF, number[root + child.clip(0)])[kept] for child in (table.left, table.right))
    stays = kept & ~is_leaf
    entry = np.repeat(stays, table.width)
    lists: dict[str, np.ndarray] = {}
    if table.category_size is not None and table.category_codes is not None:
        lists["category_size"] = np.where(is_leaf, 0, table.category_size)[kept].astype(np.int32)
        lists["category_codes"] = table.category_codes[np.repeat(stays, table.category_size)]
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
        missing_right=None if table.missing_right is None else (table.missing_right & ~is_leaf)[kept],
        **lists,
    )
