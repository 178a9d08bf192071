"""Following a job to its end, across restarts of the scheduler too."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING

from distforest.errors import NotDoneError, UnreachableError, WaitTimeoutError
from distforest.jobs.cluster import Progress
from distforest.service.registry import (
    CANCELLED,
    CANCELLING,
    ENDS,
    INTERRUPTED,
    MERGING,
    QUEUED,
    RUNNING,
    SUCCEEDED,
    UNREADABLE,
    WAITING,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from distforest.jobs.cluster import Watch
    from distforest.service.messages import JobEvent, JobState
    from distforest.service.whereabouts import Jobs

POLL_SECONDS, FOLLOW_SECONDS, SILENCE_SECONDS = 0.5, 2.0, 60.0
"""Seconds between two reads of the state, for the last read, and of silence after which a service counts as lost."""

MOVED = (RUNNING, MERGING, CANCELLING, SUCCEEDED)
"""States in which the progress of a job belongs to its current attempt."""

OF_THE_OWNER = {"InputError", "SpecError"}
"""Kinds of errors with which a job fails again until its input or its spec is corrected."""


def follow(jobs: Jobs, job_id: str, seconds: float | None = None) -> Iterator[JobState]:
    """Yield the state of a job repeatedly until the job has ended.

    A service that answered before has a minute to return if it does not answer, if the job root cannot be read, or if
    the root reports that the job is interrupted.

    Parameters
    ----------
    jobs
        Reader of the state.
    job_id
        Id of the job.
    seconds
        Time limit in seconds; none by default.

    Yields
    ------
    dict
        The state; the last one is SUCCEEDED, FAILED, CANCELLED, INTERRUPTED, or UNREADABLE.

    Raises
    ------
    NotFoundError
        There is no such job.
    UnreachableError
        The service has not answered from the start, or for a minute.
    WaitTimeoutError
        The time limit is over.
    """
    deadline = math.inf if seconds is None else time.monotonic() + seconds
    last_answer, known = -math.inf, None
    while True:
        left = deadline - time.monotonic()
        patient = time.monotonic() - last_answer <= SILENCE_SECONDS
        job: JobState | None = None
        try:
            job = jobs.within(max(left, FOLLOW_SECONDS)).job(job_id)
        except (UnreachableError, OSError):  # no scheduler, or no store
            if not patient:
                raise
        if job is not None and not (patient and job["state"] == INTERRUPTED):
            known, last_answer = job, time.monotonic()
            yield job
            if job["state"] in (*ENDS, INTERRUPTED, UNREADABLE):
                return
        if time.monotonic() >= deadline:
            state: JobState = known or {"id": job_id, "state": "unknown"}
            message = f"{job_id} is {state['state']} after {seconds:g} s of waiting; it continues"
            raise WaitTimeoutError(message, state)
        time.sleep(min(POLL_SECONDS, max(deadline - time.monotonic(), 0.0)))


def shown_to_its_end(
    jobs: Jobs, job_id: str, seconds: float | None, show: tuple[Watch, Callable[[str], None]]
) -> JobState:
    """Follow a job as `follow` does and show changes of its progress and its state; return the last state."""
    watch, tell = show
    job: JobState = {"id": job_id}
    shown: tuple[object, ...] = ()
    for job in follow(jobs, job_id, seconds):
        now = (job["state"], waiting_for(job), *(job.get(name) for name in ("phase", "done", "total")))
        if now[:2] != shown[:2]:
            tell(": ".join(filter(None, (f"{job['id']} is {job['state']}", waiting_for(job)))))
        if now != shown and (progress := progress_of(job)) is not None:
            watch(progress)
        shown = now
    return job


def check_succeeded(job: JobState) -> None:
    """Raise NotDoneError, with the reason and what to do, unless a job has succeeded."""
    name, state, error = job["id"], job["state"], job.get("error")
    if state == SUCCEEDED:
        return
    if state == CANCELLED:
        why = f"{name} was cancelled; `distforest resume {name}` starts it again"
    elif state == UNREADABLE:
        why = str(error["message"] if error else None)
    elif state == INTERRUPTED:
        why = f"{name} is interrupted: its service was stopped or does not answer; the next service resumes it"
    elif state not in ENDS:
        why = f"{name} is {state} and has no result yet; wait until it has ended"
    else:
        reason = f"{error['kind']}: {error['message']}" if error else "JobError: unknown reason"
        mend = f"`distforest resume {name}` resumes from its finished tasks"
        if error and error["kind"] in OF_THE_OWNER:
            mend = f"correct the input, or change the spec: `distforest resume {name} --set KEY=VALUE`"
        why = f"{name} failed: {reason}; {mend}"
    raise NotDoneError(why, job)


def follow_events(jobs: Jobs, job_id: str) -> Iterator[JobEvent]:
    """Yield the events of a job from its beginning until it has ended, across restarts as `follow` does."""
    after = 0
    for job in follow(jobs, job_id):
        try:
            for event in events_after(jobs, job_id, after):
                after = event["n"]
                yield event
        except UnreachableError:
            if job["state"] in ENDS:  # this was the last read
                raise


def events_after(jobs: Jobs, job_id: str, after: int) -> Iterator[JobEvent]:
    """Yield all events of a job after number ``after``, in batches."""
    while events := jobs.events(job_id, after):
        yield from events
        after = events[-1]["n"]


def progress_of(job: JobState) -> Progress | None:
    """Return the progress of a job, with the seconds at its current rate; None if its state has no progress.

    Examples
    --------
    >>> found = progress_of({"state": "RUNNING", "phase": "grow", "done": 120, "total": 500, "rate": 60.0})
    >>> found.name, found.done, found.total, found.seconds
    ('grow', 120, 500, 2.0)
    """
    phase, done, total, rate = job.get("phase"), job.get("done"), job.get("total"), job.get("rate")
    if job.get("state") not in MOVED or not phase or done is None or not total or (done >= total and not rate):
        return None
    return Progress(phase, done, total, done / rate if rate else 0.0)


def waiting_for(job: JobState) -> str:
    """Return what a job waits for if it waits for workers or for a queue, otherwise an empty text.

    Examples
    --------
    >>> waiting_for({"state": "WAITING_FOR_WORKERS", "waiting": "there are no workers; the job goes on when one comes"})
    'there are no workers; the job goes on when one comes'
    """
    return job.get("waiting") or "" if job["state"] in (WAITING, QUEUED) else ""
