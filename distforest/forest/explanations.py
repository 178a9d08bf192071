r"""Explanations of distances: the distance of a forest as a sum over the columns that its splits read.

A node stands for its training rows, so the distance D of two nodes, inner ones too, is the mean distance of their
leaves, weighted by their in-bag rows. Two rows begin at the root, at D(root, root), and walk down side by side::

    root            D(root, root)      the baseline: the mean distance of the tree
     |
    a = b           D(a, a)            the root's split keeps them together, which changes D
    / \
   a'  b'           D(a', b')          the split of a separates them
   |   |
   a"  b"           D(a", b")          each goes on alone: half of the way with the other behind, half with it ahead

The differences add up to the distance of the two leaves less the baseline, and each belongs to one split. Its columns
share it in equal parts if it reads a sum of several. The forest's distance is the mean over its trees.

A pair in a forest over pairs walks alone, through nodes whose answer is the mean of their leaves' answers. In a ranking
tree, several nodes of the small tree that splits a cell lead to one cell, so a node has the numbers of its similar and
dissimilar pairs, but not their destinations. Each of them counts as the mean pair of its kind in the cell::

    D(node) = sum over the kinds s of n_s(node) / n(node) D_s(cell)

For a cell, this is the mean answer of its pairs.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from distforest.errors import InputError
from distforest.forest.node_sums import add_up_children, parents
from distforest.forest.node_table import LEAF
from distforest.forest.pairs.pair_leaves import Ranks, Votes
from distforest.forest.pairs.pair_walks import blocks_of
from distforest.forest.pairs.ranking_cells import Cells
from distforest.forest.path_lengths import SameLeaf
from distforest.forest.scoring import Predicting, between_nodes, informative_trees

if TYPE_CHECKING:
    from collections.abc import Callable

    from distforest.forest.forest import Forest
    from distforest.forest.node_table import NodeTable
    from distforest.forest.pairs.pair_walks import Block
    from distforest.sources.point_pairs import PointPairs
    from distforest.sources.source import Floats, Int32s, Ints

    NodeDistances = Callable[[Ints, Ints], Floats]

MOST_LEAVES = 1 << 13
"""Largest number of leaves of a tree for averages over all pairs, whose shares take 16 bytes a pair, 1 GiB."""


@dataclass(frozen=True)
class Explanation:
    """Distances of pairs as sums over columns: ``distances = baselines + contributions.sum(axis=1)``.

    Attributes
    ----------
    distances
        The forest's distance of each pair, shape (n_pairs,).
    baselines
        The mean distance of the training rows, shape (n_pairs,). It is the same for all pairs, except with the voting
        ``evidence``, which weights trees, and the aggregation ``median``, which selects them.
    contributions
        By how much each column raises the distance above the baseline, or lowers it, shape (n_pairs, n_columns).
    columns
        Names of the columns.
    """

    distances: Floats
    baselines: Floats
    contributions: Floats
    columns: tuple[str, ...]

    def strongest(self, pair: int, n: int = 10) -> list[tuple[str, float]]:
        """Return the ``n`` columns that contribute most to a pair's distance, in either direction, the strongest first.

        Examples
        --------
        >>> found = Explanation(np.array([0.7]), np.array([0.5]), np.array([[0.3, -0.1]]), ("length", "width"))
        >>> found.strongest(0, 1)
        [('length', 0.3)]
        """
        order = np.argsort(-np.abs(self.contributions[pair]), kind="stable")[:n]
        return [(self.columns[column], float(self.contributions[pair, column])) for column in order]


def explain_rows(forest: Forest, left: Int32s, right: Int32s, columns: tuple[str, ...]) -> Explanation:
    """Explain the distance of pairs of rows by a forest whose trees route rows by columns.

    Parameters
    ----------
    forest
        The forest.
    left, right
        Nodes of the rows, from `distforest.forest.scoring.apply`, shapes (n_trees, n_pairs).
    columns
        Names of the columns.

    Raises
    ------
    InputError
        There are not as many left rows as right rows, or no tree has a distance.
    """
    if left.shape != right.shape:
        raise InputError(f"pairs need as many left rows as right rows, found {left.shape[1]} and {right.shape[1]}")
    telling, n_pairs = informative_trees(forest).tolist(), left.shape[1]
    n_trees = len(telling)
    if not telling:
        raise InputError("no tree drew an observed distance, so there is no distance to explain; observe more of them")
    distances, baseline = np.zeros(n_pairs), 0.0
    contributions = np.zeros((n_pairs, forest.n_columns))
    for tree in telling:
        nodes = node_distances(forest, tree)
        paths = TreePaths.from_table(forest.table, tree)
        baseline += float(nodes(np.zeros(1, np.int64), np.zeros(1, np.int64))[0])
        for pair in range(n_pairs):
            ends = int(left[tree, pair]), int(right[tree, pair])
            distances[pair] += _add_walk(nodes, paths, ends, contributions[pair])
    contributions /= n_trees
    return Explanation(distances / n_trees, np.full(n_pairs, baseline / n_trees), contributions, columns)


def _add_walk(nodes: NodeDistances, paths: TreePaths, ends: tuple[int, int], contributions: Floats) -> float:
    """Add what each split of two walks changes to ``contributions``; return the distance at the end."""
    a, b = _side_by_side(paths.path(ends[0]), paths.path(ends[1]))
    if len(a) == 1:
        return float(nodes(a, b)[0])
    before, after = slice(0, -1), slice(1, None)
    here = nodes(a, b)
    shared = a[before] == b[before]
    ahead_a, ahead_b = here[before].copy(), here[before].copy()
    apart = np.flatnonzero(~shared)
    ahead_a[apart] = nodes(a[after][apart], b[before][apart])
    ahead_b[apart] = nodes(a[before][apart], b[after][apart])
    by_a = ((ahead_a - here[before]) + (here[after] - ahead_b)) / 2.0
    by_b = ((ahead_b - here[before]) + (here[after] - ahead_a)) / 2.0
    paths.add(a[before], by_a, contributions)
    paths.add(b[before], by_b, contributions)
    return float(here[-1])


def _side_by_side(left: list[int], right: list[int]) -> tuple[Ints, Ints]:
    """Return two paths of the same length; the shorter one stays at its end."""
    length = max(len(left), len(right))
    filled = [path + [path[-1]] * (length - len(path)) for path in (left, right)]
    return np.array(filled[0]), np.array(filled[1])


@dataclass(frozen=True)
class TreePaths:
    """The splits of one tree, by node: its parent, and the columns it reads."""

    parent: Ints
    offset: Ints
    columns: Int32s

    @classmethod
    def from_table(cls, table: NodeTable, tree: int) -> TreePaths:
        """Return the splits of a tree."""
        span = slice(table.tree_start[tree], table.tree_start[tree + 1])
        left, right = table.left[span], table.right[span]
        return cls(parents(left, right), table.offset[span.start : span.stop + 1], table.columns)

    def path(self, node: int) -> list[int]:
        """Return the nodes from the root to a node."""
        way = [node]
        while way[-1]:
            way.append(int(self.parent[way[-1]]))
        return way[::-1]

    def add(self, nodes: Ints, changes: Floats, contributions: Floats) -> None:
        """Divide the change by each split among its columns; a leaf changes nothing."""
        for node, change in zip(nodes.tolist(), changes.tolist(), strict=True):
            own = self.columns[self.offset[node] : self.offset[node + 1]]
            if len(own):
                np.add.at(contributions, own, change / len(own))


# --- distances of inner nodes ------------------------------------------------------------------------------


def node_distances(forest: Forest, tree: int) -> NodeDistances:
    """Return the function that computes distances of nodes of a tree, pair by pair.

    Of the two nodes of a pair neither is an ancestor of the other, unless both are the same.

    Raises
    ------
    InputError
        The tree has more leaves than `MOST_LEAVES`, and the leaf table has no distances of inner nodes.
    """
    leaf_table, table = between_nodes(forest), forest.table
    span = slice(table.tree_start[tree], table.tree_start[tree + 1])
    left, right, size = table.left[span], table.right[span], table.n_rows[span].astype(np.float64)
    if isinstance(leaf_table, Predicting):
        return partial(leaf_table.pairs, tree)
    if isinstance(leaf_table, SameLeaf):  # the share of pairs of a node's rows that end in two leaves
        parted = 1.0 - sums_of_leaves(table, tree, size**2) / size**2
        return lambda one, other: np.where(one == other, parted[one], 1.0)
    leaves = np.flatnonzero(left < 0)
    if len(leaves) > MOST_LEAVES:
        found = f"at most {MOST_LEAVES:,} leaves in a tree were expected, found {len(leaves):,}"
        raise InputError(f"explain averages over all pairs of leaves: {found}; raise min_samples_split")
    shares = np.zeros((len(left), len(leaves)))  # share of each leaf in the rows of each node
    shares[leaves, np.arange(len(leaves))] = size[leaves]
    for node in np.flatnonzero(left >= 0)[::-1].tolist():  # children come after their parents
        shares[node] = shares[left[node]] + shares[right[node]]
    shares /= size[:, None]
    distances = leaf_table.between(tree, leaves, leaves)
    return lambda one, other: np.asarray(((shares[one] @ distances) * shares[other]).sum(axis=1))


def sums_of_leaves(table: NodeTable, tree: int, values: Floats) -> Floats:
    """Return the sums of the values of the leaves below each node of a tree, shape (n_nodes,)."""
    span = slice(table.tree_start[tree], table.tree_start[tree + 1])
    sums = values.copy()
    add_up_children(table.left[span], table.right[span], sums)
    return sums


# --- pairs -------------------------------------------------------------------------------------------------


def explain_pairs(forest: Forest, pairs: PointPairs, columns: tuple[str, ...]) -> Explanation:
    """Explain the distance of the two points of each pair by a forest over pairs.

    Parameters
    ----------
    forest
        A forest over pairs.
    pairs
        The pairs.
    columns
        Names of the columns of a pair.

    Raises
    ------
    InputError
        Splits are weighted sums of all columns, whose parts cannot be compared.
    """
    leaf_table = forest.leaf_table
    if isinstance(leaf_table, Ranks):
        return _explain_ranks(leaf_table, pairs, columns)
    assert isinstance(leaf_table, Votes)  # noqa: S101  (a forest over pairs has no other kind)
    table, n_pairs = forest.table, len(pairs.left)
    wholes = np.ones(len(table.left)) if leaf_table.wholes is None else leaf_table.wholes
    answers = leaf_table.parts / wholes
    distances, baselines, weight = np.zeros(n_pairs), np.zeros(n_pairs), np.zeros(n_pairs)
    contributions = np.zeros((n_pairs, forest.n_columns))
    for tree in range(forest.n_trees):
        span, paths = slice(table.tree_start[tree], table.tree_start[tree + 1]), TreePaths.from_table(table, tree)
        rows = table.n_rows[span].astype(np.float64)
        means = sums_of_leaves(table, tree, answers[span] * rows) / rows
        for block in blocks_of(pairs):
            ends, own = leaf_table.walks.ends(tree, block), block.pairs
            for pair, end in zip(range(own.start, own.stop), ends.tolist(), strict=True):
                path = np.array(paths.path(end - span.start))
                paths.add(path[:-1], np.diff(means[path]) * wholes[end], contributions[pair])
            distances[own] += means[ends - span.start] * wholes[ends]
            baselines[own] += means[0] * wholes[ends]
            weight[own] += wholes[ends]
    return Explanation(distances / weight, baselines / weight, contributions / weight[:, None], columns)


def _explain_ranks(ranks: Ranks, pairs: PointPairs, columns: tuple[str, ...]) -> Explanation:
    """`explain_pairs` for a ranking forest."""
    table, n_pairs = ranks.table, len(pairs.left)
    if (table.width > 1).any():
        cure = "grow the forest with leafrank='tree'"
        raise InputError(f"explain: splits of single columns were expected, found weighted sums of all; {cure}")
    distances, baselines = np.zeros((2, n_pairs))
    contributions = np.zeros((n_pairs, pairs.shape[1]))
    for block in blocks_of(pairs):
        shares = _shares_of_trees(ranks, block)
        for tree in range(table.n_trees):
            answers, paths = answers_of_ranks(ranks, tree), TreePaths.from_table(table, tree)
            for place in np.flatnonzero(shares[tree]).tolist():
                pair, share = block.pairs.start + place, float(shares[tree, place])
                path = _passed(ranks, tree, block.only(place))
                paths.add(path[:-1], np.diff(answers[path]) * share, contributions[pair])
                distances[pair] += answers[path[-1]] * share
                baselines[pair] += answers[0] * share
    return Explanation(distances, baselines, contributions, columns)


def _passed(ranks: Ranks, tree: int, block: Block) -> Ints:
    """Return the nodes that the only pair of a block passes in a tree, parents before children."""
    counts = np.zeros((int(ranks.table.tree_size[tree]), 2), np.int64)
    ranks.walks.tally(tree, block, np.zeros(1, np.uint8), np.ones(1, np.int32), counts)
    return np.flatnonzero(counts[:, 0])


def _shares_of_trees(ranks: Ranks, block: Block) -> Floats:
    """Return the share of each tree in the answer for each pair of a block, shape (n_trees, n_pairs); columns add to 1.

    A median is the answer of the tree with this rank, or half of those on either side of the middle.
    """
    n_trees, n_pairs = ranks.table.n_trees, len(block.values)
    if not ranks.median:
        return np.full((n_trees, n_pairs), 1.0 / n_trees)
    found = np.stack([ranks.parts[ranks.walks.ends(tree, block)] for tree in range(n_trees)])
    ordered, shares = np.sort(found, axis=0), np.zeros((n_trees, n_pairs))
    for middle in (ordered[(n_trees - 1) // 2], ordered[n_trees // 2]):
        is_there = found == middle
        shares += 0.5 * is_there / is_there.sum(axis=0)
    return shares


def answers_of_ranks(ranks: Ranks, tree: int) -> Floats:
    """Return the distance D of every node of a ranking tree, 1 - its rank for a leaf, shape (tree_size,)."""
    cells = Cells.from_ranks(ranks, tree)
    span = slice(cells.start, cells.start + len(cells.counts))
    of_kinds = np.repeat(1.0 - ranks.parts[span, None], 2, axis=1)
    counts = cells.counts.astype(np.float64)
    for cell in np.flatnonzero(cells.better != LEAF)[::-1].tolist():  # the two parts come after their cell
        two = [cells.better[cell], cells.worse[cell]]
        of_kinds[cell] = (counts[two] * of_kinds[two]).sum(axis=0) / np.maximum(counts[cell], 1.0)
    answers: Floats = (counts * of_kinds[cells.cell]).sum(axis=1) / counts.sum(axis=1)
    return answers
