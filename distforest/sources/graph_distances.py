"""Distances in a graph: absent - a for two nodes that are linked, and ``absent`` for all others, which no array holds.

A link a_ij in [0, absent] brings two nodes nearer. Only pairs whose distance is not ``absent`` are stored, so that two
graphs with the same distances have the same arrays, whatever zeros their matrices hold.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse

from distforest.errors import InputError
from distforest.sources.readings import GRAPH, Range, Reading, check_shape, common_offset, warn_of_asymmetry
from distforest.sources.source import Float32s, Floats, Ints, offsets
from distforest.sources.sparse import SparseSource, canonical_csr

if TYPE_CHECKING:
    from distforest.sources.sparse import SparseMatrix

MOST_KEPT_DENSE = 1 << 12
"""The most nodes of a graph of which a forest keeps the matrix, of 64 MiB; of a larger graph it keeps the links.

So a forest of few nodes has the same contents, and the same digest, as one that was taught the matrix.
"""


@dataclass(frozen=True, eq=False)
class GraphDistances:
    """The distances in a graph of n nodes.

    Attributes
    ----------
    stored
        The distances other than ``absent``, of both directions of a pair, shape (n, n); what is not stored is absent.
    absent
        The distance of two nodes without a link, a float32 number.

    Examples
    --------
    >>> links = scipy.sparse.coo_array(([1.0, 1.0], ([0, 1], [1, 0])), (3, 3))
    >>> graph, reading = read_graph(links)
    >>> graph.dense()
    array([[1., 0., 1.],
           [0., 1., 1.],
           [1., 1., 1.]], dtype=float32)
    """

    stored: SparseSource
    absent: float

    def __len__(self) -> int:
        return self.stored.shape[0]

    @property
    def nbytes(self) -> int:
        """Size of the arrays."""
        return self.stored.nbytes

    @property
    def values(self) -> Float32s:
        """The stored distances, row by row."""
        return self.stored.data.view(np.float32)

    @property
    def is_kept_dense(self) -> bool:
        """Whether a forest keeps the matrix."""
        return len(self) <= MOST_KEPT_DENSE

    @property
    def largest(self) -> float:
        """The largest absolute distance."""
        return self.largest_among(np.arange(len(self)))

    def largest_among(self, chosen: Ints) -> float:
        """The largest absolute distance of two of the ``chosen`` nodes, each of which is named once."""
        is_chosen = np.zeros(len(self), np.bool_)
        is_chosen[chosen] = True
        inside = is_chosen[self._rows] & is_chosen[self.stored.indices]
        largest = float(np.abs(self.values[inside]).max(initial=0.0))
        return max(largest, abs(self.absent)) if int(inside.sum()) < len(chosen) ** 2 else largest

    @property
    def _rows(self) -> Ints:
        """The row of each stored distance."""
        return np.repeat(np.arange(len(self)), np.diff(self.stored.indptr))

    def pairs(self, left: Ints, right: Ints) -> Floats:
        """The distances of pairs of nodes, shape (n_pairs,)."""
        values = self.stored.entries(left.astype(np.int32), right.astype(np.int32))
        return np.where(np.isnan(values), self.absent, values)

    def dense(self) -> Float32s:
        """The matrix, shape (n, n)."""
        matrix = np.full(self.stored.shape, self.absent, np.float32)
        matrix[self._rows, self.stored.indices] = self.values
        return matrix

    def truth(self) -> np.ndarray:
        """The matrix if a forest keeps it; otherwise nothing, shape (n, 0)."""
        return self.dense() if self.is_kept_dense else np.empty((len(self), 0), np.float32)


def read_graph(values: SparseMatrix, reading: Reading = GRAPH) -> tuple[GraphDistances, Reading]:
    """Read a sparse adjacency matrix: what is not stored is no link, as is a stored zero.

    Parameters
    ----------
    values
        SciPy's sparse matrix or array of any format, shape (n, n); it is not changed. Repeated entries are summed.
    reading
        The distance of nodes without a link, of nodes to themselves, and how links in one direction count.

    Returns
    -------
    graph : GraphDistances
        The distances.
    reading : Reading
        The reading, with the ``offset`` that was subtracted as in `distforest.sources.readings.read_level`.

    Raises
    ------
    InputError
        The matrix is not square, is empty or not numeric, or a link is NaN or not between 0 and ``absent``.

    Warns
    -----
    DistforestWarning
        a_ij and a_ji differ, and the reading does not say which counts.
    """
    check_shape(values, reading)
    matrix = canonical_csr(values)
    _check_links(matrix, reading)
    if reading.diagonal is not None:
        wide, own = matrix.astype(np.float64), reading.absent - reading.diagonal
        others = wide - scipy.sparse.diags_array(wide.diagonal())
        matrix = canonical_csr(others + own * scipy.sparse.eye_array(wide.shape[0]))
    links, one, other = _both_directions(matrix)
    reading = replace(reading, offset=common_offset(*_ranges(links, one, reading), reading))
    one, other = _distances(one, reading), _distances(other, reading)
    absent = _distances(np.zeros(1), reading)[0]
    distances = one
    if not np.array_equal(one, other):
        distances = reading.joined(one, other)
        if reading.directed is None:
            largest = max(float(np.abs(distances).max(initial=0.0)), abs(float(absent)))
            warn_of_asymmetry(float(np.abs(one.astype(np.float64) - other).max()), largest, reading)
    kept = distances != absent
    n = links.shape[0]
    stored = SparseSource.from_arrays(offsets(kept)[links.indptr], links.indices[kept], distances[kept], (n, n))
    return GraphDistances(stored, float(absent)), reading


def _distances(links: np.ndarray, reading: Reading) -> Float32s:
    """The distances absent - a less the offset, with the bits that a dense matrix has."""
    if reading.offset:
        return (reading.wide(links) - reading.offset).astype(np.float32)
    return np.float32(reading.absent) - links.astype(np.float32)


def _check_links(matrix: scipy.sparse.csr_array, reading: Reading) -> None:
    """Refuse links that are not numbers from 0 to ``absent``; raises InputError with the first one's place."""
    if matrix.dtype.kind not in "biuf":
        raise InputError(f"{reading.name} must be numbers, found dtype {matrix.dtype}")
    data = matrix.data.astype(np.float32)
    bad = ~((data >= 0.0) & (data <= np.float32(reading.absent)))
    if not bad.any():
        return
    place = int(np.argmax(bad))
    row, column = int(np.searchsorted(matrix.indptr, place, side="right")) - 1, int(matrix.indices[place])
    if np.isnan(data[place]):
        cure = "leave it out if it is no link; if nobody knows, give a dense matrix, in which NaN is unobserved"
        raise InputError(f"{reading.name}: NaN at row {row}, column {column} of a sparse matrix; {cure}")
    raise InputError(reading.beyond(float(data[place]), row, column))


def _both_directions(matrix: scipy.sparse.csr_array) -> tuple[scipy.sparse.csr_array, np.ndarray, np.ndarray]:
    """A matrix with an entry wherever there is a link in either direction, and the links there in both directions."""
    mirrored = scipy.sparse.csr_array(matrix.T)
    mirrored.sort_indices()
    if np.array_equal(matrix.indptr, mirrored.indptr) and np.array_equal(matrix.indices, mirrored.indices):
        return matrix, matrix.data, mirrored.data
    links = canonical_csr((matrix != 0) + (mirrored != 0))
    rows, columns = np.repeat(np.arange(links.shape[0]), np.diff(links.indptr)), links.indices
    return links, matrix[rows, columns], mirrored[rows, columns]


def _ranges(links: scipy.sparse.csr_array, weights: np.ndarray, reading: Reading) -> tuple[Range, Range]:
    """The range of all distances, and that of different nodes, in float64."""
    n, wide = links.shape[0], reading.wide(weights)
    between = np.repeat(np.arange(n), np.diff(links.indptr)) != links.indices
    of_pairs, of_loops = wide[between], wide[~between]
    if len(of_pairs) < n * (n - 1):
        of_pairs = np.append(of_pairs, reading.absent)
    if len(of_loops) < n:
        of_loops = np.append(of_loops, reading.absent)
    of_all = Range(np.inf, -np.inf).with_values(np.concatenate([of_pairs, of_loops]))
    return of_all, Range(np.inf, -np.inf).with_values(of_pairs) if n > 1 else of_all


def edges_as_matrix(edges: np.ndarray, n_nodes: int, directed: bool) -> scipy.sparse.csr_array:
    """The adjacency matrix of a list of edges.

    Parameters
    ----------
    edges
        Shape (n_edges, 2), the numbers of two nodes from 0 on; or (n_edges, 3), with a weight.
    n_nodes
        Number of nodes.
    directed
        Whether an edge is a link from its first node only; otherwise both directions get its weight.

    Raises
    ------
    InputError
        The shape is another one, a number is no node's, or a pair is listed with two weights.

    Examples
    --------
    >>> edges_as_matrix(np.array([[0, 2], [2, 0]]), 3, directed=False).toarray()
    array([[0., 0., 1.],
           [0., 0., 0.],
           [1., 0., 0.]])
    """
    if edges.ndim != 2 or edges.shape[1] not in (2, 3) or edges.dtype.kind not in "iuf":
        found = f"found {edges.dtype} of shape {edges.shape}"
        raise InputError(f"edges: numbers of shape (n_edges, 2), or (n_edges, 3) with weights, were expected, {found}")
    ends, weights = edges[:, :2], np.ones(len(edges)) if edges.shape[1] == 2 else edges[:, 2].astype(np.float64)
    bad = ~((ends >= 0) & (ends < n_nodes) & (ends == np.floor(ends))).all(axis=1)
    if bad.any():
        first = int(np.argmax(bad))
        numbers = f"numbers of nodes from 0 to {n_nodes - 1} were expected"
        raise InputError(f"edges: {numbers}, found {ends[first].tolist()} in row {first}")
    rows, columns = ends.T.astype(np.int64)
    if not directed:
        rows, columns = np.minimum(rows, columns), np.maximum(rows, columns)
    keys, listed, place = np.unique(rows * n_nodes + columns, return_index=True, return_inverse=True)
    other = weights != weights[listed][place]
    if other.any():
        one = int(np.argmax(other))
        pair = f"{int(rows[one])} and {int(columns[one])}"
        found = f"{weights[listed][place][one]:g} in row {listed[place][one]} and {weights[one]:g} in row {one}"
        raise InputError(f"edges: one weight for each pair was expected, found for {pair} {found}; join them")
    rows, columns = np.divmod(keys, n_nodes)
    weights = weights[listed]
    if not directed:
        between = rows != columns
        rows, columns = np.concatenate([rows, columns[between]]), np.concatenate([columns, rows[between]])
        weights = np.concatenate([weights, weights[between]])
    return scipy.sparse.csr_array((weights, (rows, columns)), (n_nodes, n_nodes))
