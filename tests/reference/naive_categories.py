"""The best subset of categories by brute force, from sums over all pairs of rows (SMERF, Eq. 1)."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from tests.reference.naive import gain_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.reference.naive import Pairs


def subset_gains(pairs: Pairs, categories: Sequence[int], weights: Sequence[int]) -> dict[frozenset[int], Fraction]:
    """Return the gain (Eq. 1) of each way to send some categories, but not that of the first row, to one side."""
    first, *others = dict.fromkeys(categories)
    names = [first, *others]
    rows = {name: [row for row, own in enumerate(categories) if own == name] for name in names}
    mass = {name: sum(weights[row] for row in rows[name]) for name in names}
    blocks = {
        (a, b): sum(weights[i] * weights[j] * pairs.z[i][j] for i in rows[a] for j in rows[b])
        for a in names
        for b in names
    }

    def side(own: Sequence[int]) -> tuple[int, int]:
        return sum(blocks[a, b] for a in own for b in own), sum(mass[a] for a in own)

    gains = {}
    for bits in range(1, 1 << len(others)):
        left = [name for place, name in enumerate(others) if bits >> place & 1]
        right = [name for name in names if name not in left]
        gains[frozenset(left)] = gain_of(*side(names), *side(left), *side(right)) / pairs.scale
    return gains


def best_subset(pairs: Pairs, categories: Sequence[int], weights: Sequence[int]) -> Fraction:
    """Return the largest gain of any subset of at least two categories."""
    return max(subset_gains(pairs, categories, weights).values())


def best_gain(z: np.ndarray, categories: Sequence[int], weights: Sequence[int]) -> float:
    """Return what `best_subset` does, in float64, for distances of shape (n, n): many rows take no time."""
    names = sorted(set(categories))
    of = (np.array(categories)[:, None] == names) * np.array(weights, float)[:, None]
    blocks, mass = of.T @ z @ of, of.sum(axis=0)
    left = (np.arange(1, 1 << (len(names) - 1))[:, None] >> np.arange(len(names)) & 1).astype(float)
    inside = [np.einsum("sa,ab,sb->s", own, blocks, own) / (own @ mass) for own in (left, 1.0 - left)]
    return float((blocks.sum() / mass.sum() - inside[0] - inside[1]).max())


def order_of_means(categories: Sequence[int], targets: Sequence[Fraction], weights: Sequence[int]) -> list[list[int]]:
    """Return the categories by the means of their targets, the least first; those of equal means together.

    If all means are equal, each is alone: the heaviest first, then as they come.
    """
    mass = dict.fromkeys(categories, 0)
    total = dict.fromkeys(categories, Fraction(0))
    for own, target, weight in zip(categories, targets, weights, strict=True):
        mass[own] += weight
        total[own] += weight * target
    means = {own: total[own] / mass[own] for own in mass}
    if len(set(means.values())) == 1:
        return [[own] for own in sorted(mass, key=lambda own: -mass[own])]
    return [[own for own in mass if means[own] == mean] for mean in sorted(set(means.values()))]
