"""Rows that are laid in the order of their nodes are cut as they were: the same trees, leaves and levels to the bit."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from distforest.growth import row_blocks
from distforest.growth.grower import Growth, Level
from distforest.growth.passes import Passes
from distforest.growth.row_blocks import NodesInMemory, _ordered, gains_by_node, grow_by_node
from distforest.sources.binned import BinnedSource
from tests.growth.test_passes import FREE, KINDS, N_COLUMNS, binned, binned_digest, data_of

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Rows of any number are laid again, after each level; the list gets how many."""
    monkeypatch.setattr(row_blocks, "LEAST_BYTES", 0)
    monkeypatch.setattr(row_blocks, "CACHED_BYTES", 0)
    monkeypatch.setattr(row_blocks, "LAID_LEVELS", 1)
    laid, lay = list[int](), NodesInMemory.laid

    def counted(self: NodesInMemory) -> NodesInMemory:
        laid.append(len(self.frontier.rows))
        return lay(self)

    monkeypatch.setattr(NodesInMemory, "laid", counted)
    return laid


@pytest.mark.slow
@pytest.mark.kernels
@FREE
@given(
    kind=st.sampled_from(KINDS),
    n_rows=st.integers(2, 80),
    seed=st.integers(0, 999),
    holes=st.sampled_from([0.0, 0.3, 0.9]),
    max_bins=st.sampled_from([2, 5, 256]),
    min_leaf=st.sampled_from([1, 4]),
    bootstrap=st.booleans(),
    weighted=st.booleans(),
    every=st.integers(1, 3),
)
def test_trees_are_those_of_rows_that_lie_as_staged(
    monkeypatch: pytest.MonkeyPatch,
    often: list[int],
    kind: str,
    n_rows: int,
    seed: int,
    holes: float,
    max_bins: int,
    min_leaf: int,
    bootstrap: bool,
    weighted: bool,
    every: int,
) -> None:
    weights = np.random.default_rng(seed).integers(1, 4, n_rows).astype(float) if weighted else None
    data = data_of(kind, n_rows, seed, holes, weights)
    monkeypatch.setattr(row_blocks, "LAID_LEVELS", every)
    monkeypatch.setattr(row_blocks, "LEAST_BYTES", 0)
    made = binned(data, max_bins=max_bins, min_samples_leaf=min_leaf, bootstrap=bootstrap)
    assert gains_by_node(made.growth)
    trees = np.arange(3)
    by_node = made.grow(trees)
    monkeypatch.setattr(row_blocks, "LEAST_BYTES", 1 << 40)
    assert not gains_by_node(made.growth)
    as_staged = made.grow(trees)
    assert by_node.keys() == as_staged.keys()
    for name, values in as_staged.items():
        np.testing.assert_array_equal(by_node[name], values, err_msg=name)


@pytest.mark.kernels
def test_rows_are_laid_again_in_place_and_levels_are_reported_as_ever(often: list[int]) -> None:
    levels: list[Level] = []
    growth = replace(binned(data_of("labels", 500, 1)).growth, watch=levels.append)
    in_bag = np.random.default_rng(0).integers(0, 3, (2, 500)).astype(np.int32)
    codes = growth.source.codes.copy()
    trees = np.array([4, 9])
    tables, leaves = grow_by_node(growth, trees, in_bag)
    assert len(often) > 6
    assert often[0] < 500  # rows of no bag are not copied
    np.testing.assert_array_equal(growth.source.codes, codes)
    by_node, levels[:] = list(levels), []
    for tree, own in zip(trees, in_bag, strict=True):
        growth.grow(np.array([tree]), own[None])
    assert by_node == levels
    expected, expected_leaves = growth.grow(trees, in_bag)
    np.testing.assert_array_equal(leaves, expected_leaves)
    np.testing.assert_array_equal(tables.threshold, expected.threshold)


@pytest.mark.kernels
@FREE
@given(sizes=st.lists(st.integers(0, 6), min_size=1, max_size=5), seed=st.integers(0, 999), width=st.integers(0, 2))
def test_stretches_are_put_in_order_in_place(sizes: list[int], seed: int, width: int) -> None:
    rng = np.random.default_rng(seed)
    bounds = np.concatenate([[0], np.cumsum(sizes)])
    values = rng.normal(size=(bounds[-1], *(3,) * width))
    kept = [rng.permutation(np.arange(a, b))[: rng.integers(0, b - a + 1)] for a, b in pairwise(bounds)]
    rows, ends = np.concatenate(kept).astype(np.int32), np.concatenate([[0], np.cumsum([len(own) for own in kept])])
    expected = values[rows]
    found = _ordered(values, rows, ends)
    np.testing.assert_array_equal(found, expected)
    assert not len(rows) or np.shares_memory(found, values)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("budget", [2_000, 1 << 20])
def test_passes_that_lay_rows_often_grow_the_forest_of_memory(
    tmp_path: Path, often: list[int], kind: str, budget: int
) -> None:
    data = data_of(kind, 300, 5, 0.1)
    expected = binned_digest(data)
    assert often
    assert binned_digest(data, Passes(tmp_path, budget)) == expected


def test_few_rows_wide_rows_and_other_data_stay_as_staged() -> None:
    growth = binned(data_of("labels", 50, 0)).growth

    def with_codes(n_rows: int, n_columns: int) -> Growth:
        assert isinstance(growth.source, BinnedSource)
        return replace(growth, source=replace(growth.source, codes=np.empty((n_rows, n_columns), np.uint8)))

    assert not gains_by_node(growth)
    assert gains_by_node(with_codes(1 << 21, N_COLUMNS))
    assert gains_by_node(with_codes(1 << 15, row_blocks.MOST_LAID_COLUMNS))
    assert not gains_by_node(with_codes(1 << 15, row_blocks.MOST_LAID_COLUMNS + 1))
    assert not gains_by_node(binned(data_of("labels", 50, 0), max_bins=None).growth)
