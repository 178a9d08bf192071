"""Whole numbers with more digits than float64 has, in tables whose other columns make all of them float64.

A matrix of whole numbers is judged as it is, by `distforest.sources.doubts.told_of_rounding`. Beside a column of
fractions they are float64 before anybody counts how many differ.
"""

from __future__ import annotations

from numbers import Integral
from typing import TYPE_CHECKING

import numpy as np

from distforest.sources.doubts import MOST_ROWS, Sample, told_of_rounding

if TYPE_CHECKING:
    from collections.abc import Iterable

EXACT_IN_FLOAT32 = 1 << 24
"""The least number from which float32 skips whole numbers."""

WITHOUT_MISSING = ("dropna", "drop_nulls", "drop_null")
"""Methods of pandas, Polars and Arrow that leave missing values out, beside which NumPy makes whole numbers floats."""

FRACTIONS = ("float", "double", "halffloat")
"""How libraries name columns of fractions."""


def told_of_lost_digits(columns: Iterable[tuple[str, object]]) -> str:
    """Name columns of whole numbers that float32 makes equal, unless they are told of as float64, too; else "".

    Parameters
    ----------
    columns
        What a message calls a column, and its values, of any library.

    Examples
    --------
    >>> told_of_lost_digits([("column 'id'", 2**60 + np.arange(40)), ("column 'age'", np.arange(40))])
    "features are held as float32, which leaves 1 of 40 different values of column 'id' in 40 rows; subtract its least,
    1152921504606846976, first"
    """
    lost = [(name, found) for name, values in columns if (found := _told_of_column(values))]
    if not lost:
        return ""
    others = ", ".join(name for name, _ in lost[1:4]) + (f" and {len(lost) - 4:,} more" if len(lost) > 4 else "")
    first, (left, rest) = lost[0][0], lost[0][1]
    same = f". The same holds for {others}" if others else ""
    return f"features are held as float32, which leaves {left} of {first} in {rest}, first{same}"


def _told_of_column(values: object) -> tuple[str, str] | None:
    """How many values float32 leaves, and in how many rows; None if these are not whole, or float64 tells it."""
    if str(getattr(values, "dtype", getattr(values, "type", ""))).lower().startswith(FRACTIONS):
        return None  # at once: to leave missing values out copies a column
    without = next((way for way in WITHOUT_MISSING if hasattr(values, way)), None)
    whole = _whole_numbers(np.asarray(values if without is None else getattr(values, without)()))
    if not whole or max(map(abs, whole)) < EXACT_IN_FLOAT32:
        return None
    held = np.array(whole, np.float64)
    different, left = len(set(whole)), len(np.unique(held.astype(np.float32)))
    if left >= different / 2 and not left == 1 < different:
        return None
    sample = Sample()
    sample.see(held[:, None], 0)
    if told_of_rounding(sample):
        return None
    return f"{left:,} of {different:,} different values", f"{len(whole):,} rows; subtract its least, {min(whole)}"


def _whole_numbers(values: np.ndarray) -> list[int]:
    """At most `MOST_ROWS` evenly spaced values that are not missing; none if one of them is not whole."""
    some = values[:: max(1, -(-len(values) // MOST_ROWS))]
    if some.dtype.kind in "iu":
        is_wide = len(some) and (some.max() >= EXACT_IN_FLOAT32 or some.min() <= -EXACT_IN_FLOAT32)
        return some.tolist() if is_wide else []
    if some.dtype.kind not in "OU":
        return []
    held = [value for value in some.tolist() if isinstance(value, (str, Integral, float)) and value == value]
    if not all(_is_whole(value) for value in held):
        return []
    return [int(value) for value in held]


def _is_whole(value: object) -> bool:
    if isinstance(value, str):
        return value.strip().lstrip("+-").isdecimal()
    return isinstance(value, Integral) and not isinstance(value, bool)
