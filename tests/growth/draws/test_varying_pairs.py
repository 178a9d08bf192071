"""Columns of pairs of sparse points: the windows of the dense draw, without what no cut can part."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse

from distforest.forest.frontier import Frontier
from distforest.growth.draws.column_draws import Axis
from distforest.growth.pairs.sparse_search import VaryingPairs
from distforest.sources.point_pairs import PairColumns, PointPairs
from distforest.sources.sparse_features import read_sparse_features
from distforest.sources.sparse_pairs import SparsePairs

N_POINTS, N_FEATURES, N_PAIRS, WIDTH = 8, 7, 12, 3


def has_cut(values: np.ndarray, weights: np.ndarray, min_leaf: int) -> bool:
    """Whether a threshold between two different values leaves a weight of ``min_leaf`` on either side."""
    sides = [(weights[values <= t].sum(), weights[values > t].sum()) for t in np.unique(values)]
    return any(min(two) >= min_leaf for two in sides)


@pytest.mark.kernels
@pytest.mark.parametrize("min_leaf", [1, 3])
@pytest.mark.parametrize("family", ["difference", "difference_mean"])
def test_windows_are_those_of_the_dense_draw_without_columns_that_no_cut_can_part(family: str, min_leaf: int) -> None:
    rng = np.random.default_rng(min_leaf)
    X = ((rng.random((N_POINTS, N_FEATURES)) < 0.3) * rng.integers(1, 3, (N_POINTS, N_FEATURES))).astype(np.float32)
    left, right = rng.integers(N_POINTS, size=(2, N_PAIRS)).astype(np.int32)
    points, columns = read_sparse_features(scipy.sparse.csr_array(X)), PairColumns(family, N_FEATURES)
    pairs = SparsePairs(columns, points, points, left, right)
    weights, starts = rng.integers(1, 3, N_PAIRS).astype(np.int32), np.array([0, 7, 8, N_PAIRS])
    rows, node = rng.permutation(N_PAIRS).astype(np.int32), np.arange(3, dtype=np.int32)
    frontier, keys = (
        Frontier(np.zeros(3, np.int64), node, starts, rows, weights),
        rng.integers(2**62, size=3, dtype=np.uint64),
    )
    n, dense = pairs.shape[1], PointPairs(columns, X, X, left, right)
    expected: list[list[list[int]]] = [[], [], []]
    for attempt in range(Axis(n, WIDTH).attempts):
        drawn = Axis(n, WIDTH)(frontier, keys, attempt).columns.reshape(3, -1)
        for f, window in enumerate(drawn):
            of_node = slice(starts[f], starts[f + 1])
            values = dense.block(rows[of_node], window)
            kept = [int(c) for c, v in zip(window, values.T, strict=True) if has_cut(v, weights[of_node], min_leaf)]
            expected[f] += [kept] if kept else []
    draw = VaryingPairs(n, WIDTH, min_leaf, pairs)
    assert any(expected)
    for attempt in range(max(map(len, expected))):
        found = draw(frontier, keys, attempt)
        for f in range(3):
            of_node = slice(found.offset[f * WIDTH], found.offset[(f + 1) * WIDTH])
            wanted = expected[f][attempt] if attempt < len(expected[f]) else []
            assert found.columns[of_node].tolist() == wanted
    assert draw(frontier, keys, max(map(len, expected))).width == 0
