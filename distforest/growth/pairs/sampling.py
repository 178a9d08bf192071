"""Which pairs a tree learns from: it draws from given pairs, or draws new pairs by the labels of the points.

A pair is unordered and has two distinct points. Its class is 0 if it is similar (must-link), 1 if it is dissimilar
(cannot-link).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from distforest.amounts import counted
from distforest.errors import InputError, warn_caller
from distforest.growth.pairs.bins import SAMPLED
from distforest.growth.rng import SAMPLE_NODE, below, bootstrap, shuffle, stream, subsample, unit
from distforest.growth.sample_weights import MOST_OF_TREE, SampleWeights
from distforest.jit import kernel
from distforest.sources.point_pairs import DISSIMILAR, SIMILAR
from distforest.sources.source import Int32s, Ints, offsets

SampledCodes = NDArray[np.uint8]

MOST_TREE_PAIRS = 2**31 - 1
"""Largest number of pairs of a tree."""

SAMPLING_TRIES = 64
"""Largest number of draws for each wanted pair; if they give too few pairs, there are fewer."""

_CONSTRAINTS = 1 << 40
"""Pairs that serve all trees are drawn from the stream of the tree of this number, which is beyond all trees."""

ENOUGH = 10_000
"""The number of constraints of each kind for a class, on average, that ``"auto"`` stands for."""


class PairSample(NamedTuple):
    """The pairs of a tree."""

    pairs: Int32s  # numbers of the two points of each pair, shape (m, 2)
    # codes, weights: class of each pair, and its multiplicity times its weight, shape (m,)
    codes: SampledCodes
    weights: Int32s
    in_bag: NDArray[np.uint8]  # multiplicity of each point, shape (n_points,)


class PairSampling(Protocol):
    """A rule by which each tree gets its pairs."""

    @property
    def n_rows(self) -> int:
        """Number of pairs of a tree, about."""

    @property
    def n_distinct(self) -> int:
        """How many pairs a tree is likely to draw, each counted once, rounded up."""

    @property
    def unit(self) -> int:
        """The weight that counts as one pair."""

    def sample(self, seed: int, tree: int) -> PairSample:
        """Draw the pairs of a tree, from its stream alone."""

    def typical(self, seed: int) -> Int32s:
        """Draw pairs like those of the trees, from which bins are computed, shape (m, 2)."""


@dataclass(frozen=True)
class GivenPairs:
    """Pairs that are given, or drawn once for all trees: a tree draws from them, or from the points."""

    # pairs, codes: numbers of the two points of each pair, shape (m, 2), and its class, shape (m,)
    pairs: Int32s
    codes: SampledCodes
    n_points: int  # number of points
    n_draws: int  # number of pairs, or points, that a tree draws
    replace: bool  # whether it draws with replacement
    # Whether it draws points. It then learns from the pairs of which it drew both points, each with the product of
    # their multiplicities, so that it has not seen the other points. If there is no such pair it learns from all.
    by_points: bool
    pair_weights: SampleWeights | None = None  # the weight of each pair, none of them 0; None: equal weights

    @property
    def n_rows(self) -> int:
        """Number of pairs of a tree, at most."""
        return len(self.pairs) if self.by_points else min(self.n_draws, len(self.pairs))

    @property
    def n_distinct(self) -> int:
        """How many pairs a tree is likely to draw: with both points, if it draws points."""
        total = self.n_points if self.by_points else len(self.pairs)
        share = -math.expm1(-self.n_draws / total) if self.replace else self.n_draws / total
        return math.ceil(len(self.pairs) * min(1.0, share**2 if self.by_points else share))

    @property
    def unit(self) -> int:
        """The weight that counts as one pair."""
        return 1 if self.pair_weights is None else self.pair_weights.unit

    def typical(self, seed: int) -> Int32s:  # noqa: ARG002  (nothing is drawn)
        """Return all pairs."""
        return self.pairs

    def sample(self, seed: int, tree: int) -> PairSample:
        """Draw the pairs of a tree; raises InputError if they are too heavy."""
        in_bag = np.ones(self.n_points, np.int32)
        weights = in_bag if self.by_points else np.ones(len(self.pairs), np.int32)
        if self.replace or self.n_draws < len(weights):
            (bootstrap if self.replace else subsample)(seed, tree, self.n_draws, weights)
        if self.by_points:
            weights = in_bag[self.pairs[:, 0]] * in_bag[self.pairs[:, 1]]
        if not weights.any():  # of no pair both points were drawn: the tree learns from all
            in_bag, weights = np.ones_like(in_bag), np.ones_like(weights)
        drawn = np.flatnonzero(weights)
        weights = weights[drawn]
        if self.pair_weights is not None:
            weights = in_tree(weights, self.pair_weights.integers[drawn])
        return PairSample(self.pairs[drawn], self.codes[drawn], weights, in_bag.astype(np.uint8))


def in_tree(counts: Int32s, weights: Int32s | Ints) -> Int32s:
    """The weight of each pair in a tree: its multiplicity ``counts`` times its weight, shape (m,).

    Raises
    ------
    InputError
        The weights add up to more than `MOST_OF_TREE`.
    """
    heaviest = float((counts.astype(np.float64) * weights).sum())  # whose terms may be beyond 64 bits
    if heaviest > MOST_OF_TREE:
        raise InputError(
            f"sample_weight or pair_weight: the weights of the pairs of a tree may add up to {MOST_OF_TREE:,}, found "
            f"{heaviest:,.15g}; divide the weights by their mean, or let a tree learn from fewer pairs"
        )
    return (counts * weights).astype(np.int32)


@dataclass(frozen=True)
class LabelledPairs:
    """New pairs for each tree, drawn by the labels of the points (the U-statistic of Clemencon and Vogel, Eq. 3)."""

    labels: Int32s  # class of each point, shape (n_points,), int32
    n_pairs: int  # number of distinct pairs that a tree draws; all pairs if there are fewer
    # ``"uniform"``: every pair of points is equally likely; ``"balanced"``: as many similar pairs as dissimilar ones,
    # each kind uniformly; ``"all"``: all pairs
    rule: str
    n_draws: int  # number of points, drawn without replacement, whose pairs a tree may draw

    @property
    def n_rows(self) -> int:
        """Number of pairs of a tree, at most."""
        total = self.n_draws * (self.n_draws - 1) // 2
        return total if self.rule == "all" else min(self.n_pairs, total)

    @property
    def n_distinct(self) -> int:
        """The same: no pair is drawn twice."""
        return self.n_rows

    @property
    def unit(self) -> int:
        """The weight that counts as one pair: all count the same."""
        return 1

    def typical(self, seed: int) -> Int32s:
        """Draw some pairs of all points by the rule."""
        points = ByClass.from_labels(self.labels, np.arange(len(self.labels)))
        return self._drawn(points, seed, _CONSTRAINTS, SAMPLED)

    def sample(self, seed: int, tree: int) -> PairSample:
        """Draw the pairs of a tree."""
        in_bag = np.ones(len(self.labels), np.int32)
        if self.n_draws < len(self.labels):
            subsample(seed, tree, self.n_draws, in_bag)
        points = ByClass.from_labels(self.labels, np.flatnonzero(in_bag))
        pairs = self._drawn(points, seed, tree, self.n_pairs if self.rule == "balanced" else self.n_rows)
        codes = (self.labels[pairs[:, 0]] != self.labels[pairs[:, 1]]).astype(np.uint8)
        return PairSample(pairs, codes, np.ones(len(pairs), np.int32), in_bag.astype(np.uint8))

    def _drawn(self, points: ByClass, seed: int, tree: int, n: int) -> Int32s:
        """Draw ``n`` pairs of some points from the stream of a tree, or all of a kind if there are fewer."""
        kinds = [(points.any(), n)]
        if self.rule == "balanced":
            kinds = [(points.similar(), n // 2), (points.dissimilar(), n - n // 2)]
        parts = [
            kind.drawn(part_of(seed, tree, part), min(wanted, kind.total)) for part, (kind, wanted) in enumerate(kinds)
        ]
        return np.concatenate(parts)


@dataclass(frozen=True)
class ByClass:
    """Points in the order of their classes."""

    points: Int32s  # numbers of the points, shape (n,), int32
    # begin, end: first place of the class of each, and the place after its last one, shape (n,)
    begin: Ints
    end: Ints

    @classmethod
    def from_labels(cls, labels: Int32s, points: Ints) -> ByClass:
        """Order some points by their labels."""
        codes = labels[points]
        order = np.argsort(codes, kind="stable")
        ordered = codes[order]
        begin, end = np.searchsorted(ordered, ordered), np.searchsorted(ordered, ordered, side="right")
        return cls(points[order].astype(np.int32), begin, end)

    def similar(self) -> AllPairs:
        """All pairs of points of one class."""
        first = np.arange(1, len(self.points) + 1)
        return AllPairs(self.points, first, offsets(self.end - first))

    def dissimilar(self) -> AllPairs:
        """All pairs of points of two classes."""
        return AllPairs(self.points, self.end, offsets(len(self.points) - self.end))

    def any(self) -> AllPairs:
        """All pairs."""
        first = np.arange(1, len(self.points) + 1)
        return AllPairs(self.points, first, offsets(len(self.points) - first))

    def partners(self, key: np.uint64, places: Ints, dissimilar: bool, n: int) -> Int32s:
        """Draw ``n`` pairs, perhaps repeated, of a point at one of ``places`` and one of its class, or of another."""
        pairs = np.empty((n, 2), np.int32)
        draw_partners(key, places, self.points, self.begin, self.end, dissimilar, pairs)
        return pairs


@dataclass(frozen=True)
class AllPairs:
    """All pairs of a kind, with numbers: the point at place a is paired with those at first[a], first[a] + 1, ..."""

    points: Int32s  # numbers of the points by place, shape (n,)
    first: Ints  # place of the first partner of each, shape (n,)
    offset: Ints  # number of each point's first pair, and in the end the number of all pairs, shape (n + 1,)

    @property
    def total(self) -> int:
        """Number of pairs."""
        return int(self.offset[-1])

    def numbered(self, numbers: Ints) -> Int32s:
        """Return the pairs with these numbers, shape (n, 2)."""
        place = np.searchsorted(self.offset, numbers, side="right") - 1
        other = self.first[place] + numbers - self.offset[place]
        return np.stack([self.points[place], self.points[other]], axis=1)

    def drawn(self, key: np.uint64, n: int) -> Int32s:
        """Draw ``n`` distinct pairs; every subset is equally likely."""
        return self.numbered(distinct(key, n, self.total))


def part_of(seed: int, tree: int, part: int) -> np.uint64:
    """A stream of a tree besides the one from which it draws its rows."""
    return np.uint64(stream(seed, tree, np.int64(SAMPLE_NODE - 1 - part)))  # wraps around with and without Numba


def distinct(key: np.uint64, n: int, total: int) -> Ints:
    """Draw ``n`` distinct numbers below ``total``; every subset is equally likely."""
    if 3 * n > total:
        order = np.arange(total)
        shuffle(key, 0, order, n)
        return order[:n]
    numbers, first = np.empty(0, np.int64), 0
    while len(numbers) < n:
        more = np.empty(n + n // 8 + 16, np.int64)
        draw_below(key, first, total, more)
        numbers, first = first_of_each(np.concatenate([numbers, more])), first + len(more)
    return numbers[:n]


def first_of_each(values: Ints) -> Ints:
    """The distinct values, in the order in which they first occur."""
    place = np.unique(values, return_index=True)[1]
    return values[np.sort(place)]


@kernel
def draw_below(key: np.uint64, first: int, total: int, numbers: Ints) -> None:
    """numbers[e] = floor(u total), where u is the random number at place first + e of the stream; total < 2^53."""
    for e in range(numbers.shape[0]):
        numbers[e] = np.int64(unit(key, first + e) * total)


@kernel
def draw_partners(
    key: np.uint64, places: Ints, points: Int32s, begin: Ints, end: Ints, dissimilar: bool, pairs: Int32s
) -> None:
    """pairs[e] = a point at one of ``places``, and another one of its class, or one of another class.

    Each step has equal chances. A point without such a partner is paired with itself.
    """
    n = points.shape[0]
    for e in range(pairs.shape[0]):
        place = places[below(key, 2 * e, places.shape[0])]
        size = end[place] - begin[place]
        other = place
        if dissimilar and size < n:
            other = below(key, 2 * e + 1, n - size)
            other += size if other >= begin[place] else 0
        elif not dissimilar and size > 1:
            other = begin[place] + below(key, 2 * e + 1, size - 1)
            other += other >= place
        pairs[e, 0], pairs[e, 1] = points[place], points[other]


@dataclass(frozen=True)
class Constraints:
    """Must-link and cannot-link pairs drawn by labels, as many of the one kind as of the other."""

    n_constraints: int  # number of pairs of each kind for a class, on average
    # ``"points"``: a point is drawn with equal chances, then its partner in its class, or outside, so that a rare class
    # is as rare among the pairs; ``"classes"``: ``n_constraints`` pairs of each kind from every class (RFD, section
    # 3.1); ``"pairs"``: every pair of a kind with equal chances
    balance: str
    warns: bool = True  # whether to warn if there are fewer pairs

    @classmethod
    def from_option(cls, n_constraints: int | str, balance: str) -> Constraints:
        """The rule for a number, or for ``"auto"``: `ENOUGH`, without a warning where there are fewer."""
        return cls(ENOUGH, balance, warns=False) if n_constraints == "auto" else cls(int(n_constraints), balance)

    def draw(self, labels: Int32s, seed: int) -> tuple[Int32s, SampledCodes]:
        """Draw distinct pairs, shape (m, 2); also return their classes. Warns where there are too few pairs.

        Raises
        ------
        InputError
            There is no pair of one of the kinds.
        """
        points = ByClass.from_labels(labels, np.arange(len(labels)))
        wanted, parts = self.n_constraints * (int(labels.max()) + 1), []
        for code, name in ((SIMILAR, "must-link"), (DISSIMILAR, "cannot-link")):
            pairs = self._kind(points, labels, seed, code == DISSIMILAR)
            if not len(pairs):
                needed = "two classes" if code == DISSIMILAR else "a class of two points"
                raise InputError(f"labels: {needed} were expected, there is no {name} pair")
            if len(pairs) < wanted and self.warns:
                text = f"found {counted(len(pairs), f'{name} pair')} where {wanted} were expected, as a class is small"
                warn_caller(f"{text}; set a smaller n_constraints")
            parts.append((pairs, np.full(len(pairs), code, np.uint8)))
        return np.concatenate([pairs for pairs, _ in parts]), np.concatenate([codes for _, codes in parts])

    def _kind(self, points: ByClass, labels: Int32s, seed: int, dissimilar: bool) -> Int32s:
        """Draw distinct pairs of one kind."""
        n_classes = int(labels.max()) + 1
        wanted, kind = self.n_constraints * n_classes, points.dissimilar() if dissimilar else points.similar()
        if self.balance == "pairs":
            return kind.drawn(part_of(seed, _CONSTRAINTS, dissimilar), min(wanted, kind.total))
        groups = [np.arange(len(labels))]
        if self.balance == "classes":
            wanted, ordered = self.n_constraints, labels[points.points]
            groups = [np.flatnonzero(ordered == code) for code in range(n_classes)]
        numbers = np.empty(0, np.int64)
        for group, places in enumerate(groups):
            parts = (2 * (group * SAMPLING_TRIES + attempt) + dissimilar for attempt in range(SAMPLING_TRIES))
            keys = (part_of(seed, _CONSTRAINTS, part) for part in parts)
            most = min(len(numbers) + wanted, kind.total)
            numbers = _with_partners(points, places, dissimilar, keys, numbers, most)
        return np.stack([numbers // len(labels), numbers % len(labels)], axis=1).astype(np.int32)


def _with_partners(
    points: ByClass, places: Ints, dissimilar: bool, keys: Iterator[np.uint64], numbers: Ints, wanted: int
) -> Ints:
    """Add distinct pairs of points at some places to ``numbers``, low * n + high for each pair, up to ``wanted`` pairs.

    With each key as many pairs are drawn as are wanted. Stops early when a key gives hardly any new pair.
    """
    n, n_new = len(points.points), wanted
    while len(numbers) < wanted and n_new >= wanted // 1000 and (key := next(keys, None)) is not None:
        n_new = -len(numbers)
        pairs = points.partners(key, places, dissimilar, wanted).astype(np.int64)
        low, high = pairs.min(axis=1), pairs.max(axis=1)
        numbers = first_of_each(np.concatenate([numbers, (low * n + high)[low < high]]))
        n_new += len(numbers)
    return numbers[:wanted]
