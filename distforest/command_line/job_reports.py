"""Reports on the jobs of a service: a single job, a table of jobs, and the events of a job."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from distforest.amounts import counted, in_bytes
from distforest.command_line.reports import Report
from distforest.jobs.progress import UNITS, progress_in_words, span
from distforest.service.following import progress_of, waiting_for
from distforest.service.registry import INTERRUPTED

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from distforest.service.messages import JobState

HEADINGS = ("ID", "STATE", "JOB", "OWNER", "PROGRESS", "AGE", "OUTPUT")


def moment_of(seconds: float | None) -> str:
    """Write a moment, in seconds since 1970, as a date and a time of day.

    Examples
    --------
    >>> moment_of(1795309320.5), moment_of(None)
    ('2026-11-22 01:02:00 UTC', '')
    """
    return "" if seconds is None else time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(seconds))


def progress_counted(job: Mapping[str, Any]) -> str:
    """Return the progress of a job: in its current phase or, once it has ended, in trees or rows.

    Examples
    --------
    >>> progress_counted({"phase": "grow", "done": 120, "total": 5000}), progress_counted({"state": "QUEUED"})
    ('120/5,000 trees', '')
    >>> progress_counted({"state": "SUCCEEDED", "kind": "fit", "phase": None, "done": 500, "total": 500})
    '500/500 trees'
    """
    if not job.get("total"):
        return ""
    phase = job.get("phase") or {"fit": "grow", "tune": "grow", "score": "score"}.get(str(job.get("kind")), "")
    return f"{job.get('done') or 0:,}/{job['total']:,} {UNITS.get(phase, 'tasks')}"


def rows(jobs: Sequence[Mapping[str, Any]], now: float) -> list[tuple[str, ...]]:
    """Return the cells of a table with one row per job and the columns `HEADINGS`."""
    return [
        (
            str(job["id"]),
            str(job["state"]),
            str(job.get("method") or job.get("kind") or ""),
            str(job.get("owner") or ""),
            progress_counted(job),
            span(max(now - job["submitted"], 0.0)) if job.get("submitted") else "",
            str(job.get("output") or ""),
        )
        for job in jobs
    ]


def reported(job: JobState) -> Report:
    """Report the state, progress, warnings and result of a job."""
    lines = [("job", str(job["id"])), ("state", _state(job)), ("output", str(job.get("output") or "not known"))]
    lines += [(name, str(job[name])) for name in ("owner", "priority", "queue") if job.get(name)]
    lines += [(name, moment_of(job[name])) for name in ("submitted", "started", "ended") if job.get(name)]
    if job.get("workers") is not None and not job.get("ended"):
        lines.append(("workers", f"{job['workers']:,}"))
    if waiting := waiting_for(job):
        lines.append(("waiting", waiting))
    counts = (job.get("lost_workers"), "worker", "lost"), (job.get("retries"), "task", "tried again")
    troubles = [f"{counted(count, what)} {fate}" for count, what, fate in counts if count]
    if (job.get("attempt") or 1) > 1:
        troubles.append(f"attempt {job['attempt']:,}")
    if troubles:
        lines.append(("trouble", ", ".join(troubles)))
    if error := job.get("error"):
        lines.append(("error", f"{error.get('kind')}: {error.get('message')}"))
    lines += [("warning", text) for text in job.get("warnings") or ()]
    return Report(dict(job), lines + _result(job.get("result") or {}))


def _state(job: JobState) -> str:
    """Return the state of a job, and its progress."""
    if job["state"] == INTERRUPTED:
        was = f", was {job['was']}" if job.get("was", INTERRUPTED) != INTERRUPTED else ""
        return f"{INTERRUPTED}{was}; it resumes when a service is started on its job root"
    progress = None if job.get("ended") else progress_of(job)
    return f"{job['state']}, {progress_in_words(progress)}" if progress else str(job["state"])


def _result(result: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the lines about the result of a job."""
    lines = [(name, str(result[name])) for name in ("forest", "digest") if result.get(name)]
    if result.get("n_trees"):
        grown, n_trees = result.get("n_grown"), result["n_trees"]
        of_them = f", {grown:,} of them grown since its last start" if grown is not None and grown != n_trees else ""
        if result.get("best"):
            of_them = f"; in all cells {grown:,} grown since its last start"
        lines.append(("trees", f"{n_trees:,}{of_them}"))
    if result.get("seconds"):
        lines.append(("seconds", f"{result['seconds']:,.1f}"))
    if result.get("peak_bytes"):
        lines.append(("memory", f"{in_bytes(result['peak_bytes'])} at the peak of a worker"))
    if result.get("best"):
        lines.append(("best", ", ".join(f"{name}={value}" for name, value in result["best"].items())))
        lines.append((str(result.get("scoring")), f"{result.get('score'):.4g}"))
    if result.get("sides"):
        lines.append(("sides", str(result["sides"])))
    shapes = (result.get("arrays") or {}).items()
    return lines + [("array", f"{name} {' x '.join(f'{size:,}' for size in shape)}") for name, shape in shapes]


def event_line(event: Mapping[str, Any]) -> str:
    """Write an event of a job as a line."""
    when = moment_of(event.get("time"))
    return f"{when}  {event.get('message') or event.get('event')}"
