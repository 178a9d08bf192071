"""URerF in plain NumPy, from its formulas (Madhyastha et al.; the screen is the house's): what its kernels must equal.

`values` are one projection of the rows of one node, `weights` their multiplicities (positive integers, n = their sum).
A cut lies between two neighbouring distinct values, below <= t < above, with at least `min_leaf` of n on each side.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.stats import chi2

FLOOR = 1e-12  # the least variance of a side, as a share of the node's
BINS = 8
MARGIN = 0.3  # share of a node's values that lie on either side of a random cut at least
FALSE_PAIRS = 0.01  # pairs expected to be significant of all pairs of independent features
TOLERANCE = 1e-8  # EM stops when the log-likelihood of a row, on average, rises by less
ROUNDS = 500

Vector = NDArray[Any]
Matrix = NDArray[Any]
Integers = NDArray[Any]
Mask = NDArray[np.bool_]


class Cut(NamedTuple):
    """A cut between two neighbouring distinct values, and what a criterion says of it; larger is better."""

    below: float
    above: float
    score: float


# Cuts


def mean(values: Vector, weights: Integers) -> float:
    """sum w x / n."""
    return float(np.sum(weights * values) / np.sum(weights))


def squares(values: Vector, weights: Integers) -> float:
    """SS = sum w (x - mean)^2, in two passes."""
    return float(np.sum(weights * (values - mean(values, weights)) ** 2))


def variance(values: Vector, weights: Integers) -> float:
    """SS / n: the maximum likelihood estimate."""
    return squares(values, weights) / float(np.sum(weights))


def partitions(values: Vector, weights: Integers, min_leaf: int = 1) -> list[tuple[float, float, Mask]]:
    """Each allowed cut from the lowest up: the values on its two sides, and which rows go left."""
    found = []
    for below, above in pairwise(np.unique(values)):
        left = values <= below
        if min(np.sum(weights[left]), np.sum(weights[~left])) >= min_leaf:
            found.append((float(below), float(above), left))
    return found


def two_means_cuts(values: Vector, weights: Integers, min_leaf: int = 1) -> list[Cut]:
    """SS(node) - SS(left) - SS(right) of each allowed cut."""
    return [
        Cut(a, b, squares(values, weights) - squares(values[L], weights[L]) - squares(values[~L], weights[~L]))
        for a, b, L in partitions(values, weights, min_leaf)
    ]


def first_best(cuts: list[Cut], rounding: float = 1e-12) -> Cut:
    """The lowest of the cuts whose score is the largest, but for rounding."""
    top = max(cut.score for cut in cuts)
    return next(cut for cut in cuts if cut.score >= top - rounding * abs(top))


# Fast-BIC


def one_cluster_score(values: Vector, weights: Integers) -> float:
    """n log(2 pi v) + n + 2 log n; minus infinity of equal values."""
    if np.unique(values).size == 1:
        return -math.inf
    n, v = float(np.sum(weights)), variance(values, weights)
    return n * math.log(2 * math.pi * v) + n + 2 * math.log(n)


def hard_log_likelihood(sizes: tuple[float, float], variances: tuple[float, float]) -> float:
    """sum over the sides of n_k log w_k - n_k/2 log(2 pi v_k), less n/2; w_k = n_k/n (Eq. 5 and 6)."""
    n = sum(sizes)
    sides = zip(sizes, variances, strict=True)
    return sum(m * math.log(m / n) - m / 2 * math.log(2 * math.pi * v) for m, v in sides) - n / 2


def two_cluster_scores(
    left: Vector, w_left: Integers, right: Vector, w_right: Integers, floor: float = FLOOR
) -> tuple[float, float]:
    """(diff, same) = (-2 logL(v1, v2) + 5 log n, -2 logL(v_p, v_p) + 4 log n); smaller is better.

    v_p = (n1 v1 + n2 v2) / n; variances are at least floor times the node's. diff is infinite unless both sides have
    two distinct values.
    """
    sizes = (float(np.sum(w_left)), float(np.sum(w_right)))
    n = sum(sizes)
    v1, v2 = variance(left, w_left), variance(right, w_right)
    least = floor * variance(np.concatenate([left, right]), np.concatenate([w_left, w_right]))
    pooled = max((sizes[0] * v1 + sizes[1] * v2) / n, least)
    same = -2 * hard_log_likelihood(sizes, (pooled, pooled)) + 4 * math.log(n)
    if min(np.unique(left).size, np.unique(right).size) < 2:
        return math.inf, same
    return -2 * hard_log_likelihood(sizes, (max(v1, least), max(v2, least))) + 5 * math.log(n), same


def fast_bic_score(left: Vector, w_left: Integers, right: Vector, w_right: Integers, floor: float = FLOOR) -> float:
    """min(diff, same); smaller is better."""
    return min(two_cluster_scores(left, w_left, right, w_right, floor))


def fast_bic_cuts(values: Vector, weights: Integers, min_leaf: int, relative: bool, floor: float = FLOOR) -> list[Cut]:
    """-min(diff, same) of each allowed cut, plus the one-cluster score where `relative`."""
    return [
        Cut(
            a,
            b,
            (one_cluster_score(values, weights) if relative else 0.0)
            - fast_bic_score(values[L], weights[L], values[~L], weights[~L], floor),
        )
        for a, b, L in partitions(values, weights, min_leaf)
    ]


def exact_squares(values: Vector, weights: Integers) -> Fraction:
    """SS without any rounding."""
    numbers = [Fraction(float(x)) for x in values]
    often = [int(w) for w in weights]
    middle = sum(w * x for w, x in zip(often, numbers, strict=True)) / sum(often)
    return sum((w * (x - middle) ** 2 for w, x in zip(often, numbers, strict=True)), Fraction(0))


def exact_bic(values: Vector, weights: Integers, left: Mask, equal: bool, floor: float = FLOOR) -> float:
    """The one-cluster score less Fast-BIC, or its equal-variance half, of a partition: only logarithms are rounded."""
    n, sizes = int(np.sum(weights)), (int(np.sum(weights[left])), int(np.sum(weights[~left])))
    within = [exact_squares(values[side], weights[side]) for side in (left, ~left)]
    whole = exact_squares(values, weights) / n
    least = Fraction(floor) * whole
    shares = -2 * sum(m * math.log(m / n) for m in sizes)
    bic = shares + n * log_fraction(max(sum(within) / n, least)) + n * math.log(2 * math.pi) + n + 4 * math.log(n)
    if not equal and min(np.unique(values[left]).size, np.unique(values[~left]).size) > 1:
        logs = [m * log_fraction(max(own / m, least)) for m, own in zip(sizes, within, strict=True)]
        bic = min(bic, shares + sum(logs) + n * math.log(2 * math.pi) + n + 5 * math.log(n))
    return n * log_fraction(whole) + n * math.log(2 * math.pi) + n + 2 * math.log(n) - bic


def log_fraction(x: Fraction) -> float:
    """Logarithm of a fraction of any size."""
    return math.log(x.numerator) - math.log(x.denominator)


def exact_bic_cuts(values: Vector, weights: Integers, equal: bool) -> list[Cut]:
    """`exact_bic` of each cut."""
    return [Cut(a, b, exact_bic(values, weights, left, equal)) for a, b, left in partitions(values, weights)]


# Mclust-BIC


class Mixture(NamedTuple):
    """Two Gaussians on a line: shares, means and variances of both; the lower start first."""

    shares: Vector
    means: Vector
    variances: Vector


class MclustFit(NamedTuple):
    """The better of the two models: its score (smaller is better), where it cuts, and what it found."""

    bic: float
    threshold: float
    mixture: Mixture
    equal: bool
    log_likelihood: float
    rounds: int


def log_densities(values: Vector, mixture: Mixture) -> Matrix:
    """log(pi_k) + log N(x; mu_k, v_k): components by rows, (2, m)."""
    pi, mu, v = (part[:, None] for part in mixture)
    return np.log(pi) - np.log(2 * np.pi * v) / 2 - (values - mu) ** 2 / (2 * v)


def maximised(values: Vector, weights: Integers, shares: Matrix, equal: bool, least: float) -> Mixture:
    """The M step: `shares` (2, m) of each row, times its weight, are what a component is made of."""
    mass = shares * weights
    sizes = mass.sum(axis=1)
    means = (mass * values).sum(axis=1) / sizes
    scatter = (mass * (values - means[:, None]) ** 2).sum(axis=1)
    v = np.full(2, scatter.sum() / sizes.sum()) if equal else scatter / sizes
    return Mixture(sizes / sizes.sum(), means, np.maximum(v, least))


def fitted(values: Vector, weights: Integers, equal: bool, floor: float = FLOOR) -> tuple[Mixture, float, int]:
    """EM from the best two-means cut, M step first: the mixture, its log-likelihood, the rounds it took."""
    left = values <= first_best(two_means_cuts(values, weights)).below
    shares = np.array([left, ~left], dtype=float)
    n, least, before = float(np.sum(weights)), floor * variance(values, weights), -math.inf
    for rounds in range(1, ROUNDS + 1):  # noqa: B007  (it is returned)
        mixture = maximised(values, weights, shares, equal, least)
        logs = log_densities(values, mixture)
        rows = np.logaddexp(logs[0], logs[1])
        after = float(np.sum(weights * rows))
        if after - before < TOLERANCE * n:
            break
        shares, before = np.exp(logs - rows), after
    return mixture, after, rounds


def equally_likely(mixture: Mixture) -> float:
    """The x between the means with pi_1 N(x; mu_1, v_1) = pi_2 N(x; mu_2, v_2); if there is none, their midpoint.

    At most one root lies between them: the parabola's vertex (mu_1 v_2 - mu_2 v_1) / (v_2 - v_1) never does.
    """

    def lead(x: float) -> float:
        first, second = log_densities(np.array([x]), mixture)[:, 0]
        return float(first - second)

    low, high = float(mixture.means.min()), float(mixture.means.max())
    if low == high or lead(low) * lead(high) > 0:
        return (low + high) / 2
    return float(brentq(lead, low, high, xtol=1e-15 * (high - low), rtol=1e-15))


def mclust_bic(values: Vector, weights: Integers, floor: float = FLOOR) -> MclustFit:
    """The smaller of -2 logL + d log n of unequal (V, d = 5) and equal variances (E, d = 4; wins ties).

    V is asked for only if both sides of the start have two distinct values, and believed only if both its variances
    end above the floor.
    """
    n, least, fits = float(np.sum(weights)), floor * variance(values, weights), []
    left = values <= first_best(two_means_cuts(values, weights)).below
    asked = min(np.unique(values[left]).size, np.unique(values[~left]).size) > 1
    for equal, parameters in ((True, 4), (False, 5)) if asked else ((True, 4),):
        mixture, likelihood, rounds = fitted(values, weights, equal, floor)
        bic = -2 * likelihood + parameters * math.log(n)
        if equal or mixture.variances.min() > least:
            fits.append(MclustFit(bic, equally_likely(mixture), mixture, equal, likelihood, rounds))
    return min(fits, key=lambda fit: fit.bic)


# Random cuts and witnesses


class Fences(NamedTuple):
    """Between which values a random cut lies, outside of which nothing is heard, and the margin that was needed."""

    first: float
    last: float
    lower: float
    upper: float
    left_out: float


def fences(values: Vector, margin: float = MARGIN) -> Fences:
    """Of ascending x_0 .. x_{m-1}: b = x_{floor(a m)}, c = x_{m-1-floor(a m)}, a halved from `margin` until b < c.

    The fences are 0.9 (c - b) / a from b and c, infinite once floor(a m) = 0. A cut lies between b and c if the first a
    did, else between the extremes within the fences. There are two distinct values.
    """
    x, m, a = np.sort(values), values.size, margin
    while math.floor(a * m) > 0 and x[math.floor(a * m)] == x[m - 1 - math.floor(a * m)]:
        a /= 2
    if math.floor(a * m) == 0:
        return Fences(float(x[0]), float(x[-1]), -math.inf, math.inf, a)
    b, c = float(x[math.floor(a * m)]), float(x[m - 1 - math.floor(a * m)])
    lower, upper = b - 0.9 / a * (c - b), c + 0.9 / a * (c - b)
    heard = x[(lower <= x) & (x <= upper)]
    return Fences(*((b, c) if a == margin else (float(heard[0]), float(heard[-1]))), lower, upper, a)


def is_heard(values: Vector) -> Mask:
    """Whether each value is observed and within the fences of all that are."""
    seen = ~np.isnan(values)
    if np.unique(values[seen]).size < 2:
        return seen
    found = fences(values[seen])
    return seen & (found.lower <= values) & (values <= found.upper)


def inverse_deviations(X: Matrix) -> Vector:
    """1 / deviation of what is heard of each column; 0 for a constant one."""
    found = [math.sqrt(variance(column[is_heard(column)], np.ones(is_heard(column).sum()))) for column in X.T]
    return np.array([1 / deviation if deviation > 0 else 0.0 for deviation in found])


def random_cut_gain(values: Vector, weights: Integers, left: Mask, floor: float = FLOOR) -> float:
    """The one-cluster score less equal-variance Fast-BIC of a given partition; larger is better."""
    same = two_cluster_scores(values[left], weights[left], values[~left], weights[~left], floor)[1]
    return one_cluster_score(values, weights) - same


def witness_gain(witnesses: Matrix, weights: Integers, left: Mask, floor: float = FLOOR) -> float:
    """n log(total / within), the mean over the columns of `witnesses` (m, n_witnesses), of their values that are heard.

    NaN is not heard; a column that is constant, or not heard on one side, says 0.
    """
    gains = []
    for column in witnesses.T:
        heard = ~np.isnan(column)
        own, w, side = column[heard], weights[heard], left[heard]
        if np.unique(own).size == 1 or side.all() or not side.any():
            gains.append(0.0)
            continue
        total = squares(own, w)
        within = squares(own[side], w[side]) + squares(own[~side], w[~side])
        gains.append(float(np.sum(w)) * math.log(total / max(within, floor * total)))
    return float(np.mean(gains))


# Categories, judged by what a companion says of them


def companion_score(
    s: Vector, weights: Integers, left: Mask, blur: float, n_categories: int, criterion: str, relative: bool
) -> float:
    """The score of a partition of rows between unions of categories, by the values `s` of the companion.

    With SS_k + n_k b for SS_k in a BIC, less n log(p_1^3 + p_2^3), less 2 (a - 1) log 2. -inf if all s are equal.
    """
    if np.unique(s).size == 1:
        return -math.inf
    n, sides = float(np.sum(weights)), (left, ~left)
    sizes = [float(np.sum(weights[side])) for side in sides]
    within = [squares(s[side], weights[side]) for side in sides]
    total = squares(s, weights)
    if criterion == "two_means":
        return (total if relative else 0.0) - sum(within)
    variances = [ss / m + blur for ss, m in zip(within, sizes, strict=True)]
    whole, least = total / n + blur, FLOOR * (total / n + blur)
    pooled = max(sum(m * v for m, v in zip(sizes, variances, strict=True)) / n, least)
    bic = -2 * hard_log_likelihood((sizes[0], sizes[1]), (pooled, pooled)) + 4 * math.log(n)
    if criterion == "fast_bic" and (blur > 0 or min(np.unique(s[side]).size for side in sides) > 1):
        own = max(variances[0], least), max(variances[1], least)
        bic = min(bic, -2 * hard_log_likelihood((sizes[0], sizes[1]), own) + 5 * math.log(n))
    of_one = n * math.log(2 * math.pi * whole) + n + 2 * math.log(n) if relative else 0.0
    hidden = sum((m / n) ** 3 for m in sizes)
    return of_one - bic - n * math.log(hidden) - 2 * (n_categories - 1) * math.log(2)


def category_places(s: Vector, weights: Integers, categories: Integers) -> Vector:
    """The mean of s over the rows of each row's category."""
    means = {c: mean(s[categories == c], weights[categories == c]) for c in np.unique(categories)}
    return np.array([means[c] for c in categories])


def subset_scores(
    s: Vector, weights: Integers, categories: Integers, blur: float, criterion: str, relative: bool
) -> list[float]:
    """The score of each way to part the categories into two sets."""
    names = np.unique(categories)
    scores = []
    for bits in range(1, 2 ** (names.size - 1)):
        left = np.isin(categories, [name for e, name in enumerate(names[1:]) if bits >> e & 1])
        scores.append(companion_score(s, weights, left, blur, names.size, criterion, relative))
    return scores


# The dependence screen


class Screen(NamedTuple):
    """What the screen finds of p features."""

    largest: Vector
    strength: Vector
    significant: Mask
    weights: Vector


def ranks(column: Vector, ties: Vector) -> Integers:
    """0..n-1 in ascending order of (value, tie-break)."""
    order = np.lexsort((ties, column))
    places = np.empty(column.size, dtype=np.int64)
    places[order] = np.arange(column.size)
    return places


def ranks_in_bins(column: Vector, ties: Vector, B: int = BINS) -> Integers:
    """floor(B rank / n): 0..B-1, sizes that differ by at most one."""
    return ranks(column, ties) * B // column.size


def g_statistic(codes_a: Integers, codes_b: Integers, B: int = BINS) -> float:
    """2 n MI = 2 sum_ab c_ab log(c_ab n / (c_a c_b)), natural logarithms."""
    n, total = codes_a.size, 0.0
    for a in range(B):
        for b in range(B):
            both = int(np.sum((codes_a == a) & (codes_b == b)))
            if both:
                total += 2 * both * math.log(both * n / (int(np.sum(codes_a == a)) * int(np.sum(codes_b == b))))
    return total


def largest_over_partners(columns: Integers | Matrix, statistic: Callable[..., float]) -> Vector:
    """Of each column of (n, p), the largest statistic with another one; -inf for a lone column."""
    p = columns.shape[1]
    pairs = [[statistic(columns[:, j], columns[:, k]) for k in range(p) if k != j] for j in range(p)]
    return np.array([max(row, default=-math.inf) for row in pairs])


def false_pairs(largest: Vector, n: int, B: int = BINS) -> Vector:
    """p (p-1) / 2 times the chance that chi-square with (B-1)^2 degrees exceeds G / (1 + (B+1)^2 / (6 n)); p >= 2."""
    p = largest.size
    return p * (p - 1) / 2 * np.asarray(chi2.sf(largest / (1 + (B + 1) ** 2 / (6 * n)), (B - 1) ** 2))


def dependence_strength(largest: Vector, n: int, B: int = BINS) -> Vector:
    """u = clip((max G - (B-1)^2) / (2 n log B), 0, 0.999)."""
    return np.clip((largest - (B - 1) ** 2) / (2 * n * math.log(B)), 0, 0.999)


def feature_weights(by_chance: Vector, edge: float = FALSE_PAIRS) -> Vector:
    """Significant is what has by_chance < edge; q is their share. Without any all weigh the same.

    If evidence were no matter they would share 1 - q(1-q) equally, and the others q(1-q). A significant
    one has so many times the weight of another, but at most edge / by_chance times.
    """
    significant = by_chance < edge
    weights = np.ones(by_chance.size)
    if significant.any():
        q = float(np.mean(significant))
        for j in np.flatnonzero(significant):
            own = (1 - q * (1 - q)) / significant.sum()
            other = q / by_chance.size  # q (1-q) among (1-q) p
            weights[j] = min(own / other, edge / by_chance[j] if by_chance[j] > 0 else math.inf)
    return weights / weights.sum()


def dependence_screen(X: Matrix, ties: Matrix, B: int = BINS) -> Screen:
    """The screen of X (n, p) with a tie-break for each entry, every pair of features looked at; p >= 2."""
    n, p = X.shape
    codes = np.column_stack([ranks_in_bins(X[:, j], ties[:, j], B) for j in range(p)])
    largest = largest_over_partners(codes, lambda a, b: g_statistic(a, b, B))
    strength, by_chance = dependence_strength(largest, n, B), false_pairs(largest, n, B)
    return Screen(largest, strength, by_chance < FALSE_PAIRS, feature_weights(by_chance))


def legendre_columns(places: Integers) -> Matrix:
    """P_1, P_2, P_3 at x = (2 rank + 1) / m - 1, each with mean 0 and variance 1 over the m rows, (m, 3)."""
    x = (2 * places + 1) / places.size - 1
    columns = np.column_stack([x, (3 * x**2 - 1) / 2, (5 * x**3 - 3 * x) / 2])
    return (columns - columns.mean(axis=0)) / columns.std(axis=0)


def legendre_statistic(places_a: Integers, places_b: Integers) -> float:
    """m times the sum of the 9 squared correlations of the Legendre columns of two rankings; about chi-square(9)."""
    m = places_a.size
    return float(m * np.sum((legendre_columns(places_a).T @ legendre_columns(places_b) / m) ** 2))


# Proximities


def proximity(left: Integers, right: Integers) -> Matrix:
    """The share of trees in which rows i and j lie in one node: left (T, n), right (T, m) -> (n, m)."""
    together = left[:, :, None] == right[:, None, :]
    return together.sum(axis=0) / left.shape[0]


def out_of_bag_proximity(nodes: Integers, in_bag: Integers) -> tuple[Matrix, Integers]:
    """The same over the T_ij trees that drew neither i nor j, and T_ij; NaN where there is none. Both are (T, n)."""
    out = in_bag == 0
    n = nodes.shape[1]
    shares, counts = np.full((n, n), np.nan), np.zeros((n, n), dtype=np.int64)
    for i in range(n):
        for j in range(n):
            trees = out[:, i] & out[:, j]
            counts[i, j] = trees.sum()
            if counts[i, j]:
                shares[i, j] = np.sum(nodes[trees, i] == nodes[trees, j]) / counts[i, j]
    return shares, counts


def nearest(proximities: Matrix, k: int, leave_out_self: bool = True) -> tuple[Integers, Matrix]:
    """Of each row the k most proximate columns, ties to the lower index, and their proximities; NaN comes last."""
    found = []
    for i, row in enumerate(proximities):
        others = [j for j in range(row.size) if not (leave_out_self and j == i)]
        found.append(sorted(others, key=lambda j: (math.inf if math.isnan(row[j]) else -row[j], j))[:k])
    indices = np.array(found, dtype=np.int64)
    return indices, np.take_along_axis(proximities, indices, axis=1)
