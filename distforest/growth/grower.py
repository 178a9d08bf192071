"""The grower: trees grow level by level, all trees of a batch in lockstep.

At every level the grower draws projections for the open nodes, reads them from the source once, cuts, and descends. It
depends neither on the method nor on the kind of source, but on a draw, a criterion and limits. The descent
(`grow_levels`) does not depend on how nodes are split: a ranking tree splits its cells by small trees.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from distforest.forest.category_sets import listed_of
from distforest.forest.frontier import LEFT, RIGHT, Frontier, settle
from distforest.forest.missing import LEARNED
from distforest.forest.node_table import LEAF, NodeTable
from distforest.growth.rng import ORDER_NODE, streams
from distforest.growth.surrogates import compare_sides, place_learned, place_missing
from distforest.sources.source import Floats, Int32s, Ints, Projections, Source, offsets, runs, taken

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from distforest.forest.category_sets import CategoryCodes, Listed
    from distforest.growth.cuts.criteria import Criterion
    from distforest.growth.cuts.scan import Cuts
    from distforest.growth.cuts.search import Limits
    from distforest.growth.draws.column_draws import Draw
    from distforest.growth.rng import Keys

    Search = Callable[[Any, Any, Frontier, Projections, Limits], tuple[Cuts, Floats]]
    """A search over a source and a criterion of any kind; a fused search takes only one kind of each."""

UNCUT = {"surrogate": np.nan, "missing_right": False, "category_size": 0}
"""Values of optional arrays of a table for a node without a cut."""

DRAWN_AT_ONCE = 1 << 14
"""Largest number of candidates that are drawn for all attempts of some nodes at once, as drawing for few nodes is
faster than an attempt in Python."""

SLAB_CELLS = 1 << 22
"""Number of projected values (float64) held at once: a wide level is searched in slabs of nodes."""


class Windows(NamedTuple):
    """Nodes and the candidates of several attempts: ``width`` for each attempt, possibly fewer for the last one."""

    frontier: Frontier
    projections: Projections
    width: int


@runtime_checkable
class DrawsOn(Protocol):
    """A draw whose candidates of several attempts may be drawn at once."""

    @property
    def n_columns(self) -> int:
        """Number of candidates of a node in all attempts."""

    def rest(self, frontier: Frontier, keys: Keys, attempt: int) -> Projections:
        """Return the candidates of this attempt and of all later ones, in order."""


@runtime_checkable
class SearchesOn(Protocol):
    """A search that tries the candidates of several attempts until a node has a cut, as if each were a level."""

    def in_turn(self, source: Any, criterion: Any, windows: Windows, limits: Limits) -> tuple[Cuts, Floats]:
        """Return the cuts, and the value of each row on the chosen candidate."""


@runtime_checkable
class OfTrees(Protocol):
    """A draw that also depends on a stream that all nodes of a tree share."""

    def of_trees(self, keys: Keys) -> Draw:
        """Return the draw for some trees, from ``keys``, the streams of their `ORDER_NODE`, shape (n_trees,)."""


@dataclass(frozen=True)
class Splits:
    """The cuts of a level: for each node whether and where it is cut, and for each row its side.

    Attributes
    ----------
    is_cut
        Whether each node is cut, shape (n_nodes,).
    threshold, gain
        Threshold and gain of each node, shape (n_nodes,); undefined where it is not cut.
    width
        Number of columns of each node's projection, shape (n_nodes,); 0 where it is not cut.
    columns, weights
        Columns and weights of the projections, one node after another.
    side
        The side of each row, shape (n_rows,); undefined in nodes that are not cut.
    missing
        The side of rows with a missing value, as in `distforest.growth.cuts.criteria.Cuts`, shape (n_nodes,).
    """

    is_cut: NDArray[np.bool_]
    threshold: Floats
    gain: Floats
    width: Int32s
    columns: Int32s
    weights: Floats
    side: NDArray[np.int8]
    missing: NDArray[np.int8]

    @property
    def projections(self) -> Projections:
        """The projections of the nodes that are cut, one candidate each."""
        return Projections(1, offsets(self.width[self.is_cut]), self.columns, self.weights)


class Level(NamedTuple):
    """The report of a level: its depth, how many nodes were open, and how many of them have no cut."""

    depth: int
    n_open: int
    n_uncut: int


LevelWatch = Callable[[Level], None]
"""Function that is called with the report of each level; an exception that it raises ends the growth."""


def unwatched(level: Level) -> None:
    """Ignore the report of a level."""


def unseen(frontier: Frontier) -> None:
    """Ignore the nodes of a level: rows find their leaves when the tree is complete."""


class Parting(Protocol):
    """The way in which the nodes of a level are split and written, level by level from the roots."""

    def open(self, frontier: Frontier, depth: int) -> NDArray[np.bool_]:
        """Return whether each node of a level may be split; the others are leaves."""

    def part(self, frontier: Frontier) -> tuple[NDArray[np.bool_], NDArray[np.int8]]:
        """Return whether each open node is split, and the child to which each of their rows goes, counted from 0."""

    def write(self, is_parted: NDArray[np.bool_], frontier: Frontier, side: NDArray[np.int8]) -> Frontier:
        """Write all nodes of the level; return the children of split nodes, with their rows.

        ``frontier`` contains the split nodes; ``side`` has the children of their rows, and may be changed.
        """


def grow_levels(roots: Frontier, parting: Parting, watch: LevelWatch) -> None:
    """Grow trees from their ``roots``, level by level, until no node is split."""
    frontier, depth = roots, 0
    while frontier.n_nodes:
        frontier, depth = descend_level(frontier, depth, parting, watch), depth + 1


def descend_level(frontier: Frontier, depth: int, parting: Parting, watch: LevelWatch) -> Frontier:
    """Split the nodes of a level, or of a run of consecutive nodes of it; return their children.

    The runs of a level may be split one after another, in order, before any node of the next level: nodes are then
    numbered as if the level were split at once, so they draw the same.
    """
    is_open = parting.open(frontier, depth)
    frontier = frontier.of_nodes(is_open)  # rows of leaves are not kept
    is_parted, side = parting.part(frontier)
    watch(Level(depth, frontier.n_nodes, frontier.n_nodes - int(is_parted.sum())))
    is_open[is_open] = is_parted
    frontier, rows = frontier.take(is_parted)
    side = side[rows]
    return parting.write(is_open, frontier, side)


@dataclass(frozen=True)
class Growth:
    """Data, draw, criterion, limits and seed, from which trees grow.

    Attributes
    ----------
    source, draw, criterion, limits, seed
        The data, the candidates of a node, the criterion of their cuts, the limits of nodes, and the forest's seed.
    search
        The search of a level: `distforest.growth.cuts.search.project_and_cut`, or an equivalent.
    watch
        Function that is called with the report of each level.
    on_missing
        A rule of `distforest.forest.missing`.
    held
        Number of candidates whose values ``search`` holds at once; None: all.
    n_categories
        Number of categories of each column, 0 for a numerical column, shape (n_columns,); None: all are numerical.
    """

    source: Source
    draw: Draw
    criterion: Criterion
    limits: Limits
    seed: int
    search: Search
    watch: LevelWatch = unwatched
    on_missing: str = "stop"
    held: int | None = None
    n_categories: Int32s | None = None

    def grow(self, trees: Ints, in_bag: NDArray[np.int32]) -> tuple[NodeTable, Int32s]:
        """Grow the trees numbered ``trees`` over their in-bag rows.

        Parameters
        ----------
        trees
            Numbers of the trees in the forest, shape (n_trees,).
        in_bag
            Multiplicity of each row in each tree, shape (n_trees, n_rows).

        Returns
        -------
        table : NodeTable
            The trees, in the order of ``trees``.
        leaves : ndarray
            The node in which each in-bag row ended, -1 for the others, shape (n_trees, n_rows).
        """
        leaves = np.full(in_bag.shape, LEAF, np.int32)

        def on_level(frontier: Frontier) -> None:
            settle(frontier.starts, frontier.rows, frontier.tree, frontier.node, leaves)

        return self.grow_from(trees, Frontier.roots(in_bag), on_level), leaves

    def grow_from(self, trees: Ints, roots: Frontier, on_level: Callable[[Frontier], None]) -> NodeTable:
        """Grow the trees numbered ``trees`` over the rows of their ``roots``.

        ``on_level`` is called with the frontier of each level before it is searched.
        """
        parting = self.parting(trees, on_level)
        grow_levels(roots, parting, self.watch)
        return parting.written.table()

    def parting(self, trees: Ints, on_level: Callable[[Frontier], None]) -> PartingByCuts:
        """Return the splitting of the nodes of some trees."""
        return PartingByCuts(self.of_trees(trees), trees, Levels(len(trees)), on_level)

    def of_trees(self, trees: Ints) -> Growth:
        """Return the growth with the draw for these trees."""
        if not isinstance(self.draw, OfTrees):
            return self
        keys = np.empty(len(trees), np.uint64)
        streams(self.seed, trees, np.full(len(trees), ORDER_NODE, np.int32), keys)
        return replace(self, draw=self.draw.of_trees(keys))

    def _search(self, frontier: Frontier, trees: Ints, criterion: Criterion) -> Splits:
        """Return the best cut of each node, slab by slab; a node without one draws again."""
        keys = np.empty(frontier.n_nodes, np.uint64)
        streams(self.seed, trees[frontier.tree], frontier.node, keys)
        parts = [
            self._search_slab(frontier.slice(first, last), keys[first:last], criterion)
            for first, last in _slabs(frontier, self.held or self.draw.width, self.draw.width)
        ]
        return _joined(parts)

    def _attempts(
        self, frontier: Frontier, is_cut: NDArray[np.bool_]
    ) -> Iterator[tuple[int, Ints, Frontier, NDArray[np.bool_] | slice]]:
        """Yield the attempts of nodes without a cut: their positions, their frontier, and an index of their rows.

        The caller records in ``is_cut``, shape (n_nodes,), which nodes have found a cut.
        """
        for attempt in range(self.draw.attempts):
            uncut, rows = frontier.take(~is_cut)
            if not uncut.n_nodes:
                return
            yield attempt, np.flatnonzero(~is_cut), uncut, rows

    def _search_slab(self, frontier: Frontier, keys: Keys, criterion: Criterion) -> Splits:
        is_cut = np.zeros(frontier.n_nodes, np.bool_)
        threshold, gain = np.zeros(frontier.n_nodes), np.zeros(frontier.n_nodes)
        side, missing = np.empty(len(frontier.rows), np.int8), np.empty(frontier.n_nodes, np.int8)
        chosen: list[tuple[Ints, Projections]] = []
        search: Any = self.search
        search_on = search if isinstance(search, SearchesOn) else None
        draw_on = self.draw if search_on is not None and isinstance(self.draw, DrawsOn) else None
        for attempt, places, uncut, rows in self._attempts(frontier, is_cut):
            is_last = draw_on is not None and uncut.n_nodes * draw_on.n_columns <= DRAWN_AT_ONCE
            draw = draw_on.rest if draw_on is not None and is_last else self.draw
            projections = draw(uncut, keys[places], attempt)
            if not projections.width:
                break
            attempted = criterion.attempted(keys[places], attempt)
            if search_on is not None:
                windows = Windows(uncut, projections, self.draw.width)
                cuts, values = search_on.in_turn(self.source, attempted, windows, self.limits)
            else:
                cuts, values = search(self.source, attempted, uncut, projections, self.limits)
            side[rows] = uncut.sides(values, cuts.threshold)  # undefined in nodes without a cut
            has = cuts.candidate >= 0
            threshold[places], gain[places], missing[places] = cuts.threshold, cuts.gain, cuts.missing
            chosen.append((places[has], taken(projections, np.flatnonzero(has), cuts.candidate[has])))
            is_cut[places] = has
            if is_last:
                break
        width, columns, weights = in_order(chosen, frontier.n_nodes)
        return Splits(is_cut, threshold, gain, width, columns, weights, side, missing)


def _slabs(frontier: Frontier, held: int, width: int) -> Iterator[tuple[int, int]]:
    """Yield runs of nodes, at least one each, whose values, ``held`` per row, and candidates fit into `SLAB_CELLS`."""
    cells = np.maximum(frontier.sizes * held, width)
    first, held = 0, 0
    for node, n_cells in enumerate(cells.tolist()):
        if held and held + n_cells > SLAB_CELLS:
            yield first, node
            first, held = node, 0
        held += n_cells
    if first < frontier.n_nodes:
        yield first, frontier.n_nodes


def in_order(chosen: list[tuple[Ints, Projections]], n_nodes: int) -> tuple[Int32s, Int32s, Floats]:
    """Return the width of each node's projection, and columns and weights in the order of the nodes."""
    width = np.zeros(n_nodes, np.int32)
    if not chosen:
        return width, np.empty(0, np.int32), np.empty(0)
    for places, projections in chosen:
        width[places] = np.diff(projections.offset)
    node = np.concatenate([np.repeat(places, np.diff(p.offset)) for places, p in chosen])
    order = np.argsort(node, kind="stable")
    columns = np.concatenate([p.columns for _, p in chosen])[order]
    weights = np.concatenate([p.weights for _, p in chosen])[order]
    return width, columns, weights


def _joined(parts: list[Splits]) -> Splits:
    if not parts:
        empty = np.empty(0)
        sides = empty.astype(np.int8)
        return Splits(empty.astype(bool), empty, empty, *(np.empty(0, np.int32),) * 2, empty, sides, sides)
    if len(parts) == 1:
        return parts[0]
    names = Splits.__dataclass_fields__
    return Splits(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))


def numbered(next_node: Ints, tree: Ints, wanted: Ints) -> Ints:
    """Reserve ``wanted`` node numbers for each entry, whose trees ascend; return the first number of each.

    ``next_node``, the next number of each tree, shape (n_trees,), increases by their number.

    Examples
    --------
    >>> next_node = np.array([1, 7])
    >>> numbered(next_node, np.array([0, 0, 1]), np.array([2, 3, 2])), next_node
    (array([1, 3, 7]), array([6, 9]))
    """
    total = offsets(wanted)
    begin = total[np.searchsorted(tree, np.arange(len(next_node)))]
    first = next_node[tree] + total[:-1] - begin[tree]
    next_node += np.bincount(tree, wanted, len(next_node)).astype(np.int64)
    return first


@dataclass
class Levels:
    """The levels written so far; a node is written once, at its level."""

    n_trees: int
    tree: list[Ints] = field(default_factory=list)
    columns: dict[str, list[np.ndarray]] = field(default_factory=dict)
    ragged: list[tuple[Int32s, Floats]] = field(default_factory=list)
    category_codes: list[CategoryCodes] = field(default_factory=list)
    next_node: Ints = field(init=False)

    def __post_init__(self) -> None:
        self.next_node = np.ones(self.n_trees, np.int64)

    def begin(self, frontier: Frontier) -> None:
        """Record the nodes of a level, before their cuts are known."""
        self.tree.append(frontier.tree)
        self.columns.setdefault("n_rows", []).append(frontier.weight)

    def cut(self, is_cut: NDArray[np.bool_], splits: Splits, unit: float, further: dict[str, np.ndarray]) -> Int32s:
        """Write the cuts of the level; return the left child's number of each node that is cut.

        ``further`` contains optional arrays by name, with an entry for each node that is cut.
        """
        n, tree = len(is_cut), self.tree[-1][is_cut]
        left = numbered(self.next_node, tree, np.full(len(tree), 2)).astype(np.int32)
        level: dict[str, np.ndarray] = {
            "left": np.full(n, LEAF, np.int32),
            "right": np.full(n, LEAF, np.int32),
            "threshold": np.zeros(n),
            "width": np.zeros(n, np.int32),
            "gain": np.zeros(n),
        }
        level["left"][is_cut], level["right"][is_cut] = left, left + 1
        level["threshold"][is_cut] = splits.threshold[splits.is_cut]
        level["width"][is_cut] = splits.width[splits.is_cut]
        level["gain"][is_cut] = splits.gain[splits.is_cut] * unit
        for name, values in further.items():
            level[name] = np.full((n, *values.shape[1:]), UNCUT[name], values.dtype)
            level[name][is_cut] = values
        self.ragged.append((splits.columns, splits.weights))
        for name, values in level.items():
            self.columns.setdefault(name, []).append(values)
        return left

    def settle(self, nodes: Frontier, numbers: Int32s | None, leaves: Int32s) -> None:
        """Write the leaves among the nodes that were written last, all of one tree, for their rows.

        Rows stay at no other node, as cuts of features define the side of rows with a missing value.

        Parameters
        ----------
        nodes
            The nodes, with their rows.
        numbers
            The numbers of these rows among all rows; None: they are numbered among all.
        leaves
            The leaf of each of all rows, shape (n_rows,).
        """
        own = nodes.of_nodes(self.columns["left"][-1] == LEAF)
        settle(own.starts, own.rows if numbers is None else numbers[own.rows], own.tree, own.node, leaves[None])

    def table(self) -> NodeTable:
        """Return the node table: the levels' nodes in the order (tree, node)."""
        tree = np.concatenate(self.tree)
        order = np.argsort(tree, kind="stable")  # within a tree the levels come in the order of the node numbers
        _, entry = runs(offsets(np.concatenate(self.columns["width"])), order)
        category_codes = None
        if self.category_codes:
            _, code = runs(offsets(np.concatenate(self.columns["category_size"])), order)
            category_codes = np.concatenate(self.category_codes)[code]
        return NodeTable(
            tree_size=self.next_node.copy(),
            **{name: np.concatenate(self.columns.pop(name))[order] for name in list(self.columns)},
            columns=np.concatenate([c for c, _ in self.ragged])[entry],
            weights=np.concatenate([w for _, w in self.ragged])[entry],
            category_codes=category_codes,
        )


@dataclass
class PartingByCuts:
    """Splitting by cuts; ``criterion`` is the one for the current level, ``splits`` are the level's cuts."""

    growth: Growth
    trees: Ints
    written: Levels
    on_level: Callable[[Frontier], None] = unseen
    criterion: Criterion = field(init=False)
    splits: Splits = field(init=False)

    def __post_init__(self) -> None:
        self.criterion = self.growth.criterion

    def open(self, frontier: Frontier, depth: int) -> NDArray[np.bool_]:
        """Return whether each node is within the limits."""
        self.on_level(frontier)
        self.written.begin(frontier)
        if not self.growth.limits.ends(depth):  # nothing is read for nodes that are not cut
            self.criterion = self.criterion.at(frontier)
        return self.growth.limits.open(frontier, depth, self.criterion)

    def part(self, frontier: Frontier) -> tuple[NDArray[np.bool_], NDArray[np.int8]]:
        """Return whether each node has a cut, and the side of each row."""
        self.splits = self.growth._search(frontier, self.trees, self.criterion)
        return self.splits.is_cut, self.splits.side

    def write(self, is_parted: NDArray[np.bool_], frontier: Frontier, side: NDArray[np.int8]) -> Frontier:
        """Write the cuts, and decide the side of rows with a missing value."""
        growth, further, splits = self.growth, dict[str, np.ndarray](), self.splits
        if growth.on_missing == LEARNED:
            learned = self.splits.missing[self.splits.is_cut]
            further["missing_right"] = place_learned(frontier, learned, side)
        elif growth.on_missing != "stop":
            projections = self.splits.projections
            further["surrogate"] = place_missing(growth.on_missing, growth.source, frontier, projections, side)
        if growth.n_categories is not None:
            listed = self._listed(growth.n_categories, frontier, side, further.get("missing_right"))
            further["category_size"] = listed.size
            self.written.category_codes.append(listed.codes)
            splits = replace(splits, threshold=splits.threshold.copy())
            splits.threshold[splits.is_cut] = np.where(
                listed.size > 0, listed.threshold, splits.threshold[splits.is_cut]
            )
        left = self.written.cut(is_parted, splits, growth.criterion.unit, further)
        return frontier.descend(side, left, left + np.int32(1))

    def _listed(
        self,
        n_categories: Int32s,
        frontier: Frontier,
        side: NDArray[np.int8],
        missing_right: NDArray[np.bool_] | None,
    ) -> Listed:
        """Return the categories that each node lists; others go with missing values, or to the side of more weight."""
        projections = self.splits.projections
        which = n_categories[projections.columns[projections.offset[:-1]]] > 0
        if missing_right is None:  # no training row lacks a value
            left_is_larger = np.empty(frontier.n_nodes, np.bool_)
            compare_sides(frontier.starts, frontier.weights, RIGHT + LEFT - side, left_is_larger)
            missing_right = ~left_is_larger
        nodes, rows = frontier.take(which)
        chosen = taken(projections, np.flatnonzero(which), np.zeros(nodes.n_nodes, np.int32))
        codes = np.empty(len(frontier.rows))
        codes[rows] = self.growth.source.project(nodes.rows, nodes.starts, chosen)[0]
        return listed_of(frontier, codes, side, which, missing_right)
