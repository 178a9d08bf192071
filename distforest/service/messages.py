"""Types of messages about jobs, which are written into the job root, sent over the comm, and shown on the page."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Required, TypedDict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from distforest.growth.parameters import Value


class JobFault(TypedDict):
    """Why a job failed: the name of an error's class, and its message."""

    kind: str
    message: str


class JobResult(TypedDict, total=False):
    """The result of a job: of a fit or a tuning job its forest, of a scoring its answers."""

    forest: str
    output: str
    digest: str
    n_trees: int
    n_grown: int
    seconds: float
    growing_seconds: float
    peak_bytes: int
    projected_bytes: int
    evaluations: int
    closed: int
    arrays: dict[str, list[int]]
    warnings: list[str]
    best: dict[str, Value]
    scoring: str
    score: float
    sides: str


class Grown(TypedDict):
    """How many trees a worker has grown, and in how many seconds."""

    trees: int
    seconds: float


class JobDescription(TypedDict, total=False):
    """The part of a job's state that its spec determines."""

    kind: str
    method: str | None
    output: str
    n_trees: int | None
    priority: int
    queue: str | None


class StateChanges(JobDescription, total=False):
    """The part of a job's state that changes while the job lives."""

    state: str
    was: str | None
    waiting: str | None
    service: str | None
    heartbeat: float
    since: float
    worked: float
    started: float | None
    ended: float | None
    phase: str | None
    done: int
    total: int
    rate: float
    remaining: float | None
    retries: int
    lost_workers: int
    grown_by: dict[str, Grown]
    warnings: list[str]
    attempt: int
    error: JobFault | None
    result: JobResult | None


class JobState(StateChanges, total=False):
    """The state of a job; one that is read from a job root may lack any key but ``id``.

    ``owner`` is who has submitted the job, ``was`` the state before an interruption, ``since`` when its state began,
    ``worked`` its seconds of work before that, ``grown_by`` says which worker has grown how many trees in all attempts,
    and ``workers`` is the number of workers that the service has now.
    """

    format: int
    id: Required[str]
    revision: int
    submission: str | None
    owner: str | None
    submitted: float
    workers: int


class EventDetails(TypedDict, total=False):
    """Details of an event: which trees a task has committed, on which worker, what they took; which worker was lost."""

    first: int
    last: int
    seconds: float
    peak_bytes: int | None
    worker: str


class JobNote(EventDetails):
    """The kind of an event, and a sentence about it."""

    event: Required[str]
    message: Required[str]


class TimedNote(JobNote):
    """A note with its time in Unix seconds."""

    time: Required[float]


class JobEvent(TimedNote):
    """An event of a job, by its number: the first one is 1."""

    n: Required[int]


class LeaseRecord(TypedDict, total=False):
    """Which service holds a job root; one that is read from the root may lack any key but ``heartbeat``."""

    id: str
    address: str
    job_root: str
    started: float
    heartbeat: Required[float]
    excludes: bool
    version: str
    host: str
    boot: str
    pid: int
    born: float


class ServiceRecord(LeaseRecord, total=False):
    """A service that runs, and the workers that it has; ``silent`` says which were not heard from for long, if any."""

    workers: int
    threads: int
    silent: str


class SubmitAnswer(TypedDict):
    """The answer to a submit; ``created`` is False where the same job was submitted before, by another call."""

    job: JobState
    created: bool


class JobsAnswer(TypedDict, total=False):
    """Jobs, newest first, and their service; None where the job root was read without one.

    ``total`` is the number of jobs that were asked for, of which ``jobs`` may be a part.
    """

    service: Required[ServiceRecord | None]
    jobs: Required[list[JobState]]
    total: int


class JobFilter(NamedTuple):
    """Which jobs are listed: those in one of some states, or in any; without the first ``skip``, and ``limit`` at most.

    Examples
    --------
    >>> jobs = [{"id": "c", "state": "FAILED"}, {"id": "b", "state": "QUEUED"}, {"id": "a", "state": "FAILED"}]
    >>> JobFilter(("FAILED",), limit=1).answer(jobs, None)
    {'service': None, 'jobs': [{'id': 'c', 'state': 'FAILED'}], 'total': 2}
    """

    states: Sequence[str] = ()
    skip: int = 0
    limit: int | None = None

    def answer(self, jobs: Sequence[JobState], service: ServiceRecord | None) -> JobsAnswer:
        """The answer to a reader who asks for these of all jobs."""
        found = [job for job in jobs if not self.states or job["state"] in self.states]
        end = None if self.limit is None else self.skip + self.limit
        return {"service": service, "jobs": found[self.skip : end], "total": len(found)}


ALL_JOBS = JobFilter()
"""The filter that lists every job."""
