"""A mixture of two Gaussians on a line, fitted by expectation and maximisation: Mclust-BIC (URerF, section 3).

BIC = -2 log L + d log n, with d = 5 for two variances and 4 for one. The model of the smaller BIC is taken, and the cut
is where both Gaussians are equally likely. The first shares are those of the best cut by two-means. Two variances are
not tried where a side of that cut has only one distinct value, and not accepted where one of them ends at its floor: a
Gaussian on copies of one value has an unbounded likelihood.
"""

from __future__ import annotations

import math

import numpy as np

from distforest.forest.frontier import longest_of
from distforest.growth.cuts.cluster_scores import LEAST_VARIANCE, TWO_MEANS, CandidateCuts, ClusterScoring
from distforest.growth.cuts.gaussians import scan_clusters
from distforest.growth.cuts.ordering import order_values
from distforest.jit import kernel
from distforest.sources.source import Floats, Int32s, Ints

ROUNDS = 500
"""Most rounds of expectation and maximisation."""

TOLERANCE = 1e-8
"""The rounds end when the log-likelihood rises by less for each row."""

_SHARE, _MEAN, _VARIANCE = range(3)
_TINY = 1e-300  # the least share, of a Gaussian without values, so that nothing is divided by 0


@kernel
def part_mixture(
    starts: Ints, weights: Int32s, values: Floats, min_leaf: int, relative: bool, cuts: CandidateCuts
) -> None:
    """Fill the cut of each candidate of each node into ``cuts``; none where a side of it would be too light."""
    longest = longest_of(starts)
    order = np.empty(longest, np.int64)
    keys, spare = np.empty(longest, np.uint64), np.empty(longest, np.uint64)
    for node in range(starts.shape[0] - 1):
        first, last = starts[node], starts[node + 1]
        for k in range(values.shape[0]):
            x, w = values[k, first:last], weights[first:last]
            n = order_values(x, order, keys, spare)
            cut = better_model_cut(x[order[:n]], w[order[:n]], min_leaf, relative)
            cuts.thresholds[k, node], cuts.scores[k, node] = cut


@kernel
def better_model_cut(x: Floats, w: Int32s, min_leaf: int, relative: bool) -> tuple[float, float]:
    """The cut of the better model of ascending values and its score; -inf where a side would be too light."""
    places = np.arange(x.shape[0])
    shares = np.empty(x.shape[0])
    start, score = scan_clusters(x, w, places, ClusterScoring(TWO_MEANS, True, 1), shares)
    if score == -np.inf:
        return np.nan, -np.inf
    n, square = w.sum(), shares[0]
    n_left = np.searchsorted(x, start, side="right")
    least = LEAST_VARIANCE * square / n
    mixture = np.empty((2, 3))
    likelihood = rounds_of(x, w, n_left, True, least, shares, mixture)
    bic, threshold = -2.0 * likelihood + 4.0 * math.log(n), equally_likely(mixture)
    if x[0] < x[n_left - 1] and x[n_left] < x[-1]:
        likelihood = rounds_of(x, w, n_left, False, least, shares, mixture)
        other = -2.0 * likelihood + 5.0 * math.log(n)
        if other < bic and min(mixture[0, _VARIANCE], mixture[1, _VARIANCE]) > least:
            bic, threshold = other, equally_likely(mixture)
    left = w[: np.searchsorted(x, threshold, side="right")].sum()
    if left < max(1, min_leaf) or n - left < max(1, min_leaf):
        return np.nan, -np.inf
    whole = n * math.log(2.0 * math.pi * square / n) + n + 2.0 * math.log(n)
    return threshold, (whole if relative else 0.0) - bic


@kernel
def rounds_of(x: Floats, w: Int32s, n_left: int, equal: bool, least: float, shares: Floats, mixture: Floats) -> float:
    """Fit ``mixture``, starting from the cut before place ``n_left``, by M and E steps; returns its log-likelihood.

    shares[i] = p_1 N(x_i; mean_1, v_1) / (p_1 N(x_i; mean_1, v_1) + p_2 N(x_i; mean_2, v_2)), of the lower Gaussian.
    """
    shares[:n_left] = 1.0
    shares[n_left:] = 0.0
    n, before, after = w.sum(), -np.inf, -np.inf
    for _ in range(ROUNDS):
        maximise(x, w, shares, equal, least, mixture)
        after = 0.0
        for i in range(x.shape[0]):
            lower, upper = log_density(mixture, 0, x[i]), log_density(mixture, 1, x[i])
            top = max(lower, upper)
            row = top + math.log(math.exp(lower - top) + math.exp(upper - top))
            shares[i] = math.exp(lower - row)
            after += w[i] * row
        if after - before < TOLERANCE * n:
            break
        before = after
    return after


@kernel
def maximise(x: Floats, w: Int32s, shares: Floats, equal: bool, least: float, mixture: Floats) -> None:
    """Fill share, mean and variance of each Gaussian: moments of the values weighted by their shares in it."""
    scatter, n = 0.0, float(w.sum())
    for k in range(2):
        size, total, square = 0.0, 0.0, 0.0
        for i in range(x.shape[0]):
            part = w[i] * (shares[i] if k == 0 else 1.0 - shares[i])
            size += part
            total += part * x[i]
        mean = total / max(size, _TINY)
        for i in range(x.shape[0]):
            square += w[i] * (shares[i] if k == 0 else 1.0 - shares[i]) * (x[i] - mean) ** 2
        scatter += square
        mixture[k, _SHARE], mixture[k, _MEAN] = size / n, mean
        mixture[k, _VARIANCE] = max(square / max(size, _TINY), least)
    if equal:
        mixture[:, _VARIANCE] = max(scatter / n, least)


@kernel
def log_density(mixture: Floats, k: int, x: float) -> float:
    """The log of a Gaussian's share times its density: log p_k - log(2 pi v_k) / 2 - (x - mean_k)^2 / (2 v_k)."""
    v, from_mean = mixture[k, _VARIANCE], x - mixture[k, _MEAN]
    share = max(mixture[k, _SHARE], _TINY)
    return math.log(share) - 0.5 * math.log(2.0 * math.pi * v) - from_mean * from_mean / (2.0 * v)


@kernel
def equally_likely(mixture: Floats) -> float:
    """The place between their means where both Gaussians are equally likely; the midpoint if there is none.

    The difference of the log densities changes its sign at most once between the means, so bisection finds the place.
    """
    low, high = mixture[0, _MEAN], mixture[1, _MEAN]
    at_low = log_density(mixture, 0, low) - log_density(mixture, 1, low)
    at_high = log_density(mixture, 0, high) - log_density(mixture, 1, high)
    middle = low + (high - low) / 2.0
    if not (low < high and at_low >= 0.0 >= at_high):
        return middle
    for _ in range(200):
        if not low < middle < high:
            break
        if log_density(mixture, 0, middle) >= log_density(mixture, 1, middle):
            low = middle
        else:
            high = middle
        middle = low + (high - low) / 2.0
    return middle
