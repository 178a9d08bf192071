"""Draws of single columns of sparse features: columns that are constant in a node are skipped.

In a small node nearly all of a million columns are constant. The position of a column in the node's random order
determines whether a window of the order contains any other; only such windows are returned. Constant columns are never
cut, so the cuts are those of `distforest.growth.draws.column_draws.Axis`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from distforest.growth.rng import Keys, below
from distforest.jit import kernel, no_refcount
from distforest.sources.source import Int32s, Projections, offsets
from distforest.sources.sparse import Lines
from distforest.sources.sparse_features import SparseFeatures

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from distforest.forest.frontier import Frontier, Nodes
    from distforest.sources.source import Float32s, Ints

MANY = 16
"""Number of values of a node per column of a window, above which the first window surely has varying columns."""


@dataclass(frozen=True)
class VaryingColumns:
    """As `Axis`, without columns that are constant in their node or have too few non-zero values for a cut.

    Unless attempts are skipped, each attempt has as many candidates as one of `Axis`, including the last one:
    thresholds are drawn by the number of the attempt, its candidates, and the position among them.
    """

    source: SparseFeatures  # the features
    width: int  # columns of a window
    min_leaf: int  # least in-bag weight of either side of a cut
    # whether attempts without a column are skipped; none is if thresholds are drawn for each attempt
    skips: bool = True
    many: int = MANY  # values of a node per column of a window, from which its first window is returned unchanged

    @property
    def attempts(self) -> int:
        """The number of attempts in which a node tries every column."""
        return -(-self.source.shape[1] // self.width)

    def __call__(self, frontier: Frontier, keys: Keys, attempt: int) -> Projections:
        """Return the columns of one window of each node; a width of 0 if no node has any left."""
        n_columns = self.source.shape[1]
        columns = np.full((frontier.n_nodes, self.width), -1, np.int32)
        rules = Rules(n_columns, attempt, self.min_leaf, self.skips, self.many)
        has_more = draw_varying(self.source.by_row, frontier.nodes, keys, rules, columns)
        if not has_more:
            return Projections(0, np.zeros(1, np.int64), np.empty(0, np.int32), np.empty(0))
        width = self.width if self.skips else min(self.width, n_columns - attempt * self.width)
        drawn = columns[:, :width].reshape(-1)
        is_drawn = drawn >= 0
        kept = drawn[is_drawn]
        return Projections(width, offsets(is_drawn), kept, np.ones(len(kept)))


class Rules(NamedTuple):
    """The number of columns, the attempt, and the rules of `VaryingColumns`."""

    n_columns: int
    attempt: int
    min_leaf: int
    skips: bool
    many: int


class ColumnScan(NamedTuple):
    """Statistics of a node's rows in each column, shape (n_columns,) each; all 0 between nodes."""

    weight: Ints  # in-bag weight of the rows whose value is not 0
    first: Float32s  # one of these values
    differs: NDArray[np.bool_]  # whether there are two
    varies: NDArray[np.bool_]  # whether the column may be cut


@kernel
def draw_varying(by_row: Lines, nodes: Nodes, keys: Keys, rules: Rules, columns: Int32s) -> bool:
    """columns[f] = the window of the attempt in the order of `axis_columns`, -1 for columns that are skipped.

    Return whether any node has columns in this attempt or, if no attempt is skipped, in a later one.
    """
    (starts, rows, weights), n, width = nodes, rules.n_columns, columns.shape[1]
    seen = ColumnScan(np.zeros(n, np.int64), np.empty(n, np.float32), np.zeros(n, np.bool_), np.zeros(n, np.bool_))
    order, swapped, has_more = np.arange(n).astype(np.int32), np.empty(n, np.int32), False
    for f in range(keys.shape[0]):
        of_rows, of_weights = rows[starts[f] : starts[f + 1]], weights[starts[f] : starts[f + 1]]
        is_plain = has_more_values(by_row, of_rows, rules.many * width)
        if is_plain and rules.attempt == 0:
            n_drawn = shuffle_steps(keys[f], 0, min(width, n), order, swapped)
            for t in range(n_drawn):
                columns[f, t] = order[t]
            has_more = True
        else:
            n_varying = scan_columns(by_row, of_rows, of_weights, rules.min_leaf, seen)
            n_drawn, left = next_window(keys[f], rules, is_plain, n_varying, seen.varies, order, swapped, columns[f])
            has_more = has_more or left > 0
            for row in of_rows:
                for v in range(by_row.start[row], by_row.start[row + 1]):
                    seen.varies[by_row.number[v]] = False
        for t in range(n_drawn - 1, -1, -1):
            order[t], order[swapped[t]] = order[swapped[t]], order[t]
    return has_more


@no_refcount
def has_more_values(by_row: Lines, rows: Int32s, many: int) -> bool:
    """Return whether some rows have more than ``many`` values; in a large node only the first rows are read."""
    n_values = np.int64(0)
    for row in rows:
        n_values += by_row.start[row + 1] - by_row.start[row]
        if n_values > many:
            return True
    return False


@no_refcount
def shuffle_steps(key: np.uint64, first: int, last: int, order: Int32s, swapped: Int32s) -> int:
    """Take steps first to last - 1 of a Fisher-Yates shuffle; return ``last``."""
    for t in range(first, last):
        swapped[t] = t + below(key, t, order.shape[0] - t)
    for t in range(first, last):
        order[t], order[swapped[t]] = order[swapped[t]], order[t]
    return last


@no_refcount
def scan_columns(by_row: Lines, rows: Int32s, weights: Int32s, min_leaf: int, seen: ColumnScan) -> int:
    """Mark the columns that may be cut, and return their number.

    Zeros are all on one side of a cut, so on the other side there are at least ``min_leaf`` rows with other values.
    """
    whole, n_varying = np.int64(0), 0
    for i in range(rows.shape[0]):
        whole += weights[i]
        for v in range(by_row.start[rows[i]], by_row.start[rows[i] + 1]):
            column = by_row.number[v]
            if seen.weight[column] == 0:
                seen.first[column] = by_row.value[v]
            seen.differs[column] |= seen.first[column] != by_row.value[v]
            seen.weight[column] += weights[i]
    for i in range(rows.shape[0]):
        for v in range(by_row.start[rows[i]], by_row.start[rows[i] + 1]):
            column = by_row.number[v]
            if seen.weight[column] == 0:
                continue
            if seen.weight[column] >= min_leaf and (seen.weight[column] < whole or seen.differs[column]):
                seen.varies[column] = True
                n_varying += 1
            seen.weight[column], seen.differs[column] = 0, False
    return n_varying


@no_refcount
def next_window(
    key: np.uint64,
    rules: Rules,
    is_plain: bool,
    n_varying: int,
    varies: NDArray[np.bool_],
    order: Int32s,
    swapped: Int32s,
    columns: Int32s,
) -> tuple[int, int]:
    """Fill the varying columns of the attempt's window; return the steps taken, and the varying columns from there on.

    If attempts are skipped, the window is the one after ``attempt`` windows with varying columns. The first
    window of a node that is plain counts as one of them.
    """
    width, n_windows, n_left, t = columns.shape[0], 0, n_varying, 0
    while n_left > 0 and t < order.shape[0]:
        first, last = t, min(t + width, order.shape[0])
        t = shuffle_steps(key, first, last, order, swapped)
        n_inside = 0
        for place in range(first, last):
            n_inside += 1 if varies[order[place]] else 0
        if n_windows == rules.attempt and (n_inside > 0 or not rules.skips):
            for place in range(first, last):
                if varies[order[place]]:
                    columns[place - first] = order[place]
            return t, n_left
        n_left -= n_inside
        n_windows += 1 if n_inside > 0 or not rules.skips or (is_plain and first == 0) else 0
    return t, 0
