"""The data of a task that answers a question: the forest, opened once per process, its rows, and their nodes."""

from __future__ import annotations

import hashlib
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, lru_cache
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import scipy.sparse

from distforest.errors import InputError
from distforest.forest import scoring
from distforest.forest.forest import DECISION_ARRAYS, canonical
from distforest.forest.nearest_votes import nearest_members
from distforest.forest.pairs.pair_scores import columns_of, is_over_pairs
from distforest.forest.sealed.artifact import open_forest
from distforest.jobs.last_opened import LastOpened
from distforest.sources.array_files import Mapped, untouched
from distforest.sources.category_codes import check_codes
from distforest.sources.comparisons import Records
from distforest.sources.opening import open_matrix, rows_in
from distforest.sources.point_pairs import check_points
from distforest.sources.readings import FEATURES, read
from distforest.sources.schema import Schema
from distforest.sources.sparse_features import read_sparse_features
from distforest.sources.sparse_pairs import check_sparse_points

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from distforest.evaluation.sides import ScoredSides
    from distforest.forest.forest import Forest
    from distforest.forest.pairs.pair_scores import Points
    from distforest.forest.sealed.artifact import Manifest
    from distforest.jobs.question import Question
    from distforest.sources.guarded import ZarrArray
    from distforest.sources.schema import Reordering
    from distforest.sources.scratch import ScratchFolder
    from distforest.sources.source import Float32s, Int32s, Ints, Source
    from distforest.sources.sparse_features import SparseFeatures
    from distforest.sources.sparse_store import SparseStore
    from distforest.sources.staged_arrays import StagedTruth
    from distforest.sources.truth import Truth

VOTERS = "voters"
"""Array beside the nodes with the training object that votes in each tree, for each routed query."""

BLOCK_OTHERS = 1 << 14
"""Number of rows of a reference that are read together."""


@lru_cache(maxsize=2)
def opened_forest(address: str, digest: str) -> Forest:
    """Open a forest, once in a process; ``digest`` is part of the cache key, so a new forest is opened.

    It is that of `digest_with_decisions`, or of the trees alone where no answer follows from decisions.
    """
    forest = open_forest(address)
    if forest.digest != digest[: len(forest.digest)]:
        raise InputError(f"{address} has changed while it was scored; start again")
    return forest


def digest_with_decisions(manifest: Manifest) -> str:
    """The digest of a forest, followed by that of the arrays of its decisions, which the first does not cover."""
    entries = {name: entry for name, entry in manifest["arrays"].items() if name in DECISION_ARRAYS}
    return manifest["digest"] + hashlib.sha256(canonical(entries)).hexdigest()


def has_further_columns(forest: Forest) -> bool:
    """Return whether the forest reads points that have columns beside the features, which have no names."""
    return is_over_pairs(forest) and columns_of(forest).width > forest.n_features


def recoded(forest: Forest, address: str, rows: np.ndarray) -> tuple[np.ndarray, Schema | None]:
    """Return rows of the array at an address as the forest has them, and their schema as `_recoding` has it.

    Columns are found by name, and categories and dates have the forest's numbers.
    """
    recoding, schema = _recoding(forest, address)
    return recoding.rows(rows)[0] if recoding else rows, schema


def _recoding(forest: Forest, address: str) -> tuple[Reordering | None, Schema | None]:
    """Return how rows of the array at an address are converted to the forest's form; None if they need no conversion.

    For a forest over pairs, if the array has categories that the forest has not seen, the schema with these is
    returned, too.
    """
    schema = forest.schema
    if schema is None or has_further_columns(forest):
        return None, None
    found = Schema.from_array(address, open_matrix(address))
    if found is None:
        return None, None
    if is_over_pairs(forest):
        extended = schema.with_categories({column.name: column.categories for column in found.columns})
        return extended.recoding(found, address), None if extended == schema else extended
    return schema.recoding(found, address), None


def points_of(
    forest: Forest, values: np.ndarray | scipy.sparse.csr_array, schema: Schema | None = None
) -> Float32s | SparseFeatures | Records:
    """Return points in the form that a forest over pairs reads; raise InputError for a wrong number of columns.

    ``schema`` lists the categories of the points if the forest has not seen all of them.
    """
    width = columns_of(forest).width
    if values.shape[1] != width:
        raise InputError(f"X has {values.shape[1]} features, but the forest is expecting {width} features as input")
    if forest.sparse_points is not None:
        sparse = read_sparse_features(scipy.sparse.csr_array(values))
        check_sparse_points(sparse)
        return sparse
    points = read(values, FEATURES)
    check_points(points, None if schema else columns_of(forest))
    if schema is not None:
        check_codes(points, schema.n_categories)
    return points if schema is None else Records(points, schema)


@dataclass(frozen=True)
class OwnDistances:
    """The ground truth of a scoring job, small enough to be sent with every task.

    Attributes
    ----------
    truth, scratch
        The staged ground truth, and the folder for staged files; each host has one.
    sides
        Which distance is taken, ``"two"`` or ``"one"``.
    scored
        The out-of-bag scores of both, if they have decided; otherwise None.
    """

    truth: StagedTruth
    scratch: ScratchFolder
    sides: str
    scored: ScoredSides | None = None

    @property
    def sha256(self) -> str:
        """Digest of the ground truth and of which distance is taken."""
        truth = self.truth
        content = (truth.graph or truth.staged).sha256
        costs = None if truth.costs is None else truth.costs.sha256
        parts = [self.sides, truth.kind, content, truth.classes, truth.offset, costs]
        return hashlib.sha256(canonical(parts)).hexdigest()

    @contextmanager
    def watched(self, forest: Forest) -> Iterator[Truth]:
        """Yield the forest's ground truth, opened on this host for a block and cached for the next one.

        Raises
        ------
        JobError, OSError
            A staged file was written to during the block; see `untouched`.
        """
        opened = LAST_TRUTHS.get_or_open((self.sha256, self.scratch), lambda: _OpenedTruth.from_distances(self))
        with untouched(opened.files):
            yield scoring.with_costs_learned(forest, opened.truth)

    @property
    def in_words(self) -> str:
        """Text on which distance is taken, and why."""
        if self.scored is None:
            return self.sides
        scores = {sides: own[self.scored.scoring] for sides, own in self.scored.scores.items()}
        found = " and ".join(f"{sides!r} {score:.4g}" for sides, score in scores.items())
        return f"{self.sides}, chosen by {self.scored.scoring} out of bag: {found}"


class _OpenedTruth(NamedTuple):
    """An opened ground truth, and its files."""

    truth: Truth
    files: tuple[Mapped, ...]

    @classmethod
    def from_distances(cls, own: OwnDistances) -> _OpenedTruth:
        """Open the ground truth of a scoring job."""
        files = list[Mapped]()
        return cls(own.truth.open(own.scratch, files), tuple(files))


LAST_TRUTHS = LastOpened["tuple[str, ScratchFolder]", _OpenedTruth](2)
"""The ground truths of the last jobs of this process."""


def forget_truths(_job: str) -> None:
    """Release the ground truths that this process has opened, so that their staged files can be removed.

    Another job that reads one of them opens it again.
    """
    LAST_TRUTHS.forget()


@dataclass(frozen=True, eq=False)
class TaskData:
    """Some rows of a question, and the data that its answer needs; each part is read at its first use.

    Attributes
    ----------
    question, digest
        The question, and the digest of its forest.
    span
        The queries or pairs that the task answers.
    routed
        The group with the nodes of all objects, if a function computes similarities.
    run
        Identifier of this scoring job, so that what is read once for all its tasks is not kept for the next job.
    part_rows
        Rows of the leaf index that are made at once; None: all, once per process.
    own
        The ground truth, if training rows' own distances may be used.
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
        return self._nodes_of("queries", self.span) if self.routed else scoring.apply(self.forest, self.source)

    @property
    def voters(self) -> Int32s | None:
        """The training objects that vote for the queries, shape (n_trees, n); None if whole leaves vote."""
        if not self.forest.nearest_votes:
            return None
        if self.routed:
            return self._nodes_of(VOTERS, self.span)
        rows = np.arange(self.nodes.shape[1], dtype=np.int32)
        return nearest_members(self.nodes, self.forest.training_index, self.source, rows)

    def _nodes_of(self, name: str, rows: slice | np.ndarray) -> Int32s:
        """Return the nodes of some rows of the queries, or of the reference, shape (n_trees, n)."""
        if self.routed:
            return np.ascontiguousarray(rows_in(_opened_once(self.run, f"{self.routed}/{name}"), rows).T)
        return scoring.apply(self.forest, self._source(name, rows))

    def to_others(self, measure: Callable[[Int32s], np.ndarray]) -> np.ndarray:
        """Apply ``measure`` to the nodes of the training rows, or of the reference in blocks; join the columns."""
        if self.question.reference is None:
            return measure(self.forest.training_nodes)
        n = int(open_matrix(self.question.reference).shape[0])
        blocks = (slice(first, min(first + BLOCK_OTHERS, n)) for first in range(0, n, BLOCK_OTHERS))
        return np.concatenate([measure(self._nodes_of("reference", rows)) for rows in blocks], axis=1)

    def points(self, name: str, rows: slice | np.ndarray) -> Points:
        """Return some of the queries, or of the reference, in the form that a forest over pairs reads."""
        return points_of(self.forest, *self._recoded(name, rows))

    def pairs(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the queries that occur in a pair, and the positions of both sides of each pair among them."""
        pairs = rows_in(_opened_once(self.run, self.question.arrays["pairs"]), self.span)
        rows, places = np.unique(pairs, return_inverse=True)
        return rows, places.reshape(pairs.shape).T

    def nodes_of_pairs(self) -> tuple[Int32s, Int32s]:
        """Return the nodes of the first and of the second query of each pair, both of shape (n_trees, n)."""
        rows, (left, right) = self.pairs()
        nodes = self._nodes_of("queries", rows)
        return nodes[:, left], nodes[:, right]

    def _source(self, name: str, rows: slice | np.ndarray) -> Source:
        return self.forest.source(self._recoded(name, rows)[0])

    def _recoded(self, name: str, rows: slice | np.ndarray) -> tuple[np.ndarray, Schema | None]:
        """Return some rows in the forest's form, and their schema as `_recoding` does.

        Their recoding is read once per process, as it may be large.
        """
        address = self.question.arrays[name]
        with _RECODING:
            recoding, schema = _recoding_once(self.run, self.question.forest, self.digest, address)
        values = rows_in(_opened_once(self.run, address), rows)
        return recoding.rows(values)[0] if recoding else values, schema


@lru_cache(maxsize=4)
def _opened_once(run: str, address: str) -> ZarrArray | SparseStore:  # noqa: ARG001  (part of the key)
    """Open an array whose rows the tasks of a run read; opening takes as long as reading a block."""
    return open_matrix(address)


_RECODING = Lock()
"""Lock for reading names, so that the threads of a process read them only once."""


@lru_cache(maxsize=4)
def _recoding_once(
    run: str,  # noqa: ARG001  (part of the key)
    address: str,
    digest: str,
    rows: str,
) -> tuple[Reordering | None, Schema | None]:
    return _recoding(opened_forest(address, digest), rows)
