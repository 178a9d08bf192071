"""The shapes of a forest's trees: how deep their leaves lie, and how much each holds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np

from distforest.forest.pairs.cells import Cells
from distforest.forest.pairs.pair_leaves import Ranks
from distforest.forest.path_lengths import depths_of
from distforest.forest.table import LEAF

if TYPE_CHECKING:
    from distforest.forest.forest import Forest
    from distforest.sources.source import Ints


@dataclass(frozen=True)
class TreeShapes:
    """All leaves of a forest.

    Attributes
    ----------
    depths
        Depth of each leaf, 0 for a root that is one, shape (n_leaves,). The leaf of a ranking tree is a cell, and its
        depth a number of cells.
    sizes
        In-bag weight of the rows, or pairs, of each leaf, shape (n_leaves,).
    """

    depths: Ints
    sizes: Ints

    @classmethod
    def of(cls, forest: Forest) -> Self:
        """Of a forest in memory."""
        table = forest.table
        if isinstance(forest.leaf_table, Ranks):
            depths = np.concatenate([_depths_of_cells(forest.leaf_table, tree) for tree in range(forest.n_trees)])
        else:
            depths = depths_of(table)
        return cls(depths[table.is_leaf], table.n_rows[table.is_leaf])

    def depths_told(self, most: int | None = None) -> list[tuple[str, int]]:
        """Number of leaves at each depth, from the least, or in at most so many ranges of depths that are as wide.

        Examples
        --------
        >>> shapes = TreeShapes(np.array([2, 2, 4]), np.array([1, 5, 3]))
        >>> shapes.depths_told()
        [('2', 2), ('3', 0), ('4', 1)]
        >>> shapes.depths_told(2)
        [('2 to 3', 2), ('4', 1)]
        """
        least, greatest = int(self.depths.min()), int(self.depths.max())
        width = 1 if most is None else -(-(greatest - least + 1) // most)
        counts = np.bincount((self.depths - least) // width).tolist()
        starts = range(least, greatest + 1, width)
        return [(_range(start, min(start + width - 1, greatest)), n) for start, n in zip(starts, counts, strict=True)]

    def sizes_told(self) -> list[tuple[str, int]]:
        """Number of leaves of each size, in ranges that double.

        Examples
        --------
        >>> TreeShapes(np.array([2, 2, 4]), np.array([1, 5, 3])).sizes_told()
        [('1', 1), ('2', 0), ('3 to 4', 1), ('5 to 8', 1)]
        """
        powers = np.ceil(np.log2(np.maximum(self.sizes, 1))).astype(np.int64)
        least = int(powers.min())
        counts = enumerate(np.bincount(powers - least).tolist(), start=least)
        return [(_doubling(power), n) for power, n in counts]


def _doubling(power: int) -> str:
    """The sizes above half of a power of two, up to it."""
    return _range(2**power // 2 + 1, 2**power)


def _range(least: int, most: int) -> str:
    return f"{most:,}" if least >= most else f"{least:,} to {most:,}"


def _depths_of_cells(ranks: Ranks, tree: int) -> Ints:
    """Depth of each cell of a ranking tree, shape (tree_size,); 0 for a node that is none."""
    cells = Cells.of(ranks, tree)
    depths = np.zeros(len(cells.better), np.int64)
    for cell in np.flatnonzero(cells.better != LEAF):  # children come after their parents
        depths[[cells.better[cell], cells.worse[cell]]] = depths[cell] + 1
    return depths
