"""Features of which those of numbers are in bins, beside those of categories as they are."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from distforest.sources.arrays import ArraySource, is_complete, release_pages
from distforest.sources.binned import BinnedSource, fill_codes, without

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from distforest.sources.source import Float32s, Floats, Int32s, Ints, Projections


class TableFiles(NamedTuple):
    """Where a table is written: the codes of bins, and the categories."""

    codes: Path
    categories: Path


@dataclass(frozen=True)
class CategoryColumns:
    """The columns of categories, read by their positions among all columns; other columns must not be read.

    Attributes
    ----------
    own
        These columns alone, or all columns.
    place
        The place of each column of categories in ``own``, shape (n_columns,); of no meaning for other columns.

    Examples
    --------
    >>> categories = ArraySource.from_values(np.array([[2.0], [0.0]], np.float32))
    >>> source = CategoryColumns(categories, np.array([0, 0, 0], np.int32))
    >>> source.entries(np.array([0], np.int32), np.array([2], np.int32))
    array([2.])
    """

    own: ArraySource
    place: Int32s

    @property
    def is_complete(self) -> bool:
        """Whether it is known that no category is missing."""
        return self.own.is_complete

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns, with the others."""
        return self.own.shape[0], len(self.place)

    def entries(self, rows: Int32s, columns: Int32s) -> Floats:
        """The categories at ``(rows[e], columns[e])``, shape (n_entries,)."""
        return self.own.entries(rows, self.place[columns])

    def block(self, rows: Int32s, columns: Int32s) -> Floats:
        """The categories at ``rows`` x ``columns``, shape (n_rows, n_columns)."""
        return self.own.block(rows, self.place[columns])

    def project(self, rows: Int32s, starts: Ints, projections: Projections) -> Floats:
        """The candidates' categories, shape (width, n_rows)."""
        return self.own.project(rows, starts, projections._replace(columns=self.place[projections.columns]))


def places_of(of_categories: NDArray[np.bool_]) -> Int32s:
    """The place of each column of categories among these, shape (n_columns,).

    Examples
    --------
    >>> places_of(np.array([True, False, True])).tolist()
    [0, 0, 1]
    """
    return np.maximum(np.cumsum(of_categories) - 1, 0).astype(np.int32)


@dataclass(frozen=True)
class BinnedTable:
    """Features of which those of numbers are binned; those of categories are read as they are, however many they have.

    Attributes
    ----------
    numbers
        The features in bins, where a feature of categories has a single one.
    features
        The features of categories, as they are.
    of_categories
        Which columns hold categories, shape (n_columns,).
    """

    numbers: BinnedSource
    features: CategoryColumns
    of_categories: NDArray[np.bool_]

    @classmethod
    def from_features(
        cls, features: Float32s, max_bins: int, of_categories: NDArray[np.bool_], weights: Int32s | None = None
    ) -> BinnedTable:
        """Bin the features of numbers as `BinnedSource.from_features` does."""
        numbers = np.where(of_categories, np.float32(0.0), features)
        binned = BinnedSource.from_features(numbers, max_bins, weights)
        place = np.arange(features.shape[1], dtype=np.int32)
        return cls(
            binned, CategoryColumns(ArraySource.from_values(features, is_complete(features)), place), of_categories
        )

    @classmethod
    def stored(
        cls,
        features: Float32s,
        max_bins: int,
        of_categories: NDArray[np.bool_],
        weights: Int32s | None,
        files: TableFiles,
        block_rows: int,
    ) -> BinnedTable:
        """`of`, with the codes and the categories in new files that are mapped, as `BinnedSource.stored` does."""
        numbers = BinnedSource.stored(features, max_bins, weights, files.codes, block_rows, of_categories)
        complete = True
        with files.categories.open("wb") as file:
            for begin in range(0, len(features), block_rows):
                block = np.ascontiguousarray(features[begin : begin + block_rows, of_categories])
                complete &= is_complete(block)
                file.write(block.data)
                release_pages(features)
        shape = len(features), int(of_categories.sum())
        categories = np.memmap(files.categories, np.float32, "r", shape=shape)
        own = CategoryColumns(ArraySource.from_values(categories, complete), places_of(of_categories))
        return cls(numbers, own, of_categories)

    @property
    def missing_code(self) -> int:
        """That of the numbers."""
        return self.numbers.missing_code

    def of_rows(self) -> tuple[NDArray[np.uint8], Float32s]:
        """The codes of the numbers, and the columns of categories."""
        return self.numbers.codes, self.categories

    def over(self, values: NDArray[np.uint8], categories: Float32s | None) -> BinnedTable:
        """The table of other rows, with the same bins: their codes, and the columns of categories alone."""
        if categories is None:
            raise TypeError("a table of categories is over categories, found None")
        own = CategoryColumns(
            ArraySource.from_values(categories, self.features.is_complete), places_of(self.of_categories)
        )
        return replace(self, numbers=self.numbers.over(values), features=own)

    @property
    def is_complete(self) -> bool:
        """Whether no value is missing."""
        return self.numbers.is_complete and bool(self.features.is_complete)

    @property
    def categories(self) -> Float32s:
        """The columns of categories, shape (n_rows, n); a table has them in one piece if it is `stored`."""
        values: Float32s = self.features.own.values
        return values if values.shape[1] < self.shape[1] else np.ascontiguousarray(values[:, self.of_categories])

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.numbers.shape

    def entries(self, rows: Int32s, columns: Int32s) -> Floats:
        """The categories, or the codes of bins, at ``(rows[e], columns[e])``, shape (n_entries,)."""
        bins, as_they_are = self.numbers.entries(rows, columns), self.features.entries(rows, columns)
        return np.where(self.of_categories[columns], as_they_are, bins)

    def block(self, rows: Int32s, columns: Int32s) -> Floats:
        """The same at ``rows`` x ``columns``, shape (n_rows, n_columns)."""
        bins, as_they_are = self.numbers.block(rows, columns), self.features.block(rows, columns)
        return np.where(self.of_categories[columns], as_they_are, bins)

    def project(self, rows: Int32s, starts: Ints, projections: Projections) -> Floats:
        """The candidates' categories, or codes of bins, shape (width, n_rows)."""
        which = self.of_categories[projections.columns].reshape(projections.n_nodes, projections.width).T
        if which.all():
            return self.features.project(rows, starts, projections)
        values = self.numbers.project(rows, starts, projections)
        if which.any():
            of_rows = np.repeat(which, np.diff(starts), axis=1)
            np.copyto(values, self.features.project(rows, starts, projections), where=of_rows)
        return values

    def thresholds(self, columns: Int32s, codes: Floats) -> Floats:
        """Thresholds on features for thresholds on codes; those of nodes that list categories stay what they are."""
        thresholds, binned = codes.copy(), ~self.of_categories[columns]
        thresholds[binned] = self.numbers.thresholds(columns[binned], codes[binned])
        return thresholds


@dataclass(frozen=True)
class Bins:
    """The bins of features whose rows lie elsewhere.

    Attributes
    ----------
    shape
        Rows and columns of all features.
    edges, first_edge
        As in `BinnedSource`.
    lacking
        The columns of which a row lacks the value.
    n_categories
        Number of categories of each column, 0 for a column of numbers; empty if all hold numbers.
    """

    shape: tuple[int, int]
    edges: Floats
    first_edge: Ints
    lacking: tuple[int, ...] = ()
    n_categories: tuple[int, ...] = ()

    @property
    def nbytes(self) -> int:
        """Size of the codes and categories of all rows."""
        return self.shape[0] * (self.shape[1] + 4 * sum(n > 0 for n in self.n_categories))

    @property
    def of_categories(self) -> NDArray[np.bool_] | None:
        """Which columns hold categories, shape (n_columns,); None if none does."""
        return np.array(self.n_categories) > 0 if any(self.n_categories) else None

    def source(self) -> BinnedSource | BinnedTable:
        """The source of no rows."""
        lacks, of_categories = np.zeros(self.shape[1], np.bool_), self.of_categories
        lacks[list(self.lacking)] = True
        nobody = np.empty((0, self.shape[1]), np.uint8)
        if of_categories is None:
            return BinnedSource(nobody, self.edges, self.first_edge, not self.lacking)
        numbers = BinnedSource(nobody, self.edges, self.first_edge, not lacks[~of_categories].any())
        none = ArraySource.from_values(np.empty((0, of_categories.sum()), np.float32), not lacks[of_categories].any())
        return BinnedTable(numbers, CategoryColumns(none, places_of(of_categories)), of_categories)

    def codes(self, features: Float32s) -> NDArray[np.uint8]:
        """The codes of some rows, shape (n_rows, n_columns)."""
        codes = np.empty(features.shape, np.uint8)
        fill_codes(without(features, self.of_categories), self.edges, self.first_edge, codes)
        return codes

    def categories(self, features: Float32s) -> Float32s | None:
        """The columns of categories of some rows, shape (n_rows, n); None if there are none."""
        return None if self.of_categories is None else features[:, self.of_categories]
