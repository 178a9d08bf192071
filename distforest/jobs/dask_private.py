"""Uses of private parts of Dask, for which there is no public way; a test fails when Dask changes them."""

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
"""Number of checks for silent workers within ``worker-ttl`` (Dask makes one, so that it may take twice as long), and
least number of missed heartbeats, as in Dask: the more workers there are, the more rarely each sends them."""

NANNY_PATIENCE = 4.0
"""Seconds in which a nanny must have killed its silent worker, or it counts as frozen, too; Dask waits for 30."""


def keep_forkserver_preload() -> None:
    """Keep Dask from importing into this process what it would preload in the process that forks workers."""
    distributed.utils._forkserver_preload_set = True


def give_up_silent_workers(scheduler: Scheduler, seconds: float) -> None:
    """Let a scheduler that is about to start give up workers that are silent for ``seconds``.

    As in Dask, a nanny kills and replaces its silent worker, and its tasks run elsewhere.
    """

    async def give_up() -> None:
        longest, now = max(seconds, MISSED_BEATS * heartbeat_interval(len(scheduler.workers))), time.time()
        silent = [worker.address for worker in scheduler.workers.values() if now - worker.last_seen > longest]
        if silent:
            logging.getLogger("distforest").warning("no heartbeat for %.0f s, given up: %s", longest, ", ".join(silent))
            how = {"timeout": NANNY_PATIENCE, "wait_for_workers": False, "on_error": "return"}
            await scheduler.restart_workers(silent, stimulus_id=f"silent-{now}", **how)

    scheduler.worker_ttl = seconds
    scheduler.periodic_callbacks["worker-ttl"] = PeriodicCallback(give_up, 1000 * seconds / TTL_CHECKS)
