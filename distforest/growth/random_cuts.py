"""Cuts at random places, as in extremely randomised trees (Geurts, Ernst, Wehenkel, 2006): cheap, and not greedy."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from distforest.growth.criteria import Criterion, Cuts
from distforest.growth.rng import Keys, below, unit
from distforest.jit import kernel
from distforest.sources.source import Floats, Ints

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from distforest.forest.frontier import Frontier

FIRST_SHARE = 1 << 33
"""Place in a node's stream of the first number that says where to cut; projections are drawn from those before it."""

FIRST_ROW = 1 << 35
"""Place of the first number that draws a row from which the quantiles are taken."""

MARGIN_ROWS = 256
"""Rows of a larger node from which the quantiles are taken, drawn with replacement."""


@dataclass(frozen=True)
class Places:
    """Where the candidates of some nodes are cut: between two quantiles of their values, anywhere with equal chance.

    Attributes
    ----------
    keys, attempt
        The nodes' streams, shape (n_nodes,), and which attempt this is.
    margin
        Share of a node's rows that is left out at each end, below 1/2; 0: anywhere between the extremes.
    """

    keys: Keys
    attempt: int
    margin: float

    def thresholds(self, frontier: Frontier, values: Floats) -> Floats:
        """A threshold for each candidate of each node, shape (width, n_nodes); NaN where its values are all equal.

        ``values`` has shape (width, n_rows); those that are NaN take no part.
        """
        found = np.empty((len(values), frontier.n_nodes))
        draw_cuts(frontier.starts, values, self.keys, self.attempt, self.margin, found)
        return found


@kernel
def draw_cuts(starts: Ints, values: Floats, keys: Keys, attempt: int, margin: float, thresholds: Floats) -> None:
    """thresholds[k, f] = low + u (high - low), u the share that node f draws for candidate k in this attempt.

    ``low`` and ``high`` are the values with floor(margin m) of m values below and above them: the extremes without a
    margin, else taken from all rows or `MARGIN_ROWS` drawn ones. Where they are equal they are the extremes again.
    """
    width = values.shape[0]
    some = np.empty(MARGIN_ROWS)
    for node in range(starts.shape[0] - 1):
        first, last = starts[node], starts[node + 1]
        for k in range(width):
            low, high = np.inf, -np.inf
            for r in range(first, last):
                low, high = min(low, values[k, r]), max(high, values[k, r])
            thresholds[k, node] = np.nan
            if not low < high:
                continue
            start, end = low, high
            if margin > 0.0:
                m = draw_some(values[k, first:last], keys[node], some)
                some[:m].sort()
                left_out = int(margin * m)
                start, end = some[left_out], some[m - 1 - left_out]
                if not start < end:
                    start, end = low, high
            place = start + unit(keys[node], FIRST_SHARE + attempt * width + k) * (end - start)
            thresholds[k, node] = place if place < high else low  # rounding must not send the right side left


@kernel
def draw_some(values: Floats, key: np.uint64, some: Floats) -> int:
    """Fill ``some`` with all observed values, or with drawn ones where there are more than room; returns how many."""
    size, n = values.shape[0], 0
    for e in range(min(size, some.shape[0])):
        value = values[e if size <= some.shape[0] else below(key, FIRST_ROW + e, size)]
        if not np.isnan(value):
            some[n] = value
            n += 1
    return n


@dataclass(frozen=True)
class AtRandom:
    """A criterion that looks at nothing but the sides of a cut, and cuts at random places: one for each candidate."""

    criterion: Criterion
    places: Places | None = None

    @property
    def unit(self) -> float:
        """As of the criterion."""
        return self.criterion.unit

    def at(self, frontier: Frontier) -> Criterion:
        """The same of the criterion for the level."""
        return replace(self, criterion=self.criterion.at(frontier))

    def attempted(self, keys: Keys, attempt: int) -> Criterion:
        """The same with the places of this attempt."""
        return replace(self, places=Places(keys, attempt, 0.0))

    def impure(self, frontier: Frontier) -> NDArray[np.bool_]:
        """As of the criterion."""
        return self.criterion.impure(frontier)

    def cut(self, frontier: Frontier, values: Floats, min_leaf: int) -> Cuts:
        """The best of each node's candidates, each cut at its own place."""
        assert self.places is not None  # noqa: S101  (a node is cut in some attempt)
        thresholds = self.places.thresholds(frontier, values)
        own = np.repeat(thresholds, frontier.sizes, axis=1)
        sides = np.where(np.isnan(values) | np.isnan(own), np.nan, values > own)
        cuts = self.criterion.cut(frontier, sides, min_leaf)
        chosen = thresholds[cuts.candidate.clip(0), np.arange(frontier.n_nodes)]
        return cuts._replace(threshold=np.where(cuts.candidate >= 0, chosen, 0.0))
