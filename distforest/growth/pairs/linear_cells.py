"""LeafRank by a linear classifier: one oblique cut over all columns of a pair parts a cell.

Clemencon and Vogel (appendix 6.3) name a support vector machine with costs; here the classifier is logistic. It is
fitted by stochastic gradient descent to blocks of the cell's pairs, with the costs of the cell and with each column
divided by its standard deviation. So no more than the columns of a block are in memory. The cell is then cut at the
best threshold of the projection onto the classifier's weights. A value beyond a column's fences
(`distforest.growth.cuts.fences`) does not influence the weights: one step along a far pair would be longer than all
others together. Nor does a missing value; the projection of a pair that has one is missing. Of a feature of categories
it reads whether the two differ; unordered pairs of categories are no amounts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from numpy.typing import NDArray

from distforest.forest.frontier import Frontier
from distforest.forest.node_table import LEAF, NodeTable
from distforest.growth.cuts.fences import fence_columns
from distforest.growth.cuts.two_classes import TwoClasses, even_costs
from distforest.growth.pairs.ranking_trees import CellTree
from distforest.growth.surrogates import place_learned
from distforest.sources.point_pairs import PointPairs
from distforest.sources.source import Projections, offsets

if TYPE_CHECKING:
    from distforest.sources.source import Floats, Int32s, Ints
    from distforest.sources.sparse_pairs import SparsePairs

    Codes = NDArray[np.uint8]
    Rows = TypeVar("Rows", Int32s, Ints)

PAIRS_AT_ONCE = 1 << 12
"""Largest number of pairs whose columns are in memory at once."""

STEPS = 1 << 14
"""Least number of gradient steps for a cell, unless `MOST_PASSES` limits it; a pass takes a step for each pair."""

MOST_PASSES = 64
"""Largest number of passes over the pairs of a cell."""


@dataclass(frozen=True)
class LinearCells:
    """LeafRank by a linear classifier."""

    min_samples_leaf: int  # fewest pairs on each side of a cut

    def part(
        self, cells: Frontier, names: Ints, pairs: PointPairs | SparsePairs, codes: Codes, counts: Ints
    ) -> CellTree:
        """Part each cell by a small tree of one cut, or of none where no threshold gains anything."""
        assert isinstance(pairs, PointPairs)  # noqa: S101  (`check_sparse` refuses sparse points)
        own = columns_of_amounts(pairs)
        n, n_columns = cells.n_nodes, len(own)
        costs = even_costs(counts)
        weights = np.empty((n, n_columns))
        for cell in range(n):
            of_cell = slice(*cells.starts[cell : cell + 2])
            rows, of_pairs = cells.rows[of_cell], cells.weights[of_cell]
            of_rows = costs[cell][codes[rows]] * (of_pairs / of_pairs.mean())
            weights[cell] = _classifier(pairs, rows, codes, of_rows, int(names[cell]))
        projections = Projections(1, np.arange(n + 1) * n_columns, np.tile(own, n), weights.reshape(-1))
        values = pairs.project(cells.rows, cells.starts, projections)
        of_cells = Frontier(np.arange(n), cells.node, cells.starts, cells.rows, cells.weights)
        cuts = TwoClasses(codes, costs).cut(of_cells, values, self.min_samples_leaf)
        is_cut, side = cuts.candidate >= 0, of_cells.sides(values[0], cuts.threshold)
        goes_right = None if pairs.is_complete else place_learned(of_cells, cuts.missing, side)
        ends = np.where(np.repeat(is_cut, cells.sizes), 1 + side, 0).astype(np.int32)
        table = _one_cut_each(is_cut, cuts.threshold, cuts.gain, own, weights)
        if goes_right is not None:
            missing_right = np.zeros(len(table.left), np.bool_)
            missing_right[table.tree_start[:-1][is_cut]] = goes_right[is_cut]
            table = replace(table, missing_right=missing_right)
        return CellTree(table, ends)


def _classifier(pairs: PointPairs, rows: Int32s, codes: Codes, of_rows: Floats, name: int) -> Floats:
    """Fit a logistic classifier of dissimilar pairs; its weights for the unscaled amounts, shape (n_columns,).

    ``of_rows`` is how much each of the ``rows`` counts, shape (n,).
    """
    from sklearn.linear_model import SGDClassifier  # noqa: PLC0415  (takes a second, and other forests do not need it)

    order = np.random.default_rng(name).permutation(len(rows)) if len(rows) > PAIRS_AT_ONCE else np.arange(len(rows))
    standard = Standard.from_pairs(pairs, rows, rows[order[:PAIRS_AT_ONCE]])
    passes = min(MOST_PASSES, -(-STEPS // len(rows)))
    classifier = SGDClassifier("log_loss", average=True, max_iter=passes, tol=None, random_state=name % (1 << 31))
    if len(rows) <= PAIRS_AT_ONCE:
        classifier.fit(standard.columns(rows), codes[rows], sample_weight=of_rows)
    else:
        for places in (one for _ in range(passes) for one in _blocks(order)):
            block, counts = rows[places], of_rows[places]
            classifier.partial_fit(standard.columns(block), codes[block], classes=[0, 1], sample_weight=counts)
    weights: Floats = classifier.coef_[0] / standard.deviation
    return weights


@dataclass(frozen=True)
class Standard:
    """Columns of pairs on one scale."""

    pairs: PointPairs  # the pairs
    fences: Floats  # bounds beyond which a value does not count, shape (2, n_columns)
    # mean, deviation: mean and standard deviation of the values within the fences, shape (n_columns,); the deviation is
    # 1 where all values are equal
    mean: Floats
    deviation: Floats

    @classmethod
    def from_pairs(cls, pairs: PointPairs, rows: Int32s, some: Int32s) -> Standard:
        """Compute means and deviations from the pairs ``rows``, and fences from ``some`` of them."""
        of_some = _all_columns(pairs, some)
        fences = np.empty((2, of_some.shape[1]))
        fence_columns(of_some, np.arange(len(some)), fences)
        leading = _all_columns(pairs, rows[: 1 if pairs.is_complete else PAIRS_AT_ONCE])
        first = leading[np.argmax(~np.isnan(leading), axis=0), np.arange(leading.shape[1])]  # that is not missing
        origin = np.clip(np.nan_to_num(first), *fences)  # near the values, so that no digits cancel
        n, sums, squares = np.zeros(len(origin), np.int64), np.zeros(len(origin)), np.zeros(len(origin))
        for block in _blocks(rows):
            values = _all_columns(pairs, block)
            inside = _within(fences, values)
            differences = np.where(inside, values - origin, 0.0)
            n += inside.sum(axis=0)
            sums += differences.sum(axis=0)
            squares += (differences**2).sum(axis=0)
        mean = sums / np.maximum(n, 1)
        deviation = np.sqrt(np.maximum(squares / np.maximum(n, 1) - mean**2, 0.0))
        return cls(pairs, fences, origin + mean, np.where(deviation > 0.0, deviation, 1.0))

    def columns(self, rows: Int32s) -> Floats:
        """(value - mean) / deviation of all columns of some pairs, shape (n, n_columns).

        0 beyond the fences, and where a value is missing.
        """
        values = _all_columns(self.pairs, rows)
        return np.where(_within(self.fences, values), (values - self.mean) / self.deviation, 0.0)


def _within(fences: Floats, values: Floats) -> NDArray[np.bool_]:
    within: NDArray[np.bool_] = (fences[0] <= values) & (values <= fences[1])
    return within


def columns_of_amounts(pairs: PointPairs) -> Int32s:
    """The numbers of the columns of a pair that do not hold categories."""
    sizes = pairs.columns.categories_of_columns or (0,) * pairs.shape[1]
    return np.flatnonzero(np.array(sizes) == 0).astype(np.int32)


def _all_columns(pairs: PointPairs, rows: Int32s) -> Floats:
    return pairs.block(rows, columns_of_amounts(pairs))


def _blocks(rows: Rows) -> Iterator[Rows]:
    for begin in range(0, len(rows), PAIRS_AT_ONCE):
        yield rows[begin : begin + PAIRS_AT_ONCE]


def _one_cut_each(
    is_cut: NDArray[np.bool_], threshold: Floats, gain: Floats, read: Int32s, weights: Floats
) -> NodeTable:
    """Trees of a root and two leaves, or of a leaf alone; the roots read the columns ``read``."""
    tree_size = np.where(is_cut, 3, 1)
    root, size = offsets(tree_size)[:-1], int(tree_size.sum())
    cut, n_columns = root[is_cut], weights.shape[1]
    left, right = np.full(size, LEAF, np.int32), np.full(size, LEAF, np.int32)
    left[cut], right[cut] = 1, 2
    thresholds, gains, width = np.zeros(size), np.zeros(size), np.zeros(size, np.int32)
    thresholds[cut], gains[cut], width[cut] = threshold[is_cut], gain[is_cut], n_columns
    columns = np.tile(read, len(cut))
    coefficients = weights[is_cut].reshape(-1)
    return NodeTable(tree_size, left, right, thresholds, width, columns, coefficients, gains, np.zeros(size, np.int64))
