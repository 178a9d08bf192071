"""How rows of sparse features walk down trees: a row is written out once, and then walks down all of them.

If the trees read single columns, some rows at a time are written out on the columns that are read, and walk side by
side.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from distforest.forest.block_walks import room_of_blocks, walk_block
from distforest.jit import kernel

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from distforest.forest.walks import SparseSteps
    from distforest.sources.source import Float32s, Floats, Int32s, Ints
    from distforest.sources.sparse import Lines

    Trees = tuple[Ints, Int32s, Int32s, Floats, Ints, Int32s, Floats]
    """The arrays of `distforest.forest.table.RoutedNodes`."""


BLOCK_ROWS = 12
"""Number of rows that are written out at a time: of each, a walk reads few of its values."""


@kernel
def walk_sparse(
    trees: SparseSteps, roots: Ints, by_row: Lines, rows: Int32s, wanted: NDArray[np.bool_], ends: Int32s
) -> None:
    """`distforest.forest.block_walks.walk_wanted` for rows by their values other than 0."""
    size = min(BLOCK_ROWS, rows.shape[0])
    room, own, dense = (
        room_of_blocks(size, 0),
        np.arange(size).astype(np.int32),
        np.zeros((size, trees.n_slots), np.float32),
    )
    for first in range(0, rows.shape[0], BLOCK_ROWS):
        block = rows[first : first + BLOCK_ROWS]
        write_out(by_row, block, trees.slot, False, dense)
        walk_block(trees.steps, roots, dense, own[: block.shape[0]], first, room, wanted, ends)
        write_out(by_row, block, trees.slot, True, dense)


@kernel
def write_out(by_row: Lines, rows: Int32s, slot: Int32s, zeros: bool, dense: Float32s) -> None:
    """dense[r, slot[c]] = X[rows[r], c] for each c that has a slot, or 0 if ``zeros``; only where X is not 0."""
    for r in range(rows.shape[0]):
        for v in range(by_row.start[rows[r]], by_row.start[rows[r] + 1]):
            column = by_row.number[v]
            if column < slot.shape[0] and slot[column] >= 0:
                dense[r, slot[column]] = 0.0 if zeros else by_row.value[v]


@kernel
def route_sparse(
    nodes: Trees, n_columns: int, by_row: Lines, rows: Int32s, wanted: NDArray[np.bool_], ends: Int32s
) -> None:
    """`distforest.forest.table.route_array` for rows by their values other than 0; no value is missing."""
    tree_start, left, right, threshold, offset, columns, weights = nodes
    dense = np.zeros(n_columns, np.float32)
    for r in range(rows.shape[0]):
        stored = range(by_row.start[rows[r]], by_row.start[rows[r] + 1])
        for v in stored:
            dense[by_row.number[v]] = by_row.value[v]
        for tree in range(tree_start.shape[0] - 1):
            if not wanted[tree, r]:
                continue
            root, node = tree_start[tree], 0
            while left[root + node] >= 0:
                value = 0.0
                for e in range(offset[root + node], offset[root + node + 1]):
                    value += weights[e] * dense[columns[e]]
                node = left[root + node] if value <= threshold[root + node] else right[root + node]
            ends[tree, r] = node
        for v in stored:
            dense[by_row.number[v]] = 0.0
