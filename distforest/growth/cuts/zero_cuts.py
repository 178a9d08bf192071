"""Cuts at zero: a row goes to the nearer of the two objects that a candidate compares."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self

import numpy as np

from distforest.growth.cuts.criteria import Criterion, Steady
from distforest.growth.cuts.scan import Cuts

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from distforest.forest.frontier import Frontier
    from distforest.sources.source import Floats


@dataclass(frozen=True)
class AtZero(Steady):
    """A criterion that judges only the sides of a cut: each candidate is cut at 0.

    A candidate's value is S_kj - S_ki. Row k goes right if it is nearer to j, and left if it is nearer to i or as near.
    """

    criterion: Criterion

    @property
    def unit(self) -> float:
        """That of the criterion."""
        return self.criterion.unit

    def at(self, frontier: Frontier) -> Self:
        """The same with the criterion that judges prepared for the level."""
        return replace(self, criterion=self.criterion.at(frontier))

    def impure(self, frontier: Frontier) -> NDArray[np.bool_]:
        """Whether a cut of each node could gain anything by the criterion."""
        return self.criterion.impure(frontier)

    def cut(self, frontier: Frontier, values: Floats, min_leaf: int) -> Cuts:
        """The best of each node's candidates; none that leaves a side empty or lighter than ``min_leaf``."""
        sides = np.where(np.isnan(values), np.nan, values > 0.0)
        return self.criterion.cut(frontier, sides, min_leaf)._replace(threshold=np.zeros(frontier.n_nodes))
