"""Whose turn it is: jobs whose tasks wait while the workers are busy with those of others, and of whom.

Dask serves first what came first, and does not stop a task that runs: a job whose tasks hang holds its workers, and
others wait. That is no fault of theirs, so they say whom they wait for.
"""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING

from distforest.jobs.on_dask import job_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from distributed.scheduler import SchedulerState, TaskState, WorkerState

LOOK_AT_TASKS, PATIENCE = 1.0, 5.0
"""Seconds between two looks at the scheduler's tasks, and after which a job waits none of whose tasks has its turn."""

MOST_NAMES = 5
"""Of jobs that are named."""

OTHERS = ""
"""Who has tasks that are no job's."""


class Turns:
    """Looks at a scheduler now and then, in its event loop; `why` may be asked in any thread."""

    def __init__(self) -> None:
        self._next = 0.0
        self._since: dict[str, float] = {}
        self._told: dict[str, str] = {}

    def why(self, job: str) -> str | None:
        """Say whom a job waits for; None where it does not wait."""
        return self._told.get(job)

    def look(self, scheduler: SchedulerState) -> None:
        """Look, if it is time."""
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + LOOK_AT_TASKS
        at_work = Counter(_jobs(_at_work(scheduler)))
        waiting = {job for job in _jobs(_waiting(scheduler)) if job != OTHERS} - at_work.keys()
        if not scheduler.total_nthreads:  # it is no worker that is waited for, not a busy one
            waiting = set()
        self._since = {job: self._since.get(job, now) for job in waiting}
        told = _in_words(at_work, scheduler.total_nthreads)
        self._told = {job: told for job, since in self._since.items() if now - since >= PATIENCE}


def _jobs(tasks: Iterator[TaskState]) -> Iterator[str]:
    """The jobs of some tasks."""
    return (job_of(task.key) or OTHERS for task in tasks)


def _at_work(scheduler: SchedulerState) -> Iterator[TaskState]:
    """The tasks that have a thread of a worker; one that has given it back, as who leads a job does, has none."""
    return (task for worker in scheduler.workers.values() for task in _running_tasks(worker))


def _running_tasks(worker: WorkerState) -> list[TaskState]:
    """The tasks that have a thread of one worker: all, or if they are too many those that it says it works on."""
    own = [task for task in worker.processing if task not in worker.long_running]
    return own if len(own) <= worker.nthreads else [task for task in own if task in worker.executing]


def _waiting(scheduler: SchedulerState) -> Iterator[TaskState]:
    """The tasks that could run, and have no thread."""
    yield from scheduler.queued
    yield from scheduler.unrunnable
    for worker in scheduler.workers.values():
        held = set(_running_tasks(worker))
        yield from (task for task in worker.processing if task not in held and task not in worker.long_running)


def _in_words(at_work: Counter[str], threads: int) -> str:
    """Say what the workers do.

    Examples
    --------
    >>> _in_words(Counter({"smerf-1": 2}), 2)
    'all 2 threads of the workers are busy, with smerf-1; the job goes on when one is free'
    >>> _in_words(Counter(), 2)
    'no worker takes its tasks, though not all are busy: are they paused? The job goes on when one does'
    """
    if at_work.total() < threads:
        return "no worker takes its tasks, though not all are busy: are they paused? The job goes on when one does"
    names = sorted(at_work.keys() - {OTHERS})[:MOST_NAMES]
    names += [f"{more} more"] if (more := len(at_work.keys() - {OTHERS}) - len(names)) else []
    names += ["tasks that are no job's"] if OTHERS in at_work else []
    return f"all {threads} threads of the workers are busy, with {', '.join(names)}; the job goes on when one is free"
