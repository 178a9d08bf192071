"""The process of a user's function: it receives the function, then calls, and answers until the pipe is closed.

The function affects this process alone: it may print, fork, exit or crash.
"""

from __future__ import annotations

import asyncio
import ctypes
import faulthandler
import os
import signal
import sys
import threading
import time
from contextlib import suppress
from queue import SimpleQueue
from typing import TYPE_CHECKING

import numpy as np

from distforest.errors import InputError
from distforest.sources.lazy.callbacks import Late, PairFault, Pairwise, checked, is_async, reason_of
from distforest.sources.lazy.identity import UserFunction, resolve, signature
from distforest.sources.lazy.messages import Code, PartAnswer, packed_message, receive, send, unpacked

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from distforest.sources.lazy.messages import Call
    from distforest.sources.source import Floats

PIECE_SECONDS = 0.1
"""Seconds after which the values of a function of two objects are sent, so that they survive its process."""

_PARENT_DIES = 1  # PR_SET_PDEATHSIG


def serve_pipes(asks: int, answers: int, parent: int) -> None:
    """Serve the pipes ``asks`` and ``answers`` for the process ``parent``."""
    _end_with(parent)
    faulthandler.enable()  # a crash leaves its traceback in the worker's log
    _hide(asks, answers)
    answering = _Answering(answers)
    first = receive(asks)
    if first is None:
        return
    try:
        code, concurrency = unpacked(first[1])
        function = loaded(code)
    except BaseException as error:  # noqa: BLE001  (an import may raise anything, also SystemExit)
        cure = f"; install {error.name} where workers run" if isinstance(error, ModuleNotFoundError) else ""
        answering.send(0, PartAnswer(fault=f"its process cannot load it: {_exit_or_reason(error)}{cure}"))
        return
    answering.send(0, PartAnswer())
    serving = _Serving(function, answering)
    if is_async(function):
        asyncio.run(_serve_awaited(serving, asks))
    else:
        _serve(serving, asks, concurrency)


def loaded(code: Code) -> UserFunction:
    """Load the function to be called.

    Raises
    ------
    InputError
        Another function has its name here.

    Examples
    --------
    >>> import math
    >>> from distforest.sources.lazy.callbacks import Lazy
    >>> loaded(Code.named(Lazy(math.dist), "math:dist")) is math.dist
    True
    """
    if isinstance(code.held, bytes):
        function: UserFunction = unpacked(code.held)
        return function
    function = resolve(code.held)
    sha256 = str(signature(function, strict=False)["sha256"])
    if sha256 != code.sha256:
        raise InputError(
            f"its file has changed since the job began, or it holds another state: sha256 {code.sha256!r} was asked "
            f"for, found {sha256!r}; install one version everywhere and start again"
        )
    return function


def _end_with(parent: int) -> None:
    """Let the system end this process with its parent, even if the function never releases the interpreter."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PARENT_DIES, signal.SIGKILL)
    if os.getppid() != parent:  # the parent has died already
        os._exit(1)


def _hide(*pipes: int) -> None:
    """Hide pipes from processes that the function starts: a pipe ends only when all processes have closed it."""
    for pipe in pipes:
        os.set_inheritable(pipe, False)

    def close() -> None:
        for pipe in pipes:
            with suppress(OSError):
                os.close(pipe)

    os.register_at_fork(after_in_child=close)


def _exit_or_reason(error: BaseException) -> str:
    if isinstance(error, SystemExit):
        return f"it called sys.exit({'' if error.code is None else repr(error.code)})"
    return str(error) if isinstance(error, InputError) else reason_of(error)


class _Answering:
    """The pipe of answers, for several threads; a fork of this process answers nothing."""

    def __init__(self, pipe: int) -> None:
        self._pipe, self._pid, self._lock = pipe, os.getpid(), threading.Lock()

    def send(self, number: int, part: PartAnswer) -> None:
        """Send a part of the answer to call ``number``."""
        if os.getpid() != self._pid:
            os._exit(0)
        if part.is_last:
            for stream in (sys.stdout, sys.stderr):  # a process that is killed later cannot
                with suppress(Exception):
                    stream.flush()
        with self._lock:
            send(self._pipe, packed_message(number, part), lambda: None)


class _Pace:
    """Number of pairs per call of a function of two objects, so that a call takes about `PIECE_SECONDS`."""

    def __init__(self) -> None:
        self.size = 1

    def pieces(self, n: int) -> Iterator[slice]:
        """Consecutive parts of n pairs; the time of each sets the size of the next."""
        first = 0
        while first < n:
            start, piece = time.monotonic(), slice(first, min(n, first + self.size))
            yield piece
            took = time.monotonic() - start
            if took < PIECE_SECONDS / 2 and piece.stop - first == self.size:
                self.size *= 2
            elif took > PIECE_SECONDS:
                self.size = max(1, self.size // 2)
            first = piece.stop


class _Serving:
    """A function, and the pipe of its answers."""

    def __init__(self, function: UserFunction, answering: _Answering) -> None:
        self._function, self._answering = function, answering
        self._pace = _Pace() if isinstance(function, Pairwise) else None
        self._n_calls = 0
        self._lock = threading.Lock()

    @property
    def is_idle(self) -> bool:
        """Whether no call is in progress."""
        return not self._n_calls

    def begin(self) -> None:
        """Count a call that has arrived."""
        with self._lock:
            self._n_calls += 1

    def _end(self) -> None:
        with self._lock:
            self._n_calls -= 1

    def _pieces(self, n: int) -> Iterator[slice] | Sequence[slice]:
        return self._pace.pieces(n) if self._pace else [slice(0, n)]

    def call(self, number: int, body: bytes) -> None:
        """Call the function, and send its values."""
        try:
            call: Call = unpacked(body)
            for piece in self._pieces(len(call.left)):
                left, right = call.left[piece], call.right[piece]
                self._take(number, call, piece, self._function(left, right))
        except BaseException as error:  # noqa: BLE001  (a user's function may raise anything, also SystemExit)
            self._fail(number, error)
        finally:
            self._end()

    async def awaited(self, number: int, body: bytes) -> None:
        """Await the function, and send its values."""
        limit = asyncio.timeout(None)
        try:
            call: Call = unpacked(body)
            limit = asyncio.timeout(call.timeout)
            async with limit:
                for piece in self._pieces(len(call.left)):
                    left, right = call.left[piece], call.right[piece]
                    self._take(number, call, piece, await self._function(left, right))
        except BaseException as error:  # noqa: BLE001  (as above, and its own CancelledError)
            self._fail(number, Late(call.timeout or 0.0) if limit.expired() else error)
        finally:
            self._end()

    def _take(self, number: int, call: Call, piece: slice, raw: object) -> None:
        values = checked(raw, piece.stop - piece.start)
        self._answering.send(number, PartAnswer(values, piece.stop == len(call.left)))

    def _fail(self, number: int, error: BaseException) -> None:
        values: Floats = np.empty(0)
        is_exact = isinstance(error, PairFault)
        if isinstance(error, PairFault):
            values, error = np.array(error.values, np.float64), error.cause
        self._answering.send(number, PartAnswer(values, True, _exit_or_reason(error), is_exact))


def _serve(serving: _Serving, asks: int, concurrency: int) -> None:
    """Call the function in this thread, or if calls may run at once, each in a thread of its own."""
    calls: SimpleQueue[tuple[int, bytes] | None] = SimpleQueue()
    threading.Thread(target=_listen, args=(serving, asks, calls.put), daemon=True).start()
    while (message := calls.get()) is not None:
        if concurrency == 1:
            serving.call(*message)
        else:
            threading.Thread(target=serving.call, args=message, daemon=True).start()


async def _serve_awaited(serving: _Serving, asks: int) -> None:
    loop, calls = asyncio.get_running_loop(), asyncio.Queue[tuple[int, bytes] | None]()
    held = set[asyncio.Task[None]]()  # an event loop holds its tasks weakly

    def put(message: tuple[int, bytes] | None) -> None:
        loop.call_soon_threadsafe(calls.put_nowait, message)

    threading.Thread(target=_listen, args=(serving, asks, put), daemon=True).start()
    while (message := await calls.get()) is not None:
        task = asyncio.create_task(serving.awaited(*message))
        held.add(task)
        task.add_done_callback(held.discard)


def _listen(serving: _Serving, asks: int, put: Callable[[tuple[int, bytes] | None], None]) -> None:
    """Pass calls on; if the pipe ends during a call, end this process and all that it has started."""
    while (message := receive(asks)) is not None:
        serving.begin()
        put(message)
    if not serving.is_idle:
        os.killpg(0, signal.SIGKILL)
    put(None)
