"""The lease of a job root: it belongs to one service at a time, whose heartbeat is in ``service.json``.

A service overwrites only its own last heartbeat. So if two services want a root at the same moment, one is refused,
provided that the store compares (`distforest.service.slot`). A service that finds another service's id in the file was
taken for dead, and ends. A service whose heartbeats have failed for as long as others wait writes nothing of a job.
"""

from __future__ import annotations

import asyncio
import errno
import json
import math
import os
import platform
import threading
import time
import uuid
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import TYPE_CHECKING

from distforest.errors import ConflictError, JobError
from distforest.service.registry import LEASE, STALE, Registry, lease_in
from distforest.service.slot import Slot, TakenError, slot
from distforest.stores.claims import is_gone, machine, start_time_of

if TYPE_CHECKING:
    from distforest.service.messages import LeaseRecord

POLL = 0.5
"""Seconds between two reads of the heartbeat of a service that may be dead."""


CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""A monotonic clock; one that also counts while the machine sleeps, if the system has one."""


def _clock() -> float:
    return time.clock_gettime(CLOCK)


class NotHeldError(OSError):
    """Heartbeats have failed for so long that another service may have taken the lease, or the root is gone."""


@dataclass
class Lease:
    """The lease of one service on a job root."""

    registry: Registry
    address: str
    id: str = field(default_factory=lambda: uuid.uuid4().hex)
    started: float = field(default_factory=time.time)
    heartbeat: float = 0.0
    _slot: Slot = field(init=False)
    _sure: float = -math.inf
    _is_released: bool = False
    _using: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def __post_init__(self) -> None:
        self._slot = slot(self.registry.folder(), LEASE)

    @property
    def excludes(self) -> bool:
        """Whether no other service can have taken the root at the same moment; defined once the lease is taken."""
        return self._slot.compares

    def record(self) -> LeaseRecord:
        """Return the content of ``service.json``."""
        return {
            "id": self.id,
            "address": self.address,
            "job_root": self.registry.root,
            "started": self.started,
            "heartbeat": self.heartbeat,
            "excludes": self.excludes,
            "version": version("distforest"),
            "host": platform.node(),
            "boot": machine(),
            "pid": os.getpid(),
            "born": start_time_of(os.getpid()) or 0.0,
        }

    async def take(self) -> None:
        """Take the lease: from a dead service at once, from a silent one after `STALE` seconds without a heartbeat.

        Raises
        ------
        ConflictError
            Another service is alive and serves the root.
        """
        held, start = await asyncio.to_thread(self._holder), _clock()
        while True:
            if not held or died(held) or _clock() - start >= STALE:
                with suppress(TakenError):  # another service was faster
                    await asyncio.to_thread(self._write)
                    return
            await asyncio.sleep(POLL)
            found = await asyncio.to_thread(self._holder)
            if held and found and found["heartbeat"] != held["heartbeat"]:
                raise ConflictError(
                    f"the job root {self.registry.root} is served already, by {found.get('address')} (process "
                    f"{found.get('pid')} on {found.get('host')}); stop that service, or give this one another root"
                )
            held, start = found, start if held else _clock()

    def beat(self) -> None:
        """Write a heartbeat, unless the lease was released; an ending service does not wait for its threads.

        Raises
        ------
        JobError
            Another service has taken the lease.
        OSError
            The store does not answer.
        """
        with self._using:
            if self._is_released:
                return
            try:
                self._write()
            except TakenError:
                held = self._holder()
                if held and held.get("id") != self.id:
                    what = f"the job root {self.registry.root} has been taken over by {held.get('address')}"
                    raise JobError(what) from None
                self._write()  # the file was removed, or a write of this service succeeded without an answer

    def check_held(self) -> None:
        """Raise NotHeldError if no heartbeat was written for as long as others wait before they take the lease.

        The error is raised at once if the job root is gone: a write would create a new one, without the jobs.
        """
        try:
            self._slot.check_place()
        except FileNotFoundError as error:
            what = f"{error.strerror} Until the job root is back, the service writes nothing of a job"
            raise NotHeldError(errno.ENOENT, what) from error
        if (silent := _clock() - self._sure) >= STALE:
            what = f"no heartbeat of the service has reached {self.registry.root} for {silent:.0f} s"
            raise NotHeldError(errno.EAGAIN, f"{what}; until one does it writes nothing of a job")

    def release(self) -> None:
        """Release the lease, so that the next service need not wait; readers then see jobs as interrupted."""
        with self._using:
            self._is_released = True
            held = self._holder()
            if held and held.get("id") == self.id:
                with suppress(TakenError):
                    self._slot.clear()

    def _holder(self) -> LeaseRecord | None:
        """Return the record of the last holder of the lease."""
        return lease_in(self._slot.read() or b"")

    def _write(self) -> None:
        self.heartbeat, start = time.time(), _clock()
        self._slot.put(json.dumps(self.record()).encode())
        self._sure = start


def died(held: LeaseRecord) -> bool:
    """Return whether the service of a record is certainly dead: its process ran on this host and is gone."""
    pid = held.get("pid")
    return held.get("boot") == machine() and isinstance(pid, int) and is_gone(pid, held.get("born"))
