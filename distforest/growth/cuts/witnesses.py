"""Witnesses: features that confirm a split if its sides differ in them, too, and are drawn independently of the cut.

A projection of noise may fall into two clusters by chance, but then its sides do not differ in other features.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from distforest.forest.frontier import Nodes, longest_of
from distforest.growth.cuts.companions import BLUR, CategoryNumbers, derive_keys, number_at
from distforest.growth.cuts.fences import MARGIN, fences_of
from distforest.growth.cuts.two_means import CandidateCuts
from distforest.growth.draws.column_draws import ColumnWeights, draw_columns
from distforest.growth.rng import Keys
from distforest.jit import kernel, no_refcount
from distforest.sources.source import Float32s, Floats, Int32s

if TYPE_CHECKING:
    from distforest.forest.frontier import Frontier
    from distforest.sources.mapped_rows import MappedRows

FIRST_SIGN = 1 << 38
"""Offset that is added, with the attempt, to a node's stream, to get the stream that draws the signs of categories."""

FIRST_WITNESS = 1 << 34
"""First draw of a node's stream that chooses a witness."""

LEAST_DEVIATION = 1e-12
"""Least share of a witness's squared deviations that counts as left within the sides."""


@dataclass(frozen=True)
class Witnesses:
    """Some features for each node, drawn by their weights."""

    matrix: Float32s  # the features, shape (n_rows, n_columns)
    weights: ColumnWeights  # how likely each column is to be drawn
    n_witnesses: int  # number of witnesses of a node in each attempt
    columns: Int32s | None = None  # the witnesses that are drawn, shape (n_nodes, n_witnesses); None before an attempt
    numbers: CategoryNumbers | None = None  # the numbers of categories; None if no column contains any
    keys: Keys | None = None  # the streams that draw signs of categories, shape (n_nodes,); None before an attempt
    # reader of drawn columns, if ``matrix`` is a map with only a block resident
    stored: MappedRows | None = None

    def attempted(self, keys: Keys, attempt: int) -> Witnesses:
        """Return the witnesses with the columns that the nodes with these streams draw in one attempt."""
        columns = np.empty((len(keys), self.n_witnesses), np.int32)
        draw_columns(keys, FIRST_WITNESS + attempt * self.n_witnesses, self.weights.cumulative, columns)
        of_signs = np.empty(len(keys), np.uint64)
        derive_keys(keys, FIRST_SIGN + attempt, of_signs)
        return replace(self, columns=columns, keys=of_signs)

    def confirm(self, frontier: Frontier, values: Floats, cuts: CandidateCuts) -> None:
        """Add to each candidate's score the mean share of the witnesses that its cut explains.

        ``values`` has shape (width, n_rows).
        """
        assert self.columns is not None  # noqa: S101  (the grower calls `attempted` first)
        numbers, keys = self.numbers, self.keys
        if numbers is None or keys is None:
            numbers, keys = CategoryNumbers.none(self.matrix.shape[1]), np.zeros(frontier.n_nodes, np.uint64)
        nodes, matrix, columns = frontier.nodes, self.matrix, self.columns
        if self.stored is not None:
            own, places = np.unique(columns, return_inverse=True)
            matrix, columns = self.stored.columns_of(nodes.rows, own), places.astype(np.int32).reshape(columns.shape)
            nodes = nodes._replace(rows=np.arange(len(nodes.rows), dtype=np.int32))
        add_explained(nodes, values, matrix, columns, keys, numbers, cuts)


@kernel
def add_explained(
    nodes: Nodes,
    values: Floats,
    matrix: Float32s,
    columns: Int32s,
    keys: Keys,
    numbers: CategoryNumbers,
    cuts: CandidateCuts,
) -> None:
    """scores[k, f] += mean over the witnesses x of n log(SS_0 / (SS_1 + SS_2)), the sides those of candidate k's cut.

    A witness that is a column of categories is read as signs, with n_k `BLUR` added to SS_k. A witness adds 0 if it is
    constant in the node, or if only one side has values within its fences. Values beyond the fences, and missing ones,
    are omitted. Candidates without a cut (score -inf) stay unchanged.
    """
    (starts, rows, weights), (thresholds, scores) = nodes, cuts
    longest = longest_of(starts)
    witness, some = np.empty(longest), np.empty(longest)
    for node in range(starts.shape[0] - 1):
        first, last = starts[node], starts[node + 1]
        w = weights[first:last]
        for e in range(columns.shape[1]):
            column = columns[node, e]
            blur = BLUR if numbers.start[column + 1] > numbers.start[column] else 0.0
            for r in range(first, last):
                value = np.float64(matrix[rows[r], column])
                witness[r - first] = number_at(value, column, keys[node] + np.uint64(e), numbers)
            mean = fence_in(witness[: last - first], w, some)
            for k in range(values.shape[0]):
                if scores[k, node] > -np.inf:
                    explained = _explained(witness, w, mean, values[k, first:last], thresholds[k, node], blur)
                    scores[k, node] += explained / columns.shape[1]


@kernel
def fence_in(witness: Floats, weights: Int32s, some: Floats) -> float:
    """Replace the values of a witness beyond its fences by NaN; return the mean of the others, or NaN."""
    _, _, lower, upper, _ = fences_of(witness, MARGIN, some)
    n, total = np.int64(0), 0.0
    for r in range(witness.shape[0]):
        if witness[r] < lower or witness[r] > upper:
            witness[r] = np.nan
        elif not np.isnan(witness[r]):
            n += weights[r]
            total += weights[r] * witness[r]
    return total / n if n else np.nan


@no_refcount
def _explained(witness: Floats, weights: Int32s, mean: float, values: Floats, threshold: float, blur: float) -> float:
    """N log(SS_0 / max(SS_1 + SS_2, floor)) of a witness, over the rows in which it and the value are not NaN.

    n ``blur`` is added to both.
    """
    n_left, n_right = np.int64(0), np.int64(0)
    sum_left, sum_right, square = 0.0, 0.0, 0.0
    low, high = np.inf, -np.inf
    for r in range(values.shape[0]):
        if np.isnan(values[r]) or np.isnan(witness[r]):
            continue
        low, high = min(low, witness[r]), max(high, witness[r])
        x = witness[r] - mean
        square += weights[r] * x * x
        if values[r] <= threshold:
            n_left += weights[r]
            sum_left += weights[r] * x
        else:
            n_right += weights[r]
            sum_right += weights[r] * x
    if n_left == 0 or n_right == 0:
        return 0.0
    n = n_left + n_right
    square -= (sum_left + sum_right) ** 2 / n
    if not (low < high and square > 0.0):  # rounding: equal values may differ from the mean of more rows
        return 0.0
    between = sum_left**2 / n_left + sum_right**2 / n_right - (sum_left + sum_right) ** 2 / n
    return -n * math.log(max(1.0 - between / (square + n * blur), LEAST_DEVIATION))
