"""Texts about a job for its page: its state, progress, times, events and facts."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from dask.utils import format_time, format_time_ago

from distforest.amounts import counted, in_bytes
from distforest.service.following import waiting_for
from distforest.service.job import seconds_of_work

if TYPE_CHECKING:
    from collections.abc import Sequence

    from distforest.service.messages import JobEvent, JobResult, JobState

    Facts = list[tuple[str, str]]

ENDED = frozenset({"SUCCEEDED", "FAILED", "CANCELLED"})
WORKING = frozenset({"RUNNING", "MERGING"})

COMMITS = ("trees", "scored")
"""Kinds of events that a job has once per task."""

LOUD = frozenset({"lost", "memory", "quarantine", "warning", "failed", "interrupted"})
"""Events that a page emphasizes."""


class StateWords(NamedTuple):
    """Texts about a state: its name, its colour, and a sentence."""

    word: str
    tone: str
    sentence: str


STATE_WORDS = {
    "QUEUED": StateWords("queued", "waiting", "It waits for its turn."),
    "WAITING_FOR_WORKERS": StateWords("waiting for workers", "waiting", "It continues as soon as a worker connects."),
    "RUNNING": StateWords("running", "active", "Its tasks run on the workers."),
    "MERGING": StateWords("merging", "active", "All trees are grown; the forest is being merged."),
    "SUCCEEDED": StateWords("succeeded", "good", "It is done."),
    "FAILED": StateWords("failed", "bad", "It has stopped; committed tasks are kept for a resume."),
    "CANCELLING": StateWords("cancelling", "waiting", "It stops after the running tasks."),
    "CANCELLED": StateWords("cancelled", "still", "It was stopped on request; its work is discarded."),
    "INTERRUPTED": StateWords("interrupted", "bad", "Its service was lost; it continues when a service starts."),
    "UNREADABLE": StateWords("unreadable", "bad", "Its folder has content that no service has written; it is ignored."),
}

PHASE_WORDS = {
    "stage": "staging the inputs",
    "screen": "comparing the features",
    "ask": "evaluating similarities",
    "try": "trying both cuts",
    "grow": "growing trees",
    "alone": "growing trees again, each alone",
    "judge": "scoring the trial forests",
    "merge": "merging",
    "score": "scoring",
}


def state_of(job: JobState) -> StateWords:
    """Return the texts about a job's state, with what it waits for; an unknown state is shown by its name."""
    state = str(job["state"])
    words = STATE_WORDS.get(state) or StateWords(state.lower(), "still", "")
    waiting = waiting_for(job)
    return words._replace(sentence=f"{waiting[:1].upper()}{waiting[1:]}.") if waiting else words


def doing(job: JobState) -> str:
    """Return the phase of a running job, or what a waiting job waits for; empty for any other job."""
    phase = job["phase"] or ""
    return PHASE_WORDS.get(phase, phase) if job["state"] == "RUNNING" else waiting_for(job)


def kind(job: JobState) -> str:
    """Return the kind of a job, and its method if it has one."""
    return f"{job['kind']}, {job['method']}" if job["method"] else str(job["kind"])


def done_of_total(job: JobState) -> tuple[int, int]:
    """Return the done and the total amount of the current phase or, if the job has succeeded, of the trees."""
    if job["state"] == "SUCCEEDED" and job["n_trees"]:
        return job["n_trees"], job["n_trees"]
    return int(job["done"] or 0), int(job["total"] or 0)


def progress(job: JobState) -> list[str]:
    """Return the progress of a job, its speed and its remaining time, as far as these are known."""
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
    """Return how long a job has been at work."""
    if job["started"] is None:
        return ""
    if "worked" not in job:  # written by an older version
        return format_time(max(0.0, (job["ended"] or job["heartbeat"]) - job["started"]))
    return format_time(seconds_of_work(job, time.time()))


def trouble(job: JobState) -> str:
    """Return the numbers of repeated tasks, lost workers and warnings, without those that are zero."""
    found = (
        (job["retries"], f"{job['retries']:,} tried again"),
        (job["lost_workers"], f"{counted(job['lost_workers'], 'worker')} lost"),
        (job.get("warnings"), counted(len(job.get("warnings") or ()), "warning")),
    )
    return ", ".join(text for count, text in found if count)


def utc(moment: float) -> datetime:
    """Return a Unix time as a time of UTC."""
    return datetime.fromtimestamp(moment, UTC)


def ago(moment: float) -> str:
    """Format how long ago something happened.

    Examples
    --------
    >>> ago(time.time() - 7300)
    '2 hours ago'
    """
    return format_time_ago(datetime.fromtimestamp(moment)).lower()  # in local time, as Dask expects it


def facts_of_job(job: JobState) -> Facts:
    """Return the facts of a job; unknown ones are omitted. A job that cannot be read has none."""
    if job["state"] == "UNREADABLE":
        return []
    is_over, priority = job["state"] in ENDED, job.get("priority")
    moments = [(name, job[name]) for name in ("submitted", "started", "ended")]
    found = [
        ("Kind", kind(job)),
        ("Output", str(job["output"])),
        ("Owner", job.get("owner")),
        ("Priority", f"{priority:,}" if priority else None),
        ("Queue", job.get("queue")),
        *((name.capitalize(), f"{utc(at):%Y-%m-%d %H:%M:%S} UTC, {ago(at)}" if at else None) for name, at in moments),
        ("Runs for" if job["ended"] is None else "Took", took(job)),
        ("Workers", None if is_over else f"{job['workers']:,}"),
        ("Last heartbeat", None if is_over or job["started"] is None else ago(job["heartbeat"])),
        ("Tasks tried again", f"{job['retries']:,}"),
        ("Workers lost", f"{job['lost_workers']:,}"),
        ("Attempt", f"{job['attempt']:,}"),
    ]
    return [(name, text) for name, text in found if text]


def facts_of_result(result: JobResult | None) -> Facts:
    """Return the facts of a job's result."""
    if not result:
        return []
    n_trees, n_grown = result.get("n_trees"), result.get("n_grown")
    grown = "" if n_grown == n_trees else f", {n_grown:,} of them in the last run"
    found = [
        ("Forest", result.get("forest")),
        ("Output", result.get("output")),
        ("Digest", result.get("digest")),
        ("Sides", result.get("sides")),
        *((f"Array {name}", " x ".join(f"{n:,}" for n in shape)) for name, shape in result.get("arrays", {}).items()),
        ("Trees", None if n_trees is None else f"{n_trees:,}{grown}"),
        ("Last run", format_time(result["seconds"]) if result.get("seconds") else None),
        ("Peak memory", f"{in_bytes(result['peak_bytes'])} in a worker" if result.get("peak_bytes") else None),
    ]
    return [(name, text) for name, text in found if text is not None]


def folded(events: Sequence[JobEvent]) -> list[tuple[JobEvent, str]]:
    """Return events, newest first; of successive commits only the last one, with a text on the number of the others.

    Examples
    --------
    >>> happened = enumerate(["running", "trees", "trees", "lost", "trees"], start=1)
    >>> [(event["n"], more) for event, more in folded([{"n": n, "event": event} for n, event in happened])]
    [(5, ''), (4, ''), (3, 'and 1 commit before'), (1, '')]
    """
    lines: list[tuple[JobEvent, str]] = []
    for name, found in groupby(events, key=lambda event: event["event"]):
        run = list(found)
        if name not in COMMITS:
            lines += [(event, "") for event in run]
        elif run[0]["n"] > 1 and run[0] is events[0]:  # earlier events were not read
            lines.append((run[-1], "and all commits before"))
        else:
            lines.append((run[-1], f"and {counted(len(run) - 1, 'commit')} before" if run[1:] else ""))
    return lines[::-1]
