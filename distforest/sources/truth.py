"""The truth that a forest learns: from the object that a caller hands in to the values that judge cuts, in memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from distforest.amounts import counted
from distforest.errors import InputError
from distforest.sources.arrays import are_targets
from distforest.sources.columns import with_plain_numbers
from distforest.sources.factors import (
    ABSOLUTE,
    COSINE,
    DATES,
    ClassName,
    Distances,
    Embedding,
    Graph,
    Labels,
    ObservedDistances,
    Targets,
    directions_of,
    encoded,
    finite_vectors,
    is_date,
    named_classes,
    names_of_classes,
    refuse_names,
    rows_without,
)
from distforest.sources.given import check_dense, in_memory, is_sparse, is_stored, unmasked
from distforest.sources.lazy.callbacks import Lazy
from distforest.sources.named_links import check_named_links
from distforest.sources.opening import opened_array
from distforest.sources.point_pairs import codes_of_links
from distforest.sources.readings import DISTANCES, known_entries, read_level

if TYPE_CHECKING:
    from collections.abc import Sequence

    from distforest.sources.arrays import Matrix
    from distforest.sources.graph_distances import GraphDistances
    from distforest.sources.readings import Reading
    from distforest.sources.source import Float32s, Floats, Ints


class TruthKind(StrEnum):
    """The kind of truth that a forest learns; messages and fingerprints use its value."""

    LABELS = "labels"
    TARGETS = "targets"
    DIFFERENCES = "differences"
    EMBEDDING = "embedding"
    DIRECTIONS = "directions"
    DISTANCES = "distances"
    LINKS = "links"
    NOTHING = "nothing"

    @property
    def is_of_vectors(self) -> bool:
        """Whether the truth is vectors of numbers, whose mean each leaf keeps."""
        return self in FACTORS

    @property
    def is_of_amounts(self) -> bool:
        """Whether the truth is vectors of numbers or targets, some of which may be far from the others."""
        return self.is_of_vectors or self == TruthKind.DIFFERENCES

    @property
    def noun(self) -> str:
        """What the values are called in a message: those of absolute differences are targets, too."""
        return str(TruthKind.TARGETS if self == TruthKind.DIFFERENCES else self)

    @property
    def noun_with_metric(self) -> str:
        """What the values are called where kinds are compared: targets of absolute differences with their metric."""
        return f"{self.noun} with metric={ABSOLUTE!r}" if self == TruthKind.DIFFERENCES else str(self)


GivenTruth = Labels | Targets | Embedding | Graph | Distances | ObservedDistances
"""The types of this package in which a truth may be given."""

FACTORS = {TruthKind.TARGETS: 0.5, TruthKind.EMBEDDING: 1.0, TruthKind.DIRECTIONS: 0.5}
"""The kinds of truth that are vectors, each with the factor by which squared Euclidean distances are multiplied."""

AS_LEARNED: dict[TruthKind | None, Callable[[np.ndarray], Labels | Targets | Embedding]] = {
    TruthKind.LABELS: Labels,
    TruthKind.TARGETS: Targets,
    TruthKind.DIFFERENCES: partial(Targets, metric=ABSOLUTE),
    TruthKind.EMBEDDING: Embedding,
    TruthKind.DIRECTIONS: partial(Embedding, metric=COSINE),
}
"""How a vector is read, by the kind of truth that a forest has learned, if that is not distances."""

MOST_JUDGED_PAIRS = 1 << 21
"""The most pairs of rows over which an error is averaged; of more pairs, this many are drawn at random."""


@dataclass(frozen=True)
class Truth:
    """The values that judge cuts.

    Attributes
    ----------
    kind
        Their kind.
    values
        Codes of labels, shape (n,); targets, embeddings or directions, of length 1, shape (n, q); distances, shape
        (n, n); of links, the class of each pair, 0 for similar, shape (n_pairs,); or nothing, shape (n, 0).
    classes
        The classes of the codes.
    largest
        The largest absolute distance.
    offset
        The number that was subtracted from all distances: see `distforest.sources.readings.read_level`.
    n_unobserved
        Number of pairs of rows whose distance is unobserved; it is NaN.
    graph
        The distances by the links of a sparse graph; ``values`` are then what a forest keeps of them: the matrix, or
        nothing, shape (n, 0), if the graph is so large that a forest keeps the links.
    costs
        The distances of classes, shape (n_classes, n_classes); None if all are equally far apart.

    Examples
    --------
    >>> truth = Truth.of(Labels(["cat", "dog", "cat"]))
    >>> truth.values, truth.classes
    (array([0, 1, 0], dtype=int32), ['cat', 'dog'])
    >>> truth.distances(np.array([0, 0]), np.array([1, 2]))
    array([1., 0.])
    """

    kind: TruthKind
    values: np.ndarray
    classes: Sequence[ClassName] | None = None
    largest: float = 1.0
    offset: float = 0.0
    n_unobserved: int = 0
    graph: GraphDistances | None = None
    costs: Float32s | None = None

    @classmethod
    def of(cls, given: object, learned: TruthKind | None = None) -> Truth:
        """Read the truth that a forest learns.

        Parameters
        ----------
        given
            `Labels`, `Targets`, `Embedding`, `Graph`, `Distances` or `ObservedDistances`; a vector, which `read_vector`
            reads; or distances, shape (n, n). Array-like, Zarr array, or the address of one.
        learned
            As for `read_vector`.

        Raises
        ------
        InputError
            The values are refused, the matrix is not square, or no distance of two rows was observed.
        """
        relation = _recognised(opened_array(given), learned)
        if isinstance(relation, (Labels, Targets, Embedding)):
            if isinstance(relation, Labels):
                return cls.of_labels(relation)
            return cls.of_vector(_kind_of(relation), relation.values)
        reading = DISTANCES
        if isinstance(relation, Graph):
            sparse, reading = relation.sparse(), relation.reading
            if sparse is not None:
                return cls.of_graph(*sparse)
            matrix = _numeric(opened_array(relation.adjacency))
        elif isinstance(relation, ObservedDistances):
            matrix = relation.matrix()
        elif isinstance(relation, Distances):
            matrix = _numeric(opened_array(relation.values))
        else:
            matrix = _numeric(relation)
            _check_square(tuple(matrix.shape))
        distances, reading = read_level(matrix, reading)
        known = known_entries(distances, reading)
        return cls(TruthKind.DISTANCES, distances, None, known.largest, reading.offset, known.n_unobserved)

    @classmethod
    def of_graph(cls, graph: GraphDistances, reading: Reading) -> Truth:
        """The distances in a sparse graph that was read."""
        return cls(TruthKind.DISTANCES, graph.truth(), largest=graph.largest, offset=reading.offset, graph=graph)

    @classmethod
    def of_labels(cls, labels: Labels) -> Truth:
        """Read labels, and the distances of their classes if they have any; raises InputError."""
        truth = cls.of_vector(TruthKind.LABELS, labels.values, labels.names)
        return replace(truth, costs=labels.costs_of(truth.classes or []))

    @classmethod
    def of_vector(cls, kind: TruthKind, values: object, names: Sequence[ClassName] | None = None) -> Truth:
        """Read labels, targets, an embedding or links, which a caller has named as such.

        Parameters
        ----------
        kind
            What they are.
        values
            Shape (n,), or (n, q) of an embedding.
        names
            The names of classes, if labels or links are their numbers: the attribute ``classes`` of a stored array.

        Raises
        ------
        InputError
            The values are refused; or are numbers of classes that have names, but are not read as labels, or are links
            of which the names do not tell which are similar.
        """
        if kind == TruthKind.LINKS:
            check_named_links(names)
            return cls(kind, codes_of_links(values))
        if kind == TruthKind.LABELS:
            codes, classes = encoded(values)
            named = named_classes(classes, names)
            return cls(kind, codes, named)
        refuse_names(names, kind.noun)
        vectors = finite_vectors(values, kind.noun)
        return cls(kind, directions_of(vectors) if kind == TruthKind.DIRECTIONS else vectors)

    def distances(self, left: Ints, right: Ints) -> Floats:
        """The true distances of pairs of rows, NaN where they are unobserved, shape (n_pairs,)."""
        if self.graph is not None:
            return self.graph.pairs(left, right) + self.offset
        if self.kind == TruthKind.DISTANCES:
            return self.values[left, right].astype(np.float64) + self.offset
        distances: Floats = np.zeros(len(left))
        if self.costs is not None:
            return self.costs[self.values[left], self.values[right]].astype(np.float64)
        if self.kind == TruthKind.LABELS:
            distances[self.values[left] != self.values[right]] = 1.0
            return distances
        if self.kind == TruthKind.DIFFERENCES:
            return np.abs(self.values[left, 0] - self.values[right, 0])
        for column in self.values.T:
            distances += (column[left] - column[right]) ** 2
        return distances * FACTORS[self.kind]


def _kind_of(relation: Targets | Embedding) -> TruthKind:
    if isinstance(relation, Targets):
        return TruthKind.DIFFERENCES if relation.metric == ABSOLUTE else TruthKind.TARGETS
    return TruthKind.DIRECTIONS if relation.metric == COSINE else TruthKind.EMBEDDING


def _check_square(shape: tuple[int, ...]) -> None:
    """Refuse a matrix that is not square; raises InputError, which says how to give a single row or column."""
    if len(shape) != 2 or shape[0] == shape[1]:
        return
    if 1 in shape:
        which = "column" if shape[1] == 1 else "row"
        cure = "give Targets(numpy.ravel(y)) if it holds amounts, Labels(numpy.ravel(y)) if classes"
        raise InputError(f"distances: a square matrix was expected, found a single {which}, shape {shape}; {cure}")
    cure = "to cut it on both sides, as cross-validation does, give Distances(Z)"
    if shape[0] > shape[1]:
        cure += "; if it has a column for each class, give Labels(Y.argmax(axis=1)), if coordinates, Embedding(Y)"
    raise InputError(f"distances: a square matrix was expected, found shape {shape}; {cure}")


def _recognised(given: object, learned: TruthKind | None) -> GivenTruth | Matrix:
    """Read a vector as labels or targets; a matrix, and the types of this package, stay as they are."""
    if isinstance(given, Lazy):
        cure = "fit alone takes one, with a budget; elsewhere give the distances as a matrix"
        raise InputError(f"the ground truth: values were expected, found a function ({cure})")
    if isinstance(given, GivenTruth):
        if isinstance(given, Distances):
            _check_told_apart(given.values)
        return given
    _check_told_apart(given)
    array = _numeric(given)
    if len(array.shape) != 1:
        return array
    if learned in (None, TruthKind.LABELS) and names_of_classes(array) is not None:
        return Labels(array)
    if learned is None and are_targets(array):
        return Targets(in_memory(array))
    return read_vector(in_memory(array), learned)


def _check_told_apart(given: object) -> None:
    """Refuse sparse distances that do not say what an entry is that is not stored; raises InputError."""
    if is_sparse(given):
        cures = "ObservedDistances(Z) if it is unobserved, Graph(A) if it is no link, Z.toarray() if it is 0"
        raise InputError(f"distances: found a sparse matrix; say what is not stored in it: give {cures}")


def _numeric(given: object) -> Matrix:
    """Keep an array on disk, convert an array-like to an array; raises InputError for sparse data and graph objects."""
    check_dense(given)
    return given if is_stored(given) else with_plain_numbers(np.asarray(unmasked(given)))


def read_vector(vector: np.ndarray, learned: TruthKind | None = None) -> Labels | Targets | Embedding:
    """Read a vector as labels or targets.

    Parameters
    ----------
    vector
        Shape (n,).
    learned
        The kind of truth that a forest has learned, as which the vector is read. Without it, or if it is distances,
        fractional numbers are targets and all other values are labels.

    Raises
    ------
    InputError
        The vector holds NaN or infinity, dates, or objects other than strings.

    Examples
    --------
    >>> read_vector(np.array([1.0, 2.0]))
    Labels(values=array([1., 2.]))
    >>> read_vector(np.array([1.0, 2.5]))
    Targets(values=array([1. , 2.5]), metric='squared')
    """
    if learned in AS_LEARNED:
        return AS_LEARNED[learned](vector)
    _check_readable(vector)
    if vector.dtype.kind == "f" and (finite_vectors(vector, "the values of y") % 1.0).any():
        return Targets(vector)
    return Labels(vector)


def _check_readable(vector: np.ndarray) -> None:
    """Refuse a vector unless it holds only numbers or only strings; raises InputError."""
    expected = "a vector of numbers or strings was expected"
    if vector.dtype.kind in DATES:
        cure = "give Targets(y), which are read in that unit, or Labels(y.astype(str)) if each of them is a class"
        raise InputError(f"{expected}, found {vector.dtype}; {cure}")
    if vector.dtype.kind != "O":
        return
    strange = [row for row, value in enumerate(vector) if not isinstance(value, str)]
    missing = rows_without(vector)
    if strange:
        row, cure = (missing or strange)[0], "remove the rows that lack a value" if missing else "convert them"
        if is_date(vector[row]) and not missing:
            cure = "of dates give Targets(numpy.array(y, 'datetime64[s]')), or Labels of strings"
        found = f"found {counted(len(missing), 'missing value')}" if missing else "found objects"
        found = f"{found}, the first in row {row} ({vector[row]!r})"
        raise InputError(f"Unknown label type: {expected}, {found}; {cure}")


def pairs_of_rows(n_rows: int) -> tuple[Ints, Ints]:
    """All pairs i < j of rows, or `MOST_JUDGED_PAIRS` of them, drawn with replacement and always the same."""
    if n_rows * (n_rows - 1) // 2 <= MOST_JUDGED_PAIRS:
        return np.triu_indices(n_rows, 1)
    numbers = np.random.default_rng(0)
    first = numbers.integers(n_rows, size=MOST_JUDGED_PAIRS)
    second = (first + numbers.integers(1, n_rows, size=MOST_JUDGED_PAIRS)) % n_rows
    return np.minimum(first, second), np.maximum(first, second)
