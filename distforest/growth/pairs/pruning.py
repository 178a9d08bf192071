"""How far ranking trees are pruned: by cross-validation over points, so that unseen points score each tree.

For each fold the trees grow on pairs of the other points. Then the area under the curve of the pairs of the fold's
points is computed for every gain up to which the trees may be pruned. The forest is pruned up to the gain with the
largest mean area.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from distforest.errors import InputError
from distforest.forest.estimates import Pruning
from distforest.forest.pairs.pair_scores import columns_of, pairs_of, ranks_of, tallied
from distforest.forest.pairs.ranking_cells import Cells, order_of_pruning, pruned
from distforest.growth.pairs.point_weights import PointWeights, of_points, pairs_in_all, present_data
from distforest.growth.pairs.sampling import LabelledPairs
from distforest.growth.rng import SAMPLE_NODE, shuffle, stream
from distforest.sources.sparse_features import SparseFeatures

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from distforest.forest.forest import Forest
    from distforest.growth.problem import Data
    from distforest.sources.source import Floats, Ints

    Grow = Callable[[Data], Forest]

MOST_SCORING_ROWS = 200_000
"""Largest number of pairs of a fold's points that score the trees."""

GAINS = 64
"""Number of gains that are tried: quantiles of the gains in the forest."""

_FOLDS = (1 << 40) + 1
"""The folds are drawn from the stream of the tree of this number, which is beyond all trees."""


def prune(forest: Forest, data: Data, n_folds: int, grow: Grow) -> tuple[Forest, Pruning]:
    """Prune a ranking forest as far as held-out pairs suggest.

    Parameters
    ----------
    forest
        A forest grown on all points.
    data
        The data that it was grown on.
    n_folds
        Number of parts of the points.
    grow
        Grows a forest on some of the data.

    Returns
    -------
    forest, pruning
        The pruned forest; the gain up to which it is pruned, and the mean area for each gain that was tried.

    Raises
    ------
    InputError
        A fold has no pairs of both kinds.
    """
    gains = _gains_of(forest)
    folds = _folds(forest.meaning.seed, data.n_rows, n_folds)
    areas = np.zeros(len(gains))
    for fold in range(n_folds):
        grown = grow(of_points(data, np.flatnonzero(folds != fold)))
        held = present_data(of_points(data, np.flatnonzero(folds == fold)))
        areas += _areas(grown, held, gains) / n_folds
    best = float(gains[len(gains) - 1 - int(np.argmax(areas[::-1]))])  # of equal areas the smallest tree
    return pruned(forest, best), Pruning(best, gains, areas)


def _gains_of(forest: Forest) -> Floats:
    """Gains up to which the forest may be pruned: 0, and quantiles of the gains at which its cells become leaves."""
    ranks, gains = ranks_of(forest), [0.0]
    for tree in range(forest.n_trees):
        gains += [gain for _, gain in order_of_pruning(Cells.from_ranks(ranks, tree))][:-1]
    return np.unique(np.quantile(gains, np.linspace(0.0, 1.0, GAINS), method="lower"))


def _folds(seed: int, n: int, n_folds: int) -> Ints:
    order = np.arange(n)
    shuffle(np.uint64(stream(seed, _FOLDS, SAMPLE_NODE)), 0, order, n)
    folds = np.empty(n, np.int64)
    folds[order] = np.arange(n) % n_folds
    return folds


def _scored_pairs(held: Data) -> tuple[NDArray[np.int32], NDArray[np.uint8]]:
    """Pairs of held-out points, and their classes; raises InputError where one kind is missing."""
    if held.pairs is not None:
        pairs, codes = held.pairs, held.truth.values.astype(np.uint8)
    else:
        sample = LabelledPairs(held.truth.values, MOST_SCORING_ROWS, "balanced", held.n_rows).sample(0, 0)
        pairs, codes = sample.pairs, sample.codes
    if not 0 < codes.sum() < len(codes):
        raise InputError("pruning: a fold has no pairs of both kinds; ask for fewer folds")
    return pairs, codes


def _areas(grown: Forest, held: Data, gains: Floats) -> Floats:
    """Mean area under the curve of the trees on held-out pairs, for each gain up to which they are pruned."""
    ranks, (numbers, codes) = ranks_of(grown), _scored_pairs(held)
    areas = np.zeros(len(gains))
    left, right = np.ascontiguousarray(numbers.T)
    points = held.matrix if isinstance(held.matrix, SparseFeatures) else held.array
    pairs = pairs_of(columns_of(grown), points, points).of_pairs(left, right)
    weights = np.ones(len(codes), np.int32) if held.pair_weights is None else held.pair_weights.integers
    if held.sample_weights is not None:
        of_points = PointWeights.from_weights(held.sample_weights, pairs_in_all(held, len(codes)))
        weights = of_points.in_tree(numbers, weights)
    for tree in range(grown.n_trees):
        cells = Cells.from_ranks(ranks, tree)
        held_gains, order = cells.gains(tallied(ranks.table, tree, pairs, codes, weights)), order_of_pruning(cells)
        pruned_at = np.array([gain for _, gain in order])
        losses = np.cumsum([0.0, *(held_gains[cell] for cell, _ in order)])
        unpruned = 0.5 + losses[-1]
        areas += unpruned - losses[np.searchsorted(pruned_at, gains, side="right")]
    return areas / grown.n_trees
