"""The mean pairwise distance where some distances are unobserved: SMERF's Eq. 1, estimated from the observed pairs.

Of the m^2 ordered pairs of a node S with in-bag weights w, m = sum w, q = sum w_i^2 are of a row with itself; the
others are of two different rows. With o_ij = 1 if z_ij is observed, else 0, and sums over i != j in a set T of rows::

    d(T) = sum w_i^2 z_ii      a(T) = sum w_i w_j o_ij z_ij      c(T) = sum w_i w_j o_ij      u(T) = m^2 - q - c

The mean of the node over its observed pairs of different rows is g = a(S) / c(S). It replaces the unobserved pairs
of S, on either side of a cut::

    I(T) = (d(T) + a(T) + u(T) g) / m(T)^2

A cut gains m I(S) - m_L I(L) - m_R I(R), as in the paper. So I(S) is the mean over observed pairs, with the pairs of a
row with itself by their true share: these are always known and mostly 0, so they would outweigh the others if few of
those are known, especially in small nodes. Means over the observed pairs of each side alone would be unbiased if pairs
are unobserved at random, but their variance is larger, the fewer pairs a side has, and the largest of many such gains
is a chance find; with g an unobserved pair is as far as the node's pairs usually are. The weights are sizes of nodes
and not numbers of observed pairs, because the sizes are known. A node without an observed pair of different rows is not
cut. A row of weight w counts as w equal rows, except that their pairs, of a row with itself, are omitted from g.

With everything observed u = 0, and this is `distforest.growth.cuts.mean_distance` bit for bit, whose fixed point it
shares. Sums of distances and of pairs are exact integers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from distforest.forest.frontier import LEFT, RIGHT, STAY, Frontier
from distforest.growth.cuts.blocks import Where, begin_of, gather
from distforest.growth.cuts.mean_distance import (
    FixedPoint,
    MeanDistance,
    SumRoom,
    digits,
    distance_bits,
    exponent_of_rows,
    in_fixed_point,
    rank_rows,
    scale_of,
)
from distforest.growth.cuts.scan import GAIN_ROUNDING, Cuts, keep_best, note_missing
from distforest.jit import no_refcount
from distforest.sources.source import Float32s, Floats, Int32s, Ints


@dataclass(frozen=True)
class ObservedDistance(MeanDistance):
    """z_ij from a symmetric float32 matrix, NaN if it is unobserved, which never happens on the diagonal."""

    def cut(self, frontier: Frontier, values: Floats, min_leaf: int) -> Cuts:
        """Return the best cut of each node."""
        cuts, longest = Cuts.none(frontier.n_nodes), int(frontier.sizes.max(initial=0))
        room = SumRoom.allocate(len(values), longest, len(self.distances))._replace(places_missing=self.places_missing)
        earlier, across = np.empty((2, len(values), longest), np.int64)
        both = PairRoom(room, earlier, across, np.empty(longest, np.int64))
        where = self.where(frontier)
        cut_observed(frontier.starts, where, frontier.weights, values, min_leaf, self.exponent, both, cuts)
        return cuts


class PairRoom(NamedTuple):
    """Working arrays for sums of distances and of pairs.

    In ``sums``, ``earlier``, ``across`` and ``whole`` are sums of w_j z_ij over observed j != i, and ``itself`` is
    w_i z_ii; the arrays of these names here are the sums of w_j over the same j.
    """

    sums: SumRoom
    earlier: Ints
    across: Ints
    whole: Ints


class Side(NamedTuple):
    """The sums of a set of rows: m, q, d, a and c."""

    m: np.int64
    q: np.int64
    d: np.int64
    a: np.int64
    c: np.int64


@no_refcount
def cut_observed(
    starts: Ints,
    where: Where,
    weights: Int32s,
    values: Floats,
    min_leaf: int,
    exponent: int,
    room: PairRoom,
    cuts: Cuts,
) -> None:
    """Find the best of all cuts of all candidates from one pass over the node's block, as `cut_distances` does.

    With the rows in a candidate's order, a(L) = 2 sum over i in L of w_i times the sum over earlier j of w_j o_ij z_ij,
    and a(R) = a(S) - 2 sum over i in L of w_i times the sum over all j of w_j o_ij z_ij, + a(L); likewise c. Sums are
    over j != i.
    """
    for node in range(starts.shape[0] - 1):
        first, last = starts[node], starts[node + 1]
        of_node = weights[first:last]
        length, is_whole = rank_rows(where.slot[first:last], of_node, values, first, room.sums)
        most = digits(of_node)
        own = exponent_of_rows(first, last, 0, last - first, where, room.sums.gathered)
        bits = distance_bits(exponent, own, most)
        sum_observed_rows(first, last, where, is_whole, length, scale_of(bits, most), room)
        for k in range(values.shape[0]):
            are_left_out = room.sums.n_observed[k] == last - first or not room.sums.places_missing
            for turn in range(1 if are_left_out else 2):  # one call, as each call is compiled
                side = STAY if are_left_out else (LEFT if turn else RIGHT)
                scan_observed_order(node, k, values[k, first:last], of_node, room, side, min_leaf, cuts)
        if cuts.candidate[node] >= 0:
            cuts.gain[node] = math.ldexp(cuts.gain[node], -int(bits))


@no_refcount
def sum_observed_rows(
    first: int, last: int, where: Where, is_whole: bool, length: int, fixed: FixedPoint, room: PairRoom
) -> None:
    """Fill the sums of `PairRoom` for each row and candidate."""
    sums, size = room.sums, last - first
    distances, pairs, share = sums.rows[0, :length], sums.rows[1, :length], sums.share[:length]
    for i in range(size):
        if is_whole:
            begin, place = begin_of(i, first, last, where), sums.place[i]
            total, n_pairs = observe(where.cells[begin : begin + length], fixed, share, distances, pairs)
        else:
            gather(i, first, last, where, sums.gathered)
            place = sums.place[i]
            total, n_pairs = observe(sums.gathered[:length], fixed, share, distances, pairs)
        sums.itself[i] = distances[place]
        sums.whole[i], room.whole[i] = total - distances[place], n_pairs - pairs[place]
        distances[place], pairs[place] = 0, 0
        for k in range(sums.n_observed.shape[0]):
            rank, n = sums.rank[k, :length], np.int32(sums.n_observed[k])
            sums.earlier[k, i], room.earlier[k, i] = sums_below(distances, pairs, rank, rank[place])
            sums.across[k, i], room.across[k, i] = sums.whole[i], room.whole[i]
            if n < size:
                sums.across[k, i], room.across[k, i] = sums_below(distances, pairs, rank, n)


@no_refcount
def observe(
    values: Float32s, fixed: FixedPoint, weights: Int32s, distances: Int32s, pairs: Int32s
) -> tuple[np.int64, np.int64]:
    """distances[j] = weights[j] values[j] in fixed point, pairs[j] = weights[j], 0 where a value is NaN; their sums."""
    total, n_pairs = np.int64(0), np.int64(0)
    for j in range(values.shape[0]):
        is_observed = not np.isnan(values[j])
        value = in_fixed_point(values[j] if is_observed else np.float32(0.0), fixed)
        distances[j] = np.int32(value * weights[j])
        pairs[j] = weights[j] if is_observed else np.int32(0)
        total += np.int64(distances[j])
        n_pairs += np.int64(pairs[j])
    return total, n_pairs


@no_refcount
def sums_below(distances: Int32s, pairs: Int32s, rank: Int32s, limit: np.int32) -> tuple[np.int64, np.int64]:
    """Return the sums of distances[j] and of pairs[j] over the j with rank[j] < limit, without a branch."""
    total, n_pairs = np.int64(0), np.int32(0)  # all weights of a node fit 32 bits together
    for j in range(distances.shape[0]):
        is_below = rank[j] < limit
        total += np.int64(distances[j]) if is_below else np.int64(0)
        n_pairs = np.int32(n_pairs + (pairs[j] if is_below else np.int32(0)))
    return total, np.int64(n_pairs)


@no_refcount
def inside(side: Side, mean: float) -> float:
    """Compute m I(T) = (d + a + u g) / m, for the sums of T and a mean g."""
    unobserved = side.m * side.m - side.q - side.c
    return (side.d + side.a + unobserved * mean) / side.m


@no_refcount
def rest_of(whole: Side, left: Side, moved: np.int64, n_moved: np.int64) -> Side:
    """Return the sums of the rows outside ``left``, whose pairs with all rows sum to ``moved`` and ``n_moved``."""
    a, c = whole.a - 2 * moved + left.a, whole.c - 2 * n_moved + left.c
    return Side(whole.m - left.m, whole.q - left.q, whole.d - left.d, a, c)


@no_refcount
def scan_observed_order(
    node: int, k: int, values: Floats, weights: Int32s, room: PairRoom, missing: int, min_leaf: int, cuts: Cuts
) -> None:
    """Scan one candidate's order by the recurrences of `cut_observed`.

    Rows without the candidate's value are omitted, or are all on the right, or all on the left, where the scan starts
    with their sums, as in `scan_distance_order`.
    """
    sums, before = room.sums, cuts.gain[node]
    n, order, earlier, n_earlier = sums.n_observed[k], sums.order[k], sums.earlier[k], room.earlier[k]
    nothing = np.int64(0)
    whole = left = Side(nothing, nothing, nothing, nothing, nothing)
    moved, n_moved = nothing, nothing
    for i in range(values.shape[0]):
        w, lacks = np.int64(weights[i]), np.isnan(values[i])
        if lacks and missing == STAY:
            continue
        across, n_across = sums.across[k, i], room.across[k, i]
        total, n_total = (across, n_across) if missing == STAY else (sums.whole[i], room.whole[i])
        own = Side(w, w * w, w * sums.itself[i], w * total, w * n_total)
        whole = Side(whole.m + own.m, whole.q + own.q, whole.d + own.d, whole.a + own.a, whole.c + own.c)
        if lacks and missing == LEFT:
            a, c = left.a + w * (total - across), left.c + w * (n_total - n_across)
            left = Side(left.m + own.m, left.q + own.q, left.d + own.d, a, c)
            moved, n_moved = moved + own.a, n_moved + own.c
    if whole.c == 0:
        return
    mean = whole.a / whole.c
    before_cut = inside(whole, mean)
    for e in range(n if missing == RIGHT else n - 1):
        i = order[e]
        w, value, after = np.int64(weights[i]), values[i], values[order[e + 1]] if e + 1 < n else np.inf
        across, n_across = sums.across[k, i], room.across[k, i]
        total, n_total = (across, n_across) if missing == STAY else (sums.whole[i], room.whole[i])
        a, c = left.a + 2 * w * earlier[i], left.c + 2 * w * n_earlier[i]
        if missing == LEFT:
            a, c = a + 2 * w * (total - across), c + 2 * w * (n_total - n_across)
        left = Side(left.m + w, left.q + w * w, left.d + w * sums.itself[i], a, c)
        moved, n_moved = moved + w * total, n_moved + w * n_total
        if value == after or left.m < min_leaf or whole.m - left.m < min_leaf:
            continue
        inside_left, inside_right = inside(left, mean), inside(rest_of(whole, left, moved, n_moved), mean)
        gain = before_cut - (inside_left + inside_right)
        rounding = GAIN_ROUNDING * (abs(before_cut) + abs(inside_left) + abs(inside_right))
        if gain >= -rounding:  # a gain may be negative, as it may of distances that are all observed
            keep_best(node, k, value, after, gain if gain > rounding else 0.0, cuts)
    note_missing(node, before, missing, cuts)
