"""Weights in pairs: of the points, of which a pair has the product, and of given pairs themselves.

A point of weight 3 stands for three equal points, so a pair of it and a point of weight 2 stands for 3 x 2 equal pairs.
A point is not paired with its own copies. Products of whole weights are used as they are. Those of fractional ones are
relative: they are rounded to multiples of 1 / `PointWeights.unit` of the product of two mean weights.

A given pair of weight 3 counts as three equal pairs, and one of weight 0 is absent. If points have weights, too, both
multiply: three copies of a pair whose points stand for two points each are 3 x 2 x 2 pairs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from distforest.amounts import counted
from distforest.errors import InputError
from distforest.growth.pairs.sampling import PairSample, PairSampling, in_tree
from distforest.growth.sample_weights import COARSEST, GENERAL, MOST_OF_TREE, Draws, SampleWeights, least
from distforest.sources.sparse_features import SparseFeatures
from distforest.sources.truth import TruthKind
from distforest.sources.weights import OF_PAIRS

if TYPE_CHECKING:
    from collections.abc import Callable

    from distforest.growth.cuts.search import Limits
    from distforest.growth.problem import Data
    from distforest.sources.source import Floats, Int32s, Ints

DRAWN_TWICE = 4
"""A tree that draws points with replacement may weigh its pairs this many times as heavy as all pairs are together."""

FINEST_BESIDE = 1 << 6
"""Largest integer of the mean of fractional weights of pairs whose points have fractional weights as well."""


def integers_of_pairs(weights: Floats, of_points: SampleWeights | None = None) -> SampleWeights:
    """The weights of pairs as the integers that trees add.

    Parameters
    ----------
    weights
        Weights from `distforest.sources.weights.checked_weights`, shape (n_pairs,).
    of_points
        The weights of the points, by which these are multiplied; fractional ones need digits, too.

    Raises
    ------
    InputError
        The weights are too large, or there are too many of them.

    Examples
    --------
    >>> integers_of_pairs(np.array([2.0, 0.0, 1.0])).integers
    array([2, 0, 1], dtype=int32)
    """
    bounds = GENERAL._replace(tree=MOST_OF_TREE // DRAWN_TWICE)
    if of_points is not None and of_points.unit > 1:
        bounds = bounds._replace(tree=bounds.tree // COARSEST, finest=FINEST_BESIDE)
    return SampleWeights.from_weights(weights, Draws(len(weights), replace=False), bounds, OF_PAIRS)


@dataclass(frozen=True)
class PointWeights:
    """The weight of each point, and that of a pair.

    Examples
    --------
    >>> weights = PointWeights.from_weights(SampleWeights(np.array([3, 2, 0], np.int32)), 100)
    >>> weights.of_pairs(np.array([[0, 1], [1, 2]], np.int32))
    array([6, 0])
    """

    integers: Int32s  # weight of each point, shape (n_points,); 0 for a point that is absent
    shift: int = 0  # binary digits by which a product of two of them is shortened
    unit: int = 1  # the integer that counts as one pair

    @classmethod
    def from_weights(cls, weights: SampleWeights, n_pairs: int) -> PointWeights:
        """Shorten the products of fractional weights until those of a tree of ``n_pairs`` pairs cannot be too large.

        If pairs have weights of their own, ``n_pairs`` is their sum.

        Raises
        ------
        InputError
            They would be shortened to less than `COARSEST` for a product of two mean weights.
        """
        if weights.unit == 1:
            return cls(weights.integers)
        largest = np.sort(weights.integers)[-2:].astype(np.float64)
        most = min(n_pairs * float(largest[0] * largest[-1]), float(weights.integers.sum(dtype=np.float64)) ** 2 / 2.0)
        digits = 2 * (weights.unit.bit_length() - 1)
        finest = GENERAL.finest.bit_length() - 1
        for left in range(min(digits, finest), COARSEST.bit_length() - 2, -1):
            if most / 2.0 ** (digits - left) + n_pairs <= MOST_OF_TREE:
                return cls(weights.integers, digits - left, 1 << left)
        mean = float(weights.integers[weights.present].mean())
        raise InputError(
            f"sample_weight: for trees of {counted(n_pairs, 'pair')} the largest product of two weights may be "
            f"{MOST_OF_TREE / (COARSEST * n_pairs):.4g} times that of two mean ones, found "
            f"{largest[0] * largest[-1] / mean**2:.4g} times; clip the weights, or let a tree learn from fewer pairs"
        )

    def of_pairs(self, pairs: Int32s) -> Ints:
        """The weight of each pair, shape (m,): at least 1, but 0 for a pair of an absent point."""
        products = self.integers[pairs[:, 0]].astype(np.int64) * self.integers[pairs[:, 1]]
        if not self.shift:
            return products
        rounded = (products + (1 << (self.shift - 1))) >> self.shift
        return np.maximum(rounded, products > 0)

    def in_tree(self, pairs: Int32s, counts: Int32s) -> Int32s:
        """The weight of each pair in a tree: ``counts``, shape (m,), times its weight; raises InputError as there."""
        return in_tree(counts, self.of_pairs(pairs))


@dataclass(frozen=True)
class WeighedPairs:
    """Pairs of points that have weights: drawn as pairs of the points of positive weight alone, then weighed."""

    sampling: PairSampling  # which pairs of these points a tree learns from
    present: Int32s  # numbers of these points among all, shape (n_present,)
    weights: PointWeights  # the weights of all points

    @property
    def n_rows(self) -> int:
        """Number of pairs of a tree, about."""
        return self.sampling.n_rows

    @property
    def n_distinct(self) -> int:
        """How many pairs a tree is likely to draw, each counted once."""
        return self.sampling.n_distinct

    @property
    def unit(self) -> int:
        """The weight that counts as one pair: of its own, times the product of those of its points."""
        return self.sampling.unit * self.weights.unit

    def typical(self, seed: int) -> Int32s:
        """Draw pairs like those of the trees, from which bins are computed, shape (m, 2)."""
        return self.present[self.sampling.typical(seed)]

    def sample(self, seed: int, tree: int) -> PairSample:
        """Draw the pairs of a tree, and weigh them; raises InputError if they are too heavy."""
        drawn = self.sampling.sample(seed, tree)
        pairs, in_bag = self.present[drawn.pairs], np.zeros(len(self.weights.integers), np.uint8)
        in_bag[self.present] = drawn.in_bag
        return PairSample(pairs, drawn.codes, self.weights.in_tree(pairs, drawn.weights), in_bag)


def of_points(data: Data, points: Ints) -> Data:
    """Take the data of some points, with the given pairs of which both points are among them."""
    sparse = data.matrix if isinstance(data.matrix, SparseFeatures) else None
    matrix = sparse.take(points) if sparse else np.ascontiguousarray(data.array[points])
    some = replace(data, matrix=matrix, sample_weights=data.sample_weights and data.sample_weights.of_rows(points))
    if data.pairs is None:
        return replace(some, truth=replace(data.truth, values=data.truth.values[points]))
    place = np.full(data.n_rows, -1)
    place[points] = np.arange(len(points))
    pairs = place[data.pairs]
    kept = np.flatnonzero((pairs >= 0).all(axis=1))
    return of_pairs(replace(some, pairs=pairs.astype(np.int32)), kept)


def of_pairs(data: Data, kept: Ints) -> Data:
    """Take the data of all points, with some of the given pairs."""
    assert data.pairs is not None  # noqa: S101  (who weighs or selects them has some)
    weights = data.pair_weights and data.pair_weights.of_rows(kept)
    truth = replace(data.truth, values=data.truth.values[kept])
    return replace(data, truth=truth, pairs=data.pairs[kept], pair_weights=weights)


def present_data(data: Data) -> Data:
    """The data of the points and given pairs of positive weight alone, with codes of the labels without gaps."""
    if data.pair_weights is not None and not data.pair_weights.is_everywhere:
        data = of_pairs(data, data.pair_weights.present)
    if data.sample_weights is None or data.sample_weights.is_everywhere:
        return data
    some = of_points(data, data.sample_weights.present)
    if data.truth.kind != TruthKind.LABELS:
        return some
    codes = np.unique(some.truth.values, return_inverse=True)[1].astype(np.int32)
    return replace(some, truth=replace(some.truth, values=codes))


def weighed(data: Data, sampling_of: Callable[[Data], PairSampling]) -> PairSampling:
    """Which pairs each tree learns from, as ``sampling_of`` the present points says, with their weights.

    Raises
    ------
    InputError
        The weights of a tree may be too large.
    """
    some = present_data(data)
    sampling = sampling_of(some)
    if data.sample_weights is None:
        return sampling
    present = data.sample_weights.present.astype(np.int32)
    return WeighedPairs(
        sampling, present, PointWeights.from_weights(data.sample_weights, pairs_in_all(some, sampling.n_rows))
    )


def pairs_in_all(data: Data, n_pairs: int) -> int:
    """How many pairs ``n_pairs`` of the given ones are at most, in copies: the sum of the weights if they have some."""
    return n_pairs if data.pair_weights is None else int(data.pair_weights.integers.sum(dtype=np.int64))


def limits_of(sampling: PairSampling, limits: Limits) -> Limits:
    """The limits by which a tree over these pairs is grown, which count weights as these count pairs."""
    split = least(sampling.unit, limits.min_samples_split, 3)
    return replace(limits, min_samples_split=split, min_samples_leaf=least(sampling.unit, limits.min_samples_leaf, 2))
