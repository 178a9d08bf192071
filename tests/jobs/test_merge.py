"""How the arrays of a forest are dealt out to merge tasks: every row once, and few shards opened by a task."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from distforest.jobs.merge import Column, Span, grouped
from distforest.jobs.plan import MERGE_BYTES, merge_bytes

TAILS: tuple[tuple[str, tuple[int, ...]], ...] = (("int32", ()), ("float64", ()), ("uint8", (500,)), ("int32", (2,)))


def columns_of(lengths: list[list[int]]) -> list[Column]:
    """A column for each list of the rows that it has in each shard."""
    columns = []
    for number, rows in enumerate(lengths):
        dtype, tail = TAILS[number % len(TAILS)]
        begins = [sum(rows[:shard]) for shard in range(len(rows))]
        parts = tuple((f"shard-{shard}", begins[shard], n) for shard, n in enumerate(rows))
        columns.append(Column(f"column-{number}", dtype, tail, parts))
    return columns


def shards_of(group: tuple[Span, ...]) -> set[str]:
    """What a task has to open."""
    return {shard for span in group for shard, *_ in span.pieces}


@given(st.lists(st.lists(st.integers(0, 900_000), min_size=5, max_size=5), min_size=1, max_size=6), st.integers(1, 8))
def test_every_row_of_every_column_is_written_once_and_in_order(lengths: list[list[int]], slots: int) -> None:
    columns = columns_of(lengths)
    groups = grouped(columns, slots)
    for column in columns:
        own = [span for group in groups for span in group if span.name == column.name]
        bounds = [(span.first, span.last) for span in own]
        assert [first for first, _ in bounds] == [0, *(last for _, last in bounds)][: len(bounds)]
        assert sum(last - first for first, last in bounds) == column.shape[0]
        assert sum(rows for span in own for *_, rows in span.pieces) == column.shape[0]
    most = max(merge_bytes(sum(column.n_bytes for column in columns), slots), 4 << 20)
    assert all(sum(span.n_bytes for span in group) <= most for group in groups)
    assert most <= MERGE_BYTES


def test_a_task_writes_what_comes_from_few_shards() -> None:
    n_shards = 200
    columns = columns_of([[40_000] * n_shards, [40_000] * n_shards, [80] * n_shards, [20_000] * n_shards])
    groups = grouped(columns, 2)
    opened = [len(shards_of(group)) for group in groups]
    assert len(groups) > 8
    assert sum(opened) < 3 * n_shards  # 800 and more if tasks went array by array
