"""Checks of folders that all workers must share with this process, as other writes would be lost."""

from __future__ import annotations

import time
from functools import lru_cache
from typing import TYPE_CHECKING

from distforest.amounts import counted
from distforest.errors import InputError, JobError
from distforest.stores.addresses import is_of_this_host, names_in, read_file, store_of
from distforest.stores.claims import CLAIM_BYTES, Claim
from distforest.stores.outputs import object_in

if TYPE_CHECKING:
    from collections.abc import Mapping

PAUSES = (0.0, 0.5, 2.0)
"""Seconds before each check for a claim, since a network file system may show a new folder late."""


@lru_cache(maxsize=16)
def check_seen(claim: Claim, worker: str) -> None:
    """Refuse to work for a job whose claim on its output this process, a worker, does not see.

    A process checks once per job, before its first task.

    Raises
    ------
    JobError
        The message has the address of the worker, what it sees, and what to do.
    """
    for pause in PAUSES:
        time.sleep(pause)
        try:
            if object_in(read_file(claim.address, CLAIM_BYTES)).get("id") == claim.id:
                return
            found = "another job's file is there"
        except (OSError, ValueError, InputError) as error:
            found = "there is no such file" if isinstance(error, FileNotFoundError) else str(error)
    raise JobError(
        f"worker {worker} does not see {claim.address}, which the job has written ({found}): what the worker writes "
        "beside it would be lost; choose an output in a folder that all workers share, or on an object store, and for "
        "a fit with `client` a shared temporary folder (TMPDIR)"
    )


def check_written(address: str, n_chunks: Mapping[str, int]) -> None:
    """Refuse arrays in a folder of this host that have fewer chunks here than workers have written.

    A worker that joined later may have a different disk at the same path.

    Raises
    ------
    JobError
        The message names the array that lacks chunks.
    """
    if not is_of_this_host(store_of(address)[0]):
        return
    for name, expected in n_chunks.items():
        found = len(names_in(f"{address}/{name}/c"))
        if found < expected:
            missed = f"{found} of {counted(expected, 'chunk')} that workers have written"
            raise JobError(
                f"{address}/{name} has {missed}: one of them does not share this folder with this process; "
                "run the job again on workers that share it"
            )
