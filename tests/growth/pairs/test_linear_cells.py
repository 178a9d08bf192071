"""Cells parted by a linear classifier: oblique cuts that are learned, blocks of pairs, and columns of any scale."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from distforest.forest.frontier import Frontier
from distforest.forest.pairs.pair_scores import walked
from distforest.forest.pairs.pair_walks import Walks
from distforest.growth.pairs import linear_cells
from distforest.growth.pairs.linear_cells import LinearCells, Standard
from distforest.growth.pairs.ranking_trees import CellTree
from distforest.sources.point_pairs import PairColumns, PointPairs
from tests.ranking_trees import Asked, Trees, block

N_PAIRS = 600


def pairs_of(seed: int = 0, n_pairs: int = N_PAIRS, scale: float = 1.0, shift: float = 0.0) -> PointPairs:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(60, 3)) * scale + shift
    return PointPairs.from_points(PairColumns("difference", 3), X, rng.integers(0, 60, (n_pairs, 2)))


def part(pairs: PointPairs, codes: np.ndarray, starts: list[int], min_leaf: int = 1) -> CellTree:
    """Cells of consecutive pairs, each parted."""
    n, m = len(starts) - 1, len(codes)
    own = np.arange(m, dtype=np.int32)
    cells = Frontier(np.arange(n), np.zeros(n, np.int32), np.array(starts), own, np.ones(m, np.int32))
    counts = np.array([np.bincount(codes[a:b], minlength=2) for a, b in itertools.pairwise(starts)])
    return LinearCells(min_leaf).part(cells, np.arange(n, dtype=np.int64) + 7, pairs, codes, counts)


@pytest.mark.parametrize(("scale", "shift"), [(1.0, 0.0), (1e-20, 0.0), (1e15, 0.0), (1.0, 1e4)])
def test_an_oblique_border_is_found(scale: float, shift: float) -> None:
    pairs = pairs_of(0, N_PAIRS, scale, shift)
    columns = block(pairs) / scale
    codes = (columns[:, 0] + 2 * columns[:, 1] > 2.4).astype(np.uint8)
    table, ends = part(pairs, codes, [0, N_PAIRS])
    assert table.tree_size.tolist() == [3]
    assert table.width.tolist() == [3, 0, 0]
    assert (codes == (ends == 2)).mean() > 0.97  # small values alike: they go left
    direction = table.weights / np.linalg.norm(table.weights)
    assert direction @ np.array([1.0, 2.0, 0.0]) / np.sqrt(5) > 0.97
    assert np.array_equal(walked(Walks(table), 0, pairs), ends)


@pytest.mark.parametrize("far", [1e3, 1e6, 1e15])
@pytest.mark.parametrize("at_once", [N_PAIRS, 100])
def test_a_far_point_has_no_say_in_the_direction(far: float, at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linear_cells, "PAIRS_AT_ONCE", at_once)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    X[0] = far
    pairs = PointPairs.from_points(PairColumns("difference", 3), X, rng.integers(0, 60, (N_PAIRS, 2)))
    columns, apart = block(pairs), (pairs.left == 0) != (pairs.right == 0)
    codes = (columns[:, 0] + 2 * columns[:, 1] > 2.4).astype(np.uint8)
    codes[apart] = rng.integers(0, 2, apart.sum())
    table, ends = part(pairs, codes, [0, N_PAIRS])
    assert (codes == (ends == 2))[~apart].mean() > 0.95
    direction = table.weights / np.linalg.norm(table.weights)
    assert direction @ np.array([1.0, 2.0, 0.0]) / np.sqrt(5) > 0.95


def test_a_rare_class_weighs_as_much_as_the_other() -> None:
    pairs = pairs_of(1)
    columns = block(pairs)
    codes = np.ones(N_PAIRS, np.uint8)
    codes[np.argsort(columns.sum(axis=1))[:6]] = 0
    _table, ends = part(pairs, codes, [0, N_PAIRS])
    assert set(ends[codes == 0].tolist()) == {1}
    assert (ends == 1).sum() < 60


def test_cells_are_parted_each_by_itself() -> None:
    pairs = pairs_of(2)
    codes = (np.random.default_rng(0).random(N_PAIRS) < 0.4).astype(np.uint8)
    table, ends = part(pairs, codes, [0, 150, 600])
    assert table.tree_size.tolist() == [3, 3]
    first, first_ends = part(pairs.of_pairs(pairs.left[:150], pairs.right[:150]), codes[:150], [0, 150])
    for name, array in first.arrays().items():
        own = table.arrays()[name]
        assert own[: len(array)].tobytes() == array.tobytes()
    assert ends[:150].tolist() == first_ends.tolist()


def test_blocks_are_read_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Moments do not depend on the blocks; the classifier takes its steps block by block."""
    pairs = pairs_of(3)
    rows = np.arange(N_PAIRS, dtype=np.int32)
    whole = Standard.from_pairs(pairs, rows, rows)
    columns = block(pairs)
    heard = np.where((whole.fences[0] <= columns) & (columns <= whole.fences[1]), columns, np.nan)
    codes = (columns[:, 0] + columns[:, 1] > 2).astype(np.uint8)
    monkeypatch.setattr(linear_cells, "PAIRS_AT_ONCE", 100)
    some = Standard.from_pairs(pairs, rows, rows)
    for name, expected in (("mean", np.nanmean(heard, axis=0)), ("deviation", np.nanstd(heard, axis=0))):
        np.testing.assert_allclose(getattr(whole, name), getattr(some, name), rtol=1e-12)
        np.testing.assert_allclose(getattr(whole, name), expected, rtol=1e-6)
    table, ends = part(pairs, codes, [0, N_PAIRS])
    assert (codes == (ends == 2)).mean() > 0.95
    again, twice = part(pairs, codes, [0, N_PAIRS])
    assert table.weights.tobytes() == again.weights.tobytes()
    assert ends.tobytes() == twice.tobytes()


@pytest.mark.parametrize("min_leaf", [1, 4, 5])
def test_sides_are_not_too_light(min_leaf: int) -> None:
    X = np.array([[0.0], [0.0], [0.0], [0.0], [9.0], [9.0], [9.0], [9.0], [5.0]])
    pairs = PointPairs.from_points(PairColumns("difference", 1), X, [[k, 8] for k in range(8)])
    pairs = pairs.of_pairs(np.tile(np.arange(4, dtype=np.int32), 2), np.arange(8, dtype=np.int32))
    codes = np.array([0, 0, 0, 0, 1, 1, 1, 1], np.uint8)
    table, ends = part(pairs, codes, [0, 8], min_leaf)
    assert table.tree_size.tolist() == ([1] if min_leaf == 5 else [3])
    assert set(ends.tolist()) == ({0} if min_leaf == 5 else {1, 2})


def test_constant_columns_part_nothing() -> None:
    pairs = PointPairs.from_points(PairColumns("difference_mean", 2), np.full((4, 2), 3.0), [[0, 1], [1, 2], [2, 3]])
    table, ends = part(pairs, np.array([0, 1, 0], np.uint8), [0, 3])
    assert table.tree_size.tolist() == [1]
    assert ends.tolist() == [0, 0, 0]
    assert not table.gain.any()


def test_whole_trees_of_linear_cells_rank_what_was_planted() -> None:
    pairs = pairs_of(4)
    codes = (block(pairs).sum(axis=1) > 3.0).astype(np.uint8)
    weights = np.ones(N_PAIRS, np.int32)
    trees = Trees.grown(pairs, codes, weights, np.array([0, N_PAIRS]), Asked(3), LinearCells(3))
    assert trees.curve(0).auc > 0.99
    inner = ~trees.table.is_leaf
    assert trees.table.width[inner].tolist() == [3] * inner.sum()
