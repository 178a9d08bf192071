"""The best two-means cut of a node's values on one candidate. The values are not sorted; only a few bins are scanned.

Let z be the values less their mean, w their weights, and S and a the sums of w z and w to the left of a cut. Two-means
takes the cut of the largest gain g = S^2 n / (a (n - a)). The values are counted in bins of equal width, which gives S,
a and g at the edges of each bin. Inside a bin of weight c, a weight of j lies left of a cut; since z ascends there,

::

    S  >=  max(S_first + j low,  S_last - (c - j) high)          low, high: the bin's edges
                                                                 (0 >= S everywhere)
    S_first .                       . S_last
              .                 .
                 .          .                                    both lines meet at j*
                    .    .
                      j*

On either line S^2 n / (a (n - a)) is convex in j, a square over a concave function, so g inside the bin is at most the
largest of its values at 0, j* and c. Bins that cannot hold the best cut stay closed. The values of the others are
sorted and scanned, as `distforest.growth.cuts.gaussians.scan_clusters` scans them all.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from distforest.growth.cuts.ordering import order_values
from distforest.jit import kernel, no_refcount
from distforest.sources.source import Floats, Int32s, Ints

COUNTED_BINS = 512
"""Largest number of bins in which the values of a node are counted."""

SORTED_UP_TO = 40
"""Number of values up to which sorting takes less time than counting."""

EQUAL_GAINS = 1e-12
"""Share of the squares below which gains of a candidate's cuts are equal; of equal cuts the lowest is taken."""

_NARROWEST, _WIDEST = 1e-120, 1e120  # ranges within which all squares and products are floats
_QUARTER = 0.2500001
_EDGE = 1e-9  # share of its bin's width by which rounding may put a value outside

TWO_MEANS, FAST_BIC, EQUAL_BIC = range(3)


class ClusterScoring(NamedTuple):
    """The scoring of cuts between two clusters, for kernels."""

    score: int  # `TWO_MEANS`, `FAST_BIC` or `EQUAL_BIC`
    relative: bool  # whether the score of one cluster is subtracted
    min_leaf: int  # least weight of a side


class CandidateCuts(NamedTuple):
    """One cut of each candidate in each node, from which the node will choose."""

    thresholds: Floats  # shape (width, n_nodes); NaN for a candidate without a cut
    scores: Floats  # shape (width, n_nodes); -inf for a candidate without a cut

    @classmethod
    def none(cls, width: int, n_nodes: int) -> CandidateCuts:
        """Return no cut for any candidate."""
        return cls(np.full((width, n_nodes), np.nan), np.full((width, n_nodes), -np.inf))


COUNT, TOTAL, OPEN, TWIN = range(4)
"""Rows of the array of bins: the sum of w, that of w z (of the bin, later of all before it), and whether it is open.

Every other value is counted in a twin, `TWIN` rows further on, because neighbouring values often fall into the same
bin, where one addition would wait for the other.
"""


class BinRoom(NamedTuple):
    """Working arrays, as long as the longest node."""

    bins: Floats  # see `COUNT`, shape (5, COUNTED_BINS + 1)
    node_weights: Floats  # weights of the rows of a node
    # values, weights: values in open bins, and their weights
    values: Floats
    weights: Floats
    # order, keys, spare: as `order_values` needs them
    order: Ints
    keys: NDArray[np.uint64]
    spare: NDArray[np.uint64]


class Line(NamedTuple):
    """Weight and range of a candidate's values: n, the ends, z(x) = (x - origin) - mean, the bin (x - lowest) scale."""

    n: float
    lowest: float
    highest: float
    origin: float
    mean: float
    n_bins: int
    scale: float


@kernel
def room_for(longest: int) -> BinRoom:
    """Allocate the arrays for nodes of up to ``longest`` rows."""
    return BinRoom(
        np.empty((5, COUNTED_BINS + 1)),
        np.empty(longest),
        np.empty(longest),
        np.empty(longest),
        np.empty(longest, np.int64),
        np.empty(longest, np.uint64),
        np.empty(longest, np.uint64),
    )


@no_refcount
def cut_two_means(
    starts: Ints,
    node: int,
    weights: Int32s,
    values: Floats,
    scoring: ClusterScoring,
    best_only: bool,
    room: BinRoom,
    cuts: CandidateCuts,
) -> None:
    """Fill the best two-means cut of each candidate of a node into ``cuts``; NaN if all its values must be sorted.

    They must be sorted if one is missing, if all are equal, or if their squares are too large or too small to be
    floats. With ``best_only`` a candidate that cannot reach the best score so far gets no cut, or one that is not its
    best.
    """
    first, last, bins = starts[node], starts[node + 1], room.bins
    w, n, rival = room.node_weights[: last - first], 0.0, -np.inf
    for r in range(last - first):
        w[r] = weights[first + r]
        n += w[r]
    for k in range(values.shape[0]):
        x = values[k, first:last]
        cuts.thresholds[k, node] = cuts.scores[k, node] = np.nan
        line = cell_line(x, w, n)
        if line.scale == 0.0:
            continue
        square = fill_bins(x, w, line, bins)
        single, slack = 0.0 if scoring.relative else square, EQUAL_GAINS * square
        least = add_up_bins(line, scoring.min_leaf, bins)
        if rival > -np.inf:
            least = max(least, (rival + single - 8.0 * EQUAL_GAINS * abs(rival)) / line.n)
        least -= 8.0 * slack / line.n
        gain = -np.inf
        if open_bins(line, least, bins):
            cuts.thresholds[k, node], gain = search_open(x, w, scoring.min_leaf, line, least, slack, room)
        cuts.scores[k, node] = min(gain, square) - single
        if best_only:
            rival = max(rival, cuts.scores[k, node])


@no_refcount
def search_open(
    values: Floats, weights: Floats, min_leaf: int, line: Line, least: float, slack: float, room: BinRoom
) -> tuple[float, float]:
    """Return threshold and gain of the best cut in the bins that `close_bins` leaves open."""
    if not close_bins(line, least, room.bins):
        return np.nan, -np.inf
    n_open = fetch_open(values, weights, line, room)
    n_open = order_values(room.values[:n_open], room.order, room.keys, room.spare)
    return scan_bins(line, min_leaf, slack, room.order[:n_open], room)


@no_refcount
def bin_of(x: float, lowest: float, scale: float) -> np.uint32:
    """Return the bin of a value; unsigned, so that Numba need not check for a negative index."""
    return np.uint32((x - lowest) * scale)


@no_refcount
def less(x: float, y: float) -> float:
    """Return the lesser value, y if one is NaN; it compiles to one instruction, unlike Numba's ``min``."""
    return x if x < y else y  # noqa: FURB136


@no_refcount
def more(x: float, y: float) -> float:
    """Return the greater value, y if one is NaN."""
    return x if x > y else y  # noqa: FURB136


@no_refcount
def cell_line(values: Floats, weights: Floats, n: float) -> Line:
    """Return the `Line` of some values; its scale is 0 if they cannot be put into bins.

    Every fourth value has its own sums, so that a processor works on four values at once.
    """
    origin, m = values[0], values.shape[0]
    low_0 = low_1 = low_2 = low_3 = origin
    high_0 = high_1 = high_2 = high_3 = origin
    sum_0 = sum_1 = sum_2 = sum_3 = 0.0
    for r in range(0, m - 3, 4):
        x_0, x_1, x_2, x_3 = values[r], values[r + 1], values[r + 2], values[r + 3]
        low_0, low_1, low_2, low_3 = less(x_0, low_0), less(x_1, low_1), less(x_2, low_2), less(x_3, low_3)
        high_0, high_1, high_2, high_3 = more(x_0, high_0), more(x_1, high_1), more(x_2, high_2), more(x_3, high_3)
        sum_0 += weights[r] * (x_0 - origin)
        sum_1 += weights[r + 1] * (x_1 - origin)
        sum_2 += weights[r + 2] * (x_2 - origin)
        sum_3 += weights[r + 3] * (x_3 - origin)
    for r in range(m - m % 4, m):
        low_0, high_0 = less(values[r], low_0), more(values[r], high_0)
        sum_0 += weights[r] * (values[r] - origin)
    lowest, highest = min(low_0, low_1, low_2, low_3), max(high_0, high_1, high_2, high_3)
    total = (sum_0 + sum_1) + (sum_2 + sum_3)
    n_bins, scale = min(COUNTED_BINS, 16 + m // 12), 0.0
    if np.isfinite(total) and _NARROWEST < highest - lowest < _WIDEST:
        scale = n_bins * (1.0 - 1e-9) / (highest - lowest)
    return Line(n, lowest, highest, origin, total / n, n_bins, scale)


@no_refcount
def fill_bins(values: Floats, weights: Floats, line: Line, bins: Floats) -> float:
    """Sum w and w z in each bin; return the sum of w z^2."""
    for b in range(line.n_bins):
        bins[COUNT, b] = bins[TOTAL, b] = bins[TWIN + COUNT, b] = bins[TWIN + TOTAL, b] = 0.0
    lowest, scale, origin, mean = line.lowest, line.scale, line.origin, line.mean  # held in registers
    square = 0.0
    for r in range(values.shape[0]):
        place = bin_of(values[r], lowest, scale)
        z, w = (values[r] - origin) - mean, weights[r]
        twin = np.uint32(TWIN * (r & 1))
        bins[twin + np.uint32(COUNT), place] += w
        bins[twin + np.uint32(TOTAL), place] += w * z
        square += w * z * z
    return square


@no_refcount
def add_up_bins(line: Line, min_leaf: int, bins: Floats) -> float:
    """Replace the sums of each bin by those of all before it; return the largest g / n of the cuts between bins."""
    a, s, n = 0.0, 0.0, line.n
    best, over = 0.0, 1.0
    for b in range(line.n_bins):
        inside, sum_inside = bins[COUNT, b] + bins[TWIN + COUNT, b], bins[TOTAL, b] + bins[TWIN + TOTAL, b]
        bins[COUNT, b], bins[TOTAL, b] = a, s
        a += inside
        s += sum_inside
        if a >= min_leaf and n - a >= min_leaf and s * s * over > best * (a * (n - a)):
            best, over = s * s, a * (n - a)
    bins[COUNT, line.n_bins], bins[TOTAL, line.n_bins] = a, s
    return best / over


@no_refcount
def open_bins(line: Line, least: float, bins: Floats) -> bool:
    """Open the bins in which g / n may reach ``least``, by a quick bound: S >= min(S_first, S_last) - c width / 4.

    Return whether a bin is open.
    """
    n, quarter, any_open = line.n, _QUARTER / line.scale, False
    for b in range(line.n_bins):
        a, a_last, s, s_last = bins[COUNT, b], bins[COUNT, b + 1], bins[TOTAL, b], bins[TOTAL, b + 1]
        over, over_last = a * (n - a), a_last * (n - a_last)
        lowest = min(s, s_last) - (a_last - a) * quarter
        opened = (lowest * lowest >= least * min(over, over_last)) & (a_last > a)
        bins[OPEN, b] = opened
        any_open |= opened
    return any_open


@no_refcount
def close_bins(line: Line, least: float, bins: Floats) -> bool:
    """Close the bins in which g / n stays below ``least`` at both ends and where the lines meet.

    Return whether a bin stays open.
    """
    n, width, start = line.n, 1.0 / line.scale, (line.lowest - line.origin) - line.mean
    any_open = False
    for b in range(line.n_bins):
        if bins[OPEN, b]:
            a, a_last, s, s_last = bins[COUNT, b], bins[COUNT, b + 1], bins[TOTAL, b], bins[TOTAL, b + 1]
            low, high = start + (b - _EDGE) * width, start + (b + 1 + _EDGE) * width
            j = min(max((s_last - s - (a_last - a) * high) / (low - high), 0.0), a_last - a)
            lowest, between = s + j * low, a + j
            stays = (
                lowest * lowest >= least * between * (n - between)
                or (a > 0.0 and s * s >= least * a * (n - a))
                or (a_last < n and s_last * s_last >= least * a_last * (n - a_last))
            )
            bins[OPEN, b] = stays
            any_open |= stays
    return any_open


@no_refcount
def fetch_open(values: Floats, weights: Floats, line: Line, room: BinRoom) -> int:
    """Copy the values in open bins and their weights into ``room``; return their number.

    The values outside the range of the open bins, nearly all of those in closed bins, are skipped first.
    """
    bins, lowest, scale = room.bins, line.lowest, line.scale
    low, high = 0, line.n_bins
    while low < high and not bins[OPEN, low]:
        low += 1
    while low < high and not bins[OPEN, high - 1]:
        high -= 1
    n_between, n_open = 0, 0
    for r in range(values.shape[0]):
        place = (values[r] - lowest) * scale
        room.order[n_between] = r
        n_between += (place >= low) & (place < high)
    for r in room.order[:n_between]:
        room.values[n_open], room.weights[n_open] = values[r], weights[r]
        n_open += bins[OPEN, bin_of(values[r], lowest, scale)] > 0.0
    return n_open


@no_refcount
def scan_bins(line: Line, min_leaf: int, slack: float, order: Ints, room: BinRoom) -> tuple[float, float]:
    """Return threshold and gain of the best cut between two distinct neighbouring values in open bins."""
    threshold, best, n = np.nan, -np.inf, line.n
    bins = room.bins
    a, s, b, before = 0.0, 0.0, -1, np.nan
    for place in order:
        x = room.values[place]
        b_of_x = int(bin_of(x, line.lowest, line.scale))
        if b_of_x != b:
            if bins[COUNT, b_of_x] != a:  # values in closed bins lie between
                before = np.nan
            b, a, s = b_of_x, bins[COUNT, b_of_x], bins[TOTAL, b_of_x]
        if x > before and a >= min_leaf and n - a >= min_leaf:
            gain = s * s * n / (a * (n - a))
            if gain > best + slack:
                middle = before + (x - before) / 2.0
                threshold = middle if middle < x else before  # rounding must not send the right side left
                best = gain
        before = x
        a += room.weights[place]
        s += room.weights[place] * ((x - line.origin) - line.mean)
    return threshold, best
