"""Pairs of objects as draws: the pairs of plain loops, by their law; whole trees are compared in test_simforest.py."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distforest.growth.pairs_of_objects import TwoObjects, Unlikeness
from distforest.sources.arrays import ArraySource
from tests import naive, samples
from tests.naive_simforest import Rules, Sample, drawn_candidate

pytestmark = pytest.mark.kernels

SEEDS = st.integers(0, 2**63 - 1)
MANY = 400 if numba.config.DISABLE_JIT else 4000


@st.composite
def groups(draw: st.DrawFn) -> tuple[list[list[int]], np.ndarray, np.ndarray, bool]:
    """Rows of some nodes, targets, similarities with unobserved pairs, and whether targets are classes."""
    n = draw(st.integers(2, 9))
    rows = draw(st.lists(st.lists(st.integers(0, n - 1), min_size=1, unique=True), min_size=1, max_size=3))
    by_class = draw(st.booleans())
    targets = np.array(draw(st.lists(st.sampled_from([0.0, 1.0, 2.5]), min_size=n, max_size=n)))
    S = samples.similarities(n, draw(st.integers(0, 1000)), draw(st.sampled_from([0.0, 0.3])))
    same = draw(st.lists(st.integers(0, n - 1), max_size=2))
    for copy in same:  # an object like object 0: no direction between them
        S[copy], S[:, copy] = S[0], S[:, 0]
        S[copy, copy] = S[0, copy] = S[copy, 0] = S[0, 0]
    return rows, targets, S, by_class


@given(groups(), SEEDS, st.integers(1, 4), st.integers(0, 3))
def test_pairs_of_objects_are_those_of_plain_loops(
    given_groups: tuple[list[list[int]], np.ndarray, np.ndarray, bool], seed: int, width: int, attempt: int
) -> None:
    rows, targets, S, by_class = given_groups
    draw = TwoObjects(ArraySource.of(S), Unlikeness(targets, by_class), width)
    nodes = list(range(len(rows)))
    keys = samples.keys_of(seed, [0] * len(rows), nodes)
    drawn = draw(samples.level(rows, [[1] * len(group) for group in rows]), keys, attempt)
    assert drawn.n_nodes == len(rows)
    assert drawn.weights.tolist() == [1.0, -1.0] * (len(drawn.columns) // 2)
    found = [tuple(drawn.columns[first:last].tolist()) or None for first, last in pairwise(drawn.offset)]
    rules = Rules("labels" if by_class else "targets", n_pairs=width)
    sample = Sample(S, targets, np.ones(len(S), int), rules)
    streams = [naive.stream(seed, 0, node) for node in nodes]
    expected = [drawn_candidate(sample, rows[node], streams[node], attempt, k) for node in nodes for k in range(width)]
    assert found == [candidate and candidate.columns for candidate in expected]


@given(SEEDS)
def test_a_node_of_one_class_has_no_pairs_and_empty_candidates(seed: int) -> None:
    frontier = samples.level([[0, 1, 2], [0, 3]], [[1, 1, 1], [2, 1]])
    draw = TwoObjects(ArraySource.of(np.eye(4)), Unlikeness(np.array([1.0, 1.0, 1.0, 0.0]), True), 2)
    drawn = draw(frontier, samples.keys_of(seed, [0, 0], [1, 2]), 0)
    assert drawn.offset[:3].tolist() == [0, 0, 0]
    assert {tuple(pair) for pair in drawn.columns.reshape(-1, 2).tolist()} <= {(0, 3), (3, 0)}


def pair_counts(targets: list[float], S: np.ndarray, by_class: bool) -> Counter[tuple[int, int]]:
    """How often each (j, i) is drawn at a node with all rows; the multiplicities must not matter."""
    n = len(targets)
    frontier = samples.level([list(range(n))] * MANY, [[1 + row for row in range(n)]] * MANY)
    draw = TwoObjects(ArraySource.of(S), Unlikeness(np.array(targets), by_class), 1)
    drawn = draw(frontier, samples.keys_of(5, [0] * MANY, list(range(MANY))), 0)
    return Counter((j, i) for j, i in drawn.columns.reshape(-1, 2).tolist())


def test_the_first_object_is_uniform_and_the_second_uniform_over_other_classes() -> None:
    found = pair_counts([0.0, 0.0, 1.0, 2.0], np.eye(4), True)
    law = {
        (j, i): 1 / 4 / others
        for i, others, row in ((0, 2, (2, 3)), (1, 2, (2, 3)), (2, 3, (0, 1, 3)), (3, 3, (0, 1, 2)))
        for j in row
    }
    assert set(found) == set(law)
    pairs = sorted(law)
    assert samples.chi_square(np.array([found[p] for p in pairs]), np.array([law[p] * MANY for p in pairs])) < 5


def test_the_second_object_is_drawn_in_proportion_to_the_difference_of_targets() -> None:
    targets = [0.0, 1.0, 4.0]
    found = pair_counts(targets, np.eye(3), False)
    law = {
        (j, i): abs(targets[j] - y) / sum(abs(other - y) for other in targets) / 3
        for i, y in enumerate(targets)
        for j in range(3)
        if j != i
    }
    assert set(found) == set(law)
    pairs = sorted(law)
    assert samples.chi_square(np.array([found[p] for p in pairs]), np.array([law[p] * MANY for p in pairs])) < 5


@settings(max_examples=30)
@given(SEEDS)
def test_an_unusable_pair_is_drawn_again(seed: int) -> None:
    # Only the pair (0, 3) is observed; 4 tries of 32 candidates miss it with probability 0.75^128.
    S = np.full((4, 4), np.nan)
    np.fill_diagonal(S, 1.0)
    S[0, 3] = S[3, 0] = 0.5
    draw = TwoObjects(ArraySource.of(S), Unlikeness(np.array([0.0, 0.0, 1.0, 1.0]), True), 32)
    drawn = draw(samples.level([[0, 1, 2, 3]], [[1] * 4]), samples.keys_of(seed, [0], [0]), 0)
    assert len(drawn.columns) >= 2
    assert {frozenset(pair) for pair in drawn.columns.reshape(-1, 2).tolist()} == {frozenset({0, 3})}


@given(groups(), SEEDS)
def test_pairs_of_a_node_depend_on_its_key_alone(
    given_groups: tuple[list[list[int]], np.ndarray, np.ndarray, bool], seed: int
) -> None:
    rows, targets, S, by_class = given_groups
    draw = TwoObjects(ArraySource.of(S), Unlikeness(targets, by_class), 2)
    keys = samples.keys_of(seed, list(range(len(rows))), [7] * len(rows))
    together = draw(samples.level(rows, [[1] * len(group) for group in rows]), keys, 1)
    alone = [draw(samples.level([rows[f]], [[1] * len(rows[f])]), keys[f : f + 1], 1) for f in range(len(rows))]
    assert together.columns.tolist() == [c for own in alone for c in own.columns]
    assert np.diff(together.offset).tolist() == [d for own in alone for d in np.diff(own.offset)]
