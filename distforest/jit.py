"""How the numeric loops are compiled: in one place, so that the same rules hold for all of them.

A kernel is serial (no ``parallel=True``: the Dask worker owns the cores) and compiled without ``fastmath`` (every run
gives the same bits). It runs outside the interpreter lock, and is kept on disk (`distforest.kernel_cache`), so that
a fresh process starts warm.

A loop that gathers by row or column numbers reads them as unsigned, ``rows.view(np.uint32)``: no number counts from the
end, so Numba need not check for negative ones. Such a loop is a quarter faster.

Where an array is assigned to a slice or a row, Numba compiles a message about shapes for more than a second. So a loop
copies.

No kernel is handed to another one as a value, so none needs the entry by which C would call it (`no_cfunc_wrapper`);
without these entries a method compiles in a twelfth less time.

A loop that reads distant memory in no regular order prefetches the next cells while it works on the current ones, with
`fetch`.

The first call of a method compiles its kernels, which takes some twenty seconds; `Notice` tells a person who waits.
"""

from __future__ import annotations

import builtins
import multiprocessing
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar

from llvmlite import ir
from numba import config, njit, types
from numba.core import event
from numba.extending import intrinsic, overload

from distforest.kernel_cache import KernelCache, kernel_folder, source_stamp

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numba.core.base import BaseContext
    from numba.core.dispatcher import Dispatcher
    from numba.core.typing import BaseContext as TypingContext
    from numba.core.typing import Signature

P = ParamSpec("P")
R = TypeVar("R")
F = TypeVar("F", bound="Callable[..., object]")

COMPILE = "compile the kernels (slow only the first time)"
"""The name of this step for a person who waits for it."""

COMPILE_PATIENCE = 1.0
"""Seconds of compiling after which it is reported."""


def kernel(function: Callable[..., R]) -> Callable[..., R]:
    """Compile ``function`` to machine code at its first call, or load the code from disk.

    Numba infers the types of the arguments from each call; their annotations are for the reader.
    """
    return _compiled(function, counting=True)


def borrowing(function: Callable[..., R]) -> Callable[..., R]:
    """Compile like `kernel`, but without counting references to arrays; for functions that kernels call in loops.

    Numba counts the references to each array, with two atomic additions for each array of each call. In a node of ten
    rows these additions take longer than the rows. A function need not count if it neither creates, keeps nor returns
    an array and calls no function that returns one. Numba refuses to compile a function here that creates an array.
    """
    return _compiled(function, counting=False)


def inlined(function: Callable[..., R]) -> Callable[..., R]:
    """Compile like `borrowing`, as a part of each caller, for a function of many arrays that is called in few places.

    A call passes an array by its seven parts, and the scan of a few rows takes less time than passing a dozen arrays.
    """
    return _compiled(function, counting=False, forceinline=True)


class Kinds(Generic[P, R]):
    """A function that kernels call, of which each kind of first argument, a NamedTuple, has its own implementation.

    Numba chooses the implementation by the type when it compiles a caller, so that the call costs nothing.

    Examples
    --------
    >>> from typing import NamedTuple
    >>> class Square(NamedTuple):
    ...     side: float
    >>> @dispatched
    ... def area(shape: Square) -> float:
    ...     '''The area of a shape.'''
    >>> @area.of(Square)
    ... def _(shape: Square) -> float:
    ...     return shape.side**2
    >>> area(Square(3.0))
    9.0
    """

    def __init__(self, stub: Callable[P, R], *, counting: bool) -> None:
        self.__doc__, self.__name__, self.__module__ = stub.__doc__, stub.__name__, stub.__module__
        self.implementations: dict[type, Callable[..., Any]] = {}
        self.options = {"nogil": True, "error_model": "numpy", "_nrt": counting, "forceinline": not counting}
        if not config.DISABLE_JIT:
            overload(self, jit_options=self.options, strict=False)(self._implementation)

    def of(self, kind: type) -> Callable[[F], F]:
        """Decorate the implementation for a kind."""

        def register(function: F) -> F:
            function.source_stamp = source_stamp(function)  # type: ignore[attr-defined]  # see `stamp_of`
            self.implementations[kind] = function
            return function

        return register

    def share(self, kind: type, other: type) -> None:
        """Let another kind have the implementation for a kind."""
        self.implementations[other] = self.implementations[kind]

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the implementation for the first argument."""
        return self.implementations[type(args[0])](*args, **kwargs)

    def _implementation(self, first: types.Type, *_others: types.Type) -> Callable[..., R] | None:
        return self.implementations.get(getattr(first, "instance_class", type(None)))


def dispatched(stub: Callable[P, R]) -> Kinds[P, R]:
    """Make a function of kinds, in which references to arrays are not counted, as in `borrowing`."""
    return Kinds(stub, counting=False)


def dispatched_maker(stub: Callable[P, R]) -> Kinds[P, R]:
    """Make a function of kinds that may create arrays, as a `kernel` may."""
    return Kinds(stub, counting=True)


def _fetch(
    _typing: TypingContext, cells: types.Array, place: types.Integer
) -> tuple[Signature, Callable[[BaseContext, ir.IRBuilder, Signature, Sequence[ir.Value]], ir.Constant]]:
    def generate(
        context: BaseContext, builder: ir.IRBuilder, _signature: Signature, values: Sequence[ir.Value]
    ) -> ir.Constant:
        array = context.make_array(cells)(context, builder, values[0])
        index = context.cast(builder, values[1], place, types.intp)
        byte, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        line = builder.bitcast(builder.gep(array.data, [index]), byte)
        kind = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
        prefetch = builder.module.declare_intrinsic("llvm.prefetch", [byte], kind)
        to_read, into_second_cache, data = number(0), number(2), number(1)
        builder.call(prefetch, [line, to_read, into_second_cache, data])
        return context.get_dummy_value()

    return types.void(cells, place), generate


def _fetch_nothing(_cells: object, _place: int) -> None:
    pass


def inserted(define: Callable[..., object]) -> Callable[..., Any]:
    """Numba's `intrinsic`, with the stamp of the file that defines it, from which kernels follow that call it."""
    made = intrinsic(define)
    made.source_stamp = source_stamp(define)
    return made


fetch: Callable[..., None] = _fetch_nothing if config.DISABLE_JIT else inserted(_fetch)
"""``fetch(cells, place)`` prefetches the cache line of a cell; ``place`` is its index in the flat array.

It has no other effect, and none at all in the interpreter. A place outside the array does no harm.
"""


def _compiled(function: Callable[..., R], *, counting: bool, forceinline: bool = False) -> Callable[..., R]:
    options = {"no_cfunc_wrapper": True, "_nrt": counting, "forceinline": forceinline}
    dispatcher = njit(nogil=True, error_model="numpy", **options)(function)
    if not config.DISABLE_JIT:
        dispatcher.source_stamp = source_stamp(function)  # now: the file may change before the first call
        if (folder := kernel_folder()) is not None and not function.__closure__:
            dispatcher._cache = KernelCache(folder, dispatcher)
    return dispatcher


class Notice(event.Listener):  # type: ignore[misc]  # of a package without types
    """Tells once that kernels are being compiled, as soon as one starts after `COMPILE_PATIENCE` seconds of compiling.

    Numba announces each kernel that it compiles, and none that it loads from its cache. If one kernel calls another,
    their events are nested. A lock lets only one thread compile at a time.

    Parameters
    ----------
    tell
        Called with the text.
    clock
        Returns seconds; tests pass their own clock.
    """

    def __init__(self, tell: Callable[[str], None], clock: Callable[[], float] = time.monotonic) -> None:
        self._tell, self._clock = tell, clock
        self._depth, self._started, self._seconds, self._has_told = 0, 0.0, 0.0, False

    def on_start(self, event: event.Event) -> None:
        """Count a kernel that starts to compile, if it is ours or nested in one of ours."""
        if not self._depth and not _is_ours(event.data["dispatcher"]):
            return
        if not self._depth:
            self._started = self._clock()
        self._depth += 1
        if not self._has_told and self._seconds + self._clock() - self._started >= COMPILE_PATIENCE:
            self._has_told = True
            self._tell(COMPILE)

    def on_end(self, event: event.Event) -> None:  # noqa: ARG002  (Numba passes it)
        """Count a kernel that is compiled."""
        if self._depth:
            self._depth -= 1
            self._seconds += 0.0 if self._depth else self._clock() - self._started


def _is_ours(dispatcher: Dispatcher) -> bool:
    return str(dispatcher.py_func.__module__).startswith(f"{__package__}.")


_ASKED: list[Callable[[str], None]] = []
"""What blocks of `compiling_told` have asked to be called."""


@contextmanager
def compiling_told(tell: Callable[[str], None]) -> Iterator[None]:
    """Call ``tell`` if kernels are compiled in the block, whoever reads stderr; a person there is not told twice."""
    with event.install_listener("numba:compile", Notice(tell)):
        _ASKED.append(tell)
        try:
            yield
        finally:
            _ASKED.remove(tell)


def tell_of_compiling(tell: Callable[[str], None]) -> None:
    """Call ``tell`` if kernels are compiled in this process from now on."""
    event.register("numba:compile", Notice(tell))


def _tell_a_person(text: str) -> None:
    """Print to stderr if a person reads it: on a terminal or in a notebook, but not in a worker's log."""
    if _ASKED or multiprocessing.parent_process() is not None or sys.stderr is None:
        return
    if sys.stderr.isatty() or hasattr(builtins, "__IPYTHON__"):
        print(f"{__package__}: {text}", file=sys.stderr, flush=True)


tell_of_compiling(_tell_a_person)
