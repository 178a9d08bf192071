"""The report on the forest of a job, for the service's page; a worker makes it at the first request."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from distforest.amounts import in_bytes
from distforest.errors import InputError, JobError
from distforest.forest.sealed.artifact import decoded_bytes, read_manifest
from distforest.jobs.cluster import Work
from distforest.jobs.on_dask import OnDask

if TYPE_CHECKING:
    from distributed import Client

    from distforest.service.messages import JobState

    Facts = list[tuple[str, str]]

MOST_KEPT = 16
"""Number of reports that the service keeps in memory; the least recently requested one is dropped."""

SHARE_OF_MEMORY = 0.25
"""Largest share of a worker's memory that the arrays of a forest may take for a report on the page."""


@dataclass(frozen=True)
class ReportTask:
    """A job's id, the address of its forest, the facts about its run, and the memory of a worker."""

    job: str
    forest: str
    run: Facts
    memory_limit: int | None

    def __str__(self) -> str:
        return f"the report on {self.job}"

    @property
    def command(self) -> str:
        """The command that writes the same report into a file."""
        return f"distforest report {self.job} {self.job}.html"


def report_there(task: ReportTask) -> str:
    """Make the report, as HTML, on the worker of this task; raise InputError if the forest is too large."""
    from distforest.pictures.report import report_page  # noqa: PLC0415  (a service needs no pictures)

    size = decoded_bytes(read_manifest(task.forest))
    if task.memory_limit and size > SHARE_OF_MEMORY * task.memory_limit:
        most = in_bytes(int(SHARE_OF_MEMORY * task.memory_limit))
        raise InputError(
            f"the forest takes {in_bytes(size)}, and a report on this page at most {most}, a quarter of a worker's "
            f"memory; where there is more, make it by `{task.command}`"
        )
    return report_page(task.forest, run=task.run, made_by=task.command)[0]


@dataclass
class Reports:
    """The reports that were requested last; one is made at a time, and each once."""

    _made: OrderedDict[tuple[str, str], str] = field(default_factory=OrderedDict)
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def of_job(self, job: JobState, run: Facts, client: Client) -> str:
        """Return the report on a job's forest, as HTML.

        Raises
        ------
        InputError
            The job has made no forest, or it is too large.
        ArtifactError
            The forest is gone or damaged.
        JobError
            There is no worker, or they died.
        """
        result = job["result"] or {}
        address, digest = result.get("forest"), result.get("digest")
        if not address or not digest:
            raise InputError(f"{job['id']} is {job['state']} and has no forest to report on")
        async with self._turn:
            key = (job["id"], digest)
            if key not in self._made:
                self._made[key] = await asyncio.to_thread(_made_on, client, job["id"], address, run)
            self._made.move_to_end(key)
            while len(self._made) > MOST_KEPT:
                self._made.popitem(last=False)
            return self._made[key]


def _made_on(client: Client, job: str, address: str, run: Facts) -> str:
    def check(threads: int, _seconds: float) -> None:
        if not threads:  # do not wait for workers
            raise JobError("a report is made by a worker, and none is connected; try again when one is")

    cluster = OnDask(client, job, check)
    task = ReportTask(job, address, run, cluster.memory_limit)
    [page] = cluster.each(report_there, [task], Work("report", retries=0, first=True))
    return page
