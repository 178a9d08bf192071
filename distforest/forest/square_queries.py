"""As many queries as training objects, given transposed: a square block says nothing of which side is which.

Row k of queries holds the similarities of query k to all training objects, so column j belongs to training object j. An
object in the midst of all others is similar to most, whoever is compared with it. So the means of the columns of right
queries are in the order in which they were in training; of transposed ones the means of the rows are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from distforest.forest.measured_rows import measured_rows
from distforest.sources.arrays import ArraySource
from distforest.sources.rank_correlation import rank_correlation
from distforest.sources.sparse import SparseSource

if TYPE_CHECKING:
    from distforest.sources.source import Floats, Ints, Source

OBJECT_MEANS = "object_means"
"""The key in a forest's provenance of the means of training objects."""

MOST_RANKED, FEWEST_RANKED = 256, 32
"""At most so many evenly spaced objects are compared, and no fewer: the ranks of few may agree by chance."""

LEAST_OF_ROWS, MOST_OF_COLUMNS = 0.7, 0.5
"""Queries are told if the rank correlation of the means in training with those of their rows is larger than the one,
and with those of their columns nearer to 0 than the other.

Of 2,720 right blocks, from 17 data sets, scaled or not, by eight similarities and distances, split at random, in order
of a feature or of the labels, and of a single class, none is told. Of the same blocks, transposed, 85% of those that
were split at random are told, and 56% of all; the others are nearly symmetric, or their order is another one."""


class SeenSquare(NamedTuple):
    """How a block of queries, as many as training objects, varies by row and by column.

    Attributes
    ----------
    sums, counts
        Of the observed values of compared columns in compared rows, shape (n_measures, n_compared).
    of_rows
        The means of compared rows over compared columns, NaN of rows that are elsewhere, of the same shape.
    """

    sums: Floats
    counts: Ints
    of_rows: Floats

    def joined(self, other: SeenSquare) -> SeenSquare:
        """The same of the queries of both."""
        of_rows = np.fmin(self.of_rows, other.of_rows)
        return SeenSquare(self.sums + other.sums, self.counts + other.counts, of_rows)


class ObjectMeans(NamedTuple):
    """How similar evenly spaced training objects are to each other, on average, shape (n_measures, n_compared).

    Numbers are as trees read them: of a distance d, -d^2/2. The similarity of an object to itself does not count.

    Examples
    --------
    >>> x, y = np.random.default_rng(3).normal(size=(2, 40))
    >>> means = ObjectMeans.of(ArraySource.of(-abs(x[:, None] - x)), 40)
    >>> queries = ArraySource.of(-abs(y[:, None] - x))
    >>> means.are_turned(means.seen(queries, 40), 0)
    False
    >>> means.are_turned(means.seen(ArraySource.of(queries.values.T), 40), 0)
    True
    """

    values: Floats

    @classmethod
    def of(cls, source: Source, n_objects: int) -> ObjectMeans | None:
        """Those of training objects, the rows of ``source``; None of few, of a sparse source and of a function's."""
        compared = _compared(n_objects)
        if not isinstance(source, ArraySource) or len(compared) < FEWEST_RANKED:
            return None
        found = []
        for measure in measured_rows(source, n_objects):
            corner = measure.corner(compared, compared)
            assert corner is not None  # noqa: S101  (the source is dense)
            np.fill_diagonal(corner, np.nan)
            found.append(_means(corner, axis=0))
        values = np.array(found)
        return None if np.isnan(values).any() else cls(values)

    @classmethod
    def of_entry(cls, entry: object, n_measures: int) -> ObjectMeans | None:
        """Those that an entry of a provenance holds for as many measures; None if it holds none.

        Examples
        --------
        >>> means = ObjectMeans(np.arange(64.0).reshape(2, 32))
        >>> ObjectMeans.of_entry(means.entry()["object_means"], 2).values.shape
        (2, 32)
        >>> ObjectMeans.of_entry([["1"]], 1)
        """
        try:
            values = np.array(entry, np.float64) if isinstance(entry, list) else np.empty(0)
        except (TypeError, ValueError, OverflowError):
            return None
        is_sound = values.ndim == 2 and len(values) == n_measures and values.shape[1] >= FEWEST_RANKED
        return cls(values) if is_sound and np.isfinite(values).all() else None

    def entry(self) -> dict[str, Any]:
        """The entry of a provenance: a list for each measure."""
        return {OBJECT_MEANS: self.values.tolist()}

    def seen(self, source: ArraySource | SparseSource, n_objects: int, first_row: int = 0) -> SeenSquare | None:
        """What is seen of some of as many queries as training objects, from ``first_row``; None of a sparse source."""
        compared = _compared(n_objects)
        here = np.flatnonzero((compared >= first_row) & (compared < first_row + source.shape[0]))
        shape = (len(self.values), len(compared))
        if not isinstance(source, ArraySource) or shape != self.values.shape:
            return None
        seen = SeenSquare(np.zeros(shape), np.zeros(shape, np.int64), np.full(shape, np.nan))
        for place, measure in enumerate(measured_rows(source, n_objects)):
            corner = measure.corner(compared[here] - first_row, compared)
            assert corner is not None  # noqa: S101  (the source is dense)
            seen.sums[place], seen.counts[place] = np.nansum(corner, axis=0), _n_observed(corner, axis=0)
            seen.of_rows[place, here] = _means(corner, axis=1)
        return seen

    def are_turned(self, seen: SeenSquare, place: int) -> bool:
        """Whether all queries, which are `seen`, seem to be transposed by a measure."""
        sums, counts, of_rows = (values[place] for values in seen)
        if not counts.all() or np.isnan(of_rows).any():
            return False
        by_row, by_column = (rank_correlation(self.values[place], means) for means in (of_rows, sums / counts))
        return by_row > LEAST_OF_ROWS and abs(by_column) < MOST_OF_COLUMNS


def _compared(n_objects: int) -> Ints:
    """The numbers of the objects that are compared."""
    return np.arange(0, n_objects, max(1, -(-n_objects // MOST_RANKED)))


def _n_observed(values: Floats, axis: int) -> Ints:
    """The number of observed values along an axis."""
    return np.count_nonzero(~np.isnan(values), axis=axis)


def _means(values: Floats, axis: int) -> Floats:
    """The mean of the observed values along an axis; NaN where there is none."""
    counts = _n_observed(values, axis)
    return np.divide(np.nansum(values, axis=axis), counts, out=np.full(len(counts), np.nan), where=counts > 0)
