"""Blocks: where the distances of the nodes of a level lie, and how a row of them is read.

Deep nodes are scattered over the matrix, and gathering from it reads a cache line for every entry; so the blocks of a
level are packed, and packed again whenever half of their cells are gone. A row of which the node has half the cells is
not gathered but copied as a whole, and what is not the node's weighs nothing. A row that lies far away is fetched while
the one before it is worked on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from distforest.jit import borrowing, fetch
from distforest.sources.source import Float32s, Ints, Rows

PACKED_CELLS = 1 << 25
"""Cells (int32) of the blocks of a level up to which they are packed."""

SPREAD = 2.0
"""Cells of a row, for each row of the node, up to which the row is copied as a whole, with what lies between.

Beyond it the node's own cells are gathered, each of which takes as long as two that are copied and masked.
"""

LINE = 16
"""Cells of a line of memory."""

FAR_CELLS = 1 << 20
"""Cells beyond which they lie far from the processor, and are fetched before they are read."""


@dataclass(frozen=True)
class Blocks:
    """Packed blocks of the nodes of a level: cell (i, j) of a node is cells[row_start[i] + slot[j]].

    ``row_start`` and ``slot`` have an entry for each row of each tree, shape (n_trees * n_rows,).
    """

    cells: Rows
    row_start: Ints
    slot: Rows


class Where(NamedTuple):
    """Where the blocks of a level's nodes are: in the matrix, or packed where there are cells.

    ``rows``, ``row_start`` and ``slot`` have an entry for each row of each node, the last two if the blocks are packed.
    Cells that lie far away are fetched before they are read.
    """

    rows: Rows
    distances: Float32s
    scale: np.float32
    row_start: Ints
    slot: Rows
    cells: Rows
    is_far: bool


def in_lines(n: int, length: int) -> Rows:
    """Room for n rows of at least so many cells, each of which begins with a line of memory; shape (n, whole lines).

    Sums over rows that begin elsewhere take up to a third longer, as reads are then of two lines.
    """
    width = -(-length // LINE) * LINE
    cells = np.empty(n * width + LINE, np.int32)
    skipped = -(cells.ctypes.data // cells.itemsize) % LINE
    return cells[skipped : skipped + n * width].reshape(n, width)


@borrowing
def lay(places: Rows, weights: Rows, place: Rows, share: Rows) -> tuple[int, bool]:
    """Where a node's rows, at ``places``, lie in a row of its block, and their weights; its length, if it is copied.

    It is copied if the rows keep their order and are not farther apart than `SPREAD` allows.
    """
    size, in_order = places.shape[0], True
    for i in range(1, size):
        in_order &= places[i - 1] < places[i]
    reach = np.int64(places[size - 1]) - places[0] + 1
    is_copied = in_order and reach <= SPREAD * size
    for i in range(size):
        place[i] = places[i] - places[0] if is_copied else i
    length = reach if is_copied else size
    for j in range(length):
        share[j] = 0
    for i in range(size):
        share[place[i]] = weights[i]
    return length, is_copied


@borrowing
def read(i: int, first: int, last: int, where: Where, is_copied: bool, row: Rows) -> None:
    """Row i of a node's block, copied or gathered."""
    if is_copied:
        copy(i, first, where, row)
    else:
        gather(i, first, last, where, row)


@borrowing
def copy(i: int, first: int, where: Where, row: Rows) -> None:
    """row[j] = rint(z_ij * scale) for all places from the node's first row to its last, also of other rows."""
    if where.cells.shape[0]:
        begin = where.row_start[first + i] + where.slot[first]
        packed = where.cells[begin : begin + row.shape[0]]
        for j in range(packed.shape[0]):
            row[j] = packed[j]
        return
    begin = where.rows[first]
    own = where.distances[where.rows[first + i], begin : begin + row.shape[0]]
    for j in range(own.shape[0]):
        row[j] = np.int32(np.rint(own[j] * where.scale))


@borrowing
def gather(i: int, first: int, last: int, where: Where, row: Rows) -> None:
    """row[j] = rint(z_ij * scale) for the rows first to last - 1, of one node: from the matrix, or as it was packed.

    Meanwhile the next row is fetched.
    """
    own, after = first + i, min(first + i + 1, last - 1)
    if where.cells.shape[0]:
        pick(where.cells[where.row_start[own] :], where.slot[first:last], where, where.row_start[after], row)
        return
    next_row = np.int64(where.rows[after]) * where.distances.shape[1]
    pick(where.distances[where.rows[own]].view(np.int32), where.rows[first:last], where, next_row, row)
    floats = row.view(np.float32)
    for j in range(last - first):  # a loop of its own, so that it runs on vectors
        row[j] = np.int32(np.rint(floats[j] * where.scale))


@borrowing
def pick(cells: Rows, places: Rows, where: Where, ahead: np.int64, row: Rows) -> None:
    """row[j] = cells[places[j]]; meanwhile what will be picked from the place ahead is fetched, if that is far."""
    n_fours = places.shape[0] - places.shape[0] % 4
    for begin in range(0, n_fours, 4):
        if where.is_far:
            fetch_line(where, ahead + places[begin])  # most places share their line with some others
        for j in range(begin, begin + 4):
            row[j] = cells[np.uint32(places[j])]  # unsigned: no index counts from the end
    for j in range(n_fours, places.shape[0]):
        row[j] = cells[np.uint32(places[j])]


@borrowing
def begin_of(i: int, first: int, last: int, where: Where) -> np.int64:
    """Where row i of a node, or its last one, begins: the place of its first cell among all that there are."""
    row = min(first + i, last - 1)
    if where.cells.shape[0]:
        return where.row_start[row] + where.slot[first]
    return np.int64(where.rows[row]) * where.distances.shape[1] + where.rows[first]


@borrowing
def fetch_line(where: Where, place: np.int64) -> None:
    """Fetch a line of the cells in which the blocks are."""
    if where.cells.shape[0]:
        fetch(where.cells, place)
    else:
        fetch(where.distances, place)


@borrowing
def pack_blocks(starts: Ints, where: Where, packed: Rows) -> None:
    """The nodes' blocks, row by row, one after another."""
    filled = 0
    for node in range(starts.shape[0] - 1):
        first, last = starts[node], starts[node + 1]
        for i in range(last - first):
            gather(i, first, last, where, packed[filled : filled + last - first])
            filled += last - first
