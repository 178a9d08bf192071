"""How pairs walk down trees: all columns of a block of pairs are read once, then the block walks down every tree."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from distforest.forest.walks import WalkSteps, block_rows, walk_lanes
from distforest.jit import borrowing, kernel
from distforest.sources.point_pairs import MAX_MIN, ColumnReading, PointPairs, pair_value
from distforest.sources.source import Float32s, Floats, Int32s, Ints

if TYPE_CHECKING:
    from distforest.forest.table import NodeTable


class SumSteps(NamedTuple):
    """Trees whose projections are sums of columns, as a step reads them; each is an array of a `NodeTable`."""

    left: Int32s
    right: Int32s
    threshold: Floats
    offset: Ints
    columns: Int32s
    weights: Floats

    @classmethod
    def of(cls, table: NodeTable) -> SumSteps:
        """The steps of a table's trees."""
        return cls(table.left, table.right, table.threshold, table.offset, table.columns, table.weights)


@dataclass(frozen=True)
class Walks:
    """The trees of a table, as pairs walk down them: side by side where every projection is a single column."""

    table: NodeTable

    def ends(self, tree: int, values: Float32s) -> Ints:
        """Find the node in which each pair of a block ends, numbers in the whole table, shape (n,)."""
        ends = np.empty(len(values), np.int64)
        if (steps := self.table.steps) is not None:
            rows = np.arange(len(values), dtype=np.int32)
            walk_lanes(steps.nodes, steps.starts[tree], values, rows, steps.sets, ends)
        else:
            walk_sums(int(self.table.tree_start[tree]), SumSteps.of(self.table), values, ends)
        return ends

    def sums(self, parts: Floats, values: Float32s) -> Floats:
        """Sum over the trees the ``parts``, shape (N,), of the nodes in which each pair of a block ends, shape (n,)."""
        sums = np.zeros(len(values))
        if self.table.steps is not None:
            add_walks(self.table.steps, values, parts, sums)
            return sums
        for tree in range(self.table.n_trees):
            sums += parts[self.ends(tree, values)]
        return sums

    def tally(self, tree: int, values: Float32s, codes: NDArray[np.uint8], weights: Int32s, counts: Ints) -> None:
        """Add the weights of a block's pairs, by class, to the ``counts`` of the nodes passed, shape (tree_size, 2)."""
        tally_pairs(int(self.table.tree_start[tree]), SumSteps.of(self.table), values, codes, weights, counts)


def blocks_of(pairs: PointPairs) -> Iterator[tuple[slice, Float32s]]:
    """Blocks of pairs, each with the values of all columns, shape (n, n_columns); the next block overwrites them."""
    n_columns, how = pairs.shape[1], pairs.columns.column_reading
    step = block_rows(n_columns)
    room = np.empty((min(step, len(pairs.left)), n_columns), np.float32)
    for first in range(0, len(pairs.left), step):
        block = slice(first, min(first + step, len(pairs.left)))
        values = room[: block.stop - block.start]
        read_block(pairs.points, pairs.others, pairs.left[block], pairs.right[block], how, values)
        yield block, values


@borrowing
def read_block(
    points: Float32s,
    others: Float32s,
    left: Int32s,
    right: Int32s,
    how: ColumnReading,
    values: Float32s,
) -> None:
    """values[r, c] = column c of pair r: as `pair_value`, the columns of a family side by side."""
    n_features, n_of_family, is_max_min = how.n_features, how.n_of_family, how.family == MAX_MIN
    for r in range(left.shape[0]):
        a, b, of_pair = points[left[r]], others[right[r]], values[r]
        if is_max_min:
            for c in range(n_features):
                of_pair[c] = max(a[c], b[c])
                of_pair[n_features + c] = min(a[c], b[c])
        else:
            for c in range(n_features):
                of_pair[c] = abs(a[c] - b[c])
            for c in range(n_of_family - n_features):
                of_pair[n_features + c] = (a[c] + b[c]) * np.float32(0.5)
        for c in range(n_of_family, values.shape[1]):
            of_pair[c] = pair_value(a, b, c, how)


@kernel
def add_walks(steps: WalkSteps, values: Float32s, parts: Floats, sums: Floats) -> None:
    """sums[r] = sum over the trees, in their order, of parts[the leaf at which pair r arrives]."""
    rows, ends = np.arange(values.shape[0]).astype(np.int32), np.empty(values.shape[0], np.int64)
    sums[:] = 0.0
    for tree in range(steps.starts.shape[0]):
        walk_lanes(steps.nodes, steps.starts[tree], values, rows, steps.sets, ends)
        for r in range(values.shape[0]):
            sums[r] += parts[ends[r]]


@borrowing
def walk_sums(root: int, steps: SumSteps, values: Float32s, ends: Ints) -> None:
    """ends[r] = the leaf of pair r; left where sum over e of weights[e] values[r, columns[e]] <= threshold."""
    left, right, threshold, offset, columns, weights = steps
    for r in range(values.shape[0]):
        node = root
        while left[node] >= 0:
            total = 0.0
            for e in range(offset[node], offset[node + 1]):
                total += weights[e] * np.float64(values[r, columns[e]])
            node = root + (left[node] if total <= threshold[node] else right[node])
        ends[r] = node


@borrowing
def tally_pairs(
    root: int, steps: SumSteps, values: Float32s, codes: NDArray[np.uint8], multiplicity: Int32s, counts: Ints
) -> None:
    """counts[node, s] += sum of the multiplicities of the pairs of class s that pass the node or end there."""
    left, right, threshold, offset, _, weights = steps
    columns = steps.columns.view(np.uint32)  # see `distforest.jit`
    for r in range(values.shape[0]):
        node, s = root, codes[r]
        counts[0, s] += multiplicity[r]
        while left[node] >= 0:
            total = 0.0
            for e in range(offset[node], offset[node + 1]):
                total += weights[e] * np.float64(values[r, columns[e]])
            node = root + (left[node] if total <= threshold[node] else right[node])
            counts[node - root, s] += multiplicity[r]
