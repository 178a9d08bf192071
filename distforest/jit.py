"""How the numeric loops are compiled: in one place, so that one rule holds for all of them.

Serial (no ``parallel=True``: the Dask worker owns the cores), without ``fastmath`` (the same bits on every run),
outside the interpreter lock, and kept on disk so that a fresh process starts warm.

Row and column numbers that a loop gathers by are read as unsigned, ``rows.view(np.uint32)``: none counts from the end,
and Numba need not ask which one does. Such a loop is a quarter faster.

Where an array is assigned to a slice or a row, Numba compiles a message about shapes for more than a second: a
loop copies.

A loop that reads far memory, but not cell after cell, has it fetched while it works on what came before: `fetch`.

The first call of a method compiles its kernels, which takes some twenty seconds: who waits for it is told (`Notice`).
"""

from __future__ import annotations

import builtins
import errno
import multiprocessing
import os
import sys
import time
import warnings
from functools import partial
from typing import TYPE_CHECKING, Any

from llvmlite import ir
from numba import config, njit, types
from numba.core import event
from numba.extending import intrinsic

if TYPE_CHECKING:
    from collections.abc import Callable

COMPILE = "compile the kernels (slow only the first time)"
"""What happens while a first call keeps somebody waiting."""

COMPILE_PATIENCE = 1.0
"""Seconds of compiling after which somebody who waits is told."""


def kernel(function: Callable[..., object]) -> Any:
    """Compile ``function`` to machine code at its first call; cached on disk where there is a writable place.

    The result is typed by Numba at run time; its annotations are for the reader.
    """
    return _compiled(function, counting=True)


def borrowing(function: Callable[..., object]) -> Any:
    """`kernel` for what other kernels call in their loops: it borrows the arrays that it is given.

    Numba counts who holds an array, with two atomic additions for each array of each call; where a node has ten rows
    those take longer than the rows. A function that makes, keeps and returns no array, and calls none that returns one,
    need not count; Numba refuses to compile one that makes an array.
    """
    return _compiled(function, counting=False)


def _fetch(_typing: Any, cells: Any, place: Any) -> Any:
    def generate(context: Any, builder: Any, _signature: Any, given: Any) -> Any:
        array = context.make_array(cells)(context, builder, given[0])
        index = context.cast(builder, given[1], place, types.intp)
        byte, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        line = builder.bitcast(builder.gep(array.data, [index]), byte)
        kind = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
        prefetch = builder.module.declare_intrinsic("llvm.prefetch", [byte], kind)
        to_read, into_second_cache, data = number(0), number(2), number(1)
        builder.call(prefetch, [line, to_read, into_second_cache, data])
        return context.get_dummy_value()

    return types.void(cells, place), generate


def _fetch_nothing(_cells: Any, _place: int) -> None:
    pass


fetch: Any = _fetch_nothing if config.DISABLE_JIT else intrinsic(_fetch)
"""``fetch(cells, place)`` has the line of memory of a cell, counted through the whole array, brought near.

Nothing else happens, and nothing at all in the interpreter; a place outside the array does no harm.
"""


def _compiled(function: Callable[..., object], *, counting: bool) -> Any:
    compiled = partial(njit, nogil=True, error_model="numpy", _nrt=counting)
    try:
        found = compiled(cache=True)(function)
    except RuntimeError:  # numba found no directory that it may write its cache to
        return compiled()(function)
    if not config.DISABLE_JIT:
        cache = found._cache
        cache.save_overload = partial(_keep, cache.save_overload, cache.cache_path)
    return found


_TOLD: list[str] = []
"""Folders without room of which this process was told, at most one."""


def _keep(save: Callable[..., None], place: str, *kernel: object) -> None:
    """Save a compiled kernel if its disk has room; it works all the same if not."""
    try:
        save(*kernel)
    except OSError as error:
        if error.errno not in {errno.ENOSPC, errno.EDQUOT}:
            raise
        if not _TOLD:
            _TOLD.append(place)
            text = f"{os.strerror(error.errno)}: compiled kernels cannot be kept in {place}, and each process compiles"
            warnings.warn(f"{text} them anew; make room there, or name another folder (NUMBA_CACHE_DIR)", stacklevel=2)


class Notice(event.Listener):  # type: ignore[misc]  # of a package without types
    """Tells once that kernels are being compiled, when one is begun after `COMPILE_PATIENCE` seconds of compiling.

    Numba announces a kernel that it compiles, and none that it finds in its cache; kernels that call each other lie
    within each other, and all of it is done under one lock.

    Parameters
    ----------
    tell
        Takes the words.
    clock
        Seconds; another clock makes it testable.
    """

    def __init__(self, tell: Callable[[str], None], clock: Callable[[], float] = time.monotonic) -> None:
        self._tell, self._clock = tell, clock
        self._open, self._begun, self._spent, self._told = 0, 0.0, 0.0, False

    def on_start(self, event: Any) -> None:
        """A kernel is begun, of ours or within one of ours."""
        if not self._open and not _is_ours(event.data["dispatcher"]):
            return
        if not self._open:
            self._begun = self._clock()
        self._open += 1
        if not self._told and self._spent + self._clock() - self._begun >= COMPILE_PATIENCE:
            self._told = True
            self._tell(COMPILE)

    def on_end(self, event: Any) -> None:  # noqa: ARG002  (Numba passes it)
        """A kernel is done."""
        if self._open:
            self._open -= 1
            self._spent += 0.0 if self._open else self._clock() - self._begun


def _is_ours(dispatcher: Any) -> bool:
    return str(dispatcher.py_func.__module__).startswith(f"{__package__}.")


def _tell_a_person(words: str) -> None:
    """Write to stderr where somebody reads it: on a terminal or in a notebook, and not in a worker's log."""
    if multiprocessing.parent_process() is not None or sys.stderr is None:
        return
    if sys.stderr.isatty() or hasattr(builtins, "__IPYTHON__"):
        print(f"{__package__}: {words}", file=sys.stderr, flush=True)


event.register("numba:compile", Notice(_tell_a_person))
