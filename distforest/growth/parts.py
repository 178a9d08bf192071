"""Growth on parts: the rows lie in parts, of which no process holds all, and a tree is the one that grows in memory.

A level is a round of answers::

    part 0   sums of its rows in large nodes     +
    part 1   sums of its rows in large nodes     +
    part 2   sums of its rows in large nodes     = sums of all rows --> decide: the cuts, and
    pack 0   nodes whose rows it has: how many are cut -------------->  the numbers of all nodes
    pack 1   nodes whose rows it has: how many are cut -------------->  of the next level

    cuts     each part sends its rows to the children; a child whose rows fit is gathered by a pack
    numbers  each pack goes down the next level, by the grower as it is

Every function here is pure: what it returns follows from its arguments, which it does not change. So whoever runs them
may run them anywhere, and again. Cuts follow from sums by the functions of `distforest.growth.passes`; a sum over parts
is that of all rows, as sums are whole numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from distforest.forest.frontier import LEFT, RIGHT, Frontier
from distforest.forest.node_sums import class_counts_of
from distforest.forest.table import NodeTable, route
from distforest.growth.cuts.criteria import Gini
from distforest.growth.cuts.sums import RowBlock
from distforest.growth.cuts_by_sums import sums_of_none
from distforest.growth.level_decisions import Decision
from distforest.growth.rng import streams
from distforest.growth.rowless import RowlessGrowth, SumsOfNodes
from distforest.growth.sample_weights import check_heaviest
from distforest.sources.arrays import ArraySource
from distforest.sources.binned import MISSING_CODE
from distforest.sources.binned_table import BinnedTable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from distforest.sources.source import Float32s, Int32s, Ints

WALKED_CELLS = 1 << 22
"""Values of rows that walk to their leaves at once."""

OftenDrawn = np.ndarray
"""How often a tree drew each row of a part, shape (n_rows,), uint8 if that suffices."""


@dataclass(frozen=True)
class PartOfRows:
    """Consecutive rows.

    Attributes
    ----------
    n_before
        Number of rows of positive weight before them.
    codes
        Code of each value, shape (n_rows, n_columns), uint8.
    truth
        Class of each row, or its vector in fixed point.
    sample_weight
        The weight of each row as an integer; None: equal weights.
    categories
        Category of each column of categories, float32, shape (n_rows, n); None if all hold numbers.
    """

    n_before: int
    codes: NDArray[np.uint8]
    truth: Int32s | Ints
    sample_weight: Int32s | None = None
    categories: Float32s | None = None

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.codes)

    def __sizeof__(self) -> int:
        return object.__sizeof__(self) + sum(
            array.nbytes for array in (self.codes, self.truth, self.sample_weight, self.categories) if array is not None
        )

    def block(self, rows: Int32s, weights: Int32s) -> RowBlock:
        """Some rows with their in-bag weights."""
        categories = None if self.categories is None else self.categories.take(rows, axis=0)
        return RowBlock(self.codes.take(rows, axis=0), self.truth.take(rows, axis=0), weights, categories)


@dataclass(frozen=True)
class RowsOfNodes:
    """The rows of a part in the nodes of a level that are cut by sums, and those that leave for packs, by pack."""

    frontier: Frontier
    leaving: Mapping[int, Frontier]

    def __sizeof__(self) -> int:
        return object.__sizeof__(self) + sum(
            frontier.rows.nbytes + frontier.weights.nbytes for frontier in (self.frontier, *self.leaving.values())
        )


class Packet(NamedTuple):
    """Rows of a part for a pack: how many of each node, shape (n_nodes,), and the rows, node after node."""

    sizes: Ints
    block: RowBlock


class Walked(NamedTuple):
    """The leaf of each row of a part, shape (n_rows,); and the weight of each class in each node, if there are any."""

    leaves: Int32s
    class_counts: Int32s | None


def draw_part(part: PartOfRows, rowless: RowlessGrowth, tree: int) -> OftenDrawn:
    """How often a tree draws each row of a part."""
    present = slice(None) if part.sample_weight is None else np.flatnonzero(part.sample_weight)
    n_present = part.n_rows if isinstance(present, slice) else len(present)
    drawn = np.zeros(part.n_rows, np.int32)
    drawn[present] = rowless.sampling.of_part(rowless.growth.seed, tree, part.n_before, n_present)
    return drawn if drawn.max(initial=0) > np.iinfo(np.uint8).max else drawn.astype(np.uint8)


def weights_of_part(part: PartOfRows, drawn: OftenDrawn) -> Int32s:
    """In-bag weight of each row of a part; raises InputError as `check_heaviest`."""
    if part.sample_weight is None:
        return drawn.astype(np.int32)
    weights = drawn * part.sample_weight.astype(np.int64)
    check_heaviest(int(weights.sum()))
    return weights.astype(np.int32)


def rows_of_root(part: PartOfRows, drawn: OftenDrawn) -> RowsOfNodes:
    """The in-bag rows of a part, in the root."""
    return RowsOfNodes(Frontier.roots(weights_of_part(part, drawn)[None]), {})


def sums_of_part(
    part: PartOfRows, rowless: RowlessGrowth, tree: int, rows: RowsOfNodes, nodes: tuple[int, ...], attempt: int
) -> SumsOfNodes:
    """What the rows of a part answer of some of its nodes, whose candidates are those of an attempt."""
    growth, trees = rowless.of_tree(tree)
    numbers, keys = np.array(nodes, np.int32), np.empty(len(nodes), np.uint64)
    streams(growth.seed, np.repeat(trees, len(nodes)), numbers, keys)
    nobody = np.empty(0, np.int32)
    blank = Frontier(np.zeros(len(nodes), np.int64), numbers, np.zeros(len(nodes) + 1, np.int64), nobody, nobody)
    columns = growth.draw(blank, keys, attempt).columns.reshape(len(nodes), -1)
    bounds, places = np.iinfo(part.truth.dtype), {node: place for place, node in enumerate(rows.frontier.node.tolist())}
    shape = (len(nodes), *part.truth.shape[1:])
    least, greatest = np.full(shape, bounds.max, part.truth.dtype), np.full(shape, bounds.min, part.truth.dtype)
    weight, n_rows, sums = np.zeros(len(nodes), np.int64), np.zeros(len(nodes), np.int64), []
    for asked, node in enumerate(nodes):
        here = slice(*rows.frontier.starts[places[node] : places[node] + 2])
        own, weights = rows.frontier.rows[here], rows.frontier.weights[here]
        of_node = sums_of_none(rowless.criterion, columns[asked], growth.n_categories)
        if len(own):
            of_node.add(RowBlock(part.codes, part.truth, weights, part.categories), columns[asked], own)
            truth = part.truth[own]
            least[asked], greatest[asked] = truth.min(axis=0), truth.max(axis=0)
            weight[asked], n_rows[asked] = weights.sum(dtype=np.int64), len(own)
        sums.append(of_node)
    return SumsOfNodes(nodes, columns, least, greatest, weight, n_rows, tuple(sums))


def move_rows(part: PartOfRows, rows: RowsOfNodes, decision: Decision) -> RowsOfNodes:
    """The rows of a part in the children of their nodes."""
    cuts = {cut.node: cut for cut in decision.cuts}
    frontier, _ = rows.frontier.take(np.array([node in cuts for node in rows.frontier.node.tolist()], np.bool_))
    if not frontier.n_nodes:
        return RowsOfNodes(frontier, {})
    own = [cuts[node] for node in frontier.node.tolist()]
    side = np.empty(len(frontier.rows), np.int8)
    for place, one in enumerate(own):
        here = slice(*frontier.starts[place : place + 2])
        goes_right = one.cut.sides(part.codes, part.categories, frontier.rows[here])
        side[here] = np.where(goes_right, RIGHT, LEFT)
    left = np.array([one.cut.left for one in own], np.int32)
    below, packs = frontier.descend(side, left, left + np.int32(1)), np.array([one.packs for one in own]).reshape(-1)
    leaving = {pack: below.take(packs == pack)[0] for pack in np.unique(packs[packs >= 0]).tolist()}
    return RowsOfNodes(below.take(packs < 0)[0], leaving)


def packet_of(part: PartOfRows, rows: RowsOfNodes, pack: int) -> Packet:
    """The rows of a part that leave for a pack."""
    frontier = rows.leaving[pack]
    return Packet(frontier.sizes, part.block(frontier.rows, frontier.weights))


def walk_part(part: PartOfRows, rowless: RowlessGrowth, table: NodeTable, drawn: OftenDrawn) -> Walked:
    """Let every row of a part walk to its leaf, in bag or not; ``table`` has thresholds of codes."""
    leaves, step = np.empty(part.n_rows, np.int32), max(1, WALKED_CELLS // part.codes.shape[1])
    source, criterion = rowless.source, rowless.criterion
    numbers = source.numbers if isinstance(source, BinnedTable) else source
    for first in range(0, part.n_rows, step):
        here = slice(first, first + step)
        values = part.codes[here].astype(np.float32)
        if not numbers.is_complete:
            values[part.codes[here] == MISSING_CODE] = np.nan
        if isinstance(source, BinnedTable) and part.categories is not None:
            values[:, source.of_categories] = part.categories[here]
        rows = np.arange(len(values), dtype=np.int32)
        leaves[here] = route(table, ArraySource.of(values, source.is_complete), rows)[0]
    counts = None
    if isinstance(criterion, Gini):
        weights = weights_of_part(part, drawn)
        counts = class_counts_of(table, leaves[None], weights[None], part.truth, criterion.n_classes)
    return Walked(leaves, counts)
