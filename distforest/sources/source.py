"""A source: a matrix that answers coordinates, and the projections that a split reads from it."""

from __future__ import annotations

from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

Int32s = NDArray[np.int32]
Floats = NDArray[np.float64]
Float32s = NDArray[np.float32]
Similarities = NDArray[np.float32] | NDArray[np.float64]
Ints = NDArray[np.int64]

NUMBERS = "fiub"
"""Kinds of dtypes that are numbers."""


class Projections(NamedTuple):
    """``width`` candidate projections for each of some nodes, ragged.

    ::

        node            0         1
        candidate       0    1    0    1          candidate k of node f is number f * width + k
        columns        [3] [0 7] [5]  []          an empty candidate is constant, so it is never cut
        offset          0   1     3    4  4
    """

    width: int
    offset: Ints
    columns: Int32s
    weights: Floats

    @property
    def n_nodes(self) -> int:
        """Number of nodes that have candidates here."""
        return (len(self.offset) - 1) // self.width


def offsets(sizes: NDArray[np.integer] | NDArray[np.bool_]) -> Ints:
    """Where each of some runs of these sizes begins, and where the last one ends, shape (n + 1,)."""
    found = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=found[1:])
    return found


def runs(offset: Ints, which: Ints) -> tuple[Ints, Ints]:
    """Some runs of a ragged array: where each of them then begins, shape (n + 1,), and the places of their entries."""
    size = offset[which + 1] - offset[which]
    begin = offsets(size)
    return begin, np.repeat(offset[which] - begin[:-1], size) + np.arange(begin[-1])


def taken(projections: Projections, nodes: Ints, candidate: Int32s) -> Projections:
    """One candidate of each of ``nodes``, shape (n,), as projections of one candidate each."""
    offset, entry = runs(projections.offset, nodes * projections.width + candidate)
    return Projections(1, offset, projections.columns[entry], projections.weights[entry])


@runtime_checkable
class Source(Protocol):
    """A matrix that answers coordinates; NaN means unobserved. It knows of no tree."""

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""

    def entries(self, rows: Int32s, columns: Int32s) -> Floats:
        """The values at ``(rows[e], columns[e])``, shape (n_entries,)."""

    def block(self, rows: Int32s, columns: Int32s) -> Floats:
        """The values at ``rows`` x ``columns``, shape (n_rows, n_columns)."""

    def project(self, rows: Int32s, starts: Ints, projections: Projections) -> Floats:
        """The candidates' values, shape (width, n_rows): as `project_entries`, bit for bit."""


def block_entries(source: Source, rows: Int32s, columns: Int32s) -> Floats:
    """The values at ``rows`` x ``columns`` of a source that answers single coordinates, shape (n_rows, n_columns)."""
    shape = len(rows), len(columns)
    return source.entries(np.repeat(rows, shape[1]), np.tile(columns, shape[0])).reshape(shape)


def project_entries(source: Source, rows: Int32s, starts: Ints, projections: Projections) -> Floats:
    """Project rows that are grouped by node onto the candidates of their node.

    Every coordinate of the level is asked for in one call of ``source.entries``; a sum runs in the order of the
    candidate's columns. This is the slow twin of every source's own ``project``.

    Parameters
    ----------
    source
        The matrix to read.
    rows
        Row numbers, shape (m,), grouped by node.
    starts
        Where each node's rows begin, shape (n_nodes + 1,).
    projections
        The candidates of each node.

    Returns
    -------
    ndarray
        Shape (width, m); NaN where a value that the candidate needs is unobserved.
    """
    node = np.repeat(np.arange(projections.n_nodes), np.diff(starts))
    number = node[None, :] * projections.width + np.arange(projections.width)[:, None]
    first, last = projections.offset[number], projections.offset[number + 1]
    longest = int((last - first).max(initial=0))
    terms = first[:, :, None] + np.arange(longest)
    asked = terms < last[:, :, None]
    row = np.broadcast_to(rows[None, :, None], terms.shape)[asked]
    values = source.entries(row, projections.columns[terms[asked]]) * projections.weights[terms[asked]]
    summands = np.zeros(terms.shape)
    summands[asked] = values
    total = np.zeros(number.shape)
    for term in range(longest):
        total += summands[:, :, term]
    return total
