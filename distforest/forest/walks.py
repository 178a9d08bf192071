"""Walks of rows down trees that read single columns, with all rows of a block side by side.

A node with children takes 16 bytes, so that a step costs one access to memory. Nodes are in preorder, a left child
directly after its parent, so that every other step stays within a cache line. Leaves are not stored: the child number
of a leaf is `IS_LEAF` plus its number in the table.

All rows of a block take a step before the first takes the next one, so that they wait for memory together. From a node
a row goes to ``child[value > threshold]``, which is an address and not a branch, because half of all branches would be
mispredicted.

Near the root many rows are at one node. In the top of a tree, its numbers are read once, and the processor compares a
column of a block of rows with the threshold, several rows per instruction. A row that is elsewhere stays. So a node of
a top costs each row the same, whether the row reaches the node or not, and pays off if many do.

A node that cuts categories has bits instead of a threshold, one for each of the first `MASK_BITS` codes: whether it
goes right. If the node lists a greater code, the number there is the position of more such bits or, if these would take
much more space than the list, the node's number in the table, and the list is searched.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from distforest.forest.category_sets import CategoryCodes, CategorySets, side_of_category
from distforest.forest.frontier import RIGHT
from distforest.jit import fetch, kernel, no_refcount
from distforest.sources.schema import MAX_CATEGORIES
from distforest.sources.source import Float32s, Floats, Int32s, Ints, offsets

WalkNodes = NDArray[np.uint32]
Children = NDArray[np.uint32]
THRESHOLD, COLUMN, CHILD = np.arange(3, dtype=np.uint32)
"""Positions of a node's four numbers: threshold (bits of a float32), column, and two children."""

IS_LEAF = np.uint32(1 << 31)
"""Bit that marks a child as a leaf; the other bits are its number in the table."""

MASK_BITS = 32
"""Number of codes that have a bit in a node that cuts categories."""

HAS_MASK, HAS_WORDS, HAS_LIST, OTHERS_GO_RIGHT = (np.uint32(1 << bit) for bit in (31, 30, 29, 28))
"""Bits of the column of a node that cuts categories: which of the three forms it has, and the side of greater codes."""

HAS_MASK_SHIFT, OTHERS_SHIFT = np.uint32(31), np.uint64(MASK_BITS - 28)
"""Shifts that move `HAS_MASK` to the first bit, and `OTHERS_GO_RIGHT` to the bit after those of a mask."""

COLUMN_BITS = OTHERS_GO_RIGHT - np.uint32(1)
"""Other bits of the column."""

ABOVE_CODES = np.float32(MAX_CATEGORIES)
"""A number that is not a code; infinity, which stands for a missing value, is read as this number."""

FREE_WORDS = 4
"""Words of `MASK_BITS` bits that a node may always take; it may take one more per code that it lists."""

WALKED_VALUES = 1 << 16
"""Number of values in a block of rows, which stays in the processor's cache."""

SMALLEST_BLOCK = 48
"""Least number of rows in a block, for any number of columns."""

FEW_WALKERS = 64
"""Number of walking rows up to which a branch per arrival costs less than a list of those that go on."""

FETCHED_NUMBERS = 1 << 17
"""Count of node numbers, half a MiB, above which the processor's cache is too small and next nodes are prefetched."""

TOP_SHARE = 1 / 16
"""Least share of a tree's training rows that reached a node of its top."""

COST_OF_NODE, COST_OF_COLUMN = 0.1, 0.35
"""Measured cost per row of a node of a top and of a laid-out column, in steps of a row that walks by itself."""

FEWEST_FOR_TOPS = 64
"""Number of rows below which they walk by themselves from the root."""

ROWS_IN_TOP = 1 << 10
"""Number of rows that go through the top of a tree together; their nodes stay in the processor's first cache."""

ROWS_LAID_OUT = 64
"""Number of rows whose columns are laid out together."""


def block_rows(n_columns: int) -> int:
    """Return the number of rows in a block, which walks down all trees before the next block does."""
    return max(SMALLEST_BLOCK, WALKED_VALUES // n_columns)


class TreeTops(NamedTuple):
    """The nodes of the tops of some trees, a parent before its children.

    Attributes
    ----------
    start
        Start of the nodes of each tree's top, shape (n_trees + 1,).
    place
        Positions of the nodes among those of the walk, shape (n,).
    slot
        Position of each node's column in ``columns``, shape (n,).
    columns
        The columns that the nodes read.
    """

    start: Ints
    place: Children
    slot: NDArray[np.uint32]
    columns: NDArray[np.uint32]


def tops_of(n_trees: int, tree: Ints, share: Floats, place: Children, columns: NDArray[np.uint32]) -> TreeTops:
    """Return the tops of trees, or none if they would cost more than they save.

    Parameters
    ----------
    n_trees
        Number of trees.
    tree
        The tree of each node that may be in a top, ascending and a parent before its children, shape (n,).
    share
        The share of the tree's training rows that reached the node, shape (n,).
    place
        Position of the node among those of the walk, shape (n,).
    columns
        The column that the node reads, shape (n,).
    """
    is_top = share >= TOP_SHARE
    used, slot = np.unique(columns[is_top], return_inverse=True)
    if share[is_top].sum() <= COST_OF_NODE * is_top.sum() + COST_OF_COLUMN * len(used):
        none = np.empty(0, np.uint32)
        return TreeTops(np.zeros(n_trees + 1, np.int64), none, none, none)
    start = offsets(np.bincount(tree[is_top], minlength=n_trees))
    return TreeTops(start, place[is_top], slot.astype(np.uint32), used)


class WalkSets(NamedTuple):
    """The words and lists of nodes that cut categories.

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
        The words and lists of nodes that cut categories; None if there are no such nodes.
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
    room = np.where(has_words, n_words + 2, 1)  # masks are made here, too
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
    """Return the largest float32 up to each threshold; comparing a float32 value with either gives the same side."""
    with np.errstate(over="ignore"):
        nearest = thresholds.astype(np.float32)
    return np.where(nearest > thresholds, np.nextafter(nearest, np.float32(-np.inf)), nearest)


@kernel
def preorder(tree_start: Ints, left: Int32s, right: Int32s) -> Children:
    """child[node] = 4 times the number of nodes with children before it in preorder; for a leaf `IS_LEAF` + node.

    A node with two parents or none is harmless, although it is not a tree: one is visited once, the other never.
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


@no_refcount
def next_of(
    nodes: WalkNodes, thresholds: Float32s, values: Float32s, node: int, first: int, sets: WalkSets | None
) -> int:
    """Return the child of a node to which a row goes; the row's values begin at ``first``.

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


@no_refcount
def bit_of_mask(mask: np.uint32, column: np.uint32, value: np.float32) -> np.uint64:
    """1 if a code goes right by the mask of a node, behind which comes the bit of all greater codes; any bit else."""
    bits = np.uint64(mask) | (np.uint64(column & OTHERS_GO_RIGHT) << OTHERS_SHIFT)
    code = np.uint64(max(min(value, np.float32(MASK_BITS)), np.float32(0.0)))
    return (bits >> code) & np.uint64(1)


@no_refcount
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
    branch: each row is written behind those that go on, and counts if it goes on. In large trees its next node is
    prefetched while the other rows take their step.
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


@kernel
def copy_columns(values: Float32s, rows: Int32s, columns: NDArray[np.uint32], laid: Float32s) -> None:
    """laid[c, r] = values[rows[r], columns[c]]; four columns at a time; the last ones may be repeated."""
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
