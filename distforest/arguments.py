"""Checks of arguments that many functions share: integers and arrays of numbers."""

from __future__ import annotations

from numbers import Integral
from typing import TYPE_CHECKING

import numpy as np

from distforest.amounts import counted
from distforest.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Floats = NDArray[np.float64]


def whole(name: str, value: object, least: int) -> int:
    """Check that ``value`` is an integer of at least ``least``, and no boolean; raises InputError."""
    if not isinstance(value, bool) and isinstance(value, Integral) and int(value) >= least:
        return int(value)
    raise InputError(f"{name} must be an integer >= {least}, found {value!r}")


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
