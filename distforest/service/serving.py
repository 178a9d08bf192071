"""A service on this machine, with its scheduler in this process and its workers in processes under nannies."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from typing import TYPE_CHECKING

import dask
from distributed import LocalCluster, Nanny

from distforest.errors import JobError
from distforest.jobs.plan import check_worker_memory
from distforest.jobs.worker_start import check_room, embedded, quiet_start
from distforest.service import dask_teardown
from distforest.service.calls import first_cause

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

PRELOAD, PAGE = "distforest.service", "/distforest/jobs"

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Signals that end a service in good order, unless they are ignored already (``nohup``); a second ends it at once."""


def serve(
    job_root: str,
    ready: Callable[[str, str], None],
    *,
    workers: int | None = None,
    threads: int = 1,
    memory_limit: int | None = None,
    host: str = "127.0.0.1",
    port: int = 0,
    dashboard_port: int = 0,
    options: Sequence[str] = (),
) -> None:
    """Serve a job root until a signal arrives.

    Parameters
    ----------
    job_root
        Path or URL of the job root.
    ready
        Function that is called with the addresses of the scheduler and of its page once these and the workers run.
    workers, threads
        Number of processes, by default one per core and at most 4, and number of threads of each.
    memory_limit
        Memory of each process, in bytes; by default its share of the machine.
    host
        Address at which the scheduler listens.
    port, dashboard_port
        Ports of the scheduler and of its pages; 0: any free port.
    options
        Further options of the service, such as ``--json-logs``.

    Raises
    ------
    JobError
        A port is taken, workers could not write their files, the service could not start, or its scheduler has ended
        it and printed the reason to stderr.
    MemoryLimitError
        A worker cannot start with so little memory.
    """
    check_worker_memory(memory_limit)
    check_room(None)
    arguments = {
        "n_workers": workers or min(os.cpu_count() or 1, 4),
        "threads_per_worker": threads,
        "memory_limit": memory_limit if memory_limit is not None else "auto",
        "host": host,
        "scheduler_port": port,
        "dashboard_address": f"{host}:{dashboard_port}",
        "scheduler_kwargs": {"preload": [PRELOAD], "preload_argv": ["--job-root", job_root, *options]},
        "worker_class": Nanny,
        "silence_logs": logging.ERROR,
        "asynchronous": True,
    }
    try:
        asyncio.run(_serve(job_root, arguments, ready))
    except SystemExit:  # the service raises it to end a scheduler that must not run without the service
        raise JobError(f"the service of {job_root} could not start") from None


async def _serve(job_root: str, arguments: dict[str, object], ready: Callable[[str, str], None]) -> None:
    loop, end = asyncio.get_running_loop(), asyncio.Event()
    signals = [number for number in SIGNALS if signal.getsignal(number) != signal.SIG_IGN]

    def stop() -> None:
        for number in signals:
            loop.remove_signal_handler(number)
        end.set()

    host, port = arguments["host"], arguments["scheduler_port"]
    with embedded():
        try:
            with quiet_start():
                starting = await LocalCluster(**arguments)
        except RuntimeError as error:  # of Dask, around the cause
            raise JobError(
                f"no scheduler could be started at {host}, port {port or 'any'}: {first_cause(error)}; "
                "is another one running there? --port 0 takes any free port"
            ) from error
        async with starting as cluster:
            for number in signals:
                loop.add_signal_handler(number, stop)
            scheme = "https" if dask.config.get("distributed.scheduler.dashboard.tls.cert") else "http"
            ready(cluster.scheduler.address, f"{scheme}://{host}:{cluster.scheduler.http_server.port}{PAGE}")
            waiting = {asyncio.ensure_future(end.wait()), asyncio.ensure_future(cluster.scheduler.finished())}
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            for task in waiting:
                task.cancel()
            await dask_teardown(cluster.scheduler)  # before its workers end, which would count as lost
    if not end.is_set():
        raise JobError(f"the scheduler that served {job_root} has ended by itself")
