"""Sums over the categories of a column, and the few rows to which they merge all rows of a node.

::

    rows of a node     category, class, weight      merged rows, as categories come
    [ b 0 1 ] [ a 1 2 ] [ b 0 3 ] [ a 1 1 ]   ->    [ b 0 4 ] [ a 1 3 ]

A weight is so many equal rows, so rows of one category and one class are one row of their whole weight. Rows with
vectors are two: one of weight 1 with the sum of all vectors, and one of all other weight with zeros. What orders and
cuts categories reads merged rows as it reads any others, and the cuts are the same bits, since every sum is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol, Self

import numpy as np

from distforest.growth.cuts.criteria import Gini, Variance
from distforest.jit import kernel

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from distforest.sources.source import Float32s, Floats, Int32s, Ints

ABSENT = -1
"""The place of the first row of a category that no row has."""


class MergedRows(NamedTuple):
    """Rows that stand for all rows of a node where one column of categories is judged.

    Attributes
    ----------
    values
        The category of each row, NaN if it is missing, shape (n,). Categories come as their first rows in the node do.
    truth
        Class of each row, shape (n,), int32; or its vector in fixed point, shape (n, n_dimensions), int64.
    weights
        Weight of each row, shape (n,), int32.
    """

    values: Floats
    truth: Int32s | Ints
    weights: Int32s


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
        categories = _in_order(self.first)
        place, of_class = np.nonzero(self.sums[categories])
        own = categories[place]
        return MergedRows(_values_of(own, self.first), of_class.astype(np.int32), self.sums[own, of_class])


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
        categories = _in_order(self.first)
        own = np.repeat(categories, 2)
        vectors, weights = self.sums[own], np.ones(len(own), np.int32)
        vectors[1::2] = 0
        weights[1::2] = self.weights[categories] - 1
        return MergedRows(_values_of(own, self.first), vectors, weights)


def no_category_sums(criterion: Gini | Variance, n_categories: int) -> CategorySums:
    """The sums of no rows over a column of so many categories, of the kind that a criterion judges."""
    if isinstance(criterion, Gini):
        return ClassesOfCategories.zeros(n_categories, criterion.n_classes)
    return VectorsOfCategories.zeros(n_categories, criterion.fixed.shape[1])


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


def _values_of(categories: Ints, first: Ints) -> Floats:
    """Categories as values, NaN for missing ones."""
    values = categories.astype(np.float64)
    values[categories == len(first) - 1] = np.nan
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
