"""The references of naive_landmarks.py against numbers worked out by hand."""

from __future__ import annotations

from collections import Counter

import numpy as np

from tests.reference import naive
from tests.reference import naive_landmarks as marks
from tests.reference import naive_simforest as sim
from tests.reference.naive_simforest import Rules
from tests.reference.simforest_by_hand import NAN, sample_of

TARGETS = Rules(truth_kind="targets", landmarks=(0, 2, 3))


def test_parts() -> None:
    assert marks.parted([50, 30, 20], 10) == [5, 3, 2]
    assert marks.parted([50, 30, 20], 5) == [3, 1, 1]  # 2.5, 1.5 and 1: the half goes to the first
    assert marks.parted([50, 31, 19], 5) == [2, 2, 1]  # 2.5, 1.55 and 0.95, which is a whole one
    assert marks.parted([97, 2, 1], 4) == [2, 1, 1]
    assert marks.parted([97, 2, 1], 3) == [1, 1, 1]


def test_what_is_drawn() -> None:
    y = [0, 1, 0, 1, 0, 2]
    found = Counter(marks.drawn(y, 4, seed, by_class=True) for seed in range(600))
    assert {tuple(y[row] for row in sorted(rows, key=lambda row: y[row])) for rows in found} == {(0, 0, 1, 2)}
    assert len(found) == 3 * 2  # two of three, one of two, the only one
    assert all(abs(count - 100) < 45 for count in found.values())  # standard deviation 9
    assert len({marks.drawn(y, 2, seed, by_class=False) for seed in range(300)}) == 15
    ranks = [naive.stream(7, 2**40 + 2, row) for row in (0, 1)]
    assert marks.drawn([0, 0, 1], 2, 7, by_class=True) == (ranks.index(min(ranks)), 2)


def test_pools() -> None:
    sample = sample_of(np.eye(6), [0, 0, 1, 1, 0, 1], [1] * 6, Rules(landmarks=(1, 4, 5)))
    assert marks.pool_of(sample, [0, 1, 2], 0) == [1]
    assert marks.pool_of(sample, [0, 2], 0) == [1, 4]  # none of its own
    assert marks.pool_of(sample, [0, 1, 2], 1) == [5]
    assert marks.pool_of(sample_of(np.eye(6), [0] * 6, [1] * 6), [3, 5], 0) == [3, 5]
    targets = sample_of(np.eye(5), [0.0, 1.0, 2.0, 2.0, 9.0], [1] * 5, TARGETS)
    assert marks.pool_of(targets, [0, 1, 2], NAN) == [0, 2]
    assert marks.pool_of(targets, [1, 2, 3, 4], NAN) == [0, 2, 3]  # of its own only 2.0


def test_columns_are_landmarks_of_the_classes_of_the_pair() -> None:
    y = [0, 0, 0, 1, 1, 1]
    sample = sample_of(np.eye(6), y, [1] * 6, Rules(landmarks=(1, 2, 5), n_columns=3))
    for node in range(50):
        key = naive.stream(0, 0, node)
        columns, weights = sim.drawn_candidate(sample, [0, 1, 3, 4], key, 0, 0)
        i = [0, 1, 3, 4][naive.below(key, 0, 4)]
        assert columns == ((1, 5) if y[i] == 1 else (5, 1))  # that of class 0 in the node, the only one of 1
        assert weights == (1.0, -1.0)


def test_voters() -> None:
    assert marks.voter([0.5, 0.9, 0.7, 0.7], 1, [1, 2, 1, 1]) == 2
    assert marks.voter([0.5, 0.9, NAN, NAN], 1, [1, 2, 1, 1]) == 0
    assert marks.voter([NAN, 0.9, NAN, NAN], 1, [1, 2, 1, 1]) == -1
    said = marks.said(
        [[0.1, 0.2], [NAN, NAN]], [[1, 1], [0, 1]], [[1, 1], [0, 1]], [[4.0], [6.0]], [[[0], [9]], [[7], [8]]]
    )
    assert said == [[(6 + 4) / 2], [(9 + 8) / 2]]
