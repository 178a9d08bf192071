"""Folders that all workers must see as this process does: what they write elsewhere is not in the output."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from distforest.amounts import counted
from distforest.errors import InputError, JobError
from distforest.stores.addresses import is_of_this_host, names_in, read_file, store_of
from distforest.stores.claims import CLAIM_BYTES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from distributed import Client

SEEN_WITHIN, PAUSES = 30.0, (0.0, 0.5, 2.0)
"""Seconds in which workers must answer, or it is not known what they see; and the pauses before they are asked, since a
network file system may show a new folder late."""


def seen_here(claim: str) -> bytes | str:
    """The content of a claim's file as this process sees it, or in words why it does not."""
    try:
        return read_file(claim, CLAIM_BYTES)
    except FileNotFoundError:
        return "there is no such file"
    except (OSError, ValueError, InputError) as error:
        return str(error)


async def check_shared(client: Client, claim: str) -> None:
    """Refuse workers that do not see the claim on an output as this process, which has made it, does.

    Raises
    ------
    JobError
        With the address of a worker, what it sees, and what to do.
    """
    for pause in PAUSES:
        await asyncio.sleep(pause)
        here = await asyncio.to_thread(seen_here, claim)
        try:
            answers = await asyncio.wait_for(client._run(seen_here, claim, on_error="ignore"), SEEN_WITHIN)
        except (OSError, TimeoutError, ValueError):  # a worker has gone, or is slow
            return
        blind = {worker: there for worker, there in answers.items() if there != here}
        if not blind or isinstance(here, str):
            return
    worker, there = min(blind.items())
    found = there if isinstance(there, str) else "another job's file is there"
    others = f" (and {counted(len(blind) - 1, 'other worker')})" if len(blind) > 1 else ""
    raise JobError(
        f"worker {worker}{others} does not see {claim}, which this process has written ({found}): what workers write "
        "beside it would be lost; choose an output in a folder that all workers share, or on an object store, and for "
        "a fit with `client` a shared temporary folder (TMPDIR)"
    )


def check_written(address: str, n_chunks: Mapping[str, int]) -> None:
    """Refuse arrays in a folder of this host that have fewer chunks here than workers have written.

    A worker that came while others were at work may have a disk of its own at the same path.

    Raises
    ------
    JobError
        With the array that lacks chunks.
    """
    if not is_of_this_host(store_of(address)[0]):
        return
    for name, expected in n_chunks.items():
        found = len(names_in(f"{address}/{name}/c"))
        if found < expected:
            missed = f"{found} of {counted(expected, 'chunk')} that workers have written"
            raise JobError(
                f"{address}/{name} has {missed}: one of them does not see this folder as this process does; "
                "run the job again on workers that share it"
            )
