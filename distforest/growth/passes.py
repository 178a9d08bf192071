"""Growth by passes: trees over more rows than fit into memory, bit for bit as in memory.

A level is a sequence of stretches, each of consecutive nodes whose rows are stored together on disk::

    level   [ node 5, on disk ] [ node 6, on disk ] [ nodes 7 to 24, in memory ] [ nodes 25 to 40, in memory ]

- The rows of a large node are read block by block. Over codes of bins, a first pass adds up the sums of its candidates,
  which determine the cut; over the features themselves, passes compute the values of a few candidates at a time. A last
  pass writes each row to one of two children.
- Nodes whose rows fit are read together, and the grower descends them by one level.

A tree draws by the numbers of its nodes, which are assigned level by level. So all stretches of a level are processed
in order before the next level begins, and rows wait on disk meanwhile, until all remaining ones fit together.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import shutil
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from distforest.forest.frontier import Frontier
from distforest.forest.node_table import LEAF, NodeTable
from distforest.growth.cuts.category_search import CategorySearch
from distforest.growth.cuts.criteria import ScoresInTurn, Turn
from distforest.growth.cuts.search import score_and_cut
from distforest.growth.cuts.sums import RowBlock
from distforest.growth.grower import Growth, Levels, PartingByCuts, descend_level
from distforest.growth.row_blocks import (
    NodeExtent,
    NodesInMemory,
    block_of_growth,
    check_by_passes,
    cut_by_sums,
    no_sums_of,
    source_of_rows,
)
from distforest.growth.row_room import BLOCK_SHARE, FLOAT_BYTES, room_of
from distforest.sources.arrays import release_pages
from distforest.sources.mapped_rows import MappedRows
from distforest.sources.scratch import is_locked
from distforest.sources.source import Projections, runs, taken

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from distforest.growth.cuts.criteria import Criterion
    from distforest.growth.cuts.scan import Cuts
    from distforest.growth.cuts.search import Limits
    from distforest.growth.cuts.table_sums import TableSums
    from distforest.sources.source import Floats, Int32s, Ints, Source

    Cut = tuple[int, Callable[[RowBlock, int], NDArray[np.bool_]]]
    """The left child's number; and a function of a block and its position, which returns whether rows go right."""

ROWS = "rows-"
"""Prefix of the names of folders with the rows of a tree."""

LEFT_SECONDS = 60
"""Seconds without a write after which an unlocked folder is removed."""

MAPPED_AT_ONCE: int = getattr(mmap, "MAP_POPULATE", 0)
"""Flag with which Linux reads all pages of a map when it is made; elsewhere pages are read when they are touched."""

NUMBERS_OF_FRONTIER = "frontier"
"""Name of a file beside the fields of rows: the numbers and weights of these rows in the order of their nodes."""


# --- rows on disk ---------------------------------------------------------------------------------------------


class StoredRows:
    """Rows of some nodes on disk: a file for each field of `RowBlock`, written once in order and read block by block.

    Reading returns a map, which takes memory as long as it is referenced.

    Attributes
    ----------
    path
        Prefix of the names of the files.
    none
        An empty block with row numbers; other blocks have its dtypes and, except for the length, its shapes.
    extent
        The number of the rows, their weight, and their least and greatest truth.
    """

    def __init__(self, path: Path, none: RowBlock) -> None:
        self.path, self.none = path, none
        self.extent = NodeExtent.from_truth(none.truth, none.weights)

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.extent.n_rows

    @property
    def bytes_of_row(self) -> int:
        """Bytes of a row on disk."""
        return sum(_bytes_of_entry(none) for none in self.none if none is not None)

    def append(self, block: RowBlock) -> None:
        """Write rows after the existing ones."""
        for name, values in block._asdict().items():
            if values is not None:
                with self.file(name).open("ab") as file:
                    file.write(np.ascontiguousarray(values).data)
        self.extent = self.extent.joined(NodeExtent.from_truth(block.truth, block.weights))

    def blocks(self, n_rows: int) -> Iterator[RowBlock]:
        """Read the rows in order, ``n_rows`` at a time."""
        for first in range(0, self.n_rows, n_rows):
            yield self.read(first, min(n_rows, self.n_rows - first))

    def read(self, first: int, n_rows: int) -> RowBlock:
        """Read ``n_rows`` rows from number ``first`` on."""
        names = [name for name, none in self.none._asdict().items() if none is not None]
        return self.none._replace(**{name: self.field(name, first, n_rows) for name in names})

    def field(self, name: str, first: int, n_rows: int) -> np.ndarray:
        """Read a field of some rows as a map, without copying."""
        none = getattr(self.none, name)
        shape, of_row = (n_rows, *none.shape[1:]), _bytes_of_entry(none)
        if not n_rows * of_row:
            return np.empty(shape, none.dtype)
        before = first * of_row % mmap.ALLOCATIONGRANULARITY
        with self.file(name).open("r+b") as file:
            pages = mmap.mmap(
                file.fileno(),
                before + n_rows * of_row,
                flags=mmap.MAP_SHARED | MAPPED_AT_ONCE,
                prot=mmap.PROT_READ | mmap.PROT_WRITE,  # kernels are compiled once, for writable arrays
                offset=first * of_row - before,
            )
        return np.ndarray(shape, none.dtype, pages, before)

    def mapped(self) -> np.ndarray:
        """Return the values of all rows in a map whose pages are not read yet."""
        values = self.none.values
        return np.memmap(self.file("values"), values.dtype, "r", shape=(self.n_rows, *values.shape[1:]))

    def file(self, name: str) -> Path:
        """Return the file of a field."""
        return self.path.with_name(f"{self.path.name}.{name}")

    def remove(self) -> None:
        """Remove the files."""
        for name in (*RowBlock._fields, NUMBERS_OF_FRONTIER):
            self.file(name).unlink(missing_ok=True)


def _bytes_of_entry(values: np.ndarray) -> int:
    return values.dtype.itemsize * int(np.prod(values.shape[1:], dtype=np.int64))


# --- the levels of a tree -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Passes:
    """The place of rows between levels, and the budget of rows in memory.

    Attributes
    ----------
    folder
        A folder for the files, which are removed with their trees.
    budget
        Bytes of rows that are in memory at once, without the nodes of the trees, and five bytes a row for its draws.
    block_rows
        Number of rows of a block; None: as many as the budget allows.
    """

    folder: Path
    budget: int
    block_rows: int | None = None

    def rows_of_block(self, bytes_of_row: int) -> int:
        """Return the number of rows that a pass reads at once, at least one."""
        return self.block_rows or max(1, self.budget // (BLOCK_SHARE * bytes_of_row))


def grow_by_passes(growth: Growth, trees: Ints, in_bag: NDArray[np.int32], passes: Passes) -> tuple[NodeTable, Int32s]:
    """Grow trees one after another within the budget of ``passes``: the table of `Growth.grow`, bit for bit.

    Parameters
    ----------
    growth
        Data and method; its source has codes or features in memory or mapped.
    trees
        Numbers of the trees in the forest, shape (n_trees,).
    in_bag
        Multiplicity of each row in each tree, shape (n_trees, n_rows).
    passes
        The budget.

    Returns
    -------
    NodeTable
        The nodes.
    ndarray
        The leaf of each row in each tree, shape (n_trees, n_rows); -1 for a row that was not drawn.

    Raises
    ------
    InputError
        As `check_by_passes`.
    """
    check_by_passes(growth)
    passes.folder.mkdir(parents=True, exist_ok=True)
    remove_left(passes.folder)
    tables, leaves = [], np.full(in_bag.shape, LEAF, np.int32)
    for number, weights, own in zip(trees, in_bag, leaves, strict=True):
        with _own_folder(passes.folder) as folder:
            tables.append(_Tree(growth, np.array([number]), replace(passes, folder=folder), own).grow(weights))
    return tables[0] if len(tables) == 1 else NodeTable.joined(tables), leaves


@contextmanager
def _own_folder(folder: Path) -> Iterator[Path]:
    """Create a locked folder for the rows of a tree, and remove it at the end."""
    with tempfile.TemporaryDirectory(dir=folder, prefix=ROWS) as own:
        handle = os.open(own, os.O_RDONLY)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield folder / own
        finally:
            os.close(handle)


def remove_left(folder: Path) -> None:
    """Remove the rows that killed processes have left in a folder."""
    for left in folder.glob(f"{ROWS}*"):
        try:
            is_new = time.time() - left.stat().st_mtime < LEFT_SECONDS  # it may be about to be locked
            if not is_new and not is_locked(left):
                shutil.rmtree(left, ignore_errors=True)
        except OSError:  # another process was faster, or another user owns it
            continue


class _Tree:
    """A tree that grows by passes: the state that its stretches share; ``leaves`` receives the leaf of each row."""

    def __init__(self, growth: Growth, tree: Ints, passes: Passes, leaves: Int32s) -> None:
        self.tree, self.leaves, self.written = tree, leaves, Levels(1)
        self.growth, self.passes = growth.of_trees(tree), passes
        self.rows = block_of_growth(growth)
        self.room = room_of(growth, self.rows.truth)
        if not self.room.in_bins:
            self.growth = replace(self.growth, held=self.room.width * self.room.candidate_bytes // FLOAT_BYTES)
        self.rows_in_memory = max(1, self.room.rows_in_memory(passes.budget))
        self._none = self.rows.slice(0, 0)._replace(numbers=np.empty(0, np.int32), weights=np.empty(0, np.int32))
        self.block_rows = passes.rows_of_block(StoredRows(passes.folder, self._none).bytes_of_row)
        self._n_files = 0

    def new_rows(self) -> StoredRows:
        """Return a store for new rows."""
        self._n_files += 1
        return StoredRows(self.passes.folder / f"{self._n_files}", self._none)

    def stretch_of(self, node: int, rows: StoredRows) -> _Pack | _LargeNode:
        """Return a node as a stretch: finished in memory if its rows fit, else cut by passes."""
        if rows.n_rows > self.rows_in_memory:
            return _LargeNode(node, rows)
        return _Pack(np.array([node], np.int32), np.array([0, rows.n_rows]), rows)

    def grow(self, in_bag: Int32s) -> NodeTable:
        """Grow the tree over its in-bag rows."""
        root, rows = self.new_rows(), self.rows._replace(weights=in_bag)
        for first in range(0, len(in_bag), self.block_rows):
            here = rows.slice(first, first + self.block_rows)
            drawn = np.flatnonzero(here.weights)
            root.append(here.of_rows(drawn)._replace(numbers=(first + drawn).astype(np.int32)))
            for array in rows:
                if array is not None:
                    release_pages(array)
        stretches, depth = [self.stretch_of(0, root)], 0
        while stretches:
            below: list[_Pack | _LargeNode] = []
            fit_together = sum(stretch.n_rows for stretch in stretches) <= self.rows_in_memory
            for stretch in stretches:
                children = stretch.descend(self, depth)
                for child in children:
                    if isinstance(child, _Pack) and not fit_together:
                        child.spill_rows(self)
                below += children
            stretches, depth = below, depth + 1
        return self.written.table()


@dataclass
class _Pack:
    """Consecutive nodes whose rows fit into memory together.

    Attributes
    ----------
    node, starts
        As in a `Frontier`.
    stored
        Their rows on disk; None: they have been laid out again since.
    nodes
        The nodes with their rows, once these were read; None: these are only on disk.
    """

    node: Int32s
    starts: Ints
    stored: StoredRows | None
    nodes: NodesInMemory | None = None

    @property
    def n_rows(self) -> int:
        """Number of rows of the nodes."""
        return int(self.starts[-1])

    def descend(self, tree: _Tree, depth: int) -> list[_Pack | _LargeNode]:
        """Descend the nodes by one level, and write them; return their children, if there are any."""
        nodes, stored = self.nodes or self._read(), self.stored
        self.nodes = None
        below = nodes.descend(tree.growth, tree.tree, depth, tree.written, tree.leaves)
        if stored is not None and below.block is not nodes.block:
            stored.remove()
            stored = None
        frontier = below.frontier
        return [_Pack(frontier.node, frontier.starts, stored, below)] if frontier.n_nodes else []

    def _read(self) -> NodesInMemory:
        assert self.stored is not None  # noqa: S101  (rows that are not in memory are on disk)
        block, path = self.stored.read(0, self.stored.n_rows), self.stored.file(NUMBERS_OF_FRONTIER)
        if path.exists():
            rows, weights = np.fromfile(path, np.int32).reshape(2, -1)
        else:
            rows, weights = np.arange(self.n_rows, dtype=np.int32), block.weights
        of_tree = np.zeros(len(self.node), np.int64)
        return NodesInMemory(block, Frontier(of_tree, self.node, self.starts, rows, weights))

    def spill_rows(self, tree: _Tree) -> None:
        """Keep the rows only on disk."""
        if self.nodes is None:
            return
        if self.stored is None:
            self.stored = tree.new_rows()
            self.stored.append(self.nodes.block)
        frontier = self.nodes.frontier
        np.concatenate([frontier.rows, frontier.weights]).tofile(self.stored.file(NUMBERS_OF_FRONTIER))
        self.nodes = None


@dataclass
class _LargeNode:
    """A node whose rows do not fit into memory."""

    node: int
    rows: StoredRows

    @property
    def n_rows(self) -> int:
        """Number of rows of the node."""
        return self.rows.n_rows

    def descend(self, tree: _Tree, depth: int) -> list[_Pack | _LargeNode]:
        """Cut the node by passes, and write its rows to its children; return the children."""
        cut = self._cut_by_sums(tree, depth) if tree.room.in_bins else self._cut_by_values(tree, depth)
        children, first = [tree.new_rows(), tree.new_rows()], 0
        for block in self.rows.blocks(tree.block_rows):
            if cut is None:
                tree.leaves[block.numbers] = self.node
                continue
            goes_right = cut[1](block, first)
            first += len(goes_right)
            for child, goes_there in zip(children, (~goes_right, goes_right), strict=True):
                child.append(block.of_rows(np.flatnonzero(goes_there)))
        self.rows.remove()
        return [] if cut is None else [tree.stretch_of(cut[0] + side, rows) for side, rows in enumerate(children)]

    def _cut_by_sums(self, tree: _Tree, depth: int) -> Cut | None:
        """Cut the node by the sums of its rows over codes, and write it; return None if it is a leaf."""
        growth, rows = tree.growth, self.rows
        held = tree.room.held(tree.passes.budget, rows.n_rows)

        def sums_of(columns: Int32s) -> Iterator[tuple[Ints, TableSums]]:
            """Sum all numbers in the first pass, and in each pass as many columns of categories as fit."""
            turn, n_categories = np.zeros(len(columns), np.int64), growth.n_categories
            if n_categories is not None:
                of_categories = np.flatnonzero(n_categories[columns] > 0)
                turn[of_categories] = np.arange(len(of_categories)) // held
            for number in range(int(turn.max(initial=0)) + 1):
                candidates = np.flatnonzero(turn == number)
                sums = no_sums_of(growth, columns[candidates])
                for block in rows.blocks(tree.block_rows):
                    sums.add(block, columns[candidates])
                yield candidates, sums
                del sums  # before the next ones are computed

        cut = cut_by_sums(growth, tree.tree, self.node, rows.extent, sums_of, depth, tree.written)
        if cut is None:
            return None
        return cut.left, lambda block, _first: cut.sides(block.values, block.categories, slice(None))

    def _cut_by_values(self, tree: _Tree, depth: int) -> Cut | None:
        """Cut the node by its features, which stay on disk, and write it; return None if it is a leaf.

        Rows keep their order, in which sums of floats are added.
        """
        growth, rows, n = tree.growth, self.rows, self.rows.n_rows
        source = MappedRows(rows.mapped(), source_of_rows(growth).is_complete, tree.block_rows)
        frontier = Frontier(
            np.zeros(1, np.int64),
            np.array([self.node], np.int32),
            np.array([0, n]),
            np.arange(n, dtype=np.int32),
            rows.field("weights", 0, n),
        )
        criterion = growth.criterion.over(rows.field("truth", 0, n), source.values, source)
        held = tree.room.held(tree.passes.budget, n)
        search = InTurn(held, growth.search if isinstance(growth.search, CategorySearch) else None)
        growth = replace(growth, source=source, criterion=criterion, search=search)
        below = descend_level(frontier, depth, PartingByCuts(growth, tree.tree, tree.written), growth.watch)
        if not below.n_nodes:
            return None
        is_right = np.zeros(n, np.bool_)
        is_right[below.rows[below.starts[1] :]] = True
        return int(below.node[0]), lambda block, first: is_right[first : first + len(block.weights)]


# --- the values of some candidates at a time ------------------------------------------------------------------


@dataclass(frozen=True)
class InTurn:
    """`score_and_cut` with the values of at most ``held`` candidates at once.

    ::

        candidates   [ 0 1 2 | 3 4 5 | 6 ]     values of three are held at once, and scored
                         |       |     |
        known        best of 0 to 2, of 0 to 5, of all     the results are kept, the values are not

    Attributes
    ----------
    held
        Number of candidates.
    categories
        The search for columns of categories, which are read as ranks.
    """

    held: int
    categories: CategorySearch | None = None

    def __call__(
        self, source: Source, criterion: Criterion, frontier: Frontier, projections: Projections, limits: Limits
    ) -> tuple[Cuts, Floats]:
        """Return the best cut of each node, and the value of each row on the chosen candidate."""
        is_scored_by_some = limits.min_samples_leaf == 1 and criterion.scored_on(frontier) is not frontier
        if is_scored_by_some or projections.width <= self.held:
            search = self.categories or score_and_cut
            return search(source, criterion, frontier, projections, limits)
        assert isinstance(criterion, ScoresInTurn)  # noqa: S101  (`check_by_passes`)
        found: Any = None
        for first in range(0, projections.width, self.held):
            own = some_of(projections, first, min(first + self.held, projections.width))
            values = self._values(source, criterion, frontier, own)
            turn = Turn(first, projections.width)
            found = criterion.score_candidates(frontier, values, limits.min_samples_leaf, turn, found)
            del values  # before the next ones are computed
        cuts = criterion.chosen(frontier, found)
        chosen = taken(projections, np.arange(frontier.n_nodes), cuts.candidate.clip(0))
        values_of_chosen: Floats = self._values(source, criterion, frontier, chosen)[0]
        return cuts, values_of_chosen

    def _values(self, source: Source, criterion: Criterion, frontier: Frontier, projections: Projections) -> Floats:
        """Return the candidates' values, shape (width, n_rows)."""
        if self.categories is None:
            return source.project(frontier.rows, frontier.starts, projections)
        return self.categories.values(source, criterion, frontier, projections)


def some_of(projections: Projections, first: int, last: int) -> Projections:
    """Return candidates ``first`` to ``last - 1`` of each node.

    Examples
    --------
    >>> columns = np.array([3, 0, 7, 5], np.int32)
    >>> some_of(Projections(2, np.array([0, 1, 3, 4, 4]), columns, np.ones(4)), 1, 2).columns
    array([0, 7], dtype=int32)
    """
    numbers = np.arange(projections.n_nodes)[:, None] * projections.width + np.arange(first, last)
    offset, entry = runs(projections.offset, numbers.reshape(-1))
    return Projections(last - first, offset, projections.columns[entry], projections.weights[entry])
