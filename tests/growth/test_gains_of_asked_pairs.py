"""What asking for a part of the pairs does to the gain of a cut: the mean and the variance that are derived."""

from __future__ import annotations

import math

import numpy as np
import pytest

from distforest.forest.frontier import Frontier
from distforest.growth.cuts.observed_distance import ObservedDistance


@pytest.mark.parametrize("share", [0.1, 0.4])
def test_the_gain_of_a_cut_has_the_mean_and_the_variance_that_are_derived(share: float) -> None:
    """The mean is q G + (1 - q) g; for the variance, a gain is g + the sum of h_ij (z_ij - g) over observed pairs.

    Without terms in 1/m, h_ij is 2/m - 2/m_T within a side T, and 2/m between the sides.
    """
    n_left, n = 18, 48
    place = np.r_[np.zeros(n_left), np.ones(n - n_left)] * 2.0 + np.random.default_rng(0).normal(size=n) * 0.5
    z = ((place[:, None] - place) ** 2).astype(np.float32)
    values = np.r_[np.zeros(n_left), np.ones(n - n_left)][None]
    frontier = Frontier.roots(np.ones((1, n), np.int32))
    pairs, whole = math.comb(n, 2), z[np.triu_indices(n, 1)].mean()

    def gain(known: np.ndarray) -> float:
        seen = np.where(known, z, np.float32(np.nan))
        return float(ObservedDistance.from_distances(seen, float(z.max())).cut(frontier, values, 1).gain[0])

    gains, numbers = [], np.random.default_rng(1)
    for _ in range(200):  # a small node of many rows: each of its pairs is observed or not, whatever the others are
        known = np.triu(numbers.random((n, n)) < share, 1)
        gains.append(gain(known | known.T | np.eye(n, dtype=np.bool_)))
    expected = share * gain(np.ones((n, n), np.bool_)) + (1.0 - share) * whole
    left, right = np.triu_indices(n, 1)
    m = np.where(right < n_left, n_left, n - n_left)
    is_within = (right < n_left) | (left >= n_left)
    terms = (z[left, right] - whole) * ((1.0 + share * (n - 2)) / (share * pairs) - is_within * 2.0 / m)
    variance = share * (1.0 - share) * float(np.sum(terms**2))
    assert abs(np.mean(gains) - expected) < 4.0 * math.sqrt(variance / len(gains))
    assert 0.75 < np.var(gains) / variance < 1.3
    sides = (right < n_left, left >= n_left, ~is_within)
    of_sides = [float(np.mean((z[left, right] - whole)[side] ** 2)) for side in sides]
    m_left, m_right = n_left / n, 1.0 - n_left / n
    shares = np.array([2.0 * m_right**2, 2.0 * m_left**2, 4.0 * m_left * m_right])
    assert variance == pytest.approx(share * (1.0 - share) * float(shares @ of_sides), rel=0.25)
