"""How many tasks a second one scheduler hands out, and what saturates first: a thousand workers that do nothing.

::

    python benchmarks/many_workers.py                          10, 100 and 1,000 workers, 10,000 tasks each
    python benchmarks/many_workers.py --profile --workers 1000 and where the time of each thread goes

The scheduler is Dask's own, in this process beside a client in a thread of its own, as in the service; tasks go through
`OnDask.each` as the trees of a job do. The workers are one other process with a connection for each: they register,
send heartbeats, answer each task with a receipt at once, and hand receipts over when they are fetched; nothing is
unpickled or grown there. Linux alone, where all of 127.0.0.0/8 is this machine.
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import io
import multiprocessing
import pickle
import pstats
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import dask
import numpy as np
import psutil
from distributed import Client, LocalCluster, Status, Worker
from distributed.comm import connect
from distributed.core import Server, send_recv
from distributed.protocol import to_serialize
from distributed.versions import get_versions
from measurement import machine, mib, print_table, seconds_cell

from distforest.growth.methods import METHODS
from distforest.growth.parameters import complete
from distforest.growth.problem import Data
from distforest.jobs.cluster import Work
from distforest.jobs.input_staging import from_data
from distforest.jobs.on_dask import OnDask, Reply
from distforest.jobs.shards import Receipt
from distforest.jobs.train import GrowTask, grow_shard
from distforest.jobs.worker_start import DASK_SETTINGS
from distforest.sources.row_kinds import Features
from distforest.sources.truth import Truth, TruthKind

ROWS = dict.fromkeys(("start", "feature", "threshold", "left", "right", "value", "depth", "weight"), 100)
"""What a receipt says of its shard, so that it is as long as a real one."""

PATIENCE = 300.0
"""Seconds for all workers to register."""


# --- the workers, in a process of their own ---------------------------------------------------------------------------


@dataclass
class Idlers:
    """Workers that do nothing."""

    scheduler: str
    n_workers: int
    seconds: float
    receipt: Receipt = field(default_factory=lambda: Receipt(0, 7, "trees-0000000-0000007.npz", 0.5, 1 << 28, ROWS))

    async def serve(self) -> None:
        """Register all, and answer until the scheduler is gone."""
        server = Server({"get_data": self._get_data, "plugin-add": self._add_plugin})
        await server.listen("tcp://0.0.0.0:0")
        self.metrics = await Worker(self.scheduler).get_metrics()
        self.versions = get_versions()
        self.kind = pickle.dumps(Receipt)
        places = [f"tcp://127.0.{1 + k // 250}.{1 + k % 250}:{server.port}" for k in range(self.n_workers)]
        few = asyncio.Semaphore(20)
        await asyncio.gather(*(self._work(place, few) for place in places))

    async def _work(self, address: str, few: asyncio.Semaphore) -> None:
        async with few:
            comm = await connect(self.scheduler, deserialize=False)
            await comm.write(self._registration(address), serializers=["msgpack"])
            answer = await comm.read(deserializers=["msgpack"])
        beating = asyncio.create_task(self._beat(address, answer["heartbeat-interval"]))
        try:
            while True:
                messages = await comm.read()
                keys = [(own["key"], own["run_id"]) for own in messages if own["op"] == "compute-task"]
                if keys and self.seconds:
                    asyncio.get_running_loop().call_later(self.seconds, self._later, comm, keys)
                elif keys:
                    await comm.write([self._finished(*key) for key in keys])
        except OSError:
            beating.cancel()

    def _later(self, comm: Any, keys: list[tuple[str, int]]) -> None:
        self._writing = asyncio.ensure_future(comm.write([self._finished(*key) for key in keys]))

    def _registration(self, address: str) -> dict[str, Any]:
        nothing: dict[str, Any] = {"resources": {}, "services": {}, "extra": {}}
        names = {"address": address, "name": address, "server_id": f"Worker-{address}", "stimulus_id": "register"}
        size = {"nthreads": 1, "memory_limit": 1 << 31, "local_directory": "/nowhere", "nanny": None, "pid": 0}
        own = {"status": Status.running.name, "versions": self.versions, "metrics": self.metrics, "now": time.time()}
        return {"op": "register-worker", "reply": False, **names, **size, **own, **nothing}

    async def _beat(self, address: str, seconds: float) -> None:
        comm = await connect(self.scheduler)
        while True:
            await asyncio.sleep(seconds)
            told = {"address": address, "now": time.time(), "metrics": self.metrics, "executing": {}, "extensions": {}}
            seconds = (await send_recv(comm, op="heartbeat_worker", **told))["heartbeat-interval"]

    def _finished(self, key: str, run_id: int) -> dict[str, Any]:
        now = time.time()
        run = {"startstops": [{"action": "compute", "start": now, "stop": now + 1e-3}], "thread": 1, "metadata": {}}
        told = {"key": key, "run_id": run_id, "nbytes": 500, "type": self.kind, "typename": "Receipt"}
        return {"op": "task-finished", "status": "OK", "stimulus_id": "done", **told, **run}

    async def _get_data(self, comm: Any, keys: Sequence[str], **_more: Any) -> Status:
        reply = Reply(self.receipt, self.scheduler, self.receipt.seconds)
        await comm.write({"status": "OK", "data": {key: to_serialize(reply) for key in keys}})
        await comm.read()
        return Status.dont_reply

    async def _add_plugin(self, **_more: Any) -> dict[str, str]:
        return {"status": "OK"}


def idle(scheduler: str, n_workers: int, seconds: float) -> None:
    """Be that process."""
    asyncio.run(Idlers(scheduler, n_workers, seconds).serve())


# --- what is measured -------------------------------------------------------------------------------------------------


@dataclass
class Threads:
    """The threads of this process that matter, the seconds of processor that each has used, and their profiles."""

    client: Client
    cluster: LocalCluster
    is_profiled: bool
    profiles: dict[str, cProfile.Profile] = field(default_factory=dict)

    def seconds(self) -> dict[str, float]:
        """Of processor, by thread."""
        return self._everywhere(lambda _name: time.thread_time())

    def begin(self) -> None:
        """Begin to profile, if that is asked for."""
        if self.is_profiled:
            self.profiles = {name: cProfile.Profile(time.thread_time) for name in ("scheduler", "client", "job")}
            self._everywhere(lambda name: self.profiles[name].enable())

    def end(self) -> None:
        """End it."""
        if self.is_profiled:
            self._everywhere(lambda name: self.profiles[name].disable())

    def _everywhere(self, what: Callable[[str], Any]) -> dict[str, Any]:
        """The answers of a function that is called in each thread."""
        found: dict[str, Any] = {}
        for name, loop in (("scheduler", self.cluster.loop), ("client", self.client.loop)):
            called = threading.Event()

            def call(name: str = name, called: threading.Event = called) -> None:
                found[name] = what(name)
                called.set()

            loop.add_callback(call)
            called.wait()
        found["job"] = what("job")
        return found

    def told(self, n_lines: int = 16) -> str:
        """Where the time of each thread went."""
        out = io.StringIO()
        for name, profile in self.profiles.items():
            print(f"\n### {name}\n", file=out)
            for order in ("cumulative", "tottime"):
                pstats.Stats(profile, stream=out).strip_dirs().sort_stats(order).print_stats(n_lines)
        return out.getvalue()


@contextmanager
def with_idlers(n_workers: int, seconds: float) -> Iterator[tuple[LocalCluster, Client, float]]:
    """A scheduler and a client with so many workers, and the seconds in which they have registered."""
    settings = {**DASK_SETTINGS, "distributed.worker.preload": [], "distributed.scheduler.worker-ttl": None}
    with (
        dask.config.set(settings),
        LocalCluster(n_workers=0, protocol="tcp://", host="127.0.0.1", dashboard_address=None, processes=False) as own,
        Client(own.scheduler_address, set_as_default=False) as client,
    ):
        process = multiprocessing.get_context("spawn").Process(
            target=idle, args=(own.scheduler_address, n_workers, seconds)
        )
        process.start()
        try:
            while not own.scheduler.workers:
                time.sleep(0.01)
            start = time.perf_counter()
            while len(own.scheduler.workers) < n_workers:
                if time.perf_counter() - start > PATIENCE:
                    raise TimeoutError(f"{len(own.scheduler.workers)} of {n_workers} workers have registered")
                time.sleep(0.02)
            yield own, client, time.perf_counter() - start
        finally:
            process.terminate()
            process.join()


def grow_tasks(folder: Path, n_tasks: int) -> list[GrowTask]:
    """Tasks of a job, as long as real ones."""
    chance = np.random.default_rng(0)
    X, y = chance.normal(size=(200, 10)).astype(np.float32), np.arange(200, dtype=np.int32) % 2
    data = Data(Features(10), X, Truth(TruthKind.LABELS, y, [0, 1]))
    inputs = from_data(
        data, "smerf", complete(METHODS["smerf"].parameters, {"n_estimators": 8 * n_tasks}), 0, str(folder)
    )
    return [
        GrowTask(inputs, f"{folder}/jobs/smerf-20261122-0102/work/shards", 8 * k, 8 * k + 7) for k in range(n_tasks)
    ]


def run(n_workers: int, tasks: Sequence[GrowTask], options: argparse.Namespace) -> list[str]:
    """One row of the table."""
    with with_idlers(n_workers, options.seconds) as (cluster, client, registering):
        on_dask = OnDask(client, "smerf-20261122-0102-4f3a")
        on_dask.each(grow_shard, tasks[:100], Work("grow"))
        start = time.perf_counter()
        assert on_dask.slots == n_workers
        asked = time.perf_counter() - start
        threads = Threads(client, cluster, options.profile)
        threads.begin()
        before, start = threads.seconds(), time.perf_counter()
        answers = on_dask.each(grow_shard, tasks, Work("grow"))
        seconds, after = time.perf_counter() - start, threads.seconds()
        threads.end()
        assert len(answers) == len(tasks)
        rss = psutil.Process().memory_info().rss
    if options.profile:
        print(f"## {n_workers} workers\n{threads.told()}", flush=True)
    shares = [f"{(after[name] - before[name]) / seconds:.0%}" for name in ("scheduler", "client", "job")]
    rate = f"**{len(tasks) / seconds:,.0f}**"
    return [f"{n_workers:,}", rate, *shares, seconds_cell(asked), f"{registering:.1f} s", mib(rss)]


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description="Tasks a second of one scheduler with workers that do nothing.")
    parser.add_argument("--workers", type=int, nargs="+", default=[10, 100, 1000])
    parser.add_argument("--tasks", type=int, default=10_000)
    parser.add_argument("--seconds", type=float, default=0.0, help="of each task; a worker waits, without work")
    parser.add_argument("--profile", action="store_true")
    options = parser.parse_args(arguments)
    print(
        f"# One scheduler, many workers: {options.tasks:,} tasks of {options.seconds:g} s\n\n{machine()}\n", flush=True
    )
    with tempfile.TemporaryDirectory() as folder:
        tasks = grow_tasks(Path(folder), options.tasks)
        rows = [run(n_workers, tasks, options) for n_workers in options.workers]
    print_table(
        [
            "workers",
            "tasks a second",
            "scheduler",
            "client",
            "job",
            "asking for all workers",
            "all registered",
            "memory",
        ],
        rows,
    )


if __name__ == "__main__":
    main()
