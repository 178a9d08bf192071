"""The service: what it costs, and how long it takes to recover.

::

    python benchmarks/service.py            everything (about fifteen minutes)
    python benchmarks/service.py --quick    small
    python benchmarks/service.py --only submit overhead recovery small
    python benchmarks/service.py --only overhead --pairs 10

A scheduler with the service and two workers run as processes of their own, and are started again when they end.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import message_log
import numpy as np
import psutil
from measurement import machine, mib, print_table, ratio_cell, seconds_cell
from service_processes import Processes, until
from sklearn.datasets import make_classification

from distforest.jobs.input_staging import stage_inputs
from distforest.jobs.on_dask import OnDask, connected
from distforest.jobs.spec import Spec
from distforest.jobs.train import Options, fit
from distforest.service.registry import ENDS
from distforest.sources.arrays import write_array
from distforest.stores.folder import Folder

TIME_TO_LIVE = 8.0
"""Seconds without a heartbeat after which the scheduler gives a worker up."""

POLL = 1.0
"""Seconds between two looks at a job: each is a connection, and the cores are those that the trees grow on."""

SIZES = {"large": (20_000, 20), "small": (200, 10)}
"""Rows and columns of the data."""

GONE = """
import os, sys
from distforest.service.calls import Service
Service(sys.argv[1]).submit(sys.stdin.read(), sys.argv[2])
os._exit(9)
"""
"""A client that is gone as soon as its job is acknowledged."""


@dataclass(frozen=True)
class Amounts:
    """How much is measured."""

    submits: int
    commands: int
    pairs: int
    trees: int
    small: int


FULL, QUICK = Amounts(50, 10, 5, 150, 10_000), Amounts(10, 2, 1, 20, 300)


@dataclass
class Bench:
    """A running service, and jobs for it."""

    processes: Processes
    amounts: Amounts
    n_jobs: int = 0

    def write_inputs(self) -> None:
        """Write what the jobs read, and make a place for what they write."""
        Path(self.place("out")).mkdir()
        for name, (n_rows, n_columns) in SIZES.items():
            X, y = make_classification(n_rows, n_columns, n_informative=8, n_classes=3, random_state=0)
            for part, values in (("X", X.astype(np.float32)), ("y", y.astype(np.int64))):
                write_array(self.place(f"{name}.zarr"), part, values.shape, values.dtype, [values])

    def place(self, name: str) -> str:
        """The path of a file of this benchmark."""
        return str(self.processes.folder / name)

    def spec(self, data: str, n_trees: int, seed: int, batch: int | None = None) -> Spec:
        """A job, with an output of its own."""
        self.n_jobs += 1
        own = self.place(f"{data}.zarr")
        table = {
            "format": 1,
            "method": "smerf",
            "seed": seed,
            "output": self.place(f"out/{self.n_jobs}.forest.zarr"),
            "input": {"features": f"{own}/X", "distances": {"kind": "labels", "values": f"{own}/y"}},
            "params": {"n_estimators": n_trees},
            "run": {} if batch is None else {"batch": batch},
        }
        return Spec.from_dict(table)

    def submitted(self, spec: Spec) -> str:
        """Hand in a job; its id."""
        return str(self.processes.service.submit(spec.to_json(), f"job-{self.n_jobs}")["job"]["id"])

    def ended(self, job: str, seconds: float = 900.0) -> dict[str, Any]:
        """What has become of a job, once it has ended."""

        def found() -> dict[str, Any] | None:
            self.processes.tend()
            told = self.processes.asked(self.processes.service.job, job)
            return told if told and told["state"] in ENDS else None

        finished = until(found, seconds, POLL)
        assert finished["state"] == "SUCCEEDED", finished["error"]
        return dict(finished)

    def run(self, spec: Spec) -> dict[str, Any]:
        """Run a job in the service."""
        return self.ended(self.submitted(spec))

    def events(self, job: str, name: str, after: float) -> list[dict[str, Any]]:
        """What of one kind has happened to a job after a moment."""
        told = self.processes.asked(self.processes.service.events, job) or []
        return [event for event in told if event["event"] == name and event["time"] > after]


# --- submit -----------------------------------------------------------------------------------------------------------


def submit(bench: Bench) -> None:
    """How long a submit takes until it is acknowledged, which is when it is on disk."""
    specs = [bench.spec("small", 2, seed) for seed in range(bench.amounts.submits)]
    calls, jobs = [], []
    for number, spec in enumerate(specs):
        start = time.perf_counter()
        jobs.append(bench.processes.service.submit(spec.to_json(), f"submit-{number}")["job"]["id"])
        calls.append(time.perf_counter() - start)
    commands = []
    for number in range(bench.amounts.commands):
        path = Path(bench.place("spec.toml"))
        path.write_text(toml(bench.spec("small", 2, number)))
        command = ["-m", "distforest", "submit", str(path), "--scheduler", bench.processes.address, "--json"]
        start = time.perf_counter()
        done = subprocess.run([sys.executable, *command], check=True, capture_output=True, text=True)
        commands.append(time.perf_counter() - start)
        jobs.append(json.loads(done.stdout)["id"])
    for job in jobs:
        bench.ended(job)
    print("## Submit, until it is acknowledged\n")
    rows = [
        [name, str(len(times)), seconds_cell(statistics.median(times)), seconds_cell(float(np.quantile(times, 0.95)))]
        for name, times in (("a call over the comm", calls), ("`distforest submit`, a process", commands))
    ]
    print_table(["by", "jobs", "median", "95th percentile"], rows)


def toml(spec: Spec) -> str:
    """A job as somebody would write it."""
    features, labels = spec.input.addresses["features"], spec.input.relations["distances"].address
    return f"""format = 1
method = "{spec.method}"
seed = {spec.seed}
output = "{spec.output}"
input.features = "{features}"
input.distances = {{ kind = "labels", values = "{labels}" }}
params.n_estimators = {spec.params["n_estimators"]}
"""


# --- overhead ---------------------------------------------------------------------------------------------------------


def overhead(bench: Bench) -> None:
    """Jobs in the service against the same jobs driven by a client on the same workers."""
    with connected(bench.processes.address) as cluster:
        _direct(bench, cluster, bench.spec("large", 4, 99))
        _served(bench, bench.spec("large", 4, 98))
        rows = [_overhead(bench, cluster, n_trees) for n_trees in (bench.amounts.trees, 3 * bench.amounts.trees)]
    print("## Overhead: trees of 20,000 rows, submit to end against `fit` by a client\n")
    names = ["service", "client", "until it is started", "staging, state, removal", "the fit in it"]
    print_table(["trees", *names, "service / client (least to most)"], rows)


def _overhead(bench: Bench, cluster: OnDask, n_trees: int) -> list[str]:
    ours, peers = [], []
    for pair in range(bench.amounts.pairs):
        for is_ours in (pair % 2 == 0, pair % 2 == 1):
            spec = bench.spec("large", n_trees, pair)
            if is_ours:
                ours.append(_served(bench, spec))
            else:
                peers.append(_direct(bench, cluster, spec))
    whole, *parts = zip(*ours, strict=True)
    middle = [statistics.median(times) for times in (whole, peers, *parts)]
    ratios = [one / other for one, other in zip(whole, peers, strict=True)]
    return [f"{n_trees:,}", *map(seconds_cell, middle), ratio_cell(ratios)]


class Served(NamedTuple):
    """Seconds of a job in the service, from submit to its end, and of its parts."""

    whole: float
    until_started: float
    around: float
    fit: float


def _direct(bench: Bench, cluster: OnDask, spec: Spec) -> float:
    """Seconds of a job that this process leads."""
    start, own = time.perf_counter(), Folder(bench.place(f"direct-{bench.n_jobs}"))
    fit(stage_inputs(spec, own.address), spec.output, own, cluster, Options())
    return time.perf_counter() - start


def _served(bench: Bench, spec: Spec) -> Served:
    told = bench.run(spec)
    submitted, started, ended, inner = (told["submitted"], told["started"], told["ended"], told["result"]["seconds"])
    return Served(ended - submitted, started - submitted, ended - started - inner, inner)


# --- recovery ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Blow:
    """What is done to a job, and by which of its events it is seen that the service has noticed."""

    name: str
    strike: Callable[[Bench], None] | None
    sign: str = "lost"


def kill_worker(bench: Bench) -> None:
    """SIGKILL a worker's process; its nanny starts another."""
    if child := bench.processes.workers[0].child():
        child.kill()


def kill_nanny(bench: Bench) -> None:
    """SIGKILL a worker's nanny, which takes the worker with it."""
    bench.processes.workers[0].send(signal.SIGKILL)


def freeze_worker(bench: Bench) -> None:
    """SIGSTOP a worker's process, for ever: it is killed when the scheduler has given it up."""
    if child := bench.processes.workers[0].child():
        child.suspend()


def kill_scheduler(bench: Bench) -> None:
    """SIGKILL the scheduler, and the service with it."""
    bench.processes.scheduler.send(signal.SIGKILL)


BLOWS = (
    Blow("worker SIGKILL", kill_worker),
    Blow("nanny SIGKILL", kill_nanny),
    Blow(f"worker SIGSTOP, worker-ttl {TIME_TO_LIVE:g} s", freeze_worker),
    Blow("scheduler SIGKILL", kill_scheduler, "resumed"),
    Blow("client gone after submit", None),
)


def recovery(bench: Bench) -> None:
    """How long a job is held up by each kind of blow."""
    n_trees = 3 * bench.amounts.trees
    bench.run(bench.spec("large", 4, 100))
    calm = statistics.median(_seconds(bench.run(bench.spec("large", n_trees, 101 + k))) for k in range(2))
    rows = [_recovered(bench, blow, n_trees, 200 + k, calm) for k, blow in enumerate(BLOWS)]
    print(f"## Recovery: seconds after a blow to a job of {seconds_cell(calm)}; what ends is started again at once\n")
    names = ["blow", "noticed", "all workers are back", "next trees committed", "job takes longer by"]
    print_table(names, rows)


def _seconds(told: dict[str, Any]) -> float:
    return float(told["ended"] - told["submitted"])


def _recovered(bench: Bench, blow: Blow, n_trees: int, seed: int, calm: float) -> list[str]:
    spec = bench.spec("large", n_trees, seed)
    if blow.strike is None:
        job = f"job-{bench.n_jobs}"
        command = [sys.executable, "-c", GONE, bench.processes.address, job]
        subprocess.run(command, input=spec.to_json(), text=True, check=False)
        return [blow.name, "", "", "", f"{_seconds(bench.ended(job)) - calm:+.1f} s"]
    job = bench.submitted(spec)
    until(lambda: len(bench.events(job, "trees", 0.0)) >= 2, 120.0)
    struck, before = time.time(), _pids(bench)
    blow.strike(bench)
    back = until(lambda: _is_back(bench, before), 120.0)
    told = bench.ended(job)
    marks = [bench.events(job, name, struck) for name in (blow.sign, "trees")]
    noticed, trees = (f"{own[0]['time'] - struck:.1f} s" if own else "" for own in marks)
    return [blow.name, noticed, f"{back - struck:.1f} s", trees, f"{_seconds(told) - calm:+.1f} s"]


def _pids(bench: Bench) -> set[int]:
    """Of the workers' processes that are there."""
    return {child.pid for worker in bench.processes.workers if (child := worker.child())}


def _is_back(bench: Bench, before: set[int]) -> float | None:
    """The time, if all workers of the service are there, one of them new; else None."""
    bench.processes.tend()
    health = bench.processes.asked(bench.processes.service.health)
    pids, n_workers = _pids(bench), bench.processes.n_workers
    return time.time() if health and health["workers"] == len(pids) == n_workers and pids != before else None


# --- many small trees -------------------------------------------------------------------------------------------------


def small(bench: Bench) -> None:
    """Many small trees through one scheduler."""
    rows = []
    bench.run(bench.spec("small", 8, 6))
    scheduler = psutil.Process(bench.processes.scheduler.pid)
    log = Path(bench.processes.settings[message_log.VARIABLE])
    for batch in (None, 1):
        spec = bench.spec("small", bench.amounts.small, 7, batch)
        before = sum(scheduler.cpu_times()[:2])
        told = bench.run(spec)
        used, seconds = sum(scheduler.cpu_times()[:2]) - before, told["ended"] - told["started"]
        lines = (bench.processes.root / told["id"] / "events.jsonl").read_text().splitlines()
        trees = [event["time"] for event in map(json.loads, lines) if event["event"] == "trees"]
        rows.append(
            [
                "1" if batch else "the plan's own",
                f"{len(trees):,}",
                seconds_cell(seconds),
                seconds_cell(trees[-1] - trees[0]),
                f"**{bench.amounts.small / seconds:,.0f}**",
                f"{used / seconds:.0%}",
                mib(scheduler.memory_info().rss),
                f"{int(log.read_text()) / 1024:,.0f} KiB",
            ]
        )
    print(f"## {bench.amounts.small:,} trees of 200 rows through one scheduler\n")
    names = ["batch", "tasks", "job", "growth", "trees a second", "scheduler's share of a core", "its memory"]
    print_table([*names, "largest message"], rows)


SECTIONS = {"submit": submit, "overhead": overhead, "recovery": recovery, "small": small}


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, and print the tables."""
    parser = argparse.ArgumentParser(description="What the service costs, and how it recovers.")
    parser.add_argument("--quick", action="store_true", help="little of everything")
    parser.add_argument("--only", nargs="+", choices=SECTIONS, default=list(SECTIONS))
    parser.add_argument("--pairs", type=int, help="how often the overhead is measured, of each size")
    options = parser.parse_args(arguments)
    amounts = QUICK if options.quick else FULL
    amounts = replace(amounts, pairs=options.pairs or amounts.pairs)
    print(f"# The service{' (quick)' if options.quick else ''}\n\n{machine()}\n", flush=True)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        os.environ["DISTFOREST_SCRATCH"] = f"{folder}/scratch"
        settings = {
            message_log.VARIABLE: f"{folder}/largest",
            "DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL": f"{TIME_TO_LIVE:g}s",
        }
        preload = ("--preload", str(Path(message_log.__file__)))
        bench = Bench(Processes(Path(folder), settings=settings, options=preload), amounts)
        bench.write_inputs()
        try:
            bench.processes.start()
            for name in options.only:
                SECTIONS[name](bench)
        finally:
            bench.processes.end()


if __name__ == "__main__":
    main()
