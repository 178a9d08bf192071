"""Distances that follow from labels, targets, embeddings or links, which SMERF can learn instead of a matrix."""

from __future__ import annotations

import datetime
import os
from collections.abc import Hashable, Iterable, Mapping, Sequence, Sized
from dataclasses import dataclass, field, replace
from numbers import Real
from typing import TYPE_CHECKING, Protocol, Self, SupportsIndex, TypeGuard

import numpy as np
from numpy.typing import NDArray

from distforest.amounts import counted
from distforest.errors import InputError
from distforest.sources.class_costs import costs_among, order_of_costs, read_costs
from distforest.sources.collections import computed
from distforest.sources.columns import with_none
from distforest.sources.given import check_dense, in_memory, is_sparse, is_stored, unmasked
from distforest.sources.graph_distances import GraphDistances, edges_as_matrix, read_graph
from distforest.sources.opening import address_of, opened_array, opened_rows
from distforest.sources.readings import DIRECTIONS, GRAPH, SMALLEST, Reading, read
from distforest.sources.source import Float32s, Floats, Int32s
from distforest.sources.sparse import canonical_csr

if TYPE_CHECKING:
    import scipy.sparse

DATES = "mM"
"""Kinds of dtypes that are durations and dates."""

COSINE = "cosine"
METRICS = ("sqeuclidean", COSINE)
"""The distances of vectors of an embedding."""

ABSOLUTE = "absolute"
TARGET_METRICS = ("squared", ABSOLUTE)
"""The distances of targets."""

ClassName = bool | int | float | str
"""The type of a label."""

RowIndex = SupportsIndex | slice | Sequence[int] | Sequence[bool] | NDArray[np.integer] | NDArray[np.bool_]
"""A selection of rows, as NumPy takes it."""


class NetworkxGraph(Protocol):
    """A graph of networkx: what is read of it."""

    def __contains__(self, node: Hashable, /) -> bool:
        """Whether a node is in the graph."""

    def is_directed(self) -> bool:
        """Whether an edge links its first node to its second only."""

    def edges(self, data: bool) -> Iterable[tuple[Hashable, Hashable, Mapping[str, float]]]:
        """The edges, with their attributes."""


class RowDistances:
    """The base of all distances between rows."""

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of the distance matrix."""
        return (len(self),) * 2

    def __len__(self) -> int:
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class SquaredDistances(RowDistances):
    """The base of distances that are squared Euclidean ones of some vectors: sums of them are such distances, too.

    ``0.7 * Labels(y) + 0.3 * Targets(t)`` is the `Embedding` of the vectors of both, scaled and side by side.
    """

    values: object

    __array_ufunc__ = None  # so that a number of NumPy leaves the product to this class

    def __len__(self) -> int:
        if not isinstance(self.values, Sized):
            found = f"found {self.values!r} of type {type(self.values).__name__}"
            raise TypeError(f"a value for each row was expected, {found}")
        return len(self.values)

    def __getitem__(self, rows: RowIndex) -> Self:
        return replace(self, values=np.asarray(unmasked(self.values))[rows])

    def vectors(self) -> Floats:
        """Vectors whose squared Euclidean distances these are, shape (n, q); raises InputError if there are none."""
        raise NotImplementedError

    def __mul__(self, factor: object) -> Embedding:
        if not _is_number(factor):
            return NotImplemented
        if not 0.0 < float(factor) < np.inf:
            raise InputError(f"a weight of distances: a number above 0 was expected, found {factor}")
        return Embedding(np.sqrt(float(factor)) * self.vectors())

    __rmul__ = __mul__

    def __add__(self, other: object) -> Embedding:
        if not isinstance(other, SquaredDistances):
            return NotImplemented
        one, two = self.vectors(), other.vectors()
        if len(one) != len(two):
            raise InputError(f"a sum of distances: the same rows were expected, found {len(one):,} and {len(two):,}")
        return Embedding(np.concatenate([one, two], axis=1))


@dataclass(frozen=True, eq=False)
class Labels(SquaredDistances):
    """Distance 1 between different labels, 0 between equal labels (SMERF, Proposition 1); or a distance for each pair.

    ``values`` has shape (n,): array-like, Zarr array, or the address of one. ``names`` are those of the classes where
    the labels are their numbers, from 0 on; by default those in the attribute ``classes`` of a Zarr array.

    ``costs`` are the distances of classes, if they are not all equally far apart: a symmetric matrix, shape
    (n_classes, n_classes), of numbers from 0 on, 0 on the diagonal: array-like, data frame, Zarr array, or the address
    of one. Its rows and columns are the classes in ``order``; by default the columns of a data frame, the attribute
    ``classes`` of a Zarr array, the ``names`` if there are as many, or the sorted labels.

    Raises
    ------
    InputError
        ``costs`` are no such matrix, or a label has none.

    Examples
    --------
    >>> Labels(["cat", "dog", "cat"]).matrix()
    array([[0., 1., 0.],
           [1., 0., 1.],
           [0., 1., 0.]])
    >>> Labels(["cat", "dog", "oak"], costs=[[0, 1, 5], [1, 0, 5], [5, 5, 0]])[1:].matrix()
    array([[0., 5.],
           [5., 0.]])
    """

    values: object
    names: Sequence[ClassName] | None = field(default=None, repr=False)
    costs: object = field(default=None, repr=False)
    order: Sequence[ClassName] | None = field(default=None, repr=False)
    address: str | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "address", address_of(self.values))
        opened = opened_array(self.values)
        if self.names is None:
            object.__setattr__(self, "names", names_of_classes(opened))
        object.__setattr__(self, "values", _loaded(opened))
        if self.costs is not None:
            self._read_costs(opened_array(self.costs))
        elif self.order is not None:
            raise InputError("order: it is that of costs, and there are none; leave it out")

    def _read_costs(self, given: object) -> None:
        """Check the costs, and find whose they are; raises InputError."""
        classes = named_classes(encoded(self.values)[1], self.names)
        held: object = in_memory(given) if is_stored(given) else given
        order = order_of_costs(given) if self.order is None else np.asarray(self.order).tolist()
        if order is None:
            n = len(held) if isinstance(held, Sized) else 0
            order = list(self.names) if self.names is not None and len(self.names) == n else classes
        costs = read_costs(held, order)
        costs_among(costs, order, classes)
        object.__setattr__(self, "costs", costs)
        object.__setattr__(self, "order", order)

    def vectors(self) -> Floats:
        """The indicators of the classes over the root of 2, shape (n, n_classes); raises InputError with costs."""
        if self.costs is not None:
            cure = "give the matrix of the sum"
            raise InputError(f"labels with costs are no squared Euclidean distances, so they have no sums; {cure}")
        codes, classes = encoded(self.values)
        indicators: Floats = np.eye(len(classes))[codes] / np.sqrt(2.0)
        return indicators

    def costs_of(self, classes: Sequence[ClassName]) -> Float32s | None:
        """The distances of these classes in their order; None if all are equally far apart. Raises InputError."""
        if not isinstance(self.costs, np.ndarray) or self.order is None:
            return None
        return costs_among(self.costs, self.order, classes)

    def matrix(self) -> Floats:
        """The distances, shape (n, n)."""
        codes, classes = encoded(self.values)
        costs = self.costs_of(named_classes(classes, self.names))
        if costs is not None:
            return costs[np.ix_(codes, codes)].astype(np.float64)
        return (codes[:, None] != codes).astype(np.float64)


@dataclass(frozen=True, eq=False)
class Targets(SquaredDistances):
    """Distance (y - y')^2 / 2 between two targets (SMERF, Proposition 2), or ``|y - y'|``.

    ``values`` has shape (n,): array-like, Zarr array, or the address of one. With ``metric="absolute"`` the distance is
    ``|y - y'|``, which a few large targets govern less, and a forest predicts medians.

    Dates (datetime64) are read as numbers of their unit since 1970, and durations (timedelta64) as numbers of their
    unit: datetime64[D] as days, and datetime64[ns], which pandas may make, as nanoseconds, which float64 holds to about
    256. Predictions are in that unit, and distances in its square, or in that unit with ``metric="absolute"``.

    Raises
    ------
    InputError
        ``metric`` is neither ``"squared"`` nor ``"absolute"``.

    Examples
    --------
    >>> Targets([1.0, 3.0]).matrix()
    array([[0., 2.],
           [2., 0.]])
    >>> Targets(np.array(["2024-03-01", "2024-03-05"], "datetime64[D]")).matrix()
    array([[0., 8.],
           [8., 0.]])
    >>> Targets([1.0, 3.0], metric="absolute").matrix()
    array([[0., 2.],
           [2., 0.]])
    """

    values: object
    metric: str = TARGET_METRICS[0]
    address: str | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        if self.metric not in TARGET_METRICS:
            expected = f"metric: {' or '.join(map(repr, TARGET_METRICS))} was expected"
            raise InputError(f"{expected}, found {self.metric!r}")
        object.__setattr__(self, "address", address_of(self.values))
        object.__setattr__(self, "values", _loaded(self.values, "targets"))

    def __array__(self, dtype: np.dtype | None = None, copy: bool | None = None) -> np.ndarray:
        """The targets, shape (n,), so that scores of scikit-learn compare predictions with them (``scoring="r2"``)."""
        return np.array(in_memory(self.values), dtype=dtype, copy=copy)

    def vectors(self) -> Floats:
        """The targets over the root of 2, shape (n, 1); raises InputError for absolute differences."""
        if self.metric == ABSOLUTE:
            cure = "give the matrix of the sum"
            raise InputError(f"absolute differences are no squared Euclidean distances, so they have no sums; {cure}")
        return finite_vectors(self.values, "targets") / np.sqrt(2.0)

    def matrix(self) -> Floats:
        """The distances, shape (n, n)."""
        vectors = finite_vectors(self.values, "targets")[:, 0]
        differences: Floats = vectors[:, None] - vectors
        return np.abs(differences) if self.metric == ABSOLUTE else differences**2 / 2.0


@dataclass(frozen=True, eq=False)
class Embedding(SquaredDistances):
    """Squared Euclidean distance between two points of an embedding, or their cosine distance.

    ``values`` has shape (n, q): array-like, Zarr array, or the address of one. With ``metric="cosine"`` the distance is
    1 less the cosine of the angle between two vectors, half the squared Euclidean distance of the vectors divided by
    their lengths; a vector of zeros has no direction, and is refused.

    Raises
    ------
    InputError
        ``metric`` is neither ``"sqeuclidean"`` nor ``"cosine"``.

    Examples
    --------
    >>> Embedding([[0.0, 0.0], [3.0, 4.0]]).matrix()
    array([[ 0., 25.],
           [25.,  0.]])
    >>> Embedding([[2.0, 0.0], [0.0, 5.0]], metric="cosine").matrix()
    array([[0., 1.],
           [1., 0.]])
    """

    values: object
    metric: str = "sqeuclidean"
    address: str | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        if self.metric not in METRICS:
            expected = f"metric: {' or '.join(map(repr, METRICS))} was expected"
            raise InputError(f"{expected}, found {self.metric!r}; give other distances as a matrix")
        object.__setattr__(self, "address", address_of(self.values))
        object.__setattr__(self, "values", _loaded(self.values, "an embedding"))

    def vectors(self) -> Floats:
        """The vectors; for cosine distances their directions over the root of 2."""
        vectors = finite_vectors(self.values, "embedding")
        return directions_of(vectors) / np.sqrt(2.0) if self.metric == COSINE else vectors

    def matrix(self) -> Floats:
        """The distances, shape (n, n)."""
        vectors = finite_vectors(self.values, "embedding")
        is_cosine = self.metric == COSINE
        total = np.zeros(self.shape)
        for dimension in (directions_of(vectors) if is_cosine else vectors).T:
            total += (dimension[:, None] - dimension) ** 2  # differences first: squares of far points would cancel
        return total / 2.0 if is_cosine else total


@dataclass(frozen=True, eq=False)
class Distances(RowDistances):
    """Given distances of pairs of rows, shape (n, n): array-like, Zarr array, or the address of one.

    NaN is an unobserved distance, and on the diagonal 0. Where only one of z_ij and z_ji is observed, it
    counts for both.

    `SMERF` reads a plain matrix in the same way. But selecting rows here also selects the columns with the same
    numbers, so that cross-validation works: it gets the distances among training rows, and those among test rows.

    Raises
    ------
    InputError
        On a selection of rows: the matrix is not square, or not dense.

    Examples
    --------
    >>> import numpy as np
    >>> Z = Distances(np.arange(9.0).reshape(3, 3))
    >>> Z[[0, 2]].values
    array([[0., 2.],
           [6., 8.]])
    """

    values: object

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", *computed(self.values))

    @property
    def address(self) -> str | None:
        """The address of the matrix; None if it has none."""
        return address_of(self.values)

    def __len__(self) -> int:
        return _square(self.values)[1]

    def __getitem__(self, rows: RowIndex) -> Distances:
        return Distances(_selected_square(self.values, rows))


@dataclass(frozen=True, eq=False)
class ObservedDistances(RowDistances):
    """Distances of those pairs of rows that were observed: the stored entries of a sparse matrix, zeros too.

    ``values`` has shape (n, n): a sparse matrix or array of SciPy, or the address of one in Zarr.

    An entry that is not stored is unobserved; that tells it from a `Graph`, in which two items without a link are far.
    `scipy.sparse.csr_array` of a dense matrix stores no zeros: store them, or give the dense matrix as `Distances`.
    A pair may be stored in one direction or in both, whose mean is used; on the diagonal, what is not stored is 0. It
    is read into a dense matrix, so n rows take 4 n^2 bytes. Selecting rows also selects the columns with the same
    numbers.

    Raises
    ------
    InputError
        The matrix is dense (give `Distances`, with NaN for what is unobserved), or not square.

    Examples
    --------
    >>> import scipy.sparse
    >>> judged = scipy.sparse.coo_array(([2.0, 5.0], ([0, 2], [1, 1])), (3, 3))
    >>> ObservedDistances(judged).matrix()
    array([[ 0.,  2., nan],
           [nan,  0., nan],
           [nan,  5.,  0.]])
    """

    values: object
    address: str | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "address", address_of(self.values))
        opened = opened_rows(self.values)
        if not is_sparse(opened):
            cure = "give a dense one as Distances, with NaN for what is unobserved"
            raise InputError(f"observed distances: a sparse matrix was expected, found {type(opened).__name__}; {cure}")
        _check_square(opened)
        object.__setattr__(self, "values", canonical_csr(opened))

    def __len__(self) -> int:
        return int(self._stored.shape[0])

    def __getitem__(self, rows: RowIndex) -> ObservedDistances:
        numbers = np.arange(len(self))[rows].reshape(-1)
        return ObservedDistances(self._stored[numbers][:, numbers])

    @property
    def _stored(self) -> scipy.sparse.csr_array:
        return self.values  # from `canonical_csr`

    def matrix(self) -> np.ndarray:
        """The distances in the dtype in which they are stored, NaN where they are unobserved, shape (n, n)."""
        return self.rows(0, len(self))

    @property
    def dtype(self) -> np.dtype[np.generic]:
        """The dtype of `matrix`."""
        return np.result_type(self._stored.dtype, np.float32)

    def rows(self, first: int, end: int) -> np.ndarray:
        """The rows of `matrix` from one to before another, shape (end - first, n)."""
        stored = self._stored[first:end]
        numbers = np.arange(end - first)
        rows = np.full(stored.shape, np.nan, self.dtype)
        rows[numbers, first + numbers] = 0.0
        rows[np.repeat(numbers, np.diff(stored.indptr)), stored.indices] = stored.data
        return rows


@dataclass(frozen=True, eq=False)
class Graph(RowDistances):
    """Distance ``absent`` - a_ij from an adjacency matrix: the stronger a link, the nearer the two.

    ``adjacency`` has shape (n, n): a sparse matrix or array of SciPy, a dense array-like, a Zarr array, or the address
    of a sparse or dense one in Zarr; see also `Graph.of_edges` and `Graph.of_networkx`. In a sparse matrix what is not
    stored is no link, and trees grow from the links alone. In a dense one NaN is a pair of which nobody knows whether
    it is linked, and on the diagonal no loop. Both are the same graph, and grow the same trees. Selecting rows also
    selects the columns with the same numbers: the links among some of the items.

    Parameters
    ----------
    adjacency
        The matrix, with entries from 0 to ``absent``.
    absent
        The distance of two nodes without a link; the largest weight, if weights are above 1.
    diagonal
        The distance of a node to itself, from 0 to ``absent``. None: ``absent`` - a_ii, so that a node without a loop
        has distance ``absent`` to itself, as in the SMERF paper.
    directed
        How links of which the two directions differ count: ``"mean"``, the mean of both weights; ``"either"``, the
        larger one, so that a link in either direction is a link; ``"both"``, the smaller one. None: the mean, with a
        warning.

    Raises
    ------
    InputError
        ``absent``, ``diagonal`` or ``directed`` is none of these; on a selection of rows: the matrix is not square.

    Examples
    --------
    >>> Graph([[0, 1, 0], [1, 0, 1], [0, 1, 0]])[1:].adjacency
    array([[0, 1],
           [1, 0]])
    >>> import scipy.sparse
    >>> Graph(scipy.sparse.coo_array(([3.0], ([0], [1])), (2, 2)), absent=4.0, directed="either").matrix()
    array([[4., 1.],
           [1., 4.]], dtype=float32)
    """

    adjacency: object
    absent: float = 1.0
    diagonal: float | None = None
    directed: str | None = None

    def __post_init__(self) -> None:
        if not _is_number(self.absent) or not SMALLEST <= self.absent <= 1.0 / SMALLEST:
            raise InputError(
                f"absent: a distance from {SMALLEST:g} to {1 / SMALLEST:g} was expected, found {self.absent!r}"
            )
        if self.diagonal is not None and not (_is_number(self.diagonal) and 0.0 <= self.diagonal <= self.absent):
            raise InputError(
                f"diagonal: a distance from 0 to absent={self.absent:g} was expected, found {self.diagonal!r}"
            )
        if self.directed not in (None, *DIRECTIONS):
            expected = f"directed: None or one of {', '.join(map(repr, DIRECTIONS))} was expected"
            raise InputError(f"{expected}, found {self.directed!r}")
        object.__setattr__(self, "adjacency", *computed(self.adjacency))

    @property
    def address(self) -> str | None:
        """The address of the adjacency matrix; None if it has none."""
        return address_of(self.adjacency)

    @classmethod
    def of_edges(
        cls,
        edges: object,
        n_nodes: int,
        *,
        absent: float = 1.0,
        diagonal: float | None = None,
        directed: str | None = None,
    ) -> Graph:
        """The graph of a list of edges.

        Parameters
        ----------
        edges
            Shape (n_edges, 2), the numbers of two nodes from 0 on, which are the rows of ``X``; or (n_edges, 3), with a
            weight each.
        n_nodes
            Number of nodes.
        absent, diagonal
            As for the graph.
        directed
            None: an edge links both ways. Otherwise it is a link from its first node to its second, and this says how
            links in one direction count.

        Raises
        ------
        InputError
            The shape is another one, a number is no node's, or a pair is listed with two weights.

        Examples
        --------
        >>> Graph.of_edges([[0, 1], [1, 2]], 3).matrix()
        array([[1., 0., 1.],
               [0., 1., 0.],
               [1., 0., 1.]], dtype=float32)
        """
        links = edges_as_matrix(np.asarray(unmasked(edges)), n_nodes, directed is not None)
        return cls(links, absent, diagonal, directed)

    @classmethod
    def of_networkx(
        cls,
        graph: NetworkxGraph,
        nodes: Iterable[Hashable],
        *,
        weight: str | None = "weight",
        absent: float = 1.0,
        diagonal: float | None = None,
        directed: str | None = None,
    ) -> Graph:
        """The graph of a graph object of networkx.

        Parameters
        ----------
        graph
            The graph.
        nodes
            Its nodes in the order of the rows of ``X``; links to others are left out.
        weight
            The attribute of an edge that holds its weight, 1 where it is missing; None: 1 for all.
        absent, diagonal, directed
            As for the graph.

        Raises
        ------
        InputError
            One of the nodes is not in the graph, or is named twice, or two edges join the same two nodes.
        """
        place = {node: number for number, node in enumerate(nodes)}
        missing = [node for node in place if node not in graph]
        if missing:
            raise InputError(f"nodes: nodes of the graph were expected, found {missing[0]!r} ({len(missing):,} such)")
        edges = [
            (place[one], place[other], 1.0 if weight is None else data.get(weight, 1.0))
            for one, other, data in graph.edges(data=True)
            if one in place and other in place
        ]
        table = np.array(edges, np.float64).reshape(-1, 3)
        links = edges_as_matrix(table, len(place), graph.is_directed())
        return cls(links, absent, diagonal, directed)

    def __len__(self) -> int:
        opened = self._opened()
        return _check_square(opened) if is_sparse(opened) else _square(opened)[1]

    def __getitem__(self, rows: RowIndex) -> Graph:
        opened = self._opened()
        if is_sparse(opened):
            numbers = np.arange(_check_square(opened))[rows].reshape(-1)
            return replace(self, adjacency=canonical_csr(opened)[numbers][:, numbers])
        return replace(self, adjacency=_selected_square(self.adjacency, rows))

    def _opened(self) -> object:
        """The matrix, which is read if it is a sparse one at an address."""
        return opened_rows(self.adjacency) if isinstance(self.adjacency, (str, os.PathLike)) else self.adjacency

    @property
    def reading(self) -> Reading:
        """How the adjacency matrix is read."""
        return replace(GRAPH, absent=float(self.absent), diagonal=self.diagonal, directed=self.directed)

    def sparse(self) -> tuple[GraphDistances, Reading] | None:
        """The distances by the links of a sparse matrix; None if the matrix is dense. Raises as `read_graph`."""
        opened = self._opened()
        return read_graph(opened, self.reading) if is_sparse(opened) else None

    def matrix(self) -> np.ndarray:
        """The distances, shape (n, n), float32."""
        found = self.sparse()
        if found is not None:
            return found[0].dense() + np.float32(found[1].offset)
        return read(in_memory(_square(self._opened())[0]), self.reading)


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, Real) and not isinstance(value, (bool, np.bool_))


def _check_square(matrix: object) -> int:
    """The number of rows of a square matrix; raises InputError if it is not square."""
    shape = tuple(getattr(matrix, "shape", ()))
    if len(shape) != 2 or shape[0] != shape[1]:
        raise InputError(f"a square matrix was expected, found shape {shape}")
    return int(shape[0])


def _square(given: object) -> tuple[object, int]:
    """Open a dense matrix, and count its rows; raises InputError if it is not square."""
    check_dense(given)
    opened = opened_array(given)
    matrix = opened if hasattr(opened, "shape") else np.asarray(opened)
    return matrix, _check_square(matrix)


def _selected_square(given: object, rows: RowIndex) -> np.ndarray:
    """Select rows of a square matrix, and the columns with the same numbers."""
    values = in_memory(_square(given)[0])
    numbers = np.arange(len(values))[rows].reshape(-1)
    return values[np.ix_(numbers, numbers)]


def _loaded(values: object, amounts: str = "") -> object:
    """Read an array on disk into memory, since rows may be selected from it; anything else stays as it is.

    As ``amounts`` of that name, numbers of named classes are refused.
    """
    opened = opened_array(values)
    if amounts:
        refuse_names(names_of_classes(opened), amounts)
    return in_memory(opened) if is_stored(opened) else opened


def names_of_classes(labels: object) -> list[ClassName] | None:
    """The names of the classes in the attributes of an array of labels on disk; None if there are none."""
    names = getattr(labels, "attrs", {}).get("classes")
    return names if isinstance(names, list) else None


def refuse_names(names: Sequence[ClassName] | None, kind: str) -> None:
    """Refuse the numbers of named classes as targets or an embedding, as their order means nothing."""
    if names is not None:
        cure = "give them as labels, or, if they are meant as amounts, an array that names no classes"
        raise InputError(f"{kind}: amounts were expected, found numbers of classes such as {names[0]!r}; {cure}")


def named_classes(classes: list[ClassName], names: Sequence[ClassName] | None) -> list[ClassName]:
    """Classes by their ``names`` where all classes are numbers of names; otherwise as they are.

    Examples
    --------
    >>> named_classes([0, 2], ["red", "green", "blue"]), named_classes([1, 3], ["red", "green", "blue"])
    (['red', 'blue'], [1, 3])
    """
    if names is None:
        return classes
    numbers = [int(c) for c in classes if isinstance(c, (int, float)) and 0 <= c < len(names) and c == int(c)]
    return [names[number] for number in numbers] if len(numbers) == len(classes) else classes


def encoded(values: object) -> tuple[Int32s, list[ClassName]]:
    """Encode labels of any type as codes 0, 1, ...; returns the codes and the sorted classes; raises InputError.

    Examples
    --------
    >>> encoded(["b", "a", "b"])
    (array([1, 0, 1], dtype=int32), ['a', 'b'])
    """
    array = np.asarray(unmasked(values))
    if array.ndim != 1:
        raise InputError(f"labels must be 1-D, one for each row, found shape {array.shape}; give numpy.ravel(y)")
    if array.dtype.kind in DATES:  # NumPy converts those of some units to whole numbers
        cure = "give Labels(y.astype(str)) if each of them is a class"
        raise InputError(f"labels must be numbers, booleans or strings, found {array.dtype}; {cure}")
    missing = [int(row) for row in np.flatnonzero(~np.isfinite(array))] if array.dtype.kind == "f" else []
    missing = rows_without(array) if array.dtype.kind == "O" else missing
    if missing:
        found = f"found NaN, None or infinity in row {missing[0]} ({counted(len(missing), 'such row')})"
        raise InputError(f"labels must be known and finite, {found}; remove those rows")
    try:
        classes, codes = np.unique(array, return_inverse=True)
    except TypeError as error:
        raise InputError(f"labels must be all of one type that can be sorted: {error}") from error
    names = classes.tolist()
    for code, name in enumerate(names):
        if not isinstance(name, (bool, int, float, str)):
            found = f"found {name!r} in row {int(np.argmax(codes == code))}"
            raise InputError(f"labels must be numbers, booleans or strings, {found}; convert them")
    return codes.astype(np.int32), names


def rows_without(array: np.ndarray) -> list[int]:
    """The rows of a vector of objects without a value: with None, NaN, or a missing value of pandas.

    Examples
    --------
    >>> rows_without(np.array(["a", None, float("nan")], object))
    [1, 2]
    """
    return [row for row, one in enumerate(array) if _is_missing(one)]


def _is_missing(one: object) -> bool:
    try:
        return one is None or bool(one != one)  # as NaN is, and NaT
    except TypeError:  # NA of pandas has no truth value
        return True
    except ValueError:  # an array has no truth value
        return False


def is_date(one: object) -> bool:
    """Whether an object is a date or a duration of Python, or of pandas, whose types derive from these."""
    return isinstance(one, (datetime.date, datetime.timedelta))


def finite_vectors(values: object, name: str) -> Floats:
    """Convert targets or embeddings to float64, shape (n, q), dates in their unit; raises InputError with the row."""
    values = unmasked(values)
    try:
        raw = with_none(np.asarray(values))
    except (TypeError, ValueError) as error:  # rows of different lengths
        raise InputError(f"{name} must be numbers: {error}") from error
    cells = raw.flat if raw.dtype.kind == "O" else np.empty(1, raw.dtype)
    if any(isinstance(one, (complex, np.complexfloating)) for one in cells):  # NumPy would drop the imaginary parts
        raise InputError(f"{name} must be real numbers, found complex ones in an array of {raw.dtype}")
    try:
        with np.errstate(over="ignore"):  # a value beyond float64 becomes infinite, and is refused below
            array = raw.astype(np.int64 if raw.dtype.kind in DATES else np.float64).astype(np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(f"{name} must be numbers: {error}") from error
    if raw.dtype.kind in DATES:
        array[np.isnat(raw)] = np.nan
    if array.ndim == 1:
        array = array[:, None]
    if array.ndim != 2:
        raise InputError(f"{name} must have one row for each row of the features, found shape {array.shape}")
    if name == "targets" and array.shape[1] != 1:
        raise InputError(f"targets must be one number a row, found shape {array.shape}; several are an embedding")
    bad = ~np.isfinite(array)
    if bad.any():
        row, kind = int(np.argwhere(bad)[0, 0]), "NaN or infinite values" if raw.dtype.kind not in DATES else "NaT"
        raise InputError(f"{name} contain {int(bad.sum())} {kind}, the first in row {row}; remove those rows")
    return array


def directions_of(vectors: Floats) -> Floats:
    """Divide each vector by its length, shape (n, q); raises InputError with the row of a vector of zeros.

    Examples
    --------
    >>> directions_of(np.array([[3e200, 4e200]]))
    array([[0.6, 0.8]])
    """
    largest = np.abs(vectors).max(axis=1, initial=0.0)
    if not largest.all():
        raise InputError(f"directions: row {int(np.argmin(largest))} is 0 throughout, and has no direction; remove it")
    scaled = vectors / largest[:, None]  # so that no square is infinite, or 0
    directions: Floats = scaled / np.sqrt((scaled**2).sum(axis=1, keepdims=True))
    return directions
