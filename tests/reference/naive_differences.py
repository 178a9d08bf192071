"""The slow twin of absolute differences of targets, from all pairs in exact numbers."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from tests.reference.naive import Pairs, best_of, every_cut

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.reference.naive import Found, Integers, Matrix


def whole_pairs(targets: Sequence[int]) -> Pairs:
    """Return |y_i - y_j| of whole numbers."""
    return Pairs([[abs(one - other) for other in targets] for one in targets], Fraction(1))


def best_cut_of_targets(values: Matrix, targets: Sequence[int], weights: Integers, min_leaf: int) -> Found:
    """Return the best cut of a node whose rows have these targets, whole numbers."""
    return best_of(every_cut(values, whole_pairs(targets), weights, min_leaf))


def mean_of_pairs(
    one: Sequence[float], of_one: Sequence[int], other: Sequence[float], of_other: Sequence[int]
) -> Fraction:
    """Return the mean of |y - y'| over targets y of weight of_one and y' of weight of_other."""
    total = sum(
        w * v * abs(Fraction(y) - Fraction(z))
        for y, w in zip(one, of_one, strict=True)
        for z, v in zip(other, of_other, strict=True)
    )
    return Fraction(total, sum(of_one) * sum(of_other))


def median(targets: Sequence[float], weights: Sequence[int]) -> Fraction:
    """Return the median of targets, each repeated as often as its weight says."""
    ascending = sorted(Fraction(y) for y, w in zip(targets, weights, strict=True) for _ in range(w))
    n = len(ascending)
    return (ascending[(n - 1) // 2] + ascending[n // 2]) / 2
