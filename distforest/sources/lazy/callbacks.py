"""Calls of the user's function: in batches, with retries, a timeout, and limited concurrency."""

from __future__ import annotations

import asyncio
import functools
import inspect
import math
import os
import sys
import threading
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from dataclasses import KW_ONLY, dataclass, field
from numbers import Integral, Real
from queue import SimpleQueue
from typing import TYPE_CHECKING, Protocol, SupportsFloat, SupportsIndex

import numpy as np

from distforest.amounts import counted
from distforest.errors import InputError
from distforest.sources.given import unmasked
from distforest.sources.lazy.identity import Items, UserFunction, name_of, signature
from distforest.sources.source import NUMBERS
from distforest.threads import in_thread

if TYPE_CHECKING:
    from distforest.sources.source import Floats

THREAD = "distforest-similarity"
"""The name of a thread in which a function is called."""

_GRACE = 5.0  # seconds until the thread of a loop whose coroutines were cancelled is abandoned


@dataclass(frozen=True, eq=False)
class Lazy:
    """Similarity or distance that a function evaluates, only for the pairs that a forest needs.

    Parameters
    ----------
    function
        Takes two sequences of objects of the same length and returns as many numbers. NaN, None or a masked value means
        unobserved. A coroutine function is awaited. `pairwise` makes such a function from one of two objects.
    objects
        The objects, shape (n,), if rows are positions in them; None: rows are the objects themselves.
    symmetric
        Whether (a, b) and (b, a) are the same pair.
    kind
        ``"similarity"`` or ``"distance"``.
    batch_size, concurrency
        The maximum number of pairs in a call, and of concurrent calls.
    retries, timeout
        How often a failed pair is evaluated again, and the maximum seconds of a call.
    budget
        The maximum number of pairs that a fit may evaluate.
    ledger
        Path of the file that records all values.
    share
        In a job, ``"all"``: one process evaluates for all workers; ``"worker"``: each worker evaluates for itself.

    Raises
    ------
    InputError
        Arguments are invalid; the message names each of them on a separate line.

    Examples
    --------
    >>> lazy = Lazy(pairwise(lambda a, b: abs(a - b)), kind="distance", budget=100)
    >>> lazy.kind, lazy.batch_size
    ('distance', 1000)
    """

    function: UserFunction
    objects: object = field(default=None, repr=False)
    _: KW_ONLY
    symmetric: bool = True
    kind: str = "similarity"
    batch_size: int = 1000
    concurrency: int = 1
    retries: int = 2
    timeout: float | None = None
    budget: int | None = None
    ledger: str | os.PathLike[str] | None = None
    share: str = "all"

    def __post_init__(self) -> None:
        faults = [
            f"{name} must be {wanted}, found {getattr(self, name)!r}"
            for name, wanted, is_right in (
                ("function", "callable", callable(self.function)),
                ("symmetric", "True or False", isinstance(self.symmetric, (bool, np.bool_))),
                ("kind", "'similarity' or 'distance'", self.kind in ("similarity", "distance")),
                ("batch_size", "an integer of at least 1", _is_count(self.batch_size, 1)),
                ("concurrency", "an integer of at least 1", _is_count(self.concurrency, 1)),
                ("retries", "an integer of at least 0", _is_count(self.retries, 0)),
                ("timeout", "seconds above 0 or None", self.timeout is None or _is_time(self.timeout)),
                ("budget", "an integer of at least 0 or None", self.budget is None or _is_count(self.budget, 0)),
                ("ledger", "a path or None", self.ledger is None or isinstance(self.ledger, (str, os.PathLike))),
                ("share", "'all' or 'worker'", self.share in ("all", "worker")),
            )
            if not is_right
        ]
        if self.share == "worker":
            faults += [
                f"share='worker' cannot go with {name}, found {name}={getattr(self, name)!r}: "
                "each worker would pay for itself; leave one of them out"
                for name in ("budget", "ledger")
                if getattr(self, name) is not None
            ]
        if faults:
            raise InputError("\n".join(faults))

    @property
    def signature(self) -> dict[str, str | None]:
        """Return the signature of the function; with a ledger, refuse a state that cannot be compared."""
        return signature(self.function, strict=self.ledger is not None)

    def __deepcopy__(self, memo: dict[int, object]) -> Lazy:
        # It never changes, objects may be many, and a function may hold a connection.
        return self


def _is_count(value: object, least: int) -> bool:
    return not isinstance(value, bool) and isinstance(value, Integral) and int(value) >= least


def _is_time(value: object) -> bool:
    return not isinstance(value, bool) and isinstance(value, Real) and 0 < float(value) < float("inf")


class PairFault(Exception):  # noqa: N818 - it carries values, and no user sees it
    """Failure of a call by the error ``cause``; ``values`` are those of the pairs before.

    Unless ``is_exact``, the pair at fault may be a later one than the next.
    """

    def __init__(self, values: Sequence[float] | Floats, cause: BaseException, is_exact: bool = True) -> None:
        super().__init__(values, cause)
        self.values, self.cause, self.is_exact = values, cause, is_exact


@dataclass(frozen=True, eq=False)
class Pairwise:
    """Function of two sequences that calls a function of two objects for each pair; `pairwise` makes it."""

    function: UserFunction

    def __post_init__(self) -> None:
        # functools.update_wrapper would assign attributes, and the class is frozen
        for name in functools.WRAPPER_ASSIGNMENTS:
            if hasattr(self.function, name):
                object.__setattr__(self, name, getattr(self.function, name))
        object.__setattr__(self, "__wrapped__", self.function)

    def __call__(self, left: Items, right: Items) -> Floats | Coroutine[object, object, Floats]:
        """Return the values of the pairs, shape (n,), or a coroutine if the function is a coroutine function."""
        if is_async(self.function):
            return self._awaited(left, right)
        values: list[float] = []
        try:
            for a, b in zip(left, right, strict=True):
                values.append(_finite(self.function(a, b)))
        except Exception as cause:
            raise PairFault(values, cause) from cause
        return np.array(values, np.float64)

    async def _awaited(self, left: Items, right: Items) -> Floats:
        values: list[float] = []
        try:
            for a, b in zip(left, right, strict=True):
                values.append(_finite(await self.function(a, b)))
        except Exception as cause:
            raise PairFault(values, cause) from cause
        return np.array(values, np.float64)

    def __reduce__(self) -> str | tuple[object, ...]:
        # Under the name of a decorated function there is this object, so it is pickled by that name.
        module = getattr(self, "__module__", None)
        named: object = sys.modules.get(module) if module and module != "__main__" else None
        name: str = getattr(self, "__qualname__", "")
        for part in name.split("."):
            named = getattr(named, part, None)
        return name if named is self else (Pairwise, (self.function,))


def pairwise(scalar: UserFunction) -> Pairwise:
    """Adapt a function of two objects, or a coroutine function, to sequences of objects.

    Parameters
    ----------
    scalar
        Takes two objects and returns a number; None or NaN means unobserved.

    Examples
    --------
    >>> @pairwise
    ... def gap(a, b):
    ...     return abs(a - b)
    >>> gap([1, 2], [4, 2])
    array([3., 0.])
    """
    return Pairwise(scalar)


@dataclass(frozen=True)
class AskingPolicy:
    """Number of retries of a failed pair, and the maximum seconds of a call."""

    retries: int = 2
    timeout: float | None = None


class PairNames(Protocol):
    """Names of the pairs of a batch in messages: a list, or names that are computed when needed."""

    def __len__(self) -> int: ...

    def __getitem__(self, pair: SupportsIndex, /) -> tuple[object, object]: ...


@dataclass(frozen=True, eq=False)
class Batch:
    """Pairs for one call: their objects, and their names in messages; three sequences of length n."""

    left: Items
    right: Items
    names: PairNames


@dataclass(frozen=True, eq=False)
class FunctionAnswer:
    """Answer to a batch: ``values`` of its first pairs, and the error that stopped the rest, if any."""

    values: Floats
    error: str | None = None


class Asking:
    """Batch in progress: its values so far, the next pair, and how often that pair has failed.

    ``name`` is the name of the function in messages, and ``hint`` follows a TypeError at the first pair. Once ``stop``
    is set, there are no retries.
    """

    def __init__(
        self, name: str, batch: Batch, policy: AskingPolicy, stop: threading.Event | None = None, hint: str = ""
    ) -> None:
        self.name, self.batch, self.policy, self.hint = name, batch, policy, hint
        self.stop = stop or threading.Event()
        self.kept: list[Floats] = []
        self.start = self.tries = 0
        self.is_exact = False
        self.reason = "stopped"

    def goes_on(self) -> bool:
        """Return whether there are pairs to evaluate."""
        is_open = self.start < len(self.batch.names) and self.tries <= self.policy.retries
        return is_open and not self.stop.is_set()

    def rest(self) -> tuple[Items, Items]:
        """Return the objects of the pairs without a value."""
        return self.batch.left[self.start :], self.batch.right[self.start :]

    def take(self, raw: object) -> None:
        """Keep the values that a function returned for the rest; raises as `checked` does."""
        self.keep(checked(raw, len(self.batch.names) - self.start))

    def fail(self, error: BaseException) -> None:
        """Count a failure of the next pair, after the values of a `PairFault`."""
        self.is_exact = isinstance(error, PairFault) and error.is_exact
        if isinstance(error, PairFault):
            self.keep(np.array(error.values, np.float64))
            error = error.cause
        self.tries += 1
        self.reason = reason_of(error) + (self.hint if isinstance(error, TypeError) and not self.kept else "")

    def keep(self, values: Floats) -> None:
        """Keep the values of the next pairs."""
        self.kept.append(values)
        self.start += len(values)
        if len(values):
            self.tries = 0  # another pair is next now

    def answer(self) -> FunctionAnswer:
        """Return the values, and the error if some are missing."""
        values = np.concatenate(self.kept) if self.kept else np.empty(0)
        if self.start == len(self.batch.names):
            return FunctionAnswer(values)
        rest = [f"({a}, {b})" for a, b in (self.batch.names[self.start], self.batch.names[-1])]
        n = len(self.batch.names) - self.start
        where = f"pair {rest[0]}" if self.is_exact or n == 1 else f"pairs {rest[0]} to {rest[1]}, {n} of them"
        return FunctionAnswer(
            values, f"{self.name} failed at {where}, tried {counted(self.tries, 'time')}: {self.reason}"
        )


class Reason(Exception):  # noqa: N818 - users see only its message
    """Reason why a call has no values."""


class Late(Reason):
    """Call that took longer than its timeout."""

    def __init__(self, timeout: float) -> None:
        super().__init__(f"no answer within {timeout:g} s")


def reason_of(error: BaseException) -> str:
    """Describe an error in a message.

    Examples
    --------
    >>> reason_of(ValueError("too long")), reason_of(Late(0.5))
    ('ValueError: too long', 'no answer within 0.5 s')
    """
    text = str(error)
    return text if isinstance(error, Reason) else f"{type(error).__name__}{': ' if text else ''}{text}"


def checked(raw: object, n: int) -> Floats:
    """Read a function's result for n pairs as numbers; raises `Reason`, or `PairFault` at an infinite number.

    Examples
    --------
    >>> checked([1, None], 2)
    array([ 1., nan])
    """
    values = _floats(raw, n)
    is_infinite = np.isinf(values)
    if is_infinite.any():
        place = int(is_infinite.argmax())
        raise PairFault(values[:place], _infinite(float(values[place])))
    return values


def _number(value: SupportsFloat | str | bytes | None) -> float:
    if value is None or value is np.ma.masked:
        return float("nan")
    if isinstance(value, (str, bytes, bytearray)):
        raise Reason(f"returned {value!r}, wanted a number or None")
    return float(value)


def _floats(raw: object, n: int) -> Floats:
    if inspect.iscoroutine(raw):
        raw.close()
        raise Reason("returned a coroutine; declare the function itself with async def")
    array = np.asarray(unmasked(raw))
    if not array.shape:
        wanted = f"wanted a sequence of {n}; wrap a function of two objects as `pairwise(function)`"
        raise Reason(f"returned one value, {wanted}")
    if array.shape != (n,):
        raise Reason(f"returned shape {array.shape}, wanted ({n},)")
    if array.dtype.kind == "O":
        return np.array([_number(value) for value in array], np.float64)
    if array.dtype.kind not in NUMBERS:
        raise Reason(f"returned {array.dtype} values, wanted real numbers")
    return array.astype(np.float64)  # a copy, as the function may reuse its buffer


def _finite(value: SupportsFloat | None) -> float:
    number = _number(value)
    if math.isinf(number):
        raise _infinite(number)
    return number


def _infinite(value: float) -> Reason:
    return Reason(f"returned {value}, wanted a finite number, or NaN or None for unobserved")


def is_async(function: UserFunction) -> bool:
    """Return whether a function or callable object must be awaited.

    Examples
    --------
    >>> is_async(asyncio.sleep), is_async(max)
    (True, False)
    """
    if isinstance(function, Pairwise):
        return is_async(function.function)
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)


def answers(
    function: UserFunction, batches: Iterable[Batch], policy: AskingPolicy, concurrency: int
) -> Iterator[tuple[int, FunctionAnswer]]:
    """Evaluate batches, at most ``concurrency`` at once; yield (position of the batch, answer) as they complete.

    A batch is taken from the iterable when it starts. Once the iterator is closed, no batch starts. Functions run in
    daemon threads, or in the caller's thread if they run one at a time without a timeout. Coroutines run on one event
    loop in a daemon thread.

    After a failure the rest of the batch is evaluated again, from the failed pair on, or if that is unknown, from the
    first pair without a value. Each pair is tried ``policy.retries + 1`` times. If a function hangs, its thread is
    abandoned, and does not prevent the process from ending.

    Examples
    --------
    >>> batches = [Batch([1, 2], [3, 4], [(0, 2), (1, 3)]), Batch([5], [6], [(4, 5)])]
    >>> [(place, one.values.tolist()) for place, one in answers(np.subtract, batches, AskingPolicy(), 1)]
    [(0, [-2.0, -2.0]), (1, [-1.0])]
    """
    stop, name = threading.Event(), name_of(function)
    hint = "; it gets two sequences of objects: a function of two objects is given as pairwise(f)"
    hint = "" if isinstance(function, Pairwise) else hint

    def answered(batch: Batch, call: Callable[[Items, Items], object]) -> FunctionAnswer:
        asking = Asking(name, batch, policy, stop, hint)
        while asking.goes_on():
            try:
                asking.take(call(*asking.rest()))
            except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - a fault of a user's function
                asking.fail(error)
        return asking.answer()

    with ExitStack() as stack:
        if is_async(function):
            loop = stack.enter_context(running_loop())
            call = functools.partial(awaited, loop, function, policy.timeout)
        else:
            call = functools.partial(_called, function, policy.timeout)
        stack.callback(stop.set)  # before the loop ends: a coroutine that is cancelled is not tried again
        if concurrency == 1:
            yield from ((place, answered(batch, call)) for place, batch in enumerate(batches))
            return
        done: SimpleQueue[tuple[int, Future[FunctionAnswer]]] = SimpleQueue()
        running = 0
        for place, batch in enumerate(batches):
            if running == concurrency:
                earlier, future = done.get()
                running -= 1
                yield earlier, future.result()
            future = in_thread(functools.partial(answered, batch, call), THREAD)
            future.add_done_callback(lambda future, place=place: done.put((place, future)))  # type: ignore[misc]
            running += 1
        for _ in range(running):
            earlier, future = done.get()
            yield earlier, future.result()


def _called(function: UserFunction, timeout: float | None, left: Items, right: Items) -> object:
    """Return the result of a call; after its timeout, abandon its thread and raise `Late`."""
    if timeout is None:
        return function(left, right)
    future = in_thread(lambda: function(left, right), THREAD)
    try:
        return future.result(timeout)
    except TimeoutError:
        if future.done():  # the TimeoutError is the function's own
            return future.result()
        raise Late(timeout) from None


@contextmanager
def running_loop() -> Iterator[asyncio.AbstractEventLoop]:
    """Run an event loop in a daemon thread; cancel its coroutines in the end."""
    ready: Future[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = Future()

    async def wait() -> None:
        end = asyncio.Event()
        ready.set_result((asyncio.get_running_loop(), end))
        await end.wait()

    thread = threading.Thread(target=lambda: asyncio.run(wait()), name=THREAD, daemon=True)
    thread.start()
    loop, end = ready.result()
    try:
        yield loop
    finally:
        loop.call_soon_threadsafe(end.set)
        thread.join(_GRACE)


def awaited(
    loop: asyncio.AbstractEventLoop, function: UserFunction, timeout: float | None, left: Items, right: Items
) -> object:
    """Return the result of a coroutine function on a loop in another thread; raises `Late` as functions do."""
    found: Future[object] = Future()

    async def run() -> None:
        limit = asyncio.timeout(timeout)
        try:
            async with limit:
                result = await function(left, right)
        except BaseException as error:  # noqa: BLE001 - also an interrupt; raised again in the caller's thread
            found.set_exception(Late(timeout or 0.0) if limit.expired() else error)
        else:
            found.set_result(result)

    task = asyncio.run_coroutine_threadsafe(run(), loop)
    task.add_done_callback(lambda _: found.cancel())  # it may be cancelled before it begins
    return found.result()
