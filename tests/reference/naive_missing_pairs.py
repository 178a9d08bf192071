"""Cuts of pairs of which some are missing, as the methods page says: each cut tries them on either side."""

from __future__ import annotations

import math
import sys
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

from tests.reference import naive_trees_of_pairs as ref
from tests.reference.naive_trees_of_pairs import Cut

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.reference.naive_trees_of_pairs import Costs, Sample, Vector

RIGHT, LEFT, NOWHERE = 1, 0, 2
EVERY = sys.float_info.max
"""Above all values: missing pairs are parted from the others."""


class Placed(NamedTuple):
    """A cut, and the side of the pairs that are missing in its column."""

    cut: Cut
    side: int


def pair_columns(x: Vector, x2: Vector, family: str) -> list[float]:
    """The columns of one pair; NaN in those of a feature that either point lacks."""
    lacks = [math.isnan(u) or math.isnan(v) for u, v in zip(x, x2, strict=True)]
    filled = [[0.0 if gone else float(v) for v, gone in zip(point, lacks, strict=True)] for point in (x, x2)]
    columns = ref.pair_columns(filled[0], filled[1], family)
    return [math.nan if lacks[c % len(lacks)] else float(value) for c, value in enumerate(columns)]


def side_of(row: Vector, placed: Placed, squares: int) -> int:
    """The side of a pair: right above the threshold, or where a threshold on a coordinate separates it."""
    (column, threshold, _), side = placed
    if math.isnan(row[column]):
        return side
    goes_left = ref.goes_left(row, column, threshold, squares)
    return LEFT if goes_left != (column < squares) else RIGHT


def every_cut(
    sample: Sample, costs: Costs, min_leaf: int, thresholds: Sequence[Sequence[float]] | None = None
) -> list[Placed]:
    """Each allowed cut in order: missing pairs on the right, last alone there, then on the left; thresholds from below.

    Thresholds are midpoints between observed values, or the given ones of each column.
    """
    rows, allowed = range(len(sample.codes)), []
    for column in sample.candidates():
        observed = [row for row in rows if not math.isnan(sample.values[row][column])]
        between = ref.places(sample, observed, column) if thresholds is None else sorted(thresholds[column])
        tried = [(t, NOWHERE) for t in between]
        if len(observed) < len(rows):
            tried = [(t, RIGHT) for t in [*between, EVERY]] + [(t, LEFT) for t in between]
        for t, side in tried:
            placed = Placed(Cut(column, t, Fraction(0)), side)
            sides: tuple[list[int], list[int]] = ([], [])
            for row in rows:
                sides[side_of(sample.values[row], placed, sample.squares)].append(row)
            left, right = sample.counts(sides[0]), sample.counts(sides[1])
            if min(sum(left), sum(right)) >= max(min_leaf, 1):
                allowed.append(Placed(Cut(column, t, ref.gain_of(left, right, costs)), side))
    return allowed


def best_of(sample: Sample, costs: Costs, min_leaf: int, thresholds: Sequence[Sequence[float]] | None = None) -> Placed:
    """The first cut of the largest gain, and the side of the missing pairs."""
    allowed = every_cut(sample, costs, min_leaf, thresholds)
    whole = ref.gini(sample.counts(range(len(sample.codes))), costs)
    found = ref.first_best([cut for cut, _ in allowed], whole)
    if found.column < 0:
        return Placed(found, NOWHERE)
    top = found.gain or None  # of cuts that gain nothing the first one
    return next(
        Placed(found, side) for cut, side in allowed if cut[:2] == found[:2] and (top is None or cut.gain == top)
    )
