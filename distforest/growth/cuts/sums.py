"""Cuts from sums: what a pass over the rows of a node adds up, block by block, and the cuts that follow from it.

::

    block of rows  ->  sums[candidate, class, code] += weight          exact, so blocks of any size add up to the same
    all blocks     ->  the candidate, the threshold, the gain          by the gains of the searches that read rows

The sums are those of `distforest.growth.cuts.class_histograms` and `distforest.growth.cuts.histograms`, and are judged
by their functions, so the cuts are the same bits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from distforest.forest.frontier import LEFT, RIGHT, STAY
from distforest.growth.cuts.class_histograms import CutPlaces, LabelledNode, holds, judge_places, lay_bins
from distforest.growth.cuts.criteria import Cuts, Gini, Variance
from distforest.growth.cuts.histograms import N_CODES, NO_CODE, Codes, walk_variance
from distforest.jit import kernel
from distforest.sources.source import Float32s, Int32s, Ints

if TYPE_CHECKING:
    from collections.abc import Sequence

_SIDE_BY_SIDE = 128
"""Rows that are added candidate by candidate, while their lines are in the processor's cache."""


class RowBlock(NamedTuple):
    """Some rows of a node.

    Attributes
    ----------
    values
        Code of each column, shape (n_rows, n_columns), uint8; or its value, float32, where no sums are added up.
    truth
        Class of each row, shape (n_rows,), int32; or its vector in fixed point, shape (n_rows, n_dimensions), int64;
        no columns without a ground truth.
    weights
        Multiplicity of each row, shape (n_rows,), int32.
    categories
        Where numbers are in bins, the category of each column of categories, NaN if it is missing, float32, shape
        (n_rows, n); None where there are none, or ``values`` has them.
    numbers
        The number of each row among all rows, shape (n_rows,), int32; None where nobody asks for it.
    """

    values: np.ndarray
    truth: Int32s | Ints
    weights: Int32s
    categories: Float32s | None = None
    numbers: Int32s | None = None

    @classmethod
    def joined(cls, blocks: Sequence[RowBlock]) -> RowBlock:
        """The rows of some blocks, one block after another, without their numbers."""
        values, truth, weights = (
            np.concatenate([one for one in each if one is not None]) for each in list(zip(*blocks, strict=True))[:3]
        )
        categories = [block.categories for block in blocks if block.categories is not None]
        return cls(values, truth, weights, np.concatenate(categories) if categories else None)

    def of_rows(self, rows: Int32s | Ints) -> RowBlock:
        """Some of the rows, by their numbers within the block."""
        return RowBlock._make(None if of_each is None else of_each.take(rows, axis=0) for of_each in self)

    def slice(self, first: int, end: int) -> RowBlock:
        """The rows from number ``first`` to before ``end``, which are not copied."""
        return RowBlock._make(None if of_each is None else of_each[first:end] for of_each in self)


class NodeSums(Protocol):
    """The sums of one node over the rows that were added so far."""

    def add(self, block: RowBlock, columns: Int32s, rows: Int32s | None = None) -> None:
        """Add rows; candidate k reads column columns[k].

        With ``rows``, only these rows of the block are added, and its weights are theirs, shape (len(rows),).
        """

    def joined(self, other: Self) -> Self:
        """The sums of these rows and of those of ``other``."""

    def cut(self, min_leaf: int, missing: int) -> Cuts:
        """The best cut, of one node; ``missing`` is the code of missing values."""

    def filled(self, candidate: int) -> Ints:
        """Weight of the rows of each code of a candidate, shape (N_CODES,)."""


@dataclass(frozen=True)
class ClassSums:
    """Weight of each class at each code of each candidate, shape (n_candidates, n_classes, N_CODES)."""

    sums: Int32s

    @classmethod
    def zeros(cls, n_candidates: int, n_classes: int) -> Self:
        """The sums of no rows."""
        return cls(np.zeros((n_candidates, n_classes, N_CODES), np.int32))

    def add(self, block: RowBlock, columns: Int32s, rows: Int32s | None = None) -> None:
        """Add labelled rows."""
        add_labels(block.values, block.truth, _or_all(rows, block), block.weights, columns, self.sums)

    def joined(self, other: Self) -> Self:
        """The sums of both."""
        return type(self)(self.sums + other.sums)

    def cut(self, min_leaf: int, missing: int) -> Cuts:
        """The best cut by Gini impurity."""
        cuts = Cuts.none(1)
        cut_class_sums(self.sums, min_leaf, missing, cuts)
        return cuts

    def filled(self, candidate: int) -> Ints:
        """Weight of the rows of each code."""
        return np.asarray(self.sums[candidate].sum(axis=0, dtype=np.int64))


@dataclass(frozen=True)
class VectorSums:
    """Weight at each code of each candidate, and the weighted sum of the vectors, which has a further dimension."""

    weights: Ints
    sums: Ints

    @classmethod
    def zeros(cls, n_candidates: int, n_dimensions: int) -> Self:
        """The sums of no rows."""
        return cls(
            np.zeros((n_candidates, N_CODES), np.int64), np.zeros((n_candidates, N_CODES, n_dimensions), np.int64)
        )

    def add(self, block: RowBlock, columns: Int32s, rows: Int32s | None = None) -> None:
        """Add rows with vectors."""
        numbers = _or_all(rows, block)
        add_vectors(block.values, block.truth, numbers, block.weights, columns, self.weights, self.sums)

    def joined(self, other: Self) -> Self:
        """The sums of both."""
        return type(self)(self.weights + other.weights, self.sums + other.sums)

    def cut(self, min_leaf: int, missing: int) -> Cuts:
        """The best cut by variance."""
        cuts = Cuts.none(1)
        cut_vector_sums(self.weights, self.sums, min_leaf, missing, cuts)
        return cuts

    def filled(self, candidate: int) -> Ints:
        """Weight of the rows of each code."""
        return self.weights[candidate]


def no_sums(criterion: Gini | Variance, n_candidates: int) -> NodeSums:
    """The sums of no rows, of the kind that a criterion judges."""
    if isinstance(criterion, Gini):
        return ClassSums.zeros(n_candidates, criterion.n_classes)
    return VectorSums.zeros(n_candidates, criterion.fixed.shape[1])


def _or_all(rows: Int32s | None, block: RowBlock) -> Int32s:
    return np.arange(len(block.weights), dtype=np.int32) if rows is None else rows


@kernel
def add_labels(
    codes: Codes, labels: Int32s, rows: Int32s, weights: Int32s, columns: Int32s, sums: NDArray[np.int32]
) -> None:
    """sums[k, c, b] += weights[r] over the rows[r] of class c whose code of column columns[k] is b."""
    places = rows.view(np.uint32)  # see `distforest.jit`
    for first in range(0, places.shape[0], _SIDE_BY_SIDE):
        last = min(first + _SIDE_BY_SIDE, places.shape[0])
        for k in range(columns.shape[0]):
            column, of_candidate = columns[k], sums[k]
            for r in range(first, last):
                of_candidate[labels[places[r]], codes[places[r], column]] += weights[r]


@kernel
def add_vectors(
    codes: Codes, fixed: Ints, rows: Int32s, weights: Int32s, columns: Int32s, filled: Ints, sums: Ints
) -> None:
    """filled[k, b] += w_r and sums[k, b, q] += w_r fixed[rows[r], q] over the rows whose code of column k is b."""
    places = rows.view(np.uint32)  # see `distforest.jit`
    for first in range(0, places.shape[0], _SIDE_BY_SIDE):
        last = min(first + _SIDE_BY_SIDE, places.shape[0])
        for k in range(columns.shape[0]):
            column = columns[k]
            for r in range(first, last):
                b = codes[places[r], column]
                filled[k, b] += weights[r]
                for q in range(fixed.shape[1]):
                    sums[k, b, q] += weights[r] * fixed[places[r], q]


@kernel
def cut_class_sums(sums: NDArray[np.int32], min_leaf: int, missing: int, cuts: Cuts) -> None:
    """`cut_codes_gini` for one node, from sums[k, c, b]: weight of class c at code b of candidate k."""
    n_classes, nobody = sums.shape[1], np.empty(0, np.int32)
    totals, left = np.zeros(n_classes, np.int32), np.zeros(n_classes, np.int64)
    weight, squares = np.int64(0), np.int64(0)
    for c in range(n_classes):
        for b in range(N_CODES):
            totals[c] += sums[0, c, b]
        weight += totals[c]
        squares += np.int64(totals[c]) * np.int64(totals[c])
    of_node = LabelledNode(nobody, nobody, totals, left, weight, squares)
    sums_left, keys = np.empty((4, N_CODES), np.int64), np.empty(N_CODES, np.uint32)
    places = CutPlaces(sums_left[0], sums_left[1], sums_left[2], sums_left[3], np.empty(N_CODES))
    for k in range(sums.shape[0]):
        lacks = missing != NO_CODE and holds(sums[k], missing)
        for side in (RIGHT if lacks else STAY, LEFT):
            n_places = lay_bins(sums[k], side, of_node, keys, places)
            judge_places(0, k, n_places, places, side, of_node, min_leaf, cuts)
            if not lacks:
                break


@kernel
def cut_vector_sums(filled: Ints, sums: Ints, min_leaf: int, missing: int, cuts: Cuts) -> None:
    """`cut_codes_variance` for one node, from the weight filled[k, b] and the vectors' sums[k, b] of candidate k."""
    sides = np.empty((2, sums.shape[2]), np.int64)
    for k in range(filled.shape[0]):
        if missing == NO_CODE or filled[k, missing] == 0:
            walk_variance(0, k, filled[k], sums[k], STAY, min_leaf, sides, cuts)
            continue
        for side in (RIGHT, LEFT):
            walk_variance(0, k, filled[k], sums[k], side, min_leaf, sides, cuts)
