"""The lease of a job root: one service at a time, known by its heartbeat in ``service.json``.

A service that finds the name of another one in its place has been taken for dead, and ends itself.
"""

from __future__ import annotations

import asyncio
import json
import os
import platform
import time
import uuid
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from distforest.errors import ConflictError, JobError
from distforest.service.registry import LEASE, STALE, Registry

if TYPE_CHECKING:
    from collections.abc import Mapping

POLL = 0.5
"""Seconds between two looks at the heartbeat of a service that may be dead."""


BOOT = Path("/proc/sys/kernel/random/boot_id")


def _host() -> str:
    """The name of the host and, where the system tells it, of its present run."""
    boot = BOOT.read_text().strip() if BOOT.exists() else ""
    return f"{platform.node()}/{boot}"


def _born() -> float:
    return psutil.Process().create_time()


@dataclass
class Lease:
    """The hold of one service on a job root."""

    registry: Registry
    address: str
    id: str = field(default_factory=lambda: uuid.uuid4().hex)
    started: float = field(default_factory=time.time)
    heartbeat: float = 0.0

    def record(self) -> dict[str, Any]:
        """What ``service.json`` says."""
        return {
            "id": self.id,
            "address": self.address,
            "job_root": self.registry.root,
            "started": self.started,
            "heartbeat": self.heartbeat,
            "version": version("distforest"),
            "host": platform.node(),
            "boot": _host(),
            "pid": os.getpid(),
            "born": _born(),
        }

    async def take(self) -> None:
        """Take the lease, from a dead service at once, from a silent one when its heartbeat has not moved for long.

        Raises
        ------
        ConflictError
            Another service is alive and serves the root.
        """
        held, start = await asyncio.to_thread(self.registry.lease), time.monotonic()
        while held and not died(held) and time.monotonic() - start < STALE:
            await asyncio.sleep(POLL)
            found = await asyncio.to_thread(self.registry.lease)
            if found and found.get("heartbeat") != held.get("heartbeat"):
                raise ConflictError(
                    f"the job root {self.registry.root} is served already, by {found.get('address')} (process "
                    f"{found.get('pid')} on {found.get('host')}); stop that service, or give this one another root"
                )
            held = found
        await asyncio.to_thread(self._write)

    def beat(self) -> None:
        """Tell readers that this service lives.

        Raises
        ------
        JobError
            Another service has taken the lease.
        """
        held = self.registry.lease()
        if held and held.get("id") != self.id:
            raise JobError(f"the job root {self.registry.root} has been taken over by {held.get('address')}")
        self._write()

    def release(self) -> None:
        """Give the lease back, so that the next service need not wait; readers see jobs as interrupted."""
        held = self.registry.lease()
        if held and held.get("id") == self.id:
            self.registry.folder().discard(LEASE)

    def _write(self) -> None:
        self.heartbeat = time.time()
        self.registry.folder().write(LEASE, json.dumps(self.record()).encode())


def died(held: Mapping[str, Any]) -> bool:
    """Whether the service of a record is known to be dead: its process ran on this host and is gone."""
    if held.get("boot") != _host():
        return False
    try:
        process = psutil.Process(int(held["pid"]))
        return process.create_time() != held.get("born") or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True
    except (psutil.Error, KeyError, TypeError, ValueError):
        return False
