"""Blocks: the storage of the distances of a level's nodes, and the reading of a row of a block.

Deep nodes are scattered over the matrix, and gathering from it reads a cache line for every entry. So the blocks of a
level are packed, and packed again whenever half of their cells are no longer needed. A row in which the node has half
the cells is not gathered but read as a whole, with weight 0 for cells of other nodes. A row in distant memory is
fetched while the row before it is processed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from distforest.jit import fetch, no_refcount
from distforest.sources.source import Float32s, Int32s, Ints

PACKED_CELLS = 1 << 25
"""Largest number of cells (float32) of the packed blocks of a level."""

SPREAD = 2.0
"""Largest number of cells of a row, per row of the node, with which the row is read as a whole, including other cells.

Beyond it the node's cells are gathered. Gathering a cell takes as long as reading and masking two.
"""

CELLS_OF_A_LINE = 16
"""Number of cells of a line of memory."""

FAR_CELLS = 1 << 20
"""Number of cells above which an array does not fit the processor's cache, so that cells are prefetched."""


@dataclass(frozen=True)
class Blocks:
    """Packed blocks of the nodes of a level: cell (i, j) of a node is cells[row_start[i] + slot[j]].

    ``row_start`` and ``slot`` have an entry for each row of each tree, shape (n_trees * n_rows,).
    """

    cells: Float32s
    row_start: Ints
    slot: Int32s


class Where(NamedTuple):
    """The location of the blocks of a level's nodes: cell (i, j) of a node is cells[row_start[i] + slot[j]].

    ``cells`` are those of the matrix row by row, or of packed blocks; ``row_start`` and ``slot`` have an entry for each
    row of each node. If ``is_far``, cells are fetched before they are read.
    """

    cells: Float32s
    row_start: Ints
    slot: Int32s
    is_far: bool

    @classmethod
    def from_cells(cls, cells: Float32s, row_start: Ints, slot: Int32s) -> Where:
        """Return the blocks in ``cells``, shape (n_cells,)."""
        read_only = cells.view()
        read_only.flags.writeable = False  # one type for the matrix and blocks: kernels are compiled once
        return cls(read_only, row_start, slot, read_only.size > FAR_CELLS)


def in_lines(n: int, length: int) -> Int32s:
    """Allocate n rows of at least ``length`` cells, each aligned to a line of memory, shape (n, whole lines).

    Sums over unaligned rows take up to a third longer, because reads then touch two lines.
    """
    width = -(-length // CELLS_OF_A_LINE) * CELLS_OF_A_LINE
    cells = np.empty(n * width + CELLS_OF_A_LINE, np.int32)
    skipped = -(cells.ctypes.data // cells.itemsize) % CELLS_OF_A_LINE
    return cells[skipped : skipped + n * width].reshape(n, width)


@no_refcount
def block_cells(places: Int32s, weights: Int32s, place: Int32s, share: Int32s) -> tuple[int, bool]:
    """Fill ``place`` and ``share``, the cells of a node's rows in a row of its block and the weights of all cells.

    Return the number of cells, and whether the row is read as a whole, which requires that the node's rows, at
    ``places``, ascend and are not farther apart than `SPREAD` allows.
    """
    size, in_order = places.shape[0], True
    for i in range(1, size):
        in_order &= places[i - 1] < places[i]
    reach = np.int64(places[size - 1]) - places[0] + 1
    is_whole = in_order and reach <= SPREAD * size
    for i in range(size):
        place[i] = places[i] - places[0] if is_whole else i
    length = reach if is_whole else size
    for j in range(length):
        share[j] = 0
    for i in range(size):
        share[place[i]] = weights[i]
    return length, is_whole


@no_refcount
def gather(i: int, first: int, last: int, where: Where, row: Float32s) -> None:
    """row[j] = z_ij for the rows first to last - 1, of one node; meanwhile the next row is fetched."""
    cells, after = where.cells[where.row_start[first + i] :], where.row_start[min(first + i + 1, last - 1)]
    places = where.slot[first:last]
    n_fours = places.shape[0] - places.shape[0] % 4
    for begin in range(0, n_fours, 4):
        if where.is_far:
            fetch(where.cells, after + places[begin])  # most cells share their line with others
        for j in range(begin, begin + 4):
            row[j] = cells[np.uint32(places[j])]  # unsigned: no index counts from the end
    for j in range(n_fours, places.shape[0]):
        row[j] = cells[np.uint32(places[j])]


@no_refcount
def begin_of(i: int, first: int, last: int, where: Where) -> np.int64:
    """Return the position in ``where.cells`` of the first cell of row i of a node, or of its last row."""
    return where.row_start[min(first + i, last - 1)] + where.slot[first]


@no_refcount
def pack_blocks(starts: Ints, where: Where, packed: Float32s) -> None:
    """Fill ``packed`` with the nodes' blocks, row by row, one after another."""
    filled = 0
    for node in range(starts.shape[0] - 1):
        first, last = starts[node], starts[node + 1]
        for i in range(last - first):
            gather(i, first, last, where, packed[filled : filled + last - first])
            filled += last - first


@no_refcount
def pack_rows(last_row: int, starts: Ints, rows: Int32s, where: Where, n_packed: Ints, packed: Float32s) -> None:
    """`pack_blocks` as far as rows below ``last_row``: for matrices that are read block by block, in one pass.

    The rows of a node ascend; ``n_packed`` counts those that were packed before, shape (n_nodes,).
    """
    filled = np.int64(0)
    for node in range(starts.shape[0] - 1):
        first, last = starts[node], starts[node + 1]
        size, i = last - first, n_packed[node]
        while i < size and rows[first + i] < last_row:
            gather(i, first, last, where, packed[filled + i * size : filled + (i + 1) * size])
            i += 1
        n_packed[node] = i
        filled += size * size
