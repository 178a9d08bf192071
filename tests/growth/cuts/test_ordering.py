"""`order_values` against NumPy's stable sort, on values that are hard to tell apart."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numba
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from distforest.growth.cuts.ordering import order_values
from tests.tries import tries

if TYPE_CHECKING:
    from numpy.typing import NDArray

pytestmark = pytest.mark.kernels

LARGE = 700 if numba.config.DISABLE_JIT else 5000

NEIGHBOURS = [float(np.nextafter(1.0, side)) for side in (0.0, 2.0)]
AWKWARD = [0.0, -0.0, 5e-324, -5e-324, 2.5e-310, 1.0, *NEIGHBOURS, -1.0, 1e308, -1e308, math.inf, -math.inf, math.nan]


def ordered(values: NDArray[np.float64]) -> NDArray[np.int64]:
    """The order that the kernel finds; its working arrays are longer than they must be, and dirty."""
    room = len(values) + 2
    order = np.full(room, -7, np.int64)
    keys, spare = np.full(room, 2**63, np.uint64), np.full(room, 5, np.uint64)
    n = order_values(values, order, keys, spare)
    return order[:n]


def reference(values: NDArray[np.float64]) -> NDArray[np.int64]:
    observed = np.flatnonzero(~np.isnan(values))
    return observed[np.argsort(values[observed], kind="stable")]


@settings(max_examples=tries(200))
@given(st.lists(st.one_of(st.sampled_from(AWKWARD), st.floats(width=64), st.floats(width=32)), max_size=70))
@example([])
@example([math.nan])
@example([0.0, -0.0] * 20)
def test_small_lists(values: list[float]) -> None:
    array = np.array(values, np.float64)
    assert ordered(array).tolist() == reference(array).tolist()


def many(kind: str, n: int, seed: int) -> NDArray[np.float64]:
    """Values of one kind: some kinds differ only in the bits that the place takes in the key."""
    rng = np.random.default_rng(seed)
    values = rng.normal(size=n)
    if kind == "features":
        return values.astype(np.float32).astype(np.float64)
    if kind == "ties":
        return np.round(values)
    if kind == "equal":
        return np.full(n, -3.25)
    if kind == "last bits":
        return (np.float64(1.0).view(np.int64) + rng.integers(-40, 40, n)).view(np.float64)
    if kind == "runs":  # many groups; in each the values differ in their last bits
        return (np.round(values * 3).view(np.int64) + rng.integers(0, 6, n)).view(np.float64)
    if kind == "denormal":
        return np.where(rng.random(n) < 0.5, -1, 1) * rng.integers(0, 50, n).view(np.float64)
    if kind == "missing":
        return np.where(rng.random(n) < 0.3, np.nan, np.round(values, 2))
    assert kind == "zeros"
    return np.where(rng.random(n) < 0.5, -0.0, 0.0)


KINDS = ["features", "ties", "equal", "last bits", "runs", "denormal", "missing", "zeros"]


@settings(max_examples=tries(60))
@given(st.sampled_from(KINDS), st.integers(0, LARGE), st.integers(0, 2**32 - 1))
@example("runs", LARGE, 0)
@example("last bits", LARGE, 1)
@example("denormal", LARGE, 2)
def test_arrays_of_every_kind_and_size(kind: str, n: int, seed: int) -> None:
    values = many(kind, n, seed)
    assert ordered(values).tolist() == reference(values).tolist()


@pytest.mark.parametrize("n", [23, 24, 25, 26, 31, 32, 33, 63, 64, 65, 95, 96, 97, 127, 128, 129, 511, 512, 513, 4097])
@pytest.mark.parametrize("kind", ["runs", "missing", "equal"])
def test_sizes_around_the_changes_of_method(kind: str, n: int) -> None:
    if n > LARGE:
        pytest.skip("too slow without Numba")
    values = many(kind, n, n)
    assert ordered(values).tolist() == reference(values).tolist()


def test_observed_values_after_many_missing_ones() -> None:
    values = np.full(3000, np.nan)
    values[2900:] = np.arange(100)[::-1]
    assert ordered(values).tolist() == list(range(2999, 2899, -1))
