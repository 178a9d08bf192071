"""What a service measures for Prometheus: what happens is counted at once, what is so is read when somebody asks."""

from __future__ import annotations

import asyncio
import math
import platform
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from prometheus_client import CollectorRegistry, Gauge, Histogram, generate_latest
from prometheus_client import Counter as Total

from distforest.service.checkup import scratch_free
from distforest.service.registry import JOB_STATES
from distforest.stores.room import free_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from distributed import Client, Scheduler
    from distributed.scheduler import WorkerState

    from distforest.service.messages import JobState, ServiceRecord
    from distforest.service.registry import Registry

DURATIONS = (1, 10, 60, 300, 1800, 7200, 6 * 3600, 24 * 3600)
"""Upper bounds, in seconds, of the classes into which waits and durations are sorted."""

VISIT_SECONDS = 3.0
"""Seconds in which workers must say how much room they have."""


class Measured(Protocol):
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
        own = self.registry = CollectorRegistry()
        name = "distforest_{}".format
        self._jobs = Gauge(name("jobs"), "Jobs in the job root.", ["state"], registry=own)
        self._working = Gauge(name("working"), "1 while the service works, 0 when it has failed.", registry=own)
        self._age = Gauge(name("heartbeat_age_seconds"), "Age of the service's last heartbeat.", registry=own)
        self._start = Gauge(name("start_time_seconds"), "Unix time at which the service started.", registry=own)
        self._workers = Gauge(name("workers"), "Workers that are connected.", registry=own)
        self._silent = Gauge(
            name("silent_workers"), "Workers unheard of for a third of Dask's worker-ttl.", registry=own
        )
        self._threads = Gauge(name("threads"), "Threads of the workers that are connected.", registry=own)
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

    async def exposed(self, service: Measured, client: Client | None) -> bytes:
        """All metrics in the text format of Prometheus; workers are asked by the client, once there is one."""
        about, by_state = service.about(), Counter(job["state"] for job in service.listed())
        for state in JOB_STATES:
            self._jobs.labels(state).set(by_state[state])
        self._working.set(service.failure is None)
        self._age.set(max(0.0, time.time() - about["heartbeat"]))
        self._start.set(about["started"])
        self._workers.set(about["workers"])
        self._threads.set(about["threads"])
        silent = [worker for worker in service.scheduler.workers.values() if is_silent(service, worker)]
        self._silent.set(len(silent))
        free = await _free_of_folders(service, client)
        self._free.clear()
        for labels, n_bytes in free.items():
            self._free.labels(*labels).set(n_bytes)
        return generate_latest(self.registry)


def method_of(job: JobState) -> str:
    """The label of a job: its method, or "score"."""
    return job["method"] or job["kind"]


def is_silent(service: Measured, worker: WorkerState) -> bool:
    """Whether a worker was not heard of for a third of the time after which Dask gives it up."""
    return time.time() - worker.last_seen > (service.scheduler.worker_ttl or math.inf) / 3


async def _free_of_folders(service: Measured, client: Client | None) -> dict[tuple[str, str], int]:
    """The free bytes of the job root, and of the scratch folder of each host with a worker, by folder and host."""
    free, root = {}, service.registry.folder()
    if root.is_local:
        with suppress(OSError):  # it is not there at the moment, which the heartbeat's age tells
            free["root", platform.node()] = await asyncio.to_thread(free_bytes, Path(service.registry.root))
    heard = [worker for worker in service.scheduler.workers.values() if not is_silent(service, worker)]
    asked = {worker.host: worker.address for worker in heard}
    if asked and client:
        with suppress(TimeoutError):
            async with asyncio.timeout(VISIT_SECONDS):
                found = await asyncio.to_thread(client.run, scratch_free, workers=[*asked.values()], on_error="ignore")
                free |= {("scratch", host): found[at] for host, at in asked.items() if found.get(at) is not None}
    return free
