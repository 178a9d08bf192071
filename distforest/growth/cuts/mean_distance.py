"""The mean pairwise distance from a matrix (SMERF, Eq. 1): all cuts of all candidates from one pass over a block.

The distances of a node are read in fixed point, as integers below 2^26, so that one times a weight up to 31 fits 32
bits and every sum is exact; with larger weights they have fewer bits. Each node has its own scale, so a large distance
costs digits only in the nodes that contain it. The scale depends on the node's largest distance, which is guessed from
two of its rows. If the guess proves too small, the node is read again.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from distforest.forest.frontier import LEFT, RIGHT, STAY, Frontier
from distforest.growth.cuts.blocks import (
    CELLS_OF_A_LINE,
    PACKED_CELLS,
    SPREAD,
    Blocks,
    Where,
    begin_of,
    block_cells,
    gather,
    in_lines,
    pack_blocks,
)
from distforest.growth.cuts.category_orders import rank_by_distances
from distforest.growth.cuts.criteria import Steady
from distforest.growth.cuts.ordering import order_values
from distforest.growth.cuts.scan import GAIN_ROUNDING, Cuts, keep_best, note_missing
from distforest.jit import fetch, no_refcount
from distforest.sources.source import Float32s, Floats, Int32s, Ints

DISTANCE_BITS = 26
"""Largest number of bits of the integers of distances; the largest distance of a node has at most three fewer."""

STEP = 4
"""Scales of nodes differ from that of the matrix by a power of two whose exponent is a multiple of this.

So a guess of the largest distance that is too small is usually good enough.
"""

MOST_BITS = 126
"""Exponent of the finest scale, a power of two, that is a float32 number."""

LARGEST_FLOAT = float(np.finfo(np.float32).max)
"""Largest distance that is a float32 number."""

CELLS_OF_32_BITS = 64
"""Number of cells of a row that are added in 32 bits if their sum fits, as it usually does."""

NEARBY_ROWS, ROWS_AHEAD = 1 << 12, 24
"""Largest number of rows of a node whose sums stay in the cache; rows by which a row's sums are prefetched."""

NEAR_CELLS = 1 << 17
"""Largest number of cells of a matrix that fits the processor's cache, so that packing gains nothing."""


@dataclass(frozen=True)
class MeanDistance(Steady):
    """z_ij from a symmetric float32 matrix, all of them below 2^exponent; gains in `Cuts` are distances.

    ``places_missing`` is as in `distforest.growth.cuts.criteria.Gini`.
    """

    distances: Float32s
    exponent: int
    packed: Blocks | None = None
    unit: float = 1.0
    places_missing: bool = False

    @classmethod
    def from_distances(cls, distances: Float32s, largest: float, places_missing: bool = False) -> MeanDistance:
        """Return the criterion for ``distances``, shape (n_rows, n_rows), with the ``largest`` absolute value."""
        return cls(distances, math.frexp(largest)[1], places_missing=places_missing)

    def at(self, frontier: Frontier) -> Self:
        """Return the criterion, with this level's blocks packed if their cells are scattered among twice as many."""
        n_cells = int((frontier.sizes**2).sum())
        if not 0 < n_cells <= min(PACKED_CELLS, self._scattered_among(frontier) // 2):
            return self
        return self.pack(frontier)

    def pack(self, frontier: Frontier) -> Self:
        """Return the criterion with the blocks of the nodes of ``frontier`` packed, for this level and those below."""
        cells = np.empty(int((frontier.sizes**2).sum()), np.float32)
        pack_blocks(frontier.starts, self.where(frontier), cells)
        return self.holding(frontier, cells)

    def holding(self, frontier: Frontier, cells: Float32s) -> Self:
        """Return the criterion with ``cells``, the blocks of the nodes of ``frontier`` in order, row by row."""
        sizes, place = frontier.sizes, frontier.place
        begin = np.cumsum(sizes**2) - sizes**2
        slot = (np.arange(len(place)) - frontier.starts[place]).astype(np.int32)
        row_start = begin[place] + slot * sizes[place]
        entry, n_entries = self.entries(frontier), (int(frontier.tree.max()) + 1) * len(self.distances)
        blocks = Blocks(cells, np.zeros(n_entries, np.int64), np.zeros(n_entries, np.int32))
        blocks.row_start[entry], blocks.slot[entry] = row_start, slot
        return replace(self, packed=blocks)

    def entries(self, frontier: Frontier) -> Ints:
        """Return the entry in `Blocks` of each row of each node."""
        return np.repeat(frontier.tree * len(self.distances), frontier.sizes) + frontier.rows

    def _scattered_among(self, frontier: Frontier) -> int:
        """Return the number of cells among which the level's blocks are now; 0 if the matrix is small."""
        if self.packed is not None:
            return len(self.packed.cells)
        n_cells = len(self.distances) ** 2
        return n_cells * len(np.unique(frontier.tree)) if n_cells > NEAR_CELLS else 0

    def where(self, frontier: Frontier) -> Where:
        """Return the location of each node's block, for kernels."""
        if self.packed is None:
            row_start = frontier.rows.astype(np.int64) * self.distances.shape[1]
            return Where.from_cells(np.asarray(self.distances).reshape(-1), row_start, frontier.rows)
        entry = self.entries(frontier)
        return Where.from_cells(self.packed.cells, self.packed.row_start[entry], self.packed.slot[entry])

    def impure(self, frontier: Frontier) -> NDArray[np.bool_]:
        """Return whether two pairs of a node differ in their distance."""
        differs = np.zeros(frontier.n_nodes, np.bool_)
        row = np.empty(frontier.sizes.max(initial=0), np.float32)
        distances_differ(frontier.starts, self.where(frontier), row, differs)
        return differs

    def cut(self, frontier: Frontier, values: Floats, min_leaf: int) -> Cuts:
        """Return the best cut of each node."""
        cuts = Cuts.none(frontier.n_nodes)
        room = SumRoom.allocate(len(values), int(frontier.sizes.max(initial=0)), len(self.distances))
        room = room._replace(places_missing=self.places_missing)
        where = self.where(frontier)
        cut_distances(frontier.starts, where, frontier.weights, values, min_leaf, self.exponent, room, cuts)
        return cuts

    def rank_categories(self, frontier: Frontier, which: NDArray[np.bool_], n_codes: int, values: Floats) -> None:
        """Replace codes by ranks: see `rank_by_distances`."""
        rank_by_distances(frontier.starts, self.where(frontier), frontier.weights, n_codes, which, values)


class SumRoom(NamedTuple):
    """Working arrays for a node, and the layout of a row of its block.

    ::

        rows of the node    3  5  6  9            whole:    row     z3 z4 z5 z6 z7 z8 z9    gathered:    z3 z5 z6 z9
                                                            share   w3  0 w5 w6  0  0 w9                 w3 w5 w6 w9
                                                            place    0  2  3  6                           0  1  2  3

    The two ``rows`` are in fixed point, and ``gathered`` is a row in float32, which ``read`` shows read-only, with the
    type of `Where.cells`. ``rank`` has such a row for each candidate. ``order``, ``earlier`` and ``across``, the sums
    c_i and r_i, have an entry for each candidate and row of the node; ``itself``, w_i z_ii, and ``whole``, s_i, have
    one for each row. ``places_missing`` is the criterion's.
    """

    rows: Int32s
    share: Int32s
    gathered: Float32s
    read: Float32s
    place: Int32s
    n_observed: Ints
    order: Ints
    rank: Int32s
    earlier: Ints
    across: Ints
    itself: Int32s
    whole: Ints
    keys: NDArray[np.uint64]
    spare: NDArray[np.uint64]
    places_missing: bool = False

    @classmethod
    def allocate(cls, n_candidates: int, longest: int, n_rows: int) -> SumRoom:
        """Allocate the arrays for nodes of up to ``longest`` rows of ``n_rows``."""
        order, earlier, across = np.empty((3, n_candidates, longest), np.int64)
        place, itself = np.empty((2, longest), np.int32)
        cells = in_lines(4 + n_candidates, min(int(SPREAD * longest), n_rows))
        keys, spare = np.empty((2, longest), np.uint64)
        n_observed, whole = np.empty(n_candidates, np.int64), np.empty(longest, np.int64)
        room = (place, n_observed, order, cells[4:], earlier, across, itself, whole, keys, spare)
        gathered = cells[3].view(np.float32)
        read = gathered.view()
        read.flags.writeable = False
        return cls(cells[:2], cells[2], gathered, read, *room)


@no_refcount
def distances_differ(starts: Ints, where: Where, row: Float32s, differs: NDArray[np.bool_]) -> None:
    """differs[f] = whether two observed z_ij of the node differ, self pairs included; mostly the first row shows it."""
    for node in range(starts.shape[0] - 1):
        first, last = starts[node], starts[node + 1]
        differs[node] = last > first and rows_differ(first, last, 0, last - first, where, row)


@no_refcount
def rows_differ(first: int, last: int, begin: int, end: int, where: Where, row: Float32s) -> bool:
    """Return whether an observed z_ij of the rows begin to end - 1 of a node differs from its first row's self pair."""
    reference = where.cells[where.row_start[first] + where.slot[first]]
    for i in range(begin, end):
        gather(i, first, last, where, row)
        for j in range(last - first):
            if row[j] != reference and not np.isnan(row[j]):
                return True
    return False


@no_refcount
def cut_distances(
    starts: Ints, where: Where, weights: Int32s, values: Floats, min_leaf: int, exponent: int, room: SumRoom, cuts: Cuts
) -> None:
    """Find the best of all cuts of all candidates from one pass over the node's block of the matrix.

    With the rows in a candidate's order, let c_i = sum over earlier j of w_j z_ij and r_i = sum over all j of w_j z_ij.
    Then P(L_m) = sum over the first m rows of w_i (2 c_i + w_i z_ii), and P(R_m) = P(S) - 2 sum w_i r_i + P(L_m).
    A row of a block is read once for all candidates; "earlier" is a mask on ranks, so no row is permuted.
    """
    for node in range(starts.shape[0] - 1):
        first, last = starts[node], starts[node + 1]
        size, of_node = last - first, weights[first:last]
        length, is_whole = rank_rows(where.slot[first:last], of_node, values, first, room)
        most = digits(of_node)
        n_seen, bits = min(size, 2), np.int64(0)
        for _ in range(2):  # one call, as each call is compiled
            bits = distance_bits(exponent, largest_exponent(first, last, where, n_seen, room.gathered), most)
            spare = np.int64(n_seen == size)  # all fit then, but the largest may round to 2^most, one bit more
            fixed = scale_of(bits, most + spare)
            if length < CELLS_OF_32_BITS:
                fits = sum_short_rows(first, last, where, is_whole, length, fixed, room)
            else:
                fits = sum_long_rows(first, last, 0, size, where, is_whole, length, fixed, room)
            if fits:
                break
            n_seen = size
        scan_distances(node, values, first, of_node, room, min_leaf, cuts)
        if cuts.candidate[node] >= 0:
            cuts.gain[node] = math.ldexp(cuts.gain[node], -int(bits))


@no_refcount
def rank_rows(places: Int32s, weights: Int32s, values: Floats, first: int, room: SumRoom) -> tuple[int, bool]:
    """Order a node's rows, which begin at ``first``, by the values of each candidate; return as `block_cells`.

    A part of a row of ``values`` is contiguous, so `order_values` is compiled once for all criteria.
    """
    length, is_whole = block_cells(places, weights, room.place, room.share)
    size = places.shape[0]
    for k in range(values.shape[0]):
        n = order_values(values[k, first : first + size], room.order[k], room.keys, room.spare)
        room.n_observed[k] = n
        room.rank[k, :length] = size  # unobserved rows and rows of other nodes come last
        for e in range(n):
            room.rank[k, room.place[room.order[k, e]]] = e
    return length, is_whole


@no_refcount
def largest_exponent(first: int, last: int, where: Where, n_rows: int, row: Float32s) -> np.int64:
    """Return the least e with |z_ij| < 2^e in ``n_rows`` of a node's rows, at least -126.

    The rows are the first, the one farthest from it, and so on; or all rows in order.
    """
    largest, farthest, size = np.int32(0), 0, last - first
    for step in range(n_rows):
        gather(farthest if n_rows < size else step, first, last, where, row)
        patterns = row[:size].view(np.int32)  # without its sign the larger number has the larger pattern
        for j in range(size):
            pattern = np.int32(patterns[j] & 0x7FFFFFFF)
            if pattern > largest:
                largest, farthest = pattern, j
    return np.int64(largest >> 23) - 126


@no_refcount
def exponent_of_rows(first: int, last: int, begin: int, end: int, where: Where, row: Float32s) -> np.int64:
    """Return the least e with |z_ij| < 2^e for all observed z_ij in the rows begin to end - 1 of a node, e >= -126."""
    largest, size = np.int32(0), last - first
    for i in range(begin, end):
        gather(i, first, last, where, row)
        patterns = row[:size].view(np.int32)
        for j in range(size):
            pattern = np.int32(0) if np.isnan(row[j]) else np.int32(patterns[j] & 0x7FFFFFFF)
            largest = max(largest, pattern)
    return np.int64(largest >> 23) - 126


@no_refcount
def digits(weights: Int32s) -> np.int64:
    """Return the most bits b <= 26 of integers with 2^b w_i < 2^31 for all weights and 2^(b+1) (sum w)^2 < 2^63."""
    largest, m = np.int64(0), np.int64(0)
    for w in weights:
        largest = max(largest, np.int64(w))
        m += w
    most = np.int64(DISTANCE_BITS)
    while most > 0 and (largest << most >= 1 << 31 or 2.0 * m * m * 2.0**most >= 2.0**63):
        most -= 1
    return most


@no_refcount
def distance_bits(exponent: int, of_node: int, most: int) -> np.int64:
    """Return the exponent of a node's scale, which maps 2^of_node, a bound of its distances, to 2^(most-3) ... 2^most.

    The scale maps 2^exponent, a bound of all distances, to 2^most or to 2^4, 2^8 ... times as much.
    """
    return np.int64(min(most - exponent + (exponent - of_node) // STEP * STEP, MOST_BITS))


class FixedPoint(NamedTuple):
    """The scale that maps distances to integers, and the limit below which these have at most ``most`` bits."""

    scale: np.float32
    limit: np.float32
    most: np.int64


@no_refcount
def scale_of(bits: np.int64, most: np.int64) -> FixedPoint:
    """Return the scale with exponent ``bits``, for integers of ``most`` bits; its limit is a float32 number."""
    limit = min(math.ldexp(1.0, int(most - bits)), LARGEST_FLOAT)
    return FixedPoint(np.float32(math.ldexp(1.0, int(bits))), np.float32(limit), most)


@no_refcount
def sum_short_rows(
    first: int, last: int, where: Where, is_whole: bool, length: int, fixed: FixedPoint, room: SumRoom
) -> bool:
    """Fill c_i and r_i of each row and candidate, one row after another; return False if distances do not fit."""
    size, row, share = last - first, room.rows[0, :length], room.share[:length]
    cells = room.read[:length]
    for i in range(size):
        if is_whole:
            begin = begin_of(i, first, last, where)
            cells = where.cells[begin : begin + length]
        else:
            gather(i, first, last, where, room.gathered)
        whole, reach = weigh(cells, fixed, share, row)  # one call, as each call is compiled
        if reach >> fixed.most:
            return False
        place = room.place[i]
        room.itself[i], room.whole[i] = row[place], whole
        for k in range(room.n_observed.shape[0]):
            rank, n = room.rank[k, :length], np.int32(room.n_observed[k])
            room.earlier[k, i] = wide_sum(row, rank, rank[place])
            room.across[k, i] = wide_sum(row, rank, n) if n < size else whole
    return True


@no_refcount
def sum_long_rows(
    first: int,
    last: int,
    begin: int,
    end: int,
    where: Where,
    is_whole: bool,
    length: int,
    fixed: FixedPoint,
    room: SumRoom,
) -> bool:
    """`sum_short_rows` for the long rows begin to end - 1 of a node, two at a time: ranks are read once for both.

    A last single row is its own pair.

    While two rows are summed, the next two are fetched, a part of them for each candidate.
    """
    size, n_candidates = last - first, room.n_observed.shape[0]
    one, other = room.rows[0, :length], room.rows[1, :length]
    for i in range(begin, end, 2):
        j = min(i + 1, end - 1)
        whole, is_narrow, fits = take_row(i, first, last, where, is_whole, fixed, room, one)
        other_whole, other_is_narrow, other_fits = take_row(j, first, last, where, is_whole, fixed, room, other)
        if not (fits and other_fits):
            return False
        is_narrow = is_narrow and other_is_narrow
        places = (room.place[i], room.place[j])
        room.itself[i], room.itself[j] = one[places[0]], other[places[1]]
        room.whole[i], room.whole[j] = whole, other_whole
        next_one, next_other = begin_of(i + 2, first, last, where), begin_of(i + 3, first, last, where)
        for k in range(n_candidates):
            rank, n, part = room.rank[k, :length], np.int32(room.n_observed[k]), length * k // n_candidates
            limits, ahead = (rank[places[0]], rank[places[1]]), (next_one + part, next_other + part)
            sums = masked_sums(one, other, rank, limits, is_narrow, where, ahead)
            room.earlier[k, i], room.earlier[k, j] = sums
            room.across[k, i], room.across[k, j] = whole, other_whole
            if n < size:
                sums = masked_sums(one, other, rank, (n, n), is_narrow, where, ahead)
                room.across[k, i], room.across[k, j] = sums
    return True


@no_refcount
def take_row(
    i: int, first: int, last: int, where: Where, is_whole: bool, fixed: FixedPoint, room: SumRoom, row: Int32s
) -> tuple[np.int64, bool, bool]:
    """Fill ``row`` with row i of a node's block, read as a whole or gathered; return the result of `weigh_chunks`."""
    length = row.shape[0]
    cells = room.read[:length]
    if is_whole:
        begin = begin_of(i, first, last, where)
        cells = where.cells[begin : begin + length]
    else:
        gather(i, first, last, where, room.gathered)
    return weigh_chunks(cells, fixed, room.share[:length], row)


@no_refcount
def weigh_chunks(values: Float32s, fixed: FixedPoint, weights: Int32s, row: Int32s) -> tuple[np.int64, bool, bool]:
    """`weigh`; return the sum, whether sums over chunks fit 32 bits, and whether all values fit.

    Sums over chunks fit if there is a whole chunk, no value is negative, and the sum of each whole chunk fits.
    """
    n_whole = values.shape[0] - values.shape[0] % CELLS_OF_32_BITS
    for j in range(n_whole):
        row[j] = in_fixed_point(values[j], fixed)
    total, reach = weigh(values[n_whole:], fixed, weights[n_whole:], row[n_whole:])
    most, signs = np.int64(0), np.int32(0)
    for first in range(0, n_whole, CELLS_OF_32_BITS):
        of_chunk = np.int64(0)
        for j in range(first, first + CELLS_OF_32_BITS):
            value = row[j]
            reach = np.int32(reach | (abs(value) if weights[j] > 0 else np.int32(0)))
            value = np.int32(value * weights[j])
            row[j] = value
            of_chunk += np.int64(value)
            signs = np.int32(signs | value)
        total += of_chunk
        most = max(most, of_chunk)
    return total, bool(n_whole > 0 and signs >= 0 and most < 1 << 32), bool(reach >> fixed.most == 0)


@no_refcount
def weigh(values: Float32s, fixed: FixedPoint, weights: Int32s, row: Int32s) -> tuple[np.int64, np.int32]:
    """row[j] = weights[j] values[j] in fixed point; return their sum, and the bits of values of positive weight."""
    total, reach = np.int64(0), np.int32(0)
    for j in range(values.shape[0]):
        value = in_fixed_point(values[j], fixed)
        reach = np.int32(reach | (abs(value) if weights[j] > 0 else np.int32(0)))
        row[j] = np.int32(value * weights[j])
        total += np.int64(row[j])
    return total, reach


@no_refcount
def in_fixed_point(value: np.float32, fixed: FixedPoint) -> np.int32:
    """rint(value scale), clipped at the limit; a value that reaches it has too many bits, or its weight is 0."""
    return np.int32(np.rint(max(min(value, fixed.limit), -fixed.limit) * fixed.scale))


@no_refcount
def masked_sums(
    one: Int32s,
    other: Int32s,
    rank: Int32s,
    limits: tuple[np.int32, np.int32],
    is_narrow: bool,
    where: Where,
    ahead: tuple[np.int64, np.int64],
) -> tuple[np.int64, np.int64]:
    """Sum one[j] over the j with rank[j] < limits[0], and other[j] over those with rank[j] < limits[1].

    Whole chunks are summed in 32 bits if ``is_narrow``, see `weigh_chunks`. With each chunk a line of memory is fetched
    at each of the two positions ``ahead``.
    """
    limit, other_limit = limits
    if not is_narrow:
        return wide_sum(one, rank, limit), wide_sum(other, rank, other_limit)
    total, other_total = np.int64(0), np.int64(0)
    n_whole, nothing = one.shape[0] - one.shape[0] % CELLS_OF_32_BITS, np.uint32(0)
    for first in range(0, n_whole, CELLS_OF_32_BITS):
        if where.is_far:
            fetch(where.cells, ahead[0] + first // CELLS_OF_32_BITS * CELLS_OF_A_LINE)
            fetch(where.cells, ahead[1] + first // CELLS_OF_32_BITS * CELLS_OF_A_LINE)
        of_chunk, other_of_chunk = nothing, nothing
        for j in range(first, first + CELLS_OF_32_BITS):
            value, other_value = np.uint32(one[j]), np.uint32(other[j])
            of_chunk = np.uint32(of_chunk + (value if rank[j] < limit else nothing))
            other_of_chunk = np.uint32(other_of_chunk + (other_value if rank[j] < other_limit else nothing))
        total += np.int64(of_chunk)
        other_total += np.int64(other_of_chunk)
    total += wide_sum(one[n_whole:], rank[n_whole:], limit)
    return total, other_total + wide_sum(other[n_whole:], rank[n_whole:], other_limit)


@no_refcount
def wide_sum(values: Int32s, rank: Int32s, limit: np.int32) -> np.int64:
    """Return one of the `masked_sums`, in 64 bits, without a branch, so that it is vectorised."""
    total = np.int64(0)
    for j in range(values.shape[0]):
        value = np.int64(values[j])
        total += value if rank[j] < limit else np.int64(0)
    return total


@no_refcount
def scan_distances(
    node: int, values: Floats, first: int, weights: Int32s, room: SumRoom, min_leaf: int, cuts: Cuts
) -> None:
    """Scan each candidate's order, with the missing rows omitted, or on the right and then on the left."""
    size = weights.shape[0]
    for k in range(values.shape[0]):
        scan_candidate(node, (k, k), values[k, first : first + size], weights, room, min_leaf, cuts)


@no_refcount
def scan_candidate(
    node: int, which: tuple[int, int], values: Floats, weights: Int32s, room: SumRoom, min_leaf: int, cuts: Cuts
) -> None:
    """`scan_distances` for one candidate: ``which`` contains its number, and its position in ``room``."""
    are_left_out = room.n_observed[which[1]] == weights.shape[0] or not room.places_missing
    for turn in range(1 if are_left_out else 2):  # one call, as each call is compiled
        side = STAY if are_left_out else (LEFT if turn else RIGHT)
        scan_distance_order(node, which, values, weights, room, side, min_leaf, cuts)


@no_refcount
def scan_distance_order(
    node: int,
    which: tuple[int, int],
    values: Floats,
    weights: Int32s,
    room: SumRoom,
    missing: int,
    min_leaf: int,
    cuts: Cuts,
) -> None:
    """Scan one candidate's order with P(L) += w_i (2 c_i + w_i z_ii) and P(R) = P(S) - 2 sum w_i r_i + P(L).

    c_i and r_i sum over observed rows, and s_i over all rows of the node. Let M be the missing rows, L and R the
    observed ones of a cut, and O all observed ones. Sums over i in L are updated as rows move:

    - M on the right: P(R and M) = P(S) - 2 sum w_i s_i + P(L)
    - M on the left: P(M and L) = P(M) + P(L) + 2 sum w_i (s_i - r_i), with P(M) = sum over M of w_i (s_i - r_i)
    """
    candidate, k = which
    n, size, order, before = room.n_observed[k], values.shape[0], room.order[k], cuts.gain[node]
    across, m, total = room.whole if n == size else room.across[k], 0, 0
    for i in range(size):  # in the order of memory; what follows looks up rows in the candidate's order
        weight = weights[i] if values[i] == values[i] else 0
        m += weight
        total += weight * across[i]
    all_of_them, m_left, on_left = total, 0, 0
    if missing != STAY:
        m_observed, m, all_of_them, of_missing = m, 0, 0, 0
        for i in range(size):
            m += weights[i]
            all_of_them += weights[i] * room.whole[i]
            of_missing += weights[i] * (room.whole[i] - across[i]) if np.isnan(values[i]) else 0
        if missing == RIGHT:
            total = all_of_them
        else:
            m_left, on_left = m - m_observed, of_missing
    left, moved = 0, 0
    whole = all_of_them / m if m else 0.0
    earlier, itself, is_far = room.earlier[k], room.itself, size > NEARBY_ROWS
    for e in range(n if missing == RIGHT else n - 1):
        if is_far:
            ahead = order[min(e + ROWS_AHEAD, n - 1)]
            fetch(values, ahead)
            fetch(weights, ahead)
            fetch(earlier, ahead)
            fetch(itself, ahead)
            fetch(across, ahead)
        i = order[e]
        value, after = values[i], values[order[e + 1]] if e + 1 < n else np.inf
        m_left += weights[i]
        left += weights[i] * (2 * earlier[i] + itself[i])
        moved += weights[i] * (room.whole[i] if missing == RIGHT else across[i])
        if missing == LEFT:
            on_left += 2 * weights[i] * (room.whole[i] - across[i])
        if value == after or m_left < min_leaf or m - m_left < min_leaf:
            continue
        inside_left, inside_right = (on_left + left) / m_left, (total - 2 * moved + left) / (m - m_left)
        gain = whole - (inside_left + inside_right)
        rounding = GAIN_ROUNDING * (abs(whole) + abs(inside_left) + abs(inside_right))
        if gain >= -rounding:  # a gain may be negative if distances are not squares of Euclidean ones
            keep_best(node, candidate, value, after, gain if gain > rounding else 0.0, cuts)
    note_missing(node, before, missing, cuts)
