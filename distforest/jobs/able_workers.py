"""Workers that can import distforest. Dask ends a worker that cannot read a task, with whatever else it does."""

from __future__ import annotations

import asyncio
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING
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
