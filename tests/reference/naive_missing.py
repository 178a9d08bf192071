"""Slow references for cuts that try their missing values on either side, from sums over all pairs in exact numbers."""

from __future__ import annotations

import math
import sys
from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from tests.reference import naive
from tests.reference.naive import Cut

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.reference.naive import Integers, Matrix, Pairs

RIGHT, LEFT, NOWHERE = 1, 0, 2
EVERY = sys.float_info.max
"""Above all values: what is missing is parted from what is observed."""


class Placed(NamedTuple):
    """A cut, and the side of the rows that lack its value."""

    cut: Cut
    side: int


def similarity_of_shared(name: str, x: Sequence[float], y: Sequence[float], gamma: float) -> float:
    """Return the similarity over the m of p features that both have, its sums times p/m; NaN if m is 0."""
    both = [(float(a), float(b)) for a, b in zip(x, y, strict=True) if not math.isnan(a) and not math.isnan(b)]
    if not both:
        return math.nan
    own, other = zip(*both, strict=True)
    if name == "cosine":
        return naive.cosine(own, other) if any(own) and any(other) else 0.0
    factor = len(x) / len(both)
    if name == "rbf":
        return naive.rbf(own, other, gamma * factor)
    return factor * {"linear": naive.linear, "manhattan": naive.manhattan}[name](own, other)


def every_cut(values: Matrix, pairs: Pairs, weights: Integers, min_leaf: int) -> list[Placed]:
    """Return each cut of each candidate over all rows: the missing on the right, last alone; then on the left."""
    placed = []
    for candidate, row_values in enumerate(values):
        v = [float(value) for value in row_values]
        rows = [row for row in range(len(v)) if weights[row] > 0]
        missing = [row for row in rows if math.isnan(v[row])]
        distinct = sorted({v[row] for row in rows if not math.isnan(v[row])})
        between = [naive.midpoint(a, b) for a, b in pairwise(distinct)]
        thresholds = [(t, NOWHERE) for t in between]
        if missing:
            thresholds = [(t, RIGHT) for t in [*between, EVERY]] + [(t, LEFT) for t in between]
        for t, side in thresholds:
            left = [row for row in rows if (side == LEFT if math.isnan(v[row]) else v[row] <= t)]
            right = [row for row in rows if row not in left]
            nL, nR = (sum(int(weights[row]) for row in part) for part in (left, right))
            if min(nL, nR) < max(1, min_leaf):
                continue
            T, LL, RR = (naive.pair_sum(pairs.z, part, weights) for part in (rows, left, right))
            gain = naive.gain_of(T, nL + nR, LL, nL, RR, nR) / pairs.scale
            terms = Fraction(abs(T), nL + nR) + Fraction(abs(LL), nL) + Fraction(abs(RR), nR)
            placed.append(Placed(Cut(candidate, t, gain, terms / pairs.scale), side))
    return placed


def best_of(placed: Sequence[Placed]) -> tuple[naive.Found, int]:
    """Return (candidate, threshold, gain) of the largest gain, the first if equal, and the side of the missing rows."""
    found = naive.best_of([cut for cut, _ in placed])
    sides = [
        side for cut, side in placed if cut[:2] == found[:2] and math.isclose(max(cut.gain, 0), found[2], abs_tol=1e-15)
    ]
    return found, sides[0] if sides else NOWHERE
