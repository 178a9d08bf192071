"""One job of a service: its state and its events, as readers see them and as the registry keeps them."""

from __future__ import annotations

import logging
import math
import time
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING

from distforest.amounts import counted
from distforest.service.registry import (
    CANCELLED,
    CANCELLING,
    ENDS,
    FAILED,
    MERGING,
    QUEUED,
    RUNNING,
    STATE_FORMAT,
    SUCCEEDED,
    WAITING,
    UnreadableError,
)

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Literal, Unpack

    from distforest.jobs.any_spec import AnySpec
    from distforest.jobs.cluster import Progress
    from distforest.service.messages import EventDetails, JobEvent, JobState, StateChanges, TimedNote
    from distforest.service.registry import Registry

SAVING_BEAT, PROGRESS_BEAT, WAIT_BEAT = 2.0, 1.0, 60.0
"""Seconds between two heartbeats of a running job; at least between two writes of nothing but its progress, and between
two events that tell of busy workers."""

MOST_WORDS = 20_000
"""Letters of a message; of a longer one, as that of a user's function may be, the rest is left out."""

PHASE_STATES = {
    "grow": RUNNING,
    "alone": RUNNING,
    "ask": RUNNING,
    "screen": RUNNING,
    "score": RUNNING,
    "merge": MERGING,
}
"""The state that goes with a run of tasks; of others nothing is told."""

AT_WORK = (RUNNING, MERGING)


def first_state(job: str, spec: AnySpec, now: float) -> JobState:
    """What state.json says of a job that was just submitted."""
    method = getattr(spec, "method", None)
    return {
        "format": STATE_FORMAT,
        "id": job,
        "state": QUEUED,
        "waiting": None,
        "revision": 0,
        "kind": "fit" if method else "score",
        "method": method,
        "output": spec.output,
        "service": None,
        "heartbeat": now,
        "submitted": now,
        "started": None,
        "ended": None,
        "phase": None,
        "done": 0,
        "total": 0,
        "rate": 0.0,
        "remaining": None,
        "n_trees": spec.params.get("n_estimators"),
        "retries": 0,
        "lost_workers": 0,
        "warnings": [],
        "attempt": 1,
        "error": None,
        "result": None,
    }


def in_bounds(message: str) -> str:
    """A message, as far as it is kept, and as text that can be written: the name of a file need not be that.

    Examples
    --------
    >>> in_bounds("no such column"), len(in_bounds("x" * 10**6)), len(in_bounds(chr(0xDCFF)))
    ('no such column', 20037, 6)
    """
    more = len(message) - MOST_WORDS
    kept = message if more <= 0 else f"{message[:MOST_WORDS]}… ({more:,} more letters are left out)"
    return kept.encode(errors="backslashreplace").decode()


@dataclass
class Job:
    """A job that a service knows; its methods may be called from any thread.

    ``n_written`` is the number of its latest event on the store; None where nobody has looked yet.
    """

    state: JobState
    n_written: int | None = 0
    is_cancelled: bool = False
    _unsaved: list[TimedNote] = field(default_factory=list)
    _changed: bool = False
    _is_urgent: bool = False
    _waited: str | None = None
    _is_told: bool = False
    _next_told: float = -math.inf
    _own: Lock = field(default_factory=Lock)
    _writing: Lock = field(default_factory=Lock)

    @property
    def id(self) -> str:
        """The job's name."""
        return str(self.state["id"])

    @property
    def n_events(self) -> int:
        """Events that are written, as far as is known, and those that will be."""
        return (self.n_written or 0) + len(self._unsaved)

    @property
    def has_ended(self) -> bool:
        """Whether nothing more comes unless the job is resumed."""
        return self.state["state"] in ENDS

    @property
    def is_at_work(self) -> bool:
        """Whether a thread runs it."""
        return self.state["state"] in (RUNNING, MERGING, WAITING, CANCELLING)

    def note(self, event: str, message: str, **details: Unpack[EventDetails]) -> None:
        """Say what happened."""
        with self._own:
            self._unsaved.append({"time": time.time(), "event": event, "message": in_bounds(message), **details})

    def warn(self, texts: Iterable[str]) -> None:
        """Say what is odd, and was done all the same; once, however often a run is tried."""
        for text in texts:
            if text not in self.state["warnings"]:
                self.note("warning", f"warning: {text}")
                self.set(warnings=[*self.state["warnings"], text])

    def set(self, **changes: Unpack[StateChanges]) -> None:
        """Change what the state says."""
        with self._own:
            self._is_urgent |= changes.get("state", self.state["state"]) != self.state["state"]
            self.state = {**self.state, **changes, "revision": self.state["revision"] + 1}
            self._changed = True

    def cancel(self) -> bool:
        """Tell the job to stop; false where it has ended."""
        with self._own:
            if self.has_ended:
                return False
            self.is_cancelled = self._is_urgent = self._changed = True
            self.state = {**self.state, "state": CANCELLING, "revision": self.state["revision"] + 1}
            return True

    def queue_again(self) -> None:
        """Make the job wait for its next run."""
        self.set(
            state=QUEUED,
            attempt=self.state["attempt"] + 1,
            warnings=[],
            waiting=None,
            phase=None,
            done=0,
            total=0,
            rate=0.0,
            remaining=None,
            ended=None,
            error=None,
        )

    def count_events(self, registry: Registry) -> int:
        """Look how many events are written, where nobody has; raises UnreadableError."""
        if self.n_written is None:
            self.n_written = registry.last_number(self.id)
        return self.n_written

    def count(self, name: Literal["retries", "lost_workers"]) -> None:
        """Add one to a counter."""
        if name == "retries":
            self.set(retries=self.state["retries"] + 1)
        else:
            self.set(lost_workers=self.state["lost_workers"] + 1)

    def watch(self, progress: Progress) -> None:
        """Take over how far a run of tasks is."""
        goes_with = PHASE_STATES.get(progress.name)
        if goes_with is None:
            return
        if goes_with != self.state["state"] and self.state["state"] in AT_WORK:
            self.set(state=goes_with)
        left = progress.remaining
        self.set(
            phase=progress.name,
            done=progress.done,
            total=progress.total,
            rate=progress.rate,
            remaining=left if math.isfinite(left) else None,
        )

    def attend(self, threads: int, busy: str | None = None) -> None:
        """Wait where there are no workers, or they are all ``busy`` with others; go on where that is over."""
        state = self.state["state"]
        why = busy if threads else "there are no workers; the job goes on when one comes"
        if why and state in AT_WORK:
            self._waited, self._is_told = state, False
            self.set(state=WAITING, waiting=why)
            self._tell_of_waiting(why, threads)
        elif why and state == WAITING and why != self.state["waiting"]:
            self.set(waiting=why)
            self._tell_of_waiting(why, threads)
        elif not why and state == WAITING:
            self.set(state=self._waited or RUNNING, waiting=None)
            if self._is_told:
                self.note("running", f"workers with {counted(threads, 'thread')} in all are at work")

    def _tell_of_waiting(self, why: str, threads: int) -> None:
        """Note that the job waits; now and then only, where it shares busy workers and does so all the time."""
        if not threads or time.monotonic() >= self._next_told:
            self._is_told, self._next_told = True, time.monotonic() + WAIT_BEAT
            self.note("waiting", why)

    def end(self, state: str, message: str, /, **changes: Unpack[StateChanges]) -> None:
        """Write the last state of a run."""
        names = {SUCCEEDED: "succeeded", FAILED: "failed", CANCELLED: "cancelled"}
        self.note(names[state], message)
        last: StateChanges = {**changes, "state": state, "ended": time.time(), "remaining": None, "waiting": None}
        if error := changes.get("error"):
            last["error"] = {**error, "message": in_bounds(error["message"])}
        self.set(**last)

    def save(self, registry: Registry, at_once: bool = False) -> bool:
        """Write what is new, if it is time or ``at_once``; whether all that was to be written is.

        What a store refuses is tried again the next time.
        """
        if not (self._unsaved or self._changed or self.is_at_work):  # as most jobs of a large root
            return True
        with self._writing:
            with self._own:
                since = time.time() - self.state["heartbeat"]
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
                    with self._own:
                        self.state = {**self.state, "heartbeat": now}
            except (OSError, ValueError, UnreadableError) as error:
                logging.getLogger("distforest").warning("job %s: its state could not be written: %r", self.id, error)
                with self._own:
                    self._unsaved, self._changed = [*unsaved, *self._unsaved], self._changed or changed
                return False
            return True
