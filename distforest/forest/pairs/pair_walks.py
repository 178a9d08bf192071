"""How pairs walk down trees: all columns of a block of pairs are read once, then the block walks down every tree.

A step has no branch, also where values are missing: a block then has each value twice, as in
`distforest.forest.block_walks`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from distforest.forest.block_walks import repeat_values, steps_on_twice
from distforest.forest.sum_walks import SumNodes, tally_pairs, walk_sums
from distforest.forest.walks import IS_LEAF, WalkSteps, block_rows, preorder, walk_on
from distforest.jit import kernel, no_refcount
from distforest.sources.arrays import is_complete
from distforest.sources.point_pairs import MAX_MIN, OF_NUMBERS, ColumnReading, PairReading, PointPairs, pair_value
from distforest.sources.source import Float32s, Floats, Int32s, Ints
from distforest.sources.sparse_pairs import SparsePairs

if TYPE_CHECKING:
    from distforest.forest.category_sets import CategorySets
    from distforest.forest.node_table import NodeTable
    from distforest.forest.walks import Children


class Block(NamedTuple):
    """Some pairs, and the values of all their columns.

    Attributes
    ----------
    pairs
        Which of the pairs they are.
    values
        Shape (n, n_columns); NaN where a value is missing.
    twice
        Each value twice, the second time infinity where it is missing, shape (n, 2 n_columns); None if none is missing.
    """

    pairs: slice
    values: Float32s
    twice: Float32s | None

    @classmethod
    def from_values(cls, values: Float32s, first: int = 0, room: Float32s | None = None) -> Block:
        """A block of the pairs from the number ``first`` on; ``room`` is for its values twice."""
        twice = None
        if not is_complete(values):
            twice = np.empty((len(values), 2 * values.shape[1]), np.float32) if room is None else room[: len(values)]
            repeat_values(values, np.arange(len(values), dtype=np.int32), twice)
        return cls(slice(first, first + len(values)), values, twice)

    def only(self, place: int) -> Block:
        """The block of one of its pairs alone."""
        own, pair = slice(place, place + 1), self.pairs.start + place
        return Block(slice(pair, pair + 1), self.values[own], None if self.twice is None else self.twice[own])


@dataclass(frozen=True)
class Walks:
    """The trees of a table, as pairs walk down them: side by side where every projection is a single column."""

    table: NodeTable

    def ends(self, tree: int, block: Block) -> Ints:
        """Find the node in which each pair of a block ends, numbers in the whole table, shape (n,)."""
        ends, (steps, values) = np.empty(len(block.values), np.int64), self._steps_on(block)
        if steps is not None:
            rows, (live, at) = np.arange(len(values), dtype=np.int32), np.empty((2, len(values)), np.uint32)
            walk_pairs(steps, steps.starts[tree], values, rows, live, at, ends)
        else:
            walk_sums(*self._sums_on(block), int(self.table.tree_start[tree]), block.values, ends)
        return ends

    def sums(self, parts: Floats, block: Block) -> Floats:
        """Sum over the trees the ``parts``, shape (N,), of the nodes in which each pair of a block ends, shape (n,)."""
        sums = np.zeros(len(block.values))
        self.add(parts, block, slice(0, self.table.n_trees), sums)
        return sums

    def add(self, parts: Floats, block: Block, trees: slice, sums: Floats) -> None:
        """Add to ``sums``, shape (n,), what some consecutive trees add to `sums`."""
        steps, values = self._steps_on(block)
        if steps is not None:
            add_walks(steps, steps.starts[trees], values, parts, sums)
            return
        for tree in range(trees.start, trees.stop):
            sums += parts[self.ends(tree, block)]

    def tally(self, tree: int, block: Block, codes: NDArray[np.uint8], weights: Int32s, counts: Ints) -> None:
        """Add the weights of a block's pairs, by class, to the ``counts`` of the nodes passed, shape (tree_size, 2)."""
        root = int(self.table.tree_start[tree])
        tally_pairs(*self._sums_on(block), root, block.values, codes, weights, counts)

    def _steps_on(self, block: Block) -> tuple[WalkSteps | None, Float32s]:
        """The steps on single columns for a block, None if there are none, and the values that they read."""
        if block.twice is None:
            return self.table.steps, block.values
        return self._steps_of_twice, block.twice

    def _sums_on(self, block: Block) -> tuple[SumNodes, CategorySets | None]:
        """The nodes on sums of columns for a block."""
        table = self.table if block.twice is None else self._sending_on
        return table.sum_nodes, table.sets_if_any

    @cached_property
    def _sending_on(self) -> NodeTable:
        """The table that sends on pairs that lack a value."""
        return self.table.sending_on()

    @cached_property
    def _steps_of_twice(self) -> WalkSteps | None:
        """The steps on values that are there twice."""
        table, steps = self._sending_on, self.table.steps
        if steps is None or table.missing_right is None:
            return None
        return steps_on_twice(steps, preorder(table.tree_start, table.left, table.right), table.missing_right)


def blocks_of(pairs: PointPairs | SparsePairs) -> Iterator[Block]:
    """Blocks of pairs, each with the values of all columns, which the next block overwrites."""
    n_columns, often = pairs.shape[1], 1 if pairs.is_complete else 2
    step = block_rows(often * n_columns)
    room = np.empty((min(step, len(pairs.left)), n_columns), np.float32)
    twice = np.empty((0 if often == 1 else len(room), 2 * n_columns), np.float32)
    for first in range(0, len(pairs.left), step):
        block = slice(first, min(first + step, len(pairs.left)))
        values = room[: block.stop - block.start]
        if isinstance(pairs, SparsePairs):
            reading = pairs.dense(block).reading
        else:
            reading = pairs.reading._replace(left=pairs.reading.left[block], right=pairs.reading.right[block])
        read_block(reading, values)
        yield Block(block, values, None) if often == 1 else Block.from_values(values, first, twice)


def on_used(table: NodeTable, pairs: SparsePairs) -> tuple[NodeTable, SparsePairs]:
    """The same trees and pairs, with the features alone that the trees read."""
    n_features = pairs.columns.n_features
    used = np.unique(np.append(table.columns % n_features, 0))
    if len(used) == n_features:
        return table, pairs
    column = np.searchsorted(used, table.columns % n_features) + (table.columns // n_features) * len(used)
    return replace(table, columns=column.astype(np.int32)), pairs.on(used)


@no_refcount
def read_block(pairs: PairReading, values: Float32s) -> None:
    """values[r, c] = column c of pair r: as `pair_value`, the columns of a family side by side."""
    points, others, left, right, how, is_complete = pairs
    n_features, n_of_family, is_max_min = how.n_features, how.n_of_family, how.family == MAX_MIN
    for r in range(left.shape[0]):
        a, b, of_pair = points[left[r]], others[right[r]], values[r]
        if is_max_min:
            for c in range(n_features):
                of_pair[c] = max(a[c], b[c])
                of_pair[n_features + c] = min(a[c], b[c])
            if not is_complete:
                for c in range(n_features):
                    if np.isnan(a[c]) or np.isnan(b[c]):
                        of_pair[c] = of_pair[n_features + c] = np.nan
        else:
            for c in range(n_features):
                of_pair[c] = abs(a[c] - b[c])
            for c in range(n_of_family - n_features):
                of_pair[n_features + c] = (a[c] + b[c]) * np.float32(0.5)
        read_categories(a, b, how, of_pair)
        for c in range(n_of_family, values.shape[1]):
            of_pair[c] = pair_value(a, b, c, how)


@no_refcount
def read_categories(a: Float32s, b: Float32s, how: ColumnReading, of_pair: Float32s) -> None:
    """of_pair[c] = column c of a pair, for the columns of all features of categories."""
    for c in range(how.kinds.shape[0]):
        if how.kinds[c] != OF_NUMBERS:
            for column in range(c, how.n_of_family, how.n_features):
                of_pair[column] = pair_value(a, b, column, how)


@kernel
def add_walks(steps: WalkSteps, starts: Children, values: Float32s, parts: Floats, sums: Floats) -> None:
    """sums[r] += parts[the leaf at which pair r arrives], for one tree after another, by their roots ``starts``."""
    rows, ends = np.arange(values.shape[0]).astype(np.int32), np.empty(values.shape[0], np.int64)
    live, at = np.empty(values.shape[0], np.uint32), np.empty(values.shape[0], np.uint32)
    for start in starts:
        walk_pairs(steps, start, values, rows, live, at, ends)
        for r in range(values.shape[0]):
            sums[r] += parts[ends[r]]


@kernel
def walk_pairs(
    steps: WalkSteps,
    start: int,
    values: Float32s,
    rows: Int32s,
    live: NDArray[np.uint32],
    at: Children,
    ends: Ints,
) -> None:
    """ends[r] = the leaf at which pair r arrives from the root ``start`` of a tree, a number in the whole table.

    ``rows`` are the numbers of the pairs from 0; ``live`` and ``at`` are room for where each stands.
    """
    for r in range(values.shape[0]):
        at[r] = start
    walk_on(steps.nodes, values, rows, steps.sets, live, at)
    for r in range(values.shape[0]):
        ends[r] = at[r] ^ IS_LEAF
