"""What is decided of a level: how large nodes are cut, how all below are numbered, and who gathers their rows.

See `distforest.growth.parts`, which has the drawing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Self

import numpy as np

from distforest.forest.table import LEAF, NodeTable
from distforest.growth.cuts.criteria import Gini, Variance
from distforest.growth.cuts_by_sums import CodeCut, cut_by_sums
from distforest.growth.grower import Levels
from distforest.growth.rowless import RowlessGrowth, SumsOfNodes, join_sums
from distforest.growth.sample_weights import check_heaviest

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from distforest.forest.category_sets import CategoryCodes
    from distforest.growth.cuts.sums import NodeSums
    from distforest.growth.cuts.table_sums import TableSums
    from distforest.sources.source import Int32s, Ints


class LargeNode(NamedTuple):
    """A node whose rows lie in the parts."""

    node: int


class NodeRun(NamedTuple):
    """Consecutive nodes of a level whose rows are in a pack, the first of which is ``node``; and its own number."""

    node: int
    n_nodes: int
    number: int
    pack: int


@dataclass(frozen=True)
class LevelOfTree:
    """The nodes of a level in their order, of which packs have runs.

    Attributes
    ----------
    tree, depth
        Number of the tree in the forest, and the depth of the level.
    nodes
        The nodes.
    next_node
        Number of the first node of the next level.
    n_runs
        Number of the next run.
    gathered
        About how many rows each pack has gathered.
    """

    tree: int
    depth: int
    nodes: tuple[LargeNode | NodeRun, ...]
    next_node: int
    n_runs: int
    gathered: tuple[int, ...]

    @classmethod
    def root(cls, tree: int, n_packs: int) -> Self:
        """The level of a tree's root."""
        return cls(tree, 0, (LargeNode(0),), 1, 0, (0,) * n_packs)

    @property
    def large(self) -> tuple[int, ...]:
        """The nodes whose rows lie in the parts."""
        return tuple(node.node for node in self.nodes if isinstance(node, LargeNode))

    @property
    def packs(self) -> tuple[int, ...]:
        """The packs that have nodes."""
        return tuple(sorted({node.pack for node in self.nodes if isinstance(node, NodeRun)}))


class WrittenNodes(NamedTuple):
    """Nodes that are written: their numbers, the arrays of a node table by name, columns and weights of projections.

    ``category_codes`` has the lists of nodes that cut categories; None if all columns hold numbers.
    """

    node: Int32s
    arrays: dict[str, np.ndarray]
    columns: Int32s
    weights: np.ndarray
    category_codes: CategoryCodes | None = None

    @classmethod
    def of(cls, node: Int32s, written: Levels) -> Self:
        """The nodes of one level."""
        arrays = {name: np.concatenate(values) for name, values in written.columns.items()}
        columns, weights = (np.concatenate(list(each)) for each in zip(*written.ragged, strict=True))
        codes = np.concatenate(written.category_codes) if written.category_codes else None
        return cls(node, arrays, columns, weights, codes)

    @property
    def is_cut(self) -> NDArray[np.bool_]:
        """Whether each node is cut."""
        return np.asarray(self.arrays["left"] != LEAF)

    def shifted(self, by: Ints) -> Self:
        """The same with other numbers of children; ``by`` has an entry for each node that is cut."""
        children = {name: self.arrays[name].copy() for name in ("left", "right")}
        for numbers in children.values():
            numbers[self.is_cut] += by.astype(np.int32)
        return self._replace(arrays={**self.arrays, **children})


class CutOfParts(NamedTuple):
    """The cut of a large node; for each child the pack that gathers it, or -1 if its rows stay in the parts."""

    node: int
    cut: CodeCut
    packs: tuple[int, int]


@dataclass(frozen=True)
class Decision:
    """What follows from the answers of a level.

    Attributes
    ----------
    again
        Nodes that must be asked once more, as no candidate so far has a cut; if there are any, nothing else is decided.
    level
        The next level.
    cuts
        The cuts of large nodes.
    first_child
        By run: number of the first child of its nodes.
    begun
        By pack: the runs that it gathers, each with its nodes.
    written
        The large nodes.
    n_packed
        How many rows of packs are in nodes of the next level.
    """

    again: tuple[int, ...]
    level: LevelOfTree
    cuts: tuple[CutOfParts, ...] = ()
    first_child: Mapping[int, int] | None = None
    begun: Mapping[int, tuple[NodeRun, ...]] | None = None
    written: WrittenNodes | None = None
    n_packed: int = 0

    def is_last(self, rows_of_pack: int) -> bool:
        """Whether one process may finish the tree: one pack has all its nodes, or few rows are left."""
        level = self.level
        are_all_gathered = bool(level.nodes) and not level.large and not self.begun
        return are_all_gathered and (len(level.packs) == 1 or self.n_packed <= rows_of_pack)


class AnswerOfPack(NamedTuple):
    """By run, how many of a pack's nodes are cut, and how many rows are in their children."""

    n_cut: Mapping[int, int]
    n_rows: int


def decide_level(
    rowless: RowlessGrowth,
    level: LevelOfTree,
    answers: Sequence[Sequence[SumsOfNodes]],
    packs: Sequence[AnswerOfPack],
    rows_of_pack: int,
) -> Decision:
    """Cut the large nodes of a level, and number the children of all its nodes.

    Parameters
    ----------
    answers
        What parts, or groups of them, answer of the large nodes; of some nodes more than once, with other candidates.
    packs
        What each pack answers that has nodes.
    rows_of_pack
        About how many rows a child may have that is gathered by a pack.

    Raises
    ------
    InputError
        The weights of a tree are too large; as `check_heaviest`.
    """
    growth, trees = rowless.of_tree(level.tree)
    n_cut = {run: n for one in packs for run, n in one.n_cut.items()}
    whole = [join_sums(of_groups) for of_groups in answers]
    written, again, below = Levels(1), list[int](), _Below(level, rows_of_pack)
    for node in level.nodes:
        if isinstance(node, NodeRun):
            below.add_run(node, n_cut[node.number])
            continue
        rows = _answered(node.node, whole)
        check_heaviest(rows.weight)
        written.next_node[:] = below.next_node
        try:
            cut = cut_by_sums(growth, trees, node.node, rows, level.depth, written)
        except _UnansweredError:
            again.append(node.node)
            continue
        if cut is not None:
            below.add_cut(node.node, cut, rows)
    if again:
        return Decision(tuple(again), level)
    of_level = WrittenNodes.of(np.array(level.large, np.int32), written) if level.large else None
    n_packed = sum(one.n_rows for one in packs)
    return Decision((), below.level, tuple(below.cuts), below.first_child, below.begun, of_level, n_packed)


class _UnansweredError(Exception):
    """The candidates of a node were not asked for yet."""


@dataclass(frozen=True)
class _AnsweredRows:
    """A node's rows in all parts, which have answered; see `distforest.growth.cuts_by_sums.SummedRows`."""

    weight: int
    n_rows: int
    least: np.ndarray
    greatest: np.ndarray
    answered: tuple[tuple[Int32s, NodeSums | TableSums], ...]
    held: None = None

    def sums(self, _criterion: Gini | Variance, columns: Int32s) -> NodeSums | TableSums:
        """The sums of some candidates."""
        for known, sums in self.answered:
            if np.array_equal(known, columns):
                return sums
        raise _UnansweredError

    def on_sides(self, cut: CodeCut) -> tuple[int, int]:
        """About how many rows go left and right, by their share of the weight."""
        columns, sums = self.answered[-1]
        filled = sums.filled(int(np.flatnonzero(columns == cut.column)[0]))
        n_right = round(self.n_rows * int(filled[cut.goes_right].sum()) / self.weight)
        return self.n_rows - n_right, n_right


def _answered(node: int, answers: Sequence[SumsOfNodes]) -> _AnsweredRows:
    """What was answered of a node."""
    of_node = [(one, one.nodes.index(node)) for one in answers if node in one.nodes]
    first, place = of_node[0]
    own = (int(first.weight[place]), int(first.n_rows[place]), first.least[place], first.greatest[place])
    return _AnsweredRows(*own, tuple((one.columns[at], one.sums[at]) for one, at in of_node))


class _Below:
    """The level below one that is decided, as far as its nodes are known."""

    def __init__(self, level: LevelOfTree, rows_of_pack: int) -> None:
        self._above, self._rows_of_pack = level, rows_of_pack
        self._nodes: list[LargeNode | NodeRun] = []
        self._sizes: dict[int, int] = {}
        self._gathered = list(level.gathered)
        self.next_node, self.cuts = level.next_node, list[CutOfParts]()
        self.first_child: dict[int, int] = {}

    @property
    def level(self) -> LevelOfTree:
        """The level."""
        above = self._above
        n_runs = above.n_runs + len(self._sizes)
        nodes = tuple(self._nodes)
        return LevelOfTree(above.tree, above.depth + 1, nodes, self.next_node, n_runs, tuple(self._gathered))

    @property
    def begun(self) -> dict[int, tuple[NodeRun, ...]]:
        """By pack: the runs that it gathers."""
        runs = [node for node in self._nodes if isinstance(node, NodeRun) and node.number in self._sizes]
        return {pack: tuple(run for run in runs if run.pack == pack) for pack in {run.pack for run in runs}}

    @property
    def _last_begun(self) -> NodeRun | None:
        """The last node, if it is a run that begins in this level."""
        last = self._nodes[-1] if self._nodes else None
        return last if isinstance(last, NodeRun) and last.number in self._sizes else None

    def add_run(self, run: NodeRun, n_cut: int) -> None:
        """Number the children of a run."""
        self.first_child[run.number] = self.next_node
        if n_cut:
            self._nodes.append(run._replace(node=self.next_node, n_nodes=2 * n_cut))
            self.next_node += 2 * n_cut

    def add_cut(self, node: int, cut: CodeCut, rows: _AnsweredRows) -> None:
        """Number the children of a large node, and choose where they go."""
        of_sides = rows.on_sides(cut)
        left, right = (self._add(self.next_node + side, n_rows) for side, n_rows in enumerate(of_sides))
        self.cuts.append(CutOfParts(node, cut, (left, right)))
        self.next_node += 2

    def _add(self, node: int, n_rows: int) -> int:
        """Add a child of about ``n_rows`` rows; returns its pack, -1 if its rows stay in the parts."""
        if n_rows > self._rows_of_pack:
            self._nodes.append(LargeNode(node))
            return -1
        run = self._last_begun
        if run is not None and self._sizes[run.number] + n_rows <= self._rows_of_pack:
            run = self._nodes[-1] = run._replace(n_nodes=run.n_nodes + 1)
        else:
            run = NodeRun(node, 1, self._above.n_runs + len(self._sizes), int(np.argmin(self._gathered)))
            self._nodes.append(run)
        self._sizes[run.number] = self._sizes.get(run.number, 0) + n_rows
        self._gathered[run.pack] += n_rows
        return run.pack


def table_of_tree(decisions: Sequence[Decision], packs: Sequence[Sequence[WrittenNodes]]) -> NodeTable:
    """The node table of a tree, with thresholds of codes."""
    of_parts = [decision.written for decision in decisions if decision.written is not None]
    return joined_table([*of_parts, *(one for pack in packs for one in pack)])


def joined_table(written: Sequence[WrittenNodes]) -> NodeTable:
    """The node table of a tree whose nodes were written in any order."""
    levels = Levels(1)
    levels.tree = [np.concatenate([one.node for one in written]).astype(np.int64)]  # `table` orders by these
    levels.columns = {name: [one.arrays[name] for one in written] for name in written[0].arrays}
    levels.ragged = [(one.columns, one.weights) for one in written]
    levels.category_codes = [one.category_codes for one in written if one.category_codes is not None]
    levels.next_node[:] = len(levels.tree[0])
    return levels.table()
