"""Rows that lack values end where they do level by level, whichever side missing values go to."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distforest.forest import table as node_tables
from distforest.forest import walks
from distforest.forest.missing import ALL_OBSERVED
from distforest.forest.table import NodeTable, route, route_levels
from distforest.forest.walks import FEWEST_FOR_TOPS
from distforest.sources.arrays import ArraySource
from tests.samples import trees_of_any_shape
from tests.tries import tries

N_CATEGORIES = 70


def table_with_missing(sizes: list[int], with_lists: bool, seed: int) -> NodeTable:
    """Trees of which each node sends missing values to either side; where they read column 0 it may hold categories."""
    rng, plain = np.random.default_rng(seed), trees_of_any_shape(sizes, [-1.0, 0.0, 1.0, ALL_OBSERVED], seed)
    sides = (rng.random(len(plain.left)) < 0.5) & ~plain.is_leaf
    table = replace(plain, missing_right=sides, n_rows=np.full(len(plain.left), 100))
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
    st.sampled_from([1, FEWEST_FOR_TOPS - 1, 300]),
    st.sampled_from([0.1, 0.5, 1.0]),
    st.sampled_from([0.5, 1.0]),
    st.booleans(),
    st.booleans(),
    st.sampled_from([7, node_tables.GATHERED_ROWS]),
    st.integers(0, 99),
)
def test_rows_that_lack_values_end_where_they_do_level_by_level(
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
    source, expected = ArraySource.of(X.astype(np.float32)), np.full(wanted.shape, -1, np.int32)
    route_levels(table, source, rows, wanted, expected)
    with pytest.MonkeyPatch.context() as patch:
        cost = 0.0 if with_tops else 100.0
        patch.setattr(walks, "COST_OF_COLUMN", cost)
        patch.setattr(walks, "COST_OF_NODE", cost)
        assert table.steps_of_twice is not None
        patch.setattr(node_tables, "GATHERED_ROWS", gathered)
        assert route(table, source, rows, wanted).tolist() == expected.tolist()


def test_nodes_that_keep_what_lacks_a_value_have_no_steps_for_it() -> None:
    plain = trees_of_any_shape([3], [0.0, 1.0], 0)
    assert plain.steps is not None
    assert plain.steps_of_twice is None
