"""Cuts of sparse features: a fused search that orders the values other than 0, and moves all zeros at once.

Tallies are exact, so the cuts are those of `distforest.growth.cuts.scan.cut_rows`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from distforest.forest.frontier import Frontier, Nodes, longest_of
from distforest.growth.cuts.ordering import order_values
from distforest.growth.cuts.scan import (
    ALL_ROWS,
    ON_LEFT,
    Cuts,
    groups_for,
    scan_keys,
    take_group,
    tallies_for,
    weigh_node,
    write_groups,
)
from distforest.growth.cuts.search import Limits, values_on
from distforest.jit import inlined, kernel, no_refcount
from distforest.sources.source import Floats, Int32s, Ints, Projections
from distforest.sources.sparse_features import (
    BothWays,
    Gathered,
    SparseFeatures,
    gather_values,
    no_room,
    room_to_gather,
)

if TYPE_CHECKING:
    from distforest.growth.cuts.criteria import Tallied
    from distforest.growth.cuts.scan import Impurity, RowGroups, Tallies


def cut_sparse(
    source: SparseFeatures, criterion: Tallied, frontier: Frontier, projections: Projections, limits: Limits
) -> tuple[Cuts, Floats]:
    """`project_and_cut` for sparse features."""
    cuts, truth, impurity = Cuts.none(frontier.n_nodes), criterion.truth, criterion.impurity
    least = limits.min_samples_leaf
    cut_sums(source.both_ways, frontier.nodes, projections, truth, impurity, least, cuts)
    return cuts, values_on(source, frontier, projections, cuts)


class Sums(NamedTuple):
    """Working arrays for a candidate's non-zero values in a node, and for their order.

    Attributes
    ----------
    value, place
        The values, and the positions of their rows in the node, followed by the 0 of all other rows.
    total, is_met
        The sum of each row of the node so far, 0 between candidates; whether the row is among ``place``.
    order, keys, spare
        Working arrays of `order_values`.
    """

    value: Floats
    place: Int32s
    total: Floats
    is_met: NDArray[np.bool_]
    order: Ints
    keys: NDArray[np.uint64]
    spare: NDArray[np.uint64]


@kernel
def sums_for(longest: int, n_zeros: int) -> Sums:
    """Allocate the arrays for nodes of at most ``longest`` rows and ``n_zeros`` groups of the value 0."""
    most = longest + n_zeros
    keys, spare = np.empty((2, most), np.uint64)
    place, total, is_met = np.empty(longest, np.int32), np.zeros(longest), np.zeros(longest, np.bool_)
    return Sums(np.empty(most), place, total, is_met, np.empty(most, np.int64), keys, spare)


@no_refcount
def add_terms(found: Gathered, begin: int, end: int, weights: Floats, sums: Sums) -> int:
    """Fill value and place with the sums over e of weights[e] * X[row, columns[e]] that are not 0; return how many."""
    m = 0
    if end - begin == 1:
        for at in range(found.start[begin], found.start[end]):
            value = weights[begin] * np.float64(found.value[at])
            if value != 0.0:
                sums.value[m], sums.place[m] = value, found.place[at]
                m += 1
        return m
    n_met = 0
    for e in range(begin, end):
        for at in range(found.start[e], found.start[e + 1]):
            place = found.place[at]
            sums.total[place] += weights[e] * found.value[at]
            if not sums.is_met[place]:
                sums.is_met[place] = True
                sums.place[n_met] = place
                n_met += 1
    for i in range(n_met):
        place = sums.place[i]
        if sums.total[place] != 0.0:
            sums.value[m], sums.place[m] = sums.total[place], place
            m += 1
        sums.total[place], sums.is_met[place] = 0.0, False
    return m


@kernel
def cut_sums(
    stored: BothWays,
    nodes: Nodes,
    projections: Projections,
    truth: Int32s | Ints,
    impurity: Impurity,
    min_leaf: int,
    cuts: Cuts,
) -> None:
    """As `distforest.growth.cuts.scan.cut_rows`, over the sums of candidate k of each node.

    The groups are the rows of a node, followed by all rows of the sum 0, as one group or a few.
    """
    (starts, rows, weights), (width, offset, columns, terms) = nodes, projections
    longest, rules = longest_of(starts), (min_leaf, True)
    room, sums, found = room_to_gather(stored), sums_for(longest, impurity.n_sums), no_room()
    of_rows, of_sums = groups_for(impurity, longest), groups_for(impurity, longest + impurity.n_sums)
    order, tallies = np.empty(longest, np.int64), tallies_for(impurity.n_sums)
    for node in range(starts.shape[0] - 1):
        first, last, begin, end = starts[node], starts[node + 1], offset[node * width], offset[(node + 1) * width]
        found = gather_values(stored, rows[first:last], columns[begin:end], room, found)
        most = weigh_node(impurity, rows[first:last], weights[first:last], truth, of_rows, order, tallies)
        for k in range(width):
            if cuts.gain[node] == most:
                break
            own = offset[node * width + k] - begin, offset[node * width + k + 1] - begin
            m = add_terms(found, own[0], own[1], terms[begin:end], sums)
            if m == 0:
                continue
            n = m + write_groups_of(m, last - first, of_rows, of_sums, sums, tallies)
            order_sums(m, n, sums)
            scan_keys(node, k, sums.value, sums.order[:n], n, of_sums, impurity, tallies, rules, cuts)


@inlined
def write_groups_of(m: int, n_rows: int, of_rows: RowGroups, of_sums: RowGroups, sums: Sums, tallies: Tallies) -> int:
    """Copy the groups of the m rows of ``sums``, and write those of all other rows after them; return their number."""
    whole, others, weight = tallies.sums[ALL_ROWS], tallies.sums[ON_LEFT], tallies.weights[ALL_ROWS]
    for q in range(whole.shape[0]):
        others[q] = whole[q]
    for at in range(m):
        weight -= of_rows.weights[sums.place[at]]
        take_group(of_rows, sums.place[at], of_sums, at, others)
    return 0 if m == n_rows else write_groups(of_sums, m, weight, others)


@no_refcount
def order_sums(m: int, n: int, sums: Sums) -> None:
    """Order the m values of a node, and among them the groups from m to n - 1, whose values are 0."""
    for zero in range(m, n):
        sums.value[zero] = 0.0
    size = min(n, m + 1)
    order_values(sums.value[:size], sums.order, sums.keys, sums.spare)
    e, further = size - 1, n - size
    while further > 0:
        at = sums.order[e]
        sums.order[e + further] = at
        if at == m:
            for zero in range(further + 1):
                sums.order[e + zero] = m + zero
            break
        e -= 1
