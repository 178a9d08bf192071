"""How the workers of an embedded cluster start: forked from one process that has imported what each would import.

::

    this process -> the one that has imported -> worker 0
                                              -> worker 1, and whoever replaces one that has died

A fresh interpreter imports for a second or two before it can do anything, and each worker would be one. The process
that has imported has a single thread, so a fork leaves nothing half done.
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
"""The beginning of a warning by Dask after one second. It blames a network file system and suggests a setting that this
package does not expose. Usually the machine is just busy, and very little is written there."""

WORKER_START = """
import logging, signal
from distforest.jobs.worker_start import is_news
signal.signal(signal.SIGINT, signal.SIG_IGN)
logging.getLogger("distributed.worker").addFilter(is_news)
"""
"""What each worker of the embedded cluster does first. A terminal sends Ctrl-C to all its processes; this process stops
the workers, so they ignore it. What Dask logs there is read by the owner of the job."""

OF_STORES = ("OSError(", *(f"{kind.__name__}(" for kind in OSError.__subclasses__()))
"""How errors of a store or a disk begin when they are shown."""

WORKER_FILES_BYTES = 1 << 16
"""More than a worker writes when it starts."""

METHOD, ENVIRONMENT = "distributed.worker.multiprocessing-method", "distributed.nanny.pre-spawn-environ"
"""Dask's settings of how workers start, and in which environment."""

DASK_SETTINGS = {
    "distributed.scheduler.worker-saturation": 1.0,  # a kill then costs the task that ran, not one that waited
    "distributed.scheduler.allowed-failures": 10,
    "distributed.scheduler.worker-ttl": "30 s",
    f"{ENVIRONMENT}.NUMBA_NUM_THREADS": 1,
    # Filters that this process was given by -W or by this variable reach its workers as -W, which goes first.
    f"{ENVIRONMENT}.PYTHONWARNINGS": f"ignore:{BUSY}:UserWarning",
    "distributed.worker.preload": [WORKER_START],
    # By default each process samples itself 50 to 100 times a second. That takes a twentieth of a core for an idle
    # worker, and more for the scheduler, from the cores on which trees grow.
    "distributed.worker.profile.enabled": False,
    "distributed.admin.tick.interval": "500ms",
    "distributed.admin.system-monitor.interval": "2s",
    # A worker that died and was replaced is looked for when this has passed, and not replaced any more if it happens to
    # have died again. Nannies replace workers, so nobody need be looked for.
    "distributed.deploy.lost-worker-timeout": "10000 days",
}
"""Dask settings of the embedded cluster: many deaths of workers before a task is given up, one thread for each kernel,
no statistics that nobody reads, and workers that are always replaced."""

IMPORTED = "distforest.jobs.forked_from"
"""The module that the process imports from which workers are forked."""

REPLACED = "DISTFOREST_REPLACED"
"""The variable that tells that process which others it puts back: their own values, or null, as JSON."""


@contextmanager
def embedded() -> Iterator[None]:
    """Let an embedded cluster be started in the block with `DASK_SETTINGS`, by the quickest way that there is."""
    with dask.config.set(DASK_SETTINGS), dask.config.set({METHOD: start_method()}):
        yield


def start_method(imported: str = IMPORTED) -> str:
    """How workers of this process start: "forkserver" where they can be forked, "spawn" elsewhere.

    Other systems than Linux have libraries that do not survive a fork. The process that is forked listens at a socket
    among the temporary files, so a full disk, or a folder with a long name, leaves fresh interpreters.
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
    """Variables with which a process imports what this one would, until it calls `put_back`.

    It is started by ``python -c``, which would import from the current directory first: there a user's file may be
    called dask.py.
    """
    path = os.pathsep.join(os.path.abspath(folder) for folder in sys.path)  # "" is the current directory
    variables = {"PYTHONPATH": path, "PYTHONSAFEPATH": "1"}
    return variables | {REPLACED: json.dumps({name: os.environ.get(name) for name in variables})}


def put_back() -> None:
    """Give this process, and so all that are forked from it, the variables of the one that started it."""
    _set(json.loads(os.environ.pop(REPLACED, "{}")))


@contextmanager
def _started_in(variables: Mapping[str, str]) -> Iterator[None]:
    """Let a process start in the block with these variables, too: as Dask does it."""
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
    """Whether what Dask logs in a worker tells the owner of a job anything.

    A heartbeat that is on its way when the cluster is closed is lost, and Dask logs that with a traceback; a worker
    that has lost its scheduler ends in any case. A task that a store or a disk refuses is tried again, and the last
    refusal is what the job ends with; Dask logs each with a traceback.
    """
    text = str(record.msg)
    if text.startswith("Compute Failed") and isinstance(record.args, tuple):
        return not any(str(argument).startswith(OF_STORES) for argument in record.args)
    return "during heartbeat" not in text


def check_room(folder: Path | None) -> None:
    """Raise JobError if workers could not write their files into a folder; they die of it too soon to say why."""
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
    """Hold a signal back until the end of the block, in the main thread: what is half started cannot be closed.

    It is handed to its handler then, which raises. A second signal is handed on at once. Signals without a handler of
    Python's are not touched.
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
