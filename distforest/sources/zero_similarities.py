"""Similarities of 0 that contradict all others: they stand for what is unknown.

Two objects that are both very similar to a third one are similar to each other. In numbers: a similarity is the cosine
of an angle, and no angle of three is larger than the sum of the others, so two of them bound the third. Inner products
and kernels keep this bound, and so do 1 - d and exp(-d) of a metric d. Zeros of objects with nothing in common keep it,
too. Zeros in the place of just any similarities do not. Those in the place of small ones, as beyond a threshold or
beyond the nearest objects, keep it or are rarer where the bound is high.

Measured on 5 real data sets with 12 similarities of each: of 420 matrices with zeros in the place of 1 to 95% of the
similarities, drawn at random, 263 are told; most others have no three objects that are so similar. Of 1833 with a
reason for their zeros, or without any, none is told: words, bits and letters in common, classes, clipped similarities,
thresholds, nearest neighbours, leaves of forests, links, networks at random. Apart from that, 16 of them are told where
more than nine of ten objects are similar to none.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from distforest.sources.rank_correlation import share_above
from distforest.sources.source import spaced

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from distforest.sources.source import Floats, Ints

FEWEST_OBJECTS_JUDGED, MOST_OBJECTS_JUDGED = 20, 256
"""Fewer objects are not judged; at most so many evenly spaced ones are."""

LEAST_SHARE_OF_ZEROS, FEWEST_OTHER_SIMILARITIES, FEWEST_BOUND = 0.01, 32, 8
"""The least share of zeros; the fewest other values, of which 0 may be an ordinary one if they are fewer; the fewest
similarities of each sort, 0 or other, that are bound by others."""

KEEP_BOUNDS, AS_USUAL, BY_CHANCE = 0.95, 0.9, 0.6
"""The least share of bound similarities other than 0 that keep their bound; the least share of zeros among those that
are bound, compared with their share among all; and the most often that the bound of another one is above that of a
zero."""

MOSTLY_ALONE = 0.9
"""The most objects, as a share, that may have similarity 0 to all others."""

ROUNDED_COSINE = 1e-6
"""By how much a similarity may be below its bound."""


def told_of_zero_similarities(matrix: np.ndarray) -> str:
    """A doubt about similarities of 0 that contradict others, or that are nearly all there is; else "".

    Parameters
    ----------
    matrix
        Similarities, shape (n, n); NaN is unobserved. Those that are not symmetric are not judged.

    Examples
    --------
    >>> x = np.random.default_rng(0).normal(size=60)
    >>> S = np.exp(-np.abs(x[:, None] - x) / 3)
    >>> is_unknown = np.triu(np.random.default_rng(1).random((60, 60)) < 0.8, 1)
    >>> told_of_zero_similarities(np.where(is_unknown | is_unknown.T, 0.0, S))
    '79% of the similarities between different objects are 0, though many of these objects are most similar to the same
    third one; if 0 marks what is unknown, put NaN in its place'
    >>> told_of_zero_similarities(np.where(S < np.quantile(S, 0.8), 0.0, S))  # small ones are 0
    ''
    """
    if len(matrix) < FEWEST_OBJECTS_JUDGED:
        return ""
    chosen = spaced(len(matrix), MOST_OBJECTS_JUDGED)
    if _n_similar_to_none(matrix, chosen) > MOSTLY_ALONE * len(chosen):
        cure = "check how they were worked out, say the scale of a kernel"
        return f"most objects have similarity 0 to all others, so that there is hardly anything to learn from; {cure}"
    some = matrix[np.ix_(chosen, chosen)].astype(np.float64)
    if not np.array_equal(some, some.T, equal_nan=True):
        return ""
    pairs = _Pairs.of(some)
    if (
        not pairs.share >= LEAST_SHARE_OF_ZEROS
        or len(np.unique(pairs.values[~pairs.is_zero])) < FEWEST_OTHER_SIMILARITIES
    ):
        return ""
    return pairs.told()


def _n_similar_to_none(matrix: np.ndarray, rows: Ints) -> int:
    """How many of some objects have similarity 0 to all others, which were observed."""
    others = matrix[rows] != 0  # as NaN is
    others[np.arange(len(rows)), rows] = False
    return int(np.count_nonzero(~others.any(axis=1)))


@dataclass(frozen=True, eq=False)
class _Pairs:
    """The observed similarities of different objects, divided by those of the objects to themselves, or the largest.

    Attributes
    ----------
    values
        Shape (n_pairs,).
    bounds
        The cosines that two others allow at least, shape (n_pairs,); -1 without any.
    """

    values: Floats
    bounds: Floats

    @classmethod
    def of(cls, matrix: Floats) -> _Pairs:
        """Scale a symmetric matrix, and work the bounds out if some values are 0."""
        left, right = np.triu_indices(len(matrix), 1)
        cosines = _cosines(matrix)
        values = cosines[left, right]
        observed = ~np.isnan(values)
        has_zeros = (values == 0.0).any()
        bounds = _least_cosines(cosines)[left, right] if has_zeros else np.full(len(values), -1.0)
        return cls(values[observed], bounds[observed])

    @property
    def is_zero(self) -> NDArray[np.bool_]:
        """Which of them are 0."""
        return self.values == 0.0

    @property
    def share(self) -> float:
        """The share of zeros."""
        return float(self.is_zero.mean()) if len(self.values) else 0.0

    def told(self) -> str:
        """The doubt about zeros that contradict others, and what to do; else ""."""
        least = float(np.abs(self.values[~self.is_zero]).min())
        is_bound = self.bounds > least + ROUNDED_COSINE  # also if lesser ones were put to 0
        zeros, others = is_bound & self.is_zero, is_bound & ~self.is_zero
        if min(int(zeros.sum()), int(others.sum())) < FEWEST_BOUND:
            return ""
        keeps = float(np.mean(self.values[others] >= self.bounds[others] - ROUNDED_COSINE))
        share = float(zeros.sum() / is_bound.sum())
        if (
            keeps < KEEP_BOUNDS
            or share < AS_USUAL * self.share
            or share_above(self.bounds[others], self.bounds[zeros]) > BY_CHANCE
        ):
            return ""
        found = f"{100.0 * self.share:.2g}% of the similarities between different objects are 0"
        though = "though many of these objects are most similar to the same third one"
        return f"{found}, {though}; if 0 marks what is unknown, put NaN in its place"


def _cosines(matrix: Floats) -> Floats:
    """Similarities divided by the geometric mean of the objects' own, or by the largest if that leaves some above 1."""
    own = np.diag(matrix)
    if (own > 0.0).all():
        scaled: Floats = matrix / np.outer(np.sqrt(own), np.sqrt(own))
        if np.nanmax(np.abs(scaled)) <= 1.0 + ROUNDED_COSINE:
            return scaled
    largest = float(np.nanmax(np.abs(matrix))) if not np.isnan(matrix).all() else 0.0
    return matrix / largest if largest > 0.0 else matrix


def _least_cosines(cosines: Floats) -> Floats:
    """The cosine of the least sum of two acute angles over a third object, for each pair; -1 without any."""
    angles = np.arccos(np.clip(np.nan_to_num(cosines), -1.0, 1.0))
    np.fill_diagonal(angles, np.inf)
    sums = np.full(cosines.shape, np.pi)
    for of_third in angles:
        near = np.flatnonzero(of_third < np.pi / 2.0)
        among = np.ix_(near, near)
        sums[among] = np.minimum(sums[among], of_third[near, None] + of_third[near])
    least: Floats = np.cos(sums)
    return least
