"""Cuts of pairs of points: the fused twin of projecting all candidates, ordering and scanning them.

A node of many pairs is searched through histograms of its candidates' codes, filled pair by pair, so that the features
of two points are read once for all of them; a small one in the order of its values. Neither holds more than a histogram
or the values of one candidate.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from distforest.growth.criteria import Criterion, Cuts, keep_best
from distforest.growth.ordering import order_values
from distforest.growth.pair_bins import PairBins, code_of
from distforest.growth.two_classes import TwoClasses, gain_of_counts, scan_two_classes, whole_of
from distforest.jit import kernel
from distforest.sources.point_pairs import PointPairs, pair_value
from distforest.sources.source import Float32s, Floats, Ints, Projections, Rows, Source, taken

if TYPE_CHECKING:
    from distforest.forest.frontier import Frontier
    from distforest.growth.grower import Limits

    Codes = NDArray[np.uint8]

FEW = 32
"""Pairs up to which a node is cut at any value, and not at the edges of bins."""


@dataclass(frozen=True)
class PairSearch:
    """The best cut of each node over single columns of pairs.

    Attributes
    ----------
    bins
        Of the columns; None: every node is cut at any value.
    """

    bins: PairBins | None

    def __call__(
        self, source: Source, criterion: Criterion, frontier: Frontier, projections: Projections, limits: Limits
    ) -> tuple[Cuts, Floats]:
        """The cuts, and the value of each pair on the chosen column."""
        assert isinstance(source, PointPairs)  # noqa: S101  (a search of pairs)
        assert isinstance(criterion, TwoClasses)  # noqa: S101  (and of two classes)
        cuts, counts = Cuts.none(frontier.n_nodes), criterion.counts(frontier)
        columns = projections.columns.reshape(frontier.n_nodes, projections.width)
        nodes = (frontier.starts, frontier.rows, frontier.weights, criterion.codes, columns)
        judged = (counts, criterion.costs[frontier.tree], limits.min_samples_leaf)
        cut_small(*nodes, *source.where, *source.what, self.few, *judged, *cuts)
        if self.bins is not None:
            own = (self.bins.low, self.bins.scale, self.bins.code, self.bins.edges)
            cut_large(*nodes, *source.where, *source.what, *own, self.few, *judged, *cuts)
        chosen = taken(projections, np.arange(frontier.n_nodes), cuts.candidate.clip(0))
        return cuts, source.project(frontier.rows, frontier.starts, chosen)[0]

    @property
    def few(self) -> int:
        """Pairs up to which a node is cut at any value."""
        return np.iinfo(np.int64).max if self.bins is None else FEW


@kernel
def cut_small(
    starts: Ints,
    rows: Rows,
    weights: Rows,
    codes: Codes,
    columns: Rows,
    points: Float32s,
    others: Float32s,
    left: Rows,
    right: Rows,
    family: int,
    n_features: int,
    n_of_family: int,
    begin: Ints,
    reduction: Rows,
    few: int,
    counts: Ints,
    costs: Floats,
    min_leaf: int,
    best: Rows,
    threshold: Floats,
    gains: Floats,
) -> None:
    """As `cut_two_classes`, of the nodes of at most ``few`` pairs, one candidate after another."""
    longest = 0
    for node in range(starts.shape[0] - 1):
        if starts[node + 1] - starts[node] <= few:
            longest = max(longest, starts[node + 1] - starts[node])
    own, order = np.empty(longest), np.empty(longest, np.int64)
    keys, spare = np.empty(longest, np.uint64), np.empty(longest, np.uint64)
    sides = np.empty(2, np.int64)
    for node in range(starts.shape[0] - 1):
        first, last = starts[node], starts[node + 1]
        size = last - first
        if size > few:
            continue
        for k in range(columns.shape[1]):
            for r in range(size):
                a, b = points[left[rows[first + r]]], others[right[rows[first + r]]]
                own[r] = pair_value(a, b, columns[node, k], family, n_features, n_of_family, begin, reduction)
            n = order_values(own[:size], order, keys, spare)
            scan_two_classes(
                *(node, k, own[:size], order[:n], rows[first:last], weights[first:last], codes),
                *(counts[node], costs[node], min_leaf, sides, best, threshold, gains),
            )


@kernel
def cut_large(
    starts: Ints,
    rows: Rows,
    weights: Rows,
    codes: Codes,
    columns: Rows,
    points: Float32s,
    others: Float32s,
    left: Rows,
    right: Rows,
    family: int,
    n_features: int,
    n_of_family: int,
    begin: Ints,
    reduction: Rows,
    low: Floats,
    scale: Floats,
    code: Codes,
    edges: Floats,
    few: int,
    counts: Ints,
    costs: Floats,
    min_leaf: int,
    best: Rows,
    threshold: Floats,
    gains: Floats,
) -> None:
    """filled[k, b, s] = weight of the pairs of class s with code b on candidate k; then cuts at the edges of bins."""
    n_bins = edges.shape[1]
    filled = np.empty((columns.shape[1], n_bins, 2), np.int32)
    sides = np.empty(2, np.int64)
    for node in range(starts.shape[0] - 1):
        first, last = starts[node], starts[node + 1]
        if last - first <= few:
            continue
        filled[:] = 0
        for r in range(first, last):
            a, b, s, w = points[left[rows[r]]], others[right[rows[r]]], codes[rows[r]], weights[r]
            for k in range(columns.shape[1]):
                c = columns[node, k]
                value = pair_value(a, b, c, family, n_features, n_of_family, begin, reduction)
                filled[k, code_of(value, low[c], scale[c], code[c]), s] += w
        for k in range(columns.shape[1]):
            walk_bins(
                *(node, k, filled[k], edges[columns[node, k]], counts[node], costs[node], min_leaf, sides),
                *(best, threshold, gains),
            )


@kernel
def walk_bins(
    node: int,
    candidate: int,
    filled: NDArray[np.int32],
    edges: Floats,
    counts: Ints,
    costs: Floats,
    min_leaf: int,
    left: Ints,
    best: Rows,
    threshold: Floats,
    gains: Floats,
) -> None:
    """`scan_two_classes` over bins; the cut between two bins is the edge in the middle of those between them."""
    left[:] = 0
    whole, before = whole_of(counts, costs), -1
    for b in range(filled.shape[0]):
        if filled[b, 0] == 0 and filled[b, 1] == 0:
            continue
        if before >= 0:
            gain = gain_of_counts(whole, left, counts, costs, min_leaf)
            if gain > gains[node]:
                edge = edges[(before + b - 1) // 2]
                keep_best(node, candidate, edge, edge, gain, best, threshold, gains)
        before = b
        left[0] += filled[b, 0]
        left[1] += filled[b, 1]
