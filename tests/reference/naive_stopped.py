"""Trees that had stopped earlier, from the definition: walk from the root, and stop where the limits say."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tests.reference.naive_explanations import walk

if TYPE_CHECKING:
    from distforest.forest.forest import Forest


def end_of(forest: Forest, tree: int, row: np.ndarray, least: int, deepest: int | None) -> int:
    """The first node on the way of a row that is lighter than ``least``, or at the depth ``deepest``; or its leaf."""
    way = walk(forest, tree, row)
    for depth, node in enumerate(way):
        n_rows = forest.table.n_rows[int(forest.table.tree_start[tree]) + node]
        if n_rows < least or depth == deepest:
            return node
    return way[-1]


def out_of_bag_distances(
    forest: Forest, rows: np.ndarray, true: np.ndarray, least: int, deepest: int | None
) -> np.ndarray:
    """Mean over the trees that drew neither of two rows of the mean training distance between their nodes."""
    n = len(rows)
    totals, counts = np.zeros((n, n)), np.zeros((n, n))
    for tree in range(forest.n_trees):
        ends = np.array([end_of(forest, tree, row, least, deepest) for row in rows])
        weight = forest.in_bag[tree].astype(float)
        for i in range(n):
            for j in range(n):
                if not weight[i] and not weight[j]:
                    a, b = weight * (ends == ends[i]), weight * (ends == ends[j])
                    totals[i, j] += a @ true @ b / (a.sum() * b.sum())
                    counts[i, j] += 1
    with np.errstate(invalid="ignore"):
        return totals / counts
