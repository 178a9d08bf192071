"""Choice between the two-sided and the one-sided distance of a new row to a training row, out of bag."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from distforest.distance_sides import ONE, TWO
from distforest.errors import InputError
from distforest.evaluation.grids import AREAS, EQUAL, SCORINGS, DistanceScorer, scored_rows, weights_of_pairs
from distforest.forest.one_sided import known_distances

if TYPE_CHECKING:
    from collections.abc import Mapping

    from distforest.forest.forest import Forest
    from distforest.sources.truth import Truth


@dataclass(frozen=True)
class ScoredSides:
    """Out-of-bag scores of the two-sided and the one-sided distance of new rows to training rows.

    Attributes
    ----------
    scores
        The scores by the names that ``tune`` accepts as ``scoring``, for ``"two"`` and for ``"one"``; undefined
        scores are NaN.
    scoring
        The score by which a distance is chosen.
    n_pairs
        Number of pairs of a row that counts as new and one that counts as known.

    Examples
    --------
    >>> found = {"two": {"spearman": 0.5}, "one": {"spearman": 0.75}}
    >>> ScoredSides(found, "spearman", 90).chosen
    'one'
    """

    scores: Mapping[str, Mapping[str, float]]
    scoring: str
    n_pairs: int

    @property
    def chosen(self) -> str:
        """Better distance: ``"one"`` if its score is higher, otherwise ``"two"``."""
        two, one = (self.scores[sides][self.scoring] for sides in (TWO, ONE))
        return ONE if one > two + EQUAL * max(1.0, abs(two)) else TWO

    @property
    def told(self) -> str:
        """Warning if the scores are meaningless; otherwise empty."""
        two, one = (self.scores[sides][self.scoring] for sides in (TWO, ONE))
        if abs(one - two) > EQUAL * max(1.0, abs(two)):
            return ""
        found = f"both distances have {self.scoring} {two:.4g} out of bag"
        return f"sides: {found}, so that of two leaves is taken (see that trees have splits)"


def score_sides(forest: Forest, truth: Truth, scoring: str | None = None) -> ScoredSides:
    """Score both distances of training rows to training rows, by the trees that did not draw the first row.

    Parameters
    ----------
    forest
        The forest.
    truth
        The ground truth of its training rows.
    scoring
        A name that ``tune`` accepts as ``scoring``; None: ``"roc_auc"`` if the true distances have two values, as
        links have, otherwise ``"spearman"``.

    Raises
    ------
    InputError
        The score is unknown, or undefined for these distances; or every tree drew all rows.
    """
    if scoring not in (None, *SCORINGS):
        raise InputError(f"scoring: None or one of {', '.join(map(repr, SCORINGS))} was expected, found {scoring!r}")
    rows = scored_rows(forest.n_training, forest.sample_weight)
    two, one, counts = known_distances(forest, truth, rows, rows)
    left, right = np.nonzero((counts > 0)[:, None] & (rows[:, None] != rows))
    true = truth.distances(rows[left], rows[right])
    known = ~(np.isnan(true) | np.isnan(two[left, right]))
    if not known.any():
        cure = "set bootstrap=True or a smaller max_samples, or grow more trees"
        raise InputError(f"sides: no tree left a row out of its sample whose distances are known; {cure}")
    left, right, true = left[known], right[known], true[known]
    scorer = DistanceScorer.from_distances(true, weights_of_pairs(forest.sample_weight, rows[left], rows[right]))
    if scoring is None:
        scoring = SCORINGS[1] if scorer.near is None else AREAS[0]
    scores = {TWO: scorer.scores(two[left, right]), ONE: scorer.scores(one[left, right])}
    if any(np.isnan(of_sides[scoring]) and scoring in AREAS for of_sides in scores.values()):
        cure = f"take another of {', '.join(SCORINGS)}"
        raise InputError(f"scoring={scoring!r} is not defined: the true distances do not have two values; {cure}")
    return ScoredSides(scores, scoring, len(true))
