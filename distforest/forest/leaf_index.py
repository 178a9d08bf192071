"""An index of the rows of each leaf, to count the trees in which a row shares its leaf with each other row.

A row is compared only with the rows of its leaves, so the cost of counting is the size of these leaves, not the number
of all rows. The rows are renumbered by the leaves of the first tree, so that rows that share many leaves have adjacent
counters, which stay in the cache.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np

from distforest.errors import InputError
from distforest.jit import kernel, no_refcount
from distforest.sources.source import Floats, Int32s, Ints, offsets

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

BLOCK_QUERIES = 1 << 12
"""Number of rows in one call of a kernel."""

INSERTED_UP_TO = 32
"""Largest number of values that are sorted by insertion."""

T = TypeVar("T")


class LeafIndex(NamedTuple):
    """The rows in each node of each tree.

    ::

        nodes    [[1 2 1 2]       order    0 2 1 3      the row at each position; positions are sorted by the first tree
                  [0 0 0 1]]      place    0 2 1 3      the position of each row
        first    0 4 7                                  start of the entries of each tree in `start`
        start    0 0 2 4, 4 7 8                         start of each node's members, and end of the last ones
        members  0 1 2 3, 0 1 2 3                       positions, in ascending order in each node

    Use `LeafIndex.from_nodes` to build one.
    """

    order: Int32s
    place: Int32s
    first: Ints
    start: Ints
    members: Int32s

    @property
    def n_trees(self) -> int:
        """Number of trees."""
        return len(self.first) - 1

    @property
    def n_rows(self) -> int:
        """Number of rows, including absent ones."""
        return len(self.order)

    @classmethod
    def from_nodes(cls, nodes: Int32s, threads: int = 1) -> LeafIndex:
        """Group rows by the node in which they end, by counting, in n_trees x n_rows steps.

        Parameters
        ----------
        nodes
            Nodes of the rows, from `distforest.forest.scoring.apply`, shape (n_trees, n_rows); negative if the row is
            absent from the tree.
        threads
            Number of threads that share the trees.

        Examples
        --------
        >>> index = LeafIndex.from_nodes(np.array([[1, 2, 1, 2], [0, 0, 0, 1]], np.int32))
        >>> index.order.tolist(), index.start.tolist(), index.members.tolist()
        ([0, 2, 1, 3], [0, 0, 2, 4, 4, 7, 8], [0, 1, 2, 3, 0, 1, 2, 3])
        """
        n_trees, n_rows = nodes.shape
        order = np.argsort(nodes[0], kind="stable").astype(np.int32)
        place = np.empty(n_rows, np.int32)
        place[order] = np.arange(n_rows, dtype=np.int32)
        first = offsets(nodes.max(axis=1, initial=-1).astype(np.int64) + 2)
        start, members = np.empty(first[-1], np.int64), np.empty(n_trees * n_rows, np.int32)

        def group_tree(tree: int) -> None:
            places = slice(tree * n_rows, (tree + 1) * n_rows)
            of_tree = start[first[tree] : first[tree + 1]], members[places]
            group_rows(nodes[tree].astype(np.int32), order, places.start, *of_tree)

        in_threads(group_tree, iter(range(n_trees)), threads)
        return cls(order, place, first, start, members)

    def counters(self) -> Int32s:
        """Return new counters, all 0: for each position, the number of trees in which a row shares its leaf."""
        return np.zeros(self.n_rows, np.int32)


class QueryNodes(NamedTuple):
    """A block of queries: their row numbers, shape (n_rows,), and their nodes, shape (n_rows, n_trees)."""

    rows: Ints
    nodes: Int32s


def query_blocks(left: Int32s) -> Iterator[QueryNodes]:
    """Yield the rows of ``left``, shape (n_trees, n_left), in blocks, ordered by their leaf of the first tree."""
    order = np.argsort(left[0], kind="stable")
    for first in range(0, len(order), BLOCK_QUERIES):
        rows = order[first : first + BLOCK_QUERIES]
        yield QueryNodes(rows, by_row(left[:, rows]))


def by_row(left: Int32s) -> Int32s:
    """Copy nodes of shape (n_trees, n_rows) into the order that kernels read: shape (n_rows, n_trees), int32."""
    return np.array(left.T, np.int32, order="C")


def in_threads(function: Callable[[T], object], tasks: Iterator[T], threads: int) -> None:
    """Call ``function`` with each of ``tasks``; a task is taken only when a thread is free for it."""
    if threads == 1:
        for task in tasks:
            function(task)
        return
    lock = Lock()

    def taken() -> Iterator[T]:
        while True:
            with lock:
                try:
                    task = next(tasks)
                except StopIteration:
                    return
            yield task

    def work() -> None:
        for task in taken():
            function(task)

    with ThreadPoolExecutor(threads) as pool:
        for running in [pool.submit(work) for _ in range(threads)]:
            running.result()


def routed(nodes: Int32s) -> Int32s:
    """Check that ``nodes`` are nodes of routed rows; return them unchanged.

    Raises
    ------
    InputError
        The nodes are not integers of shape (n_trees, n_rows), or one of them is negative.
    """
    if nodes.ndim != 2 or nodes.dtype.kind not in "iu" or not len(nodes):
        raise InputError(f"nodes: integers of shape (n_trees, n_rows) were expected, found {nodes.dtype} {nodes.shape}")
    if nodes.min(initial=0) < 0:
        tree, row = np.argwhere(nodes < 0)[0].tolist()
        raise InputError(
            f"nodes: row {row} was not routed through tree {tree}, found {int(nodes[tree, row])}; route all rows"
        )
    return nodes


# --- kernels ----------------------------------------------------------------------------------------------


@kernel
def group_rows(nodes: Int32s, order: Int32s, begin: int, start: Ints, members: Int32s) -> None:
    """start[l] = begin + #{i: 0 <= nodes[i] < l}; members[start[l] - begin ...] = the places p, nodes[order[p]] = l."""
    start[:] = 0
    for i in range(nodes.shape[0]):
        if nodes[i] >= 0:
            start[nodes[i] + 1] += 1
    start[0] = begin
    for node in range(1, start.shape[0]):
        start[node] += start[node - 1]
    for p in range(nodes.shape[0]):  # start[l] advances to the end of l's members ...
        node = nodes[order[p]]
        if node >= 0:
            members[start[node] - begin] = p
            start[node] += 1
    for node in range(start.shape[0] - 1, 0, -1):  # ... where those of l + 1 begin
        start[node] = start[node - 1]
    start[0] = begin


@kernel
def members_of(index: LeafIndex, tree: int, node: int) -> tuple[int, int]:
    """Return the start and end of the members of a node; 0, 0 if it contains no row of the index."""
    if node < 0 or node >= index.first[tree + 1] - index.first[tree] - 1:
        return 0, 0
    at = index.first[tree] + node
    return index.start[at], index.start[at + 1]


@kernel
def count_companions(nodes: Int32s, index: LeafIndex, counts: Int32s, touched: Int32s) -> int:
    """counts[p] += number of trees t in which place p lies in nodes[t]; touched lists each new p once."""
    n_touched = 0
    for tree in range(nodes.shape[0]):
        begin, end = members_of(index, tree, nodes[tree])
        for p in index.members[begin:end]:
            count = counts[p]
            touched[n_touched] = p  # kept only if p is new, without a branch
            n_touched += count == 0
            counts[p] = count + 1
    return n_touched


@kernel
def fill_shared(block: QueryNodes, index: LeafIndex, counts: Int32s, shared: Floats) -> None:
    """shared[i, j] = number of trees t in which row i of the block lies in a node with row j of the index."""
    touched = np.empty(counts.shape[0] + 1, np.int32)
    for b in range(block.rows.shape[0]):
        for e in range(count_companions(block.nodes[b], index, counts, touched)):
            p = touched[e]
            shared[block.rows[b], index.order[p]] = counts[p]
            counts[p] = 0


@kernel
def bound_shared(block: QueryNodes, index: LeafIndex) -> int:
    """Sum over the rows of the block of min(n_rows, sizes of their leaves); `list_shared` lists at most as many."""
    total = 0
    for b in range(block.rows.shape[0]):
        met = 0
        for tree in range(block.nodes.shape[1]):
            begin, end = members_of(index, tree, block.nodes[b, tree])
            met += end - begin
        total += min(met, index.order.shape[0])
    return total


@kernel
def list_shared(
    block: QueryNodes, index: LeafIndex, counts: Int32s, columns: Int32s, shared: Floats, end: Ints
) -> None:
    """columns[end[b] : end[b + 1]] = rows j that share a node with row b of the block, in ascending order.

    ``shared`` becomes the share of the trees in which they do.
    """
    touched, spare = np.empty(counts.shape[0] + 1, np.int32), np.empty(counts.shape[0], np.int32)
    n, n_trees = 0, block.nodes.shape[1]
    for b in range(block.rows.shape[0]):
        n_touched = count_companions(block.nodes[b], index, counts, touched)
        own = columns[n : n + n_touched]
        for e in range(n_touched):
            own[e] = index.order[touched[e]]
        if n_touched > INSERTED_UP_TO:
            sort_rows(own, spare, counts.shape[0])
        else:
            ascend(own)
        for e in range(n_touched):
            p = index.place[own[e]]
            shared[n + e] = counts[p] / n_trees
            counts[p] = 0
        n += n_touched
        end[b + 1] = n


@kernel
def sort_rows(rows: Int32s, spare: Int32s, n_rows: int) -> None:
    """Sort numbers below ``n_rows`` in place, a byte at a time from the least; ``spare`` is at least as long."""
    starts = np.empty(257, np.int64)
    shift = 0
    while n_rows - 1 >> shift > 0:
        starts[:] = 0
        for row in rows:
            starts[(row >> shift & 255) + 1] += 1
        for digit in range(256):
            starts[digit + 1] += starts[digit]
        for row in rows:
            digit = row >> shift & 255
            spare[starts[digit]] = row
            starts[digit] += 1
        for e in range(rows.shape[0]):
            rows[e] = spare[e]
        shift += 8


@kernel
def nearest_rows(
    block: QueryNodes, index: LeafIndex, first: int, own: int, counts: Int32s, greatest: Floats, rows: Ints
) -> None:
    """greatest[i], rows[i] = the greatest counts of row i and their rows j, in descending order; ties by ascending j.

    The index is that of rows ``first`` and later; if ``first`` > 0, the greatest of the earlier rows are there already,
    and stay if they are not less. Row j = ``own`` + i is omitted, which may be outside the index. A count of -1 means
    that there are no more rows.
    """
    touched, shared = np.empty(counts.shape[0] + 1, np.int32), np.empty(counts.shape[0], np.int32)
    ties, start = np.empty(counts.shape[0], np.int32), np.empty(index.first.shape[0], np.int64)
    n_neighbors = min(rows.shape[1], counts.shape[0])
    here, old = np.empty(rows.shape[1]), np.empty(rows.shape[1])
    rows_here, old_rows = np.empty(rows.shape[1], np.int64), np.empty(rows.shape[1], np.int64)
    for b in range(block.rows.shape[0]):
        i = block.rows[b]
        n_touched = count_companions(block.nodes[b], index, counts, touched)
        left_out = own + i - first
        is_inside = 0 <= left_out < counts.shape[0]
        if is_inside:
            counts[index.place[left_out]] = 0
        met = touched[:n_touched]
        k = min(n_neighbors, counts.shape[0] - is_inside)
        cut = rank_counts(met, counts, shared, k, start)
        n = take_best(met, shared, index.order, cut, start, ties, here[:k], rows_here[:k])
        if first == 0 or greatest[i, rows.shape[1] - 1] < 0.0:
            fill_up(met, counts, index.place, left_out, n, here[:k], rows_here[:k])
            n = k
        for e in range(rows.shape[1]):
            old[e], old_rows[e] = -1.0 if first == 0 else greatest[i, e], rows[i, e]
        keep_greatest(old, old_rows, here[:n], rows_here[:n], first, greatest[i], rows[i])


@no_refcount
def keep_greatest(
    old: Floats, old_rows: Ints, here: Floats, rows_here: Ints, first: int, greatest: Floats, rows: Ints
) -> None:
    """Merge the first entries of two lists in descending order; of equal ones the old one comes first."""
    e, f = 0, 0
    for n in range(rows.shape[0]):
        if f == here.shape[0] or old[e] >= here[f]:
            greatest[n], rows[n] = old[e], old_rows[e]
            e += 1
        else:
            greatest[n], rows[n] = here[f], first + rows_here[f]
            f += 1


@kernel
def rank_counts(met: Int32s, counts: Int32s, shared: Int32s, n_neighbors: int, start: Ints) -> int:
    """shared[e] = counts[met[e]], which is set to 0; start[c] = #{e: shared[e] > c} for each c >= the returned count.

    Returns the least of the n_neighbors greatest counts, or 1 if fewer rows were met.
    """
    start[:] = 0
    for e in range(met.shape[0]):
        c = counts[met[e]]
        counts[met[e]] = 0
        shared[e] = c
        start[c] += 1
    greater = 0
    for c in range(start.shape[0] - 1, 0, -1):
        here = start[c]
        start[c] = greater
        greater += here
        if greater >= n_neighbors:
            return c
    return 1


@kernel
def take_best(
    met: Int32s, shared: Int32s, order: Int32s, cut: int, start: Ints, ties: Int32s, greatest: Floats, rows: Ints
) -> int:
    """Take the rows with counts above ``cut`` by a counting sort, then the first ones at ``cut``; return how many."""
    n_ties, above = 0, start[cut]
    for e in range(met.shape[0]):
        c = shared[e]
        if c > cut:
            greatest[start[c]] = c
            rows[start[c]] = order[met[e]]
            start[c] += 1
        elif c == cut:
            ties[n_ties] = order[met[e]]
            n_ties += 1
    begin = 0
    for n in range(1, above + 1):
        if n == above or greatest[n] != greatest[begin]:
            ascend(rows[begin:n])
            begin = n
    n_taken = min(n_ties, rows.shape[0] - above)
    first = ties[:n_ties]
    if n_taken < n_ties and n_ties > INSERTED_UP_TO:
        first = np.partition(first, n_taken - 1)[:n_taken]
    ascend(first)
    for e in range(n_taken):
        rows[above + e], greatest[above + e] = first[e], cut
    return above + n_taken


@kernel
def ascend(rows: Ints) -> None:
    """Sort row numbers in place; a few of them by insertion, which is faster than the general sort."""
    if rows.shape[0] > INSERTED_UP_TO:
        rows.sort()
        return
    for n in range(1, rows.shape[0]):
        row, m = rows[n], n
        while m > 0 and rows[m - 1] > row:
            rows[m] = rows[m - 1]
            m -= 1
        rows[m] = row


@kernel
def fill_up(met: Int32s, counts: Int32s, place: Int32s, left_out: int, n: int, greatest: Floats, rows: Ints) -> None:
    """From n on: count 0, and the first rows j != left_out that were not met. ``counts`` is 0 before and after."""
    counts[met] = 1
    j = 0
    for k in range(n, rows.shape[0]):
        while counts[place[j]] != 0 or j == left_out:
            j += 1
        greatest[k] = 0.0
        rows[k] = j
        j += 1
    counts[met] = 0
