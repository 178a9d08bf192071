"""Weights of given pairs: a pair of weight 3 counts as three equal pairs, and one of weight 0 is absent.

They are integers, as weights of rows are (`distforest.growth.sample_weights`). If points have weights, too, both
multiply: three copies of a pair whose points stand for two points each are 3 x 2 x 2 pairs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from distforest.errors import InputError
from distforest.growth.sample_weights import COARSEST, GENERAL, MOST_OF_TREE, Draws, SampleWeights
from distforest.sources.weights import OF_PAIRS

if TYPE_CHECKING:
    from distforest.sources.source import Floats, Int32s, Ints

DRAWN_TWICE = 4
"""A tree that draws points with replacement may weigh its pairs this many times as heavy as all pairs are together."""

FINEST_BESIDE = 1 << 6
"""Largest integer of the mean of fractional weights of pairs whose points have fractional weights as well."""


def integers_of_pairs(weights: Floats, of_points: SampleWeights | None = None) -> SampleWeights:
    """The weights of pairs as the integers that trees add.

    Parameters
    ----------
    weights
        Weights from `distforest.sources.weights.checked_weights`, shape (n_pairs,).
    of_points
        The weights of the points, by which these are multiplied; fractional ones need digits, too.

    Raises
    ------
    InputError
        The weights are too large, or there are too many of them.

    Examples
    --------
    >>> integers_of_pairs(np.array([2.0, 0.0, 1.0])).integers
    array([2, 0, 1], dtype=int32)
    """
    bounds = GENERAL._replace(tree=MOST_OF_TREE // DRAWN_TWICE)
    if of_points is not None and of_points.unit > 1:
        bounds = bounds._replace(tree=bounds.tree // COARSEST, finest=FINEST_BESIDE)
    return SampleWeights.of(weights, Draws(len(weights), replace=False), bounds, OF_PAIRS)


def in_tree(counts: Int32s, weights: Int32s | Ints) -> Int32s:
    """The weight of each pair in a tree: its multiplicity ``counts`` times its weight, shape (m,).

    Raises
    ------
    InputError
        The weights add up to more than `MOST_OF_TREE`.
    """
    heaviest = float((counts.astype(np.float64) * weights).sum())  # whose terms may be beyond 64 bits
    if heaviest > MOST_OF_TREE:
        raise InputError(
            f"sample_weight or pair_weight: the weights of the pairs of a tree may add up to {MOST_OF_TREE:,}, found "
            f"{heaviest:,.15g}; divide the weights by their mean, or let a tree learn from fewer pairs"
        )
    return (counts * weights).astype(np.int32)
