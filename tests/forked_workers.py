"""Processes of tests that are forked from one that has imported what each of them would import.

All workers of clusters in the process of the tests are, as those of embedded clusters are for users, and what tests
import is imported, too: also where a test makes a plain cluster of Dask.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from functools import cache
from typing import Any


@cache
def fork_workers() -> None:
    """Fork the workers of all nannies that this process starts from now on."""
    import dask

    from distforest.jobs.worker_start import DASK_SETTINGS, ENVIRONMENT, METHOD, start_method

    with dask.config.set({name: value for name, value in DASK_SETTINGS.items() if name.startswith(ENVIRONMENT)}):
        method = start_method("tests.forked_from")
    dask.config.set({METHOD: method})


def run_forked(function: Callable[..., object], *arguments: Any) -> int | None:
    """Call a function of a module in a process of its own, and give the exit code of that process."""
    fork_workers()
    process = multiprocessing.get_context("forkserver").Process(target=function, args=arguments)
    process.start()
    process.join()
    return process.exitcode
