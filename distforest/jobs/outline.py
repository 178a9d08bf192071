"""The form of the answer to a question, which is checked before anything is written."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

import numpy as np

from distforest.amounts import counted
from distforest.errors import ArtifactError, InputError
from distforest.forest import scoring
from distforest.forest.pairs.pair_scores import is_over_pairs
from distforest.forest.sealed.artifact import read_manifest
from distforest.jobs.answers import ANSWERS, Survey
from distforest.jobs.asked import has_further_columns, opened_forest, points_of, recoded
from distforest.jobs.neighbor_room import Sizes, check_opened, opened_bytes
from distforest.jobs.question import Question
from distforest.jobs.sides import check_sides
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
    from distforest.jobs.answers import Answer
    from distforest.jobs.neighbor_room import Limit
    from distforest.sources.factors import ClassName

MAY_BE_SPARSE = (Dense, Features)
"""The kinds of rows that a sparse matrix may hold."""

OPTIONS = {name for row in ANSWERS.values() for name in row.takes}
"""Options that only some answers take."""


def unused(answer: str, given: Mapping[str, object]) -> dict[str, str]:
    """The given options that an answer does not take, each with the answers that take it, in words.

    Examples
    --------
    >>> unused("apply", {"pairs": "pairs.zarr", "reference": None, "n_neighbors": 10})
    {'pairs': "'pairs' or 'standard_error'"}
    """
    taken = ANSWERS[answer].takes if answer in ANSWERS else ()
    return {
        option.name: " or ".join(repr(row.name) for row in ANSWERS.values() if option.name in row.takes)
        for option in fields(Question)
        if option.name in OPTIONS - set(taken) and given.get(option.name, option.default) != option.default
    }


CELL_BYTES = 8
"""Bytes of a cell of an array that is read, at most."""

SMALL_QUESTION = 1 << 26
"""Bytes up to which reading a forest and an array takes less time than starting workers for it."""


@dataclass(frozen=True)
class Outline:
    """The output of a question: the forest's digest, arrays by name as (dtype, tail), the number of answers, classes.

    ``told`` are warnings about the arrays that are read, ``ids`` is the address of the names of the queries, if an
    answer has a row for each of them and they have names. ``chunk_rows`` is how many queries lie in a chunk, 1 if that
    does not matter, ``columns`` the number of columns of a sparse matrix, None for other answers, ``sizes`` what
    decides the memory of neighbours that are found by the leaf index. ``query_bytes`` is how many bytes the queries of
    an answer take when they are read, 0 where a function is asked.
    """

    digest: str
    arrays: dict[str, tuple[str, tuple[int, ...]]]
    n_answers: int
    classes: Sequence[ClassName] | None
    told: tuple[str, ...] = ()
    ids: str | None = None
    chunk_rows: int = 1
    columns: int | None = None
    sizes: Sizes | None = None
    query_bytes: int = 0


def outline(question: Question, limit: Limit | None = None) -> Outline:
    """Open the forest and the arrays of a question, on any host; raises the errors of `score` before it writes.

    With a ``limit``, that of a worker, a forest that would not fit is refused before it is opened.
    """
    for name, answers in unused(question.answer, vars(question)).items():
        expected = f"`{name}` goes with the answer {answers}"
        raise InputError(f"{expected}, found it with {question.answer!r}; leave it out, or ask for that")
    manifest = read_manifest(question.forest)
    digest = str(manifest["digest"])
    if limit is not None:
        check_opened(manifest, limit, question.forest)
    told = tuple(_told_of_arrays(question))
    forest = opened_forest(question.forest, digest)
    check_sides(question, forest)
    told += tuple(_told_of_schema(question, forest))
    arrays, n_answers = _arrays(question, forest)
    classes = forest.meaning.classes if ANSWERS[question.answer].is_predicted else None
    ids = None if ANSWERS[question.answer].of_pairs else ids_beside(question.queries, n_answers)
    columns = forest.n_training if ANSWERS[question.answer].is_graph else None
    sizes = _sizes(question, forest, n_answers, opened_bytes(manifest))
    of_chunks = (_chunk_rows(question), columns, sizes, _query_bytes(question, forest))
    return Outline(digest, arrays, n_answers, classes, told, ids, *of_chunks)


def is_small(question: Question) -> bool:
    """Whether workers would take longer to start than a question to answer; no function of a user's is asked then.

    What cannot be opened is small, too: `score` says what is wrong with it, and needs no workers to do so.
    """
    if question.callback is not None:
        return False
    arrays = filter(None, (question.queries, question.reference, question.pairs))
    try:
        n_bytes = [opened_bytes(read_manifest(question.forest)), *map(_bytes_at, arrays)]
    except (InputError, ArtifactError, OSError):
        return True
    return max(n_bytes) <= SMALL_QUESTION


def _bytes_at(address: str) -> int:
    """Bytes of the array at an address, at most."""
    array = open_matrix(address)
    n_cells = array.n_stored if isinstance(array, SparseStore) else math.prod(array.shape)
    return n_cells * CELL_BYTES


def _query_bytes(question: Question, forest: Forest) -> int:
    """Bytes of a query, or of both of a pair, as trees read them: of a sparse one those of its entries, on average."""
    if question.callback is not None:
        return 0
    matrix = open_matrix(question.queries)
    n_entries = -(-matrix.n_stored // max(1, matrix.shape[0])) if isinstance(matrix, SparseStore) else matrix.shape[1]
    n_bytes = 12 if isinstance(matrix, SparseStore) else 8 if is_given(forest.meaning.rows) else 4
    return n_entries * n_bytes * (2 if ANSWERS[question.answer].of_pairs else 1)


def _chunk_rows(question: Question) -> int:
    """Queries in a chunk, each of which is decoded as a whole; 1 if an answer has no row for each query."""
    if question.callback is not None or ANSWERS[question.answer].of_pairs:
        return 1
    matrix = open_matrix(question.queries)
    return 1 if isinstance(matrix, SparseStore) else int(matrix.chunks[0])


def _sizes(question: Question, forest: Forest, n_queries: int, forest_bytes: int) -> Sizes | None:
    """What decides the memory of nearest rows by the leaf index; None for any other answer."""
    if "n_neighbors" not in ANSWERS[question.answer].takes or not scoring.says_shared(forest):
        return None
    of_forest = forest_bytes, forest.n_trees, forest.n_training
    return Sizes(*of_forest, n_queries, forest.n_features, question.n_neighbors + question.without_self)


def _told_of_arrays(question: Question) -> Iterator[str]:
    """Yield warnings about the arrays; an error names the array that cannot be read."""
    for name, address in question.arrays.items():
        with naming(name, address):
            if question.callback is None and name in {"queries", "reference"}:
                refuse_text_as_bytes(address, open_matrix(address))
            yield from check_stored([address], question.strict, question.max_bytes)


def _told_of_schema(question: Question, forest: Forest) -> Iterator[str]:
    """Refuse rows that lack features of the forest, or whose columns are of other kinds; columns are found by name.

    Yields a warning of categories that the forest has not seen. Without names on one side there is nothing to compare;
    further columns of points may have any names, so all are taken in their order.
    """
    schema = forest.schema
    if schema is None or question.callback is not None:
        return
    for address in (question.queries, question.reference):
        found = Schema.of_array(address, open_matrix(address)) if address else None
        if address and found and has_further_columns(forest):
            schema.check_same(found.first(forest.n_features), address)
        elif address and found:
            unseen = schema.told_of_unseen(found, schema.reordering(found, address))
            yield from [f"{address}: {unseen}"] if unseen else []


def _arrays(question: Question, forest: Forest) -> tuple[dict[str, tuple[str, tuple[int, ...]]], int]:
    """The arrays of the answer by name, as (dtype, tail of the shape), and the number of answers."""
    may_be_sparse = isinstance(forest.meaning.rows, MAY_BE_SPARSE) or forest.sparse_points is not None
    may_be_sparse = may_be_sparse and question.callback is None
    look = open_matrix if may_be_sparse else open_array
    shape = tuple(look(question.queries).shape)
    _check_rows(question, forest, shape)
    if question.answer not in ANSWERS:
        raise InputError(f"answer must be one of {', '.join(ANSWERS)}, found {question.answer!r}")
    row, n = ANSWERS[question.answer], int(shape[0])
    n_others = _n_training(row, question, forest)
    if "reference" in row.takes and question.reference:
        n_others = int(look(question.reference).shape[0])
    if "n_neighbors" in row.takes:
        _check_neighbors(question, n, n_others)
    n_answers = _n_pairs(question, n) if row.of_pairs else n
    survey = Survey(forest, question, n_others)
    return {array.name: array.form(survey) for array in row.arrays}, n_answers


def _n_training(row: Answer, question: Question, forest: Forest) -> int:
    """The number of training rows; refuses a forest without their nodes if the answer needs them."""
    asks = (row.to_training and not question.reference) or (row.is_predicted and forest.nearest_votes)
    return int(forest.training_nodes.shape[1]) if asks and not is_over_pairs(forest) else forest.n_training


def _check_rows(question: Question, forest: Forest, shape: tuple[int, ...]) -> None:
    """Refuse queries that the forest cannot read."""
    if question.callback is None and len(shape) != 2:
        expected = f"{question.queries}: rows, an array of two dimensions, were expected"
        raise InputError(f"{expected}, found shape {shape}")
    if is_over_pairs(forest):
        _check_points(question, forest)
    elif question.callback is None:
        forest.source(recoded(forest, question.queries, read_rows(question.queries, slice(0, 1))))
    elif isinstance(forest.meaning.rows, Several):
        cure = "in Python, load(forest, similarity=[...], X=objects) takes one for each"
        raise InputError(f"{question.forest} reads several similarities, found one function; {cure}")
    elif not isinstance(forest.meaning.rows, Dense):
        raise InputError(f"{question.forest} reads {forest.meaning.rows.kind}, it has no similarities to ask for")


def _check_points(question: Question, forest: Forest) -> None:
    """Refuse a question that a forest over pairs cannot answer: it gives only distances and neighbours of points."""
    if question.callback is not None:
        raise InputError(f"{question.forest} reads points, it has no similarities to ask for")
    *names, last = [row.name for row in ANSWERS.values() if row.over_pairs]
    if question.answer not in (*names, last):
        raise InputError(f"a forest over pairs answers with {', '.join(names)} or {last}, not with {question.answer!r}")
    points_of(forest, recoded(forest, question.queries, read_rows(question.queries, slice(0, 1))))


def _check_neighbors(question: Question, n_queries: int, n_training: int) -> None:
    most = n_training - question.without_self
    if not 1 <= question.n_neighbors <= most:
        raise InputError(f"n_neighbors must be in 1..{most}, found {question.n_neighbors}")
    if question.without_self and n_queries != n_training:
        raise InputError(
            f"{question.queries}: as many rows as in training, {n_training:,}, were expected, so that none is its own "
            f"neighbour, found {counted(n_queries, 'row')}; ask about other rows without `without_self`"
        )


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
