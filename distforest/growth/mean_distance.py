"""The mean pairwise distance from a matrix (SMERF, Eq. 1): all cuts of all candidates from one pass over a block.

The distances are read in fixed point, as integers up to 2^26, so that one times a multiplicity up to 31 fits 32 bits
and every sum is exact. Deep nodes are scattered over the matrix, and gathering from it reads a cache line for every
entry; so the blocks of a level are packed, and packed again whenever half of their cells are gone. A row of which the
node has half the cells is not gathered but copied as a whole, and what is not the node's weighs nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from distforest.errors import InputError
from distforest.forest.frontier import Frontier
from distforest.growth.criteria import ROUNDING, Cuts, keep_best, power_of_two
from distforest.growth.ordering import order_values
from distforest.growth.rng import Keys
from distforest.jit import borrowing
from distforest.sources.source import Float32s, Floats, Ints, Rows

DISTANCE_BITS = 26
"""The largest distance is held as an integer of so many bits."""

MOST_DRAWS = 31
"""Multiplicity up to which a distance times its weight fits 32 bits."""

PACKED_CELLS = 1 << 25
"""Cells (int32) of the blocks of a level up to which they are packed."""

CHUNK = 64
"""Cells of a row that are added up in 32 bits where all of them together fit, as they do if not all are the largest."""

SPREAD = 2.0
"""Cells of a row, for each row of the node, up to which the row is copied as a whole, with what lies between.

Beyond it the node's own cells are gathered, each of which takes as long as two that are copied and masked.
"""

LINE = 16
"""Cells of a line of memory."""

FAR_CELLS = 1 << 20
"""Cells beyond which they lie far from the processor, and each line is waited for."""

NEAR_CELLS = 1 << 17
"""Cells of a matrix that lies near the processor as a whole, so that nothing is gained by packing."""


@dataclass(frozen=True)
class Blocks:
    """Packed blocks of the nodes of a level: cell (i, j) of a node is cells[row_start[i] + slot[j]].

    ``row_start`` and ``slot`` have shape (n_trees, n_rows).
    """

    cells: Rows
    row_start: Ints
    slot: Rows


class Where(NamedTuple):
    """Where the blocks of a level's nodes are: in the matrix, or packed where there are cells.

    ``rows``, ``row_start`` and ``slot`` have an entry for each row of each node, the last two if the blocks are packed.
    """

    rows: Rows
    distances: Float32s
    scale: np.float32
    row_start: Ints
    slot: Rows
    cells: Rows


@dataclass(frozen=True)
class MeanDistance:
    """z_ij from a symmetric float32 matrix, read in fixed point: rint(z * scale)."""

    distances: Float32s
    scale: float
    packed: Blocks | None = None

    @classmethod
    def of(cls, distances: Float32s, largest: float) -> MeanDistance:
        """Scale ``distances``, shape (n_rows, n_rows), by the power of two that takes ``largest`` to 2^26.

        Raises
        ------
        InputError
            The largest distance is below 1e-30: the scale has no float32.
        """
        if 0.0 < largest < 1e-30:
            raise InputError(f"the largest distance must be at least 1e-30, found {largest:g}; scale the distances")
        return cls(distances, power_of_two(largest, DISTANCE_BITS))

    @property
    def unit(self) -> float:
        """A gain of 1 in `Cuts` in units of the distance."""
        return 1.0 / self.scale

    def at(self, frontier: Frontier) -> MeanDistance:
        """Itself, or with the blocks of this level packed if their cells lie scattered among twice as many."""
        n_cells = int((frontier.sizes**2).sum())
        if not 0 < n_cells <= min(PACKED_CELLS, self._scattered_among(frontier) // 2):
            return self
        return self.pack(frontier)

    def attempted(self, keys: Keys, attempt: int) -> MeanDistance:  # noqa: ARG002  (nothing is drawn)
        """Itself."""
        return self

    def pack(self, frontier: Frontier) -> MeanDistance:
        """The same criterion with the blocks of the nodes of ``frontier`` packed, for this level and those below."""
        sizes = frontier.sizes
        cells = np.empty(int((sizes**2).sum()), np.int32)
        place, begin = frontier.place, np.cumsum(sizes**2) - sizes**2
        slot = (np.arange(len(place)) - frontier.starts[place]).astype(np.int32)
        row_start = begin[place] + slot * sizes[place]
        pack_blocks(frontier.starts, self.where(frontier), cells)
        shape = (int(frontier.tree.max()) + 1, len(self.distances))
        blocks = Blocks(cells, np.zeros(shape, np.int64), np.zeros(shape, np.int32))
        blocks.row_start[frontier.tree[place], frontier.rows] = row_start
        blocks.slot[frontier.tree[place], frontier.rows] = slot
        return replace(self, packed=blocks)

    def _scattered_among(self, frontier: Frontier) -> int:
        """Cells that hold the level's blocks now; 0 where the matrix is too small for that to matter."""
        if self.packed is not None:
            return len(self.packed.cells)
        n_cells = len(self.distances) ** 2
        return n_cells * len(np.unique(frontier.tree)) if n_cells > NEAR_CELLS else 0

    def where(self, frontier: Frontier) -> Where:
        """Where a kernel finds the block of each node."""
        scale = np.float32(self.scale)
        if self.packed is None:
            return Where(frontier.rows, self.distances, scale, np.empty(0, np.int64), _NONE, _NONE)
        tree = frontier.tree[frontier.place]
        start, slot = self.packed.row_start[tree, frontier.rows], self.packed.slot[tree, frontier.rows]
        return Where(frontier.rows, self.distances, scale, start, slot, self.packed.cells)

    def impure(self, frontier: Frontier) -> NDArray[np.bool_]:
        """Whether two pairs of a node differ in their distance."""
        found = np.zeros(frontier.n_nodes, np.bool_)
        row = np.empty(frontier.sizes.max(initial=0), np.int32)
        distances_differ(frontier.starts, self.where(frontier), row, found)
        return found

    def cut(self, frontier: Frontier, values: Floats, min_leaf: int) -> Cuts:
        """The best cut of each node."""
        cuts = Cuts.none(frontier.n_nodes)
        if frontier.weights.max(initial=0) > MOST_DRAWS:
            raise InputError(f"a row was drawn more than {MOST_DRAWS} times for one tree; lower max_samples")
        room = Room.of(len(values), int(frontier.sizes.max(initial=0)), len(self.distances))
        cut_distances(frontier.starts, self.where(frontier), frontier.weights, values, min_leaf, room, *cuts)
        return cuts


_NONE = np.empty(0, np.int32)


class Room(NamedTuple):
    """Room for a node, and how a row of its block lies there.

    ::

        rows of the node    3  5  6  9            copied:    row     z3 z4 z5 z6 z7 z8 z9    gathered:    z3 z5 z6 z9
                                                             share   w3  0 w5 w6  0  0 w9                 w3 w5 w6 w9
                                                             place    0  2  3  6                           0  1  2  3

    ``rank`` has the shape of ``row`` for each candidate; ``order``, ``inside`` and ``across``, the two sums, have an
    entry for each row of the node.
    """

    row: Rows
    share: Rows
    place: Rows
    n_observed: Ints
    order: Ints
    rank: Rows
    inside: Ints
    across: Ints
    keys: NDArray[np.uint64]
    spare: NDArray[np.uint64]

    @classmethod
    def of(cls, n_candidates: int, longest: int, n_rows: int) -> Room:
        """Room for nodes of up to ``longest`` rows of ``n_rows``."""
        order, inside, across = np.empty((3, n_candidates, longest), np.int64)
        place = np.empty(longest, np.int32)
        row, share = np.empty((2, min(int(SPREAD * longest), n_rows)), np.int32)
        rank = np.empty((n_candidates, len(row)), np.int32)
        keys, spare = np.empty((2, longest), np.uint64)
        n_observed = np.empty(n_candidates, np.int64)
        return cls(row, share, place, n_observed, order, rank, inside, across, keys, spare)


@borrowing
def gather(i: int, first: int, last: int, where: Where, row: Rows) -> None:
    """row[j] = rint(z_ij * scale) for the rows first to last - 1, of one node: from the matrix, or as it was packed."""
    if where.cells.shape[0]:
        packed, slot = where.cells[where.row_start[first + i] :], where.slot[first:last]
        if where.cells.shape[0] > FAR_CELLS:
            row[0] = touch(packed, slot)
        for j in range(slot.shape[0]):
            row[j] = packed[np.uint32(slot[j])]  # unsigned: no index counts from the end
        return
    rows = where.rows[first:last]
    own, floats = where.distances[rows[i]], row.view(np.float32)
    if where.distances.size > FAR_CELLS:
        row[0] = touch(own.view(np.int32), rows)
    for j in range(rows.shape[0]):
        floats[j] = own[np.uint32(rows[j])]
    for j in range(rows.shape[0]):  # a loop of its own, so that it runs on vectors
        row[j] = np.int32(np.rint(floats[j] * where.scale))


@borrowing
def touch(cells: Rows, places: Rows) -> np.int64:
    """Read one cell of each line of memory, in their order, where a gather at ``places`` reads most of the lines.

    The processor then fetches lines ahead of their use, which it does not for a gather. What it returns says nothing.
    """
    first, after, found = places[0], places[-1] + 1, np.int32(0)
    if after - first <= LINE // 2 * places.shape[0]:
        for j in range(first, after, LINE):
            found |= cells[np.uint32(j)]
    return np.int64(found)


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
def pack_blocks(starts: Ints, where: Where, packed: Rows) -> None:
    """The nodes' blocks, row by row, one after another."""
    filled = 0
    for node in range(starts.shape[0] - 1):
        first, last = starts[node], starts[node + 1]
        for i in range(last - first):
            gather(i, first, last, where, packed[filled : filled + last - first])
            filled += last - first


@borrowing
def distances_differ(starts: Ints, where: Where, row: Rows, found: NDArray[np.bool_]) -> None:
    """found[f] = whether two of the node's z_ij differ, self pairs included; mostly seen in the first row."""
    for node in range(starts.shape[0] - 1):
        first, last = starts[node], starts[node + 1]
        reference = np.int32(0)
        for i in range(last - first):
            gather(i, first, last, where, row)
            if i == 0:
                reference = row[0]
            for j in range(last - first):
                if row[j] != reference:
                    found[node] = True
                    break
            if found[node]:
                break


@borrowing
def cut_distances(
    starts: Ints,
    where: Where,
    weights: Rows,
    values: Floats,
    min_leaf: int,
    room: Room,
    best: Rows,
    threshold: Floats,
    gains: Floats,
) -> None:
    """All cuts of all candidates from one pass over the node's block of the matrix.

    With rows in the order of a candidate, c_i = sum over earlier j of w_j z_ij and r_i = sum over all j of w_j z_ij:
    P(L_m) = sum over the first m rows of w_i (2 c_i + w_i z_ii), and P(R_m) = P(S) - 2 sum w_i r_i + P(L_m).
    A row of a block is read once for all candidates; "earlier" is a mask on ranks, so that no row is permuted.
    """
    n_candidates = values.shape[0]
    row, share, place, n_observed, order, rank, inside, across, keys, spare = room
    for node in range(starts.shape[0] - 1):
        first, last = starts[node], starts[node + 1]
        size, own_weights = last - first, weights[first:last]
        places = (where.slot if where.cells.shape[0] else where.rows)[first:last]
        length, is_copied = lay(places, own_weights, place, share)
        for k in range(n_candidates):
            n = order_values(values[k, first:last], order[k], keys, spare)
            n_observed[k] = n
            rank[k, :length] = size  # unobserved, and rows of other nodes: after everything
            for e in range(n):
                rank[k, place[order[k, e]]] = e
        for i in range(size):
            if is_copied:
                copy(i, first, where, row[:length])
            else:
                gather(i, first, last, where, row)
            own = place[i]
            whole, is_narrow = weigh(row[:length], share[:length])
            for k in range(n_candidates):
                earlier = masked_sum(row[:length], rank[k, :length], rank[k, own], is_narrow)
                observed = whole
                if n_observed[k] < size:
                    observed = masked_sum(row[:length], rank[k, :length], np.int32(n_observed[k]), is_narrow)
                inside[k, i] = own_weights[i] * (2 * earlier + row[own])
                across[k, i] = own_weights[i] * observed
        for k in range(n_candidates):
            scan_distances(
                *(node, k, values[k, first:last], order[k, : n_observed[k]]),
                *(own_weights, inside[k], across[k], min_leaf, best, threshold, gains),
            )


@borrowing
def weigh(values: Rows, weights: Rows) -> tuple[np.int64, bool]:
    """values[j] *= weights[j]; their sum, and whether there are whole chunks and any values of each fit 32 bits.

    They do where none of them has a sign and all of them fit.
    """
    total, most, signs = np.int64(0), np.int64(0), np.int32(0)
    n_whole = values.shape[0] - values.shape[0] % CHUNK
    for first in range(0, n_whole, CHUNK):
        own = np.int64(0)
        for j in range(first, first + CHUNK):
            value = np.int32(values[j] * weights[j])
            values[j] = value
            own += np.int64(value)
            signs = np.int32(signs | value)
        total += own
        most = max(most, own)
    for j in range(n_whole, values.shape[0]):
        values[j] *= weights[j]
        total += np.int64(values[j])
    return total, bool(n_whole > 0 and signs >= 0 and most < 1 << 32)


@borrowing
def masked_sum(values: Rows, rank: Rows, limit: np.int32, is_narrow: bool) -> np.int64:
    """Sum of values[j] over the j with rank[j] < limit; whole chunks in 32 bits where `weigh` says that they fit."""
    if not is_narrow:
        return wide_sum(values, rank, limit)
    total, n_whole = np.int64(0), values.shape[0] - values.shape[0] % CHUNK
    for first in range(0, n_whole, CHUNK):
        own = np.uint32(0)
        for j in range(first, first + CHUNK):
            value = np.uint32(values[j])
            own = np.uint32(own + (value if rank[j] < limit else np.uint32(0)))
        total += np.int64(own)
    return total + wide_sum(values[n_whole:], rank[n_whole:], limit)


@borrowing
def wide_sum(values: Rows, rank: Rows, limit: np.int32) -> np.int64:
    """`masked_sum` in 64 bits; without a branch, so that it runs on vectors."""
    total = np.int64(0)
    for j in range(values.shape[0]):
        value = np.int64(values[j])
        total += value if rank[j] < limit else np.int64(0)
    return total


@borrowing
def scan_distances(
    node: int,
    candidate: int,
    values: Floats,
    order: Ints,
    weights: Rows,
    inside: Ints,
    across: Ints,
    min_leaf: int,
    best: Rows,
    threshold: Floats,
    gains: Floats,
) -> None:
    """Walk one candidate's order with P(L) += inside[i], and P(R) = P(S) - 2 sum across + P(L)."""
    m, total = 0, 0
    for place in order:
        m += weights[place]
        total += across[place]
    m_left, left, moved = 0, 0, 0
    whole = total / m if m else 0.0
    for e in range(order.shape[0] - 1):
        place, after = order[e], order[e + 1]
        m_left += weights[place]
        left += inside[place]
        moved += across[place]
        if values[place] == values[after] or m_left < min_leaf or m - m_left < min_leaf:
            continue
        inside_left, inside_right = left / m_left, (total - 2 * moved + left) / (m - m_left)
        gain = whole - (inside_left + inside_right)
        if gain > ROUNDING * (abs(whole) + abs(inside_left) + abs(inside_right)):
            keep_best(node, candidate, values[place], values[after], gain, best, threshold, gains)
