"""Growth by passes: trees over more rows than fit into memory, the same bits as in memory.

A level is a row of stretches, each of consecutive nodes whose rows lie together on disk::

    level   [ node 5, on disk ] [ node 6, on disk ] [ nodes 7 to 24, in memory ] [ nodes 25 to 40, in memory ]

- The rows of a large node are read block by block. Over codes of bins a first pass adds up the sums of its candidates,
  from which the cut follows (`distforest.growth.cuts_by_sums`); over features as they are, passes compute the values of
  a few candidates at a time (`distforest.growth.cuts_by_values`). A last pass writes each row to one of two children.
- Nodes whose rows fit are read together, and go one level down by the grower as it is.

A tree draws by the numbers of its nodes, and these are given level by level. So all stretches of a level are taken
in their order before the next level begins, and the rows of a stretch wait on disk meanwhile.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np

from distforest.forest.frontier import Frontier
from distforest.forest.table import LEAF, NodeTable
from distforest.growth.cuts.category_search import CategorySearch
from distforest.growth.cuts.sums import RowBlock
from distforest.growth.cuts_by_sums import CodeCut, cut_by_sums, sums_of_none
from distforest.growth.cuts_by_values import InTurn, ValueCut, cut_by_values
from distforest.growth.grower import Growth, Levels, PartingByCuts, descend_level, unseen
from distforest.growth.judged_rows import check_by_passes, growth_among, rows_judged
from distforest.growth.row_room import BLOCK_SHARE, FLOAT_BYTES, RowRoom, TableRoom, room_of
from distforest.growth.rows_by_node import are_scattered
from distforest.growth.stored_rows import StoredRows
from distforest.sources.arrays import release_pages
from distforest.sources.binned import BinnedSource
from distforest.sources.scratch import is_locked

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from distforest.growth.cuts.criteria import Gini, Variance
    from distforest.growth.cuts.sums import NodeSums
    from distforest.growth.cuts.table_sums import TableSums
    from distforest.sources.source import Int32s, Ints

ROWS = "rows-"
"""Beginning of the names of folders with the rows of a tree."""

LEFT_SECONDS = 60
"""A folder that nobody has locked is removed when nothing was written to it for this long."""


@dataclass(frozen=True)
class Passes:
    """Where rows wait between levels, and how much of them is held at once.

    Attributes
    ----------
    folder
        A folder for the files, which are removed with their trees.
    budget
        Bytes of rows that are in memory at once. The nodes of the trees, and five bytes a row for its draws, are not
        among them.
    block_rows
        Rows of a block; None: as many as the budget allows.
    """

    folder: Path
    budget: int
    block_rows: int | None = None

    def rows_of_block(self, bytes_of_row: int) -> int:
        """Rows that a pass reads at once, at least one."""
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
        The leaf of each row in each tree, shape (n_trees, n_rows); -1 for a row that is in no bag.

    Raises
    ------
    InputError
        As `check_by_passes`.
    """
    check_by_passes(growth)
    passes.folder.mkdir(parents=True, exist_ok=True)
    remove_left(passes.folder)
    tables, leaves = [], np.full(in_bag.shape, LEAF, np.int32)
    for number, weights, own in zip(trees.tolist(), in_bag, leaves, strict=True):
        with _own_folder(passes.folder) as folder:
            tables.append(_Tree(growth, number, replace(passes, folder=folder), own).grow(weights))
    return tables[0] if len(tables) == 1 else NodeTable.joined(tables), leaves


@contextmanager
def _own_folder(folder: Path) -> Iterator[Path]:
    """A folder for the rows of a tree, which is removed at the end; it is locked as long as its process lives."""
    with tempfile.TemporaryDirectory(dir=folder, prefix=ROWS) as own:
        handle = os.open(own, os.O_RDONLY)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield Path(own)
        finally:
            os.close(handle)


def remove_left(folder: Path) -> None:
    """Remove the rows that killed processes have left in a folder."""
    for left in folder.glob(f"{ROWS}*"):
        try:
            is_new = time.time() - left.stat().st_mtime < LEFT_SECONDS  # it may be locked in a moment
            if not is_new and not is_locked(left):
                shutil.rmtree(left, ignore_errors=True)
        except OSError:  # another process was faster, or another user owns it
            continue


class _Stretch(Protocol):
    """Consecutive nodes of a level, whose rows lie together."""

    def descend(self, tree: _Tree, depth: int) -> Sequence[_Stretch]:
        """Part the nodes and write them down; returns the stretches of their children, in their order."""

    def put_away(self) -> None:
        """Leave on disk alone what is read again."""


class _Tree:
    """A tree that grows by passes: what its stretches share; ``leaves`` is where the leaf of each row is written."""

    def __init__(self, growth: Growth, number: int, passes: Passes, leaves: Int32s) -> None:
        self.trees, self.leaves = np.array([number], np.int64), leaves
        self.growth, self.passes, self.written = growth.of_trees(self.trees), passes, Levels(1)
        self.rows = rows_judged(growth)
        self.room = room_of(growth, self.rows.truth)
        self._n_files = 0
        if isinstance(self.room, RowRoom):
            held = self.room.width * self.room.candidate_bytes // FLOAT_BYTES
            self.growth = replace(self.growth, held=held)

    @property
    def rows_in_memory(self) -> int:
        """Rows that may be finished in memory together, at least one."""
        return max(1, self.room.rows_in_memory(self.passes.budget))

    def grow(self, in_bag: Int32s) -> NodeTable:
        """Grow the tree over its in-bag rows."""
        root, rows = self.new_rows(), self.rows._replace(weights=in_bag)
        step = self.passes.rows_of_block(root.bytes_of_row)
        for first in range(0, len(in_bag), step):
            here = rows.slice(first, first + step)
            drawn = np.flatnonzero(here.weights)
            root.append(here.of_rows(drawn)._replace(numbers=(first + drawn).astype(np.int32)))
            for array in rows:
                if array is not None:
                    release_pages(array)
        stretches: Sequence[_Stretch] = [self.stretch_of(0, root)]
        depth = 0
        while stretches:
            below: list[_Stretch] = []
            for stretch in stretches:
                children = stretch.descend(self, depth)
                if len(stretches) > 1 or len(children) > 1:  # a single stretch stays in memory
                    for child in children:
                        child.put_away()
                below += children
            stretches, depth = self._joined(below), depth + 1
        return self.written.table()

    def _joined(self, stretches: list[_Stretch]) -> list[_Stretch]:
        """The stretches of a level, neighbours joined as long as they fit into memory together."""
        joined: list[_Stretch] = []
        for stretch in stretches:
            before = joined[-1] if joined else None
            if isinstance(before, _Pack) and isinstance(stretch, _Pack):
                n_rows = before.rows.n_rows + stretch.rows.n_rows
                if n_rows <= self.rows_in_memory:
                    joined[-1] = before.joined(stretch, self.new_rows())
                    continue
            joined.append(stretch)
        return joined

    def new_rows(self) -> StoredRows:
        """Rows that are to be written."""
        self._n_files += 1
        none = self.rows.slice(0, 0)
        return StoredRows(self.passes.folder / f"{self._n_files}", none.values, none.truth, none.categories)

    def cut(self, node: int, rows: StoredRows, depth: int) -> CodeCut | ValueCut | None:
        """Cut a node whose rows do not fit, and write it down; None if it is a leaf."""
        step, budget, growth = self.passes.rows_of_block(rows.bytes_of_row), self.passes.budget, self.growth
        if isinstance(self.room, RowRoom):
            categories = growth.search if isinstance(growth.search, CategorySearch) else None
            search = InTurn(self.room.held(budget, rows.n_rows), categories)
            return cut_by_values(growth, self.trees, node, rows, search, step, depth, self.written)
        held = self.room.held(budget, rows.n_rows) if isinstance(self.room, TableRoom) else None
        in_blocks = _InBlocks(rows, step, growth.n_categories, held)
        return cut_by_sums(growth, self.trees, node, in_blocks, depth, self.written)

    def stretch_of(self, node: int, rows: StoredRows) -> _Stretch:
        """A node as a stretch: finished in memory if its rows fit, else cut by passes."""
        if rows.n_rows > self.rows_in_memory:
            return _LargeNode(node, rows)
        numbers = np.arange(rows.n_rows, dtype=np.int32)
        weights = rows.read(0, rows.n_rows).weights
        starts = np.array([0, rows.n_rows], np.int64)
        frontier = Frontier(np.zeros(1, np.int64), np.array([node], np.int32), starts, numbers, weights)
        return _Pack(rows, frontier)


@dataclass
class _Pack:
    """Nodes whose rows fit into memory together; ``frontier`` has numbers of rows within ``rows``."""

    rows: StoredRows
    frontier: Frontier
    held: RowBlock | None = None

    def descend(self, tree: _Tree, depth: int) -> Sequence[_Stretch]:
        """Take the nodes one level down by the grower."""
        whole, nodes = self.held or self.rows.read(0, self.rows.n_rows), self._frontier()
        block, below = descend_in_memory(tree.growth, tree.trees, whole, nodes, depth, tree.written)
        tree.written.settle(nodes, whole.numbers, tree.leaves)
        if not below.n_nodes:
            self.rows.remove()
            return []
        rows = self.rows
        if block is not whole:
            rows.remove()
            rows = tree.new_rows()
            rows.append(block)
        return [_Pack(rows, below, block)]

    def joined(self, after: _Pack, rows: StoredRows) -> _Pack:
        """The nodes of this stretch and of the one after it, whose rows are written to ``rows``."""
        n, first, second = self.rows.n_rows, self._frontier(), after._frontier()
        for own in (self, after):
            rows.append(own.rows.read(0, own.rows.n_rows))
            own.rows.remove()
        frontier = Frontier(
            np.concatenate([first.tree, second.tree]),
            np.concatenate([first.node, second.node]),
            np.concatenate([first.starts, first.starts[-1] + second.starts[1:]]),
            np.concatenate([first.rows, second.rows + np.int32(n)]),
            np.concatenate([first.weights, second.weights]),
        )
        pack = _Pack(rows, frontier)
        pack.put_away()
        return pack

    def put_away(self) -> None:
        """Keep the rows on disk alone."""
        self.held = None
        frontier = self.frontier
        if len(frontier.rows):
            path = self._path()
            np.concatenate([frontier.rows, frontier.weights]).tofile(path)
            none = np.empty(0, np.int32)
            self.frontier = replace(frontier, rows=none, weights=none)

    def _frontier(self) -> Frontier:
        """The frontier, read again if it was put away."""
        if len(self.frontier.rows):
            return self.frontier
        rows, weights = np.fromfile(self._path(), np.int32).reshape(2, -1)
        return replace(self.frontier, rows=rows, weights=weights)

    def _path(self) -> Path:
        return self.rows.path.with_name(f"{self.rows.path.name}.frontier")


@dataclass
class _LargeNode:
    """A node whose rows do not fit into memory."""

    node: int
    rows: StoredRows

    def descend(self, tree: _Tree, depth: int) -> Sequence[_Stretch]:
        """Cut the node by passes, and write its rows to its children."""
        cut = tree.cut(self.node, self.rows, depth)
        if cut is None:
            for block in self.rows.blocks(tree.passes.rows_of_block(self.rows.bytes_of_row)):
                tree.leaves[block.numbers] = self.node
            self.rows.remove()
            return []
        children, first = [tree.new_rows(), tree.new_rows()], 0
        for block in self.rows.blocks(tree.passes.rows_of_block(self.rows.bytes_of_row)):
            goes_right = cut.sides_of(block, first)
            first += len(goes_right)
            for child, goes_there in zip(children, (~goes_right, goes_right), strict=True):
                child.append(block.of_rows(np.flatnonzero(goes_there)))
        self.rows.remove()
        return [tree.stretch_of(cut.left + side, rows) for side, rows in enumerate(children)]

    def put_away(self) -> None:
        """Nothing of it is in memory."""


@dataclass(frozen=True)
class _InBlocks:
    """Rows on disk that answer sums by a pass over them, ``step`` rows at a time; see `SummedRows`."""

    rows: StoredRows
    step: int
    n_categories: Int32s | None
    held: int | None

    @property
    def weight(self) -> int:
        """Sum of the weights."""
        return self.rows.weight

    @property
    def least(self) -> np.ndarray:
        """The least truth."""
        return self.rows.least

    @property
    def greatest(self) -> np.ndarray:
        """The greatest truth."""
        return self.rows.greatest

    def sums(self, criterion: Gini | Variance, columns: Int32s) -> NodeSums | TableSums:
        """The sums of the rows."""
        sums = sums_of_none(criterion, columns, self.n_categories)
        for block in self.rows.blocks(self.step):
            sums.add(block, columns)
        return sums


def descend_in_memory(
    growth: Growth, trees: Ints, block: RowBlock, frontier: Frontier, depth: int, written: Levels
) -> tuple[RowBlock, Frontier]:
    """Take nodes whose rows are in memory one level down, and write them; returns the rows and their children.

    ``frontier`` has numbers of rows within ``block``. Rows of leaves are dropped once they are half of it, or when the
    others are laid in the order of their nodes; see `distforest.growth.rows_by_node`.
    """
    growth = growth_among(growth, block)
    parting = PartingByCuts(growth, trees, unseen, growth.criterion, written)
    below = descend_level(frontier, depth, parting, growth.watch)
    by_node = isinstance(growth.source, BinnedSource) and are_scattered(below, depth + 1, block.values.shape[1])
    if 2 * len(below.rows) >= len(block.weights) and not by_node:
        return block, below
    numbers = below.rows
    block = block.of_rows(numbers)._replace(weights=below.weights)
    return block, replace(below, rows=np.arange(len(numbers), dtype=np.int32))
