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
    MISSING,
    WHOLE,
    Cuts,
    add_group,
    groups_for,
    scan_candidate,
    tallies_for,
    weigh_node,
    write_groups,
)
from distforest.growth.cuts.search import Limits, values_on
from distforest.jit import borrowing, kernel
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
    from distforest.growth.cuts.criteria import Gini, Variance
    from distforest.growth.cuts.scan import Groups, Impurity, Tallies


def cut_sparse(
    source: SparseFeatures, criterion: Gini | Variance, frontier: Frontier, projections: Projections, limits: Limits
) -> tuple[Cuts, Floats]:
    """`project_and_cut` for sparse features."""
    cuts, truth, impurity = Cuts.none(frontier.n_nodes), criterion.truth, criterion.impurity
    least = limits.min_samples_leaf
    cut_sums(source.both_ways, frontier.nodes, projections, truth, impurity, criterion.n_sums, least, cuts)
    return cuts, values_on(source, frontier, projections, cuts)


class Sums(NamedTuple):
    """Room for one candidate's values other than 0 in one node, and what orders them.

    Attributes
    ----------
    value, place
        The values, and the places of their rows in the node; behind them comes the 0 of all other rows.
    total, is_met
        The sum of each row of the node so far, 0 between candidates; whether the row is among ``place``.
    order, keys, spare
        What `order_values` needs.
    """

    value: Floats
    place: Int32s
    total: Floats
    is_met: NDArray[np.bool_]
    order: Ints
    keys: NDArray[np.uint64]
    spare: NDArray[np.uint64]


@kernel
def sums_for(longest: int) -> Sums:
    """Room for nodes of at most ``longest`` rows."""
    return Sums(
        np.empty(longest + 1),
        np.empty(longest + 1, np.int32),
        np.zeros(longest),
        np.zeros(longest, np.bool_),
        np.empty(longest + 1, np.int64),
        np.empty(longest + 1, np.uint64),
        np.empty(longest + 1, np.uint64),
    )


@borrowing
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
    n_sums: int,
    min_leaf: int,
    cuts: Cuts,
) -> None:
    """As `distforest.growth.cuts.scan.cut_rows`, over the sums of candidate k of each node.

    The groups are the rows of a node, and after them what all rows of the sum 0 add, as one group or a few.
    """
    (starts, rows, weights), (width, offset, columns, terms) = nodes, projections
    longest = longest_of(starts)
    room, sums, found = room_to_gather(stored), sums_for(longest), no_room()
    order, keys = np.empty(longest + n_sums, np.int64), np.zeros(longest + n_sums)
    groups, tallies = groups_for(impurity, longest + n_sums, n_sums), tallies_for(n_sums)
    for node in range(starts.shape[0] - 1):
        first, last, begin, end = starts[node], starts[node + 1], offset[node * width], offset[(node + 1) * width]
        of_rows, n_rows = rows[first:last], last - first
        found = gather_values(stored, of_rows, columns[begin:end], room, found)
        most = weigh_node(impurity, of_rows, weights[first:last], truth, groups, order, tallies)
        for k in range(width):
            if cuts.gain[node] == most:
                break
            own = offset[node * width + k] - begin, offset[node * width + k + 1] - begin
            m = add_terms(found, own[0], own[1], terms[begin:end], sums)
            if m == 0:
                continue
            n_zero = lay_zeros(m, n_rows, sums, groups, tallies)
            sums.value[m] = 0.0
            order_values(sums.value[: m + (n_zero > 0)], sums.order, sums.keys, sums.spare)
            n = 0
            for at in sums.order[: m + (n_zero > 0)]:
                if at < m:
                    order[n] = sums.place[at]
                    keys[order[n]] = sums.value[at]
                    n += 1
                    continue
                for zero in range(n_rows, n_rows + n_zero):
                    order[n], keys[zero] = zero, 0.0
                    n += 1
            scan_candidate(node, k, keys, order[:n], n, groups, impurity, tallies, (min_leaf, True), cuts)


@borrowing
def lay_zeros(m: int, n_rows: int, sums: Sums, groups: Groups, tallies: Tallies) -> int:
    """Write the groups of all rows but the m of ``sums`` behind those of the rows; returns how many there are."""
    whole, others = tallies.sums[WHOLE], tallies.sums[MISSING]
    weight = tallies.weights[WHOLE]
    for q in range(whole.shape[0]):
        others[q] = 0
    for place in sums.place[:m]:
        weight -= groups.weights[place]
        add_group(groups, place, others)
    for q in range(whole.shape[0]):
        others[q] = whole[q] - others[q]
    return 0 if m == n_rows else write_groups(groups, n_rows, weight, others)
