"""Scores of cuts of categories between two clusters of what a companion says of them.

A cut puts the categories whose place is at most a threshold on the left side. Let s be the values of the companion
(`distforest.growth.cuts.companions`), b its blur, n_k, p_k and SS_k as in `distforest.growth.cuts.cluster_scores` for
the s on side k, and a the number of categories of the node. With the score of that module, as score(SS_0, SS_1, SS_2),
a cut scores

::

    two_means    score(SS_0, SS_1, SS_2)
    a BIC        score(SS_0 + n b, SS_1 + n_1 b, SS_2 + n_2 b) - n log(p_1^3 + p_2^3) - 2 (a - 1) log 2

A number is judged by its own values. A category has none, so it is taken for what is seen of a hidden number u that is
uniform: u below one place is one side, u above it the other, which leaves the share p_1^3 + p_2^3 of its variance. The
gains of two clusters in two independent coordinates, u and s, add up, but the shares of the clusters are paid for once.
This is the second term. The third describes which of the 2^(a-1) ways to part a categories in two it is: s has ordered
them, and would also order, and explain, many categories that say nothing of it.

So two halves that say nothing of s score about as a uniform number does that is cut in its middle, 0 but for penalties;
two that say all of a companion of halves gain n log 4 more.

In the order of places the best cut of ``two_means`` is the best of all subsets (Fisher, On grouping for maximum
homogeneity, 1958). The BICs also look at the shares, so their best cut in this order may not be the best of all; it
nearly is.
"""

from __future__ import annotations

import math

import numpy as np

from distforest.forest.frontier import longest_of
from distforest.growth.cuts.cluster_scores import LEAST_VARIANCE, TWO_MEANS, CandidateCuts, ClusterScoring, score_of
from distforest.growth.cuts.companions import Judges
from distforest.growth.cuts.ordering import order_values
from distforest.growth.cuts.two_means import EQUAL_GAINS
from distforest.jit import borrowing, kernel
from distforest.sources.source import Floats, Int32s, Ints


@kernel
def judge_categories(
    starts: Ints, weights: Int32s, places: Floats, judges: Judges, scoring: ClusterScoring, cuts: CandidateCuts
) -> None:
    """Fill the scores of ``cuts`` from their thresholds, for columns of categories; -inf where a threshold is NaN.

    Values of s beyond the fences count in the weight of their side, and not in the score.
    """
    for f in range(starts.shape[0] - 1):
        first, last = starts[f], starts[f + 1]
        for k in range(places.shape[0]):
            if not np.isnan(judges.blur[k, f]):
                x, s, w = places[k, first:last], judges.scores[k, first:last], weights[first:last]
                fences = judges.fences[0, k, f], judges.fences[1, k, f]
                of_candidate = judges.blur[k, f], judges.n_places[k, f]
                cuts.scores[k, f] = score_places(x, s, w, fences, cuts.thresholds[k, f], of_candidate, scoring)


@borrowing
def score_places(
    places: Floats,
    scores: Floats,
    weights: Int32s,
    fences: tuple[float, float],
    threshold: float,
    of_candidate: tuple[float, int],
    scoring: ClusterScoring,
) -> float:
    """The score of a threshold; -inf where a side is empty or too light. s is taken about its first value."""
    n_left, n_right, sum_left, sum_right, origin = np.int64(0), np.int64(0), 0.0, 0.0, np.nan
    beyond_left, beyond_right = np.int64(0), np.int64(0)
    for r in range(places.shape[0]):
        if np.isnan(scores[r]) or np.isnan(places[r]):
            continue
        is_left, is_stray = places[r] <= threshold, scores[r] < fences[0] or scores[r] > fences[1]
        if is_stray:
            beyond_left += weights[r] if is_left else 0
            beyond_right += 0 if is_left else weights[r]
            continue
        if n_left == 0 and n_right == 0:
            origin = scores[r]
        if is_left:
            n_left += weights[r]
            sum_left += weights[r] * (scores[r] - origin)
        else:
            n_right += weights[r]
            sum_right += weights[r] * (scores[r] - origin)
    too_light = min(n_left + beyond_left, n_right + beyond_right) < scoring.min_leaf
    if np.isnan(threshold) or n_left == 0 or n_right == 0 or too_light:
        return -np.inf
    mean_left, mean_right, within_left, within_right = sum_left / n_left, sum_right / n_right, 0.0, 0.0
    for r in range(places.shape[0]):
        if np.isnan(places[r]) or not fences[0] <= scores[r] <= fences[1]:
            continue
        if places[r] <= threshold:
            within_left += weights[r] * ((scores[r] - origin) - mean_left) ** 2
        else:
            within_right += weights[r] * ((scores[r] - origin) - mean_right) ** 2
    n = n_left + n_right
    square = within_left + within_right + (mean_right - mean_left) ** 2 * (n_left / n) * n_right
    return blurred(scoring, n_left, n, within_left, within_right, square, of_candidate[0], of_candidate[1])


@borrowing
def blurred(
    scoring: ClusterScoring,
    n_left: int,
    n: int,
    within_left: float,
    within_right: float,
    square: float,
    blur: float,
    n_places: int,
) -> float:
    """The score of a cut of ``n_places`` categories from SS_1, SS_2 and SS_0 of s; -inf if all s are equal."""
    if not square > 0.0:
        return -np.inf
    if scoring.score == TWO_MEANS:
        return score_of(scoring, n_left, n, within_left, within_right, square, True)
    varies = min(within_left, within_right) > LEAST_VARIANCE * square
    left, right = within_left + n_left * blur, within_right + (n - n_left) * blur
    score = score_of(scoring, n_left, n, left, right, square + n * blur, blur > 0.0 or varies)
    share = n_left / n
    return score - n * math.log(share**3 + (1.0 - share) ** 3) - 2.0 * (n_places - 1) * math.log(2.0)


@kernel
def cut_categories(
    starts: Ints, weights: Int32s, places: Floats, judges: Judges, scoring: ClusterScoring, cuts: CandidateCuts
) -> None:
    """Fill ``cuts`` with the cut of the best score between two places, for columns of categories; the lowest of equals.

    No s is beyond a fence.
    """
    longest = longest_of(starts)
    order, above, seen = np.empty(longest, np.int64), np.empty((3, longest + 1)), np.empty(longest)
    keys, spare = np.empty(longest, np.uint64), np.empty(longest, np.uint64)
    for f in range(starts.shape[0] - 1):
        first, last = starts[f], starts[f + 1]
        for k in range(places.shape[0]):
            if np.isnan(judges.blur[k, f]):
                continue
            for r in range(first, last):
                seen[r - first] = np.nan if np.isnan(judges.scores[k, r]) else places[k, r]
            n = order_values(seen[: last - first], order, keys, spare)
            s, w = judges.scores[k, first:last], weights[first:last]
            of_candidate = judges.blur[k, f], judges.n_places[k, f]
            cut = scan_places(seen, s, w, order[:n], of_candidate, scoring, above)
            cuts.thresholds[k, f], cuts.scores[k, f] = cut


@borrowing
def scan_places(
    places: Floats,
    scores: Floats,
    weights: Int32s,
    order: Ints,
    of_candidate: tuple[float, int],
    scoring: ClusterScoring,
    above: Floats,
) -> tuple[float, float]:
    """Threshold and score of the best cut in the order of places; -inf where there is none.

    ``above[:, e]`` becomes the weight, the mean and SS of s from place e of the order on, s about its first value.
    """
    threshold, best, last = np.nan, -np.inf, order.shape[0]
    if last == 0:
        return threshold, best
    origin = scores[order[0]]
    for q in range(3):
        above[q, last] = 0.0
    for e in range(last - 1, -1, -1):
        w, off = weights[order[e]], (scores[order[e]] - origin) - above[1, e + 1]
        above[0, e] = above[0, e + 1] + w
        step = off * w / above[0, e]
        above[1, e] = above[1, e + 1] + step
        above[2, e] = above[2, e + 1] + w * off * (off - step)
    n, n_left, mean, within = np.int64(above[0, 0]), np.int64(0), 0.0, 0.0
    slack = EQUAL_GAINS * (above[2, 0] if scoring.score == TWO_MEANS else float(n))
    for e in range(last):
        place, before = places[order[e]], places[order[max(e - 1, 0)]]
        if place > before and n_left >= scoring.min_leaf and n - n_left >= scoring.min_leaf:
            score = blurred(scoring, n_left, n, within, above[2, e], above[2, 0], of_candidate[0], of_candidate[1])
            if score > best + slack:
                middle = before + (place - before) / 2.0
                threshold, best = middle if middle < place else before, score
        w, off = weights[order[e]], (scores[order[e]] - origin) - mean
        n_left += w
        step = off * w / n_left
        mean += step
        within += w * off * (off - step)
    return threshold, best
