"""What runs in the process of a user's function: it loads the function, calls it, and hands over values as they come.

The function affects this process alone: it may print, fork, exit or crash.
"""

from __future__ import annotations

import asyncio
import ctypes
import faulthandler
import multiprocessing
import os
import signal
import sys
import threading
import time
from concurrent.futures import Future
from contextlib import suppress
from queue import SimpleQueue
from typing import TYPE_CHECKING

import numpy as np

from distforest.errors import InputError
from distforest.sources.lazy.callbacks import Late, PairFault, Pairwise, checked, is_async, reason_of
from distforest.sources.lazy.identity import UserFunction, resolve, signature
from distforest.sources.lazy.messages import Code, PartAnswer, unpacked

if TYPE_CHECKING:
    from collections.abc import Iterator

    from distforest.sources.lazy.messages import Call

PIECE_SECONDS = 0.1
"""Seconds after which the values of a function of two objects are handed over, so that they survive its process."""

_PARENT_DIES = 1  # PR_SET_PDEATHSIG

_FUNCTIONS: list[_Function] = []  # the one that this process calls


def begin() -> None:
    """Let all that the function starts end with this process, and this process end with its parent."""
    os.setsid()  # also, Ctrl-C does not reach it
    multiprocessing.current_process().daemon = False  # as its parent may be: the function may start processes
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # an interrupt ends it, whatever thread runs the function
    faulthandler.enable()  # a crash leaves its traceback in the worker's log
    if sys.platform == "linux":  # even if the function never releases the interpreter
        ctypes.CDLL(None).prctl(_PARENT_DIES, signal.SIGKILL)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent:
        parent.join()
    os.killpg(0, signal.SIGKILL)


def load_function(packed_code: bytes, concurrency: int) -> str | None:
    """Load the function that this process is to call; return the reason if that fails."""
    try:
        _FUNCTIONS.append(_Function(loaded(unpacked(packed_code)), concurrency))
    except BaseException as error:  # noqa: BLE001  (an import may raise anything, also SystemExit)
        cure = f"; install {error.name} where workers run" if isinstance(error, ModuleNotFoundError) else ""
        return f"its process cannot load it: {_exit_or_reason(error)}{cure}"
    return None


def answer(calls: list[tuple[int, bytes]]) -> list[tuple[int, PartAnswer]]:
    """Begin some numbered calls, wait until one of those in progress has values, and return what is there."""
    try:
        return _FUNCTIONS[0].answer(calls)
    finally:
        for stream in (sys.stdout, sys.stderr):  # a process that is killed later cannot
            with suppress(Exception):
                stream.flush()


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


def _exit_or_reason(error: BaseException) -> str:
    if isinstance(error, SystemExit):
        return f"it called sys.exit({'' if error.code is None else repr(error.code)})"
    return str(error) if isinstance(error, InputError) else reason_of(error)


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


class _Function:
    """A function and its calls in progress: one in the main thread, or several in threads or on an event loop."""

    def __init__(self, function: UserFunction, concurrency: int) -> None:
        self._function, self._pid = function, os.getpid()
        self._pace = _Pace() if isinstance(function, Pairwise) else None
        self._is_alone, self._is_async = concurrency == 1 and not is_async(function), is_async(function)
        self._current: dict[int, Iterator[PartAnswer]] = {}
        self._parts: SimpleQueue[tuple[int, PartAnswer]] = SimpleQueue()
        self._held = set[Future[None]]()  # an event loop holds its tasks weakly
        if self._is_async:
            self._loop = asyncio.new_event_loop()
            threading.Thread(target=self._loop.run_forever, daemon=True).start()

    def answer(self, calls: list[tuple[int, bytes]]) -> list[tuple[int, PartAnswer]]:
        """As the function `answer` does."""
        if self._is_alone:
            self._current = {number: self._call(body) for number, body in calls} or self._current
            return [(number, next(parts)) for number, parts in self._current.items()]
        for number, body in calls:
            if self._is_async:
                future = asyncio.run_coroutine_threadsafe(self._await(number, body), self._loop)
                self._held.add(future)
                future.add_done_callback(self._held.discard)
            else:
                threading.Thread(target=self._call_in_thread, args=(number, body), daemon=True).start()
        parts = [self._parts.get()]
        while not self._parts.empty():
            parts.append(self._parts.get())
        return parts

    def _call(self, body: bytes) -> Iterator[PartAnswer]:
        """The values of a call, in parts of about `PIECE_SECONDS` for a function of two objects."""
        try:
            call: Call = unpacked(body)
            for piece in self._pieces(len(call.left)):
                yield self._part(call, piece, self._function(call.left[piece], call.right[piece]))
        except GeneratorExit:
            raise
        except BaseException as error:  # noqa: BLE001  (a user's function may raise anything, also SystemExit)
            yield self._fault(error)

    def _call_in_thread(self, number: int, body: bytes) -> None:
        for part in self._call(body):
            self._parts.put((number, part))

    async def _await(self, number: int, body: bytes) -> None:
        limit = asyncio.timeout(None)
        try:
            call: Call = unpacked(body)
            limit = asyncio.timeout(call.timeout)
            async with limit:
                for piece in self._pieces(len(call.left)):
                    raw = await self._function(call.left[piece], call.right[piece])
                    self._parts.put((number, self._part(call, piece, raw)))
        except BaseException as error:  # noqa: BLE001  (as above, and its own CancelledError)
            self._parts.put((number, self._fault(Late(call.timeout or 0.0) if limit.expired() else error)))

    def _pieces(self, n: int) -> Iterator[slice]:
        return self._pace.pieces(n) if self._pace else iter([slice(0, n)])

    def _part(self, call: Call, piece: slice, raw: object) -> PartAnswer:
        self._end_fork()
        return PartAnswer(checked(raw, piece.stop - piece.start), piece.stop == len(call.left))

    def _fault(self, error: BaseException) -> PartAnswer:
        self._end_fork()
        if isinstance(error, PairFault):
            return PartAnswer(np.array(error.values, np.float64), True, _exit_or_reason(error.cause), True)
        return PartAnswer(np.empty(0), True, _exit_or_reason(error))

    def _end_fork(self) -> None:
        """End a copy of this process that the function has made, which would answer, too."""
        if os.getpid() != self._pid:
            os._exit(0)
