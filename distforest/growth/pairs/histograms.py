"""Cuts between the bins of a histogram of pairs: bins of values, or the categories of a node in their order.

The last bin may be that of missing pairs, which are tried on either side.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from distforest.forest.frontier import LEFT, RIGHT, STAY
from distforest.growth.cuts.criteria import keep_best, note_missing
from distforest.growth.cuts.two_classes import gain_of_counts, whole_of
from distforest.jit import borrowing

if TYPE_CHECKING:
    from distforest.growth.cuts.criteria import Cuts
    from distforest.growth.cuts.two_classes import Judged
    from distforest.sources.source import Floats, Ints


@borrowing
def cut_bins(
    node: int,
    candidate: int,
    filled: NDArray[np.int32],
    edges: Floats,
    judged: Judged,
    begins: int,
    left: Ints,
    cuts: Cuts,
) -> None:
    """Walk over the bins with the missing pairs, those of the last bin, on the right, and then on the left.

    On the side ``begins`` they are among those that are counted from the start; ``STAY``: no pair is missing.
    """
    last = filled.shape[0] - 1
    left[:] = 0
    if begins == STAY or (filled[last, 0] == 0 and filled[last, 1] == 0):
        walk_bins(node, candidate, filled, edges, judged, STAY, left, cuts)
        return
    for side in (RIGHT, LEFT):
        for s in range(2):
            left[s] = filled[last, s] if side == begins else 0
        walk_bins(node, candidate, filled[:last], edges, judged, side, left, cuts)


@borrowing
def walk_bins(
    node: int,
    candidate: int,
    filled: NDArray[np.int32],
    edges: Floats,
    judged: Judged,
    missing: int,
    left: Ints,
    cuts: Cuts,
) -> None:
    """`scan_two_classes` over bins; a cut between two filled bins is at the middle one of the edges between them.

    ``left`` holds what is counted from the start. If the side of ``missing`` pairs is the right one, a further cut
    parts them from all others.
    """
    counts, costs, min_leaf = judged.counts[node], judged.costs[node], judged.min_leaf
    whole, before, least = whole_of(counts, costs), -1, cuts.gain[node]
    for b in range(filled.shape[0]):
        if filled[b, 0] == 0 and filled[b, 1] == 0:
            continue
        if before >= 0:
            gain = gain_of_counts(whole, left, counts, costs, min_leaf)
            if gain > cuts.gain[node]:
                edge = edges[(before + b - 1) // 2]
                keep_best(node, candidate, edge, edge, gain, cuts)
        before = b
        left[0] += filled[b, 0]
        left[1] += filled[b, 1]
    if missing == RIGHT:
        gain = gain_of_counts(whole, left, counts, costs, min_leaf)
        if gain > cuts.gain[node]:
            keep_best(node, candidate, 0.0, np.inf, gain, cuts)
    note_missing(node, least, missing, cuts)
