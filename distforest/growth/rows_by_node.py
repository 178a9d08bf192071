"""Rows by node: trees over codes of bins in memory, whose rows are laid in the order of the nodes as these get smaller.

The codes of a node's rows lie scattered among those of all rows. From some level on each of them comes from memory,
though all of a node's would fit into the processor's cache. So after some levels the rows of a tree are copied in the
order of its nodes::

    all rows      [ 0 1 2 3 4 5 6 7 8 9 ]      a node has rows 0 3 4 8, the next one 1 2 5 7 9
    by node       [ 0 3 4 8 | 1 2 5 7 9 ]      it has rows 0 to 3, the next one 4 to 8

The descendants of a node find their rows in its stretch. After some more levels each stretch is put in order, in place.
Only the numbers of rows change, not their order within a node, so the trees are the same bits.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self

import numpy as np

from distforest.forest.frontier import Frontier
from distforest.forest.table import LEAF, NodeTable
from distforest.growth.cuts.sums import RowBlock
from distforest.growth.grower import Growth, Levels, PartingByCuts, descend_level, unseen
from distforest.growth.judged_rows import growth_among, lack_of_sums, truth_judged
from distforest.sources.binned import BinnedSource
from distforest.sources.source import Int32s, Ints

if TYPE_CHECKING:
    from numpy.typing import NDArray

LAID_LEVELS = 3
"""Levels after which rows are laid again; a node has then at most eight times as many descendants."""

CACHED_BYTES = 1 << 18
"""Values of rows that stay in the processor's cache, in whatever order they lie."""

LEAST_BYTES = 1 << 23
"""Codes of all rows that make it worth while to grow one tree after another."""

MOST_LAID_COLUMNS = 256
"""Columns up to which the plan's memory of a row has room for its copy."""


def gains_by_node(growth: Growth) -> bool:
    """Whether trees grow faster by `grow_by_node`, and can."""
    source = growth.source
    if not isinstance(source, BinnedSource) or lack_of_sums(growth):
        return False
    return source.codes.nbytes >= LEAST_BYTES and source.shape[1] <= MOST_LAID_COLUMNS


def are_scattered(frontier: Frontier, depth: int, bytes_of_row: int) -> bool:
    """Whether the rows of a level's nodes are laid again: each third level, as long as stretches do not fit the cache.

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


def grow_by_node(growth: Growth, trees: Ints, in_bag: NDArray[np.int32]) -> tuple[NodeTable, Int32s]:
    """Grow trees one after another: the table and the leaves of `Growth.grow`, bit for bit.

    Parameters
    ----------
    growth
        Data and method, for which `gains_by_node` holds.
    trees
        Numbers of the trees in the forest, shape (n_trees,).
    in_bag
        Multiplicity of each row in each tree, shape (n_trees, n_rows).
    """
    leaves = np.full(in_bag.shape, LEAF, np.int32)
    tables = [
        _grow_tree(growth, np.array([number], np.int64), weights, own)
        for number, weights, own in zip(trees.tolist(), in_bag, leaves, strict=True)
    ]
    return tables[0] if len(tables) == 1 else NodeTable.joined(tables), leaves


def _grow_tree(growth: Growth, tree: Ints, weights: Int32s, leaves: Int32s) -> NodeTable:
    """Grow one tree; writes the leaf of each of its rows."""
    written, rows = Levels(1), RowsByNode.all_of(growth.of_trees(tree))
    frontier, depth = Frontier.roots(weights[None]), 0
    while frontier.n_nodes:
        if are_scattered(frontier, depth, growth.source.shape[1]):
            rows, frontier = rows.laid(frontier)
        nodes, parting = frontier, PartingByCuts(rows.growth, tree, unseen, rows.growth.criterion, written)
        frontier, depth = descend_level(frontier, depth, parting, growth.watch), depth + 1
        written.settle(nodes, rows.numbers, leaves)
    return written.table()


@dataclass(frozen=True)
class RowsByNode:
    """The rows of a tree as they lie in memory.

    Attributes
    ----------
    growth
        The growth over these rows, which are numbered as they lie.
    starts
        Where the stretch of each node begins, shape (n_stretches + 1,), in the level at which they were laid.
    numbers
        The number of each row among all rows, shape (n_rows,); None: they are all rows.
    """

    growth: Growth
    starts: Ints
    numbers: Int32s | None = None

    @classmethod
    def all_of(cls, growth: Growth) -> Self:
        """All rows of a growth, in one stretch."""
        return cls(growth, np.array([0, growth.source.shape[0]], np.int64))

    def laid(self, frontier: Frontier) -> tuple[Self, Frontier]:
        """The rows of the nodes of a level in the order of these nodes, and the nodes with these rows' numbers.

        Rows of one stretch after another are put in order, in their place: the rows that a stretch keeps never go
        beyond its end. Of all rows, which are not the tree's own, they are copied.
        """
        source, truth = self.growth.source, truth_judged(self.growth.criterion)
        assert isinstance(source, BinnedSource)  # noqa: S101  (`gains_by_node`)
        if self.numbers is None:
            numbers = frontier.rows
            codes, truth = source.codes.take(numbers, axis=0), truth.take(numbers, axis=0)
        else:
            firsts = frontier.rows[frontier.starts[:-1]]  # the nodes of a level come in the order of their stretches
            ends = frontier.starts[np.searchsorted(firsts, self.starts)]
            lying = (source.codes, truth, self.numbers)
            codes, truth, numbers = (_put_in_order(own, frontier.rows, ends) for own in lying)
        growth = growth_among(self.growth, RowBlock(codes, truth, frontier.weights))
        lie = np.arange(len(frontier.rows), dtype=np.int32)
        return replace(self, growth=growth, starts=frontier.starts, numbers=numbers), replace(frontier, rows=lie)


def _put_in_order(values: np.ndarray, rows: Int32s, ends: Ints) -> np.ndarray:
    """values[rows], in place of ``values``.

    Entries ``ends[k]`` to ``ends[k + 1]`` of ``rows`` are of one stretch of ``values``, which does not begin before
    entry ``ends[k]`` and ends before the next stretch.
    """
    room = np.empty((np.diff(ends).max(initial=0), *values.shape[1:]), values.dtype)
    for first, last in zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True):
        ordered = room[: last - first]
        np.take(values, rows[first:last], axis=0, out=ordered, mode="clip")  # other modes copy once more
        values[first:last] = ordered
    return values[: len(rows)]
