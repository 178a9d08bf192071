"""Exemplars as draws: those of plain loops, by their law; whole trees are compared in test_chains.py."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise, product
from typing import NamedTuple

import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from distforest.growth.draws.landmarks import ANY_OBJECT, Landmarks
from distforest.growth.draws.object_pairs import ONE_MEASURE, Measures
from distforest.growth.draws.objects import MOST_EXEMPLARS, Exemplars
from distforest.growth.rng import ORDER_NODE
from distforest.sources.source import Projections
from tests import samples
from tests.reference import naive
from tests.reference.naive_exemplars import MOST, candidate_columns
from tests.reference.naive_simforest import Rules, Sample

pytestmark = pytest.mark.kernels

SEEDS = st.integers(0, 2**63 - 1)
PAIRINGS = pytest.mark.parametrize("pairing", ["fresh", "kept"])
MANY = 400 if numba.config.DISABLE_JIT else 4000


class Level(NamedTuple):
    """Rows of some nodes, the place of each node's tree, classes, landmarks, and shares of measures."""

    rows: list[list[int]]
    place: list[int]
    y: np.ndarray
    marks: tuple[int, ...]
    shares: tuple[float, ...]

    def draw(self, width: int, pairing: str, orders: np.ndarray) -> Exemplars:
        """The product's."""
        n = len(self.y)
        marks = Landmarks.from_rows(np.array(self.marks, np.int32), n) if self.marks else ANY_OBJECT
        shares = np.array(self.shares)
        measures = Measures.from_weights(n, shares, np.zeros(len(shares), np.bool_)) if self.shares else ONE_MEASURE
        n_classes = int(self.y.max()) + 1
        draw = Exemplars(self.y, n_classes, width, landmarks=marks, kept=pairing == "kept", measures=measures)
        return draw.of_trees(orders)


@st.composite
def levels(draw: st.DrawFn) -> Level:
    n = draw(st.integers(1, 12))
    n_classes = draw(st.integers(1, 5))
    rows = draw(st.lists(st.lists(st.integers(0, n - 1), min_size=1, unique=True), min_size=1, max_size=4))
    place = sorted(draw(st.lists(st.integers(0, 1), min_size=len(rows), max_size=len(rows))))
    y = np.array(draw(st.lists(st.integers(0, n_classes - 1), min_size=n, max_size=n)), float)
    marks: set[int] = set()
    if draw(st.booleans()):  # at least one of each class, as a forest has them
        marks = {int(np.flatnonzero(y == c)[-1]) for c in set(y.tolist())} | draw(st.sets(st.integers(0, n - 1)))
    shares = draw(st.sampled_from([(), (1.0, 3.0), (0.0, 1.0, 1.0)]))
    return Level(rows, place, y, tuple(sorted(marks)), shares)


def candidates_of(drawn: Projections) -> list[tuple[int, ...]]:
    """The columns of each candidate."""
    return [tuple(drawn.columns[first:last].tolist()) for first, last in pairwise(drawn.offset)]


def ones(rows: Sequence[Sequence[int]]) -> list[list[int]]:
    return [[1] * len(group) for group in rows]


def drawn_by(level: Level, width: int, pairing: str, seed: int, attempt: int) -> list[tuple[int, ...]]:
    """What the product draws at nodes 0, 1, ... of trees 3 and 8."""
    trees = [3, 8]
    draw = level.draw(width, pairing, samples.keys_of(seed, trees, [ORDER_NODE] * 2))
    keys = samples.keys_of(seed, [trees[own] for own in level.place], range(len(level.rows)))
    drawn = draw(samples.level(level.rows, ones(level.rows), level.place), keys, attempt)
    assert drawn.n_nodes == len(level.rows)
    return candidates_of(drawn)


def expected_by(level: Level, width: int, pairing: str, seed: int, attempt: int) -> list[tuple[int, ...]]:
    """The same by plain loops."""
    shares = tuple((share, "similarity") for share in level.shares)
    rules = Rules(n_pairs=width, pairing=pairing, landmarks=level.marks, measures=shares)
    found = []
    for node, (rows, place) in enumerate(zip(level.rows, level.place, strict=True)):
        tree = [3, 8][place]
        sample = Sample([], level.y, np.ones(len(level.y), int), rules, order=naive.stream(seed, tree, -2))
        found += [candidate_columns(sample, rows, naive.stream(seed, tree, node), attempt, k) for k in range(width)]
    return found


@pytest.mark.slow
@PAIRINGS
@given(levels(), SEEDS, st.integers(1, 4), st.integers(0, 3))
def test_exemplars_are_those_of_plain_loops(pairing: str, level: Level, seed: int, width: int, attempt: int) -> None:
    assert drawn_by(level, width, pairing, seed, attempt) == expected_by(level, width, pairing, seed, attempt)


@pytest.mark.slow
@PAIRINGS
@given(SEEDS, st.integers(MOST - 2, 2 * MOST), st.booleans())
def test_of_many_classes_those_that_come_first_have_an_exemplar(
    pairing: str, seed: int, n_classes: int, some: bool
) -> None:
    assert MOST_EXEMPLARS == MOST
    y = np.concatenate([np.arange(n_classes), np.arange(n_classes)[::-1]]).astype(float)
    marks = tuple(range(n_classes)) if some else ()
    rows = [list(range(2 * n_classes)), list(range(3, 2 * n_classes, 2))]
    level = Level(rows, [0, 1], y, marks, ())
    found = drawn_by(level, 2, pairing, seed, 1)
    assert found == expected_by(level, 2, pairing, seed, 1)
    assert [len(own) for own in found] == [min(MOST, len(set(y[group]))) for group in rows for _ in range(2)]


@PAIRINGS
@given(levels(), SEEDS)
def test_a_candidate_has_one_object_of_each_class_of_its_node(pairing: str, level: Level, seed: int) -> None:
    width, n = 3, len(level.y)
    for candidate, own in enumerate(drawn_by(level, width, pairing, seed, 0)):
        rows, objects = level.rows[candidate // width], [column % n for column in own]
        classes = {level.y[row] for row in rows}
        assert len({column // n for column in own}) <= 1  # one measure
        if len(classes) > 1:
            assert sorted(level.y[row] for row in objects) == sorted(classes)
        if not level.marks:
            assert set(objects) <= set(rows)
        else:
            assert set(objects) <= set(level.marks)


@PAIRINGS
def test_each_object_of_a_class_is_as_likely(pairing: str) -> None:
    """Multiplicities do not matter. The first of all objects is uniform, and so are those of other classes after it."""
    y = np.array([0.0, 0.0, 0.0, 1.0, 1.0, 2.0])
    n, trees = len(y), range(MANY)
    draw = Exemplars(y, 3, 1, kept=pairing == "kept").of_trees(samples.keys_of(5, trees, [ORDER_NODE] * MANY))
    frontier = samples.level([list(range(n))] * MANY, [[1 + row for row in range(n)]] * MANY)
    found = Counter(candidates_of(draw(frontier, samples.keys_of(5, trees, [0] * MANY), 0)))
    law: Counter[tuple[int, ...]] = Counter()
    for own in product([0, 1, 2], [3, 4], [5]):
        for order in ((own[a], own[b], own[3 - a - b]) for a in range(3) for b in range(3) if a != b):
            left, probability = n, 1.0
            for row in order:  # the first of those left is uniform; with it all of its class are gone
                probability /= left
                left -= int((y == y[row]).sum())
            law[order] = probability
    assert sum(law.values()) == pytest.approx(1.0)
    assert set(found) == set(law)
    orders = sorted(law)
    assert samples.chi_square(np.array([found[o] for o in orders]), np.array([law[o] * MANY for o in orders])) < 5


@given(levels(), SEEDS)
def test_fresh_exemplars_of_a_node_depend_on_its_key_alone(level: Level, seed: int) -> None:
    places = range(len(level.rows))
    keys = samples.keys_of(seed, list(places), [7] * len(places))
    orders = samples.keys_of(seed, [0, 1], [ORDER_NODE] * 2)
    draw = level.draw(2, "fresh", orders)
    together = candidates_of(draw(samples.level(level.rows, ones(level.rows), level.place), keys, 1))
    alone = []
    for f in places:
        node = samples.level([level.rows[f]], [[5] * len(level.rows[f])])
        alone += candidates_of(level.draw(2, "fresh", orders[1:])(node, keys[f : f + 1], 1))
    assert together == alone


@given(levels(), SEEDS, SEEDS)
def test_kept_exemplars_of_a_node_depend_on_the_key_of_its_tree_alone(level: Level, seed: int, other: int) -> None:
    places = range(len(level.rows))
    orders = samples.keys_of(seed, [0, 1], [ORDER_NODE] * 2)
    frontier = samples.level(level.rows, ones(level.rows), level.place)
    draw = level.draw(2, "kept", orders)
    keys = [samples.keys_of(own, places, [node] * len(places)) for own, node in ((seed, 0), (other, 7))]
    together, again = (candidates_of(draw(frontier, own, 1)) for own in keys)
    assert together == again
    alone = []
    for f in places:
        own = level.draw(2, "kept", orders[level.place[f] : level.place[f] + 1])
        alone += candidates_of(own(samples.level([level.rows[f]], [[5] * len(level.rows[f])]), keys[1][:1], 1))
    assert together == alone


@PAIRINGS
@given(levels(), SEEDS, st.data())
def test_the_order_of_rows_in_a_node_does_not_matter(
    pairing: str, level: Level, seed: int, data: st.DataObject
) -> None:
    shuffled = [data.draw(st.permutations(group)) for group in level.rows]
    assert drawn_by(level, 2, pairing, seed, 0) == drawn_by(level._replace(rows=shuffled), 2, pairing, seed, 0)


@given(levels(), SEEDS, st.integers(0, 3), st.sets(st.integers(0, 11)))
def test_a_kept_exemplar_is_drawn_again_in_the_child_that_holds_it(
    level: Level, seed: int, attempt: int, inside: set[int]
) -> None:
    """By the same measure too, and in the same order; without landmarks, which need not be in their node."""
    whole = list(range(len(level.y)))
    parts = [[row for row in whole if (row in inside) is side] for side in (True, False)]
    rows = [whole, *(part for part in parts if part)]
    level = level._replace(rows=rows, place=[0] * len(rows), marks=())
    found = drawn_by(level, 3, "kept", seed, attempt)
    for node, group in enumerate(rows):
        if len({level.y[row] for row in group}) == 1:
            continue
        for own, above in zip(found[3 * node : 3 * node + 3], found[:3], strict=True):
            again = [column for column in above if column % len(whole) in group]
            assert [column for column in own if column in above] == again


@PAIRINGS
@given(levels(), SEEDS)
def test_candidates_and_attempts_have_orders_of_their_own(pairing: str, level: Level, seed: int) -> None:
    """Candidate k of attempt a is candidate a width + k of one attempt."""
    wide = drawn_by(level, 6, pairing, seed, 0)
    for attempt in range(3):
        narrow = drawn_by(level, 2, pairing, seed, attempt)
        for node in range(len(level.rows)):
            assert narrow[2 * node : 2 * node + 2] == wide[6 * node + 2 * attempt : 6 * node + 2 * attempt + 2]


@PAIRINGS
def test_measures_are_drawn_by_their_shares(pairing: str) -> None:
    y = np.array([0.0, 1.0])
    draw = Exemplars(y, 2, 1, kept=pairing == "kept")
    draw = replace(draw, measures=Measures.from_weights(2, np.array([1.0, 0.0, 3.0]), np.zeros(3, np.bool_)))
    draw = draw.of_trees(samples.keys_of(3, range(MANY), [ORDER_NODE] * MANY))
    found = draw(samples.level([[0, 1]] * MANY, [[1, 1]] * MANY), samples.keys_of(3, range(MANY), [0] * MANY), 0)
    measures = Counter(own[0] // 2 for own in candidates_of(found))
    assert set(measures) == {0, 2}
    assert samples.chi_square(np.array([measures[0], measures[2]]), np.array([0.25, 0.75]) * MANY) < 5
