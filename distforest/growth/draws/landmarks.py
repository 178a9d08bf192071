"""Landmarks: a few objects to which all others are compared, so that the pairs that may be read are known early."""

from __future__ import annotations

from bisect import bisect_right
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from distforest.amounts import counted
from distforest.errors import InputError
from distforest.growth.parameters import n_drawn
from distforest.growth.rng import streams
from distforest.jit import kernel
from distforest.sources.source import Floats, Int32s, Ints

LANDMARK_TREE = (1 << 40) + 2
"""A tree number that no forest has; the stream of its node i ranks object i."""


class Landmarks(NamedTuple):
    """Some of the objects; both arrays are empty if all objects may be columns."""

    rows: Int32s  # their numbers, ascending, shape (n_landmarks,)
    among: NDArray[np.bool_]  # whether each object is a landmark, shape (n_objects,)

    @classmethod
    def from_rows(cls, rows: Int32s, n_objects: int) -> Landmarks:
        """Return the landmarks at ``rows``, ascending, of ``n_objects``."""
        among = np.zeros(n_objects, np.bool_)
        among[rows] = True
        return cls(rows, among)


ANY_OBJECT = Landmarks(np.empty(0, np.int32), np.empty(0, np.bool_))
"""No landmarks, so that any objects of a node may be columns."""


def landmarks_of(n_landmarks: float | None, targets: Floats, by_class: bool, seed: int) -> Landmarks:
    """Draw the landmarks of a forest: from each class at least one, and in proportion to its objects.

    The landmarks of a class are the objects whose numbers have the lowest ranks by the seed. An object's rank does not
    depend on others, so most landmarks stay if objects are appended, and all tasks draw the same.

    ``n_landmarks`` is a number, a share of the objects, or None for `ANY_OBJECT`. ``targets`` contains the class of
    each object if ``by_class``, otherwise its target.

    Raises
    ------
    InputError
        There are more landmarks than objects, fewer than classes, or fewer than two for targets.
    """
    if n_landmarks is None:
        return ANY_OBJECT
    n = len(targets)
    m = count_landmarks(n_landmarks, n)
    classes, code = np.unique(targets if by_class else np.zeros(n), return_inverse=True)
    least, needed = (len(classes), "one of each class") if by_class else (2, "two, whose targets differ")
    if m < least:
        raise InputError(
            f"n_landmarks={n_landmarks!r} of {counted(n, 'object')} is {m}, but pairs need {needed}: {least} at least; "
            "raise it"
        )
    ranks = np.empty(n, np.uint64)
    streams(seed, np.full(n, LANDMARK_TREE), np.arange(n, dtype=np.int32), ranks)
    by_rank = np.argsort(ranks)  # no two are equal: `stream` is one to one in the node
    of_class = shares(np.bincount(code), m)
    drawn = [by_rank[code[by_rank] == one][:n_of_class] for one, n_of_class in enumerate(of_class)]
    return Landmarks.from_rows(np.sort(np.concatenate(drawn)).astype(np.int32), n)


def count_landmarks(n_landmarks: float, n_objects: int) -> int:
    """Return the number of landmarks for a number or a share; raise InputError if there are fewer objects."""
    m = n_drawn(n_landmarks, n_objects)
    if m > n_objects:
        raise InputError(f"n_landmarks={n_landmarks!r} requests more landmarks than there are objects ({n_objects})")
    return m


def most_pairs(n_landmarks: float, n_objects: int) -> int:
    """Return the number of pairs of two objects that include a landmark, m (2n - m - 1) / 2; a forest reads no others.

    Examples
    --------
    >>> most_pairs(2, 5), most_pairs(5, 5)
    (7, 10)
    """
    m = count_landmarks(n_landmarks, n_objects)
    return m * (2 * n_objects - m - 1) // 2


def landmarks_within(budget: int, n_objects: int, asks_itself: bool) -> int:
    """Return the most landmarks for any number of trees within a budget of pairs; 0 if it suffices for all pairs.

    A landmark's similarity to itself is evaluated, its distance to itself is not.

    Examples
    --------
    >>> landmarks_within(700, 119, False), landmarks_within(7021, 119, False)
    (6, 0)
    """
    m = bisect_right(range(1, n_objects + 1), budget, key=lambda m: most_pairs(m, n_objects) + m * asks_itself)
    return m if m < n_objects - 1 else 0


def shares(sizes: Ints, m: int) -> Ints:
    """Divide ``m`` landmarks, at least one per class, among classes of some sizes, shape (n_classes,).

    A class gets m size / n, rounded down but at least 1. The rest goes one by one to the classes that are furthest
    below m size / n, the first of ties. If the classes got too many, the class with most gives one back, the first of
    ties.

    Examples
    --------
    >>> shares(np.array([50, 30, 20]), 5), shares(np.array([97, 2, 1]), 4)
    (array([3, 1, 1]), array([2, 1, 1]))
    """
    n = sizes.sum()
    share = np.maximum(1, m * sizes // n)
    while share.sum() > m:
        share[np.argmax(share)] -= 1
    share[np.argsort(share * n - m * sizes, kind="stable")[: m - share.sum()]] += 1
    return share


@kernel
def landmarks_near(y: float, group: Int32s, landmarks: Landmarks, targets: Floats, by_class: bool) -> Int32s:
    """Return the landmarks for class y in a node: those of the class in the node, or all of the class without any.

    For targets y does not matter: they are the landmarks in the node, or all landmarks if the targets of these do not
    differ.
    """
    marked, among = landmarks
    near = np.empty(max(group.shape[0], marked.shape[0]), np.int32)
    n, differ = 0, by_class
    for row in group:
        if among[row] and (not by_class or targets[row] == y):
            near[n] = row
            n += 1
            differ = differ or targets[row] != targets[near[0]]
    if n == 0 or not differ:
        n = 0
        for row in marked:
            if not by_class or targets[row] == y:
                near[n] = row
                n += 1
    return near[:n]
