"""What is private to Dask and used all the same, as there is no other way; a test fails when Dask changes it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import distributed.utils

if TYPE_CHECKING:
    from distributed import Scheduler

TTL_CHECKS = 10
"""How often a scheduler looks for silent workers within ``worker-ttl``; Dask does once, so that it may take two."""


def keep_forkserver_preload() -> None:
    """Keep Dask from importing into this process what it would preload in the process that forks workers."""
    distributed.utils._forkserver_preload_set = True


def give_up_silent_workers(scheduler: Scheduler, seconds: float) -> None:
    """Let a scheduler that is about to start give up workers that it has not heard for so many seconds."""
    scheduler.worker_ttl = seconds
    scheduler.periodic_callbacks["worker-ttl"].callback_time = 1000 * seconds / TTL_CHECKS
