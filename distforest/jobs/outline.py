"""The form of the answer to a question, which is checked before anything is written, and the memory that it takes.

Nearest rows are found by the leaf index of all training rows, made once per process, if it fits into memory. If not, a
task takes many queries, makes the index of one range of training rows after another, and keeps the nearest rows so far.
The answer is identical; the only difference is that each task makes the index again.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from distforest.amounts import counted, in_bytes
from distforest.errors import ArtifactError, InputError, MemoryLimitError
from distforest.forest import scoring
from distforest.forest.pairs.pair_scores import is_over_pairs
from distforest.forest.sealed.artifact import decoded_bytes, read_manifest
from distforest.jobs.answers import ANSWERS, Survey
from distforest.jobs.own_distances import check_sides
from distforest.jobs.plan import IMPORTED_BYTES
from distforest.jobs.question import Question
from distforest.jobs.task_data import digest_with_decisions, has_further_columns, opened_forest, points_of, recoded
from distforest.sources.arrays import open_array
from distforest.sources.files.ids import ids_beside, refuse_text_as_bytes
from distforest.sources.opening import open_matrix, read_rows
from distforest.sources.row_kinds import Dense, Features, Several, is_given
from distforest.sources.schema import Schema
from distforest.sources.sparse_store import SparseStore
from distforest.sources.stored import check_stored
from distforest.stores.addresses import naming

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from distforest.forest.forest import Forest
    from distforest.forest.sealed.artifact import Manifest
    from distforest.sources.factors import ClassName

MAY_BE_SPARSE = (Dense, Features)
"""Kinds of rows that a sparse matrix may contain."""

OPTIONS = {name for row in ANSWERS.values() for name in row.takes}
"""Options that only some answers take."""


def unused(answer: str, given: Mapping[str, object]) -> dict[str, str]:
    """Return the given options that an answer does not take, each with a text of the answers that take it.

    Examples
    --------
    >>> unused("apply", {"pairs": "pairs.zarr", "reference": None, "n_neighbors": 10})
    {'pairs': "'pairs' or 'standard_error' or 'decision' or 'probability'"}
    """
    taken = ANSWERS[answer].takes if answer in ANSWERS else ()
    return {
        option.name: " or ".join(repr(row.name) for row in ANSWERS.values() if option.name in row.takes)
        for option in fields(Question)
        if option.name in OPTIONS - set(taken) and given.get(option.name, option.default) != option.default
    }


SMALL_QUESTION = 1 << 26
"""Bytes up to which reading a forest and an array takes less time than starting workers."""


OPENED_NODE_BYTES = 72
"""Bytes per node while a forest is opened, checked and walked, beside its arrays."""

REFERENCE_BYTES = 24
"""Bytes per row of the index, beside those per tree: order, place, and their sorting."""

COUNTER_BYTES = 16
"""Bytes per row of the index and thread that counts common leaves."""

NEIGHBOR_BYTES = 56
"""Bytes per neighbour of a query, while the nearest are found and written."""

MOST_INDEX_PARTS = 64
"""Largest number of parts of an index. More are refused, as each task would make as many indexes."""

SPARED = 8
"""One part in this number of a worker's memory is kept free, as Dask pauses a worker that is nearly full."""


class Limit(NamedTuple):
    """The memory of a worker in bytes, None if there is no limit, and its threads."""

    n_bytes: int | None
    threads: int


@dataclass(frozen=True)
class Sizes:
    """The sizes that determine the memory for neighbours.

    Attributes
    ----------
    forest_bytes, n_trees, n_training
        Sizes of the opened forest.
    n_queries, width
        Numbers of queries and of their columns.
    n_neighbors
        Number of neighbours per query.
    """

    forest_bytes: int
    n_trees: int
    n_training: int
    n_queries: int
    width: int
    n_neighbors: int


@dataclass(frozen=True)
class Outline:
    """The form of the answer to a question.

    Attributes
    ----------
    digest
        The forest's digest, with that of its decisions if the answer follows from them.
    arrays
        The arrays of the answer by name, as (dtype, tail of the shape).
    n_answers, classes
        The number of answers, and the names of predicted classes.
    warnings
        Warnings about the arrays that are read.
    ids
        The address of the names of the queries, if an answer has a row for each of them and they have names.
    chunk_rows
        Number of queries in a chunk, which is decoded as a whole; 1 if an answer does not have a row for each query.
    columns
        The number of columns of a sparse matrix; None for other answers.
    sizes
        The sizes that determine the memory for neighbours by the leaf index; None for any other answer.
    query_bytes
        Bytes per query when trees read it, 0 if a function is called.
    """

    digest: str
    arrays: dict[str, tuple[str, tuple[int, ...]]]
    n_answers: int
    classes: Sequence[ClassName] | None
    warnings: tuple[str, ...] = ()
    ids: str | None = None
    chunk_rows: int = 1
    columns: int | None = None
    sizes: Sizes | None = None
    query_bytes: int = 0


def outline(question: Question, limit: Limit | None = None) -> Outline:
    """Open the forest and the arrays of a question, on any host; raise the errors of `score` before it writes.

    With the ``limit`` of a worker, a forest that would not fit is refused before it is opened.
    """
    for name, answers in unused(question.answer, vars(question)).items():
        expected = f"`{name}` needs the answer {answers}"
        raise InputError(f"{expected}, found it with {question.answer!r}; omit it, or choose that answer")
    manifest = read_manifest(question.forest)
    decides = question.answer in {"decision", "probability"}
    digest = digest_with_decisions(manifest) if decides else manifest["digest"]
    forest_bytes = opened_bytes(manifest)
    if limit is not None and limit.n_bytes is not None and IMPORTED_BYTES + forest_bytes > limit.n_bytes:
        raise _too_small(f"to open {question.forest}", IMPORTED_BYTES + forest_bytes, limit)
    warnings = tuple(_warnings_about_arrays(question))
    forest = opened_forest(question.forest, digest)
    check_sides(question, forest)
    warnings += tuple(_warnings_about_schema(question, forest))
    arrays, n_answers = _arrays(question, forest)
    row, sizes = ANSWERS[question.answer], None
    if "n_neighbors" in row.takes and scoring.uses_proximity(forest):
        of_forest = forest_bytes, forest.n_trees, forest.n_training
        sizes = Sizes(*of_forest, n_answers, forest.n_features, question.n_neighbors + question.without_self)
    chunk_rows, query_bytes = 1, 0
    if question.callback is None:
        matrix = open_matrix(question.queries)
        if isinstance(matrix, SparseStore):
            query_bytes = 12 * -(-matrix.n_stored // max(1, matrix.shape[0]))  # of an entry, on average
        else:
            query_bytes = (8 if is_given(forest.meaning.rows) else 4) * matrix.shape[1]
            chunk_rows = 1 if row.of_pairs else int(matrix.chunks[0])
    return Outline(
        digest,
        arrays,
        n_answers,
        forest.meaning.classes if row.is_predicted else None,
        warnings,
        None if row.of_pairs else ids_beside(question.queries, n_answers),
        chunk_rows,
        forest.n_training if row.is_graph else None,
        sizes,
        query_bytes * (2 if row.of_pairs else 1),
    )


def is_small(question: Question) -> bool:
    """Return whether answering a question takes less time than starting workers; no user's function is called.

    A question that cannot be opened is small, too: `score` reports what is wrong with it without workers.
    """
    if question.callback is not None:
        return False
    try:
        n_bytes = [opened_bytes(read_manifest(question.forest))]
        for address in filter(None, (question.queries, question.reference, question.pairs)):
            array = open_matrix(address)
            n_bytes.append(8 * (array.n_stored if isinstance(array, SparseStore) else math.prod(array.shape)))
    except (InputError, ArtifactError, OSError):
        return True
    return max(n_bytes) <= SMALL_QUESTION


def _warnings_about_arrays(question: Question) -> Iterator[str]:
    """Yield warnings about the arrays; an error names the array that cannot be read."""
    for name, address in question.arrays.items():
        with naming(name, address):
            if question.callback is None and name in {"queries", "reference"}:
                refuse_text_as_bytes(address, open_matrix(address))
            yield from check_stored([address], question.strict, question.max_bytes)


def _warnings_about_schema(question: Question, forest: Forest) -> Iterator[str]:
    """Refuse rows that lack features of the forest, or whose columns are of other kinds; columns are found by name.

    Yield a warning about categories that the forest has not seen. Without names on one side there is nothing to
    compare. Further columns of points may have any names, so all columns are read in their order.
    """
    schema = forest.schema
    if schema is None or question.callback is not None:
        return
    for address in (question.queries, question.reference):
        found = Schema.from_array(address, open_matrix(address)) if address else None
        if address and found and has_further_columns(forest):
            schema.check_same(found.first(forest.n_features), address)
        elif address and found:
            recoding = schema.reordering(found, address)
            unseen = "" if is_over_pairs(forest) else schema.warning_about_unseen(found, recoding)
            yield from [f"{address}: {unseen}"] if unseen else []


def _arrays(question: Question, forest: Forest) -> tuple[dict[str, tuple[str, tuple[int, ...]]], int]:
    """Return the arrays of the answer by name, as (dtype, tail of the shape), and the number of answers."""
    may_be_sparse = isinstance(forest.meaning.rows, MAY_BE_SPARSE) or forest.sparse_points is not None
    look = open_matrix if may_be_sparse and question.callback is None else open_array
    shape = tuple(look(question.queries).shape)
    _check_rows(question, forest, shape)
    if question.answer not in ANSWERS:
        raise InputError(f"answer must be one of {', '.join(ANSWERS)}, found {question.answer!r}")
    row, n, n_others = ANSWERS[question.answer], int(shape[0]), forest.n_training
    needs_nodes = (row.to_training and not question.reference) or (row.is_predicted and forest.nearest_votes)
    if needs_nodes and not is_over_pairs(forest):
        n_others = int(forest.training_nodes.shape[1])  # raises for a forest without them
    if "reference" in row.takes and question.reference:
        n_others = int(look(question.reference).shape[0])
    if "n_neighbors" in row.takes:
        most = n_others - question.without_self
        if not 1 <= question.n_neighbors <= most:
            raise InputError(f"n_neighbors must be in 1..{most}, found {question.n_neighbors}")
        if question.without_self and n != n_others:
            raise InputError(
                f"{question.queries}: as many rows as in training, {n_others:,}, were expected, so that none is its "
                f"own neighbour, found {counted(n, 'row')}; score other rows without `without_self`"
            )
    survey = Survey(forest, question, n_others)
    return {array.name: array.form(survey) for array in row.arrays}, _n_pairs(question, n) if row.of_pairs else n


def _check_rows(question: Question, forest: Forest, shape: tuple[int, ...]) -> None:
    """Refuse queries that the forest cannot read."""
    if question.callback is None and len(shape) != 2:
        expected = f"{question.queries}: rows, an array of two dimensions, were expected"
        raise InputError(f"{expected}, found shape {shape}")
    if is_over_pairs(forest) and question.callback is not None:
        raise InputError(f"{question.forest} reads points, so it has no similarities to call")
    if is_over_pairs(forest):
        *names, last = [row.name for row in ANSWERS.values() if row.over_pairs]
        if question.answer not in (*names, last):
            expected = f"a forest over pairs answers with {', '.join(names)} or {last}"
            raise InputError(f"{expected}, not with {question.answer!r}")
        points_of(forest, *recoded(forest, question.queries, read_rows(question.queries, slice(0, 1))))
    elif question.callback is None:
        forest.source(recoded(forest, question.queries, read_rows(question.queries, slice(0, 1)))[0])
    elif isinstance(forest.meaning.rows, Several):
        cure = "in Python, load(forest, similarity=[...], X=objects) takes one for each"
        raise InputError(f"{question.forest} reads several similarities, found one function; {cure}")
    elif not isinstance(forest.meaning.rows, Dense):
        raise InputError(f"{question.forest} reads {forest.meaning.rows.kind}, so it has no similarities to call")


def _n_pairs(question: Question, n_queries: int) -> int:
    if question.pairs is None:
        raise InputError("pairs: the address of an array of row numbers, shape (n_pairs, 2), was expected")
    pairs = open_array(question.pairs)
    if len(pairs.shape) != 2 or pairs.shape[1] != 2 or pairs.dtype.kind not in "iu":
        raise InputError(
            f"{question.pairs}: integers of shape (n_pairs, 2) were expected, found {pairs.dtype} {pairs.shape}"
        )
    numbers = np.asarray(pairs[...])
    if numbers.size and not (numbers.min() >= 0 and numbers.max() < n_queries):
        raise InputError(f"{question.pairs}: row numbers must be in 0..{n_queries - 1}")
    return len(numbers)


# --- memory ---------------------------------------------------------------------------------------------------


def opened_bytes(manifest: Manifest) -> int:
    """Return the bytes that a process holds after opening a forest."""
    n_nodes = math.prod(manifest["arrays"]["left"]["shape"])
    return decoded_bytes(manifest) + OPENED_NODE_BYTES * n_nodes


@dataclass(frozen=True)
class NeighborRoom:
    """Rows of the leaf index that are made at once, None for all; most queries of a task; bytes of a worker."""

    part_rows: int | None
    task_rows: int
    projected_bytes: int


def room_for_neighbors(sizes: Sizes, step: int, limit: Limit) -> NeighborRoom:
    """Plan the search for nearest rows within a worker's limit; without a limit, a task would have ``step`` rows.

    Raises
    ------
    MemoryLimitError
        Not even `MOST_INDEX_PARTS` parts would fit.

    Examples
    --------
    >>> sizes = Sizes(900 << 20, 10, 10_000_000, 10_000_000, 20, 10)
    >>> room_for_neighbors(sizes, 1 << 16, Limit(4 << 30, 1)).part_rows  # the whole index
    >>> room_for_neighbors(sizes, 1 << 16, Limit(1700 << 20, 1)).part_rows
    2441216
    """
    step, threads = min(step, sizes.n_queries), limit.threads
    query_bytes = 12 * sizes.width + 9 * sizes.n_trees + NEIGHBOR_BYTES * sizes.n_neighbors  # read, nodes, nearest
    index_bytes = 4 * sizes.n_trees + REFERENCE_BYTES
    held = IMPORTED_BYTES + sizes.forest_bytes
    counters = threads * COUNTER_BYTES
    whole = held + threads * step * query_bytes + sizes.n_training * (index_bytes + counters)
    if limit.n_bytes is None or whole <= limit.n_bytes - limit.n_bytes // SPARED:
        return NeighborRoom(None, step, whole)
    of_row = index_bytes + COUNTER_BYTES
    least_rows = -(-sizes.n_training // MOST_INDEX_PARTS)
    least = held + threads * (step * query_bytes + least_rows * of_row)
    free = (limit.n_bytes - limit.n_bytes // SPARED - held) // threads
    if least > limit.n_bytes - limit.n_bytes // SPARED:
        raise _too_small("to find neighbours in parts", least + least // (SPARED - 1), limit)
    n_steps = max(1, free // 2 // (step * query_bytes))  # half for queries, so that the index pays off
    task_rows = min(n_steps, -(-sizes.n_queries // step)) * step
    part_rows = max(least_rows, (free - task_rows * query_bytes) // of_row)
    return NeighborRoom(part_rows, task_rows, held + threads * (task_rows * query_bytes + part_rows * of_row))


def _too_small(to: str, needed: int, limit: Limit) -> MemoryLimitError:
    return MemoryLimitError(
        f"a worker would need about {in_bytes(needed)} {to}, and has {in_bytes(limit.n_bytes or 0)}: give workers more "
        "memory (`run.memory_limit`), or fewer threads"
    )
