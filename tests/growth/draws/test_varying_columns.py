"""Passing over constant columns, against the windows of all columns in the reference's order."""

from __future__ import annotations

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distforest.growth.cuts.random_cuts import FIRST_SHARE, Places
from distforest.growth.draws import varying_columns
from distforest.growth.draws.column_draws import Axis
from distforest.growth.draws.varying_columns import VaryingColumns
from distforest.sources.arrays import ArraySource
from tests import samples
from tests.reference import naive
from tests.sources.test_sparse_features import source_of, words
from tests.tries import tries

pytestmark = pytest.mark.kernels

FREE = settings(max_examples=tries(100))


def may_be_cut(values: np.ndarray, weights: np.ndarray, min_leaf: int) -> bool:
    """Whether there are two values, and enough weight on the side of a cut that has no 0."""
    return len(np.unique(values)) > 1 and int(weights[values != 0.0].sum()) >= min_leaf


def windows_of(
    order: list[int], width: int, node: tuple[np.ndarray, np.ndarray], min_leaf: int, skips: bool, plain: bool
) -> list[list[int]]:
    """What each attempt of a node holds, -1 for columns that are passed over."""
    values, weights = node
    windows = []
    for first in range(0, len(order), width):
        own = order[first : first + width]
        missing = [-1] * (width - len(own)) if skips else []  # the place of a threshold depends on how many are drawn
        window = [c if may_be_cut(values[:, c], weights, min_leaf) else -1 for c in own] + missing
        if plain and first == 0:
            window = own + missing
        if not skips or max(window) >= 0:
            windows.append(window)
    while windows and max(windows[-1]) < 0:
        windows.pop()
    return windows


@FREE
@given(
    st.integers(0, 9999),
    st.integers(1, 9),
    st.integers(1, 12),
    st.sampled_from([0.0, 0.1, 0.5, 1.0]),
    st.integers(1, 5),
    st.booleans(),
    st.sampled_from([0, 1, 16]),
)
def test_attempts_are_the_windows_that_hold_columns_which_may_be_cut(
    seed: int, n_rows: int, n_columns: int, share: float, min_leaf: int, skips: bool, many: int
) -> None:
    rng, dense = np.random.default_rng(seed), words(n_rows, n_columns, seed, share)
    node = rng.integers(0, 3, n_rows)
    rows = [np.flatnonzero(node == own).tolist() for own in np.unique(node)]
    weights = [rng.integers(1, 4, len(own)).tolist() for own in rows]
    frontier, width = samples.level(rows, weights), int(rng.integers(1, n_columns + 1))
    numbers = list(range(len(rows)))
    keys = samples.keys_of(seed, [0] * len(rows), numbers)
    draw = VaryingColumns(source_of(dense), width, min_leaf, skips, many)
    assert draw.attempts == Axis(n_columns, width).attempts
    expected = []
    for number, own, weight in zip(numbers, rows, weights, strict=True):
        plain = int(np.count_nonzero(dense[own])) > many * width
        of_node = dense[own], np.array(weight)
        order = naive.axis_permutation(seed, 0, number, n_columns)
        expected.append(windows_of(order, width, of_node, min_leaf, skips, plain))
    for attempt in range(draw.attempts):
        drawn = draw(frontier, keys, attempt)
        if not drawn.width:
            assert all(len(windows) <= attempt for windows in expected)
            break
        width_now = width if skips else min(width, n_columns - attempt * width)
        assert skips or width_now == Axis(n_columns, width)(frontier, keys, attempt).width
        wanted = [windows[attempt] if attempt < len(windows) else [-1] * width_now for windows in expected]
        assert drawn.width == width_now
        assert np.diff(drawn.offset).tolist() == [int(c >= 0) for window in wanted for c in window]
        assert drawn.columns.tolist() == [c for window in wanted for c in window if c >= 0]
        assert drawn.weights.tolist() == [1.0] * len(drawn.columns)
    else:
        assert all(len(windows) <= draw.attempts for windows in expected)


@FREE
@given(st.integers(0, 9999), st.integers(2, 9), st.integers(1, 9), st.integers(1, 9), st.integers(1, 3))
def test_a_column_is_cut_at_the_same_random_place_as_among_all_columns(
    seed: int, n_rows: int, n_columns: int, width: int, min_leaf: int
) -> None:
    """Column t of the order is candidate t - first of its attempt, whose share is draw attempt * width + t - first."""
    dense, width = words(n_rows, n_columns, seed, 0.4), min(width, n_columns)
    frontier, keys = samples.level([list(range(n_rows))], [[1] * n_rows]), samples.keys_of(seed, [0], [0])
    order, state = naive.axis_permutation(seed, 0, 0, n_columns), naive.stream(seed, 0, 0)
    draw, source = (
        VaryingColumns(source_of(dense), width, min_leaf, skips=False, many=0),
        ArraySource.from_values(dense),
    )
    places: dict[int, float] = {}
    for attempt in range(draw.attempts):
        drawn = draw(frontier, keys, attempt)
        values = source.project(frontier.rows, frontier.starts, drawn)
        thresholds = Places(keys, attempt, 0.0).thresholds(frontier, values)[:, 0]
        places.update(zip(drawn.columns.tolist(), thresholds[np.diff(drawn.offset) > 0].tolist(), strict=True))
    for t, column in enumerate(order):
        attempt, k = divmod(t, width)
        n_now, own = min(width, n_columns - attempt * width), dense[:, column].astype(np.float64)
        share = naive.unit(state, FIRST_SHARE + attempt * n_now + k)
        if may_be_cut(own, np.ones(n_rows, np.int64), min_leaf):
            assert places[column] == pytest.approx(own.min() + share * np.ptp(own), rel=1e-12, abs=1e-12)


def test_a_million_columns_cost_a_node_what_it_draws() -> None:
    """Two rows that differ in one of a million columns: the window that holds it comes at once, and then none."""
    n_columns = 2_000 if numba.config.DISABLE_JIT else 1_000_000
    dense = np.zeros((3, n_columns), np.float32)
    dense[:2, 5], dense[1, 77] = 1.0, 2.0
    draw = VaryingColumns(source_of(dense), 40, 1)
    frontier, keys = samples.level([[0, 1], [0, 2], [2]], [[1, 1]] * 2 + [[1]]), samples.keys_of(0, [0] * 3, [0, 1, 2])
    assert draw(frontier, keys, 0).columns.tolist() == [77, 5]
    assert draw(frontier, keys, 1).width == 0


def test_a_large_node_looks_through_its_columns_from_the_second_attempt_on() -> None:
    dense = np.zeros((60, 8), np.float32)
    dense[:, 0] = 1.0
    dense[:9, 3] = 2.0
    frontier, keys = samples.level([list(range(60))], [[1] * 60]), samples.keys_of(4, [0], [0])
    order = naive.axis_permutation(4, 0, 0, 8)
    draw = VaryingColumns(source_of(dense), 2, 1)
    assert varying_columns.MANY * 2 < 69
    assert draw(frontier, keys, 0).columns.tolist() == order[:2]
    later = [3] if 3 in order[2:] else []
    assert draw(frontier, keys, 1).columns.tolist() == later
