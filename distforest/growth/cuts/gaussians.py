"""Two Gaussians on a line, each value on one side of a cut: the scores of URerF (section 3), of all cuts and of one.

For one candidate's values at a node, with weights w, a cut has two sides of weight n_k, shares p_k = n_k / n, means and
squared deviations SS_k about them; v_k = SS_k / n_k, v = (SS_1 + SS_2) / n, and v_0 is the variance of the whole node.

::

    two_means     SS_1 + SS_2
    fast_bic      the smaller of                                                      (Algorithm 3, its signs put right)
                    -2 sum n_k log p_k + sum n_k log(2 pi v_k)     + n + 5 log n      two variances
                    -2 sum n_k log p_k + n log(2 pi v)             + n + 4 log n      one
    equal_bic     the second of these alone

Less is better; a *score* is the negative of it. A score is raw, or relative to that of one cluster, SS_0 or
n log(2 pi v_0) + n + 2 log n, which frees the BICs of a feature's scale. Variances below `LEAST_VARIANCE` v_0 count as
that, and two variances are allowed only where both sides have two distinct values: copies of one are no cluster.
"""

from __future__ import annotations

import math

import numpy as np

from distforest.growth.cuts.ordering import order_values
from distforest.growth.cuts.two_means import EQUAL_GAINS, SORTED_UP_TO, cut_two_means, room_for
from distforest.jit import borrowing, kernel
from distforest.sources.source import Floats, Int32s, Ints

LEAST_VARIANCE = 1e-12
"""Least variance of a cluster, as a share of the variance of its node."""

TWO_MEANS, FAST_BIC, EQUAL_BIC = range(3)


@kernel
def cut_clusters(
    starts: Ints,
    weights: Int32s,
    values: Floats,
    score: int,
    min_leaf: int,
    relative: bool,
    best_only: bool,
    thresholds: Floats,
    scores: Floats,
) -> None:
    """The cut of the best score between two distinct values of each candidate of each node, the lowest of equals.

    With ``best_only`` a candidate that cannot be the best of its node may be left without one, or with a lesser one.
    """
    room = room_for((starts[1:] - starts[:-1]).max())
    for node in range(starts.shape[0] - 1):
        first, last = starts[node], starts[node + 1]
        scores[:, node] = np.nan
        if score == TWO_MEANS and last - first >= SORTED_UP_TO:
            cut_two_means(starts, node, weights, values, min_leaf, relative, best_only, room, thresholds, scores)
        for k in range(values.shape[0]):
            if np.isnan(scores[k, node]):
                own, w = values[k, first:last], weights[first:last]
                n = order_values(own, room.order, room.keys, room.spare)
                found = scan_clusters(own, w, room.order[:n], score, min_leaf, relative, room.values)
                thresholds[k, node], scores[k, node] = found


@borrowing
def scan_clusters(
    values: Floats, weights: Int32s, order: Ints, score: int, min_leaf: int, relative: bool, above: Floats
) -> tuple[float, float]:
    """Threshold and score of the best cut of one candidate's values in ascending order; -inf where there is none.

    The squares of the left side are summed up as it grows, those of the right side before that, into ``above``.
    """
    threshold, best = np.nan, -np.inf
    n = squares_above(values, weights, order, above)
    if n == 0 or not above[0] > 0.0:
        return threshold, best
    lowest, highest, square = values[order[0]], values[order[order.shape[0] - 1]], above[0]
    n_left, mean, within = np.int64(0), 0.0, 0.0
    before = np.nan
    slack = EQUAL_GAINS * (square if score == TWO_MEANS else float(n))
    for i in range(order.shape[0]):
        value = values[order[i]]
        if value > before and n_left >= min_leaf and n - n_left >= min_leaf:
            distinct = before > lowest and value < highest
            found = score_of(score, n_left, n, within, above[i], square, distinct, relative)
            if found > best + slack:
                middle = before + (value - before) / 2.0
                threshold = middle if middle < value else before  # rounding must not send the right side left
                best = found
        before = value
        w, off = weights[order[i]], (value - lowest) - mean
        n_left += w
        step = off * w / n_left
        mean += step
        within += w * off * (off - step)
    return threshold, best


@borrowing
def squares_above(values: Floats, weights: Int32s, order: Ints, above: Floats) -> np.int64:
    """above[i] = SS of the values from place i of the order on; returns the sum of w.

    Values come in one by one, from the highest down: SS += w (x - mean before) (x - mean after), Welford (1962) and,
    with weights, West (1979). Nothing is subtracted from a larger sum, so that a side's SS has all its digits whatever
    lies on the other side. x is the distance from the highest value: it is exact where values are large and close to
    each other. All SS are 0 where the first and the last value are equal.
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


@borrowing
def score_of(
    score: int,
    n_left: int,
    n: int,
    within_left: float,
    within_right: float,
    square: float,
    distinct: bool,
    relative: bool,
) -> float:
    """The score of a cut from SS_1, SS_2 and SS_0; ``distinct``: both sides have two distinct values."""
    n_right = n - n_left
    within = within_left + within_right
    if score == TWO_MEANS:
        return (square if relative else 0.0) - within
    whole = square / n
    least = LEAST_VARIANCE * whole
    shares = -2.0 * (n_left * math.log(n_left / n) + n_right * math.log(n_right / n))
    bic = shares + n * math.log(2.0 * math.pi * max(within / n, least)) + n + 4.0 * math.log(n)
    if score == FAST_BIC and distinct:
        left = n_left * math.log(2.0 * math.pi * max(within_left / n_left, least))
        right = n_right * math.log(2.0 * math.pi * max(within_right / n_right, least))
        bic = min(bic, shares + left + right + n + 5.0 * math.log(n))
    return (n * math.log(2.0 * math.pi * whole) + n + 2.0 * math.log(n) if relative else 0.0) - bic


@kernel
def judge_cuts(
    starts: Ints,
    weights: Int32s,
    values: Floats,
    score: int,
    min_leaf: int,
    relative: bool,
    thresholds: Floats,
    lower: Floats,
    upper: Floats,
    scores: Floats,
) -> None:
    """The scores of cuts that are given; those that are NaN, or leave a side too light, have none.

    Values beyond the fences ``lower`` and ``upper`` make their side heavier and have no say in the score.
    """
    for node in range(starts.shape[0] - 1):
        first, last = starts[node], starts[node + 1]
        for k in range(values.shape[0]):
            if not np.isnan(thresholds[k, node]):
                own, cut = values[k, first:last], (thresholds[k, node], lower[k, node], upper[k, node])
                scores[k, node] = judge_cut(own, weights[first:last], cut, score, min_leaf, relative)


@borrowing
def judge_cut(
    values: Floats, weights: Int32s, cut: tuple[float, float, float], score: int, min_leaf: int, relative: bool
) -> float:
    """The score of a threshold, of the observed values between two fences; -inf where it is none.

    Each side has its own origin, the first of its values, and its own mean; SS_0 = SS_1 + SS_2 + n_1 n_2 / n times the
    square of the distance of the means.
    """
    threshold, lower, upper = cut
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
    return score_of(score, n_left, n, within_left, within_right, square, low < below and above < high, relative)
