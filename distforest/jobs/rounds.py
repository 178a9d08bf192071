"""Rounds: trees whose rows lie in parts grow level by level, by tasks that answer each other; see `growth.parts`.

::

    part 0 -> drawn -> rows -> sums +                       -> rows -> packet +
    part 1 -> drawn -> rows -> sums + -> joined -> decision -> rows -> packet + -> pack -> counts -> decision ...
    part 2 -> drawn -> rows -> sums +                       -> rows -> packet +

    all decisions, all packs -> table -> each part walks -> one task commits the tree as a shard

The driver sees decisions alone. All else lies on the workers, as answers of tasks that are pure functions of others:
what is lost with a worker is computed again from what led to it, by whoever runs the cluster.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from distforest.errors import JobError
from distforest.growth.level_decisions import Decision, LevelOfTree, decide_level, table_of_tree
from distforest.growth.methods import GROWTH, over_rows
from distforest.growth.packs import answer_of_pack, descend_pack, finish_packs, written_of_pack
from distforest.growth.parts import (
    PartOfRows,
    draw_part,
    move_rows,
    packet_of,
    rows_of_root,
    sums_of_part,
    walk_part,
)
from distforest.growth.problem import on_features
from distforest.growth.rowless import RowlessGrowth, join_sums
from distforest.jobs.cluster import Clock, Linking, Work
from distforest.jobs.shards import Receipt, commit, read_receipt, shard_name
from distforest.jobs.stop import Stop
from distforest.jobs.versions import check_own_growth
from distforest.sources.parted import codes_of_part, rows_of_part
from distforest.sources.staging import Staged

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from distforest.forest.table import NodeTable
    from distforest.growth.parts import OftenDrawn, Walked
    from distforest.jobs.cluster import Cluster, Course, Handle, TaskLinks
    from distforest.jobs.inputs import Inputs
    from distforest.sources.parted import StagedParts
    from distforest.stores.folder import Folder

JOINED = 8
"""Answers that a task adds up at most."""


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
    """Grow trees of features that lie in parts, and commit each as a shard; returns their receipts.

    Parameters
    ----------
    inputs
        With parts.
    trees
        Numbers of the trees.
    shards
        Where they are committed.
    cluster, work
        Where tasks run, and how.
    at_once
        Trees that grow at once.
    stop
        The folder of the stop sign.

    Raises
    ------
    InputError
        The features have changed since they were read.
    JobError
        The cluster runs no linked tasks, or a task failed for good.
    """
    if not trees:
        return []
    receipts, clock = list[Receipt](), Clock(work, [Receipt(tree, tree, "", 0.0) for tree in trees])
    with check_linking(cluster).linked(work) as links:
        rowless = links.call(rowless_growth, inputs)
        parts = [links.call(open_part, inputs, number, near=number) for number in range(_parts_of(inputs).count)]
        courses = (_tree(links, PartedTree(inputs, shards, tree, stop), rowless, parts) for tree in trees)
        for receipt in links.follow(courses, at_once):
            receipts.append(receipt)
            clock.tick(receipt, receipt)
    return receipts


def check_linking(cluster: Cluster) -> Linking:
    """The same cluster, if it runs tasks that are given the answers of others; raises JobError if not."""
    if isinstance(cluster, Linking):
        return cluster
    raise JobError("rows in parts need a cluster whose tasks are given the answers of others, such as a Dask cluster")


def _parts_of(inputs: Inputs) -> StagedParts:
    assert inputs.parts is not None  # noqa: S101  (callers look before)
    return inputs.parts


def _tree(links: TaskLinks, task: PartedTree, rowless: Handle, parts: Sequence[Handle]) -> Course[Receipt]:
    """The course of one tree."""
    began, call, rows_of_pack = time.perf_counter(), _checked(links), _parts_of(task.inputs).rows_of_pack
    drawn = [call(draw_part, part, rowless, task.tree) for part in parts]
    rows = [call(rows_of_root, part, of_part) for part, of_part in zip(parts, drawn, strict=True)]
    packs: dict[int, Handle] = {}
    decisions: list[Handle] = []
    level = LevelOfTree.root(task.tree, len(parts))
    while level.nodes:
        of_packs = [call(answer_of_pack, packs[pack]) for pack in level.packs]
        answers: list[list[Handle]] = []
        asked = level.large
        while True:
            if asked:
                of_parts = [
                    call(sums_of_part, part, rowless, task.tree, own, asked, len(answers))
                    for part, own in zip(parts, rows, strict=True)
                ]
                answers.append(_joined(call, of_parts))
            decided = call(decide_level, rowless, level, answers, of_packs, rows_of_pack)
            decision: Decision = yield decided
            if not decision.again:
                break
            asked = decision.again
        decisions.append(decided)
        if level.large:
            rows = [call(move_rows, part, own, decided) for part, own in zip(parts, rows, strict=True)]
        level = decision.level
        if decision.is_last(rows_of_pack):
            packs[len(parts)] = call(finish_packs, [packs.pop(pack) for pack in level.packs], rowless, decided)
            break
        for pack in level.packs:
            packets = [
                call(packet_of, part, own, pack)
                for part, own in zip(parts, rows, strict=True)
                if pack in (decision.begun or {})
            ]
            packs[pack] = call(
                descend_pack, packs.get(pack), rowless, decided, pack, packets, near=pack if packets else None
            )
    written = [call(written_of_pack, packs[pack]) for pack in sorted(packs)]
    table = call(table_of_tree, decisions, written)
    rows, decisions, packs = [], [], {}
    walked = [call(walk_part, part, rowless, table, of_part) for part, of_part in zip(parts, drawn, strict=True)]
    receipt: Receipt = yield call(commit_tree, task, rowless, table, drawn, walked)
    return replace(receipt, seconds=time.perf_counter() - began)


def _checked(links: TaskLinks) -> Callable[..., Handle]:
    """Calls of functions that refuse to run where the growth has another version."""

    def call(function: Callable[..., object], *arguments: object, near: int | None = None) -> Handle:
        return links.call(of_same_growth, GROWTH, function, *arguments, near=near)

    return call


def of_same_growth(growth: int, function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function, if this process has this version of the growth; raises JobError if not."""
    check_own_growth(growth)
    return function(*arguments)


def _joined(call: Callable[..., Handle], answers: list[Handle]) -> list[Handle]:
    """The sums of all parts, added up in a tree of tasks until they are few."""
    while len(answers) > JOINED:
        groups = [answers[first : first + JOINED] for first in range(0, len(answers), JOINED)]
        answers = [call(join_sums, group) if len(group) > 1 else group[0] for group in groups]
    return answers


# --- tasks that read and write --------------------------------------------------------------------------------


def rowless_growth(inputs: Inputs) -> RowlessGrowth:
    """All of a job's growth but its rows; opens the whole truth on the host of the task."""
    return RowlessGrowth.of(over_rows(inputs.problem()))


def open_part(inputs: Inputs, number: int) -> PartOfRows:
    """Read the rows of a part from where they are stored; raises InputError if they have changed."""
    check_own_growth(inputs.growth)
    parts = _parts_of(inputs)
    assert isinstance(inputs.matrix, Staged)  # noqa: S101  (features in parts are dense)
    bins = parts.opened_bins(inputs.matrix.shape[1], inputs.scratch)
    codes = codes_of_part(inputs.matrix, parts, number, bins)
    weights = None if inputs.sample_weight is None else rows_of_part(inputs.sample_weight, parts, number)
    return PartOfRows(parts.n_present[number], codes, rows_of_part(parts.judged, parts, number), weights)


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
        arrays["class_counts"] = np.stack(counts).sum(axis=0, dtype=np.int32)
    else:
        arrays |= over_rows(task.inputs.problem()).leaf_arrays(table, leaves, of_rows)
    return commit(task.folder, arrays, Receipt(task.tree, task.tree, name, 0.0))
