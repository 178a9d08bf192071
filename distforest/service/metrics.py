"""What a service measures for Prometheus: what happens is counted at once, what is so is read when somebody asks."""

from __future__ import annotations

import asyncio
import platform
import time
from collections import Counter
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from prometheus_client import CollectorRegistry, Gauge, Histogram, generate_latest
from prometheus_client import Counter as Total

from distforest.service.checkup import aside, expiries, scratch_disk
from distforest.service.registry import JOB_STATES
from distforest.service.turns import silent_of
from distforest.stores.room import free_bytes
from distforest.threads import in_thread

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from concurrent.futures import Future

    from distributed import Client, Scheduler

    from distforest.service.messages import JobState, ServiceRecord
    from distforest.service.registry import Registry

DURATIONS = (1, 10, 60, 300, 1800, 7200, 6 * 3600, 24 * 3600)
"""Upper bounds, in seconds, of the classes into which waits and durations are sorted."""

METRICS_SECONDS = 3.0
"""Seconds in which disks and workers must answer; what they tell is missing from the metrics otherwise."""


class MeasuredService(Protocol):
    """The service, as far as it is measured."""

    scheduler: Scheduler
    registry: Registry
    failure: str | None

    def about(self) -> ServiceRecord:
        """Return the record of the service."""

    def listed(self) -> Sequence[JobState]:
        """Return all jobs."""


class Metrics:
    """The metrics of one service. Its methods may be called from any thread, but `exposed` from the event loop."""

    def __init__(self) -> None:
        self._look: Future[tuple[dict[str, float], dict[tuple[str, str], int]]] | None = None
        own = self.registry = CollectorRegistry()
        name = "distforest_{}".format
        self._jobs = Gauge(name("jobs"), "Jobs in the job root.", ["state"], registry=own)
        self._working = Gauge(name("working"), "1 while the service works, 0 when it has failed.", registry=own)
        self._age = Gauge(name("heartbeat_age_seconds"), "Age of the service's last heartbeat.", registry=own)
        self._start = Gauge(name("start_time_seconds"), "Unix time at which the service started.", registry=own)
        self._workers = Gauge(name("workers"), "Workers that are connected.", registry=own)
        self._silent = Gauge(
            name("silent_workers"), "Workers that Dask has not heard of for ten seconds.", registry=own
        )
        self._threads = Gauge(name("threads"), "Threads of the workers that are connected.", registry=own)
        self._expiry = Gauge(
            name("certificate_expiry_timestamp_seconds"), "When a certificate expires.", ["file"], registry=own
        )
        self._free = Gauge(name("free_bytes"), "Free space of the folder's disk.", ["folder", "host"], registry=own)
        self.queue = Histogram(
            name("queue_seconds"), "Wait of jobs for their turn.", ["method"], buckets=DURATIONS, registry=own
        )
        self.work = Histogram(
            name("job_seconds"), "Work of jobs that have ended.", ["method", "state"], buckets=DURATIONS, registry=own
        )
        self.trees = Total(name("trees_committed"), "Trees committed since the service started.", registry=own)
        self.growth = Total(name("growth_seconds"), "Seconds that tasks grew trees.", registry=own)
        self.retries = Total(name("retries"), "Tasks that were tried again.", registry=own)
        self.lost_workers = Total(name("lost_workers"), "Workers that were lost while they served a job.", registry=own)
        self.store_errors = Total(
            name("store_errors"), "Errors of stores that the service met.", ["during"], registry=own
        )

    async def exposed(self, service: MeasuredService, client: Client | None) -> bytes:
        """All metrics in the text format of Prometheus; workers are asked by the client, once there is one."""
        about, by_state = service.about(), Counter(job["state"] for job in service.listed())
        for state in JOB_STATES:
            self._jobs.labels(state).set(by_state[state])
        self._working.set(service.failure is None)
        self._age.set(max(0.0, time.time() - about["heartbeat"]))
        self._start.set(about["started"])
        self._workers.set(about["workers"])
        self._threads.set(about["threads"])
        silent = silent_of(service.scheduler)
        self._silent.set(len(silent))
        heard = {one.host: one.address for one in service.scheduler.workers.values() if one.address not in silent}
        if self._look is None or self._look.done():
            self._look = in_thread(partial(_look, service, client, heard), "distforest-metrics")
        self._expiry.clear()
        self._free.clear()
        await asyncio.wait([asyncio.wrap_future(self._look)], timeout=METRICS_SECONDS)  # which does not cancel it
        if self._look.done():
            ends, free = self._look.result()
            for path, end in ends.items():
                self._expiry.labels(path).set(end)
            for place, n_bytes in free.items():
                self._free.labels(*place).set(n_bytes)
        return generate_latest(self.registry)


def label_of(job: JobState) -> str:
    """The label of a job: its method, or "score"."""
    return job["method"] or job["kind"]


def _look(
    service: MeasuredService, client: Client | None, workers: Mapping[str, str]
) -> tuple[dict[str, float], dict[tuple[str, str], int]]:
    """When certificates expire, by file, and the free bytes by folder and host, for which a worker of each is asked."""
    ends, free, root = expiries(service.scheduler.security, "scheduler"), {}, service.registry.folder()
    if root.is_local:
        with suppress(OSError):  # it is not there at the moment, which the heartbeat's age tells
            free["root", platform.node()] = free_bytes(Path(service.registry.root))
    if workers and client:
        with suppress(Exception):  # whatever a worker that dies or a client that is closed raises
            found = client.run(aside, scratch_disk, workers=[*workers.values()], on_error="ignore")
            free |= {
                ("scratch", host): disk.free
                for host, at in workers.items()
                if (disk := found.get(at)) and disk.free is not None
            }
    return ends, free
