"""Numbers from the events of jobs, in bounded memory; each event is read once, however often a page is requested."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np

from distforest.service.messages import JobEvent, JobState, ServiceRecord

N_BINS = 120
"""Most columns of a chart; neighbouring trees share a column if there are more trees."""
N_AT_ONCE, N_LATEST = 1000, 200
"""Events that are read at once, and that a page shows."""


class Serving(Protocol):
    """The service, as its page sees it."""

    failure: str | None

    def about(self) -> ServiceRecord:
        """Return the record of the service."""

    def listed(self) -> Sequence[JobState]:
        """Return all jobs, newest first."""

    def job(self, id: str, /) -> JobState:  # noqa: A002 - the key of the message
        """Return one job; raises NotFoundError."""

    async def events(self, id: str, /, after: int = 0, limit: int = N_AT_ONCE) -> Sequence[JobEvent]:  # noqa: A002
        """Return events of a job with numbers greater than ``after``; raises NotFoundError."""

    async def metrics(self) -> bytes:
        """Return all metrics, as Prometheus reads them."""

    async def report(self, id: str, run: list[tuple[str, str]], /) -> str:  # noqa: A002
        """Return the report on a job's forest, as HTML; raises DistforestError if there is none."""


class ChartColumn(NamedTuple):
    """Trees ``first`` to ``last`` in a chart: the mean seconds of one, and the greatest peak of memory."""

    first: int
    last: int
    seconds: float
    peak_bytes: int


class ChartColumns:
    """Seconds and memory of a job's trees, added up over neighbouring trees so that the columns are few."""

    def __init__(self, n_trees: int) -> None:
        self.n_trees = n_trees
        self._edges = np.linspace(0, n_trees, min(n_trees, N_BINS) + 1).round().astype(int)
        self._trees, self._seconds, self._peak = np.zeros((3, len(self._edges) - 1))

    def add(self, event: JobEvent) -> None:
        """Divide the seconds of a task among its trees."""
        first, last = max(0, event["first"]), min(event["last"], self.n_trees - 1)
        inside = np.minimum(self._edges[1:], last + 1) - np.maximum(self._edges[:-1], first)
        inside = np.maximum(inside, 0)
        self._trees += inside
        self._seconds += inside * (event["seconds"] / (event["last"] - event["first"] + 1))
        self._peak = np.maximum(self._peak, np.where(inside, event["peak_bytes"] or 0, 0))

    def told(self) -> list[ChartColumn]:
        """The columns with committed trees, in the order of the trees."""
        return [
            ChartColumn(
                int(self._edges[at]),
                int(self._edges[at + 1]) - 1,
                float(self._seconds[at] / self._trees[at]),
                int(self._peak[at]),
            )
            for at in np.flatnonzero(self._trees)
        ]


class _Followed:
    """How far the events of one job have been read, and the numbers in them."""

    def __init__(self) -> None:
        self.n = 0
        self.columns: ChartColumns | None = None


class Measurements:
    """The numbers that pages take from events; one object for each service."""

    def __init__(self, service: Serving) -> None:
        self.service = service
        self._followed: dict[tuple[str, float], _Followed] = {}

    async def of_job(self, job: JobState) -> tuple[list[ChartColumn], list[JobEvent]]:
        """The columns of a job's charts, and its latest events; raises NotFoundError."""
        followed, latest = self._followed.setdefault(_key(job), _Followed()), deque[JobEvent](maxlen=N_LATEST)
        await self._read_on(followed, job, max(0, followed.n - N_LATEST), latest)
        return (followed.columns.told() if followed.columns else []), list(latest)

    async def _read_on(self, followed: _Followed, job: JobState, after: int, latest: deque[JobEvent]) -> None:
        """Read all events after number ``after``; those that were read before are not counted again."""
        while events := await self.service.events(job["id"], after=after, limit=N_AT_ONCE):
            latest.extend(events)
            for event in events:
                self._read(followed, job, event)
            if len(events) < N_AT_ONCE:
                break
            after = events[-1]["n"]

    def _read(self, followed: _Followed, job: JobState, event: JobEvent) -> None:
        if event["n"] <= followed.n:  # this or another request has read it
            return
        followed.n = event["n"]
        if event["event"] == "trees":
            if followed.columns is None and job["n_trees"]:
                followed.columns = ChartColumns(job["n_trees"])
            if followed.columns is not None:
                followed.columns.add(event)


def _key(job: JobState) -> tuple[str, float]:
    """The identity of a job: its id may be used again after its removal."""
    return job["id"], job["submitted"]
