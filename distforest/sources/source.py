"""Sources: matrices that are read by coordinates, and the projections that splits read from them."""

from __future__ import annotations

from typing import NamedTuple, Protocol, Self, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray

Int32s = NDArray[np.int32]
Floats = NDArray[np.float64]
Float32s = NDArray[np.float32]
Similarities = NDArray[np.float32] | NDArray[np.float64]
Ints = NDArray[np.int64]

_Number = TypeVar("_Number", bound=np.generic)

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
        """Number of nodes."""
        return (len(self.offset) - 1) // self.width


def offsets(sizes: NDArray[np.integer] | NDArray[np.bool_]) -> Ints:
    """The starts of consecutive runs of these sizes, and the end of the last one, shape (n + 1,)."""
    starts = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=starts[1:])
    return starts


def frozen(values: np.ndarray, dtype: type[_Number] | np.dtype[_Number]) -> NDArray[_Number]:
    """A contiguous, read-only view of ``values`` in a dtype; a copy where they have another one.

    Arrays and memory maps get one type, so that kernels are compiled once.
    """
    array = np.ascontiguousarray(values, dtype).view()
    array.flags.writeable = False
    return array


def spaced(n: int, most: int) -> Ints:
    """At most ``most`` evenly spaced numbers from 0 to ``n`` - 1, beginning with 0; none if ``n`` is 0.

    Examples
    --------
    >>> spaced(10, 4), spaced(3, 4)
    (array([0, 3, 6, 9]), array([0, 1, 2]))
    """
    return np.arange(0, n, max(1, -(-n // most)))


def runs(offset: Ints, which: Ints) -> tuple[Ints, Ints]:
    """Select runs of a ragged array: the offsets of the selection, shape (n + 1,), and its entries' places."""
    size = offset[which + 1] - offset[which]
    begin = offsets(size)
    return begin, np.repeat(offset[which] - begin[:-1], size) + np.arange(begin[-1])


def taken(projections: Projections, nodes: Ints, candidate: Int32s) -> Projections:
    """Keep one candidate of each of ``nodes``, shape (n,): projections of width 1."""
    offset, entry = runs(projections.offset, nodes * projections.width + candidate)
    return Projections(1, offset, projections.columns[entry], projections.weights[entry])


@runtime_checkable
class Source(Protocol):
    """A matrix that is read by coordinates; NaN means unobserved. It knows nothing of trees."""

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""

    def entries(self, rows: Int32s, columns: Int32s) -> Floats:
        """The values at ``(rows[e], columns[e])``, shape (n_entries,)."""

    def block(self, rows: Int32s, columns: Int32s) -> Floats:
        """The values at ``rows`` x ``columns``, shape (n_rows, n_columns)."""

    def project(self, rows: Int32s, starts: Ints, projections: Projections) -> Floats:
        """The candidates' values, shape (width, n_rows), the same bits as of `project_entries`."""


@runtime_checkable
class RowSource(Source, Protocol):
    """A source whose rows may lie in blocks: in memory, on disk, or on several workers."""

    @property
    def is_complete(self) -> bool:
        """Whether it is known that no value is missing."""

    def of_rows(self) -> tuple[np.ndarray, Float32s | None]:
        """What is stored of each row: its values or the codes of its bins, and its categories beside codes."""

    def over(self, values: np.ndarray, categories: Float32s | None) -> Self:
        """The source of other rows, from what is stored of them."""


class ReadByEntries:
    """A source whose blocks are read as single entries."""

    def entries(self, rows: Int32s, columns: Int32s) -> Floats:
        """The values at ``(rows[e], columns[e])``, shape (n_entries,)."""
        raise NotImplementedError

    def block(self, rows: Int32s, columns: Int32s) -> Floats:
        """The values at ``rows`` x ``columns``, shape (n_rows, n_columns)."""
        shape = len(rows), len(columns)
        return self.entries(np.repeat(rows, shape[1]), np.tile(columns, shape[0])).reshape(shape)


def project_entries(source: Source, rows: Int32s, starts: Ints, projections: Projections) -> Floats:
    """Project rows that are grouped by node onto the candidates of their node.

    One call of ``source.entries`` reads all coordinates of the level; a sum runs in the order of the candidate's
    columns. This is the slow reference for the ``project`` of every source.

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
        Shape (width, m); NaN where the candidate reads an unobserved value.
    """
    node = np.repeat(np.arange(projections.n_nodes), np.diff(starts))
    number = node[None, :] * projections.width + np.arange(projections.width)[:, None]
    first, last = projections.offset[number], projections.offset[number + 1]
    longest = int((last - first).max(initial=0))
    terms = first[:, :, None] + np.arange(longest)
    is_term = terms < last[:, :, None]
    row = np.broadcast_to(rows[None, :, None], terms.shape)[is_term]
    values = source.entries(row, projections.columns[terms[is_term]]) * projections.weights[terms[is_term]]
    summands = np.zeros(terms.shape)
    summands[is_term] = values
    total = np.zeros(number.shape)
    for term in range(longest):
        total += summands[:, :, term]
    return total
