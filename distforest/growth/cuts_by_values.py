"""Cuts of a node whose features are on disk: the grower cuts it, from a few candidates' values at a time."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from distforest.forest.frontier import Frontier
from distforest.growth.cuts.candidates_in_turn import InTurn
from distforest.growth.grower import PartingByCuts, descend_level, unseen
from distforest.growth.judged_rows import criterion_over
from distforest.sources.arrays import ArraySource
from distforest.sources.mapped_rows import MappedRows

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from distforest.growth.cuts.sums import RowBlock
    from distforest.growth.grower import Growth, Levels
    from distforest.growth.stored_rows import StoredRows
    from distforest.sources.source import Ints


@dataclass(frozen=True)
class ValueCut:
    """The cut of a node by the values of a projection.

    Attributes
    ----------
    right
        Whether each row goes right, shape (n_rows,).
    left
        Number of the left child; that of the right one follows.
    """

    right: NDArray[np.bool_]
    left: int

    def sides_of(self, block: RowBlock, first: int) -> NDArray[np.bool_]:
        """Whether each row of a block goes right, of which the first is number ``first`` of the node."""
        return self.right[first : first + len(block.weights)]


def cut_by_values(
    growth: Growth, trees: Ints, node: int, rows: StoredRows, search: InTurn, step: int, depth: int, written: Levels
) -> ValueCut | None:
    """Cut a node whose rows are on disk by ``search``, and write it down; None if it is a leaf.

    Rows keep their order, in which sums of floats are added; ``step`` of them are read at once.
    """
    assert isinstance(growth.source, ArraySource)  # noqa: S101  (`check_by_passes`)
    n = rows.n_rows
    source = MappedRows(rows.mapped(), growth.source.is_complete, step)
    weights = rows.weights()
    frontier = Frontier(
        *(np.zeros(1, np.int64), np.array([node], np.int32), np.array([0, n]), np.arange(n, dtype=np.int32), weights)
    )
    criterion = criterion_over(growth.criterion, rows.truth(), source.values, source)
    growth = replace(growth, source=source, criterion=criterion, search=search)
    below = descend_level(frontier, depth, PartingByCuts(growth, trees, unseen, criterion, written), growth.watch)
    if not below.n_nodes:
        return None
    right = np.zeros(n, np.bool_)
    right[below.rows[below.starts[1] :]] = True
    return ValueCut(right, int(below.node[0]))
