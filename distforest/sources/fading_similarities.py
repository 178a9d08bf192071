"""Similarities that fade: what is far from all others is equally far from each, and looks usual to a forest."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from distforest.sources.rank_correlation import share_above
from distforest.sources.source import spaced

if TYPE_CHECKING:
    from distforest.sources.source import Floats, Int32s, Source

MOST_JUDGED, MOST_OTHERS = 2048, 256
"""At most so many evenly spaced objects are judged, by their similarities to at most so many."""

FURTHEST, FEWEST_FURTHEST = 0.05, 3
"""The share of the objects that are furthest from all others on average, and how many these are at least."""

LESS_ODD, LESS_VARIED = 0.4, 0.5
"""A similarity fades if one of the furthest objects scores below one of the others with a lower probability, and the
differences of its similarities are less than this part of those of most objects.

Measured on 18 real sets and 5 simulated ones, each as it is and scaled, 46 in all: of their Euclidean, city-block,
cosine and correlation distances, their roots, inner products and cosines none is told, and of Chebyshev's distances
two, of black and white pictures and of letters, where most are the largest there is. Of ``"rbf"`` with its default
``gamma``, of 1 over the squared median distance and of ten times as much 12, 11 and 34 of 46 are told."""


def told_of_fading(source: Source, scores: Floats) -> str:
    """Say that the objects furthest from all others count as usual ones in a search for outliers; else "".

    Parameters
    ----------
    source
        Similarities of the training objects to each other, shape (n, n), NaN where one is unobserved.
    scores
        How usual each object is, shape (n,).

    Examples
    --------
    >>> from distforest.sources.arrays import ArraySource
    >>> x = np.append(np.arange(60.0), [200.0, 300.0, 400.0])
    >>> fading = ArraySource.of(np.exp(-np.subtract.outer(x, x) ** 2 / 100))
    >>> told_of_fading(fading, np.repeat([-0.5, -0.4], [60, 3]))
    'the 3 objects that are least similar to all others score as more usual than most, as they are about as unlike each
    of the others'
    >>> told_of_fading(fading, np.repeat([-0.4, -0.5], [60, 3]))
    ''
    """
    n = len(scores)
    judged, others = (spaced(n, most).astype(np.int32) for most in (MOST_JUDGED, MOST_OTHERS))
    apart = source.block(judged, others).astype(np.float64)
    apart = _own(source, judged)[:, None] + _own(source, others) - 2.0 * apart
    apart[judged[:, None] == others] = np.nan
    known = np.flatnonzero(~np.isnan(apart).all(axis=1))
    if len(known) <= 2 * FEWEST_FURTHEST:
        return ""
    apart, scores = apart[known], scores[judged[known]]
    n_far = max(FEWEST_FURTHEST, int(FURTHEST * len(known)))
    order = np.argsort(-np.nanmean(apart, axis=1), kind="stable")
    far, rest = order[:n_far], order[n_far:]
    varied = np.nanstd(apart, axis=1)
    if share_above(scores[rest], scores[far]) >= LESS_ODD or np.median(varied[far]) >= LESS_VARIED * np.median(varied):
        return ""
    found = f"the {n_far:,} objects that are least similar to all others score as more usual than most"
    return f"{found}, as they are about as unlike each of the others"


def _own(source: Source, rows: Int32s) -> Floats:
    """The similarity of each object to itself, 0 where it is unobserved."""
    return np.nan_to_num(source.entries(rows, rows))
