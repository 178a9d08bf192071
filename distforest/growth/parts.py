"""Growth on parts: the rows are in parts, no process has all of them, and each tree is the same as in memory.

A level is a round of answers::

    part 0   tallies of its rows in large nodes     +
    part 1   tallies of its rows in large nodes     +
    part 2   tallies of its rows in large nodes     = those of all rows --> decide: the cuts, and
    pack 0   nodes whose rows it has: how many are cut -------------->  the numbers of all nodes
    pack 1   nodes whose rows it has: how many are cut -------------->  of the next level

    cuts     each part sends its rows to the children; a child whose rows fit is gathered by a pack
    numbers  each pack descends the next level, by the grower

Every function here is pure: its result depends only on its arguments, which it does not change. So these functions may
run anywhere, and again.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import TYPE_CHECKING, NamedTuple, Self

import numpy as np

from distforest.forest.frontier import LEFT, RIGHT, Frontier
from distforest.forest.node_sums import class_counts_of
from distforest.forest.node_table import LEAF, NodeTable, route
from distforest.growth.cuts.criteria import Tallied
from distforest.growth.cuts.sums import RowBlock
from distforest.growth.cuts.table_sums import TableSums
from distforest.growth.grower import Growth, Levels
from distforest.growth.rng import streams
from distforest.growth.row_blocks import (
    IN_PARTS,
    CodeCut,
    NodeExtent,
    NodesInMemory,
    check_by_sums,
    cut_by_sums,
    no_sums_of,
    truth_of_rows,
)
from distforest.growth.sample_weights import check_heaviest
from distforest.sources.arrays import ArraySource
from distforest.sources.binned import MISSING_CODE, BinnedSource
from distforest.sources.binned_table import BinnedTable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from distforest.growth.problem import Problem, Sampling
    from distforest.sources.source import Float32s, Int32s, Ints

WALKED_CELLS = 1 << 22
"""Number of values of rows that walk to their leaves at once."""

OftenDrawn = np.ndarray
"""Number of times that a tree drew each row of a part, shape (n_rows,), uint8 if that suffices."""

NO_PACK = -1
"""Number in place of the pack of a node whose rows stay in the parts."""


@dataclass(frozen=True)
class RowlessGrowth:
    """A growth without its rows, small enough to be sent to every part.

    Attributes
    ----------
    growth
        A growth whose source and whose criterion have no rows.
    sampling
        The sampling of rows, without the rows' weights.
    """

    growth: Growth
    sampling: Sampling

    @classmethod
    def from_problem(cls, problem: Problem) -> Self:
        """Remove the rows of a problem; raise InputError if its cuts do not follow from sums."""
        growth = problem.growth
        check_by_sums(growth, IN_PARTS)
        none = truth_of_rows(growth)[:0].copy()
        growth = replace(growth, criterion=growth.criterion.over(none, none))
        return cls(growth, replace(problem.sampling, sample_weights=None))

    @property
    def source(self) -> BinnedSource | BinnedTable:
        """The bins, without codes."""
        assert isinstance(self.growth.source, (BinnedSource, BinnedTable))  # noqa: S101  (`check_by_sums`)
        return self.growth.source

    def of_tree(self, tree: int) -> tuple[Growth, Ints]:
        """Return the growth of one tree, and its number as an array."""
        trees = np.array([tree], np.int64)
        return self.growth.of_trees(trees), trees


# --- parts ----------------------------------------------------------------------------------------------------


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
        Category of each column of categories, float32, shape (n_rows, n); None if all are numerical.
    """

    n_before: int
    codes: NDArray[np.uint8]
    truth: Int32s | Ints
    sample_weight: Int32s | None = None
    categories: Float32s | None = None

    def __sizeof__(self) -> int:
        arrays = self.codes, self.truth, self.sample_weight, self.categories
        return object.__sizeof__(self) + sum(array.nbytes for array in arrays if array is not None)


@dataclass(frozen=True)
class RowsOfNodes:
    """The rows of a part in the nodes of a level that are cut by sums, and those that leave for packs, by pack."""

    frontier: Frontier
    leaving: Mapping[int, Frontier]

    def __sizeof__(self) -> int:
        frontiers = self.frontier, *self.leaving.values()
        return object.__sizeof__(self) + sum(own.rows.nbytes + own.weights.nbytes for own in frontiers)


class NodeTally(NamedTuple):
    """The tally of some rows of a node: their extent, and the sums over the columns of its candidates."""

    columns: Int32s
    extent: NodeExtent
    sums: TableSums

    def joined(self, after: NodeTally) -> NodeTally:
        """Return the tally of these rows and of those of ``after``, which come after them."""
        return NodeTally(self.columns, self.extent.joined(after.extent), self.sums.joined(after.sums))


class Walked(NamedTuple):
    """The leaf of each row of a part, shape (n_rows,); and the weight of each class in each node, if there are any."""

    leaves: Int32s
    class_counts: Int32s | None


def draw_part(part: PartOfRows, rowless: RowlessGrowth, tree: int) -> OftenDrawn:
    """Return the number of times that a tree draws each row of a part."""
    drawn = np.zeros(len(part.codes), np.int32)
    present = np.ones(len(drawn), np.bool_) if part.sample_weight is None else part.sample_weight > 0
    n_present = int(np.count_nonzero(present))
    drawn[present] = rowless.sampling.of_part(rowless.growth.seed, tree, part.n_before, n_present)
    return drawn if drawn.max(initial=0) > np.iinfo(np.uint8).max else drawn.astype(np.uint8)


def weights_of_part(part: PartOfRows, drawn: OftenDrawn) -> Int32s:
    """Return the in-bag weight of each row of a part; raise InputError as `check_heaviest`."""
    if part.sample_weight is None:
        return drawn.astype(np.int32)
    weights = drawn * part.sample_weight.astype(np.int64)
    check_heaviest(int(weights.sum()))
    return weights.astype(np.int32)


def rows_of_root(part: PartOfRows, drawn: OftenDrawn) -> RowsOfNodes:
    """Return the in-bag rows of a part, in the root."""
    return RowsOfNodes(Frontier.roots(weights_of_part(part, drawn)[None]), {})


def tally_part(
    part: PartOfRows, rowless: RowlessGrowth, tree: int, rows: RowsOfNodes, nodes: tuple[int, ...], attempt: int
) -> dict[int, NodeTally]:
    """Return the tallies of the rows of a part in some of its nodes, whose candidates are those of an attempt."""
    growth, trees = rowless.of_tree(tree)
    numbers, keys, nobody = np.array(nodes, np.int32), np.empty(len(nodes), np.uint64), np.empty(0, np.int32)
    streams(growth.seed, np.repeat(trees, len(nodes)), numbers, keys)
    blank = Frontier(np.zeros(len(nodes), np.int64), numbers, np.zeros(len(nodes) + 1, np.int64), nobody, nobody)
    drawn = growth.draw(blank, keys, attempt).columns.reshape(len(nodes), -1)
    places = {node: place for place, node in enumerate(rows.frontier.node.tolist())}
    tallies = {}
    for node, columns in zip(nodes, drawn, strict=True):
        here = slice(*rows.frontier.starts[places[node] : places[node] + 2])
        own, weights, sums = rows.frontier.rows[here], rows.frontier.weights[here], no_sums_of(growth, columns)
        sums.add(RowBlock(part.codes, part.truth, weights, part.categories), columns, own)
        tallies[node] = NodeTally(columns, NodeExtent.from_truth(part.truth[own], weights), sums)
    return tallies


def join_tallies(answers: Sequence[Mapping[int, NodeTally]]) -> dict[int, NodeTally]:
    """Return the tallies of the rows of several parts together, in the order of the parts."""
    return {node: reduce(NodeTally.joined, (answer[node] for answer in answers)) for node in answers[0]}


def move_rows(part: PartOfRows, rows: RowsOfNodes, decision: Decision) -> RowsOfNodes:
    """Return the rows of a part in the children of their nodes."""
    nodes = rows.frontier.node.tolist()
    frontier, _ = rows.frontier.take(np.array([node in decision.cuts for node in nodes], np.bool_))
    if not frontier.n_nodes:
        return RowsOfNodes(frontier, {})
    cuts, side = [decision.cuts[node] for node in frontier.node.tolist()], np.empty(len(frontier.rows), np.int8)
    for place, cut in enumerate(cuts):
        here = slice(*frontier.starts[place : place + 2])
        side[here] = np.where(cut.sides(part.codes, part.categories, frontier.rows[here]), RIGHT, LEFT)
    left = np.array([cut.left for cut in cuts], np.int32)
    below, level = frontier.descend(side, left, left + np.int32(1)), decision.level
    of_runs = np.repeat([run.pack for run in level.runs], [run.n_nodes for run in level.runs])
    packs = of_runs[below.node - level.first_node]
    leaving = {pack: below.take(packs == pack)[0] for pack in np.unique(packs[packs != NO_PACK]).tolist()}
    return RowsOfNodes(below.take(packs == NO_PACK)[0], leaving)


def packet_of(part: PartOfRows, rows: RowsOfNodes, pack: int) -> NodesInMemory:
    """Return the rows of a part that leave for a pack."""
    frontier = rows.leaving[pack]
    whole = RowBlock(part.codes, part.truth, np.broadcast_to(np.int32(1), len(part.truth)), part.categories)
    return NodesInMemory(whole, frontier).laid()


def walk_part(part: PartOfRows, rowless: RowlessGrowth, table: NodeTable, drawn: OftenDrawn) -> Walked:
    """Walk every row of a part to its leaf, in bag or not; ``table`` has thresholds of codes."""
    leaves, step = np.empty(len(part.codes), np.int32), max(1, WALKED_CELLS // part.codes.shape[1])
    source, criterion = rowless.source, rowless.growth.criterion
    numbers = source.numbers if isinstance(source, BinnedTable) else source
    for first in range(0, len(leaves), step):
        here = slice(first, first + step)
        values = part.codes[here].astype(np.float32)
        if not numbers.is_complete:
            values[part.codes[here] == MISSING_CODE] = np.nan
        if isinstance(source, BinnedTable) and part.categories is not None:
            values[:, source.of_categories] = part.categories[here]
        rows = np.arange(len(values), dtype=np.int32)
        leaves[here] = route(table, ArraySource.from_values(values, source.is_complete), rows)[0]
    counts = None
    if isinstance(criterion, Tallied) and part.truth.ndim == 1:
        weights, n_classes = weights_of_part(part, drawn), criterion.impurity.n_sums
        counts = class_counts_of(table, leaves[None], weights[None], part.truth, n_classes)
    return Walked(leaves, counts)


# --- levels ---------------------------------------------------------------------------------------------------


class NodeRun(NamedTuple):
    """Consecutive nodes of a level whose rows are in one place.

    Attributes
    ----------
    node, n_nodes
        The number of the first node, and the number of nodes: a single one if its rows stay in the parts.
    pack
        The pack that has their rows; `NO_PACK`: these are in the parts.
    is_new
        Whether their rows leave the parts in this level.
    """

    node: int
    n_nodes: int = 1
    pack: int = NO_PACK
    is_new: bool = False


@dataclass(frozen=True)
class LevelOfTree:
    """The nodes of a level.

    Attributes
    ----------
    tree, depth
        Number of the tree in the forest, and the depth of the level.
    runs
        The nodes, in the order of their numbers.
    next_node
        Number of the first node of the next level.
    gathered
        Approximate number of rows that each pack has gathered.
    """

    tree: int
    depth: int
    runs: tuple[NodeRun, ...]
    next_node: int
    gathered: tuple[int, ...]

    @classmethod
    def root(cls, tree: int, n_packs: int) -> Self:
        """Return the level of a tree's root."""
        return cls(tree, 0, (NodeRun(0),), 1, (0,) * n_packs)

    @property
    def first_node(self) -> int:
        """Number of the first node."""
        return self.runs[0].node if self.runs else self.next_node

    @property
    def large(self) -> tuple[int, ...]:
        """The nodes whose rows are in the parts."""
        return tuple(run.node for run in self.runs if run.pack == NO_PACK)

    @property
    def packs(self) -> tuple[int, ...]:
        """The packs that have nodes."""
        return tuple(sorted({run.pack for run in self.runs if run.pack != NO_PACK}))

    @property
    def begun(self) -> frozenset[int]:
        """The packs that gather rows of this level."""
        return frozenset(run.pack for run in self.runs if run.is_new)

    def of_pack(self, pack: int) -> list[NodeRun]:
        """Return the runs of a pack."""
        return [run for run in self.runs if run.pack == pack]


@dataclass(frozen=True)
class Decision:
    """The result of the answers of a level.

    Attributes
    ----------
    again
        Nodes that must be tallied again, as no candidate so far has a cut; if there are any, nothing else is decided.
    level
        The next level.
    cuts
        The cuts of large nodes, by their number.
    written
        The large nodes.
    n_packed
        Number of rows of packs in nodes of the next level.
    """

    again: tuple[int, ...]
    level: LevelOfTree
    cuts: Mapping[int, CodeCut]
    written: WrittenNodes
    n_packed: int

    def is_last(self, rows_of_pack: int) -> bool:
        """Return whether one process may finish the tree: one pack has all its nodes, or few rows are left."""
        level = self.level
        are_all_gathered = bool(level.runs) and not level.large and not level.begun
        return are_all_gathered and (len(level.packs) == 1 or self.n_packed <= rows_of_pack)


class WrittenNodes(NamedTuple):
    """The numbers of some nodes, and their written parts; their children have no numbers yet."""

    node: Int32s
    levels: Levels

    def __sizeof__(self) -> int:
        return object.__sizeof__(self) + sum(array.nbytes for of in self.levels.columns.values() for array in of)


class AnswerOfPack(NamedTuple):
    """The number of nodes that are cut in each of a pack's runs, and the number of rows in their children."""

    n_cut: tuple[int, ...]
    n_rows: int


def decide_level(
    rowless: RowlessGrowth,
    level: LevelOfTree,
    answers: Sequence[Sequence[Mapping[int, NodeTally]]],
    packs: Sequence[AnswerOfPack],
    rows_of_pack: int,
) -> Decision:
    """Cut the large nodes of a level, and number the children of all its nodes.

    Parameters
    ----------
    answers
        For each attempt, the tallies of parts, or of groups of them, of the large nodes that are still open.
    packs
        The answer of each pack that has nodes.
    rows_of_pack
        Approximate largest number of rows of a child that a pack gathers.

    Raises
    ------
    InputError
        The weights of a tree are too large; as `check_heaviest`.
    """
    growth, trees = rowless.of_tree(level.tree)
    n_cut = {pack: iter(answer.n_cut) for pack, answer in zip(level.packs, packs, strict=True)}
    attempts = [join_tallies(of_groups) for of_groups in answers]
    written, again, cuts = Levels(1), list[int](), dict[int, CodeCut]()
    runs, next_node, gathered, n_last = list[NodeRun](), level.next_node, list(level.gathered), 0
    for run in level.runs:
        if run.pack != NO_PACK:
            n_below = 2 * next(n_cut[run.pack])
            runs += [NodeRun(next_node, n_below, run.pack)] if n_below else []
            next_node += n_below
            continue
        tallies = [attempt[run.node] for attempt in attempts if run.node in attempt]
        extent = tallies[0].extent
        check_heaviest(extent.weight)
        written.next_node[:] = next_node
        try:
            cut = cut_by_sums(growth, trees, run.node, extent, partial(_answered, tallies), level.depth, written)
        except _UnansweredError:
            again.append(run.node)
            continue
        if cut is None:
            continue
        cuts[run.node] = cut
        filled = tallies[-1].sums.filled(int(np.flatnonzero(tallies[-1].columns == cut.column)[0]))
        n_right = round(extent.n_rows * int(filled[cut.goes_right].sum()) / extent.weight)
        for n_rows in (extent.n_rows - n_right, n_right):  # approximately, by the share of the weight
            last = runs[-1] if runs else None
            if n_rows > rows_of_pack:
                runs.append(NodeRun(next_node))
            elif last is not None and last.is_new and n_last + n_rows <= rows_of_pack:
                runs[-1], n_last = last._replace(n_nodes=last.n_nodes + 1), n_last + n_rows
                gathered[last.pack] += n_rows
            else:
                pack, n_last = int(np.argmin(gathered)), n_rows
                runs.append(NodeRun(next_node, 1, pack, is_new=True))
                gathered[pack] += n_rows
            next_node += 1
    below = LevelOfTree(level.tree, level.depth + 1, tuple(runs), next_node, tuple(gathered))
    of_level = WrittenNodes(np.array(level.large, np.int32), written)
    return Decision(tuple(again), below, cuts, of_level, sum(answer.n_rows for answer in packs))


class _UnansweredError(Exception):
    """The candidates of a node have not been tallied yet."""


def _answered(tallies: Sequence[NodeTally], columns: Int32s) -> list[tuple[Ints, TableSums]]:
    """Return the sums of all candidates at once; raise _UnansweredError if they were not added up."""
    for tally in tallies:
        if np.array_equal(tally.columns, columns):
            return [(np.arange(len(columns)), tally.sums)]
    raise _UnansweredError


# --- packs ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PackOfNodes:
    """Nodes of a tree that one process has with all their rows; they are finished there.

    Attributes
    ----------
    nodes
        The nodes, whose numbers are known when their level is decided.
    n_cut
        Number of nodes of each run that were cut in the last level.
    written
        The levels so far.
    """

    nodes: NodesInMemory
    n_cut: tuple[int, ...]
    written: tuple[WrittenNodes, ...]

    def __sizeof__(self) -> int:
        frontier = self.nodes.frontier
        arrays = (*self.nodes.block, frontier.rows, frontier.weights, frontier.starts, frontier.node)
        written = sum(map(sys.getsizeof, self.written))
        return object.__sizeof__(self) + sum(array.nbytes for array in arrays if array is not None) + written

    def numbered(self, runs: Sequence[NodeRun]) -> NodesInMemory:
        """Return the nodes with the numbers of their runs."""
        numbers = [np.arange(run.node, run.node + run.n_nodes, dtype=np.int32) for run in runs if not run.is_new]
        node = np.concatenate([np.empty(0, np.int32), *numbers])
        return replace(self.nodes, frontier=replace(self.nodes.frontier, node=node))


def descend_pack(
    pack: PackOfNodes | None,
    rowless: RowlessGrowth,
    decision: Decision,
    number: int,
    packets: Sequence[NodesInMemory],
) -> PackOfNodes:
    """Descend the nodes of a pack by one level, with the nodes that it receives.

    Parameters
    ----------
    pack
        The pack; None: it had no nodes before.
    decision
        The decision on the level above.
    number
        The number of the pack.
    packets
        From each part, the rows of the nodes that the pack receives; empty if there are none.
    """
    level = decision.level
    growth, trees = rowless.of_tree(level.tree)
    runs, before = level.of_pack(number), () if pack is None else pack.written
    nodes = NodesInMemory.gathered([*([] if pack is None else [pack.numbered(runs)]), *packets])
    node, written = nodes.frontier.node, Levels(1)
    nodes = nodes.descend(growth, trees, level.depth, written)
    firsts = np.cumsum([0, *(run.n_nodes for run in runs[:-1])])
    n_cut = np.add.reduceat(written.columns["left"][-1] != LEAF, firsts, dtype=np.int64)
    own = replace(nodes, laid_at=None)  # a task must not change the result of another one
    return PackOfNodes(own, tuple(n_cut.tolist()), (*before, WrittenNodes(node, written)))


def finish_packs(packs: Sequence[PackOfNodes], rowless: RowlessGrowth, decision: Decision) -> PackOfNodes:
    """Finish the nodes of all packs that have any; return a pack of all written nodes."""
    level = decision.level
    growth, trees = rowless.of_tree(level.tree)
    pieces = [pack.numbered(level.of_pack(number)) for number, pack in zip(level.packs, packs, strict=True)]
    nodes, depth, next_node = NodesInMemory.gathered(pieces), level.depth, level.next_node
    written = [own for pack in packs for own in pack.written]
    while nodes.frontier.n_nodes:
        of_level, node = Levels(1), nodes.frontier.node
        of_level.next_node[:] = next_node
        nodes, depth = nodes.descend(growth, trees, depth, of_level), depth + 1
        written.append(WrittenNodes(node, of_level))
        next_node = int(of_level.next_node[0])
    return PackOfNodes(nodes, (), tuple(written))


def answer_of_pack(pack: PackOfNodes) -> AnswerOfPack:
    """Return the answer of a pack for the level that it has descended."""
    return AnswerOfPack(pack.n_cut, len(pack.nodes.frontier.rows))


def table_of_tree(decisions: Sequence[Decision], packs: Sequence[PackOfNodes]) -> NodeTable:
    """Return the node table of a tree whose packs are finished, with thresholds of codes.

    Children are numbered in the order of their parents, so their numbers depend only on which nodes are cut.
    """
    of_parts = [decision.written for decision in decisions if len(decision.written.node)]
    written, whole = [*of_parts, *(own for pack in packs for own in pack.written)], Levels(1)
    for own in written:
        whole.ragged += own.levels.ragged
        whole.category_codes += own.levels.category_codes
        for name, values in own.levels.columns.items():
            whole.columns.setdefault(name, []).extend(values)
    whole.tree = [np.concatenate([own.node for own in written]).astype(np.int64)]  # `table` sorts by these
    whole.next_node[:] = len(whole.tree[0])
    table = whole.table()
    left = np.full(len(table.left), LEAF, np.int32)
    is_cut = table.left != LEAF
    left[is_cut] = 1 + 2 * np.arange(np.count_nonzero(is_cut), dtype=np.int32)
    return replace(table, left=left, right=np.where(is_cut, left + np.int32(1), LEAF).astype(np.int32))
