"""How blocks of rows walk down all trees: through the tops together, and from there each by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from distforest.forest.tree_tops import FEWEST_FOR_TOPS, lay_columns, step_through_top
from distforest.forest.walk_nodes import IS_LEAF
from distforest.forest.walks import walk_on
from distforest.jit import kernel

if TYPE_CHECKING:
    from distforest.forest.walk_nodes import Children
    from distforest.forest.walks import WalkSteps
    from distforest.sources.source import Float32s, Int32s, Ints


ALL_WANTED: NDArray[np.bool_] = np.empty((0, 0), np.bool_)
"""Stands for all rows in all trees, where it is said which rows are wanted in which tree."""


class BlockRoom(NamedTuple):
    """Room of `walk_block`: where each row stands, which still walk, and the columns that tops read, laid out."""

    at: Children
    live: NDArray[np.uint32]
    laid: Float32s


@kernel
def room_of_blocks(n_rows: int, n_laid: int) -> BlockRoom:
    """Room for blocks of at most ``n_rows`` rows, of which ``n_laid`` columns are laid out."""
    return BlockRoom(np.empty(n_rows, np.uint32), np.empty(n_rows, np.uint32), np.empty((n_laid, n_rows), np.float32))


@kernel
def walk_wanted(
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
        lay_columns(values, rows, steps.tops.columns, room.laid)
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
