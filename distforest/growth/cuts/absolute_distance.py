"""The mean pairwise distance |y - y'| of targets (SMERF, Eq. 1), by sums over their ranks.

With the rows of a set T in the order of their targets, W and S the sums of w_j and of w_j y_j over T, and W_< and S_<
those over the rows that come before a row i, ::

    sum over j in T of w_j |y_i - y_j| = y_i (2 W_< - W) - (2 S_< - S)

A scan of a candidate needs this sum for each row i over the rows that come before it in the candidate's order. A
Fenwick tree over the ranks of the node's targets keeps W_< and S_< while rows are added, so that a candidate costs
O(m log m) for m rows, whatever the number of pairs (Fenwick, A new data structure for cumulative frequency tables,
1994).

Each node reads its targets in fixed point, less the smallest, at its own scale. So every sum is exact, and a target
that is far from all others costs digits only in the nodes that contain it. The scan is that of
`distforest.growth.cuts.mean_distance`: if whole numbers are read without rounding, every cut is that of the matrix of
all z_ij bit for bit.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Self

import numpy as np

from distforest.errors import InputError
from distforest.growth.cuts.blocks import Where
from distforest.growth.cuts.category_orders import REFERENCES, rank_by_distances
from distforest.growth.cuts.criteria import Steady, compare_rows, furthest_of, median_of
from distforest.growth.cuts.mean_distance import SumRoom, scan_candidate
from distforest.growth.cuts.ordering import order_values
from distforest.growth.cuts.scan import Cuts
from distforest.jit import kernel, no_refcount
from distforest.sources.source import Float32s, Floats, Int32s, Ints

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from distforest.forest.frontier import Frontier, Nodes

MOST_TARGET_BITS = 52
"""Largest number of bits of the integers of targets."""

ONLY = np.int64(0)
"""Position of the single candidate in the working arrays of its sums."""

BATCH_ROWS = 1 << 16
"""Rows of nodes whose distances to reference rows are held at once; a larger node is a separate batch."""


@dataclass(frozen=True)
class AbsoluteDistance(Steady):
    """z_ij = |y_i - y_j|; gains in `Cuts` are distances."""

    targets: Floats  # the target y_i of each row, shape (n_rows,)
    unit: float = 1.0
    places_missing: bool = False  # as in `distforest.growth.cuts.criteria.Gini`

    @classmethod
    def from_targets(cls, vectors: Floats, weights: Int32s | None = None) -> Self:
        """Return the criterion for targets, shape (n_rows, 1); rows of weight 0 are absent.

        Raises
        ------
        InputError
            Targets differ by less than 1e-150 or by more than 1e150, so that sums of distances are not float64.
        """
        present = vectors if weights is None else vectors[weights > 0]
        span = float(present.max() / 2.0 - present.min() / 2.0) if present.size else 0.0
        if span and not 1e-150 < span < 1e150:
            where = f", with {furthest_of(vectors, median_of(present))}" if span > 1.0 else ""
            found = f"found a range of {2.0 * span:g}{where}"
            raise InputError(f"values of the targets must differ by 1e-150 to 1e150, {found}; correct or scale them")
        return cls(np.ascontiguousarray(vectors[:, 0]))

    def impure(self, frontier: Frontier) -> NDArray[np.bool_]:
        """Return whether a node contains two different targets."""
        differs = np.empty(frontier.n_nodes, np.bool_)
        compare_rows(frontier.starts, frontier.rows, self.targets, differs)
        return differs

    def cut(self, frontier: Frontier, values: Floats, min_leaf: int) -> Cuts:
        """Return the best cut of each node."""
        cuts, longest = Cuts.none(frontier.n_nodes), int(frontier.sizes.max(initial=0))
        sums = SumRoom.allocate(1, longest, longest)._replace(places_missing=self.places_missing)
        room = RankRoom(
            *(sums, np.empty(longest), np.empty(longest, np.int64), np.empty(longest, np.int64)),
            *(np.empty(longest, np.int32), np.empty((longest + 1, 2), np.int64)),
        )
        cut_by_ranks(frontier.nodes, self.targets, values, min_leaf, room, cuts)
        return cuts

    def rank_categories(self, frontier: Frontier, which: NDArray[np.bool_], n_codes: int, values: Floats) -> None:
        """Replace codes by ranks: see `rank_by_distances`, which gets only the distances to its reference rows."""
        starts = frontier.starts
        first = 0
        while first < frontier.n_nodes:
            last = max(first + 1, int(np.searchsorted(starts, starts[first] + BATCH_ROWS, side="right")) - 1)
            of_batch = slice(int(starts[first]), int(starts[last]))
            own, some = starts[first : last + 1] - starts[first], np.ascontiguousarray(which[:, first:last])
            if some.any():
                where = _distances_to_references(own, self.targets[frontier.rows[of_batch]])
                ranks = np.ascontiguousarray(values[:, of_batch])
                rank_by_distances(own, where, frontier.weights[of_batch], n_codes, some, ranks)
                values[:, of_batch] = ranks
            first = last


def _distances_to_references(starts: Ints, targets: Floats) -> Where:
    """Return the distances of each row of some nodes to their reference rows, as `rank_by_distances` reads them."""
    sizes = np.diff(starts)
    widths = np.repeat(np.minimum(sizes, REFERENCES), sizes)
    row_start = np.cumsum(widths) - widths
    cells, slot = np.empty(int(widths.sum()), np.float32), np.zeros(len(targets), np.int32)
    fill_references(starts, targets, row_start, cells, slot)
    return Where.from_cells(cells, row_start, slot)


class RankRoom(NamedTuple):
    """Working arrays for the sums of a node."""

    sums: SumRoom  # the sums of each row, for one candidate at a time
    # targets, fixed: the target of each row of a node, and the same in the node's fixed point
    targets: Floats
    fixed: Ints
    # by_target, rank: the rows in the order of their targets, and the place of each of them there
    by_target: Ints
    rank: Int32s
    # the Fenwick tree: sums of w and of w y; entry e has those of the ranks e - (e & -e) to e - 1
    tree: Ints


@kernel
def fill_references(starts: Ints, targets: Floats, row_start: Ints, cells: Float32s, slot: Int32s) -> None:
    """cells[row_start[i] + slot[j]] = |y_i - y_j| for the rows i of each node, and its reference rows j."""
    for node in range(starts.shape[0] - 1):
        first, size = starts[node], starts[node + 1] - starts[node]
        n_references = min(size, REFERENCES)
        for j in range(n_references):
            slot[first + j * size // n_references] = j
        for i in range(size):
            for j in range(n_references):
                other = targets[first + j * size // n_references]
                cells[row_start[first + i] + j] = np.float32(abs(targets[first + i] - other))


@no_refcount
def cut_by_ranks(nodes: Nodes, targets: Floats, values: Floats, min_leaf: int, room: RankRoom, cuts: Cuts) -> None:
    """Find the best of all cuts of all candidates, as `cut_distances` does, from the ranks of each node's targets."""
    starts, rows, weights = nodes
    for node in range(starts.shape[0] - 1):
        first, last = starts[node], starts[node + 1]
        size, of_node, sums = last - first, weights[first:last], room.sums
        for i in range(size):
            room.targets[i] = targets[rows[first + i]]
        bits = rank_targets(size, of_node, room)
        for k in range(values.shape[0]):
            of_candidate = values[k, first:last]
            sums.n_observed[0] = order_values(of_candidate, sums.order[0], sums.keys, sums.spare)
            sum_by_ranks(of_node, of_candidate, room)
            scan_candidate(node, (k, ONLY), of_candidate, of_node, sums, min_leaf, cuts)
        if cuts.candidate[node] >= 0:
            cuts.gain[node] = math.ldexp(cuts.gain[node], -int(bits))


@no_refcount
def rank_targets(size: int, weights: Int32s, room: RankRoom) -> np.int64:
    """Fill the ranks of a node's targets, the targets in fixed point, and s_i; return the exponent of the scale.

    The scale maps their range to 2^(b-1) ... 2^b, with the most bits b <= 52 for which 2^(b+1) (sum w)^2 < 2^63.
    """
    sums, m = room.sums, np.int64(0)
    order_values(room.targets[:size], room.by_target, sums.keys, sums.spare)
    least, largest = room.targets[room.by_target[0]], room.targets[room.by_target[size - 1]]
    for w in weights:
        m += w
    most = np.int64(MOST_TARGET_BITS)
    while most > 0 and 2.0 * m * m * 2.0**most >= 2.0**63:
        most -= 1
    bits = most - np.int64(math.frexp(largest - least)[1])
    total = np.int64(0)
    for e in range(size):
        i = room.by_target[e]
        room.rank[i] = e
        room.fixed[i] = np.int64(np.rint(math.ldexp(room.targets[i] - least, int(bits))))
        total += weights[i] * room.fixed[i]
    below, sum_below = np.int64(0), np.int64(0)
    for e in range(size):
        i = room.by_target[e]
        sums.itself[i] = 0
        sums.whole[i] = room.fixed[i] * (2 * below - m) - (2 * sum_below - total)
        below += weights[i]
        sum_below += weights[i] * room.fixed[i]
    return bits


@no_refcount
def sum_by_ranks(weights: Int32s, values: Floats, room: RankRoom) -> None:
    """Fill the sums c_i and r_i of each row of a node for a candidate: see `cut_distances`."""
    sums, tree, size = room.sums, room.tree, weights.shape[0]
    for e in range(size + 1):
        tree[e, 0] = 0
        tree[e, 1] = 0
    n, m, total = sums.n_observed[0], np.int64(0), np.int64(0)
    for e in range(n):
        i = sums.order[0, e]
        w, y, below, sum_below = np.int64(weights[i]), room.fixed[i], np.int64(0), np.int64(0)
        entry = np.int64(room.rank[i])
        while entry > 0:
            below += tree[entry, 0]
            sum_below += tree[entry, 1]
            entry &= entry - 1
        sums.earlier[0, i] = y * (2 * below - m) - (2 * sum_below - total)
        entry = np.int64(room.rank[i]) + 1
        while entry <= size:
            tree[entry, 0] += w
            tree[entry, 1] += w * y
            entry += entry & -entry
        m += w
        total += w * y
    below, sum_below = np.int64(0), np.int64(0)
    for e in range(size):
        i = room.by_target[e]
        sums.across[0, i] = sums.whole[i] if n == size else room.fixed[i] * (2 * below - m) - (2 * sum_below - total)
        if not np.isnan(values[i]):
            below += weights[i]
            sum_below += weights[i] * room.fixed[i]
