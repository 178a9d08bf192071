"""A job of a service: its state and its events, as readers see them and as the registry stores them."""

from __future__ import annotations

import logging
import math
import time
from dataclasses import dataclass, field
from threading import Lock, RLock
from typing import TYPE_CHECKING

from distforest.amounts import counted
from distforest.jobs.any_spec import kind_of_job
from distforest.service.metrics import Metrics, label_of
from distforest.service.registry import (
    ATTEMPT,
    CANCELLING,
    ENDS,
    MERGING,
    QUEUED,
    RUNNING,
    STATE_FORMAT,
    UNTOUCHED,
    WAITING,
    UnreadableError,
)

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Literal, Unpack

    from distforest.jobs.any_spec import AnySpec
    from distforest.jobs.cluster import Progress
    from distforest.service.messages import (
        EventDetails,
        Grown,
        JobDescription,
        JobEvent,
        JobState,
        StateChanges,
        TimedNote,
    )
    from distforest.service.registry import Registry

LOG = logging.getLogger("distforest")

SAVING_BEAT, PROGRESS_BEAT, WAIT_BEAT = 2.0, 1.0, 60.0
"""Seconds between two heartbeats of a running job; least seconds between two writes of its progress alone, and between
two events about busy workers."""

MOST_WORDS = 20_000
"""Largest number of characters of a message; a user's function may raise an error with a much longer one."""

PHASE_STATES = {
    **dict.fromkeys(("grow", "try", "alone", "ask", "screen", "judge", "score"), RUNNING),
    "merge": MERGING,
}
"""State of a job during each run of tasks; other runs are not reported."""

AT_WORK = (RUNNING, MERGING)


def described(spec: AnySpec) -> JobDescription:
    """Return the part of a job's state that its spec determines."""
    return {
        "kind": kind_of_job(spec),
        "method": getattr(spec, "method", None),
        "output": spec.output,
        "n_trees": spec.params.get("n_estimators"),
        "priority": spec.run.priority,
        "queue": spec.run.queue,
    }


def first_state(job: str, spec: AnySpec, now: float) -> JobState:
    """Return the state of a job that was just submitted."""
    times: JobState = {"id": job, "heartbeat": now, "submitted": now, "since": now}
    state: JobState = {**times, "format": STATE_FORMAT, "revision": 0, "state": QUEUED, "worked": 0.0, "attempt": 1}
    return {**UNTOUCHED, **state, **described(spec)}


def seconds_of_work(job: JobState, until: float) -> float:
    """Return the seconds that a job was at work until a time, without those in which it was queued or waited.

    Examples
    --------
    >>> seconds_of_work({"state": "RUNNING", "worked": 2.0, "since": 100.0}, 105.0)
    7.0
    >>> seconds_of_work({"state": "WAITING_FOR_WORKERS", "worked": 2.0, "since": 100.0}, 105.0)
    2.0
    """
    is_at_work = job["state"] in (RUNNING, MERGING, CANCELLING)
    return job.get("worked", 0.0) + (max(0.0, until - job.get("since", until)) if is_at_work else 0.0)


def in_bounds(message: str) -> str:
    """Shorten a message to `MOST_WORDS`, and escape what cannot be encoded, such as some names of files.

    A key of the spec that has no effect in a service is replaced by the option that has one.

    Examples
    --------
    >>> in_bounds("give workers more memory (`run.memory_limit`)")
    'give workers more memory (`dask worker --memory-limit`)'
    >>> in_bounds("no such column"), len(in_bounds("x" * 10**6)), len(in_bounds(chr(0xDCFF)))
    ('no such column', 20039, 6)
    """
    message = message.replace("run.memory_limit", "dask worker --memory-limit")
    more = len(message) - MOST_WORDS
    kept = message if more <= 0 else f"{message[:MOST_WORDS]}… ({more:,} more characters are omitted)"
    return kept.encode(errors="backslashreplace").decode()


@dataclass
class Job:
    """A job of a service; its methods may be called from any thread.

    ``n_written`` is the number of its latest event on the store; None if it has not been read yet.
    """

    state: JobState
    meters: Metrics = field(default_factory=Metrics, repr=False)
    n_written: int | None = 0
    is_cancelled: bool = False
    _unsaved: list[TimedNote] = field(default_factory=list)
    _changed: bool = False
    _is_urgent: bool = False
    _waited: str | None = None
    _is_noted: bool = False
    _next_note: float = -math.inf
    _lock: RLock = field(default_factory=RLock)
    _writing: Lock = field(default_factory=Lock)

    @property
    def id(self) -> str:
        """The job's id."""
        return str(self.state["id"])

    @property
    def has_ended(self) -> bool:
        """Whether the job has ended, so that only a resume continues it."""
        return self.state["state"] in ENDS

    @property
    def is_at_work(self) -> bool:
        """Whether a thread runs the job."""
        return self.state["state"] in (RUNNING, MERGING, WAITING, CANCELLING)

    def note(self, event: str, message: str, **details: Unpack[EventDetails]) -> None:
        """Add an event."""
        with self._lock:
            self._unsaved.append({"time": time.time(), "event": event, "message": in_bounds(message), **details})
        LOG.log(logging.DEBUG if event == "trees" else logging.INFO, "%s", message, extra={"job": self.id})
        if event == "trees":
            self.meters.trees.inc(details["last"] - details["first"] + 1)
            self.meters.growth.inc(details["seconds"])
            if worker := details.get("worker"):
                with self._lock:
                    known = self.state.get("grown_by", {})
                    before = known.get(worker, {"trees": 0, "seconds": 0.0})
                    n_trees = before["trees"] + details["last"] - details["first"] + 1
                    grown: Grown = {"trees": n_trees, "seconds": before["seconds"] + details["seconds"]}
                    self.set(grown_by={**known, worker: grown})

    def warn(self, texts: Iterable[str]) -> None:
        """Add warnings, each text only once, however often a run is tried."""
        with self._lock:
            for text in texts:
                if text not in self.state["warnings"]:
                    self.note("warning", f"warning: {text}")
                    self.set(warnings=[*self.state["warnings"], text])

    def set(self, **changes: Unpack[StateChanges]) -> None:
        """Change the state."""
        now = time.time()
        with self._lock:
            if changes.get("state", self.state["state"]) != self.state["state"]:
                changes = {"since": now, "worked": seconds_of_work(self.state, now), **changes}
                self._is_urgent = True
            self.state = {**self.state, **changes, "revision": self.state["revision"] + 1}
            self._changed = True

    def cancel(self) -> bool:
        """Request that the job stop; return False if it has ended."""
        with self._lock:
            if self.has_ended:
                return False
            self.is_cancelled = self._is_urgent = True
            self.set(state=CANCELLING)
            return True

    def begin(self, service: str) -> None:
        """Write the first state of a run."""
        now = time.time()
        started = self.state["started"] or now
        self.meters.queue.labels(label_of(self.state)).observe(max(0.0, now - self.state.get("since", now)))
        self.set(state=RUNNING, service=service, started=started, ended=None, error=None, waiting=None)
        self.note("started", f"the job has started, attempt {self.state['attempt']}")

    def requeue(self) -> None:
        """Put the job back into the queue for its next attempt; if its service was lost, its work time ended then."""
        worked = seconds_of_work(self.state, self.state["heartbeat"])
        again: StateChanges = {**ATTEMPT, "state": QUEUED, "worked": worked, "attempt": self.state["attempt"] + 1}
        self.set(**again)

    def count_events(self, registry: Registry) -> int:
        """Return the number of events on the store, which is read if it is unknown; raise UnreadableError."""
        if self.n_written is None:
            self.n_written = registry.last_number(self.id)
        return self.n_written

    def count(self, name: Literal["retries", "lost_workers"]) -> None:
        """Add one to a counter."""
        with self._lock:
            if name == "retries":
                self.meters.retries.inc()
                self.set(retries=self.state["retries"] + 1)
            else:
                self.meters.lost_workers.inc()
                self.set(lost_workers=self.state["lost_workers"] + 1)

    def watch(self, progress: Progress) -> None:
        """Copy the progress of a run of tasks into the state; a waiting job continues with the last run reported."""
        phase_state = PHASE_STATES.get(progress.name)
        if phase_state is None:
            return
        left = progress.remaining
        with self._lock:
            state = self.state["state"]
            if state == WAITING:
                self._waited = phase_state
            self.set(
                state=phase_state if state in AT_WORK else state,
                phase=progress.name,
                done=progress.done,
                total=progress.total,
                rate=progress.rate,
                remaining=left if math.isfinite(left) else None,
            )

    def attend(self, threads: int, busy: str | None = None) -> None:
        """Wait while there are no workers, or while all of them are ``busy`` with other jobs."""
        why = busy if threads else "there are no workers; the job goes on when one comes"
        with self._lock:
            state = self.state["state"]
            if why and state in AT_WORK:
                self._waited, self._is_noted = state, False
                self.set(state=WAITING, waiting=why)
                self._note_waiting(why, threads)
            elif why and state == WAITING and why != self.state["waiting"]:
                self.set(waiting=why)
                self._note_waiting(why, threads)
            elif not why and state == WAITING:
                self.set(state=self._waited or RUNNING, waiting=None)
                if self._is_noted:
                    self.note("running", f"workers with {counted(threads, 'thread')} in all are at work")

    def _note_waiting(self, why: str, threads: int) -> None:
        """Add an event that the job waits; if it shares busy workers, add it rarely, as the job then waits often."""
        if not threads or time.monotonic() >= self._next_note:
            self._is_noted, self._next_note = True, time.monotonic() + WAIT_BEAT
            self.note("waiting", why)

    def end(self, state: str, message: str, /, **changes: Unpack[StateChanges]) -> None:
        """Write the last state of a run."""
        self.note(state.lower(), message)
        last: StateChanges = {**changes, "state": state, "ended": time.time(), "remaining": None, "waiting": None}
        if error := changes.get("error"):
            last["error"] = {**error, "message": in_bounds(error["message"])}
        self.set(**last)
        self.meters.work.labels(label_of(self.state), state).observe(self.state.get("worked", 0.0))

    def save(self, registry: Registry, at_once: bool = False) -> bool:
        """Write new events and the state, if due or ``at_once``; return True if everything due is written.

        The next call repeats a write that the store refuses.
        """
        if not (self._unsaved or self._changed or self.is_at_work):  # most jobs of a large root
            return True
        with self._writing:
            with self._lock:
                since = abs(time.time() - self.state["heartbeat"])  # a clock may be set back
                is_due = at_once or self._is_urgent or since >= PROGRESS_BEAT
                unsaved, state = (self._unsaved if is_due else []), self.state
                changed = (self._changed and is_due) or (self.is_at_work and since >= SAVING_BEAT)
                if not unsaved and not changed:
                    return True
                self._unsaved = self._unsaved[len(unsaved) :]
                self._changed, self._is_urgent = self._changed and not changed, False
            try:
                if unsaved:
                    before = self.count_events(registry)
                    events: list[JobEvent] = [{"n": n, **event} for n, event in enumerate(unsaved, before + 1)]
                    registry.note(self.id, events)
                    self.n_written, unsaved = before + len(unsaved), []
                if changed:
                    now = time.time()
                    registry.write(self.id, {**state, "heartbeat": now})
                    with self._lock:
                        self.state = {**self.state, "heartbeat": now}
            except (OSError, ValueError, UnreadableError) as error:
                self.meters.store_errors.labels("save").inc()
                LOG.warning("job %s: its state could not be written: %r", self.id, error, extra={"job": self.id})
                with self._lock:
                    self._unsaved, self._changed = [*unsaved, *self._unsaved], self._changed or changed
                return False
            return True
