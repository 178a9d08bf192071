"""Rows that walk side by side end where they do level by level: through the tops of trees, with and without values."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distforest.forest import node_table as node_tables
from distforest.forest import walks
from distforest.forest.category_sets import CategorySets
from distforest.forest.missing import ALL_OBSERVED
from distforest.forest.node_table import NodeTable, route, route_levels
from distforest.forest.walks import (
    FETCHED_NUMBERS,
    FEWEST_FOR_TOPS,
    IS_LEAF,
    MASK_BITS,
    ROWS_IN_TOP,
    THRESHOLD,
    TOP_SHARE,
    WalkSets,
    preorder,
    tops_of,
    write_sets,
)
from distforest.sources.arrays import ArraySource
from tests.samples import trees_of_any_shape
from tests.tries import tries

N_CATEGORIES = 70
COLUMNS = np.arange(2, dtype=np.uint32)


@pytest.mark.kernels
@settings(max_examples=tries(40))
@given(st.lists(st.integers(0, 30), min_size=1, max_size=4), st.integers(0, 99))
def test_a_left_child_with_children_comes_right_after_its_parent(sizes: list[int], seed: int) -> None:
    table = trees_of_any_shape(sizes, [0.5], seed)

    def met(root: int, node: int) -> list[int]:
        if table.left[root + node] < 0:
            return []
        return [root + node, *met(root, int(table.left[root + node])), *met(root, int(table.right[root + node]))]

    expected = np.arange(len(table.left)) + int(IS_LEAF)
    order = [node for root in table.tree_start[:-1] for node in met(int(root), 0)]
    expected[order] = 4 * np.arange(len(order))
    assert preorder(table.tree_start, table.left, table.right).tolist() == expected.tolist()


def sets_of(lists: list[np.ndarray], others_right: list[bool]) -> CategorySets:
    start = np.cumsum([0, *map(len, lists)])
    return CategorySets(start, np.concatenate(lists).astype(np.uint16), np.array(others_right))


def written(lists: CategorySets) -> tuple[np.ndarray, WalkSets]:
    n = len(lists.others_right)
    nodes = np.zeros(4 * n, np.uint32)
    return nodes, write_sets(nodes, np.arange(0, 4 * n, 4, dtype=np.uint32), np.arange(n), lists)


@pytest.mark.kernels
def test_a_bit_says_whether_a_category_goes_right() -> None:
    rng = np.random.default_rng(0)
    own = [np.sort(rng.permutation(n)[: n // 2]) for n in (20, 32, 500, 60_000)]
    lists = sets_of(own * 2, [False] * 4 + [True] * 4)
    nodes, sets = written(lists)
    for node, listed in enumerate(own * 2):
        first = int(nodes[4 * node + THRESHOLD])
        if listed[-1] < MASK_BITS:
            words = np.array([first], np.uint32)
        else:
            words = sets.words[first + 1 : first + 1 + int(sets.words[first])]
        goes_right = np.unpackbits(words.view(np.uint8), bitorder="little").astype(bool)
        is_listed = np.isin(np.arange(len(goes_right)), listed)
        np.testing.assert_array_equal(goes_right, is_listed != (node >= 4))


@pytest.mark.kernels
def test_bits_of_long_lists_take_no_array_of_all_codes() -> None:
    lists = sets_of([np.arange(0, 20_000, 2)] * 5, [False] * 5)
    written(lists)  # compiles
    tracemalloc.start()
    _, sets = written(lists)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert sets.words.nbytes < most < lists.codes.nbytes


def table_with_missing(sizes: list[int], with_lists: bool, seed: int) -> NodeTable:
    """Trees of which each node sends missing values to either side; where they read column 0 it may hold categories."""
    rng, plain = np.random.default_rng(seed), trees_of_any_shape(sizes, [-1.0, 0.0, 1.0, ALL_OBSERVED], seed)
    sides = (rng.random(len(plain.left)) < 0.5) & ~plain.is_leaf
    counts = np.full(len(plain.left), 1000)
    for root, size in zip(plain.tree_start[:-1], plain.tree_size, strict=True):
        for node in range(root, root + size):
            if plain.left[node] >= 0:
                counts[root + plain.left[node]] = rng.integers(0, counts[node] + 1)
                counts[root + plain.right[node]] = counts[node] - counts[root + plain.left[node]]
    table = replace(plain, missing_right=sides, n_rows=counts)
    is_set = np.zeros(len(plain.left), np.bool_)
    is_set[~plain.is_leaf] = plain.columns == 0
    if not with_lists or not is_set.any():
        return table
    lists = [np.sort(rng.permutation(N_CATEGORIES)[: rng.integers(1, 6)]) for _ in range(int(is_set.sum()))]
    size = np.zeros(len(is_set), np.int32)
    size[is_set] = [len(codes) for codes in lists]
    others = np.where(is_set, np.float64(rng.integers(0, 2, len(is_set))), plain.threshold)
    return replace(table, threshold=others, category_size=size, category_codes=np.concatenate(lists).astype(np.uint16))


@pytest.mark.kernels
@settings(max_examples=tries(80))
@given(
    st.lists(st.integers(0, 20), min_size=1, max_size=3),
    st.sampled_from([1, FEWEST_FOR_TOPS - 1, FEWEST_FOR_TOPS, 300, ROWS_IN_TOP + 1, 3 * ROWS_IN_TOP]),
    st.sampled_from([0.0, 0.0, 0.1, 0.5, 1.0]),
    st.sampled_from([0.5, 1.0]),
    st.booleans(),
    st.booleans(),
    st.sampled_from([7, node_tables.GATHERED_ROWS]),
    st.integers(0, 99),
)
def test_rows_end_where_they_do_level_by_level(
    sizes: list[int],
    n: int,
    lacking: float,
    share: float,
    with_lists: bool,
    with_tops: bool,
    gathered: int,
    seed: int,
) -> None:
    table, rng = table_with_missing(sizes, with_lists, seed), np.random.default_rng(seed)
    X = np.column_stack([rng.integers(0, N_CATEGORIES + 2, n), rng.choice([-2.0, -1.0, 0.0, 0.5, 3e38], n)])
    X[rng.random(X.shape) < lacking] = np.nan
    rows, wanted = rng.permutation(n).astype(np.int32), rng.random((table.n_trees, n)) < share
    source, expected = ArraySource.from_values(X.astype(np.float32)), np.full(wanted.shape, -1, np.int32)
    route_levels(table, source, rows, wanted, expected)
    with pytest.MonkeyPatch.context() as patch:
        cost = 0.0 if with_tops else 100.0
        patch.setattr(walks, "COST_OF_COLUMN", cost)
        patch.setattr(walks, "COST_OF_NODE", cost)
        assert table.steps_of_twice is not None
        patch.setattr(node_tables, "GATHERED_ROWS", gathered)
        assert route(table, source, rows, wanted).tolist() == expected.tolist()
        if share == 1.0:
            assert route(table, source, rows).tolist() == expected.tolist()


def test_nodes_that_keep_what_lacks_a_value_have_no_steps_for_it() -> None:
    plain = trees_of_any_shape([3], [0.0, 1.0], 0)
    assert plain.steps is not None
    assert plain.steps_of_twice is None


def test_rows_end_where_they_do_level_by_level_if_nodes_are_prefetched() -> None:
    table = trees_of_any_shape([100, FETCHED_NUMBERS // 4], [-1.0, 0.0, 1.0], 0)
    assert table.steps is not None
    assert len(table.steps.nodes) > FETCHED_NUMBERS
    X = np.random.default_rng(0).normal(size=(500, 2)).astype(np.float32)
    rows, expected = np.arange(500, dtype=np.int32), np.full((2, 500), -1, np.int32)
    source = ArraySource.from_values(X, is_complete=True)
    route_levels(table, source, rows, np.ones((2, 500), np.bool_), expected)
    assert route(table, source, rows).tolist() == expected.tolist()


def test_a_top_has_the_nodes_that_many_rows_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walks, "COST_OF_COLUMN", 0.5)
    share = np.array([1.0, 1.0, TOP_SHARE, 0.9 * TOP_SHARE])
    places = np.array([0, 8, 12, 4], np.uint32)
    tops = tops_of(3, np.array([0, 2, 2, 2]), share, places, np.array([7, 3, 7, 5], np.uint32))
    assert tops.start.tolist() == [0, 1, 1, 3]
    assert tops.place.tolist() == [0, 8, 12]
    assert (tops.columns[tops.slot].tolist(), tops.columns.tolist()) == ([7, 3, 7], [3, 7])


def test_tops_that_read_a_column_for_each_step_are_not_worth_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walks, "COST_OF_COLUMN", 1.0)
    tops = tops_of(1, np.zeros(2, np.int64), np.array([1.0, 0.9]), 4 * COLUMNS, COLUMNS)
    assert (tops.start.tolist(), len(tops.columns)) == ([0, 0], 0)
