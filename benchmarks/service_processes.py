"""A scheduler with the service, and workers, as processes that are started again when they end, as `always` would."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from distforest.errors import JobError, UnreachableError
from distforest.service.calls import Service

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

PATIENCE = 2.0
"""Seconds for one try to reach the service."""


@dataclass
class Program:
    """A process, and when it was started, each time."""

    arguments: Sequence[str]
    log: Path
    environment: dict[str, str]
    starts: list[float] = field(default_factory=list)
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it (again)."""
        self.starts.append(time.time())
        with self.log.open("ab") as out:
            command = [sys.executable, *self.arguments]
            self.process = subprocess.Popen(command, cwd=self.log.parent, env=self.environment, stdout=out, stderr=out)

    @property
    def pid(self) -> int:
        """Of the process that was started last."""
        assert self.process is not None
        return self.process.pid

    @property
    def is_alive(self) -> bool:
        """Whether it runs."""
        return self.process is not None and self.process.poll() is None

    def send(self, number: int) -> None:
        """Send a signal, if it is there."""
        if self.process is not None and self.is_alive:
            self.process.send_signal(number)

    def child(self) -> psutil.Process | None:
        """The worker's process of a nanny; None while there is none."""
        with suppress(psutil.Error):
            for child in psutil.Process(self.pid).children():
                if "spawn_main" in " ".join(child.cmdline()):
                    return child
        return None

    def end(self) -> None:
        """End it, and what it has started."""
        if not self.is_alive:
            return
        with suppress(psutil.Error):
            for child in psutil.Process(self.pid).children(recursive=True):
                child.resume()
        self.send(signal.SIGTERM)
        assert self.process is not None
        try:
            self.process.wait(15.0)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


@dataclass
class Processes:
    """A scheduler with the service, and workers.

    Attributes
    ----------
    folder
        For the job root, logs and scratch.
    n_workers
        Of one thread each.
    settings
        Environment of all processes.
    options
        Of the service.
    worker_options
        Of each worker.
    """

    folder: Path
    n_workers: int = 2
    settings: dict[str, str] = field(default_factory=dict)
    options: tuple[str, ...] = ()
    worker_options: tuple[str, ...] = ()
    memory: str = "2GiB"

    def __post_init__(self) -> None:
        with socket.socket() as found:
            found.bind(("127.0.0.1", 0))
            self.port = int(found.getsockname()[1])
        self.root = self.folder / "jobs"
        ours = ("--host", "127.0.0.1", "--port", str(self.port), "--dashboard-address", "127.0.0.1:0")
        service = ("--preload", "distforest.service", "--job-root", str(self.root), *self.options)
        self.scheduler = self._program("scheduler", "-m", "dask", "scheduler", *ours, *service)
        own = ("--nthreads", "1", "--no-dashboard", "--memory-limit", self.memory)
        places = ("--local-directory", str(self.folder / "local"))
        self.workers = [
            self._program(f"worker-{k}", "-m", "dask", "worker", self.address, *own, *places, *self.worker_options)
            for k in range(self.n_workers)
        ]

    def _program(self, name: str, *arguments: str) -> Program:
        threads = {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
        own = {"DISTFOREST_SCRATCH": str(self.folder / "scratch"), **threads, **self.settings}
        return Program(arguments, self.folder / f"{name}.log", {**os.environ, **own})

    @property
    def address(self) -> str:
        """Of the scheduler."""
        return f"tcp://127.0.0.1:{self.port}"

    @property
    def service(self) -> Service:
        """Calls to it."""
        return Service(self.address, patience=PATIENCE)

    def tend(self) -> list[Program]:
        """Start again what has ended; returns that."""
        ended = [program for program in (self.scheduler, *self.workers) if not program.is_alive]
        for program in ended:
            program.start()
        return ended

    def start(self) -> None:
        """Start everything, and wait until the service has all its workers."""
        self.tend()
        self.attended()

    def attended(self, seconds: float = 300.0) -> None:
        """Wait until the service has all its workers."""
        until(lambda: (self.asked(self.service.health) or {}).get("workers") == self.n_workers, seconds)

    @staticmethod
    def asked(call: Callable[..., Any], *given: Any) -> Any:
        """The service's answer; None where there is none now."""
        try:
            return call(*given)
        except (UnreachableError, JobError):
            return None

    def end(self) -> None:
        """End all processes."""
        for program in (*self.workers, self.scheduler):
            program.end()


def until(what: Callable[[], Any], seconds: float = 60.0, pause: float = 0.05) -> Any:
    """The first answer that is true; TimeoutError if none comes in time."""
    end = time.monotonic() + seconds
    while not (answer := what()):
        if time.monotonic() > end:
            raise TimeoutError(f"nothing came in {seconds:g} s")
        time.sleep(pause)
    return answer
