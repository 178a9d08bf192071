"""Cuts of two classes with costs: they separate must-link from cannot-link pairs (RFD), and split a LeafRank's cells.

Let m_s = c_s n_s for the classes s = 0, 1, with costs c_s and counts n_s, and P(S) = 2 m_0 m_1. A cut of S into L and R
gains ``P(S)/m - P(L)/m_L - P(R)/m_R``: with costs of 1 the Gini gain of `distforest.growth.cuts.criteria`. With the
costs n / (2 n_s) of a TreeRank cell its two classes weigh the same, and m_0 - m_1 of a part C is, but for a constant,
Lambda(C) (Clemencon, Vogel, section 3.1; see `distforest.growth.pairs.ranking_trees`).

Counts are integers, so a cut does not depend on the order of the rows. Missing values are tried on either side, and
ties are broken, as in `distforest.growth.cuts.scan`, which finds the cuts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from distforest.forest.frontier import Frontier, Nodes
from distforest.growth.cuts.criteria import Steady
from distforest.growth.cuts.entropy import LOG_ROUNDING, rel_entr
from distforest.growth.cuts.scan import (
    ALL_ROWS,
    GAIN_ROUNDING,
    Cuts,
    Sides,
    Tallies,
    add_group,
    cut_rows,
    gain_of,
    groups_for,
    largest_gain,
    may_gain,
    move_left,
    rows_as_groups,
    sides_of,
)
from distforest.jit import dispatched, no_refcount
from distforest.sources.source import Floats, Int32s, Ints

if TYPE_CHECKING:
    Codes = NDArray[np.uint8]


class TwoSums(NamedTuple):
    """Groups of two classes.

    Attributes
    ----------
    sums
        The weight of each class in each group, shape (n, 2); negative for a group that comes back from the left.
    """

    sums: Int32s


class CostedGini(NamedTuple):
    """P(S) = 2 m_0 m_1 of the masses of two classes, ``n_sums``, with their costs in a node."""

    n_sums: int
    costs: tuple[float, float]


class CostedEntropy(NamedTuple):
    """m H(S) = -m_0 log(m_0 / m) - m_1 log(m_1 / m) of the masses of two classes, ``n_sums``, with their costs."""

    n_sums: int
    costs: tuple[float, float]


CostedImpurity = CostedGini | CostedEntropy
"""Impurities that score the two sides of a cut of two classes."""

PLAIN = CostedGini(2, (1.0, 1.0))
"""Gini impurity of classes with equal costs."""


class OpenNode(NamedTuple):
    """The scoring of a node's cuts: its impurity, the tallies of all its rows, and the rules of a scan."""

    impurity: CostedImpurity
    tallies: Tallies
    rules: tuple[int, bool]


@dataclass(frozen=True)
class TwoClasses(Steady):
    """Two classes with costs.

    Attributes
    ----------
    codes
        Class of each row, 0 or 1, shape (n_rows,), uint8.
    costs
        Cost of each class in each tree of the frontier, shape (n_trees, 2).
    impurity
        The impurity that splits lower; its own costs are not read.
    """

    codes: Codes
    costs: Floats
    unit: float = 1.0
    impurity: CostedImpurity = PLAIN

    def impure(self, frontier: Frontier) -> NDArray[np.bool_]:
        """Return whether a node contains both classes."""
        counts = self.counts(frontier)
        return np.logical_and(counts[:, 0] > 0, counts[:, 1] > 0)

    def counts(self, frontier: Frontier) -> Ints:
        """Return the weight of each class in each node, shape (n_nodes, 2)."""
        counts = np.zeros((frontier.n_nodes, 2), np.int64)
        count_classes(frontier.nodes, self.codes, counts)
        return counts

    def cut(self, frontier: Frontier, values: Floats, min_leaf: int) -> Cuts:
        """Return the best cut of each node, one node after another, as each has its own costs."""
        cuts = Cuts.none(frontier.n_nodes)
        for node, costs in enumerate(self.costs[frontier.tree].tolist()):
            own, of_node = frontier.slice(node, node + 1), Cuts._make(part[node : node + 1] for part in cuts)
            of_rows = np.ascontiguousarray(values[:, slice(*frontier.starts[node : node + 2])])
            impurity, rules = self.impurity._replace(costs=tuple(costs)), (max(1, min_leaf), True)
            cut_rows(own.nodes, of_rows, self.codes, impurity, rules, of_node)
        return cuts


def even_costs(counts: Ints) -> Floats:
    """Return costs n / (2 n_s) that give the two classes of a cell equal weight; ``counts`` has shape (n_cells, 2)."""
    costs: Floats = counts.sum(axis=1, keepdims=True) / (2.0 * counts)
    return costs


@no_refcount
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


@dispatched
def with_costs(impurity: CostedImpurity, costs: Floats) -> CostedImpurity:
    """Return the impurity with other costs of the classes, shape (2,)."""
    raise NotImplementedError


@no_refcount
def tally_node(impurity: CostedImpurity, counts: Ints, costs: Floats, tallies: Tallies) -> CostedImpurity:
    """Tally all rows of a node, whose classes are counted; return its impurity.

    ``counts`` and ``costs`` are those of the classes, of shape (2,).
    """
    of_0, of_1 = counts[0], counts[1]
    tallies.weights[ALL_ROWS], tallies.sums[ALL_ROWS, 0], tallies.sums[ALL_ROWS, 1] = of_0 + of_1, of_0, of_1
    return with_costs(impurity, costs)


@no_refcount
def most_of_node(of_node: OpenNode) -> float:
    """Return the largest possible gain of a cut of a node."""
    whole, none = of_node.tallies.sums[ALL_ROWS], np.int64(0)
    sides = Sides(whole[0] + whole[1], none, whole[1], none, none, none)
    return largest_gain(of_node.impurity, sides, whole, whole)


@no_refcount
def fill_missing(sums: Int32s, order: Ints, missing: int, tallies: Tallies) -> None:
    """sums[missing, s] = the sums of all rows of a node without the groups of ``order``."""
    of_0, of_1 = tallies.sums[ALL_ROWS, 0], tallies.sums[ALL_ROWS, 1]
    for place in order:
        of_0 -= sums[place, 0]
        of_1 -= sums[place, 1]
    sums[missing, 0], sums[missing, 1] = of_0, of_1


# --- what the scan needs ---------------------------------------------------------------------------------------


@add_group.register(TwoSums)
def _(groups: TwoSums, place: int | np.int64, sums: Ints) -> np.int64:
    of_0, of_1 = np.int64(groups.sums[place, 0]), np.int64(groups.sums[place, 1])
    sums[0] += of_0
    sums[1] += of_1
    return of_0 + of_1


@move_left.register(TwoSums)
def _(groups: TwoSums, place: int | np.int64, left: Ints, right: Ints, sides: Sides) -> Sides:  # noqa: ARG001
    m, none = np.int64(groups.sums[place, 1]), np.int64(0)
    n = np.int64(groups.sums[place, 0]) + m
    return Sides(sides.n_left + n, sides.n_right - n, sides.m_left + m, none, sides.m_right - m, none)


@sides_of.register(TwoSums)
def _(groups: TwoSums, n_left: np.int64, n_right: np.int64, left: Ints, right: Ints) -> Sides:  # noqa: ARG001
    return Sides(n_left, n_right, left[1], np.int64(0), right[1], np.int64(0))


@with_costs.register(CostedGini)
def _(impurity: CostedGini, costs: Floats) -> CostedGini:
    return CostedGini(impurity.n_sums, (costs[0], costs[1]))


@with_costs.register(CostedEntropy)
def _(impurity: CostedEntropy, costs: Floats) -> CostedEntropy:
    return CostedEntropy(impurity.n_sums, (costs[0], costs[1]))


@largest_gain.register(CostedGini)
def _(impurity: CostedGini, sides: Sides, left: Ints, right: Ints) -> float:  # noqa: ARG001
    of_1 = sides.m_left + sides.m_right
    m_0, m_1 = impurity.costs[0] * (sides.n_left + sides.n_right - of_1), impurity.costs[1] * of_1
    return 2.0 * m_0 * m_1 / (m_0 + m_1)


@may_gain.register(CostedGini)
def _(impurity: CostedGini, most: float, least: float, sides: Sides, left: Ints, right: Ints) -> bool:  # noqa: ARG001
    return True


@gain_of.register(CostedGini)
def _(impurity: CostedGini, most: float, sides: Sides, left: Ints, right: Ints) -> float:  # noqa: ARG001
    """With one division, not two."""
    left_0, left_1 = impurity.costs[0] * (sides.n_left - sides.m_left), impurity.costs[1] * sides.m_left
    right_0, right_1 = impurity.costs[0] * (sides.n_right - sides.m_right), impurity.costs[1] * sides.m_right
    m_left, m_right = left_0 + left_1, right_0 + right_1
    inside = 2.0 * (left_0 * left_1 * m_right + right_0 * right_1 * m_left) / (m_left * m_right)
    gain = most - inside
    return gain if gain > GAIN_ROUNDING * (most + inside) else 0.0


@groups_for.register(CostedGini)
def _(impurity: CostedGini, n: int) -> TwoSums:  # noqa: ARG001
    return TwoSums(np.zeros((n, 2), np.int32))


@rows_as_groups.register(CostedGini)
def _(impurity: CostedGini, rows: Int32s, weights: Int32s, truth: Codes, groups: TwoSums) -> None:  # noqa: ARG001
    for r in range(rows.shape[0]):
        groups.sums[r, 0], groups.sums[r, 1] = 0, 0
        groups.sums[r, truth[rows[r]]] = weights[r]


for function in (groups_for, rows_as_groups, may_gain):
    function.share(CostedGini, CostedEntropy)


@no_refcount
def disorder(m_0: float, m_1: float) -> float:
    """M H of two masses."""
    return -rel_entr(m_0, m_0 + m_1) - rel_entr(m_1, m_0 + m_1)


@largest_gain.register(CostedEntropy)
def _(impurity: CostedEntropy, sides: Sides, left: Ints, right: Ints) -> float:  # noqa: ARG001
    of_1 = sides.m_left + sides.m_right
    return disorder(impurity.costs[0] * (sides.n_left + sides.n_right - of_1), impurity.costs[1] * of_1)


@gain_of.register(CostedEntropy)
def _(impurity: CostedEntropy, most: float, sides: Sides, left: Ints, right: Ints) -> float:  # noqa: ARG001
    left_0, left_1 = impurity.costs[0] * (sides.n_left - sides.m_left), impurity.costs[1] * sides.m_left
    right_0, right_1 = impurity.costs[0] * (sides.n_right - sides.m_right), impurity.costs[1] * sides.m_right
    inside = disorder(left_0, left_1) + disorder(right_0, right_1)
    rounding = GAIN_ROUNDING * (most + inside) + LOG_ROUNDING * (left_0 + left_1 + right_0 + right_1)
    return most - inside if most - inside > rounding else 0.0
