"""The one-sided distance of a new row to a training row, by the training row's own distances.

The distance of two leaves is a mean over the members of both. For a training row more is known: its own distance to
each member of the leaf in which the new row ends. With w_tk the in-bag weights of tree t, L the leaf of the new row
there, and m_t the weight of its members, ::

    d(x, j) = mean over trees of (sum over members k of L of w_tk z_kj) / m_t = sum over k of s_k(x) z_kj

So the leaves give the share of each training row k in x, s_k(x), and row j of the distances does the rest. This has no
error from a leaf of j, whose members may be unlike j, but the noise of fewer distances. Which of the two is better
depends on the data, and is scored out of bag: a training row is new to the trees that did not draw it.

If some z_kj are unobserved, the mean is over the others; if all are, the distance of the leaves is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from distforest.forest.leaves import drawn_weights
from distforest.forest.members import group
from distforest.forest.scoring import between_nodes, distance, informative_trees
from distforest.jit import kernel

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from distforest.forest.forest import Forest
    from distforest.sources.source import Floats, Int32s, Ints
    from distforest.sources.truth import Truth

TILE_ROWS, TILE_COLUMNS = 64, 512
"""Rows and columns of a tile of distances, 256 KiB of float64, which many sums read in turn."""

ARRAYS_OF_BLOCK = 4
"""Number of arrays of the size of a block of distances that are held with it: the numbers of both rows and, if some are
unobserved, copies with 0 in place of these."""

SHARES_AT_ONCE = 1 << 23
"""Largest number of shares of training rows, or of distances, that are held at once, except those of a single row."""


def one_sided_distance(forest: Forest, nodes: Int32s, truth: Truth) -> Floats:
    """Return the one-sided distance of new rows to all training rows.

    Parameters
    ----------
    forest
        The forest.
    nodes
        Nodes of the new rows, from `distforest.forest.scoring.apply`, shape (n_trees, n).
    truth
        The ground truth of the training rows.

    Returns
    -------
    ndarray
        Shape (n, n_training); NaN where no distance of a training row to a member was observed.
    """
    distances = np.empty((nodes.shape[1], forest.n_training))
    columns = np.arange(forest.n_training)
    for rows in rows_at_once(nodes.shape[1], forest.n_training):
        shares, _ = shares_of_rows(forest, nodes[:, rows], np.ones((forest.n_trees, len(rows)), np.bool_))
        distances[rows] = weighted_distances(shares, truth, columns)
    return distances


def distance_to_training(forest: Forest, nodes: Int32s, truth: Truth) -> Floats:
    """Return `one_sided_distance` or, if no distance to a member was observed, the distance of the leaves."""
    distances = one_sided_distance(forest, nodes, truth)
    unknown = np.isnan(distances)
    if not unknown.any():
        return distances
    return np.where(unknown, distance(forest, nodes, forest.training_nodes), distances)


def known_distances(forest: Forest, truth: Truth, rows: Ints, columns: Ints) -> tuple[Floats, Floats, Ints]:
    """Return both distances of training rows to training rows, by the trees that did not draw the former.

    Parameters
    ----------
    forest
        The forest.
    truth
        The ground truth of the training rows.
    rows, columns
        Numbers of the rows that count as new, and of those that are known.

    Returns
    -------
    two_sided, one_sided : ndarray
        Shape (n_rows, n_columns); NaN in a row that every tree drew, and for a row with itself.
    counts : ndarray
        Number of trees behind each row, shape (n_rows,).
    """
    out = forest.in_bag[:, rows] == 0
    one_sided = np.empty((len(rows), len(columns)))
    for block in rows_at_once(len(rows), forest.n_training):
        shares, _ = shares_of_rows(forest, forest.training_nodes[:, rows[block]], out[:, block])
        one_sided[block] = weighted_distances(shares, truth, columns)
    two_sided, tells = np.zeros((len(rows), len(columns))), np.zeros(len(rows))
    for tree in informative_trees(forest).tolist():
        some = np.flatnonzero(out[tree])
        left, one = np.unique(forest.training_nodes[tree, rows[some]], return_inverse=True)
        right, other = np.unique(forest.training_nodes[tree, columns], return_inverse=True)
        if len(some):
            table = between_nodes(forest).between(tree, left.astype(np.int64), right.astype(np.int64))
            two_sided[some] += table[one[:, None], other]
        tells[some] += 1
    two_sided = np.divide(two_sided, tells[:, None], out=np.full_like(two_sided, np.nan), where=tells[:, None] > 0)
    one_sided[tells == 0] = np.nan
    one_sided = np.where(np.isnan(one_sided), two_sided, one_sided)
    for distances in (two_sided, one_sided):
        distances[rows[:, None] == columns] = np.nan
    return two_sided, one_sided, out.sum(axis=0)


def known_distances_of_pairs(forest: Forest, truth: Truth, left: Ints, right: Ints) -> tuple[Floats, Floats]:
    """Return `known_distances` of pairs of training rows, with ``left`` as new rows; both of shape (n_pairs,)."""
    found = np.empty((2, len(left)))
    order = np.argsort(left, kind="stable")
    rows, starts = np.unique(left[order], return_index=True)
    ends = np.append(starts[1:], len(left))
    for block in rows_at_once(len(rows), forest.n_training):
        own = order[starts[block[0]] : ends[block[-1]]]
        columns, place = np.unique(right[own], return_inverse=True)
        both = known_distances(forest, truth, rows[block], columns)[:2]
        for sides, distances in enumerate(both):
            found[sides, own] = distances[np.searchsorted(rows[block], left[own]), place]
    return found[0], found[1]


def shares_of_rows(forest: Forest, nodes: Int32s, counts: NDArray[np.bool_]) -> tuple[Floats, Ints]:
    """Return the share s_k(x) of each training row in each row, shape (n, n_training), and the number of its trees.

    ``nodes``, and ``counts``, which trees count for which row, have shape (n_trees, n).
    """
    shares, n_counting = np.zeros((nodes.shape[1], forest.n_training)), counts.sum(axis=0)
    leaves = forest.training_nodes
    for tree in range(forest.n_trees):
        weights = drawn_weights(forest.in_bag, forest.sample_weight, tree)
        members = group(leaves[tree], weights, int(forest.table.tree_size[tree]))
        add_shares_of_leaves(members.start, members.rows, members.weights, nodes[tree], counts[tree], shares)
    np.divide(shares, n_counting[:, None], out=shares, where=n_counting[:, None] > 0)
    return shares, n_counting


@kernel
def add_shares_of_leaves(
    start: Ints, rows: Int32s, weights: Int32s, nodes: Int32s, counts: NDArray[np.bool_], shares: Floats
) -> None:
    """shares[x, k] += w_k / m for the members k of nodes[x], where the tree counts for x."""
    for x in range(nodes.shape[0]):
        if not counts[x]:
            continue
        mass = 0.0
        for e in range(start[nodes[x]], start[nodes[x] + 1]):
            mass += weights[e]
        for e in range(start[nodes[x]], start[nodes[x] + 1]):
            shares[x, rows[e]] += weights[e] / mass


def weighted_distances(shares: Floats, truth: Truth, columns: Ints) -> Floats:
    """Return the sum over k of s_k z_kj for each of ``columns`` j, over the observed z_kj, shape (n, n_columns).

    Every sum is added in the order of k, so that no bit depends on which rows and columns are computed together.
    """
    if truth.graph is not None:
        near, mass = np.zeros((len(shares), shares.shape[1])), np.zeros((len(shares), 1))
        stored, absent = truth.graph.stored, truth.graph.absent
        add_shares_of_links(shares, stored.indptr, stored.indices, truth.graph.values - np.float64(absent), near, mass)
        return near[:, columns] + (mass * absent + truth.offset)
    n = shares.shape[1]
    found = np.empty((len(shares), len(columns)))
    for some in rows_at_once(len(columns), ARRAYS_OF_BLOCK * n):
        left, right = np.repeat(np.arange(n), len(some)), np.tile(columns[some], n)
        block = truth.distances(left, right).reshape(n, len(some))
        if truth.n_unobserved:
            unknown = np.isnan(block)
            sums, known = (
                _product(shares, own) for own in (np.where(unknown, 0.0, block), (~unknown).astype(np.float64))
            )
            found[:, some] = np.divide(sums, known, out=np.full(known.shape, np.nan), where=known > 0.0)
        else:
            found[:, some] = _product(shares, block)
    return found


def _product(shares: Floats, block: Floats) -> Floats:
    """Return the matrix product of shares, shape (n, m), and a block, shape (m, q), added in order."""
    sums = np.zeros((len(shares), block.shape[1]))
    add_products(shares, block, sums)
    return sums


@kernel
def add_products(shares: Floats, block: Floats, sums: Floats) -> None:
    """sums[x, j] += sum over k of shares[x, k] block[k, j], one after another in the order of k.

    The loops go over tiles of the block, which stay in the cache while all rows x read them, and over four non-zero
    shares at a time, so that a sum is loaded and stored once for four terms. Neither changes the order of additions.
    """
    n, m, width = sums.shape[0], block.shape[0], block.shape[1]
    some = np.empty(TILE_ROWS, np.int64)
    for first in range(0, width, TILE_COLUMNS):
        last = min(first + TILE_COLUMNS, width)
        for begin in range(0, m, TILE_ROWS):
            for x in range(n):
                count = 0
                for k in range(begin, min(begin + TILE_ROWS, m)):
                    if shares[x, k] != 0.0:
                        some[count] = k
                        count += 1
                e = 0
                while e + 4 <= count:
                    a, b, c, d = some[e], some[e + 1], some[e + 2], some[e + 3]
                    of_a, of_b, of_c, of_d = shares[x, a], shares[x, b], shares[x, c], shares[x, d]
                    for j in range(first, last):
                        total = sums[x, j] + of_a * block[a, j]
                        total = total + of_b * block[b, j]
                        total = total + of_c * block[c, j]
                        sums[x, j] = total + of_d * block[d, j]
                    e += 4
                for f in range(e, count):
                    a, of_a = some[f], shares[x, some[f]]
                    for j in range(first, last):
                        sums[x, j] += of_a * block[a, j]


@kernel
def add_shares_of_links(
    shares: Floats, indptr: Ints, indices: Int32s, nearer: Floats, near: Floats, mass: Floats
) -> None:
    """near[x, j] += sum over links k, j of s_xk (z_kj - absent), and mass[x] += sum of s_xk, in the order of k."""
    for x in range(shares.shape[0]):
        for k in range(shares.shape[1]):
            share = shares[x, k]
            if share != 0.0:
                mass[x, 0] += share
                for e in range(indptr[k], indptr[k + 1]):
                    near[x, indices[e]] += share * nearer[e]


def rows_at_once(n: int, width: int) -> Iterator[Ints]:
    """Yield the numbers below n in runs of the length that `SHARES_AT_ONCE` allows for rows of this width."""
    step = max(1, SHARES_AT_ONCE // max(1, width))
    for first in range(0, n, step):
        yield np.arange(first, min(first + step, n))
