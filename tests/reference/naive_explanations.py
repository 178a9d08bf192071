"""The explanation of a distance, written from its definition: distances of nodes are means over training rows."""

from __future__ import annotations

from itertools import pairwise
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


def passed_by_pair(forest: Forest, tree: int, columns: np.ndarray) -> list[int]:
    """The nodes that a pair without missing values passes in a tree whose splits read single columns."""
    table, way = forest.table, [0]
    while True:
        node = int(table.tree_start[tree]) + way[-1]
        if table.left[node] < 0:
            return way
        value = float(columns[table.columns[table.offset[node]]])
        way.append(int(table.left[node] if value <= table.threshold[node] else table.right[node]))


def rank_answers(forest: Forest, tree: int) -> list[float]:
    """The distance of each node of a ranking tree: of each kind of its pairs that of such pairs in its cell."""
    table, ranks = forest.table, forest.leaf_table
    first, n = int(table.tree_start[tree]), int(table.tree_size[tree])
    left, right, scores = ([*map(float, of[first : first + n])] for of in (table.left, table.right, ranks.scores))
    counts = [[int(c) for c in of_node] for of_node in ranks.class_counts[first : first + n]]
    leaves = sorted((node for node in range(n) if left[node] < 0), key=lambda node: -scores[node])

    def next_cells(node: int) -> set[int]:
        found = set()
        for child in (int(left[node]), int(right[node])):
            found |= {child} if scores[child] >= 0 else next_cells(child)
        return found

    def of_kind(cell: int, kind: int) -> float:
        if left[cell] < 0:
            return 1.0 - (len(leaves) - leaves.index(cell)) / len(leaves)
        parts = [(counts[part][kind], of_kind(part, kind)) for part in next_cells(cell)]
        return sum(c * a for c, a in parts) / max(1, sum(c for c, _ in parts))

    cell_of = {0: 0}
    for node in range(n):
        for child in (int(left[node]), int(right[node])):
            if child >= 0:
                cell_of[child] = child if scores[child] >= 0 else cell_of[node]
    return [
        sum(counts[node][kind] * of_kind(cell_of[node], kind) for kind in (0, 1)) / sum(counts[node])
        for node in range(n)
    ]


def explain_rank(forest: Forest, columns: np.ndarray) -> np.ndarray:
    """The contribution of each column to the mean of 1 - rank over the trees, for a pair with these columns."""
    contributions = np.zeros(forest.n_columns)
    for tree in range(forest.n_trees):
        way, answers = passed_by_pair(forest, tree, columns), rank_answers(forest, tree)
        for here, after in pairwise(way):
            at = int(forest.table.tree_start[tree]) + here
            contributions[forest.table.columns[forest.table.offset[at]]] += answers[after] - answers[here]
    return contributions / forest.n_trees
