"""What becomes of a row that lacks a value which a cut needs.

``stop``: it stays in the node (Sathe, Aggarwal). ``larger``: it goes to the side of more in-bag weight. ``surrogate``:
one half of the projection tells, if all its values are there: the terms of positive weight, right above a threshold of
their own, or those of negative weight, left above theirs; if neither does, it goes to the larger side.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from distforest.forest.frontier import LEFT, RIGHT, STAY, Frontier
from distforest.jit import kernel
from distforest.sources.arrays import ArraySource
from distforest.sources.source import Floats, Ints, Projections, Source, offsets, taken
from distforest.sources.sparse import SparseSource

RULES = ("stop", "larger", "surrogate")


def rows_without_values(source: Source) -> Ints:
    """The numbers of rows of which no value is observed: every cut sends them where it sends all that lack a value.

    Examples
    --------
    >>> rows_without_values(ArraySource.of(np.array([[1.0, np.nan], [np.nan, np.nan]])))
    array([1])
    """
    if isinstance(source, SparseSource):
        return np.flatnonzero(np.diff(source.indptr) == 0)
    if not isinstance(source, ArraySource) or source.is_complete:
        return np.empty(0, np.int64)
    found = np.arange(source.shape[0])
    for column in source.values.T:  # mostly the first ones tell of all rows
        found = found[np.isnan(column[found])]
        if not len(found):
            break
    return found


def told_of_rows_without_values(count: int, n_rows: int, first: int) -> str:
    """What is to be told of such rows."""
    which = f"row {first} of {n_rows:,} has" if count == 1 else f"{count:,} of {n_rows:,} rows have"
    where = "" if count == 1 else f", the first of them row {first}"
    what = "what is said of such a row follows from no comparison, and is the same for all"
    return f"{which} no observed similarity{where}: {what}; observe some, or leave it out"


def halves(projections: Projections) -> Projections:
    """Two candidates a node: the terms of positive weight, and those of negative weight with their signs turned.

    ``projections`` has one candidate a node.
    """
    node = np.repeat(np.arange(projections.n_nodes), np.diff(projections.offset))
    half = 2 * node + (projections.weights < 0.0)
    order = np.argsort(half, kind="stable")
    sizes = np.bincount(half, minlength=2 * projections.n_nodes)
    return Projections(2, offsets(sizes), projections.columns[order], np.abs(projections.weights[order]))


def send_on(
    source: Source, frontier: Frontier, projections: Projections, surrogate: Floats, side: NDArray[np.int8]
) -> None:
    """Send rows that stay to a side by the half of their projection that is there.

    Parameters
    ----------
    source
        Where their values are read.
    frontier
        The rows, in their nodes.
    projections
        One candidate a node.
    surrogate
        Thresholds of the two halves, shape (n_nodes, 2); NaN where a half says nothing.
    side
        Of each row; those that stay and have a half are changed.
    """
    lacking = np.bincount(frontier.place[side == STAY], minlength=frontier.n_nodes) > 0
    told = lacking & ~np.isnan(surrogate).all(axis=1)
    if not told.any():
        return
    asking, rows = frontier.take(told)
    nodes = np.flatnonzero(told)
    values = source.project(
        asking.rows, asking.starts, halves(taken(projections, nodes, np.zeros(len(nodes), np.int32)))
    )
    own = side[rows]
    decide_by_halves(asking.starts, values, surrogate[told], own)
    side[rows] = own


@kernel
def decide_by_halves(starts: Ints, values: Floats, surrogate: Floats, side: NDArray[np.int8]) -> None:
    """A row that stays goes where the halves of its projection tell it to."""
    for node in range(starts.shape[0] - 1):
        for r in range(starts[node], starts[node + 1]):
            if side[r] == STAY:
                side[r] = side_of_halves(values[0, r], values[1, r], surrogate[node])


@kernel
def side_of_halves(positive: float, negative: float, surrogate: Floats) -> int:
    """Right where the positive half > its threshold, else left; NaN: left where the negative half > its, else right."""
    if positive == positive and surrogate[0] == surrogate[0]:
        return RIGHT if positive > surrogate[0] else LEFT
    if negative == negative and surrogate[1] == surrogate[1]:
        return LEFT if negative > surrogate[1] else RIGHT
    return STAY


@kernel
def send_to_larger(starts: Ints, right_is_larger: NDArray[np.bool_], side: NDArray[np.int8]) -> None:
    """Rows that stay go to the larger side of their node."""
    for node in range(starts.shape[0] - 1):
        for r in range(starts[node], starts[node + 1]):
            if side[r] == STAY:
                side[r] = RIGHT if right_is_larger[node] else LEFT
