"""Tasks on the workers of an embedded or running Dask cluster; importing this module imports ``distributed``."""

from __future__ import annotations

import asyncio
import itertools
import logging
import math
import os
import time
from collections import deque
from concurrent.futures import CancelledError, wait
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cache, partial
from queue import Empty, SimpleQueue
from statistics import fmean
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import dask
from distributed import Client, Future, LocalCluster, Nanny, get_worker
from distributed.client import ClosedClientError
from distributed.comm import parse_address
from distributed.comm.registry import get_backend
from distributed.scheduler import KilledWorker
from distributed.system import MEMORY_LIMIT

from distforest.amounts import counted
from distforest.errors import CancelledJobError, DistforestError, JobError, warn_caller
from distforest.jobs.able_workers import (
    ANSWER_PATIENCE,
    check_able,
    silent_among,
    warning_about_paused_workers,
    warning_about_silent_workers,
)
from distforest.jobs.cluster import RETRY_SECONDS, Clock, Lost, Work, failure_message
from distforest.jobs.plan import check_worker_memory
from distforest.jobs.scratch_room import HostWorkers
from distforest.jobs.shared_folders import check_seen
from distforest.jobs.stragglers import Stragglers
from distforest.jobs.worker_start import check_room, embedded, quiet_start, uninterrupted
from distforest.process_end import end_sooner
from distforest.sources.lazy.own_process import in_own_processes

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from distributed import Worker
    from distributed.core import PooledRPCCall

    from distforest.jobs.able_workers import WorkerIdentity
    from distforest.jobs.cluster import Course
    from distforest.stores.claims import Claim

T = TypeVar("T")
R = TypeVar("R")

Key = tuple[str, int, str, str]
"""The key of a task; see `KEYS`."""

COMPILING = "distforest-compiling"
"""Topic under which a worker reports that it compiles kernels."""

WORKER_PATIENCE, LOOK, TICK = 30.0, 1.0, 0.1
"""Seconds without a worker after which a run ends, between two checks of the workers, and of one wait."""

FETCH, AT_ONCE = 3.0, 256
"""Seconds in which a finished answer must arrive (if its worker dies meanwhile, another worker computes it again), and
number of answers that are fetched at once: Dask keeps 512 connections."""

RECONNECTION = 5.0
"""Seconds in which a client that has lost its scheduler must reconnect; Dask tries for 30."""

PAUSED_LOOK, PAUSED_PATIENCE = 5.0, 20.0
"""Seconds between two checks whether all workers are paused, and before the warning, as spilling takes time."""

DISCONNECTED = {"connecting", "closing", "closed"}
"""States of a client that has lost its scheduler."""

LINGER = 0.05
"""Seconds for which the last answer of a run stays with its worker."""

KEYS = "distforest"
"""The third part of the keys of all tasks: ``("smerf-grow-0a1b2c3d", 12, "distforest", "name of the job")``.

Dask averages over tasks whose keys begin alike, here those of a method and step.
"""

JOB_SECONDS = 1 << 24
"""Seconds of threads that one step of a job's priority stands for: half a year."""

LIKELY_SECONDS = 1.0
"""Assumed seconds of a task until one has ended."""

LINKED_SECONDS = 0.1
"""Assumed seconds of a linked task."""

FIRST_TASKS = 2
"""Tasks per thread that are submitted before one has ended."""

BEFORE_OTHERS = 1 << 20
"""Added priority of short tasks for which others wait, which is more than the priority of any job."""

MACHINE_BYTES = int(MEMORY_LIMIT)
"""Memory of this machine, or of the container of this process."""


def give_up(threads: int, seconds: float) -> None:
    """Raise JobError if there has been no worker for `WORKER_PATIENCE` seconds."""
    if threads or seconds < WORKER_PATIENCE:
        return
    if seconds == math.inf:
        raise JobError(
            f"the cluster has no workers, and none has connected within {WORKER_PATIENCE:.0f} s; start some "
            "(`dask worker ADDRESS`), and try again"
        )
    raise JobError(
        f"the cluster has had no workers for {seconds:.0f} s: they have died or left; their logs have the reason "
        "(out of memory, or another version of distforest?); start some, and try again"
    )


@dataclass(frozen=True)
class OnDask:
    """The workers of a Dask cluster.

    Attributes
    ----------
    client
        A client of the cluster.
    name
        Name of the job; the keys of its tasks end with it.
    method
        Name of its method; the keys of its tasks begin with it.
    priority
        Tasks of jobs of a higher priority run before others. Among jobs of equal priority, tasks of the job that has
        had threads for the fewest seconds run first.
    claim
        The job's claim on its output: a worker that does not see it refuses tasks of the job.
    seconds
        Seconds for which tasks of the job have had threads, by the address of the worker.
    placement
        Dask's annotations of growing tasks: ``resources`` and ``workers``. Dask (2026.7) fails if it is also given a
        worker that lacks a resource, so a task with a placement is never sent to a certain worker.
    latest
        The latest reply of a worker.
    seen
        Function that is called at each check with the number of the workers' threads, and the seconds for which there
        have been none (between runs of tasks: infinity, if none has connected within `WORKER_PATIENCE`). If it raises,
        the run ends. `give_up` by default.
    """

    client: Client
    name: str = ""
    seen: Callable[[int, float], None] = give_up
    method: str = KEYS
    priority: float = 0.0
    claim: Claim | None = None
    seconds: dict[str, float] = field(default_factory=dict)
    placement: Mapping[str, Any] = field(default_factory=dict)
    latest: deque[Reply] = field(default_factory=lambda: deque(maxlen=1))

    def _workers(self) -> list[WorkerIdentity]:
        """Return all workers in the records of the scheduler; wait until there is one."""
        workers = list(self.identities().values()) or self._awaited()
        self.seen(sum(worker["nthreads"] for worker in workers), math.inf)
        return workers

    def _awaited(self) -> list[WorkerIdentity]:
        """Return all workers as soon as there is one: an adaptive cluster starts them when a task waits for them."""
        waiting = self.client.submit(os.getpid, key=self.new_key("want"), pure=False)
        end = time.monotonic() + WORKER_PATIENCE
        try:
            while not (workers := self.identities()):
                self.seen(0, 0.0 if time.monotonic() < end else math.inf)
                time.sleep(TICK)
            return list(workers.values())
        finally:
            waiting.release()

    def new_key(self, run: str, number: int = 0, token: str = "") -> Key:
        """Return the key of a task of a run; Dask treats keys of one ``token`` as a group, and queues large groups."""
        return (f"{self.method}-{run}-{token or os.urandom(4).hex()}", number, KEYS, self.name)

    @contextmanager
    def prioritised(self, keys: Iterable[Key], before: int, likely: float, first: bool) -> Iterator[None]:
        """Give priorities to the tasks that are submitted in the block.

        The priority of a task is that of the job, less the seconds for which the job has had threads, and less those
        that earlier tasks are likely to take: ``before`` tasks that have not ended, and the earlier ones of ``keys``,
        each of ``likely`` seconds. Tasks for which others wait come ``first``.
        """
        had, numbers = sum(self.seconds.values()), itertools.count(before)
        highest = (self.priority + BEFORE_OTHERS * first) * JOB_SECONDS
        priority = {key: highest - had - likely * next(numbers) for key in keys}
        try:
            with dask.annotate(priority=priority.__getitem__):
                yield
        except ClosedClientError as error:
            raise self._lost() from error

    def may_have_run_on(self, workers: Iterable[str]) -> None:
        """Record workers that may have run tasks of the job without reporting it."""
        self.seconds.update({worker: 0.0 for worker in workers if worker not in self.seconds})

    def identities(self) -> dict[str, WorkerIdentity]:
        """Return all present workers in the records of the scheduler, by address.

        ``client.scheduler_info`` is not used: every two seconds the client itself requests a record without workers,
        and stores it in the same place.
        """
        return dict(self._in_loop(self._scheduler().identity(n_workers=-1))["workers"])

    def _scheduler(self) -> PooledRPCCall:
        """Return the scheduler, for questions about workers and events.

        Raises
        ------
        JobError
            The client is closed, or its loop runs in this thread, which would wait for itself forever.
        """
        if self.client.scheduler is None:
            raise JobError(
                "the Dask client is closed, or has lost its scheduler; give one that is connected to a scheduler"
            )
        with suppress(RuntimeError):  # no loop runs in this thread
            if asyncio.get_running_loop() is self.client.loop.asyncio_loop:
                raise JobError(
                    "the Dask client is asynchronous and its loop runs in this thread, which cannot wait for it; "
                    "give a client made without `asynchronous=True`, or call from a thread: `asyncio.to_thread`"
                )
        return self.client.scheduler

    def _in_loop(self, question: Coroutine[object, object, R]) -> R:
        """Run a coroutine in the client's loop and return its result; an interrupt of the wait cancels it.

        ``client.sync`` does the same, but its loop logs a NameError if Ctrl-C arrives before the coroutine has started.

        Raises
        ------
        ConnectionError
            The scheduler has ended, or cannot be reached.
        """
        if self.client.status == "closed":
            question.close()
            raise self._lost()
        asking, lost = asyncio.run_coroutine_threadsafe(question, self.client.loop.asyncio_loop), 0.0
        try:
            while not wait([asking], TICK).done:
                lost = lost + TICK if self.client.status in DISCONNECTED else 0.0
                if lost >= RECONNECTION:
                    raise self._lost()
            return asking.result()
        except OSError as error:
            if asking.done() and self.client.status in DISCONNECTED:
                raise self._lost() from error
            raise
        finally:
            asking.cancel()

    def _lost(self) -> ConnectionError:
        """Return the error of a run whose scheduler has gone; it is not a JobError, so that a service tries again."""
        if self.client.status == "closed":
            return ConnectionError("the client was closed while its job ran; connect a new one, and try again")
        scheduler = self.client.scheduler
        where = f" at {scheduler.address}" if scheduler is not None else ""
        return ConnectionError(
            f"the connection to the Dask scheduler{where} was lost: it has ended, or cannot be reached; start a "
            "scheduler and workers, connect to them with a new client, and try again"
        )

    def of_job(self, claim: Claim, method: str) -> OnDask:
        """Return the same workers for the tasks of one job; see `Cluster.of_job`."""
        return replace(self, claim=claim, method=method)

    @property
    def slots(self) -> int:
        """Number of threads of all workers."""
        return sum(worker["nthreads"] for worker in self._workers())

    def threads_now(self) -> dict[str, int]:
        """Return the present number of threads of each worker, by address."""
        return dict(self._in_loop(self._scheduler().ncores()))

    @property
    def n_workers(self) -> int:
        """Number of workers."""
        return len(self._workers())

    @property
    def hosts(self) -> dict[str, HostWorkers]:
        """The workers by host."""
        found = dict[str, HostWorkers]()
        for worker in self._workers():
            known = found.get(worker["host"], HostWorkers(0, 0))
            found[worker["host"]] = HostWorkers(known.n_workers + 1, known.threads + worker["nthreads"])
        return found

    @property
    def threads(self) -> int:
        """Largest number of threads of a worker."""
        return max(worker["nthreads"] for worker in self._workers())

    @property
    def memory_limit(self) -> int | None:
        """The smallest memory limit of a worker; None if no worker has one."""
        limits = [worker["memory_limit"] for worker in self._workers() if worker["memory_limit"]]
        return min(limits) if limits else None

    def each(self, function: Callable[[T], R], tasks: Sequence[T], work: Work) -> list[R]:
        """Return the answers of ``function`` to ``tasks``, in their order; see `Cluster.each`.

        The scheduler gets all tasks at once, and assigns a worker as many as it has threads (``worker-saturation``). So
        the scheduler knows the waiting tasks, which autoscalers request, and runs the tasks of all jobs by priority.
        """
        clock, answers = Clock(work, tasks), dict[int, R]()
        for number, answer in self._run(function, tasks, work, len(tasks)):
            answers[number] = answer
            clock.tick(tasks[number], answer)
        return [answers[number] for number in range(len(tasks))]

    def everywhere(self, function: Callable[[str], object], argument: str) -> None:
        """Call a function here and in each worker of the job that is not silent; see `Cluster.everywhere`."""
        function(argument)

        async def call(workers: list[str]) -> None:
            calling = self.client.run(function, argument, workers=workers, on_error="ignore")
            await asyncio.wait_for(calling, ANSWER_PATIENCE)

        with suppress(Exception):  # any error of a dying worker or a closed client
            there = self.identities()
            if workers := (self.seconds.keys() & there.keys()) - silent_among(there).keys():
                self._in_loop(call(list(workers)))

    def stream(self, function: Callable[[T], R], tasks: Iterable[T], work: Work) -> Iterator[tuple[int, R]]:
        """Yield the answers of ``function`` as they arrive, each with the number of its task.

        As many tasks are drawn and run at once as there are slots. The errors are those of `each`.
        """
        yield from self._run(function, tasks, work)

    def _run(
        self, function: Callable[[T], R], tasks: Iterable[T], work: Work, at_once: int | None = None
    ) -> Iterator[tuple[int, R]]:
        """Yield the answers as they arrive.

        When one answer has arrived, which shows how long a task takes, ``at_once`` tasks are submitted at once, and
        stragglers a second time; by default, each task is submitted once, and as many as run.
        """
        coming, look, ended, token = enumerate(tasks), _WorkerMonitor(self), SimpleQueue[Future](), os.urandom(4).hex()
        running, stragglers = dict[Key, _SentTask](), Stragglers()

        def submit(drawn: list[_SentTask], token: str, where: str | None = None) -> None:
            """Send tasks to the scheduler in one message, preferably for one worker if it is given."""
            if not drawn:
                return
            keys = [self.new_key(work.name, asked.number, token) for asked in drawn]
            likely = fmean(stragglers.took or [LIKELY_SECONDS])
            placement = {} if work.first else self.placement
            with self.prioritised(keys, len(running), likely, work.first), dask.annotate(**placement):
                futures = self.client.map(
                    partial(_answer, function, work.name, self.claim),
                    [asked.task for asked in drawn],
                    key=keys,
                    retries=work.retries,
                    workers=None if where is None else [where],
                    allow_other_workers=where is not None,
                    pure=False,
                )
            for asked, future in zip(drawn, futures, strict=True):
                asked.futures.append(future)
                running[future.key] = asked
                future.add_done_callback(ended.put)

        try:
            while True:
                is_time = look.again()
                most = max(1, look.threads)
                if at_once:
                    most = at_once if stragglers.took else FIRST_TASKS * most
                room = most - len(running)
                submit([_SentTask(*numbered) for numbered in itertools.islice(coming, max(0, room))], token)
                if not running:
                    return
                if at_once and is_time and not self.placement:
                    for late, worker in self._stragglers(stragglers, running):
                        submit([late], os.urandom(4).hex(), worker)
                for future, fetched in self._fetched(ended):
                    if asked := self._taken(running, future):
                        self._release(future, bool(running))
                        yield asked.number, self._reply(fetched, asked.task, work, stragglers)
        finally:
            if running and self.client.status != "closed":
                self.may_have_run_on(look.workers)
                self.client.cancel([future for asked in running.values() for future in asked.futures])

    def _taken(self, running: dict[Key, _SentTask], future: Future) -> _SentTask | None:
        """Remove an answered task from the running ones, and cancel its other future; None if answered before."""
        asked = running.pop(future.key, None)
        if asked and (twins := [twin for twin in asked.futures if twin.key in running]):
            del running[twins[0].key]
            self.client.cancel(twins)
        return asked

    def _stragglers(self, known: Stragglers, running: Mapping[Key, _SentTask]) -> Iterator[tuple[_SentTask, str]]:
        """Yield tasks that take much longer than the others of their run, each with another worker that is free."""
        if not known.may_be_known(len(running)):
            return
        at_work = self._in_loop(self._scheduler().processing(workers=None))
        once = {key for key, asked in running.items() if len(asked.futures) == 1}
        if late := known.late(once, itertools.chain(*at_work.values())):
            there = self.identities()
            able = [one for one in there.keys() - silent_among(there) if there[one]["status"] == "running"]
            free = (one for one in able for _ in range(there[one]["nthreads"] - len(at_work.get(one, ()))))
            yield from zip([running[key] for key in late], free, strict=False)

    def _fetched(self, ended: SimpleQueue[Future]) -> Iterator[tuple[Future, Fetched]]:
        """Yield the tasks that have ended within `TICK`, each with its answer; a lost answer ends again."""
        futures = list[Future]()
        with suppress(Empty):
            futures.append(ended.get(timeout=TICK))
            while True:
                futures.append(ended.get_nowait())
        for future, fetched in zip(futures, self._in_loop(_fetch_all(futures)) if futures else [], strict=True):
            if fetched is None:
                future.add_done_callback(ended.put)
            else:
                yield future, fetched

    def _release(self, future: Future, at_once: bool) -> None:
        """Release the future of a fetched answer, or its task would run again if its worker died.

        The last one of a run waits for `LINGER` seconds: Dask sends at most one message in 10 ms to the scheduler, and
        the tasks of the next run should be the first.
        """
        loop = self.client.loop
        if at_once:
            future.release()
        else:
            loop.add_callback(loop.call_later, LINGER, future.release)

    @contextmanager
    def linked(self, work: Work) -> Iterator[_DaskLinks]:
        """Yield linked tasks for a block; see `distforest.jobs.cluster.Cluster`."""
        yield _DaskLinks(self, replace(work, keep_going=False))

    def _reply(self, fetched: Fetched, task: object, work: Work, run: Stragglers) -> Any:
        """Return the answer of a task as `_answer` does, and record how long it took, and where."""
        reply = self._answer(fetched, task, work)
        if isinstance(reply, Lost):
            return reply
        self.seconds[reply.worker] = self.seconds.get(reply.worker, 0.0) + reply.seconds
        self.latest.append(reply)
        run.took.append(reply.seconds)
        return _result_or_raise(reply.answer)

    def _answer(self, fetched: Fetched, task: object, work: Work) -> Any:
        """Return the answer of a task; `Lost` if it was lost with its workers and the run may continue."""
        error = fetched.error
        if error is None:
            return _result_or_raise(fetched.result)
        if isinstance(error, CancelledError):  # the client itself cancels all futures when it loses the scheduler
            raise self._lost() from error
        if not isinstance(error, KilledWorker):
            raise JobError(failure_message(work, task, error)) from error
        lost = Lost(f"{work.name}: {task} was lost with its worker {self._deaths(error, work)}")
        if work.keep_going:
            return lost
        raise JobError(lost.why) from error

    def _deaths(self, error: KilledWorker, work: Work) -> str:
        """Describe how often the workers of a task died, the last of them, and whether its memory was the cause."""
        where = f"{counted(error.allowed_failures + 1, 'time')}, the last one {error.last_worker.address}"
        events = self._in_loop(self._scheduler().events(topic="worker-restart-memory")) or ()
        used = [event["rss"] for _, event in events if event["worker"] == error.last_worker.address]
        advice = "raise the workers' memory limit (run.memory_limit)"
        if work.keep_going:  # growing tasks
            advice += " or lower run.batch"
        if used:
            limit = error.last_worker.memory_limit
            size = f"it held {max(used) >> 20:,} MiB of {limit >> 20:,} MiB"
            return f"{where}, which was out of memory: {size}; {advice}"
        return f"{where}; if the system has ended it for its memory, {advice}"


@dataclass(eq=False)
class _SentTask:
    """A task with its number, and the futures of its answer: two for a straggler."""

    number: int
    task: Any
    futures: list[Future] = field(default_factory=list)


@dataclass(eq=False)
class _LinkedTask:
    """A task that waits until it is sent together with others, and then its future."""

    key: Key
    call: tuple[Any, ...]
    where: str | None
    future: Future | None = None


class _DaskLinks:
    """Linked tasks on the workers of a Dask cluster; see `distforest.jobs.cluster.TaskLinks`.

    A handle stands for a future, and its answer stays on the worker that has computed it. Dask computes a lost answer
    again, from the answers that led to it, as long as it is needed. Tasks are sent when an answer is awaited, as one
    message for all tasks of a level costs the scheduler less than one for each.
    """

    def __init__(self, cluster: OnDask, work: Work) -> None:
        self._cluster, self._work, self._look = cluster, work, _WorkerMonitor(cluster)
        self._numbers, self._near, self._token = itertools.count(), dict[int, str](), os.urandom(4).hex()
        self._unsent, self._n_sent = list[_LinkedTask](), 0

    def call(self, function: Callable[..., object], *arguments: object, near: int | None = None) -> _LinkedTask:
        """Return a task, which is sent later with others."""
        self._look.again()
        key = self._cluster.new_key(self._work.name, next(self._numbers), self._token)
        task = _LinkedTask(
            key,
            (_linked_answer, function, self._cluster.claim, *arguments),
            None if near is None else self._address(near),
        )
        self._unsent.append(task)
        return task

    def _send(self) -> None:
        """Send all tasks in few messages, one for each group of tasks with the same worker."""
        unsent, self._unsent = self._unsent, []
        for tasks in _messages(unsent):
            where, keys = tasks[0].where, [task.key for task in tasks]
            prioritised = self._cluster.prioritised(keys, self._n_sent, LINKED_SECONDS, first=False)
            with prioritised, dask.annotate(**self._cluster.placement):
                futures = self._cluster.client.get(
                    {task.key: tuple(map(_sent, task.call)) for task in tasks},
                    keys,
                    workers=None if where is None else [where],
                    allow_other_workers=where is not None,
                    retries=self._work.retries,
                    sync=False,
                )
            self._n_sent += len(tasks)
            for task, future in zip(tasks, futures, strict=True):
                task.future, task.call = future, ()

    def _address(self, near: int) -> str | None:
        """Return the worker of a number, which is the same one as long as it is there."""
        if self._near.get(near) not in self._look.workers:
            there = sorted(self._look.workers)
            if not there or self._cluster.placement:
                return None
            self._near[near] = there[near % len(there)]
        return self._near[near]

    def follow(self, courses: Iterable[Course[R]], at_once: int) -> Iterator[R]:
        """Yield what the courses return, as they end."""
        coming, ended = iter(courses), SimpleQueue[Future]()
        waiting: dict[Key, tuple[Course[R], Future]] = {}
        ready: list[tuple[Course[R], Any]] = []
        awaited: list[tuple[Course[R], _LinkedTask]] = []
        try:
            while True:
                ready += [(course, None) for course in itertools.islice(coming, at_once - len(waiting) - len(ready))]
                if not ready and not waiting:
                    return
                for course, answer in ready:
                    try:
                        awaited.append((course, course.send(answer)))
                    except StopIteration as end:
                        yield end.value
                self._send()
                for course, task in awaited:
                    assert task.future is not None  # noqa: S101  (all were sent)
                    waiting[task.key] = (course, task.future)
                    task.future.add_done_callback(ended.put)
                awaited = []
                ready = list(self._ready(ended, waiting)) if waiting else []
        finally:
            self._cluster.may_have_run_on(self._look.workers)
            for course, future in waiting.values():
                course.close()
                future.cancel()

    def _ready(
        self, ended: SimpleQueue[Future], waiting: dict[Key, tuple[Course[R], Future]]
    ) -> Iterator[tuple[Course[R], Any]]:
        """Yield the courses whose answers have arrived, if any, each with its answer."""
        self._look.again()
        for future, fetched in self._cluster._fetched(ended):
            course, _ = waiting.pop(future.key)
            yield course, self._cluster._answer(fetched, "a tree in parts", self._work)


class Fetched(NamedTuple):
    """The result of a task that has ended, or the error that it raised."""

    result: Any = None
    error: BaseException | None = None


async def _fetch_all(futures: Sequence[Future]) -> list[Fetched | None]:
    """Fetch the results of ended tasks, many at once; None for a result that was lost before it was fetched."""
    at_once = asyncio.Semaphore(AT_ONCE)

    async def fetched(future: Future) -> Fetched | None:
        try:
            async with at_once:
                return Fetched(await future.result(timeout=FETCH))
        except asyncio.CancelledError:
            if (own := asyncio.current_task()) is None or own.cancelling():
                raise
            return None  # Dask fetches several answers in one request, which ends for all when one is given up
        except Exception as error:  # noqa: BLE001  (a task may raise anything)
            is_lost = future.status not in {"error", "cancelled"}
            if is_lost and (future.status != "finished" or isinstance(error, (OSError, TimeoutError))):
                return None  # Dask computes it again, or a second try succeeds
            return Fetched(error=error)

    return await asyncio.gather(*map(fetched, futures))


class _WorkerMonitor:
    """A monitor that checks the workers at most once in `LOOK` seconds."""

    def __init__(self, cluster: OnDask) -> None:
        self._cluster, self._next = cluster, 0.0
        self._left: float | None = None
        self.threads, self.workers = 0, dict[str, int]()
        self._next_warning, self._paused, self._warned = time.monotonic() + PAUSED_LOOK, math.inf, set[str]()

    def again(self) -> bool:
        """Check the workers, if it is due: call ``seen`` with their threads, and warn of paused and silent ones."""
        now = time.monotonic()
        if now < self._next:
            return False
        self._next, self.workers = now + LOOK, self._cluster.threads_now()
        self._cluster._in_loop(check_able(self._cluster.client, self.workers))
        self.threads = sum(self.workers.values())
        if self.threads:
            self._left = None
        elif self._left is None:
            self._left = now
        self._cluster.seen(self.threads, 0.0 if self._left is None else now - self._left)
        if now >= self._next_warning and self._cluster.seen is give_up:  # a service reports it in another way
            self._next_warning = now + PAUSED_LOOK
            self._warn(now)
        return True

    def _warn(self, now: float) -> None:
        """Warn once of each silent worker, and if all others have been paused for long."""
        workers = self._cluster.identities()
        silent = silent_among(workers)
        if unwarned := {worker: silent[worker] for worker in silent.keys() - self._warned}:
            self._warned |= unwarned.keys()
            warn_caller(warning_about_silent_workers(unwarned))
        paused = warning_about_paused_workers([workers[worker] for worker in workers.keys() - silent.keys()])
        self._paused = min(self._paused, now) if paused else math.inf
        if paused and now - self._paused >= PAUSED_PATIENCE:
            self._next_warning = math.inf
            warn_caller(paused)


def job_of(key: object) -> str | None:
    """Return the job whose task has this key; None for a task that belongs to no job.

    Examples
    --------
    >>> job_of(("smerf-grow-0a1b2c3d", 12, "distforest", "smerf-20261122-4f3a")), job_of(("sum-0a1b2c3d", 0))
    ('smerf-20261122-4f3a', None)
    """
    return key[3] if isinstance(key, tuple) and len(key) == 4 and key[2] == KEYS else None


class Reply(NamedTuple):
    """The answer of a task, or an error that it has raised on purpose; the address of its worker; its seconds."""

    answer: Any
    worker: str
    seconds: float


def _answer(function: Callable[[T], R], name: str, claim: Claim | None, task: T) -> Reply:
    """Run a task on a worker."""
    logging.getLogger("distforest").debug("%s: %s", name, task)
    begun = time.monotonic()

    def run() -> R:
        with in_own_processes(_cancellation_check()):
            return function(task)

    return Reply(_result_or_error(run, claim), get_worker().address, time.monotonic() - begun)


def _linked_answer(function: Callable[..., R], claim: Claim | None, *arguments: object) -> R | DistforestError:
    """Run a task with the answers of others; return an error that is among them."""
    error = _error_among(arguments)
    return _result_or_error(partial(function, *arguments), claim) if error is None else error


def _result_or_error(run: Callable[[], R], claim: Claim | None) -> R | DistforestError:
    """Call a function on a worker; return an error that is raised on purpose, so that Dask does not try again."""
    worker = get_worker().address
    try:
        if claim is not None:
            check_seen(claim, worker)
        return run()
    except DistforestError as error:
        return error
    except OSError as refusal:
        refusal.add_note(f"on worker {worker}")
        time.sleep(RETRY_SECONDS)  # Dask tries again at once, but a store may need a moment
        raise


def _error_among(given: object) -> DistforestError | None:
    """Return an error among some answers, in nested lists too."""
    if isinstance(given, (list, tuple)):
        return next((error for own in given if (error := _error_among(own)) is not None), None)
    return given if isinstance(given, DistforestError) else None


def _sent(argument: object) -> object:
    """Return an argument for the scheduler: a task as its future, or as its key if it is in the same message."""
    if isinstance(argument, _LinkedTask):
        return argument.future or argument.key
    return [_sent(own) for own in argument] if isinstance(argument, list) else argument


def _messages(tasks: Sequence[_LinkedTask]) -> Iterator[list[_LinkedTask]]:
    """Yield groups of tasks with the same worker; no task needs the answer of a task in a later group."""
    left = list(tasks)
    while left:
        own = list[_LinkedTask]()
        for task in left:
            if task.where == left[0].where and all(one in own or one not in left for one in _linked_in(task.call)):
                own.append(task)
        left = [task for task in left if task not in own]
        yield own


def _linked_in(argument: object) -> Iterator[_LinkedTask]:
    """Yield the tasks among some arguments, in nested lists too."""
    if isinstance(argument, _LinkedTask):
        yield argument
    elif isinstance(argument, (list, tuple)):
        for own in argument:
            yield from _linked_in(own)


def _cancellation_check() -> Callable[[], None]:
    """Return a check that raises CancelledJobError if the task of this thread is no longer needed.

    Dask does not stop a running task, but only marks it.
    """
    worker = get_worker()
    key = worker.get_current_task()

    def look() -> None:
        state = worker.state.tasks.get(key)
        if state is None or state.state == "cancelled":
            raise CancelledJobError("this task is no longer needed: its job has ended, or was cancelled")

    return look


def _result_or_raise(result: R | DistforestError) -> R:
    """Return a result, or raise it if it is an error."""
    if isinstance(result, DistforestError):
        raise result
    return result


def _say_of_compiling(dask_worker: Worker) -> None:
    """Let a worker report to all clients that it compiles kernels."""
    from distforest.jit import report_compilation  # noqa: PLC0415  (slow, and a client compiles nothing)

    report_compilation(partial(dask_worker.log_event, COMPILING))


@contextmanager
def local_cluster(
    workers: int | None = None,
    threads: int = 1,
    memory_limit: int | None = None,
    folder: Path | None = None,
    tell: Callable[[str], None] | None = None,
) -> Iterator[OnDask]:
    """Start an embedded cluster of processes on this machine, and close it at the end of the block.

    Parameters
    ----------
    workers
        Number of processes; by default the number of cores, at most 4.
    threads
        Number of threads of each process.
    memory_limit
        Memory of each process in bytes; by default an equal share of the machine's memory.
    folder
        Folder for the workers' files.
    tell
        Function that is called once with a text, in a thread of the client, if a worker compiles kernels.

    Raises
    ------
    MemoryLimitError
        A worker cannot start with so little memory.
    JobError
        The processes could not be started, for example because the disk is full.
    """
    check_worker_memory(memory_limit)
    check_room(folder)
    workers = workers or min(os.cpu_count() or 1, 4)
    limit = memory_limit if memory_limit is not None else "auto"
    with embedded(), ExitStack() as closed:
        try:
            with quiet_start(), uninterrupted():
                cluster = LocalCluster(
                    n_workers=workers,
                    threads_per_worker=threads,
                    processes=True,
                    memory_limit=limit,
                    dashboard_address="127.0.0.1:0",  # any free port: the default one may be taken
                    local_directory=str(folder) if folder else None,
                    silence_logs=logging.ERROR,
                    worker_class=Nanny,
                )
                closed.enter_context(cluster)
        except RuntimeError as error:  # Dask's error around the cause
            raise JobError(f"workers could not be started on this machine: {error.__cause__ or error}") from error
        with Client(cluster) as client:
            client.run(end_sooner)
            if tell is not None:
                once = cache(tell)
                client.subscribe_topic(COMPILING, lambda event: once(event[1]))
                client.run(_say_of_compiling)
            yield OnDask(client)


@contextmanager
def connected(scheduler: str) -> Iterator[OnDask]:
    """Connect to a running cluster by the address of its scheduler.

    Raises
    ------
    JobError
        No scheduler answers at the address.
    """
    try:
        get_backend(parse_address(scheduler)[0])  # a client with an unknown scheme is not collected for 20 s
        client = Client(scheduler, timeout="10s", set_as_default=False)
    except (OSError, ValueError, TypeError) as error:
        raise JobError(f"no Dask scheduler answers at {scheduler}: {error}") from error
    with _quiet_reconnection(), client:
        yield OnDask(client)


@contextmanager
def _quiet_reconnection() -> Iterator[None]:
    """Suppress, for a block, a traceback of Dask about a client that is closed while it looks for its scheduler.

    The error with which the block ends reports that the scheduler is lost.
    """
    logger = logging.getLogger("distributed.client")

    def is_news(record: logging.LogRecord) -> bool:
        return not (record.exc_info and isinstance(record.exc_info[1], asyncio.CancelledError))

    logger.addFilter(is_news)
    try:
        yield
    finally:
        logger.removeFilter(is_news)
