"""The draws: axis against naive.py, oblique by its rules, pairs of objects by their law."""

from __future__ import annotations

import math
from collections import Counter
from itertools import pairwise

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distforest.growth.draws import Axis, Oblique, TwoObjects
from distforest.sources.arrays import ArraySource
from tests import naive, samples

pytestmark = pytest.mark.kernels

SEEDS = st.integers(0, 2**63 - 1)
MANY = 400 if numba.config.DISABLE_JIT else 4000


def one_row_each(n_nodes: int) -> samples.Frontier:
    return samples.level([[0]] * n_nodes, [[1]] * n_nodes)


def chi_square(found: np.ndarray, expected: np.ndarray) -> float:
    """How many standard deviations a chi-square statistic lies above its mean."""
    statistic = float(((found - expected) ** 2 / expected).sum())
    freedom = len(found) - 1
    return (statistic - freedom) / math.sqrt(2 * freedom)


@given(SEEDS, st.integers(1, 9), st.integers(1, 9), st.integers(1, 4))
def test_axis_walks_the_reference_permutation(seed: int, n_columns: int, width: int, n_nodes: int) -> None:
    draw = Axis(n_columns, min(width, n_columns))
    tree, node = list(range(5, 5 + n_nodes)), list(range(n_nodes))
    keys = samples.keys_of(seed, tree, node)
    found: list[list[int]] = [[] for _ in range(n_nodes)]
    for attempt in range(draw.attempts):
        drawn = draw(one_row_each(n_nodes), keys, attempt)
        assert drawn.n_nodes == n_nodes
        assert drawn.weights.tolist() == [1.0] * len(drawn.columns)
        assert np.diff(drawn.offset).tolist() == [1] * (n_nodes * drawn.width)
        for own, columns in zip(found, drawn.columns.reshape(n_nodes, -1).tolist(), strict=True):
            own.extend(columns)
    expected = [naive.axis_permutation(seed, t, v, n_columns) for t, v in zip(tree, node, strict=True)]
    assert found == expected


@given(SEEDS, st.integers(1, 7), st.integers(1, 9), st.floats(1.0, 6.0), st.integers(1, 3), st.integers(0, 2))
def test_oblique_candidates_keep_their_rules(
    seed: int, n_columns: int, width: int, combinations: float, n_nodes: int, attempt: int
) -> None:
    draw = Oblique(n_columns, width, combinations)
    keys = samples.keys_of(seed, [3] * n_nodes, list(range(n_nodes)))
    drawn = draw(one_row_each(n_nodes), keys, attempt)
    sizes = np.diff(drawn.offset).reshape(n_nodes, width)
    assert drawn.offset[-1] == len(drawn.columns) == len(drawn.weights)
    assert set(np.abs(drawn.weights).tolist()) == {1.0}
    assert ((drawn.columns >= 0) & (drawn.columns < n_columns)).all()
    assert ((sizes >= 1) & (sizes <= n_columns)).all()
    total = width + round(width * (combinations - 1.0))
    assert (sizes.sum(axis=1) <= total).all()
    whole = (sizes < n_columns).all(axis=1)  # nothing was dropped there
    assert (sizes.sum(axis=1)[whole] == total).all()
    for first, last in zip(drawn.offset[:-1], drawn.offset[1:], strict=True):
        own = drawn.columns[first:last].tolist()
        assert len(set(own)) == len(own)


@given(SEEDS, st.integers(2, 6))
def test_oblique_draws_of_a_node_depend_on_its_key_and_attempt_alone(seed: int, n_nodes: int) -> None:
    draw = Oblique(6, 4, 2.0)
    keys = samples.keys_of(seed, list(range(n_nodes)), [2] * n_nodes)
    together = draw(one_row_each(n_nodes), keys, 1)
    alone = [draw(one_row_each(1), keys[f : f + 1], 1) for f in range(n_nodes)]
    assert together.columns.tolist() == [c for own in alone for c in own.columns]
    assert together.weights.tolist() == [w for own in alone for w in own.weights]
    again = draw(one_row_each(n_nodes), keys, 2)
    assert (again.columns.tolist(), again.weights.tolist()) != (together.columns.tolist(), together.weights.tolist())


def test_oblique_columns_signs_and_sizes_follow_their_law() -> None:
    draw = Oblique(5, 4, 1.5)
    drawn = draw(one_row_each(MANY), samples.keys_of(1, [0] * MANY, list(range(MANY))), 0)
    columns = np.bincount(drawn.columns, minlength=5)
    assert chi_square(columns, np.full(5, columns.sum() / 5)) < 5
    signs = np.bincount((drawn.weights > 0).astype(int), minlength=2)
    assert chi_square(signs, np.full(2, signs.sum() / 2)) < 5
    # two further columns over four candidates: sizes 1 + Binomial(2, 1/4)
    sizes = np.bincount(np.diff(drawn.offset), minlength=4)[1:]
    assert chi_square(sizes, np.array([9, 6, 1]) / 16 * 4 * MANY) < 5


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
def test_pairs_of_objects_are_unlike_observed_and_apart(
    given_groups: tuple[list[list[int]], np.ndarray, np.ndarray, bool], seed: int, width: int, attempt: int
) -> None:
    rows, targets, S, by_class = given_groups
    frontier = samples.level(rows, [[1] * len(group) for group in rows])
    draw = TwoObjects(ArraySource.of(S), targets, by_class, width)
    drawn = draw(frontier, samples.keys_of(seed, [0] * len(rows), list(range(len(rows)))), attempt)
    assert drawn.n_nodes == len(rows)
    for number, (first, last) in enumerate(zip(drawn.offset[:-1], drawn.offset[1:], strict=True)):
        if first == last:
            continue
        j, i = drawn.columns[first:last].tolist()
        group = rows[number // width]
        assert drawn.weights[first:last].tolist() == [1.0, -1.0]
        assert i in group
        assert j in group
        assert targets[i] != targets[j]
        assert float(S[i, i]) + float(S[j, j]) - 2 * float(S[i, j]) > 0  # so they are observed as well


def pairs_by_loops(draw: TwoObjects, group: list[int], key: int, attempt: int) -> list[tuple[int, int] | None]:
    """Each candidate's (j, i), in plain loops: numbers 2 k and 2 k + 1 of a trial choose i and j of candidate k."""
    found: list[tuple[int, int] | None] = [None] * draw.width
    for trial in range(draw.tries):
        first = (attempt * draw.tries + trial) * 2 * draw.width
        for k in range(draw.width):
            i = group[naive.below(key, first + 2 * k, len(group))]
            apart = [abs(draw.targets[row] - draw.targets[i]) for row in group]
            parts = [float(part > 0) if draw.by_class else float(part) for part in apart]
            goal, reached, j = naive.unit(key, first + 2 * k + 1) * sum(parts), 0.0, None
            for row, part in zip(group, parts, strict=True):
                reached += part
                if part > 0:
                    j = row
                    if reached > goal:
                        break
            if found[k] is None and j is not None:
                s_ii, s_jj, s_ij = (
                    float(draw.source.block(np.array([a]), np.array([b]))[0, 0]) for a, b in ((i, i), (j, j), (i, j))
                )
                found[k] = (j, i) if s_ii + s_jj - 2 * s_ij > 0 else None
    return found


@given(groups(), SEEDS, st.integers(1, 3), st.integers(0, 2))
def test_pairs_of_objects_are_those_of_plain_loops(
    given_groups: tuple[list[list[int]], np.ndarray, np.ndarray, bool], seed: int, width: int, attempt: int
) -> None:
    rows, targets, S, by_class = given_groups
    draw = TwoObjects(ArraySource.of(S), targets, by_class, width)
    nodes = list(range(len(rows)))
    keys = samples.keys_of(seed, [0] * len(rows), nodes)
    drawn = draw(samples.level(rows, [[1] * len(group) for group in rows]), keys, attempt)
    found = [tuple(drawn.columns[first:last].tolist()) or None for first, last in pairwise(drawn.offset)]
    expected = [pairs_by_loops(draw, rows[node], naive.stream(seed, 0, node), attempt) for node in nodes]
    assert found == [pair for own in expected for pair in own]


@given(SEEDS)
def test_a_node_of_one_class_has_no_pairs_and_empty_candidates(seed: int) -> None:
    frontier = samples.level([[0, 1, 2], [0, 3]], [[1, 1, 1], [2, 1]])
    draw = TwoObjects(ArraySource.of(np.eye(4)), np.array([1.0, 1.0, 1.0, 0.0]), True, 2)
    drawn = draw(frontier, samples.keys_of(seed, [0, 0], [1, 2]), 0)
    assert drawn.offset[:3].tolist() == [0, 0, 0]
    assert {tuple(pair) for pair in drawn.columns.reshape(-1, 2).tolist()} <= {(0, 3), (3, 0)}


def pair_counts(targets: list[float], S: np.ndarray, by_class: bool) -> Counter[tuple[int, int]]:
    """How often each (j, i) is drawn at a node with all rows; the multiplicities must not matter."""
    n = len(targets)
    frontier = samples.level([list(range(n))] * MANY, [[1 + row for row in range(n)]] * MANY)
    draw = TwoObjects(ArraySource.of(S), np.array(targets), by_class, 1, tries=1)
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
    assert chi_square(np.array([found[p] for p in pairs]), np.array([law[p] * MANY for p in pairs])) < 5


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
    assert chi_square(np.array([found[p] for p in pairs]), np.array([law[p] * MANY for p in pairs])) < 5


@settings(max_examples=30)
@given(SEEDS)
def test_an_unusable_pair_is_drawn_again(seed: int) -> None:
    # Only the pair (0, 3) is observed; 4 tries of 32 candidates miss it with probability 0.75^128.
    S = np.full((4, 4), np.nan)
    np.fill_diagonal(S, 1.0)
    S[0, 3] = S[3, 0] = 0.5
    draw = TwoObjects(ArraySource.of(S), np.array([0.0, 0.0, 1.0, 1.0]), True, 32)
    drawn = draw(samples.level([[0, 1, 2, 3]], [[1] * 4]), samples.keys_of(seed, [0], [0]), 0)
    assert len(drawn.columns) >= 2
    assert {frozenset(pair) for pair in drawn.columns.reshape(-1, 2).tolist()} == {frozenset({0, 3})}


@given(groups(), SEEDS)
def test_pairs_of_a_node_depend_on_its_key_alone(
    given_groups: tuple[list[list[int]], np.ndarray, np.ndarray, bool], seed: int
) -> None:
    rows, targets, S, by_class = given_groups
    draw = TwoObjects(ArraySource.of(S), targets, by_class, 2)
    keys = samples.keys_of(seed, list(range(len(rows))), [7] * len(rows))
    together = draw(samples.level(rows, [[1] * len(group) for group in rows]), keys, 1)
    alone = [draw(samples.level([rows[f]], [[1] * len(rows[f])]), keys[f : f + 1], 1) for f in range(len(rows))]
    assert together.columns.tolist() == [c for own in alone for c in own.columns]
    assert np.diff(together.offset).tolist() == [d for own in alone for d in np.diff(own.offset)]
