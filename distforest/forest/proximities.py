"""Proximities: the share of trees in which two rows end in the same leaf; all of them, out of bag, or the greatest.

None of the functions forms a matrix that it does not answer with: rows meet in their leaves (see leaf_index.py). Shares
are whole numbers over the number of trees, so that they are the same for any block, order and number of threads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse

from distforest.amounts import counted
from distforest.errors import InputError
from distforest.forest.leaf_index import (
    AskedNodes,
    LeafIndex,
    asked,
    bound_shared,
    by_row,
    fill_shared,
    in_threads,
    list_shared,
    nearest_rows,
    routed,
)
from distforest.sources.source import Floats, Int32s, Ints

if TYPE_CHECKING:
    from collections.abc import Iterator

    from distforest.forest.forest import Forest

ROWS_OF_PROXIMITIES = 1024
"""Rows of one side of a block."""


def proximity(left: Int32s, right: Int32s | LeafIndex, threads: int = 1) -> Floats:
    """The share of trees in which two rows end in the same node (Breiman, Random forests, 2001).

    Parameters
    ----------
    left, right
        Nodes of the rows as `distforest.forest.scoring.apply` gives them, shapes (n_trees, n_left) and
        (n_trees, n_right); or for ``right`` a `LeafIndex` of them, where it is asked more than once.
    threads
        Threads that share the rows of ``left``.

    Returns
    -------
    ndarray
        Shape (n_left, n_right), from 0 to 1; 1 for a row and itself.

    Raises
    ------
    InputError
        The two come from forests with different numbers of trees, or a row was not routed.

    Examples
    --------
    >>> nodes = np.array([[1, 1, 2], [3, 4, 4]], np.int32)
    >>> proximity(nodes, nodes)
    array([[1. , 0.5, 0. ],
           [0.5, 1. , 0.5],
           [0. , 0.5, 1. ]])
    """
    index = _indexed(left, right, threads)
    shared = _shared(left, index, threads)
    shared /= index.n_trees
    return shared


def _indexed(left: Int32s, right: Int32s | LeafIndex, threads: int) -> LeafIndex:
    """The index of ``right``; refuses sides that do not go together."""
    n_trees = right.n_trees if isinstance(right, LeafIndex) else len(right)
    if len(left) != n_trees:
        raise InputError(
            f"rows must be routed through the same forest, found {len(left)} and {counted(n_trees, 'tree')}"
        )
    routed(left)
    return right if isinstance(right, LeafIndex) else LeafIndex.of(routed(right), threads)


def _shared(left: Int32s, index: LeafIndex, threads: int) -> Floats:
    """In how many trees two rows share a node, shape (n_left, n_right); a negative node is shared by none."""
    shared = np.zeros((left.shape[1], index.n_rows))
    in_threads(lambda block: fill_shared(block, index, index.counters(), shared), asked(left), threads)
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
        Threads that share the rows of ``left``.

    Returns
    -------
    estimate : ndarray
        Shape (n_left, n_right), symmetric; NaN where no tree has both rows out of bag. A row with itself has 1 if any
        tree left it out, as it shares every leaf with itself, and NaN otherwise.
    count : ndarray
        How many trees each estimate rests on, shape (n_left, n_right).

    Raises
    ------
    InputError
        Rows out of bag were not routed.
    """
    nodes = forest.training_nodes
    out_left, out_right = forest.in_bag[:, left] == 0, forest.in_bag[:, right] == 0
    index = LeafIndex.of(np.where(out_right, nodes[:, right], -1), threads)
    estimate = _shared(np.where(out_left, nodes[:, left], -1), index, threads)
    count = np.empty(estimate.shape, np.int64)
    for rows in _blocks(len(left), ROWS_OF_PROXIMITIES):  # whole numbers below 2^24, so that float32 holds their sums
        count[rows] = out_left[:, rows].astype(np.float32).T @ out_right.astype(np.float32)
        np.divide(estimate[rows], count[rows], out=estimate[rows], where=count[rows] > 0)
    estimate[count == 0] = np.nan
    return estimate, count


def nearest(
    left: Int32s, right: Int32s | LeafIndex, n_neighbors: int, self_rows: bool, threads: int = 1
) -> tuple[Floats, Ints]:
    """The rows of greatest proximity for each row of ``left``, exactly, without the whole matrix.

    Parameters
    ----------
    left, right
        Nodes of the rows, as for `proximity`.
    n_neighbors
        How many to find; at most n_right (less one where a row is not its own neighbour).
    self_rows
        Whether row i of ``left`` is row i of ``right`` and must not be its own neighbour.
    threads
        Threads that share the rows of ``left``.

    Returns
    -------
    proximities, indices : ndarray
        Shape (n_left, n_neighbors), greatest first; equal proximities in the order of the index. Rows of proximity 0
        fill up what is left, in this order too.

    Raises
    ------
    InputError
        More neighbours are asked for than there are; or the two sides do not go together, as for `proximity`.

    Notes
    -----
    Time is the sum over the trees of the sizes of the leaves in which the rows of ``left`` lie. Beside its answer it
    needs 4 bytes for each row of ``right`` in each tree (the index), and a few bytes a row for each thread.

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
        raise InputError(f"rows and themselves were expected, found {left.shape[1]} and {counted(n_right, 'row')}")
    index = _indexed(left, right, threads)
    found = np.empty((left.shape[1], n_neighbors))
    rows = np.empty(found.shape, np.int64)
    in_threads(lambda block: nearest_rows(block, index, self_rows, index.counters(), found, rows), asked(left), threads)
    found /= index.n_trees
    return found, rows


def check_n_neighbors(n_neighbors: int, n_right: int, self_rows: bool) -> None:
    """Refuse a number of neighbours that there are not; raises InputError."""
    is_number = isinstance(n_neighbors, (int, np.integer)) and not isinstance(n_neighbors, bool)
    if not is_number or not 1 <= n_neighbors <= n_right - self_rows:
        raise InputError(
            f"n_neighbors must be in 1..{n_right - self_rows} for {counted(n_right, 'row')}, found {n_neighbors!r}"
        )


def sparse_proximity(
    left: Int32s, right: Int32s | LeafIndex, n_neighbors: int | None = None, threads: int = 1
) -> scipy.sparse.csr_matrix:
    """Proximities as a sparse matrix: all that are not 0, or the greatest of each row.

    Parameters
    ----------
    left, right
        Nodes of the rows, as for `proximity`.
    n_neighbors
        How many of each row to keep, of equal ones those of the least index; a row that is on both sides counts as
        its own neighbour. None: all.
    threads
        Threads that share the rows of ``left``.

    Returns
    -------
    csr_matrix
        Shape (n_left, n_right), float64, indices sorted; no zero is stored.

    Raises
    ------
    InputError
        As `nearest`.

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
        blocks: dict[int, scipy.sparse.csr_matrix] = {}
        slices = _blocks(left.shape[1], ROWS_OF_PROXIMITIES)
        in_threads(lambda rows: blocks.update({rows.start: _listed(left[:, rows], index)}), slices, threads)
        none = scipy.sparse.csr_matrix((0, index.n_rows))  # where there are no rows there are no blocks
        return scipy.sparse.vstack([none, *(blocks[first] for first in sorted(blocks))], format="csr")
    proximities, indices = nearest(left, index, n_neighbors, False, threads)
    start = np.arange(0, proximities.size + 1, n_neighbors)
    found = scipy.sparse.csr_matrix((proximities.reshape(-1), indices.reshape(-1), start), (len(indices), index.n_rows))
    found.eliminate_zeros()
    found.sort_indices()
    return found


def proximity_blocks(
    left: Int32s, right: Int32s | LeafIndex, block_rows: int = ROWS_OF_PROXIMITIES
) -> Iterator[tuple[slice, scipy.sparse.csr_matrix]]:
    """The sparse matrix of all proximities, block of rows by block, for what need not be held at once.

    Parameters
    ----------
    left, right
        Nodes of the rows, as for `proximity`.
    block_rows
        Rows in a block.

    Yields
    ------
    slice, csr_matrix
        Which rows of ``left``, and their proximities, shape (n_block, n_right), as of `sparse_proximity`.
    """
    index = _indexed(left, right, 1)
    for rows in _blocks(left.shape[1], block_rows):
        yield rows, _listed(left[:, rows], index)


def _listed(left: Int32s, index: LeafIndex) -> scipy.sparse.csr_matrix:
    """All proximities of some rows that are not 0."""
    block = AskedNodes(np.arange(left.shape[1]), by_row(left))
    size, end = bound_shared(block, index), np.zeros(len(block.rows) + 1, np.int64)
    columns, shared = np.empty(size, np.int32), np.empty(size)
    list_shared(block, index, index.counters(), columns, shared, end)
    columns, shared = columns[: end[-1]].copy(), shared[: end[-1]] / index.n_trees
    found = scipy.sparse.csr_matrix((shared, columns, end), (len(block.rows), index.n_rows))
    found.sort_indices()
    return found


def leaf_embedding(forest: Forest, nodes: Int32s) -> scipy.sparse.csr_matrix:
    """Rows as sparse vectors, one column for each node of the forest: E E' / n_trees is their `proximity`.

    Parameters
    ----------
    forest
        The forest.
    nodes
        Nodes of the rows as `distforest.forest.scoring.apply` gives them, shape (n_trees, n).

    Returns
    -------
    csr_matrix
        Shape (n, n_nodes), float64: in each row a 1 for the node of each tree in which it ends.
    """
    n_trees, n_rows = nodes.shape
    columns = (nodes + forest.table.tree_start[:-1, None]).T.reshape(-1)
    row_start = np.arange(0, n_rows * n_trees + 1, n_trees)
    shape = (n_rows, int(forest.table.tree_start[-1]))
    return scipy.sparse.csr_matrix((np.ones(len(columns)), columns, row_start), shape)


def _blocks(n: int, step: int) -> Iterator[slice]:
    for first in range(0, n, step):
        yield slice(first, min(n, first + step))
