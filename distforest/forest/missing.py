"""Where a row goes that lacks a value which a cut needs.

``stop``: it stays in the node (Sathe, Aggarwal). ``mean``: a missing similarity is read as the mean of the row's
observed ones (`distforest.sources.filled`), so that a row stays only if none of its similarities is observed.
``larger``: it goes to the side of more in-bag weight. ``surrogate``: one half of the projection decides if all its
values are observed. Each half has its own threshold: above it, the terms of positive weight send the row right, and
those of negative weight send it left. If neither half decides, the row goes to the larger side. ``learned``: it goes to
the side on which the cut gained most with the training rows that lacked a value, as in scikit-learn's trees. If none
did, or the criterion left them out, it goes to the side of more in-bag weight, and of two equal ones to the right.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from distforest.forest.frontier import LEFT, RIGHT, STAY, Frontier
from distforest.jit import kernel
from distforest.sources.arrays import ArraySource
from distforest.sources.filled import MEAN
from distforest.sources.kernels import KernelSource
from distforest.sources.side_by_side import SideBySide
from distforest.sources.source import Floats, Ints, Projections, Source, offsets, taken
from distforest.sources.sparse import SparseSource

RULES = (MEAN, "stop", "larger", "surrogate")
"""The rules among which a forest of similarities may choose."""

LEARNED = "learned"
"""The rule of features."""

LACKING = "lacking_columns"
"""The key in a forest's provenance of the columns of which a training row lacked the value."""

ALL_OBSERVED = float(np.finfo(np.float64).max)
"""The threshold of a cut that has every observed value on the left, and the missing ones on the right."""


def rows_without_values(source: Source) -> Ints:
    """Find the rows of which no value is observed; every cut sends them where it sends all rows that lack a value.

    Examples
    --------
    >>> rows_without_values(ArraySource.of(np.array([[1.0, np.nan], [np.nan, np.nan]])))
    array([1])
    """
    if isinstance(source, SideBySide):  # of built-in similarities, which read the same features
        return rows_without_values(source.sources[0])
    if isinstance(source, SparseSource):
        return np.flatnonzero(np.diff(source.indptr) == 0)
    if not isinstance(source, (ArraySource, KernelSource)) or source.is_complete:
        return np.empty(0, np.int64)
    rows, values = np.arange(source.shape[0]), source.values if isinstance(source, ArraySource) else source.row_objects
    for column in values.T:  # the first few columns usually rule out all rows
        rows = rows[np.isnan(column[rows])]
        if not len(rows):
            break
    return rows


def told_of_rows_without_values(count: int, n_rows: int, first: int, value: str = "observed similarity") -> str:
    """A warning of ``count`` rows without any value, in the words of ``value``; the first one is row ``first``."""
    which = f"row {first} of {n_rows:,} has" if count == 1 else f"{count:,} of {n_rows:,} rows have"
    where = "" if count == 1 else f", the first of them row {first}"
    consequence = "the answer for such a row rests on no comparison, and is the same for all of them"
    return f"{which} no {value}{where}: {consequence}; observe some, or leave it out"


def count_unlearned(values: np.ndarray, learned: Collection[int]) -> dict[int, int]:
    """Count the rows that lack a value of each column of which no training row did, by column.

    Rows without any value are left out: of these, `told_of_rows_without_values` tells.

    Parameters
    ----------
    values
        Queries, shape (n, n_columns).
    learned
        The columns that are not counted: training rows lacked them, or something else tells of them.

    Examples
    --------
    >>> count_unlearned(np.array([[1.0, np.nan], [np.nan, np.nan], [3.0, np.nan]]), [])
    {1: 2}
    """
    lacks = np.isnan(values)
    counts = lacks[~lacks.all(axis=1)].sum(axis=0)
    return {int(column): int(counts[column]) for column in np.flatnonzero(counts) if column not in learned}


def told_of_unlearned(counts: Mapping[int, int], n_rows: int, names: Sequence[str] | None = None) -> str:
    """A warning of queries that lack values which no training row lacked, from `count_unlearned`; "" without any.

    Examples
    --------
    >>> told_of_unlearned({0: 2, 3: 1}, 10, ["age", "b", "c", "d"])
    "no training row lacked a value of 'age' (2 of 10 rows do), 'd' (1), so the forest has not learned where such rows
    belong: they go to the larger side of each split on it; train on rows that lack it, too, or fill in the values"
    """
    if not counts:
        return ""
    ordered = sorted(counts, key=lambda column: (-counts[column], column))
    named = [repr(names[column]) if names else f"column {column}" for column in ordered[:4]]
    first, *rest = [f"{name} ({counts[column]:,}" for name, column in zip(named, ordered, strict=False)]
    verb = "does" if counts[ordered[0]] == 1 else "do"
    columns = ", ".join([f"{first} of {n_rows:,} rows {verb})", *(f"{one})" for one in rest)])
    more = f" and {len(ordered) - 4:,} more" if len(ordered) > 4 else ""
    follows = "so the forest has not learned where such rows belong: they go to the larger side of each split on it"
    cure = "train on rows that lack it, too, or fill in the values"
    return f"no training row lacked a value of {columns}{more}, {follows}; {cure}"


def halves(projections: Projections) -> Projections:
    """Two candidates per node: the terms of positive weight, and those of negative weight with their signs reversed.

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
