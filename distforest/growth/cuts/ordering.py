"""The order of a candidate's observed values in a node: a stable sort of float64 numbers in linear time."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from distforest.jit import borrowing, kernel
from distforest.sources.source import Floats, Ints

_SIGN, _ONE = np.uint64(1 << 63), np.uint64(1)
_INSERTION, _RADIX = 96, 128  # numbers of keys from which the next method is faster
_SHORT = 24  # longest run of equal keys that is corrected by insertion


@borrowing
def order_values(values: Floats, order: Ints, keys: NDArray[np.uint64], spare: NDArray[np.uint64]) -> int:
    """Fill order[:n] with the places of the n observed values in ascending order, equal values by place; returns n.

    A value's bits, mapped so that unsigned order is numeric order, and its place share one 64-bit key: the place takes
    as many low bits as it needs. Few keys are sorted by insertion, many by radix. Values that differ only in the bits
    that the place takes are corrected afterwards. ``order``, ``keys`` and ``spare`` are at least as long as ``values``.
    """
    size = values.shape[0]
    low = 1
    while size > 1 << low:
        low += 1
    place_bits = np.uint64((1 << low) - 1)
    bits = values.view(np.uint64)
    n = 0
    vary, lost = np.uint64(0), np.uint64(0)
    for place in range(size):
        if np.isnan(values[place]):
            continue
        key = bits[place] if values[place] != 0.0 else np.uint64(0)  # -0.0 is 0.0
        lost |= key & place_bits
        key = ~key + _ONE if key & _SIGN else key | _SIGN  # low bits that are 0 in float32 values stay 0
        keys[n] = (key & ~place_bits) | np.uint64(place)
        vary |= keys[n] ^ keys[0]
        n += 1
    if n < _INSERTION:
        _insert(keys, n)
    elif n < _RADIX:
        _sort(keys, n)
    else:
        _radix(keys, spare, n, vary & ~place_bits)
    for e in range(n):
        order[e] = np.int64(keys[e] & place_bits)
    if lost:  # float32 values lose nothing for up to 2^29 rows
        _mend(values, order, keys, place_bits, n)
    return n


@borrowing
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
def _sort(keys: NDArray[np.uint64], n: int) -> None:
    """Sort keys[:n], which all differ, so that any sort is stable."""
    keys[:n].sort()


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
            bucket = np.int64((source[e] >> np.uint64(shift)) & mask)
            target[count[bucket]] = source[e]
            count[bucket] += 1
        source, target = target, source
        shift += digit
        passes += 1
    if passes % 2:  # the sorted keys lie in the spare array
        keys[:n] = spare[:n]


@kernel
def _mend(values: Floats, order: Ints, keys: NDArray[np.uint64], place_bits: np.uint64, n: int) -> None:
    """Correct the order of runs whose keys agree above the place bits although their values differ."""
    first = 0
    while first < n:
        last = first + 1
        differ = False
        while last < n and not ((keys[first] ^ keys[last]) & ~place_bits):
            differ |= values[order[last]] != values[order[first]]
            last += 1
        if differ and last - first <= _SHORT:
            _insertion(values, order, first, last)
        elif differ:
            run = order[first:last].copy()
            order[first:last] = run[np.argsort(values[run], kind="mergesort")]
        first = last


@borrowing
def _insertion(values: Floats, order: Ints, first: int, last: int) -> None:
    """Stable insertion sort of order[first:last] by value."""
    for e in range(first + 1, last):
        place = order[e]
        hole = e
        while hole > first and values[order[hole - 1]] > values[place]:
            order[hole] = order[hole - 1]
            hole -= 1
        order[hole] = place
