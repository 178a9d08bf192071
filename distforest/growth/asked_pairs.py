"""The choice of pairs to evaluate for an expensive distance: half at random, half where a first forest finds rows near.

A pair (i, j), i < j, has the code i n + j. Every tree t draws a number in [0, 1) for each pair whose rows share one of
its leaves, and the pairs with the smallest numbers are chosen, with the smallest number of a pair that several trees
have drawn. So a pair that shares a leaf in k trees has the least of k numbers: it is drawn with the weight k, without
replacement (Efraimidis and Spirakis, 2006, whose key u^(1/k) is the largest of k numbers). With one tree of one leaf,
all pairs are equally likely.

**Why not all of them at random.** Let a share q of a node's pairs be observed, each with the same probability, let g be
the mean of all, and let rows be at distance 0 from themselves. `distforest.growth.cuts.observed_distance` replaces
unobserved distances by the observed mean. A cut of S into L and R that gains G where all pairs are observed then gains,
in the mean and but for terms in 1 / (q m),

    q G + (1 - q) g

so no other cut is preferred on average. With x_ij = z_ij - g and the mean squares s_L^2 and s_R^2 of x within the two
sides and s_X^2 between them, the variance of that, divided by q^2 and but for such terms, is

    (1 - q) / q (2 s_L^2 m_R^2 + 2 s_R^2 m_L^2 + 4 s_X^2 m_L m_R) / m^2

which depends on the shares of the sides and not on the size of the node, whereas G grows with it. So a tenth of the
pairs suffices for large nodes, while small nodes are cut by chance. The rows of a small node are near each other by the
features that matter: those are the pairs that a first forest, of large leaves, finds near.

**The cost of this choice.** Two rows that the first forest often leaves in one leaf are drawn more often than others,
so a mean over observed pairs is weighted by how often they are drawn. If these probabilities differ within a node (or a
pair of leaves), the mean is biased towards near pairs.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from distforest.growth.rng import Keys, random_bits, streams, unit
from distforest.jit import kernel
from distforest.sources.source import Floats, Int32s, Ints, offsets

if TYPE_CHECKING:
    from numpy.typing import NDArray

ANYWHERE_NODE, NEAR_NODE, FIRST_FOREST_NODE, SELF_NODE = -3, -4, -5, -6
"""Node numbers under which trees draw pairs of the first and the second half, the seed of the first forest, and the
rows that are compared with themselves."""

FIRST_TREES = 50
"""Number of trees of the first forest."""

LEAST_LEAF = 5
"""Least number of rows of a leaf of the first forest."""

COLLECTED = 1.2
"""Factor by which more numbers are collected than will probably be needed."""


class LeafRows(NamedTuple):
    """The rows of each leaf of a tree, side by side, and the start of each leaf, shape (n_leaves + 1,)."""

    starts: Ints
    rows: Int32s


def pairs_anywhere(n_rows: int, present: NDArray[np.bool_], count: int, seed: int) -> Ints:
    """Draw ``count`` pairs of different present rows, all equally likely, or fewer if there are not enough.

    Returns
    -------
    ndarray
        Their codes, ascending.

    Examples
    --------
    >>> pairs_anywhere(4, np.ones(4, bool), 99, 0).tolist()
    [1, 2, 3, 6, 7, 11]
    """
    leaves = np.where(present, 0, -1).astype(np.int32)[None]
    return least_pairs(leaves, _stream(seed, ANYWHERE_NODE), np.empty(0, np.int64), min(count, math.comb(n_rows, 2)))


def near_pairs(leaves: Int32s, known: Ints, count: int, seed: int) -> Ints:
    """Draw unknown pairs, weighted by the number of trees in which they share a leaf.

    Parameters
    ----------
    leaves
        The leaf of each row in each tree, shape (n_trees, n_rows); -1 for a row without drawn pairs.
    known
        Codes of pairs, ascending, shape (n_known,).
    count
        Number of pairs to draw; fewer are drawn if not enough pairs share a leaf.
    seed
        The seed of the forest.

    Returns
    -------
    ndarray
        Their codes, ascending.

    Examples
    --------
    >>> near_pairs(np.array([[0, 0, 0, 1], [0, 0, 1, 1]], np.int32), np.array([1]), 99, 0).tolist()
    [2, 6, 11]
    """
    keys = np.empty(len(leaves), np.uint64)
    streams(seed, np.arange(len(leaves)), np.full(len(leaves), NEAR_NODE, np.int32), keys)
    return least_pairs(leaves, keys, known, count)


def least_pairs(leaves: Int32s, keys: Keys, known: Ints, count: int) -> Ints:
    """Return the unknown pairs with the smallest numbers: see the module; ``keys`` are the streams of the trees."""
    groups, n_numbers = list[LeafRows](), 0
    for own in leaves:
        rows = np.flatnonzero(own >= 0).astype(np.int32)
        rows = rows[np.argsort(own[rows], kind="stable")]
        sizes = np.bincount(own[rows])
        groups.append(LeafRows(offsets(sizes), rows))
        n_numbers += int((sizes * (sizes - 1) // 2).sum())
    limit = min(1.0, COLLECTED * (count + 100) / n_numbers) if n_numbers else 1.0
    while True:
        drawn = [_below(group, key, leaves.shape[1], limit) for group, key in zip(groups, keys, strict=True)]
        codes, numbers = (np.concatenate(of_trees) for of_trees in zip(*drawn, strict=True))
        order = np.lexsort((numbers, codes))
        codes, first = np.unique(codes[order], return_index=True)
        unknown = ~np.isin(codes, known, assume_unique=True)
        codes, least = codes[unknown], numbers[order][first][unknown]
        if len(codes) >= count or limit == 1.0:
            return np.sort(codes[np.lexsort((codes, least))[:count]])
        limit = min(1.0, 4.0 * limit)


def _below(group: LeafRows, key: np.uint64, n_rows: int, limit: float) -> tuple[Ints, Floats]:
    """Return the codes of all pairs of a tree with a number below a limit, and these numbers."""
    n = draw_numbers(group.starts, group.rows, key, n_rows, limit, np.empty(0, np.int64), np.empty(0))
    codes, numbers = np.empty(n, np.int64), np.empty(n)
    draw_numbers(group.starts, group.rows, key, n_rows, limit, codes, numbers)
    return codes, numbers


@kernel
def draw_numbers(
    starts: Ints, rows: Int32s, key: np.uint64, n_rows: int, limit: float, codes: Ints, numbers: Floats
) -> int:
    """Fill the codes i n + j of pairs within a group with their numbers below a limit, while there is room.

    Return their number.
    """
    found = 0
    for group in range(starts.shape[0] - 1):
        for a in range(starts[group], starts[group + 1]):
            for b in range(a + 1, starts[group + 1]):
                i, j = min(rows[a], rows[b]), max(rows[a], rows[b])
                code = np.int64(i) * n_rows + j
                number = unit(key, code)
                if number < limit:
                    if found < codes.shape[0]:
                        codes[found], numbers[found] = code, number
                    found += 1
    return found


def first_forest_seed(seed: int) -> int:
    """Return the seed of the first forest of a forest with this seed.

    Examples
    --------
    >>> all(0 <= first_forest_seed(seed) < 2**63 for seed in range(20))
    True
    """
    numbers = np.empty(1, np.uint64)
    fill_bits(_stream(seed, FIRST_FOREST_NODE), np.zeros(1, np.int64), numbers)
    return int(numbers[0] >> np.uint64(1))


def rows_for_selves(rows: Ints, count: int, seed: int) -> Ints:
    """Draw rows that are compared with themselves, ascending; all rows if there are not enough.

    Examples
    --------
    >>> rows_for_selves(np.arange(3), 8, 0).tolist()
    [0, 1, 2]
    """
    numbers = np.empty(len(rows), np.uint64)
    fill_bits(_stream(seed, SELF_NODE), rows, numbers)
    return np.sort(rows[np.argsort(numbers, kind="stable")[:count]])


@kernel
def fill_bits(keys: Keys, places: Ints, numbers: Keys) -> None:
    """numbers[e] = the random bits at places[e] of the stream keys[0]."""
    for e in range(places.shape[0]):
        numbers[e] = random_bits(keys[0], places[e])


def _stream(seed: int, node: int) -> Keys:
    """Return the stream of one node of tree 0, shape (1,)."""
    keys = np.empty(1, np.uint64)
    streams(seed, np.zeros(1, np.int64), np.full(1, node, np.int32), keys)
    return keys


def least_leaf(n_rows: int, n_known: int) -> int:
    """Return the size of a leaf of the first forest, so that a row has a known distance to a row on each side of a cut.

    With a share q of the pairs known, 1 / q rows contain one known partner of each row on average; a leaf has at least
    half as many.

    Examples
    --------
    >>> least_leaf(1000, 25_000)
    10
    """
    share = n_known / math.comb(n_rows, 2)
    return max(1, min(max(LEAST_LEAF, math.ceil(0.5 / share)), n_rows // 8))
