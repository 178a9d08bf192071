"""Isolation: two objects at random and a cut at random, judged by nothing (Liu, Ting, Zhou: Isolation Forest, 2008).

A node draws two distinct objects i and j, and cuts its objects by S_kj - S_ki at a random place between the least and
the greatest value. Objects that are unlike the others are alone after few cuts.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Self

import numpy as np

from distforest.growth.criteria import Criterion, Cuts
from distforest.growth.draws import Keys
from distforest.growth.grower import Limits, project_and_cut
from distforest.growth.pairs_of_objects import ATTEMPTS, are_directions, usable_pairs
from distforest.growth.rng import unit
from distforest.jit import kernel
from distforest.sources.source import Floats, Projections, Source, offsets

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from distforest.forest.frontier import Frontier

FIRST_SHARE = 1 << 33
"""Place in a node's stream of the first number that says where to cut; pairs are drawn from the places before it."""


class Thrown(Projections):
    """One projection for each node and the place of its cut, shape (n_nodes,): 0 the least value, 1 the greatest.

    Examples
    --------
    >>> at = Projections(1, np.array([0, 2]), np.array([4, 7], np.int32), np.array([1.0, -1.0]))
    >>> Thrown.of(at, np.array([0.25])).shares
    array([0.25])
    """

    shares: Floats

    @classmethod
    def of(cls, projections: Projections, shares: Floats) -> Self:
        """Projections with the places of their cuts."""
        thrown = cls(*projections)
        thrown.shares = shares
        return thrown


@dataclass(frozen=True)
class TwoAtRandom:
    """Column j minus column i of the similarity matrix, for any two objects of the node, and where to cut.

    S_ij must be observed and S_ii + S_jj - 2 S_ij positive, or the pair is drawn again.
    """

    source: Source
    width: int = 1
    attempts: int = ATTEMPTS

    def __call__(self, frontier: Frontier, keys: Keys, attempt: int) -> Projections:
        """A pair and a place for each node; a pair that could not be found is an empty candidate."""
        pairs = usable_pairs(None, self.width, frontier, keys, attempt, partial(are_directions, self.source))
        found = pairs[:, 0] >= 0
        weights = np.tile([1.0, -1.0], int(found.sum()))
        shares = np.empty(frontier.n_nodes)
        draw_shares(keys, FIRST_SHARE + attempt, shares)
        return Thrown.of(Projections(self.width, offsets(2 * found), pairs[found].reshape(-1), weights), shares)


@kernel
def draw_shares(keys: Keys, draw: int, shares: Floats) -> None:
    """shares[f] = unit(keys[f], draw)."""
    for f in range(keys.shape[0]):
        shares[f] = unit(keys[f], draw)


@dataclass(frozen=True)
class RandomCut:
    """A cut at a share of the way from a node's least observed value to its greatest; it gains nothing."""

    shares: Floats | float = 0.5
    unit: float = 1.0

    def at(self, frontier: Frontier) -> Criterion:  # noqa: ARG002  (the same at every level)
        """Itself."""
        return self

    def impure(self, frontier: Frontier) -> NDArray[np.bool_]:
        """Whether a node holds two rows."""
        return frontier.sizes > 1

    def cut(self, frontier: Frontier, values: Floats, min_leaf: int) -> Cuts:  # noqa: ARG002  (no side is empty)
        """The cut of each node's one candidate; none where its values are equal or unobserved."""
        low = np.fmin.reduceat(values[0], frontier.starts[:-1])
        high = np.fmax.reduceat(values[0], frontier.starts[:-1])
        found = low < high
        threshold = np.where(found, low, 0.0)
        span = np.where(found, high, 0.0) - threshold
        place = threshold + span * self.shares
        threshold = np.where(found & (place < high), place, threshold)  # rounding must not send the right side left
        return Cuts(np.where(found, 0, -1).astype(np.int32), threshold, np.zeros(frontier.n_nodes))


def cut_at_random(
    source: Source, criterion: Criterion, frontier: Frontier, projections: Projections, limits: Limits
) -> tuple[Cuts, Floats]:
    """`project_and_cut` at the places that were drawn with the projections."""
    if isinstance(projections, Thrown):
        criterion = RandomCut(projections.shares)
    return project_and_cut(source, criterion, frontier, projections, limits)
