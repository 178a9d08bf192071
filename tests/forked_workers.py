"""Processes of tests that are forked from one that has imported what each of them would import.

The workers of embedded clusters are: as fresh interpreters they would import for two seconds each, and so would those
that replace them when they die. Commands that tests run in processes of their own start fresh ones, as users' do.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable
from functools import cache
from multiprocessing import forkserver
from typing import Any
from unittest import mock

METHOD, STARTED_IN = "distributed.worker.multiprocessing-method", "distributed.nanny.pre-spawn-environ"
"""Dask's settings of how workers start, and in which environment."""


@cache
def fork_workers() -> None:
    """Fork the workers of all nannies that this process starts from now on."""
    import dask
    from distributed.utils import get_mp_context

    from distforest.jobs.on_dask import DASK_SETTINGS

    dask.config.set({METHOD: "forkserver"})
    with dask.config.set({name: value for name, value in DASK_SETTINGS.items() if name.startswith(STARTED_IN)}):
        environment = {name: str(value) for name, value in dask.config.get(STARTED_IN).items()}
    get_mp_context()  # its first call says what Dask would import there
    multiprocessing.set_forkserver_preload(["tests.forked_from"])
    with mock.patch.dict(os.environ, environment):
        forkserver.ensure_running()


def run_forked(function: Callable[..., object], *arguments: Any) -> int | None:
    """Call a function of a module in a process of its own, and give the exit code of that process."""
    fork_workers()
    process = multiprocessing.get_context("forkserver").Process(target=function, args=arguments)
    process.start()
    process.join()
    return process.exitcode
