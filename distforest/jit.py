"""How the numeric loops are compiled: one decorator, so that one rule holds for all of them.

Serial (no ``parallel=True``: the Dask worker owns the cores), without ``fastmath`` (the same bits on every run),
outside the interpreter lock, and kept on disk so that a fresh process starts warm.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from numba import njit

if TYPE_CHECKING:
    from collections.abc import Callable

F = TypeVar("F", bound="Callable[..., object]")


def kernel(function: F) -> F:
    """Compile ``function`` to machine code at its first call; cached on disk where there is a writable place."""
    try:
        return njit(nogil=True, cache=True, error_model="numpy")(function)  # type: ignore[no-any-return]
    except RuntimeError:  # numba found no directory that it may write its cache to
        return njit(nogil=True, error_model="numpy")(function)  # type: ignore[no-any-return]
