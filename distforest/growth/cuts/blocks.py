"""Blocks: where the distances of the nodes of a level lie, and how a row of them is read.

Deep nodes are scattered over the matrix, and gathering from it reads a cache line for every entry; so the blocks of a
level are packed, and packed again whenever half of their cells are gone. A row of which the node has half the cells is
not gathered but read as a whole, and what is not the node's weighs nothing. A row that lies far away is fetched while
the one before it is worked on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from distforest.jit import borrowing, fetch
from distforest.sources.source import Float32s, Int32s, Ints

PACKED_CELLS = 1 << 25
"""Cells (float32) of the blocks of a level up to which they are packed."""

SPREAD = 2.0
"""Cells of a row, for each row of the node, up to which the row is read as a whole, with what lies between.

Beyond it the node's own cells are gathered, each of which takes as long as two that are read and masked.
"""

CELLS_OF_A_LINE = 16
"""Cells of a line of memory."""

FAR_CELLS = 1 << 20
"""Cells beyond which they lie far from the processor, and are fetched before they are read."""


@dataclass(frozen=True)
class Blocks:
    """Packed blocks of the nodes of a level: cell (i, j) of a node is cells[row_start[i] + slot[j]].

    ``row_start`` and ``slot`` have an entry for each row of each tree, shape (n_trees * n_rows,).
    """

    cells: Float32s
    row_start: Ints
    slot: Int32s


class Where(NamedTuple):
    """Where the blocks of a level's nodes are: cell (i, j) of a node is cells[row_start[i] + slot[j]].

    ``cells`` are those of the matrix row by row, or of packed blocks; ``row_start`` and ``slot`` have an entry for each
    row of each node. Cells that lie far away are fetched before they are read.
    """

    cells: Float32s
    row_start: Ints
    slot: Int32s
    is_far: bool

    @classmethod
    def of(cls, cells: Float32s, row_start: Ints, slot: Int32s) -> Where:
        """The blocks in ``cells``, shape (n_cells,)."""
        own = cells.view()
        own.flags.writeable = False  # one type for the matrix and packed blocks: the kernels are compiled once
        return cls(own, row_start, slot, own.size > FAR_CELLS)


def in_lines(n: int, length: int) -> Int32s:
    """Room for n rows of at least so many cells, each of which begins with a line of memory; shape (n, whole lines).

    Sums over rows that begin elsewhere take up to a third longer, as reads are then of two lines.
    """
    width = -(-length // CELLS_OF_A_LINE) * CELLS_OF_A_LINE
    cells = np.empty(n * width + CELLS_OF_A_LINE, np.int32)
    skipped = -(cells.ctypes.data // cells.itemsize) % CELLS_OF_A_LINE
    return cells[skipped : skipped + n * width].reshape(n, width)


@borrowing
def lay(places: Int32s, weights: Int32s, place: Int32s, share: Int32s) -> tuple[int, bool]:
    """Where a node's rows, at ``places``, lie in a row of its block, and their weights; its length, if it is whole.

    Such a row is read as a whole if the node's rows keep their order and are not farther apart than `SPREAD` allows.
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


@borrowing
def gather(i: int, first: int, last: int, where: Where, row: Float32s) -> None:
    """row[j] = z_ij for the rows first to last - 1, of one node; meanwhile the next row is fetched."""
    own, after = where.cells[where.row_start[first + i] :], where.row_start[min(first + i + 1, last - 1)]
    places = where.slot[first:last]
    n_fours = places.shape[0] - places.shape[0] % 4
    for begin in range(0, n_fours, 4):
        if where.is_far:
            fetch(where.cells, after + places[begin])  # most places share their line with some others
        for j in range(begin, begin + 4):
            row[j] = own[np.uint32(places[j])]  # unsigned: no index counts from the end
    for j in range(n_fours, places.shape[0]):
        row[j] = own[np.uint32(places[j])]


@borrowing
def begin_of(i: int, first: int, last: int, where: Where) -> np.int64:
    """Where row i of a node, or its last one, begins: the place of its first cell among all that there are."""
    return where.row_start[min(first + i, last - 1)] + where.slot[first]


@borrowing
def pack_blocks(starts: Ints, where: Where, packed: Float32s) -> None:
    """The nodes' blocks, row by row, one after another."""
    filled = 0
    for node in range(starts.shape[0] - 1):
        first, last = starts[node], starts[node + 1]
        for i in range(last - first):
            gather(i, first, last, where, packed[filled : filled + last - first])
            filled += last - first
