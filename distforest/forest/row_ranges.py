"""Ranges of rows of given similarities or distances: queries of another kind, or on another scale, than in training.

A forest over given similarities reads a row of numbers for each query, and nothing in these numbers says what they
are. Similarities in place of distances send queries to the wrong leaves, and the answers look like any others. But a
query is like a training object: its least, mean and greatest similarity lie between those of training objects,
whichever class it is of. Of rows of another kind, at least one of the three lies beyond for most rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from distforest.amounts import counted
from distforest.forest.measured_rows import measured_rows
from distforest.forest.square_queries import OBJECT_MEANS, ObjectMeans, SeenSquare
from distforest.sources.arrays import ArraySource
from distforest.sources.row_kinds import Dense, Several
from distforest.sources.sparse import SparseSource

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from distforest.forest.measured_rows import MeasuredRows
    from distforest.sources.row_kinds import RowKind
    from distforest.sources.source import Floats, Ints, Source

ROW_RANGES = "row_ranges"
"""The key in a forest's provenance of the ranges of rows of given similarities."""

ENDS_OF_ROW = ("least", "mean", "greatest")
"""What is known of a row: its least, mean and greatest similarity."""

FEWEST_OBJECTS = FEWEST_SEEN = 16
"""Fewer training objects tell no range. Fewer queries may be alike for a reason of their own, so they are told only if
all of them are nearer to the training objects than can be."""

NEAREST_SHARE_OF_SQUARE, MOST_WIDTHS = 1.0 / 32.0, 1.0
"""A query is nearer than can be if its greatest distance squared is less than this share of the largest distance of two
training objects squared, or if its greatest similarity is above theirs by so many times their range.

The greatest distance from anything, a mean of objects too, is at least half the largest of two objects, and a quarter
if these are squares. Of 378 pairs of training objects and right queries, from nine data sets, with middles and means of
classes among the queries, the least share is 0.063, and the most widths are 0.41, of inner products. Of 621 pairs with
queries of the other kind, more than half of the queries are told alone."""

MOST_BEYOND = 0.5
"""If more than this share of queries lies beyond a range, it is told.

Of 532 pairs of training and test objects, from six data sets, scaled or not, by five distances and six similarities
that follow from each, no test set has more than 5% of its rows beyond, no single class more than 15%, and the most
outlying 5% not more than 31%. Of 836 test sets of distances for similarities, or the reverse, 757 have over half."""

ROW_MARGIN = 0.03
"""Share of the range of all training similarities by which a row has to lie beyond: a range may have no width."""


class RowRanges(NamedTuple):
    """Between which numbers the least, mean and greatest similarity of training objects lie, by measure.

    Numbers are as trees read them: of a distance d, -d^2/2. The similarity of an object to itself counts or not,
    whichever makes the range wider, so that training objects may be asked about.

    Attributes
    ----------
    low, high
        The ends of the ranges, shape (n_measures, 3) both.
    n_observed
        The least and the greatest number of observed entries of a row, shape (n_measures, 2); a query that has fewer or
        more is not judged.
    """

    low: Floats
    high: Floats
    n_observed: Ints

    @classmethod
    def of(cls, source: Source, n_objects: int) -> RowRanges | None:
        """The ranges of the training objects, the rows of ``source``; None of few, or where a function gives them."""
        if not isinstance(source, (ArraySource, SparseSource)) or n_objects < FEWEST_OBJECTS:
            return None
        found = [rows for measure in measured_rows(source, n_objects) for rows in RowEnds.of_objects(measure)]
        ends = np.array([[np.fmin.reduce(rows.ends, axis=1), np.fmax.reduce(rows.ends, axis=1)] for rows in found])
        if np.isnan(ends).any():
            return None
        counts = np.array([[rows.n_observed.min(), rows.n_observed.max()] for rows in found]).reshape(-1, 2, 2)
        ends = ends.reshape(-1, 2, 2, len(ENDS_OF_ROW))  # by measure, with itself or without, low or high
        n_observed = np.column_stack([counts[:, :, 0].min(axis=1), counts[:, :, 1].max(axis=1)])
        return cls(ends[:, :, 0].min(axis=1), ends[:, :, 1].max(axis=1), n_observed)

    @classmethod
    def of_entry(cls, entry: object) -> RowRanges | None:
        """The ranges that an entry of a provenance holds; None if it holds none.

        Examples
        --------
        >>> ranges = RowRanges(np.zeros((1, 3)), np.ones((1, 3)), np.array([[7, 8]]))
        >>> RowRanges.of_entry(ranges.entry()["row_ranges"]).high
        array([[1., 1., 1.]])
        >>> RowRanges.of_entry([{"least": "1"}])
        """
        if not isinstance(entry, list) or not entry or not all(isinstance(measure, dict) for measure in entry):
            return None
        try:
            ends = np.array([[measure[name] for name in ENDS_OF_ROW] for measure in entry], np.float64)
            n_observed = np.array([measure["observed"] for measure in entry], np.int64)
        except (KeyError, TypeError, ValueError, OverflowError):
            return None
        if (
            ends.shape != (len(entry), len(ENDS_OF_ROW), 2)
            or n_observed.shape != (len(entry), 2)
            or np.isnan(ends).any()
        ):
            return None
        return cls(ends[:, :, 0], ends[:, :, 1], n_observed)

    def entry(self) -> dict[str, Any]:
        """The entry of a provenance: an object for each measure."""
        return {
            ROW_RANGES: [
                {**dict(zip(ENDS_OF_ROW, np.column_stack(ends).tolist(), strict=True)), "observed": n_observed.tolist()}
                for *ends, n_observed in zip(self.low, self.high, self.n_observed, strict=True)
            ]
        }


class KnownRows(NamedTuple):
    """What is known of rows of given similarities, by which queries are judged.

    Attributes
    ----------
    ranges
        Their ranges in training.
    measures
        How each measure is read.
    may_be_outlying
        Whether queries may well be less similar to the training objects than these are to each other, as in a search
        for outliers.
    means
        How similar the training objects are to the others; None if nobody knows.
    """

    ranges: RowRanges
    measures: tuple[Dense, ...]
    may_be_outlying: bool = False
    means: ObjectMeans | None = None

    @classmethod
    def of(cls, provenance: Mapping[str, Any], rows: RowKind, may_be_outlying: bool) -> KnownRows | None:
        """What a provenance tells of rows of a kind; None of features, or if nobody knows."""
        own = rows.measures if isinstance(rows, Several) else (rows,)
        measures = tuple(measure for measure in own if isinstance(measure, Dense))
        ranges = RowRanges.of_entry(provenance.get(ROW_RANGES)) if measures else None
        if ranges is None or len(ranges.low) != len(measures):
            return None
        means = ObjectMeans.of_entry(provenance.get(OBJECT_MEANS), len(measures))
        return cls(ranges, measures, may_be_outlying, means)

    def seen(self, source: Source, first_row: int = 0, n_queries: int | None = None) -> SeenRows | None:
        """Compare queries with the ranges; None if a function gives their similarities.

        Parameters
        ----------
        source
            Queries, as trees read them.
        first_row, n_queries
            The number of the first of them, and how many there are in all; by default these are all.
        """
        if not isinstance(source, (ArraySource, SparseSource)):
            return None
        n_objects = self.measures[0].n_columns
        is_square = n_objects == (source.shape[0] if n_queries is None else n_queries)
        square = self.means.seen(source, n_objects, first_row) if self.means and is_square else None
        parts = []
        for place, (low, high, (fewest, most), measure) in enumerate(
            zip(*self.ranges, measured_rows(source, n_objects), strict=True)
        ):
            rows = RowEnds.of(measure, first_row=first_row, is_square=is_square)
            ends = rows.ends[:, (rows.n_observed >= fewest) & (rows.n_observed <= most)]
            margin = ROW_MARGIN * (high.max() - low.min())
            below, above = ends < low[:, None] - margin, ends > high[:, None] + margin
            range_here = (f.reduce(ends, axis=1, initial=np.nan) for f in (np.fmin, np.fmax))
            too_near = ends[-1] > high.max() + MOST_WIDTHS * (high.max() - low.min())
            if self.measures[place].of_distances:
                too_near = ends[0] > NEAREST_SHARE_OF_SQUARE * low.min()
            of_rows = np.array([ends.shape[1], *rows.n_own, too_near.sum()])
            parts.append((of_rows, np.stack([below.sum(axis=1), above.sum(axis=1)]), *range_here))
        counts, beyond, low, high = (np.stack(values) for values in zip(*parts, strict=True))
        return SeenRows(counts, beyond, low, high, square)

    def told(self, seen: SeenRows) -> str:
        """A warning of queries, all of them `seen`, of another kind or on another scale than in training; else ""."""
        for place, measure in enumerate(self.measures):
            words = _Words(measure.of_distances, f" by measure {place}" if len(self.measures) > 1 else "")
            told = self._told_of_own(seen, place, words) or self._told_of_turned(seen, place, words)
            told = told or self._told_of_range(seen, place, words)
            if told:
                return told
        return ""

    def _told_of_own(self, seen: SeenRows, place: int, words: _Words) -> str:
        n_alone, n_least, n_not_least = seen.counts[place, 1:4].tolist()
        if n_not_least or 2 * n_alone <= n_least or n_least < FEWEST_SEEN:
            return ""
        found = (
            f"most rows, as many as training objects, are {words.less} the object of their own number than any other"
        )
        return f"{found}{words.measure}, {words.cure}"

    def _told_of_turned(self, seen: SeenRows, place: int, words: _Words) -> str:
        if self.means is None or seen.square is None or not self.means.are_turned(seen.square, place):
            return ""
        found = f"the rows{words.measure}, as many as training objects, differ as these do, and the columns do not"
        own = "distances" if words.is_distance else "similarities"
        cure = f"row k is to hold the {own} of query k to all training objects, in their order; give X.T, say"
        return f"{found}, so they seem to be transposed, or their columns to be in another order: {cure}"

    def _told_of_range(self, seen: SeenRows, place: int, words: _Words) -> str:
        n, n_too_near = int(seen.counts[place, 0]), int(seen.counts[place, -1])
        beyond = seen.beyond[place].copy()
        if self.may_be_outlying:
            beyond[0] = 0
        side, end = divmod(int(beyond.argmax()), len(ENDS_OF_ROW))
        if n < FEWEST_SEEN:
            side, end = 1, 0 if words.is_distance else len(ENDS_OF_ROW) - 1
            if not 0 < n == n_too_near == beyond[side, end]:  # where few are observed, far objects may not be
                return ""
        elif beyond[side, end] <= MOST_BEYOND * n:
            return ""
        here = words.span(seen.low[place, end], seen.high[place, end])
        training = words.span(self.ranges.low[place, end], self.ranges.high[place, end])
        found = f"{words.of_row(end)}{words.measure} of {beyond[side, end]:,} of {counted(n, 'row')} is"
        than = f"{words.side(side)} that of any training object ({here} here, {training} in training)"
        return f"{found} {than}, {words.cure}; or they are unlike all that it has learned from"


class SeenRows(NamedTuple):
    """How queries compare with the ranges of training objects, by measure.

    Attributes
    ----------
    counts
        Shape (n_measures, 5): how many rows were judged; where queries are as many as training objects, in how many
        rows the entry of the own place is less than all others, in how many it is no greater, and in how many it is
        greater than another; how many rows are nearer than can be: see `NEAREST_SHARE_OF_SQUARE`.
    beyond
        How many of the judged rows lie below and above the range of `ENDS_OF_ROW`, shape (n_measures, 2, 3).
    low, high
        Between which numbers their `ENDS_OF_ROW` lie, shape (n_measures, 3) both.
    square
        How they vary by row and by column; None if they are not as many as training objects, or nobody asks.
    """

    counts: Ints
    beyond: Ints
    low: Floats
    high: Floats
    square: SeenSquare | None = None

    def joined(self, other: SeenRows) -> SeenRows:
        """The same of the queries of both."""
        counts, beyond = self.counts + other.counts, self.beyond + other.beyond
        square = self.square.joined(other.square) if self.square and other.square else None
        return SeenRows(counts, beyond, np.fmin(self.low, other.low), np.fmax(self.high, other.high), square)


class RowEnds(NamedTuple):
    """Some evenly spaced rows of a square matrix, or of queries.

    Attributes
    ----------
    ends
        Their `ENDS_OF_ROW`, NaN in a row without an observed entry, shape (3, n).
    n_observed
        How many of their entries are observed, shape (n,).
    n_own
        In how many of them the entry of the own place is less than all others, no greater than any, and greater than
        one, shape (3,).
    """

    ends: Floats
    n_observed: Ints
    n_own: Ints

    @classmethod
    def of(cls, source: MeasuredRows, first_row: int = 0, is_square: bool = True) -> RowEnds:
        """Read rows, of which the first has the number ``first_row``; in a square matrix each has an own place."""
        numbered = ((first_row + numbers if is_square else None, values) for numbers, values in source.some_rows())
        return cls._joined([cls._of_block(values, own) for own, values in numbered])

    @classmethod
    def of_objects(cls, source: MeasuredRows) -> tuple[RowEnds, RowEnds]:
        """Read the rows of training objects once; each row with its own place, and without it."""
        with_own, without = [], []
        for own, values in source.some_rows():
            with_own.append(cls._of_block(values))
            values[np.arange(len(values)), own] = np.nan
            without.append(cls._of_block(values))
        return cls._joined(with_own), cls._joined(without)

    @classmethod
    def _joined(cls, parts: Sequence[RowEnds]) -> RowEnds:
        """The same of the rows of all parts."""
        ends = np.concatenate([part.ends for part in parts], axis=1)
        n_observed = np.concatenate([part.n_observed for part in parts])
        return cls(ends, n_observed, np.sum([part.n_own for part in parts], axis=0))

    @classmethod
    def _of_block(cls, values: Floats, own: Ints | None = None) -> RowEnds:
        """Do the same for a block of rows, shape (n, n_columns), which are compared with their own places, if given."""
        n_own = np.zeros(3, np.int64) if own is None else cls._compared(values, own)
        n_observed = np.count_nonzero(~np.isnan(values), axis=1)
        with np.errstate(invalid="ignore"):  # 0 / 0 of a row without an observed entry
            mean = np.nansum(values, axis=1) / n_observed
        return cls(np.stack([np.fmin.reduce(values, axis=1), mean, np.fmax.reduce(values, axis=1)]), n_observed, n_own)

    @staticmethod
    def _compared(values: Floats, own: Ints) -> Ints:
        """In how many rows the entry of the own place is less than all others, no greater, and greater than one."""
        places = np.arange(len(values)), own
        of_self = values[places]
        values[places] = np.nan
        least = np.fmin.reduce(values, axis=1)
        values[places] = of_self
        return np.array([(of_self < least).sum(), (of_self <= least).sum(), (of_self > least).sum()])


class _Words(NamedTuple):
    """How rows of similarities, or of distances, are told of."""

    is_distance: bool
    measure: str

    @property
    def less(self) -> str:
        """Less similar to, in words."""
        return "further from" if self.is_distance else "less similar to"

    @property
    def cure(self) -> str:
        """What follows, and what to do."""
        own, other = ("distances", "similarities") if self.is_distance else ("similarities", "distances")
        return f"but the forest reads {own}: give {own} by the function and on the scale of training, not {other}"

    def of_row(self, end: int) -> str:
        """What is known of a row, in words."""
        of_distance = ("greatest distance", "root mean square distance", "least distance")
        return f"the {of_distance[end] if self.is_distance else f'{ENDS_OF_ROW[end]} similarity'}"

    def side(self, side: int) -> str:
        """On which side of the range: a greater similarity is a lesser distance."""
        return ("below", "above")[side != self.is_distance]

    def span(self, low: float, high: float) -> str:
        """A range in the user's numbers."""
        if self.is_distance:
            low, high = (float(np.sqrt(max(0.0, -2.0 * end))) for end in (high, low))
        return f"{low:.3g} to {high:.3g}"
