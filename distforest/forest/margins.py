"""Margins: the preference of trees for the class of an object out of bag, and a bound on the error of their vote.

Let p_t be the class shares of tree t for object i of class y, and j the other class with the largest mean share over
the trees out of bag. The margin of a tree is p_t[y] - p_t[j], and the vote of the forest is right where the mean margin
is positive (Breiman, Random forests, Machine Learning, 2001, section 2.2).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from distforest.forest.scoring import out_of_bag, predicting

if TYPE_CHECKING:
    from distforest.forest.forest import Forest
    from distforest.sources.source import Floats, Int32s, Ints


class Margins(NamedTuple):
    """Margins of objects out of bag.

    Attributes
    ----------
    mean, variance
        Mean and variance of the margins of the trees that did not draw an object, shape (n_rows,); NaN without such a
        tree, and the variance also with a single one.
    n_trees
        Number of these trees, shape (n_rows,).
    """

    mean: Floats
    variance: Floats
    n_trees: Ints


def out_of_bag_margins(forest: Forest, codes: Int32s) -> Margins:
    """Return the margins of the training objects; ``codes`` are their classes, shape (n_rows,)."""
    (shares, count), leaf_table = out_of_bag(forest), predicting(forest)
    rows = np.arange(len(codes))
    others = shares.copy()
    others[rows, codes] = -np.inf
    other = np.nan_to_num(others, nan=-np.inf).argmax(axis=1)
    mean, squares = shares[rows, codes] - shares[rows, other], np.zeros(len(codes))
    for tree in range(forest.n_trees):
        out = np.flatnonzero(forest.in_bag[tree] == 0)
        of_tree = leaf_table.outputs(tree, forest.training_nodes[tree, out].astype(np.int64))
        places = np.arange(len(out))
        squares[out] += np.square(of_tree[places, codes[out]] - of_tree[places, other[out]] - mean[out])
    variance = np.full(len(codes), np.nan)
    np.divide(squares, count - 1, out=variance, where=count > 1)
    return Margins(mean, variance, count)


def most_errors(margins: Margins, weights: Floats) -> float:
    """Bound the share of objects that the vote of ever more trees gets wrong: V / (V + s^2) where s > 0, else 1.

    s is the mean over the objects of their mean margin. V is its variance over the objects, less the part due to few
    trees: the mean of (an object's variance over trees / number of trees). Breiman bounds the share by V / s^2 (Theorem
    2.3, by Chebyshev's inequality); the side on which the vote is right needs no bound (Cantelli's inequality).

    Parameters
    ----------
    margins
        Margins of the objects; those with at least two trees count.
    weights
        Weights of the objects, shape (n_rows,); those of counting objects must not all be 0.

    Examples
    --------
    >>> mean, variance, count = np.array([0.5, 0.75, 1.0]), np.array([0.25, 0.25, 0.0]), np.array([20, 20, 20])
    >>> round(most_errors(Margins(mean, variance, count), np.ones(3)), 4)
    0.0559
    """
    known = margins.n_trees > 1
    mean, of_trees, w = margins.mean[known], margins.variance[known] / margins.n_trees[known], weights[known]
    s = float(np.average(mean, weights=w))
    if s <= 0.0:
        return 1.0
    spread = float(np.average(np.square(mean - s) - of_trees, weights=w))
    return max(0.0, spread) / (max(0.0, spread) + s * s)
