"""How the arrays of a forest are dealt out to merge tasks: every row once, and few shards opened by a task."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from distforest.errors import JobError
from distforest.forest.forest import SEALED_CHUNK_BYTES
from distforest.forest.sealed.artifact import prepare
from distforest.jobs import merge
from distforest.jobs.merge import Column, MergeTask, Span, grouped, merge_rows
from distforest.jobs.plan import MERGE_BYTES, merge_bytes
from distforest.jobs.shared_folders import check_written
from distforest.sources.arrays import open_array
from distforest.stores.building import Building
from distforest.stores.folder import Folder
from distforest.stores.outputs import FOREST_KIND
from tests.messages import naming

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
    own = merge_bytes(sum(column.n_bytes for column in columns), slots)
    assert own <= MERGE_BYTES
    assert all(sum(span.n_bytes for span in group) <= own + SEALED_CHUNK_BYTES for group in groups)


def test_tasks_are_whole_rounds_of_all_slots() -> None:
    columns = columns_of([[900_000] * 9, [900_000] * 9])  # 97 MB
    for slots in (1, 2, 3, 8):
        groups = grouped(columns, slots)
        assert len(groups) % slots == 0
        sizes = [sum(span.n_bytes for span in group) for group in groups]
        assert max(sizes) - min(sizes) <= 2 * SEALED_CHUNK_BYTES


def test_a_task_writes_what_comes_from_few_shards() -> None:
    n_shards = 200
    columns = columns_of([[40_000] * n_shards, [40_000] * n_shards, [80] * n_shards, [20_000] * n_shards])
    groups = grouped(columns, 2)
    opened = [len(shards_of(group)) for group in groups]
    assert len(groups) > 8
    assert sum(opened) < 3 * n_shards  # 800 and more if tasks went array by array


@pytest.mark.parametrize("left_behind", [False, True])
@pytest.mark.parametrize("is_there", [False, True])
def test_a_forest_takes_the_place_of_an_older_one(tmp_path: Path, is_there: bool, left_behind: bool) -> None:
    """Nothing of an older one stays, nor of one that a killed run had put aside."""
    job = Folder(f"{tmp_path}/job")
    target = Building.from_output(f"{tmp_path}/forest.zarr", FOREST_KIND, {}, job.within("forest.zarr"))
    Folder(f"{tmp_path}/.forest.zarr.older").write("oldest", b"1") if left_behind else None
    Folder(target.output).write("old", b"2") if is_there else None
    target.folder.write("new", b"3")
    target.publish()
    assert Folder(target.output).names() == ["new"]
    assert (job.names(), {path.name for path in tmp_path.iterdir()}) == ([], {"forest.zarr", "job"})


def test_a_task_reads_each_array_of_a_shard_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    [column] = columns_of([[900_000, 0, 700_000]])  # 6.4 MB, two chunks: the last shard's rows lie in both
    held = {name: np.arange(rows, dtype=np.int32) + first for name, first, rows in column.parts}
    read: Counter[tuple[str, str]] = Counter()

    class Opened:
        def __init__(self, shard: str) -> None:
            self.shard = shard

        def __getitem__(self, array: str) -> np.ndarray:
            read[self.shard, array] += 1
            return held[self.shard]

    @contextmanager
    def opened(_folder: Folder, name: str) -> Iterator[Opened]:
        yield Opened(name)

    monkeypatch.setattr(merge, "opened_shard", opened)
    target = f"{tmp_path}/forest.zarr"
    prepare(target, column.name, column.shape, np.dtype(column.dtype))
    spans = tuple(column.spans(1))
    task = MergeTask(spans, str(tmp_path), target, None)
    assert b"zarr." not in pickle.dumps(task)  # workers may have another version of it, whose classes differ
    merge_rows(task)
    assert len(spans) == 2
    assert set(read) == {("shard-0", column.name), ("shard-2", column.name)}
    assert set(read.values()) == {1}
    assert (np.asarray(open_array(f"{target}/{column.name}")[...]) == np.arange(1_600_000)).all()


def test_chunks_that_were_written_elsewhere_are_missed(tmp_path: Path) -> None:
    address, n_rows = str(tmp_path), 2 * SEALED_CHUNK_BYTES
    for name, tail in (("flat", ()), ("wide", (2,))):
        array = prepare(address, name, (n_rows, *tail), np.dtype(np.uint8))
        array[:] = 0  # chunks of zeros are stored, too
    prepare(address, "empty", (0,), np.dtype(np.uint8))
    n_chunks = {"flat": 2, "wide": 4, "empty": 0}
    check_written(address, n_chunks)
    check_written("memory://forests/elsewhere.zarr", n_chunks)  # a store that all workers share
    (tmp_path / "wide/c/3/0").unlink()
    (tmp_path / "wide/c/3").rmdir()
    with pytest.raises(JobError, match=naming(f"{address}/wide", "3 of 4 chunks")):
        check_written(address, n_chunks)
