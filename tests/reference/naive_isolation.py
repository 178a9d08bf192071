"""Scores of random cuts in plain loops (Liu, Ting, Zhou: Isolation Forest, 2008); trees are of naive_simforest.py."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from tests.reference.naive_simforest import route_row

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from tests.reference.naive import Matrix
    from tests.reference.naive_simforest import Node, Rules

EULER = 0.5772156649


def isolation_scores(trees: Sequence[Sequence[Node]], X: Matrix, rules: Rules) -> NDArray[np.float64]:
    """Return 2^(-mean of (depth + c(completed rows)) / c(sample size)): near 1 for outliers (Liu, Ting, Zhou, 2008)."""
    usual = usual_path(trees[0][0].n_rows)
    completed = [completed_rows(tree) for tree in trees]
    scores = []
    for x in X:
        ends = [route_row(tree, x, rules) for tree in trees]
        lengths = [
            (tree[end].depth + usual_path(rows[end])) / usual
            for tree, rows, end in zip(trees, completed, ends, strict=True)
        ]
        scores.append(2.0 ** -(sum(lengths) / len(trees)))
    return np.array(scores)


def completed_rows(tree: Sequence[Node]) -> list[float]:
    """Return how many rows each node stands for: the root for its own, children for their parent's, as they share it.

    A child's share is that of the rows that went on.
    """
    rows = [float(tree[0].n_rows)] * len(tree)
    for number, node in enumerate(tree):
        if node.left >= 0:
            went_on = tree[node.left].n_rows + tree[node.right].n_rows
            for child in (node.left, node.right):
                rows[child] = rows[number] * tree[child].n_rows / went_on
    return rows


def usual_path(m: float) -> float:
    """Return c(m) = 2 (H(m - 1) - (m - 1) / m), the mean depth of m rows, H(k) = ln k + 0.5772156649.

    c(1) = 0 and c(2) = 1; between whole numbers up to 3 it is a line.
    """
    if m <= 1:
        return 0.0
    if m <= 2:
        return m - 1.0
    if m < 3:
        return 1.0 + (m - 2.0) * (usual_path(3) - 1.0)
    return 2.0 * (math.log(m - 1) + EULER - (m - 1.0) / m)
