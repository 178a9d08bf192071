"""Neighbours by a forest over pairs: training points leave as soon as they cannot be among the nearest any more.

A distance is a sum over trees, so a query would walk with every training point down every tree. But after some trees
most points are known to be too far: what the other trees can still say in their favour is bounded by the best of their
leaves. So the trees answer in a few rounds::

    trees 0 .. 9       all training points       the nearest so far are walked down all trees: the k-th of their
                                                 distances is a limit that k points keep to
    trees 10 .. 14     those that are left       a point leaves when its sum, with the best that can follow, is beyond
    trees 15 .. 23     those that are left       the limit; a round ends when a fifth of them is to leave

A point that stays gets the same additions in the same order, so that its distance is the same bit for bit. Sums are
compared with room for their rounding; a point that keeps to the limit never leaves, so that ties are decided as ever.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from distforest.forest.pairs.pair_scores import (
    PairsOfPoints,
    Points,
    columns_of,
    distance,
    distances_from,
    in_turns,
    node_scores,
    pair_distance,
    pairs_of,
    points_at,
    read_by,
    runs_of,
    training_points,
)
from distforest.forest.pairs.pair_walks import blocks_of
from distforest.forest.proximities import check_n_neighbors

if TYPE_CHECKING:
    from distforest.forest.forest import Forest
    from distforest.sources.source import Floats, Int32s, Ints

PAIRS_OF_QUERIES = 1 << 18
"""Pairs that are compared at once, which take about 40 bytes each; more if a query alone has more."""

FEWEST_TREES = 5
"""A forest of fewer trees answers at once."""

POINTS_A_NEIGHBOR = 4
"""Training points for each neighbour whose distances give the limit; with no more points, none would leave."""

BEGINNING_SHARE, LEAVING_SHARE, MOST_ROUNDS = 0.1, 0.2, 20
"""Share of the trees that answer in the first round; of the pairs that leave after each round; and most rounds, as
reading the columns of a pair anew takes as long as a few trees."""


def kneighbors(
    forest: Forest, points: Points, n_neighbors: int, own: Ints | None, threads: int = 1
) -> tuple[Floats, Ints]:
    """The nearest training points of each of ``points``, block by block.

    They are those of all distances, bit for bit.

    Parameters
    ----------
    forest
        A forest over pairs.
    points
        Shape (n, columns.width), float32, or sparse if the training points are.
    n_neighbors
        Number of neighbours of each point.
    own
        Number of the training point that each of ``points`` is, shape (n,), which is not its own neighbour; None: the
        points are new.
    threads
        Number of threads that share the work.

    Returns
    -------
    distances, indices : ndarray
        Shape (n, n_neighbors), nearest first; equal distances in the order of the index.

    Raises
    ------
    InputError
        There are fewer than ``n_neighbors`` neighbours.
    """
    training, n = training_points(forest), points.shape[0]
    check_n_neighbors(n_neighbors, training.shape[0], own is not None)
    pays = can_leave(forest) and POINTS_A_NEIGHBOR * n_neighbors < training.shape[0]
    distances = np.empty((n, n_neighbors))
    indices = np.empty((n, n_neighbors), np.int64)
    for rows in runs_of(n, max(1, PAIRS_OF_QUERIES // training.shape[0])):
        some = points_at(points, np.arange(rows.start, rows.stop))
        itself = None if own is None else own[rows]
        answer = _nearest_of_some if pays else _nearest_of_all
        distances[rows], indices[rows] = answer(forest, some, n_neighbors, itself, threads)
    return distances, indices


def can_leave(forest: Forest) -> bool:
    """Whether a forest's answer is a mean over enough trees, and not a share of pairs or a median."""
    table = node_scores(forest)
    return forest.n_trees >= FEWEST_TREES and table.wholes is None and not table.median


def _nearest_of_all(
    forest: Forest, points: Points, n_neighbors: int, own: Ints | None, threads: int
) -> tuple[Floats, Ints]:
    """The neighbours of some points by all their distances."""
    near = distance(forest, points, training_points(forest), threads)
    if own is not None:
        near[np.arange(len(near)), own] = np.inf
    indices = np.argsort(near, axis=1, kind="stable")[:, :n_neighbors]
    return np.take_along_axis(near, indices, axis=1), indices


class Standing(NamedTuple):
    """Pairs of a query and a training point that may be one of its nearest, and the sums of the trees so far.

    ``left`` has the query and ``right`` the training point of each pair, both ascending, shape (m,).
    """

    left: Int32s
    right: Int32s
    sums: Floats

    def only(self, kept: Ints) -> Standing:
        """Some of the pairs."""
        return Standing(self.left[kept], self.right[kept], self.sums[kept])


def _nearest_of_some(
    forest: Forest, points: Points, n_neighbors: int, own: Ints | None, threads: int
) -> tuple[Floats, Ints]:
    """The neighbours of some points, from which training points leave."""
    training, n = training_points(forest), points.shape[0]
    forest, pairs = read_by(forest, pairs_of(columns_of(forest), points, training))
    left = np.repeat(np.arange(n, dtype=np.int32), training.shape[0])
    right = np.tile(np.arange(training.shape[0], dtype=np.int32), n)
    standing = Standing(left, right, np.zeros(len(left)))
    if own is not None:
        standing = standing.only(np.flatnonzero(right != own[left]))
    best, trees, limits = _best_that_follows(forest), slice(0, max(1, int(BEGINNING_SHARE * forest.n_trees))), None
    _add_round(forest, pairs, standing, trees, threads)
    while trees.stop < forest.n_trees:
        bound = _distances(forest, standing.sums + best[trees.stop])
        if limits is None:
            limits = _limits(forest, pairs, standing, bound, n_neighbors, threads)
        kept = np.flatnonzero(bound <= limits[standing.left])
        standing = standing.only(kept)
        trees = _next_round(trees.stop, forest.n_trees, bound[kept], limits[standing.left])
        _add_round(forest, pairs, standing, trees, threads)
    return _first(standing, _distances(forest, standing.sums), n, n_neighbors)


def _next_round(done: int, n_trees: int, bound: Floats, limits: Floats) -> slice:
    """The trees after which some pairs that stand will have left, if their bounds grow as they did so far."""
    with np.errstate(divide="ignore", invalid="ignore"):
        trees = done * limits / bound  # infinity or NaN where nothing counts against a pair: they come last
    enough = int(LEAVING_SHARE * len(trees))
    soonest = float(np.partition(trees, enough)[enough])
    last = n_trees if not soonest < n_trees else max(int(soonest) + 1, done + max(2, n_trees // MOST_ROUNDS))
    return slice(done, min(n_trees, last))


def _best_that_follows(forest: Forest) -> Floats:
    """The best that the trees from each one on can add to a sum, with room for rounding, shape (n_trees + 1,).

    Two sums of T terms of at most 1 differ from the true ones by less than T^2 2^-53 each.
    """
    scores, starts = node_scores(forest), [*forest.table.tree_start[: forest.n_trees].tolist(), len(forest.table.left)]
    choose, sign = (np.min, -1.0) if scores.dissimilar else (np.max, 1.0)
    best = [choose(scores.parts[first:last][forest.table.is_leaf[first:last]]) for first, last in pairwise(starts)]
    following = np.append(np.cumsum(best[::-1])[::-1], 0.0)
    return np.asarray(following + sign * 2.0**-51 * forest.n_trees**2)


def _distances(forest: Forest, sums: Floats) -> Floats:
    """The distances that sums over all trees say."""
    return distances_from(forest, sums / forest.n_trees)


def _add_round(forest: Forest, pairs: PairsOfPoints, standing: Standing, trees: slice, threads: int) -> None:
    """Add what some trees say."""
    scores = node_scores(forest)

    def add(turn: slice) -> None:
        sums = standing.sums[turn]
        for block in blocks_of(pairs.of_pairs(standing.left[turn], standing.right[turn])):
            scores.walks.add(scores.parts, block, trees, sums[block.pairs])

    in_turns(add, len(standing.sums), threads)


def _limits(
    forest: Forest, pairs: PairsOfPoints, standing: Standing, bound: Floats, n_neighbors: int, threads: int
) -> Floats:
    """A distance of each query to which at least ``n_neighbors`` training points keep: that of those nearest so far."""
    n = int(standing.left[-1]) + 1
    by_query = bound.reshape(n, -1)  # as many training points for each
    many = POINTS_A_NEIGHBOR * n_neighbors
    chosen = np.argpartition(by_query, many - 1, axis=1)[:, :many]
    places = (chosen + np.arange(n)[:, None] * by_query.shape[1]).reshape(-1)
    some = pairs.of_pairs(standing.left[places], standing.right[places])
    distances = pair_distance(forest, some, threads).reshape(n, -1)
    limits: Floats = np.partition(distances, n_neighbors - 1, axis=1)[:, n_neighbors - 1]
    return limits


def _first(standing: Standing, distances: Floats, n: int, n_neighbors: int) -> tuple[Floats, Ints]:
    """The nearest of each of ``n`` queries; equal distances in the order of the training points."""
    order = np.lexsort((standing.right, distances, standing.left))
    begin = np.searchsorted(standing.left, np.arange(n))
    places = order[(begin[:, None] + np.arange(n_neighbors)).reshape(-1)]
    shape = n, n_neighbors
    return distances[places].reshape(shape), standing.right[places].astype(np.int64).reshape(shape)
