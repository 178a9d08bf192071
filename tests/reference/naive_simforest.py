"""SimForest in plain loops and exact gains, beside the paper (Sathe, Aggarwal, KDD 2017): what its kernels must equal.

A tree is a list of `Node`, numbered level by level, left before right, over the in-bag rows. M is the matrix that a
split reads: similarities to the training objects, NaN = unobserved, or features where `Rules.feature_subsets` says so.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from itertools import pairwise, product
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tests.reference.naive import ROUNDING, Cut, below, midpoint, number, stream, unit
from tests.reference.naive_kept_pairs import kept_pair
from tests.reference.naive_landmarks import landmark_pair, pool_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from tests.reference.naive import Integers, Matrix, Table, Vector

ATTEMPTS = 4  # how often a node draws its candidates before it is closed
TRIES = 4  # how many pairs a candidate draws in an attempt before it is empty
EXTRA = 2**32  # the draw that begins a node's further streams, one for each attempt and candidate
PLACE = 2**33  # the draw that begins the random thresholds of isolation, one for each attempt
MEASURE = 2**37  # the draw that begins the choices of a measure, one for each attempt and candidate
SIZES = (1, 2, 4)  # how many features a similarity over some of them reads

Entry = Callable[[int], float]  # what one row says in a column


@dataclass(frozen=True)
class Rules:
    """How trees are grown and rows routed.

    Attributes
    ----------
    judge : {"labels", "targets", "isolation"}
        Gini of y in 0..K-1; variance of y; random cuts (one pair a node; y, min_samples_leaf, n_columns are not read).
    n_pairs, n_columns : int
        Candidates of a node; columns averaged on each side of a pair.
    feature_subsets : bool
        M holds features, a candidate is a similarity over some of them (n_columns is not read).
    on_missing : {"stop", "mean", "larger", "surrogate"}
        Where a row goes whose value is unobserved; "mean": M is read as by `with_means`, a row of NaN alone stays.
    class_weight : tuple of int
        c_k >= 1 of each class; empty: 1 for all.
    landmarks : tuple of int
        The objects that may be columns; empty: all.
    kind : {"similarity", "distance"}
        Whether `evaluations` count the diagonal. M holds similarities either way: see `from_distances`.
    pairing : {"fresh", "kept"}
        Drawn from each node's own stream, or by the tree's orders of all objects (no landmarks, subsets, isolation).
    cut : {"best", "zero"}
        Where a candidate is cut: at the best place, or at 0.
    measures : tuple of (float, str)
        Weight and kind of each of several measures, whose columns stand side by side in M; empty: there is one.
    """

    truth_kind: str = "labels"
    n_pairs: int = 1
    n_columns: int = 1
    feature_subsets: bool = False
    on_missing: str = "stop"
    class_weight: tuple[int, ...] = ()
    min_samples_split: int = 2
    min_samples_leaf: int = 1
    max_depth: int | None = None
    kind: str = "similarity"
    landmarks: tuple[int, ...] = ()
    pairing: str = "fresh"
    cut: str = "best"
    measures: tuple[tuple[float, str], ...] = ()

    @property
    def width(self) -> int:
        """How many candidates a node has."""
        return 1 if self.truth_kind == "isolation" else self.n_pairs


class Projection(NamedTuple):
    """A candidate: value of row k = sum of weights[e] * M[k, columns[e]] in this order."""

    columns: tuple[int, ...]
    weights: tuple[float, ...]


class Halves(NamedTuple):
    """Something for each of the two sides of a pair: that of j, whose weights are positive, and that of i."""

    j: float | None
    i: float | None


NO_PROJECTION = Projection((), ())
NO_SURROGATES = Halves(None, None)


@dataclass
class Node:
    """A node: `rows` are the in-bag rows that reached it, `n_rows` their weight, `says` its answer."""

    rows: list[int]
    depth: int
    n_rows: int
    says: list[float]
    projection: Projection = NO_PROJECTION
    threshold: float = 0.0
    gain: float = 0.0
    surrogates: Halves = NO_SURROGATES
    left: int = -1
    right: int = -1


class Found(NamedTuple):
    """The chosen candidate of a node, the value of each of its rows, and the cut."""

    projection: Projection
    values: dict[int, float]
    cut: Cut


@dataclass(frozen=True)
class Sample:
    """What a tree learns from, the key of its orders for kept pairs, and in `asked` the entries that were read.

    Columns of M are counted from `first`.
    """

    M: Matrix
    y: Vector
    w: Integers
    rules: Rules
    asked: set[tuple[int, int]] = field(default_factory=set)
    order: int = 0
    first: int = 0

    def entry(self, row: int, column: int) -> float:
        """Return M[row, first + column] as float64."""
        self.asked.add((row, self.first + column))
        return float(self.M[row][self.first + column])

    def by_measure(self, measure: int) -> Sample:
        """Return the same with the columns of one of several measures."""
        rules = replace(self.rules, kind=self.rules.measures[measure][1])
        return replace(self, rules=rules, first=measure * len(self.y))

    def unlike(self, r: int, s: int) -> float:
        """Return 1[y_r != y_s] for labels, |y_r - y_s| for targets."""
        if self.rules.truth_kind == "targets":
            return abs(float(self.y[r]) - float(self.y[s]))
        return float(self.y[r] != self.y[s])

    def weight(self, rows: Sequence[int]) -> int:
        """Return sum of w over `rows`."""
        return sum(int(self.w[row]) for row in rows)

    def masses(self, rows: Sequence[int]) -> list[int]:
        """Return c_k m_k of all K classes, m_k the weight of the rows of class k."""
        c = self.rules.class_weight or (1,) * (int(max(self.y)) + 1)
        return [c[k] * self.weight([row for row in rows if self.y[row] == k]) for k in range(len(c))]


def with_means(M: Matrix, n: int, weights: Integers | None = None) -> NDArray[np.float64]:
    """Return M with each NaN replaced by the mean of what its row observes among the n columns of its measure.

    Objects count by their weights, 1 for all by default; if those that are observed weigh nothing, NaN stays.
    """
    found, w = np.array(M, np.float64), [1] * n if weights is None else weights
    for row in found:
        for first in range(0, len(row), n):
            seen = [j for j in range(n) if not math.isnan(row[first + j])]
            total = 0.0
            for j in seen:
                total += int(w[j]) * float(row[first + j])
            weight = sum(int(w[j]) for j in seen)
            for j in set(range(n)) - set(seen):
                row[first + j] = total / weight if weight else math.nan
    return found


def from_distances(D: Matrix) -> NDArray[np.float64]:
    """Return -D^2 / 2: the columns' differences order rows as those of the inner products do."""
    return -(np.asarray(D, np.float64) ** 2) / 2


def measure_at(u: float, weights: Sequence[float]) -> int:
    """Return the first m whose weights up to m are more than the share u of all."""
    return next(m for m in range(len(weights)) if sum(weights[: m + 1]) / sum(weights) > u)


def drawn_candidate(sample: Sample, rows: Sequence[int], key: int, attempt: int, k: int) -> Projection | None:
    """Return candidate k of an attempt: of several measures it draws one, and compares objects by it alone."""
    if not sample.rules.measures:
        return drawn_pair(sample, rows, key, attempt, k)
    chooses = sample.order if sample.rules.pairing == "kept" else key
    u = unit(chooses, MEASURE + attempt * sample.rules.width + k)
    own = sample.by_measure(measure_at(u, [weight for weight, _ in sample.rules.measures]))
    found = drawn_pair(own, rows, key, attempt, k)
    return found and found._replace(columns=tuple(own.first + column for column in found.columns))


def drawn_pair(sample: Sample, rows: Sequence[int], key: int, attempt: int, k: int) -> Projection | None:
    """Return candidate k of an attempt, a pair (j, i) made a projection; or None.

    It is the first of four pairs that is a direction, or else the first of them that tells the rows apart.
    """
    width = sample.rules.width
    for rule, trial in product((is_direction, tells_apart), range(TRIES)):
        base = (attempt * TRIES + trial) * 2 * width + 2 * k
        pool = pool_of(sample, rows, math.nan) if sample.rules.truth_kind == "targets" else rows
        i = pool[below(key, base, len(pool))]
        if sample.rules.truth_kind == "isolation":
            others = [row for row in rows if row != i]
            j: int | None = others[below(key, base + 1, len(others))]
        elif sample.rules.pairing == "kept":
            j, i = kept_pair(sample, rows, number(sample.order, base // 2))
        else:
            j = unlike_partner(sample, pool, i, unit(key, base + 1))
        if j is not None and sample.rules.truth_kind == "labels" and sample.rules.landmarks:
            j, i = landmark_pair(sample, rows, (j, i), key, base)
        if j is not None and rule(sample, rows, j, i):
            return _projection(sample, rows, (j, i), number(key, EXTRA + attempt * width + k))
    return None


def unlike_partner(sample: Sample, rows: Sequence[int], i: int, share: float) -> int | None:
    """Return the first row where the running sum of unlike(row, i) exceeds share * total; None if all are like i."""
    total = 0.0
    for row in rows:
        total += sample.unlike(row, i)
    running, last = 0.0, None
    for row in rows:
        if sample.unlike(row, i) > 0:
            running, last = running + sample.unlike(row, i), row
            if running > share * total:
                break
    return last


def is_direction(sample: Sample, rows: Sequence[int], j: int, i: int) -> bool:
    """Tell whether S_ii + S_jj - 2 S_ij > 0, all observed; of features: whether x_j differs from x_i."""
    if sample.rules.feature_subsets:
        return len(_differing(sample, j, i)) > 0
    return sample.entry(i, i) + sample.entry(j, j) - 2.0 * sample.entry(i, j) > 0


def tells_apart(sample: Sample, rows: Sequence[int], j: int, i: int) -> bool:
    """Tell whether S_ii and S_jj say nothing, S_ij is observed, and S_kj - S_ki differs over the rows k.

    Never of features. They say nothing if one is NaN, or 0 (but of distances), or if S_ii + S_jj - 2 S_ij is less
    than -1e-9 (|S_ii| + |S_jj|).
    """
    if sample.rules.feature_subsets or math.isnan(sample.entry(i, j)):
        return False
    s_ii, s_jj = own = sample.entry(i, i), sample.entry(j, j)
    none = any(math.isnan(s) or (s == 0 and sample.rules.kind == "similarity") for s in own)
    if not none and s_ii + s_jj - 2.0 * sample.entry(i, j) >= -1e-9 * (abs(s_ii) + abs(s_jj)):
        return False
    differences = [sample.entry(row, j) - sample.entry(row, i) for row in rows]
    return len({value for value in differences if not math.isnan(value)}) > 1


def _projection(sample: Sample, rows: Sequence[int], pair: tuple[int, int], extra: int) -> Projection:
    """Return the projection of a pair (j, i), with what else it draws taken from the stream `extra`."""
    if sample.rules.feature_subsets:
        return _subset_projection(sample, pair, extra)
    if sample.rules.truth_kind == "isolation" or sample.rules.n_columns == 1:
        return Projection(pair, (1.0, -1.0))
    return _averaged_projection(sample, rows, pair, extra)


def _averaged_projection(sample: Sample, rows: Sequence[int], pair: tuple[int, int], extra: int) -> Projection:
    """Return the mean of j's column and up to q - 1 others on its side, minus the mean on the side of i."""
    j, i = pair
    with_j, with_i = ([row for row in pool_of(sample, rows, sample.y[own]) if row not in pair] for own in pair)
    near_j = [row for row in with_j if sample.unlike(row, j) < sample.unlike(row, i)]
    near_i = [row for row in with_i if sample.unlike(row, i) < sample.unlike(row, j)]
    others = sample.rules.n_columns - 1
    with_j = _shuffled(extra, 0, near_j, min(others, len(near_j)))
    with_i = _shuffled(extra, len(with_j), near_i, min(others, len(near_i)))
    side_j, side_i = [j, *with_j], [i, *with_i]
    weights = [1.0 / len(side_j)] * len(side_j) + [-1.0 / len(side_i)] * len(side_i)
    return Projection((*side_j, *side_i), tuple(weights))


def _subset_projection(sample: Sample, pair: tuple[int, int], extra: int) -> Projection:
    """Return S^F_kj - S^F_ki = sum over F of x_kf (x_jf - x_if), F up to 1, 2 or 4 features where j and i differ."""
    j, i = pair
    differing = _differing(sample, j, i)
    size = SIZES[below(extra, 0, len(SIZES))]
    columns = _shuffled(extra, 1, differing, min(size, len(differing)))
    return Projection(tuple(columns), tuple(sample.entry(j, f) - sample.entry(i, f) for f in columns))


def _differing(sample: Sample, j: int, i: int) -> list[int]:
    """Return the features, ascending, that x_j and x_i both have and in which they differ."""
    both = [(f, sample.entry(j, f), sample.entry(i, f)) for f in range(len(sample.M[j]))]
    return [f for f, of_j, of_i in both if not math.isnan(of_j) and not math.isnan(of_i) and of_j != of_i]


def _shuffled(key: int, first: int, pool: Sequence[int], count: int) -> list[int]:
    """Return `count` of `pool`: place t is swapped with t + below(key, first + t, len - t)."""
    order = list(pool)
    for t in range(count):
        other = t + below(key, first + t, len(order) - t)
        order[t], order[other] = order[other], order[t]
    return order[:count]


def projected(projection: Projection, entry: Entry) -> float:
    """Return sum of weights[e] * entry(columns[e]) in this order, NaN if any is NaN."""
    value = 0.0
    for column, weight in zip(*projection, strict=True):
        value += weight * entry(column)
    return value


def halves_of(projection: Projection, entry: Entry) -> tuple[float, float]:
    """Return the mean similarities to the side of j and to the side of i, each NaN if one of its own is NaN."""
    j, i = 0.0, 0.0
    for column, weight in zip(*projection, strict=True):
        if weight > 0:
            j += weight * entry(column)
        else:
            i += weight * entry(column)
    return j, -i


def mass_and_sum(sample: Sample, rows: Sequence[int]) -> tuple[int, Fraction]:
    """Return n and sum_ij w_i w_j z_ij of `rows`: m^2 - sum_k m_k^2 with m_k weighted by c_k, or m sum y^2 - (sum y)^2.

    z_ij is 1[y_i != y_j] for labels and (y_i - y_j)^2 / 2 for targets (SMERF, Propositions 1 and 2).
    """
    if sample.rules.truth_kind == "labels":
        masses = sample.masses(rows)
        return sum(masses), Fraction(sum(masses) ** 2 - sum(m * m for m in masses))
    n, first, second = 0, Fraction(0), Fraction(0)
    for row in rows:
        y, weight = Fraction(float(sample.y[row])), int(sample.w[row])
        n, first, second = n + weight, first + weight * y, second + weight * y * y
    return n, n * second - first * first


def every_cut(sample: Sample, values: dict[int, float], candidate: int) -> list[Cut]:
    """Return each cut between neighbouring distinct observed values, lowest first, with gain T/n - LL/n_L - RR/n_R.

    With cut="zero" it is the one at 0, if it leaves no side empty.
    """
    seen = [row for row, value in values.items() if not math.isnan(value)]
    least = sample.rules.min_samples_leaf
    cuts = []
    thresholds = [midpoint(a, b) for a, b in pairwise(sorted({values[row] for row in seen}))]
    for threshold in thresholds if sample.rules.cut == "best" else [0.0]:
        left = [row for row in seen if values[row] <= threshold]
        right = [row for row in seen if values[row] > threshold]
        if sample.weight(left) < least or sample.weight(right) < least or not left or not right:
            continue
        parts = [total / n for n, total in (mass_and_sum(sample, rows) for rows in (seen, left, right))]
        cuts.append(Cut(candidate, threshold, parts[0] - (parts[1] + parts[2]), sum(parts, Fraction(0))))
    return cuts


def best_cut(cuts: Sequence[Cut]) -> Cut | None:
    """Return the largest gain, 0 where it is rounding; a later cut must be better by more than rounding."""
    best: Cut | None = None
    for cut in cuts:
        own = cut if cut.gain > ROUNDING * cut.magnitude else cut._replace(gain=Fraction(0))
        if best is None or own.gain - best.gain > ROUNDING * best.gain:
            best = own
    return best


def random_cut(values: dict[int, float], share: float) -> Cut | None:
    """Return the threshold low + (high - low) * share of the extreme observed values, None where they are equal."""
    seen = sorted(value for value in values.values() if not math.isnan(value))
    if not seen or seen[0] == seen[-1]:
        return None
    low, high = seen[0], seen[-1]
    threshold = low + (high - low) * share
    return Cut(0, low if threshold >= high else threshold, Fraction(0), Fraction(0))


def _found(sample: Sample, rows: Sequence[int], key: int) -> Found | None:
    """Return the best cut of the first attempt that has one."""
    for attempt in range(ATTEMPTS):
        candidates: dict[int, tuple[Projection, dict[int, float]]] = {}
        for k in range(sample.rules.width):
            projection = drawn_candidate(sample, rows, key, attempt, k)
            if projection is not None:
                candidates[k] = projection, {row: projected(projection, partial(sample.entry, row)) for row in rows}
        if sample.rules.truth_kind == "isolation":
            found = [random_cut(values, unit(key, PLACE + attempt)) for _, values in candidates.values()]
            cut = found[0] if found else None
        else:
            cut = best_cut([cut for k, (_, values) in candidates.items() for cut in every_cut(sample, values, k)])
        if cut is not None:
            return Found(*candidates[cut.candidate], cut)
    return None


def agreeing_cut(half: Sequence[float], above: Sequence[bool], weights: Integers) -> float | None:
    """Return the threshold t for which "half > t" agrees most, by weight, with `above`; None if saying one side does.

    Thresholds are midpoints of neighbouring distinct values; among equals the lowest.
    """
    rows = range(len(half))
    most = max(sum(int(weights[r]) for r in rows if above[r] is side) for side in (True, False))
    best = None
    for a, b in pairwise(sorted(set(half))):
        t = midpoint(a, b)
        agreement = sum(int(weights[r]) for r in rows if (half[r] > t) is above[r])
        if agreement > most:
            most, best = agreement, t
    return best


def surrogates_of(sample: Sample, found: Found) -> Halves:
    """Return t_j ("half_j > t_j goes right") and t_i ("half_i > t_i goes left") over the rows with a value."""
    seen = [row for row, value in found.values.items() if not math.isnan(value)]
    halves = [halves_of(found.projection, partial(sample.entry, row)) for row in seen]
    right = [found.values[row] > found.cut.threshold for row in seen]
    weights = [int(sample.w[row]) for row in seen]
    t_j = agreeing_cut([half for half, _ in halves], right, weights)
    t_i = agreeing_cut([half for _, half in halves], [not side for side in right], weights)
    return Halves(t_j, t_i)


def goes_right(halves: tuple[float, float], surrogates: Halves, larger_right: bool) -> bool:
    """Tell the side of a row without a value: by its half to j, else by its half to i, else the larger side."""
    half_j, half_i = halves
    if surrogates.j is not None and not math.isnan(half_j):
        return half_j > surrogates.j
    if surrogates.i is not None and not math.isnan(half_i):
        return not half_i > surrogates.i
    return larger_right


def grow_tree(M: Matrix, y: Vector, w: Integers, seed: int, tree: int, rules: Rules) -> list[Node]:
    """Return the nodes of one tree over the rows with w > 0; row k of M reads object k. Isolation does not read y."""
    M = with_means(M, len(w)) if rules.on_missing == "mean" else M
    return _grown(Sample(M, y, w, rules, order=stream(seed, tree, -2)), seed, tree)


def evaluations(M: Matrix, y: Vector, w: Integers, seed: int, tree: int, rules: Rules) -> set[tuple[int, int]]:
    """Return the unordered pairs (a, b), a <= b, whose similarity growing the tree touches.

    These are S_ii, S_jj, S_ij of each pair drawn and S[k, c] of every row of the node and column of a candidate. With
    kind="distance" no object is compared with itself; features are asked of nobody.
    """
    sample = Sample(M, y, w, rules, order=stream(seed, tree, -2))
    _grown(sample, seed, tree)
    if rules.feature_subsets:
        return set()
    pairs = {(min(pair), max(pair)) for pair in sample.asked}
    return {(a, b) for a, b in pairs if a != b or rules.kind == "similarity"}


def _grown(sample: Sample, seed: int, tree: int) -> list[Node]:
    """Return the nodes of a tree, level by level."""
    nodes = [_node(sample, [row for row in range(len(sample.w)) if sample.w[row] > 0], 0)]
    for own, node in enumerate(nodes):  # the list grows while it is read: level by level, parents ascending
        if _is_closed(sample, node, nodes[0].n_rows):
            continue
        found = _found(sample, node.rows, stream(seed, tree, own))
        if found is None:
            continue
        node.projection, node.threshold, node.gain = found.projection, found.cut.threshold, float(found.cut.gain)
        if sample.rules.on_missing == "surrogate":
            node.surrogates = surrogates_of(sample, found)
        node.left, node.right = len(nodes), len(nodes) + 1
        nodes += [_node(sample, rows, node.depth + 1) for rows in _parted(sample, node, found)]
    return nodes


def _node(sample: Sample, rows: list[int], depth: int) -> Node:
    """Return an open node with its answer: class shares c_k m_k / sum, the mean of y, or nothing."""
    n, masses = sample.weight(rows), [] if sample.rules.truth_kind != "labels" else sample.masses(rows)
    if sample.rules.truth_kind == "targets":
        total = sum((int(sample.w[row]) * Fraction(float(sample.y[row])) for row in rows), Fraction(0))
        return Node(rows, depth, n, [float(total / n)])
    return Node(rows, depth, n, [mass / sum(masses) for mass in masses])


def _is_closed(sample: Sample, node: Node, n: int) -> bool:
    """Tell whether a node is too light, too deep (isolation: ceil(log2 n)), pure or, for isolation, a single row."""
    rules, max_depth = sample.rules, sample.rules.max_depth
    distinct = len({float(sample.y[row]) for row in node.rows}) if rules.truth_kind != "isolation" else len(node.rows)
    if rules.truth_kind == "isolation" and max_depth is None:
        max_depth = math.ceil(math.log2(n))
    return node.n_rows < rules.min_samples_split or node.depth == max_depth or distinct == 1


def _parted(sample: Sample, node: Node, found: Found) -> tuple[list[int], list[int]]:
    """Return the rows of the left and of the right child; a row that stays is in neither."""
    left = [row for row, value in found.values.items() if value <= node.threshold]
    right = [row for row, value in found.values.items() if value > node.threshold]
    if sample.rules.on_missing in ("larger", "surrogate"):
        told, untold = [], []
        for row in [row for row, value in found.values.items() if math.isnan(value)]:
            halves = halves_of(node.projection, partial(sample.entry, row))
            sides = [goes_right(halves, node.surrogates, larger_right) for larger_right in (False, True)]
            (told if sides[0] == sides[1] else untold).append((row, sides[0]))
        left += [row for row, is_right in told if not is_right]
        right += [row for row, is_right in told if is_right]
        (right if sample.weight(right) > sample.weight(left) else left).extend(row for row, _ in untold)
    return sorted(left), sorted(right)


def path_of(tree: Sequence[Node], x: Vector, rules: Rules) -> list[int]:
    """Return the nodes that a row passes, the last of them its end; x is its row of similarities, or its features."""
    if rules.on_missing == "mean":
        x = with_means([x], len(x) // max(1, len(rules.measures)))[0]
    path = [0]
    while tree[path[-1]].left >= 0:
        node = tree[path[-1]]
        value = projected(node.projection, lambda column: float(x[column]))
        right = value > node.threshold
        if math.isnan(value):
            if rules.on_missing in ("stop", "mean"):
                break
            halves = halves_of(node.projection, lambda column: float(x[column]))
            right = goes_right(halves, node.surrogates, tree[node.right].n_rows > tree[node.left].n_rows)
        path.append(node.right if right else node.left)
    return path


def route_row(tree: Sequence[Node], x: Vector, rules: Rules) -> int:
    """Return the node in which a row ends."""
    return path_of(tree, x, rules)[-1]


def columns_read(tree: Sequence[Node], x: Vector, rules: Rules) -> set[int]:
    """Return the training objects (or features) that a row is compared with on its way."""
    return {column for own in path_of(tree, x, rules) for column in tree[own].projection.columns}


def predict(trees: Sequence[Sequence[Node]], X: Matrix, rules: Rules) -> NDArray[np.float64]:
    """Return class shares (m, K) or means (m, 1): the mean over the trees of what the rows' nodes say."""
    answers = []
    for x in X:
        said = [tree[route_row(tree, x, rules)].says for tree in trees]
        answers.append([sum(column) / len(trees) for column in zip(*said, strict=True)])
    return np.array(answers)


def as_table(tree: Sequence[Node], n: int) -> Table:
    """Return a tree over n rows as arrays; `leaves` is where growth left the in-bag rows, -1 for the others.

    `surrogate_j` and `surrogate_i` are NaN where there is none; `says` is (N, K), (N, 1) or (N, 0).
    """
    leaves = np.full(n, -1, np.int32)
    for own, node in enumerate(tree):
        leaves[node.rows] = own  # a child comes after its parent: the last node that a row reaches stays
    plain = {"left": "i4", "right": "i4", "threshold": "f8", "gain": "f8", "n_rows": "i8", "says": "f8"}
    halves = [[math.nan if t is None else t for t in node.surrogates] for node in tree]
    return {name: np.array([getattr(node, name) for node in tree], dtype) for name, dtype in plain.items()} | {
        "width": np.array([len(node.projection.columns) for node in tree], "i4"),
        "columns": np.array([column for node in tree for column in node.projection.columns], "i4"),
        "weights": np.array([weight for node in tree for weight in node.projection.weights], "f8"),
        "surrogate_j": np.array([half[0] for half in halves], "f8"),
        "surrogate_i": np.array([half[1] for half in halves], "f8"),
        "leaves": leaves,
    }
