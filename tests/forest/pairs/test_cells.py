"""The cells of ranking trees against the formulas: what each parting gains, and in which order they go."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from distforest import TreeRank
from distforest.evaluation.roc import ROC
from distforest.forest.pairs.pair_scores import ranks_of, training_pairs, walked
from distforest.forest.pairs.pair_walks import Walks
from distforest.forest.pairs.ranking_cells import Cells, order_of_pruning, pruned
from tests.ranking_trees import Asked, Trees, planted
from tests.reference import naive_trees_of_pairs as ref

N_POINTS = 40

grown = st.builds(
    planted,
    st.integers(0, 2**32),
    st.lists(st.integers(2, 40), min_size=1, max_size=2),
    st.builds(Asked, st.integers(1, 5), st.integers(1, 2), st.integers(1, 3), square=st.booleans()),
)


def addresses(cells: Cells) -> dict[int, tuple[int, int]]:
    """Depth and number of each cell, from the root down."""
    found, open_cells = {0: (0, 0)}, [0]
    while open_cells:
        cell = open_cells.pop()
        depth, k = found[cell]
        for part, own in ((cells.better[cell], 2 * k), (cells.worse[cell], 2 * k + 1)):
            if part >= 0:
                found[int(part)] = (depth + 1, own)
                open_cells.append(int(part))
    return found


@pytest.mark.slow
@settings(max_examples=40)
@given(grown)
def test_each_parting_gains_half_its_lambda(trees: Trees) -> None:
    for tree in range(trees.n_trees):
        cells = Cells.from_ranks(trees.ranks, tree)
        where = addresses(cells)
        expected = {(c["depth"], c["k"]): c for c in ref.inner_of(trees.asked.expected(trees.sample(tree)))}
        gains = cells.gains(cells.counts)
        assert {where[cell] for cell in np.flatnonzero(cells.better >= 0).tolist()} == {
            address for address, cell in expected.items() if "left" in cell
        }
        start = trees.table.tree_start[tree]
        for cell, (depth, k) in where.items():
            assert trees.ranks.scores[start + cell] == 1 - k / 2**depth
            own = expected.get((depth, k), {}).get("gain", Fraction(0))
            assert gains[cell] == pytest.approx(float(own) / 2, abs=1e-15)
        assert set(where) == set(np.flatnonzero(trees.ranks.scores[start : start + len(gains)] > 0).tolist())


@pytest.mark.slow
@settings(max_examples=40)
@given(grown)
def test_partings_go_in_the_order_of_the_formulas(trees: Trees) -> None:
    for tree in range(trees.n_trees):
        smaller = ref.prune(trees.asked.expected(trees.sample(tree)))
        inner = [{(c["depth"], c["k"]): c["gain"] for c in ref.inner_of(own) if "left" in c} for own in smaller]
        gains = list(inner[0].values())
        assume(len(set(gains)) == len(gains))
        cells = Cells.from_ranks(trees.ranks, tree)
        order = order_of_pruning(cells)
        where = addresses(cells)
        expected = [(set(before) - set(after)).pop() for before, after in pairwise(inner)]
        assert [where[cell] for cell, _ in order] == expected
        largest = np.maximum.accumulate([float(inner[0][address]) / 2 for address in expected])
        np.testing.assert_allclose([gain for _, gain in order], largest, rtol=1e-12)


def test_the_order_of_pruning_by_hand() -> None:
    better, worse = np.array([1, 3, 5, -1, -1, -1, -1]), np.array([2, 4, 6, -1, -1, -1, -1])
    counts = np.array([[8, 8], [6, 4], [2, 4], [4, 1], [2, 3], [2, 1], [0, 3]])
    cells = Cells(0, counts, better, worse, np.arange(7))
    # 2 gain is n_- n_+(better) - n_+ n_-(better), of 64: 16, 4 * 4 - 6 * 1, 4 * 2 - 2 * 1
    np.testing.assert_array_equal(cells.gains(counts) * 128, [16, 10, 6, 0, 0, 0, 0])
    assert order_of_pruning(cells) == [(2, 6 / 128), (1, 10 / 128), (0, 16 / 128)]
    counts = np.array([[8, 8], [2, 4], [6, 4], [2, 1], [0, 3], [3, 1], [3, 3]])  # the root gains least, and waits
    assert order_of_pruning(Cells(0, counts, better, worse, np.arange(7))) == [(1, 6 / 128), (2, 6 / 128), (0, 6 / 128)]


@pytest.fixture(scope="module")
def forest() -> TreeRank:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(N_POINTS, 3)), np.arange(N_POINTS) % 3
    X[:, 0] += y
    return TreeRank(3, n_pairs=250, max_depth=5, leafrank_depth=2, min_samples_leaf=2, random_state=0).fit(X, y)


@pytest.mark.parametrize("gain", [0.0, 1e-3, 3e-3, 1e-2, 1.0])
def test_a_pruned_forest_is_the_forest_with_fewer_cells(forest: TreeRank, gain: float) -> None:
    whole = forest.forest_
    some = pruned(whole, gain)
    some.check()
    before, after = ranks_of(whole), ranks_of(some)
    every = np.stack(np.triu_indices(N_POINTS, 1), axis=1).astype(np.int32)
    pairs = training_pairs(whole, every)
    for tree in range(3):
        start = whole.table.tree_start[tree]
        cells = Cells.from_ranks(before, tree)
        order = order_of_pruning(cells)
        gone = {cell for cell, largest in order if largest <= gain}
        ends = walked(Walks(some.table), tree, pairs)
        scores = after.scores[ends]
        assert len(after.leaves_in_order(tree)) == len(before.leaves_in_order(tree)) - len(gone)
        old_scores = before.scores[walked(Walks(whole.table), tree, pairs)]
        parents = {int(part): cell for cell in gone for part in (cells.better[cell], cells.worse[cell])}
        tops = [cell for cell in gone if cell not in parents]
        spans = {before.scores[start + cell]: _span(cell, cells) for cell in tops}
        for old, new in zip(old_scores.tolist(), scores.tolist(), strict=True):
            assert old == new or new - spans[new] < old < new
        curves = [ROC.of_counts(*table.class_counts[table.leaves_in_order(tree)].T) for table in (before, after)]
        lost = sum(cells.gains(cells.counts)[cell] for cell in gone)
        assert curves[0].auc - curves[1].auc == pytest.approx(lost, abs=1e-12)
    if gain == 0.0:
        assert some.digest == whole.digest
    if gain == 1.0:
        assert some.table.tree_size.tolist() == [1, 1, 1]


def _span(cell: int, cells: Cells) -> float:
    """The width 2^-d of the scores below a cell of depth d."""
    depth, parents = 0, {}
    for own in np.flatnonzero(cells.better >= 0).tolist():
        parents |= {int(cells.better[own]): own, int(cells.worse[own]): own}
    while cell:
        cell, depth = parents[cell], depth + 1
    return 0.5**depth
