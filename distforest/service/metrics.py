"""Metrics of a service for Prometheus: events are counted at once, states are read at each request."""

from __future__ import annotations

import asyncio
import platform
import time
from collections import Counter
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Gauge, Histogram, generate_latest
from prometheus_client import Counter as Total

from distforest.jobs.able_workers import silent_workers
from distforest.service.checkup import aside, expiries, scratch_disk
from distforest.service.registry import JOB_STATES
from distforest.stores.folder import Folder
from distforest.stores.room import free_bytes
from distforest.threads import in_thread

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from concurrent.futures import Future

    from distributed import Client, Scheduler, Security

    from distforest.service.messages import JobState, ServiceRecord

DURATIONS = (1, 10, 60, 300, 1800, 7200, 6 * 3600, 24 * 3600)
"""Upper bounds, in seconds, of the buckets of waits and durations."""

METRICS_SECONDS = 3.0
"""Time limit, in seconds, for disks and workers to answer; otherwise their metrics are missing."""


class Metrics:
    """The metrics of one service. Any thread may call its methods, except `exposed`, which needs the event loop."""

    def __init__(self) -> None:
        self._look: Future[tuple[dict[str, float], dict[tuple[str, str], int]]] | None = None
        own = self.registry = CollectorRegistry()

        def gauge(name: str, text: str, *labels: str) -> Gauge:
            return Gauge(f"distforest_{name}", text, labels, registry=own)

        def histogram(name: str, text: str, *labels: str) -> Histogram:
            return Histogram(f"distforest_{name}", text, labels, buckets=DURATIONS, registry=own)

        def total(name: str, text: str, *labels: str) -> Total:
            return Total(f"distforest_{name}", text, labels, registry=own)

        self._jobs = gauge("jobs", "Jobs in the job root.", "state")
        self._working = gauge("working", "1 while the service works, 0 when it has failed.")
        self._age = gauge("heartbeat_age_seconds", "Age of the service's last heartbeat.")
        self._start = gauge("start_time_seconds", "Unix time at which the service started.")
        self._workers = gauge("workers", "Workers that are connected.")
        self._silent = gauge("silent_workers", "Workers that Dask has not heard from for ten seconds.")
        self._threads = gauge("threads", "Threads of the workers that are connected.")
        self._expiry = gauge("certificate_expiry_timestamp_seconds", "When a certificate expires.", "file")
        self._free = gauge("free_bytes", "Free space of the folder's disk.", "folder", "host")
        self.queue = histogram("queue_seconds", "Wait of jobs for their turn.", "method")
        self.work = histogram("job_seconds", "Work of jobs that have ended.", "method", "state")
        self.trees = total("trees_committed", "Trees committed since the service started.")
        self.growth = total("growth_seconds", "Seconds that tasks spent growing trees.")
        self.retries = total("retries", "Tasks that were tried again.")
        self.lost_workers = total("lost_workers", "Workers that were lost while they served a job.")
        self.store_errors = total("store_errors", "Errors of stores that the service met.", "during")

    async def exposed(
        self,
        about: ServiceRecord,
        jobs: Sequence[JobState],
        is_working: bool,
        scheduler: Scheduler,
        client: Client | None,
    ) -> bytes:
        """Return all metrics in the text format of Prometheus; the client, once there is one, asks workers."""
        by_state = Counter(job["state"] for job in jobs)
        for state in JOB_STATES:
            self._jobs.labels(state).set(by_state[state])
        self._working.set(is_working)
        self._age.set(max(0.0, time.time() - about["heartbeat"]))
        self._start.set(about["started"])
        self._workers.set(about["workers"])
        self._threads.set(about["threads"])
        silent = silent_of(scheduler)
        self._silent.set(len(silent))
        heard = {one.host: one.address for one in scheduler.workers.values() if one.address not in silent}
        if self._look is None or self._look.done():
            self._look = in_thread(
                partial(_look, about["job_root"], scheduler.security, client, heard), "distforest-metrics"
            )
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


def silent_of(scheduler: Scheduler) -> dict[str, float]:
    """Return the workers that a scheduler has not heard from for long, each with the seconds since then."""
    return silent_workers({address: worker.last_seen for address, worker in scheduler.workers.items()}, time.time())


def label_of(job: JobState) -> str:
    """Return the label of a job: its method, or "score"."""
    return job["method"] or job["kind"]


def _look(
    root: str, security: Security, client: Client | None, workers: Mapping[str, str]
) -> tuple[dict[str, float], dict[tuple[str, str], int]]:
    """Return the expiry times of certificates by file, and free bytes by folder and host, of one worker per host."""
    ends, free = expiries(security, "scheduler"), {}
    if Folder(root).is_local:
        with suppress(OSError):  # the root is away, which the heartbeat's age shows
            free["root", platform.node()] = free_bytes(Path(root))
    if workers and client:
        with suppress(Exception):  # any error of a dying worker or a closed client
            found = client.run(aside, scratch_disk, workers=[*workers.values()], on_error="ignore")
            free |= {
                ("scratch", host): disk.free
                for host, at in workers.items()
                if (disk := found.get(at)) and disk.free is not None
            }
    return ends, free
