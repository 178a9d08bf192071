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
    """Return 2^(-mean of (depth + c(n_rows)) / c(sample size)): near 1 for outliers (Liu, Ting, Zhou, 2008)."""
    usual = usual_path(trees[0][0].n_rows)
    scores = []
    for x in X:
        ends = [tree[route_row(tree, x, rules)] for tree in trees]
        lengths = [(end.depth + usual_path(end.n_rows)) / usual for end in ends]
        scores.append(2.0 ** -(sum(lengths) / len(trees)))
    return np.array(scores)


def usual_path(m: int) -> float:
    """Return c(m) = 2 (H(m - 1) - (m - 1) / m), the mean depth of m rows, H(k) = ln k + 0.5772156649."""
    if m <= 2:
        return float(m == 2)
    return 2.0 * (math.log(m - 1) + EULER - (m - 1) / m)
