"""The explanation of a distance, written from its definition: distances of nodes are means over training rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from distforest.forest.forest import Forest


def walk(forest: Forest, tree: int, row: np.ndarray) -> list[int]:
    """The nodes that a row without missing values passes in a tree."""
    table, way = forest.table, [0]
    while True:
        node = int(table.tree_start[tree]) + way[-1]
        if table.left[node] < 0:
            return way
        entries = range(int(table.offset[node]), int(table.offset[node + 1]))
        value = sum(float(table.weights[e]) * float(row[table.columns[e]]) for e in entries)
        way.append(int(table.left[node] if value <= table.threshold[node] else table.right[node]))


def explain(
    forest: Forest, training: np.ndarray, leaf_distance: np.ndarray, x: np.ndarray, y: np.ndarray
) -> np.ndarray:
    """The contribution of each column to the distance of two rows.

    ``leaf_distance[tree, i, j]`` is the distance of the leaves of the training rows i and j.
    """
    contributions = np.zeros(forest.n_columns)
    for tree in range(forest.n_trees):
        passed = [set(walk(forest, tree, row)) for row in training]
        weight = forest.in_bag[tree].astype(float)

        def mean(a: int, b: int, passed=passed, weight=weight, tree=tree) -> float:
            left = np.array([w if a in nodes else 0.0 for w, nodes in zip(weight, passed, strict=True)])
            right = np.array([w if b in nodes else 0.0 for w, nodes in zip(weight, passed, strict=True)])
            return float(left @ leaf_distance[tree] @ right / (left.sum() * right.sum()))

        a, b = walk(forest, tree, x), walk(forest, tree, y)
        for step in range(max(len(a), len(b)) - 1):
            here_a, next_a = a[min(step, len(a) - 1)], a[min(step + 1, len(a) - 1)]
            here_b, next_b = b[min(step, len(b) - 1)], b[min(step + 1, len(b) - 1)]
            if here_a == here_b:
                changes = [(here_a, mean(next_a, next_b) - mean(here_a, here_b))]
            else:
                first_a = mean(next_a, here_b) - mean(here_a, here_b)
                last_a = mean(next_a, next_b) - mean(here_a, next_b)
                first_b = mean(here_a, next_b) - mean(here_a, here_b)
                last_b = mean(next_a, next_b) - mean(next_a, here_b)
                changes = [(here_a, (first_a + last_a) / 2), (here_b, (first_b + last_b) / 2)]
            for node, change in changes:
                at = int(forest.table.tree_start[tree]) + node
                own = forest.table.columns[forest.table.offset[at] : forest.table.offset[at + 1]]
                for column in own:
                    contributions[column] += change / len(own)
    return contributions / forest.n_trees
