"""Trees that stop earlier: the answers of a forest with a larger ``min_samples_split`` or a smaller ``max_depth``.

Both only end a tree earlier, and each node draws from its own stream. So the upper part of a tree is a tree that was
grown with such a limit, from the same distribution: many limits are tried with the trees of the loosest limit. The
distance of two nodes is the mean distance of their leaves, weighted by their in-bag rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from distforest.forest.members import Members
from distforest.forest.scoring import Predicting, between_nodes, informative_trees
from distforest.jit import kernel
from distforest.sources.source import offsets

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from distforest.forest.forest import Forest
    from distforest.sources.source import Float32s, Floats, Int32s, Ints


class EarlyStop(NamedTuple):
    """Limits that make a node a leaf: less in-bag weight, or this depth; None for no limit of depth."""

    min_samples_split: int = 2
    max_depth: int | None = None


def stopped_distances(forest: Forest, rows: Ints, stops: Sequence[EarlyStop]) -> tuple[list[Floats], Ints]:
    """Compute out-of-bag distances of training rows by trees that stop earlier.

    Parameters
    ----------
    forest
        A forest that was grown without these limits, or with looser ones. Its distances were all observed and its rows
        have equal weights, or nothing stops earlier.
    rows
        Numbers of training rows, shape (m,).
    stops
        The limits at which the trees stop.

    Returns
    -------
    estimates
        For each stop the mean distance over the trees that drew neither row, shape (m, m); NaN without such a tree.
    counts
        The number of these trees, shape (m, m).
    """
    sums = np.zeros((len(rows), len(rows), len(stops) + 1))
    for tree in informative_trees(forest).tolist():
        out = np.flatnonzero(forest.in_bag[tree, rows] == 0).astype(np.uint32)
        if len(out):
            add_to_pairs(*_tables(forest, tree, forest.training_nodes[tree, rows[out]], stops), out, sums)
    means_of_pairs(sums)
    return [sums[:, :, number].copy() for number in range(len(stops))], sums[:, :, -1].astype(np.int64)


def _tables(
    forest: Forest, tree: int, ends: Int32s, stops: Sequence[EarlyStop]
) -> tuple[Floats, Ints, Ints, NDArray[np.uint32]]:
    """For each stop, return the distances of the nodes in which rows end: all tables, their starts, and their widths.

    The fourth array has the position of each row in each table, shape (n_stops, n_rows).
    """
    table, tables, places = forest.table.tree(tree), [], []
    for stop in stops:
        end = ends_of(table.left, table.right, table.n_rows, stop)
        number, nodes = _numbered(end[ends], len(end))
        tables.append(_between(forest, tree, end, nodes))
        places.append(number[end[ends]])
    begins, widths = offsets(np.array([one.size for one in tables])), np.array([len(one) for one in tables])
    return np.concatenate([one.ravel() for one in tables]), begins, widths, np.array(places, np.uint32)


def _numbered(ends: Ints, n_nodes: int) -> tuple[Ints, Ints]:
    """Return the number of each node among those in ``ends``, -1 for another one, shape (n_nodes,); and these nodes."""
    number = np.full(n_nodes, -1)
    number[ends] = 0
    nodes = np.flatnonzero(number == 0)
    number[nodes] = np.arange(len(nodes))
    return number, nodes


def _between(forest: Forest, tree: int, end: Ints, nodes: Ints) -> Floats:
    """Return the distances of nodes in which a tree stops, shape (n_nodes, n_nodes); ``end`` is the end of each node.

    Leaf tables with values for inner nodes compute them. For other tables the members of a node are averaged, which are
    training rows if their distances are kept, and otherwise the leaves below it.
    """
    leaf_table, table = between_nodes(forest), forest.table.tree(tree)
    if isinstance(leaf_table, Predicting):
        return leaf_table.between(tree, nodes, nodes)
    if type(leaf_table) is Members:
        members = np.flatnonzero(leaf_table.in_bag[tree])
        weights = leaf_table.in_bag[tree, members].astype(np.float64)
        if leaf_table.sample_weight is not None:
            weights *= leaf_table.sample_weight[members]
        ends = end[leaf_table.leaves[tree, members]]
        return _means(ends, nodes, weights, members, leaf_table.read) + leaf_table.offset
    leaves = np.flatnonzero(table.is_leaf)
    if np.array_equal(end[leaves], leaves):  # no row stops earlier
        return leaf_table.between(tree, nodes, nodes)
    leaves = leaves[np.isin(end[leaves], nodes)]
    distances = leaf_table.between(tree, leaves, leaves)
    return _means(end[leaves], nodes, table.n_rows[leaves].astype(np.float64), np.arange(len(leaves)), distances)


def _means(ends: Ints, nodes: Ints, weights: Floats, members: Ints, distances: Floats | Float32s) -> Floats:
    """Return the mean distances of nodes: ``members`` are rows of ``distances``, each with its node and its weight."""
    number, _ = _numbered(nodes, int(max(ends.max(), nodes[-1])) + 1)
    group = number[ends]
    order = np.argsort(group, kind="stable")[np.count_nonzero(group < 0) :]
    means = np.zeros((len(nodes), len(nodes)))
    mean_of_groups(distances, members[order].astype(np.uint32), weights[order], group[order].astype(np.uint32), means)
    return means


def ends_of(left: Int32s, right: Int32s, n_rows: Ints, stop: EarlyStop) -> Ints:
    """For each node of a tree, return the node in which its rows would have stopped, shape (n_nodes,)."""
    ends = np.empty(len(left), np.int64)
    deepest = -1 if stop.max_depth is None else stop.max_depth
    find_ends(left, right, n_rows, (stop.min_samples_split, deepest), ends)
    return ends


@kernel
def find_ends(left: Int32s, right: Int32s, n_rows: Ints, limits: tuple[int, int], ends: Ints) -> None:
    """ends[node] = the first node on the way to it that is a leaf or lighter than limits[0] or at depth limits[1]."""
    depth = np.zeros(left.shape[0], np.int64)
    ends[0] = 0
    for node in range(left.shape[0]):
        if left[node] < 0:
            continue
        is_end = ends[node] != node or n_rows[node] < limits[0] or depth[node] == limits[1]
        for child in (left[node], right[node]):
            depth[child] = depth[node] + 1
            ends[child] = ends[node] if is_end else child


@kernel
def mean_of_groups(
    distances: Floats | Float32s,
    members: NDArray[np.uint32],
    weights: Floats,
    group: NDArray[np.uint32],
    means: Floats,
) -> None:
    """means[a, b] = sum of w_i w_j z_ij / (m_a m_b) over i in group a and j in group b, where m_a is the sum of w_i.

    Members are ordered by group; ``means`` are zeros.
    """
    mass = np.zeros(means.shape[0])
    for i in range(group.shape[0]):
        own, row = group[i], members[i]
        mass[own] += weights[i]
        for j in range(i):
            means[own, group[j]] += weights[i] * weights[j] * distances[row, members[j]]
    for a in range(means.shape[0]):
        means[a, a] *= 2.0  # only one order of i and j in a group was added
    for i in range(group.shape[0]):
        means[group[i], group[i]] += weights[i] ** 2 * distances[members[i], members[i]]
    for a in range(means.shape[0]):
        for b in range(a + 1):
            means[a, b] /= mass[a] * mass[b]
            means[b, a] = means[a, b]


@kernel
def add_to_pairs(
    tables: Floats,
    begins: Ints,
    widths: Ints,
    places: NDArray[np.uint32],
    rows: NDArray[np.uint32],
    sums: Floats,
) -> None:
    """sums[rows[i], rows[j], s] += table s at places[s, i], places[s, j] for j <= i; and 1 to the last sum of the pair.

    Table s is square, widths[s] wide, and begins at begins[s].
    """
    n_stops = places.shape[0]
    for i in range(rows.shape[0]):
        for j in range(i + 1):
            sums[rows[i], rows[j], n_stops] += 1.0
        for s in range(n_stops):
            first = begins[s] + places[s, i] * widths[s]
            of_row = tables[first : first + widths[s]]
            for j in range(i + 1):
                sums[rows[i], rows[j], s] += of_row[places[s, j]]


@kernel
def means_of_pairs(sums: Floats) -> None:
    """sums[i, j, s] /= sums[i, j, -1] for all s but the last, NaN for a pair without a tree; and the same of j, i."""
    last = sums.shape[2] - 1
    for i in range(sums.shape[0]):
        for j in range(i + 1):
            for s in range(last):
                sums[i, j, s] = sums[i, j, s] / sums[i, j, last] if sums[i, j, last] > 0.0 else np.nan
            for s in range(last + 1):
                sums[j, i, s] = sums[i, j, s]
