"""Rows of given similarities by each measure, of which some evenly spaced ones are read."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from distforest.sources.arrays import ArraySource, release_pages

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from distforest.sources.source import Floats, Ints
    from distforest.sources.sparse import SparseSource

MOST_ENDS, MOST_READ, READ_AT_ONCE = 1024, 1 << 26, 1 << 20
"""At most so many evenly spaced rows are read, and so many values, so many of them together."""


class MeasuredRows(NamedTuple):
    """The rows of a source by one measure: columns ``first`` to ``last`` - 1."""

    source: ArraySource | SparseSource
    first: int
    last: int

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.source.shape[0], self.last - self.first

    def block(self, rows: Ints) -> Floats:
        """Some rows in float64, NaN where nothing is observed, shape (n, n_columns)."""
        if isinstance(self.source, ArraySource):
            return self.source.values[rows, self.first : self.last].astype(np.float64)
        values = np.full((len(rows), self.shape[1]), np.nan)
        for row, number in zip(values, rows.tolist(), strict=True):
            stored = slice(*self.source.indptr[number : number + 2].tolist())
            row[self.source.indices[stored]] = self.source.data[stored]
        return values

    def corner(self, rows: Ints, columns: Ints) -> Floats | None:
        """The values at ``rows`` x ``columns`` in float64; None of a sparse source, of which few are observed."""
        if not isinstance(self.source, ArraySource):
            return None
        values: Floats = self.source.values[np.ix_(rows, self.first + columns)].astype(np.float64)
        release_pages(self.source.values)
        return values

    def some_rows(self) -> Iterator[tuple[Ints, Floats]]:
        """Yield evenly spaced rows, some of them together: their numbers, and their values, to be changed at will."""
        n, n_columns = self.shape
        numbers = np.arange(0, n, -(-n // int(np.clip(MOST_READ // n_columns, 1, MOST_ENDS))))
        step = max(1, READ_AT_ONCE // n_columns)
        for some in np.split(numbers, range(step, len(numbers), step)):
            yield some, self.block(some)
        if isinstance(self.source, ArraySource):
            release_pages(self.source.values)


def measured_rows(source: ArraySource | SparseSource, n_objects: int) -> Sequence[MeasuredRows]:
    """The rows by each measure."""
    return [MeasuredRows(source, first, first + n_objects) for first in range(0, source.shape[1], n_objects)]
