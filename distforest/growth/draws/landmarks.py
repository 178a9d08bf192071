"""Landmarks: the few objects to which all others are compared, so that the pairs asked for are known beforehand."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from distforest.amounts import counted
from distforest.errors import InputError
from distforest.growth.parameters import n_drawn
from distforest.growth.rng import shuffle, stream
from distforest.jit import kernel
from distforest.sources.source import Floats, Int32s, Ints

LANDMARK_TREE = (1 << 40) + 2
"""The number of a tree that no forest has, from whose stream landmarks are drawn."""


class Landmarks(NamedTuple):
    """Some of the objects: their numbers, ascending, and of each object whether it is one; of none for all objects."""

    rows: Int32s
    among: NDArray[np.bool_]

    @classmethod
    def of(cls, rows: Int32s, n_objects: int) -> Landmarks:
        """The landmarks at ``rows``, ascending, of ``n_objects``."""
        among = np.zeros(n_objects, np.bool_)
        among[rows] = True
        return cls(rows, among)


ANY_OBJECT = Landmarks(np.empty(0, np.int32), np.empty(0, np.bool_))
"""No landmarks: columns may be any objects of a node."""


def landmarks_of(n_landmarks: float | None, targets: Floats, by_class: bool, seed: int) -> Landmarks:
    """Draw the landmarks of a forest, of classes in proportion to their objects and of each at least one.

    Parameters
    ----------
    n_landmarks
        A number, a share of the objects, or None for `ANY_OBJECT`.
    targets, by_class
        Of the objects, shape (n_objects,), and whether they are classes.
    seed
        Of the forest: what is drawn depends on nothing else, so that all its tasks draw the same.

    Raises
    ------
    InputError
        More landmarks than objects, fewer than classes, or fewer than two for targets.
    """
    if n_landmarks is None:
        return ANY_OBJECT
    n = len(targets)
    m = n_wanted(n_landmarks, n)
    classes, code = np.unique(targets if by_class else np.zeros(n), return_inverse=True)
    least, what = (len(classes), "one of each class") if by_class else (2, "two, whose targets differ")
    if m < least:
        raise InputError(
            f"n_landmarks={n_landmarks!r} of {counted(n, 'object')} is {m}, but pairs need {what}: {least} at least; "
            "ask for more"
        )
    key, first, drawn = np.uint64(stream(seed, LANDMARK_TREE, 0)), 0, []
    for own, n_own in enumerate(shares(np.bincount(code), m).tolist()):
        rows = np.flatnonzero(code == own).astype(np.int32)
        shuffle(key, first, rows, n_own)
        first += n_own
        drawn.append(rows[:n_own])
    return Landmarks.of(np.sort(np.concatenate(drawn)), n)


def n_wanted(n_landmarks: float, n_objects: int) -> int:
    """How many landmarks a number or share stands for; raises InputError where there are not so many objects."""
    m = n_drawn(n_landmarks, n_objects)
    if m > n_objects:
        raise InputError(f"n_landmarks={n_landmarks!r} asks for more landmarks than there are objects ({n_objects})")
    return m


def most_pairs(n_landmarks: float, n_objects: int) -> int:
    """How many pairs of two objects hold a landmark, m (2n - m - 1) / 2: what a forest may ever ask for.

    Examples
    --------
    >>> most_pairs(2, 5), most_pairs(5, 5)
    (7, 10)
    """
    m = n_wanted(n_landmarks, n_objects)
    return m * (2 * n_objects - m - 1) // 2


def shares(sizes: Ints, m: int) -> Ints:
    """Part ``m``, at least as many as there are classes, among classes of some sizes, shape (n_classes,).

    A class has m size / n, rounded down but at least 1; what is left goes one by one to the classes that are furthest
    below m size / n, the first of equals. Where the ones are too many, the class with most gives one, the first of
    equals.

    Examples
    --------
    >>> shares(np.array([50, 30, 20]), 5), shares(np.array([97, 2, 1]), 4)
    (array([3, 1, 1]), array([2, 1, 1]))
    """
    n = sizes.sum()
    found = np.maximum(1, m * sizes // n)
    while found.sum() > m:
        found[np.argmax(found)] -= 1
    found[np.argsort(found * n - m * sizes, kind="stable")[: m - found.sum()]] += 1
    return found


@kernel
def landmarks_near(y: float, group: Int32s, landmarks: Landmarks, targets: Floats, by_class: bool) -> Int32s:
    """The landmarks of a node that class y may send: those in it of the class, or all of the class if there is none.

    Of targets, whatever y: those in the node, or all landmarks if there are not two different targets among these.
    """
    near = np.empty(max(group.shape[0], landmarks.rows.shape[0]), np.int32)
    n, differ = 0, by_class
    for row in group:
        if landmarks.among[row] and (not by_class or targets[row] == y):
            near[n] = row
            n += 1
            differ = differ or targets[row] != targets[near[0]]
    if n == 0 or not differ:
        n = 0
        for row in landmarks.rows:
            if not by_class or targets[row] == y:
                near[n] = row
                n += 1
    return near[:n]
