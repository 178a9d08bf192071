"""Cuts between two Gaussians on a line: the best of all cuts of a candidate, and the score of a cut that is given.

The scores are those of `distforest.growth.cuts.cluster_scores`.
"""

from __future__ import annotations

import numpy as np

from distforest.forest.frontier import longest_of
from distforest.growth.cuts.cluster_scores import TWO_MEANS, CandidateCuts, ClusterScoring, score_of
from distforest.growth.cuts.fences import LOWER, UPPER
from distforest.growth.cuts.ordering import order_values
from distforest.growth.cuts.two_means import EQUAL_GAINS, SORTED_UP_TO, cut_two_means, room_for
from distforest.jit import borrowing, kernel
from distforest.sources.source import Floats, Int32s, Ints


@kernel
def cut_clusters(
    starts: Ints, weights: Int32s, values: Floats, scoring: ClusterScoring, best_only: bool, cuts: CandidateCuts
) -> None:
    """Fill ``cuts`` with the cut of the best score between two distinct values of each candidate of each node.

    Of equal cuts it is the lowest. With ``best_only`` a candidate that cannot be the best of its node may be left
    without a cut, or with one that is not its best.
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


@borrowing
def scan_clusters(
    values: Floats, weights: Int32s, order: Ints, scoring: ClusterScoring, above: Floats
) -> tuple[float, float]:
    """Threshold and score of the best cut of one candidate's values in ascending order; -inf where there is none.

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


@borrowing
def squares_above(values: Floats, weights: Int32s, order: Ints, above: Floats) -> np.int64:
    """above[i] = SS of the values from place i of the order on; returns the sum of w.

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
def judge_cuts(
    starts: Ints, weights: Int32s, values: Floats, scoring: ClusterScoring, fences: Floats, cuts: CandidateCuts
) -> None:
    """Fill the scores of ``cuts`` from their thresholds; -inf stays where a threshold is NaN.

    ``fences`` is as `find_fences` fills it. Values beyond the fences count in the weight of their side, and not in the
    score.
    """
    thresholds, scores = cuts
    for node in range(starts.shape[0] - 1):
        first, last = starts[node], starts[node + 1]
        for k in range(values.shape[0]):
            threshold = thresholds[k, node]
            if not np.isnan(threshold):
                between = (fences[LOWER, k, node], fences[UPPER, k, node])
                scores[k, node] = judge_cut(values[k, first:last], weights[first:last], threshold, between, scoring)


@borrowing
def judge_cut(
    values: Floats, weights: Int32s, threshold: float, fences: tuple[float, float], scoring: ClusterScoring
) -> float:
    """The score of a threshold from the observed values between two fences; -inf where a side is empty or too light.

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
