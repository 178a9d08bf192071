"""How far ranking trees are pruned, by cross-validation over points: pairs of points that a tree has not seen judge it.

For each fold the trees are grown on pairs of the other points; for every gain up to which they may be pruned, the area
under the curve of the pairs of the fold's points is worked out. The gain whose mean area is largest prunes the forest.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from distforest.errors import InputError
from distforest.forest.estimates import Pruning
from distforest.forest.pairs.cells import Cells, order_of_pruning, pruned
from distforest.forest.pairs.pair_scores import ranks_of, tallied, training_pairs
from distforest.growth.pairs.sampling import LabelledPairs
from distforest.growth.rng import SAMPLE_NODE, shuffle, stream
from distforest.sources.point_pairs import PointPairs

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from distforest.forest.forest import Forest
    from distforest.growth.problem import Data
    from distforest.sources.source import Floats, Ints

    Grow = Callable[[Data], Forest]

MOST_JUDGES = 200_000
"""Pairs of a fold's points that judge."""

GAINS = 64
"""Gains that are tried: quantiles of those of the forest's partings."""

_FOLDS = (1 << 40) + 1
"""Number of the tree in whose stream the folds are drawn: beyond all trees."""


def prune(forest: Forest, data: Data, n_folds: int, grow: Grow) -> tuple[Forest, Pruning]:
    """Prune a ranking forest as far as held-out pairs say.

    Parameters
    ----------
    forest
        Grown on all points.
    data
        That it was grown on.
    n_folds
        Parts of the points.
    grow
        Grows a forest on some of the data.

    Raises
    ------
    InputError
        A fold has no pairs of both kinds.
    """
    gains = _gains_of(forest)
    folds = _folds(forest.meaning.seed, data.n_rows, n_folds)
    areas = np.zeros(len(gains))
    for fold in range(n_folds):
        grown = grow(_of_points(data, np.flatnonzero(folds != fold)))
        held = _of_points(data, np.flatnonzero(folds == fold))
        areas += _areas(grown, held, gains) / n_folds
    best = float(gains[len(gains) - 1 - int(np.argmax(areas[::-1]))])  # of equal areas the smallest tree
    return pruned(forest, best), Pruning(best, gains, areas)


def _gains_of(forest: Forest) -> Floats:
    """Gains up to which the forest may be pruned: none, and quantiles of the gains at which its partings go."""
    ranks, found = ranks_of(forest), [0.0]
    for tree in range(forest.n_trees):
        found += [gain for _, gain in order_of_pruning(Cells.of(ranks, tree))][:-1]
    return np.unique(np.quantile(found, np.linspace(0.0, 1.0, GAINS), method="lower"))


def _folds(seed: int, n: int, n_folds: int) -> Ints:
    order = np.arange(n)
    shuffle(np.uint64(stream(seed, _FOLDS, SAMPLE_NODE)), 0, order, n)
    folds = np.empty(n, np.int64)
    folds[order] = np.arange(n) % n_folds
    return folds


def _of_points(data: Data, points: Ints) -> Data:
    """The data of some points, and the pairs of which it has both."""
    matrix = np.ascontiguousarray(data.array[points])
    if data.pairs is None:
        return replace(data, matrix=matrix, truth=data.truth[points])
    place = np.full(data.n_rows, -1)
    place[points] = np.arange(len(points))
    own = place[data.pairs]
    kept = (own >= 0).all(axis=1)
    return replace(data, matrix=matrix, truth=data.truth[kept], pairs=own[kept].astype(np.int32))


def _judges(held: Data) -> tuple[NDArray[np.int32], NDArray[np.uint8]]:
    """Pairs of held-out points, and their classes; raises InputError where one kind is missing."""
    if held.pairs is not None:
        pairs, codes = held.pairs, held.truth.astype(np.uint8)
    else:
        sample = LabelledPairs(held.truth, MOST_JUDGES, "balanced", held.n_rows).sample(0, 0)
        pairs, codes = sample.pairs, sample.codes
    if not 0 < codes.sum() < len(codes):
        raise InputError("pruning: a fold has no pairs of both kinds; ask for fewer folds")
    return pairs, codes


def _areas(grown: Forest, held: Data, gains: Floats) -> Floats:
    """Mean area under the curve of the trees on held-out pairs, for each gain up to which they are pruned."""
    ranks, (numbers, codes) = ranks_of(grown), _judges(held)
    points, areas = training_pairs(grown, numbers[:0]), np.zeros(len(gains))
    left, right = np.ascontiguousarray(numbers.T)
    pairs = PointPairs(points.columns, held.array, held.array, left, right)
    ones = np.ones(len(codes), np.int32)
    for tree in range(grown.n_trees):
        cells = Cells.of(ranks, tree)
        lost, order = cells.gains(tallied(ranks.table, tree, pairs, codes, ones)), order_of_pruning(cells)
        went = np.array([gain for _, gain in order])
        losses = np.cumsum([0.0, *(lost[cell] for cell, _ in order)])
        whole = 0.5 + losses[-1]
        areas += whole - losses[np.searchsorted(went, gains, side="right")]
    return areas / grown.n_trees
