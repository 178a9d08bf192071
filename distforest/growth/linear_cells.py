"""LeafRank by a linear classifier: a cell is parted by one oblique cut over all columns of a pair.

Clemencon and Vogel (appendix 6.3) name a support vector machine with costs; here the classifier is logistic.
A classifier with the costs of the cell is fitted by stochastic gradient steps to blocks of its pairs, each column over
its standard deviation, so that the columns of at most a block are ever held; then the cell is cut where the projection
onto its weights is best cut.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from distforest.forest.frontier import Frontier
from distforest.forest.table import LEAF, NodeTable
from distforest.growth.tree_rank import Parted
from distforest.growth.two_classes import TwoClasses, even_costs
from distforest.sources.source import Projections, offsets

if TYPE_CHECKING:
    from distforest.sources.point_pairs import PointPairs
    from distforest.sources.source import Floats, Ints, Rows

    Codes = NDArray[np.uint8]

BLOCK = 1 << 12
"""Pairs whose columns are held at once."""

STEPS = 1 << 14
"""Gradient steps for a cell that are aimed at; all its pairs are passed over a whole number of times."""

MOST_PASSES = 64


@dataclass(frozen=True)
class LinearCells:
    """LeafRank by a linear classifier.

    Attributes
    ----------
    min_samples_leaf
        Fewest pairs on each side of a cut.
    """

    min_samples_leaf: int

    def part(self, cells: Frontier, names: Ints, pairs: PointPairs, codes: Codes, counts: Ints) -> Parted:
        """Small trees of one cut, or none where no place of a projection gains."""
        n, n_columns = cells.n_nodes, pairs.shape[1]
        costs = even_costs(counts)
        weights = np.empty((n, n_columns))
        for cell in range(n):
            rows = cells.rows[cells.starts[cell] : cells.starts[cell + 1]]
            weights[cell] = _classifier(pairs, rows, codes, costs[cell], int(names[cell]))
        columns = np.tile(np.arange(n_columns, dtype=np.int32), n)
        projections = Projections(1, np.arange(n + 1) * n_columns, columns, weights.reshape(-1))
        values = pairs.project(cells.rows, cells.starts, projections)
        of_cells = Frontier(np.arange(n), cells.node, cells.starts, cells.rows, cells.weights)
        cuts = TwoClasses(codes, costs).cut(of_cells, values, self.min_samples_leaf)
        is_cut, side = cuts.candidate >= 0, of_cells.sides(values[0], cuts.threshold)
        ends = np.where(np.repeat(is_cut, cells.sizes), 1 + side, 0).astype(np.int32)
        return Parted(_one_cut_each(is_cut, cuts.threshold, cuts.gain, weights), ends)


def _classifier(pairs: PointPairs, rows: Rows, codes: Codes, costs: Floats, name: int) -> Floats:
    """Weights of a logistic classifier of unlike pairs, over the columns as they are, shape (n_columns,)."""
    from sklearn.linear_model import SGDClassifier  # noqa: PLC0415  (a second that other forests do without)

    mean, deviation = _moments(pairs, rows)
    passes = min(MOST_PASSES, -(-STEPS // len(rows)))
    own = SGDClassifier("log_loss", average=True, max_iter=passes, tol=None, random_state=name % (1 << 31))
    if len(rows) <= BLOCK:
        (some, block), *_ = _blocks(pairs, rows)
        own.fit((block - mean) / deviation, codes[some], sample_weight=costs[codes[some]])
    else:
        order = np.random.default_rng(name).permutation(len(rows))
        for some, block in (one for _ in range(passes) for one in _blocks(pairs, rows[order])):
            standard = (block - mean) / deviation
            own.partial_fit(standard, codes[some], classes=[0, 1], sample_weight=costs[codes[some]])
    weights: Floats = own.coef_[0] / deviation
    return weights


def _moments(pairs: PointPairs, rows: Rows) -> tuple[Floats, Floats]:
    """Mean and standard deviation of the columns; 1 for a constant one."""
    sums, squares = np.zeros(pairs.shape[1]), np.zeros(pairs.shape[1])
    first = pairs.block(rows[:1], np.arange(pairs.shape[1], dtype=np.int32))[0]  # about it, so that nothing cancels
    for _, block in _blocks(pairs, rows):
        sums += (block - first).sum(axis=0)
        squares += ((block - first) ** 2).sum(axis=0)
    mean = sums / len(rows)
    deviation = np.sqrt(np.maximum(squares / len(rows) - mean**2, 0.0))
    return first + mean, np.where(deviation > 0.0, deviation, 1.0)


def _blocks(pairs: PointPairs, rows: Rows) -> Iterator[tuple[Rows, Floats]]:
    columns = np.arange(pairs.shape[1], dtype=np.int32)
    for begin in range(0, len(rows), BLOCK):
        some = rows[begin : begin + BLOCK]
        yield some, pairs.block(some, columns)


def _one_cut_each(is_cut: NDArray[np.bool_], threshold: Floats, gain: Floats, weights: Floats) -> NodeTable:
    """Trees of a root and two leaves, or of a leaf alone."""
    tree_size = np.where(is_cut, 3, 1)
    root, size = offsets(tree_size)[:-1], int(tree_size.sum())
    cut, n_columns = root[is_cut], weights.shape[1]
    left, right = np.full(size, LEAF, np.int32), np.full(size, LEAF, np.int32)
    left[cut], right[cut] = 1, 2
    thresholds, gains, width = np.zeros(size), np.zeros(size), np.zeros(size, np.int32)
    thresholds[cut], gains[cut], width[cut] = threshold[is_cut], gain[is_cut], n_columns
    columns = np.tile(np.arange(n_columns, dtype=np.int32), len(cut))
    own = weights[is_cut].reshape(-1)
    return NodeTable(tree_size, left, right, thresholds, width, columns, own, gains, np.zeros(size, np.int64))
