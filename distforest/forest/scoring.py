"""Scoring: distances, predictions and nearest neighbours of a forest, from arrays to arrays, block by block.

If the distance is the share of trees in which two rows end in different leaves, it follows from proximities.py.

A score is summed over the trees in their order, in float64, so it does not depend on the size of a block.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from distforest.amounts import counted
from distforest.errors import InputError
from distforest.forest.held_nodes import (
    NODES_AT_ONCE,
    HeldNodes,
    add_apart,
    keep_least,
    nearest_first,
    runs_of_trees,
)
from distforest.forest.leaf_index import by_row
from distforest.forest.leaves import ClassCounts, LeafTable, Means
from distforest.forest.members import Members, leaves_per_tree
from distforest.forest.nearest_votes import nearest_members
from distforest.forest.node_table import route
from distforest.forest.observed_leaves import ObservedLeafDistances, ObservedMembers, share_of_pairs
from distforest.forest.pairs.pair_leaves import Ranks, Votes
from distforest.forest.path_lengths import PathLengths, SameLeaf
from distforest.forest.proximities import check_n_neighbors, nearest, proximity
from distforest.forest.target_leaves import TargetMembers
from distforest.jit import kernel
from distforest.sources.cost_matrix import costs_among
from distforest.sources.row_kinds import Several
from distforest.sources.source import Floats, Int32s, Ints, Source
from distforest.sources.truth import Truth, TruthKind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from distforest.forest.forest import Forest
    from distforest.forest.leaf_index import LeafIndex

Predicting = ClassCounts | Means | TargetMembers
"""Leaf tables that predict, for inner nodes, too."""

ROWS_OF_DISTANCES = 1024
"""Number of rows on each side of a block of distances."""

ROWS_ONE_BY_ONE = 32
"""Number of rows up to which they are compared with others one by one: see `_goes_by_rows`."""


def apply(forest: Forest, source: Source) -> Int32s:
    """Find the node in which each row of ``source`` ends, in each tree, shape (n_trees, n), int32."""
    return route(forest.routed_table, forest.as_split(source), np.arange(source.shape[0], dtype=np.int32))


def misplaced_rows(forest: Forest, source: Source, numbers: Ints) -> Ints:
    """Find the rows of ``source`` that do not end where the training rows ``numbers`` did; return their positions."""
    return np.flatnonzero((apply(forest, source) != forest.training_nodes[:, numbers]).any(axis=0))


def uses_proximity(forest: Forest) -> bool:
    """Return whether the forest's distance is 1 - `distforest.forest.proximities.proximity`."""
    return isinstance(forest.leaf_table, SameLeaf)


def between_nodes(forest: Forest) -> LeafTable:
    """Return the leaf table of a forest, which has distances of nodes; raise InputError for a forest over pairs."""
    if isinstance(forest.leaf_table, (Votes, Ranks)):
        raise InputError("a forest over pairs has no distance of two nodes; compute the distance of two points")
    return forest.leaf_table


def informative_trees(forest: Forest) -> Ints:
    """Return the trees with distances: all except those that drew no observed pair of rows, see `observed_leaves`."""
    if isinstance(forest.leaf_table, (ObservedMembers, ObservedLeafDistances)):
        return np.flatnonzero(~forest.leaf_table.silent)
    return np.arange(forest.n_trees)


def unobserved_share(forest: Forest) -> float:
    """Return the share of all pairs of leaves, a leaf with itself among them, without an observed distance."""
    if not isinstance(forest.leaf_table, (ObservedMembers, ObservedLeafDistances)):
        return 0.0
    assert forest.leaf_table.unobserved is not None  # noqa: S101  (guaranteed by the kind of leaf table)
    return share_of_pairs(forest.leaf_table.unobserved, leaves_per_tree(forest.table))


def distance(forest: Forest, left: Int32s, right: Int32s) -> Floats:
    """Return the forest's distance of each row to each other row (SMERF, Eq. 3).

    Parameters
    ----------
    forest
        The forest.
    left, right
        Nodes of the rows, from `apply`, shapes (n_trees, n_left) and (n_trees, n_right).

    Returns
    -------
    ndarray
        Shape (n_left, n_right); NaN if no tree drew an observed distance.

    Raises
    ------
    InputError
        The two sides have different numbers of trees.
    """
    if uses_proximity(forest):
        return 1.0 - proximity(left, indexed(forest, right))
    if len(left) != len(right):
        raise InputError(
            f"rows must be routed through the same forest, found {len(left)} and {counted(len(right), 'tree')}"
        )
    total = np.zeros((left.shape[1], right.shape[1]))
    if _goes_by_rows(forest, left.shape[1]):
        _add_rows(forest, left, right, total)
    else:
        for rows in _blocks(left.shape[1]):
            for columns in _blocks(right.shape[1]):
                _add_trees(forest, left[:, rows], right[:, columns], total[rows, columns])
    n_informative = len(informative_trees(forest))
    return np.divide(total, n_informative, out=total) if n_informative else np.full_like(total, np.nan)


def indexed(forest: Forest, nodes: Int32s) -> Int32s | LeafIndex:
    """Return the index of the training rows, which the forest keeps, if ``nodes`` are theirs; other nodes unchanged."""
    return forest.training_index if nodes is forest.leaves else nodes


def _goes_by_rows(forest: Forest, n_rows: int) -> bool:
    """Return whether this number of rows is answered one by one; for tables that are not quick, only one row is."""
    return n_rows <= (ROWS_ONE_BY_ONE if between_nodes(forest).is_quick else min(1, ROWS_ONE_BY_ONE))


def _add_rows(forest: Forest, left: Int32s, right: Int32s, total: Floats) -> None:
    """Add the distances of all trees, one row of ``left`` after another, to ``total``, shape (n_left, n_right)."""
    table, trees = between_nodes(forest), informative_trees(forest)
    if isinstance(table, Means) and right is forest.leaves and forest.laid_means is not None:
        for ends, sums in zip(by_row(left), total, strict=True):
            table.add_from_laid(ends, forest.laid_means, sums)
        return
    kept = forest.kept_distances if type(table) is Members and right is forest.leaves else None
    if kept is not None and kept.add(left, total):
        return
    tree_start, others = forest.table.tree_start, np.ascontiguousarray(right, np.int32)
    held = forest.held_nodes if right is forest.leaves else HeldNodes.from_nodes(others, tree_start)
    apart = np.empty(max(NODES_AT_ONCE, int(forest.table.tree_size.max())))
    for ends, sums in zip(by_row(left), total, strict=True):
        for row in runs_of_trees(trees, ends, tree_start):
            table.from_row(row, held, apart)
            add_apart(row, apart, others, sums)


def _add_trees(forest: Forest, left: Int32s, right: Int32s, total: Floats) -> None:
    """Add each tree's distance to ``total``, shape (n_left, n_right)."""
    for tree in informative_trees(forest).tolist():
        from_nodes, row = np.unique(left[tree], return_inverse=True)
        to_nodes, column = np.unique(right[tree], return_inverse=True)
        add_looked_up(between_nodes(forest).between(tree, from_nodes, to_nodes), row, column, total)


@kernel
def add_looked_up(table: Floats, row: Ints, column: Ints, total: Floats) -> None:
    """total[i, j] += table[row[i], column[j]]."""
    for i in range(row.shape[0]):
        for j in range(column.shape[0]):
            total[i, j] += table[row[i], column[j]]


def pair_distance(forest: Forest, left: Int32s, right: Int32s) -> Floats:
    """Return the forest's distance of left[:, e] and right[:, e], shape (n_pairs,); arguments as for `distance`."""
    if left.shape != right.shape:
        raise InputError(f"pairs need as many left rows as right rows, found {left.shape[1]} and {right.shape[1]}")
    total = np.zeros(left.shape[1])
    if uses_proximity(forest):
        return 1.0 - (left == right).sum(axis=0) / forest.n_trees
    telling = informative_trees(forest).tolist()
    if _goes_by_rows(forest, left.shape[1]):
        for pair in range(left.shape[1]):
            _add_rows(forest, left[:, pair : pair + 1], right[:, pair : pair + 1], total[pair : pair + 1, None])
    else:
        for tree in telling:
            total += between_nodes(forest).pairs(tree, left[tree].astype(np.int64), right[tree].astype(np.int64))
    return total / len(telling) if telling else np.full_like(total, np.nan)


def out_of_bag_distance(forest: Forest, left: Ints, right: Ints) -> tuple[Floats, Ints]:
    """Compute out-of-bag distances of pairs of training rows, over the trees for which both rows are out of bag.

    Parameters
    ----------
    forest
        The forest.
    left, right
        Numbers of the training rows, shape (n_pairs,).

    Returns
    -------
    estimate : ndarray
        Shape (n_pairs,); NaN if no tree has both rows out of bag, and for a row with itself.
    count : ndarray
        Number of trees behind each estimate, shape (n_pairs,).
    """
    total, count = np.zeros(len(left)), np.zeros(len(left), np.int64)
    for tree in informative_trees(forest).tolist():
        both = (forest.in_bag[tree, left] == 0) & (forest.in_bag[tree, right] == 0) & (left != right)
        nodes = forest.training_nodes[tree].astype(np.int64)
        total[both] += between_nodes(forest).pairs(tree, nodes[left[both]], nodes[right[both]])
        count += both
    return np.divide(total, count, out=np.full(len(left), np.nan), where=count > 0), count


def kneighbors(
    forest: Forest, left: Int32s, right: Int32s, n_neighbors: int, self_rows: bool, threads: int = 1
) -> tuple[Floats, Ints]:
    """Find the nearest rows of ``right`` for each row of ``left``, without the whole matrix of distances.

    Parameters
    ----------
    forest
        The forest.
    left, right
        Nodes of the rows, as for `distance`.
    n_neighbors
        Number of neighbours of each row; at most n_right, or n_right - 1 if ``self_rows``.
    self_rows
        Whether row i of ``left`` is row i of ``right``, which is then not its own neighbour.
    threads
        Number of threads that share the rows of ``left``, if the forest `uses_proximity`.

    Returns
    -------
    distances, indices : ndarray
        Shape (n_left, n_neighbors), nearest first; equal distances by ascending index.

    Raises
    ------
    InputError
        There are fewer than ``n_neighbors`` neighbours.
    """
    if uses_proximity(forest):
        proximities, indices = nearest(left, indexed(forest, right), n_neighbors, self_rows, threads)
        return np.subtract(1.0, proximities, out=proximities), indices
    n_left, n_right = left.shape[1], right.shape[1]
    check_n_neighbors(n_neighbors, n_right, self_rows)
    distances = np.full((n_left, n_neighbors), np.nan)
    indices = np.full((n_left, n_neighbors), n_right)
    own = np.arange(n_left) if self_rows else np.full(n_left, -1)
    if _goes_by_rows(forest, n_left):
        for row in range(n_left):
            at = slice(row, row + 1)
            keep_least(distance(forest, left[:, at], right), 0, own[at], distances[at], indices[at])
    else:
        for rows in _blocks(n_left):
            for columns in _blocks(n_right):
                near = distance(forest, left[:, rows], right[:, columns])
                keep_least(near, columns.start, own[rows], distances[rows], indices[rows])
    nearest_first(distances, indices)
    return distances, indices


def predict_rows(forest: Forest, source: Source) -> Floats:
    """Route the rows of ``source`` and `predict`, with votes of leaves or of nearest training objects."""
    rows = np.arange(source.shape[0], dtype=np.int32)
    nodes = route(forest.routed_table, forest.as_split(source), rows)
    voters = nearest_members(nodes, forest.training_index, source, rows) if forest.nearest_votes else None
    return predict(forest, nodes, voters)


def predict(forest: Forest, nodes: Int32s, voters: Int32s | None = None) -> Floats:
    """Average over the trees the prediction of each row's node, or the votes of training objects there.

    Parameters
    ----------
    forest
        A forest that keeps class counts, means or targets.
    nodes
        Nodes of the rows, from `apply`, shape (n_trees, n).
    voters
        If the nearest training object votes: its number for each tree and row, -1 for none, shape (n_trees, n); see
        `distforest.forest.nearest_votes.nearest_members`. In a tree without one the node predicts.

    Returns
    -------
    ndarray
        Class shares, shape (n, n_classes), or mean (or median) targets or mean embeddings, shape (n, q).

    Raises
    ------
    InputError
        The forest was trained on distances, so it predicts only distances; or ``voters`` are missing.
    """
    leaf_table = predicting(forest)
    if forest.nearest_votes and voters is None:
        raise InputError("the nearest training object votes, and nodes do not determine it; predict from rows")
    total = np.zeros((nodes.shape[1], leaf_table.n_outputs))
    votes = np.empty((0, leaf_table.n_outputs)) if voters is None else forest.object_votes
    leaf_table.add_outputs(nodes, np.empty((0, 0), np.int32) if voters is None else voters, votes, total)
    total /= forest.n_trees
    return total


@kernel
def largest_share(shares: Floats) -> Ints:
    """Return the column of the largest value of each row, the first of equal ones, shape (n,); no value is NaN."""
    found = np.empty(shares.shape[0], np.int64)
    for i in range(shares.shape[0]):
        largest, column = shares[i, 0], 0
        for k in range(1, shares.shape[1]):
            is_larger = shares[i, k] > largest
            largest, column = max(largest, shares[i, k]), k if is_larger else column
        found[i] = column
    return found


def isolation(forest: Forest, nodes: Int32s) -> Floats:
    """Compute outlier scores, 2^-(mean of path length / usual path length), near 1 for outliers.

    Parameters
    ----------
    forest
        A forest of random cuts.
    nodes
        Nodes of the rows, from `apply`, shape (n_trees, n).

    Returns
    -------
    ndarray
        Shape (n,), between 0 and 1 (Liu, Ting, Zhou: Isolation Forest, 2008, Eq. 2).

    Raises
    ------
    InputError
        The forest's cuts are not random.
    """
    leaf_table = forest.leaf_table
    if not isinstance(leaf_table, PathLengths):
        raise InputError(f"outlier scores need a forest of random splits, found one that keeps {leaf_table.kind}")
    total = np.zeros(nodes.shape[1])
    for tree in range(forest.n_trees):
        total += leaf_table.shares(tree, nodes[tree].astype(np.int64))
    scores: Floats = 2.0 ** -(total / forest.n_trees)
    return scores


def truth_as_learned(forest: Forest, given: object) -> Truth:
    """Read a ground truth in the kind of a forest's training, labels with its costs.

    Raises
    ------
    InputError
        The values are refused, or a label has no costs.
    """
    return with_costs_learned(forest, Truth.from_given(given, forest.meaning.leaf.learned))


def with_costs_learned(forest: Forest, truth: Truth) -> Truth:
    """Return labels with the costs of a forest's training, unless they have some; any other ground truth unchanged.

    Raises
    ------
    InputError
        A label has no costs.
    """
    leaf_table = forest.leaf_table
    if not isinstance(leaf_table, ClassCounts) or leaf_table.costs is None or truth.kind != TruthKind.LABELS:
        return truth
    if truth.costs is not None:
        return truth
    costs = costs_among(leaf_table.costs, list(forest.meaning.classes or ()), truth.classes or [])
    return replace(truth, costs=costs)


def predicting(forest: Forest) -> Predicting:
    """Return the leaf table of a forest that predicts classes or targets; raise InputError for any other."""
    if isinstance(forest.leaf_table, Predicting):
        return forest.leaf_table
    if uses_proximity(forest):
        raise InputError("a forest without a ground truth predicts nothing; use `distance` or `proximity`")
    raise InputError("a forest that was trained on distances predicts distances; use `distance`")


def out_of_bag(forest: Forest) -> tuple[Floats, Ints]:
    """Predict each training row out of bag: mean class shares or targets over the trees that did not draw it.

    Returns
    -------
    estimate : ndarray
        Shape (n_rows, n_classes) or (n_rows, q); NaN for a row that every tree drew.
    count : ndarray
        Number of trees behind each estimate, shape (n_rows,).

    Raises
    ------
    InputError
        The forest predicts nothing, or the nearest training object votes, which would be the row itself.
    """
    leaf_table, n_rows = predicting(forest), forest.n_training
    if forest.nearest_votes:
        raise InputError("the training object nearest to a training row is itself, so there is no vote out of bag")
    total, count = np.zeros((n_rows, leaf_table.n_outputs)), np.zeros(n_rows, np.int64)
    for tree in range(forest.n_trees):
        out = forest.in_bag[tree] == 0
        total[out] += leaf_table.outputs(tree, forest.training_nodes[tree, out].astype(np.int64))
        count += out
    estimate = np.full_like(total, np.nan)
    np.divide(total, count[:, None], out=estimate, where=count[:, None] > 0)
    return estimate, count


def feature_importances(forest: Forest) -> Floats:
    """Sum the gains of the splits that read each column, as shares of their total, shape (n_columns,).

    A gain is n I(S) - n_L I(S_L) - n_R I(S_R), so it is weighted by the node's size (SMERF, section 2); a split of
    several columns counts for each of them. Without a ground truth, the size replaces the gain.
    """
    gain = forest.table.n_rows if uses_proximity(forest) else forest.table.gain
    per_entry = np.repeat(gain.astype(np.float64), forest.table.width)
    sums = np.bincount(forest.table.columns, per_entry, minlength=forest.n_columns).astype(np.float64)
    return sums / sums.sum() if sums.sum() > 0 else sums


def measure_importances(forest: Forest) -> Floats:
    """Sum the gains of the splits that read each of several measures, as shares of their total.

    Returns
    -------
    ndarray
        Shape (n_measures,); zeros if no split gains anything.

    Raises
    ------
    InputError
        The forest does not read several measures.
    """
    rows = forest.meaning.rows
    if not isinstance(rows, Several):
        raise InputError(f"shares of several measures were requested, but the forest reads {rows.kind}")
    of_columns: Floats = feature_importances(forest).reshape(len(rows.measures), -1)
    return of_columns.sum(axis=1)


def _blocks(n: int) -> Iterator[slice]:
    for first in range(0, n, ROWS_OF_DISTANCES):
        yield slice(first, min(n, first + ROWS_OF_DISTANCES))
