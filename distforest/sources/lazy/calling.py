"""The process of a user's function: it is told the function, then calls; it answers until nobody asks any more.

Whatever the function does, it does to this process alone: it may print, fork, exit or crash.
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
from distforest.sources.lazy.messages import Code, FunctionWarning, packed_message, receive, send, unpacked

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from distforest.sources.lazy.messages import Call
    from distforest.sources.source import Floats

PIECE_SECONDS = 0.1
"""A function of two objects is asked for about so much at once, and its values are told: they outlive the process."""

_PARENT_DIES = 1  # PR_SET_PDEATHSIG


def serve_pipes(asks: int, answers: int, parent: int) -> None:
    """Serve the pipes ``asks`` and ``answers`` for the process ``parent``."""
    _end_with(parent)
    faulthandler.enable()  # a crash tells in the worker's log where it came from
    _keep(asks, answers)
    answering = _Answering(answers)
    first = receive(asks)
    if first is None:
        return
    try:
        code, concurrency = unpacked(first[1])
        function = loaded(code)
    except BaseException as error:  # noqa: BLE001  (an import may raise anything, also SystemExit)
        answering.tell(0, FunctionWarning(fault=f"its process cannot load it: {_exit_or_reason(error)}"))
        return
    answering.tell(0, FunctionWarning())
    serving = _Serving(function, answering)
    if is_async(function):
        asyncio.run(_serve_awaited(serving, asks))
    else:
        _serve(serving, asks, concurrency)


def loaded(code: Code) -> UserFunction:
    """The function that is to be called.

    Raises
    ------
    InputError
        Its name stands for another function here.

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
    found = str(signature(function, strict=False)["sha256"])
    if found != code.sha256:
        raise InputError(
            f"its file has changed since the job began, or it holds another state: sha256 {code.sha256!r} was asked "
            f"for, found {found!r}; install one version everywhere and start again"
        )
    return function


def _end_with(parent: int) -> None:
    """Let the system end this process with its parent, even if the function never gives the interpreter back."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PARENT_DIES, signal.SIGKILL)
    if os.getppid() != parent:  # it has died already
        os._exit(1)


def _keep(*pipes: int) -> None:
    """Keep pipes from the processes that the function starts: their end would not show while one of them lives."""
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
    """The pipe of answers, for several threads; a copy of this process that the function has made answers nothing."""

    def __init__(self, pipe: int) -> None:
        self._pipe, self._pid, self._lock = pipe, os.getpid(), threading.Lock()

    def tell(self, number: int, told: FunctionWarning) -> None:
        """Tell what call ``number`` has given."""
        if os.getpid() != self._pid:
            os._exit(0)
        if told.is_last:
            for stream in (sys.stdout, sys.stderr):  # a process that is killed later prints no more
                with suppress(Exception):
                    stream.flush()
        with self._lock:
            send(self._pipe, packed_message(number, told), lambda: None)


class _Pace:
    """How many pairs a function of two objects is asked for at once, so that a piece takes about `PIECE_SECONDS`."""

    def __init__(self) -> None:
        self.size = 1

    def pieces(self, n: int) -> Iterator[slice]:
        """Parts of n pairs, in their order, each as large as the one before it advises."""
        first = 0
        while first < n:
            begun, piece = time.monotonic(), slice(first, min(n, first + self.size))
            yield piece
            took = time.monotonic() - begun
            if took < PIECE_SECONDS / 2 and piece.stop - first == self.size:
                self.size *= 2
            elif took > PIECE_SECONDS:
                self.size = max(1, self.size // 2)
            first = piece.stop


class _Serving:
    """A function, and where its answers go."""

    def __init__(self, function: UserFunction, answering: _Answering) -> None:
        self._function, self._answering = function, answering
        self._pace = _Pace() if isinstance(function, Pairwise) else None
        self._at_work = 0
        self._lock = threading.Lock()

    @property
    def is_idle(self) -> bool:
        """Whether no call is under way."""
        return not self._at_work

    def begin(self) -> None:
        """Count a call that has come."""
        with self._lock:
            self._at_work += 1

    def _end(self) -> None:
        with self._lock:
            self._at_work -= 1

    def _pieces(self, n: int) -> Iterator[slice] | Sequence[slice]:
        return self._pace.pieces(n) if self._pace else [slice(0, n)]

    def call(self, number: int, body: bytes) -> None:
        """Call the function, and tell what it gives."""
        try:
            asked: Call = unpacked(body)
            for piece in self._pieces(len(asked.left)):
                left, right = asked.left[piece], asked.right[piece]
                self._take(number, asked, piece, self._function(left, right))
        except BaseException as error:  # noqa: BLE001  (whatever a user's function raises, also SystemExit)
            self._fail(number, error)
        finally:
            self._end()

    async def awaited(self, number: int, body: bytes) -> None:
        """Await the function, and tell what it gives."""
        limit = asyncio.timeout(None)
        try:
            asked: Call = unpacked(body)
            limit = asyncio.timeout(asked.timeout)
            async with limit:
                for piece in self._pieces(len(asked.left)):
                    left, right = asked.left[piece], asked.right[piece]
                    self._take(number, asked, piece, await self._function(left, right))
        except BaseException as error:  # noqa: BLE001  (as above, and its own CancelledError)
            self._fail(number, Late(asked.timeout or 0.0) if limit.expired() else error)
        finally:
            self._end()

    def _take(self, number: int, asked: Call, piece: slice, raw: object) -> None:
        values = checked(raw, piece.stop - piece.start)
        self._answering.tell(number, FunctionWarning(values, piece.stop == len(asked.left)))

    def _fail(self, number: int, error: BaseException) -> None:
        values: Floats = np.empty(0)
        is_exact = isinstance(error, PairFault)
        if isinstance(error, PairFault):
            values, error = np.array(error.values, np.float64), error.cause
        self._answering.tell(number, FunctionWarning(values, True, _exit_or_reason(error), is_exact))


def _serve(serving: _Serving, asks: int, concurrency: int) -> None:
    """Call in this thread, or where several calls may run at once in one each."""
    calls: SimpleQueue[tuple[int, bytes] | None] = SimpleQueue()
    threading.Thread(target=_listen, args=(serving, asks, calls.put), daemon=True).start()
    while (asked := calls.get()) is not None:
        if concurrency == 1:
            serving.call(*asked)
        else:
            threading.Thread(target=serving.call, args=asked, daemon=True).start()


async def _serve_awaited(serving: _Serving, asks: int) -> None:
    loop, calls = asyncio.get_running_loop(), asyncio.Queue[tuple[int, bytes] | None]()
    held = set[asyncio.Task[None]]()  # a loop refers to its tasks weakly

    def put(asked: tuple[int, bytes] | None) -> None:
        loop.call_soon_threadsafe(calls.put_nowait, asked)

    threading.Thread(target=_listen, args=(serving, asks, put), daemon=True).start()
    while (asked := await calls.get()) is not None:
        task = asyncio.create_task(serving.awaited(*asked))
        held.add(task)
        task.add_done_callback(held.discard)


def _listen(serving: _Serving, asks: int, put: Callable[[tuple[int, bytes] | None], None]) -> None:
    """Hand calls on; where nobody waits for one that is under way, end this process and all that it has started."""
    while (asked := receive(asks)) is not None:
        serving.begin()
        put(asked)
    if not serving.is_idle:
        os.killpg(0, signal.SIGKILL)
    put(None)
