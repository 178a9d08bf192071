"""How rows walk that lack values: a block has each value twice, NaN and infinity for a missing one.

So a step has no branch here either. A node that sends missing values left reads the first of the two, as no NaN is
greater than a threshold; one that sends them right reads the second. So does one that cuts categories: infinity is none
of those that it lists.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from distforest.forest.block_walks import room_of_blocks, walk_block
from distforest.forest.walk_nodes import COLUMN, IS_LEAF
from distforest.forest.walks import COLUMN_BITS, HAS_LIST, HAS_MASK, HAS_WORDS
from distforest.jit import kernel

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from distforest.forest.walk_nodes import Children
    from distforest.forest.walks import WalkSteps
    from distforest.sources.source import Float32s, Int32s, Ints

WAYS_OF_SETS = HAS_MASK | HAS_WORDS | HAS_LIST
"""The bits of which one is set in the column of a node that cuts categories."""


def steps_on_twice(steps: WalkSteps, child: Children, missing_right: NDArray[np.bool_]) -> WalkSteps | None:
    """The steps on values that are there twice: column c is 2 c, or 2 c + 1 where missing values go right.

    Of a node that cuts categories it is 2 c + 1, and the bits that say how it does stay. None where columns are so many
    that these bits are needed for their numbers.

    Parameters
    ----------
    steps
        The same trees on values that are there once.
    child
        The places of their nodes, as of `distforest.forest.walk_nodes.preorder`, shape (N,).
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
    """`distforest.forest.block_walks.walk_wanted` for rows that lack values, by steps on values twice."""
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
