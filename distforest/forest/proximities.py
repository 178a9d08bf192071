"""Proximities: the share of trees in which two rows end in the same leaf; all of them, out of bag, or the greatest.

No function forms a matrix other than its result: rows are counted leaf by leaf (see leaf_index.py). Shares are integers
divided by the number of trees, so they are the same for any block, order and number of threads.
"""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import scipy

from distforest.amounts import counted
from distforest.errors import InputError
from distforest.forest.leaf_index import (
    LeafIndex,
    QueryNodes,
    bound_shared,
    by_row,
    fill_shared,
    in_threads,
    list_shared,
    nearest_rows,
    query_blocks,
    routed,
)
from distforest.sources.source import Floats, Int32s, Ints

if TYPE_CHECKING:
    from collections.abc import Iterator

    from distforest.forest.forest import Forest

NO_OWN = -(1 << 62)
"""Number before all rows, so that no row of the left side is a row of the right side."""

COMPARED_AT_ONCE = 1 << 10
"""Number of pairs of rows up to which they are compared tree by tree, without an index."""

ROWS_OF_PROXIMITIES = 1024
"""Number of rows of one side of a block."""


def proximity(left: Int32s, right: Int32s | LeafIndex, threads: int = 1) -> Floats:
    """Return the share of trees in which two rows end in the same node (Breiman, Random forests, 2001).

    Parameters
    ----------
    left, right
        Nodes of the rows, from `distforest.forest.scoring.apply`, shapes (n_trees, n_left) and (n_trees, n_right);
        for several calls with the same ``right``, its `LeafIndex`.
    threads
        Number of threads that share the rows of ``left``.

    Returns
    -------
    ndarray
        Shape (n_left, n_right), from 0 to 1; 1 for a row and itself.

    Raises
    ------
    InputError
        The two sides have different numbers of trees, or a row was not routed.

    Examples
    --------
    >>> nodes = np.array([[1, 1, 2], [3, 4, 4]], np.int32)
    >>> proximity(nodes, nodes)
    array([[1. , 0.5, 0. ],
           [0.5, 1. , 0.5],
           [0. , 0.5, 1. ]])
    """
    if not isinstance(right, LeafIndex) and left.shape[1] * right.shape[1] <= COMPARED_AT_ONCE:
        _check_sides(left, right)
        return np.divide((left[:, :, None] == routed(right)[:, None, :]).sum(axis=0), len(left))
    index = _indexed(left, right, threads)
    shared = _shared(left, index, threads)
    shared /= index.n_trees
    return shared


def _indexed(left: Int32s, right: Int32s | LeafIndex, threads: int) -> LeafIndex:
    """Return the index of ``right``; refuse sides from different forests."""
    _check_sides(left, right)
    return right if isinstance(right, LeafIndex) else LeafIndex.from_nodes(routed(right), threads)


def _check_sides(left: Int32s, right: Int32s | LeafIndex) -> None:
    """Refuse sides from different forests, and rows of ``left`` that were not routed; raise InputError."""
    n_trees = right.n_trees if isinstance(right, LeafIndex) else len(right)
    if len(left) != n_trees:
        raise InputError(
            f"rows must be routed through the same forest, found {len(left)} and {counted(n_trees, 'tree')}"
        )
    routed(left)


def _shared(left: Int32s, index: LeafIndex, threads: int) -> Floats:
    """Return the number of trees in which two rows share a node, shape (n_left, n_right), except negative ones."""
    shared = np.zeros((left.shape[1], index.n_rows))
    in_threads(lambda block: fill_shared(block, index, index.counters(), shared), query_blocks(left), threads)
    return shared


def out_of_bag_proximity(forest: Forest, left: Ints, right: Ints, threads: int = 1) -> tuple[Floats, Ints]:
    """Out-of-bag proximity of training rows: the share of the trees for which both are out of bag.

    Parameters
    ----------
    forest
        The forest.
    left, right
        Numbers of training rows, shapes (n_left,) and (n_right,).
    threads
        Number of threads that share the rows of ``left``.

    Returns
    -------
    estimate : ndarray
        Shape (n_left, n_right), symmetric; NaN if no tree has both rows out of bag. The proximity of a row to itself
        is 1 if any tree left it out, and NaN otherwise.
    count : ndarray
        Number of trees behind each estimate, shape (n_left, n_right).

    Raises
    ------
    InputError
        Rows out of bag were not routed.
    """
    nodes = forest.training_nodes
    out_left, out_right = forest.in_bag[:, left] == 0, forest.in_bag[:, right] == 0
    index = LeafIndex.from_nodes(np.where(out_right, nodes[:, right], -1), threads)
    estimate = _shared(np.where(out_left, nodes[:, left], -1), index, threads)
    count = np.empty(estimate.shape, np.int64)
    for rows in _blocks(len(left), ROWS_OF_PROXIMITIES):  # sums of integers below 2^24 are exact in float32
        count[rows] = out_left[:, rows].astype(np.float32).T @ out_right.astype(np.float32)
        np.divide(estimate[rows], count[rows], out=estimate[rows], where=count[rows] > 0)
    estimate[count == 0] = np.nan
    return estimate, count


def nearest(
    left: Int32s,
    right: Int32s | LeafIndex,
    n_neighbors: int,
    self_rows: bool,
    threads: int = 1,
    part_rows: int | None = None,
) -> tuple[Floats, Ints]:
    """Find the rows of greatest proximity to each row of ``left``, exactly, without the whole matrix.

    Parameters
    ----------
    left, right
        Nodes of the rows, as for `proximity`.
    n_neighbors
        Number of neighbours of each row; at most n_right, or n_right - 1 if ``self_rows``.
    self_rows
        Whether row i of ``left`` is row i of ``right``, which is then not its own neighbour.
    threads
        Number of threads that share the rows of ``left``.
    part_rows
        Number of rows of ``right`` that are indexed at once, one range after another, keeping the greatest so far.
        None: all. The answer is the same; ``right`` contains nodes then.

    Returns
    -------
    proximities, indices : ndarray
        Shape (n_left, n_neighbors), greatest first; equal proximities, also those of 0, by ascending index.

    Raises
    ------
    InputError
        There are fewer than ``n_neighbors`` neighbours; or an error of `proximity`.

    Notes
    -----
    Time is proportional to the sizes of the leaves of all rows of ``left``, summed over the trees. Memory besides the
    result is 4 bytes for each row of ``right`` in each tree (the index), or for each of a part, and a few bytes per row
    for each thread.

    Examples
    --------
    >>> nodes = np.array([[1, 1, 2], [3, 4, 4]], np.int32)
    >>> proximities, indices = nearest(nodes, nodes, 2, self_rows=True)
    >>> proximities.tolist(), indices.tolist()
    ([[0.5, 0.0], [0.5, 0.5], [0.5, 0.0]], [[1, 2], [0, 2], [1, 0]])
    """
    n_right = right.n_rows if isinstance(right, LeafIndex) else right.shape[1]
    check_n_neighbors(n_neighbors, n_right, self_rows)
    if self_rows and left.shape[1] != n_right:
        counts = f"{left.shape[1]} and {counted(n_right, 'row')}"
        raise InputError(f"self_rows=True: the same rows on both sides were expected, found {counts}")
    greatest = np.empty((left.shape[1], n_neighbors))
    rows = np.empty(greatest.shape, np.int64)
    own = 0 if self_rows else NO_OWN
    for first, index in _parts(left, right, part_rows, threads):

        def find(block: QueryNodes, first: int = first, index: LeafIndex = index) -> None:
            nearest_rows(block, index, first, own, index.counters(), greatest, rows)

        in_threads(find, query_blocks(left), threads)
    greatest /= len(left)
    return greatest, rows


def _parts(
    left: Int32s, right: Int32s | LeafIndex, part_rows: int | None, threads: int
) -> Iterator[tuple[int, LeafIndex]]:
    """Yield the index of ``right``, or of its ranges one after another, each with its first row."""
    if part_rows is None or isinstance(right, LeafIndex):
        yield 0, _indexed(left, right, threads)
        return
    for rows in _blocks(right.shape[1], part_rows):
        yield rows.start, _indexed(left, right[:, rows], threads)


def check_n_neighbors(n_neighbors: int, n_right: int, self_rows: bool) -> None:
    """Refuse a number of neighbours that is not in 1..n_right, or ..n_right - 1 if ``self_rows``; raise InputError."""
    is_number = isinstance(n_neighbors, (int, np.integer)) and not isinstance(n_neighbors, bool)
    if not is_number or not 1 <= n_neighbors <= n_right - self_rows:
        raise InputError(
            f"n_neighbors must be in 1..{n_right - self_rows} for {counted(n_right, 'row')}, found {n_neighbors!r}"
        )


def sparse_proximity(
    left: Int32s, right: Int32s | LeafIndex, n_neighbors: int | None = None, threads: int = 1
) -> scipy.sparse.csr_matrix:
    """Return proximities as a sparse matrix: all that are not 0, or only the greatest of each row.

    Parameters
    ----------
    left, right
        Nodes of the rows, as for `proximity`.
    n_neighbors
        Number of proximities of each row to keep, of equal ones those with the lowest index; a row on both sides counts
        as its own neighbour. None: all.
    threads
        Number of threads that share the rows of ``left``.

    Returns
    -------
    csr_matrix
        Shape (n_left, n_right), float64, indices sorted; no zero is stored.

    Raises
    ------
    InputError
        As for `nearest`.

    Examples
    --------
    >>> nodes = np.array([[1, 1, 2], [3, 4, 4]], np.int32)
    >>> sparse_proximity(nodes, nodes, n_neighbors=1).toarray()
    array([[1., 0., 0.],
           [0., 1., 0.],
           [0., 0., 1.]])
    """
    index = _indexed(left, right, threads)
    if n_neighbors is None:
        stack, rooms = _Stack(), [_Room(index) for _ in range(threads)]

        def stack_rows(rows: slice) -> None:
            room = rooms.pop()
            stack.put(rows.start, room.listed(left[:, rows]))
            rooms.append(room)

        in_threads(stack_rows, _blocks(left.shape[1], ROWS_OF_PROXIMITIES), threads)
        return stack.matrix(index.n_rows)
    proximities, indices = nearest(left, index, n_neighbors, False, threads)
    start = np.arange(0, proximities.size + 1, n_neighbors)
    entries = (proximities.reshape(-1), indices.reshape(-1), start)
    matrix = scipy.sparse.csr_matrix(entries, (len(indices), index.n_rows))
    matrix.eliminate_zeros()
    matrix.sort_indices()
    return matrix


class _Lists(NamedTuple):
    """Non-zero proximities, row by row, and the rows that they belong to; ``end`` begins with 0."""

    shared: Floats
    columns: Int32s
    end: Ints


class _Room:
    """Reused memory in which blocks are listed one after another, as fresh memory takes longer than counting."""

    def __init__(self, index: LeafIndex) -> None:
        self._index, self._counts = index, index.counters()
        self._shared, self._columns = np.empty(0), np.empty(0, np.int32)

    def listed(self, left: Int32s) -> _Lists:
        """Return the proximities of some rows, which are valid until the next ones are listed."""
        block = QueryNodes(np.arange(left.shape[1]), by_row(left))
        size, end = bound_shared(block, self._index), np.zeros(len(block.rows) + 1, np.int64)
        if size > len(self._columns):
            self._shared, self._columns = np.empty(size), np.empty(size, np.int32)
        list_shared(block, self._index, self._counts, self._columns, self._shared, end)
        return _Lists(self._shared[: end[-1]], self._columns[: end[-1]], end)


class _Stack:
    """A sparse matrix whose blocks of rows arrive in any order; a block that arrives in order is copied once."""

    def __init__(self) -> None:
        self._shared, self._columns, self._ends = np.empty(0), np.empty(0, np.int32), [np.zeros(1, np.int64)]
        self._n_rows, self._early, self._lock = 0, dict[int, _Lists](), Lock()

    def put(self, first: int, lists: _Lists) -> None:
        """Put the block that begins with row ``first``."""
        with self._lock:
            if first != self._n_rows:
                self._early[first] = _Lists(lists.shared.copy(), lists.columns.copy(), lists.end)
                return
            self._append(lists)
            while self._n_rows in self._early:
                self._append(self._early.pop(self._n_rows))

    def _append(self, lists: _Lists) -> None:
        begin, end = len(self._shared), len(self._shared) + len(lists.shared)
        self._shared.resize(end, refcheck=False)  # the system moves large arrays without copying them
        self._columns.resize(end, refcheck=False)
        self._shared[begin:], self._columns[begin:] = lists.shared, lists.columns
        self._ends.append(begin + lists.end[1:])
        self._n_rows += len(lists.end) - 1

    def matrix(self, n_columns: int) -> scipy.sparse.csr_matrix:
        """Return the matrix of all blocks."""
        entries = (self._shared, self._columns, np.concatenate(self._ends))
        return scipy.sparse.csr_matrix(entries, (self._n_rows, n_columns))


def leaf_embedding(forest: Forest, nodes: Int32s) -> scipy.sparse.csr_matrix:
    """Return the rows as sparse vectors, one column for each node of the forest: E E' / n_trees is their `proximity`.

    Parameters
    ----------
    forest
        The forest.
    nodes
        Nodes of the rows, from `distforest.forest.scoring.apply`, shape (n_trees, n).

    Returns
    -------
    csr_matrix
        Shape (n, n_nodes), float64: each row has a 1 for the node of each tree in which it ends.
    """
    n_trees, n_rows = nodes.shape
    columns = (nodes + forest.table.tree_start[:-1, None]).T.reshape(-1)
    row_start = np.arange(0, n_rows * n_trees + 1, n_trees)
    shape = (n_rows, int(forest.table.tree_start[-1]))
    return scipy.sparse.csr_matrix((np.ones(len(columns)), columns, row_start), shape)


def _blocks(n: int, step: int) -> Iterator[slice]:
    for first in range(0, n, step):
        yield slice(first, min(n, first + step))
