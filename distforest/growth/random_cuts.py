"""Cuts at random places, as in extremely randomised trees (Geurts, Ernst, Wehenkel, 2006): cheap, and not greedy."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from distforest.forest.frontier import Frontier
from distforest.growth.criteria import Criterion, Cuts
from distforest.growth.rng import Keys, mix, unit
from distforest.jit import kernel
from distforest.sources.source import Floats, Ints, offsets

if TYPE_CHECKING:
    from numpy.typing import NDArray

FIRST_SHARE = 1 << 33
"""Place in a node's stream of the first number that says where to cut; projections are drawn from those before it."""

FIRST_CHOICE = 1 << 36
"""Added to a node's stream and the attempt to give the stream that chooses rows."""

JUDGED_ROWS = 256
"""Rows of a larger node on which its cuts are judged: at random places they are no better for being judged on more."""


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

    def some_rows(self, frontier: Frontier) -> Frontier:
        """The same nodes with at most `JUDGED_ROWS` of their rows, drawn without replacement, in their order.

        A node that asks again has found no cut on some of its rows: all of them judge then.
        """
        if self.attempt > 0 or frontier.sizes.max(initial=0) <= JUDGED_ROWS:
            return frontier
        starts = offsets(np.minimum(frontier.sizes, JUDGED_ROWS))
        chosen = np.empty(starts[-1], np.int64)
        choose_rows(frontier.starts, self.keys, self.attempt, starts, chosen)
        return Frontier(frontier.tree, frontier.node, starts, frontier.rows[chosen], frontier.weights[chosen])

    def thresholds(self, frontier: Frontier, values: Floats) -> Floats:
        """A threshold for each candidate of each node, shape (width, n_nodes); NaN where its values are all equal.

        ``values`` has shape (width, n_rows); those that are NaN take no part.
        """
        found = np.empty((len(values), frontier.n_nodes))
        draw_cuts(frontier.starts, values, self.keys, self.attempt, self.margin, found)
        return found


@kernel
def choose_rows(starts: Ints, keys: Keys, attempt: int, chosen_starts: Ints, chosen: Ints) -> None:
    """Let each row in turn be chosen with the chance wanted / left, so that every choice of rows is equally likely.

    (Knuth, The art of computer programming, volume 2, 3.4.2, algorithm S.)
    """
    for node in range(starts.shape[0] - 1):
        place, last = chosen_starts[node], chosen_starts[node + 1]
        key = mix(keys[node] + np.uint64(FIRST_CHOICE + attempt))
        for r in range(starts[node], starts[node + 1]):
            if place == last:
                break
            if unit(key, r - starts[node]) * (starts[node + 1] - r) < last - place:
                chosen[place] = r
                place += 1


@kernel
def draw_cuts(starts: Ints, values: Floats, keys: Keys, attempt: int, margin: float, thresholds: Floats) -> None:
    """thresholds[k, f] = low + u (high - low), u the share that node f draws for candidate k in this attempt.

    ``low`` and ``high`` are the values with floor(margin m) of m values below and above them: the extremes without a
    margin. Where they are equal they are the extremes again.
    """
    width = values.shape[0]
    some = np.empty((starts[1:] - starts[:-1]).max() if margin > 0.0 else 0)
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
                m = 0
                for r in range(first, last):
                    if not np.isnan(values[k, r]):
                        some[m] = values[k, r]
                        m += 1
                some[:m].sort()
                left_out = int(margin * m)
                start, end = some[left_out], some[m - 1 - left_out]
                if not start < end:
                    start, end = low, high
            place = start + unit(keys[node], FIRST_SHARE + attempt * width + k) * (end - start)
            thresholds[k, node] = place if place < high else low  # rounding must not send the right side left


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
