"""The job service, which runs in a Dask scheduler: ``dask scheduler --preload distforest.service --job-root URL``.

Importing this module adds the service's page to the routes of a scheduler that is about to start.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import sys
import threading
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click
import dask

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from distributed import Scheduler

    Setup = Callable[..., Awaitable[None]]

ROUTES, PAGE_MODULE = "distributed.scheduler.http.routes", "distforest.service.page"

SERVICE_SETTINGS = {
    "distributed.scheduler.worker-saturation": (1.1, 1.0),  # a kill costs the running task, no waiting ones
    "distributed.scheduler.allowed-failures": (3, 5),  # a kill counts against all tasks that a worker was handed
}
"""Dask settings of a scheduler that serves jobs: Dask's default, and the value that replaces it."""

WORKER_TTL = (300.0, 30.0)
"""The same for ``distributed.scheduler.worker-ttl``, in seconds, which a scheduler reads before its preloads."""


def _prepare() -> None:
    """Change the Dask configuration; a scheduler reads it after its preloads are imported."""
    import distributed  # noqa: F401, PLC0415  (loads the default configuration)

    routes = dask.config.get(ROUTES)
    if PAGE_MODULE not in routes:
        dask.config.set({ROUTES: [*routes, PAGE_MODULE]})
    dask.config.set(
        {name: new for name, (default, new) in SERVICE_SETTINGS.items() if dask.config.get(name) == default}
    )


def _option(name: str, **more: Any) -> Callable[[Setup], Setup]:
    variable = f"DISTFOREST_{name.removeprefix('--').replace('-', '_').upper()}"
    return click.option(name, envvar=variable, show_envvar=True, show_default=True, **more)


@click.command()
@_option("--job-root", required=True, metavar="URL", help="Folder of all jobs: a path or URL.")
@_option("--max-running", type=click.IntRange(1), default=4, help="Number of jobs that run at once.")
@_option("--queue", multiple=True, metavar="NAME:max-running=N", help="A queue, and how many of its jobs run at once.")
@_option("--cancel", type=click.Choice(("owner", "anyone")), default="anyone", help="Who may cancel, resume or remove.")
@_option("--operator", multiple=True, metavar="NAME", help="Who may change all jobs, besides their owners.")
@_option("--max-jobs", type=click.IntRange(1), default=1000, help="Largest number of unfinished jobs.")
@_option("--max-trees", type=click.IntRange(1), default=100_000, help="Largest number of trees of a job.")
@_option("--max-spec-bytes", type=click.IntRange(1), default=65_536, help="Largest size of a spec.")
@_option("--allow-prefix", multiple=True, metavar="URL", help="Where jobs may read and write; all stores unless given.")
@_option(
    "--allow-callback",
    multiple=True,
    metavar="MODULE:FUNCTION",
    help="Functions that jobs may call; module:* for all of a module.",
)
@_option("--no-workers-timeout", type=click.FloatRange(0), metavar="SECONDS", help="How long a job waits for a worker.")
@_option("--json-logs", is_flag=True, help="Log one JSON object per line: time, level, logger, job, message.")
async def dask_setup(scheduler: Scheduler, **options: Any) -> None:
    """Start the service in a scheduler; if the service cannot start, the scheduler ends."""
    from distforest.jobs.dask_private import give_up_silent_workers  # noqa: PLC0415  (imports distributed)

    _close_at_hangup(scheduler)
    if options["json_logs"]:
        log_as_json()
    default, new = WORKER_TTL
    if seconds := new if scheduler.worker_ttl == default else scheduler.worker_ttl:
        give_up_silent_workers(scheduler, seconds)
    try:
        await _serve(scheduler, **options)
    except Exception as error:  # noqa: BLE001  (Dask would log the error and continue without the service)
        print(f"error: the distforest service could not start: {error}", file=sys.stderr, flush=True)
        await scheduler.close(reason="the distforest service could not start")
        raise SystemExit(1) from None


def _close_at_hangup(scheduler: Scheduler) -> None:
    """Close a scheduler when its terminal closes, as SIGTERM does, unless SIGHUP already has a handler.

    Otherwise a hangup would kill the service before it can release its lease.
    """
    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGHUP) != signal.SIG_DFL:
        return
    loop = asyncio.get_running_loop()

    def close() -> None:
        loop.remove_signal_handler(signal.SIGHUP)
        closing.append(loop.create_task(scheduler.close(reason="signal-SIGHUP")))

    closing: list[asyncio.Task[None]] = []
    loop.add_signal_handler(signal.SIGHUP, close)


async def _serve(scheduler: Scheduler, **options: Any) -> None:
    from distforest.service.jobs import EXTENSION, JobService, ServiceLimits  # noqa: PLC0415  (slow)
    from distforest.service.policy import Policy  # noqa: PLC0415
    from distforest.service.registry import Registry  # noqa: PLC0415

    job_root = options["job_root"]
    root = job_root.rstrip("/") if "://" in job_root else os.path.abspath(job_root)
    policy = Policy(
        prefixes=options["allow_prefix"],
        callbacks=options["allow_callback"],
        max_spec_bytes=options["max_spec_bytes"],
        max_trees=options["max_trees"],
        max_jobs=options["max_jobs"],
        reserved=(root,),
    )
    limits = ServiceLimits(
        max_running=options["max_running"],
        no_workers_timeout=options["no_workers_timeout"],
        queues=options["queue"],
        owners_only=options["cancel"] == "owner",
        operators=options["operator"],
    )
    service = JobService(scheduler, Registry(root), policy, limits)
    scheduler.extensions[EXTENSION] = service
    await service.start()


class JSONFormatter(logging.Formatter):
    r"""A formatter of records as JSON objects: time, level, logger, message and, if there is one, the job's id.

    Examples
    --------
    >>> record = logging.makeLogRecord({"name": "distforest", "levelname": "INFO", "msg": "a\nb", "job": "nightly"})
    >>> record.created = 0.0
    >>> print(JSONFormatter().format(record))
    {"time": "1970-01-01T00:00:00+00:00", "level": "INFO", "logger": "distforest", "job": "nightly", "message": "a\nb"}
    """

    def format(self, record: logging.LogRecord) -> str:
        """Format a record as one line; a traceback follows the message."""
        message = super().format(record)
        job = {"job": record.job} if hasattr(record, "job") else {}
        time = datetime.fromtimestamp(record.created, UTC).isoformat()
        return json.dumps({"time": time, "level": record.levelname, "logger": record.name, **job, "message": message})


def log_as_json() -> None:
    """Set JSON as the format of all handlers, and let this package's logger report the events of jobs."""
    own = logging.getLogger("distforest")
    own.setLevel(logging.INFO)
    if not own.handlers:
        own.addHandler(logging.StreamHandler())
        own.propagate = False
    known = [logging.getLogger(), *map(logging.getLogger, logging.root.manager.loggerDict)]
    for handler in {handler for logger in known for handler in logger.handlers}:
        handler.setFormatter(JSONFormatter())


async def dask_teardown(scheduler: Scheduler) -> None:
    """Stop the service; the next service resumes its running jobs."""
    service = scheduler.extensions.get("distforest")
    if service is not None:
        await service.close()


_prepare()
