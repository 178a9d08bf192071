"""Lists of categories: which side a category goes to, and which lists are refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distforest.errors import ArtifactError
from distforest.forest.category_sets import CategorySets, listed_of, side_of_category
from distforest.forest.frontier import LEFT, RIGHT
from distforest.forest.node_table import NodeTable, route
from distforest.sources.arrays import ArraySource
from tests import samples
from tests.messages import naming
from tests.tries import tries

LISTS = st.lists(st.lists(st.integers(0, 65_535), unique=True).map(sorted), min_size=1, max_size=4)
VALUES = [0.0, 1.0, 2.0, 3.0, 4.0, 7.0, 65_535.0, 1e30, -1.0, 1.5, np.nan]


@pytest.mark.slow
@pytest.mark.kernels
@given(LISTS, st.data())
def test_a_listed_category_goes_to_the_other_side_than_all_others(lists: list[list[int]], data: st.DataObject) -> None:
    node = data.draw(st.integers(0, len(lists) - 1))
    others_right = data.draw(st.booleans())
    value = data.draw(st.sampled_from([*map(float, lists[node]), *VALUES]))
    starts = np.cumsum([0, *map(len, lists)]).astype(np.int64)
    codes = np.array([code for own in lists for code in own], np.uint16)
    sets = CategorySets(starts, codes, np.full(len(lists), others_right))
    goes_right = others_right != (value in lists[node])
    assert side_of_category(node, value, sets) == (RIGHT if goes_right else LEFT)


def test_a_node_lists_the_categories_that_go_where_others_do_not() -> None:
    frontier = samples.level([[0, 1, 2, 3], [4, 5], [6, 7]], [[1] * 4, [1, 1], [1, 1]])
    values = np.array([65_535.0, 2.0, 2.0, np.nan, 1.0, 0.0, 0.5, 3.0])
    side = np.array([LEFT, RIGHT, RIGHT, LEFT, LEFT, RIGHT, LEFT, RIGHT], np.int8)
    which, others = np.array([True, True, False]), np.array([True, False, False])
    listed = listed_of(frontier, values, side, which, others)
    assert (listed.size.tolist(), listed.codes.tolist()) == ([1, 1, 0], [65_535, 0])
    assert listed.threshold.tolist() == [1.0, 0.0, 0.0]


# --- a table by hand --------------------------------------------------------------------------------------


def table() -> NodeTable:
    """The root cuts categories 1 and 3 of column 0 from all others, which go right; its right child cuts column 1."""
    return NodeTable(
        tree_size=np.array([5]),
        left=np.array([1, -1, 3, -1, -1], np.int32),
        right=np.array([2, -1, 4, -1, -1], np.int32),
        threshold=np.array([1.0, 0.0, 0.5, 0.0, 0.0]),
        width=np.array([1, 0, 1, 0, 0], np.int32),
        columns=np.array([0, 1], np.int32),
        weights=np.ones(2),
        gain=np.zeros(5),
        n_rows=np.array([9, 4, 5, 2, 3]),
        missing_right=np.array([True, False, False, False, False]),
        category_size=np.array([2, 0, 0, 0, 0], np.int32),
        category_codes=np.array([1, 3], np.uint16),
    )


ROWS = np.array([[1, 0], [3, 9], [0, 0], [2, 9], [np.nan, 9], [4, np.nan], [70_000, 0]], np.float32)
ENDS = [1, 1, 3, 4, 4, 3, 3]


class ByLevels:
    """A source of which no twin knows, so that its rows are routed level by level."""

    def __init__(self, values: np.ndarray) -> None:
        self.own = ArraySource.from_values(values)
        self.shape, self.entries, self.block, self.project = (
            self.own.shape,
            self.own.entries,
            self.own.block,
            self.own.project,
        )


@pytest.mark.parametrize("kind", [ArraySource.from_values, ByLevels])
def test_rows_walk_down_by_categories_and_numbers(kind: Callable[..., Any]) -> None:
    table().check(2, (5, 0))
    assert route(table(), kind(ROWS), np.arange(7, dtype=np.int32)).tolist() == [ENDS]


@pytest.mark.kernels
@settings(max_examples=tries(60))
@given(st.integers(0, 9999), st.sampled_from([3, 32, 33, 70, 2000]), st.integers(1, 12))
def test_rows_that_lack_nothing_walk_side_by_side_as_by_levels(seed: int, n_categories: int, n_cuts: int) -> None:
    """By masks and by lists; column 0 holds categories, also some that no node lists, and column 1 numbers."""
    rng = np.random.default_rng(seed)
    plain = samples.trees_of_any_shape([n_cuts, 0, n_cuts], [0.0, 1.0], seed)
    is_set = np.zeros(len(plain.left), np.bool_)
    is_set[~plain.is_leaf] = plain.columns == 0
    lists = [np.sort(rng.permutation(n_categories)[: rng.integers(1, 6)]) for _ in range(int(is_set.sum()))]
    size = np.zeros(len(is_set), np.int32)
    size[is_set] = [len(codes) for codes in lists]
    listing = replace(plain, category_size=size, category_codes=np.concatenate([*lists, np.empty(0)]).astype(np.uint16))
    listing.check(2, (n_categories, 0))
    X = np.column_stack([rng.integers(0, n_categories, 50), rng.choice([-1.0, 0.0, 0.5, 1.0, 1e30], 50)])
    values, rows = X.astype(np.float32), np.arange(50, dtype=np.int32)
    assert listing.steps is not None
    assert (listing.steps.sets is None) == (not lists)
    assert (
        route(listing, ArraySource.from_values(values), rows).tolist()
        == route(listing, ByLevels(values), rows).tolist()
    )


def of(**changes: Any) -> NodeTable:
    return replace(table(), **changes)


INTS, CODES = np.int32, np.uint16
DAMAGES: dict[str, tuple[tuple[object, ...], NodeTable]] = {
    "no sizes": (("category_size:",), of(category_size=None)),
    "no codes": (("category_codes:",), of(category_codes=None)),
    "no lists": (("category_size:",), of(category_size=None, category_codes=None)),
    "a size short": (("category_size:", "tree_size", 5, 4), of(category_size=np.array([2, 0, 0, 0], INTS))),
    "a negative size": (("category_size[1]:",), of(category_size=np.array([3, -1, 0, 0, 0], INTS))),
    "a code too many": (("category_codes:", "category_size", 2, 3), of(category_codes=np.array([1, 3, 4], CODES))),
    "codes in no order": (("category_codes[1]:",), of(category_codes=np.array([3, 1], CODES))),
    "a code twice": (("category_codes[1]:",), of(category_codes=np.array([3, 3], CODES))),
    "a code too large": (("category_codes[1]:",), of(category_codes=np.array([1, 5], CODES))),
    "a list of numbers": (("category_size[2]:",), of(category_size=np.array([1, 0, 1, 0, 0], INTS))),
    "a list of a leaf": (("category_size[1]:",), of(category_size=np.array([1, 1, 0, 0, 0], INTS))),
    "categories without a list": (
        ("category_size[0]:",),
        of(category_size=np.zeros(5, INTS), category_codes=np.zeros(0, CODES)),
    ),
    "a weight of categories": (("columns[0]:",), of(weights=np.array([-1.0, 1.0]))),
    "a sum with categories": (
        ("columns[0]:",),
        of(width=np.array([2, 0, 1, 0, 0], INTS), columns=np.array([0, 1, 1], INTS), weights=np.ones(3)),
    ),
    "no side of others": (("threshold[0]:",), of(threshold=np.array([0.5, 0.0, 0.5, 0.0, 0.0]))),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_list_is_refused_by_its_name(damage: str) -> None:
    named, broken = DAMAGES[damage]
    with pytest.raises(ArtifactError, match=naming(*named)):
        broken.check(2, (5, 0))
