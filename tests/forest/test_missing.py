"""Where a row goes by the halves of its projection, at their thresholds and beside them."""

from __future__ import annotations

import math

import numpy as np
import pytest

from distforest.forest.frontier import LEFT, RIGHT, STAY
from distforest.forest.missing import side_of_halves

pytestmark = pytest.mark.kernels

NOTHING = math.nan
UP, DOWN = (float(np.nextafter(2.0, toward)) for toward in (3.0, 1.0))


@pytest.mark.parametrize(
    ("positive", "negative", "side"),
    [
        (UP, NOTHING, RIGHT),
        (2.0, NOTHING, LEFT),
        (DOWN, NOTHING, LEFT),
        (NOTHING, UP, LEFT),
        (NOTHING, 2.0, RIGHT),
        (NOTHING, DOWN, RIGHT),
        (UP, UP, RIGHT),  # the positive half is asked first
        (2.0, DOWN, LEFT),
        (NOTHING, NOTHING, STAY),
    ],
)
def test_a_half_tells_the_side_at_its_own_threshold(positive: float, negative: float, side: int) -> None:
    assert side_of_halves(positive, negative, np.array([2.0, 2.0])) == side


def test_a_half_without_a_threshold_tells_nothing() -> None:
    assert side_of_halves(UP, UP, np.array([NOTHING, 2.0])) == LEFT
    assert side_of_halves(UP, UP, np.array([2.0, NOTHING])) == RIGHT
    assert side_of_halves(NOTHING, UP, np.array([2.0, NOTHING])) == STAY
    assert side_of_halves(UP, UP, np.array([NOTHING, NOTHING])) == STAY
