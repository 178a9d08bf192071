"""The mean pairwise distance from a matrix (SMERF, Eq. 1): all cuts of all candidates from one pass over a block.

The distances are read in fixed point, as integers up to 2^26, so that one times a multiplicity up to 31 fits 32 bits
and every sum is exact.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from distforest.errors import InputError
from distforest.forest.frontier import Frontier
from distforest.growth.blocks import (
    FAR_CELLS,
    LINE,
    PACKED_CELLS,
    SPREAD,
    Blocks,
    Where,
    begin_of,
    fetch_line,
    gather,
    in_lines,
    lay,
    pack_blocks,
    read,
)
from distforest.growth.criteria import ROUNDING, Cuts, keep_best, power_of_two
from distforest.growth.ordering import order_values
from distforest.growth.rng import Keys
from distforest.jit import borrowing
from distforest.sources.source import Float32s, Floats, Ints, Rows

DISTANCE_BITS = 26
"""The largest distance is held as an integer of so many bits."""

MOST_DRAWS = 31
"""Multiplicity up to which a distance times its weight fits 32 bits."""

CHUNK = 64
"""Cells of a row that are added up in 32 bits where all of them together fit, as they do if not all are the largest."""

NEAR_CELLS = 1 << 17
"""Cells of a matrix that lies near the processor as a whole, so that nothing is gained by packing."""


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
        entry, n_entries = self._entries(frontier), (int(frontier.tree.max()) + 1) * len(self.distances)
        blocks = Blocks(cells, np.zeros(n_entries, np.int64), np.zeros(n_entries, np.int32))
        blocks.row_start[entry], blocks.slot[entry] = row_start, slot
        return replace(self, packed=blocks)

    def _entries(self, frontier: Frontier) -> Ints:
        """For each row of each node its entry in `Blocks`."""
        return np.repeat(frontier.tree * len(self.distances), frontier.sizes) + frontier.rows

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
            is_far = self.distances.size > FAR_CELLS
            return Where(frontier.rows, self.distances, scale, np.empty(0, np.int64), _NONE, _NONE, is_far)
        entry = self._entries(frontier)
        start, slot = self.packed.row_start[entry], self.packed.slot[entry]
        is_far = len(self.packed.cells) > FAR_CELLS
        return Where(frontier.rows, self.distances, scale, start, slot, self.packed.cells, is_far)

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

    There are two such ``rows``. ``rank`` has the shape of one for each candidate; ``order``, ``earlier`` and
    ``across``, the sums c_i and r_i, have an entry for each row of the node, and so has ``itself``, w_i z_ii.
    """

    rows: Rows
    share: Rows
    place: Rows
    n_observed: Ints
    order: Ints
    rank: Rows
    earlier: Ints
    across: Ints
    itself: Rows
    keys: NDArray[np.uint64]
    spare: NDArray[np.uint64]

    @classmethod
    def of(cls, n_candidates: int, longest: int, n_rows: int) -> Room:
        """Room for nodes of up to ``longest`` rows of ``n_rows``."""
        order, earlier, across = np.empty((3, n_candidates, longest), np.int64)
        place, itself = np.empty((2, longest), np.int32)
        cells = in_lines(3 + n_candidates, min(int(SPREAD * longest), n_rows))
        keys, spare = np.empty((2, longest), np.uint64)
        n_observed = np.empty(n_candidates, np.int64)
        return cls(cells[:2], cells[2], place, n_observed, order, cells[3:], earlier, across, itself, keys, spare)


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
    share, place, n_observed, order, rank = room.share, room.place, room.n_observed, room.order, room.rank
    for node in range(starts.shape[0] - 1):
        first, last = starts[node], starts[node + 1]
        size, own_weights = last - first, weights[first:last]
        places = (where.slot if where.cells.shape[0] else where.rows)[first:last]
        length, is_copied = lay(places, own_weights, place, share)
        for k in range(n_candidates):
            n = order_values(values[k, first:last], order[k], room.keys, room.spare)
            n_observed[k] = n
            rank[k, :length] = size  # unobserved, and rows of other nodes: after everything
            for e in range(n):
                rank[k, place[order[k, e]]] = e
        if length < CHUNK:
            sum_short_rows(first, last, where, is_copied, length, room)
        else:
            sum_long_rows(first, last, where, is_copied, length, room)
        scan_distances(node, values[:, first:last], own_weights, room, min_leaf, best, threshold, gains)


@borrowing
def sum_short_rows(first: int, last: int, where: Where, is_copied: bool, length: int, room: Room) -> None:
    """c_i and r_i of each row and candidate, row after row."""
    size, row = last - first, room.rows[0, :length]
    for i in range(size):
        read(i, first, last, where, is_copied, row)
        own = room.place[i]
        whole, _ = weigh(row, room.share[:length])
        room.itself[i] = row[own]
        for k in range(room.n_observed.shape[0]):
            rank, n = room.rank[k, :length], np.int32(room.n_observed[k])
            room.earlier[k, i] = wide_sum(row, rank, rank[own])
            room.across[k, i] = wide_sum(row, rank, n) if n < size else whole


@borrowing
def sum_long_rows(first: int, last: int, where: Where, is_copied: bool, length: int, room: Room) -> None:
    """The same by twos, so that ranks are read once for two rows; the last of an odd number goes with itself.

    While two rows are summed the next two are fetched, a part of them for each candidate.
    """
    size, share, n_candidates = last - first, room.share[:length], room.n_observed.shape[0]
    for i in range(0, size, 2):
        j = min(i + 1, size - 1)
        one, other = room.rows[0, :length], room.rows[1, :length]
        read(i, first, last, where, is_copied, one)
        read(j, first, last, where, is_copied, other)
        whole, is_narrow = weigh(one, share)
        other_whole, other_is_narrow = weigh(other, share)
        is_narrow = is_narrow and other_is_narrow
        places = (room.place[i], room.place[j])
        room.itself[i], room.itself[j] = one[places[0]], other[places[1]]
        begin, other_begin = begin_of(i + 2, first, last, where), begin_of(i + 3, first, last, where)
        for k in range(n_candidates):
            rank, n, part = room.rank[k, :length], np.int32(room.n_observed[k]), length * k // n_candidates
            limits, ahead = (rank[places[0]], rank[places[1]]), (begin + part, other_begin + part)
            sums = masked_sums(one, other, rank, limits, is_narrow, where, ahead)
            room.earlier[k, i], room.earlier[k, j] = sums
            room.across[k, i], room.across[k, j] = whole, other_whole
            if n < size:
                sums = masked_sums(one, other, rank, (n, n), is_narrow, where, ahead)
                room.across[k, i], room.across[k, j] = sums


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
def masked_sums(
    one: Rows,
    other: Rows,
    rank: Rows,
    limits: tuple[np.int32, np.int32],
    is_narrow: bool,
    where: Where,
    ahead: tuple[np.int64, np.int64],
) -> tuple[np.int64, np.int64]:
    """Sum of one[j] over the j with rank[j] < limits[0], and of the other likewise with its own limit.

    Whole chunks are summed in 32 bits where `weigh` says that they fit. With each chunk a line is fetched from the two
    places ahead.
    """
    limit, other_limit = limits
    if not is_narrow:
        return wide_sum(one, rank, limit), wide_sum(other, rank, other_limit)
    total, other_total = np.int64(0), np.int64(0)
    n_whole, nothing = one.shape[0] - one.shape[0] % CHUNK, np.uint32(0)
    for first in range(0, n_whole, CHUNK):
        if where.is_far:
            fetch_line(where, ahead[0] + first // CHUNK * LINE)
            fetch_line(where, ahead[1] + first // CHUNK * LINE)
        own, other_own = nothing, nothing
        for j in range(first, first + CHUNK):
            value, other_value = np.uint32(one[j]), np.uint32(other[j])
            own = np.uint32(own + (value if rank[j] < limit else nothing))
            other_own = np.uint32(other_own + (other_value if rank[j] < other_limit else nothing))
        total += np.int64(own)
        other_total += np.int64(other_own)
    total += wide_sum(one[n_whole:], rank[n_whole:], limit)
    return total, other_total + wide_sum(other[n_whole:], rank[n_whole:], other_limit)


@borrowing
def wide_sum(values: Rows, rank: Rows, limit: np.int32) -> np.int64:
    """One of `masked_sums`, in 64 bits; without a branch, so that it runs on vectors."""
    total = np.int64(0)
    for j in range(values.shape[0]):
        value = np.int64(values[j])
        total += value if rank[j] < limit else np.int64(0)
    return total


@borrowing
def scan_distances(
    node: int,
    values: Floats,
    weights: Rows,
    room: Room,
    min_leaf: int,
    best: Rows,
    threshold: Floats,
    gains: Floats,
) -> None:
    """Walk each candidate's order with P(L) += w_i (2 c_i + w_i z_ii), and P(R) = P(S) - 2 sum w_i r_i + P(L)."""
    for k in range(values.shape[0]):
        m, total = 0, 0
        for e in range(room.n_observed[k]):
            i = room.order[k, e]
            m += weights[i]
            total += weights[i] * room.across[k, i]
        m_left, left, moved = 0, 0, 0
        whole = total / m if m else 0.0
        for e in range(room.n_observed[k] - 1):
            i, after = room.order[k, e], room.order[k, e + 1]
            m_left += weights[i]
            left += weights[i] * (2 * room.earlier[k, i] + room.itself[i])
            moved += weights[i] * room.across[k, i]
            if values[k, i] == values[k, after] or m_left < min_leaf or m - m_left < min_leaf:
                continue
            inside_left, inside_right = left / m_left, (total - 2 * moved + left) / (m - m_left)
            gain = whole - (inside_left + inside_right)
            if gain > ROUNDING * (abs(whole) + abs(inside_left) + abs(inside_right)):
                keep_best(node, k, values[k, i], values[k, after], gain, best, threshold, gains)
