"""The order of the observed values of one candidate in one node: a stable sort for float64 in linear time."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from distforest.jit import kernel, no_refcount
from distforest.sources.source import Floats, Ints

_SIGN, _NONE, _ONE = np.uint64(1 << 63), np.uint64(0), np.uint64(1)
_INSERTION = 112  # keys up to which insertion is faster than radix


class OrderRoom(NamedTuple):
    """Working arrays for the order of values, as long as the values: see `order_values`."""

    order: Ints
    keys: NDArray[np.uint64]
    spare: NDArray[np.uint64]

    @classmethod
    def allocate(cls, longest: int) -> OrderRoom:
        """Allocate the arrays for at most ``longest`` values."""
        keys, spare = np.empty((2, longest), np.uint64)
        return cls(np.empty(longest, np.int64), keys, spare)


@no_refcount
def order_values(values: Floats, order: Ints, keys: NDArray[np.uint64], spare: NDArray[np.uint64]) -> int:
    """Fill order[:n] with the positions of the n observed values in ascending order, ties by position; return n.

    The rest of order[: len(values)] has the positions of the missing values, in descending order.

    A value's bits, mapped so that unsigned order is numeric order, and its position share one 64-bit key: the position
    takes as many low bits as it needs. The keys are sorted; values that differ only in the bits that the position took
    are corrected afterwards. ``order``, ``keys`` and ``spare`` are at least as long as ``values``.
    """
    size = values.shape[0]
    low = 1
    while size > 1 << low:
        low += 1
    place_bits = np.uint64((1 << low) - 1)
    bits = values.view(np.uint64)
    n: int | np.int64 = np.int64(0)  # a literal would be another type, and `_sort` compiled for both
    vary, lost = np.uint64(0), np.uint64(0)
    for place in range(size):  # without a branch on what is missing, which would be mispredicted
        is_observed = values[place] == values[place]
        seen = _NONE - np.uint64(is_observed)  # all bits, or none
        key = _ascending(bits[place])
        lost |= key & place_bits & seen
        keys[n] = (key & ~place_bits) | np.uint64(place)
        vary |= (keys[n] ^ keys[0]) & seen
        order[size - 1 - (place - n)] = place  # overwritten unless it is missing
        n += is_observed
    _sort(keys, spare, n, vary & ~place_bits)
    for e in range(n):
        order[e] = np.int64(keys[e] & place_bits)
    if lost:  # float32 values lose no bits for up to 2^29 rows
        _mend(bits, order, keys, spare, n, low)
    return int(n)


@no_refcount
def _ascending(bits: np.uint64) -> np.uint64:
    """Return the bits of a float64, mapped so that unsigned order is numeric order; -0.0 is 0.0.

    Low bits that are 0 in float32 values stay 0.
    """
    if bits == _SIGN:
        return _SIGN
    return ~bits + _ONE if bits & _SIGN else bits | _SIGN


@no_refcount
def _sort(keys: NDArray[np.uint64], spare: NDArray[np.uint64], n: int, vary: np.uint64) -> None:
    """Sort keys[:n] by the bits from the lowest to the highest one set in ``vary``, stable; those above are equal.

    ``spare`` is not touched if the keys are few, and may then be ``keys``.
    """
    if n <= _INSERTION:
        _insert(keys, n)
    else:
        _radix(keys, spare, n, vary)


@no_refcount
def _insert(keys: NDArray[np.uint64], n: int) -> None:
    """Sort keys[:n] by insertion."""
    for e in range(1, n):
        key = keys[e]
        hole = e
        while hole > 0 and keys[hole - 1] > key:
            keys[hole] = keys[hole - 1]
            hole -= 1
        keys[hole] = key


@kernel
def _radix(keys: NDArray[np.uint64], spare: NDArray[np.uint64], n: int, vary: np.uint64) -> None:
    """Sort keys[:n] by the bits from the lowest to the highest one set in ``vary``, least digit first, stable."""
    digit = 7 if n <= 512 else (9 if n <= 8192 else 12)
    mask = np.uint64((1 << digit) - 1)
    count = np.empty((1 << digit) + 1, np.int64)
    source, target = keys, spare
    passes, shift = 0, 0
    while shift < 64 and vary >> np.uint64(shift):
        if not (vary >> np.uint64(shift)) & np.uint64(1):
            shift += 1
            continue
        count[:] = 0
        for e in range(n):
            count[np.int64((source[e] >> np.uint64(shift)) & mask) + 1] += 1
        for d in range(1 << digit):
            count[d + 1] += count[d]
        for e in range(n):
            own = np.int64((source[e] >> np.uint64(shift)) & mask)
            target[count[own]] = source[e]
            count[own] += 1
        source, target = target, source
        shift += digit
        passes += 1
    if passes % 2:  # the sorted keys lie in the spare array
        for e in range(n):
            keys[e] = spare[e]


@kernel
def _mend(
    bits: NDArray[np.uint64], order: Ints, keys: NDArray[np.uint64], spare: NDArray[np.uint64], n: int, low: int
) -> None:
    """Correct the order of runs whose keys agree above the ``low`` bits of the position, but whose values differ.

    Within a run only the low bits of the values differ, so these and the position share a key again.
    """
    place_bits, shift = np.uint64((1 << low) - 1), np.uint64(low)
    first = 0
    while first < n:
        last = first + 1
        while last < n and not ((keys[first] ^ keys[last]) & ~place_bits):
            last += 1
        if last - first > 1:
            vary = np.uint64(0)
            for e in range(first, last):
                place = keys[e] & place_bits
                keys[e] = ((_ascending(bits[place]) & place_bits) << shift) | place
                vary |= keys[e] ^ keys[first]
            _sort(keys[first:last], spare, last - first, vary & ~place_bits)
            for e in range(first, last):
                order[e] = np.int64(keys[e] & place_bits)
        first = last
