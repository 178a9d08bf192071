"""Companions: sums of other columns that score columns of categories, in a forest without a ground truth.

Categories alone have no clusters: however they are split into two sets, a likelihood of categories is the same, as each
set has its own frequencies. So a candidate that is a column of categories is scored by a companion, a sum over other
columns that is drawn as sums of numbers are,

    s_i = sum over its columns c of a_c x_ic,

where x_ic is a number, or a random sign of a category, so that about half of a column's categories are set against the
others. A sign stands for an interval of width 2 about it, as a rounded number stands for an interval: `BLUR` is the
variance within. So two columns of categories with the same information agree as two columns of numbers would, and not
without error.

A category's place in a node is the mean of s over its rows, and a cut puts the categories whose place is at most a
threshold on the left side. Let b be the blur of the companion, n_k, p_k and SS_k as in
`distforest.growth.cuts.gaussians` for the s on side k, and a the number of categories of the node. With the score of
that module, as score(SS_0, SS_1, SS_2), a cut scores

::

    two_means    score(SS_0, SS_1, SS_2)
    a BIC        score(SS_0 + n b, SS_1 + n_1 b, SS_2 + n_2 b) - n log(p_1^3 + p_2^3) - 2 (a - 1) log 2

A number is scored by its own values. A category has none, so it is treated as an observation of a hidden number u that
is uniform: u below one value is one side, u above it the other, which leaves the share p_1^3 + p_2^3 of its variance.
The gains of two clusters in two independent coordinates, u and s, add up, but the shares of the clusters are paid for
once. This is the second term. The third describes which of the 2^(a-1) splits of a categories into two sets it is: s
has ordered them, and would also order, and explain, many categories that are unrelated to it. So two halves that are
unrelated to s score about as a uniform number that is cut in its middle, 0 up to penalties; two halves that determine a
companion of halves gain n log 4 more.

In the order of places the best cut of ``two_means`` is the best of all subsets (Fisher, On grouping for maximum
homogeneity, 1958). The BICs also look at the shares, so their best cut in this order may not be the best of all; it
nearly is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple, Self

import numpy as np

from distforest.forest.frontier import Nodes, longest_of
from distforest.growth.cuts.category_orders import number_categories, tally_for
from distforest.growth.cuts.fences import MARGIN, fences_of
from distforest.growth.cuts.gaussians import LEAST_VARIANCE, score_of
from distforest.growth.cuts.ordering import order_values
from distforest.growth.cuts.two_means import EQUAL_GAINS, TWO_MEANS, CandidateCuts, ClusterScoring
from distforest.growth.draws.column_draws import COLUMN_TRIES, Oblique, column_at
from distforest.growth.rng import Keys, mix, unit
from distforest.jit import kernel, no_refcount
from distforest.sources.schema import MAX_CATEGORIES
from distforest.sources.source import Float32s, Floats, Int32s, Ints, Projections, offsets, taken

if TYPE_CHECKING:
    from distforest.forest.frontier import Frontier

BLUR = 1.0 / 3.0
"""Variance of a uniform variable on an interval of width 2, which a sign stands for (Sheppard's correction)."""


class CategoryNumbers(NamedTuple):
    """Numbers of categories in the order of their first rows, which do not depend on their codes."""

    start: Ints  # start of the numbers of each column, shape (n_columns + 1,); a numerical column has none
    number: Int32s  # the number of each code of each column, shape (M,)

    @classmethod
    def none(cls, n_columns: int) -> Self:
        """Return no numbers, as no column contains categories."""
        return cls(np.zeros(n_columns + 1, np.int64), np.empty(0, np.int32))

    @classmethod
    def from_matrix(cls, matrix: Float32s, n_categories: Int32s) -> Self:
        """Return the numbers for features, shape (n_rows, n_columns), some of whose columns contain codes."""
        numbers = cls(offsets(n_categories), np.full(int(n_categories.sum()), -1, np.int32))
        number_codes(matrix, numbers)
        return numbers


@kernel
def number_codes(matrix: Float32s, numbers: CategoryNumbers) -> None:
    """numbers.number[start[c] + code] = how many other codes of column c come before it, row by row; -1 for none."""
    start, number = numbers
    for c in range(matrix.shape[1]):
        n = 0
        for r in range(matrix.shape[0] if start[c + 1] > start[c] else 0):
            value = matrix[r, c]
            if value == value and number[start[c] + np.int64(value)] < 0:
                number[start[c] + np.int64(value)] = n
                n += 1


@kernel
def derive_keys(keys: Keys, first: int, derived: Keys) -> None:
    """derived[f] = mix(keys[f] + first)."""
    for f in range(keys.shape[0]):
        derived[f] = mix(keys[f] + np.uint64(first))


@no_refcount
def sign_of(key: np.uint64, column: int, number: int) -> float:
    """+1 or -1 for a category of a column, by its number."""
    return 1.0 if unit(key, column * MAX_CATEGORIES + number) < 0.5 else -1.0


@no_refcount
def number_at(value: float, column: int, key: np.uint64, numbers: CategoryNumbers) -> float:
    """Return the sign of a category, NaN if it is missing; a value of a numerical column is unchanged."""
    first = numbers.start[column]
    if numbers.start[column + 1] == first or value != value:
        return value
    return sign_of(key, column, numbers.number[first + np.int64(value)])


FIRST_COMPANION = 1 << 37
"""Offset that is added, with the attempt, to a node's stream, to get the stream that draws companions."""

NO_COLUMN = -1
"""Marks a candidate that is not a column of categories, and a column that a companion may not read."""


class CompanionScores(NamedTuple):
    """The scores for the columns of categories among the candidates of some nodes."""

    # s of each row, shape (width, n_rows); NaN if it or the row's category is missing, and for other candidates
    scores: Floats
    # the variance within the intervals that signs stand for, the sum of a_c^2 `BLUR` over the columns of categories
    # that the companion reads, shape (width, n_nodes); NaN for other candidates
    blur: Floats
    fences: Floats  # the bounds beyond which s is an outlier, shape (2, width, n_nodes); infinite if none is
    # the number of categories of the node with a place, shape (width, n_nodes), as `place_categories` counts them
    n_places: Ints


@dataclass(frozen=True)
class Companions:
    """Companions of columns of categories, one for each candidate that is one."""

    # matrix, numbers: the features, shape (n_rows, n_columns), and the numbers of their categories
    matrix: Float32s
    numbers: CategoryNumbers
    draw: Oblique  # draws sums of columns; the coefficient of a column of categories has a standard deviation of 1
    fenced: bool  # whether outliers of s do not score
    # the streams that draw companions in this attempt, shape (n_nodes,); None before an attempt
    keys: Keys | None = None

    def attempted(self, keys: Keys, attempt: int) -> Companions:
        """Return the companions that the nodes with these streams draw in one attempt."""
        own = np.empty(len(keys), np.uint64)
        derive_keys(keys, FIRST_COMPANION + attempt, own)
        return replace(self, keys=own)

    def drawn(self, frontier: Frontier, own: Int32s) -> Drawn:
        """Draw a companion for each candidate of each node; ``own`` as in `Drawn`, shape (width, n_nodes)."""
        assert self.keys is not None  # noqa: S101  (the grower calls `attempted` first)
        sums = replace(self.draw, width=len(own))(frontier, self.keys, 0)
        signs = np.empty((frontier.n_nodes, len(own)), np.uint64)
        draw_others(self.keys, self.draw.columns.cumulative, own, sums.offset, sums.columns, signs)
        return Drawn(own, signs, sums)

    def score(self, frontier: Frontier, drawn: Drawn) -> CompanionScores:
        """Return the scores of companions for the rows of a frontier."""
        shape = drawn.own.shape
        scores, blur = np.full((shape[0], len(frontier.rows)), np.nan), np.full(shape, np.nan)
        companion_scores = CompanionScores(scores, blur, np.empty((2, *shape)), np.zeros(shape, np.int64))
        fill_scores(frontier.nodes, self.matrix, self.numbers, drawn, companion_scores)
        find_stray(frontier.starts, self.fenced, companion_scores)
        return companion_scores


class Drawn(NamedTuple):
    """Drawn companions."""

    own: Int32s  # the column of categories that a companion is for, or `NO_COLUMN`, shape (width, n_nodes)
    signs: Keys  # the stream of each companion's signs, shape (n_nodes, width)
    # the columns of each companion and their coefficients, node by node; a `NO_COLUMN` does not count
    sums: Projections

    def chosen(self, nodes: Ints, candidates: Int32s) -> Drawn:
        """Return one companion for each of some nodes."""
        own, signs = self.own[candidates, nodes], self.signs[nodes, candidates]
        return Drawn(own[np.newaxis], signs[:, np.newaxis], taken(self.sums, nodes, candidates))


@kernel
def draw_others(keys: Keys, cumulative: Floats, own: Int32s, offset: Ints, columns: Int32s, signs: Keys) -> None:
    """Replace a candidate's own column in its companion by another one, by weight; `NO_COLUMN` after `COLUMN_TRIES`."""
    width = own.shape[0]
    for f in range(keys.shape[0]):
        for k in range(width):
            signs[f, k] = mix(keys[f] + np.uint64(1 + k))
            key, first, last = mix(keys[f] + np.uint64(1 + width + k)), offset[f * width + k], offset[f * width + k + 1]
            for e in range(first, last):
                if columns[e] != own[k, f]:
                    continue
                columns[e] = NO_COLUMN
                for t in range(COLUMN_TRIES):
                    other = column_at(cumulative, unit(key, t))
                    if other != own[k, f] and other not in columns[first:last]:
                        columns[e] = other
                        break


@kernel
def fill_scores(
    nodes: Nodes, matrix: Float32s, numbers: CategoryNumbers, drawn: Drawn, companion_scores: CompanionScores
) -> None:
    """scores[k, r] = s of row r, and blur[k, f], where candidate k of node f is a column of categories.

    For a companion without a column, s is NaN.
    """
    (starts, rows, _), (own, signs, sums) = nodes, drawn
    width = own.shape[0]
    for f in range(own.shape[1]):
        for k in range(width):
            if own[k, f] == NO_COLUMN:
                continue
            n_read, blur, first, last = 0, 0.0, starts[f], starts[f + 1]
            for r in range(first, last):
                companion_scores.scores[k, r] = 0.0
            for e in range(sums.offset[f * width + k], sums.offset[f * width + k + 1]):
                c, coefficient = sums.columns[e], sums.weights[e]
                if c == NO_COLUMN:
                    continue
                n_read += 1
                if numbers.start[c + 1] > numbers.start[c]:
                    blur += coefficient * coefficient * BLUR
                for r in range(first, last):
                    value = number_at(np.float64(matrix[rows[r], c]), c, signs[f, k], numbers)
                    companion_scores.scores[k, r] += coefficient * value
            companion_scores.blur[k, f] = blur
            for r in range(first, last):
                if n_read == 0 or np.isnan(matrix[rows[r], own[k, f]]):
                    companion_scores.scores[k, r] = np.nan


@kernel
def find_stray(starts: Ints, fenced: bool, companion_scores: CompanionScores) -> None:
    """fences[:, k, f] = the fences of s, see `distforest.growth.cuts.fences`; infinite if not ``fenced``."""
    some = np.empty(longest_of(starts))
    companion_scores.fences[0], companion_scores.fences[1] = -np.inf, np.inf
    for f in range(starts.shape[0] - 1 if fenced else 0):
        for k in range(companion_scores.scores.shape[0]):
            if not np.isnan(companion_scores.blur[k, f]):
                _, _, lower, upper, _ = fences_of(companion_scores.scores[k, starts[f] : starts[f + 1]], MARGIN, some)
                if lower < upper:
                    companion_scores.fences[0, k, f], companion_scores.fences[1, k, f] = lower, upper


@kernel
def place_categories(
    starts: Ints, weights: Int32s, n_codes: int, companion_scores: CompanionScores, values: Floats
) -> None:
    """Replace codes by places: values[k, r] = the mean of s over the rows of the node with the category of row r.

    An s beyond the fences counts as the fence. Categories without a known s have no place: NaN.
    """
    scores, blur, fences, n_places = companion_scores
    tally = tally_for(n_codes, longest_of(starts), 1)
    for f in range(starts.shape[0] - 1):
        first, last = starts[f], starts[f + 1]
        for k in range(values.shape[0]):
            if np.isnan(blur[k, f]):
                continue
            n = number_categories(values[k, first:last], tally)
            for r in range(first, last):
                c, s = tally.local[r - first], scores[k, r]
                if c >= 0 and s == s:
                    tally.mass[c] += weights[r]
                    tally.vectors[c, 0] += weights[r] * min(max(s, fences[0, k, f]), fences[1, k, f])
            for c in range(n):
                n_places[k, f] += tally.mass[c] > 0.0
            for r in range(first, last):
                c = tally.local[r - first]
                known = c >= 0 and tally.mass[c] > 0.0
                values[k, r] = tally.vectors[c, 0] / tally.mass[c] if known else np.nan


@kernel
def keep_places(
    some_starts: Ints,
    some_codes: Floats,
    some_places: Floats,
    starts: Ints,
    codes: Floats,
    n_codes: int,
    places: Floats,
) -> None:
    """places[r] = the place of the category of row r among some rows of its node, if it has one there."""
    known = np.full(n_codes, np.nan)
    for f in range(starts.shape[0] - 1):
        for r in range(some_starts[f], some_starts[f + 1]):
            if not np.isnan(some_codes[r]):
                known[np.int64(some_codes[r])] = some_places[r]
        for r in range(starts[f], starts[f + 1]):
            if not np.isnan(codes[r]) and not np.isnan(known[np.int64(codes[r])]):
                places[r] = known[np.int64(codes[r])]
        for r in range(some_starts[f], some_starts[f + 1]):
            if not np.isnan(some_codes[r]):
                known[np.int64(some_codes[r])] = np.nan


@kernel
def score_categories(
    starts: Ints,
    weights: Int32s,
    places: Floats,
    companion_scores: CompanionScores,
    scoring: ClusterScoring,
    cuts: CandidateCuts,
) -> None:
    """Fill the scores of ``cuts`` from their thresholds, for columns of categories; -inf where a threshold is NaN.

    Values of s beyond the fences count in the weight of their side, but not in the score.
    """
    for f in range(starts.shape[0] - 1):
        first, last = starts[f], starts[f + 1]
        for k in range(places.shape[0]):
            if not np.isnan(companion_scores.blur[k, f]):
                x, s, w = places[k, first:last], companion_scores.scores[k, first:last], weights[first:last]
                fences = companion_scores.fences[0, k, f], companion_scores.fences[1, k, f]
                of_candidate = companion_scores.blur[k, f], companion_scores.n_places[k, f]
                cuts.scores[k, f] = score_places(x, s, w, fences, cuts.thresholds[k, f], of_candidate, scoring)


@no_refcount
def score_places(
    places: Floats,
    scores: Floats,
    weights: Int32s,
    fences: tuple[float, float],
    threshold: float,
    of_candidate: tuple[float, int],
    scoring: ClusterScoring,
) -> float:
    """Return the score of a threshold; -inf where a side is empty or too light. s is taken about its first value."""
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


@no_refcount
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
    """Return the score of a cut of ``n_places`` categories from SS_1, SS_2 and SS_0 of s; -inf if all s are equal."""
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
    starts: Ints,
    weights: Int32s,
    places: Floats,
    companion_scores: CompanionScores,
    scoring: ClusterScoring,
    cuts: CandidateCuts,
) -> None:
    """Fill ``cuts`` with the cut of the best score between two places, for columns of categories; the lowest of ties.

    No s is beyond a fence.
    """
    longest = longest_of(starts)
    order, above, seen = np.empty(longest, np.int64), np.empty((3, longest + 1)), np.empty(longest)
    keys, spare = np.empty(longest, np.uint64), np.empty(longest, np.uint64)
    for f in range(starts.shape[0] - 1):
        first, last = starts[f], starts[f + 1]
        for k in range(places.shape[0]):
            if np.isnan(companion_scores.blur[k, f]):
                continue
            for r in range(first, last):
                seen[r - first] = np.nan if np.isnan(companion_scores.scores[k, r]) else places[k, r]
            n = order_values(seen[: last - first], order, keys, spare)
            s, w = companion_scores.scores[k, first:last], weights[first:last]
            of_candidate = companion_scores.blur[k, f], companion_scores.n_places[k, f]
            cut = scan_places(seen, s, w, order[:n], of_candidate, scoring, above)
            cuts.thresholds[k, f], cuts.scores[k, f] = cut


@no_refcount
def scan_places(
    places: Floats,
    scores: Floats,
    weights: Int32s,
    order: Ints,
    of_candidate: tuple[float, int],
    scoring: ClusterScoring,
    above: Floats,
) -> tuple[float, float]:
    """Return threshold and score of the best cut in the order of places; -inf if there is none.

    ``above[:, e]`` becomes the weight, the mean and SS of s from position e of the order on, s about its first value.
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
