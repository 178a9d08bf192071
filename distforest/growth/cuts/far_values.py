"""Far values: a few targets, or vectors of an embedding, beside which all others look equal.

One typing error is enough, or a number that stands for "missing" in a file, such as 9.97e36. `Variance` has one scale
for all values, and means are taken about the middle of all, so differences below 2^-50 of the range are lost. If most
values are so close together that this matters, each node has its own scale, and means are taken about 0. All other data
keep a single scale, which costs less.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from distforest.forest.frontier import Frontier
from distforest.growth.cuts.criteria import SquaredDistance, Steady, Variance, bits_of, median_of
from distforest.growth.cuts.scan import GAIN_ROUNDING, Cuts, cut_rows
from distforest.sources.source import Floats, Ints

CLOSE = 2.0**-30
"""Share of the range within which values lose significant digits if they are taken about its middle."""

LOST = 2.0**-20
"""Share of a value that may be lost when it is taken about the middle of the range."""

LEVELS = 12
"""Least number of bits that a value needs to differ from its neighbours."""

SAME = 2.0**-44
"""Share of a value up to which differences are rounding in the user's own computation."""

PART = 8
"""Values are not few if they are at least one in this number, or at least this number."""

ODD = np.uint64(0x9E3779B97F4A7C15)
"""Factor with which `far_keys` mixes: 2^64 over the golden ratio (Knuth's multiplicative hash)."""


@dataclass(frozen=True)
class FarVariance(Steady):
    """`Variance` with a scale for each node: the node's range fills the bits, or ``radius`` if that is larger."""

    vectors: Floats  # shape (n_rows, n_dimensions)
    factor: float  # as of `Variance`
    radius: float  # as from `radius_of_most`, so that most values are distinguished as without the far ones
    unit: float = 1.0  # gains in `Cuts` are in units of the distance
    heaviest: int | None = None  # the largest weight of a tree; None: the number of rows
    places_missing: bool = False  # as in `Gini`

    def impure(self, frontier: Frontier) -> NDArray[np.bool_]:
        """Return whether a node contains two different vectors."""
        fixed, _ = self._fixed(frontier, self.vectors[frontier.rows])
        low, high = (ufunc.reduceat(fixed, frontier.starts[:-1]) for ufunc in (np.minimum, np.maximum))
        return np.asarray((low < high).any(axis=1))

    def cut(self, frontier: Frontier, values: Floats, min_leaf: int) -> Cuts:
        """Return the best cut of each node; the scale for a candidate depends on the rows that take part."""
        if self.places_missing:
            return self._cut(frontier, values, self.vectors[frontier.rows], min_leaf)
        lacking, best = np.isnan(values), Cuts.none(frontier.n_nodes)
        step = 1 if lacking.any() else len(values)
        for first in range(0, len(values), step):
            vectors = self.vectors[frontier.rows]
            vectors[lacking[first]] = np.nan
            cuts = self._cut(frontier, values[first : first + step], vectors, min_leaf)
            better = (cuts.candidate >= 0) & ((best.candidate < 0) | (cuts.gain > best.gain * (1.0 + GAIN_ROUNDING)))
            best.candidate[better] = cuts.candidate[better] + first
            best.threshold[better], best.gain[better] = cuts.threshold[better], cuts.gain[better]
        return best

    def _cut(self, frontier: Frontier, values: Floats, vectors: Floats, min_leaf: int) -> Cuts:
        """Return the best cut over candidates that lack the same rows; ``vectors`` has NaN for these rows."""
        cuts, (fixed, units) = Cuts.none(frontier.n_nodes), self._fixed(frontier, vectors)
        places = np.arange(len(fixed), dtype=np.int32)
        impurity, rules = SquaredDistance(fixed.shape[1]), (min_leaf, self.places_missing)
        cut_rows(replace(frontier, rows=places).nodes, values, fixed, impurity, rules, cuts)
        return cuts._replace(gain=cuts.gain * units)

    def _fixed(self, frontier: Frontier, vectors: Floats) -> tuple[Ints, Floats]:
        """Return each row's vector less the middle of its node, rint(v 2^bits), 0 for NaN; and each node's unit."""
        low, high = (ufunc.reduceat(vectors, frontier.starts[:-1]) for ufunc in (np.fmin, np.fmax))
        half = np.fmax((high / 2.0 - low / 2.0).max(axis=1), self.radius)
        bits = bits_of(self.heaviest or len(self.vectors)) - np.frexp(half)[1]
        centred = vectors - (low / 2.0 + high / 2.0)[frontier.place]
        fixed = np.nan_to_num(np.rint(np.ldexp(centred, bits[frontier.place, None]))).astype(np.int64)
        return fixed, 2.0 * self.factor * np.ldexp(1.0, -2 * bits)


def variance_of(vectors: Floats, factor: float, name: str, heaviest: int | None = None) -> Variance | FarVariance:
    """Return the criterion for vectors, shape (n_rows, n_dimensions); raise InputError as `Variance.from_vectors`."""
    plain, radius = Variance.from_vectors(vectors, factor, name, heaviest), radius_of_most(vectors, heaviest)
    return FarVariance(vectors, factor, radius, heaviest=heaviest) if radius else plain


def radius_of_most(vectors: Floats, heaviest: int | None = None) -> float:
    """Return the radius of most of the different vectors about their median, if some are far away; else 0.

    Some are far if the radius is below the share `CLOSE` of the largest distance from the median, or if a single scale
    leaves fewer than `LEVELS` bits for it. The radius is the median of max_q |v_q - median_q|. A difference up to the
    share `SAME` of the median is rounding, and counts as 0.

    Examples
    --------
    >>> radius_of_most(np.array([[1.0], [2.0], [4.0], [1e20]]))
    3.0
    >>> radius_of_most(np.array([[1.0], [2.0], [4.0], [1e8]]))
    0.0
    """
    if not vectors.size:
        return 0.0
    distinct = np.unique(vectors)[:, None] if vectors.shape[1] == 1 else vectors[different(vectors)]
    median = median_of(distinct)
    deviations = distinct - median
    np.abs(deviations, out=deviations)
    deviations[deviations <= SAME * np.abs(median)] = 0.0
    lengths = deviations.max(axis=1) if deviations.shape[1] > 1 else deviations.reshape(-1)
    radius = float(median_of(lengths))
    share = max(CLOSE, 2.0 ** (LEVELS - bits_of(heaviest or len(vectors))))
    return radius if radius < share * lengths.max() else 0.0


def different(vectors: Floats) -> Ints:
    """Return one row number for each different vector of ``vectors``, shape (n_rows, n_dimensions)."""
    return np.unique(far_keys(vectors), return_index=True)[1]


def far_keys(rows: Floats | Ints) -> NDArray[np.uint64]:
    """Return a number for each row that only equal rows share, shape (n_rows,); numbers sort faster than rows."""
    keys = np.zeros(len(rows), np.uint64)
    for column in (rows + 0).T:  # 0 in place of -0
        keys = (keys ^ np.ascontiguousarray(column).view(np.uint64)) * ODD
        keys ^= keys >> np.uint64(32)
    return keys


def middle_of(vectors: Floats) -> Floats:
    """Return the origin, shape (n_dimensions,), about which means of ``vectors`` are taken.

    It is the middle of the range, so that little is rounded; or 0, if most values are close together, or if one in
    `PART` of the non-zero values would lose digits.
    """
    middle = vectors.min(axis=0) / 2.0 + vectors.max(axis=0) / 2.0
    if radius_of_most(vectors):
        return np.zeros_like(middle)
    is_lost = np.abs(vectors - middle + middle - vectors) > LOST * np.abs(vectors)
    many = is_lost.any(axis=0) & (PART * is_lost.sum(axis=0) >= (vectors != 0.0).sum(axis=0))
    return np.where(many, 0.0, middle)
