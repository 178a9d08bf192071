"""Faults for tests: a worker plugin that counts every growth and lets the victim choose the moment of its death.

The product knows nothing of this: the plugin wraps functions of the package inside the worker process.
"""

from __future__ import annotations

import os
import signal
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import distributed

from distforest.growth.pairs.pair_problem import PairProblem
from distforest.growth.problem import Problem
from distforest.jobs.on_dask import OnDask
from distforest.stores.folder import Folder

KINDS: tuple[Any, ...] = (Problem, PairProblem)
POINTS = ("before_growth", "after_growth", "after_commit")


def install(record: str, tree: int, point: str) -> None:
    """Count growth in the folder ``record``; die once, by SIGKILL, at ``point`` of the task that holds ``tree``."""
    write = Folder.write

    def counting(grow: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
        def counted(self: Any, trees: Any) -> Any:
            holds = tree in trees.tolist()
            if holds and point == "before_growth":
                die_once(record)
            for number in trees.tolist():
                (Path(record) / f"grown-{number}-{uuid.uuid4().hex}").touch()
            arrays = grow(self, trees)
            if holds and point == "after_growth":
                die_once(record)
            return arrays

        return counted

    def committed(self: Folder, name: str, content: bytes, **how: bool) -> None:
        write(self, name, content, **how)
        if point == "after_commit" and name.startswith("trees-"):
            first, last = (int(part) for part in name.removesuffix(".npz").split("-")[1:])
            if first <= tree <= last:
                die_once(record)

    for kind in KINDS:
        kind.grow = counting(kind.grow)
    Folder.write = committed  # type: ignore[method-assign]


def die_once(record: str) -> None:
    """Kill this process unless a process has died here before."""
    try:
        (Path(record) / "died").touch(exist_ok=False)
    except FileExistsError:
        return
    os.kill(os.getpid(), signal.SIGKILL)


class Faults(distributed.WorkerPlugin):
    """Installs the faults in every worker, also in one that replaces a dead one, and takes them out again."""

    def __init__(self, record: Path, tree: int = -1, point: str = "none") -> None:
        self.record, self.tree, self.point = str(record), tree, point

    def setup(self, worker: distributed.Worker) -> None:
        self.sound = [kind.grow for kind in KINDS], Folder.write
        install(self.record, self.tree, self.point)

    def teardown(self, worker: distributed.Worker) -> None:
        grow, Folder.write = self.sound  # type: ignore[method-assign]
        for kind, own in zip(KINDS, grow, strict=True):
            kind.grow = own


@contextmanager
def faulty(cluster: OnDask, faults: Faults) -> Iterator[None]:
    """The cluster's workers have the faults; afterwards all of them are alive and sound, for the next test."""
    n_workers = len(cluster.client.nthreads())
    cluster.client.register_plugin(faults, name="faults")
    try:
        yield
    finally:
        cluster.client.wait_for_workers(n_workers, timeout=60)
        cluster.client.unregister_worker_plugin("faults")


def growths(record: Path) -> Counter[int]:
    """How often each tree was grown."""
    return Counter(int(path.name.split("-")[1]) for path in record.glob("grown-*"))
