"""Rows that go through the tops of trees together end where they end alone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distforest.forest import walks
from distforest.forest.table import NodeTable, route, route_levels
from distforest.forest.walks import FETCHED_NUMBERS, FEWEST_FOR_TOPS, ROWS_IN_TOP, TOP_SHARE, tops_of
from distforest.sources.arrays import ArraySource
from tests.samples import trees_of_any_shape
from tests.tries import tries

COLUMNS = np.arange(2, dtype=np.uint32)


def with_rows(table: NodeTable, n_rows: int, seed: int) -> NodeTable:
    """The table with rows in its nodes: ``n_rows`` in each root, parted at random."""
    rng, counts = np.random.default_rng(seed), np.ones(len(table.left), np.int64)
    for root, size in zip(table.tree_start[:-1], table.tree_size, strict=True):
        counts[root] = n_rows
        for node in range(root, root + size):
            if table.left[node] >= 0:
                counts[root + table.left[node]] = rng.integers(0, counts[node] + 1)
                counts[root + table.right[node]] = counts[node] - counts[root + table.left[node]]
    return replace(table, n_rows=counts)


@pytest.mark.kernels
@settings(max_examples=tries(40))
@given(
    st.lists(st.integers(0, 40), min_size=1, max_size=4),
    st.sampled_from([1, FEWEST_FOR_TOPS - 1, FEWEST_FOR_TOPS, 300, ROWS_IN_TOP + 1, 3 * ROWS_IN_TOP]),
    st.sampled_from([0.3, 1.0]),
    st.integers(0, 99),
)
def test_rows_end_where_they_do_level_by_level(sizes: list[int], n: int, share: float, seed: int) -> None:
    table = with_rows(trees_of_any_shape(sizes, [-1.0, 0.0, 0.25, 1.0], seed), 1000, seed)
    rng = np.random.default_rng(seed)
    X = rng.choice(np.array([-1.5, -1.0, 0.0, 0.25, 0.5, 1.0, 2.0], np.float32), (n, 2))
    rows, wanted = rng.permutation(n).astype(np.int32), rng.random((table.n_trees, n)) < share
    source, expected = ArraySource.of(X, is_complete=True), np.full(wanted.shape, -1, np.int32)
    route_levels(table, source, rows, wanted, expected)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(walks, "COST_OF_COLUMN", 0.0)
        patch.setattr(walks, "COST_OF_NODE", 0.0)
        assert table.steps is not None
    assert len(table.steps.tops.place) > 0 or not max(sizes)
    assert route(table, source, rows, wanted).tolist() == expected.tolist()
    if share == 1.0:
        assert route(table, source, rows).tolist() == expected.tolist()


def test_rows_end_where_they_do_level_by_level_if_nodes_are_prefetched() -> None:
    table = trees_of_any_shape([100, FETCHED_NUMBERS // 4], [-1.0, 0.0, 1.0], 0)
    assert table.steps is not None
    assert len(table.steps.nodes) > FETCHED_NUMBERS
    X = np.random.default_rng(0).normal(size=(500, 2)).astype(np.float32)
    rows, expected = np.arange(500, dtype=np.int32), np.full((2, 500), -1, np.int32)
    source = ArraySource.of(X, is_complete=True)
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
