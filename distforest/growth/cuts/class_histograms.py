"""Cuts of binned columns by labels: a fused search that copies the codes of a few rows at a time.

A node of many rows is searched through a histogram of each candidate for each class, a small one in the order of its
codes. Both give the sums on the left of each place between two codes, from which all gains of a candidate are computed
side by side. They are those of `distforest.growth.cuts.criteria` in the same order, so the cuts are the same.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from distforest.forest.frontier import LEFT, RIGHT, STAY, Frontier, Nodes, longest_of
from distforest.growth.cuts.criteria import Gini, gini_gain
from distforest.growth.cuts.histograms import (
    N_CODES,
    Codes,
    ColumnsRead,
    columns_read,
    count_among_all,
)
from distforest.growth.cuts.scan import Cuts, keep_best, note_missing
from distforest.growth.cuts.search import Limits, values_on
from distforest.jit import kernel, no_refcount
from distforest.sources.binned import MISSING_CODE, NO_CODE, BinnedSource
from distforest.sources.source import Floats, Int32s, Ints, Projections

UInt32s = NDArray[np.uint32]

_FEW = 32
"""Largest number of rows of a node whose codes are ordered by comparing all pairs."""
_OF_CLASS = 32
"""Number of rows per class up to which the codes of a node are ordered."""
_MOST_ORDERED = 1 << 16
"""Largest number of rows whose codes are ordered, as a code and a position share 32 bits."""
_SIDE_BY_SIDE = 128
"""Number of rows whose codes are copied candidate by candidate, while their lines are in the processor's cache."""
_COPIED = 2048
"""Number of rows of a large node that are copied before they are counted."""
_ROOM = 1 << 20
"""Bytes of copied codes, or of histograms, that are held at once, unless one candidate takes more."""
_PLACE_BITS, _PLACE = np.uint32(16), np.uint32(0xFFFF)


def cut_codes_by_labels(
    source: BinnedSource, criterion: Gini, frontier: Frontier, projections: Projections, limits: Limits
) -> tuple[Cuts, Floats]:
    """`project_and_cut` for labels and single columns of a binned source, whose codes are read in place."""
    cuts = best_codes_by_labels(source, criterion, frontier, projections, limits)
    return cuts, values_on(source, frontier, projections, cuts)


def best_codes_by_labels(
    source: BinnedSource, criterion: Gini, frontier: Frontier, projections: Projections, limits: Limits
) -> Cuts:
    """Return the best cut of each node over its candidates, each of a single column, or of none, which is never cut."""
    cuts, columns, missing = Cuts.none(frontier.n_nodes), columns_read(projections), source.missing_code
    labels, n_classes = criterion.truth, criterion.n_classes
    cut_codes_gini(frontier.nodes, source.codes, columns, labels, n_classes, limits.min_samples_leaf, missing, cuts)
    count_among_all(projections, cuts)
    return cuts


class LabelledNode(NamedTuple):
    """A node whose codes are searched.

    Attributes
    ----------
    weights, labels
        Multiplicity and class of each row, shape (n,).
    totals
        Weight of each class, shape (n_classes,).
    left
        Working array for the weight of each class on the left, shape (n_classes,).
    weight, squares
        The sum of ``totals``, and that of their squares.
    """

    weights: Int32s
    labels: Int32s
    totals: Int32s
    left: Ints
    weight: np.int64
    squares: np.int64


class CutPlaces(NamedTuple):
    """The cuts of a candidate, one after each of the values of a node, in ascending order.

    Attributes
    ----------
    code
        The code before each cut.
    weight
        The weight m_L on the left of each cut.
    squares, mixed
        sum_k l_k^2 and sum_k l_k m_k, for l_k of the m_k of class k on the left.
    gain
        The gain of each cut except the last; -inf if a side would be too light.
    """

    code: Ints
    weight: Ints
    squares: Ints
    mixed: Ints
    gain: Floats


@kernel
def cut_codes_gini(
    nodes: Nodes,
    codes: Codes,
    columns: ColumnsRead,
    labels: Int32s,
    n_classes: int,
    min_leaf: int,
    missing: int,
    cuts: Cuts,
) -> None:
    """As `cut_rows` by Gini impurity, over the codes of the columns that each node reads; ``missing`` is not a value.

    No cut gains more than one that separates all classes, so the search stops after it.
    """
    starts, rows, weights = nodes
    longest, width = longest_of(starts), longest_of(columns.begin)
    ordered_up_to = max(_FEW, min(_OF_CLASS * n_classes, _MOST_ORDERED))
    copied = min(longest, max(ordered_up_to, _COPIED))
    group = max(1, min(width, _ROOM // max(copied, 4 * N_CODES * n_classes)))
    coded, label = np.empty((group, copied), np.uint8), np.empty(longest, np.int32)
    sums = np.empty((group if longest > ordered_up_to else 0, n_classes, N_CODES), np.int32)
    totals, left = np.zeros(n_classes, np.int32), np.zeros(n_classes, np.int64)
    keys, order, ends = (
        np.empty(max(copied, N_CODES), np.uint32),
        np.empty(copied, np.uint32),
        np.empty(N_CODES, np.uint32),
    )
    sums_left = np.empty((4, N_CODES), np.int64)
    places = CutPlaces(sums_left[0], sums_left[1], sums_left[2], sums_left[3], np.empty(N_CODES))
    for node in range(starts.shape[0] - 1):
        first, last = starts[node], starts[node + 1]
        n, of_rows, own = last - first, rows[first:last], columns.column[columns.begin[node] : columns.begin[node + 1]]
        if own.shape[0] == 0:
            continue
        weight, squares = weigh_classes(of_rows, weights[first:last], labels, label, totals)
        of_node = LabelledNode(weights[first:last], label[:n], totals, left, weight, squares)
        is_ordered, at_once = n <= ordered_up_to, 1 if n <= _FEW else group
        for k in range(0, own.shape[0], at_once):
            of_group = own[k : min(k + at_once, own.shape[0])]
            if is_ordered:
                copy_codes(codes, of_rows, of_group, coded)
            else:
                add_up_codes(codes, of_rows, of_group, of_node, coded, sums)
            for j in range(of_group.shape[0]):
                if is_ordered:
                    lowest, highest = order_codes(coded[j, :n], keys, ends, order)
                    lacks = highest == missing
                else:
                    lowest, highest = np.int64(-1), np.int64(MISSING_CODE)
                    lacks = missing != NO_CODE and holds(sums[j], missing)
                if lowest == highest:
                    continue
                for side in (RIGHT if lacks else STAY, LEFT):
                    if is_ordered:
                        n_places = places_in_order(order[:n], side, of_node, places)
                    else:
                        n_places = places_in_bins(sums[j], side, of_node, keys, places)
                    keep_best_place(node, k + j, n_places, places, side, of_node, min_leaf, cuts)
                    if not lacks:
                        break
            if cuts.gain[node] == most_gain(of_node):
                break
        clear_classes(label[:n], totals)


@no_refcount
def clear_classes(label: Int32s, totals: Int32s) -> None:
    """totals[c] = 0 of the classes of rows."""
    for r in range(label.shape[0]):
        totals[label[r]] = 0


@no_refcount
def most_gain(of_node: LabelledNode) -> float:
    """P(S)/m with P = m^2 - sum_k m_k^2, the largest possible gain of a cut."""
    return (of_node.weight * of_node.weight - of_node.squares) / of_node.weight


@no_refcount
def weigh_classes(
    rows: Int32s, weights: Int32s, labels: Int32s, label: Int32s, totals: Int32s
) -> tuple[np.int64, np.int64]:
    """Fill label[:n] with the classes of rows and add their weights to ``totals``, which are 0.

    Return the sum of all weights, and that of the squares of ``totals``.
    """
    places, weight, squares = rows.view(np.uint32), np.int64(0), np.int64(0)
    for r in range(places.shape[0]):
        c, w = labels[places[r]], np.int64(weights[r])
        label[r] = c
        squares += w * (2 * np.int64(totals[c]) + w)
        totals[c] += weights[r]
        weight += w
    return weight, squares


@no_refcount
def copy_codes(codes: Codes, rows: Int32s, columns: Int32s, coded: Codes) -> None:
    """coded[k, r] = codes[rows[r], columns[k]]."""
    places, chosen = rows.view(np.uint32), columns.view(np.uint32)  # see `distforest.jit`
    for first in range(0, places.shape[0], _SIDE_BY_SIDE):
        last = min(first + _SIDE_BY_SIDE, places.shape[0])
        for k in range(chosen.shape[0]):
            column, copies = chosen[k], coded[k]
            for r in range(first, last):
                copies[r] = codes[places[r], column]


@no_refcount
def add_up_codes(
    codes: Codes, rows: Int32s, columns: Int32s, of_node: LabelledNode, coded: Codes, sums: NDArray[np.int32]
) -> None:
    """sums[k, c, b] = weight of the rows of class c whose code of column columns[k] is b; ``coded`` is scratch."""
    weights, labels = of_node.weights, of_node.labels.view(np.uint32)
    for k in range(columns.shape[0]):
        for c in range(sums.shape[1]):
            for b in range(N_CODES):
                sums[k, c, b] = 0
    for first in range(0, rows.shape[0], _COPIED):
        last = min(first + _COPIED, rows.shape[0])
        copy_codes(codes, rows[first:last], columns, coded)
        for k in range(columns.shape[0]):
            copies, of_candidate = coded[k], sums[k]
            for r in range(first, last):
                of_candidate[labels[r], copies[r - first]] += weights[r]


@no_refcount
def holds(sums: NDArray[np.int32], code: int) -> bool:
    """Return whether a row has the code."""
    weight = 0
    for c in range(sums.shape[0]):
        weight += sums[c, code]
    return weight > 0


@no_refcount
def order_codes(coded: Codes, keys: UInt32s, ends: UInt32s, order: UInt32s) -> tuple[np.int64, np.int64]:
    """Fill ``order`` with the codes in ascending order, ties by position: the code in the high bits, then the position.

    Return the least and the greatest code; if they are equal, there is no order. ``keys`` and ``ends`` are working
    arrays.
    """
    n, least, greatest = coded.shape[0], coded[0], coded[0]
    for r in range(n):
        least, greatest = min(least, coded[r]), max(greatest, coded[r])
    lowest, highest = np.int64(least), np.int64(greatest)
    if lowest == highest:
        return lowest, highest
    if n <= _FEW:
        for r in range(n):
            keys[r] = np.uint32(coded[r]) << _PLACE_BITS | np.uint32(r)
        for r in range(n):
            own, n_below = keys[r], np.uint32(0)
            for other in range(n):
                n_below += np.uint32(keys[other] < own)
            order[n_below] = own
        return lowest, highest
    for b in range(lowest, highest + 1):
        ends[b] = 0
    for r in range(n):
        keys[r] = ends[coded[r]]
        ends[coded[r]] = keys[r] + np.uint32(1)
    n_below = np.uint32(0)
    for b in range(lowest, highest + 1):
        ends[b], n_below = n_below, n_below + ends[b]
    for r in range(n):
        order[ends[coded[r]] + keys[r]] = np.uint32(coded[r]) << _PLACE_BITS | np.uint32(r)
    return lowest, highest


@no_refcount
def places_in_order(order: UInt32s, missing: int, of_node: LabelledNode, places: CutPlaces) -> int:
    """Fill ``places`` from a node's rows in ``order``, as from `order_codes`; return their number.

    ``missing`` is the side of the rows of `MISSING_CODE`, or ``STAY`` if it is a code like any other.
    """
    n, left, totals = order.shape[0], of_node.left, of_node.totals
    turned = n
    while missing == LEFT and order[turned - 1] >> _PLACE_BITS == MISSING_CODE:
        turned -= 1
    for r in range(n):
        left[of_node.labels[r]] = 0
    weight, squares, mixed = np.int64(0), np.int64(0), np.int64(0)
    place, before = -1, np.uint32(NO_CODE)
    for e in range(n):
        item = order[turned + e if turned + e < n else turned + e - n]
        code, row = item >> _PLACE_BITS, item & _PLACE
        place += code != before
        before = code
        c, w = of_node.labels[row], np.int64(of_node.weights[row])
        squares += w * (2 * left[c] + w)
        mixed += w * totals[c]
        left[c] += w
        weight += w
        places.code[place] = code
        places.weight[place], places.squares[place], places.mixed[place] = weight, squares, mixed
    return place + 1


@no_refcount
def places_in_bins(
    sums: NDArray[np.int32], missing: int, of_node: LabelledNode, room: UInt32s, places: CutPlaces
) -> int:
    """Fill ``places`` from bins of weights sums[c, b] by class; return their number; see `places_in_order`."""
    shift, so_far = 1 if missing == LEFT else 0, room[:N_CODES].view(np.int32)
    weight, squares, mixed = places.weight, places.squares, places.mixed
    for e in range(N_CODES):
        weight[e], squares[e], mixed[e] = 0, 0, 0
    for c in range(sums.shape[0]):
        total, run = np.int64(of_node.totals[c]), np.int32(0)
        if total == 0:
            continue
        if shift:
            run = sums[c, MISSING_CODE]
            so_far[0] = run
        for e in range(shift, N_CODES):
            run += sums[c, e - shift]
            so_far[e] = run
        for e in range(N_CODES):
            left = np.int64(so_far[e])
            weight[e] += left
            squares[e] += left * left
            mixed[e] += left * total
    place, before = -1, np.int64(0)
    for e in range(N_CODES):
        own, own_squares, own_mixed = weight[e], squares[e], mixed[e]
        if own != before:
            place += 1
            before = own
            places.code[place] = MISSING_CODE if e < shift else e - shift
            weight[place], squares[place], mixed[place] = own, own_squares, own_mixed
    return place + 1


@no_refcount
def place_of(b: int, missing: int) -> float:
    """Return the value of bin b: its number, or for missing values inf if they are on the right, else -inf."""
    if b == MISSING_CODE and missing != STAY:
        return np.inf if missing == RIGHT else -np.inf
    return np.float64(b)


@no_refcount
def keep_best_place(
    node: int,
    candidate: int,
    n_places: int,
    places: CutPlaces,
    missing: int,
    of_node: LabelledNode,
    min_leaf: int,
    cuts: Cuts,
) -> None:
    """Make the best of the first places the node's cut if its gain is the largest so far: see `gini_gain`."""
    whole, both, start, is_larger = most_gain(of_node), of_node.squares, cuts.gain[node], False
    for e in range(n_places - 1):
        m_left, m_right = places.weight[e], of_node.weight - places.weight[e]
        squares = places.squares[e]
        gain = gini_gain(whole, m_left, squares, m_right, both - 2 * places.mixed[e] + squares)
        gain = gain if (m_left >= min_leaf) & (m_right >= min_leaf) else -np.inf
        places.gain[e] = gain
        is_larger |= gain > start
    if not is_larger:
        return
    for e in range(n_places - 1):
        if places.gain[e] > cuts.gain[node]:
            below, above = place_of(places.code[e], missing), place_of(places.code[e + 1], missing)
            keep_best(node, candidate, below, above, places.gain[e], cuts)
    note_missing(node, start, missing, cuts)
