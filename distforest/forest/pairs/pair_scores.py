"""What a forest over pairs says: each pair walks down each tree, a block of pairs at a time.

Nothing is kept of a pair but its answer: neither the columns that are read of it nor the leaves in which it ends.
Sums run over the trees in their order, so that an answer does not depend on the size of a block.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from distforest.errors import InputError
from distforest.forest.pairs.pair_leaves import Ranks, Votes
from distforest.forest.pairs.pair_walks import Walks, blocks_of
from distforest.forest.proximities import check_n_neighbors
from distforest.sources.point_pairs import PairColumns, PointPairs
from distforest.sources.source import Float32s, Floats, Int32s, Ints

if TYPE_CHECKING:
    from distforest.forest.forest import Forest
    from distforest.forest.table import NodeTable

PAIRS_PER_TURN = 1 << 14
"""Pairs of a thread's turn."""


def is_over_pairs(forest: Forest) -> bool:
    """Whether the forest reads pairs of points."""
    return isinstance(forest.leaf_table, (Votes, Ranks))


def columns_of(forest: Forest) -> PairColumns:
    """What the forest reads of a pair; raises InputError for a forest of points or objects."""
    rows = forest.meaning.rows
    if not isinstance(rows, PairColumns):
        raise InputError(f"pairs were asked of a forest that reads {rows.kind}")
    return rows


def node_scores(forest: Forest) -> Votes | Ranks:
    """The leaf table of a forest over pairs."""
    table = forest.leaf_table
    assert isinstance(table, (Votes, Ranks))  # noqa: S101  (held by check)
    return table


def ranks_of(forest: Forest) -> Ranks:
    """The leaf table of a ranking forest; raises InputError for another."""
    if not isinstance(forest.leaf_table, Ranks):
        raise InputError(f"ranks were asked of a forest that keeps {forest.leaf_table.kind}; grow one by TreeRank")
    return forest.leaf_table


def pair_answers(forest: Forest, pairs: PointPairs, threads: int = 1) -> Floats:
    """What the forest says of each pair: how unlike (votes), or how alike (ranks).

    Parameters
    ----------
    forest
        A forest over pairs.
    pairs
        The pairs.
    threads
        Threads that share the blocks.

    Returns
    -------
    ndarray
        Shape (n_pairs,), from 0 to 1.
    """
    found = np.empty(len(pairs.left))

    def answer(block: slice) -> None:
        found[block] = _answers(forest, pairs.of_pairs(pairs.left[block], pairs.right[block]))

    blocks = list(_blocks(len(found), PAIRS_PER_TURN))
    if threads == 1 or len(blocks) == 1:
        for block in blocks:
            answer(block)
    else:
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(answer, blocks))
    return found


def _answers(forest: Forest, pairs: PointPairs) -> Floats:
    table, found = node_scores(forest), np.empty(len(pairs.left))
    for block, values in blocks_of(pairs):
        if table.median:
            ends = (table.walks.ends(tree, values) for tree in range(forest.n_trees))
            found[block] = np.median([table.parts[own] for own in ends], axis=0)
        else:
            of = forest.n_trees if table.wholes is None else table.walks.sums(table.wholes, values)
            found[block] = table.walks.sums(table.parts, values) / of
    return found


def pair_distance(forest: Forest, pairs: PointPairs, threads: int = 1) -> Floats:
    """The forest's distance of the two points of each pair, shape (n_pairs,)."""
    found = pair_answers(forest, pairs, threads)
    return found if node_scores(forest).unlike else np.subtract(1.0, found, out=found)


def distance(forest: Forest, points: Float32s, others: Float32s, threads: int = 1) -> Floats:
    """The forest's distance of each of ``points`` to each of ``others``, shape (n_points, n_others)."""
    shape, columns = (len(points), len(others)), columns_of(forest)
    found = np.empty(shape)
    step = max(1, (threads * PAIRS_PER_TURN) // max(1, shape[1]))
    for rows in _blocks(shape[0], step):
        size = rows.stop - rows.start
        numbers = np.arange(rows.start, rows.stop, dtype=np.int32)
        left, right = np.repeat(numbers, shape[1]), np.tile(np.arange(shape[1], dtype=np.int32), size)
        pairs = PointPairs(columns, points, others, left, right)
        found[rows] = pair_distance(forest, pairs, threads).reshape(size, shape[1])
    return found


def kneighbors(
    forest: Forest, points: Float32s, n_neighbors: int, own: Ints | None, threads: int = 1
) -> tuple[Floats, Ints]:
    """The nearest training points of each of ``points``, block by block.

    Parameters
    ----------
    forest
        A forest over pairs.
    points
        Shape (n, columns.width), float32.
    n_neighbors
        How many to find.
    own
        The training point that each of ``points`` is, shape (n,), and that is no neighbour of it; None: they are new.
    threads
        Threads that share the work.

    Returns
    -------
    distances, indices : ndarray
        Shape (n, n_neighbors), nearest first; equal distances in the order of the index.

    Raises
    ------
    InputError
        More neighbours are asked for than there are.
    """
    training = forest.points
    check_n_neighbors(n_neighbors, len(training), own is not None)
    found = np.empty((len(points), n_neighbors))
    index = np.empty((len(points), n_neighbors), np.int64)
    for rows in _blocks(len(points), max(1, (1 << 20) // len(training))):
        near = distance(forest, points[rows], training, threads)
        if own is not None:
            near[np.arange(len(near)), own[rows]] = np.inf
        index[rows] = np.argsort(near, axis=1, kind="stable")[:, :n_neighbors]
        found[rows] = np.take_along_axis(near, index[rows], axis=1)
    return found, index


def training_pairs(forest: Forest, pairs: Int32s) -> PointPairs:
    """Pairs of the training points with these numbers, shape (m, 2)."""
    left, right = np.ascontiguousarray(pairs.T)
    return PointPairs(columns_of(forest), forest.points, forest.points, left, right)


def out_of_bag(forest: Forest, pairs: PointPairs) -> tuple[Floats, Ints]:
    """What the trees that drew neither of its points say of each pair of training points.

    Returns
    -------
    answer : ndarray
        Shape (n_pairs,); NaN where there is no such tree.
    count : ndarray
        How many trees each answer rests on, shape (n_pairs,).
    """
    table, n = node_scores(forest), len(pairs.left)
    parts, wholes, count = np.zeros(n), np.zeros(n), np.zeros(n, np.int64)
    for tree in range(forest.n_trees):
        unseen = forest.in_bag[tree] == 0
        out = np.flatnonzero(unseen[pairs.left] & unseen[pairs.right])
        ends = walked(table.walks, tree, pairs.of_pairs(pairs.left[out], pairs.right[out]))
        parts[out] += table.parts[ends]
        wholes[out] += 1.0 if table.wholes is None else table.wholes[ends]
        count[out] += 1
    return np.divide(parts, wholes, out=np.full(n, np.nan), where=count > 0), count


def walked(walks: Walks, tree: int, pairs: PointPairs) -> Ints:
    """The node in which each pair ends in a tree, numbers in the whole table, shape (n_pairs,)."""
    ends = np.empty(len(pairs.left), np.int64)
    for block, values in blocks_of(pairs):
        ends[block] = walks.ends(tree, values)
    return ends


def tallied(table: NodeTable, tree: int, pairs: PointPairs, codes: NDArray[np.uint8], weights: Int32s) -> Ints:
    """Weight of each class in each node of a tree, shape (tree_size, 2), by the walk of its pairs."""
    counts, walks = np.zeros((int(table.tree_size[tree]), 2), np.int64), Walks(table)
    for block, values in blocks_of(pairs):
        walks.tally(tree, values, codes[block], weights[block], counts)
    return counts


def _blocks(n: int, step: int) -> Iterator[slice]:
    for first in range(0, n, step):
        yield slice(first, min(n, first + step))
