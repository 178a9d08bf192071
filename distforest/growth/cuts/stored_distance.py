"""The mean pairwise distance from a matrix that does not fit into memory: the cuts of `mean_distance`, bit for bit.

A cut needs only two sums of the matrix for each row and candidate, c_i and r_i of
`distforest.growth.cuts.mean_distance.cut_distances`, and a row of the matrix adds only to its own sums. So the matrix
is passed over block by block, in the order of its file, whatever node or tree a row is in::

    rows 0 to 99 of the matrix     tree 0, node 1  [ 3 8 40 ... ]    ->  c_3 r_3, c_8 r_8, c_40 r_40      does not fit
                                   tree 0, node 2  [ 0 5 77 ... ]    ->  c_0 r_0, c_5 r_5, c_77 r_77      does not fit
                                   tree 1, node 4  [ 2 5 9  ... ]    ->  z_2., z_5., z_9. of its block    fits
    rows 100 to 199                ...

- A node whose block of distances does not fit is cut by its sums.
- A node whose block fits is gathered once. Its descendants are cut in memory, by `MeanDistance`.

Sums are whole numbers at the node's own scale, so that blocks of any size give the same bits. The scale is guessed from
two of the node's rows, as in memory. If the guess proves too small, a second pass follows over the rows of that node.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Self

import numpy as np

from distforest.growth.cuts.blocks import PACKED_CELLS, Where, pack_rows
from distforest.growth.cuts.criteria import Steady
from distforest.growth.cuts.mean_distance import (
    MeanDistance,
    SumRoom,
    digits,
    distance_bits,
    exponent_of_rows,
    largest_exponent,
    rank_rows,
    rows_differ,
    scale_of,
    scan_distances,
    sum_long_rows,
)
from distforest.growth.cuts.scan import Cuts
from distforest.jit import no_refcount
from distforest.sources.arrays import release_pages
from distforest.sources.mapped_rows import spans

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from distforest.forest.frontier import Frontier
    from distforest.sources.source import Floats, Int32s

LARGE = -1
"""Number in place of the pack of a node whose block does not fit."""

RESERVE_SHARE = 8
"""Inverse of the largest share of the budget that is kept free, to pack blocks again when half of them is old."""


@dataclass(frozen=True)
class DistancePasses:
    """Passes over a matrix of distances, ``block_rows`` rows at a time, for nodes of any number of trees at once."""

    mapped: MeanDistance
    block_rows: int

    def over(self, frontier: Frontier) -> Iterator[tuple[int, int]]:
        """Pass over the rows of some nodes: see `distforest.sources.mapped_rows.spans`."""
        distances, is_wanted = self.mapped.distances, np.zeros(len(self.mapped.distances), np.bool_)
        is_wanted[frontier.rows] = True
        return spans(distances, np.flatnonzero(is_wanted), self.block_rows)

    def packed(self, frontier: Frontier) -> MeanDistance:
        """Return the criterion in memory for some nodes and those below them, whose blocks are gathered in one pass."""
        cells = np.empty(int((frontier.sizes**2).sum()), np.float32)
        where, n_packed = self.mapped.where(frontier), np.zeros(frontier.n_nodes, np.int64)
        for _, last_row in self.over(frontier):
            pack_rows(last_row, frontier.starts, frontier.rows, where, n_packed, cells)
        return self.mapped.holding(frontier, cells)

    def impure(self, frontier: Frontier) -> NDArray[np.bool_]:
        """Return whether two pairs of a node differ in their distance; a pass that ends when all do."""
        differs, where = np.zeros(frontier.n_nodes, np.bool_), self.mapped.where(frontier)
        row = np.empty(frontier.sizes.max(), np.float32)
        for span in self.over(frontier):
            for node in np.flatnonzero(~differs).tolist():
                first, last = frontier.starts[node], frontier.starts[node + 1]
                begin, end = np.searchsorted(frontier.rows[first:last], span)
                differs[node] = rows_differ(first, last, begin, end, where, row)
            if differs.all():
                break
        return differs

    def cut(self, frontier: Frontier, values: Floats, min_leaf: int) -> Cuts:
        """Return the best cut of each node, from its sums."""
        cuts, where = Cuts.none(frontier.n_nodes), self.mapped.where(frontier)
        nodes = [DistanceSums.begun(node, frontier, where, values, self.mapped) for node in range(frontier.n_nodes)]
        guessed = np.ones(frontier.n_nodes, np.bool_)
        while guessed.any():
            for span in self.over(frontier.take(guessed)[0]):
                for node in np.flatnonzero(guessed).tolist():
                    nodes[node].add(span, where)
            guessed = np.array([sums.is_repeated() for sums in nodes])
        for sums in nodes:
            sums.cut(values, min_leaf, cuts)
        return cuts

    def rank_categories(self, frontier: Frontier, which: NDArray[np.bool_], n_codes: int, values: Floats) -> None:
        """Replace codes by ranks, from a few rows of each node."""
        self.mapped.rank_categories(frontier, which, n_codes, values)
        release_pages(self.mapped.distances)


@dataclass
class DistanceSums:
    """The sums of one node over the rows that were passed so far."""

    # place, first, last: its position in the frontier, and the start and end of its rows there
    place: int
    first: int
    last: int
    # rows, weights: its rows, which ascend, and their weights
    rows: Int32s
    weights: Int32s
    # its sums; ``length`` and ``is_whole`` describe how its rows are read, see `distforest.growth.cuts.blocks`
    room: SumRoom
    length: int
    is_whole: bool
    # exponent, most, bits: the exponent of all distances, the most bits of an integer, and the exponent of the scale
    exponent: int
    most: int
    bits: int
    is_sure: bool  # whether the scale depends on all rows of the node
    largest: int | None = None  # the least e with |z_ij| < 2^e, if the scale proves too small; None while it has not

    @classmethod
    def begun(cls, place: int, frontier: Frontier, where: Where, values: Floats, criterion: MeanDistance) -> Self:
        """Start the sums; order the rows by each candidate, and guess the scale."""
        first, last = int(frontier.starts[place]), int(frontier.starts[place + 1])
        rows, weights = frontier.rows[first:last], frontier.weights[first:last]
        room = SumRoom.allocate(len(values), last - first, len(criterion.distances))
        room = room._replace(places_missing=criterion.places_missing)
        length, is_whole = rank_rows(where.slot[first:last], weights, values, first, room)
        most = int(digits(weights))
        guessed = largest_exponent(first, last, where, min(last - first, 2), room.gathered)
        bits = int(distance_bits(criterion.exponent, guessed, most))
        scale = criterion.exponent, most, bits
        return cls(place, first, last, rows, weights, room, length, is_whole, *scale, is_sure=last - first <= 2)

    def add(self, span: tuple[int, int], where: Where) -> None:
        """Fill the sums of the rows in a span of the matrix; once the scale has failed, find the right one."""
        begin, end = map(int, np.searchsorted(self.rows, span))
        of_node = self.first, self.last
        if self.largest is None:
            scale = (self.bits, self.most + self.is_sure)  # as in `cut_distances`
            if sum_span(*of_node, begin, end, where, self.is_whole, self.length, scale, self.room):
                return
            self.largest = -126
        self.largest = max(self.largest, int(exponent_of_rows(*of_node, begin, end, where, self.room.gathered)))

    def is_repeated(self) -> bool:
        """Return whether another pass must follow, with the right scale."""
        if self.largest is None:
            return False
        self.bits, self.largest = int(distance_bits(self.exponent, self.largest, self.most)), None
        self.is_sure = True
        return True

    def cut(self, values: Floats, min_leaf: int, cuts: Cuts) -> None:
        """Scan the sums for the node's best cut."""
        scan_distances(self.place, values, self.first, self.weights, self.room, min_leaf, cuts)
        if cuts.candidate[self.place] >= 0:
            cuts.gain[self.place] = math.ldexp(cuts.gain[self.place], -self.bits)


@dataclass(frozen=True)
class StoredDistance(Steady):
    """`MeanDistance` within a budget: nodes are cut by passes until their blocks fit."""

    passes: DistancePasses  # passes over the matrix, for nodes whose blocks do not fit
    budget: int  # bytes of distances that are in memory at once: a block of rows, and the packs
    packs: tuple[MeanDistance, ...] = ()  # criteria of nodes whose blocks are in memory
    # the number of the pack in which each row of each tree is, or `LARGE`, shape (n_trees * n_rows,); empty before the
    # first level
    pack_of: Int32s = field(default_factory=lambda: np.empty(0, np.int32))
    unit: float = 1.0

    @classmethod
    def from_criterion(cls, criterion: MeanDistance, budget: int, block_rows: int) -> StoredDistance:
        """Return the criterion for the cuts of ``criterion``, whose matrix is read ``block_rows`` rows at a time."""
        return cls(DistancePasses(criterion, block_rows), budget)

    def at(self, frontier: Frontier) -> Self:
        """Return the criterion with the blocks of further nodes in memory, the smallest first, as far as they fit."""
        number, packs = np.full(frontier.n_nodes, LARGE, np.int32), list[MeanDistance]()
        spare = self._reserve
        for which, criterion in self._groups(frontier):
            if isinstance(criterion, MeanDistance):
                number[which] = len(packs)
                some = frontier.take(which)[0]
                smaller = criterion.at(some) if 4 * int((some.sizes**2).sum()) <= spare else criterion
                spare -= 0 if smaller is criterion else _bytes_held(smaller)
                packs.append(smaller)
        fits = self._that_fit(frontier, number == LARGE, sum(map(_bytes_held, packs)))
        if fits.any():
            number[fits] = len(packs)
            packs.append(self.passes.packed(frontier.take(fits)[0]))
        matrix = self.passes.mapped
        pack_of = np.full((int(frontier.tree.max()) + 1) * len(matrix.distances), LARGE, np.int32)
        pack_of[matrix.entries(frontier)] = number[frontier.place]
        return replace(self, packs=tuple(packs), pack_of=pack_of)

    def impure(self, frontier: Frontier) -> NDArray[np.bool_]:
        """Return whether two pairs of a node differ in their distance."""
        differs = np.zeros(frontier.n_nodes, np.bool_)
        for which, criterion in self._groups(frontier):
            differs[which] = criterion.impure(frontier.take(which)[0])
        return differs

    def cut(self, frontier: Frontier, values: Floats, min_leaf: int) -> Cuts:
        """Return the best cut of each node."""
        cuts = Cuts.none(frontier.n_nodes)
        for which, criterion in self._groups(frontier):
            some, rows = frontier.take(which)
            own = values if isinstance(rows, slice) else np.compress(rows, values, axis=1)
            found = criterion.cut(some, own, min_leaf)
            cuts.candidate[which], cuts.threshold[which] = found.candidate, found.threshold
            cuts.gain[which], cuts.missing[which] = found.gain, found.missing
        return cuts

    def rank_categories(self, frontier: Frontier, which: NDArray[np.bool_], n_codes: int, values: Floats) -> None:
        """Replace codes by ranks: see `distforest.growth.cuts.category_orders.rank_by_distances`."""
        for of_group, criterion in self._groups(frontier):
            some, rows = frontier.take(of_group)
            own = values if isinstance(rows, slice) else np.compress(rows, values, axis=1)
            criterion.rank_categories(some, np.ascontiguousarray(which[:, of_group]), n_codes, own)
            values[:, rows] = own

    def _groups(self, frontier: Frontier) -> Iterator[tuple[NDArray[np.bool_], MeanDistance | DistancePasses]]:
        """Yield the nodes of each pack, and then those that do not fit, each with the criterion that cuts them."""
        first_rows = frontier.tree * len(self.passes.mapped.distances) + frontier.rows[frontier.starts[:-1]]
        number = self.pack_of[first_rows] if len(self.pack_of) else np.full(frontier.n_nodes, LARGE, np.int32)
        criteria: list[MeanDistance | DistancePasses] = [*self.packs, self.passes]
        for k, criterion in enumerate(criteria):
            which = number == (LARGE if criterion is self.passes else k)
            if which.any():
                yield which, criterion

    @property
    def _reserve(self) -> int:
        """Bytes that are kept free for blocks that are packed again."""
        return min(4 * PACKED_CELLS, self.budget // RESERVE_SHARE)

    def _that_fit(self, frontier: Frontier, are_large: NDArray[np.bool_], held: int) -> NDArray[np.bool_]:
        """Return which of the large nodes have blocks that fit beside ``held`` bytes.

        The smallest come first, as they save the most rows per byte from being read at every level.
        """
        passed = self.passes.block_rows * 4 * len(self.passes.mapped.distances)
        large = np.flatnonzero(are_large)
        large = large[np.argsort(frontier.sizes[large], kind="stable")]
        are_within = np.cumsum(4 * frontier.sizes[large] ** 2) <= self.budget - self._reserve - passed - held
        fits = np.zeros(frontier.n_nodes, np.bool_)
        fits[large[are_within]] = True
        return fits


def _bytes_held(pack: MeanDistance) -> int:
    """Return the bytes of the blocks of a pack."""
    return 0 if pack.packed is None else pack.packed.cells.nbytes


@no_refcount
def sum_span(
    first: int,
    last: int,
    begin: int,
    end: int,
    where: Where,
    is_whole: bool,
    length: int,
    scale: tuple[np.int64, np.int64],
    room: SumRoom,
) -> bool:
    """`sum_long_rows` for the rows begin to end - 1 of a node."""
    return sum_long_rows(first, last, begin, end, where, is_whole, length, scale_of(*scale), room)
