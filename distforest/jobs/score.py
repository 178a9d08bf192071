"""Batch scoring: rows or pairs from Zarr through a sealed forest, answers as chunks to Zarr.

Where a function is asked for similarities, all objects are routed first, in one place: the tasks then read their nodes,
and no pair is paid for by two of them.
"""

from __future__ import annotations

import uuid
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache, reduce
from threading import Lock
from typing import TYPE_CHECKING

import numpy as np
import zarr

from distforest.errors import InputError
from distforest.forest import pair_scores, scoring
from distforest.forest.artifact import open_forest, read_manifest
from distforest.forest.leaf_index import LeafIndex
from distforest.forest.leaves import Means
from distforest.forest.pair_scores import columns_of, is_over_pairs
from distforest.forest.proximities import nearest, proximity
from distforest.forest.table import route
from distforest.jobs.cluster import Clock, Cluster, Stream, Work
from distforest.jobs.folder import Folder
from distforest.jobs.lockstep import Supplied, check_origin, warn_of_change
from distforest.sources.arrays import create_array, open_array, writable_array
from distforest.sources.lazy import Objects, joined
from distforest.sources.point_pairs import PointPairs, hold_points
from distforest.sources.readings import FEATURES, read
from distforest.sources.staging import read_objects

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from distforest.forest.forest import Forest
    from distforest.jobs.callback import Callback
    from distforest.jobs.cluster import Watch
    from distforest.sources.lazy import LazySource
    from distforest.sources.source import Rows

ANSWERS = ("distance", "proximity", "pairs", "neighbors", "predict", "proba", "apply")
"""What can be asked: distances or proximities to rows, distances of pairs, nearest training rows, labels or means,
shares, nodes."""

TO_ROWS = ("distance", "proximity")
"""Answers with a number for each training row, or each row of the reference."""

BLOCK_CELLS = 1 << 22
"""Numbers that a task answers with, about."""

ROUTED_ROWS = 1 << 12
"""Objects that are routed together, and rows in a chunk of their nodes."""


@dataclass(frozen=True)
class Question:
    """What is asked of a forest.

    Attributes
    ----------
    forest
        Address of a sealed forest.
    queries
        Address of a Zarr array of rows, as `Forest.source` reads them, shape (n, n_columns).
    answer
        One of `ANSWERS`.
    reference
        For ``"distance"`` and ``"proximity"``: address of the rows that they are taken to; the training rows by
        default.
    pairs
        For ``"pairs"``: address of the row numbers of each pair in ``queries``, shape (n_pairs, 2).
    n_neighbors
        For ``"neighbors"``.
    without_self
        For ``"neighbors"``: whether the queries are the training rows, in their order, and none is its own neighbour.
    callback
        The function that similarities are asked of; ``queries`` and ``reference`` then hold objects.
    training
        With a callback, the address of the training objects; their numbers by default.
    """

    forest: str
    queries: str
    answer: str
    reference: str | None = None
    pairs: str | None = None
    n_neighbors: int = 10
    without_self: bool = False
    callback: Callback | None = None
    training: str | None = None


@dataclass(frozen=True)
class ScoreTask:
    """Answers first to last - 1 of a question, to be written into the arrays of ``target``.

    ``routed`` is the group of the nodes of all objects, where similarities were asked for.
    """

    question: Question
    digest: str
    target: str
    first: int
    last: int
    routed: str | None = None

    def __str__(self) -> str:
        return f"rows {self.first} to {self.last - 1}"


@dataclass(frozen=True)
class Scored:
    """Where the answers are, and the shapes of the arrays there."""

    address: str
    digest: str
    shapes: dict[str, tuple[int, ...]]


def score(
    question: Question, output: str, cluster: Cluster, overwrite: bool = False, watch: Watch | None = None
) -> Scored:
    """Answer a question into a new Zarr group, in parallel, in bounded memory.

    Parameters
    ----------
    question
        What is asked.
    output
        Path or URL of the new group. In a local file system it appears only when it is whole.
    cluster
        Where the tasks run.
    overwrite
        Whether something at ``output`` may be replaced.
    watch
        Told of the progress.

    Raises
    ------
    InputError
        The question does not fit the forest or its queries; nothing is written.
    ArtifactError
        The forest is damaged.
    """
    target = Folder(output)
    if target.exists() and not overwrite:
        raise InputError(f"{output} exists; choose another output or allow overwriting")
    digest = str(read_manifest(question.forest)["digest"])
    forest = _opened(question.forest, digest)
    arrays, n_answers = _arrays(question, forest)
    building = Folder(f"{output}.{uuid.uuid4().hex[:8]}.partial") if target.is_local else target
    with _routed(question, forest, output, cluster, watch) as routed:
        try:
            _prepare(building.address, arrays, n_answers, question, forest)
            step = _step(arrays)
            tasks = [
                ScoreTask(question, digest, building.address, first, min(first + step, n_answers), routed)
                for first in range(0, n_answers, step)
            ]
            cluster.each(answer_rows, tasks, Work("score", weight=lambda task: task.last - task.first, watch=watch))
            group = zarr.open_group(building.address, mode="r+")
            group.attrs["distforest"] = {"forest": digest, "answer": question.answer, "complete": True}
            if building is not target:
                target.remove()
                building.move(target)
        except BaseException:
            if building is not target:
                building.remove()
            raise
    return Scored(output, digest, {name: (n_answers, *tail) for name, (_, tail) in arrays.items()})


@contextmanager
def _routed(
    question: Question, forest: Forest, output: str, cluster: Cluster, watch: Watch | None
) -> Iterator[str | None]:
    """Route what a question is about into a group beside its output, for as long as tasks read it.

    None where no function is asked: each task then routes its own rows.
    """
    if question.callback is None:
        yield None
        return
    about = _about(question)
    training = read_objects(question.training) if question.training else np.arange(forest.n_columns)
    objects = Objects.of(training, reduce(joined, (part.objects[part.numbers] for part in about)))
    lazy = question.callback.lazy()
    check_origin(forest, lazy, objects)
    warn_of_change(forest, lazy)
    supplied = Supplied(lazy, training, cluster if isinstance(cluster, Stream) else None)
    folder = Folder(f"{output}.{uuid.uuid4().hex[:8]}.nodes")
    try:
        zarr.open_group(folder.address, mode="w")  # before anything is paid for: it can be written
        with supplied.source(objects, "scoring", None) as source:
            _route(forest, source, about, folder.address, watch)
        yield folder.address
    finally:
        folder.remove()


@dataclass(frozen=True, eq=False)
class _About:
    """Objects that a question is about: all of an address, and the numbers of those that are to be routed."""

    name: str
    objects: np.ndarray
    numbers: np.ndarray


def _about(question: Question) -> list[_About]:
    """The queries, of pairs only those in one, and the reference."""
    queries = read_objects(question.queries)
    numbers = np.arange(len(queries))
    if question.answer == "pairs":
        numbers = np.unique(np.asarray(open_array(str(question.pairs))[...]))
    about = [_About("queries", queries, numbers)]
    if question.answer in TO_ROWS and question.reference:
        reference = read_objects(question.reference)
        about.append(_About("reference", reference, np.arange(len(reference))))
    return about


def _route(forest: Forest, source: LazySource, about: list[_About], target: str, watch: Watch | None) -> None:
    """Write the nodes of each part, shape (n, n_trees), block by block; the source has the routed objects in order."""
    blocks = [
        (part.name, part.numbers[first : first + ROUTED_ROWS])
        for part in about
        for first in range(0, len(part.numbers), ROUTED_ROWS)
    ]
    for part in about:
        create_array(target, part.name, (len(part.objects), forest.n_trees), np.dtype(np.int32), ROUTED_ROWS)
    clock, first = Clock(Work("route", weight=lambda block: len(block[1]), watch=watch), blocks), 0
    for name, numbers in blocks:
        rows = np.arange(first, first + len(numbers), dtype=np.int32)
        array = writable_array(target, name)
        array.set_orthogonal_selection((numbers, slice(None)), route(forest.table, source, rows).T)
        first += len(rows)
        clock.tick((name, numbers))


@lru_cache(maxsize=2)
def _opened(address: str, digest: str) -> Forest:
    """The forest, opened once in a process; ``digest`` is part of the key, so that a new forest is opened anew."""
    forest = open_forest(address)
    if forest.digest != digest:
        raise InputError(f"{address} has changed while it was scored; start again")
    return forest


def _arrays(question: Question, forest: Forest) -> tuple[dict[str, tuple[str, tuple[int, ...]]], int]:
    """The arrays of the answer by name, (dtype, tail of the shape), and the number of answers."""
    queries = open_array(question.queries)
    over_pairs = is_over_pairs(forest)
    if over_pairs:
        _check_points(question, forest)
    elif question.callback is None:
        forest.source(np.asarray(queries[:1]))
    elif forest.meaning.rows["kind"] != "dense":
        raise InputError(f"{question.forest} reads {forest.meaning.rows['kind']}, it has no similarities to ask for")
    n, training = int(queries.shape[0]), forest.n_training
    if not over_pairs and (question.answer == "neighbors" or (question.answer in TO_ROWS and not question.reference)):
        training = forest.training_nodes.shape[1]  # refused here where they are not known, before anything is paid for
    if question.answer in TO_ROWS:
        others = int(open_array(question.reference).shape[0]) if question.reference else training
        return {question.answer: ("float32", (others,))}, n
    if question.answer == "pairs":
        return {"distance": ("float32", ())}, _n_pairs(question, n)
    if question.answer == "neighbors":
        _check_neighbors(question, n, training)
        tail = (question.n_neighbors,)
        return {"indices": ("int64", tail), "distance": ("float32", tail)}, n
    if question.answer == "apply":
        return {"nodes": ("int32", (forest.n_trees,))}, n
    if question.answer not in ANSWERS:
        raise InputError(f"answer must be one of {', '.join(ANSWERS)}, found {question.answer!r}")
    outputs = scoring.predict(forest, np.zeros((forest.n_trees, 1), np.int32)).shape[1]
    is_mean = isinstance(forest.leaf_table, Means)
    if question.answer == "proba":
        if is_mean:
            raise InputError("a forest trained on targets has no class shares; ask for 'predict'")
        return {"proba": ("float64", (outputs,))}, n
    return {"prediction": ("float64", (outputs,)) if is_mean else ("int64", ())}, n


def _check_points(question: Question, forest: Forest) -> None:
    """Refuse what a forest over pairs cannot answer: it has distances and neighbours of points alone."""
    if question.callback is not None:
        raise InputError(f"{question.forest} reads points, it has no similarities to ask for")
    if question.answer not in {"distance", "pairs", "neighbors"}:
        raise InputError(f"a forest over pairs answers with distance, pairs or neighbors, not with {question.answer!r}")
    _points(forest, _read(question.queries, slice(0, 1)))


def _points(forest: Forest, values: np.ndarray) -> np.ndarray:
    """Points as a forest over pairs reads them; raises InputError for another number of columns."""
    points, width = read(values, FEATURES), columns_of(forest).width
    if points.shape[1] != width:
        raise InputError(f"X has {points.shape[1]} features, but the forest is expecting {width} features as input")
    hold_points(points, columns_of(forest))
    return points


def _check_neighbors(question: Question, n_queries: int, n_training: int) -> None:
    most = n_training - question.without_self
    if not 1 <= question.n_neighbors <= most:
        raise InputError(f"n_neighbors must be in 1..{most}, found {question.n_neighbors}")
    if question.without_self and n_queries != n_training:
        raise InputError(
            f"{question.queries}: the {n_training} training rows were expected, as none shall be its own neighbour, "
            f"found {n_queries} rows; ask about other rows without without_self"
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


def _step(arrays: dict[str, tuple[str, tuple[int, ...]]]) -> int:
    """Rows of a task, and of a chunk, so that no two tasks write one chunk."""
    widest = max(int(np.prod(tail, dtype=np.int64)) for _, tail in arrays.values())
    return max(1, min(BLOCK_CELLS // max(1, widest), 1 << 16))


def _prepare(
    address: str,
    arrays: dict[str, tuple[str, tuple[int, ...]]],
    n_answers: int,
    question: Question,
    forest: Forest,
) -> None:
    zarr.open_group(address, mode="w")
    for name, (dtype, tail) in arrays.items():
        array = create_array(address, name, (n_answers, *tail), np.dtype(dtype), _step(arrays))
        if question.answer in {"predict", "proba"} and forest.meaning.classes is not None:
            array.attrs["classes"] = forest.meaning.classes


def answer_rows(task: ScoreTask) -> int:
    """Work out a task's answers and write them; doing it twice changes nothing. Returns how many."""
    question = task.question
    forest = _opened(question.forest, task.digest)
    if is_over_pairs(forest):
        answers = _answers_of_pairs(task, forest)
    elif question.answer == "pairs":
        answers = {"distance": _pair_distances(task, forest)}
    else:
        nodes = _nodes(task, forest, "queries", slice(task.first, task.last))
        answers = _answers(task, forest, nodes)
    for name, values in answers.items():
        array = writable_array(task.target, name)
        array[task.first : task.last] = values.astype(array.dtype)
    return task.last - task.first


def _answers_of_pairs(task: ScoreTask, forest: Forest) -> dict[str, np.ndarray]:
    """A task's answers of a forest over pairs."""
    question, rows = task.question, slice(task.first, task.last)
    if question.answer == "pairs":
        numbers, place = np.unique(_read(str(question.pairs), rows), return_inverse=True)
        pairs = PointPairs.of(columns_of(forest), _points(forest, _read(question.queries, numbers)), place)
        return {"distance": pair_scores.pair_distance(forest, pairs)}
    points = _points(forest, _read(question.queries, rows))
    if question.answer == "distance":
        others = _points(forest, _read(question.reference, slice(None))) if question.reference else forest.points
        return {"distance": pair_scores.distance(forest, points, others)}
    own = np.arange(task.first, task.last) if question.without_self else None
    distances, indices = pair_scores.kneighbors(forest, points, question.n_neighbors, own)
    return {"indices": indices, "distance": distances}


def _nodes(task: ScoreTask, forest: Forest, name: str, rows: slice | np.ndarray) -> Rows:
    """The nodes of some queries, or rows of the reference, shape (n_trees, n)."""
    if task.routed is None:
        return scoring.apply(forest, forest.source(_read(getattr(task.question, name), rows)))
    return np.ascontiguousarray(_read(f"{task.routed}/{name}", rows).T)


def _read(address: str, rows: slice | np.ndarray) -> np.ndarray:
    array = open_array(address)
    return np.asarray(array[rows] if isinstance(rows, slice) else array.oindex[rows])


def _pair_distances(task: ScoreTask, forest: Forest) -> np.ndarray:
    pairs = _read(str(task.question.pairs), slice(task.first, task.last))
    rows, place = np.unique(pairs, return_inverse=True)
    nodes = _nodes(task, forest, "queries", rows)
    place = place.reshape(pairs.shape)
    return scoring.pair_distance(forest, nodes[:, place[:, 0]], nodes[:, place[:, 1]])


def _answers(task: ScoreTask, forest: Forest, nodes: Rows) -> dict[str, np.ndarray]:
    question = task.question
    if question.answer in TO_ROWS:
        return {question.answer: _to_rows(task, forest, nodes)}
    if question.answer == "neighbors":
        return _neighbors(task, forest, nodes)
    if question.answer == "apply":
        return {"nodes": nodes.T}
    outputs = scoring.predict(forest, nodes)
    if question.answer == "proba":
        return {"proba": outputs}
    return {"prediction": outputs if isinstance(forest.leaf_table, Means) else np.argmax(outputs, axis=1)}


def _to_rows(task: ScoreTask, forest: Forest, nodes: Rows) -> np.ndarray:
    """Distances or proximities to the training rows, or to the reference rows, block of them by block."""
    if task.question.answer == "distance" and not scoring.says_shared(forest):
        return _to_blocks(task, forest, lambda others: scoring.distance(forest, nodes, others))
    if task.question.reference is None:
        shares = proximity(nodes, _training_index(task))
    else:
        shares = _to_blocks(task, forest, lambda others: proximity(nodes, others))
    return shares if task.question.answer == "proximity" else 1.0 - shares


def _to_blocks(task: ScoreTask, forest: Forest, measure: Callable[[Rows], np.ndarray]) -> np.ndarray:
    """What is measured from the task's rows to the nodes of the others, side by side."""
    if task.question.reference is None:
        return measure(forest.training_nodes)
    n = int(open_array(task.question.reference).shape[0])
    blocks = (slice(first, min(first + (1 << 14), n)) for first in range(0, n, 1 << 14))
    return np.concatenate([measure(_nodes(task, forest, "reference", rows)) for rows in blocks], axis=1)


def _neighbors(task: ScoreTask, forest: Forest, nodes: Rows) -> dict[str, np.ndarray]:
    """The nearest training rows and their distances."""
    question = task.question
    n_found = question.n_neighbors + question.without_self
    if scoring.says_shared(forest):
        shares, indices = nearest(nodes, _training_index(task), n_found, False)
        distances = 1.0 - shares
    else:
        distances, indices = scoring.kneighbors(forest, nodes, forest.training_nodes, n_found, False)
    if question.without_self:
        kept = indices != np.arange(task.first, task.last)[:, None]
        kept[kept.all(axis=1), -1] = False  # a row that is not among its own nearest
        shape = len(indices), question.n_neighbors
        distances, indices = distances[kept].reshape(shape), indices[kept].reshape(shape)
    return {"indices": indices, "distance": distances}


_INDEXING = Lock()
"""Held while an index is built, so that the threads of a process build one."""


def _training_index(task: ScoreTask) -> LeafIndex:
    """The training rows of the task's forest by their leaves, built once in a process."""
    with _INDEXING:
        return _indexed(task.question.forest, task.digest)


@lru_cache(maxsize=1)
def _indexed(address: str, digest: str) -> LeafIndex:
    return LeafIndex.of(_opened(address, digest).training_nodes)
