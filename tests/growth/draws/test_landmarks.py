"""Landmarks: how many and which, what may be a column with them, and what they cost."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distforest.errors import InputError
from distforest.growth.draws.landmarks import ANY_OBJECT, Landmarks, landmarks_of, most_pairs, shares
from distforest.growth.draws.objects import Disagreement, TwoObjects
from distforest.sources.arrays import ArraySource
from tests import samples
from tests.growth.draws.test_objects import MANY, SEEDS
from tests.messages import naming
from tests.reference import naive_landmarks
from tests.tries import tries

pytestmark = pytest.mark.kernels

SIZES = st.lists(st.integers(1, 40), min_size=1, max_size=8)


@given(SIZES, st.data())
def test_classes_have_their_shares_and_one_each(sizes: list[int], data: st.DataObject) -> None:
    m = data.draw(st.integers(len(sizes), sum(sizes)))
    found = shares(np.array(sizes), m).tolist()
    assert found == naive_landmarks.parted(sizes, m)
    assert sum(found) == m
    assert all(1 <= own <= size for own, size in zip(found, sizes, strict=True))
    exact = [Fraction(m * size, sum(sizes)) for size in sizes]
    if min(exact) >= 1:
        assert all(abs(own - share) < 1 for own, share in zip(found, exact, strict=True))


@given(st.lists(st.sampled_from([0.0, 1.0, 2.0]), min_size=3, max_size=40), SEEDS, st.booleans(), st.data())
def test_landmarks_are_drawn_as_reported(targets: list[float], seed: int, by_class: bool, data: st.DataObject) -> None:
    m = data.draw(st.integers(3, len(targets)))
    found = landmarks_of(m, np.array(targets), by_class, seed)
    assert tuple(found.rows.tolist()) == naive_landmarks.drawn(targets, m, seed, by_class=by_class)
    assert np.flatnonzero(found.among).tolist() == found.rows.tolist()
    assert len(found.rows) == m
    if by_class:
        assert {targets[row] for row in found.rows} == set(targets)
    share = landmarks_of(m / len(targets), np.array(targets), by_class, seed)
    assert share.rows.tolist() == found.rows.tolist()


@given(st.integers(20, 60), st.integers(1, 20), SEEDS, st.booleans())
def test_landmarks_stay_where_objects_are_added(n: int, n_added: int, seed: int, by_class: bool) -> None:
    targets = np.arange(n + n_added) % 2.0
    before, after = (set(landmarks_of(10, targets[:k], by_class, seed).rows.tolist()) for k in (n, n + n_added))
    assert after & set(range(n)) <= before
    assert len(before - after) <= n_added


def test_as_many_landmarks_move_as_objects_are_added_in_proportion() -> None:
    targets, moved = np.zeros(1100), []
    for seed in range(200):
        before, after = (landmarks_of(50, targets[:k], False, seed).rows for k in (1000, 1100))
        moved.append(len(np.setdiff1d(after, before)))
    assert abs(np.mean(moved) - 50 / 11) < 0.5  # its standard deviation is 0.14


def test_without_a_number_any_object_may_be_a_column() -> None:
    assert landmarks_of(None, np.arange(3.0), True, 0) is ANY_OBJECT


@pytest.mark.parametrize(
    ("n_landmarks", "by_class", "named"),
    [
        (9, True, ("n_landmarks=9", 8)),
        (2, True, ("n_landmarks=2", 8, "class", 3)),
        (0.1, True, ("n_landmarks=0.1", 8, "class", 3)),
        (0.1, False, ("n_landmarks=0.1", 8, "targets", 2)),
    ],
)
def test_numbers_that_are_refused(n_landmarks: float, by_class: bool, named: tuple[object, ...]) -> None:
    with pytest.raises(InputError, match=naming(*named)):
        landmarks_of(n_landmarks, np.array([0, 0, 0, 1, 1, 1, 2, 2.0]), by_class, 0)


def pairs_of(targets: list[float], rows: list[int], marks: list[int], by_class: bool) -> Counter[tuple[int, int]]:
    """How often each (j, i) is drawn at a node of some rows."""
    frontier = samples.level([rows] * MANY, [[1] * len(rows)] * MANY)
    landmarks = Landmarks.from_rows(np.array(marks, np.int32), len(targets))
    truth = Disagreement(np.array(targets), by_class)
    draw = TwoObjects(ArraySource.from_values(np.eye(len(targets))), truth, 1, landmarks=landmarks)
    drawn = draw(frontier, samples.keys_of(5, [0] * MANY, list(range(MANY))), 0)
    return Counter((j, i) for j, i in drawn.columns.reshape(-1, 2).tolist())


def holds(found: Counter[tuple[int, int]], law: dict[tuple[int, int], float]) -> None:
    assert set(found) == set(law)
    pairs = sorted(law)
    assert samples.chi_square(np.array([found[p] for p in pairs]), np.array([law[p] * MANY for p in pairs])) < 5


@pytest.mark.slow
def test_a_pair_is_two_classes_of_the_node_and_then_a_landmark_of_each() -> None:
    # Node 0..4 of classes 0 0 0 1 1; landmarks 1, 2 of class 0 in it, 6, 7 of class 1 outside it, 5 of class 0 too.
    found = pairs_of([0, 0, 0, 1, 1, 0, 1, 1], [0, 1, 2, 3, 4], [1, 2, 5, 6, 7], True)
    first = {0: 3 / 5, 1: 2 / 5}  # the class of i
    law = {(j, i): first[0] / 4 for j in (6, 7) for i in (1, 2)}
    law |= {(j, i): first[1] / 4 for j in (1, 2) for i in (6, 7)}
    holds(found, law)


def test_a_pair_of_targets_is_drawn_of_the_landmarks_in_the_node() -> None:
    targets = [0.0, 1.0, 3.0, 7.0, 20.0]
    # from 0: 1 or 3 (1/4, 3/4), from 1: 0 or 3 (1/3, 2/3), from 3: 0 or 1 (3/5, 2/5)
    law = {(1, 0): 1 / 4, (2, 0): 3 / 4, (0, 1): 1 / 3, (2, 1): 2 / 3, (0, 2): 3 / 5, (1, 2): 2 / 5}
    holds(pairs_of(targets, [0, 1, 2, 3], [0, 1, 2, 4], False), {pair: share / 3 for pair, share in law.items()})


@pytest.mark.parametrize("inside", [[3], [3, 4]])
def test_a_node_with_one_target_among_its_landmarks_draws_of_all(inside: list[int]) -> None:
    # Landmarks 0 (target 0), 3 and 4 (target 6); in the node there is no 0 among them.
    found = pairs_of([0.0, 1.0, 2.0, 6.0, 6.0], [1, 2, *inside], [0, 3, 4], False)
    holds(found, {(3, 0): 1 / 6, (4, 0): 1 / 6, (0, 3): 1 / 3, (0, 4): 1 / 3})


def test_landmarks_of_one_target_make_no_pair() -> None:
    assert not pairs_of([1.0, 1.0, 2.0], [0, 1, 2], [0, 1], False)


@settings(max_examples=tries(60))
@given(st.integers(4, 20), SEEDS, st.booleans(), st.integers(1, 4), st.data())
def test_all_columns_are_landmarks(n: int, seed: int, by_class: bool, n_columns: int, data: st.DataObject) -> None:
    rng = np.random.default_rng(seed % 1000)
    targets = np.concatenate([[0.0, 1.0, 2.0], rng.integers(0, 3, n - 3)])
    truth = Disagreement(targets, by_class)
    landmarks = landmarks_of(data.draw(st.integers(3, n)), truth.targets, truth.by_class, seed)
    draw = TwoObjects(ArraySource.from_values(np.eye(n)), truth, 3, n_columns, landmarks=landmarks)
    rows = sorted(data.draw(st.sets(st.integers(0, n - 1), min_size=1)))
    drawn = draw(samples.level([rows], [[1] * len(rows)]), samples.keys_of(seed, [0], [0]), 0)
    assert landmarks.among[drawn.columns].all()
    for first, last in zip(drawn.offset[:-1], drawn.offset[1:], strict=True):
        columns = drawn.columns[first:last].tolist()
        assert len(set(columns)) == len(columns)
        if by_class and columns:
            assert set(targets[columns]) <= set(targets[rows])


@pytest.mark.parametrize("case", ["landmarks", "landmark_targets"])
def test_a_forest_reads_the_columns_of_its_landmarks_alone(case: str) -> None:
    problem: Any = samples.problem_of(case, n_estimators=30)
    marks = problem.growth.draw.landmarks
    table = samples.forest_from(problem).table
    assert set(table.columns.tolist()) == set(marks.rows.tolist())
    assert len(marks.rows) == {"landmarks": 27, "landmark_targets": 18}[case]


def test_pairs_with_a_landmark_are_counted() -> None:
    for n in range(2, 8):
        for m in range(2, n + 1):
            assert most_pairs(m, n) == len({(min(a, b), max(a, b)) for a in range(m) for b in range(n) if a != b})
