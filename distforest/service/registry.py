"""The job root, which has a folder for each job, on any fsspec store; readers need no scheduler.

::

    root/
      service.json        the service of this root, and its last heartbeat
      ID/spec.json        the spec of a job
      ID/state.json       its state, replaced as a whole
      ID/events.jsonl     its events, one per line
      ID/stop             a sign that stops the trees of this job, so that they commit nothing
      ID/work/            shards, staged inputs, and the forest during its merge; removed at the end
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

from distforest.errors import InputError, JobError, NotFoundError
from distforest.jobs.reader import shown
from distforest.service.records import events_in, is_moment, line_of, parsed, wrong_in_state
from distforest.stores.addresses import may_pass, real_address
from distforest.stores.claims import Claim
from distforest.stores.folder import Folder
from distforest.stores.outputs import ANSWERS_KIND, FOREST_KIND, check_kind

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from distforest.service.messages import JobEvent, JobFault, JobState, LeaseRecord, StateChanges
    from distforest.stores.folder import End

STATE_FORMAT = 1
"""Format number of state.json."""

QUEUED, WAITING, RUNNING, MERGING = "QUEUED", "WAITING_FOR_WORKERS", "RUNNING", "MERGING"
SUCCEEDED, FAILED, CANCELLING, CANCELLED, INTERRUPTED = "SUCCEEDED", "FAILED", "CANCELLING", "CANCELLED", "INTERRUPTED"
WRITTEN = (QUEUED, WAITING, RUNNING, MERGING, SUCCEEDED, FAILED, CANCELLING, CANCELLED, INTERRUPTED)
UNREADABLE = "UNREADABLE"
JOB_STATES = (*WRITTEN, UNREADABLE)
"""States of a job: those that are written, and the one of a job whose folder cannot be read."""

ENDS = (SUCCEEDED, FAILED, CANCELLED)
"""States that a job leaves only by a resume."""

NOTHING_DONE: StateChanges = {"waiting": None, "phase": None, "done": 0, "total": 0, "rate": 0.0, "remaining": None}
ATTEMPT: StateChanges = {**NOTHING_DONE, "ended": None, "warnings": [], "error": None}
UNTOUCHED: StateChanges = {**ATTEMPT, "service": None, "started": None, "retries": 0, "lost_workers": 0, "result": None}
"""Values of a state before any attempt."""

SPEC, STATE, EVENTS, LEASE, WORK = "spec.json", "state.json", "events.jsonl", "service.json", "work"

STALE = 10.0
"""Seconds without a heartbeat after which a service counts as dead."""

JOB_FILE_BYTES = 8 << 20
"""Largest file of a job. A larger state or spec is not read; the older half of larger events is dropped."""

LATEST_BYTES = 256 << 10
"""Bytes at the end of the events that are searched first for the latest event; no event is longer."""

MOST_OWNER = 64
"""Largest number of characters of an owner's name."""

STATES_AT_ONCE = 256
"""Number of states that are read at once."""

NO_SUCH_FILE = (FileNotFoundError, NotADirectoryError)
"""Errors of a store for a file that does not exist."""

ID = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")


class UnreadableError(JobError):
    """The folder of a job contains something that no service has written; the job is ignored."""


def check_id(name: str) -> str:
    """Check the id of a job; raise InputError if it cannot be the name of a folder on every store.

    Examples
    --------
    >>> check_id("smerf-20261122-4f3a")
    'smerf-20261122-4f3a'
    """
    if not isinstance(name, str) or not ID.fullmatch(name):
        expected = "up to 64 of a-z, 0-9, '_' and '-' were expected, beginning with a letter or digit"
        raise InputError(f"id: {expected}, found {shown(name)}")
    return name


def check_owner(name: str) -> str:
    """Check the name of a job's owner; raise InputError if a list cannot show it.

    Examples
    --------
    >>> check_owner("Ada Lovelace")
    'Ada Lovelace'
    """
    if not isinstance(name, str) or not name.isprintable() or not 1 <= len(name) <= MOST_OWNER:
        raise InputError(f"owner: 1 to {MOST_OWNER} printable characters were expected, found {shown(name)}")
    return name


def unreadable(job: str, error: Exception) -> JobState:
    """Return the state that readers see of an unreadable job."""
    what = "repair or remove its folder, and restart the service"
    why = str(error) if isinstance(error, (JobError, InputError)) else repr(error)
    message = f"{job} cannot be read and is ignored: {why}; {what}"
    state: JobState = {"id": job, "format": STATE_FORMAT, "revision": 0, "state": UNREADABLE, "attempt": 0}
    spec: JobState = {"id": job, "kind": "", "output": "", "method": None, "n_trees": None}
    fault: JobFault = {"kind": "UnreadableError", "message": message}
    return {**UNTOUCHED, **state, **spec, "submitted": 0.0, "heartbeat": 0.0, "error": fault}


@dataclass(frozen=True)
class Registry:
    """The job root by path or URL.

    Attributes
    ----------
    root
        Path or URL of the job root.
    guard
        Function that is called before each write to a job's folder; if it raises, nothing is written.

    Examples
    --------
    >>> registry = Registry("memory://registry-example")
    >>> registry.create("a", "{}", {"id": "a", "state": "QUEUED", "submitted": 1.0})
    >>> [(job["id"], job["state"], job["was"]) for job in registry.listed(now=100.0)]
    [('a', 'INTERRUPTED', 'QUEUED')]
    """

    root: str
    guard: Callable[[], None] = field(default=lambda: None, repr=False, compare=False)

    def folder(self, job: str = "") -> Folder:
        """Return the folder of a job, by default the job root."""
        return Folder(self.root).within(check_id(job)) if job else Folder(self.root)

    def ids(self) -> list[str]:
        """Return the ids of all folders that may be jobs; none if there is no root."""
        try:
            return [name for name in self.folder().folders() if ID.fullmatch(name)]
        except FileNotFoundError:
            return []

    # --- what a service writes --------------------------------------------------------------------------------

    def create(self, job: str, spec: str, state: JobState) -> None:
        """Write a new job, which is on disk when this returns."""
        self.write_spec(job, spec)
        self.write(job, state)

    def write_spec(self, job: str, spec: str) -> None:
        """Replace the spec of a job."""
        self.guard()
        self.folder(job).write(SPEC, spec.encode())

    def write(self, job: str, state: JobState) -> None:
        """Replace the state of a job."""
        self.guard()
        self.folder(job).write(STATE, line_of(state))

    def note(self, job: str, events: Sequence[JobEvent]) -> None:
        """Append to a job's events; if the file is too large, drop the older half and report this as an event."""
        self.guard()
        if self.folder(job).append(EVENTS, b"".join(map(line_of, events))) > JOB_FILE_BYTES:
            kept = events_in(self._event_lines(job, JOB_FILE_BYTES // 2), 0)
            self.folder(job).write(EVENTS, b"".join(map(line_of, kept)))

    def remove(self, job: str) -> None:
        """Remove a job's folder; its output stays."""
        self.guard()
        self.folder(job).remove()

    # --- who owns the output of a job -------------------------------------------------------------------------

    def claim(self, job: str, output: str) -> Claim:
        """Return the claim of a job on its output, from its submission until it has ended.

        Each start of the job makes the same claim: a file beside the output, where a `fit` on the command line and
        other services see it. It names the job's folder, which shows whether the job has ended.
        """
        root = real_address(self.folder(job).address)
        return Claim(output, f"job {job} of {self.root}", root, root, ENDS)

    def register(self, state: JobState, spec: str) -> None:
        """Write a new job, which owns its output when this returns; a refused job leaves nothing behind.

        Raises
        ------
        ConflictError
            Another job owns the output.
        InputError
            The output cannot be written, or something there is never replaced.
        OSError
            A store does not answer.
        """
        job, output = state["id"], state["output"]
        check_kind(output, ANSWERS_KIND if state["kind"] == "score" else FOREST_KIND)
        self.create(job, spec, state)  # before the claim, which counts for as long as there is such a job
        try:
            self.claim(job, output).take()
        except BaseException:
            self.remove(job)
            raise

    def reclaim(self, job: str, output: str, spec: str) -> None:
        """Claim the output for a job that is resumed after its end, and write its spec; raise as `register`."""
        self.claim(job, output).take()
        self.write_spec(job, spec)

    def release_output(self, state: JobState) -> None:
        """Release the output of a job that has ended."""
        self.claim(state["id"], state["output"]).release()

    # --- what readers call ------------------------------------------------------------------------------------

    def check_own(self, job: str) -> None:
        """Raise UnreadableError if a job's folder, or its working folder, is a link, which may lead out of the root."""
        for folder in (self.folder(job), self.folder(job).within(WORK)):
            if folder.is_link:
                raise UnreadableError(f"{folder.address} is a link, and links are not followed")

    def spec(self, job: str) -> str | None:
        """Return the spec of a job; None if it has none. Raises UnreadableError."""
        found = self._read(job, SPEC)
        try:
            return None if found is None else found.decode()
        except UnicodeDecodeError as error:
            raise UnreadableError(f"{self.folder(job).address}/{SPEC} is not text: {error}") from error

    def own_spec(self, job: str) -> str:
        """Return the spec of a job; raise InputError if it has none, or as `spec`."""
        text = self.spec(job)
        if text is None:
            raise InputError("the job has no spec.json; submit it again")
        return text

    def state(self, job: str) -> JobState | None:
        """Return the state of a job as its service wrote it; None if there is none, or only a part of one.

        Raises UnreadableError for a state that no service has written.
        """
        found = self._read(job, STATE)
        return None if found is None else self._state(job, found)

    def states(self) -> Iterator[tuple[str, JobState | UnreadableError | None]]:
        """Yield the id and state of each folder that may be a job's, as `state` reads it; or the error of `state`."""
        ids = self.ids()
        for names in (ids[first : first + STATES_AT_ONCE] for first in range(0, len(ids), STATES_AT_ONCE)):
            ends = self.folder().ends([f"{name}/{STATE}" for name in names], JOB_FILE_BYTES)
            for name, end in zip(names, ends, strict=True):
                try:
                    found = self._whole_file(name, STATE, end)
                    yield name, None if found is None else self._state(name, found)
                except UnreadableError as error:
                    yield name, error

    def events(self, job: str, after: int = 0, limit: int | None = None) -> list[JobEvent]:
        """Return a job's events with numbers greater than ``after``, the first ``limit`` of them.

        Lines that a crash has cut off, that were written twice, or that no service has written are omitted.

        Raises
        ------
        NotFoundError
            There is no such job.
        UnreadableError
            The events are not a file.
        """
        self._check_exists(job)
        found: dict[int, JobEvent] = {}
        for event in events_in(self._event_lines(job, JOB_FILE_BYTES), after):
            found[event["n"]] = event
            if len(found) == limit:
                break
        return list(found.values())

    def last_number(self, job: str) -> int:
        """Return the number of a job's latest event; 0 if it has none. Raises UnreadableError."""
        for most in (LATEST_BYTES, JOB_FILE_BYTES):  # a power failure may have left zeros at the end
            if numbers := [event["n"] for event in events_in(self._event_lines(job, most), 0)]:
                return max(numbers)
        return 0

    def lease(self) -> LeaseRecord | None:
        """Return the record of the service that serves the root, or served it last."""
        try:
            return lease_in(self.folder().end(LEASE, JOB_FILE_BYTES).content)
        except (*NO_SUCH_FILE, ValueError):
            return None

    def job(self, job: str, now: float) -> JobState:
        """Return the state of a job as read without its service.

        Raises
        ------
        NotFoundError
            There is no such job.
        """
        self._check_exists(job)
        try:
            found = self.state(job)
        except UnreadableError as error:
            return unreadable(job, error)
        return self._as_read(job, found, self.lease(), now)

    def listed(self, now: float) -> list[JobState]:
        """Return all jobs, newest first, as read without their service."""
        lease = self.lease()
        jobs: list[JobState] = []
        for name, found in self.states():
            if isinstance(found, UnreadableError):
                jobs.append(unreadable(name, found))
            elif found is not None or self._exists(name):
                jobs.append(self._as_read(name, found, lease, now))
        return sorted(jobs, key=lambda job: (job.get("submitted") or 0.0, job["id"]), reverse=True)

    def _as_read(self, job: str, state: JobState | None, lease: LeaseRecord | None, now: float) -> JobState:
        """Return the state that a reader reports, which is interrupted if there was no heartbeat for long."""
        state = state or {"format": STATE_FORMAT, "id": job, "state": QUEUED}
        if state["state"] in ENDS:
            return state
        try:
            self.check_own(job)
            self.spec(job)
            self.last_number(job)
        except UnreadableError as error:  # a service ignores it, too
            return unreadable(job, error)
        if lease and now - lease["heartbeat"] <= STALE:
            return state
        was = state.get("was") if state["state"] == INTERRUPTED else state["state"]
        return {**state, "state": INTERRUPTED, "was": was}

    def _check_exists(self, job: str) -> None:
        """Raise NotFoundError if there is no such job."""
        if not self._exists(job):
            raise NotFoundError(f"there is no job {job} in {self.root}")

    def _exists(self, job: str) -> bool:
        """Return whether a job's state or spec exists, even if it cannot be read."""
        ends = self.folder().ends([f"{check_id(job)}/{name}" for name in (STATE, SPEC)], 1)
        for end in ends:
            if isinstance(end, OSError) and may_pass(end, self.root):
                raise end
        return not all(isinstance(end, NO_SUCH_FILE) for end in ends)

    # --- its files --------------------------------------------------------------------------------------------

    def _read(self, job: str, name: str) -> bytes | None:
        """Return the content of a file; None if it does not exist."""
        [end] = self.folder().ends([f"{check_id(job)}/{name}"], JOB_FILE_BYTES)
        return self._whole_file(job, name, end)

    def _whole_file(self, job: str, name: str, end: End | Exception) -> bytes | None:
        """Return the content of a file, from its end, as `_read` returns it."""
        if (found := self._end(end)) is None:
            return None
        if not found.is_whole:
            raise UnreadableError(f"{self.folder(job).address}/{name} has more than {JOB_FILE_BYTES:,} bytes")
        return found.content

    def _end(self, end: End | Exception) -> End | None:
        """Return the end of a file, None if there is none; raise UnreadableError, or OSError if a retry may help."""
        if isinstance(end, NO_SUCH_FILE):
            return None
        if not isinstance(end, Exception):
            return end
        if may_pass(end, self.root):
            raise end
        raise UnreadableError(str(end)) from end

    def _state(self, job: str, content: bytes) -> JobState | None:
        """Return the checked state in the content of a file."""
        found = parsed(content)
        if found is None:
            return None
        if (
            found.get("state") not in WRITTEN
            or found.get("format", STATE_FORMAT) != STATE_FORMAT
            or found.get("id") != job
        ):
            named = ", ".join(f"{name} {shown(found.get(name))}" for name in ("format", "id", "state"))
            raise UnreadableError(f"{self.folder(job).address}/{STATE} is not a known state of job {job}: {named}")
        if (wrong := wrong_in_state(found)) is not None:
            what = f"{shown(wrong)} is {shown(found[wrong])}, which no service has written"
            raise UnreadableError(f"{self.folder(job).address}/{STATE}: {what}")
        return cast("JobState", found)

    def _event_lines(self, job: str, most: int) -> Iterator[bytes]:
        """Yield the last lines of a job's events; if earlier ones are missing, the first line reports it."""
        [end] = self.folder().ends([f"{check_id(job)}/{EVENTS}"], most)
        if (found := self._end(end)) is None:
            return
        lines = iter(found.content.splitlines())
        if not found.is_whole:
            next(lines, None)  # a part of a line
            if first := next(events_in(lines, 0), None):
                n, most_kept = first["n"] - 1, f"the latest {JOB_FILE_BYTES >> 20} MiB"
                message = f"events up to number {n} are not kept; at most {most_kept} of a job are"
                yield line_of({"n": n, "time": first["time"], "event": "dropped", "message": message})
                yield line_of(first)
        yield from lines


def lease_in(content: bytes) -> LeaseRecord | None:
    """Return the record in the content of ``service.json``; None if it is not one."""
    found = parsed(content)
    return cast("LeaseRecord", found) if found and is_moment(found.get("heartbeat")) else None
