"""Reports of a scheduler on jobs: events of their workers and tasks, and which jobs wait for which.

Dask runs the tasks of the highest priority first: a task has the priority of its job, less the seconds for which the
job has had threads. Dask does not stop a running task, so a job whose tasks hang keeps its workers, and other jobs
wait. Their state then names the jobs that they wait for.
"""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING, Any

from distributed import SchedulerPlugin

from distforest.jobs.able_workers import warning_about_silent_workers
from distforest.jobs.cluster import Progress
from distforest.jobs.on_dask import job_of
from distforest.service.metrics import silent_of
from distforest.service.running import ANSWER_TOPIC, TOPIC

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from distributed.scheduler import SchedulerState, TaskState, WorkerState

    from distforest.service.job import Job

    Message = Mapping[str, Any]
    """A message of Dask, or of the worker that leads a job."""


LOOK_AT_TASKS, PATIENCE = 1.0, 5.0
"""Seconds between two reads of the scheduler's tasks, and without a running task after which a job is waiting."""

MOST_NAMES = 5
"""Largest number of jobs that a message names."""

OTHERS = ""
"""Placeholder for the job of tasks that belong to no job."""


class Watching(SchedulerPlugin):  # type: ignore[misc]  # from a package without types
    """Records for each job its lost workers, workers out of memory, and tasks that are tried again."""

    name = "distforest"

    def __init__(self, jobs: dict[str, Job]) -> None:
        self._jobs = jobs

    def _job(self, key: object) -> Job | None:
        return self._jobs.get(job_of(key) or "")

    def transition(self, key: object, start: str, finish: str, *_args: object, **_more: object) -> None:
        """Count a task that failed and is tried again."""
        if start == "processing" and finish == "waiting" and (job := self._job(key)):
            job.count("retries")

    def log_event(self, topic: str, msg: object) -> None:
        """Handle a message about a lost worker, a worker's memory, or a job that a worker leads."""
        if not isinstance(msg, dict):
            return
        if topic == TOPIC and (job := self._jobs.get(msg["job"])):
            job.watch(Progress(*(msg[name] for name in Progress.__dataclass_fields__)))
        elif topic == ANSWER_TOPIC and (job := self._jobs.get(msg["job"])):
            job.note(**msg["event"])
        elif topic == "all" and msg.get("action") == "remove-worker":
            self._lost(msg)
        elif topic == "worker-restart-memory":
            self._out_of_memory(msg)

    def _lost(self, msg: Message) -> None:
        if msg.get("expected"):
            return
        tasks = Counter(job_of(key) or "" for key in msg.get("processing-tasks", ()))
        for name, count in tasks.items():
            if job := self._jobs.get(name):
                message = f"worker {msg['worker']} was lost with {count} of the job's tasks; they run again elsewhere"
                job.note("lost", message, worker=msg["worker"])
                job.count("lost_workers")

    def _out_of_memory(self, msg: Message) -> None:
        for job in self._jobs.values():
            if job.is_at_work:
                size = f"{int(msg['rss']) >> 20:,} MiB"
                message = f"worker {msg['worker']} was ended by its nanny, as it was out of memory: it held {size}"
                job.note("memory", message, worker=msg["worker"])


class Turns:
    """A record of which jobs wait for which: `look` runs in the event loop of the scheduler, `why` in any thread."""

    def __init__(self) -> None:
        self._next = 0.0
        self._since: dict[str, float] = {}
        self._reasons: dict[str, str] = {}

    def why(self, job: str) -> str | None:
        """Return the reason why a job waits; None if it does not wait."""
        return self._reasons.get(job)

    def look(self, scheduler: SchedulerState) -> None:
        """Read the tasks of a scheduler, if it is due."""
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + LOOK_AT_TASKS
        silent = silent_of(scheduler)
        at_work = Counter(_jobs(_at_work(scheduler, silent)))
        waiting = {job for job in _jobs(_waiting(scheduler, silent)) if job != OTHERS} - at_work.keys()
        if not scheduler.total_nthreads:  # jobs then wait for a first worker, not for a busy one
            waiting = set()
        self._since = {job: self._since.get(job, now) for job in waiting}
        threads = sum(worker.nthreads for address, worker in scheduler.workers.items() if address not in silent)
        reason = _in_words(at_work, threads, silent)
        self._reasons = {job: reason for job, since in self._since.items() if now - since >= PATIENCE}


def _jobs(tasks: Iterator[TaskState]) -> Iterator[str]:
    """Return the jobs of some tasks."""
    return (job_of(task.key) or OTHERS for task in tasks)


def _at_work(scheduler: SchedulerState, silent: Collection[str]) -> Iterator[TaskState]:
    """Return the tasks that occupy a thread of a worker that is not silent; a leading task has left its thread."""
    heard = (worker for address, worker in scheduler.workers.items() if address not in silent)
    return (task for worker in heard for task in _running_tasks(worker))


def _running_tasks(worker: WorkerState) -> list[TaskState]:
    """Return the tasks that occupy a thread of one worker: all or, if they exceed its threads, those it reports."""
    tasks = [task for task in worker.processing if task not in worker.long_running]
    return tasks if len(tasks) <= worker.nthreads else [task for task in tasks if task in worker.executing]


def _waiting(scheduler: SchedulerState, silent: Collection[str]) -> Iterator[TaskState]:
    """Yield the tasks that could run, but have no thread or one of a silent worker."""
    yield from scheduler.queued
    yield from scheduler.unrunnable
    for address, worker in scheduler.workers.items():
        held = set() if address in silent else set(_running_tasks(worker))
        yield from (task for task in worker.processing if task not in held and task not in worker.long_running)


def _in_words(at_work: Counter[str], threads: int, silent: Mapping[str, float]) -> str:
    """Describe what the workers do; those that are not ``silent`` have this number of ``threads``.

    Examples
    --------
    >>> _in_words(Counter({"smerf-1": 2}), 2, {})
    'all 2 threads of the workers are busy, with smerf-1; the job goes on when one is free'
    >>> _in_words(Counter(), 2, {})
    'no worker takes its tasks, though not all are busy: are they paused? The job goes on when one does'
    """
    if silent:
        return warning_about_silent_workers(silent)
    if at_work.total() < threads:
        return "no worker takes its tasks, though not all are busy: are they paused? The job goes on when one does"
    names = sorted(at_work.keys() - {OTHERS})[:MOST_NAMES]
    names += [f"{more} more"] if (more := len(at_work.keys() - {OTHERS}) - len(names)) else []
    names += ["tasks that are no job's"] if OTHERS in at_work else []
    return f"all {threads} threads of the workers are busy, with {', '.join(names)}; the job goes on when one is free"
