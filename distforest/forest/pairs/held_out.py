"""Calibration pairs: which pairs of labelled points, whose identities, and the distances of pairs out of bag.

A distance is out of bag by identity if it comes from trees that have drawn no record of either identity. A tree that
has drawn other records of a person knows the person.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import scipy.sparse

from distforest.errors import InputError
from distforest.forest.pairs.decisions import Calibration
from distforest.forest.pairs.pair_leaves import Votes
from distforest.forest.pairs.pair_scores import distances_from, node_scores, out_of_bag, training_pairs
from distforest.sources.point_pairs import DISSIMILAR

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from distforest.forest.forest import Forest
    from distforest.sources.source import Int32s, Ints

MOST_LABELLED_PAIRS = 1 << 18
"""Most pairs of labelled points that are taken for a calibration."""

LEAST_TREES = 10
"""Least number of trees for a distance out of bag; those of fewer trees spread more than those of the forest."""


def pairs_of_labels(labels: Int32s) -> Int32s:
    """All pairs of labelled points, shape (n_pairs, 2); of many points a fixed choice, half of it of similar pairs."""
    n = len(labels)
    if n * (n - 1) // 2 <= MOST_LABELLED_PAIRS:
        return np.stack(np.triu_indices(n, 1), axis=1).astype(np.int32)
    rng, order = np.random.default_rng(0), np.argsort(labels, kind="stable")
    counts = np.bincount(labels)
    place, own = rng.integers(n, size=MOST_LABELLED_PAIRS // 2), labels[order]
    place = place[counts[own[place]] > 1]
    start, size = (np.cumsum(counts) - counts)[own[place]], counts[own[place]]
    similar = [order[place], order[start + (place - start + rng.integers(1, size)) % size]]
    first, second = rng.integers(n, size=(2, MOST_LABELLED_PAIRS // 2))
    apart = labels[first] != labels[second]
    pairs = np.concatenate([np.stack(similar, axis=1), np.stack([first[apart], second[apart]], axis=1)])
    return pairs.astype(np.int32)


def linked_identities(pairs: Int32s, similar: NDArray[np.bool_], n_points: int) -> Int32s:
    """The identity of each point, shape (n_points,): similar pairs connect the points of an identity."""
    left, right = pairs[similar].T
    graph = scipy.sparse.coo_array((np.ones(len(left)), (left, right)), (n_points, n_points))
    identities: Int32s = scipy.sparse.csgraph.connected_components(graph, directed=False)[1]
    return identities


class Taught(NamedTuple):
    """What a forest over pairs was taught, with weights as integers; None: equal weights."""

    truth: NDArray[Any]  # the label of each point, shape (n_points,), or the class of each of ``pairs``
    pairs: Int32s | None  # the given pairs, shape (n_pairs, 2); None: the truth is labels
    point_weight: Int32s | None
    pair_weight: Int32s | Ints | None


def taught_pairs(taught: Taught, n_points: int) -> tuple[Int32s, NDArray[np.bool_], Int32s]:
    """Return the pairs that a forest was taught, whether they are similar, and the identities of all points.

    Points and pairs of weight 0 are absent.
    """
    truth, links, point_weight, pair_weight = taught
    present = np.ones(n_points, np.bool_) if point_weight is None else point_weight > 0
    if links is not None:
        known = present[links].all(axis=1)
        if pair_weight is not None:
            known &= pair_weight > 0
        links, similar = links[known], truth[known] != DISSIMILAR
        return links, similar, linked_identities(links, similar, n_points)
    points = np.flatnonzero(present)
    pairs = points[pairs_of_labels(truth[points])].astype(np.int32)
    return pairs, truth[pairs[:, 0]] == truth[pairs[:, 1]], truth


def calibrated_out_of_bag(forest: Forest, pairs: Int32s, similar: NDArray[np.bool_], identities: Int32s) -> Calibration:
    """Calibrate a forest by pairs of its training points, out of bag by identity.

    ``pairs`` are the numbers of the two points of each pair, shape (n_pairs, 2), ``identities`` those of all points.

    Raises
    ------
    InputError
        Fewer than half of the pairs have `LEAST_TREES` trees that have drawn neither identity, or the forest takes the
        median of its trees.
    """
    cure = "hold out identities, and call calibrate or calibrate_pairs with their points"
    table = node_scores(forest)
    if not isinstance(table, Votes) and table.median:
        raise InputError(f"a forest with aggregation='median' has no distances out of bag; {cure}")
    answers, count = out_of_bag(forest, training_pairs(forest, pairs), identities)
    known = count >= LEAST_TREES
    if 2 * int(known.sum()) < len(known):
        needed = f"{LEAST_TREES} trees that have drawn no record of either identity"
        found = f"found as many for {int(known.sum()):,} of {len(known):,} pairs"
        more = "grow more trees, each on fewer points (resample='points' in RFD, and a smaller max_samples)"
        raise InputError(f"distances out of bag need {needed}, {found}; {cure}, or {more}")
    return Calibration(distances_from(forest, answers[known]), similar[known], identities[pairs[known]])
