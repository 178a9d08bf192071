"""The tops of trees, in which many rows take a step at once.

Near the root many rows stand at one node, so a step there needs no access to a node for each row: its numbers are read
once, and the processor compares a column of a block of rows with the threshold, several rows in one instruction. A row
that stands elsewhere stays. So a node of a top costs each row the same, whether it meets the node or not, and is worth
it where many do. The columns that the tops read are laid out for this, each by itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from distforest.forest.walk_nodes import CHILD, THRESHOLD
from distforest.jit import kernel
from distforest.sources.source import offsets

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from distforest.forest.walk_nodes import Children, WalkNodes
    from distforest.sources.source import Float32s, Floats, Int32s, Ints

TOP_SHARE = 1 / 16
"""The share of a tree's training rows that reached a node of its top."""

COST_OF_NODE, COST_OF_COLUMN = 0.1, 0.35
"""What a node of a top and a column that is laid out cost a row, in steps of a row that walks by itself: measured."""

FEWEST_FOR_TOPS = 64
"""Fewer rows walk by themselves from the root on."""

ROWS_IN_TOP = 1 << 10
"""Rows that go through the top of a tree together: where they stand stays in the processor's first cache."""

ROWS_LAID_OUT = 64
"""Rows whose columns are laid out together."""


class TreeTops(NamedTuple):
    """The nodes of the tops of some trees, a parent before its children.

    Attributes
    ----------
    start
        Where the nodes of each tree's top begin, shape (n_trees + 1,).
    place
        The places of the nodes among those of the walk, shape (n,).
    slot
        The place of each node's column in ``columns``, shape (n,).
    columns
        The columns that the nodes read.
    """

    start: Ints
    place: Children
    slot: NDArray[np.uint32]
    columns: NDArray[np.uint32]


def no_tops(n_trees: int) -> TreeTops:
    """The tops of trees that have none."""
    none = np.empty(0, np.uint32)
    return TreeTops(np.zeros(n_trees + 1, np.int64), none, none, none)


def tops_of(n_trees: int, tree: Ints, share: Floats, place: Children, columns: NDArray[np.uint32]) -> TreeTops:
    """The tops of trees, or none where they would cost more than they save.

    Parameters
    ----------
    n_trees
        Number of trees.
    tree
        The tree of each node that may be in a top, ascending and a parent before its children, shape (n,).
    share
        The share of the tree's training rows that reached the node, shape (n,).
    place
        The place of the node among those of the walk, shape (n,).
    columns
        The column that the node reads, shape (n,).
    """
    is_top = share >= TOP_SHARE
    used, slot = np.unique(columns[is_top], return_inverse=True)
    if share[is_top].sum() <= COST_OF_NODE * is_top.sum() + COST_OF_COLUMN * len(used):
        return no_tops(n_trees)
    start = offsets(np.bincount(tree[is_top], minlength=n_trees))
    return TreeTops(start, place[is_top], slot.astype(np.uint32), used)


@kernel
def lay_columns(values: Float32s, rows: Int32s, columns: NDArray[np.uint32], laid: Float32s) -> None:
    """laid[c, r] = values[rows[r], columns[c]]; four columns at a time, of which the last may be the same ones."""
    cells, width, rows = values.reshape(-1), np.uint64(values.shape[1]), rows.view(np.uint32)
    numbers, last = columns.astype(np.uint64), columns.shape[0] - 1
    for first in range(0, rows.shape[0], ROWS_LAID_OUT):
        end = min(first + ROWS_LAID_OUT, rows.shape[0])
        for c in range(0, last + 1, 4):
            d, e, f = min(c + 1, last), min(c + 2, last), min(c + 3, last)
            of_c, of_d, of_e, of_f = laid[c], laid[d], laid[e], laid[f]
            at_c, at_d, at_e, at_f = numbers[c], numbers[d], numbers[e], numbers[f]
            for r in range(first, end):
                row = np.uint64(rows[r]) * width
                of_c[r], of_d[r] = cells[row + at_c], cells[row + at_d]
                of_e[r], of_f[r] = cells[row + at_e], cells[row + at_f]


@kernel
def step_through_top(nodes: WalkNodes, tops: TreeTops, tree: int, laid: Float32s, at: Children) -> None:
    """at[r] = where row r stands after the top of a tree, if it stood at the root: see `TreeTops`."""
    thresholds = nodes.view(np.float32)
    begin, end = tops.start[tree], tops.start[tree + 1]
    for first in range(0, at.shape[0], ROWS_IN_TOP):
        here = at[first : first + ROWS_IN_TOP]
        for node in range(begin, end):
            place, values = tops.place[node], laid[tops.slot[node], first : first + ROWS_IN_TOP]
            threshold, left = thresholds[place + THRESHOLD], nodes[place + CHILD]
            right = nodes[place + CHILD + np.uint32(1)]
            for r in range(here.shape[0]):
                child = right if values[r] > threshold else left
                here[r] = child if here[r] == place else here[r]
