"""What a job's page lists: facts, events and the numbers of its charts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from statistics import median
from typing import NamedTuple

from dask.utils import format_time

from distforest.amounts import counted, in_bytes
from distforest.service.messages import JobEvent, JobResult, JobState
from distforest.service.page import words
from distforest.service.page.measured import ChartColumn

Facts = list[tuple[str, str]]
_MANY = ("trees", "scored")
"""Events of which a job has one for each task."""


def facts_of_job(job: JobState) -> Facts:
    """The facts of a job; unknown ones are left out. A job that cannot be read has none."""
    return list(_facts(job)) if job["state"] != "UNREADABLE" else []


def _facts(job: JobState) -> Iterator[tuple[str, str]]:
    is_over = job["state"] in words.ENDED
    yield "Kind", words.kind(job)
    yield "Output", str(job["output"])
    if owner := job.get("owner"):
        yield "Owner", owner
    if priority := job.get("priority"):
        yield "Priority", f"{priority:,}"
    if queue := job.get("queue"):
        yield "Queue", queue
    for name in ("submitted", "started", "ended"):
        if (moment := job[name]) is not None:
            yield name.capitalize(), f"{words.utc(moment):%Y-%m-%d %H:%M:%S} UTC, {words.ago(moment)}"
    if took := words.took(job):
        yield ("Runs for" if job["ended"] is None else "Took"), took
    if not is_over:
        yield "Workers", f"{job['workers']:,}"
    if not is_over and job["started"] is not None:
        yield "Last heartbeat", words.ago(job["heartbeat"])
    yield "Tasks tried again", f"{job['retries']:,}"
    yield "Workers lost", f"{job['lost_workers']:,}"
    yield "Attempt", f"{job['attempt']:,}"


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
        yield "Last run", format_time(result["seconds"])
    if result.get("peak_bytes"):
        yield "Peak memory", f"{in_bytes(result['peak_bytes'])} in a worker"


class PageEvent(NamedTuple):
    """An event, and how many events of its kind came right before it and have no line, in words."""

    event: JobEvent
    more: str


def folded(events: Sequence[JobEvent]) -> list[PageEvent]:
    """Events, newest first; successive commits share one line.

    Examples
    --------
    >>> happened = enumerate(["running", "trees", "trees", "lost", "trees"], start=1)
    >>> [(line.event["n"], line.more) for line in folded([{"n": n, "event": event} for n, event in happened])]
    [(5, ''), (4, ''), (3, 'and 1 commit before'), (1, '')]
    """
    lines: list[PageEvent] = []
    for kind, found in groupby(events, key=lambda event: event["event"]):
        run = list(found)
        if kind not in _MANY:
            lines += [PageEvent(event, "") for event in run]
        elif run[0]["n"] > 1 and run[0] is events[0]:  # earlier events were not read
            lines.append(PageEvent(run[-1], "and all commits before"))
        else:
            lines.append(PageEvent(run[-1], f"and {counted(len(run) - 1, 'commit')} before" if run[1:] else ""))
    return lines[::-1]


class Chart(NamedTuple):
    """A chart of trees: a title, a summary, the largest value in words, and of each column its share and its words."""

    title: str
    summary: str
    greatest: str
    bars: list[tuple[ChartColumn, float, str]]


def charts(columns: Sequence[ChartColumn]) -> list[Chart]:
    """Charts of the seconds and of the memory of a job's trees; none if nothing is known."""
    found = []
    for title, name, written in (
        ("Seconds per tree", "seconds", format_time),
        ("Peak memory of a worker", "peak_bytes", in_bytes),
    ):
        values = [getattr(column, name) for column in columns]
        if any(values):
            least, middle, most = (written(value) for value in (min(values), median(values), max(values)))
            summary = f"median {middle}" if least == most else f"median {middle}, {least} to {most}"
            bars = [(trees, value / max(values), written(value)) for trees, value in zip(columns, values, strict=True)]
            found.append(Chart(title, summary, most, bars))
    return found
