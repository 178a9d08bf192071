"""Columns of pairs of categories, and the best set of unordered pairs by brute force, written from the formulas."""

from __future__ import annotations

import math
from itertools import combinations
from typing import TYPE_CHECKING

from tests.reference import naive_trees_of_pairs as ref

if TYPE_CHECKING:
    from collections.abc import Sequence
    from fractions import Fraction

    from tests.reference.naive_trees_of_pairs import Costs, Counts


def differ(k: float, l: float) -> float:  # noqa: E741  (the letters of the formula)
    """[k != l]; NaN if either is missing."""
    return math.nan if math.isnan(k) or math.isnan(l) else float(k != l)


def number_of_pair(k: float, l: float, n_categories: int) -> float:  # noqa: E741
    """The place of {k, l} among all unordered pairs, listed by their larger category and then by the other one."""
    if math.isnan(k) or math.isnan(l):
        return math.nan
    every = [{one, other} for other in range(n_categories) for one in range(other + 1)]
    return float(every.index({int(k), int(l)}))


def counts_by_category(
    categories: Sequence[float], codes: Sequence[int], weights: Sequence[int]
) -> dict[float | None, Counts]:
    """The weight of the two classes in each category; those of missing pairs under None."""
    counts: dict[float | None, list[int]] = {}
    for category, code, weight in zip(categories, codes, weights, strict=True):
        counts.setdefault(None if math.isnan(category) else category, [0, 0])[code] += int(weight)
    return {category: (both[0], both[1]) for category, both in counts.items()}


def _total(counts: Sequence[Counts]) -> Counts:
    """The sums of both classes."""
    return sum(count[0] for count in counts), sum(count[1] for count in counts)


def best_gain(
    categories: Sequence[float], codes: Sequence[int], weights: Sequence[int], costs: Costs, min_leaf: int = 1
) -> Fraction | None:
    """The largest gain of any set of categories, with the missing pairs on either side; None if no cut is allowed."""
    counts = counts_by_category(categories, codes, weights)
    groups = list(counts)  # the missing pairs are a group like any other
    best: Fraction | None = None
    for size in range(1, len(groups)):
        for own in combinations(groups, size):
            left, right = (
                [sum(counts[g][s] for g in groups if (g in own) == inside) for s in range(2)]
                for inside in (True, False)
            )
            if min(sum(left), sum(right)) < max(min_leaf, 1):
                continue
            gain = ref.gain_of((left[0], left[1]), (right[0], right[1]), costs)
            best = gain if best is None else max(best, gain)
    return best
