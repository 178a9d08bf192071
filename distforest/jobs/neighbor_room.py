"""How much room a scoring has: whether a forest fits into a worker, and how many rows of its leaf index do at once.

Nearest rows are found by the index of all training rows, made once in a process, if that fits. If not, a task takes
many queries, makes the index of one range of training rows after the other, and keeps the nearest so far. The answer is
the same, bit for bit; what changes is how often an index is made: once for each task.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from distforest.amounts import in_bytes
from distforest.errors import MemoryLimitError
from distforest.forest.sealed.artifact import decoded_bytes
from distforest.jobs.plan import IMPORTED_BYTES

if TYPE_CHECKING:
    from distforest.forest.sealed.artifact import Manifest

OPENED_NODE_BYTES = 72
"""Bytes of a node while a forest is opened, checked and walked, beside its arrays."""

REFERENCE_BYTES = 24
"""Bytes of a row of the index beside those in each tree: order, place, and their sorting."""

COUNTER_BYTES = 16
"""Bytes of a row of the index for each thread that counts common leaves."""

NEIGHBOR_BYTES = 56
"""Bytes of a neighbour of a query, while the nearest are found and written."""

MOST_INDEX_PARTS = 64
"""Most parts of an index. More are refused, as each task would make an index so often."""

SPARED = 8
"""A worker is given work for all but this part of its memory: Dask pauses a worker that is nearly full."""


class Limit(NamedTuple):
    """The memory of a worker in bytes, None if there is no limit, and its threads."""

    n_bytes: int | None
    threads: int


@dataclass(frozen=True)
class Sizes:
    """What decides how much memory neighbours take.

    Attributes
    ----------
    forest_bytes, n_trees, n_training
        The opened forest.
    n_queries, width
        The queries and their columns.
    n_neighbors
        How many are found of each.
    """

    forest_bytes: int
    n_trees: int
    n_training: int
    n_queries: int
    width: int
    n_neighbors: int

    @property
    def query_bytes(self) -> int:
        """Bytes of a query in its task: its values as stored and as read, its nodes, its nearest rows."""
        return 12 * self.width + 9 * self.n_trees + NEIGHBOR_BYTES * self.n_neighbors

    @property
    def index_bytes(self) -> int:
        """Bytes of a row of the index, without the counters."""
        return 4 * self.n_trees + REFERENCE_BYTES


@dataclass(frozen=True)
class NeighborRoom:
    """Rows of the leaf index that are made at once, None for all; most queries of a task; bytes of a worker."""

    part_rows: int | None
    task_rows: int
    projected_bytes: int


def opened_bytes(manifest: Manifest) -> int:
    """Bytes that a process holds when it has opened a forest."""
    n_nodes = math.prod(manifest["arrays"]["left"]["shape"])
    return decoded_bytes(manifest) + OPENED_NODE_BYTES * n_nodes


def check_opened(manifest: Manifest, limit: Limit, forest: str) -> None:
    """Refuse a forest that no worker can open, before one tries; raises MemoryLimitError."""
    needed = IMPORTED_BYTES + opened_bytes(manifest)
    if limit.n_bytes is not None and needed > limit.n_bytes:
        raise _too_small(f"to open {forest}", needed, limit)


def room_for_neighbors(sizes: Sizes, step: int, limit: Limit) -> NeighborRoom:
    """How the nearest rows are found within a limit.

    Parameters
    ----------
    sizes
        What is asked.
    step
        Rows of a task for which memory is no question.
    limit
        The worker's memory.

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
    held = IMPORTED_BYTES + sizes.forest_bytes
    counters = threads * COUNTER_BYTES
    whole = held + threads * step * sizes.query_bytes + sizes.n_training * (sizes.index_bytes + counters)
    if limit.n_bytes is None or whole <= limit.n_bytes - limit.n_bytes // SPARED:
        return NeighborRoom(None, step, whole)
    of_row = sizes.index_bytes + COUNTER_BYTES
    least_rows = -(-sizes.n_training // MOST_INDEX_PARTS)
    least = held + threads * (step * sizes.query_bytes + least_rows * of_row)
    free = (limit.n_bytes - limit.n_bytes // SPARED - held) // threads
    if least > limit.n_bytes - limit.n_bytes // SPARED:
        raise _too_small("to find neighbours in parts", least + least // (SPARED - 1), limit)
    n_steps = max(1, free // 2 // (step * sizes.query_bytes))  # half for queries, which make the index worth its making
    task_rows = min(n_steps, -(-sizes.n_queries // step)) * step
    part_rows = max(least_rows, (free - task_rows * sizes.query_bytes) // of_row)
    return NeighborRoom(part_rows, task_rows, held + threads * (task_rows * sizes.query_bytes + part_rows * of_row))


def _too_small(to: str, needed: int, limit: Limit) -> MemoryLimitError:
    return MemoryLimitError(
        f"a worker would need about {in_bytes(needed)} {to}, and has {in_bytes(limit.n_bytes or 0)}: give workers more "
        "memory (`run.memory_limit`), or fewer threads"
    )
