"""A user's function in a process of its own: what is sent to it, and what runs there.

The process loads the function, calls it, and returns values as they come. The function affects this process alone: it
may print, fork, exit or crash. The pickles are made by this process and its parent, or are the function and the objects
that Dask has delivered as pickles. Nothing comes from a file.
"""

from __future__ import annotations

import ctypes
import faulthandler
import hashlib
import multiprocessing
import os
import pickle
import signal
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, NamedTuple

import cloudpickle
import numpy as np

from distforest.errors import InputError
from distforest.sources.lazy.callbacks import (
    Late,
    PairFault,
    Pairwise,
    awaited,
    checked,
    is_async,
    reason_of,
    running_loop,
)
from distforest.sources.lazy.identity import Items, UserFunction, name_of, resolve, signature

if TYPE_CHECKING:
    from collections.abc import Iterator

    from distforest.sources.lazy.callbacks import Lazy
    from distforest.sources.source import Floats

PIECE_SECONDS = 0.1
"""Seconds after which the values of a function of two objects are returned, so that they survive its process."""

_PARENT_DIES = 1  # PR_SET_PDEATHSIG

_FUNCTIONS: list[_Function] = []  # the one that this process calls


@dataclass(frozen=True)
class Code:
    """A function as it is sent to the process that calls it.

    Attributes
    ----------
    name
        ``module:function``, for messages.
    sha256
        sha256 of its signature, as the function of a name may change.
    is_async
        Whether it must be awaited.
    held
        The pickled function; or the name to import it by, which is refused if its signature has changed.
    digest
        sha256 of the pickle.
    """

    name: str
    sha256: str
    is_async: bool
    held: bytes | str
    digest: str = ""

    @classmethod
    def named(cls, lazy: Lazy, name: str) -> Code:
        """The function of a similarity, to be imported by its name."""
        return cls(name_of(lazy.function), str(lazy.signature["sha256"]), is_async(lazy.function), name)

    @classmethod
    def pickled(cls, lazy: Lazy) -> Code:
        """The function of a similarity, pickled.

        Raises
        ------
        InputError
            The function cannot be pickled.
        """
        name = name_of(lazy.function)
        try:
            held = cloudpickle.dumps(lazy.function)
        except Exception as error:  # an object may raise anything to refuse
            raise InputError(
                f"{name} cannot be sent to the workers ({type(error).__name__}: {error}); write a function of a module "
                "that makes what it needs when it is called"
            ) from error
        digest = hashlib.sha256(held).hexdigest()
        return cls(name, str(lazy.signature["sha256"]), is_async(lazy.function), held, digest)

    @property
    def key(self) -> tuple[str, str, str]:
        """Equal for equal functions."""
        return self.name, self.sha256, self.digest or str(self.held)


class Call(NamedTuple):
    """Two equally long sequences of objects, and the seconds that the answer may take."""

    left: Items
    right: Items
    timeout: float | None


class PartAnswer(NamedTuple):
    """A part of the answer to a call.

    Attributes
    ----------
    values
        Values of the next pairs.
    is_last
        Whether this is the last part.
    fault
        The error that stopped the call, if any.
    is_exact
        Whether it stopped at the pair right after ``values``, and not at a later one.
    """

    values: Floats = np.empty(0)
    is_last: bool = True
    fault: str | None = None
    is_exact: bool = False


def packed_message(content: object) -> bytes:
    """Pickle a message; `cloudpickle` pickles what only it can, such as objects of a notebook's classes.

    Examples
    --------
    >>> unpacked(packed_message([1, None]))
    [1, None]
    """
    try:
        return pickle.dumps(content, pickle.HIGHEST_PROTOCOL)
    except Exception:  # noqa: BLE001  (an object may raise anything to refuse)
        return cloudpickle.dumps(content)


def unpacked(body: bytes) -> Any:
    """The content of a message."""
    return pickle.loads(body)  # noqa: S301  (made by these two processes)


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
    """A function and its calls in progress: one in the main thread, or several in threads."""

    def __init__(self, function: UserFunction, concurrency: int) -> None:
        self._function, self._pid, self._is_alone = function, os.getpid(), concurrency == 1
        self._pace = _Pace() if isinstance(function, Pairwise) else None
        self._current: dict[int, Iterator[PartAnswer]] = {}
        self._parts: SimpleQueue[tuple[int, PartAnswer]] = SimpleQueue()
        self._running = running_loop() if is_async(function) else None  # held: it would end the loop
        self._loop = self._running.__enter__() if self._running else None

    def answer(self, calls: list[tuple[int, bytes]]) -> list[tuple[int, PartAnswer]]:
        """As the function `answer` does."""
        if self._is_alone:
            self._current = {number: self._call(body) for number, body in calls} or self._current
            return [(number, next(parts)) for number, parts in self._current.items()]
        for number, body in calls:
            threading.Thread(target=self._call_in_thread, args=(number, body), daemon=True).start()
        parts = [self._parts.get()]
        while not self._parts.empty():
            parts.append(self._parts.get())
        return parts

    def _call_in_thread(self, number: int, body: bytes) -> None:
        for part in self._call(body):
            self._parts.put((number, part))

    def _call(self, body: bytes) -> Iterator[PartAnswer]:
        """The values of a call, in parts of about `PIECE_SECONDS` for a function of two objects."""
        timeout = None
        try:
            left, right, timeout = unpacked(body)
            end = None if timeout is None else time.monotonic() + timeout
            for piece in self._pace.pieces(len(left)) if self._pace else [slice(0, len(left))]:
                if self._loop is None:
                    raw = self._function(left[piece], right[piece])
                else:
                    rest = None if end is None else end - time.monotonic()
                    raw = awaited(self._loop, self._await, rest, left[piece], right[piece])
                self._end_fork()
                yield PartAnswer(checked(raw, len(left[piece])), piece.stop == len(left))
        except GeneratorExit:
            raise
        except PairFault as error:
            self._end_fork()
            yield PartAnswer(np.array(error.values, np.float64), True, _exit_or_reason(error.cause), True)
        except BaseException as error:  # noqa: BLE001  (a user's function may raise anything, also SystemExit)
            self._end_fork()
            reason = _exit_or_reason(Late(timeout or 0.0) if isinstance(error, Late) else error)
            yield PartAnswer(np.empty(0), True, reason)

    async def _await(self, left: Items, right: Items) -> object:
        try:
            return await self._function(left, right)
        finally:
            self._end_fork()  # in a copy nobody waits for the loop

    def _end_fork(self) -> None:
        """End a copy of this process that the function has made, which would answer, too."""
        if os.getpid() != self._pid:
            os._exit(0)
