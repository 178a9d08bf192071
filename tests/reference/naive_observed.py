"""Slow references where some distances are unobserved: cuts, and distances of leaves, from sums over all pairs."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from tests.reference import naive, naive_missing
from tests.reference.naive import Cut
from tests.reference.naive_missing import EVERY, LEFT, NOWHERE, RIGHT, Placed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from tests.reference.naive import Integers, Matrix

    Exact = dict[tuple[int, int], Fraction]


def exact_distances(z: NDArray[Any], bits: int) -> Exact:
    """Return the observed distances by (i, j), each rounded to a multiple of 2^-bits, ties to even."""
    scale = Fraction(2) ** bits
    places = np.argwhere(~np.isnan(z)).tolist()
    return {(i, j): round(Fraction(float(z[i, j])) * scale) / scale for i, j in places}


def completed_sum(z: Exact, rows: Sequence[int], weights: Integers, mean: Fraction) -> Fraction:
    """Return sum_ij w_i w_j z_ij over all ordered pairs, the diagonal included, with the mean for unobserved ones."""
    return sum((int(weights[i]) * int(weights[j]) * z.get((i, j), mean) for i in rows for j in rows), Fraction(0))


def observed_mean(z: Exact, rows: Sequence[int], weights: Integers) -> Fraction | None:
    """Return the mean distance of the observed ordered pairs of different rows; None if there is none."""
    pairs = [(i, j) for i in rows for j in rows if i != j and (i, j) in z]
    mass = sum(int(weights[i]) * int(weights[j]) for i, j in pairs)
    return sum(int(weights[i]) * int(weights[j]) * z[i, j] for i, j in pairs) / Fraction(mass) if mass else None


def every_cut(values: Matrix, z: Exact, weights: Integers, min_leaf: int, places_missing: bool) -> list[Placed]:
    """Return each cut of each candidate: Eq. 1 on the node's block, completed by the mean of its observed pairs."""
    placed = []
    for candidate, row_values in enumerate(values):
        v = [float(value) for value in row_values]
        lacking = [row for row in range(len(v)) if math.isnan(v[row])]
        rows = [row for row in range(len(v)) if places_missing or row not in lacking]
        between = [naive.midpoint(a, b) for a, b in pairwise(sorted({x for x in v if not math.isnan(x)}))]
        thresholds = [(t, NOWHERE) for t in between]
        if lacking and places_missing:
            thresholds = [(t, RIGHT) for t in [*between, EVERY]] + [(t, LEFT) for t in between]
        mean = observed_mean(z, rows, weights)
        for t, side in thresholds if mean is not None else []:
            left = [row for row in rows if (side == LEFT if math.isnan(v[row]) else v[row] <= t)]
            right = [row for row in rows if row not in left]
            sizes = [sum(int(weights[row]) for row in part) for part in (rows, left, right)]
            if min(sizes) < max(1, min_leaf):
                continue
            parts = zip((rows, left, right), sizes, strict=True)
            whole, *sides = [completed_sum(z, part, weights, mean or Fraction(0)) / m for part, m in parts]
            placed.append(Placed(Cut(candidate, t, whole - sum(sides), abs(whole) + sum(map(abs, sides))), side))
    return placed


def best_cut(
    values: Matrix, z: Exact, weights: Integers, min_leaf: int, places_missing: bool = False
) -> tuple[naive.Found, int]:
    """Return (candidate, threshold, gain) of the best cut, and the side of the rows that lack its value."""
    return naive_missing.best_of(every_cut(values, z, weights, min_leaf, places_missing))


def node_distance(
    z: NDArray[Any], members: Sequence[Sequence[int]], parent: Sequence[int], weights: Integers, one: int, other: int
) -> Fraction | None:
    """Return the distance of two nodes, whose rows are ``members``, or what their ancestors say; None if nobody does.

    Of a node with itself it is the mean of all ordered pairs: those of a row with itself, and the others at the mean of
    the observed ones of the node, or of the next ancestor that has any.
    """
    exact = {(i, j): Fraction(float(z[i, j])) for i, j in np.argwhere(~np.isnan(z)).tolist()}
    own = members[one]
    masses = [int(weights[i]) for i in own]
    if one == other and sum(masses) ** 2 == sum(w * w for w in masses):
        return sum((int(weights[i]) ** 2 * exact[i, i] for i in own), Fraction(0)) / sum(masses) ** 2
    low, high = min(one, other), max(one, other)
    while True:
        pairs = [(i, j) for i in members[low] for j in members[high] if i != j and (i, j) in exact]
        if pairs:
            break
        if high == 0:
            return None
        low, high = sorted((parent[high] if parent[low] == parent[high] else low, parent[high]))
    mass = sum(int(weights[i]) * int(weights[j]) for i, j in pairs)
    mean = sum(int(weights[i]) * int(weights[j]) * exact[i, j] for i, j in pairs) / Fraction(mass)
    if one != other:
        return mean
    selves = {(i, i): exact[i, i] for i in own}
    return completed_sum(selves, own, weights, mean) / sum(masses) ** 2
