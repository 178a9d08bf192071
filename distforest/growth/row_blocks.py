"""Blocks of rows: which trees grow over them, the sums of a pass over the rows of a node, and the resulting cut.

The grower cuts every node, wherever its rows are::

    all rows in memory     searched as usual, by a growth over this block (`NodesInMemory`)
    blocks elsewhere       sums[candidate, class, code] of each block, added up        -> where is the node cut?
                           [ least truth, all the weight ] [ greatest truth ]          -> may it be cut?

Sums are whole numbers, so blocks of any size lead to the same bits. `distforest.growth.passes` reads blocks on disk,
and `distforest.growth.parts` reads blocks on workers.

In memory, too, blocks pay off: the codes of a node's rows are scattered among those of all rows, and from some level on
each of them is read from memory, though all codes of a node would fit into the processor's cache. So every third level,
rows are laid out in the order of the nodes, without those of leaves::

    all rows      [ 0 1 2 3 4 5 6 7 8 9 ]      a node has rows 0 3 4 8, the next one 1 2 5 7 9
    laid          [ 0 3 4 8 | 1 2 5 7 9 ]      it has rows 0 to 3, the next one 4 to 8

Rows get other numbers and keep their order within a node, so the trees are identical.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from distforest.errors import InputError
from distforest.forest.frontier import LEFT, RIGHT, STAY, Frontier
from distforest.forest.node_table import LEAF, NodeTable
from distforest.growth.cuts.category_search import put_better
from distforest.growth.cuts.class_costs import ClassCosts
from distforest.growth.cuts.criteria import Tallied
from distforest.growth.cuts.histograms import N_CODES
from distforest.growth.cuts.random_cuts import side_criterion
from distforest.growth.cuts.scan import Cuts
from distforest.growth.cuts.sums import RowBlock
from distforest.growth.cuts.table_sums import TableSums
from distforest.growth.cuts.two_clusters import TwoClusters
from distforest.growth.draws.column_draws import Axis, CategoriesAlone, Oblique
from distforest.growth.grower import Growth, Levels, PartingByCuts, descend_level
from distforest.sources.arrays import ArraySource
from distforest.sources.binned import MISSING_CODE, BinnedSource
from distforest.sources.binned_table import BinnedTable, CategoryColumns, places_of
from distforest.sources.source import Int32s, Ints, RowSource, offsets, runs

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from distforest.growth.cuts.categories import CategorySums
    from distforest.growth.cuts.search import Limits
    from distforest.sources.source import Float32s, Floats, Projections

    SumsOfColumns = Callable[[Int32s], Iterable[tuple[Ints, TableSums]]]
    """The sums of a node's rows over some columns: some candidates at a time, by position, with their sums."""

BY_PASSES, IN_PARTS = "by passes", "in parts"
"""Names in messages of the growth of trees whose rows are on disk, or on several workers."""

LAID_LEVELS = 3
"""Number of levels after which rows are laid out again; a node then has at most eight descendants."""

CACHED_BYTES = 1 << 18
"""Bytes of values of rows that stay in the processor's cache, in any order."""

LEAST_BYTES = 1 << 23
"""Bytes of codes of all rows from which it pays off to grow one tree after another."""

MOST_LAID_COLUMNS = 256
"""Number of columns up to which the plan's memory of a row includes its copy."""


# --- which trees grow over blocks -----------------------------------------------------------------------------


def check_by_sums(growth: Growth, how: str) -> None:
    """Refuse growth whose cuts do not follow from sums over codes; ``how`` describes the growth in the message.

    Raises
    ------
    InputError
        Cuts are not scored by such sums; the message states which trees grow in this way.
    """
    found = lack_of_sums(growth)
    if found:
        raise InputError(
            f"trees grow {how} over features in bins, from labels, targets or an embedding; found {found}: set "
            "max_bins and the parameters it needs, or give workers the memory for all rows"
        )


def lack_of_sums(growth: Growth) -> str:
    """Return the reason why cuts do not follow from sums over codes; empty if they do."""
    if not isinstance(growth.source, (BinnedSource, BinnedTable)):
        return "max_bins=None"
    if not isinstance(growth.criterion, Tallied) or not growth.criterion.is_plain:
        return f"cuts that are scored by {type(growth.criterion).__name__}"
    return ""


def check_by_passes(growth: Growth) -> None:
    """Refuse growth by passes unless cuts follow from sums over codes, or candidates can be scored in turn.

    Raises
    ------
    InputError
        Features are sparse, cuts are scored in another way, or columns are categories without a score; the message
        states which trees grow by passes.
    """
    if isinstance(growth.source, (BinnedSource, BinnedTable)):
        check_by_sums(growth, BY_PASSES)
        return
    found, draw = "", growth.draw.draw if isinstance(growth.draw, CategoriesAlone) else growth.draw
    if not isinstance(growth.source, ArraySource):
        found = "features that are not dense"
    elif not isinstance(draw, (Axis, Oblique)):
        found = f"candidates that are drawn by {type(draw).__name__}"
    elif growth.n_categories is not None and isinstance(growth.criterion, TwoClusters):
        found = "columns of categories without a ground truth"
    elif not isinstance(side_criterion(growth.criterion), (Tallied, ClassCosts, TwoClusters)):
        found = f"cuts that are scored by {type(side_criterion(growth.criterion)).__name__}"
    if found:
        raise InputError(
            f"trees grow {BY_PASSES} over dense features, from labels, targets or an embedding, or without a ground "
            f"truth over numbers; found {found}: give workers the memory for all rows (`run.memory_limit`)"
        )


# --- the rows of a growth -------------------------------------------------------------------------------------


def source_of_rows(growth: Growth) -> RowSource:
    """Return the source of a growth that `check_by_passes` accepts."""
    assert isinstance(growth.source, RowSource)  # noqa: S101  (`check_by_passes`)
    return growth.source


def truth_of_rows(growth: Growth) -> Int32s | Ints:
    """Return the class of each row, or its vector in fixed point, that score cuts; no columns without these."""
    return growth.criterion.truth_of(growth.source.shape[0])


def block_of_growth(growth: Growth) -> RowBlock:
    """Return all rows of a growth: their codes or features, which may be mapped, and their truth; each weighs 1."""
    (values, categories), truth = source_of_rows(growth).of_rows(), truth_of_rows(growth)
    return RowBlock(values, truth, np.broadcast_to(np.int32(1), len(truth)), categories)


def growth_among(growth: Growth, block: RowBlock) -> Growth:
    """Return the growth over some rows in memory, which are numbered from 0."""
    source = source_of_rows(growth).over(block.values, block.categories)
    return replace(growth, source=source, criterion=growth.criterion.over(block.truth, block.values))


# --- nodes in memory ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class NodesInMemory:
    """Nodes of a level of one tree with all their rows.

    Attributes
    ----------
    block
        The rows.
    frontier
        The nodes, with numbers of rows within ``block``.
    laid_at
        Start of each node when the rows were last laid out in the order of the nodes, and then their number; None: the
        rows are as they were read, and must not be changed.
    """

    block: RowBlock
    frontier: Frontier
    laid_at: Ints | None = None

    def descend(self, growth: Growth, trees: Ints, depth: int, written: Levels, leaves: Int32s | None = None) -> Self:
        """Descend the nodes by one level, and write them; return their children.

        Rows of leaves are dropped once they are half of all, or when the others are laid out in the order of their
        nodes.

        Parameters
        ----------
        growth, trees
            The growth of a tree, and its number, shape (1,).
        depth
            Depth of the nodes.
        written
            Receives the nodes.
        leaves
            Receives the leaf of each row, by the numbers of ``block``; None: leaves are not needed.
        """
        growth = growth_among(growth, self.block)
        below = descend_level(self.frontier, depth, PartingByCuts(growth, trees, written), growth.watch)
        if leaves is not None:
            written.settle(self.frontier, self.block.numbers, leaves)
        nodes, n_bytes = replace(self, frontier=below), self.block.values.shape[1]
        if isinstance(growth.source, BinnedSource) and are_scattered(below, depth + 1, n_bytes):
            return nodes.laid()
        return nodes.laid() if 2 * len(below.rows) < len(self.block.truth) else nodes

    def laid(self) -> Self:
        """Return the rows in the order of the nodes, without rows of no node.

        Rows that were laid out before are reordered in place, those of one former node after another: the kept rows of
        it never go beyond its end. All others are copied.
        """
        frontier, (values, truth, _, categories, numbers) = self.frontier, self.block
        rows, starts = frontier.rows, frontier.starts
        ends = None
        if self.laid_at is not None:  # nodes come in the order of those from which they descend
            ends = starts[np.searchsorted(rows[starts[:-1]], self.laid_at)]
        block = RowBlock(
            _ordered(values, rows, ends),
            _ordered(truth, rows, ends),
            frontier.weights,
            None if categories is None else _ordered(categories, rows, ends),
            None if numbers is None else _ordered(numbers, rows, ends),
        )
        lie = np.arange(len(rows), dtype=np.int32)
        return replace(self, block=block, frontier=replace(frontier, rows=lie), laid_at=starts)

    @classmethod
    def gathered(cls, pieces: Sequence[NodesInMemory]) -> NodesInMemory:
        """Return the nodes of several pieces, in the order of their numbers; rows of a node come piece after piece."""
        if len(pieces) == 1:
            return replace(pieces[0], laid_at=None)  # its arrays may be another task's answer
        blocks, of_each = [piece.block for piece in pieces], [piece.frontier for piece in pieces]
        before = offsets(np.array([len(block.truth) for block in blocks])).tolist()
        rows = [own.rows + np.int32(first) for own, first in zip(of_each, before, strict=False)]
        node = np.concatenate([own.node for own in of_each])
        order = np.argsort(node, kind="stable")
        starts, entry = runs(offsets(np.concatenate([own.sizes for own in of_each])), order)
        weights = np.concatenate([own.weights for own in of_each])
        nodes, first = np.unique(node[order], return_index=True)
        starts, tree = np.append(starts[first], starts[-1]), np.zeros(len(nodes), np.int64)
        frontier = Frontier(tree, nodes, starts, np.concatenate(rows)[entry], weights[entry])
        return cls(RowBlock.joined(blocks), frontier)


def _ordered(values: np.ndarray, rows: Int32s, ends: Ints | None) -> np.ndarray:
    """values[rows]: a copy, or with ``ends`` instead of ``values``.

    Entries ``ends[k]`` to ``ends[k + 1]`` of ``rows`` then belong to one stretch of ``values``, which does not begin
    before entry ``ends[k]``, and ends before the next stretch.
    """
    if ends is None:
        return values.take(rows, axis=0)
    room = np.empty((np.diff(ends).max(initial=0), *values.shape[1:]), values.dtype)
    for first, last in zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True):
        ordered = room[: last - first]
        np.take(values, rows[first:last], axis=0, out=ordered, mode="clip")  # other modes copy once more
        values[first:last] = ordered
    return values[: len(rows)]


def are_scattered(frontier: Frontier, depth: int, bytes_of_row: int) -> bool:
    """Return whether the rows of a level's nodes are laid out again: each third level, unless nodes fit the cache.

    Examples
    --------
    >>> roots = Frontier.roots(np.ones((1, 10_000), np.int32))
    >>> [are_scattered(roots, depth, bytes_of_row=50) for depth in range(7)]
    [False, False, False, True, False, False, True]
    >>> are_scattered(roots, 3, bytes_of_row=1)
    False
    """
    n_bytes = len(frontier.rows) * bytes_of_row << LAID_LEVELS
    return depth > 0 and depth % LAID_LEVELS == 0 and n_bytes > CACHED_BYTES * frontier.n_nodes


def gains_by_node(growth: Growth) -> bool:
    """Return whether trees can grow by `grow_by_node`, and grow faster."""
    source = growth.source
    if not isinstance(source, BinnedSource) or lack_of_sums(growth):
        return False
    return source.codes.nbytes >= LEAST_BYTES and source.shape[1] <= MOST_LAID_COLUMNS


def grow_by_node(growth: Growth, trees: Ints, in_bag: NDArray[np.int32]) -> tuple[NodeTable, Int32s]:
    """Grow trees one after another, over rows that are laid out by node: the table and the leaves of `Growth.grow`.

    Parameters
    ----------
    growth
        Data and method, for which `gains_by_node` holds.
    trees
        Numbers of the trees in the forest, shape (n_trees,).
    in_bag
        Multiplicity of each row in each tree, shape (n_trees, n_rows).
    """
    tables, leaves = [], np.full(in_bag.shape, LEAF, np.int32)
    for number, weights, own in zip(trees, in_bag, leaves, strict=True):
        tree, written, depth = np.array([number], np.int64), Levels(1), 0
        rows = block_of_growth(growth)._replace(numbers=np.arange(len(weights), dtype=np.int32))
        nodes, of_tree = NodesInMemory(rows, Frontier.roots(weights[None])), growth.of_trees(tree)
        while nodes.frontier.n_nodes:
            nodes, depth = nodes.descend(of_tree, tree, depth, written, own), depth + 1
        tables.append(written.table())
    return tables[0] if len(tables) == 1 else NodeTable.joined(tables), leaves


# --- cuts by sums ---------------------------------------------------------------------------------------------


class NodeExtent(NamedTuple):
    """The number of rows of a node, their weight, and their least and greatest truth in each dimension."""

    n_rows: int
    weight: int
    least: np.ndarray
    greatest: np.ndarray

    @classmethod
    def from_truth(cls, truth: Int32s | Ints, weights: Int32s) -> NodeExtent:
        """Return the extent of some rows."""
        bounds = np.iinfo(truth.dtype)
        least, greatest = truth.min(axis=0, initial=bounds.max), truth.max(axis=0, initial=bounds.min)
        return cls(len(truth), int(weights.sum(dtype=np.int64)), least, greatest)

    def joined(self, other: NodeExtent) -> NodeExtent:
        """Return the extent of both nodes' rows."""
        least, greatest = np.minimum(self.least, other.least), np.maximum(self.greatest, other.greatest)
        return NodeExtent(self.n_rows + other.n_rows, self.weight + other.weight, least, greatest)


def no_sums_of(growth: Growth, columns: Int32s) -> TableSums:
    """Return the sums of no rows, where candidate k reads column ``columns[k]``; the growth passes `check_by_sums`."""
    criterion, n_categories = growth.criterion, growth.n_categories
    assert isinstance(criterion, Tallied)  # noqa: S101
    if n_categories is None:
        n_categories = np.zeros(growth.source.shape[1], np.int32)
    return TableSums.zeros(criterion, columns, n_categories)


@dataclass(frozen=True)
class CodeCut:
    """The cut of a node by the codes of one column.

    Attributes
    ----------
    column
        The column.
    goes_right
        Whether rows of each code go right, shape (N_CODES,); or of each category, with a last entry for missing values.
    left
        Number of the left child; that of the right one follows.
    place
        Position of the column among those of categories; None if it is numerical.
    """

    column: int
    goes_right: NDArray[np.bool_]
    left: int
    place: int | None = None

    def sides(
        self, codes: NDArray[np.uint8], categories: Float32s | None, rows: NDArray[np.int32] | slice
    ) -> NDArray[np.bool_]:
        """Return whether some rows go right, from the codes and the categories of all."""
        if self.place is None:
            return np.take(self.goes_right, codes[rows, self.column])
        assert categories is not None  # noqa: S101  (the column is one of them)
        of_rows = categories[rows, self.place]
        places = np.where(np.isnan(of_rows), np.float32(len(self.goes_right) - 1), of_rows).astype(np.int64)
        return np.take(self.goes_right, places)


def cut_by_sums(
    growth: Growth, trees: Ints, node: int, extent: NodeExtent, sums_of: SumsOfColumns, depth: int, written: Levels
) -> CodeCut | None:
    """Cut a node by the sums of its rows, and write it; return None if it is a leaf.

    For the grower the node has two rows: the least and the greatest truth, the first with all the weight. They
    determine whether it may be cut; the cut itself follows from the sums of all its rows.
    """
    source: Any = growth.source  # in bins: see `check_by_sums`
    two = np.array([0, 1], np.int32), np.array([extent.weight, 0], np.int32)
    frontier = Frontier(np.zeros(1, np.int64), np.array([node], np.int32), np.array([0, 2]), *two)
    search = _SearchBySums(sums_of, extent.weight, source.missing_code)
    truth = np.stack([extent.least, extent.greatest])
    criterion = growth.criterion.over(truth, np.empty((2, 0)))
    parting = _PartingBySums(replace(growth, search=search, criterion=criterion), trees, written, search=search)
    below = descend_level(frontier, depth, parting, growth.watch)
    if not below.n_nodes:
        return None
    column, left, goes_right, place = int(parting.splits.columns[0]), int(below.node[0]), parting.goes_right, None
    if goes_right is not None and growth.n_categories is not None:
        place = int(places_of(growth.n_categories > 0)[column])
    else:
        goes_right = np.arange(N_CODES) > parting.splits.threshold[0]
        if search.missing == MISSING_CODE:
            goes_right[MISSING_CODE] = parting.splits.missing[0] == RIGHT
    return CodeCut(column, goes_right, left, place)


@dataclass
class _SearchBySums:
    """The search of one node by the sums of its rows; see `distforest.growth.grower.Search`.

    ``best`` has the sums of the column of categories that it cuts, and the rank of each; None if it cuts numbers.
    """

    sums_of: SumsOfColumns
    weight: int
    missing: int
    best: tuple[CategorySums, Floats] | None = None

    def __call__(
        self,
        source: Any,  # noqa: ARG002  (the sums depend on both)
        criterion: Any,  # noqa: ARG002
        frontier: Frontier,
        projections: Projections,
        limits: Limits,
    ) -> tuple[Cuts, Floats]:
        """Return the best cut, with the side of missing numbers; the two rows of the frontier have no values."""
        min_leaf, cuts, of_categories, best = limits.min_samples_leaf, Cuts.none(1), Cuts.none(1), None
        for candidates, sums in self.sums_of(projections.columns):
            if len(sums.of_numbers):  # all numbers are in the first sums
                cuts = self._cut_numbers(sums, min_leaf)
                cuts.candidate[:] = candidates[cuts.candidate] if cuts.candidate[0] >= 0 else -1
            for candidate, own in zip(candidates[sums.of_categories].tolist(), sums.categories, strict=True):
                ranks = own.improve(candidate, min_leaf, of_categories)
                best = best if ranks is None else (own, ranks)
                del own  # other sums are dropped before the next ones are computed
            del sums
        chosen = of_categories.candidate.astype(np.int64)
        self.best = best if put_better(cuts, np.zeros(1, np.int64), chosen, of_categories)[0] else None
        return cuts, np.zeros(len(frontier.rows))

    def _cut_numbers(self, sums: TableSums, min_leaf: int) -> Cuts:
        """Return the best cut of numbers; missing ones go to the side of more weight, unless a side was learned."""
        cuts = sums.cut_numbers(min_leaf, self.missing)
        if cuts.candidate[0] >= 0 and cuts.missing[0] == STAY:
            filled = sums.filled(int(cuts.candidate[0]))
            n_left = int(filled[: int(np.floor(min(cuts.threshold[0], MISSING_CODE))) + 1].sum())
            cuts.missing[0] = LEFT if 2 * n_left > self.weight else RIGHT
        return cuts


@dataclass
class _PartingBySums(PartingByCuts):
    """Splitting of a node by sums; if it cuts categories, the grower writes the node with one row per category."""

    search: _SearchBySums = field(kw_only=True)
    goes_right: NDArray[np.bool_] | None = None

    def write(self, is_parted: NDArray[np.bool_], frontier: Frontier, side: NDArray[np.int8]) -> Frontier:
        """Write the node; if it cuts categories, record which go right, and at last missing ones."""
        n_categories, best = self.growth.n_categories, self.search.best
        if n_categories is None or not frontier.n_nodes:
            return super().write(is_parted, frontier, side)
        values = np.zeros(len(frontier.rows))
        if best is not None:
            sums, ranks = best
            seen, missing = sums.seen, len(ranks) - 1
            rows, weights = np.arange(len(seen), dtype=np.int32), sums.bins.weights[seen].astype(np.int32)
            frontier = Frontier(frontier.tree, frontier.node, np.array([0, len(seen)]), rows, weights)
            side = frontier.sides(ranks[seen], self.splits.threshold)
            values = np.where(seen == missing, np.nan, seen)
        one_each = ArraySource.from_values(values[:, None].astype(np.float32))
        self.growth = replace(self.growth, source=CategoryColumns(one_each, np.zeros(len(n_categories), np.int32)))
        below = super().write(is_parted, frontier, side)
        if best is not None:
            self.goes_right = np.zeros(missing + 1, np.bool_)
            self.goes_right[seen] = side == RIGHT
        return below
