"""A user's function in a process of its own: a hang is ended, and the death of the process is an ordinary fault.

A process is started for a function at its first call, and kept for the next batches. It is not started by
`multiprocessing`, as Dask's workers may not have such children.
"""

from __future__ import annotations

import itertools
import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING

import numpy as np

from distforest.sources.lazy.callbacks import AskingPolicy, Late, PairFault, Reason, answers
from distforest.sources.lazy.messages import (
    MESSAGE_TICK,
    Call,
    Code,
    PartAnswer,
    packed_message,
    receive,
    send,
    unpacked,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from distforest.sources.lazy.callbacks import Batch, FunctionAnswer, Lazy
    from distforest.sources.lazy.identity import Items
    from distforest.sources.lazy.source import Ask
    from distforest.sources.source import Floats

GRACE, LAST_SECONDS = 5.0, 1.0
"""Seconds in which a late coroutine must be cancelled and a process without work must end; and seconds in which a
process must end that has closed its pipe."""

IDLE_SECONDS, SPARE = 30.0, 4
"""Seconds for which an idle process is kept, and how many more are kept than ever worked at once."""

PROGRAM = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[4]); "
    "from distforest.sources.lazy.calling import serve_pipes; serve_pipes(*map(int, sys.argv[1:4]))"
)

_STARTING = ThreadPoolExecutor(1, "distforest-starting")
"""Starts processes: Linux ends a process with the thread that started it, and this thread lives as long as Python."""

_THREAD = threading.local()


def _look_at_nothing() -> None:
    """Look at nothing, and never raise."""


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

    A process that hangs is ended after ``policy.timeout``; a process that dies is replaced by another one. Both are
    faults of the calls in progress. The values of a function of two objects that have arrived by then are kept.

    Examples
    --------
    >>> from distforest.sources.lazy.callbacks import Batch, Lazy
    >>> code, batch = Code.pickled(Lazy(np.subtract)), Batch([1, 2], [3, 4], [(0, 2), (1, 3)])
    >>> [one.values.tolist() for _, one in answers_apart(code, [batch], AskingPolicy(), 1)]
    [[-2.0, -2.0]]
    >>> code = Code.pickled(Lazy(lambda left, right: os._exit(3)))
    >>> [one.error for _, one in answers_apart(code, [batch], AskingPolicy(retries=0), 1)]
    ['...failed at pairs (0, 2) to (1, 3), 2 of them, tried 1 time: its process ended with exit code 3']
    """
    function = _Apart(code, policy.timeout, concurrency, getattr(_THREAD, "look", None) or _look_at_nothing)
    try:
        yield from answers(function, batches, AskingPolicy(policy.retries), concurrency)
    finally:
        function.close()


class _Apart:
    """Stands in for a function, for several threads at once; starts another process when one has died."""

    def __init__(self, code: Code, timeout: float | None, concurrency: int, look: Callable[[], None]) -> None:
        self.__module__, _, self.__qualname__ = code.name.partition(":")  # as messages name it
        self._code, self._concurrency, self._timeout, self._look = code, concurrency, timeout, look
        self._lock = threading.Lock()
        self._processes: list[Process] = []
        self._is_closed = False

    def __call__(self, left: Items, right: Items) -> Floats:
        """Values of the pairs, shape (n,)."""
        return self._process().ask(Call(left, right, self._timeout), self._look)

    def _process(self) -> Process:
        with self._lock:
            if self._is_closed:
                raise Reason("stopped")
            if not self._processes or self._processes[-1].is_retired:
                self._processes.append(PROCESSES.take(self._code, self._concurrency))
                self._processes[-1].load(self._code, self._look)
            return self._processes[-1]

    def close(self) -> None:
        """Keep the process for others, or end it if a call is still in progress."""
        with self._lock:
            self._is_closed = True
            for process in self._processes:
                PROCESSES.give_back(process)


class Process:
    """A process that calls one function, for one task at a time, which may make several calls at once."""

    def __init__(self, code: Code, concurrency: int) -> None:
        self.key = code.key, concurrency
        """Identifies its function; the function itself, which may be large, is not kept here."""
        self.is_retired = False
        """Whether it takes no further calls."""
        self._is_async, self._concurrency = code.is_async, concurrency
        self._is_loaded = self._has_ended = self._has_hung_up = False
        self._waiting: dict[int, SimpleQueue[PartAnswer | None]] = {0: SimpleQueue()}
        self._numbers = itertools.count(1)
        self._lock, self._sending = threading.Lock(), threading.Lock()
        asks, self._asks = os.pipe()
        self._answers, answering = os.pipe()
        os.set_blocking(self._asks, False)
        path = json.dumps([place for place in sys.path if isinstance(place, str)])
        command = [sys.executable, "-P", "-c", PROGRAM, *map(str, (asks, answering, os.getpid())), path]
        start = partial(
            subprocess.Popen[bytes],
            command,
            stdin=subprocess.DEVNULL,
            pass_fds=(asks, answering),
            start_new_session=True,  # so that Ctrl-C does not reach it, and all that the function starts ends with it
        )
        try:
            self._process = _STARTING.submit(start).result()
        except OSError as error:
            os.close(self._asks)
            os.close(self._answers)
            raise Reason(f"no process could be started for it: {error}") from error
        finally:
            os.close(asks)
            os.close(answering)
        threading.Thread(target=self._receive, name="distforest-receiving", daemon=True).start()

    @property
    def is_sound(self) -> bool:
        """Whether it is ready for calls."""
        return self._is_loaded and not self.is_retired and not self._has_ended and not self._waiting

    def load(self, code: Code, look: Callable[[], None]) -> None:
        """Send the function, unless it was sent before, and wait until it is loaded there; raises `Reason`."""
        if self._is_loaded:
            return
        waiting = self._waiting[0]
        try:
            self._send(packed_message(0, (code, self._concurrency)), look)
            part = self._next_part(waiting, look)
            self._is_loaded = part is not None and part.fault is None
        finally:
            self._waiting.pop(0)
            if not self._is_loaded:
                self.end()
        if not self._is_loaded:
            raise Reason(part.fault if part and part.fault else f"while it was loaded {self._end_in_words()}")

    def ask(self, call: Call, look: Callable[[], None]) -> Floats:
        """The values of a call's pairs.

        Raises
        ------
        PairFault
            The function failed or did not answer in time, or its process has ended.
        """
        number, waiting = next(self._numbers), SimpleQueue[PartAnswer | None]()
        with self._lock:
            self._waiting[number] = waiting
            if self._has_ended:
                waiting.put(None)
        values: list[Floats] = [np.empty(0)]
        part = PartAnswer(is_last=False)
        deadline = _Deadline(call.timeout, self._is_async, look)
        try:
            self._send(packed_message(number, call), deadline.check)
            while not part.is_last:
                part = self._next_part(waiting, deadline.check, deadline) or self._ended()
                values.append(part.values)
        except Late as late:
            self.is_retired = True
            raise _fault(values, late) from None
        except BaseException:  # nobody waits for the answer any more
            self.end()
            raise
        finally:
            with self._lock:
                self._waiting.pop(number)
                is_over = self.is_retired and not self._waiting
            if is_over:
                self.end()
        if part.fault:
            raise _fault(values, Reason(part.fault), part.is_exact)
        return np.concatenate(values)

    def _send(self, message: bytes, look: Callable[[], None]) -> None:
        """Write a message; one that is cut off ends the process, as no later message could be read."""
        with self._sending:
            if self._asks < 0:
                return
            try:
                send(self._asks, message, look)
            except OSError:  # it has ended, which `_receive` finds out
                return
            except BaseException:
                self.end()
                raise

    def _next_part(
        self, waiting: SimpleQueue[PartAnswer | None], look: Callable[[], None], deadline: _Deadline | None = None
    ) -> PartAnswer | None:
        """The next part of an answer; None once the process has ended."""
        is_dead = False
        while True:
            try:
                return waiting.get(timeout=deadline.wait() if deadline else MESSAGE_TICK)
            except Empty:
                look()
            if is_dead:
                return None  # the pipe has no end, as a process that it has started holds it
            is_dead = self._process.poll() is not None

    def _receive(self) -> None:
        """Pass answers on until the pipe ends; end an idle process after a while."""
        coming = select.poll()
        coming.register(self._answers, select.POLLIN)
        while True:
            if not coming.poll(IDLE_SECONDS * 1000) and PROCESSES.drop(self):
                self.end(is_gentle=True)
            try:
                message = receive(self._answers)
                part = None if message is None else unpacked(message[1])
            except Exception:  # noqa: BLE001  (the function has written into the pipe itself)
                message = None
            if message is None:
                break
            with self._lock:
                waiting = self._waiting.get(message[0])
            if waiting:
                waiting.put(part)
        os.close(self._answers)
        PROCESSES.drop(self)
        self._reap()
        with self._lock:
            self._has_ended = self.is_retired = True
            for waiting in self._waiting.values():
                waiting.put(None)
        self._close()

    def _reap(self) -> None:
        try:
            self._process.wait(LAST_SECONDS)
        except subprocess.TimeoutExpired:
            self._has_hung_up = True
            self._kill()
            self._process.wait()
        self._kill()  # processes that it has started and left behind

    def _ended(self) -> PartAnswer:
        self.is_retired = True
        return PartAnswer(fault=self._end_in_words())

    def _end_in_words(self) -> str:
        code = self._process.returncode
        if self._has_hung_up or code is None:
            return "its process has closed the pipe on which it answers"
        if code >= 0:
            return f"its process ended with exit code {code}"
        name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
        memory = "; the system does so where memory is short" if name == "SIGKILL" else ""
        return f"its process was ended by {name}{memory}"

    def _kill(self) -> None:
        if not self._has_ended:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)

    def _close(self) -> None:
        with self._sending:
            if self._asks >= 0:
                os.close(self._asks)
            self._asks = -1

    def end(self, is_gentle: bool = False) -> None:
        """End the process, with all that it has started; gently: it gets some time to end by itself."""
        self.is_retired = True
        if is_gentle:
            self._close()
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(GRACE)
        self._kill()


def _fault(values: list[Floats], reason: Reason, is_exact: bool = False) -> PairFault:
    kept = np.concatenate(values)
    return PairFault(kept, len(kept), reason, is_exact)


class _Deadline:
    """The time until which an answer must arrive, if there is one; a coroutine is cancelled in its process first."""

    def __init__(self, timeout: float | None, is_async: bool, look: Callable[[], None]) -> None:
        self._timeout, self._look = timeout, look
        grace = GRACE if is_async else 0.0
        self._end = float("inf") if timeout is None else time.monotonic() + timeout + grace

    def wait(self) -> float:
        """Seconds until the next look."""
        return max(0.0, min(MESSAGE_TICK, self._end - time.monotonic()))

    def check(self) -> None:
        """Raise `Late` once the time has passed, or the error of ``look``."""
        self._look()
        if self._timeout is not None and time.monotonic() >= self._end:
            raise Late(self._timeout)


class _Processes:
    """The idle processes, the one that worked last at the end."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: list[Process] = []
        self._at_work = self._most = 0

    def take(self, code: Code, concurrency: int) -> Process:
        """A process for a function, an idle one if there is one; raises `Reason` if none can be started."""
        with self._lock:
            fitting = [one for one in self._idle if one.is_sound and one.key == (code.key, concurrency)]
            if fitting:
                self._idle.remove(fitting[-1])
        process = fitting[-1] if fitting else Process(code, concurrency)
        with self._lock:
            self._at_work += 1
            self._most = max(self._most, self._at_work)
        return process

    def give_back(self, process: Process) -> None:
        """Keep a process for the next task, or end it."""
        with self._lock:
            self._at_work -= 1
            ending = [] if process.is_sound else [process]
            if not ending:
                self._idle.append(process)
            surplus = max(0, len(self._idle) - self._most - SPARE)
            ending += self._idle[:surplus]
            self._idle = self._idle[surplus:]
        for one in ending:
            one.end()

    def drop(self, process: Process) -> bool:
        """Remove a process from the idle ones; return whether it was one."""
        with self._lock:
            is_idle = process in self._idle
            if is_idle:
                self._idle.remove(process)
            return is_idle


PROCESSES = _Processes()
"""The processes of functions that this process has started."""
