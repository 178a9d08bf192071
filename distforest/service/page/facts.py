"""The facts that a job's page lists: names and values, as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from distforest.amounts import counted, in_bytes
from distforest.service.messages import JobEvent, JobResult, JobState
from distforest.service.page import words

Facts = list[tuple[str, str]]
_MANY = ("trees", "scored")
"""Events of which a job has one for each task."""


def facts_of_job(job: JobState, now: float) -> Facts:
    """The facts of a job; unknown ones are left out. A job that cannot be read has none."""
    return list(_facts(job, now)) if job["state"] != "UNREADABLE" else []


def _facts(job: JobState, now: float) -> Iterator[tuple[str, str]]:
    in_words = words.job_in_words(job, now)
    yield "Kind", in_words.what
    yield "Output", str(job["output"])
    if owner := job.get("owner"):
        yield "Owner", owner
    if priority := job.get("priority"):
        yield "Priority", f"{priority:,}"
    for name in ("submitted", "started", "ended"):
        if (moment := job[name]) is not None:
            yield name.capitalize(), f"{words.clock(moment)}, {words.ago(moment, now)}"
    if in_words.took:
        yield ("Runs for" if job["ended"] is None else "Took"), in_words.took
    if not in_words.over:
        yield "Workers", f"{job['workers']:,}"
    if not in_words.over and job["started"] is not None:
        yield "Last heartbeat", words.ago(job["heartbeat"], now)
    yield "Tasks tried again", f"{job['retries']:,}"
    yield "Workers lost", f"{job['lost_workers']:,}"
    yield "Attempt", f"{job['attempt']:,}"


class PageFact(NamedTuple):
    """An event, and how many events of its kind came right before it and have no line, in words."""

    event: JobEvent
    more: str


def folded(events: Sequence[JobEvent]) -> list[PageFact]:
    """Events, newest first; successive commits share one line.

    Examples
    --------
    >>> happened = enumerate(["running", "trees", "trees", "lost", "trees"], start=1)
    >>> [(line.event["n"], line.more) for line in folded([{"n": n, "event": event} for n, event in happened])]
    [(5, ''), (4, ''), (3, 'and 1 commit before'), (1, '')]
    """
    runs = [list(run) for _, run in groupby(events, key=lambda event: event["event"])]
    return [line for run in reversed(runs) for line in _folded(run, is_cut=run is runs[0] and run[0]["n"] > 1)]


def _folded(run: list[JobEvent], *, is_cut: bool) -> list[PageFact]:
    """The lines for successive events of one kind; ``is_cut`` if earlier events were not read."""
    if run[0]["event"] not in _MANY:
        return [PageFact(event, "") for event in reversed(run)]
    if is_cut:
        return [PageFact(run[-1], "and all commits before")]
    before = len(run) - 1
    return [PageFact(run[-1], f"and {counted(before, 'commit')} before" if before else "")]


def of_result(result: JobResult | None) -> Facts:
    """The facts of a job's result."""
    return list(_results(result)) if result else []


def _results(result: JobResult) -> Iterator[tuple[str, str]]:
    places = (("Forest", result.get("forest")), ("Output", result.get("output")), ("Digest", result.get("digest")))
    yield from ((title, text) for title, text in places if text is not None)
    if "sides" in result:
        yield "Sides", result["sides"]
    for name, shape in result.get("arrays", {}).items():
        yield f"Array {name}", " x ".join(f"{size:,}" for size in shape)
    if "n_trees" in result:
        grown = "" if result["n_grown"] == result["n_trees"] else f", {result['n_grown']:,} of them in the last run"
        yield "Trees", f"{result['n_trees']:,}{grown}"
    if result.get("seconds"):
        yield "Last run", words.seconds(result["seconds"])
    if result.get("peak_bytes"):
        yield "Peak memory", f"{in_bytes(result['peak_bytes'])} in a worker"
