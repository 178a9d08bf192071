"""One digest for every schedule and every fault, and the number of times each tree was grown."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import re
import signal
import sys
import threading
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from datetime import timedelta
from functools import partial
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import dask
import distributed
import numpy as np
import pytest
from distributed import Client, LocalCluster
from distributed.core import Status
from distributed.scheduler import KilledWorker
from sklearn.datasets import load_iris

from distforest.errors import CancelledJobError, InputError, JobError, MemoryLimitError
from distforest.forest.leaf_kinds import KeepsLeafDistances
from distforest.forest.scoring import apply, distance
from distforest.forest.sealed.artifact import open_forest
from distforest.growth.problem import Problem
from distforest.jobs import able_workers, merge, on_dask, shared_folders, train, worker_start
from distforest.jobs.cluster import Threads, Work
from distforest.jobs.input_staging import stage_inputs
from distforest.jobs.inputs import Inputs, forget_job
from distforest.jobs.on_dask import FIRST_TASKS, Fetched, OnDask, local_cluster
from distforest.jobs.question import Question
from distforest.jobs.score import score
from distforest.jobs.shards import Receipt, committed_shards
from distforest.jobs.spec import Spec
from distforest.jobs.stop import SIGN
from distforest.jobs.train import GrowTask, Options, fit, fit_here
from distforest.sources.arrays import write_array
from distforest.stores.folder import Folder
from tests.jobs.faults import POINTS, Faults, faulty, growths
from tests.messages import naming
from tests.service.processes import until

N_TREES = 50


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Iris as Zarr: features in three chunkings, distances, labels, a similarity with unobserved entries."""
    folder = tmp_path_factory.mktemp("store")
    X, y = load_iris(return_X_y=True)
    Z = np.abs(X[:, None, 2] - X[None, :, 2])
    S = (X @ X.T).astype(np.float32)
    S[np.random.default_rng(0).random(S.shape) < 0.05] = np.nan
    for name, values, chunk in (
        ("X", X, 1 << 20),
        ("X_by_ten", X, 320),
        ("X_by_seven", X, 224),
        ("Z", Z, 1 << 14),
        ("y", y, 1 << 20),
        ("S", S, 1 << 14),
    ):
        write_array(str(folder / "iris.zarr"), name, values.shape, values.dtype, [values], chunk_bytes=chunk)
    return folder / "iris.zarr"


def spec_of(store: Path, scratch: Path, method: str = "smerf", features: str = "X", **params: object) -> Spec:
    addresses = {
        "smerf": {"features": f"{store}/{features}", "distances": f"{store}/Z"},
        "labels": {"features": f"{store}/{features}", "distances": {"kind": "labels", "values": f"{store}/y"}},
        "simforest": {"similarity": f"{store}/S", "labels": f"{store}/y"},
    }
    return Spec.from_dict(
        {
            "format": 1,
            "method": "simforest" if method == "simforest" else "smerf",
            "seed": 11,
            "output": "unused.zarr",
            "input": addresses[method],
            "params": {"n_estimators": N_TREES, **params},
            "run": {"scratch": str(scratch)},
        }
    )


@pytest.fixture
def inputs(store: Path, tmp_path: Path) -> Inputs:
    return stage_inputs(spec_of(store, tmp_path / "scratch"), str(tmp_path / "job"))


@pytest.fixture(scope="module")
def reference(store: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The digest of the run in one thread, in memory."""
    folder = tmp_path_factory.mktemp("reference")
    staged = stage_inputs(spec_of(store, folder / "scratch"), str(folder / "job"))
    return fit_here(staged.problem()).digest


def fit_staged(inputs: Inputs, folder: Path, cluster: object, **options: object) -> train.Fitted:
    job = Folder(str(folder / "job"))
    return fit(inputs, str(folder / "forest.zarr"), job, cluster, Options(**options))  # type: ignore[arg-type]


@pytest.mark.slow
@pytest.mark.parametrize("features", ["X", "X_by_ten", "X_by_seven"])
def test_chunking_does_not_change_the_forest(store: Path, tmp_path: Path, reference: str, features: str) -> None:
    staged = stage_inputs(spec_of(store, tmp_path / "scratch", features=features), str(tmp_path / "job"))
    assert fit_staged(staged, tmp_path, Threads(1)).digest == reference


@pytest.mark.slow
def test_a_job_tells_of_trees_without_a_cut(
    store: Path, tmp_path: Path, inputs: Inputs, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise JobError("the store is full")

    staged = stage_inputs(spec_of(store, tmp_path / "scratch", min_samples_leaf=76), str(tmp_path / "job"))
    monkeypatch.setattr(train, "merge", fails)
    with pytest.raises(JobError, match="the store is full"):
        fit_staged(staged, tmp_path, Threads(2), batch=7)
    monkeypatch.undo()
    fitted = fit_staged(staged, tmp_path, Threads(2))
    [told] = fitted.warnings
    assert re.search(naming("150 rows", "min_samples_leaf=76"), told)
    assert fitted.n_grown == 0  # it is told by the receipts of shards that are there
    [again] = fit_staged(staged, tmp_path, Threads(2)).warnings  # sealed already
    assert told.startswith(f"{again}:")
    assert fit_staged(inputs, tmp_path, Threads(2), overwrite=True).warnings == ()


@pytest.mark.slow
@pytest.mark.parametrize("batch", [1, 7, 50])
@pytest.mark.parametrize("threads", [1, 3])
def test_threads_and_batches_do_not_change_the_forest(
    inputs: Inputs, tmp_path: Path, reference: str, threads: int, batch: int
) -> None:
    fitted = fit_staged(inputs, tmp_path, Threads(threads), batch=batch)
    assert (fitted.digest, fitted.n_grown) == (reference, N_TREES)
    assert open_forest(fitted.address).digest == reference
    assert not (tmp_path / "job").exists()


def test_a_sign_to_stop_that_comes_as_a_shard_is_written_leaves_none(
    inputs: Inputs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shards, job, commit = Folder(str(tmp_path / "shards")), Folder(str(tmp_path / "job")), train.commit

    def late(*given: Any) -> Receipt:
        receipt = commit(*given)
        job.write(SIGN, b"")
        return receipt

    monkeypatch.setattr(train, "commit", late)
    with pytest.raises(CancelledJobError):
        train.grow_shard(GrowTask(inputs, shards.address, 0, 1, job.address))
    assert shards.names() == []


def test_a_sign_to_stop_that_comes_while_shards_are_merged_leaves_no_forest(
    inputs: Inputs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job, check_written = Folder(str(tmp_path / "sign")), merge.check_written

    def late(*given: Any) -> None:
        check_written(*given)
        job.write(SIGN, b"")

    monkeypatch.setattr(merge, "check_written", late)
    with pytest.raises(CancelledJobError):
        fit_staged(inputs, tmp_path, Threads(1), stop=job.address)
    assert not (tmp_path / "forest.zarr").exists()


@pytest.fixture(scope="module")
def cluster() -> Iterator[OnDask]:
    """One cluster for the tests of this file, as a worker takes seconds to start; it begins with one process."""
    with local_cluster(1) as cluster:
        yield cluster


@pytest.mark.cluster
@pytest.mark.parametrize(("workers", "batch"), [(1, 50), (2, 7), (3, 1)])
def test_processes_do_not_change_the_forest(
    cluster: OnDask, inputs: Inputs, tmp_path: Path, reference: str, workers: int, batch: int
) -> None:
    cluster.client.cluster.scale(workers)
    cluster.client.wait_for_workers(workers, timeout=60)
    assert cluster.slots == workers
    assert fit_staged(inputs, tmp_path, cluster, batch=batch).digest == reference


@pytest.mark.cluster
def test_workers_are_seen_whatever_the_client_asks_by_itself(cluster: OnDask, monkeypatch: pytest.MonkeyPatch) -> None:
    """Dask's client asks for none of the workers now and then, and may keep that answer just before it is read."""

    async def ask_for_none(**_: object) -> None:
        cluster.client._scheduler_identity = {"workers": {}}

    monkeypatch.setattr(cluster.client, "_update_scheduler_info", ask_for_none)
    assert cluster.client.scheduler_info(n_workers=-1)["workers"] == {}
    assert (cluster.slots, cluster.threads) == (len(cluster.client.nthreads()), 1)


def warnings_about_slow_folders() -> list[str]:
    """What a process says of Dask's warning."""
    with warnings.catch_warnings(record=True) as told:
        warnings.warn("Creating scratch directories is taking a surprisingly long time. (1.50s)", stacklevel=1)
    return [str(warning.message) for warning in told]


@pytest.mark.slow
@pytest.mark.cluster
@pytest.mark.filterwarnings("error")
def test_a_cluster_starts_without_a_word_on_a_machine_that_is_busy(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Dask warns in this process and in those of its workers; here a warning is an error."""
    times = []

    def always(_duration: str, message: str) -> AbstractContextManager[None]:
        times.append(message)
        return distributed.utils.warn_on_duration(timedelta(seconds=-1), message)

    monkeypatch.setattr(distributed.core, "warn_on_duration", always)
    monkeypatch.setattr(worker_start, "start_method", lambda: "spawn")  # for the environment that they are started in
    with local_cluster(1, folder=tmp_path) as cluster:
        assert times
        (told,) = cluster.client.run(warnings_about_slow_folders).values()
        assert told == []
        with pytest.raises(UserWarning, match="surprisingly long time"):
            warnings_about_slow_folders()  # elsewhere it is heard, as before


def heard_of_a_worker() -> list[str]:
    """What a process lets through of four errors that Dask logs in a worker."""
    said: list[tuple[str, tuple[str, ...]]] = [
        ("Failed to communicate with scheduler during heartbeat.", ()),
        ("Timed out when closing", ()),
        ("Compute Failed: %s %r", ("key", "PermissionError(13, 'Permission denied')")),
        ("Compute Failed: %s %r", ("key", "ValueError('of the package')")),
    ]
    records = [logging.LogRecord("distributed.worker", logging.ERROR, "", 0, *what, None) for what in said]
    return [record.getMessage() for record in records if logging.getLogger("distributed.worker").filter(record)]


@pytest.mark.slow
@pytest.mark.cluster
def test_what_the_job_tells_in_the_end_or_nobody_can_mend_is_no_news(cluster: OnDask) -> None:
    heard = list(cluster.client.run(heard_of_a_worker).values())
    assert heard
    news = ["Timed out when closing", "Compute Failed: key \"ValueError('of the package')\""]
    assert all(one == news for one in heard)
    assert len(heard_of_a_worker()) == 4  # elsewhere all of it is heard


@pytest.mark.cluster
def test_a_closed_client_is_refused(cluster: OnDask) -> None:
    with Client(cluster.client.scheduler.address, set_as_default=False) as client:
        pass
    with pytest.raises(JobError, match="closed"):
        _ = OnDask(client).slots


@pytest.mark.slow
@pytest.mark.cluster
def test_a_client_that_is_closed_while_its_job_runs_is_named(cluster: OnDask) -> None:
    client = Client(cluster.client.scheduler.address, set_as_default=False)

    def close(_answer: object) -> None:
        client.close()

    with pytest.raises((JobError, ConnectionError), match="closed"):
        OnDask(client).each(abs, range(40), Work("grow", on_answer=close))


@pytest.mark.slow
@pytest.mark.cluster
def test_a_scheduler_that_has_died_is_reported_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Dask tries for half a minute to reach it, and then says that a pool of connections is closing."""
    monkeypatch.setattr(on_dask, "RECONNECTION", 0.0)
    with LocalCluster(n_workers=0, processes=False, dashboard_address="127.0.0.1:0") as scheduler:
        client = Client(scheduler.scheduler_address, set_as_default=False)
        address = scheduler.scheduler_address
    with client, pytest.raises(ConnectionError, match=address):
        _ = OnDask(client).slots


@pytest.mark.slow
@pytest.mark.cluster
def test_a_scheduler_that_is_lost_is_reported_without_a_traceback_of_dask(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(on_dask, "RECONNECTION", 0.5)
    with LocalCluster(n_workers=0, processes=False, dashboard_address="127.0.0.1:0") as scheduler:
        connection = on_dask.connected(scheduler.scheduler_address)
        cluster = connection.__enter__()
    with pytest.raises(ConnectionError, match=scheduler.scheduler_address) as caught:
        _ = cluster.slots
    connection.__exit__(None, None, None)
    assert caught.type is ConnectionError
    assert [record for record in caplog.records if record.name == "distributed.client" and record.exc_info] == []


@pytest.mark.cluster
def test_out_of_memory_names_batches_where_there_are_any(cluster: OnDask) -> None:
    worker = SimpleNamespace(address="tcp://127.0.0.1:1", memory_limit=1 << 30)
    scheduler = cluster.client.scheduler
    event = {"worker": worker.address, "rss": 1000 << 20}
    cluster.client.sync(scheduler.log_event, topic="worker-restart-memory", msg=event)
    lost = Fetched(error=KilledWorker("key", worker, 3))
    named = naming("score: rows 0 to 9 ", worker.address, "4 times", "1,000 MiB of 1,024 MiB", "run.memory_limit")
    with pytest.raises(JobError, match=named) as caught:
        cluster._answer(lost, "rows 0 to 9", Work("score"))
    assert "run.batch" not in str(caught.value)
    why = cluster._answer(lost, "tree 3", Work("grow", keep_going=True)).why
    assert re.search(r"run\.memory_limit.*run\.batch$", why)


def test_an_answer_whose_request_was_given_up_for_another_one_is_fetched_again() -> None:
    """An answer that does not arrive in time takes those with it that Dask has asked for together."""

    async def fetch() -> list[Fetched | None]:
        shared = asyncio.get_running_loop().create_future()

        async def result(timeout: float) -> object:
            return await asyncio.wait_for(shared, timeout)

        fetching = asyncio.ensure_future(on_dask._fetch_all([SimpleNamespace(result=result)]))
        await asyncio.sleep(0)
        asyncio.get_running_loop().call_soon(shared.cancel)
        return await fetching

    assert asyncio.run(fetch()) == [None]


def write_into(place: str) -> None:
    Folder(place).write("x", b"")


@pytest.mark.slow
@pytest.mark.cluster
def test_a_worker_that_cannot_write_is_named_with_the_file(cluster: OnDask, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    place = tmp_path / "file" / "folder"
    [worker] = set(cluster.threads_now()) if cluster.n_workers == 1 else [r"\S+"]
    with pytest.raises(JobError, match=rf"^write: {place} .*1 time.*NotADirectoryError: .*'{place}'.* {worker}$"):
        cluster.each(write_into, [str(place)], Work("write", retries=0))


@pytest.mark.slow
@pytest.mark.cluster
def test_an_adaptive_cluster_without_workers_starts_some() -> None:
    with (
        dask.config.set({"distributed.worker.preload": []}),  # of the cluster of other tests, for processes
        LocalCluster(n_workers=0, processes=False, dashboard_address="127.0.0.1:0") as adaptive,
        Client(adaptive, set_as_default=False) as client,
    ):
        adaptive.adapt(minimum=0, maximum=1, interval="100ms")
        assert OnDask(client).n_workers == 1
        assert OnDask(client).each(abs, [-1], Work("absolute")) == [1]


@pytest.mark.cluster
def test_a_cluster_that_never_had_workers_is_not_said_to_have_lost_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(on_dask, "WORKER_PATIENCE", 0.0)
    with (
        LocalCluster(n_workers=0, processes=False, dashboard_address="127.0.0.1:0") as scheduler,
        Client(scheduler, set_as_default=False) as client,
        pytest.raises(JobError, match=naming("no workers", "0 s", "`dask worker ADDRESS`")),
    ):
        _ = OnDask(client).slots
    with pytest.raises(JobError, match=naming("no workers", "31 s", "died")):
        on_dask.give_up(0, 31.0)


@pytest.mark.cluster
def test_a_run_whose_workers_are_all_paused_says_so_and_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Dask pauses a worker whose memory is nearly full, and nothing on the client's side would say so."""
    monkeypatch.setattr(on_dask, "PAUSED_LOOK", 0.0)
    monkeypatch.setattr(on_dask, "PAUSED_PATIENCE", 0.0)
    monkeypatch.setattr(on_dask, "LOOK", 0.0)
    told = []
    with (
        dask.config.set({"distributed.worker.preload": []}),  # of the cluster of other tests, for processes
        LocalCluster(n_workers=1, processes=False, dashboard_address="127.0.0.1:0") as paused,
        Client(paused) as client,
    ):
        (worker,) = paused.workers.values()

        async def set_status(status: Status) -> None:
            worker.status = status

        def hear(text: str) -> None:
            told.append(text)
            client.sync(set_status, Status.running)

        monkeypatch.setattr(on_dask, "warn_caller", hear)
        client.sync(set_status, Status.paused)
        assert OnDask(client).each(abs, [-1], Work("absolute")) == [1]
    assert len(told) == 1
    assert "paused" in told[0]


@pytest.mark.cluster
def test_a_client_whose_loop_would_wait_for_itself_is_refused(cluster: OnDask) -> None:
    address = cluster.client.scheduler.address

    async def here(*, in_a_thread: bool) -> int:
        async with Client(address, asynchronous=True, set_as_default=False) as client:
            ask = lambda: OnDask(client).slots  # noqa: E731
            return await asyncio.to_thread(ask) if in_a_thread else ask()

    with pytest.raises(JobError, match="`asynchronous=True`"):
        asyncio.run(here(in_a_thread=False))
    assert asyncio.run(here(in_a_thread=True)) == cluster.slots


@pytest.mark.cluster
def test_workers_without_the_package_are_reported_before_they_get_a_task(monkeypatch: pytest.MonkeyPatch) -> None:
    """Dask ends a worker that cannot import what a task needs; here that is a module which is there for a while."""
    monkeypatch.setattr(able_workers, "NEEDED", "needed_by_tasks")
    told = naming("worker inproc://", "distforest ", "ModuleNotFoundError: ", "needed_by_tasks")
    with (
        dask.config.set({"distributed.worker.preload": []}),  # of the cluster of other tests, for processes
        LocalCluster(n_workers=1, processes=False, dashboard_address="127.0.0.1:0") as workers,
        Client(workers, set_as_default=False) as client,
        Client(workers, set_as_default=False) as other,
    ):
        for own in (client, other):  # the worker tries once, and all clients know
            with pytest.raises(JobError, match=told):
                OnDask(own).each(abs, [-1], Work("absolute"))
        monkeypatch.setitem(sys.modules, "needed_by_tasks", ModuleType("needed_by_tasks"))
        monkeypatch.setattr(able_workers, "PLUGIN", "another version")
        assert OnDask(client).each(abs, [-1, 2], Work("absolute")) == [1, 2]
        monkeypatch.delitem(sys.modules, "needed_by_tasks")
        assert OnDask(other).each(abs, [-3], Work("absolute")) == [3]
        workers.scale(2)
        client.wait_for_workers(2, timeout=60)
        with pytest.raises(JobError, match=told):
            OnDask(client).each(abs, [-1], Work("absolute"))


@pytest.mark.cluster
@pytest.mark.parametrize("job", ["fit", "score"])
def test_workers_that_do_not_see_the_output_are_reported_before_anything_is_lost(
    inputs: Inputs, cluster: OnDask, job: str
) -> None:
    """A job would succeed whose forest's chunks lie on another host; here each process has files in memory."""
    cluster.client.run(setattr, shared_folders, "PAUSES", (0.0,))
    output = f"memory://unshared/{job}.zarr"
    question = Question("memory://unshared/forest.zarr", "memory://unshared/X", "distance")
    run = {
        "fit": partial(fit, inputs, output, Folder(f"{output}.job"), cluster, Options()),
        "score": partial(score, question, output, cluster),
    }
    with pytest.raises(JobError, match=rf"worker tcp://\S+ .*{output}\S+, "):
        run[job]()
    assert not Folder("memory://unshared").names()


GATE, RAN = threading.Event(), list[str]()


def run_at_the_gate(name: str) -> None:
    """A task on a worker in a thread of this process."""
    assert GATE.wait(60)
    RAN.append(name)
    time.sleep(0.02)


@pytest.mark.cluster
def test_the_scheduler_runs_short_tasks_first_then_a_higher_priority_then_the_job_that_has_had_least() -> None:
    """A job of long tasks is under way; four others come, while a worker with one thread is busy with the first."""
    GATE.clear()
    RAN.clear()
    with (
        dask.config.set({"distributed.worker.preload": [], "distributed.scheduler.worker-saturation": 1.0}),
        LocalCluster(n_workers=1, threads_per_worker=1, processes=False, dashboard_address="127.0.0.1:0") as one,
        Client(one, set_as_default=False) as client,
        ThreadPoolExecutor(4) as jobs,
    ):
        scheduler = one.scheduler

        def submit(cluster: OnDask, name: str, n_tasks: int, work: Work) -> None:
            before = len(scheduler.tasks)
            running = jobs.submit(cluster.each, run_at_the_gate, [name] * n_tasks, work)
            until(lambda: running.done() or len(scheduler.tasks) == before + min(n_tasks, FIRST_TASKS), 30.0)
            assert not running.done(), running.exception()

        old = OnDask(client, "old", method="smerf", seconds={"a worker that has left": 60.0})
        submit(old, "old", 20, Work("grow"))
        submit(OnDask(client, "urgent", method="rfd", priority=1.0), "urgent", 1, Work("grow"))
        submit(OnDask(client, "new", method="rfd"), "new", 6, Work("grow"))
        submit(OnDask(client, "new", method="rfd"), "short", 1, Work("survey", first=True))
        assert {"smerf-grow", "rfd-grow", "rfd-survey"} <= set(scheduler.task_prefixes)
        GATE.set()
        until(lambda: len(scheduler.queued) > 10, 30.0)  # an autoscaler sees what waits
    assert RAN[:5] == ["old", "short", "urgent", "new", "new"]
    assert Counter(RAN) == {"old": 20, "short": 1, "urgent": 1, "new": 6}
    assert 60.0 < sum(old.seconds.values()) < 80.0


@pytest.mark.cluster
def test_silent_workers_are_named_once_and_not_called(monkeypatch: pytest.MonkeyPatch) -> None:
    told = list[str]()
    monkeypatch.setattr(on_dask, "PAUSED_LOOK", 0.0)
    monkeypatch.setattr(on_dask, "LOOK", 0.0)
    monkeypatch.setattr(on_dask, "warn_caller", told.append)
    RAN.clear()
    GATE.set()
    with (
        dask.config.set({"distributed.worker.preload": []}),  # of the cluster of other tests, for processes
        LocalCluster(n_workers=2, threads_per_worker=1, processes=False, dashboard_address="127.0.0.1:0") as workers,
        Client(workers, set_as_default=False) as client,
    ):
        cluster = OnDask(client)
        assert cluster.each(abs, [-1], Work("absolute")) == [1]
        cluster.everywhere(run_at_the_gate, "here and where a task ran")
        assert len(RAN) == 2
        assert not told
        monkeypatch.setattr(on_dask, "silent_among", lambda found: dict.fromkeys(found, 14.0))
        cluster.everywhere(run_at_the_gate, "here")
        assert RAN[2:] == ["here"]
        for _ in range(2):
            assert OnDask(client).each(abs, [-1, 2], Work("absolute")) == [1, 2]
        assert len(told) == 2
        assert all(re.search(naming(address, "14 s ago"), text) for address in client.nthreads() for text in told)


@pytest.mark.cluster
def test_ctrl_c_before_the_client_s_loop_has_begun_to_ask_is_no_error_of_the_loop(
    cluster: OnDask, caplog: pytest.LogCaptureFixture
) -> None:
    main, interrupted = threading.get_ident(), threading.Event()

    def hold_the_loop() -> None:
        while sys._current_frames()[main].f_code.co_name != "wait":
            pass  # until it waits for the answer
        signal.pthread_kill(main, signal.SIGINT)
        assert interrupted.wait(60)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell starts background jobs without it
    cluster.client.loop.add_callback(hold_the_loop)
    try:
        with pytest.raises(KeyboardInterrupt):
            _ = cluster.slots
    finally:
        signal.signal(signal.SIGINT, before)
        interrupted.set()
    assert cluster.slots > 0  # the loop has gone on
    assert not [record for record in caplog.records if record.name == "tornado.application"]


@pytest.mark.cluster
@pytest.mark.parametrize("point", POINTS)
def test_a_killed_worker_costs_its_own_task_and_changes_nothing(
    cluster: OnDask, inputs: Inputs, tmp_path: Path, reference: str, point: str
) -> None:
    record = tmp_path / "record"
    record.mkdir()
    cluster.client.cluster.scale(3)
    cluster.client.wait_for_workers(3, timeout=60)
    with faulty(cluster, Faults(record, tree=13, point=point)):
        fitted = fit_staged(inputs, tmp_path, cluster, batch=5)
    assert (record / "died").exists()
    assert fitted.digest == reference
    twice = set(range(10, 15)) if point == "after_growth" else set()  # grown, but not committed, before the kill
    assert growths(record) == {tree: 2 if tree in twice else 1 for tree in range(N_TREES)}


@pytest.mark.slow
@pytest.mark.parametrize("method", ["smerf", "labels", "simforest"])
def test_an_interrupted_job_is_completed_by_running_it_again(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    staged = stage_inputs(spec_of(store, tmp_path / "scratch", method), str(tmp_path / "job"))
    undisturbed = fit_here(staged.problem()).digest
    grow, grown = Problem.grow, []

    def interrupted(self: Problem, trees: np.ndarray) -> dict[str, np.ndarray]:
        if len(grown) == 3:
            raise KeyboardInterrupt
        grown.append(trees.tolist())
        return grow(self, trees)

    monkeypatch.setattr(Problem, "grow", interrupted)
    with pytest.raises(KeyboardInterrupt):
        fit_staged(staged, tmp_path, Threads(1), batch=7)
    assert not (tmp_path / "forest.zarr").exists()
    grown.clear()
    monkeypatch.setattr(Problem, "grow", lambda self, trees: grown.append(trees.tolist()) or grow(self, trees))
    fitted = fit_staged(staged, tmp_path, Threads(1), batch=4)
    assert fitted.digest == undisturbed
    assert sorted(tree for batch in grown for tree in batch) == list(range(21, N_TREES))
    assert fitted.n_grown == N_TREES - 21


def test_a_damaged_shard_is_grown_again(inputs: Inputs, tmp_path: Path, reference: str) -> None:
    fit_staged(inputs, tmp_path, Threads(1), batch=10, keep_shards=True)
    shards = next((tmp_path / "job").glob("shards-*"))
    first, second, third, *_ = sorted(shards.iterdir())
    first.write_bytes(first.read_bytes()[:-200])
    damaged = bytearray(second.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    second.write_bytes(damaged)
    third.write_bytes(b"no shard at all")
    assert [receipt.first for receipt in committed_shards(Folder(str(shards)))] == [30, 40]
    again = fit(inputs, str(tmp_path / "again.zarr"), Folder(str(tmp_path / "job")), Threads(1), Options(batch=10))
    assert (again.digest, again.n_grown) == (reference, 30)


def test_a_merge_that_was_interrupted_is_done_again(
    inputs: Inputs, tmp_path: Path, reference: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    merge_rows = merge.merge_rows

    def failing(task: merge.MergeTask) -> list[list[str]]:
        if any(span.name == "gain" for span in task.spans):
            raise KeyboardInterrupt
        return merge_rows(task)

    monkeypatch.setattr(merge, "merge_rows", failing)
    with pytest.raises(KeyboardInterrupt):
        fit_staged(inputs, tmp_path, Threads(1))
    assert not (tmp_path / "forest.zarr").exists()
    monkeypatch.setattr(merge, "merge_rows", merge_rows)
    fitted = fit_staged(inputs, tmp_path, Threads(2))
    assert (fitted.digest, fitted.n_grown) == (reference, 0)


@pytest.mark.slow
def test_a_small_chunk_and_a_small_merge_task_change_the_layout_alone(
    inputs: Inputs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("forest.forest", "jobs.merge"):
        monkeypatch.setattr(f"distforest.{module}.SEALED_CHUNK_BYTES", 1 << 10)
    monkeypatch.setattr("distforest.jobs.plan.MERGE_BYTES", 1 << 11)
    fitted = fit_staged(inputs, tmp_path, Threads(2), batch=7)
    assert fitted.digest == fit_here(inputs.problem()).digest
    assert open_forest(fitted.address).digest == fitted.digest


def test_leaf_tables_are_kept_where_they_are_smaller_and_say_the_same(store: Path, tmp_path: Path) -> None:
    shallow = stage_inputs(spec_of(store, tmp_path / "scratch", max_depth=2), str(tmp_path / "job"))
    fitted = fit_staged(shallow, tmp_path, Threads(1))
    tables = open_forest(fitted.address)
    assert tables.meaning.leaf == KeepsLeafDistances()
    problem = shallow.problem()
    arrays = problem.grow(np.arange(N_TREES))
    del arrays["leaf_distances"]
    members = type(tables).from_arrays(problem.meaning, {**arrays, "distances": problem.data.truth.values})
    members.check()
    rows = apply(tables, tables.source(problem.data.matrix))
    np.testing.assert_array_equal(distance(tables, rows, rows), distance(members, rows, rows))


def test_a_finished_job_is_not_done_again_and_another_is_not_overwritten(
    store: Path, inputs: Inputs, tmp_path: Path, reference: str
) -> None:
    fit_staged(inputs, tmp_path, Threads(1))
    assert fit_staged(inputs, tmp_path, Threads(1)) == train.Fitted(
        str(tmp_path / "forest.zarr"), reference, N_TREES, 0, 0.0, 0.0, 0, 0
    )
    other = dataclasses.replace(inputs, seed=12)
    with pytest.raises(InputError, match=naming(tmp_path / "forest.zarr", "another job")):
        fit_staged(other, tmp_path, Threads(1))
    assert open_forest(str(tmp_path / "forest.zarr")).digest == reference
    replaced = fit_staged(other, tmp_path, Threads(1), overwrite=True)
    assert open_forest(str(tmp_path / "forest.zarr")).digest == replaced.digest != reference


@pytest.mark.slow
def test_a_job_folder_and_an_output_may_lie_in_two_file_systems(
    inputs: Inputs, tmp_path: Path, elsewhere: Path, reference: str
) -> None:
    for job, output in ((tmp_path / "job", elsewhere / "forest.zarr"), (elsewhere / "job", tmp_path / "forest.zarr")):
        assert fit(inputs, str(output), Folder(str(job)), Threads(1), Options()).digest == reference
        other = dataclasses.replace(inputs, seed=12)
        replaced = fit(other, str(output), Folder(str(job)), Threads(1), Options(overwrite=True))
        assert open_forest(str(output)).digest == replaced.digest != reference
    assert [path.name for path in elsewhere.iterdir()] == ["forest.zarr"]
    assert {path.name for path in tmp_path.iterdir()} == {"forest.zarr", "scratch"}


def test_workers_of_another_version_of_the_growth_are_refused(
    inputs: Inputs, tmp_path: Path, reference: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that knows of versions says so before it grows; of another the receipt tells."""
    grow = train.grow_shard

    def of_a_later_version(task: train.GrowTask) -> object:
        return grow(dataclasses.replace(task, inputs=dataclasses.replace(task.inputs, growth=train.GROWTH + 1)))

    def of_an_earlier_version(task: train.GrowTask) -> object:
        return dataclasses.replace(grow(task), growth=1)

    for other, versions in (
        (of_a_later_version, (train.GROWTH, train.GROWTH + 1)),
        (of_an_earlier_version, (1, train.GROWTH)),
    ):
        monkeypatch.setattr(train, "grow_shard", other)
        with pytest.raises(JobError, match="version {} .*version {}:".format(*versions)):
            fit_staged(inputs, tmp_path, Threads(1))
        assert not (tmp_path / "forest.zarr").exists()
    monkeypatch.undo()
    assert fit_staged(inputs, tmp_path, Threads(1)).digest == reference


def test_trees_of_another_version_of_the_growth_are_grown_anew(
    inputs: Inputs, tmp_path: Path, reference: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fingerprint = inputs.fingerprint
    forget_job("")  # what is held open is known by its fingerprint, too
    monkeypatch.setattr("distforest.jobs.inputs.GROWTH", train.GROWTH - 1)
    assert inputs.fingerprint != fingerprint
    fit_staged(inputs, tmp_path, Threads(1), keep_shards=True)
    (tmp_path / "forest.zarr").rename(tmp_path / "older.zarr")
    forget_job("")
    monkeypatch.undo()
    fitted = fit_staged(inputs, tmp_path, Threads(1))
    assert (fitted.digest, fitted.n_grown) == (reference, N_TREES)


def test_something_else_at_the_output_is_not_touched(inputs: Inputs, tmp_path: Path) -> None:
    (tmp_path / "forest.zarr").mkdir()
    (tmp_path / "forest.zarr" / "precious").write_text("mine")
    for overwrite in (False, True):
        with pytest.raises(InputError, match=naming(tmp_path / "forest.zarr", "precious")):
            fit_staged(inputs, tmp_path, Threads(1), overwrite=overwrite)
    assert (tmp_path / "forest.zarr" / "precious").read_text() == "mine"


def test_a_job_that_does_not_fit_is_refused_before_it_starts(
    inputs: Inputs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Problem, "grow", lambda *_: pytest.fail("a tree was grown"))
    with pytest.raises(MemoryLimitError, match=naming("100 MiB", "`run.memory_limit`")):
        fit_staged(inputs, tmp_path, Threads(1, memory_limit=100 << 20))


@pytest.mark.slow
def test_errors_of_the_system_are_retried_and_others_are_not(tmp_path: Path) -> None:
    calls: list[str] = []

    def flaky(task: str) -> str:
        calls.append(task)
        if calls.count(task) < 3:
            raise OSError("disk")
        return task.upper()

    def wrong(task: str) -> str:
        calls.append(task)
        raise InputError("no")

    assert Threads(2).each(flaky, ["a", "b"], Work("test")) == ["A", "B"]
    assert sorted(calls) == ["a"] * 3 + ["b"] * 3
    with pytest.raises(JobError, match=naming("test: a ", "2 times", "OSError")):
        Threads(1).each(lambda _: (_ for _ in ()).throw(OSError("disk")), ["a"], Work("test", retries=1))
    calls.clear()
    with pytest.raises(InputError, match="no"):
        Threads(1).each(wrong, ["a"], Work("test"))
    assert calls == ["a"]


def test_progress_counts_trees(inputs: Inputs, tmp_path: Path) -> None:
    seen: list[tuple[str, int, int]] = []
    fit_staged(inputs, tmp_path, Threads(1), batch=10, watch=lambda p: seen.append((p.name, p.done, p.total)))
    assert [done for name, done, _ in seen if name == "grow"] == [0, 10, 20, 30, 40, 50]
    assert {total for name, _, total in seen if name == "grow"} == {50}
    assert [name for name, *_ in seen][-1] == "merge"
