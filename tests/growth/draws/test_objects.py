"""Pairs of objects as draws: the pairs of plain loops, by their law; whole trees are compared in test_simforest.py."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distforest.growth.draws.object_pairs import Disagreement
from distforest.growth.draws.objects import TwoObjects
from distforest.growth.rng import ORDER_NODE
from distforest.sources.arrays import ArraySource
from distforest.sources.source import Projections
from tests import samples
from tests.reference import naive
from tests.reference.naive_simforest import Rules, Sample, drawn_candidate
from tests.tries import tries

pytestmark = pytest.mark.kernels

Groups = tuple[list[list[int]], np.ndarray, np.ndarray, bool]
Pair = tuple[int, int]
SEEDS = st.integers(0, 2**63 - 1)
RULES = pytest.mark.parametrize("pairing", ["fresh", "kept"])
MANY = 400 if numba.config.DISABLE_JIT else 4000


@st.composite
def groups(draw: st.DrawFn) -> Groups:
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


def draw_of(
    S: np.ndarray, y: np.ndarray, by_class: bool, width: int, pairing: str, seed: int, trees: Sequence[int] = (0,)
) -> TwoObjects:
    """The draw of some trees."""
    draw = TwoObjects(ArraySource.from_values(S), Disagreement(y, by_class), width, kept=pairing == "kept")
    return draw.of_trees(samples.keys_of(seed, trees, [ORDER_NODE] * len(trees)))


def pairs_of(drawn: Projections) -> list[Pair | None]:
    """The (j, i) of each candidate, None where it is empty."""
    return [tuple(drawn.columns[first:last].tolist()) or None for first, last in pairwise(drawn.offset)]


@RULES
@given(groups(), SEEDS, st.integers(1, 4), st.integers(0, 3), st.lists(st.integers(0, 1), min_size=3, max_size=3))
def test_pairs_of_objects_are_those_of_plain_loops(
    pairing: str, given_groups: Groups, seed: int, width: int, attempt: int, places: list[int]
) -> None:
    rows, targets, S, by_class = given_groups
    trees, nodes, place = [3, 8], list(range(len(rows))), sorted(places[: len(rows)])
    draw = draw_of(S, targets, by_class, width, pairing, seed, trees)
    keys = samples.keys_of(seed, [trees[own] for own in place], nodes)
    drawn = draw(samples.level(rows, [[1] * len(group) for group in rows], place), keys, attempt)
    assert drawn.n_nodes == len(rows)
    assert drawn.weights.tolist() == [1.0, -1.0] * (len(drawn.columns) // 2)
    rules = Rules("labels" if by_class else "targets", n_pairs=width, pairing=pairing)
    expected = []
    for node in nodes:
        tree = trees[place[node]]
        sample = Sample(S, targets, np.ones(len(S), int), rules, order=naive.stream(seed, tree, -2))
        key = naive.stream(seed, tree, node)
        expected += [drawn_candidate(sample, rows[node], key, attempt, k) for k in range(width)]
    assert pairs_of(drawn) == [candidate and candidate.columns for candidate in expected]


@RULES
@given(SEEDS)
def test_a_node_of_one_class_has_no_pairs_and_empty_candidates(pairing: str, seed: int) -> None:
    frontier = samples.level([[0, 1, 2], [0, 3]], [[1, 1, 1], [2, 1]], [0, 0])
    draw = draw_of(np.eye(4), np.array([1.0, 1.0, 1.0, 0.0]), True, 2, pairing, seed)
    drawn = draw(frontier, samples.keys_of(seed, [0, 0], [1, 2]), 0)
    assert drawn.offset[:3].tolist() == [0, 0, 0]
    assert {tuple(pair) for pair in drawn.columns.reshape(-1, 2).tolist()} <= {(0, 3), (3, 0)}


def pair_counts(targets: list[float], S: np.ndarray, by_class: bool, pairing: str) -> Counter[Pair]:
    """How often each (j, i) is drawn at the roots of many trees with all rows; the multiplicities must not matter."""
    n = len(targets)
    frontier = samples.level([list(range(n))] * MANY, [[1 + row for row in range(n)]] * MANY)
    draw = draw_of(S, np.array(targets), by_class, 1, pairing, 5, range(MANY))
    drawn = draw(frontier, samples.keys_of(5, range(MANY), [0] * MANY), 0)
    return Counter((j, i) for j, i in drawn.columns.reshape(-1, 2).tolist())


@RULES
def test_the_first_object_is_uniform_and_the_second_uniform_over_other_classes(pairing: str) -> None:
    found = pair_counts([0.0, 0.0, 1.0, 2.0], np.eye(4), True, pairing)
    law = {
        (j, i): 1 / 4 / others
        for i, others, row in ((0, 2, (2, 3)), (1, 2, (2, 3)), (2, 3, (0, 1, 3)), (3, 3, (0, 1, 2)))
        for j in row
    }
    assert set(found) == set(law)
    both = sorted(law)
    assert samples.chi_square(np.array([found[p] for p in both]), np.array([law[p] * MANY for p in both])) < 5


@RULES
def test_the_second_object_is_drawn_in_proportion_to_the_difference_of_targets(pairing: str) -> None:
    targets = [0.0, 1.0, 4.0]
    found = pair_counts(targets, np.eye(3), False, pairing)
    law = {
        (j, i): abs(targets[j] - y) / sum(abs(other - y) for other in targets) / 3
        for i, y in enumerate(targets)
        for j in range(3)
        if j != i
    }
    assert set(found) == set(law)
    both = sorted(law)
    assert samples.chi_square(np.array([found[p] for p in both]), np.array([law[p] * MANY for p in both])) < 5


@RULES
@settings(max_examples=tries(30))
@given(SEEDS)
def test_an_unusable_pair_is_drawn_again(pairing: str, seed: int) -> None:
    # Only the pair (0, 3) is observed; 4 tries of 32 candidates miss it with probability 0.75^128.
    S = np.full((4, 4), np.nan)
    np.fill_diagonal(S, 1.0)
    S[0, 3] = S[3, 0] = 0.5
    draw = draw_of(S, np.array([0.0, 0.0, 1.0, 1.0]), True, 32, pairing, seed)
    drawn = draw(samples.level([[0, 1, 2, 3]], [[1] * 4]), samples.keys_of(seed, [0], [0]), 0)
    assert len(drawn.columns) >= 2
    assert {frozenset(pair) for pair in drawn.columns.reshape(-1, 2).tolist()} == {frozenset({0, 3})}


@given(groups(), SEEDS)
def test_fresh_pairs_of_a_node_depend_on_its_key_alone(given_groups: Groups, seed: int) -> None:
    rows, targets, S, by_class = given_groups
    draw = TwoObjects(ArraySource.from_values(S), Disagreement(targets, by_class), 2)
    keys = samples.keys_of(seed, list(range(len(rows))), [7] * len(rows))
    frontier = samples.level(rows, [[1] * len(group) for group in rows])
    together = draw(frontier, keys, 1)
    alone = [draw(samples.level([rows[f]], [[1] * len(rows[f])]), keys[f : f + 1], 1) for f in range(len(rows))]
    assert together.columns.tolist() == [c for own in alone for c in own.columns]
    assert np.diff(together.offset).tolist() == [d for own in alone for d in np.diff(own.offset)]
    of_trees = draw.of_trees(samples.keys_of(seed, range(3), [ORDER_NODE] * 3))(frontier, keys, 1)
    assert pairs_of(of_trees) == pairs_of(together)


@given(groups(), SEEDS, SEEDS)
def test_kept_pairs_of_a_node_depend_on_the_key_of_its_tree_alone(given_groups: Groups, seed: int, other: int) -> None:
    rows, targets, S, by_class = given_groups
    places = range(len(rows))
    draw = TwoObjects(ArraySource.from_values(S), Disagreement(targets, by_class), 2, kept=True)
    orders = samples.keys_of(seed, places, [ORDER_NODE] * len(rows))
    frontier = samples.level(rows, [[1] * len(group) for group in rows])
    keys = [samples.keys_of(own, places, [node] * len(rows)) for own, node in ((seed, 0), (other, 7))]
    together, again = (pairs_of(draw.of_trees(orders)(frontier, own, 1)) for own in keys)
    assert together == again
    alone = []
    for f in places:
        node = samples.level([rows[f]], [[1] * len(rows[f])])
        alone += pairs_of(draw.of_trees(orders[f : f + 1])(node, keys[1][:1], 1))
    assert together == alone


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2)), min_size=2, max_size=14),
    *(st.booleans(), SEEDS, st.integers(0, 3)),
)
def test_what_lies_below_a_node_keeps_objects_of_its_kept_pair(
    objects: list[tuple[int, int]], by_class: bool, seed: int, attempt: int
) -> None:
    """All pairs are usable. i is the first wherever it lies, and with i the same j comes first of those unlike it.

    Without i and of labels, of any number of classes: all that come before j are of the class of i, so that j is either
    the first itself or the first unlike it. Of targets the first may be nearer to others than to j.
    """
    y, width = np.array([own for own, _ in objects], float), 3
    parts = [[row for row, (_, part) in enumerate(objects) if part in kept] for kept in ({0}, {1}, {2}, {0, 1}, {0, 2})]
    rows = [list(range(len(y))), *(part for part in parts if part)]
    draw = draw_of(np.eye(len(y)), y, by_class, width, "kept", seed)
    frontier = samples.level(rows, [[1] * len(group) for group in rows], [0] * len(rows))
    found = pairs_of(draw(frontier, samples.keys_of(seed, [0] * len(rows), range(len(rows))), attempt))
    for node, group in enumerate(rows):
        own = found[node * width : (node + 1) * width]
        assert [pair is None for pair in own] == [len(set(y[group])) == 1] * width
        for pair, whole in zip(own, found[:width], strict=True):
            if pair is None or whole is None:
                continue
            j, i = whole
            if i in group:
                assert pair[1] == i
                assert j not in group or pair == whole
            elif by_class and j in group:
                assert j in pair
