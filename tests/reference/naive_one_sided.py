"""The one-sided distance, written from its definition in plain loops."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np

    from distforest.forest.forest import Forest


def one_sided(forest: Forest, z: np.ndarray, ends: Sequence[int], j: int, trees: Sequence[int]) -> float:
    """Mean over some trees of the mean of z_kj over the in-bag rows k of the leaf ``ends[tree]``, weighted.

    If some z_kj are NaN, the weights of the others are divided by their sum over all trees.
    """
    total, known = 0.0, 0.0
    for tree in trees:
        members = [row for row in range(forest.n_training) if forest.leaves[tree, row] == ends[tree]]  # type: ignore[index]
        of_rows = [int(forest.in_bag[tree, row]) for row in members]
        if forest.sample_weight is not None:
            of_rows = [w * int(forest.sample_weight[row]) for w, row in zip(of_rows, members, strict=True)]
        for row, w in zip(members, of_rows, strict=True):
            if not math.isnan(z[row, j]):
                total += w / sum(of_rows) * float(z[row, j])
                known += w / sum(of_rows)
    return total / known if known else math.nan


def without(forest: Forest, row: int) -> list[int]:
    """The trees that did not draw a row."""
    return [tree for tree in range(forest.n_trees) if not forest.in_bag[tree, row]]
