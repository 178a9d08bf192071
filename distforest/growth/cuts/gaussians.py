"""Cuts between two clusters on a line, each of them a Gaussian (URerF, section 3): their scores, and the best of them.

For one candidate's values at a node, with weights w, a cut has two sides of weight n_k, shares p_k = n_k / n, means and
squared deviations SS_k about them; v_k = SS_k / n_k, v = (SS_1 + SS_2) / n, and v_0 is the variance of the whole node.

::

    two_means     SS_1 + SS_2
    fast_bic      the smaller of                                           (Algorithm 3, with its signs corrected)
                    -2 sum n_k log p_k + sum n_k log(2 pi v_k)     + n + 5 log n      two variances
                    -2 sum n_k log p_k + n log(2 pi v)             + n + 4 log n      one
    equal_bic     the second of these alone
    mclust_bic    -2 log L + d log n, of a mixture of two Gaussians; d is 5 for two variances and 4 for one

Less is better; a *score* is the negative of it. A score is raw, or relative to that of one cluster, SS_0 or
n log(2 pi v_0) + n + 2 log n, which makes the BICs independent of a feature's scale. Variances below `LEAST_VARIANCE`
v_0 count as that, and two variances are allowed only if both sides have two distinct values, as copies of one value are
not a cluster.

The mixture is fitted by expectation and maximisation, from the shares of the best cut by two-means, and the cut is
where both Gaussians are equally likely. Two variances are not accepted where one of them ends at its floor: a Gaussian
on copies of one value has an unbounded likelihood.
"""

from __future__ import annotations

import math

import numpy as np

from distforest.forest.frontier import longest_of
from distforest.growth.cuts.fences import LOWER, UPPER
from distforest.growth.cuts.ordering import order_values
from distforest.growth.cuts.two_means import (
    EQUAL_GAINS,
    FAST_BIC,
    SORTED_UP_TO,
    TWO_MEANS,
    CandidateCuts,
    ClusterScoring,
    cut_two_means,
    room_for,
)
from distforest.jit import kernel, no_refcount
from distforest.sources.source import Floats, Int32s, Ints

LEAST_VARIANCE = 1e-12
"""Least variance of a cluster, as a share of the variance of its node."""


@no_refcount
def score_of(
    scoring: ClusterScoring, n_left: int, n: int, within_left: float, within_right: float, square: float, distinct: bool
) -> float:
    """Return the score of a cut from SS_1, SS_2 and SS_0; ``distinct``: both sides have two distinct values."""
    n_right = n - n_left
    within = within_left + within_right
    if scoring.score == TWO_MEANS:
        return (square if scoring.relative else 0.0) - within
    whole = square / n
    least = LEAST_VARIANCE * whole
    shares = -2.0 * (n_left * math.log(n_left / n) + n_right * math.log(n_right / n))
    bic = shares + n * math.log(2.0 * math.pi * max(within / n, least)) + n + 4.0 * math.log(n)
    if scoring.score == FAST_BIC and distinct:
        left = n_left * math.log(2.0 * math.pi * max(within_left / n_left, least))
        right = n_right * math.log(2.0 * math.pi * max(within_right / n_right, least))
        bic = min(bic, shares + left + right + n + 5.0 * math.log(n))
    return (n * math.log(2.0 * math.pi * whole) + n + 2.0 * math.log(n) if scoring.relative else 0.0) - bic


@kernel
def cut_clusters(
    starts: Ints, weights: Int32s, values: Floats, scoring: ClusterScoring, best_only: bool, cuts: CandidateCuts
) -> None:
    """Fill ``cuts`` with the cut of the best score between two distinct values of each candidate of each node.

    Of equal cuts it is the lowest. With ``best_only``, a candidate that cannot be the best of its node may have no cut,
    or one that is not its best.
    """
    room = room_for(longest_of(starts))
    for node in range(starts.shape[0] - 1):
        first, last = starts[node], starts[node + 1]
        cuts.scores[:, node] = np.nan
        if scoring.score == TWO_MEANS and last - first >= SORTED_UP_TO:
            cut_two_means(starts, node, weights, values, scoring, best_only, room, cuts)
        for k in range(values.shape[0]):
            if np.isnan(cuts.scores[k, node]):
                x, w = values[k, first:last], weights[first:last]
                n = order_values(x, room.order, room.keys, room.spare)
                cut = scan_clusters(x, w, room.order[:n], scoring, room.values)
                cuts.thresholds[k, node], cuts.scores[k, node] = cut


@no_refcount
def scan_clusters(
    values: Floats, weights: Int32s, order: Ints, scoring: ClusterScoring, above: Floats
) -> tuple[float, float]:
    """Return threshold and score of the best cut of a candidate's values in ascending order; -inf if there is none.

    The squares of the left side are summed as it grows. Those of the right side are summed before, into ``above``.
    """
    threshold, best, min_leaf = np.nan, -np.inf, scoring.min_leaf
    n = squares_above(values, weights, order, above)
    if n == 0 or not above[0] > 0.0:
        return threshold, best
    lowest, highest, square = values[order[0]], values[order[order.shape[0] - 1]], above[0]
    n_left, mean, within = np.int64(0), 0.0, 0.0
    before = np.nan
    slack = EQUAL_GAINS * (square if scoring.score == TWO_MEANS else float(n))
    for i in range(order.shape[0]):
        value = values[order[i]]
        if value > before and n_left >= min_leaf and n - n_left >= min_leaf:
            distinct = before > lowest and value < highest
            score = score_of(scoring, n_left, n, within, above[i], square, distinct)
            if score > best + slack:
                middle = before + (value - before) / 2.0
                threshold = middle if middle < value else before  # rounding must not send the right side left
                best = score
        before = value
        w, off = weights[order[i]], (value - lowest) - mean
        n_left += w
        step = off * w / n_left
        mean += step
        within += w * off * (off - step)
    return threshold, best


@no_refcount
def squares_above(values: Floats, weights: Int32s, order: Ints, above: Floats) -> np.int64:
    """above[i] = SS of the values from position i of the order on; return the sum of w.

    Values are added one by one, from the highest down: SS += w (x - mean before) (x - mean after), by Welford (1962)
    and, with weights, West (1979). Nothing is subtracted from a larger sum, so the SS of a side keeps all its digits
    whatever the values of the other side. x is the distance from the highest value, which is exact where values are
    large and close to each other. All SS are 0 where the first and the last value are equal.
    """
    n, mean, square, last = np.int64(0), 0.0, 0.0, order.shape[0] - 1
    for i in range(last, -1, -1):
        w, off = weights[order[i]], (values[order[i]] - values[order[last]]) - mean
        n += w
        step = off * w / n
        mean += step
        square += w * off * (off - step)
        above[i] = square
    return n


@kernel
def score_cuts(
    starts: Ints, weights: Int32s, values: Floats, scoring: ClusterScoring, fences: Floats, cuts: CandidateCuts
) -> None:
    """Fill the scores of ``cuts`` from their thresholds; -inf stays where a threshold is NaN.

    ``fences`` is as `find_fences` fills it. Values beyond the fences count in the weight of their side, but not in the
    score.
    """
    thresholds, scores = cuts
    for node in range(starts.shape[0] - 1):
        first, last = starts[node], starts[node + 1]
        for k in range(values.shape[0]):
            threshold = thresholds[k, node]
            if not np.isnan(threshold):
                between = (fences[LOWER, k, node], fences[UPPER, k, node])
                scores[k, node] = score_cut(values[k, first:last], weights[first:last], threshold, between, scoring)


@no_refcount
def score_cut(
    values: Floats, weights: Int32s, threshold: float, fences: tuple[float, float], scoring: ClusterScoring
) -> float:
    """Return the score of a threshold from the observed values between two fences; -inf if a side is too light.

    Each side has its own origin, the first of its values, and its own mean. SS_0 is SS_1 + SS_2 plus n_1 n_2 / n times
    the squared distance of the means.
    """
    (lower, upper), min_leaf = fences, scoring.min_leaf
    n_left, n_right, sum_left, sum_right = np.int64(0), np.int64(0), 0.0, 0.0
    beyond_left, beyond_right = np.int64(0), np.int64(0)
    low, below, above, high = np.inf, -np.inf, np.inf, -np.inf
    first_left, first_right = np.nan, np.nan
    for r in range(values.shape[0]):
        x = values[r]
        if x < lower:
            beyond_left += weights[r]
        elif x > upper:
            beyond_right += weights[r]
        elif x <= threshold:
            if n_left == 0:
                first_left = x
            n_left += weights[r]
            sum_left += weights[r] * (x - first_left)
            low, below = min(low, x), max(below, x)
        elif x > threshold:
            if n_right == 0:
                first_right = x
            n_right += weights[r]
            sum_right += weights[r] * (x - first_right)
            above, high = min(above, x), max(high, x)
    if n_left == 0 or n_right == 0 or n_left + beyond_left < min_leaf or n_right + beyond_right < min_leaf:
        return -np.inf
    mean_left, mean_right, within_left, within_right = sum_left / n_left, sum_right / n_right, 0.0, 0.0
    for r in range(values.shape[0]):
        x = values[r]
        if lower <= x <= threshold:
            within_left += weights[r] * ((x - first_left) - mean_left) ** 2
        elif threshold < x <= upper:
            within_right += weights[r] * ((x - first_right) - mean_right) ** 2
    n, difference = n_left + n_right, (first_right - first_left) + (mean_right - mean_left)
    square = within_left + within_right + difference * difference * (n_left / n) * n_right
    return score_of(scoring, n_left, n, within_left, within_right, square, low < below and above < high)


ROUNDS = 500
"""Largest number of rounds of expectation and maximisation."""

TOLERANCE = 1e-8
"""Increase of the log-likelihood per row below which the rounds end."""

_SHARE, _MEAN, _VARIANCE = range(3)
_TINY = 1e-300  # the least share, for a Gaussian without values, to avoid a division by 0


@kernel
def part_mixture(
    starts: Ints, weights: Int32s, values: Floats, min_leaf: int, relative: bool, cuts: CandidateCuts
) -> None:
    """Fill the cut of each candidate of each node into ``cuts``; none if a side would be too light."""
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
    """Return the cut of the better model of ascending values and its score; -inf where a side would be too light."""
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
    """Fit ``mixture``, starting from the cut before place ``n_left``, by M and E steps; return its log-likelihood.

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
    """Return the log of a Gaussian's share times density: log p_k - log(2 pi v_k) / 2 - (x - mean_k)^2 / (2 v_k)."""
    v, from_mean = mixture[k, _VARIANCE], x - mixture[k, _MEAN]
    share = max(mixture[k, _SHARE], _TINY)
    return math.log(share) - 0.5 * math.log(2.0 * math.pi * v) - from_mean * from_mean / (2.0 * v)


@kernel
def equally_likely(mixture: Floats) -> float:
    """Return the point between their means at which both Gaussians are equally likely; the midpoint if there is none.

    The difference of the log densities changes its sign at most once between the means, so bisection finds the point.
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
