"""Workers that can work: that can import distforest, and are not all paused.

Dask ends a worker that cannot read a task, with whatever else it does.
"""

from __future__ import annotations

import asyncio
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypedDict
from weakref import WeakKeyDictionary

from distforest.errors import JobError
from distforest.jobs.versions import VERSIONS

if TYPE_CHECKING:
    from collections.abc import Collection

    from distributed import Client

NEEDED = "distforest.jobs.on_dask"
"""The module of the functions that all tasks call."""

IMPORT_PATIENCE = 30.0
"""Seconds in which workers must have imported it, or it is not known whether they can."""

_ABLE: WeakKeyDictionary[Client, set[str]] = WeakKeyDictionary()
"""The addresses of workers that have imported it, by the client that asked them."""


class WorkerIdentity(TypedDict):
    """The part of the scheduler's record of a worker that is read here; a memory limit of 0 means none."""

    nthreads: int
    memory_limit: int
    host: str
    status: str
    metrics: dict[str, Any]


async def check_able(client: Client, workers: Collection[str]) -> None:
    """Let workers that were not asked before import distforest.

    Raises
    ------
    JobError
        One of them cannot, with its address and its own error.
    """
    able = _ABLE.setdefault(client, set())
    asked = [address for address in workers if address not in able]
    if not asked:
        return
    asking = client._run(import_module, NEEDED, workers=asked, on_error="return")
    try:
        answers = await asyncio.wait_for(asking, IMPORT_PATIENCE)
    except (OSError, TimeoutError, ValueError):  # a worker has gone, or is slow
        return
    for address, answer in answers.items():
        if isinstance(answer, ImportError):
            raise JobError(
                f"worker {address} cannot import distforest ({type(answer).__name__}: {answer}); install distforest "
                f"{VERSIONS['distforest']} on all workers, as it is here, and start them again"
            )
    able.update(address for address, answer in answers.items() if isinstance(answer, ModuleType))


def told_of_paused(workers: Collection[WorkerIdentity]) -> str:
    """What to say of workers that Dask has paused, all of them, and that run nothing; empty otherwise.

    A paused worker finishes what it runs, which may free memory. One that runs nothing stays paused until somebody else
    frees some.

    Examples
    --------
    >>> full = {"status": "paused", "memory_limit": 1 << 30, "metrics": {"memory": 900 << 20, "task_counts": {}}}
    >>> told_of_paused([full]).partition(";")[0]
    'nothing runs: Dask has paused all workers, since their memory is nearly full (one holds 900 MiB of 1,024 MiB)'
    >>> told_of_paused([{**full, "memory_limit": 0}])
    'nothing runs: all workers are paused; this continues when one runs again'
    >>> told_of_paused([full, {**full, "status": "running"}])
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
