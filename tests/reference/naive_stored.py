"""The slow twin of cuts by passes: one look at each pair, in any order, fills the sums of all cuts of a candidate.

A pair (i, j) is inside the left side of all cuts from max(rank_i, rank_j) on, and inside the right side of all cuts
before min(rank_i, rank_j); ranks are those of the distinct values.
"""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING

from tests.reference.naive import Cut, Fraction, best_of, dense_pairs, gain_of, midpoint

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tests.reference.naive import Found, Integers, Matrix


def best_cut_by_pairs(
    values: Matrix, z: Matrix, weights: Integers, min_leaf: int, bits: int, pairs: Iterable[tuple[int, int]]
) -> Found:
    """Return the best cut (Eq. 1) from all ordered ``pairs`` of rows, one after another."""
    seen, own = list(pairs), dense_pairs(z, bits)
    cuts = [cut for k, of_rows in enumerate(values) for cut in _cuts(k, of_rows, own.z, weights, min_leaf, seen)]
    scaled = [cut._replace(gain=cut.gain / own.scale, magnitude=cut.magnitude / own.scale) for cut in cuts]
    return best_of(scaled)


def _cuts(
    k: int,
    of_rows: Sequence[float],
    z: list[list[int]],
    weights: Integers,
    min_leaf: int,
    pairs: list[tuple[int, int]],
) -> list[Cut]:
    """Return the cuts of one candidate."""
    v = [float(value) for value in of_rows]
    distinct = sorted({value for value in v if not math.isnan(value)})
    at_later, at_earlier, mass = ([0] * len(distinct) for _ in range(3))
    rank = [None if math.isnan(value) else distinct.index(value) for value in v]
    for i, j in pairs:
        if rank[i] is None or rank[j] is None:
            continue
        product = int(weights[i]) * int(weights[j]) * z[i][j]
        at_later[max(rank[i], rank[j])] += product
        at_earlier[min(rank[i], rank[j])] += product
    for i, own in enumerate(rank):
        if own is not None:
            mass[own] += int(weights[i])
    n, T, cuts = sum(mass), sum(at_later), []
    for last, (a, b) in enumerate(itertools.pairwise(distinct)):
        nL, LL, RR = sum(mass[: last + 1]), sum(at_later[: last + 1]), sum(at_earlier[last + 1 :])
        if nL < min_leaf or n - nL < min_leaf:
            continue
        magnitude = Fraction(abs(T), n) + Fraction(abs(LL), nL) + Fraction(abs(RR), n - nL)
        cuts.append(Cut(k, midpoint(a, b), gain_of(T, n, LL, nL, RR, n - nL), magnitude))
    return cuts
