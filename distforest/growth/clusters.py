"""Two clusters: what a cut is judged by where nothing is taught (URerF, section 3)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from distforest.growth.criteria import Criterion, Cuts
from distforest.growth.gaussians import EQUAL_BIC, FAST_BIC, TWO_MEANS, cut_clusters, judge_cuts
from distforest.growth.mixture import part_mixture
from distforest.growth.random_cuts import Places
from distforest.growth.rng import Keys
from distforest.growth.two_means import ROUNDING
from distforest.growth.witnesses import Witnesses
from distforest.sources.source import Floats

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from distforest.forest.frontier import Frontier

SCORES = {"two_means": TWO_MEANS, "fast_bic": FAST_BIC, "equal_bic": EQUAL_BIC}
MCLUST_BIC = "mclust_bic"
MARGIN = 0.3
"""Share of a node's rows that a random cut leaves on either side."""


@dataclass(frozen=True)
class TwoClusters:
    """How well two clusters describe the values of a candidate.

    Attributes
    ----------
    score
        ``"two_means"``, ``"fast_bic"``, ``"equal_bic"`` or ``"mclust_bic"``.
    relative
        Whether a score is that of two clusters less that of one.
    at_random
        Whether a candidate is cut at a random place that leaves `MARGIN` of the rows on either side, or at its best.
    witnesses
        Features that confirm a cut.
    places
        Where the candidates of this attempt are cut, if at random.
    """

    score: str
    relative: bool = True
    at_random: bool = False
    witnesses: Witnesses | None = None
    places: Places | None = None
    unit: float = 1.0

    def at(self, frontier: Frontier) -> Criterion:  # noqa: ARG002  (the same at every level)
        """Itself."""
        return self

    def attempted(self, keys: Keys, attempt: int) -> Criterion:
        """The same with the places and the witnesses of this attempt."""
        places = Places(keys, attempt, MARGIN) if self.at_random else None
        witnesses = self.witnesses.attempted(keys, attempt) if self.witnesses else None
        return replace(self, places=places, witnesses=witnesses)

    def judged_on(self, frontier: Frontier) -> Frontier:
        """Some rows of each large node, drawn from its stream, if cuts are made at random; else all."""
        return frontier if self.places is None else self.places.some_rows(frontier)

    def impure(self, frontier: Frontier) -> NDArray[np.bool_]:
        """Whether a node holds two rows."""
        return frontier.sizes > 1

    def cut(self, frontier: Frontier, values: Floats, min_leaf: int) -> Cuts:
        """The best cut of each node: among its candidates' own cuts the one of the largest score."""
        thresholds = self._places_of(frontier, values)
        scores = np.full(thresholds.shape, -np.inf)
        where = frontier.starts, frontier.weights, values
        if self.score == MCLUST_BIC:
            part_mixture(*where, min_leaf, self.relative, thresholds, scores)
        elif self.at_random:
            judge_cuts(*where, SCORES[self.score], min_leaf, self.relative, thresholds, scores)
        else:
            cut_clusters(*where, SCORES[self.score], min_leaf, self.relative, self.takes_best, thresholds, scores)
        if self.witnesses:
            self.witnesses.confirm(frontier, values, thresholds, scores)
        return self.chosen(frontier, thresholds, scores)

    @property
    def takes_best(self) -> bool:
        """Whether each node takes the best cut of all its candidates, which only one has to have found."""
        return self.score in SCORES and not self.at_random and self.witnesses is None

    def chosen(self, frontier: Frontier, thresholds: Floats, scores: Floats) -> Cuts:
        """Of each node's candidates the one of the largest score, the first of equals."""
        top, nodes = scores.max(axis=0), np.arange(frontier.n_nodes)
        size = np.abs(top) if self.score == "two_means" else frontier.weight  # of the terms that a score is made of
        chosen = np.argmax(scores >= top - ROUNDING * size, axis=0)  # of equal ones the first
        gain = scores[chosen, nodes]
        has = gain > -np.inf
        candidate = np.where(has, chosen, -1).astype(np.int32)
        return Cuts(candidate, np.where(has, thresholds[chosen, nodes], 0.0), np.where(has, gain, 0.0))

    def _places_of(self, frontier: Frontier, values: Floats) -> Floats:
        """The thresholds of random cuts, shape (width, n_nodes); NaN where they are still to be found."""
        if self.places is None:
            return np.full((len(values), frontier.n_nodes), np.nan)
        return self.places.thresholds(frontier, values)
