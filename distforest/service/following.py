"""A job that is followed to its end, over a scheduler's restart: what is known of it, again and again."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING

from distforest.errors import UnreachableError, WaitTimeoutError
from distforest.jobs.cluster import Progress
from distforest.service.registry import CANCELLING, ENDS, INTERRUPTED, MERGING, RUNNING, SUCCEEDED, UNREADABLE, WAITING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from distforest.service.messages import JobEvent, JobState
    from distforest.service.whereabouts import Jobs

POLL_SECONDS, FOLLOW_SECONDS, SILENCE_SECONDS = 0.5, 2.0, 60.0
"""Between two looks; how long the last look may take; how long nobody may answer who has answered before."""

MOVED = (RUNNING, MERGING, CANCELLING, SUCCEEDED)
"""States in which the progress of a job is that of this attempt."""


def follow(jobs: Jobs, job_id: str, seconds: float | None = None) -> Iterator[JobState]:
    """What is known of a job, each time that it is looked at, until it has ended.

    While nobody answers, or the job root cannot be read or says that the job is interrupted, a service that was heard
    before has a minute to come back.

    Parameters
    ----------
    jobs
        Who is asked.
    job_id
        Of the job.
    seconds
        How long to follow it; without end by default.

    Yields
    ------
    dict
        The last one is SUCCEEDED, FAILED, CANCELLED, INTERRUPTED, or UNREADABLE.

    Raises
    ------
    NotFoundError
        There is no such job.
    UnreachableError
        Nobody answers, from the start or for a minute.
    WaitTimeoutError
        The time is over.
    """
    deadline = math.inf if seconds is None else time.monotonic() + seconds
    last_answer, known = -math.inf, None
    while True:
        left = deadline - time.monotonic()
        job = _look_at(
            jobs.within(max(left, FOLLOW_SECONDS)), job_id, time.monotonic() - last_answer <= SILENCE_SECONDS
        )
        if job is not None:
            known, last_answer = job, time.monotonic()
            yield job
            if job["state"] in (*ENDS, INTERRUPTED, UNREADABLE):
                return
        if time.monotonic() >= deadline:
            raise _timeout_error(known, job_id, seconds)
        time.sleep(min(POLL_SECONDS, max(deadline - time.monotonic(), 0.0)))


def follow_events(jobs: Jobs, job_id: str) -> Iterator[JobEvent]:
    """What happens to a job, from its beginning until it has ended; over a restart as `follow` does."""
    after = 0
    for job in follow(jobs, job_id):
        try:
            for event in events_after(jobs, job_id, after):
                after = event["n"]
                yield event
        except UnreachableError:
            if job["state"] in ENDS:  # nobody will ask again
                raise


def events_after(jobs: Jobs, job_id: str, after: int) -> Iterator[JobEvent]:
    """All events of a job after number ``after``, which are told so many at a time."""
    while found := jobs.events(job_id, after):
        yield from found
        after = found[-1]["n"]


def _look_at(jobs: Jobs, job_id: str, patient: bool) -> JobState | None:
    """What is known of a job; None where nothing is heard of its service, if there is patience left."""
    try:
        job = jobs.job(job_id)
    except (UnreachableError, OSError):  # no scheduler, or no store
        if not patient:
            raise
        return None
    return None if patient and job["state"] == INTERRUPTED else job


def _timeout_error(job: JobState | None, job_id: str, seconds: float | None) -> WaitTimeoutError:
    found: JobState = {"id": job_id, "state": "unknown"} if job is None else job
    return WaitTimeoutError(f"{job_id} is {found['state']} after {seconds:g} s of waiting; it runs on", found)


def progress_of(job: JobState) -> Progress | None:
    """How far a job is that runs or has run, as a run of tasks that began when its rate says; None if nothing is told.

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
    """What a job waits for that has begun; nothing for any other.

    Examples
    --------
    >>> waiting_for({"state": "WAITING_FOR_WORKERS", "waiting": "there are no workers; the job goes on when one comes"})
    'there are no workers; the job goes on when one comes'
    """
    return job.get("waiting") or "" if job["state"] == WAITING else ""
