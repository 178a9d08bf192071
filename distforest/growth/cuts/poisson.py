"""Poisson deviance of targets y >= 0: D(S) = sum w y log(y / mean(S)), half the deviance of their mean.

With sums s of the targets and their mean y = s / m, a cut gains D(S) - D(L) - D(R) = s_L log(s_L / (m_L y)) +
s_R log(s_R / (m_R y)), as ``criterion="poisson"`` of scikit-learn's trees does, which also refuse a side whose targets
are all 0. It suits counts and rates, whose variance grows with their mean.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np

from distforest.errors import InputError
from distforest.growth.cuts.criteria import SquaredDistance, Variance, bits_of, power_of_two
from distforest.growth.cuts.entropy import LOG_ROUNDING, rel_entr
from distforest.growth.cuts.scan import Sides, gain_of, largest_gain, may_gain, read_alike
from distforest.sources.source import Floats, Ints


class PoissonDeviance(NamedTuple):
    """Poisson deviance of one target: ``n_sums`` is 1."""

    n_sums: int


read_alike(SquaredDistance, PoissonDeviance)
largest_gain.share(SquaredDistance, PoissonDeviance)


@dataclass(frozen=True)
class Poisson(Variance):
    """Targets, whose cuts are scored by their Poisson deviance; the fields are those of `Variance`."""

    @classmethod
    def from_counts(cls, targets: Floats, heaviest: int | None = None) -> Self:
        """Convert targets, shape (n_rows, 1), to integers whose sums fit 63 bits.

        Raises
        ------
        InputError
            A target is negative, or so small beside the largest one that it is lost; or the largest one is not 0 and
            not from 1e-150 to 1e150.
        """
        if not (targets >= 0.0).all():
            row = int(np.argmin(targets))
            raise InputError(f"criterion='poisson' takes targets of at least 0, found {targets[row, 0]:g} in row {row}")
        largest = float(targets.max(initial=0.0))
        if largest and not 1e-150 <= largest <= 1e150:
            found = f"found {largest:g} in row {int(np.argmax(targets))}"
            raise InputError(f"criterion='poisson' takes targets whose largest is from 1e-150 to 1e150, {found}")
        scale = power_of_two(largest, bits_of(heaviest or len(targets)))
        fixed = np.rint(targets * scale).astype(np.int64)
        if (lost := (fixed == 0) & (targets > 0.0)).any():
            row = int(np.argmax(lost))
            found = f"found {targets[row, 0]:g} in row {row} beside {largest:g} in row {int(np.argmax(targets))}"
            raise InputError(f"criterion='poisson' adds targets at one scale, {found}; correct or scale them")
        return cls(fixed, 1.0 / scale)

    @property
    def impurity(self) -> PoissonDeviance:  # type: ignore[override]  # the same rows, another gain
        """The impurity."""
        return PoissonDeviance(self.n_dimensions)


@may_gain.register(PoissonDeviance)
def _(impurity: PoissonDeviance, most: float, least: float, sides: Sides, left: Ints, right: Ints) -> bool:  # noqa: ARG001
    return True


@gain_of.register(PoissonDeviance)
def _(impurity: PoissonDeviance, most: float, sides: Sides, left: Ints, right: Ints) -> float:  # noqa: ARG001
    whole = left[0] + right[0]
    mean = whole / (sides.n_left + sides.n_right)
    gain = rel_entr(left[0], sides.n_left * mean) + rel_entr(right[0], sides.n_right * mean)
    return gain if gain > LOG_ROUNDING * whole else 0.0
