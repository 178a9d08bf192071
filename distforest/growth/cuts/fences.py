"""Fences: a value beyond them is stray, a sentinel or a slip of the pen, and has no say in where a cut is made.

One such value in a hundred makes up nearly all of its node's sum of squares, and what a cut explains of the others
would not count beside it.
Of m values let b be the one with floor(a m) below it and c the one with floor(a m) above it, a the `MARGIN`; where both
are copies of one number, a is halved until they are not. The fences are

    b - WIDTH (c - b) / a    and    c + WIDTH (c - b) / a

For a Gaussian they stand 3.7 standard deviations from its mean: one value in 4,000 is beyond them. Where most values
are zeros they are farther away. A cut at random lies between b and c, or, if those of the first margin are copies,
anywhere between the extremes within the fences.
"""

from __future__ import annotations

import numpy as np

from distforest.jit import borrowing, kernel
from distforest.sources.source import Float32s, Floats, Int32s, Ints

MARGIN = 0.3
"""Share of the values on either side of the inner ones."""

WIDTH = 0.9
"""How far the fences are from b and c, in units of (c - b) / a: 3 (c - b) at `MARGIN`."""

FIRST, LAST, LOWER, UPPER, LEFT_OUT = range(5)
"""What is found of values: between which of them a random cut lies, the fences, and the margin a."""


@kernel
def find_fences(starts: Ints, values: Floats, margin: float, found: Floats) -> None:
    """found[:, k, f] = `fences_of` the values of candidate k in node f, shape (5, width, n_nodes)."""
    some = np.empty((starts[1:] - starts[:-1]).max())
    for node in range(starts.shape[0] - 1):
        for k in range(values.shape[0]):
            first, last, lower, upper, own = fences_of(values[k, starts[node] : starts[node + 1]], margin, some)
            found[FIRST, k, node], found[LAST, k, node] = first, last
            found[LOWER, k, node], found[UPPER, k, node], found[LEFT_OUT, k, node] = lower, upper, own


@kernel
def fences_of(values: Floats, margin: float, some: Floats) -> tuple[float, float, float, float, float]:
    """Between which values a random cut lies, the fences, and a; all NaN where no two observed values differ.

    The former are the extremes, and the fences infinite, if no margin leaves out a value. ``some`` is as long as
    ``values``.
    """
    low, high, m = np.inf, -np.inf, 0
    for x in values:
        if not np.isnan(x):
            low, high = min(low, x), max(high, x)
            some[m] = x
            m += 1
    if not low < high:
        return np.nan, np.nan, np.nan, np.nan, np.nan
    if margin > 0.0:
        some[:m].sort()
    own = margin
    while int(own * m) > 0:
        first, last = some[int(own * m)], some[m - 1 - int(own * m)]
        if first < last:
            reach = WIDTH / own * (last - first)
            lower, upper = first - reach, last + reach
            if own < margin:
                first, last = heard_extremes(some[:m], lower, upper)
            return first, last, lower, upper, own
        own /= 2.0
    return low, high, -np.inf, np.inf, own


@borrowing
def heard_extremes(ascending: Floats, lower: float, upper: float) -> tuple[float, float]:
    """The least and the greatest value between the fences; there is one."""
    first, last = 0, ascending.shape[0] - 1
    while ascending[first] < lower:
        first += 1
    while ascending[last] > upper:
        last -= 1
    return ascending[first], ascending[last]


@kernel
def fence_columns(matrix: Float32s, rows: Int32s, fences: Floats) -> None:
    """fences[:, c] = the fences of column c by some of its rows, shape (2, n_columns); infinite if these are equal."""
    own, some = np.empty(rows.shape[0]), np.empty(rows.shape[0])
    for c in range(matrix.shape[1]):
        for r in range(rows.shape[0]):
            own[r] = matrix[rows[r], c]
        _, _, lower, upper, _ = fences_of(own, MARGIN, some)
        fences[0, c], fences[1, c] = -np.inf, np.inf
        if lower < upper:
            fences[0, c], fences[1, c] = lower, upper
