"""Two clusters: the criterion of cuts without a ground truth (URerF, section 3), and its searches."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple, Self

import numpy as np

from distforest.forest.frontier import Nodes, longest_of, pick
from distforest.growth.cuts.category_search import CategorySearch
from distforest.growth.cuts.companions import (
    NO_COLUMN,
    Companions,
    CompanionScores,
    cut_categories,
    keep_places,
    place_categories,
    score_categories,
)
from distforest.growth.cuts.criteria import Criterion, Steady, Turn
from distforest.growth.cuts.fences import LEFT_OUT, MARGIN
from distforest.growth.cuts.gaussians import cut_clusters, part_mixture, score_cuts
from distforest.growth.cuts.random_cuts import Places
from distforest.growth.cuts.scan import Cuts
from distforest.growth.cuts.search import Limits, score_and_cut, values_on
from distforest.growth.cuts.two_means import EQUAL_BIC, EQUAL_GAINS, FAST_BIC, TWO_MEANS, CandidateCuts, ClusterScoring
from distforest.growth.cuts.witnesses import Witnesses
from distforest.growth.rng import Keys
from distforest.jit import kernel, no_refcount
from distforest.sources.arrays import ArraySource, is_complete, project_array
from distforest.sources.source import Float32s, Floats, Int32s, Ints, Projections, Source, taken

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from distforest.forest.frontier import Frontier
    from distforest.sources.mapped_rows import MappedRows

SCORES = {"two_means": TWO_MEANS, "fast_bic": FAST_BIC, "equal_bic": EQUAL_BIC}
MCLUST_BIC = "mclust_bic"


class ScoredCandidates(NamedTuple):
    """One cut of each candidate in each node, and the margin that it needed if it is random."""

    cuts: CandidateCuts  # the cuts
    left_out: Floats  # as in `distforest.growth.cuts.fences`, shape (width, n_nodes)


@dataclass(frozen=True)
class TwoClusters(Steady):
    """A score of how well two clusters describe the values of a candidate.

    Rows without a value are omitted from the score. A score is a sum over the rows with a value: the fewer of them a
    candidate has, the less its cut gains. A score that is not a gain (see ``relative``) is scaled to all rows.
    """

    score: str  # ``"two_means"``, ``"fast_bic"``, ``"equal_bic"`` or ``"mclust_bic"``
    relative: bool = True  # whether a score is that of two clusters less that of one
    # whether a candidate is cut at a random threshold that leaves `MARGIN` of the rows on either side, and is scored
    # from the values within its fences; otherwise it is cut at its best threshold
    at_random: bool = False
    witnesses: Witnesses | None = None  # features that confirm a cut, if any
    places: Places | None = None  # the thresholds of candidates in this attempt, if random
    companions: Companions | None = None  # companions that score columns of categories, if there are any
    # scores of the companions for the rows of the nodes, if a candidate is a column of categories
    companion_scores: CompanionScores | None = None
    unit: float = 1.0

    def over(self, truth: np.ndarray, features: np.ndarray, stored: MappedRows | None = None) -> Self:  # noqa: ARG002
        """Return the criterion with the witnesses of other rows."""
        if self.witnesses is None:
            return self
        return replace(self, witnesses=replace(self.witnesses, matrix=features, stored=stored))

    def attempted(self, keys: Keys, attempt: int) -> Self:
        """Return the criterion with the thresholds and the witnesses of this attempt."""
        places = Places(keys, attempt, MARGIN) if self.at_random else None
        witnesses = self.witnesses.attempted(keys, attempt) if self.witnesses else None
        companions = self.companions.attempted(keys, attempt) if self.companions else None
        return replace(self, places=places, witnesses=witnesses, companions=companions)

    def scored_on(self, frontier: Frontier) -> Frontier:
        """Return the nodes with all their rows, or, if cuts are random, with some rows of each large one."""
        return frontier if self.places is None else self.places.some_rows(frontier)

    def impure(self, frontier: Frontier) -> NDArray[np.bool_]:
        """Return whether a node contains two rows."""
        return frontier.sizes > 1

    def cut(self, frontier: Frontier, values: Floats, min_leaf: int) -> Cuts:
        """Return the best cut of each node: the cut of the largest score among those of its candidates.

        The values of a column of categories are their places, as in `distforest.growth.cuts.companions`.
        """
        return self.chosen(frontier, self.score_candidates(frontier, values, min_leaf, Turn(0, len(values)), None))

    def score_candidates(
        self, frontier: Frontier, values: Floats, min_leaf: int, turn: Turn, found: ScoredCandidates | None
    ) -> ScoredCandidates:
        """Return the cut of each candidate of this turn and of those before it."""
        scoring_values = (
            values
            if self.companion_scores is None
            else np.where(np.isnan(self.companion_scores.scores), values, self.companion_scores.scores)
        )
        lacks, left_out = not is_complete(scoring_values), np.full((len(values), frontier.n_nodes), MARGIN)
        of_candidates = CandidateCuts.none(len(values), frontier.n_nodes)
        level = frontier.starts, frontier.weights, values
        if self.score == MCLUST_BIC:
            part_mixture(*level, min_leaf, self.relative, of_candidates)
        elif self.places is not None:
            fences = self.places.fences(frontier, values)
            left_out = fences[LEFT_OUT]
            of_candidates = of_candidates._replace(thresholds=replace(self.places, turn=turn).within(fences))
            score_cuts(*level, self.scoring(min_leaf), fences, of_candidates)
            if self.companion_scores is not None:
                score_categories(*level, self.companion_scores, self.scoring(min_leaf), of_candidates)
        else:
            cut_clusters(*level, self.scoring(min_leaf), self.is_plain and not lacks, of_candidates)
        if self.companion_scores is not None and self.places is None:
            cut_categories(*level, self.companion_scores, self.scoring(min_leaf), of_candidates)
        if lacks and not self.relative:
            of_candidates.scores[...] *= frontier.weight / np.maximum(_observed(frontier, scoring_values), 1)
        if self.witnesses:
            self.witnesses.confirm(frontier, values, of_candidates)
        if found is None:
            return ScoredCandidates(of_candidates, left_out)
        both = zip(found.cuts, of_candidates, strict=True)
        return ScoredCandidates(
            CandidateCuts(*(np.concatenate(pair) for pair in both)), np.concatenate([found.left_out, left_out])
        )

    def chosen(self, frontier: Frontier, found: ScoredCandidates) -> Cuts:
        """Return the cut of the best candidate of each node."""
        if self.places is not None:
            spread_first(found.left_out, MARGIN, found.cuts.scores)
        cuts = Cuts.none(frontier.n_nodes)
        choose(found.cuts, self.score == "two_means", frontier.weight, cuts)
        return cuts

    def scoring(self, min_leaf: int) -> ClusterScoring:
        """Return the scoring of cuts for kernels; for given sides, mclust_bic is fast_bic."""
        return ClusterScoring(SCORES.get(self.score, FAST_BIC), self.relative, min_leaf)

    @property
    def is_plain(self) -> bool:
        """Whether each node takes the best of its candidates' best cuts, so that the other candidates need no cut."""
        no_more = self.witnesses is None and self.companions is None
        return self.score in SCORES and not self.at_random and no_more


def _observed(frontier: Frontier, values: Floats) -> Ints:
    """Return the weight of the rows of each node that have a value of each candidate, shape (width, n_nodes)."""
    weights = np.where(np.isnan(values), 0, frontier.weights).astype(np.int64)
    observed: Ints = np.add.reduceat(weights, frontier.starts[:-1], axis=1)
    return observed


def spread_first(left_out: Floats, margin: float, scores: Floats) -> None:
    """Remove the cuts of candidates whose middle values are copies, in nodes in which other candidates have a cut.

    Their score becomes -inf. ``left_out``, shape (width, n_nodes), is the margin that a candidate needed. The zeros of
    a projection that is mostly zero look like a tight cluster, whatever the other values are.
    """
    copies = left_out < margin
    others = ((scores > -np.inf) & ~copies).any(axis=0)
    scores[copies & others] = -np.inf


@no_refcount
def choose(of_candidates: CandidateCuts, is_sum: bool, weight: Ints, cuts: Cuts) -> None:
    """Choose the candidate of the largest score of each node; of scores that differ by rounding, the first.

    Rounding is a share `EQUAL_GAINS` of the terms of a score: of the score itself if it is a sum of squares, otherwise
    of the node's weight.
    """
    thresholds, scores = of_candidates
    for node in range(scores.shape[1]):
        top = -np.inf
        for k in range(scores.shape[0]):
            top = max(top, scores[k, node])
        least = top - EQUAL_GAINS * (abs(top) if is_sum else weight[node])
        for k in range(scores.shape[0]):
            if scores[k, node] > -np.inf and scores[k, node] >= least:
                cuts.candidate[node], cuts.threshold[node], cuts.gain[node] = k, thresholds[k, node], scores[k, node]
                break


CACHE_CELLS = 1 << 15
"""Number of projected values (float64) of nodes that are cut together; a larger node is cut alone."""


def project_and_cut_clusters(
    source: ArraySource, criterion: TwoClusters, frontier: Frontier, projections: Projections, limits: Limits
) -> tuple[Cuts, Floats]:
    """Find the best cut of each node: the fused version of `score_and_cut` for projections of an array."""
    cuts, picked = Cuts.none(frontier.n_nodes), np.empty(len(frontier.rows))
    cut_as_projected(
        *(source.values, frontier.nodes, frontier.weight, projections),
        *(criterion.scoring(limits.min_samples_leaf), cuts, picked),
    )
    return cuts, picked


@kernel
def cut_as_projected(
    array: Float32s,
    nodes: Nodes,
    weight: Ints,
    projections: Projections,
    scoring: ClusterScoring,
    cuts: Cuts,
    picked: Floats,
) -> None:
    """`project_array`, `cut_clusters` of the best candidate only, `choose` and `pick`; a few nodes at a time."""
    (starts, rows, in_bag), (_, offset, columns, weights) = nodes, projections
    n_nodes, width = weight.shape[0], (offset.shape[0] - 1) // weight.shape[0]
    room = np.empty(max(CACHE_CELLS, width * longest_of(starts)))
    first = 0
    while first < n_nodes:
        begin, last = starts[first], first + 1
        while last < n_nodes and width * (starts[last + 1] - begin) <= CACHE_CELLS:
            last += 1
        end = starts[last]
        values = room[: width * (end - begin)].reshape(width, end - begin)
        own_starts = starts[first : last + 1] - begin
        candidates = offset[width * first : width * last + 1]
        project_array(array, rows[begin:end], own_starts, candidates, columns, weights, values)
        of_candidates = CandidateCuts(np.empty((width, last - first)), np.empty((width, last - first)))
        cut_clusters(own_starts, in_bag[begin:end], values, scoring, True, of_candidates)
        of_nodes = Cuts(
            cuts.candidate[first:last], cuts.threshold[first:last], cuts.gain[first:last], cuts.missing[first:last]
        )
        choose(of_candidates, scoring.score == TWO_MEANS, weight[first:last], of_nodes)
        pick(own_starts, values, of_nodes.candidate, picked[begin:end])
        first = last


class CompanionSearch(CategorySearch):
    """`score_and_cut` that cuts columns of categories by the places that companions give to categories."""

    def __call__(
        self, source: Source, criterion: Criterion, frontier: Frontier, projections: Projections, limits: Limits
    ) -> tuple[Cuts, Floats]:
        """Return the best cut of each node, and each row's value on the chosen candidate: its place, or a number."""
        which = self.of_categories(projections)
        if not which.any():
            return score_and_cut(source, criterion, frontier, projections, limits)
        assert isinstance(criterion, TwoClusters) and criterion.companions  # noqa: S101, PT018  (bound to each other)
        some = criterion.scored_on(frontier) if limits.min_samples_leaf == 1 else frontier
        values = source.project(some.rows, some.starts, projections)
        drawn = criterion.companions.drawn(some, self.own(projections, which))
        companion_scores = criterion.companions.score(some, drawn)
        place_categories(some.starts, some.weights, self.n_codes, companion_scores, values)
        cuts = replace(criterion, companion_scores=companion_scores).cut(some, values, limits.min_samples_leaf)
        places = np.empty(len(some.rows))
        pick(some.starts, values, cuts.candidate, places)
        if some is frontier:
            return cuts, places
        picked = values_on(source, frontier, projections, cuts)
        chosen = which[cuts.candidate.clip(0), np.arange(frontier.n_nodes)] & (cuts.candidate >= 0)
        if chosen.any():
            (of_all, rows), (scored, scored_rows) = frontier.take(chosen), some.take(chosen)
            nodes, candidates = np.flatnonzero(chosen), cuts.candidate[chosen]
            codes = source.project(scored.rows, scored.starts, taken(projections, nodes, candidates))[0]
            of_chosen = criterion.companions.score(of_all, drawn.chosen(nodes, candidates))
            picked[rows] = self.places(of_all, of_chosen, picked[rows], (scored, codes, places[scored_rows]))
        return cuts, picked

    def places(
        self,
        frontier: Frontier,
        companion_scores: CompanionScores,
        codes: Floats,
        scored: tuple[Frontier, Floats, Floats],
    ) -> Floats:
        """Return the places of the categories of all rows, shape (n_rows,), from the rows that have scored, if any.

        ``companion_scores`` and ``codes`` are those of all rows; ``scored`` contains the rows of the same nodes by
        which candidates were scored, their categories and places.
        """
        places = codes.copy()
        place_categories(frontier.starts, frontier.weights, self.n_codes, companion_scores, places[np.newaxis])
        some, some_codes, some_places = scored
        keep_places(some.starts, some_codes, some_places, frontier.starts, codes, self.n_codes, places)
        return places

    @property
    def n_codes(self) -> int:
        """Largest number of categories of a column."""
        return int(self.n_categories.max())

    def own(self, projections: Projections, which: NDArray[np.bool_]) -> Int32s:
        """Return the column of each candidate of categories, otherwise `NO_COLUMN`, shape (width, n_nodes)."""
        own = np.full(which.T.size, NO_COLUMN, np.int32)
        flat = which.T.reshape(-1)
        own[flat] = projections.columns[projections.offset[:-1][flat]]
        return np.ascontiguousarray(own.reshape(which.T.shape).T)
