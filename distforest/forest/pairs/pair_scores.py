"""Scores of pairs by a forest over pairs: each pair walks down each tree, a block of pairs at a time.

Only the answer of a pair is kept: neither its columns nor the leaves in which it ends. Sums run over the trees in their
order, so that an answer does not depend on the size of a block.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from distforest.errors import InputError
from distforest.forest.pairs.pair_leaves import Ranks, Votes
from distforest.forest.pairs.pair_walks import Walks, blocks_of, on_used
from distforest.sources.comparisons import Records
from distforest.sources.point_pairs import PairColumns, PointPairs
from distforest.sources.source import Float32s, Floats, Int32s, Ints
from distforest.sources.sparse_pairs import SparsePairs

if TYPE_CHECKING:
    from distforest.forest.forest import Forest
    from distforest.forest.table import NodeTable
    from distforest.sources.sparse_features import SparseFeatures

Points: TypeAlias = "Float32s | SparseFeatures | Records"
PairsOfPoints = PointPairs | SparsePairs

PAIRS_PER_TURN = 1 << 14
"""Number of pairs that a thread scores at a time."""


def is_over_pairs(forest: Forest) -> bool:
    """Whether the forest reads pairs of points."""
    return isinstance(forest.leaf_table, (Votes, Ranks))


def columns_of(forest: Forest) -> PairColumns:
    """The columns that the forest reads of a pair; raises InputError for a forest of rows or objects."""
    rows = forest.meaning.rows
    if not isinstance(rows, PairColumns):
        raise InputError(f"a forest over pairs of points was expected, found one that reads {rows.kind}")
    return replace(rows, schema=forest.schema) if rows.comparisons or rows.n_categories else rows


def node_scores(forest: Forest) -> Votes | Ranks:
    """The leaf table of a forest over pairs."""
    table = forest.leaf_table
    assert isinstance(table, (Votes, Ranks))  # noqa: S101  (a forest over pairs has no other)
    return table


def ranks_of(forest: Forest) -> Ranks:
    """The leaf table of a ranking forest; raises InputError for another."""
    if not isinstance(forest.leaf_table, Ranks):
        raise InputError(
            f"a ranking forest was expected, found one that keeps {forest.leaf_table.kind}; grow one by TreeRank"
        )
    return forest.leaf_table


def pair_answers(forest: Forest, pairs: PairsOfPoints, threads: int = 1) -> Floats:
    """The forest's answer for each pair: how dissimilar it is (votes), or how similar (ranks).

    Parameters
    ----------
    forest
        A forest over pairs.
    pairs
        The pairs.
    threads
        Number of threads that share the blocks.

    Returns
    -------
    ndarray
        Shape (n_pairs,), from 0 to 1.
    """
    answers = np.empty(len(pairs.left))
    forest, pairs = read_by(forest, pairs)
    table = node_scores(forest)

    def answer(turn: slice) -> None:
        own = answers[turn]
        for block in blocks_of(pairs.of_pairs(pairs.left[turn], pairs.right[turn])):
            if table.median:
                ranks = [table.parts[table.walks.ends(tree, block)] for tree in range(forest.n_trees)]
                own[block.pairs] = np.median(ranks, axis=0)
            else:
                whole = forest.n_trees if table.wholes is None else table.walks.sums(table.wholes, block)
                own[block.pairs] = table.walks.sums(table.parts, block) / whole

    in_turns(answer, len(answers), threads)
    return answers


def in_turns(work: Callable[[slice], None], n_pairs: int, threads: int) -> None:
    """Call ``work`` with runs of pairs, which threads share."""
    turns = list(runs_of(n_pairs, PAIRS_PER_TURN))
    if threads == 1 or len(turns) == 1:
        for turn in turns:
            work(turn)
    else:
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(work, turns))


def pair_distance(forest: Forest, pairs: PairsOfPoints, threads: int = 1) -> Floats:
    """The forest's distance of the two points of each pair, shape (n_pairs,)."""
    return distances_from(forest, pair_answers(forest, pairs, threads))


def distances_from(forest: Forest, answers: Floats) -> Floats:
    """The distances that a forest's answers say, in their place."""
    return answers if node_scores(forest).dissimilar else np.subtract(1.0, answers, out=answers)


def distance(forest: Forest, points: Points, others: Points, threads: int = 1) -> Floats:
    """The forest's distance of each of ``points`` to each of ``others``, shape (n_points, n_others)."""
    shape = (points.shape[0], others.shape[0])
    distances = np.empty(shape)
    step = max(1, (threads * PAIRS_PER_TURN) // max(1, shape[1]))
    forest, all_pairs = read_by(forest, pairs_of(columns_of(forest), points, others))
    for rows in runs_of(shape[0], step):
        size = rows.stop - rows.start
        numbers = np.arange(rows.start, rows.stop, dtype=np.int32)
        left, right = np.repeat(numbers, shape[1]), np.tile(np.arange(shape[1], dtype=np.int32), size)
        distances[rows] = pair_distance(forest, all_pairs.of_pairs(left, right), threads).reshape(size, shape[1])
    return distances


def training_points(forest: Forest) -> Float32s | SparseFeatures:
    """The points of the training pairs, dense or sparse; raises InputError for a forest of rows."""
    sparse = forest.sparse_points
    return forest.points if sparse is None else sparse


def points_at(points: Points, rows: Ints) -> Points:
    """Some of the points, in this order."""
    return points[rows] if isinstance(points, np.ndarray) else points.take(rows)


def pairs_of(columns: PairColumns, points: Points, others: Points) -> PairsOfPoints:
    """Two sets of points of which there are no pairs yet; both are dense, or both are sparse."""
    none = np.empty(0, np.int32)
    if isinstance(points, Records) or isinstance(others, Records):
        return _pairs_of_records(columns, points, others)
    if isinstance(points, np.ndarray) and isinstance(others, np.ndarray):
        return PointPairs(columns, points, others, none, none)
    assert not isinstance(points, np.ndarray)  # noqa: S101  (callers bring queries into the form of the forest)
    assert not isinstance(others, np.ndarray)  # noqa: S101
    return SparsePairs(columns, points, others, none, none)


def _pairs_of_records(columns: PairColumns, points: Points, others: Points) -> PointPairs:
    """Two sets of points of which some have categories that the forest has not seen, and no pairs yet."""

    def as_records(side: Points) -> Records:
        if isinstance(side, Records):
            return side
        assert isinstance(side, np.ndarray)  # noqa: S101  (sparse points have no categories)
        assert columns.schema is not None  # noqa: S101  (nor has a forest whose schema is not known)
        return Records(side, columns.schema)

    left, right, schema = as_records(points).beside(as_records(others))
    none = np.empty(0, np.int32)
    return PointPairs(columns, left, right, none, none, is_complete=False, schema=schema)


def training_pairs(forest: Forest, pairs: Int32s) -> PairsOfPoints:
    """Pairs of training points, given by the numbers of the two points of each, shape (m, 2)."""
    left, right = np.ascontiguousarray(pairs.T)
    points = training_points(forest)
    return pairs_of(columns_of(forest), points, points).of_pairs(left, right)


def read_by(forest: Forest, pairs: PairsOfPoints) -> tuple[Forest, PairsOfPoints]:
    """The forest and the pairs with the features alone that the trees read, if they are sparse."""
    if not isinstance(pairs, SparsePairs):
        return forest, pairs
    table, some = on_used(forest.table, pairs)
    return replace(forest, table=table, leaf_table=replace(node_scores(forest), table=table)), some


def out_of_bag(forest: Forest, pairs: PairsOfPoints) -> tuple[Floats, Ints]:
    """The answer for each pair of training points by the trees that drew neither of its points.

    Returns
    -------
    answer : ndarray
        Shape (n_pairs,); NaN where there is no such tree.
    count : ndarray
        Number of such trees for each pair, shape (n_pairs,).
    """
    forest, pairs = read_by(forest, pairs)
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


def walked(walks: Walks, tree: int, pairs: PairsOfPoints) -> Ints:
    """The node in which each pair ends in a tree, numbers in the whole table, shape (n_pairs,)."""
    ends = np.empty(len(pairs.left), np.int64)
    for block in blocks_of(pairs):
        ends[block.pairs] = walks.ends(tree, block)
    return ends


def tallied(table: NodeTable, tree: int, pairs: PairsOfPoints, codes: NDArray[np.uint8], weights: Int32s) -> Ints:
    """Weight of each class in each node of a tree, shape (tree_size, 2), as its pairs walk down."""
    if isinstance(pairs, SparsePairs):
        table, pairs = on_used(table, pairs)
    counts, walks = np.zeros((int(table.tree_size[tree]), 2), np.int64), Walks(table)
    for block in blocks_of(pairs):
        walks.tally(tree, block, codes[block.pairs], weights[block.pairs], counts)
    return counts


def runs_of(n: int, step: int) -> Iterator[slice]:
    """Runs of ``step`` consecutive numbers below ``n``; the last one may be shorter."""
    for first in range(0, n, step):
        yield slice(first, min(n, first + step))
