"""The plan: every missing tree in one task, no tree twice, and never more memory than is said."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distforest.errors import MemoryLimitError
from distforest.growth.grower import SLAB_CELLS
from distforest.jobs import plan as module
from distforest.jobs.plan import IMPORTED_BYTES, Plan, Size, check_memory, plan, projected_bytes

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
    with pytest.raises(MemoryLimitError, match=r"about 3,072 MiB and has 3,071 MiB: .*run\.memory_limit.*run\.batch"):
        check_memory(planned.projected_bytes, 3071 << 20)
