"""Links whose two kinds are exchanged: what is said to be similar contradicts itself, and the rest agrees."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from distforest.sources.point_pairs import SIMILAR

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from distforest.sources.source import Float32s, Int32s

MOST_IN_TRIPLES = 1024
"""Triples are sought among at most so many points, those of the most pairs."""

FEWEST_TRIPLES, MORE_OFTEN, CERTAIN = 20, 0.1, 5.0
"""Of fewer triples of either kind nothing is said; by how much more often than in any pair two points must be
dissimilar that are dissimilar to the same third one; and by how many standard errors.

Measured on pairs of five sets with labels, with 10 to 30 % of wrong ones among them, on three networks, and on pairs
that are nearer than a quantile of all distances: right links are never told, of 2,000 sets of random links one is."""


def told_of_exchanged(pairs: Int32s, codes: NDArray[np.uint8]) -> str:
    """Say that similar and dissimilar pairs seem to be exchanged; else "".

    What is similar to the same thing is similar, more often than any two; two points that are dissimilar to the same
    third one may be either. If the dissimilar pairs agree in that way and the similar ones do not, their names are
    wrong, as where a 1 means a different class.

    Parameters
    ----------
    pairs
        Numbers of the two points of each pair, shape (m, 2).
    codes
        `SIMILAR` or another number for each pair, shape (m,).

    Examples
    --------
    >>> pairs = np.stack(np.triu_indices(12, 1), axis=1)
    >>> alike = pairs[:, 0] % 3 == pairs[:, 1] % 3
    >>> told_of_exchanged(pairs, alike.astype(np.uint8))
    'two points that are similar to the same third one are similar to each other in 57 % of all cases, any two in 73 %,
    and two that are dissimilar to it are dissimilar in 100 %, any two in 27 %, so that the two kinds seem to be
    exchanged; give True or 1 for pairs that belong together'
    >>> told_of_exchanged(pairs, 1 - alike.astype(np.uint8))
    ''
    """
    counts = np.bincount(pairs.ravel())
    chosen = np.sort(np.argsort(-counts, kind="stable")[:MOST_IN_TRIPLES])
    place = np.full(len(counts), -1)
    place[chosen] = np.arange(len(chosen))
    inside = (place[pairs] >= 0).all(axis=1)
    linked = np.zeros((2, len(chosen), len(chosen)), np.float32)
    kinds = (codes[inside] != SIMILAR).astype(np.int64)
    left, right = place[pairs[inside]].T
    linked[kinds, left, right] = linked[kinds, right, left] = 1.0
    linked[:, (linked[0] * linked[1]) > 0.0] = 0.0  # what is both contradicts itself in another way
    totals = linked.sum(axis=(1, 2), dtype=np.float64)
    if not totals.all():
        return ""
    of_all = totals / totals.sum()
    n_alike, n_triples = np.array([_triples(linked[kind], linked[1 - kind]) for kind in range(2)]).T
    if n_triples.min() < FEWEST_TRIPLES:
        return ""
    shares = n_alike / n_triples
    error = np.sqrt(of_all[0] * of_all[1] / n_triples[1])
    if shares[0] >= of_all[0] or shares[1] - of_all[1] < max(MORE_OFTEN, CERTAIN * error):
        return ""
    similar, dissimilar = (f"{100.0 * shares[kind]:.0f} %" for kind in range(2))
    third = "two points that are similar to the same third one are similar to each other in"
    found = f"{third} {similar} of all cases, any two in {100.0 * of_all[0]:.0f} %"
    others = f"two that are dissimilar to it are dissimilar in {dissimilar}, any two in {100.0 * of_all[1]:.0f} %"
    cure = "give True or 1 for pairs that belong together"
    return f"{found}, and {others}, so that the two kinds seem to be exchanged; {cure}"


def _triples(linked: Float32s, others: Float32s) -> tuple[float, float]:
    """In how many cases two points with links to a third one are linked in this way, and in either way."""
    paths = linked @ linked
    alike = float((paths * linked).sum(dtype=np.float64)) / 2.0
    return alike, alike + float((paths * others).sum(dtype=np.float64)) / 2.0
