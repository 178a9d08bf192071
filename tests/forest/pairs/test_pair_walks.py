"""Pairs that walk side by side arrive where each would arrive alone, at any threshold and in blocks of any size."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distforest.forest.node_table import NodeTable
from distforest.forest.pairs import pair_walks
from distforest.forest.pairs.pair_walks import Block, Walks, blocks_of
from distforest.forest.sum_walks import walk_sums
from distforest.forest.walks import FEW_WALKERS
from distforest.sources.point_pairs import FAMILIES, PairColumns, PointPairs
from tests.reference import naive_missing_pairs
from tests.reference import naive_trees_of_pairs as ref
from tests.samples import trees_of_any_shape
from tests.tries import tries

pytestmark = pytest.mark.kernels

THRESHOLDS = [0.0, -0.0, 1e-46, -1e-46, 1e300, -1e300, 0.1, -0.1, 1.0, float(np.float32(0.1)), 3.4028235e38]
VALUES = np.float32([0.0, -0.0, 1e-45, -1e-45, 0.1, -0.1, 1.0, -1.0, 3.4028235e38, -3.4028235e38])


def table_of(thresholds: list[float], columns: list[int]) -> NodeTable:
    """Two trees: a leaf, and a complete tree of depth two with these three cuts."""
    left, right = np.array([-1, 1, 3, 5, -1, -1, -1, -1]), np.array([-1, 2, 4, 6, -1, -1, -1, -1])
    return NodeTable(
        tree_size=np.array([1, 7]),
        left=left.astype(np.int32),
        right=right.astype(np.int32),
        threshold=np.array([0.0, *thresholds, 0.0, 0.0, 0.0, 0.0]),
        gain=np.zeros(8),
        n_rows=np.ones(8, np.int64),
        width=(left >= 0).astype(np.int32),
        columns=np.array(columns, np.int32),
        weights=np.ones(3),
    )


def alone(table: NodeTable, tree: int, row: np.ndarray) -> int:
    node, root = 0, int(table.tree_start[tree])
    while table.left[root + node] >= 0:
        cut = table.offset[root + node]
        is_left = float(row[table.columns[cut]]) <= table.threshold[root + node]
        node = int(table.left[root + node] if is_left else table.right[root + node])
    return root + node


def one_by_one(table: NodeTable, tree: int, values: np.ndarray) -> np.ndarray:
    """The leaves of pairs that walk as sums of columns do, though these are single ones."""
    ends = np.empty(len(values), np.int64)
    walk_sums(table.sum_nodes, table.sets_if_any, int(table.tree_start[tree]), values, ends)
    return ends


@settings(max_examples=tries(80))
@given(
    st.lists(st.sampled_from(THRESHOLDS), min_size=3, max_size=3),
    st.lists(st.integers(0, 1), min_size=3, max_size=3),
    st.integers(0, 2 * FEW_WALKERS + 1),
    st.integers(0, 99),
)
def test_pairs_arrive_where_each_would_alone(thresholds: list[float], columns: list[int], n: int, seed: int) -> None:
    table = table_of(thresholds, columns)
    table.check(2)
    values = np.random.default_rng(seed).choice(VALUES, (n, 2))
    walks = Walks(table)
    assert table.steps is not None
    for tree in range(2):
        expected = [alone(table, tree, row) for row in values]
        assert walks.ends(tree, Block.from_values(values)).tolist() == expected
        assert one_by_one(table, tree, values).tolist() == expected


@settings(max_examples=tries(40))
@given(st.lists(st.integers(0, 30), min_size=1, max_size=4), st.integers(0, 99))
def test_trees_of_any_shape_are_walked_as_one_pair_would(sizes: list[int], seed: int) -> None:
    table = trees_of_any_shape(sizes, THRESHOLDS, seed)
    table.check(2)
    values = np.random.default_rng(seed).choice(VALUES, (FEW_WALKERS + 3, 2))
    parts = np.random.default_rng(seed).random(len(table.left))
    walks, sums = Walks(table), np.zeros(len(values))
    for tree in range(table.n_trees):
        ends = [alone(table, tree, row) for row in values]
        assert walks.ends(tree, Block.from_values(values)).tolist() == ends
        sums += parts[ends]
    assert walks.sums(parts, Block.from_values(values)).tolist() == sums.tolist()


def test_a_table_that_is_no_tree_is_walked_too() -> None:
    table = table_of([0.5, 0.5, 0.5], [0, 1, 1])
    left, right = table.left.copy(), table.right.copy()
    left[1:4], right[1:4] = [2, 4, 5], [2, 3, 4]  # the left child of the root has no parent, the right one two
    table = replace(table, left=left, right=right)
    table.check(2)
    values = np.float32([[0, 0], [0, 1], [1, 0], [1, 1]])
    assert (
        Walks(table).ends(1, Block.from_values(values)).tolist()
        == [alone(table, 1, row) for row in values]
        == [6, 5, 6, 5]
    )


def test_sums_of_columns_are_walked_one_by_one() -> None:
    table = replace(table_of([0.5, 0.5, 0.5], [0, 1, 0]), weights=np.array([1.0, -1.0, 1.0]))
    walks = Walks(table)
    assert table.steps is None
    assert walks.ends(1, Block.from_values(np.float32([[0.0, -0.75], [0.0, 0.0], [1.0, 0.0]]))).tolist() == [5, 4, 7]


@pytest.mark.parametrize("cells", [1, 50, 1 << 17])
@pytest.mark.parametrize("family", FAMILIES)
def test_blocks_hold_the_columns_of_all_pairs(family: str, cells: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pair_walks, "block_rows", lambda n_columns: max(1, cells // n_columns))
    rng = np.random.default_rng(0)
    X, dots, sames = rng.normal(size=(9, 3)), rng.normal(size=(9, 2)), rng.integers(0, 2, (9, 4))
    numbers = rng.integers(0, 9, (70, 2))
    columns = PairColumns(family, 3, (("dot", 2), ("same", 4)))
    pairs = PointPairs.from_points(columns, np.hstack([X, dots, sames]), numbers)
    dots32, sames32 = pairs.points[:, 3:5], pairs.points[:, 5:]
    expected = ref.pair_table(pairs.points[:, :3], numbers, family, [dots32], [sames32])
    last = 0
    for block in blocks_of(pairs):
        assert block.pairs.start == last
        assert block.twice is None
        np.testing.assert_array_equal(block.values, expected[block.pairs])
        last = block.pairs.stop
    assert last == 70
    assert list(blocks_of(pairs.of_pairs(pairs.left[:0], pairs.right[:0]))) == []


def test_classes_are_counted_at_every_node_that_is_passed() -> None:
    table, values = table_of([0.5, 0.5, 0.5], [0, 1, 1]), np.float32([[0, 0], [0, 1], [1, 0], [1, 1], [1, 1]])
    counts = np.zeros((7, 2), np.int64)
    codes, weights = np.array([0, 1, 1, 0, 1], np.uint8), np.array([1, 2, 4, 8, 16], np.int32)
    for _ in range(2):  # blocks add up
        Walks(table).tally(1, Block.from_values(values), codes, weights, counts)
    assert (counts // 2).tolist() == [[9, 22], [1, 2], [8, 20], [1, 0], [0, 2], [0, 4], [8, 16]]


@pytest.mark.parametrize("family", FAMILIES)
def test_a_column_is_missing_where_either_point_lacks_its_feature(family: str) -> None:
    rng = np.random.default_rng(0)
    X, dots = np.where(rng.random((9, 3)) < 0.3, np.nan, rng.normal(size=(9, 3))), rng.normal(size=(9, 2))
    numbers = rng.integers(0, 9, (70, 2))
    pairs = PointPairs.from_points(PairColumns(family, 3, (("dot", 2),)), np.hstack([X, dots]), numbers)
    dot = ref.pair_table(np.zeros((9, 1)), numbers, "difference", [pairs.points[:, 3:]])[:, 1:]
    own = [naive_missing_pairs.pair_columns(pairs.points[a, :3], pairs.points[b, :3], family) for a, b in numbers]
    expected = np.hstack([np.array(own, np.float32), dot])
    (block,) = blocks_of(pairs)
    np.testing.assert_array_equal(block.values, expected)
    rows, columns = (np.arange(n, dtype=np.int32) for n in expected.shape)
    np.testing.assert_array_equal(pairs.block(rows, columns).astype(np.float32), expected)
    assert block.twice is not None
    np.testing.assert_array_equal(block.twice[:, ::2], expected)
    np.testing.assert_array_equal(block.twice[:, 1::2], np.where(np.isnan(expected), np.inf, expected))


@settings(max_examples=tries(40))
@given(st.lists(st.integers(0, 30), min_size=1, max_size=4), st.integers(0, 99), st.booleans())
def test_pairs_that_lack_values_walk_to_the_side_of_each_node(sizes: list[int], seed: int, is_learned: bool) -> None:
    table, rng = trees_of_any_shape(sizes, THRESHOLDS, seed), np.random.default_rng(seed)
    n_rows = rng.integers(1, 9, len(table.left))
    table = replace(table, n_rows=n_rows)
    if is_learned:
        table = replace(table, missing_right=(rng.random(len(table.left)) < 0.5) & ~table.is_leaf)
    table.check(2)
    values = rng.choice(VALUES, (FEW_WALKERS + 3, 2))
    values[rng.random(values.shape) < 0.3] = np.nan
    sends_right = table.sending_on().missing_right
    assert sends_right is not None
    for tree in range(table.n_trees):
        expected = []
        for row in values:
            node = root = int(table.tree_start[tree])
            while table.left[node] >= 0:
                value = row[table.columns[table.offset[node]]]
                is_right = sends_right[node] if np.isnan(value) else value > table.threshold[node]
                node = root + int((table.right if is_right else table.left)[node])
            expected.append(node)
        assert Walks(table).ends(tree, Block.from_values(values)).tolist() == expected
        ends = np.empty(len(values), np.int64)
        walk_sums(table.sending_on().sum_nodes, table.sets_if_any, int(table.tree_start[tree]), values, ends)
        assert ends.tolist() == expected
