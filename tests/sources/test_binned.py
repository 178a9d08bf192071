"""Binned features: codes and edges say the same of every value."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distforest.sources import binned
from distforest.sources.binned import BinnedSource, column_edges, fill_codes
from distforest.sources.binned_table import BinnedTable
from distforest.sources.source import Projections, offsets, project_entries
from tests import samples
from tests.reference import naive
from tests.tries import tries

pytestmark = pytest.mark.kernels

VALUES = st.one_of(st.sampled_from([0.0, 1.0, -2.0]), st.floats(-1e6, 1e6, width=32))


@settings(max_examples=tries(80))
@given(st.lists(VALUES, min_size=1, max_size=60), st.integers(2, 256))
def test_edges_part_the_values_into_bins_none_of_them_empty(values: list[float], max_bins: int) -> None:
    column = np.array(values, np.float32)
    edges = column_edges(column, max_bins)
    assert (np.diff(edges) > 0).all()
    counts = np.bincount(np.searchsorted(edges, column), minlength=len(edges) + 1)
    assert len(edges) + 1 <= max_bins
    assert (counts > 0).all()
    assert not np.isin(edges, column.astype(np.float64)).any()
    distinct = np.unique(column)
    if len(distinct) <= max_bins:
        assert len(counts) == len(distinct)


@settings(max_examples=tries(50))
@given(st.integers(1, 60), st.integers(0, 99), st.sampled_from([2, 4, 256]))
def test_a_code_below_a_threshold_is_a_value_below_its_edge(n_rows: int, seed: int, max_bins: int) -> None:
    X = samples.features(n_rows, seed=seed)
    source = BinnedSource.from_features(X, max_bins)
    for column in range(X.shape[1]):
        codes = source.codes[:, column]
        present = np.unique(codes)
        for a, b in zip(present[:-1].tolist(), present[1:].tolist(), strict=True):
            middle = a + (b - a) / 2
            threshold = source.thresholds(np.array([column], np.int32), np.array([middle]))[0]
            assert (codes <= middle).tolist() == (X[:, column] <= threshold).tolist()


HALVES = st.integers(-9, 9).map(lambda n: n / 2)


@settings(max_examples=tries(60))
@given(st.lists(st.lists(HALVES, unique=True, max_size=9).map(sorted), min_size=1, max_size=4), st.data())
def test_codes_count_the_edges_below(edges: list[list[float]], data: st.DataObject) -> None:
    row = st.lists(HALVES, min_size=len(edges), max_size=len(edges))  # many values equal an edge
    X = np.array(data.draw(st.lists(row, min_size=1, max_size=12)), np.float32)
    assert filled(X, edges).tolist() == naive.codes(X, edges)


@settings(max_examples=tries(80))
@given(st.lists(st.floats(width=32, allow_infinity=False), min_size=1, max_size=60), st.integers(2, 255))
def test_codes_are_right_however_crowded_a_cell_of_the_grid_is(values: list[float], max_bins: int) -> None:
    column = np.array(values, np.float32)
    source = BinnedSource.from_features(column[:, None], max_bins)
    expected = np.where(np.isnan(column), binned.MISSING_CODE, np.searchsorted(source.edges, column))
    assert source.codes[:, 0].tolist() == expected.tolist()


@pytest.mark.parametrize("n_edges", [0, 1, 2, 127, 128, 254, 255])
def test_codes_of_every_bin_of_a_column(n_edges: int) -> None:
    edges = [(np.arange(n_edges) / 4).tolist(), [3.0]]
    X = np.repeat(np.arange(-2, 2 * n_edges + 3) / 8, 2).reshape(-1, 2).astype(np.float32)
    codes = filled(X, edges)
    assert codes.tolist() == naive.codes(X, edges)
    assert set(codes[:, 0].tolist()) == set(range(n_edges + 1))


def filled(X: np.ndarray, edges: list[list[float]]) -> np.ndarray:
    first = offsets(np.array([len(own) for own in edges]))
    codes = np.full(X.shape, 77, np.uint8)
    fill_codes(X, np.array([edge for own in edges for edge in own], np.float64), first, codes)
    return codes


def test_shares_of_rows_are_nearly_equal_where_values_are_many() -> None:
    values = np.random.default_rng(0).normal(size=1000).astype(np.float32)
    counts = np.bincount(np.searchsorted(column_edges(values, 10), values))
    assert counts.tolist() == [100] * 10


def test_a_value_that_takes_most_rows_has_a_bin_of_its_own() -> None:
    values = np.concatenate([np.zeros(900), np.arange(1, 101)]).astype(np.float32)
    edges = column_edges(values, 4)
    assert edges[0] == 0.5
    assert 1 <= len(edges) <= 3


def test_long_columns_take_their_edges_from_some_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    X = samples.features(101)
    monkeypatch.setattr(binned, "QUANTILE_ROWS", 25)
    source = BinnedSource.from_features(X, 256)
    assert len(source.first_edge) == X.shape[1] + 1
    assert source.edges[: source.first_edge[1]].tolist() == column_edges(X[::5, 0], 256).tolist()
    assert source.codes.shape == X.shape
    assert source.codes.max() < 26


def test_a_constant_column_has_one_bin() -> None:
    source = BinnedSource.from_features(np.full((4, 2), 3.0, np.float32), 8)
    assert (source.codes.tolist(), source.edges.tolist(), source.first_edge.tolist()) == ([[0, 0]] * 4, [], [0, 0, 0])


def test_coordinates_and_projections_are_codes() -> None:
    X = samples.features(20)
    source = BinnedSource.from_features(X, 256)
    assert source.shape == X.shape
    rows, columns = np.array([3, 1, 1], np.int32), np.array([4, 0, 1], np.int32)
    assert source.block(rows, columns).tolist() == source.codes[rows][:, columns].tolist()
    assert source.entries(rows, columns).tolist() == [source.codes[r, c] for r, c in zip(rows, columns, strict=True)]
    single = samples.projections([[[(2, 1.0)], [(0, 1.0)]], [[(4, 1.0)], [(2, 1.0)]]])
    starts = np.array([0, 2, 3])
    assert source.project(rows, starts, single).tolist() == project_entries(source, rows, starts, single).tolist()


@pytest.mark.slow
def test_categories_beside_bins_are_read_as_they_are() -> None:
    rng = np.random.default_rng(3)
    X = np.column_stack([rng.normal(size=60), rng.integers(0, 900, 60), rng.normal(size=60)]).astype(np.float32)
    X[rng.random(X.shape) < 0.2] = np.nan
    source = BinnedTable.from_features(X, 8, np.array([False, True, False]))
    numbers = BinnedSource.from_features(X[:, [0, 2]], 8)
    rows, starts = rng.permutation(60)[:40].astype(np.int32), np.array([0, 15, 40])
    projections = Projections(2, np.arange(5), np.array([1, 0, 2, 1], np.int32), np.ones(4))
    values = source.project(rows, starts, projections)
    np.testing.assert_array_equal(values, project_entries(source, rows, starts, projections))
    np.testing.assert_array_equal(values[0, :15], X[rows[:15], 1])
    np.testing.assert_array_equal(values[1, :15], numbers.block(rows[:15], np.array([0], np.int32))[:, 0])
    block = source.block(rows, np.arange(3, dtype=np.int32))
    np.testing.assert_array_equal(block[:, [0, 2]], numbers.block(rows, np.arange(2, dtype=np.int32)))
    assert not source.is_complete
    columns = np.array([0, 1, 2], np.int32)
    expected = numbers.thresholds(np.array([0, 1], np.int32), np.array([1.5, 2.5]))
    assert source.thresholds(columns, np.array([1.5, 1.0, 2.5])).tolist() == [expected[0], 1.0, expected[1]]
