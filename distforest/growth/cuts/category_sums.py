"""Sums over the categories of a column, wherever rows lie; rows merge by them (`distforest.growth.cuts.merged_rows`).

Merged rows come as the first rows of their categories do.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, Self

import numpy as np

from distforest.growth.cuts.criteria import Gini, Tallied
from distforest.growth.cuts.merged_rows import MergedRows, lay_classes, lay_vectors, merged_room
from distforest.jit import kernel

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from distforest.sources.source import Float32s, Floats, Int32s, Ints

ABSENT = -1
"""The place of the first row of a category that no row has."""


class CategorySums(Protocol):
    """The sums of a node over one column of categories; the last place is that of missing values."""

    def add(self, categories: Float32s, truth: Int32s | Ints, rows: Int32s, weights: Int32s) -> None:
        """Add the rows numbered ``rows``, whose weights are given, after all that are there."""

    def joined(self, after: Self) -> Self:
        """The sums of these rows and of those of ``after``, which come after them."""

    @property
    def filled(self) -> Ints:
        """Weight of the rows of each category, shape (n_categories + 1,)."""

    def merged(self) -> MergedRows:
        """The rows that stand for all rows."""


@dataclass(frozen=True)
class ClassesOfCategories:
    """Weight of each class in each category.

    Attributes
    ----------
    first
        Place of the first row of each category in the node, `ABSENT` if none has it, shape (n_categories + 1,).
    n_rows
        Number of rows that were added, shape (1,).
    sums
        The weights, shape (n_categories + 1, n_classes).
    """

    first: Ints
    n_rows: Ints
    sums: Int32s

    @classmethod
    def zeros(cls, n_categories: int, n_classes: int) -> Self:
        """The sums of no rows."""
        return cls(*_no_places(n_categories), np.zeros((n_categories + 1, n_classes), np.int32))

    def add(self, categories: Float32s, truth: Int32s | Ints, rows: Int32s, weights: Int32s) -> None:
        """Add labelled rows."""
        add_labels_of_categories(categories, truth, rows, weights, self.n_rows, self.first, self.sums)

    def joined(self, after: Self) -> Self:
        """The sums of both."""
        return type(self)(*_joined_places(self, after), self.sums + after.sums)

    @property
    def filled(self) -> Ints:
        """Weight of the rows of each category."""
        return np.asarray(self.sums.sum(axis=1, dtype=np.int64))

    def merged(self) -> MergedRows:
        """A row for each category and class."""
        laid = merged_room(int(np.count_nonzero(self.sums)))
        lay_classes(_in_order(self.first), _values(self.first), self.sums, 0, laid)
        return MergedRows(laid.values, laid.numbers, laid.weights)


@dataclass(frozen=True)
class VectorsOfCategories:
    """Weight of each category, and the weighted sum of its vectors; ``first`` and ``n_rows`` as of classes.

    Attributes
    ----------
    weights, sums
        Weights and sums, shapes (n_categories + 1,) and (n_categories + 1, n_dimensions).
    """

    first: Ints
    n_rows: Ints
    weights: Ints
    sums: Ints

    @classmethod
    def zeros(cls, n_categories: int, n_dimensions: int) -> Self:
        """The sums of no rows."""
        n = n_categories + 1
        return cls(*_no_places(n_categories), np.zeros(n, np.int64), np.zeros((n, n_dimensions), np.int64))

    def add(self, categories: Float32s, truth: Int32s | Ints, rows: Int32s, weights: Int32s) -> None:
        """Add rows with vectors."""
        add_vectors_of_categories(categories, truth, rows, weights, self.n_rows, self.first, self.weights, self.sums)

    def joined(self, after: Self) -> Self:
        """The sums of both."""
        return type(self)(*_joined_places(self, after), self.weights + after.weights, self.sums + after.sums)

    @property
    def filled(self) -> Ints:
        """Weight of the rows of each category."""
        return self.weights

    def merged(self) -> MergedRows:
        """Two rows for each category, which together have its weight and its sum."""
        categories, zero = _in_order(self.first), len(self.sums)
        laid = merged_room(2 * len(categories))
        lay_vectors(categories, _values(self.first), self.weights, zero, laid)
        vectors = np.zeros((len(laid.numbers), self.sums.shape[1]), np.int64)
        is_sum = laid.numbers != zero
        vectors[is_sum] = self.sums[laid.numbers[is_sum]]
        return MergedRows(laid.values, vectors, laid.weights)


def no_category_sums(criterion: Tallied, n_categories: int) -> CategorySums:
    """The sums of no rows over a column of so many categories, of the kind that a criterion judges."""
    if isinstance(criterion, Gini):
        return ClassesOfCategories.zeros(n_categories, criterion.n_classes)
    return VectorsOfCategories.zeros(n_categories, criterion.n_dimensions)


def _no_places(n_categories: int) -> tuple[Ints, Ints]:
    return np.full(n_categories + 1, ABSENT, np.int64), np.zeros(1, np.int64)


def _joined_places(
    own: ClassesOfCategories | VectorsOfCategories, after: ClassesOfCategories | VectorsOfCategories
) -> tuple[Ints, Ints]:
    """``first`` and ``n_rows`` of rows and of those that come after them."""
    later = np.where(after.first == ABSENT, ABSENT, after.first + own.n_rows)
    return np.where(own.first == ABSENT, later, own.first), own.n_rows + after.n_rows


def _in_order(first: Ints) -> Ints:
    """The categories that rows have, as their first rows come."""
    there = np.flatnonzero(first != ABSENT)
    return np.asarray(there[np.argsort(first[there])])


def _values(first: Ints) -> Floats:
    """The value of each category, NaN for missing ones, shape (n_categories + 1,)."""
    values = np.arange(len(first), dtype=np.float64)
    values[-1] = np.nan
    return values


@kernel
def add_labels_of_categories(
    categories: Float32s,
    labels: Int32s,
    rows: Int32s,
    weights: Int32s,
    n_before: Ints,
    first: Ints,
    sums: NDArray[np.int32],
) -> None:
    """sums[c, l] += weights[r] over the rows[r] of category c and class l; ``n_before`` goes up by their number."""
    places, missing = rows.view(np.uint32), first.shape[0] - 1  # see `distforest.jit`
    for r in range(places.shape[0]):
        value = categories[places[r]]
        c = np.int64(value) if value == value else np.int64(missing)
        sums[c, labels[places[r]]] += weights[r]
        if first[c] < 0:
            first[c] = n_before[0] + r
    n_before[0] += places.shape[0]


@kernel
def add_vectors_of_categories(
    categories: Float32s,
    fixed: Ints,
    rows: Int32s,
    weights: Int32s,
    n_before: Ints,
    first: Ints,
    filled: Ints,
    sums: Ints,
) -> None:
    """filled[c] += w_r and sums[c, q] += w_r fixed[rows[r], q] over the rows of category c; ``n_before`` as above."""
    places, missing = rows.view(np.uint32), first.shape[0] - 1  # see `distforest.jit`
    for r in range(places.shape[0]):
        value = categories[places[r]]
        c = np.int64(value) if value == value else np.int64(missing)
        filled[c] += weights[r]
        for q in range(fixed.shape[1]):
            sums[c, q] += weights[r] * fixed[places[r], q]
        if first[c] < 0:
            first[c] = n_before[0] + r
    n_before[0] += places.shape[0]
