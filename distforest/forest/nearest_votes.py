"""The nearest vote: in each tree, the training object of the row's leaf that is most similar to the row."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from distforest.forest.leaf_index import LeafIndex, QueryNodes, bound_shared, by_row, list_shared, members_of
from distforest.jit import kernel
from distforest.sources.source import Floats, Int32s, Ints

if TYPE_CHECKING:
    from distforest.sources.source import Source

COMPARED_PAIRS = 1 << 22
"""Largest number of pairs of a row and a training object that are compared at once; a single row may have more."""


def nearest_members(nodes: Int32s, training: Int32s | LeafIndex, source: Source, rows: Int32s) -> Int32s:
    """Find the training object that votes for each row in each tree.

    Among the training objects in the node in which the row ends, it is the one with the largest observed similarity to
    the row; of equal ones the first.

    Parameters
    ----------
    nodes
        Nodes of the rows, from `distforest.forest.scoring.apply`, shape (n_trees, n).
    training
        Nodes of all training objects, shape (n_trees, n_training), or their index.
    source
        The similarities of rows to training objects. Those of a block of rows are read together, each only once.
    rows
        Numbers of the rows in ``source``, shape (n,).

    Returns
    -------
    ndarray
        Numbers of training objects, shape (n_trees, n), int32; -1 if no similarity is observed.
    """
    index = training if isinstance(training, LeafIndex) else LeafIndex.from_nodes(training)
    voters = np.empty(nodes.shape, np.int32)
    step = max(1, COMPARED_PAIRS // index.n_rows)
    for first in range(0, len(rows), step):
        of_block = slice(first, min(first + step, len(rows)))
        block = QueryNodes(np.arange(of_block.stop - of_block.start), by_row(nodes[:, of_block]))
        columns, end = _companions(block, index)
        values = source.entries(np.repeat(rows[of_block], np.diff(end)), columns)
        choose_nearest(block.nodes, index, end, columns, values, voters[:, of_block])
    return voters


def _companions(block: QueryNodes, index: LeafIndex) -> tuple[Int32s, Ints]:
    """Return the training objects that share a leaf with each row of a block, row by row, and the end of each row's."""
    most = int(bound_shared(block, index))
    columns, end = np.empty(most, np.int32), np.zeros(len(block.rows) + 1, np.int64)
    list_shared(block, index, index.counters(), columns, np.empty(most), end)
    return columns[: end[-1]], end


@kernel
def choose_nearest(nodes: Int32s, index: LeafIndex, end: Ints, columns: Int32s, values: Floats, voters: Int32s) -> None:
    """voters[t, b] = the j in nodes[b, t] with the greatest value of (b, j), the least of equals; -1 if all are NaN."""
    value_of = np.empty(index.order.shape[0])  # by row of the index; only those that share a leaf with b are set
    for b in range(nodes.shape[0]):
        for e in range(end[b], end[b + 1]):
            value_of[columns[e]] = values[e]
        for tree in range(nodes.shape[1]):
            begin, stop = members_of(index, tree, nodes[b, tree])
            best = -1
            for p in index.members[begin:stop]:
                j = index.order[p]
                value = value_of[j]
                if np.isnan(value):
                    continue
                if best < 0 or value > value_of[best] or (value == value_of[best] and j < best):
                    best = j
            voters[tree, b] = best
