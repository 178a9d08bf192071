"""Jobs whose rows lie in parts seal the forest of a job in memory: for any parts, any chunks, and after any death."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import distributed
import numpy as np
import pytest
from distributed import Client, LocalCluster

from distforest.errors import InputError, SpecError
from distforest.growth import parts
from distforest.jobs import on_dask, rounds
from distforest.jobs.cluster import Threads
from distforest.jobs.input_staging import stage_inputs
from distforest.jobs.on_dask import OnDask
from distforest.jobs.preview import faults_of_metadata, preview
from distforest.jobs.scratch_room import SMALL_BYTES, HostWorkers
from distforest.jobs.spec import Spec
from distforest.jobs.train import Options, fit
from distforest.jobs.tune_spec import TuneSpec
from distforest.jobs.worker_start import quiet_start
from distforest.sources.arrays import open_array, write_array
from distforest.stores.folder import Folder
from tests.jobs.faults import die_once
from tests.jobs.iris_jobs import run_in_parts
from tests.messages import naming

N_ROWS, N_COLUMNS = 300, 4


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Features with ties, complete and with holes, in three chunkings; truths of three kinds; weights."""
    rng = np.random.default_rng(4)
    X = rng.normal(size=(N_ROWS, N_COLUMNS)).astype(np.float32)
    X[:, 2] = np.round(X[:, 2])
    told = X[:, 0] + X[:, 2] + rng.normal(size=N_ROWS)
    holes = np.where(rng.random(X.shape) < 0.3, np.float32(np.nan), X)
    weights = rng.integers(0, 4, N_ROWS).astype(np.float64)
    weights[:75] = 0.0  # a part of four without a row that counts
    folder = str(tmp_path_factory.mktemp("store") / "data.zarr")
    for name, values, chunk in (
        ("X", X, 1 << 20),
        ("X_by_seven", X, 7 * 4 * N_COLUMNS),
        ("holes_by_sixty", holes, 60 * 4 * N_COLUMNS),
        ("holes", holes, 1 << 20),
        ("labels", (told > 0.0).astype(np.int64), 1 << 20),
        ("targets", told, 1 << 20),
        ("counts", np.round(np.abs(told)), 1 << 20),
        ("embedding", np.stack([told, rng.normal(size=N_ROWS)], axis=1), 1 << 20),
        ("weights", weights, 1 << 20),
        ("Z", np.abs(told[:, None] - told[None]), 1 << 20),
    ):
        write_array(folder, name, values.shape, values.dtype, [values], chunk_bytes=chunk)
    return folder


def spec_of(
    store: str,
    folder: Path,
    kind: str = "labels",
    X: str = "X",
    weights: bool = False,
    run: dict[str, object] | None = None,
    **params: object,
) -> Spec:
    further = {"sample_weight": f"{store}/weights"} if weights else {}
    return Spec.from_dict(
        {
            "format": 1,
            "method": "smerf",
            "seed": 5,
            "output": f"{folder}/forest.zarr",
            "input": {
                "features": f"{store}/{X}",
                "distances": {"kind": "targets" if kind == "counts" else kind, "values": f"{store}/{kind}"},
                **further,
            },
            "params": {"n_estimators": 3, "max_bins": 16, **params},
            "run": {"scratch": f"{folder}/scratch", "workers": 2, **(run or {})},
        }
    )


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["labels", "targets", "embedding"])
@pytest.mark.parametrize("weights", [False, True])
@pytest.mark.parametrize("X", ["X_by_seven", "holes"])
def test_parts_seal_the_forest_of_memory(store: str, tmp_path: Path, kind: str, weights: bool, X: str) -> None:
    spec = spec_of(store, tmp_path, kind, X, weights)
    digests = {run_in_parts(spec, Threads()).digest}
    for n_parts, rows_of_pack in ((1, 40), (2, 300), (3, 1), (4, 25)):
        of_parts = replace(spec, output=f"{tmp_path}/{n_parts}.zarr")
        digests.add(run_in_parts(of_parts, Threads(), n_parts, rows_of_pack).digest)
    assert len(digests) == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    "params",
    [
        {"bootstrap": False},
        {"bootstrap": False, "max_samples": 0.5},
        {"max_samples": 40},
        {"max_depth": 1},
        {"max_depth": 4, "min_samples_leaf": 5},
        {"max_features": 1},
        {"max_bins": 2},
        {"min_samples_split": 400},
        {"criterion": "entropy"},
        {"criterion": "poisson", "kind": "counts"},
    ],
    ids=str,
)
def test_parameters_mean_the_same_in_parts(store: str, tmp_path: Path, params: dict[str, Any]) -> None:
    spec = spec_of(store, tmp_path, X="holes_by_sixty", **params)
    expected = run_in_parts(spec, Threads())
    found = run_in_parts(replace(spec, output=f"{tmp_path}/parts.zarr"), Threads(), 3, 30)
    assert (found.digest, found.warnings) == (expected.digest, expected.warnings)


@pytest.mark.slow
def test_trees_of_both_kinds_make_one_forest(store: str, tmp_path: Path) -> None:
    """Rows in parts are no part of a job's fingerprint, so a forest may be grown on in another way."""
    expected = run_in_parts(spec_of(store, tmp_path, n_estimators=5), Threads()).digest
    spec = spec_of(store, tmp_path / "on", n_estimators=2)
    run_in_parts(spec, Threads(), 3, 30)
    assert run_in_parts(spec, Threads()).n_grown == 0, "it is sealed already, whichever way its trees grow"
    on = replace(spec, params={**spec.params, "n_estimators": 4})
    assert run_in_parts(on, Threads(), earlier=spec.output).n_grown == 2
    last = replace(spec, params={**spec.params, "n_estimators": 5})
    done = run_in_parts(last, Threads(), 2, 30, earlier=spec.output)
    assert (done.digest, done.n_grown) == (expected, 1)


@pytest.mark.slow
def test_only_rows_of_its_parts_are_staged(store: str, tmp_path: Path) -> None:
    spec = spec_of(store, tmp_path)
    run_in_parts(spec, Threads(), 3, 30)
    sizes = [file.stat().st_size for file in (tmp_path / "scratch").glob("*.npy")]
    assert sizes, "bins and truth are staged"
    assert max(sizes) < N_ROWS * N_COLUMNS * 4, "and no features"
    assert sum(sizes) <= preview(spec).scratch.staged <= sum(sizes) + SMALL_BYTES + 2048 * N_COLUMNS


def test_features_that_change_are_refused(store: str, tmp_path: Path) -> None:
    values = np.asarray(open_array(f"{store}/X")[...])
    write_array(f"{tmp_path}/own.zarr", "X", values.shape, values.dtype, [values])
    spec = spec_of(store, tmp_path)
    spec = replace(spec, input=replace(spec.input, addresses={"features": f"{tmp_path}/own.zarr/X"}))
    folder = Folder(f"{spec.output}.job")
    inputs = stage_inputs(spec, folder.address, 2)
    values[N_ROWS - 1, 0] += 1.0
    write_array(f"{tmp_path}/new.zarr", "X", values.shape, values.dtype, [values])
    Folder(f"{tmp_path}/own.zarr").remove()
    (tmp_path / "new.zarr").rename(tmp_path / "own.zarr")
    with pytest.raises(InputError, match=naming(f"{tmp_path}/own.zarr/X", "changed")):
        fit(inputs, spec.output, folder, Threads(), Options())


def test_a_tree_that_is_too_heavy_is_refused(store: str, tmp_path: Path) -> None:
    heavy = np.ones(N_ROWS)
    heavy[0] = 1_000_000_000.0  # which a tree that draws it thrice cannot add up
    write_array(f"{tmp_path}/own.zarr", "w", heavy.shape, heavy.dtype, [heavy])
    spec = spec_of(store, tmp_path, n_estimators=40)
    spec = replace(
        spec, input=replace(spec.input, addresses={**spec.input.addresses, "sample_weight": f"{tmp_path}/own.zarr/w"})
    )
    with pytest.raises(InputError, match=naming("sample_weight: ", "2,147,483,647", "max_samples")):
        run_in_parts(spec, Threads())
    with pytest.raises(InputError, match=naming("sample_weight: ", "2,147,483,647", "max_samples")):
        run_in_parts(replace(spec, output=f"{tmp_path}/p.zarr"), Threads(), 2)


# --- what a spec says -----------------------------------------------------------------------------------------


def test_auto_is_a_part_for_each_worker(store: str, tmp_path: Path) -> None:
    spec = spec_of(store, tmp_path, run={"parts": "auto"})
    seen = preview(spec)
    assert (seen.size.n_parts, len(seen.plan.tasks)) == (2, 3)
    assert preview(spec, hosts={"a.host": HostWorkers(7, 7)}).size.n_parts == 7
    assert preview(spec_of(store, tmp_path)).size.n_parts is None


def test_a_worker_holds_less_of_more_parts(store: str, tmp_path: Path) -> None:
    of_two, of_four = (preview(spec_of(store, tmp_path, run={"parts": n, "workers": n})) for n in (2, 4))
    assert of_two.size.part_bytes == N_ROWS * (N_COLUMNS + 4) // 2
    assert of_four.size.part_bytes == of_two.size.part_bytes // 2
    assert of_four.plan.projected_bytes < of_two.plan.projected_bytes
    shared = preview(spec_of(store, tmp_path, run={"parts": 4, "workers": 2}))
    assert shared.size.part_bytes == of_two.size.part_bytes, "two parts on each of two workers"


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ({"max_bins": "none"}, "no `max_bins`"),
        ({"splitter": "random"}, "splitter='random'"),
        ({"feature_weights": "dependence"}, "feature_weights='dependence'"),
        ({"max_bins": "none", "splitter": "random"}, "splitter='random', no `max_bins`"),
        ({"run": {"parts": 301}}, 301),
    ],
    ids=str,
)
def test_what_does_not_go_in_parts_is_refused_at_the_door(
    store: str, tmp_path: Path, given: dict[str, Any], found: object
) -> None:
    spec = spec_of(store, tmp_path, **{"run": {"parts": 2}, **given})
    with pytest.raises(SpecError, match=naming("run.parts: ", found)):
        preview(spec)
    assert any(re.match(naming("run.parts: ", found), fault) for fault in faults_of_metadata(spec))


def test_other_truths_and_methods_are_refused_at_the_door(store: str, tmp_path: Path) -> None:
    spec = spec_of(store, tmp_path, run={"parts": 2}).to_dict()
    distances = {**spec, "input": {"features": f"{store}/X", "distances": f"{store}/Z"}}
    absolute = {"kind": "targets", "values": f"{store}/targets", "metric": "absolute"}
    with pytest.raises(SpecError, match=naming("run.parts: ", "absolute differences")):
        preview(Spec.from_dict({**spec, "input": {"features": f"{store}/X", "distances": absolute}}))
    with pytest.raises(SpecError, match=r"run\.parts: .* distances;"):
        preview(Spec.from_dict(distances))
    without = {name: value for name, value in spec.items() if name != "params"}
    for method, own in (("urerf", {}), ("rfd", {"labels": f"{store}/labels"})):
        with pytest.raises(SpecError, match=naming("run.parts: ", f"method '{method}'")):
            preview(Spec.from_dict({**without, "method": method, "input": {"features": f"{store}/X", **own}}))


@pytest.mark.parametrize("parts", [0, -1, 1.5, "all", True])
def test_a_number_of_parts_that_is_none_is_refused(store: str, tmp_path: Path, parts: object) -> None:
    with pytest.raises(SpecError, match=naming("run.parts: ", "'auto'", f" {parts!r}")):
        spec_of(store, tmp_path, run={"parts": parts})


def test_a_tuning_job_has_no_parts(store: str, tmp_path: Path) -> None:
    table = {**spec_of(store, tmp_path, run={"parts": 2}).to_dict(), "job": "tune", "scoring": "roc_auc"}
    with pytest.raises(SpecError, match=naming("run.parts: ", "a fit")):
        TuneSpec.from_dict({**table, "grid": {"min_samples_leaf": [1, 2]}})


# --- on workers -----------------------------------------------------------------------------------------------


@contextmanager
def two_threads() -> Iterator[Client]:
    """Two workers in threads of this process."""
    with quiet_start():
        cluster = LocalCluster(n_workers=2, threads_per_worker=1, processes=False, dashboard_address="127.0.0.1:0")
    with cluster, Client(cluster) as client:
        yield client


@pytest.mark.slow
@pytest.mark.parametrize("n_parts", [1, 2, 3, 4])
def test_threads_of_workers_seal_the_forest_of_memory(store: str, tmp_path: Path, n_parts: int) -> None:
    spec = spec_of(store, tmp_path, X="holes")
    expected = run_in_parts(spec, Threads()).digest
    with two_threads() as client:
        of_parts = replace(spec, output=f"{tmp_path}/parts.zarr")
        assert run_in_parts(of_parts, OnDask(client), n_parts, 25).digest == expected


@pytest.mark.slow
def test_trees_that_grow_at_once_share_their_tasks(store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shared: list[tuple[str, int]] = []
    checked = rounds._checked

    def seen(links: Any) -> Callable[..., Any]:
        call = checked(links)

        def noted(function: Callable[..., object], places: Any, arguments: list[Any], near: int | None = None) -> Any:
            shared.append((function.__name__, len(arguments)))
            return call(function, places, arguments, near=near)

        return noted

    monkeypatch.setattr(rounds, "_checked", seen)
    digests, levels = set(), []
    with two_threads() as client:
        for batch in (1, 3):
            shared.clear()
            spec = replace(spec_of(store, tmp_path, X="holes"), output=f"{tmp_path}/{batch}.zarr")
            digests.add(run_in_parts(spec, OnDask(client), 2, 25, batch=batch).digest)
            levels.append([n_trees for name, n_trees in shared if name == "decide_level"])
            assert max(n_trees for name, n_trees in shared if name in ALONE) == 1
    of_one, of_three = levels
    assert len(digests) == 1
    assert sum(of_three) == len(of_one)
    assert (set(of_one), max(of_three)) == ({1}, 3)


ALONE = ("draw_part", "finish_packs", "walk_part", "commit_tree")
"""What needs much room, or lasts: a tree does it in a task of its own."""


def test_tasks_of_a_place_are_sent_together_after_those_they_need() -> None:
    def task(key: str, where: str | None, *needs: object) -> on_dask._LinkedTask:
        return on_dask._LinkedTask(key, (print, *needs), where)

    one, other = task("one", "a"), task("other", "b")
    first, second = task("first", "a", one), task("second", "b", [other, [one]])
    answer = task("answer", None, [first, second])
    sent = [[own.key for own in message] for message in on_dask._messages([one, other, first, second, answer])]
    assert sent == [["one", "first"], ["other", "second"], ["answer"]]
    late = task("late", "a", second)
    sent = [[own.key for own in message] for message in on_dask._messages([one, other, second, late])]
    assert sent == [["one"], ["other", "second"], ["late"]]


def test_an_error_of_a_part_is_the_error_of_the_job(
    store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_arguments: object) -> None:
        raise InputError("this part is refused")

    monkeypatch.setattr(rounds, "codes_of_part", refuse)
    with two_threads() as client, pytest.raises(InputError, match="this part is refused"):
        run_in_parts(spec_of(store, tmp_path), OnDask(client), 3, 25)


PHASES = ("open_part", "tally_part", "packet_of", "descend_pack", "after commit_tree")
"""One of each kind: rows are read, they answer, they move, nodes are finished, and a tree is committed."""


class DyingPhase(distributed.WorkerPlugin):
    """The first worker that comes to the ``count``-th call of a phase dies, by SIGKILL, before it or after it."""

    def __init__(self, record: Path, phase: str, count: int) -> None:
        self.record, self.phase, self.count = str(record), phase, count

    def setup(self, worker: distributed.Worker) -> None:
        name = self.phase.removeprefix("after ")
        self.home: Any = next(home for home in (parts, rounds) if vars(home).get(name))
        self.name, self.sound = name, getattr(self.home, name)
        calls: list[None] = []
        sound: Callable[..., Any] = self.sound

        def dying(*arguments: Any) -> Any:
            calls.append(None)
            is_now = len(calls) >= self.count
            if is_now and self.phase == name:
                die_once(self.record)
            answer = sound(*arguments)
            if is_now and self.phase != name:
                die_once(self.record)
            return answer

        setattr(self.home, name, dying)

    def teardown(self, worker: distributed.Worker) -> None:
        setattr(self.home, self.name, self.sound)


@pytest.fixture(scope="module")
def digest_of_memory(store: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    return run_in_parts(spec_of(store, tmp_path_factory.mktemp("memory"), X="holes"), Threads()).digest


@pytest.mark.slow
@pytest.mark.cluster
@pytest.mark.parametrize("phase", PHASES)
def test_a_worker_that_dies_costs_no_tree(
    cluster: OnDask, store: str, tmp_path: Path, digest_of_memory: str, phase: str
) -> None:
    count = 1 if phase in {"open_part", "after commit_tree"} else 2
    client = cluster.client
    client.register_plugin(DyingPhase(tmp_path, phase, count), name="dying")
    try:
        fitted = run_in_parts(spec_of(store, tmp_path, X="holes"), cluster, 3, 25)
    finally:
        client.wait_for_workers(2, timeout=60)
        client.unregister_worker_plugin("dying")
    assert (tmp_path / "died").exists()
    assert (fitted.digest, fitted.n_trees) == (digest_of_memory, 3)
