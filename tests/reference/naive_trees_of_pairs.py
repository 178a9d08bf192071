"""Forests over pairs in plain loops and Fractions: RFD and Similarity TreeRank as their formulas say, to compare with.

A pair is a row of symmetric columns. Code 0 is must-link, similar (+); code 1 is cannot-link, unlike (-). Weights are
whole numbers, how often a pair was drawn: a pair of weight 0 is routed but never counted. Values are finite.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations, groupby, pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chisquare

from tests.reference.naive import ROUNDING, midpoint

Vector = Sequence[float] | NDArray[Any]
Matrix = NDArray[Any]
Integers = Sequence[int] | NDArray[Any]
Costs = tuple[int | float | Fraction, int | float | Fraction]
Counts = tuple[int, int]
Pair = tuple[int, int]
Tree = dict[str, Any]
Knot = tuple[Fraction, Fraction]

# Columns of a pair


def pair_columns(x: Vector, x2: Vector, family: str) -> NDArray[np.float32]:
    """The columns of one pair, each rounded once to float32 (RFD, Eq. 3; TreeRank, section 3.1).

    difference: |x_c - x'_c|; difference_mean: the same, then (x_c + x'_c)/2; max_min: max(x_c, x'_c), then min.
    Sums are float64: float32 numbers so summed and then rounded to float32 are rounded as if exact (53 >= 2 * 24 + 2).
    """
    a, b = [float(v) for v in x], [float(v) for v in x2]
    together = list(zip(a, b, strict=True))
    if family == "difference":
        columns = [abs(u - v) for u, v in together]
    elif family == "difference_mean":
        columns = [abs(u - v) for u, v in together] + [(u + v) / 2 for u, v in together]
    elif family == "max_min":
        columns = [max(u, v) for u, v in together] + [min(u, v) for u, v in together]
    else:
        raise ValueError(family)
    return np.array([value + 0.0 for value in columns], dtype=np.float32)  # + 0.0: no -0, so no order shows


def dot_column(a: Vector, b: Vector) -> np.float32:
    """sum_q a_q b_q, added in float64 from the first entry on, then rounded to float32."""
    total = 0.0
    for u, v in zip(a, b, strict=True):
        total += float(u) * float(v)
    return np.float32(total)


def same_column(a: Vector, b: Vector) -> np.float32:
    """#{q : a_q = b_q} / length, rounded to float32."""
    return np.float32(sum(u == v for u, v in zip(a, b, strict=True)) / len(a))


def distance_column(a: Vector, b: Vector) -> np.float32:
    """sqrt(sum_q (a_q - b_q)^2), added in float64 from the first entry on, then rounded to float32."""
    total = 0.0
    for u, v in zip(a, b, strict=True):
        total += (float(u) - float(v)) ** 2
    return np.float32(math.sqrt(total))


def pair_table(
    X: Matrix,
    pairs: Sequence[Pair] | Matrix,
    family: str,
    dots: Sequence[Matrix] = (),
    sames: Sequence[Matrix] = (),
    distances: Sequence[Matrix] = (),
) -> NDArray[np.float32]:
    """All columns of all pairs (m, C): of the family, then a distance, a dot and a same column for each matrix."""
    rows = []
    for i, j in pairs:
        further = [distance_column(M[i], M[j]) for M in distances]
        further += [dot_column(M[i], M[j]) for M in dots] + [same_column(M[i], M[j]) for M in sames]
        rows.append([*pair_columns(X[i], X[j], family), *further])
    return np.array(rows, dtype=np.float32)


# Cuts


class Cut(NamedTuple):
    """The best cut of a node: `column` -1 and gain 0 where there is none."""

    column: int
    threshold: float
    gain: Fraction


NO_CUT = Cut(-1, 0.0, Fraction(0))


@dataclass(frozen=True)
class Sample:
    """Pairs to learn from. The first `squares` columns are maxima, the next `squares` minima, cut together."""

    values: Matrix
    codes: Integers
    weights: Integers
    squares: int = 0

    def candidates(self) -> list[int]:
        """What may be cut, in order: coordinates of the square region, then further columns by their number."""
        return [*range(self.squares), *range(2 * self.squares, np.shape(self.values)[1])]

    def counts(self, rows: Sequence[int]) -> Counts:
        """(n_0, n_1): the weight of each code."""
        sums = [0, 0]
        for row in rows:
            sums[int(self.codes[row])] += int(self.weights[row])
        return sums[0], sums[1]


def goes_left(row: Vector, column: int, threshold: float, squares: int = 0) -> bool:
    """v <= threshold; for a coordinate of a square region, min <= threshold < max: the threshold separates the pair."""
    if column < squares:
        return float(row[column + squares]) <= threshold < float(row[column])
    return float(row[column]) <= threshold


def gini(counts: Counts, costs: Costs) -> Fraction:
    """P(S)/m = 2 m_0 m_1/(m_0 + m_1) with m_s = c_s n_s."""
    m0, m1 = (Fraction(cost) * count for cost, count in zip(costs, counts, strict=True))
    return 2 * m0 * m1 / (m0 + m1) if m0 + m1 else Fraction(0)


def gain_of(left: Counts, right: Counts, costs: Costs) -> Fraction:
    """P(S)/m - P(L)/m_L - P(R)/m_R."""
    both = (left[0] + right[0], left[1] + right[1])
    return gini(both, costs) - gini(left, costs) - gini(right, costs)


def places(sample: Sample, rows: Sequence[int], column: int) -> list[float]:
    """The midpoints between neighbouring distinct values of a candidate, from the lowest up.

    A coordinate of a square region has two values a pair, its maximum and its minimum.
    """
    columns = (column, column + sample.squares) if column < sample.squares else (column,)
    seen = sorted({float(sample.values[row][c]) for row in rows if sample.weights[row] > 0 for c in columns})
    return [midpoint(a, b) for a, b in pairwise(seen)]


def every_cut(
    sample: Sample,
    rows: Sequence[int],
    costs: Costs,
    min_leaf: int,
    thresholds: Sequence[Sequence[float]] | None = None,
) -> list[Cut]:
    """Each allowed cut in order: candidate by candidate, thresholds from the lowest up."""
    cuts = []
    for column in sample.candidates():
        for t in places(sample, rows, column) if thresholds is None else sorted(thresholds[column]):
            sides: tuple[list[int], list[int]] = ([], [])
            for row in rows:
                sides[0 if goes_left(sample.values[row], column, t, sample.squares) else 1].append(row)
            left, right = sample.counts(sides[0]), sample.counts(sides[1])
            if min(sum(left), sum(right)) >= max(min_leaf, 1):
                cuts.append(Cut(column, t, gain_of(left, right, costs)))
    return cuts


def first_best(cuts: Sequence[Cut], whole: Fraction) -> Cut:
    """The first cut whose gain is the largest but for rounding; the first of all where all gain 0 beside `whole`."""
    top = max((cut.gain for cut in cuts), default=Fraction(0))
    if top <= ROUNDING * whole:
        return cuts[0]._replace(gain=Fraction(0)) if cuts else NO_CUT
    return next(cut for cut in cuts if cut.gain >= top * (1 - ROUNDING))


def best_of(sample: Sample, rows: Sequence[int], costs: Costs, min_leaf: int) -> Cut:
    """The best cut of `rows` at any midpoint of any candidate."""
    return first_best(every_cut(sample, rows, costs, min_leaf), gini(sample.counts(rows), costs))


def best_cut(
    columns: Matrix,
    codes: Integers,
    weights: Integers,
    costs: Costs,
    min_leaf: int,
    thresholds: Sequence[Sequence[float]] | None = None,
) -> Cut:
    """The best (column, threshold, gain) of columns (m, C), at every midpoint or at the `thresholds` of each column."""
    sample, rows = Sample(np.asarray(columns), codes, weights), range(len(codes))
    return first_best(every_cut(sample, rows, costs, min_leaf, thresholds), gini(sample.counts(rows), costs))


def quantile_edges(values: Vector, max_bins: int) -> list[float]:
    """Where the bins of some values end, but for the last bin: midpoints between neighbouring distinct values.

    The i-th of n ordered values, i from 0, is (i + 1/2)/n of the way up; a value is where the mean of its equals is, in
    bin floor(max_bins times that). Where there are no more distinct values than bins, each has a bin of its own.
    """
    ordered = sorted(float(value) for value in values)
    distinct, bins = [], []
    for value, equals in groupby(enumerate(ordered), key=lambda place: place[1]):
        ways = [Fraction(2 * i + 1, 2 * len(ordered)) for i, _ in equals]
        distinct.append(value)
        bins.append(math.floor(max_bins * sum(ways, Fraction(0)) / len(ways)))
    if len(distinct) <= max_bins:
        bins = list(range(len(distinct)))
    return [midpoint(*distinct[k : k + 2]) for k in range(len(distinct) - 1) if bins[k] < bins[k + 1]]


def code_of(value: float, edges: Sequence[float]) -> int:
    """How many bins end below a value."""
    return sum(value > edge for edge in edges)


def best_square_cut(
    largest: Matrix, smallest: Matrix, codes: Integers, weights: Integers, costs: Costs, min_leaf: int
) -> Cut:
    """The best (coordinate, A, gain) from maxima and minima (m, p): pairs that A separates go left, others right."""
    values = np.hstack([largest, smallest])
    return best_of(Sample(values, codes, weights, np.shape(largest)[1]), range(len(codes)), costs, min_leaf)


# One tree


@dataclass(frozen=True)
class Limits:
    """When a node is closed. `min_samples_leaf` and `min_samples_split` count weights."""

    max_depth: int | None = None
    min_samples_leaf: int = 1
    min_samples_split: int = 2


def grow_tree(
    sample: Sample,
    costs: Costs = (1, 1),
    limits: Limits = Limits(),
    rows: Sequence[int] | None = None,
    depth: int = 0,
) -> Tree:
    """CART, exactly: each node is a dict of `rows` and `counts`; an inner one has column, threshold, gain, left, right.

    Closed: one code only, too deep, too light, or no cut.
    """
    rows = list(range(len(sample.codes))) if rows is None else list(rows)
    counts = sample.counts(rows)
    node: Tree = {"rows": rows, "counts": counts}
    if min(counts) == 0 or sum(counts) < limits.min_samples_split or depth == limits.max_depth:
        return node
    cut = best_of(sample, rows, costs, limits.min_samples_leaf)
    if cut.column < 0:
        return node
    left = [row for row in rows if goes_left(sample.values[row], cut.column, cut.threshold, sample.squares)]
    right = [row for row in rows if row not in left]
    return node | {
        "column": cut.column,
        "threshold": cut.threshold,
        "gain": cut.gain,
        "squares": sample.squares,
        "left": grow_tree(sample, costs, limits, left, depth + 1),
        "right": grow_tree(sample, costs, limits, right, depth + 1),
    }


def leaf_of(tree: Tree, row: Vector) -> Tree:
    """The leaf of a tree of `grow_tree` in which a pair ends."""
    while "left" in tree:
        tree = tree["left" if goes_left(row, tree["column"], tree["threshold"], tree["squares"]) else "right"]
    return tree


def leaves_of(tree: Tree) -> list[Tree]:
    """The leaves of any tree here, from left to right."""
    return leaves_of(tree["left"]) + leaves_of(tree["right"]) if "left" in tree else [tree]


def inner_of(tree: Tree) -> list[Tree]:
    """The inner nodes of any tree here, each before its left and then its right part."""
    return [tree, *inner_of(tree["left"]), *inner_of(tree["right"])] if "left" in tree else []


# Votes


def vote(counts: Counts, tie: Fraction = Fraction(0)) -> Fraction:
    """f_t of RFD's Eq. 4: 1 where cannot-link pairs are the majority of a leaf, 0 where must-link pairs are."""
    return tie if counts[0] == counts[1] else Fraction(int(counts[1] > counts[0]))


def distance(trees: Sequence[Tree], row: Vector, voting: str, tie: Fraction = Fraction(0)) -> Fraction:
    """Dist of a pair from its leaves.

    majority: mean of the votes (RFD, Eq. 4); mean: mean of n_1/n; evidence: sum of n_1 / sum of n (RFD, section 2.4).
    """
    found: list[Counts] = [leaf_of(tree, row)["counts"] for tree in trees]
    if voting == "evidence":
        return Fraction(sum(n1 for _, n1 in found), sum(n0 + n1 for n0, n1 in found))
    if voting == "majority":
        return sum((vote(counts, tie) for counts in found), Fraction(0)) / len(found)
    if voting == "mean":
        return sum((Fraction(n1, n0 + n1) for n0, n1 in found), Fraction(0)) / len(found)
    raise ValueError(voting)


def drawn_points(pairs: Sequence[Pair] | Matrix, weights: Integers) -> set[int]:
    """The points of the pairs that were drawn."""
    return {int(point) for pair, weight in zip(pairs, weights, strict=True) if weight > 0 for point in pair}


def out_of_bag_distance(
    trees: Sequence[Tree], drawn: Sequence[set[int]], pair: Pair, row: Vector, voting: str, tie: Fraction = Fraction(0)
) -> Fraction | None:
    """Dist by the trees for which neither point of the pair was drawn; None where every tree has seen one."""
    blind = [tree for tree, points in zip(trees, drawn, strict=True) if not points & set(pair)]
    return distance(blind, row, voting, tie) if blind else None


# Similarity TreeRank


@dataclass(frozen=True)
class Ranking:
    """How a ranking tree grows; `optimise_fpr`: only cells that begin left of this false positive rate are parted."""

    depth: int
    leafrank: Limits
    optimise_fpr: Fraction | None = None


def treerank(sample: Sample, ranking: Ranking) -> Tree:
    """Similarity TreeRank (Clemencon and Vogel, section 3.1): cells as dicts, knots in Fractions.

    A cell has depth d, its number k, alpha = (alpha_{d,k}, alpha_{d,k+1}), beta alike, counts (n_+, n_-) and rows; an
    inner one also gain (its Lambda), rule (the LeafRank, whose leaves say whether they are `positive`), left, right.
    """
    everything = list(range(len(sample.codes)))
    ends = (Fraction(0), Fraction(1))
    root: Tree = {"depth": 0, "k": 0, "alpha": ends, "beta": ends, "rows": everything}
    return _part(root | {"counts": sample.counts(everything)}, sample, ranking)


def _part(cell: Tree, sample: Sample, ranking: Ranking) -> Tree:
    """Step 2 of the paper for one cell and those below it; a leaf if too deep, one-sided, past the rate, or no gain."""
    (a_low, a_high), (b_low, b_high) = cell["alpha"], cell["beta"]
    late = ranking.optimise_fpr is not None and a_low >= ranking.optimise_fpr
    if cell["depth"] == ranking.depth or min(cell["counts"]) == 0 or late:
        return cell
    rule = leafrank(sample, cell, ranking.leafrank)
    left, right = ([r for r in cell["rows"] if leaf_of(rule, sample.values[r])["positive"] == p] for p in (True, False))
    f_plus, f_minus = shares(sample, left)
    gain = (a_high - a_low) * f_plus - (b_high - b_low) * f_minus
    if gain <= 0:  # an empty side has gain 0
        return cell
    a, b = a_low + f_minus, b_low + f_plus
    below, k = cell["depth"] + 1, 2 * cell["k"]
    first = {"depth": below, "k": k, "alpha": (a_low, a), "beta": (b_low, b)}
    second = {"depth": below, "k": k + 1, "alpha": (a, a_high), "beta": (b, b_high)}
    first |= {"rows": left, "counts": sample.counts(left)}
    second |= {"rows": right, "counts": sample.counts(right)}
    parts = {"left": _part(first, sample, ranking), "right": _part(second, sample, ranking)}
    return cell | {"gain": gain, "rule": rule} | parts


def shares(sample: Sample, rows: Sequence[int]) -> Knot:
    """(F_+, F_-): which share of all similar, of all unlike pairs lies in `rows` (Eq. 2, n_sigma a count)."""
    here, whole = sample.counts(rows), sample.counts(range(len(sample.codes)))
    return Fraction(here[0], whole[0]), Fraction(here[1], whole[1])


def leafrank(sample: Sample, cell: Tree, limits: Limits) -> Tree:
    """CART with costs c_+ = n_-, c_- = n_+ of the cell; a leaf is positive if n_+(leaf) n_- > n_-(leaf) n_+."""
    plus, minus = cell["counts"]
    rule = grow_tree(sample, (minus, plus), limits, cell["rows"])
    for leaf in leaves_of(rule):
        leaf["positive"] = leaf["counts"][0] * minus > leaf["counts"][1] * plus
    return rule


def cell_of(tree: Tree, row: Vector) -> Tree:
    """The terminal cell of a pair, by the predicates that grew the tree."""
    while "left" in tree:
        tree = tree["left" if leaf_of(tree["rule"], row)["positive"] else "right"]
    return tree


def paper_score(cell: Tree, depth: int) -> Fraction:
    """s_D of the terminal cell (j, k): 2^D (1 - k/2^j) (section 2.2)."""
    return (1 - Fraction(int(cell["k"]), 2 ** int(cell["depth"]))) * Fraction(2) ** depth


def normalised_rank(tree: Tree, cell: Tree) -> Fraction:
    """(L - i)/L for the i-th of L leaves from the left, i from 0: 1 is the best."""
    addresses = [(leaf["depth"], leaf["k"]) for leaf in leaves_of(tree)]
    return 1 - Fraction(addresses.index((cell["depth"], cell["k"])), len(addresses))


def forest_score(trees: Sequence[Tree], row: Vector, aggregation: str) -> Fraction:
    """The mean or the median over trees of a pair's normalised rank; of an even number, the mean of the middle two."""
    ranks = sorted(normalised_rank(tree, cell_of(tree, row)) for tree in trees)
    n = len(ranks)
    if aggregation == "mean":
        return sum(ranks, Fraction(0)) / n
    if aggregation == "median":
        return (ranks[(n - 1) // 2] + ranks[n // 2]) / 2
    raise ValueError(aggregation)


def knots(tree: Tree) -> list[Knot]:
    """(0, 0), then (alpha, beta) at the right end of each leaf from left to right."""
    return [(Fraction(0), Fraction(0))] + [(leaf["alpha"][1], leaf["beta"][1]) for leaf in leaves_of(tree)]


def area(curve: Sequence[Knot]) -> Fraction:
    """The area under a broken line, by trapezoids."""
    return sum(((a2 - a) * (b + b2) / 2 for (a, b), (a2, b2) in pairwise(curve)), Fraction(0))


def area_by_gains(tree: Tree) -> Fraction:
    """1/2 + 1/2 sum of Lambda over all inner nodes (the paper's sum has the last level only: its slip)."""
    return Fraction(1, 2) + sum((node["gain"] for node in inner_of(tree)), Fraction(0)) / 2


def area_by_pairs(scores: Sequence[Any], codes: Integers, weights: Integers) -> Fraction:
    """P(s(-) < s(+)) + P(s(-) = s(+))/2 over all similar and unlike pairs that were drawn (section 2.1)."""
    seen = list(zip(scores, codes, weights, strict=True))
    good, whole = Fraction(0), 0
    for plus, _, w in (triple for triple in seen if triple[1] == 0):
        for minus, _, v in (triple for triple in seen if triple[1] == 1):
            whole += int(w) * int(v)
            good += int(w) * int(v) * (Fraction(int(minus < plus)) + Fraction(int(minus == plus), 2))
    return good / whole


# Pruning


def gain_from_corners(node: Tree) -> Fraction:
    """(a_max - a_min)(b_mid - b_min) - (b_max - b_min)(a_mid - a_min): Lambda of a node from knots alone."""
    (a_min, a_max), (b_min, b_max) = node["alpha"], node["beta"]
    a_mid, b_mid = node["left"]["alpha"][1], node["left"]["beta"][1]
    gain: Fraction = (a_max - a_min) * (b_mid - b_min) - (b_max - b_min) * (a_mid - a_min)
    return gain


def prune(tree: Tree) -> list[Tree]:
    """The tree, then ever smaller ones down to its root: the parent of two leaves with the least gain becomes a leaf.

    Of equal gains the leftmost goes first.
    """
    trees = [tree]
    while "left" in trees[-1]:
        ends = [node for node in inner_of(trees[-1]) if "left" not in node["left"] and "left" not in node["right"]]
        weakest = min(ends, key=lambda node: (node["gain"], node["alpha"][0], node["beta"][0]))
        trees.append(_merged(trees[-1], (weakest["depth"], weakest["k"])))
    return trees


def _merged(tree: Tree, address: Pair) -> Tree:
    """A copy of the tree in which the node (d, k) is a leaf."""
    if "left" not in tree:
        return tree
    if (tree["depth"], tree["k"]) == address:
        return {key: value for key, value in tree.items() if key not in {"gain", "rule", "left", "right"}}
    return tree | {side: _merged(tree[side], address) for side in ("left", "right")}


# Constraints


def constraint_law(labels: Integers, balance: str, kind: str) -> dict[Pair, Fraction]:
    """The probability of each unordered pair i < j to be drawn; `kind` is "must" or "cannot".

    points: i uniform over points, j uniform over its partners (its class without i, or all outside its class).
    classes: a class uniform, i uniform in it, j as before. pairs: uniform over all pairs of the kind.
    A point without a partner is not drawn, and so neither is a class without a point that has one.
    """
    n = len(labels)
    partners = {i: [j for j in range(n) if j != i and (labels[i] == labels[j]) == (kind == "must")] for i in range(n)}
    able = [i for i in range(n) if partners[i]]
    if balance == "pairs":
        allowed = [(i, j) for i, j in combinations(range(n), 2) if j in partners[i]]
        return {pair: Fraction(1, len(allowed)) for pair in allowed}
    law: dict[Pair, Fraction] = {}
    for i, chance in _first_point(labels, balance, able):
        for j in partners[i]:
            pair = (min(i, j), max(i, j))
            law[pair] = law.get(pair, Fraction(0)) + chance / len(partners[i])
    return law


def _first_point(labels: Integers, balance: str, able: Sequence[int]) -> Iterator[tuple[int, Fraction]]:
    """Each point that may come first, with its chance."""
    classes = {int(labels[i]) for i in able}
    for i in able:
        if balance == "points":
            yield i, Fraction(1, len(able))
        elif balance == "classes":
            yield i, Fraction(1, len(classes)) / sum(labels[j] == labels[i] for j in able)
        else:
            raise ValueError(balance)


def law_fits(law: Mapping[Pair, Fraction], drawn: Sequence[Pair] | Matrix) -> float:
    """The p-value of Pearson's chi-square test that pairs, in any order, were drawn by the law; 0 for one outside."""
    counts = dict.fromkeys(law, 0)
    for i, j in drawn:
        pair = (min(int(i), int(j)), max(int(i), int(j)))
        if pair not in counts:
            return 0.0
        counts[pair] += 1
    expected = [float(law[pair]) * len(drawn) for pair in counts]
    return float(chisquare(list(counts.values()), expected).pvalue)
