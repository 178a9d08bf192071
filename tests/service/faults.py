"""Faults for a running service: a preload of schedulers and workers that lets the victim choose the moment.

The product knows nothing of this: the preload wraps functions of the package in its process. What shall happen is armed
by a test at any time, as a file in a folder that all processes look into; it strikes as often as it is told to, in
whatever process comes to its point first.
"""

from __future__ import annotations

import errno
import functools
import json
import os
import shutil
import signal
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from distributed import Scheduler, get_worker

from distforest.errors import CancelledJobError
from distforest.growth.problem import Problem
from distforest.jobs import merge, score, stop, train
from distforest.service import jobs, lease, running
from distforest.stores import building
from distforest.stores.folder import Folder
from tests.jobs.faults import growths
from tests.service.functions import FOLDER

STALE, BEAT = "DISTFOREST_TEST_STALE", "DISTFOREST_TEST_BEAT"
"""Variables for a service that is sooner or later taken for dead, and beats more often."""

HOLD_SECONDS = 240.0
"""After which a process that is held gives up."""


@dataclass(frozen=True)
class Fault:
    """What happens to a process that comes to a point with a job's work in hand.

    Attributes
    ----------
    point
        Before or after which function: see `install` and `install_in_tasks`.
    deed
        What happens there: a key of `DEEDS`.
    job
        Whose work it is; empty for all.
    tree
        Which tree must be among those at hand; -1 for any.
    times
        How often it happens at most, in all processes together.
    every
        In one process at each so many-th time that it comes there.
    """

    point: str
    deed: str
    job: str = ""
    tree: int = -1
    times: int = 1
    every: int = 1

    @property
    def name(self) -> str:
        return "-".join(map(str, asdict(self).values()))


@dataclass(frozen=True)
class Faults:
    """The folder of faults, as a test sees it."""

    folder: Path

    def arm(self, fault: Fault) -> Fault:
        """Let a fault happen from now on."""
        part = self.folder / f"{fault.name}.part"
        part.write_text(json.dumps(asdict(fault)))
        part.rename(self.folder / f"{fault.name}.armed")
        return fault

    def disarm(self, fault: Fault) -> None:
        """Let it happen no more."""
        (self.folder / f"{fault.name}.armed").unlink()

    def struck(self, fault: Fault) -> list[int]:
        """The process ids of those that it has happened to."""
        return [int(text) for path in self.folder.glob(f"{fault.name}.struck-*") if (text := path.read_text())]

    def release(self) -> None:
        """Let those go on that are held, and all that come."""
        (self.folder / "released").touch()

    def forget(self) -> None:
        """Nothing is armed, nothing has happened, and nobody is held, even if a test failed before it released them."""
        for path in self.folder.glob("*.armed"):
            path.unlink()
        (self.folder / "forgotten").write_text(str(time.monotonic_ns()))
        used = (*self.folder.glob("*.struck-*"), *self.folder.glob("asked-*"), self.folder / "released")
        for path in used:
            path.unlink(missing_ok=True)

    def begun(self, job: str) -> Counter[int]:
        """How often each tree of a job was begun."""
        return growths(self.folder / "grown" / job)

    def ended(self, job: str) -> Counter[int]:
        """How often each tree of a job was grown to its last level."""
        return growths(self.folder / "whole" / job)

    def stopped(self, job: str) -> Counter[int]:
        """How often each tree of a job has stopped growing as it was told to."""
        return growths(self.folder / "stopped" / job)

    def answered(self, job: str) -> Counter[int]:
        """How often each task of a scoring job was worked out, by its first row."""
        return growths(self.folder / "answered" / job)

    def asked(self) -> Counter[tuple[int, int]]:
        """How often `apart` was asked for each pair."""
        return Counter(pair for path in self.folder.glob("asked-*.npy") for pair in map(tuple, np.load(path).tolist()))


# --- in the process ---------------------------------------------------------------------------------------------------


def dask_setup(server: Any) -> None:
    """Install the faults in a scheduler or a worker."""
    folder = Path(os.environ[FOLDER])
    if isinstance(server, Scheduler):
        (folder / "scheduler.pid").write_text(str(os.getpid()))
        for variable, module, name in ((STALE, lease, "STALE"), (BEAT, jobs, "LEASE_BEAT")):
            setattr(module, name, float(os.environ.get(variable, getattr(module, name))))
    site = Site(folder)
    install(site)
    if not isinstance(server, Scheduler):  # it sends tasks by the names of their functions, which are not wrapped there
        install_in_tasks(site)


class Site:
    """Where this process is, and what happens there."""

    def __init__(self, folder: Path) -> None:
        self.folder, self._hand, self._times = folder, threading.local(), Counter[str]()

    def take(self, address: str, first: int = 0, last: int = -1) -> None:
        """This thread takes work of a job in hand: that of the folder ``address``, the trees first to last of it."""
        self._hand.held = (f"{address}/", first, last)

    @property
    def hand(self) -> tuple[str, int, int]:
        return getattr(self._hand, "held", ("/", 0, -1))

    def pass_by(self, point: str, address: str | None = None) -> None:
        """Suffer what is armed for this point."""
        held, first, last = self.hand
        for path in self.folder.glob("*.armed"):
            fault = Fault(**json.loads(path.read_text()))
            if fault.point != point or (fault.job and f"/{fault.job}/" not in (f"{address}/" if address else held)):
                continue
            if (fault.tree < 0 or first <= fault.tree <= last) and self._is_due(fault):
                DEEDS[fault.deed](self.folder)

    def _is_due(self, fault: Fault) -> bool:
        self._times[fault.name] += 1
        return self._times[fault.name] % fault.every == 0 and any(self._claims(fault, k) for k in range(fault.times))

    def _claims(self, fault: Fault, k: int) -> bool:
        try:
            with (self.folder / f"{fault.name}.struck-{k}").open("x") as file:
                file.write(str(os.getpid()))
        except FileExistsError:
            return False
        return True

    def note(self, kind: str, trees: np.ndarray) -> None:
        """Write down that this process has grown trees of the job in its hands."""
        job = self.hand[0].split("/work/")[0].rsplit("/", 1)[-1]
        record = self.folder / kind / job
        record.mkdir(parents=True, exist_ok=True)
        for tree in trees.tolist():
            (record / f"grown-{tree}-{uuid.uuid4().hex}").touch()


def install(site: Site) -> None:
    """Wrap what writes, in any process: its begin or end is a point. Answers come in many small tasks."""
    score.ANSWERS_PER_TASK = 1 << 12

    def writing(write: Callable[..., Any], folder: Folder, name: str, content: bytes, **how: bool) -> None:
        site.pass_by("write", folder.address)
        if name.startswith("trees-"):
            site.pass_by("before_commit")
        write(folder, name, content, **how)
        if name.startswith("trees-"):
            site.pass_by("after_commit")

    def renaming(replace: Callable[..., Any], path: Path, target: Any) -> Any:
        if Path(target).name.startswith("trees-"):
            site.pass_by("before_rename")
        return replace(path, target)

    def syncing(sync: Callable[..., Any], file: int) -> None:
        site.pass_by("sync", os.readlink(f"/proc/self/fd/{file}"))
        sync(file)

    def sealing(seal: Callable[..., Any], address: str, *given: Any) -> Any:
        site.pass_by("before_seal", address)
        return seal(address, *given)

    def publishing(publish: Callable[..., Any], built: str, *given: Any) -> None:
        publish(built, *given)
        site.pass_by("after_publishing", built)

    around(Folder, "write", writing)
    around(Path, "replace", renaming)
    around(os, "fsync", syncing)
    around(merge, "seal", sealing)
    around(building, "publish", publishing)


def install_in_tasks(site: Site) -> None:
    """Wrap what tasks call, in a worker; trees look for the sign to stop at every level."""
    stop.SIGN_SECONDS = 0.0

    def growing(grow: Callable[..., Any], task: Any) -> Any:
        site.take(task.folder, task.first, task.last)
        site.pass_by("before_reading")
        return grow(task)

    def trees(grow: Callable[..., Any], problem: Any, numbers: np.ndarray) -> Any:
        site.note("grown", numbers)
        try:
            arrays = grow(problem, numbers)
        except CancelledJobError:
            site.note("stopped", numbers)
            raise
        site.note("whole", numbers)
        return arrays

    def level(look: Callable[..., Any], own: Any, found: Any) -> Any:
        if found.depth == 1:
            site.pass_by("mid_tree")
        return look(own, found)

    def staging(stage: Callable[..., Any], task: Any) -> Any:
        site.pass_by("before_staging", task.folder)
        return stage(task)

    def merging(rows: Callable[..., Any], task: Any) -> Any:
        site.take(task.shards)
        return rows(task)

    def chunks(write: Callable[..., Any], *given: Any) -> Any:
        digests = write(*given)
        site.pass_by("mid_merge")
        return digests

    def scoring(answer: Callable[..., Any], task: Any) -> Any:
        site.take(task.target, task.first, task.last - 1)
        site.pass_by("mid_score")
        site.note("answered", np.array([task.first]))
        return answer(task)

    def leads(lead: Callable[..., Any], task: Any) -> Any:
        site.take(task.folder)
        return lead(task)

    def tells(tell: Callable[..., Any], own: Any, progress: Any) -> None:
        site.pass_by("leading")
        tell(own, progress)

    around(train, "grow_shard", growing)
    around(Problem, "grow", trees)
    around(stop.Stop, "at", level)
    around(running, "stage_there", staging)
    around(merge, "merge_rows", merging)
    around(merge, "write_rows", chunks)
    around(score, "answer_rows", scoring)
    around(running, "lead", leads)
    around(running._ProgressReport, "__call__", tells)


def around(holder: Any, name: str, wrapper: Callable[..., Any]) -> None:
    """Put ``wrapper``, which is handed the function first, in a function's place and under its name."""
    function = getattr(holder, name)

    @functools.wraps(function)  # so that it is pickled by its name, as the function was
    def wrapped(*given: Any, **named: Any) -> Any:
        return wrapper(function, *given, **named)

    setattr(holder, name, wrapped)


def kill(_folder: Path) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def freeze(_folder: Path) -> None:
    """Stop this thread at once, and the others with it: a signal to the process may reach another thread first."""
    signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)


def kill_scheduler(folder: Path) -> None:
    os.kill(int((folder / "scheduler.pid").read_text()), signal.SIGKILL)


def hold(folder: Path) -> None:
    """Wait for `Faults.release`, or for the end of the test."""
    end, test = time.monotonic() + HOLD_SECONDS, _forgotten(folder)
    while not (folder / "released").exists() and _forgotten(folder) == test:
        if time.monotonic() > end:
            raise TimeoutError("a test has not released what it held")
        time.sleep(0.01)


def _forgotten(folder: Path) -> str:
    """What `Faults.forget` wrote last."""
    path = folder / "forgotten"
    return path.read_text() if path.exists() else ""


def hog(folder: Path) -> None:
    """Take all the memory that this worker may use, and wait for what comes."""
    held, limit = [], get_worker().memory_manager.memory_limit
    while psutil.Process().memory_info().rss < limit:
        held.append(b"x" * (1 << 24))
    hold(folder)


def fail(number: int) -> None:
    raise OSError(number, os.strerror(number))


DEEDS: dict[str, Callable[[Path], None]] = {
    "kill": kill,
    "freeze": freeze,
    "kill_scheduler": kill_scheduler,
    "hold": hold,
    "hog": hog,
    "EIO": lambda _: fail(errno.EIO),
    "ENOSPC": lambda _: fail(errno.ENOSPC),
}


def apart(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Distances of numbered objects; each call leaves a file with its pairs where faults are armed."""
    pairs = np.column_stack([left, right])
    if folder := os.environ.get(FOLDER):
        np.save(Path(folder) / f"asked-{uuid.uuid4().hex}.npy", pairs)
    places = np.modf(np.sqrt(pairs + 1.0) * 7.0)[0]
    return np.asarray(np.abs(places[:, 0] - places[:, 1]))


def prepared(folder: Path) -> Faults:
    """A new folder for faults."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return Faults(folder)
