"""Walks of blocks of rows down all trees: through the tops together, and from there each row by itself.

Rows of sparse features are written out, some at a time, on the columns that are read. For rows with missing values a
block has each value twice, NaN and infinity for a missing one, so that a step has no branch here either. A node that
sends missing values left reads the first of the two, as no NaN is greater than a threshold; a node that sends them
right reads the second. So does a node that cuts categories, as infinity is none of the categories that it lists.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from distforest.forest.walks import (
    COLUMN,
    COLUMN_BITS,
    FEWEST_FOR_TOPS,
    HAS_LIST,
    HAS_MASK,
    HAS_WORDS,
    IS_LEAF,
    WalkSteps,
    copy_columns,
    step_through_top,
    walk_on,
)
from distforest.jit import kernel

if TYPE_CHECKING:
    from distforest.forest.walks import Children
    from distforest.sources.source import Float32s, Int32s, Ints
    from distforest.sources.sparse import Lines

ALL_WANTED: NDArray[np.bool_] = np.empty((0, 0), np.bool_)
"""Value of ``wanted`` for all rows in all trees."""

BLOCK_ROWS = 12
"""Number of rows that are written out at a time, as a walk reads few values of each."""

WAYS_OF_SETS = HAS_MASK | HAS_WORDS | HAS_LIST
"""Bits of which one is set in the column of a node that cuts categories."""


class BlockRoom(NamedTuple):
    """Working arrays of `walk_block`: the node of each row, the rows that still walk, and the columns for tops."""

    at: Children
    live: NDArray[np.uint32]
    laid: Float32s


@kernel
def room_of_blocks(n_rows: int, n_laid: int) -> BlockRoom:
    """Allocate the arrays for blocks of at most ``n_rows`` rows, with ``n_laid`` columns laid out."""
    return BlockRoom(np.empty(n_rows, np.uint32), np.empty(n_rows, np.uint32), np.empty((n_laid, n_rows), np.float32))


@kernel
def walk_masked(
    steps: WalkSteps,
    roots: Ints,
    step: int,
    values: Float32s,
    rows: Int32s,
    wanted: NDArray[np.bool_],
    ends: Int32s,
) -> None:
    """ends[tree, r] = the leaf of row rows[r], a number within its tree, where wanted[tree, r]; blocks of ``step``.

    ``wanted`` may be `ALL_WANTED`.
    """
    room = room_of_blocks(min(step, rows.shape[0]), steps.tops.columns.shape[0])
    for first in range(0, rows.shape[0], step):
        walk_block(steps, roots, values, rows[first : first + step], first, room, wanted, ends)


@kernel
def walk_block(
    steps: WalkSteps,
    roots: Ints,
    values: Float32s,
    rows: Int32s,
    first: int,
    room: BlockRoom,
    wanted: NDArray[np.bool_],
    ends: Int32s,
) -> None:
    """ends[tree, first + r] = the leaf of row rows[r], a number within its tree, where wanted[tree, first + r]."""
    n, are_all = rows.shape[0], wanted.shape[0] == 0
    at, takes_tops = room.at[:n], n >= FEWEST_FOR_TOPS and room.laid.shape[0] > 0
    if takes_tops:
        copy_columns(values, rows, steps.tops.columns, room.laid)
    for tree in range(steps.starts.shape[0]):
        start = steps.starts[tree]
        for r in range(n):
            at[r] = start
        if takes_tops:
            step_through_top(steps.nodes, steps.tops, tree, room.laid, at)
        if not are_all:
            for r in range(n):
                at[r] = at[r] if wanted[tree, first + r] else IS_LEAF
        walk_on(steps.nodes, values, rows, steps.sets, room.live, at)
        for r in range(n):
            leaf = np.int64(at[r] ^ IS_LEAF) - roots[tree]
            ends[tree, first + r] = leaf if are_all or wanted[tree, first + r] else ends[tree, first + r]


class SparseSteps(NamedTuple):
    """Trees for rows of sparse features, with only the columns that some node reads written out.

    Attributes
    ----------
    steps
        The trees, with slots instead of columns.
    slot
        Position of each column among those that are read, -1 for the others, shape (n,); later columns are not read.
    n_slots
        Number of columns that are read.
    """

    steps: WalkSteps
    slot: Int32s
    n_slots: int


def sparse_steps_of(steps: WalkSteps) -> SparseSteps:
    """Return the trees of ``steps``, which cut no categories, for rows of sparse features."""
    columns = steps.nodes[COLUMN::4]
    is_read = np.zeros(int(columns.max(initial=0)) + 1, np.bool_)
    is_read[columns] = True
    slot = np.where(is_read, np.cumsum(is_read) - 1, -1).astype(np.int32)
    nodes = steps.nodes.copy()
    nodes[COLUMN::4] = slot[columns]
    tops = steps.tops._replace(columns=slot[steps.tops.columns].astype(np.uint32))
    return SparseSteps(steps._replace(nodes=nodes, tops=tops), slot, int(is_read.sum()))


@kernel
def walk_sparse(
    trees: SparseSteps, roots: Ints, by_row: Lines, rows: Int32s, wanted: NDArray[np.bool_], ends: Int32s
) -> None:
    """`walk_masked` for rows by their values other than 0."""
    size = min(BLOCK_ROWS, rows.shape[0])
    room, own, dense = (
        room_of_blocks(size, 0),
        np.arange(size).astype(np.int32),
        np.zeros((size, trees.n_slots), np.float32),
    )
    for first in range(0, rows.shape[0], BLOCK_ROWS):
        block = rows[first : first + BLOCK_ROWS]
        write_out(by_row, block, trees.slot, False, dense)
        walk_block(trees.steps, roots, dense, own[: block.shape[0]], first, room, wanted, ends)
        write_out(by_row, block, trees.slot, True, dense)


@kernel
def write_out(by_row: Lines, rows: Int32s, slot: Int32s, zeros: bool, dense: Float32s) -> None:
    """dense[r, slot[c]] = X[rows[r], c] for each c that has a slot, or 0 if ``zeros``; only where X is not 0."""
    for r in range(rows.shape[0]):
        for v in range(by_row.start[rows[r]], by_row.start[rows[r] + 1]):
            column = by_row.number[v]
            if column < slot.shape[0] and slot[column] >= 0:
                dense[r, slot[column]] = 0.0 if zeros else by_row.value[v]


def steps_on_twice(steps: WalkSteps, child: Children, missing_right: NDArray[np.bool_]) -> WalkSteps | None:
    """Return the steps on values that are there twice: column c is 2 c, or 2 c + 1 where missing values go right.

    For a node that cuts categories it is 2 c + 1, and the bits that describe its cut stay. None if there are so many
    columns that their numbers need these bits.

    Parameters
    ----------
    steps
        The same trees on values that are there once.
    child
        The positions of their nodes, as from `distforest.forest.walks.preorder`, shape (N,).
    missing_right
        Whether each node sends missing values right, shape (N,).
    """
    met = child < IS_LEAF
    nodes, place = steps.nodes.copy(), child[met] + COLUMN
    cuts_sets = (nodes[place] & WAYS_OF_SETS != 0) & (steps.sets is not None)
    column = np.where(cuts_sets, nodes[place] & COLUMN_BITS, nodes[place])
    twice = 2 * column + (missing_right[met] | cuts_sets)
    if steps.sets is not None and twice.max(initial=0) > COLUMN_BITS:
        return None
    nodes[place] = np.where(cuts_sets, twice | (nodes[place] & ~COLUMN_BITS), twice)
    used, slot = np.unique(nodes[steps.tops.place + COLUMN], return_inverse=True)
    return steps._replace(nodes=nodes, tops=steps.tops._replace(slot=slot.astype(np.uint32), columns=used))


@kernel
def walk_twice(
    steps: WalkSteps,
    roots: Ints,
    step: int,
    values: Float32s,
    rows: Int32s,
    wanted: NDArray[np.bool_],
    ends: Int32s,
) -> None:
    """`walk_masked` for rows with missing values, by steps on values twice."""
    size = min(step, rows.shape[0])
    room, own = room_of_blocks(size, steps.tops.columns.shape[0]), np.arange(size).astype(np.int32)
    twice = np.empty((size, 2 * values.shape[1]), np.float32)
    for first in range(0, rows.shape[0], step):
        block = rows[first : first + step]
        repeat_values(values, block, twice)
        walk_block(steps, roots, twice, own[: block.shape[0]], first, room, wanted, ends)


@kernel
def repeat_values(values: Float32s, rows: Int32s, twice: Float32s) -> None:
    """twice[r, 2 c] = values[rows[r], c], and twice[r, 2 c + 1] the same, or infinity for NaN."""
    for r in range(rows.shape[0]):
        for c in range(values.shape[1]):
            value = values[rows[r], c]
            twice[r, 2 * c] = value
            twice[r, 2 * c + 1] = np.float32(np.inf) if np.isnan(value) else value
