"""The plan: every missing tree in one task, no tree twice, and never more memory than is said."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from distforest.errors import MemoryLimitError
from distforest.growth.grower import SLAB_CELLS
from distforest.growth.methods import METHODS
from distforest.growth.parameters import complete
from distforest.growth.problem import Data
from distforest.jobs import plan as module
from distforest.jobs.input_staging import from_data
from distforest.jobs.plan import IMPORTED_BYTES, Plan, Size, check_memory, plan, projected_bytes
from distforest.jobs.train import GrowTask, grow_shard, size_of
from distforest.sources.row_kinds import Features
from distforest.sources.truth import Truth, TruthKind
from tests.messages import naming

if TYPE_CHECKING:
    from pathlib import Path

SMALL = Size(n_rows=100, n_trees=60, matrix_bytes=4_000, truth_bytes=800, width=3, dense=False)
SIZES = st.builds(
    Size,
    n_rows=st.integers(1, 10**7),
    n_trees=st.integers(1, 120),
    matrix_bytes=st.integers(0, 10**12),
    truth_bytes=st.integers(0, 10**12),
    width=st.integers(1, 300),
    dense=st.booleans(),
)


def sizes_of(planned: Plan) -> list[int]:
    return [last - first + 1 for first, last in planned.tasks]


def trees_of(planned: Plan) -> list[int]:
    return [tree for first, last in planned.tasks for tree in range(first, last + 1)]


@given(SIZES, st.sets(st.integers(0, 130)), st.integers(1, 32), st.one_of(st.none(), st.integers(1, 50)))
def test_every_missing_tree_is_in_one_task(size: Size, done: set[int], slots: int, batch: int | None) -> None:
    planned = plan(size, done, slots, batch)
    assert trees_of(planned) == sorted(set(range(size.n_trees)) - done)
    longest = max((last - first + 1 for first, last in planned.tasks), default=0)
    assert longest <= (batch or module.MAX_BATCH)
    if not done and batch:
        assert [last - first + 1 for first, last in planned.tasks[:-1]] == [batch] * (len(planned.tasks) - 1)


@given(SIZES, st.integers(1, 32))
def test_there_are_tasks_enough_for_all_threads(size: Size, slots: int) -> None:
    planned = plan(size, (), slots)
    assert len(planned.tasks) >= min(size.n_trees, slots)


@given(SIZES, st.integers(1, 9), st.integers(1, 9))
def test_more_threads_or_trees_at_once_take_more_memory(size: Size, batch: int, threads: int) -> None:
    here = projected_bytes(size, batch, threads)
    assert here >= IMPORTED_BYTES + size.matrix_bytes + size.truth_bytes
    assert projected_bytes(size, batch + 1, threads) >= here
    assert projected_bytes(size, batch, threads + 1) > here
    assert projected_bytes(replace(size, n_rows=size.n_rows + 1), batch, threads) >= here
    large = replace(size, n_rows=size.n_rows + 10**6)  # so large that growing takes more than merging
    assert projected_bytes(large, batch + 1, threads) > projected_bytes(large, batch, threads) > here
    staged = replace(size, matrix_bytes=size.matrix_bytes + 5)  # shared by the threads
    assert projected_bytes(staged, batch, threads) == here + 5


@given(SIZES, st.integers(1, 9))
def test_a_slab_bounds_what_is_projected(size: Size, batch: int) -> None:
    wide = replace(size, width=10**4)
    rows = 8 * wide.width * wide.n_rows
    search = wide.n_rows * (wide.width * 28 if wide.dense else 24) + (6 * module.PACKED_CELLS if wide.dense else 0)
    whole = IMPORTED_BYTES + wide.matrix_bytes + wide.truth_bytes + rows + search
    slabs = 8 * SLAB_CELLS + module.BYTES_PER_ROW * batch * wide.n_rows
    assert projected_bytes(wide, batch, 1) <= whole + max(slabs, 4 * (module.MERGE_BYTES + module.SEALED_CHUNK_BYTES))


def test_large_forests_grow_in_small_tasks_and_small_ones_in_lockstep() -> None:
    assert plan(SMALL, (), 1).tasks == ((0, 59),)
    assert sizes_of(plan(SMALL, (), 4)) == [15] * 4
    middling = replace(SMALL, n_rows=module.LEAST_ROWS // 3)
    assert sizes_of(plan(middling, (), 4)) == [3, 4, 4, 4] * 4
    large = replace(SMALL, n_rows=module.LOCKSTEP_ROWS)
    assert plan(large, (), 1).tasks == tuple((tree, tree) for tree in range(60))
    dense = replace(SMALL, n_rows=1 + int(module.LOCKSTEP_CELLS**0.5), dense=True)
    assert plan(dense, (), 1).tasks == tuple((tree, tree) for tree in range(60))


def test_tasks_are_dealt_out_in_whole_rounds() -> None:
    planned = plan(replace(SMALL, n_rows=10, n_trees=520), (), 1)
    assert sizes_of(planned) == [173, 173, 174]  # not 256, 256, 8
    assert sizes_of(plan(replace(SMALL, n_rows=module.LOCKSTEP_ROWS // 8, n_trees=20), (), 1)) == [6, 7, 7]
    assert sizes_of(plan(replace(SMALL, n_rows=10, n_trees=260), (), 3)) == [86, 87, 87]
    planned = plan(replace(SMALL, n_rows=module.LEAST_ROWS // 20, n_trees=260), (), 3)
    assert sizes_of(planned) == [21, 22, 22] * 4  # all end together


def test_the_last_round_of_long_tasks_is_cut_so_that_they_end_together() -> None:
    dense = replace(SMALL, n_rows=2000, n_trees=1000, dense=True)
    assert sizes_of(plan(dense, (), 2)) == [62, 63] * 7 + [31, 31, 16, 15, 16, 16]
    assert sizes_of(plan(replace(dense, n_rows=10_000, n_trees=16), (), 2)) == [2] * 6 + [1] * 4


def test_of_pairs_those_count_that_a_tree_is_likely_to_draw() -> None:
    pairs = replace(SMALL, n_rows=module.LOCKSTEP_ROWS, n_pairs=module.LOCKSTEP_ROWS // 4)
    assert sizes_of(plan(pairs, (), 1)) == [4] * 15
    assert plan(pairs, (), 1).projected_bytes == projected_bytes(replace(pairs, n_pairs=None), 4, 1)


def test_larger_leaves_take_less_memory() -> None:
    full = replace(SMALL, n_rows=10**6, most_leaves=632_121, node_value_bytes=8)
    large = replace(full, most_leaves=50_000)
    assert projected_bytes(large, 1, 1) < projected_bytes(full, 1, 1)
    assert large.tree_bytes < full.tree_bytes / 3
    assert replace(large, of_costs=True).tree_bytes > large.tree_bytes + 60 * large.n_rows
    for unknown in ({"most_leaves": None}, {"dense": True}, {"link_bytes": 1}):
        assert replace(large, **unknown).tree_bytes == module.BYTES_PER_ROW * large.n_rows


def test_many_classes_take_the_memory_that_is_planned(tmp_path: Path) -> None:
    rng, (n, n_classes) = np.random.default_rng(0), (2_000, 1_000)
    X, labels = rng.normal(size=(n, 4)).astype(np.float32), rng.integers(0, n_classes, n).astype(np.int32)
    data = Data(Features(4), X, Truth(TruthKind.LABELS, labels, list(range(n_classes))))
    inputs = from_data(data, "smerf", complete(METHODS["smerf"].parameters, {"n_estimators": 1}), 0, str(tmp_path))
    size = size_of(inputs.problem())
    grow_shard(GrowTask(inputs, f"{tmp_path}/first", 0, 0))  # compiles
    tracemalloc.start()
    try:
        grow_shard(GrowTask(inputs, f"{tmp_path}/second", 0, 0))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    written_at_once = 16 << 20  # by NumPy
    assert replace(size, node_value_bytes=0).tree_bytes < peak / 8
    assert peak - written_at_once < size.tree_bytes < peak


def test_each_part_counts_classes() -> None:
    size = replace(SMALL, n_rows=10**6, most_leaves=10**5, n_drawn=632_121, node_value_bytes=4_000, n_parts=2)
    of_nodes = 2 * 10**5 * 4_000
    assert (
        projected_bytes(replace(size, n_parts=5, parts_of_worker=5), 1, 1)
        - projected_bytes(replace(size, parts_of_worker=2), 1, 1)
        == 3 * of_nodes
    )


def test_nothing_missing_is_no_task() -> None:
    for slots in (1, 2):
        assert plan(SMALL, range(60), slots).tasks == ()


def test_the_plan_says_what_its_own_batch_needs() -> None:
    planned = plan(SMALL, (), 1, batch=7, threads=3)
    assert planned.projected_bytes == projected_bytes(SMALL, 7, 3)


def test_what_does_not_fit_is_refused_with_both_numbers_and_what_to_do() -> None:
    planned = Plan(((0, 0),), 3 << 30)
    for limit in (None, 0, 3 << 30, 4 << 30):
        check_memory(planned.projected_bytes, limit)
    with pytest.raises(MemoryLimitError, match=naming("3,072 MiB", "3,071 MiB", "`run.memory_limit`", "`run.batch`")):
        check_memory(planned.projected_bytes, 3071 << 20)
