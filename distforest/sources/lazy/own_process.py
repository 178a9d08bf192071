"""A user's function in a process of its own: a hang is ended, and the death of the process is an ordinary fault.

Each process is the one worker of a `ProcessPoolExecutor`. It is started for a function at its first call, and kept for
the next batches.
"""

from __future__ import annotations

import itertools
import math
import multiprocessing
import os
import signal
import sys
import threading
import time
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from multiprocessing.context import SpawnContext, SpawnProcess
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from distforest.sources.lazy import calling
from distforest.sources.lazy.callbacks import Asking, AskingPolicy, Late, PairFault, Reason, answers, reason_of
from distforest.sources.lazy.calling import Call, Code, PartAnswer, packed_message

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from distforest.sources.lazy.callbacks import Batch, FunctionAnswer, Lazy
    from distforest.sources.lazy.lazy_source import Ask

MESSAGE_TICK = 0.2
"""Seconds between two checks whether an awaited answer is still wanted."""

GRACE, LAST_SECONDS = 5.0, 1.0
"""Seconds in which a late coroutine must be cancelled, and a process without work must end; and seconds in which the
exit code of a dead process must be known."""

IDLE_SECONDS, MOST_IDLE = 30.0, 4 + (os.cpu_count() or 1)
"""Seconds for which an idle process is kept, and how many are kept."""

_THREAD = threading.local()


@contextmanager
def in_own_processes(look: Callable[[], None]) -> Iterator[None]:
    """In this block, functions that this thread calls through `asking` run in processes of their own.

    ``look`` is called a few times a second while an answer is awaited. An error that it raises ends the process, and is
    raised here.
    """
    before = getattr(_THREAD, "look", None)
    _THREAD.look = look
    try:
        yield
    finally:
        _THREAD.look = before


def asking(lazy: Lazy, code: Code) -> Ask:
    """Calls of a function: in a process of its own within `in_own_processes`, otherwise in this one."""

    def ask(batches: Iterable[Batch]) -> Iterator[tuple[int, FunctionAnswer]]:
        policy = AskingPolicy(lazy.retries, lazy.timeout)
        if getattr(_THREAD, "look", None) is None:
            return answers(lazy.function, batches, policy, lazy.concurrency)
        return answers_apart(code, batches, policy, lazy.concurrency)

    return ask


def answers_apart(
    code: Code, batches: Iterable[Batch], policy: AskingPolicy, concurrency: int
) -> Iterator[tuple[int, FunctionAnswer]]:
    """Ask for many batches as `answers` does, in a process of its own.

    A process that hangs is ended after ``policy.timeout``, once the calls beside the one that is late have ended; a
    process that dies is replaced by another one, and that is a fault of the calls in progress. The values of a function
    of two objects that have arrived by then are kept.

    Examples
    --------
    >>> import numpy as np
    >>> from distforest.sources.lazy.callbacks import Batch, Lazy
    >>> code, batch = Code.pickled(Lazy(np.subtract)), Batch([1, 2], [3, 4], [(0, 2), (1, 3)])
    >>> [one.values.tolist() for _, one in answers_apart(code, [batch], AskingPolicy(), 1)]
    [[-2.0, -2.0]]
    >>> code = Code.pickled(Lazy(lambda left, right: os._exit(3)))
    >>> [one.error for _, one in answers_apart(code, [batch], AskingPolicy(retries=0), 1)]
    ['...failed at pairs (0, 2) to (1, 3), 2 of them, tried 1 time: its process ended with exit code 3']
    """
    look: Callable[[], None] = getattr(_THREAD, "look", None) or (lambda: None)
    drawn, work = enumerate(batches), dict[int, _Work]()
    process: Process | None = None
    try:
        while True:
            takes_calls = process is None or not process.is_retired
            for place, batch in itertools.islice(drawn, concurrency - len(work) if takes_calls else 0):
                work[place] = _Work(Asking(code.name, batch, policy))
            if not work:
                return
            messages = [message for own in work.values() if takes_calls and (message := own.message(code.is_async))]
            if calls := [own for own in work.values() if own.number is not None]:
                try:
                    process = process or PROCESSES.take(code, concurrency, look)
                    _exchange(process, messages, calls, look)
                except Reason as reason:  # the process could not be started, or has died
                    for own in calls:
                        own.fail(reason)
            if process and process.is_retired and all(own.number is None for own in calls):
                PROCESSES.return_process(process)
                process = None
            begun = time.monotonic()
            for place in [place for place, own in work.items() if not own.asking.goes_on()]:
                yield place, work.pop(place).asking.answer()
            for own in work.values():  # the process may have waited for this one
                own.end += time.monotonic() - begun
    finally:
        if process:
            process.is_retired |= any(own.number is not None for own in work.values())
            PROCESSES.return_process(process)


def _exchange(
    process: Process, messages: list[tuple[int, bytes]], calls: list[_Work], look: Callable[[], None]
) -> None:
    """Send new calls, and take the next parts of answers; retire a process that does not answer in time."""
    of_number = {call.number: call for call in calls}
    parts = process.answer(messages, min(call.end for call in calls), look)
    for number, part in parts:
        if number in of_number:
            of_number[number].take(part)
    if not parts:
        process.is_retired = True
        for call in calls:
            call.fail_if_late()


_NUMBERS = itertools.count()


@dataclass
class _Work:
    """A batch, the number of its call in progress, if there is one, and the time until which an answer must arrive."""

    asking: Asking
    number: int | None = None
    end: float = math.inf

    def message(self, is_async: bool) -> tuple[int, bytes] | None:
        """The next call; None if one is in progress, or none is to be made."""
        if self.number is not None or not self.asking.goes_on():
            return None
        timeout = self.asking.policy.timeout
        try:
            body = packed_message(Call(*self.asking.rest(), timeout))
        except Exception as error:  # noqa: BLE001  (an object may raise anything to refuse)
            self.asking.fail(error)
            return None
        if timeout is not None:
            self.end = time.monotonic() + timeout + (GRACE if is_async else 0.0)  # a coroutine is cancelled there first
        self.number = next(_NUMBERS)
        return self.number, body

    def take(self, part: PartAnswer) -> None:
        """Keep values; if they are the last ones, the call is over."""
        if part.is_last:
            self.number = None
        if part.fault:
            self.asking.fail(PairFault(part.values, Reason(part.fault), part.is_exact))
        else:
            self.asking.keep(part.values)

    def fail(self, reason: Reason) -> None:
        """Count a fault of the call."""
        self.number = None
        self.asking.fail(reason)

    def fail_if_late(self) -> None:
        """Count a fault if the time has passed."""
        if time.monotonic() >= self.end:
            self.fail(Late(self.asking.policy.timeout or 0.0))


class Process:
    """A process that calls one function, for one task at a time, which may make several calls at once."""

    def __init__(self, code: Code, concurrency: int) -> None:
        self.key = code.key, concurrency
        """Identifies its function; the function itself, which may be large, is not kept here."""
        self.is_retired = False
        """Whether it takes no further calls."""
        self.expiry = threading.Timer(IDLE_SECONDS, PROCESSES.expire, (self,))
        """Ends it when it has been idle for long."""
        self._has_ended = False
        self._context = _Context()
        try:
            self._executor = ProcessPoolExecutor(1, self._context, calling.begin)
            load = partial(self._executor.submit, calling.load_function, packed_message(code), concurrency)
            self._pending: Future[Any] | None = PROCESSES.starter.submit(load).result()
        except OSError as error:
            raise Reason(f"no process could be started for it: {error}") from error

    @property
    def is_sound(self) -> bool:
        """Whether it is ready for calls."""
        return not self.is_retired and self._context.process.exitcode is None

    def load(self, look: Callable[[], None]) -> None:
        """Wait until the function is loaded; otherwise end the process, and raise `Reason`."""
        try:
            fault = self._result(math.inf, look)
        except Reason as reason:
            raise Reason(f"while it was loaded {reason}") from None
        except BaseException:  # nobody waits for it any more
            self.end()
            raise
        if fault:
            self.end()
            raise Reason(fault)

    def answer(
        self, messages: list[tuple[int, bytes]], until: float, look: Callable[[], None]
    ) -> list[tuple[int, PartAnswer]]:
        """Begin calls, and return the next parts of answers, with their numbers; none if the time has come.

        Raises
        ------
        Reason
            The process has died.
        """
        if self._pending is None:
            try:
                self._pending = self._executor.submit(calling.answer, messages)
            except BrokenProcessPool as error:
                raise self._reason(error) from None
        return self._result(until, look) or []

    def _result(self, until: float, look: Callable[[], None]) -> Any:
        """The result of the pending call; None if the time has come."""
        assert self._pending is not None  # noqa: S101  (both callers have submitted one)
        while True:
            look()
            try:
                error = self._pending.exception(max(0.0, min(MESSAGE_TICK, until - time.monotonic())))
            except TimeoutError:
                if self._context.process.exitcode is not None:
                    self._kill()  # processes that it has started hold its pipes
                elif time.monotonic() >= until:
                    return None
                continue
            if error:
                raise self._reason(error)
            found, self._pending = self._pending.result(), None
            return found

    def _reason(self, error: BaseException) -> Reason:
        """Why there is no result; the process is ended, if it has not died."""
        last = time.monotonic() + (LAST_SECONDS if isinstance(error, BrokenProcessPool) else 0.0)
        while (code := self._context.process.exitcode) is None and time.monotonic() < last:
            time.sleep(0.01)
        self.end()
        if not isinstance(error, BrokenProcessPool):
            return Reason(reason_of(error))
        if code is None:
            return Reason("its process has closed the pipe on which it answers")
        if code >= 0:
            return Reason(f"its process ended with exit code {code}")
        name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
        why = {
            "SIGKILL": "; the system does so where memory is short",
            "SIGTERM": "; so is one that closes the pipe on which it answers",
        }
        return Reason(f"its process was ended by {name}{why.get(name, '')}")

    def _kill(self) -> None:
        if (pid := self._context.process.pid) and not self._has_ended:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(pid, signal.SIGKILL)
            self._context.process.kill()  # it may not lead a group yet

    def end(self, is_gentle: bool = False) -> None:
        """End the process, with all that it has started; gently: it gets some time to end by itself."""
        self.is_retired = True
        self.expiry.cancel()
        self._executor.shutdown(wait=False)
        if is_gentle:
            self._context.process.join(GRACE)
        self._kill()
        self._has_ended = True


class _Context(SpawnContext):
    """Starts the process of a pool, also within a worker of Dask, and without the script that its parent runs."""

    process: SpawnProcess

    def Process(self, *args: Any, **options: Any) -> SpawnProcess:  # type: ignore[override]  # noqa: N802
        """The process, which is kept for its exit code."""
        self.process = _Process(*args, **options)
        return self.process


class _Process(SpawnProcess):
    def start(self) -> None:
        """Start the process as if this one were no daemon, and had no script."""
        parent, main = multiprocessing.current_process(), vars(sys.modules["__main__"])
        is_daemon, names = parent.daemon, {name: main[name] for name in main.keys() & {"__spec__", "__file__"}}
        parent.daemon = False  # workers of Dask are daemons, which may not start processes
        main["__spec__"] = None  # a script without `if __name__ == "__main__"` would start its work again
        main.pop("__file__", None)
        try:
            super().start()
        finally:
            parent.daemon = is_daemon
            main.update(names)


class _Processes:
    """The idle processes, the one that worked last at the end."""

    def __init__(self) -> None:
        self.starter = ThreadPoolExecutor(1, "distforest-starting")
        """Starts processes: Linux ends a process with the thread that started it, and this thread ends with Python."""
        self._lock = threading.Lock()
        self._all = WeakSet[Process]()
        self._idle: list[Process] = []

    def take(self, code: Code, concurrency: int, look: Callable[[], None]) -> Process:
        """A process that has loaded a function, an idle one if there is one; raises `Reason` if there can be none."""
        with self._lock:
            for process in reversed(self._idle):
                if process.is_sound and process.key == (code.key, concurrency):
                    self._idle.remove(process)
                    process.expiry.cancel()
                    return process
        process = Process(code, concurrency)
        self._all.add(process)
        process.load(look)
        return process

    def return_process(self, process: Process) -> None:
        """Keep a process for the next task, or end it."""
        if not process.is_sound:
            process.end()
            return
        process.expiry = threading.Timer(IDLE_SECONDS, self.expire, (process,))
        process.expiry.daemon = True
        process.expiry.start()
        with self._lock:
            self._idle.append(process)
            surplus, self._idle = self._idle[:-MOST_IDLE], self._idle[-MOST_IDLE:]
        for one in surplus:
            one.end()

    def expire(self, process: Process) -> None:
        """End a process that is still idle."""
        with self._lock:
            if process not in self._idle:
                return
            self._idle.remove(process)
        process.end(is_gentle=True)

    def end_all(self) -> None:
        """End all processes, whatever they do: Python would wait for their calls before it exits."""
        for process in list(self._all):
            process.end()

    def forget(self) -> None:
        """Forget all processes in a fork of the one that has started them."""
        self.__init__()  # type: ignore[misc]


PROCESSES = _Processes()
"""The processes of functions that this process has started."""

os.register_at_fork(after_in_child=PROCESSES.forget)
threading._register_atexit(PROCESSES.end_all)  # type: ignore[attr-defined]  # `atexit` comes too late
