"""Square cuts: a threshold on a coordinate parts the pairs that it separates from those on one side of it.

::

    coordinate    a   b                 c         d          value
                  |---|   .             |----.----|           a pair (min, max)
                          A                  A
                  both below: LEFT      separated: RIGHT      separated where min <= A < max

Each side of a cut is a square region of TreeRank (Clemencon, Vogel, appendix 6.3). A candidate c < p is a coordinate of
numbers; any other column is cut as a whole: the further ones, and for a feature of categories the one that holds its
unordered pairs, or of too many categories whether they differ (`square_candidates`). Of a coordinate that either point
lacks, the pair is missing: it is tried among the separated pairs, and then among the others.

A kernel that is given None in place of codes is compiled without what cuts squares.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from distforest.growth.cuts.ordering import order_values
from distforest.growth.cuts.scan import Cuts, scan_keys
from distforest.growth.cuts.two_classes import OpenNode, TwoSums, fill_missing
from distforest.growth.pairs.bins import PairBins, code_of
from distforest.growth.pairs.histograms import NodePairs, PairLevel, SearchRoom
from distforest.jit import borrowing, kernel
from distforest.sources.point_pairs import OF_NUMBERS, PAIRED, ColumnReading, PairColumns
from distforest.sources.source import Float32s, Floats, Int32s

if TYPE_CHECKING:
    Codes = NDArray[np.uint8]


def square_candidates(columns: PairColumns) -> Int32s:
    """The columns that stand for the candidates: one for each feature that is not compared, then the further ones.

    Examples
    --------
    >>> square_candidates(PairColumns("max_min", 3, (("dot", 2),), (0, 5, 0))).tolist()
    [0, 4, 2, 6]
    """
    own = np.arange(columns.n_features)
    own[np.flatnonzero(columns.kinds == PAIRED)] += columns.n_features
    own = np.delete(own, columns.compared)
    return np.append(own, np.arange(columns.n_of_family, columns.n_columns)).astype(np.int32)


@borrowing
def is_square(column: int, how: ColumnReading) -> bool:
    """Whether a candidate is a coordinate, which is cut into squares."""
    return column < how.n_features and (how.kinds.shape[0] == 0 or how.kinds[column] == OF_NUMBERS)


@borrowing
def cut_if_square(
    node: int,
    candidate: int,
    own: NodePairs,
    level: PairLevel,
    squares: Codes | None,
    of_node: OpenNode,
    room: SearchRoom,
    cuts: Cuts,
) -> bool:
    """If the candidate is a coordinate, scan the ends of all pairs of a node; returns whether it is.

    The ends are groups: the lesser ones, which take their pairs from the left side of a cut, then the greater ones,
    which bring them back. Two more are all observed pairs, which are on the left at first, and the missing ones.
    """
    c, size = level.columns[node, candidate], own.left.shape[0]
    if squares is None or not is_square(c, level.pairs.columns):
        return False
    (impurity, tallies, rules), (order, keys, spare), values, ends = of_node, room.orders, room.values, room.some
    every, missing = 2 * size, 2 * size + 1
    ends[missing, 0], ends[missing, 1] = 0, 0
    for r in range(size):
        one, other = level.pairs.points[own.left[r], c], level.pairs.others[own.right[r], c]
        values[r], values[size + r] = min(one, other), max(one, other)
        lacks = one != one or other != other
        if lacks:
            values[r], values[size + r] = np.nan, np.nan
        for s in range(2):
            weight = room.sums[r, s]
            ends[r, s], ends[size + r, s] = -weight, weight
            ends[missing, s] += weight if lacks else 0
    order[0] = missing
    fill_missing(ends, order[:1], every, tallies)
    n = 1 + order_values(values[:every], order[1:], keys, spare)
    values[every], order[0], order[n] = np.nan, every, missing
    scan_keys(node, candidate, values, order[: n + 1], n, TwoSums(ends), impurity, tallies, rules, cuts)
    return True


@borrowing
def counted_ends(
    c: int, places: Int32s, own: NodePairs, how: ColumnReading, squares: Codes | None, filled: Int32s
) -> bool:
    """If c is a coordinate, add the ends of some pairs of a block to the bins of their codes; returns whether it is.

    The code of the lesser end of a pair is the lesser code of its two points. The last bin is that of all the pairs.
    """
    if squares is None or not is_square(c, how):
        return False
    whole, of_one = 0, 0
    for place in places.view(np.uint32):
        one, other = squares[own.left[place], c], squares[own.right[place], c]
        kind, weight = own.kinds[place], own.weights[place]
        filled[min(one, other), kind] -= weight
        filled[max(one, other), kind] += weight
        whole += weight
        of_one += weight * kind
    filled[filled.shape[0] - 1, 0] += whole - of_one
    filled[filled.shape[0] - 1, 1] += of_one
    return True


@kernel
def code_points(points: Float32s, bins: PairBins, of_points: Codes) -> None:
    """of_points[i, c] = code of coordinate c of point i, of no meaning where it is missing."""
    low, scale, code, edges = bins
    for i in range(of_points.shape[0]):
        for c in range(of_points.shape[1]):
            of_points[i, c] = code_of(np.float64(points[i, c]), low[c], scale[c], code[c], edges[c])


@borrowing
def took_sides(c: int, cut: float, rows: Int32s, level: PairLevel, squares: Codes | None, values: Floats) -> bool:
    """If c is a coordinate, values[r] = infinity where its cut separates pair r, minus infinity where not.

    NaN where either point lacks the coordinate. Returns whether c is a coordinate.
    """
    if squares is None or not is_square(c, level.pairs.columns):
        return False
    points, others, left, right, _, _ = level.pairs
    for r in range(rows.shape[0]):
        one, other = points[left[rows[r]], c], others[right[rows[r]], c]
        values[r] = np.inf if min(one, other) <= cut < max(one, other) else -np.inf
        if one != one or other != other:
            values[r] = np.nan
    return True
