"""Workers that can work: that can import distforest, that the scheduler has heard lately, and are not all paused.

Dask ends a worker that cannot read a task, with whatever else it does.
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
"""The module of the functions that all tasks call."""

PLUGIN, IMPORTED_ONCE = f"distforest-{VERSIONS['distforest']}", "distforest-imported"
"""The name of the plugin that imports it in each worker, and the topic of events that say whether a worker could."""

ANSWER_PATIENCE = 5.0
"""Seconds in which workers must answer a question to all of them; one that is frozen never does."""

SILENT = 10.0
"""Seconds after which a worker that the scheduler has not heard counts as silent; it sends a heartbeat each second or
so. Dask gives it up later: after ``distributed.scheduler.worker-ttl``."""

MOST_NAMED = 5
"""Most workers that a message names."""

_ABLE: WeakKeyDictionary[Client, set[str]] = WeakKeyDictionary()
"""The addresses of workers of which this is known, by the client that has asked."""


class WorkerIdentity(TypedDict):
    """The part of the scheduler's record of a worker that is read here; a memory limit of 0 means none."""

    nthreads: int
    memory_limit: int
    host: str
    status: str
    last_seen: float
    metrics: dict[str, Any]


def import_check(needed: str) -> WorkerPlugin:
    """A plugin that imports a module in each worker, also in those that come later, before they get a task.

    A class of a function is sent by value, so that a worker without distforest can read it and say what it lacks.
    """

    class ImportCheck(WorkerPlugin):  # type: ignore[misc]  # of a package without types
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
    """Let all workers import distforest, once in the life of each; called in the loop of the client.

    Raises
    ------
    JobError
        One of ``workers`` cannot, with its address and its own error.
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
    """The workers that have been silent for `SILENT` seconds, each with the seconds since it was last heard.

    Examples
    --------
    >>> silent_workers({"tcp://10.0.0.1:4001": 100.0, "tcp://10.0.0.2:4001": 86.0}, now=100.5)
    {'tcp://10.0.0.2:4001': 14.5}
    """
    return {worker: now - heard for worker, heard in last_seen.items() if now - heard >= SILENT}


def silent_among(workers: Mapping[str, WorkerIdentity]) -> dict[str, float]:
    """Silent workers in the records of a scheduler, whose clock may differ: its latest heartbeat stands for now."""
    heard = {address: worker["last_seen"] for address, worker in workers.items()}
    return silent_workers(heard, max(heard.values(), default=0.0))


def warning_about_silent_workers(silent: Mapping[str, float]) -> str:
    """What to say of silent workers; empty if there are none.

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
    """What to say of workers that Dask has paused, all of them, and that run nothing; empty otherwise.

    A paused worker finishes what it runs, which may free memory. One that runs nothing stays paused until somebody else
    frees some.

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
    if not limited:  # somebody has paused them
        return "nothing runs: all workers are paused; this continues when one runs again"
    worker = max(limited, key=lambda worker: worker["metrics"].get("memory", 0))
    holds = f"{worker['metrics'].get('memory', 0) >> 20:,} MiB of {worker['memory_limit'] >> 20:,} MiB"
    return (
        f"nothing runs: Dask has paused all workers, since their memory is nearly full (one holds {holds}); this "
        "continues when one has room: release what was persisted there, give workers more memory, or restart them"
    )


def _runs(worker: WorkerIdentity) -> bool:
    return any(worker["metrics"].get("task_counts", {}).get(state) for state in ("executing", "long-running"))
