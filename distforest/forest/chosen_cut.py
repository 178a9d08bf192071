"""Where candidates of two objects are cut: at the best place or at zero; and the choice between the two, as told."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

BEST, ZERO, EXEMPLARS = "best", "zero", "exemplars"
"""Where a candidate of two objects is cut, see `distforest.growth.cuts.zero_cuts`; or a candidate is an object of each
class, see `distforest.growth.draws.exemplars`."""

CUTS = (BEST, ZERO)
"""The cuts that are tried; the first is chosen if both err equally."""

CHOSEN_CUT = "chosen_cut"
"""The entry of the choice in a forest's provenance."""

EQUAL_ERRORS = 1e-9
"""Errors that differ by less than this share of the larger one are equal."""


@dataclass(frozen=True)
class ChosenCut:
    """The choice of a cut.

    Attributes
    ----------
    errors
        The mean squared error out of bag with each of `CUTS`: of targets, or of class shares (Brier, 1950).
    evaluations
        Pairs that the trials have paid for, if a function evaluates the similarities.

    Examples
    --------
    >>> ChosenCut((0.25, 0.125)).cut, ChosenCut((0.25, 0.25)).cut
    ('zero', 'best')
    """

    errors: tuple[float, float]
    evaluations: int = 0

    @property
    def cut(self) -> str:
        """The cut that errs less."""
        of_best, of_zero = self.errors
        return ZERO if of_zero < of_best * (1.0 - EQUAL_ERRORS) else BEST

    @property
    def entry(self) -> dict[str, object]:
        """The choice as the provenance of a forest holds it."""
        return {CHOSEN_CUT: {"cut": self.cut, "errors": dict(zip(CUTS, self.errors, strict=True))}}

    @classmethod
    def of(cls, provenance: Mapping[str, object]) -> Self | None:
        """Read the choice from the provenance of a forest; None if there was none, or the entry cannot be one."""
        entry = provenance.get(CHOSEN_CUT)
        errors = entry.get("errors") if isinstance(entry, Mapping) else None
        if not isinstance(errors, Mapping) or set(errors) != set(CUTS):
            return None
        found = [errors[cut] for cut in CUTS]
        if not all(isinstance(error, float) and math.isfinite(error) for error in found):
            return None
        return cls((found[0], found[1]))

    def told(self) -> str:
        """The choice in words.

        Examples
        --------
        >>> ChosenCut((0.25, 0.125)).told()
        "cut='zero': mean squared error out of bag 0.125, with cut='best' 0.25"
        """
        errors = dict(zip(CUTS, self.errors, strict=True))
        other = next(cut for cut in CUTS if cut != self.cut)
        found = f"mean squared error out of bag {errors[self.cut]:.4g}"
        return f"cut={self.cut!r}: {found}, with cut={other!r} {errors[other]:.4g}"

    def into(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """The parameters with this cut."""
        return {**params, "cut": self.cut}
