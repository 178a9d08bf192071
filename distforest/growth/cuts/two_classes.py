"""Cuts of two classes with costs: they separate must-link from cannot-link pairs (RFD), and part a LeafRank's cells.

Let m_s = c_s n_s for the classes s = 0, 1, with costs c_s and counts n_s, and P(S) = 2 m_0 m_1. A cut of S into L and R
gains ``P(S)/m - P(L)/m_L - P(R)/m_R``: with costs of 1 the Gini gain of `distforest.growth.cuts.criteria`. With the
costs n / (2 n_s) of a TreeRank cell its two classes weigh the same, and m_0 - m_1 of a part C is, but for a constant,
Lambda(C) (Clemencon, Vogel, section 3.1; see `distforest.growth.pairs.tree_rank`).

Counts are integers, so a cut does not depend on the order of the rows. Missing values are tried on either side, and
ties are broken, as in `distforest.growth.cuts.criteria`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from distforest.forest.frontier import LEFT, RIGHT, STAY, Frontier, Nodes, longest_of
from distforest.growth.cuts.criteria import Steady
from distforest.growth.cuts.ordering import OrderRoom, order_values
from distforest.growth.cuts.scan import GAIN_ROUNDING, NO_CUT, Cuts, keep_best, note_missing
from distforest.jit import borrowing, kernel
from distforest.sources.source import Floats, Int32s, Ints

if TYPE_CHECKING:
    Codes = NDArray[np.uint8]


class Judged(NamedTuple):
    """Counts and costs by which the cuts of a level's nodes are judged, as kernels take them.

    Attributes
    ----------
    counts
        Weight of each class in each node, shape (n_nodes, 2).
    costs
        Cost of each class in each node, shape (n_nodes, 2).
    min_leaf
        Least weight of a side.
    """

    counts: Ints
    costs: Floats
    min_leaf: int


@dataclass(frozen=True)
class TwoClasses(Steady):
    """Two classes with costs.

    Attributes
    ----------
    codes
        Class of each row, 0 or 1, shape (n_rows,), uint8.
    costs
        Cost of each class in each tree of the frontier, shape (n_trees, 2).
    """

    codes: Codes
    costs: Floats
    unit: float = 1.0

    def impure(self, frontier: Frontier) -> NDArray[np.bool_]:
        """Whether a node holds both classes."""
        counts = self.counts(frontier)
        return np.logical_and(counts[:, 0] > 0, counts[:, 1] > 0)

    def counts(self, frontier: Frontier) -> Ints:
        """Weight of each class in each node, shape (n_nodes, 2)."""
        counts = np.zeros((frontier.n_nodes, 2), np.int64)
        count_classes(frontier.nodes, self.codes, counts)
        return counts

    def cut(self, frontier: Frontier, values: Floats, min_leaf: int) -> Cuts:
        """The best cut of each node."""
        cuts = Cuts.none(frontier.n_nodes)
        cut_two_classes(frontier.nodes, self.codes, values, self.judged(frontier, min_leaf), cuts)
        return cuts

    def judged(self, frontier: Frontier, min_leaf: int) -> Judged:
        """The counts and costs by which the cuts of each node are judged."""
        return Judged(self.counts(frontier), self.costs[frontier.tree], min_leaf)


def even_costs(counts: Ints) -> Floats:
    """Costs n / (2 n_s) with which the two classes of a cell weigh the same, from its counts, shape (n_cells, 2)."""
    costs: Floats = counts.sum(axis=1, keepdims=True) / (2.0 * counts)
    return costs


@borrowing
def count_classes(nodes: Nodes, codes: Codes, counts: Ints) -> None:
    """counts[f, s] = sum of the weights of the rows of node f whose class is s."""
    starts, rows, weights = nodes
    places = rows.view(np.uint32)  # see `distforest.jit`
    for node in range(starts.shape[0] - 1):
        whole, of_one = np.int64(0), np.int64(0)
        for r in range(starts[node], starts[node + 1]):
            whole += weights[r]
            of_one += np.int64(weights[r]) * np.int64(codes[places[r]])
        counts[node, 0] += whole - of_one
        counts[node, 1] += of_one


@borrowing
def two_class_gain(whole: float, left_0: float, left_1: float, right_0: float, right_1: float) -> float:
    """P(S)/m - (P(L)/m_L + P(R)/m_R) with P = 2 m_0 m_1, ``whole`` = P(S)/m; 0 where it is rounding."""
    left, right = left_0 + left_1, right_0 + right_1
    inside = 2.0 * (left_0 * left_1 * right + right_0 * right_1 * left) / (left * right)  # one division, not two
    gain = whole - inside
    return gain if gain > GAIN_ROUNDING * (whole + inside) else 0.0


@borrowing
def gain_of_counts(whole: float, left: Ints, counts: Ints, costs: Floats, min_leaf: int) -> float:
    """The gain of a cut with ``left`` of ``counts`` on one side, shapes (2,); `NO_CUT` if a side is too light."""
    n_left = left[0] + left[1]
    n_right = counts[0] + counts[1] - n_left
    if n_left < max(1, min_leaf) or n_right < max(1, min_leaf):
        return NO_CUT
    return two_class_gain(
        *(whole, costs[0] * left[0], costs[1] * left[1]),
        *(costs[0] * (counts[0] - left[0]), costs[1] * (counts[1] - left[1])),
    )


@borrowing
def whole_of(counts: Ints, costs: Floats) -> float:
    """P(S)/m of a node."""
    m_0, m_1 = costs[0] * counts[0], costs[1] * counts[1]
    return 2.0 * m_0 * m_1 / (m_0 + m_1)


class TwoClassRows(NamedTuple):
    """Weight and class of each row of a node, as a scan takes them: shape (n,), the classes (n,) or longer."""

    weights: Int32s
    kinds: Codes


@kernel
def cut_two_classes(
    nodes: Nodes,
    codes: Codes,
    values: Floats,
    judged: Judged,
    cuts: Cuts,
) -> None:
    """Cut by the largest gain with P(S) = 2 m_0 m_1, updated as rows move to the left in a candidate's order."""
    starts, rows, weights = nodes
    longest = longest_of(starts)
    kinds, keys, spare = np.empty(longest, np.uint8), np.empty(longest, np.uint64), np.empty(longest, np.uint64)
    room, left = OrderRoom(np.empty(longest, np.int64), keys, spare), np.empty(2, np.int64)
    for node in range(starts.shape[0] - 1):
        first, last = starts[node], starts[node + 1]
        read_codes(rows[first:last], codes, kinds)
        of_node = TwoClassRows(weights[first:last], kinds)
        for k in range(values.shape[0]):
            cut_candidate(node, k, values[k, first:last], room, of_node, judged, left, cuts)


@borrowing
def cut_candidate(
    node: int,
    candidate: int,
    values: Floats,
    room: OrderRoom,
    of_node: TwoClassRows,
    judged: Judged,
    left: Ints,
    cuts: Cuts,
) -> None:
    """Scan the order of one candidate's values, shape (n,): with the missing ones on the right, then on the left.

    On the right they are parted from all others by a last cut, whose mirror image gains the same. Missing is all that
    ``judged`` counts in the node and the scan does not meet: rows without a value may be left out of ``of_node``.
    """
    n, at_start = order_values(values, room.order, room.keys, room.spare), cuts.gain[node]
    observed = room.order[:n]
    left[0], left[1] = 0, 0
    last = scan_two_classes(node, candidate, values, observed, of_node, judged, left, cuts)
    counts, costs = judged.counts[node], judged.costs[node]
    missing_0, missing_1 = counts[0] - left[0], counts[1] - left[1]
    if missing_0 + missing_1 == 0:
        note_missing(node, at_start, STAY, cuts)
        return
    gain = gain_of_counts(whole_of(counts, costs), left, counts, costs, judged.min_leaf)
    if gain > cuts.gain[node]:
        keep_best(node, candidate, last, np.inf, gain, cuts)
    note_missing(node, at_start, RIGHT, cuts)
    at_start = cuts.gain[node]
    left[0], left[1] = missing_0, missing_1
    scan_two_classes(node, candidate, values, observed, of_node, judged, left, cuts)
    note_missing(node, at_start, LEFT, cuts)


@borrowing
def read_codes(rows: Int32s, codes: Codes, kinds: Codes) -> None:
    """kinds[r] = codes[rows[r]], read once for all candidates of a node."""
    places = rows.view(np.uint32)  # see `distforest.jit`
    for r in range(places.shape[0]):
        kinds[r] = codes[places[r]]


@borrowing
def scan_two_classes(
    node: int,
    candidate: int,
    values: Floats,
    order: Ints,
    of_node: TwoClassRows,
    judged: Judged,
    left: Ints,
    cuts: Cuts,
) -> float:
    """Move observed rows of a node to ``left``, counts of the two classes, in their order; returns the last value."""
    weights, kinds = of_node
    counts, costs, min_leaf = judged.counts[node], judged.costs[node], judged.min_leaf
    whole, before = whole_of(counts, costs), np.nan
    for place in order:
        value = values[place]
        if value > before:
            gain = gain_of_counts(whole, left, counts, costs, min_leaf)
            if gain > cuts.gain[node]:
                keep_best(node, candidate, before, value, gain, cuts)
        before = value
        left[kinds[place]] += weights[place]
    return before
