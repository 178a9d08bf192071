"""Criteria: the best cut of each open node. All four lower the mean pairwise distance (SMERF, Eq. 1).

For a set S of rows with weights w, let m = sum w and P(S) = sum over ordered pairs of w_i w_j z_ij, self pairs
included. A cut into L and R gains ``P(S)/m - P(L)/m_L - P(R)/m_R``, which is n I(S) - n_L I(S_L) - n_R I(S_R).
What differs is how P is had: from a matrix, or in closed form from labels (Gini) or from vectors (variance).
Every P is an exact integer (fixed point), so a cut does not depend on the order of the rows.

Ties: the largest gain, then the candidate drawn first, then the lowest threshold. Gains that differ by rounding are
equal; the sums of the two sides are added first, so that a cut and its mirror image gain the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from distforest.errors import InputError
from distforest.forest.frontier import Frontier
from distforest.growth.ordering import order_values
from distforest.jit import kernel
from distforest.sources.source import Float32s, Floats, Ints, Rows

ROUNDING = 1e-12
"""A gain below this share of its own terms is rounding, not gain; so is a difference of two gains."""

DISTANCE_BITS = 26
"""Distances are held as integers up to 2^26, so that one times a multiplicity up to 31 fits 32 bits."""


class Cuts(NamedTuple):
    """For each node the candidate chosen (-1: none), its threshold and its gain in fixed-point units."""

    candidate: Rows
    threshold: Floats
    gain: Floats

    @classmethod
    def none(cls, n_nodes: int) -> Cuts:
        """No cut for any node."""
        return cls(np.full(n_nodes, -1, np.int32), np.zeros(n_nodes), np.zeros(n_nodes))


class Criterion(Protocol):
    """What a cut is judged by."""

    @property
    def unit(self) -> float:
        """A gain of 1 in `Cuts` in units of the distance."""

    def impure(self, frontier: Frontier) -> NDArray[np.bool_]:
        """Whether a cut of each node could gain anything, shape (n_nodes,)."""

    def cut(self, frontier: Frontier, values: Floats, min_leaf: int) -> Cuts:
        """The best cut of each node over the candidates' ``values``, shape (width, n_rows)."""


@dataclass(frozen=True)
class Gini:
    """z_ij = 1[y_i != y_j], so P(S) = m^2 - sum_k m_k^2: the Gini impurity (SMERF, Proposition 1)."""

    codes: Rows
    n_classes: int
    unit: float = 1.0

    def impure(self, frontier: Frontier) -> NDArray[np.bool_]:
        """Whether a node holds two classes."""
        return _differs(frontier, self.codes)

    def cut(self, frontier: Frontier, values: Floats, min_leaf: int) -> Cuts:
        """The best cut of each node."""
        cuts = Cuts.none(frontier.n_nodes)
        cut_gini(
            *(frontier.starts, frontier.rows, frontier.weights, values),
            *(self.codes, self.n_classes, min_leaf, *cuts),
        )
        return cuts


@dataclass(frozen=True)
class Variance:
    """z_ij = f ||Y_i - Y_j||^2, so P(S) = 2 f (m sum w ||Y||^2 - ||sum w Y||^2) (SMERF, Proposition 2, f = 1/2)."""

    fixed: Ints
    unit: float

    @classmethod
    def of(cls, vectors: Floats, factor: float) -> Variance:
        """Hold ``vectors``, shape (n_rows, n_dimensions), about their middle as integers whose sums fit 63 bits."""
        centred = vectors - (vectors.min(axis=0) + vectors.max(axis=0)) / 2.0
        bits = 60 - int(np.ceil(np.log2(max(2, len(vectors)))))
        scale = _power_of_two(float(np.abs(centred).max(initial=0.0)), bits)
        return cls(np.rint(centred * scale).astype(np.int64), 2.0 * factor * scale**-2.0)

    def impure(self, frontier: Frontier) -> NDArray[np.bool_]:
        """Whether a node holds two different vectors."""
        found = np.zeros(frontier.n_nodes, np.bool_)
        for dimension in self.fixed.T:
            found |= _differs(frontier, dimension)
        return found

    def cut(self, frontier: Frontier, values: Floats, min_leaf: int) -> Cuts:
        """The best cut of each node."""
        cuts = Cuts.none(frontier.n_nodes)
        cut_variance(
            *(frontier.starts, frontier.rows, frontier.weights, values),
            *(self.fixed, min_leaf, *cuts),
        )
        return cuts


@dataclass(frozen=True)
class MeanDistance:
    """z_ij from a symmetric float32 matrix, read in fixed point: rint(z * scale)."""

    distances: Float32s
    scale: float

    @classmethod
    def of(cls, distances: Float32s, largest: float) -> MeanDistance:
        """Scale ``distances``, shape (n_rows, n_rows), by the power of two that takes ``largest`` to 2^26."""
        return cls(distances, _power_of_two(largest, DISTANCE_BITS))

    @property
    def unit(self) -> float:
        """A gain of 1 in `Cuts` in units of the distance."""
        return 1.0 / self.scale

    def impure(self, frontier: Frontier) -> NDArray[np.bool_]:
        """Whether two pairs of a node differ in their distance."""
        found = np.zeros(frontier.n_nodes, np.bool_)
        distances_differ(frontier.starts, frontier.rows, self.distances, found)
        return found

    def cut(self, frontier: Frontier, values: Floats, min_leaf: int) -> Cuts:
        """The best cut of each node."""
        cuts = Cuts.none(frontier.n_nodes)
        if frontier.weights.max(initial=0) > 31:
            raise InputError("a row was drawn more than 31 times for one tree; lower max_samples")
        cut_distances(
            *(frontier.starts, frontier.rows, frontier.weights, values),
            *(self.distances, np.float32(self.scale), min_leaf, *cuts),
        )
        return cuts


def _power_of_two(largest: float, bits: int) -> float:
    """The power of two that takes ``largest`` into [2^(bits-1), 2^bits]; a power, so that scaling is exact."""
    if largest == 0.0:
        return 1.0
    return float(2.0 ** (bits - np.ceil(np.log2(largest))))


def _differs(frontier: Frontier, values: NDArray[np.int32] | Ints) -> NDArray[np.bool_]:
    """Whether two rows of a node differ in ``values``."""
    own = values[frontier.rows]
    low = np.minimum.reduceat(own, frontier.starts[:-1])
    high = np.maximum.reduceat(own, frontier.starts[:-1])
    return np.asarray(low < high)


@kernel
def keep_best(
    node: int,
    candidate: int,
    below: float,
    above: float,
    gain: float,
    best: Rows,
    threshold: Floats,
    gains: Floats,
) -> None:
    """Let the cut between the values ``below`` < ``above`` be the node's cut if its gain is the largest so far."""
    if best[node] >= 0 and gain <= gains[node] * (1.0 + ROUNDING):
        return
    middle = below + (above - below) / 2.0
    best[node] = candidate
    gains[node] = gain
    threshold[node] = middle if middle < above else below  # rounding must not send the right side left


@kernel
def cut_gini(
    starts: Ints,
    rows: Rows,
    weights: Rows,
    values: Floats,
    codes: Rows,
    n_classes: int,
    min_leaf: int,
    best: Rows,
    threshold: Floats,
    gains: Floats,
) -> None:
    """P(S) = m^2 - sum_k m_k^2, kept while the rows go over from right to left in the order of a candidate."""
    longest = (starts[1:] - starts[:-1]).max()
    order = np.empty(longest, np.int64)
    keys, spare = np.empty(longest, np.uint64), np.empty(longest, np.uint64)
    left, right = np.empty(n_classes, np.int64), np.empty(n_classes, np.int64)
    for node in range(starts.shape[0] - 1):
        first = starts[node]
        for k in range(values.shape[0]):
            own = values[k, first : starts[node + 1]]
            n = order_values(own, order, keys, spare)
            left[:] = 0
            right[:] = 0
            m = 0
            for e in range(n):
                right[codes[rows[first + order[e]]]] += weights[first + order[e]]
                m += weights[first + order[e]]
            squares_left, squares_right = 0, 0
            for c in range(n_classes):
                squares_right += right[c] * right[c]
            whole = (m * m - squares_right) / m
            m_left = 0
            for e in range(n - 1):
                w = np.int64(weights[first + order[e]])
                c = codes[rows[first + order[e]]]
                squares_left += w * (2 * left[c] + w)
                squares_right -= w * (2 * right[c] - w)
                left[c] += w
                right[c] -= w
                m_left += w
                if own[order[e]] == own[order[e + 1]] or m_left < min_leaf or m - m_left < min_leaf:
                    continue
                m_right = m - m_left
                inside_left = (m_left * m_left - squares_left) / m_left
                inside_right = (m_right * m_right - squares_right) / m_right
                gain = whole - (inside_left + inside_right)
                if gain > ROUNDING * (whole + inside_left + inside_right):
                    keep_best(node, k, own[order[e]], own[order[e + 1]], gain, best, threshold, gains)


@kernel
def cut_variance(
    starts: Ints,
    rows: Rows,
    weights: Rows,
    values: Floats,
    fixed: Ints,
    min_leaf: int,
    best: Rows,
    threshold: Floats,
    gains: Floats,
) -> None:
    """P(S)/m - P(L)/m_L - P(R)/m_R = m_L m_R / m ||mean_L - mean_R||^2, as sum w ||Y||^2 cancels."""
    longest = (starts[1:] - starts[:-1]).max()
    n_dimensions = fixed.shape[1]
    order = np.empty(longest, np.int64)
    keys, spare = np.empty(longest, np.uint64), np.empty(longest, np.uint64)
    left, right = np.empty(n_dimensions, np.int64), np.empty(n_dimensions, np.int64)
    for node in range(starts.shape[0] - 1):
        first = starts[node]
        for k in range(values.shape[0]):
            own = values[k, first : starts[node + 1]]
            n = order_values(own, order, keys, spare)
            left[:] = 0
            right[:] = 0
            m = 0
            for e in range(n):
                m += weights[first + order[e]]
                for q in range(n_dimensions):
                    right[q] += weights[first + order[e]] * fixed[rows[first + order[e]], q]
            m_left = 0
            for e in range(n - 1):
                w = np.int64(weights[first + order[e]])
                m_left += w
                for q in range(n_dimensions):
                    moved = w * fixed[rows[first + order[e]], q]
                    left[q] += moved
                    right[q] -= moved
                if own[order[e]] == own[order[e + 1]] or m_left < min_leaf or m - m_left < min_leaf:
                    continue
                m_right = m - m_left
                apart, rounding = 0.0, 0.0
                for q in range(n_dimensions):
                    mean_left, mean_right = left[q] / m_left, right[q] / m_right
                    apart += (mean_left - mean_right) ** 2
                    rounding += (ROUNDING * (abs(mean_left) + abs(mean_right))) ** 2
                if apart > rounding:
                    gain = apart * m_left * m_right / m
                    keep_best(node, k, own[order[e]], own[order[e + 1]], gain, best, threshold, gains)


@kernel
def distances_differ(starts: Ints, rows: Rows, distances: Float32s, found: NDArray[np.bool_]) -> None:
    """found[f] = whether two of the node's z_ij differ, self pairs included; mostly seen at the first few pairs."""
    for node in range(starts.shape[0] - 1):
        group = rows[starts[node] : starts[node + 1]]
        reference = distances[group[0], group[0]]
        for i in group:
            for j in group:
                if distances[i, j] != reference:
                    found[node] = True
                    break
            if found[node]:
                break


@kernel
def cut_distances(
    starts: Ints,
    rows: Rows,
    weights: Rows,
    values: Floats,
    distances: Float32s,
    scale: np.float32,
    min_leaf: int,
    best: Rows,
    threshold: Floats,
    gains: Floats,
) -> None:
    """All cuts of all candidates from one pass over the node's block of the matrix.

    With rows in the order of a candidate, c_i = sum over earlier j of w_j z_ij and r_i = sum over all j of w_j z_ij:
    P(L_m) = sum over the first m rows of w_i (2 c_i + w_i z_ii), and P(R_m) = P(S) - 2 sum w_i r_i + P(L_m).
    A row of the block is gathered once for all candidates; "earlier" is a mask on ranks, so that no row is permuted.
    """
    n_candidates = values.shape[0]
    longest = (starts[1:] - starts[:-1]).max()
    keys, spare = np.empty(longest, np.uint64), np.empty(longest, np.uint64)
    order = np.empty((n_candidates, longest), np.int64)
    rank = np.empty((n_candidates, longest), np.int32)
    n_observed = np.empty(n_candidates, np.int64)
    inside, across = np.empty((n_candidates, longest), np.int64), np.empty((n_candidates, longest), np.int64)
    gathered = np.empty(longest, np.int32)
    for node in range(starts.shape[0] - 1):
        first, size = starts[node], starts[node + 1] - starts[node]
        group, own_weights = rows[first : first + size], weights[first : first + size]
        for k in range(n_candidates):
            n = order_values(values[k, first : first + size], order[k], keys, spare)
            n_observed[k] = n
            rank[k, :size] = size  # unobserved: after everything
            for e in range(n):
                rank[k, order[k, e]] = e
        for i in range(size):
            row = distances[group[i]]
            for j in range(size):
                gathered[j] = np.int32(np.rint(row[group[j]] * scale)) * own_weights[j]
            for k in range(n_candidates):
                earlier, observed = masked_sums(gathered[:size], rank[k, :size], rank[k, i], n_observed[k])
                inside[k, i] = own_weights[i] * (2 * earlier + gathered[i])
                across[k, i] = own_weights[i] * observed
        for k in range(n_candidates):
            scan_distances(
                *(node, k, values[k, first : first + size], order[k, : n_observed[k]]),
                *(own_weights, inside[k], across[k], min_leaf, best, threshold, gains),
            )


@kernel
def masked_sums(gathered: Rows, rank: Rows, limit: int, n_observed: int) -> tuple[int, int]:
    """Sums of gathered[j] over the j with rank[j] < limit, and over all observed j; free of branches."""
    earlier, observed = 0, 0
    for j in range(gathered.shape[0]):
        earlier += gathered[j] if rank[j] < limit else 0
        observed += gathered[j] if rank[j] < n_observed else 0
    return earlier, observed


@kernel
def scan_distances(
    node: int,
    candidate: int,
    values: Floats,
    order: Ints,
    weights: Rows,
    inside: Ints,
    across: Ints,
    min_leaf: int,
    best: Rows,
    threshold: Floats,
    gains: Floats,
) -> None:
    """Walk one candidate's order with P(L) += inside[i], and P(R) = P(S) - 2 sum across + P(L)."""
    m, total = 0, 0
    for place in order:
        m += weights[place]
        total += across[place]
    m_left, left, moved = 0, 0, 0
    whole = total / m if m else 0.0
    for e in range(order.shape[0] - 1):
        place, after = order[e], order[e + 1]
        m_left += weights[place]
        left += inside[place]
        moved += across[place]
        if values[place] == values[after] or m_left < min_leaf or m - m_left < min_leaf:
            continue
        inside_left, inside_right = left / m_left, (total - 2 * moved + left) / (m - m_left)
        gain = whole - (inside_left + inside_right)
        if gain > ROUNDING * (abs(whole) + abs(inside_left) + abs(inside_right)):
            keep_best(node, candidate, values[place], values[after], gain, best, threshold, gains)
