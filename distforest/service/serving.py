"""A service on this machine: its scheduler in this process, its workers in processes under nannies."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from dataclasses import dataclass
from typing import TYPE_CHECKING

import dask
from distributed import LocalCluster, Nanny

from distforest.errors import JobError
from distforest.jobs.plan import check_worker_memory
from distforest.jobs.worker_start import check_room, embedded, quiet_start
from distforest.service import dask_teardown
from distforest.service.calls import first_cause

if TYPE_CHECKING:
    from collections.abc import Callable

    from distributed import Scheduler

PRELOAD, PAGE = "distforest.service", "/distforest/jobs"

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Signals that end a service in good order, unless its parent has them ignored (``nohup``); a second one ends it at
once."""


@dataclass(frozen=True)
class Machine:
    """The share of this machine that a service uses; None: chosen by the size of the machine.

    Attributes
    ----------
    workers, threads
        Processes, and threads of each.
    memory_limit
        Memory of each process, in bytes.
    host
        Address at which the scheduler listens.
    port, dashboard_port
        Ports of the scheduler and of its pages; 0: any free port.
    options
        Further options of the service, such as ``--json-logs``.
    """

    workers: int | None = None
    threads: int = 1
    memory_limit: int | None = None
    host: str = "127.0.0.1"
    port: int = 0
    dashboard_port: int = 0
    options: tuple[str, ...] = ()


@dataclass(frozen=True)
class ServiceAddresses:
    """The addresses of a service: of its scheduler and of its page."""

    address: str
    page: str


def serve(job_root: str, machine: Machine, ready: Callable[[ServiceAddresses], None]) -> None:
    """Serve a job root until a signal comes.

    Parameters
    ----------
    job_root
        Its path or URL.
    machine
        The share of this machine that it uses.
    ready
        Called with its addresses once it and its workers run.

    Raises
    ------
    JobError
        A port is taken, or workers could not write their files; or the service could not start, or its scheduler has
        ended it and says why on stderr.
    MemoryLimitError
        A worker cannot start with so little memory.
    """
    check_worker_memory(machine.memory_limit)
    check_room(None)
    try:
        asyncio.run(_serve(job_root, machine, ready))
    except SystemExit:  # the service raises it to end a scheduler that must not run without it
        raise JobError(f"the service of {job_root} could not start") from None


async def _serve(job_root: str, machine: Machine, ready: Callable[[ServiceAddresses], None]) -> None:
    loop, end = asyncio.get_running_loop(), asyncio.Event()
    signals = [number for number in SIGNALS if signal.getsignal(number) != signal.SIG_IGN]

    def stop() -> None:
        for number in signals:
            loop.remove_signal_handler(number)
        end.set()

    with embedded():
        async with await _start_cluster(job_root, machine) as cluster:
            for number in signals:
                loop.add_signal_handler(number, stop)
            ready(ServiceAddresses(cluster.scheduler.address, _page(cluster.scheduler, machine.host)))
            waiting = {asyncio.ensure_future(end.wait()), asyncio.ensure_future(cluster.scheduler.finished())}
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            for task in waiting:
                task.cancel()
            await dask_teardown(cluster.scheduler)  # before its workers end, which its jobs would take for lost
    if not end.is_set():
        raise JobError(f"the scheduler that served {job_root} has ended itself")


async def _start_cluster(job_root: str, machine: Machine) -> LocalCluster:
    try:
        with quiet_start():
            return await LocalCluster(**_cluster_arguments(job_root, machine))
    except RuntimeError as error:  # of Dask, around the cause
        raise JobError(
            f"no scheduler could be started at {machine.host}, port {machine.port or 'any'}: {first_cause(error)}; "
            "is another one running there? --port 0 takes any free port"
        ) from error


def _cluster_arguments(job_root: str, machine: Machine) -> dict[str, object]:
    """The arguments of the cluster."""
    options = ["--job-root", job_root, *machine.options]
    return {
        "n_workers": machine.workers or min(os.cpu_count() or 1, 4),
        "threads_per_worker": machine.threads,
        "memory_limit": machine.memory_limit if machine.memory_limit is not None else "auto",
        "host": machine.host,
        "scheduler_port": machine.port,
        "dashboard_address": f"{machine.host}:{machine.dashboard_port}",
        "scheduler_kwargs": {"preload": [PRELOAD], "preload_argv": options},
        "worker_class": Nanny,
        "silence_logs": logging.ERROR,
        "asynchronous": True,
    }


def _page(scheduler: Scheduler, host: str) -> str:
    scheme = "https" if dask.config.get("distributed.scheduler.dashboard.tls.cert") else "http"
    return f"{scheme}://{host}:{scheduler.http_server.port}{PAGE}"
