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


def products(shares: np.ndarray, block: np.ndarray) -> list[list[float]]:
    """The product of two matrices, each sum from its first term to its last."""
    found = []
    for row in shares.tolist():
        sums = [0.0] * block.shape[1]
        for share, values in zip(row, block.tolist(), strict=True):
            sums = [total + share * value for total, value in zip(sums, values, strict=True)]
        found.append(sums)
    return found


def products_of_links(shares: np.ndarray, links: np.ndarray) -> tuple[list[list[float]], list[float]]:
    """The same over links other than 0; and the sums of shares."""
    masses = []
    for row in shares.tolist():
        total = 0.0
        for share in row:
            total += share
        masses.append(total)
    return products(shares, links), masses
