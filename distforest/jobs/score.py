"""Batch scoring: rows or pairs from Zarr through a sealed forest, answers as chunks to Zarr.

Where a function is asked for similarities, all objects are routed first, in one place, into arrays of nodes that all
tasks read, so that no pair is paid for by two of them.
"""

from __future__ import annotations

import math
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache, partial, reduce
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import numpy as np

from distforest.errors import warn_caller
from distforest.forest.nearest_votes import nearest_members
from distforest.forest.node_table import route
from distforest.forest.pairs.pair_scores import is_over_pairs
from distforest.jobs.answers import ANSWERS
from distforest.jobs.cluster import Clock, Cluster, Stream, Work
from distforest.jobs.outline import Limit, Outline, outline, room_for_neighbors
from distforest.jobs.own_distances import own_distances
from distforest.jobs.shared_folders import check_written
from distforest.jobs.task_data import VOTERS, TaskData, opened_forest
from distforest.sources.arrays import ENCODING, create_array, open_array, row_blocks, writable_array, write_array
from distforest.sources.files.ids import IDS, TEXT_ENCODING
from distforest.sources.lazy.lazy_source import Objects, joined
from distforest.sources.staging import read_objects
from distforest.stores.building import NODES, Building, mark_of, new_group
from distforest.stores.claims import owned
from distforest.stores.folder import Folder
from distforest.stores.groups import check_name, seal_group
from distforest.stores.outputs import ANSWERS_KIND, GROUP, check_apart, check_new, job_folder
from distforest.stores.room import explaining_full_disk

if TYPE_CHECKING:
    from collections.abc import Iterator

    from distforest.forest.forest import Forest
    from distforest.forest.leaf_index import LeafIndex
    from distforest.jobs.cluster import Watch
    from distforest.jobs.question import Question
    from distforest.jobs.task_data import OwnDistances
    from distforest.sources.guarded import ZarrArray
    from distforest.sources.lazy.lazy_source import LazySource
    from distforest.stores.claims import Claim


ROUTED_ROWS = 1 << 12
"""Objects that are routed together, and rows in a chunk of their nodes."""

ROW_STARTS = "indptr"
"""The array of a sparse matrix that says where the entries of each row begin."""

ANSWERS_PER_TASK = 1 << 22
"""Numbers in the answer of a task, about."""

QUERIES_PER_TASK, QUERY_BYTES_PER_TASK = 1 << 16, 1 << 28
"""The most queries of a task, and their bytes as trees read them; more of both if a chunk holds more."""
DIGEST_LENGTH = 64
"""Length of the digest of a forest in an outline, which that of decisions may follow."""


@dataclass(frozen=True)
class ScoreTask:
    """Answers first to last - 1 of a question, which the task writes into the arrays of ``target``.

    ``routed`` is the group with the nodes of all objects, if similarities come from a function; ``done`` the folder
    that records which tasks are done; ``run`` tells this scoring from all others; ``part_rows`` is how many rows of the
    leaf index are made at once, None for all; ``own`` what is known of the ground truth, if anything is asked of it;
    ``claim`` is that of the job on its output.
    """

    question: Question
    digest: str
    target: str
    first: int
    last: int
    routed: str | None = None
    done: Folder | None = None
    run: str = ""
    part_rows: int | None = None
    own: OwnDistances | None = None
    claim: Claim | None = None

    @property
    def name(self) -> str:
        """The name of the file that marks the task as done."""
        return f"rows-{self.first}-{self.last}"

    @property
    def data(self) -> TaskData:
        """The data of the answers."""
        of_all = self.question, self.digest, slice(self.first, self.last), self.routed
        return TaskData(*of_all, self.run, self.part_rows, self.own)

    def __str__(self) -> str:
        return f"rows {self.first} to {self.last - 1}"


@dataclass(frozen=True)
class Scored:
    """The address of the answers, the forest's digest, the shapes of the arrays, and by which sides, if asked."""

    address: str
    digest: str
    shapes: dict[str, tuple[int, ...]]
    own: OwnDistances | None = None


def score(
    question: Question,
    output: str,
    cluster: Cluster,
    overwrite: bool = False,
    watch: Watch | None = None,
    folder: Folder | None = None,
    claim: Claim | None = None,
) -> Scored:
    """Answer a question into a new Zarr group, in parallel, in bounded memory.

    Parameters
    ----------
    question
        What is asked.
    output
        Path or URL of the new group. In a local file system it appears only when it is whole; at a URL a new one is
        written in place, and its attribute ``distforest`` says at last that it is ``complete``.
    cluster
        Where the tasks run.
    overwrite
        Whether answers at ``output`` may be replaced; nothing else ever is.
    watch
        Told of the progress.
    folder
        A job's own folder: what is answered is kept there if the job is interrupted, and the next run goes on.
    claim
        That of the job on its output, if it has made one.

    Raises
    ------
    ConflictError
        Another job owns the output.
    InputError
        The question does not fit the forest or its queries, or ``output`` has the name of a file, is, holds or lies in
        something that is read, or is something else than answers; nothing is written.
    ArtifactError
        The forest is damaged.
    MemoryLimitError
        A worker cannot hold the forest, or cannot find neighbours with what memory it has; nothing is written.
    JobError
        Workers do not see the folder of ``output`` as this process does, so that answers would be lost.
    """
    check_name(output)
    check_apart(output, question.addresses())
    with owned(output, "another scoring", claim) as owner, ExitStack() as stack:
        cluster = cluster.of_job(owner, "score")
        limit = Limit(cluster.memory_limit, cluster.threads)
        if question.callback is None:  # else the forest is needed here, to ask
            [found] = cluster.each(partial(outline, limit=limit), [question], Work("survey", first=True))
        else:
            found = outline(question)
        for warning in found.warnings:
            warn_caller(warning)
        part_rows, step = None, _step(found)
        if found.sizes is not None:
            room = room_for_neighbors(found.sizes, step, limit)
            part_rows, step = room.part_rows, max(1, room.task_rows // step) * step  # no two tasks write one chunk
        own = stack.enter_context(own_distances(question, found.digest, output, folder, cluster))
        own_tag = "" if own is None else f"-{own.sha256[:16]}"
        tag = f"{found.digest[:16]}{found.digest[DIGEST_LENGTH:][:16]}{own_tag}"
        done, here = (folder.within(f"done-{tag}"), folder.within(f"answers-{tag}.zarr")) if folder else (None, None)
        of_sides = {} if own is None else {"sides": own.sides, "truth": own.sha256}
        sealed = {"forest": found.digest, "answer": question.answer, **of_sides, "complete": True}
        building = Building.from_output(output, ANSWERS_KIND, {**sealed, "complete": False}, here)
        mark, names = mark_of(output, ANSWERS_KIND), done.names() if done else []
        is_published = building.is_in_place or not building.folder.exists()
        if names and mark == sealed and is_published:  # by an earlier run, which ended before it could say so
            return _scored(output, found, own)
        if not (building.is_in_place and mark == building.mark):
            check_new(output, ANSWERS_KIND, overwrite)
        begun = set(names) if building.folder.exists(GROUP) else set()
        with routed_objects(question, found, output, cluster, watch) as routed:
            of_all = question, found.digest, building.address
            task = ScoreTask(*of_all, 0, 0, routed, done, uuid4().hex, part_rows, own, owner)
            _answer_all(task, found, step, begun, building, cluster, watch)
        owner.take()  # another job may have taken the output over, if this one was frozen for long
        _publish(building, found, sealed, output, overwrite)
    return _scored(output, found, own)


def _answer_all(
    task: ScoreTask,
    found: Outline,
    step: int,
    begun: set[str],
    building: Building,
    cluster: Cluster,
    watch: Watch | None,
) -> None:
    """Run tasks like ``task`` of ``step`` answers each, except those whose names an earlier run has marked as done."""
    ends = ((first, min(first + step, found.n_answers)) for first in range(0, found.n_answers, step))
    tasks = [replace(task, first=first, last=last) for first, last in ends]
    missing = [own for own in tasks if own.name not in begun]
    if len(missing) == len(tasks):
        if task.done:
            task.done.remove()  # marks of tasks of another size
        _prepare(building, found)
    cluster.each(answer_rows, missing, Work("score", weight=lambda own: own.last - own.first, watch=watch))


def _publish(building: Building, found: Outline, sealed: dict[str, Any], output: str, overwrite: bool) -> None:
    """Seal the answers, and put them in their place; raises JobError if chunks that were written are missing."""
    address, encoding = building.address, dict[str, Any]()
    if found.columns is not None:  # by which AnnData, and distforest, know a sparse matrix
        shape = [found.n_answers, found.columns]
        encoding = {ENCODING: "csr_matrix", "encoding-version": "0.1.0", "shape": shape}
    check_written(address, {name: open_array(f"{address}/{name}").nchunks for name in found.arrays})
    seal_group(address, {**encoding, "distforest": sealed})
    if not building.is_in_place:
        check_new(output, ANSWERS_KIND, overwrite)
    building.publish()


def _scored(output: str, found: Outline, own: OwnDistances | None) -> Scored:
    """What is reported of the answers at the end."""
    shapes = {name: _shape(found, tail) for name, (_, tail) in found.arrays.items()}
    if found.columns is not None:
        shapes[ROW_STARTS] = (found.n_answers + 1,)
    ids = {} if found.ids is None else {IDS: tuple(open_array(found.ids).shape)}
    return Scored(output, found.digest[:DIGEST_LENGTH], shapes | ids, own)


def _shape(found: Outline, tail: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of an array of answers; the entries of a sparse matrix lie row after row."""
    if found.columns is not None:
        return (found.n_answers * math.prod(tail),)
    return (found.n_answers, *tail)


def _step(found: Outline) -> int:
    """Rows of a task, and of a chunk, so that no two tasks write one chunk, and few read one."""
    widest = max(int(np.prod(tail, dtype=np.int64)) for _, tail in found.arrays.values())
    most = QUERY_BYTES_PER_TASK // max(1, found.query_bytes)
    step = max(1, min(ANSWERS_PER_TASK // max(1, widest), QUERIES_PER_TASK, most))
    if found.chunk_rows > step:  # a chunk of queries is decoded by one task, unless its answers are many
        return found.chunk_rows if found.chunk_rows * widest <= ANSWERS_PER_TASK else step
    return step // found.chunk_rows * found.chunk_rows


def _prepare(building: Building, found: Outline) -> None:
    building.begin()
    for name, (dtype, tail) in found.arrays.items():
        of_row = 1 if found.columns is None else math.prod(tail)
        step = _step(found) * of_row
        array = create_array(building.address, name, _shape(found, tail), np.dtype(dtype), step)
        if found.classes is not None:
            array.attrs["classes"] = list(found.classes)
    if found.columns is not None:  # all rows have as many entries
        [width] = {math.prod(tail) for _, tail in found.arrays.values()}
        n, step = found.n_answers + 1, 1 << 20
        starts = (np.arange(first, min(first + step, n)) * width for first in range(0, n, step))
        write_array(building.address, ROW_STARTS, (n,), np.dtype(np.int64), starts)
    if found.ids is not None:
        ids = open_array(found.ids)
        attributes = {name: ids.attrs[name] for name in ("column", TEXT_ENCODING) if name in ids.attrs}
        blocks = (block for _, block in row_blocks(ids))
        write_array(building.address, IDS, tuple(ids.shape), np.dtype(ids.dtype), blocks, attributes)


@lru_cache(maxsize=4)
def _writable_once(run: str, target: str, name: str) -> ZarrArray:  # noqa: ARG001  (of the key)
    """An array into which the tasks of a run write."""
    return writable_array(target, name)


def answer_rows(task: ScoreTask) -> None:
    """Compute and write a task's answers; doing it twice changes nothing."""
    row, data = ANSWERS[task.question.answer], task.data
    work = row.over_pairs if is_over_pairs(data.forest) else row.work
    assert work is not None  # noqa: S101  (held by outline)
    for (name, _), values in zip(row.arrays, work(data), strict=True):
        if task.claim:
            task.claim.check_held()
        array = _writable_once(task.run, task.target, name)
        with explaining_full_disk(f"{task.target}/{name}", values.size * array.dtype.itemsize):
            if row.is_graph:
                width = values.shape[1]
                array[task.first * width : task.last * width] = values.astype(array.dtype).reshape(-1)
            else:
                array[data.span] = values.astype(array.dtype)
    if task.done:
        task.done.write(task.name, b"")


# --- functions -----------------------------------------------------------------------------------------------


@contextmanager
def routed_objects(
    question: Question, found: Outline, output: str, cluster: Cluster, watch: Watch | None
) -> Iterator[str | None]:
    """Route what a question is about into a group in its output's job folder, for as long as tasks read it.

    None where no function is asked: each task then routes its own rows.
    """
    if question.callback is None:
        yield None
        return
    # This imports the growth of trees, which takes half a second, and no other question needs it.
    from distforest.jobs.lockstep import BoundSimilarity, check_origin, warn_of_change  # noqa: PLC0415

    about, forest = _about(question), opened_forest(question.forest, found.digest)
    training = read_objects(question.training) if question.training else np.arange(forest.n_columns)
    objects = Objects.from_columns(training, reduce(joined, (objects[numbers] for _, objects, numbers in about)))
    lazy = question.callback.lazy()
    check_origin(forest, lazy, objects)
    warn_of_change(forest, lazy)
    code = question.callback.code(lazy)
    supplied = BoundSimilarity(lazy, training, cluster if isinstance(cluster, Stream) else None, code)
    folder = Folder(job_folder(output)).within(NODES)
    try:
        new_group(folder.address, {})  # before anything is paid for: it can be written
        votes = forest.nearest_votes and ANSWERS[question.answer].is_predicted
        with supplied.source(objects, "scoring", None) as source:
            _route(forest, source, about, folder.address, forest.training_index if votes else None, watch)
        yield folder.address
    finally:
        folder.remove()


def _about(question: Question) -> list[tuple[str, np.ndarray, np.ndarray]]:
    """The objects of the queries and of the reference, by name, each with the row numbers of those that are routed."""
    queries, row = read_objects(question.queries), ANSWERS[question.answer]
    numbers = np.arange(len(queries))
    if row.of_pairs:
        numbers = np.unique(np.asarray(open_array(str(question.pairs))[...]))
    about = [("queries", queries, numbers)]
    if "reference" in row.takes and question.reference:
        reference = read_objects(question.reference)
        about.append(("reference", reference, np.arange(len(reference))))
    return about


def _route(
    forest: Forest,
    source: LazySource,
    about: list[tuple[str, np.ndarray, np.ndarray]],
    target: str,
    index: LeafIndex | None,
    watch: Watch | None,
) -> None:
    """Write the nodes of each part, shape (n, n_trees), block by block; the source has the routed objects in order.

    With the ``index`` of the training rows there is one part, and the training rows that vote for it are written, too.
    """
    blocks = []
    for name, objects, numbers in about:
        blocks += [(name, numbers[first : first + ROUTED_ROWS]) for first in range(0, len(numbers), ROUTED_ROWS)]
        for array in (name, VOTERS) if index is not None else (name,):
            create_array(target, array, (len(objects), forest.n_trees), np.dtype(np.int32), ROUTED_ROWS)
    clock, first = Clock(Work("route", weight=lambda block: len(block[1]), watch=watch), blocks), 0
    for name, numbers in blocks:
        rows = np.arange(first, first + len(numbers), dtype=np.int32)
        nodes = route(forest.table, source, rows)
        writable_array(target, name).set_orthogonal_selection((numbers, slice(None)), nodes.T)
        if index is not None:
            voters = nearest_members(nodes, index, source, rows)
            writable_array(target, VOTERS).set_orthogonal_selection((numbers, slice(None)), voters.T)
        first += len(rows)
        clock.tick((name, numbers), None)
