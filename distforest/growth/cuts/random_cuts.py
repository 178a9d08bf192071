"""Cuts at random thresholds, as in extremely randomised trees (Geurts, Ernst, Wehenkel, 2006), and cuts at zero."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self

import numpy as np

from distforest.forest.frontier import Frontier
from distforest.growth.cuts.category_search import RanksCategories
from distforest.growth.cuts.criteria import Criterion, ScoresInTurn, Steady, Turn
from distforest.growth.cuts.fences import FIRST, LAST, find_fences
from distforest.growth.cuts.scan import NO_CUT, Cuts
from distforest.growth.rng import Keys, mix, unit
from distforest.jit import kernel
from distforest.sources.source import Floats, Int32s, Ints, offsets

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from distforest.sources.mapped_rows import MappedRows

FIRST_SHARE = 1 << 33
"""First draw of a node's stream that places a cut; earlier draws are for projections."""

FIRST_CHOICE = 1 << 36
"""Offset that is added, with the attempt, to a node's stream, to get the stream that chooses rows."""

SCORED_ROWS = 256
"""Largest number of rows that score the cuts of a node: random cuts are not better with more rows."""


@dataclass(frozen=True)
class Places:
    """Random thresholds of the candidates of some nodes, uniform between two quantiles of their values."""

    # keys, attempt: the nodes' streams, shape (n_nodes,), and which attempt this is
    keys: Keys
    attempt: int
    margin: float  # share of a node's values that is excluded at each end, below 1/2; 0: anywhere between the extremes
    turn: Turn | None = None  # the candidates whose values are given; None: all of them

    def some_rows(self, frontier: Frontier) -> Frontier:
        """Return the nodes with at most `SCORED_ROWS` of their rows, drawn without replacement, in order.

        A node that draws again has found no cut on some of its rows, so all of its rows score cuts then.
        """
        if self.attempt > 0 or frontier.sizes.max(initial=0) <= SCORED_ROWS:
            return frontier
        starts = offsets(np.minimum(frontier.sizes, SCORED_ROWS))
        chosen = np.empty(starts[-1], np.int64)
        choose_rows(frontier.starts, self.keys, self.attempt, starts, chosen)
        return Frontier(frontier.tree, frontier.node, starts, frontier.rows[chosen], frontier.weights[chosen])

    def fences(self, frontier: Frontier, values: Floats) -> Floats:
        """Return the result of `find_fences` for each candidate of each node, shape (5, width, n_nodes).

        ``values`` has shape (width, n_rows); NaN is omitted.
        """
        fences = np.empty((5, len(values), frontier.n_nodes))
        find_fences(frontier.starts, values, self.margin, fences)
        return fences

    def within(self, fences: Floats) -> Floats:
        """Return a threshold for each candidate of each node, shape (width, n_nodes); NaN if all values are equal."""
        thresholds = np.empty(fences.shape[1:])
        first, width = self.turn or (0, len(thresholds))
        draw_cuts(fences[FIRST], fences[LAST], self.keys, self.attempt * width + first, thresholds)
        return thresholds

    def thresholds(self, frontier: Frontier, values: Floats) -> Floats:
        """Return the thresholds `within` the `fences` of the values."""
        return self.within(self.fences(frontier, values))


@kernel
def choose_rows(starts: Ints, keys: Keys, attempt: int, chosen_starts: Ints, chosen: Ints) -> None:
    """Choose each row in turn with probability wanted / left, so that every choice of rows is equally likely.

    This is algorithm S of Knuth, The art of computer programming, volume 2, 3.4.2.
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
def draw_cuts(first: Floats, last: Floats, keys: Keys, drawn: int, thresholds: Floats) -> None:
    """thresholds[k, f] = first + u (last - first), with u drawn by node f after ``drawn`` others and those before k."""
    for node in range(thresholds.shape[1]):
        for k in range(thresholds.shape[0]):
            low, high = first[k, node], last[k, node]
            place = low + unit(keys[node], FIRST_SHARE + drawn + k) * (high - low)
            thresholds[k, node] = low if place >= high else place  # rounding must not send the right side left


def side_criterion(criterion: Criterion) -> Criterion:
    """Return the criterion that scores the sides of cuts, random or not."""
    return criterion.criterion if isinstance(criterion, AtRandom) else criterion


@dataclass(frozen=True)
class _OfSides(Steady):
    """Base of criteria that score only the sides of a cut, with one threshold for each candidate."""

    criterion: Criterion

    @property
    def unit(self) -> float:
        """The unit of the scoring criterion."""
        return self.criterion.unit

    def truth_of(self, n_rows: int) -> Int32s | Ints:
        """Return the truth of the scoring criterion."""
        return self.criterion.truth_of(n_rows)

    def over(self, truth: np.ndarray, features: np.ndarray, stored: MappedRows | None = None) -> Self:
        """Return this object with the scoring criterion over other rows."""
        return replace(self, criterion=self.criterion.over(truth, features, stored))

    def at(self, frontier: Frontier) -> Self:
        """Return this object with the scoring criterion for the level."""
        return replace(self, criterion=self.criterion.at(frontier))

    def impure(self, frontier: Frontier) -> NDArray[np.bool_]:
        """Return whether a cut of each node could gain anything by the scoring criterion."""
        return self.criterion.impure(frontier)


@dataclass(frozen=True)
class AtZero(_OfSides):
    """A criterion of SimForest that cuts each candidate at 0: a row goes to the nearer of the two objects j and i.

    A candidate's value is S_kj - S_ki. Row k goes right if it is nearer to j, and left if it is nearer to i or as near.
    """

    def cut(self, frontier: Frontier, values: Floats, min_leaf: int) -> Cuts:
        """Return the best of each node's candidates; none that leaves a side empty or lighter than ``min_leaf``."""
        sides = np.where(np.isnan(values), np.nan, values > 0.0)
        return self.criterion.cut(frontier, sides, min_leaf)._replace(threshold=np.zeros(frontier.n_nodes))


@dataclass(frozen=True)
class AtRandom(_OfSides):
    """A criterion that cuts each candidate at a random threshold."""

    places: Places | None = None

    def attempted(self, keys: Keys, attempt: int) -> Self:
        """Return the criterion with the thresholds of this attempt."""
        return replace(self, places=Places(keys, attempt, 0.0))

    def cut(self, frontier: Frontier, values: Floats, min_leaf: int) -> Cuts:
        """Return the best of each node's candidates, each with its own threshold."""
        thresholds, sides = self._parted(frontier, values, Turn(0, len(values)))
        cuts = self.criterion.cut(frontier, sides, min_leaf)
        chosen = thresholds[cuts.candidate.clip(0), np.arange(frontier.n_nodes)]
        return cuts._replace(threshold=np.where(cuts.candidate >= 0, chosen, 0.0))

    def score_candidates(
        self, frontier: Frontier, values: Floats, min_leaf: int, turn: Turn, found: Cuts | None
    ) -> Cuts:
        """Return the best cut of each node after the candidates of a turn."""
        assert isinstance(self.criterion, ScoresInTurn)  # noqa: S101  (`distforest.growth.passes` has checked)
        thresholds, sides = self._parted(frontier, values, turn)
        cuts: Cuts = self.criterion.score_candidates(frontier, sides, min_leaf, turn, found)
        gain, threshold = (NO_CUT, 0.0) if found is None else (found.gain, found.threshold)
        chosen = thresholds[(cuts.candidate - turn.first).clip(0), np.arange(frontier.n_nodes)]
        return cuts._replace(threshold=np.where(cuts.gain > gain, chosen, threshold))

    def chosen(self, frontier: Frontier, found: Cuts) -> Cuts:  # noqa: ARG002  (the best cuts so far are the best)
        """Return the cuts that were found."""
        return found

    def _parted(self, frontier: Frontier, values: Floats, turn: Turn) -> tuple[Floats, Floats]:
        """Return the threshold of each candidate of a turn in each node, and the side of each row as its value."""
        assert self.places is not None  # noqa: S101  (the grower calls `attempted` first)
        thresholds = replace(self.places, turn=turn).thresholds(frontier, values)
        of_rows = np.repeat(thresholds, frontier.sizes, axis=1)
        return thresholds, np.where(np.isnan(values) | np.isnan(of_rows), np.nan, values > of_rows)

    def rank_categories(self, frontier: Frontier, which: NDArray[np.bool_], n_codes: int, values: Floats) -> None:
        """Replace codes by the ranks of the scoring criterion; a random threshold among them splits the categories."""
        assert isinstance(self.criterion, RanksCategories)  # noqa: S101  (all that score random cuts do)
        self.criterion.rank_categories(frontier, which, n_codes, values)
