"""The side of training rows with missing values: by surrogates, or as learned.

Surrogates are thresholds by which one half of a projection decides the side of a row whose other half is unobserved.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from distforest.forest.frontier import LEFT, RIGHT, STAY, Frontier, longest_of
from distforest.forest.missing import decide_by_halves, halves, send_on
from distforest.growth.cuts.ordering import order_values
from distforest.jit import kernel
from distforest.sources.source import Floats, Int32s, Ints, Projections, Source


def place_missing(
    rule: str, source: Source, frontier: Frontier, projections: Projections, side: NDArray[np.int8]
) -> Floats:
    """Send on the rows that would stay, by the rule ``"larger"`` or ``"surrogate"`` of `distforest.forest.missing`.

    ``frontier`` contains the nodes that are cut, ``projections`` the one candidate of each. ``side``, the side of each
    row by its value, shape (n_rows,), is changed: no row stays afterwards. Return the thresholds of the two halves of
    each node, shape (n_nodes, 2); NaN if a half does not decide.
    """
    surrogate = np.full((frontier.n_nodes, 2), np.nan)
    if not frontier.n_nodes:
        return surrogate
    if rule == "surrogate":
        values = source.project(frontier.rows, frontier.starts, halves(projections))
        find_surrogates(frontier.starts, frontier.weights, values, side, surrogate)
        decide_by_halves(frontier.starts, values, surrogate, side)
    right_is_larger = np.empty(frontier.n_nodes, np.bool_)
    compare_sides(frontier.starts, frontier.weights, side, right_is_larger)
    send_on(frontier.starts, right_is_larger, side)
    return surrogate


def place_learned(frontier: Frontier, learned: NDArray[np.int8], side: NDArray[np.int8]) -> NDArray[np.bool_]:
    """Send on the rows that would stay, to the side that was learned with them, or else to that of more weight.

    ``learned`` is the side of rows with missing values in each node that is cut, ``STAY`` if none was learned, shape
    (n_nodes,). ``side``, the side of each row by its value, shape (n_rows,), is changed: no row stays afterwards.
    Return whether such rows go right, shape (n_nodes,); they do if both sides have equal weight, as in scikit-learn.
    """
    goes_right = np.empty(frontier.n_nodes, np.bool_)
    send_as_learned(frontier.starts, frontier.weights, learned, side, goes_right)
    return goes_right


@kernel
def send_as_learned(
    starts: Ints, weights: Int32s, learned: NDArray[np.int8], side: NDArray[np.int8], goes_right: NDArray[np.bool_]
) -> None:
    """Send each row that stays to the learned side of its node, or to the side of more weight, or to the right."""
    for node in range(starts.shape[0] - 1):
        first, last = starts[node], starts[node + 1]
        goes_right[node] = learned[node] == RIGHT
        if learned[node] == STAY:
            balance = 0
            for r in range(first, last):
                balance += weights[r] * (np.int64(side[r] == RIGHT) - np.int64(side[r] == LEFT))
            goes_right[node] = balance >= 0
        own = np.int8(RIGHT if goes_right[node] else LEFT)
        for r in range(first, last):  # without a branch, which would be mispredicted
            side[r] = own if side[r] == STAY else side[r]


@kernel
def compare_sides(starts: Ints, weights: Int32s, side: NDArray[np.int8], right_is_larger: NDArray[np.bool_]) -> None:
    """right_is_larger[f] = sum of w on the right > sum of w on the left; rows that stay are omitted."""
    for node in range(starts.shape[0] - 1):
        balance = 0
        for r in range(starts[node], starts[node + 1]):
            if side[r] == RIGHT:
                balance += weights[r]
            elif side[r] == LEFT:
                balance -= weights[r]
        right_is_larger[node] = balance > 0


@kernel
def find_surrogates(starts: Ints, weights: Int32s, values: Floats, side: NDArray[np.int8], surrogate: Floats) -> None:
    """surrogate[f, h] = the cut of half h that agrees most, by weight, with the sides of the rows that have one.

    A row goes right if half 0 is above its threshold, and left if half 1 is above its own. A threshold is NaN where no
    cut agrees more than sending all rows to the larger side would. Of equal cuts the lowest threshold is taken.
    """
    longest = longest_of(starts)
    order = np.empty(longest, np.int64)
    keys, spare = np.empty(longest, np.uint64), np.empty(longest, np.uint64)
    seen = np.empty(longest, np.float64)
    for node in range(starts.shape[0] - 1):
        first, last = starts[node], starts[node + 1]
        for half in range(2):
            above = RIGHT if half == 0 else LEFT
            whole, agreeing = 0, 0  # the weight of all rows; of those that agree where all are above
            for r in range(first, last):
                seen[r - first] = np.nan if side[r] == STAY else values[half, r]
                if side[r] != STAY:
                    whole += weights[r]
                    agreeing += weights[r] if side[r] == above else 0
            most = max(agreeing, whole - agreeing)
            n = order_values(seen[: last - first], order, keys, spare)
            before = np.nan
            for place in order[:n]:
                value = seen[place]
                if value > before and agreeing > most:
                    middle = before + (value - before) / 2.0
                    surrogate[node, half] = middle if middle < value else before
                    most = agreeing
                before = value
                w = weights[first + place]
                agreeing += -w if side[first + place] == above else w
