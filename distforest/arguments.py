"""Checks of arguments that many functions share: integers, random states, arrays of numbers."""

from __future__ import annotations

from numbers import Integral
from typing import TYPE_CHECKING

import numpy as np

from distforest.amounts import counted
from distforest.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Floats = NDArray[np.float64]
    RandomState = int | np.random.Generator | None


def whole(name: str, value: object, least: int) -> int:
    """Check that ``value`` is an integer of at least ``least``, and no boolean; raises InputError."""
    if not isinstance(value, bool) and isinstance(value, Integral) and int(value) >= least:
        return int(value)
    raise InputError(f"{name} must be an integer >= {least}, found {value!r}")


def generator(random_state: object) -> np.random.Generator:
    """The generator of a ``random_state``: itself, a new one with this seed, or for None one with a random seed.

    Raises
    ------
    InputError
        It is none of these.
    """
    if isinstance(random_state, np.random.Generator):
        return random_state
    if random_state is None:
        return np.random.default_rng()
    if not isinstance(random_state, bool) and isinstance(random_state, Integral) and int(random_state) >= 0:
        return np.random.default_rng(int(random_state))
    raise InputError(f"random_state must be an integer >= 0, a numpy.random.Generator or None, found {random_state!r}")


def numbers(values: ArrayLike, name: str, n_dimensions: int) -> Floats:
    """Convert ``values`` to a float64 array of ``n_dimensions`` dimensions; raises InputError."""
    try:
        array = np.asarray(values)
        if array.dtype.kind not in "biuf":
            raise InputError(f"{name} must hold real numbers, found dtype {array.dtype}")
        array = array.astype(np.float64, copy=False)
    except ValueError as error:
        raise InputError(f"{name} must be an array of real numbers: {error}") from error
    if array.ndim != n_dimensions:
        raise InputError(f"{name} must have {counted(n_dimensions, 'dimension')}, found shape {array.shape}")
    return array


def check_finite(array: Floats, name: str) -> None:
    """Raise InputError if a value is NaN or infinite."""
    bad = array.size - int(np.count_nonzero(np.isfinite(array)))
    if bad:
        of = counted(array.size, "value")
        raise InputError(f"{name} must be finite, found {bad:,} NaN or infinite of {of}; drop them")
