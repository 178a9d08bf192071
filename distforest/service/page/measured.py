"""Measurements from the events of jobs, in bounded memory; each event is read once, for all requests."""

from __future__ import annotations

from collections import deque
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from dask.utils import format_time

from distforest.amounts import in_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from distforest.service.jobs import JobService
    from distforest.service.messages import JobEvent, JobState

N_BINS = 120
"""Largest number of columns of a chart; neighbouring trees share a column if there are more trees."""
ALIKE = 0.9
"""Least value of a chart, as a share of the greatest, from which its bars would look alike."""

N_AT_ONCE, N_LATEST = 1000, 200
"""Numbers of events that are read at once, and that a page shows."""


class ChartColumn(NamedTuple):
    """Trees ``first`` to ``last`` in a chart: the mean seconds of a tree, and the greatest peak of memory."""

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

    def committed(self) -> list[ChartColumn]:
        """Return the columns with committed trees, in the order of the trees."""
        return [
            ChartColumn(
                int(self._edges[at]),
                int(self._edges[at + 1]) - 1,
                float(self._seconds[at] / self._trees[at]),
                int(self._peak[at]),
            )
            for at in np.flatnonzero(self._trees)
        ]


class Chart(NamedTuple):
    """A chart of trees: a title, a summary, the largest value as text, and the share and text of each column.

    If the columns differ by at most a tenth, there are no bars, only the summary.
    """

    title: str
    summary: str
    greatest: str
    bars: list[tuple[ChartColumn, float, str]]


def charts(columns: Sequence[ChartColumn]) -> list[Chart]:
    """Return charts of the seconds and of the memory of a job's trees; none if no tree is committed."""
    found = []
    for title, name, written in (
        ("Seconds per tree", "seconds", format_time),
        ("Peak memory of a worker", "peak_bytes", in_bytes),
    ):
        values = [getattr(column, name) for column in columns]
        if any(values):
            least, middle, most = (written(value) for value in (min(values), median(values), max(values)))
            summary = f"median {middle}, {least} to {most}" if least != most else most
            bars = [(trees, value / max(values), written(value)) for trees, value in zip(columns, values, strict=True)]
            found.append(Chart(title, summary, most, bars if min(values) < ALIKE * max(values) else []))
    return found


class Measurements:
    """The measurements from events that pages show; one object per service."""

    def __init__(self, service: JobService) -> None:
        self.service = service
        self._read = dict[tuple[str, float], int]()  # the number of the last event that was read
        self._columns = dict[tuple[str, float], ChartColumns]()

    async def of_job(self, job: JobState) -> tuple[list[ChartColumn], list[JobEvent]]:
        """Return the columns of a job's charts, and its latest events; raise NotFoundError.

        Events that this or another request has read before are not counted again.
        """
        key = (job["id"], job["submitted"])  # an id may be used again
        latest: deque[JobEvent] = deque(maxlen=N_LATEST)
        after, is_more = max(0, self._read.get(key, 0) - N_LATEST), True
        while is_more:
            events = await self.service.events(job["id"], after=after, limit=N_AT_ONCE)
            latest.extend(events)
            for event in events:
                after = event["n"]
                if after > self._read.get(key, 0):
                    self._read[key] = after
                    if event["event"] == "trees" and (n_trees := job["n_trees"]):
                        self._columns.setdefault(key, ChartColumns(n_trees)).add(event)
            is_more = len(events) == N_AT_ONCE
        columns = self._columns.get(key)
        return (columns.committed() if columns else []), list(latest)
