"""Shapes of the trees of a forest: depths and sizes of leaves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np

from distforest.forest.node_table import LEAF
from distforest.forest.pairs.pair_leaves import Ranks
from distforest.forest.pairs.ranking_cells import Cells
from distforest.forest.path_lengths import depths_of

if TYPE_CHECKING:
    from distforest.forest.forest import Forest
    from distforest.sources.source import Ints


_MOST_RANGES = 10
"""Ranges of depths in which leaves are counted."""


@dataclass(frozen=True)
class TreeShapes:
    """Depths and sizes of all leaves of a forest.

    Attributes
    ----------
    depths
        Depth of each leaf, shape (n_leaves,); a root that is a leaf has depth 0. The leaf of a ranking tree is a cell,
        and its depth a number of cells.
    sizes
        In-bag weight of the rows, or pairs, of each leaf, shape (n_leaves,).
    """

    depths: Ints
    sizes: Ints

    @classmethod
    def of(cls, forest: Forest) -> Self:
        """Collect the leaves of a forest in memory."""
        table = forest.table
        if isinstance(forest.leaf_table, Ranks):
            depths = np.concatenate([_depths_of_cells(forest.leaf_table, tree) for tree in range(forest.n_trees)])
        else:
            depths = depths_of(table)
        return cls(depths[table.is_leaf], table.n_rows[table.is_leaf])

    def depths_told(self) -> list[tuple[str, int]]:
        """Count the leaves at each depth, or in at most ten ranges of depths of equal width.

        Examples
        --------
        >>> TreeShapes(np.array([2, 2, 4]), np.array([1, 5, 3])).depths_told()
        [('2', 2), ('3', 0), ('4', 1)]
        """
        least, greatest = int(self.depths.min()), int(self.depths.max())
        width = -(-(greatest - least + 1) // _MOST_RANGES)
        return _in_ranges(self.depths, least, np.arange(least, greatest + 1, width) + width - 1)

    def sizes_told(self) -> list[tuple[str, int]]:
        """Count the leaves by size, in ranges that double.

        Examples
        --------
        >>> TreeShapes(np.array([2, 2, 4]), np.array([1, 5, 3])).sizes_told()
        [('1', 1), ('2', 0), ('3 to 4', 1), ('5 to 8', 1)]
        """
        powers = np.ceil(np.log2(np.maximum(self.sizes, 1))).astype(np.int64)
        ends = 2 ** np.arange(powers.min(), powers.max() + 1)
        return _in_ranges(self.sizes, int(ends[0]) // 2 + 1, ends)


def _in_ranges(values: Ints, start: int, ends: Ints) -> list[tuple[str, int]]:
    """Count values in ranges from a start, each up to one of ascending ends."""
    counts = np.bincount(np.searchsorted(ends, values), minlength=len(ends)).tolist()
    ranges = zip([start, *(ends[:-1] + 1).tolist()], ends.tolist(), counts, strict=True)
    return [(f"{most:,}" if least >= most else f"{least:,} to {most:,}", n) for least, most, n in ranges]


def _depths_of_cells(ranks: Ranks, tree: int) -> Ints:
    """Return the depth of each cell of a ranking tree, shape (tree_size,); 0 for a node that is not a cell."""
    cells = Cells.from_ranks(ranks, tree)
    depths = np.zeros(len(cells.better), np.int64)
    for cell in np.flatnonzero(cells.better != LEAF):  # children come after their parents
        depths[[cells.better[cell], cells.worse[cell]]] = depths[cell] + 1
    return depths
