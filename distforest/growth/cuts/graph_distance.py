"""The mean pairwise distance in a graph (SMERF, Eq. 1), by sums over the links of a node.

With a the distance of two rows without a link, any sum over rows j of a set T is ::

    sum w_j z_ij = a sum w_j + sum over the links (i, j), j in T, of w_j (z_ij - a)

The first part depends only on weights, and the second one visits only links. So a candidate costs the order of the
node's rows and the node's links, whatever the number of pairs. The integers are those of
`distforest.growth.cuts.mean_distance` for the matrix, at the same scale, so every sum and every cut is the same bit for
bit.

Each level has its own links: those of the level above whose rows are still in one node. A row of a node is identified
by its position among the node's rows, so a node's links are only about its own rows, and sums over a small node read
little memory, wherever its rows are among all rows::

    rows of the node     3  5  6  9           links of row 3: to 5 and 9        place  1  3
    place                0  1  2  3           links of row 5: to 3              place  0
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple, Self

import numpy as np

from distforest.growth.cuts.criteria import Steady
from distforest.growth.cuts.earlier_links import CANDIDATE_LANES, add_earlier
from distforest.growth.cuts.mean_distance import (
    NEARBY_ROWS,
    ROWS_AHEAD,
    FixedPoint,
    SumRoom,
    digits,
    distance_bits,
    in_fixed_point,
    scale_of,
    scan_distances,
)
from distforest.growth.cuts.ordering import order_values
from distforest.growth.cuts.scan import Cuts
from distforest.jit import fetch, kernel, no_refcount
from distforest.sources.source import Float32s, Floats, Int32s, Ints, offsets

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from distforest.forest.frontier import Frontier
    from distforest.sources.graph_distances import GraphDistances


class GraphLinks(NamedTuple):
    """The links of each row of a level, or of each row of the graph."""

    begin: Ints  # start of each row's links, and at the end their number, shape (m + 1,)
    place: Int32s  # position of the other row in the node, or in the graph, ascending for each row, shape (n_links,)
    distance: Float32s  # the distance z_ij of each link, which is not that of rows without a link, shape (n_links,)


@dataclass(frozen=True)
class LevelLinks:
    """The links of a level, and its frontier."""

    links: GraphLinks
    frontier: Frontier

    def first_rows(self, some: Frontier) -> Ints:
        """Return the start, in the level, of the rows of each of some of its nodes, shape (n_nodes,)."""
        keys, wanted = (one.tree.astype(np.int64) << 32 | one.node for one in (self.frontier, some))
        first: Ints = self.frontier.starts[np.searchsorted(keys, wanted)]
        return first


@dataclass(frozen=True)
class GraphDistance(Steady):
    """z_ij from the links of a graph; gains in `Cuts` are distances."""

    of_graph: GraphLinks  # the links of all rows, sorted
    absent: float  # the distance of rows without a link
    exponent: int  # all distances are below 2^exponent
    level: LevelLinks | None = None  # the links of the current level
    unit: float = 1.0
    places_missing: bool = False  # as in `distforest.growth.cuts.criteria.Gini`

    @classmethod
    def from_graph(cls, graph: GraphDistances, largest: float) -> GraphDistance:
        """Return the criterion for a graph, with the ``largest`` absolute distance of rows that may be drawn."""
        links = GraphLinks(graph.stored.indptr, graph.stored.indices, graph.values)
        return cls(links, graph.absent, math.frexp(largest)[1])

    def at(self, frontier: Frontier) -> Self:
        """Return the criterion with the links of this level."""
        here, begin = LevelRows.from_frontier(frontier), np.zeros(len(frontier.rows) + 1, np.int64)
        if self.level is None:
            place = np.full(len(self.of_graph.begin) - 1, -1, np.int32)
            count_root_links(here, self.of_graph, place, begin)
            begin = offsets(begin[:-1])
            links = GraphLinks(begin, np.empty(begin[-1], np.int32), np.empty(begin[-1], np.float32))
            take_root_links(here, self.of_graph, place, links)
            return replace(self, level=LevelLinks(links, frontier))
        above, n_links = self.level, len(self.level.links.place)
        moved = np.empty(len(above.frontier.rows), np.int32)
        taken = GraphLinks(begin, np.empty(n_links + 1, np.int32), np.empty(n_links + 1, np.float32))
        follow_links(here, LevelRows.from_frontier(above.frontier), above.links, moved, taken)
        links = GraphLinks(begin, taken.place[: begin[-1]], taken.distance[: begin[-1]])
        return replace(self, level=LevelLinks(links, frontier))

    def impure(self, frontier: Frontier) -> NDArray[np.bool_]:
        """Return whether two pairs of a node differ in their distance."""
        assert self.level is not None  # noqa: S101  (the grower calls `at` first)
        differs = np.zeros(frontier.n_nodes, np.bool_)
        links_differ(frontier.starts, self.level.first_rows(frontier), self.level.links, differs)
        return differs

    def cut(self, frontier: Frontier, values: Floats, min_leaf: int) -> Cuts:
        """Return the best cut of each node."""
        assert self.level is not None  # noqa: S101  (the grower calls `at` first)
        cuts, longest = Cuts.none(frontier.n_nodes), int(frontier.sizes.max(initial=0))
        first, begin = self.level.first_rows(frontier), self.level.links.begin
        most = int((begin[first + frontier.sizes] - begin[first]).max(initial=0))
        sums = SumRoom.allocate(len(values), longest, longest)._replace(places_missing=self.places_missing)
        absent = np.float32(self.absent)
        pattern = np.int64(absent.view(np.int32) & 0x7FFFFFFF)
        lanes, found = np.zeros((longest + 1, CANDIDATE_LANES), np.int32), np.empty(CANDIDATE_LANES, np.int64)
        room = GraphRoom(sums, np.empty(most, np.int64), lanes, found, absent, pattern, self.exponent)
        cut_graph(frontier.starts, first, self.level.links, frontier.weights, values, min_leaf, room, cuts)
        return cuts


class GraphRoom(NamedTuple):
    """Working arrays for the sums of a node, and constants of all nodes."""

    sums: SumRoom  # the sums of each row and candidate
    terms: Ints  # w_j (z_ij - a) of each link of a node, in fixed point
    # lanes, found: ranks and sums of some candidates, side by side, as `add_earlier` needs them
    lanes: Int32s
    found: Ints
    # absent, pattern: the distance a of rows without a link, and its bits without the sign
    absent: np.float32
    pattern: np.int64
    exponent: int  # all distances are below 2^exponent


# --- the links of a level ----------------------------------------------------------------------------------


class LevelRows(NamedTuple):
    """The nodes of a level: the start of their rows, the rows, and the tree of each node."""

    starts: Ints
    rows: Int32s
    tree: Ints

    @classmethod
    def from_frontier(cls, frontier: Frontier) -> LevelRows:
        """Return the nodes of a frontier."""
        return cls(frontier.starts, frontier.rows, frontier.tree)


@kernel
def count_root_links(here: LevelRows, graph: GraphLinks, place: Int32s, count: Ints) -> None:
    """count[r] = number of links of row r to rows of its root; ``place``, -1 for all rows, is restored."""
    for node in range(here.starts.shape[0] - 1):
        rows = here.rows[here.starts[node] : here.starts[node + 1]]
        for r in range(rows.shape[0]):
            place[rows[r]] = r
        for r in range(rows.shape[0]):
            found = 0
            for e in range(graph.begin[rows[r]], graph.begin[rows[r] + 1]):
                found += place[graph.place[e]] >= 0
            count[here.starts[node] + r] = found
        for r in range(rows.shape[0]):
            place[rows[r]] = -1


@kernel
def take_root_links(here: LevelRows, graph: GraphLinks, place: Int32s, links: GraphLinks) -> None:
    """Fill ``links``, whose ``begin`` is known, with the links of each root."""
    for node in range(here.starts.shape[0] - 1):
        rows = here.rows[here.starts[node] : here.starts[node + 1]]
        for r in range(rows.shape[0]):
            place[rows[r]] = r
        for r in range(rows.shape[0]):
            filled = links.begin[here.starts[node] + r]
            for e in range(graph.begin[rows[r]], graph.begin[rows[r] + 1]):
                other = place[graph.place[e]]
                if other >= 0:
                    links.place[filled], links.distance[filled] = other, graph.distance[e]
                    filled += 1
        for r in range(rows.shape[0]):
            place[rows[r]] = -1


@kernel
def follow_links(here: LevelRows, above: LevelRows, links: GraphLinks, moved: Int32s, taken: GraphLinks) -> None:
    """Fill ``taken`` with the ``links`` of the level above whose two rows are still in one node.

    Nodes are in the order of those that they were cut from, and rows keep theirs, so no row is looked up by its number:
    a node's children are found by walking down its rows. ``taken`` has room for one link more than there are above:
    links that were cut are written at the next free position, without a branch that could be mispredicted.

    ::

        above     3  5  6  9      here    5  9 | 3  6       moved    2  0  3  1      places in the level
    """
    node, filled, n_nodes = 0, np.int64(0), here.starts.shape[0] - 1
    for parent in range(above.starts.shape[0] - 1):
        first_child = node
        moved[above.starts[parent] : above.starts[parent + 1]] = -1
        while node < n_nodes and is_child(node, here, parent, above):
            follow_rows(node, here, parent, above, moved)
            node += 1
        for child in range(first_child, node):
            filled = follow_child(child, here, parent, above, links, moved, filled, taken)


@no_refcount
def is_child(node: int, here: LevelRows, parent: int, above: LevelRows) -> bool:
    """Return whether the rows of a node are rows of a node above; for a node without rows it does not matter."""
    if here.starts[node] == here.starts[node + 1]:
        return True
    first = here.rows[here.starts[node]]
    if here.tree[node] == above.tree[parent]:
        for r in range(above.starts[parent], above.starts[parent + 1]):
            if above.rows[r] == first:
                return True
    return False


@no_refcount
def follow_rows(node: int, here: LevelRows, parent: int, above: LevelRows, moved: Int32s) -> None:
    """moved[place above] = place here, of the rows of a node."""
    place = above.starts[parent]
    for r in range(here.starts[node], here.starts[node + 1]):
        while above.rows[place] != here.rows[r]:
            place += 1
        moved[place] = r


@no_refcount
def follow_child(
    node: int,
    here: LevelRows,
    parent: int,
    above: LevelRows,
    links: GraphLinks,
    moved: Int32s,
    filled: np.int64,
    taken: GraphLinks,
) -> np.int64:
    """Write the links of a node's rows, from position ``filled`` on; return the position after the last one."""
    first, last, start = here.starts[node], here.starts[node + 1], above.starts[parent]
    place = start
    for r in range(first, last):
        while above.rows[place] != here.rows[r]:
            place += 1
        for e in range(links.begin[place], links.begin[place + 1]):
            other = moved[start + links.place[e]]
            taken.place[filled], taken.distance[filled] = other - first, links.distance[e]
            filled += first <= other < last
        taken.begin[r + 1] = filled
    return filled


@kernel
def links_differ(starts: Ints, first: Ints, links: GraphLinks, differs: NDArray[np.bool_]) -> None:
    """differs[f] = whether two z_ij of the node differ, self pairs included: some are linked, not all alike."""
    for node in range(starts.shape[0] - 1):
        size = starts[node + 1] - starts[node]
        begin, end = links.begin[first[node]], links.begin[first[node] + size]
        differs[node] = begin < end and end - begin < size * size
        for e in range(begin + 1, end):
            if differs[node] or end - begin < size * size:
                break
            differs[node] = links.distance[e] != links.distance[begin]


# --- the search --------------------------------------------------------------------------------------------


@no_refcount
def cut_graph(
    starts: Ints,
    first_rows: Ints,
    links: GraphLinks,
    weights: Int32s,
    values: Floats,
    min_leaf: int,
    room: GraphRoom,
    cuts: Cuts,
) -> None:
    """Find the best of all cuts of all candidates, as `cut_distances` does, from the links of each node."""
    for node in range(starts.shape[0] - 1):
        first, last = starts[node], starts[node + 1]
        size, of_node = last - first, weights[first:last]
        rank_all(values, first, size, room.sums)
        begin = links.begin[first_rows[node] : first_rows[node] + size + 1]
        most = digits(of_node)
        bits = distance_bits(room.exponent, guessed_exponent(begin, links, room.pattern), most)
        fits = sum_links(begin, links, of_node, scale_of(bits, most), room)
        if not fits:
            bits = distance_bits(room.exponent, whole_exponent(begin, links, room.pattern), most)
            sum_links(begin, links, of_node, scale_of(bits, most), room)
        scan_distances(node, values, first, of_node, room.sums, min_leaf, cuts)
        if cuts.candidate[node] >= 0:
            cuts.gain[node] = math.ldexp(cuts.gain[node], -int(bits))


@no_refcount
def bits_of_distance(distances: Float32s, e: int) -> np.int64:
    """Return the bit pattern of a distance without its sign; a larger number has a larger pattern."""
    return np.int64(distances.view(np.int32)[e] & 0x7FFFFFFF)


@no_refcount
def largest_of_row(i: int, begin: Ints, links: GraphLinks, absent: int) -> tuple[np.int64, np.int64]:
    """Return the largest pattern of the distances of row i of a node, and its first position."""
    size = begin.shape[0] - 1
    largest, place, free = np.int64(0), np.int64(0), np.int64(0)
    for e in range(begin[i], begin[i + 1]):
        pattern = bits_of_distance(links.distance, e)
        if pattern > largest:
            largest, place = pattern, np.int64(links.place[e])
        free += links.place[e] == free  # the first position without a link, as positions ascend
    if free < size and (absent > largest or (absent == largest and free < place)):
        return np.int64(absent), free
    return largest, place


@no_refcount
def guessed_exponent(begin: Ints, links: GraphLinks, absent: int) -> np.int64:
    """Return the least e with |z_ij| < 2^e in the two rows that `largest_exponent` reads, at least -126."""
    size = begin.shape[0] - 1
    largest, farthest = largest_of_row(0, begin, links, absent)
    if size > 1:
        other, _ = largest_of_row(1 if size == 2 else farthest, begin, links, absent)
        largest = max(largest, other)
    return np.int64(largest >> 23) - 126


@no_refcount
def whole_exponent(begin: Ints, links: GraphLinks, absent: int) -> np.int64:
    """Return the least e with |z_ij| < 2^e in all rows of a node, at least -126."""
    size, largest = begin.shape[0] - 1, np.int64(0)
    for e in range(begin[0], begin[size]):
        largest = max(largest, bits_of_distance(links.distance, e))
    if begin[size] - begin[0] < size * size:
        largest = max(largest, np.int64(absent))
    return np.int64(largest >> 23) - 126


@no_refcount
def sum_links(begin: Ints, links: GraphLinks, weights: Int32s, fixed: FixedPoint, room: GraphRoom) -> bool:
    """Fill c_i, r_i and s_i of each row and candidate; return False if a distance of the node does not fit."""
    size, start, sums = begin.shape[0] - 1, begin[0], room.sums
    absent, m = np.int64(in_fixed_point(room.absent, fixed)), np.int64(0)
    for w in weights:
        m += w
    fits = begin[size] - start == size * size or abs(absent) >> fixed.most == 0
    for i in range(size):
        whole, own = np.int64(0), absent
        for e in range(begin[i], begin[i + 1]):
            j = links.place[e]
            value = np.int64(in_fixed_point(links.distance[e], fixed))
            fits = fits and abs(value) >> fixed.most == 0
            term = weights[j] * (value - absent)
            room.terms[e - start] = term
            whole += term
            if j == i:
                own = value
        sums.itself[i], sums.whole[i] = np.int32(weights[i] * own), absent * m + whole
    place = links.place[start : begin[size]]
    for first in range(0, sums.n_observed.shape[0], CANDIDATE_LANES):
        last = min(first + CANDIDATE_LANES, sums.n_observed.shape[0])
        sum_candidates(first, last, begin, place, room)
        for k in range(first, last):
            add_absent(k, weights, absent, room)
    return fits


@no_refcount
def rank_all(values: Floats, first: int, size: int, sums: SumRoom) -> None:
    """`rank_rows` for a node whose rows are at their own positions; unobserved rows come last, in any order."""
    for k in range(values.shape[0]):
        rank, order = sums.rank[k], sums.order[k]
        sums.n_observed[k] = order_values(values[k, first : first + size], order, sums.keys, sums.spare)
        for e in range(size):
            rank[order[e]] = e


@no_refcount
def sum_candidates(first: int, last: int, begin: Ints, place: Int32s, room: GraphRoom) -> None:
    """c_i = sum of terms over the rows j before i in the order of each candidate first to last - 1; r_i over all.

    Both omit the terms of rows without a link: see `add_absent`.
    """
    size, start, sums, lanes, found = begin.shape[0] - 1, begin[0], room.sums, room.lanes, room.found
    all_observed = True
    for k in range(first, last):
        for i in range(size):
            lanes[i, k - first] = sums.rank[k, i]
        lanes[size, k - first] = sums.n_observed[k]
        all_observed = all_observed and sums.n_observed[k] == size
    for i in range(size):
        if size > NEARBY_ROWS:
            ahead = min(i + ROWS_AHEAD, size - 1)
            for e in range(begin[ahead] - start, begin[ahead + 1] - start):
                fetch(lanes, np.int64(place[e]) * CANDIDATE_LANES)
        add_earlier(lanes, i, place, room.terms, begin[i] - start, begin[i + 1] - start, found)
        for k in range(first, last):
            sums.earlier[k, i] = found[k - first]
        if not all_observed:
            add_earlier(lanes, size, place, room.terms, begin[i] - start, begin[i + 1] - start, found)
            for k in range(first, last):
                sums.across[k, i] = found[k - first]


@no_refcount
def add_absent(k: int, weights: Int32s, absent: np.int64, room: GraphRoom) -> None:
    """Add a sum of w_j over the rows j before i in the order of candidate k to c_i, and over all observed to r_i."""
    sums, before = room.sums, np.int64(0)
    n, order = sums.n_observed[k], sums.order[k]
    earlier, is_far = sums.earlier[k], weights.shape[0] > NEARBY_ROWS
    for e in range(n):
        if is_far:
            ahead = order[min(e + ROWS_AHEAD, n - 1)]
            fetch(earlier, ahead)
            fetch(weights, ahead)
        i = order[e]
        earlier[i] += absent * before
        before += weights[i]
    if n < weights.shape[0]:
        for i in range(weights.shape[0]):
            sums.across[k, i] += absent * before
