"""The slow twin of the product: each formula in plain loops and exact numbers, to compare kernels with."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Table = dict[str, NDArray[Any]]
    Vector = Sequence[float] | NDArray[Any]
    Matrix = Sequence[Sequence[float]] | NDArray[Any]
    Integers = Sequence[int] | NDArray[Any]
    Found = tuple[int, float, float]

WORD = 2**64
GOLDEN = 0x9E3779B97F4A7C15
ROUNDING = Fraction(1, 10**12)


def mix(z: int) -> int:
    """Return splitmix64's finaliser: shift-xor and multiply twice, shift-xor once, modulo 2^64."""
    z %= WORD
    z ^= z >> 30
    z = z * 0xBF58476D1CE4E5B9 % WORD
    z ^= z >> 27
    z = z * 0x94D049BB133111EB % WORD
    return z ^ (z >> 31)


def stream(seed: int, tree: int, node: int) -> int:
    """Return mix(mix(mix(seed + G) + (tree + 1) G) + (node + 1) G); node -1 is the sample of the tree."""
    return mix(mix(mix(seed + GOLDEN) + (tree + 1) * GOLDEN) + (node + 1) * GOLDEN)


def number(state: int, draw: int) -> int:
    """Return mix(stream + (draw + 1) G), an integer in [0, 2^64)."""
    return mix(state + (draw + 1) * GOLDEN)


def below(state: int, draw: int, k: int) -> int:
    """Return floor(floor(number / 2^32) k / 2^32), an integer in [0, k)."""
    return ((number(state, draw) >> 32) * k) >> 32


def unit(state: int, draw: int) -> float:
    """Return floor(number / 2^11) / 2^53, a number in [0, 1)."""
    return (number(state, draw) >> 11) / 2**53


def bootstrap_weights(seed: int, tree: int, n: int, m: int) -> NDArray[np.int64]:
    """Return how often each of n rows comes in m draws with replacement (SMERF, step 1)."""
    state = stream(seed, tree, -1)
    weights = [0] * n
    for k in range(m):
        weights[below(state, k, n)] += 1
    return np.array(weights, dtype=np.int64)


def subsample_weights(seed: int, tree: int, n: int, m: int) -> NDArray[np.int64]:
    """Return 1 for the first m rows of a partial Fisher-Yates shuffle of n rows, 0 for the others."""
    weights = [0] * n
    for row in _shuffled(stream(seed, tree, -1), n, m)[:m]:
        weights[row] = 1
    return np.array(weights, dtype=np.int64)


def axis_permutation(seed: int, tree: int, node: int, p: int) -> list[int]:
    """Return the p columns in the order in which a node tries them: Fisher-Yates from the front."""
    return _shuffled(stream(seed, tree, node), p, p)


def _shuffled(state: int, n: int, steps: int) -> list[int]:
    """Return [0..n) after `steps` swaps of position k with k + below(stream, k, n - k)."""
    order = list(range(n))
    for k in range(steps):
        other = k + below(state, k, n - k)
        order[k], order[other] = order[other], order[k]
    return order


class Pairs(NamedTuple):
    """All pair distances as integers: z_ij = z[i][j] / scale, exactly."""

    z: list[list[int]]
    scale: Fraction

    def of_node(self, rows: Sequence[int], weights: Integers) -> Pairs:
        """Return the pairs of some rows."""
        return Pairs([[self.z[i][j] for j in rows] for i in rows], self.scale)


class Distances(NamedTuple):
    """All pair distances as they are, each node's in fixed point at its own scale."""

    z: NDArray[Any]
    largest: float

    def of_node(self, rows: Sequence[int], weights: Integers) -> Pairs:
        """Return the pairs of some rows at the scale of those that weigh anything."""
        own = [row for row in rows if weights[row] > 0]
        return dense_pairs(self.z[np.ix_(rows, rows)], node_bits(self.z[np.ix_(own, own)], self.largest))


def dense_pairs(z: Matrix, bits: int) -> Pairs:
    """Return the fixed-point distances round(z 2^bits), ties to even."""
    scale = Fraction(2) ** bits
    return Pairs([[round(Fraction(float(value)) * scale) for value in row] for row in z], scale)


def relative_weight(weights: Sequence[float], row: int, unit: int) -> Fraction:
    """Return what a fractional weight is rounded from: ``unit`` times it over the mean of the positive ones."""
    positive = [Fraction(float(w)) for w in weights if w > 0]
    return unit * Fraction(float(weights[row])) * len(positive) / sum(positive)


def heaviest_tree(integers: Sequence[int], n_draws: int, replace: bool) -> int:
    """Return the largest sum of the weights of the rows that a tree may draw."""
    ordered = sorted((int(w) for w in integers), reverse=True)
    return n_draws * ordered[0] if replace else sum(ordered[:n_draws])


def node_digits(weights: Integers) -> int:
    """Return the most bits b <= 26 of a node's integers with 2^b w < 2^31 for each weight, and 2^(b+1) m^2 < 2^63."""
    m = sum(int(w) for w in weights)
    return max(b for b in range(27) if all(2**b * int(w) < 2**31 for w in weights) and 2 ** (b + 1) * m**2 < 2**63)


def node_bits(z: Matrix, largest: float, most: int = 26) -> int:
    """Return the power of two of a node's scale: its z come below 2^most, in steps of 2^4 from where ``largest`` does.

    With 2^E the least power of two above the largest of all |z|, and 2^e that above those of the node (e at least
    -126), it is most - E + 4 floor((E - e) / 4), at most 126; ``most`` is that of `node_digits`.
    """
    own = max(abs(float(value)) for row in z for value in row)
    E, e = math.frexp(largest)[1], max(math.frexp(own)[1], -126) if own else -126
    return min(most - E + 4 * math.floor((E - e) / 4), 126)


def label_pairs(codes: Integers) -> Pairs:
    """Return z_ij = 1[y_i != y_j] (SMERF, Proposition 1)."""
    return Pairs([[int(a != b) for b in codes] for a in codes], Fraction(1))


def embedding_pairs(Y: Matrix, factor: float) -> Pairs:
    """Return z_ij = factor ||Y_i - Y_j||^2, exactly; factor 1/2 is for targets (SMERF, Proposition 2)."""
    points = [[Fraction(float(value)) for value in row] for row in Y]
    z = [[Fraction(factor) * sum((u - v) ** 2 for u, v in zip(a, b, strict=True)) for b in points] for a in points]
    scale = math.lcm(*(value.denominator for row in z for value in row))
    return Pairs([[int(value * scale) for value in row] for row in z], Fraction(scale))


def pair_sum(z_int: Sequence[Sequence[int]], rows: Sequence[int], weights: Integers) -> int:
    """Return sum_ij w_i w_j z_ij over all ordered pairs of `rows`, diagonal included (SMERF, below Eq. 1)."""
    total = 0
    for i in rows:
        for j in rows:
            total += int(weights[i]) * int(weights[j]) * z_int[i][j]
    return total


class Cut(NamedTuple):
    """A cut of one candidate: its threshold, its exact gain and the size of the terms of the gain."""

    candidate: int
    threshold: float
    gain: Fraction
    magnitude: Fraction


def gain_of(T: int, n: int, LL: int, nL: int, RR: int, nR: int) -> Fraction:
    """Return T/n - LL/n_L - RR/n_R = n I(S) - n_L I(S_L) - n_R I(S_R) (SMERF, Eq. 1)."""
    return Fraction(T, n) - Fraction(LL, nL) - Fraction(RR, nR)


def midpoint(a: float, b: float) -> float:
    """Return a + (b - a)/2 in float64, and a where that rounds to b."""
    t = a + (b - a) / 2
    return a if t == b else t


def every_cut(values: Matrix, pairs: Pairs, weights: Integers, min_leaf: int) -> list[Cut]:
    """Return each cut of each candidate, gain Eq. 1 in units of z, sums from scratch, NaN values left out."""
    cuts = []
    for candidate, row_values in enumerate(values):
        v = [float(value) for value in row_values]
        seen = [row for row in range(len(v)) if weights[row] > 0 and not math.isnan(v[row])]
        distinct = sorted({v[row] for row in seen})
        n, T = _weight(seen, weights), pair_sum(pairs.z, seen, weights)
        for a, b in pairwise(distinct):
            t = midpoint(a, b)
            left, right = [row for row in seen if v[row] <= t], [row for row in seen if v[row] > t]
            nL, nR = _weight(left, weights), _weight(right, weights)
            if nL < min_leaf or nR < min_leaf:
                continue
            LL, RR = pair_sum(pairs.z, left, weights), pair_sum(pairs.z, right, weights)
            gain = gain_of(T, n, LL, nL, RR, nR) / pairs.scale
            magnitude = Fraction(abs(T), n) + Fraction(abs(LL), nL) + Fraction(abs(RR), nR)
            cuts.append(Cut(candidate, t, gain, magnitude / pairs.scale))
    return cuts


def best_of(cuts: Sequence[Cut]) -> Found:
    """Return (candidate, threshold, gain) of the largest gain that is not below 0, first if equal; or -1.

    A gain that is rounding, of either sign, is 0; a cut that gains 0 is one all the same, as in CART.
    """
    best: Cut | None = None
    for cut in cuts:
        rounding = ROUNDING * cut.magnitude
        own = cut if cut.gain > rounding else cut._replace(gain=Fraction(0))
        if cut.gain >= -rounding and (best is None or own.gain > best.gain):
            best = own
    return (-1, 0.0, 0.0) if best is None else (best.candidate, best.threshold, float(best.gain))


def best_cut_dense(values: Matrix, z: Matrix, weights: Integers, min_leaf: int, bits: int) -> Found:
    """Return the best cut (Eq. 1) of candidates (d, m) by distances (m, m) in fixed point."""
    return best_of(every_cut(values, dense_pairs(z, bits), weights, min_leaf))


def best_cut_labels(values: Matrix, codes: Integers, weights: Integers, min_leaf: int) -> Found:
    """Return the best cut (Eq. 1) with z_ij = 1[y_i != y_j]: Gini (Proposition 1)."""
    return best_of(every_cut(values, label_pairs(codes), weights, min_leaf))


def best_cut_weighted(
    values: Matrix, codes: Integers, weights: Integers, min_leaf: int, class_weights: Integers
) -> Found:
    """Return the best cut by labels, a row counting w c_y in the gain and w against `min_leaf`."""
    heavy = [int(w) * int(class_weights[code]) for w, code in zip(weights, codes, strict=True)]
    allowed = []
    for cut in every_cut(values, label_pairs(codes), heavy, 1):
        v = [float(value) for value in values[cut.candidate]]
        left = _weight([row for row in range(len(v)) if v[row] <= cut.threshold], weights)
        right = _weight([row for row in range(len(v)) if v[row] > cut.threshold], weights)
        if left >= min_leaf and right >= min_leaf:
            allowed.append(cut)
    return best_of(allowed)


def best_cut_embedding(values: Matrix, Y: Matrix, weights: Integers, min_leaf: int, factor: float) -> Found:
    """Return the best cut (Eq. 1) with z_ij = factor ||Y_i - Y_j||^2; 1/2: variance (Proposition 2)."""
    return best_of(every_cut(values, embedding_pairs(Y, factor), weights, min_leaf))


def _weight(rows: Sequence[int], weights: Integers) -> int:
    """Return sum_i w_i over `rows`."""
    return sum(int(weights[row]) for row in rows)


@dataclass(frozen=True)
class Limits:
    """When a node is closed, and how many columns an attempt at a cut tries."""

    max_features: int
    min_samples_split: int = 2
    min_samples_leaf: int = 1
    max_depth: int | None = None


@dataclass
class Node:
    """A node of a growing tree; `rows` are all that reached it, in the bag or not."""

    rows: list[int]
    depth: int
    column: int = -1
    threshold: float = 0.0
    gain: float = 0.0
    left: int = -1
    right: int = -1


def grow_tree(
    X: NDArray[Any], pairs: Pairs | Distances, weights: Integers, seed: int, tree: int, limits: Limits
) -> Table:
    """Return the node table of one axis-aligned SMERF tree (steps 2 to 5), grown level by level."""
    nodes = [Node(list(range(len(X))), 0)]
    for own, node in enumerate(nodes):  # the list grows while it is read: level by level, parents ascending
        if _is_closed(node, pairs, weights, limits):
            continue
        order = axis_permutation(seed, tree, own, X.shape[1])
        node.column, node.threshold, node.gain = _cut_node(X, node.rows, pairs, weights, order, limits)
        if node.column >= 0:
            node.left, node.right = len(nodes), len(nodes) + 1
            v = {row: float(X[row, node.column]) for row in node.rows}
            nodes.append(Node([row for row in node.rows if v[row] <= node.threshold], node.depth + 1))
            nodes.append(Node([row for row in node.rows if v[row] > node.threshold], node.depth + 1))
    return _table(nodes, weights, len(X))


def _is_closed(node: Node, pairs: Pairs | Distances, weights: Integers, limits: Limits) -> bool:
    """Tell whether a node is too light, too deep, or pure (all z of its in-bag pairs equal), step 5."""
    rows = [row for row in node.rows if weights[row] > 0]
    pure = len({pairs.z[i][j] for i in rows for j in rows}) == 1
    return _weight(rows, weights) < limits.min_samples_split or node.depth == limits.max_depth or pure


def _cut_node(
    X: NDArray[Any], rows: list[int], pairs: Pairs | Distances, weights: Integers, order: list[int], limits: Limits
) -> Found:
    """Return (column, threshold, gain) of the first attempt with a cut, or column -1 (steps 3 and 4)."""
    z = pairs.of_node(rows, weights)
    w = [int(weights[row]) for row in rows]
    for start in range(0, len(order), limits.max_features):
        columns = order[start : start + limits.max_features]
        values = [[float(X[row, column]) for row in rows] for column in columns]
        candidate, threshold, gain = best_of(every_cut(values, z, w, limits.min_samples_leaf))
        if candidate >= 0:
            return columns[candidate], threshold, gain
    return -1, 0.0, 0.0


def _table(nodes: Sequence[Node], weights: Integers, n: int) -> Table:
    """Return the nodes as arrays, with `leaves`: the node in which each training row ends."""
    leaves = np.full(n, -1, dtype=np.int32)
    for own, node in enumerate(nodes):
        leaves[node.rows] = own  # a child comes after its parent: the last node that a row reaches stays
    columns = [node.column for node in nodes if node.left >= 0]
    return {
        "left": np.array([node.left for node in nodes], dtype=np.int32),
        "right": np.array([node.right for node in nodes], dtype=np.int32),
        "threshold": np.array([node.threshold for node in nodes], dtype=np.float64),
        "width": np.array([int(node.left >= 0) for node in nodes], dtype=np.int32),
        "columns": np.array(columns, dtype=np.int32),
        "weights": np.ones(len(columns), dtype=np.float64),
        "gain": np.array([node.gain for node in nodes], dtype=np.float64),
        "n_rows": np.array([_weight(node.rows, weights) for node in nodes], dtype=np.int64),
        "leaves": leaves,
    }


def route(table: Table, X: NDArray[Any]) -> NDArray[np.int32]:
    """Return where each row ends: v = sum weights x[columns]; NaN stops, v <= threshold goes left."""
    ends = []
    for x in X:
        node = 0
        while table["left"][node] >= 0:
            start = sum(int(width) for width in table["width"][:node])
            v = 0.0
            for place in range(start, start + int(table["width"][node])):
                v += float(table["weights"][place]) * float(x[table["columns"][place]])
            if math.isnan(v):
                break
            node = int(table["left" if v <= table["threshold"][node] else "right"][node])
        ends.append(node)
    return np.array(ends, dtype=np.int32)


def reached(table: Table | None, leaves: Integers, node: int) -> list[int]:
    """Return the rows that reached `node`: those that end in it or, given the table, below it."""
    family = [node]
    if table is not None:
        for parent in family:  # grows while it is read
            family += [int(table[side][parent]) for side in ("left", "right") if table[side][parent] >= 0]
    return [row for row, leaf in enumerate(leaves) if leaf in family]


def class_counts(table: Table, leaves: Integers, codes: Integers, weights: Integers, K: int) -> NDArray[np.int32]:
    """Return sum of w_i 1[y_i = k] over the rows that reached each node, (N, K)."""
    counts = np.zeros((len(table["left"]), K), dtype=np.int32)
    for node in range(len(counts)):
        for row in reached(table, leaves, node):
            counts[node, codes[row]] += int(weights[row])
    return counts


def means(
    table: Table, leaves: Integers, Y: Matrix, weights: Integers
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return each node's weighted mean of Y, (N, q), and of ||Y||^2, (N,), over the rows that reached it."""
    exact = [[Fraction(float(value)) for value in row] for row in Y]
    mean, mean_squares = [], []
    for node in range(len(table["left"])):
        rows = reached(table, leaves, node)
        w, n = [int(weights[i]) for i in rows], _weight(rows, weights)
        points = [exact[i] for i in rows]
        mean.append([float(sum(u * y[c] for u, y in zip(w, points, strict=True)) / n) for c in range(len(Y[0]))])
        squares = sum((u * sum(value**2 for value in y) for u, y in zip(w, points, strict=True)), Fraction(0))
        mean_squares.append(float(squares / n))
    return np.array(mean), np.array(mean_squares)


def spreads(table: Table, leaves: Integers, Y: Matrix, weights: Integers) -> NDArray[np.float64]:
    """Return each node's weighted mean of ||Y - mean||^2, (N,), over the rows that reached it, exactly."""
    exact, found = [[Fraction(float(value)) for value in row] for row in Y], []
    for node in range(len(table["left"])):
        rows = reached(table, leaves, node)
        n, total = _weight(rows, weights), Fraction(0)
        for c in range(len(exact[0])):
            mean = sum((int(weights[i]) * exact[i][c] for i in rows), Fraction(0)) / n
            total += sum((int(weights[i]) * (exact[i][c] - mean) ** 2 for i in rows), Fraction(0))
        found.append(float(total / n))
    return np.array(found)


def means_distance(a: Vector, a_squares: float, b: Vector, b_squares: float, factor: float) -> float:
    """Return factor (ms + ms' - 2 m.m'), the mean of factor ||Y_i - Y_j||^2 (Eq. 2, 13)."""
    return factor * (float(a_squares) + float(b_squares) - 2 * linear(a, b))


def counts_distance(a: Integers, b: Integers) -> float:
    """Return 1 - sum_k p_k p'_k, p the shares of the classes: Eq. 2 with z_ij = 1[y_i != y_j]."""
    same = sum(int(u) * int(v) for u, v in zip(a, b, strict=True))
    return float(1 - Fraction(same, sum(map(int, a)) * sum(map(int, b))))


def leaf_distance(z: Matrix, weights: Integers, leaves: Integers, a: int, b: int, table: Table | None = None) -> float:
    """Return sum w_i w_j z_ij / sum w_i w_j, i in a, j in b (inner nodes: with `table`), SMERF Eq. 2."""
    total, n = Fraction(0), 0
    for i in reached(table, leaves, a):
        for j in reached(table, leaves, b):
            w = int(weights[i]) * int(weights[j])
            total, n = total + w * Fraction(float(z[i][j])), n + w
    return float(total / n)


class Grown(NamedTuple):
    """A tree over its training rows: weights (n,), leaves (n,); the table if rows may end at inner nodes."""

    weights: Integers
    leaves: Integers
    table: Table | None = None


def forest_distance(z: Matrix, trees: Sequence[Grown], a: Integers, b: Integers) -> float:
    """Return (1/B) sum_b h_b(a_b, b_b), a and b the nodes (B,) of two points in each tree (SMERF, Eq. 3)."""
    total = 0.0
    for tree, node_a, node_b in zip(trees, a, b, strict=True):
        total += leaf_distance(z, tree.weights, tree.leaves, int(node_a), int(node_b), tree.table)
    return total / len(trees)


def proximity(a: Integers, b: Integers) -> float:
    """Share of trees whose node is the same for two rows, given the node of each tree."""
    return sum(1 for s, t in zip(a, b, strict=True) if s == t) / len(a)


def oob_distance(z: Matrix, trees: Sequence[Grown], i: int, j: int) -> tuple[float, int]:
    """Return Eq. 3 over the trees with w_i = w_j = 0, and their number; NaN where none, and for i = j."""
    chosen = [tree for tree in trees if tree.weights[i] == 0 and tree.weights[j] == 0 and i != j]
    if not chosen:
        return math.nan, 0
    a, b = ([int(tree.leaves[row]) for tree in chosen] for row in (i, j))
    return forest_distance(z, chosen, a, b), len(chosen)


def linear(x: Vector, y: Vector) -> float:
    """Return x.y."""
    return math.fsum(float(a) * float(b) for a, b in zip(x, y, strict=True))


def cosine(x: Vector, y: Vector) -> float:
    """Return x.y / (||x|| ||y||)."""
    return linear(x, y) / math.sqrt(linear(x, x) * linear(y, y))


def manhattan(x: Vector, y: Vector) -> float:
    """Return minus the sum of |x_q - y_q|."""
    return -math.fsum(abs(float(a) - float(b)) for a, b in zip(x, y, strict=True))


def codes(features: Matrix, edges: Sequence[Sequence[float]]) -> list[list[int]]:
    """Return how many of its column's edges lie below each feature."""
    return [[sum(edge < float(x) for edge in own) for x, own in zip(row, edges, strict=True)] for row in features]


def rbf(x: Vector, y: Vector, gamma: float) -> float:
    """Return exp(-gamma ||x - y||^2)."""
    return math.exp(-gamma * math.fsum((float(a) - float(b)) ** 2 for a, b in zip(x, y, strict=True)))


def simforest_value(S: Matrix, k: int, i: int, j: int) -> float:
    """Return S_kj - S_ki, the only part of SimForest's projection that orders the objects (step 3)."""
    return float(S[k][j]) - float(S[k][i])
