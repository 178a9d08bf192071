"""The plan: which trees go into which task, and whether they fit into memory. Pure: nothing is read or written."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

from distforest.errors import MemoryLimitError
from distforest.forest.forest import SEALED_CHUNK_BYTES
from distforest.growth.cuts.blocks import PACKED_CELLS
from distforest.growth.grower import SLAB_CELLS

if TYPE_CHECKING:
    from collections.abc import Collection

LOCKSTEP_ROWS = 1 << 17
"""Rows of all trees of a task that the plan aims at: enough to hide the cost of Python, few to lose with a worker."""

LOCKSTEP_CELLS = 1 << 28
"""The same for dense distances, whose cost grows with the cells of the matrix."""

MAX_BATCH = 128
"""Most trees of a task."""

TASKS_PER_SLOT = 4
"""Least number of tasks for each thread, so that the last ones end together."""

MERGES_PER_SLOT = 2
"""Least number of merge tasks for each thread; it is smaller, because each of them opens many shards."""

IMPORTED_BYTES = 290 << 20
"""Memory of a worker beside its task: Python, NumPy, Dask, and Numba after compiling (200 MiB with warm caches)."""

MERGE_BYTES = 12 << 20
"""Most bytes that a merge task writes beside a chunk; it holds four times as much while it compresses."""

BYTES_PER_ROW = 300
"""Memory of a growing tree for each of its rows: frontier, levels, node and leaf table, the packed shard."""


@dataclass(frozen=True)
class Size:
    """The size of a forest's growth.

    Attributes
    ----------
    n_rows, n_trees
        Rows and trees of the forest.
    matrix_bytes, truth_bytes
        Sizes of the two staged arrays, which the threads of a worker share.
    width
        Candidates of a node.
    dense
        Whether cuts are judged by a dense matrix of distances.
    """

    n_rows: int
    n_trees: int
    matrix_bytes: int
    truth_bytes: int
    width: int
    dense: bool


@dataclass(frozen=True)
class Plan:
    """The tasks of a job: runs of trees, first to last, and the memory that a worker needs for them."""

    tasks: tuple[tuple[int, int], ...]
    projected_bytes: int


def plan(size: Size, done: Collection[int], slots: int, batch: int | None = None, threads: int = 1) -> Plan:
    """Divide the trees that are not done yet into tasks.

    Parameters
    ----------
    size
        Size of the growth.
    done
        Trees that are committed already; none in a first run.
    slots
        Threads of all workers together.
    batch
        Trees in a task; None: chosen by the size.
    threads
        Threads of one worker.

    Examples
    --------
    >>> size = Size(n_rows=71, n_trees=10, matrix_bytes=5112, truth_bytes=20164, width=4, dense=True)
    >>> plan(size, done={3, 4}, slots=1, batch=4).tasks
    ((0, 2), (5, 8), (9, 9))
    """
    missing = sorted(set(range(size.n_trees)) - set(done))
    shares = [missing] if batch else _shares(missing, _parts(size, len(missing), slots))
    runs = [run for share in shares for run in _runs(share)]
    most = batch or max(map(len, shares), default=1)
    tasks = ((run[first], run[min(first + most, len(run)) - 1]) for run in runs for first in range(0, len(run), most))
    return Plan(tuple(tasks), projected_bytes(size, most, threads))


def _shares(trees: list[int], parts: list[int]) -> list[list[int]]:
    """Divide trees in proportion to ``parts``, to within one tree; empty shares are left out."""
    whole = sum(parts)
    ends = [len(trees) * end // whole for end in itertools.accumulate(parts, initial=0)]
    return [trees[first:last] for first, last in itertools.pairwise(ends) if first < last]


def _runs(trees: list[int]) -> list[list[int]]:
    """Runs of trees whose numbers follow each other."""
    runs: list[list[int]] = []
    for tree in trees:
        if runs and tree == runs[-1][-1] + 1:
            runs[-1].append(tree)
        else:
            runs.append([tree])
    return runs


def _parts(size: Size, n_missing: int, slots: int) -> list[int]:
    """The relative sizes of the tasks: equal, in whole rounds of all slots, so that the last ones end together.

    Long tasks do not end together without help, so their last round is cut into halves and quarters.
    """
    by_size = LOCKSTEP_CELLS // size.n_rows**2 if size.dense else LOCKSTEP_ROWS // size.n_rows
    by_load = -(-n_missing // (TASKS_PER_SLOT * slots))
    most = max(1, min(by_size, by_load, MAX_BATCH))
    n_tasks = min(n_missing, -(-n_missing // (most * slots)) * slots)
    if 2 * n_missing < by_size * n_tasks:
        return [4] * n_tasks
    return [4] * (n_tasks - slots) + [2] * slots + [1] * (2 * slots)


def merge_bytes(total: int, slots: int) -> int:
    """Bytes that each merge task writes, give or take a chunk: equal shares, in whole rounds of all slots."""
    rounds = max(MERGES_PER_SLOT, -(-total // (MERGE_BYTES * slots)))
    return -(-total // (rounds * slots))


def projected_bytes(size: Size, batch: int, threads: int) -> int:
    """The peak memory of a worker with ``threads`` tasks at once."""
    slab = 8 * min(SLAB_CELLS, 2 * size.width * batch * size.n_rows) + 8 * size.width * size.n_rows
    search = size.n_rows * (size.width * 28 if size.dense else 24)
    packed = 4 * min(PACKED_CELLS, batch * size.n_rows**2 // 2) * 3 // 2 if size.dense else 0
    task = max(slab + search + packed + BYTES_PER_ROW * batch * size.n_rows, 4 * (MERGE_BYTES + SEALED_CHUNK_BYTES))
    return IMPORTED_BYTES + size.matrix_bytes + size.truth_bytes + threads * task


def check_worker_memory(limit: int | None) -> None:
    """Refuse workers with less memory than their imports need; they would die at the start.

    Raises
    ------
    MemoryLimitError
        With both numbers, and what to do.

    Examples
    --------
    >>> check_worker_memory(1 << 10)
    Traceback (most recent call last):
    distforest.errors.MemoryLimitError: a worker would need about 290 MiB and has 1,024 bytes before it reads anything:
    give workers more memory (`run.memory_limit`)
    """
    if limit is not None and limit < IMPORTED_BYTES:
        raise MemoryLimitError(
            f"a worker would need about {_mib(IMPORTED_BYTES)} and has {_mib(limit)} before it reads anything: "
            "give workers more memory (`run.memory_limit`)"
        )


def check_memory(projected: int, limit: int | None) -> None:
    """Refuse a job that needs more memory than a worker has.

    Raises
    ------
    MemoryLimitError
        With both numbers, and what to do.
    """
    if limit and projected > limit:
        raise MemoryLimitError(
            f"a worker would need about {_mib(projected)} and has {_mib(limit)}: "
            "give workers more memory (`run.memory_limit`), fewer threads, or smaller tasks (`run.batch`)"
        )


def _mib(n_bytes: int) -> str:
    return f"{n_bytes / 2**20:,.0f} MiB" if n_bytes >= 1 << 20 else f"{n_bytes:,} bytes"
