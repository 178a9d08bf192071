"""Types of messages about jobs, which are written into the job root, sent over the comm, and shown on the page."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Required, TypedDict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from distforest.growth.parameters import Value


class JobFault(TypedDict):
    """The reason why a job failed: the name of an error's class, and its message."""

    kind: str
    message: str


class JobResult(TypedDict, total=False):
    """The result of a job: the forest of a fit or a tuning job, the answers of a scoring job."""

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
    """The number of trees that a worker has grown, and the seconds that they took."""

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
    """The part of a job's state that changes during the job."""

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
    """The state of a job; a state that is read from a job root may lack any key but ``id``.

    ``owner`` submitted the job, ``was`` is the state before an interruption, ``since`` is when its state began,
    ``worked`` is its seconds of work before that, ``grown_by`` has the number of trees that each worker has grown in
    all attempts, and ``workers`` is the number of workers that the service has now.
    """

    format: int
    id: Required[str]
    revision: int
    submission: str | None
    owner: str | None
    submitted: float
    workers: int


class EventDetails(TypedDict, total=False):
    """Details of an event: the trees that a task has committed, their worker and cost; or the worker that was lost."""

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
    """An event of a job with its number, from 1."""

    n: Required[int]


class LeaseRecord(TypedDict, total=False):
    """The service that holds a job root; a record that is read from the root may lack any key but ``heartbeat``."""

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
    """A running service and its workers; ``silent`` is a text on workers that were not heard from for long, if any."""

    workers: int
    threads: int
    silent: str


class SubmitAnswer(TypedDict):
    """The answer to a submission; ``created`` is False if another call submitted the same job before."""

    job: JobState
    created: bool


class JobsAnswer(TypedDict, total=False):
    """Jobs, newest first, and their service, which is None if the job root was read without one.

    ``total`` is the number of matching jobs, which may be more than ``jobs``.
    """

    service: Required[ServiceRecord | None]
    jobs: Required[list[JobState]]
    total: int


class JobFilter(NamedTuple):
    """A filter of jobs: those in one of ``states``, or in any; without the first ``skip``, and at most ``limit``.

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
        """Return the answer with the matching jobs."""
        found = [job for job in jobs if not self.states or job["state"] in self.states]
        end = None if self.limit is None else self.skip + self.limit
        return {"service": service, "jobs": found[self.skip : end], "total": len(found)}


ALL_JOBS = JobFilter()
"""The filter that lists every job."""
