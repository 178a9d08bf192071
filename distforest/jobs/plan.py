"""The plan of a job: the trees of each task, and their memory. These functions are pure."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from distforest.errors import MemoryLimitError
from distforest.forest.forest import SEALED_CHUNK_BYTES
from distforest.growth.cuts.blocks import PACKED_CELLS
from distforest.growth.grower import SLAB_CELLS
from distforest.growth.methods import METHODS, n_candidates, n_combined, sampling, with_max_features
from distforest.growth.row_room import (
    BLOCK_SHARE,
    FLOAT32_BYTES,
    PICKED_BYTES,
    RANKED_BY_COSTS,
    SORTING_COSTS_BYTES,
    CategorySizes,
    RowRoom,
    sizes_of,
)
from distforest.sources.row_kinds import Features
from distforest.sources.truth import TruthKind

if TYPE_CHECKING:
    from collections.abc import Collection

    from distforest.forest.forest import Params
    from distforest.growth.problem import Data

LOCKSTEP_ROWS = 1 << 17
"""Target number of rows of all trees of a task: enough to hide the cost of Python, few to lose with a worker."""

LOCKSTEP_CELLS = 1 << 28
"""Target number of cells for dense distances, whose cost grows with the cells of the matrix."""

LOCKSTEP_LINK_BYTES = 1 << 26
"""Target number of bytes for the links of a graph."""

LEAST_ROWS, LEAST_CELLS = 1 << 15, 1 << 23
"""Rows of all trees, or cells of dense distances, below which a task is not divided so that the last tasks end
together: such a task takes some 30 ms, and a task on Dask costs some 5 ms beside its growth."""

MAX_BATCH = 256
"""Largest number of trees of a task."""

TASKS_PER_SLOT = 4
"""Least number of tasks per thread if there are several threads, so that the last tasks end together."""

MERGES_PER_SLOT = 2
"""Least number of merge tasks per thread; it is smaller, because each of them opens many shards."""

MERGED_AT_ONCE = 8 << 20
"""Bytes per thread up to which it gets a single merge task, which opens the shards once."""

IMPORTED_BYTES = 290 << 20
"""Memory of a worker beside its task: Python, NumPy, Dask, and Numba after compiling (200 MiB with warm caches)."""

MERGE_BYTES = 12 << 20
"""Largest number of bytes that a merge task writes beside a chunk; compression holds four times as much."""

BYTES_PER_ROW = 300
"""Memory of a growing tree per row: frontier, levels, node and leaf table, and the packed shard. It is that of trees
over pairs, distances and similarities, whose nodes are not counted separately."""

BYTES_PER_GROWN_ROW, BYTES_PER_GROWN_NODE = 50, 190
"""Memory of a growing tree over features: per row without its nodes, and per node."""

NODE_VALUES_HELD = 2.25
"""Copies of the values of a tree's nodes: the array, and the packed shard, whose buffer grows by an eighth at a time
and gets them in blocks."""

BYTES_PER_DRAWN_ROW, BYTES_PER_WALKED_ROW = 5, 11
"""Memory per row of a tree that grows by passes, without its nodes: how often the row is drawn; then its leaf and a
copy in the packed shard."""

BYTES_PER_NODE, BYTES_PER_WALKED_NODE = 60, 160
"""Memory per node of such a tree: its level; then its node and leaf table, and its step while rows walk."""

LISTS_HELD = 2
"""Copies of the lists of categories of a tree: the array, and the packed shard."""

VECTORS_HELD, VECTORS_BEGUN = 2, 4
"""Copies of targets or of an embedding that a worker holds, and further ones while they are scaled."""

BYTES_OF_PASSES = 64 << 20
"""Memory of passes beside their budget: the sample for the bins, columns of it, and blocks of features."""

TREES_AT_ONCE = 2
"""Trees that grow at once if their rows are in parts: they grow level by level in step, and share their tasks."""

BYTES_PER_PARTED_ROW = 22
"""Memory per row of a part and tree: how often it is drawn, its number and weight in two levels, its leaf."""

BYTES_PER_PACKED_ROW = 76
"""Memory per in-bag row that a worker has gathered, beside its codes and truth, which briefly exist twice."""

NODES_OF_PART, SUMS_ADDED = 8, 2
"""Largest number of nodes of a level per part that are cut by sums, since smaller ones are gathered; and answers of
parts that a task has at once beside those of its own part: the sum so far, and the next one."""

PACKED_MORE = 1.25
"""Factor by which a worker may gather more rows than its share."""

LEAST_ROWS_BUDGET = 16 << 20
"""Least budget of rows for growth by passes; with less, blocks would be too small."""

LEAST_BLOCK_ROWS = 16
"""Least number of rows of a block of distances, which is an eighth of their budget."""

BYTES_PER_SUM = 48
"""Memory per row and candidate of a node that is cut by sums: values, their order, ranks, two sums."""

LEVELS_BY_SUMS = 4
"""Levels that the trees of a task may be cut by sums of distances: the more trees share a pass, the more levels take
passes before all of their nodes fit."""

SPARE_SHARE = 4
"""Inverse of the share of a worker's limit that a budget of distances leaves free for memory maps."""

TRIANGLES_HELD = 2
"""Copies of the distances of leaves: the array, and the packed shard."""


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
        Number of candidates of a node.
    dense
        Whether cuts are scored by a dense matrix of distances.
    link_bytes
        Size of the links of a graph by which cuts are scored, in memory.
    of_vectors
        Whether cuts are scored by targets or an embedding.
    most_leaves
        Largest number of leaves of a tree over features or distances; None: as many as rows.
    node_value_bytes
        Bytes of the values of a node: the weight of each class, or the mean and the spread of its vectors.
    rows_budget
        Bytes of rows that a tree holds at once if it grows by passes, or of distances that a task holds; None: all are
        in memory.
    n_drawn
        Expected number of rows that a tree draws.
    n_parts
        Number of parts of the rows, with ``matrix_bytes`` for their codes; None: each worker has all rows.
    parts_of_worker
        Largest number of parts of a worker.
    room
        Memory of a row if trees grow by passes over features themselves, or over categories beside codes of bins; None:
        over codes alone.
    n_pairs
        Expected number of different pairs of a tree, if rows are pairs of points; ``n_rows`` is the largest number.
    categories
        The categories among dense features; None: all features are numbers.
    of_costs
        Whether cuts are scored by costs of classes.
    """

    n_rows: int
    n_trees: int
    matrix_bytes: int
    truth_bytes: int
    width: int
    dense: bool
    link_bytes: int = 0
    of_vectors: bool = False
    most_leaves: int | None = None
    node_value_bytes: int = 0
    rows_budget: int | None = None
    n_drawn: int = 1
    n_parts: int | None = None
    parts_of_worker: int = 1
    room: RowRoom | None = None
    n_pairs: int | None = None
    categories: CategorySizes | None = None
    of_costs: bool = False

    @property
    def n_leaves(self) -> int:
        """Largest number of leaves of a tree."""
        return self.n_rows if self.most_leaves is None else self.most_leaves

    @property
    def tree_bytes(self) -> int:
        """Memory of a tree that grows in memory, beside the values that are searched.

        Examples
        --------
        >>> size = Size(10**6, 1, 80 << 20, 4 << 20, 4, dense=False, most_leaves=50_000, node_value_bytes=8)
        >>> size.tree_bytes >> 20, replace(size, most_leaves=632_121).tree_bytes >> 20
        (67, 298)
        """
        if self.most_leaves is None or self.dense or self.link_bytes:
            return BYTES_PER_ROW * self.n_rows
        of_row = BYTES_PER_GROWN_ROW + (SORTING_COSTS_BYTES if self.of_costs else 0)
        of_node = BYTES_PER_GROWN_NODE + int(NODE_VALUES_HELD * self.node_value_bytes)
        return of_row * self.n_rows + 2 * self.most_leaves * of_node

    @property
    def passes_distances(self) -> bool:
        """Whether trees grow by passes over a matrix of distances."""
        return self.dense and self.rows_budget is not None

    @property
    def share_of_worker(self) -> float:
        """The share of all rows on a worker."""
        return min(1.0, self.parts_of_worker / (self.n_parts or 1))

    @property
    def part_bytes(self) -> int:
        """Size of the codes and the truth of the rows on a worker."""
        return int(self.share_of_worker * (self.matrix_bytes + self.truth_bytes))

    @property
    def held_bytes(self) -> int:
        """Size of the ground truth as the threads of a worker hold it together."""
        if self.passes_distances:
            return 0
        return self.truth_bytes * (VECTORS_HELD if self.of_vectors else 1)

    @property
    def begun_bytes(self) -> int:
        """Additional memory before the first tree."""
        return self.truth_bytes * VECTORS_BEGUN if self.of_vectors else 0

    def grown_bytes(self, batch: int) -> int:
        """Return the memory of ``batch`` trees that grow by passes, beside the rows or distances that they hold."""
        if self.dense:
            n_sums = min(SLAB_CELLS, self.width * batch * self.n_drawn) + self.width * self.n_drawn
            return BYTES_OF_PASSES + BYTES_PER_SUM * n_sums + BYTES_PER_ROW * batch * self.n_rows
        of_tree = BYTES_PER_DRAWN_ROW * self.n_rows + BYTES_PER_NODE * 2 * self.n_leaves + self.listed_bytes
        return BYTES_OF_PASSES + batch * of_tree

    def walked_bytes(self, batch: int) -> int:
        """Return the memory of ``batch`` trees while rows walk to their leaves, and while leaves are compared."""
        if self.dense:
            block = (self.rows_budget or 0) // BLOCK_SHARE
            return BYTES_OF_PASSES + block + batch * (BYTES_PER_ROW * self.n_rows + self.triangle_bytes)
        of_node = BYTES_PER_WALKED_NODE + int(NODE_VALUES_HELD * self.node_value_bytes)
        of_tree = BYTES_PER_WALKED_ROW * self.n_rows + 2 * self.n_leaves * of_node
        of_tree += LISTS_HELD * self.listed_bytes
        return BYTES_OF_PASSES + batch * of_tree

    @property
    def answered_bytes(self) -> int:
        """Memory of the sums over categories of a level on a worker, in parts, while they are added up."""
        if self.categories is None or self.n_parts is None:
            return 0
        of_node = min(self.width, self.categories.n_columns) * self.categories.sums_bytes
        ordered = self.categories.ranked_bytes + self.categories.kept_bytes
        return NODES_OF_PART * self.n_parts * (self.parts_of_worker + SUMS_ADDED) * of_node + ordered

    @property
    def listed_bytes(self) -> int:
        """Approximate bytes of a tree's lists of categories, if cuts halve nodes and all nodes cut categories.

        A node lists at most half of the categories, and of its rows.

        Examples
        --------
        >>> from distforest.growth.row_room import CategorySizes
        >>> size = Size(10**6, 1, 200 << 20, 4 << 20, 7, dense=False, n_drawn=632_121, most_leaves=50_000)
        >>> replace(size, categories=CategorySizes(n_columns=9, most=50, n_classes=2)).listed_bytes
        2083392
        """
        if self.categories is None:
            return 0
        most = self.categories.most
        return sum(min(most << level, self.n_drawn) for level in range(self.n_leaves.bit_length()))

    @property
    def triangle_bytes(self) -> int:
        """Memory of the distances of all pairs of leaves of a tree."""
        kept = min(4 * self.n_leaves * (self.n_leaves + 1), 4 * self.n_rows**2 // self.n_trees)
        return TRIANGLES_HELD * kept

    @property
    def lockstep(self) -> int:
        """Number of trees of a task that share passes over distances: as many as fit together after some levels."""
        budget = self.rows_budget or 0
        by_blocks = (budget << LEVELS_BY_SUMS) // (4 * self.n_drawn**2)
        by_trees = (budget - budget // BLOCK_SHARE) // (self.triangle_bytes + BYTES_PER_ROW * self.n_rows)
        return max(1, min(by_blocks, by_trees, MAX_BATCH))


@dataclass(frozen=True)
class Plan:
    """The tasks of a job: runs of trees, first to last, and the memory that a worker needs for them."""

    tasks: tuple[tuple[int, int], ...]
    projected_bytes: int


def plan(size: Size, done: Collection[int], slots: int, batch: int | None = None, threads: int = 1) -> Plan:
    """Divide the missing trees into tasks.

    Parameters
    ----------
    size
        Size of the growth.
    done
        Trees that are already committed; none in a first run.
    slots
        Number of threads of all workers together.
    batch
        Number of trees in a task; None: chosen by the size.
    threads
        Number of threads of a worker.

    Examples
    --------
    >>> size = Size(n_rows=71, n_trees=10, matrix_bytes=5112, truth_bytes=20164, width=4, dense=True)
    >>> plan(size, done={3, 4}, slots=1, batch=4).tasks
    ((0, 2), (5, 8), (9, 9))
    """
    missing = sorted(set(range(size.n_trees)) - set(done))
    if size.n_parts is not None:
        tasks_of_parts = tuple((tree, tree) for tree in missing)
        return Plan(tasks_of_parts, projected_bytes(size, batch or TREES_AT_ONCE, threads))
    shares = [missing] if batch else _shares(missing, _parts(size, len(missing), slots))
    most = batch or max(map(len, shares), default=1)
    tasks = []
    for share in shares:
        breaks = [place for place in range(1, len(share)) if share[place] != share[place - 1] + 1]
        for begin, end in itertools.pairwise([0, *breaks, len(share)]):  # trees whose numbers follow each other
            tasks += [(share[at], share[min(at + most, end) - 1]) for at in range(begin, end, most)]
    return Plan(tuple(tasks), projected_bytes(size, most, threads))


def _shares(trees: list[int], parts: list[int]) -> list[list[int]]:
    """Divide trees in proportion to ``parts``, to within one tree; empty shares are omitted."""
    whole = sum(parts)
    ends = [len(trees) * end // whole for end in itertools.accumulate(parts, initial=0)]
    return [trees[first:last] for first, last in itertools.pairwise(ends) if first < last]


def _parts(size: Size, n_missing: int, slots: int) -> list[int]:
    """Return the relative sizes of tasks: equal, in whole rounds of all slots, so that the last tasks end together.

    Long tasks would not end together, so their last round is cut into halves and quarters.
    """
    cost, most_at_once, least = size.n_pairs or size.n_rows, LOCKSTEP_ROWS, LEAST_ROWS
    if size.dense:
        cost, most_at_once, least = size.n_rows**2, LOCKSTEP_CELLS, LEAST_CELLS
    by_size = most_at_once // cost
    if size.passes_distances:
        by_size = size.lockstep
    if size.link_bytes:
        by_size = min(by_size, LOCKSTEP_LINK_BYTES // size.link_bytes)
    is_alone = slots == 1  # no other thread is waited for
    by_load = -(-n_missing // (slots if size.passes_distances or is_alone else TASKS_PER_SLOT * slots))
    by_load = max(by_load, min(least // cost, -(-n_missing // slots)))
    most = max(1, min(by_size, by_load, MAX_BATCH))
    n_tasks = max(1, min(n_missing, -(-n_missing // (most * slots)) * slots))
    if is_alone or 2 * n_missing < by_size * n_tasks:
        return [4] * n_tasks
    return [4] * (n_tasks - slots) + [2] * slots + [1] * (2 * slots)


def merge_bytes(total: int, slots: int) -> int:
    """Return the bytes that each merge task writes, to within a chunk: equal shares, in whole rounds of all slots."""
    least = 1 if total <= MERGED_AT_ONCE * slots else MERGES_PER_SLOT
    rounds = max(least, -(-total // (MERGE_BYTES * slots)))
    return -(-total // (rounds * slots))


def projected_bytes(size: Size, batch: int, threads: int) -> int:
    """Return the peak memory of a worker with ``threads`` tasks at once; in parts, ``batch`` trees grow at once."""
    if size.n_parts is not None:
        return _parted_bytes(size, batch)
    if size.rows_budget is not None:
        held = size.rows_budget if size.room is None else size.room.used(size.rows_budget, size.n_drawn)
        growing, merging = held + size.grown_bytes(batch), 4 * (MERGE_BYTES + SEALED_CHUNK_BYTES)
        task = max(growing, size.walked_bytes(batch), merging)
        matrix = size.matrix_bytes if size.dense else 0  # features are passed over, too, but where distances are
        return IMPORTED_BYTES + matrix + size.held_bytes + max(threads * task, size.begun_bytes)
    slab = 8 * min(SLAB_CELLS, 2 * size.width * batch * size.n_rows) + 8 * size.width * size.n_rows
    search = size.n_rows * (size.width * 28 if size.dense or size.link_bytes else 24) + size.link_bytes
    packed = 4 * min(PACKED_CELLS, batch * size.n_rows**2 // 2) * 3 // 2 if size.dense else 0
    packed += size.link_bytes * batch * 3 // 2  # two levels; the second one seldom has half
    task = max(slab + search + packed + batch * size.tree_bytes, 4 * (MERGE_BYTES + SEALED_CHUNK_BYTES))
    return IMPORTED_BYTES + size.matrix_bytes + size.held_bytes + max(threads * task, size.begun_bytes)


def _parted_bytes(size: Size, at_once: int) -> int:
    """Return the peak memory of a worker with some parts; one tree may be sealed there while others grow."""
    n_rows, of_row = size.share_of_worker * size.n_rows, (size.matrix_bytes + size.truth_bytes) / size.n_rows
    picked = 0 if size.categories is None else PICKED_BYTES
    packed = PACKED_MORE * n_rows * (2 * of_row + BYTES_PER_PACKED_ROW + picked)
    growing = at_once * int(n_rows * BYTES_PER_PARTED_ROW + packed + size.answered_bytes)
    of_classes = 2 * size.n_leaves * size.node_value_bytes  # each part counts among its rows
    node_values = size.held_bytes if size.of_vectors else (size.n_parts or 1) * of_classes
    sealing = max(size.walked_bytes(1) + node_values, 4 * (MERGE_BYTES + SEALED_CHUNK_BYTES))
    return IMPORTED_BYTES + size.part_bytes + max(growing + sealing, size.held_bytes + size.begun_bytes)


def within(size: Size, limit: int, batch: int | None, threads: int) -> Size | None:
    """Return the size of growth by passes in workers of ``limit`` bytes; None if that is not enough either.

    Examples
    --------
    >>> size = Size(2_000_000, 10, 400 << 20, 8 << 20, width=7, dense=False, most_leaves=100_000)
    >>> projected_bytes(size, 1, threads=1) >> 20, within(size, 600 << 20, batch=1, threads=1).rows_budget >> 20
    (1014, 217)
    """
    if size.dense:
        spare = limit // SPARE_SHARE
        return _within_of_distances(size, (limit - spare - IMPORTED_BYTES - size.matrix_bytes) // threads, batch)
    free, n_trees = limit - IMPORTED_BYTES - size.held_bytes, batch or 1
    budget = free // threads - size.grown_bytes(n_trees)
    if size.room is not None and size.n_drawn > size.room.most_rows(budget):
        return None
    fits = budget >= LEAST_ROWS_BUDGET and free >= max(threads * size.walked_bytes(n_trees), size.begun_bytes)
    return replace(size, rows_budget=budget) if fits else None


def _within_of_distances(size: Size, free: int, batch: int | None) -> Size | None:
    """Return the size of growth by passes over distances, within ``free`` bytes of a task.

    If ``batch`` is None, the number of trees of a task is chosen. The fewer trees share a task, the larger is the
    budget, and the more trees it could hold, so the smallest number whose budget holds no more trees is taken.
    """
    for n_trees in [batch] if batch else range(1, MAX_BATCH + 1):
        budget, block = free - size.grown_bytes(n_trees), LEAST_BLOCK_ROWS * BLOCK_SHARE * 4 * size.n_rows
        sized = replace(size, rows_budget=budget)
        if budget < max(LEAST_ROWS_BUDGET, block) or sized.walked_bytes(n_trees) > free:
            return None
        if batch or sized.lockstep <= n_trees:
            return sized
    return None


def check_worker_memory(limit: int | None) -> None:
    """Refuse workers with less memory than their imports need, which would die at the start; raise MemoryLimitError.

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


def check_memory(projected: int, limit: int | None, further: str = "") -> None:
    """Refuse a job that needs more memory than a worker has; ``further`` is further advice.

    Raises
    ------
    MemoryLimitError
        The message has both numbers, and what to do.
    """
    if limit and projected > limit:
        raise MemoryLimitError(
            f"a worker would need about {_mib(projected)} and has {_mib(limit)}: "
            f"give workers more memory (`run.memory_limit`), fewer threads, or smaller tasks (`run.batch`){further}"
        )


# --- growth by passes ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class WorkerRoom:
    """The memory of a worker, its threads, and the trees of a task; None: chosen by the size."""

    limit: int
    threads: int = 1
    batch: int | None = None


def by_passes(params: Params, truth_kind: TruthKind, size: Size, room: WorkerRoom) -> Size | None:
    """Return the size of growth by passes; None if that does not fit into memory either.

    Parameters
    ----------
    params, truth_kind
        All parameters of the method, and the kind of its ground truth.
    size
        The size with all rows in memory.
    room
        The available memory.
    """
    rows = sampling(params, size.n_rows)
    of_row, in_bins = None, bool(params.get("max_bins"))
    known = size.matrix_bytes // (FLOAT32_BYTES * size.n_rows), size.truth_bytes // size.n_rows, size.width
    if in_bins and size.categories is not None and not size.dense:
        of_row = RowRoom(*known, size.categories, in_bins=True)
    elif not in_bins and not size.dense:
        at_random, has_truth = params["splitter"] == "random", truth_kind != TruthKind.NOTHING
        of_row = RowRoom(
            *known,
            size.categories,
            at_random=at_random and has_truth,
            of_costs=size.of_costs,
            n_witnesses=int(params.get("n_witnesses", 0)),
            by_some=at_random and not has_truth and params["min_samples_leaf"] == 1,
        )
    asked = replace(size, n_drawn=rows.n_distinct, most_leaves=rows.most_leaves(params), room=of_row)
    return within(asked, room.limit, room.batch, room.threads)


def size_over_rows(params: Params, shape: tuple[int, ...], truth_bytes: int, kind: TruthKind) -> Size:
    """Return the size of growth over dense features of this shape, with all rows in memory."""
    n_rows, n_columns = shape
    n_trees, matrix_bytes = int(params["n_estimators"] or 1), FLOAT32_BYTES * n_rows * n_columns
    most_leaves = sampling(params, n_rows).most_leaves(params)
    width = width_of(params, n_columns, kind)
    return Size(n_rows, n_trees, matrix_bytes, truth_bytes, width, dense=False, most_leaves=most_leaves)


def width_of(params: Params, n_columns: int, kind: TruthKind) -> int:
    """Return the number of candidates of a node in a method over rows, for a kind of ground truth."""
    params = with_max_features(params, kind)
    if "n_pairs" in params:
        return int(params["n_pairs"] or 1)
    width = n_candidates(params["max_features"], n_columns)
    is_axis = n_combined(params, n_columns) == 1.0 and params["feature_weights"] is None
    return min(width, n_columns) if is_axis else width


def exceeds(method: str, params: Params, shape: tuple[int, ...], room: WorkerRoom) -> bool:
    """Return whether not even one tree over features of this shape fits into memory, whatever the size of the truth."""
    if METHODS[method].reads != "features":
        return False
    return projected_bytes(size_over_rows(params, shape, 0, TruthKind.LABELS), room.batch or 1, 1) > room.limit


def budget_of(method: str, data: Data, params: Params, room: WorkerRoom) -> int | None:
    """Return the budget of rows of trees that grow by passes over data at hand; None: they grow in memory.

    Trees grow by passes if they do not fit into memory otherwise, and if trees of this kind can grow by passes.
    """
    kind, rows, has_costs = data.truth.kind, data.rows, data.truth.costs is not None
    if METHODS[method].reads != "features" or kind in {TruthKind.DISTANCES, TruthKind.DIFFERENCES}:
        return None
    if not isinstance(data.matrix, np.ndarray) or not isinstance(rows, Features):
        return None
    if (params.get("max_bins") and has_costs) or (rows.n_categories and kind == TruthKind.NOTHING):
        return None  # costs have no sums over bins, and give categories no order
    size = size_over_rows(params, data.matrix.shape, data.truth.values.nbytes, kind)
    size = replace(size, of_vectors=kind.is_of_vectors, of_costs=has_costs, node_value_bytes=data.node_value_bytes)
    if rows.n_categories:
        n_classes = len(data.truth.classes or ()) if kind == TruthKind.LABELS and not has_costs else None
        of_vectors = RANKED_BY_COSTS if has_costs else data.truth.values.shape[-1] if n_classes is None else 1
        size = replace(size, categories=CategorySizes(*sizes_of(rows.n_categories), n_classes, of_vectors))
    sized = None if projected_bytes(size, room.batch or 1, 1) <= room.limit else by_passes(params, kind, size, room)
    return None if sized is None else sized.rows_budget


def _mib(n_bytes: int) -> str:
    return f"{n_bytes / 2**20:,.0f} MiB" if n_bytes >= 1 << 20 else f"{n_bytes:,} bytes"
