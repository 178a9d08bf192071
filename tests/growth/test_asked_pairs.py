"""Which pairs are asked for: every pair as likely as it should be."""

from __future__ import annotations

import math
from collections import Counter
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distforest.growth.asked_pairs import (
    ANYWHERE_NODE,
    FIRST_FOREST_NODE,
    NEAR_NODE,
    SELF_NODE,
    first_forest_seed,
    least_leaf,
    near_pairs,
    pairs_anywhere,
    rows_for_selves,
)
from tests.reference import naive
from tests.tries import tries

pytestmark = pytest.mark.kernels


def expected_pairs(leaves: list[list[int]], node: int, known: set[int], count: int, seed: int) -> list[int]:
    """The unknown pairs with the least numbers, one by one."""
    n, least = len(leaves[0]), dict[int, float]()
    for tree, own in enumerate(leaves):
        state = naive.stream(seed, tree, node)
        for i, j in combinations(range(n), 2):
            if own[i] == own[j] >= 0 and i * n + j not in known:
                number = naive.unit(state, i * n + j)
                least[i * n + j] = min(least.get(i * n + j, 1.0), number)
    return sorted(sorted(least, key=lambda code: (least[code], code))[:count])


LEAVES = st.integers(2, 9).flatmap(
    lambda n: st.lists(st.lists(st.integers(-1, 3), min_size=n, max_size=n), min_size=1, max_size=4)
)


@settings(max_examples=tries(60))
@given(LEAVES, st.integers(0, 40), st.integers(0, 9), st.data())
def test_the_pairs_with_the_least_numbers_are_drawn(
    leaves: list[list[int]], count: int, seed: int, data: st.DataObject
) -> None:
    n = len(leaves[0])
    codes = [i * n + j for i, j in combinations(range(n), 2)]
    known = data.draw(st.sets(st.sampled_from(codes)))
    found = near_pairs(np.array(leaves, np.int32), np.array(sorted(known), np.int64), count, seed)
    assert found.tolist() == expected_pairs(leaves, NEAR_NODE, known, count, seed)


@settings(max_examples=tries(40))
@given(st.lists(st.booleans(), min_size=2, max_size=9), st.integers(0, 40), st.integers(0, 9))
def test_absent_rows_are_in_no_pair(present: list[bool], count: int, seed: int) -> None:
    found = pairs_anywhere(len(present), np.array(present), count, seed)
    one_leaf = [[0 if there else -1 for there in present]]
    assert found.tolist() == expected_pairs(one_leaf, ANYWHERE_NODE, set(), count, seed)


def test_a_larger_draw_holds_a_smaller_one() -> None:
    there = np.ones(30, np.bool_)
    few, more = (set(pairs_anywhere(30, there, count, 3).tolist()) for count in (50, 200))
    assert len(few) == 50
    assert few < more


def test_pairs_are_drawn_with_the_number_of_common_leaves_as_weights() -> None:
    leaves = np.array(
        [[0, 0, 1, 1], [0, 0, 1, 2], [0, 0, 1, 2]], np.int32
    )  # rows 0 and 1 share three leaves, 2 and 3 one
    first = Counter(near_pairs(leaves, np.empty(0, np.int64), 1, seed)[0] for seed in range(2000))
    assert set(first) == {1, 11}
    assert abs(first[1] / 2000 - 3 / 4) < 4 * math.sqrt(3 / 16 / 2000)


@pytest.mark.parametrize("seed", [0, 1, 2, 3, 2**63 - 1])
def test_every_seed_has_numbers_of_its_own(seed: int) -> None:
    assert first_forest_seed(seed) == naive.number(naive.stream(seed, 0, FIRST_FOREST_NODE), 0) >> 1
    state = naive.stream(seed, 0, SELF_NODE)
    expected = sorted(sorted(range(5, 30), key=lambda row: naive.number(state, row))[:8])
    assert rows_for_selves(np.arange(5, 30), 8, seed).tolist() == expected


def test_the_leaves_of_the_first_forest_grow_where_fewer_pairs_are_known() -> None:
    assert [least_leaf(1000, n) for n in (100, 5_000, 25_000, 400_000)] == [125, 50, 10, 5]
    assert least_leaf(4, 3) == 1
