"""The data of a task that answers a question: the forest, opened once in a process, its rows, and their nodes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from threading import Lock
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse

from distforest.errors import InputError
from distforest.forest import scoring
from distforest.forest.nearest_votes import nearest_members
from distforest.forest.pairs.pair_scores import columns_of, is_over_pairs
from distforest.forest.sealed.artifact import open_forest
from distforest.sources.opening import open_matrix, rows_in
from distforest.sources.point_pairs import check_points
from distforest.sources.readings import FEATURES, read
from distforest.sources.schema import Schema
from distforest.sources.sparse_features import read_sparse_features
from distforest.sources.sparse_pairs import check_sparse_points

if TYPE_CHECKING:
    from collections.abc import Callable

    from distforest.forest.forest import Forest
    from distforest.forest.leaf_index import LeafIndex
    from distforest.forest.pairs.pair_scores import Points
    from distforest.jobs.own_distances import OwnDistances
    from distforest.jobs.question import Question
    from distforest.sources.guarded import ZarrArray
    from distforest.sources.schema import Reordering
    from distforest.sources.source import Int32s, Ints, Source
    from distforest.sources.sparse_store import SparseStore

VOTERS = "voters"
"""The array beside the nodes that holds, for each routed query, the training object that votes in each tree."""

BLOCK_OTHERS = 1 << 14
"""Rows of a reference that are read together."""


@lru_cache(maxsize=2)
def opened_forest(address: str, digest: str) -> Forest:
    """The forest, opened once in a process; ``digest`` is part of the cache key, so a new forest is opened."""
    forest = open_forest(address)
    if forest.digest != digest:
        raise InputError(f"{address} has changed while it was scored; start again")
    return forest


def has_further_columns(forest: Forest) -> bool:
    """Whether the forest reads points that have columns beside the features, which have no names."""
    return is_over_pairs(forest) and columns_of(forest).width > forest.n_features


def recoded(forest: Forest, address: str, rows: np.ndarray) -> np.ndarray:
    """Some rows of the array at an address as the forest has them: columns by name, its categories and dates."""
    recoding = _recoding(forest, address)
    return recoding.rows(rows)[0] if recoding else rows


def _recoding(forest: Forest, address: str) -> Reordering | None:
    """How rows of the array at an address become those of the forest; None if they are."""
    schema = forest.schema
    if schema is None or has_further_columns(forest):
        return None
    found = Schema.of_array(address, open_matrix(address))
    return schema.recoding(found, address) if found else None


def points_of(forest: Forest, values: np.ndarray | scipy.sparse.csr_array) -> Points:
    """Points in the form that a forest over pairs reads; raises InputError for a wrong number of columns."""
    width = columns_of(forest).width
    if values.shape[1] != width:
        raise InputError(f"X has {values.shape[1]} features, but the forest is expecting {width} features as input")
    if forest.sparse_points is not None:
        sparse = read_sparse_features(scipy.sparse.csr_array(values))
        check_sparse_points(sparse)
        return sparse
    points = read(values, FEATURES)
    check_points(points, columns_of(forest))
    return points


@dataclass(frozen=True, eq=False)
class Asked:
    """Some rows of a question, and the data that its answer needs; each part is read at its first use.

    Attributes
    ----------
    question
        The question.
    digest
        Digest of the forest.
    span
        The queries or pairs that the task answers.
    routed
        The group with the nodes of all objects, if similarities come from a function.
    run
        Tells this scoring from all others: what is read once for all its tasks is not kept for the next one.
    part_rows
        Rows of the leaf index that are made at once; None: all, once in a process.
    own
        What is known of the ground truth, if training rows' own distances may count.
    """

    question: Question
    digest: str
    span: slice
    routed: str | None = None
    run: str = ""
    part_rows: int | None = None
    own: OwnDistances | None = None

    @property
    def forest(self) -> Forest:
        """The forest."""
        return opened_forest(self.question.forest, self.digest)

    @property
    def numbers(self) -> Ints:
        """The row numbers of the queries, or of the pairs."""
        return np.arange(self.span.start, self.span.stop)

    @cached_property
    def source(self) -> Source:
        """The queries as a source that the forest reads."""
        return self._source("queries", self.span)

    @cached_property
    def nodes(self) -> Int32s:
        """The nodes of the queries, shape (n_trees, n)."""
        if self.routed:
            return self.nodes_of("queries", self.span)
        return scoring.apply(self.forest, self.source)

    @property
    def voters(self) -> Int32s | None:
        """The training objects that vote for the queries, shape (n_trees, n); None if whole leaves vote."""
        if not self.forest.nearest_votes:
            return None
        if self.routed:
            return self.nodes_of(VOTERS, self.span)
        rows = np.arange(self.nodes.shape[1], dtype=np.int32)
        return nearest_members(self.nodes, self.training_index, self.source, rows)

    @property
    def training_index(self) -> LeafIndex:
        """The index of training rows by leaf."""
        return self.forest.training_index

    def nodes_of(self, name: str, rows: slice | np.ndarray) -> Int32s:
        """The nodes of some rows of the queries, or of the reference, shape (n_trees, n)."""
        if self.routed:
            return np.ascontiguousarray(rows_in(_opened_once(self.run, f"{self.routed}/{name}"), rows).T)
        return scoring.apply(self.forest, self._source(name, rows))

    def to_others(self, measure: Callable[[Int32s], np.ndarray]) -> np.ndarray:
        """Apply ``measure`` to the nodes of the training rows, or of the reference in blocks; joins the columns."""
        if self.question.reference is None:
            return measure(self.forest.training_nodes)
        n = int(open_matrix(self.question.reference).shape[0])
        blocks = (slice(first, min(first + BLOCK_OTHERS, n)) for first in range(0, n, BLOCK_OTHERS))
        return np.concatenate([measure(self.nodes_of("reference", rows)) for rows in blocks], axis=1)

    def points(self, name: str, rows: slice | np.ndarray) -> Points:
        """Some of the queries, or of the reference, in the form that a forest over pairs reads."""
        return points_of(self.forest, self._recoded(name, rows))

    def pairs(self) -> tuple[np.ndarray, np.ndarray]:
        """The queries that occur in a pair; and the positions of both sides of each pair among them."""
        pairs = self._read("pairs", self.span)
        rows, places = np.unique(pairs, return_inverse=True)
        return rows, places.reshape(pairs.shape).T

    def _source(self, name: str, rows: slice | np.ndarray) -> Source:
        return self.forest.source(self._recoded(name, rows))

    def _recoded(self, name: str, rows: slice | np.ndarray) -> np.ndarray:
        """Some rows as the forest has them; how is found once in a process, as names may be many, and far away."""
        with _RECODING:
            recoding = _recoding_once(self.run, self.question.forest, self.digest, self.question.arrays[name])
        values = self._read(name, rows)
        return recoding.rows(values)[0] if recoding else values

    def _read(self, name: str, rows: slice | np.ndarray) -> np.ndarray:
        return rows_in(_opened_once(self.run, self.question.arrays[name]), rows)


@lru_cache(maxsize=4)
def _opened_once(run: str, address: str) -> ZarrArray | SparseStore:  # noqa: ARG001  (of the key)
    """What tasks of a run read rows of; opening it takes as long as reading a block."""
    return open_matrix(address)


_RECODING = Lock()
"""Held while names are read, so that the threads of a process read them only once."""


@lru_cache(maxsize=4)
def _recoding_once(run: str, address: str, digest: str, rows: str) -> Reordering | None:  # noqa: ARG001  (of the key)
    return _recoding(opened_forest(address, digest), rows)
