"""Distances of 0 that contradict all others: they mark what is unknown, or the matrix holds links and not distances.

Two rows at distance 0 are the same to whoever measured them, so they are about as far from any third row. Where a
matrix is metric, so are rows that are near to each other. The discordance of two rows is the mean of |z_ik - z_jk| over
the others; that of rows whose distance nobody knew is the usual one.

Measured on 20 real data sets with up to 20 distances of each: zeros in the place of 0.5 to 20% of the distances are
told, unless as many rows are equal, and so are most adjacency matrices and lists of nearest neighbours. Not told are
zeros with a reason: equal rows, rounding, links (1 - A), distances that were clipped at a quantile, or have noise.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from distforest.sources.source import spaced

if TYPE_CHECKING:
    from distforest.sources.source import Float32s, Floats, Ints

FEWEST_SPACED, MOST_SPACED, MOST_ZERO_PAIRS = 20, 512, 256
"""Fewer rows are not judged; at most so many evenly spaced rows are, and pairs of each sort of them."""

LEAST_ZEROS, FEW_ZEROS, MOSTLY_ZEROS = 1e-3, 0.45, 0.7
"""The least share of pairs that matters, the greatest of pairs with a mark, and the least of pairs without a link."""

NEAREST_SHARE, METRIC_SHARE, DISCORDANT, MARKED_SHARE, UNLINKED = 0.02, 0.8, 0.9, 0.25, 0.5
"""Which share of other pairs is near; a matrix is metric if their discordance is at most so many times the usual one; a
zero is discordant from so many times on; a share of them that is marked; the discordance, times the usual one, of pairs
without a link."""

FEWEST_OTHER_VALUES = 32
"""The least number of other values of which 0 may be a mark; of fewer it may be an ordinary one."""


def told_of_zeros(matrix: Float32s) -> str:
    """A doubt about distances of 0 between rows that are unlike; else "".

    Parameters
    ----------
    matrix
        Symmetric distances, shape (n, n); NaN is unobserved.

    Examples
    --------
    >>> x = np.arange(40.0)
    >>> Z = abs(x[:, None] - x).astype(np.float32)
    >>> told_of_zeros(Z // 4)  # equal at distance 0
    ''
    >>> for k in (3, 9, 14):
    ...     Z[k, k + 20] = Z[k + 20, k] = 0
    >>> told_of_zeros(Z)
    '0.38% of the distances between different rows are 0, though these rows are as unlike as any others; if 0 marks what
    is unknown, put NaN in its place'
    >>> told_of_zeros((abs(x[:, None] - x) == 1).astype(np.float32))
    '95% of the distances between different rows are 0, though these rows are unlike; if these are links, give Graph(A),
    or in a job kind = "graph"; if 0 marks what is unknown, put NaN in its place'
    """
    if len(matrix) < FEWEST_SPACED:
        return ""
    pairs = _Pairs.of(matrix)
    if not pairs.share >= LEAST_ZEROS or pairs.zero.size < 3 or not pairs.other.size:
        return ""
    found = f"{100.0 * pairs.share:.2g}% of the distances between different rows are 0, though these rows are"
    cure = "if 0 marks what is unknown, put NaN in its place"
    if pairs.share >= MOSTLY_ZEROS:
        are_unlike = _median(pairs.discordance(pairs.zero)) >= UNLINKED * _median(pairs.discordance(pairs.other)) > 0.0
        links = 'if these are links, give Graph(A), or in a job kind = "graph"'
        return f"{found} unlike; {links}; {cure}" if are_unlike else ""
    if pairs.share > FEW_ZEROS or len(np.unique(pairs.distances[pairs.other])) < FEWEST_OTHER_VALUES:
        return ""
    usual = _median(pairs.discordance(pairs.other))
    if not _median(pairs.discordance(pairs.near)) <= METRIC_SHARE * usual:
        return ""
    are_marks = float(np.mean(pairs.discordance(pairs.zero) >= DISCORDANT * usual)) >= MARKED_SHARE
    return f"{found} as unlike as any others; {cure}" if are_marks else ""


@dataclass(frozen=True, eq=False)
class _Pairs:
    """Pairs of evenly spaced rows.

    Attributes
    ----------
    rows
        The distances of the rows, shape (n, n), with NaN for those to themselves.
    left, right
        The rows of each observed pair, shape (n_pairs,) both.
    """

    rows: Floats
    left: Ints
    right: Ints

    @classmethod
    def of(cls, matrix: Float32s) -> _Pairs:
        """Take evenly spaced rows of a matrix."""
        chosen = spaced(len(matrix), MOST_SPACED)
        rows = matrix[np.ix_(chosen, chosen)].astype(np.float64)
        np.fill_diagonal(rows, np.nan)
        left, right = np.triu_indices(len(rows), 1)
        observed = ~np.isnan(rows[left, right])
        return cls(rows, left[observed], right[observed])

    @property
    def distances(self) -> Floats:
        """The distance of each pair."""
        return self.rows[self.left, self.right]

    @property
    def zero(self) -> Ints:
        """The pairs at distance 0."""
        return np.flatnonzero(self.distances == 0.0)

    @property
    def other(self) -> Ints:
        """All other pairs."""
        return np.flatnonzero(self.distances != 0.0)

    @property
    def near(self) -> Ints:
        """The nearest of the other pairs."""
        distances = self.distances[self.other]
        return self.other[distances <= np.quantile(distances, NEAREST_SHARE)]

    @property
    def share(self) -> float:
        """The share of pairs at distance 0."""
        return len(self.zero) / max(1, len(self.left))

    def discordance(self, pairs: Ints) -> Floats:
        """The mean |z_ik - z_jk| over other rows k of some evenly spaced pairs; of few zeros those are left out."""
        spaced = pairs[:: -(-len(pairs) // MOST_ZERO_PAIRS)]
        rows = self.rows if self.share >= MOSTLY_ZEROS else np.where(self.rows == 0.0, np.nan, self.rows)
        apart = np.abs(rows[self.left[spaced]] - rows[self.right[spaced]])
        known = ~np.isnan(apart)
        found: Floats = np.where(known, apart, 0.0).sum(axis=1) / np.maximum(1, known.sum(axis=1))
        return found


def _median(values: Floats) -> float:
    return float(np.median(values))
