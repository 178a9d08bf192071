"""The mean pairwise distance of labels that are not all equally far apart (SMERF, Eq. 1), by sums over classes.

With a cost C_kl for each pair of classes, z_ij = C[y_i, y_j], so any sum over rows j of a set T is a sum over classes::

    sum w_j z_ij = sum over classes l of C[y_i, l] m_l, with m_l = sum of w_j over the rows j of class l in T

So a candidate costs the node's rows times its classes, whatever the number of pairs. The integers are those of
`distforest.growth.cuts.mean_distance` for the matrix of all z_ij, at the same scale, so every sum and every cut is the
same bit for bit. With C_kl = 1 for k != l it is the Gini impurity (`distforest.growth.cuts.criteria.Gini`, which is
faster, and whose gains are those of an exact quotient).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Self

import numpy as np

from distforest.growth.cuts.blocks import Where
from distforest.growth.cuts.category_orders import rank_by_distances
from distforest.growth.cuts.criteria import OfRows
from distforest.growth.cuts.mean_distance import (
    SumRoom,
    digits,
    distance_bits,
    in_fixed_point,
    rank_rows,
    scale_of,
    scan_distances,
)
from distforest.growth.cuts.scan import Cuts
from distforest.jit import kernel, no_refcount
from distforest.sources.source import Float32s, Floats, Int32s, Ints

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from distforest.forest.frontier import Frontier, Nodes


@dataclass(frozen=True)
class ClassCosts(OfRows):
    """z_ij = C[y_i, y_j]; gains in `Cuts` are distances.

    Attributes
    ----------
    costs
        The distances C of classes, symmetric, 0 on the diagonal, shape (n_classes, n_classes).
    exponent
        All distances of rows that may be drawn are below 2^exponent.
    """

    costs: Float32s
    exponent: int
    unit: float = 1.0

    @classmethod
    def from_codes(cls, codes: Int32s, costs: Float32s) -> Self:
        """Return the criterion for the classes of rows, shape (n_rows,), and the distances of classes."""
        present = np.unique(codes)
        return cls(codes, costs, math.frexp(float(costs[np.ix_(present, present)].max()))[1])

    def impure(self, frontier: Frontier) -> NDArray[np.bool_]:
        """Return whether a node contains two classes whose distance is not 0."""
        differs = np.zeros(frontier.n_nodes, np.bool_)
        costs_differ(frontier.nodes, self.truth, self.costs, differs)
        return differs

    def improve(self, frontier: Frontier, values: Floats, min_leaf: int, cuts: Cuts) -> None:
        """See `cut_by_costs`."""
        longest = int(frontier.sizes.max(initial=0))
        sums = SumRoom.allocate(len(values), longest, longest)._replace(places_missing=self.places_missing)
        n_classes = len(self.costs)
        room = CostRoom(
            *(sums, np.arange(longest, dtype=np.int32), np.empty(longest, np.int32)),
            *(np.empty((2, n_classes), np.int64), np.empty((n_classes, n_classes), np.int64)),
        )
        cut_by_costs(frontier.nodes, self.truth, self.costs, values, (min_leaf, self.exponent), room, cuts)

    def rank_categories(self, frontier: Frontier, which: NDArray[np.bool_], n_codes: int, values: Floats) -> None:
        """Replace codes by ranks: see `rank_by_distances`, which reads a node's block from the costs."""
        codes = self.truth[frontier.rows].astype(np.int32, copy=False)
        where = Where.from_cells(self.costs.reshape(-1), codes.astype(np.int64) * len(self.costs), codes)
        rank_by_distances(frontier.starts, where, frontier.weights, n_codes, which, values)


class CostRoom(NamedTuple):
    """Working arrays for the sums of a node.

    Attributes
    ----------
    sums
        The sums of each row and candidate.
    places
        0, 1, 2 ...: every row is at its own position.
    codes
        The class of each row of a node.
    mass
        The weight of each class among the rows that come before one, and among all observed rows or all rows.
    fixed
        The distances of classes in the node's fixed point.
    """

    sums: SumRoom
    places: Int32s
    codes: Int32s
    mass: Ints
    fixed: Ints


@kernel
def costs_differ(nodes: Nodes, codes: Int32s, costs: Float32s, differs: NDArray[np.bool_]) -> None:
    """differs[f] = whether C[y_i, y_j] > 0 for two rows of the node; as a rule the first row shows it."""
    starts, rows, _ = nodes
    is_there = np.empty(costs.shape[0], np.bool_)
    for node in range(starts.shape[0] - 1):
        is_there[:] = False
        differs[node] = False
        for r in range(starts[node], starts[node + 1]):
            code = codes[rows[r]]
            if is_there[code]:
                continue
            is_there[code] = True
            for other in range(costs.shape[0]):
                differs[node] |= is_there[other] and costs[code, other] > 0.0
            if differs[node]:
                break


@no_refcount
def cut_by_costs(
    nodes: Nodes,
    codes: Int32s,
    costs: Float32s,
    values: Floats,
    rules: tuple[int, int],
    room: CostRoom,
    cuts: Cuts,
) -> None:
    """Find the best of all cuts of all candidates, as `cut_distances` does, from the classes of each node's rows.

    ``rules`` are the least weight of a side, and the exponent of a bound of all distances. A node that has a cut keeps
    it unless another one gains more; its scale is a power of two, so its gain is converted without rounding.
    """
    starts, rows, weights = nodes
    min_leaf, exponent = rules
    for node in range(starts.shape[0] - 1):
        first, last = starts[node], starts[node + 1]
        size, of_node = last - first, weights[first:last]
        for i in range(size):
            room.codes[i] = codes[rows[first + i]]
        of_rows = room.codes[:size]
        rank_rows(room.places[:size], of_node, values, first, room.sums)
        most = digits(of_node)
        bits = distance_bits(exponent, largest_cost_exponent(of_rows, costs, room.mass), most)
        scale = scale_of(bits, most)
        for k in range(costs.shape[0]):
            for other in range(costs.shape[0]):
                room.fixed[k, other] = in_fixed_point(costs[k, other], scale)
        sum_classes(of_rows, of_node, room)
        if cuts.candidate[node] >= 0:
            cuts.gain[node] = math.ldexp(cuts.gain[node], int(bits))
        scan_distances(node, values, first, of_node, room.sums, min_leaf, cuts)
        if cuts.candidate[node] >= 0:
            cuts.gain[node] = math.ldexp(cuts.gain[node], -int(bits))


@no_refcount
def largest_cost_exponent(codes: Int32s, costs: Float32s, mass: Ints) -> np.int64:
    """Return the least e with C[y_i, y_j] < 2^e for all rows of a node, at least -126; overwrites mass[0]."""
    mass[0] = 0
    for code in codes:
        mass[0, code] = 1
    largest = np.int64(0)
    patterns = costs.view(np.int32)  # costs are not negative, so the larger one has the larger pattern
    for k in range(costs.shape[0]):
        for other in range(k):
            if mass[0, k] > 0 and mass[0, other] > 0:
                largest = max(largest, np.int64(patterns[k, other]))
    return np.int64(largest >> 23) - 126


@no_refcount
def sum_classes(codes: Int32s, weights: Int32s, room: CostRoom) -> None:
    """Fill the sums c_i, r_i and s_i of each row of a node and candidate: see `cut_distances`."""
    sums, before, among = room.sums, room.mass[0], room.mass[1]
    among[:] = 0
    for i in range(codes.shape[0]):
        among[codes[i]] += weights[i]
        sums.itself[i] = 0
    for i in range(codes.shape[0]):
        sums.whole[i] = inner_sum(room.fixed[codes[i]], among)
    for k in range(sums.n_observed.shape[0]):
        order, n = sums.order[k], sums.n_observed[k]
        before[:] = 0
        for e in range(n):
            i = order[e]
            sums.earlier[k, i] = inner_sum(room.fixed[codes[i]], before)
            before[codes[i]] += weights[i]
        for i in range(codes.shape[0]):
            sums.across[k, i] = sums.whole[i]
            if n < codes.shape[0]:
                sums.across[k, i] = inner_sum(room.fixed[codes[i]], before)


@no_refcount
def inner_sum(costs: Ints, mass: Ints) -> np.int64:
    """Return the sum of costs[l] mass[l]."""
    total = np.int64(0)
    for other in range(costs.shape[0]):
        total += costs[other] * mass[other]
    return total
