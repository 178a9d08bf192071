"""Whole trees against naive.py, and trees that do not know of each other nor of how a level is searched."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distforest.forest.frontier import Frontier
from distforest.forest.node_table import NodeTable, route
from distforest.growth import grower
from distforest.growth.cuts import mean_distance
from distforest.growth.cuts.criteria import Gini, Variance
from distforest.growth.cuts.mean_distance import MeanDistance
from distforest.growth.cuts.search import Limits, project_and_cut
from distforest.growth.draws.column_draws import Axis
from distforest.growth.grower import Growth
from distforest.sources.arrays import ArraySource
from tests import samples
from tests.reference import naive
from tests.tries import tries

if TYPE_CHECKING:
    from distforest.growth.cuts.criteria import Criterion

pytestmark = pytest.mark.kernels

FREE = settings(max_examples=tries(50))
NODE_ARRAYS = ("left", "right", "threshold", "width", "n_rows")


def subtables(table: NodeTable) -> list[dict[str, np.ndarray]]:
    """The table of each tree alone."""
    found = []
    for tree in range(table.n_trees):
        nodes = slice(table.tree_start[tree], table.tree_start[tree + 1])
        terms = slice(table.offset[nodes.start], table.offset[nodes.stop])
        own = {name: getattr(table, name)[nodes] for name in (*NODE_ARRAYS, "gain")}
        found.append({**own, "columns": table.columns[terms], "weights": table.weights[terms]})
    return found


def assert_trees(growth: Growth, pairs: naive.Pairs, X: np.ndarray, in_bag: np.ndarray, trees: np.ndarray) -> None:
    """Each tree is the reference's: same nodes, same cuts, same leaves."""
    table, leaves = growth.grow(trees, in_bag)
    draw: Any = growth.draw
    limits = growth.limits
    own = naive.Limits(draw.width, limits.min_samples_split, limits.min_samples_leaf, limits.max_depth)
    source = ArraySource.from_values(X)
    routed = route(table, source, np.arange(len(X), dtype=np.int32))
    table.check(X.shape[1])
    assert table.n_trees == len(trees)
    for place, found in enumerate(subtables(table)):
        expected = naive.grow_tree(X, pairs, in_bag[place], growth.seed, int(trees[place]), own)
        for name in (*NODE_ARRAYS, "columns", "weights"):
            assert found[name].tolist() == expected[name].tolist(), name
        np.testing.assert_allclose(found["gain"], expected["gain"], rtol=1e-10)
        assert found["n_rows"].dtype == np.int64
        drawn = in_bag[place] > 0
        assert leaves[place][drawn].tolist() == expected["leaves"][drawn].tolist()
        assert (leaves[place][~drawn] == -1).all()
        assert routed[place].tolist() == expected["leaves"].tolist()


@st.composite
def tasks(draw: st.DrawFn) -> dict[str, Any]:
    """Features with ties and missing values, weights, limits, seed, trees."""
    n, p = draw(st.integers(1, 9)), draw(st.integers(1, 4))
    numbers = st.sampled_from([0.0, 1.0, 2.0, 3.5]) if draw(st.booleans()) else st.floats(-9, 9, width=32)
    if draw(st.booleans()):
        numbers = st.one_of(numbers, st.just(float("nan")))
    X = np.array(draw(st.lists(st.lists(numbers, min_size=p, max_size=p), min_size=n, max_size=n)), np.float32)
    trees = draw(st.lists(st.integers(0, 1000), min_size=1, max_size=3, unique=True))
    one = st.lists(st.integers(0, 5), min_size=n, max_size=n).filter(any)
    in_bag = np.array(draw(st.lists(one, min_size=len(trees), max_size=len(trees))), np.int32)
    limits = Limits(draw(st.integers(2, 6)), draw(st.integers(1, 3)), draw(st.one_of(st.none(), st.integers(0, 3))))
    growing = {"draw": Axis(p, draw(st.integers(1, p))), "limits": limits, "seed": draw(st.integers(0, 2**63 - 1))}
    return {"X": X, "trees": np.array(trees), "in_bag": in_bag, "growing": growing}


def growth_of(task: dict[str, Any], criterion: Criterion) -> Growth:
    return Growth(ArraySource.from_values(task["X"]), criterion=criterion, search=project_and_cut, **task["growing"])


@FREE
@given(tasks(), st.data())
def test_trees_of_labels(task: dict[str, Any], data: st.DataObject) -> None:
    n = len(task["X"])
    codes = np.array(data.draw(st.lists(st.integers(0, 2), min_size=n, max_size=n)), np.int32)
    growth = growth_of(task, Gini(codes, 3))
    assert_trees(growth, naive.label_pairs(codes), task["X"], task["in_bag"], task["trees"])


@pytest.mark.slow
@FREE
@given(tasks(), st.data(), st.sampled_from([0.5, 1.0]), st.integers(1, 2))
def test_trees_of_targets_and_embeddings(task: dict[str, Any], data: st.DataObject, factor: float, q: int) -> None:
    n = len(task["X"])
    one = st.lists(st.sampled_from([-3.0, 0.0, 0.5, 1.0, 8.0]), min_size=q, max_size=q)
    Y = np.array(data.draw(st.lists(one, min_size=n, max_size=n)))
    growth = growth_of(task, Variance.from_vectors(Y, factor))
    assert_trees(growth, naive.embedding_pairs(Y, factor), task["X"], task["in_bag"], task["trees"])


@pytest.mark.slow
@FREE
@given(tasks(), st.integers(0, 99), st.booleans(), st.sampled_from([0, mean_distance.NEAR_CELLS]))
def test_trees_of_distances(task: dict[str, Any], seed: int, rounded: bool, near: int) -> None:
    z = samples.distances(len(task["X"]), seed)
    z = np.round(z) if rounded else z
    criterion, pairs = MeanDistance.from_distances(z, float(z.max())), naive.Distances(z, float(z.max()))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mean_distance, "NEAR_CELLS", near)  # 0: blocks are packed however small the matrix is
        assert_trees(growth_of(task, criterion), pairs, task["X"], task["in_bag"], task["trees"])


@pytest.mark.slow
@FREE
@given(tasks(), st.data())
def test_trees_of_a_batch_do_not_know_of_each_other(task: dict[str, Any], data: st.DataObject) -> None:
    z = samples.distances(len(task["X"]))
    growth = growth_of(task, MeanDistance.from_distances(z, float(z.max())))
    together, leaves = growth.grow(task["trees"], task["in_bag"])
    order = data.draw(st.permutations(range(len(task["trees"]))))
    other, other_leaves = growth.grow(task["trees"][order], task["in_bag"][order])
    for place, tree in enumerate(order):
        assert other_leaves[place].tolist() == leaves[tree].tolist()
        own, same = subtables(together)[tree], subtables(other)[place]
        assert samples.bits(own) == samples.bits(same)


@pytest.mark.parametrize("cells", [1, 40, 300])
@pytest.mark.parametrize("case", ["labels", "oblique", "targets", "members", "missing"])
def test_slabs_change_nothing(case: str, cells: int, monkeypatch: pytest.MonkeyPatch) -> None:
    problem = samples.problem_of(case)
    whole = problem.grow(np.arange(3))
    monkeypatch.setattr(grower, "SLAB_CELLS", cells)
    slabs = problem.grow(np.arange(3))
    assert samples.bits(slabs) == samples.bits(whole)


@pytest.mark.parametrize("cells", [40, grower.SLAB_CELLS])
def test_packing_changes_nothing(cells: int, monkeypatch: pytest.MonkeyPatch) -> None:
    problem = samples.problem_of("members")
    matrix = problem.grow(np.arange(3))
    monkeypatch.setattr(mean_distance, "NEAR_CELLS", 0)
    monkeypatch.setattr(grower, "SLAB_CELLS", cells)
    packed, pack = [], MeanDistance.pack

    def counted(self: MeanDistance, frontier: Frontier) -> MeanDistance:
        packed.append(frontier.n_nodes)
        return pack(self, frontier)

    monkeypatch.setattr(MeanDistance, "pack", counted)
    blocks = problem.grow(np.arange(3))
    assert len(packed) > 1  # packed, and packed again below
    assert samples.bits(blocks) == samples.bits(matrix)


def test_a_level_is_searched_in_slabs_of_whole_nodes() -> None:
    frontier = samples.level([[0, 1, 2], [3], [4, 5], [6], [7, 8, 9, 10]], [[1] * 3, [1], [1] * 2, [1], [1] * 4])
    slabs = grower._slabs
    assert list(slabs(frontier, 2, 2)) == [(0, 5)]
    original = grower.SLAB_CELLS
    try:
        grower.SLAB_CELLS = 8
        assert list(slabs(frontier, 2, 2)) == [(0, 2), (2, 4), (4, 5)]
        assert list(slabs(frontier, 1, 4)) == [(0, 2), (2, 4), (4, 5)]  # room for four candidates of each node
        grower.SLAB_CELLS = 1
        assert list(slabs(frontier, 2, 2)) == [(node, node + 1) for node in range(5)]
    finally:
        grower.SLAB_CELLS = original
    assert list(slabs(Frontier.roots(np.zeros((0, 4), np.int32)), 2, 2)) == []


def test_limits_are_read_as_weights_and_depths() -> None:
    frontier = samples.level([[0, 1], [2, 3], [0, 2]], [[1, 1], [2, 1], [3, 1]])
    criterion = Gini(np.array([0, 1, 1, 1], np.int32), 2)
    assert Limits(min_samples_split=3).open(frontier, 4, criterion).tolist() == [False, False, True]
    assert Limits(min_samples_split=2).open(frontier, 4, criterion).tolist() == [True, False, True]
    assert Limits(max_depth=5).open(frontier, 4, criterion).tolist() == [True, False, True]
    assert Limits(max_depth=4).open(frontier, 4, criterion).tolist() == [False, False, False]


def test_a_row_with_a_missing_value_stays_at_its_inner_node() -> None:
    X = np.array([[0.0], [1.0], [np.nan], [np.nan]], np.float32)
    growth = Growth(
        ArraySource.from_values(X), Axis(1, 1), Gini(np.array([0, 1, 0, 1], np.int32), 2), Limits(), 0, project_and_cut
    )
    table, leaves = growth.grow(np.array([0]), np.array([[1, 1, 2, 0]], np.int32))
    assert leaves.tolist() == [[1, 2, 0, -1]]
    assert (table.left.tolist(), table.n_rows.tolist()) == ([1, -1, -1], [4, 1, 1])
    assert route(table, ArraySource.from_values(X), np.arange(4, dtype=np.int32)).tolist() == [[1, 2, 0, 0]]


def test_a_node_without_a_cut_tries_the_columns_that_are_left() -> None:
    # Only the last column can be cut: at one candidate an attempt, every node must come to it.
    X = np.zeros((8, 6), np.float32)
    X[:, 4] = np.arange(8)
    growth = Growth(
        ArraySource.from_values(X),
        Axis(6, 1),
        Gini((np.arange(8) % 2).astype(np.int32), 2),
        Limits(),
        3,
        project_and_cut,
    )
    table, leaves = growth.grow(np.arange(5), np.ones((5, 8), np.int32))
    assert set(table.columns.tolist()) == {4}
    assert all(len(set(own)) == 8 for own in leaves.tolist())
