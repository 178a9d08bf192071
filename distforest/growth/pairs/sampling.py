"""Which pairs a tree learns from: drawn from given ones, or anew from the labels of the points.

A pair is unordered, of two distinct points, and comes with its class: 0 for alike (must-link), 1 for unlike.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from distforest.amounts import counted
from distforest.errors import InputError, warn_caller
from distforest.growth.pairs.bins import SAMPLED
from distforest.growth.rng import SAMPLE_NODE, below, bootstrap, shuffle, stream, subsample, unit
from distforest.jit import kernel
from distforest.sources.point_pairs import ALIKE, UNLIKE
from distforest.sources.source import Int32s, Ints, offsets

SampledCodes = NDArray[np.uint8]

MOST_TREE_PAIRS = 2**31 - 1
"""Pairs of a tree."""

SAMPLING_TRIES = 64
"""Draws for each pair that is wanted, before what was found is all."""

_CONSTRAINTS = 1 << 40
"""Number of the tree in whose stream is drawn what serves all trees: beyond all of them."""

ENOUGH = 10_000
"""Constraints of each kind for a class, on average, that ``"auto"`` asks for."""


class PairSample(NamedTuple):
    """Pairs of a tree, shape (m, 2); their classes and multiplicities, shape (m,); that of the points, (n_points,)."""

    pairs: Int32s
    codes: SampledCodes
    weights: Int32s
    in_bag: NDArray[np.uint8]


class PairSampling(Protocol):
    """What gives each tree its pairs."""

    @property
    def n_rows(self) -> int:
        """Pairs of a tree, about."""

    def sample(self, seed: int, tree: int) -> PairSample:
        """The pairs of a tree, from its stream alone."""

    def typical(self, seed: int) -> Int32s:
        """Pairs like those that trees draw, of which bins are made, shape (m, 2)."""


@dataclass(frozen=True)
class GivenPairs:
    """Pairs that were given or drawn once: a tree draws some of them, or of the points.

    Attributes
    ----------
    pairs, codes
        Shapes (m, 2) and (m,).
    n_points
        Number of points.
    n_draws
        Pairs, or points, that a tree draws.
    replace
        With replacement.
    by_points
        Points are drawn, and a tree learns from the pairs of which it drew both, with the product of their
        multiplicities: what it has not drawn is then unknown to it. Where there is no such pair it learns from all.
    """

    pairs: Int32s
    codes: SampledCodes
    n_points: int
    n_draws: int
    replace: bool
    by_points: bool

    @property
    def n_rows(self) -> int:
        """Pairs that were given."""
        return len(self.pairs) if self.by_points else min(self.n_draws, len(self.pairs))

    def typical(self, seed: int) -> Int32s:  # noqa: ARG002  (nothing is drawn)
        """All pairs."""
        return self.pairs

    def sample(self, seed: int, tree: int) -> PairSample:
        """The pairs of a tree."""
        in_bag = np.ones(self.n_points, np.int32)
        weights = in_bag if self.by_points else np.ones(len(self.pairs), np.int32)
        if self.replace or self.n_draws < len(weights):
            (bootstrap if self.replace else subsample)(seed, tree, self.n_draws, weights)
        if self.by_points:
            weights = in_bag[self.pairs[:, 0]] * in_bag[self.pairs[:, 1]]
        if not weights.any():  # none of the pairs has both its points among those drawn: all of them serve
            in_bag, weights = np.ones_like(in_bag), np.ones_like(weights)
        own = np.flatnonzero(weights)
        return PairSample(self.pairs[own], self.codes[own], weights[own], in_bag.astype(np.uint8))


@dataclass(frozen=True)
class LabelledPairs:
    """Pairs drawn anew for each tree from the labels of the points (the U-statistic of Clemencon and Vogel, Eq. 3).

    Attributes
    ----------
    labels
        Class of each point, shape (n_points,), int32.
    n_pairs
        Pairs that a tree draws, no two the same; all that there are if there are fewer.
    rule
        ``"uniform"``: every pair of points is equally likely; ``"balanced"``: as many alike as unlike, each kind
        uniformly; ``"all"``: all pairs.
    n_draws
        Points that a tree draws from, without replacement.
    """

    labels: Int32s
    n_pairs: int
    rule: str
    n_draws: int

    @property
    def n_rows(self) -> int:
        """Pairs of a tree."""
        there = self.n_draws * (self.n_draws - 1) // 2
        return there if self.rule == "all" else min(self.n_pairs, there)

    def typical(self, seed: int) -> Int32s:
        """Some pairs, drawn by the rule from all points."""
        points = ByClass.of(self.labels, np.arange(len(self.labels)))
        return self._drawn(points, seed, _CONSTRAINTS, SAMPLED)

    def sample(self, seed: int, tree: int) -> PairSample:
        """The pairs of a tree."""
        in_bag = np.ones(len(self.labels), np.int32)
        if self.n_draws < len(self.labels):
            subsample(seed, tree, self.n_draws, in_bag)
        points = ByClass.of(self.labels, np.flatnonzero(in_bag))
        pairs = self._drawn(points, seed, tree, self.n_pairs if self.rule == "balanced" else self.n_rows)
        codes = (self.labels[pairs[:, 0]] != self.labels[pairs[:, 1]]).astype(np.uint8)
        return PairSample(pairs, codes, np.ones(len(pairs), np.int32), in_bag.astype(np.uint8))

    def _drawn(self, points: ByClass, seed: int, tree: int, n: int) -> Int32s:
        """``n`` pairs of some points, or as many of a kind as there are, from the stream of a tree."""
        kinds = [(points.any(), n)]
        if self.rule == "balanced":
            kinds = [(points.alike(), n // 2), (points.unlike(), n - n // 2)]
        parts = [
            some.drawn(part_of(seed, tree, part), min(wanted, some.total)) for part, (some, wanted) in enumerate(kinds)
        ]
        return np.concatenate(parts)


@dataclass(frozen=True)
class ByClass:
    """Points in the order of their classes.

    Attributes
    ----------
    points
        Their numbers, shape (n,), int32.
    begin, end
        Where the class of each begins and ends, shape (n,).
    """

    points: Int32s
    begin: Ints
    end: Ints

    @classmethod
    def of(cls, labels: Int32s, points: Ints) -> ByClass:
        """Some points by their labels."""
        own = labels[points]
        order = np.argsort(own, kind="stable")
        ordered = own[order]
        begin, end = np.searchsorted(ordered, ordered), np.searchsorted(ordered, ordered, side="right")
        return cls(points[order].astype(np.int32), begin, end)

    def alike(self) -> AllPairs:
        """All pairs of one class."""
        first = np.arange(1, len(self.points) + 1)
        return AllPairs(self.points, first, offsets(self.end - first))

    def unlike(self) -> AllPairs:
        """All pairs of two classes."""
        return AllPairs(self.points, self.end, offsets(len(self.points) - self.end))

    def any(self) -> AllPairs:
        """All pairs."""
        first = np.arange(1, len(self.points) + 1)
        return AllPairs(self.points, first, offsets(len(self.points) - first))

    def partners(self, key: np.uint64, own: Ints, unlike: bool, n: int) -> Int32s:
        """``n`` pairs, some of them equal, of a point at a place of ``own`` and one of its class, or of another."""
        pairs = np.empty((n, 2), np.int32)
        draw_partners(key, own, self.points, self.begin, self.end, unlike, pairs)
        return pairs


@dataclass(frozen=True)
class AllPairs:
    """All pairs of some kind, numbered: the point at place a is paired with those at first[a], first[a] + 1, ...

    Attributes
    ----------
    points
        Numbers of the points by place, shape (n,).
    first
        First partner of each, shape (n,).
    offset
        Number of each point's first pair, shape (n + 1,).
    """

    points: Int32s
    first: Ints
    offset: Ints

    @property
    def total(self) -> int:
        """How many there are."""
        return int(self.offset[-1])

    def numbered(self, numbers: Ints) -> Int32s:
        """The pairs with these numbers, shape (n, 2)."""
        place = np.searchsorted(self.offset, numbers, side="right") - 1
        other = self.first[place] + numbers - self.offset[place]
        return np.stack([self.points[place], self.points[other]], axis=1)

    def drawn(self, key: np.uint64, n: int) -> Int32s:
        """``n`` of the pairs, no two the same, each subset of them equally likely."""
        return self.numbered(distinct(key, n, self.total))


def part_of(seed: int, tree: int, part: int) -> np.uint64:
    """A stream of a tree beside that in which it draws its rows."""
    return np.uint64(stream(seed, tree, np.int64(SAMPLE_NODE - 1 - part)))  # wraps around with and without Numba


def distinct(key: np.uint64, n: int, total: int) -> Ints:
    """``n`` distinct numbers below ``total``, every subset equally likely."""
    if 3 * n > total:
        order = np.arange(total)
        shuffle(key, 0, order, n)
        return order[:n]
    found, first = np.empty(0, np.int64), 0
    while len(found) < n:
        more = np.empty(n + n // 8 + 16, np.int64)
        draw_below(key, first, total, more)
        found, first = first_of_each(np.concatenate([found, more])), first + len(more)
    return found[:n]


def first_of_each(values: Ints) -> Ints:
    """The values without repeats, each where it came first."""
    place = np.unique(values, return_index=True)[1]
    return values[np.sort(place)]


@kernel
def draw_below(key: np.uint64, first: int, total: int, found: Ints) -> None:
    """found[e] = floor(u total), u the number at place first + e; total < 2^53."""
    for e in range(found.shape[0]):
        found[e] = np.int64(unit(key, first + e) * total)


@kernel
def draw_partners(
    key: np.uint64, own: Ints, points: Int32s, begin: Ints, end: Ints, unlike: bool, pairs: Int32s
) -> None:
    """A point at a place of ``own``, and one of its class but itself, or of another class; equal chances at each step.

    A point without such a partner is paired with itself.
    """
    n = points.shape[0]
    for e in range(pairs.shape[0]):
        place = own[below(key, 2 * e, own.shape[0])]
        size = end[place] - begin[place]
        other = place
        if unlike and size < n:
            other = below(key, 2 * e + 1, n - size)
            other += size if other >= begin[place] else 0
        elif not unlike and size > 1:
            other = begin[place] + below(key, 2 * e + 1, size - 1)
            other += other >= place
        pairs[e, 0], pairs[e, 1] = points[place], points[other]


@dataclass(frozen=True)
class Constraints:
    """Must-link and cannot-link pairs drawn from labels, as many of the one kind as of the other.

    Attributes
    ----------
    n_constraints
        Pairs of each kind for a class, on average.
    warns
        Whether it is told if there are fewer.
    balance
        ``"points"``: a point is drawn with equal chances, then its partner in its class, or outside, so that a rare
        class is as rare among the pairs; ``"classes"``: ``n_constraints`` pairs of each kind from every class
        (RFD, section 3.1); ``"pairs"``: every pair of a kind with equal chances.
    """

    n_constraints: int
    balance: str
    warns: bool = True

    @classmethod
    def of(cls, given: int | str, balance: str) -> Constraints:
        """The rule for a number, or for ``"auto"``: `ENOUGH`, without a warning where there are fewer."""
        return cls(ENOUGH, balance, warns=False) if given == "auto" else cls(int(given), balance)

    def draw(self, labels: Int32s, seed: int) -> tuple[Int32s, SampledCodes]:
        """The pairs, shape (m, 2), none twice, and their classes; warns where there are fewer than asked for.

        Raises
        ------
        InputError
            There is no pair of one of the kinds.
        """
        points = ByClass.of(labels, np.arange(len(labels)))
        wanted, parts = self.n_constraints * (int(labels.max()) + 1), []
        for code, name in ((ALIKE, "must-link"), (UNLIKE, "cannot-link")):
            pairs = self._kind(points, labels, seed, code == UNLIKE)
            if not len(pairs):
                what = "two classes" if code == UNLIKE else "a class of two points"
                raise InputError(f"labels: {what} were expected, there is no {name} pair")
            if len(pairs) < wanted and self.warns:
                text = f"found {counted(len(pairs), f'{name} pair')} where {wanted} were expected, as a class is small"
                warn_caller(f"{text}; set a smaller n_constraints")
            parts.append((pairs, np.full(len(pairs), code, np.uint8)))
        return np.concatenate([pairs for pairs, _ in parts]), np.concatenate([codes for _, codes in parts])

    def _kind(self, points: ByClass, labels: Int32s, seed: int, unlike: bool) -> Int32s:
        """Distinct pairs of one kind."""
        n_classes = int(labels.max()) + 1
        wanted = self.n_constraints * n_classes
        if self.balance == "pairs":
            there = points.unlike() if unlike else points.alike()
            return there.drawn(part_of(seed, _CONSTRAINTS, unlike), min(wanted, there.total))
        places = [np.arange(len(labels))]
        if self.balance == "classes":
            wanted, ordered = self.n_constraints, labels[points.points]
            places = [np.flatnonzero(ordered == code) for code in range(n_classes)]
        found, most = np.empty(0, np.int64), (points.unlike() if unlike else points.alike()).total
        for group, own in enumerate(places):
            parts = (2 * (group * SAMPLING_TRIES + attempt) + unlike for attempt in range(SAMPLING_TRIES))
            keys = (part_of(seed, _CONSTRAINTS, part) for part in parts)
            found = _with_partners(points, own, unlike, keys, found, min(len(found) + wanted, most))
        return np.stack([found // len(labels), found % len(labels)], axis=1).astype(np.int32)


def _with_partners(
    points: ByClass, own: Ints, unlike: bool, keys: Iterator[np.uint64], found: Ints, wanted: int
) -> Ints:
    """``found`` and further distinct pairs, low * n + high, of points at some places, together ``wanted`` of them.

    Each key draws as many as are wanted; fewer are found where a key gives hardly anything new.
    """
    n, n_new = len(points.points), wanted
    while len(found) < wanted and n_new >= wanted // 1000 and (key := next(keys, None)) is not None:
        n_new = -len(found)
        pairs = points.partners(key, own, unlike, wanted).astype(np.int64)
        low, high = pairs.min(axis=1), pairs.max(axis=1)
        found = first_of_each(np.concatenate([found, (low * n + high)[low < high]]))
        n_new += len(found)
    return found[:wanted]
