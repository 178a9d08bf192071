"""Isolation: two random objects and a random cut, which is not scored (Liu, Ting, Zhou: Isolation Forest, 2008).

A node draws two distinct objects i and j, and cuts its objects by S_kj - S_ki at a random place between the least and
the greatest value. Objects that differ from the others are alone after few cuts.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self

import numpy as np

from distforest.growth.cuts.criteria import Steady
from distforest.growth.cuts.random_cuts import Places
from distforest.growth.cuts.scan import Cuts
from distforest.growth.draws.object_pairs import (
    ONE_MEASURE,
    PAIR_TRIES,
    AnyPairs,
    Measures,
    rules_of_similarities,
    usable_pairs,
)
from distforest.growth.draws.objects import DRAW_ATTEMPTS
from distforest.growth.rng import Keys
from distforest.sources.source import Floats, Projections, Source, offsets

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from distforest.forest.frontier import Frontier


@dataclass(frozen=True)
class TwoAtRandom:
    """Column j minus column i of the similarity matrix, for any two objects of the node.

    A pair is drawn again unless S_ij is observed and S_ii + S_jj - 2 S_ij is positive. If no pair of a node is usable,
    `distforest.growth.draws.object_pairs.tell_apart` decides. With several ``measures``, each candidate draws one.

    If objects are ``weighted``, they are drawn as if each were repeated, and then once more without weights.
    """

    source: Source
    width: int = 1
    measures: Measures = ONE_MEASURE
    weighted: bool = False

    @property
    def attempts(self) -> int:
        """Largest number of attempts of a node."""
        return DRAW_ATTEMPTS + self.weighted

    def __call__(self, frontier: Frontier, keys: Keys, attempt: int) -> Projections:
        """Return a pair for each candidate of each node; a candidate without a usable pair is empty."""
        compared = self.measures.drawn(keys, attempt, self.width)
        rules = rules_of_similarities(self.source, frontier, self.width, compared)
        pairing = AnyPairs(DRAW_ATTEMPTS * PAIR_TRIES if self.weighted else 0)
        pairs = usable_pairs(pairing, self.width, frontier, keys, attempt, rules)
        usable = pairs[:, 0] >= 0
        weights = np.tile([1.0, -1.0], int(usable.sum()))
        places = np.repeat(np.flatnonzero(usable), 2)
        columns = compared.columns(places, pairs[usable].reshape(-1))
        return Projections(self.width, offsets(2 * usable), columns, weights)


@dataclass(frozen=True)
class RandomCut(Steady):
    """A random cut between the least and the greatest observed value of a node, without a gain."""

    places: Places | None = None
    unit: float = 1.0

    def attempted(self, keys: Keys, attempt: int) -> Self:
        """Return the criterion with the thresholds of this attempt."""
        return replace(self, places=Places(keys, attempt, margin=0.0))

    def impure(self, frontier: Frontier) -> NDArray[np.bool_]:
        """Return whether a node contains two rows."""
        return frontier.sizes > 1

    def cut(self, frontier: Frontier, values: Floats, min_leaf: int) -> Cuts:  # noqa: ARG002  (no side is empty)
        """Return the cut of each node's one candidate; none if its values are equal or unobserved."""
        assert self.places is not None  # noqa: S101  (the grower calls `attempted` first)
        threshold = self.places.thresholds(frontier, values)[0]
        is_cut = ~np.isnan(threshold)
        candidate = np.where(is_cut, 0, -1).astype(np.int32)
        none = Cuts.none(frontier.n_nodes)
        return none._replace(
            candidate=candidate, threshold=np.where(is_cut, threshold, 0.0), gain=np.zeros(frontier.n_nodes)
        )
