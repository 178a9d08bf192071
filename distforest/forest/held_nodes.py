"""Distances of one row to many: the distances of its nodes to all nodes with rows, then a sum over trees per row.

::

    row's node of tree 0 -> apart 0.2 . 0.7 .      each distance once for each node with a row ...
    row's node of tree 1 -> apart . 0.1 0.9
    rows' nodes of tree 0   2 0 0 2                ... and looked up for each row: total 0.8 0.3 0.3 0.8
    rows' nodes of tree 1   1 1 1 1

The trees are added in their order, as everywhere, so that a row has the same bits alone and among others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from distforest.jit import kernel, no_refcount
from distforest.sources.source import Floats, Int32s, Ints

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

LISTED_ROWS = 64
"""Up to this number of rows, nodes are listed per row; nodes of more rows are listed once each."""

NODES_AT_ONCE = 1 << 16
"""Number of nodes whose distances are held at once, in the processor's cache; a larger tree is alone."""


class HeldNodes(NamedTuple):
    """The nodes of each tree that contain some of the rows.

    ::

        start   0 2 3       where those of each tree begin, shape (n_trees + 1,)
        nodes   0 2 1       numbers within their tree

    Examples
    --------
    >>> HeldNodes.from_nodes(np.array([[2, 0, 0, 2], [1, 1, 1, 1]], np.int32), np.array([0, 3, 6]), listed_rows=0)
    HeldNodes(start=array([0, 2, 3]), nodes=array([0, 2, 1], dtype=int32))
    """

    start: Ints
    nodes: Int32s

    @classmethod
    def from_nodes(cls, nodes: Int32s, tree_start: Ints, listed_rows: int = LISTED_ROWS) -> HeldNodes:
        """Collect the nodes of rows, shape (n_trees, n_rows); ``tree_start`` is that of the node table."""
        n_trees, n_rows = nodes.shape
        if n_rows <= listed_rows:
            return cls(np.arange(n_trees + 1) * n_rows, nodes.reshape(-1))
        holds = np.zeros(int(tree_start[-1]), np.bool_)
        mark_nodes(nodes, tree_start, holds)
        place = np.flatnonzero(holds)
        start = np.searchsorted(place, tree_start).astype(np.int64)
        return cls(start, (place - np.repeat(tree_start[:-1], np.diff(start))).astype(np.int32))


class OfOneRow(NamedTuple):
    """Some consecutive trees, and one row's node in each.

    Attributes
    ----------
    trees
        Numbers of the trees, ascending, shape (m,).
    ends
        The row's node in each tree of the forest, shape (n_trees,).
    root
        Start of each tree of the forest among the nodes of these trees, shape (n_trees,).
    """

    trees: Ints
    ends: Int32s
    root: Ints


def runs_of_trees(trees: Ints, ends: Int32s, tree_start: Ints) -> Iterator[OfOneRow]:
    """Yield some trees of a forest in runs of at most `NODES_AT_ONCE` nodes."""
    first = 0
    while first < len(trees):
        begin = tree_start[trees[first]]
        last = int(np.searchsorted(tree_start[trees + 1], begin + NODES_AT_ONCE, side="right"))
        last = max(last, first + 1)
        yield OfOneRow(trees[first:last], ends, tree_start[:-1] - begin)
        first = last


@kernel
def mark_nodes(nodes: Int32s, tree_start: Ints, holds: NDArray[np.bool_]) -> None:
    """holds[tree_start[t] + nodes[t, r]] = True."""
    for tree in range(nodes.shape[0]):
        root = tree_start[tree]
        for node in nodes[tree]:
            holds[root + node] = True


@kernel
def add_apart(row: OfOneRow, apart: Floats, right: Int32s, total: Floats) -> None:
    """total[j] += apart[root[t] + right[t, j]], tree after tree; four trees are read at once."""
    trees, _, root = row
    places, n = right.view(np.uint32), right.shape[1]  # see `distforest.jit`
    whole = trees.shape[0] - trees.shape[0] % 4
    for e in range(0, whole, 4):
        t, u, v, w = trees[e], trees[e + 1], trees[e + 2], trees[e + 3]
        of_t, of_u, of_v, of_w = apart[root[t] :], apart[root[u] :], apart[root[v] :], apart[root[w] :]
        for j in range(n):
            total[j] = total[j] + of_t[places[t, j]] + of_u[places[u, j]] + of_v[places[v, j]] + of_w[places[w, j]]
    for e in range(whole, trees.shape[0]):
        of_tree = apart[root[trees[e]] :]
        for j in range(n):
            total[j] += of_tree[places[trees[e], j]]


@kernel
def keep_least(near: Floats, first: int, left_out: Ints, distances: Floats, indices: Ints) -> None:
    """Add columns to the nearest of each row: ``near[i, j]`` is the distance of row i to row ``first`` + j.

    distances[i], indices[i] are a heap, the furthest first; it begins with NaN and an index beyond all others. Of equal
    distances the lower index is nearer, and NaN is the furthest. Index left_out[i] is not a neighbour of row i.
    """
    for i in range(near.shape[0]):
        apart, rows = distances[i], indices[i]
        for j in range(near.shape[1]):
            index = first + j
            if index != left_out[i] and is_further(apart[0], rows[0], near[i, j], index):
                apart[0], rows[0] = near[i, j], index
                sink(apart, rows, rows.shape[0])


@kernel
def nearest_first(distances: Floats, indices: Ints) -> None:
    """Sort the heaps of `keep_least`, the nearest first."""
    for i in range(distances.shape[0]):
        apart, rows = distances[i], indices[i]
        for n in range(rows.shape[0] - 1, 0, -1):
            apart[0], apart[n] = apart[n], apart[0]
            rows[0], rows[n] = rows[n], rows[0]
            sink(apart, rows, n)


@no_refcount
def is_further(one: float, index: int, other: float, other_index: int) -> bool:
    """Return whether (one, index) comes after (other, other_index): NaN after numbers, equal ones by their index."""
    if np.isnan(one) or np.isnan(other):
        return index > other_index if np.isnan(one) and np.isnan(other) else np.isnan(one)
    return one > other or (one == other and index > other_index)


@no_refcount
def sink(apart: Floats, rows: Ints, n: int) -> None:
    """Sink the first entry of a heap of ``n`` entries to its place."""
    place = 0
    while 2 * place + 1 < n:
        child = 2 * place + 1
        if child + 1 < n and is_further(apart[child + 1], rows[child + 1], apart[child], rows[child]):
            child += 1
        if not is_further(apart[child], rows[child], apart[place], rows[place]):
            return
        apart[place], apart[child] = apart[child], apart[place]
        rows[place], rows[child] = rows[child], rows[place]
        place = child
