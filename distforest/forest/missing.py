"""The route of a row that lacks a value which a cut needs.

``stop``: it stays in the node (Sathe, Aggarwal). ``mean``: a missing similarity is read as the mean of the row's
observed ones (`distforest.sources.filled`), so that a row stays only if none of its similarities is observed.
``larger``: it goes to the side of more in-bag weight. ``surrogate``: one half of the projection decides if all its
values are observed. Each half has its own threshold: above it, the terms of positive weight send the row right, and
those of negative weight send it left. If neither half decides, the row goes to the larger side. ``learned``: it goes to
the side for which the cut gained most with the training rows that lacked a value, as in scikit-learn's trees. If there
were none, or the criterion omitted them, it goes to the side of more in-bag weight, or right if both are equal.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from distforest.forest.frontier import LEFT, RIGHT, STAY, Frontier
from distforest.jit import kernel
from distforest.sources.filled import ROW_MEAN
from distforest.sources.source import Floats, Ints, Projections, Source, offsets, taken

RULES = (ROW_MEAN, "stop", "larger", "surrogate")
"""Rules for a forest of similarities."""

LEARNED = "learned"
"""Rule for features."""

ALL_OBSERVED = float(np.finfo(np.float64).max)
"""Threshold of a cut with every observed value on the left, and the missing ones on the right."""


def halves(projections: Projections) -> Projections:
    """Return two candidates per node: the terms of positive weight, and those of negative weight with reversed signs.

    ``projections`` has one candidate per node.
    """
    node = np.repeat(np.arange(projections.n_nodes), np.diff(projections.offset))
    half = 2 * node + (projections.weights < 0.0)
    order = np.argsort(half, kind="stable")
    sizes = np.bincount(half, minlength=2 * projections.n_nodes)
    return Projections(2, offsets(sizes), projections.columns[order], np.abs(projections.weights[order]))


def send_by_halves(
    source: Source, frontier: Frontier, projections: Projections, surrogate: Floats, side: NDArray[np.int8]
) -> None:
    """Send rows that stay to a side, if the observed half of their projection decides.

    Parameters
    ----------
    source
        The matrix from which values are read.
    frontier
        The rows, grouped by node.
    projections
        One candidate per node.
    surrogate
        Thresholds of the two halves, shape (n_nodes, 2); NaN if a half does not decide.
    side
        The side of each row, shape (m,); changed for the rows that a half decides.
    """
    lacking = np.bincount(frontier.place[side == STAY], minlength=frontier.n_nodes) > 0
    decided = lacking & ~np.isnan(surrogate).all(axis=1)
    if not decided.any():
        return
    of_decided, rows = frontier.take(decided)
    nodes = np.flatnonzero(decided)
    values = source.project(
        of_decided.rows, of_decided.starts, halves(taken(projections, nodes, np.zeros(len(nodes), np.int32)))
    )
    sides = side[rows]
    decide_by_halves(of_decided.starts, values, surrogate[decided], sides)
    side[rows] = sides


@kernel
def decide_by_halves(starts: Ints, values: Floats, surrogate: Floats, side: NDArray[np.int8]) -> None:
    """Send each row that stays to the side of `side_of_halves`."""
    for node in range(starts.shape[0] - 1):
        for r in range(starts[node], starts[node + 1]):
            if side[r] == STAY:
                side[r] = side_of_halves(values[0, r], values[1, r], surrogate[node])


@kernel
def side_of_halves(positive: float, negative: float, surrogate: Floats) -> int:
    """Right if the positive half > its threshold, else left; if NaN, left if the negative half > its, else right."""
    if positive == positive and surrogate[0] == surrogate[0]:
        return RIGHT if positive > surrogate[0] else LEFT
    if negative == negative and surrogate[1] == surrogate[1]:
        return LEFT if negative > surrogate[1] else RIGHT
    return STAY


@kernel
def send_on(starts: Ints, goes_right: NDArray[np.bool_], side: NDArray[np.int8]) -> None:
    """Send each row that stays to the side of its node, shape (n_nodes,)."""
    for node in range(starts.shape[0] - 1):
        for r in range(starts[node], starts[node + 1]):
            if side[r] == STAY:
                side[r] = RIGHT if goes_right[node] else LEFT
