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
n log(2 pi v_0) + n + 2 log n, which frees the BICs of a feature's scale. Variances below `FLOOR` v_0 count as that,
and two variances are asked for only where both sides have two distinct values: copies of one value are no cluster.
"""

from __future__ import annotations

import math

import numpy as np

from distforest.growth.ordering import order_values
from distforest.growth.two_means import FEW, ROUNDING, cut_two_means, room_for
from distforest.jit import borrowing, kernel
from distforest.sources.source import Floats, Ints, Rows

FLOOR = 1e-12
"""Least variance of a cluster, as a share of the variance of its node."""

TWO_MEANS, FAST_BIC, EQUAL_BIC = range(3)


@kernel
def cut_clusters(
    starts: Ints,
    weights: Rows,
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
        if score == TWO_MEANS and last - first >= FEW:
            cut_two_means(starts, node, weights, values, min_leaf, relative, best_only, room, thresholds, scores)
        for k in range(values.shape[0]):
            if np.isnan(scores[k, node]):
                own, w = values[k, first:last], weights[first:last]
                n = order_values(own, room.order, room.keys, room.spare)
                found = scan_clusters(own, w, room.order[:n], score, min_leaf, relative)
                thresholds[k, node], scores[k, node] = found


@borrowing
def scan_clusters(
    values: Floats, weights: Rows, order: Ints, score: int, min_leaf: int, relative: bool
) -> tuple[float, float]:
    """Threshold and score of the best cut of one candidate's values in ascending order; -inf where there is none.

    The moments of the left side are summed about the mean of all values, those of the right side are what is left.
    All are of distances from the lowest value: those are exact where values are large and close to each other.
    """
    n, mean, square = moments(values, weights, order)
    threshold, best = np.nan, -np.inf
    if not square > 0.0:
        return threshold, best
    lowest, highest = values[order[0]], values[order[order.shape[0] - 1]]
    n_left, sum_left, square_left = np.int64(0), 0.0, 0.0
    before = np.nan
    slack = ROUNDING * (square if score == TWO_MEANS else float(n))
    for place in order:
        value = values[place]
        if value > before and n_left >= min_leaf and n - n_left >= min_leaf:
            distinct = before > lowest and value < highest
            found = score_of(score, n_left, n, sum_left, square_left, square, distinct, relative)
            if found > best + slack:
                middle = before + (value - before) / 2.0
                threshold = middle if middle < value else before  # rounding must not send the right side left
                best = found
        before = value
        w, x = weights[place], (value - lowest) - mean
        n_left += w
        sum_left += w * x
        square_left += w * x * x
    return threshold, best


@borrowing
def moments(values: Floats, weights: Rows, order: Ints) -> tuple[np.int64, float, float]:
    """Sum of w, mean = sum of w x / n, and sum of w (x - mean)^2, x the value less the one at ``order[0]``.

    The mean and the squares are 0 where the first and the last value are equal.
    """
    n, total = np.int64(0), 0.0
    for place in order:
        n += weights[place]
        total += weights[place] * (values[place] - values[order[0]])
    if n == 0 or values[order[0]] == values[order[order.shape[0] - 1]]:
        return n, 0.0, 0.0
    mean, square = total / float(n), 0.0
    for place in order:
        square += weights[place] * ((values[place] - values[order[0]]) - mean) ** 2
    return n, mean, square


@borrowing
def score_of(
    score: int,
    n_left: int,
    n: int,
    sum_left: float,
    square_left: float,
    square: float,
    distinct: bool,
    relative: bool,
) -> float:
    """The score of a cut from the moments of its left side and of the node about the node's mean.

    SS_1 = square_left - sum_left^2 / n_1 and SS_2 = (square - square_left) - sum_left^2 / n_2, as all sum up to 0.
    """
    n_right = n - n_left
    within_left = max(square_left - sum_left * sum_left / n_left, 0.0)
    within_right = max((square - square_left) - sum_left * sum_left / n_right, 0.0)
    within = within_left + within_right
    if score == TWO_MEANS:
        return (square if relative else 0.0) - within
    whole = square / n
    least = FLOOR * whole
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
    weights: Rows,
    values: Floats,
    score: int,
    min_leaf: int,
    relative: bool,
    thresholds: Floats,
    scores: Floats,
) -> None:
    """The scores of cuts that are given; those that are NaN, or leave a side too light, have none."""
    for node in range(starts.shape[0] - 1):
        first, last = starts[node], starts[node + 1]
        for k in range(values.shape[0]):
            if not np.isnan(thresholds[k, node]):
                found = judge_cut(
                    values[k, first:last], weights[first:last], thresholds[k, node], score, min_leaf, relative
                )
                scores[k, node] = found


@borrowing
def judge_cut(values: Floats, weights: Rows, threshold: float, score: int, min_leaf: int, relative: bool) -> float:
    """The score of the cut at ``threshold``, by sums about the mean of the observed values; -inf where it is none.

    The sums are of distances from the first observed value, see `scan_clusters`.
    """
    n, n_left, total, sum_left = np.int64(0), np.int64(0), 0.0, 0.0
    low, below, above, high = np.inf, -np.inf, np.inf, -np.inf
    origin = np.nan
    for r in range(values.shape[0]):
        x = values[r]
        if np.isnan(x):
            continue
        if n == 0:
            origin = x
        n += weights[r]
        total += weights[r] * (x - origin)
        if x <= threshold:
            n_left += weights[r]
            sum_left += weights[r] * (x - origin)
            low, below = min(low, x), max(below, x)
        else:
            above, high = min(above, x), max(high, x)
    if n_left < max(1, min_leaf) or n - n_left < max(1, min_leaf):
        return -np.inf
    mean, square_left, square = total / n, 0.0, 0.0
    for r in range(values.shape[0]):
        x = (values[r] - origin) - mean
        if np.isnan(x):
            continue
        square += weights[r] * x * x
        if values[r] <= threshold:
            square_left += weights[r] * x * x
    centred = sum_left - n_left * mean
    return score_of(score, n_left, n, centred, square_left, square, low < below and above < high, relative)
