"""Jobs on a Dask cluster: two workers against one, beside two plain processes; and what is not growth.

::

    python benchmarks/dask_jobs.py            three pairs of runs of each job (about six minutes)
    python benchmarks/dask_jobs.py --quick    one pair
    python benchmarks/dask_jobs.py --processor    short jobs by seconds of the processor, where the cores are not free

Times are those of `train.fit` with the cluster up, kernels compiled and inputs staged. "Not growing" is the share of
wall time times workers outside growth: planning, messages, committing shards, merging, sealing. The control grows the
same trees in one process and in two, without Dask and without writing anything: what this machine's two cores can give.
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import multiprocessing
import os
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import psutil
import speed
from measurement import Paired, machine, print_table

from distforest.growth.methods import METHODS
from distforest.growth.parameters import complete
from distforest.growth.problem import Data
from distforest.jobs.input_staging import from_data
from distforest.jobs.on_dask import local_cluster
from distforest.jobs.train import Fitted, Options, fit
from distforest.sources.row_kinds import Features
from distforest.sources.truth import Truth, TruthKind
from distforest.stores.folder import Folder

if TYPE_CHECKING:
    from collections.abc import Sequence

    from distforest.jobs.cluster import Progress
    from distforest.jobs.inputs import Inputs
    from distforest.jobs.on_dask import OnDask


def german() -> Data:
    """1,000 people who asked for credit, 24 numbers each, in two classes."""
    with np.load(Path(__file__).parent / "data" / "german_numer.npz") as file:
        X, y = file["X"].astype(np.float32), (file["y"] > 0).astype(np.int32)
    return Data(Features(X.shape[1]), X, Truth(TruthKind.LABELS, y, [0, 1]))


def job_data(name: str) -> Data:
    """The data of a job, by its name."""
    if name == "labels, n = 20,000":
        return speed.Task.made(20_000, speed.N_COLUMNS, n_informative=8, n_classes=3).data()
    if name == "dense, n = 2,000":
        return speed.dense_data(2000)
    return german() if name == "labels, german, n = 1,000" else speed.lazega()


N_TREES = {
    "labels, n = 20,000": 100,
    "dense, n = 2,000": 1000,
    "labels, german, n = 1,000": 1000,
    "dense, Lazega, n = 71": 1000,
}
"""The jobs, and how many trees each of them grows."""


@dataclass
class Phases:
    """A watch that keeps when each phase of a job was first and last heard of."""

    heard: dict[str, list[float]] = field(default_factory=dict)

    def __call__(self, progress: Progress) -> None:
        self.heard.setdefault(progress.name, []).append(time.perf_counter())

    def seconds(self, name: str) -> float:
        """How long a phase took."""
        return self.heard[name][-1] - self.heard[name][0]


@dataclass(frozen=True)
class Jobs:
    """Runs jobs in one folder, each under an address of its own."""

    folder: Path

    def staged(self, name: str, method: str, data: Data, **params: Any) -> Inputs:
        """Inputs of a job, in the folder and staged."""
        own = str(self.folder / name)
        return from_data(data, method, complete(METHODS[method].parameters, params), speed.SEED, own)

    def run(self, inputs: Inputs, cluster: OnDask) -> tuple[Fitted, Phases]:
        """Run one."""
        place, phases = Path(tempfile.mkdtemp(dir=self.folder)), Phases()
        job = Folder(str(place / "job"))
        return fit(inputs, str(place / "forest.zarr"), job, cluster, Options(watch=phases)), phases


def two_workers(name: str, jobs: Jobs, clusters: tuple[OnDask, OnDask], n_pairs: int) -> list[str]:
    """The same job on two workers and on one; a row of the table."""
    data = job_data(name)
    inputs = jobs.staged(name, "smerf", data, n_estimators=N_TREES[name])
    warm = jobs.staged(f"{name}, warm", "smerf", data, n_estimators=4)
    for cluster in clusters:
        jobs.run(warm, cluster)
    pairs, grows, idle = [], [], []
    for pair in range(n_pairs):
        own = dataclasses.replace(inputs, seed=pair)  # another forest each time, so that nothing is found done
        done = {cluster: jobs.run(own, clusters[cluster]) for cluster in ((1, 0) if pair % 2 == 0 else (0, 1))}
        (slow, slow_phases), (fast, fast_phases) = done[0], done[1]
        pairs.append((fast.seconds, slow.seconds))
        grows.append(slow_phases.seconds("grow") / fast_phases.seconds("grow"))
        idle.append(1.0 - fast.growing_seconds / (2.0 * fast.seconds))
    ours, peer = zip(*pairs, strict=True)
    found = Paired(ours, peer, (None, None))
    speed_up = float(np.median([slow / fast for fast, slow in pairs]))
    title = f"{name}, {N_TREES[name]} trees"
    return [title, *found.cells(), f"**{speed_up:.2f}**", f"{np.median(grows):.2f}", f"{np.median(idle):.1%}"]


def grow_alone(name: str, first: int, last: int, barrier: Any, answers: Any) -> None:
    """In a process of its own: grow some trees in the batches of a job, and answer with the seconds."""
    problem = speed.bound("smerf", job_data(name), n_estimators=N_TREES[name])
    batch = max(1, N_TREES[name] // 50)
    problem.grow(np.arange(batch))  # compile
    barrier.wait()
    start = time.perf_counter()
    for tree in range(first, last, batch):
        problem.grow(np.arange(tree, min(tree + batch, last)))
    answers.put(time.perf_counter() - start)


def plain_seconds(name: str, n_processes: int) -> float:
    """Seconds in which so many plain processes grow the trees of a job."""
    context = multiprocessing.get_context("spawn")
    barrier, answers = context.Barrier(n_processes), context.Queue()
    bounds = np.linspace(0, N_TREES[name], n_processes + 1).astype(int).tolist()
    processes = [
        context.Process(target=grow_alone, args=(name, first, last, barrier, answers))
        for first, last in itertools.pairwise(bounds)
    ]
    for process in processes:
        process.start()
    seconds = max(answers.get() for _ in processes)
    for process in processes:
        process.join()
    return float(seconds)


def section(n_pairs: int) -> None:
    """Print both tables."""
    print("## Jobs on Dask: the time of `train.fit` with the cluster up, kernels compiled and inputs staged\n")
    with tempfile.TemporaryDirectory() as folder, local_cluster(1) as one, local_cluster(2) as two:
        os.environ["DISTFOREST_SCRATCH"] = f"{folder}/scratch"
        for cluster in (one, two):
            cluster.client.run(os.environ.update, {"DISTFOREST_SCRATCH": f"{folder}/scratch"})
        rows = [two_workers(name, Jobs(Path(folder)), (one, two), n_pairs) for name in N_TREES]
    names = ["job", "2 workers", "1 worker", "2 / 1 (least to most)", "speed-up", "of growing alone", "not growing"]
    print_table(names, rows)
    print("The same trees in one plain process and in two, nothing written:\n")
    rows = []
    for name in N_TREES:
        pairs = [(plain_seconds(name, 2), plain_seconds(name, 1)) for _ in range(n_pairs)]
        found = Paired(*zip(*pairs, strict=True), (None, None))
        speed_up = float(np.median([slow / fast for fast, slow in pairs]))
        rows.append([name, *found.cells(), f"**{speed_up:.2f}**"])
    print_table(["trees of", "2 processes", "1 process", "2 / 1 (least to most)", "speed-up"], rows)


def of_processor(name: str, jobs: Jobs, cluster: OnDask) -> list[str]:
    """The processor's time of a job, the mean of 15 runs: of this process, with the scheduler, and of the workers."""
    inputs = jobs.staged(name, "smerf", job_data(name), n_estimators=N_TREES[name])
    processes = [psutil.Process(pid) for pid in cluster.client.run(os.getpid).values()]
    here, there, seconds = [], [], []
    for run in range(17):
        before = sum(sum(own.cpu_times()[:2]) for own in processes)
        start = time.process_time()
        fitted, _ = jobs.run(dataclasses.replace(inputs, seed=run), cluster)
        time.sleep(0.05)  # workers may still let go of the job
        here.append(time.process_time() - start)
        there.append(sum(sum(own.cpu_times()[:2]) for own in processes) - before)
        seconds.append(fitted.seconds)
    cells = [np.mean(here[2:]), np.mean(there[2:]), min(seconds[2:])]  # the first two compile
    return [f"{name}, {N_TREES[name]} trees", *(f"{1000 * cell:.0f} ms" for cell in cells)]


def processor_section() -> None:
    """Print the processor's time of the short jobs on two workers."""
    with tempfile.TemporaryDirectory() as folder, local_cluster(2) as two:
        os.environ["DISTFOREST_SCRATCH"] = f"{folder}/scratch"
        two.client.run(os.environ.update, {"DISTFOREST_SCRATCH": f"{folder}/scratch"})
        rows = [of_processor(name, Jobs(Path(folder)), two) for name in N_TREES if "german" in name or "Lazega" in name]
    print_table(["job", "client and scheduler", "two workers", "least time of a job"], rows)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, and print the tables."""
    parser = argparse.ArgumentParser(description="Jobs on Dask, as ratios measured in one run.")
    parser.add_argument("--quick", action="store_true", help="one pair of runs")
    parser.add_argument("--processor", action="store_true", help="short jobs by seconds of the processor")
    options = parser.parse_args(arguments)
    print(f"# Jobs on Dask{' (quick)' if options.quick else ''}\n\n{machine()}\n", flush=True)
    if options.processor:
        processor_section()
        return
    section(1 if options.quick else 3)


if __name__ == "__main__":
    main()
