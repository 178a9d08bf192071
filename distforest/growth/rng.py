"""Random numbers that are addressed by (seed, tree, node, draw). They have no state, so no schedule changes a forest.

A stream is SplitMix64 started at a hash of its key (Steele, Lea, Flood: Fast splittable pseudorandom number
generators, OOPSLA 2014). A number of a stream is addressed by its position; a stream is never advanced.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from distforest.jit import kernel
from distforest.sources.source import Int32s, Ints

Keys = NDArray[np.uint64]
"""The streams of some nodes, shape (n_nodes,)."""

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)
_ONE = np.uint64(1)
SAMPLE_NODE = -1
"""Node number under which a tree draws its rows."""
ORDER_NODE = -2
"""Node number under which a tree orders all objects; its nodes draw by that order."""


@kernel
def mix(z: np.uint64) -> np.uint64:
    """SplitMix64's finaliser: every bit of ``z`` moves about half of the bits of the result."""
    z = (z ^ (z >> np.uint64(30))) * _FIRST
    z = (z ^ (z >> np.uint64(27))) * _SECOND
    return z ^ (z >> np.uint64(31))


@kernel
def stream(seed: int, tree: int, node: int) -> np.uint64:
    """mix(mix(mix(seed + G) + (tree + 1) G) + (node + 1) G) modulo 2^64: the stream of one node."""
    key = mix(np.uint64(seed) + GOLDEN)
    key = mix(key + np.uint64(tree + 1) * GOLDEN)
    return mix(key + np.uint64(node + 1) * GOLDEN)


@kernel
def random_bits(key: np.uint64, draw: int) -> np.uint64:
    """Return the 64 random bits at place ``draw`` of the stream ``key``."""
    return mix(key + (np.uint64(draw) + _ONE) * GOLDEN)


@kernel
def below(key: np.uint64, draw: int, k: int) -> np.int64:
    """Return an integer in [0, k), k < 2^31: the upper 32 bits times k, shifted (the bias is below k / 2^32)."""
    return np.int64(((random_bits(key, draw) >> np.uint64(32)) * np.uint64(k)) >> np.uint64(32))


@kernel
def unit(key: np.uint64, draw: int) -> float:
    """Return a float64 in [0, 1) with 53 random bits."""
    return np.float64(random_bits(key, draw) >> np.uint64(11)) * 2.0**-53


@kernel
def streams(seed: int, tree: NDArray[np.int64], node: NDArray[np.int32], keys: Keys) -> None:
    """keys[f] = stream(seed, tree[f], node[f])."""
    for f in range(keys.shape[0]):
        keys[f] = stream(seed, tree[f], node[f])


@kernel
def bootstrap(seed: int, tree: int, n_draws: int, weights: NDArray[np.int32]) -> None:
    """Draw ``n_draws`` rows with replacement: weights[i] = how often row i is drawn."""
    key = stream(seed, tree, SAMPLE_NODE)
    weights[:] = 0
    for draw in range(n_draws):
        weights[below(key, draw, weights.shape[0])] += 1


@kernel
def bootstrap_part(seed: int, tree: int, n_draws: int, n_rows: int, first: int, weights: NDArray[np.int32]) -> None:
    """`bootstrap` of ``n_rows`` rows, counting only those from ``first`` on, as many as ``weights`` has."""
    key = stream(seed, tree, SAMPLE_NODE)
    weights[:] = 0
    for draw in range(n_draws):
        row = below(key, draw, n_rows) - first
        if 0 <= row < weights.shape[0]:
            weights[row] += 1


@kernel
def subsample(seed: int, tree: int, n_draws: int, weights: NDArray[np.int32]) -> None:
    """Draw ``n_draws`` rows without replacement, by Fisher-Yates: weights[i] = 1 for each row that is drawn."""
    key = stream(seed, tree, SAMPLE_NODE)
    n_rows = weights.shape[0]
    order = np.arange(n_rows)
    weights[:] = 0
    shuffle(key, 0, order, n_draws)
    for k in range(n_draws):
        weights[order[k]] = 1


@kernel
def shuffle(key: np.uint64, first: int, order: Int32s | Ints, n: int) -> None:
    """Fill the first ``n`` entries of ``order`` by a Fisher-Yates shuffle with draws first, first + 1, ... of a key."""
    for t in range(n):
        other = t + below(key, first + t, order.shape[0] - t)
        order[t], order[other] = order[other], order[t]
