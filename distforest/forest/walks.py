"""How rows walk down trees that read single columns, several rows side by side.

A node with children takes 16 bytes, so that a step costs one access to memory. Several rows walk side by side, so that
they wait for memory together. From a node a row goes to ``child[value > threshold]``, which is an address and not a
branch, because half of all branches would be mispredicted. Nodes are in preorder, a left child directly after its
parent, so that every other step stays within a cache line. Leaves are not stored: the child number of a leaf is
`IS_LEAF` plus its number in the table.

A node that cuts categories has bits in place of its threshold, one for each of the first `MASK_BITS` codes: whether it
goes right. If the node lists a greater code, the place of more such bits stands there, or, where these would take much
more room than the list, the node's number in the table, and the list is searched.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from distforest.forest.category_sets import CategorySets, side_of_category
from distforest.forest.frontier import RIGHT
from distforest.jit import borrowing, kernel
from distforest.sources.schema import MAX_CATEGORIES
from distforest.sources.source import Float32s, Floats, Int32s, Ints, offsets, runs

WalkNodes = NDArray[np.uint32]
Children = NDArray[np.uint32]
THRESHOLD, COLUMN, CHILD = np.arange(3, dtype=np.uint32)
"""Places of a node's four numbers: threshold (bits of a float32), column, and where its two children begin."""

IS_LEAF = np.uint32(1 << 31)
"""The bit that marks a child as a leaf; the other bits are its number in the table."""

MASK_BITS = 32
"""Number of codes that have a bit in a node that cuts categories."""

HAS_MASK, HAS_WORDS, HAS_LIST, OTHERS_GO_RIGHT = (np.uint32(1 << bit) for bit in (31, 30, 29, 28))
"""Bits of the column of a node that cuts categories: by which of the three it does, and where greater codes go."""

HAS_MASK_SHIFT, OTHERS_SHIFT = np.uint32(31), np.uint64(MASK_BITS - 28)
"""The shifts that bring `HAS_MASK` to the first place, and `OTHERS_GO_RIGHT` to the one after those of a mask."""

COLUMN_BITS = OTHERS_GO_RIGHT - np.uint32(1)
"""The other bits of the column."""

ABOVE_CODES = np.float32(MAX_CATEGORIES)
"""A number that is no code; infinity, which stands for a missing value, is read as this one."""

FREE_WORDS = 4
"""Words of `MASK_BITS` bits that a node may take in any case; it may take one more for each code that it lists."""

WALKED_VALUES = 1 << 17
"""Number of values in a block of rows, which stays in the processor's cache."""

LANES = 12
"""Number of rows that walk side by side."""


def block_rows(n_columns: int) -> int:
    """Number of rows in a block, which walks down all trees before the next one does."""
    return max(4 * LANES, WALKED_VALUES // n_columns)


class WalkSets(NamedTuple):
    """What nodes that cut categories have elsewhere.

    Attributes
    ----------
    words
        For each node with `HAS_WORDS` the number of its words, these words, and one for all greater codes.
    lists
        The categories of each node of the table.
    """

    words: NDArray[np.uint32]
    lists: CategorySets


class WalkSteps(NamedTuple):
    """Trees whose projections are single columns, as a step reads them.

    Attributes
    ----------
    nodes
        The nodes that have children, in preorder, four numbers each, shape (4 K,).
    starts
        The root of each tree, as a child, shape (n_trees,).
    sets
        What nodes that cut categories have elsewhere; None if there are no such nodes.
    """

    nodes: WalkNodes
    starts: Children
    sets: WalkSets | None = None


def write_sets(nodes: WalkNodes, place: Children, numbers: Ints, lists: CategorySets) -> WalkSets:
    """Write nodes that cut categories, at ``place``, with their ``numbers`` in the table, shape (n,), at least one."""
    first, end, others = lists.start[numbers], lists.start[numbers + 1], lists.others_right[numbers]
    of_others = np.where(others, ~np.uint32(0), np.uint32(0))
    n_words = lists.codes[end - 1].astype(np.int64) // MASK_BITS + 1  # the last code is the greatest
    has_words = (n_words > 1) & (n_words <= FREE_WORDS + end - first)
    has_list = (n_words > 1) & ~has_words
    room = np.where(has_words, n_words + 2, 1)  # a mask is made here, too
    start = offsets(room)
    words = np.repeat(of_others, room)
    node = np.repeat(np.arange(len(numbers)), end - first)
    codes = lists.codes[runs(lists.start, numbers)[1]].astype(np.int64)
    is_kept = ~has_list[node]
    at = start[node] + np.where(has_words[node], 1 + codes // MASK_BITS, 0)
    bit = np.uint32(1) << (codes % MASK_BITS).astype(np.uint32)
    np.bitwise_xor.at(words, at[is_kept], bit[is_kept])
    word = np.where(n_words > 1, start[:-1], words[start[:-1]])
    nodes[place + THRESHOLD] = np.where(has_list, numbers, word)
    words[start[:-1][has_words]] = n_words[has_words]
    way = np.where(has_list, HAS_LIST, np.where(has_words, HAS_WORDS, HAS_MASK))
    nodes[place + COLUMN] |= way | (of_others & OTHERS_GO_RIGHT)
    return WalkSets(words, lists)


def rounded_down(thresholds: Floats) -> Float32s:
    """The largest float32 that is at most each threshold; comparing a float32 value with either gives the same side."""
    with np.errstate(over="ignore"):
        nearest = thresholds.astype(np.float32)
    return np.where(nearest > thresholds, np.nextafter(nearest, np.float32(-np.inf)), nearest)


class SparseSteps(NamedTuple):
    """The same for rows of sparse features, of which only the columns that some node reads are written out.

    Attributes
    ----------
    steps
        The trees; in place of a column its slot.
    slot
        The place of each column among those that are read, -1 for the others, shape (n,); columns after these are not.
    n_slots
        Number of columns that are read.
    """

    steps: WalkSteps
    slot: Int32s
    n_slots: int


def sparse_steps_of(steps: WalkSteps) -> SparseSteps:
    """The trees of ``steps``, which cut no categories, for rows of sparse features."""
    columns = steps.nodes[COLUMN::4]
    is_read = np.zeros(int(columns.max(initial=0)) + 1, np.bool_)
    is_read[columns] = True
    slot = np.where(is_read, np.cumsum(is_read) - 1, -1).astype(np.int32)
    nodes = steps.nodes.copy()
    nodes[COLUMN::4] = slot[columns]
    return SparseSteps(WalkSteps(nodes, steps.starts), slot, int(is_read.sum()))


@kernel
def preorder(tree_start: Ints, left: Int32s, right: Int32s) -> Children:
    """child[node] = 4 times the number of nodes with children before it in preorder; for a leaf `IS_LEAF` + node.

    A node with two parents, or with none, makes the table no tree, but does no harm: one is met once, the other never.
    """
    child, waiting = np.arange(left.shape[0]).astype(np.uint32) | IS_LEAF, np.empty(left.shape[0], np.int64)
    n_met = 0
    for tree in range(tree_start.shape[0] - 1):
        root, n_waiting = tree_start[tree], 1
        waiting[0] = root
        while n_waiting > 0:
            n_waiting -= 1
            node = waiting[n_waiting]
            if left[node] >= 0 and child[node] >= IS_LEAF:
                child[node] = 4 * n_met
                n_met += 1
                waiting[n_waiting], waiting[n_waiting + 1] = root + right[node], root + left[node]
                n_waiting += 2
    return child


@borrowing
def next_of(
    nodes: WalkNodes, thresholds: Float32s, values: Float32s, node: int, first: int, sets: WalkSets | None
) -> int:
    """The child of a node to which a row goes; the row's values begin at ``first``.

    Unsigned numbers need no check for negative indices. If ``sets`` is None, Numba compiles nothing for categories.
    """
    if sets is None:
        value = values[np.uint64(first) + np.uint64(nodes[node + COLUMN])]
        return nodes[np.uint64(node + CHILD) + np.uint64(value > thresholds[node + THRESHOLD])]
    column, word = nodes[node + COLUMN], nodes[node + THRESHOLD]
    value = values[np.uint64(first) + np.uint64(column & COLUMN_BITS)]
    if column & (HAS_LIST | HAS_WORDS):
        is_right = bit_elsewhere(word, column, value, sets)
    else:  # without a branch
        is_above = np.uint64(value > thresholds[node + THRESHOLD])
        is_right = is_above ^ ((is_above ^ bit_of_mask(word, column, value)) & np.uint64(column >> HAS_MASK_SHIFT))
    return nodes[np.uint64(node + CHILD) + is_right]


@borrowing
def bit_of_mask(mask: np.uint32, column: np.uint32, value: np.float32) -> np.uint64:
    """1 if a code goes right by the mask of a node, behind which comes the bit of all greater codes; any bit else."""
    bits = np.uint64(mask) | (np.uint64(column & OTHERS_GO_RIGHT) << OTHERS_SHIFT)
    code = np.uint64(max(min(value, np.float32(MASK_BITS)), np.float32(0.0)))
    return (bits >> code) & np.uint64(1)


@borrowing
def bit_elsewhere(word: np.uint32, column: np.uint32, value: np.float32, sets: WalkSets) -> np.uint64:
    """1 if a code goes right by the words of a node, or by its list."""
    if column & HAS_LIST:
        return np.uint64(side_of_category(int(word), float(value), sets.lists) == RIGHT)
    code, start = np.uint64(min(max(value, np.float32(0.0)), ABOVE_CODES)), np.uint64(word)
    at = start + np.uint64(1) + min(code // np.uint64(MASK_BITS), np.uint64(sets.words[start]))
    return (np.uint64(sets.words[at]) >> (code % np.uint64(MASK_BITS))) & np.uint64(1)


@kernel
def walk_lanes(nodes: WalkNodes, start: int, values: Float32s, rows: Int32s, sets: WalkSets | None, ends: Ints) -> None:
    """ends[e] = the leaf at which row rows[e] arrives; a lane whose row has arrived takes the next row.

    While all lanes are taken, this needs no branch either: after each step a lane writes its place into ``ends``, and
    the last place that it writes is the leaf.
    """
    if start >= IS_LEAF:
        ends[:] = start ^ IS_LEAF
        return
    thresholds, cells, width = nodes.view(np.float32), values.reshape(-1), np.uint64(values.shape[1])
    rows, n = rows.view(np.uint32), rows.shape[0]
    at, entry = np.empty(LANES, np.uint32), np.arange(LANES).astype(np.uint32)
    at[:] = start
    n_live = min(LANES, n)
    n_begun = np.uint32(n_live)
    while n_begun + LANES <= n:
        for lane in range(LANES):
            e = entry[lane]
            there = next_of(nodes, thresholds, cells, at[lane], np.uint64(rows[np.uint64(e)]) * width, sets)
            arrived = there >= IS_LEAF
            ends[np.uint64(e)] = there ^ IS_LEAF
            at[lane], entry[lane] = start if arrived else there, n_begun if arrived else e
            n_begun += np.uint32(arrived)
    while n_live > 0:
        lane = 0
        while lane < n_live:
            e = entry[lane]
            there = next_of(nodes, thresholds, cells, at[lane], np.uint64(rows[np.uint64(e)]) * width, sets)
            if there < IS_LEAF:
                at[lane] = there
                lane += 1
                continue
            ends[np.uint64(e)] = there ^ IS_LEAF
            if n_begun < n:
                at[lane], entry[lane] = start, n_begun
                n_begun += np.uint32(1)
            else:  # the last lane continues in place of this one
                n_live -= 1
                at[lane], entry[lane] = at[n_live], entry[n_live]


class BlockRoom(NamedTuple):
    """Room of `walk_block`: the place and the row of each row that walks, and the leaf at which it arrives."""

    place: Int32s
    rows: Int32s
    leaves: Ints


@kernel
def room_of_blocks(n_rows: int) -> BlockRoom:
    """Room for blocks of at most ``n_rows`` rows."""
    return BlockRoom(np.empty(n_rows, np.int32), np.empty(n_rows, np.int32), np.empty(n_rows, np.int64))


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
    """ends[tree, r] = the leaf of row rows[r], a number within its tree, where wanted[tree, r]; blocks of ``step``."""
    room = room_of_blocks(min(step, rows.shape[0]))
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
    for tree in range(steps.starts.shape[0]):
        n = 0
        for r in range(rows.shape[0]):
            if wanted[tree, first + r]:
                room.place[n], room.rows[n] = first + r, rows[r]
                n += 1
        walk_lanes(steps.nodes, steps.starts[tree], values, room.rows[:n], steps.sets, room.leaves)
        for e in range(n):
            ends[tree, room.place[e]] = room.leaves[e] - roots[tree]
