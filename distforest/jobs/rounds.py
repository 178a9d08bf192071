"""Rounds: trees whose rows are in parts grow level by level, by tasks that answer each other; see `growth.parts`.

::

    part 0 -> drawn -> rows -> sums +                       -> rows -> packet +
    part 1 -> drawn -> rows -> sums + -> joined -> decision -> rows -> packet + -> pack -> counts -> decision ...
    part 2 -> drawn -> rows -> sums +                       -> rows -> packet +

    all decisions, all packs -> table -> each part walks -> one task commits the tree as a shard

The driver sees only decisions. Everything else stays on the workers, as answers of tasks that are pure functions of
others. The cluster computes what is lost with a worker again from what led to it.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from distforest.growth.methods import GROWTH, over_rows
from distforest.growth.parts import (
    Decision,
    LevelOfTree,
    PartOfRows,
    RowlessGrowth,
    answer_of_pack,
    decide_level,
    descend_pack,
    draw_part,
    finish_packs,
    join_tallies,
    move_rows,
    packet_of,
    rows_of_root,
    table_of_tree,
    tally_part,
    walk_part,
)
from distforest.growth.problem import on_features
from distforest.jobs.cluster import Clock, Work
from distforest.jobs.shards import Receipt, commit, read_receipt, shard_name
from distforest.jobs.stop import Stop
from distforest.jobs.versions import check_own_growth
from distforest.sources.parted import codes_of_part, rows_of_part
from distforest.sources.staging import Staged

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

    from distforest.forest.node_table import NodeTable
    from distforest.growth.parts import OftenDrawn, Walked
    from distforest.jobs.cluster import Cluster, Course, Handle, TaskLinks
    from distforest.jobs.inputs import Inputs
    from distforest.sources.parted import StagedParts
    from distforest.stores.folder import Folder

R = TypeVar("R")

JOINED = 8
"""Largest number of answers that a task adds up."""


@dataclass(frozen=True)
class PartedTree:
    """A tree that is committed into ``folder``; ``stop`` is the folder of the stop sign."""

    inputs: Inputs
    folder: Folder
    tree: int
    stop: str | None = None


def grow_in_parts(
    inputs: Inputs, trees: Sequence[int], shards: Folder, cluster: Cluster, work: Work, at_once: int, stop: str | None
) -> list[Receipt]:
    """Grow trees of features that lie in parts, and commit each as a shard; return their receipts.

    Parameters
    ----------
    inputs
        Inputs with parts.
    trees
        Numbers of the trees.
    shards
        Folder to which the trees are committed.
    cluster, work
        The cluster of the tasks, and their run.
    at_once
        Number of trees that grow at once.
    stop
        The folder of the stop sign.

    Raises
    ------
    InputError
        The features have changed since they were read.
    JobError
        A task failed permanently.
    """
    if not trees:
        return []
    receipts, clock = list[Receipt](), Clock(work, [Receipt(tree, tree, "", 0.0) for tree in trees])
    with cluster.linked(work) as links:
        rowless = links.call(rowless_growth, inputs)
        parts = [links.call(open_part, inputs, number, near=number) for number in range(_parts_of(inputs).count)]
        tasks = [PartedTree(inputs, shards, tree, stop) for tree in trees]
        groups = [tasks[first : first + at_once] for first in range(0, len(tasks), at_once)]
        for sealed in links.follow((_trees(links, group, rowless, parts) for group in groups), 1):
            receipts += sealed
            for receipt in sealed:
                clock.tick(receipt, receipt)
    return receipts


def _parts_of(inputs: Inputs) -> StagedParts:
    assert inputs.parts is not None  # noqa: S101  (callers check this)
    return inputs.parts


def _trees(
    links: TaskLinks, tasks: Sequence[PartedTree], rowless: Handle, parts: Sequence[Handle]
) -> Course[list[Receipt]]:
    """Run the course of some trees, which grow level by level in step; a finished tree waits for the others."""
    calls = _SharedCalls(links)
    courses = [_tree(calls, task, rowless, parts) for task in tasks]
    receipts: list[Receipt] = []
    ready: list[tuple[Course[Receipt], Any]] = [(course, None) for course in courses]
    waiting: list[tuple[Course[Receipt], _OwnAnswer]] = []
    while ready or waiting:
        for course, answer in ready:
            try:
                waiting.append((course, course.send(answer)))
            except StopIteration as end:
                receipts.append(end.value)
        ready = []
        calls.make()
        if waiting:
            asked = next((own.call for _, own in waiting if own.call.function is decide_level), waiting[0][1].call)
            answers = yield asked.handle
            ready = [(course, answers[own.place]) for course, own in waiting if own.call is asked]
            waiting = [(course, own) for course, own in waiting if own.call is not asked]
    return receipts


def _tree(
    calls: _SharedCalls, task: PartedTree, rowless: Handle, parts: Sequence[Handle]
) -> Generator[_OwnAnswer, Any, Receipt]:
    """Run the course of one tree."""
    began, rows_of_pack = time.perf_counter(), _parts_of(task.inputs).rows_of_pack
    drawn = [calls.alone(draw_part, part, rowless, task.tree, near=number) for number, part in enumerate(parts)]
    rows = [
        calls.alone(rows_of_root, part, of_part, near=number)
        for number, (part, of_part) in enumerate(zip(parts, drawn, strict=True))
    ]
    packs: dict[int, _OwnAnswer] = {}
    decisions: list[_OwnAnswer] = []
    level = LevelOfTree.root(task.tree, len(parts))
    while level.runs:
        of_packs = [calls.shared(pack, answer_of_pack, packs[pack], near=pack) for pack in level.packs]
        answers: list[list[_OwnAnswer]] = []
        asked = level.large
        while True:
            if asked:
                of_parts = [
                    calls.shared(number, tally_part, part, rowless, task.tree, own, asked, len(answers), near=number)
                    for number, (part, own) in enumerate(zip(parts, rows, strict=True))
                ]
                answers.append(_joined(calls, of_parts))
            decided = calls.shared(0, decide_level, rowless, level, answers, of_packs, rows_of_pack)
            decision: Decision = yield decided
            if not decision.again:
                break
            asked = decision.again
        decisions.append(decided)
        if level.large:
            rows = [
                calls.shared(number, move_rows, part, own, decided, near=number)
                for number, (part, own) in enumerate(zip(parts, rows, strict=True))
            ]
        level = decision.level
        if decision.is_last(rows_of_pack):
            left = [calls.alone(_itself, packs.pop(pack)) for pack in level.packs]
            packs[len(parts)] = calls.alone(finish_packs, left, rowless, decided)
            break
        for pack in level.packs:
            packets = [
                calls.shared((pack, number), packet_of, part, own, pack, near=number)
                for number, (part, own) in enumerate(zip(parts, rows, strict=True))
                if pack in level.begun
            ]
            given = packs.get(pack), rowless, decided, pack, packets
            packs[pack] = calls.shared(pack, descend_pack, *given, near=pack)
    table = calls.alone(table_of_tree, decisions, list(packs.values()))
    rows, decisions, packs = [], [], {}
    walked = [
        calls.alone(walk_part, part, rowless, table, of_part, near=number)
        for number, (part, of_part) in enumerate(zip(parts, drawn, strict=True))
    ]
    receipt: Receipt = yield calls.alone(commit_tree, task, rowless, table, drawn, walked)
    return replace(receipt, seconds=time.perf_counter() - began)


def _joined(calls: _SharedCalls, answers: list[_OwnAnswer]) -> list[_OwnAnswer]:
    """Return the tallies of all parts, added up in a tree of tasks until few are left."""
    while len(answers) > JOINED:
        groups = [answers[first : first + JOINED] for first in range(0, len(answers), JOINED)]
        lanes = [(len(groups), number) for number in range(len(groups))]
        answers = [
            calls.shared(lane, join_tallies, group) if len(group) > 1 else group[0]
            for lane, group in zip(lanes, groups, strict=True)
        ]
    return answers


# --- tasks that several trees share -----------------------------------------------------------------------------


class _SharedCall:
    """A call of a function for some trees, with the arguments for each of them."""

    def __init__(self, function: Callable[..., object]) -> None:
        self.function = function
        self.arguments: list[list[object]] = []
        self.near: int | None = None
        self.handle: Handle = None


class _OwnAnswer(NamedTuple):
    """The answer of a call for one of its trees."""

    call: _SharedCall
    place: int


class _SharedCalls:
    """Calls for several trees that grow in step: those of one function in one lane form a single task.

    A task costs the scheduler and a worker the same, however many trees it is for. A lane is the work at one part, or
    of one pack.
    """

    def __init__(self, links: TaskLinks) -> None:
        self._call = _checked(links)
        self._open: dict[object, _SharedCall] = {}

    def shared(
        self, lane: object, function: Callable[..., object], *arguments: object, near: int | None = None
    ) -> _OwnAnswer:
        """Call a function for a tree, in one task with the other trees that request it before the calls are made."""
        call = self._open.setdefault((function, lane), _SharedCall(function))
        call.arguments.append(list(arguments))
        call.near = call.near if near is None else near
        return _OwnAnswer(call, len(call.arguments) - 1)

    def alone(self, function: Callable[..., object], *arguments: object, near: int | None = None) -> _OwnAnswer:
        """Call a function for a tree in a separate task."""
        return self.shared(object(), function, *arguments, near=near)

    def make(self) -> None:
        """Make all calls."""
        for call in self._open.values():
            self._make(call)
        self._open = {}

    def _make(self, call: _SharedCall) -> Handle:
        """Make a call, after those whose answers it needs; return its handle."""
        if call.handle is None:
            arguments, call.arguments = call.arguments, []
            given = [self._given(own) for own in arguments]
            call.handle = self._call(call.function, [_places(own) for own in arguments], given, near=call.near)
        return call.handle

    def _given(self, argument: object) -> object:
        if isinstance(argument, _OwnAnswer):
            return self._make(argument.call)
        return [self._given(own) for own in argument] if isinstance(argument, list) else argument


PlacesOfOwn = int | None | list["PlacesOfOwn"]
"""Position of an argument among the answers of a task; None if it is an answer itself. A list has one per entry."""


def _places(argument: object) -> PlacesOfOwn:
    if isinstance(argument, _OwnAnswer):
        return argument.place
    return [_places(own) for own in argument] if isinstance(argument, list) else None


def _picked(argument: Any, places: PlacesOfOwn) -> Any:
    """Return an argument in which a tree's own answer replaces the answers of all trees."""
    if isinstance(places, list):
        return [_picked(own, place) for own, place in zip(argument, places, strict=True)]
    return argument if places is None else argument[places]


def _checked(links: TaskLinks) -> Callable[..., Handle]:
    """Return a caller of functions that refuse to run where the growth has another version."""

    def call(function: Callable[..., object], *arguments: object, near: int | None = None) -> Handle:
        return links.call(of_same_growth, GROWTH, function, *arguments, near=near)

    return call


def of_same_growth(
    growth: int, function: Callable[..., R], places: list[PlacesOfOwn], arguments: list[list[object]]
) -> list[R]:
    """Call a function for each tree; raise JobError if this process has another version of the growth."""
    check_own_growth(growth)
    return [function(*_picked(own, of_tree)) for own, of_tree in zip(arguments, places, strict=True)]


def _itself(answer: R) -> R:
    """Return a tree's own answer, which is then not sent elsewhere with those of other trees."""
    return answer


# --- tasks that read and write --------------------------------------------------------------------------------


def rowless_growth(inputs: Inputs) -> RowlessGrowth:
    """Return a job's growth without its rows; open the whole truth on the host of the task."""
    return RowlessGrowth.from_problem(over_rows(inputs.problem()))


def open_part(inputs: Inputs, number: int) -> PartOfRows:
    """Read the rows of a part from where they are stored; raise InputError if they have changed."""
    check_own_growth(inputs.growth)
    parts = _parts_of(inputs)
    assert isinstance(inputs.matrix, Staged)  # noqa: S101  (features in parts are dense)
    bins = parts.opened_bins(inputs.matrix.shape[1], inputs.n_categories, inputs.scratch)
    codes, categories = codes_of_part(inputs.matrix, parts, number, bins)
    weights = None if inputs.sample_weight is None else rows_of_part(inputs.sample_weight, parts, number)
    return PartOfRows(parts.n_present[number], codes, rows_of_part(parts.judged, parts, number), weights, categories)


def commit_tree(
    task: PartedTree, rowless: RowlessGrowth, table: NodeTable, drawn: Sequence[OftenDrawn], walked: Sequence[Walked]
) -> Receipt:
    """Commit a tree whose rows have found their leaves, unless it was committed before."""
    name = shard_name(task.tree, task.tree)
    if committed := read_receipt(task.folder, name):
        return committed
    Stop(task.stop).check()
    of_rows = np.concatenate(drawn)[None]
    in_bag, leaves = of_rows.astype(np.uint8), np.concatenate([one.leaves for one in walked])[None]
    arrays = {**on_features(table, rowless.source).arrays(), "leaves": leaves, "in_bag": in_bag}
    counts = [one.class_counts for one in walked if one.class_counts is not None]
    if counts:
        arrays["class_counts"] = reduce(np.add, counts)
    else:
        arrays |= over_rows(task.inputs.problem()).leaf_arrays(table, leaves, of_rows)
    return commit(task.folder, arrays, Receipt(task.tree, task.tree, name, 0.0))
