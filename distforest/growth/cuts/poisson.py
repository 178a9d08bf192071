"""Poisson deviance of targets y >= 0: D(S) = sum w y log(y / mean(S)), half the deviance of their mean.

A cut gains D(S) - D(L) - D(R) = s_L log(s_L / m_L) + s_R log(s_R / m_R) - s log(s / m) for sums s of the targets, as
``criterion="poisson"`` of scikit-learn's trees does. It suits counts and rates, whose variance grows with their mean.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np

from distforest.errors import InputError
from distforest.growth.cuts.criteria import SquaredDistance, Variance, bits_of, power_of_two
from distforest.growth.cuts.scan import (
    GAIN_ROUNDING,
    Sides,
    bins_for,
    gain_of,
    groups_for,
    largest_gain,
    may_gain,
    rows_as_groups,
)
from distforest.jit import borrowing
from distforest.sources.source import Floats, Ints


class PoissonDeviance(NamedTuple):
    """Poisson deviance, and the least weight of a row, 1."""

    least: int


for function in (groups_for, bins_for, rows_as_groups):
    function.share(SquaredDistance, PoissonDeviance)


@dataclass(frozen=True)
class Poisson(Variance):
    """Targets, whose cuts are judged by their Poisson deviance; the fields are those of `Variance`."""

    @classmethod
    def of_counts(cls, targets: Floats, heaviest: int | None = None) -> Self:
        """Convert targets, shape (n_rows, 1), to integers whose sums fit 63 bits; raises InputError below 0."""
        if not (targets >= 0.0).all():
            row = int(np.argmin(targets))
            raise InputError(f"criterion='poisson' takes targets of at least 0, found {targets[row, 0]:g} in row {row}")
        scale = power_of_two(float(targets.max(initial=0.0)), bits_of(heaviest or len(targets)))
        return cls(np.rint(targets * scale).astype(np.int64), 1.0 / scale)

    @property
    def impurity(self) -> PoissonDeviance:  # type: ignore[override]  # the same rows, another gain
        """The impurity."""
        return PoissonDeviance(1)


@borrowing
def s_log_mean(s: int, m: int) -> float:
    """S log(s / m), 0 for s = 0."""
    return s * np.log(s / m) if s > 0 else 0.0


@largest_gain.of(PoissonDeviance)
def _(impurity: PoissonDeviance, sides: Sides, left: Ints, right: Ints) -> float:  # noqa: ARG001
    return np.inf


@may_gain.of(PoissonDeviance)
def _(impurity: PoissonDeviance, most: float, least: float, sides: Sides, left: Ints, right: Ints) -> bool:  # noqa: ARG001
    return True


@gain_of.of(PoissonDeviance)
def _(impurity: PoissonDeviance, most: float, sides: Sides, left: Ints, right: Ints) -> float:  # noqa: ARG001
    whole = s_log_mean(left[0] + right[0], sides.n_left + sides.n_right)
    parts = s_log_mean(left[0], sides.n_left) + s_log_mean(right[0], sides.n_right)
    gain = parts - whole
    return gain if gain > GAIN_ROUNDING * (abs(parts) + abs(whole)) else 0.0
