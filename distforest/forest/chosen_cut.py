"""Cuts of candidates: two objects at the best threshold or at zero, or one object per class; and the choice."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

BEST, ZERO, EXEMPLARS = "best", "zero", "exemplars"
"""Cuts of a candidate of two objects, see `distforest.growth.cuts.random_cuts`; and of a candidate of one object per
class, see `distforest.growth.draws.objects`."""

CUTS = (BEST, ZERO)
"""Cuts of two objects, which are always tried."""

TRIED = (*CUTS, EXEMPLARS)
"""All cuts that may be tried, in order of preference among those with equal errors."""

CHOSEN_CUT = "chosen_cut"
"""Key of the choice in a forest's provenance."""

EQUAL_ERRORS = 1e-9
"""Errors that differ by less than this share of the larger one are equal."""


@dataclass(frozen=True)
class ChosenCut:
    """The choice of a cut.

    Attributes
    ----------
    of_tried
        The out-of-bag error of each tried cut, in the order of `TRIED`: the mean squared error for targets; for labels,
        the largest share of objects that the vote gets wrong (`distforest.forest.margins.most_errors`).
    evaluations
        Number of pairs that the trials have evaluated, if a function computes the similarities.

    Examples
    --------
    >>> ChosenCut((0.25, 0.125)).cut, ChosenCut((0.25, 0.25)).cut, ChosenCut((0.25, 0.125, 0.1)).cut
    ('zero', 'best', 'exemplars')
    """

    of_tried: tuple[float, ...]
    evaluations: int = 0

    @property
    def errors(self) -> dict[str, float]:
        """The errors by cut."""
        return dict(zip(TRIED, self.of_tried, strict=False))

    @property
    def cut(self) -> str:
        """The cut of the smallest error, the first of equals."""
        errors = self.errors
        chosen, *others = errors
        for cut in others:
            if errors[cut] < errors[chosen] * (1.0 - EQUAL_ERRORS):
                chosen = cut
        return chosen

    @property
    def entry(self) -> dict[str, object]:
        """The choice as an entry of a forest's provenance."""
        return {CHOSEN_CUT: {"cut": self.cut, "errors": self.errors}}

    @classmethod
    def from_provenance(cls, provenance: Mapping[str, object]) -> Self | None:
        """Read the choice from the provenance of a forest; None if there was no choice, or the entry is not valid."""
        entry = provenance.get(CHOSEN_CUT)
        errors = entry.get("errors") if isinstance(entry, Mapping) else None
        if not isinstance(errors, Mapping) or set(errors) not in (set(CUTS), set(TRIED)):
            return None
        found = [errors[cut] for cut in TRIED[: len(errors)]]
        if not all(isinstance(error, float) and math.isfinite(error) for error in found):
            return None
        return cls(tuple(found))

    def in_words(self) -> str:
        """Return a text of the choice.

        Examples
        --------
        >>> ChosenCut((0.25, 0.125)).in_words()
        "cut='zero': error out of bag 0.125, with cut='best' 0.25"
        """
        others = (f"cut={cut!r} {error:.4g}" for cut, error in self.errors.items() if cut != self.cut)
        return f"cut={self.cut!r}: error out of bag {self.errors[self.cut]:.4g}, with {', '.join(others)}"

    def into(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Return the parameters with this cut."""
        return {**params, "cut": self.cut}
