r"""TreeRank over pairs: the leaves of a tree, from left to right, rank pairs from similar to dissimilar.

The method is that of Clemencon and Vogel. A LeafRank parts cell (d, k), the k-th of depth d from the left. It is a
small tree with costs, each of whose leaves is called similar or dissimilar. The pairs in similar leaves go left, to
cell (d+1, 2k), the others right, to (d+1, 2k+1). The small tree is a part of the node table, and its leaves are
pointers to the two next cells::

    cell (d, k)        o                     nodes of the small tree, numbered after their cell
                     /   \
                    o     \
                   / \     \
    similar?      +   -     +                + : left child of the cell, - : its right child

Let F_s(C) be the share of all pairs of sign s that are in C. Then alpha(d, k) is the share of dissimilar pairs in the
cells to the left, and a part C of the cell adds Lambda(C) = F_-(cell) F_+(C) - F_+(cell) F_-(C) to the area under the
curve (section 3.1). The costs of a similar and a dissimilar pair are F_-(cell) : F_+(cell), so a leaf is called similar
exactly where its Lambda is positive: n_+(leaf) n_-(cell) > n_-(leaf) n_+(cell), in whole numbers. The score of cell
(d, k) is 1 - k / 2^d.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from distforest.forest.frontier import LEFT, RIGHT, Frontier
from distforest.forest.node_table import LEAF, NodeTable
from distforest.growth.cuts.search import Limits
from distforest.growth.cuts.two_classes import TwoClasses, even_costs
from distforest.growth.grower import Growth, LevelWatch, grow_levels, numbered, unwatched
from distforest.growth.pairs.sparse_search import growth_over
from distforest.growth.rng import streams
from distforest.jit import kernel
from distforest.sources.point_pairs import DISSIMILAR, OF_NUMBERS, SIMILAR
from distforest.sources.source import offsets, runs

if TYPE_CHECKING:
    from distforest.forest.category_sets import CategoryCodes
    from distforest.sources.point_pairs import PairColumns, PointPairs
    from distforest.sources.source import Floats, Int32s, Ints
    from distforest.sources.sparse_pairs import SparsePairs

    Codes = NDArray[np.uint8]

MIXED = 2
"""The verdict of a node of a small tree with leaves of both kinds below it."""

NO_CELL = -1.0
"""The score of a node that is no cell."""


class CellTree(NamedTuple):
    """A small tree for each cell, and for each pair the node of the small tree in which it ends, shape (m,)."""

    table: NodeTable
    ends: Int32s


class LeafRank(Protocol):
    """A way to part cells."""

    def part(
        self, cells: Frontier, names: Ints, pairs: PointPairs | SparsePairs, codes: Codes, counts: Ints
    ) -> CellTree:
        """Part cells by small trees, from whose ``names``, shape (n_cells,), their random numbers follow.

        ``codes`` has the class of each pair, ``counts`` the pairs of the two classes in each cell, shape (n_cells, 2).
        """


@dataclass(frozen=True)
class SmallTrees:
    """LeafRank by trees of small depth, whose cuts are scored with the costs of the cell."""

    growth: Growth  # how the small trees grow
    # whether their cuts are square, and so stand for two nodes each: see `distforest.growth.pairs.square_search`
    square: bool

    def part(
        self, cells: Frontier, names: Ints, pairs: PointPairs | SparsePairs, codes: Codes, counts: Ints
    ) -> CellTree:
        """Grow a small tree for each cell."""
        n = cells.n_nodes
        growth = growth_over(self.growth, pairs, TwoClasses(codes, even_costs(counts)))
        roots = Frontier(np.arange(n), np.zeros(n, np.int32), cells.starts, cells.rows, cells.weights)
        ends = np.zeros(len(codes), np.int32)

        def on_level(frontier: Frontier) -> None:
            ends[frontier.rows] = np.repeat(frontier.node, frontier.sizes)

        table = growth.grow_from(names, roots, on_level)
        if not self.square:
            return CellTree(table, ends[cells.rows])
        twice, place = doubled(table, pairs.columns)
        return CellTree(twice, place[table.tree_start[cells.place] + ends[cells.rows]])


def doubled(table: NodeTable, columns: PairColumns) -> tuple[NodeTable, Int32s]:
    r"""Replace square cuts by two plain ones each; also the new number of each node in its tree, shape (N,).

    ::

        separated by A at c?            max_c <= A
          no /     \ yes              yes /   \ no
         left       right            left    min_c <= A
                                              yes /   \ no
                                             right     left

    The maximum and the minimum of a coordinate are missing together. Cuts of other columns are plain already.
    """
    n_features = columns.n_features
    is_square = np.append(columns.kinds == OF_NUMBERS if columns.n_categories else np.ones(n_features, np.bool_), False)
    twice = np.zeros(len(table.left), np.int64)
    inner = np.flatnonzero(~table.is_leaf)
    twice[inner] = is_square[np.minimum(table.columns, n_features)]
    total = offsets(1 + twice)
    tree_start = total[table.tree_start]
    root = np.repeat(tree_start[:-1], table.tree_size)
    place = (total[:-1] - root).astype(np.int32)
    here, size = total[:-1], int(total[-1])
    second = here[twice == 1] + 1
    old_root = np.repeat(table.tree_start[:-1], table.tree_size)
    child = {name: place[old_root + getattr(table, name).clip(0)] for name in ("left", "right")}
    left, right = np.full(size, LEAF, np.int32), np.full(size, LEAF, np.int32)
    left[here[inner]], right[here[inner]] = child["left"][inner], child["right"][inner]
    right[second - 1] = place[twice == 1] + 1
    left[second], right[second] = child["right"][twice == 1], child["left"][twice == 1]
    some = [name for name in ("missing_right", "category_size") if getattr(table, name) is not None]
    names = ("threshold", "width", "gain", "n_rows", *some)
    arrays = {name: np.repeat(getattr(table, name), 1 + twice) for name in names}
    arrays["gain"][second] = 0.0
    if table.missing_right is not None:  # to the second node, and by it to the separated pairs
        arrays["missing_right"][second] = False
    read = np.repeat(table.columns, 1 + twice[inner])
    read[np.flatnonzero(np.isin(np.flatnonzero(arrays["width"]), second))] += n_features
    weights, codes = np.ones(len(read)), table.category_codes
    size_of_trees = np.diff(tree_start)
    return NodeTable(size_of_trees, left, right, columns=read, weights=weights, category_codes=codes, **arrays), place


@dataclass(frozen=True)
class Ranking:
    """How ranking trees grow."""

    leafrank: LeafRank  # the way a cell is parted
    limits: Limits  # when a cell is a leaf
    # A cell is a leaf if the cells to its left hold at least this share of the dissimilar pairs. So only the left part
    # of the curve is refined, where it matters. None: all cells are parted.
    optimise_fpr: float | None
    seed: int  # the forest's seed
    watch: LevelWatch = unwatched  # called for every level of cells

    def watched(self, watch: LevelWatch) -> Ranking:
        """Return a copy that calls ``watch`` for every level of cells."""
        return replace(self, watch=watch)

    def grow(
        self, trees: Ints, pairs: PointPairs | SparsePairs, codes: Codes, roots: Frontier
    ) -> tuple[NodeTable, dict[str, np.ndarray]]:
        """Grow the trees; also the score of each node, `NO_CELL` where it is no cell."""
        lists_categories = isinstance(self.leafrank, SmallTrees) and self.leafrank.growth.n_categories is not None
        cells = _Cells(len(trees), not pairs.is_complete, lists_categories)
        criterion = TwoClasses(codes, np.ones((len(trees), 2)))
        parting = _PartingCells(self, trees, pairs, criterion, cells)
        grow_levels(roots, parting, self.watch)
        table, scores = parting.written.table()
        return table, {"scores": scores}


class CellSplits(NamedTuple):
    """How some cells are parted."""

    is_parted: NDArray[np.bool_]  # whether each cell is parted, shape (n_cells,)
    side: NDArray[np.int8]  # side to which each pair goes, shape (m,)
    verdicts: NDArray[np.int8]  # side to which each node of the small trees sends pairs, or `MIXED`, shape (N,)
    table: NodeTable  # the small trees

    @classmethod
    def none(cls) -> CellSplits:
        """The splits of no cells."""
        ints, floats, small = np.empty(0, np.int32), np.empty(0), np.empty(0, np.int8)
        total, flags = np.empty(0, np.int64), np.empty(0, np.bool_)
        table = NodeTable(total, ints, ints, floats, ints, ints, floats, floats, total, missing_right=flags)
        return cls(flags, small, small, table)


@kernel
def merge_verdicts(tree_start: Ints, left: Int32s, right: Int32s, verdicts: NDArray[np.int8]) -> None:
    """verdicts[node] = verdict of both its children, or `MIXED`; those of leaves stay. Children come after parents."""
    for tree in range(tree_start.shape[0] - 1):
        root = tree_start[tree]
        for node in range(tree_start[tree + 1] - 1, root - 1, -1):
            if left[node] >= 0:
                verdict = verdicts[root + left[node]]
                verdicts[node] = verdict if verdict == verdicts[root + right[node]] else MIXED


@dataclass
class _Cells:
    """The cells written so far, each with the small tree that parts it.

    ``learns_missing`` says whether the small trees learn where pairs go that lack a value, ``lists_categories`` whether
    they cut categories.
    """

    n_trees: int
    learns_missing: bool
    lists_categories: bool
    tree: list[Ints] = field(default_factory=list)
    columns: dict[str, list[np.ndarray]] = field(default_factory=dict)
    ragged: list[tuple[Int32s, Floats]] = field(default_factory=list)
    category_codes: list[CategoryCodes] = field(default_factory=list)
    next_node: Ints = field(init=False)

    def __post_init__(self) -> None:
        self.next_node = np.ones(self.n_trees, np.int64)

    def add(self, frontier: Frontier, scores: Floats, is_cut: NDArray[np.bool_], parts: CellSplits) -> Int32s:
        """Write a level's cells, and the small trees of cut ones; return the numbers of their left children."""
        cells = np.flatnonzero(is_cut)
        table = parts.table
        of = np.repeat(np.arange(len(table.tree_size)), table.tree_size)
        kept = np.flatnonzero((parts.verdicts == MIXED) & parts.is_parted[of]) if len(of) else np.empty(0, np.int64)
        of = (np.cumsum(parts.is_parted) - 1)[of[kept]]  # number of the cell among those that are cut
        is_root = kept == np.repeat(table.tree_start[:-1][parts.is_parted], np.bincount(of, minlength=len(cells)))
        tree = frontier.tree[cells]
        below = numbered(self.next_node, tree[of], (~is_root).astype(np.int64))
        number = np.where(is_root, frontier.node[cells][of].astype(np.int64), below)
        left = numbered(self.next_node, tree, np.full(len(cells), 2)).astype(np.int32)
        pointers = np.zeros(len(table.left), np.int64)
        pointers[kept] = number
        of_kept: dict[str, np.ndarray] = {
            "left": self._pointed(parts, table.left, kept, left[of], pointers),
            "right": self._pointed(parts, table.right, kept, left[of], pointers),
            "threshold": table.threshold[kept],
            "width": table.width[kept],
            "gain": table.gain[kept],
            **self._listed(table, kept),
        }
        if self.learns_missing and table.missing_right is not None:
            of_kept["missing_right"] = table.missing_right[kept]
        leaves = frontier.node[~is_cut]
        level = {
            "number": np.append(leaves.astype(np.int64), number),
            "scores": np.append(scores[~is_cut], np.where(is_root, scores[cells][of], NO_CELL)),
        }
        for name, values in of_kept.items():
            uncut = LEAF if name in {"left", "right"} else 0
            level[name] = np.append(np.full(len(leaves), uncut, values.dtype), values)
        self.tree.append(np.append(frontier.tree[~is_cut], tree[of]))
        for name, values in level.items():
            self.columns.setdefault(name, []).append(values)
        self.ragged.append(table.projections(kept)[2:])
        return left

    def _pointed(self, parts: CellSplits, child: Int32s, kept: Ints, left: Int32s, pointers: Ints) -> Ints:
        """Number to which each kept node points: a child that is not `MIXED` is replaced by a child of the cell."""
        root = np.repeat(parts.table.tree_start[:-1], parts.table.tree_size)[kept]
        children = root + child[kept]
        verdicts = parts.verdicts[children]
        return np.where(verdicts == MIXED, pointers[children], left + (verdicts == RIGHT))

    def _listed(self, table: NodeTable, nodes: Ints) -> dict[str, Int32s]:
        """How many categories some nodes of small trees list, whose codes are kept; empty if none cuts categories."""
        if not self.lists_categories:
            return {}
        if table.category_size is None or table.category_codes is None:  # there was no cell to part
            return {"category_size": np.zeros(len(nodes), np.int32)}
        self.category_codes.append(table.category_codes[runs(offsets(table.category_size), nodes)[1]])
        return {"category_size": table.category_size[nodes]}

    def table(self) -> tuple[NodeTable, Floats]:
        """Assemble the node table, with ``n_rows`` still 0, and the scores of its cells."""
        tree = np.concatenate(self.tree)
        columns = {name: np.concatenate(values) for name, values in self.columns.items()}
        order = np.lexsort((columns.pop("number"), tree))
        _, entry = runs(offsets(columns["width"]), order)
        scores = columns.pop("scores")[order]
        codes = None
        if self.lists_categories:
            codes = np.concatenate([np.empty(0, np.uint16), *self.category_codes])
            codes = codes[runs(offsets(columns["category_size"]), order)[1]]
        columns = {name: values[order] for name, values in columns.items()}
        for name in ("left", "right"):
            columns[name] = columns[name].astype(np.int32)
        table = NodeTable(
            tree_size=self.next_node.copy(),
            **columns,
            n_rows=np.zeros(len(order), np.int64),
            columns=np.concatenate([c for c, _ in self.ragged])[entry],
            weights=np.concatenate([w for _, w in self.ragged])[entry],
            category_codes=codes,
        )
        return table, scores


@dataclass
class _PartingCells:
    """The parting of cells by a LeafRank, level by level, with the state of the current level."""

    ranking: Ranking
    trees: Ints
    pairs: PointPairs | SparsePairs
    criterion: TwoClasses
    written: _Cells
    # cells, scores, before: the cells of the level, the score of each, and the number of dissimilar pairs in the cells
    # to its left
    cells: Frontier = field(init=False)
    scores: Floats = field(init=False)
    before: Ints = field(init=False)
    counts: Ints = field(init=False)  # pairs of the two classes in each open cell, shape (n_open, 2)
    parts: CellSplits = field(init=False)  # how the open cells are parted
    totals: Ints = field(init=False)  # pairs of the two classes in each tree, shape (n_trees, 2)

    def open(self, frontier: Frontier, depth: int) -> NDArray[np.bool_]:
        """Which cells are within the limits and have few enough dissimilar pairs to their left."""
        counts = self.criterion.counts(frontier)
        if depth:
            left = counts[::2, DISSIMILAR]  # a left child has the score of its parent, a right one comes after it
            self.before = np.stack([self.before, self.before + left], axis=1).reshape(-1)
            self.scores = np.stack([self.scores, self.scores - 0.5**depth], axis=1).reshape(-1)
        else:
            self.totals, self.before, self.scores = counts, np.zeros(len(counts), np.int64), np.ones(len(counts))
        is_open = self.ranking.limits.open(frontier, depth, self.criterion)
        if self.ranking.optimise_fpr is not None:
            is_open &= self.before < self.ranking.optimise_fpr * self.totals[frontier.tree, DISSIMILAR]
        self.cells, self.counts = frontier, counts[is_open]
        return is_open

    def part(self, frontier: Frontier) -> tuple[NDArray[np.bool_], NDArray[np.int8]]:
        """Which cells have a small tree with leaves of both kinds; also the side of each pair."""
        self.parts = self._parted(frontier) if frontier.n_nodes else CellSplits.none()
        return self.parts.is_parted, self.parts.side

    def _parted(self, cells: Frontier) -> CellSplits:
        """Part some cells, and send their pairs left or right."""
        keys = np.empty(cells.n_nodes, np.uint64)
        streams(self.ranking.seed, self.trees[cells.tree], cells.node, keys)
        names = (keys >> np.uint64(2)).astype(np.int64)  # the number of a small tree follows from the cell's stream
        codes, counts = self.criterion.codes, self.counts
        table, ends = self.ranking.leafrank.part(cells, names, self.pairs, codes, counts)
        leaf = table.tree_start[cells.place] + ends
        size, weights = len(table.left), cells.weights
        of_class = (codes[cells.rows] == code for code in (SIMILAR, DISSIMILAR))
        sums = [np.bincount(leaf[rows], weights[rows], size) for rows in of_class]
        similar, dissimilar = (np.rint(n).astype(np.int64) for n in sums)
        of = np.repeat(np.arange(cells.n_nodes), table.tree_size)
        lambdas = similar * counts[of, DISSIMILAR] - dissimilar * counts[of, SIMILAR]
        verdicts = np.where(lambdas > 0, LEFT, RIGHT).astype(np.int8)
        side = verdicts[leaf]
        merge_verdicts(table.tree_start, table.left, table.right, verdicts)
        return CellSplits(verdicts[table.tree_start[:-1]] == MIXED, side, verdicts, table)

    def write(self, is_parted: NDArray[np.bool_], frontier: Frontier, side: NDArray[np.int8]) -> Frontier:
        """Write the cells of the level, each with the small tree that parts it; see `_Cells.add`."""
        left = self.written.add(self.cells, self.scores, is_parted, self.parts)
        self.before, self.scores = self.before[is_parted], self.scores[is_parted]
        return frontier.descend(side, left, left + np.int32(1))
