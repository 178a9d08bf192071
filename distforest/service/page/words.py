"""A job in words for its page: its state, its progress and its times."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from dask.utils import format_time, format_time_ago

from distforest.amounts import counted
from distforest.service.following import waiting_for
from distforest.service.job import seconds_of_work

if TYPE_CHECKING:
    from distforest.service.messages import JobState

ENDED = frozenset({"SUCCEEDED", "FAILED", "CANCELLED"})
WORKING = frozenset({"RUNNING", "MERGING"})

LOUD = frozenset({"lost", "memory", "quarantine", "warning", "failed", "interrupted"})
"""Events that a page emphasizes."""


class StateWords(NamedTuple):
    """A state in words: its name, its colour, and a sentence."""

    word: str
    tone: str
    sentence: str


STATE_WORDS = {
    "QUEUED": StateWords("queued", "waiting", "It waits for its turn."),
    "WAITING_FOR_WORKERS": StateWords("waiting for workers", "waiting", "It goes on as soon as a worker connects."),
    "RUNNING": StateWords("running", "active", "Its tasks are with the workers."),
    "MERGING": StateWords("merging", "active", "All trees are grown; the forest is put together."),
    "SUCCEEDED": StateWords("succeeded", "good", "It is done."),
    "FAILED": StateWords("failed", "bad", "It has stopped; what was committed is kept for a resume."),
    "CANCELLING": StateWords("cancelling", "waiting", "It stops after the tasks that are running."),
    "CANCELLED": StateWords("cancelled", "still", "It was stopped on request; nothing of it is kept."),
    "INTERRUPTED": StateWords("interrupted", "bad", "Its service was lost; it goes on when a service starts."),
    "UNREADABLE": StateWords("unreadable", "bad", "Its folder holds what no service has written; it is left alone."),
}

PHASE_WORDS = {
    "stage": "staging the inputs",
    "screen": "comparing the features",
    "ask": "asking for similarities",
    "try": "trying both cuts",
    "grow": "growing trees",
    "alone": "growing trees again, each alone",
    "judge": "scoring what was tried",
    "merge": "merging",
    "score": "scoring",
}


def state_of(job: JobState) -> StateWords:
    """The words of a job's state, with what it waits for; an unknown state is shown by its name."""
    state = str(job["state"])
    words = STATE_WORDS.get(state) or StateWords(state.lower(), "still", "")
    waiting = waiting_for(job)
    return words._replace(sentence=f"{waiting[:1].upper()}{waiting[1:]}.") if waiting else words


def doing(job: JobState) -> str:
    """The phase of a job that runs, or what a job waits for; empty for any other."""
    phase = job["phase"] or ""
    return PHASE_WORDS.get(phase, phase) if job["state"] == "RUNNING" else waiting_for(job)


def kind(job: JobState) -> str:
    """The kind of a job, and its method if it has one."""
    return f"{job['kind']}, {job['method']}" if job["method"] else str(job["kind"])


def done_of_total(job: JobState) -> tuple[int, int]:
    """How much is done of how much: of the current phase, and of the trees when the job has succeeded."""
    if job["state"] == "SUCCEEDED" and job["n_trees"]:
        return job["n_trees"], job["n_trees"]
    return int(job["done"] or 0), int(job["total"] or 0)


def progress(job: JobState) -> list[str]:
    """How much of a job is done, at what speed, and for how long it goes on, as far as this is known."""
    done, total = done_of_total(job)
    unit = " trees" if total == job["n_trees"] else ""
    parts = [f"{done:,} of {total:,}{unit}"] if total else []
    if job["state"] in WORKING and job["rate"]:
        speed = 60.0 * job["rate"]
        parts.append(f"{speed:,.0f}{unit} a minute" if speed >= 10.0 else f"{speed:.2g}{unit} a minute")
    if job["state"] in WORKING and job["remaining"] is not None:
        parts.append(f"{format_time(job['remaining'])} left")
    return parts


def took(job: JobState) -> str:
    """How long a job has been at work."""
    if job["started"] is None:
        return ""
    if "worked" not in job:  # of an older version
        return format_time(max(0.0, (job["ended"] or job["heartbeat"]) - job["started"]))
    return format_time(seconds_of_work(job, time.time()))


def trouble(job: JobState) -> str:
    """Numbers of repeated tasks, lost workers and warnings, as far as there are any."""
    found = (
        (job["retries"], f"{job['retries']:,} tried again"),
        (job["lost_workers"], f"{counted(job['lost_workers'], 'worker')} lost"),
        (job.get("warnings"), counted(len(job.get("warnings") or ()), "warning")),
    )
    return ", ".join(text for count, text in found if count)


def utc(moment: float) -> datetime:
    """A Unix time as a time of UTC."""
    return datetime.fromtimestamp(moment, UTC)


def ago(moment: float) -> str:
    """Write how long ago something was.

    Examples
    --------
    >>> ago(time.time() - 7300)
    '2 hours ago'
    """
    return format_time_ago(datetime.fromtimestamp(moment))  # of this place, as Dask takes it
