"""Scores of a cut between two clusters on a line, each of them a Gaussian (URerF, section 3).

For one candidate's values at a node, with weights w, a cut has two sides of weight n_k, shares p_k = n_k / n, means and
squared deviations SS_k about them; v_k = SS_k / n_k, v = (SS_1 + SS_2) / n, and v_0 is the variance of the whole node.

::

    two_means     SS_1 + SS_2
    fast_bic      the smaller of                                           (Algorithm 3, with its signs corrected)
                    -2 sum n_k log p_k + sum n_k log(2 pi v_k)     + n + 5 log n      two variances
                    -2 sum n_k log p_k + n log(2 pi v)             + n + 4 log n      one
    equal_bic     the second of these alone

Less is better; a *score* is the negative of it. A score is raw, or relative to that of one cluster, SS_0 or
n log(2 pi v_0) + n + 2 log n, which makes the BICs independent of a feature's scale. Variances below `LEAST_VARIANCE`
v_0 count as that, and two variances are allowed only where both sides have two distinct values: copies of one value are
no cluster.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from distforest.jit import borrowing
from distforest.sources.source import Floats

LEAST_VARIANCE = 1e-12
"""Least variance of a cluster, as a share of the variance of its node."""

TWO_MEANS, FAST_BIC, EQUAL_BIC = range(3)


class ClusterScoring(NamedTuple):
    """How cuts between two clusters are scored, as kernels take it.

    Attributes
    ----------
    score
        `TWO_MEANS`, `FAST_BIC` or `EQUAL_BIC`.
    relative
        Whether the score of one cluster is subtracted.
    min_leaf
        Least weight of a side.
    """

    score: int
    relative: bool
    min_leaf: int


class CandidateCuts(NamedTuple):
    """One cut of each candidate in each node, of which the node will choose one.

    Attributes
    ----------
    thresholds
        Shape (width, n_nodes); NaN for a candidate without a cut.
    scores
        Shape (width, n_nodes); -inf for a candidate without a cut.
    """

    thresholds: Floats
    scores: Floats

    @classmethod
    def none(cls, width: int, n_nodes: int) -> CandidateCuts:
        """No cut for any candidate."""
        return cls(np.full((width, n_nodes), np.nan), np.full((width, n_nodes), -np.inf))


@borrowing
def score_of(
    scoring: ClusterScoring, n_left: int, n: int, within_left: float, within_right: float, square: float, distinct: bool
) -> float:
    """The score of a cut from SS_1, SS_2 and SS_0; ``distinct``: both sides have two distinct values."""
    n_right = n - n_left
    within = within_left + within_right
    if scoring.score == TWO_MEANS:
        return (square if scoring.relative else 0.0) - within
    whole = square / n
    least = LEAST_VARIANCE * whole
    shares = -2.0 * (n_left * math.log(n_left / n) + n_right * math.log(n_right / n))
    bic = shares + n * math.log(2.0 * math.pi * max(within / n, least)) + n + 4.0 * math.log(n)
    if scoring.score == FAST_BIC and distinct:
        left = n_left * math.log(2.0 * math.pi * max(within_left / n_left, least))
        right = n_right * math.log(2.0 * math.pi * max(within_right / n_right, least))
        bic = min(bic, shares + left + right + n + 5.0 * math.log(n))
    return (n * math.log(2.0 * math.pi * whole) + n + 2.0 * math.log(n) if scoring.relative else 0.0) - bic
