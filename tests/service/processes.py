"""Real processes for tests: a scheduler with the service and workers, their logs, their deaths, and jobs for them."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import dask
import psutil
import pytest
from distributed import Security
from sklearn.datasets import load_iris

from distforest.errors import JobError, UnreachableError
from distforest.jobs.input_staging import stage_inputs
from distforest.jobs.spec import Spec
from distforest.jobs.train import fit_here
from distforest.service.calls import Service
from distforest.service.registry import ENDS, Registry
from distforest.sources.arrays import write_array
from tests.service import faults

T = TypeVar("T")

SOURCE = Path(__file__).parents[2]
"""Processes import the package and these tests from here."""

MARK = "DISTFOREST_TEST_MARK"
"""The variable that tells whose processes they are, also of those that a child has left behind."""

PATIENCE = 120.0
"""Seconds after which a test stops waiting for what must come."""

SETTINGS = {
    "DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "1",
    "DASK_DISTRIBUTED__LOGGING__DISTRIBUTED": "info",
    "DASK_DISTRIBUTED__WORKER__PRELOAD": faults.__name__,
    faults.STALE: "60",
    "DASK_DISTRIBUTED__WORKER__PROFILE__ENABLED": "False",
    "DASK_DISTRIBUTED__ADMIN__TICK__INTERVAL": "500ms",
    "OMP_NUM_THREADS": "1",
    "NUMBA_NUM_THREADS": "1",
}
"""Of every process: a task that kills two workers is given up; two cores are not spent on Dask's own statistics. What a
worker preloads is stated here, as a nanny imports what the command line says, too, which takes it a second. A service
whose heartbeats are late on a busy machine goes on."""

MEMORY = "800MiB"
"""Of a worker."""


def until(what: Callable[[], T], seconds: float = PATIENCE) -> T:
    """The first answer that is true; the test fails if none comes in time."""
    end, pause = time.monotonic() + seconds, 0.01
    while not (answer := what()):
        assert time.monotonic() < end, f"waited for {seconds:g} s in vain"
        time.sleep(pause)
        pause = min(1.2 * pause, 0.15)  # what takes long is asked for seldom, so that it need not share its processor
    return answer


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def lives(pid: int) -> bool:
    """Whether a process is there, and no zombie; it may end while it is looked at."""
    with suppress(psutil.NoSuchProcess):
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    return False


def marked(mark: str) -> list[psutil.Process]:
    """The processes that live with this mark in their environment."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.environ().get(MARK) == mark and lives(process.pid):
                found.append(process)
    return found


def slaughter(processes: Sequence[psutil.Process]) -> None:
    """Kill processes, before one of them can bring another one back."""
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.kill()


class Program:
    """A process, and what it says."""

    def __init__(self, arguments: Sequence[str], log: Path, environment: dict[str, str]) -> None:
        self.log = log
        with log.open("ab") as out:
            self.process = subprocess.Popen(
                [sys.executable, *arguments], cwd=log.parent, env=environment, stdout=out, stderr=out
            )

    @property
    def said(self) -> str:
        return self.log.read_text(errors="replace")

    def send(self, number: int) -> None:
        """Send a signal, if the process is there."""
        if self.process.poll() is None:
            self.process.send_signal(number)

    def end(self, number: int = signal.SIGTERM, seconds: float = PATIENCE) -> int:
        """Send a signal and wait for the end; kill what does not end."""
        self.send(number)
        return self.wait(seconds)

    def wait(self, seconds: float = PATIENCE) -> int:
        """The exit code."""
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError(f"{self.log} did not end in {seconds:g} s:\n{self.said[-2000:]}") from None


@dataclass
class Cluster:
    """A scheduler with the service, and workers, all of which can be ended and started again.

    Attributes
    ----------
    folder
        Of the test: for the job root, logs, scratch, faults.
    options
        Of the scheduler's service.
    settings
        Environment of all its processes.
    worker
        Options of each worker.
    """

    folder: Path
    options: tuple[str, ...] = ()
    settings: dict[str, str] = field(default_factory=dict)
    worker: tuple[str, ...] = ("--memory-limit", MEMORY)
    n_workers: int = 2

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.port, self.mark = free_port(), uuid.uuid4().hex
        self.root = self.folder / "jobs"
        self.faults = faults.prepared(self.folder / "faults")
        self.workers: list[Program] = []
        self.schedulers: list[Program] = []

    # --- processes ------------------------------------------------------------------------------------------------

    @property
    def address(self) -> str:
        return f"tcp://127.0.0.1:{self.port}"

    @property
    def service(self) -> Service:
        return Service(self.address)

    @property
    def registry(self) -> Registry:
        return Registry(str(self.root))

    @property
    def scheduler(self) -> Program:
        return self.schedulers[-1]

    @property
    def environment(self) -> dict[str, str]:
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(("DASK_", "DISTFOREST_"))}
        own = {"PYTHONPATH": str(SOURCE), MARK: self.mark, faults.FOLDER: str(self.faults.folder)}
        places = {"DISTFOREST_SCRATCH": f"{self.folder}/scratch", "DASK_TEMPORARY_DIRECTORY": f"{self.folder}/local"}
        return {**inherited, **SETTINGS, **own, **places, **self.settings}

    def run(self, name: str, *arguments: str) -> Program:
        """Start a Python process that belongs to this cluster."""
        return Program(arguments, self.folder / f"{name}.log", self.environment)

    def start_scheduler(self, port: int | None = None) -> Program:
        """Start a scheduler, whether or not another one is there."""
        at = str(self.port if port is None else port)
        ours = ("--host", "127.0.0.1", "--port", at, "--dashboard-address", "127.0.0.1:0")
        preloads = ("--preload", faults.__name__, "--preload", "distforest.service")
        root = ("--job-root", str(self.root), *self.options)
        name = f"scheduler-{len(self.schedulers)}"
        self.schedulers.append(self.run(name, "-m", "dask", "scheduler", *ours, *preloads, *root))
        return self.scheduler

    def start_worker(self) -> Program:
        """Start a worker; it waits for the scheduler."""
        ours = ("--nthreads", "1", "--no-dashboard")
        name = f"worker-{len(self.workers)}"
        self.workers.append(self.run(name, "-m", "dask", "worker", self.address, *ours, *self.worker))
        return self.workers[-1]

    def move(self) -> None:
        """Start another scheduler at another port; the one that is there is left to itself."""
        self.port = free_port()
        self.start_scheduler()

    def wake(self, pid: int) -> None:
        """Let a frozen process go on."""
        psutil.Process(pid).resume()

    def start(self) -> None:
        """Start what is not running, and wait until the service has all its workers."""
        self.launch()
        self.attended(self.n_workers)

    def launch(self) -> None:
        """Start what is not running."""
        if not self.schedulers or self.scheduler.process.poll() is not None:
            self.start_scheduler()
        for _ in range(self.n_workers - sum(worker.process.poll() is None for worker in self.workers)):
            self.start_worker()

    def attended(self, n_workers: int) -> None:
        """Wait until the service has so many workers."""
        until(lambda: self.health().get("workers") == n_workers)

    def health(self) -> dict[str, Any]:
        """What the service says of itself; nothing if it does not."""
        assert self.scheduler.process.poll() is None, self.scheduler.said[-2000:]
        with suppress(UnreachableError, JobError):  # it is not there yet, or is starting
            return self.service.health()
        return {}

    def after_its_scheduler(self) -> None:
        """Wait for the end of a scheduler that dies, and of its workers, which go with it.

        A worker that it has not met waits for the next one, and is ended.
        """
        self.scheduler.wait()
        for worker in self.workers:
            if "Registered to:" not in worker.said:
                worker.send(signal.SIGTERM)
            worker.wait()

    def kill_workers(self) -> None:
        """Kill all workers and their nannies at one blow."""
        for worker in self.workers:
            if worker.process.poll() is None:
                slaughter([psutil.Process(worker.process.pid), *psutil.Process(worker.process.pid).children(True)])
                worker.wait()

    def strays(self) -> list[psutil.Process]:
        """Processes that were left behind: that no running program has started."""
        held = {os.getpid()}
        for program in [*self.workers, *self.schedulers]:
            if program.process.poll() is None:
                held |= {program.process.pid, *(p.pid for p in psutil.Process(program.process.pid).children(True))}
        return [process for process in marked(self.mark) if process.pid not in held]

    def end(self) -> None:
        """Kill all processes, and wait for them."""
        slaughter(marked(self.mark))
        for program in [*self.workers, *self.schedulers]:
            program.wait()

    # --- jobs -----------------------------------------------------------------------------------------------------

    def submit(self, job: str, spec: dict[str, Any]) -> str:
        """Hand in a job under an id."""
        self.service.submit(Spec.from_dict(spec).to_json(), job)
        return job

    def job(self, job: str) -> dict[str, Any]:
        """What the service says of a job."""
        return self.service.job(job)

    def written(self, job: str) -> dict[str, Any]:
        """What is written of a job in the root."""
        return self.registry.state(job) or {}

    def reached(self, job: str, *states: str) -> dict[str, Any]:
        """What the service says of a job, once it is in one of the states."""

        def found() -> dict[str, Any]:
            told = self.job(job)
            assert told["state"] in states or told["state"] not in ENDS, told["error"]
            return told if told["state"] in states else {}

        return until(found)

    def succeeded(self, job: str) -> dict[str, Any]:
        """What the service says of a job that has succeeded."""
        return self.reached(job, "SUCCEEDED")

    def events(self, job: str, event: str | None = None) -> list[dict[str, Any]]:
        """What happened to a job, or what of one kind did."""
        return [found for found in self.service.events(job) if event in (None, found["event"])]

    def shards(self, job: str) -> set[int]:
        """The trees of a job that are committed."""
        names = [path.stem.split("-")[1:] for path in self.root.glob(f"{job}/work/shards-*/trees-*")]
        return {tree for first, last in names for tree in range(int(first), int(last) + 1)}

    def litter(self, job: str) -> list[Path]:
        """Files of a job that are only partly written."""
        return [path for path in self.root.glob(f"{job}/**/*") if path.name.endswith(".partial")]


@contextmanager
def running(cluster: Cluster) -> Iterator[Cluster]:
    """The cluster, started; at the end all of it is killed, and nothing else may be there."""
    try:
        cluster.start()
        yield cluster
        strays = cluster.strays()
        assert not strays, f"left by a test: {strays}"
    finally:
        cluster.end()


@contextmanager
def undisturbed(cluster: Cluster) -> Iterator[None]:
    """A test of a cluster that others use, too: it leaves no fault, and no process."""
    yield
    cluster.faults.forget()
    until(lambda: not cluster.strays())


# --- what is asked of it ----------------------------------------------------------------------------------------------


def make_certificates(folder: Path) -> None:
    """Make a folder of certificates by the recipe of docs/service.md."""
    recipe = re.search(r"```sh\n(umask.*?)```", (SOURCE / "docs/service.md").read_text(), re.DOTALL)
    if shutil.which("openssl") is None:
        pytest.skip("openssl is missing: apt-get install openssl")
    assert recipe is not None
    lines = recipe[1].replace("certificates", folder.name)
    subprocess.run(["sh", "-eu", "-c", lines], cwd=folder.parent, check=True, capture_output=True, timeout=60)


def security(certificates: Path) -> Security:
    """What Dask makes of a folder of certificates."""
    told = dask.config.collect([str(certificates)], env={})["distributed"]
    with dask.config.set(distributed=dask.config.merge(dask.config.get("distributed"), told)):
        return Security()


N_TREES, VICTIM = 24, 13
BATCH = set(range(12, 16))
"""The trees of the task with the victim."""

ONCE = dict.fromkeys(range(N_TREES), 1)
ALWAYS = 1000


@dataclass(frozen=True)
class Iris:
    """Iris as Zarr, and jobs that learn from it."""

    folder: Path

    @classmethod
    def written(cls, folder: Path) -> Iris:
        """Write the arrays."""
        X, y = load_iris(return_X_y=True)
        for name, values in (("X", X), ("y", y)):
            write_array(str(folder / "iris.zarr"), name, values.shape, values.dtype, [values])
        return cls(folder)

    def spec(self, job: str, n_trees: int = 24, batch: int = 4, **params: Any) -> dict[str, Any]:
        """A job of some trees, so many to a task, whose output is named like it."""
        distances = {"kind": "labels", "values": f"{self.folder}/iris.zarr/y"}
        return {
            "format": 1,
            "method": "smerf",
            "seed": 5,
            "output": f"{self.folder}/{job}.forest.zarr",
            "input": {"features": f"{self.folder}/iris.zarr/X", "distances": distances},
            "params": {"n_estimators": n_trees, **params},
            "run": {"batch": batch, "scratch": f"{self.folder}/scratch"},
        }

    def digest(self, spec: dict[str, Any]) -> str:
        """That of the forest when the trees grow here, in one thread, and nothing goes wrong."""
        return fit_here(stage_inputs(Spec.from_dict(spec), f"{self.folder}/here").problem()).digest
