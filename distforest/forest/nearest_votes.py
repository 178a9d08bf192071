"""The nearest vote: in each tree the training object that is most similar to a row, of those in the same leaf."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from distforest.forest.leaf_index import AskedNodes, LeafIndex, bound_shared, by_row, list_shared, members_of
from distforest.jit import kernel
from distforest.sources.source import Floats, Int32s, Ints

if TYPE_CHECKING:
    from distforest.sources.source import Source

COMPARED_PAIRS = 1 << 22
"""Most pairs of a row and a training object that are compared at once, unless a single row has more."""


def nearest_members(nodes: Int32s, training: Int32s | LeafIndex, source: Source, rows: Int32s) -> Int32s:
    """Find the training object that votes for each row in each tree.

    It is the one with the largest observed similarity to the row, of those in the node in which the row ends; of equal
    ones the first.

    Parameters
    ----------
    nodes
        Nodes of the rows, as `distforest.forest.scoring.apply` gives them, shape (n_trees, n).
    training
        Nodes of all training objects, shape (n_trees, n_training), or the index of these.
    source
        The similarities of rows to training objects. Those of a block of rows are asked for at once, each once.
    rows
        Numbers of the rows in ``source``, shape (n,).

    Returns
    -------
    ndarray
        Numbers of training objects, shape (n_trees, n), int32; -1 where no similarity was observed.
    """
    index = training if isinstance(training, LeafIndex) else LeafIndex.of(training)
    found = np.empty(nodes.shape, np.int32)
    step = max(1, COMPARED_PAIRS // index.n_rows)
    for first in range(0, len(rows), step):
        own = slice(first, min(first + step, len(rows)))
        block = AskedNodes(np.arange(own.stop - own.start), by_row(nodes[:, own]))
        columns, end = _companions(block, index)
        values = source.entries(np.repeat(rows[own], np.diff(end)), columns)
        choose_nearest(block.nodes, index, end, columns, values, found[:, own])
    return found


def _companions(block: AskedNodes, index: LeafIndex) -> tuple[Int32s, Ints]:
    """The training objects that share a leaf with each row of a block, row after row, and where each row's end."""
    most = int(bound_shared(block, index))
    columns, end = np.empty(most, np.int32), np.zeros(len(block.rows) + 1, np.int64)
    list_shared(block, index, index.counters(), columns, np.empty(most), end)
    return columns[: end[-1]], end


@kernel
def choose_nearest(nodes: Int32s, index: LeafIndex, end: Ints, columns: Int32s, values: Floats, found: Int32s) -> None:
    """found[t, b] = the j in nodes[b, t] with the greatest value of (b, j), the least of equals; -1 if all are NaN."""
    value_of = np.empty(index.order.shape[0])  # of a row of the index; those that b meets are set for b
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
            found[tree, b] = best
