"""What is private to Dask and used all the same, as there is no other way; a test fails when Dask changes it."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

import distributed.utils
from distributed.scheduler import heartbeat_interval
from tornado.ioloop import PeriodicCallback

if TYPE_CHECKING:
    from distributed import Scheduler

TTL_CHECKS, MISSED_BEATS = 10, 10
"""How often silent workers are looked for within ``worker-ttl``; Dask does once, so that it may take two. And how many
heartbeats they have missed at least, as in Dask: of many workers, each sends them more seldom."""

NANNY_PATIENCE = 4.0
"""Seconds in which a nanny must have killed its silent worker, or it is taken for frozen, too; Dask waits for 30."""


def keep_forkserver_preload() -> None:
    """Keep Dask from importing into this process what it would preload in the process that forks workers."""
    distributed.utils._forkserver_preload_set = True


def give_up_silent_workers(scheduler: Scheduler, seconds: float) -> None:
    """Let a scheduler that is about to start give up workers that it has not heard for so many seconds.

    As Dask does it, a nanny kills and replaces its silent worker. What ran there runs elsewhere.
    """

    async def give_up() -> None:
        longest, now = max(seconds, MISSED_BEATS * heartbeat_interval(len(scheduler.workers))), time.time()
        silent = [worker.address for worker in scheduler.workers.values() if now - worker.last_seen > longest]
        if silent:
            logging.getLogger("distforest").warning(
                "not heard for %.0f s, and given up: %s", longest, ", ".join(silent)
            )
            how = {"timeout": NANNY_PATIENCE, "wait_for_workers": False, "on_error": "return"}
            await scheduler.restart_workers(silent, stimulus_id=f"silent-{now}", **how)

    scheduler.worker_ttl = seconds
    scheduler.periodic_callbacks["worker-ttl"] = PeriodicCallback(give_up, 1000 * seconds / TTL_CHECKS)
