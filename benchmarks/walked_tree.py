"""The peer of a dense SMERF tree: the same tree by plain loops that walk permuted rows of the matrix.

Node by node; for each candidate the rows are sorted, and every row in order adds its distances to all rows before
it, read from the matrix where they lie. float64 sums, no trick but the compiler. The draws are the product's own
(`distforest.growth.rng`), so that the same cuts must come out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from distforest.growth.rng import below, stream
from distforest.jit import kernel

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Float32s = NDArray[np.float32]
    Ints = NDArray[np.int64]
    Tree = tuple[Ints, Ints, Ints, Floats]

ROUNDING = 1e-12


def walked_tree(distances: Float32s, features: Float32s, weights: NDArray[np.int32], seed: int, width: int) -> Tree:
    """Grow tree 0 of a forest; left, right and column (-1 at leaves) and threshold of each node.

    Parameters
    ----------
    distances, features
        Shapes (n, n) and (n, p).
    weights
        Multiplicity of each row, shape (n,).
    seed, width
        Of the forest, and candidates of a node.
    """
    left, right, column, threshold, n_nodes = _grow(distances, features, weights.astype(np.int64), seed, width)
    return left[:n_nodes], right[:n_nodes], column[:n_nodes], threshold[:n_nodes]


@kernel
def _grow(distances: Float32s, features: Float32s, weights: Ints, seed: int, width: int) -> Any:
    n, p = features.shape
    rows = np.flatnonzero(weights)
    left, right, column = np.full(2 * n, -1), np.full(2 * n, -1), np.full(2 * n, -1)
    threshold = np.zeros(2 * n)
    first, last = np.zeros(2 * n, np.int64), np.zeros(2 * n, np.int64)
    last[0], n_nodes, node = len(rows), 1, 0
    while node < n_nodes:
        own = rows[first[node] : last[node]]
        if weights[own].sum() >= 2 and _impure(distances, own):
            columns = np.arange(p)
            key = stream(seed, 0, node)
            for t in range(p):
                other = t + below(key, t, p - t)
                columns[t], columns[other] = columns[other], columns[t]
            for begin in range(0, p, width):
                best, cut, _ = _best_cut(distances, features, weights, own, columns[begin : begin + width])
                if best >= 0:
                    column[node], threshold[node] = best, cut
                    break
        if column[node] >= 0:
            values = features[own, column[node]].astype(np.float64)
            goes_left = values <= threshold[node]
            ordered = np.concatenate((own[goes_left], own[~goes_left]))
            rows[first[node] : last[node]] = ordered
            middle = first[node] + goes_left.sum()
            left[node], right[node] = n_nodes, n_nodes + 1
            first[n_nodes], last[n_nodes] = first[node], middle
            first[n_nodes + 1], last[n_nodes + 1] = middle, last[node]
            n_nodes += 2
        node += 1
    return left, right, column, threshold, n_nodes


@kernel
def _impure(distances: Float32s, own: Ints) -> bool:
    reference = distances[own[0], own[0]]
    for i in own:
        for j in own:
            if distances[i, j] != reference:
                return True
    return False


@kernel
def _best_cut(distances: Float32s, features: Float32s, weights: Ints, own: Ints, columns: Ints) -> Any:
    """The best column, threshold and gain for one node; (-1, 0, 0) if there is none."""
    n = len(own)
    whole = np.zeros(n)
    for e in range(n):
        for f in range(n):
            whole[e] += weights[own[f]] * np.float64(distances[own[e], own[f]])
    best, threshold, best_gain = -1, 0.0, 0.0
    inside = np.zeros(n)
    for column in columns:
        values = features[own, column].astype(np.float64)
        order = np.argsort(values, kind="mergesort")
        for e in range(n):
            i = own[order[e]]
            earlier = 0.0
            for f in range(e):
                j = own[order[f]]
                earlier += weights[j] * np.float64(distances[i, j])
            inside[e] = weights[i] * (2.0 * earlier + weights[i] * np.float64(distances[i, i]))
        cut, gain = _scan(values[order], weights[own[order]], whole[order], inside)
        if gain > 0.0 and (best < 0 or gain > best_gain * (1.0 + ROUNDING)):
            best, threshold, best_gain = column, cut, gain
    return best, threshold, best_gain


@kernel
def _scan(values: Floats, weights: Ints, whole: Floats, inside: Floats) -> tuple[float, float]:
    """The threshold and the gain of the best cut of one candidate, from its rows in order; gain 0 if there is none."""
    m, total = weights.sum(), (weights * whole).sum()
    m_left, left, moved = 0, 0.0, 0.0
    threshold, best = 0.0, 0.0
    for e in range(len(values) - 1):
        m_left += weights[e]
        left += inside[e]
        moved += weights[e] * whole[e]
        if values[e] == values[e + 1]:
            continue
        parent, sides = total / m, left / m_left + (total - 2.0 * moved + left) / (m - m_left)
        gain = parent - sides
        if gain > ROUNDING * (abs(parent) + abs(sides)) and gain > best * (1.0 + ROUNDING):
            middle = values[e] + (values[e + 1] - values[e]) / 2.0
            threshold, best = (middle if middle < values[e + 1] else values[e]), gain
    return threshold, best
