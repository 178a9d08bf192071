"""Objects that a function compares: they are routed first, in one place, into arrays of nodes that all tasks read."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

import numpy as np

from distforest.forest.nearest_votes import nearest_members
from distforest.forest.table import route
from distforest.jobs import answers
from distforest.jobs.asked import VOTERS, opened_forest
from distforest.jobs.cluster import Clock, Cluster, Stream, Work
from distforest.sources.arrays import create_array, open_array, writable_array
from distforest.sources.lazy.source import Objects, joined
from distforest.sources.staging import read_objects
from distforest.stores.building import NODES, new_group
from distforest.stores.folder import Folder
from distforest.stores.outputs import job_folder

if TYPE_CHECKING:
    from collections.abc import Iterator

    from distforest.forest.forest import Forest
    from distforest.forest.leaf_index import LeafIndex
    from distforest.jobs.cluster import Watch
    from distforest.jobs.outline import Outline
    from distforest.jobs.question import Question
    from distforest.sources.lazy.source import LazySource

ROUTED_ROWS = 1 << 12
"""Objects that are routed together, and rows in a chunk of their nodes."""


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
    objects = Objects.of(training, reduce(joined, (part.objects[part.numbers] for part in about)))
    lazy = question.callback.lazy()
    check_origin(forest, lazy, objects)
    warn_of_change(forest, lazy)
    code = question.callback.code(lazy)
    supplied = BoundSimilarity(lazy, training, cluster if isinstance(cluster, Stream) else None, code)
    folder = Folder(job_folder(output)).within(NODES)
    try:
        new_group(folder.address, {})  # before anything is paid for: it can be written
        votes = forest.nearest_votes and answers.ANSWERS[question.answer].is_predicted
        with supplied.source(objects, "scoring", None) as source:
            _route(forest, source, about, folder.address, forest.training_index if votes else None, watch)
        yield folder.address
    finally:
        folder.remove()


@dataclass(frozen=True, eq=False)
class _About:
    """Objects of a question: all at one address, and the row numbers of those that are routed."""

    name: str
    objects: np.ndarray
    numbers: np.ndarray


def _about(question: Question) -> list[_About]:
    """The objects that are routed: the queries, or those of them in a pair, and the reference."""
    queries, row = read_objects(question.queries), answers.ANSWERS[question.answer]
    numbers = np.arange(len(queries))
    if row.of_pairs:
        numbers = np.unique(np.asarray(open_array(str(question.pairs))[...]))
    about = [_About("queries", queries, numbers)]
    if "reference" in row.takes and question.reference:
        reference = read_objects(question.reference)
        about.append(_About("reference", reference, np.arange(len(reference))))
    return about


def _route(
    forest: Forest, source: LazySource, about: list[_About], target: str, index: LeafIndex | None, watch: Watch | None
) -> None:
    """Write the nodes of each part, shape (n, n_trees), block by block; the source has the routed objects in order.

    With the ``index`` of the training rows also those of them that vote for the one part that there is then.
    """
    blocks = [
        (part.name, part.numbers[first : first + ROUTED_ROWS])
        for part in about
        for first in range(0, len(part.numbers), ROUTED_ROWS)
    ]
    for part in about:
        for name in (part.name, VOTERS) if index is not None else (part.name,):
            create_array(target, name, (len(part.objects), forest.n_trees), np.dtype(np.int32), ROUTED_ROWS)
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
