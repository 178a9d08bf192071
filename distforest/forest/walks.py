"""How rows walk down trees that read single columns, all rows of a block side by side.

All rows of a block take a step before the first takes the next one, so that they wait for memory together. From a node
a row goes to ``child[value > threshold]``, which is an address and not a branch, because half of all branches would be
mispredicted.

A node that cuts categories has bits in place of its threshold, one for each of the first `MASK_BITS` codes: whether it
goes right. If the node lists a greater code, the place of more such bits stands there, or, where these would take much
more room than the list, the node's number in the table, and the list is searched.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from distforest.forest.category_sets import CategoryCodes, CategorySets, side_of_category
from distforest.forest.frontier import RIGHT
from distforest.forest.walk_nodes import CHILD, COLUMN, IS_LEAF, THRESHOLD
from distforest.jit import borrowing, fetch, kernel
from distforest.sources.schema import MAX_CATEGORIES
from distforest.sources.source import Float32s, Floats, Int32s, Ints, offsets

if TYPE_CHECKING:
    from distforest.forest.tree_tops import TreeTops
    from distforest.forest.walk_nodes import Children, WalkNodes

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

WALKED_VALUES = 1 << 16
"""Number of values in a block of rows, which stays in the processor's cache."""

SMALLEST_BLOCK = 48
"""Number of rows in a block of however many columns."""

FEW_WALKERS = 64
"""While so few rows walk, a branch where one arrives costs less than a list of those that go on."""

FETCHED_NUMBERS = 1 << 17
"""So many numbers of nodes, half a MiB, are too many for the processor's cache: a row's next node is prefetched."""


def block_rows(n_columns: int) -> int:
    """Number of rows in a block, which walks down all trees before the next one does."""
    return max(SMALLEST_BLOCK, WALKED_VALUES // n_columns)


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
    tops
        The tops of the trees, in which many rows take a step at once.
    sets
        What nodes that cut categories have elsewhere; None if there are no such nodes.
    """

    nodes: WalkNodes
    starts: Children
    tops: TreeTops
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
    flip_bits(np.flatnonzero(~has_list), first, end, start + np.append(has_words, False), lists.codes, words)
    word = np.where(n_words > 1, start[:-1], words[start[:-1]])
    nodes[place + THRESHOLD] = np.where(has_list, numbers, word)
    words[start[:-1][has_words]] = n_words[has_words]
    way = np.where(has_list, HAS_LIST, np.where(has_words, HAS_WORDS, HAS_MASK))
    nodes[place + COLUMN] |= way | (of_others & OTHERS_GO_RIGHT)
    return WalkSets(words, lists)


@kernel
def flip_bits(
    which: Ints, first: Ints, end: Ints, start: Ints, codes: CategoryCodes, words: NDArray[np.uint32]
) -> None:
    """Flip the bit of each of codes[first[n]:end[n]] in the words from start[n] on, for each n of ``which``."""
    for n in which:
        for e in range(first[n], end[n]):
            code = np.uint32(codes[e])
            words[start[n] + np.int64(code // np.uint32(MASK_BITS))] ^= np.uint32(1) << (code % np.uint32(MASK_BITS))


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
    tops = steps.tops._replace(columns=slot[steps.tops.columns].astype(np.uint32))
    return SparseSteps(steps._replace(nodes=nodes, tops=tops), slot, int(is_read.sum()))


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
def walk_on(
    nodes: WalkNodes, values: Float32s, rows: Int32s, sets: WalkSets | None, live: NDArray[np.uint32], at: Children
) -> None:
    """at[e] = the leaf, a child, at which row rows[e] arrives from the child at[e]; a step at a time for all rows.

    Rows that have not arrived are listed in ``live``, which has room for all. While they are many, a step needs no
    branch: each row is written behind those that go on, and counts if it does. Of large trees its next node is
    prefetched, while the other rows take their step.
    """
    thresholds, cells, width = nodes.view(np.float32), values.reshape(-1), np.uint64(values.shape[1])
    rows, is_far, n = rows.view(np.uint32), nodes.shape[0] >= FETCHED_NUMBERS, 0
    for e in range(at.shape[0]):
        live[n] = e
        n += int(at[e] < IS_LEAF)
    while n > FEW_WALKERS:
        n_before, n = n, 0
        for place in range(n_before):
            own = np.uint64(live[place])
            there = next_of(nodes, thresholds, cells, at[own], np.uint64(rows[own]) * width, sets)
            if is_far:
                fetch(nodes, there)
            at[own], live[n] = there, own
            n += int(there < IS_LEAF)
    while n > 0:
        place = 0
        while place < n:
            own = np.uint64(live[place])
            at[own] = next_of(nodes, thresholds, cells, at[own], np.uint64(rows[own]) * width, sets)
            if at[own] < IS_LEAF:
                place += 1
            else:  # the last row continues in its place
                n -= 1
                live[place] = live[n]
