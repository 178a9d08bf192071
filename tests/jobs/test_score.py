"""Batch scoring: proximities and nearest rows as the forest in memory has them, in any blocks, on any cluster."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from distforest.errors import InputError, JobError, MemoryLimitError
from distforest.forest import scoring
from distforest.forest.forest import Forest
from distforest.forest.leaf_kinds import KeepsNothing
from distforest.forest.path_lengths import PathLengths
from distforest.forest.proximities import proximity
from distforest.forest.sealed.artifact import save
from distforest.jobs.cluster import Threads
from distforest.jobs.on_dask import OnDask
from distforest.jobs.outline import NeighborRoom, outline
from distforest.jobs.question import Question
from distforest.jobs.score import ScoreTask, _step, answer_rows, score
from distforest.sources.arrays import open_array, write_array
from distforest.sources.opening import open_matrix
from distforest.sources.sparse_store import SparseStore
from tests import samples
from tests.messages import naming

KINDS = ("looked_up", "shared")


@pytest.fixture(scope="module", params=KINDS)
def forest(request: pytest.FixtureRequest, forest_of: Callable[[str], Forest]) -> Forest:
    """A forest whose distances are looked up, and one whose rows are apart where they share no leaf."""
    grown = forest_of("labels")
    if request.param == "looked_up":
        return grown
    meaning = replace(grown.meaning, leaf=KeepsNothing("path_lengths"), classes=None)
    return replace(grown, meaning=meaning, leaf_table=PathLengths(grown.table))


@pytest.fixture(scope="module")
def made(forest: Forest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sealed forest, its training rows, and new rows; not to be written to."""
    folder = tmp_path_factory.mktemp("sealed")
    save(forest, f"{folder}/forest.zarr")
    for name, rows in (("training", samples.features()), ("new", samples.queries("labels", 20))):
        write_array(f"{folder}/{name}.zarr", "X", rows.shape, rows.dtype, [rows])
    return folder


def answers_of(place: str, answer: str, rows: str = "new", **asked: Any) -> dict[str, np.ndarray]:
    """What is written, in tasks of a few rows, by two threads unless a cluster is given."""
    cluster, output = asked.pop("cluster", Threads(2)), f"{place}/answers.zarr"
    if "reference" in asked:
        asked["reference"] = f"{place}/{asked['reference']}.zarr/X"
    found = score(Question(f"{place}/forest.zarr", f"{place}/{rows}.zarr/X", answer, **asked), output, cluster, True)
    return {name: np.asarray(open_array(f"{output}/{name}")[...]) for name in found.shapes}


def nodes_of(forest: Forest, place: str, rows: str) -> np.ndarray:
    return scoring.apply(forest, forest.source(np.asarray(open_array(f"{place}/{rows}.zarr/X")[...])))


@pytest.mark.slow
@pytest.mark.parametrize("cells", [1, 100, 1 << 22])
@pytest.mark.parametrize("reference", [None, "new"])
@pytest.mark.parametrize("answer", ["proximity", "distance"])
def test_answers_to_rows_are_the_same_in_any_blocks(
    answer: str, reference: str | None, cells: int, forest: Forest, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("distforest.jobs.score.ANSWERS_PER_TASK", cells)
    found = answers_of(place, answer, **({"reference": reference} if reference else {}))[answer]
    nodes = nodes_of(forest, place, "new")
    others = nodes_of(forest, place, reference) if reference else forest.leaves
    expected = proximity(nodes, others) if answer == "proximity" else scoring.distance(forest, nodes, others)
    assert found.dtype == np.float32
    assert found.tobytes() == expected.astype(np.float32).tobytes()


def test_proximities_of_the_training_rows_are_symmetric_with_a_unit_diagonal(place: str) -> None:
    found = answers_of(place, "proximity", "training")["proximity"]
    assert found.tobytes() == found.T.copy().tobytes()
    assert (np.diagonal(found) == 1.0).all()


@pytest.mark.slow
@pytest.mark.parametrize("cells", [1, 100, 1 << 22])
@pytest.mark.parametrize("n_neighbors", [1, 7, 35])
@pytest.mark.parametrize("without_self", [False, True])
def test_neighbours_are_those_of_the_forest(
    without_self: bool, n_neighbors: int, cells: int, forest: Forest, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("distforest.jobs.score.ANSWERS_PER_TASK", cells)
    found = answers_of(place, "neighbors", "training", n_neighbors=n_neighbors, without_self=without_self)
    distances, indices = scoring.kneighbors(forest, forest.leaves, forest.leaves, n_neighbors, without_self)
    assert found["indices"].tolist() == indices.tolist()
    assert found["distance"].tobytes() == distances.astype(np.float32).tobytes()


@pytest.mark.slow
@pytest.mark.parametrize("forest", ["shared"], indirect=True)
def test_neighbours_in_parts_of_the_index_are_the_same(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = {"n_neighbors": 4, "without_self": True}
    expected = answers_of(place, "neighbors", "training", **asked)
    monkeypatch.setattr("distforest.jobs.score.ANSWERS_PER_TASK", 20)
    for part_rows in (1, 5, 36):
        room = NeighborRoom(part_rows, 12, 0)
        monkeypatch.setattr("distforest.jobs.score.room_for_neighbors", lambda *_of, room=room: room)
        found = answers_of(place, "neighbors", "training", **asked)
        assert found["indices"].tolist() == expected["indices"].tolist()
        assert found["distance"].tobytes() == expected["distance"].tobytes()


def test_a_graph_is_a_sparse_matrix_of_the_nearest(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = {"n_neighbors": 3, "without_self": True}
    near = answers_of(place, "neighbors", "training", **asked)
    monkeypatch.setattr("distforest.jobs.score.ANSWERS_PER_TASK", 20)
    found = answers_of(place, "graph", "training", **asked)
    assert found["indices"].tolist() == near["indices"].reshape(-1).tolist()
    assert found["data"].tobytes() == near["distance"].tobytes()
    assert found["indptr"].tolist() == list(range(0, 109, 3))
    store = open_matrix(f"{place}/answers.zarr")
    assert isinstance(store, SparseStore)
    dense = np.zeros((36, 36), np.float32)
    np.put_along_axis(dense, near["indices"], near["distance"], axis=1)
    assert store.whole().toarray().tobytes() == dense.tobytes()


def test_a_forest_or_an_index_that_no_worker_can_hold_is_refused(forest: Forest, place: str) -> None:
    question = Question(f"{place}/forest.zarr", f"{place}/training.zarr/X", "neighbors", n_neighbors=3)
    with pytest.raises(MemoryLimitError, match=naming("290.", f"{place}/forest.zarr", "100.0 MiB", "memory_limit")):
        score(question, f"{place}/other.zarr", Threads(1, memory_limit=100 << 20))
    if scoring.uses_proximity(forest):
        with pytest.raises(MemoryLimitError, match=naming("neighbours", "291")):
            score(question, f"{place}/other.zarr", Threads(1, memory_limit=291 << 20))
    assert not Path(place, "other.zarr").exists()


def test_chunks_of_queries_are_read_by_one_task(place: str) -> None:
    found = outline(Question(f"{place}/forest.zarr", f"{place}/training.zarr/X", "apply"))
    for chunk_rows, step in ((1, 65536), (50_000, 50_000), (20_000, 60_000), (100_000, 100_000), (1 << 23, 65536)):
        assert _step(replace(found, arrays={"prediction": ("int64", ())}, chunk_rows=chunk_rows)) == step


def test_wide_queries_are_read_in_smaller_tasks(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Question(f"{place}/forest.zarr", f"{place}/new.zarr/X", "apply")
    found = outline(asked)
    assert found.query_bytes == 4 * samples.features().shape[1]
    for query_bytes, chunk_rows, step in (
        (40_000, 1, 6710),
        (40_000, 1000, 6000),
        (40_000, 20_000, 20_000),  # a chunk is decoded as a whole
        (1 << 40, 1, 1),
    ):
        wide = replace(found, arrays={"prediction": ("int64", ())}, chunk_rows=chunk_rows, query_bytes=query_bytes)
        assert _step(wide) == step
    write_array(place, "pairs", (1, 2), np.dtype(int), [np.array([[0, 1]])])
    assert outline(replace(asked, answer="pairs", pairs=f"{place}/pairs")).query_bytes == 2 * found.query_bytes
    rows = samples.queries("labels", 20)
    write_array(f"{place}/few.zarr", "X", rows.shape, rows.dtype, [rows], chunk_bytes=3 * rows[0].nbytes)
    monkeypatch.setattr("distforest.jobs.score.QUERY_BYTES_PER_TASK", 7 * found.query_bytes)
    assert _step(outline(replace(asked, queries=f"{place}/few.zarr/X"))) == 6
    np.testing.assert_array_equal(answers_of(place, "apply", "few")["nodes"], answers_of(place, "apply")["nodes"])


def test_only_training_rows_can_leave_themselves_out(place: str) -> None:
    with pytest.raises(InputError, match=naming(f"{place}/new.zarr/X", 36, "20 rows", "`without_self`")):
        answers_of(place, "neighbors", without_self=True)
    with pytest.raises(InputError, match=naming("n_neighbors", "1..35", 36)):
        answers_of(place, "neighbors", "training", n_neighbors=36, without_self=True)
    assert not Path(place, "answers.zarr").exists()


@pytest.mark.parametrize("output", ["forest.zarr", "new.zarr", ".", "../{name}/forest.zarr/", "link"])
def test_answers_never_take_the_place_of_what_is_asked(place: str, output: str) -> None:
    Path(place, "link").symlink_to(Path(place, "new.zarr"))
    question = Question(f"{place}/forest.zarr", f"{place}/new.zarr/X", "distance")
    target = f"{place}/{output.format(name=Path(place).name)}"
    with pytest.raises(InputError, match=rf"^output\b.*'{target}'.*(forest|queries) is '"):
        score(question, target, Threads(1), overwrite=True)
    score(question, f"{place}/other.zarr", Threads(1), overwrite=True)


def test_queries_that_are_no_rows_are_refused_by_their_shape(place: str) -> None:
    write_array(f"{place}/labels.zarr", "y", (20,), np.dtype(np.int64), [np.arange(20)])
    question = Question(f"{place}/forest.zarr", f"{place}/labels.zarr/y", "distance")
    with pytest.raises(InputError, match=naming(f"{place}/labels.zarr/y: ", (20,))):
        score(question, f"{place}/other.zarr", Threads(1))


@pytest.mark.slow
@pytest.mark.cluster
@pytest.mark.parametrize("forest", ["shared"], indirect=True)
def test_workers_answer_what_threads_do(
    forest: Forest, place: str, cluster: OnDask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("distforest.jobs.score.ANSWERS_PER_TASK", 200)
    expected = [answers_of(place, "proximity"), answers_of(place, "neighbors")]
    found = [answers_of(place, answer, cluster=cluster) for answer in ("proximity", "neighbors")]
    for own, other in zip(expected, found, strict=True):
        assert samples.bits(own) == samples.bits(other)


@pytest.mark.parametrize("forest", ["shared"], indirect=True)
def test_answers_for_which_a_disk_has_no_room_say_which_and_how_much(
    place: str, small_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answered_on_a_full_disk(task: ScoreTask) -> None:
        with (small_disk / "filler").open("wb") as filler:
            os.posix_fallocate(filler.fileno(), 0, shutil.disk_usage(small_disk).free)
        answer_rows(task)

    monkeypatch.setattr("distforest.jobs.score.answer_rows", answered_on_a_full_disk)
    monkeypatch.setattr("distforest.jobs.cluster.RETRY_SECONDS", 0.0)
    question = Question(f"{place}/forest.zarr", f"{place}/new.zarr/X", "distance")
    output = small_disk / "answers.zarr"
    told = rf"[\d,]+ bytes .*{output}.job/answers.zarr/distance"
    with pytest.raises(JobError, match=told):
        score(question, str(output), Threads(1))
    assert [path.name for path in small_disk.iterdir()] == ["filler"]


def test_answers_of_which_a_worker_has_written_some_elsewhere_are_not_published(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answered_elsewhere(task: ScoreTask) -> None:
        answer_rows(task)
        if task.first:
            shutil.rmtree(f"{task.target}/indices/c/1")

    monkeypatch.setattr("distforest.jobs.score.ANSWERS_PER_TASK", 100)
    monkeypatch.setattr("distforest.jobs.score.answer_rows", answered_elsewhere)
    question = Question(f"{place}/forest.zarr", f"{place}/new.zarr/X", "neighbors", n_neighbors=10)
    with pytest.raises(JobError, match=naming("answers.zarr/indices", "1 of 2 chunks")):
        score(question, f"{place}/answers.zarr", Threads(1))
    assert not Path(f"{place}/answers.zarr").exists()
