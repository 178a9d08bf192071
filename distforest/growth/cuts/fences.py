"""Fences: bounds beyond which a value is an outlier, such as a sentinel or an error, and does not influence a cut.

One such value in a hundred can make up nearly all of its node's sum of squares. What a cut explains of the other values
would not count beside it.
Of m values let b be the one with floor(a m) below it and c the one with floor(a m) above it, with a the `MARGIN`. Where
both are copies of one number, a is halved until they are not. The fences are

    b - WIDTH (c - b) / a    and    c + WIDTH (c - b) / a

For a Gaussian they are 3.7 standard deviations from its mean, so one value in 4,000 is beyond them. Where most values
are zeros they are farther away. A random cut lies between b and c; if b and c of the first margin are copies, it lies
anywhere between the extremes within the fences.
"""

from __future__ import annotations

import numpy as np

from distforest.forest.frontier import longest_of
from distforest.jit import kernel, no_refcount
from distforest.sources.source import Float32s, Floats, Int32s, Ints

MARGIN = 0.3
"""Share of the values on either side of the inner ones."""

WIDTH = 0.9
"""Distance of the fences from b and c, in units of (c - b) / a: 3 (c - b) at `MARGIN`."""

FIRST, LAST, LOWER, UPPER, LEFT_OUT = range(5)
"""Positions in the result of `find_fences`: the range of a random cut, the fences, and the margin a."""


@kernel
def find_fences(starts: Ints, values: Floats, margin: float, fences: Floats) -> None:
    """fences[:, k, f] = `fences_of` the values of candidate k in node f, shape (5, width, n_nodes)."""
    some = np.empty(longest_of(starts))
    for node in range(starts.shape[0] - 1):
        for k in range(values.shape[0]):
            first, last, lower, upper, left_out = fences_of(values[k, starts[node] : starts[node + 1]], margin, some)
            fences[FIRST, k, node], fences[LAST, k, node] = first, last
            fences[LOWER, k, node], fences[UPPER, k, node], fences[LEFT_OUT, k, node] = lower, upper, left_out


@kernel
def fences_of(values: Floats, margin: float, some: Floats) -> tuple[float, float, float, float, float]:
    """Return the two values between which a random cut lies, the fences, and a; all NaN if no observed values differ.

    If no margin excludes a value, a random cut lies between the extremes, and the fences are infinite. ``some`` is a
    working array, as long as ``values``.
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
    a = margin
    while int(a * m) > 0:
        first, last = some[int(a * m)], some[m - 1 - int(a * m)]
        if first < last:
            reach = WIDTH / a * (last - first)
            lower, upper = first - reach, last + reach
            if a < margin:
                first, last = inner_extremes(some[:m], lower, upper)
            return first, last, lower, upper, a
        a /= 2.0
    return low, high, -np.inf, np.inf, a


@no_refcount
def inner_extremes(ascending: Floats, lower: float, upper: float) -> tuple[float, float]:
    """Return the least and the greatest value between the fences; at least one value is between them."""
    first, last = 0, ascending.shape[0] - 1
    while ascending[first] < lower:
        first += 1
    while ascending[last] > upper:
        last -= 1
    return ascending[first], ascending[last]


@kernel
def fence_columns(matrix: Float32s, rows: Int32s, fences: Floats) -> None:
    """fences[:, c] = the fences of column c by some of its rows, shape (2, n_columns); infinite if these are equal."""
    column, some = np.empty(rows.shape[0]), np.empty(rows.shape[0])
    for c in range(matrix.shape[1]):
        for r in range(rows.shape[0]):
            column[r] = matrix[rows[r], c]
        _, _, lower, upper, _ = fences_of(column, MARGIN, some)
        fences[0, c], fences[1, c] = -np.inf, np.inf
        if lower < upper:
            fences[0, c], fences[1, c] = lower, upper
