"""Checks that workers can import distforest, are not silent, and are not all paused.

Dask ends a worker that cannot read a task, and everything else that runs there.
"""

from __future__ import annotations

import asyncio
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypedDict
from weakref import WeakKeyDictionary

from distributed import WorkerPlugin

from distforest.errors import JobError
from distforest.jobs.versions import VERSIONS

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from distributed import Client, Worker

NEEDED = "distforest.jobs.on_dask"
"""Module of the functions that all tasks call."""

PLUGIN, IMPORTED_ONCE = f"distforest-{VERSIONS['distforest']}", "distforest-imported"
"""Name of the plugin that imports it in each worker, and topic of the events that report whether a worker could."""

ANSWER_PATIENCE = 5.0
"""Time limit, in seconds, for answers of all workers; a frozen worker never answers."""

SILENT = 10.0
"""Seconds without a heartbeat after which a worker counts as silent; it sends one about each second. Dask gives it up
later: after ``distributed.scheduler.worker-ttl``."""

MOST_NAMED = 5
"""Largest number of workers that a message names."""

_ABLE: WeakKeyDictionary[Client, set[str]] = WeakKeyDictionary()
"""Addresses of workers that are known to be able, by the client that has asked."""


class WorkerIdentity(TypedDict):
    """The part of the scheduler's record of a worker that is read here; a memory limit of 0 means no limit."""

    nthreads: int
    memory_limit: int
    host: str
    status: str
    last_seen: float
    metrics: dict[str, Any]


def import_check(needed: str) -> WorkerPlugin:
    """Return a plugin that imports a module in each worker, also in later ones, before the worker gets a task.

    A class defined in a function is sent by value, so that a worker without distforest can read it and report the
    error.
    """

    class ImportCheck(WorkerPlugin):  # type: ignore[misc]  # from a package without types
        idempotent = True

        def setup(self, worker: Worker) -> None:
            failure = ""
            try:
                import_module(needed)
            except ImportError as error:
                failure = f"worker {worker.address} cannot import distforest ({type(error).__name__}: {error})"
                raise ImportError(failure) from None
            finally:
                worker.log_event(IMPORTED_ONCE, {"worker": worker.address, "told": failure})

    return ImportCheck()


async def check_able(client: Client, workers: Collection[str]) -> None:
    """Let each worker import distforest once; call this in the loop of the client.

    Raises
    ------
    JobError
        One of ``workers`` cannot import it; the error has its address and its error.
    """
    able = _ABLE.setdefault(client, set())
    if able.issuperset(workers):
        return
    try:
        await asyncio.wait_for(client.register_plugin(import_check(NEEDED), PLUGIN), ANSWER_PATIENCE)
        latest = {event["worker"]: event["told"] for _, event in await client.get_events(IMPORTED_ONCE)}
        failures = [why for worker, why in latest.items() if why and worker in workers]
    except ImportError as error:
        failures = [str(error)]
    except (OSError, TimeoutError):  # a worker has gone, or is slow
        return
    if failures:
        cure = f"install distforest {VERSIONS['distforest']} on all workers, as it is here, and start them again"
        raise JobError(f"{failures[0]}; {cure}")
    able.update(workers)


def silent_workers(last_seen: Mapping[str, float], now: float) -> dict[str, float]:
    """Return the workers that have been silent for `SILENT` seconds, each with the seconds since its last heartbeat.

    Examples
    --------
    >>> silent_workers({"tcp://10.0.0.1:4001": 100.0, "tcp://10.0.0.2:4001": 86.0}, now=100.5)
    {'tcp://10.0.0.2:4001': 14.5}
    """
    return {worker: now - heard for worker, heard in last_seen.items() if now - heard >= SILENT}


def silent_among(workers: Mapping[str, WorkerIdentity]) -> dict[str, float]:
    """Return the silent workers in the records of a scheduler, whose latest heartbeat stands for the present time."""
    heard = {address: worker["last_seen"] for address, worker in workers.items()}
    return silent_workers(heard, max(heard.values(), default=0.0))


def warning_about_silent_workers(silent: Mapping[str, float]) -> str:
    """Return a warning about silent workers; empty if there are none.

    Examples
    --------
    >>> warning_about_silent_workers({"tcp://10.0.0.2:4001": 14.5})
    'worker tcp://10.0.0.2:4001 was last heard 14 s ago; if it stays silent, Dask gives it up and repeats its tasks'
    """
    if not silent:
        return ""
    named = [f"worker {worker} was last heard {seconds:.0f} s ago" for worker, seconds in sorted(silent.items())]
    more = f" and {len(named) - MOST_NAMED} more" if len(named) > MOST_NAMED else ""
    return f"{', '.join(named[:MOST_NAMED])}{more}; if it stays silent, Dask gives it up and repeats its tasks"


def warning_about_paused_workers(workers: Collection[WorkerIdentity]) -> str:
    """Return a warning if Dask has paused all workers and nothing runs; empty otherwise.

    A paused worker finishes its tasks, which may free memory. A paused worker without tasks stays paused until memory
    is freed in another way.

    Examples
    --------
    >>> full = {"status": "paused", "memory_limit": 1 << 30, "metrics": {"memory": 900 << 20, "task_counts": {}}}
    >>> warning_about_paused_workers([full]).partition(";")[0]
    'nothing runs: Dask has paused all workers, since their memory is nearly full (one holds 900 MiB of 1,024 MiB)'
    >>> warning_about_paused_workers([{**full, "memory_limit": 0}])
    'nothing runs: all workers are paused; this continues when one runs again'
    >>> warning_about_paused_workers([full, {**full, "status": "running"}])
    ''
    """
    if not workers or any(worker["status"] != "paused" or _runs(worker) for worker in workers):
        return ""
    limited = [worker for worker in workers if worker["memory_limit"]]
    if not limited:  # paused by hand
        return "nothing runs: all workers are paused; this continues when one runs again"
    worker = max(limited, key=lambda worker: worker["metrics"].get("memory", 0))
    holds = f"{worker['metrics'].get('memory', 0) >> 20:,} MiB of {worker['memory_limit'] >> 20:,} MiB"
    return (
        f"nothing runs: Dask has paused all workers, since their memory is nearly full (one holds {holds}); this "
        "continues when one has room: release what was persisted there, give workers more memory, or restart them"
    )


def _runs(worker: WorkerIdentity) -> bool:
    return any(worker["metrics"].get("task_counts", {}).get(state) for state in ("executing", "long-running"))
