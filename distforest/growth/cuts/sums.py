"""Cuts from sums that a pass over the rows of a node adds up, block by block.

::

    block of rows  ->  sums[candidate, class, code] += weight          exact, so blocks of any size add up to the same
    all blocks     ->  the candidate, the threshold, the gain          by the gains of the searches that read rows

The sums are the bins of `distforest.growth.cuts.histograms`, and the scan is the same, so the cuts are the same bits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Self

import numpy as np

from distforest.growth.cuts.histograms import N_CODES, Codes, add_codes, order_bins
from distforest.growth.cuts.scan import (
    ALL_ROWS,
    Cuts,
    bins_for,
    groups_for,
    rows_as_groups,
    scan_keys,
    tallies_for,
    tally_up,
)
from distforest.jit import kernel
from distforest.sources.source import Float32s, Int32s, Ints

if TYPE_CHECKING:
    from collections.abc import Sequence

    from distforest.growth.cuts.criteria import Tallied
    from distforest.growth.cuts.scan import Impurity, SummedGroups

_SIDE_BY_SIDE = 1024
"""Number of rows that are read at once."""


class RowBlock(NamedTuple):
    """Some rows of a node.

    Attributes
    ----------
    values
        Code of each column, shape (n_rows, n_columns), uint8; or its value, float32, if no sums are added up.
    truth
        Class of each row, shape (n_rows,), int32; or its vector in fixed point, shape (n_rows, n_dimensions), int64;
        no columns without a ground truth.
    weights
        Multiplicity of each row, shape (n_rows,), int32.
    categories
        If numbers are in bins, the category of each column of categories, NaN if it is missing, float32, shape
        (n_rows, n); None if there are none, or if ``values`` has them.
    numbers
        The number of each row among all rows, shape (n_rows,), int32; None if it is not needed.
    """

    values: np.ndarray
    truth: Int32s | Ints
    weights: Int32s
    categories: Float32s | None = None
    numbers: Int32s | None = None

    @classmethod
    def joined(cls, blocks: Sequence[RowBlock]) -> RowBlock:
        """Return the rows of some blocks, one block after another, without their numbers."""
        values, truth, weights = (
            np.concatenate([one for one in each if one is not None]) for each in list(zip(*blocks, strict=True))[:3]
        )
        categories = [block.categories for block in blocks if block.categories is not None]
        return cls(values, truth, weights, np.concatenate(categories) if categories else None)

    def of_rows(self, rows: Int32s | Ints) -> RowBlock:
        """Return some of the rows, by their numbers within the block."""
        return RowBlock._make(None if of_each is None else of_each.take(rows, axis=0) for of_each in self)

    def slice(self, first: int, end: int) -> RowBlock:
        """Return the rows from number ``first`` to before ``end``, without copying them."""
        return RowBlock._make(None if of_each is None else of_each[first:end] for of_each in self)


@dataclass(frozen=True)
class NodeSums:
    """The sums of one node over the rows that were added so far: a group for each code of each candidate.

    Attributes
    ----------
    impurity
        The impurity that scores cuts.
    bins
        The groups, candidate after candidate, `N_CODES` of each.
    """

    impurity: Impurity
    bins: SummedGroups

    @classmethod
    def zeros(cls, criterion: Tallied, n_candidates: int) -> Self:
        """Return the sums of no rows."""
        impurity = criterion.impurity
        return cls(impurity, bins_for(impurity, n_candidates * N_CODES))

    def add(self, block: RowBlock, columns: Int32s, rows: Int32s | None = None) -> None:
        """Add rows; candidate k reads column columns[k].

        With ``rows``, only these rows of the block are added, and its weights are for them, shape (len(rows),).
        """
        rows = np.arange(len(block.weights), dtype=np.int32) if rows is None else rows
        add_block(block.values, block.truth, rows, block.weights, columns, self.impurity, self.bins)

    def joined(self, other: Self) -> Self:
        """Return the sums of these rows and of those of ``other``."""
        return type(self)(self.impurity, joined_groups(self.bins, other.bins))

    def cut(self, min_leaf: int, missing: int) -> Cuts:
        """Return the best cut, of one node; ``missing`` is the code of missing values."""
        cuts = Cuts.none(1)
        cut_code_sums(self.bins, self.impurity, min_leaf, missing, cuts)
        return cuts

    def filled(self, candidate: int) -> Ints:
        """Return the weight of the rows of each code of a candidate, shape (N_CODES,)."""
        return self.bins.weights[candidate * N_CODES : (candidate + 1) * N_CODES]


def joined_groups(one: SummedGroups, other: SummedGroups) -> SummedGroups:
    """Join the groups of two sets of rows."""
    return one._replace(weights=one.weights + other.weights, sums=one.sums + other.sums)


@kernel
def add_block(
    codes: Codes,
    truth: Int32s | Ints,
    rows: Int32s,
    weights: Int32s,
    columns: Int32s,
    impurity: Impurity,
    bins: SummedGroups,
) -> None:
    """Add some rows of a block to the bins of their codes."""
    groups = groups_for(impurity, _SIDE_BY_SIDE)
    for first in range(0, rows.shape[0], _SIDE_BY_SIDE):
        some = rows[first : first + _SIDE_BY_SIDE]
        rows_as_groups(impurity, some, weights[first : first + _SIDE_BY_SIDE], truth, groups)
        add_codes(codes, some, columns, groups, bins)


@kernel
def cut_code_sums(bins: SummedGroups, impurity: Impurity, min_leaf: int, missing: int, cuts: Cuts) -> None:
    """As `cut_codes` for one node, from its bins; all candidates have the same rows."""
    order, tallies = np.empty(N_CODES, np.int64), tallies_for(impurity.n_sums)
    code_of_bin = np.empty(bins.weights.shape[0])
    for place in range(bins.weights.shape[0]):
        code_of_bin[place] = np.float64(place % N_CODES)
    for k in range(bins.weights.shape[0] // N_CODES):
        n, size = order_bins(bins, k * N_CODES, missing, order)
        tally_up(bins, order[:size], ALL_ROWS, tallies)
        scan_keys(0, k, code_of_bin, order[:size], n, bins, impurity, tallies, (min_leaf, True), cuts)
