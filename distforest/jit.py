"""How the numeric loops are compiled: one decorator, so that one rule holds for all of them.

Serial (no ``parallel=True``: the Dask worker owns the cores), without ``fastmath`` (the same bits on every run),
outside the interpreter lock, and kept on disk so that a fresh process starts warm.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numba import njit

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray


def kernel(function: Callable[..., object]) -> Any:
    """Compile ``function`` to machine code at its first call; cached on disk where there is a writable place.

    The result is typed by Numba at run time; its annotations are for the reader.
    """
    try:
        return njit(nogil=True, cache=True, error_model="numpy")(function)
    except RuntimeError:  # numba found no directory that it may write its cache to
        return njit(nogil=True, error_model="numpy")(function)


@kernel
def unsigned(places: NDArray[np.int32]) -> NDArray[np.uint32]:
    """Row or column numbers as an unsigned view: none counts from the end, and Numba need not ask which one does.

    A loop that gathers by them is a quarter faster.
    """
    return places.view(np.uint32)
