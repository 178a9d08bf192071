"""The start of an embedded cluster's workers, which are forked from one process that has imported what they need.

::

    this process -> the process with the imports -> worker 0
                                                 -> worker 1, and replacements of dead workers

A fresh interpreter imports for a second or two before it can do anything, and each worker would be one. The process
with the imports has a single thread, so a fork leaves nothing half done.
"""

from __future__ import annotations

import json
import logging
import multiprocessing
import os
import signal
import sys
import tempfile
import threading
import warnings
from contextlib import contextmanager, suppress
from multiprocessing import forkserver
from typing import TYPE_CHECKING

import dask
import distributed  # noqa: F401  (its default configuration)

from distforest.errors import JobError
from distforest.jobs.dask_private import keep_forkserver_preload

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path
    from types import FrameType

BUSY = "Creating scratch directories is taking a surprisingly long time"
"""Beginning of a warning by Dask after one second. It blames a network file system and suggests a setting that this
package does not expose. Usually the machine is just busy, and very little is written there."""

WORKER_START = """
import logging, signal
from distforest.jobs.worker_start import is_news
signal.signal(signal.SIGINT, signal.SIG_IGN)
logging.getLogger("distributed.worker").addFilter(is_news)
"""
"""First code of each worker of the embedded cluster. A terminal sends Ctrl-C to all its processes; this process stops
the workers, so they ignore it. The owner of the job reads what Dask logs there."""

OF_STORES = ("OSError(", *(f"{kind.__name__}(" for kind in OSError.__subclasses__()))
"""Beginnings of the texts of errors of a store or a disk."""

WORKER_FILES_BYTES = 1 << 16
"""More bytes than a worker writes when it starts."""

METHOD, ENVIRONMENT = "distributed.worker.multiprocessing-method", "distributed.nanny.pre-spawn-environ"
"""Dask's settings for the start method of workers and their environment."""

DASK_SETTINGS = {
    "distributed.scheduler.worker-saturation": 1.0,  # a kill then costs the running task, no waiting ones
    "distributed.scheduler.allowed-failures": 10,
    "distributed.scheduler.worker-ttl": "30 s",
    f"{ENVIRONMENT}.NUMBA_NUM_THREADS": 1,
    # Filters that this process has from -W or from this variable reach its workers as -W, which takes precedence.
    f"{ENVIRONMENT}.PYTHONWARNINGS": f"ignore:{BUSY}:UserWarning",
    "distributed.worker.preload": [WORKER_START],
    # By default each process samples itself 50 to 100 times a second. That takes a twentieth of a core for an idle
    # worker, and more for the scheduler, from the cores on which trees grow.
    "distributed.worker.profile.enabled": False,
    "distributed.admin.tick.interval": "500ms",
    "distributed.admin.system-monitor.interval": "2s",
    # A worker that died and was replaced is looked for after this time, and is not replaced any more if it happens to
    # have died again. Nannies replace workers, so this is never needed.
    "distributed.deploy.lost-worker-timeout": "10000 days",
}
"""Dask settings of the embedded cluster: many deaths of workers before a task is given up, one thread per kernel, no
unused statistics, and workers that are always replaced."""

IMPORTED = "distforest.jobs.forked_from"
"""Module that is imported by the process from which workers are forked."""

REPLACED = "DISTFOREST_REPLACED"
"""Variable with the values of others that this process restores, as JSON; null removes a variable."""


@contextmanager
def embedded() -> Iterator[None]:
    """Set `DASK_SETTINGS`, and the fastest start method, for an embedded cluster that is started in the block."""
    with dask.config.set(DASK_SETTINGS), dask.config.set({METHOD: start_method()}):
        yield


def start_method(imported: str = IMPORTED) -> str:
    """Return how workers of this process start: "forkserver" where they can be forked, "spawn" elsewhere.

    Systems other than Linux have libraries that do not survive a fork. The forking process listens at a socket among
    the temporary files, so a full disk, or a folder with a long name, requires fresh interpreters.
    """
    if sys.platform != "linux":
        return "spawn"
    keep_forkserver_preload()
    multiprocessing.set_forkserver_preload([imported])
    added = {name: str(value) for name, value in dask.config.get(ENVIRONMENT).items() if name not in os.environ}
    with suppress(OSError), _started_in(added | _import_path()):
        forkserver.ensure_running()
        return "forkserver"
    return "spawn"


def _import_path() -> dict[str, str]:
    """Return variables with which a process imports what this one would, until it calls `put_back`.

    The process is started by ``python -c``, which would first import from the current directory, where a user's file
    may be called dask.py.
    """
    path = os.pathsep.join(os.path.abspath(folder) for folder in sys.path)  # "" is the current directory
    variables = {"PYTHONPATH": path, "PYTHONSAFEPATH": "1"}
    return variables | {REPLACED: json.dumps({name: os.environ.get(name) for name in variables})}


def put_back() -> None:
    """Restore the variables of the process that started this one, for all workers that are forked from it."""
    _set(json.loads(os.environ.pop(REPLACED, "{}")))


@contextmanager
def _started_in(variables: Mapping[str, str]) -> Iterator[None]:
    """Let a process start in the block with these variables in addition, as Dask does."""
    before = {name: os.environ.get(name) for name in variables}
    _set(variables)
    try:
        yield
    finally:
        _set(before)


def _set(variables: Mapping[str, str | None]) -> None:
    """Set variables of this process; None deletes one."""
    for name, value in variables.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def is_news(record: logging.LogRecord) -> bool:
    """Return whether a message that Dask logs in a worker is of interest to the owner of a job.

    A heartbeat that is under way when the cluster is closed is lost, and Dask logs a traceback. A worker that has lost
    its scheduler ends in any case. A task that a store or a disk refuses is tried again, and the job ends with the last
    refusal, but Dask logs a traceback of each.
    """
    text = str(record.msg)
    if text.startswith("Compute Failed") and isinstance(record.args, tuple):
        return not any(str(argument).startswith(OF_STORES) for argument in record.args)
    return "during heartbeat" not in text


def check_room(folder: Path | None) -> None:
    """Raise JobError if workers could not write their files into a folder; they would die before they report it."""
    try:
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder or dask.config.get("temporary-directory")) as file:
            file.write(bytes(WORKER_FILES_BYTES))
            file.flush()
    except OSError as error:
        raise JobError(f"workers could not be started on this machine: {error}") from error


@contextmanager
def quiet_start() -> Iterator[None]:
    """Suppress the warning `BUSY` of a cluster that starts in the block."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", BUSY, UserWarning)
        yield


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Hold a signal back until the end of the block, in the main thread, as a half-started cluster cannot be closed.

    Its handler is called then, and raises. A second signal is passed to its handler at once. Signals without a Python
    handler are not affected.
    """
    held: list[int] = []
    before: dict[int, Callable[[int, FrameType | None], object]] = {}

    def hold(number: int, frame: FrameType | None) -> None:
        if held:
            before[number](number, frame)
        held.append(number)

    if threading.current_thread() is threading.main_thread():
        handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
        before.update({int(number): handler for number, handler in handlers.items() if callable(handler)})
    for number in before:
        signal.signal(number, hold)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if held:
            before[held[0]](held[0], None)
