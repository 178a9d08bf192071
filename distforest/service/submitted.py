"""Jobs of a service in Python: submitting a job, and reading its state and its forest."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from distforest.errors import DistforestError, InputError, warn_caller
from distforest.html_table import html_table
from distforest.jobs.any_spec import spec_from_dict, spec_from_toml, with_absolute_paths
from distforest.jobs.progress import progress_in_words, shown_progress
from distforest.service.following import (
    FOLLOW_SECONDS,
    check_succeeded,
    follow,
    progress_of,
    shown_to_its_end,
    waiting_for,
)
from distforest.service.whereabouts import Whereabouts

if TYPE_CHECKING:
    from distforest.jobs.any_spec import AnySpec
    from distforest.service.calls import IfExists
    from distforest.service.messages import JobState

    SpecLike = AnySpec | Mapping[str, Any] | str | os.PathLike[str]


def submit(
    spec: SpecLike,
    scheduler: str | Whereabouts | None = None,
    job_id: str | None = None,
    *,
    if_exists: IfExists = "fail",
    owner: str | None = None,
) -> SubmittedJob:
    """Submit a job to a service, as ``distforest submit`` does; the job is on disk when this returns.

    The job runs in the service, independently of this process. Local paths are made absolute, and must lead to the same
    files on the hosts of the scheduler and the workers.

    Parameters
    ----------
    spec
        Path of a TOML file, a mapping with the same keys, or a spec object.
    scheduler
        Address of the scheduler, such as ``"tcp://host:8786"``, or a `distforest.service.whereabouts.Whereabouts`,
        which names TLS files, too. By default the address of the environment (``DASK_SCHEDULER_ADDRESS``) or of Dask's
        configuration, where TLS files may be named, too.
    job_id
        Id of the job; by default made from the method, the time and random digits.
    if_exists
        What to do if a job with this id exists: "fail" raises ExistsError, "ok" returns it if its spec is the same,
        "new" submits the job under the id with the time and random digits after it.
    owner
        User who submits the job, by default ``$USER``; the name in a client's certificate takes precedence.

    Raises
    ------
    SpecError
        The spec has faults; the error lists all of them.
    ExistsError
        Another job has this id, or this job was submitted before and ``if_exists`` is "fail".
    ConflictError
        Another job owns the output.
    UnreachableError
        No service answers.

    Notes
    -----
    With a scheduler that serves jobs::

        job = submit("job.toml", "tcp://scheduler:8786")
        forest = job.wait().forest()
    """
    text = with_absolute_paths(_read(spec)).to_json()
    answer = _whereabouts(scheduler).service().submit(text, job_id, if_exists, owner or os.environ.get("USER"))
    return SubmittedJob(str(answer["job"]["id"]), scheduler)


@dataclass(frozen=True)
class SubmittedJob:
    """A job of a service, by its id. `submit` returns it, and another process may construct it from the id.

    Each method reads the state anew: from the service or, if no service answers and ``DISTFOREST_JOB_ROOT`` names a job
    root, from that root.

    Parameters
    ----------
    id
        Id of the job.
    scheduler
        As for `submit`.

    Raises
    ------
    NotFoundError
        By each method: there is no such job.
    UnreachableError
        By each method: no service answers.

    Examples
    --------
    >>> job = SubmittedJob("smerf-20261122-010200-4f3a1b", "tcp://scheduler:8786")  # makes no call yet
    >>> job.id
    'smerf-20261122-010200-4f3a1b'
    """

    id: str
    scheduler: str | Whereabouts | None = None

    def status(self) -> JobState:
        """Return the state of the job, a dict with ``state``, ``phase``, ``done``, ``total``, ``result`` and others."""
        return self._where.jobs(warn_caller).job(self.id)

    def wait(self, seconds: float | None = None, *, verbose: int = 0) -> Self:
        """Wait until the job has succeeded, and return it.

        A scheduler that restarts meanwhile has a minute to answer again. A keyboard interrupt ends the waiting; the job
        continues.

        Parameters
        ----------
        seconds
            Longest time to wait, in seconds; by default without limit.
        verbose
            0: silent. 1: show the states and the progress on stderr, as ``distforest wait`` does.

        Raises
        ------
        NotDoneError
            The job has failed, was cancelled or is interrupted; ``job`` of the error is its state.
        WaitTimeoutError
            The time limit is over; the job continues.
        """
        jobs = self._where.jobs(warn_caller)
        if verbose:
            with shown_progress() as watch:
                job = shown_to_its_end(jobs, self.id, seconds, (watch, _print_note))
        else:
            *_, job = follow(jobs, self.id, seconds)
        check_succeeded(job)
        return self

    def cancel(self, owner: str | None = None) -> JobState:
        """Stop the job and discard its unfinished work; return its state.

        Parameters
        ----------
        owner
            The caller, by default ``$USER``; the name in a client's certificate takes precedence.

        Raises
        ------
        ConflictError
            The job has ended, or belongs to another user in a service where only owners may cancel.
        """
        return self._where.service().cancel(self.id, owner or os.environ.get("USER"))

    def forest(self) -> Any:
        """Open the sealed forest of the job, which has succeeded, as a fitted estimator: see `distforest.load`.

        Raises
        ------
        NotDoneError
            The job has no result, or none yet.
        InputError
            The job is a scoring job; the error names the address of its answers.
        ArtifactError
            The forest cannot be opened from here, or is damaged.
        """
        from distforest.estimators.loading import load  # noqa: PLC0415  (a service needs no estimators)

        job = self.status()
        check_succeeded(job)
        result = job.get("result") or {}
        if "forest" not in result:
            raise InputError(f"{self.id} has no forest, as it is a scoring job; its answers are at {job.get('output')}")
        return load(result["forest"])

    def _repr_html_(self) -> str:
        """Return a table of the job's present state; if it cannot be read, the table has the reason."""
        notes: list[tuple[str, str]] = []
        try:
            jobs = self._where.jobs(lambda text: notes.append(("note", text))).within(FOLLOW_SECONDS)
            rows = _rows_of(jobs.job(self.id))
        except (DistforestError, OSError) as error:
            rows = [("state", f"not known: {error}")]
        return html_table([("job", self.id), *rows, *dict.fromkeys(notes)])

    @property
    def _where(self) -> Whereabouts:
        return _whereabouts(self.scheduler)


def _whereabouts(scheduler: str | Whereabouts | None) -> Whereabouts:
    return scheduler if isinstance(scheduler, Whereabouts) else Whereabouts(scheduler)


def _rows_of(job: JobState) -> list[tuple[str, str]]:
    """Return the rows of a job's table: its state, its progress or error, its output, and the digest of its forest."""
    result, error, progress = job.get("result") or {}, job.get("error"), progress_of(job)
    rows = [
        ("state", str(job["state"])),
        ("waiting", waiting_for(job)),
        ("progress", progress_in_words(progress) if progress and not job.get("ended") else ""),
        ("error", f"{error.get('kind')}: {error.get('message')}" if error else ""),
        ("output", str(job.get("output") or "")),
        ("digest", str(result.get("digest") or "")),
        *(("warning", text) for text in job.get("warnings") or ()),
    ]
    return [(name, value) for name, value in rows if value]


def _read(spec: SpecLike) -> AnySpec:
    """Return the spec of a job in any form; raise SpecError with all its faults."""
    if isinstance(spec, (str, os.PathLike)):
        return spec_from_toml(Path(spec))
    return spec_from_dict(spec) if isinstance(spec, Mapping) else spec


def _print_note(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
