"""A job in words for a page: its state, its times and its progress."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote

from distforest.amounts import counted
from distforest.service.following import waiting_for
from distforest.service.job import seconds_of_work

if TYPE_CHECKING:
    from distforest.service.messages import JobState

ENDED = frozenset({"SUCCEEDED", "FAILED", "CANCELLED"})
WORKING = frozenset({"RUNNING", "MERGING"})


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


_EACH = ((1, "a second"), (60, "a minute"), (3600, "an hour"))
LOUD = frozenset({"lost", "memory", "quarantine", "warning", "failed", "interrupted"})
"""Events that a page emphasizes."""


def state_of(job: JobState) -> StateWords:
    """The words of a job's state, with what it waits for; an unknown state is shown by its name."""
    state = str(job["state"])
    words = STATE_WORDS.get(state) or StateWords(state.lower(), "still", "")
    return words._replace(sentence=_as_sentence(waiting)) if (waiting := waiting_for(job)) else words


def _as_sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


def seconds(count: float) -> str:
    """Write a duration with two significant digits or units.

    Examples
    --------
    >>> seconds(0.0004), seconds(0.041), seconds(7.26), seconds(75), seconds(7500), seconds(360_000)
    ('0.4 ms', '41 ms', '7.3 s', '1 min 15 s', '2 h 5 min', '4 d 4 h')
    """
    if count < 1:
        return f"{1000 * count:.0f} ms" if count >= 0.001 or count <= 0 else f"{1000 * count:.1g} ms"
    if count < 59.95:
        return f"{count:.1f} s" if count < 9.95 else f"{count:.0f} s"
    whole = round(count)
    for size, unit, part, smaller in ((86400, "d", 3600, "h"), (3600, "h", 60, "min")):
        if whole >= size:
            return _two(whole // size, unit, whole % size // part, smaller)
    return _two(whole // 60, "min", whole % 60, "s")


def _two(many: int, unit: str, few: int, smaller: str) -> str:
    return f"{many} {unit} {few} {smaller}" if few else f"{many} {unit}"


def ago(then: float, now: float) -> str:
    """Write how long ago something was, in whole units so that the words rest.

    Examples
    --------
    >>> ago(100, 101), ago(100, 142), ago(100, 400), ago(100, 7400), ago(100, 200_000)
    ('just now', '42 s ago', '5 min ago', '2 h ago', '2 d ago')
    """
    past = now - then
    if past < 2:
        return "just now"
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if past >= size:
            return f"{past // size:.0f} {unit} ago"
    return f"{past:.0f} s ago"


def clock(time: float) -> str:
    """Write a Unix time as a date and time of UTC.

    Examples
    --------
    >>> clock(0)
    '1970-01-01 00:00:00 UTC'
    """
    return datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def moment(time: float, now: float) -> str:
    """Write a Unix time as a time of day if it is today, else as date and time.

    Examples
    --------
    >>> moment(3600, 7200), moment(3600, 90_000)
    ('01:00:00', '1970-01-01 01:00')
    """
    return clock(time)[11:19] if clock(time)[:10] == clock(now)[:10] else clock(time)[:16]


def stamp(time: float) -> str:
    """Write a Unix time in the form of HTML's ``datetime``.

    Examples
    --------
    >>> stamp(0)
    '1970-01-01T00:00:00Z'
    """
    return datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def speed_in_words(per_second: float | None, unit: str) -> str:
    """Write a speed per second, minute or hour, the first that gives a number above one; empty if there is none.

    Examples
    --------
    >>> [speed_in_words(*pair) for pair in ((20.0, "trees"), (0.05, "trees"), (0.001, ""), (None, "trees"))]
    ['20 trees a second', '3 trees a minute', '3.6 an hour', '']
    """
    if not per_second or not math.isfinite(per_second):
        return ""
    size, each = next((pair for pair in _EACH if per_second * pair[0] >= 1), _EACH[-1])
    speed = per_second * size
    return " ".join(word for word in (f"{speed:.2g}" if speed < 10 else f"{speed:,.0f}", unit, each) if word)


class JobWords(NamedTuple):
    """A job as a page shows it; templates escape every text."""

    id: str
    link: str
    state: StateWords
    over: bool
    doing: str
    what: str
    owner: str
    done: int
    total: int
    share: str
    progress: str
    rate: str
    remaining: str
    submitted: float
    took: str
    trouble: str
    error: str


def job_in_words(job: JobState, now: float) -> JobWords:
    """A job in words, at the time ``now``."""
    done, total = _progress(job)
    unit = "trees" if total == job["n_trees"] else ""
    over, working = job["state"] in ENDED, job["state"] in WORKING
    remaining = job["remaining"] if working else None
    return JobWords(
        id=str(job["id"]),
        link=quote(str(job["id"]), safe=""),
        state=state_of(job),
        over=over,
        doing=_phase(job["phase"]) if job["state"] == "RUNNING" else waiting_for(job),
        what=f"{job['kind']}, {job['method']}" if job["method"] else str(job["kind"]),
        owner=job.get("owner") or "",
        done=done,
        total=total,
        share=f"{100 * done // total} %" if total else "",
        progress=f"{done:,} of {total:,} {unit}".rstrip() if total else "",
        rate=speed_in_words(job["rate"], unit) if working else "",
        remaining="" if remaining is None else f"{seconds(remaining)} left",
        submitted=float(job["submitted"]),
        took=_took(job, now),
        trouble=_trouble(job),
        error=_in_short(job["error"]["message"]) if job["error"] else "",
    )


def _phase(phase: str | None) -> str:
    """A phase in words; an unknown one is shown by its name."""
    return PHASE_WORDS.get(phase, phase) if phase else ""


def _progress(job: JobState) -> tuple[int, int]:
    """How much is done of how much: of the current phase, and of the trees when the job has ended."""
    if job["state"] == "SUCCEEDED" and job["n_trees"]:
        return job["n_trees"], job["n_trees"]
    return int(job["done"] or 0), int(job["total"] or 0)


def _took(job: JobState, now: float) -> str:
    """How long a job has been at work."""
    if job["started"] is None:
        return ""
    if "worked" not in job:  # of an older version
        return seconds(max(0.0, (job["ended"] or job["heartbeat"]) - job["started"]))
    return seconds(seconds_of_work(job, now))


def _trouble(job: JobState) -> str:
    """Numbers of repeated tasks, lost workers and warnings, as far as there are any."""
    lost, again, warned = job["lost_workers"], job["retries"], len(job.get("warnings") or ())
    parts = [f"{again:,} tried again"] if again else []
    parts += [f"{counted(lost, 'worker')} lost"] if lost else []
    return ", ".join([*parts, counted(warned, "warning")] if warned else parts)


def _in_short(message: str, most: int = 160) -> str:
    """The first line of a message, shortened to fit into a list."""
    first = message.strip().split("\n", 1)[0]
    return first if len(first) <= most else f"{first[: most - 1]}…"
