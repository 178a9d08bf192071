"""The job root: a folder for each job on any fsspec store, from which a reader learns all without a scheduler.

::

    root/
      service.json        who serves this root, and its last heartbeat
      ID/spec.json        what was asked
      ID/state.json       what has become of it, replaced as a whole
      ID/events.jsonl     what happened, a line each
      ID/stop             there: trees of this job stop and commit nothing
      ID/work/            shards, staged inputs, a forest that is being merged; removed at the end
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from distforest.errors import InputError, NotFoundError
from distforest.jobs.folder import Folder
from distforest.jobs.reader import shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    Json = dict[str, Any]

FORMAT = 1
"""Of state.json."""

QUEUED, WAITING, RUNNING, MERGING = "QUEUED", "WAITING_FOR_WORKERS", "RUNNING", "MERGING"
SUCCEEDED, FAILED, CANCELLING, CANCELLED, INTERRUPTED = "SUCCEEDED", "FAILED", "CANCELLING", "CANCELLED", "INTERRUPTED"
STATES = (QUEUED, WAITING, RUNNING, MERGING, SUCCEEDED, FAILED, CANCELLING, CANCELLED, INTERRUPTED)
ENDS = (SUCCEEDED, FAILED, CANCELLED)
"""States that a job leaves only by being resumed."""

SPEC, STATE, EVENTS, LEASE, WORK = "spec.json", "state.json", "events.jsonl", "service.json", "work"

STALE = 10.0
"""Seconds without a heartbeat after which a reader takes a service to be gone."""

ID = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")


def hold_id(name: str) -> str:
    """A job's id; raises InputError for what could be no folder's name on every store.

    Examples
    --------
    >>> hold_id("smerf-20261122-4f3a")
    'smerf-20261122-4f3a'
    """
    if not isinstance(name, str) or not ID.fullmatch(name):
        asked = "up to 64 of a-z, 0-9, '_' and '-' were asked for, beginning with a letter or digit"
        raise InputError(f"id: {asked}, found {shown(name)}")
    return name


@dataclass(frozen=True)
class Registry:
    """The job root by path or URL.

    Examples
    --------
    >>> registry = Registry("memory://registry-example")
    >>> registry.create("a", "{}", {"id": "a", "state": "QUEUED", "submitted": 1.0})
    >>> [(job["id"], job["state"], job["was"]) for job in registry.listed(now=100.0)]
    [('a', 'INTERRUPTED', 'QUEUED')]
    """

    root: str

    def folder(self, job: str = "") -> Folder:
        """The folder of a job, or of all."""
        return Folder(self.root).within(hold_id(job)) if job else Folder(self.root)

    def ids(self) -> list[str]:
        """Of all that may be jobs' folders."""
        return [name for name in self.folder().names() if ID.fullmatch(name)]

    def create(self, job: str, spec: str, state: Json) -> None:
        """Write a new job; when this returns it is durable."""
        self.folder(job).write(SPEC, spec.encode())
        self.write(job, state)

    def spec(self, job: str) -> str | None:
        """The spec of a job; None where there is none."""
        found = self._read(self.folder(job), SPEC)
        return None if found is None else found.decode()

    def write(self, job: str, state: Json) -> None:
        """Replace the state of a job."""
        self.folder(job).write(STATE, _line(state))

    def state(self, job: str) -> Json | None:
        """The state of a job as its service wrote it; None where there is none that can be read."""
        found = self._json(self.folder(job), STATE)
        return found if found and _is_state(found) else None

    def note(self, job: str, events: Sequence[Json]) -> None:
        """Append to a job's events."""
        self.folder(job).append(EVENTS, b"".join(map(_line, events)))

    def events(self, job: str, after: int = 0, limit: int | None = None) -> list[Json]:
        """A job's events with greater numbers than ``after``, the first ``limit`` of them.

        A line that a crash has cut off is left out, and so is one that was written twice. Raises NotFoundError if there
        is no such job.
        """
        folder = self._there(job)
        found = {event.get("n", 0): event for event in _parsed((self._read(folder, EVENTS) or b"").splitlines())}
        return [event for n, event in found.items() if n > after][:limit]

    def lease(self) -> Json | None:
        """Who serves the root, or did last."""
        return self._json(self.folder(), LEASE)

    def job(self, job: str, now: float) -> Json:
        """What has become of a job, as can be told without its service.

        Raises
        ------
        NotFoundError
            There is no such job.
        """
        self._there(job)
        return self._told(job, self.lease(), now)

    def listed(self, now: float) -> list[Json]:
        """All jobs, newest first, as can be told without their service."""
        lease = self.lease()
        jobs = [self._told(job, lease, now) for job in self.ids() if self._is_there(job)]
        return sorted(jobs, key=lambda job: (job.get("submitted") or 0.0, job["id"]), reverse=True)

    def remove(self, job: str) -> None:
        """Remove a job's folder; what it made elsewhere stays."""
        self.folder(job).remove()

    def _there(self, job: str) -> Folder:
        if not self._is_there(job):
            raise NotFoundError(f"there is no job {job} in {self.root}")
        return self.folder(job)

    def _is_there(self, job: str) -> bool:
        folder = self.folder(job)
        return folder.exists(STATE) or folder.exists(SPEC)

    def _told(self, job: str, lease: Json | None, now: float) -> Json:
        state = self.state(job) or {"format": FORMAT, "id": job, "state": QUEUED}
        if state["state"] in ENDS or (lease and now - float(lease.get("heartbeat", 0.0)) <= STALE):
            return state
        was = state.get("was") if state["state"] == INTERRUPTED else state["state"]
        return {**state, "state": INTERRUPTED, "was": was}

    def _json(self, folder: Folder, name: str) -> Json | None:
        found = list(_parsed([self._read(folder, name) or b""]))
        return found[0] if found else None

    @staticmethod
    def _read(folder: Folder, name: str) -> bytes | None:
        try:
            return folder.read(name)
        except (FileNotFoundError, NotADirectoryError):
            return None


def _is_state(found: Json) -> bool:
    """Whether an object can be a job's state: a store is not only written by services."""
    kinds = (("submitted", (int, float)), ("heartbeat", (int, float)), ("revision", int), ("attempt", int))
    return found.get("state") in STATES and all(isinstance(found.get(name, 0), kind) for name, kind in kinds)


def _line(value: Json) -> bytes:
    return json.dumps(value, allow_nan=False, separators=(",", ":")).encode() + b"\n"


def _parsed(lines: Iterable[bytes]) -> Iterable[Json]:
    """The objects of some lines, without those that are cut off."""
    for line in lines:
        try:
            found = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(found, dict):
            yield found
