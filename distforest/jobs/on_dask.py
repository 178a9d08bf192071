"""Tasks on the workers of a Dask cluster, embedded or running elsewhere; importing this imports ``distributed``."""

from __future__ import annotations

import itertools
import logging
import os
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import dask
from distributed import Client, LocalCluster, Nanny, as_completed
from distributed.comm import parse_address
from distributed.comm.registry import get_backend
from distributed.scheduler import KilledWorker
from distributed.system import MEMORY_LIMIT

from distforest.errors import DistforestError, JobError
from distforest.jobs.cluster import Clock, Work

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

T = TypeVar("T")
R = TypeVar("R")

SETTINGS = {
    "distributed.scheduler.worker-saturation": 1.0,  # a kill then costs the task that ran, not one that waited
    "distributed.scheduler.allowed-failures": 10,
    "distributed.nanny.pre-spawn-environ.NUMBA_NUM_THREADS": 1,
    # A terminal sends Ctrl-C to all its processes: this one stops the workers, they need not do it themselves.
    "distributed.worker.preload": ["import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)"],
}
"""Dask settings of the embedded cluster: many deaths before a task is given up, one thread for each kernel."""

PATIENCE, TICK = 30.0, 0.1
"""Seconds in which nothing may end before it is asked whether there are workers at all, and between two looks."""

MACHINE_BYTES = int(MEMORY_LIMIT)
"""Memory that this machine, or the container that this process is in, may use."""


@dataclass(frozen=True)
class OnDask:
    """The workers of a Dask cluster."""

    client: Client

    def _workers(self) -> list[dict[str, Any]]:
        workers = list(self.client.scheduler_info(n_workers=-1)["workers"].values())
        if not workers:
            address = self.client.scheduler.address
            raise JobError(
                f"the cluster at {address} has no workers (left); start some, or see why they died, and try again"
            )
        return workers

    @property
    def slots(self) -> int:
        """Threads of all workers."""
        return sum(worker["nthreads"] for worker in self._workers())

    @property
    def threads(self) -> int:
        """Most threads of one worker."""
        return max(worker["nthreads"] for worker in self._workers())

    @property
    def memory_limit(self) -> int | None:
        """The smallest limit of a worker."""
        limits = [worker["memory_limit"] for worker in self._workers() if worker["memory_limit"]]
        return min(limits) if limits else None

    def each(self, function: Callable[[T], R], tasks: Sequence[T], work: Work) -> list[R]:
        """The answers of ``function`` to ``tasks``, in their order; see `Cluster.each`."""
        clock = Clock(work, tasks)
        futures = [self._submit(function, task, number, work) for number, task in enumerate(tasks)]
        place = {future.key: number for number, future in enumerate(futures)}
        answers: dict[int, R] = {}
        try:
            queue = as_completed(futures, loop=self.client.loop)  # it may not be the default client
            for _ in futures:
                self._await(queue)
                future = next(queue)
                number = place[future.key]
                answers[number] = _result(future, tasks[number], work)
                clock.tick(tasks[number])
        finally:
            self.client.cancel(futures)
        return [answers[number] for number in range(len(tasks))]

    def stream(self, function: Callable[[T], R], tasks: Iterable[T], work: Work) -> Iterator[tuple[int, R]]:
        """The answers of ``function``, each with the number of its task, as they come.

        As many tasks are drawn and run at once as there are slots; errors are those of `each`.
        """
        coming = enumerate(tasks)
        running: dict[str, tuple[int, T, Any]] = {}
        # answers are fetched at once, before their worker may die
        queue = as_completed(loop=self.client.loop, with_results=True, raise_errors=False)

        def start(number: int, task: T) -> None:
            future = self._submit(function, task, number, work)
            running[future.key] = (number, task, future)
            queue.add(future)

        try:
            for number, task in itertools.islice(coming, self.slots):
                start(number, task)
            while running:
                self._await(queue)
                future, result = next(queue)
                number, task, _ = running.pop(future.key)
                answer = _result(future, task, work) if future.status != "finished" else _raised(result)
                future.release()  # or its task would run again if its worker died now
                yield number, answer
                for following in itertools.islice(coming, 1):
                    start(*following)
        finally:
            self.client.cancel([future for _, _, future in running.values()])

    def _await(self, queue: as_completed) -> None:
        """Wait until a task has ended; raises JobError where none can, as no worker is left."""
        looked, was_empty = time.monotonic(), False
        while not queue.has_ready():
            with queue.thread_condition:
                queue.thread_condition.wait(TICK)
            if time.monotonic() - looked > PATIENCE:
                if was_empty:  # twice in succession: one look may fall into a restart
                    self._workers()
                was_empty = not self.client.scheduler_info(n_workers=-1)["workers"]
                looked = time.monotonic()

    def _submit(self, function: Callable[[T], R], task: T, number: int, work: Work) -> Any:
        return self.client.submit(
            _answer,
            function,
            task,
            work.name,
            key=f"distforest-{work.name}-{number}-{os.urandom(4).hex()}",
            retries=work.retries,
            pure=False,
        )


def _answer(function: Callable[[T], R], task: T, name: str) -> R | DistforestError:
    """On a worker: an error that is raised on purpose is an answer, so that Dask does not try it again."""
    logging.getLogger("distforest").debug("%s: %s", name, task)
    try:
        return function(task)
    except DistforestError as error:
        return error


def _result(future: Any, task: object, work: Work) -> Any:
    try:
        result = future.result()
    except KilledWorker as error:
        raise JobError(
            f"{work.name}: {task} was lost with its worker {error.allowed_failures + 1} times, the last one "
            f"{error.last_worker.address}; the usual cause is memory: raise run.memory_limit or lower run.batch"
        ) from error
    except Exception as error:
        raise _failed(task, work, error) from error
    return _raised(result)


def _raised(result: Any) -> Any:
    """Raise an answer that is an error, else return it."""
    if isinstance(result, DistforestError):
        raise result
    return result


def _failed(task: object, work: Work, error: Exception) -> JobError:
    return JobError(f"{work.name}: {task} failed {work.retries + 1} times, the last time with {error!r}")


@contextmanager
def local_cluster(
    workers: int | None = None, threads: int = 1, memory_limit: int | None = None, folder: Path | None = None
) -> Iterator[OnDask]:
    """An embedded cluster of processes on this machine, closed at the end.

    Parameters
    ----------
    workers
        Processes; the number of cores, at most 4, by default.
    threads
        Threads of each.
    memory_limit
        Bytes of each; an equal share of the machine's memory by default.
    folder
        Where the workers keep their own files.
    """
    workers = workers or min(os.cpu_count() or 1, 4)
    limit: Any = memory_limit if memory_limit is not None else "auto"
    with (
        dask.config.set(SETTINGS),
        LocalCluster(
            n_workers=workers,
            threads_per_worker=threads,
            processes=True,
            memory_limit=limit,
            dashboard_address="127.0.0.1:0",  # any free port: the default one may be taken
            local_directory=str(folder) if folder else None,
            silence_logs=logging.ERROR,
            worker_class=Nanny,
        ) as cluster,
        Client(cluster) as client,
    ):
        yield OnDask(client)


@contextmanager
def connected(scheduler: str) -> Iterator[OnDask]:
    """A cluster that runs already, by its scheduler's address.

    Raises
    ------
    JobError
        Nobody answers at the address.
    """
    try:
        get_backend(parse_address(scheduler)[0])  # a client that meets an unknown scheme is not collected for 20 s
        client = Client(scheduler, timeout="10s", set_as_default=False)
    except (OSError, ValueError, TypeError) as error:
        raise JobError(f"no Dask scheduler answers at {scheduler}: {error}") from error
    with client:
        yield OnDask(client)
