"""Cuts between the bins of a histogram of pairs: bins of values, or the categories of a node in their order.

The last bin may be that of missing pairs, which are tried on either side.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from distforest.forest.frontier import LEFT, RIGHT, STAY
from distforest.growth.cuts.scan import keep_best, note_missing
from distforest.growth.cuts.two_classes import gain_of_counts, whole_of
from distforest.jit import borrowing

if TYPE_CHECKING:
    from distforest.growth.cuts.scan import Cuts
    from distforest.growth.cuts.two_classes import Judged
    from distforest.sources.source import Floats, Int32s, Ints


class WalkRoom(NamedTuple):
    """Room for the sides of a cut, shape (2,), and for the numbers of the bins that hold pairs, shape (n_bins,)."""

    sides: Ints
    held: Int32s

    @classmethod
    def of(cls, n_bins: int) -> WalkRoom:
        """Allocate room for histograms of so many bins."""
        return cls(np.empty(2, np.int64), np.empty(n_bins, np.int32))


@borrowing
def fill_missing(filled: NDArray[np.int32], held: Int32s, counts: Ints) -> None:
    """filled[last bin, s] = what is left of a node's ``counts`` when the pairs of the bins ``held`` are taken away."""
    last = filled.shape[0] - 1
    of_0, of_1 = counts[0], counts[1]
    for b in held:
        of_0 -= filled[b, 0]
        of_1 -= filled[b, 1]
    filled[last, 0], filled[last, 1] = of_0, of_1


@borrowing
def held_bins(filled: NDArray[np.int32], held: Int32s) -> int:
    """Write the numbers of the bins that hold something, ascending, and return how many these are."""
    n, both = 0, filled.view(np.uint64)
    for b in range(both.shape[0]):  # without a branch, which would be mispredicted where every other bin is empty
        held[n] = b
        n += both[b, 0] != 0
    return n


@borrowing
def empty_bins(filled: NDArray[np.int32], held: Int32s) -> None:
    """Empty the bins ``held`` and the last one."""
    last = filled.shape[0] - 1
    filled[last, 0], filled[last, 1] = 0, 0
    for b in held:
        filled[b, 0], filled[b, 1] = 0, 0


@borrowing
def cut_bins(
    node: int,
    candidate: int,
    filled: NDArray[np.int32],
    edges: Floats,
    judged: Judged,
    begins: int,
    room: WalkRoom,
    cuts: Cuts,
) -> None:
    """`cut_held` of all bins that hold pairs."""
    n = held_bins(filled[: filled.shape[0] - (begins != STAY)], room.held)
    cut_held(node, candidate, filled, room.held[:n], edges, judged, begins, room.sides, cuts)


@borrowing
def cut_held(
    node: int,
    candidate: int,
    filled: NDArray[np.int32],
    held: Int32s,
    edges: Floats,
    judged: Judged,
    begins: int,
    left: Ints,
    cuts: Cuts,
) -> None:
    """Walk over the bins ``held`` with the missing pairs, those of the last bin, on the right, and then on the left.

    On the side ``begins`` they are among those that are counted from the start; ``STAY``: no pair is missing.
    """
    last = filled.shape[0] - 1
    left[0], left[1] = 0, 0
    if begins == STAY or (filled[last, 0] == 0 and filled[last, 1] == 0):
        walk_bins(node, candidate, filled, held, edges, judged, STAY, left, cuts)
        return
    for side in (RIGHT, LEFT):
        for s in range(2):
            left[s] = filled[last, s] if side == begins else 0
        walk_bins(node, candidate, filled, held, edges, judged, side, left, cuts)


@borrowing
def walk_bins(
    node: int,
    candidate: int,
    filled: NDArray[np.int32],
    held: Int32s,
    edges: Floats,
    judged: Judged,
    missing: int,
    left: Ints,
    cuts: Cuts,
) -> None:
    """`scan_two_classes` over the bins ``held``; a cut between two is at the middle one of the edges between them.

    ``left`` holds what is counted from the start. If the side of ``missing`` pairs is the right one, a further cut
    parts them from all others.
    """
    counts, costs, min_leaf = judged.counts[node], judged.costs[node], judged.min_leaf
    whole, before, least = whole_of(counts, costs), -1, cuts.gain[node]
    for b in held:
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
